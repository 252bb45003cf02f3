"""Rules that every source file keeps."""

import ast
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings

from refimpl.ledger import PACKAGE
from tests.strategies import seeds

ROOT = PACKAGE.parent
SOURCES = [path for top in ("refimpl", "plots", "tests") for path in sorted((ROOT / top).rglob("*.py"))]
TREES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


# folder -> what it must not import
ONE_WAY = {
    "refimpl/calculus": ("refimpl.attention", "refimpl.mamba", "refimpl.ledger", "refimpl.sweep", "plots"),
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
