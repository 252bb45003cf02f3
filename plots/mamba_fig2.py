"""Figure 2: error against the outlier fraction, Mamba and linear Transformer, for each reading of what is open."""

import numpy as np

from plots import style
from plots.report import claim
from refimpl.mamba.experiments import LABELLINGS, Case, figure_2
from refimpl.sweep import complete, sweep

TITLE = "Figure 2: test error against the outlier fraction, Mamba and linear Transformer"
STATEMENTS = ["mamba Figure 2", "mamba Section 3.1 (P1-P3)", "mamba Section 2 (generalisation error)"]
SETTINGS = {
    "d": 30,
    "M1": 6,
    "M2": 10,
    "V": 3,
    "beta": 3,
    "kappa_a": 2,
    "p_a": 0.6,
    "l": 20,
    "delta": 0.2,
    "K": 0.5,
    "outlier_norm": 3,
    "B": 128,
    "eta_mamba": 1.0,
    "eta_linear": 0.01,
    "steps_mamba": 3000,
    "steps_linear": 1000,
    "seeds": 6,
    "prompts": 6000,
    "alphas": [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9],
}
QUICK = {"seeds": 3, "prompts": 1000, "steps_mamba": 1500, "steps_linear": 500}

# One row of the report each; the first four are drawn above, the next five below.
CASES = {
    "training outliers": Case(outliers="training", magnitude=2.0),
    "unseen, kappa_a' = 2": Case(magnitude=2.0),
    "unseen, kappa_a' = 4": Case(),
    "unseen, kappa_a' = 4, exact count": Case(counted=True),
    "all tasks / all": Case(train="all", test="all"),
    "cycle / all": Case(test="all"),
    "disjoint pairs / all": Case(train="disjoint", test="all"),
    "K' = 2": Case(K=2.0),
    "outlier norm 1": Case(outlier_norm=1.0),
    "unseen, kappa_a' = 2, exact count": Case(magnitude=2.0, counted=True),
    "outlier norm 1, kappa_a' = 6": Case(outlier_norm=1.0, magnitude=6.0),
    "outlier norm 1, training outliers": Case(outlier_norm=1.0, outliers="training", magnitude=2.0),
    "training outliers, exact count": Case(outliers="training", magnitude=2.0, counted=True),
    "all tasks / all, exact count": Case(train="all", test="all", counted=True),
    "cycle / all, exact count": Case(test="all", counted=True),
    "K' = 2, exact count": Case(K=2.0, counted=True),
    "outlier norm 1, exact count": Case(outlier_norm=1.0, counted=True),
}
ABOVE, BELOW = list(CASES)[:4], list(CASES)[4:9]
LINEAR = ("unseen, kappa_a' = 4", "unseen, kappa_a' = 4, exact count")
LOW, LARGE = 0.01, 0.1  # the paper's "smaller than 0.01"; "large": ten times that


def describe(case):
    kind = "exact count" if case.counted else "probability"
    return (
        f"{case.outliers} outliers of norm {case.outlier_norm:g}, kappa_a' = {case.magnitude:g}, alpha as {kind}, "
        f"K' = {case.K:g}, trained on {case.train}, tested on {case.test}"
    )


def errors(settings, seed, jobs, progress):
    """{case: (seeds, labellings, alphas, 2)}: each pair of models is trained once for all cases that share it."""
    shared = {}
    for name, case in CASES.items():
        shared.setdefault((case.train, case.outlier_norm), []).append(name)
    steps = (settings["steps_mamba"], settings["steps_linear"])
    etas = (settings["eta_mamba"], settings["eta_linear"])
    seeds = np.random.SeedSequence(seed).generate_state(settings["seeds"]).tolist()
    cells = [
        (train, norm, [CASES[name] for name in names], s, settings["alphas"], settings["prompts"], steps, etas)
        for (train, norm), names in shared.items()
        for s in seeds
    ]
    results = iter(complete(sweep(figure_2, cells, jobs, lambda done, of: progress(f"{done} of {of} trainings"))))
    found = {}
    for names in shared.values():
        rows = [next(results) for _ in seeds]
        found.update({name: np.array([row[k] for row in rows]) for k, name in enumerate(names)})
    return {name: found[name] for name in CASES}


