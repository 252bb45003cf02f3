"""Figure 2: the uncertainty of Definition 4.1 along training. The paper sketches it; this is a run."""

import numpy as np

from plots import sizes
from plots.report import claim
from plots.style import COLOURS, DASHES, figure
from refimpl.attention.experiments import figure_3
from refimpl.attention.setting import Setting
from refimpl.attention.uncertainty import uncertainty

TITLE = "Uncertainty in picking relevant tokens along training"
CAPTION = (
    "The uncertainty of Definition 4.1 of each training sample along one run, thin, and its means, thick: it rises"
    " towards 1/4, the largest possible, where clean samples begin to pick their relevant token, and then falls to 0."
)
STATEMENTS = ["attention Figure 2", "attention Definition 4.1"]
SETTINGS = dict(n=20, T=8, d=2000, norm=20.0, weak_scale=0.2, noise_rate=0.2, alpha=1e-4, steps=40_000, every=50)
QUICK = dict(steps=15_000)


def measure(settings, seed, jobs, progress):
    """times (K,), S (K, n), noisy (n,) of bool."""
    run = figure_3(seed, sizes(Setting, settings), settings["steps"], settings["every"])
    S = np.array([uncertainty(s, run.sample.roles) for s in run.s])
    return dict(times=run.times, S=S, noisy=run.sample.Y != run.sample.Y_star)


def numbers(found, settings):
    S = found["S"]
    peak = S[:, ~found["noisy"]].mean(axis=1).max()
    return dict(start=S[0].max(), clean_mean_peak=peak, largest_at_the_end=S[-1].max())


def claims(found, settings):
    S, where = found["S"], f"one run, {settings['steps']} steps"
    return [rises_and_falls(S[:, ~found["noisy"]], S[0].max(), where), vanishes(S[0].max(), S[-1].max(), where)]


def rises_and_falls(clean, start, where):
    peak = clean.max(axis=0)
    share = np.mean((peak > 1.5 * start) & (clean[-1] < peak / 1.5))
    return claim(
        "S rises and then falls for clean samples",
        paper="a sketch",
        measured=f"{share:.0%} of the clean samples rise by half and fall by a third of their peak",
        threshold="all",
        holds=share == 1,
        settings=where,
    )


def vanishes(start, end, where):
    return claim(
        "S converges to 0 for every sample",
        paper="S -> 0",
        measured=f"largest at the last step: {end:.4f}",
        threshold=f"< {start / 2:.3f}, half its start",
        holds=end < start / 2,
        settings=where,
    )


def picture(found, settings):
    times, S, noisy = found["times"], found["S"], found["noisy"]
    fig, axes = figure(6.4, 4.1)
    for group, name, k in ((~noisy, "clean", 0), (noisy, "noisy", 2)):
        look = dict(color=COLOURS[k], linestyle=DASHES[k // 2])
        axes.plot(times, S[:, group], linewidth=0.6, alpha=0.5, **look)
        axes.plot(times, S[:, group].mean(axis=1), linewidth=2.4, label=f"mean of the {name} samples", **look)
    axes.axhline(0.25, color=COLOURS[4], linewidth=0.8)
    axes.annotate("1/4, the largest possible", (times[-1], 0.254), ha="right", va="bottom", fontsize=8)
    axes.set(xlabel=r"step $\tau$", ylabel=r"uncertainty $\mathcal{S}^{(i)}(\tau)$", ylim=(0, 0.28))
    fig.legend(loc="outside lower center", ncols=2, fontsize=9)
    return fig
