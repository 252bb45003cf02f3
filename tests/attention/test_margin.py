"""The token-separation problem against another solver and by hand; descent's direction against its solution."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from refimpl.attention import data, margin, model
from refimpl.attention.head import linear_head
from refimpl.attention.runs.flow import flow_in_q
from refimpl.attention.setting import Setting
from refimpl.calculus.softmax import softmax
from tests.strategies import seeds

LEAST = 1 - 1e-6  # margin that every answer must have


@st.composite
def problems(draw):
    """X, picked, W, separable or not, with lengths from 1e-3 to 1e3."""
    rng = np.random.default_rng(draw(seeds))
    n, T, d = draw(st.integers(1, 4)), draw(st.integers(2, 5)), draw(st.integers(1, 12))
    X = draw(st.sampled_from([1e-3, 1.0, 1e3])) * rng.standard_normal((n, T, d))
    return X, rng.integers(T, size=n), draw(st.sampled_from([None, model.random_orthogonal(rng, d)]))


def constraint_rows(X, picked, W):
    W = np.eye(X.shape[-1]) if W is None else W
    return np.array([W @ (X[i, k] - x) for i, k in enumerate(picked) for t, x in enumerate(X[i]) if t != k])


@pytest.mark.states("attention Section H")
def test_by_hand():
    two_sided = [[[1.0, 0], [0, 0]], [[-1, 0], [0, 0]]]  # p1 >= 1 and -p1 >= 1
    assert margin.separate(two_sided, [0, 0])[:3] == (None, None, None)
    only = margin.separate(two_sided[:1], [0])
    np.testing.assert_allclose(only.p, [1, 0], atol=1e-15)
    np.testing.assert_allclose(only.multipliers, [[0, 1]], atol=1e-15)
    corner = margin.separate([[[0.0, 0], [-1, 0], [0, -2]]], [0])
    np.testing.assert_allclose(corner.p, [1, 0.5], rtol=1e-14)
    np.testing.assert_allclose(corner.multipliers, [[0, 1, 0.25]], rtol=1e-14)
    turned = margin.separate([[[0.0, 0], [-1, 0], [0, -2]]], [0], W=[[0.0, 1], [-1, 0]])
    np.testing.assert_allclose(turned.p, [0.5, -1], rtol=1e-14)


@pytest.mark.states("attention Section H")
@given(problem=problems())
def test_separable_or_not_by_linear_programming_and_then_optimal_by_kkt(problem):
    X, picked, W = problem
    found, rows = margin.separate(X, picked, W), constraint_rows(*problem)
    m, d = rows.shape  # the largest t with rows p >= t, |p| <= 1 entrywise: positive where separable
    lp = linprog([0] * d + [-1], np.c_[-rows / np.abs(rows).max(), np.ones(m)], np.zeros(m), bounds=[(-1, 1)] * (d + 1))
    assert (found.p is not None) == (-lp.fun > 1e-6)
    if found.p is None:
        assert found.multipliers is None and found.least is None and found.hull < 1e-7
        return
    assert np.min(rows @ found.p) >= LEAST
    assert found.least == pytest.approx(np.min(rows @ found.p), abs=1e-9)
    assert all(violation < 1e-7 for violation in margin.kkt(found, X, picked, W).values())
    assert found.hull == pytest.approx(1 / np.linalg.norm(found.p) / np.linalg.norm(rows, axis=1).max(), rel=1e-6)


@pytest.mark.states("attention Section H")
@pytest.mark.parametrize("seed", range(4))
def test_against_a_general_solver(seed):
    X = np.random.default_rng(seed).standard_normal((3, 3, 8))
    found, rows = margin.separate(X, [0, 1, 2]), constraint_rows(X, [0, 1, 2], None)
    settings = dict(method="SLSQP", options={"ftol": 1e-14, "maxiter": 500})
    settings["constraints"] = {"type": "ineq", "fun": lambda p: rows @ p - 1, "jac": lambda p: rows}
    other = minimize(lambda p: p @ p / 2, np.ones(8), jac=lambda p: p, **settings)
    assert other.success
    np.testing.assert_allclose(found.p, other.x, rtol=1e-5, atol=1e-6)


@pytest.mark.states("attention Section H")
def test_a_repeated_token_cannot_be_separated_from_itself():
    assert margin.separate([[[1.0, 2], [1, 2], [0, 0]]], [0]).p is None
    assert margin.separate([[[1.0, 2], [1, 2]]], [0]).p is None
    close = margin.separate([[[0.0, 0], [-1, -1e-5]], [[0, 0], [1, -1e-5]]], [0, 0])  # a hull at distance 1e-5
    np.testing.assert_allclose(close.p, [0, 1e5], rtol=1e-6, atol=1e-3)
    assert margin.separate([[[0.0, 0], [-1, -1e-9]], [[0, 0], [1, -1e-9]]], [0, 0]).p is None
    nearly = margin.separate([[[1.0, 0, 0], [0, 0, 0]], [[1.0, 1e-9, 0], [0, 0, 0]]], [0, 0])  # but not opposed
    np.testing.assert_allclose(nearly.p, [1, 0, 0], atol=1e-8)
    assert nearly.least >= LEAST


@pytest.mark.states("attention Section H")
@given(problem=problems())
def test_kkt_sees_a_p_that_is_not_optimal(problem):
    X, picked, W = problem
    found = margin.separate(X, picked, W)
    if found.p is None:
        with pytest.raises(ValueError, match="^found: "):
            margin.kkt(found, X, picked, W)
        return
    assert margin.kkt(found._replace(p=0.999 * found.p), X, picked, W)["primal"] > 9e-4
    assert margin.kkt(found._replace(p=1.001 * found.p), X, picked, W)["stationary"] > 9e-4
    assert margin.kkt(found._replace(p=1.001 * found.p), X, picked, W)["complementary"] > 9e-4
    assert margin.kkt(found._replace(multipliers=-found.multipliers), X, picked, W)["dual"] == 1


@pytest.mark.states("attention Section H")
def test_sixty_thousand_dimensions_need_no_square_array():
    X = np.random.default_rng(0).standard_normal((4, 2, 60_000))
    assert margin.separate(X, [0, 1, 0, 1]).least == pytest.approx(1, abs=1e-9)


@pytest.mark.states("attention Section 4.3 (max-margin obstacles)")
def test_angles_by_hand():
    assert margin.angle([1.0, 0], [0, 2.0]) == pytest.approx(np.pi / 2)
    assert margin.angle([1.0, 1], [-3.0, -3]) == pytest.approx(np.pi)
    np.testing.assert_allclose(margin.angle([1.0, 0], [1.0, 1e-12]), 1e-12, rtol=1e-6)
    with pytest.raises(ValueError, match="^p, q: "):
        margin.angle([0.0, 0], [1.0, 0])


@pytest.mark.states("attention Section 4.3 (max-margin obstacles)")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("low", [[[0, 0], [0, 0]], [[0, -5], [0.9, -1]]], ids=["equal", "unequal"])
def test_log_time_times_the_angle_tends_to_mismatch_where_every_token_is_support(seed, low):
    """n = 2, T = 3, d = 200, the picked tokens have scores 1 and 3, the others `low`; 3 % at log tau = 320."""
    X, Y = np.random.default_rng(seed).standard_normal((2, 3, 200)), np.array([1.0, -1])
    gamma = Y[:, None] * np.c_[[1, 3], low]
    found = margin.separate(X, [0, 0])
    assert np.sum(found.multipliers > 0) == 4
    limit, logs = margin.mismatch(found, X, Y, gamma, [0, 0]), np.array([80.0, 160, 320])
    seen = [log * margin.angle(q, found.p) for log, q in zip(logs, flow_in_q(X, Y, gamma, logs))]
    assert seen[0] < seen[1] < seen[2] == pytest.approx(limit, rel=0.03)


@pytest.mark.states("attention Section 4.3 (max-margin obstacles)")
@pytest.mark.parametrize("ratio", [1.0, 10.0, 1000.0])
def test_mismatch_of_two_orthogonal_differences_is_half_the_log_of_the_scores_ratio(ratio):
    X, gamma = [[[0.0, 0], [-1, 0], [0, -1]]], [[0, -0.01 * ratio, -0.01]]
    found = margin.separate(X, [0])
    assert margin.mismatch(found, X, [1.0], gamma, [0]) == pytest.approx(np.log(ratio) / 2, abs=1e-12)


def paper_run(seed):
    """Section 5's benign setting, n = 20, T = 8, d = 2000, |mu| = 20: tokens in coordinates, Y, scores, times."""
    sample = data.draw_experiment(data.streams(seed)[0], Setting())
    return sample.X, sample.Y, sample.X @ linear_head(data.signals(20.0, 2000)), np.array([0.0, 10, 40, 160])


