r"""Sections 4.1 and 3.1: the paper's synthetic experiments in one layer, from settings to numbers.

    figure_2(case, seed, ...)     error against the outlier fraction, Mamba and linear Transformer
    through_training(...)         attention mass by iteration (Figure 3, one layer)
    gate_values(...)              gates by position and by rank (the gate figure, one layer)
    by_distance(...)              error and attention by how far apart a task's patterns stand on the cycle

Each function is one cell of a sweep: at module level, its randomness from its own seed.
"""

from typing import NamedTuple

import numpy as np

from refimpl.checks import number
from refimpl.mamba.mechanism import attention_mass, by_rank
from refimpl.mamba.runs.patterns import encode, forward, gradient
from refimpl.mamba.prompts import UNSEEN, test_prompts, training_prompts
from refimpl.mamba.tasks import all_tasks, cycle, disjoint_pairs
from refimpl.mamba.training import Setting, error, sgd, start

TASKS = {"cycle": cycle, "all": all_tasks, "disjoint": disjoint_pairs}
LABELLINGS = ("flipped", "targeted", "random")
CHUNK = 1000  # prompts at once: they stay in the cache


class Case(NamedTuple):
    """Figure 2. What the paper leaves open of it: one row of settings.

    train, test : "cycle", "all" or "disjoint".  outliers : "training" or "unseen" (Section 4.1's mixtures).
    magnitude : kappa_a'.  counted : exactly round(alpha l) outliers, or alpha a probability.
    K : K'.  outlier_norm : of the training outliers.

    States: mamba Figure 2
    """

    train: str = "cycle"
    test: str = "cycle"
    outliers: str = "unseen"
    magnitude: float = 4.0
    counted: bool = False
    K: float = 0.5
    outlier_norm: float = 3.0


def trained(setting, gated, rng, steps, eta, B=128, record=None, at=(), begin=start, gradient=gradient):
    """Section 4.1. Mamba, or the linear Transformer if not gated, trained by Section 8.3's algorithm.

    begin(setting, rng, gated) : the initial Weights.  gradient : that of another layer.
    Returns Weights in pattern coordinates and what was recorded.

    States: mamba Figure 2
    """
    weights, batches = (np.random.default_rng(s) for s in rng.bit_generator.seed_seq.spawn(2))
    return sgd(setting, begin(setting, weights, gated), eta, B, steps, batches, record, at, gradient=gradient)


def both(setting, streams, steps, etas):
    """Section 4.1. Mamba and the linear Transformer, each trained with its rng, steps and eta: two Weights.

    States: mamba Figure 2
    """
    return [trained(setting, gated, *a)[0] for gated, *a in zip((True, False), streams, steps, etas)]


def outlier_coordinates(case, setting):
    r"""Section 4.1. $\kappa_a' v_s^{*\prime}$ along the unit outliers, (S, V): the training ones or the unseen three.

    States: mamba Eq. 5
    """
    mixtures = {"training": np.eye(setting.V), "unseen": np.array(UNSEEN)}[case.outliers]
    return number("magnitude", case.magnitude, above=0) * setting.outlier_norm * mixtures


def figure_2(train, outlier_norm, cases, seed, alphas, prompts, steps, etas=(1.0, 0.01)):
    r"""Figure 2. Test errors of Mamba and the linear Transformer, trained once, for each case, labelling and alpha.

    train, outlier_norm : as in Case.  cases : the Cases that share both.  steps, etas : of Mamba, of the linear one.
    prompts : test prompts to each error, the same for both models.
    Returns (cases, labellings, alphas, 2) errors.

    States: mamba Figure 2; mamba Section 3.1 (P1-P3)
    """
    setting = Setting(tasks=TASKS[train](Setting().M1), outlier_norm=outlier_norm)
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(3)]
    models = both(setting, streams, steps, etas)
    errors = np.empty((len(cases), len(LABELLINGS), len(alphas), 2))
    for place in np.ndindex(errors.shape[:3]):
        case, labelling, alpha = cases[place[0]], LABELLINGS[place[1]], alphas[place[2]]
        errors[place] = test_errors(models, setting, case, labelling, alpha, prompts, streams[2])
    return errors


