"""Edits of a model: loads, parameters, locked joints, robot on robot; singular inertia."""

from __future__ import annotations

import math

import numpy as np
import pytest

import qddot
from qddot.errors import InvalidArgument, InvalidModel, SingularInertia, UnknownName
from qddot.spatial.algebra import Transform, Vec3, rotation_from_rpy

INERTIA = '<inertia ixx="0.03" ixy="0.002" ixz="-0.001" iyy="0.025" iyz="0.0015" izz="0.02"/>'


def link(name: str, mass: float = 1.0, xyz: str = "0.1 0.02 -0.03") -> str:
    return (
        f'<link name="{name}"><inertial><origin xyz="{xyz}"/><mass value="{mass}"/>'
        f"{INERTIA}</inertial></link>"
    )


def joint(name: str, parent: str, child: str, inside: str = "", kind: str = "continuous") -> str:
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f"{inside}</joint>"
    )


ARM = (
    link("base"),
    link("upper", 2.0),
    link("fore", 1.5),
    link("hand", 0.5),
    '<link name="tool"/>',
    joint(
        "shoulder", "base", "upper", '<origin xyz="0 0 0.3" rpy="0.1 0.2 0.3"/><axis xyz="0 1 0"/>'
    ),
    joint("elbow", "upper", "fore", '<origin xyz="0.4 0 0" rpy="0 0.3 0"/><axis xyz="0 1 1"/>'),
    joint("wrist", "fore", "hand", '<origin xyz="0.3 0 0.1"/><axis xyz="1 0 0"/>'),
    joint("flange", "hand", "tool", '<origin xyz="0.1 0.05 0" rpy="0.4 0.1 -0.6"/>', "fixed"),
)
GRIPPER = (
    link("palm", 0.4),
    link("left", 0.1),
    link("right", 0.1),
    joint("finger", "palm", "left", '<origin xyz="0 0.02 0.1"/><axis xyz="0 1 0"/>', "prismatic"),
    joint(
        "other",
        "palm",
        "right",
        '<origin xyz="0 -0.02 0.1"/><axis xyz="0 -1 0"/><mimic joint="finger" multiplier="1.5" '
        'offset="0.01"/>',
        "prismatic",
    ),
)
COUPLED = (
    *ARM[:4],
    joint("shoulder", "base", "upper", '<origin xyz="0 0 0.3"/><axis xyz="0 1 0"/>'),
    joint(
        "elbow",
        "upper",
        "fore",
        '<origin xyz="0.4 0 0"/><axis xyz="0 1 0"/><mimic joint="wrist" multiplier="-2" '
        'offset="0.3"/>',
    ),
    joint("wrist", "fore", "hand", '<origin xyz="0.3 0 0"/><axis xyz="0 1 0"/>'),
)


@pytest.fixture
def load(tmp_path):
    """Loads parts of a URDF."""

    def from_parts(*parts: str, name: str = "arm", **options) -> qddot.Robot:
        file = tmp_path / f"{name}.urdf"
        file.write_text(f'<robot name="{name}">' + "\n".join(parts) + "</robot>")
        return qddot.load(file, **options)

    return from_parts


