r"""Section 9: the tail bounds that the proofs draw on, each with its constant and the range in which it holds.

upper_tail, lower_tail     Lemma 1: exact binomial tail <= its bound
printed_range              Lemma 1: up to which gamma the printed upper bound is one
sub_gaussian_norm          Definition 3, of a law with finitely many values
exponential_moment         what carries Lemma 2
hoeffding                  Lemma 2: exact tail <= its bound, c = 1/(8e)
"""

import itertools

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import rel_entr
from scipy.stats import binom

from refimpl.checks import arrays, count, number

C = 1 / (8 * np.e)  # Lemma 2's absolute constant


def upper_tail(m, p, gamma):
    r"""Lemma 1. $\Pr(\hat p \ge (1 + \gamma) p) \le e^{-m p \gamma^2 / (2 + \gamma)}$ for $\gamma \ge 0$: both sides.

    By Markov and convexity of $e^{\lambda x}$ on [0, 1] (a coin has the largest exponential moment) the left side
    is at most $e^{-m p \phi(\gamma)}$, $\phi(\gamma) = (1 + \gamma) \ln(1 + \gamma) - \gamma$, and $\ln(1 + \gamma)
    \ge 2\gamma / (2 + \gamma)$ gives $\phi \ge \gamma^2 / (2 + \gamma)$. The printed $\gamma^2 / 3$ follows where
    $\gamma \le 1$ and is no bound beyond printed_range.

    m : independent coins of mean p in (0, 1].  gamma >= 0.  Returns (left, right), the left one exact for coins.
    Raises ValueError for numbers out of these ranges.

    States: mamba Lemma 1
    """
    m, p, gamma = count("m", m), number("p", p, above=0, most=1), number("gamma", gamma, 0)
    least = _whole(min(m * (1 + gamma) * p, m + 1.0))  # past m + 1 nothing changes
    return float(binom.sf(least - 1, m, p)), float(np.exp(-m * p * gamma * (gamma / (2 + gamma))))


def lower_tail(m, p, gamma):
    r"""Lemma 1. $\Pr(\hat p \le (1 - \gamma) p) \le e^{-m p \gamma^2 / 2}$ for every $\gamma \ge 0$: both sides.

    As above with $\phi(-\gamma) = (1 - \gamma) \ln(1 - \gamma) + \gamma \ge \gamma^2 / 2$; past $\gamma = 1$ the
    left side is 0.

    Arguments, what is returned and raised : as in upper_tail.

    States: mamba Lemma 1
    """
    m, p, gamma = count("m", m), number("p", p, above=0, most=1), number("gamma", gamma, 0)
    most = -_whole(min(-m * (1 - gamma) * p, 1.0))
    return float(binom.cdf(most, m, p)), float(np.exp(-m * p * gamma * gamma / 2))


def printed_range(p):
    r"""Lemma 1. The largest $\gamma \le 1/p - 1$ up to which $e^{-m p \gamma^2 / 3}$ bounds the upper tail for every m.

    It does where $\mathrm{KL}((1 + \gamma) p \,\|\, p) \ge p \gamma^2 / 3$ (Chernoff), and by Cramer's theorem
    fails for large m where not. For p to 0 that is 1.82, the root of $\phi(\gamma) = \gamma^2 / 3$; from p = .13 on
    it is the whole printed range. The difference of the two sides has a second derivative in $\gamma$ that is p
    times $1 / ((1 + \gamma)(1 - q)) - 2/3$, $q = (1 + \gamma) p$: it is convex from p = 1/6 on, and below has one
    dip, past the larger root of $(1 + \gamma)(1 - q) = 3/2$.

    p : in (0, 1).  Returns a float.  Raises ValueError for another p.

    States: mamba Lemma 1
    """
    p = number("p", p, above=0, most=1 - 1e-9)
    last = 1 / p - 1
    room = lambda gamma: _divergence((1 + gamma) * p, p) - p * gamma**2 / 3
    if p >= 1 / 6:
        return last
    convex = (1 + np.sqrt(1 - 6 * p)) / (2 * p) - 1
    dip = minimize_scalar(room, bounds=(convex, last), method="bounded", options=dict(xatol=1e-9)).x
    return last if room(dip) >= 0 else brentq(room, 1, dip, xtol=1e-12)


def sub_gaussian_norm(x, weights, points=20_000):
    r"""Definition 3. $\|X\|_{\psi_2} = \sup_{p \ge 1} p^{-1/2} (E|X|^p)^{1/p}$, X on finitely many values: (low, high).

    $\|X\|_p$ grows with p up to $\max|x|$, so that past $p = (\max|x| / E|X|)^2$ the ratio is below its value at
    p = 1, and on $[p_i, p_{i+1}]$ it is at most $p_i^{-1/2} \|X\|_{p_{i+1}}$: the sup lies between the two numbers.

    x : (n,) values.  weights : (n,) their probabilities.  points : of the grid in p.
    Returns (low, high), both 0 for X = 0.  Raises ValueError for weights that are no probabilities.

    States: mamba Definition 3
    """
    x, weights = _law(x, weights)
    x, weights = np.abs(x[weights > 0]), weights[weights > 0]
    largest = x.max()
    if largest == 0:
        return 0.0, 0.0
    p = np.geomspace(1, max(1.0, (largest / (weights @ x)) ** 2), count("points", points, 2))
    parts = np.split(p, range(1000, len(p), 1000))  # a slice of the grid at a time
    norms = np.concatenate([((x / largest) ** part[:, None] @ weights) ** (1 / part) for part in parts])
    low = np.max(norms / np.sqrt(p))
    return float(largest * low), float(largest * max(low, np.max(norms[1:] / np.sqrt(p[:-1]))))


