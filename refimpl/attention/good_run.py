r"""Lemma A.1 and Definitions A.1, C.1: the events on which both theorems are proved, and Lemma C.2, the scores there.

k = constants(trace, sigma_max, n, T, delta, margin)            C', c1, c2, c' from Appendix B
good_run(sample, mu, trace, noise_rate, delta, k)               {"(i) lower": slack, ...}: a good run has all >= 1
good_test(noise, training_noise, mu, trace, delta, k)           the same for each test sample
low, high = token_score_range(Y, Y_star, roles, ...)            Y_i gamma_t
"""

from typing import NamedTuple

import numpy as np

from refimpl.attention import concentration
from refimpl.attention.conditions import log_factor, score_error
from refimpl.attention.data import RELEVANT
from refimpl.checks import arrays, finite, labels, number


class Constants(NamedTuple):
    """The constants of Lemma A.1: deviation is 1/C', margin is c'.

    States: attention Lemma A.1
    """

    deviation: float
    c1: float
    c2: float
    margin: float


def constants(trace, sigma_max, n, T, delta, margin):
    r"""Lemma A.1. The constants that Appendix B's proofs give, for $Tn/\delta \ge 8$ and $n \ge
    \log(32/\delta)/(2c'^2)$.

    1/C' is the larger of the two deviations in Lemma B.3, over $\sqrt{\mathrm{Tr}\,\Sigma}$; c1 and c2 are those of
    B.5, B.6.

    trace, sigma_max : of Sigma, > 0.  n, T : >= 1.  delta : in (0, 1).  margin : c' > 0.  Returns Constants.
    Raises ValueError where one of the two provisos fails.

    States: attention Lemma A.1
    """
    if np.exp(log_factor(n, T, delta)) < 8 * (1 - 1e-12):
        raise ValueError(f"delta: needs Tn/delta >= 8, got {T * n / delta:.3g}")
    if n < concentration.samples_needed(margin, delta):
        raise ValueError(f"margin: needs n >= {concentration.samples_needed(margin, delta):.4g}, got {n}")
    lower, upper = concentration.norm_range(trace, sigma_max, n, T, delta)
    deviation = max(upper / np.sqrt(trace) - 1, 1 - lower / np.sqrt(trace))
    c1, c2 = concentration.noise_product_constant(sigma_max), concentration.signal_product_constant(sigma_max)
    return Constants(float(deviation), c1, c2, float(margin))


def good_run(sample, mu, trace, noise_rate, delta, k):
    r"""Definition A.1. The events (i)-(iv) of Lemma A.1, together of probability at least $1 - \delta$.

    (i) $(1 - 1/C')\sqrt{\mathrm{Tr}\,\Sigma} \le \|\epsilon\| \le (1 + 1/C')\sqrt{\mathrm{Tr}\,\Sigma}$;
    (ii) $|\langle\epsilon, \epsilon'\rangle| \le c_1 \sqrt{\mathrm{Tr}\,\Sigma} \log(Tn/\delta)$ for two different
    noises; (iii) $|\langle\epsilon, \mu_c\rangle| \le c_2 \|\mu\| \sqrt{\log(Tn/\delta)}$; (iv) $|C_c| \in
    (\frac{1-\eta}{2} \pm c')n$ and $|N_c| \in (\frac\eta2 \pm c')n$.

    sample : a data.Sample.  mu : (2, d).  trace : > 0.  noise_rate : in [0, 1].  k : Constants.
    Returns {event: slack}, each >= 1 on a good run.  Raises ValueError where the axes do not agree.

    States: attention Definition A.1; attention Lemma A.1
    """
    noise, mu, Y, Y_star = arrays(
        noise=(sample.noise, "nTd"), mu=(mu, "2d"), Y=(sample.Y, "n"), Y_star=(sample.Y_star, "n")
    )
    n, T, d = noise.shape
    flat = noise.reshape(n * T, d)
    products = flat @ flat.T
    norms = np.sqrt(np.diag(products))
    np.fill_diagonal(products, 0)
    slack = _slack(norms[None], products[None], (flat @ mu.T)[None], trace, mu, log_factor(n, T, delta), k)
    for name, right, (lower, upper) in zip("CN", (1, -1), concentration.class_counts(n, noise_rate, k.margin)):
        counts = [np.sum((Y == c) & (Y * Y_star == right)) for c in (1, -1)]
        slack |= {f"(iv) {name} lower": _over(min(counts), lower), f"(iv) {name} upper": _over(upper, max(counts))}
    return {event: value.item() for event, value in slack.items()}


def good_test(noise, training_noise, mu, trace, delta, k, beyond=0.0):
    r"""Definition C.1. The event E: (i)-(iii) for a test sample's tokens, with $\log(Tn/\delta)$ and constants of the
    training.

    The products are those with every training noise and those between two of the sample's own.

    noise : (m, T, d) of m test samples.  training_noise : (n, T, d).  mu : (2, d).  k : Constants.
    beyond : (m, T), the squared norm that each test noise has outside of the d coordinates (wishart.py), or one number.
    Returns {event: (m,) slacks}.  Raises ValueError where the axes do not agree.

    States: attention Definition C.1
    """
    noise, training, mu = arrays(noise=(noise, "mTd"), training_noise=(training_noise, "nTd"), mu=(mu, "2d"))
    (n, T, d), own = training.shape, noise @ noise.transpose(0, 2, 1)
    norms = np.sqrt(np.einsum("mtt->mt", own) + finite("beyond", beyond))
    own[:, np.arange(T), np.arange(T)] = 0
    products = np.concatenate((noise @ training.reshape(n * T, d).T, own), axis=-1)
    return _slack(norms, products, noise @ mu.T, trace, mu, log_factor(n, T, delta), k)


