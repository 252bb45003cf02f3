"""The gate against its definition, its derivative against values alone, and the sums that Lemma 6 needs."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given

from refimpl.calculus.differences import central_difference
from refimpl.calculus.gating import distance_mass, gate, gate_jacobian, gate_prefix, gate_vjp
from refimpl.calculus.losses import sigmoid
from tests.strategies import logits, weights_and_vector


@pytest.mark.states("mamba Eq. 3", "mamba Lemma 6")
def test_gates_worked_by_hand():
    """sigma = 1/2, 1/4, 1/5 (a = 0, -log 3, -log 4): G = 1/2 3/4 4/5, 1/4 4/5, 1/5 = 0.3, 0.2, 0.2, in sum 1 - 0.3.

    Lemma 6, the third being the query: 2 * 0.3 + 0.2 = 0.8, and 1/c = 4.
    """
    a = np.array([0.0, -np.log(3), -np.log(4)])
    np.testing.assert_allclose(gate(a), [0.3, 0.2, 0.2], rtol=1e-14)
    np.testing.assert_allclose(gate_prefix(a), [0.3, 0.5, 0.7], rtol=1e-14)
    np.testing.assert_allclose(distance_mass(a), (0.8, 4), rtol=1e-14)


@pytest.mark.states("mamba Section 11.3 (gradient of w)")
def test_derivatives_worked_by_hand():
    """The same gates: G_i (1 - sigma_i) on the diagonal, -G_i sigma_s right of it, and its columns summed by v."""
    a, v = np.array([0.0, -np.log(3), -np.log(4)]), np.array([1.0, 2.0, 3.0])
    J = [[0.15, -0.075, -0.06], [0, 0.15, -0.04], [0, 0, 0.16]]
    np.testing.assert_allclose(gate_jacobian(a), J, rtol=1e-14, atol=1e-17)
    np.testing.assert_allclose(gate_vjp(a, v), [0.15, -0.075 + 0.3, -0.06 - 0.08 + 0.48], rtol=1e-13)


def by_the_definition(sigma):
    """G and its prefix sums from the gate values sigma, entry by entry, in whatever arithmetic they bring."""
    gates = []
    for i, own in enumerate(sigma):
        for later in sigma[i + 1 :]:
            own *= 1 - later
        gates.append(own)
    return gates


@pytest.mark.states("mamba Eq. 3")
@given(a=logits(bound=30))
def test_gate_against_the_definition_entry_by_entry(a):
    for row, G_row in zip(a, gate(a)):
        sigma = [1 / (1 + np.exp(-x)) for x in row]
        np.testing.assert_allclose(G_row, by_the_definition(sigma), rtol=1e-10, atol=1e-13)


@pytest.mark.states("mamba Eq. 3", "mamba Lemma 6")
@given(a=logits(bound=4))
def test_gate_and_its_prefix_sums_in_exact_arithmetic(a):
    for row in a:
        sigma = [1 / (1 + Fraction(np.exp(-x))) for x in row]
        exact = by_the_definition(sigma)
        left = Fraction(1)
        for s in sigma:
            left *= 1 - s
        assert sum(exact) + left == 1
        np.testing.assert_allclose(gate(row), [float(g) for g in exact], rtol=1e-13)
        np.testing.assert_allclose(gate_prefix(row), np.cumsum([float(g) for g in exact]), rtol=1e-13)


@pytest.mark.states("mamba Eq. 3", "mamba Lemma 6")
@given(a=logits(bound=1e4))
@example(a=np.array([[1e4, -1e4, 1e4], [-1e4, -1e4, -1e4], [1e4, 1e4, 1e4]]))
@example(a=np.full((1, 1000), 3.0))
@example(a=np.full((1, 1000), -1e4))
def test_extreme_gates_are_finite_and_sum_to_what_does_not_pass(a):
    with np.errstate(all="raise", under="ignore"):
        G, prefix = gate(a), gate_prefix(a)
        gate_vjp(a, np.ones_like(a))
        passes = np.prod(sigmoid(-a), axis=-1)
    assert np.all(G >= 0)
    np.testing.assert_allclose(G.sum(axis=-1) + passes, 1, rtol=1e-12)
    np.testing.assert_allclose(np.cumsum(G, axis=-1), prefix, rtol=1e-10, atol=1e-300)
    examples = G[..., :-1].sum(axis=-1)  # the display after Eq. 30
    np.testing.assert_allclose(examples + sigmoid(a[..., -1]) + passes, 1, rtol=1e-12)


def test_products_that_underflow_are_not_divided_by():
    """Hundreds of open gates, thousands of closed ones: a product of 1 - sigma that underflows or is far from 1."""
    G = gate(np.full(400, 3.0))
    np.testing.assert_allclose(G[[-1, -2]], [0.952574126822433, 0.045176659730912], rtol=1e-12)
    assert np.all(np.isfinite(G)) and abs(G.sum() - 1) <= 1e-12
    G = gate(np.full(2000, -8.0))
    assert abs(G.sum() - 0.488707142246) <= 1e-12
    assert abs(G.sum() + np.prod(sigmoid(np.full(2000, 8.0))) - 1) <= 1e-12


def test_a_large_early_term_leaves_the_later_ones_exact():
    """Nothing is a difference of cumulative sums, in which a pre-activation of 1e17 would swallow the others."""
    G = gate(np.array([1e17, 0.0, 0.0, 0.0]))
    np.testing.assert_allclose(G, [0.125, 0.125, 0.25, 0.5], rtol=1e-15)


@pytest.mark.states("mamba Section 11.3 (gradient of w)")
@given(a=logits(bound=5, rows=2, most=6))
def test_jacobian_against_central_differences(a):
    for row, J_row in zip(a, gate_jacobian(a)):
        np.testing.assert_allclose(J_row, central_difference(gate, row), rtol=1e-6, atol=1e-9)


@pytest.mark.states("mamba Section 11.3 (gradient of w)")
@given(pair=weights_and_vector(scale=60))
def test_product_without_the_jacobian(pair):
    a, v = pair
    expected = np.einsum("bi,bis->bs", v, gate_jacobian(a))
    np.testing.assert_allclose(gate_vjp(a, v), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.states("mamba Lemma 6")
@given(a=logits(bound=8).filter(lambda a: a.shape[-1] > 1))
@example(a=np.array([[-5.0] * 400 + [-30.0]]))
def test_lemma_6_bounds_the_mass_weighted_by_distance(a):
    left, right = distance_mass(a)
    slow = [sum((row.size - 1 - i) * G for i, G in enumerate(gate(row)[:-1])) for row in a]
    np.testing.assert_allclose(left, slow, rtol=1e-12)
    np.testing.assert_allclose(right, [1 / np.min(sigmoid(row[:-1])) for row in a], rtol=1e-12)
    assert np.all(left <= right * (1 + 1e-12))


@pytest.mark.states("mamba Lemma 6")
def test_lemma_6_is_attained_by_a_long_prompt_with_a_closed_query():
    left, right = distance_mass(np.append(np.full(2000, -2.0), -40.0))
    np.testing.assert_allclose(left, right, rtol=1e-12)


@pytest.mark.parametrize("function", [gate, gate_jacobian, gate_prefix, distance_mass])
def test_bad_arguments_are_named(function):
    for bad in ([0.0, np.nan], [], [np.inf]):
        with pytest.raises(ValueError, match="^a: "):
            function(bad)


def test_a_jacobian_too_large_is_refused_before_it_is_made():
    """200 prompts of 2,000 positions: 6 GiB for the Jacobians, nothing of the kind for the product."""
    with pytest.raises(ValueError, match="^gate_jacobian: .*GiB"):
        gate_jacobian(np.zeros((200, 2000)))
    assert gate_vjp(np.zeros((200, 2000)), np.ones(2000)).shape == (200, 2000)


def test_arguments_are_left_unchanged():
    a, v = np.linspace(-2, 2, 6), np.ones(6)
    for x in (a, v):
        x.flags.writeable = False
    for result in (gate(a), gate_jacobian(a), gate_vjp(a, v), gate_prefix(a)):
        assert not np.shares_memory(result, a) and result.flags.writeable
