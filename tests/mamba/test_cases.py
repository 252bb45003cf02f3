"""Failure cases from the field (A, D, E, G, H), on this paper's public functions."""

import numpy as np
import pytest

from refimpl.mamba.experiments import Case, figure_2
from refimpl.mamba.mechanism import attention_mass
from refimpl.mamba.model import Weights, loss, loss_gradient, output
from refimpl.mamba.runs.patterns import encode, gradient
from refimpl.mamba.prompts import test_prompts, tokens, training_prompts
from refimpl.mamba.tasks import cycle, orthogonal_patterns
from refimpl.mamba.training import Setting, error, initial, plain_step, sgd, start


def batch(n=3):
    rng = np.random.default_rng(0)
    P = rng.standard_normal((n, 4, 3))
    return P, np.ones(n), Weights(*rng.standard_normal((2, 5, 3)), rng.standard_normal(3))


def test_extreme_pre_activations_are_right_without_a_warning():  # A1
    P = np.array([[[800.0, 1.0], [-800.0, 1.0], [-800.0, 0.0]]])
    Psi = Weights(np.array([[1.0, 0.0]]), np.array([[-1 / 800**2, 0.0]]), np.array([1.0, 0.0]))
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        assert output(P, Psi) == 1.0  # G = (1, 0, 0), attention 1
        assert loss(P, [1.0], Psi) == 0.0
        assert all(np.all(np.isfinite(g)) for g in loss_gradient(P, [-1.0], Psi))


def test_half_precision_is_summed_in_double():  # A3
    P = np.full((1, 4097, 2), 5, np.float16)
    P[0, :, 1] = 1
    F = output(P, Weights(np.array([[1, 0]], np.float16), np.array([[1, 0]], np.float16), None))
    assert F.dtype == np.float64 and F == 4097 * 25


def test_integers_and_read_only_arguments():  # G4, G9
    P, z, Psi = batch()
    P, Psi = np.round(P), Weights(*(np.round(2 * x) for x in Psi))
    integers = Weights(*(x.astype(int) for x in Psi))
    for x in (P, z, *Psi, *integers):
        x.flags.writeable = False
    for function in (output, lambda P, Psi: loss(P, z, Psi)):
        np.testing.assert_array_equal(function(P.astype(int), integers), function(P, Psi))
    for got, expected in zip(plain_step(integers, P.astype(int), z, 0.1), plain_step(Psi, P, z, 0.1)):
        np.testing.assert_allclose(got, expected)
        assert got.dtype == np.float64 and not any(np.shares_memory(got, x) for x in (*Psi, *integers))


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (2, 3, 0)])
def test_empty_axes_are_named(shape):  # G6
    Psi = Weights(np.ones((2, shape[2])), np.ones((2, shape[2])), None)
    for function in (lambda P: output(P, Psi), lambda P: loss_gradient(P, np.ones(shape[0]), Psi)):
        with pytest.raises(ValueError, match="has an empty axis"):
            function(np.zeros(shape))


def test_labels_and_their_shape():  # G1, G2, G7
    P, z, Psi = batch()
    for bad in (z[:, None], z[None]):
        with pytest.raises(ValueError, match="shape"):
            loss(P, bad, Psi)
    for bad in ([0, 1, 1], [0, 0, 0]):
        with pytest.raises(ValueError, match="labels must be -1 or \\+1, found"):
            loss(P, bad, Psi)
    assert np.isfinite(loss(P, z, Psi)) and 0 <= error(output(P, Psi), z) <= 1  # one class alone is legal


def test_no_outliers_and_only_one_pattern():
    p = test_prompts(np.random.default_rng(0), 4, 3, cycle(2), 1, 1, 0.0)
    assert np.all(p.s == -1)
    same, different = attention_mass(np.ones((1, 3)), np.zeros((1, 3)))
    assert (same, different) == (2, 0)


def test_large_dimensions():  # H4: pattern coordinates do not form a d x d array; tokens are refused by their size
    rng = np.random.default_rng(0)
    setting = Setting(d=10**9)
    Psi, _ = sgd(setting, start(setting, rng), 1.0, 8, 2, rng)
    assert Psi.W_B.shape == (19, 20)
    p = training_prompts(rng, 128, 20, cycle(6), 10, 3, 0.5)
    with pytest.raises(ValueError, match="GiB"):
        tokens(p, orthogonal_patterns(6, 10, 3, 10**5), np.zeros((3, 10**5)))
    with pytest.raises(ValueError, match="GiB"):
        orthogonal_patterns(6, 10, 3, 10**9)


def test_recorded_weights_are_apart_from_each_other():  # G9
    setting, rng = Setting(d=9, M1=3, M2=2, V=2, l=5), np.random.default_rng(0)
    Psi_0 = start(setting, rng)
    before = [x.copy() for x in Psi_0]
    Psi, seen = sgd(setting, Psi_0, 1.0, 4, 3, rng, lambda t, x: x, at=(0, 1, 2))
    assert all(np.array_equal(x, y) for x, y in zip(Psi_0, before))
    assert not np.shares_memory(seen[1].W_B, seen[2].W_B) and not np.array_equal(seen[1].W_B, Psi.W_B)


def test_long_prompts_are_finite_in_both_forms():  # B1
    p = training_prompts(np.random.default_rng(0), 2, 3000, cycle(3), 2, 2, 0.5)
    P = encode(p, 3, 2, 3.0, 6.0 * np.eye(2))
    Psi = initial(7, 0.2, np.random.default_rng(0), m=7)
    with np.errstate(all="raise", under="ignore"):
        step, F = gradient(P, p.z, Psi)
    np.testing.assert_allclose(F, output(P, Psi), rtol=1e-9)
    assert all(np.all(np.isfinite(g)) for g in step)


def test_the_global_generator_is_left_alone():  # E1
    before = np.random.get_state()[1].copy()
    figure_2("cycle", 3.0, [Case()], 0, (0.5,), 20, (5, 5))
    assert np.array_equal(before, np.random.get_state()[1])