def same_dynamics(a: qddot.Robot, b: qddot.Robot, order: list[int] | None = None) -> None:
    """Two robots have the same dynamics; `order` takes the velocities of b to those of a."""
    rng = np.random.default_rng(7)
    order = list(range(b.nv)) if order is None else order
    assert a.nv == b.nv
    for _ in range(4):
        q, v, acc = rng.normal(size=(3, a.nv))
        back = np.empty((3, b.nv))
        back[:, order] = q, v, acc
        M = b.mass_matrix(back[0])[np.ix_(order, order)]
        np.testing.assert_allclose(a.mass_matrix(q), M, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(
            a.inverse_dynamics(q, v, acc), b.inverse_dynamics(*back)[order], rtol=1e-10, atol=1e-12
        )


def test_a_payload_is_a_link_fixed_to_the_frame(load):
    box = (
        '<link name="box"><inertial><origin xyz="0.1 -0.2 0.05" rpy="0 0 0"/><mass value="2.5"/>'
        f"{INERTIA}</inertial></link>"
    )
    written = load(*ARM, box, joint("hold", "tool", "box", "", "fixed"))
    tensor = [0.03, 0.002, 0.025, -0.001, 0.0015, 0.02]  # xx, xy, yy, xz, yz, zz
    bare = load(*ARM)
    loaded = bare.with_payload("tool", 2.5, (0.1, -0.2, 0.05), tensor)
    same_dynamics(loaded, written)
    as_arrays = bare.with_payload(
        "tool", np.float64(2.5), np.array([0.1, -0.2, 0.05]), np.array(tensor)
    )
    same_dynamics(as_arrays, written)
    assert loaded.model.mass == pytest.approx(bare.model.mass + 2.5)


def test_a_point_load_changes_gravity_by_its_weight_through_the_jacobian(load):
    bare = load(*ARM)
    loaded = bare.with_payload("tool", 3.0)
    q = np.array([0.3, -0.7, 1.1])
    J = bare.frame_jacobian(q, "tool", "local_world_aligned")[:3]
    np.testing.assert_allclose(
        loaded.gravity(q) - bare.gravity(q), J.T @ [0, 0, 3.0 * 9.81], rtol=1e-12
    )
    np.testing.assert_allclose(
        loaded.mass_matrix(q) - bare.mass_matrix(q), 3.0 * J.T @ J, rtol=1e-11, atol=1e-14
    )
    assert not [f for f in loaded.health if f.kind == "inertia"]


def test_a_payload_on_the_base_does_not_move(load):
    bare = load(*ARM)
    loaded = bare.with_payload("base", 3.0, (0, 0, 1))
    same_dynamics(loaded, bare)
    assert loaded.model.mass == pytest.approx(bare.model.mass + 3.0)


def test_a_payload_gives_a_massless_leaf_mass(load):
    bare = load('<link name="base"/>', '<link name="tip"/>', joint("j", "base", "tip"))
    assert {f.kind for f in bare.health} == {"massless", "singular"}
    loaded = bare.with_payload("tip", 1.0, (0, 0.1, 0))
    assert loaded.health == ()
    np.testing.assert_allclose(loaded.forward_dynamics([0.0], [0.0], [1.0]), [(1 - 0.981) / 0.01])


def test_an_impossible_payload_is_an_error_of_health(load):
    loaded = load(*ARM).with_payload("tool", 1.0, tensor=(1, 0, 1, 0, 0, 5))
    assert [(f.severity, f.subject) for f in loaded.health if f.kind == "inertia"] == [
        ("error", "payload at 'tool'")
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ("tool", -1.0),
        ("tool", math.nan),
        ("tool", math.inf),
        ("tool", "heavy"),
        ("tool", None),
        ("tool", [1.0]),
        ("tool", object()),
        ("tool", float),
        ("tool", 10**400),
        ("tool", 10**5000),
        ("tool", 1.0, (0, 0)),
        ("tool", 1.0, 3.0),
        ("tool", 1.0, (0, 0, math.nan)),
        ("tool", 1.0, (0, 0, 0), (1, 1, 1)),
        ("tool", 1.0, (0, 0, 0), np.eye(4)),
        ("tol", 1.0),
    ],
)
def test_bad_payloads(load, arguments):
    with pytest.raises(qddot.QddotError):
        load(*ARM).with_payload(*arguments)


@pytest.mark.parametrize("gravity", [(0, 0, 10**400), (0, 0, -(10**5000)), (0, 0, object())])
def test_bad_gravity(load, gravity):
    with pytest.raises(qddot.QddotError):
        load(*ARM).with_gravity(gravity)


def test_unknown_frame_says_what_is_close(load):
    with pytest.raises(UnknownName) as caught:
        load(*ARM).with_payload("tol", 1.0)
    assert str(caught.value) == "no frame 'tol' in 'arm'; closest: 'tool'"


