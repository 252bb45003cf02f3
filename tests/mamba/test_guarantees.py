"""Theorems 1 to 4: their conditions by hand, the orders of what is needed, and the error on either side of each
condition."""

import itertools
import math
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, multinomial

from refimpl.calculus.losses import hinge
from refimpl.checks import Diverged
from refimpl.mamba.runs.boundaries import Probe, both, boundary, probe
from refimpl.mamba.dynamics import clean_mass, growth_rate, laplacian
from refimpl.mamba.gate_dynamics import drive
from refimpl.mamba.guarantees import (
    Constants,
    Problem,
    batch,
    few_clean,
    flipped_error,
    iterations,
    many_flipped,
    no_clean_example,
    theorem_1_conditions,
    theorem_2_conditions,
    theorem_3_conditions,
    theorem_4_conditions,
    training_vote_error,
)
from refimpl.mamba.model import Weights
from refimpl.mamba.runs.patterns import encode, forward
from refimpl.mamba.prompts import test_prompts, training_prompts
from refimpl.mamba.runs.scaling import (
    ORDERS,
    WITHIN,
    examples_needed,
    exponent,
    iterations_law,
    iterations_needed,
    least,
    training_error,
)
from refimpl.mamba.tasks import all_tasks, cycle, disjoint_pairs
from refimpl.mamba.training import Setting, error, sgd, start
from tests.strategies import seeds

ONE = [[1.0, 0.0, 0.0]]


# The conditions.


@pytest.mark.states("mamba Theorem 1", "mamba Theorem 1 (prompt length)", "mamba Theorem 3")
def test_conditions_by_hand():
    # epsilon = e^-2, log 1/epsilon = 2: B_T = 2 max(e^4, 6 / 0.5), B_M the same, T_M = 6 / (0.5 * 0.5 * 4) = 6.
    p = Problem(M1=6, V=4, beta=2.0, kappa_a=1.0, p_a=0.5, l_tr=10, eta=0.5, epsilon=np.exp(-2))
    slack = theorem_1_conditions(p, 4 * np.exp(4), 3.0)
    expected = {
        "(i) B": 2.0,
        "(ii) kappa_a <=": 4 * 2 * np.exp(2),
        "(iii) l_tr >=": 5 / np.log(6),
        "(iv) T": 0.5,
        "eta <= 1": 2.0,
        "(ii) kappa_a >=": 4.0,
        "(iii) l_tr <=": 6 / 5,
    }
    assert slack == pytest.approx(expected)
    linear = theorem_3_conditions(p, 4 * np.exp(4), 3.0)
    assert linear == pytest.approx({name: expected[name] for name in linear} | {"(iv) T": 5.0})
    assert batch(p._replace(V=100)) == pytest.approx(2 * 2**-4 * 100**2 * 4)  # then the second term decides
    assert batch(p._replace(M1=60), gated=False) == pytest.approx(2 * 120)


POWERS = {  # of each slack in each of Theorem 1's letters, where they are powers
    "(ii) kappa_a >=": dict(V=-1, beta=4, kappa_a=1),
    "(ii) kappa_a <=": dict(V=1, beta=1, kappa_a=-1, epsilon=-1),
    "(iii) l_tr >=": dict(l_tr=1),
    "(iii) l_tr <=": dict(l_tr=-1, M1=2.0),
    "(iv) T": dict(eta=1, beta=2, M1=-1),
    "eta <= 1": dict(eta=-1),
}


@pytest.mark.states("mamba Theorem 1", "mamba Theorem 3", "mamba Remark 1")
@pytest.mark.parametrize("name", POWERS)
def test_each_condition_scales_as_printed(name):
    p = Problem()
    at = lambda q: theorem_1_conditions(q, 1000, 100)[name]
    for letter in ("M1", "V", "beta", "kappa_a", "l_tr", "eta", "epsilon"):
        if (letter, name) not in (("kappa_a", "(iii) l_tr <="), ("M1", "(iii) l_tr >=")):
            doubled = p._replace(**{letter: 2 * getattr(p, letter)})
            assert at(doubled) / at(p) == pytest.approx(2.0 ** POWERS[name].get(letter, 0)), letter
    # Remark 1: the length and the iterations needed scale as 1 / (1 - p_a), here from 0.4 to 0.2.
    if name in ("(iii) l_tr >=", "(iv) T"):
        assert at(p._replace(p_a=0.8)) / at(p) == pytest.approx(0.5)


@pytest.mark.states("mamba Remark 2")
def test_without_outliers_the_upper_bounds_are_void():
    slack = theorem_1_conditions(Problem(p_a=0.0), 1000, 100)
    assert slack["(ii) kappa_a <="] == slack["(iii) l_tr <="] == np.inf
    assert slack["(iii) l_tr >="] == pytest.approx(20 / np.log(6))
    assert theorem_1_conditions(Problem(p_a=0.1), 1000, 100)["(iii) l_tr <="] < np.inf


