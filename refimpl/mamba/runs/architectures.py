r"""Section 12, ours: the paper's question asked of each recurrence, what error at which alpha after training?

    layers(gamma, tau)["RetNet"]                      a bench.Layer for each
    errors(layer, seed, setting, tests, ...)          one cell of the figure

A layer's weights are Weights(W_B, W_C, theta), theta the parameters of its gates, in pattern coordinates with the
patterns along the axes: gates to each channel of a key do not allow another frame.
"""

import copy
from functools import partial
from typing import NamedTuple

import numpy as np

from refimpl.calculus.gating import gate, gate_vjp
from refimpl.calculus.losses import hinge_derivative, sigmoid
from refimpl.mamba.decays import (
    gated_linear_attention_decay,
    gated_linear_attention_gradient,
    gated_retention_decay,
    gated_retention_gradient,
    mamba2_decay,
    mamba2_gradient,
    own_gate,
    own_gate_gradient,
    retnet_decay,
)
from refimpl.mamba.prompts import test_prompts
from refimpl.mamba.recurrences import final_gates, matrix_gradients, summands
from refimpl.mamba.runs.bench import CHUNK, LINEAR, MAMBA, Layer, test_errors, train
from refimpl.mamba.runs.patterns import encode, start


class Gating(NamedTuple):
    """Section 12. How a recurrence gates.

    gates : gates(P, theta), G (B, l+1, c)
    gradient : gradient(P, theta, x, t), theta's, from t = G x, the summands of F; None where nothing is trained
    initial : initial(rng, m, width, scale), theta at the start; None where nothing is trained

    States: mamba Section 12 (Mamba-2)
    """

    gates: object
    gradient: object
    initial: object


def layers(gamma=0.9, tau=1.0):
    """Section 12. The layers that are compared, by name.

    gamma : RetNet's fixed decay.  tau : of gated retention and of gated linear attention.
    Returns {name: bench.Layer}; Mamba's and the linear Transformer's step are those of Figure 2, the others', of
    .03, .3 and 1, that with the least error.

    States: mamba Section 12 (Mamba-2); mamba Section 12 (RetNet)
    """
    retention = Gating(partial(_retention_gates, tau=tau), partial(_retention_gradient, tau=tau), _vector)
    attention = Gating(partial(_attention_gates, tau=tau), partial(_attention_gradient, tau=tau), _matrix)
    printed = Gating(partial(own_gate, tau=tau), partial(_own_gradient, tau=tau), _matrix)
    return {
        "Mamba": layer(Gating(_mamba_gates, _mamba_gradient, _vector), MAMBA.eta),
        "linear Transformer": layer(Gating(partial(_fixed_gates, gamma=1.0), None, None), LINEAR.eta),
        "Mamba-2": layer(Gating(_mamba2_gates, _mamba2_gradient, _vector_and_rate), 0.3),
        "RetNet": layer(Gating(partial(_fixed_gates, gamma=gamma), None, None), 0.03),
        "gated retention": layer(retention, 0.3),
        "gated linear attention": layer(attention, 0.3),
        "gated linear attention, keys without y": layer(attention, 0.3, blind=True),
        "own gate (printed)": layer(printed, 0.3),
        "Mamba-2, input step": layer(Gating(input_step_gates, input_step_gradient, _vector_and_rate), 0.3),
    }


def layer(gating, eta, blind=False):
    """Section 12. A layer for the bench: theta starts N(0, 1/(d+1)), as w does, and Mamba-2's a at 0.

    gating : a Gating.  eta : its step.  blind : as in gradient.  Returns a bench.Layer.

    States: mamba Section 12 (Mamba-2)
    """
    return Layer(partial(_start, gating), partial(forward, gating), partial(gradient, gating, blind=blind), eta)


def forward(gating, P, Psi):
    r"""Section 12. $F = \sum_{i,c} G_{ic} x_{ic}$ of a batch, and G.

    gating : a Gating.  P : (B, l+1, D+1).  Psi : Weights, its w the layer's theta.
    Returns F (B,), G (B, l+1, c), x (B, l+1, c).

    States: mamba Section 12 (Mamba-2)
    """
    G = gating.gates(P, Psi.w)
    x = summands(P, Psi.W_B, Psi.W_C, G.shape[-1])
    return np.sum(G * x, axis=(1, 2)), G, x


def gradient(gating, P, z, Psi, blind=False):
    r"""Section 12. The gradients of the mean hinge loss in W_B, W_C and the gate's parameters, and F.

    gating : a Gating.  P : (B, l+1, D+1).  z : (B,).  Psi : Weights.
    blind : keeps W_B's label column at 0. It lets a sum of gates into F: $y_i (W_B p_i)_c$ has a term in $y_i^2 =
    1$.
    Returns Weights, and F (B,), as patterns.gradient does.

    States: mamba Section 12 (Mamba-2)
    """
    F, G, x = forward(gating, P, Psi)
    dF = z * hinge_derivative(z * F) / len(z)
    x = dF[:, None, None] * x
    by_theta = None if Psi.w is None else gating.gradient(P, Psi.w, x, G * x)
    by_B, by_C = matrix_gradients(P, Psi.W_B, Psi.W_C, G, dF)
    by_B[:, -1] *= not blind
    return Psi._make((by_B, by_C, by_theta)), F


