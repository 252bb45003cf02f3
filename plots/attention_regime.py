"""Our check: Theorem 4.2 below and inside its regime, the training tokens drawn without their d."""

import numpy as np

from plots import sizes
from plots.report import claim
from plots.style import COLOURS, DASHES, MARKERS, figure, letters
from refimpl.attention import conditions, convergence, generalization, uncertainty
from refimpl.attention.runs import trials
from refimpl.attention.setting import Setting
from refimpl.sweep import complete, sweep

TITLE = "Theorem 4.2 below and inside its regime, d up to 10^13"
CAPTION = (
    "Theorem 4.2 over d, its regime in grey: the slack of its conditions (a), the share of training sets for which its"
    " lemmas hold (b), and the test error (c). Inside the regime all of it holds, and most of it from far below on."
)
STATEMENTS = [
    "attention Theorem 4.2 (overfitting)",
    "attention Theorem 4.2 (benign)",
    "attention Lemma A.3",
    "attention Lemma A.4",
    "attention Lemma A.5",
    "attention Eq. 9",
    "attention Eq. 10",
    "attention Eq. 11",
    "attention Eq. 12",
]
# flips : wrong labels of the samples with Y* = +1 and with Y* = -1.  late : log t.
SETTINGS = dict(
    n=12,
    T=4,
    relevant=1,
    weak=2,
    C=5,
    delta=0.1,
    exponents=[*range(3, 13), 12.5, 13],
    seeds=12,
    flips=[1, 1],
    late=10_000,
    fresh=2000,
)
QUICK = dict(exponents=[3, 5, 7, 9, 11, 12.5, 13], seeds=4)

MIDDLE = [100.0, 1000.0]  # log times between the fit and late
MOMENTS = {"at the fit": 0, "late": 1}  # where in a row's wrong and most


def place(d, settings):
    """The setting at d: (A'1) with equality gives |mu|, rho is at the upper end of (A'3)."""
    s, C = sizes(Setting, settings), settings["C"]
    norm, rho = np.sqrt(d / (C * s.T**2 * s.n)), conditions.weak_scale_limit(s.n, s.T, C)
    return s._replace(d=d, norm=norm, weak_scale=rho, noise_rate=1 / C)


def slacks(s, C):
    """Of the conditions that the choice of place leaves open."""
    strong, (left, right) = conditions.strong_assumptions(s, C), conditions.equation_45(s, C)
    return {"A'2": strong["A'2"], "A'3 lower": strong["A'3 lower"], "Eq. 45": left / right}


def regime_start(settings):
    """The smallest d at which all of Theorem 4.2's assumptions hold."""
    return conditions.smallest_setting(*(settings[name] for name in ("n", "T", "delta", "C"))).trace


def measure(settings, seed, jobs, progress):
    """by_d {d: [what `cell` returns, for each seed]}; missing, how many draws had a class without samples."""
    regime_start(settings)  # refuses an n or a C for which there is none, before anything runs
    if len(settings["flips"]) != 2 or min(settings["flips"]) < 1:
        raise ValueError(f"flips: must be two numbers, 1 or more, got {settings['flips']}")
    if settings["late"] <= MIDDLE[-1]:
        raise ValueError(f"late: must be above {MIDDLE[-1]:g}, got {settings['late']}")
    dimensions = [round(10.0**k) for k in settings["exponents"]]
    cells = [(seed + k, d, settings) for d in dimensions for k in range(settings["seeds"])]
    rows = complete(sweep(cell, cells, jobs, lambda k, of: progress(f"{k} of {of}") if k % 20 == 0 else None))
    by_d = {d: [] for d in dimensions}
    for (_, d, _), row in zip(cells, rows):
        by_d[d] += [row] if row is not None else []
    return dict(by_d=by_d, missing=sum(row is None for row in rows))


def cell(seed, d, settings):
    """One training set: whether the lemmas hold at every moment, when it is fitted, lambda, errors, Eqs. 9-11.

    None for a draw that leaves a class without a clean or without a noisy sample.
    """
    s = place(d, settings)
    times = np.concatenate((np.linspace(-4, 20, 97), MIDDLE, [settings["late"]]))
    train, test = (np.random.default_rng(part) for part in np.random.SeedSequence([seed, d]).spawn(2))
    run = trials.run(train, times, s, flips=tuple(settings["flips"]))
    Y, Y_star, roles = run.sample.Y, run.sample.Y_star, run.sample.roles
    if not all(uncertainty.has_all_classes(Y, Y_star)):
        return None
    orders = (order(run.path.log_s, Y, Y_star, roles) for order in (convergence.clean_order, convergence.noisy_order))
    clean, noisy = (bool(np.all(left >= right)) for left, right in orders)
    fit = convergence.fit_times(np.exp(run.path.log_s), run.gamma, Y)
    seen = [trials.generalize(run, k, test, settings["fresh"]) for k in (min(fit, len(times) - 1), -1)]
    return dict(
        clean=clean,
        noisy=noisy,
        fitted=fit < len(times),
        fit_time=times[fit] if fit < len(times) else np.inf,
        signal=(run.lam[-1] * s.norm**2).tolist(),
        wrong=[error for error, *_ in seen],
        most=[high for _, (_, high), _ in seen],
        **uncertainty_ratios(run),
    )