@pytest.mark.states("mamba Theorem 2", "mamba Theorem 4", "mamba Theorem 4 (prompt length)", "mamba Remark 6")
def test_the_test_conditions_by_hand():
    p = Problem()  # V beta (1 - p_a) / (p_a kappa_a epsilon) = 30, p_a l_tr = 12, M_1^kappa_a = 36
    slack = theorem_2_conditions(p, [[1.0, 0, 0], [0.7, 0.5, -0.7]], 4.0, 0.25, 40)
    expected = {
        "(a) sum lambda > 0": np.inf,
        "(b) kappa_a' >=": 2.0,
        "(b) kappa_a' <=": 30 / (0.5 * 4),
        "(c) alpha <": 1.2,
        "(d) l_ts >=": 30 / np.log(6),
        "(d) l_ts <=": 36 / 10,
    }
    assert slack == pytest.approx(expected)
    assert theorem_2_conditions(p, [[0.5, -0.5, 0]], 4.0, 0.25, 40)["(a) sum lambda > 0"] == 0
    assert theorem_2_conditions(p, ONE, 4.0, 0.25, 6)["(c) alpha <"] == pytest.approx(4)  # 12 / 6 > 1
    slack = theorem_4_conditions(p, ONE, 4.0, 0.25, 40)
    expected = {"(b) kappa_a' <=": 20 * 30 / 4, "(c) alpha < 1/2": 2.0, "(d) l_ts >=": 40 / (4 * np.log(6))}
    assert slack == pytest.approx(expected | {"(a) sum lambda > 0": np.inf})
    assert theorem_4_conditions(p, ONE, 4.0, 0.05, 40)["(d) l_ts >="] == pytest.approx(40 * 0.95 / np.log(6))
    assert theorem_4_conditions(p, ONE, 4.0, 0.6, 40)["(c) alpha < 1/2"] < 1
    assert theorem_4_conditions(p, ONE, 4.0, 0.5, 40)["(d) l_ts >="] == 0


