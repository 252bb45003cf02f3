"""Theorems 1 to 4: their conditions by hand, what each scales with, and what each of their constants moves."""

from bisect import bisect_left

import numpy as np
import pytest

from refimpl.mamba.guarantees import (
    Constants,
    batch,
    iterations,
    theorem_1_conditions,
    theorem_2_conditions,
    theorem_3_conditions,
    theorem_4_conditions,
)
from refimpl.mamba.setting import Setting, Testing

ONE = Testing(mixture=[[1.0, 0.0, 0.0]], kappa_a=4.0)


@pytest.mark.states("mamba Theorem 1", "mamba Theorem 1 (prompt length)", "mamba Theorem 3")
def test_conditions_by_hand():
    """epsilon = e^-2, log 1/epsilon = 2: B_T = 2 max(e^4, 6 / 0.5), B_M the same, T_M = 6 / (0.5 * 0.5 * 4) = 6."""
    p = Setting(M1=6, V=4, beta=2.0, kappa_a=1.0, p_a=0.5, l=10, eta=0.5, epsilon=np.exp(-2), B=218)
    slack = theorem_1_conditions(p, 3.0)
    expected = {
        "(i) B": 109 / np.exp(4),
        "(ii) kappa_a <=": 4 * 2 * np.exp(2),
        "(iii) l_tr >=": 5 / np.log(6),
        "(iv) T": 0.5,
        "eta <= 1": 2.0,
        "(ii) kappa_a >=": 4.0,
        "(iii) l_tr <=": 6 / 5,
    }
    assert slack == pytest.approx(expected)
    linear = theorem_3_conditions(p, 3.0)
    assert linear == pytest.approx({name: expected[name] for name in linear} | {"(iv) T": 5.0})
    assert batch(p._replace(V=100)) == pytest.approx(2 * 2**-4 * 100**2 * 4)  # then the second term decides
    assert batch(p._replace(M1=60), gated=False) == pytest.approx(2 * 120)


@pytest.mark.states("mamba Theorem 2", "mamba Theorem 4", "mamba Theorem 4 (prompt length)", "mamba Remark 6")
def test_the_test_conditions_by_hand():
    p = Setting()  # V beta (1 - p_a) / (p_a kappa_a epsilon) = 30, p_a l_tr = 12, M_1^kappa_a = 36
    slack = theorem_2_conditions(p, Testing(mixture=[[1.0, 0, 0], [0.7, 0.5, -0.7]], kappa_a=4.0, alpha=0.25, l=40))
    expected = {
        "(a) sum lambda > 0": np.inf,
        "(b) kappa_a' >=": 2.0,
        "(b) kappa_a' <=": 30 / (0.5 * 4),
        "(c) alpha <": 1.2,
        "(d) l_ts >=": 30 / np.log(6),
        "(d) l_ts <=": 36 / 10,
    }
    assert slack == pytest.approx(expected)
    testing = ONE._replace(alpha=0.25, l=40)
    assert theorem_2_conditions(p, testing._replace(mixture=[[0.5, -0.5, 0]]))["(a) sum lambda > 0"] == 0
    assert theorem_2_conditions(p, testing._replace(l=6))["(c) alpha <"] == pytest.approx(4)  # 12 / 6 > 1
    slack = theorem_4_conditions(p, testing)
    expected = {"(b) kappa_a' <=": 20 * 30 / 4, "(c) alpha < 1/2": 2.0, "(d) l_ts >=": 40 / (4 * np.log(6))}
    assert slack == pytest.approx(expected | {"(a) sum lambda > 0": np.inf})
    assert theorem_4_conditions(p, ONE._replace(alpha=0.05, l=40))["(d) l_ts >="] == pytest.approx(38 / np.log(6))
    assert theorem_4_conditions(p, ONE._replace(alpha=0.6, l=40))["(c) alpha < 1/2"] < 1
    assert theorem_4_conditions(p, ONE._replace(alpha=0.5, l=40))["(d) l_ts >="] == 0


