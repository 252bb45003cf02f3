"""Our check: gradient flow in logarithmic time, and how slowly the signal is learned once the labels are fitted.

No run meets all of Theorem 4.2's assumptions: each claim says in its settings which fail, and by how much.
"""

import numpy as np

from plots import sizes
from plots.report import claim
from plots.style import COLOURS, DASHES, MARKERS, figure, letters
from refimpl.attention import conditions, convergence, data, uncertainty
from refimpl.attention.runs import flow, trials
from refimpl.attention.setting import Setting
from refimpl.sweep import complete, sweep

TITLE = "Gradient flow in log time: fit, signal, attention on fresh data"
CAPTION = (
    "Gradient flow in log time. The labels are fitted early whatever the ratio (a), the signal grows like log t (b) at"
    " the late direction's rate (d), and fresh data's relevant token is picked the later, the larger the ratio (c). The"
    " rate is negative where too many labels are wrong (e): there the test error ends at 1/2 (f)."
)
STATEMENTS = [
    "attention Theorem 4.2 (overfitting)",
    "attention Theorem 4.2 (benign)",
    "attention Theorem 4.2 (harmful)",
    "attention Lemma A.5",
    "attention Section 4.3 (diminishing updates)",
]
# wrong : wrong labels in each class of n / 2.  wide : runs of more tokens, by |R| and wrong labels.  end : log t.
SETTINGS = dict(
    n=12,
    d=10**12,
    weak=2,
    T=4,
    relevant=1,
    wrong=1,
    ratios=[10, 30, 100, 300],
    wide_T=10,
    wide_relevant=[2, 4, 5, 6, 7, 8],
    wide_wrong=[1, 2],
    wide_ratio=30,
    harmful_relevant=8,
    harmful_wrong=2,
    end=20_000,
    fresh=2000,
    C=5,
    delta=0.1,
)
QUICK = dict(ratios=[10, 100], wide_relevant=[2, 5, 8])

EARLY = np.linspace(-4, 20, 49)  # the log times at which the fit is looked for


def problem(settings, T, ratio, relevant, wrong):
    """The setting with d / (n |mu|^2) = ratio and rho at the upper end of (A'3)."""
    s, rho = sizes(Setting, settings), conditions.weak_scale_limit(settings["n"], T, settings["C"])
    norm, noise_rate = np.sqrt(s.d / (s.n * ratio)), 2 * wrong / s.n
    return s._replace(T=T, norm=norm, relevant=relevant, weak_scale=rho, noise_rate=noise_rate)


def slacks(settings, T, ratio, wrong):
    """Of Theorem 4.2's assumptions, 1 and above where they hold; (A4) does for the flow, whose steps go to zero."""
    C, s = settings["C"], problem(settings, T, ratio, 1, wrong)  # any |R|: no condition has it
    left, right = conditions.equation_45(s, C)
    rest = {name: slack for name, slack in conditions.common_assumptions(s, C).items() if name != "A4"}
    return conditions.strong_assumptions(s, C) | rest | {"Eq. 45": left / right}


def failing(slack):
    """The conditions that fail and their slacks, as one line."""
    missed = [f"{name} ({value:.2g})" for name, value in slack.items() if value < 1 - 1e-9]
    return ", ".join(missed) or "none"


def measure(settings, seed, jobs, progress):
    """times (K,); by_ratio {ratio: row}; wide {wrong: [row for each |R|]}; harmful, a row: what `cell` returns."""
    _check(settings)
    end, wrong, fresh = (settings[name] for name in ("end", "wrong", "fresh"))
    wide = settings["wide_T"], settings["wide_ratio"]
    times, short = np.concatenate((EARLY, np.geomspace(25, end, 30))), np.array([-4.0, 10.0, end / 2, end])
    cells = [
        (seed, problem(settings, settings["T"], ratio, settings["relevant"], wrong), wrong, times, fresh)
        for ratio in settings["ratios"]
    ]
    cells += [
        (seed, problem(settings, *wide, relevant, wrong), wrong, short, fresh)
        for wrong in settings["wide_wrong"]
        for relevant in settings["wide_relevant"]
    ]
    harmful = settings["harmful_relevant"], settings["harmful_wrong"]
    cells.append((seed, problem(settings, *wide, *harmful), harmful[1], times, fresh))
    rows = iter(complete(sweep(cell, cells, jobs, lambda done, of: progress(f"{done} of {of}"))))
    return dict(
        times=times,
        by_ratio={ratio: next(rows) for ratio in settings["ratios"]},
        wide={wrong: [next(rows) for _ in settings["wide_relevant"]] for wrong in settings["wide_wrong"]},
        harmful=next(rows),
    )