@pytest.mark.states("mamba Theorem 1", "mamba Theorem 2", "mamba Theorem 3", "mamba Theorem 4")
def test_every_constant_moves_its_own_condition():
    p = Problem()
    conditions = {
        "1": lambda c: theorem_1_conditions(p, 1000, 100, c),
        "2": lambda c: theorem_2_conditions(p, ONE, 4.0, 0.3, 20, c),
        "4": lambda c: theorem_4_conditions(p, ONE, 4.0, 0.3, 20, c),
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
    # (c) alone allows alpha near 1 at l_ts = p_a l_tr. With (d), alpha is at most p_a l_tr / (p_a l_tr + log M_1),
    # 0.870 at the paper's numbers, whatever l_ts (an integer, so a little less); it goes to 1 only with l_tr to
    # infinity.
    def reach(l_tr):
        p, found = Problem(l_tr=l_tr), 0.0
        for l_ts in range(1, l_tr + 1):
            for alpha in np.linspace(0.8, 0.999, 200):
                s = theorem_2_conditions(p, ONE, 2.0, alpha, l_ts)
                found = max(found, alpha * (min(s["(c) alpha <"], s["(d) l_ts >="]) >= 1))
        return found

    assert theorem_2_conditions(Problem(), ONE, 2.0, 0.999, 12)["(c) alpha <"] > 1
    assert 0.85 < reach(20) <= 12 / (12 + np.log(6)) and 0.965 < reach(100) <= 60 / (60 + np.log(6))


@pytest.mark.states("mamba Remark 4")
@pytest.mark.erratum("mamba-remark-4-kappa")
@pytest.mark.erratum("mamba-remark-4-length")
def test_what_mamba_needs_beyond_the_linear_transformer():
    p = Problem(epsilon=0.9)
    assert iterations(p) == pytest.approx(p.l_tr * iterations(p, gated=False))  # T_M = l_tr T_T
    assert batch(p) >= batch(p, gated=False) and batch(p._replace(V=100)) > batch(p._replace(V=100), gated=False)
    for epsilon in (
        0.9,
        1e-6,
    ):  # printed: the linear upper bound of kappa_a is larger when epsilon is small. It is the same.
        one, three = (f(p._replace(epsilon=epsilon), 100, 100) for f in (theorem_1_conditions, theorem_3_conditions))
        assert one["(ii) kappa_a <="] == three["(ii) kappa_a <="]
        # printed: Mamba's l_tr "does not require an upper bound". It is Mamba's alone that has one.
        assert "(iii) l_tr <=" in one and "(iii) l_tr <=" not in three
        assert one["(iii) l_tr >="] == three["(iii) l_tr >="] and "(ii) kappa_a >=" not in three


@pytest.mark.parametrize(
    "wrong",
    [
        dict(p_a=1.0),
        dict(epsilon=1.5),
        dict(M1=1),
        dict(beta=np.nan),
        dict(eta=0.0),
        dict(kappa_a=-1.0),
        dict(l_tr=2.5),
    ],
)
def test_a_problem_out_of_range_is_refused_by_name(wrong):
    (name,) = wrong
    problem = Problem(**wrong)
    for refuses in (
        lambda: theorem_1_conditions(problem, 100, 100),
        lambda: theorem_2_conditions(problem, ONE, 2.0, 0.5, 20),
        lambda: theorem_3_conditions(problem, 100, 100),
        lambda: theorem_4_conditions(problem, ONE, 2.0, 0.3, 20),
        lambda: batch(problem),
        lambda: iterations(problem),
    ):
        with pytest.raises(ValueError, match=name):
            refuses()
    with pytest.raises(ValueError, match="alpha"):
        theorem_2_conditions(Problem(), ONE, 2.0, 1.0, 20)
    with pytest.raises(ValueError, match="p_a"):
        iterations_law(laplacian(cycle(6), 6), Problem(p_a=1.0), 0.02)


@pytest.mark.erratum("mamba-batch-without-v")
def test_the_batch_of_section_10_1_lacks_v_squared():
    # From Eq. 11 and sqrt(log B / B) <~ beta^2 kappa_a (1 - p_a) / V. At V = 100 the printed maximum is 1e4 times too
    # small.
    p = Problem(V=100, beta=1.0, epsilon=0.5)
    printed = max(p.kappa_a**-2 * (1 - p.p_a) ** -2, 4, p.M1 / (1 - p.p_a)) * np.log(2) * p.beta**-4
    signal = p.beta**2 * p.kappa_a * (1 - p.p_a) / p.V
    assert np.sqrt(np.log(2) / batch(p)) == pytest.approx(signal) and np.sqrt(np.log(2) / printed) > 10 * signal


# How the iterations scale. Threshold, for a Theta without its constant: over the decade T over the printed order stays
# within a factor two, that is the fitted exponent within log10(2) = 0.30 of the printed one.

XS = {  # over a decade
    "eta": np.geomspace(0.01, 0.1, 4),
    "1 - p_a": np.geomspace(0.09, 0.9, 4),
    "M_1": np.array([4, 9, 18, 40]),
    "beta at fixed delta beta": np.geomspace(1, 10, 4),
    "l_tr": np.array([8, 17, 37, 80]),
}


@lru_cache
def fit(name, gated):
    """Exponent of SGD's iterations to E[zF] = 1/2, with its interval, and of the law's."""
    setting, step, _ = ORDERS[name]
    T, by_law, xs = [], [], np.repeat(XS[name], 2)
    for k, x in enumerate(xs):
        s = Setting(**{"delta": 0.02, **setting(x)})
        eta = step(x)[not gated]
        T.append(iterations_needed(s, gated, eta, 128, np.random.default_rng(k % 2)))
        p = Problem(s.M1, s.V, s.beta, s.kappa_a, s.p_a, s.l, eta)
        by_law.append(iterations_law(laplacian(cycle(s.M1), s.M1), p, s.delta, gated))
    return exponent(xs, T), exponent(xs, by_law)[0], np.array(T), np.array(by_law)


@pytest.mark.states("mamba Theorem 1 (iterations)", "mamba Theorem 1", "mamba Remark 1")
@pytest.mark.parametrize("name", ORDERS)
def test_mambas_iterations_scale_as_printed(name):
    (slope, low, high), *_ = fit(name, True)
    assert abs(slope - ORDERS[name][2][0]) < WITHIN and high - low < 1  # T_M does not depend on l_tr


@pytest.mark.states("mamba Theorem 3", "mamba Remark 4")
@pytest.mark.parametrize("name", [name for name in ORDERS if name != "1 - p_a"])
def test_the_linear_iterations_scale_as_printed(name):
    (slope, low, high), *_ = fit(name, False)
    assert abs(slope - ORDERS[name][2][1]) < WITHIN and high - low < 1


@pytest.mark.erratum("mamba-theorem-3-logarithm")
def test_the_linear_iterations_in_1_minus_p_a_are_no_power_of_minus_one():
    # A failing claim: the exponent is not within 0.30 of -1, and the law's own logarithm is already a fifth of it.
    (slope, low, high), by_law, *_ = fit("1 - p_a", False)
    assert slope < -1 - WITHIN and high < -1.2 and by_law == pytest.approx(-1.23, abs=0.02)
    assert abs(fit("1 - p_a", True)[0][0] + 1) < WITHIN  # Mamba's is


@pytest.mark.states("mamba Theorem 3")
@pytest.mark.parametrize("name", ORDERS)
def test_the_law_foretells_the_linear_iterations(name):
    # With the logarithm that is not printed: it takes 1 - p_a and l beyond -1. At p_a = 0.91 SGD is slower than the
    # law, and 1 - p_a further from -1: there fair labels put z F beyond 1 in single prompts before its mean is at
    # 1/2.
    (slope, *_), by_law, T, law = fit(name, False)
    if name == "1 - p_a":
        assert np.all(T < 1.7 * law) and np.all(np.abs(T - law)[2:] <= 0.1 * law[2:] + 2) and slope < by_law < -1.2
    else:
        assert np.all(np.abs(T - law) <= 0.1 * law + 2) and slope == pytest.approx(by_law, abs=0.1)
        assert by_law < -1.2 or name != "l_tr"


@pytest.mark.states("mamba Theorem 1 (iterations)", "mamba Theorem 3")
@given(
    st.sampled_from([cycle(5), all_tasks(4), disjoint_pairs(6)]), st.booleans(), st.floats(0.05, 0.9), st.floats(1, 4)
)
def test_the_laws_first_step_at_the_margin(tasks, gated, p_a, beta):
    M1 = int(tasks.max()) + 1
    L, p = laplacian(tasks, M1), Problem(M1=M1, beta=beta, p_a=p_a, l_tr=8, eta=0.01)
    T, S = iterations_law(L, p, 0.01, gated), clean_mass(p_a, 8, gated)
    at = lambda t: S / 2 * drive(L, p.eta * growth_rate(beta, M1, S), t, beta, 0.01)[0]
    assert at(T) >= 0.5 > at(T - 1)
    assert iterations_law(L, p._replace(beta=4000.0), 0.01, gated) == 0


@pytest.mark.states("mamba Theorem 1 (iterations)", "mamba Theorem 3")
@pytest.mark.parametrize("gated, eta", [(True, 0.05), (False, 0.002)])
def test_a_loss_takes_longer_than_the_margin(gated, eta):
    # The hinge loss is at least 1 - zF: on the same batches a mean loss of 1/2 comes no earlier, and both orders are
    # one.
    at = lambda eta, **goal: iterations_needed(Setting(delta=0.02), gated, eta, 64, np.random.default_rng(1), **goal)
    assert at(eta) <= at(eta, loss=0.5) < 2 * at(eta)
    assert at(eta / 3, loss=0.5) / at(eta, loss=0.5) == pytest.approx(3, rel=0.1)
    assert at(eta, most=3) == 3 and at(eta, margin=-1.0) == 0


def test_iterations_that_diverge_or_are_out_of_range_are_no_number():
    at = lambda eta=0.1, B=8, s=Setting(), **rest: iterations_needed(s, True, eta, B, np.random.default_rng(0), **rest)
    with pytest.raises(Diverged, match="step 1 with eta = 1e\\+200") as caught:
        at(1e200, most=20)
    assert caught.value.step == 1 and all(np.all(np.isfinite(W)) for W in caught.value.state)
    for name, arguments in {
        "eta": dict(eta=np.nan),
        "p_a": dict(s=Setting(p_a=7.0)),
        "beta": dict(s=Setting(beta=-3.0)),
        "tasks": dict(s=Setting(tasks=[(0, 6)])),
        "B": dict(B=0),
        "most": dict(most=0),
        "margin": dict(margin=np.nan),
        "loss": dict(loss=-1.0),
    }.items():
        with pytest.raises(ValueError, match=f"^{name}"):
            at(**arguments)


@pytest.mark.states("mamba Theorem 1 (iterations)", "mamba Theorem 1")
@pytest.mark.parametrize("tasks", [cycle(6), all_tasks(6)])
def test_mambas_iterations_do_not_depend_on_epsilon(tasks):
    # As T_M, within a factor two while the loss goes from 0.5 to 0.05, on the tasks of training.
    setting = Setting(delta=0.02, tasks=tasks)
    T = [iterations_needed(setting, True, 0.1, 256, np.random.default_rng(0), loss=eps) for eps in (0.5, 0.05)]
    assert T[0] <= T[1] < 2 * T[0]


@pytest.mark.erratum("mamba-theorem-3-beta")
def test_theorem_3_has_beta_to_the_minus_two():
    # The theorem prints beta^-2, its proof beta^-1. At a fixed delta beta the fit over a decade is -2.
    slope, low, high = fit("beta at fixed delta beta", False)[0]
    assert abs(slope + 2) < WITHIN and high < -1.7


@pytest.mark.states("mamba Theorem 1 (iterations)", "mamba Theorem 3", "mamba Theorem 4 (prompt length)")
@given(seeds, st.floats(-3, 3))
def test_the_fit_of_an_exponent(seed, slope):
    rng = np.random.default_rng(seed)
    x = np.exp(rng.uniform(0, 3, size=6)) * np.arange(1, 7)
    assert exponent(x, 3 * x**slope) == pytest.approx((slope,) * 3, abs=1e-9)


@pytest.mark.states("mamba Theorem 1 (iterations)", "mamba Theorem 3", "mamba Theorem 4 (prompt length)")
def test_its_interval_covers():
    # 2,000 fits, seed 0: 95 % within 2 points (4 standard errors).
    rng, x = np.random.default_rng(0), np.geomspace(1, 10, 5)
    fits = [exponent(x, x**-1.5 * np.exp(0.2 * rng.standard_normal(5))) for _ in range(2000)]
    assert np.mean([low <= -1.5 <= high for _, low, high in fits]) == pytest.approx(0.95, abs=0.02)
    with pytest.raises(ValueError, match="positive"):
        exponent([1, 2, 3], [1, 0, 1])


# What a trained model does. Trained as Figure 2's, 2,000 and 1,000 steps; 4,000 test prompts each, seed 0.


@lru_cache
def models(train):
    return both(0, train, steps=(2000, 1000))


def share_wrong(train, **prompts):
    """(Mamba, linear) on flipped labels, on the tasks of training."""
    n = prompts.pop("n", 4000)
    return probe(*models(train), Probe(**prompts), n, np.random.default_rng(0))


def training_loss(train, tasks):
    """Mean hinge loss and error (Mamba, linear) on fresh prompts of Definition 1."""
    setting, trained_models = models(train)
    p = training_prompts(np.random.default_rng(0), 8000, 20, tasks, 10, 3, 0.6)
    P = encode(p, 6, 10, 3.0, 6.0 * np.eye(3))
    F = [forward(P, Psi)[0] for Psi in trained_models]
    return [float(np.mean(hinge(p.z * f))) for f in F], [error(f, p.z) for f in F]


@pytest.mark.states("mamba Theorem 1", "mamba Theorem 3", "mamba Remark 1")
def test_the_loss_is_at_most_epsilon_on_all_tasks_after_training_on_all():
    # epsilon = 0.1, all conditions with constants 1 except (i), for which B = 128 is short of B_M = 230.
    p = Problem()
    assert {k for k, v in theorem_1_conditions(p, 128, 2000).items() if v < 1} == {"(i) B"}
    losses, errors = training_loss("all", all_tasks(6))
    assert losses[0] < 0.01 and losses[1] < p.epsilon
    assert errors[0] < 0.001 and errors[1] < 0.05


@pytest.mark.erratum("mamba-unseen-tasks")
def test_condition_1_does_not_give_all_tasks():
    # Theorem 1 says E over f in T <= epsilon for any T_tr of Condition 1. The cycle learns its own tasks and not
    # those of patterns two apart, which Lemma 3's law makes alike (cycle) or leaves apart (all pairs: the control,
    # above).
    own, everything = training_loss("cycle", cycle(6)), training_loss("cycle", all_tasks(6))
    assert own[0][0] < 0.01 and own[1][0] < 0.001
    assert everything[0][0] > 0.15 and everything[1][0] > 0.05
    two_apart = np.array([(a, (a + 2) % 6) for a in range(6)])
    assert training_loss("cycle", two_apart)[1][0] > 0.1
    # On three patterns the cycle has all pairs, in one order each: there the loss falls on all of T.
    setting = Setting(M1=3, tasks=cycle(3))
    Psi, _ = sgd(setting, start(setting, np.random.default_rng(0)), 1.0, 64, 500, np.random.default_rng(0))
    p = training_prompts(np.random.default_rng(0), 2000, 20, all_tasks(3), 10, 3, 0.6)
    assert np.mean(hinge(p.z * forward(encode(p, 3, 10, 3.0, 6.0 * np.eye(3)), Psi)[0])) < 0.01


@pytest.mark.states("mamba Theorem 1 (prompt length)", "mamba Remark 1")
@pytest.mark.parametrize("p_a, l", [(0.95, 20), (0.9, 20), (0.8, 10), (0.5, 4)])
def test_mamba_reaches_the_error_that_no_model_can_beat(p_a, l):
    # 1 - p_a over a decade, l about 1 or 2 / (1 - p_a): p_a^l / 2 within 4 standard errors + 5 %, 8,000 prompts, seed
    # 0.
    setting, floor = Setting(tasks=disjoint_pairs(6), p_a=p_a, l=l), no_clean_example(p_a, l)
    reached = training_error(setting, True, 1.0, 64, 600, 8000, np.random.default_rng(0))
    assert abs(reached - floor) < 4 * np.sqrt(floor / 8000) + 0.05 * floor
    s = training_prompts(np.random.default_rng(0), 8000, l, setting.tasks, 10, 3, p_a).s[:, :-1]
    assert np.mean(np.all(s >= 0, axis=1)) / 2 == pytest.approx(floor, abs=4 * np.sqrt(floor / 8000))


@pytest.mark.erratum("mamba-length-in-epsilon")
def test_the_prompt_length_depends_on_epsilon_and_not_on_m_1_alone():
    # "For any epsilon > 0" with l_tr >~ (1 - p_a)^-1 log M_1: whatever its constant C, an epsilon < p_a^l / 2 is out
    # of reach.
    for C in (1, 3):
        l = int(np.ceil(C * np.log(6) / 0.1))
        assert theorem_1_conditions(Problem(p_a=0.9, l_tr=l), 1, 1, Constants(length=C))["(iii) l_tr >="] >= 1
        reached = training_error(
            Setting(tasks=disjoint_pairs(6), p_a=0.9, l=l), True, 1.0, 64, 600, 8000, np.random.default_rng(0)
        )
        epsilon = no_clean_example(0.9, l) / 2
        assert reached > epsilon
        assert np.log(1 / (2 * epsilon)) / -np.log(0.9) > l  # the length that this epsilon needs at least


@pytest.mark.states("mamba Theorem 1 (prompt length)")
def test_the_length_that_any_model_needs_is_of_the_printed_order():
    q = np.geomspace(0.01, 0.1, 6)  # 1 - p_a
    slope, low, high = exponent(q, [np.log(2 * 0.01) / np.log(1 - x) for x in q])
    assert slope == pytest.approx(-1, abs=WITHIN) and low < high
    assert no_clean_example(0.9, np.log(2 * 0.01) / np.log(0.9)) == pytest.approx(0.01)


@pytest.mark.states("mamba Theorem 3")
@pytest.mark.erratum("mamba-theorem-3-length")
def test_the_linear_transformer_needs_a_longer_prompt_than_theorem_3_says():
    # (iii) with l (1 - p_a) = 6 at both ends of a decade: the error goes from 0.04 to 0.3. The order is (1 - p_a)^-2.
    for p_a, l in ((0.5, 12), (0.95, 120)):
        setting = Setting(tasks=disjoint_pairs(6), p_a=p_a, l=l)
        reached = training_error(setting, False, 0.2 / l, 64, 300, 4000, np.random.default_rng(0))
        assert reached == pytest.approx(training_vote_error(p_a, l), abs=0.08)
        assert reached < 0.1 if p_a == 0.5 else reached > 0.2
    q = np.geomspace(0.01, 0.1, 5)
    assert exponent(q, [examples_needed((1 - x) / 2, 0.05) for x in q])[0] == pytest.approx(-2, abs=0.1)


@pytest.mark.states("mamba Theorem 3", "mamba Theorem 1 (prompt length)")
@given(st.integers(1, 3000), st.floats(0, 0.95), st.floats(0.05, 0.95))
def test_few_clean_examples_are_unlikely(l, p_a, c):
    left, right = few_clean(l, p_a, c)
    assert left <= right
    assert right == pytest.approx(np.exp(-l * c**2 * (1 - p_a) / 4))


@pytest.mark.states("mamba Theorem 3", "mamba Theorem 1 (prompt length)")
@pytest.mark.parametrize("l, c, most", [(8, 0.5, 1), (10, 0.5, 1), (12, 0.0, 3), (16, 0.25, 3)])
def test_few_clean_counts_the_equality(l, c, most):
    # p = (1 - p_a) / 2 = 1/4, the sum written out up to (1 - c) l / 4.
    expected = sum(math.comb(l, k) * 0.25**k * 0.75 ** (l - k) for k in range(most + 1))
    assert few_clean(l, 0.5, c)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.states("mamba Theorem 1 (prompt length)", "mamba Theorem 3")
def test_the_training_error_is_that_of_prompts_drawn_by_hand():
    setting = Setting(tasks=disjoint_pairs(6), M2=1, K=0.5, l=4)
    got = training_error(setting, True, 1.0, 16, 3, 500, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    Psi, _ = sgd(setting, start(setting, rng, True), 1.0, 16, 3, rng)
    p = training_prompts(rng, 500, 4, setting.tasks, 1, 3, 0.6, 0.5)
    assert got == error(forward(encode(p, 6, 1, 3.0, 6.0 * np.eye(3)), Psi)[0], p.z) > 0


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: theorem_2_conditions(Problem(), ONE, 2.0, 0.5, 0), "l_ts"),
        (lambda: theorem_2_conditions(Problem(), ONE, 2.0, 0.5, -20), "l_ts"),
        (lambda: theorem_4_conditions(Problem(), ONE, 2.0, 0.3, 0), "l_ts"),
        (lambda: theorem_2_conditions(Problem(), ONE, np.nan, 0.5, 20), "kappa_test"),
        (lambda: theorem_4_conditions(Problem(), ONE, -2.0, 0.3, 20), "kappa_test"),
        (lambda: theorem_2_conditions(Problem(), [[1.0, 0.0]], 2.0, 0.5, 20), "mixture"),
        (lambda: theorem_1_conditions(Problem(), np.nan, 100), "B"),
        (lambda: theorem_3_conditions(Problem(), 100, 0), "T"),
        (lambda: few_clean(-1, 0.5, 0.5), "l"),
        (lambda: few_clean(2.5, 0.5, 0.5), "l"),
        (lambda: few_clean(10, 0.5, 2.0), "c"),
        (lambda: many_flipped(-4, 0.3), "l"),
        (lambda: flipped_error(0, 0.3), "l"),
        (lambda: flipped_error([3, 4.5], 0.3), "l"),
        (lambda: training_vote_error(0.5, -1), "l"),
        (lambda: no_clean_example(0.5, -1), "l"),
        (lambda: iterations_law(np.zeros((6, 6)), Problem(), 0.02), "never reached"),
    ],
)
def test_numbers_out_of_range_are_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        call()


