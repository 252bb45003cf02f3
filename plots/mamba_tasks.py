"""Unseen tasks: error by how far apart a test task's patterns stand on the cycle of training tasks."""

import numpy as np

from plots import style
from plots.report import claim
from refimpl.mamba.experiments import by_distance
from refimpl.sweep import complete, sweep

TITLE = "Unseen tasks: error by the distance of a task's patterns on the training cycle"
STATEMENTS = ["mamba Section 2 (generalisation error)", "mamba Condition 1", "mamba Section 3.1 (P1-P3)"]
SETTINGS = {
    "M1": [4, 5, 6, 7, 8],
    "alphas": [0.0, 0.6],
    "p_a": 0.6,
    "steps_mamba": 3000,
    "steps_linear": 1000,
    "eta_mamba": 1.0,
    "eta_linear": 0.01,
    "seeds": 3,
    "prompts": 4000,
    "also": ["disjoint", "all"],
}
QUICK = {"seeds": 2, "prompts": 1000, "M1": [5, 6], "steps_mamba": 1500, "steps_linear": 500}


def draw(settings, seed, jobs, progress):
    seeds = np.random.SeedSequence(seed).generate_state(settings["seeds"]).tolist()
    steps = (settings["steps_mamba"], settings["steps_linear"])
    etas = (settings["eta_mamba"], settings["eta_linear"])
    kinds = [("cycle", M1) for M1 in settings["M1"]] + [(train, 6) for train in settings["also"]]
    cells = [(s, M1, settings["alphas"], settings["prompts"], steps, etas, train) for train, M1 in kinds for s in seeds]
    results = iter(complete(sweep(by_distance, cells, jobs, lambda done, of: progress(f"{done} of {of} trainings"))))
    found = {}
    for kind in kinds:
        pairs = [next(results) for _ in seeds]
        found[kind] = [np.array(part) for part in zip(*pairs)]  # (seeds, distances, alphas, 2), (seeds, distances, 2)

    figure, axes = style.figure(9, 3.6, 1, 2, sharey=True)
    for axis, model, name in zip(axes, (0, 1), ("Mamba", "linear Transformer")):
        for k, M1 in enumerate(settings["M1"]):
            errors = found["cycle", M1][0][:, :, 0, model]
            look = dict(color=style.COLOURS[k], marker=style.MARKERS[k], ls=style.DASHES[k], ms=4, capsize=2, lw=1.2)
            beside = np.arange(1, errors.shape[1] + 1) + 0.05 * (k - 2)  # so that equal points are seen apart
            axis.errorbar(beside, errors.mean(0), errors.std(0, ddof=1), label=f"$M_1$ = {M1}", **look)
        axis.set_xticks(range(1, max(settings["M1"]) // 2 + 1))
        axis.set_xlabel("distance of the task's patterns on the cycle")
        axis.set_title(f"{name}, trained on the cycle, no outliers", fontsize=9)
    axes[0].set_ylabel("test error")
    axes[0].legend(fontsize=8)

    claims = [generalises(kind, values, settings["alphas"]) for kind, values in found.items()]
    seen = [values[0][:, 0, 0, 0].mean() for (train, _), values in found.items() if train == "cycle"]
    claims.append(
        claim(
            "Trained on the cycle, tasks of neighbouring patterns are learned, in either order",
            "error <= epsilon",
            f"largest mean error {max(seen):.4f}",
            "mean < 0.01 for each M_1",
            max(seen) < 0.01,
            "Mamba, alpha = 0",
        )
    )
    numbers = {
        f"{train}, M1 = {M1}": {
            "errors (distance, alpha, model)": errors.mean(0),
            "attention (distance, model)": attention.mean(0),
        }
        for (train, M1), (errors, attention) in found.items()
    }
    return figure, claims, numbers


def generalises(kind, values, alphas):
    """Whether the error is below 0.01 at every distance, at alpha = 0: Theorems 1 and 2 speak of all tasks of T."""
    mean = values[0][:, :, 0].mean(axis=0)
    parts = [f"{name} {', '.join(f'{x:.4f}' for x in mean[:, model])}" for model, name in ((0, "Mamba"), (1, "linear"))]
    return claim(
        f"All tasks generalise, trained on {kind[0]}, M_1 = {kind[1]}",
        "desirable generalisation on all tasks in T",
        f"by distance 1, 2, ...: {'; '.join(parts)}",
        "Mamba's mean < 0.01 at every distance",
        np.all(mean[:, 0] < 0.01),
        f"alpha = {alphas[0]:g}",
    )
