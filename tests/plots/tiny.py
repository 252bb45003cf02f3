"""Every figure at sizes that take a moment, measured once for all the tests that look at it."""

import functools
import itertools
from unittest import mock

from plots.__main__ import script
from tests.plots import attention, mamba

TINY = {**attention.TINY, **mamba.TINY}
OTHER = {**attention.OTHER, **mamba.OTHER}


def measured(module, settings):
    """What a script finds at these settings, and how often it read the clock, of which each reading is one more."""
    clock = itertools.count()
    with mock.patch("time.perf_counter", lambda: float(next(clock))):
        found = module.measure(settings, 0, 1, lambda text: None)
    return found, next(clock)


def settings(name):
    return {**script(name).SETTINGS, **TINY[name]}


@functools.cache
def at_tiny(name):
    return measured(script(name), settings(name))
