r"""The gate product $G_i = \sigma(a_i) \prod_{j > i} (1 - \sigma(a_j))$, and what its derivative does to a vector.

A position keeps what it lets in, times what every later position lets pass. So the gates are the
probabilities that i is the last of independent coins to show heads, and all identities follow from
$\sum_{i \le k} G_i = \prod_{j > k} (1 - \sigma_j) - \prod_j (1 - \sigma_j)$ (a telescoping sum).
"""

import numpy as np

from refimpl.calculus.losses import sigmoid
from refimpl.checks import finite, fits, same_last_axis


def gate(a):
    r"""Eq. 3. $G_i = \sigma(a_i) \prod_{j > i} (1 - \sigma(a_j))$ along the last axis, through logarithms.

    a : (..., l) pre-activations, finite; the query's is the last.
    Returns G : (..., l), non-negative, of sum $1 - \prod_j (1 - \sigma_j)$.
    Raises ValueError for an a that is empty or not finite.

    States: mamba Eq. 3
    """
    a = finite("a", a)
    return np.exp(_log_after(a) - np.logaddexp(0, -a))


def gate_jacobian(a):
    r"""Section 11.3. $\partial G_i / \partial a_s$: $G_i (1 - \sigma_i)$ at s = i, $-G_i \sigma_s$ for s > i, else 0.

    The logarithm: $\log G_i = \log \sigma(a_i) + \sum_{s > i} \log(1 - \sigma(a_s))$, and
    $(\log \sigma)' = 1 - \sigma$, $(\log(1 - \sigma))' = -\sigma$.

    a : (..., l).  Returns (..., l, l), row i, column s.  Raises ValueError for an a that is empty or not finite.

    States: mamba Section 11.3 (gradient of w)
    """
    a = finite("a", a)
    fits("gate_jacobian", *a.shape, a.shape[-1])
    own = np.eye(a.shape[-1])
    later = np.triu(np.ones_like(own), k=1)
    return gate(a)[..., None] * (own * sigmoid(-a)[..., None] - later * sigmoid(a)[..., None, :])


def gate_vjp(a, v):
    r"""Section 11.3. $\sum_i v_i \partial G_i / \partial a_s = t_s (1 - \sigma_s) - \sigma_s \sum_{i < s} t_i$ in O(l).

    Here $t_i = v_i G_i$: the column of gate_jacobian, summed.

    a, v : (..., l), broadcast against each other over the leading axes.  Returns (..., l).
    Raises ValueError where either is empty or not finite, or their last axes differ.

    States: mamba Section 11.3 (gradient of w)
    """
    a, v = same_last_axis(a=a, v=v)
    t = v * gate(a)
    before = np.zeros_like(t)
    before[..., 1:] = np.cumsum(t[..., :-1], axis=-1)
    return t * sigmoid(-a) - sigmoid(a) * before


def gate_prefix(a):
    r"""Section 11.3. $\sum_{i \le k} G_i = \prod_{j > k} (1 - \sigma_j) - \prod_j (1 - \sigma_j)$ for each k.

    $G_i = \prod_{j > i} (1 - \sigma_j) - \prod_{j \ge i} (1 - \sigma_j)$, and the sum telescopes. All gates, the
    query's too, sum to $1 - \prod_j (1 - \sigma_j)$; one position before is the display after Eq. 30, the examples'
    gates: $1 - \sigma_q - \prod_j (1 - \sigma_j)$. The difference is taken as $e^{x} (1 - e^{y})$, without
    cancellation.

    a : (..., l).  Returns (..., l).  Raises ValueError for an a that is empty or not finite.

    States: mamba Lemma 6
    """
    a = finite("a", a)
    return np.exp(_log_after(a)) * -np.expm1(np.cumsum(-np.logaddexp(0, a), axis=-1))


def distance_mass(a):
    r"""Lemma 6. $\sum_{i \le l} G_i (l - i + 1) \le 1 / c$ with $c = \min_{j \le l} \sigma(a_j)$: both sides.

    Example i is counted in $\sum_{i \le k} G_i$ for k = i, ..., l, so that the left side is
    $\sum_{k \le l} \sum_{i \le k} G_i \le \sum_k \prod_{j > k} (1 - \sigma_j) \le \sum_k (1 - c)^{l - k} \le 1/c$.
    The lemma's condition on t serves only to give such a c.

    a : (..., l + 1), the query's last.  Returns (left, right), each (...).
    Raises ValueError for fewer than two positions, or an a that is not finite.

    States: mamba Lemma 6
    """
    a = finite("a", a)
    if a.ndim == 0 or a.shape[-1] < 2:
        raise ValueError(f"a: needs an example and the query on its last axis, got shape {a.shape}")
    distance = np.arange(a.shape[-1] - 1, 0, -1)
    with np.errstate(over="ignore"):
        bound = 1 + np.exp(-np.min(a[..., :-1], axis=-1))  # 1 / sigma
    return gate(a)[..., :-1] @ distance.astype(float), bound


def _log_after(a):
    """log of the product of 1 - sigma over the later positions, a plain sum: nothing is divided or subtracted."""
    after = np.zeros_like(a)
    after[..., :-1] = np.cumsum(-np.logaddexp(0, a[..., :0:-1]), axis=-1)[..., ::-1]
    return after
