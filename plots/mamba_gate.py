"""Corollary 2 in one layer: gates of clean and outlier examples by position, and of the clean ones by rank."""

import numpy as np

from plots import style
from plots.report import claim
from refimpl.calculus.gating import gate
from refimpl.mamba.experiments import gate_values
from refimpl.mamba.mechanism import local_bias
from refimpl.sweep import complete, sweep

TITLE = "Corollary 2: gates vanish on outliers and decay with the distance from the query, one layer"
STATEMENTS = ["mamba Corollary 2"]
SETTINGS = {"p_a": 0.4, "alpha": 0.3, "kappa_a'": 4.0, "eta": 0.3, "steps": 3160, "seeds": 5, "prompts": 2000, "M1": 6}
QUICK = {"steps": 1000, "seeds": 2}


def draw(settings, seed, jobs, progress):
    seeds = np.random.SeedSequence(seed).generate_state(settings["seeds"]).tolist()
    chosen = [settings[name] for name in ("p_a", "alpha", "kappa_a'", "eta", "steps", "prompts")]
    cells = [(s, *chosen) for s in seeds]
    found = complete(sweep(gate_values, cells, jobs, lambda done, of: progress(f"{done} of {of} trainings")))
    G, outlier, ranked, a, s = (np.concatenate(part) for part in zip(*found))
    clean_mean = np.where(outlier, np.nan, G)
    by_position = [np.nanmean(x, axis=0) for x in (clean_mean, np.where(outlier, G, np.nan))]
    top = 10  # ranks that nearly every prompt has
    ranks = np.arange(1, top + 1)
    mean = np.nanmean(ranked[:, :top], axis=0)
    ratio = mean[1:6] / mean[:5]
    left_side, right_side = local_bias(a, s)
    slack = np.nanmin(left_side / right_side)

    figure, (left, right) = style.figure(9, 3.6, 1, 2)
    position = np.arange(1, G.shape[1] + 1)
    left.bar(position - 0.2, by_position[0], 0.4, color=style.COLOURS[3], label="clean examples")
    left.bar(position + 0.2, by_position[1], 0.4, color=style.COLOURS[1], label="examples with an unseen outlier")
    left.set_xlabel("position in the prompt (the query stands behind)")
    left.set_ylabel("mean gate")
    left.set_xticks(range(2, G.shape[1] + 1, 2))
    left.legend(fontsize=8, loc="upper left")
    low, high = np.nanquantile(ranked[:, :top], [0.01, 0.99], axis=0)
    right.fill_between(ranks, low, high, color=style.COLOURS[3], alpha=0.5, label="1 % to 99 % of the prompts")
    right.plot(ranks, mean, color=style.COLOURS[0], marker="o", label="mean")
    right.plot(ranks, mean[0] * 0.5 ** (ranks - 1), color=style.COLOURS[2], ls="--", label=r"$\propto 2^{-(j-1)}$")
    right.set_yscale("log")
    right.set_xlabel("j: the j-th closest clean example")
    right.set_ylabel("gate")
    right.legend(fontsize=8)

    high_outlier = np.quantile(G[outlier], 0.99)
    weakest = np.nanquantile(ranked[:, :top], 0.01, axis=0) * 2.0 ** (ranks - 1)
    clean, total = a[s < 0], gate(a).sum(axis=1)
    claims = [
        claim(
            "The gates of outlier examples are small",
            "<= O(poly(M_1)^{-1}) with high probability",
            f"mean {G[outlier].mean():.4f}, 99 % quantile {high_outlier:.3f}, largest {G[outlier].max():.2f}",
            f"99 % quantile <= 1 / M_1 = {1 / settings['M1']:.3f}",
            high_outlier <= 1 / settings["M1"],
        ),
        claim(
            "The gate of the j-th closest clean example is at least of order 2^{-(j-1)}",
            ">= Theta(2^{-(j-1)})",
            f"1 % quantile times 2^(j-1), j = 1 to {top}: {weakest.min():.3f} or more",
            "no smaller than at j = 1, for the 1 % quantile",
            np.all(weakest >= weakest[0] * (1 - 1e-9)),
        ),
        claim(
            "It decays about exponentially with the rank",
            "approximately exponential decay",
            "ratios " + ", ".join(f"{x:.3f}" for x in ratio),
            "ratios for j = 1 to 5 within 10 % of each other",
            ratio.max() / ratio.min() <= 1.1,
        ),
        claim(
            "It decays at the rate 1/2",
            "2^{-(j-1)} (a lower bound)",
            f"mean ratio {ratio.mean():.3f}",
            "within 10 % of 1/2",
            abs(ratio.mean() - 0.5) <= 0.05,
        ),
        claim(
            "Clean pre-activations are negative after training, as Corollary 2's proof uses it",
            "w^T p_s < 0 (Eq. 12, which Lemma 4 claims for the first phase)",
            f"largest {clean.max():.3f}, {(clean >= 0).sum()} of {clean.size} are not",
            "all < 0",
            clean.max() < 0,
        ),
        claim(
            "The bound with its constants holds in every prompt",
            "proof of Corollary 2",
            f"least left / right side {slack:.2f}",
            ">= 1",
            slack >= 1,
        ),
        claim(
            "The gates of a prompt sum to nearly 1 (Remark 8)",
            "smaller than and very close to 1",
            f"mean {total.mean():.4f} with the query's gate, {G.sum(axis=1).mean():.3f} for the examples alone",
            "mean in [0.9, 1) with the query's gate",
            0.9 <= total.mean() < 1,
        ),
    ]
    numbers = {"clean by position": by_position[0], "outlier by position": by_position[1], "by rank": mean}
    return figure, claims, numbers
