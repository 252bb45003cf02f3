"""Our check: Theorem 4.2 below and inside its regime, the training tokens drawn without their d."""

import numpy as np

from plots.report import claim
from plots.style import COLOURS, DASHES, MARKERS, figure
from refimpl.attention import conditions, convergence, generalization, uncertainty
from refimpl.attention.runs import trials
from refimpl.sweep import sweep

TITLE = "Theorem 4.2 below and inside its regime, d up to 10^13"
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
SETTINGS = dict(
    n=12, T=4, C=5, delta=0.1, exponents=[*range(3, 13), 12.5, 13], seeds=12, flips=[1, 1], late=10_000, fresh=2000
)
QUICK = dict(exponents=[3, 5, 7, 9, 11, 12.5, 13], seeds=4)


def place(d, n, T, C, delta):
    """(A'1) with equality gives |mu|, rho is at the upper end of (A'3): the setting, and each condition's slack."""
    norm = np.sqrt(d / (C * T**2 * n))
    s = conditions.Setting(n, T, float(d), norm, conditions.weak_scale_limit(n, T, C), 1 / C, 1.0, 1.0, delta)
    lipschitz = conditions.lipschitz_bound(s)
    s = s._replace(lipschitz=lipschitz, alpha=min(1 / lipschitz, n / d) / C)
    strong, (left, right) = conditions.strong_assumptions(s, C), conditions.equation_45(s, C)
    return s, {"A'2": strong["A'2"], "A'3 lower": strong["A'3 lower"], "Eq. 45": left / right}


def cell(seed, d, n, T, C, delta, flips, late, fresh):
    """One training set: whether the lemmas hold at every moment, when it is fitted, lambda, errors, Eqs. 9-11.

    None for a draw that leaves a class without a clean or without a noisy sample."""
    s, _ = place(d, n, T, C, delta)
    times = np.concatenate((np.linspace(-4, 20, 97), [100.0, 1000.0, late]))
    train, test = (np.random.default_rng(part) for part in np.random.SeedSequence([seed, d]).spawn(2))
    run = trials.run(train, times, n, s.norm, d, T, 1, 2, s.weak_scale, flips=tuple(flips))
    Y, Y_star, roles = run.sample.Y, run.sample.Y_star, run.sample.roles
    if not all(uncertainty.has_all_classes(Y, Y_star)):
        return None
    orders = []
    for order in (convergence.clean_order, convergence.noisy_order):
        left, right = order(run.path.log_s, Y, Y_star, roles)
        orders.append(bool(np.all(left >= right)))
    fit = convergence.fit_times(np.exp(run.path.log_s), run.gamma, Y)
    last = uncertainty.Totals(*(part[-1] for part in run.path.totals))
    (left, right), (plus, minus) = uncertainty.eq_9(last, Y, Y_star), uncertainty.eq_10(last, Y, Y_star)
    clean, noisy = uncertainty.eq_11(last, Y, Y_star)
    seen = [trials.generalize(run, k, test, fresh) for k in (min(fit, len(times) - 1), -1)]
    return dict(
        clean=orders[0],
        noisy=orders[1],
        fitted=fit < len(times),
        fit_time=times[fit] if fit < len(times) else np.inf,
        signal=(run.lam[-1] * s.norm**2).tolist(),
        eq_9=float(np.min(left) / right),
        eq_10=float(max(plus / minus, minus / plus)),
        eq_11=float(np.min(clean / noisy)),
        wrong=[part[0] for part in seen],
        most=[part[1][1] for part in seen],
    )


