"""Ours: what a step costs in pattern coordinates, beside the plain form and, where it can be imported, PyTorch."""

import time

import numpy as np

from plots import style
from plots.report import claim
from refimpl.mamba.model import loss_gradient
from refimpl.mamba.runs.patterns import encode, gradient
from refimpl.mamba.prompts import draw_training, tokens
from refimpl.mamba.tasks import cycle, orthogonal_patterns
from refimpl.mamba.training import Setting, initial, sgd, start

TITLE = "Cost of a training step: pattern coordinates, plain form, PyTorch autograd"
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


def draw(settings, seed, jobs, progress):
    rng, setting = np.random.default_rng(seed), Setting(l=settings["l"])
    M1, M2, V, B = setting.M1, setting.M2, setting.V, settings["B"]
    law = (cycle(M1), M2, V, setting.p_a, setting.K)
    prompts = draw_training(rng, B, setting.l, *law)
    outliers = np.full(V, setting.kappa_a * setting.outlier_norm)
    P, Psi = encode(prompts, M1, M2, setting.beta, outliers), start(setting, rng)

    progress("steps at l = 20")
    runs = {
        "gradient step": lambda: gradient(P, prompts.z, Psi),
        "linear Transformer's": lambda: gradient(P, prompts.z, Psi._replace(w=None)),
        "whole step, fresh prompts": lambda: step_seconds(setting, B, settings["sgd_steps"], rng),
        "plain form, d = 30": plain_run(30, prompts, setting, rng),
    }
    peers = torch_runs(P, prompts.z, Psi)
    cost = timed({**runs, **peers}, settings["rounds"], settings["calls"], {"whole step, fresh prompts"})

    progress("lengths and dimensions")
    long = {}
    for length in settings["lengths"]:
        p = draw_training(rng, settings["B_long"], length, *law)
        long[length] = lambda p=p, P=encode(p, M1, M2, setting.beta, outliers): gradient(P, p.z, Psi)
    by_length = timed(long, settings["rounds_long"], 5)
    by_dimension = timed(
        {d: plain_run(d, prompts, setting, rng) for d in settings["dimensions"]}, settings["rounds_long"], 1
    )
    steps, dimensions = settings["sgd_steps"], settings["dimensions"]
    flat = {d: lambda s=setting._replace(d=d): step_seconds(s, B, steps, rng) for d in dimensions}
    flat = timed(flat, settings["rounds"], 1, dimensions)

    figure = picture(cost, by_length, by_dimension, flat, settings["B_long"])
    claims = compare(cost, peers) + [length_claim(by_length), dimension_claim(flat)]
    numbers = {
        "microseconds": {name: 1e6 * t for name, t in cost.items()},
        "by length": by_length,
        "plain by dimension": by_dimension,
        "pattern coordinates by dimension": flat,
    }
    return figure, claims, numbers


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


def step_seconds(setting, B, steps, rng, window=8):
    """Seconds of one step of sgd with its prompts: the least mean over `window` steps, which hold two draws of four."""
    times = sgd(setting, start(setting, rng), 1.0, B, steps, rng, lambda t, _: time.perf_counter(), range(steps + 1))[1]
    return float(np.min(np.subtract(times[window:], times[:-window])) / window)


def plain_run(d, prompts, setting, rng):
    """The gradients of model.py in d dimensions on the same prompts."""
    patterns = orthogonal_patterns(setting.M1, setting.M2, setting.V, d, setting.beta, setting.outlier_norm)
    P = tokens(prompts, patterns, setting.kappa_a * patterns.v)
    Psi = initial(d, setting.delta, rng)
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

    runs = {"PyTorch float64": run(torch.float64), "PyTorch float32": run(torch.float32)}
    for ours, theirs in zip(gradient(P, z, Psi)[0], runs["PyTorch float64"]()):
        if not np.allclose(ours, theirs.numpy(), rtol=1e-8, atol=1e-12):
            raise ValueError("PyTorch's gradient is another one")
    return runs


def compare(cost, peers):
    """The two ratios to PyTorch; input missing where it cannot be imported."""
    rows = (
        ("gradient step", "The gradient step is 3 times as fast as PyTorch autograd's in float64", 3),
        ("whole step, fresh prompts", "A whole step, prompts included, is 2 times as fast as that", 2),
    )
    found = []
    for name, text, factor in rows:
        ratio = cost["PyTorch float64"] / cost[name] if peers else None
        measured = f"{ratio:.1f} times" if peers else "PyTorch cannot be imported here"
        measured += f" ({1e6 * cost[name]:.0f} us)"
        where = f"l = 20, B = 128, one thread, {'the same arrays, ' if peers else ''}least of several rounds"
        found.append(claim(text, "ours", measured, f">= {factor}", ratio and ratio >= factor, where))
    return found


def length_claim(by_length):
    l, t = (np.array(list(x), dtype=float) for x in (by_length.keys(), by_length.values()))
    tail = l >= 1000
    slope = np.polyfit(np.log(l[tail]), np.log(t[tail]), 1)[0]
    return claim(
        "The gradient step is linear in l up to 10^4",
        "ours",
        f"exponent {slope:.2f} from l = 10^3 to 10^4",
        "at most 1.2",
        slope <= 1.2,
    )


def dimension_claim(flat):
    t = np.array(list(flat.values()))
    return claim(
        "A step in pattern coordinates costs the same for every d",
        "ours",
        f"largest over smallest {t.max() / t.min():.2f}, d = {min(flat)} to {max(flat)}",
        "at most 1.3",
        t.max() / t.min() <= 1.3,
    )


def picture(cost, by_length, by_dimension, flat, B_long):
    figure, (bars, length, dimension) = style.figure(11, 3.6, 1, 3, width_ratios=(1.3, 1, 1))
    names = list(cost)[::-1]
    bars.barh(
        names, [1e6 * cost[name] for name in names], color=[style.COLOURS[2 if "PyTorch" in n else 0] for n in names]
    )
    for k, name in enumerate(names):
        bars.text(1e6 * cost[name], k, f" {1e6 * cost[name]:.0f}", va="center", fontsize=8)
    bars.margins(x=0.15)
    bars.set_xlabel("microseconds, l = 20, B = 128, one thread")
    bars.tick_params(axis="y", labelsize=8)
    length.loglog(
        list(by_length), [1e6 * t for t in by_length.values()], color=style.COLOURS[0], marker="o", label="measured"
    )
    last = max(by_length)
    length.loglog(
        list(by_length),
        [1e6 * by_length[last] * x / last for x in by_length],
        color=style.COLOURS[2],
        ls="--",
        label="linear in l",
    )
    length.set_xlabel(f"prompt length l (B = {B_long})")
    length.set_ylabel("gradient step, microseconds")
    length.legend(fontsize=8)
    for k, (row, label) in enumerate(
        ((by_dimension, "plain form, gradient"), (flat, "pattern coordinates, whole step"))
    ):
        look = dict(color=style.COLOURS[2 - 2 * k], marker=style.MARKERS[k], ls=style.DASHES[k], label=label)
        dimension.loglog(list(row), [1e6 * t for t in row.values()], **look)
    dimension.set_xticks(list(flat), [str(d) for d in flat])
    dimension.minorticks_off()
    dimension.set_xlabel("dimension d")
    dimension.set_ylabel("microseconds, l = 20, B = 128")
    dimension.legend(fontsize=8, loc="upper left")
    return figure
