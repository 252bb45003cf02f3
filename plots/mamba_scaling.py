"""How the iterations and the prompt length that training needs scale: SGD, Lemma 3's law, and the printed orders."""

import numpy as np

from plots import style
from plots.report import claim
from refimpl.mamba.dynamics import laplacian
from refimpl.mamba.guarantees import Problem, no_clean_example, training_vote_error
from refimpl.mamba.runs.scaling import (
    MOST,
    ORDERS,
    WITHIN,
    examples_needed,
    exponent,
    iterations_law,
    iterations_needed,
    training_error,
)
from refimpl.mamba.tasks import cycle, disjoint_pairs
from refimpl.mamba.training import Setting
from refimpl.sweep import complete, sweep

TITLE = "Iterations and prompt length that training needs: fitted orders against the printed ones"
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
    "1 - p_a": [0.09, 0.16, 0.28, 0.51, 0.9],
    "M_1": [4, 7, 13, 22, 40],
    "beta at fixed delta beta": [1.0, 1.8, 3.2, 5.6, 10.0],
    "l_tr": [8, 14, 25, 45, 80],
    "length: 1 - p_a": [0.05, 0.1, 0.2, 0.5],
    "length: l (1 - p_a)": [1, 2, 3, 4],
    "length: steps": 500,
    "prompts": 8000,
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


