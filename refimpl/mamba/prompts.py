r"""Section 3.2: the prompts of training (Definition 1) and of testing (Definition 2).

    prompts = training_prompts(rng, 128, Setting())
    prompts = test_prompts(rng, 1000, Setting(), Testing(alpha=0.8))
    P = tokens(prompts, patterns, setting.kappa_a * patterns.v)            # Eq. 2

A batch of prompts is a few arrays of indices: which pattern, which outlier, which label each
example carries. The vectors are made from it, here or in pattern coordinates (runs/patterns.py).
"""

from typing import NamedTuple

import numpy as np

from refimpl.checks import arrays, count, fits, labels
from refimpl.mamba.setting import checked, filled


class Prompts(NamedTuple):
    r"""Definitions 1 and 2. B prompts of l examples and, last, the query.

    tasks : (B, 2) a, b, labelled +1, -1
    j, k : (B, l+1) the relevant and the irrelevant pattern of each token
    kappa : (B, l+1) the factor of the irrelevant pattern
    s : (B, l+1) which outlier, -1 for none
    y : (B, l+1) the labels, 0 for the query
    z : (B,) the query's label

    States: mamba Definition 1; mamba Definition 2
    """

    tasks: np.ndarray
    j: np.ndarray
    k: np.ndarray
    kappa: np.ndarray
    s: np.ndarray
    y: np.ndarray
    z: np.ndarray


def unseen_outliers(v, mixture, u=None):
    r"""Eq. 5 and Theorem 2(a). Test outliers $v' = \sum_i \lambda_i v_i^* + u$ with $\sum_i \lambda_i > 0$.

    v : (V, d) the training outliers.  mixture : (S, V) the lambdas.  u : (S, d), orthogonal to all patterns
    (only its orthogonality to v is checked here); zero if None.
    Returns (S, d).  Raises ValueError for a mixture whose sum is not positive, or a u not orthogonal to v.

    States: mamba Eq. 5
    """
    v, mixture = arrays(v=(v, "Vd"), mixture=(mixture, "SV"))
    if np.any(np.sum(mixture, axis=1) <= 0):
        raise ValueError("mixture: every row must have a positive sum")
    if u is None:
        return mixture @ v
    mixture, v, u = arrays(mixture=(mixture, "SV"), v=(v, "Vd"), u=(u, "Sd"))
    if np.any(np.abs(u @ v.T) > 1e-9 * (1 + np.abs(u).max() * np.abs(v).max())):
        raise ValueError("u: must be orthogonal to the training outliers")
    return mixture @ v + u


def training_prompts(rng, B, setting):
    r"""Eq. 4 and Definition 1. A batch of training prompts.

    An example is $x = \mu_j + \kappa \nu_k$, labelled by the prompt's task; with probability $p_a$ it is $x +
    \kappa_a v_s^*$ instead, with a fair label. The pattern j is one of the task's two, each with probability 1/2
    (Definition 1; Eq. 4 has it "arbitrarily selected"). k and s are uniform, $\kappa \sim U(-K, K)$. The query
    carries no outlier, and each prompt's task is drawn uniformly.

    rng : numpy Generator.  B : prompts.  setting : a Setting.
    Returns Prompts.  Raises ValueError for a setting out of range.

    States: mamba Eq. 4; mamba Definition 1
    """
    return _draw(rng, count("B", B), checked(setting))


def stream(rng, B, setting, together=4):
    """Section 8.3, Theorem 1(iv). Batches of B training prompts without end, each used once: N = B T.

    Several batches are drawn at once, which costs less than one by one.

    rng : numpy Generator.  B : prompts in a batch.  setting : a Setting.  together : batches drawn at once.
    Returns an iterator of Prompts.  Raises ValueError for a setting out of range, before the first batch.

    States: mamba Section 8.3 (algorithm); mamba Definition 1
    """
    return _stream(rng, count("B", B), checked(setting), count("together", together))


def _stream(rng, B, setting, together):
    while True:
        drawn = _draw(rng, together * B, setting)
        for first in range(0, together * B, B):
            yield Prompts(*(x[first : first + B] for x in drawn))


def _draw(rng, B, setting):
    """training_prompts of a checked Setting."""
    l, V, p_a = setting.l, setting.V, setting.p_a
    prompts = _clean(rng, B, l, setting.tasks, setting.M2, setting.K)
    if p_a > 0:
        i = (min(2 * V / p_a, 1e15) * rng.random((B, l))).astype(int)
        outlier, s, fair = i < 2 * V, i >> 1, 1.0 - 2 * (i & 1)  # below 2V with probability p_a, and then uniform
        prompts.s[:, :l] = outlier * (s + 1) - 1
        y = prompts.y[:, :l]
        y += outlier * (fair - y)
    return prompts


