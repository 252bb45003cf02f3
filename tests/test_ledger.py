"""The ledger is true: nothing untested, unknown, circular or untagged; and the check itself can fail."""

import json
import os
import subprocess
import sys

import pytest

from refimpl import ledger

# Public functions that state nothing of a paper, each with its reason.
UNTAGGED = {
    "refimpl.checks": "arguments at the door",
    "refimpl.commands": "the command line",
    "refimpl.ledger": "reads the tags",
    "refimpl.__main__": "prints the ledger",
    "refimpl.sweep": "runs a function over settings",
    "refimpl.calculus.differences": "the checker, which knows no statement",
    "refimpl.calculus.losses:margin": "the argument z = Y f of the losses",
    "refimpl.calculus.losses:sigmoid": "an elementary function",
}


def read():
    return (*ledger.load(), ledger.code_tags(), ledger.test_marks(), ledger.test_marks(mark="erratum"))


def test_the_ledger_has_no_problems():
    assert ledger.problems(*read()) == []


def test_it_lists_both_papers_whole():
    papers = [name.partition(" ")[0] for name in ledger.load()[0]]
    assert papers.count("attention") >= 87 and papers.count("mamba") >= 80
    assert papers.count("attention") + papers.count("mamba") == len(papers)


def test_every_public_function_states_something():
    untagged = [place for place, node in ledger.public_definitions() if ":" in place and not ledger.stated(node)]
    untagged = [place for place in untagged if not {place, place.partition(":")[0]} & set(UNTAGGED)]
    assert untagged == []


def test_every_exception_is_still_needed():
    stating = {place for place, node in ledger.public_definitions() if ledger.stated(node)}
    places = {place for place, _ in ledger.public_definitions()}
    assert set(UNTAGGED) <= places
    assert not [p for p in UNTAGGED if any(place == p or place.startswith(p + ":") for place in stating)]


def good():
    entries = {
        "a": {"kind": "lemma", "title": "A", "evidence": "identity", "says": "so", "uses": ["b"]},
        "b": {"kind": "lemma", "title": "B", "evidence": "unchecked", "reason": "why"},
    }
    return entries, {"slip": {"statement": "a"}}, {"a": ["m:f"]}, {"a": ["t::x"]}, {"slip": ["t::y"]}


@pytest.mark.parametrize(
    "harm, expected",
    [
        (lambda e, x, c, t, s: None, ""),
        (lambda e, x, c, t, s: t.clear(), "a: code without a test"),
        (lambda e, x, c, t, s: c.clear(), "a: a test without code"),
        (lambda e, x, c, t, s: c.update(z=["m:g"]), "m:g: unknown id z"),
        (lambda e, x, c, t, s: t.update(z=["t::w"]), "t::w: unknown id z"),
        (lambda e, x, c, t, s: e["b"].update(uses=["a"]), "a: uses itself"),
        (lambda e, x, c, t, s: e["a"].update(uses=["z"]), "a: uses an unknown id, z"),
        (lambda e, x, c, t, s: e["a"].update(evidence="proved"), "a: kind, evidence and title"),
        (lambda e, x, c, t, s: e["a"].pop("says"), "a: built, but"),
        (lambda e, x, c, t, s: e["b"].pop("reason"), "b: unchecked needs a reason"),
        (lambda e, x, c, t, s: s.clear(), "slip: an erratum without a test"),
        (lambda e, x, c, t, s: s.update(z=["t::w"]), "t::w: unknown erratum z"),
        (lambda e, x, c, t, s: x["slip"].update(statement="z"), "slip: unknown statement z"),
    ],
)
def test_each_kind_of_problem_is_found(harm, expected):
    parts = good()
    harm(*parts)
    found = ledger.problems(*parts)
    assert any(line.startswith(expected) for line in found) if expected else found == []


def test_tags_and_marks_are_read_from_the_source(tmp_path):
    (tmp_path / "pack").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "pack" / "m.py").write_text(
        'def f():\n    """F.\n\n    States: a; b (c)\n    """\n    raise SystemExit\n', encoding="utf-8"
    )
    marks = '@pytest.mark.states("a", "b (c)")\n@pytest.mark.erratum("slip")\n'
    source = f"import pytest\n\n\n{marks}def test_x():\n    pass\n"
    (tmp_path / "tests" / "test_m.py").write_text(source, encoding="utf-8")
    assert ledger.code_tags(tmp_path / "pack") == {"a": ["pack.m:f"], "b (c)": ["pack.m:f"]}
    assert ledger.test_marks(tmp_path / "tests") == dict.fromkeys(("a", "b (c)"), ["tests/test_m.py::test_x"])
    assert ledger.test_marks(tmp_path / "tests", "erratum") == {"slip": ["tests/test_m.py::test_x"]}


COMMANDS = [["ledger"], ["ledger", "--json"], ["errata"], ["errata", "--json"], ["show", "attention Eq. 3"], ["--help"]]


def refimpl(*arguments, **options):
    command = [sys.executable, "-W", "error", "-m", "refimpl", *arguments]
    return subprocess.run(command, capture_output=True, timeout=60, cwd=ledger.PACKAGE.parent, **options)


def test_json_has_the_promised_keys():
    rows = json.loads(refimpl("ledger", "--json").stdout)
    keys = "id paper kind title evidence status reason uses code tests errata".split()
    assert all(list(row) == keys for row in rows)
    softmax = next(row for row in rows if row["id"] == "attention Section 3.1 (softmax)")
    assert softmax["status"] == "checked" and softmax["code"] == ["refimpl.calculus.softmax:softmax"]
    for row in json.loads(refimpl("errata", "--json").stdout):
        assert list(row) == "id statement printed right tests".split() and row["tests"]


def test_show_prints_the_source_the_tests_and_the_command_that_runs_them():
    out = refimpl("show", "attention Section 3.1 (softmax)").stdout.decode()
    first = "tests/calculus/test_softmax.py::test_weights_worked_by_hand"
    assert "def softmax(z):" in out and f"python -m pytest {first}" in out


@pytest.mark.parametrize("arguments", COMMANDS)
@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_any_terminal_can_print_it(arguments, encoding):
    done = refimpl(*arguments, env={**os.environ, "PYTHONUTF8": "0", "PYTHONIOENCODING": encoding})
    assert done.returncode == 0 and done.stderr == b""
    done.stdout.decode("ascii")


@pytest.mark.parametrize(
    "arguments, said",
    [
        ([], "a command is needed"),
        (["ledgre"], "invalid choice"),
        (["show"], "id"),
        (["show", "attention lemma d.1"], "nearest: 'attention Lemma D.1'"),
        (["show", "\N{GREEK SMALL LETTER MU}"], "unknown id '\\u03bc'"),
        (["ledger", "--jsn"], "--jsn"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_2(arguments, said):
    done = refimpl(*arguments)
    assert done.returncode == 2 and done.stdout == b""
    assert said in done.stderr.decode() and done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-"])
def test_a_closed_stream_is_no_error(closed):
    command = f'"{sys.executable}" -W error -m refimpl ledger {closed}'
    done = subprocess.run(command, shell=True, capture_output=True, timeout=60, cwd=ledger.PACKAGE.parent)
    assert done.returncode == 0 and done.stderr == b""


def test_a_reader_that_leaves_early_is_no_error():
    command = f'"{sys.executable}" -W error -m refimpl ledger | head -1'
    done = subprocess.run(command, shell=True, capture_output=True, timeout=60, cwd=ledger.PACKAGE.parent)
    assert done.stdout.count(b"\n") == 1 and done.stderr == b""
