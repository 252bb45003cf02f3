"""Figure 5: train and test loss over dimension and signal norm."""

import numpy as np
from scipy import stats

from plots import grid
from plots.report import claim
from plots.style import figure, heatmap

TITLE = "Train and test loss over dimension and signal norm"
STATEMENTS = ["attention Figure 5"]
SETTINGS, QUICK = grid.SETTINGS, grid.QUICK


def draw(settings, seed, jobs, progress):
    whole, _ = grid.runs(settings, seed, jobs, progress)
    train, test = whole["train_loss"], whole["test_loss"]
    fig, axes = figure(9.5, 4, 1, 2)
    for axis, values, name in ((axes[0], train, "train"), (axes[1], test, "test")):
        heatmap(axis, settings["norms"], settings["dimensions"], values, f"{name} loss")
        grid.axes_labels(axis, f"{name} loss after {settings['steps']} steps")
    numbers = {name: whole[name] for name in ("train_loss", "test_loss", "train_accuracy", "test_accuracy")}
    return fig, claims(whole, settings["dimensions"]), numbers


def claims(whole, dimensions):
    train, test = whole["train_loss"], whole["test_loss"]
    small = np.asarray(dimensions) <= 1000
    with_norm = [stats.spearmanr(range(len(row)), row).statistic for row in train[small]]
    with_d = stats.spearmanr(range(len(test)), test[:, 0]).statistic
    rows = [
        claim(
            "train loss on the grid",
            "0.41 to 0.54",
            f"{train.min():.2f} to {train.max():.2f}",
            "within 0.02 at both ends",
            abs(train.min() - 0.41) <= 0.02 and abs(train.max() - 0.54) <= 0.02,
            "one seed",
        ),
        claim(
            "test loss on the grid",
            "0.40 to 0.64",
            f"{test.min():.2f} to {test.max():.2f}",
            "within 0.02 at both ends",
            abs(test.min() - 0.40) <= 0.02 and abs(test.max() - 0.64) <= 0.02,
            "one seed",
        ),
        claim(
            "at a small d the train loss grows with the signal",
            "the balance is significant",
            f"rank correlation {min(with_norm):.2f} or more in each row",
            "> 0",
            min(with_norm) > 0,
            "d <= 1000, one seed",
        ),
        claim(
            "at a weak signal the test loss grows with d",
            "the balance is significant",
            f"rank correlation {with_d:.2f}",
            "> 0",
            with_d > 0,
            "the smallest |mu|, one seed",
        ),
    ]
    return rows
