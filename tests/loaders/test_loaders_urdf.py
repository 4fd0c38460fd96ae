"""URDF and xacro: what the file says is what the model has, checked by hand and by Pinocchio."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest

import qddot
from qddot.errors import DescriptionError
from qddot.loaders.xml import parse_xml
from qddot.model.model import WORLD
from qddot.spatial.algebra import Transform

BOX = 'ixx="0.3" ixy="0.02" ixz="-0.01" iyy="0.25" iyz="0.015" izz="0.2"'
PARTS = (("ixx", "ixy", "ixz"), ("ixy", "iyy", "iyz"), ("ixz", "iyz", "izz"))
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "awkward_models"


def link(name: str, mass: float = 1.0, xyz: str = "0 0 0", rpy: str = "0 0 0") -> str:
    """A link with an inertia that is not symmetric in any axis."""
    return (
        f'<link name="{name}"><inertial><origin xyz="{xyz}" rpy="{rpy}"/>'
        f'<mass value="{mass}"/><inertia {BOX}/></inertial></link>'
    )


def joint(name: str, kind: str, parent: str, child: str, inside: str = "") -> str:
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f"{inside}</joint>"
    )


def robot(*parts: str, name: str = "r") -> str:
    return f'<robot name="{name}">\n' + "\n".join(parts) + "\n</robot>\n"


@pytest.fixture
def load(tmp_path):
    """Loads a text as a file."""

    def from_text(text: str, suffix: str = ".urdf", **options):
        file = tmp_path / f"robot{suffix}"
        file.write_text(text)
        return qddot.load(file, **options)

    return from_text


def rotation(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """Rz(yaw) Ry(pitch) Rx(roll), written out."""
    cr, sr, cp, sp = math.cos(roll), math.sin(roll), math.cos(pitch), math.sin(pitch)
    cy, sy = math.cos(yaw), math.sin(yaw)
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def tensor() -> np.ndarray:
    """The tensor of BOX."""
    values = dict(item.split("=") for item in BOX.replace('"', "").split())
    return np.array([[float(values[key]) for key in row] for row in PARTS])


def moment_about(axis: np.ndarray, mass: float, com: np.ndarray, R: np.ndarray) -> float:
    """Moment of inertia about an axis through the origin, by the parallel-axis theorem."""
    across = com - axis * (axis @ com)
    return float(axis @ R @ tensor() @ R.T @ axis + mass * across @ across)


def pinocchio_terms(text: str, loaded: qddot.Robot, q: np.ndarray, v: np.ndarray):
    """M, C v + g and g by Pinocchio, in the order of our velocities."""
    pin = pytest.importorskip("pinocchio", reason="pinocchio is the oracle of this test")
    model = pin.buildModelFromXML(text)
    data = model.createData()
    pq, pv = pin.neutral(model), np.zeros(model.nv)
    columns = np.zeros(model.nv, dtype=int)
    for body in loaded.model.independent:
        jid = model.getJointId(body.joint.name)
        theirs = model.joints[jid]
        x = q[body.iq]
        if theirs.nq == theirs.nv + 1 and body.joint.kind.name in ("continuous", "planar"):
            x = np.concatenate([x[:-1], [math.cos(x[-1]), math.sin(x[-1])]])
        pq[theirs.idx_q : theirs.idx_q + theirs.nq] = x
        pv[theirs.idx_v : theirs.idx_v + theirs.nv] = v[body.iv]
        columns[body.iv] = np.arange(theirs.idx_v, theirs.idx_v + theirs.nv)
    M = pin.crba(model, data, pq)
    M = np.triu(M) + np.triu(M, 1).T
    h = pin.nonLinearEffects(model, data, pq, pv)
    g = pin.computeGeneralizedGravity(model, data, pq)
    return M[np.ix_(columns, columns)], h[columns], g[columns]


def assert_agrees_with_pinocchio(text: str, loaded: qddot.Robot, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(5):
        q, v = loaded.random(rng), rng.normal(size=loaded.nv)
        M, h, g = pinocchio_terms(text, loaded, q, v)
        np.testing.assert_allclose(loaded.mass_matrix(q), M, rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(loaded.bias(q, v), h, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(loaded.gravity(q), g, rtol=1e-10, atol=1e-10)


def test_inertial_origin_with_rpy_by_hand(load):
    text = robot(
        '<link name="base"/>',
        link("arm", 2.0, "0.1 -0.2 0.3", "0.4 -0.5 0.6"),
        joint("j", "continuous", "base", "arm", '<axis xyz="1 2 2"/>'),
    )
    axis, com = np.array([1.0, 2.0, 2.0]) / 3.0, np.array([0.1, -0.2, 0.3])
    expected = moment_about(axis, 2.0, com, rotation(0.4, -0.5, 0.6))
    assert load(text).mass_matrix([0.7])[0, 0] == pytest.approx(expected, rel=1e-13)


def test_the_axis_is_in_the_frame_of_the_joint_and_defaults_to_x(load):
    origin = '<origin xyz="0 0 0" rpy="0 0 1.5707963267948966"/>'
    text = robot(
        '<link name="base"/>',
        link("arm", 2.0, "0 0 1"),
        joint("j", "continuous", "base", "arm", origin),
    )
    loaded = load(text)
    J = loaded.frame_jacobian(loaded.neutral(), "arm", "local_world_aligned")[:, 0]
    # joint frame turned by 90 degrees about z: its x axis is the y axis of the base
    np.testing.assert_allclose(J, [0, 0, 0, 0, 1, 0], atol=1e-15)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1.57079632679", math.pi / 2),
        ("-1.5707963267949", -math.pi / 2),
        ("3.1415926536", math.pi),
        ("2.61799387799", math.radians(150)),
        ("-3.92699081699", math.radians(-225)),
        ("0.523598775598", math.radians(30)),
        ("0.0174532925199", math.radians(1)),
        ("1.57079632679489", math.pi / 2),
        ("1.570796326794", math.pi / 2),
        ("1.57079632679489655", math.pi / 2),
        ("-6.1232E-17", 0.0),
        ("1.5708", 1.5708),
        ("3.14159265", 3.14159265),
        ("1.5707963267800001", 1.5707963267800001),
        ("1.570796326798", 1.570796326798),
        ("8.000045070843951e-12", 8.000045070843951e-12),
        ("1E-11", 1e-11),
        ("0e400", 0.0),
        ("0.08726646255", 0.08726646255),
        ("0.0000001", 1e-7),
        ("0.3", 0.3),
    ],
)
def test_degrees_that_were_rounded_late_are_whole(load, written, meant):
    """Whole degrees rounded to ten decimals and more; other angles are those of the file."""

    def turned(yaw: str) -> list[float]:
        origin = f'<origin rpy="0 0 {yaw}"/>'
        parts = '<link name="base"/>', link("arm"), joint("j", "continuous", "base", "arm", origin)
        return [x for row in load(robot(*parts)).model.bodies[0].placement.R for x in row]

    np.testing.assert_allclose(turned(written), rotation(0, 0, meant).ravel(), atol=2e-16)


def test_an_axis_of_any_length_is_a_direction(load):
    parts = '<link name="base"/>', link("arm", 2.0, "0.3 0 0")
    one, ten = (
        load(robot(*parts, joint("j", "revolute", "base", "arm", f'<axis xyz="0 {n} 0"/>')))
        for n in (1, 10)
    )
    np.testing.assert_allclose(one.mass_matrix([0.2]), ten.mass_matrix([0.2]), rtol=1e-15)


TREE = robot(
    '<link name="world"/>',
    link("base", 3.0, "0.1 0 0.2", "0.1 0.2 0.3"),
    link("upper", 2.0, "0.2 0.1 -0.1", "0.3 0 -0.4"),
    link("plate", 0.7, "0.02 0.03 0.04", "0 0.5 0"),
    link("bolt", 0.2, "0 0 0.05"),
    link("slider", 1.1, "0 0.1 0"),
    link("wrist", 0.9, "0.1 0.1 0.1", "1 1 1"),
    link("other", 0.8, "-0.1 0 0.1"),
    joint("fix", "fixed", "world", "base", '<origin xyz="0 0 1" rpy="0.1 0 0"/>'),
    joint(
        "a",
        "revolute",
        "base",
        "upper",
        '<origin xyz="0.1 0.2 0.3" rpy="0.3 -0.2 0.1"/><axis xyz="0 1 1"/>'
        '<limit lower="-2" upper="1.5" effort="30" velocity="4"/>'
        '<safety_controller k_velocity="10" soft_lower_limit="-1"/>'
        '<calibration rising="0.1"/>',
    ),
    joint("plate_fix", "fixed", "upper", "plate", '<origin xyz="0.5 0 0.1" rpy="0 0.4 0.2"/>'),
    joint("bolt_fix", "fixed", "plate", "bolt", '<origin xyz="0 0.1 0" rpy="0.5 0 0"/>'),
    joint(
        "b",
        "prismatic",
        "plate",
        "slider",
        '<origin xyz="0.1 0 0" rpy="0 0 0.7"/><axis xyz="0 0 1"/>'
        '<limit lower="-0.1" upper="0.4" effort="1" velocity="1"/>',
    ),
    joint("c", "continuous", "slider", "wrist", '<origin xyz="0 0 0.2"/><axis xyz="1 0 1"/>'),
    joint("d", "continuous", "base", "other", '<axis xyz="0 0 -1"/>'),
)


def test_a_tree_with_fixed_joints_agrees_with_pinocchio(load):
    loaded = load(TREE)
    assert loaded.joint_names == ("a", "b", "c", "d")
    assert_agrees_with_pinocchio(TREE, loaded)


def test_limits_are_those_of_the_file(load):
    joints = {b.joint.name: b.joint.limits for b in load(TREE).model.bodies}
    a, d = joints["a"], joints["d"]
    assert (a.lower, a.upper, a.velocity, a.effort) == (-2.0, 1.5, 4.0, 30.0)
    assert (d.lower, d.upper, d.velocity, d.effort) == (-math.inf, math.inf, math.inf, math.inf)


def test_limits_may_be_one_sided_infinite_or_only_of_effort(load):
    def limits(inside: str):
        text = robot('<link name="a"/>', link("b"), joint("j", "revolute", "a", "b", inside))
        return load(text).model.bodies[0].joint.limits

    assert limits('<limit upper="2" effort="1" velocity="1"/>').lower == 0.0  # the URDF default
    assert limits('<limit effort="5" velocity="1"/>').upper == math.inf
    assert limits('<limit lower="-inf" upper="inf" effort="1e30"/>').lower == -math.inf


def test_merged_inertia_by_hand(load):
    loaded = load(TREE)
    upper = next(b for b in loaded.model.bodies if b.name == "upper")
    poses = {"upper": np.eye(4)}
    for name, parent, p, rpy in (
        ("plate", "upper", (0.5, 0, 0.1), (0, 0.4, 0.2)),
        ("bolt", "plate", (0, 0.1, 0), (0.5, 0, 0)),
    ):
        X = np.eye(4)
        X[:3, :3], X[:3, 3] = rotation(*rpy), p
        poses[name] = poses[parent] @ X
    mass, first, about = 0.0, np.zeros(3), np.zeros((3, 3))
    for name, m, c, rpy in (
        ("upper", 2.0, (0.2, 0.1, -0.1), (0.3, 0, -0.4)),
        ("plate", 0.7, (0.02, 0.03, 0.04), (0, 0.5, 0)),
        ("bolt", 0.2, (0, 0, 0.05), (0, 0, 0)),
    ):
        X = poses[name]
        p = X[:3, :3] @ np.array(c) + X[:3, 3]
        R = X[:3, :3] @ rotation(*rpy)
        mass, first = mass + m, first + m * p
        about = about + R @ tensor() @ R.T + m * (p @ p * np.eye(3) - np.outer(p, p))
    assert upper.inertia.mass == pytest.approx(mass)
    np.testing.assert_allclose(list(upper.inertia.h), first, atol=1e-14)
    np.testing.assert_allclose([list(r) for r in upper.inertia.I.rows], about, atol=1e-14)
    np.testing.assert_allclose(
        loaded.frame_pose([0, 0, 0, 0], "bolt"),
        loaded.frame_pose([0, 0, 0, 0], "upper") @ poses["bolt"],
        atol=1e-14,
    )


def test_links_without_inertial_have_no_mass_and_meshes_need_not_exist(load):
    mesh = "<{0}><geometry><mesh filename='package://nowhere/{0}.stl'/></geometry></{0}>"
    text = robot(
        '<link name="base"/>',
        '<link name="ghost">' + mesh.format("visual") + mesh.format("collision") + "</link>",
        link("tip", 2.0, "0 0 1"),
        joint("j", "continuous", "base", "ghost", '<axis xyz="0 1 0"/>'),
        joint("k", "fixed", "ghost", "tip"),
    )
    loaded = load(text)
    assert loaded.model.mass == 2.0
    assert_agrees_with_pinocchio(text, loaded)


def test_planar_and_floating_joints_agree_with_pinocchio(load):
    text = robot(
        '<link name="world"/>',
        link("base", 3.0, "0.1 0 0.2", "0.1 0.2 0.3"),
        link("disc", 1.0, "0.1 0.1 0.1"),
        joint("float", "floating", "world", "base"),
        joint(
            "slide",
            "planar",
            "base",
            "disc",
            '<origin xyz="0.1 0.2 0.3" rpy="0.3 0.2 0.1"/><axis xyz="0 0 1"/>',
        ),
    )
    loaded = load(text)
    assert (loaded.nq, loaded.nv) == (10, 9)
    assert_agrees_with_pinocchio(text, loaded)


@pytest.mark.parametrize("normal", ["1 0 0", "0 1 0", "1 1 1"])
def test_a_planar_joint_moves_in_the_plane_of_its_normal(load, normal):
    text = robot(
        '<link name="w"/>',
        link("disc"),
        joint("p", "planar", "w", "disc", f'<axis xyz="{normal}"/>'),
    )
    loaded = load(text)
    n = np.array([float(x) for x in normal.split()])
    X = loaded.frame_pose([0.3, -0.2, 0.9], "disc")
    assert abs(X[:3, 3] @ n) < 1e-15
    assert np.linalg.norm(X[:3, 3]) == pytest.approx(math.hypot(0.3, 0.2))
    np.testing.assert_allclose(X[:3, :3] @ n, n, atol=1e-15)


def test_a_universal_joint_is_a_chain_of_two_revolutes(load):
    joints = joint("u", "universal", "w", "a"), joint("j", "continuous", "a", "b")
    loaded = load(robot('<link name="w"/>', link("a"), link("b"), *joints))
    between, first, second = loaded.model.bodies
    assert (between.name, first.name, second.name) == ("a/u.1", "a", "b")
    assert (between.parent, first.parent, second.parent) == (WORLD, 0, 1)
    assert not any(between.inertia)
    assert first.placement == Transform.identity()
    assert {b.joint.kind.name for b in (between, first)} == {"revolute"}
    assert loaded.joint_names == loaded.model.velocity_names == ("u.1", "u.2", "j")


MIMIC = robot(
    '<link name="base"/>',
    *(link(n, 1.0, "0.2 0.1 0") for n in "abcd"),
    joint(
        "ja",
        "revolute",
        "base",
        "a",
        '<axis xyz="0 1 0"/><mimic joint="jc" multiplier="-2" offset="0.3"/>',
    ),
    joint(
        "jb",
        "prismatic",
        "a",
        "b",
        '<origin xyz="0.3 0 0"/><mimic joint="ja" multiplier="0.5" offset="-0.1"/>',
    ),
    joint(
        "jc",
        "revolute",
        "b",
        "c",
        '<origin xyz="0.3 0 0"/><axis xyz="0 0 1"/><dynamics damping="2"/>',
    ),
    joint("jd", "revolute", "c", "d", '<origin xyz="0.3 0 0"/><axis xyz="0 1 0"/>'),
)


def test_mimic_chains_and_forward_references(load):
    # ja = -2 jc + 0.3 refers forward; jb = 0.5 ja - 0.1 = -jc + 0.05 refers to a follower
    exact, free = load(MIMIC), load(MIMIC, couplings="free")
    assert exact.joint_names == ("jc", "jd")
    assert free.joint_names == ("ja", "jb", "jc", "jd")
    G = np.array([[-2.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    q0 = np.array([0.3, 0.05, 0.0, 0.0])
    rng = np.random.default_rng(1)
    for _ in range(3):
        q, v = rng.normal(size=2), rng.normal(size=2)
        M = free.mass_matrix(G @ q + q0)
        np.testing.assert_allclose(exact.mass_matrix(q), G.T @ M @ G, rtol=1e-12)
        np.testing.assert_allclose(exact.gravity(q), G.T @ free.gravity(G @ q + q0), rtol=1e-12)
        np.testing.assert_allclose(
            exact.bias(q, v), G.T @ free.bias(G @ q + q0, G @ v), rtol=1e-11, atol=1e-12
        )
        np.testing.assert_allclose(
            exact.frame_pose(q, "d"), free.frame_pose(G @ q + q0, "d"), atol=1e-14
        )


def test_mimic_on_a_fixed_joint_means_nothing(load):
    text = robot(
        link("base"),
        link("arm"),
        link("tip"),
        joint("j", "continuous", "base", "arm"),
        joint("k", "fixed", "arm", "tip", '<mimic joint="gone" multiplier="2"/>'),
    )
    loaded = load(text)
    assert loaded.joint_names == ("j",)
    assert [(f.severity, f.subject, f.message) for f in loaded.health if f.kind == "ignored"] == [
        ("info", "joint 'k'", "<mimic> on a fixed joint is ignored")
    ]


def test_dynamics_are_losses_and_stay_out_of_the_dynamics(load):
    inside = '<axis xyz="0 0 1"/><dynamics damping="0.7" friction="0.2"/>'
    parts = '<link name="base"/>', link("arm")
    lossy = load(robot(*parts, joint("j", "continuous", "base", "arm", inside)))
    np.testing.assert_allclose(lossy.friction([0.0], [-2.0]), [-0.7 * 2 - 0.2])
    ideal = load(robot(*parts, joint("j", "continuous", "base", "arm", '<axis xyz="0 0 1"/>')))
    state = [0.4], [-2.0], [1.0]
    np.testing.assert_array_equal(lossy.inverse_dynamics(*state), ideal.inverse_dynamics(*state))


def test_base_free_and_fixed(load):
    fixed, free = load(TREE), load(TREE, base="free")
    assert (free.nv, free.nq) == (fixed.nv + 6, fixed.nq + 7)
    assert free.joint_names == ("root_joint", *fixed.joint_names)
    q = np.random.default_rng(0).normal(size=fixed.nq)
    held = free.neutral()
    held[7:] = q
    # the root link of a free robot is where the neutral configuration puts it
    np.testing.assert_allclose(free.mass_matrix(held)[6:, 6:], fixed.mass_matrix(q), rtol=1e-12)
    np.testing.assert_allclose(
        free.mass_matrix(held)[:3, :3], free.model.mass * np.eye(3), atol=1e-12
    )


def test_base_fixed_holds_a_floating_joint_below_the_world_link(load):
    text = robot(
        '<link name="world"/>',
        link("base"),
        link("arm"),
        joint("float", "floating", "world", "base", '<origin xyz="0 0 2"/>'),
        joint("j", "continuous", "base", "arm"),
    )
    assert load(text).nv == 7
    assert load(text, base="free").nv == 7
    held = load(text, base="fixed")
    assert held.joint_names == ("j",)
    assert held.frame_pose([0.0], "arm")[2, 3] == 2.0


def test_base_free_finds_a_name_for_the_root_joint(load):
    text = robot(link("base"), link("arm"), joint("root_joint", "continuous", "base", "arm"))
    assert load(text, base="free").joint_names == ("root_joint_", "root_joint")


def test_a_link_and_a_joint_may_have_one_name(load):
    text = robot(link("base"), link("arm"), joint("arm", "continuous", "base", "arm"))
    loaded = load(text)
    assert loaded.joint_names == ("arm",)
    assert set(loaded.frame_names) == {"base", "arm"}


def test_zero_dof_robot(load):
    loaded = load(robot(link("base", 3.0)))
    assert (loaded.nq, loaded.nv, loaded.model.mass) == (0, 0, 3.0)
    assert loaded.mass_matrix([]).shape == (0, 0)
    assert loaded.inverse_dynamics([], [], []).shape == (0,)


def test_what_is_not_understood_is_reported(load):
    inside = '<axis xyz="0 0 1"/><dynamics damping="1" spring_stiffness="5"/><orign xyz="0 0 1"/>'
    text = robot(link("base"), link("arm"), joint("j", "continuous", "base", "arm", inside))
    messages = {(f.subject, f.message) for f in load(text).health if f.kind == "ignored"}
    assert messages == {
        ("joint 'j'", "<orign> on line 4 is ignored"),
        ("joint 'j'", "spring_stiffness of <dynamics> on line 4 is ignored"),
    }


def test_the_thread_of_a_screw_is_in_metres_a_turn(load):
    text = robot(
        '<link name="base"/>',
        link("nut"),
        joint(
            "s",
            "screw",
            "base",
            "nut",
            '<axis xyz="0 0 1"/><drake:screw_thread_pitch value="0.04"/>',
        ),
    )
    pose = load(text).frame_pose([math.tau], "nut")
    np.testing.assert_allclose(pose[:3, 3], [0, 0, 0.04], atol=1e-15)
    np.testing.assert_allclose(pose[:3, :3], np.eye(3), atol=1e-12)


@pytest.fixture
def package(tmp_path):
    """A package with a robot in it, some folders up from where the test stands."""
    folder = tmp_path / "ws" / "my_robot" / "urdf"
    folder.mkdir(parents=True)
    text = robot(link("base"), link("arm"), joint("j", "continuous", "base", "arm"), name="found")
    (folder / "r.urdf").write_text(text)
    return tmp_path


def test_package_found_upward(package, monkeypatch):
    deep = package / "ws" / "other" / "deep"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert qddot.load("package://my_robot/urdf/r.urdf").name == "found"
    monkeypatch.chdir(package / "ws" / "my_robot" / "urdf")
    assert qddot.load("package://my_robot/urdf/r.urdf").name == "found"


@pytest.mark.parametrize("entry", ["ws", "ws/my_robot"])
def test_package_found_by_environment(package, monkeypatch, entry):
    monkeypatch.setenv("ROS_PACKAGE_PATH", os.pathsep.join(["/nowhere", str(package / entry)]))
    assert qddot.load("package://my_robot/urdf/r.urdf").name == "found"


def test_package_not_found_says_what_was_tried(package, monkeypatch):
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(package / "ws"))
    with pytest.raises(DescriptionError, match="package not found") as caught:
        qddot.load("package://your_robot/r.urdf")
    message = str(caught.value)
    assert message.startswith("package://your_robot: ")
    assert str(package / "ws" / "your_robot") in message
    assert str(Path.cwd() / "your_robot") in message


XACRO = """<robot name="x" xmlns:xacro="http://www.ros.org/wiki/xacro">
<xacro:arg name="mass" default="3"/>
<xacro:property name="half" value="${0.5 * 0.8}"/>
<xacro:macro name="arm" params="name parent">
  <link name="${name}"><inertial><origin xyz="0 0 ${half}"/><mass value="$(arg mass)"/>
  <inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial></link>
  <joint name="${name}_joint" type="continuous"><parent link="${parent}"/><child link="${name}"/>
  <axis xyz="0 1 0"/></joint>
