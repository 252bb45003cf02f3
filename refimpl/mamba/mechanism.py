r"""Section 3.5: attention picks the query's pattern, the gates drop outliers and favour the near.

    same, different = attention_mass(scores, prompts.j)      # Corollary 1
    left, right = outlier_gate(a, prompts.s)                 # Corollary 2(i): left <= right
    left, right = local_bias(a, prompts.s)                   # Corollary 2(ii): left >= right
    query, clean, outliers = gate_shares(a, prompts.s)       # Remark 8: they sum to 1 - prod(1 - sigma)

The paper states both up to constants, for a trained model with high probability. Here are the quantities, and
the inequalities that carry Corollary 2 with their constants; training (experiments.py) says how large they are.
"""

import numpy as np

from refimpl.calculus.gating import gate
from refimpl.calculus.losses import sigmoid
from refimpl.checks import arrays, same_last_axis


def attention_mass(scores, j):
    r"""Corollary 1. $\sum_{i \in N_1} p_i^\top W_B^\top W_C p_{query}$ and the sum over the other examples.

    $N_1$ are the examples that share the query's relevant pattern.

    scores : (..., l+1) attention, the query's own last.  j : (..., l+1) relevant patterns.
    Returns (same, different), each (...).  Raises ValueError for other shapes or numbers that are not finite.

    States: mamba Corollary 1; mamba Remark 7
    """
    scores, j = arrays(scores=(scores, "...i"), j=(j, "...i"))
    same = j[..., :-1] == j[..., -1:]
    return np.sum(scores[..., :-1] * same, axis=-1), np.sum(scores[..., :-1] * ~same, axis=-1)


def outlier_gate(a, s):
    r"""Corollary 2(i). $G_{i,l+1} \le \sigma(w^\top p_i)$ on each example that carries an outlier: both sides.

    The corollary's $O(\mathrm{poly}(M_1)^{-1})$ is then Lemma 5's bound of $w^\top p_i$.

    a : (..., l+1) pre-activations, the query's last.  s : (..., l+1) outliers, -1 for none.
    Returns (left, right), each (n,), n the outlier examples in all.

    States: mamba Corollary 2
    """
    a, s = np.broadcast_arrays(*same_last_axis(a=a, s=s))
    return gate(a)[s >= 0], sigmoid(a)[s >= 0]


def local_bias(a, s):
    r"""Corollary 2(ii). $G_{h(j),l+1} \ge c \, 2^{-j} \prod_o (1 - \sigma(w^\top p_o))$: both sides.

    h(j) is the j-th closest clean example, o runs over the outlier examples behind it, c is the least $\sigma$ of a
    clean example. It holds where all clean pre-activations, the query's too, are <= 0 (Eq. 12): each of the j - 1
    clean examples and the query between lets at least half pass. The printed proof has $G_{h(j)}$ for $G_{h(1)}$
    in its second line.

    a : (..., l+1), the query's last.  s : (..., l+1) outliers, -1 for none; the query's must be -1.
    Returns (left, right), each (..., l), entry j - 1 for h(j), NaN from the number of clean examples on.

    States: mamba Corollary 2
    """
    a, s = np.broadcast_arrays(*same_last_axis(a=a, s=s))
    clean = s[..., :-1] < 0
    log_keep = np.where(clean, 0, -np.logaddexp(0, a[..., :-1]))
    behind = np.cumsum(log_keep[..., ::-1], axis=-1)[..., ::-1]  # a clean example adds nothing of its own
    c = np.min(np.where(clean, sigmoid(a[..., :-1]), 1), axis=-1, keepdims=True)
    left, passed = by_rank(gate(a)[..., :-1], s), by_rank(np.exp(behind), s)
    return left, c * 0.5 ** np.arange(1, a.shape[-1]) * passed


def gate_shares(a, s):
    r"""Remark 8. The gates' sum, $1 - \prod_i (1 - \sigma(w^\top p_i)) < 1$, by who has it.

    The remark speaks of the sum over all tokens; the query's own gate multiplies its label coordinate, which is 0,
    so the prediction is made of what the query leaves.

    a : (..., l+1) pre-activations, the query's last.  s : (..., l+1) outliers, -1 for none.
    Returns (query, clean examples, outlier examples), each (...).

    States: mamba Remark 8
    """
    a, s = same_last_axis(a=a, s=s)
    G, outlier = gate(a), s[..., :-1] >= 0
    return G[..., -1], np.sum(G[..., :-1] * ~outlier, axis=-1), np.sum(G[..., :-1] * outlier, axis=-1)


def by_rank(values, s):
    r"""Corollary 2. The values of the clean examples, sorted by their distance from the query: entry j - 1 for h(j).

    values : (..., l).  s : (..., l+1) outliers, -1 for none.  Returns (..., l), NaN after the last clean example.

    States: mamba Corollary 2
    """
    values, clean = np.asarray(values, dtype=float), np.asarray(s)[..., :-1] < 0
    order = np.argsort(~clean[..., ::-1], axis=-1, kind="stable")  # the clean ones first, nearest first
    return np.take_along_axis(np.where(clean, values, np.nan)[..., ::-1], order, axis=-1)
