"""Section 12: the recurrences it lists, trained on the outlier task as Mamba is: what error at which alpha?"""

import numpy as np

from plots import style
from plots.report import claim
from refimpl.mamba.runs.architectures import LAYERS, errors
from refimpl.sweep import complete, sweep

TITLE = "Section 12: test error against the outlier fraction, for each recurrence"
STATEMENTS = [
    "mamba Section 12 (Mamba-2)",
    "mamba Section 12 (RetNet)",
    "mamba Section 12 (gated retention)",
    "mamba Section 12 (gated linear attention)",
    "mamba Eq. 35",
]
SETTINGS = {
    "d": 30,
    "M1": 6,
    "M2": 10,
    "V": 3,
    "beta": 3,
    "kappa_a": 2,
    "p_a": 0.6,
    "l": 20,
    "delta": 0.2,
    "K": 0.5,
    "outlier_norm": 3,
    "B": 128,
    "tau": 1.0,
    "gamma": 0.9,
    "eta": {name: layer.eta for name, layer in LAYERS.items()},
    "steps": 1200,
    "seeds": 3,
    "prompts": 1000,
    "alphas": [0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9],
    "labellings": ["flipped", "targeted", "random"],
}
QUICK = {"seeds": 1, "prompts": 500, "steps": 400}

BLIND = "gated linear attention, keys without y"
LISTED = ("Mamba-2", "RetNet", "gated retention", "gated linear attention")
NAMES = ("linear Transformer", *LISTED, BLIND, "Mamba", "Mamba-2, input step", "own gate (printed)")
LOW = 0.01  # Section 4.1's "smaller than 0.01"
SETTING = "training outliers at kappa_a' = kappa_a, exactly alpha l of them, tasks of the cycle"


def draw(settings, seed, jobs, progress):
    seeds = np.random.SeedSequence(seed).generate_state(settings["seeds"]).tolist()
    alphas, labellings = np.array(settings["alphas"]), settings["labellings"]
    sizes = (labellings, settings["alphas"], settings["prompts"], settings["steps"])
    order = sorted(NAMES, key=lambda name: "linear att" not in name and "own" not in name)  # the long ones first
    layer = {name: (LISTED[3] if name == BLIND else name) for name in NAMES}
    cells = [(layer[name], s, *sizes, True, name == BLIND) for name in order for s in seeds]
    results = complete(sweep(errors, cells, jobs, lambda done, of: progress(f"{done} of {of} trainings")))
    rows = {name: results[k * len(seeds) : (k + 1) * len(seeds)] for k, name in enumerate(order)}
    found = {name: np.array([row[0] for row in rows[name]]) for name in NAMES}  # (seeds, labellings, alphas)

    figure, axes = style.figure(10, 4.6, 1, 3, sharey=True)
    for column, (axis, labelling) in enumerate(zip(axes, labellings)):
        for k, name in enumerate(NAMES):
            values = found[name][:, column]
            look = dict(color=style.COLOURS[k % 5], ls=style.DASHES[k // 5], ms=4, lw=1.2)
            look["marker"] = style.MARKERS[(k + 2 * (k // 5)) % 5]
            axis.errorbar(alphas, values.mean(0), values.std(0), label=name, capsize=2, **look)
        axis.axhline(LOW, color="black", lw=0.7, ls=":")
        axis.set_yscale("symlog", linthresh=0.01, linscale=0.7)
        axis.set_ylim(-0.0005, 1.3)
        axis.set_yticks([0, 0.005, 0.01, 0.1, 1], ["0", "0.005", "0.01", "0.1", "1"])
        axis.set_title(f"{labelling} labels", fontsize=9)
        axis.set_xlabel(r"outlier fraction $\alpha$")
    axes[0].set_ylabel("test error (linear below 0.01)")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, fontsize=8, loc="outside lower center", ncols=3, handlelength=3)

    claims = [tolerates(name, found[name], alphas, labellings) for name in NAMES[1:]]
    claims.append(because(found, alphas))
    numbers = {
        name: {
            "errors (labelling, alpha)": found[name].mean(0),
            "gate share of a clean and an outlier example": np.mean([row[1] for row in rows[name]], axis=0),
        }
        for name in NAMES
    }
    return figure, claims, numbers


def tolerates(name, values, alphas, labellings):
    """Whether the robustness found for Mamba extends to this layer, by the words of Section 4.1."""
    mean = values.mean(axis=0)
    parts = []
    for labelling, row in zip(labellings, mean):
        good = alphas[: int(np.argmax(np.append(row >= LOW, True)))]
        upto = f"below up to alpha = {good[-1]:g}" if len(good) else "not even without outliers"
        parts.append(f"{labelling}: {upto}, at 0.6 {row[alphas == 0.6][0]:.4f}")
    paper = {"Mamba": "< 0.01 up to alpha near 0.8", BLIND: "-", "Mamba-2, input step": "-"}
    return claim(
        f"{name}: the error is below 0.01 up to alpha = 0.8",
        paper.get(name, "the analysis extends to it"),
        "; ".join(parts),
        "each labelling's mean < 0.01 at every alpha <= 0.8",
        np.all(mean[:, alphas <= 0.8] < LOW),
        SETTING,
    )


def because(found, alphas):
    """A gate of its own on each example is what the robust layers share; one layer has a way around it."""
    at = (slice(None), 0, int(np.argmin(np.abs(alphas - 0.6))))
    error = {name: found[name][at].mean() for name in NAMES}
    own = ("Mamba", "Mamba-2, input step", "own gate (printed)")
    later = ("linear Transformer", "Mamba-2", "RetNet", "gated retention", BLIND)
    holds = max(error[name] for name in own) < LOW and min(error[name] for name in later) > 0.5
    return claim(
        "Gated linear attention apart, a layer survives a flipped majority just if its gate on an example sees it",
        "-",
        f"at alpha = 0.6: own gate at most {max(error[n] for n in own):.4f}, gates of later tokens alone at least "
        f"{min(error[n] for n in later):.3f}; gated linear attention, by the square of the label in its keys, "
        f"{error['gated linear attention']:.4f}",
        "< 0.01 and > 0.5",
        holds,
        SETTING,
    )