def test_with_parameters(load):
    arm = load(*ARM)
    same_dynamics(arm.with_parameters(arm.inertial_parameters), arm)
    double = arm.with_parameters(2 * arm.inertial_parameters)
    q = [0.1, 0.2, 0.3]
    np.testing.assert_allclose(double.mass_matrix(q), 2 * arm.mass_matrix(q), rtol=1e-14)
    # tau = Y pi, so other parameters are other columns of the regressor
    state = q, [1.0, -2.0, 0.5], [0.3, 0.2, -0.7]
    torque = arm.torque_regressor(*state) @ double.inertial_parameters.ravel()
    np.testing.assert_allclose(double.inverse_dynamics(*state), torque, rtol=1e-11)


def test_bad_parameters(load):
    arm = load(*ARM)
    with pytest.raises(InvalidArgument, match="needs 3 rows of ten"):
        arm.with_parameters(arm.inertial_parameters[:2])
    with pytest.raises(InvalidArgument, match="needs 3 rows of ten"):
        arm.with_parameters(arm.inertial_parameters[:, :9])
    with pytest.raises(InvalidArgument, match="needs 3 rows of ten"):
        arm.with_parameters(arm.inertial_parameters.reshape(5, 6))
    with pytest.raises(InvalidArgument, match="needs an array of numbers, ten a body"):
        arm.with_parameters("heavy")
    for bad in (-1.0, math.nan, math.inf):
        parameters = arm.inertial_parameters.copy()
        parameters[1, 0] = bad
        with pytest.raises(InvalidModel, match="body 'fore'"):
            arm.with_parameters(parameters)


def test_parameters_that_no_body_has_are_an_error_of_health(load):
    arm = load(*ARM)
    parameters = arm.inertial_parameters.copy()
    parameters[2, 4] = 5.0
    found = [f.subject for f in arm.with_parameters(parameters).health if f.kind == "inertia"]
    assert found == ["body 'hand'"]


