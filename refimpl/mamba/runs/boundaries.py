r"""Ours. The test error on both sides of the conditions of Theorems 2 and 4.

    probes = [Probe(alpha=0.6, l=40), Probe(mixture=((1.0, -1.3, 0.0),))]
    errors = boundary(seed, "all", probes, prompts=4000)        # (probes, 2): Mamba, linear Transformer

Trained once, tested on many kinds of prompts, all with flipped labels.
"""

from typing import NamedTuple

import numpy as np

from refimpl.mamba import experiments
from refimpl.mamba.runs.patterns import encode, forward
from refimpl.mamba.prompts import test_prompts
from refimpl.mamba.training import Setting, error


class Probe(NamedTuple):
    r"""Definition 2. Test prompts: the mixtures of the training outliers, $\kappa_a'$, $\alpha$, $l_{ts}$, $K'$;
    flipped labels.

    States: mamba Theorem 2; mamba Theorem 4
    """

    mixture: tuple = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    magnitude: float = 2.0
    alpha: float = 0.5
    l: int = 20
    K: float = 0.5


def both(seed, train, steps=(3000, 1000), etas=(1.0, 0.01)):
    """Theorems 1 and 3. The Setting and the two trained models, Mamba's first; steps and etas of each.

    train : "cycle", "all" or "disjoint".

    States: mamba Theorem 2; mamba Theorem 4
    """
    setting = Setting(tasks=experiments.TASKS[train](Setting().M1))
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2)]
    return setting, experiments.both(setting, streams, steps, etas)


def probe(setting, models, probe, prompts, rng, tasks=None):
    """Theorems 2 and 4. The errors of the models on one kind of prompts, of the training tasks unless others are given.

    States: mamba Theorem 2; mamba Theorem 4; mamba Section 3.1 (P1-P3)
    """
    outliers = probe.magnitude * setting.outlier_norm * np.asarray(probe.mixture, dtype=float)
    tasks = setting.tasks if tasks is None else tasks
    drawn = test_prompts(rng, prompts, probe.l, tasks, setting.M2, len(outliers), probe.alpha, probe.K)
    P = encode(drawn, setting.M1, setting.M2, setting.beta, outliers)
    with np.errstate(over="ignore"):
        return [error(forward(P, Psi)[0], drawn.z) for Psi in models]


def boundary(seed, train, probes, prompts, steps=(3000, 1000), etas=(1.0, 0.01)):
    """Theorems 2 and 4. (probes, 2) errors, each probe on prompts of its own: one cell of a sweep.

    States: mamba Theorem 2; mamba Theorem 4
    """
    setting, models = both(seed, train, steps, etas)
    streams = np.random.SeedSequence((seed, 1)).spawn(len(probes))
    return np.array([probe(setting, models, p, prompts, np.random.default_rng(s)) for p, s in zip(probes, streams)])