def mamba_claims(name, values, alphas, l):
    """Below 0.01 up to 0.8: one claim for flipped labels, which are the hardest, and one for the other two."""
    top = alphas[alphas <= 0.8 + 1e-9][-1]
    mean = values.mean(axis=0)[:, alphas <= 0.8 + 1e-9, 0]
    found = []
    for text, rows in (("flipped labels", (0,)), ("targeted and random labels", (1, 2))):
        worst = mean[list(rows)].max(axis=0)
        upto = alphas[: int(np.argmax(np.append(worst >= LOW, True)))]
        bare = f"; at alpha = {top:g} no clean example in {top**l:.4f} of the prompts"
        floor = bare if rows == (0,) and not CASES[name].counted else ""
        reach = f", below 0.01 up to alpha = {upto[-1]:g}" if len(upto) else ", not even at alpha = 0"
        found.append(
            claim(
                f"Mamba's error is below 0.01 up to alpha = 0.8 ({name}; {text})",
                "< 0.01 even when alpha is close to 0.8",
                f"largest {worst.max():.4f}{reach}{floor}",
                "mean < 0.01 at every alpha <= 0.8",
                np.all(worst < LOW),
                describe(CASES[name]),
            )
        )
    return found


def linear_claims(name, values, alphas):
    mean = values.mean(axis=0)[:, alphas > 0.5, 1]
    return [
        claim(
            f"The linear Transformer's error is large as soon as alpha > 1/2 ({name}; {labelling} labels)",
            "large as long as alpha > 1/2",
            f"{row[0]:.3f} to {row[-1]:.3f} from alpha = {alphas[alphas > 0.5][0]:g} on",
            f"mean >= {LARGE:g} at every alpha > 1/2",
            np.all(row >= LARGE),
            describe(CASES[name]),
        )
        for labelling, row in zip(LABELLINGS, mean)
    ]


def gap_claim(name, values, alphas):
    mean = values.mean(axis=0)[:, alphas > 0.5]
    ratio = np.max((mean[..., 0] + 1e-12) / (mean[..., 1] + 1e-12))
    return claim(
        f"Past alpha = 1/2 Mamba's error is below the linear Transformer's ({name})",
        "P2: Mamba tolerates alpha > 1/2",
        f"largest ratio of the two {ratio:.2g}",
        "< 1 for each labelling at every alpha > 1/2",
        ratio < 1,
        describe(CASES[name]),
    )


def draw(settings, seed, jobs, progress):
    alphas, found = np.array(settings["alphas"]), errors(settings, seed, jobs, progress)
    figure, axes = style.figure(10, 7, 2, 3, sharex=True, sharey=True)
    for row, names in zip(axes, (ABOVE, BELOW)):
        for column, (axis, labelling) in enumerate(zip(row, LABELLINGS)):
            for k, name in enumerate(names):
                curve(axis, alphas, found[name][:, column, :, 0], k, f"Mamba: {name}" if names is ABOVE else name)
            if names is ABOVE:
                for name, dash in zip(LINEAR, ("-", "--")):
                    label = in_letters(f"linear: {name}")
                    values = found[name][:, column, :, 1]
                    axis.errorbar(
                        alphas,
                        values.mean(0),
                        values.std(0, ddof=1),
                        color="#9e9e9e",
                        ls=dash,
                        lw=2.5,
                        label=in_letters(label),
                    )
            axis.axhline(LOW, color="black", lw=0.7, ls=":")
            axis.set_yscale("symlog", linthresh=0.01, linscale=0.7)
            axis.set_ylim(-0.0005, 1.3)
            axis.set_yticks([0, 0.005, 0.01, 0.1, 1], ["0", "0.005", "0.01", "0.1", "1"])
            axis.set_title(
                f"{labelling} labels" if names is ABOVE else f"{labelling}: Mamba, other settings", fontsize=9
            )
        row[0].set_ylabel("test error (linear below 0.01)")
        place = "outside upper center" if names is ABOVE else "outside lower center"
        figure.legend(*row[0].get_legend_handles_labels(), loc=place, fontsize=7.5, ncols=3 if names is ABOVE else 5)
    for axis in axes[1]:
        axis.set_xlabel(r"outlier fraction $\alpha$")
    claims = [row for name, values in found.items() for row in mamba_claims(name, values, alphas, settings["l"])]
    claims += [row for name in LINEAR for row in linear_claims(name, found[name], alphas)]
    claims += [gap_claim(name, found[name], alphas) for name in LINEAR]
    numbers = {
        name: {
            labelling: dict(
                zip(
                    ("mamba", "linear", "sd of mamba", "sd of linear"),
                    (*values[:, k].mean(0).T, *values[:, k].std(0, ddof=1).T),
                )
            )
            for k, labelling in enumerate(LABELLINGS)
        }
        for name, values in found.items()
    }
    numbers["prompts without a clean example, alpha a probability"] = alphas ** settings["l"]
    return figure, claims, numbers


def in_letters(name):
    return name.replace("kappa_a'", r"$\kappa_a'$")


def curve(axis, alphas, values, k, label):
    """The mean over the seeds with one standard deviation on each side."""
    look = dict(color=style.COLOURS[k], marker=style.MARKERS[k], ls=style.DASHES[k], ms=3.5, lw=1.2, capsize=2)
    axis.errorbar(alphas, values.mean(axis=0), values.std(axis=0, ddof=1), label=in_letters(label), **look)
