"""What the attention paper's figures claim, decided on numbers made by hand, on both sides of each threshold."""

import numpy as np
import pytest

from plots import attention_fig1 as fig1
from plots import attention_fig2 as fig2
from plots import attention_fig3 as fig3
from plots import attention_fig4 as fig4
from plots import attention_fig5 as fig5
from plots import attention_fig6 as fig6
from plots import attention_flow, attention_regime, attention_speed, grid
from refimpl.attention.data import IRRELEVANT, RELEVANT, Sample
from refimpl.attention.experiments import Run
from tests.plots.attention import TINY


def verdicts(module, found, **settings):
    return [row["holds"] for row in module.claims(found, module.SETTINGS | settings)]


def test_the_slacks_by_hand():
    """n = 12, T = 4, d = 1e12, ratio 10: Tr / (C T^2 n |mu|^2) = 10 / (5 * 16); 2 of 6 wrong: eta = 1/3 against 1/5."""
    slack = attention_flow.slacks(attention_flow.SETTINGS, T=4, ratio=10, wrong=2)
    assert slack["A'1"] == pytest.approx(10 / 80) and slack["A6"] == pytest.approx(3 / 5)
    assert attention_flow.failing(slack) == "A'1 (0.12), A6 (0.6)"
    assert attention_flow.failing({"A5": 1.0}) == "none"


@pytest.mark.parametrize(
    "change, failing",
    [
        ({}, []),
        (dict(accuracies=[[0.99, 1.0], [1.0, 0.74], [0.8, 1.0]]), [0]),
        (dict(accuracies=[[1.0, 0.98], [1.0, 0.74], [0.8, 1.0]]), [0]),
        (dict(accuracies=[[1.0, 0.99], [0.99, 0.7], [0.8, 1.0]]), [1]),
        (dict(accuracies=[[1.0, 0.99], [1.0, 0.75], [0.8, 1.0]]), [1]),
        (dict(accuracies=[[1.0, 0.99], [1.0, 0.74], [0.81, 1.0]]), [2]),
        (dict(accuracies=[[1.0, 0.99], [1.0, 0.74], [0.8, 0.98]]), [2]),
        (dict(clean=0.7), [2]),
        (dict(alone=[[1.0, 0.98], [1.0, 1.0], [1.0, 1.0]]), [3]),
        (dict(alone=[[0.9, 1.0], [1.0, 1.0], [1.0, 1.0]]), [3]),
    ],
)
def test_figure_1_each_case_by_both_of_its_accuracies(change, failing):
    good = dict(accuracies=[[1.0, 0.99], [1.0, 0.74], [0.8, 0.99]], alone=[[1.0, 0.99], [0, 0], [0, 0]], clean=0.8)
    assert verdicts(fig1, good | change) == [k not in failing for k in range(4)]


@pytest.mark.parametrize(
    "peak, end, rises, vanishes",
    [(0.16, 0.04, True, True), (0.15, 0.04, False, True), (0.16, 0.11, False, False), (0.16, 0.05, True, False)],
)
def test_figure_2_every_clean_sample_rises_by_half_and_every_sample_falls_below_half_its_start(
    peak, end, rises, vanishes
):
    S = np.array([[0.1, 0.1, 0.1], [0.2, peak, 0.1], [0.02, end, 0.03]])
    assert verdicts(fig2, dict(S=S, noisy=np.array([False, False, True]))) == [rises, vanishes]


def test_figure_2_a_noisy_sample_need_not_rise_but_must_vanish():
    S = np.array([[0.1, 0.1], [0.2, 0.1], [0.01, 0.06]])
    assert verdicts(fig2, dict(S=S, noisy=np.array([False, True]))) == [True, False]


def outcome(train=1.0, test=1.0, picks=(1, 1), fitted=(True, True)):
    return fig3.Outcome(train, test, np.array(picks), np.array(fitted))


