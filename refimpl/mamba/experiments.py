r"""Sections 4.1 and 3.1: the paper's synthetic experiments in one layer, from settings to numbers.

    figure_2(...)             error against the outlier fraction, Mamba and linear Transformer
    through_training(...)     attention mass by iteration (Figure 3, one layer)
    gate_values(...)          gates by position and by rank (the gate figure, one layer)
    by_distance(...)          error and attention by how far apart a task's patterns stand on the cycle

Each function is one cell of a sweep: at module level, its randomness from its own seed.
"""

import numpy as np

from refimpl.mamba.mechanism import attention_mass, by_rank
from refimpl.mamba.prompts import test_prompts, training_prompts
from refimpl.mamba.runs.bench import MAMBA, pair, test_errors, train
from refimpl.mamba.runs.patterns import encode, forward
from refimpl.mamba.setting import Testing
from refimpl.mamba.tasks import all_tasks


def figure_2(setting, tests, seed, prompts, steps, etas=(1.0, 0.01)):
    r"""Figure 2. Test errors of Mamba and the linear Transformer, trained once, on each kind of test prompts.

    setting : a Setting.  tests : a list of Testing, drawn in this order.  seed : an integer.
    prompts : test prompts to each, the same for both models.  steps, etas : of Mamba, of the linear Transformer.
    Returns (tests, 2) errors.

    States: mamba Figure 2; mamba Section 3.1 (P1-P3)
    """
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(3)]
    models = pair(setting, streams[:2], steps, etas)
    return np.array([test_errors(models, setting, testing, prompts, streams[2]) for testing in tests])


def through_training(seed, setting, steps, at, prompts):
    r"""Figure 3, in one layer. Mean attention mass on same- and other-pattern examples through training.

    seed : an integer.  setting : a Setting.  steps : of SGD.  at : the steps after which it is measured.
    prompts : how many prompts of Definition 1 it is measured on.  Returns (len(at), 2): same, different.

    States: mamba Corollary 1
    """
    rng, test = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
    drawn = training_prompts(test, prompts, setting)
    P = encode(drawn, setting)

    def mass(t, Psi):
        return [side.mean() for side in attention_mass(forward(P, Psi)[2], drawn.j)]

    return np.array(train(MAMBA, setting, steps, rng, record=mass, at=at)[1])


def gate_values(seed, setting, testing, steps, prompts):
    r"""The gate figure, in one layer. Gates of a trained Mamba on test prompts.

    seed : an integer.  setting : a Setting.  testing : a Testing.  steps : of SGD.  prompts : test prompts.
    Returns G (prompts, l), which examples carry outliers (prompts, l), the clean gates by rank (prompts, l, NaN
    after the last), and the pre-activations (prompts, l+1) with the outliers' index (prompts, l+1).

    States: mamba Corollary 2
    """
    rng, test = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
    Psi, _ = train(MAMBA, setting, steps, rng)
    drawn = test_prompts(test, prompts, setting, testing)
    P = encode(drawn, setting, testing.outliers(setting))
    G = forward(P, Psi)[1][:, :-1]
    return G, drawn.s[:, :-1] >= 0, by_rank(G, drawn.s), P @ Psi.w, drawn.s


def by_distance(seed, setting, alphas, prompts, steps, etas=(1.0, 0.01)):
    r"""Section 2. Test error over all of $\mathcal T$ by the distance of a task's patterns on the cycle of M1 patterns.

    Flipped labels, training outliers.

    seed : an integer.  setting : a Setting.  alphas : the outlier fractions.  prompts : to each error.
    steps, etas : of Mamba, of the linear Transformer.
    Returns errors (distances, alphas, 2) of Mamba and the linear Transformer, and attention (distances + 1, 2): the
    mean of $\mu_j^\top W_B^\top W_C \mu_k$ over patterns at distance 0, 1, ...

    States: mamba Section 2 (generalisation error)
    """
    M1, tasks = setting.M1, all_tasks(setting.M1)
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(3)]
    models = pair(setting, streams[:2], steps, etas)
    errors = np.empty((M1 // 2, len(alphas), len(models)))
    for k, i in np.ndindex(errors.shape[:2]):
        testing = Testing(tasks=tasks[distance(tasks, M1) == k + 1], alpha=alphas[i])
        errors[k, i] = test_errors(models, setting, testing, prompts, streams[2], chunk=prompts)
    apart = distance(np.indices((M1, M1)).reshape(2, -1).T, M1)
    between = [setting.beta**2 * (Psi.W_B[:, :M1].T @ Psi.W_C[:, :M1]).ravel() for _, Psi in models]
    return errors, np.array([[x[apart == k].mean() for x in between] for k in range(M1 // 2 + 1)])


def distance(tasks, M1):
    """Condition 1. How far apart a task's two patterns stand on the cycle of M1 patterns.

    tasks : (n, 2).  M1 : how many patterns the cycle has.  Returns (n,), of 0 ... M1 // 2.

    States: mamba Condition 1
    """
    gap = np.abs(tasks[:, 0] - tasks[:, 1])
    return np.minimum(gap, M1 - gap)
