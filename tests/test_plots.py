"""The command that draws: its arguments, its files, its verdicts; and pictures of awkward numbers."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest

from plots import FORMATS, __main__, report, style
from plots.__main__ import names, script
from refimpl import commands, ledger

ROOT = ledger.PACKAGE.parent


def plots(*arguments, cwd=ROOT, **environment):
    command = [sys.executable, "-W", "error", "-m", "plots", *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(command, capture_output=True, timeout=120, cwd=cwd, env=env)


def inside(monkeypatch, *arguments, encoding="utf-8"):
    """The same command in this process: its exit code, and what it wrote to its two streams, as bytes."""
    streams = {name: io.TextIOWrapper(io.BytesIO(), encoding=encoding) for name in ("stdout", "stderr")}
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", ["python -m plots", *map(str, arguments)])
        for name, stream in streams.items():
            patch.setattr(sys, name, stream)
        with pytest.raises(SystemExit) as end:
            commands.run("python -m plots", __main__.main)
        for stream in streams.values():
            stream.flush()
    return end.value.code, *(stream.buffer.getvalue() for stream in streams.values())


class demo:
    """A script as small as can be."""

    TITLE, STATEMENTS, SETTINGS, QUICK = "a line", ["attention Eq. 9"], dict(slope=2.0), {}

    def measure(settings, seed, jobs, progress):
        return np.array([1.0, settings["slope"]])

    def numbers(found, settings):
        return dict(last=found[-1])

    def claims(found, settings):
        return [report.claim("It rises.", paper="-", measured=found[1], threshold="> 1", holds=found[1] > 1)]

    def picture(found, settings):
        fig, axes = style.figure(3, 2)
        axes.plot(found, label=r"$\lambda$")
        return fig


@pytest.fixture
def small(monkeypatch):
    """The command with one figure, demo."""
    monkeypatch.setattr(__main__, "names", lambda: ["demo"])
    monkeypatch.setattr(__main__, "script", lambda name: demo)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
@pytest.mark.parametrize("argument", ["--help", "--list"])
def test_any_terminal_can_print_it(argument, encoding, monkeypatch):
    code, out, said = inside(monkeypatch, argument, encoding=encoding)
    assert code == 0 and out.decode("ascii") and said == b""


def test_list_prints_name_tab_title():
    done = plots("--list", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    out = done.stdout.decode("ascii").splitlines()
    assert [line.split("\t")[0] for line in out] == names() and all(line.split("\t")[1] for line in out)
    assert done.returncode == 0 and done.stderr == b""


@pytest.mark.parametrize("kind", FORMATS)
def test_a_picture_of_each_kind_whose_bytes_repeat_and_the_report_shows_it(kind, tmp_path, small, monkeypatch):
    pictures = []
    for out in (tmp_path / "one", tmp_path / "two"):
        code, _, said = inside(monkeypatch, "demo", "--out", out, "--format", kind)
        assert code == 0, said
        assert sorted(path.name for path in out.iterdir()) == sorted(["REPORT.md", "demo.json", f"demo.{kind}"])
        assert f"[demo](demo.{kind})" in (out / "REPORT.md").read_text(encoding="utf-8")
        pictures.append((out / f"demo.{kind}").read_bytes())
    assert pictures[0] == pictures[1]
    assert not [word for word in (b"Software", b"CreationDate", b"Producer", b"dc:date") if word in pictures[0]]
    assert pictures[0].startswith(dict(png=b"\x89PNG", pdf=b"%PDF", svg=b"<?xml")[kind])


def test_the_report_shows_the_pictures_that_are_there(tmp_path, small, monkeypatch):
    """A PNG, an SVG as images, a PDF as a link; what was drawn earlier and is still there, too."""
    for kind in ("pdf", "svg"):
        assert inside(monkeypatch, "demo", "--out", tmp_path, "--format", kind)[0] == 0
    text = (tmp_path / "REPORT.md").read_text(encoding="utf-8")
    assert "\n[demo](demo.pdf)\n" in text and "\n![demo](demo.svg)\n" in text and "demo.png" not in text


@pytest.mark.parametrize("name", names())
def test_each_script_has_its_settings_at_its_top_and_states_known_ids(name):
    module = script(name)
    assert set(module.STATEMENTS) <= set(ledger.load()[0]) and set(module.QUICK) <= set(module.SETTINGS)
    assert module.TITLE and "\n" not in module.TITLE


def test_a_figure_without_a_display_in_a_folder_with_a_space_and_a_letter(tmp_path):
    out = tmp_path / "my f\N{LATIN SMALL LETTER O WITH DIAERESIS}lder" / "new"
    done = plots("attention-fig2", "--quick", "--out", out, "--jobs", 1, MPLBACKEND="TkAgg", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in out.iterdir()) == ["REPORT.md", "attention-fig2.json", "attention-fig2.png"]
    made = json.loads((out / "attention-fig2.json").read_text(encoding="utf-8"))
    assert list(made) == "name statements quick seed settings claims numbers seconds versions".split()
    assert made["quick"] is True and made["seed"] == 0 and made["settings"]["d"] == 2000
    for row in made["claims"]:
        assert list(row) == "claim paper measured threshold settings holds".split()
    assert "quick" in (out / "REPORT.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["attention-fig9"], "nearest: 'attention-fig"),
        (["--seed", "-1"], "--seed: must be an integer >= 0, got '-1'"),
        (["--seed=-1"], "--seed: must be an integer >= 0"),
        (["--seed", "1e3"], "--seed: must be an integer"),
        (["--seed", "nan"], "--seed: must be an integer"),
        (["--format", "gif"], "--format: invalid choice: 'gif'"),
        (["--format=png,pdf"], "--format: invalid choice"),
        (["--jobs", "0"], "--jobs: must be an integer from 1 to 256, got '0'"),
        (["--out", ""], "--out: must be a folder"),
        (["--out", "taken"], "--out: must be a folder, got 'taken'"),
        (["--quik"], "--quik"),
        (["fo\no"], "unknown figure 'fo\\no'"),
    ],
)
def test_bad_arguments_are_one_line_and_write_nothing(arguments, said, tmp_path):
    (tmp_path / "taken").write_text("mine", encoding="utf-8")
    done = plots(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1 and done.stdout == b""
    assert said in done.stderr.decode("ascii")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"] and (tmp_path / "taken").read_text(
        encoding="utf-8"
    ) == "mine"


def test_failed_work_is_one_line_and_exit_1(tmp_path, small, monkeypatch):
    (tmp_path / "demo.png").mkdir()  # in the way of the picture
    code, _, said = inside(monkeypatch, "demo", "--quick", "--out", tmp_path)
    assert code == 1 and b"Traceback" not in said
    assert said.splitlines()[-1].startswith(b"python -m plots: ")
    assert not list(tmp_path.glob("*.part"))


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    report.write(path, "old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError):
        report.write(path, "new")
    assert path.read_text(encoding="utf-8") == "old" and list(tmp_path.iterdir()) == [path]


def test_the_report_has_every_verdict_and_passes_foreign_files_over(tmp_path):
    claims = [
        report.claim("A", paper="1", measured="2|3", threshold="> 1", holds=np.True_),
        report.claim("B", paper="1", measured="0", threshold="> 1", holds=False),
        report.claim("C", paper="1", measured="-", threshold="> 1", holds=None),
    ]

    class module:
        STATEMENTS = ["attention Eq. 9"]

    numbers = dict(x=np.nan, y=np.array([1.23456, np.inf]), z=np.int64(3), w=np.bool_(True))
    report.save_json(tmp_path, "attention-x", module, dict(n=1), 0, False, claims, numbers, 1.26)
    (tmp_path / "other.json").write_text('{"not": "ours"}', encoding="utf-8")
    (tmp_path / "broken.json").write_text("nope", encoding="utf-8")
    (tmp_path / "list.json").write_text("[1]", encoding="utf-8")
    (tmp_path / "claimless.json").write_text(json.dumps(dict.fromkeys(report.KEYS, [{}])), encoding="utf-8")
    (tmp_path / "folder.json").mkdir()
    report.save_report(tmp_path)
    text = (tmp_path / "REPORT.md").read_text(encoding="utf-8")
    assert "| [attention-x](#attention-x) | 3 | 1 | 1.3 |" in text
    rows = [line for line in text.partition("## attention-x")[2].splitlines() if line.startswith("| ")]
    assert [row.rsplit("|", 2)[1].strip() for row in rows] == ["holds", "yes", "**no**", "input missing"]
    assert "2\\|3" in rows[1] and "not" not in text.replace("**no**", "")
    made = json.loads((tmp_path / "attention-x.json").read_text(encoding="utf-8"))
    assert made["numbers"] == dict(x=None, y=[1.235, None], z=3, w=True) and made["seconds"] == 1.3


@pytest.mark.parametrize(
    "values, log, note",
    [
        ([[0, 0.1], [0.2, np.nan]], True, "at or below 0.1"),
        ([[0, 0.1], [0.2, np.nan]], False, "grey: no samples"),
        ([[0, 0], [0, 0]], True, "at or below"),
        ([[0.3]], True, ""),
        ([[0.3]], False, ""),
        ([[np.nan, np.nan]], True, "grey: no samples"),
        ([[np.nan, np.nan]], False, "grey: no samples"),
    ],
)
def test_a_heat_map_of_zeros_gaps_and_constants(values, log, note):
    with style.defaults():
        fig, axes = style.figure(3, 3)
        style.heatmap(axes, range(len(values[0])), range(len(values)), values, "ratio", log=log)
        assert style.png(fig)[:4] == b"\x89PNG"
    assert note in fig.axes[1].get_ylabel()


@pytest.mark.parametrize("font", [None, "cmr10"])
def test_minus_and_greek_draw_without_a_warning_whatever_the_readers_font(font):
    with matplotlib.rc_context({"font.family": font} if font else {}), style.defaults():
        fig, axes = style.figure(3, 3)
        axes.plot([-2, -1], [-1e-3, 1])
        axes.set(xlabel=r"signal norm $\|\mu\|$", title=r"$\Sigma$, $\lambda_{-1}$")
        assert len(style.png(fig)) > 1000


def test_committed_pictures_are_small_whole_and_reported():
    folder = ROOT / "plots" / "figures"
    text = (folder / "REPORT.md").read_text(encoding="utf-8")
    for name in names():
        picture, numbers = folder / f"{name}.png", json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        assert picture.stat().st_size <= 80_000 and numbers["quick"] is False and f"## {name}\n" in text
        assert numbers["settings"] == json.loads(json.dumps(script(name).SETTINGS)), (
            f"{name}: drawn with other settings"
        )
    assert {Path(path).stem for path in folder.glob("*.png")} == set(names())


def test_a_picture_is_bytes_without_a_date():
    with style.defaults():
        pictures = []
        for _ in range(2):
            fig, axes = style.figure(2, 2)
            axes.plot([0, 1])
            pictures.append(style.png(fig))
    assert pictures[0] == pictures[1] and b"Software" not in pictures[0]
    assert io.BytesIO(pictures[0]).read(8) == b"\x89PNG\r\n\x1a\n"


def test_panels_have_letters_in_reading_order_and_colour_bars_have_none():
    with style.defaults():
        fig, axes = style.figure(6, 4, 2, 2)
        axes[0, 1].set_title("with a title")
        style.heatmap(axes[0, 0], [0, 1], [0, 1], [[1, 2], [3, 4]], "ratio")
        style.letters(fig.axes)
        titles = [(panel.get_title(), panel.get_title("left")) for panel in axes.ravel()]
        assert titles == [("", "(a)"), ("(b) with a title", ""), ("", "(c)"), ("", "(d)")]
        assert [bar.get_title() + bar.get_title("left") for bar in fig.axes[4:]] == [""]
        fig, axes = style.figure(6, 4, 1, 2)
        style.letters(axes)
        assert [panel.get_title("left") for panel in axes] == ["(a)", "(b)"]


@pytest.mark.parametrize("log, centre, ends", [(True, 1, (1 / 8, 8)), (False, 0, (-8, 8)), (False, 3, (-2, 8))])
def test_a_diverging_map_has_its_centre_in_the_middle_and_as_much_on_either_side(log, centre, ends):
    """The values run from 1/2 to 8: 8 is the farther one from each centre."""
    with style.defaults():
        fig, axes = style.figure(3, 3)
        given = {} if centre in (0, 1) else dict(centre=centre)
        image = style.heatmap(axes, [0, 1], [0], [[0.5, 8]], "ratio", log=log, diverging=True, **given)
        assert (image.norm.vmin, image.norm.vmax) == pytest.approx(ends) and image.norm(centre) == pytest.approx(0.5)
        below, middle, above = (np.array(image.cmap(image.norm(x))[:3]) for x in (ends[0], centre, ends[1]))
        assert middle.min() > 0.9 and below[2] > below[0] and above[0] > above[2]  # pale; blue below, red above
        style.png(fig)


# Linear sRGB as a deuteranope and a protanope see it: Machado, Oliveira & Fernandes 2009, severity 1.
DEUTERANOPE = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
PROTANOPE = [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
XYZ = [[0.412456, 0.357576, 0.180438], [0.212673, 0.715152, 0.072175], [0.019334, 0.119192, 0.950304]]


def lab(colours, seen=np.eye(3)):
    """CIE L*a*b* of colours, as somebody sees them."""
    rgb = np.array([matplotlib.colors.to_rgb(colour) for colour in colours])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    t = np.clip(linear @ np.transpose(seen), 0, 1) @ np.transpose(XYZ) / (0.95047, 1, 1.08883)
    f = np.where(t > (6 / 29) ** 3, np.cbrt(t), t * (29 / 6) ** 2 / 3 + 4 / 29)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


def least_distance(points):
    distances = np.linalg.norm(points[:, None] - points, axis=-1)
    return distances[np.triu_indices(len(points), k=1)].min()


def test_the_colours_differ_in_lightness_and_to_the_colour_blind():
    """In L*, 0 to 100: 14 apart in grey, none too light for paper. A wine and a grey that look alike do not pass."""
    assert lab(["#777777"])[0] == pytest.approx([50.03, 0, 0], abs=0.02)
    lightness = lab(style.COLOURS)[:, :1]
    assert least_distance(lightness) > 14 and lightness.max() < 82
    assert least_distance(lab(style.COLOURS, DEUTERANOPE)) > 30
    assert least_distance(lab(style.COLOURS, PROTANOPE)) > 14
    once = ["#a02c60", "#6b6b6b"]
    assert least_distance(lab(once)[:, :1]) < 8 and least_distance(lab(once, DEUTERANOPE)) < 5
