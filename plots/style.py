"""How every figure looks: Matplotlib's defaults whatever the reader's own, no display, greyscale-safe colours."""

import io

import matplotlib.style
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

# Five colours told apart by lightness alone (L* = 11, 32, 64, 80, 49), as a greyscale print shows them, and by a
# deuteranope; MARKERS and DASHES tell them apart once more.
COLOURS = ("#131748", "#8a1a60", "#ea8030", "#a3cbee", "#72794f")
MARKERS = ("o", "s", "^", "D", "v")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
BAD = "#9e9e9e"  # the colour of a cell without a number
BAR = "<colorbar>"  # what Matplotlib calls the axes of a colour bar


def figure(width, height, rows=1, columns=1, **options):
    """A figure of width x height inches and its axes, drawn without a display."""
    fig = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(fig)
    return fig, fig.subplots(rows, columns, **options)


def letters(axes):
    """(a), (b), ... in front of each panel's title, in reading order, or alone at its left where it has none.

    axes : what `figure` returned, or a list of panels; colour bars are no panels. Called after the titles are set.
    """
    panels = [panel for panel in np.ravel(axes) if panel.get_label() != BAR]
    for letter, panel in zip("abcdefghijklmnopqrstuvwxyz", panels):
        title = panel.get_title()
        if title:
            panel.title.set_text(f"({letter}) {title}")
        else:
            panel.set_title(f"({letter})", loc="left")


def heatmap(axes, x, y, values, label, log=False, centre=None, low=None, high=None, diverging=False):
    """values[i, j] at (x[j], y[i]) with a colour bar; cells that are not finite are grey, and the label says so.

    A log scale shows numbers <= 0 in the colour of the smallest positive one, and says so. A map that
    is constant or wholly without numbers is drawn too. low, high : the ends of the colours; beyond them the
    colour is that of the end. centre : in the middle of the colours, low and high moved out as far as needed.
    diverging : two colours that meet, pale, at the centre (1 on a log scale, else 0, unless given): for ratios.
    """
    if diverging and centre is None:
        centre = 1 if log else 0
    values = np.asarray(values, dtype=float)
    good = values[np.isfinite(values) & ((values > 0) | (not log))]
    low = low if low is not None else (good.min() if good.size else 0.1)
    high = high if high is not None else (good.max() if good.size else 1.0)
    if not high > low:
        low, high = (low / 2, low * 2) if log else (low - 0.5, low + 0.5)
    if log and np.any(values <= 0):
        label += f" (at or below {low:.2g}: as {low:.2g})"
        values = np.where(values <= 0, low, values)
    if not np.all(np.isfinite(values)):
        label += " (grey: no samples)"
    if centre is not None and log:  # as many times below as above
        span = max(high / centre, centre / low)
        low, high = centre / span, centre * span
    elif centre is not None:  # as far to one side as to the other
        span = max(high - centre, centre - low)
        low, high = centre - span, centre + span
    norm = LogNorm(low, high) if log else Normalize(low, high)
    colours = matplotlib.colormaps["PuOr_r" if diverging else "cividis"].with_extremes(bad=BAD)
    shown = np.ma.masked_invalid(values)
    image = axes.pcolormesh(_edges(x), _edges(y), shown, norm=norm, cmap=colours, rasterized=True)
    bar = axes.figure.colorbar(image, ax=axes)
    bar.set_label(label)
    if log and high < 1000 * low:
        bar.ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        bar.ax.yaxis.set_major_formatter("{x:.3g}")
        bar.ax.yaxis.set_minor_locator(NullLocator())
    return image


def _edges(centres):
    centres = np.asarray(centres, dtype=float)
    if len(centres) == 1:
        return centres[0] + np.array([-0.5, 0.5])
    middle = (centres[1:] + centres[:-1]) / 2
    return np.concatenate(([2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]))


def defaults():
    """Matplotlib's own settings, in which the bundled fonts have every letter that is used."""
    return matplotlib.style.context("default", after_reset=True)


def drawn(fig, kind):
    """The picture as bytes, the same for the same figure: no date in it. kind : one of plots.FORMATS."""
    if kind == "png":
        return png(fig)
    made = io.BytesIO()
    unsaid = ("Creator", "Producer", "CreationDate") if kind == "pdf" else ("Creator", "Date")
    with matplotlib.rc_context({"svg.hashsalt": "refimpl", "pdf.fonttype": 42}):  # 42: fonts that journals take
        fig.savefig(made, format=kind, metadata=dict.fromkeys(unsaid))
    return made.getvalue()


def png(fig, dots=100):
    """The picture as bytes, without a date or a version in it, in a palette of 256 colours: a few tens of kB."""
    from PIL import Image  # comes with Matplotlib

    drawn = io.BytesIO()
    fig.savefig(drawn, format="png", dpi=dots, metadata={"Software": None})
    small = io.BytesIO()
    Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(small, "png", optimize=True)
    return small.getvalue()
