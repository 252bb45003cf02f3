"""Our check: gradient flow in logarithmic time, and how slowly the signal is learned once the labels are fitted.

No run meets all of Theorem 4.2's assumptions: each claim says in its settings which fail, and by how much.
"""

import numpy as np

from plots.report import claim
from plots.style import COLOURS, DASHES, MARKERS, figure
from refimpl.attention import conditions, convergence, data, uncertainty
from refimpl.attention.runs import flow, trials
from refimpl.sweep import sweep

TITLE = "Gradient flow in log time: fit, signal, attention on fresh data"
STATEMENTS = [
    "attention Theorem 4.2 (overfitting)",
    "attention Theorem 4.2 (benign)",
    "attention Theorem 4.2 (harmful)",
    "attention Lemma A.5",
    "attention Section 4.3 (diminishing updates)",
]
SETTINGS = dict(
    n=12,
    T=4,
    d=10**12,
    ratios=[10, 30, 100, 300],
    end=20_000,
    shares=[10, 2, 4, 5, 6, 7, 8],
    wide_ratio=30,
    noisy=[1, 2],
    fresh=2000,
    C=5,
    delta=0.1,
)
QUICK = dict(ratios=[10, 100], shares=[10, 2, 5, 8])


def slacks(n, T, d, ratio, noisy, C, delta):
    """Of Theorem 4.2's assumptions, 1 and above where they hold; (A4) does for the flow, whose steps go to zero."""
    rho = conditions.weak_scale_limit(n, T, C)
    s = conditions.Setting(n, T, float(d), np.sqrt(d / (n * ratio)), rho, 2 * noisy / n, 1.0, 1.0, delta)
    left, right = conditions.equation_45(s, C)
    rest = {name: slack for name, slack in conditions.common_assumptions(s, C).items() if name != "A4"}
    return conditions.strong_assumptions(s, C) | rest | {"Eq. 45": left / right}


def failing(slack):
    """The conditions that fail and their slacks, as one line."""
    missed = [f"{name} ({value:.2g})" for name, value in slack.items() if value < 1 - 1e-9]
    return ", ".join(missed) or "none"


def cell(seed, n, T, d, ratio, relevant, noisy, times, fresh, C):
    """A run at d / (n |mu|^2) = ratio, `noisy` wrong labels in each class of n / 2."""
    norm, k = np.sqrt(d / (n * ratio)), 0
    while np.sum(np.random.default_rng([seed, k]).choice([-1.0, 1.0], n)) != 0:
        k += 1  # the clean labels are what a trial draws first: balanced ones
    rho = conditions.weak_scale_limit(n, T, C)
    rng = np.random.default_rng([seed, k])
    run = trials.run(rng, times, n, norm, d, T, relevant, 2, rho, flips=(noisy, noisy))
    s = np.exp(run.path.log_s)
    tokens, _ = convergence.picked_token(run.path.log_s[-1])
    carried = data.signal_of(run.sample.Y_star, run.sample.roles, rho)
    predicted = np.einsum("it,itc->c", flow.late_direction(run.M, tokens), carried) * norm**2
    test = np.random.default_rng([seed, k, 1])
    seen = [trials.generalize(run, j, test, fresh) for j in range(len(times))]
    signal = run.lam * norm**2
    last = uncertainty.Totals(*(part[-1] for part in run.path.totals))
    labels = run.sample.Y, run.sample.Y_star
    (left, right), (plus, minus) = uncertainty.eq_9(last, *labels), uncertainty.eq_10(last, *labels)
    over_noisy, over_clean = (np.divide(*sides(last, *labels)) for sides in (uncertainty.eq_11, uncertainty.eq_13))
    return dict(
        fit=np.mean(run.margins > 0, axis=1),
        fit_time=times[min(convergence.fit_times(s, run.gamma, run.sample.Y), len(times) - 1)],
        signal=signal.mean(axis=1),
        late=signal[-1].tolist(),
        ratios={
            "Eq. 9": float(np.min(left) / right),
            "Eq. 10": float(plus / minus),
            "Eq. 11": float(np.min(over_noisy)),
            "Eq. 13": float(np.min(over_clean)),
        },
        slope=float(np.mean(signal[-1] - signal[-2]) / (times[-1] - times[-2])),
        predicted=float(predicted.mean()),
        attention=np.array([part[2] for part in seen]),
        wrong=np.array([part[0] for part in seen]),
        evaluations=run.path.evaluations,
    )


