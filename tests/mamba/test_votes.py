"""Exact tails of clean and of flipped examples by hand, below the proofs' bounds, and where the printed ones fail."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, multinomial

from refimpl.mamba.guarantees import Constants, theorem_4_conditions
from refimpl.mamba.runs.scaling import WITHIN
from refimpl.mamba.setting import Setting, Testing
from refimpl.mamba.votes import few_clean, flipped_error, many_flipped, no_clean_example, training_vote_error
from refimpl.statistics import exponent


@pytest.mark.states("mamba Theorem 1 (prompt length)", "mamba Theorem 3", "mamba Theorem 4")
def test_small_prompts_by_hand():
    """Two examples, a pattern's clean ones with probability 1/4; four, flipped with 1/4; votes of two and three."""
    assert no_clean_example(0.5, 3) == 1 / 16
    assert few_clean(2, 0.5, 0.5) == pytest.approx((9 / 16, np.exp(-1 / 16)))
    assert many_flipped(4, 0.5) == pytest.approx((67 / 256, 1.0))  # 1 - (3/4)^4 - 4 (1/4) (3/4)^3
    assert flipped_error([1, 2, 3], 0.25) == pytest.approx([1 / 4, 7 / 16, 5 / 32])
    assert training_vote_error(0.5, [1, 2, 3]) == pytest.approx([1 / 4, 7 / 16, 5 / 32])


@pytest.mark.states("mamba Theorem 3", "mamba Theorem 1 (prompt length)")
@pytest.mark.parametrize("l, c, most", [(8, 0.5, 1), (10, 0.5, 1), (12, 0.0, 3), (16, 0.25, 3)])
def test_few_clean_counts_the_equality(l, c, most):
    """p = (1 - p_a) / 2 = 1/4, the sum written out up to (1 - c) l / 4."""
    expected = sum(math.comb(l, k) * 0.25**k * 0.75 ** (l - k) for k in range(most + 1))
    assert few_clean(l, 0.5, c)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.states("mamba Theorem 3", "mamba Theorem 1 (prompt length)")
@given(st.integers(1, 3000), st.floats(0, 0.95), st.floats(0.05, 0.95))
def test_few_clean_examples_are_unlikely(l, p_a, c):
    left, right = few_clean(l, p_a, c)
    assert left <= right
    assert right == pytest.approx(np.exp(-l * c**2 * (1 - p_a) / 4))


@pytest.mark.states("mamba Theorem 4")
@given(st.integers(1, 2000), st.floats(0.01, 0.49))
def test_many_flipped_examples_are_unlikely(l, alpha):
    left, right = many_flipped(l, alpha)
    assert left <= right and right == pytest.approx(np.exp(-l * (0.5 - alpha) ** 2 / (1 + 2 * alpha)))


@pytest.mark.states("mamba Theorem 4")
def test_the_event_of_section_10_4():
    draws = np.random.default_rng(0).random((20_000, 13)) < 0.3 / 2
    left, _ = many_flipped(13, 0.3)
    assert np.mean(draws.sum(1) > 13 / 4) == pytest.approx(left, abs=4 * np.sqrt(left / 20_000))


@pytest.mark.states("mamba Theorem 4", "mamba Remark 6")
@given(st.integers(1, 40), st.floats(0.01, 0.99))
def test_the_vote_counts(l, alpha):
    """Reversing all labels exchanges alpha and 1 - alpha; a tie says nothing and is wrong both times."""
    tie = binom.pmf(l / 2, l, alpha) if l % 2 == 0 else 0
    assert flipped_error(l, alpha) + flipped_error(l, 1 - alpha) == pytest.approx(1 + tie, abs=1e-9)
    assert flipped_error(1, alpha) == pytest.approx(alpha)
    assert flipped_error(2, alpha) == pytest.approx(1 - (1 - alpha) ** 2)
    assert flipped_error(3, alpha) == pytest.approx(alpha**3 + 3 * alpha**2 * (1 - alpha))


