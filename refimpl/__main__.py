"""python -m refimpl: what the papers state, where it stands here, and where they slip.

python -m refimpl ledger [--json]
python -m refimpl show "attention Lemma D.1"
python -m refimpl errata [--json]
"""

import ast
import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path

from refimpl import ledger
from refimpl.commands import Parser, run, unknown

NUMBERING = "Numbering: arXiv 2409.17625v1 (attention), arXiv 2510.00399 (mamba)."
NO_TESTS = "refimpl: the tests are not here, so no status is known; run this from a checkout"


def main():
    """Read the arguments and print what they ask for."""
    parser = Parser(prog="python -m refimpl", description="The statements of both papers and their status.")
    commands = parser.add_subparsers(dest="command", metavar="{ledger,show,errata}")
    for name, text in (("ledger", "every statement and its status"), ("errata", "where a paper as printed is wrong")):
        commands.add_parser(name, help=text).add_argument("--json", action="store_true", help="as a JSON list")
    commands.add_parser("show", help="one statement: its code, its tests").add_argument(
        "id", nargs="+", help="its id, or an erratum's"
    )
    arguments = parser.parse_args()
    if arguments.command is None:
        parser.error("a command is needed: ledger, show or errata")
    if arguments.command != "errata" and not ledger.tests_are_here():
        print(NO_TESTS, file=sys.stderr)
    if arguments.command == "show":
        known, name = {entry["id"]: entry for entry in ledger.statements()}, " ".join(arguments.id)
        known.update({erratum: entry for entry in list(known.values()) for erratum in entry["errata"]})
        if name not in known:
            parser.error(unknown("id", name, known))
        _show(known[name])
    elif arguments.json:
        rows = ledger.statements() if arguments.command == "ledger" else ledger.errata()
        print(json.dumps(rows, indent=1))
    elif arguments.command == "ledger":
        _print_ledger(ledger.statements())
    else:
        _print_errata(ledger.errata())


def _print_ledger(entries):
    """A line a statement, then the counts of each paper."""
    print(f"{'status':9}  {'evidence':10}  id: title")
    for entry in entries:
        print(f"{entry['status'] or '-':9}  {entry['evidence']:10}  {entry['id']}: {entry['title']}")
    for paper in ("attention", "mamba"):
        counts = Counter(entry["status"] or "-" for entry in entries if entry["paper"] == paper)
        print(f"{paper}: {', '.join(f'{number} {status}' for status, number in sorted(counts.items()))}")
    print(NUMBERING)


def _print_errata(errata):
    """Each erratum with what is printed, what is right and the tests that show it."""
    for erratum in errata:
        print(f"{erratum['id']} (of {erratum['statement']})")
        print(f"  printed: {erratum['printed']}")
        print(f"  right:   {erratum['right']}")
        for test in erratum["tests"] or []:
            print(f"  shown by {test}")


def _show(entry):
    """One statement: what it says, the source that states it, its tests and errata, the command that runs them."""
    print(f"{entry['id']}: {entry['title']}")
    print(f"{entry['kind']}, {entry['evidence']}, {entry['status'] or 'status unknown'}")
    says = ledger.load()[0][entry["id"]].get("says")
    for text in (says, entry["reason"] and f"Unchecked: {entry['reason']}"):
        if text:
            print(text)
    if entry["uses"]:
        print(f"Uses: {'; '.join(entry['uses'])}")
    for place in entry["code"]:
        print(f"\n# {place}\n{_source(place)}")
    print("\nTests:" if entry["tests"] else "\nTests: none here")
    for test in entry["tests"] or []:
        print(f"  {test}")
    to_run = list(entry["tests"] or [])
    for erratum in ledger.errata():
        if erratum["id"] in entry["errata"]:
            print(f"\nErratum {erratum['id']}\n  printed: {erratum['printed']}\n  right:   {erratum['right']}")
            for test in erratum["tests"] or []:
                print(f"  shown by {test}")
                to_run.append(test)
    if to_run:
        print(f"\npython -m pytest {' '.join(dict.fromkeys(to_run))}")


def _source(place):
    """The text of a definition, or a module's docstring, from refimpl.attention.model:output."""
    module, _, name = place.partition(":")
    text = Path(importlib.util.find_spec(module).origin).read_text(encoding="utf-8")
    tree = ast.parse(text)
    if not name:
        return ast.get_docstring(tree)
    node = next(node for node in tree.body if getattr(node, "name", None) == name)
    return ast.get_source_segment(text, node)


if __name__ == "__main__":
    run("python -m refimpl", main)