def uncertainty_ratios(run):
    """Eqs. 9, 10 and 11 at the last moment; of Eq. 10 the larger class over the smaller."""
    last = uncertainty.Totals(*(part[-1] for part in run.path.totals))
    labels = run.sample.Y, run.sample.Y_star
    (left, right), (plus, minus) = uncertainty.eq_9(last, *labels), uncertainty.eq_10(last, *labels)
    clean, noisy = uncertainty.eq_11(last, *labels)
    ratios = np.min(left) / right, max(plus / minus, minus / plus), np.min(clean / noisy)
    return dict(zip(("eq_9", "eq_10", "eq_11"), map(float, ratios)))


def share(rows, name):
    return np.mean([row[name] for row in rows]) if rows else np.nan


def shares(found):
    """{what: the share of the seeds at each d}."""
    return {name: [share(rows, name) for rows in found["by_d"].values()] for name in ("clean", "noisy", "fitted")}


def errors(found):
    """{moment: the mean test error at each d}."""
    return {
        name: [np.mean([row["wrong"][k] for row in rows]) if rows else np.nan for rows in found["by_d"].values()]
        for name, k in MOMENTS.items()
    }


def closed(found, settings):
    """{which p: the logarithm of its test error at each d}: uniform attention, and the relevant token alone."""
    at = [place(d, settings) for d in found["by_d"]]
    return {
        "p = 0": [generalization.uniform_error(s) for s in at],
        "relevant token alone": [generalization.picked_error(s.norm) for s in at],
    }


def numbers(found, settings):
    by_d = found["by_d"]
    slack = [slacks(place(d, settings), settings["C"]) for d in by_d]

    def each(least_or_most, value):
        return [least_or_most(map(value, rows), default=np.nan) for rows in by_d.values()]

    return dict(
        dimensions=[float(d) for d in by_d],
        slack={name: [part[name] for part in slack] for name in slack[0]},
        share_of_seeds=shares(found),
        error=errors(found),
        log_error=closed(found, settings),
        most_error={name: each(max, lambda row: row["most"][k]) for name, k in MOMENTS.items()},
        fit_time=[np.median([row["fit_time"] for row in rows]) if rows else np.nan for rows in by_d.values()],
        smallest_signal_late=each(min, lambda row: min(row["signal"])),
        eq_9_late=each(min, lambda row: row["eq_9"]),
        eq_10_late=each(max, lambda row: row["eq_10"]),
        eq_11_late=each(min, lambda row: row["eq_11"]),
        weak_scale=place(next(iter(by_d)), settings).weak_scale,
        regime_starts_at=float(regime_start(settings)),
        draws_without_all_classes=found["missing"],
    )


def claims(found, settings):
    """Each decided inside the regime, None where no d reaches it."""
    start, (plus, minus) = regime_start(settings), settings["flips"]
    seeds = f"{settings['seeds']} seeds each"
    where = f"d >= {start:.2g}, {seeds}; wrong labels: {plus} with Y* = +1, {minus} with Y* = -1"
    inside = [row for d, rows in found["by_d"].items() if d >= start for row in rows]
    eq_9 = min((row["eq_9"] for row in inside), default=np.nan)
    eq_10 = max((row["eq_10"] for row in inside), default=np.nan)
    eq_11 = min((row["eq_11"] for row in inside), default=np.nan)
    met = f"{where}; Eq. 9 >= {eq_9:.2g}, Eq. 10 <= {eq_10:.2g}, Eq. 11 >= {eq_11:.2g}"
    limit = settings["delta"] / settings["n"]
    return [
        *(holds_always(name, found, start, settings["delta"], where) for name in ALWAYS),
        signal_is_positive(inside, met),
        generalises(inside, limit, met),
        uniform_is_enough(found, settings, start, limit, where),
        above_one(eq_9, where),
    ]


ALWAYS = {
    "clean": "Clean samples: a relevant token leads at every moment (A.3)",
    "noisy": "Noisy samples: a weak token that matches the label leads at every moment (A.4)",
    "fitted": "All training labels are fitted in the end",
}


def verdict(value, holds):
    return None if np.isnan(value) else holds


