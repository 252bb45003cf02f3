"""Arguments at the door: every public function says in one line what it takes.

    X, p = arrays(X=(X, "...Td"), p=(p, "d"))

gives float64 arrays, or one ValueError that names the argument: wrong number of axes, an
axis whose length differs from the same letter elsewhere, an empty axis, a number that is
not finite. The dots stand for batch axes, the same for every argument that has them; a digit
stands for an axis of that length.
"""

import math

import numpy as np

LARGEST = 2**30  # bytes: a d x d array above this is refused, before it is made or read


class Diverged(FloatingPointError):
    """A run that left the finite numbers: the message, the first bad step, the last finite state."""

    def __init__(self, message, step, state):
        super().__init__(message, step, state)
        self.step, self.state = step, state

    def __str__(self):
        return self.args[0]


def finite(name, x):
    """An array as float64.

    name : what the error calls it.  x : what np.asarray takes, of real numbers, of any shape.
    Returns a float64 array.  Raises ValueError for an x that is empty, or has a number that is not finite.
    """
    try:
        x = np.asarray(x)
        if x.dtype.kind not in "biufO":  # no text, no dates, no complex numbers
            raise TypeError
        x = x.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name}: must be an array of real numbers") from None
    if x.size == 0:
        raise ValueError(f"{name}: has an empty axis, shape {x.shape}")
    if not np.all(np.isfinite(x)):
        raise ValueError(f"{name}: must be finite")
    return x


def arrays(**named):
    """The named arguments as float64 arrays whose axes agree.

    named : each as name=(value, letters): a letter an axis, a digit an axis of that length, dots the batch axes.
    Returns the array, or a list of them in the order given.
    Raises ValueError for what is not finite, for axes of another number or length, for other batch axes.
    """
    sizes, batch, result = {}, None, []
    for name, (x, letters) in named.items():
        x, axes = finite(name, x), letters.removeprefix("...")
        batched = axes != letters
        shown = f"({', '.join((['...'] if batched else []) + list(axes))})"
        lead = x.shape[: max(0, x.ndim - len(axes))]
        fixed = [letter.isdigit() and int(letter) != length for letter, length in zip(axes, x.shape[len(lead) :])]
        if x.ndim < len(axes) or (not batched and lead) or any(fixed):
            raise ValueError(f"{name}: must have shape {shown}, got {x.shape}")
        if batched:
            batch = batch or (name, lead)
            if lead != batch[1]:
                raise ValueError(f"{name}: batch axes {lead} differ from those of {batch[0]}, {batch[1]}")
        for letter, length in zip(axes, x.shape[len(lead) :]):
            first, expected = sizes.setdefault(letter, (name, length))
            if length != expected:
                raise ValueError(f"{name}: axis {letter} has length {length}, but {expected} in {first}")
        result.append(x)
    return result[0] if len(result) == 1 else result


def same_last_axis(**named):
    """Two arguments as float64 arrays with last axes of one length, whose leading axes broadcast.

    named : two arrays by their names, as s=s, v=v.  Returns both.  Raises ValueError that names the second.
    """
    (first, a), (second, b) = ((name, finite(name, x)) for name, x in named.items())
    if a.ndim == 0 or b.ndim == 0 or a.shape[-1] != b.shape[-1]:
        raise ValueError(f"{second}: last axis must be that of {first}, got {b.shape} and {a.shape}")
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise ValueError(f"{second}: does not broadcast against {first}, {b.shape} and {a.shape}") from None
    return a, b


def matrix(W, **vector):
    """A square matrix as float64.

    W : (d, d).  vector : one array by its name, as p=p, of shape (d,).
    Returns W.  Raises ValueError for another shape, or for a W of more bytes than LARGEST, before it is read.
    """
    ((name, v),) = vector.items()
    try:
        shape = np.shape(W)
    except ValueError:
        raise ValueError("W: must be an array of real numbers") from None
    fits("W", *shape)
    v, W = arrays(**{name: (v, "d")}, W=(W, "dd"))
    return W


def diagonal(name, Sigma, d):
    """A covariance's diagonal as float64.

    name : what the error calls it.  Sigma : one number or (d,), non-negative.  d : the dimension.
    Returns Sigma.  Raises ValueError for others.
    """
    Sigma = finite(name, Sigma)
    if Sigma.shape not in ((), (d,)) or np.any(Sigma < 0):
        raise ValueError(f"{name}: must be the diagonal, non-negative, one number or ({d},), got shape {Sigma.shape}")
    return Sigma


def labels(name, Y):
    """Labels as float64.

    name : what the error calls them.  Y : -1 or +1, of any shape.
    Returns Y.  Raises ValueError, with the labels that were found, for others.
    """
    Y = finite(name, Y)
    if not np.all(np.abs(Y) == 1):
        raise ValueError(f"{name}: labels must be -1 or +1, found {[float(y) for y in np.unique(Y)[:5]]}")
    return Y


def number(name, x, least=-np.inf, most=np.inf, above=None):
    """A number as a float.

    name : what the error calls it.  x : the number.  least, most : its range, both ends in it.
    above : what it must exceed, or None.
    Returns a float.  Raises ValueError, which says the range, for others.
    """
    bounds = f"> {above:g}" if above is not None else f"in [{least:g}, {most:g}]"
    if above is not None and most < np.inf:
        bounds += f" and <= {most:g}"
    try:
        value = float(finite(name, x)) if np.ndim(x) == 0 else np.nan
        good = least <= value <= most and (above is None or value > above)
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"{name}: must be a finite number {bounds}, got {x!r}")
    return value


def count(name, k, least=1):
    """A count as an int; a float of integral value, as 1e12, is one.

    name : what the error calls it.  k : the count.  least : the least that is allowed.
    Returns an int.  Raises ValueError for others, True and False among them.
    """
    whole = isinstance(k, (int, np.integer)) or (isinstance(k, (float, np.floating)) and float(k).is_integer())
    if isinstance(k, (bool, np.bool_)) or not whole or k < least:
        raise ValueError(f"{name}: must be an integer >= {least}, got {k!r}")
    return int(k)


def fits(name, *shape):
    """Refuse an array that would be too large.

    name : what the error calls it.  shape : its lengths, one argument each.
    Raises ValueError where float64 numbers of that shape take more than LARGEST bytes.
    """
    size = 8 * math.prod(shape)
    if size > LARGEST:
        raise ValueError(f"{name}: shape {shape} would take {size / 2**30:.1f} GiB, more than {LARGEST / 2**30:g}")
