"""Figure 3: softmax probabilities along training in three settings, a clean sample above, noisy ones below."""

from typing import NamedTuple

import numpy as np

from plots import sizes
from plots.report import claim
from plots.style import COLOURS, DASHES, figure, letters
from refimpl.attention.data import IRRELEVANT, RELEVANT
from refimpl.attention.experiments import figure_3
from refimpl.attention.setting import Setting
from refimpl.sweep import complete, sweep

TITLE = "Softmax probabilities along training in three settings"
CAPTION = (
    "Attention on each token along training, a column for each case: a clean sample above, below it two noisy ones, the"
    " last of them one that is not fitted where the run has it. In (a) noisy samples come to pick the weak token of"
    " their observed label, in (b) some pick an irrelevant one, in (c) some keep the relevant one and are not fitted."
)
STATEMENTS = ["attention Figure 3"]
SETTINGS = dict(
    cases=[[2000, 20.0], [4500, 5.0], [1000, 80.0]],
    n=20,
    T=8,
    weak_scale=0.2,
    noise_rate=0.2,
    alpha=1e-4,
    steps=10_000,
    test_samples=1000,
    seeds=16,
)
QUICK = dict(seeds=4)

CASES = ("benign overfitting", "harmful overfitting", "not overfitting")
EVERY = 50  # steps between two points of a curve; no number depends on it


class Outcome(NamedTuple):
    """What a run ends in: train_accuracy, test_accuracy; of the noisy samples picks (k,), roles, and fitted (k,)."""

    train_accuracy: float
    test_accuracy: float
    picks: np.ndarray
    fitted: np.ndarray


def measure(settings, seed, jobs, progress):
    """shown: the three runs at the first seed; outcomes: [three Outcomes for each seed]."""
    cases, seeds = settings["cases"], settings["seeds"]
    if len(cases) != len(CASES):
        raise ValueError(f"cases: must be three, (d, |mu|) for {', '.join(CASES)}")
    problem, rest = sizes(Setting, settings), (settings["steps"], EVERY, settings["test_samples"])
    cells = [(seed + k, problem._replace(d=d, norm=norm), *rest) for k in range(seeds) for d, norm in cases]
    runs = complete(sweep(figure_3, cells, jobs, lambda done, of: progress(f"{done} of {of} runs")))
    outcomes = [outcome(run) for run in runs]
    return dict(shown=runs[:3], outcomes=[outcomes[k : k + 3] for k in range(0, len(runs), 3)])


def outcome(run):
    noisy = run.sample.Y != run.sample.Y_star
    return Outcome(run.train_accuracy, run.test_accuracy, picks(run)[noisy], run.margins[noisy] > 0)


def picks(run):
    """(n,): the role of the token with the largest weight at the end; 1 is a weak token of the observed label."""
    top = run.s[-1].argmax(axis=-1)
    roles = np.take_along_axis(run.sample.roles, top[:, None], axis=1)[:, 0]
    return np.where(np.abs(roles) == 1, roles * run.sample.Y, roles)


def numbers(found, settings):
    """For each case, by seed: accuracies, and the roles that the noisy samples pick."""
    result = {}
    for (d, norm), runs in zip(settings["cases"], zip(*found["outcomes"])):
        accuracies = {name: [getattr(run, name) for run in runs] for name in ("train_accuracy", "test_accuracy")}
        result[f"d={d}, norm={norm:g}"] = dict(accuracies, noisy_pick=[run.picks for run in runs])
    return result


def claims(found, settings):
    """Each claim decided run by run; the paper shows one run of each case, so it holds if most of ours agree."""
    by_seed = found["outcomes"]
    worst = max(1 - b.test_accuracy for _, b, _ in by_seed)
    notes = {worse: f"; largest test error of (b) {worst:.3f}"}
    rows = []
    for text, paper, decide in DECIDED:
        agree = sum(bool(decide(*runs)) for runs in by_seed)
        rows.append(
            claim(
                text,
                paper=paper,
                measured=f"{agree} of {len(by_seed)} seeds{notes.get(decide, '')}",
                threshold="more than half of the seeds",
                holds=2 * agree > len(by_seed),
                settings=f"{settings['steps']} steps",
            )
        )
    return rows


def benign(a, b, c):
    return a.train_accuracy == 1 and a.test_accuracy >= 0.99


def picks_as_printed(a, b, c):
    return np.all(a.picks == -1)


def picks_observed(a, b, c):
    return np.all(a.picks == 1)


def harmful(a, b, c):
    return b.train_accuracy == 1 and np.any(b.picks == IRRELEVANT)


def worse(a, b, c):
    return b.test_accuracy < a.test_accuracy


def not_overfitting(a, b, c):
    return np.any((c.picks == RELEVANT) & ~c.fitted)


DECIDED = (
    ("(a) is benign: every training label is fitted, the test accuracy is >= 0.99", "benign", benign),
    ("In (a) every noisy sample selects a weak token of W_{Y*}, as printed", "W_{Y*(j)}", picks_as_printed),
    ("In (a) every noisy sample selects a weak token of W_Y, as Theorem 4.1 has it", "W_{Y(j)}", picks_observed),
    ("In (b) every training label is fitted, some noisy sample by an irrelevant token", "harmful", harmful),
    ("(b) generalises worse than (a)", "harmful", worse),
    ("(c) does not overfit: some noisy sample picks the relevant token and is not fitted", CASES[2], not_overfitting),
)


def picture(found, settings):
    fig, axes = figure(9.5, 6.6, 3, 3, sharex=True, sharey=True)
    for column, (run, (d, norm), case) in enumerate(zip(found["shown"], settings["cases"], CASES)):
        for row, i in enumerate(shown_samples(run)):
            above = f"{case}\n$d = {d}$, $\\|\\mu\\| = {norm:g}$\n" if row == 0 else ""
            axes[row, column].set_title(above + what_happens(run, i), fontsize=9)
            curves(axes[row, column], run, i)
    letters(axes)  # the first row's are the paper's, of a column
    fig.legend(*axes[1, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    return fig


def shown_samples(run):
    """A clean sample, a noisy one that is fitted and one that is not; any noisy one where the run has no such."""
    noisy = run.sample.Y != run.sample.Y_star
    order = np.flatnonzero(noisy)[np.argsort(run.margins[noisy] > 0, kind="stable")]
    return np.flatnonzero(~noisy)[0], order[-1], order[0]


def what_happens(run, i):
    label = "clean" if run.sample.Y[i] == run.sample.Y_star[i] else "noisy"
    picked = {RELEVANT: "relevant", IRRELEVANT: "irrelevant"}.get(picks(run)[i], "weak")
    return f"{label}, {'fitted' if run.margins[i] > 0 else 'not fitted'}, picks {picked}"


def curves(axes, run, i):
    own, seen = run.sample.Y[i], set()
    names = {
        RELEVANT: (0, "relevant"),
        own: (1, "weak, of the observed label"),
        -own: (2, "weak, of the other label"),
        IRRELEVANT: (3, "irrelevant"),
    }
    for t in np.argsort(run.sample.roles[i] == IRRELEVANT, kind="stable"):
        k, name = names[run.sample.roles[i, t]]
        look = dict(color=COLOURS[k], linestyle=DASHES[k], linewidth=1.6, label=None if name in seen else name)
        axes.plot(run.times, run.s[:, i, t], **look)
        seen.add(name)
    axes.set(xlabel=r"step $\tau$", ylabel=r"probability $s_t$", ylim=(-0.02, 1.02))
    axes.label_outer()
