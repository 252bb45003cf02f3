"""Definition 4.1 and Eqs. 9 to 13 against sums written sample by sample, and on a case worked by hand."""

import numpy as np
import pytest
from hypothesis import given

from refimpl.attention import uncertainty as U
from refimpl.attention.data import RELEVANT
from refimpl.attention.runs import trials
from refimpl.attention.setting import Setting
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


@pytest.mark.states("attention Definition 4.1", "attention Eq. 9", "attention Eq. 10")
def test_two_samples_and_two_steps_by_hand():
    """Weights (3/4, 1/4) and (1/2, 1/2), then (1/2, 1/2) and (1, 0); the first token is relevant.
    The uncertainty is 3/16 + 1/4 = 7/16 and 1/4 + 0; the largest sum of s_t (1 - s_t) is 7/16, too."""
    s = np.array([[[0.75, 0.25], [0.5, 0.5]], [[0.5, 0.5], [1.0, 0.0]]])
    roles = np.array([[RELEVANT, 1], [RELEVANT, -1]])
    np.testing.assert_array_equal(U.uncertainty(s, np.stack((roles, roles))), [[3 / 16, 1 / 4], [1 / 4, 0]])
    totals = totals_of(s, roles)
    left, right = U.eq_9(totals, [1, -1], [1, -1])
    np.testing.assert_array_equal(left, [7 / 16, 1 / 4])
    assert right == 7 / 16 and U.eq_10(totals, [1, -1], [1, -1]) == (7 / 16, 1 / 4)


@pytest.mark.states("attention Eq. 11", "attention Eq. 13")
def test_the_classes_by_hand():
    """C_{+1} = {0}, C_{-1} = {1}, N_{-1} = {2} (clean label +1), N_{+1} = {3} (clean label -1)."""
    Y, Y_star = [1, -1, -1, 1], [1, -1, 1, -1]
    totals = U.Totals(np.array([1.0, 2, 3, 4]), np.zeros((4, 1)))
    np.testing.assert_array_equal(U.eq_11(totals, Y, Y_star), ([1, 2], [3, 4]))
    np.testing.assert_array_equal(U.eq_13(totals, Y, Y_star), ([3, 4], [1, 2]))


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


@pytest.mark.states("attention Eq. 9")
def test_eq_9_has_no_absolute_constant_in_the_regime():
    """d = 1e18, log t = 1,000. |R| = 1: the ratio of Eq. 9 is of the order of rho, which (A'3) lets go to 0, exponent
    within 0.05 of 1 over two decades; the weak tokens' rivalry lasts 1/rho times as long as the relevant ones' lead.
    |R| = 2: two relevant tokens, told apart by the noise alone, accumulate without bound; the ratio is below 1e-3."""
    setting = Setting(n=12, T=4, d=10**18, norm=3e6)

    def ratio(setting):
        run = trials.run(np.random.default_rng(0), (1000.0,), setting, flips=(1, 1))
        left, right = U.eq_9(U.Totals(*(part[-1] for part in run.path.totals)), run.sample.Y, run.sample.Y_star)
        return left / right

    scales = [1e-2, 1e-3, 1e-4]
    ratios = [ratio(setting._replace(weak_scale=rho)).min() for rho in scales]
    assert abs(np.polyfit(np.log(scales), np.log(ratios), 1)[0] - 1) < 0.05 and ratios[0] < 0.2
    assert ratio(setting._replace(T=5, relevant=2, weak_scale=1e-2)).max() < 1e-3


@pytest.mark.erratum("attention-eq9-words")
def test_two_relevant_tokens_accumulate_without_uncertainty():
    """s = (1/2, 1/2, 0, 0) on R, R: S = 0, so no data point's S exceeds the clean sum; s (1 - s) = 1/4 does."""
    s, roles = np.array([[0.5, 0.5, 0, 0], [1.0, 0, 0, 0]]), np.array([[2, 2, 1, -1]] * 2)
    totals = U.add(U.start(s), s, roles == RELEVANT)
    left, right = U.eq_9(totals, np.array([1, -1]), np.array([1, -1]))
    assert np.all(left >= np.max(totals.uncertainty)) and np.all(left < 1e-3 * right)
