"""Cells on spawned workers: in order, seeded by their own setting, a divergent one marked."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from refimpl.ledger import PACKAGE
from refimpl.sweep import complete, sweep


def first_noise(seed, k):
    return float(np.random.default_rng((seed, k)).standard_normal())


def diverges_at_two(k):
    if k == 2:
        raise FloatingPointError("diverged: step 7 is not finite")
    return k


def broken(k):
    raise TypeError("a bug")


def test_cells_differ_and_do_not_depend_on_the_number_of_workers():
    settings, seen = [(0, k) for k in range(4)], []
    before = np.random.get_state()[1].copy()
    one = sweep(first_noise, settings)
    two = sweep(first_noise, settings, jobs=2, progress=lambda done, of: seen.append((done, of)))
    assert one == two and len(set(one)) == 4
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    np.testing.assert_array_equal(before, np.random.get_state()[1])


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_divergent_cell_is_marked_and_the_others_go_on(jobs):
    results = sweep(diverges_at_two, [(k,) for k in range(4)], jobs)
    assert [r for r in results if not isinstance(r, FloatingPointError)] == [0, 1, 3]
    assert str(results[2]) == "diverged: step 7 is not finite"


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_bug_is_not_swallowed(jobs):
    with pytest.raises(TypeError, match="a bug"):
        sweep(broken, [(1,), (2,)], jobs)


def test_what_cannot_be_sent_to_a_worker_is_named():
    def local(k):
        return k

    for function in (local, lambda k: k):
        with pytest.raises(ValueError, match="^function: .*(local|lambda).* top level"):
            sweep(function, [(1,)], jobs=2)


def test_from_a_script_with_a_main_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from refimpl.sweep import sweep\n\n\ndef square(k):\n    return k * k\n\n\n"
        "if __name__ == '__main__':\n    print(sweep(square, [(1,), (2,), (3,)], jobs=2))\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, timeout=60, env={"PYTHONPATH": str(PACKAGE.parent)}
    )
    assert done.stdout.decode().strip() == "[1, 4, 9]", done.stderr


@pytest.mark.parametrize("jobs", [0, 1.5, -1])
def test_a_bad_number_of_workers_is_named(jobs):
    with pytest.raises(ValueError, match="^jobs: "):
        sweep(first_noise, [(0, 0)], jobs)


def test_results_do_not_depend_on_blas_threads_beyond_rounding():
    code = (
        "import json; from refimpl.attention.experiments import grid_row;"
        "from refimpl.attention.setting import Setting;"
        "print(json.dumps({k: v.tolist() for k, v in grid_row(0, Setting(d=300), (5.0, 20.0), 50, 100).items()}))"
    )
    rows = []
    for threads in ("1", "2"):
        env = {**os.environ, "OPENBLAS_NUM_THREADS": threads}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, timeout=60, env=env, cwd=PACKAGE.parent
        )
        rows.append(json.loads(done.stdout))
    for name in rows[0]:
        np.testing.assert_allclose(rows[0][name], rows[1][name], rtol=1e-9)


def naps(folder, k):
    (Path(folder) / f"started-{k}").touch()
    if k == 0:
        raise TypeError("a bug")
    time.sleep(30)


def test_an_error_ends_the_workers_where_they_are(tmp_path):
    start = time.monotonic()
    with pytest.raises(TypeError):
        sweep(naps, [(str(tmp_path), k) for k in range(8)], jobs=2)
    assert time.monotonic() - start < 20 and multiprocessing.active_children() == []
    assert not (tmp_path / "started-7").exists()


def test_ctrl_c_ends_a_sweep_and_its_workers(tmp_path):
    code = "from tests.test_sweep import naps\nfrom refimpl.sweep import sweep\nfrom refimpl.commands import run\n"
    code += f"cells = [({str(tmp_path)!r}, k) for k in (1, 2, 3)]\n"
    code += "if __name__ == '__main__':\n    run('x', lambda: sweep(naps, cells, 2))\n"
    (tmp_path / "script.py").write_text(code, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    running = subprocess.Popen([sys.executable, str(tmp_path / "script.py")], stderr=subprocess.PIPE, env=environment)
    deadline = time.monotonic() + 40
    while not (tmp_path / "started-1").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=20)
    assert running.returncode == 130 and said.splitlines()[-1] == b"x: interrupted"


def test_where_every_cell_counts_the_first_divergence_is_raised():
    assert complete([1, 2]) == [1, 2]
    with pytest.raises(FloatingPointError, match="step 7"):
        complete(sweep(diverges_at_two, [(k,) for k in range(4)]))