@pytest.mark.parametrize(
    "claim, good, bad",
    [
        (0, dict(a=outcome(test=0.99)), dict(a=outcome(test=0.98))),
        (0, dict(a=outcome()), dict(a=outcome(train=0.95))),
        (1, dict(a=outcome(picks=(-1, -1))), dict(a=outcome(picks=(-1, 1)))),
        (2, dict(a=outcome(picks=(1, 1))), dict(a=outcome(picks=(1, -1)))),
        (3, dict(b=outcome(picks=(1, IRRELEVANT))), dict(b=outcome(picks=(1, 1)))),
        (3, dict(b=outcome(picks=(1, IRRELEVANT))), dict(b=outcome(0.9, picks=(1, IRRELEVANT)))),
        (4, dict(b=outcome(test=0.98)), dict(b=outcome(test=1.0))),
        (5, dict(c=outcome(picks=(1, RELEVANT), fitted=(True, False))), dict(c=outcome(fitted=(True, False)))),
        (5, dict(c=outcome(picks=(1, RELEVANT), fitted=(True, False))), dict(c=outcome(picks=(1, RELEVANT)))),
    ],
)
def test_figure_3_holds_where_more_than_half_of_the_seeds_agree(claim, good, bad):
    good, bad = ([(dict(a=outcome(), b=outcome(), c=outcome()) | runs)[case] for case in "abc"] for runs in (good, bad))
    assert verdicts(fig3, dict(outcomes=[good, bad, good]))[claim] is True
    assert verdicts(fig3, dict(outcomes=[good, bad]))[claim] is False


def test_figure_3_the_worst_seed_is_named():
    outcomes = [[outcome(), outcome(test=test), outcome()] for test in (0.9, 0.8)]
    measured = fig3.claims(dict(outcomes=outcomes), fig3.SETTINGS)[4]["measured"]
    assert measured == "2 of 2 seeds; largest test error of (b) 0.200"


def run_of_figure_3(Y_star, picks, margins):
    """A run of four samples with Y = +1 whose last weights lie on the token picked of R, W_{+1}, W_{-1}, I."""
    Y_star, roles = np.array(Y_star), np.array([[RELEVANT, 1, -1, IRRELEVANT]] * 4)
    sample = Sample(None, np.ones(4), Y_star, None, roles)
    return Run(sample, np.array([0]), np.eye(4)[picks][None], None, np.array(margins), 0.75, 0.5)


def test_figure_3_what_the_noisy_samples_of_a_run_end_in():
    run = run_of_figure_3([1, -1, -1, -1], picks=[0, 1, 2, 3], margins=[1.0, 2.0, 0.0, -1.0])
    train, test, picks, fitted = fig3.outcome(run)
    assert (train, test, picks.tolist(), fitted.tolist()) == (0.75, 0.5, [1, -1, IRRELEVANT], [True, False, False])
    assert fig3.shown_samples(run) == (0, 1, 2)
    assert fig3.what_happens(run, 0) == "clean, fitted, picks relevant"
    assert fig3.what_happens(run, 2) == "noisy, not fitted, picks weak"
    assert fig3.what_happens(run, 3) == "noisy, not fitted, picks irrelevant"


def test_figure_3_the_label_of_a_weak_token_is_the_samples_own():
    """With Y = -1, a token of W_{-1} is of the observed label."""
    run = run_of_figure_3([1, 1, 1, 1], picks=[2, 1, 0, 3], margins=[1.0] * 4)
    run = run._replace(sample=run.sample._replace(Y=-np.ones(4)))
    assert fig3.outcome(run).picks.tolist() == [1, -1, RELEVANT, IRRELEVANT]


def ratios(name, whole, half=None, **rest):
    """What grid.measure returns, with one ratio on two by two cells."""
    half = np.array([whole, whole]) if half is None else np.array(half)
    return dict(whole={name: np.array(whole)} | {k: np.array(v) for k, v in rest.items()}, half={name: half})


COUNT = dict(published_4=[[5.0, 6.0], [7.0, np.nan]], smaller_class=[[5, 6], [7, np.nan]])
PLACES = dict(published_6=[[1.0, 0.5], [2.0, np.nan]], places=[[1.0, 0.5], [2.0, np.nan]])
NORMS = dict(norms=[5, 10])