@pytest.mark.states("mamba Theorem 1 (iterations)", "mamba Theorem 4 (prompt length)")
@given(st.integers(0, 10**6))
def test_the_least_of_what_is_reached(n):
    assert least(lambda k: k >= n) == n


@pytest.mark.erratum("mamba-theorem-3-tail")
def test_the_tail_of_section_10_3_needs_its_half():
    left, right = few_clean(2000, 0.6, 0.3)
    assert left <= right and left > 1e3 * np.exp(-2000 * 0.3**2 * (1 - 0.6) / 2)


@pytest.mark.states("mamba Theorem 4")
@given(st.integers(1, 2000), st.floats(0.01, 0.49))
def test_many_flipped_examples_are_unlikely(l, alpha):
    left, right = many_flipped(l, alpha)
    assert left <= right and right == pytest.approx(np.exp(-l * (0.5 - alpha) ** 2 / (1 + 2 * alpha)))


@pytest.mark.states("mamba Theorem 4")
def test_the_event_of_section_10_4():
    draws = np.random.default_rng(0).random((20_000, 13)) < 0.3 / 2
    left, _ = many_flipped(13, 0.3)
    assert np.mean(draws.sum(1) > 13 / 4) == pytest.approx(left, abs=4 * np.sqrt(left / 20_000))


