"""Lemma D.1: descent, recursion and Gram form are one run; a given p comes apart into what it was made of."""

import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.attention.data import draw_experiment, signal_of, signals, streams
from refimpl.attention.decomposition import (
    _span_coefficients,
    decompose,
    noise_update,
    reconstruct,
    recursion,
    signal_update,
)
from refimpl.attention.descent import descend_p
from refimpl.attention.head import linear_head
from refimpl.attention.model import attention, output, scores
from refimpl.attention.runs import gram
from refimpl.attention.setting import Setting
from tests.strategies import attention_problems, seeds


def parts(problem):
    return problem["sample"], problem["mu"], problem["nu"], problem["weak_scale"], problem["alpha"], problem["W"]


@pytest.mark.states("attention Lemma D.1")
def test_one_step_and_its_sum_by_hand():
    """Scores 1, -1 and 0 at p = 0, Y = +1: f = 0, |l'| = 1/2, alpha = 6: Delta rho = 3 * (1/3, -1/3, 0) = (1, -1, 0).

    With roles R, W_{+1}, W_{-1}, rho = 1/4 and Y* = -1: Delta lam = (-1/4, 1)."""
    delta_rho = noise_update(np.zeros((1, 3)), [[1.0, -1.0, 0.0]], [1], 6.0)
    np.testing.assert_allclose(delta_rho, [[1, -1, 0]], rtol=1e-14)
    np.testing.assert_allclose(signal_update(delta_rho, signal_of([-1], [[2, 1, -1]], 0.25)), [-0.25, 1], rtol=1e-14)
    mu, noise = [[2.0, 0, 0], [0, 2.0, 0]], [[[0, 0, 1.0], [0, 0, 3.0], [0, 1.0, 0]]]
    p = reconstruct([-0.25, 1.0], delta_rho, mu, noise)  # -mu_{+1} / 4 + mu_{-1} + (1 - 3) e_3
    np.testing.assert_allclose(p, [-0.5, 2, -2], rtol=1e-14)
    turned = reconstruct([-0.25, 1.0], delta_rho, mu, noise, [[0.0, 1, 0], [1, 0, 0], [0, 0, 1]])
    np.testing.assert_allclose(turned, [2, -0.5, -2], rtol=1e-14)
    found = decompose(p, mu, [[[0, 0, 4.0]]])
    np.testing.assert_allclose((*found.lam, found.rho[0, 0]), [-0.25, 1, -0.5], rtol=1e-14)


