"""Patterns are orthogonal with their norms, and sets of tasks satisfy Condition 1, counted by hand."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.mamba.tasks import (
    all_tasks,
    balanced_tasks,
    condition_1,
    cycle,
    disjoint_pairs,
    orthogonal_patterns,
    pairs,
)
from tests.strategies import seeds


@pytest.mark.states("mamba Condition 1")
def test_condition_1_fails_by_hand_worked_amounts():
    at_least, at_most, covers = condition_1([(0, 1), (0, 2), (1, 0)], 3).values()
    assert (at_least, at_most, covers) == (0, 0.5, 1)  # pattern 2 is never +1, pattern 0 twice
    assert list(condition_1([(0, 1), (1, 0)], 4).values())[2] == 0.5
    assert [tuple(t) for t in cycle(3)] == [(0, 1), (1, 2), (2, 0)]


@pytest.mark.states("mamba Section 3.2 (patterns and tasks)", "mamba Condition 1")
def test_small_sets_written_out():
    assert [tuple(t) for t in all_tasks(3)] == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    assert [tuple(t) for t in disjoint_pairs(4)] == [(0, 1), (1, 0), (2, 3), (3, 2)]
    mu, nu, v = orthogonal_patterns(2, 1, 1, 5, 2.0, 3.0)
    rows = [[2, 0, 0, 0, 0], [0, 2, 0, 0, 0], [0, 0, 2, 0, 0], [0, 0, 0, 3, 0]]
    assert [*mu.tolist(), *nu.tolist(), *v.tolist()] == rows


@pytest.mark.states("mamba Section 3.2 (patterns and tasks)")
@given(seed=seeds, M1=st.integers(2, 6), M2=st.integers(1, 5), V=st.integers(1, 3), turned=st.booleans())
def test_patterns_are_orthogonal_with_their_norms(seed, M1, M2, V, turned):
    rng = np.random.default_rng(seed) if turned else None
    patterns = orthogonal_patterns(M1, M2, V, M1 + M2 + V + 2, 1.5, 0.7, rng)
    rows = np.concatenate(patterns)
    norms = np.repeat([1.5**2, 0.7**2], [M1 + M2, V])
    np.testing.assert_allclose(rows @ rows.T, np.diag(norms), atol=1e-12)


@pytest.mark.states("mamba Section 3.2 (patterns and tasks)")
def test_tasks_are_all_ordered_pairs():
    assert sorted(map(tuple, all_tasks(5))) == sorted(permutations(range(5), 2))


@pytest.mark.states("mamba Condition 1")
@given(seed=seeds, M1=st.sampled_from([2, 4, 6, 8]), data=st.data())
def test_constructed_task_sets_satisfy_condition_1(seed, M1, data):
    rng, repeats = np.random.default_rng(seed), data.draw(st.integers(1, M1 - 1))
    for tasks in (cycle(M1), all_tasks(M1), disjoint_pairs(M1), balanced_tasks(M1, repeats, rng)):
        assert len(set(map(tuple, tasks))) == len(tasks)
        for j in range(M1):  # counted by hand
            assert sum(a == j for a, b in tasks) == sum(b == j for a, b in tasks) == len(tasks) / M1
        assert all(slack >= 1 for slack in condition_1(tasks, M1).values())


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: disjoint_pairs(5), "M1"),
        (lambda: balanced_tasks(4, 4, np.random.default_rng(0)), "repeats"),
        (lambda: pairs([(1, 1)]), "tasks"),
        (lambda: pairs([(0.5, 1)]), "tasks"),
        (lambda: pairs([(0, 3)], 3), "tasks"),
        (lambda: pairs([(-1, 0)]), "tasks"),
        (lambda: condition_1([(0, 3)], 3), "tasks"),
        (lambda: orthogonal_patterns(2, 2, 2, 5), "d"),
        (lambda: orthogonal_patterns(2, 2, 2, 6, beta=0.5), "beta"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        call()


def test_patterns_too_large_are_refused_by_their_size():
    """Case H4."""
    with pytest.raises(ValueError, match="GiB"):
        orthogonal_patterns(6, 10, 3, 10**9)
