"""Unseen tasks: error by how far apart a test task's patterns stand on the cycle of training tasks."""

import numpy as np

from plots import sizes, style
from plots.mamba import LOW, TASKS, counter, curve, look, seeds
from plots.report import claim
from refimpl.mamba.experiments import by_distance
from refimpl.mamba.setting import Setting
from refimpl.sweep import complete, sweep

TITLE = "Unseen tasks: error by the distance of a task's patterns on the training cycle"
CAPTION = (
    "Trained on the tasks of neighbouring patterns (distance 1), Mamba is wrong on many prompts of tasks at distance "
    "2, the linear Transformer on few unless there are four patterns: not all tasks are learned from the cycle."
)
STATEMENTS = ["mamba Section 2 (generalisation error)", "mamba Condition 1", "mamba Section 3.1 (P1-P3)"]
SETTINGS = {
    "M1": [4, 5, 6, 7, 8],
    "alphas": [0.0, 0.6],
    "p_a": 0.6,
    "B": 128,
    "steps_mamba": 3000,
    "steps_linear": 1000,
    "eta_mamba": 1.0,
    "eta_linear": 0.01,
    "seeds": 3,
    "prompts": 4000,
    "also": ["disjoint", "all"],
    "also: M1": 6,
}
QUICK = {"seeds": 2, "prompts": 1000, "M1": [5, 6], "steps_mamba": 1500, "steps_linear": 500}
MODELS = ("Mamba", "linear Transformer")


def kinds(settings):
    """What is trained on: (tasks, M1)."""
    return [("cycle", M1) for M1 in settings["M1"]] + [(train, settings["also: M1"]) for train in settings["also"]]


def measure(settings, seed, jobs, progress):
    """{kind: (errors (seeds, distances, alphas, 2), attention (seeds, distances + 1, 2))}."""
    chosen, base = seeds(seed, settings), sizes(Setting, settings)
    steps = (settings["steps_mamba"], settings["steps_linear"])
    etas = (settings["eta_mamba"], settings["eta_linear"])
    cells = []
    for train, M1 in kinds(settings):
        setting = base._replace(M1=M1, tasks=TASKS[train](M1))
        cells += [(s, setting, settings["alphas"], settings["prompts"], steps, etas) for s in chosen]
    results = iter(complete(sweep(by_distance, cells, jobs, counter(progress, "trainings"))))
    return {kind: [np.array(part) for part in zip(*(next(results) for _ in chosen))] for kind in kinds(settings)}


def numbers(found, settings):
    return {
        f"{train}, M1 = {M1}": {
            "errors (distance, alpha, model)": errors.mean(axis=0),
            "attention (distance, model)": attention.mean(axis=0),
        }
        for (train, M1), (errors, attention) in found.items()
    }


def claims(found, settings):
    where = f"alpha = {settings['alphas'][0]:g}"
    rows = [generalises(kind, errors[:, :, 0], where) for kind, (errors, _) in found.items()]
    seen = [errors[:, 0, 0, 0].mean() for (train, _), (errors, _) in found.items() if train == "cycle"]
    learned = claim(
        "Trained on the cycle, tasks of neighbouring patterns are learned, in either order",
        paper="error <= epsilon",
        measured=f"largest mean error {max(seen):.4f}",
        threshold=f"mean < {LOW} for each M_1",
        holds=max(seen) < LOW,
        settings=f"Mamba, {where}",
    )
    return rows + [learned]


def generalises(kind, errors, where):
    """Whether the error is below 0.01 at every distance: Theorems 1 and 2 speak of all tasks of T."""
    mean = errors.mean(axis=0)
    parts = [f"{name} {', '.join(f'{x:.4f}' for x in mean[:, model])}" for model, name in ((0, "Mamba"), (1, "linear"))]
    return claim(
        f"All tasks generalise, trained on {kind[0]}, M_1 = {kind[1]}",
        paper="desirable generalisation on all tasks in T",
        measured=f"by distance 1, 2, ...: {'; '.join(parts)}",
        threshold=f"Mamba's mean < {LOW} at every distance",
        holds=np.all(mean[:, 0] < LOW),
        settings=where,
    )


def picture(found, settings):
    figure, axes = style.figure(9, 3.8, 1, 2, sharey=True)
    for model, (axis, name) in enumerate(zip(axes, MODELS)):
        for k, M1 in enumerate(settings["M1"]):
            errors = found["cycle", M1][0][:, :, 0, model]
            beside = np.arange(1, errors.shape[1] + 1) + 0.05 * (k - 2)  # so that equal points are seen apart
            curve(axis, beside, errors, **{**look(k), "ms": 5, "label": f"$M_1$ = {M1}"})
        axis.axhline(LOW, color="black", lw=0.7, ls=":")
        axis.set_xticks(range(1, max(settings["M1"]) // 2 + 1))
        axis.set_xlabel("distance of the task's patterns on the cycle")
        axis.set_title(rf"{name}, trained at distance 1, $\alpha$ = {settings['alphas'][0]:g}", fontsize=9)
    axes[0].set_ylabel("test error (dotted: 0.01)")
    axes[1].legend(fontsize=8, loc="upper right")
    style.letters(axes)
    return figure
