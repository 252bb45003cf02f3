r"""Ours. Sections 13 and 14 run: many classes and regression, trained as Section 8.3 says and tested at each alpha."""

import numpy as np

from refimpl.checks import count
from refimpl.mamba.multiclass import error
from refimpl.mamba.prompts import test_prompts
from refimpl.mamba.regression import loss, regression_prompts, sgd_gradient
from refimpl.mamba.runs.bench import train
from refimpl.mamba.runs.patterns import encode, start
from refimpl.mamba.training import sgd


def classes(layer, setting, H, rng, steps, tests, prompts):
    r"""Section 13. H heads trained block by block, and the share of wrong classes.

    Tasks and outliers are independent from block to block.

    layer : a bench.Layer.  setting : a Setting.  H : heads.  rng : numpy Generator, from a seed.  steps : of SGD.
    tests : a list of Testing.  prompts : to each.
    Returns (len(tests), 2): the share of wrong classes, and $1 - \prod_h (1 - e_h)$ of the heads' own errors.

    States: mamba Section 13 (Eq. 36)
    """
    streams = [np.random.default_rng(s) for s in rng.bit_generator.seed_seq.spawn(count("H", H) + 1)]
    heads = [train(layer, setting, steps, stream)[0] for stream in streams[:-1]]
    errors = []
    for testing in tests:
        drawn = [test_prompts(streams[-1], prompts, setting, testing) for _ in heads]
        P = [encode(p, setting, testing.outliers(setting)) for p in drawn]
        with np.errstate(over="ignore"):
            F = np.stack([layer.forward(P_h, Psi)[0] for P_h, Psi in zip(P, heads)], axis=1)
        z = np.stack([p.z for p in drawn], axis=1)
        errors.append((error(F, z), 1 - np.prod(np.mean(z * F > 0, axis=0))))
    return np.array(errors)


def regression(setting, rng, steps, alphas, prompts, gated=True):
    r"""Section 14. SGD on the squared loss, then the test error $E (F - z)^2$ at each alpha. Saying 0 has error 1.

    setting : a Setting, whose tasks are not used.  rng : numpy Generator, from a seed.  steps : of SGD.
    alphas : the outlier fractions tested at.  prompts : to each.  gated : False for the linear Transformer.
    Returns the Weights and (len(alphas),) errors.  Raises Diverged as sgd does.

    States: mamba Section 14 (regression)
    """
    weights, train_rng, test = (np.random.default_rng(s) for s in rng.bit_generator.seed_seq.spawn(3))
    drawn = iter(lambda: regression_prompts(train_rng, setting.B, setting), None)
    batches = ((encode(p, setting), p.z) for p in drawn)
    Psi, _ = sgd(start(setting, weights, gated), batches, setting.eta, steps, sgd_gradient)
    tested = [regression_prompts(test, prompts, setting._replace(p_a=alpha)) for alpha in alphas]
    return Psi, np.array([2 * loss(encode(p, setting), p.z, Psi) for p in tested])
