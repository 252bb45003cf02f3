"""The runs behind Figures 4, 5 and 6, trained once for all three, and the page that Figures 4 and 6 share."""

import numpy as np

from plots import sizes
from plots.report import claim
from plots.style import figure, heatmap, letters
from refimpl.attention.experiments import grid_row
from refimpl.attention.setting import Setting
from refimpl.sweep import complete, sweep

# The paper's grid; Figures 4 and 6 add seeds, Figure 5 test samples.
PROBLEM = dict(n=20, T=8, weak_scale=0.2, noise_rate=0.2, alpha=1e-4)
TRAINING = PROBLEM | dict(dimensions=list(range(250, 5001, 250)), norms=list(range(5, 101, 5)), steps=20_000)
RATIOS = TRAINING | dict(seeds=3)
QUICK = dict(dimensions=list(range(500, 5001, 1000)), norms=list(range(10, 101, 20)))

TEST_SAMPLES = 1000  # Figure 5's; nothing in Figures 4 and 6 depends on them, but one training serves all three
HALF = slice(1, None, 2)  # every second row and column: where more seeds than the first are trained

_trained = {}


def trained(settings, seed, jobs, progress, part=slice(None)):
    """{name: (rows, columns)}, the names of experiments.grid_row, on a part of each axis of the grid."""
    setting, rest = sizes(Setting, settings), (settings["steps"], settings.get("test_samples", TEST_SAMPLES))
    norms = tuple(settings["norms"][part])
    cells = [(seed, setting._replace(d=d), norms, *rest) for d in settings["dimensions"][part]]
    key = repr(cells)
    if key not in _trained:
        rows = complete(sweep(grid_row, cells, jobs, lambda k, of: progress(f"seed {seed}: {k} of {of} rows")))
        _trained[key] = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return _trained[key]


def measure(settings, seed, jobs, progress):
    """whole : {name: (rows, columns)} at one seed.  half : {name: (seeds, rows, columns)}, every second row and column.

    Raises ValueError for an axis with fewer than two entries: it has no half.
    """
    for name in ("dimensions", "norms"):
        if len(settings[name]) < 2:
            raise ValueError(f"{name}: must have two entries or more, got {settings[name]}")
    whole = trained(settings, seed, jobs, progress)
    half = [{name: values[HALF, HALF] for name, values in whole.items()}]
    half += [trained(settings, seed + k, jobs, progress, HALF) for k in range(1, settings["seeds"])]
    return dict(whole=whole, half={name: np.stack([part[name] for part in half]) for name in whole})


def numbers(found, name, published):
    whole = found["whole"]
    return {name: whole[name], "published": whole[published], "seeds": found["half"][name]}


def by_scope(found, name):
    """What a verdict is taken over, the finite cells of each: [(cells, settings), ...]."""
    whole, half = found["whole"][name], found["half"][name]
    scopes = ((whole, "one seed, the whole grid"), (half, f"{len(half)} seeds, every second row and column"))
    return [(values[np.isfinite(values)], settings) for values, settings in scopes]


def weak_signal(text, good, norms):
    """The claim, ours, that all cells up to some signal norm are good; good : (rows, columns) of bool."""
    safe = [norm for k, norm in enumerate(norms) if np.all(good[:, : k + 1])]
    return claim(
        text,
        paper="-",
        measured=f"for every d up to |mu| = {max(safe, default=0)}",
        threshold="some column of the grid",
        holds=bool(safe),
        settings="one seed, the whole grid",
    )


def pair_of_maps(settings, maps, low, high):
    """Two ratios in one range of colours around 1, cells below `low` and above `high` marked.

    maps : two of (ratio (rows, columns), title, label of its colour bar).
    """
    fig, axes = figure(9.5, 4.2, 1, 2)
    cells = np.concatenate([ratio[np.isfinite(ratio)] for ratio, *_ in maps])
    most = np.exp(np.max(np.abs(np.log(cells)), initial=0.0))
    for axis, (ratio, title, label) in zip(axes, maps):
        ends = dict(low=1 / most, high=most)
        heatmap(axis, settings["norms"], settings["dimensions"], ratio, label, log=True, diverging=True, **ends)
        mark(axis, settings, ratio < low, "v")
        mark(axis, settings, ratio > high, "^")
        axes_labels(axis, title)
    letters(axes)
    return fig


def mark(axes, settings, where, marker):
    rows, columns = np.nonzero(where)
    x, y = np.asarray(settings["norms"])[columns], np.asarray(settings["dimensions"])[rows]
    axes.plot(x, y, marker, color="black", ms=5, markeredgecolor="white", markeredgewidth=0.6)


def axes_labels(axes, title):
    axes.set(xlabel=r"signal norm $\|\mu\|$", ylabel=r"dimension $d$")
    axes.set_title(title, fontsize=9)