def holds_always(name, found, start, delta, where):
    by_d = dict(zip(found["by_d"], shares(found)[name]))
    worst = min((part for d, part in by_d.items() if d >= start), default=np.nan)
    first = next((d for d in by_d if all(by_d[e] == 1 for e in by_d if e >= d)), None)
    return claim(
        ALWAYS[name],
        paper=f"with probability {1 - delta:g}",
        measured=f"{worst:.2f} of the seeds" + (f"; all seeds from d = {first:.0e} on" if first else ""),
        threshold="all seeds inside the regime",
        holds=verdict(worst, worst == 1),
        settings=where,
    )


def signal_is_positive(inside, where):
    signal = min((min(row["signal"]) for row in inside), default=np.nan)
    return claim(
        "Both signal coefficients are positive in the end (A.5)",
        paper="> 0",
        measured=f"smallest lambda |mu|^2 {signal:.3g}",
        threshold="> 0",
        holds=verdict(signal, signal > 0),
        settings=where,
    )


def generalises(inside, limit, where):
    worst = max((max(row["most"]) for row in inside), default=np.nan)
    return claim(
        "The trained p generalises, at the fit and late: its test error is small (the largest upper end at 99 %)",
        paper=f"<= {limit:.2g}",
        measured=f"{worst:.2g}",
        threshold=f"<= {limit:.2g}",
        holds=verdict(worst, worst <= limit),
        settings=where,
    )


def uniform_is_enough(found, settings, start, limit, where):
    log_error = dict(zip(found["by_d"], closed(found, settings)["p = 0"]))
    worst = max((value for d, value in log_error.items() if d >= start), default=np.nan)
    first = min((d for d, value in log_error.items() if value <= np.log(limit)), default=np.inf)
    return claim(
        "Eq. 12 holds before any training: with the fixed head, uniform attention is enough",
        paper="-",
        measured=f"exp({worst:.2g}) at p = 0; below delta/n from d = {first:.0e} on",
        threshold=f"<= {limit:.2g}",
        holds=verdict(worst, worst <= np.log(limit)),
        settings=where,
    )


def above_one(eq_9, where):
    return claim(
        "Eq. 9 holds with C_1 = 1, as in Section 5 (the ratio is of order rho: no absolute C_1 covers the regime)",
        paper=">= C_1 > 0",
        measured=f"{eq_9:.2g}",
        threshold=">= 1",
        holds=verdict(eq_9, eq_9 >= 1),
        settings=where,
    )


def picture(found, settings):
    dimensions, start = list(found["by_d"]), regime_start(settings)
    fig, axes = figure(11, 4.4, 1, 3)
    draw_slacks(axes[0], dimensions, settings)
    draw_shares(axes[1], dimensions, found, settings)
    draw_errors(axes[2], dimensions, found, settings)
    for axis in axes:
        axis.axvspan(start, max(3 * dimensions[-1], 2 * start), color="0.9", zorder=0)
        axis.set(xscale="log", xlabel=r"dimension $d$ (grey: the theorem's regime)")
        axis.set_xlim(dimensions[0] / 2, 3 * dimensions[-1])
        axis.title.set_fontsize(10)
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=7)
    letters(axes)
    return fig


def look(k, label):
    return dict(linestyle=DASHES[k], marker=MARKERS[k], color=COLOURS[k], label=label)


def draw_slacks(axes, dimensions, settings):
    slack = [slacks(place(d, settings), settings["C"]) for d in dimensions]
    for k, name in enumerate(slack[0]):
        axes.plot(dimensions, [part[name] for part in slack], **look(k, f"({name})" if name[0] == "A" else name))
    axes.axhline(1, color=COLOURS[4], linewidth=0.8)
    axes.set(yscale="log", ylabel="slack: holds at 1 and above", title="conditions, (A'1) an equality")


def draw_shares(axes, dimensions, found, settings):
    labels = ("Lemma A.3", "Lemma A.4", "labels fitted")
    for k, (values, label) in enumerate(zip(shares(found).values(), labels)):
        axes.plot(dimensions, values, **look(k, label))
    axes.set(ylim=(-0.05, 1.05), ylabel=f"share of {settings['seeds']} seeds", title="lemmas at every moment, fit")


def draw_errors(axes, dimensions, found, settings):
    floor = 0.3 / (settings["fresh"] * settings["seeds"])
    names = ("trained, at the fit", f"trained, log t = {settings['late']}")
    for k, (values, name) in enumerate(zip(errors(found).values(), names)):
        axes.plot(dimensions, np.maximum(values, floor), **look(k, name))
    for k, (name, values) in enumerate(closed(found, settings).items(), 2):
        shown = np.maximum(np.exp(np.maximum(values, -700)), floor)
        axes.plot(dimensions, shown, linestyle=DASHES[k], color=COLOURS[k], label=name)
    axes.axhline(settings["delta"] / settings["n"], color=COLOURS[4], linewidth=0.8)
    axes.set(yscale="log", ylabel=f"test error (at {floor:.0e}: none seen)", title=r"test error; line: $\delta/n$")