@pytest.mark.parametrize(
    "whole, half, expected",
    [
        ([[1.1, 2.0], [3.0, np.nan]], None, [True, True, True]),
        ([[1.1, 1.0], [3.0, 4.0]], None, [False, False, True]),
        ([[1.0, 2.0], [3.0, 4.0]], None, [False, False, False]),
        ([[1.1, 2.0], [3.0, 4.0]], [[[2.0, 2.0]], [[2.0, 0.9]]], [True, False, True]),
    ],
)
def test_figure_4_every_cell_of_each_scope_decides_and_the_weak_columns_alone(whole, half, expected):
    assert verdicts(fig4, ratios("eq_9", whole, half, **COUNT), **NORMS) == expected + [True]


def test_figure_4_says_up_to_which_norm():
    found = ratios("eq_9", [[1.1, 0.9], [3.0, 4.0]], **COUNT)
    whole, _, weak, _ = fig4.claims(found, fig4.SETTINGS | NORMS)
    assert whole["measured"] == "25.0% of 4 cells below 1, least 0.90, median 2.05"
    assert weak["measured"] == "for every d up to |mu| = 5"
    found = ratios("eq_9", [[1.0, 1.0], [3.0, 4.0]], **COUNT)
    assert fig4.claims(found, fig4.SETTINGS | NORMS)[0]["measured"].startswith("0.0% of 4 cells below 1")


@pytest.mark.parametrize("away, holds", [(0.049, True), (0.051, False)])
def test_figure_4_shows_a_count(away, holds):
    shown = dict(COUNT, published_4=[[5.0, 6.0 - away], [7.0, np.nan]])
    assert verdicts(fig4, ratios("eq_9", [[2.0, 2.0], [2.0, 2.0]], **shown), **NORMS)[3] is holds


@pytest.mark.parametrize("outside, holds", [(1, True), (2, False)])
@pytest.mark.parametrize("value", [0.49, 2.51])
def test_figure_6_nineteen_of_twenty_cells_are_enough(outside, holds, value):
    cells = np.where(np.arange(20) < outside, value, np.where(np.arange(20) % 2, 0.5, 2.5)).reshape(2, 10)
    norms = list(range(1, 11))
    assert verdicts(fig6, ratios("eq_10", cells, **PLACES), norms=norms) == [holds, holds, False, True]
    last = ratios("eq_10", cells[:, ::-1], **PLACES)
    assert fig6.claims(last, fig6.SETTINGS | dict(norms=norms))[2]["measured"].endswith(f"|mu| = {10 - outside}")


@pytest.mark.parametrize("factor, holds", [(1.049, True), (1.051, False), (1 / 1.049, True), (1 / 1.051, False)])
def test_figure_6_shows_places(factor, holds):
    shown = dict(PLACES, published_6=[[1.0, 0.5], [2.0 * factor, np.nan]])
    assert verdicts(fig6, ratios("eq_10", [[1.0, 1.0], [1.0, 1.0]], **shown), **NORMS)[3] is holds


def losses(train=(0.41, 0.54), test=(0.40, 0.64)):
    """Three rows by three norms: train grows along each row, test along each column."""
    train, test = np.linspace(*train, 9).reshape(3, 3), np.linspace(*test, 9).reshape(3, 3)
    return dict(train_loss=train, test_loss=test)


@pytest.mark.parametrize(
    "found, expected",
    [
        (losses(), [True] * 4),
        (losses(train=(0.429, 0.521), test=(0.419, 0.621)), [True] * 4),
        (losses(train=(0.431, 0.54)), [False, True, True, True]),
        (losses(train=(0.41, 0.561)), [False, True, True, True]),
        (losses(test=(0.379, 0.64)), [True, False, True, True]),
        (losses(test=(0.40, 0.661)), [True, False, True, True]),
        (losses(train=(0.54, 0.41)), [True, True, False, True]),
        (losses(test=(0.64, 0.40)), [True, True, True, False]),
    ],
)
def test_figure_5_each_end_of_each_range_and_both_trends(found, expected):
    assert verdicts(fig5, found, dimensions=[500, 1000, 1500]) == expected


