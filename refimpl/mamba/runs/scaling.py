r"""Ours. What Theorems 1, 3 and 4 say is needed, measured: iterations and prompt lengths.

    T = iterations_needed(setting, gated, rng)      # by SGD
    T = iterations_law(L, setting, gated)           # by Lemma 3's law

An order is tested over a decade of x with statistics.exponent; what a Theta leaves open is a factor, here of two
over that decade.
"""

import numpy as np

from refimpl.checks import Diverged, count, number
from refimpl.mamba.dynamics import clean_mass, growth_rate
from refimpl.mamba.gate_dynamics import drive
from refimpl.mamba.prompts import stream, training_prompts
from refimpl.mamba.runs.patterns import batches, encode, forward, gradient, start
from refimpl.mamba.setting import checked
from refimpl.mamba.training import descend, error, sgd
from refimpl.mamba.votes import flipped_error
from refimpl.statistics import least

MOST = 20_000  # steps
WITHIN = np.log10(2)  # over a decade a factor of two to the printed order: the constant of a Theta is not more known
ORDERS = {  # by letter: what it changes in a Setting, the step of (Mamba, linear) at x, the printed exponents of both
    "eta": (lambda x: {}, lambda x: (x, 0.03 * x), (-1, -1)),
    "1 - p_a": (lambda x: dict(p_a=1 - x), lambda x: (0.05, 0.002), (-1, -1)),
    "M_1": (lambda x: dict(M1=int(x), d=60), lambda x: (0.1, 0.003), (1, 1)),
    "beta at fixed delta beta": (lambda x: dict(beta=x, delta=0.06 / x), lambda x: (0.03, 1e-3), (-2, -2)),
    "l_tr": (lambda x: dict(l=int(x)), lambda x: (0.05, 0.001), (0, -1)),
}


def iterations_law(L, setting, gated=True, margin=0.5):
    r"""Theorems 1(iv), 3(iv). The first t at which Lemma 3's law has $E[z F] = \frac{S}{2} D \ge$ margin, D the drive.

    With the largest eigenvalue $\lambda$ of L,
    $t \approx \frac{M_1}{\eta \beta^2 S \lambda} \log \frac{2 \cdot \mathrm{margin}}{\delta^2 \beta^2 S}$: the
    printed order, and a logarithm of $S$ and $\delta \beta$ that is not printed. Where $S = (1 - p_a) l$ (G = 1) it
    makes the exponents of $1 - p_a$ and l steeper than -1.

    L : (M1, M1) from dynamics.laplacian.  setting : a Setting.  gated : False for the linear Transformer.
    margin : the mean of z F aimed at.  Returns an int, 0 if the margin is there at the start.
    Raises ValueError where it never is, as for L = 0.

    States: mamba Theorem 1 (iterations); mamba Theorem 3
    """
    s = checked(setting)
    S = clean_mass(s.p_a, s.l, gated)
    rate = s.eta * growth_rate(s.beta, s.M1, S)
    return least(lambda t: S / 2 * drive(L, rate, t, s.beta, s.delta)[0] >= margin)


def iterations_needed(setting, gated, rng, margin=0.5, most=MOST, loss=None):
    r"""Theorems 1(iv), 3(iv). The first step of SGD whose batch has a mean of $z F \ge$ margin, or a small loss.

    Fresh prompts each step, so the batch is a test sample of B prompts.

    setting : a Setting, its eta and B are used.  gated : False for the linear Transformer.  rng : numpy Generator.
    margin : the mean of z F aimed at.  most : steps at the most.  loss : where given, the hinge loss aimed at
    instead.
    Returns an int, or `most` where it is not reached.  Raises ValueError for numbers out of range, Diverged with
    the step and the last weights of a finite F.

    States: mamba Theorem 1 (iterations); mamba Theorem 3; mamba Remark 1; mamba Remark 4
    """
    Psi, most, eta = start(setting, rng, gated), count("most", most), setting.eta
    last, drawn = Psi, stream(rng, setting.B, setting, together=1)
    goal = number("margin", margin) if loss is None else number("loss", loss, above=0)
    with np.errstate(all="ignore"):  # what overflows is found at its step
        for t in range(most):
            prompts = next(drawn)
            step, F = gradient(encode(prompts, setting), prompts.z, Psi)
            zF = prompts.z * F
            if not np.all(np.isfinite(F)):
                raise Diverged(f"SGD diverged at step {t} with eta = {eta:g}", t, last)
            if np.mean(zF) >= goal if loss is None else np.mean(np.maximum(0, 1 - zF)) <= goal:
                return t
            last, Psi = Psi, descend(Psi, step, eta)
    return most


def training_error(setting, gated, steps, prompts, rng):
    r"""Theorems 1(iii), 3(iii). The error on fresh prompts of Definition 1 after `steps` steps of SGD.

    setting : a Setting, its eta and B are used.  gated : False for the linear Transformer.  steps : of SGD.
    prompts : how many to test on.  rng : numpy Generator.  Returns a float.

    States: mamba Theorem 1 (prompt length); mamba Theorem 3
    """
    Psi, _ = sgd(start(setting, rng, gated), batches(rng, setting), setting.eta, steps, gradient)
    drawn = training_prompts(rng, prompts, setting)
    return error(forward(encode(drawn, setting), Psi)[0], drawn.z)


def examples_needed(alpha, epsilon):
    r"""Theorem 4(d). The least odd $l_{ts}$ with flipped_error $\le \epsilon$, for $\alpha < \frac12$.

    alpha : in [0, 1/2).  epsilon : > 0.  Returns an int.

    States: mamba Theorem 4 (prompt length)
    """
    alpha, epsilon = number("alpha", alpha, 0, 0.5 - 1e-6), number("epsilon", epsilon, above=0)
    return 2 * least(lambda n: flipped_error(2 * n + 1, alpha) <= epsilon) + 1
