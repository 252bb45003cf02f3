"""What a Setting and a Testing hold and stand for; what is out of range is named wherever they go."""

import numpy as np
import pytest

from refimpl.mamba.prompts import stream, test_prompts, training_prompts
from refimpl.mamba.runs.patterns import batches
from refimpl.mamba.setting import UNSEEN, Setting, Testing, checked, filled
from refimpl.mamba.tasks import all_tasks, cycle, disjoint_pairs


@pytest.mark.states("mamba Eq. 4", "mamba Eq. 5", "mamba Theorem 1")
def test_outliers_by_hand():
    """kappa_a |v| = 1.5 * 2 along each axis in training; in testing kappa_a' |v| = 4 * 2 times the mixture."""
    setting = Setting(V=2, kappa_a=1.5, outlier_norm=2.0)
    assert setting.outliers().tolist() == [[3, 0], [0, 3]]
    testing = Testing(mixture=[[0.5, 0.5], [1.0, -0.5], [0.0, 0.25]], kappa_a=4.0)
    assert testing.outliers(setting).tolist() == [[4, 4], [8, -4], [0, 2]]


@pytest.mark.states("mamba Eq. 5")
def test_outliers_of_section_4_1():
    setting = Setting(outlier_norm=2.0)
    unseen, training = Testing(mixture=UNSEEN, kappa_a=4.0), Testing(kappa_a=3.0)
    np.testing.assert_allclose(unseen.outliers(setting), 8 * np.array(UNSEEN))
    np.testing.assert_allclose(training.outliers(setting), 6 * np.eye(3))


@pytest.mark.states("mamba Condition 1", "mamba Definition 2")
def test_none_means_as_in_training():
    """A Setting's tasks are the cycle's; a Testing takes the Setting's tasks, outliers, kappa_a, l and K."""
    setting = Setting(M1=4, V=2, kappa_a=1.5, l=7, K=0.25, outlier_norm=2.0)
    assert np.array_equal(setting.training_tasks(), cycle(4)) and np.array_equal(checked(setting).tasks, cycle(4))
    setting = setting._replace(tasks=[(0, 2), (2, 0)])
    got = filled(Testing(), setting)
    assert got.tasks.tolist() == [[0, 2], [2, 0]] and got.mixture.tolist() == [[1, 0], [0, 1]]
    assert (got.kappa_a, got.l, got.K, got.alpha) == (1.5, 7, 0.25, 0.5)
    assert np.array_equal(Testing().outliers(setting), setting.outliers())
    p = test_prompts(np.random.default_rng(0), 200, setting, Testing())
    assert p.y.shape == (200, 8) and 0.24 < np.abs(p.kappa).max() <= 0.25 and set(p.s[p.s >= 0]) == {0, 1}
    assert set(map(tuple, p.tasks)) == {(0, 2), (2, 0)}
    explicit = Testing([(0, 2), (2, 0)], np.eye(2), 1.5, 0.5, 7, 0.25)
    same = test_prompts(np.random.default_rng(0), 200, setting, explicit)
    assert all(np.array_equal(x, y) for x, y in zip(p, same))


@pytest.mark.states("mamba Definition 2")
def test_what_a_testing_gives_is_kept():
    given = Testing(disjoint_pairs(4), [[0.7, -0.2]], 3.0, 0.25, 9, 2.0, "targeted", True, "closest")
    got = filled(given, Setting(M1=4, V=2))
    assert got.tasks.tolist() == [[0, 1], [1, 0], [2, 3], [3, 2]] and got.mixture.tolist() == [[0.7, -0.2]]
    assert got[2:] == given[2:]


def test_the_defaults_are_section_4_1s():
    s = Setting()
    assert (s.d, s.M1, s.M2, s.V, s.beta, s.kappa_a, s.p_a, s.l) == (30, 6, 10, 3, 3.0, 2.0, 0.6, 20)
    assert checked(s)._replace(tasks=None) == s and np.array_equal(checked(s).tasks, cycle(6))
    assert checked(Setting(tasks=all_tasks(6))).tasks.shape == (30, 2)


def test_a_count_may_be_an_integral_float():
    s = checked(Setting(d=1e12, M1=6.0, M2=10.0, V=3.0, l=20.0, B=128.0))
    assert (s.d, s.M1, s.M2, s.V, s.l, s.B) == (10**12, 6, 10, 3, 20, 128)
    assert all(type(x) is int for x in (s.d, s.M1, s.M2, s.V, s.l, s.B))


@pytest.mark.parametrize(
    "change",
    [
        dict(d=0),
        dict(d=2.5),
        dict(M1=1),
        dict(M2=0),
        dict(V=0),
        dict(beta=-3.0),
        dict(beta=np.nan),
        dict(kappa_a=np.inf),
        dict(kappa_a=0.0),
        dict(p_a=1.0),
        dict(p_a=-0.1),
        dict(l=0),
        dict(l=2.5),
        dict(delta=0.0),
        dict(K=0.6),
        dict(K=-0.1),
        dict(outlier_norm=0.0),
        dict(eta=0.0),
        dict(eta=np.nan),
        dict(B=0),
        dict(B=np.nan),
        dict(epsilon=0.0),
        dict(epsilon=1.0),
        dict(tasks=[(0, 6)]),
        dict(tasks=[(1, 1)]),
    ],
)
def test_every_field_of_a_setting_out_of_range_is_named(change):
    """By whatever draws from it, and before the first batch."""
    (name,) = change
    setting, rng = Setting(**change), np.random.default_rng(0)
    for refuses in (
        lambda: checked(setting),
        lambda: training_prompts(rng, 1, setting),
        lambda: stream(rng, 1, setting),
        lambda: batches(rng, setting._replace(B=1) if name != "B" else setting),
    ):
        with pytest.raises(ValueError, match=f"^{name}: "):
            refuses()


@pytest.mark.parametrize(
    "change",
    [
        dict(tasks=[(0, 6)]),
        dict(tasks=[(1, 1)]),
        dict(mixture=[[1.0, 0.0]]),
        dict(mixture=[1.0, 0.0, 0.0]),
        dict(mixture=[[np.nan, 0.0, 0.0]]),
        dict(kappa_a=0.0),
        dict(kappa_a=np.nan),
        dict(alpha=1.0),
        dict(alpha=-0.1),
        dict(l=0),
        dict(l=2.5),
        dict(K=-1.0),
        dict(labelling="other"),
        dict(placement="left"),
    ],
)
def test_every_field_of_a_testing_out_of_range_is_named(change):
    (name,) = change
    testing = Testing(**change)
    with pytest.raises(ValueError, match=f"^{name}: "):
        test_prompts(np.random.default_rng(0), 1, Setting(), testing)
    if name not in ("labelling", "placement"):  # which the prompts alone read
        for refuses in (lambda: filled(testing, Setting()), lambda: testing.outliers(Setting())):
            with pytest.raises(ValueError, match=f"^{name}: "):
                refuses()
