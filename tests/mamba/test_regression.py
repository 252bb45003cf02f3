"""The regression prompts' law, the gradients of the squared loss, and what random labels do to it."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from refimpl.calculus.differences import central_difference, gradient_error
from refimpl.mamba.model import Weights, output
from refimpl.mamba.prompts import tokens
from refimpl.mamba.regression import label_average, loss, loss_gradient, regression_prompts, sgd_gradient
from refimpl.mamba.setting import Setting
from refimpl.mamba.tasks import orthogonal_patterns
from tests.mamba.draws import models
from tests.mamba.test_model import slow_output, slow_output_gradient_w
from tests.strategies import seeds


@pytest.mark.states("mamba Section 14 (regression)")
def test_the_squared_loss_by_hand():
    """The prompt of test_model: F = 9/16 and z = -1/2, so that each gradient is F - z = 17/16 times that of F."""
    P = np.array([[[1.0, 1.0], [2.0, -1.0], [3.0, 0.0]]])
    Psi = Weights(np.array([[2.0, 0.0]]), np.array([[3.0, 0.0]]), np.array([0.0, np.log(3)]))
    assert loss(P, [-0.5], Psi) == pytest.approx(289 / 512)
    by, F = sgd_gradient(P, np.array([-0.5]), Psi)
    np.testing.assert_allclose(F, [9 / 16])
    for got, expected in zip(by, ([[9 / 32, 117 / 32]], [[3 / 16, 0]], [-567 / 64, 189 / 32])):
        np.testing.assert_allclose(got, 17 / 16 * np.array(expected))
    # At w = 0, G = (1/8, 1/4, 1/2), attention (18, 36, 54), the second an outlier: F_c = 9/4, and its (36/4)^2 / 2.
    clean, penalty = label_average(P, [1.25], Psi._replace(w=np.zeros(2)), [[0, 1, 0]])
    np.testing.assert_allclose([clean, penalty], [[1 / 2], [81 / 2]])


@pytest.mark.states("mamba Section 14 (regression)")
def test_labels_are_the_linear_function_of_x_and_random_on_outliers():
    beta, (M1, M2, V) = 2.0, (4, 3, 2)
    patterns = orthogonal_patterns(M1, M2, V, 11, beta, rng=np.random.default_rng(1))
    p = regression_prompts(np.random.default_rng(0), 500, Setting(M1=M1, M2=M2, V=V, p_a=0.4, l=12))
    P = tokens(p, patterns, 2 * patterns.v)
    f = np.einsum("nid,nd->ni", P[..., :-1], p.tasks @ patterns.mu / beta**2)  # theta = sum_j theta_j mu_j / beta^2
    clean = p.s[:, :-1] < 0
    np.testing.assert_allclose(p.y[:, :-1][clean], f[:, :-1][clean], atol=1e-12)
    np.testing.assert_allclose(p.z, f[:, -1], atol=1e-12)
    assert np.all(p.s[:, -1] == -1) and np.all(p.y[:, -1] == 0) and np.all(np.abs(p.kappa) <= 0.5)
    # Seed 0, each p-value against 1e-3: six false-alarm chances of that size.
    outlier_labels = p.y[:, :-1][~clean]
    assert kstest(p.tasks.ravel(), "norm").pvalue > 1e-3 and kstest(outlier_labels, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(outlier_labels, f[:, :-1][~clean])[0, 1]) < 3.3 / np.sqrt(len(outlier_labels))
    assert chisquare(np.bincount(p.j.ravel())).pvalue > 1e-3
    assert chisquare(np.bincount(p.s[p.s >= 0])).pvalue > 1e-3
    assert chisquare([clean.sum(), (~clean).sum()], [0.6 * clean.size, 0.4 * clean.size]).pvalue > 1e-3


@pytest.mark.states("mamba Section 14 (regression)")
@given(drawn=models(most=3), seed=seeds, gated=st.booleans())
def test_gradients_against_differences_and_the_displayed_sums(drawn, seed, gated):
    P, _, Psi = drawn
    z = np.random.default_rng(seed).standard_normal(len(P))
    Psi = Psi if gated else Psi._replace(w=None)
    F = np.array([slow_output(p, Psi) for p in P])
    assert loss(P, z, Psi) == pytest.approx(np.mean((F - z) ** 2) / 2)
    got = loss_gradient(P, z, Psi)
    for name, x in Psi._asdict().items():
        if x is not None:
            numeric = central_difference(lambda x: loss(P, z, Psi._replace(**{name: x})), x)
            np.testing.assert_allclose(getattr(got, name), numeric, rtol=1e-5, atol=1e-7 * (1 + loss(P, z, Psi)))
    if gated:
        slow = np.mean([(f - t) * slow_output_gradient_w(p, Psi) for f, t, p in zip(F, z, P)], axis=0)
        np.testing.assert_allclose(got.w, slow, rtol=1e-8, atol=1e-9)
    else:
        assert got.w is None


def small(seed=0):
    """P (1, 5, 4), z, Psi that do not see labels, and which two of the four examples carry an outlier."""
    rng = np.random.default_rng(seed)
    P = rng.standard_normal((1, 5, 4))
    P[:, -1, -1] = 0
    Psi = Weights(*rng.standard_normal((2, 3, 4)), rng.standard_normal(4))
    Psi.W_B[:, -1], Psi.w[-1] = 0, 0
    return P, rng.standard_normal(1), Psi, np.array([[False, True, False, True, False]])


@pytest.mark.states("mamba Section 14 (regression)")
@given(seed=seeds)
def test_the_average_over_labels_is_the_clean_loss_and_a_penalty(seed):
    P, z, Psi, carried = small(seed)
    total = 0.0
    for signs in itertools.product((-1.0, 1.0), repeat=2):  # mean 0 and variance 1, as N(0, 1) has
        P[0, carried[0], -1] = signs
        total += loss(P, z, Psi) / 4
    clean, penalty = label_average(P, z, Psi, carried)
    np.testing.assert_allclose(clean + penalty, total, rtol=1e-9)
    P[0, carried[0], -1] = 0
    np.testing.assert_allclose(clean, loss(P, z, Psi), rtol=1e-9)
    with pytest.raises(ValueError, match="^Psi: "):
        label_average(P, z, Psi._replace(w=Psi.w + 1), carried)


@pytest.mark.states("mamba Section 14 (regression)")
@pytest.mark.parametrize("K", [0.05, 0.4])
def test_kappa_fills_its_range(K):
    setting = Setting(M1=4, M2=3, V=2, p_a=0.4, l=12, K=K)
    kappa = np.abs(regression_prompts(np.random.default_rng(0), 50, setting).kappa)
    assert 0.98 * K < kappa.max() <= K


@pytest.mark.parametrize("B, change, name", [(0, {}, "B"), (1, dict(p_a=1.0), "p_a"), (1, dict(K=0.7), "K")])
def test_bad_arguments_are_named(B, change, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        regression_prompts(np.random.default_rng(0), B, Setting(**change))


# Where the paper as printed is wrong.


@pytest.mark.erratum("mamba-regression-sign")
@given(drawn=models(most=3))
def test_the_printed_gradient_in_w_goes_uphill(drawn):
    P, z, Psi = drawn
    printed = np.zeros_like(Psi.w)
    for p, target in zip(P, z):
        sum_as_printed = -slow_output_gradient_w(p, Psi)  # sum_i y_i s_i G_i (sum_s sigma_s p_s - (1 - sigma_i) p_i)
        printed += (output(p, Psi) - target) * sum_as_printed / len(P)
    right = loss_gradient(P, z, Psi).w
    np.testing.assert_allclose(printed, -right, rtol=1e-8, atol=1e-9)
    if np.linalg.norm(right) > 1e-3:
        assert gradient_error(lambda w: loss(P, z, Psi._replace(w=w)), right, Psi.w) < 1e-4
        step = 1e-6 / np.linalg.norm(right)
        assert loss(P, z, Psi._replace(w=Psi.w - step * printed)) > loss(P, z, Psi._replace(w=Psi.w - step * right))


@pytest.mark.erratum("mamba-regression-cancel")
def test_random_labels_do_not_cancel_in_the_squared_loss():
    P, z, Psi, carried = small()
    by_label = []
    for signs in itertools.product((-1.0, 1.0), repeat=2):
        P[0, carried[0], -1] = signs
        by_label.append(loss_gradient(P, z, Psi))
    P[0, carried[0], -1] = 0  # as if the outliers were not there
    without = loss_gradient(P, z, Psi)
    for name in ("W_B", "W_C", "w"):
        left = np.mean([getattr(g, name) for g in by_label], axis=0) - getattr(without, name)
        if name != "W_C":  # the label coordinate, held at 0 by assumption
            left[..., -1] = 0
        penalty = lambda x: label_average(P, z, Psi._replace(**{name: x}), carried)[1].sum()
        numeric = np.zeros_like(left)
        for place in np.ndindex(left.shape):
            if name == "W_C" or place[-1] < left.shape[-1] - 1:
                up, down = getattr(Psi, name).copy(), getattr(Psi, name).copy()
                up[place] += 1e-5
                down[place] -= 1e-5
                numeric[place] = (penalty(up) - penalty(down)) / 2e-5
        np.testing.assert_allclose(left, numeric, rtol=1e-5, atol=1e-7)
        assert np.max(np.abs(left)) > 1e-2  # printed: zero
    # Under the hinge, while every z F < 1, they do cancel: F is linear in the labels.
    F = []
    for signs in itertools.product((-1.0, 1.0), repeat=2):
        P[0, carried[0], -1] = signs
        F.append(output(P, Psi))
    P[0, carried[0], -1] = 0
    np.testing.assert_allclose(np.mean(F, axis=0), output(P, Psi), atol=1e-12)
