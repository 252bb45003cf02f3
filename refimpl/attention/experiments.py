r"""Section 5 and Appendix I: the arrays behind Figures 1 to 6.

    train, test, results = figure_1(seed, betas)         the tokens that one p selects
    run = figure_3(seed, setting)                        attention along a training run; Figure 2, too
    row = grid_row(seed, setting, norms, steps, ...)     a row of Figures 4, 5 and 6: all norms at one d

Throughout draw_experiment, |nu| = 1/|mu|, W = I. Training runs in Gram form (runs/gram.py); a test sample is drawn as
its logits and scores (runs/fresh.py). Both are exact: no step is skipped and no cell interpolated.
"""

from typing import NamedTuple

import numpy as np

from refimpl.attention import uncertainty
from refimpl.attention.data import RELEVANT, Sample, draw_experiment, experiment_roles, signals, streams
from refimpl.attention.head import linear_head
from refimpl.attention.runs import fresh
from refimpl.attention.runs.gram import descend, gram
from refimpl.attention.setting import Setting
from refimpl.calculus.losses import logistic
from refimpl.checks import arrays, count, labels


class Run(NamedTuple):
    r"""One training run, K moments of it.

    sample : the training Sample.  times : (K,), steps.  s : (K, n, T), attention weights.
    rho, margins : (n, T), the last $\rho_{i,t}$ of runs.gram, and (n,), the last $Y_i f_i$.
    train_accuracy, test_accuracy : at the end.

    States: attention Figure 3
    """

    sample: Sample
    times: np.ndarray
    s: np.ndarray
    rho: np.ndarray
    margins: np.ndarray
    train_accuracy: float
    test_accuracy: float


def figure_1(seed, betas, setting=Setting(n=100, d=10_000), clean_noise=True):
    r"""Figure 1. $p = \mu_{+1} + \mu_{-1} + \beta \sum_j \epsilon^{(j)}$ of the wanted token, for each beta.

    A sample wants the token that carries its label: the first (in R) where clean, the third (in $W_{-Y^*} = W_Y$) where
    noisy.

    seed : an integer >= 0.  betas : numbers.  setting : a Setting, as in draw_experiment; the published figure's.
    clean_noise : the sum runs over all training samples, as the published figure has it; over the noisy ones
    alone, as in Theorem 4.1, where False.
    Returns train, test (Samples) and, for each beta, {split: (points (n, 2), accuracy)}: the selected tokens'
    coordinates along the signals, and how often the sign of their score is the (observed) label.

    States: attention Figure 1
    """
    rngs, mu = streams(seed), signals(setting.norm, setting.d)
    train, test = (draw_experiment(rng, setting, flips) for rng, flips in zip(rngs, (None, 0)))
    noise = train.noise[np.arange(len(train.Y)), _wanted_token(train)]
    noise = noise if clean_noise else noise[train.Y != train.Y_star]
    results = []
    for beta in betas:
        p = mu.sum(axis=0) + beta * noise.sum(axis=0)
        by_split = {}
        for name, sample in (("train", train), ("test", test)):
            picked = (sample.X @ p).argmax(axis=-1)
            points = sample.X[np.arange(len(picked)), picked] @ (mu / setting.norm).T
            by_split[name] = points, float(np.mean(sample.Y * (points[:, 0] - points[:, 1]) > 0))
        results.append(by_split)
    return train, test, results


def _wanted_token(sample):
    """(n,) integers: 0 (in R) where a sample of draw_experiment is clean, 2 (in W_{-Y*} = W_Y) where noisy."""
    return np.where(sample.Y == sample.Y_star, 0, 2)


def figure_3(seed, setting=Setting(), steps=10_000, every=50, test_samples=1000):
    """Figures 2 and 3. One training run, its attention weights recorded every `every` steps, 0 and the last included.

    seed : an integer >= 0.  setting : a Setting, as in draw_experiment.  steps : >= 0.  every : >= 1.
    test_samples : fresh samples, >= 1.
    Returns a Run.  Accuracies: how often the output's sign is the observed label, the clean label on fresh samples.

    States: attention Figure 2; attention Figure 3
    """
    every = count("every", every)
    rng, test_rng = _streams(seed, setting)
    sample, nu, mu, M, gamma = _start(rng, setting)
    times, weights = [], []

    def record(tau, rho, s):
        if tau % every == 0 or tau == steps:
            times.append(tau)
            weights.append(s)

    rho = descend(M, gamma, sample.Y, setting.alpha, steps, record=record)
    margins = sample.Y * np.sum(weights[-1] * gamma, axis=-1)
    law = fresh.law_from_gram(rho, M, gamma, sample.X @ mu.T, nu, mu)
    _, test = fresh_loss(test_rng, setting, law, test_samples)
    return Run(sample, np.array(times), np.array(weights), rho, margins, float(np.mean(margins > 0)), test)


def fresh_loss(rng, setting, law, samples):
    r"""Figure 5. Mean logistic loss and accuracy on fresh samples without label noise.

    rng : numpy Generator.  setting : a Setting, for T and weak_scale.  law : (means, covariance) as in runs.fresh.law.
    samples : how many.  Returns two floats.

    States: attention Figure 5
    """
    Y_star = rng.choice([-1.0, 1.0], count("samples", samples))
    _, _, f = fresh.draw(rng, Y_star, experiment_roles(Y_star, setting.T), setting.weak_scale, *law)
    return float(np.mean(logistic(Y_star * f))), float(np.mean(Y_star * f > 0))


