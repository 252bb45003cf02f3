"""Every picture, drawn small: readable texts, no box over the data's ends, labels on every axis, a letter a panel."""

import copy
import functools
import json
import re

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.container import BarContainer
from matplotlib.text import Text

from plots import report, style
from plots.__main__ import names, script
from tests.plots import tiny


@pytest.fixture(autouse=True)
def matplotlibs_own_settings():
    with style.defaults():
        yield


@functools.cache
def drawn(name):
    """The figure at its tiny settings, drawn."""
    found = tiny.at_tiny(name)[0]
    before = copy.deepcopy(found)
    fig = script(name).picture(found, tiny.settings(name))
    fig.canvas.draw()
    np.testing.assert_equal(found, before)
    return fig


@pytest.mark.parametrize("name", names())
def test_a_figure_is_a_small_picture_and_valid_json(name, tmp_path):
    """Cases I1, I3: no display, no warning (warnings are errors here); what was found is left as it was."""
    module, settings = script(name), tiny.settings(name)
    found = tiny.at_tiny(name)[0]
    before = copy.deepcopy(found)
    claims, numbers = module.claims(found, settings), module.numbers(found, settings)
    np.testing.assert_equal(found, before)
    assert 3_000 < len(style.png(drawn(name))) <= 80_000
    report.save_json(tmp_path, name, module, settings, 0, True, claims, numbers, 1.0)
    text = (tmp_path / f"{name}.json").read_text(encoding="utf-8")
    assert text.isascii() and json.loads(text)["claims"] and json.loads(text)["numbers"]
    assert all(row["holds"] in (True, False, None) for row in claims)


def unreadable(fig):
    """Texts with a raw $$, a LaTeX command or $ outside of a formula, or a not-a-number."""
    texts = [text.get_text() for text in fig.findobj(Text) if text.get_visible()]
    return [t for t in texts if "$$" in t or re.search(r"[\\$]", re.sub(r"\$[^$]*\$", "", t)) or _nan(t)]


def _nan(text):
    return re.search(r"\bnan\b", text, re.IGNORECASE)


def covered(fig):
    """The ends of the data that a legend's or a text's box covers: (box, x, y), in the data's numbers."""
    ends = [(axes, *point) for axes in fig.axes for point in ends_of_the_data(axes)]
    found = []
    for name, box in boxes(fig):
        for axes, x, y in ends:
            if box.contains(*axes.transData.transform((x, y))):
                found.append((name, float(x), float(y)))
    return found


def boxes(fig):
    """Every legend, annotation and text inside the axes, as (name, extent): an annotation without its arrow."""
    for holder in (fig, *fig.axes):
        legends = holder.legends if holder is fig else [holder.get_legend()]
        yield from (("legend", legend.get_window_extent()) for legend in legends if legend is not None)
        for text in holder.texts:
            if text.get_visible() and text.get_text():
                yield text.get_text(), Text.get_window_extent(text)


def ends_of_the_data(axes):
    """First, last, lowest, highest, leftmost and rightmost point in view of each line, scatter and row of bars.

    A line across the axes (axhline, axvline, axline) is no data.
    """
    rows = [line.get_xydata() for line in axes.lines if line.get_visible() and line.get_transform() == axes.transData]
    for part in axes.collections:
        if isinstance(part, PathCollection) and part.get_visible() and part.get_offset_transform() == axes.transData:
            rows.append(part.get_offsets())
    for bars in axes.containers:
        if isinstance(bars, BarContainer):
            rows.append([(bar.get_x() + bar.get_width() / 2, bar.get_y() + bar.get_height()) for bar in bars])
    view = axes.bbox.padded(1)
    for row in rows:
        row = np.asarray(np.ma.filled(np.ma.asarray(row, dtype=float), np.nan)).reshape(-1, 2)
        row = row[np.all(np.isfinite(row), axis=1)]
        row = row[[view.contains(*point) for point in axes.transData.transform(row)]] if len(row) else row
        if len(row):
            (left, low), (right, high) = row.argmin(axis=0), row.argmax(axis=0)
            yield from row[sorted({0, len(row) - 1, left, low, right, high})]


def unlabelled(fig):
    """The axes without a label: its own, that of the axes it shares, or the figure's. A colour bar has one label."""
    found = []
    for number, axes in enumerate(fig.axes):
        if axes.get_label() == style.BAR:
            if not axes.get_xlabel() + axes.get_ylabel():
                found.append((number, "colour bar"))
            continue
        x = fig.get_supxlabel() or any(a.get_xlabel() for a in beside(axes, axes.get_shared_x_axes(), "colspan"))
        y = fig.get_supylabel() or any(a.get_ylabel() for a in beside(axes, axes.get_shared_y_axes(), "rowspan"))
        found += [(number, name) for name, said in (("x", x), ("y", y)) if not said]
    return found


def beside(axes, shared, span):
    """The axes, and those that share its axis in its column or row."""
    same = [a for a in shared.get_siblings(axes) if place(a, span) == place(axes, span)]
    return [axes, *same]


def place(axes, span):
    spec = axes.get_subplotspec()
    return spec and getattr(spec, span)


