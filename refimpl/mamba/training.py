r"""Sections 2 and 8.3: the initial weights, minibatch SGD with fresh prompts at every step, and the test error.

    Psi, seen = sgd(initial(d, delta, rng), batches, eta=1.0, steps=3000)

batches is any iterator of (P, z). What a step is does not depend on the coordinates: runs/patterns.py has batches
and gradients whose cost is the same for every d.
"""

import numpy as np

from refimpl.checks import Diverged, count, finite, labels, number
from refimpl.mamba.model import Weights, loss_gradient, output


def initial(d, delta, rng, m=None, variance=None, gated=True):
    r"""Section 2. $\delta$ on the first d diagonal entries of W_B and W_C; $w \sim N(0, I/(d+1))$.

    The other entries are 0, where the paper is silent.

    d : dimension of x.  delta : in (0, 0.2].  rng : numpy Generator.
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


def gradient(P, z, Psi):
    r"""Section 8.3. What a step of SGD takes: the gradients of the batch's mean hinge loss, and F.

    P : (B, l+1, d+1).  z : (B,).  Psi : Weights.  Returns Weights, and F (B,).

    States: mamba Section 8.3 (algorithm)
    """
    return loss_gradient(P, z, Psi), output(P, Psi)


def sgd(Psi, batches, eta, steps, gradient=gradient, record=None, at=()):
    r"""Section 8.3. $\Psi \gets \Psi - \eta \, \partial \frac{1}{B} \sum_{n \in \mathcal B_t} \ell(\Psi; P^n, z^n)$.

    Psi : Weights to start from.  batches : an iterator of (P, z), one to a step; fresh ones, so that N = B T
    (Theorem 1).
    eta : > 0.  steps : T.  gradient : of this layer and loss, called as gradient(P, z, Psi); returns the gradients,
    F.
    record : called as record(t, Psi) after each step t in `at` (0 is the start); its results are returned.
    at : the steps to record.
    Returns Psi after the last step, and the list of what was recorded.
    Raises ValueError for numbers out of range or too few batches, Diverged (a FloatingPointError) with the step and
    the last finite weights where they stop being finite.

    States: mamba Section 8.3 (algorithm)
    """
    eta, steps = number("eta", eta, above=0), count("steps", steps, 0)
    batches, at, seen = iter(batches), set(at), []
    if record and 0 in at:
        seen.append(record(0, Psi))
    with np.errstate(all="ignore"):  # what overflows is found at its step
        for t in range(1, steps + 1):
            if (batch := next(batches, None)) is None:
                raise ValueError(f"batches: ended after {t - 1} of {steps} steps")
            try:
                step, F = gradient(*batch, Psi)
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


def descend(Psi, step, eta):
    r"""Section 8.3. One step, $\Psi - \eta \, \partial \Psi$, array by array; what is None stays None.

    Psi : a NamedTuple of arrays, as Weights.  step : their gradients, of the same kind.  eta : the step size.
    Returns a NamedTuple of the same kind.

    States: mamba Section 8.3 (algorithm)
    """
    return Psi._make(W if W is None else W - eta * g for W, g in zip(Psi, step))


def plain_step(Psi, P, z, eta):
    """Section 8.3. One step on a given batch in the plain coordinates of model.py, for any d and any prompts.

    Psi : Weights (m, d+1), (m, d+1), (d+1,) or None.  P : (B, l+1, d+1).  z : (B,).  eta : > 0.  Returns Weights.

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
