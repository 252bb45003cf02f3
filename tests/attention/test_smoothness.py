"""Lemma A.7: the Hessian against differences and its bounds, the descent inequality; Remark 2: the orders."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.attention import data, descent, model, smoothness
from refimpl.attention.head import linear_head
from refimpl.attention.runs import gram, wishart
from refimpl.attention.setting import Setting
from refimpl.calculus.differences import gradient_error
from tests.strategies import seeds


def inputs(seed, n=3, T=4, d=3):
    """Tokens, labels, a head and a query, each sample and each of the others with a scale of its own."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, T, d)) * 10 ** rng.uniform(-1, 0.7, (n, 1, 1))
    nu, q = (rng.standard_normal(d) * 10 ** rng.uniform(-1, 1) for _ in range(2))
    return X, rng.choice([-1.0, 1.0], n), q, nu


@pytest.mark.states("attention Lemma A.7")
def test_the_constants_by_hand_and_where_the_sharper_is_attained():
    """One sample, tokens a e_1 and -a e_1, nu = b e_1, q = 0: |X|^2 = 2 a^2, f = 0, h = (ab/2, -ab/2), K = 0,
    X^T h = a^2 b, so H = a^4 b^2 / 4 = |nu|^2 |X|^4 / 16."""
    a, b = 3.0, 1e6
    X, nu = np.array([[[a, 0.0], [-a, 0.0]]]), np.array([b, 0.0])
    size = math.sqrt(2) * a
    for head in (b, 2.0):
        paper, sharp = smoothness.smoothness_constants(X, nu * head / b)
        assert paper == pytest.approx(head**2 * size**4 / 4 + 3 * head * size**3, rel=1e-12)
        assert sharp == pytest.approx(head**2 * size**4 / 16 + head * size**3 / math.sqrt(2), rel=1e-12)
    sharp = smoothness.smoothness_constants(X, nu)[1]
    H = smoothness.hessian(X, [1.0], [0.0, 0.0], nu)
    assert H[0, 0] == pytest.approx(a**4 * b**2 / 4, rel=1e-12) and sharp / H[0, 0] < 1 + 1e-5
    assert smoothness.gram_constant(X, nu) / H[0, 0] < 1 + 1e-5  # D = 2ab: 4 a^2 b^2 / 32 * 2 a^2
    X = np.concatenate((X, 2 * X))  # the mean over samples for the paper's; for ours all of M and the largest spread
    assert smoothness.smoothness_constants(X, nu)[0] == pytest.approx(
        b**2 * size**4 / 4 * (1 + 16) / 2 + 3 * b * size**3 * (1 + 8) / 2
    )
    D = 4 * a * b
    assert smoothness.gram_constant(X, nu) == pytest.approx(10 * a**2 / 2 * (D**2 / 32 + D / 2))


@pytest.mark.states("attention Lemma A.7")
@given(seed=seeds)
def test_the_hessian_against_differences_of_the_gradient(seed):
    X, Y, q, nu = inputs(seed)
    X, q, nu = X / np.max(np.abs(X)), q / np.linalg.norm(q), nu / np.linalg.norm(nu)
    H = smoothness.hessian(X, Y, q, nu)
    np.testing.assert_allclose(H, H.T, atol=1e-14)
    assert gradient_error(lambda q: model.loss_gradient_p(X, Y, q, nu), H, q) < 1e-7


@pytest.mark.states("attention Lemma A.7")
@given(seed=seeds, n=st.integers(1, 3), T=st.integers(2, 5), d=st.integers(1, 5))
def test_the_hessians_norm_is_below_every_constant(seed, n, T, d):
    X, Y, q, nu = inputs(seed, n, T, d)
    for scale in (0.0, 0.1, 1.0):
        norm = np.linalg.norm(smoothness.hessian(X, Y, scale * q, nu), 2) * (1 - 1e-12)
        paper, sharp = smoothness.smoothness_constants(X, nu)
        assert norm <= sharp <= paper and norm <= smoothness.gram_constant(X, nu)