@pytest.mark.erratum("mamba-theorem-4-exponent")
def test_alpha_stands_below_and_not_above():
    # Printed e^{-l (1/2 - alpha)^2 alpha} <= epsilon as long as l >= C alpha (1/2 - alpha)^-2 log 1/epsilon: it is
    # epsilon^{C alpha^2}, near 1 for small alpha. And near 1/2 it is below the probability that it should bound.
    C, eps, alpha = 6, 0.01, 0.02
    l = C * alpha / (0.5 - alpha) ** 2 * np.log(1 / eps)
    assert np.exp(-l * (0.5 - alpha) ** 2 * alpha) > 0.98
    longer = (1 + 2 * alpha) / (0.5 - alpha) ** 2 * np.log(1 / eps)
    assert many_flipped(np.ceil(longer), alpha)[1] <= eps
    left, right = many_flipped(40_001, 0.02)
    assert left <= right < np.exp(-40_001 * 0.48**2 * 0.02)


@pytest.mark.erratum("mamba-theorem-4-event")
def test_the_error_is_no_count_of_flipped_examples_alone():
    # Printed: error = Pr(share with the query's pattern and a flipped label > 1/4). Whether they outnumber the clean
    # ones of that pattern decides, and that number is random too. l = 10, alpha = 0.3, all 66 outcomes.
    l, alpha, wrong = 10, 0.3, 0.0
    for flipped in range(l + 1):
        for clean in range(l + 1 - flipped):
            p = multinomial.pmf([flipped, clean, l - flipped - clean], l, [alpha / 2, (1 - alpha) / 2, 0.5])
            wrong += p * (flipped >= clean)
    printed = many_flipped(l, alpha)[0]
    rng = np.random.default_rng(0)
    kind = rng.choice(3, p=[alpha / 2, (1 - alpha) / 2, 0.5], size=(20_000, l))
    simulated = np.mean(np.sum(kind == 0, axis=1) >= np.sum(kind == 1, axis=1))
    assert simulated == pytest.approx(wrong, abs=4 * np.sqrt(0.25 / 20_000)) and abs(simulated - printed) > 0.02


