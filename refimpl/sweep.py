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

    Workers are spawned: a script that calls this with jobs > 1 needs the guard if __name__ == "__main__".
    function : defined at a module's top level, so that a spawned worker can find it.
    settings : a list of tuples.  jobs : workers; with 1, no process is started.
    progress : called as progress(done, of) after each cell, or None.
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
            stack.push(_end_workers(pool, set(multiprocessing.active_children())))
            cells = pool.map(_cell, [function] * len(settings), settings)
        for done, result in enumerate(cells, 1):
            results.append(result)
            if progress:
                progress(done, len(settings))
    return results


def complete(results):
    """The results of a sweep in which every cell counts.

    results : as sweep returns them.  Returns them.  Raises the FloatingPointError of the first that diverged.
    """
    for result in results:
        if isinstance(result, FloatingPointError):
            raise result
    return results


def _cell(function, setting):
    try:
        return function(*setting)
    except FloatingPointError as error:
        return error


def _end_workers(pool, others):
    """On the way out of a sweep by an error or Ctrl-C: end its workers where they are, not after their cells."""

    def leave(kind, error, trace):
        if kind is not None:
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()
            pool.shutdown(cancel_futures=True)

    return leave


@contextlib.contextmanager
def _one_thread_each():
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
