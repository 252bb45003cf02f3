r"""Ours. What Theorems 1, 3 and 4 say is needed, measured: iterations, prompt lengths, and the exponents of both.

    T = iterations_needed(setting, gated, eta, B, rng)      # by SGD
    T = iterations_law(L, problem, delta, gated)            # by Lemma 3's law
    slope, low, high = exponent(x, T)                       # the order in x, with a 95 % interval

An order is tested over a decade of x; what a Theta leaves open is a factor, here of two over that decade.
"""

import numpy as np
from scipy.stats import t as student

from refimpl.checks import Diverged, arrays, count, number
from refimpl.mamba.dynamics import clean_mass, growth_rate
from refimpl.mamba.gate_dynamics import drive
from refimpl.mamba.guarantees import flipped_error
from refimpl.mamba.runs.patterns import encode, forward, gradient
from refimpl.mamba.prompts import draw_training, training_prompts
from refimpl.mamba.training import checked_law, descend, error, sgd, start

MOST = 20_000  # steps
WITHIN = np.log10(2)  # over a decade a factor of two to the printed order: the constant of a Theta is not more known
ORDERS = {  # by letter: what it changes in a Setting, the step of (Mamba, linear) at x, the printed exponents of both
    "eta": (lambda x: {}, lambda x: (x, 0.03 * x), (-1, -1)),
    "1 - p_a": (lambda x: dict(p_a=1 - x), lambda x: (0.05, 0.002), (-1, -1)),
    "M_1": (lambda x: dict(M1=int(x), d=60), lambda x: (0.1, 0.003), (1, 1)),
    "beta at fixed delta beta": (lambda x: dict(beta=x, delta=0.06 / x), lambda x: (0.03, 1e-3), (-2, -2)),
    "l_tr": (lambda x: dict(l=int(x)), lambda x: (0.05, 0.001), (0, -1)),
}


def iterations_law(L, problem, delta, gated=True, margin=0.5):
    r"""Theorems 1(iv), 3(iv). The first t at which Lemma 3's law has $E[z F] = \frac{S}{2} D \ge$ margin, D the drive.

    With the largest eigenvalue $\lambda$ of L,
    $t \approx \frac{M_1}{\eta \beta^2 S \lambda} \log \frac{2 \cdot \mathrm{margin}}{\delta^2 \beta^2 S}$: the
    printed order, and a logarithm of $S$ and $\delta \beta$ that is not printed. Where S = (1 - p_a) l (G = 1) it
    makes the exponents of 1 - p_a and l steeper than -1.

    L : (M1, M1).  Returns an int, 0 if the margin is there at the start.
    Raises ValueError where it never is, as for L = 0.

    States: mamba Theorem 1 (iterations); mamba Theorem 3
    """
    p = problem
    number("eta", p.eta, above=0), number("p_a", p.p_a, 0, 1 - 1e-12)  # at a rate of 0 nothing is ever reached
    S = clean_mass(p.p_a, p.l_tr, gated)
    rate = p.eta * growth_rate(p.beta, p.M1, S)
    reached = lambda t: S / 2 * drive(L, rate, t, p.beta, delta)[0] >= margin
    return least(reached)


def iterations_needed(setting, gated, eta, B, rng, margin=0.5, most=MOST, loss=None):
    r"""Theorems 1(iv), 3(iv). The first step of SGD whose batch has a mean of $z F \ge$ margin, or, if given, a hinge
    loss <= loss.

    Fresh prompts each step, so the batch is a test sample of B prompts.
    Returns an int, or `most` where it is not reached.  Raises ValueError for numbers out of range, Diverged with the
    step and the last weights of a finite F.

    States: mamba Theorem 1 (iterations); mamba Theorem 3; mamba Remark 1; mamba Remark 4
    """
    s, Psi = setting, start(setting, rng, gated)
    eta, B, most, last = number("eta", eta, above=0), count("B", B), count("most", most), Psi
    goal = number("margin", margin) if loss is None else number("loss", loss, above=0)
    law, outliers = checked_law(s), s.kappa_a * s.outlier_norm * np.eye(s.V)
    with np.errstate(all="ignore"):  # what overflows is found at its step
        for t in range(most):
            prompts = draw_training(rng, B, *law)
            step, F = gradient(encode(prompts, s.M1, s.M2, s.beta, outliers), prompts.z, Psi)
            zF = prompts.z * F
            if not np.all(np.isfinite(F)):
                raise Diverged(f"SGD diverged at step {t} with eta = {eta:g}", t, last)
            if np.mean(zF) >= goal if loss is None else np.mean(np.maximum(0, 1 - zF)) <= goal:
                return t
            last, Psi = Psi, descend(Psi, step, eta)
    return most


def training_error(setting, gated, eta, B, steps, prompts, rng):
    r"""Theorems 1(iii), 3(iii). The error on fresh prompts of Definition 1 after `steps` steps of SGD.

    setting : with its tasks.  prompts : how many to test on.  Returns a float.

    States: mamba Theorem 1 (prompt length); mamba Theorem 3
    """
    s = setting
    Psi, _ = sgd(s, start(s, rng, gated), eta, B, steps, rng)
    p = training_prompts(rng, prompts, s.l, s.tasks, s.M2, s.V, s.p_a, s.K)
    return error(forward(encode(p, s.M1, s.M2, s.beta, s.kappa_a * s.outlier_norm * np.eye(s.V)), Psi)[0], p.z)


def exponent(x, y, confidence=0.95):
    r"""Theorems 1, 3, 4. The slope of log y on log x by least squares, with Student's interval: (slope, low, high).

    x, y : (n,) positive, n >= 3, at least two different x.  Raises ValueError for others.

    States: mamba Theorem 1 (iterations); mamba Theorem 3; mamba Theorem 4 (prompt length)
    """
    x, y = arrays(x=(x, "n"), y=(y, "n"))
    if len(x) < 3 or np.any(x <= 0) or np.any(y <= 0) or np.ptp(x) == 0:
        raise ValueError("x, y: must be at least three positive numbers, and x not constant")
    X, Y = np.log(x) - np.mean(np.log(x)), np.log(y) - np.mean(np.log(y))
    slope = X @ Y / (X @ X)
    error = np.sqrt(np.sum((Y - slope * X) ** 2) / (len(x) - 2) / (X @ X))
    half = student.ppf((1 + confidence) / 2, len(x) - 2) * error
    return slope, slope - half, slope + half


def examples_needed(alpha, epsilon):
    r"""Theorem 4(d). The least odd $l_{ts}$ with flipped_error $\le \epsilon$, for $\alpha < \frac12$.

    States: mamba Theorem 4 (prompt length)
    """
    alpha, epsilon = number("alpha", alpha, 0, 0.5 - 1e-6), number("epsilon", epsilon, above=0)
    return 2 * least(lambda n: flipped_error(2 * n + 1, alpha) <= epsilon) + 1


def least(reached):
    """Ours. The least integer n >= 0 with reached(n), which stays true from there on, by bisection.

    Raises ValueError where it is not reached by 2^60.

    States: mamba Theorem 1 (iterations); mamba Theorem 4 (prompt length)
    """
    low, high = -1, 1
    while not reached(high):
        low, high = high, 2 * high
        if high > 2**60:
            raise ValueError("never reached: L or the rate is 0, or as good as 0")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high