def draw(settings, seed, jobs, progress):
    fixed = [settings[name] for name in ("n", "T", "C", "delta")]
    rest = [settings[name] for name in ("flips", "late", "fresh")]
    dimensions = [round(10.0**k) for k in settings["exponents"]]
    cells = [(seed + k, d, *fixed, *rest) for d in dimensions for k in range(settings["seeds"])]
    rows = sweep(cell, cells, jobs, lambda done, of: progress(f"{done} of {of}") if done % 20 == 0 else None)
    parts = np.array(rows, dtype=object).reshape(len(dimensions), -1)
    by_d = {d: [row for row in part if row is not None] for d, part in zip(dimensions, parts)}
    slack = {d: place(d, *fixed)[1] for d in dimensions}
    kinds = ("clean", "noisy", "fitted")
    shares = {name: [np.mean([row[name] for row in by_d[d]]) for d in dimensions] for name in kinds}
    moments = {"at the fit": 0, "late": 1}
    errors = {name: [np.mean([row["wrong"][k] for row in by_d[d]]) for d in dimensions] for name, k in moments.items()}
    settings_of = {d: place(d, *fixed)[0] for d in dimensions}
    n, T = settings["n"], settings["T"]
    closed = {
        "p = 0": [generalization.uniform_error(s.norm, T, 1, 2, s.weak_scale) for s in settings_of.values()],
        "relevant token alone": [generalization.picked_error(s.norm) for s in settings_of.values()],
    }
    start = conditions.smallest_setting(n, T, settings["delta"], settings["C"]).trace
    fig = picture(dimensions, slack, shares, errors, closed, start, settings)
    numbers = dict(
        dimensions=[float(d) for d in dimensions],
        slack={name: [slack[d][name] for d in dimensions] for name in slack[dimensions[0]]},
        share_of_seeds=shares,
        error=errors,
        log_error=closed,
        most_error={name: [max(row["most"][k] for row in by_d[d]) for d in dimensions] for name, k in moments.items()},
        fit_time=[np.median([row["fit_time"] for row in by_d[d]]) for d in dimensions],
        smallest_signal_late=[min(min(row["signal"]) for row in by_d[d]) for d in dimensions],
        eq_9_late=[min(row["eq_9"] for row in by_d[d]) for d in dimensions],
        eq_10_late=[max(row["eq_10"] for row in by_d[d]) for d in dimensions],
        eq_11_late=[min(row["eq_11"] for row in by_d[d]) for d in dimensions],
        weak_scale=settings_of[dimensions[0]].weak_scale,
        regime_starts_at=float(start),
        draws_without_all_classes=sum(row is None for row in rows),
    )
    return fig, claims(dimensions, by_d, shares, closed, start, settings), numbers


def picture(dimensions, slack, shares, errors, closed, start, settings):
    fig, axes = figure(11, 3.7, 1, 3)
    for k, name in enumerate(("A'2", "A'3 lower", "Eq. 45")):
        values = [slack[d][name] for d in dimensions]
        axes[0].plot(dimensions, values, DASHES[k], marker=MARKERS[k], color=COLOURS[k], label=name)
    axes[0].axhline(1, color=COLOURS[4], linewidth=0.8)
    axes[0].set(yscale="log", ylabel="slack: holds at 1 and above", title="conditions, (A'1) with equality")
    for k, (name, label) in enumerate((("clean", "Lemma A.3"), ("noisy", "Lemma A.4"), ("fitted", "labels fitted"))):
        axes[1].plot(dimensions, shares[name], DASHES[k], marker=MARKERS[k], color=COLOURS[k], label=label)
    axes[1].set(ylim=(-0.05, 1.05), ylabel=f"share of {settings['seeds']} seeds", title="at every moment / at the end")
    floor = 0.3 / (settings["fresh"] * settings["seeds"])
    for k, (name, values) in enumerate(errors.items()):
        label = "trained, " + (name if name != "late" else f"log t = {settings['late']}")
        axes[2].plot(dimensions, np.maximum(values, floor), DASHES[k], marker=MARKERS[k], color=COLOURS[k], label=label)
    for k, (name, values) in enumerate(closed.items(), 2):
        shown = np.maximum(np.exp(np.maximum(values, -700)), floor)
        axes[2].plot(dimensions, shown, linestyle=DASHES[k], color=COLOURS[k], label=name)
    axes[2].axhline(settings["delta"] / settings["n"], color=COLOURS[4], linewidth=0.8)
    axes[2].set(yscale="log", ylabel=f"test error (at {floor:.0e}: none seen)", title=r"Eq. 12, line: $\delta/n$")
    for axis in axes:
        axis.axvspan(start, 3 * dimensions[-1], color="0.9", zorder=0)
        axis.set(xscale="log", xlabel="d (grey: the theorem's regime)", xlim=(dimensions[0] / 2, 3 * dimensions[-1]))
        axis.title.set_fontsize(10)
        axis.legend(fontsize=8)
    return fig


