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
)
from refimpl.attention.head import linear_head
from refimpl.attention.margin import flow_in_q
from refimpl.attention.model import output
from tests.strategies import attention_settings, seeds

ALARM = 1e-6  # the chance of a false alarm of each counting test at a seed chosen blindly


def plausible(successes, trials, probability):
    return stats.binomtest(int(successes), int(trials), probability).pvalue > ALARM


@pytest.mark.states("attention Definition 3.1", "attention Remark 1")
@given(setting=attention_settings())
def test_each_token_is_what_its_role_says_plus_its_noise(setting):
    sample, mu, rho = setting["sample"], setting["mu"], setting["weak_scale"]
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
    sample = draw(streams(0)[0], n, signals(3, 4), 6, 2, 3, 0.2, 0.3, Sigma)
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
@given(seed=seeds, flipped=st.integers(0, 5))
def test_the_experiment_has_exactly_so_many_flips_and_its_weak_tokens_in_place(seed, flipped):
    sample = draw_experiment(streams(seed)[0], 5, 2.0, 7, flipped)
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
def test_train_and_test_streams_are_independent_and_repeatable():
    (train, test), (again, _) = streams((3, 50)), streams((3, 50))
    a, b = train.standard_normal(4000), test.standard_normal(4000)
    np.testing.assert_array_equal(a, again.standard_normal(4000))
    assert abs(np.corrcoef(a, b)[0, 1]) < stats.norm.isf(ALARM) / np.sqrt(4000)
    assert type(train.bit_generator).__name__ == "PCG64"


@pytest.mark.states("attention Definition 3.1")
def test_signal_of_by_hand():
    carried = signal_of([1, -1], [[2, 1, -1, 0], [2, 1, -1, 0]], 0.2)
    np.testing.assert_array_equal(carried[0], [[1, 0], [0.2, 0], [0, 0.2], [0, 0]])
    np.testing.assert_array_equal(carried[1], [[0, 1], [0.2, 0], [0, 0.2], [0, 0]])


def test_a_coordinate_without_variance_has_no_noise():
    sample = draw(streams(0)[0], 3, signals(1, 8), 4, 1, 2, 0.2, 0.0, np.array([1.0] * 7 + [0.0]))
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


@pytest.mark.parametrize(
    "change, name",
    [
        (dict(n=0), "n"),
        (dict(n=2.5), "n"),
        (dict(mu=np.eye(3)), "mu"),
        (dict(mu=[[np.nan, 0], [0, 1]]), "mu"),
        (dict(T=2), "T"),
        (dict(relevant=0), "relevant"),
        (dict(weak=1), "weak"),
        (dict(noise_rate=1.5), "noise_rate"),
        (dict(weak_scale=-0.1), "weak_scale"),
        (dict(Sigma=np.ones(3)), "Sigma"),
        (dict(Sigma=-1.0), "Sigma"),
    ],
)
def test_bad_input_is_named(change, name):
    good = dict(n=2, mu=np.eye(2), T=4, relevant=1, weak=2, weak_scale=0.2, noise_rate=0.1)
    with pytest.raises(ValueError, match=f"^{name}: "):
        draw(streams(0)[0], **{**good, **change})


@pytest.mark.erratum("attention-weak-ratio-range")
@pytest.mark.parametrize("T", [3, 8])
def test_both_signs_need_two_weakly_relevant_tokens(T):
    """zeta_W = 1/T and zeta_R = 1 - 1/T, the ends that are printed, leave one token; 2/T and 1 - 2/T do not."""
    assert [set(w) == {-1, 1} for w in product((-1, 1), repeat=1)] == [False, False]
    for relevant, weak in ((1, 1), (T - 1, 1), (T - 1, 2)):
        with pytest.raises(ValueError):
            draw(streams(0)[0], 2, np.eye(2), T, relevant, weak, 0.2, 0.1)
    sample = draw(streams(0)[0], 5, np.eye(2), T, T - 2, 2, 0.2, 0.1)
    assert np.all(np.sort(sample.roles[:, T - 2 :], axis=1) == [-1, 1])


