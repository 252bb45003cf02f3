"""Definition 3.1 token by token, its laws by counting, Assumption A on cases worked by hand."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from refimpl.attention.data import (
    RELEVANT,
    assumption_a,
    draw,
    draw_experiment,
    experiment_roles,
    signal_of,
    signals,
    streams,
    with_flips,
)
from refimpl.attention.setting import Setting
from tests.strategies import attention_problems, seeds

ALARM = 1e-6  # the chance of a false alarm of each counting test at a seed chosen blindly


def plausible(successes, trials, probability):
    return stats.binomtest(int(successes), int(trials), probability).pvalue > ALARM


@pytest.mark.states("attention Definition 3.1")
def test_signal_of_by_hand():
    carried = signal_of([1, -1], [[2, 1, -1, 0], [2, 1, -1, 0]], 0.2)
    np.testing.assert_array_equal(carried[0], [[1, 0], [0.2, 0], [0, 0.2], [0, 0]])
    np.testing.assert_array_equal(carried[1], [[0, 1], [0.2, 0], [0, 0.2], [0, 0]])


@pytest.mark.states("attention Definition 3.1", "attention Remark 1")
@given(problem=attention_problems())
def test_each_token_is_what_its_role_says_plus_its_noise(problem):
    sample, mu, rho = problem["sample"], problem["mu"], problem["weak_scale"]
    of = {1: mu[0], -1: mu[1]}
    for X, Y, Y_star, noise, roles in zip(*sample):
        assert abs(Y) == abs(Y_star) == 1
        assert {1, -1} <= set(roles), "a weak token of each sign"
        for x, epsilon, role in zip(X, noise, roles):
            signal = {2: of[Y_star], 1: rho * mu[0], -1: rho * mu[1], 0: 0 * mu[0]}[role]
            np.testing.assert_allclose(x, signal + epsilon, rtol=1e-12, atol=1e-12)


@pytest.mark.states("attention Definition 3.1")
def test_the_laws_of_labels_signs_and_noise():
    n, Sigma = 4000, np.array([0.5, 1, 2, 4])
    sizes = dict(n=n, T=6, d=4, norm=3, relevant=2, weak=3)
    sample = draw(streams(0)[0], Setting(**sizes, noise_rate=0.3, Sigma=Sigma))
    assert (sample.roles == RELEVANT).sum(axis=1).tolist() == [2] * n
    assert plausible(np.sum(sample.Y_star == 1), n, 0.5)
    for c in (1, -1):
        of_class = sample.Y_star == c
        assert plausible(np.sum(sample.Y[of_class] == -c), of_class.sum(), 0.3)
    patterns, counts = np.unique(sample.roles[:, 2:5], axis=0, return_counts=True)
    assert len(patterns) == 6 and stats.chisquare(counts).pvalue > ALARM  # all signs but +++ and ---
    squares = np.sum(sample.noise**2, axis=(0, 1)) / Sigma
    assert np.all(stats.chi2(6 * n).sf(squares) > ALARM) and np.all(stats.chi2(6 * n).cdf(squares) > ALARM)
    correlation = np.corrcoef(sample.noise.reshape(-1, 4).T) - np.eye(4)
    assert np.max(np.abs(correlation)) < stats.norm.isf(ALARM) / np.sqrt(6 * n)


@pytest.mark.states("attention Definition 3.1")
def test_the_clean_law_and_the_signals_that_are_given():
    """At noise rate 0 the labels are Y*; signals in place of norm and d give the tokens of those signals."""
    mu = np.array([[3.0, 0, 4], [0, 5, 0]])
    sample = draw(streams(0)[0], Setting(n=50, T=4, noise_rate=0, Sigma=0.0), mu)
    np.testing.assert_array_equal(sample.Y, sample.Y_star)
    np.testing.assert_array_equal(sample.X[:, 0], np.where(sample.Y_star[:, None] == 1, mu[0], mu[1]))


@pytest.mark.states("attention Definition 3.1")
@given(seed=seeds, flipped=st.integers(0, 5))
def test_the_experiment_has_exactly_so_many_flips_and_its_weak_tokens_in_place(seed, flipped):
    sample = draw_experiment(streams(seed)[0], Setting(n=5, norm=2.0, d=7), flipped)
    assert np.sum(sample.Y != sample.Y_star) == flipped
    expected = [[2, y, -y, 0, 0, 0, 0, 0] for y in sample.Y_star]
    np.testing.assert_array_equal(sample.roles, expected)
    np.testing.assert_array_equal(sample.roles, experiment_roles(sample.Y_star))
    clean = sample.X - sample.noise
    for row, y in zip(clean, sample.Y_star):
        own, other = (0, 1) if y == 1 else (1, 0)
        assert (
            row[0, own] == pytest.approx(2)
            and row[1, own] == pytest.approx(0.4)
            and row[2, other] == pytest.approx(0.4)
        )
        assert np.abs(row).sum() == pytest.approx(2.8)


@pytest.mark.states("attention Definition 3.1")
@pytest.mark.parametrize(
    "n, noise_rate, expected", [(20, 0.2, 4), (100, 0.2, 20), (10, 0.3, 3), (10, 0.31, 4), (7, 0, 0), (9, 1, 9)]
)
def test_flips_round_up_but_not_by_rounding_errors(n, noise_rate, expected):
    sample = draw_experiment(streams(0)[0], Setting(n=n, d=5, noise_rate=noise_rate))
    assert np.sum(sample.Y != sample.Y_star) == expected


@pytest.mark.states("attention Definition 3.1")
def test_a_pair_of_flips_by_hand():
    """The first two samples of class +1 and the first of class -1; a number says nothing of the class."""
    rng, Y_star = streams(0)[0], [1, -1, 1, 1, -1]
    assert with_flips(rng, Y_star, (2, 1)).tolist() == [-1, 1, -1, 1, -1]
    assert with_flips(rng, Y_star, (0, 0)).tolist() == Y_star
    assert with_flips(rng, Y_star, 5).tolist() == [-1, 1, -1, -1, 1]
    assert np.sum(with_flips(rng, Y_star, 2) != Y_star) == 2


@pytest.mark.parametrize("flips", [6, -1, 1.5, (4, 0), (0, 3), (1,), (1, 1, 1), (-1, 0)])
def test_flips_that_cannot_be_are_named(flips):
    with pytest.raises(ValueError, match="^flips: "):
        with_flips(streams(0)[0], [1, -1, 1, 1, -1], flips)


@pytest.mark.parametrize("change", [dict(relevant=2), dict(weak=3), dict(Sigma=2.0), dict(Sigma=np.ones(5))])
def test_a_setting_that_is_not_section_5s_is_refused(change):
    with pytest.raises(ValueError, match="Sigma: "):
        draw_experiment(streams(0)[0], Setting(n=3, d=5)._replace(**change))


@pytest.mark.states("attention Definition 3.1")
def test_train_and_test_streams_are_independent_and_repeatable():
    (train, test), (again, _) = streams((3, 50)), streams((3, 50))
    a, b = train.standard_normal(4000), test.standard_normal(4000)
    np.testing.assert_array_equal(a, again.standard_normal(4000))
    assert abs(np.corrcoef(a, b)[0, 1]) < stats.norm.isf(ALARM) / np.sqrt(4000)
    assert type(train.bit_generator).__name__ == "PCG64"


def test_a_coordinate_without_variance_has_no_noise():
    setting = Setting(n=3, T=4, d=8, norm=1.0, noise_rate=0, Sigma=np.array([1.0] * 7 + [0.0]))
    sample = draw(streams(0)[0], setting)
    assert np.all(sample.noise[..., -1] == 0) and np.all(sample.noise[..., :-1] != 0)


@pytest.mark.states("attention Assumption A")
@pytest.mark.parametrize(
    "mu, Sigma, failing",
    [
        (signals(3, 4), 1.0, set()),
        ([[1, 1], [1, -1]], 1.0, set()),
        ([[1, 1], [1, -1]], [1.0, 2.0], {"orthogonal in Sigma"}),
        ([[1, 0], [0, 1]], [1.0, 2.0], {"equal norms in Sigma"}),
        ([[1, 0], [0, 2]], [4.0, 1.0], {"equal norms"}),
        ([[1, 0], [1, 0]], 1.0, {"orthogonal", "orthogonal in Sigma"}),
    ],
)
def test_assumption_a_on_cases_worked_by_hand(mu, Sigma, failing):
    assert {name for name, slack in assumption_a(mu, Sigma).items() if slack < 1} == failing


@pytest.mark.states("attention Assumption A")
@given(norm=st.floats(1e-3, 1e6), d=st.integers(2, 9))
def test_the_signals_satisfy_it_at_the_norm_that_was_asked_for(norm, d):
    mu = signals(norm, d)
    assert np.all(np.linalg.norm(mu, axis=1) == pytest.approx(norm)) and min(assumption_a(mu).values()) >= 1


@pytest.mark.parametrize("mu", [np.eye(3), [[np.nan, 0], [0, 1]], [[1.0, 0]]])
def test_signals_of_another_shape_are_named(mu):
    with pytest.raises(ValueError, match="^mu: "):
        draw(streams(0)[0], Setting(n=2), mu)


@pytest.mark.erratum("attention-weak-ratio-range")
@pytest.mark.parametrize("T", [3, 8])
def test_both_signs_need_two_weakly_relevant_tokens(T):
    """zeta_W = 1/T and zeta_R = 1 - 1/T, the ends that are printed, leave one token; 2/T and 1 - 2/T do not."""
    assert [set(w) == {-1, 1} for w in product((-1, 1), repeat=1)] == [False, False]
    for relevant, weak in ((1, 1), (T - 1, 1), (T - 1, 2)):
        with pytest.raises(ValueError):
            draw(streams(0)[0], Setting(n=2, T=T, d=2, relevant=relevant, weak=weak))
    sample = draw(streams(0)[0], Setting(n=5, T=T, d=2, relevant=T - 2, weak=2))
    assert np.all(np.sort(sample.roles[:, T - 2 :], axis=1) == [-1, 1])


@pytest.mark.states("attention Assumption A")
def test_the_slack_of_an_equality_is_what_rounding_may_leave_over_what_is_left():
    slack = assumption_a([[2.0, 0, 0], [1e-3, 1, 0]], [1.0, 1.0, 5.0], tolerance=0.1)
    G = [[4.0, 2e-3], [2e-3, 1 + 1e-6]]
    assert slack["equal norms"] == pytest.approx(0.1 * (G[0][0] + G[1][1]) / (G[0][0] - G[1][1]))
    assert slack["orthogonal"] == pytest.approx(0.1 * (G[0][0] + G[1][1]) / G[0][1])


@pytest.mark.states("attention Assumption A")
def test_sigma_is_the_identity_unless_it_is_given():
    mu = np.array([[1.0, 0, 0], [0, 0.6, 0.8]])
    assert assumption_a(mu)["equal norms in Sigma"] >= 1 > assumption_a(mu, [1.0, 2.0, 2.0])["equal norms in Sigma"]


@pytest.mark.states("attention Definition 3.1")
@pytest.mark.parametrize(
    "draw_some", [lambda rng, setting: draw_experiment(rng, setting, 0), lambda rng, setting: draw(rng, setting)]
)
def test_the_noise_has_variance_one_where_no_sigma_is_given(draw_some):
    noise = draw_some(streams(0)[0], Setting(n=500, d=20, norm=1.0)).noise
    assert ALARM < stats.chi2(noise.size).cdf(np.sum(noise**2)) < 1 - ALARM


def test_three_tokens_are_enough_for_the_experiment_and_two_are_not():
    assert experiment_roles([1, -1], 3).tolist() == [[2, 1, -1], [2, -1, 1]]
    with pytest.raises(ValueError, match="^T: "):
        experiment_roles([1], 2)
    assert draw_experiment(streams(0)[0], Setting(n=2, T=3, d=5)).X.shape == (2, 3, 5)


@pytest.mark.parametrize("seed", [-1, 1.5, None, (1, -2), "7"])
def test_a_seed_that_would_not_repeat_is_refused(seed):
    with pytest.raises(ValueError, match="^seed: "):
        streams(seed)


@pytest.mark.parametrize("arguments", [([0], [[2, 1]], 0.2), ([1], [[2, 7]], 0.2), ([1], [[2, 1]], np.nan)])
def test_labels_roles_and_scales_are_checked(arguments):
    with pytest.raises(ValueError, match="^(Y_star|roles|weak_scale): "):
        signal_of(*arguments)
