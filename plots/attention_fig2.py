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
    peak, end = S[:, ~noisy].mean(axis=1).max(), S[-1].max()
    start = S[0].max()
    rises = np.mean(S.max(axis=0)[~noisy] > 1.5 * start)
    rows = [
        claim(
            "S rises and then falls for clean samples",
            "a sketch",
            f"{rises:.0%} of the clean samples rise above 1.5 times their start",
            "all",
            rises == 1,
        ),
        claim(
            "S converges to 0 for every sample",
            "a sketch",
            f"largest at the last step: {end:.3f}",
            f"< {start / 2:.3f}, half its start",
            end < start / 2,
            f"{settings['steps']} steps",
        ),
    ]
    return fig, rows, dict(start=start, clean_mean_peak=peak, largest_at_the_end=end)
