"""The recurrence, its gated sum and its chunks are one; gradients under any gates; Section 12's printed indices."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.mamba.decays import gated_linear_attention_decay, mamba2_decay, retnet_decay
from refimpl.mamba.model import loss_gradient
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
from tests.mamba.draws import assert_agrees, gated, models
from tests.strategies import seeds

assert_close = partial(np.testing.assert_allclose, rtol=1e-11, atol=1e-12)


@pytest.mark.states("mamba Section 12 (Mamba-2)")
def test_three_steps_by_hand():
    """h = 1, then 1/2 * 1 + 2 and 1/4 * 5/2 + 4 * 3, read by q = 1, 2, 1."""
    decay, v, k, q = [1.0, 0.5, 0.25], [[1.0], [2.0], [4.0]], [[1.0], [1.0], [3.0]], [[1.0], [2.0], [1.0]]
    for form in (recurrence, gated_sum, partial(chunked, chunk=2)):
        o, h = form(decay, v, k, q)
        assert o.tolist() == [[1], [5], [12.625]] and h.tolist() == [[12.625]]
        assert form(decay, v, k, q, h_0=[[8.0]])[0].tolist() == [[9], [13], [13.625]]
    assert segment_products(decay).tolist() == [[1, 0, 0], [0.5, 1, 0], [0.125, 0.25, 1]]
    assert final_gates(np.array(decay)[:, None])[:, 0].tolist() == [0.125, 0.25, 1]
    assert log_decay_gradient([[1.0], [2.0], [4.0]])[:, 0].tolist() == [0, 1, 3]


@pytest.mark.states("mamba Section 12 (Mamba-2)", "mamba Section 12 (gated linear attention)")
def test_an_output_and_its_gradients_by_hand():
    """W_B p = 2, 4 and W_C p_query = 9: the summands are 18, -36, 0, and under G = 1/8, 1/4, 1 F is 9/4 - 9.

    The gates let through M = 1/8 (1, 1) - 1/4 (2, -1) = (-3, 3) / 8.
    """
    P, W_B, W_C = np.array([[[1.0, 1.0], [2.0, -1.0], [3.0, 0.0]]]), np.array([[2.0, 0.0]]), np.array([[3.0, 0.0]])
    G = np.array([[[1 / 8], [1 / 4], [1.0]]])
    for channels in (1, len(W_B)):
        assert summands(P, W_B, W_C, channels).tolist() == [[[18], [-36], [0]]]
    assert output(P, W_B, W_C, G) == pytest.approx(-27 / 4)
    by_B, by_C = matrix_gradients(P, W_B, W_C, G, [1.0])
    assert_close(by_B, [[-27 / 8, 27 / 8]])  # q M
    assert_close(by_C, [[-9 / 4, 0]])  # W_B M p_query^T


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


@pytest.mark.states("mamba Section 12 (Mamba-2)")
def test_a_large_decay_takes_no_digits_of_what_follows():
    """Case B3."""
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
def test_any_split_into_chunks(T, chunks):
    """Case B5."""
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


@pytest.mark.states("mamba Section 12 (Mamba-2)", "mamba Section 12 (gated linear attention)")
@given(drawn=models(most=3), seed=seeds)
def test_matrix_gradients_under_any_gates(drawn, seed):
    P, dF, W_B, W_C, w, W, a = gated(drawn, seed)
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


def sequence(seed=0, l=5, d0=3, m=2):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((l, d0)), *rng.standard_normal((2, l, m)), rng


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
        (lambda v, k, q: gated_sum(np.ones(500), np.ones((500, 30)), *np.ones((2, 500, 30))), "gated_sum: .*GiB"),
        (lambda v, k, q: log_decay_gradient(np.ones(4)), "t: must have shape"),
        (lambda v, k, q: matrix_gradients(v[None], k, k, np.ones((1, 5, 1)), [1.0]), "W_B: axis d"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}"):
        call(*sequence()[:3])


# Where the paper as printed is wrong.


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
