"""Descent is its gradient, step by step; W and p move alike; divergence is reported where it starts."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.attention.descent import descend_p, descend_W
from refimpl.attention.model import loss, loss_gradient_p, loss_gradient_W, random_orthogonal
from refimpl.checks import Diverged
from tests.strategies import attention_problems


@pytest.mark.states("attention Section 3.4 (gradient descent)", "attention Lemma A.6")
def test_one_step_by_hand():
    """One sample, orthogonal tokens with scores 1 and -1, s = (1/2, 1/2), f = 0: |l'| = 1/2, and -dL/dz = (1/4, -1/4).

    At alpha = 4, p goes from 0 to (1, -1). W goes from I, with p = (2, 2), to I + p (1, -1)^T."""
    X, Y, nu = np.eye(2)[None], [1], [1.0, -1.0]
    np.testing.assert_allclose(descend_p(X, Y, nu, 4.0, 1), [1, -1], rtol=1e-14)
    turned = [[0.0, 1], [-1, 0]]
    np.testing.assert_allclose(descend_p(X, Y, nu, 4.0, 1, (None, turned)), [-1, -1], rtol=1e-14)
    np.testing.assert_allclose(descend_W(X, Y, nu, 4.0, 1, ([2.0, 2], np.eye(2))), [[3, -2], [2, -1]], rtol=1e-14)


@pytest.mark.states("attention Section 3.4 (gradient descent)")
@given(problem=attention_problems(), steps=st.integers(0, 4))
def test_each_step_goes_down_the_public_gradient_from_zero(problem, steps):
    X, Y, nu, alpha, W = (*problem["sample"][:2], problem["nu"], problem["alpha"], problem["W"])
    path = []
    last = descend_p(X, Y, nu, alpha, steps, (None, W), record=lambda tau, p: path.append((tau, p)))
    assert [tau for tau, _ in path] == list(range(steps + 1)) and not path[0][1].any()
    np.testing.assert_array_equal(path[-1][1], last)
    for (_, p), (_, moved) in zip(path, path[1:]):
        np.testing.assert_allclose(moved, p - alpha * loss_gradient_p(X, Y, p, nu, W), rtol=1e-12, atol=1e-15)


@pytest.mark.states("attention Lemma A.6")
@given(problem=attention_problems(), steps=st.integers(1, 5))
def test_descent_on_W_and_on_p_move_the_query_alike(problem, steps):
    X, Y, nu, alpha = (*problem["sample"][:2], problem["nu"], problem["alpha"])
    rng = np.random.default_rng(0)
    d = len(nu)
    W_0, W, p_0 = random_orthogonal(rng, d), rng.standard_normal((d, d)), rng.standard_normal(d)
    Ws, ps = [], []
    descend_W(X, Y, nu, alpha, steps, (p_0, W), record=lambda tau, W: Ws.append(W))
    descend_p(X, Y, nu, alpha * p_0 @ p_0, steps, (W_0 @ W.T @ p_0, W_0), record=lambda tau, p: ps.append(p))
    for W_tau, p_tau in zip(Ws, ps):
        np.testing.assert_allclose(W_tau.T @ p_0, W_0.T @ p_tau, rtol=1e-9, atol=1e-11)


@pytest.mark.states("attention Lemma A.6")
@given(problem=attention_problems())
def test_one_step_on_W_goes_down_the_public_gradient(problem):
    X, Y, nu, alpha = (*problem["sample"][:2], problem["nu"], problem["alpha"])
    rng = np.random.default_rng(1)
    W, p = rng.standard_normal((len(nu), len(nu))), rng.standard_normal(len(nu))
    moved = descend_W(X, Y, nu, alpha, 1, (p, W))
    np.testing.assert_allclose(moved, W - alpha * loss_gradient_W(X, Y, p, nu, W), rtol=1e-12, atol=1e-14)


def test_two_nearly_equal_tokens_with_opposite_labels():
    X, Y, nu = np.array([[[1.0, 0], [0, 1]], [[1.0, 1e-3], [0, 1]]]), [1, -1], np.array([1.0, -1])
    p = descend_p(X, Y, nu, 1e4, 50)
    assert np.isfinite(loss(X, Y, p, nu))
    with pytest.raises(Diverged, match="step 1 overflows") as caught:
        descend_p(40 * X, [1, 1], nu, 1e308, 50)
    assert caught.value.step == 1 and not caught.value.state.any()


def test_one_class_alone_and_one_sample_alone_train():
    X, nu = np.random.default_rng(0).standard_normal((3, 2, 4)), np.ones(4)
    for Y in ([1, 1, 1], [-1, -1, -1]):
        assert loss(X, Y, descend_p(X, Y, nu, 0.1, 50), nu) < loss(X, Y, np.zeros(4), nu)
    assert np.all(np.isfinite(descend_p(X[:1], [1], nu, 0.1, 50)))


@pytest.mark.parametrize(
    "change", [dict(alpha=0), dict(alpha=np.nan), dict(steps=-1), dict(steps=1.5), dict(nu=np.ones(3))]
)
def test_bad_input_is_named(change):
    good = dict(X=np.ones((1, 2, 4)), Y=[1], nu=np.ones(4), alpha=0.1, steps=1)
    with pytest.raises(ValueError, match=f"^{next(iter(change))}: "):
        descend_p(**{**good, **change})


def test_what_is_recorded_belongs_to_the_caller():
    X, Y, nu = np.random.default_rng(0).standard_normal((3, 2, 4)), [1, 1, -1], np.ones(4)
    expected, kept = descend_p(X, Y, nu, 0.1, 3), []

    def record(tau, p):
        kept.append(p)
        p[:] = 7

    last = descend_p(X, Y, nu, 0.1, 3, record=record)
    np.testing.assert_array_equal(last, expected)
    assert not any(np.shares_memory(last, p) for p in kept)


def test_logits_that_overflow_are_a_divergence_with_the_last_finite_p():
    X, Y, nu = 1e5 * np.random.default_rng(0).standard_normal((4, 5, 30)), [1, -1, 1, -1], np.full(30, 1e-5)
    with pytest.raises(Diverged) as caught:
        descend_p(X, Y, nu, 1e302, 5)
    assert caught.value.step >= 1 and np.all(np.isfinite(caught.value.state))


@pytest.mark.erratum("attention-a6-step")
def test_the_step_on_p_is_that_of_the_start():
    """100 steps at alpha = 0.2: with |p_0|^2 the queries are one to rounding, with |p(tau)|^2 they part."""
    rng = np.random.default_rng(0)
    n, d = 5, 6
    X, Y, nu = rng.standard_normal((n, 3, d)), rng.choice([-1.0, 1.0], n), rng.standard_normal(d)
    W, W_0, p_0 = rng.standard_normal((d, d)), random_orthogonal(rng, d), rng.standard_normal(d)
    start = W_0 @ W.T @ p_0
    target = descend_W(X, Y, nu, 0.2, 100, (p_0, W)).T @ p_0
    constant = descend_p(X, Y, nu, 0.2 * p_0 @ p_0, 100, (start, W_0))
    printed = start
    for _ in range(100):
        printed = descend_p(X, Y, nu, 0.2 * printed @ printed, 1, (printed, W_0))
    np.testing.assert_allclose(W_0.T @ constant, target, rtol=1e-11, atol=1e-12)
    assert np.linalg.norm(W_0.T @ printed - target) > 0.1 * np.linalg.norm(target)


def test_integers_are_as_good_as_floats():
    X, Y, p, nu = [[[1, 2, 0], [0, 1, 3]]], [1], np.zeros(3, int), [1, -1, 2]
    as_float = [np.asarray(part, float) for part in (X, Y, nu)]
    np.testing.assert_array_equal(descend_p(X, Y, nu, 0.1, 3, (p, None)), descend_p(*as_float, 0.1, 3))
    assert p.dtype == int and not p.any()


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (2, 3, 0)])
def test_an_empty_axis_is_refused(shape):
    with pytest.raises(ValueError, match=r"empty axis"):
        descend_p(np.ones(shape), np.ones(shape[0]), np.zeros(shape[2]), 0.1, 1)


@given(problem=attention_problems())
def test_read_only_arguments_are_enough_and_results_are_new_arrays(problem):
    X, Y, nu = (*problem["sample"][:2], problem["nu"])
    rng = np.random.default_rng(0)
    p, W = rng.standard_normal(len(nu)), rng.standard_normal((len(nu), len(nu)))
    given_arrays = (X, Y, p, nu, W)
    before = [a.tobytes() for a in given_arrays]
    for a in given_arrays:
        a.flags.writeable = False
    results = [descend_p(X, Y, nu, 0.1, steps, (p, W)) for steps in (0, 1)]
    results += [descend_W(X, Y, nu, 0.1, steps, (p, W)) for steps in (0, 1)]
    assert [a.tobytes() for a in given_arrays] == before
    assert not any(np.shares_memory(r, a) for r in results for a in given_arrays)


def test_d_of_60000_needs_no_d_by_d_array():
    d, rng = 60_000, np.random.default_rng(0)
    tracemalloc.start()
    X, Y, nu = rng.standard_normal((4, 2, d)), [1, -1, 1, -1], rng.standard_normal(d) / d
    assert np.isfinite(loss(X, Y, descend_p(X, Y, nu, 1e-3, 3), nu))
    assert tracemalloc.get_traced_memory()[1] < 2**25  # bytes; X itself takes 2^22
    tracemalloc.stop()
