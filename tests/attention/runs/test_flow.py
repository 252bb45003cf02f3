"""The flow against small-step descent, the late direction against the flow, both by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.attention import data, margin, model, uncertainty
from refimpl.attention.head import linear_head
from refimpl.attention.runs import flow, gram
from refimpl.attention.setting import Setting
from refimpl.calculus.softmax import log_softmax, softmax, softmax_jvp
from tests.strategies import seeds, weights_and_vector


def problem(seed=0, n=4, T=4, d=60, norm=3.0):
    rng = np.random.default_rng(seed)
    sample = data.draw(rng, Setting(n=n, T=T, d=d, norm=norm, weak_scale=0.3, noise_rate=0.4))
    return sample, *gram.gram(sample.X, linear_head(data.signals(norm, d)))


@pytest.mark.states("attention Section 3.4 (gradient descent)")
def test_one_sample_with_two_tokens_by_hand():
    r"""Orthogonal tokens of squared norm V, scores +-1e-6 so that $|\ell'| = 1/2$: with x the logits' gap and D = 2e-6,
    $dx/dt = V D / (1 + e^x)(1 + e^{-x})$, so $x + \sinh x = V D t / 2$."""
    V, D, u = 9.0, 2e-6, np.array([12.0, 14.0, 17.0])
    path = flow.flow(V * np.eye(2), [[D / 2, -D / 2]], [1.0], u, rtol=1e-10)
    x = path.z[:, 0, 0] - path.z[:, 0, 1]
    np.testing.assert_allclose(x + np.sinh(x), D / 2 * np.exp(u), rtol=1e-5)
    np.testing.assert_allclose(V * (path.rho[:, 0, 0] - path.rho[:, 0, 1]), x, rtol=1e-9)


@pytest.mark.states("attention Section 3.4 (gradient descent)")
def test_descent_tends_to_the_flow_to_first_order_in_the_step():
    """The coefficients' and the sums' distance at a fixed time: exponents over a decade of steps within 0.05 of 1."""
    sample, M, gamma = problem()
    V, n = np.max(np.diag(M)), len(sample.Y)
    t = 8.0 * n / V
    path = flow.flow(M, gamma, sample.Y, [np.log(t * V / n)], sample.roles, rtol=1e-10)
    steps, errors = np.array([50, 100, 200, 500]), []
    for k in steps:
        totals = [uncertainty.start(np.zeros(gamma.shape))]

        def record(tau, rho, s):
            if tau < k:
                totals[0] = uncertainty.add(totals[0], s, sample.roles == data.RELEVANT)

        rho = gram.descend(M, gamma, sample.Y, t / k, int(k), record=record)
        scale = t / k * V / n
        pairs = (
            (V * rho, V * path.rho[0]),
            (scale * totals[0].uncertainty, path.totals.uncertainty[0]),
            (scale * totals[0].variance, path.totals.variance[0]),
        )
        errors.append([np.max(np.abs(a - b)) for a, b in pairs])
    exponents = -np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert np.all(np.abs(exponents - 1) < 0.05)
    np.testing.assert_allclose(path.z[0].ravel(), M @ path.rho[0].ravel(), rtol=1e-9, atol=1e-12)


def test_both_integrators_give_the_same_path(monkeypatch):
    """Above STIFF tokens the explicit method: within 1e-5 of the implicit one up to log t = 60."""
    sample, M, gamma = problem()
    implicit = flow.flow(M, gamma, sample.Y, [0.0, 5.0, 60.0], sample.roles)
    monkeypatch.setattr(flow, "STIFF", 0)
    explicit = flow.flow(M, gamma, sample.Y, [0.0, 5.0, 60.0], sample.roles)
    assert explicit.evaluations != implicit.evaluations
    for a, b in ((implicit.z, explicit.z), *zip(implicit.totals, explicit.totals)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.states("attention Eq. 18")
@given(pair=weights_and_vector(scale=30))
def test_pair_products_give_the_jacobian_s_product(pair):
    z, gamma = pair
    pairs, s = flow._pair_products(log_softmax(z)), softmax(z)
    np.testing.assert_allclose(flow._score_gaps(pairs, gamma), softmax_jvp(s, gamma), rtol=1e-9, atol=1e-13)
    by_hand = [[sum(w[t] * w[u] for u in range(len(w)) if u != t) for t in range(len(w))] for w in s]
    np.testing.assert_allclose(pairs.sum(axis=-1), by_hand, rtol=1e-11, atol=1e-300)


@pytest.mark.states("attention Eq. 18")
def test_weights_far_below_the_smallest_float():
    log_s = log_softmax([0.0, -2000.0, -2000.0])
    np.testing.assert_allclose(log_s, [0, -2000, -2000], rtol=1e-15)
    with np.errstate(all="raise", under="ignore"):
        pairs = flow._pair_products(log_s, 2000.0)
    np.testing.assert_array_equal(pairs[0], [0, 1, 1])


@pytest.mark.states("attention Lemma A.5")
def test_the_late_rates_by_hand():
    """Tokens of squared norm 2, product 1, the first picked: its logit gains (2 - 1)(r_1 - r_2) = 1, r_1 + r_2 = 0."""
    np.testing.assert_allclose(flow.late_direction([[2.0, 1.0], [1.0, 2.0]], [0]), [[0.5, -0.5]], rtol=1e-14)


@pytest.mark.states("attention Lemma A.5")
def test_the_late_rates_are_those_of_the_flow():
    """Between log t = 2,000 and 4,000, when no tie is left; every other token loses, so all constraints bind."""
    sample, M, gamma = problem(d=2000)
    path = flow.flow(M, gamma, sample.Y, [2000.0, 4000.0])
    rates = (path.rho[1] - path.rho[0]) / 2000
    predicted = flow.late_direction(M, np.argmax(path.z[1], axis=-1))
    assert np.sum(predicted > 0) == len(predicted)
    np.testing.assert_allclose(rates, predicted, rtol=2e-5, atol=2e-5 * np.max(np.abs(predicted)))


@pytest.mark.states("attention Lemma A.5", "attention Theorem 4.2 (harmful)")
@given(seed=seeds, T=st.integers(3, 7), n=st.integers(1, 5), V=st.floats(0.1, 100.0))
def test_the_late_rates_for_orthogonal_tokens(seed, T, n, V):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(T, size=n)
    rates = flow.late_direction(V * np.eye(n * T), tokens)
    np.testing.assert_allclose(V * rates, np.eye(T)[tokens] - 1 / T, rtol=1e-10, atol=1e-12)
    relevant = T - 2  # the signals' rate from the formula in the docstring
    roles = np.full((n, T), data.RELEVANT)
    roles[:, relevant:] = (1, -1)
    Y, Y_star = rng.choice([-1, 1], (2, n))
    picked = np.where(Y == Y_star, 0, np.where(Y == 1, relevant, relevant + 1))
    carried = data.signal_of(Y_star, roles, 0.2)
    lam = np.einsum("it,itc->c", flow.late_direction(V * np.eye(n * T), picked), carried)
    zeta = relevant / T
    for j, c in enumerate((1, -1)):
        clean, noisy = np.sum((Y == c) & (Y_star == c)), np.sum((Y == -c) & (Y_star == c))
        weak = np.sum((Y == c) & (Y_star == -c)) - n / T
        assert abs(V * lam[j] - ((1 - zeta) * clean - zeta * noisy + 0.2 * weak)) < 1e-10


def test_dependent_tokens_have_no_late_direction():
    X = np.random.default_rng(0).standard_normal((12, 5))  # 12 tokens in 5 dimensions
    for M in (np.ones((12, 12)), X @ X.T):
        with pytest.raises(ValueError, match="^M: "):
            flow.late_direction(M, [0, 1, 2, 0])


@pytest.mark.parametrize("N, tokens", [(7, [0, 1]), (4, [0, 2]), (4, [0, -1]), (4, [0.5, 0])])
def test_tokens_that_are_none_are_named(N, tokens):
    with pytest.raises(ValueError, match="^tokens: "):
        flow.late_direction(np.eye(N), tokens)


def test_the_sums_of_a_lasting_tie_are_refused():
    """Two equal relevant tokens share the attention for ever: the sums grow like e^u, p does not need them."""
    X = np.array([[[1.0, 0], [1, 0], [0, 1]]])
    M, gamma = gram.gram(X, np.array([1.0, -1.0]))
    roles = [[data.RELEVANT, data.RELEVANT, -1]]
    early = flow.flow(M, gamma, [1.0], [20.0], roles)
    assert early.totals.variance[0, 0, 0] == pytest.approx(np.exp(20) / 4, rel=1e-2)
    with pytest.raises(FloatingPointError, match="tied beyond log time 700"):
        flow.flow(M, gamma, [1.0], [20.0, 800.0], roles)
    np.testing.assert_allclose(np.exp(flow.flow(M, gamma, [1.0], [800.0]).log_s), [[[0.5, 0.5, 0]]], atol=1e-12)
    sample, M, gamma = problem()  # without a tie the sums grow like u
    totals = flow.flow(M, gamma, sample.Y, [700.0, 1400.0], sample.roles).totals
    assert np.all(np.max(totals.variance[1], axis=1) < 2.5 * np.max(totals.variance[0], axis=1))


@pytest.mark.states("attention Section 3.4 (gradient descent)")
def test_the_flow_from_another_start_goes_on_where_it_was():
    sample, M, gamma = problem()
    V = np.max(np.diag(M))
    whole = flow.flow(M, gamma, sample.Y, [np.log(2.0), np.log(5.0)], rtol=1e-10)
    rest = flow.flow(M, gamma, sample.Y, [np.log(3.0)], rtol=1e-10, z=whole.z[0])
    np.testing.assert_allclose(rest.z[0], whole.z[1], rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(whole.rho[0] + rest.rho[0], whole.rho[1], atol=1e-8 / V)


@pytest.mark.parametrize(
    "change, named",
    [
        ({"log_times": [1.0, 0.5]}, "M, log_times"),
        ({"M": np.eye(3)}, "M, log_times"),
        ({"Y": [0.0]}, "Y"),
        ({"log_times": [np.nan]}, "log_times"),
        ({"M": np.zeros((2, 2))}, "M"),
        ({"rtol": 0.0}, "rtol"),
        ({"z": [0.0, 0.0]}, "z"),
    ],
)
def test_bad_arguments_are_named(change, named):
    arguments = dict(M=np.eye(2), gamma=np.zeros((1, 2)), Y=[1.0], log_times=[0.0, 1.0]) | change
    with pytest.raises(ValueError, match=f"^{named}: "):
        flow.flow(**arguments)


@pytest.mark.states("attention Section 4.3 (max-margin obstacles)")
def test_the_flow_is_small_step_descent():
    """The gap to descent at time 4 is first order in the step: it halves with it."""
    rng = np.random.default_rng(0)
    X, Y, nu = rng.standard_normal((3, 3, 5)), np.array([1.0, -1, 1]), rng.standard_normal(5)
    start, gaps = rng.standard_normal(5), []
    end = flow.flow_in_q(X, Y, X @ nu, [np.log(4)], start)[0]
    for steps in (100, 200, 400):
        q = start.copy()
        for _ in range(steps):
            q -= 4 / steps * model.query_gradient(X, Y, q, X @ nu)
        gaps.append(np.linalg.norm(q - end))
    assert gaps[0] / gaps[1] == pytest.approx(2, rel=0.1) and gaps[1] / gaps[2] == pytest.approx(2, rel=0.1)
    first_move = -np.exp(-9) * model.query_gradient(X, Y, 0 * start, X @ nu)
    np.testing.assert_allclose(flow.flow_in_q(X, Y, X @ nu, [-9.0])[0], first_move, rtol=1e-2, atol=1e-7)


@pytest.mark.states("attention Section 4.3 (max-margin obstacles)")
def test_no_global_convergence():
    """Tokens -1, 0, 1 with scores 2, 0, 1: from q = 0 the best token is picked, from q = 5 the second, for good."""
    X, gamma = np.array([[[-1.0], [0], [1]]]), np.array([[2.0, 0, 1]])
    assert margin.separate(X, [0]).p == pytest.approx(-1)
    assert flow.flow_in_q(X, [1.0], gamma, [40.0])[0, 0] < -35
    assert flow.flow_in_q(X, [1.0], gamma, [40.0], [5.0])[0, 0] > 35


def test_times_that_do_not_increase_and_tokens_that_are_none_are_named():
    X = np.eye(2)[None]
    for arguments, said in (
        ((X, [1.0], [[1.0, 0]], [2.0, 1.0]), "logs"),
        ((0 * X, [1.0], [[1.0, 0]], [1.0]), "X"),
        ((X, [0.0], [[1.0, 0]], [1.0]), "Y"),
    ):
        with pytest.raises(ValueError, match=f"^{said}: "):
            flow.flow_in_q(*arguments)
    far = flow.flow_in_q(X.tolist(), [1.0], [[1.0, 0]], [800.0], [0.0, 0.0])[0]  # e^800 is no float
    assert far[0] - far[1] == pytest.approx(800, rel=0.01)
