"""Corollary 1 in one layer: the attention on same- and other-pattern examples through training."""

import numpy as np

from plots import sizes, style
from plots.mamba import counter, curve, deviation, look, seeds
from plots.report import claim
from refimpl.mamba.experiments import by_distance, through_training
from refimpl.mamba.setting import Setting
from refimpl.sweep import complete, sweep

TITLE = "Corollary 1: attention mass through training, one layer (Figure 3 shows three)"
CAPTION = (
    "The attention on examples with the query's pattern grows in training, as the corollary says; the attention on "
    "the others does not stay small but grows below zero (a), and its sign changes with the distance (b)."
)
STATEMENTS = ["mamba Corollary 1"]
SETTINGS = {
    "p_a": 0.4,
    "eta": 0.3,
    "B": 128,
    "steps": 3160,
    "points": 40,
    "seeds": 5,
    "prompts": 1000,
    "M1": 6,
    "by distance: p_a": 0.6,
    "by distance: eta": 1.0,
}
QUICK = {"steps": 1000, "seeds": 2}
SMALL = 0.1  # attention, in size


def steps_shown(settings):
    return np.unique(np.round(np.geomspace(1, settings["steps"] + 1, settings["points"])).astype(int) - 1)


def measure(settings, seed, jobs, progress):
    """mass : (seeds, steps shown, 2), of the same and of the other pattern.  attention : by distance 0, 1, ..."""
    setting, steps, prompts = sizes(Setting, settings), settings["steps"], settings["prompts"]
    chosen = seeds(seed, settings)
    cells = [(s, setting, steps, steps_shown(settings).tolist(), prompts) for s in chosen]
    mass = complete(sweep(through_training, cells, jobs, counter(progress, "trainings")))
    setting = setting._replace(p_a=settings["by distance: p_a"])
    etas = (settings["by distance: eta"], 0.01)  # the linear Transformer's one step is not looked at
    attention = by_distance(chosen[0], setting, (0.0,), prompts, (steps, 1), etas)[1][:, 0]
    return {"mass": np.array(mass), "attention": attention}


def numbers(found, settings):
    same, different = found["mass"].mean(axis=0).T
    sd = deviation(found["mass"]).T
    rows = {"step": steps_shown(settings), "same": same, "different": different, "sd": sd}
    return rows | {"by distance": found["attention"]}


def claims(found, settings):
    mass, others = found["mass"], found["attention"][1:]
    (same, different), gap = mass.mean(axis=0).T, mass[:, :, 0] - mass[:, :, 1]
    end = f"after {settings['steps']} steps, tasks of the training cycle"
    return [
        claim(
            "The mass on the query's pattern becomes larger than a constant",
            paper=">= Theta(1)",
            measured=f"{same[-1]:.1f}",
            threshold=">= 1 in every seed",
            holds=np.all(mass[:, -1, 0] >= 1),
            settings=end,
        ),
        claim(
            "The mass on the query's pattern is larger than that on other patterns, and the gap grows",
            paper="increases during training",
            measured=f"gap {same[0] - different[0]:.1f} at the start, {same[-1] - different[-1]:.1f} at the end",
            threshold="gap at the end > at the start > 0 in every seed",
            holds=np.all((gap[:, -1] > gap[:, 0]) & (gap[:, 0] > 0)),
            settings=end,
        ),
        claim(
            "The mass on other patterns stays below a small bound",
            paper="<= Theta(epsilon / (1 - p_a))",
            measured=f"{different[-1]:.1f}, below the bound by its sign, not by its size (next row)",
            threshold=f"<= {SMALL} in every seed (one-sided, as printed)",
            holds=np.all(mass[:, -1, 1] <= SMALL),
            settings=end,
        ),
        claim(
            "Other patterns get little attention of either sign",
            paper="|p_i^T W_B^T W_C p_query| <~ epsilon (Section 10.2)",
            measured=f"mass {different[-1]:.1f}",
            threshold=f"size <= {SMALL} in every seed",
            holds=np.all(np.abs(mass[:, -1, 1]) <= SMALL),
            settings=end,
        ),
        claim(
            "Other patterns get no more than little attention on every task of T",
            paper="f in T (Definition 2)",
            measured="by distance on the cycle 1, 2, ...: " + ", ".join(f"{x:.2f}" for x in others),
            threshold=f"each <= {SMALL}",
            holds=np.all(others <= SMALL),
            settings=f"trained on the cycle with p_a = {settings['by distance: p_a']:g}, "
            f"eta = {settings['by distance: eta']:g}, one seed",
        ),
    ]


def picture(found, settings):
    figure, axes = style.figure(9, 4, 1, 2, width_ratios=(1.5, 1))
    left, right = axes
    for side, label in enumerate(("examples with the query's pattern", "examples with the other pattern")):
        curve(left, steps_shown(settings) + 1, found["mass"][:, :, side], label=label, **look(2 * side))
    left.axhline(0, color="black", lw=0.7)
    left.set(xscale="log", xlabel="SGD step + 1", ylabel="sum of attention over the prompt")
    left.set_title(f"training tasks, mean and 1 sd of {len(found['mass'])} seeds", fontsize=9)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=2, fontsize=8)
    distance, colours = range(len(found["attention"])), [style.COLOURS[0]] + [style.COLOURS[2]] * 100
    right.bar(distance, found["attention"], color=colours[: len(distance)])
    right.axhline(0, color="black", lw=0.7)
    right.set_xticks(distance, ["0: the same"] + [str(k) for k in distance[1:]])
    right.set(xlabel="distance of two patterns on the training cycle", ylabel="attention between two clean patterns")
    right.set_title("after training on the cycle, one seed", fontsize=9)
    style.letters(axes)
    return figure
