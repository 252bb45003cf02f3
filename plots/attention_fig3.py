"""Figure 3: softmax probabilities along training in three settings, a clean sample above, noisy ones below."""

import numpy as np

from plots.report import claim
from plots.style import COLOURS, DASHES, figure
from refimpl.attention.data import IRRELEVANT, RELEVANT
from refimpl.attention.experiments import figure_3
from refimpl.sweep import complete, sweep

TITLE = "Softmax probabilities along training in three settings"
STATEMENTS = ["attention Figure 3"]
SETTINGS = dict(cases=[[2000, 20.0], [4500, 5.0], [1000, 80.0]], steps=10_000, every=50, seeds=16)
QUICK = dict(seeds=4)

CASES = ("(a) benign overfitting", "(b) harmful overfitting", "(c) not overfitting")


def draw(settings, seed, jobs, progress):
    cells = [
        (seed + k, d, norm, settings["steps"], settings["every"])
        for k in range(settings["seeds"])
        for d, norm in settings["cases"]
    ]
    runs = complete(sweep(figure_3, cells, jobs, lambda done, of: progress(f"{done} of {of} runs")))
    by_seed = [runs[k : k + 3] for k in range(0, len(runs), 3)]
    runs = by_seed[0]  # the first seed is drawn, all of them count
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
    return fig, claims(by_seed, settings["steps"]), numbers(by_seed, settings["cases"])


def curves(axes, run, i):
    own = run.sample.Y[i]
    names = {
        RELEVANT: (0, "relevant"),
        own: (1, "weak, of the observed label"),
        -own: (2, "weak, of the other label"),
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


def numbers(by_seed, cases):
    """For each case, by seed: accuracies, and the roles that the noisy samples pick."""
    result = {}
    for (d, norm), runs in zip(cases, zip(*by_seed)):
        accuracies = {name: [getattr(run, name) for run in runs] for name in ("train_accuracy", "test_accuracy")}
        result[f"d={d}, norm={norm:g}"] = dict(accuracies, noisy_pick=[picks(run) for run in runs])
    return result


def claims(by_seed, steps):
    """Each claim decided run by run; the paper shows one run of each case, so it holds if most of ours agree."""

    def row(text, paper, decide, note=""):
        agree = sum(bool(decide(*runs)) for runs in by_seed)
        measured = f"{agree} of {len(by_seed)} seeds{note}"
        return claim(text, paper, measured, "more than half of the seeds", 2 * agree > len(by_seed), f"{steps} steps")

    worst = max(1 - b.test_accuracy for _, b, _ in by_seed)
    noisy_margins = lambda run: run.margins[run.sample.Y != run.sample.Y_star]
    return [
        row(
            "(a) is benign: every training label fitted, test accuracy >= 0.99",
            "benign",
            lambda a, b, c: a.train_accuracy == 1 and a.test_accuracy >= 0.99,
        ),
        row(
            "(a) every noisy sample selects a weak token of W_{Y*}, as printed",
            "W_{Y*(j)}",
            lambda a, b, c: np.all(picks(a) == -1),
        ),
        row(
            "(a) every noisy sample selects a weak token of W_Y, as Theorem 4.1 has it",
            "W_{Y(j)}",
            lambda a, b, c: np.all(picks(a) == 1),
        ),
        row(
            "(b) every training label fitted, some noisy sample by an irrelevant token",
            "harmful",
            lambda a, b, c: b.train_accuracy == 1 and np.any(picks(b) == IRRELEVANT),
        ),
        row(
            "(b) generalises worse than (a)",
            "harmful",
            lambda a, b, c: b.test_accuracy < a.test_accuracy,
            f"; largest test error of (b) {worst:.3f}",
        ),
        row(
            "(c) does not overfit: some noisy sample picks the relevant token and is not fitted",
            "not overfitting",
            lambda a, b, c: np.any((picks(c) == RELEVANT) & (noisy_margins(c) <= 0)),
        ),
    ]
