"""Rules that every source file keeps."""

import ast
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings

from refimpl import ledger
from tests.strategies import seeds

PACKAGE, ROOT = ledger.PACKAGE, ledger.PACKAGE.parent
SOURCES = [path for top in ("refimpl", "plots", "tests") for path in sorted((ROOT / top).rglob("*.py"))]
TREES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}


def imported(tree):
    """Every module, and every name of a module, that a source imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


# folder -> what it must not import
ONE_WAY = {
    "refimpl/calculus": ("refimpl.attention", "refimpl.mamba", "refimpl.ledger", "refimpl.sweep", "plots"),
    "refimpl/statistics.py": ("refimpl.attention", "refimpl.mamba", "refimpl.calculus", "refimpl.ledger", "plots"),
    "refimpl/checks.py": ("refimpl",),
    "refimpl/attention": ("refimpl.mamba", "refimpl.ledger", "plots"),
    "refimpl/mamba": ("refimpl.attention", "refimpl.ledger", "plots"),
    "refimpl/ledger.py": ("refimpl.attention", "refimpl.mamba", "refimpl.calculus", "plots"),
    "refimpl": ("matplotlib", "torch", "jax", "plots", "tests"),
    "tests": ("torch", "jax", "matplotlib.pyplot"),
    "plots": ("jax", "matplotlib.pyplot", "tests"),
}


@pytest.mark.parametrize("place", ONE_WAY)
def test_imports_go_one_way(place):
    for name, tree in TREES.items():
        if name.startswith(place):
            wrong = [m for m in imported(tree) for ban in ONE_WAY[place] if m == ban or m.startswith(ban + ".")]
            assert wrong == [], name


def test_only_the_experiments_are_built_on_the_sweep():
    users = {
        name for name, tree in TREES.items() if "refimpl.sweep" in set(imported(tree)) and name.startswith("refimpl")
    }
    assert all(name.endswith("experiments.py") for name in users)


def test_the_papers_rooms_do_not_lean_on_how_it_is_computed():
    """In a paper's package the experiments alone import from its runs/: a statement can be read without that room."""
    for name, tree in TREES.items():
        room = re.fullmatch(r"refimpl/(attention|mamba)/(\w+)\.py", name)
        if room and room[2] != "experiments":
            ours = f"refimpl.{room[1]}.runs"
            assert [m for m in imported(tree) if m == ours or m.startswith(ours + ".")] == [], name


@pytest.mark.parametrize("folder", ["attention", "attention/runs", "mamba", "mamba/runs", "calculus"])
def test_each_module_has_its_test_file_at_the_mirrored_place(folder):
    for path in (PACKAGE / folder).glob("[a-z]*.py"):
        assert (ROOT / "tests" / folder / f"test_{path.name}").is_file(), f"{folder}/{path.name}"


def test_no_function_takes_more_than_seven_arguments():
    for name, tree in TREES.items():
        if name.startswith("refimpl/"):
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef):
                    assert len(parameters(node)) <= 7, f"{name}:{node.lineno} {node.name}"


def parameters(node):
    """The names of a function's arguments, without self."""
    listed = node.args.posonlyargs + node.args.args + [node.args.vararg] + node.args.kwonlyargs + [node.args.kwarg]
    return [argument.arg for argument in listed if argument is not None and argument.arg != "self"]


# names, a colon or none, and the NAME of "as in NAME"
DESCRIPTION = r"(?<![\w$\\])(The rest|\w+(?:(?:, | and )\w+)*)(?:( : )| (?=as in ))(?:as in ([\w.]*\w))?"


def undescribed(place, definitions):
    """The arguments of a function that its docstring leaves out.

    Described is `name : ...`, several names before one colon; or `names as in NAME`, `Arguments as in NAME`,
    `The rest : as in NAME`, where NAME, a definition of the same module or module.NAME, describes them in its turn.

    place : "refimpl.attention.model:output".  definitions : {place: node}.  Returns a list of names.
    """
    return [name for name in parameters(definitions[place]) if not described(name, place, definitions)]


def described(name, place, definitions, seen=()):
    text = ast.get_docstring(definitions[place]) or ""
    for names, colon, other in re.findall(DESCRIPTION, text):
        if name not in re.split(", | and ", names) and names not in ("Arguments", "The rest"):
            continue
        there = resolved(other, place, definitions) if other else []
        if any(one not in seen and described(name, one, definitions, (*seen, place)) for one in there):
            return True
        if colon and names != "The rest" and not there and not re.search("[._]", other):
            return True
    return False


def resolved(name, place, definitions):
    """The places of NAME, of the same module, or of module.NAME."""
    module, _, function = name.rpartition(".")
    here = place.partition(":")[0]
    return [p for p in definitions if p == f"{here}:{name}" or (module and f".{p}".endswith(f".{module}:{function}"))]


DEFINITIONS = dict(ledger.public_definitions())


@pytest.mark.parametrize("package", ["attention", "mamba", "calculus", ""])
def test_every_argument_of_every_public_function_is_described(package):
    left_out = {}
    for place, node in DEFINITIONS.items():
        inside = re.match(r"refimpl\.(attention|mamba|calculus)\b", place)
        if isinstance(node, ast.FunctionDef) and (inside[1] if inside else "") == package:
            left_out[place] = undescribed(place, DEFINITIONS)
    assert {place: names for place, names in left_out.items() if names} == {}


