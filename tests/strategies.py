"""What the tests of both papers draw: batches of rows of different scale, and seeds for the rest."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from refimpl.attention.data import draw as draw_sample
from refimpl.attention.head import linear_head
from refimpl.attention.model import random_orthogonal
from refimpl.attention.setting import Setting

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


@st.composite
def attention_problems(draw, roomy=False):
    """A small instance of Definition 3.1 as a dict: sample, mu, nu, weak_scale, alpha and, or None, an orthogonal W.

    d may be less than nT + 2 unless roomy.
    """
    rng = np.random.default_rng(draw(seeds))
    n, relevant, weak, irrelevant = (draw(st.integers(low, 3)) for low in (1, 1, 2, 0))
    T = relevant + weak + irrelevant
    d = n * T + 2 + draw(st.integers(0, 3)) if roomy else draw(st.integers(2, 30))
    W = random_orthogonal(rng, d) if draw(st.booleans()) else None
    rotation = random_orthogonal(rng, d)  # signals that are no coordinate vectors
    mu = draw(st.floats(0.5, 5)) * rotation[:2]
    weak_scale = draw(st.floats(0.05, 1))
    Sigma = rng.uniform(0.2, 2, d)
    sizes = dict(n=n, T=T, d=d, relevant=relevant, weak=weak, weak_scale=weak_scale, Sigma=Sigma)
    sample = draw_sample(rng, Setting(**sizes, noise_rate=draw(st.floats(0, 1))), mu)
    nu = linear_head(mu) + draw(st.sampled_from([0, 0.3])) * rng.standard_normal(d)
    return dict(sample=sample, mu=mu, nu=nu, weak_scale=weak_scale, alpha=draw(st.floats(1e-3, 0.5)), W=W)
