"""Eq. 3 and its gradients: by hand, against values alone, and against a slow double loop."""

import numpy as np
import pytest
from hypothesis import assume, given

from refimpl.calculus.differences import central_difference, gradient_error, one_sided_differences
from refimpl.calculus.losses import sigmoid
from refimpl.mamba.model import (
    Weights,
    attention,
    gates,
    loss,
    loss_gradient,
    output,
    output_gradient_w,
    output_gradient_W_B,
    output_gradient_W_C,
)
from tests.mamba.draws import models


@pytest.mark.states("mamba Eq. 3", "mamba Section 11.3 (gradient of w)")
@pytest.mark.states("mamba Section 11.2 (gradient of W_C)", "mamba Section 11.2 (gradient of W_B)")
def test_eq_3_and_its_gradients_by_hand():
    """Two examples and the query, d = m = 1, sigma = 3/4, 1/4, 1/2 on w = (0, log 3).

    G = (3/4 * 3/4 * 1/2, 1/4 * 1/2, 1/2), the attention is 2 x_i * 3 * 3, and F = 9/32 * 18 - 1/8 * 36 = 9/16. What the
    gates let through is c = 9/32 (1, 1) - 1/8 (2, -1) = (1, 13) / 32.
    """
    P = np.array([[[1.0, 1.0], [2.0, -1.0], [3.0, 0.0]]])
    Psi = Weights(np.array([[2.0, 0.0]]), np.array([[3.0, 0.0]]), np.array([0.0, np.log(3)]))
    np.testing.assert_allclose(attention(P, *Psi[:2]), [[18, 36, 54]])
    np.testing.assert_allclose(gates(P, Psi.w), [[9 / 32, 1 / 8, 1 / 2]])
    np.testing.assert_allclose([output(P, Psi)[0], loss(P, [1], Psi), loss(P, [-1], Psi)], [9 / 16, 7 / 16, 25 / 16])
    by_B, by_C, by_w = [[9 / 32, 117 / 32]], [[3 / 16, 0]], [-567 / 64, 189 / 32]
    np.testing.assert_allclose(output_gradient_W_B(P, Psi, [1.0]), by_B)  # W_C p_query c^T
    np.testing.assert_allclose(output_gradient_W_C(P, Psi, [1.0]), by_C)  # W_B c p_query^T
    # -(9/32 * 18 ((2, -1) / 4 + (3, 0) / 2 - (1, 1) / 4) - 1/8 * 36 ((3, 0) / 2 - 3/4 (2, -1)))
    np.testing.assert_allclose(output_gradient_w(P, Psi, [1.0]), by_w)
    for got, expected in zip(loss_gradient(P, [1], Psi), (by_B, by_C, by_w)):
        np.testing.assert_allclose(got, -np.array(expected))
    assert output(P, Psi._replace(w=None)) == 18 - 36  # every gate 1


def slow_output(P, Psi):
    """Eq. 3 for one prompt, every product written out."""
    F = 0.0
    for i in range(len(P)):
        G = 1.0
        if Psi.w is not None:
            G = sigmoid(Psi.w @ P[i])
            for j in range(i + 1, len(P)):
                G *= 1 - sigmoid(Psi.w @ P[j])
        F += G * P[i, -1] * sum((Psi.W_B @ P[i])[c] * (Psi.W_C @ P[-1])[c] for c in range(len(Psi.W_B)))
    return F


def slow_output_gradient_w(p, Psi):
    """Section 11.3's last line for one prompt, its double sum written out (there with -z in front)."""
    s, G, sigma = attention(p, *Psi[:2]), gates(p, Psi.w), sigmoid(p @ Psi.w)
    total = np.zeros_like(Psi.w)
    for i in range(len(p)):
        inner = sum((sigma[k] * p[k] for k in range(i + 1, len(p))), -(1 - sigma[i]) * p[i])
        total -= p[i, -1] * s[i] * G[i] * inner
    return total


@pytest.mark.states("mamba Section 2 (linear Transformer)")
@given(drawn=models(gated=False))
def test_linear_transformer_is_eq_3_with_every_gate_one(drawn):
    P, _, Psi = drawn
    np.testing.assert_allclose(output(P, Psi), [slow_output(p, Psi) for p in P], rtol=1e-10, atol=1e-12)
    by_context = [(p[:, -1] @ p) @ Psi.W_B.T @ Psi.W_C @ p[-1] for p in P]
    np.testing.assert_allclose(output(P, Psi), by_context, rtol=1e-10, atol=1e-12)


