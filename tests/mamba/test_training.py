"""SGD as Section 8.3 says, the initial weights of Section 2, and an error that no NaN passes for success."""

from itertools import islice

import numpy as np
import pytest
from scipy.stats import kstest

from refimpl.checks import Diverged
from refimpl.mamba.model import Weights, loss, output
from refimpl.mamba.runs.patterns import axes, encode, from_coordinates
from refimpl.mamba.prompts import tokens, training_prompts
from refimpl.mamba.tasks import cycle, orthogonal_patterns
from refimpl.mamba.training import Setting, descend, error, fresh_prompts, initial, plain_step, sgd, start

SMALL = Setting(d=9, M1=3, M2=2, V=2, l=6)


@pytest.mark.states("mamba Section 2 (initialisation)")
def test_initial_weights():
    Psi = initial(5, 0.1, np.random.default_rng(0), m=8)
    assert Psi.W_B.shape == Psi.W_C.shape == (8, 6) and Psi.w.shape == (6,)
    expected = np.zeros((8, 6))
    expected[range(5), range(5)] = 0.1  # the first d diagonal entries; the label's is 0
    assert np.array_equal(Psi.W_B, expected) and np.array_equal(Psi.W_C, expected)
    assert not np.shares_memory(Psi.W_B, Psi.W_C)
    assert initial(5, 0.1, np.random.default_rng(0), gated=False).w is None
    # Two Kolmogorov-Smirnov tests at 1e-3, seed 0: w ~ N(0, I/(d+1)) also where D < d.
    rng = np.random.default_rng(0)
    assert kstest(initial(4000, 0.2, rng, m=1).w * np.sqrt(4001), "norm").pvalue > 1e-3
    wide = Setting(d=10**6)
    inside = np.concatenate([start(wide, rng).w for _ in range(200)])
    assert kstest(inside * np.sqrt(10**6 + 1), "norm").pvalue > 1e-3


@pytest.mark.erratum("mamba-state-size")
def test_the_printed_state_size_hides_the_patterns_beyond_it():
    # m = l + 1 = 7 < d = 9 has 7 diagonal entries, and no pattern along axis 8 or 9 ever meets attention.
    patterns = orthogonal_patterns(2, 1, 1, 9)
    hidden = patterns._replace(mu=np.roll(patterns.mu, 7, axis=1))
    rng = np.random.default_rng(0)
    p = training_prompts(rng, 64, 6, cycle(2), 1, 1, 0.0, K=0.0)
    P = tokens(p, hidden, np.zeros((1, 9)))
    for m, blind in ((7, True), (10, False)):
        Psi = initial(9, 0.2, np.random.default_rng(1), m=m)
        assert np.count_nonzero(Psi.W_B) == min(m, 9)
        for _ in range(30):
            Psi = plain_step(Psi, P, p.z, 1.0)
        assert np.all(output(P, Psi) == 0) if blind else loss(P, p.z, Psi) < 0.5


@pytest.mark.states("mamba Section 8.3 (algorithm)")
def test_sgd_is_the_update_written_out():
    # Against plain_step on the same prompts, for patterns on the axes; test_patterns has the turned ones.
    Psi_0 = initial(7, 0.2, np.random.default_rng(0), m=7)
    seen = []
    Psi, recorded = sgd(SMALL, Psi_0, 0.5, 4, 5, np.random.default_rng(3), lambda t, x: (t, x.w.copy()), at=(0, 2, 5))
    plain = Psi_0
    for t, p in enumerate(islice(fresh_prompts(SMALL, 4, np.random.default_rng(3)), 6)):
        seen += [(t, plain.w)] if t in (0, 2, 5) else []
        P = tokens(p, orthogonal_patterns(3, 2, 2, 7), SMALL.kappa_a * 3.0 * np.eye(2, 7, 5))
        plain, last = plain_step(plain, P, p.z, 0.5), plain
    for got, expected in zip(Psi, last):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-13)
    assert [t for t, _ in recorded] == [0, 2, 5]
    for (_, got), (_, expected) in zip(recorded, seen):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-13)


