"""Figure 6: the class balance of Eq. 10 from Definition 4.1, and beside it what the published figure shows."""

import numpy as np

from plots import grid
from plots.report import claim
from plots.style import figure, heatmap

TITLE = "Eq. 10: scaled ratio of the classes"
STATEMENTS = ["attention Figure 6", "attention Eq. 10"]
SETTINGS, QUICK = grid.SETTINGS, grid.QUICK


def draw(settings, seed, jobs, progress):
    whole, half = grid.runs(settings, seed, jobs, progress)
    norms, dimensions = settings["norms"], settings["dimensions"]
    ratio, published = whole["eq_10"], whole["published_6"]
    fig, axes = figure(9.5, 4, 1, 2)
    heatmap(axes[0], norms, dimensions, np.log2(ratio), r"$\log_2$ of class $+1$ over class $-1$", centre=0)
    grid.axes_labels(axes[0], "Eq. 10 from Definition 4.1, each sum per clean sample")
    heatmap(axes[1], norms, dimensions, np.log2(published), r"$\log_2$ of the ratio", low=-2, high=2)
    grid.axes_labels(axes[1], "what the published figure shows: places")
    return (
        fig,
        claims(ratio, published, half["eq_10"], norms, whole["places"]),
        dict(eq_10=ratio, published=published, seeds=half["eq_10"]),
    )


def claims(ratio, published, seeds, norms, places):
    rows = []
    for cells, settings in grid.by_scope(ratio, seeds):
        inside = np.mean((cells >= 0.5) & (cells <= 2.5))
        text = f"{cells.min():.3g} to {cells.max():.3g}; {inside:.1%} of {cells.size} cells inside"
        rows.append(
            claim(
                "the scaled ratio of Eq. 10 stays in 0.5 to 2.5",
                "0.5 to 2.5",
                text,
                "at least 95 % of the cells inside",
                inside >= 0.95,
                settings,
            )
        )
    inside = (ratio >= 0.5) & (ratio <= 2.5) | np.isnan(ratio)
    rows.append(grid.weak_signal("it stays there where the signal is weak", inside, norms))
    off, cells = np.nanmax(np.abs(np.log(published / places))), published[np.isfinite(published)]
    rows.append(
        claim(
            "the published figure, by the authors' public code, shows mean places in the sample, class -1 over +1",
            "0.5 to 2.5",
            f"{cells.min():.2f} to {cells.max():.2f}; within {np.expm1(off):.1%} of the places' ratio",
            "< 5 % in every cell",
            off < np.log(1.05),
            "one seed, the whole grid",
        )
    )
    return rows