POWERS = {  # of each slack in each of Theorem 1's letters, where they are powers
    "(ii) kappa_a >=": dict(V=-1, beta=4, kappa_a=1),
    "(ii) kappa_a <=": dict(V=1, beta=1, kappa_a=-1, epsilon=-1),
    "(iii) l_tr >=": dict(l=1),
    "(iii) l_tr <=": dict(l=-1, M1=2.0),
    "(iv) T": dict(eta=1, beta=2, M1=-1),
    "eta <= 1": dict(eta=-1),
}


@pytest.mark.states("mamba Theorem 1", "mamba Theorem 3", "mamba Remark 1")
@pytest.mark.parametrize("name", POWERS)
def test_each_condition_scales_as_printed(name):
    p = Setting(B=1000)
    at = lambda q: theorem_1_conditions(q, 100)[name]
    for letter in ("M1", "V", "beta", "kappa_a", "l", "eta", "epsilon"):
        if (letter, name) not in (("kappa_a", "(iii) l_tr <="), ("M1", "(iii) l_tr >=")):
            doubled = p._replace(**{letter: 2 * getattr(p, letter)})
            assert at(doubled) / at(p) == pytest.approx(2.0 ** POWERS[name].get(letter, 0)), letter
    # Remark 1: the length and the iterations needed scale as 1 / (1 - p_a), here from 0.4 to 0.2.
    if name in ("(iii) l_tr >=", "(iv) T"):
        assert at(p._replace(p_a=0.8)) / at(p) == pytest.approx(0.5)


@pytest.mark.states("mamba Remark 2")
def test_without_outliers_the_upper_bounds_are_void():
    slack = theorem_1_conditions(Setting(p_a=0.0), 100)
    assert slack["(ii) kappa_a <="] == slack["(iii) l_tr <="] == np.inf
    assert slack["(iii) l_tr >="] == pytest.approx(20 / np.log(6))
    assert theorem_1_conditions(Setting(p_a=0.1), 100)["(iii) l_tr <="] < np.inf


@pytest.mark.states("mamba Theorem 1", "mamba Theorem 2", "mamba Theorem 3", "mamba Theorem 4")
def test_every_constant_moves_its_own_condition():
    p, testing = Setting(), ONE._replace(alpha=0.3)
    conditions = {
        "1": lambda c: theorem_1_conditions(p, 100, c),
        "2": lambda c: theorem_2_conditions(p, testing, c),
        "4": lambda c: theorem_4_conditions(p, testing, c),
    }
    moved = {
        "1": dict(
            B={"(i) B"},
            low={"(ii) kappa_a >="},
            high={"(ii) kappa_a <="},
            length={"(iii) l_tr >="},
            poly={"(iii) l_tr <="},
            degree={"(iii) l_tr <="},
            T={"(iv) T"},
        ),
        "2": dict(high={"(b) kappa_a' <="}, length={"(d) l_ts >="}, poly={"(d) l_ts <="}, degree={"(d) l_ts <="}),
        "4": dict(high={"(b) kappa_a' <="}, length={"(d) l_ts >="}),
    }
    for theorem, at in conditions.items():
        for constant in Constants._fields:
            now = at(Constants(**{constant: 2.0}))
            changed = {name for name, slack in at(Constants()).items() if slack != now[name]}
            assert changed == moved[theorem].get(constant, set())


@pytest.mark.states("mamba Remark 3")
def test_conditions_c_and_d_together_keep_alpha_below_one():
    """(c) alone allows alpha near 1 at l_ts = p_a l_tr; with (d), alpha <= p_a l_tr / (p_a l_tr + log M_1).

    That is 0.870 at the paper's numbers, whatever l_ts (an integer, so a little less); it goes to 1 only with l_tr to
    infinity.
    """

    alphas = np.linspace(0.8, 0.999, 200)

    def both(l_tr, l_ts, alpha):
        slack = theorem_2_conditions(Setting(l=l_tr), ONE._replace(kappa_a=2.0, alpha=alpha, l=l_ts))
        return slack["(c) alpha <"], slack["(d) l_ts >="]

    def reach(l_tr):
        """The largest of the alphas with both, over all l_ts; by bisection, as both fall with alpha."""
        fails = lambda alpha, l_ts: min(both(l_tr, l_ts, alpha)) < 1
        holding = [bisect_left(alphas, True, key=lambda a: fails(a, l_ts)) for l_ts in range(1, l_tr + 1)]
        return alphas[max(holding) - 1]

    assert np.all(np.diff([both(20, 12, alpha) for alpha in alphas], axis=0) < 0)
    assert both(20, 12, 0.999)[0] > 1
    assert 0.85 < reach(20) <= 12 / (12 + np.log(6)) and 0.965 < reach(100) <= 60 / (60 + np.log(6))