@pytest.mark.erratum("attention-both-signs")
def test_both_signs_occur_in_all_samples_only_with_many_weakly_relevant_tokens():
    """By counting: a share 1 - 2^{1 - |W|} of the sign vectors has both signs."""

    def chance(weak, n):
        return np.mean([set(w) == {-1, 1} for w in product((-1, 1), repeat=weak)]) ** n

    n, T, delta = 20, 8, 0.1
    needed = int(np.ceil(2 * np.log(n / delta) + 1))
    for weak in (2, 5, needed):
        assert chance(weak, n) == pytest.approx((1 - 2.0 ** (1 - weak)) ** n)
    assert chance(2, n) < 1e-6  # Section 5 has |W| = 2
    assert chance(T - 1, n) < 0.75  # nor would all its other tokens do
    assert chance(needed, n) >= 1 - delta  # B.9's |W| = 12 is enough, but 9 is what it takes
    enough = next(weak for weak in range(2, needed) if chance(weak, n) >= 1 - delta)
    assert enough == 9 > T and abs(enough - (np.log2(n / delta) + 1)) < 1


@pytest.mark.erratum("attention-experiments-outside")
def test_no_setting_of_the_experiments_meets_the_first_two_assumptions():
    """(A1) d >= C n |mu|^2 and (A2) |mu| >= C d^{1/4} sqrt(log(Tn/delta)) at their weakest, C = 1."""
    n, T = 20, 8

    def both(d, norm, delta):
        return d >= n * norm**2 and norm >= d**0.25 * np.sqrt(np.log(T * n / delta))

    grid = list(product(range(250, 5001, 250), range(5, 101, 5)))
    assert len(grid) == 400 and not any(both(d, norm, delta=1.0) for d, norm in grid)
    assert not any(both(d, norm, delta=1.0) for d, norm in ((2000, 20), (4500, 5), (1000, 80)))  # Figure 3
    assert 2000 / (n * 20**2) == 0.25
    least = (n * np.log(T * n / 0.1)) ** 2
    assert both(1.01 * least, np.sqrt(1.005 * least / n), delta=0.1)
    assert not any(both(0.99 * least, norm, delta=0.1) for norm in np.linspace(1, 100, 1000))


@pytest.mark.erratum("attention-a1-not-necessary")
def test_wrong_labels_are_fitted_far_outside_the_first_assumption():
    """n = 100, d = 2000, |mu| = 20: n |mu|^2 = 20 Tr Sigma. By time e^5 all 20 wrong labels are fitted."""
    n, d, norm = 100, 2000, 20.0
    assert n * norm**2 / d == 20  # (A1) asks for at most 1 / C
    train, test = (draw_experiment(rng, k, norm, d, flips) for rng, k, flips in zip(streams(0), (n, 200), (20, 0)))
    nu = linear_head(signals(norm, d))
    p = flow_in_q(train.X, train.Y, train.X @ nu, [5.0])[0]
    for sample in (train, test):
        np.testing.assert_array_equal(np.sign(output(sample.X, p, nu)), sample.Y)
    assert np.any(np.sign(output(train.X, 0 * p, nu)) != train.Y)


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
    "draw_some", [lambda rng: draw_experiment(rng, 500, 1.0, 20, 0), lambda rng: draw_default(rng)]
)
def test_the_noise_has_variance_one_where_no_sigma_is_given(draw_some):
    noise = draw_some(streams(0)[0]).noise
    assert ALARM < stats.chi2(noise.size).cdf(np.sum(noise**2)) < 1 - ALARM


def draw_default(rng):
    return draw(rng, 500, signals(1, 20), 8, 1, 2, 0.2, 0.1)


def test_three_tokens_are_enough_for_the_experiment_and_two_are_not():
    assert experiment_roles([1, -1], 3).tolist() == [[2, 1, -1], [2, -1, 1]]
    with pytest.raises(ValueError, match="^T: "):
        experiment_roles([1], 2)
    with pytest.raises(ValueError, match="^flips: "):
        draw_experiment(streams(0)[0], 3, 1.0, 5, 4)


@pytest.mark.parametrize("seed", [-1, 1.5, None, (1, -2), "7"])
def test_a_seed_that_would_not_repeat_is_refused(seed):
    with pytest.raises(ValueError, match="^seed: "):
        streams(seed)


@pytest.mark.parametrize("arguments", [([0], [[2, 1]], 0.2), ([1], [[2, 7]], 0.2), ([1], [[2, 1]], np.nan)])
def test_labels_roles_and_scales_are_checked(arguments):
    with pytest.raises(ValueError, match="^(Y_star|roles|weak_scale): "):
        signal_of(*arguments)
