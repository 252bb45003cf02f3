"""Every prompt of Definition 1 with its probability: population gradients by enumeration, with no formula in them.

kappa is +-K / sqrt(3) instead of uniform on (-K, K): of the same mean and variance, all that gradients of degree two
in each kappa can see.
"""

import itertools

import numpy as np

from refimpl.mamba.model import Weights, output, output_gradient_w, output_gradient_W_B, output_gradient_W_C
from refimpl.mamba.prompts import Prompts
from refimpl.mamba.runs.patterns import encode
from refimpl.mamba.setting import Setting

SMALL = Setting(M2=1, V=1, beta=1.5, kappa_a=1.3, outlier_norm=2.0, p_a=0.4, l=2, delta=0.05)


def enumerate_prompts(setting):
    """(Prompts, probabilities (n,)): all tasks, patterns, signs of kappa, outliers and labels of outliers."""
    tasks, p_a = setting.tasks, setting.p_a
    bare = [(side, k, sign) for side in (0, 1) for k in range(setting.M2) for sign in (-1, 1)]
    query = [(*b, -1, 0.0, 1 / len(bare)) for b in bare]
    clean = [(*b, -1, 1.0 - 2 * b[0], (1 - p_a) / len(bare)) for b in bare]
    each = p_a / (len(bare) * setting.V * 2)
    dirty = [(*b, s, y, each) for b in bare for s in range(setting.V) for y in (-1.0, 1.0)]
    examples = np.array(clean + (dirty if p_a else []))
    index = [range(len(tasks)), *[range(len(examples))] * setting.l, range(len(query))]
    index = np.array(list(itertools.product(*index)))
    rows = np.concatenate([examples[index[:, 1:-1]], np.array(query)[index[:, -1:]]], axis=1)
    side, k, sign, s, y, probability = np.moveaxis(rows, -1, 0)
    pairs, side = np.asarray(tasks)[index[:, 0]], side.astype(int)
    prompts = Prompts(
        pairs,
        np.take_along_axis(pairs, side, axis=1),
        k.astype(int),
        sign * setting.K / np.sqrt(3),
        s.astype(int),
        y,
        1.0 - 2 * side[:, -1],
    )
    return prompts, np.prod(probability, axis=1) / len(tasks)


class World:
    """A population and its descent, in pattern coordinates: SMALL on these tasks, with what is changed of it."""

    def __init__(self, tasks, **changed):
        self.setting = s = SMALL._replace(M1=int(np.max(tasks)) + 1, tasks=tasks, **changed)
        self.prompts, self.probability = enumerate_prompts(s)
        self.P = encode(self.prompts, s)
        self.scale = np.array([s.beta] * (s.M1 + s.M2) + [s.outlier_norm] * s.V)  # norms of mu, nu, v

    def start(self, gated):
        D = len(self.scale)
        W = np.eye(D, D + 1) * self.setting.delta
        return Weights(W, W.copy(), np.zeros(D + 1) if gated else None)

    def gradient(self, Psi):
        """The population gradient of the hinge loss, every term of which must be active."""
        assert np.max(self.prompts.z * output(self.P, Psi)) < 1
        dF = -self.prompts.z * self.probability
        by_w = None if Psi.w is None else output_gradient_w(self.P, Psi, dF)
        return Weights(output_gradient_W_B(self.P, Psi, dF), output_gradient_W_C(self.P, Psi, dF), by_w)

    def descend(self, gated, eta, steps):
        """W_B and W_C after 0, 1, ..., steps; w, where there is one, is kept at 0."""
        seen = [self.start(gated)]
        for _ in range(steps):
            B, C, w = seen[-1]
            by_B, by_C, _ = self.gradient(seen[-1])
            seen.append(Weights(B - eta * by_B, C - eta * by_C, w))
        return seen

    def entries(self, W):
        """x^T W x' for the patterns x, x' in their order mu, nu, v."""
        return self.scale[:, None] * W[:, :-1] * self.scale
