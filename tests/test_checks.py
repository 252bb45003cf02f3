"""What arrives is float64 and agrees, or one error names it."""

import pickle

import numpy as np
import pytest

from refimpl.checks import Diverged, arrays, count, diagonal, finite, fits, labels, matrix, number, same_last_axis


def test_shapes_agree_letter_by_letter_and_batch_by_batch():
    X, Y, p = arrays(X=(np.ones((5, 2, 3), np.float32), "...td"), Y=([[1, 2]] * 5, "...t"), p=([1, 2, 3], "d"))
    assert {a.dtype for a in (X, Y, p)} == {np.dtype(np.float64)}
    assert arrays(G=(np.ones((4, 2, 2)), "...22")).shape == (4, 2, 2)


@pytest.mark.parametrize(
    "named, message",
    [
        (dict(p=([1, 2], "d"), q=([1, 2, 3], "d")), "^q: axis d has length 3, but 2 in p"),
        (dict(X=(np.ones(3), "td")), r"^X: must have shape \(t, d\), got \(3,\)"),
        (dict(X=(np.ones((2, 3, 4)), "td")), r"^X: must have shape \(t, d\)"),
        (dict(mu=(np.ones((3, 4)), "2d")), r"^mu: must have shape \(2, d\), got \(3, 4\)"),
        (dict(X=(np.ones((2, 3)), "...d"), Y=(np.ones((3,)), "...")), "^Y: batch axes"),
        (dict(Y=(np.ones((3, 1)), "..."), f=(np.ones(3), "...")), "^f: batch axes"),
        (dict(X=(np.ones((0, 3)), "nd")), "^X: has an empty axis"),
        (dict(X=([1, np.nan], "d")), "^X: must be finite"),
        (dict(X=([1, 1j], "d")), "^X: must be an array of real numbers"),
        (dict(X=(["a"], "d")), "^X: must be an array of real numbers"),
        (dict(X=([[1, 2], [3]], "nd")), "^X: must be an array of real numbers"),
        (dict(X=(None, "d")), "^X: "),
        (dict(X=(["1", "2"], "d")), "^X: must be an array of real numbers"),
        (dict(X=(np.array(["2020-01-01"], "datetime64[D]"), "d")), "^X: must be an array of real numbers"),
        (dict(X=([10**400], "d")), "^X: must be an array of real numbers"),
    ],
)
def test_what_disagrees_is_named(named, message):
    with pytest.raises(ValueError, match=message):
        arrays(**named)


def test_the_other_doors():
    assert finite("x", 3).shape == () and labels("Y", [1, -1]).tolist() == [1, -1]
    assert number("a", 1, 0, 1) == 1 and count("k", np.int64(3)) == 3
    for call, message in (
        (lambda: labels("Y", [0, 1]), r"^Y: labels must be -1 or \+1, found \[0.0, 1.0\]"),
        (lambda: number("a", np.nan, 0, 1), r"^a: must be a finite number in \[0, 1\], got nan"),
        (lambda: number("a", 0, above=0), "^a: must be a finite number > 0"),
        (lambda: number("a", "0.1"), "^a: "),
        (lambda: number("a", 10**400), "^a: "),
        (lambda: number("a", 1 + 1j), "^a: "),
        (lambda: number("a", [1.0, 2.0]), "^a: "),
        (lambda: same_last_axis(s=np.ones((2, 3)), v=np.ones((4, 3))), "^v: does not broadcast"),
        (lambda: matrix([[1], [1, 2]], p=[1.0, 2]), "^W: must be an array"),
        (lambda: matrix(np.eye(3), p=[1.0, 2]), "^W: axis d has length 3, but 2 in p"),
        (lambda: matrix(np.broadcast_to(0.0, (60_000, 60_000)), p=np.ones(60_000)), "^W: .*26.8 GiB"),
        (lambda: diagonal("Sigma", -1.0, 3), "^Sigma: "),
        (lambda: diagonal("Sigma", np.ones(2), 3), "^Sigma: "),
        (lambda: count("k", True), "^k: "),
        (lambda: count("k", 2, least=3), "^k: must be an integer >= 3, got 2"),
        (lambda: same_last_axis(s=np.ones(2), v=np.ones(3)), "^v: last axis must be that of s"),
        (lambda: fits("W", 60_000, 60_000), "^W: .*26.8 GiB"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("k", [1280, 1280.0, np.float32(1280), np.uint16(1280)])
def test_a_count_may_come_as_a_float_of_integral_value(k):
    """One rule for all: 1e12 tokens may be written so, and what comes out is an int."""
    assert count("k", k) == 1280 and type(count("k", k)) is int and count("d", 1e12) == 10**12
    for bad in (k + 0.5, -k if k != np.uint16(1280) else -1, np.inf, np.nan, "3", None, [3], 1 + 0j):
        with pytest.raises(ValueError, match="^k: must be an integer >= 1, got "):
            count("k", bad)


def test_divergence_keeps_its_step_and_state_between_processes():
    error = pickle.loads(pickle.dumps(Diverged("diverged: step 3", 3, np.ones(2))))
    assert (str(error), error.step, error.state.tolist()) == ("diverged: step 3", 3, [1, 1])