@pytest.mark.states("mamba Theorem 1 (prompt length)")
def test_the_length_that_any_model_needs_is_of_the_printed_order():
    q = np.geomspace(0.01, 0.1, 6)  # 1 - p_a
    slope, low, high = exponent(q, [np.log(2 * 0.01) / np.log(1 - x) for x in q])
    assert slope == pytest.approx(-1, abs=WITHIN) and low < high
    assert no_clean_example(0.9, np.log(2 * 0.01) / np.log(0.9)) == pytest.approx(0.01)


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: few_clean(-1, 0.5, 0.5), "l"),
        (lambda: few_clean(2.5, 0.5, 0.5), "l"),
        (lambda: few_clean(10, 0.5, 2.0), "c"),
        (lambda: many_flipped(-4, 0.3), "l"),
        (lambda: flipped_error(0, 0.3), "l"),
        (lambda: flipped_error([3, 4.5], 0.3), "l"),
        (lambda: training_vote_error(0.5, -1), "l"),
        (lambda: no_clean_example(0.5, -1), "l"),
    ],
)
def test_numbers_out_of_range_are_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        call()


# Where the paper as printed is wrong.


@pytest.mark.erratum("mamba-theorem-3-tail")
def test_the_tail_of_section_10_3_needs_its_half():
    left, right = few_clean(2000, 0.6, 0.3)
    assert left <= right and left > 1e3 * np.exp(-2000 * 0.3**2 * (1 - 0.6) / 2)


@pytest.mark.erratum("mamba-theorem-4-exponent")
def test_alpha_stands_below_and_not_above():
    """The printed e^{-l (1/2 - alpha)^2 alpha} does not fall to epsilon at the printed length; the right bound does.

    At l = C alpha (1/2 - alpha)^-2 log 1/epsilon it is epsilon^{C alpha^2}, near 1 for small alpha. And near 1/2 it is
    below the probability that it should bound.
    """
    C, eps, alpha = 6, 0.01, 0.02
    l = C * alpha / (0.5 - alpha) ** 2 * np.log(1 / eps)
    assert np.exp(-l * (0.5 - alpha) ** 2 * alpha) > 0.98
    longer = (1 + 2 * alpha) / (0.5 - alpha) ** 2 * np.log(1 / eps)
    assert many_flipped(np.ceil(longer), alpha)[1] <= eps
    left, right = many_flipped(40_001, 0.02)
    assert left <= right < np.exp(-40_001 * 0.48**2 * 0.02)


@pytest.mark.erratum("mamba-theorem-4-event")
def test_the_error_is_no_count_of_flipped_examples_alone():
    """Whether they outnumber the clean ones of that pattern decides, and that number is random too.

    Printed: error = Pr(share with the query's pattern and a flipped label > 1/4). l = 10, alpha = 0.3, all 66 outcomes.
    """
    l, alpha, wrong = 10, 0.3, 0.0
    for flipped in range(l + 1):
        for clean in range(l + 1 - flipped):
            p = multinomial.pmf([flipped, clean, l - flipped - clean], l, [alpha / 2, (1 - alpha) / 2, 0.5])
            wrong += p * (flipped >= clean)
    printed = many_flipped(l, alpha)[0]
    rng = np.random.default_rng(0)
    kind = rng.choice(3, p=[alpha / 2, (1 - alpha) / 2, 0.5], size=(20_000, l))
    simulated = np.mean(np.sum(kind == 0, axis=1) >= np.sum(kind == 1, axis=1))
    assert simulated == pytest.approx(wrong, abs=4 * np.sqrt(0.25 / 20_000)) and abs(simulated - printed) > 0.02


@pytest.mark.states("mamba Theorem 4 (prompt length)")
@pytest.mark.erratum("mamba-theorem-4-in-epsilon")
@pytest.mark.parametrize("C", [1, 3])
def test_the_test_length_depends_on_epsilon(C):
    """With log M_1, whatever its constant C, (d) holds and half the vote's error is an epsilon out of reach.

    Printed: for any epsilon > 0. With log 1/epsilon for log M_1 the constant 4 is enough for every epsilon.
    """
    alpha, l = 0.4, int(np.ceil(C * 0.4 / 0.1**2 * np.log(6)))
    testing = Testing(mixture=[[1.0, 0.0, 0.0]], alpha=alpha, l=l)
    assert theorem_4_conditions(Setting(), testing, Constants(length=C))["(d) l_ts >="] >= 1
    assert flipped_error(l, alpha) > 1e-4
    for epsilon, alpha in itertools.product((0.1, 1e-3, 1e-9), (0.1, 0.3, 0.4, 0.49)):
        l = int(np.ceil(4 * max(1 / (1 - alpha), alpha / (0.5 - alpha) ** 2) * np.log(1 / epsilon)))
        assert flipped_error(l, alpha) <= epsilon
