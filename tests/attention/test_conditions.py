"""The assumptions on hand-worked settings, Lemma A.8 as algebra, and the smallest setting against a search."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.attention import conditions, data, smoothness
from refimpl.attention.head import linear_head
from refimpl.attention.model import output
from refimpl.attention.runs import wishart
from refimpl.attention.runs.flow import flow_in_q
from refimpl.attention.scores import score_spread
from refimpl.attention.setting import Setting

E4 = 6 * math.exp(-4)  # with n = 2, T = 3: log(Tn/delta) = 4 and log(1/delta) = 2.2082
SIZES = dict(n=2, T=3, d=16, norm=2, weak_scale=0.25, noise_rate=0.125)
BY_HAND = Setting(**SIZES, alpha=0.025, delta=E4, lipschitz=4)


def slack(name, C, **changes):
    setting = BY_HAND._replace(**changes)
    every = (conditions.assumptions, conditions.common_assumptions, conditions.strong_assumptions)
    return {k: v for f in every for k, v in f(setting, C).items()}[name]


@pytest.mark.states("attention Assumption A1", "attention Assumption A2", "attention Assumption A3")
@pytest.mark.states("attention Assumption A4", "attention Assumption A5", "attention Assumption A6")
@pytest.mark.states("attention Assumption A'1", "attention Assumption A'2", "attention Assumption A'3")
@pytest.mark.parametrize(
    "name, C, changes, expected",
    [
        ("A1", 0.5, {}, 4),  # 16 over 1/2 * 2 * 2^2
        ("A1", 1, {"norm": 4}, 0.5),  # 16 over 2 * 4^2
        ("A2", 0.25, {}, 2),  # 2 over 1/4 * 2 * 2
        ("A2", 1, {"d": 81}, 1 / 3),  # 2 over 3 * 2
        ("A3 lower", 0.125, {}, 2),  # 1/4 over 1/8 * 2 / 2
        ("A3 lower", 0.5, {}, 0.5),
        ("A3 upper", 2, {}, 2),  # 1/2 over 1/4
        ("A3 upper", 8, {}, 0.5),
        ("A4", 2.5, {}, 2),  # min(1/4, 2/16) / 2.5 over 0.025
        ("A4", 10, {"lipschitz": 16}, 0.25),  # min(1/16, 2/16) / 10 over 0.025
        ("A5", 0.5, {}, 2 / (0.5 * 2.208240530771945)),
        ("A5", 1, {}, 2 / 2.208240530771945),
        ("A6", 4, {}, 2),  # 1/4 over 1/8
        ("A6", 16, {}, 0.5),
        ("A6", 16, {"noise_rate": 0}, math.inf),
        ("A'1", 0.125, {}, 16 / 9),  # 16 over 1/8 * 9 * 2 * 4
        ("A'1", 1, {}, 2 / 9),
        ("A'2", 0.25, {}, 2 / 6**0.25),  # 2 over 1/4 * 6^(1/4) * 2 * 2
        ("A'2", 0.5, {}, 1 / 6**0.25),
        ("A'3 lower", 0.0625, {}, 4 / 3),  # 1/4 over 1/16 * 3 * 2 / 2
        ("A'3 lower", 0.125, {}, 2 / 3),
        ("A'3 upper", 1, {}, 4 / 3),  # min(1/3, 1/sqrt 6) over 1/4
        ("A'3 upper", 1, {"n": 12}, 2 / 3),  # min(1/3, 1/6) over 1/4
    ],
)
def test_each_condition_by_hand_where_it_holds_and_where_it_fails(name, C, changes, expected):
    assert slack(name, C, **changes) == pytest.approx(expected, rel=1e-12)


@pytest.mark.states("attention Eq. 44", "attention Eq. 45", "attention Eq. 46")
@pytest.mark.parametrize(
    "equation, C, holds, left, right",
    [
        (conditions.equation_44, 0.25, True, 4, 2),  # 1/4 * 2 * 4
        (conditions.equation_44, 1, False, 4, 8),
        (conditions.equation_45, 1 / 144, True, 4, 2),  # C * 9 * 2 * 4 / (1/4)
        (conditions.equation_45, 1 / 36, False, 4, 8),
        (conditions.equation_46, 1 / 12, True, 2, 1),  # C * 3 * 2 * 2
        (conditions.equation_46, 1 / 3, False, 2, 4),
    ],
)
def test_each_derived_equation_by_hand(equation, C, holds, left, right):
    found = equation(BY_HAND, C)
    assert found == pytest.approx((left, right), rel=1e-12)
    assert (found[0] >= found[1]) is holds


@st.composite
def settings(draw):
    def positive():
        return 10 ** draw(st.floats(-3, 6))

    n, T, delta = draw(st.integers(1, 50)), draw(st.integers(3, 30)), draw(st.floats(0.001, 0.9))
    trace, norm, rho = positive(), positive(), positive()
    return Setting(n=n, T=T, d=1, Sigma=trace, norm=norm, weak_scale=rho, delta=delta), 10 ** draw(st.floats(-1, 2))


@pytest.mark.states("attention Lemma A.8", "attention Eq. 44", "attention Eq. 45", "attention Eq. 46")
@given(drawn=settings())
def test_the_equations_are_products_of_the_assumptions_slacks(drawn):
    setting, C = drawn
    a, b = conditions.assumptions(setting, C), conditions.strong_assumptions(setting, C)
    implied = conditions.implied_slack(setting.n, setting.T, setting.delta, C)
    products = {
        "Eq. 44": a["A1"] * a["A2"] ** 2,
        "Eq. 45": math.sqrt(b["A'1"]) * b["A'3 lower"],
        "Eq. 46": math.sqrt(b["A'1"]) * b["A'2"] ** 2,
    }
    for name, expected in products.items():
        left, right = getattr(conditions, "equation_" + name[-2:])(setting, C)
        assert left / right == pytest.approx(implied[name] * expected, rel=1e-9), name


@pytest.mark.states("attention Lemma A.8")
@given(C=st.floats(1, 100), n=st.integers(1, 1000), T=st.integers(3, 1000), delta=st.floats(1e-6, 0.99))
def test_eqs_44_and_46_follow_for_every_constant_above_one(C, n, T, delta):
    implied = conditions.implied_slack(n, T, delta, C)
    assert implied["Eq. 44"] >= 1 and implied["Eq. 46"] >= 1


@pytest.mark.states("attention Lemma A.8")
def test_eq_45_does_not_follow_from_the_rebuilt_assumptions():
    """(A'1)-(A'3) hold and Eq. 45 fails: n = 12, T = 4, C = 5, rho at its lower end, all with slack >= 1."""
    n, T, delta, C = 12, 4, 0.1, 5
    log = math.log(480)
    norm = 1.001 * C**2.5 * T**1.5 * n * log
    d, rho = 1.001 * C * T**2 * n * norm**2, 1.001 * C * T * math.sqrt(log) / norm
    setting = Setting(n=n, T=T, d=math.ceil(d), norm=norm, weak_scale=rho, delta=delta)
    assert min(conditions.strong_assumptions(setting, C).values()) >= 1
    left, right = conditions.equation_45(setting, C)
    assert left / right == pytest.approx(math.sqrt(C / (n * log)), rel=0.01) and left < 0.27 * right


CASES = [(12, 4, 0.1, 5, 1.0), (12, 4, 0.1, 5, 0.0), (12, 4, 0.1, 5, 0.5), (40, 3, 0.05, 2, 0.9), (9, 10, 0.2, 1, 0.2)]


@pytest.mark.states("attention Assumption A'1", "attention Assumption A'2", "attention Assumption A'3")
@pytest.mark.states("attention Assumption A4", "attention Assumption A5", "attention Eq. 45")
@pytest.mark.parametrize("n, T, delta, C, place", CASES)
def test_the_smallest_setting_satisfies_everything_and_nothing_smaller_does(n, T, delta, C, place):
    setting = conditions.smallest_setting(n, T, delta, C, place)

    def everything(setting):
        """Whether all of it holds, up to the first set of conditions that does not."""
        if min(conditions.strong_assumptions(setting, C).values()) < 1:
            return False
        left, right = conditions.equation_45(setting, C)
        weak = conditions.assumptions(setting, C) | conditions.common_assumptions(setting, C)
        return min(left / right, *weak.values()) >= 1

    assert everything(setting) and isinstance(setting.d, int)
    lower = C * T * math.sqrt(math.log(T * n / delta))  # the lower end of (A'3) times |mu|
    upper = min(1 / T, 1 / math.sqrt(T * n)) / C
    for share in (0.999, 0.9, 0.1, 1e-3):
        smaller = setting._replace(d=math.ceil(share * setting.d), alpha=1e-300)
        # the least norm of (A'2) and (A'3): below it they fail, and at it the upper limits on norm are at their mildest
        least = max(setting.norm / conditions.strong_assumptions(smaller, C)["A'2"], lower / upper)
        for norm in least * np.append(np.geomspace(1e-2, 1e2, 200), 1):
            rho = (lower / norm) ** (1 - place) * upper**place
            assert not everything(smaller._replace(norm=norm, weak_scale=rho))
    assert place < 1 or not everything(setting._replace(norm=0.999 * setting.norm))


@pytest.mark.states("attention Assumption A1", "attention Assumption A2", "attention Assumption A3")
@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_the_smallest_setting_of_the_weaker_assumptions(place):
    """(A1) and (A2) meet at |mu| = C^(5/2) n^(1/2) log, d = C n |mu|^2; rho goes from C sqrt(log) / |mu| to 1/C."""
    n, T, delta, C = 24, 4, 0.1, 10
    s = conditions.smallest_setting(n, T, delta, C, place, strong=False)
    log = math.log(960)
    slacks = conditions.assumptions(s, C) | conditions.common_assumptions(s, C)
    assert min(slacks.values()) >= 1 and max(slacks["A1"], slacks["A2"], slacks["A4"]) < 1 + 1e-6
    norm = C**2.5 * math.sqrt(n) * log
    assert (s.norm, s.d) == pytest.approx((norm, C * n * norm**2), rel=1e-6)
    assert s.weak_scale == pytest.approx((C * math.sqrt(log) / norm) ** (1 - place) * C**-place, rel=1e-6)


@pytest.mark.states("attention Eq. 45")
def test_the_smallest_dimension_in_numbers():
    """rho at its upper end: (A'1) and (A'2) meet at |mu| = C^(5/2) T^(3/2) n log, d = C T^2 n |mu|^2.
    At its lower end: Eq. 45 and (A'2) meet at |mu| = C^2 (T n log)^(3/2), d = (T n |mu|)^2 log."""
    log = math.log(480)
    upper, lower = (conditions.smallest_setting(12, 4, 0.1, 5, place) for place in (1, 0))
    norms = (5**2.5 * 8 * 12 * log, 25 * (48 * log) ** 1.5)
    assert (upper.norm, lower.norm) == pytest.approx(norms, rel=1e-9)
    assert (upper.d, lower.d) == pytest.approx((960 * norms[0] ** 2, (48 * norms[1]) ** 2 * log), rel=1e-9)
    assert 1.0e12 < upper.d < 1.1e12 and 2.3e14 < lower.d < 2.4e14


@pytest.mark.parametrize(
    "arguments, said",
    [
        ((11, 4, 0.1, 5), "n: .A5. needs n >= C log"),
        ((12, 0, 0.1, 5), "T: "),
        ((12, 4, 1.0, 5), "delta: "),
        ((12, 4, 0.1, 0.5), "C: "),
        ((12, 4, 0.1, 5, 1.5), "place: "),
        ((12, 4, 0.1, 5, 1.0, 0.3), "noise_rate: "),
    ],
)
def test_what_no_setting_can_satisfy_is_named(arguments, said):
    with pytest.raises(ValueError, match=said):
        conditions.smallest_setting(*arguments)


@pytest.mark.parametrize("name", ["Sigma", "norm", "weak_scale", "alpha", "lipschitz"])
def test_a_number_that_is_not_positive_is_named(name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        conditions.assumptions(BY_HAND._replace(**{name: 0}), 1)


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
    setting = Setting(n=100, d=2000, norm=20.0)
    assert conditions.assumptions(setting, 1)["A1"] == 1 / 20  # (A1) asks for at least C
    rng, fresh = data.streams(0)
    train, test = data.draw_experiment(rng, setting, 20), data.draw_experiment(fresh, setting._replace(n=200), 0)
    nu = linear_head(data.signals(setting.norm, setting.d))
    p = flow_in_q(train.X, train.Y, train.X @ nu, [5.0])[0]
    for sample in (train, test):
        np.testing.assert_array_equal(np.sign(output(sample.X, p, nu)), sample.Y)
    assert np.any(np.sign(output(train.X, 0 * p, nu)) != train.Y)


@pytest.mark.states("attention Assumption A4")
def test_the_bound_for_good_runs_holds_on_drawn_samples():
    s = conditions.smallest_setting(12, 4, 0.1, 5)
    for rng in np.random.default_rng(0).spawn(10):
        sample, mu, _ = wishart.draw_training(rng, s)
        assert smoothness.gram_constant(sample.X, linear_head(mu)) <= s.lipschitz
    N, spread = 48, score_spread(s, math.sqrt(14 / 3))
    root = math.sqrt(s.trace) + math.sqrt(N) * (1 + s.norm) + math.sqrt(2 * math.log(10))
    assert s.lipschitz == pytest.approx(root**2 * (spread**2 / 32 + spread / 2) / 12)


@pytest.mark.states("attention Assumption A4")
def test_the_bound_stands_for_a_lipschitz_constant_that_is_not_given():
    s = conditions.smallest_setting(12, 4, 0.1, 5)
    assert conditions.common_assumptions(s._replace(lipschitz=None), 5) == conditions.common_assumptions(s, 5)
    other = s._replace(lipschitz=100 * s.lipschitz)
    assert conditions.common_assumptions(other, 5)["A4"] == pytest.approx(1 / (500 * s.lipschitz * s.alpha))
    with pytest.raises(ValueError, match="^Sigma: "):
        conditions.lipschitz_bound(s._replace(Sigma=2.0))
