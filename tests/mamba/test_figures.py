"""The figures of this paper's core, very small: drawn without a display or a warning, with claims in their JSON."""

import importlib
import json

import numpy as np
import pytest

from plots import report, style
from refimpl.checks import Diverged

TINY = {
    "mamba_fig2": {"seeds": 2, "prompts": 30, "steps_mamba": 20, "steps_linear": 20, "alphas": [0.0, 0.6, 0.8]},
    "mamba_attention": {"seeds": 2, "prompts": 20, "steps": 30, "points": 4},
    "mamba_gate": {"seeds": 1, "prompts": 50, "steps": 30},
    "mamba_bounds": {"seeds": 1, "prompts": 50, "steps": [20, 10]},
    "mamba_tasks": {"seeds": 2, "prompts": 20, "steps_mamba": 20, "steps_linear": 20, "M1": [4, 5]},
    "mamba_speed": {
        "B": 4,
        "rounds": 2,
        "calls": 1,
        "sgd_steps": 12,
        "rounds_long": 2,
        "lengths": [10, 1000, 2000],
        "dimensions": [20, 30],
    },
}


@pytest.mark.parametrize("name", TINY)
def test_figure_is_drawn(name, tmp_path):  # cases I1, I3: no display, no warning (warnings are errors here)
    script = importlib.import_module(f"plots.{name}")
    assert set(script.QUICK) <= set(script.SETTINGS)
    settings, lines = {**script.SETTINGS, **TINY[name]}, []
    with style.defaults():
        figure, claims, numbers = script.draw(settings, 0, 1, lines.append)
        picture = style.png(figure)
    assert 3_000 < len(picture) <= 80_000 and lines
    report.save_json(tmp_path, name, script, settings, 0, True, claims, numbers, 1.0)
    saved = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    assert saved["claims"] and all(c["holds"] in (True, False, None) for c in saved["claims"])
    assert (tmp_path / f"{name}.json").read_text(encoding="utf-8").isascii()


def test_a_training_that_does_not_arrive_is_no_number(monkeypatch):
    script = importlib.import_module("plots.mamba_scaling")
    monkeypatch.setattr(script, "sweep", lambda function, cells, *rest: [10] * (len(cells) - 1) + [script.MOST])
    with pytest.raises(ValueError, match="l_tr.*not reached in 20000 steps"):
        script.draw({**script.SETTINGS, **script.QUICK}, 0, 1, print)


def test_same_seed_same_claims_whatever_the_jobs():  # cases E1, F1
    script = importlib.import_module("plots.mamba_attention")
    settings = {**script.SETTINGS, **TINY["mamba_attention"]}
    one, two = (script.draw(settings, 3, jobs, print)[1:] for jobs in (1, 2))
    assert one[0] == two[0] and all(np.array_equal(one[1][key], two[1][key]) for key in one[1])


def test_divergence_is_failed_work():  # case G10: exit 1 and one line, by refimpl.commands.run
    script = importlib.import_module("plots.mamba_gate")
    with pytest.raises(Diverged, match="diverged at step"):
        script.draw({**script.SETTINGS, **TINY["mamba_gate"], "eta": 1e200}, 0, 1, print)
