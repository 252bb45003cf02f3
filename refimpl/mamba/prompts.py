r"""Section 3.2: patterns, tasks, and the prompts of training (Definition 1) and of testing (Definition 2).

    patterns = orthogonal_patterns(6, 10, 3, d=30, beta=3.0, outlier_norm=3.0)
    prompts = training_prompts(rng, 128, 20, cycle(6), 10, 3, p_a=0.6, K=0.5)
    P = tokens(prompts, patterns, kappa_a * patterns.v)            # Eq. 2

A batch of prompts is a few arrays of indices: which pattern, which outlier, which label each
example carries. The vectors are made from it, here or in pattern coordinates (patterns.py).
"""

from typing import NamedTuple

import numpy as np

from refimpl.checks import arrays, count, finite, fits, labels, number

# Section 4.1: the unseen outliers v'_1, v'_2, v'_3 as mixtures of the training ones; L = 0.3.
UNSEEN = ((0.7, 0.6, -0.4), (0.4, 0.7, -0.6), (-0.7, 0.5, 0.5))


class Patterns(NamedTuple):
    r"""Section 3.2. mu (M1, d) relevant, nu (M2, d) irrelevant, of norm beta; v (V, d) training outliers.

    States: mamba Section 3.2 (patterns and tasks)
    """

    mu: np.ndarray
    nu: np.ndarray
    v: np.ndarray


class Prompts(NamedTuple):
    r"""Definitions 1 and 2. B prompts of l examples and, last, the query.

    tasks (B, 2): a, b, labelled +1, -1.  j, k (B, l+1): relevant and irrelevant pattern.  kappa (B, l+1).
    s (B, l+1): which outlier, -1 for none.  y (B, l+1): labels, 0 for the query.  z (B,): the query's label.

    States: mamba Definition 1; mamba Definition 2
    """

    tasks: np.ndarray
    j: np.ndarray
    k: np.ndarray
    kappa: np.ndarray
    s: np.ndarray
    y: np.ndarray
    z: np.ndarray


def orthogonal_patterns(M1, M2, V, d, beta=3.0, outlier_norm=3.0, rng=None):
    """Section 3.2. Patterns, all orthogonal to each other: along the axes, or randomly turned by rng.

    M1, M2, V : how many relevant, irrelevant, outlier patterns, M1 + M2 + V <= d.
    beta, outlier_norm : their norms (the paper leaves the outliers' open).
    Returns Patterns.  Raises ValueError where they do not fit into d dimensions, or beta < 1.

    States: mamba Section 3.2 (patterns and tasks)
    """
    M1, M2, V = count("M1", M1, 2), count("M2", M2), count("V", V)
    beta, outlier_norm = number("beta", beta, least=1), number("outlier_norm", outlier_norm, above=0)
    fits("patterns", M1 + M2 + V, count("d", d, M1 + M2 + V))
    frame = np.eye(M1 + M2 + V, d)
    if rng is not None:
        Q, R = np.linalg.qr(rng.standard_normal(frame.T.shape))
        frame = (Q * np.sign(np.diag(R))).T  # the sign makes the factor, and so the draw, unique
    return Patterns(beta * frame[:M1], beta * frame[M1 : M1 + M2], outlier_norm * frame[M1 + M2 :])


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


def all_tasks(M1):
    r"""Section 3.2. $\mathcal T$: all ordered pairs (a, b), a != b, $\mu_a$ labelled +1 and $\mu_b$ -1; (M1 (M1 - 1), 2).

    States: mamba Section 3.2 (patterns and tasks)
    """
    return np.array([(a, b) for a in range(count("M1", M1, 2)) for b in range(M1) if a != b])


def cycle(M1):
    """Condition 1. The construction below it: task i labels mu_i +1 and mu_{i+1} -1, the last one closes the cycle.

    Returns (M1, 2).

    States: mamba Condition 1
    """
    return np.stack([np.arange(count("M1", M1, 2)), np.roll(np.arange(M1), -1)], axis=1)


