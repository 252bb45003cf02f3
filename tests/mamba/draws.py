"""What the tests of this paper draw: prompts of any numbers, weights that no training made; and how they compare."""

import numpy as np
from hypothesis import strategies as st

from refimpl.calculus.differences import central_difference
from refimpl.mamba.model import Weights
from tests.strategies import seeds


@st.composite
def models(draw, gated=True, most=5):
    """(P, z, Psi): a batch of normal tokens of different scale with labels, m and d not tied to each other."""
    rng = np.random.default_rng(draw(seeds))
    B, l, d, m = (draw(st.integers(1, most)) for _ in range(4))
    P = rng.standard_normal((B, l + 1, d + 1)) * rng.choice([0.3, 1.0, 2.0], size=(B, 1, 1))
    P[..., -1] = rng.choice([-1.0, 1.0], size=(B, l + 1))
    P[:, -1, -1] = 0
    W_B, W_C = rng.standard_normal((2, m, d + 1))
    return P, rng.choice([-1.0, 1.0], size=B), Weights(W_B, W_C, rng.standard_normal(d + 1) if gated else None)


def gated(drawn, seed):
    """P, dF, W_B, W_C of a draw of models, the vector w and the matrix W of gates, a number a."""
    P, dF, Psi = drawn
    rng = np.random.default_rng(seed)
    return P, dF, Psi.W_B, Psi.W_C, Psi.w, rng.standard_normal(Psi.W_B.shape), 0.5 * rng.standard_normal()


def assert_agrees(f, gradient, x, summands):
    """The gradient against central differences, whose rounding is that of the summands of f over the step."""
    rounding = 1e-9 * (1 + np.abs(summands).sum())
    np.testing.assert_allclose(gradient, central_difference(f, x), rtol=1e-6, atol=rounding)
