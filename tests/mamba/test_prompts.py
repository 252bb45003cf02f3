"""Prompts follow the laws of Definitions 1 and 2, and know what each example carries."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from refimpl.mamba.prompts import UNSEEN, test_prompts, tokens, training_prompts, unseen_outliers
from refimpl.mamba.tasks import all_tasks, balanced_tasks, condition_1, cycle, disjoint_pairs, orthogonal_patterns
from tests.strategies import seeds


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.states("mamba Section 3.2 (patterns and tasks)")
@given(seed=seeds, M1=st.integers(2, 6), M2=st.integers(1, 5), V=st.integers(1, 3), turned=st.booleans())
def test_patterns_are_orthogonal_with_their_norms(seed, M1, M2, V, turned):
    patterns = orthogonal_patterns(M1, M2, V, M1 + M2 + V + 2, 1.5, 0.7, rng(seed) if turned else None)
    rows = np.concatenate(patterns)
    norms = np.repeat([1.5**2, 0.7**2], [M1 + M2, V])
    np.testing.assert_allclose(rows @ rows.T, np.diag(norms), atol=1e-12)


@pytest.mark.states("mamba Section 3.2 (patterns and tasks)")
def test_tasks_are_all_ordered_pairs():
    assert sorted(map(tuple, all_tasks(5))) == sorted(permutations(range(5), 2))


@pytest.mark.states("mamba Condition 1")
@given(seed=seeds, M1=st.sampled_from([2, 4, 6, 8]), data=st.data())
def test_constructed_task_sets_satisfy_condition_1(seed, M1, data):
    repeats = data.draw(st.integers(1, M1 - 1))
    for tasks in (cycle(M1), all_tasks(M1), disjoint_pairs(M1), balanced_tasks(M1, repeats, rng(seed))):
        assert len(set(map(tuple, tasks))) == len(tasks)
        for j in range(M1):  # counted by hand
            assert sum(a == j for a, b in tasks) == sum(b == j for a, b in tasks) == len(tasks) / M1
        assert all(slack >= 1 for slack in condition_1(tasks, M1).values())


@pytest.mark.states("mamba Condition 1")
def test_condition_1_fails_by_hand_worked_amounts():
    at_least, at_most, covers = condition_1([(0, 1), (0, 2), (1, 0)], 3).values()
    assert (at_least, at_most, covers) == (0, 0.5, 1)  # pattern 2 is never +1, pattern 0 twice
    assert list(condition_1([(0, 1), (1, 0)], 4).values())[2] == 0.5
    assert [tuple(t) for t in cycle(3)] == [(0, 1), (1, 2), (2, 0)]


@pytest.mark.states("mamba Eq. 4", "mamba Definition 1")
def test_training_prompts_follow_definition_1():
    # 40 binomial tests at 1e-4: a false alarm in 0.4 % of seeds; the seed is 0.
    B, l, M2, V, p_a = 4000, 5, 4, 3, 0.3
    tasks = cycle(4)
    p = training_prompts(rng(), B, l, tasks, M2, V, p_a, K=0.4)
    a, b = p.tasks[:, :1], p.tasks[:, 1:]
    assert set(map(tuple, p.tasks)) == set(map(tuple, tasks))
    assert np.all((p.j == a) | (p.j == b))
    f = np.where(p.j == a, 1, -1)
    outlier = p.s >= 0
    assert not outlier[:, -1].any() and np.all(p.y[:, -1] == 0) and np.array_equal(p.z, f[:, -1])
    assert np.array_equal(p.y[:, :-1][~outlier[:, :-1]], f[:, :-1][~outlier[:, :-1]])
    assert 0.39 < np.abs(p.kappa).max() <= 0.4
    events = [(p.j == a, 0.5), (p.j[:, -1:] == a, 0.5), (outlier[:, :-1], p_a), (p.kappa > 0, 0.5)]
    events += [(np.abs(p.kappa) > 0.2, 0.5), ((p.y == f)[outlier], 0.5), ((p.y == 1)[outlier], 0.5)]
    events += [(p.k == k, 1 / M2) for k in range(M2)] + [(p.s[outlier] == s, 1 / V) for s in range(V)]
    events += [(p.tasks[:, 0] == j, 1 / 4) for j in range(4)]
    for event, law in events:
        assert binomtest(int(event.sum()), event.size, law).pvalue > 1e-4


@pytest.mark.erratum("mamba-label-of-outliers")
def test_not_every_label_is_the_tasks():
    p = training_prompts(rng(), 200, 10, cycle(4), 3, 2, 0.5)
    f = np.where(p.j == p.tasks[:, :1], 1, -1)[:, :-1]
    clean = p.s[:, :-1] < 0
    assert np.any(p.y[:, :-1] != f)  # Eq. 2 prints y_i = f(x_i)
    assert np.array_equal(p.y[:, :-1][clean], f[clean])  # Definition 1: where there is no outlier


@pytest.mark.states("mamba Eq. 5", "mamba Definition 2")
def test_test_prompts_follow_definition_2():
    # 14 binomial tests at 1e-4, seed 0.
    B, l, S, alpha = 4000, 6, 3, 0.7
    p = test_prompts(rng(), B, l, all_tasks(4), 5, S, alpha, K=2.0)
    f, outlier = np.where(p.j == p.tasks[:, :1], 1, -1), p.s >= 0
    assert 1.98 < np.abs(p.kappa).max() <= 2
    assert not outlier[:, -1].any() and np.array_equal(p.z, f[:, -1])
    assert np.array_equal(p.y[:, :-1], np.where(outlier, -f, f)[:, :-1])
    events = [(outlier[:, :-1], alpha), (p.j == p.tasks[:, :1], 0.5), (p.kappa > 1, 0.25), (p.kappa < -1, 0.25)]
    events += [(p.s[outlier] == s, 1 / S) for s in range(S)] + [(p.k == k, 1 / 5) for k in range(5)]
    for event, law in events:
        assert binomtest(int(event.sum()), event.size, law).pvalue > 1e-4


@pytest.mark.states("mamba Definition 2", "mamba Example 1")
def test_labels_of_outlier_examples():
    for labelling, expected in (
        ("flipped", lambda f: -f),
        ("targeted", np.ones_like),
        (lambda p, _: p.y[:, :-1], lambda f: f),
    ):
        p = test_prompts(rng(), 100, 8, cycle(3), 2, 1, 0.5, labelling=labelling)
        f, outlier = np.where(p.j == p.tasks[:, :1], 1, -1)[:, :-1], p.s[:, :-1] >= 0
        assert np.array_equal(p.y[:, :-1], np.where(outlier, expected(f), f))
    p = test_prompts(rng(), 2000, 8, cycle(3), 2, 1, 0.5, labelling="random")
    outlier = p.s >= 0
    assert binomtest(int((p.y[outlier] == 1).sum()), int(outlier.sum()), 0.5).pvalue > 1e-4


@pytest.mark.states("mamba Eq. 5")
@given(seed=seeds, l=st.integers(1, 9), alpha=st.floats(0, 0.99), counted=st.booleans())
def test_counts_and_placements(seed, l, alpha, counted):
    for placement in ("farthest", "closest", "random"):
        p = test_prompts(rng(seed), 5, l, cycle(3), 2, 2, alpha, counted=counted, placement=placement)
        outlier = p.s[:, :-1] >= 0
        if counted:
            assert np.all(outlier.sum(axis=1) == np.floor(alpha * l + 0.5))
        if placement == "closest":
            assert np.all(np.diff(outlier.astype(int), axis=1) >= 0)
        if placement == "farthest":
            assert np.all(np.diff(outlier.astype(int), axis=1) <= 0)


@pytest.mark.states("mamba Eq. 5")
def test_counts_are_rounded_half_up():
    # 0.29 * 50 is 14.499999999999998 as a float, 14.5 by its digits.
    for alpha, l, n in ((0.29, 50, 15), (0.5, 5, 3), (0.1, 5, 1), (0.499, 1, 0), (0.58, 25, 15)):
        assert np.all(np.sum(test_prompts(rng(), 3, l, cycle(3), 2, 2, alpha, counted=True).s >= 0, axis=1) == n)


@pytest.mark.states("mamba Eq. 5")
def test_counted_outliers_stand_anywhere_when_random():
    # l binomial tests at 1e-4, seed 0.
    outlier = test_prompts(rng(), 3000, 5, cycle(3), 2, 2, 0.4, counted=True).s[:, :-1] >= 0
    assert all(binomtest(int(n), 3000, 0.4).pvalue > 1e-4 for n in outlier.sum(axis=0))


@pytest.mark.states("mamba Eq. 5")
def test_unseen_outliers_are_mixtures_and_something_orthogonal():
    v, u = 2 * np.eye(3, 6), np.eye(1, 6, 5)
    expected = np.pad(2 * np.array(UNSEEN), ((0, 0), (0, 3)))
    np.testing.assert_allclose(unseen_outliers(v, UNSEEN), expected)
    np.testing.assert_allclose(unseen_outliers(v, UNSEEN, np.repeat(u, 3, 0)), expected + u)
    assert np.isclose(np.sum(UNSEEN, axis=1).min(), 0.3)  # Section 4.1: L = 0.3
    for mixture, extra, name in (([[1, -1, 0]], None, "mixture"), ([[1, 0, 0]], [[1, 0, 0, 0, 0, 0]], "u")):
        with pytest.raises(ValueError, match=f"^{name}: "):
            unseen_outliers(v, mixture, extra)


@pytest.mark.states("mamba Eq. 2", "mamba Eq. 4")
@given(seed=seeds)
def test_tokens_are_what_the_prompt_says_they_carry(seed):
    patterns = orthogonal_patterns(3, 2, 2, 9, 2.0, 1.5, rng(seed))
    p = training_prompts(rng(seed), 3, 4, cycle(3), 2, 2, 0.5)
    outliers = 1.7 * patterns.v
    P = tokens(p, patterns, outliers)
    assert P.shape == (3, 5, 10) and np.all(P[:, -1, -1] == 0)
    for n in range(3):
        for i in range(5):
            x = patterns.mu[p.j[n, i]] + p.kappa[n, i] * patterns.nu[p.k[n, i]]
            x = x + outliers[p.s[n, i]] if p.s[n, i] >= 0 else x
            np.testing.assert_allclose(P[n, i], np.append(x, p.y[n, i]), atol=1e-14)


@pytest.mark.parametrize(
    "harm, name",
    [
        ({"alpha": 1.0}, "alpha"),
        ({"alpha": -0.1}, "alpha"),
        ({"alpha": np.nan}, "alpha"),
        ({"K": -1}, "K"),
        ({"labelling": "other"}, "labelling"),
        ({"placement": "left"}, "placement"),
        ({"B": 0}, "B"),
        ({"l": 0}, "l"),
        ({"tasks": [(1, 1)]}, "tasks"),
        ({"tasks": [(0.5, 1)]}, "tasks"),
        ({"S": 0}, "S"),
        ({"labelling": lambda p, _: np.ones((1, 1))}, "labelling"),
        ({"labelling": lambda p, _: np.zeros_like(p.z)}, "labelling"),
    ],
)
def test_bad_arguments_are_named(harm, name):
    good = dict(rng=rng(), B=2, l=3, tasks=cycle(3), M2=2, S=1, alpha=0.5)
    with pytest.raises(ValueError, match=f"^{name}: "):
        test_prompts(**{**good, **harm})


def test_same_seed_same_prompts_and_the_global_state_is_left_alone():  # case E1
    before = np.random.get_state()[1].copy()
    one, two = (training_prompts(rng(7), 4, 5, cycle(3), 2, 2, 0.5) for _ in range(2))
    assert all(np.array_equal(x, y) for x, y in zip(one, two))
    assert np.array_equal(before, np.random.get_state()[1])


def test_patterns_too_few_are_named():
    p = training_prompts(rng(), 4, 6, cycle(4), 3, 2, 0.5)
    for M1, M2, V, name in ((2, 3, 2, "patterns"), (4, 1, 2, "patterns"), (4, 3, 1, "outliers")):
        few = orthogonal_patterns(M1, M2, V, 12)
        with pytest.raises(ValueError, match=f"^{name}: "):
            tokens(p, few, few.v)