@pytest.mark.states("mamba Section 11.2 (gradient of W_C)", "mamba Section 11.2 (gradient of W_B)")
@given(drawn=models(most=3))
def test_matrix_gradients_against_differences_and_the_displayed_sums(drawn):
    P, z, Psi = drawn
    by_C, by_B = output_gradient_W_C(P, Psi, z), output_gradient_W_B(P, Psi, z)
    assert gradient_error(lambda W: z @ output(P, Psi._replace(W_C=W)), by_C, Psi.W_C) < 1e-6
    assert gradient_error(lambda W: z @ output(P, Psi._replace(W_B=W)), by_B, Psi.W_B) < 1e-6
    slow_C, slow_B = np.zeros_like(by_C), np.zeros_like(by_B)
    for n, p in enumerate(P):
        for G, token in zip(gates(p, Psi.w), p):
            slow_C += z[n] * G * token[-1] * np.outer(Psi.W_B @ token, p[-1])
            slow_B += z[n] * G * token[-1] * np.outer(Psi.W_C @ p[-1], token)
    np.testing.assert_allclose(by_C, slow_C, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(by_B, slow_B, rtol=1e-9, atol=1e-10)


@pytest.mark.states("mamba Section 11.3 (gradient of w)")
@given(drawn=models())
def test_gate_vector_gradient_against_differences_and_the_double_sum(drawn):
    P, z, Psi = drawn
    by_w = output_gradient_w(P, Psi, z)
    assert gradient_error(lambda w: z @ output(P, Psi._replace(w=w)), by_w, Psi.w) < 1e-6
    slow = sum(sign * slow_output_gradient_w(p, Psi) for sign, p in zip(z, P))
    np.testing.assert_allclose(by_w, slow, rtol=1e-9, atol=1e-10)


@pytest.mark.states("mamba Section 2 (training objective)")
@given(drawn=models(most=3))
def test_loss_gradient_away_from_the_kink(drawn):
    P, z, Psi = drawn
    assume(np.all(np.abs(1 - z * output(P, Psi)) > 1e-2))
    expected = np.mean([max(0.0, 1 - sign * slow_output(p, Psi)) for sign, p in zip(z, P)])
    assert abs(loss(P, z, Psi) - expected) < 1e-10
    for name, gradient in loss_gradient(P, z, Psi)._asdict().items():
        numeric = central_difference(lambda x: loss(P, z, Psi._replace(**{name: x})), getattr(Psi, name))
        np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-9)  # 1e-9: rounding of a loss near 1


@pytest.mark.states("mamba Section 2 (training objective)")
def test_the_kink_has_a_subgradient_between_the_one_sided_slopes():
    """Case C1: at z F = 1 the gradient is 0, between the slopes -1/4 and 0.

    One example and the query, d = m = 1: F = w_c / 4 with w = 0, so that z F = 1 at W_C = 4.
    """
    P, z = np.array([[[1.0, 1.0], [1.0, 0.0]]]), np.array([1.0])
    Psi = Weights(np.array([[1.0, 0.0]]), np.array([[4.0, 0.0]]), np.zeros(2))
    assert output(P, Psi) == 1
    left, right = one_sided_differences(lambda W: loss(P, z, Psi._replace(W_C=W)), Psi.W_C)
    gradient = loss_gradient(P, z, Psi).W_C
    np.testing.assert_allclose([left[0, 0], right[0, 0]], [-0.25, 0], atol=1e-9)
    assert gradient[0, 0] == 0  # the documented choice, inside [-1/4, 0]
    below = loss_gradient(P, z, Psi._replace(W_C=Psi.W_C * (1 - 1e-12))).W_C
    np.testing.assert_allclose(below[0, 0], -0.25)


def test_the_checker_would_see_a_percent_in_one_term():
    """Case C4."""
    rng = np.random.default_rng(0)
    P = rng.standard_normal((2, 4, 3))
    Psi = Weights(*rng.standard_normal((2, 2, 3)), rng.standard_normal(3))
    wrong = output_gradient_w(P, Psi, np.ones(2))
    wrong[1] *= 1.01
    assert gradient_error(lambda w: output(P, Psi._replace(w=w)).sum(), wrong, Psi.w) > 1e-3


# Where the paper as printed is wrong.


@pytest.mark.erratum("mamba-gradient-range")
def test_a_prompt_far_on_the_wrong_side_pulls_as_well():
    """Every z F <= -2, outside of the printed range: the display is still the gradient, and not 0."""
    rng = np.random.default_rng(0)
    P, Psi = rng.standard_normal((3, 5, 4)), Weights(*rng.standard_normal((2, 2, 4)), rng.standard_normal(4))
    Psi = Psi._replace(W_C=2 * Psi.W_C / np.min(np.abs(output(P, Psi))))
    z = -np.sign(output(P, Psi))
    assert np.all(z * output(P, Psi) <= -2 + 1e-12)
    got = loss_gradient(P, z, Psi)
    for name in Psi._fields:
        moved = lambda x, name=name: loss(P, z, Psi._replace(**{name: x}))
        assert gradient_error(moved, getattr(got, name), getattr(Psi, name)) < 1e-6
    by_display = np.mean([-t * slow_output_gradient_w(p, Psi) for p, t in zip(P, z)], axis=0)
    np.testing.assert_allclose(got.w, by_display, rtol=1e-9)
    assert np.linalg.norm(got.w) > 0.01


