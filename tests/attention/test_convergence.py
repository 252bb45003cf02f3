"""Lemmas A.2-A.4 and D.3, Theorem 4.2's overfitting part in its own regime, Section 4.3's two difficulties."""

import functools

import numpy as np
import pytest
from hypothesis import given

from refimpl.attention import conditions, convergence, data, descent
from refimpl.attention.head import linear_head
from refimpl.attention.model import loss, loss_gradient_p
from refimpl.attention.runs import gram, trials, wishart
from refimpl.attention.runs.flow import flow
from refimpl.attention.scores import score_scale
from refimpl.attention.setting import Setting
from refimpl.calculus.softmax import softmax
from tests.strategies import seeds, weights_and_vector

LOG_TIMES = np.concatenate((np.linspace(-4, 40, 89), [100.0, 1000.0, 10_000.0]))
REGIME = [(n, C, place) for n, C in ((7, 3), (12, 5), (19, 8)) for place in (0.0, 1.0)]


@functools.cache
def trial(n, C, place, seed):
    """The smallest setting that the assumptions leave, T = 4; rho at the lower or the upper end of (A'3)."""
    s = conditions.smallest_setting(n, 4, 0.1, C, place)
    return trials.run(np.random.default_rng([seed, n]), LOG_TIMES, s)


@pytest.mark.states("attention Lemma A.3", "attention Lemma A.4")
def test_the_orders_on_a_case_worked_by_hand():
    Y, Y_star = np.array([1, -1, -1]), np.array([1, -1, 1])
    roles = np.array([[2, 1, -1, 0]] * 3)
    s = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4], [0.35, 0.05, 0.4, 0.2]])
    for got, expected in zip(convergence.clean_order(s, Y, Y_star, roles), ([0.4, 0.1], [0.3, 0.4])):
        np.testing.assert_array_equal(got, expected)
    for got, expected in zip(convergence.noisy_order(s, Y, Y_star, roles), ([0.4], [0.35])):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.states("attention Lemma A.3", "attention Lemma A.4", "attention Theorem 4.2 (overfitting)")
@pytest.mark.parametrize("n, C, place", REGIME)
def test_in_the_theorem_s_regime_every_run_fits_the_noise(n, C, place):
    """Six settings, d between 8e9 and 2e16, five seeds each: the orders at every moment, the fit at the end."""
    for seed in range(5):
        run = trial(n, C, place, seed)
        Y, Y_star, roles = run.sample.Y, run.sample.Y_star, run.sample.roles
        for order in (convergence.clean_order, convergence.noisy_order):
            left, right = order(run.path.log_s, Y, Y_star, roles)
            assert np.all(left >= right)
        assert convergence.fit_times(np.exp(run.path.log_s), run.gamma, Y) < len(LOG_TIMES) - 3  # by log t = 40
        tokens, _ = convergence.picked_token(run.path.log_s[-1])
        scale = score_scale(run.sample.noise, run.mu, run.nu)
        left, right = convergence.limit_margins(run.gamma, Y, Y_star, tokens, run.setting.weak_scale, scale)
        assert np.all(left >= right - 1e-12) and np.all(right > 0)
        np.testing.assert_allclose(run.margins[-1], left, rtol=1e-9)


@pytest.mark.states("attention Lemma A.3", "attention Lemma A.4", "attention Theorem 4.2 (overfitting)")
def test_descent_with_the_theorem_s_step_keeps_the_order_at_every_step():
    """(A4)'s alpha at n = 12, C = 5, d = 1e12; 3,000 steps, each looked at; fitted well before the last."""
    s = conditions.smallest_setting(12, 4, 0.1, 5)
    rng = np.random.default_rng(0)
    sample, mu, _ = wishart.draw_training(rng, s)
    M, gamma = gram.gram(sample.X, linear_head(mu))
    weights = []
    gram.descend(M, gamma, sample.Y, s.alpha, 3000, record=lambda tau, rho, w: weights.append(w))
    for order in (convergence.clean_order, convergence.noisy_order):
        left, right = order(np.array(weights), sample.Y, sample.Y_star, sample.roles)
        assert left.shape[1] > 0 and np.all(left >= right)
    assert 100 < convergence.fit_times(np.array(weights), gamma, sample.Y) < 2500


