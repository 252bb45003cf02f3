"""What the tests of both papers draw: batches of rows of different scale, and seeds for the rest."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

seeds = st.integers(0, 2**32 - 1)


def floats(bound):
    """Finite float64 numbers in [-bound, bound], without subnormals."""
    return st.floats(-bound, bound, allow_subnormal=False)


def vectors(bound, most=12):
    """Arrays of shape (k,), 1 <= k <= most."""
    return st.integers(1, most).flatmap(lambda k: arrays(np.float64, (k,), elements=floats(bound)))


@st.composite
def logits(draw, bound, rows=4, most=8):
    """(B, T) arrays, each row with a scale of its own: bound, a tenth, a hundredth."""
    shape = draw(st.tuples(st.integers(1, rows), st.integers(1, most)))
    scale = draw(arrays(np.float64, (shape[0], 1), elements=st.sampled_from([1.0, 0.1, 0.01])))
    return scale * draw(arrays(np.float64, shape, elements=floats(bound)))


@st.composite
def weights_and_vector(draw, scale, rows=3, most=6):
    """Logits z of up to `scale` (one-hot attention at the upper end) and a v of the same shape."""
    z = draw(logits(scale, rows, most))
    return z, draw(arrays(np.float64, z.shape, elements=floats(10.0)))