def definition_3(x, weights, K):
    r"""Definition 3. $(E|X|^p)^{1/p} \le K \sqrt p$ for all $p \ge 1$: {condition: slack}, K over the norm.

    x, weights : as in sub_gaussian_norm.  K > 0.

    States: mamba Definition 3
    """
    norm = sub_gaussian_norm(x, weights)[1]
    return {"(E|X|^p)^(1/p) <= K sqrt(p)": number("K", K, above=0) / norm if norm else np.inf}


def exponential_moment(s, x, weights):
    r"""Lemma 2. $E e^{s X} \le e^{2 e s^2 K^2}$ for a centred X of sub-Gaussian norm K: both sides.

    With an independent copy X' (Jensen): $E e^{sX} \le E e^{s(X - X')} = \sum_k s^{2k} E(X - X')^{2k} / (2k)!$, odd
    moments being 0. $\|X - X'\|_{2k} \le 2 K \sqrt{2k}$, and $(2k)^k k! / (2k)! \le (e/2)^k$ makes the k-th term
    at most $(4 s^2 K^2)^k (e/2)^k / k!$: an exponential series.

    s : a number.  x, weights : the law, centred.  Returns (left, right), inf past the largest float.
    Raises ValueError for a mean that is not 0.

    States: mamba Lemma 2
    """
    s, (x, weights) = number("s", s), _centred(x, weights)
    K = sub_gaussian_norm(x, weights)[1]
    with np.errstate(over="ignore"):
        return float(np.sum((weights * np.exp(s * x))[weights > 0])), float(np.exp(2 * np.e * (s * K) * (s * K)))


def hoeffding(t, a, x, weights):
    r"""Lemma 2. $\Pr(|\sum_i a_i X_i| \ge t) \le e \cdot \exp(-c t^2 / (K^2 \|a\|^2))$ with $c = 1/(8e)$: both sides.

    Markov: $\Pr(\sum_i a_i X_i \ge t) \le e^{-st + 2e s^2 K^2 \|a\|^2}$, least at $s = t / (4e K^2 \|a\|^2)$, where
    it is $e^{-t^2 / (8e K^2 \|a\|^2)}$. Both sides together have the factor 2, which is below the printed e.

    t >= 0.  a : (N,), not all 0.  x, weights : the centred law of each X_i; the left side sums over its n^N
    outcomes.
    Returns (left, right).  Raises ValueError for a mean that is not 0, or more than 10^6 outcomes.

    States: mamba Lemma 2
    """
    t, a, (x, weights) = number("t", t, 0), arrays(a=(a, "N")), _centred(x, weights)
    if len(x) ** len(a) > 10**6 or not np.any(a):
        raise ValueError(f"a: must not be 0, and have at most 10^6 outcomes, got {len(x)}^{len(a)}")
    outcomes = np.array(list(itertools.product(range(len(x)), repeat=len(a))))
    beyond = np.abs(x[outcomes] @ a) >= t - 1e-12 * np.abs(x).max() * np.abs(a).sum()
    K = sub_gaussian_norm(x, weights)[1]
    return float(np.prod(weights[outcomes], axis=1) @ beyond), hoeffding_bound(t, a, K)


def hoeffding_bound(t, a, K):
    r"""Lemma 2. $e \cdot \exp(-c t^2 / (K^2 \|a\|^2))$, the right side by itself, $c = 1/(8e)$.

    t >= 0.  a : (N,), not all 0.  K > 0, the largest sub-Gaussian norm.  Returns a float.

    States: mamba Lemma 2
    """
    t, K, a = number("t", t, 0), number("K", K, above=0), arrays(a=(a, "N"))
    return float(np.exp(1 - C * (t / (K * np.linalg.norm(a))) ** 2))


def _whole(x):
    """The least integer >= x, forgiving x the rounding of m (1 + gamma) p."""
    return np.ceil(x - 1e-9 * max(1.0, abs(x)))


def _divergence(q, p):
    """KL(q || p) of two coins, per toss."""
    q = min(q, 1.0)
    return float(rel_entr(q, p) + rel_entr(1 - q, 1 - p))


def _law(x, weights):
    x, weights = arrays(x=(x, "n"), weights=(weights, "n"))
    if np.any(weights < 0) or abs(weights.sum() - 1) > 1e-9:
        raise ValueError("weights: must be probabilities that sum to 1")
    return x, weights


def _centred(x, weights):
    x, weights = _law(x, weights)
    if abs(weights @ x) > 1e-9 * np.abs(x).max():
        raise ValueError(f"x: must have mean 0, got {weights @ x:.3g}")
    return x, weights