@pytest.mark.states("attention Lemma A.3", "attention Remark 5")
@given(seed=seeds)
def test_the_memorisation_term_of_a_clean_sample(seed):
    """Attention with R's largest in front and S_R >= rho: the difference is above its floor, 1/4T^2 or 1/8T."""
    rng = np.random.default_rng(seed)
    T, rho = int(rng.integers(4, 9)), 0.1
    roles = np.array([rng.permutation([2, 1, -1] + list(rng.choice([2, 0, 1, -1], T - 3)))])
    s = softmax(rng.choice([0.3, 3.0]) * rng.standard_normal((1, T)))
    relevant = roles[0] == 2
    k, top = np.argmax(np.where(relevant, s[0], 0)), np.argmax(s[0])
    s[0, [k, top]] = s[0, [top, k]]
    left, right = convergence.memorisation_margin(s, np.ones(1), roles, rho)
    assert left[0] >= right[0] - 1e-12
    S_R = np.sum(s[0, relevant])
    if S_R <= 1 - 1 / (4 * T):
        assert right[0] >= (1 - rho) / (4 * T**2) * (1 - 1e-12)
        assert s[0, k] < 0.5 or right[0] >= (1 - rho) / (8 * T) * (1 - 1e-12)


@pytest.mark.states("attention Lemma A.3", "attention Remark 5")
def test_the_memorisation_floor_is_attained():
    """All mass on one token of R and one of W_Y, rho = S_R = 1/2: equality, by hand 1/8."""
    left, right = convergence.memorisation_margin([[0.5, 0.5, 0.0]], [1.0], [[2, 1, -1]], 0.5)
    assert left[0] == right[0] == 0.125


@pytest.mark.states("attention Lemma A.2")
@pytest.mark.parametrize("d, norm", [(40, 2.0), (2000, 5.0), (300, 20.0)])
def test_attention_becomes_one_hot(d, norm):
    """Far from the regime, independent tokens: log(1 - s_{t*}) below -5, and t* the same, from log t = 1e4 on."""
    for seed in range(3):
        times = np.array([1e3, 1e4, 1e5])
        run = trials.run(np.random.default_rng(seed), times, Setting(n=4, T=5, d=d, norm=norm, noise_rate=0.3))
        tokens, rest = convergence.picked_token(run.path.log_s)
        assert np.all(tokens[1] == tokens[2]) and np.all(rest[1:] < -5) and np.all(np.diff(rest, axis=0) < 0)


@pytest.mark.states("attention Lemma A.2")
def test_the_picked_token_by_hand():
    tokens, rest = convergence.picked_token(np.log([[0.2, 0.7, 0.1], [0.25, 0.25, 0.5]]))
    np.testing.assert_array_equal(tokens, [1, 2])
    np.testing.assert_allclose(np.exp(rest), [0.3, 0.5])
    assert convergence.picked_token([[-900.0, 0.0, -901.0]])[1][0] == pytest.approx(-900 + np.log1p(np.exp(-1)))


def tokens_and_logits(seed, d=30):
    rng = np.random.default_rng(seed)
    n, T = int(rng.integers(1, 5)), int(rng.integers(2, 6))
    X, Y = rng.standard_normal((n, T, d)), rng.choice([-1.0, 1.0], n)
    p, nu = rng.choice([0.1, 1.0, 5.0]) * rng.standard_normal(d), rng.standard_normal(d)
    return X, Y, p, nu


@pytest.mark.states("attention Lemma D.3", "attention Section 4.3 (local minima)")
@given(seed=seeds)
def test_the_gradient_between_its_floor_and_its_ceiling(seed):
    X, Y, p, nu = tokens_and_logits(seed)
    norm, floor = convergence.gradient_floor(X, X @ p, X @ nu, Y)
    assert norm >= floor * (1 - 1e-9)
    assert norm == pytest.approx(np.linalg.norm(loss_gradient_p(X, Y, p, nu)), rel=1e-9)
    again, ceiling = convergence.gradient_ceiling(X, X @ p, X @ nu, Y)
    assert norm == pytest.approx(again) and norm <= ceiling * (1 + 1e-9)


