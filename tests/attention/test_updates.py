"""Corollary D.1 to Lemma D.6: ranges against the updates themselves, and the cases in which they are attained."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.attention import conditions, data, decomposition, updates
from refimpl.attention.head import linear_head
from refimpl.attention.runs import gram, wishart
from refimpl.attention.scores import ScoreScale, score_scale
from refimpl.attention.setting import Setting
from refimpl.calculus.softmax import softmax
from tests.strategies import floats, logits, seeds, weights_and_vector


def state(seed, noise=1.0, weak_scale=0.3):
    """A sample whose noise has the given size along the signals, logits of any size, and the scores."""
    rng = np.random.default_rng(seed)
    n, T, d = rng.integers(1, 6), rng.integers(4, 8), 12
    mu = data.signals(2.0, d)
    Sigma = np.full(d, 1.0)
    Sigma[:2] = noise**2
    sizes = dict(n=n, T=T, d=d, norm=2.0, relevant=int(rng.integers(1, T - 2)), weak_scale=weak_scale)
    sample = data.draw(rng, Setting(**sizes, noise_rate=0.5, Sigma=Sigma))
    nu = linear_head(mu)
    z = rng.choice([0.1, 1.0, 30.0]) * rng.standard_normal((n, T))
    return sample, mu, nu, z, sample.X @ nu


def ranges(sample, mu, nu, z, gamma, alpha=0.7, weak_scale=0.3):
    s = softmax(z)
    m = updates.step_weights(np.sum(s * gamma, axis=-1), sample.Y, alpha)
    rest = (s, m, sample.Y, sample.Y_star, sample.roles, weak_scale, score_scale(sample.noise, mu, nu))
    delta_rho = decomposition.noise_update(z, gamma, sample.Y, alpha)
    delta_lam = decomposition.signal_update(delta_rho, data.signal_of(sample.Y_star, sample.roles, weak_scale))
    return (delta_rho, *updates.noise_update_range(*rest)), (delta_lam, *updates.signal_update_range(*rest))


@pytest.mark.states("attention Corollary D.1", "attention Eq. 129")
def test_the_ranges_by_hand():
    """Weights 1/2, 1/4, 1/8, 1/8 on R, W_{+1}, W_{-1}, I, rho = 1/2, a = 8, e = 1, labels +1 and +1, -1 and +1, m = 1.

    Clean, k = 1: B = (1/2 - 1/8 + 1/16, -1/2 + 3/8 + 1/16, -1/2 - 7/16 - 1/8, -1/2 - 1/8 + 1/16).
    Noisy, k = -1, W_Y = W_{-1}: B = (-1/2 - 1/16 + 1/8, 1/2 - 3/8 - 1/16, 1/2 + 7/16 + 1/8, 1/2 - 1/16 + 1/8).
    For both, width 2e (1 - s_t); lam_{+1} by Eq. 129 with S = 1/4, V = 1/4, V' = 1/8, q = 1/16 * 7/8."""
    s, roles = np.array([[0.5, 0.25, 0.125, 0.125]]), [[data.RELEVANT, 1, -1, data.IRRELEVANT]]
    B = np.array([7 / 16, -1 / 16, -17 / 16, -9 / 16])
    q = 7 / 128
    lam = 8 * np.array([1 / 4 + 1 / 4 * (1 / 8 - 1 / 2) + q, -(1 / 4 * 1 / 8 + 1 / 32 * 9 / 8)])
    for Y, sign in ((1, 1), (-1, -1)):
        labels = np.array([Y]), np.array([1])
        low, high = updates.noise_update_range(s, [1.0], *labels, roles, 0.5, ScoreScale(8.0, 1.0))
        np.testing.assert_allclose((low + high) / 2, 8 * s * sign * B, rtol=1e-14)
        np.testing.assert_allclose((high - low) / 2, 2 * s * (1 - s), rtol=1e-14)
        low, high = updates.signal_update_range(s, [1.0], *labels, roles, 0.5, ScoreScale(8.0, 1.0))
        np.testing.assert_allclose((low + high) / 2, sign * lam, rtol=1e-14)
        np.testing.assert_allclose((high - low) / 2, [2 * (1 / 4 + 3 / 32), 2 * 7 / 128], rtol=1e-14)


@pytest.mark.states("attention Corollary D.1", "attention Eq. 129")
@given(seed=seeds, noise=st.sampled_from([0.1, 1.0, 5.0]))
def test_the_updates_lie_in_their_ranges(seed, noise):
    for value, low, high in ranges(*state(seed, noise)):
        slack = 1e-12 * np.max(np.abs(high - low)) + 1e-15
        assert np.all(low - slack <= value) and np.all(value <= high + slack)


@pytest.mark.states("attention Corollary D.1", "attention Eq. 129")
@given(seed=seeds)
def test_without_noise_along_the_signals_the_ranges_are_points(seed):
    for value, low, high in ranges(*state(seed, noise=0.0)):
        np.testing.assert_array_equal(low, high)
        np.testing.assert_allclose(value, low, rtol=1e-9, atol=1e-13)