def _check(settings):
    n, end, weak = settings["n"], settings["end"], settings["weak"]
    if n % 2:
        raise ValueError(f"n: must be even, half of it in each class, got {n}")
    for name in ("wrong", "harmful_wrong", "wide_wrong"):
        if not all(1 <= wrong < n / 2 for wrong in np.ravel(settings[name])):
            raise ValueError(f"{name}: must leave a class of {n // 2} some clean and some noisy, got {settings[name]}")
    for name, T in (("relevant", "T"), ("wide_relevant", "wide_T"), ("harmful_relevant", "wide_T")):
        if np.max(settings[name], initial=0) + weak > settings[T]:
            raise ValueError(f"{name}: with weak = {weak} beyond {T} = {settings[T]}, got {settings[name]}")
    if not settings["ratios"]:
        raise ValueError("ratios: must not be empty")
    if end <= 25:
        raise ValueError(f"end: must be above 25, where the late log times begin, got {end}")


def cell(seed, setting, wrong, times, fresh):
    """One training set of the setting, `wrong` labels of each class flipped: what its run shows at the times (K,)."""
    run, k = balanced_trial(seed, setting, wrong, times)
    test = np.random.default_rng([seed, k, 1])
    seen = [trials.generalize(run, j, test, fresh) for j in range(len(times))]
    signal = run.lam * setting.norm**2
    fitted = convergence.fit_times(np.exp(run.path.log_s), run.gamma, run.sample.Y)
    return dict(
        fit=np.mean(run.margins > 0, axis=1),
        fit_time=times[min(fitted, len(times) - 1)],
        signal=signal.mean(axis=1),
        late=signal[-1].tolist(),
        ratios=uncertainty_ratios(run),
        slope=float(np.mean(signal[-1] - signal[-2]) / (times[-1] - times[-2])),
        predicted=late_slope(run),
        attention=np.array([attention for *_, attention in seen]),
        wrong=np.array([error for error, *_ in seen]),
        evaluations=run.path.evaluations,
    )


def balanced_trial(seed, setting, wrong, times):
    """The trial of the first generator [seed, k] whose clean labels are balanced, and k."""
    k = 0
    while np.sum(np.random.default_rng([seed, k]).choice([-1.0, 1.0], setting.n)) != 0:
        k += 1  # the clean labels are what a trial draws first
    return trials.run(np.random.default_rng([seed, k]), times, setting, flips=(wrong, wrong)), k


def late_slope(run):
    """The growth of lambda |mu|^2 per unit of log t in the late direction, mean of the classes."""
    tokens, _ = convergence.picked_token(run.path.log_s[-1])
    carried = data.signal_of(run.sample.Y_star, run.sample.roles, run.setting.weak_scale)
    predicted = np.einsum("it,itc->c", flow.late_direction(run.M, tokens), carried)
    return float(np.mean(predicted * run.setting.norm**2))


def uncertainty_ratios(run):
    """Left side over right side of Eqs. 9, 10, 11, 13 at the last moment."""
    last = uncertainty.Totals(*(part[-1] for part in run.path.totals))
    labels = run.sample.Y, run.sample.Y_star
    (left, right), (plus, minus) = uncertainty.eq_9(last, *labels), uncertainty.eq_10(last, *labels)
    over_noisy, over_clean = (np.divide(*sides(last, *labels)) for sides in (uncertainty.eq_11, uncertainty.eq_13))
    return {
        "Eq. 9": float(np.min(left) / right),
        "Eq. 10": float(plus / minus),
        "Eq. 11": float(np.min(over_noisy)),
        "Eq. 13": float(np.min(over_clean)),
    }


def first(times, where):
    """The first of the times at which it is so; not-a-number if never."""
    return float(times[np.argmax(where)]) if np.any(where) else np.nan


def picked_at(found):
    """{ratio: the log time at which fresh data's relevant token has half of the attention}."""
    return {ratio: first(found["times"], row["attention"] > 0.5) for ratio, row in found["by_ratio"].items()}


def numbers(found, settings):
    by_ratio, wide, harmful = found["by_ratio"], found["wide"], found["harmful"]
    T, wide_T, wide_ratio = (settings[name] for name in ("T", "wide_T", "wide_ratio"))
    return dict(
        fit_time={ratio: row["fit_time"] for ratio, row in by_ratio.items()},
        slope={ratio: row["slope"] for ratio, row in by_ratio.items()},
        predicted={ratio: row["predicted"] for ratio, row in by_ratio.items()},
        picked_at=picked_at(found),
        slope_by_relevant={wrong: [row["slope"] for row in part] for wrong, part in wide.items()},
        late_by_relevant={wrong: [row["late"] for row in part] for wrong, part in wide.items()},
        harmful=dict(signal=harmful["signal"][-1], wrong=harmful["wrong"][-1]),
        harmful_from=first(found["times"], harmful["wrong"] >= 0.25),
        slack={ratio: slacks(settings, T, ratio, settings["wrong"]) for ratio in by_ratio},
        slack_wide={wrong: slacks(settings, wide_T, wide_ratio, wrong) for wrong in wide},
        uncertainty_ratios={ratio: row["ratios"] for ratio, row in by_ratio.items()},
        uncertainty_ratios_harmful=harmful["ratios"],
        evaluations=max(row["evaluations"] for row in by_ratio.values()),
    )