def test_errors(models, setting, case, labelling, alpha, prompts, rng):
    """Section 2. The error of each model on the same fresh test prompts of Definition 2.

    models : Weights in pattern coordinates.  Returns an array of floats, one to each model.

    States: mamba Section 2 (generalisation error)
    """
    outliers, tasks = outlier_coordinates(case, setting), TASKS[case.test](setting.M1)
    law = (tasks, setting.M2, len(outliers), alpha, case.K, labelling, case.counted)
    wrong = np.zeros(len(models))
    for first in range(0, prompts, CHUNK):
        drawn = test_prompts(rng, min(CHUNK, prompts - first), setting.l, *law)
        P = encode(drawn, setting.M1, setting.M2, setting.beta, outliers)
        wrong += [len(P) * error(forward(P, Psi)[0], drawn.z) for Psi in models]
    return wrong / prompts


test_errors.__test__ = False  # a measurement, which pytest would take for a test


def through_training(seed, p_a, eta, steps, at, prompts):
    r"""Figure 3, in one layer. Mean attention mass on same- and other-pattern examples after the steps in `at`.

    On `prompts` prompts of Definition 1 from the cycle's tasks. Returns (len(at), 2): same, different.

    States: mamba Corollary 1
    """
    setting = Setting(p_a=p_a)
    train, test = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
    drawn = training_prompts(test, prompts, setting.l, cycle(setting.M1), setting.M2, setting.V, p_a, setting.K)
    outliers = np.full(setting.V, setting.kappa_a * setting.outlier_norm)
    P = encode(drawn, setting.M1, setting.M2, setting.beta, outliers)

    def mass(t, Psi):
        return [side.mean() for side in attention_mass(forward(P, Psi)[2], drawn.j)]

    return np.array(trained(setting, True, train, steps, eta, record=mass, at=at)[1])


def gate_values(seed, p_a, alpha, magnitude, eta, steps, prompts):
    r"""The gate figure, in one layer. Gates of a trained Mamba on test prompts with unseen outliers.

    Returns G (prompts, l), which examples carry outliers (prompts, l), the clean gates by rank (prompts, l, NaN
    after the last), and the pre-activations (prompts, l+1) with the outliers' index (prompts, l+1).

    States: mamba Corollary 2
    """
    setting = Setting(p_a=p_a)
    train, test = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
    Psi, _ = trained(setting, True, train, steps, eta)
    outliers = outlier_coordinates(Case(magnitude=magnitude), setting)
    drawn = test_prompts(test, prompts, setting.l, cycle(setting.M1), setting.M2, len(outliers), alpha)
    P = encode(drawn, setting.M1, setting.M2, setting.beta, outliers)
    G = forward(P, Psi)[1][:, :-1]
    return G, drawn.s[:, :-1] >= 0, by_rank(G, drawn.s), P @ Psi.w, drawn.s


def by_distance(seed, M1, alphas, prompts, steps, etas=(1.0, 0.01), train="cycle"):
    r"""Section 2. Test error over all of $\mathcal T$ by the distance of a task's patterns on the cycle of M1 patterns.

    Flipped labels, training outliers. Returns errors (distances, alphas, 2) of Mamba and the linear Transformer,
    and attention (distances + 1, 2): the mean of $\mu_j^\top W_B^\top W_C \mu_k$ over patterns at distance 0, 1, ...

    States: mamba Section 2 (generalisation error)
    """
    setting = Setting(M1=M1, tasks=TASKS[train](M1))
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(3)]
    models = both(setting, streams, steps, etas)
    tasks, outliers = all_tasks(M1), np.full(setting.V, setting.kappa_a * setting.outlier_norm)
    errors = np.empty((M1 // 2, len(alphas), len(models)))
    for k, i in np.ndindex(errors.shape[:2]):
        chosen = tasks[distance(tasks, M1) == k + 1]
        drawn = test_prompts(streams[2], prompts, setting.l, chosen, setting.M2, setting.V, alphas[i])
        P = encode(drawn, M1, setting.M2, setting.beta, outliers)
        errors[k, i] = [error(forward(P, Psi)[0], drawn.z) for Psi in models]
    apart = distance(np.indices((M1, M1)).reshape(2, -1).T, M1)
    between = [setting.beta**2 * (Psi.W_B[:, :M1].T @ Psi.W_C[:, :M1]).ravel() for Psi in models]
    return errors, np.array([[x[apart == k].mean() for x in between] for k in range(M1 // 2 + 1)])


def distance(tasks, M1):
    """Condition 1. How far apart a task's two patterns stand on the cycle of M1 patterns: (n,) of 0 ... M1 // 2.

    States: mamba Condition 1
    """
    gap = np.abs(tasks[:, 0] - tasks[:, 1])
    return np.minimum(gap, M1 - gap)