def test_prompts(rng, B, setting, testing):
    r"""Eq. 5 and Definition 2. A batch of test prompts.

    Clean examples are those of training, with $\kappa' \sim U(-K', K')$. Outlier examples carry one of S test
    outliers, uniformly, and any label.

    rng : numpy Generator.  B : prompts.  setting : the Setting of training.  testing : a Testing.
    Returns Prompts.  Raises ValueError for an argument out of range.

    States: mamba Eq. 5; mamba Definition 2; mamba Example 1
    """
    testing, B = filled(testing, setting), count("B", B)
    l, labelling = testing.l, testing.labelling
    prompts = _clean(rng, B, l, testing.tasks, count("M2", setting.M2), testing.K)
    outlier = _places(rng, B, testing)
    known = {"flipped": _flipped, "targeted": _targeted, "random": _random}
    if not callable(labelling) and labelling not in known:
        raise ValueError(f"labelling: must be a function or one of {sorted(known)}, got {labelling!r}")
    y = labels("labelling", known.get(labelling, labelling)(prompts, rng))
    if y.shape != (B, l):
        raise ValueError(f"labelling: must give labels of shape {(B, l)}, got {y.shape}")
    np.copyto(prompts.s[:, :l], rng.integers(len(testing.mixture), size=(B, l)), where=outlier)
    np.copyto(prompts.y[:, :l], y, where=outlier)
    return prompts


test_prompts.__test__ = False  # a sampler, which pytest would take for a test


def tokens(prompts, patterns, outliers):
    r"""Eq. 2. The prompt matrix, row i the token $p_i = (x_i, y_i)$: (B, l+1, d+1), the query last with label 0.

    prompts : Prompts.  patterns : Patterns.  outliers : (S, d), $\kappa_a v_s^*$ or $\kappa_a' v_s^{*\prime}$.
    Raises ValueError for fewer patterns or outliers than the prompts hold, or an array that would be too large.

    States: mamba Eq. 2
    """
    mu, nu, outliers = arrays(mu=(patterns.mu, "jd"), nu=(patterns.nu, "kd"), outliers=(outliers, "Sd"))
    if prompts.s.max() >= len(outliers):
        raise ValueError(f"outliers: the prompts carry {prompts.s.max() + 1}, got {len(outliers)}")
    if prompts.j.max() >= len(mu) or prompts.k.max() >= len(nu):
        raise ValueError(f"patterns: the prompts show {prompts.j.max() + 1} and {prompts.k.max() + 1} of mu and nu")
    fits("tokens", *prompts.y.shape, mu.shape[1] + 1)
    x = mu[prompts.j] + prompts.kappa[..., None] * nu[prompts.k]
    carried = prompts.s >= 0
    x[carried] += outliers[prompts.s[carried]]
    return np.concatenate([x, prompts.y[..., None]], axis=-1)


def _clean(rng, B, l, tasks, M2, K):
    """Prompts without outliers, every example labelled by its task."""
    tasks = tasks[rng.integers(len(tasks), size=B)]
    u = (2 * M2) * rng.random((B, l + 1))
    i = u.astype(int)  # the integer part and the fraction of a uniform number are independent
    second, k = i & 1, i >> 1
    j = tasks[:, :1] + second * (tasks[:, 1:] - tasks[:, :1])
    kappa = (2 * K) * (u - i) - K
    y = 1.0 - 2 * second
    z = y[:, -1].copy()
    y[:, -1] = 0
    return Prompts(tasks, j, k, kappa, np.full((B, l + 1), -1), y, z)


def _places(rng, B, testing):
    """(B, l) booleans: which examples carry an outlier."""
    alpha, l, placement = testing.alpha, testing.l, testing.placement
    if placement not in ("farthest", "closest", "random"):
        raise ValueError(f"placement: must be 'farthest', 'closest' or 'random', got {placement!r}")
    outlier = rng.random((B, l))
    if testing.counted:
        n = int(alpha * l + 0.5 + 1e-9)  # 0.29 * 50 is below 14.5 by a rounding
        outlier = np.argsort(np.argsort(outlier, axis=1), axis=1) < n
    else:
        outlier = outlier < alpha
    if placement != "random":
        outlier = np.sort(outlier, axis=1)
    return outlier[:, ::-1] if placement == "farthest" else outlier


def _flipped(prompts, rng):
    return -prompts.y[:, :-1]


def _targeted(prompts, rng):
    return np.ones_like(prompts.y[:, :-1])


def _random(prompts, rng):
    return 2.0 * rng.integers(2, size=prompts.y[:, :-1].shape) - 1
