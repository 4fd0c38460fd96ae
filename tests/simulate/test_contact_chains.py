"""Impacts through rows of balls, stacks at rest, boxes on boxes, points on edges: closed forms."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from bare_rollouts import rollout
from contact_bodies import GRAVITY, column

import qddot
from qddot.algorithms.kinematics import world_poses
from qddot.algorithms.recursion import joint_kinematics
from qddot.robot.robot import Robot
from qddot.simulate.contact import (
    Box,
    ComplementarityContact,
    Plane,
    Point,
    Scene,
    Sphere,
    contact_ledger,
)
from qddot.simulate.contact.boxes import NO_TOUCH
from qddot.simulate.contact.gaps import find_sites
from qddot.spatial.algebra import Mat3, Transform, Vec3

RADIUS = 0.05


def make_robot(bodies: str, native: bool = True, gravity: str = "0 0 -9.81") -> Robot:
    text = f'<mujoco><option gravity="{gravity}"/><worldbody>{bodies}</worldbody></mujoco>'
    model = qddot.load(mujoco.MjModel.from_xml_string(text)).model
    return Robot(model, native=native)


def row_of_balls(count: int, native: bool = True) -> tuple[Robot, ComplementarityContact]:
    """Balls of 1 kg on one line, without weight or losses."""
    ball = f'<joint type="slide" axis="1 0 0"/><geom type="sphere" size="{RADIUS}" mass="1"/>'
    bodies = (f'<body name="b{k}" pos="{0.1 * k} 0 0">{ball}</body>' for k in range(count))
    scene = Scene(
        spheres=[Sphere(f"b{k}", RADIUS) for k in range(count)],
        pairs=[(f"b{k}", f"b{k + 1}") for k in range(count - 1)],
        friction=0.0,
        restitution=1.0,
    )
    return make_robot("".join(bodies), native, "0 0 0"), ComplementarityContact(scene)


@pytest.mark.parametrize("struck", [1, 2])
def test_an_impact_goes_through_a_row_of_balls_within_a_step(struck):
    """As many balls leave as have come, with their speed: from both sides, for all gaps."""
    robot, law = row_of_balls(5)
    gaps = np.array([0.0, 1e-6, 1e-5, 1e-4, 3e-4, 5e-4, 1e-3])
    q = gaps[:, None] * np.arange(5.0)
    v = np.zeros((len(gaps), 5))
    q[:, :struck] -= 0.01
    v[:, :struck] = 1.0
    # the same from the right
    q, v = np.concatenate([q, -q[:, ::-1]]), np.concatenate([v, -v[:, ::-1]])
    found = rollout(robot, q, v, dt=1e-3, steps=40, contact=law)
    # to the tolerance of the sweeps
    np.testing.assert_allclose(found.v[:, -1], v[:, ::-1], atol=1e-8)
    assert found.status.ok, found.status


def test_a_ball_on_another_rebounds_higher():
    """Two balls that fall together: velocities of two elastic impacts, one after the other."""
    m1, m2, speed = 3.0, 0.5, 2.0
    robot = column(m1, m2, native=True)
    scene = Scene(
        planes=[Plane()],
        spheres=[Sphere("b0", RADIUS), Sphere("b1", RADIUS)],
        pairs=[("b0", "ground"), ("b1", "b0")],
        friction=0.0,
        restitution=1.0,
    )
    start = [RADIUS + 0.5e-3, 3 * RADIUS + 0.6e-3]
    law = ComplementarityContact(scene)
    found = rollout(robot, start, [-speed, -speed], dt=1e-3, steps=1, contact=law)
    # the lower ball turns round first; the upper one then comes with −speed against it
    wanted = [(m1 - 3.0 * m2) / (m1 + m2) * speed, (3.0 * m1 - m2) / (m1 + m2) * speed]
    np.testing.assert_allclose(found.v[-1], wanted, atol=2e-3 * GRAVITY)


def test_impacts_with_losses_end():
    """With e < 1 a row keeps its momentum, loses energy, and nothing overlaps."""
    robot, law = row_of_balls(5)
    scene = Scene(spheres=law.scene.spheres, pairs=law.scene.pairs, friction=0.0, restitution=0.5)
    v = np.array([1.0, 0.0, 0.0, 0.0, -0.5])
    q = np.array([-0.01, 0.0, 1e-4, 2e-4, 0.01])
    found = rollout(robot, q, v, dt=1e-3, steps=60, contact=ComplementarityContact(scene))
    np.testing.assert_allclose(found.v.sum(-1), 0.5, atol=1e-9)
    energy = 0.5 * (found.v**2).sum(-1)
    assert np.diff(energy).max() < 1e-12
    assert energy[-1] < 0.5 * energy[0]
    assert contact_ledger(found).penetration < 1e-6


def tower(count: int) -> tuple[Robot, Scene, np.ndarray]:
    """Cubes of 0.1 m and 1 kg on four feet each, one on the other."""
    cube = '<freejoint/><geom type="box" size="0.05 0.05 0.05" mass="1"/>'
    robot = make_robot("".join(f'<body name="b{k}">{cube}</body>' for k in range(count)))
    feet = [
        Point(f"b{k}", (0.045 * x, 0.045 * y, -0.05), f"foot {k} {x} {y}")
        for k in range(count)
        for x in (-1, 1)
        for y in (-1, 1)
    ]
    scene = Scene(
        planes=[Plane()],
        boxes=[Box(f"b{k}", (0.1, 0.1, 0.1)) for k in range(count)],
        points=feet,
        pairs=[
            (foot.name, f"b{k // 4 - 1}" if k >= 4 else "ground") for k, foot in enumerate(feet)
        ],
    )
    q = np.array(robot.neutral()).reshape(count, 7)
    q[:, 2] = 0.05 + 0.1 * np.arange(count)
    return robot, scene, q.ravel()


def test_ten_boxes_stand_still_on_each_other():
    robot, scene, q = tower(10)
    law = ComplementarityContact(scene)
    found = rollout(robot, q, np.zeros(60), dt=1e-3, steps=10_000, every=1000, contact=law)
    moved = (found.q[-1] - q).reshape(10, 7)
    assert np.abs(moved[:, :2]).max() < 1e-4
    assert np.abs(found.v[-1]).max() < 1e-6
    assert found.status.ok, found.status
    # each contact carries what is above it
    ledger = contact_ledger(found)
    carried = ledger.normal_force[-1].reshape(10, 4).sum(-1)
    np.testing.assert_allclose(carried, GRAVITY * np.arange(10, 0, -1.0), rtol=1e-5)


def touch_all(robot: Robot, scene: Scene, q: np.ndarray) -> tuple[np.ndarray, list]:
    """Gaps (places, states) of all touches of a batch of configurations, and the touches."""
    poses = world_poses(robot.model, joint_kinematics(robot.model, list(q.T))[0])
    touches = [site.find(poses) for site in find_sites(scene, robot.model)]
    return np.array([np.broadcast_to(x.gap, len(q)) for x in touches]), touches


def test_two_boxes_overlap_as_in_mujoco():
    sizes = {"a": (0.2, 0.3, 0.4), "b": (0.24, 0.14, 0.2)}
    text = "".join(
        f'<body name="{name}"><freejoint/><geom type="box" size="{x / 2} {y / 2} {z / 2}"/></body>'
        for name, (x, y, z) in sizes.items()
    )
    m = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{text}</worldbody></mujoco>")
    robot, d = qddot.load(m), mujoco.MjData(m)
    q = np.random.default_rng(1).normal(size=(400, 2, 7)) * [0.15, 0.15, 0.15, 1, 1, 1, 1]
    q[..., 3:] /= np.linalg.norm(q[..., 3:], axis=-1, keepdims=True)
    scene = Scene(boxes=[Box(name, size) for name, size in sizes.items()], pairs=[("a", "b")])
    gaps, _ = touch_all(robot, scene, q.reshape(400, 14))
    wanted = np.empty(400)
    for k, pose in enumerate(q):
        d.qpos[:] = pose[:, [0, 1, 2, 6, 3, 4, 5]].ravel()
        mujoco.mj_forward(m, d)
        wanted[k] = mujoco.mj_geomDistance(m, d, 0, 1, 10.0, None)
    deep = wanted < 0
    assert 100 < deep.sum() < 300
    np.testing.assert_allclose(gaps[:, deep].min(0), wanted[deep], atol=1e-12)
    assert gaps[:, ~deep].min() >= 0.0


@pytest.mark.parametrize(
    ("size", "shift", "turn", "corners"),
    [
        # equal faces: the four corners, each once
        ((0.1, 0.1, 0.1), (0.0, 0.0), 0.0, [(x, y) for x in (-0.05, 0.05) for y in (-0.05, 0.05)]),
        # pushed aside: two corners of each box
        ((0.1, 0.1, 0.1), (0.03, 0.0), 0.0, [(x, y) for x in (-0.02, 0.05) for y in (-0.05, 0.05)]),
        # a beam across: edges cut each other
        ((0.4, 0.04, 0.1), (0.0, 0.0), 0.0, [(x, y) for x in (-0.05, 0.05) for y in (-0.02, 0.02)]),
        # a small box on a large one, turned by an eighth
        (
            (0.02, 0.02, 0.1),
            (0.0, 0.0),
            np.pi / 4,
            [(0.0, 0.02**0.5 * 0.1), (0.0, -(0.02**0.5) * 0.1), (0.1 * 0.02**0.5, 0.0)],
        ),
        # an equal one turned by an eighth: an octagon
        (
            (0.1, 0.1, 0.1),
            (0.0, 0.0),
            np.pi / 4,
            [(x * 0.05, y * 0.05 * np.tan(np.pi / 8)) for x in (-1, 1) for y in (-1, 1)],
        ),
    ],
)
def test_faces_touch_at_the_corners_of_what_they_share(size, shift, turn, corners):
    cube = '<freejoint/><geom type="box" size="0.05 0.05 0.05" mass="1"/>'
    robot = make_robot(f'<body name="b">{cube}</body>', native=False)
    X = Transform(Mat3.identity(), Vec3(0.0, 0.0, -0.05))
    base = Box(None, (0.1, 0.1, 0.1), X, "base")
    scene = Scene(boxes=[base, Box("b", size)], pairs=[("b", "base")])
    q = np.array([[*shift, 0.05 + 1e-4, 0.0, 0.0, np.sin(turn / 2), np.cos(turn / 2)]])
    gaps, touches = touch_all(robot, scene, q)
    used = gaps[:, 0] < 0.5 * NO_TOUCH
    np.testing.assert_allclose(gaps[used], 1e-4, atol=1e-12)
    R = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    found = [
        R @ [np.ravel(t.point.x)[0], np.ravel(t.point.y)[0]] + shift
        for t, flag in zip(touches, used, strict=True)
        if flag
    ]
    assert len(found) == (8 if len(corners) == 4 and turn else 4)
    for corner in corners:
        assert min(np.abs(x - np.array(corner)).max() for x in found) < 2e-6


def test_a_box_tips_over_the_edge_of_another():
    """It falls where its centre is beyond the edge, and stands where it is not."""
    cube = '<freejoint/><geom type="box" size="0.05 0.05 0.05" mass="1"/>'
    robot = make_robot(f'<body name="b">{cube}</body>')
    X = Transform(Mat3.identity(), Vec3(0.0, 0.0, -0.05))
    base = Box(None, (0.1, 0.1, 0.1), X, "base")
    scene = Scene(boxes=[base, Box("b", (0.1, 0.1, 0.1))], pairs=[("b", "base")])
    shift = np.array([0.0, 0.03, 0.049, 0.051, 0.07])
    q = np.zeros((5, 7))
    q[:, 0], q[:, 2], q[:, 6] = shift, 0.05, 1.0
    law = ComplementarityContact(scene)
    found = rollout(robot, q, np.zeros(6), dt=1e-3, steps=500, contact=law)
    np.testing.assert_allclose(found.q[:3, -1], q[:3], atol=1e-8)
    assert np.abs(found.v[:3, -1]).max() < 1e-6
    # beyond the edge it turns about the edge, to positive angles about y
    assert found.q[3:, -1, 4].min() > 0.02


@pytest.mark.parametrize("edge", [(0.05, 0.0), (0.0, 0.05), (0.05, 0.05)])
def test_a_point_on_the_edge_of_a_box_is_held_by_the_face_under_its_body(edge):
    """Feet exactly over edges and corners stand; the sum of forces is the weight."""
    cube = '<freejoint/><geom type="box" size="0.05 0.05 0.05" mass="1"/>'
    robot = make_robot(f'<body name="b">{cube}</body>')
    X = Transform(Mat3.identity(), Vec3(0.0, 0.0, -0.05))
    x, y = edge
    places = {(x, y), (-x, -y), (x, -y), (-x, y), (0.01, 0.02), (-0.01, 0.02), (0.0, -0.02)}
    feet = [Point("b", (*p, -0.05), f"foot {k}") for k, p in enumerate(sorted(places))]
    scene = Scene(
        boxes=[Box(None, (0.1, 0.1, 0.1), X, "base")],
        points=feet,
        pairs=[(foot.name, "base") for foot in feet],
    )
    q = np.array([0.0, 0.0, 0.05, 0.0, 0.0, 0.0, 1.0])
    gaps, touches = touch_all(Robot(robot.model), scene, q[None])
    np.testing.assert_allclose(gaps, 0.0, atol=1e-15)
    for touch in touches:
        assert [np.ravel(c)[0] for c in touch.normal] == [0.0, 0.0, 1.0]
    found = rollout(
        robot, q, np.zeros(6), dt=1e-3, steps=300, contact=ComplementarityContact(scene)
    )
    np.testing.assert_allclose(found.q[-1], q, atol=1e-9)
    np.testing.assert_allclose(contact_ledger(found).total[-1], [0, 0, GRAVITY], atol=1e-6)


@pytest.mark.parametrize(("light", "restitution"), [(0.01, 0.8), (1e-4, 1.0)])
def test_a_light_ball_under_a_heavy_one_gives_no_energy(light, restitution):
    """Its impacts are too many for a step: none rebounds then, and no speed comes from nowhere."""
    ball = '<joint type="slide" axis="0 0 1"/><geom type="sphere" size="{}" mass="{}"/>'
    masses = np.array([light, 10.0])
    bodies = (f'<body name="b{k}">{ball.format(RADIUS, m)}</body>' for k, m in enumerate(masses))
    robot = make_robot("".join(bodies))
    scene = Scene(
        planes=[Plane()],
        spheres=[Sphere("b0", RADIUS), Sphere("b1", RADIUS)],
        pairs=[("b0", "ground"), ("b1", "b0")],
        friction=0.0,
        restitution=restitution,
    )
    contact = ComplementarityContact(scene)
    motion = rollout(robot, [0.06, 0.17], [0.0, 0.0], dt=1e-3, steps=200, contact=contact)
    energy = (0.5 * masses * motion.v**2 + masses * 9.81 * motion.q).sum(axis=-1)
    assert np.diff(energy).max() < 1e-6
