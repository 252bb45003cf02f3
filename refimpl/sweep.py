"""A function over a grid of settings, on spawned workers.

    sweep(cell, [(seed, d) for d in dimensions], jobs=2, progress=print)

The same settings give the same results whatever the number of workers: a cell's randomness
comes from its own setting, and a worker has one BLAS thread.
"""

import contextlib
import multiprocessing
import os
import pickle
from concurrent.futures import ProcessPoolExecutor

from refimpl.checks import count

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def sweep(function, settings, jobs=1, progress=None):
    """[function(*setting) for setting in settings], on `jobs` workers, in order.

    function : defined at a module's top level, so that a spawned worker can find it.
    settings : a list of tuples.  progress(done, of) is called after each cell.
    A cell that raises FloatingPointError (divergence) gives that exception as its result, and
    the others go on. Any other exception ends the sweep. Raises ValueError for a function that
    cannot be sent to a worker.
    """
    settings, jobs = list(settings), count("jobs", jobs)
    try:
        pickle.dumps((function, settings))
    except (pickle.PicklingError, AttributeError, TypeError):
        name = getattr(function, "__qualname__", repr(function))
        raise ValueError(f"function: {name} cannot be sent to a worker; define it at a module's top level") from None
    results = []
    with contextlib.ExitStack() as stack:
        if jobs == 1:
            cells = map(_cell, [function] * len(settings), settings)
        else:
            stack.enter_context(_one_thread_each())
            spawn = multiprocessing.get_context("spawn")
            pool = stack.enter_context(ProcessPoolExecutor(min(jobs, max(1, len(settings))), mp_context=spawn))
            stack.callback(pool.shutdown, cancel_futures=True)
            cells = pool.map(_cell, [function] * len(settings), settings)
        for done, result in enumerate(cells, 1):
            results.append(result)
            if progress:
                progress(done, len(settings))
    return results


def complete(results):
    """The results of a sweep in which every cell counts; where one diverged, its exception is raised."""
    for result in results:
        if isinstance(result, FloatingPointError):
            raise result
    return results


def _cell(function, setting):
    try:
        return function(*setting)
    except FloatingPointError as error:
        return error


@contextlib.contextmanager
def _one_thread_each():
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
