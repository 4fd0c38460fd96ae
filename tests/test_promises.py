"""Small promises to a user: clear errors, edits that keep what they should, honest health."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

import qddot
from qddot.cli import app
from qddot.errors import (
    BatchMismatch,
    InvalidArgument,
    QddotError,
    ShapeMismatch,
    SingularInertia,
    UnknownName,
)
from qddot.model import edit
from qddot.robot.robot import Robot, Wrench
from qddot.spatial.algebra import Transform
from qddot.verify import check

INERTIAL = '<inertial pos="0 0 0.1" mass="1" diaginertia="0.1 0.1 0.1"/>'
SINGULAR = """<robot name="bad"><link name="base"/><link name="arm"/>
  <joint name="hinge" type="continuous"><parent link="base"/><child link="arm"/></joint></robot>"""
MIMIC = """<robot name="m"><link name="base"/>{links}
  <joint name="a" type="revolute"><parent link="base"/><child link="x"/><axis xyz="0 0 1"/>
    <limit lower="-2" upper="2" effort="1" velocity="1"/></joint>
  <joint name="b" type="revolute"><parent link="x"/><child link="y"/><axis xyz="0 1 0"/>
    <limit lower="0" upper="1" effort="1" velocity="1"/>
    <mimic joint="a" multiplier="-2" offset="0.5"/></joint></robot>"""
LINK = """<link name="{}"><inertial><mass value="1"/>
  <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>"""


@pytest.fixture
def load(tmp_path):
    def from_text(text: str, suffix: str = ".urdf", **options) -> Robot:
        file = tmp_path / f"robot{suffix}"
        file.write_text(text)
        return qddot.load(file, **options)

    return from_text


@pytest.fixture(scope="module")
def panda() -> Robot:
    return qddot.load("panda")


@pytest.fixture(scope="module")
def arm() -> Robot:
    return qddot.load("planar_2r")


def mjcf(bodies: str, rest: str = "") -> str:
    return f'<mujoco><compiler angle="radian"/><worldbody>{bodies}</worldbody>{rest}</mujoco>'


def run(*args: str):
    return CliRunner().invoke(app, args)


# loops


@pytest.mark.parametrize(
    ("name", "count", "them"),
    [("four_bar", "1 loop closure is", "it"), ("delta", "3 loop closures are", "them")],
)
def test_loops_are_said_to_be_left_out(name, count, them):
    robot = qddot.load(name)
    (finding,) = [f for f in robot.health if f.kind == "loop"]
    assert (finding.severity, finding.subject) == ("warning", "loops")
    assert finding.message == (
        f"{count} not part of the dynamics: results are those of the open tree; "
        f"constrained_dynamics, qddot.constraints and rollouts hold {them} closed"
    )
    assert "results are those of the open tree" in run("check", name, "--states", "2").stdout


def test_loops_of_attached_robots_are_counted_together():
    robot = qddot.load("four_bar")
    both = robot.attach(robot, "coupler_point", prefix="x_")
    (finding,) = [f for f in both.health if f.kind == "loop"]
    assert finding.message.startswith("2 loop closures are")


# singular robots


@pytest.mark.parametrize("way", ["call", "casadi", "compile", "explain"])
def test_a_singular_robot_has_no_inverse_in_any_form(load, way):
    robot = load(SINGULAR)
    arguments = ("inverse_mass_matrix", [0.0]) if way == "call" else ("inverse_mass_matrix",)
    with pytest.raises(SingularInertia, match="hinge"):
        getattr(robot, way)(*arguments)


def test_inertias_as_inputs_may_be_regular(load):
    robot = load(SINGULAR)
    inverse = robot.compile("inverse_mass_matrix", parameters=["armature"])
    assert inverse([0.0], [[2.0]]) == pytest.approx(0.5)


def test_check_of_a_singular_robot_leaks_no_warning(load):
    robot = load(SINGULAR)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = {r.name: r for r in check(robot, 5)}
    assert "hinge" in rows["positive definite"].detail


# wrenches


@pytest.mark.parametrize("f_ext", [np.zeros(6), 3.0, [1.0, 2.0], {"frame": "link2"}, "link2"])
def test_what_is_no_wrench_is_refused(arm, f_ext):
    with pytest.raises(InvalidArgument, match=r"needs Wrench\(frame, reference, value\)"):
        arm.inverse_dynamics(np.zeros(2), np.zeros(2), np.zeros(2), f_ext=f_ext)


def test_wrenches_that_clash(arm):
    frame, zero = arm.frame_names[-1], np.zeros(2)
    clash = [Wrench(frame, "world", np.zeros((n, 6))) for n in (2, 3)]
    with pytest.raises(BatchMismatch, match=r"f_ext: batch shapes at .* \(2,\), at .* \(3,\) do"):
        arm.inverse_dynamics(zero, zero, zero, clash)
    with pytest.raises(ShapeMismatch, match=r"must have shape \(\.\.\., 6\), got \(1,\)"):
        arm.inverse_dynamics(zero, zero, zero, Wrench(frame, "world", [1.0]))
    with pytest.raises(InvalidArgument, match="array of numbers"):
        arm.inverse_dynamics(zero, zero, zero, Wrench(frame, "world", [[1.0], [1.0, 2.0]]))


# compile(parameters=...)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("inverse_dynamics", ["friction"], "depends on friction only with friction=True"),
        ("mass_matrix", ["friction"], "mass_matrix has no friction"),
        ("mass_matrix", ["inertia", "inertia"], "'inertia' is named twice"),
        ("mass_matrix", ["inerta"], "closest: 'inertia'"),
        ("mass_matrix", [3], "a parameter is given by its name"),
        ("mass_matrix", None, "a list of inertia, gravity, friction, armature"),
    ],
)
def test_parameters_that_make_no_sense(arm, name, parameters, message):
    with pytest.raises(QddotError, match=message):
        arm.compile(name, parameters=parameters)


def test_one_parameter_may_be_a_plain_name(arm):
    q = arm.random(0)
    M = arm.compile("mass_matrix", parameters="inertia")(q, arm.inertial_parameters)
    assert np.allclose(M, arm.mass_matrix(q))


def test_armature_replaces_rotors_and_skips_free_joints(arm):
    bodies = tuple(_with_rotor(b) for b in arm.model.bodies)
    geared = Robot(edit.dataclasses.replace(arm.model, bodies=bodies))
    q = arm.random(0)
    M = geared.compile("mass_matrix", parameters=["armature"])(q, np.zeros((2, 1)))
    assert np.allclose(M, arm.mass_matrix(q))
    flying = qddot.load("quadrotor")
    q, rows = flying.neutral(), np.ones((flying.model.nb, 1))
    M = flying.compile("mass_matrix", parameters=["armature"])(q, rows)
    assert np.allclose(M[:6, :6], flying.mass_matrix(q)[:6, :6])


def _with_rotor(body):
    drive = edit.dataclasses.replace(body.joint.drivetrain, rotor_inertia=1.0, gear_ratio=10.0)
    joint = edit.dataclasses.replace(body.joint, drivetrain=drive)
    return edit.dataclasses.replace(body, joint=joint)


# edits


def test_payload_takes_a_matrix_or_six_numbers(panda):
    tensor = np.array([[0.3, 0.01, 0.02], [0.01, 0.2, 0.03], [0.02, 0.03, 0.4]])
    six = tensor[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    a, b = (panda.with_payload("panda_hand", 2.0, tensor=t) for t in (tensor, six))
    assert np.array_equal(a.inertial_parameters, b.inertial_parameters)
    for wrong in ([1.0, 1.0, 1.0], np.triu(tensor), 1.0):
        with pytest.raises(
            InvalidArgument, match=r"\(xx, xy, yy, xz, yz, zz\), or a symmetric 3×3"
        ):
            panda.with_payload("panda_hand", 2.0, tensor=wrong)


def test_attach_takes_a_matrix(panda, arm):
    X = np.array([[0, -1, 0, 1], [1, 0, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1.0]])
    both = panda.attach(arm, "panda_hand", X, prefix="x_")
    plain = panda.attach(arm, "panda_hand", Transform.identity(), prefix="x_")
    q, frame = both.random(0), f"x_{arm.body_names[0]}"
    hand = panda.frame_pose(q[:7], "panda_hand")
    pose, start = both.frame_pose(q, frame), plain.frame_pose(q, frame)
    assert np.allclose(pose, hand @ X @ np.linalg.inv(hand) @ start)
    for wrong in (np.eye(3), 2 * np.eye(4), np.diag([1, 1, -1, 1.0]), "here", [[1], [1, 2]]):
        with pytest.raises(InvalidArgument, match="needs a Transform, or a 4×4 array"):
            panda.attach(arm, "panda_hand", wrong)
    with pytest.raises(InvalidArgument, match="needs a Robot"):
        panda.attach("ur5e", "panda_hand")


def test_edits_keep_native(arm):
    robot = Robot(arm.model, native=False)
    frame, joint = robot.frame_names[-1], robot.joint_names[0]
    edited = [
        robot.with_payload(frame, 1.0),
        robot.with_parameters(robot.inertial_parameters),
        robot.with_gravity((0, 0, 0)),
        robot.without_joint(joint),
        robot.attach(robot, frame, prefix="x_"),
    ]
    assert not any(r.native for r in edited)


def test_gravity_of_another_place(panda):
    q = panda.random(0)
    moon = panda.with_gravity((0.0, 0.0, -1.62))
    assert np.allclose(moon.gravity(q), panda.gravity(q) * 1.62 / 9.81)
    with pytest.raises(InvalidArgument, match="needs 3 numbers"):
        panda.with_gravity(9.81)


def test_named_configurations(load, arm):
    body = f'<body name="a"><joint name="j" ref="0.3"/>{INERTIAL}</body>'
    robot = load(mjcf(body, '<keyframe><key name="up" qpos="1"/></keyframe>'), ".xml")
    assert {k: q.tolist() for k, q in robot.configurations.items()} == {"qpos0": [0.3], "up": [1]}
    assert robot.body_names == ("a",)
    both = robot.attach(arm, "a", prefix="x_")
    assert both.configurations["up"].tolist() == [1.0, 0.0, 0.0]


# names and numbers


@pytest.mark.parametrize("name", [3, ["panda_hand"], None])
def test_names_that_are_no_strings(panda, name):
    q = panda.neutral()
    for attempt in (
        lambda: panda.frame_pose(q, name),
        lambda: panda.with_payload(name, 1.0),
        lambda: panda.without_joint(name),
        lambda: panda.call(name, q),
        lambda: panda.casadi("frame_pose", frame=name),
    ):
        with pytest.raises(UnknownName, match="is given by its name, a string"):
            attempt()


@pytest.mark.parametrize(
    ("name", "ours"),
    [("rnea", "inverse_dynamics"), ("CRBA", "mass_matrix"), ("nle", "bias"), ("aba", "forward_")],
)
def test_names_of_other_libraries_lead_to_ours(panda, name, ours):
    with pytest.raises(UnknownName, match=f"no function '{name}'; it is called '{ours}"):
        panda.explain(name)


def test_random_takes_integers_of_numpy(panda):
    assert panda.random(0, np.int64(3)).shape == (3, 7)


@pytest.mark.parametrize("shape", [(), (2,)])
def test_long_doubles_run_interpreted(panda, shape):
    robot, q = Robot(panda.model, native=True), panda.random(0, shape)
    expected = robot.mass_matrix(q)
    M = robot.mass_matrix(q.astype(np.longdouble))
    assert M.dtype == np.longdouble
    assert np.allclose(M.astype(float), expected)


@pytest.mark.parametrize("forces", [3, ["panda_hand"], [("panda_hand", 1)], np.ones((2, 2))])
def test_casadi_forces_of_the_wrong_type(panda, forces):
    with pytest.raises(InvalidArgument, match=r"it is a list of \(frame, reference\)"):
        panda.casadi("inverse_dynamics", forces=forces)


def test_shape_messages(panda):
    zero = np.zeros(7)
    forces = [("panda_hand", "world")]
    with pytest.raises(ShapeMismatch, match=r"f_ext must have shape \(\.\.\., nw=1, 6\), got"):
        panda.call("inverse_dynamics", zero, zero, zero, np.zeros((1, 5)), forces=forces)
    with pytest.raises(QddotError, match=r"bias: batch shapes q \(2,\), v \(3,\) do not"):
        panda.bias(np.zeros((2, 7)), np.zeros((3, 7)))


# loaders


def test_a_planar_joint_without_axis_is_doubtful(load):
    text = f"""<robot name="p"><link name="base"/>{LINK.format("puck")}
      <joint name="table" type="planar"><parent link="base"/><child link="puck"/>AXIS</joint>
      </robot>"""
    (finding,) = [f for f in load(text.replace("AXIS", "")).health if f.kind == "axis"]
    assert (finding.severity, finding.subject) == ("warning", "joint 'table'")
    assert "normal of its plane is x" in finding.message
    assert not load(text.replace("AXIS", '<axis xyz="0 0 1"/>')).health


def test_the_range_of_a_ball_joint_is_ignored_aloud(load):
    ball = (
        f'<body name="a"><joint name="j" type="ball" range="0 1" limited="true"/>{INERTIAL}</body>'
    )
    (finding,) = [f for f in load(mjcf(ball), ".xml").health if f.kind == "ignored"]
    assert (finding.subject, finding.message) == (
        "joint 'j'",
        "the range of a ball joint is ignored",
    )


def test_random_configurations_keep_the_limits_of_followers(load):
    robot = load(MIMIC.format(links=LINK.format("x") + LINK.format("y")))
    q = robot.random(0, 1000)
    assert (q.min(), q.max()) == pytest.approx((-0.25, 0.25), abs=0.01)


def test_a_follower_of_mjcf_keeps_its_limits_with_ref(load):
    bodies = (
        f'<body name="a"><joint name="j" axis="0 1 0" range="-3 3"/>{INERTIAL}'
        f'<body name="b"><joint name="k" axis="0 1 0" ref="1" range="1 2"/>{INERTIAL}</body></body>'
    )
    equality = '<equality><joint joint1="k" joint2="j" polycoef="0 1 0 0 0"/></equality>'
    q = load(mjcf(bodies, equality), ".xml").random(0, 1000)
    assert (q.min(), q.max()) == pytest.approx((0.0, 1.0), abs=0.01)


# the command line


def test_version():
    assert run("--version").stdout.strip() == f"qddot {qddot.__version__}"


def test_info_lists_frames():
    assert "frames: " in run("info", "panda").stdout
    assert "panda_hand" in run("info", "panda").stdout


def test_a_pipe_gets_whole_words_and_no_progress():
    code = "from qddot.cli import main; main()"
    command = [sys.executable, "-c", code, "check", "planar_2r", "--states", "2"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.stderr == ""
    assert "inverse dynamics of forward dynamics = identity" in result.stdout
    (health,) = [line for line in result.stdout.splitlines() if "no error" in line]
    assert "<" not in health


def test_export_prints_its_own_figures(tmp_path):
    double = run("export", "planar_2r", "--out", str(tmp_path / "a")).stdout
    single = run("export", "planar_2r", "--dtype", "float32", "--out", str(tmp_path / "b")).stdout
    assert "float32" not in double
    assert "float32 against float64" in single


def test_export_names_the_options_that_are_missing(tmp_path):
    result = run("export", "panda", "--function", "frame_jacobian", "--out", str(tmp_path))
    assert result.exit_code == 2
    assert "it needs --frame and --reference" in result.stderr


def test_check_has_the_health_in_json():
    report = json.loads(run("check", "four_bar", "--states", "2", "--json").stdout)
    assert [f["kind"] for f in report["health"]] == ["loop"]
