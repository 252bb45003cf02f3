"""The README is true: its example prints what it says, its tables name what there is."""

import contextlib
import io
import json
import re

from plots.__main__ import names, script
from refimpl.ledger import PACKAGE

README = (PACKAGE.parent / "README.md").read_text(encoding="utf-8")


def test_the_example_prints_its_numbers():
    code, printed = re.search(r"```python\n(.*?)```\n\nprints\n\n```\n(.*?)```", README, re.DOTALL).groups()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, {})
    assert out.getvalue() == printed


def test_every_module_and_every_figure_is_in_its_table():
    for paper in ("attention", "mamba"):
        for path in (PACKAGE / paper).glob("[a-z]*.py"):
            assert f"`{path.name}`" in README, f"{paper}/{path.name}"
    listed = re.findall(r"^\| `([a-z0-9-]+)` \| (.*?) \| (.*?) \| (.*?) \|$", README, re.MULTILINE)
    assert [name for name, *_ in listed] == names()
    for name, seconds, title, claims in listed:
        made = json.loads((PACKAGE.parent / "plots" / "figures" / f"{name}.json").read_text(encoding="utf-8"))
        failed = sum(row["holds"] is False for row in made["claims"])
        assert (seconds, title) == (str(made["seconds"]), script(name).TITLE)
        assert claims == f"{len(made['claims'])} claims, {failed} fail"


def test_both_set_up_commands_are_those_that_the_rules_name():
    assert "\npip install -e . && python -m plots\n" in README
    assert '\npip install -e ".[test]" && python -m pytest\n' in README