@pytest.mark.states("attention Lemma D.3")
def test_the_floor_is_attained_by_orthogonal_tokens():
    """Two orthogonal tokens of norm 3, weights 1/2, scores +-1: the floor's two inequalities are equalities."""
    norm, floor = convergence.gradient_floor(3 * np.eye(2)[None], [[0.0, 0.0]], [[1.0, -1.0]], [1.0])
    assert floor == pytest.approx(norm) == pytest.approx(3 * 0.5 * np.sqrt(2) / 2)
    assert convergence.gradient_floor(np.ones((2, 2, 3)), np.zeros((2, 2)), np.eye(2), [1, 1])[1] < 1e-12
    assert convergence.gradient_floor(np.ones((2, 2, 1)), np.zeros((2, 2)), np.eye(2), [1, 1])[1] == 0


@pytest.mark.states("attention Section 4.3 (local minima)")
def test_the_ceiling_is_attained():
    """One token far ahead, one other of score D less and of norm 1, orthogonal: the ratio tends to 1/sqrt 2."""
    X, z, gamma = np.eye(2)[None], [[20.0, 0.0]], [[1.0, 0.0]]
    left, right = convergence.gradient_ceiling(X, z, gamma, [1.0])
    assert left / right == pytest.approx(np.sqrt(2) / 2, rel=1e-6)


@pytest.mark.states("attention Lemma D.3")
@given(pair=weights_and_vector(scale=60))
def test_a_small_gradient_means_one_hot(pair):
    z, gamma = pair
    if z.shape[-1] > 1:
        left, right = convergence.one_hot_floor(softmax(z), gamma)
        assert np.all(left <= right)


@pytest.mark.states("attention Lemma D.3")
def test_the_one_hot_floor_by_hand():
    """s = (1 - x, x), scores 0 and 1: epsilon' = x (1 - x) at either token; no bound where 2 sqrt(epsilon') >= 1."""
    left, right = convergence.one_hot_floor([[0.99, 0.01], [0.5, 0.5]], [[0.0, 1.0], [0.0, 1.0]])
    np.testing.assert_allclose(left, [0.01, 0.5])
    np.testing.assert_allclose(right, [np.sqrt(0.0099), np.inf])
    left, right = convergence.one_hot_floor([[0.98, 0.01, 0.01]], [[0.0, 1.0, -1.0]])  # T = 3: twice 0.1
    np.testing.assert_allclose((left, right), ([0.02], [0.2]))


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: convergence.picked_token([[0.0]]), "T"),
        (lambda: convergence.one_hot_floor([[1.0]], [[0.5]]), "T"),
        (lambda: convergence.fit_times([[[0.5, 0.5]]], [[1.0, 0.0]], [0.0]), "Y"),
    ],
)
def test_bad_arguments_are_named(call, said):
    with pytest.raises(ValueError, match=f"^{said}: "):
        call()


@pytest.mark.erratum("attention-d3-independence")
def test_with_fewer_dimensions_than_tokens_the_gradient_vanishes_without_one_hot_attention():
    """n = T = 2, d = 1, tokens (2, 0) labelled + and (1, 0) labelled -: descent with alpha < 1/L stops in between."""
    X, Y, nu = np.array([[[2.0], [0.0]], [[1.0], [0.0]]]), np.array([1.0, -1.0]), np.ones(1)
    L = np.mean([16 / 4 + 3 * 8, 1 / 4 + 3])  # Lemma A.7's
    p = descent.descend_p(X, Y, nu, 0.9 / L, 5000)
    assert np.linalg.norm(loss_gradient_p(X, Y, p, nu)) < 1e-12
    s = softmax(X[..., 0] * p)
    assert np.all(s.max(axis=-1) < 0.9)  # as printed: tends to 1 under (A4) alone
    wide = np.concatenate((X, np.eye(4).reshape(2, 2, 4)), axis=-1)  # four more dimensions: independent tokens
    sample = (wide, np.concatenate((nu, np.zeros(4))))
    M, gamma = gram.gram(*sample)
    assert np.all(convergence.picked_token(flow(M, gamma, Y, [3e3, 1e5]).log_s[1])[1] < -5)


