"""Rotations against SciPy, 40 digits and the definitions; on floats, batches and symbols."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import qddot
from qddot import so3
from qddot.errors import ShapeMismatch
from qddot.robot.robot import Robot

ANGLES = [0.0, 1e-200, 1e-12, 1e-8, 1e-4, 0.1, 1.0, 2.0, 3.0, np.pi - 1e-7, np.pi - 1e-12]


def rotation_vectors() -> np.ndarray:
    """Vectors of every size, in many directions, the axes among them."""
    rng = np.random.default_rng(0)
    axes = np.concatenate([np.eye(3), -np.eye(3), rng.normal(size=(20, 3))])
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    return (np.array(ANGLES)[:, None, None] * axes).reshape(-1, 3)


def exact_exponential(w: np.ndarray) -> np.ndarray:
    with mpmath.workdps(40):
        x, y, z = map(mpmath.mpf, w.tolist())
        R = mpmath.expm(mpmath.matrix([[0, -z, y], [z, 0, -x], [-y, x, 0]]))
        return np.array(R.tolist(), float)


def test_exponential_to_rounding():
    w = rotation_vectors()[::5]
    exact = np.array([exact_exponential(x) for x in w])
    assert np.abs(so3.exp(w) - exact).max() <= 1e-15


def test_logarithm_inverts_the_exponential_to_rounding():
    w = rotation_vectors()
    found = so3.log(so3.exp(w))
    assert np.abs(found - w).max() <= 2e-15
    small = np.linalg.norm(w, axis=1) < 1e-3
    # relative accuracy near zero too
    scale = np.linalg.norm(w[small], axis=1, keepdims=True)
    assert (np.abs(found[small] - w[small]) <= 1e-15 * scale + 1e-300).all()


def test_half_turns_have_an_axis_up_to_its_sign():
    rng = np.random.default_rng(1)
    axes = rng.normal(size=(50, 3))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    R = 2.0 * axes[:, :, None] * axes[:, None, :] - np.eye(3)
    found = so3.log(R)
    signs = np.sign((found * axes).sum(axis=1, keepdims=True))
    assert np.abs(found - signs * np.pi * axes).max() <= 1e-14


def test_agreement_with_scipy():
    rng = np.random.default_rng(2)
    R = Rotation.random(200, random_state=rng)
    matrices, quaternions = R.as_matrix(), R.as_quat(canonical=True)
    assert np.abs(so3.to_quaternion(matrices) - quaternions).max() <= 1e-15
    assert np.abs(so3.from_quaternion(3.0 * quaternions) - matrices).max() <= 1e-15
    assert np.abs(so3.log(matrices) - R.as_rotvec()).max() <= 2e-14
    rpy = R.as_euler("xyz")
    assert np.abs(so3.from_rpy(rpy) - matrices).max() <= 1e-15
    assert np.abs(so3.to_rpy(matrices) - rpy).max() <= 1e-13


def test_hat_is_the_cross_product():
    rng = np.random.default_rng(3)
    w, x = rng.normal(size=(2, 7, 3))
    assert np.allclose((so3.hat(w) @ x[..., None])[..., 0], np.cross(w, x), rtol=0, atol=1e-15)
    assert np.array_equal(so3.vee(so3.hat(w)), w)


@pytest.mark.parametrize("angle", [0.0, 1e-6, 1e-2, 1.0, 3.0])
def test_jacobians_are_derivatives(angle):
    """exp(w + dw) exp(w)⁻¹ turns by J dw, by central differences."""
    axis = np.array([1.0, -2.0, 0.5]) / np.linalg.norm([1.0, -2.0, 0.5])
    w, step = angle * axis, 1e-5
    left = np.empty((3, 3))
    for k in range(3):
        d = step * np.eye(3)[k]
        turn = so3.log(so3.exp(w + d) @ so3.exp(w).T) - so3.log(so3.exp(w - d) @ so3.exp(w).T)
        left[:, k] = turn / (2.0 * step)
    assert np.abs(so3.left_jacobian(w) - left).max() <= 1e-9
    assert np.abs(so3.right_jacobian(w) - so3.exp(w).T @ left).max() <= 1e-9
    for J, inverse in (
        (so3.left_jacobian, so3.left_jacobian_inverse),
        (so3.right_jacobian, so3.right_jacobian_inverse),
    ):
        assert np.abs(J(w) @ inverse(w) - np.eye(3)).max() <= 1e-14


def everything(robot, q, w, rpy, quaternion):
    """All functions, as part of a compiled function."""
    R = so3.exp(w) @ so3.from_rpy(rpy) @ so3.from_quaternion(quaternion)
    plain = np.array([[w[0], 0.0, w[1]], [0.0, 1.0, 0.0], [w[2], 0.0, 0.0]])
    jacobians = so3.left_jacobian(w) @ so3.right_jacobian_inverse(w)
    parts = (so3.log(R), so3.to_rpy(R), so3.to_quaternion(R), so3.vee(R), so3.vee(plain))
    return R, so3.hat(w), jacobians, np.concatenate(parts)


def test_symbols_give_the_same():
    robot = Robot(qddot.load("double_pendulum").model, native=True)
    f = robot.compile(everything, w=3, rpy=3, quaternion=4)
    rng = np.random.default_rng(4)
    for size in (0.0, 1e-9, 0.3, 3.0):
        q, w, rpy, quaternion = (rng.normal(size=n) for n in (2, 3, 3, 4))
        inputs = (q, size * w, rpy, quaternion)
        for found, expected in zip(f(*inputs), everything(robot, *inputs), strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


def test_shapes_that_do_not_fit():
    for function, bad in ((so3.exp, [1.0, 2.0]), (so3.log, np.eye(4)), (so3.from_quaternion, 1.0)):
        with pytest.raises(ShapeMismatch, match="so3"):
            function(bad)
    assert so3.exp(np.zeros((0, 3))).shape == (0, 3, 3)
    assert so3.exp([0, 0, 0]).tolist() == np.eye(3).tolist()
