"""What a figure leaves behind: a picture, NAME.json, and REPORT.md from every NAME.json in the folder."""

import json
import math
import os
import platform
import tempfile
from pathlib import Path

import matplotlib
import numpy
import scipy

import refimpl
from plots import FORMATS

CLAIM = "claim paper measured threshold settings holds".split()
KEYS = "name statements quick seed settings claims numbers seconds versions".split()


def claim(text, *, paper, measured, threshold, holds, settings=""):
    """One row of the report.

    text : what is claimed, a sentence.  paper : what the paper says, - where the claim is ours.
    measured : ours.  threshold : what decides.  holds : True, False, or None where an input is missing.
    settings : under which, if not all.
    """
    holds = None if holds is None else bool(holds)
    row = dict(claim=text, paper=paper, measured=measured, threshold=threshold, settings=settings, holds=holds)
    return row


def write(path, content):
    """Replace a file's content, text or bytes, whole or not at all."""
    path = Path(path)
    content = content.encode("utf-8") if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, 0o644)  # mkstemp makes it private
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def plain(value):
    """Numbers and arrays as JSON has them: four significant digits, null for not-a-number."""
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, numpy.ndarray)):
        return [plain(part) for part in value]
    if isinstance(value, (float, numpy.floating)):
        return float(f"{value:.4g}") if math.isfinite(value) else None
    return value.item() if isinstance(value, numpy.generic) else value


def save_json(out, name, module, settings, seed, quick, claims, numbers, seconds):
    """NAME.json, the keys in the order of KEYS."""
    versions = {"refimpl": refimpl.__version__, "python": platform.python_version()}
    versions.update({package.__name__: package.__version__ for package in (numpy, scipy, matplotlib)})
    values = (name, module.STATEMENTS, quick, seed, settings, claims, numbers, round(seconds, 1), versions)
    text = json.dumps(plain(dict(zip(KEYS, values))), allow_nan=False)
    write(Path(out) / f"{name}.json", text.replace('}, {"claim"', '},\n{"claim"') + "\n")


def save_report(out):
    """REPORT.md, from every NAME.json in the folder; files that are none of ours are passed over."""
    rows = [row for row in map(_ours, sorted(Path(out).glob("*.json"))) if row]
    lines = ["# What was claimed, what was measured", ""]
    lines += ["Rebuilt by `python -m plots` from the NAME.json files beside it. In the paper column, - means that the"]
    lines += [
        "claim is ours. Speeds are of an idle machine.",
        "",
        "| figure | claims | fail | seconds |",
        "|---|---|---|---|",
    ]
    for row in rows:
        failed = sum(c["holds"] is False for c in row["claims"])
        lines.append(f"| [{row['name']}](#{row['name']}) | {len(row['claims'])} | {failed} | {row['seconds']} |")
    lines.append("")
    for row in rows:
        quick = " (quick: smaller than the paper's sizes)" if row["quick"] else ""
        lines += [f"## {row['name']}{quick}", ""]
        lines += [f"States: {'; '.join(row['statements'])}. Seed {row['seed']}, {row['seconds']} s.", ""]
        for kind in FORMATS:
            if (Path(out) / f"{row['name']}.{kind}").is_file():
                shown = "" if kind == "pdf" else "!"  # a page shows no PDF, it links to it
                lines += [f"{shown}[{row['name']}]({row['name']}.{kind})", ""]
        if row["claims"]:
            lines += ["| claim | settings | paper | ours | decided by | holds |", "|---|---|---|---|---|---|"]
        for c in row["claims"]:
            verdict = {True: "yes", False: "**no**", None: "input missing"}[c["holds"]]
            cells = (c["claim"], c["settings"], c["paper"], c["measured"], c["threshold"], verdict)
            lines.append(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |")
        lines += [""]
    write(Path(out) / "REPORT.md", "\n".join(lines))


def _ours(path):
    """A NAME.json of ours as a dict, None for any other file."""
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
        ours = list(row) == KEYS and all(list(claim) == CLAIM for claim in row["claims"])
        return row if ours else None
    except (OSError, ValueError, TypeError, AttributeError):
        return None
