r"""Theorem 4.1 and Sections C.1, C.2: a p that fits the noisy labels and still generalises, built and checked.

    noisy, tokens = memorised_tokens(sample)                 j in N, and a u_j in W^(j)_{Y_j} for each
    v = direction(mu, sample.noise, noisy, tokens, beta)     mu_{+1} + mu_{-1} + sum_j beta_j eps^(j)_{u_j}
    R = least_scale(setting, beta, c2)                       what the proof asks for
    p = solution(v, R, W)                                    R W v

Every logit of p is R times a product of a token with v. The proof bounds these products (logit_bounds), under
requirements that (A1)-(A3) grant for a large C (requirements); the rest is softmax. In formulas $m = \|\mu\|$,
$\log$ is $\log(Tn/\delta)$.
"""

import math

import numpy as np

from refimpl.attention.data import RELEVANT
from refimpl.attention.setting import checked
from refimpl.checks import arrays, finite, matrix, number


def memorised_tokens(sample):
    r"""Theorem 4.1. For each noisy $j \in N$ the first weakly relevant token that agrees with its label, $u_j \in
    W^{(j)}_{Y_j}$.

    sample : a data.Sample.  Returns noisy : (|N|,), tokens : (|N|,), integers.

    States: attention Theorem 4.1
    """
    Y, Y_star, roles = arrays(Y=(sample.Y, "n"), Y_star=(sample.Y_star, "n"), roles=(sample.roles, "nT"))
    noisy = np.flatnonzero(Y != Y_star)
    matches = roles[noisy] == Y[noisy, None]
    if not np.all(matches.any(axis=1)):
        raise ValueError("sample: a noisy sample has no weak token that matches its label")
    return noisy, np.argmax(matches, axis=1)


def direction(mu, noise, noisy, tokens, beta):
    r"""Theorem 4.1. $v = \mu_{+1} + \mu_{-1} + \sum_{j \in N} \beta_j \epsilon^{(j)}_{u_j}$, with $\beta_j =
    \Theta(1/n)$.

    mu : (2, d).  noise : (n, T, d).  noisy, tokens : (|N|,), from memorised_tokens.  beta : (|N|,) or one number.
    Returns (d,).  Raises ValueError where the axes do not agree.

    States: attention Theorem 4.1
    """
    mu, noise = arrays(mu=(mu, "2d"), noise=(noise, "nTd"))
    beta = np.broadcast_to(finite("beta", beta), len(noisy))
    return mu.sum(axis=0) + beta @ noise[noisy, tokens]


def solution(v, R, W=None):
    r"""Theorem 4.1. $p = R \cdot W v$.

    v : (d,) from direction.  R : > 0.  W : (d, d) orthogonal, the identity where None.  Returns (d,).

    States: attention Theorem 4.1
    """
    v = number("R", R, above=0) * arrays(v=(v, "d"))
    return v if W is None else matrix(W, v=v) @ v


def relevant_attention(z, roles):
    r"""Eq. 101. $\sum_{t \in R} s_t \ge 1 - \frac{1 - \zeta_R}{\zeta_R} \max_{u \notin R, t \in R} e^{z_u - z_t}$,
    for any logits z.

    $1/(1 + x) \ge 1 - x$ with x the other tokens' $\sum e^{z_u}$ over the relevant ones' $\sum e^{z_t}$.

    z, roles : (n, T), in each row a relevant token and another.  Returns the two sides, (n,) each.

    States: attention Section C.1
    """
    z, roles = arrays(z=(z, "nT"), roles=(roles, "nT"))
    own = roles == RELEVANT
    zeta = own.mean(axis=1)
    gap = np.max(np.where(own, -np.inf, z), axis=1) - np.min(np.where(own, z, np.inf), axis=1)
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.sum(e * own, axis=1) / e.sum(axis=1), 1 - (1 - zeta) / zeta * np.exp(np.minimum(gap, 700))


def logit_bounds(setting, beta, k):
    r"""Eqs. 104, 105, 116, divided by R: on a good run, products of tokens with v, through Lemma A.1 and then
    simplified.

    With $B = \sum_j \beta_j$, $S = c_2 m \sqrt{\log}$, $Q = c_1 \sqrt{\mathrm{Tr}\,\Sigma} \log$:

    Eq. 104, a relevant token of a clean sample: $\langle x_t, v\rangle \ge m^2 - (2 + B) S - B Q \ge m^2 / 2$.
    Eq. 105, its other tokens: $\langle x_u, v\rangle \le \rho m^2 + (2 + \rho B) S + B Q \le m^2 / 4$.
    Eq. 116, the tokens $t \ne u_j$ of a noisy sample: $\langle x_t - x_{u_j}, v\rangle \le (1 - \rho) m^2 +
    (4 + (1 + \rho) B) S + (2B - \beta_j) Q - \beta_j (1 - 1/C')^2 \mathrm{Tr}\,\Sigma \le -\beta_j
    \mathrm{Tr}\,\Sigma / 8$.

    setting : a Setting.  beta : (|N|,).  k : good_run.Constants.
    Returns {"Eq. 104": (through the lemma, simplified), "Eq. 105": ..., "Eq. 116": ...}; arrays (|N|,) in the last.

    States: attention Section C.1
    """
    beta, m, rho, trace, S, Q = _terms(setting, beta, k)
    B = beta.sum()
    memory = beta * (1 - k.deviation) ** 2 * trace
    gap = (1 - rho) * m**2 + (4 + (1 + rho) * B) * S + (2 * B - beta) * Q
    return {
        "Eq. 104": (m**2 - (2 + B) * S - B * Q, m**2 / 2),
        "Eq. 105": (rho * m**2 + (2 + rho * B) * S + B * Q, m**2 / 4),
        "Eq. 116": (gap - memory, -beta * trace / 8),
    }


