r"""Ours. One bench for every layer: trained by Section 8.3's algorithm, tested on Definition 2's prompts.

    Psi, _ = train(MAMBA, setting, 3000, rng)
    test_errors([(MAMBA, Psi)], setting, Testing(alpha=0.8), 4000, rng)

A layer is four functions' worth of a NamedTuple; a new one is a new NamedTuple, with nothing to register. The
functions stand at a module's top level, or are partials of such, so that a sweep can send them to its workers.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from refimpl.checks import count
from refimpl.mamba.prompts import test_prompts
from refimpl.mamba.runs import patterns
from refimpl.mamba.training import error, sgd

CHUNK = 1000  # prompts at once: they stay in the cache


class Layer(NamedTuple):
    """What is trained and tested.

    start : start(setting, rng), the initial Weights in pattern coordinates
    forward : forward(P, Psi), F (B,) first, then what else is of interest
    gradient : gradient(P, z, Psi), the Weights' gradients of the mean loss, and F (B,)
    eta : the step at which it trains well in Section 4.1's setting, to be put into the Setting

    States: mamba Section 8.3 (algorithm)
    """

    start: object
    forward: object
    gradient: object
    eta: float


MAMBA = Layer(patterns.start, patterns.forward, patterns.gradient, 1.0)
LINEAR = MAMBA._replace(start=partial(patterns.start, gated=False), eta=0.01)


def train(layer, setting, steps, rng, record=None, at=()):
    """Section 8.3. A layer from its initial weights, by SGD on Definition 1's prompts.

    layer : a Layer.  setting : a Setting, its eta and B are used.  steps : T.  rng : numpy Generator, from a seed.
    record, at : as in training.sgd.
    Returns Weights in pattern coordinates and the list of what was recorded.  Raises ValueError and Diverged as sgd
    does.

    States: mamba Section 8.3 (algorithm)
    """
    weights, batches = (np.random.default_rng(s) for s in rng.bit_generator.seed_seq.spawn(2))
    drawn = patterns.batches(batches, setting)
    return sgd(layer.start(setting, weights), drawn, setting.eta, steps, layer.gradient, record, at)


def pair(setting, streams, steps, etas):
    """Section 4.1. Mamba and the linear Transformer, trained one after the other.

    setting : a Setting.  streams : two numpy Generators, one for each.  steps, etas : two numbers, one for each.
    Returns [(MAMBA, Weights), (LINEAR, Weights)].

    States: mamba Figure 2
    """
    rows = zip((MAMBA, LINEAR), streams, steps, etas)
    return [(layer, train(layer, setting._replace(eta=eta), T, rng)[0]) for layer, rng, T, eta in rows]


def test_errors(models, setting, testing, prompts, rng, chunk=CHUNK):
    """Section 2. The error of each model, by its own forward, on the same fresh test prompts of Definition 2.

    models : a list of (Layer, Weights).  setting : the Setting of training.  testing : a Testing.
    prompts : how many.  rng : numpy Generator.  chunk : prompts drawn and encoded at once.
    Returns an array of floats, one to each model.

    States: mamba Section 2 (generalisation error)
    """
    outliers, wrong = testing.outliers(setting), np.zeros(len(models))
    for first in range(0, count("prompts", prompts), count("chunk", chunk)):
        drawn = test_prompts(rng, min(chunk, prompts - first), setting, testing)
        P = patterns.encode(drawn, setting, outliers)
        with np.errstate(over="ignore"):
            wrong += [len(P) * error(layer.forward(P, Psi)[0], drawn.z) for layer, Psi in models]
    return wrong / prompts


test_errors.__test__ = False  # a measurement, which pytest would take for a test
