"""The written-out step of the Gram form against the public functions; many settings together against one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.attention.decomposition import noise_update
from refimpl.attention.descent import descend_p
from refimpl.attention.model import attention, random_orthogonal
from refimpl.attention.runs.gram import combine, descend, gram
from refimpl.checks import Diverged
from tests.strategies import attention_problems, seeds


@pytest.mark.states("attention Lemma D.1")
def test_one_step_by_hand():
    """Tokens (1, 1) and (0, 2), nu = (2, -2): scores 0 and -4, f = -2 at rho = 0, -l' = 1 / (1 + e^2) at Y f = 2.

    s_t (gamma_t - f) = (1, -1), so Delta rho = alpha / (1 + e^2) times (-1, 1)."""
    X = np.array([[[1.0, 1], [0, 2]]])
    M, gamma = gram(X, [2.0, -2.0])
    np.testing.assert_array_equal(M, [[2, 2], [2, 4]])
    np.testing.assert_array_equal(gamma, [[0, -4]])
    rho = descend(M, gamma, [-1], 3.0, 1)
    step = 3 / (1 + np.exp(2))
    np.testing.assert_allclose(rho, [[-step, step]], rtol=1e-14)
    np.testing.assert_allclose(combine(X, rho), [-step, step], rtol=1e-14)
    np.testing.assert_allclose(combine(X, rho, [[0.0, 1], [-1, 0]]), [step, step], rtol=1e-14)


@pytest.mark.states("attention Lemma D.1")
@given(problem=attention_problems(), seed=seeds, scale=st.sampled_from([0.1, 1.0, 30.0]))
def test_each_step_is_the_public_update(problem, seed, scale):
    sample, nu = problem["sample"], problem["nu"]
    M, gamma = gram(sample.X, nu)
    start = scale * np.random.default_rng(seed).standard_normal(gamma.shape)
    path = []
    descend(M, gamma, sample.Y, problem["alpha"], 3, start, record=lambda tau, rho, s: path.append((rho, s)))
    np.testing.assert_array_equal(path[0][0], start)
    for (rho, s), (moved, _) in zip(path, path[1:]):
        z = (M @ rho.ravel()).reshape(gamma.shape)
        np.testing.assert_allclose(
            moved - rho, noise_update(z, gamma, sample.Y, problem["alpha"]), rtol=1e-7, atol=1e-12 * scale
        )
        np.testing.assert_allclose(s, attention(sample.X, combine(sample.X, rho)), rtol=1e-8, atol=1e-12)


@pytest.mark.states("attention Lemma D.1")
@given(problem=attention_problems())
def test_products_and_sums_of_tokens(problem):
    sample, nu = problem["sample"], problem["nu"]
    M, gamma = gram(sample.X, nu)
    n, T, d = sample.X.shape
    for i, t, j, u in np.ndindex(n, T, n, T):
        assert M[i * T + t, j * T + u] == pytest.approx(sample.X[i, t] @ sample.X[j, u], rel=1e-9, abs=1e-10)
    rho = np.random.default_rng(0).standard_normal((n, T))
    W = random_orthogonal(np.random.default_rng(1), d)
    q = sum(rho[i, t] * sample.X[i, t] for i in range(n) for t in range(T))
    np.testing.assert_allclose(combine(sample.X, rho), q, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(combine(sample.X, rho, W), W @ q, rtol=1e-9, atol=1e-10)


@pytest.mark.states("attention Lemma D.1")
def test_settings_together_are_settings_one_by_one():
    rng = np.random.default_rng(0)
    X, nu, Y = rng.standard_normal((3, 4, 2, 30)), rng.standard_normal((3, 30)), rng.choice([-1, 1], (3, 4))
    M, gamma = map(np.array, zip(*map(gram, X, nu)))
    together = descend(M, gamma, Y, 0.05, 40)
    for k in range(3):
        np.testing.assert_allclose(together[k], descend(M[k], gamma[k], Y[k], 0.05, 40), rtol=1e-12)
        p = descend_p(X[k], Y[k], nu[k], 0.05, 40)
        np.testing.assert_allclose(combine(X[k], together[k]), p, rtol=1e-9, atol=1e-12)


def test_a_run_can_be_taken_up_where_it_stopped():
    rng = np.random.default_rng(0)
    M, gamma = gram(rng.standard_normal((3, 4, 20)), rng.standard_normal(20))
    half = descend(M, gamma, [1, -1, 1], 0.1, 10)
    np.testing.assert_allclose(
        descend(M, gamma, [1, -1, 1], 0.1, 10, half), descend(M, gamma, [1, -1, 1], 0.1, 20), rtol=1e-11
    )


def test_what_is_recorded_is_not_changed_later():
    rng, kept = np.random.default_rng(0), []
    M, gamma = gram(rng.standard_normal((3, 4, 20)), rng.standard_normal(20))
    descend(M, gamma, [1, -1, 1], 0.1, 5, record=lambda tau, *arrays: kept.append((arrays, [a.copy() for a in arrays])))
    assert len(kept) == 6
    for arrays, copies in kept:
        for array, copy in zip(arrays, copies):
            np.testing.assert_array_equal(array, copy)


def test_a_step_that_is_too_large_stops_with_the_last_finite_state():
    M, gamma = gram([[[1.0, 0], [0, 1]]], [1.0, -1])
    with pytest.raises(Diverged, match="at step 1 ") as caught:
        descend(M, gamma, [1], 1e308, 5)
    assert caught.value.step == 1 and not caught.value.state.any()


@pytest.mark.parametrize(
    "change",
    [
        dict(M=np.eye(3)),
        dict(M=np.ones((2, 4, 4))),
        dict(Y=[1, 0]),
        dict(Y=[1]),
        dict(alpha=-1),
        dict(rho=np.ones((2, 3))),
    ],
)
def test_bad_input_is_named(change):
    good = dict(M=np.eye(4), gamma=np.ones((2, 2)), Y=[1, -1], alpha=0.1, steps=1)
    with pytest.raises(ValueError, match="^(M|Y|alpha|rho|gamma): "):
        descend(**{**good, **change})


def test_what_is_recorded_belongs_to_the_caller():
    rng = np.random.default_rng(0)
    M, gamma = gram(rng.standard_normal((3, 4, 20)), rng.standard_normal(20))
    expected = descend(M, gamma, [1, -1, 1], 0.1, 3)

    def record(tau, rho, s):
        rho[:], s[:] = 7, 7

    np.testing.assert_array_equal(descend(M, gamma, [1, -1, 1], 0.1, 3, record=record), expected)
