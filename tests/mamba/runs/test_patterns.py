"""Pattern coordinates hold the same model as the plain form: outputs, gradients, and a whole training run."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.mamba.model import Weights, attention, gates, loss_gradient, output
from refimpl.mamba.runs.patterns import axes, encode, forward, from_coordinates, gradient, to_coordinates
from refimpl.mamba.prompts import UNSEEN, test_prompts, tokens, unseen_outliers
from refimpl.mamba.tasks import all_tasks, orthogonal_patterns
from refimpl.mamba.training import Setting, fresh_prompts, initial, plain_step, sgd
from tests.mamba.draws import models
from tests.strategies import seeds

SETTING = Setting()  # d = 30, M1 = 6, M2 = 10, V = 3


def turned(rng):
    """Section 4.1's patterns in random directions of R^30, and a unit vector u orthogonal to them all."""
    patterns = orthogonal_patterns(
        SETTING.M1, SETTING.M2, SETTING.V, SETTING.d, SETTING.beta, SETTING.outlier_norm, rng
    )
    E = axes(patterns)
    u = rng.standard_normal(SETTING.d)
    u -= E.T @ (E @ u)
    return patterns, u / np.linalg.norm(u)


@pytest.mark.states("mamba Eq. 2", "mamba Section 3.2 (patterns and tasks)")
@given(seed=seeds, alpha=st.floats(0, 0.99))
def test_encoded_prompts_are_the_tokens_in_the_axes(seed, alpha):
    rng = np.random.default_rng(seed)
    patterns, u = turned(rng)
    E = axes(patterns, u)
    outliers = 4 * unseen_outliers(patterns.v, UNSEEN, np.outer([0.5, -1.0, 2.0], u))
    p = test_prompts(rng, 3, 5, all_tasks(SETTING.M1), SETTING.M2, 3, alpha, K=2.0)
    P = tokens(p, patterns, outliers)
    encoded = encode(p, SETTING.M1, SETTING.M2, SETTING.beta, outliers @ E[SETTING.M1 + SETTING.M2 :].T)
    np.testing.assert_allclose(encoded[..., :-1], P[..., :-1] @ E.T, atol=1e-12)
    np.testing.assert_allclose(encoded[..., :-1] @ E, P[..., :-1], atol=1e-12)
    assert np.array_equal(encoded[..., -1], P[..., -1])
    lengths = np.array([4.0, 5.0, 6.0])  # one axis each
    assert np.array_equal(encode(p, 6, 10, 3.0, lengths), encode(p, 6, 10, 3.0, np.diag(lengths)))


@pytest.mark.states("mamba Eq. 3")
@pytest.mark.states("mamba Section 11.2 (gradient of W_C)", "mamba Section 11.2 (gradient of W_B)")
@pytest.mark.states("mamba Section 11.3 (gradient of w)")
@given(drawn=models(most=6), gated=st.booleans())
def test_few_operations_do_what_the_public_functions_do(drawn, gated):
    P, z, Psi = drawn
    Psi = Psi if gated else Psi._replace(w=None)
    F, G, s = forward(P, Psi)
    for got, expected in ((F, output(P, Psi)), (G, gates(P, Psi.w)), (s, attention(P, Psi.W_B, Psi.W_C))):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)
    step, F = gradient(P, z, Psi)
    np.testing.assert_allclose(F, output(P, Psi), rtol=1e-10, atol=1e-12)
    for got, expected in zip(step, loss_gradient(P, z, Psi)):
        if gated or got is not None:
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.states("mamba Section 8.3 (algorithm)")
@pytest.mark.parametrize("gated", [True, False])
def test_sgd_takes_the_same_steps_in_both_coordinates(gated):
    # d = 30, patterns in random directions, 40 steps; then unseen outliers with a part outside the span.
    rng = np.random.default_rng(0)
    patterns, u = turned(rng)
    E, eta, B = axes(patterns), 0.5 if gated else 0.005, 16
    Psi_0 = initial(SETTING.d, SETTING.delta, rng, gated=gated)
    inside, _ = sgd(SETTING, to_coordinates(Psi_0, E), eta, B, 40, np.random.default_rng(1))
    plain, same = Psi_0, fresh_prompts(SETTING, B, np.random.default_rng(1))
    for p in islice(same, 40):
        plain = plain_step(plain, tokens(p, patterns, SETTING.kappa_a * patterns.v), p.z, eta)
    lifted = from_coordinates(inside, Psi_0, E)
    assert np.max(np.abs(plain.W_B - Psi_0.W_B)) > 0.01  # it did train
    for got, expected in zip(lifted, plain):
        if gated or got is not None:
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11)
    E = axes(patterns, u)
    outliers = 4 * unseen_outliers(patterns.v, UNSEEN, np.outer([0.5, -1.0, 2.0], u))
    p = test_prompts(rng, 50, SETTING.l, all_tasks(SETTING.M1), SETTING.M2, 3, 0.6)
    coordinates = outliers @ E[SETTING.M1 + SETTING.M2 :].T
    F = forward(encode(p, SETTING.M1, SETTING.M2, SETTING.beta, coordinates), to_coordinates(plain, E))[0]
    np.testing.assert_allclose(F, output(tokens(p, patterns, outliers), plain), rtol=1e-9, atol=1e-11)
    if gated:  # and u matters: without it the gates are others
        other = tokens(p, patterns, outliers - np.outer([2.0, -4.0, 8.0], u))
        assert np.max(np.abs(gates(other, plain.w) - gates(tokens(p, patterns, outliers), plain.w))) > 1e-3
        assert np.allclose(
            attention(other, *plain[:2]), attention(tokens(p, patterns, outliers), *plain[:2]), atol=1e-11
        )


def test_a_small_state_has_no_pattern_coordinates():
    patterns, _ = turned(np.random.default_rng(0))
    with pytest.raises(ValueError, match="^W_B: pattern coordinates need a state size of at least 30"):
        to_coordinates(initial(30, 0.2, np.random.default_rng(0), m=21), axes(patterns))
    with pytest.raises(ValueError, match="^patterns: must be orthogonal"):
        axes(patterns, patterns.mu[0])


@pytest.mark.states("mamba Eq. 3")
def test_saturated_gates_give_zeros_and_ones():
    P = np.array([[[800.0, 1.0], [0.0, 1.0], [-800.0, 0.0]]])
    with np.errstate(all="raise", under="ignore"):
        G = forward(P, Weights(np.ones((1, 2)), np.ones((1, 2)), np.array([1.0, 0.0])))[1]
    np.testing.assert_allclose(G, [[0.5, 0.5, 0]], atol=1e-300)
