"""SGD as Section 8.3 says, the initial weights of Section 2, and an error that no NaN passes for success."""

from itertools import islice

import numpy as np
import pytest
from scipy.stats import kstest

from refimpl.checks import Diverged
from refimpl.mamba.model import Weights, loss, output
from refimpl.mamba.prompts import stream, tokens, training_prompts
from refimpl.mamba.runs.patterns import batches, encode, gradient, start
from refimpl.mamba.setting import Setting
from refimpl.mamba.tasks import orthogonal_patterns
from refimpl.mamba.training import descend, error, initial, plain_step, sgd

SMALL = Setting(d=9, M1=3, M2=2, V=2, l=6, B=4)


@pytest.mark.states("mamba Section 8.3 (algorithm)")
def test_two_steps_by_hand():
    """d = m = 1, no gates, one prompt: F = W_B W_C 2 = 2 and z = -1, so that each step descends along dF = 1.

    With c = (1, 1): W_C falls by eta W_B c p_query^T = 0.1 (2, 0), W_B by eta W_C p_query c^T = 0.1 (2, 2). From
    (0.8, -0.2) and (0.8, 0) on, W_B c = 0.6 and W_C p_query = 1.6.
    """
    P, z = np.array([[[1.0, 1.0], [2.0, 0.0]]]), np.array([-1.0])
    Psi = Weights(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0]]), None)
    assert output(P, Psi) == 2
    after, seen = sgd(Psi, [(P, z), (P, z)], 0.1, 2, record=lambda t, x: (t, *x[:2]), at=(0, 1))
    assert [t for t, *_ in seen] == [0, 1] and seen[0][1] is Psi.W_B
    np.testing.assert_allclose(np.concatenate(seen[1][1:]), [[0.8, -0.2], [0.8, 0]])
    np.testing.assert_allclose(np.concatenate(after[:2]), [[0.64, -0.36], [0.68, 0]])
    assert after.w is None and loss(P, z, after) < loss(P, z, Psi)


@pytest.mark.states("mamba Section 2 (initialisation)")
def test_initial_weights():
    Psi = initial(5, 0.1, np.random.default_rng(0), m=8)
    assert Psi.W_B.shape == Psi.W_C.shape == (8, 6) and Psi.w.shape == (6,)
    expected = np.zeros((8, 6))
    expected[range(5), range(5)] = 0.1  # the first d diagonal entries; the label's is 0
    assert np.array_equal(Psi.W_B, expected) and np.array_equal(Psi.W_C, expected)
    assert not np.shares_memory(Psi.W_B, Psi.W_C)
    assert initial(5, 0.1, np.random.default_rng(0), gated=False).w is None
    # A Kolmogorov-Smirnov test at 1e-3, seed 0: w ~ N(0, I/(d+1)).
    assert kstest(initial(4000, 0.2, np.random.default_rng(0), m=1).w * np.sqrt(4001), "norm").pvalue > 1e-3


@pytest.mark.erratum("mamba-state-size")
def test_the_printed_state_size_hides_the_patterns_beyond_it():
    """m = l + 1 = 7 < d = 9 has 7 diagonal entries, and no pattern along axis 8 or 9 ever meets attention."""
    patterns = orthogonal_patterns(2, 1, 1, 9)
    hidden = patterns._replace(mu=np.roll(patterns.mu, 7, axis=1))
    rng = np.random.default_rng(0)
    p = training_prompts(rng, 64, Setting(M1=2, M2=1, V=1, l=6, p_a=0.0, K=0.0))
    P = tokens(p, hidden, np.zeros((1, 9)))
    for m, blind in ((7, True), (10, False)):
        Psi = initial(9, 0.2, np.random.default_rng(1), m=m)
        assert np.count_nonzero(Psi.W_B) == min(m, 9)
        for _ in range(30):
            Psi = plain_step(Psi, P, p.z, 1.0)
        assert np.all(output(P, Psi) == 0) if blind else loss(P, p.z, Psi) < 0.5


@pytest.mark.states("mamba Section 8.3 (algorithm)")
def test_sgd_is_the_update_written_out():
    """Against plain_step on the same prompts, for patterns on the axes; test_patterns has the turned ones."""
    Psi_0 = initial(7, 0.2, np.random.default_rng(0), m=7)
    seen = []
    drawn, record = batches(np.random.default_rng(3), SMALL), lambda t, x: (t, x.w.copy())
    Psi, recorded = sgd(Psi_0, drawn, 0.5, 5, gradient, record, at=(0, 2, 5))
    plain = Psi_0
    for t, p in enumerate(islice(stream(np.random.default_rng(3), 4, SMALL), 6)):
        seen += [(t, plain.w)] if t in (0, 2, 5) else []
        P = tokens(p, orthogonal_patterns(3, 2, 2, 7), SMALL.kappa_a * 3.0 * np.eye(2, 7, 5))
        plain, last = plain_step(plain, P, p.z, 0.5), plain
    for got, expected in zip(Psi, last):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-13)
    assert [t for t, _ in recorded] == [0, 2, 5]
    for (_, got), (_, expected) in zip(recorded, seen):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-13)


