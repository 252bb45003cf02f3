"""Our benchmark: what a training step costs, against the bare matrix-vector product it cannot avoid, and in any d."""

import time

import numpy as np

from plots import sizes
from plots.report import claim
from plots.style import COLOURS, MARKERS, figure, letters
from refimpl.attention.data import draw_experiment, signals, streams
from refimpl.attention.descent import descend_p
from refimpl.attention.head import linear_head
from refimpl.attention.runs.gram import descend, gram
from refimpl.attention.setting import Setting

TITLE = "The cost of a training step, one thread"
CAPTION = (
    "Time of a training step on one thread, in bare products of the Gram matrix and a vector, for one run (a): a few"
    " products in Gram form, tens to thousands in d dimensions. In Gram form it does not depend on d (b)."
)
STATEMENTS = ["attention Lemma D.1"]
# together : how many runs are trained at once; the first must be 1, with which the others' code is compared.
SETTINGS = dict(n=20, T=8, d=2000, dimensions=[100, 2000, 60_000], together=[1, 16, 32], steps=400, rounds=9)
QUICK = dict(dimensions=[100, 2000], steps=200, rounds=5)

ALPHA = Setting().alpha  # no time depends on the numbers that are computed with
ALONE, TOGETHER = 8.0, 3.0  # limits in bare products a run, for one run and for several


def best(function, rounds, calls=1):
    """Seconds a call: the quickest of `rounds` rounds, each of `calls` calls."""
    spent = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            function()
        spent.append((time.perf_counter() - start) / calls)
    return min(spent)


def problem(settings, seed, d):
    """A training set in d dimensions: sample, nu, M, gamma."""
    setting = sizes(Setting, settings)._replace(d=d)
    sample = draw_experiment(streams((seed, d))[0], setting)
    nu = linear_head(signals(setting.norm, d))
    return sample, nu, *gram(sample.X, nu)


def measure(settings, seed, jobs, progress):
    """Seconds a step and run: seconds {runs together: ...}, in_d {d: ...}, plain, autograd {form: ...}.

    bare : seconds of a product.  shapes : of the tokens and of the Gram matrix.
    """
    if settings["together"][0] != 1:
        raise ValueError(f"together: must begin with 1, got {settings['together']}")
    steps, rounds = settings["steps"], settings["rounds"]
    sample, nu, M, gamma = problem(settings, seed, settings["d"])
    out, vector = np.empty(len(M)), np.ascontiguousarray(gamma.ravel())
    bare = best(lambda: np.matmul(M, vector, out=out), 5 * rounds, 2000)
    seconds, in_d = {}, {}
    for runs in settings["together"]:
        progress(f"runs together: {runs}")
        seconds[runs] = gram_step(M, gamma, sample.Y, runs, steps, rounds) / runs
    for d in settings["dimensions"]:
        progress(f"d = {d}")
        other, _, *parts = problem(settings, seed, d)
        in_d[d] = gram_step(*parts, other.Y, 1, steps, rounds)
    plain = best(lambda: descend_p(sample.X, sample.Y, nu, ALPHA, 10), rounds) / 10
    progress("PyTorch, where it is installed")
    autograd = torch_steps(sample, nu, rounds)
    shapes = dict(tokens=sample.X.shape, gram=M.shape)
    return dict(bare=bare, seconds=seconds, in_d=in_d, plain=plain, autograd=autograd, shapes=shapes)


def gram_step(M, gamma, Y, runs, steps, rounds):
    """Seconds a step of that many copies of a run, trained together."""
    batch = (M, gamma, Y) if runs == 1 else [np.repeat(part[None], runs, axis=0) for part in (M, gamma, Y)]
    return best(lambda: descend(*batch, ALPHA, steps), rounds) / steps


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


def in_products(found):
    """{what: the time of a step of one run, in bare products}."""
    bare = found["bare"]
    times = {f"Gram form, {runs} run{'s' * (runs > 1)}": value / bare for runs, value in found["seconds"].items()}
    times["plain form in d dimensions"] = found["plain"] / bare
    return times | {f"PyTorch, {form}": value / bare for form, value in found["autograd"].items()}


def numbers(found, settings):
    bare = found["bare"]
    in_d = {d: value / bare for d, value in found["in_d"].items()}
    return dict(bare_product_us=bare * 1e6, times_the_product=in_products(found), in_d=in_d, shapes=found["shapes"])


def claims(found, settings):
    alone, autograd = found["seconds"][1], found["autograd"]
    rows = [few_products(runs, value / found["bare"]) for runs, value in found["seconds"].items()]
    rows.append(does_not_depend_on_d(found["in_d"]))
    return rows + [slower(form, autograd.get(form), alone) for form in ("(x W) p", "x (W p)", "W = I")]


def few_products(runs, products):
    limit = ALONE if runs == 1 else TOGETHER
    return claim(
        f"A Gram step costs few products a run, {runs} together",
        paper="-",
        measured=f"{products:.2f} products a run",
        threshold=f"<= {limit:g}",
        holds=products <= limit,
        settings="one thread",
    )


def does_not_depend_on_d(in_d):
    spread = max(in_d.values()) / min(in_d.values())
    return claim(
        "The cost of a Gram step does not depend on d",
        paper="-",
        measured=f"slowest over quickest {spread:.2f}, d = {min(in_d)} to {max(in_d)}",
        threshold="<= 1.3",
        holds=spread <= 1.3,
    )


def slower(form, seconds, alone):
    return claim(
        f"The authors' step by autograd, {form}, is slower",
        paper="-",
        measured="PyTorch is not installed" if seconds is None else f"{seconds / alone:.0f} times a Gram step",
        threshold="> 1",
        holds=None if seconds is None else seconds > alone,
        settings="float32, one thread",
    )


def picture(found, settings):
    fig, axes = figure(9.5, 3.8, 1, 2, width_ratios=(3, 2))
    draw_bars(axes[0], in_products(found), found)
    x, y = list(found["in_d"]), [value / found["bare"] for value in found["in_d"].values()]
    axes[1].plot(x, y, "-", marker=MARKERS[0], color=COLOURS[0])
    axes[1].set(xscale="log", xlabel=r"dimension $d$", ylabel="time of a step, in products", ylim=(0, 1.4 * max(y)))
    axes[1].set_title("Gram form, one run, any d", fontsize=9)
    letters(axes)
    return fig


def draw_bars(axes, times, found):
    n, T, d = found["shapes"]["tokens"]
    names, values = list(times)[::-1], list(times.values())[::-1]
    axes.barh(names, values, color=[COLOURS[0] if name.startswith("Gram") else COLOURS[3] for name in names])
    for k, value in enumerate(values):
        axes.annotate(f" {value:.0f}" if value >= 100 else f" {value:.3g}", (value, k), va="center", fontsize=8)
    product = f"products of a {n * T} x {n * T} matrix and a vector ({found['bare'] * 1e6:.1f} us)"
    axes.set(xscale="log", xlim=(0.5, 10 * max(values)))
    axes.set(xlabel=f"time of a step, in {product}", ylabel="form of the step")
    axes.set_title(f"n = {n}, T = {T}, d = {d}, per run", fontsize=9)