@pytest.mark.states("attention Lemma A.7")
@given(seed=seeds)
def test_the_curvature_of_one_sample(seed):
    rng = np.random.default_rng(seed)
    gamma, z = rng.standard_normal((1, 5)) * 10 ** rng.uniform(-2, 2), 3 * rng.standard_normal(5)
    X = np.concatenate((np.eye(5)[None], gamma[..., None]), axis=-1)  # the first five coordinates of H are the logits'
    H = smoothness.hessian(X, [1.0], np.append(z, 0.0), np.eye(6)[5])[:5, :5]
    assert np.linalg.norm(H, 2) <= smoothness.curvature(np.ptp(gamma)) * (1 + 1e-12)
    assert smoothness.curvature(4.0) == 0.5 + 2


@pytest.mark.states("attention Lemma A.7")
@given(seed=seeds, share=st.floats(0.01, 0.999))
def test_the_descent_inequality(seed, share):
    X, Y, p, nu = inputs(seed)
    W = model.random_orthogonal(np.random.default_rng(seed), 3)
    paper, sharp = smoothness.smoothness_constants(X, nu)
    for L, W in ((paper, None), (sharp, W), (smoothness.gram_constant(X, nu), None)):
        change, bound = smoothness.descent_sides(X, Y, nu, p, share / L, W)
        assert change <= bound + 1e-14 * model.loss(X, Y, p, nu, W)


@pytest.mark.states("attention Lemma A.7")
def test_the_descent_inequality_where_it_is_nearly_an_equality_and_where_it_fails():
    """Tokens 1 and -1, nu = 1: f = tanh q, of the risk log(1 + e^-f); from q = 2 the risk falls towards q = inf, and
    is convex."""
    X, nu = np.array([[[1.0], [-1.0]]]), np.array([1.0])
    change, bound = smoothness.descent_sides(X, [1.0], nu, [2.0], 1e-6)
    assert change == pytest.approx(2 * bound, rel=1e-5) and bound < 0  # a small step gains all of -alpha |g|^2
    g = model.loss_gradient_p(X, [1.0], [2.0], nu)
    assert bound == pytest.approx(-0.5e-6 * g[0] ** 2, rel=1e-12)
    change, bound = smoothness.descent_sides(X, [1.0], nu, [2.0], 1e4)  # far above 1 / L = 0.12: a step of 100
    assert 1e4 > 1 / smoothness.smoothness_constants(X, nu)[1] and change > bound


@pytest.mark.states("attention Lemma A.7")
@pytest.mark.parametrize("flips", [0, 2])
def test_the_gradient_goes_to_zero(flips):
    mu = data.signals(4.0, 40)
    sample = data.draw_experiment(np.random.default_rng(0), Setting(n=4, T=4, d=40, norm=4.0), flips)
    X, Y, nu = sample.X, sample.Y, linear_head(mu)
    risks, norms, alpha = [], [], 0.999 / smoothness.gram_constant(X, nu)

    def record(tau, p):
        risks.append(model.loss(X, Y, p, nu))
        norms.append(np.linalg.norm(model.loss_gradient_p(X, Y, p, nu)))

    descent.descend_p(X, Y, nu, alpha, 400, record=record)
    assert np.all(np.diff(risks) <= -alpha / 2 * np.square(norms[:-1]) + 1e-15)
    assert np.sum(np.square(norms[:-1])) <= 2 / alpha * risks[0]
    M, gamma = gram.gram(X, nu)
    last = []
    gram.descend(M, gamma, Y, alpha, 5_000, record=lambda tau, rho, s: last.append(rho) if tau >= 4_999 else None)
    step = ((last[1] - last[0]) / alpha).ravel()
    assert math.sqrt(step @ M @ step) < 0.01 * norms[0]


