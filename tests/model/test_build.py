"""Robots that are built in code: their health, and the public way to build them."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import qddot
from qddot import LinkSpec
from qddot.errors import ImpossibleInertia, QddotError
from qddot.model.assembly import assemble
from qddot.model.joints import JOINTS, Joint
from qddot.model.links import Link, Loop
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Inertia, Sym3, Transform, Vec3
from qddot.writers import convert

Z = Vec3(0.0, 0.0, 1.0)
LONG = Inertia.at_com(1.0, Vec3.zero(), Sym3.diagonal(0.1, 0.1, 0.5))
SOUND = Inertia.at_com(1.0, Vec3.zero(), Sym3.diagonal(0.1, 0.1, 0.1))


def hinge(name: str, parent: str | None, inertia: Inertia) -> Link:
    return Link(name, parent, Transform.identity(), Joint(name, JOINTS["revolute"], (Z,)), inertia)


def kinds(robot: Robot) -> list[tuple[str, str]]:
    return [(f.kind, f.subject) for f in robot.health]


# health of what assemble makes


def test_impossible_inertias_of_links_in_code_are_found():
    robot = Robot(assemble("arm", [hinge("a", None, SOUND), hinge("b", "a", LONG)]))
    (found,) = [f for f in robot.health if f.kind == "inertia"]
    assert (found.severity, found.subject) == ("error", "link 'b'")
    assert "exceeds the other two by 0.3" in found.message


def test_fixed_links_are_judged_before_they_are_merged():
    """The sum of a heavy sound body and an impossible one is possible."""
    heavy = Inertia.at_com(50.0, Vec3.zero(), Sym3.diagonal(9.0, 9.0, 9.0))
    plate = Link("plate", "arm", Transform.identity(), Joint("weld", JOINTS["fixed"]), LONG)
    robot = Robot(assemble("arm", [hinge("arm", None, heavy), plate]))
    assert ("inertia", "link 'plate'") in kinds(robot)


def test_massless_leaves_and_loops_in_code_are_found():
    links = [hinge("a", None, SOUND), hinge("b", "a", Inertia.zero())]
    model = assemble("arm", links, loops=(Loop("ring", "spherical", "a", "b"),))
    found = [(f.kind, f.subject) for f in model.health]
    assert found == [("loop", "loops"), ("massless", "body 'b'")]


def test_edits_keep_one_finding_of_each():
    links = [hinge("a", None, SOUND), hinge("b", "a", LONG), hinge("c", "b", Inertia.zero())]
    robot = Robot(assemble("arm", links))
    for edited in (
        robot.without_joint("a"),
        robot.attach(Robot(assemble("x", links)), "c", None, "x_"),
    ):
        found = [(f.kind, f.subject) for f in edited.model.health]
        assert len(set(found)) == len(found)
        assert ("inertia", "link 'b'") in found
    assert ("massless", "body 'x_c'") in found
    assert ("inertia", "link 'x_b'") in found
    mended = robot.with_parameters([SOUND_ROW] * 3)
    assert not [f for f in mended.without_joint("a").model.health if f.kind == "inertia"]


SOUND_ROW = list(SOUND)


def test_a_description_and_its_links_have_the_same_findings():
    from qddot.loaders.description import Description, suppress_warnings, to_model

    links = (hinge("a", None, SOUND), hinge("b", "a", LONG), hinge("c", "b", Inertia.zero()))
    with suppress_warnings():
        loaded = to_model(Description("arm", links), None, "exact", False)
    assert loaded.health == assemble("arm", links).health
    assert dataclasses.replace(loaded, health=()).digest == assemble("arm", links).digest


# links in plain data


def bar(name: str, parent: str | None, **more) -> dict:
    """A bar of 1 kg and 0.4 m along x, on a hinge about y."""
    fields = {
        "name": name,
        "parent": parent,
        "joint": "revolute",
        "axis": (0, 1, 0),
        "mass": 1.0,
        "com": (0.2, 0.0, 0.0),
        "inertia": (0.001, 0.014, 0.014),
    }
    return {**fields, **more}


BASE = {"name": "base", "parent": None, "joint": "fixed"}


def test_a_double_pendulum_in_plain_numbers():
    """Against the closed form of two bars in a plane, angles from the horizontal, downwards."""
    robot = Robot.from_links(
        "pendulum", [bar("upper", None), LinkSpec(**bar("lower", "upper", position=(0.4, 0, 0)))]
    )
    m, half, length, J, g = 1.0, 0.2, 0.4, 0.014, 9.81
    q1, q2 = 0.3, -0.8
    v = np.array([0.7, -1.1])
    c, s = math.cos(q2), math.sin(q2)
    m11 = 2 * J + m * (half**2 + length**2 + half**2 + 2 * length * half * c)
    m12 = J + m * (half**2 + length * half * c)
    M = np.array([[m11, m12], [m12, J + m * half**2]])
    h = m * length * half * s
    Cv = np.array([-h * (2 * v[0] * v[1] + v[1] ** 2), h * v[0] ** 2])
    lower = m * g * half * math.cos(q1 + q2)
    gravity = -np.array([m * g * (half + length) * math.cos(q1) + lower, lower])
    q = np.array([q1, q2])
    np.testing.assert_allclose(robot.mass_matrix(q), M, rtol=1e-13)
    np.testing.assert_allclose(robot.bias(q, v), Cv + gravity, rtol=1e-12)
    assert robot.joint_names == ("upper", "lower")


def test_three_forms_of_a_rotation_are_one():
    roll, pitch, yaw = 0.3, -0.5, 1.1
    x, y, z = (Rotation.from_euler(k, a) for k, a in zip("xyz", (roll, pitch, yaw), strict=True))
    turn = z * y * x
    X = np.eye(4)
    X[:3, :3], X[:3, 3] = turn.as_matrix(), (0.1, 0.2, 0.3)
    ways = [
        {"placement": X},
        {"position": [0.1, 0.2, 0.3], "rotation": turn.as_matrix()},
        {"position": np.array([0.1, 0.2, 0.3]), "rotation": turn.as_quat()},
        {"position": (0.1, 0.2, 0.3), "rotation": (roll, pitch, yaw)},
    ]
    for way in ways:
        robot = Robot.from_links(
            "arm", [bar("a", None, **way)], frames=[{"name": "tip", "link": "a", **way}]
        )
        np.testing.assert_allclose(robot.frame_pose([0.0], "a"), X, atol=1e-15)
        np.testing.assert_allclose(robot.frame_pose([0.0], "tip"), X @ X, atol=1e-15)


def test_three_forms_of_a_tensor_are_one():
    full = np.diag([0.001, 0.014, 0.014])
    for given in (full, full.tolist(), (0.001, 0, 0.014, 0, 0, 0.014), (0.001, 0.014, 0.014)):
        robot = Robot.from_links("arm", [bar("a", None, inertia=given)])
        assert robot.mass_matrix([0.0])[0, 0] == pytest.approx(0.014 + 0.04)
    point = Robot.from_links("arm", [bar("a", None, inertia=None)])
    assert point.mass_matrix([0.0])[0, 0] == pytest.approx(0.04)
    lopsided = [[0.01, 0.002, 0.0], [0.002, 0.02, 0.003], [0.0, 0.003, 0.02]]
    robot = Robot.from_links("arm", [bar("a", None, com=(0, 0, 0), inertia=lopsided)])
    np.testing.assert_allclose(
        robot.inertial_parameters[0], [1, 0, 0, 0, 0.01, 0.002, 0.02, 0, 0.003, 0.02]
    )


KINDS = {
    "fixed": {},
    "revolute": {"axis": (0, 0, 2.0)},
    "continuous": {"axis": (0, 0, 1)},
    "prismatic": {"axis": (1, 1, 0)},
    "helical": {"axis": (0, 0, 1), "pitch": 0.1},
    "universal": {"axis": [(1, 0, 0), (0, 1, 0)]},
    "planar": {"axis": (0, 0, 1)},
    "ball": {},
    "free": {},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_joint(kind):
    spec = {"name": "body", "parent": "base", "joint": kind, "mass": 2.0, "inertia": (1, 1, 1)}
    robot = Robot.from_links("one", [BASE, {**spec, **KINDS[kind]}])
    assert robot.nv == JOINTS[kind].nv
    if robot.nv:
        q, v = robot.random(0), np.ones(robot.nv)
        a = robot.forward_dynamics(q, v, np.ones(robot.nv))
        np.testing.assert_allclose(robot.inverse_dynamics(q, v, a), 1.0)
    if kind == "helical":
        assert robot.mass_matrix([0.0])[0, 0] == pytest.approx(1.0 + 2.0 * 0.01)
    if kind == "prismatic":
        along = robot.frame_pose([1.0], "body")[:3, 3]
        np.testing.assert_allclose(along, [math.sqrt(0.5), math.sqrt(0.5), 0.0])


def test_losses_limits_couplings_loops_and_configurations():
    robot = Robot.from_links(
        "four",
        [
            BASE,
            bar("crank", "base", joint_name="drive", limits=(-1, 2), velocity_limit=3,
                effort_limit=4, damping=0.5, friction=(3.0, 1.0), armature=0.2),
            bar("rod", "crank", position=(0.4, 0, 0), stiffness=2.0, rest=0.1),
            bar("gear", "base", position=(0, 1, 0)),
        ],
        frames=[{"name": "pin", "link": "base", "position": (0.8, 0, 0)}],
        couplings=[{"follower": "gear", "leader": "drive", "ratio": -2.0}],
        loops=[{"name": "ring", "kind": "spherical", "frame1": "rod", "frame2": "pin"}],
        configurations={"home": [0.1, 0.2]},
        gravity=(0, 0, -1.62),
    )  # fmt: skip
    drive = robot.model.body_of_joint("drive").joint
    assert dataclasses.astuple(drive.limits) == (-1.0, 2.0, 3.0, 4.0)
    assert drive.drivetrain.friction_levels == (3.0, 1.0)
    assert robot.nv == 2
    np.testing.assert_array_equal(robot.configurations["home"], [0.1, 0.2])
    friction = robot.friction([0.0, 0.0], [-1.0, 0.0])
    np.testing.assert_allclose(friction, [-1.5, -0.2])
    assert robot.mass_matrix([0.0, 0.0])[0, 0] > 0.2 + 4 * 0.054
    assert tuple(robot.model.gravity) == (0.0, 0.0, -1.62)
    assert robot.model.loops[0].rows == ("x", "y", "z")
    assert [f.kind for f in robot.health if f.kind == "loop"] == ["loop"]


def test_a_robot_in_code_simulates_converts_and_exports(tmp_path):
    robot = Robot.from_links(
        "arm", [bar("a", None, damping=0.1), bar("b", "a", position=(0.4, 0, 0))]
    )
    fall = robot.rollout([0.0, 0.0], [0.0, 0.0], dt=1e-3, steps=10)
    assert fall.v[-1, 0] > 0.0
    assert convert(robot, tmp_path / "arm.urdf").exact
    read = qddot.load(tmp_path / "arm.urdf")
    np.testing.assert_allclose(read.mass_matrix([0.1, 0.2]), robot.mass_matrix([0.1, 0.2]))
    robot.export_c(["gravity"], tmp_path / "c")
    assert list((tmp_path / "c").glob("*.c"))


# what is refused

A = bar("a", None)
SKEWED = [[1, 0.5, 0], [0, 1, 0], [0, 0, 1]]
MIRROR = np.diag([1.0, 1.0, -1.0])


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([], "at least one link"),
        (5, "links: 5 .* needs a list"),
        ({"a": A}, "needs a list"),
        (["a"], r"links\[0\]: 'a' .*LinkSpec"),
        ([{"name": "a"}], r"links\[0\]: .* parent, joint too"),
        ([{**A, "masss": 1.0}], "closest: 'mass'"),
        ([A, bar("a", "a")], "link 'a': the name is used twice"),
        ([A, bar("b", "c")], "no parent of link 'b' 'c'"),
        ([A, bar("b", 3)], "no parent of link 'b' 3"),
        ([A, bar("b", None)], "link 'a': 'b' have no parent either: one root"),
        ([A, bar("b", "c"), bar("c", "b")], "link 'b': is its own ancestor"),
        ([bar("b", "c"), bar("c", "b")], "is its own ancestor"),
        ([bar("", None)], "link: name"),
        ([bar(7, None)], "link: name"),
        ([{**A, "joint": "hinge"}], "no joint of link 'a' 'hinge'; known: 'fixed', 'revolute'"),
        ([{**A, "joint": None}], "no joint of link 'a' None"),
        ([{**A, "axis": (0, 0, 0)}], "link 'a': axis: .* has no direction"),
        ([{**A, "axis": (0, math.nan, 1)}], "link 'a': axis: .* 3 finite numbers"),
        ([{**A, "axis": (0, 1)}], "link 'a': axis: .* needs 3"),
        ([{**A, "axis": None}], "a revolute joint needs one"),
        ([{**A, "joint": "ball"}], "a ball joint has none"),
        ([{**A, "joint": "universal"}], "link 'a': axis"),
        ([{**A, "joint": "universal", "axis": [(1, 0, 0), (2, 0, 0)]}], "not parallel"),
        ([{**A, "joint": "helical"}], "needs one, in m/rad"),
        ([{**A, "pitch": 1.0}], "only a helical joint"),
        ([{**A, "rotation": SKEWED}], "link 'a': rotation: .* 3×3 rotation matrix"),
        ([{**A, "rotation": MIRROR}], "link 'a': rotation"),
        ([{**A, "rotation": (0, 0, 0, 2)}], "unit quaternion \\(x, y, z, w\\)"),
        ([{**A, "rotation": (0, 0, 0, 0)}], "unit quaternion"),
        ([{**A, "rotation": (0, math.nan, 0)}], "link 'a': rotation"),
        ([{**A, "rotation": [[1], [2, 3]]}], "link 'a': rotation"),
        ([{**A, "placement": np.eye(3)}], "link 'a': placement: .* 4×4"),
        ([{**A, "placement": np.eye(4) * 2}], "link 'a': placement"),
        ([{**A, "placement": np.eye(4), "position": (0, 0, 1)}], "not both"),
        ([{**A, "position": (0, 0)}], "link 'a': position: .* needs 3"),
        ([{**A, "position": (0, 0, math.inf)}], "link 'a': position"),
        ([{**A, "position": (0, 0, 1e13)}], "link 'a': .* absurdly large"),
        ([{**A, "mass": -1.0}], "link 'a': mass: -1.0 .* 0 or more"),
        ([{**A, "mass": math.nan}], "link 'a': mass"),
        ([{**A, "mass": "1"}], "link 'a': mass"),
        ([{**A, "mass": True}], "link 'a': mass"),
        ([{**A, "mass": 1j}], "link 'a': mass"),
        ([{**A, "mass": 10**400}], "link 'a': mass"),
        ([{**A, "com": (0, 0)}], "link 'a': com"),
        ([{**A, "com": None}], "link 'a': com"),
        ([{**A, "inertia": (1, 2)}], "link 'a': inertia: .* 6 numbers"),
        ([{**A, "inertia": SKEWED}], "link 'a': inertia: .* symmetric"),
        ([{**A, "inertia": 1.0}], "link 'a': inertia"),
        ([{**A, "inertia": (1, 1, math.nan)}], "link 'a': inertia"),
        ([{**A, "limits": (1, -1)}], "link 'a': limits: .* lower ≤ upper"),
        ([{**A, "limits": (math.inf, math.inf)}], "link 'a': limits: .* lower ≤ upper"),
        ([{**A, "limits": 1.0}], "link 'a': limits"),
        ([{**A, "limits": (math.nan, 1)}], "link 'a': limits"),
        ([{**A, "joint": "continuous", "limits": (0, 1)}], "a continuous joint have none"),
        ([{**A, "velocity_limit": -1}], "link 'a': velocity_limit"),
        ([{**A, "effort_limit": None}], "link 'a': effort_limit"),
        ([{**A, "damping": -1}], "link 'a': damping"),
        ([{**A, "friction": (1, -1)}], "link 'a': friction: -1"),
        ([{**A, "friction": (1, 2, 3)}], "link 'a': friction: .* needs 2"),
        ([{**A, "armature": math.inf}], "link 'a': armature"),
        ([{**A, "rest": (1, 2)}], "link 'a': rest"),
        ([{**BASE, "damping": 1.0}], "'fixed' .* no damping"),
        ([{**A, "joint": "free", "axis": None, "armature": 1.0}], "armature has no meaning"),
        ([{**A, "joint_name": ""}], "link 'a': joint_name"),
        ([A, bar("b", "a", joint_name="a")], "joint 'a': the name is used twice"),
    ],
)  # fmt: skip
def test_links_that_are_refused(links, message):
    with pytest.raises(QddotError, match=message):
        Robot.from_links("arm", links)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"name": ""}, "robot: name"),
        ({"name": None}, "robot: name"),
        ({"gravity": (0, 0)}, "gravity: .* needs 3"),
        ({"gravity": 9.81}, "gravity"),
        ({"frames": [{"name": "f", "link": "x"}]}, "no link of frame 'f' 'x'"),
        ({"frames": [{"name": "a", "link": "a"}]}, "frame 'a': the name is used twice"),
        ({"frames": [{"name": "f", "link": "a", "position": 1}]}, "frame 'f': position"),
        ({"couplings": [{"follower": "a", "leader": "x"}]}, "no joint 'x' in 'couplings"),
        ({"couplings": [{"follower": "a"}]}, "leader too"),
        ({"couplings": [{"follower": "b", "leader": "a", "ratio": "2"}]}, "ratio"),
        ({"loops": [{"name": "l", "kind": "weld", "frame1": "a", "frame2": "x"}]}, "no frame 'x'"),
        ({"loops": [{"name": "l", "kind": "pin", "frame1": "a", "frame2": "b"}]}, "kind of loop"),
        ({"configurations": {"home": [1.0]}}, "configuration 'home': .* needs 2"),
        ({"configurations": [1.0]}, "name: q"),
    ],
)
def test_choices_that_are_refused(choice, message):
    given = {"name": "arm", **choice}
    with pytest.raises(QddotError, match=message):
        Robot.from_links(given.pop("name"), [A, bar("b", "a")], **given)


def test_impossible_inertias_warn_or_are_refused():
    bad = bar("a", None, inertia=(0.1, 0.1, 0.5))
    with pytest.warns(UserWarning, match="arm: 1 impossible inertia") as caught:
        robot = Robot.from_links("arm", [bad])
    assert caught[0].filename == __file__
    assert ("inertia", "link 'a'") in kinds(robot)
    with pytest.raises(ImpossibleInertia, match="link 'a'"):
        Robot.from_links("arm", [bad], strict=True)


def test_the_page_prints_what_it_says(capsys):
    page = Path(__file__).resolve().parents[2] / "docs" / "build.md"
    blocks = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", page.read_text(), re.S)
    assert len(blocks) == 2
    scope: dict = {}
    for code, said in blocks:
        exec(code, scope)
        assert capsys.readouterr().out == said
