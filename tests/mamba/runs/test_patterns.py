"""Pattern coordinates hold the same model as the plain form: outputs, gradients, and a whole training run."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from refimpl.mamba.model import Weights, attention, gates, loss_gradient, output
from refimpl.mamba.prompts import Prompts, stream, test_prompts, tokens, training_prompts, unseen_outliers
from refimpl.mamba.runs.patterns import (
    axes,
    batches,
    encode,
    forward,
    from_coordinates,
    gradient,
    start,
    to_coordinates,
)
from refimpl.mamba.setting import UNSEEN, Setting, Testing
from refimpl.mamba.tasks import all_tasks, orthogonal_patterns
from refimpl.mamba.training import initial, plain_step, sgd
from tests.mamba.draws import models
from tests.strategies import seeds


@pytest.mark.states("mamba Eq. 2")
def test_the_coordinates_of_one_prompt_by_hand():
    """Columns: two relevant patterns (beta = 2), one irrelevant (beta kappa), two outliers (1.5 * 3), the label."""
    setting = Setting(M1=2, M2=1, V=2, beta=2.0, kappa_a=1.5, outlier_norm=3.0)
    tasks, j, k, s = (np.array([x]) for x in ([0, 1], [0, 1, 1], [0, 0, 0], [-1, 1, -1]))
    prompt = Prompts(tasks, j, k, np.array([[0.5, -0.5, 0.0]]), s, np.array([[1.0, 1.0, 0.0]]), np.array([-1.0]))
    expected = [[[2, 0, 1, 0, 0, 1], [0, 2, -1, 0, 4.5, 1], [0, 2, 0, 0, 0, 0]]]
    assert encode(prompt, setting).tolist() == expected
    mixed = encode(prompt, setting, np.array([[7.0, 8.0], [9.0, 6.0]]))[0, :, 3:5]  # outlier 1 of two others
    assert mixed.tolist() == [[0, 0], [9, 6], [0, 0]]


@pytest.mark.states("mamba Eq. 3")
def test_eq_3_by_hand():
    """The example of test_model: G = (9/32, 1/8, 1/2), attention (18, 36, 54), F = 9/16."""
    P = np.array([[[1.0, 1.0], [2.0, -1.0], [3.0, 0.0]]])
    Psi = Weights(np.array([[2.0, 0.0]]), np.array([[3.0, 0.0]]), np.array([0.0, np.log(3)]))
    F, G, scores = forward(P, Psi)
    np.testing.assert_allclose(F, [9 / 16])
    np.testing.assert_allclose(G, [[9 / 32, 1 / 8, 1 / 2]])
    np.testing.assert_allclose(scores, [[18, 36, 54]])
    by, F = gradient(P, np.array([1.0]), Psi)
    for got, expected in zip(by, ([[-9 / 32, -117 / 32]], [[-3 / 16, 0]], [567 / 64, -189 / 32])):
        np.testing.assert_allclose(got, expected)


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
    p = test_prompts(rng, 3, SETTING, Testing(all_tasks(SETTING.M1), alpha=alpha, l=5, K=2.0))
    P = tokens(p, patterns, outliers)
    encoded = encode(p, SETTING, outliers @ E[SETTING.M1 + SETTING.M2 :].T)
    np.testing.assert_allclose(encoded[..., :-1], P[..., :-1] @ E.T, atol=1e-12)
    np.testing.assert_allclose(encoded[..., :-1] @ E, P[..., :-1], atol=1e-12)
    assert np.array_equal(encoded[..., -1], P[..., -1])
    assert np.array_equal(encode(p, SETTING), encode(p, SETTING, SETTING.outliers()))  # the training ones


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
    """d = 30, patterns in random directions, 40 steps; then unseen outliers with a part outside the span."""
    rng = np.random.default_rng(0)
    patterns, u = turned(rng)
    E, eta, B = axes(patterns), 0.5 if gated else 0.005, 16
    Psi_0 = initial(SETTING.d, SETTING.delta, rng, gated=gated)
    drawn = batches(np.random.default_rng(1), SETTING._replace(B=B))
    inside, _ = sgd(to_coordinates(Psi_0, E), drawn, eta, 40, gradient)
    plain, same = Psi_0, stream(np.random.default_rng(1), B, SETTING)
    for p in islice(same, 40):
        plain = plain_step(plain, tokens(p, patterns, SETTING.kappa_a * patterns.v), p.z, eta)
    lifted = from_coordinates(inside, Psi_0, E)
    assert np.max(np.abs(plain.W_B - Psi_0.W_B)) > 0.01  # it did train
    for got, expected in zip(lifted, plain):
        if gated or got is not None:
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11)
    E = axes(patterns, u)
    outliers = 4 * unseen_outliers(patterns.v, UNSEEN, np.outer([0.5, -1.0, 2.0], u))
    p = test_prompts(rng, 50, SETTING, Testing(all_tasks(SETTING.M1), alpha=0.6))
    coordinates = outliers @ E[SETTING.M1 + SETTING.M2 :].T
    F = forward(encode(p, SETTING, coordinates), to_coordinates(plain, E))[0]
    np.testing.assert_allclose(F, output(tokens(p, patterns, outliers), plain), rtol=1e-9, atol=1e-11)
    if gated:  # and u matters: without it the gates are others
        other = tokens(p, patterns, outliers - np.outer([2.0, -4.0, 8.0], u))
        assert np.max(np.abs(gates(other, plain.w) - gates(tokens(p, patterns, outliers), plain.w))) > 1e-3
        assert np.allclose(
            attention(other, *plain[:2]), attention(tokens(p, patterns, outliers), *plain[:2]), atol=1e-11
        )


@pytest.mark.states("mamba Section 2 (initialisation)")
def test_the_start_has_the_variance_of_d_where_there_are_fewer_patterns():
    """A Kolmogorov-Smirnov test at 1e-3, seed 0: w ~ N(0, I/(d+1)) also where D < d."""
    rng, wide = np.random.default_rng(0), Setting(d=10**6)
    inside = np.concatenate([start(wide, rng).w for _ in range(200)])
    assert kstest(inside * np.sqrt(10**6 + 1), "norm").pvalue > 1e-3
    Psi = start(Setting(delta=0.1), rng, gated=False)
    assert np.array_equal(Psi.W_B, 0.1 * np.eye(19, 20)) and np.array_equal(Psi.W_C, Psi.W_B) and Psi.w is None


@pytest.mark.states("mamba Section 8.3 (algorithm)")
def test_batches_are_the_stream_encoded():
    drawn = batches(np.random.default_rng(2), SETTING._replace(B=3))
    for (P, z), p in islice(zip(drawn, stream(np.random.default_rng(2), 3, SETTING)), 6):
        assert np.array_equal(P, encode(p, SETTING)) and np.array_equal(z, p.z) and len(z) == 3


@pytest.mark.states("mamba Section 8.3 (algorithm)")
def test_no_change_of_the_coordinates_is_no_change():
    E = axes(orthogonal_patterns(3, 2, 2, 7))
    Psi = initial(7, 0.2, np.random.default_rng(0), m=7)
    assert all(np.array_equal(x, y) for x, y in zip(from_coordinates(Psi, Psi, E), Psi))


def test_a_small_state_has_no_pattern_coordinates():
    patterns, _ = turned(np.random.default_rng(0))
    with pytest.raises(ValueError, match="^W_B: pattern coordinates need a state size of at least 30"):
        to_coordinates(initial(30, 0.2, np.random.default_rng(0), m=21), axes(patterns))
    with pytest.raises(ValueError, match="^patterns: must be orthogonal"):
        axes(patterns, patterns.mu[0])


def test_more_patterns_than_dimensions_are_named():
    with pytest.raises(ValueError, match="^d: "):
        start(Setting(d=18), np.random.default_rng(0))


@pytest.mark.states("mamba Eq. 3")
def test_saturated_gates_give_zeros_and_ones():
    P = np.array([[[800.0, 1.0], [0.0, 1.0], [-800.0, 0.0]]])
    with np.errstate(all="raise", under="ignore"):
        G = forward(P, Weights(np.ones((1, 2)), np.ones((1, 2)), np.array([1.0, 0.0])))[1]
    np.testing.assert_allclose(G, [[0.5, 0.5, 0]], atol=1e-300)


def test_long_prompts_are_finite_in_both_forms():
    """Case B1: 3,000 examples."""
    setting = Setting(M1=3, M2=2, V=2, p_a=0.5, l=3000)
    p = training_prompts(np.random.default_rng(0), 2, setting)
    P = encode(p, setting)
    Psi = initial(7, 0.2, np.random.default_rng(0), m=7)
    with np.errstate(all="raise", under="ignore"):
        step, F = gradient(P, p.z, Psi)
    np.testing.assert_allclose(F, output(P, Psi), rtol=1e-9)
    assert all(np.all(np.isfinite(g)) for g in step)


def test_the_cost_does_not_depend_on_d():
    """Case H4: pattern coordinates do not form a d x d array."""
    rng, setting = np.random.default_rng(0), Setting(d=10**9, B=8)
    Psi, _ = sgd(start(setting, rng), batches(rng, setting), 1.0, 2, gradient)
    assert Psi.W_B.shape == (19, 20)
