"""The ledger: every numbered statement of both papers, the code that states it, the tests that check it.

ledger.toml says what the statements are. Where they stand is read from the sources: the line
`States: ID; ID` that ends a docstring under refimpl/, and the decorators
`@pytest.mark.states("ID")` and `@pytest.mark.erratum("ID")` under tests/. Nothing is imported
or run, and no status is ever typed.
"""

import ast
import functools
import tomllib
from pathlib import Path

PACKAGE = Path(__file__).parent
TESTS = PACKAGE.parent / "tests"
KINDS = "definition assumption condition lemma theorem corollary remark equation section figure table".split()
EVIDENCE = "identity inequality trend figure setting unchecked".split()


def load(path=PACKAGE / "ledger.toml"):
    """ledger.toml as two dicts, statements and errata, each id -> its table, in the file's order.

    path : the file.
    Raises ValueError for an id that stands twice.
    """
    with open(path, "rb") as file:
        tables = tomllib.load(file)
    result = []
    for key in ("statement", "erratum"):
        by_id = {}
        for table in tables.get(key, []):
            if table["id"] in by_id:
                raise ValueError(f"{path}: {table['id']} stands twice")
            by_id[table["id"]] = table
        result.append(by_id)
    return tuple(result)


def code_tags(package=PACKAGE):
    """What the docstrings under a package state: id -> ["refimpl.attention.model:output", ...].

    package : its folder.
    """
    tags = {}
    for place, node in public_definitions(package):
        for statement in stated(node):
            tags.setdefault(statement, []).append(place)
    return tags


def public_definitions(package=PACKAGE):
    """Every module, public class and public function under a package: a list of (place, node).

    package : its folder.  A place is "refimpl.attention.model" or "refimpl.attention.model:output".
    """
    found = []
    for path in sorted(package.rglob("*.py")):
        module = ".".join((package.name, *path.relative_to(package).with_suffix("").parts)).removesuffix(".__init__")
        tree = _tree(path.read_text(encoding="utf-8"))
        found.append((module, tree))
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                found.append((f"{module}:{node.name}", node))
    return found


def stated(node):
    """The ids in the line `States: ID; ID` that ends a docstring.

    node : a module, class or function of an ast.  Returns a list, empty without such a line.
    """
    last = (ast.get_docstring(node) or "").rpartition("\n")[2]
    if not last.startswith("States: "):
        return []
    return [part.strip() for part in last.removeprefix("States: ").split(";")]


def test_marks(tests=TESTS, mark="states"):
    """What the tests are marked with: id -> ["tests/test_x.py::test_y", ...], no parameters.

    tests : their folder.  mark : "states" or "erratum".
    """
    marks = {}
    for path in sorted(tests.rglob("test_*.py")):
        for node in _tree(path.read_text(encoding="utf-8")).body:
            if not (isinstance(node, ast.FunctionDef) and node.name.startswith("test")):
                continue
            test = f"{path.relative_to(tests.parent).as_posix()}::{node.name}"
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == f"pytest.mark.{mark}":
                    for argument in decorator.args:
                        marks.setdefault(ast.literal_eval(argument), []).append(test)
    return marks


def tests_are_here():
    """Whether this is a checkout, with its tests beside the package, and not an installed wheel."""
    return (TESTS / "test_ledger.py").is_file() and (PACKAGE.parent / "setup.cfg").is_file()


def statements():
    """The ledger as a list of dicts, the keys of `ledger --json`; tests and status are None in a wheel."""
    entries, errata = load()
    here = tests_are_here()
    tags, marks = code_tags(), test_marks() if here else {}
    result = []
    for name, entry in entries.items():
        code, tests = tags.get(name, []), marks.get(name, [])
        status = "checked" if code and tests else "open"
        if entry["evidence"] == "unchecked":
            status = "unchecked"
        result.append(
            {
                "id": name,
                "paper": name.partition(" ")[0],
                "kind": entry["kind"],
                "title": entry["title"],
                "evidence": entry["evidence"],
                "status": status if here else None,
                "reason": entry.get("reason"),
                "uses": entry.get("uses", []),
                "code": code,
                "tests": tests if here else None,
                "errata": [e for e, erratum in errata.items() if erratum["statement"] == name],
            }
        )
    return result


def errata():
    """The errata as a list of dicts, the keys of `errata --json`; tests are None in a wheel."""
    here = tests_are_here()
    marks = test_marks(mark="erratum") if here else {}
    return [
        {
            "id": name,
            "statement": erratum["statement"],
            "printed": erratum["printed"],
            "right": erratum["right"],
            "tests": marks.get(name, []) if here else None,
        }
        for name, erratum in load()[1].items()
    ]


def problems(entries, errata, tags, marks, erratum_marks):
    """What is wrong between a ledger, the tags in code and the marks on tests: a list of lines.

    entries, errata : as load returns them.  tags, marks, erratum_marks : id -> places.
    """
    found = []
    for name, entry in entries.items():
        if entry.get("kind") not in KINDS or entry.get("evidence") not in EVIDENCE or not entry.get("title"):
            found.append(f"{name}: kind, evidence and title must be filled in, from the known kinds and evidence")
        if (entry.get("evidence") == "unchecked") != bool(entry.get("reason")):
            found.append(f"{name}: unchecked needs a reason, and only unchecked has one")
        if entry.get("evidence") != "unchecked":
            if name in tags and name not in marks:
                found.append(f"{name}: code without a test, {tags[name][0]}")
            if name in marks and name not in tags:
                found.append(f"{name}: a test without code, {marks[name][0]}")
            if name in tags and not entry.get("says"):
                found.append(f"{name}: built, but what it says is not filled in")
        for used in entry.get("uses", []):
            if used not in entries:
                found.append(f"{name}: uses an unknown id, {used}")
        if name in _reached(entries, entry.get("uses", [])):
            found.append(f"{name}: uses itself, through {', '.join(entry['uses'])}")
    for places in (tags, marks):
        found += [f"{place}: unknown id {name}" for name in places.keys() - entries.keys() for place in places[name]]
    for name, erratum in errata.items():
        if erratum["statement"] not in entries:
            found.append(f"{name}: unknown statement {erratum['statement']}")
        if name not in erratum_marks:
            found.append(f"{name}: an erratum without a test")
    found += [f"{erratum_marks[name][0]}: unknown erratum {name}" for name in erratum_marks.keys() - errata.keys()]
    return sorted(found)


def _reached(entries, start):
    """All ids that the ids in start use, directly or through others, with start itself."""
    seen, todo = set(), list(start)
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += entries.get(name, {}).get("uses", [])
    return seen


_tree = functools.cache(ast.parse)  # by text: a file is read more often than it changes
