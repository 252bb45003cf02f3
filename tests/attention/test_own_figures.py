"""What attention-flow and attention-regime claim, from rows that are made up: no setting is passed over."""

import numpy as np
import pytest

from plots import attention_flow, attention_regime


def test_the_slacks_by_hand():
    """n = 12, T = 4, d = 1e12, ratio 10: Tr / (C T^2 n |mu|^2) = 10 / (5 * 16); 2 of 6 wrong: eta = 1/3 against 1/5."""
    slack = attention_flow.slacks(12, 4, 10**12, 10, 2, 5, 0.1)
    assert slack["A'1"] == pytest.approx(10 / 80) and slack["A6"] == pytest.approx(3 / 5)
    assert attention_flow.failing(slack) == "A'1 (0.12), A6 (0.6)"
    assert attention_flow.failing({"A5": 1.0}) == "none"


def flow_claims(late):
    """Two shares of relevant tokens at T = 10, one wrong label of six: 1/6 against 1 - |R|/T = 0.2 and 0.1."""
    row = dict(slope=0.01, predicted=0.01)
    by_ratio = {10: row, 100: row | dict(slope=0.001, predicted=0.001)}
    harmful = dict(wrong=[0.5], ratios={"Eq. 9": 0.1, "Eq. 10": 1.0, "Eq. 13": 2.0})
    numbers = dict(fit_time={10: 5.0}, picked_at={10: 40.0, 100: 400.0}, slack={10: {}}, slack_wide={1: {}})
    numbers["harmful_from"] = 1.0
    settings = dict(attention_flow.SETTINGS, shares=[10, 8, 9])
    wide = {1: [dict(late=late), dict(late=[-1.0, -1.0])]}
    return attention_flow.claims(by_ratio, wide, harmful, [8, 9], numbers, settings)


def test_every_setting_and_both_classes_decide():
    assert [row["holds"] for row in flow_claims([1.0, 1.0])] == [True] * 6
    assert [row["holds"] for row in flow_claims([1.0, -1.0])] == [True] * 4 + [False, True]
    assert all(row["settings"] for row in flow_claims([1.0, 1.0]))


def test_one_training_set_with_a_large_error_decides():
    settings, d, limit = dict(attention_regime.SETTINGS, seeds=2), 10**13, 0.1 / 12
    good = dict(signal=[1.0, 1.0], eq_9=0.1, eq_10=2.0, eq_11=5.0, most=[limit / 2, limit / 2])
    shares, closed = {name: [1.0] for name in ("clean", "noisy", "fitted")}, {"p = 0": [-100.0]}
    for most, holds in ((limit / 2, True), (2 * limit, False)):
        by_d = {d: [good, good | dict(most=[limit / 2, most])]}
        rows = attention_regime.claims([d], by_d, shares, closed, 1e12, settings)
        assert rows[4]["holds"] == holds and rows[-1]["holds"] is False
        assert "Y* = +1" in rows[0]["settings"] and "Eq. 10 <= 2" in rows[3]["settings"]


def test_a_run_that_is_never_fitted_has_no_fit_time():
    fitted, unfitted = (attention_regime.cell(seed, 1000, 12, 4, 5, 0.1, [1, 1], 10_000, 10) for seed in (0, 1))
    assert fitted["fitted"] and fitted["fit_time"] < 20 and not unfitted["fitted"] and unfitted["fit_time"] == np.inf
    assert fitted["eq_10"] >= 1 and all(a >= b for a, b in zip(fitted["most"], fitted["wrong"]))
