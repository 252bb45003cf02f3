"""Section 12: the recurrences it lists, trained on the outlier task as Mamba is: what error at which alpha?"""

import numpy as np

from plots import sizes, style
from plots.mamba import LABELLINGS, LOW, counter, curve, error_axis, reach, seeds
from plots.report import claim
from refimpl.mamba.runs.architectures import errors, layers
from refimpl.mamba.setting import Setting, Testing
from refimpl.sweep import complete, sweep

TITLE = "Section 12: test error against the outlier fraction, for each recurrence"
CAPTION = (
    "Layers whose gate on an example sees the example itself (dark) keep the error near 0 at a flipped majority, as "
    "Mamba does; layers whose gates are those of later tokens alone (light) fail from one half on, as the linear "
    "Transformer does."
)
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
    "etas": {name: layer.eta for name, layer in layers().items()},
    "steps": 1200,
    "seeds": 3,
    "prompts": 1000,
    "alphas": [0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9],
    "labellings": ["flipped", "targeted", "random"],
}
QUICK = {"seeds": 1, "prompts": 500, "steps": 400}

SQUARED, BLIND = "gated linear attention", "gated linear attention, keys without y"
GROUPS = {  # by what a layer's gates on an example see
    "gates of later tokens alone": ("linear Transformer", "Mamba-2", "RetNet", "gated retention", BLIND),
    "the same, the label's square in F": (SQUARED,),
    "a gate that sees its example": ("Mamba", "Mamba-2, input step", "own gate (printed)"),
}
LATER, _, OWN = GROUPS.values()
NAMES = (*LATER[:4], SQUARED, BLIND, *OWN)  # as Section 12 lists them, ours at the end
WHERE = "training outliers at kappa_a' = kappa_a, exactly alpha l of them, tasks of the cycle"


def measure(settings, seed, jobs, progress):
    """{layer: (errors (seeds, labellings, alphas), gate shares (seeds, 2) of clean and outlier examples)}."""
    alphas, labellings, chosen = settings["alphas"], settings["labellings"], seeds(seed, settings)
    if "flipped" not in labellings or not set(labellings) <= set(LABELLINGS):
        raise ValueError(f"labellings: must be of {LABELLINGS}, flipped among them, got {labellings}")
    tests = [Testing(alpha=a, labelling=x, counted=True) for x in labellings for a in alphas]
    setting, built = sizes(Setting, settings), layers(settings["gamma"], settings["tau"])
    order = sorted(NAMES, key=lambda name: "linear att" not in name and "own" not in name)  # the long ones first
    cells = []
    for name in order:
        trained = setting._replace(eta=settings["etas"].get(name, built[name].eta))
        cells += [(built[name], s, trained, tests, settings["prompts"], settings["steps"]) for s in chosen]
    results = iter(complete(sweep(errors, cells, jobs, counter(progress, "trainings"))))
    found, shape = {}, (len(chosen), len(labellings), len(alphas))
    for name in order:
        rows, shares = zip(*(next(results) for _ in chosen))
        found[name] = np.reshape(rows, shape), np.array(shares)
    return {name: found[name] for name in NAMES}


def numbers(found, settings):
    return {
        name: {
            "errors (labelling, alpha)": errors.mean(axis=0),
            "gate share of a clean and an outlier example": shares.mean(axis=0),
        }
        for name, (errors, shares) in found.items()
    }


def nearest(alphas, alpha=0.6):
    """The index of the alpha next to 0.6, and that alpha."""
    k = int(np.argmin(np.abs(np.array(alphas) - alpha)))
    return k, alphas[k]


def claims(found, settings):
    return [tolerates(name, found[name][0].mean(axis=0), settings) for name in NAMES[1:]] + [because(found, settings)]


def tolerates(name, mean, settings):
    """Whether the robustness found for Mamba extends to this layer, by the words of Section 4.1."""
    alphas, parts = np.array(settings["alphas"]), []
    k, at = nearest(settings["alphas"])
    for labelling, row in zip(settings["labellings"], mean):
        upto = reach(alphas, row)
        reached = f"below up to alpha = {upto[-1]:g}" if len(upto) else "not even without outliers"
        parts.append(f"{labelling}: {reached}, at {at:g} {row[k]:.4f}")
    paper = {"Mamba": "< 0.01 up to alpha near 0.8", BLIND: "-", "Mamba-2, input step": "-"}
    return claim(
        f"{name}: the error is below 0.01 up to alpha = 0.8",
        paper=paper.get(name, "the analysis extends to it"),
        measured="; ".join(parts),
        threshold="each labelling's mean < 0.01 at every alpha <= 0.8",
        holds=np.all(mean[:, alphas <= 0.8] < LOW),
        settings=WHERE,
    )


def because(found, settings):
    """A gate of its own on each example is what the robust layers share; one layer has a way around it."""
    k, at = nearest(settings["alphas"])
    flipped = settings["labellings"].index("flipped")
    error = {name: found[name][0][:, flipped, k].mean() for name in NAMES}
    own, later = max(error[name] for name in OWN), min(error[name] for name in LATER)
    return claim(
        "Gated linear attention apart, a layer survives a flipped majority just if its gate on an example sees it",
        paper="-",
        measured=f"at alpha = {at:g}: own gate at most {own:.4f}, gates of later tokens alone at least {later:.3f}; "
        f"gated linear attention, by the square of the label in its keys, {error[SQUARED]:.4f}",
        threshold="< 0.01 and > 0.5",
        holds=own < LOW and later > 0.5,
        settings=WHERE,
    )


def picture(found, settings):
    figure, axes = style.figure(10, 5, 1, len(settings["labellings"]), sharey=True, squeeze=False)
    axes, colours = axes[0], (style.COLOURS[k] for k in (2, 1, 0))
    for place, (group, names), colour in zip(("left", "center", "right"), GROUPS.items(), colours):
        for k, name in enumerate(names):  # the groups are told apart by colour, in each the layers by marker and dash
            options = dict(color=colour, ls=style.DASHES[k], marker=style.MARKERS[k], ms=5, mfc="none", label=name)
            for column, axis in enumerate(axes):
                curve(axis, settings["alphas"], found[name][0][:, column], **options)
        legend(figure, axes[0].get_legend_handles_labels()[0][-len(names) :], group, place)
    for axis, labelling in zip(axes, settings["labellings"]):
        error_axis(axis, f"{labelling} labels")
        axis.set_xlabel(r"outlier fraction $\alpha$")
    axes[0].set_ylabel("test error (linear below 0.01)")
    style.letters(axes)
    return figure


def legend(figure, handles, group, place):
    """Under the panels, at most three rows."""
    options = dict(title=group, title_fontsize=7.5, fontsize=7, handlelength=3.5, ncols=1 + (len(handles) > 3))
    figure.legend(handles=handles, loc=f"outside lower {place}", **options)
