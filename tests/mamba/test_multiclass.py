"""H heads on a block prompt against one wide layer for each head, the classes, and the printed slips."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from refimpl.calculus.differences import gradient_error
from refimpl.mamba.model import Weights
from refimpl.mamba.model import loss_gradient as head_gradient
from refimpl.mamba.multiclass import block_prompt, blocks, class_of, error, labels_of, loss, loss_gradient, output
from refimpl.mamba.state_space import recurrence
from tests.strategies import seeds


@pytest.mark.states("mamba Section 13 (Eq. 36)")
def test_two_heads_by_hand():
    """Both blocks hold the prompt of test_model, whose F is 9/16; the second head's W_C is a third of the first's."""
    x, y = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]), np.array([[1.0, 1.0], [-1.0, -1.0], [0.0, 0.0]])
    P = block_prompt(x[None], y[None])
    assert P.tolist() == [[[1, 1, 1, 1], [2, -1, 2, -1], [3, 0, 3, 0]]]
    first = Weights(np.array([[2.0, 0.0]]), np.array([[3.0, 0.0]]), np.array([0.0, np.log(3)]))
    heads = [first, first._replace(W_C=np.array([[1.0, 0.0]]))]
    np.testing.assert_allclose(output(P, heads), [[9 / 16, 3 / 16]])
    assert loss(P, [[1, -1]], heads) == pytest.approx(7 / 16 + 19 / 16)
    assert error(output(P, heads), [[1, -1]]) == 1 and error(output(P, heads), [[1, 1]]) == 0


@pytest.mark.states("mamba Section 13 (Eq. 36)")
def test_classes_are_the_digits_of_their_labels():
    assert class_of([[-1, -1, -1], [1, -1, 1], [1, 1, 1]]).tolist() == [0, 5, 7]
    for H in (1, 2, 5):
        assert class_of(labels_of(np.arange(2**H), H)).tolist() == list(range(2**H))
    assert class_of(labels_of(np.array([2**62 - 1, 5]), 62)).tolist() == [2**62 - 1, 5]


@pytest.mark.states("mamba Section 13 (Eq. 36)")
def test_a_class_is_wrong_where_any_head_is():
    F, z = [[2.0, -1.0], [0.5, 3.0], [1.0, 0.0], [1.0, 1.0]], [[1, -1], [-1, 1], [1, 1], [1, 1]]
    assert error(F, z) == 0.5  # the second: its first head; the third: a zero has said nothing
    with pytest.raises(ValueError, match="^F: must be finite"):
        error([[np.nan, 1.0]], [[1, 1]])


@st.composite
def multihead(draw, most=3):
    """(x, y, z, heads): inputs (B, l+1, d H), labels (B, l+1, H) with the query's zero, (B, H), H Weights."""
    rng = np.random.default_rng(draw(seeds))
    B, l, d, m, H = (draw(st.integers(1, most)) for _ in range(5))
    x, y = rng.standard_normal((B, l + 1, d * H)), rng.choice([-1.0, 1.0], (B, l + 1, H))
    y[:, -1] = 0
    heads = [Weights(*rng.standard_normal((2, m, d + 1)), rng.standard_normal(d + 1)) for _ in range(H)]
    return x, y, rng.choice([-1.0, 1.0], (B, H)), heads


@pytest.mark.states("mamba Section 13 (Eq. 36)")
@given(drawn=multihead())
def test_each_head_is_a_wide_recurrence_that_sees_its_own_block(drawn):
    """Eq. 1 on the whole prompt of (d + 1) H coordinates, the weights of head h padded with zeros."""
    x, y, _, heads = drawn
    H, width = len(heads), len(heads[0].w)
    P = block_prompt(x, y)
    assert P.shape == (*y.shape[:2], H * width)
    F = output(P, heads)
    for h, Psi in enumerate(heads):
        here = slice(h * width, (h + 1) * width)
        W_B, W_C = np.zeros((2, len(Psi.W_B), H * width))
        W_B[:, here], W_C[:, here] = Psi.W_B, Psi.W_C
        W = np.zeros((H * width, H * width))
        W[here, (h + 1) * width - 1] = Psi.w
        by_recurrence = [recurrence(p, W_B, W_C, W)[-1, (h + 1) * width - 1] for p in P]
        np.testing.assert_allclose(F[:, h], by_recurrence, rtol=1e-9, atol=1e-10)


