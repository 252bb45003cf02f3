"""Figure 5: train and test loss over dimension and signal norm."""

import numpy as np
from scipy import stats

from plots import grid
from plots.report import claim
from plots.style import figure, heatmap, letters

TITLE = "Train and test loss over dimension and signal norm"
CAPTION = (
    "Train loss (a) and test loss (b) at the end of training, in one range of colours. The train loss grows with the"
    " signal where d is small, the test loss with d where the signal is weak."
)
STATEMENTS = ["attention Figure 5"]
SETTINGS, QUICK = grid.TRAINING | dict(test_samples=grid.TEST_SAMPLES), grid.QUICK

PUBLISHED = {"train": (0.41, 0.54), "test": (0.40, 0.64)}  # the least and the largest on the colour bars
SMALL = 1000  # the d up to which it is small


def measure(settings, seed, jobs, progress):
    return grid.trained(settings, seed, jobs, progress)


def numbers(found, settings):
    return {name: found[name] for name in ("train_loss", "test_loss", "train_accuracy", "test_accuracy")}


def claims(found, settings):
    rows = [has_the_range(name, found[f"{name}_loss"]) for name in PUBLISHED]
    small = np.asarray(settings["dimensions"]) <= SMALL
    with_norm = min(map(trend, found["train_loss"][small]), default=np.nan)
    text = "At a small d the train loss grows with the signal"
    rows.append(grows(text, with_norm, " or more in each row", f"d <= {SMALL}, one seed"))
    text, with_d = "At a weak signal the test loss grows with d", trend(found["test_loss"][:, 0])
    rows.append(grows(text, with_d, "", "the smallest |mu|, one seed"))
    return rows


def has_the_range(name, loss):
    low, high = PUBLISHED[name]
    return claim(
        f"The {name} loss on the grid has the published range",
        paper=f"{low:.2f} to {high:.2f}",
        measured=f"{loss.min():.2f} to {loss.max():.2f}",
        threshold="within 0.02 at both ends",
        holds=abs(loss.min() - low) <= 0.02 and abs(loss.max() - high) <= 0.02,
        settings="one seed",
    )


def trend(values):
    """The rank correlation of the values with their order; not-a-number for fewer than three."""
    return stats.spearmanr(range(len(values)), values).statistic if len(values) > 2 else np.nan


def grows(text, correlation, note, where):
    return claim(
        text,
        paper="the balance is significant",
        measured=f"rank correlation {correlation:.2f}{note}",
        threshold="> 0",
        holds=None if np.isnan(correlation) else correlation > 0,
        settings=where,
    )


def picture(found, settings):
    fig, axes = figure(9.5, 4, 1, 2)
    losses = {name: found[f"{name}_loss"] for name in PUBLISHED}
    low, high = min(loss.min() for loss in losses.values()), max(loss.max() for loss in losses.values())
    for axis, (name, loss) in zip(axes, losses.items()):
        heatmap(axis, settings["norms"], settings["dimensions"], loss, f"{name} loss", low=low, high=high)
        title = f"{name} loss after {settings['steps']} steps: {loss.min():.2f} to {loss.max():.2f}"
        grid.axes_labels(axis, title)
    letters(axes)
    return fig
