"""How the iterations and the prompt length that training needs scale: SGD, Lemma 3's law, and the printed orders."""

import numpy as np

from plots import sizes, style
from plots.mamba import TASKS, counter, headroom, seeds
from plots.report import claim
from refimpl.mamba.dynamics import laplacian
from refimpl.mamba.runs.scaling import (
    MOST,
    ORDERS,
    WITHIN,
    examples_needed,
    iterations_law,
    iterations_needed,
    training_error,
)
from refimpl.mamba.setting import Setting
from refimpl.mamba.votes import no_clean_example, training_vote_error
from refimpl.statistics import exponent
from refimpl.sweep import complete, sweep

TITLE = "Iterations and prompt length that training needs: fitted orders against the printed ones"
CAPTION = (
    "Steps of SGD to a given margin against each letter of the printed orders, Mamba dark and the linear Transformer "
    "light: the fitted slopes stand in the legends, Lemma 3's law is dotted (a to e). The error left on training "
    "prompts by their length is the least possible for Mamba; for the linear Transformer it is a vote's (f)."
)
STATEMENTS = [
    "mamba Theorem 1 (iterations)",
    "mamba Theorem 1 (prompt length)",
    "mamba Theorem 3",
    "mamba Remark 1",
    "mamba Remark 4",
    "mamba Lemma 3",
]
SETTINGS = {
    "margin": 0.5,
    "delta": 0.02,
    "beta": 3.0,
    "M1": 6,
    "p_a": 0.6,
    "l": 20,
    "tasks": "cycle",
    "B": 128,
    "seeds": 3,
    "eta": [0.01, 0.018, 0.032, 0.056, 0.1],
    "eta: linear over Mamba's": 0.03,
    "1 - p_a": [0.09, 0.16, 0.28, 0.51, 0.9],
    "1 - p_a: etas": [0.05, 0.002],
    "M_1": [4, 7, 13, 22, 40],
    "M_1: etas": [0.1, 0.003],
    "M_1: d": 60,
    "beta at fixed delta beta": [1.0, 1.8, 3.2, 5.6, 10.0],
    "beta at fixed delta beta: etas": [0.03, 0.001],
    "l_tr": [8, 14, 25, 45, 80],
    "l_tr: etas": [0.05, 0.001],
    "length: 1 - p_a": [0.05, 0.1, 0.2, 0.5],
    "length: l (1 - p_a)": [1, 2, 3, 4],
    "length: steps": 500,
    "length: tasks": "disjoint",
    "length: delta": 0.2,
    "length: B": 64,
    "length: eta": 1.0,
    "length: eta l, linear": 0.2,
    "prompts": 8000,
    "vote: error": 0.05,
    "vote: 1 - p_a": [0.01, 0.016, 0.025, 0.04, 0.063, 0.1],
}
QUICK = {
    "seeds": 1,
    "eta": [0.02, 0.063, 0.2],
    "1 - p_a": [0.09, 0.28, 0.9],
    "M_1": [4, 13, 40],
    "beta at fixed delta beta": [1.0, 3.2, 10.0],
    "l_tr": [8, 25, 80],
    "length: 1 - p_a": [0.05, 0.5],
    "length: l (1 - p_a)": [1, 2, 3],
    "length: steps": 250,
    "prompts": 2000,
}

LABELS = (r"$\eta$", r"$1 - p_a$", r"$M_1$", r"$\beta$ at fixed $\delta\beta$", r"$l_{tr}$")
MODELS = ("Mamba", "the linear Transformer")
SHORT = ("Mamba", "linear")
COLOURS = (0, 2)


def measure(settings, seed, jobs, progress):
    """{"T" and "law": {(order, model): (x, steps)}, "error": {(1 - p_a, l (1 - p_a), model): error}, "vote": [l]}."""
    needed = [examples_needed((1 - x) / 2, settings["vote: error"]) for x in settings["vote: 1 - p_a"]]
    return {
        "T": iterations(settings, seed, jobs, progress),
        "law": laws(settings),
        "error": errors(settings, seed, jobs, progress),
        "vote": needed,
    }


def points(settings):
    """Yields order, model, x and the Setting of every point of the first five panels."""
    base = sizes(Setting, settings)
    for name in ORDERS:
        for x in settings[name]:
            setting = base._replace(**changed(name, x, settings))
            setting = setting._replace(tasks=TASKS[settings["tasks"]](setting.M1))
            etas = (x, settings["eta: linear over Mamba's"] * x) if name == "eta" else settings[f"{name}: etas"]
            for model, eta in zip((0, 1), etas, strict=True):
                yield name, model, x, setting._replace(eta=eta)