@pytest.mark.parametrize(("name", "k"), [("shoulder", 0), ("elbow", 1), ("wrist", 2)])
def test_a_locked_joint_leaves_the_rest_of_the_mass_matrix(load, name, k):
    arm = load(*ARM)
    locked = arm.without_joint(name, 0.7)
    rest = [i for i in range(3) if i != k]
    assert locked.joint_names == tuple(arm.joint_names[i] for i in rest)
    assert set(locked.frame_names) == set(arm.frame_names)
    rng = np.random.default_rng(3)
    q, v = np.full(3, 0.7), np.zeros(3)
    q[rest], v[rest] = rng.normal(size=(2, 2))
    M, h = arm.mass_matrix(q), arm.bias(q, v)
    np.testing.assert_allclose(locked.mass_matrix(q[rest]), M[np.ix_(rest, rest)], rtol=1e-12)
    np.testing.assert_allclose(locked.bias(q[rest], v[rest]), h[rest], rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(
        locked.frame_pose(q[rest], "tool"), arm.frame_pose(q, "tool"), atol=1e-14
    )
    assert locked.model.mass == pytest.approx(arm.model.mass)


def test_a_joint_is_locked_at_neutral_unless_told(load):
    arm = load(*ARM)
    same_dynamics(arm.without_joint("elbow"), arm.without_joint("elbow", np.array(0.0)))


def test_a_lock_that_looks_like_degrees_is_asked_about(load):
    arm = load(*ARM)
    asked = r"is elbow = 90 in degrees\? Angles are in rad, and 90° are 1.571 rad"
    with pytest.warns(UserWarning, match=asked):
        arm.without_joint("elbow", 90)


def test_a_locked_leader_locks_its_followers(load):
    coupled = load(*COUPLED)
    assert coupled.joint_names == ("shoulder", "wrist")
    locked = coupled.without_joint("wrist", 0.4)
    assert locked.joint_names == ("shoulder",)
    free = load(*COUPLED, couplings="free")
    expected = free.mass_matrix([0.2, -2 * 0.4 + 0.3, 0.4])[0, 0]
    assert locked.mass_matrix([0.2])[0, 0] == pytest.approx(expected, rel=1e-12)
    with pytest.raises(InvalidModel, match="joint 'elbow': follows 'wrist'; lock that one"):
        coupled.without_joint("elbow")


def test_locking_something_else_keeps_a_coupling(load):
    coupled, free = load(*COUPLED), load(*COUPLED, couplings="free")
    locked = coupled.without_joint("shoulder", 0.2)
    q = 0.9
    M = free.mass_matrix([0.2, -2 * q + 0.3, q])
    G = np.array([0.0, -2.0, 1.0])
    assert locked.mass_matrix([q])[0, 0] == pytest.approx(G @ M @ G, rel=1e-12)


def test_a_locked_reference_position_and_keyframes(tmp_path):
    file = tmp_path / "m.xml"
    body = '<inertial pos=".1 .2 .3" mass="1" diaginertia=".1 .1 .1"/>'
    file.write_text(
        '<mujoco><worldbody><body name="a"><joint name="j" axis="0 1 0" ref="30" '
        f'armature="1"/>{body}'
        f'<body name="b"><joint name="k" axis="1 0 0" ref="-20" armature="2"/>{body}</body></body>'
        '</worldbody><keyframe><key name="home" qpos="1 2"/></keyframe></mujoco>'
    )
    robot = qddot.load(file)
    locked = robot.without_joint("k", 0.6)
    assert locked.mass_matrix([0.3])[0, 0] == pytest.approx(robot.mass_matrix([0.3, 0.6])[0, 0])
    assert locked.model.configurations == {"qpos0": (math.radians(30),), "home": (1.0,)}
    assert robot.without_joint("j").model.configurations["home"] == (2.0,)
    np.testing.assert_allclose(
        robot.without_joint("j", 0.3).gravity([0.6]), robot.gravity([0.3, 0.6])[1:]
    )


def test_a_coupling_between_joints_with_reference_positions_survives_edits(tmp_path, load):
    file = tmp_path / "m.xml"
    body = '<inertial pos=".1 .2 .3" mass="1" diaginertia=".1 .1 .1"/>'
    file.write_text(
        f'<mujoco model="m"><worldbody><body name="a"><joint name="j" axis="0 1 0" ref="30"/>{body}'
        f'<body name="b"><joint name="k" axis="1 0 0" ref="-20"/>{body}'
        f'<body name="c"><joint name="l" axis="0 0 1"/>{body}</body></body></body></worldbody>'
        '<equality><joint joint1="k" joint2="j" polycoef="0.1 2 0 0 0"/></equality></mujoco>'
    )
    coupled, free = qddot.load(file), qddot.load(file, couplings="free")
    # k - k0 = 0.1 + 2 (j - j0)
    k = math.radians(-20) + 0.1 + 2 * (0.4 - math.radians(30))
    M = free.mass_matrix([0.4, k, 0.7])
    expected = np.array([1, 2, 0]) @ M @ np.array([1, 2, 0])
    assert coupled.without_joint("l", 0.7).mass_matrix([0.4])[0, 0] == pytest.approx(expected)
    carried = load(*ARM).attach(coupled, "tool").mass_matrix([0.1, 0.2, 0.3, 0.4, 0.7])
    assert carried[3, 3] == pytest.approx(expected)


def test_a_free_base_is_locked_at_a_pose(load):
    free = load(*ARM, base="free")
    pose = np.array([1.0, 2.0, 3.0, 0.5, -0.5, 0.5, 0.5])
    held = free.without_joint("root_joint", pose)
    q = [0.3, 0.2, 0.1]
    np.testing.assert_allclose(
        held.frame_pose(q, "tool"), free.frame_pose([*pose, *q], "tool"), atol=1e-14
    )
    np.testing.assert_allclose(
        held.gravity(q), free.gravity([*pose, *q])[6:], rtol=1e-12, atol=1e-13
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("elbow", [0, 0]),
        ("elbow", "up"),
        ("elbow", math.nan),
        ("elbow", [[0.1]]),
        ("elbow", []),
        ("elbow", {}),
        ("elbw", 0.0),
        ("root_joint", 1.0),
        ("root_joint", [0, 0, 0, 0, 0, 0, 2]),
    ],
)
def test_bad_locks(load, name, value):
    with pytest.raises(qddot.QddotError):
        load(*ARM, base="free").without_joint(name, value)