def test_figure_5_d_1000_is_small_and_every_small_row_decides():
    found = losses()
    found["train_loss"][1] = found["train_loss"][1, ::-1]
    assert verdicts(fig5, found, dimensions=[500, 1000, 1500])[2] is False
    assert verdicts(fig5, found, dimensions=[500, 1001, 1500])[2] is True


def test_figure_5_without_a_small_d_or_a_third_cell_there_is_no_trend():
    assert verdicts(fig5, losses(), dimensions=[2000, 3000, 4000])[2:] == [None, True]
    two = {name: values[:2] for name, values in losses().items()}
    assert verdicts(fig5, two, dimensions=[500, 1000])[2:] == [True, None]


def flow_found(late=(1.0, 1.0), slope=0.001, predicted=0.001, fit_time=12.0, picked=400.0, wrong=0.45):
    """Two ratios, 10 and 100, and a wide run with each of 8 and 9 relevant tokens of 10."""
    times = np.array([5.0, 40.0, 80.0, 400.0, 800.0, 801.0])
    row = dict(slope=0.01, predicted=0.01, fit_time=5.0, attention=np.where(times >= 40, 0.6, 0.5))
    far = dict(slope=slope, predicted=predicted, fit_time=fit_time, attention=np.where(times >= picked, 0.6, 0.5))
    harmful = dict(wrong=np.array([0, 0, 0, 0.25, 0.3, wrong]), ratios={"Eq. 9": 0.1, "Eq. 10": 1.0, "Eq. 13": 2.0})
    wide = {1: [dict(late=list(late)), dict(late=[-1.0, -1.0])]}
    return dict(times=times, by_ratio={10: row, 100: far}, wide=wide, harmful=harmful)


def flow_claims(**change):
    """One wrong label of six: 1/6 against 1 - |R|/T = 0.2 and 0.1."""
    settings = attention_flow.SETTINGS | dict(wide_relevant=[8, 9])
    return attention_flow.claims(flow_found(**change), settings)


def test_flow_every_setting_and_both_classes_decide():
    assert [row["holds"] for row in flow_claims()] == [True] * 6
    assert [row["holds"] for row in flow_claims(late=(1.0, -1.0))] == [True] * 4 + [False, True]
    assert all(row["settings"] for row in flow_claims())


@pytest.mark.parametrize(
    "claim, good, bad",
    [
        (0, dict(fit_time=12.0), dict(fit_time=12.1)),
        (1, dict(slope=10**-2.91), dict(slope=10**-2.89)),  # over a decade: the exponents 0.91 and 0.89
        (1, dict(slope=10**-3.09), dict(slope=10**-3.11)),
        (1, dict(), dict(slope=-0.001)),
        (2, dict(predicted=0.001 / 1.0009), dict(predicted=0.001 / 1.0011)),
        (2, dict(predicted=0.001 / 0.9991), dict(predicted=0.001 / 0.9989)),
        (3, dict(picked=800.0), dict(picked=801.0)),  # 4 and 8 times the ratio
        (3, dict(picked=400.0), dict(picked=900.0)),  # never
        (5, dict(wrong=0.451), dict(wrong=0.449)),
        (5, dict(wrong=0.549), dict(wrong=0.551)),
    ],
)
def test_flow_on_both_sides_of_each_threshold(claim, good, bad):
    assert flow_claims(**good)[claim]["holds"] is True
    assert flow_claims(**bad)[claim]["holds"] is False


def test_flow_says_when_the_error_begins_and_which_conditions_fail():
    rows = flow_claims()
    assert rows[5]["measured"] == "0.45; above 0.25 from log t = 400 on"
    assert rows[3]["measured"] == "40 at 10, 400 at 100"
    assert "Fail at ratio 10: A'1 (0.12); 100: A'2 (0.88)" in rows[0]["settings"]
    assert "Eq. 9 0.1, Eq. 10 1, Eq. 13 2" in rows[5]["settings"]


