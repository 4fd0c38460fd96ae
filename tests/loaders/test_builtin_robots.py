"""The built-in robots: they load cleanly and are the robots that their figures say."""

from __future__ import annotations

from math import pi
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
import pytest

import qddot

FOLDER = Path(qddot.__file__).parent / "robots"
LEGS = ("FL", "FR", "RL", "RR")
ARM = ("shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3")
CHAIN = ("arm{}_joint", "rod{}_lift", "rod{}_swing")
# joints, and the range of the total mass in kg (the UR5e has 20.6 and its gripper 0.925)
ROBOTS = {
    "planar_2r": (("joint1", "joint2"), 3.5, 3.5),
    "planar_3r": (("joint1", "joint2", "joint3"), 7.5, 7.5),
    "double_pendulum": (("joint1", "joint2"), 1.4, 1.4),
    "ur5e": (tuple(f"{part}_joint" for part in ARM), 21.4, 21.6),
    "panda": (tuple(f"panda_joint{i}" for i in range(1, 8)), 17.0, 18.5),
    "quadruped": (
        ("root", *(f"{leg}_{part}_joint" for leg in LEGS for part in ("hip", "thigh", "calf"))),
        11.5,
        13.0,
    ),
    "quadrotor": (("root",), 0.9, 1.1),
    "delta": (
        (*(x.format(i) for i in (1, 2, 3) for x in CHAIN), *(f"platform_{k}" for k in "xyz")),
        2.0,
        4.0,
    ),
    "four_bar": (("crank_joint", "coupler_joint", "rocker_joint"), 0.56, 0.56),
}
FILES = sorted(f for f in FOLDER.iterdir() if f.suffix in (".urdf", ".xml"))


def modified_dh(alpha: float, a: float, d: float, theta: float) -> np.ndarray:
    """Craig's transform: turn alpha and shift a along x, then turn theta and shift d along z."""
    ca, sa, ct, st = np.cos(alpha), np.sin(alpha), np.cos(theta), np.sin(theta)
    return np.array(
        [
            [ct, -st, 0, a],
            [st * ca, ct * ca, -sa, -d * sa],
            [st * sa, ct * sa, ca, d * ca],
            [0, 0, 0, 1],
        ]
    )


def standard_dh(a: float, d: float, alpha: float, theta: float) -> np.ndarray:
    """Denavit and Hartenberg's own transform: first about and along z, then along and about x."""
    return modified_dh(0, 0, d, theta) @ modified_dh(alpha, a, 0, 0)


def ur5e_dh_poses(q: np.ndarray) -> list[np.ndarray]:
    """Poses of the DH frames of the manufacturer's table, in the world (base is turned by pi)."""
    table = [
        (0, 0.1625, pi / 2), (-0.425, 0, 0), (-0.3922, 0, 0),
        (0, 0.1333, pi / 2), (0, 0.0997, -pi / 2), (0, 0.0996, 0),
    ]  # fmt: skip
    poses = [modified_dh(0, 0, 0, pi)]
    for row, angle in zip(table, q, strict=True):
        poses.append(poses[-1] @ standard_dh(*row, angle))
    return poses[1:]


def test_every_file_is_listed_here():
    assert {f.stem for f in FILES} == set(ROBOTS)


@pytest.mark.parametrize("name", ROBOTS)
def test_loads_without_errors_and_is_what_it_should_be(name):
    robot = qddot.load(name, strict=True)
    joints, lightest, heaviest = ROBOTS[name]
    free = int("root" in joints)
    assert robot.name == name
    assert [f for f in robot.health if f.severity == "error"] == []
    assert robot.joint_names == joints
    assert (robot.nq, robot.nv) == (len(joints) + 6 * free, len(joints) + 5 * free)
    assert lightest - 1e-9 <= robot.model.mass <= heaviest + 1e-9
    assert tuple(robot.model.gravity) == (0, 0, -9.81)


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_mujoco_loads_it(file):
    assert mujoco.MjModel.from_xml_path(str(file)).nv == qddot.load(file.stem).nv


@pytest.mark.parametrize("file", [f for f in FILES if f.suffix == ".urdf"], ids=lambda f: f.name)
def test_pinocchio_loads_it(file):
    assert pin.buildModelFromUrdf(str(file)).nv == qddot.load(file.stem).nv


def test_planar_2r_is_worked_example_a():
    robot = qddot.load("planar_2r")
    q, v = np.array([0, pi / 2]), np.array([1.0, -0.5])
    np.testing.assert_allclose(robot.mass_matrix(q), [[0.450, 0.135], [0.135, 0.135]], atol=1e-12)
    np.testing.assert_allclose(robot.coriolis_matrix(q, v) @ v, [0.101, 0.135], atol=5e-4)
    np.testing.assert_allclose(robot.gravity(q), [10.30, 0], atol=5e-3)
    np.testing.assert_allclose(robot.frame_pose(q, "tool")[:3, 3], [0.3, 0, 0.3], atol=1e-12)