def claims(found, settings):
    n, T, half = settings["n"], settings["T"], settings["n"] // 2
    common = f"n = {n}, d = {settings['d']:.0e}, |W| = {settings['weak']}, rho the most of (A'3) at C = {settings['C']}"
    common += ", one training set each"
    missed = {ratio: failing(slacks(settings, T, ratio, settings["wrong"])) for ratio in found["by_ratio"]}
    where = f"{common}, T = {T}, |R| = {settings['relevant']}, {settings['wrong']} of {half} wrong. Fail at ratio "
    where += "; ".join(f"{ratio}: {names}" for ratio, names in missed.items())
    wide = f"{common}, T = {settings['wide_T']}, ratio {settings['wide_ratio']}"
    narrow = [rule(found, where) for rule in (fitted_early, grows_like_log, late_direction, picked_late)]
    return narrow + [negative_past_the_share(found, settings, wide), error_one_half(found, settings, wide)]


def fitted_early(found, where):
    fits = [row["fit_time"] for row in found["by_ratio"].values()]
    return claim(
        "The training labels are fitted early, whatever the ratio d / (n |mu|^2) is",
        paper="-",
        measured=f"at log t = {min(fits):.3g} to {max(fits):.3g}",
        threshold="log t <= 12",
        holds=max(fits) <= 12,
        settings=where,
    )


def grows_like_log(found, where):
    ratios, slopes = list(found["by_ratio"]), [row["slope"] for row in found["by_ratio"].values()]
    fits = len(slopes) > 1 and min(slopes) > 0
    exponent = -np.polyfit(np.log(ratios), np.log(slopes), 1)[0] if fits else np.nan
    return claim(
        "lambda |mu|^2 grows like log t, with a slope of order n |mu|^2 / d",
        paper="-",
        measured=f"exponent {exponent:.3f}",
        threshold="within 0.1 of 1",
        holds=abs(exponent - 1) < 0.1 if len(slopes) > 1 else None,
        settings=where,
    )


def late_direction(found, where):
    gap = max(abs(row["slope"] / row["predicted"] - 1) for row in found["by_ratio"].values())
    return claim(
        "The slope of lambda |mu|^2 is the late direction's",
        paper="-",
        measured=f"within {gap:.1e}",
        threshold="<= 1e-3",
        holds=gap <= 1e-3,
        settings=where,
    )


def picked_late(found, where):
    picked = picked_at(found)
    scaled = [time / ratio for ratio, time in picked.items()]
    return claim(
        "Fresh data's relevant token is picked only at log t of order d / (n |mu|^2)",
        paper="-",
        measured=", ".join(f"{time:.0f} at {ratio}" for ratio, time in picked.items()),
        threshold="log t over the ratio within a factor 2",
        holds=np.all(np.isfinite(scaled)) and max(scaled) / min(scaled) <= 2,
        settings=where,
    )


def negative_past_the_share(found, settings, where):
    T, ratio, half = settings["wide_T"], settings["wide_ratio"], settings["n"] // 2
    missed = [f"{k} of {half} wrong: {failing(slacks(settings, T, ratio, k))}" for k in found["wide"]]
    where += f", |R| of {settings['wide_relevant']}, log t = {settings['end']}. Fail with "
    ends = [
        (late, wrong / half < 1 - relevant / T)
        for wrong, part in found["wide"].items()
        for relevant, row in zip(settings["wide_relevant"], part)
        for late in row["late"]
    ]
    agree = sum((late > 0) == positive for late, positive in ends)
    return claim(
        "lambda_c is negative at the end just where the share of wrong labels in a class is above 1 - |R|/T",
        paper="-",
        measured=f"{agree} of {len(ends)}, both classes of all settings",
        threshold="all of them",
        holds=agree == len(ends) if ends else None,
        settings=where + "; ".join(missed),
    )


def error_one_half(found, settings, where):
    harmful, relevant, wrong = found["harmful"], settings["harmful_relevant"], settings["harmful_wrong"]
    error, since = harmful["wrong"][-1], first(found["times"], harmful["wrong"] >= 0.25)
    missed = failing(slacks(settings, settings["wide_T"], settings["wide_ratio"], wrong))
    ratios = ", ".join(f"{name} {harmful['ratios'][name]:.2g}" for name in ("Eq. 9", "Eq. 10", "Eq. 13"))
    where += f", |R| = {relevant}, {wrong} of {settings['n'] // 2} wrong. Fail: {missed}; ratios: {ratios}"
    return claim(
        "Where R is suppressed f no longer knows Y*: the test error tends to 1/2",
        paper="-",
        measured=f"{error:.2f}; above 0.25 from log t = {since:.0f} on",
        threshold="within 0.05 of 1/2",
        holds=abs(error - 0.5) <= 0.05,
        settings=where,
    )


