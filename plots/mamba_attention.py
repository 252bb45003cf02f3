"""Corollary 1 in one layer: the attention on same- and other-pattern examples through training."""

import numpy as np

from plots import style
from plots.report import claim
from refimpl.mamba.experiments import by_distance, through_training
from refimpl.sweep import complete, sweep

TITLE = "Corollary 1: attention mass through training, one layer (Figure 3 shows three)"
STATEMENTS = ["mamba Corollary 1"]
SETTINGS = {"p_a": 0.4, "eta": 0.3, "B": 128, "steps": 3160, "points": 40, "seeds": 5, "prompts": 1000, "M1": 6}
QUICK = {"steps": 1000, "seeds": 2}


def draw(settings, seed, jobs, progress):
    steps = settings["steps"]
    at = np.unique(np.round(np.geomspace(1, steps + 1, settings["points"])).astype(int) - 1)
    seeds = np.random.SeedSequence(seed).generate_state(settings["seeds"]).tolist()
    cells = [(s, settings["p_a"], settings["eta"], steps, at.tolist(), settings["prompts"]) for s in seeds]
    mass = np.array(
        complete(sweep(through_training, cells, jobs, lambda done, of: progress(f"{done} of {of} trainings")))
    )
    attention = by_distance(seeds[0], settings["M1"], (0.0,), settings["prompts"], (steps, 1))[1][:, 0]
    same, different = mass.mean(axis=0).T
    gap = mass[:, :, 0] - mass[:, :, 1]

    figure, (left, right) = style.figure(9, 3.6, 1, 2, width_ratios=(1.5, 1))
    for k, (side, label) in enumerate(
        ((0, "examples with the query's pattern"), (1, "examples with the other pattern"))
    ):
        look = dict(color=style.COLOURS[2 * k], marker=style.MARKERS[k], ls=style.DASHES[k], ms=3.5, lw=1.2, capsize=2)
        left.errorbar(at + 1, mass[:, :, side].mean(0), mass[:, :, side].std(0, ddof=1), label=label, **look)
    left.axhline(0, color="black", lw=0.7)
    left.set_xscale("log")
    left.set_xlabel("SGD step + 1")
    left.set_ylabel("sum of attention over the prompt")
    left.set_title(f"training tasks, mean over {len(seeds)} seeds and 1 sd", fontsize=9)
    left.legend(fontsize=8)
    right.bar(range(len(attention)), attention, color=[style.COLOURS[0]] + [style.COLOURS[2]] * (len(attention) - 1))
    right.axhline(0, color="black", lw=0.7)
    right.set_xticks(range(len(attention)))
    right.set_xlabel("distance of two patterns on the training cycle")
    right.set_ylabel("attention between two clean patterns")
    right.set_title("after training on the cycle, one seed", fontsize=9)

    end = f"after {steps} steps, tasks of the training cycle"
    claims = [
        claim(
            "The mass on the query's pattern becomes larger than a constant",
            ">= Theta(1)",
            f"{same[-1]:.1f}",
            ">= 1 in every seed",
            np.all(mass[:, -1, 0] >= 1),
            end,
        ),
        claim(
            "It is larger than the mass on other patterns, and the gap grows",
            "increases during training",
            f"gap {same[0] - different[0]:.1f} at the start, {same[-1] - different[-1]:.1f} at the end",
            "gap at the end > at the start > 0 in every seed",
            np.all((gap[:, -1] > gap[:, 0]) & (gap[:, 0] > 0)),
            end,
        ),
        claim(
            "The mass on other patterns stays below a small bound",
            "<= Theta(epsilon / (1 - p_a))",
            f"{different[-1]:.1f}, below the bound by its sign, not by its size (next row)",
            "<= 0.1 in every seed (one-sided, as printed)",
            np.all(mass[:, -1, 1] <= 0.1),
            end,
        ),
        claim(
            "Other patterns get little attention of either sign",
            "|p_i^T W_B^T W_C p_query| <~ epsilon (Section 10.2)",
            f"mass {different[-1]:.1f}",
            "size <= 0.1 in every seed",
            np.all(np.abs(mass[:, -1, 1]) <= 0.1),
            end,
        ),
        claim(
            "Other patterns get no more than little attention on every task of T",
            "f in T (Definition 2)",
            "by distance on the cycle 1, 2, ...: " + ", ".join(f"{x:.2f}" for x in attention[1:]),
            "each <= 0.1",
            np.all(attention[1:] <= 0.1),
            "trained on the cycle with p_a = 0.6, eta = 1, one seed",
        ),
    ]
    numbers = {
        "step": at,
        "same": same,
        "different": different,
        "sd": mass.std(axis=0, ddof=1).T,
        "by distance": attention,
    }
    return figure, claims, numbers