@pytest.mark.states("mamba Section 8.3 (algorithm)")
def test_a_step_goes_downhill_and_leaves_its_arguments():
    Psi = initial(7, 0.2, np.random.default_rng(0), m=7)
    p = training_prompts(np.random.default_rng(0), 64, SMALL._replace(p_a=0.3))
    P = encode(p, SMALL)
    for x in (P, p.z, *Psi):
        x.flags.writeable = False
    assert loss(P, p.z, plain_step(Psi, P, p.z, 0.01)) < loss(P, p.z, Psi)
    with pytest.raises(ValueError, match="^eta: "):
        plain_step(Psi, P, p.z, 0.0)
    assert descend(Psi._replace(w=None), Psi._replace(w=None), 1.0).w is None


def test_recorded_weights_are_apart_from_each_other():
    """Case G9."""
    setting, rng = SMALL._replace(l=5), np.random.default_rng(0)
    Psi_0 = start(setting, rng)
    before = [x.copy() for x in Psi_0]
    Psi, seen = sgd(Psi_0, batches(rng, setting), 1.0, 3, gradient, lambda t, x: x, at=(0, 1, 2))
    assert all(np.array_equal(x, y) for x, y in zip(Psi_0, before))
    assert not np.shares_memory(seen[1].W_B, seen[2].W_B) and not np.array_equal(seen[1].W_B, Psi.W_B)


@pytest.mark.states("mamba Section 8.3 (algorithm)")
def test_divergence_stops_at_its_step_with_the_last_finite_weights():
    """Case G10."""
    setting = SMALL._replace(B=8)
    Psi = start(setting, np.random.default_rng(0))
    with pytest.raises(Diverged, match="diverged at step ") as caught:
        sgd(Psi, batches(np.random.default_rng(0), setting), 1e200, 100, gradient)
    assert 1 <= caught.value.step < 100
    assert all(np.all(np.isfinite(W)) for W in caught.value.state)
    same, _ = sgd(Psi, batches(np.random.default_rng(0), setting), 1e200, caught.value.step - 1, gradient)
    assert all(np.array_equal(x, y) for x, y in zip(same, caught.value.state))


@pytest.mark.parametrize("n", [0, 2])
def test_batches_that_end_early_are_too_few(n):
    rng = np.random.default_rng(0)
    few = islice(batches(rng, SMALL), n)
    with pytest.raises(ValueError, match=f"^batches: ended after {n} of 3 steps"):
        sgd(start(SMALL, rng), few, 0.1, 3, gradient)


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


def test_delta_is_the_papers():
    for delta in (0.0, 0.21, np.nan):
        with pytest.raises(ValueError, match="^delta: "):
            initial(3, delta, np.random.default_rng(0))


@pytest.mark.parametrize("call, name", [(dict(eta=0.0), "eta"), (dict(eta=np.nan), "eta"), (dict(steps=-1), "steps")])
def test_bad_arguments_are_named(call, name):
    Psi = start(SMALL, np.random.default_rng(0))
    drawn = batches(np.random.default_rng(0), SMALL)
    with pytest.raises(ValueError, match=f"^{name}: "):
        sgd(Psi, drawn, **{**dict(eta=0.1, steps=1), **call})


def test_integers_make_a_step_of_their_own():
    """Cases G4 and G9: the result is float64 and shares no memory with what it came from."""
    rng = np.random.default_rng(0)
    P, z = np.round(rng.standard_normal((3, 4, 3))), np.ones(3)
    Psi = Weights(*(np.round(2 * x) for x in (*rng.standard_normal((2, 5, 3)), rng.standard_normal(3))))
    integers = Weights(*(x.astype(int) for x in Psi))
    for x in (P, z, *Psi, *integers):
        x.flags.writeable = False
    for got, expected in zip(plain_step(integers, P.astype(int), z, 0.1), plain_step(Psi, P, z, 0.1)):
        np.testing.assert_allclose(got, expected)
        assert got.dtype == np.float64 and not any(np.shares_memory(got, x) for x in (*Psi, *integers))