def test_attaching_equals_writing_both_in_one_file(load):
    arm, gripper = load(*ARM), load(*GRIPPER, name="gripper")
    placement = Transform(rotation_from_rpy(0.3, 0.2, 0.1), Vec3(0.01, 0.02, 0.03))
    both = arm.attach(gripper, "tool", placement)
    mount = joint("m", "tool", "palm", '<origin xyz="0.01 0.02 0.03" rpy="0.3 0.2 0.1"/>', "fixed")
    written = load(*ARM, *GRIPPER, mount, name="both")
    assert both.joint_names == written.joint_names == ("shoulder", "elbow", "wrist", "finger")
    same_dynamics(both, written)
    q = [0.1, 0.2, 0.3, 0.02]
    for frame in ("palm", "left", "right", "hand"):
        np.testing.assert_allclose(
            both.frame_pose(q, frame), written.frame_pose(q, frame), atol=1e-14
        )


def test_attaching_on_the_way_keeps_the_arm(load):
    arm, gripper = load(*ARM), load(*GRIPPER, name="gripper")
    both = arm.attach(gripper, "fore", prefix="g_")
    assert (both.nv, both.model.nb) == (arm.nv + gripper.nv, arm.model.nb + gripper.model.nb)
    mount = joint("m", "fore", "palm", "", "fixed")
    written = load(*ARM, *GRIPPER, mount, name="both")
    order = [written.joint_names.index(n.removeprefix("g_")) for n in both.joint_names]
    same_dynamics(both, written, order)


def test_the_arm_on_the_arm(load):
    arm = load(*ARM)
    with pytest.raises(InvalidModel, match="is used twice"):
        arm.attach(arm, "tool")
    twin = arm.attach(arm, "tool", prefix="second_")
    triplet = twin.attach(arm, "second_tool", prefix="third_")
    assert (twin.nv, triplet.nv) == (6, 9)
    for robot in (twin, triplet):
        for names in (robot.joint_names, robot.frame_names):
            assert len(set(names)) == len(names)
    # the moving arm that is carried has its own mass matrix as the last block
    q = np.random.default_rng(1).normal(size=6)
    np.testing.assert_allclose(
        twin.mass_matrix(q)[3:, 3:], arm.mass_matrix(q[3:]), rtol=1e-11, atol=1e-14
    )
    assert twin.model.mass == pytest.approx(2 * arm.model.mass)


def test_what_is_known_of_the_other_robot_gets_the_prefix(load):
    bad = GRIPPER[0].replace('izz="0.02"', 'izz="5"')
    with pytest.warns(UserWarning, match="impossible"):
        gripper = load(bad, *GRIPPER[1:], name="gripper")
    both = load(*ARM).attach(gripper, "tool", prefix="g_")
    assert [f.subject for f in both.health if f.kind == "inertia"] == ["link 'g_palm'"]


def test_attaching_a_tool_without_joints(load):
    tool = load(link("pen", 0.3), name="pen")
    both = load(*ARM).attach(tool, "tool")
    written = load(*ARM, link("pen", 0.3), joint("m", "tool", "pen", "", "fixed"))
    same_dynamics(both, written)
    # a second pen needs a name of its own, and gets it from the prefix
    assert both.attach(tool, "hand", prefix="p2_").model.mass == pytest.approx(
        written.model.mass + 0.3
    )