def changed(name, x, settings):
    """What of a Setting an order changes at x; the steps are chosen apart."""
    return {
        "eta": {},
        "1 - p_a": {"p_a": 1 - x},
        "M_1": {"M1": int(x), "d": settings["M_1: d"]},
        "beta at fixed delta beta": {"beta": x, "delta": settings["delta"] * settings["beta"] / x},
        "l_tr": {"l": int(x)},
    }[name]


def collected(rows):
    """Rows (order, model, x, steps) as {(order, model): (x, steps)}, each a list."""
    found = {}
    for name, model, x, steps in rows:
        for row, value in zip(found.setdefault((name, model), ([], [])), (x, steps)):
            row.append(value)
    return found


def laws(settings):
    def law(setting, gated):
        L = laplacian(setting.training_tasks(), setting.M1)
        return iterations_law(L, setting, gated, settings["margin"])

    return collected((name, model, x, law(setting, model == 0)) for name, model, x, setting in points(settings))


def iterations(settings, seed, jobs, progress):
    runs, cells = [], []
    for name, model, x, setting in points(settings):
        for s in seeds(seed, settings):
            runs.append((name, model, x))
            cells.append((setting, model == 0, np.random.default_rng(s), settings["margin"]))
    results = complete(sweep(iterations_needed, cells, jobs, counter(progress, "trainings", 20)))
    if max(results) >= MOST:
        raise ValueError(f"{runs[int(np.argmax(results))]}: the margin is not reached in {MOST} steps")
    return collected((*run, T) for run, T in zip(runs, results))


def errors(settings, seed, jobs, progress):
    base = sizes(Setting, settings)
    tasks = TASKS[settings["length: tasks"]](base.M1)
    base = base._replace(tasks=tasks, delta=settings["length: delta"], B=settings["length: B"])
    keys, cells = [], []
    for q in settings["length: 1 - p_a"]:
        for c in settings["length: l (1 - p_a)"]:
            l = int(round(c / q))
            for model, eta in enumerate((settings["length: eta"], settings["length: eta l, linear"] / l)):
                keys.append((q, c, model))
                setting = base._replace(p_a=1 - q, l=l, eta=eta)
                rng = np.random.default_rng(np.random.SeedSequence((seed, len(keys))))
                cells.append((setting, model == 0, settings["length: steps"], settings["prompts"], rng))
    return dict(zip(keys, complete(sweep(training_error, cells, jobs, counter(progress, "prompt lengths")))))


def numbers(found, settings):
    rows = {
        f"{MODELS[model]}, {name}": {
            "exponent, low, high": exponent(x, T),
            "law": exponent(*found["law"][name, model])[0],
            "T": T,
        }
        for (name, model), (x, T) in found["T"].items()
    }
    errors = {str(key): error for key, error in found["error"].items()}
    return rows | {"errors by (1 - p_a, l (1 - p_a), model)": errors, "examples a vote needs": found["vote"]}


def claims(found, settings):
    rows = [order_claim(name, model, found, settings) for name in ORDERS for model in (0, 1)]
    return rows + [floor_claim(found["error"], settings), vote_claim(found, settings)]


def order_claim(name, model, found, settings):
    slope, low, high = exponent(*found["T"][name, model])
    law, printed = exponent(*found["law"][name, model])[0], ORDERS[name][2][model]
    return claim(
        f"The iterations that {MODELS[model]} needs scale as {name} to the {printed}",
        paper=f"{printed}" + (", in Theorem 3's proof -1" if (name[:4], model) == ("beta", 1) else ""),
        measured=f"{slope:.2f}, 95 % interval [{low:.2f}, {high:.2f}]; Lemma 3's law {law:.2f}",
        threshold="exponent within 0.30 of the printed one: a factor two over the decade",
        holds=abs(slope - printed) < WITHIN,
        settings=f"to E[zF] = {settings['margin']}, {settings[name][0]:g} to {settings[name][-1]:g}",
    )


def floor_claim(errors, settings):
    off = []
    for (q, c, model), error in errors.items():
        least = no_clean_example(1 - q, round(c / q))
        if model == 0:
            off.append(abs(error - least) / (4 * np.sqrt(least / settings["prompts"]) + 0.05 * least))
    return claim(
        "Mamba's error on training prompts is p_a^l / 2, the least of any model: l_tr is of order 1/(1 - p_a)",
        paper="l_tr >~ (1 - p_a)^-1 log M_1",
        measured=f"largest deviation {max(off):.2f} of what is allowed",
        threshold="each within 4 standard errors + 5 %",
        holds=max(off) < 1,
        settings=f"tasks: {settings['length: tasks']}, one training a point",
    )