@pytest.mark.states("mamba Section 13 (Eq. 36)")
@given(drawn=multihead())
def test_blocks_and_their_prompt(drawn):
    x, y, _, heads = drawn
    H, d = len(heads), x.shape[-1] // len(heads)
    P = block_prompt(x, y)
    for h, P_h in enumerate(blocks(P, H)):
        np.testing.assert_array_equal(P_h[..., :-1], x[..., d * h : d * (h + 1)])
        np.testing.assert_array_equal(P_h[..., -1], y[..., h])


@pytest.mark.states("mamba Section 13 (Eq. 36)")
@given(drawn=multihead(most=2))
def test_gradients_against_differences_and_head_by_head(drawn):
    x, y, z, heads = drawn
    P = block_prompt(x, y)
    assume(np.all(np.abs(1 - z * output(P, heads)) > 1e-2))
    got = loss_gradient(P, z, heads)
    F = output(P, heads)
    slow = np.mean([sum(max(0.0, 1 - a * b) for a, b in zip(row, out)) for row, out in zip(z, F)])
    assert loss(P, z, heads) == pytest.approx(slow)
    for h, Psi in enumerate(heads):
        for name in Psi._fields:

            def moved(value, h=h, name=name):
                changed = [Psi._replace(**{name: value}) if k == h else other for k, other in enumerate(heads)]
                return loss(P, z, changed)

            assert gradient_error(moved, getattr(got[h], name), getattr(heads[h], name)) < 1e-5
        alone = head_gradient(np.concatenate([x.reshape(*y.shape, -1)[:, :, h], y[..., h, None]], -1), z[:, h], Psi)
        for a, b in zip(got[h], alone):
            np.testing.assert_allclose(a, b)


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: labels_of(np.array([4]), 2), "k"),
        (lambda: labels_of(np.array([0.5]), 2), "k"),
        (lambda: class_of([0, 1]), "z"),
        (lambda: class_of(np.ones(63)), "H"),
        (lambda: labels_of(np.array([1]), 63), "H"),
        (lambda: block_prompt(np.ones((2, 3)), np.ones((2, 2))), "x"),
        (lambda: blocks(np.ones((2, 5)), 2), "P"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        call()


# Where the paper as printed is wrong.


@pytest.mark.erratum("mamba-classes-slice")
def test_the_printed_slice_is_not_a_block():
    d, H = 3, 2  # with d_0 = d + 1 = 4, as in Section 2
    x = np.concatenate([np.full(d, 1.0), np.full(d, 2.0)])
    d_0 = d + 1
    first, second = (x[d_0 * (h - 1) : d_0 * h] for h in (1, 2))
    assert first.tolist() == [1, 1, 1, 2] and second.tolist() == [2, 2]  # a coordinate of x_2, then too few
    P = block_prompt(x[None], np.zeros((1, H)))
    assert [block[0, :d].tolist() for block in blocks(P, H)] == [[1, 1, 1], [2, 2, 2]]


@pytest.mark.erratum("mamba-classes-index")
def test_there_is_a_label_vector_to_each_example_not_to_each_head():
    l, d, H = 4, 2, 3
    x, y = np.ones((l + 1, d * H)), np.ones((l + 1, H))
    assert block_prompt(x, y).shape == (l + 1, (d + 1) * H)
    with pytest.raises(ValueError, match="^y: axis i has length 3, but 5 in x"):
        block_prompt(x, np.ones((H, H)))  # y_h in {-1, 1}^H, h in [H]


@pytest.mark.erratum("mamba-classes-letter")
def test_the_condition_is_on_h():
    assert labels_of(np.arange(4), 2).shape == (4, 2)
    for H in (0, -1):  # "S > 0" leaves them allowed: 2^0 = 1 class without a head, 2^-1 classes
        with pytest.raises(ValueError, match="^H: must be an integer >= 1"):
            labels_of(np.array([0]), H)
