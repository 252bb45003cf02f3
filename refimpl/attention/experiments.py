r"""Section 5 and Appendix I: the arrays behind Figures 1 to 6.

The paper's setting throughout: draw_experiment, T = 8, weak_scale 0.2, alpha = 1e-4, |nu| = 1/|mu|, W = I,
ceil(eta n) flipped labels. Training runs in Gram form (gram.py); a test sample is drawn as its logits
and scores (fresh.py). Both are exact: no step is skipped and no cell interpolated.
"""

import math
from typing import NamedTuple

import numpy as np

from refimpl.attention import uncertainty
from refimpl.attention.data import RELEVANT, Sample, draw_experiment, experiment_roles, signals, streams
from refimpl.attention.head import linear_head
from refimpl.attention.runs import fresh
from refimpl.attention.runs.gram import descend, gram
from refimpl.calculus.losses import logistic
from refimpl.checks import arrays, count, labels, number
from refimpl.sweep import complete, sweep

T, WEAK_SCALE, ALPHA, NOISE_RATE = 8, 0.2, 1e-4, 0.2


class Run(NamedTuple):
    """One training run: recorded times (K,), weights s (K, n, T); the last rho (n, T) and margins Y f (n,); accuracies.

    States: attention Figure 3
    """

    sample: Sample
    times: np.ndarray
    s: np.ndarray
    rho: np.ndarray
    margins: np.ndarray
    train_accuracy: float
    test_accuracy: float


def flips(n, noise_rate=NOISE_RATE):
    r"""Section 5. $\lceil \eta n \rceil$, the number of flipped labels; eta n up to rounding first.

    States: attention Definition 3.1
    """
    return math.ceil(round(number("noise_rate", noise_rate, 0, 1) * count("n", n), 9))


def wanted_token(Y, Y_star):
    r"""Theorem 4.1. The token that a sample should pick: 0 (in R) where clean, 2 (in $W_{-Y^*} = W_Y$) where noisy.

    Y, Y_star : (n,).  Returns (n,) integers.

    States: attention Figure 1
    """
    Y, Y_star = arrays(Y=(labels("Y", Y), "n"), Y_star=(labels("Y_star", Y_star), "n"))
    return np.where(Y == Y_star, 0, 2)


def selected(sample, p):
    """Figure 1. The token of the largest weight in each sample.

    sample : a Sample of draw_experiment.  p : (d,), W = I.  Returns (n, d).

    States: attention Figure 1
    """
    z = sample.X @ arrays(p=(p, "d"))
    return np.take_along_axis(sample.X, z.argmax(axis=-1)[:, None, None], axis=1)[:, 0]


def figure_1(seed, betas, n=100, d=10_000, norm=20.0, clean_noise=True):
    r"""Figure 1. $p = \mu_{+1} + \mu_{-1} + \beta \sum_j \epsilon^{(j)}$ of the wanted token, for each beta.

    clean_noise : the sum runs over all training samples, as the published figure has it; over the noisy ones
    alone, as in Theorem 4.1, where False.
    Returns train, test (Samples) and, for each beta, {split: (points (n, 2), accuracy)}: the selected tokens'
    coordinates along the signals, and how often the sign of their score is the (observed) label.

    States: attention Figure 1
    """
    rngs, mu = streams(seed), signals(norm, d)
    train, test = (draw_experiment(rng, n, norm, d, k) for rng, k in zip(rngs, (flips(n), 0)))
    noise = train.noise[np.arange(n), wanted_token(train.Y, train.Y_star)]
    noise = noise if clean_noise else noise[train.Y != train.Y_star]
    results = []
    for beta in betas:
        p = mu.sum(axis=0) + beta * noise.sum(axis=0)
        by_split = {}
        for name, sample in (("train", train), ("test", test)):
            points = selected(sample, p) @ (mu / norm).T
            by_split[name] = points, float(np.mean(sample.Y * (points[:, 0] - points[:, 1]) > 0))
        results.append(by_split)
    return train, test, results


