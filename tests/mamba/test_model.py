"""The recurrence, its unrolling and Eq. 3 are one model; its gradients against values alone and a slow double loop."""

import numpy as np
import pytest
from hypothesis import assume, given

from refimpl.calculus.differences import central_difference, gradient_error, one_sided_differences
from refimpl.calculus.losses import sigmoid
from refimpl.mamba.model import (
    Weights,
    attention,
    discretise,
    gates,
    gathered,
    loss,
    loss_gradient,
    output,
    output_gradient_w,
    output_gradient_W_B,
    output_gradient_W_C,
    recurrence,
    unrolled,
)
from tests.mamba.draws import models


def with_columns(w, seed=0):
    """W (d+1, d+1) whose last column is w: Eq. 1's W for Eq. 3's w."""
    W = np.random.default_rng(seed).standard_normal((len(w), len(w)))
    W[:, -1] = w
    return W


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


@pytest.mark.states("mamba Eq. 1", "mamba Section 11.1 (derivation of Eq. 3)", "mamba Eq. 3")
@given(drawn=models())
def test_recurrence_unrolling_and_gated_sum_agree(drawn):
    P, _, Psi = drawn
    W = with_columns(Psi.w)
    F = output(P, Psi)
    for p, f in zip(P, F):
        o = recurrence(p, Psi.W_B, Psi.W_C, W)
        np.testing.assert_allclose(unrolled(p, Psi.W_B, Psi.W_C, W), o, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(gathered(p, Psi.W_B, Psi.W_C, W), o, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose([f, slow_output(p, Psi)], o[-1, -1], rtol=1e-9, atol=1e-10)


@pytest.mark.states("mamba Eq. 1")
def test_discretisation_by_the_ode_that_it_solves():
    # dh/dt = A h + B u over the time Delta, A = -1, from h_0: Euler with many small steps knows no exponential.
    rng = np.random.default_rng(0)
    p, W_B, W = rng.standard_normal((1, 3)), rng.standard_normal((2, 3)), rng.standard_normal((3, 3))
    A_tilde, B_tilde = discretise(p, W_B, W)
    h_0, steps = rng.standard_normal((3, 2)), 200_000
    dt = np.log(1 + np.exp(p[0] @ W))[:, None] / steps
    h = (1 - dt) ** steps * h_0 + (1 - (1 - dt) ** steps) * (p[0, :, None] * (W_B @ p[0]))
    np.testing.assert_allclose(h_0 * A_tilde[0] + p[0, :, None] * B_tilde[0], h, rtol=1e-4, atol=1e-5)


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
def test_the_kink_has_a_subgradient_between_the_one_sided_slopes():  # case C1
    # One example and the query, d = m = 1: F = w_c / 4 with w = 0, so that z F = 1 at W_C = 4.
    P, z = np.array([[[1.0, 1.0], [1.0, 0.0]]]), np.array([1.0])
    Psi = Weights(np.array([[1.0, 0.0]]), np.array([[4.0, 0.0]]), np.zeros(2))
    assert output(P, Psi) == 1
    left, right = one_sided_differences(lambda W: loss(P, z, Psi._replace(W_C=W)), Psi.W_C)
    gradient = loss_gradient(P, z, Psi).W_C
    np.testing.assert_allclose([left[0, 0], right[0, 0]], [-0.25, 0], atol=1e-9)
    assert gradient[0, 0] == 0  # the documented choice, inside [-1/4, 0]
    below = loss_gradient(P, z, Psi._replace(W_C=Psi.W_C * (1 - 1e-12))).W_C
    np.testing.assert_allclose(below[0, 0], -0.25)


def test_the_checker_would_see_a_percent_in_one_term():  # case C4
    rng = np.random.default_rng(0)
    P = rng.standard_normal((2, 4, 3))
    Psi = Weights(*rng.standard_normal((2, 2, 3)), rng.standard_normal(3))
    wrong = output_gradient_w(P, Psi, np.ones(2))
    wrong[1] *= 1.01
    assert gradient_error(lambda w: output(P, Psi._replace(w=w)).sum(), wrong, Psi.w) > 1e-3


# Where the paper as printed is wrong.


@pytest.mark.erratum("mamba-initial-state")
@given(drawn=models())
def test_starting_from_u_would_add_a_term_to_eq_3(drawn):
    P, _, Psi = drawn
    W = with_columns(Psi.w)
    for p in P:
        # h_0 = U as printed is (d+1, m) for m = l + 1: the tokens as columns.
        W_B, W_C = np.resize(Psi.W_B, (2, len(p), p.shape[1]))
        eq_3 = output(p, Weights(W_B, W_C, Psi.w))
        from_zero, from_u = (recurrence(p, W_B, W_C, W, h_0)[-1, -1] for h_0 in (None, p.T))
        passes = np.prod(1 - sigmoid(p @ Psi.w))
        added = passes * p[:, -1] @ W_C @ p[-1]
        np.testing.assert_allclose(from_zero, eq_3, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(from_u - from_zero, added, rtol=1e-9, atol=1e-9)


@pytest.mark.states("mamba Eq. 1", "mamba Section 11.1 (derivation of Eq. 3)")
@pytest.mark.parametrize("z", [-30.0, -40.0, -700.0, -800.0, 800.0])
def test_far_pre_activations_keep_their_digits(z):
    # Delta is e^z, down to 0: (e^-Delta - 1) / (-Delta) goes to 1.
    P, W_B, W = np.array([[1.0, 1.0], [1.0, 0.0]]), np.ones((1, 2)), np.array([[0.0, z], [0.0, 0.0]])
    expected = unrolled(P, W_B, W_B, W)
    np.testing.assert_allclose(recurrence(P, W_B, W_B, W), expected, rtol=1e-14)
    assert expected[1, 1] > 0 or abs(z) == 800


@pytest.mark.erratum("mamba-elementwise-exponential")
def test_an_entrywise_exponential_would_mix_the_state():
    rng = np.random.default_rng(0)
    p, W_B, W = rng.standard_normal((1, 3)), rng.standard_normal((2, 3)), rng.standard_normal((3, 3))
    delta, B = np.logaddexp(0, p[0] @ W), W_B @ p[0]
    by_sigma = sigmoid(p[0] @ W)[:, None] * B  # Section 11.1: B~_j = sigma(w_j^T p) B
    A = -np.eye(2)
    entrywise = [x * B @ (np.exp(x * A) - np.eye(2)) @ np.linalg.inv(x * A) for x in delta]
    matrix = [x * B @ (np.diag(np.exp(-x * np.ones(2))) - np.eye(2)) @ np.linalg.inv(x * A) for x in delta]
    np.testing.assert_allclose(matrix, by_sigma, rtol=1e-12)
    np.testing.assert_allclose(discretise(p, W_B, W)[1][0], by_sigma, rtol=1e-12)
    np.testing.assert_allclose(by_sigma - entrywise, np.tile(B[::-1], (3, 1)), rtol=1e-12)  # ones off the diagonal


@pytest.mark.erratum("mamba-unrolled-twice", "mamba-unrolled-without-s")
def test_the_printed_unrolling_counts_the_last_term_twice_and_loses_s():
    rng = np.random.default_rng(0)
    P, W_B, W_C, W = (rng.standard_normal(shape) for shape in ((4, 3), (2, 3), (2, 3), (3, 3)))
    right = recurrence(P, W_B, W_C, W)
    own = P * sigmoid(P @ W) * np.einsum("id,id->i", P @ W_B.T, P @ W_C.T)[:, None]
    twice = unrolled(P, W_B, W_C, W) + own  # the sum over j <= i, and (p_i o s_i) B_i once more
    assert np.all(np.abs(twice - right) > 1e-3)
    queried = P.copy()
    queried[-1, -1] = 0  # y_query = 0: the label coordinate of o_{l+1} does not see it
    assert np.isclose((queried * sigmoid(queried @ W))[-1, -1], 0)
    h = np.zeros((3, 2))  # h_i = h_{i-1} o A~_i + p_i B_i, the second and third line as printed
    for p, A in zip(P, discretise(P, W_B, W)[0]):
        h = h * A + np.outer(p, W_B @ p)
    assert np.max(np.abs(h @ W_C @ P[-1] - right[-1])) > 1e-3
    assert np.isclose(unrolled(P, W_B, W_C, W), right, rtol=1e-10).all()


@pytest.mark.erratum("mamba-unrolled-shift", "mamba-gate-indices")
def test_the_printed_indices_give_other_gates():
    rng = np.random.default_rng(0)
    P, W_B, W_C, W = (rng.standard_normal(shape) for shape in ((2, 3), (2, 3), (2, 3), (3, 3)))
    right, s = recurrence(P, W_B, W_C, W)[-1], sigmoid(P @ W)
    for shift, holds in ((0, True), (1, False)):  # two tokens: (p_1 o s_1) B_1 o A~_2 + (p_2 o s_2) B_2; printed s_2
        h = np.outer(P[0] * s[shift] * (1 - s[1]), W_B @ P[0]) + np.outer(P[1] * s[1], W_B @ P[1])
        assert np.allclose(h @ W_C @ P[1], right, rtol=1e-12) == holds
    # The last display defines G_{i,l+1} by cases of j and i: at j = i, the only reading for each i, nothing is passed.
    P = rng.standard_normal((4, 3))
    assert np.all(sigmoid(P @ W[:, 2])[:-1] > gates(P, W[:, 2])[:-1])


@pytest.mark.erratum("mamba-gradient-range")
def test_a_prompt_far_on_the_wrong_side_pulls_as_well():
    # Every z F <= -2, outside of the printed range: the display is still the gradient, and not 0.
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


def test_shapes_are_named():
    P, W = np.ones((2, 3, 4)), np.ones((5, 4))
    with pytest.raises(ValueError, match="^W_C: axis d"):
        output(P, Weights(W, np.ones((5, 3)), np.ones(4)))
    with pytest.raises(ValueError, match="^z: labels must be -1 or"):
        loss_gradient(P, [0, 1], Weights(W, W, None))
    with pytest.raises(ValueError, match="^h_0: axis"):
        recurrence(P[0], W, W, np.ones((4, 4)), np.zeros((1, 1)))
    with pytest.raises(ValueError, match="^P: has an empty axis"):
        loss(np.ones((0, 3, 4)), [], Weights(W, W, None))
