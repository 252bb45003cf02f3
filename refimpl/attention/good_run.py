r"""Lemma A.1 and Definitions A.1, C.1: the events on which both theorems are proved.

k = constants(setting, margin)                       C', c1, c2, c' from Appendix B
good_run(sample, mu, setting, k)                     {"(i) lower": slack, ...}: a good run has all >= 1
good_test(noise, training_noise, mu, setting, k)     the same for each test sample
"""

from typing import NamedTuple

import numpy as np

from refimpl.attention import concentration
from refimpl.attention.setting import checked, log_factor
from refimpl.checks import arrays, finite, number


class Constants(NamedTuple):
    """The constants of Lemma A.1.

    deviation : 1/C'.  c1, c2 : of the products of noises, and of noises with signals.  margin : c'.

    States: attention Lemma A.1
    """

    deviation: float
    c1: float
    c2: float
    margin: float


def constants(setting, margin):
    r"""Lemma A.1. The constants that Appendix B's proofs give, for $Tn/\delta \ge 8$ and $n \ge
    \log(32/\delta)/(2c'^2)$.

    1/C' is the larger of the two deviations in Lemma B.3, over $\sqrt{\mathrm{Tr}\,\Sigma}$; c1 and c2 are those of
    B.5, B.6.

    setting : a Setting.  margin : c' > 0.  Returns Constants.  Raises ValueError where one of the two provisos fails.

    States: attention Lemma A.1
    """
    s = checked(setting)
    if np.exp(s.log) < 8 * (1 - 1e-12):
        raise ValueError(f"delta: needs Tn/delta >= 8, got {s.T * s.n / s.delta:.3g}")
    if s.n < concentration.samples_needed(margin, s.delta):
        raise ValueError(f"margin: needs n >= {concentration.samples_needed(margin, s.delta):.4g}, got {s.n}")
    lower, upper = concentration.norm_range(s)
    deviation = max(upper / np.sqrt(s.trace) - 1, 1 - lower / np.sqrt(s.trace))
    c1, c2 = concentration.noise_product_constant(s.sigma_max), concentration.signal_product_constant(s.sigma_max)
    return Constants(float(deviation), c1, c2, float(margin))


def good_run(sample, mu, setting, k):
    r"""Definition A.1. The events (i)-(iv) of Lemma A.1, together of probability at least $1 - \delta$.

    (i) $(1 - 1/C')\sqrt{\mathrm{Tr}\,\Sigma} \le \|\epsilon\| \le (1 + 1/C')\sqrt{\mathrm{Tr}\,\Sigma}$.
    (ii) $|\langle\epsilon, \epsilon'\rangle| \le c_1 \sqrt{\mathrm{Tr}\,\Sigma} \log(Tn/\delta)$ for two different
    noises.
    (iii) $|\langle\epsilon, \mu_c\rangle| \le c_2 \|\mu\| \sqrt{\log(Tn/\delta)}$.
    (iv) $|C_c| \in (\frac{1-\eta}{2} \pm c')n$ and $|N_c| \in (\frac\eta2 \pm c')n$.

    sample : a data.Sample.  mu : (2, d).  setting : the Setting of its law.  k : Constants.
    Returns {event: slack}, each >= 1 on a good run.  Raises ValueError where the axes do not agree.

    States: attention Definition A.1; attention Lemma A.1
    """
    noise, mu, Y, Y_star = arrays(
        noise=(sample.noise, "nTd"), mu=(mu, "2d"), Y=(sample.Y, "n"), Y_star=(sample.Y_star, "n")
    )
    s, flat = _of_sizes(setting, sample=noise), noise.reshape(-1, noise.shape[-1])
    products = flat @ flat.T
    norms = np.sqrt(np.diag(products))
    np.fill_diagonal(products, 0)
    slack = _slack(norms[None], products[None], (flat @ mu.T)[None], mu, s, k)
    for name, right, (lower, upper) in zip("CN", (1, -1), concentration.class_counts(s.n, s.noise_rate, k.margin)):
        counts = [np.sum((Y == c) & (Y * Y_star == right)) for c in (1, -1)]
        slack |= {f"(iv) {name} lower": _over(min(counts), lower), f"(iv) {name} upper": _over(upper, max(counts))}
    return {event: value.item() for event, value in slack.items()}


def good_test(noise, training_noise, mu, setting, k, beyond=0.0):
    r"""Definition C.1. The event E: (i)-(iii) for a test sample's tokens, with $\log(Tn/\delta)$ and constants of the
    training.

    The products are those with every training noise and those between two of the sample's own.

    noise : (m, T, d) of m test samples.  training_noise : (n, T, d).  mu : (2, d).
    setting : the training's Setting.  k : Constants.
    beyond : (m, T), the squared norm that each test noise has outside of the d coordinates (wishart.py), or one number.
    Returns {event: (m,) slacks}.  Raises ValueError where the axes do not agree.

    States: attention Definition C.1
    """
    noise, training, mu = arrays(noise=(noise, "mTd"), training_noise=(training_noise, "nTd"), mu=(mu, "2d"))
    s, own = _of_sizes(setting, training_noise=training), noise @ noise.transpose(0, 2, 1)
    norms = np.sqrt(np.einsum("mtt->mt", own) + finite("beyond", beyond))
    own[:, np.arange(s.T), np.arange(s.T)] = 0
    products = np.concatenate((noise @ training.reshape(-1, training.shape[-1]).T, own), axis=-1)
    return _slack(norms, products, noise @ mu.T, mu, s, k)


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


def failure_given_good_run(setting, k):
    r"""Section C.2. A bound on $\Pr[E^c]$ given the training sample, on any good run.

    Lemma C.1 averages over training samples, the test error of Theorem 4.1 is that of one. Given $\epsilon'$ with
    (i), B.4 has $\Pr[|\langle\epsilon, \epsilon'\rangle| > c_1 \sqrt{\mathrm{Tr}\,\Sigma} \log(Tn/\delta)] \le 2
    \exp(-c_1^2 \log^2(Tn/\delta) / (2 \sigma_{\max} (1 + 1/C')^2))$ for each of $nT^2$ pairs; the sample's own pairs,
    norms and products with signals are as in failure_bounds.

    setting : a Setting.  k : Constants.  Returns a float.

    States: attention Lemma C.1; attention Section C.2
    """
    s = checked(setting)
    n, T, sigma_max = s.n, s.T, number("Sigma: the largest", s.sigma_max, above=0)
    trained = 2 * n * T**2 * np.exp(-((k.c1 * s.log / (1 + k.deviation)) ** 2) / (2 * sigma_max))
    parts = failure_bounds(n, T, s.delta)
    return float(trained + T * (T - 1) / 2 * s.delta / (2 * (T * n) ** 2) + parts["(i)"] + parts["(iii)"])


def _of_sizes(setting, **named):
    """The setting, checked, for a noise (n, T, d) of its n and T."""
    s, ((name, noise),) = checked(setting), named.items()
    if noise.shape[:2] != (s.n, s.T):
        raise ValueError(f"{name}: must have the setting's n, T = {s.n}, {s.T}, got {noise.shape[:2]}")
    return s


def _slack(norms, products, signal_products, mu, setting, k):
    """(i)-(iii), each array's slack over all axes but the first."""
    root, log = np.sqrt(number("Sigma: the trace", setting.trace, above=0)), setting.log
    norm, rows = np.linalg.norm(mu[0]), len(norms)
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
