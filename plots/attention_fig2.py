"""Figure 2: the uncertainty of Definition 4.1 along training. The paper sketches it; this is a run."""

import numpy as np

from plots.report import claim
from plots.style import COLOURS, DASHES, figure
from refimpl.attention.experiments import figure_3
from refimpl.attention.uncertainty import uncertainty

TITLE = "Uncertainty in picking relevant tokens along training"
STATEMENTS = ["attention Figure 2", "attention Definition 4.1"]
SETTINGS = dict(d=2000, norm=20.0, steps=40_000, every=50)
QUICK = dict(steps=15_000)


def draw(settings, seed, jobs, progress):
    run = figure_3(seed, **settings)
    S = np.array([uncertainty(s, run.sample.roles) for s in run.s])
    noisy = run.sample.Y != run.sample.Y_star
    fig, axes = figure(6.4, 3.8)
    for group, name, colour, dash in (
        (~noisy, "clean", COLOURS[0], DASHES[0]),
        (noisy, "noisy", COLOURS[2], DASHES[1]),
    ):
        axes.plot(run.times, S[:, group], color=colour, linestyle=dash, linewidth=0.6, alpha=0.5)
        axes.plot(
            run.times,
            S[:, group].mean(axis=1),
            color=colour,
            linestyle=dash,
            linewidth=2.4,
            label=f"mean of the {name} samples",
        )
    axes.axhline(0.25, color="#888888", linewidth=0.8)
    axes.annotate("1/4, the largest possible", (run.times[-1], 0.246), ha="right", va="top", fontsize=8)
    axes.set(
        xlabel=r"step $\tau$",
        ylabel=r"uncertainty $\mathcal{S}^{(i)}(\tau)$",
        ylim=(0, 0.27),
    )
    axes.legend(loc="center right")
    clean, start, end = S[:, ~noisy], S[0].max(), S[-1].max()
    rises = np.mean((clean.max(axis=0) > 1.5 * start) & (clean[-1] < clean.max(axis=0) / 1.5))
    settings = f"one run, {settings['steps']} steps"
    rows = [
        claim(
            "S rises and then falls for clean samples",
            "a sketch",
            f"{rises:.0%} of the clean samples rise by half and fall by a third of their peak",
            "all",
            rises == 1,
            settings,
        ),
        claim(
            "S converges to 0 for every sample",
            "S -> 0",
            f"largest at the last step: {end:.4f}",
            f"< {start / 2:.3f}, half its start",
            end < start / 2,
            settings,
        ),
    ]
    return fig, rows, dict(start=start, clean_mean_peak=clean.mean(axis=1).max(), largest_at_the_end=end)