def requirements(setting, beta, k):
    r"""Sections C.1, C.2. What the proof takes from (A1)-(A3), C large: the simplified forms of logit_bounds, and a
    weak score.

    Eq. 104, by (A2): $m^2/4$ is above each of $(2 + B)S$ and $BQ$.
    Eq. 105, by (A3).
    Eq. 116, by (A1), (A2) and Eq. 44: $\beta_j \mathrm{Tr}\,\Sigma/8$ is above each of its first three terms, and
    $(1 - 1/C')^2 \ge 1/2$.
    Eq. 120, by (A3): $\rho m \ge 3 c_2 \sqrt{\log}$.

    Arguments as in logit_bounds.  Returns {requirement: slack}, >= 1 where it holds.

    States: attention Section C.1
    """
    beta, m, rho, trace, S, Q = _terms(setting, beta, k)
    B, memory = beta.sum(), beta.min() * trace / 8
    slack = {
        "Eq. 104, signal": m**2 / 4 / ((2 + B) * S),
        "Eq. 104, noise": m**2 / 4 / (B * Q),
        "Eq. 105": m**2 / 4 / (rho * m**2 + (2 + rho * B) * S + B * Q),
        "Eq. 116, A1": memory / ((1 - rho) * m**2),
        "Eq. 116, A2": memory / ((4 + (1 + rho) * B) * S),
        "Eq. 116, Eq. 44": memory / ((2 * B - beta.min()) * Q),
        "Eq. 116, norm": 2 * (1 - k.deviation) ** 2 if k.deviation < 1 else 0.0,
        "Eq. 120": rho * m**2 / (3 * S),
    }
    return {name: float(value) for name, value in slack.items()}


def least_scale(setting, beta, c2):
    r"""Section C.1. The R from which on every training label is fitted, the larger of two.

    Noisy samples have $Y_j f \ge a\rho - e - (1 - s_{u_j}) a (1 + \rho)$ and $1 - s_{u_j} \le (T - 1) e^{-R\beta_j
    \mathrm{Tr}\,\Sigma/8}$. Over $\kappa m$ the last term is below $c_2\sqrt{\log}$ from $R = \frac{8}{\beta_j
    \mathrm{Tr}\,\Sigma} \log \frac{(T - 1)(1 + \rho) m}{c_2 \sqrt{\log}}$ on.
    Clean samples have $Y_i f \ge a - e - (1 - S_R) a (1 + \rho)$ and $1 - S_R \le \frac{1 - \zeta_R}{\zeta_R} e^{-R
    m^2/4}$. With $e < a/2$ the sum is positive from $R = \frac{4}{m^2} \log \frac{2 (1 + \rho)(1 -
    \zeta_R)}{\zeta_R}$ on. The text asks for the first R only. (a, e are scores.ScoreScale's.)

    setting : a Setting.  beta : (|N|,), > 0.  c2 : of Lemma A.1.
    Returns (noisy, clean), floats; the second may be negative.

    States: attention Section C.1; attention Theorem 4.1
    """
    setting = checked(setting)
    weak = number("c2", c2, above=0) * math.sqrt(setting.log)
    smallest = number("beta", np.min(finite("beta", beta)), above=0)
    noisy = 8 / (smallest * setting.trace) * math.log((setting.T - 1) * (1 + setting.weak_scale) * setting.norm / weak)
    others = (setting.T - setting.relevant) / setting.relevant  # (1 - zeta_R) / zeta_R
    return noisy, 4 / setting.norm**2 * math.log(2 * (1 + setting.weak_scale) * others)


def memory_attention(setting, R, beta):
    r"""Eqs. 113, 114. On noisy j: $s_{u_j} \ge 1 - (T - 1) e^{-R\beta_j \mathrm{Tr}/8}$, the others $\le e^{-R\beta_j
    \mathrm{Tr}/8}$.

    setting : a Setting.  R : > 0.  beta : (|N|,).  Returns (least s_{u_j}, most of each other), (|N|,) each.

    States: attention Section C.1
    """
    most = np.exp(-number("R", R, above=0) * finite("beta", beta) * setting.trace / 8)
    return 1 - (setting.T - 1) * most, most


def error_bound(setting):
    r"""Section C.2. $\Pr_{P^*}[\mathrm{sign} f(X) \ne Y^*] \le \Pr[E^c] \le \delta/n$: on E a test sample has Eqs.
    101-105 as a clean one.

    setting : a Setting.  Returns a float.

    States: attention Section C.2; attention Theorem 4.1
    """
    setting = checked(setting)
    return setting.delta / setting.n


def _terms(setting, beta, k):
    """beta, |mu|, rho, Tr, and the sizes S and Q of a product with a signal and of one of noises on a good run."""
    setting = checked(setting)
    Q, S = k.c1 * math.sqrt(setting.trace) * setting.log, k.c2 * setting.norm * math.sqrt(setting.log)
    return arrays(beta=(beta, "N")), setting.norm, setting.weak_scale, setting.trace, S, Q