def draw(settings, seed, jobs, progress):
    seeds = np.random.SeedSequence(seed).generate_state(settings["seeds"]).tolist()
    runs, laws, cells = [], {}, []
    for name, (change, step, _) in ORDERS.items():
        for x in settings[name]:
            setting = Setting(**{"delta": settings["delta"], **change(x)})
            L = laplacian(cycle(setting.M1), setting.M1)
            for model, eta in enumerate(step(x)):
                p = Problem(setting.M1, setting.V, setting.beta, setting.kappa_a, setting.p_a, setting.l, eta)
                laws.setdefault((name, model), []).append(iterations_law(L, p, setting.delta, model == 0))
                for s in seeds:
                    runs.append((name, model, x))
                    rng = np.random.default_rng(s)
                    cells.append((setting, model == 0, eta, settings["B"], rng, settings["margin"]))
    done = lambda k, of: progress(f"{k} of {of} trainings") if k % 20 == 0 else None
    results = complete(sweep(iterations_needed, cells, jobs, done))
    if max(results) >= MOST:
        raise ValueError(f"{runs[int(np.argmax(results))]}: the margin is not reached in {MOST} steps")
    found = {(name, model): ([], []) for name in ORDERS for model in (0, 1)}
    for (name, model, x), T in zip(runs, results):
        found[name, model][0].append(x)
        found[name, model][1].append(T)
    lengths = prompt_lengths(settings, seed, jobs, progress)

    figure, axes = style.figure(10, 6, 2, 3)
    claims, numbers = [], {}
    for axis, label, (name, (_, _, printed)) in zip(axes.flat, LABELS, ORDERS.items()):
        for model in (0, 1):
            fit = exponent(*found[name, model])
            law = exponent(settings[name], laws[name, model])[0]
            panel(axis, model, *found[name, model], settings[name], laws[name, model], fit)
            claims.append(verdict(name, model, printed[model], fit, law, settings))
            numbers[f"{MODELS[model]}, {name}"] = {"exponent, low, high": fit, "law": law, "T": found[name, model][1]}
        axis.set(xscale="log", yscale="log", xlabel=label, ylabel="steps to E[zF] = 1/2")
        for side in (axis.xaxis, axis.yaxis):
            side.set_minor_formatter("")
        axis.set_xticks([settings[name][k] for k in (0, len(settings[name]) // 2, -1)])
        axis.xaxis.set_major_formatter("{x:g}")
        axis.legend(fontsize=7, handlelength=1.5)
    claims += length_panel(axes.flat[5], lengths, settings)
    figure.suptitle("solid: fit; dotted: Lemma 3's law", fontsize=9)
    numbers["errors by (1 - p_a, l (1 - p_a), model)"] = {str(key): value for key, value in lengths.items()}
    return figure, claims, numbers


def panel(axis, model, x, T, xs, law, fit):
    colour = style.COLOURS[(0, 2)[model]]
    slope, low, high = fit
    name = f"{SHORT[model]}: {slope:.2f} [{low:.2f}, {high:.2f}]"
    axis.plot(x, T, style.MARKERS[model], color=colour, ms=4, mfc="none", label=name)
    line = np.exp(np.mean(np.log(T)) + slope * (np.log(xs) - np.mean(np.log(x))))
    axis.plot(xs, line, style.DASHES[0], color=colour, lw=1)
    axis.plot(xs, law, style.DASHES[3], color=colour, lw=1.6)


def verdict(name, model, printed, fit, law, settings):
    slope, low, high = fit
    return claim(
        f"The iterations that {MODELS[model]} needs scale as {name} to the {printed}",
        f"{printed}" + (", in Theorem 3's proof -1" if (name[:4], model) == ("beta", 1) else ""),
        f"{slope:.2f}, 95 % interval [{low:.2f}, {high:.2f}]; Lemma 3's law {law:.2f}",
        "exponent within 0.30 of the printed one: a factor two over the decade",
        abs(slope - printed) < WITHIN,
        f"to E[zF] = {settings['margin']}, {settings[name][0]:g} to {settings[name][-1]:g}",
    )


def prompt_lengths(settings, seed, jobs, progress):
    """{(1 - p_a, l (1 - p_a), model): error on training prompts}."""
    keys, cells = [], []
    for q in settings["length: 1 - p_a"]:
        for c in settings["length: l (1 - p_a)"]:
            l = int(round(c / q))
            setting = Setting(tasks=disjoint_pairs(6), p_a=1 - q, l=l)
            for model, eta in enumerate((1.0, 0.2 / l)):
                keys.append((q, c, model))
                rng = np.random.default_rng(np.random.SeedSequence((seed, len(keys))))
                cells.append((setting, model == 0, eta, 64, settings["length: steps"], settings["prompts"], rng))
    done = lambda k, of: progress(f"{k} of {of} prompt lengths")
    return dict(zip(keys, complete(sweep(training_error, cells, jobs, done))))


def length_panel(axis, lengths, settings):
    qs, cs = settings["length: 1 - p_a"], settings["length: l (1 - p_a)"]
    for k, q in enumerate(qs):
        look = dict(color=style.COLOURS[k % 5], ms=4, mfc="none")
        for model in (0, 1):
            values = [lengths[q, c, model] for c in cs]
            axis.plot(cs, values, style.MARKERS[model], **look, label=f"$1 - p_a$ = {q:g}" if model == 0 else None)
        x = np.linspace(cs[0], cs[-1], 30)
        axis.plot(x, no_clean_example(1 - q, x / q), style.DASHES[0], color=look["color"], lw=0.9)
        odd = [2 * int(c / q / 2) + 1 for c in x]
        axis.plot(np.multiply(odd, q), training_vote_error(1 - q, odd), style.DASHES[3], color=look["color"], lw=1.2)
    axis.set(yscale="log", xlabel=r"$l_{tr} (1 - p_a)$", ylabel="error on training prompts")
    explained = "circles Mamba, line $p_a^l / 2$; squares linear, dots its vote\none training a point"
    axis.set_title(explained, fontsize=7)
    axis.legend(fontsize=7)
    n, q = settings["prompts"], np.geomspace(0.01, 0.1, 6)
    off = [
        abs(lengths[q_, c, 0] - (f := no_clean_example(1 - q_, round(c / q_)))) / (4 * np.sqrt(f / n) + 0.05 * f)
        for q_ in qs
        for c in cs
    ]
    gap = exponent(q, [examples_needed((1 - x) / 2, 0.05) for x in q])
    last = cs[-1]
    ends = [lengths[x, last, 1] for x in (qs[0], qs[-1])]
    return [
        claim(
            "Mamba's error on training prompts is p_a^l / 2, the least of any model: l_tr is of order 1/(1 - p_a)",
            "l_tr >~ (1 - p_a)^-1 log M_1",
            f"largest deviation {max(off):.2f} of what is allowed",
            "each within 4 standard errors + 5 %",
            max(off) < 1,
            "disjoint pairs, one training a point",
        ),
        claim(
            "l_tr of order 1/(1 - p_a) is enough for the linear Transformer (Theorem 3(iii))",
            "l_tr >~ (1 - p_a)^-1 log M_1",
            f"at l_tr (1 - p_a) = {last} the error is {ends[1]:.3f} at 1 - p_a = {qs[-1]:g} and {ends[0]:.3f} at "
            f"{qs[0]:g}; "
            f"the length needed scales as (1 - p_a)^{gap[0]:.2f} [{gap[1]:.2f}, {gap[2]:.2f}]",
            "exponent within 0.30 of -1: a factor two over the decade",
            abs(gap[0] + 1) < WITHIN,
            "one training a point; exact vote, error 0.05, 1 - p_a from 0.01 to 0.1",
        ),
    ]
