"""The Mamba paper's figures: each claim on both sides of its threshold, from numbers made up; each drawn very small."""

import copy
import functools

import numpy as np
import pytest

from plots import mamba as shared
from plots import (
    mamba_attention,
    mamba_bounds,
    mamba_fig2,
    mamba_gate,
    mamba_recurrences,
    mamba_scaling,
    mamba_speed,
    mamba_tasks,
)
from refimpl.calculus.gating import gate
from refimpl.checks import Diverged
from tests.plots.mamba import TINY


def verdicts(script, found, settings=None):
    return [row["holds"] for row in script.claims(found, {**script.SETTINGS, **(settings or {})})]


def failing(script, found, settings=None):
    """The places of the claims that do not hold; none may have its input missing."""
    holds = verdicts(script, found, settings)
    assert None not in holds
    return [k for k, hold in enumerate(holds) if not hold]


def changed(found, *path, value):
    """A copy of what was found with another value at found[path[0]][path[1]]..."""
    found = copy.deepcopy(found)
    functools.reduce(lambda part, key: part[key], path[:-1], found)[path[-1]] = value
    return found


# What the figures share.


def test_the_deviation_is_over_the_seeds_and_unknown_of_one():
    """Of 1 and 3 it is sqrt((1 + 1) / 1)."""
    assert shared.deviation(np.array([[1.0, 5.0], [3.0, 5.0]])) == pytest.approx([np.sqrt(2), 0])
    assert np.all(np.isnan(shared.deviation(np.array([[1.0, 5.0]]))))


@pytest.mark.parametrize("errors, upto", [([0, 0, 0], [0, 1, 2]), ([0, 0.01, 0], [0]), ([0.01, 0, 0], [])])
def test_the_reach_ends_before_the_first_error_of_0_01(errors, upto):
    assert list(shared.reach(np.arange(3), errors)) == upto


def test_progress_is_a_line_to_every_so_many_cells_and_the_last():
    lines = []
    for done in range(1, 6):
        shared.counter(lines.append, "trainings", 2)(done, 5)
    assert lines == ["2 of 5 trainings", "4 of 5 trainings", "5 of 5 trainings"]


# mamba-attention: mass (seeds, steps, same and different), attention by distance.

ATTENTION = {"mass": np.array([[[2.0, 1.5], [5.0, 0.1]]] * 2), "attention": np.array([6.0, 0.1, -1.0])}


@pytest.mark.parametrize(
    "path, value, fails",
    [
        (("mass", (1, 1, 0)), 0.99, [0]),
        (("mass", (1, 0, 1)), 2.0, [1]),  # no gap at the start
        (("mass", (1, 0, 0)), 6.5, [1]),  # a larger one than at the end
        (("mass", (1, 1, 1)), 0.11, [2, 3]),
        (("mass", (1, 1, 1)), -0.11, [3]),
        (("attention", 1), 0.11, [4]),
        (("attention", 2), -9.0, []),
        (("attention", 0), -9.0, []),
    ],
)
def test_attention_every_seed_and_every_distance_decides(path, value, fails):
    assert failing(mamba_attention, ATTENTION) == []
    assert failing(mamba_attention, changed(ATTENTION, *path, value=value)) == fails


# mamba-gate.

HALVES = 0.5 ** np.arange(10)
GATES = {
    "by rank": np.array([0.2 * HALVES, 0.1 * HALVES, 0.4 * HALVES]),
    "outliers": (0.01, 1 / 6, 0.3),
    "clean": (-0.01, 0, 100),
    "slack": 1.0,
    "sums": (0.9, 0.7),
}


def test_the_summary_of_the_gates_by_hand():
    """At pre-activations of 0 the gates of two examples and the query are 1/8, 1/4 and 1/2.

    Of each prompt one example is an outlier, the second and the first. In local_bias c = 1/2: of the first prompt
    1/8 >= 1/2 1/2 1/2, of the second 1/4 >= 1/2 1/2.
    """
    a, s = np.zeros((2, 3)), np.array([[-1, 0, -1], [2, -1, -1]])
    ranked = np.array([[1 / 8, np.nan], [1 / 4, np.nan]])
    found = mamba_gate.summary(gate(a)[:, :2], s[:, :2] >= 0, ranked, a, s, 1)
    assert found["clean by position"] == pytest.approx([1 / 8, 1 / 4])
    assert found["outlier by position"] == pytest.approx([1 / 8, 1 / 4])
    assert found["by rank"][:, 0] == pytest.approx([3 / 16, 1 / 8 + 0.01 / 8, 1 / 8 + 0.99 / 8])
    assert found["outliers"] == pytest.approx((3 / 16, 1 / 8 + 0.99 / 8, 1 / 4))
    assert found["clean"] == (0, 4, 4) and found["slack"] == pytest.approx(1)
    assert found["sums"] == pytest.approx((7 / 8, 3 / 8))