def outvoted(l, alpha):
    """Pr(flipped >= clean among the examples of the query's pattern), over all outcomes."""
    pairs = [(flipped, clean) for flipped in range(l + 1) for clean in range(l + 1 - flipped) if flipped >= clean]
    law = [alpha / 2, (1 - alpha) / 2, 0.5]
    return sum(multinomial.pmf([flipped, clean, l - flipped - clean], l, law) for flipped, clean in pairs)


@pytest.mark.states("mamba Theorem 4")
@pytest.mark.erratum("mamba-theorem-4-event")
def test_on_disjoint_pairs_the_partners_examples_vote_too():
    # l = 20, alpha = 0.4: the query's pattern alone would err by 0.315. Trained, all 20 vote and a tie falls either
    # way: 0.186 (4 standard errors + 0.005), a tie counted as wrong 0.245.
    setting, (_, linear) = both(0, "disjoint", steps=(1, 1000))
    wrong = probe(setting, [linear], Probe(alpha=0.4, l=20), 20_000, np.random.default_rng(0))[0]
    either = binom.sf(10, 20, 0.4) + binom.pmf(10, 20, 0.4) / 2
    assert wrong == pytest.approx(either, abs=0.016)
    assert flipped_error(19, 0.4) == pytest.approx(either)  # an even l with ties by a coin is l - 1
    assert outvoted(20, 0.4) > 0.31 and flipped_error(20, 0.4) == pytest.approx(0.245, abs=1e-3)