def drawn(norm, theta, T=4, n=6):
    """A training sample with d = theta |mu|^4, without d."""
    setting = Setting(n=n, T=T, d=int(theta * norm**4), norm=float(norm), weak_scale=0.1)
    sample, mu, _ = wishart.draw_training(np.random.default_rng(0), setting)
    return sample, linear_head(mu), setting.d


@pytest.mark.states("attention Remark 2")
@pytest.mark.erratum("attention-remark2-order")
@pytest.mark.parametrize("theta, norms", [(1.0, np.geomspace(5e2, 5e4, 9)), (1 / 625 / 38, np.geomspace(6e4, 6e5, 9))])
def test_the_order_of_lemma_a7s_constant(theta, norms):
    """Tr = theta |mu|^4 as (A2) allows: theta = 1, and (A2) with equality at C = 5, log(Tn/delta) = 6.2."""
    constants, bounds, ours = [], [], []
    for norm in norms:
        sample, nu, d = drawn(norm, theta)
        constants.append(smoothness.smoothness_constants(sample.X, nu)[0])
        bounds.append(sum(smoothness.smoothness_on_good_runs(4, norm, d, 0.01, 1 / norm)))
        ours.append(smoothness.gram_constant(sample.X, nu))
    assert np.all(np.array(constants) <= bounds) and np.all(constants >= theta**2 / 4 * norms**6 * 0.9)
    slopes = [np.polyfit(np.log(norms), np.log(L), 1)[0] for L in (constants, bounds, ours)]
    np.testing.assert_allclose(slopes, [6, 6, 4], atol=0.05)
    printed = constants / (4**1.5 * norms**5)  # would be bounded; grows like |mu|
    assert printed[-1] / printed[0] > 0.7 * norms[-1] / norms[0]
    assert np.ptp(constants / norms**6) < 0.2 * np.max(constants / norms**6)


@pytest.mark.states("attention Remark 2")
def test_the_order_in_the_number_of_tokens():
    T = np.geomspace(4, 400, 9).round()
    terms = np.array([smoothness.smoothness_on_good_runs(t, 1e4, 1e16, 0.01, 1e-4) for t in T])
    slopes = [np.polyfit(np.log(T), np.log(L), 1)[0] for L in (terms[:, 0], terms[:, 1], terms.sum(axis=1))]
    np.testing.assert_allclose(slopes, [2, 1.5, 2], atol=0.01)
    # |mu| = 2, Tr = 16, 1/C' = 1/2, |nu| = 1/2: b = 8
    assert smoothness.smoothness_on_good_runs(4, 2, 16, 0.5, 0.5) == pytest.approx((16 * 8**4 / 16, 1.5 * 8 * 8**3))


@pytest.mark.states("attention Remark 2")
def test_one_power_of_t_and_of_the_signal_is_needed():
    """Equal tokens make |X|^2 = T |x|^2, the worst case: L / (T^2 |mu|^6) is constant, L / (T^(3/2) |mu|^5) is not
    bounded."""
    for T in (4, 400):
        for norm in (1e2, 1e4):
            X, nu = np.full((1, T, 1), norm**2), np.array([1 / norm])  # |x|^2 = Tr = |mu|^4
            L = smoothness.smoothness_constants(X, nu)[0]
            assert 0.25 <= L / (T**2 * norm**6) < 0.27
            assert L / (T**1.5 * norm**5) > 0.25 * math.sqrt(T) * norm


@pytest.mark.states("attention Remark 2", "attention Assumption A4")
@pytest.mark.parametrize("norm", [1e3, 4e4])
def test_the_true_lipschitz_constant_is_of_order_the_fourth_power_over_n(norm):
    sample, nu, d = drawn(norm, 1.0)
    at_zero = np.linalg.norm(smoothness.hessian(sample.X, sample.Y, 0 * nu, nu), 2)
    ours = smoothness.gram_constant(sample.X, nu)
    assert 0.03 * d / 6 < at_zero <= ours < d / 6
    assert smoothness.smoothness_constants(sample.X, nu)[0] > norm**2 * ours