@pytest.mark.parametrize(
    "path, value, fails",
    [
        (("outliers",), (0.01, 0.167, 0.3), [0]),
        (("by rank", (1, 5)), 0.09 * 0.5**5, [1]),
        (("by rank", (0, 3)), 0.24 * 0.5**3, [2]),
        (("by rank", 0), 0.2 * 0.54 ** np.arange(10), []),
        (("by rank", 0), 0.2 * 0.56 ** np.arange(10), [3]),
        (("clean",), (0.0, 1, 100), [4]),
        (("slack",), 0.99, [5]),
        (("sums",), (0.89, 0.7), [6]),
        (("sums",), (1.0, 0.7), [6]),
    ],
)
def test_gate_every_claim_on_both_sides(path, value, fails):
    assert failing(mamba_gate, GATES) == []
    assert failing(mamba_gate, changed(GATES, *path, value=value)) == fails


# mamba-tasks: errors (seeds, distances, alphas, models).

TASKS = {
    ("cycle", 4): [np.full((2, 2, 2, 2), 0.009), np.zeros((2, 3, 2))],
    ("disjoint", 6): [np.full((2, 3, 2, 2), 0.009), np.zeros((2, 4, 2))],
}


@pytest.mark.parametrize(
    "kind, place, value, fails",
    [
        (("cycle", 4), (slice(None), 1, 0, 0), 0.01, [0]),
        (("cycle", 4), (slice(None), 0, 0, 0), 0.01, [0, 2]),
        (("disjoint", 6), (slice(None), 0, 0, 0), 0.01, [1]),
        (("cycle", 4), (0, 1, 0, 0), 0.0105, []),  # a mean of 0.00975 over the seeds
        (("cycle", 4), (0, 1, 0, 0), 0.0115, [0]),
        (("cycle", 4), (slice(None), slice(None), 1, 0), 1.0, []),  # with outliers
        (("cycle", 4), (slice(None), slice(None), 0, 1), 1.0, []),  # the linear Transformer's
    ],
)
def test_tasks_every_distance_of_mamba_without_outliers_decides(kind, place, value, fails):
    assert failing(mamba_tasks, TASKS) == []
    assert failing(mamba_tasks, changed(TASKS, kind, 0, place, value=value)) == fails


# mamba-fig2: errors (seeds, labellings, alphas, models).

FIG2 = {"alphas": [0.0, 0.5, 0.6, 0.8, 0.9]}
ERRORS = {name: np.zeros((2, 3, 5, 2)) + [0.009, 0.1] for name in mamba_fig2.CASES}
ROWS = [(name, text) for name in mamba_fig2.CASES for text in ("flipped", "others")]
ROWS += [(name, labelling, "linear") for name in mamba_fig2.LINEAR for labelling in shared.LABELLINGS]
ROWS += [(name, "gap") for name in mamba_fig2.LINEAR]
LINEAR = mamba_fig2.LINEAR[0]


@pytest.mark.parametrize(
    "name, place, value, fails",
    [
        ("K' = 2", (slice(None), 0, 3, 0), 0.01, [("K' = 2", "flipped")]),
        ("K' = 2", (slice(None), 1, 0, 0), 0.01, [("K' = 2", "others")]),
        ("K' = 2", (slice(None), 2, 3, 0), 0.01, [("K' = 2", "others")]),
        ("K' = 2", (slice(None), slice(None), 4, 0), 1.0, []),  # past 0.8
        ("K' = 2", (slice(None), slice(None), slice(None), 1), 0.0, []),
        (LINEAR, (slice(None), 1, 2, 1), 0.099, [(LINEAR, "targeted", "linear")]),
        (LINEAR, (slice(None), 1, 1, 1), 0.099, []),  # at 1/2
        (LINEAR, (slice(None), 2, 4, 0), 0.099, []),
        (LINEAR, (slice(None), 2, 4, 0), 0.101, [(LINEAR, "gap")]),
    ],
)
def test_fig2_every_labelling_and_alpha_decides(name, place, value, fails):
    assert failing(mamba_fig2, ERRORS, FIG2) == []
    assert [ROWS[k] for k in failing(mamba_fig2, changed(ERRORS, name, place, value=value), FIG2)] == fails


