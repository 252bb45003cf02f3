r"""Ours: exact samples of Definition 3.1 at any d, in $R^{2 + N}$ with N = nT.

Training sees the tokens only through their products with each other and with the signals. Turn the d - 2
coordinates off the signals so that token k (k = 1 ... N) has noise in the first k of them alone: the noise
becomes a lower triangular L with $L_{kk}^2 \sim \chi^2_{d-1-k}$ on and N(0, 1) below the diagonal, all independent
(Bartlett's decomposition). A fresh token's noise is not changed by the turn; what lies off the first N
coordinates meets nothing that was trained. So in $R^{2+N}$ a fresh sample is Definition 3.1 itself.

    sample, mu, Sigma = draw_training(rng, n, norm, d, T, ...)     a data.Sample, its (2, 2 + N) signals
    fresh = data.draw(rng, 1000, mu, T, ..., Sigma=Sigma)          test samples for whatever was trained on it
"""

import numpy as np

from refimpl.attention.data import draw, signal_of, signals
from refimpl.checks import count, finite


def draw_training(rng, n, norm, d, T, relevant, weak, weak_scale, noise_rate, variances=1.0):
    r"""Definition 3.1, exact in law for everything that training and testing see, without an array of length d.

    With several variances, block b has $d_b$ coordinates of variance $v_b$ and a factor of its own; both signals
    lie in the first block (Assumption A). A block of at most N coordinates is kept as it is.

    rng : numpy Generator.  norm : of each signal.  d : an integer, or the blocks' (d_1, ..., d_m); the first >= 3.
    variances : > 0, one number or m.  The other arguments as in data.draw.
    Returns sample : a data.Sample in k <= 2 + mN coordinates; mu : (2, k); Sigma : (k,).  Raises ValueError.

    States: attention Definition 3.1
    """
    degrees, variances = _blocks(d, variances)
    N = count("n", n) * count("T", T)
    widths = [min(N, k) for k in degrees]
    Sigma = np.repeat(variances[[0, *range(len(widths))]], [2, *widths])
    mu = signals(norm, len(Sigma))
    sample = draw(rng, n, mu, T, relevant, weak, weak_scale, noise_rate, Sigma)
    normals = sample.noise.reshape(N, -1)
    turned = [normals[:, :2]]
    for k, width, v, start in zip(degrees, widths, variances, np.cumsum([2, *widths])):
        turned.append(np.sqrt(v) * factor(rng, N, k) if width < k else normals[:, start : start + width])
    noise = np.hstack(turned).reshape(sample.noise.shape)
    X = signal_of(sample.Y_star, sample.roles, weak_scale) @ mu + noise
    return sample._replace(X=X, noise=noise), mu, Sigma


def factor(rng, N, degrees):
    r"""Bartlett's decomposition. Lower triangular L, $L L^\top$ in law the Gram matrix of N vectors from $N(0, I_k)$.

    Row by row: a turn of the coordinates that fixes the first j - 1 puts what vector j has off them along the
    j-th; its length squared there is $\chi^2$ with k - j + 1 degrees, its first j - 1 coordinates are N(0, 1).

    rng : numpy Generator.  degrees : k, at least N.  Returns (N, N).  Raises ValueError.

    States: attention Definition 3.1
    """
    degrees = count("degrees", degrees, least=count("N", N))
    L = np.tril(rng.standard_normal((N, N)), -1)
    L[np.diag_indices(N)] = np.sqrt(rng.chisquare(degrees - np.arange(N)))
    return L


def _blocks(d, variances):
    """The degrees of freedom of each block off the two signals, and its variance."""
    dims = [count("d", k) for k in (d if isinstance(d, (tuple, list)) else [d])]
    variances = np.atleast_1d(finite("variances", variances))
    if variances.shape != (len(dims),) or np.any(variances <= 0):
        raise ValueError(f"variances: must be positive, one for each of {len(dims)} blocks, got {variances.shape}")
    count("d", dims[0], least=3)
    return [dims[0] - 2, *dims[1:]], variances
