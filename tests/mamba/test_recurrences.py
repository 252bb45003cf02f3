"""The four recurrences in three forms, their gates' gradients by differences and by slow loops, and what they learn."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.calculus.differences import central_difference, gradient_error
from refimpl.calculus.losses import sigmoid
from refimpl.mamba import recurrences
from refimpl.mamba.runs import architectures
from refimpl.mamba.runs.architectures import LAYERS, errors, forward, gradient, trained
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
from refimpl.mamba.model import Weights, loss_gradient
from refimpl.mamba.runs.patterns import encode
from refimpl.mamba.prompts import training_prompts
from refimpl.mamba.recurrences import (
    chunked,
    final_gates,
    gated_sum,
    log_decay_gradient,
    matrix_gradients,
    output,
    recurrence,
    segment_products,
    summands,
)
from refimpl.mamba.tasks import cycle
from refimpl.mamba.training import Setting, fresh_prompts, start
from tests.mamba.draws import models
from tests.strategies import floats, seeds

assert_close = partial(np.testing.assert_allclose, rtol=1e-11, atol=1e-12)


@st.composite
def sequences(draw):
    """(decay, v, k, q): any length, decays on any side, some of them exactly 0 or 1."""
    rng = np.random.default_rng(draw(seeds))
    l, d0, m = (draw(st.integers(1, most)) for most in (12, 3, 3))
    shape = draw(st.sampled_from([(l,), (l, 1, 1), (l, d0, 1), (l, 1, m), (l, d0, m)]))
    decay = np.where(rng.random(shape) < 0.2, rng.integers(0, 2, shape), rng.random(shape) ** 0.3)
    return decay, rng.standard_normal((l, d0)), *rng.standard_normal((2, l, m))


def spread(decay, state):
    """The decay as (l, d0, m)."""
    decay = decay[:, None, None] if decay.ndim == 1 else decay
    return np.broadcast_to(decay, (len(decay), *state))


@pytest.mark.states("mamba Section 12 (Mamba-2)", "mamba Section 12 (gated linear attention)")
@given(drawn=sequences(), chunk=st.integers(1, 14), carry=st.booleans())
def test_recurrence_gated_sum_and_chunks_agree(drawn, chunk, carry):
    decay, v, k, q = drawn
    h_0 = np.ones((v.shape[1], k.shape[1])) if carry else None
    o, h = recurrence(decay, v, k, q, h_0)
    for other in (gated_sum(decay, v, k, q, h_0), chunked(decay, v, k, q, chunk, h_0)):
        assert_close(other[0], o)
        assert_close(other[1], h)
    # and entry by entry, from the definition of G
    full = spread(decay, (v.shape[1], k.shape[1]))
    t = len(v) - 1
    by_hand = sum(np.prod(full[i + 1 : t + 1], axis=0) * np.outer(v[i], k[i]) for i in range(t + 1))
    assert_close(by_hand + (np.prod(full, axis=0) if carry else 0), h)
    assert_close(o[t], h @ q[t])


@pytest.mark.states("mamba Section 12 (Mamba-2)", "mamba Section 12 (gated linear attention)")
@given(drawn=sequences())
def test_final_gates_are_the_last_row_of_the_segment_products(drawn):
    decay = spread(drawn[0], (1, 1))[:, 0] if drawn[0].ndim == 1 else drawn[0][:, 0]
    assert_close(final_gates(decay), segment_products(decay)[-1])
    assert np.all(final_gates(decay) <= 1)


@pytest.mark.states("mamba Section 12 (RetNet)")
def test_decay_zero_keeps_the_last_and_decay_one_keeps_all():
    rng = np.random.default_rng(0)
    v, k, q = rng.standard_normal((6, 2)), *rng.standard_normal((2, 6, 3))
    last = np.einsum("ta,tm,tm->ta", v, k, q)
    all_of_them = np.array([sum(np.outer(v[i], k[i]) for i in range(t + 1)) @ q[t] for t in range(6)])
    for form in (recurrence, gated_sum, partial(chunked, chunk=4)):
        assert_close(form(np.zeros(6), v, k, q)[0], last)
        assert_close(form(np.ones(6), v, k, q)[0], all_of_them)
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


@pytest.mark.states("mamba Section 12 (Mamba-2)")
def test_a_large_decay_takes_no_digits_of_what_follows():  # case B3
    assert_close(segment_products(np.exp([-1e17, -0.5, -0.5, -0.5]))[3, 0], np.exp(-1.5), rtol=1e-15)
    assert round(np.exp(-1.5), 6) == 0.223130
    c = np.cumsum([-1e17, -0.5, -0.5, -0.5])
    assert np.exp(c[3] - c[0]) == 1.0  # what the difference of running sums gives
    rng = np.random.default_rng(0)
    logs = np.concatenate([[-1e6], -1e-3 * rng.random(20_000)]).astype(np.float32)
    decay = np.exp(logs.astype(float))
    gates = final_gates(decay[:, None])[:, 0]
    assert np.all(gates <= 1) and np.all(np.diff(gates) >= 0)
    assert_close(gates[[0, 5000, -2]], [np.exp(logs[i + 1 :].astype(float).sum()) for i in (0, 5000, 19_999)])
    v, (k, q) = rng.standard_normal((20_001, 1)), rng.standard_normal((2, 20_001, 1))
    o, h = recurrence(decay, v, k, q)
    assert_close(chunked(decay, v, k, q, 256)[0], o, rtol=1e-12, atol=1e-12 * np.abs(o).max())
    assert_close(h[0, 0], np.sum(gates * (v * k)[:, 0]))


@pytest.mark.states("mamba Section 12 (RetNet)")
@pytest.mark.parametrize("T, chunks", [(7, (1, 3, 7, 10)), (8000, (97,))])
def test_any_split_into_chunks(T, chunks):  # case B5
    rng = np.random.default_rng(0)
    v, k, q = rng.standard_normal((3, T, 2))
    decay = retnet_decay(np.ones((T, 3)), 0.9)[:, 0]
    o, h = recurrence(decay, v, k, q)
    for chunk in chunks:
        other, state = chunked(decay, v, k, q, chunk)
        assert_close(other, o, rtol=0, atol=1e-12 * np.abs(o).max())
        assert_close(state, h, rtol=0, atol=1e-12 * np.abs(h).max())
    t = T - 1
    by_power = sum(0.9 ** (t - i) * np.outer(v[i], k[i]) for i in range(max(0, t - 400), T)) @ q[t]
    assert_close(other[t], by_power, rtol=1e-10)


def slow_output(P, W_B, W_C, decay):
    """F of one prompt from the recurrence: v = p, k = W_B p, q = W_C p, the label coordinate of the last output."""
    gates = decay[:, 0] if decay.shape[1] == 1 else decay[:, None, :]
    return recurrence(gates, P, P @ W_B.T, P @ W_C.T)[0][-1, -1]


def assert_agrees(f, gradient, x, summands):
    """The gradient against central differences, whose rounding is that of the summands of f over the step."""
    rounding = 1e-9 * (1 + np.abs(summands).sum())
    np.testing.assert_allclose(gradient, central_difference(f, x), rtol=1e-6, atol=rounding)


def gated(drawn, seed, tau):
    """P, dF, W_B, W_C of a draw, the vector w and the matrix W of gates, a number a."""
    P, dF, Psi = drawn
    rng = np.random.default_rng(seed)
    return P, dF, Psi.W_B, Psi.W_C, Psi.w, rng.standard_normal(Psi.W_B.shape), 0.5 * rng.standard_normal()


@pytest.mark.states("mamba Section 12 (Mamba-2)", "mamba Section 12 (RetNet)")
@pytest.mark.states("mamba Section 12 (gated retention)", "mamba Section 12 (gated linear attention)")
@given(drawn=models(), seed=seeds, tau=st.floats(0.3, 4))
def test_outputs_are_those_of_the_recurrences(drawn, seed, tau):
    P, _, W_B, W_C, w, W, a = gated(drawn, seed, tau)
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


@pytest.mark.states("mamba Section 12 (Mamba-2)", "mamba Section 12 (RetNet)", "mamba Section 12 (gated retention)")
@given(drawn=models(most=4), seed=seeds, tau=st.floats(0.3, 4), gamma=st.floats(0.05, 0.95))
def test_gradients_of_scalar_gates(drawn, seed, tau, gamma):
    P, dF, W_B, W_C, w, _, a = gated(drawn, seed, tau)
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


def forward_derivative(x, decay, slope):
    """Of h_j = gamma_j h_{j-1} + x_j, step by step: decay (B, l), slope (B, l, d) the derivative of each gamma_j."""
    total = np.zeros(slope.shape[2])
    for x_n, decay_n, slope_n in zip(x, decay, slope):
        h, D = 0.0, np.zeros(slope.shape[2])
        for x_j, gamma, by in zip(x_n, decay_n, slope_n):
            h, D = gamma * h + x_j, by * h + gamma * D
        total += D
    return total


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
    P, dF, W_B, W_C, _, W, _ = gated(drawn, seed, tau)
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


@pytest.mark.states("mamba Section 12 (Mamba-2)", "mamba Section 12 (gated linear attention)")
@given(drawn=models(most=3), seed=seeds)
def test_matrix_gradients_under_any_gates(drawn, seed):
    P, dF, W_B, W_C, w, W, a = gated(drawn, seed, 1.0)
    for G in (final_gates(mamba2_decay(P, w, a)), final_gates(gated_linear_attention_decay(P, W))):
        by_B, by_C = matrix_gradients(P, W_B, W_C, G, dF)
        x = dF[:, None, None] * summands(P, W_B, W_C, len(W_B))
        assert_agrees(lambda B: dF @ output(P, B, W_C, G), by_B, W_B, x)
        assert_agrees(lambda C: dF @ output(P, W_B, C, G), by_C, W_C, x)


@pytest.mark.states("mamba Section 12 (RetNet)")
@given(drawn=models(gated=False))
def test_retnet_without_decay_is_the_linear_transformer(drawn):
    P, z, Psi = drawn
    dF = z * (z * output(P, *Psi[:2], final_gates(retnet_decay(P, 1.0))) < 1) / -len(z)
    for got, expected in zip(matrix_gradients(P, *Psi[:2], np.ones((*P.shape[:2], 1)), dF), loss_gradient(P, z, Psi)):
        assert_close(got, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.states("mamba Section 12 (Mamba-2)", "mamba Section 12 (gated linear attention)")
@pytest.mark.parametrize("name", LAYERS)
def test_the_loss_gradient_of_each_layer(name):
    setting, rng = Setting(d=7, M1=3, M2=2, V=2, l=5), np.random.default_rng(0)
    p = training_prompts(rng, 6, 5, cycle(3), 2, 2, 0.5)
    P = encode(p, 3, 2, 3.0, 2.0 * np.eye(2))
    layer, Psi = LAYERS[name], start(setting, rng, gated=False)
    theta = layer.initial and layer.initial(rng, 7, 8, 0.3)
    Psi = Weights(*(W + 0.1 * rng.standard_normal(W.shape) for W in Psi[:2]), theta)

    def mean_loss(Psi):
        return np.mean(np.maximum(0, 1 - p.z * forward(layer, P, Psi)[0]))

    got, F = gradient(layer, P, p.z, Psi)
    assert np.min(np.abs(1 - p.z * F)) > 1e-3  # away from the kink
    for field in [field for field in Psi._fields if getattr(Psi, field) is not None]:
        by, x = getattr(got, field), getattr(Psi, field)
        assert gradient_error(lambda x: mean_loss(Psi._replace(**{field: x})), by, x) < 1e-5


@pytest.mark.states("mamba Section 12 (Mamba-2)", "mamba Section 12 (gated retention)")
@given(drawn=models(), seed=seeds, change=floats(3))
def test_no_example_has_a_gate_before_itself(drawn, seed, change):
    # What an example is does not change the weight it gets: only what comes after it does. Mamba's own gate differs.
    P, _, _, _, w, W, a = gated(drawn, seed, 1.0)
    other = P.copy()
    other[:, 0] += change + 1
    for decay in (
        lambda P: mamba2_decay(P, w, a),
        lambda P: gated_retention_decay(P, w),
        lambda P: gated_linear_attention_decay(P, W),
    ):
        np.testing.assert_array_equal(final_gates(decay(P))[:, 0], final_gates(decay(other))[:, 0])
    assert not np.array_equal(own_gate(P, W)[:, 0], own_gate(other, W)[:, 0])


def test_trained_on_outliers_only_a_gate_before_the_example_survives_a_flipped_majority():
    # Exact counts of flipped outliers, 12 and 8 of 20. Below 1/2 each layer is right; above only those with own gates.
    for name in ("Mamba-2", "RetNet", "gated retention", "Mamba-2, input step"):
        found, share = errors(name, 0, ("flipped",), (0.2, 0.6), 500, 300)
        assert found[0, 0] < 0.01
        assert found[0, 1] < 0.01 if name == "Mamba-2, input step" else found[0, 1] > 0.5
        assert (share[1] < share[0] / 4) == (name == "Mamba-2, input step")


@pytest.mark.states("mamba Section 12 (RetNet)")
@pytest.mark.parametrize("name", ["Mamba", "linear Transformer"])
def test_the_layers_compared_with_are_those_of_eq_3(name):
    rng, layer = np.random.default_rng(0), LAYERS[name]
    P, z = rng.standard_normal((4, 6, 5)), np.array([1.0, -1, 1, -1])
    Psi = Weights(*rng.standard_normal((2, 4, 5)), rng.standard_normal(5) if layer.initial else None)
    expected = loss_gradient(P, z, Psi)
    for got, right in zip(gradient(layer, P, z, Psi)[0], expected):
        assert got is right is None or np.allclose(got, right, rtol=1e-10, atol=1e-12)


@pytest.mark.states("mamba Section 12 (gated linear attention)")
def test_gates_on_the_keys_select_only_through_the_square_of_the_label():
    # y_i (W_B p_i)_c has a term in y_i^2 = 1: a sum of gates, each a product over later tokens, that needs no label.
    setting = Setting(d=9, M1=4, M2=2, V=2)
    for blind in (False, True):
        found, _ = errors("gated linear attention", 0, ("flipped",), (0.2, 0.6), 500, 600, blind=blind, setting=setting)
        assert found[0, 0] < 0.01
        assert found[0, 1] > 0.75 if blind else found[0, 1] < 0.25


# Where Section 12 as printed is wrong.


def sequence(seed=0, l=5, d0=3, m=2):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((l, d0)), *rng.standard_normal((2, l, m)), rng


@pytest.mark.erratum("mamba-2-output-index", "mamba-2-last-key")
def test_the_printed_summands_mix_their_indices():
    v, k, q, rng = sequence()
    decay = mamba2_decay(v, rng.standard_normal(3), 0.3)[:, 0]
    o, G, t = recurrence(decay, v, k, q)[0], segment_products(decay), 4
    right = sum(G[t, i] * v[i] * (k[i] @ q[t]) for i in range(t + 1))
    printed = sum(G[t, i] * v[t] * (k[i] @ q[i]) for i in range(t + 1))  # v_t k_i^T q_i
    assert_close(right, o[t])
    assert np.max(np.abs(printed - o[t])) > 0.1
    # The second line of h_t: v_t k_t^T for the printed v_t k_i^T, here with i = t - 1, the only other index in sight.
    h = [recurrence(decay[: s + 1], v[: s + 1], k[: s + 1], q[: s + 1])[1] for s in range(5)]
    twice = decay[t] * (decay[t - 1] * h[t - 2] + np.outer(v[t - 1], k[t - 1]))
    assert_close(twice + np.outer(v[t], k[t]), h[t])
    assert np.max(np.abs(twice + np.outer(v[t], k[t - 1]) - h[t])) > 0.1


@pytest.mark.erratum("mamba-retention-index")
def test_the_printed_retention_takes_the_decay_of_another_step():
    v, k, q, rng = sequence()
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


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda v, k, q: recurrence(np.full(5, 1.1), v, k, q), "decay: must be numbers in"),
        (lambda v, k, q: recurrence(np.ones(4), v, k, q), "decay, h_0: must fit"),
        (lambda v, k, q: gated_sum(np.ones((5, 2, 2)), v, k, q), "decay, h_0: must fit"),
        (lambda v, k, q: recurrence(np.ones(5), v, k, q[:4]), "q: axis l"),
        (lambda v, k, q: chunked(np.ones(5), v, k, q, 0), "chunk: "),
        (lambda v, k, q: recurrence(np.ones(5), v, k, q, np.ones((2, 2))), "decay, h_0: must fit"),
        (lambda v, k, q: segment_products(np.ones(30_000)), "segment_products: "),
        (lambda v, k, q: retnet_decay(v, 1.5), "gamma: "),
        (lambda v, k, q: log_decay_gradient(np.ones(4)), "t: must have shape"),
        (lambda v, k, q: matrix_gradients(v[None], k, k, np.ones((1, 5, 1)), [1.0]), "W_B: axis d"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}"):
        call(*sequence()[:3])


@pytest.mark.states("mamba Section 12 (Mamba-2)")
@pytest.mark.parametrize("eta", [None, 0.03])
def test_a_layers_first_step_has_its_eta(eta):
    start, after = (trained("Mamba-2", Setting(), np.random.default_rng(0), steps, eta, B=8) for steps in (0, 1))
    batches = np.random.default_rng(np.random.default_rng(0).bit_generator.seed_seq.spawn(2)[1])
    p = next(fresh_prompts(Setting(), 8, batches))
    step, _ = gradient(LAYERS["Mamba-2"], encode(p, 6, 10, 3.0, 6.0 * np.eye(3)), p.z, start)
    for x, y, g in zip(start, after, step):
        np.testing.assert_allclose(y, x - (eta or 0.3) * g, rtol=1e-12)


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(ValueError, match="^prompts: "):
        errors("RetNet", 0, ("flipped",), (0.2,), 0, 0)
    with pytest.raises(ValueError, match="^prompts, alphas: "):
        errors("RetNet", 0, ("flipped",), (0.0,), 1, 1)
    with pytest.raises(ValueError, match="^gated_sum: .*GiB"):
        gated_sum(np.ones(500), np.ones((500, 30)), *np.ones((2, 500, 30)))


def test_a_layer_starts_as_section_2_says():
    Psi = trained("gated linear attention", Setting(d=9, M1=3, M2=2, V=2, l=4), np.random.default_rng(0), 0)
    assert Psi.W_B.shape == (7, 8) and Psi.w.shape == (7, 8) and 0.2 < Psi.w.std() < 0.45  # 1/sqrt(d + 1) = .316
    assert trained("Mamba-2", Setting(), np.random.default_rng(0), 0).w[-1] == 0
    wide, narrow = (trained("Mamba", Setting(d=d), np.random.default_rng(0), 0).w for d in (199, 19))
    np.testing.assert_allclose(wide, narrow / np.sqrt(10))  # N(0, 1 / (d + 1)), the same draw
    assert architectures.GAMMA == 0.9 and recurrences.__doc__
