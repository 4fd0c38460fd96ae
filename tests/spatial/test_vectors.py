"""Tensors turned about coordinate axes, by the short way and by two products of matrices."""

from __future__ import annotations

import numpy as np
import pytest

from qddot.spatial.vectors import Mat3, Sym3, Vec3, rotation_about


def matrix(A: np.ndarray) -> Mat3:
    return Mat3(*(Vec3(*map(float, row)) for row in A))


def array(A: Mat3) -> np.ndarray:
    return np.array([list(row) for row in A])


@pytest.mark.parametrize("axis", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, -1), (0, -1, 0)])
@pytest.mark.parametrize("angle", [0.0, 0.4, -2.0, 3.1])
def test_about_a_coordinate_axis(axis, angle):
    R = rotation_about(Vec3(*map(float, axis)), angle)
    A = np.random.default_rng(1).normal(size=(3, 3))
    expected = array(R) @ A @ array(R).T
    assert R.coordinate_axis() is not None
    np.testing.assert_allclose(array(matrix(A).conjugate_by(R)), expected, atol=1e-14)
    symmetric = Sym3(*(A + A.T)[np.tril_indices(3)].tolist())
    turned = array(symmetric.rotate(R).rows)
    np.testing.assert_allclose(turned, expected + expected.T, atol=1e-14)


def test_about_any_axis():
    R = rotation_about(Vec3(0.6, 0.0, 0.8), 0.7)
    A = np.random.default_rng(2).normal(size=(3, 3))
    assert R.coordinate_axis() is None
    expected = array(R) @ A @ array(R).T
    np.testing.assert_allclose(array(matrix(A).conjugate_by(R)), expected, atol=1e-14)


def test_what_only_looks_like_an_axis_is_not_one():
    """A matrix that mirrors, and one whose zeros are not known, take the long way."""
    mirror = Mat3(Vec3(-1.0, 0.0, 0.0), Vec3(0.0, 0.6, -0.8), Vec3(0.0, 0.8, 0.6))
    assert mirror.coordinate_axis() is None
    zero, one = np.zeros(2), np.ones(2)
    batch = Mat3(Vec3(one, zero, zero), Vec3(zero, one, zero), Vec3(zero, zero, one))
    assert batch.coordinate_axis() is None


def test_no_turn_changes_no_bit():
    A = matrix(np.array([[1.0, 1e-20, 2.0], [1e-20, 1.0, 3.0], [2.0, 3.0, 5.0]]))
    assert A.conjugate_by(Mat3.identity()) == A
    x, y, z = Mat3.identity()
    half = Mat3(x, -y, -z)
    expected = array(half) @ array(A) @ array(half).T
    assert (array(A.conjugate_by(half)) == expected).all()