@pytest.mark.parametrize(
    "text, missing",
    [
        ("x : (d,).  y, z : numbers.", []),
        ("y and z : numbers.\n\nReturns x : (d,).", []),
        ("x : (d,).  y : a number.", ["z"]),
        ("The x is long, y = 2, z: a number.", ["x", "y", "z"]),
        ("Arguments as in g.", ["z"]),
        ("z : a number.  The rest : as in g.", []),
        ("x, y as in other.h.  z : as in h.", []),
        ("x, y, z as in nowhere.", ["x", "y", "z"]),
        ("x, y, z as in f.", ["x", "y", "z"]),
        ("x, y : as in g.  z : as in Definition 1.", []),
    ],
)
def test_an_argument_that_is_left_out_is_found(text, missing):
    source = f'def f(x, y, z):\n    """{text}"""\ndef g(x, y):\n    """y : a number.  The rest : as in other.h."""\n'
    other = 'def h(x, y):\n    """x, y : numbers."""\n'
    definitions = {f"refimpl.one:{node.name}": node for node in ast.parse(source).body}
    definitions |= {f"refimpl.other:{node.name}": node for node in ast.parse(other).body}
    definitions["refimpl.one:h"] = ast.parse('def h(z):\n    """z : a number."""').body[0]
    assert undescribed("refimpl.one:f", definitions) == missing


def unreadable(text):
    """What in a text is no formula: a list of (formula, reason). A formula stands between `$`."""
    converter = pytest.importorskip("latex2mathml.converter")
    if text.count("$") % 2:
        return [(text, "an odd number of $")]
    found = []
    for formula in text.split("$")[1::2]:
        try:
            made = converter.convert(formula)
        except Exception as error:  # the parser has its own for each
            found.append((formula, type(error).__name__))
        else:
            if formula.count("{") != formula.count("}") or not formula.strip():
                found.append((formula, "braces"))
            found += [(formula, command) for command in re.findall(r"\\\w+", made)]  # the parser knows it not
    return found


DOCSTRINGS = {
    f"{name} {getattr(node, 'name', '')}": ast.get_docstring(node) or ""
    for name, tree in TREES.items()
    if name.startswith("refimpl/")
    for node in ast.walk(tree)
    if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef))
}


def test_every_formula_of_a_docstring_has_both_ends():
    assert [where for where, text in DOCSTRINGS.items() if text.count("$") % 2] == []


def test_every_formula_of_every_docstring_can_be_read():
    assert {where: wrong for where, text in DOCSTRINGS.items() if (wrong := unreadable(text))} == {}


def test_every_formula_of_the_ledger_can_be_read():
    """A field without `$` that has LaTeX in it is read as one formula, words and all."""
    for tables in ledger.load():
        for name, table in tables.items():
            for key, text in table.items():
                if isinstance(text, str) and ("$" in text or "\\" in text):
                    assert unreadable(text if "$" in text else f"${text}$") == [], f"{name}: {key}"


@pytest.mark.parametrize("text", ["$x", "$a_$", r"$\frac{a$ and $b}$", r"$\left( a$", r"$\nosuch x$", "$a^b^c$", "$ $"])
def test_a_formula_that_cannot_be_read_is_found(text):
    assert unreadable(text) != [] and unreadable(r"$\frac{a}{b}$, and $\|\mu\|^2$.") == []


def test_the_global_random_state_is_never_used():
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("np.random."):
                allowed = "np.random.(default_rng|Generator|PCG64|SeedSequence|get_state)"
                assert re.match(allowed, ast.unparse(node)), f"{name}:{node.lineno}"


def test_every_property_test_draws_its_noise_from_a_seed():
    """No generator is made without a seed anywhere."""
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("default_rng"):
                assert node.args, f"{name}:{node.lineno}"


def test_nothing_is_pickled_into_arrays_and_names_are_plain():
    for path in SOURCES:
        assert "allow_pickle" + "=True" not in path.read_text(encoding="utf-8")
        assert re.fullmatch(r"[A-Za-z0-9._-]+", path.name)


def test_sources_are_ascii_and_at_most_120_wide():
    for path in SOURCES:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert line.isascii() and len(line) <= 120, f"{path}:{number}"


def test_files_are_opened_with_an_encoding():
    code = (
        "from refimpl import ledger; ledger.statements(); ledger.errata();"
        "import tempfile, pathlib; from plots import report; out = pathlib.Path(tempfile.mkdtemp());"
        "report.write(out / 'a.txt', 'x'); report.save_report(out)"
    )
    command = [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0, done.stderr.decode()


def test_every_text_file_is_opened_with_an_encoding():
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func).rpartition(".")[2]
            binary = any(isinstance(part, ast.Constant) and "b" in str(part.value) for part in node.args[1:2])
            if called in ("read_text", "write_text") or (called == "open" and not binary and name != "plots/style.py"):
                encoded = any(part.arg == "encoding" for part in node.keywords)
                assert encoded or ast.unparse(node.func) == "os.open", f"{name}:{node.lineno}"


def test_importing_the_package_needs_numpy_alone():
    code = (
        "import sys; import refimpl, refimpl.attention.model, refimpl.attention.runs.gram, refimpl.calculus.losses;"
        "print([m for m in ('scipy', 'matplotlib', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, cwd=ROOT)
    assert done.stdout.strip() == b"[]", done.stderr.decode()


def test_no_deadline_and_a_bounded_number_of_examples():
    assert settings.default.deadline is None and settings.default.max_examples in (50, 1000)


def test_noise_drawn_from_a_drawn_seed_differs_between_examples():
    draws = set()

    @given(seed=seeds)
    def collect(seed):
        draws.add(float(np.random.default_rng(seed).standard_normal()))

    collect()
    assert len(draws) >= 20