def grid_row(seed, setting, norms, steps, test_samples):
    r"""Figures 4, 5, 6. All norms at the setting's d, trained together.

    A cell is the same in any row with its seed, d and norm.

    seed : an integer >= 0.  setting : a Setting, as in draw_experiment; each of the norms takes the place of its own.
    norms : (k,).  steps : >= 0.  test_samples : fresh samples, >= 1.
    Returns {name: (k,)}: eq_9 (the smaller class), eq_10 (scaled), published_4, published_6, smaller_class (the least
    $|C_c|$), places (the mean place of $C_{-1}$ in the sample over that of $C_{+1}$), train_loss, test_loss,
    train_accuracy, test_accuracy, all_clean, all_noisy (whether every $C_c$, every $N_c$ has samples). NaN where a
    class has none.

    States: attention Figure 4; attention Figure 5; attention Figure 6
    """
    settings = [setting._replace(norm=norm) for norm in norms]
    if not settings:
        raise ValueError("norms: must not be empty")
    rngs, test_rngs = zip(*(_streams(seed, cell) for cell in settings))
    samples, nus, mus, M, gamma = zip(*map(_start, rngs, settings))
    M, gamma = np.array(M), np.array(gamma)
    Y, Y_star, roles = (np.array([getattr(sample, part) for sample in samples]) for part in ("Y", "Y_star", "roles"))
    relevant, totals = roles == RELEVANT, uncertainty.start(gamma)

    def record(tau, rho, s):
        nonlocal totals, last
        totals, last = uncertainty.add(totals, s, relevant), s

    last = None
    rho = descend(M, gamma, Y, setting.alpha, steps, record=record)
    margins = Y * np.sum(last * gamma, axis=-1)
    tested = []
    for rng, cell, sample, nu, mu, *parts in zip(test_rngs, settings, samples, nus, mus, rho, M, gamma):
        law = fresh.law_from_gram(*parts, sample.X @ mu.T, nu, mu)
        tested.append(fresh_loss(rng, cell, law, test_samples))
    clean, noisy = uncertainty.has_all_classes(Y, Y_star)
    left, right = uncertainty.eq_9(totals, Y, Y_star)
    above, below = uncertainty.eq_10(totals, Y, Y_star, scaled=True)
    published_4, published_6 = published(totals, last, Y, Y_star)
    smaller_class, places = np.array([_class_facts(*pair) for pair in zip(Y, Y_star)]).T
    return {
        "eq_9": np.where(clean, left.min(axis=-1) / right, np.nan),
        "eq_10": np.divide(above, below, out=np.full(len(settings), np.nan), where=clean),
        "published_4": np.where(clean, published_4, np.nan),
        "published_6": np.where(clean, published_6, np.nan),
        "smaller_class": np.where(clean, smaller_class, np.nan),
        "places": np.where(clean, places, np.nan),
        "train_loss": np.mean(logistic(margins), axis=-1),
        "test_loss": np.array([loss for loss, _ in tested]),
        "train_accuracy": np.mean(margins > 0, axis=-1),
        "test_accuracy": np.array([accuracy for _, accuracy in tested]),
        "all_clean": clean,
        "all_noisy": noisy,
    }


def _streams(seed, setting):
    """The generators of a run and of its test samples: of their own for every seed, d and norm."""
    return streams((seed, setting.d, round(1000 * setting.norm)))


def _start(rng, setting):
    """A training sample, the head, the signals, the Gram matrix and the scores."""
    sample, mu = draw_experiment(rng, setting), signals(setting.norm, setting.d)
    nu = linear_head(mu)
    return sample, nu, mu, *gram(sample.X, nu)


def published(totals, s, Y, Y_star):
    r"""Figures 4, 6. What the published figures show, by the authors' public code: sums read back from one list.

    Every $s^{(i)}_t(\tau)(1 - s^{(i)}_t(\tau))$ is added to the list's last entry, in the order $\tau, i, t$, and
    a sample's "sum" is the entry where its last token stands: nearly the grand total for every sample. So
    Figure 4's ratio is nearly $\min_c |C_c|$. Figure 6's, divided by its value at $\tau = 0$, is nearly the
    mean place of class -1 in the sample over that of class +1: the later a class stands, the larger its first sum.

    totals : Totals up to the last step.  s : (..., n, T), its weights.  Y, Y_star : (..., n).
    Returns two arrays (...): Figure 4's and Figure 6's.

    States: attention Figure 4; attention Figure 6
    """
    s, Y, Y_star = arrays(s=(s, "...nT"), Y=(Y, "...n"), Y_star=(Y_star, "...n"))
    n = s.shape[-2]
    last_step = np.sum(s * (1 - s), axis=-1)
    total = np.sum(totals.variance, axis=(-2, -1))[..., None]
    entry = total - np.sum(last_step, axis=-1, keepdims=True) + np.cumsum(last_step, axis=-1)
    first_entry = np.broadcast_to(np.arange(1, n + 1), entry.shape)  # times 1 - 1/T, which drops out
    sums, first = (
        np.stack([np.sum(x * ((Y == Y_star) & (labels("Y", Y) == c)), axis=-1) for c in (1, -1)], axis=-1)
        for x in (entry, first_entry)
    )
    ratio_4 = np.min(sums, axis=-1) / np.max(entry, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return ratio_4, (sums[..., 0] / sums[..., 1]) / (first[..., 0] / first[..., 1])


def _class_facts(Y, Y_star):
    """The least |C_c|, and the mean place of C_{-1} over that of C_{+1}; NaN where a class is empty."""
    clean = [np.flatnonzero((Y == Y_star) & (Y == c)) + 1 for c in (1, -1)]
    if not all(map(len, clean)):
        return np.nan, np.nan
    return min(map(len, clean)), clean[1].mean() / clean[0].mean()
