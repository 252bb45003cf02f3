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

from plots import report, style
from plots.__main__ import names, script
from refimpl import ledger

ROOT = ledger.PACKAGE.parent


def plots(*arguments, cwd=ROOT, **environment):
    command = [sys.executable, "-W", "error", "-m", "plots", *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(command, capture_output=True, timeout=120, cwd=cwd, env=env)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
@pytest.mark.parametrize("argument", ["--help", "--list"])
def test_any_terminal_can_print_it(argument, encoding):
    done = plots(argument, PYTHONUTF8="0", PYTHONIOENCODING=encoding)
    assert done.returncode == 0 and done.stdout.decode("ascii") and done.stderr == b""


def test_list_prints_name_tab_title():
    out = plots("--list").stdout.decode("ascii").splitlines()
    assert [line.split("\t")[0] for line in out] == names() and all(line.split("\t")[1] for line in out)


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


def test_failed_work_is_one_line_and_exit_1(tmp_path):
    (tmp_path / "attention-fig2.png").mkdir()  # in the way of the picture
    done = plots("attention-fig2", "--quick", "--out", tmp_path)
    assert done.returncode == 1 and b"Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(b"python -m plots: ")
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
        report.claim("A", "1", "2|3", "> 1", np.True_),
        report.claim("B", "1", "0", "> 1", False),
        report.claim("C", "1", "-", "> 1", None),
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