def draw(settings, seed, jobs, progress):
    n, d, end, fresh = (settings[name] for name in ("n", "d", "end", "fresh"))
    times = np.concatenate((np.linspace(-4, 20, 49), np.geomspace(25, end, 30)))
    short = np.array([-4.0, 10.0, end / 2, end])
    T_wide, *relevant = settings["shares"]
    C, wide_ratio = settings["C"], settings["wide_ratio"]
    cells = [(seed, n, settings["T"], d, ratio, 1, 1, times, fresh, C) for ratio in settings["ratios"]]
    cells += [(seed, n, T_wide, d, wide_ratio, r, k, short, fresh, C) for k in settings["noisy"] for r in relevant]
    cells.append((seed, n, T_wide, d, wide_ratio, T_wide - 2, 2, times, fresh, C))
    rows = sweep(cell, cells, jobs, lambda done, of: progress(f"{done} of {of}"))
    by_ratio = dict(zip(settings["ratios"], rows))
    wide = {k: rows[len(by_ratio) + j * len(relevant) :][: len(relevant)] for j, k in enumerate(settings["noisy"])}
    fig = picture(times, by_ratio, wide, rows[-1], relevant, settings)
    numbers = dict(
        fit_time={ratio: row["fit_time"] for ratio, row in by_ratio.items()},
        slope={ratio: row["slope"] for ratio, row in by_ratio.items()},
        predicted={ratio: row["predicted"] for ratio, row in by_ratio.items()},
        picked_at={ratio: first(times, row["attention"] > 0.5) for ratio, row in by_ratio.items()},
        slope_by_relevant={k: [row["slope"] for row in part] for k, part in wide.items()},
        late_by_relevant={k: [row["late"] for row in part] for k, part in wide.items()},
        harmful=dict(signal=rows[-1]["signal"][-1], wrong=rows[-1]["wrong"][-1]),
        harmful_from=first(times, rows[-1]["wrong"] >= 0.25),
        slack={ratio: slacks(n, settings["T"], d, ratio, 1, C, settings["delta"]) for ratio in by_ratio},
        slack_wide={k: slacks(n, T_wide, d, wide_ratio, k, C, settings["delta"]) for k in wide},
        uncertainty_ratios={ratio: row["ratios"] for ratio, row in by_ratio.items()},
        uncertainty_ratios_harmful=rows[-1]["ratios"],
        evaluations=max(row["evaluations"] for row in by_ratio.values()),
    )
    return fig, claims(by_ratio, wide, rows[-1], relevant, numbers, settings), numbers


def first(times, where):
    """The first of the times at which it is so; not-a-number if never."""
    return float(times[np.argmax(where)]) if np.any(where) else np.nan


def picture(times, by_ratio, wide, harmful, relevant, settings):
    fig, axes = figure(11, 6.4, 2, 3)
    for k, (ratio, row) in enumerate(by_ratio.items()):
        style = dict(linestyle=DASHES[k % 5], color=COLOURS[k % 5], label=str(ratio))
        axes[0, 0].plot(times[times <= 20], row["fit"][times <= 20], **style)
        axes[0, 1].plot(times, row["signal"], **style)
        axes[0, 2].plot(times, row["attention"], **style)
    axes[0, 0].set(xlabel="log t", ylabel="share of training labels fitted")
    axes[0, 1].set(xlabel="log t", ylabel=r"$\lambda \|\mu\|^2$, mean of the classes", xscale="symlog", yscale="symlog")
    axes[0, 1].set_xlim(0, None)
    axes[0, 2].set(xlabel="log t", ylabel="attention on R, fresh data", xscale="symlog", xlim=(0, None))
    axes[0, 0].legend(title=r"$d / n\|\mu\|^2$", fontsize=8)
    x = np.array([1 / ratio for ratio in by_ratio])
    axes[1, 0].plot(x, [row["slope"] for row in by_ratio.values()], "o", color=COLOURS[0], label="flow")
    axes[1, 0].plot(x, [row["predicted"] for row in by_ratio.values()], "-", color=COLOURS[1], label="late direction")
    axes[1, 0].set(xscale="log", yscale="log", xlabel=r"$n\|\mu\|^2 / d$")
    axes[1, 0].set_ylabel(r"$\lambda\|\mu\|^2$ per unit of log t")
    axes[1, 0].legend(fontsize=8)
    n, T = settings["n"], settings["shares"][0]
    zeta = np.linspace(0.1, 0.9, 50)
    for k, (noisy, part) in enumerate(wide.items()):
        shown = [settings["wide_ratio"] * row["slope"] for row in part]
        axes[1, 1].plot(np.array(relevant) / T, shown, MARKERS[k], color=COLOURS[k], label=f"{noisy} of {n // 2} wrong")
        line = ((1 - zeta) * (n / 2 - noisy) - zeta * noisy) / n
        axes[1, 1].plot(zeta, line, DASHES[k], color=COLOURS[k])
    axes[1, 1].axhline(0, color=COLOURS[4], linewidth=0.8)
    axes[1, 1].set(xlabel=r"$|R| / T$", ylabel=r"slope times $d / n\|\mu\|^2$")
    axes[1, 1].set_title(f"T = {T}: benign above 0, harmful below")
    axes[1, 1].legend(fontsize=8)
    axes[1, 2].plot(times, harmful["wrong"], color=COLOURS[1], label="test error")
    axes[1, 2].plot(times, harmful["attention"], DASHES[1], color=COLOURS[0], label="attention on R, fresh data")
    axes[1, 2].plot(times, harmful["fit"], DASHES[3], color=COLOURS[4], label="training labels fitted")
    axes[1, 2].set(xlabel="log t", xscale="symlog", xlim=(0, None))
    axes[1, 2].set_title(f"T = {T}, |R| = {T - 2}, 2 of {n // 2} wrong: harmful")
    axes[1, 2].legend(fontsize=8)
    for axis in (axes[1, 1], axes[1, 2]):
        axis.title.set_fontsize(10)
    return fig


