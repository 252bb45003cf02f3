"""Figure 4: Eq. 9's ratio from Definition 4.1, and beside it what the published figure shows."""

import numpy as np

from plots import grid
from plots.report import claim

TITLE = "Eq. 9: left side over right side"
CAPTION = (
    "Eq. 9's ratio for the smaller class: (a) from Definition 4.1, (b) what the authors' public code shows, a count of"
    " samples. Triangles mark the cells below 1, where Eq. 9 fails with C_1 = 1: about a quarter of (a), at strong"
    " signals."
)
STATEMENTS = ["attention Figure 4", "attention Eq. 9"]
SETTINGS, QUICK = grid.RATIOS, grid.QUICK

measure = grid.measure


def numbers(found, settings):
    return grid.numbers(found, "eq_9", "published_4")


def claims(found, settings):
    ratio = found["whole"]["eq_9"]
    rows = [above_one(cells, where) for cells, where in grid.by_scope(found, "eq_9")]
    good = (ratio > 1) | np.isnan(ratio)
    rows.append(grid.weak_signal("Eq. 9's ratio exceeds 1 where the signal is weak", good, settings["norms"]))
    rows.append(shows_a_count(found["whole"]))
    return rows


def above_one(cells, where):
    share, least, middle = np.mean(cells < 1), cells.min(), np.median(cells)
    return claim(
        "Eq. 9's ratio exceeds 1 in all settings and runs",
        paper="2 to 8",
        measured=f"{share:.1%} of {cells.size} cells below 1, least {least:.2f}, median {middle:.2f}",
        threshold="every cell > 1",
        holds=np.all(cells > 1),
        settings=where,
    )


def shows_a_count(whole):
    smaller = whole["smaller_class"]
    off = np.nanmax(np.abs(whole["published_4"] - smaller))
    counts = f"{np.nanmin(smaller):.0f} to {np.nanmax(smaller):.0f}"
    return claim(
        "The published figure, by the authors' public code, shows the smaller number of clean samples",
        paper="2, 3, ..., 8",
        measured=f"{counts}; the code's quantity is at most {off:.3f} away",
        threshold="< 0.05 away in every cell",
        holds=off < 0.05,
        settings="one seed, the whole grid",
    )


def picture(found, settings):
    whole = found["whole"]
    maps = [
        (whole["eq_9"], "Eq. 9 from Definition 4.1\n(triangle: below 1)", "smaller class's ratio, log scale"),
        (whole["published_4"], "what the published figure shows:\na count", "number of samples, log scale"),
    ]
    return grid.pair_of_maps(settings, maps, low=1, high=np.inf)