@pytest.mark.states("mamba Theorem 4 (prompt length)")
@pytest.mark.erratum("mamba-theorem-4-in-epsilon")
@pytest.mark.parametrize("C", [1, 3])
def test_the_test_length_depends_on_epsilon(C):
    # "For any epsilon > 0" with log M_1 = log 6: whatever its constant C, (d) holds and half the vote's error is an
    # epsilon out of reach. With log 1/epsilon for log M_1 the constant 4 is enough for every epsilon.
    alpha, l = 0.4, int(np.ceil(C * 0.4 / 0.1**2 * np.log(6)))
    assert theorem_4_conditions(Problem(), ONE, 2.0, alpha, l, Constants(length=C))["(d) l_ts >="] >= 1
    assert flipped_error(l, alpha) > 1e-4
    for epsilon, alpha in itertools.product((0.1, 1e-3, 1e-9), (0.1, 0.3, 0.4, 0.49)):
        l = int(np.ceil(4 * max(1 / (1 - alpha), alpha / (0.5 - alpha) ** 2) * np.log(1 / epsilon)))
        assert flipped_error(l, alpha) <= epsilon


@pytest.mark.erratum("mamba-theorem-3-in-epsilon")
@pytest.mark.parametrize("C", [1, 3])
def test_the_linear_training_length_depends_on_epsilon(C):
    # As for Mamba: (iii) with any constant C leaves an error of p_a^l / 2, and the vote's own is larger still.
    p_a, l = 0.9, int(np.ceil(C * np.log(6) / 0.1))
    assert theorem_3_conditions(Problem(p_a=p_a, l_tr=l), 1, 1, Constants(length=C))["(iii) l_tr >="] >= 1
    setting = Setting(tasks=disjoint_pairs(6), p_a=p_a, l=l)
    reached = training_error(setting, False, 0.2 / l, 64, 300, 4000, np.random.default_rng(0))
    assert reached > no_clean_example(p_a, l) and reached > training_vote_error(p_a, l) / 2 > 0.05


@pytest.mark.states("mamba Theorem 4", "mamba Remark 6")
@given(st.integers(1, 40), st.floats(0.01, 0.99))
def test_the_vote_counts(l, alpha):
    # Reversing all labels exchanges alpha and 1 - alpha; a tie says nothing and is wrong both times.
    tie = binom.pmf(l / 2, l, alpha) if l % 2 == 0 else 0
    assert flipped_error(l, alpha) + flipped_error(l, 1 - alpha) == pytest.approx(1 + tie, abs=1e-9)
    assert flipped_error(1, alpha) == pytest.approx(alpha)
    assert flipped_error(2, alpha) == pytest.approx(1 - (1 - alpha) ** 2)
    assert flipped_error(3, alpha) == pytest.approx(alpha**3 + 3 * alpha**2 * (1 - alpha))


@pytest.mark.states("mamba Theorem 4 (prompt length)", "mamba Theorem 4")
def test_the_examples_needed_near_one_half():
    # 1/2 - alpha over a decade, epsilon = 0.01: the exponent of l_ts / alpha, its whole interval within 0.30 of -2.
    gap = np.geomspace(0.01, 0.1, 6)
    needed = np.array([examples_needed(0.5 - x, 0.01) for x in gap])
    assert all(flipped_error(n, 0.5 - x) <= 0.01 < flipped_error(n - 2, 0.5 - x) for n, x in zip(needed, gap))
    slope, low, high = exponent(gap, needed / (0.5 - gap))
    assert -2 - WITHIN < low <= slope <= high < -2 + WITHIN
    assert examples_needed(0.0, 0.01) == 1


@pytest.mark.states("mamba Theorem 4", "mamba Remark 6", "mamba Section 3.1 (P1-P3)")
def test_one_half_is_the_linear_transformers_limit():
    # On all pairs, flipped labels: inside alpha < 1/2 the error falls with l_ts, outside it rises; Mamba's is 0 on
    # both sides.
    inside, outside = ([share_wrong("all", alpha=a, l=n, n=2000) for n in (20, 200)] for a in (0.4, 0.6))
    assert inside[0][1] > 0.1 > 0.02 > inside[1][1]
    assert outside[0][1] > 0.7 and outside[1][1] > 0.95
    assert max(e[0] for e in inside + outside) < 0.002
    assert inside[1][1] == pytest.approx(flipped_error(200, 0.4), abs=0.01)
    assert flipped_error(201, 0.6) > 0.99 > 0.01 > flipped_error(201, 0.4)


