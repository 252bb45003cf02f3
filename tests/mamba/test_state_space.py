"""The recurrence of Eq. 1, its unrolling and Eq. 3 are one model; where Section 11.1 as printed is not."""

import numpy as np
import pytest
from hypothesis import given

from refimpl.calculus.losses import sigmoid
from refimpl.mamba.model import Weights, gates, output
from refimpl.mamba.state_space import discretise, gathered, recurrence, unrolled
from tests.mamba.draws import models
from tests.mamba.test_model import slow_output


@pytest.mark.states("mamba Eq. 1", "mamba Section 11.1 (derivation of Eq. 3)")
def test_two_steps_by_hand():
    """d = m = 1, B_i = C_i = x_i. Row 1 of h has sigma = 3/4 and 9/10, row 2, w = 0, has 1/2 twice.

    h_1 = (3/4, 1/2) * 1 and h_2 = (1/10 * 3/4 + 9/10 * 4, 1/2 * 1/2 + 0) = (3.675, 0.25); o_i = h_i x_i.
    """
    P, W_B, W = np.array([[1.0, 1.0], [2.0, 0.0]]), np.array([[1.0, 0.0]]), np.array([[np.log(3), 0.0], [0.0, 0.0]])
    A_tilde, B_tilde = discretise(P, W_B, W)
    np.testing.assert_allclose(A_tilde[..., 0], [[1 / 4, 1 / 2], [1 / 10, 1 / 2]])
    np.testing.assert_allclose(B_tilde[..., 0], [[3 / 4, 1 / 2], [9 / 5, 1]])
    for form in (recurrence, unrolled, gathered):
        np.testing.assert_allclose(form(P, W_B, W_B, W), [[0.75, 0.5], [7.35, 0.5]])
    from_one = recurrence(P, W_B, W_B, W, h_0=np.ones((2, 1)))  # h_0 decays to 1/4 * 1/10 and 1/2 * 1/2
    np.testing.assert_allclose(from_one[1] - [7.35, 0.5], [2 / 40, 2 / 4])


def with_columns(w, seed=0):
    """W (d+1, d+1) whose last column is w: Eq. 1's W for Eq. 3's w."""
    W = np.random.default_rng(seed).standard_normal((len(w), len(w)))
    W[:, -1] = w
    return W


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
    """dh/dt = A h + B u over the time Delta, A = -1, from h_0: Euler with many small steps knows no exponential."""
    rng = np.random.default_rng(0)
    p, W_B, W = rng.standard_normal((1, 3)), rng.standard_normal((2, 3)), rng.standard_normal((3, 3))
    A_tilde, B_tilde = discretise(p, W_B, W)
    h_0, steps = rng.standard_normal((3, 2)), 200_000
    dt = np.log(1 + np.exp(p[0] @ W))[:, None] / steps
    h = (1 - dt) ** steps * h_0 + (1 - (1 - dt) ** steps) * (p[0, :, None] * (W_B @ p[0]))
    np.testing.assert_allclose(h_0 * A_tilde[0] + p[0, :, None] * B_tilde[0], h, rtol=1e-4, atol=1e-5)


@pytest.mark.states("mamba Eq. 1", "mamba Section 11.1 (derivation of Eq. 3)")
@pytest.mark.parametrize("z", [-30.0, -40.0, -700.0, -800.0, 800.0])
def test_far_pre_activations_keep_their_digits(z):
    """Delta is e^z, down to 0: (e^-Delta - 1) / (-Delta) goes to 1."""
    P, W_B, W = np.array([[1.0, 1.0], [1.0, 0.0]]), np.ones((1, 2)), np.array([[0.0, z], [0.0, 0.0]])
    expected = unrolled(P, W_B, W_B, W)
    np.testing.assert_allclose(recurrence(P, W_B, W_B, W), expected, rtol=1e-14)
    assert expected[1, 1] > 0 or abs(z) == 800


def test_a_state_of_another_shape_is_named():
    W = np.ones((5, 4))
    with pytest.raises(ValueError, match="^h_0: axis"):
        recurrence(np.ones((3, 4)), W, W, np.ones((4, 4)), np.zeros((1, 1)))


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
