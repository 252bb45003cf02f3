"""Corollary 2 in one layer: gates of clean and outlier examples by position, and of the clean ones by rank."""

import numpy as np

from plots import sizes, style
from plots.mamba import counter, seeds
from plots.report import claim
from refimpl.calculus.gating import gate
from refimpl.mamba.experiments import gate_values
from refimpl.mamba.mechanism import local_bias
from refimpl.mamba.setting import UNSEEN, Setting, Testing
from refimpl.sweep import complete, sweep

TITLE = "Corollary 2: gates vanish on outliers and decay with the distance from the query, one layer"
CAPTION = (
    "Gates of a trained layer on prompts with unseen outliers: next to nothing passes on an outlier (a), and a clean "
    "example's gate decays exponentially with its rank from the query, more slowly than the corollary's bound (b)."
)
STATEMENTS = ["mamba Corollary 2"]
SETTINGS = {
    "p_a": 0.4,
    "alpha": 0.3,
    "kappa_a'": 4.0,
    "eta": 0.3,
    "steps": 3160,
    "seeds": 5,
    "prompts": 2000,
    "M1": 6,
    "ranks": 10,  # that nearly every prompt has
}
QUICK = {"steps": 1000, "seeds": 2}


def measure(settings, seed, jobs, progress):
    setting = sizes(Setting, settings)
    testing = Testing(mixture=UNSEEN, kappa_a=settings["kappa_a'"], alpha=settings["alpha"])
    cells = [(s, setting, testing, settings["steps"], settings["prompts"]) for s in seeds(seed, settings)]
    found = complete(sweep(gate_values, cells, jobs, counter(progress, "trainings")))
    return summary(*(np.concatenate(part) for part in zip(*found)), settings["ranks"])


def summary(G, outlier, ranked, a, s, ranks):
    """What is shown and claimed of the gates G and the pre-activations a of all prompts, as from gate_values.

    by rank : (3, ranks), the mean and the 1 % and 99 % quantiles.  outliers : mean, 99 % quantile and largest gate.
    clean : the largest pre-activation, how many are >= 0, and of how many.
    slack : the least left over right side of local_bias.  sums : of a prompt's gates, the query's in it and not.
    """
    ranked, left, right = ranked[:, :ranks], *local_bias(a, s)
    low, high = np.nanquantile(ranked, [0.01, 0.99], axis=0)
    return {
        "clean by position": np.nanmean(np.where(outlier, np.nan, G), axis=0),
        "outlier by position": np.nanmean(np.where(outlier, G, np.nan), axis=0),
        "by rank": np.array([np.nanmean(ranked, axis=0), low, high]),
        "outliers": (G[outlier].mean(), np.quantile(G[outlier], 0.99), G[outlier].max()),
        "clean": (a[s < 0].max(), np.sum(a[s < 0] >= 0), np.sum(s < 0)),
        "slack": np.nanmin(left / right),
        "sums": (gate(a).sum(axis=1).mean(), G.sum(axis=1).mean()),
    }


def numbers(found, settings):
    rows = {name: found[name] for name in ("clean by position", "outlier by position")}
    return rows | {"by rank": found["by rank"][0]}


def claims(found, settings):
    return gates_claims(found, settings) + proof_claims(found)


def gates_claims(found, settings):
    mean, low, _ = found["by rank"]
    average, high, largest = found["outliers"]
    ratio, weakest = mean[1:6] / mean[:5], low * 2.0 ** np.arange(len(low))
    return [
        claim(
            "The gates of outlier examples are small",
            paper="<= O(poly(M_1)^{-1}) with high probability",
            measured=f"mean {average:.4f}, 99 % quantile {high:.3f}, largest {largest:.2f}",
            threshold=f"99 % quantile <= 1 / M_1 = {1 / settings['M1']:.3f}",
            holds=high <= 1 / settings["M1"],
        ),
        claim(
            "The gate of the j-th closest clean example is at least of order 2^{-(j-1)}",
            paper=">= Theta(2^{-(j-1)})",
            measured=f"1 % quantile times 2^(j-1), j = 1 to {len(low)}: {weakest.min():.3f} or more",
            threshold="no smaller than at j = 1, for the 1 % quantile",
            holds=np.all(weakest >= weakest[0] * (1 - 1e-9)),
        ),
        claim(
            "The gate of a clean example decays about exponentially with its rank",
            paper="approximately exponential decay",
            measured="ratios " + ", ".join(f"{x:.3f}" for x in ratio),
            threshold="ratios for j = 1 to 5 within 10 % of each other",
            holds=ratio.max() / ratio.min() <= 1.1,
        ),
        claim(
            "The gate of a clean example decays at the rate 1/2 with its rank",
            paper="2^{-(j-1)} (a lower bound)",
            measured=f"mean ratio {ratio.mean():.3f}",
            threshold="within 10 % of 1/2",
            holds=abs(ratio.mean() - 0.5) <= 0.05,
        ),
    ]


def proof_claims(found):
    largest, above, of = found["clean"]
    total, examples = found["sums"]
    return [
        claim(
            "Clean pre-activations are negative after training, as Corollary 2's proof uses it",
            paper="w^T p_s < 0 (Eq. 12, which Lemma 4 claims for the first phase)",
            measured=f"largest {largest:.3f}, {above} of {of} are not",
            threshold="all < 0",
            holds=largest < 0,
        ),
        claim(
            "The bound with its constants holds in every prompt",
            paper="proof of Corollary 2",
            measured=f"least left / right side {found['slack']:.2f}",
            threshold=">= 1",
            holds=found["slack"] >= 1,
        ),
        claim(
            "The gates of a prompt sum to nearly 1 (Remark 8)",
            paper="smaller than and very close to 1",
            measured=f"mean {total:.4f} with the query's gate, {examples:.3f} for the examples alone",
            threshold="mean in [0.9, 1) with the query's gate",
            holds=0.9 <= total < 1,
        ),
    ]


def picture(found, settings):
    figure, axes = style.figure(9, 3.8, 1, 2)
    positions(axes[0], found["clean by position"], found["outlier by position"])
    decay(axes[1], *found["by rank"])
    style.letters(axes)
    return figure


def positions(axis, clean, outlier):
    position = np.arange(1, len(clean) + 1)
    axis.bar(position - 0.2, clean, 0.4, color=style.COLOURS[3], label="clean examples")
    axis.bar(position + 0.2, outlier, 0.4, color=style.COLOURS[1], label="examples with an unseen outlier")
    axis.set(xlabel="position in the prompt (the query stands behind)", ylabel="mean gate")
    axis.set_title("gate by position", fontsize=9)
    axis.set_xticks(range(2, len(clean) + 1, 2))
    axis.legend(fontsize=8, loc="upper left")


def decay(axis, mean, low, high):
    rank = np.arange(1, len(mean) + 1)
    axis.fill_between(rank, low, high, color=style.COLOURS[3], alpha=0.5, label="1 % to 99 % of the prompts")
    axis.plot(rank, mean, color=style.COLOURS[0], marker="o", label="mean")
    axis.plot(rank, mean[0] * 0.5 ** (rank - 1), color=style.COLOURS[2], ls="--", label=r"$\propto 2^{-(j-1)}$")
    axis.set(yscale="log", xlabel="j: the j-th closest clean example", ylabel="gate")
    axis.set_title("gate by rank, against the bound's rate", fontsize=9)
    axis.legend(fontsize=8, loc="lower left")
