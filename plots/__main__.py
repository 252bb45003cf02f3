"""python -m plots [NAME ...]: draw the figures and tables and say which claims hold."""

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # before NumPy is imported
    os.environ[name] = "1"

import argparse
import importlib
import sys
import time
from pathlib import Path

from plots import FORMATS
from refimpl.commands import Parser, integer, run, unknown

FOLDER = Path(__file__).parent


def names():
    """The names of all figures, the attention paper's first."""
    return [
        path.stem.replace("_", "-") for paper in ("attention", "mamba") for path in sorted(FOLDER.glob(f"{paper}_*.py"))
    ]


def script(name):
    return importlib.import_module(f"plots.{name.replace('-', '_')}")


def main():
    parser = Parser(prog="python -m plots", description="Draw the figures and tables; say which claims hold.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which (all without one)")
    parser.add_argument("--quick", action="store_true", help="smaller sizes for a first look; verdicts may differ")
    parser.add_argument("--out", type=folder, default=Path("plots-out"), help="the folder to write to (./plots-out)")
    parser.add_argument("--format", choices=FORMATS, default=FORMATS[0], help="of the pictures: png, pdf or svg (png)")
    parser.add_argument("--seed", type=integer(0), default=0, help="an integer >= 0 (0)")
    parser.add_argument("--jobs", type=integer(1, 256), default=os.cpu_count() or 1, help="worker processes (cores)")
    parser.add_argument("--list", action="store_true", help="print each name and title, and draw nothing")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in names():
            parser.error(unknown("figure", name, names()))
    chosen = [name for name in names() if name in arguments.names or not arguments.names]
    if arguments.list:
        for name in chosen:
            print(f"{name}\t{script(name).TITLE}")
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(chosen, 1):
        print(f"[{number} of {len(chosen)}]", end=" ", file=sys.stderr)
        draw(name, arguments.out, arguments.quick, arguments.seed, arguments.jobs, arguments.format)
    print(f"pictures, numbers and REPORT.md are in {arguments.out}", file=sys.stderr)


def folder(text):
    if not text or (Path(text).exists() and not Path(text).is_dir()):
        raise argparse.ArgumentTypeError(f"must be a folder, got {text!r}")
    return Path(text)


def draw(name, out, quick, seed, jobs, kind="png"):
    """The picture, NAME.png or of another kind, and NAME.json in `out`, and REPORT.md again."""
    from plots import report, style

    module, start = script(name), time.perf_counter()
    settings = {**module.SETTINGS, **(module.QUICK if quick else {})}

    def progress(text):
        print(f"{name}: {text}", file=sys.stderr, flush=True)

    progress(module.TITLE)
    with style.defaults():
        found = module.measure(settings, seed, jobs, progress)
        claims, numbers = module.claims(found, settings), module.numbers(found, settings)
        report.write(out / f"{name}.{kind}", style.drawn(module.picture(found, settings), kind))
    seconds = time.perf_counter() - start
    report.save_json(out, name, module, settings, seed, quick, claims, numbers, seconds)
    report.save_report(out)
    failed = sum(claim["holds"] is False for claim in claims)
    progress(f"{seconds:.1f} s, {len(claims)} claims, {failed} of them fail")


if __name__ == "__main__":
    run("python -m plots", main)