@pytest.mark.states("attention Section 4.3 (local minima)")
def test_descent_can_stay_where_the_noise_is_not_fitted():
    """From p along both signals, every sample picks its relevant token: gradient 1e-9 of the first one's."""
    rng = np.random.default_rng(0)
    mu = data.signals(20.0, 400)
    sample = data.draw(rng, Setting(n=9, T=4, d=400, noise_rate=0.3))
    X, Y, nu = sample.X, sample.Y, linear_head(mu)
    p = 0.15 * (mu[0] + mu[1])
    risk, wrong = convergence.one_hot_risk(X @ nu, Y, np.zeros(9, int))
    assert wrong == np.mean(Y != sample.Y_star) > 0
    after = descent.descend_p(X, Y, nu, 1e-3, 500, (p, None))
    assert loss(X, Y, after, nu) == pytest.approx(risk, rel=1e-6)
    small, large = (np.linalg.norm(loss_gradient_p(X, Y, q, nu)) for q in (after, 0 * p))
    assert small < 1e-9 * large
    fitted = convergence.one_hot_risk(X @ nu, Y, np.argmax(Y[:, None] * (X @ nu), axis=-1))
    assert fitted[1] == 0 and fitted[0] < risk - 0.1


@pytest.mark.states("attention Section 4.3 (diminishing updates)")
@given(pair=weights_and_vector(scale=20), seed=seeds)
def test_an_update_is_bounded_by_the_weight_s_variance(pair, seed):
    z, gamma = pair
    m = np.random.default_rng(seed).uniform(0.1, 1, len(z))
    left, right = convergence.update_ceiling(softmax(z), gamma, m)
    assert np.all(left <= right * (1 + 1e-9) + 1e-13)


@pytest.mark.states("attention Section 4.3 (diminishing updates)")
def test_the_update_s_bound_is_attained():
    left, right = convergence.update_ceiling([[0.75, 0.25]], [[2.0, -1.0]], [0.5])
    np.testing.assert_allclose(left, right)
    np.testing.assert_allclose(right, 0.5 * 3 * 0.1875)


@pytest.mark.states("attention Theorem 4.2 (overfitting)")
def test_the_fit_time_by_hand():
    s = np.array([[[0.6, 0.4]], [[0.4, 0.6]], [[0.7, 0.3]], [[0.8, 0.2]]])
    assert convergence.fit_times(s, [[1.0, -1.0]], [1.0]) == 2
    assert convergence.fit_times(s[2:], [[1.0, -1.0]], [1.0]) == 0
    assert convergence.fit_times(s, [[1.0, -1.0]], [-1.0]) == 4


@pytest.mark.erratum("attention-a3-assumption")
def test_only_the_stronger_assumption_bounds_rho_with_T():
    """(A3) holds at rho = 1/C and at C sqrt(log)/|mu|; 1/(CT) and CT sqrt(log)/|mu| come from (A'3) alone."""
    T, C = 4, 5
    setting = conditions.smallest_setting(12, T, 0.1, C)
    log = setting.log
    for rho in (1 / C, C * np.sqrt(log) / setting.norm * (1 + 1e-12)):
        weak = setting._replace(weak_scale=rho)
        slack = conditions.assumptions(weak, C)
        assert slack["A3 lower"] >= 1 and slack["A3 upper"] >= 1
        assert rho > 1 / (C * T) or rho < C * T * np.sqrt(log) / setting.norm  # what is printed of (A3) fails
        strong = conditions.strong_assumptions(weak, C)
        assert min(strong["A'3 lower"], strong["A'3 upper"]) < 1
    strong = conditions.strong_assumptions(setting, C)
    assert strong["A'3 lower"] >= 1 and strong["A'3 upper"] >= 1 and setting.weak_scale <= 1 / (C * T)


@pytest.mark.erratum("attention-a3-exponent")
def test_the_exponent_of_the_induction_is_positive_and_below_one():
    """Eq. 160, s_{t'}/s_u multiplied by the exponential of the increments' difference, u outside R, clean samples:
    over 3,000 steps with the theorem's alpha, R's share below 1 - 1/4T, it is in (0, log 2), so never above 1."""
    s, rng = conditions.smallest_setting(12, 4, 0.1, 5), np.random.default_rng(0)
    sample, mu, _ = wishart.draw_training(rng, s)
    M, gamma = gram.gram(sample.X, linear_head(mu))
    weights = []
    gram.descend(M, gamma, sample.Y, s.alpha, 3000, record=lambda tau, rho, w: weights.append(w))
    log_s = np.log(np.array(weights)[:, sample.Y == sample.Y_star])
    moved = np.diff(log_s, axis=0)
    inside = (moved[..., :1] - moved[..., 1:])[np.exp(log_s[:-1, :, 0]) < 1 - 1 / 16]
    assert sample.roles[0, 0] == data.RELEVANT and len(inside) > 1000
    assert 0 < inside.min() and inside.max() < np.log(2)