def test_flow_one_ratio_has_no_exponent_and_no_wide_run_no_verdict():
    found = flow_found()
    found["by_ratio"].pop(100)
    found["wide"] = {}
    assert verdicts(attention_flow, found, wide_relevant=[]) == [True, None, True, True, None, True]


def regime_found(d=10**13, **change):
    limit = 0.1 / 12
    good = dict(signal=[1.0, 1.0], eq_9=1.0, eq_10=2.0, eq_11=5.0, most=[limit / 2, limit / 2])
    good |= dict(clean=True, noisy=True, fitted=True)
    return dict(by_d={d: [good, good | change]})


LIMIT = 0.1 / 12


@pytest.mark.parametrize(
    "claim, good, bad",
    [
        (0, dict(), dict(clean=False)),
        (1, dict(), dict(noisy=False)),
        (2, dict(), dict(fitted=False)),
        (3, dict(signal=[1.0, 1e-9]), dict(signal=[1.0, 0.0])),
        (4, dict(most=[LIMIT / 2, LIMIT]), dict(most=[LIMIT / 2, 2 * LIMIT])),
        (4, dict(most=[LIMIT, LIMIT / 2]), dict(most=[2 * LIMIT, LIMIT / 2])),
        (6, dict(eq_9=1.0), dict(eq_9=0.99)),
    ],
)
def test_regime_one_training_set_decides(claim, good, bad):
    assert verdicts(attention_regime, regime_found(**good)) == [True] * 7
    assert verdicts(attention_regime, regime_found(**bad)) == [k != claim for k in range(7)]


def test_regime_uniform_attention_fails_where_the_limit_is_below_its_error():
    """At d = 1e13 the error at p = 0 is exp(-2e9): only a delta of zero would be below."""
    found, settings = regime_found(), attention_regime.SETTINGS
    error = attention_regime.closed(found, settings)["p = 0"][0]
    for limit, holds in ((np.exp(-1.0), True), (0.0, False)):
        with np.errstate(divide="ignore"):
            row = attention_regime.uniform_is_enough(found, settings, 1e12, limit, "")
        assert row["holds"] is holds and f"{error:.2g}" in row["measured"]


def test_regime_outside_of_it_nothing_is_decided():
    assert verdicts(attention_regime, regime_found(d=10**6)) == [None] * 7


def test_regime_says_from_which_d_on_all_seeds_hold():
    """Its first d with all seeds, and none without after it; the smallest setting itself is inside."""
    start = round(attention_regime.regime_start(attention_regime.SETTINGS))
    by_d = {d: regime_found(d, clean=d in (10**3, 10**5, start))["by_d"][d] for d in (10**3, 10**4, 10**5, start)}
    rows = attention_regime.claims(dict(by_d=by_d), attention_regime.SETTINGS)
    assert rows[0]["measured"] == "1.00 of the seeds; all seeds from d = 1e+05 on" and rows[0]["holds"] is True
    assert rows[1]["measured"] == "1.00 of the seeds; all seeds from d = 1e+03 on"
    by_d[start] = regime_found(start, clean=False)["by_d"][start]
    row = attention_regime.claims(dict(by_d=by_d), attention_regime.SETTINGS)[0]
    assert row["measured"] == "0.50 of the seeds" and row["holds"] is False
    assert rows[5]["measured"].endswith("below delta/n from d = 1e+05 on")


def test_regime_says_which_labels_are_wrong_and_which_equations_are_met():
    rows = attention_regime.claims(regime_found(), attention_regime.SETTINGS)
    assert "Y* = +1" in rows[0]["settings"] and "Eq. 10 <= 2" in rows[3]["settings"]


def test_regime_a_run_that_is_never_fitted_has_no_fit_time():
    settings = attention_regime.SETTINGS | dict(fresh=10)
    fitted, unfitted = (attention_regime.cell(seed, 1000, settings) for seed in (0, 1))
    assert fitted["fitted"] and fitted["fit_time"] < 20 and not unfitted["fitted"] and unfitted["fit_time"] == np.inf
    assert fitted["eq_10"] >= 1 and all(a >= b for a, b in zip(fitted["most"], fitted["wrong"]))