def errors(layer, seed, setting, tests, prompts, steps):
    r"""Section 12. Test errors of a layer, trained once, and whom its gates let through.

    layer : a bench.Layer whose forward gives F, G.  seed : an integer.  setting : a Setting.
    tests : a list of Testing.  prompts : to each.  steps : of SGD.
    Returns (tests,) errors, and the mean gate (2,) of clean examples and of those with an outlier in prompts of the
    last test, each gate by its share of the prompt's sum.
    Raises ValueError where those hold no example of the one kind or the other.

    States: mamba Section 12 (Mamba-2)
    """
    rng, test = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
    Psi, wrong = train(layer, setting, steps, rng)[0], []
    for testing in tests:
        before = copy.deepcopy(test)
        wrong.append(test_errors([(layer, Psi)], setting, testing, prompts, test)[0])
    drawn = test_prompts(before, min(CHUNK, prompts), setting, tests[-1])  # the last test's first prompts once more
    G = layer.forward(encode(drawn, setting, tests[-1].outliers(setting)), Psi)[1]
    share = np.sum(G, axis=2)[:, :-1]
    share /= np.sum(share, axis=1, keepdims=True)
    carried = drawn.s[:, :-1] >= 0
    if np.all(carried) or not np.any(carried):
        raise ValueError("tests: the prompts of the last one hold no outlier, or no clean example")
    return np.array(wrong), np.array([share[~carried].mean(), share[carried].mean()])


def input_step_gates(P, theta):
    r"""Mamba-2 with its input step, $v_i = \Delta_i p_i$, as Mamba has: $G_i = \Delta_i \prod_{j>i} \gamma_j$.

    $\Delta_i = \mathrm{softplus}(w^\top p_i)$ is also in $\gamma_i$.

    P : (B, l+1, d+1).  theta : (d+2,), w and a.  Returns (B, l+1, 1).

    States: mamba Section 12 (Mamba-2)
    """
    return np.logaddexp(0, P @ theta[:-1])[..., None] * _mamba2_gates(P, theta)


def input_step_gradient(P, theta, x, t):
    r"""As Mamba-2's, and from $\Delta_i$ w gets $\sum_i \sigma(w^\top p_i) x_i p_i \prod_{j>i} \gamma_j$ more.

    P : (B, l+1, d+1).  theta : (d+2,).  x, t : (B, l+1, 1), t = G x.  Returns (d+2,).

    States: mamba Section 12 (Mamba-2)
    """
    own = _mamba2_gates(P, theta) * x * sigmoid(P @ theta[:-1])[..., None]
    more = np.append(np.einsum("nic,nid->d", own, P), 0.0)
    return _mamba2_gradient(P, theta, x, t) + more


def _start(gating, setting, rng):
    Psi = start(setting, rng, gated=False)
    scale = (setting.d + 1) ** -0.5
    return Psi._replace(w=gating.initial and gating.initial(rng, *Psi.W_B.shape, scale))


def _vector(rng, m, width, scale):
    return scale * rng.standard_normal(width)


def _vector_and_rate(rng, m, width, scale):
    return np.append(_vector(rng, m, width, scale), 0.0)


def _matrix(rng, m, width, scale):
    return scale * rng.standard_normal((m, width))


# What each Gating is made of: gates(P, theta), gradient(P, theta, x, t).


def _mamba_gates(P, w):
    return gate(P @ w)[..., None]


def _mamba_gradient(P, w, x, t):
    return np.einsum("ni,nid->d", gate_vjp(P @ w, x[..., 0]), P)


def _fixed_gates(P, theta, gamma):
    return final_gates(retnet_decay(P, gamma))


def _mamba2_gates(P, theta):
    return final_gates(mamba2_decay(P, theta[:-1], theta[-1]))


def _mamba2_gradient(P, theta, x, t):
    return np.append(*mamba2_gradient(P, theta[:-1], theta[-1], t))


def _retention_gates(P, w, tau):
    return final_gates(gated_retention_decay(P, w, tau))


def _retention_gradient(P, w, x, t, tau):
    return gated_retention_gradient(P, w, tau, t)


def _attention_gates(P, W, tau):
    return final_gates(gated_linear_attention_decay(P, W, tau))


def _attention_gradient(P, W, x, t, tau):
    return gated_linear_attention_gradient(P, W, tau, t)


def _own_gradient(P, W, x, t, tau):
    return own_gate_gradient(P, W, tau, t)
