"""The planar 2R arm worked by hand in the textbooks, against the recursive algorithms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from qddot.model.assembly import assemble
from qddot.model.joints import JOINTS, Joint
from qddot.model.links import Link
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Inertia, Mat3, Sym3, Transform, Vec3

STATES = [((0.3, -1.1), (0.7, -0.4)), ((2.0, 0.5), (-1.0, 2.0)), ((0.0, math.pi / 2), (1.0, -0.5))]


def arm(masses, lengths, centers, tensors, along: Vec3) -> Robot:
    """A 2R arm whose links lie along `along` at zero, turning about −y with gravity along −z."""
    axis = Vec3(0.0, -1.0, 0.0)
    links = []
    for i in range(2):
        place = along * (lengths[0] if i else 0.0)
        inertia = Inertia.at_com(masses[i], along * centers[i], Sym3.diagonal(0.0, tensors[i], 0.0))
        joint = Joint(f"joint{i + 1}", JOINTS["revolute"], (axis,))
        parent = "link1" if i else None
        links.append(
            Link(f"link{i + 1}", parent, Transform(Mat3.identity(), place), joint, inertia)
        )
    return Robot(assemble("arm", links))


@pytest.mark.parametrize(("q", "v"), STATES)
def test_point_masses_from_the_horizontal(q, v):
    """Lynch & Park (8.9): θ = 0 horizontal, point masses at the tips."""
    m1, m2, l1, l2, g = 2.0, 1.5, 0.3, 0.25, 9.81
    r = arm((m1, m2), (l1, l2), (l1, l2), (0.0, 0.0), Vec3(1.0, 0.0, 0.0))
    c2, s2 = math.cos(q[1]), math.sin(q[1])
    M12 = m2 * (l1 * l2 * c2 + l2**2)
    M = [[m1 * l1**2 + m2 * (l1**2 + 2 * l1 * l2 * c2 + l2**2), M12], [M12, m2 * l2**2]]
    h = -m2 * l1 * l2 * s2
    C = [[h * v[1], h * (v[0] + v[1])], [-h * v[0], 0.0]]
    tip = m2 * g * l2 * math.cos(q[0] + q[1])
    weight = [(m1 + m2) * l1 * g * math.cos(q[0]) + tip, tip]
    np.testing.assert_allclose(r.mass_matrix(q), M, rtol=1e-14)
    np.testing.assert_allclose(r.coriolis_matrix(q, v), C, rtol=1e-13, atol=1e-16)
    np.testing.assert_allclose(r.gravity(q), weight, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(("q", "v"), STATES)
def test_link_inertias_from_the_upright(q, v):
    """The other convention: θ = 0 upright, centres of mass at r, inertia about the centre of mass.

    The printed M₁₁ of the reference lacks m₁ r₁²; with it the closed form is exact.
    """
    m1, m2, l1, l2, r1, r2, I1, I2, g = 5.0, 3.0, 1.0, 0.8, 0.5, 0.4, 0.1, 0.05, 9.81
    # in the x–z plane the upright arm turns towards +x for a rotation about +y
    robot = arm((m1, m2), (l1, l2), (r1, r2), (I1, I2), Vec3(0.0, 0.0, 1.0))
    c2, s2 = math.cos(q[1]), math.sin(q[1])
    M12 = I2 + m2 * r2 * (r2 + l1 * c2)
    printed = I1 + I2 + m2 * (l1**2 + r2**2 + 2 * l1 * r2 * c2)
    M = [[printed + m1 * r1**2, M12], [M12, I2 + m2 * r2**2]]
    coriolis = [
        -m2 * l1 * r2 * s2 * (2 * v[0] * v[1] + v[1] ** 2),
        m2 * l1 * r2 * s2 * v[0] ** 2,
    ]
    outer = -m2 * r2 * g * math.sin(q[0] + q[1])
    weight = [-(m1 * r1 + m2 * l1) * g * math.sin(q[0]) + outer, outer]
    np.testing.assert_allclose(robot.mass_matrix(q), M, rtol=1e-14)
    bias = robot.bias(q, v)
    np.testing.assert_allclose(bias - robot.gravity(q), coriolis, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(robot.gravity(q), weight, rtol=1e-13, atol=1e-13)
    missing = robot.mass_matrix(q)[0, 0] - printed
    assert missing == pytest.approx(m1 * r1**2, rel=1e-12)


def test_example_a_to_the_printed_digits():
    """ℓ = 0.30 m, m = (2.0, 1.5) kg at q = (0, π/2), q̇ = (1, −0.5)."""
    r = arm((2.0, 1.5), (0.3, 0.3), (0.3, 0.3), (0.0, 0.0), Vec3(1.0, 0.0, 0.0))
    q, v = (0.0, math.pi / 2), (1.0, -0.5)
    M, g = r.mass_matrix(q), r.gravity(q)
    assert np.round(M, 3).tolist() == [[0.450, 0.135], [0.135, 0.135]]
    Cv = r.coriolis_matrix(q, v) @ v
    assert np.round(Cv, 3).tolist() == [0.101, 0.135]
    assert np.round(g, 2).tolist() == [10.30, 0.0]
    assert np.round(r.bias(q, v), 2)[0] == 10.40
    assert np.round(r.bias(q, v), 3)[1] == 0.135
    assert np.round(np.linalg.det(M), 4) == 0.0425