</xacro:macro>
<link name="base"/>
<xacro:arm name="one" parent="base"/>
<xacro:if value="${half > 1}"><xacro:arm name="never" parent="base"/></xacro:if>
</robot>"""


@pytest.mark.parametrize("suffix", [".xacro", ".urdf.xacro"])
def test_xacro(load, suffix):
    loaded = load(XACRO, suffix)
    assert loaded.joint_names == ("one_joint",)
    assert loaded.mass_matrix([0.3])[0, 0] == pytest.approx(0.1 + 3 * 0.4**2)


def test_xacro_include_and_find(package, load):
    (package / "ws" / "my_robot" / "part.xacro").write_text(XACRO.replace('name="x"', ""))
    main = package / "ws" / "my_robot" / "urdf" / "main.xacro"
    main.write_text(
        '<robot name="y" xmlns:xacro="http://www.ros.org/wiki/xacro">'
        '<xacro:include filename="$(find my_robot)/part.xacro"/>'
        '<xacro:arm name="two" parent="one"/></robot>'
    )
    assert qddot.load(main).joint_names == ("one_joint", "two_joint")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("0.5 * 0.8", "0.5 * nonsense", "nonsense"),
        ('name="half"', 'name="other"', "half"),
        ("$(arg mass)", "$(arg weight)", "weight"),
        ("$(arg mass)", "$(find no_such_package)", "no_such_package"),
        ('parent="base"/>\n', "/>\n", "parent"),
        ("</xacro:macro>", "", "mismatched tag"),
        ('izz="0.1"', "", "robot.xacro (expanded):"),
    ],
)
def test_errors_in_xacro(load, old, new, says):
    with pytest.raises(DescriptionError) as caught:
        load(XACRO.replace(old, new, 1), ".xacro")
    assert says in str(caught.value)


def awkward(name: str) -> Path:
    file = SHARED / name
    if not file.exists():
        pytest.skip(f"{file} is not here")
    return file


@pytest.mark.parametrize(
    ("name", "line", "says"),
    [
        ("drake/joint_parsing_test.urdf", 166, "'curvilinear'"),
        ("drake/joint_parsing_test_missing_screw_thread_pitch.urdf", 5, "drake:screw_thread_pitch"),
        ("pybullet_data/biped2d_pybullet.urdf", 115, "is not a number"),
        ("pybullet_data/humanoid.urdf", 288, "not well-formed"),
    ],
)
def test_awkward_files_that_are_refused(name, line, says):
    file = awkward(name)
    with pytest.raises(DescriptionError, match=says) as caught:
        qddot.load(file)
    assert str(caught.value).startswith(f"{file}:{line}: ")


def test_an_awkward_file_with_a_blank_line_before_its_declaration():
    assert qddot.load(awkward("pybullet_data/diff_ring.urdf")).nv == 5


def test_awkward_joint_parsing_without_the_curvilinear_joints(load):
    text = awkward("drake/joint_parsing_test.urdf").read_text()
    head, rest = text.split('<drake:joint name="curvilinear_periodic"')
    tail = rest[rest.index("<!-- Normal transmission") :]
    for n in (13, 14):
        at = head.index(f'<link name="link{n}">')
        head = head[:at] + head[head.index("</link>", at) + len("</link>") :]
    loaded = load(head + tail)
    kinds = {b.joint.name: b.joint.kind.name for b in loaded.model.bodies}
    assert list(kinds.values()) == [
        "revolute",
        "prismatic",
        "ball",
        "revolute",
        "revolute",
        "revolute",
        "planar",
        "continuous",
        "helical",
        "revolute",
        "revolute",
        "revolute",
    ]
    assert list(kinds)[4:6] == ["universal_joint.1", "universal_joint.2"]
    assert loaded.nv == 1 + 1 + 3 + 1 + 2 + 3 + 1 + 1 + 1
    assert loaded.nq == loaded.nv + 1
    bodies = {b.joint.name: b for b in loaded.model.bodies}
    follower = bodies["revolute_joint_with_mimic_forward_reference"].joint
    assert (follower.leader, follower.ratio, follower.offset) == (
        "revolute_joint_to_mimic",
        1.23,
        4.56,
    )
    assert bodies["planar_joint"].joint.drivetrain.damping == 0.1
    assert bodies["revolute_joint"].joint.limits.effort == 100.0
    assert bodies["screw_joint"].joint.pitch == pytest.approx(0.04 / math.tau)


def test_awkward_files_that_load():
    zero = qddot.load(awkward("drake/zero_dof_robot.urdf"))
    assert (zero.nv, zero.model.mass) == (0, 1.0)
    same = qddot.load(awkward("pinocchio/link_and_joint_identical_name.urdf"))
    assert (same.nv, set(same.frame_names)) == (0, {"base", "trunk"})
    planar = qddot.load(awkward("pinocchio/3DOF_planar.urdf"))
    assert planar.joint_names == ("pz", "py", "px")
    np.testing.assert_array_equal(planar.mass_matrix(planar.neutral()), np.zeros((3, 3)))
    pose = planar.frame_pose([0.1, 0.2, 0.3], "link3")
    np.testing.assert_allclose(pose[:3, 3], [0.3, 0.2, 0.1])


def test_awkward_spherical_joint():
    file = awkward("pybullet_data/spherical_joint_limit.urdf")
    with pytest.warns(UserWarning, match="1 impossible inertia"):
        loaded = qddot.load(file)
    assert (loaded.nq, loaded.nv) == (4, 3)
    # neck: 1 kg at 0.3 m on the z axis, moments 0.01, 0.001, 0.001
    M = loaded.mass_matrix(loaded.neutral())
    np.testing.assert_allclose(M, np.diag([0.01 + 0.09, 0.001 + 0.09, 0.001]), atol=1e-15)


def test_awkward_mini_cheetah_agrees_with_pinocchio():
    file = awkward("pybullet_data/mini_cheetah.urdf")
    with pytest.warns(UserWarning, match="impossible"):
        loaded = qddot.load(file)
    assert loaded.nv == 12
    assert_agrees_with_pinocchio(file.read_text(), loaded)


@pytest.mark.parametrize("blank", ["\n", "\n\n\n", " \t\r\n"])
def test_blank_lines_before_the_declaration(tmp_path, blank):
    """Files of PyBullet begin so; lines in messages are those of the file."""
    file = tmp_path / "robot.urdf"
    text = f'{blank}<?xml version="1.0"?>\n<robot name="r"><link name="a"/></robot>'
    file.write_bytes(text.encode())
    assert qddot.load(file).name == "r"
    assert parse_xml(text.encode(), "a").line == blank.count("\n") + 2
    file.write_bytes(text.replace("</robot>", "</robott>").encode())
    with pytest.raises(DescriptionError) as caught:
        qddot.load(file)
    assert caught.value.line == blank.count("\n") + 2