@pytest.mark.states("mamba Theorem 2", "mamba Remark 3", "mamba Section 3.1 (P1-P3)")
def test_mamba_inside_and_outside_of_theorem_2():
    # epsilon = 0.02, alpha = 0.5, flipped. Inside with constants 1 (the mixtures of training): error <= epsilon. Then
    # outside of each condition: (a), (b), (d) matter. (c) does not bind: far outside of it the error is still 0.
    problem, eps = Problem(epsilon=0.02), 0.02

    def cell(**prompts):
        p = Probe(**prompts)
        slack = theorem_2_conditions(problem, p.mixture, p.magnitude, p.alpha, p.l)
        return {name for name, value in slack.items() if value < 1}, share_wrong("all", **prompts)[0]

    for prompts in (dict(), dict(magnitude=4.0, alpha=0.58), dict(alpha=0.25, l=40)):
        failing, wrong = cell(**prompts)
        assert not failing and wrong <= eps
    failing, wrong = cell(mixture=[[0, 0, 0]])
    assert failing == {"(a) sum lambda > 0"} and wrong > 0.4
    assert cell(mixture=[[1.0, -1.3, 0.0]])[1] > 0.5
    failing, wrong = cell(magnitude=0.5)
    assert failing == {"(b) kappa_a' >="} and wrong > eps
    failing, wrong = cell(l=3)
    assert failing == {"(d) l_ts >="} and wrong > eps
    failing, wrong = cell(alpha=0.65, l=40)  # (c) asks alpha < 0.3
    assert "(c) alpha <" in failing and wrong <= eps / 10
    failing, wrong = cell(alpha=0.8, l=80)  # 0.15
    assert "(c) alpha <" in failing and wrong <= eps


@pytest.mark.states("mamba Theorem 2", "mamba Remark 3")
@pytest.mark.parametrize("alpha, l", [(0.8, 10), (0.9, 10), (0.5, 4), (0.9, 20)])
def test_mambas_error_on_flipped_labels_is_that_of_no_clean_example(alpha, l):
    # alpha^l, within 4 standard errors + 10 %: (d) is about log 1/epsilon, not log M_1, as in training.
    wrong = share_wrong("all", alpha=alpha, l=l)[0]
    assert abs(wrong - alpha**l) < 4 * np.sqrt(alpha**l / 4000) + 0.1 * alpha**l


def with_u(length, sign):
    """Mamba's error where every outlier has a u of this length, and w^(0) = sign / sqrt(d + 1) along it."""
    setting, (Psi, _) = models("all")
    drawn = test_prompts(np.random.default_rng(0), 4000, 20, setting.tasks, 10, 3, 0.5, 0.5)
    P = encode(drawn, 6, 10, 3.0, 2.0 * np.hstack([3.0 * np.eye(3), np.full((3, 1), length)]))
    wider = [np.insert(np.vstack([W, np.zeros(20)]), 19, 0, axis=1) for W in Psi[:2]]  # no attention along u
    return error(forward(P, Weights(*wider, np.insert(Psi.w, 19, sign / np.sqrt(31))))[0], drawn.z)


@pytest.mark.erratum("mamba-theorem-2-bounds")
def test_theorem_2_bounds_too_little():
    # Inside (a)-(d) with constants 1 at epsilon = 0.02. Small lambda (the least kappa_a' is printed without sum
    # lambda), large lambda of opposite signs, K' (printed: any > 1): each fails; kappa_a' sum lambda >= kappa_a mends
    # the first.
    v_w, opposite, eps = models("all")[1][0].w[16:19], np.zeros(3), 0.02
    opposite[[np.argmax(v_w), np.argmin(v_w)]] = 40.3, -40  # sum 0.3, against the trained v_i^T w, which differ by 1 %
    for prompts in (dict(mixture=[[0.1, 0, 0]]), dict(mixture=[opposite], magnitude=4.0), dict(K=16.0)):
        p = Probe(**prompts)
        assert min(theorem_2_conditions(Problem(epsilon=eps), p.mixture, p.magnitude, p.alpha, p.l).values()) >= 1
        assert share_wrong("all", **prompts)[0] > eps
    assert share_wrong("all", mixture=[[0.1, 0, 0]], magnitude=20.0)[0] <= eps
    # u of length 30 along an axis on which w^(0) is +-1/sqrt(d + 1), its standard deviation: training leaves it there.
    assert max(with_u(3.0, sign) for sign in (-1, 1)) <= eps and with_u(30.0, -1) <= eps < 0.5 < with_u(30.0, 1)
    assert share_wrong("all")[0] <= eps


@pytest.mark.states("mamba Theorem 2", "mamba Theorem 4")
def test_a_boundary_is_its_probes():
    # Trained shortly; each probe has its own prompts, so a list and a part of it agree.
    probes = [Probe(), Probe(alpha=0.9, l=4), Probe(mixture=((-1.0, 0, 0),))]
    found = boundary(3, "cycle", probes, 200, steps=(300, 100))
    assert found.shape == (3, 2) and np.array_equal(found[:2], boundary(3, "cycle", probes[:2], 200, steps=(300, 100)))
    assert found[0, 0] < 0.1 < found[2, 0]
    setting, (mamba, linear) = both(3, "cycle", steps=(5, 5))
    assert mamba.w is not None and linear.w is None and np.array_equal(setting.tasks, cycle(6))
