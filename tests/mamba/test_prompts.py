"""Prompts follow the laws of Definitions 1 and 2, and know what each example carries."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from refimpl.mamba.prompts import Prompts, stream, test_prompts, tokens, training_prompts, unseen_outliers
from refimpl.mamba.setting import UNSEEN, Setting, Testing
from refimpl.mamba.tasks import all_tasks, cycle, orthogonal_patterns
from tests.strategies import seeds

SMALL = Setting(M1=3, M2=2, V=2, p_a=0.5)


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.states("mamba Eq. 2", "mamba Eq. 4", "mamba Eq. 5")
def test_the_tokens_of_one_prompt_by_hand():
    """x = mu_j + kappa nu_k, on the second example + 1.5 v, and the label last; mu, nu of norm 2, v of norm 3."""
    patterns = orthogonal_patterns(2, 1, 1, 4, 2.0, 3.0)
    tasks, j, k, s = (np.array([x]) for x in ([0, 1], [0, 1, 1], [0, 0, 0], [-1, 0, -1]))
    prompt = Prompts(tasks, j, k, np.array([[0.5, -0.5, 0.0]]), s, np.array([[1.0, 1.0, 0.0]]), np.array([-1.0]))
    expected = [[[2, 0, 1, 0, 1], [0, 2, -1, 4.5, 1], [0, 2, 0, 0, 0]]]
    assert tokens(prompt, patterns, 1.5 * patterns.v).tolist() == expected


@pytest.mark.states("mamba Eq. 4", "mamba Definition 1")
def test_training_prompts_follow_definition_1():
    """Patterns, outliers and their labels follow the law of Definition 1.

    40 binomial tests at 1e-4: a false alarm in 0.4 % of seeds; the seed is 0.
    """
    B, l, M2, V, p_a = 4000, 5, 4, 3, 0.3
    setting = Setting(M1=4, M2=M2, V=V, p_a=p_a, l=l, K=0.4)
    p = training_prompts(rng(), B, setting)
    a, b = p.tasks[:, :1], p.tasks[:, 1:]
    assert set(map(tuple, p.tasks)) == set(map(tuple, cycle(4)))
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
    p = training_prompts(rng(), 200, Setting(M1=4, M2=3, V=2, p_a=0.5, l=10))
    f = np.where(p.j == p.tasks[:, :1], 1, -1)[:, :-1]
    clean = p.s[:, :-1] < 0
    assert np.any(p.y[:, :-1] != f)  # Eq. 2 prints y_i = f(x_i)
    assert np.array_equal(p.y[:, :-1][clean], f[clean])  # Definition 1: where there is no outlier


@pytest.mark.states("mamba Section 8.3 (algorithm)", "mamba Definition 1")
def test_every_batch_is_fresh():
    drawn = list(islice(stream(rng(), 3, SMALL._replace(l=6, tasks=[(0, 2)])), 9))
    kappas = np.concatenate([p.kappa.ravel() for p in drawn])
    assert len(np.unique(kappas)) == kappas.size == 9 * 3 * 7  # no number is used twice
    assert all(len(x) == 3 for p in drawn for x in p) and all(np.all(p.tasks == (0, 2)) for p in drawn)


@pytest.mark.states("mamba Eq. 5", "mamba Definition 2")
def test_test_prompts_follow_definition_2():
    """Definition 2's law with flipped labels and K' = 2: 14 binomial tests at 1e-4, seed 0."""
    B, l, S, alpha = 4000, 6, 3, 0.7
    testing = Testing(tasks=all_tasks(4), mixture=np.eye(S), alpha=alpha, l=l, K=2.0)
    p = test_prompts(rng(), B, Setting(M1=4, M2=5), testing)
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
    setting = Setting(M1=3, M2=2, V=1, l=8)
    for labelling, expected in (
        ("flipped", lambda f: -f),
        ("targeted", np.ones_like),
        (lambda p, _: p.y[:, :-1], lambda f: f),
    ):
        p = test_prompts(rng(), 100, setting, Testing(labelling=labelling))
        f, outlier = np.where(p.j == p.tasks[:, :1], 1, -1)[:, :-1], p.s[:, :-1] >= 0
        assert np.array_equal(p.y[:, :-1], np.where(outlier, expected(f), f))
    p = test_prompts(rng(), 2000, setting, Testing(labelling="random"))
    outlier = p.s >= 0
    assert binomtest(int((p.y[outlier] == 1).sum()), int(outlier.sum()), 0.5).pvalue > 1e-4


@pytest.mark.states("mamba Eq. 5")
@given(seed=seeds, l=st.integers(1, 9), alpha=st.floats(0, 0.99), counted=st.booleans())
def test_counts_and_placements(seed, l, alpha, counted):
    for placement in ("farthest", "closest", "random"):
        testing = Testing(alpha=alpha, l=l, counted=counted, placement=placement)
        p = test_prompts(rng(seed), 5, SMALL, testing)
        outlier = p.s[:, :-1] >= 0
        if counted:
            assert np.all(outlier.sum(axis=1) == np.floor(alpha * l + 0.5))
        if placement == "closest":
            assert np.all(np.diff(outlier.astype(int), axis=1) >= 0)
        if placement == "farthest":
            assert np.all(np.diff(outlier.astype(int), axis=1) <= 0)


@pytest.mark.states("mamba Eq. 5")
def test_counts_are_rounded_half_up():
    """0.29 * 50 is 14.499999999999998 as a float, 14.5 by its digits."""
    for alpha, l, n in ((0.29, 50, 15), (0.5, 5, 3), (0.1, 5, 1), (0.499, 1, 0), (0.58, 25, 15)):
        p = test_prompts(rng(), 3, SMALL, Testing(alpha=alpha, l=l, counted=True))
        assert np.all(np.sum(p.s >= 0, axis=1) == n)


@pytest.mark.states("mamba Eq. 5")
def test_counted_outliers_stand_anywhere_when_random():
    """Each place has its share of the outliers: l binomial tests at 1e-4, seed 0."""
    p = test_prompts(rng(), 3000, SMALL, Testing(alpha=0.4, l=5, counted=True))
    outlier = p.s[:, :-1] >= 0
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
    p = training_prompts(rng(seed), 3, SMALL._replace(l=4))
    outliers = 1.7 * patterns.v
    P = tokens(p, patterns, outliers)
    assert P.shape == (3, 5, 10) and np.all(P[:, -1, -1] == 0)
    for n in range(3):
        for i in range(5):
            x = patterns.mu[p.j[n, i]] + p.kappa[n, i] * patterns.nu[p.k[n, i]]
            x = x + outliers[p.s[n, i]] if p.s[n, i] >= 0 else x
            np.testing.assert_allclose(P[n, i], np.append(x, p.y[n, i]), atol=1e-14)


def test_no_outliers_at_alpha_zero():
    p = test_prompts(rng(), 4, Setting(M1=2, M2=1, V=1, l=3), Testing(alpha=0.0))
    assert np.all(p.s == -1)


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
        ({"mixture": np.zeros((0, 1))}, "mixture"),
        ({"labelling": lambda p, _: np.ones((1, 1))}, "labelling"),
        ({"labelling": lambda p, _: np.zeros_like(p.z)}, "labelling"),
    ],
)
def test_bad_arguments_are_named(harm, name):
    B = harm.get("B", 2)
    testing = Testing(l=3)._replace(**{key: value for key, value in harm.items() if key != "B"})
    with pytest.raises(ValueError, match=f"^{name}: "):
        test_prompts(rng(), B, Setting(M1=3, M2=2, V=1), testing)


def test_same_seed_same_prompts_and_the_global_state_is_left_alone():
    """Case E1."""
    before = np.random.get_state()[1].copy()
    one, two = (training_prompts(rng(7), 4, SMALL._replace(l=5)) for _ in range(2))
    assert all(np.array_equal(x, y) for x, y in zip(one, two))
    assert np.array_equal(before, np.random.get_state()[1])


def test_patterns_too_few_are_named():
    p = training_prompts(rng(), 4, Setting(M1=4, M2=3, V=2, p_a=0.5, l=6))
    for M1, M2, V, name in ((2, 3, 2, "patterns"), (4, 1, 2, "patterns"), (4, 3, 1, "outliers")):
        few = orthogonal_patterns(M1, M2, V, 12)
        with pytest.raises(ValueError, match=f"^{name}: "):
            tokens(p, few, few.v)


def test_tokens_too_large_are_refused_by_their_size():
    """Case H4."""
    p = training_prompts(rng(), 128, Setting(p_a=0.5))
    with pytest.raises(ValueError, match="GiB"):
        tokens(p, orthogonal_patterns(6, 10, 3, 10**5), np.zeros((3, 10**5)))