def speed_found(**change):
    good = dict(bare=1.0, seconds={1: 8.0, 16: 3.0}, in_d={100: 10.0, 2000: 13.0}, plain=60.0)
    return good | dict(autograd={"(x W) p": 9.0, "x (W p)": 9.0, "W = I": 9.0}) | change


@pytest.mark.parametrize(
    "change, failing",
    [
        (dict(), []),
        (dict(seconds={1: 8.1, 16: 3.0}), [0]),
        (dict(seconds={1: 8.0, 16: 3.1}), [1]),
        (dict(in_d={100: 13.1, 2000: 10.0}), [2]),
        (dict(autograd={"(x W) p": 8.0, "x (W p)": 9.0, "W = I": 9.0}), [3]),
        (dict(autograd={"(x W) p": 9.0, "x (W p)": 7.0, "W = I": 8.0}), [4, 5]),
    ],
)
def test_speed_one_run_several_runs_any_d_and_each_form_of_autograd(change, failing):
    assert verdicts(attention_speed, speed_found(**change)) == [k not in failing for k in range(6)]


def test_speed_one_run_and_several_by_name():
    names = list(attention_speed.in_products(speed_found(bare=2.0)).items())
    assert names[:3] == [("Gram form, 1 run", 4.0), ("Gram form, 16 runs", 1.5), ("plain form in d dimensions", 30.0)]
    assert names[3] == ("PyTorch, (x W) p", 4.5)


def test_speed_without_pytorch_its_claims_are_open():
    rows = attention_speed.claims(speed_found(autograd={}), attention_speed.SETTINGS)
    assert [row["holds"] for row in rows] == [True] * 3 + [None] * 3
    assert rows[-1]["measured"] == "PyTorch is not installed"


def test_one_training_serves_figures_4_5_and_6(monkeypatch):
    """The second seed's half is trained besides, once for both; the verdicts see the first seed's half first."""
    trained, sweep = [], grid.sweep
    monkeypatch.setattr(grid, "_trained", {})
    monkeypatch.setattr(grid, "sweep", lambda *arguments: trained.append(arguments[1]) or sweep(*arguments))
    tiny = TINY["attention-fig4"]
    four, six = (module.measure(tiny, 0, 1, print) for module in (fig4, fig6))
    five = fig5.measure(tiny | dict(test_samples=grid.TEST_SAMPLES), 0, 1, print)
    assert [len(cells) for cells in trained] == [4, 2]
    assert five is four["whole"] is six["whole"]
    np.testing.assert_array_equal(four["half"]["eq_9"][0], four["whole"]["eq_9"][1::2, 1::2])
    assert four["half"]["eq_9"].shape == (2, 2, 2) and not np.any(four["half"]["eq_9"][0] == four["half"]["eq_9"][1])


@pytest.mark.parametrize(
    "module, name, value",
    [
        (fig1, "betas", [1.0, 2.0]),
        (fig3, "cases", [[30, 8.0]]),
        (fig4, "dimensions", [20]),
        (fig6, "norms", [3.0]),
        (attention_flow, "n", 7),
        (attention_flow, "ratios", []),
        (attention_flow, "end", 25),
        (attention_flow, "relevant", 3),
        (attention_flow, "wide_relevant", [2, 9]),
        (attention_flow, "harmful_relevant", 9),
        (attention_flow, "wrong", 0),
        (attention_flow, "wide_wrong", [1, 6]),
        (attention_flow, "harmful_wrong", 6),
        (attention_regime, "n", 11),
        (attention_regime, "flips", [1]),
        (attention_regime, "flips", [1, 0]),
        (attention_regime, "late", 1000),
        (attention_speed, "together", [16, 32]),
    ],
)
def test_a_setting_without_a_figure_is_refused_by_name_before_anything_runs(module, name, value):
    with pytest.raises(ValueError, match=f"^{name}: "):
        module.measure(module.SETTINGS | {name: value}, 0, 1, None)
