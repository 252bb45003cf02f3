"""Figure 1: the token that each sample selects, in the plane of the two signals, for three amounts of noise in p."""

import numpy as np

from plots.report import claim
from plots.style import COLOURS, figure
from refimpl.attention.experiments import figure_1

TITLE = "Selected tokens: benign, harmful, no overfitting"
STATEMENTS = ["attention Figure 1", "attention Theorem 4.1"]
SETTINGS = dict(n=100, d=10_000, norm=20.0, betas=[0.06, 1.0, 0.001])
QUICK = {}

CASES = ("benign overfitting", "harmful overfitting", "no overfitting")
# (train, test) accuracy as published, two decimals
PUBLISHED = ((1.00, 1.00), (1.00, 0.58), (0.80, 1.00))


def draw(settings, seed, jobs, progress):
    sizes = {name: settings[name] for name in ("n", "d", "norm")}
    train, test, results = figure_1(seed, settings["betas"], **sizes)
    alone = figure_1(seed, settings["betas"], **sizes, clean_noise=False)[2]
    fig, axes = figure(9, 6, 2, 3, sharex=True, sharey=True)
    for column, (beta, case, by_split) in enumerate(zip(settings["betas"], CASES, results)):
        for row, (name, sample) in enumerate((("train", train), ("test", test))):
            points, accuracy = by_split[name]
            scatter(axes[row, column], points, sample, settings["norm"])
            axes[row, column].set_title(
                f"{name}: {case}, accuracy {accuracy:.2f}" if row == 0 else f"test: accuracy {accuracy:.2f}", fontsize=9
            )
        axes[0, column].annotate(rf"$\beta = {beta:g}$", (0.03, 0.05), xycoords="axes fraction")
    fig.supxlabel(r"selected token along $\mu_{+1}/\|\mu\|$")
    fig.supylabel(r"selected token along $\mu_{-1}/\|\mu\|$")
    axes[0, 0].legend(loc="upper right", fontsize=7)
    accuracies = [[by_split[name][1] for name in ("train", "test")] for by_split in results]
    alone = [[by_split[name][1] for name in ("train", "test")] for by_split in alone]
    return fig, claims(settings["betas"], accuracies, alone), dict(accuracies=accuracies, noisy_samples_alone=alone)


def scatter(axes, points, sample, norm):
    span = np.array([-0.45, 1.35]) * norm
    axes.fill_between(span, span, span[0], color="#eeeeee", zorder=0)
    for label, name, marker, colour in ((1, "$Y = +1$", "o", COLOURS[0]), (-1, "$Y = -1$", "^", COLOURS[2])):
        for noisy in (False, True):
            chosen = (sample.Y == label) & ((sample.Y != sample.Y_star) == noisy)
            face = "none" if noisy else colour
            if chosen.any():
                text = f"{name}, label {'flipped' if noisy else 'clean'}"
                axes.scatter(
                    *points[chosen].T, s=22, marker=marker, facecolors=face, edgecolors=colour, linewidths=1, label=text
                )
    axes.plot(span, span, color="#444444", linewidth=1)
    axes.set(xlim=span, ylim=span, aspect="equal")


def claims(betas, accuracies, alone):
    rows = []
    for beta, case, ours, published in zip(betas, CASES, accuracies, PUBLISHED):
        decided = {
            "benign overfitting": ours[0] == 1 and ours[1] >= 0.99,
            "harmful overfitting": ours[0] == 1 and ours[1] < 0.75,
            "no overfitting": abs(ours[0] - 0.8) < 1e-9 and ours[1] >= 0.99,
        }[case]
        threshold = {
            "benign overfitting": "train 1, test >= 0.99",
            "harmful overfitting": "train 1, test < 0.75",
            "no overfitting": "train 0.80 (the clean samples alone), test >= 0.99",
        }[case]
        rows.append(
            claim(
                f"{case}: (train, test) accuracy of the selected token",
                str(published),
                str(tuple(ours)),
                threshold,
                decided,
                f"beta = {beta:g}, noise of all samples in p",
            )
        )
    for beta, case, ours in zip(betas, CASES, alone):
        if case == "benign overfitting":
            rows.append(
                claim(
                    "the p of Theorem 4.1 (noise of the noisy samples alone) is benign",
                    "benign",
                    str(tuple(ours)),
                    "train 1, test >= 0.99",
                    ours[0] == 1 and ours[1] >= 0.99,
                    f"beta = {beta:g}",
                )
            )
    return rows