def test_loops_and_polynomials_come_along_with_the_prefix(tmp_path, load):
    file = tmp_path / "m.xml"
    body = '<inertial pos=".1 .2 .3" mass="1" diaginertia=".1 .1 .1"/>'
    file.write_text(
        f'<mujoco model="m"><worldbody><body name="a"><joint name="j"/>{body}'
        f'<body name="b"><joint name="k"/>{body}</body></body></worldbody><equality>'
        '<connect name="c" body1="b" anchor="0 0 0"/>'
        '<joint name="cam" joint1="k" joint2="j" polycoef="0 0 1 0 0"/></equality></mujoco>'
    )
    mechanism = qddot.load(file)
    both = load(*ARM).attach(mechanism, "tool", prefix="x_")
    (loop,), (cam,) = both.model.loops, both.model.polynomial_couplings
    assert (loop.name, cam.name, cam.follower, cam.leader) == ("x_c", "x_cam", "x_k", "x_j")
    assert {loop.frame1, loop.frame2} <= set(both.frame_names)
    with pytest.raises(InvalidModel, match="joint 'k': is part of the coupling 'cam'"):
        mechanism.without_joint("k")


def test_bad_attachments(load):
    arm, free = load(*ARM), load(*GRIPPER, name="gripper", base="free")
    with pytest.raises(
        InvalidModel, match="model 'gripper': has a free base; load it with base='fixed'"
    ):
        arm.attach(free, "tool")
    with pytest.raises(UnknownName, match="no frame 'tol'"):
        arm.attach(arm, "tol", prefix="x")
    with pytest.raises(InvalidArgument, match="needs a Transform"):
        arm.attach(arm, "tool", np.eye(3), prefix="x")


def test_a_joint_without_inertia_beyond_it_is_named(load):
    robot = load(*ARM, '<link name="tip"/>', joint("spin", "tool", "tip"))
    with pytest.raises(SingularInertia) as caught:
        robot.forward_dynamics(np.zeros(4), np.zeros(4), np.zeros(4))
    assert caught.value.joints == ("spin",)
    assert str(caught.value) == (
        "the mass matrix of 'arm' is singular: nothing that moves with joint 'spin' has "
        "inertia along "
        "it; give the links below it mass, or the joint armature, or lock it with without_joint"
    )
    # what needs no inverse works, and so does the remedy
    assert robot.mass_matrix(np.zeros(4))[3, 3] == 0.0
    same_dynamics(robot.without_joint("spin"), load(*ARM))


def test_a_point_mass_on_the_axis_is_singular_too(load):
    inertial = '<mass value="1"/><inertia ixx="0" iyy="0" izz="0"/>'
    point = f'<link name="tip"><inertial>{inertial}</inertial></link>'
    robot = load('<link name="base"/>', point, joint("j", "base", "tip"))
    with pytest.raises(SingularInertia, match="'j'"):
        robot.inverse_mass_matrix([0.0])


def test_massless_links_inside_a_chain_are_fine(load):
    robot = load(
        '<link name="base"/>',
        '<link name="cross"/>',
        link("arm"),
        joint("pan", "base", "cross", '<axis xyz="0 0 1"/>'),
        joint("tilt", "cross", "arm", '<axis xyz="0 1 0"/>'),
    )
    q, v, tau = np.array([0.3, 0.4]), np.array([1.0, -1.0]), np.array([0.5, 0.6])
    a = robot.forward_dynamics(q, v, tau)
    expected = np.linalg.solve(robot.mass_matrix(q), tau - robot.bias(q, v))
    np.testing.assert_allclose(a, expected, rtol=1e-11)


def test_two_hinges_on_one_axis_with_nothing_between_are_named(load):
    robot = load(
        '<link name="base"/>',
        '<link name="ghost"/>',
        link("arm"),
        joint("first", "base", "ghost", '<axis xyz="0 0 1"/>'),
        joint("second", "ghost", "arm", '<origin xyz="0 0 0.5"/><axis xyz="0 0 1"/>'),
    )
    with pytest.raises(SingularInertia) as caught:
        robot.forward_dynamics([0.0, 0.0], [0.0, 0.0], [0.0, 0.0])
    assert set(caught.value.joints) <= {"first", "second"}
    assert caught.value.joints
    assert [f.kind for f in robot.health if f.severity == "error"] == ["singular"]
