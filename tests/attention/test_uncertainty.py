"""Definition 4.1 and Eqs. 9 to 13 against sums written sample by sample, and on a case worked by hand."""

import numpy as np
import pytest
from hypothesis import given

from refimpl.attention import uncertainty as U
from refimpl.attention.data import RELEVANT
from refimpl.calculus.softmax import softmax
from tests.strategies import seeds


def drawn(seed, scale=2.0):
    rng = np.random.default_rng(seed)
    n, T, steps = rng.integers(2, 6), rng.integers(3, 6), rng.integers(1, 5)
    roles = rng.permuted(np.tile([2, 1, -1, 0, 2][:T], (n, 1)), axis=1)
    s = softmax(scale * rng.standard_normal((steps, n, T)))
    return s, roles, rng.choice([-1.0, 1], n), rng.choice([-1.0, 1], n)


def totals_of(s, roles):
    totals = U.start(s[0])
    for step in s:
        totals = U.add(totals, step, roles == RELEVANT)
    return totals


@pytest.mark.states("attention Definition 4.1")
@given(seed=seeds)
def test_uncertainty_is_the_variance_of_picking_a_relevant_token(seed):
    s, roles, *_ = drawn(seed)
    for row, role, value in zip(s[0], roles, U.uncertainty(s[0], roles)):
        picked = sum(w for w, r in zip(row, role) if r == RELEVANT)
        assert value == pytest.approx(picked * (1 - picked), rel=1e-12) and 0 <= value <= 0.25


@pytest.mark.states("attention Definition 4.1")
def test_uncertainty_keeps_its_digits_when_attention_is_one_hot():
    np.testing.assert_allclose(U.uncertainty([[1.0, 1e-30]], [[RELEVANT, 0]]), 1e-30, rtol=1e-12)


@pytest.mark.states("attention Eq. 9", "attention Eq. 10", "attention Eq. 11", "attention Eq. 13")
@given(seed=seeds)
def test_both_sides_sample_by_sample(seed):
    s, roles, Y, Y_star = drawn(seed)
    totals = totals_of(s, roles)
    per_sample = [sum(U.uncertainty(step, roles)[i] for step in s) for i in range(len(Y))]
    clean = [sum(u for u, y, y0 in zip(per_sample, Y, Y_star) if y == y0 == c) for c in (1, -1)]
    noisy = [sum(u for u, y, y0 in zip(per_sample, Y, Y_star) if y != y0 and y == -c) for c in (1, -1)]
    largest = max(sum(step[i, t] * (1 - step[i, t]) for step in s) for i, t in np.ndindex(roles.shape))
    left, right = U.eq_9(totals, Y, Y_star)
    np.testing.assert_allclose(left, clean)
    assert right == pytest.approx(largest)
    np.testing.assert_allclose(U.eq_10(totals, Y, Y_star), clean)
    np.testing.assert_allclose(U.eq_11(totals, Y, Y_star), (clean, noisy))
    np.testing.assert_allclose(U.eq_13(totals, Y, Y_star), (noisy, clean))
    sizes = [sum((y == y0 == c) for y, y0 in zip(Y, Y_star)) for c in (1, -1)]
    scaled = U.eq_10(totals, Y, Y_star, scaled=True)
    for value, total, size in zip(scaled, clean, sizes):
        assert value == pytest.approx(total / size) if size else np.isnan(value)
    all_clean, all_noisy = U.has_all_classes(Y, Y_star)
    assert all_clean == (min(sizes) > 0)
    assert all_noisy == all(any(y != y0 and y == c for y, y0 in zip(Y, Y_star)) for c in (1, -1))


@pytest.mark.states("attention Eq. 11", "attention Eq. 13")
def test_the_classes_by_hand():
    """C_{+1} = {0}, C_{-1} = {1}, N_{-1} = {2} (clean label +1), N_{+1} = {3} (clean label -1)."""
    Y, Y_star = [1, -1, -1, 1], [1, -1, 1, -1]
    totals = U.Totals(np.array([1.0, 2, 3, 4]), np.zeros((4, 1)))
    np.testing.assert_array_equal(U.eq_11(totals, Y, Y_star), ([1, 2], [3, 4]))
    np.testing.assert_array_equal(U.eq_13(totals, Y, Y_star), ([3, 4], [1, 2]))


def test_several_runs_together():
    s, roles, Y, Y_star = drawn(5)
    one, both = totals_of(s, roles), totals_of(np.stack((s, s[:, ::-1]), axis=1), np.stack((roles, roles[::-1])))
    Ys, Y_stars = np.stack((Y, Y[::-1])), np.stack((Y_star, Y_star[::-1]))
    left, right = U.eq_9(both, Ys, Y_stars)
    np.testing.assert_allclose(left, np.stack([U.eq_9(one, Y, Y_star)[0]] * 2))
    np.testing.assert_allclose(right, [U.eq_9(one, Y, Y_star)[1]] * 2)


@pytest.mark.states("attention Eq. 9")
def test_one_saturated_sample_has_its_uncertainty_as_its_largest_variance():
    s = np.array([[1, 1e-17, 1e-17, 1e-17]])
    left, right = U.eq_9(U.add(U.start(s), s, np.array([[1, 0, 0, 0]])), [1], [1])
    np.testing.assert_allclose([left[0], right], 3e-17, rtol=1e-12)


def test_labels_of_another_number_of_samples_are_refused():
    s, roles, Y, Y_star = drawn(5)
    for function in (U.eq_9, U.eq_10, U.eq_11, U.eq_13):
        with pytest.raises(ValueError, match="^Y: axis n has length 1"):
            function(totals_of(s, roles), [1], [1])