@pytest.mark.states("mamba Section 8.3 (algorithm)", "mamba Definition 1")
def test_every_batch_is_fresh():
    drawn = list(islice(fresh_prompts(SMALL._replace(tasks=[(0, 2)]), 3, np.random.default_rng(0)), 9))
    kappas = np.concatenate([p.kappa.ravel() for p in drawn])
    assert len(np.unique(kappas)) == kappas.size == 9 * 3 * 7  # no number is used twice
    assert all(len(x) == 3 for p in drawn for x in p) and all(np.all(p.tasks == (0, 2)) for p in drawn)


@pytest.mark.states("mamba Section 8.3 (algorithm)")
def test_a_step_goes_downhill_and_leaves_its_arguments():
    Psi = initial(7, 0.2, np.random.default_rng(0), m=7)
    p = training_prompts(np.random.default_rng(0), 64, 6, cycle(3), 2, 2, 0.3)
    P = encode(p, 3, 2, 3.0, 6.0 * np.eye(2))
    for x in (P, p.z, *Psi):
        x.flags.writeable = False
    assert loss(P, p.z, plain_step(Psi, P, p.z, 0.01)) < loss(P, p.z, Psi)
    with pytest.raises(ValueError, match="^eta: "):
        plain_step(Psi, P, p.z, 0.0)
    assert descend(Psi._replace(w=None), Psi._replace(w=None), 1.0).w is None
    E = axes(orthogonal_patterns(3, 2, 2, 7))
    assert all(np.array_equal(x, y) for x, y in zip(from_coordinates(Psi, Psi, E), Psi))


@pytest.mark.states("mamba Section 8.3 (algorithm)")
def test_divergence_stops_at_its_step_with_the_last_finite_weights():  # case G10
    Psi = start(SMALL, np.random.default_rng(0))
    with pytest.raises(Diverged, match="diverged at step ") as caught:
        sgd(SMALL, Psi, 1e200, 8, 100, np.random.default_rng(0))
    assert 1 <= caught.value.step < 100
    assert all(np.all(np.isfinite(W)) for W in caught.value.state)
    same, _ = sgd(SMALL, Psi, 1e200, 8, caught.value.step - 1, np.random.default_rng(0))
    assert all(np.array_equal(x, y) for x, y in zip(same, caught.value.state))


@pytest.mark.states("mamba Section 2 (generalisation error)")
def test_error_counts_wrong_signs_and_refuses_nan():
    assert error([0.1, -2.0, 3.0, 0.0], [1, 1, -1, 1]) == 0.75  # a zero has said nothing
    assert error([0.1, -2.0], [1, -1]) == 0
    for F in ([np.nan, 1.0], [np.inf, 1.0]):
        with pytest.raises(ValueError, match="^F: must be finite"):
            error(F, [1, 1])
    with pytest.raises(ValueError, match="^z: labels"):
        error([1.0], [0])
    with pytest.raises(ValueError, match="^z: must have the shape of F"):
        error([[1.0], [2.0]], [1, 1])


@pytest.mark.parametrize(
    "change, name",
    [
        ({"p_a": 1.0}, "p_a"),
        ({"K": 0.6}, "K"),
        ({"tasks": [(0, 5)]}, "tasks"),
        ({"l": 0}, "l"),
        ({"V": 0}, "V"),
        ({"beta": -3.0}, "beta"),
        ({"beta": np.nan}, "beta"),
        ({"kappa_a": np.inf}, "kappa_a"),
    ],
)
def test_settings_out_of_range_are_named(change, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        sgd(SMALL._replace(**change), Weights(None, None, None), 1.0, 2, 1, np.random.default_rng(0))


@pytest.mark.parametrize("n", [0, 2])
def test_batches_that_end_early_are_too_few(n):
    rng = np.random.default_rng(0)
    batches = islice(fresh_prompts(SMALL, 4, rng), n)
    with pytest.raises(ValueError, match=f"^batches: ended after {n} of 3 steps"):
        sgd(SMALL, start(SMALL, rng), 0.1, 4, 3, rng, batches=batches)


def test_delta_is_the_papers():
    for delta in (0.0, 0.21, np.nan):
        with pytest.raises(ValueError, match="^delta: "):
            initial(3, delta, np.random.default_rng(0))
    with pytest.raises(ValueError, match="^d: "):
        start(Setting(d=18), np.random.default_rng(0))