def unlettered(fig):
    """The letters of the panels, in reading order, at which they are missing; one panel needs none."""
    panels = {}
    for axes in fig.axes:
        if axes.get_label() != style.BAR and axes.get_subplotspec():  # a twin has the place of its first
            where = axes.get_subplotspec().rowspan.start, axes.get_subplotspec().colspan.start
            panels.setdefault(where, []).append(axes)
    found = []
    for letter, where in zip("abcdefghijklmnopqrstuvwxyz", sorted(panels)):
        titles = [axes.get_title(side) for axes in panels[where] for side in ("left", "center", "right")]
        if len(panels) > 1 and not any(title.startswith(f"({letter})") for title in titles):
            found.append(letter)
    return found


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("faults", [unreadable, covered, unlabelled, unlettered])
def test_a_picture_is_without(faults, name):
    assert faults(drawn(name)) == []


def good():
    """Two panels, a colour bar, a legend and an annotation, nothing wrong with it."""
    fig, axes = style.figure(8, 4, 1, 2)
    fig.set_layout_engine("none")  # in half the time
    axes[0].plot([1, 2, 3], [1, 3, 2], label=r"$\lambda$ of $\mu$")
    axes[0].axhline(1.5)
    axes[0].set(xlabel="x", ylabel="y", ylim=(0, 6))
    axes[0].legend(loc="upper right")
    axes[0].annotate("the peak", (2, 3), (2, 4.5), arrowprops=dict(arrowstyle="->"))
    style.heatmap(axes[1], [0, 1], [0, 1], [[1, 2], [3, np.nan]], "ratio")
    axes[1].set(xlabel="x", ylabel="y", title="a map")
    style.letters(axes)
    return fig, axes


def faults_of(fig):
    fig.draw_without_rendering()
    return {check.__name__ for check in (unreadable, covered, unlabelled, unlettered) if check(fig)}


def test_a_good_picture_has_no_faults():
    assert faults_of(good()[0]) == set()


@pytest.mark.parametrize("text", [r"$$\kappa_a'$$", r"\kappa", "nan of 3", "NaN", r"$a$ and \beta", r"a \$ b"])
def test_a_raw_text_is_found(text):
    fig, axes = good()
    axes[1].set_title(axes[1].get_title() + "!", loc="right")
    axes[0].text(1, 5, text, parse_math=False)
    assert faults_of(fig) == {"unreadable"}


@pytest.mark.parametrize(
    "cover",
    [
        lambda axes: axes.plot([2, 2.9], [4, 5.8], "o"),
        lambda axes: axes.scatter([1, 2.9], [1, 5.8]),
        lambda axes: axes.bar([1, 2.9], [1, 5.5], 0.1, color="none"),
        lambda axes: axes.text(0.98, 0.95, "over the first point"),
        lambda axes: axes.figure.legend(axes.lines[:1], ["line"], loc="center left", bbox_to_anchor=(0.2, 0.5)),
        lambda axes: axes.annotate("the peak", (1.5, 1), (1.95, 2.9), arrowprops=dict(arrowstyle="->")),
        lambda axes: axes.twinx().plot([1, 2.9], [0, 1]) and axes.figure.axes[-1].set(ylabel="z", ylim=(0, 1.05)),
    ],
)
def test_a_box_over_an_end_of_the_data_is_found(cover):
    fig, axes = good()
    cover(axes[0])
    assert faults_of(fig) == {"covered"}


@pytest.mark.parametrize(
    "clear",
    [
        lambda axes: axes.plot([2, 2.9, 2.95, 3], [2, 5.8, 5.8, 2.0]) and axes.set(ylim=(0, 9)),
        lambda axes: axes.plot([1, 3], [1, 60]),  # its last point out of view
        lambda axes: axes.plot([1, 2.9], [1, np.nan]),
        lambda axes: axes.axhline(5.8),
    ],
)
def test_what_is_no_end_of_the_data_in_view_may_be_covered(clear):
    fig, axes = good()
    clear(axes[0])
    assert faults_of(fig) == set()


@pytest.mark.parametrize(
    "harm",
    [
        lambda fig: fig.axes[0].set(xlabel=""),
        lambda fig: fig.axes[1].set(ylabel=""),
        lambda fig: fig.axes[2].set(ylabel=""),
        lambda fig: fig.axes[0].sharex(fig.axes[1]) or fig.axes[0].set(xlabel=""),  # beside it, not below
    ],
)
def test_a_missing_label_is_found(harm):
    fig, _ = good()
    harm(fig)
    assert faults_of(fig) - {"covered"} == {"unlabelled"}


def test_a_label_of_the_axes_below_or_of_the_figure_is_enough():
    fig, axes = style.figure(4, 4, 2, 2, sharex=True)
    style.letters(axes)
    fig.supylabel("y")
    for panel in axes[1]:
        panel.set_xlabel("x")
    assert faults_of(fig) == set()


@pytest.mark.parametrize("harm", [lambda axes: axes[0].set_title("", loc="left"), lambda axes: axes[1].set_title("c")])
def test_a_missing_letter_is_found(harm):
    fig, axes = good()
    harm(axes)
    assert faults_of(fig) == {"unlettered"}
