"""Ours: what a step costs in pattern coordinates, beside the plain form and, where it can be imported, PyTorch."""

import time

import numpy as np

from plots import sizes, style
from plots.mamba import headroom
from plots.report import claim
from refimpl.mamba.model import loss_gradient
from refimpl.mamba.prompts import tokens, training_prompts
from refimpl.mamba.runs.bench import MAMBA, train
from refimpl.mamba.runs.patterns import encode, gradient, start
from refimpl.mamba.setting import Setting
from refimpl.mamba.tasks import orthogonal_patterns
from refimpl.mamba.training import initial

TITLE = "Cost of a training step: pattern coordinates, plain form, PyTorch autograd"
CAPTION = (
    "Microseconds of a step (a): the gradient in pattern coordinates beside PyTorch autograd's (light) and the plain "
    "form. It grows at most as the prompt's length (b) and does not depend on the dimension (c)."
)
STATEMENTS = ["mamba Section 8.3 (algorithm)"]
SETTINGS = {
    "B": 128,
    "l": 20,
    "rounds": 150,
    "calls": 4,
    "sgd_steps": 40,
    "B_long": 2,
    "rounds_long": 15,
    "lengths": [10, 30, 100, 300, 1000, 3000, 10000],
    "dimensions": [20, 60, 200, 600],
}
QUICK = {"rounds": 30, "rounds_long": 5, "dimensions": [20, 60, 200]}
WHOLE, GRADIENT, PEER = "whole step, fresh prompts", "gradient step", "PyTorch float64"
WINDOW = 8  # steps: two draws of four batches


def measure(settings, seed, jobs, progress):
    """Seconds of each kind of run, and the shapes of the arrays that they ran on."""
    rng, setting = np.random.default_rng(seed), sizes(Setting, settings)
    prompts = training_prompts(rng, setting.B, setting)
    P, Psi = encode(prompts, setting), start(setting, rng)
    progress(f"steps at l = {setting.l}")
    runs = {
        GRADIENT: lambda: gradient(P, prompts.z, Psi),
        "linear Transformer's": lambda: gradient(P, prompts.z, Psi._replace(w=None)),
        WHOLE: lambda: step_seconds(setting, settings["sgd_steps"], rng),
        f"plain form, d = {setting.d}": plain_run(prompts, setting, rng),
    } | torch_runs(P, prompts.z, Psi)
    cost = timed(runs, settings["rounds"], settings["calls"], {WHOLE})
    progress("lengths and dimensions")
    shapes = {"tokens": P.shape, "tokens by length": []}
    rows = {"cost": cost, "by length": by_length(settings, setting, Psi, rng, shapes["tokens by length"])}
    wide = {d: setting._replace(d=d) for d in settings["dimensions"]}
    plain = {d: plain_run(prompts, s, rng) for d, s in wide.items()}
    flat = {d: lambda s=s: step_seconds(s, settings["sgd_steps"], rng) for d, s in wide.items()}
    rows["plain by dimension"] = timed(plain, settings["rounds_long"], 1)
    rows["pattern coordinates by dimension"] = timed(flat, settings["rounds"], 1, wide)
    return rows | shapes


def by_length(settings, setting, Psi, rng, shapes):
    """{l: seconds} of a gradient step on B_long prompts; their shapes are added to the list."""
    runs = {}
    for l in settings["lengths"]:
        prompts = training_prompts(rng, settings["B_long"], setting._replace(l=l))
        P = encode(prompts, setting)
        shapes.append(P.shape)
        runs[l] = lambda P=P, z=prompts.z: gradient(P, z, Psi)
    return timed(runs, settings["rounds_long"], 5)


def timed(runs, rounds, calls, own=()):
    """Seconds of one call of each run: the least over the rounds, the runs taking turns in each round.

    A round is a few milliseconds, short enough to fall between the interruptions of a busy machine.
    own : the runs that measure themselves and return the seconds.
    """
    best = dict.fromkeys(runs, np.inf)
    for run in runs.values():
        run()
    for _ in range(rounds):
        for name, run in runs.items():
            if name in own:
                best[name] = min(best[name], run())
                continue
            run()  # the others have emptied the cache
            begin = time.perf_counter()
            for _ in range(calls):
                run()
            best[name] = min(best[name], (time.perf_counter() - begin) / calls)
    return best


def step_seconds(setting, steps, rng):
    """Seconds of one step of SGD with its prompts: the least mean over a window of steps."""
    times = train(MAMBA, setting, steps, rng, lambda t, _: time.perf_counter(), range(steps + 1))[1]
    return float(np.min(np.subtract(times[WINDOW:], times[:-WINDOW])) / WINDOW)


def plain_run(prompts, setting, rng):
    """The gradients of model.py in d dimensions on the same prompts."""
    s = setting
    patterns = orthogonal_patterns(s.M1, s.M2, s.V, s.d, s.beta, s.outlier_norm)
    P, Psi = tokens(prompts, patterns, s.kappa_a * patterns.v), initial(s.d, s.delta, rng)
    return lambda: loss_gradient(P, prompts.z, Psi)


