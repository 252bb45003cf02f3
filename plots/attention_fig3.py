"""Figure 3: softmax probabilities along training in three settings, a clean sample above, noisy ones below."""

import numpy as np

from plots.report import claim
from plots.style import COLOURS, DASHES, figure
from refimpl.attention.data import IRRELEVANT, RELEVANT
from refimpl.attention.experiments import figure_3

TITLE = "Softmax probabilities along training in three settings"
STATEMENTS = ["attention Figure 3"]
SETTINGS = dict(cases=[[2000, 20.0], [4500, 5.0], [1000, 80.0]], steps=10_000, every=50)
QUICK = dict(steps=5_000)

CASES = ("benign overfitting", "harmful overfitting", "not overfitting")


def draw(settings, seed, jobs, progress):
    runs = [figure_3(seed, d, norm, settings["steps"], settings["every"]) for d, norm in settings["cases"]]
    fig, axes = figure(9.5, 6.6, 3, 3, sharex=True, sharey=True)
    for column, (run, (d, norm), case) in enumerate(zip(runs, settings["cases"], CASES)):
        noisy = np.flatnonzero(run.sample.Y != run.sample.Y_star)
        fitted = run.margins[noisy] > 0
        shown = [
            np.flatnonzero(run.sample.Y == run.sample.Y_star)[0],
            *noisy[np.argsort(fitted, kind="stable")[[-1, 0]]],
        ]
        for row, i in enumerate(shown):
            curves(axes[row, column], run, i)
            role = {RELEVANT: "relevant", IRRELEVANT: "irrelevant"}.get(
                run.sample.roles[i, run.s[-1, i].argmax()], "weak"
            )
            text = (
                "clean" if row == 0 else "noisy"
            ) + f", {'fitted' if run.margins[i] > 0 else 'not fitted'}, picks {role}"
            axes[row, column].set_title(
                (f"{case}\n$d = {d}$, $\\|\\mu\\| = {norm:g}$\n" if row == 0 else "") + text, fontsize=9
            )
        axes[2, column].set_xlabel(r"step $\tau$")
    for axis in axes[:, 0]:
        axis.set(ylabel=r"probability $s_t$", ylim=(-0.02, 1.02))
    fig.legend(*axes[1, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    return fig, claims(runs), numbers(runs, settings["cases"])


def curves(axes, run, i):
    own = run.sample.Y[i]
    names = {
        RELEVANT: (0, "relevant"),
        own: (1, "weak, of the observed label"),
        -own: (2, "weak, of the other"),
        IRRELEVANT: (3, "irrelevant"),
    }
    for t in np.argsort(run.sample.roles[i] == IRRELEVANT, kind="stable"):
        k, name = names[run.sample.roles[i, t]]
        seen = name in axes.get_legend_handles_labels()[1]
        axes.plot(
            run.times,
            run.s[:, i, t],
            color=COLOURS[k],
            linestyle=DASHES[k],
            linewidth=1.6,
            label=None if seen else name,
        )


def picks(run):
    """The role of the token with the largest weight, for each noisy sample; the label's own weak token is 1."""
    noisy = run.sample.Y != run.sample.Y_star
    top = run.s[-1].argmax(axis=-1)
    roles = np.take_along_axis(run.sample.roles, top[:, None], axis=1)[:, 0]
    return np.where(np.abs(roles) == 1, roles * run.sample.Y, roles)[noisy]


def numbers(runs, cases):
    return {
        f"d={d}, norm={norm:g}": dict(
            train_accuracy=run.train_accuracy, test_accuracy=run.test_accuracy, noisy_pick=picks(run)
        )
        for run, (d, norm) in zip(runs, cases)
    }


def claims(runs):
    a, b, c = runs
    own = np.mean(picks(a) == 1)
    elsewhere = np.mean(picks(a) == -1)
    return [
        claim(
            "(a) is benign: all training labels fitted, fresh samples right",
            "benign",
            f"train {a.train_accuracy:.2f}, test {a.test_accuracy:.3f}",
            "train 1, test >= 0.99",
            a.train_accuracy == 1 and a.test_accuracy >= 0.99,
        ),
        claim(
            "(a) noisy samples select the weak token of W_{Y*}, as printed",
            "W_{Y*(j)}",
            f"{elsewhere:.0%} of them",
            "all",
            elsewhere == 1,
        ),
        claim(
            "(a) noisy samples select the weak token of W_Y, as Theorem 4.1 has it",
            "W_{Y(j)}",
            f"{own:.0%} of them",
            "all",
            own == 1,
        ),
        claim(
            "(b) the training labels are fitted by noise: some noisy sample picks an irrelevant token",
            "harmful",
            f"train {b.train_accuracy:.2f}; {np.mean(picks(b) == IRRELEVANT):.0%} of the noisy samples",
            "train 1, at least one",
            b.train_accuracy == 1 and np.any(picks(b) == IRRELEVANT),
        ),
        claim(
            "(b) generalises worse than (a)",
            "harmful",
            f"test accuracy {b.test_accuracy:.3f} against {a.test_accuracy:.3f}",
            "lower",
            b.test_accuracy < a.test_accuracy,
        ),
        claim(
            "(b) is harmful in the sense of Theorem 4.2: a constant test error",
            "harmful",
            f"test error {1 - b.test_accuracy:.3f}",
            ">= 0.23, the constant of E.2.4 (rebuilt)",
            1 - b.test_accuracy >= 0.23,
        ),
        claim(
            "(c) does not overfit: some noisy sample picks a relevant token and is not fitted",
            "not overfitting",
            f"train {c.train_accuracy:.2f}; {np.mean(picks(c) == RELEVANT):.0%} of the noisy samples",
            "train < 1, at least one",
            c.train_accuracy < 1 and np.any(picks(c) == RELEVANT),
        ),
    ]