def test_fig2_says_of_each_case_what_was_run():
    """The numbers of a case are those of the settings, unless the case has its own."""
    rows = mamba_fig2.claims(ERRORS, {**mamba_fig2.SETTINGS, **FIG2, "kappa_a": 1.5, "K": 0.25, "outlier_norm": 2})
    said = {row["claim"].partition("(")[2].partition(";")[0]: row["settings"] for row in rows[:34]}
    assert said["training outliers"].startswith("training outliers of norm 2, kappa_a' = 1.5, alpha as probability")
    assert "unseen outliers of norm 1, kappa_a' = 6, " in said["outlier norm 1, kappa_a' = 6"]
    assert said["K' = 2, exact count"].endswith("exact count, K' = 2, trained on cycle, tested on cycle")
    assert said["disjoint pairs / all"].endswith("K' = 0.25, trained on disjoint, tested on all")


def test_fig2_needs_an_alpha_that_its_claims_speak_of():
    with pytest.raises(ValueError, match="alphas: at least one must be above 1/2"):
        mamba_fig2.measure({**mamba_fig2.SETTINGS, "alphas": [0.0, 0.5]}, 0, 1, print)


def test_fig2_has_its_letters_once():
    assert mamba_fig2.in_letters("unseen, kappa_a' = 4") == r"unseen, $\kappa_a'$ = 4"


# mamba-recurrences: errors (seeds, labellings, alphas), shares.

RECURRENCES = {"alphas": [0.0, 0.6, 0.8, 0.9]}
LAYERS = {name: [np.full((2, 3, 4), 0.009), np.zeros((2, 2))] for name in mamba_recurrences.NAMES}
for name in mamba_recurrences.LATER:
    LAYERS[name][0][:, 0, 1] = 0.51
BECAUSE = len(mamba_recurrences.NAMES) - 1


@pytest.mark.parametrize(
    "name, place, value, fails",
    [
        ("Mamba", (slice(None), 0, 1), 0.01, ["Mamba", "because"]),
        ("Mamba", (slice(None), 1, 1), 0.01, ["Mamba"]),
        ("Mamba", (slice(None), 2, 3), 0.5, []),  # past 0.8
        ("own gate (printed)", (slice(None), 2, 2), 0.01, ["own gate (printed)"]),
        ("linear Transformer", (slice(None), 0, 1), 0.5, ["because"]),
        ("RetNet", (slice(None), 0, 1), 0.5, ["because"]),
        (mamba_recurrences.SQUARED, (slice(None), 0, 1), 0.01, [mamba_recurrences.SQUARED]),
    ],
)
def test_recurrences_every_layer_decides(name, place, value, fails):
    rows = [*mamba_recurrences.NAMES[1:], "because"]
    always = [k for k, row in enumerate(rows) if row in mamba_recurrences.LATER]  # 0.51 at alpha = 0.6
    assert failing(mamba_recurrences, LAYERS, RECURRENCES) == always and len(always) == 4
    found = failing(mamba_recurrences, changed(LAYERS, name, 0, place, value=value), RECURRENCES)
    assert [rows[k] for k in found if k not in always] == fails


@pytest.mark.parametrize("labellings", [["targeted"], ["flipped", "upside down"]])
def test_recurrences_refuses_labellings_that_its_claims_do_not_know(labellings):
    with pytest.raises(ValueError, match="labellings: "):
        mamba_recurrences.measure({**mamba_recurrences.SETTINGS, "labellings": labellings}, 0, 1, print)


# mamba-bounds, at p_a l_tr = 12. (10, 0.6): 0.6^10 = 0.0060, inside of (c), and of (d) by 4 > log(1 / 0.02) = 3.9.