@pytest.mark.parametrize(
    "wrong",
    [
        dict(p_a=1.0),
        dict(epsilon=1.5),
        dict(M1=1),
        dict(beta=np.nan),
        dict(eta=0.0),
        dict(kappa_a=-1.0),
        dict(l=2.5),
        dict(B=np.nan),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(wrong):
    (name,) = wrong
    setting = Setting(**wrong)
    for refuses in (
        lambda: theorem_1_conditions(setting, 100),
        lambda: theorem_2_conditions(setting, ONE),
        lambda: theorem_3_conditions(setting, 100),
        lambda: theorem_4_conditions(setting, ONE._replace(alpha=0.3)),
        lambda: batch(setting),
        lambda: iterations(setting),
    ):
        with pytest.raises(ValueError, match=f"^{name}: "):
            refuses()


@pytest.mark.parametrize(
    "wrong",
    [
        dict(alpha=1.0),
        dict(l=0),
        dict(l=-20),
        dict(kappa_a=np.nan),
        dict(kappa_a=-2.0),
        dict(mixture=[[1.0, 0.0]]),
    ],
)
@pytest.mark.parametrize("conditions", [theorem_2_conditions, theorem_4_conditions])
def test_a_testing_out_of_range_is_refused_by_name(conditions, wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"^{name}: "):
        conditions(Setting(), ONE._replace(**wrong))


@pytest.mark.parametrize("conditions", [theorem_1_conditions, theorem_3_conditions])
@pytest.mark.parametrize("T", [0, np.nan])
def test_no_steps_are_refused(conditions, T):
    with pytest.raises(ValueError, match="^T: "):
        conditions(Setting(), T)


# Where the paper as printed is wrong.


@pytest.mark.states("mamba Remark 4")
@pytest.mark.erratum("mamba-remark-4-kappa")
@pytest.mark.erratum("mamba-remark-4-length")
def test_what_mamba_needs_beyond_the_linear_transformer():
    p = Setting(epsilon=0.9)
    assert iterations(p) == pytest.approx(p.l * iterations(p, gated=False))  # T_M = l_tr T_T
    assert batch(p) >= batch(p, gated=False) and batch(p._replace(V=100)) > batch(p._replace(V=100), gated=False)
    for epsilon in (0.9, 1e-6):
        one, three = (f(p._replace(epsilon=epsilon), 100) for f in (theorem_1_conditions, theorem_3_conditions))
        # printed: the linear upper bound of kappa_a is larger when epsilon is small. It is the same.
        assert one["(ii) kappa_a <="] == three["(ii) kappa_a <="]
        # printed: Mamba's l_tr "does not require an upper bound". It is Mamba's alone that has one.
        assert "(iii) l_tr <=" in one and "(iii) l_tr <=" not in three
        assert one["(iii) l_tr >="] == three["(iii) l_tr >="] and "(ii) kappa_a >=" not in three


@pytest.mark.erratum("mamba-batch-without-v")
def test_the_batch_of_section_10_1_lacks_v_squared():
    """B_M follows from Eq. 11 and sqrt(log B / B) <~ beta^2 kappa_a (1 - p_a) / V.

    At V = 100 the printed maximum is 1e4 times too small.
    """
    p = Setting(V=100, beta=1.0, epsilon=0.5)
    printed = max(p.kappa_a**-2 * (1 - p.p_a) ** -2, 4, p.M1 / (1 - p.p_a)) * np.log(2) * p.beta**-4
    signal = p.beta**2 * p.kappa_a * (1 - p.p_a) / p.V
    assert np.sqrt(np.log(2) / batch(p)) == pytest.approx(signal) and np.sqrt(np.log(2) / printed) > 10 * signal