@pytest.mark.erratum("mamba-query-factor")
def test_the_printed_indicator_would_drop_the_factor_of_the_query():
    rng = np.random.default_rng(0)
    p, Psi = rng.standard_normal((4, 3)), Weights(*rng.standard_normal((2, 2, 3)), rng.standard_normal(3))
    p[-1, -1] = 0  # y_query
    sigma, s, last = sigmoid(p @ Psi.w), attention(p, Psi.W_B, Psi.W_C), len(p) - 1
    printed = np.zeros(3)
    for i in range(last):
        kept = np.prod([1 - sigma[j] * (j < last) for j in range(i + 1, last + 1)])  # 1[j < l + 1] as printed
        later = sum(sigma[k] * p[k] for k in range(i + 1, last + 1))
        own = np.prod(1 - sigma[i:]) * sigma[i] * p[i]
        printed -= p[i, -1] * s[i] * (kept * sigma[i] * later - own)
    right = slow_output_gradient_w(p, Psi)
    assert gradient_error(lambda w: output(p, Psi._replace(w=w)), right, Psi.w) < 1e-6
    assert np.max(np.abs(printed - right)) > 1e-2


# What it is given.


def test_shapes_are_named():
    P, W = np.ones((2, 3, 4)), np.ones((5, 4))
    with pytest.raises(ValueError, match="^W_C: axis d"):
        output(P, Weights(W, np.ones((5, 3)), np.ones(4)))
    with pytest.raises(ValueError, match="^z: labels must be -1 or"):
        loss_gradient(P, [0, 1], Weights(W, W, None))
    with pytest.raises(ValueError, match="^P: has an empty axis"):
        loss(np.ones((0, 3, 4)), [], Weights(W, W, None))


def test_extreme_pre_activations_are_right_without_a_warning():
    """Case A1."""
    P = np.array([[[800.0, 1.0], [-800.0, 1.0], [-800.0, 0.0]]])
    Psi = Weights(np.array([[1.0, 0.0]]), np.array([[-1 / 800**2, 0.0]]), np.array([1.0, 0.0]))
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        assert output(P, Psi) == 1.0  # G = (1, 0, 0), attention 1
        assert loss(P, [1.0], Psi) == 0.0
        assert all(np.all(np.isfinite(g)) for g in loss_gradient(P, [-1.0], Psi))


def test_half_precision_is_summed_in_double():
    """Case A3."""
    P = np.full((1, 4097, 2), 5, np.float16)
    P[0, :, 1] = 1
    F = output(P, Weights(np.array([[1, 0]], np.float16), np.array([[1, 0]], np.float16), None))
    assert F.dtype == np.float64 and F == 4097 * 25


def batch(n=3):
    rng = np.random.default_rng(0)
    P = rng.standard_normal((n, 4, 3))
    return P, np.ones(n), Weights(*rng.standard_normal((2, 5, 3)), rng.standard_normal(3))


def test_integers_and_read_only_arguments():
    """Cases G4 and G9."""
    P, z, Psi = batch()
    P, Psi = np.round(P), Weights(*(np.round(2 * x) for x in Psi))
    integers = Weights(*(x.astype(int) for x in Psi))
    for x in (P, z, *Psi, *integers):
        x.flags.writeable = False
    for function in (output, lambda P, Psi: loss(P, z, Psi)):
        np.testing.assert_array_equal(function(P.astype(int), integers), function(P, Psi))
    for got, expected in zip(loss_gradient(P.astype(int), z, integers), loss_gradient(P, z, Psi)):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (2, 3, 0)])
def test_empty_axes_are_named(shape):
    """Case G6."""
    Psi = Weights(np.ones((2, shape[2])), np.ones((2, shape[2])), None)
    for function in (lambda P: output(P, Psi), lambda P: loss_gradient(P, np.ones(shape[0]), Psi)):
        with pytest.raises(ValueError, match="has an empty axis"):
            function(np.zeros(shape))


def test_labels_and_their_shape():
    """Cases G1, G2, G7."""
    P, z, Psi = batch()
    for bad in (z[:, None], z[None]):
        with pytest.raises(ValueError, match="shape"):
            loss(P, bad, Psi)
    for bad in ([0, 1, 1], [0, 0, 0]):
        with pytest.raises(ValueError, match="labels must be -1 or \\+1, found"):
            loss(P, bad, Psi)
    assert np.isfinite(loss(P, z, Psi))  # one class alone is legal