def disjoint_pairs(M1):
    """Condition 1. Patterns 2i and 2i+1 in both orders; (M1, 2), for an even M1.

    States: mamba Condition 1
    """
    if count("M1", M1, 2) % 2:
        raise ValueError(f"M1: must be even, got {M1}")
    return np.stack([np.arange(M1), np.arange(M1) ^ 1], axis=1)


def balanced_tasks(M1, repeats, rng):
    """Condition 1. A random set of M1 * repeats tasks that satisfies it: `repeats` shifts of a random order.

    Returns (M1 * repeats, 2).  Raises ValueError unless 1 <= repeats < M1.

    States: mamba Condition 1
    """
    repeats = int(number("repeats", count("repeats", repeats), most=count("M1", M1, 2) - 1))
    order, shifts = rng.permutation(M1), rng.permutation(np.arange(1, M1))[:repeats]
    return np.concatenate([np.stack([order, np.roll(order, -shift)], axis=1) for shift in shifts])


def condition_1(tasks, M1):
    r"""Condition 1. Each pattern is mapped to each label by $|\mathcal T_{tr}| / M_1 \ge 1$ of the training tasks.

    tasks : (n, 2).  Returns {condition: slack}: the side that must be larger over the smaller, >= 1 where it holds.
    Raises ValueError for tasks that are no pairs of two different patterns.

    States: mamba Condition 1
    """
    tasks = _tasks(tasks, count("M1", M1, 2))
    each = np.stack([np.bincount(tasks[:, label], minlength=M1) for label in (0, 1)])
    share = len(tasks) / M1
    return {
        "every count >= |T_tr| / M_1": each.min() / share,
        "every count <= |T_tr| / M_1": share / each.max(),
        "|T_tr| / M_1 >= 1": share,
    }


def training_prompts(rng, B, l, tasks, M2, V, p_a, K=0.5):
    r"""Eq. 4 and Definition 1. x = mu_j + kappa nu_k, with probability p_a + kappa_a v*_s, and then a fair label.

    j is one of the task's two patterns, each with probability 1/2 (Definition 1, over Eq. 4's "arbitrarily
    selected"); k, s uniform; kappa ~ U(-K, K); the query carries no outlier. y_i = f(x_i) for clean examples alone.

    B, l : prompts and examples.  tasks : (n, 2), each prompt's drawn uniformly.  M2, V : numbers of patterns.
    Returns Prompts.  Raises ValueError for a p_a outside [0, 1), K outside [0, 1/2], or tasks that are none.

    States: mamba Eq. 4; mamba Definition 1
    """
    p_a, K = number("p_a", p_a, 0, 1 - 1e-12), number("K", K, 0, 0.5)
    return draw_training(rng, count("B", B), count("l", l), _tasks(tasks), count("M2", M2), count("V", V), p_a, K)


def draw_training(rng, B, l, tasks, M2, V, p_a, K):
    """Definition 1. training_prompts without the checks, for the loop of training.

    States: mamba Definition 1
    """
    clean = _clean(rng, B, l, tasks, M2, K)
    outlier = rng.random((B, l)) < p_a
    fair = 2.0 * rng.integers(2, size=(B, l), dtype=bool) - 1
    np.copyto(clean.s[:, :l], rng.integers(V, size=(B, l)), where=outlier)
    np.copyto(clean.y[:, :l], fair, where=outlier)
    return clean