POINTS = {(10, 0.5): [0.001, 0], (10, 0.6): [0.006, 0], (80, 0.5): [0.021, 0], (80, 0.6): [0.021, 0]}
BOUNDS = {
    "mamba": POINTS,
    "linear": {(20, 0.4): [0, 1], (320, 0.4): [0, 0.1], (320, 0.5): [0, 0.5], (320, 0.6): [0, 0.9]},
    "magnitude": {(2.0, 1.0): [0.02, 0], (2.0, 0.1): [0.02, 0], (20.0, 0.1): [0.0, 0], (1.0, 1.0): [0.5, 0]},
    "sum": {-1.0: [0.021, 0], 0.0: [0.021, 0], 0.1: [0.0, 0]},
    "exponent": (-2.29, -2.3, -2.28),
}


@pytest.mark.parametrize(
    "path, value, fails",
    [
        (("mamba", (10, 0.8)), [0.107, 0], [0]),  # 0.8^10 by chance: (d) with log M_1 lets it in, with log 50 not
        (("mamba", (10, 0.6)), [0.021, 0], [0, 1, 2]),
        (("mamba", (10, 0.6)), [0.013, 0], [2]),  # allowed: 4 sqrt(0.006 / 6000) + 0.0006 + 0.001
        (("mamba", (80, 0.5)), [0.02, 0], [3]),
        (("mamba", (20, 0.65)), [0.0, 0], []),  # 1.08 times the bound
        (("mamba", (80, 0.99)), [0.0, 0], []),  # not in (d)
        (("magnitude", (2.0, 1.0)), [0.021, 0], [4]),
        (("magnitude", (2.0, 0.1)), [0.021, 0], [4]),
        (("magnitude", (20.0, 0.1)), [0.5, 0], []),
        (("sum", 0.0), [0.02, 0], [5]),
        (("sum", 0.1), [0.5, 0], []),
        (("linear", (320, 0.4)), [0, 0.101], [6]),
        (("linear", (320, 0.6)), [0, 0.899], [6]),
        (("exponent",), (-2.31, -2.4, -2.2), [7]),
        (("exponent",), (-1.69, -1.7, -1.6), [7]),
    ],
)
def test_bounds_every_claim_on_both_sides(path, value, fails):
    assert failing(mamba_bounds, BOUNDS) == []
    assert failing(mamba_bounds, changed(BOUNDS, *path, value=value)) == fails


def test_bounds_without_a_point_to_decide_has_no_verdict():
    inside, outside = ({key: e for key, e in POINTS.items() if key[0] == l} for l in (10, 80))
    assert verdicts(mamba_bounds, BOUNDS | {"mamba": inside})[:4] == [True, True, True, None]
    assert verdicts(mamba_bounds, BOUNDS | {"mamba": outside})[:4] == [None, None, None, True]
    assert verdicts(mamba_bounds, BOUNDS | {"sum": {0.1: [0, 0]}})[5] is None
    assert verdicts(mamba_bounds, BOUNDS | {"linear": {(320, 0.4): [0, 0]}})[6] is None


def test_bounds_probes_have_the_sums_that_they_are_named_for():
    groups = mamba_bounds.probes(mamba_bounds.SETTINGS)
    assert all(sum(test.mixture[0]) == pytest.approx(x) for x, test in groups["sum"].items())
    for (kappa_a, total), test in groups["magnitude"].items():
        assert test.kappa_a == kappa_a and (total == 1 if test.mixture is None else sum(test.mixture[0]) == total)
    assert all((test.l, test.alpha) == key for name in ("mamba", "linear") for key, test in groups[name].items())


# mamba-scaling: power laws.

ORDERS = list(mamba_scaling.ORDERS)
PRINTED = {(name, model): mamba_scaling.ORDERS[name][2][model] for name in ORDERS for model in (0, 1)}
FLOOR = {(q, c, model): (1 - q) ** round(c / q) / 2 for q in (0.05, 0.5) for c in (1, 4) for model in (0, 1)}
X = np.array([1.0, 2.0, 4.0])
LAWS = {key: (X, 100 * X**slope) for key, slope in PRINTED.items()}
SCALING = {"T": LAWS, "law": LAWS, "error": FLOOR, "vote": 1 / np.array(mamba_scaling.SETTINGS["vote: 1 - p_a"])}
LENGTHS = {"length: 1 - p_a": [0.05, 0.5], "length: l (1 - p_a)": [1, 4]}


