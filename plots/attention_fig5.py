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
    return fig, claims(whole), numbers


def claims(whole):
    train, test = whole["train_loss"], whole["test_loss"]
    with_norm = np.median([stats.spearmanr(range(len(row)), row).statistic for row in train])
    with_d = stats.spearmanr(range(len(test)), test[:, 0]).statistic
    unfitted, poor = whole["train_accuracy"] < 1, whole["test_accuracy"] < 0.99
    i, j = np.unravel_index(np.argmin(np.maximum(train, test)), train.shape)
    rows = [
        claim(
            "train loss on the grid",
            "0.41 to 0.54",
            f"{train.min():.2f} to {train.max():.2f}",
            "within 0.02 at both ends",
            abs(train.min() - 0.41) <= 0.02 and abs(train.max() - 0.54) <= 0.02,
        ),
        claim(
            "test loss on the grid",
            "0.40 to 0.64",
            f"{test.min():.2f} to {test.max():.2f}",
            "within 0.02 at both ends",
            abs(test.min() - 0.40) <= 0.02 and abs(test.max() - 0.64) <= 0.02,
        ),
        claim(
            "a strong signal at a small d keeps the train loss high",
            "the balance matters",
            f"median rank correlation of train loss with |mu|: {with_norm:.2f}",
            "> 0",
            with_norm > 0,
        ),
        claim(
            "a large d at a weak signal keeps the test loss high",
            "the balance matters",
            f"rank correlation of test loss with d at the smallest |mu|: {with_d:.2f}",
            "> 0",
            with_d > 0,
        ),
        claim(
            "both losses are low only in between",
            "the balance matters",
            f"train accuracy below 1 in {unfitted.sum()} cells, test accuracy below 0.99 in {poor.sum()}, "
            f"both in {np.sum(unfitted & poor)}, of {poor.size}",
            "the first two occur, in disjoint cells",
            unfitted.any() and poor.any() and not np.any(unfitted & poor),
        ),
    ]
    return rows
