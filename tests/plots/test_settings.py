"""Settings that act: changing any key of any figure's SETTINGS changes a number of it, or is refused by name."""

import json
import math
import re
import time

import pytest

from plots import report
from plots.__main__ import names, script
from tests.plots import tiny


def says(module, found, settings, readings=None):
    """What a figure says in numbers, as text: its numbers, each claim's measured, and the readings of the clock."""
    measured = [claim["measured"] for claim in module.claims(found, settings)]
    return json.dumps(report.plain([module.numbers(found, settings), measured, readings]))


def another(key, value, other):
    """Another value of a key: as `other` says, or half as much again, or a list without its last entry."""
    if key in other:
        return other[key]
    if isinstance(value, list) and len(value) > 1:
        return value[:-1]
    assert isinstance(value, (int, float)) and not isinstance(value, bool) and value, f"OTHER must have {key}"
    return math.ceil(1.5 * value) if isinstance(value, int) else 1.5 * value


def acts(module, key, settings, base, other, timed=False):
    """Whether the key at another value changes what the figure says, or is refused by name.

    base : what `tiny.measured` gave at the settings.  timed : whether how often the clock was read counts as said.
    """
    changed = {**settings, key: another(key, settings[key], other)}
    assert changed[key] != settings[key], f"OTHER must have another {key}"
    try:
        found, readings = tiny.measured(module, changed)
        after = says(module, found, changed, readings if timed else None)
    except ValueError as error:
        return re.search(rf"(?<!\w){re.escape(key)}(?!\w)", str(error)) is not None
    return after != says(module, base[0], settings, base[1] if timed else None)


KEYS = [(name, key) for name in names() for key in script(name).SETTINGS]


@pytest.mark.parametrize("name, key", KEYS)
def test_a_setting_reaches_a_number_of_its_figure(name, key):
    module, base, other = script(name), tiny.at_tiny(name), tiny.OTHER.get(name, {})
    moved = acts(module, key, tiny.settings(name), base, other, timed=name.endswith("-speed"))
    assert moved, f"{name}: {key} at {another(key, tiny.settings(name)[key], other)} gives the same numbers"


def test_the_tables_name_only_what_there_is():
    for table in (tiny.TINY, tiny.OTHER):
        assert set(table) <= set(names())
        for name, settings in table.items():
            assert set(settings) <= set(script(name).SETTINGS), name
    assert set(tiny.TINY) == set(names())


class fake:
    """A script with keys that act, each in its way, and keys that do not."""

    SETTINGS = dict(size=2, scale=1.5, items=[1, 2], rounds=3, text="a", odd=3, dead=1, line=2.0, wrong=3)
    ACTS = {"size", "scale", "items", "text", "odd"}  # and rounds, where the clock counts

    def measure(settings, seed, jobs, progress):
        if settings["odd"] % 2 == 0:
            raise ValueError(f"odd: must be odd, got {settings['odd']}")
        if settings["wrong"] != 3:
            raise ValueError("wrongly: refused, and not by its name")
        for _ in range(settings["rounds"]):
            time.perf_counter()
        return settings["size"] * settings["scale"], len(settings["items"])

    def numbers(found, settings):
        return dict(product=found[0])

    def claims(found, settings):
        row = dict(paper="-", threshold=f"< {settings['line']}", holds=found[0] < settings["line"])
        return [report.claim("It is small.", measured=f"{found[1]} {settings['text']}", **row)]


@pytest.mark.parametrize("key", fake.SETTINGS)
def test_a_dead_key_is_found(key):
    """Dead: read by nobody, or moving the threshold and verdict alone, or refused under another name."""
    base, other = tiny.measured(fake, fake.SETTINGS), dict(text="b", odd=4)
    assert acts(fake, key, fake.SETTINGS, base, other) == (key in fake.ACTS)
    assert acts(fake, key, fake.SETTINGS, base, other, timed=True) == (key in fake.ACTS | {"rounds"})


@pytest.mark.parametrize("value", ["a", True, 0, [1], None])
def test_a_value_without_a_rule_asks_for_another(value):
    with pytest.raises(AssertionError, match="OTHER must have key"):
        another("key", value, {})
    assert another("key", value, dict(key=7)) == 7
    assert (another("key", 3, {}), another("key", 2.0, {}), another("key", [1, 2], {})) == (5, 3.0, [1])