def test_planar_3r_stretched_out_carries_its_links_at_their_middles():
    # torques of 4.0, 2.5 and 1.0 kg at the middles of 0.5, 0.4 and 0.2 m
    g = [4.0 * 0.25 + 2.5 * 0.7 + 1.0 * 1.0, 2.5 * 0.2 + 1.0 * 0.5, 1.0 * 0.1]
    robot = qddot.load("planar_3r")
    np.testing.assert_allclose(robot.gravity(np.zeros(3)), 9.81 * np.array(g), atol=1e-12)


def test_double_pendulum_hangs_in_its_lowest_position():
    robot = qddot.load("double_pendulum")
    np.testing.assert_allclose(robot.gravity(np.zeros(2)), 0, atol=1e-12)
    elsewhere = robot.potential_energy(robot.random(0, 50))
    assert (elsewhere > robot.potential_energy(np.zeros(2))).all()
    assert robot.frame_pose([0.1, 0], "tip")[0, 3] > 0


@pytest.mark.parametrize("seed", range(3))
def test_ur5e_is_the_manufacturers_dh_table(seed):
    robot = qddot.load("ur5e")
    q = robot.random(seed) if seed else np.zeros(6)
    poses = ur5e_dh_poses(q)
    np.testing.assert_allclose(robot.frame_pose(q, "tool0"), poses[-1], atol=1e-12)
    if not seed:
        np.testing.assert_allclose(poses[-1][:3, 3], [0.8172, 0.2329, 0.0628], atol=1e-12)


def test_ur5e_potential_energy_is_that_of_the_dh_tables_masses():
    # mass and centre of mass in the DH frame of each link, the gripper in the last
    table = [
        (0, 3.761, (0, -0.02561, 0.00193)), (1, 8.058, (0.2125, 0, 0.11336)),
        (2, 2.846, (0.15, 0, 0.0265)), (3, 1.37, (0, -0.0018, 0.01634)),
        (4, 1.3, (0, 0.0018, 0.01634)), (5, 0.365, (0, 0, -0.001159)), (5, 0.925, (0, 0, 0.058)),
    ]  # fmt: skip
    robot = qddot.load("ur5e")

    def energy(q: np.ndarray) -> float:
        poses = ur5e_dh_poses(q)
        return sum(9.81 * m * (poses[i] @ [*com, 1])[2] for i, m, com in table)

    q0, q1 = np.zeros(6), robot.random(5)
    change = robot.potential_energy(q1) - robot.potential_energy(q0)
    np.testing.assert_allclose(change, energy(q1) - energy(q0), atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_panda_flange_is_where_the_dh_table_puts_it(seed):
    table = [
        (0, 0, 0.333), (-pi / 2, 0, 0), (pi / 2, 0, 0.316), (pi / 2, 0.0825, 0),
        (-pi / 2, -0.0825, 0.384), (pi / 2, 0, 0), (pi / 2, 0.088, 0), (0, 0, 0.107),
    ]  # fmt: skip
    robot = qddot.load("panda")
    q = robot.random(seed) if seed else np.zeros(7)
    flange = np.eye(4)
    for row, angle in zip(table, [*q, 0.0], strict=True):
        flange = flange @ modified_dh(*row, angle)
    np.testing.assert_allclose(robot.frame_pose(q, "panda_link8"), flange, atol=1e-12)
    if not seed:
        np.testing.assert_allclose(flange[:3, 3], [0.088, 0, 0.926], atol=1e-12)


def test_quadruped_stands_on_its_feet_at_home():
    robot = qddot.load("quadruped")
    home = np.array(robot.model.configurations["home"])
    shapes = mujoco.MjModel.from_xml_path(str(FOLDER / "quadruped.xml"))
    feet = [robot.frame_pose(home, f"{leg}_foot")[:3, 3] for leg in LEGS]
    np.testing.assert_allclose(
        [foot[2] for foot in feet], shapes.geom("FL_foot_geom").size[0], atol=1e-12
    )
    assert np.sign([foot[:2] for foot in feet]).tolist() == [[1, 1], [1, -1], [-1, 1], [-1, -1]]


def test_quadrotor_hovers_level():
    robot = qddot.load("quadrotor")
    assert robot.model.configurations["hover"] == (0, 0, 1, 0, 0, 0, 1)
    rotors = [robot.frame_pose(robot.neutral(), f"rotor{i}") for i in range(1, 5)]
    np.testing.assert_allclose(sum(X[:2, 3] for X in rotors), 0, atol=1e-12)
    assert all(X[2, 2] == 1 for X in rotors)


@pytest.mark.parametrize(("name", "loops", "freedoms"), [("delta", 3, 3), ("four_bar", 1, 1)])
def test_loops_are_closed_at_neutral_and_leave_the_right_freedom(name, loops, freedoms):
    robot = qddot.load(name)
    q = robot.neutral()
    assert len(robot.model.loops) == loops
    rows = []
    for loop in robot.model.loops:
        ends = loop.frame1, loop.frame2
        p1, p2 = (robot.frame_pose(q, frame)[:3, 3] for frame in ends)
        np.testing.assert_allclose(p1, p2, atol=1e-9)
        J1, J2 = (robot.frame_jacobian(q, frame, "local_world_aligned")[:3] for frame in ends)
        rows.append(J1 - J2)
    assert robot.nv - np.linalg.matrix_rank(np.vstack(rows)) == freedoms
