r"""Ours: exact samples of Definition 3.1 at any d, in $R^{2 + N}$ with N = nT.

Training sees the tokens only through their products with each other and with the signals. Turn the d - 2
coordinates off the signals so that token k (k = 1 ... N) has noise in the first k of them alone: the noise
becomes a lower triangular L with $L_{kk}^2 \sim \chi^2_{d-1-k}$ on and N(0, 1) below the diagonal, all independent
(Bartlett's decomposition). A fresh token's noise is not changed by the turn; what lies off the first N
coordinates meets nothing that was trained. So in $R^{2+N}$ a fresh sample is Definition 3.1 itself.

    sample, mu, Sigma = draw_training(rng, setting)                a data.Sample, its (2, 2 + N) signals
    clean = setting._replace(n=1000, noise_rate=0, Sigma=Sigma)
    fresh = data.draw(rng, clean, mu)                              test samples for whatever was trained on it
"""

import numpy as np

from refimpl.attention.data import draw, signal_of, signals
from refimpl.attention.setting import checked
from refimpl.checks import count, number


def draw_training(rng, setting, blocks=None):
    r"""Definition 3.1, exact in law for everything that training and testing see, without an array of length d.

    With several blocks, block b has $d_b$ coordinates of variance $v_b$ and a factor of its own; both signals
    lie in the first block (Assumption A). A block of at most N coordinates is kept as it is.

    rng : numpy Generator.  setting : a Setting, d >= 3, its Sigma one number.
    blocks : $((d_1, v_1), (d_2, v_2), ...)$ in place of the setting's d and Sigma, $d_1 \ge 3$.
    Returns sample : a data.Sample in k <= 2 + mN coordinates, m blocks; mu : (2, k); Sigma : (k,).  Raises ValueError.

    States: attention Definition 3.1
    """
    degrees, variances = _blocks(((setting.d, setting.variance),) if blocks is None else blocks)
    N = count("n", setting.n) * count("T", setting.T)
    widths = [min(N, k) for k in degrees]
    Sigma = np.repeat(variances[[0, *range(len(widths))]], [2, *widths])
    setting = checked(setting._replace(d=len(Sigma), Sigma=Sigma))
    mu = signals(setting.norm, setting.d)
    sample = draw(rng, setting)
    normals = sample.noise.reshape(N, -1)
    turned = [normals[:, :2]]
    for k, width, v, start in zip(degrees, widths, variances, np.cumsum([2, *widths])):
        turned.append(np.sqrt(v) * _factor(rng, N, k) if width < k else normals[:, start : start + width])
    noise = np.hstack(turned).reshape(sample.noise.shape)
    X = signal_of(sample.Y_star, sample.roles, setting.weak_scale) @ mu + noise
    return sample._replace(X=X, noise=noise), mu, Sigma


def _factor(rng, N, degrees):
    r"""(N, N) lower triangular L, $L L^\top$ in law the Gram matrix of N vectors from $N(0, I_k)$, k = degrees >= N.

    Row by row: a turn of the coordinates that fixes the first j - 1 puts what vector j has off them along the
    j-th; its length squared there is $\chi^2$ with k - j + 1 degrees, its first j - 1 coordinates are N(0, 1).
    """
    L = np.tril(rng.standard_normal((N, N)), -1)
    L[np.diag_indices(N)] = np.sqrt(rng.chisquare(degrees - np.arange(N)))
    return L


def _blocks(blocks):
    """The degrees of freedom of each block off the two signals, and its variance."""
    dims = [count("d", d, least=1 if b else 3) for b, (d, _) in enumerate(blocks)]
    return [dims[0] - 2, *dims[1:]], np.array([number("Sigma", v, above=0) for _, v in blocks])