def figure_3(seed, d, norm, steps=10_000, every=50, n=20, test_samples=1000):
    """Figures 2 and 3. One training run, its attention weights recorded every `every` steps, 0 and the last included.

    d, norm : as in draw_experiment.  steps : >= 0.  every : >= 1.
    Returns a Run.  Accuracies: how often the output's sign is the observed label, the clean label on fresh samples.

    States: attention Figure 2; attention Figure 3
    """
    every = count("every", every)
    rng, test_rng = streams((seed, d, round(1000 * norm)))
    sample = draw_experiment(rng, n, norm, d, flips(n))
    mu = signals(norm, d)
    M, gamma = gram(sample.X, nu := linear_head(mu))
    times, weights = [], []

    def record(tau, rho, s):
        if tau % every == 0 or tau == steps:
            times.append(tau)
            weights.append(s)

    rho = descend(M, gamma, sample.Y, ALPHA, steps, record=record)
    margins = sample.Y * np.sum(weights[-1] * gamma, axis=-1)
    _, test = fresh_loss(test_rng, sample.X, rho, M, gamma, nu, mu, test_samples)
    return Run(sample, np.array(times), np.array(weights), rho, margins, float(np.mean(margins > 0)), test)


def fresh_loss(rng, X, rho, M, gamma, nu, mu, samples):
    r"""Figure 5. Mean logistic loss and accuracy on fresh samples without label noise.

    rng : numpy Generator.  X : (n, T, d) training tokens, W = I.  The rest from gram and descend.  Returns two floats.

    States: attention Figure 5
    """
    Y_star = rng.choice([-1.0, 1.0], samples)
    means, covariance = fresh.law_from_gram(rho, M, gamma, X @ mu.T, nu, mu)
    _, _, f = fresh.draw(rng, Y_star, experiment_roles(Y_star, T), WEAK_SCALE, means, covariance)
    return float(np.mean(logistic(Y_star * f))), float(np.mean(Y_star * f > 0))


def grid(seed, dimensions, norms, steps, test_samples, jobs=1, progress=None):
    """Figures 4, 5, 6. Every cell of dimensions x norms, on `jobs` workers.

    Returns {name: (len(dimensions), len(norms))}, the names of grid_row.  A cell is the same in any grid with its seed.

    States: attention Figure 4; attention Figure 5; attention Figure 6
    """
    settings = [(seed, d, tuple(norms), steps, test_samples) for d in dimensions]
    if not settings or not len(norms):
        raise ValueError("dimensions, norms: must not be empty")
    rows = complete(sweep(grid_row, settings, jobs, progress))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def grid_row(seed, d, norms, steps, test_samples, n=20):
    """Figures 4, 5, 6. All norms at one d, trained together. Returns {name: (len(norms),)}:

    eq_9 (the smaller class), eq_10 (scaled), published_4, published_6, smaller_class (the least |C_c|), places (the
    mean place of C_{-1} in the sample over that of C_{+1}), train_loss, test_loss, train_accuracy, test_accuracy,
    all_clean, all_noisy (whether every C_c, every N_c has samples). NaN where a class has none.

    States: attention Figure 4; attention Figure 5; attention Figure 6
    """
    rngs = [streams((seed, d, round(1000 * norm))) for norm in norms]
    samples = [draw_experiment(rng, n, norm, d, flips(n)) for (rng, _), norm in zip(rngs, norms)]
    mus = [signals(norm, d) for norm in norms]
    nus = [linear_head(mu) for mu in mus]
    M, gamma = map(np.array, zip(*(gram(sample.X, nu) for sample, nu in zip(samples, nus))))
    Y, Y_star, roles = (np.array([getattr(sample, part) for sample in samples]) for part in ("Y", "Y_star", "roles"))
    relevant, totals = roles == RELEVANT, uncertainty.start(gamma)

    def record(tau, rho, s):
        nonlocal totals, last
        totals, last = uncertainty.add(totals, s, relevant), s

    last = None
    rho = descend(M, gamma, Y, ALPHA, steps, record=record)
    margins = Y * np.sum(last * gamma, axis=-1)
    tested = [
        fresh_loss(rng, sample.X, *parts, test_samples)
        for (_, rng), sample, *parts in zip(rngs, samples, rho, M, gamma, nus, mus)
    ]
    clean, noisy = uncertainty.has_all_classes(Y, Y_star)
    left, right = uncertainty.eq_9(totals, Y, Y_star)
    above, below = uncertainty.eq_10(totals, Y, Y_star, scaled=True)
    published_4, published_6 = published(totals, last, Y, Y_star)
    smaller_class, places = np.array([_class_facts(*pair) for pair in zip(Y, Y_star)]).T
    return {
        "eq_9": np.where(clean, left.min(axis=-1) / right, np.nan),
        "eq_10": np.divide(above, below, out=np.full(len(norms), np.nan), where=clean),
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