def failure_bounds(n, T, delta):
    r"""Lemma C.1. Bounds on the probability of each part of E's complement; their sum is below $\delta/n$.

    With B.5's L and $w$, $nT^2 + T(T-1)/2$ pairs of $4e^{-L} = \delta / (2(Tn)^2)$; 2T products with signals of
    $\delta/(8Tn)$; T norms, by the Gaussian's own tail $2 e^{-t^2/(2\sigma_{\max})} = 2 (\delta/(8Tn))^2$. (The
    looser tail of Lemma B.2 would give $\delta/(4n)$ for the norms, and a sum above $\delta/n$.)

    n, T : >= 1.  delta : in (0, 1).  Returns {event: bound}.

    States: attention Lemma C.1
    """
    log_factor(n, T, delta)
    return {
        "(i)": 2 * T * (delta / (8 * T * n)) ** 2,
        "(ii)": (n * T**2 + T * (T - 1) / 2) * delta / (2 * (T * n) ** 2),
        "(iii)": 2 * T * delta / (8 * T * n),
    }


def failure_given_good_run(n, T, delta, k, sigma_max):
    r"""Section C.2. A bound on $\Pr[E^c]$ given the training sample, on any good run.

    Lemma C.1 averages over training samples, the test error of Theorem 4.1 is that of one. Given $\epsilon'$ with
    (i), B.4 has $\Pr[|\langle\epsilon, \epsilon'\rangle| > c_1 \sqrt{\mathrm{Tr}} \log] \le 2 \exp(-c_1^2 \log^2 / (2
    \sigma_{\max} (1 + 1/C')^2))$ for each of $nT^2$ pairs; the sample's own pairs, norms and products with signals
    are as in failure_bounds.

    n, T : >= 1.  delta : in (0, 1).  k : Constants.  sigma_max : of Sigma, > 0.  Returns a float.

    States: attention Lemma C.1; attention Section C.2
    """
    log, sigma_max = log_factor(n, T, delta), number("sigma_max", sigma_max, above=0)
    trained = 2 * n * T**2 * np.exp(-((k.c1 * log / (1 + k.deviation)) ** 2) / (2 * sigma_max))
    parts = failure_bounds(n, T, delta)
    return float(trained + T * (T - 1) / 2 * delta / (2 * (T * n) ** 2) + parts["(i)"] + parts["(iii)"])


def token_score_range(Y, Y_star, roles, weak_scale, mu, nu, log, c2):
    r"""Lemma C.2. On a good run $Y_i \gamma_t \in \kappa\|\mu\|^2 G_t \pm e$, $\nu = \kappa(\mu_{+1} - \mu_{-1})$, $e
    = 2 c_2 \kappa \|\mu\| \sqrt{\log}$.

    $G = \pm 1$ on R (clean, noisy), $\pm\rho$ on $W_{\pm Y}$, 0 on I: $\langle\nu, \mu_c\rangle = c \kappa\|\mu\|^2$,
    and the noise adds $\kappa(\langle\epsilon, \mu_{+1}\rangle - \langle\epsilon, \mu_{-1}\rangle)$, twice (iii).

    Y, Y_star : (n,).  roles : (n, T).  weak_scale : rho.  mu : (2, d).  nu : (d,).  log : log(Tn/delta) of the
    training. Returns low, high : (n, T).  Raises ValueError where the axes do not agree.

    States: attention Lemma C.2
    """
    Y, Y_star, roles = arrays(Y=(Y, "n"), Y_star=(Y_star, "n"), roles=(roles, "nT"))
    mu, nu = arrays(mu=(mu, "2d"), nu=(nu, "d"))
    own = labels("Y", Y)[:, None] * np.where(roles == RELEVANT, labels("Y_star", Y_star)[:, None], weak_scale * roles)
    a, norm = mu[0] @ nu, np.linalg.norm(mu[0])
    e = score_error(a / norm**2, norm, log, c2)
    return a * own - e, a * own + e


def _slack(norms, products, signal_products, trace, mu, log, k):
    """(i)-(iii), each array's slack over all axes but the first."""
    root, norm = np.sqrt(number("trace", trace, above=0)), np.linalg.norm(mu[0])
    rows = len(norms)
    return {
        "(i) lower": _over(norms.min(axis=1), (1 - k.deviation) * root),
        "(i) upper": _over((1 + k.deviation) * root, norms.max(axis=1)),
        "(ii)": _over(k.c1 * root * log, np.abs(products).reshape(rows, -1).max(axis=1)),
        "(iii)": _over(k.c2 * norm * np.sqrt(log), np.abs(signal_products).reshape(rows, -1).max(axis=1)),
    }


def _over(larger, smaller):
    """The slack larger / smaller, inf where smaller <= 0."""
    larger, smaller = np.broadcast_arrays(np.float64(larger), np.float64(smaller))
    return np.divide(larger, smaller, out=np.full(larger.shape, np.inf), where=smaller > 0)
