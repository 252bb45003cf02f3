"""Sections 11.3 and 11.4 on the gates themselves: each inequality by hand, on any prompt, and where it is reached."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from refimpl.calculus.gating import gate
from refimpl.calculus.losses import sigmoid
from refimpl.mamba.gate_bounds import clean_product, earlier_mass, initial_gate, mean_tail, nearest_clean_gate
from refimpl.mamba.tasks import disjoint_pairs
from refimpl.statistics import exponent
from tests.mamba.population import World
from tests.strategies import floats, seeds


@pytest.mark.states("mamba Eq. 20", "mamba Eqs. 23-24", "mamba Eqs. 25-26")
def test_bounds_and_shares_by_hand():
    """Two factors within 1/2 (1 -+ 1/4); gates 1/8 and 1/4, before h = 1, 2, 3: 1/8 (2 + 3) + 1/4 * 3 = 11/8."""
    assert initial_gate(0.5, 2) == pytest.approx((1 / 4 * (1 - 1 / 2), np.exp(1 / 2) / 4))
    assert earlier_mass([1 / 8, 1 / 4], [1, 1], [1.0, 2.0, 3.0]) == pytest.approx(11 / 8)
    assert earlier_mass([1 / 8, 1 / 4], [0, 1], [1.0, 2.0, 3.0]) == pytest.approx(3 / 4)
    assert mean_tail(2, 0.5, 1.0, 0.5) == pytest.approx(2 * np.exp(-1 / 4))  # 2 * 2 * (1/4)^2


@pytest.mark.states("mamba Eqs. 23-24", "mamba Eqs. 25-26")
def test_the_tail_of_a_mean_by_hand():
    assert mean_tail(100, 0.5, 2.0, 0.4) == pytest.approx(2 * np.exp(-2))  # 2 e^{-2 * 100 * (0.4 * 0.5 / 2)^2}


@pytest.mark.states("mamba Eqs. 18-19", "mamba Eqs. 28-31")
def test_bounds_on_gates_are_reached():
    a = np.array([0.3, -0.7, -9.0, -9.0, -0.2])
    left, right = nearest_clean_gate(a, np.array([-1, -1, 0, 1, -1]))  # two outliers, nearly shut
    assert left == pytest.approx(sigmoid(-0.7) * sigmoid(0.2) * sigmoid(9.0) ** 2)
    assert right == pytest.approx(sigmoid(-0.7) * sigmoid(0.2) * (1 - 2 * sigmoid(-9.0))) and left > right
    left, right = clean_product(np.array([-0.5, -0.5, -40.0, -40.0]), np.array([-1, -1, 0, -1]))
    assert left == pytest.approx(right) == pytest.approx((1 / (1 + np.exp(-0.5))) ** 2)
    with pytest.raises(ValueError, match="clean"):
        nearest_clean_gate(np.zeros(3), np.array([0, 0, -1]))


@st.composite
def gated_prompts(draw):
    """Pre-activations (B, l+1) of any sign, and outliers (B, l+1) with at least one clean example a row."""
    shape = draw(st.tuples(st.integers(1, 4), st.integers(2, 8)))
    a = draw(arrays(float, shape, elements=floats(12.0)))
    s = draw(arrays(int, shape, elements=st.integers(-1, 2)))
    s[:, draw(st.integers(0, shape[1] - 2))] = s[:, -1] = -1
    return a, s


@pytest.mark.states("mamba Eq. 20")
@given(arrays(float, st.tuples(st.integers(1, 4), st.integers(2, 12)), elements=floats(3.0)))
def test_gates_at_initialisation(a):
    xi, n = np.max(np.abs(a)), np.arange(a.shape[1], 1, -1)  # l + 2 - i factors for i = 1 ... l
    lower, upper = initial_gate(xi, n)
    G = gate(a)[:, :-1]
    assert np.all(lower <= G * (1 + 1e-12)) and np.all(G <= upper * (1 + 1e-12))
    narrow = n * xi <= 2.5  # there the printed range 1 -+ n xi contains it
    assert np.all((0.5**n * (1 - n * xi) <= lower) & (upper <= 0.5**n * (1 + n * xi)) | ~narrow)


@pytest.mark.states("mamba Eq. 20")
def test_the_initial_range_is_tight_to_first_order():
    a = 1e-4 * np.array([[1.0, -1.0, -1.0, -1.0], [-1.0, 1.0, 1.0, 1.0]])
    lower, upper = initial_gate(1e-4, 4)
    assert gate(a)[:, 0] == pytest.approx([upper, lower], rel=1e-7)


@pytest.mark.states("mamba Eqs. 18-19", "mamba Eqs. 28-31")
@given(gated_prompts())
def test_bounds_on_gates_of_any_prompt(prompt):
    a, s = prompt
    left, right = nearest_clean_gate(a, s)
    assert np.all(left >= right * (1 - 1e-12) - 1e-15)
    left, right = clean_product(a, s)
    assert np.all(left <= right * (1 + 1e-9))
    assert np.allclose(np.sum(gate(a)[..., :-1], axis=-1), 1 - sigmoid(a[..., -1]) - left, atol=1e-12)


@pytest.mark.states("mamba Eqs. 23-24", "mamba Eqs. 25-26")
@given(seeds, st.integers(1, 6))
def test_a_prompts_share_in_the_first_step(seed, l):
    rng = np.random.default_rng(seed)
    G, clean, h = rng.random((3, l)), rng.integers(2, size=(3, l)), rng.standard_normal((3, l + 1))
    slow = [sum(G[n, i] * h[n, s] for i in range(l) if clean[n, i] for s in range(i + 1, l + 1)) for n in range(3)]
    assert np.allclose(earlier_mass(G, clean, h), slow)


def test_outliers_may_be_the_same_for_every_prompt():
    a, s = np.random.default_rng(0).uniform(-3, 0, (4, 6)), np.array([-1, 0, -1, 1, 0, -1])
    for function in (nearest_clean_gate, clean_product):
        S, A = np.tile(s, (4, 1)), np.tile(a[0], (4, 1))
        for few, full in (((a, s), (a, S)), ((a[0], S), (A, S))):
            for got, expected in zip(function(*few), function(*full)):
                np.testing.assert_allclose(got, expected, rtol=1e-14)


# Where the paper as printed is wrong.


@pytest.mark.erratum("mamba-initial-gate")
def test_the_first_pre_activations_are_of_order_one_over_the_root_of_d():
    """|w^T x| is of order (d + 1)^(-1/2) at the start, not of the printed xi = 1/(d+1).

    Its mean over 4,000 draws, fitted over two decades of d: -1/2 (+-0.03).
    """
    rng, d = np.random.default_rng(0), np.array([10, 100, 1000])
    size = [np.mean(np.abs(rng.standard_normal(4000) * np.sqrt((9 + 1) / (k + 1)))) for k in d]  # |p|^2 = beta^2 + y^2
    draws = rng.standard_normal((1000, 1001)) / np.sqrt(1001)
    p = np.zeros(1001)
    p[0], p[-1] = 3, 1
    assert np.mean(np.abs(draws @ p)) == pytest.approx(size[2], rel=0.1)
    assert exponent(d + 1, size)[0] == pytest.approx(-0.5, abs=0.03)
    assert np.mean(np.abs(draws @ p) > 10 / 1001) > 0.9


@pytest.mark.erratum("mamba-query-gate")
def test_the_nearest_clean_gate_keeps_the_querys_factor():
    """Eq. 19's first line, sigma times the outliers' product, is no lower bound: the query lets 1 - sigma pass."""
    a, s = np.array([0.0, -30.0, 3.0]), np.array([-1, 0, -1])
    G = gate(a)[0]
    assert G < 0.1 * (sigmoid(0.0) * (1 - sigmoid(-30.0)))
    assert G >= nearest_clean_gate(a, s)[1] > 0.9 * G


@pytest.mark.erratum("mamba-31-sign")
def test_the_least_clean_gate_has_a_plus_in_its_exponent():
    """With clean pre-activations of -c the product is of 1 - sigma(-c).

    The printed 1 - 1/(1 + e^{-c}) would bound it, and does not.
    """
    c, n = 0.5, 8
    a, s = np.array([-c] * n + [-40.0]), np.array([-1] * (n + 1))
    left, right = clean_product(a, s)
    assert left <= right * (1 + 1e-12)
    assert left > 40 * (1 - 1 / (1 + np.exp(-c))) ** n


def shares(rng, n, l, p_a=0.6, V=3):
    """X of Eqs. 23 and 26 for n prompts at w = 0, and the largest that each can be."""
    outlier, which = rng.random((n, l)) < p_a, rng.integers(V, size=(n, l))
    G = np.broadcast_to(0.5 ** np.arange(l + 1, 1, -1.0), (n, l))
    hit = np.concatenate([(outlier & (which == 0)), np.zeros((n, 1), bool)], axis=1)
    at_v, all_tokens = earlier_mass(G, ~outlier, hit / 2), earlier_mass(G, ~outlier, np.full((n, l + 1), 0.5))
    return (at_v, 1 / 4), (all_tokens, 1 / 2)  # 1/2 sum (l - i) G_i <= 1/4, 1/2 sum (l - i + 1) G_i <= 1/2


@pytest.mark.states("mamba Eqs. 23-24", "mamba Eqs. 25-26")
@pytest.mark.erratum("mamba-tokens-as-samples")
@pytest.mark.parametrize("which", [0, 1])
def test_the_batch_averages_and_the_tokens_do_not(which):
    """Hoeffding holds with B prompts, not with l B tokens; 1,000 (B = 8) and 200 batches, seed 0.

    The printed e^{-l B (1 - p_a)^2 c^2} is 1e-14 at l = 400, B = 2, c = 1/2, where more than 1 batch in 20 of 1,000
    deviates.
    """
    rng, c = np.random.default_rng(0), 0.5
    X, largest = shares(rng, 100_000, 40)[which]
    mean = X.mean()
    assert X.max() <= largest * (1 + 1e-12)
    if which == 0:  # the mean that gate_step is made of: p_a (1 - p_a) / (4 V) up to 2^-l, within 4 standard errors
        assert mean == pytest.approx(0.6 * 0.4 / (4 * 3), abs=4 * X.std() / np.sqrt(len(X)))
    for B in (8, 200):
        away = (
            np.abs(shares(rng, 1000 * B if B == 8 else 200 * B, 40)[which][0].reshape(-1, B).mean(1) - mean) >= c * mean
        )
        assert away.mean() <= mean_tail(B, mean, largest, c)
    long = np.abs(shares(rng, 2000, 400)[which][0].reshape(-1, 2).mean(1) - mean) >= c * mean
    assert long.mean() > 0.05 and np.exp(-400 * 2 * 0.4**2 * c**2) < 1e-13


@pytest.mark.erratum("mamba-batch-for-w")
def test_the_batch_that_the_first_step_of_w_needs():
    """A batch needs as many prompts as the variance over the squared mean of one prompt's share along v.

    It does not depend on beta and kappa_a, and is proportional to V. Printed (Eqs. 11, 24) beta^-4 kappa_a^-2 V^2: the
    noise is printed as sqrt(log B / B) without the step's own scale delta^2 beta^2 kappa_a |v|^2.
    """

    def ratio(p_a=0.1, **options):
        w = World(disjoint_pairs(2), p_a=p_a, **options)
        p, half = w.prompts, np.array([1 / 8, 1 / 4, 1 / 2])
        tau = p.z[:, None] * p.y * half * np.einsum("nid,nd->ni", w.P[..., :-1], w.P[:, -1, :-1])
        X = np.sum((2 * tau - np.cumsum(tau, axis=1)) / 2 * w.P[..., -2], axis=1)
        mean = w.probability @ X
        return w.probability @ (X - mean) ** 2 / mean**2

    assert ratio(beta=4.0) == pytest.approx(ratio(beta=1.0)) == pytest.approx(ratio(kappa_a=4.0))
    assert ratio(V=3) == pytest.approx(3 * ratio(V=1), rel=0.05)  # printed: 9 times
