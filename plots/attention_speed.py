"""Our benchmark: what a training step costs, against the bare matrix-vector product it cannot avoid, and in any d."""

import time

import numpy as np

from plots.report import claim
from plots.style import COLOURS, figure
from refimpl.attention.data import draw_experiment, signals, streams
from refimpl.attention.descent import descend_p
from refimpl.attention.experiments import ALPHA, flips
from refimpl.attention.runs.gram import descend, gram
from refimpl.attention.head import linear_head

TITLE = "The cost of a training step, one thread"
STATEMENTS = ["attention Lemma D.1"]
SETTINGS = dict(n=20, d=2000, dimensions=[100, 2000, 60_000], together=[1, 16, 32], steps=400, rounds=9)
QUICK = dict(dimensions=[100, 2000], steps=200, rounds=5)

LIMITS = {1: 8.0, 16: 3.0, 32: 3.0}  # times the bare product, per run


def best(function, rounds, calls=1):
    """Seconds a call: the quickest of `rounds` rounds, each of `calls` calls."""
    spent = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            function()
        spent.append((time.perf_counter() - start) / calls)
    return min(spent)


def setting(seed, n, d, norm=20.0):
    sample = draw_experiment(streams((seed, d))[0], n, norm, d, flips(n))
    nu = linear_head(signals(norm, d))
    return sample, nu, *gram(sample.X, nu)


def draw(settings, seed, jobs, progress):
    n, d, steps, rounds = (settings[name] for name in ("n", "d", "steps", "rounds"))
    sample, nu, M, gamma = setting(seed, n, d)
    out, vector = np.empty(len(M)), np.ascontiguousarray(gamma.ravel())
    bare = best(lambda: np.matmul(M, vector, out=out), 5 * rounds, 2000)
    seconds = {}
    for runs in settings["together"]:
        progress(f"runs together: {runs}")
        batch = [np.repeat(a[None], runs, axis=0) for a in (M, gamma, sample.Y)]
        if runs == 1:
            batch = [M, gamma, sample.Y]
        seconds[runs] = best(lambda: descend(*batch, ALPHA, steps), rounds) / steps / runs
    in_d = {}
    for dimension in settings["dimensions"]:
        progress(f"d = {dimension}")
        other, _, *parts = setting(seed, n, dimension)
        in_d[dimension] = best(lambda: descend(*parts, other.Y, ALPHA, steps), rounds) / steps
    plain = best(lambda: descend_p(sample.X, sample.Y, nu, ALPHA, 10), rounds) / 10
    progress("PyTorch, where it is installed")
    autograd = torch_steps(sample, nu, rounds)
    bars = {f"Gram form, {runs} run{'s' * (runs > 1)}": value / bare for runs, value in seconds.items()}
    bars["plain form in d dimensions"] = plain / bare
    bars.update({f"PyTorch, {form}": value / bare for form, value in autograd.items()})
    numbers = dict(bare_product_us=bare * 1e6, times_the_product=bars, in_d={k: v / bare for k, v in in_d.items()})
    return picture(bars, in_d, bare, settings), claims(seconds, in_d, bare, autograd), numbers


def torch_steps(sample, nu, rounds):
    """Seconds a step by autograd in float32, {} where PyTorch is missing: x W p left to right, W p first, W = I."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    X, Y, nu = (torch.tensor(a, dtype=torch.float32) for a in (sample.X, sample.Y, nu))
    W, p = torch.eye(len(nu)), torch.zeros(len(nu), requires_grad=True)
    forms = {"(x W) p": lambda: X @ W @ p, "x (W p)": lambda: X @ (W @ p), "W = I": lambda: X @ p}

    def step(logits):
        f = (torch.softmax(logits(), dim=-1) * (X @ nu)).sum(-1)
        torch.nn.functional.softplus(-Y * f).mean().backward()
        with torch.no_grad():
            p.sub_(ALPHA * p.grad)
            p.grad = None

    return {form: best(lambda: step(logits), max(3, rounds // 2), 20) for form, logits in forms.items()}


def picture(bars, in_d, bare, settings):
    fig, axes = figure(9.5, 3.6, 1, 2, width_ratios=(3, 2))
    axes[0].barh(list(bars)[::-1], list(bars.values())[::-1], color=COLOURS[0])
    for k, value in enumerate(list(bars.values())[::-1]):
        axes[0].annotate(f" {value:.0f}" if value >= 100 else f" {value:.3g}", (value, k), va="center", fontsize=8)
    axes[0].set(
        xscale="log", xlabel=f"time of a step, in products of a 160 x 160 matrix and a vector ({bare * 1e6:.1f} us)"
    )
    axes[0].set_xlim(0.5, 10 * max(bars.values()))
    axes[0].set_title(f"n = {settings['n']}, T = 8, d = {settings['d']}, per run", fontsize=10)
    axes[1].plot(list(in_d), [value / bare for value in in_d.values()], "o-", color=COLOURS[0])
    axes[1].set(xscale="log", xlabel="dimension d", ylabel="time of a step, in products")
    axes[1].set_ylim(0, 1.4 * max(in_d.values()) / bare)
    axes[1].set_title("Gram form, one run, any d", fontsize=10)
    return fig


def claims(seconds, in_d, bare, autograd):
    rows = [
        claim(
            f"a Gram step costs few products, {runs} together",
            "-",
            f"{value / bare:.2f} products a run",
            f"<= {LIMITS[runs]:g}",
            value / bare <= LIMITS[runs],
            "one thread",
        )
        for runs, value in seconds.items()
    ]
    spread = max(in_d.values()) / min(in_d.values())
    rows.append(
        claim(
            "its cost does not depend on d",
            "-",
            f"slowest over quickest {spread:.2f}, d = {min(in_d)} to {max(in_d)}",
            "<= 1.3",
            spread <= 1.3,
        )
    )
    for form in ("(x W) p", "x (W p)", "W = I"):
        measured = f"{autograd[form] / seconds[1]:.0f} times a Gram step" if autograd else "PyTorch is not installed"
        rows.append(
            claim(
                f"the authors' step by autograd, {form}, is slower",
                "-",
                measured,
                "> 1",
                autograd[form] > seconds[1] if autograd else None,
                "float32, one thread",
            )
        )
    return rows