@pytest.mark.states("attention Corollary D.1", "attention Eq. 129")
def test_the_width_is_attained():
    """Two tokens of weight 1/2 in R, scores a + e and a - e: half of the width 2e (1 - s) m s and all of it."""
    Y, roles, s = np.ones(1), np.full((1, 2), data.RELEVANT), np.full((1, 2), 0.5)
    low, high = updates.noise_update_range(s, np.ones(1), Y, Y, roles, 0.0, ScoreScale(1.0, 0.25))
    gamma = np.array([[1.25, 0.75]])
    np.testing.assert_allclose(high[0], s[0] * (gamma - 1.0)[0, 0])
    np.testing.assert_allclose(low[0], s[0] * (gamma - 1.0)[0, 1])
    low, high = updates.signal_update_range(s, np.ones(1), Y, Y, roles, 0.0, ScoreScale(1.0, 0.25))
    np.testing.assert_allclose((low, high), ([-0.25, 0], [0.25, 0]))
    roles = np.array([[data.RELEVANT, -1]])  # one weak token of class -1: rho * 2e s (1 - s) for that class
    low, high = updates.signal_update_range(s, np.ones(1), Y, Y, roles, 0.1, ScoreScale(0.0, 0.25))
    np.testing.assert_allclose(high, [0.125, 0.0125])
    np.testing.assert_allclose(low, [-0.125, -0.0125])


@pytest.mark.states("attention Lemma D.2")
@given(pair=weights_and_vector(scale=20), seed=seeds)
def test_the_loss_derivatives_ratio(pair, seed):
    z, gamma = pair
    f, Y = np.sum(softmax(z) * gamma, axis=-1), np.random.default_rng(seed).choice([-1.0, 1.0], len(z))
    left, right = updates.loss_derivative_ratio(f, Y, gamma)
    assert left <= right * (1 + 1e-12)


@pytest.mark.states("attention Lemma D.2")
def test_the_ratio_is_attained_and_is_the_printed_quotient():
    left, right = updates.loss_derivative_ratio([1.5, 1.5], [1.0, -1.0], np.full((2, 3), 1.5))
    assert abs(left / right - 1) < 1e-14 and abs(right / ((1 + np.exp(1.5)) / (1 + np.exp(-1.5))) - 1) < 1e-14


@pytest.mark.states("attention Remark 5")
def test_the_signal_update_can_be_negative_while_a_clean_sample_is_undecided():
    """Remark 5's case: 8 clean samples have picked, one has not, 2 noisy ones are half way; with m equal, rho = 0."""
    picked, slow, noisy = [0.999, 0.0005, 0.0005], [0.2, 0.4, 0.4], [0.5, 0.25, 0.25]
    s = np.array([picked] * 8 + [slow] + [noisy] * 2)
    Y_star, roles = np.ones(11), np.array([[2, 1, -1]] * 11)
    Y = np.where(np.arange(11) < 9, 1.0, -1.0)
    low, high = updates.signal_update_range(s, np.ones(11), Y, Y_star, roles, 0.0, ScoreScale(1.0, 0.01))
    assert high[0] < 0
    early = np.full_like(s, 1 / 3)
    assert updates.signal_update_range(early, np.ones(11), Y, Y_star, roles, 0.0, ScoreScale(1.0, 0.01))[0][0] > 0


@pytest.mark.states("attention Remark 4")
def test_a_large_head_leaves_clean_samples_without_gradient():
    """|nu| = scale / |mu|. Of order 1: the clean share is |C| / n up to C_l of Lemma D.2. Scale 100: below 1e-6."""
    rng = np.random.default_rng(0)
    mu = data.signals(50.0, 500)
    sample = data.draw(rng, Setting(T=4, d=500, norm=50.0, weak_scale=0.1, noise_rate=0.3))
    clean = np.mean(sample.Y == sample.Y_star)
    assert 0.3 < clean < 1
    for scale, least, most in ((1.0, None, clean), (10.0, None, 0.5), (100.0, 0, 1e-6)):
        gamma = sample.X @ linear_head(mu, scale / 50)
        share = updates.clean_share(gamma, sample.Y, sample.Y_star)
        ratio = updates.loss_derivative_ratio(gamma.mean(axis=-1), sample.Y, gamma)[1]
        assert (clean / (clean + ratio * (1 - clean)) if least is None else least) <= share <= most
    assert updates.clean_share([[3.0], [3.0]], [1, -1], [1, 1]) == pytest.approx(1 / (1 + np.exp(3)))
    assert updates.clean_share(np.zeros((3, 2)), [1, 1, -1], [1, 1, 1]) == pytest.approx(2 / 3)


@pytest.mark.states("attention Lemma D.4")
@given(z=logits(bound=20), seed=seeds)
def test_a_weight_changes_by_at_most_the_increments_spread(z, seed):
    z_next = z + np.random.default_rng(seed).standard_normal(z.shape)
    left, right = updates.weight_ratios(softmax(z), softmax(z_next), z, z_next)
    assert left <= right + 1e-9


