"""The README is true: its example prints what it says, its tables name what there is."""

import contextlib
import io
import json
import re
import subprocess
import sys
import textwrap

import pytest

from plots.__main__ import names, script
from refimpl.ledger import PACKAGE

README = (PACKAGE.parent / "README.md").read_text(encoding="utf-8")


def test_the_example_prints_its_numbers():
    code, printed = re.search(r"```python\n(.*?)```\n\nprints\n\n```\n(.*?)```", README, re.DOTALL).groups()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, {})
    assert out.getvalue() == printed


@pytest.mark.parametrize("paper", ["attention", "mamba"])
def test_every_module_is_in_its_table_once_the_papers_before_ours(paper):
    """Two tables a paper: the modules of its package, then those of its runs/, which stand there with their folder."""
    tables = re.split(rf"^\|.*\| module of `refimpl/{paper}/` \|$", README, flags=re.MULTILINE)[1:]
    listed = [re.findall(r"^\|.*\| `(.*?\.py)` \|$", part.partition("\n\n")[0], re.MULTILINE) for part in tables]
    there = [sorted((PACKAGE / paper).glob("[a-z]*.py")), sorted((PACKAGE / paper / "runs").glob("[a-z]*.py"))]
    there = [[path.relative_to(PACKAGE / paper).as_posix() for path in part] for part in there]
    assert [sorted(part) for part in listed] == there


def test_what_both_papers_use_is_named():
    for path in [*(PACKAGE / "calculus").glob("[a-z]*.py"), PACKAGE / "statistics.py"]:
        assert re.search(rf"`(refimpl/)?{path.name}`", README), path.name


def test_every_figure_is_in_its_table():
    listed = re.findall(r"^\| `([a-z0-9-]+)` \| (.*?) \| (.*?) \| (.*?) \|$", README, re.MULTILINE)
    assert [name for name, *_ in listed] == names()
    for name, seconds, title, claims in listed:
        made = json.loads((PACKAGE.parent / "plots" / "figures" / f"{name}.json").read_text(encoding="utf-8"))
        failed = sum(row["holds"] is False for row in made["claims"])
        assert (seconds, title) == (str(made["seconds"]), script(name).TITLE)
        assert claims == f"{len(made['claims'])} claims, {failed} fail"


def pictures():
    """The README's list of pictures, as the scripts have it: each image with its caption below."""
    blocks = []
    for name in names():
        figure = script(name)
        caption = textwrap.fill(f"`{name}`: {figure.CAPTION}", 120, break_on_hyphens=False, break_long_words=False)
        blocks.append(f"![{figure.TITLE}](plots/figures/{name}.png)\n\n{caption}\n")
    return "\n".join(blocks)


def test_every_picture_has_its_caption_below():
    """On a failure, what must stand between the two comments is what `pictures` returns."""
    shown = re.search(r"<!-- pictures -->\n(.*)<!-- end of pictures -->", README, re.DOTALL)[1]
    assert shown.split() == pictures().split()


def test_the_options_of_the_command_are_those_that_are_told():
    told = re.search(r"`python -m plots (\[NAME.*?)`", README, re.DOTALL)[1]
    usage = subprocess.run([sys.executable, "-m", "plots", "--help"], capture_output=True, cwd=PACKAGE.parent).stdout
    assert set(re.findall(r"--\w+", told)) == set(re.findall(r"--\w+", usage.decode())) - {"--help"}


def test_both_set_up_commands_are_those_that_the_rules_name():
    assert "\npip install -e . && python -m plots\n" in README
    assert '\npip install -e ".[test]" && python -m pytest\n' in README