@pytest.mark.parametrize("place, key", list(enumerate(PRINTED)))
@pytest.mark.parametrize("off, holds", [(0.29, True), (-0.29, True), (0.31, False), (-0.31, False)])
def test_scaling_an_exponent_holds_within_a_factor_two_over_the_decade(place, key, off, holds):
    found = changed(SCALING, "T", key, value=(X, 100 * X ** (PRINTED[key] + off)))
    assert failing(mamba_scaling, found, LENGTHS) == ([] if holds else [place])
    row = mamba_scaling.claims(found, {**mamba_scaling.SETTINGS, **LENGTHS})[place]
    assert row["claim"].startswith(f"The iterations that {mamba_scaling.MODELS[key[1]]} needs scale as {key[0]} to")
    assert row["measured"].startswith(f"{PRINTED[key] + off:.2f}, ")


def test_scaling_the_floor_and_the_vote_decide():
    """Allowed at p_a^l / 2 = 0.5^8 / 2 = 0.00195 and 8000 prompts: 4 * 0.00049 + 0.0001."""
    assert failing(mamba_scaling, changed(SCALING, "error", (0.5, 4, 0), value=0.00395), LENGTHS) == []
    assert failing(mamba_scaling, changed(SCALING, "error", (0.5, 4, 0), value=0.00405), LENGTHS) == [10]
    assert failing(mamba_scaling, changed(SCALING, "error", (0.5, 4, 1), value=0.5), LENGTHS) == []
    assert failing(mamba_scaling, SCALING | {"vote": SCALING["vote"] ** 1.29}, LENGTHS) == []
    assert failing(mamba_scaling, SCALING | {"vote": SCALING["vote"] ** 1.31}, LENGTHS) == [11]


def test_a_training_that_does_not_arrive_is_no_number(monkeypatch):
    script = mamba_scaling
    monkeypatch.setattr(script, "sweep", lambda function, cells, *rest: [10] * (len(cells) - 1) + [script.MOST])
    with pytest.raises(ValueError, match="l_tr.*not reached in 20000 steps"):
        script.measure({**script.SETTINGS, **script.QUICK}, 0, 1, print)


# mamba-speed: seconds.

SECONDS = {
    "cost": {mamba_speed.GRADIENT: 1.0, mamba_speed.WHOLE: 1.5, mamba_speed.PEER: 3.0},
    "by length": {10: 1.0, 1000: 1.0, 10000: 10**1.19},
    "pattern coordinates by dimension": {20: 1.0, 600: 1.3},
}


@pytest.mark.parametrize(
    "path, value, fails",
    [
        (("cost", mamba_speed.GRADIENT), 1.01, [0]),
        (("cost", mamba_speed.WHOLE), 1.51, [1]),
        (("by length", 10), 1e9, []),  # the exponent is that of long prompts
        (("by length", 10000), 10**1.21, [2]),
        (("pattern coordinates by dimension", 600), 1.31, [3]),
        (("pattern coordinates by dimension", 600), 0.76, [3]),
    ],
)
def test_speed_every_ratio_on_both_sides(path, value, fails):
    assert failing(mamba_speed, SECONDS) == []
    assert failing(mamba_speed, changed(SECONDS, *path, value=value)) == fails


def test_speed_without_pytorch_or_long_prompts_has_no_verdict():
    alone = SECONDS | {"cost": {mamba_speed.GRADIENT: 1.0, mamba_speed.WHOLE: 1.5}, "by length": {10: 1.0, 1000: 1.0}}
    assert verdicts(mamba_speed, alone) == [None, None, None, True]
    assert "cannot be imported" in mamba_speed.claims(alone, mamba_speed.SETTINGS)[0]["measured"]


# All of them, small.


def test_same_seed_same_claims_whatever_the_jobs():
    """Cases E1, F1."""
    script = mamba_attention
    settings = {**script.SETTINGS, **TINY["mamba-attention"]}
    one, two = (script.measure(settings, 3, jobs, print) for jobs in (1, 2))
    assert script.claims(one, settings) == script.claims(two, settings)
    np.testing.assert_equal(script.numbers(one, settings), script.numbers(two, settings))


def test_divergence_is_failed_work():
    """Case G10: exit 1 and one line, by refimpl.commands.run."""
    with pytest.raises(Diverged, match="diverged at step"):
        mamba_gate.measure({**mamba_gate.SETTINGS, **TINY["mamba-gate"], "eta": 1e200}, 0, 1, print)