def picture(found, settings):
    fig, axes = figure(11, 7.6, 2, 3)
    for k, (ratio, row) in enumerate(found["by_ratio"].items()):
        draw_ratio(axes[0], found["times"], row, look(k, label=f"{ratio}"), 1 + 1.2 * (len(found["by_ratio"]) - 1 - k))
    titles = "every label is fitted early", "the signal grows like log t", "relevant token picked late"
    for axis, title in zip(axes[0], titles):
        axis.set_title(title, fontsize=10)
    below(axes[0, 1], title=r"$d / n\|\mu\|^2$")
    draw_slopes(axes[1, 0], found["by_ratio"])
    draw_shares(axes[1, 1], found["wide"], settings)
    draw_harmful(axes[1, 2], found, settings)
    letters(axes)
    return fig


def look(k, **more):
    return dict(linestyle=DASHES[k % 4], color=COLOURS[k % 4], **more)


def below(axes, **options):
    """The legend under the panel, off the data."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=4, fontsize=7, title_fontsize=8, **options)


def draw_ratio(axes, times, row, look, width):
    """One ratio's curves; in the first panel they fall on each other, so that each is thinner than the one before."""
    early = times <= EARLY[-1]
    axes[0].plot(times[early], row["fit"][early], linewidth=width, **look)
    axes[1].plot(times, row["signal"], **look)
    axes[2].plot(times, row["attention"], **look)
    axes[0].set(xlabel=r"$\log t$", ylabel="share of training labels fitted")
    axes[1].set(xlabel=r"$\log t$", ylabel=r"$\lambda \|\mu\|^2$, mean of the classes", yscale="symlog")
    axes[2].set(xlabel=r"$\log t$", ylabel="attention on R, fresh data", ylim=(-0.03, 1.03))
    axes[2].axhline(0.5, color=COLOURS[4], linewidth=0.6)
    for axis in axes[1:]:
        axis.set(xscale="symlog", xlim=(0, 2 * times[-1]))


def draw_slopes(axes, by_ratio):
    x = np.array([1 / ratio for ratio in by_ratio])
    slopes, predicted = ([row[name] for row in by_ratio.values()] for name in ("slope", "predicted"))
    axes.plot(x, slopes, MARKERS[0], color=COLOURS[0], label="flow")
    axes.plot(x, predicted, **look(2, label="late direction"))
    scale = "log" if min(slopes + predicted) > 0 else "linear"
    axes.set(xscale="log", yscale=scale, xlabel=r"$n\|\mu\|^2 / d$", ylabel=r"$\lambda\|\mu\|^2$ per unit of $\log t$")
    axes.set_title("its rate is the late direction's", fontsize=10)
    below(axes)


def draw_shares(axes, wide, settings):
    half, T, zeta = settings["n"] // 2, settings["wide_T"], np.linspace(0.1, 0.9, 50)
    for k, (wrong, part) in enumerate(wide.items()):
        shown = [settings["wide_ratio"] * row["slope"] for row in part]
        marker, label = MARKERS[k % 5], f"{wrong} of {half} wrong"
        axes.plot(np.array(settings["wide_relevant"]) / T, shown, marker, color=COLOURS[2 * k % 4], label=label)
        line = ((1 - zeta) * (half - wrong) - zeta * wrong) / settings["n"]
        axes.plot(zeta, line, DASHES[k % 4], color=COLOURS[2 * k % 4])
    axes.axhline(0, color=COLOURS[4], linewidth=0.8)
    axes.set(xlabel=f"$|R| / T$, $T = {T}$", ylabel=r"rate times $d / n\|\mu\|^2$")
    axes.set_title("benign above 0, harmful below", fontsize=10)
    below(axes)


def draw_harmful(axes, found, settings):
    relevant, wrong = settings["harmful_relevant"], settings["harmful_wrong"]
    curves = (("wrong", 0, "test error"), ("attention", 1, "attention on R"), ("fit", 3, "labels fitted"))
    for name, k, label in curves:
        axes.plot(found["times"], found["harmful"][name], **look(k, label=label))
    axes.axhline(0.5, color=COLOURS[4], linewidth=0.6)
    axes.set(xlabel=r"$\log t$", ylabel="share", xscale="symlog", xlim=(0, 2 * found["times"][-1]), ylim=(-0.03, 1.03))
    axes.set_title(f"harmful: |R| = {relevant}, {wrong} of {settings['n'] // 2} wrong", fontsize=10)
    below(axes)
