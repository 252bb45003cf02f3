r"""Section 12, ours: the paper's question asked of each recurrence, what error at which alpha after training?

    gradient(layer, P, z, Psi)        of the mean hinge loss, for any of LAYERS
    trained(layer, setting, ...)      Section 8.3's SGD on Definition 1's prompts
    errors(name, seed, ...)           one cell of the figure

Psi is Weights(W_B, W_C, gate parameters), in pattern coordinates (patterns.py), the patterns lying along the axes:
gates to each channel of a key do not allow another frame.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from refimpl.calculus.gating import gate, gate_vjp
from refimpl.calculus.losses import hinge_derivative, sigmoid
from refimpl.checks import count
from refimpl.mamba import experiments
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
from refimpl.mamba.runs.patterns import encode
from refimpl.mamba.prompts import test_prompts
from refimpl.mamba.recurrences import final_gates, matrix_gradients, summands
from refimpl.mamba.training import Setting, checked_law, error, start

GAMMA = 0.9  # RetNet's fixed decay


class Layer(NamedTuple):
    """Section 12. A layer's gates G(P, theta), gradient(P, theta, x, t) and initial theta(rng, m, width, scale).

    theta : an array, or None where nothing is trained.  t : G x, the summands of F.
    eta : Mamba's and the linear Transformer's as in Figure 2; else, of .03, .3 and 1, that with the least error.

    States: mamba Section 12 (Mamba-2)
    """

    gates: object
    gradient: object
    initial: object
    eta: float


def input_step_gates(P, theta):
    r"""Mamba-2 with its input step, $v_i = \Delta_i p_i$, as Mamba has: $G_i = \Delta_i \prod_{j>i} \gamma_j$.

    $\Delta_i = \mathrm{softplus}(w^\top p_i)$ is also in $\gamma_i$.

    P : (B, l+1, d+1).  theta : (d+2,), w and a.  Returns (B, l+1, 1).

    States: mamba Section 12 (Mamba-2)
    """
    return np.logaddexp(0, P @ theta[:-1])[..., None] * final_gates(mamba2_decay(P, theta[:-1], theta[-1]))


def input_step_gradient(P, theta, x, t):
    r"""As Mamba-2's, and from $\Delta_i$ w gets $\sum_i \sigma(w^\top p_i) x_i p_i \prod_{j>i} \gamma_j$ more.

    P : (B, l+1, d+1).  theta : (d+2,).  x, t : (B, l+1, 1).  Returns (d+2,).

    States: mamba Section 12 (Mamba-2)
    """
    z = P @ theta[:-1]
    own = final_gates(mamba2_decay(P, theta[:-1], theta[-1])) * x * sigmoid(z)[..., None]
    by_w, by_a = mamba2_gradient(P, theta[:-1], theta[-1], t)
    return np.append(by_w + np.einsum("nic,nid->d", own, P), by_a)


def _vector(rng, m, width, scale):
    return scale * rng.standard_normal(width)


def _vector_and_rate(rng, m, width, scale):
    return np.append(_vector(rng, m, width, scale), 0.0)


def _matrix(rng, m, width, scale):
    return scale * rng.standard_normal((m, width))


LAYERS = {
    "Mamba": Layer(
        lambda P, w: gate(P @ w)[..., None],
        lambda P, w, x, t: np.einsum("ni,nid->d", gate_vjp(P @ w, x[..., 0]), P),
        _vector,
        1.0,
    ),
    "linear Transformer": Layer(lambda P, _: final_gates(retnet_decay(P, 1.0)), None, None, 0.01),
    "Mamba-2": Layer(
        lambda P, theta: final_gates(mamba2_decay(P, theta[:-1], theta[-1])),
        lambda P, theta, x, t: np.append(*mamba2_gradient(P, theta[:-1], theta[-1], t)),
        _vector_and_rate,
        0.3,
    ),
    "RetNet": Layer(lambda P, _: final_gates(retnet_decay(P, GAMMA)), None, None, 0.03),
    "gated retention": Layer(
        lambda P, w: final_gates(gated_retention_decay(P, w)),
        lambda P, w, x, t: gated_retention_gradient(P, w, 1.0, t),
        _vector,
        0.3,
    ),
    "gated linear attention": Layer(
        lambda P, W: final_gates(gated_linear_attention_decay(P, W)),
        lambda P, W, x, t: gated_linear_attention_gradient(P, W, 1.0, t),
        _matrix,
        0.3,
    ),
    "own gate (printed)": Layer(own_gate, lambda P, W, x, t: own_gate_gradient(P, W, 1.0, t), _matrix, 0.3),
    "Mamba-2, input step": Layer(input_step_gates, input_step_gradient, _vector_and_rate, 0.3),
}


def forward(layer, P, Psi):
    r"""Section 12. $F = \sum_{i,c} G_{ic} x_{ic}$ of a batch, and G.

    P : (B, l+1, D+1).  Psi : Weights, its w the layer's theta.  Returns F (B,), G (B, l+1, c), x (B, l+1, c).

    States: mamba Section 12 (Mamba-2)
    """
    G = layer.gates(P, Psi.w)
    x = summands(P, Psi.W_B, Psi.W_C, G.shape[-1])
    return np.sum(G * x, axis=(1, 2)), G, x


def gradient(layer, P, z, Psi, blind=False):
    r"""Section 12. The gradients of the mean hinge loss in W_B, W_C and the gate's parameters, and F.

    P : (B, l+1, D+1).  z : (B,).  Psi : Weights.  Returns Weights, and F (B,), as patterns.gradient does.
    blind : keeps W_B's label column at 0. It lets a sum of gates into F: $y_i (W_B p_i)_c$ has a term in $y_i^2 = 1$.

    States: mamba Section 12 (Mamba-2)
    """
    F, G, x = forward(layer, P, Psi)
    dF = z * hinge_derivative(z * F) / len(z)
    x = dF[:, None, None] * x
    by_theta = None if Psi.w is None else layer.gradient(P, Psi.w, x, G * x)
    by_B, by_C = matrix_gradients(P, Psi.W_B, Psi.W_C, G, dF)
    by_B[:, -1] *= not blind
    return Psi._make((by_B, by_C, by_theta)), F


def trained(name, setting, rng, steps, eta=None, B=128, blind=False):
    """Section 8.3. A layer of LAYERS from Section 2's initial weights, by SGD on Definition 1's prompts.

    Its gate's parameters start N(0, 1/(d+1)), as w does, and Mamba-2's a at 0.

    Returns Weights in pattern coordinates.  Raises Diverged as sgd does.

    States: mamba Section 12 (Mamba-2)
    """
    layer = LAYERS[name]

    def begin(setting, rng, gated):
        Psi = start(setting, rng, gated)
        return Psi._replace(w=layer.initial and layer.initial(rng, *Psi.W_B.shape, (setting.d + 1) ** -0.5))

    by = partial(gradient, layer, blind=blind)
    eta = layer.eta if eta is None else eta
    return experiments.trained(setting, False, rng, steps, eta, B, begin=begin, gradient=by)[0]


def errors(name, seed, labellings, alphas, prompts, steps, counted=True, blind=False, setting=None):
    r"""Section 12. Test errors of a layer, trained once: training tasks and outliers, $\kappa_a' = \kappa_a$.

    Returns (labellings, alphas) errors, and the mean gate (2,) of clean examples and of those with an outlier
    in the prompts of the last labelling at the last alpha, each gate by its share of the prompt's sum.
    Raises ValueError where those hold no example of the one kind or the other.

    States: mamba Section 12 (Mamba-2)
    """
    setting, prompts = setting or Setting(), count("prompts", prompts)
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2)]
    Psi = trained(name, setting, streams[0], steps, blind=blind)
    outliers = setting.kappa_a * setting.outlier_norm * np.eye(setting.V)
    tasks, wrong = checked_law(setting)[1], np.zeros((len(labellings), len(alphas)))
    for place in np.ndindex(wrong.shape):
        labelling, alpha = labellings[place[0]], alphas[place[1]]
        law = (tasks, setting.M2, setting.V, alpha, setting.K, labelling, counted)
        for first in range(0, prompts, experiments.CHUNK):
            drawn = test_prompts(streams[1], min(experiments.CHUNK, prompts - first), setting.l, *law)
            F, G, _ = forward(LAYERS[name], encode(drawn, setting.M1, setting.M2, setting.beta, outliers), Psi)
            wrong[place] += error(F, drawn.z) * len(F) / prompts
    share = np.sum(G, axis=2)[:, :-1]
    share /= np.sum(share, axis=1, keepdims=True)
    carried = drawn.s[:, :-1] >= 0
    if np.all(carried) or not np.any(carried):
        raise ValueError("prompts, alphas: the last prompts hold no outlier, or no clean example")
    return wrong, np.array([share[~carried].mean(), share[carried].mean()])
