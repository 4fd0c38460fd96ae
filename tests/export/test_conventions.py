"""Conventions that a user relies on, each against an independent statement of it."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from odd_joints import cylindrical_robot
from random_models import Part, build

from qddot.errors import Unsupported
from qddot.export.conventions import convention_lines
from qddot.model.model import WORLD
from qddot.robot.robot import Robot

REFERENCES = {
    "local": pin.ReferenceFrame.LOCAL,
    "world": pin.ReferenceFrame.WORLD,
    "local_world_aligned": pin.ReferenceFrame.LOCAL_WORLD_ALIGNED,
}


def floating(kind: str = "free") -> Robot:
    parts = [
        Part(kind, WORLD, False, False, False, None),
        Part("revolute", 0, False, False, False, None),
    ]
    return Robot(build(parts, 4))


@pytest.mark.parametrize("reference", REFERENCES)
def test_accelerations_in_the_three_references(reference):
    """Spatial and classical acceleration of a frame, as Pinocchio gives them."""
    m = pin.buildSampleModelManipulator()
    robot, d = robot_from(m), m.createData()
    rng = np.random.default_rng(0)
    q, v, a = (rng.normal(size=m.nv) for _ in range(3))
    pin.forwardKinematics(m, d, q, v, a)
    pin.updateFramePlacements(m, d)
    frame = m.frames[m.nframes - 1].name
    index, where = m.getFrameId(frame), REFERENCES[reference]
    ours = robot.frame_acceleration(q, v, a, frame, reference)
    np.testing.assert_allclose(
        ours, pin.getFrameAcceleration(m, d, index, where).vector, atol=1e-12
    )
    ours = robot.frame_classical_acceleration(q, v, a, frame, reference)
    theirs = pin.getFrameClassicalAcceleration(m, d, index, where).vector
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


def robot_from(m) -> Robot:
    import qddot

    return qddot.load(m)


def test_the_length_of_a_quaternion_does_not_matter():
    robot = floating()
    rng = np.random.default_rng(1)
    q, v = robot.random(rng), rng.normal(size=robot.nv)
    scaled = q.copy()
    scaled[3:7] *= 3.7
    for name in ("gravity", "mass_matrix", "frame_poses"):
        np.testing.assert_allclose(
            robot.call(name, scaled), robot.call(name, q), rtol=1e-12, atol=1e-12
        )
    np.testing.assert_allclose(robot.integrate(scaled, v), robot.integrate(q, v), rtol=1e-12)
    other = robot.random(rng)
    np.testing.assert_allclose(
        robot.difference(scaled, other), robot.difference(q, other), atol=1e-12
    )
    assert np.linalg.norm(robot.integrate(scaled, v)[3:7]) == pytest.approx(1.0, rel=1e-15)


def test_a_quaternion_of_zeros_is_nan_not_an_exception():
    robot = floating()
    assert np.isnan(robot.gravity(np.zeros(robot.nq))).any()


@pytest.mark.parametrize("turn", [0.0, 3.0, 2 * np.pi - 1e-3, 2 * np.pi, 7.0, -40.0])
def test_planar_difference_takes_the_shorter_way_round(turn):
    robot = floating("planar")
    q0, q1 = np.zeros(4), np.array([1.0, -0.5, turn, 0.2])
    step = robot.difference(q0, q1)
    assert abs(step[2]) <= np.pi + 1e-12
    assert np.abs(step).max() < 5.0
    np.testing.assert_allclose(
        robot.frame_poses(robot.integrate(q0, step)), robot.frame_poses(q1), atol=1e-12
    )


def test_shallow_trees_and_deep_trees_agree_on_forward_dynamics():
    """Both ways of forward dynamics, either side of where one takes over from the other."""
    for depth in (4, 13, 14, 16):
        parts = [Part("revolute", i - 1, False, False, False, None) for i in range(depth)]
        robot = Robot(build(parts, depth))
        rng = np.random.default_rng(depth)
        q, v, a = robot.random(rng), rng.normal(size=depth), rng.normal(size=depth)
        tau = robot.inverse_dynamics(q, v, a)
        condition = np.linalg.cond(robot.mass_matrix(q))
        np.testing.assert_allclose(robot.forward_dynamics(q, v, tau), a, atol=1e-14 * condition)


def test_a_joint_type_without_words_is_refused():
    with pytest.raises(Unsupported, match="'cylindrical'"):
        convention_lines(cylindrical_robot().model)
