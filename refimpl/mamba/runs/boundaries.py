r"""Ours. The test error on both sides of the conditions of Theorems 2 and 4.

    tests = [Testing(alpha=0.6, l=40), Testing(mixture=((1.0, -1.3, 0.0),))]
    errors = boundary(seed, setting, tests, prompts=4000)        # (tests, 2): Mamba, linear Transformer

Trained once, tested on many kinds of prompts.
"""

import numpy as np

from refimpl.mamba.runs.bench import pair, test_errors


def boundary(seed, setting, tests, prompts, steps=(3000, 1000), etas=(1.0, 0.01)):
    """Theorems 2 and 4. The errors of both models on each kind of prompts: one cell of a sweep.

    seed : an integer.  setting : a Setting.  tests : a list of Testing, each on prompts of its own.
    prompts : to each.  steps, etas : of Mamba and of the linear Transformer.  Returns (tests, 2).

    States: mamba Theorem 2; mamba Theorem 4; mamba Section 3.1 (P1-P3)
    """
    models = pair(setting, [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2)], steps, etas)
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence((seed, 1)).spawn(len(tests))]
    return np.array([test_errors(models, setting, t, prompts, rng, chunk=prompts) for t, rng in zip(tests, streams)])