def claims(by_ratio, wide, harmful, relevant, numbers, settings):
    n, T, C = settings["n"], settings["shares"][0], settings["C"]
    common = f"n = {n}, d = {settings['d']:.0e}, |W| = 2, rho the most of (A'3) at C = {C}, one training set each"
    missed = "; ".join(f"{ratio}: {failing(slack)}" for ratio, slack in numbers["slack"].items())
    one = f"{common}, T = {settings['T']}, |R| = 1, 1 of {n // 2} wrong. Fail at ratio {missed}"
    of_wide = f"{common}, T = {T}, ratio {settings['wide_ratio']}"
    missed = "; ".join(f"{k} of {n // 2} wrong: {failing(slack)}" for k, slack in numbers["slack_wide"].items())
    fits = list(numbers["fit_time"].values())
    text = "the training labels are fitted early, whatever the ratio d / (n |mu|^2) is"
    measured = f"at log t = {min(fits):.3g} to {max(fits):.3g}"
    rows = [claim(text, "-", measured, "log t <= 12", max(fits) <= 12, one)]
    x, y = np.log(list(by_ratio)), np.log([row["slope"] for row in by_ratio.values()])
    exponent = -np.polyfit(x, y, 1)[0]
    text = "lambda |mu|^2 grows like log t, with a slope of order n |mu|^2 / d"
    rows.append(claim(text, "-", f"exponent {exponent:.3f}", "within 0.1 of 1", abs(exponent - 1) < 0.1, one))
    gap = max(abs(row["slope"] / row["predicted"] - 1) for row in by_ratio.values())
    rows.append(claim("that slope is the late direction's", "-", f"within {gap:.1e}", "<= 1e-3", gap <= 1e-3, one))
    picked = numbers["picked_at"]
    scaled = [time / ratio for ratio, time in picked.items()]
    text = "fresh data's relevant token is picked only at log t of order d / (n |mu|^2)"
    measured = ", ".join(f"{time:.0f} at {ratio}" for ratio, time in picked.items())
    good = bool(np.all(np.isfinite(scaled))) and max(scaled) / min(scaled) <= 2
    rows.append(claim(text, "-", measured, "log t over the ratio within a factor 2", good, one))
    ends = [
        (late, noisy / (n / 2) < 1 - r / T)
        for noisy, part in wide.items()
        for r, row in zip(relevant, part)
        for late in row["late"]
    ]
    agree = sum((late > 0) == positive for late, positive in ends)
    text = "lambda_c is negative at the end just where the share of wrong labels in a class is above 1 - |R|/T"
    where = f"{of_wide}, |R| of {relevant}, log t = {settings['end']}. Fail with {missed}"
    measured = f"{agree} of {len(ends)}, both classes of all settings"
    rows.append(claim(text, "-", measured, "all of them", agree == len(ends), where))
    wrong, text = harmful["wrong"][-1], "R suppressed, f no longer knows Y*: the test error tends to 1/2"
    measured = f"{wrong:.2f}; above 0.25 from log t = {numbers['harmful_from']:.0f} on"
    ratios = ", ".join(f"{name} {harmful['ratios'][name]:.2g}" for name in ("Eq. 9", "Eq. 10", "Eq. 13"))
    slack = slacks(n, T, settings["d"], settings["wide_ratio"], 2, C, settings["delta"])
    where = f"{of_wide}, |R| = {T - 2}, 2 of {n // 2} wrong. Fail: {failing(slack)}; ratios: {ratios}"
    rows.append(claim(text, "-", measured, "within 0.05 of 1/2", abs(wrong - 0.5) <= 0.05, where))
    return rows