def claims(dimensions, by_d, shares, closed, start, settings):
    inside = [d for d in dimensions if d >= start]
    at = {d: k for k, d in enumerate(dimensions)}
    plus, minus = settings["flips"]
    where = f"d >= {start:.2g}, {settings['seeds']} seeds each; wrong labels: {plus} with Y* = +1, {minus} with Y* = -1"
    rows = []
    for name, text in (
        ("clean", "clean samples: a relevant token leads at every moment (A.3)"),
        ("noisy", "noisy samples: a weak token that matches the label leads at every moment (A.4)"),
        ("fitted", "all training labels are fitted in the end"),
    ):
        worst = min((shares[name][at[d]] for d in inside), default=np.nan)
        first = next((d for d in dimensions if all(shares[name][at[e]] == 1 for e in dimensions if e >= d)), None)
        measured = f"{worst:.2f} of the seeds" + (f"; all seeds from d = {first:.0e} on" if first else "")
        paper = f"with probability {1 - settings['delta']:g}"
        rows.append(claim(text, paper, measured, "all seeds inside the regime", worst == 1 if inside else None, where))
    runs = [row for d in inside for row in by_d[d]]
    signal = min((min(row["signal"]) for row in runs), default=np.nan)
    text = "both signal coefficients are positive in the end (A.5)"
    eq_9 = min((row["eq_9"] for row in runs), default=np.nan)
    eq_10 = max((row["eq_10"] for row in runs), default=np.nan)
    eq_11 = min((row["eq_11"] for row in runs), default=np.nan)
    met = f"{where}; Eq. 9 >= {eq_9:.2g}, Eq. 10 <= {eq_10:.2g}, Eq. 11 >= {eq_11:.2g}"
    measured = f"smallest lambda |mu|^2 {signal:.3g}"
    rows.append(claim(text, "> 0", measured, "> 0", signal > 0 if inside else None, met))
    limit = settings["delta"] / settings["n"]
    worst = max((max(row["most"]) for row in runs), default=np.nan)
    text = "test error of the trained p, at the fit and late: the largest upper end (99 %) over the training sets"
    verdict = worst <= limit if inside else None
    rows.append(claim(text, f"<= {limit:.2g}", f"{worst:.2g}", f"<= {limit:.2g}", verdict, met))
    log_error = max((closed["p = 0"][at[d]] for d in inside), default=np.nan)
    first = min((d for d in dimensions if closed["p = 0"][at[d]] <= np.log(limit)), default=np.inf)
    measured = f"exp({log_error:.2g}) at p = 0; below delta/n from d = {first:.0e} on"
    verdict = log_error <= np.log(limit) if inside else None
    text = "Eq. 12 holds before any training: with the fixed head, uniform attention is enough"
    rows.append(claim(text, "-", measured, f"<= {limit:.2g}", verdict, where))
    text = "Eq. 9 with C_1 = 1, as in Section 5 (the ratio is of order rho: no absolute C_1 covers the regime)"
    rows.append(claim(text, ">= C_1 > 0", f"{eq_9:.2g}", ">= 1", eq_9 >= 1 if inside else None, where))
    return rows