def torch_runs(P, z, Psi):
    """The same formula under PyTorch autograd on the same arrays, one thread; {} where there is no PyTorch."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)

    def run(kind):
        tokens_, labels = (torch.tensor(x, dtype=kind) for x in (P, z))
        W_B, W_C, w = (torch.tensor(x, dtype=kind, requires_grad=True) for x in Psi)

        def step():
            query, y = tokens_[:, -1], tokens_[:, :, -1]
            s = torch.bmm(tokens_, (query @ W_C.T @ W_B)[:, :, None])[:, :, 0]
            a = tokens_ @ w
            passes = torch.sigmoid(-a)
            after = torch.cat([passes[:, 1:].flip(1).cumprod(1).flip(1), torch.ones_like(passes[:, :1])], 1)
            F = (torch.sigmoid(a) * after * y * s).sum(1)
            return torch.autograd.grad(torch.relu(1 - labels * F).mean(), (W_B, W_C, w))

        return step

    runs = {PEER: run(torch.float64), "PyTorch float32": run(torch.float32)}
    for ours, theirs in zip(gradient(P, z, Psi)[0], runs[PEER]()):
        if not np.allclose(ours, theirs.numpy(), rtol=1e-8, atol=1e-12):
            raise ValueError("PyTorch's gradient is another one")
    return runs


def numbers(found, settings):
    dimensions = ("plain by dimension", "pattern coordinates by dimension")
    rows = {"microseconds": {name: 1e6 * t for name, t in found["cost"].items()}, "by length": found["by length"]}
    rows |= {name: found[name] for name in dimensions}
    return rows | {name: found[name] for name in ("tokens", "tokens by length")}


def claims(found, settings):
    gradient_text = "The gradient step is 3 times as fast as PyTorch autograd's in float64"
    whole_text = "A whole step, prompts included, is 2 times as fast as PyTorch autograd's gradient in float64"
    return [
        peer_claim(gradient_text, 3, GRADIENT, found, settings),
        peer_claim(whole_text, 2, WHOLE, found, settings),
        length_claim(found["by length"]),
        dimension_claim(found["pattern coordinates by dimension"]),
    ]


def peer_claim(text, factor, name, found, settings):
    """The ratio to PyTorch; input missing where it cannot be imported."""
    cost = found["cost"]
    ratio = cost[PEER] / cost[name] if PEER in cost else None
    measured = f"{ratio:.1f} times" if ratio else "PyTorch cannot be imported here"
    same = "the same arrays, " if ratio else ""
    return claim(
        text,
        paper="ours",
        measured=f"{measured} ({1e6 * cost[name]:.0f} us)",
        threshold=f">= {factor}",
        holds=ratio and ratio >= factor,
        settings=f"{where(settings)}, {same}least of several rounds",
    )


def length_claim(seconds):
    l, t = (np.array(list(x), dtype=float) for x in (seconds.keys(), seconds.values()))
    tail = l >= 1000
    slope = np.polyfit(np.log(l[tail]), np.log(t[tail]), 1)[0] if np.sum(tail) > 1 else None
    return claim(
        f"The gradient step is at most linear in l up to {l.max():g}",
        paper="ours",
        measured="-" if slope is None else f"exponent {slope:.2f} from l = 1000 to {l.max():g}",
        threshold="at most 1.2",
        holds=None if slope is None else slope <= 1.2,
    )


def dimension_claim(seconds):
    t = np.array(list(seconds.values()))
    return claim(
        "A step in pattern coordinates costs the same for every d",
        paper="ours",
        measured=f"largest over smallest {t.max() / t.min():.2f}, d = {min(seconds)} to {max(seconds)}",
        threshold="at most 1.3",
        holds=t.max() / t.min() <= 1.3,
    )


def where(settings):
    return f"l = {settings['l']}, B = {settings['B']}, one thread"


def picture(found, settings):
    figure, axes = style.figure(11, 3.8, 1, 3, width_ratios=(1.3, 1, 1))
    cost_panel(axes[0], found["cost"], settings)
    length_panel(axes[1], found["by length"], settings)
    dimension_panel(axes[2], found, settings)
    style.letters(axes)
    return figure


def cost_panel(axis, cost, settings):
    names = list(cost)[::-1]
    colours = [style.COLOURS[2 if "PyTorch" in name else 0] for name in names]
    axis.barh(names, [1e6 * cost[name] for name in names], color=colours)
    for k, name in enumerate(names):
        axis.text(1e6 * cost[name], k, f" {1e6 * cost[name]:.0f}", va="center", fontsize=8)
    axis.margins(x=0.15)
    axis.set(xlabel=f"microseconds, {where(settings)}", ylabel="what is timed")
    axis.set_title("one step", fontsize=9)
    axis.tick_params(axis="y", labelsize=8)


def length_panel(axis, seconds, settings):
    lengths, times = list(seconds), [1e6 * t for t in seconds.values()]
    axis.loglog(lengths, times, color=style.COLOURS[0], marker="o", label="measured")
    line = [times[-1] * l / lengths[-1] for l in lengths]
    axis.loglog(lengths, line, color=style.COLOURS[2], ls="--", label="linear in l")
    axis.set(xlabel=f"prompt length l (B = {settings['B_long']})", ylabel="microseconds")
    axis.set_title("gradient step by length", fontsize=9)
    headroom(axis)
    axis.legend(fontsize=8, loc="upper left")


def dimension_panel(axis, found, settings):
    rows = ("plain by dimension", "plain form, gradient"), ("pattern coordinates by dimension", "pattern coordinates")
    for k, (name, label) in enumerate(rows):
        look = dict(color=style.COLOURS[2 - 2 * k], marker=style.MARKERS[k], ls=style.DASHES[k], label=label)
        axis.loglog(list(found[name]), [1e6 * t for t in found[name].values()], **look)
    dimensions = settings["dimensions"]
    axis.set_xticks(dimensions, [str(d) for d in dimensions])
    axis.minorticks_off()
    headroom(axis)
    axis.set(xlabel="dimension d", ylabel=f"microseconds (l = {settings['l']}, B = {settings['B']})")
    axis.set_title("step by dimension", fontsize=9)
    axis.legend(fontsize=8, loc="upper left")
