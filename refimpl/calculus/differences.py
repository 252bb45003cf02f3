r"""Derivatives from values alone: what every hand-derived gradient is held against.

The step is $h = \epsilon^{1/3} \max(1, |x|)$, which balances the truncation error
$h^2 f'''/6$ of a central difference against the rounding error $\epsilon f / h$.
"""

import numpy as np

from refimpl.checks import finite

STEP = np.finfo(np.float64).eps ** (1 / 3)


def central_difference(f, x):
    r"""$\partial f / \partial x \approx (f(x + h e_k) - f(x - h e_k)) / 2h$, entry by entry.

    f : takes an array shaped like x, returns a number or an array.  x : finite, cast to float64.
    Returns an array of shape f(x).shape + x.shape: a gradient, or a whole Jacobian.
    Raises ValueError for an x that is empty or not finite.
    """
    return _differences(f, finite("x", x), -1, 1)


def one_sided_differences(f, x):
    """The difference quotients from the left and from the right: at a kink, the ends of the subgradients.

    f, x : as in central_difference.  Returns (left, right), each of the shape of its result.
    Raises ValueError for an x that is empty or not finite.
    """
    x = finite("x", x)
    return _differences(f, x, -1, 0), _differences(f, x, 0, 1)


def gradient_error(f, gradient, x):
    r"""The largest $|g_k - \hat g_k| / (|\hat g_k| + 10^{-3} \max_j |\hat g_j| + 10^{-4})$ over the entries.

    $\hat g$ is the central difference, whose rounding error is about 4e-11 for an f of order 1: below 1e-6 of the
    floor. A right gradient of a smooth f gives about that; one entry that is off by one part in a thousand gives
    1e-6 or more, unless it is itself below 1e-7 plus a millionth of the largest. Not for points within ten steps of
    a kink: test those with one_sided_differences.

    f : takes an array shaped like x.  gradient : f(x).shape + x.shape.  x : finite.  Returns a float.
    Raises ValueError where the gradient's shape is another, or it is not finite.
    """
    expected = central_difference(f, x)
    gradient = finite("gradient", gradient)
    if gradient.shape != expected.shape:
        raise ValueError(f"gradient: must have shape {expected.shape}, got {gradient.shape}")
    floor = 1e-3 * np.max(np.abs(expected)) + 1e-4
    return float(np.max(np.abs(gradient - expected) / (np.abs(expected) + floor)))


def _differences(f, x, low, high):
    columns = []
    for k in np.ndindex(x.shape):
        h = STEP * max(1.0, abs(x[k]))
        below, above = x.copy(), x.copy()
        below[k] += low * h
        above[k] += high * h
        columns.append((np.asarray(f(above)) - np.asarray(f(below))) / (above[k] - below[k]))
    return np.stack(columns, axis=-1).reshape(np.shape(columns[0]) + x.shape)