@pytest.mark.states("attention Section 4.3 (max-margin obstacles)")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_in_the_papers_setting_the_directions_differ_for_any_time_and_agree_in_the_limit(seed):
    """Time 1 is 10,000 steps of 1e-4: there 0.40, 0.34, 0.43 rad with unequal scores, 0.23 with equal ones."""
    X, Y, gamma, logs = paper_run(seed)
    path = flow_in_q(X, Y, gamma, logs)
    picked = softmax(X @ path[-1]).argmax(axis=1)
    found = margin.separate(X, picked)
    of_picked = np.arange(8) == picked[:, None]
    lowest = np.min(np.where(of_picked, np.inf, Y[:, None] * gamma), axis=1, keepdims=True)
    equal = np.where(of_picked, gamma, Y[:, None] * lowest)
    unequal_angles = [margin.angle(q, found.p) for q in path]
    equal_angles = [margin.angle(q, found.p) for q in flow_in_q(X, Y, equal, logs)]
    assert unequal_angles[0] > equal_angles[0] > 0.1  # the scores matter within 10,000 steps
    assert unequal_angles[2] == pytest.approx(equal_angles[2], rel=0.1)  # and no longer at time e^40
    for angles, scores in ((unequal_angles, gamma), (equal_angles, equal)):
        assert angles[0] > angles[1] > angles[2] > angles[3] and angles[3] < 0.03
        assert 160 * angles[3] > margin.mismatch(found, X, Y, scores, picked) > 2  # a lower bound: some are no support


