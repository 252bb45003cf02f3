"""Section 12's decays by definition, their gradients by differences and by slow loops, and the printed Eq. 35."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.calculus.differences import gradient_error
from refimpl.calculus.losses import sigmoid
from refimpl.mamba.decays import (
    gated_linear_attention_decay,
    gated_linear_attention_gradient,
    gated_retention_decay,
    gated_retention_gradient,
    mamba2_decay,
    mamba2_gradient,
    own_gate,
    own_gate_gradient,
    retnet_decay,
    retnet_gradient,
)
from refimpl.mamba.recurrences import final_gates, output, recurrence, summands
from tests.mamba.draws import assert_agrees, gated, models
from tests.strategies import floats, seeds

assert_close = partial(np.testing.assert_allclose, rtol=1e-11, atol=1e-12)


@pytest.mark.states("mamba Section 12 (Mamba-2)", "mamba Section 12 (RetNet)", "mamba Section 12 (gated retention)")
@pytest.mark.states("mamba Section 12 (gated linear attention)", "mamba Eq. 35")
def test_two_tokens_by_hand():
    """sigma(w^T p) = 3/4 on both: softplus is log 4. With summands t = 2, 5 only the first stands before a decay."""
    P, w, t = np.array([[[1.0, 0.0], [1.0, 0.0]]]), np.array([np.log(3), 0.0]), np.array([[[2.0], [5.0]]])
    assert_close(mamba2_decay(P, w, np.log(2)), np.full((1, 2, 1), 1 / 16))  # e^{-2 log 4}
    by_w, by_a = mamba2_gradient(P, w, np.log(2), t)
    assert_close([*by_w, by_a], [-2 * 3 / 4 * 2, 0, -2 * np.log(4) * 2])
    assert_close(gated_retention_decay(P, w, 0.5), np.full((1, 2, 1), 9 / 16))
    assert_close(gated_retention_gradient(P, w, 0.5, t), [2 * 1 / 4 * 2, 0])
    rows = np.array([w, [0.0, 0.0]])
    assert_close(gated_linear_attention_decay(P, rows, 0.5), [[[9 / 16, 1 / 4]] * 2])
    assert_close(gated_linear_attention_gradient(P, rows, 0.5, np.repeat(t, 2, axis=2)), [[1, 0], [2, 0]])
    assert_close(own_gate(P, w[None], 0.5), np.full((1, 2, 1), 9 / 16))
    assert_close(own_gate_gradient(P, w[None], 0.5, t), [[2 * 1 / 4 * 7, 0]])
    three = np.ones((1, 3, 2))
    assert_close(retnet_decay(three, 0.7), np.full((1, 3, 1), 0.7))
    assert retnet_gradient(three, 0.5, [[[3.0], [4.0], [1.0]]]) == pytest.approx(7)  # of 3 g^2 + 4 g + 1


@pytest.mark.states("mamba Section 12 (RetNet)", "mamba Section 12 (Mamba-2)", "mamba Section 12 (gated retention)")
def test_saturated_decays_are_zero_and_one():
    rng = np.random.default_rng(0)
    P = rng.standard_normal((1, 6, 3))
    assert final_gates(retnet_decay(P, 0.0))[0, :, 0].tolist() == [0, 0, 0, 0, 0, 1]
    assert final_gates(retnet_decay(P, 1.0))[0, :, 0].tolist() == [1] * 6
    assert_close(final_gates(retnet_decay(P, 0.5))[0, :, 0], 0.5 ** np.arange(5, -1, -1))
    with np.errstate(all="raise", under="ignore"):  # saturated decays, exactly 0 and 1
        w = np.array([1e4, 0, 0])
        P[0, :, 0] = [1, -1, 1, -1, 1, -1]
        assert_close(mamba2_decay(P, w, 0.0)[0, :, 0], [0, 1, 0, 1, 0, 1])
        assert_close(gated_retention_decay(P, w)[0, :, 0], [1, 0, 1, 0, 1, 0])
        assert mamba2_decay(P, w, 1e4)[0, 0, 0] == 0
        assert np.all(np.isfinite(mamba2_gradient(P, w, 1e4, np.ones((1, 6, 1)))[0]))


def slow_output(P, W_B, W_C, decay):
    """F of one prompt from the recurrence: v = p, k = W_B p, q = W_C p, the label coordinate of the last output."""
    gates = decay[:, 0] if decay.shape[1] == 1 else decay[:, None, :]
    return recurrence(gates, P, P @ W_B.T, P @ W_C.T)[0][-1, -1]


@pytest.mark.states("mamba Section 12 (Mamba-2)", "mamba Section 12 (RetNet)")
@pytest.mark.states("mamba Section 12 (gated retention)", "mamba Section 12 (gated linear attention)")
@given(drawn=models(), seed=seeds, tau=st.floats(0.3, 4))
def test_outputs_are_those_of_the_recurrences(drawn, seed, tau):
    P, _, W_B, W_C, w, W, a = gated(drawn, seed)
    z = np.einsum("nid,d->ni", P, w)[..., None]
    by_definition = {
        "Mamba-2": (mamba2_decay(P, w, a), (1 + np.exp(z)) ** -np.exp(a)),  # e^{-softplus} = 1 / (1 + e^z)
        "RetNet": (retnet_decay(P, 0.7), np.full_like(z, 0.7)),
        "gated retention": (gated_retention_decay(P, w, tau), (1 / (1 + np.exp(-z))) ** (1 / tau)),
        "GLA": (gated_linear_attention_decay(P, W, tau), (1 / (1 + np.exp(-(P @ W.T)))) ** (1 / tau)),
    }
    for decay, expected in by_definition.values():
        assert_close(decay, expected, rtol=1e-9)
        F = output(P, W_B, W_C, final_gates(decay))
        assert_close(F, [slow_output(p, W_B, W_C, gamma) for p, gamma in zip(P, decay)], rtol=1e-9, atol=1e-9)


def forward_derivative(x, decay, slope):
    """Of h_j = gamma_j h_{j-1} + x_j, step by step: decay (B, l), slope (B, l, d) the derivative of each gamma_j."""
    total = np.zeros(slope.shape[2])
    for x_n, decay_n, slope_n in zip(x, decay, slope):
        h, D = 0.0, np.zeros(slope.shape[2])
        for x_j, gamma, by in zip(x_n, decay_n, slope_n):
            h, D = gamma * h + x_j, by * h + gamma * D
        total += D
    return total


@pytest.mark.states("mamba Section 12 (Mamba-2)", "mamba Section 12 (RetNet)", "mamba Section 12 (gated retention)")
@given(drawn=models(most=4), seed=seeds, tau=st.floats(0.3, 4), gamma=st.floats(0.05, 0.95))
def test_gradients_of_scalar_gates(drawn, seed, tau, gamma):
    P, dF, W_B, W_C, w, _, a = gated(drawn, seed)
    x = dF[:, None, None] * summands(P, W_B, W_C)
    F = lambda decay: dF @ output(P, W_B, W_C, final_gates(decay))
    by_w, by_a = mamba2_gradient(P, w, a, final_gates(mamba2_decay(P, w, a)) * x)
    assert_agrees(lambda w: F(mamba2_decay(P, w, a)), by_w, w, x)
    assert_agrees(lambda a: F(mamba2_decay(P, w, a)), np.array(by_a), a, x)
    assert_agrees(lambda g: F(retnet_decay(P, g)), np.array(retnet_gradient(P, gamma, x)), gamma, x)
    by_retention = gated_retention_gradient(P, w, tau, final_gates(gated_retention_decay(P, w, tau)) * x)
    assert_agrees(lambda w: F(gated_retention_decay(P, w, tau)), by_retention, w, x)
    # A second derivation, by the recurrence of the derivative itself: D_j = gamma'_j h_{j-1} + gamma_j D_{j-1}.
    decay, slope = mamba2_decay(P, w, a)[..., 0], -np.exp(a) * sigmoid(P @ w)[..., None] * P
    assert_close(forward_derivative(x[..., 0], decay, decay[..., None] * slope), by_w, rtol=1e-8, atol=1e-9)
    decay, slope = gated_retention_decay(P, w, tau)[..., 0], sigmoid(-(P @ w))[..., None] * P / tau
    assert_close(forward_derivative(x[..., 0], decay, decay[..., None] * slope), by_retention, rtol=1e-8, atol=1e-9)


@pytest.mark.states("mamba Section 12 (RetNet)")
def test_retnets_gradient_at_decay_zero_and_one():
    rng = np.random.default_rng(0)
    P, x = rng.standard_normal((2, 5, 3)), rng.standard_normal((2, 5, 1))
    total = x[..., 0].sum(axis=0)
    assert retnet_gradient(P, 0.0, x) == pytest.approx(total[3])  # the last but one alone
    assert retnet_gradient(P, 1.0, x) == pytest.approx(total @ [4, 3, 2, 1, 0])


@pytest.mark.states("mamba Eq. 35", "mamba Section 12 (gated linear attention)")
@given(drawn=models(most=4), seed=seeds, tau=st.floats(0.3, 4))
def test_gradients_of_channel_gates(drawn, seed, tau):
    P, dF, W_B, W_C, _, W, _ = gated(drawn, seed)
    x = dF[:, None, None] * summands(P, W_B, W_C, len(W_B))
    by_W = gated_linear_attention_gradient(P, W, tau, final_gates(gated_linear_attention_decay(P, W, tau)) * x)
    F = lambda W: dF @ output(P, W_B, W_C, final_gates(gated_linear_attention_decay(P, W, tau)))
    assert_agrees(F, by_W, W, x)
    decay, slope = gated_linear_attention_decay(P, W, tau), sigmoid(-(P @ W.T)) / tau
    rows = [forward_derivative(x[..., c], decay[..., c], (decay * slope)[..., c, None] * P) for c in range(len(W))]
    assert_close(by_W, rows, rtol=1e-8, atol=1e-9)
    # Eq. 35, of the form that is printed
    printed = lambda W: dF @ output(P, W_B, W_C, own_gate(P, W, tau))
    by_own = own_gate_gradient(P, W, tau, own_gate(P, W, tau) * x)
    assert_agrees(printed, by_own, W, x)
    displayed = np.zeros_like(W)
    for n, p in enumerate(P):
        for token in p:
            s = sigmoid(W @ token)
            kq = (W_B @ token) * (W_C @ p[-1])
            displayed += dF[n] * token[-1] * np.outer(kq * s ** (1 / tau) * (1 - s) / tau, token)
    assert_close(by_own, displayed, rtol=1e-9, atol=1e-10)


@pytest.mark.states("mamba Section 12 (Mamba-2)", "mamba Section 12 (gated retention)")
@given(drawn=models(), seed=seeds, change=floats(3))
def test_no_example_has_a_gate_before_itself(drawn, seed, change):
    """What an example is does not change the weight it gets: only what comes after it does.

    The printed own gate differs.
    """
    P, _, _, _, w, W, a = gated(drawn, seed)
    other = P.copy()
    other[:, 0] += change + 1
    for decay in (
        lambda P: mamba2_decay(P, w, a),
        lambda P: gated_retention_decay(P, w),
        lambda P: gated_linear_attention_decay(P, W),
    ):
        np.testing.assert_array_equal(final_gates(decay(P))[:, 0], final_gates(decay(other))[:, 0])
    assert not np.array_equal(own_gate(P, W)[:, 0], own_gate(other, W)[:, 0])


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda P: retnet_decay(P, 1.5), "gamma"),
        (lambda P: mamba2_decay(P, np.ones(4), 0.0), "w"),
        (lambda P: gated_linear_attention_decay(P, np.ones((2, 4))), "W"),
        (lambda P: mamba2_decay(P, np.ones(3), np.nan), "a"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        call(np.ones((1, 5, 3)))


# Where Section 12 as printed is wrong.


@pytest.mark.erratum("mamba-retention-index")
def test_the_printed_retention_takes_the_decay_of_another_step():
    rng = np.random.default_rng(0)
    v, k, q = rng.standard_normal((5, 3)), *rng.standard_normal((2, 5, 2))
    decay = gated_retention_decay(v, rng.standard_normal(3))[:, 0]
    h = [recurrence(decay[: s + 1], v[: s + 1], k[: s + 1], q[: s + 1])[1] for s in range(5)]
    assert_close(decay[4] * h[3] + np.outer(v[4], k[4]), h[4])
    for i in range(4):  # gamma(w; i) h_{t-1}
        assert np.max(np.abs(decay[i] * h[3] + np.outer(v[4], k[4]) - h[4])) > 1e-3


@pytest.mark.erratum("mamba-retention-tau")
def test_a_negative_tau_would_make_the_state_grow():
    P = np.random.default_rng(0).standard_normal((400, 3))
    w = np.array([1.0, 0, 0])
    printed = sigmoid(P @ w) ** (1 / -1.0)  # tau = -1 is allowed by "tau in R"
    assert printed.min() > 1 and np.prod(printed) > 1e100
    assert gated_retention_decay(P, w, 1.0).max() < 1
    for tau in (0, -1.0):
        with pytest.raises(ValueError, match="^tau: "):
            gated_retention_decay(P, w, tau)


@pytest.mark.erratum("mamba-gla-product", "mamba-gla-side", "mamba-gla-shape")
def test_the_printed_closed_form_is_of_no_recurrence():
    rng = np.random.default_rng(0)
    P = rng.standard_normal((5, 3))  # d0 = 3 coordinates to a token
    W_B, W_C, W = rng.standard_normal((2, 3)), rng.standard_normal((2, 3)), rng.standard_normal((2, 3))
    k, q = P @ W_B.T, P @ W_C.T
    printed = output(P, W_B, W_C, own_gate(P, W))
    # The key side, with its product: the closed form that is meant.
    decay = gated_linear_attention_decay(P, W)
    on_keys = recurrence(decay[:, None, :], P, k, q)[0][-1, -1]
    assert_close(output(P, W_B, W_C, final_gates(decay)), on_keys)
    assert abs(printed - on_keys) > 1e-2
    # The value side, as the recurrence is printed, W (d0, d0): the same as gated retention with W's last row.
    square = rng.standard_normal((3, 3))
    on_values = recurrence(gated_linear_attention_decay(P, square)[:, :, None], P, k, q)[0][-1, -1]
    assert_close(output(P, W_B, W_C, final_gates(gated_retention_decay(P, square[-1]))), on_values)
    assert abs(on_values - on_keys) > 1e-2
    with pytest.raises(ValueError):  # W (d0, d0) against keys (m,): the printed product has no shape
        own_gate(P, square) * k


@pytest.mark.erratum("mamba-gla-gradient")
def test_eq_35_is_the_gradient_of_neither_recurrence():
    rng = np.random.default_rng(0)
    P, W_B, W_C, W = rng.standard_normal((1, 5, 3)), *rng.standard_normal((3, 2, 3))
    x = summands(P, W_B, W_C, 2)
    k, q = P[0] @ W_B.T, P[0] @ W_C.T

    def on_keys(W):
        return recurrence(gated_linear_attention_decay(P[0], W)[:, None, :], P[0], k, q)[0][-1, -1]

    def on_values(W):
        return recurrence(gated_linear_attention_decay(P[0], W)[:, :, None], P[0], k, q)[0][-1, -1]

    by_keys = gated_linear_attention_gradient(P, W, 1.0, final_gates(gated_linear_attention_decay(P, W)) * x)
    by_own = own_gate_gradient(P, W, 1.0, own_gate(P, W) * x)
    assert gradient_error(on_keys, by_keys, W) < 1e-6 and gradient_error(on_keys, by_own, W) > 1e-2
    assert gradient_error(lambda W: output(P, W_B, W_C, own_gate(P, W)).sum(), by_own, W) < 1e-6
    # On the value side F depends on the last row of W alone; Eq. 35 moves every row.
    square = rng.standard_normal((3, 3))
    rows = np.zeros((3, 3))
    t = final_gates(gated_retention_decay(P, square[-1])) * summands(P, W_B, W_C)
    rows[-1] = gated_retention_gradient(P, square[-1], 1.0, t)
    assert gradient_error(on_values, rows, square) < 1e-6
    assert np.all(np.abs(by_own) > 1e-6)
