r"""Section 3.2: relevant, irrelevant and outlier patterns, the tasks on them, and Condition 1 on a set of tasks.

    orthogonal_patterns                                  the vectors
    all_tasks, cycle, disjoint_pairs, balanced_tasks     sets of tasks
    condition_1                                          how far a set is from Condition 1

A task is a pair of indices (a, b): mu_a is labelled +1 and mu_b -1.
"""

from typing import NamedTuple

import numpy as np

from refimpl.checks import count, finite, fits, number


class Patterns(NamedTuple):
    r"""Section 3.2. mu (M1, d) relevant, nu (M2, d) irrelevant, of norm beta; v (V, d) training outliers.

    States: mamba Section 3.2 (patterns and tasks)
    """

    mu: np.ndarray
    nu: np.ndarray
    v: np.ndarray


def orthogonal_patterns(M1, M2, V, d, beta=3.0, outlier_norm=3.0, rng=None):
    """Section 3.2. Patterns, all orthogonal to each other: along the axes, or randomly turned by rng.

    M1, M2, V : how many relevant, irrelevant, outlier patterns.  d : dimension, at least M1 + M2 + V.
    beta, outlier_norm : their norms (the paper leaves the outliers' open).  rng : numpy Generator, or None.
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


def all_tasks(M1):
    r"""Section 3.2. $\mathcal T$: all ordered pairs (a, b) of two different patterns.

    M1 : relevant patterns.  Returns (M1 (M1 - 1), 2).

    States: mamba Section 3.2 (patterns and tasks)
    """
    return np.array([(a, b) for a in range(count("M1", M1, 2)) for b in range(M1) if a != b])


def cycle(M1):
    r"""Condition 1. The construction below it: task i labels $\mu_i$ +1 and $\mu_{i+1}$ -1, the last closes the cycle.

    M1 : relevant patterns.  Returns (M1, 2).

    States: mamba Condition 1
    """
    return np.stack([np.arange(count("M1", M1, 2)), np.roll(np.arange(M1), -1)], axis=1)


def disjoint_pairs(M1):
    """Condition 1. Patterns 2i and 2i+1 in both orders.

    M1 : relevant patterns, even.  Returns (M1, 2).  Raises ValueError for an odd M1.

    States: mamba Condition 1
    """
    if count("M1", M1, 2) % 2:
        raise ValueError(f"M1: must be even, got {M1}")
    return np.stack([np.arange(M1), np.arange(M1) ^ 1], axis=1)


def balanced_tasks(M1, repeats, rng):
    """Condition 1. A random set of M1 * repeats tasks that satisfies it: `repeats` shifts of a random order.

    M1 : relevant patterns.  repeats : tasks to each pattern and label.  rng : numpy Generator.
    Returns (M1 * repeats, 2).  Raises ValueError unless 1 <= repeats < M1.

    States: mamba Condition 1
    """
    repeats = int(number("repeats", count("repeats", repeats), most=count("M1", M1, 2) - 1))
    order, shifts = rng.permutation(M1), rng.permutation(np.arange(1, M1))[:repeats]
    return np.concatenate([np.stack([order, np.roll(order, -shift)], axis=1) for shift in shifts])


def condition_1(tasks, M1):
    r"""Condition 1. Each pattern is mapped to each label by $|\mathcal T_{tr}| / M_1 \ge 1$ of the training tasks.

    tasks : (n, 2).  M1 : relevant patterns.
    Returns {condition: slack}: the side that must be larger over the smaller, >= 1 where it holds.
    Raises ValueError for tasks that are no pairs of two different patterns.

    States: mamba Condition 1
    """
    tasks = pairs(tasks, count("M1", M1, 2))
    each = np.stack([np.bincount(tasks[:, label], minlength=M1) for label in (0, 1)])
    share = len(tasks) / M1
    return {
        "every count >= |T_tr| / M_1": each.min() / share,
        "every count <= |T_tr| / M_1": share / each.max(),
        "|T_tr| / M_1 >= 1": share,
    }


def pairs(tasks, M1=None):
    """Section 3.2. The tasks as an (n, 2) array of integers, checked.

    tasks : (n, 2) indices of patterns.  M1 : relevant patterns, None for any number.
    Raises ValueError for tasks that are no pairs of two different patterns below M1.

    States: mamba Section 3.2 (patterns and tasks)
    """
    tasks = finite("tasks", tasks)
    if tasks.ndim != 2 or tasks.shape[1] != 2 or np.any(tasks != np.floor(tasks)) or np.any(tasks < 0):
        raise ValueError("tasks: must be (n, 2) indices of patterns")
    if np.any(tasks[:, 0] == tasks[:, 1]) or (M1 is not None and np.any(tasks >= M1)):
        raise ValueError("tasks: each must name two different patterns" + (f" below {M1}" if M1 else ""))
    return tasks.astype(int)
