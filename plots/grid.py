"""The runs behind Figures 4, 5 and 6, trained once for all three."""

import numpy as np

from plots.report import claim
from refimpl.attention.experiments import grid

# The paper's grid; a few seeds, the first among them, on every second row and column of it.
SETTINGS = dict(
    dimensions=list(range(250, 5001, 250)), norms=list(range(5, 101, 5)), steps=20_000, test_samples=1000, seeds=3
)
QUICK = dict(dimensions=list(range(500, 5001, 1000)), norms=list(range(10, 101, 20)))

_trained = {}


def runs(settings, seed, jobs, progress):
    """The whole grid at one seed, {name: (rows, columns)}, and half of each axis, {name: (seeds, rows, columns)}."""
    key = repr((settings, seed))
    if key not in _trained:
        _trained[key] = _train(**settings, seed=seed, jobs=jobs, progress=progress)
    return _trained[key]


def _train(dimensions, norms, steps, test_samples, seeds, seed, jobs, progress):
    def train(seed, dimensions, norms):
        def rows(done, of):
            progress(f"seed {seed}: {done} of {of} rows of the grid")

        return grid(seed, dimensions, norms, steps, test_samples, jobs, rows)

    whole = train(seed, dimensions, norms)
    half = [{name: values[1::2, 1::2] for name, values in whole.items()}]
    half += [train(seed + k, dimensions[1::2], norms[1::2]) for k in range(1, seeds)]
    return whole, {name: np.stack([part[name] for part in half]) for name in whole}


def axes_labels(axes, title):
    axes.set(xlabel=r"signal norm $\|\mu\|$", ylabel=r"dimension $d$")
    axes.set_title(title, fontsize=10)


def by_scope(whole, half):
    """What a verdict is taken over, the finite cells of each: [(cells, settings), ...]."""
    scopes = ((whole, "one seed, the whole grid"), (half, f"{len(half)} seeds, every second row and column"))
    return [(values[np.isfinite(values)], settings) for values, settings in scopes]


def weak_signal(text, good, norms):
    """The claim, ours, that all cells up to some signal norm are good; good : (rows, columns) of bool."""
    safe = [norm for k, norm in enumerate(norms) if np.all(good[:, : k + 1])]
    measured = f"for every d up to |mu| = {max(safe, default=0)}"
    return claim(text, "-", measured, "some column of the grid", bool(safe), "one seed, the whole grid")
