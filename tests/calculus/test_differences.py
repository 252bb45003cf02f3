"""The checker checked: right on what is known exactly, and red for a gradient that is slightly off."""

import numpy as np
import pytest

from refimpl.calculus.differences import central_difference, gradient_error, one_sided_differences
from refimpl.calculus.softmax import softmax, softmax_jvp


def test_derivatives_worked_by_hand():
    """x^2 y at (3, 2): (2xy, x^2) = (12, 9); the kink of |x| at 0: -1 from the left, 1 from the right."""
    np.testing.assert_allclose(central_difference(lambda x: x[0] ** 2 * x[1], [3.0, 2.0]), [12, 9], rtol=1e-9)
    left, right = one_sided_differences(lambda x: np.abs(x[0]), [0.0])
    np.testing.assert_allclose((left[0], right[0]), (-1, 1))


def test_a_quadratic_form_exactly_up_to_rounding():
    A = np.arange(9.0).reshape(3, 3)
    x = np.array([1.0, -2.0, 3.0])
    np.testing.assert_allclose(central_difference(lambda x: x @ A @ x, x), (A + A.T) @ x, rtol=1e-9)


def test_an_array_valued_function_has_its_output_axes_first():
    A = np.arange(12.0).reshape(3, 4)
    J = central_difference(lambda X: A @ X, np.ones((4, 2)))
    np.testing.assert_allclose(J, np.einsum("ik,jl->ijkl", A, np.eye(2)), atol=1e-9)


@pytest.mark.parametrize("planted, caught", [(0.0, False), (1e-3, True), (-1e-3, True), (1e-2, True)])
def test_one_entry_off_by_a_part_in_a_thousand_is_caught(planted, caught):
    x = np.array([0.3, -1.2, 2.0])
    gradient = np.exp(x)
    gradient[1] *= 1 + planted
    error = gradient_error(lambda x: np.sum(np.exp(x)), gradient, x)
    assert (error > 1e-6) == caught


def test_the_diagonal_alone_of_the_softmax_jacobian_is_caught():
    z, u = np.array([0.2, -1.0, 0.7]), np.array([1.0, 2.0, 3.0])
    s = softmax(z)
    np.testing.assert_allclose(softmax_jvp(s, u), [-0.413541, -0.022454, 0.435995], atol=1e-6)
    assert gradient_error(lambda z: softmax(z) @ u, softmax_jvp(s, u), z) < 1e-8
    assert gradient_error(lambda z: softmax(z) @ u, s * (1 - s) * u, z) > 0.1


def test_float32_and_integers_are_cast_before_the_step():
    assert gradient_error(lambda x: np.sum(x**3), 3 * np.ones(2), np.ones(2, np.float32)) < 1e-8
    assert gradient_error(lambda x: np.sum(x**3), 12 * np.ones(2), np.array([2, 2])) < 1e-8


def test_the_two_sides_of_a_kink():
    """At max(2x, -3x) + 5x, and at a point beside the kink: each side its own slope, then both the same."""

    def f(x):
        return np.maximum(2 * x[0], -3 * x[0]) + 5 * x[0]

    np.testing.assert_allclose(one_sided_differences(f, [0.0]), [[2], [7]], rtol=1e-9)
    np.testing.assert_allclose(one_sided_differences(f, [1.0]), [[7], [7]], rtol=1e-9)


def test_a_gradient_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"^gradient: must have shape \(2,\)"):
        gradient_error(lambda x: x @ x, np.ones((2, 1)), np.ones(2))


def test_the_step_grows_with_the_point_and_never_shrinks_below_its_value_at_one():
    seen = []

    def f(x):
        seen.append(x[0])
        return 0.0

    h = np.finfo(float).eps ** (1 / 3)
    central_difference(f, [1000.0])
    central_difference(f, [0.01])
    one_sided_differences(f, [0.01])
    expected = [1000 + 1000 * h, 1000 - 1000 * h, 0.01 + h, 0.01 - h, 0.01, 0.01 - h, 0.01 + h, 0.01]
    np.testing.assert_allclose(seen, expected, rtol=1e-15)


def test_the_error_is_relative_with_the_floor_that_is_promised():
    slopes = np.array([2.0, 1e-5, 0.0])
    for k, off in ((0, 0.5), (1, 0.5), (2, 0.5)):
        gradient = slopes.copy()
        gradient[k] += off
        expected = off / (slopes[k] + 1e-3 * 2 + 1e-4)
        assert gradient_error(lambda x: slopes @ x, gradient, np.zeros(3)) == pytest.approx(expected, rel=1e-6)
    assert gradient_error(lambda x: 0.0, [1e-7], [0.0]) == pytest.approx(1e-3)