def test_prompts(rng, B, l, tasks, M2, S, alpha, K=0.5, labelling="flipped", counted=False, placement="random"):
    r"""Eq. 5 and Definition 2. As in training, but kappa' ~ U(-K', K'), S test outliers, and any label on them.

    alpha : in [0, 1), the probability of an outlier in each example, or, if counted, the exact share of the l
    examples, rounded half up.  placement : "farthest" from the query, "closest", or "random".
    labelling : "flipped" to -f(x), "targeted" to +1 (Example 1), "random", or a function of the clean
    Prompts and rng that returns (B, l) labels, used where there is an outlier.
    Returns Prompts.  Raises ValueError for an argument that is none of these.

    States: mamba Eq. 5; mamba Definition 2; mamba Example 1
    """
    alpha, K, B, l = number("alpha", alpha, 0, 1 - 1e-12), number("K", K, 0), count("B", B), count("l", l)
    prompts = _clean(rng, B, l, _tasks(tasks), count("M2", M2), K)
    outlier = _places(rng, B, l, alpha, counted, placement)
    known = {"flipped": _flipped, "targeted": _targeted, "random": _random}
    if not callable(labelling) and labelling not in known:
        raise ValueError(f"labelling: must be a function or one of {sorted(known)}, got {labelling!r}")
    y = labels("labelling", known.get(labelling, labelling)(prompts, rng))
    if y.shape != (B, l):
        raise ValueError(f"labelling: must give labels of shape {(B, l)}, got {y.shape}")
    np.copyto(prompts.s[:, :l], rng.integers(count("S", S), size=(B, l)), where=outlier)
    np.copyto(prompts.y[:, :l], y, where=outlier)
    return prompts


test_prompts.__test__ = False  # a sampler, which pytest would take for a test


def tokens(prompts, patterns, outliers):
    r"""Eq. 2. The prompt matrix, row i the token $p_i = (x_i, y_i)$: (B, l+1, d+1), the query last with label 0.

    prompts : Prompts.  patterns : Patterns.  outliers : (S, d), $\kappa_a v_s^*$ or $\kappa_a' v_s^{*\prime}$.
    Raises ValueError for fewer outliers than the prompts carry, or an array that would be too large.

    States: mamba Eq. 2
    """
    mu, nu, outliers = arrays(mu=(patterns.mu, "jd"), nu=(patterns.nu, "kd"), outliers=(outliers, "Sd"))
    if prompts.s.max() >= len(outliers):
        raise ValueError(f"outliers: the prompts carry {prompts.s.max() + 1}, got {len(outliers)}")
    fits("tokens", *prompts.y.shape, mu.shape[1] + 1)
    x = mu[prompts.j] + prompts.kappa[..., None] * nu[prompts.k]
    carried = prompts.s >= 0
    x[carried] += outliers[prompts.s[carried]]
    return np.concatenate([x, prompts.y[..., None]], axis=-1)


def _clean(rng, B, l, tasks, M2, K):
    """Prompts without outliers, every example labelled by its task."""
    tasks = tasks[rng.integers(len(tasks), size=B)]
    second = rng.integers(2, size=(B, l + 1), dtype=bool)
    j = np.where(second, tasks[:, 1:], tasks[:, :1])
    k = rng.integers(M2, size=(B, l + 1))
    kappa = (2 * K) * rng.random((B, l + 1)) - K
    y = 1.0 - 2 * second
    z = y[:, -1].copy()
    y[:, -1] = 0
    return Prompts(tasks, j, k, kappa, np.full((B, l + 1), -1), y, z)


def _places(rng, B, l, alpha, counted, placement):
    """(B, l) booleans: which examples carry an outlier."""
    if placement not in ("farthest", "closest", "random"):
        raise ValueError(f"placement: must be 'farthest', 'closest' or 'random', got {placement!r}")
    outlier = rng.random((B, l))
    if counted:
        outlier = np.argsort(np.argsort(outlier, axis=1), axis=1) < int(alpha * l + 0.5)
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


def _tasks(tasks, M1=None):
    tasks = finite("tasks", tasks)
    if tasks.ndim != 2 or tasks.shape[1] != 2 or np.any(tasks != np.floor(tasks)) or np.any(tasks < 0):
        raise ValueError("tasks: must be (n, 2) indices of patterns")
    if np.any(tasks[:, 0] == tasks[:, 1]) or (M1 is not None and np.any(tasks >= M1)):
        raise ValueError("tasks: each must name two different patterns" + (f" below {M1}" if M1 else ""))
    return tasks.astype(int)