def vote_claim(found, settings):
    slope, low, high = exponent(settings["vote: 1 - p_a"], found["vote"])
    qs, last = settings["length: 1 - p_a"], settings["length: l (1 - p_a)"][-1]
    first_error, last_error = (found["error"][q, last, 1] for q in (qs[0], qs[-1]))
    shares = settings["vote: 1 - p_a"]
    return claim(
        "l_tr of order 1/(1 - p_a) is enough for the linear Transformer (Theorem 3(iii))",
        paper="l_tr >~ (1 - p_a)^-1 log M_1",
        measured=f"at l_tr (1 - p_a) = {last} the error is {last_error:.3f} at 1 - p_a = {qs[-1]:g} and "
        f"{first_error:.3f} at {qs[0]:g}; the length needed scales as (1 - p_a)^{slope:.2f} [{low:.2f}, {high:.2f}]",
        threshold="exponent within 0.30 of -1: a factor two over the decade",
        holds=abs(slope + 1) < WITHIN,
        settings=f"one training a point; exact vote, error {settings['vote: error']:g}, 1 - p_a from {shares[0]:g} to "
        f"{shares[-1]:g}",
    )


def picture(found, settings):
    figure, axes = style.figure(10, 6.6, 2, 3)
    for axis, label, name in zip(axes.flat, LABELS, ORDERS):
        for model in (0, 1):
            order_curve(axis, model, *found["T"][name, model], found["law"][name, model])
        axis.set(xscale="log", yscale="log", xlabel=label, ylabel=f"steps to E[zF] = {settings['margin']:g}")
        headroom(axis)
        for side in (axis.xaxis, axis.yaxis):
            side.set_minor_formatter("")
        axis.set_xticks([settings[name][k] for k in (0, len(settings[name]) // 2, -1)])
        axis.xaxis.set_major_formatter("{x:g}")
        printed = ORDERS[name][2]
        axis.set_title(f"printed slopes {printed[0]} and {printed[1]}", fontsize=9)
        axis.legend(fontsize=7, handlelength=1.5, loc="upper right" if name != "M_1" else "upper left")
    length_panel(axes.flat[5], found["error"], settings)
    figure.suptitle("(a) to (e): steps that training needs (solid: fit; dotted: Lemma 3's law)", fontsize=9)
    style.letters(axes)
    return figure


def order_curve(axis, model, x, T, law):
    colour, (slope, low, high) = style.COLOURS[COLOURS[model]], exponent(x, T)
    name = f"{SHORT[model]}: slope {slope:.2f} [{low:.2f}, {high:.2f}]"
    axis.plot(x, T, style.MARKERS[model], color=colour, ms=4, mfc="none", label=name)
    line = np.exp(np.mean(np.log(T)) + slope * (np.log(law[0]) - np.mean(np.log(x))))
    axis.plot(law[0], line, style.DASHES[0], color=colour, lw=1)
    axis.plot(*law, style.DASHES[3], color=colour, lw=1.6)


def length_panel(axis, errors, settings):
    """Colours as in the other panels, a marker to each 1 - p_a."""
    cs = settings["length: l (1 - p_a)"]
    for k, q in enumerate(settings["length: 1 - p_a"]):
        for model in (0, 1):
            look = dict(color=style.COLOURS[COLOURS[model]], ms=4.5, mfc="none")
            label = f"$1 - p_a$ = {q:g}" if model == 0 else None
            axis.plot(cs, [errors[q, c, model] for c in cs], style.MARKERS[k], **look, label=label)
        x = np.linspace(cs[0], cs[-1], 30)
        axis.plot(x, no_clean_example(1 - q, x / q), style.DASHES[0], color=style.COLOURS[COLOURS[0]], lw=0.9)
        odd = np.unique([2 * int(c / q / 2) + 1 for c in x])
        vote = training_vote_error(1 - q, odd)
        axis.plot(odd * q, vote, style.DASHES[3], color=style.COLOURS[COLOURS[1]], lw=1.2)
    axis.set(yscale="log", xlabel=r"$l_{tr} (1 - p_a)$", ylabel="error on training prompts")
    axis.set_title(r"solid: $p_a^l / 2$; dotted: a vote", fontsize=9)
    axis.legend(fontsize=7, loc="lower left")