@pytest.mark.erratum("attention-equal-scores")
def test_equal_scores_are_neither_needed_nor_enough():
    """One sample, orthogonal differences of lengths 1 and `length`, score gaps 1000 : 1 or 1 : 1."""
    logs = np.array([80.0, 160, 320])
    for length, ratio in ((1.0, 1000.0), (3.0, 1.0)):
        X, gamma = [[[0.0, 0], [-1, 0], [0, -length]]], np.array([[0, -0.01 * ratio, -0.01]])
        found = margin.separate(X, [0])
        angles = [margin.angle(q, found.p) for q in flow_in_q(X, [1.0], gamma, logs)]
        assert angles[0] / angles[1] == pytest.approx(2, rel=0.1) and angles[1] / angles[2] == pytest.approx(2, rel=0.1)
        assert angles[0] > 5e-3  # at any time, with equal scores too
        assert logs[2] * angles[2] == pytest.approx(margin.mismatch(found, X, [1.0], gamma, [0]), rel=0.03)


@pytest.mark.states("attention Section 4.3 (max-margin obstacles)")
def test_a_support_token_that_scores_more_drives_descent_away():
    """Started at 20 times the max-margin p of the token 0 (score 0.9), the flow ends at that of token 1 (score 1)."""
    X, gamma, Y = np.array([[[1.0, 0], [0, 1], [-0.5, -0.5]]]), np.array([[0.9, 1, 0]]), [1.0]
    wanted, other = margin.separate(X, [0]), margin.separate(X, [1])
    assert margin.mismatch(wanted, X, Y, gamma, [0]) == np.inf > margin.mismatch(other, X, Y, gamma, [1])
    start = 20 * wanted.p
    assert softmax(X @ start)[0].argmax() == 0
    end = flow_in_q(X, Y, gamma, [160.0], start)[0]
    assert softmax(X @ end)[0, 1] > 1 - 1e-12
    assert margin.angle(end, wanted.p) > 1 and margin.angle(end, other.p) < 0.1


@pytest.mark.states("attention Section H")
@pytest.mark.parametrize("n", [1, 3])
def test_one_class_alone_is_well_defined(n):
    sample = data.draw_experiment(np.random.default_rng(0), Setting(n=n, T=4, d=60, norm=5.0), 0)
    Y = np.ones(n)
    gamma = sample.X @ linear_head(data.signals(5.0, 60))
    best = gamma.argmax(axis=1)
    found = margin.separate(sample.X, best)
    assert max(margin.kkt(found, sample.X, best).values()) < 1e-9
    assert margin.angle(flow_in_q(sample.X, Y, gamma, [100.0])[0], found.p) < 0.1


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda X: margin.separate(X, [0, 3]), "picked"),
        (lambda X: margin.separate(X, [0, 0.5]), "picked"),
        (lambda X: margin.separate(X, [0]), "picked"),
        (lambda X: margin.separate(X[:, :1], [0, 0]), "T"),
        (lambda X: margin.separate(X[:0], []), "X"),
        (lambda X: margin.separate(X, [0, 0], np.eye(3)), "W"),
        (lambda X: margin.mismatch(margin.separate(-X * 0, [0, 0]), X, [1, 1], X[..., 0], [0, 0]), "found"),
    ],
)
def test_bad_arguments_are_named(call, name):
    X = np.random.default_rng(0).standard_normal((2, 3, 4))
    with pytest.raises(ValueError, match=f"^{name}"):
        call(X)


def test_arguments_are_left_alone():
    X, picked = np.random.default_rng(0).standard_normal((2, 3, 8)), np.array([0, 2])
    kept = X.copy()
    X.flags.writeable = picked.flags.writeable = False
    found = margin.separate(X, picked)
    margin.kkt(found, X, picked)
    margin.mismatch(found, X, [1, 1], np.eye(3)[picked], picked)
    np.testing.assert_array_equal(X, kept)
