"""Figure 6: the class balance of Eq. 10 from Definition 4.1, and beside it what the published figure shows."""

import numpy as np

from plots import grid
from plots.report import claim

TITLE = "Eq. 10: scaled ratio of the classes"
CAPTION = (
    "Eq. 10's ratio of the classes, each sum per clean sample: (a) from Definition 4.1, (b) what the authors' public"
    " code shows, mean places in the sample. Triangles mark the cells outside of the published 0.5 to 2.5: about a"
    " quarter of (a), at strong signals."
)
STATEMENTS = ["attention Figure 6", "attention Eq. 10"]
SETTINGS, QUICK = grid.RATIOS, grid.QUICK

LOW, HIGH = 0.5, 2.5  # as published

measure = grid.measure


def numbers(found, settings):
    return grid.numbers(found, "eq_10", "published_6")


def claims(found, settings):
    ratio = found["whole"]["eq_10"]
    rows = [stays_inside(cells, where) for cells, where in grid.by_scope(found, "eq_10")]
    text = "The scaled ratio of Eq. 10 stays in 0.5 to 2.5 where the signal is weak"
    rows.append(grid.weak_signal(text, inside(ratio) | np.isnan(ratio), settings["norms"]))
    rows.append(shows_places(found["whole"]))
    return rows


def inside(ratio):
    return (ratio >= LOW) & (ratio <= HIGH)


def stays_inside(cells, where):
    share = np.mean(inside(cells))
    return claim(
        "The scaled ratio of Eq. 10 stays in 0.5 to 2.5",
        paper="0.5 to 2.5",
        measured=f"{cells.min():.3g} to {cells.max():.3g}; {share:.1%} of {cells.size} cells inside",
        threshold="at least 95 % of the cells inside",
        holds=share >= 0.95,
        settings=where,
    )


def shows_places(whole):
    published = whole["published_6"]
    off, cells = np.nanmax(np.abs(np.log(published / whole["places"]))), published[np.isfinite(published)]
    return claim(
        "The published figure, by the authors' public code, shows mean places in the sample, class -1 over +1",
        paper="0.5 to 2.5",
        measured=f"{cells.min():.2f} to {cells.max():.2f}; within {np.expm1(off):.1%} of the places' ratio",
        threshold="< 5 % in every cell",
        holds=off < np.log(1.05),
        settings="one seed, the whole grid",
    )


def picture(found, settings):
    whole, classes = found["whole"], "class $+1$ over class $-1$, log scale"
    maps = [
        (whole["eq_10"], "Eq. 10 from Definition 4.1, per clean sample\n(triangle: below 0.5 or above 2.5)", classes),
        (whole["published_6"], "what the published figure shows:\nplaces in the sample", "ratio, log scale"),
    ]
    return grid.pair_of_maps(settings, maps, LOW, HIGH)
