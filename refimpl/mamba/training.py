r"""Sections 2 and 8.3: the initial weights, minibatch SGD with fresh prompts at every step, and the test error.

    setting = Setting()                                     # Section 4.1's numbers
    Psi, seen = sgd(setting, start(setting, rng), eta=1.0, B=128, steps=3000, rng=rng)

SGD runs in pattern coordinates (patterns.py), where a step costs the same for every d.
"""

from typing import NamedTuple

import numpy as np

from refimpl.checks import Diverged, count, finite, labels, number
from refimpl.mamba.model import Weights, loss_gradient
from refimpl.mamba.runs.patterns import encode, gradient
from refimpl.mamba.prompts import Prompts, draw_training, training_prompts
from refimpl.mamba.tasks import cycle, pairs


class Setting(NamedTuple):
    """Section 4.1. What a training run is made of; where the paper is silent, our default.

    d, M1, M2, V, beta, kappa_a, p_a, l, delta : the paper's.  K, outlier_norm : ours.
    tasks : (n, 2) training tasks, or None for Condition 1's cycle.

    States: mamba Section 8.3 (algorithm)
    """

    d: int = 30
    M1: int = 6
    M2: int = 10
    V: int = 3
    beta: float = 3.0
    kappa_a: float = 2.0
    p_a: float = 0.6
    l: int = 20
    delta: float = 0.2
    K: float = 0.5
    outlier_norm: float = 3.0
    tasks: object = None


def initial(d, delta, rng, m=None, variance=None, gated=True):
    r"""Section 2. $\delta$ on the first d diagonal entries of W_B and W_C; $w \sim N(0, I/(d+1))$.

    The other entries are 0, where the paper is silent.
    m : the state size, d + 1 unless given; the printed m = l + 1 has fewer than d diagonal entries where l + 1 < d.
    variance : of w's entries, 1 / (d + 1) unless given.  gated : w = None if not.
    Returns Weights of shapes (m, d+1), (m, d+1), (d+1,).  Raises ValueError for a delta outside (0, 0.2].

    States: mamba Section 2 (initialisation)
    """
    d, delta = count("d", d), number("delta", delta, most=0.2, above=0)
    m = d + 1 if m is None else count("m", m)
    variance = 1 / (d + 1) if variance is None else number("variance", variance, 0)
    W = np.zeros((m, d + 1))
    W[range(min(m, d)), range(min(m, d))] = delta
    return Weights(W, W.copy(), np.sqrt(variance) * rng.standard_normal(d + 1) if gated else None)


def start(setting, rng, gated=True):
    r"""Section 2. The initial weights in pattern coordinates: $\delta$ on the diagonal, $w \sim N(0, I/(d+1))$ still.

    Returns Weights (D, D+1), (D, D+1), (D+1,), D = M1 + M2 + V; w is None if not gated.
    Raises ValueError where D > d.

    States: mamba Section 2 (initialisation)
    """
    D = setting.M1 + setting.M2 + setting.V
    count("d", setting.d, D)
    return initial(D, setting.delta, rng, m=D, variance=1 / (setting.d + 1), gated=gated)