@pytest.mark.states("attention Lemma D.1")
@given(problem=attention_problems(), steps=st.integers(0, 30))
def test_descent_recursion_and_gram_form_give_one_p(problem, steps):
    sample, mu, nu, weak_scale, alpha, W = parts(problem)
    p = descend_p(sample.X, sample.Y, nu, alpha, steps, (None, W))
    lam, rho = recursion(sample, mu, nu, weak_scale, alpha, steps)
    M, gamma = gram.gram(sample.X, nu)
    rho_gram = gram.descend(M, gamma, sample.Y, alpha, steps)
    lam_gram = signal_update(rho_gram, signal_of(sample.Y_star, sample.roles, weak_scale))
    size = 1e-10 * np.linalg.norm(p)
    assert np.linalg.norm(reconstruct(lam, rho, mu, sample.noise, W) - p) <= size
    assert np.linalg.norm(gram.combine(sample.X, rho_gram, W) - p) <= size
    np.testing.assert_allclose(rho_gram, rho, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(lam_gram, lam, rtol=1e-9, atol=1e-13)


@pytest.mark.states("attention Lemma D.1")
def test_the_same_at_the_papers_size():
    steps = 1000
    sample, mu = draw_experiment(streams(0)[0], Setting()), signals(20.0, 2000)
    nu = linear_head(mu)
    p = descend_p(sample.X, sample.Y, nu, 1e-4, steps)
    lam, rho = recursion(sample, mu, nu, 0.2, 1e-4, steps)
    rho_gram = gram.descend(*gram.gram(sample.X, nu), sample.Y, 1e-4, steps)
    for other in (reconstruct(lam, rho, mu, sample.noise), gram.combine(sample.X, rho_gram)):
        assert np.linalg.norm(other - p) <= 1e-10 * np.linalg.norm(p)


@pytest.mark.states("attention Lemma D.1")
@given(problem=attention_problems(), seed=seeds)
def test_one_update_from_the_printed_sums(problem, seed):
    sample, mu, nu, weak_scale, alpha, W = parts(problem)
    p = np.random.default_rng(seed).standard_normal(len(nu)) / len(nu)
    W_explicit = np.eye(len(nu)) if W is None else W
    s, gamma, f = attention(sample.X, p, W), scores(sample.X, nu), output(sample.X, p, nu, W)
    delta_rho = noise_update(sample.X @ W_explicit.T @ p, gamma, sample.Y, alpha)
    n, T = s.shape
    delta_lam = [0.0, 0.0]
    for i in range(n):
        slope = 1 / (1 + np.exp(sample.Y[i] * f[i]))  # -l'
        for t in range(T):
            expected = alpha / n * slope * sample.Y[i] * s[i, t] * (gamma[i, t] - f[i])
            assert delta_rho[i, t] == pytest.approx(expected, rel=1e-8, abs=1e-13)
            for k, c in enumerate((1, -1)):
                if sample.roles[i, t] == 2 and sample.Y_star[i] == c:
                    delta_lam[k] += expected
                if sample.roles[i, t] == c:
                    delta_lam[k] += weak_scale * expected
    carried = signal_of(sample.Y_star, sample.roles, weak_scale)
    np.testing.assert_allclose(signal_update(delta_rho, carried), delta_lam, rtol=1e-8, atol=1e-13)


@pytest.mark.states("attention Lemma D.1")
@given(problem=attention_problems(), steps=st.integers(1, 20))
def test_the_noise_coefficients_of_a_sample_sum_to_zero(problem, steps):
    sample, mu, nu, weak_scale, alpha, _ = parts(problem)
    history = []
    recursion(sample, mu, nu, weak_scale, alpha, steps, record=lambda tau, lam, rho: history.append((tau, lam, rho)))
    assert [tau for tau, *_ in history] == list(range(steps + 1))
    assert not history[0][1].any() and not history[0][2].any()
    for _, _, rho in history:
        np.testing.assert_allclose(rho.sum(axis=1), 0, atol=1e-14 * max(1, np.abs(rho).max()) * rho.shape[1])


@pytest.mark.states("attention Lemma D.1")
@given(problem=attention_problems(roomy=True), seed=seeds)
def test_a_p_comes_apart_into_what_it_was_made_of(problem, seed):
    sample, mu, _, _, _, W = parts(problem)
    rng = np.random.default_rng(seed)
    lam, rho = rng.standard_normal(2), rng.standard_normal(sample.roles.shape)
    found = decompose(reconstruct(lam, rho, mu, sample.noise, W), mu, sample.noise, W)
    assert found.unique and found.rank == 2 + rho.size
    accuracy = 1e-13 * found.condition * np.sqrt(rho.size + 2) * 10
    np.testing.assert_allclose(found.lam, lam, atol=accuracy)
    np.testing.assert_allclose(found.rho, rho, atol=accuracy)
    assert found.residual < 1e-12


@pytest.mark.states("attention Lemma D.1")
def test_too_few_dimensions_give_the_smallest_coefficients_not_an_error():
    rng = np.random.default_rng(0)
    mu, noise, p = 2 * np.eye(2, 5), rng.standard_normal((2, 3, 5)), rng.standard_normal(5)
    found = decompose(p, mu, noise)
    assert not found.unique and found.rank == 5 and found.residual < 1e-12
    directions = np.vstack((mu, noise.reshape(6, 5)))
    expected = np.linalg.pinv(directions.T) @ p
    np.testing.assert_allclose(np.concatenate((found.lam, found.rho.ravel())), expected, rtol=1e-10)


@pytest.mark.states("attention Lemma D.1")
def test_a_p_outside_the_span_leaves_a_residual():
    mu, noise = np.eye(2, 5), np.eye(5)[2:4].reshape(1, 2, 5)
    found = decompose([0.0, 3, 0, 0, 4], mu, noise)
    assert found.residual == pytest.approx(0.8) and found.unique
    np.testing.assert_allclose(found.lam, [0, 3], atol=1e-15)


def test_nearly_dependent_directions_are_told_by_condition_and_cutoff():
    directions, q = [[1, 0, 0], [1, 1e-9, 0]], [0, 1, 0]
    with pytest.warns(RuntimeWarning, match="condition number 2.0e[+]09"):
        coefficients, rank, condition, cutoff, unique, residual = _span_coefficients(directions, q)
    np.testing.assert_allclose(coefficients, [-1e9, 1e9], rtol=1e-6)
    assert (rank, unique) == (2, True) and cutoff < 1e-14 and residual < 1e-6
    coefficients, rank, condition, cutoff, unique, residual = _span_coefficients(directions, q, rcond=1e-8)
    np.testing.assert_allclose(coefficients, [2.5e-10, 2.5e-10], rtol=1e-6)
    assert (rank, condition, unique) == (1, 1, False) and cutoff == pytest.approx(1e-8 * np.sqrt(2))
    assert residual == pytest.approx(1)


def test_an_exact_repeat_is_one_direction():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coefficients, rank, *_, unique, residual = _span_coefficients([[1, 2], [1, 2]], [2, 4])
    np.testing.assert_allclose(coefficients, [1, 1])
    assert rank == 1 and not unique and residual < 1e-15


def test_a_p_of_zero_has_no_residual():
    assert decompose(np.zeros(3), np.eye(2, 3), np.ones((1, 1, 3))).residual == 0


@pytest.mark.parametrize("rcond", [-1, np.nan, 2])
def test_a_bad_rcond_is_named(rcond):
    with pytest.raises(ValueError, match="^rcond: "):
        decompose(np.ones(3), np.eye(2, 3), np.ones((1, 1, 3)), rcond=rcond)


def test_directions_of_zero_have_rank_zero():
    found = decompose(np.ones(3), np.zeros((2, 3)), np.zeros((1, 1, 3)))
    assert (found.rank, found.condition, found.unique, found.residual) == (0, 1, False, 1)


def test_a_long_p_needs_no_square_array():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((1, 4, 4000))
    tracemalloc.start()
    decompose(noise[0, 0], np.eye(2, 4000), noise)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**23  # bytes; d x d would take 2^27
