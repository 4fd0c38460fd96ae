"""Gaps, normals and contact Jacobians against MuJoCo, complex steps and each other."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from random_models import build, trees

import qddot
from qddot.algorithms.configuration import integrate
from qddot.algorithms.inverse_dynamics import newton_euler
from qddot.algorithms.kinematics import world_poses
from qddot.algorithms.recursion import joint_kinematics, velocities
from qddot.errors import InvalidArgument, InvalidModel, UnknownName, Unsupported
from qddot.model.model import WORLD
from qddot.robot.robot import Robot
from qddot.simulate.contact import Box, Capsule, Pair, Plane, Point, Scene, Sphere
from qddot.simulate.contact.boxes import BOX_POINTS
from qddot.simulate.contact.gaps import contact_rows, find_sites, push_apart, slide_velocity
from qddot.spatial.algebra import Mat3, Transform, Vec3, rotation_from_quaternion

TURN = rotation_from_quaternion(0.1, 0.3, -0.2, 0.9)
SHAPES = {
    "sphere": (
        'type="sphere" size="0.06" pos="0.05 0.02 -0.01"',
        Sphere,
        (0.06, (0.05, 0.02, -0.01)),
    ),
    "capsule": (
        'type="capsule" size="0.05" fromto="0 0 -0.2 0.1 0.05 0.3"',
        Capsule,
        (0.05, (0, 0, -0.2), (0.1, 0.05, 0.3)),
    ),
    "box": (
        'type="box" size="0.1 0.15 0.2" pos="0.03 0 0.02" quat="0.9 0.1 0.3 -0.2"',
        Box,
        ((0.2, 0.3, 0.4), Transform(TURN, Vec3(0.03, 0.0, 0.02))),
    ),
}


def touching(scene: Scene, robot: Robot, q: np.ndarray) -> list:
    """All touches of a batch of configurations, with the poses of the bodies."""
    poses = world_poses(robot.model, joint_kinematics(robot.model, list(q.T))[0])
    return [(site.find(poses), poses) for site in find_sites(scene, robot.model)]


def arrays(*vectors) -> list[np.ndarray]:
    return [np.stack(np.broadcast_arrays(*v), axis=-1) for v in vectors]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("sphere", "sphere"),
        ("sphere", "capsule"),
        ("capsule", "sphere"),
        ("capsule", "capsule"),
        ("sphere", "box"),
        ("box", "sphere"),
    ],
)
def test_gaps_points_and_normals_are_mujocos(first, second):
    text = "".join(
        f'<body name="{name}"><freejoint/><geom {SHAPES[kind][0]}/></body>'
        for name, kind in (("a", first), ("b", second))
    )
    m = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{text}</worldbody></mujoco>")
    robot, d = qddot.load(m), mujoco.MjData(m)
    rng = np.random.default_rng(1)
    q = rng.normal(size=(300, 2, 7)) * [0.15, 0.15, 0.15, 1, 1, 1, 1]
    q[..., 3:] /= np.linalg.norm(q[..., 3:], axis=-1, keepdims=True)
    solids = [
        SHAPES[kind][1](name, *SHAPES[kind][2]) for name, kind in (("a", first), ("b", second))
    ]
    kinds = {"spheres": Sphere, "capsules": Capsule, "boxes": Box}
    parts = {k: [x for x in solids if isinstance(x, kind)] for k, kind in kinds.items()}
    scene = Scene(**parts, pairs=[("a", "b")])
    ((touch, poses),) = touching(scene, robot, q.reshape(300, 14))
    point, normal = arrays(poses[0].point(touch.point), poses[0].R.apply(touch.normal))
    wanted, fromto = np.empty(300), np.empty((300, 6))
    for k, pose in enumerate(q):
        d.qpos[:] = pose[:, [0, 1, 2, 6, 3, 4, 5]].ravel()
        mujoco.mj_forward(m, d)
        wanted[k] = mujoco.mj_geomDistance(m, d, 0, 1, 10.0, fromto[k])
    clear = wanted > 1e-3
    assert 30 < clear.sum() < 290
    round_ones = clear if "box" in (first, second) else np.full(300, True)
    np.testing.assert_allclose(touch.gap[round_ones], wanted[round_ones], atol=1e-9)
    ends = fromto[clear].reshape(-1, 2, 3)
    np.testing.assert_allclose(point[clear], ends.mean(1), atol=1e-7)
    along = (ends[:, 0] - ends[:, 1]) / wanted[clear, None]
    np.testing.assert_allclose(normal[clear], along, atol=1e-6)


def test_a_sphere_inside_a_box_leaves_by_the_nearest_face():
    robot = Robot(qddot.load("double_pendulum").model)
    frame = robot.model.frames[-1].name
    at = robot.frame_pose(np.zeros(2), frame)
    inside = Transform(Mat3.identity(), Vec3(*(at[:3, 3] - [0.12, 0.3, -0.05])))
    scene = Scene(
        spheres=[Sphere(frame, 0.02)], boxes=[Box(None, (0.3, 1.0, 0.4), inside, "crate")]
    )
    ((touch, poses),) = touching(scene, robot, np.zeros((1, 2)))
    # 0.03 m from the face x, 0.2 m from y, 0.15 m from z
    assert touch.gap[0] == pytest.approx(-0.03 - 0.02)
    normal = np.array([np.asarray(x).item() for x in poses[touch.first].R.apply(touch.normal)])
    np.testing.assert_allclose(normal, [1.0, 0.0, 0.0], atol=1e-12)


def test_concentric_spheres_part_in_some_direction():
    robot = Robot(qddot.load("double_pendulum").model)
    frame = robot.model.frames[-1].name
    centre = robot.frame_pose(np.zeros(2), frame)[:3, 3]
    scene = Scene(spheres=[Sphere(frame, 0.1), Sphere(None, 0.2, centre, "marble")])
    ((touch, _),) = touching(scene, robot, np.zeros((1, 2)))
    assert touch.gap[0] == pytest.approx(-0.3)
    assert np.linalg.norm([np.asarray(x).item() for x in touch.normal]) == pytest.approx(1.0)


def random_scene(model) -> Scene:
    """A sphere on the last frame over a slanted plane and, where it moves, near the first frame."""
    names = [f.name for f in model.frames if f.body != WORLD]
    spheres = [Sphere(names[-1], 0.1, (0.1, 0.0, 0.2), "tip"), Sphere(None, 0.2, (5, 4, 3), "rock")]
    first = next(f for f in model.frames if f.body != WORLD)
    pairs = [("tip", "slope"), ("tip", "rock")]
    if first.body != model.frame(names[-1]).body:
        spheres.append(Sphere(first.name, 0.1, (-0.1, 0.3, 0.1), "root"))
        pairs.append(("root", "tip"))
    return Scene(planes=[Plane((1, 2, 3), (0, 0, -1), "slope")], spheres=spheres, pairs=pairs)


@settings(max_examples=25, deadline=None)
@given(trees(most=6))
def test_rows_are_the_rates_of_gaps(tree):
    """J v is the rate of the gap (complex step) and the velocity at the point, on any tree."""
    model = build(*tree)
    if not model.nv:
        return
    robot, rng = Robot(model), np.random.default_rng(tree[1])
    q, v = robot.random(rng), rng.normal(size=model.nv)
    scene = random_scene(model)
    X, S = joint_kinematics(model, list(q))
    poses, V = world_poses(model, X), velocities(model, X, S, list(v))
    ahead = integrate(model, [complex(x) for x in q], [x * 1e-30j for x in v])
    later = world_poses(model, joint_kinematics(model, ahead)[0])
    sites = find_sites(scene, model)
    forces = [Vec3(*rng.normal(size=3)) for _ in sites]
    expected = np.zeros(model.nv)
    for site, f in zip(sites, forces, strict=True):
        touch = site.find(poses)
        J = np.array(contact_rows(model, X, S, touch, touch.axes), float)
        u = slide_velocity(touch, V)
        scale = 1.0 + np.abs(v).max()
        np.testing.assert_allclose(J @ v, [e.dot(u) for e in touch.axes], atol=1e-10 * scale)
        rate = complex(site.find(later).gap).imag / 1e-30
        assert (J @ v)[0] == pytest.approx(rate, abs=1e-9 * scale)
        expected += np.array([e.dot(f) for e in touch.axes]) @ J
    # forces on bodies make the torques of the rows
    touches = [site.find(poses) for site in sites]
    pushes = push_apart(model, touches, forces)
    found = -np.array(_torques(model, q, pushes))
    np.testing.assert_allclose(found, expected, atol=1e-9)


def _torques(model, q, pushes):
    """Torques that hold a robot without weight against forces on its bodies."""
    still = dataclasses.replace(model, gravity=Vec3.zero())
    zero = [0.0] * model.nv
    return newton_euler(still, list(q), zero, zero, pushes)


def test_boxes_and_capsules_touch_planes_at_corners_and_ends():
    robot = Robot(qddot.load("quadruped").model)
    scene = Scene(
        planes=[Plane()],
        boxes=[Box("base", (0.376, 0.094, 0.114))],
        capsules=[Capsule("FL_calf", 0.01, (0, 0, 0), (0, 0, -0.2))],
        points=[Point("FL_foot", (0, 0, -0.02))],
    )
    home = np.array(robot.model.configurations["home"])
    found = touching(scene, robot, home[None])
    names = [site.names[0] for site in find_sites(scene, robot.model)]
    assert names == ["FL_calf[0]", "FL_calf[1]", *(f"base[{k}]" for k in range(8)), "FL_foot"]
    gaps = np.array([np.asarray(touch.gap).item() for touch, _ in found])
    low = home[2] - 0.057
    np.testing.assert_allclose(gaps[2:10], [low, low + 0.114] * 4)
    ends = [(robot.frame_pose(home, "FL_calf") @ [0, 0, z, 1])[2] - 0.01 for z in (0.0, -0.2)]
    np.testing.assert_allclose(gaps[:2], ends)
    tip = robot.frame_pose(home, "FL_foot") @ [0, 0, -0.02, 1]
    assert gaps[10] == pytest.approx(tip[2])


def test_pairs_on_a_robot():
    model = qddot.load("quadruped").model
    feet = [Sphere(f"{leg}_foot", 0.02) for leg in ("FL", "FR")]
    scene = Scene(planes=[Plane()], spheres=[*feet, Sphere("FL_thigh", 0.03)], friction=0.7)
    assert scene.resolve_pairs(model) == (
        Pair("FL_foot", "ground", 0.7, 0.0),
        Pair("FR_foot", "ground", 0.7, 0.0),
        Pair("FL_thigh", "ground", 0.7, 0.0),
    )
    every = Scene(planes=scene.planes, spheres=scene.spheres, pairs="all").resolve_pairs(model)
    # a calf is next to its thigh, so these two do not touch
    assert [(p.first, p.second) for p in every[3:]] == [
        ("FL_foot", "FR_foot"),
        ("FR_foot", "FL_thigh"),
    ]
    (one,) = Scene(
        planes=[Plane()], spheres=feet, pairs=[Pair("ground", "FR_foot", friction=0.2)]
    ).resolve_pairs(model)
    assert one == Pair("FR_foot", "ground", 0.2, 0.0)


def test_shapes_of_a_file():
    scene = Scene.from_file("quadruped", only=["*_calf/sphere", "base", "FL_*"], friction=0.5)
    assert {x.name for x in scene.spheres} == {
        f"{leg}_calf/sphere" for leg in ("FL", "FR", "RL", "RR")
    }
    assert {x.name for x in scene.capsules} == {"FL_thigh", "FL_calf/capsule"}
    (box,) = scene.boxes
    assert tuple(box.size) == pytest.approx((0.376, 0.094, 0.114))
    assert any("FL_hip: a cylinder" in line for line in scene.omitted)
    model = qddot.load("quadruped").model
    home = np.array(model.configurations["home"])
    feet = [
        t
        for t, _ in touching(
            Scene.from_file("quadruped", only="*/sphere"), Robot(model), home[None]
        )
    ]
    np.testing.assert_allclose([np.asarray(t.gap).item() for t in feet], 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: Sphere("foot", -1.0), InvalidArgument, "radius of sphere 'foot'"),
        (lambda: Sphere("foot", float("nan")), InvalidArgument, "radius"),
        (lambda: Sphere(3, 0.1), InvalidArgument, "it is a name, or None for the world"),
        (lambda: Plane((0, 0, 0)), InvalidArgument, "it has a direction"),
        (lambda: Plane((0, 1)), InvalidArgument, "three numbers"),
        (lambda: Plane(point=(0, 0, np.inf)), InvalidModel, "not a finite number"),
        (lambda: Capsule("a", 0.1, (0, 0, 0), (0, 0, 0)), InvalidArgument, "Sphere"),
        (lambda: Box("a", (1, 0, 1)), InvalidArgument, "longer than zero"),
        (lambda: Box("a", (1, 1, 1), (0, 0, 0)), InvalidArgument, "Transform"),
        (lambda: Pair("a", "b", friction=-0.1), InvalidArgument, "friction of pair"),
        (lambda: Scene(spheres=[Sphere("a", 1), Sphere("a", 1)]), InvalidModel, "used twice"),
        (lambda: Scene(planes=[Sphere("a", 1)]), InvalidArgument, "each is a Plane"),
        (lambda: Scene(planes=5), InvalidArgument, "sequence of Plane"),
        (lambda: Scene(pairs="everything"), UnknownName, "'ground', 'all'"),
        (lambda: Scene(pairs=[("a",)]), InvalidArgument, "two names"),
        (lambda: Scene(restitution=1.5), InvalidArgument, "from 0 to 1"),
    ],
)
def test_scenes_that_are_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()


def test_pairs_that_are_refused():
    model = qddot.load("quadruped").model

    def sites(**parts):
        return find_sites(Scene(planes=[Plane()], **parts), model)

    with pytest.raises(UnknownName, match="closest: 'FL_foot'"):
        sites(spheres=[Sphere("FL_foto", 0.02)])
    with pytest.raises(UnknownName, match="no shape 'grund'"):
        sites(spheres=[Sphere("FL_foot", 0.02)], pairs=[("FL_foot", "grund")])
    crates = [Box("base", (1, 1, 1)), Box("FL_calf", (1, 1, 1))]
    assert len(sites(boxes=crates, pairs=[("base", "FL_calf")])) == BOX_POINTS
    rods = [Capsule("FL_calf", 0.1, (0, 0, 0), (0, 0, 1))]
    with pytest.raises(InvalidArgument, match="a capsule and a box"):
        sites(boxes=crates[:1], capsules=rods, pairs=[("FL_calf", "base")])
    two = [Sphere("FL_foot", 0.02), Sphere("FL_calf", 0.02)]
    with pytest.raises(InvalidModel, match="both are fixed to body 'FL_calf'"):
        sites(spheres=two, pairs=[("FL_foot", "FL_calf")])


@pytest.mark.parametrize("other", [Plane(), Sphere(None, 0.1, name="ground"), Box(None, (1, 1, 1))])
def test_a_shape_without_spine_or_corners_is_refused(other, monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class Cone:
        frame: str = "FL_foot"
        name: str = "cone"

    scene, shapes = Scene(), {"cone": Cone(), "ground": other}
    pair = Pair("cone", "ground", 0.5, 0.0)
    monkeypatch.setattr(Scene, "resolve_pairs", lambda scene, model: (pair,))
    monkeypatch.setattr(Scene, "find", lambda scene, name: shapes[name])
    with pytest.raises(Unsupported, match="a radius and a spine"):
        find_sites(scene, qddot.load("quadruped").model)