def sgd(setting, Psi, eta, B, steps, rng, record=None, at=(), batches=None, gradient=gradient):
    r"""Section 8.3. $\Psi \gets \Psi - \eta \, \partial \frac{1}{B} \sum_{n \in \mathcal B_t} \ell(\Psi; P^n, z^n)$.

    Every step has fresh prompts (N = B T in Theorem 1), and runs in pattern coordinates.

    Psi : Weights in pattern coordinates, as from start.  rng : draws the prompts of Definition 1.
    record : called as record(t, Psi) after each step t in `at` (0 is the start); its results are returned.
    batches : an iterator of other Prompts than Definition 1's.  gradient : that of another layer or loss.
    Returns Psi after the last step, and the list of what was recorded.
    Raises ValueError for settings out of range or too few batches, Diverged (a FloatingPointError) with the step and
    the last finite weights where they stop being finite.

    States: mamba Section 8.3 (algorithm)
    """
    eta, B, steps = number("eta", eta, above=0), count("B", B), count("steps", steps, 0)
    checked_law(setting)
    outliers = np.full(setting.V, setting.kappa_a * setting.outlier_norm)
    at, seen = set(at), []
    if record and 0 in at:
        seen.append(record(0, Psi))
    with np.errstate(all="ignore"):  # what overflows is found at its step
        batches = iter(fresh_prompts(setting, B, rng) if batches is None else batches)
        for t in range(1, steps + 1):
            if (prompts := next(batches, None)) is None:
                raise ValueError(f"batches: ended after {t - 1} of {steps} steps")
            try:
                step, F = gradient(encode(prompts, setting.M1, setting.M2, setting.beta, outliers), prompts.z, Psi)
            except ValueError as error:  # from a checked function, on what overflowed on its way there
                if "must be finite" not in str(error):
                    raise
                raise Diverged(f"SGD diverged at step {t} with eta = {eta:g}", t, Psi) from error
            after = descend(Psi, step, eta)
            if not np.isfinite(F.sum() + sum(W.sum() for W in after if W is not None)):
                raise Diverged(f"SGD diverged at step {t} with eta = {eta:g}", t, Psi)
            Psi = after
            if record and t in at:
                seen.append(record(t, Psi))
    return Psi, seen


def fresh_prompts(setting, B, rng):
    """Section 8.3, Theorem 1(iv). Batches of B training prompts without end, each used once: N = B T.

    Four batches are drawn at once, which costs less than one by one.
    Yields Prompts.  Raises ValueError for settings out of range.

    States: mamba Section 8.3 (algorithm); mamba Definition 1
    """
    law = checked_law(setting)
    while True:
        four = draw_training(rng, 4 * B, *law)
        for first in range(0, 4 * B, B):
            yield Prompts(*(x[first : first + B] for x in four))


def checked_law(setting):
    """Definition 1. What draw_training takes of a Setting, (l, tasks, M2, V, p_a, K), tasks the cycle's unless given.

    Raises ValueError for settings out of range.

    States: mamba Definition 1
    """
    for name in ("beta", "kappa_a", "outlier_norm"):
        number(name, getattr(setting, name), above=0)
    tasks = pairs(cycle(setting.M1) if setting.tasks is None else setting.tasks, count("M1", setting.M1, 2))
    law = (setting.l, tasks, setting.M2, setting.V, setting.p_a, setting.K)
    training_prompts(np.random.default_rng(0), 1, *law)  # refuses what else is out of range
    return law


def descend(Psi, step, eta):
    r"""Section 8.3. $\Psi - \eta \cdot$ step, array by array; w stays None where it is.

    States: mamba Section 8.3 (algorithm)
    """
    return Weights(*(W if W is None else W - eta * g for W, g in zip(Psi, step)))


def plain_step(Psi, P, z, eta):
    """Section 8.3. One step on a given batch in the plain coordinates of model.py, for any d and any prompts.

    Psi : Weights (m, d+1), (m, d+1), (d+1,) or None.  P : (B, l+1, d+1).  z : (B,).  Returns Weights.

    States: mamba Section 8.3 (algorithm)
    """
    return descend(Psi, loss_gradient(P, z, Psi), number("eta", eta, above=0))


def error(F, z):
    r"""Section 2. The test error, the share of prompts with $z F \le 0$.

    The paper counts z F < 0; a model that says exactly 0 has said nothing, and counts as wrong here.

    F, z : (B,).  Returns a float.
    Raises ValueError for labels other than -1 and 1, or an F that is not finite: nan < 0 is no success.

    States: mamba Section 2 (generalisation error)
    """
    F, z = finite("F", F), labels("z", z)
    if F.shape != z.shape:
        raise ValueError(f"z: must have the shape of F, got {z.shape} and {F.shape}")
    return float(np.mean(z * F <= 0))