@pytest.mark.states("attention Lemma D.4")
def test_the_spread_is_attained():
    z, z_next = np.array([[0.0, 0.0], [60.0, 0.0]]), np.array([[0.5, -0.5], [60.5, -0.5]])
    left, right = updates.weight_ratios(softmax(z), softmax(z_next), z, z_next)
    assert right == pytest.approx(1.0) and left == pytest.approx(1.0)
    M, delta_rho = 3 * np.eye(2), np.array([[0.2, -0.2]])
    assert updates.spread_bound(M, delta_rho) == pytest.approx(1.2) == np.ptp(M @ delta_rho[0])
    M = np.array([[3.0, 0.0, 1.0], [0.0, 3.0, -1.0], [1.0, -1.0, 0.0]])  # and one that only the second part bounds
    assert np.ptp(M @ [0, 0, 0.2]) == pytest.approx(0.4)
    assert updates.spread_bound(M, [[0, 0, 0.2]]) == pytest.approx(1.6)


@pytest.mark.states("attention Lemma D.4")
@pytest.mark.parametrize("C", [5, 8])
def test_in_the_theorem_s_regime_no_step_halves_or_doubles_a_weight(C):
    """The smallest setting, its alpha: 2,000 steps, each increment's spread below log 2 and below the bound."""
    setting = conditions.smallest_setting(20, 4, 0.1, C)
    rng = np.random.default_rng(0)
    sample, mu, _ = wishart.draw_training(rng, setting)
    M, gamma = gram.gram(sample.X, linear_head(mu))
    states = []
    gram.descend(M, gamma, sample.Y, setting.alpha, 2000, record=lambda tau, rho, s: states.append((rho, s)))
    for (rho, s), (rho_next, s_next) in zip(states[:-1:20], states[1::20]):
        z, z_next = ((M @ r.ravel()).reshape(r.shape) for r in (rho, rho_next))
        left, right = updates.weight_ratios(s, s_next, z, z_next)
        assert left <= right + 1e-9 and right <= min(np.log(2), updates.spread_bound(M, rho_next - rho) + 1e-9)


@pytest.mark.states("attention Lemma D.5")
@given(pair=weights_and_vector(scale=10), seed=seeds)
def test_the_updates_total(pair, seed):
    z, gamma = pair
    m = np.random.default_rng(seed).uniform(0, 1, len(z))
    left, right = updates.noise_update_total(softmax(z), gamma, m)
    assert left <= right * (1 + 1e-12) + 1e-14


@pytest.mark.states("attention Lemma D.5")
def test_the_total_is_attained_whatever_T_is():
    for T in (2, 10, 100):
        s, gamma = np.zeros((1, T)), np.zeros((1, T))
        s[0, :2], gamma[0, :2] = 0.5, (3.0, -1.0)
        assert updates.noise_update_total(s, gamma, [0.25]) == (0.5, 0.5)


@pytest.mark.states("attention Lemma D.6")
@given(z=logits(bound=30))
def test_the_largest_weight_has_the_largest_variance(z):
    left, right = updates.largest_variance(softmax(z))
    np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-15)


@pytest.mark.erratum("attention-d5-index")
def test_one_token_s_variance_summed_over_all_tokens_passes_one():
    s = np.full(8, 1 / 14)
    s[0] = 0.5
    assert np.sum(np.full(8, s[0] * (1 - s[0]))) > 1  # as printed: s_1 (1 - s_1) for every t
    assert np.sum(s * (1 - s)) <= 1


@pytest.mark.erratum("attention-a4-bound")
@given(x=floats(10))
def test_no_probability_is_below_one_minus_four_T(x):
    T = 4
    s = softmax(np.array([x, 0.0, 0.0, 0.0]))
    assert not np.any(s < 1 - 4 * T)  # as printed
    assert (s[0] < 1 - 1 / (4 * T)) == (np.sum(s[1:]) > 1 / (4 * T))


@pytest.mark.erratum("attention-d4-hypotheses")
def test_without_the_stronger_assumption_one_step_moves_a_weight_by_any_factor():
    """n = T = 4, |mu| = 1000, |nu| = 1/|mu|, alpha = 0.1 n/d, one step from p = 0. d = 200 as printed; then
    (A'1)'s d = C T^2 n |mu|^2 with C = 5."""
    n = T = 4
    for d in (200, 5 * T**2 * n * 10**6):
        setting = Setting(n=n, T=T, d=d, norm=1e3, weak_scale=0.1, noise_rate=0.3)
        sample, mu, _ = wishart.draw_training(np.random.default_rng(0), setting)
        M, gamma = gram.gram(sample.X, linear_head(mu))
        factors = T * softmax((M @ gram.descend(M, gamma, sample.Y, 0.1 * n / d, 1).ravel()).reshape(n, T))
        if d == 200:
            assert factors.min() < 1e-19
        else:
            assert 1 / 2 <= factors.min() and factors.max() <= 2


def test_labels_that_are_none_are_named():
    with pytest.raises(ValueError, match="^Y_star: "):
        updates.clean_share([[1.0, 0.0]], [1.0], [3.0])
