"""What the Mamba paper's figures share: seeds, tasks by name, and how an error against the outlier fraction looks."""

import numpy as np

from plots import style
from refimpl.checks import count
from refimpl.mamba.tasks import all_tasks, cycle, disjoint_pairs

TASKS = {"cycle": cycle, "all": all_tasks, "disjoint": disjoint_pairs}
LABELLINGS = ("flipped", "targeted", "random")
ALLOWED = "#eaeaea"  # where the paper has the error
LOW = 0.01  # Section 4.1's "smaller than 0.01"


def seeds(seed, settings):
    """As many seeds of trainings as the settings say."""
    return np.random.SeedSequence(seed).generate_state(count("seeds", settings["seeds"])).tolist()


def counter(progress, what, every=1):
    """Progress of a sweep, a line to each `every` cells."""
    return lambda done, of: progress(f"{done} of {of} {what}") if done % every == 0 or done == of else None


def deviation(values):
    """One standard deviation over the seeds, the first axis; NaN where there is one seed."""
    return np.std(values, axis=0, ddof=1) if len(values) > 1 else np.full(np.shape(values)[1:], np.nan)


def look(k):
    """The k-th curve: told apart by lightness, by marker and by dash."""
    return dict(color=style.COLOURS[k % 5], marker=style.MARKERS[k % 5], ls=style.DASHES[k % 5], lw=1.2)


def curve(axis, x, values, **options):
    """The mean over the seeds, the first axis, with one standard deviation on each side."""
    bars = np.nan_to_num(deviation(values))
    return axis.errorbar(x, np.mean(values, axis=0), bars, **{"ms": 3.5, "lw": 1.2, "capsize": 2, **options})


def error_axis(axis, title):
    """Test error against the outlier fraction, linear below 0.01; grey: where the paper has Mamba's error."""
    axis.fill_between([0, 0.8], 0, LOW, color=ALLOWED, lw=0)
    axis.axhline(LOW, color="black", lw=0.7, ls=":")
    axis.axvline(0.5, color="black", lw=0.7, ls=":")
    axis.set_yscale("symlog", linthresh=LOW, linscale=0.7)
    axis.set_ylim(-0.0007, 1.3)
    axis.set_yticks([0, 0.005, 0.01, 0.1, 1], ["0", "0.005", "0.01", "0.1", "1"])
    axis.set_title(title, fontsize=9)
    axis.label_outer()


def headroom(axis, share=0.3):
    """Room for a legend above the data: y's range longer by that share."""
    low, high = axis.get_ylim()
    axis.set_ylim(low, high * (high / low) ** share if axis.get_yscale() == "log" else high + share * (high - low))


def reach(alphas, errors):
    """The leading alphas up to which the error is below 0.01."""
    return alphas[: int(np.argmax(np.append(np.asarray(errors) >= LOW, True)))]
