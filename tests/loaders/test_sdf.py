"""SDF files, with Drake's parser as the oracle: M, bias, gravity and every pose."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from agreement import assert_agree, need_shared, shared_files
from pydrake.common.eigen_geometry import Quaternion
from pydrake.math import RollPitchYaw, RotationMatrix
from pydrake.multibody.parsing import Parser
from pydrake.multibody.plant import MultibodyPlant
from pydrake.multibody.tree import BodyIndex, FrameIndex

import qddot
from qddot.analysis import constraints
from qddot.errors import DescriptionError, QddotError
from qddot.loaders.named_robots import named_files

TOLERANCE = 1e-10


def inertial(m=1.3, pose="0.1 -0.2 0.3 0.4 0.5 -0.6"):
    return (
        f"<inertial><pose>{pose}</pose><mass>{m}</mass><inertia><ixx>0.3</ixx><ixy>0.01</ixy>"
        "<iyy>0.25</iyy><ixz>-0.02</ixz><iyz>0.03</iyz><izz>0.2</izz></inertia></inertial>"
    )


def link(name, pose="", m=1.3):
    return f"<link name='{name}'>{pose}{inertial(m)}</link>"


def joint(name, kind, parent, child, xyz="<xyz>0 0 1</xyz>", extra=""):
    return (
        f"<joint name='{name}' type='{kind}'>{extra}<parent>{parent}</parent>"
        f"<child>{child}</child><axis>{xyz}</axis></joint>"
    )


def document(body, version="1.9", name="robot"):
    return f"<sdf version='{version}'><model name='{name}'>{body}</model></sdf>"


def load(file, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return qddot.load(file, **options)


class Drake:
    """A finished plant and its bodies, joints and frames by the names that qddot gives them."""

    def __init__(self, file, gravity):
        self.plant = plant = MultibodyPlant(0.0)
        instances = Parser(plant).AddModels(str(file))
        tops = {plant.GetModelInstanceName(i).split("::")[0] for i in instances}
        hidden = f"{tops.pop()}::" if len(tops) == 1 else ""
        plant.mutable_gravity_field().set_gravity_vector(np.array(list(gravity)))
        plant.Finalize()

        def name(x):
            full = f"{plant.GetModelInstanceName(x.model_instance())}::{x.name()}"
            return full.removeprefix(hidden)

        every = [plant.get_body(BodyIndex(i)) for i in range(1, plant.num_bodies())]
        self.bodies = {name(b): b for b in every}
        # Drake puts a joint into the model of its child: here its last name is enough
        self.joints = {j.name(): j for j in map(plant.get_joint, plant.GetJointIndices())}
        self.frames = {
            name(f): f
            for f in (plant.get_frame(FrameIndex(i)) for i in range(1, plant.num_frames()))
        }


def state(r, drake, q, v):
    """Drake's q, the map T of our velocities to Drake's, and Drake's acceleration at a = 0."""
    n = drake.plant.num_velocities()
    qd, T, rest = np.zeros(drake.plant.num_positions()), np.zeros((n, r.nv)), np.zeros(n)
    for body in r.model.bodies:
        iv, x, kind = np.arange(body.iv.start, body.iv.stop), q[body.iq], body.joint.kind.name
        if kind == "free":
            base = drake.bodies[body.name]
            at, dof = base.floating_positions_start(), base.floating_velocities_start_in_v()
            qd[at : at + 7] = [x[6], *x[3:6], *x[:3]]
            R = r.frame_pose(q, body.name)[:3, :3]
            T[dof : dof + 3, iv[3:]] = T[dof + 3 : dof + 6, iv[:3]] = R
            rest[dof + 3 : dof + 6] = R @ np.cross(v[iv[3:]], v[iv[:3]])
            continue
        name = body.joint.name.split("::")[-1]
        # the two axes of Drake's universal joint are two joints here
        whole, k = (name, 0) if name in drake.joints else (name[:-2], int(name[-1]) - 1)
        at, dof = drake.joints[whole].position_start() + k, drake.joints[whole].velocity_start() + k
        if kind == "ball":
            R = RotationMatrix(Quaternion(np.array([x[3], *x[:3]]) / np.linalg.norm(x)))
            qd[at : at + 3] = RollPitchYaw(R).vector()
            T[dof : dof + 3, iv] = R.matrix()
        else:
            scale = np.array([body.joint.ratio] * len(x))
            qd[at : at + len(x)] = scale * x + body.joint.offset
            T[np.arange(dof, dof + len(x)), iv] = scale
    return qd, T, rest


def compare(file, **options):
    """Every term and every pose at three random states."""
    r = load(file, **options)
    drake = Drake(file, r.model.gravity)
    plant = drake.plant
    assert plant.num_velocities() == sum(b.joint.kind.nv for b in r.model.bodies)
    rng = np.random.default_rng(0)
    for _ in range(3):
        q, v = r.random(rng), rng.normal(size=r.nv)
        qd, T, rest = state(r, drake, q, v)
        context = plant.CreateDefaultContext()
        plant.SetPositions(context, qd)
        plant.SetVelocities(context, T @ v)
        M, bias = plant.CalcMassMatrix(context), plant.CalcBiasTerm(context)
        g = -plant.CalcGravityGeneralizedForces(context)
        assert_agree("M", r.mass_matrix(q), T.T @ M @ T, TOLERANCE)
        assert_agree("g", r.gravity(q), T.T @ g, TOLERANCE)
        assert_agree("h", r.bias(q, v), T.T @ (bias + g + M @ rest), TOLERANCE)
        compared = 0
        for name in r.frame_names:
            if name in drake.frames:
                X = drake.frames[name].CalcPoseInWorld(context).GetAsMatrix4()
                assert_agree(f"pose of {name}", r.frame_pose(q, name), X, TOLERANCE)
                compared += 1
        assert compared >= len(drake.bodies)
    return r


ODD_POSES = document(
    "<pose>0.3 0.2 0.1 0.1 0.2 0.3</pose>"
    + link("base", "<pose>0.1 0.2 0.3 0.4 0.5 0.6</pose>")
    + link("a", "<pose relative_to='base'>0.5 0 0.1 -0.3 0.2 0.7</pose>")
    + link("b", "<pose relative_to='j1'>0.2 0.3 0 0 0.9 0</pose>")
    + link("c", "<pose relative_to='tool'>0 0 0.1 0 0 0.2</pose>")
    + "<frame name='tool' attached_to='b'><pose>0.1 0.1 0.4 0.3 0 0</pose></frame>"
    + "<frame name='eye' attached_to='tool'><pose relative_to='a'>1 0 0 0 1 0</pose></frame>"
    + joint("j0", "revolute", "world", "base", "<xyz>0.3 0.4 1</xyz>")
    + joint("j1", "revolute", "base", "a", "<xyz expressed_in='b'>1 2 3</xyz>",
            "<pose>0.05 0.06 0.07 0.3 0.2 0.1</pose>")
    + joint("j2", "prismatic", "a", "b", "<xyz expressed_in='__model__'>0 1 1</xyz>",
            "<pose relative_to='base'>0.05 0.06 0.07 0.3 0.2 0.1</pose>")
    + joint("j3", "continuous", "tool", "c", "<xyz expressed_in='eye'>0 1 0</xyz>")
)  # fmt: skip
FREE_BASE = document(
    "<pose degrees='true'>1 2 3 30 20 10</pose>"
    + link("torso", "<pose rotation_format='quat_xyzw'>0 0 1 0.1 0.2 0.3 0.9273618495495703</pose>")
    + link("leg", "<pose>0 0.3 0.5 0 0 0</pose>")
    + link("ball", "<pose>0.3 0.3 0.5 0.2 0 0</pose>")
    + link("nut", "<pose>0 -0.3 0.5 0 1 0</pose>")
    + joint("hip", "revolute", "torso", "leg", "<xyz>0 1 0</xyz>")
    + joint("wrist", "ball", "leg", "ball", extra="<pose>0 0.1 0 0 0 0.4</pose>")
    + joint("screw", "screw", "leg", "nut", "<xyz>0 1 1</xyz>",
            "<screw_thread_pitch>0.4</screw_thread_pitch>")
)  # fmt: skip
NESTED = document(
    link("base", "<pose>0.1 0 0 0 0 0.3</pose>")
    + "<model name='arm' placement_frame='flange' canonical_link='lower'>"
    + "<pose relative_to='base'>0.2 0.1 0 0.4 0 0</pose>"
    + link("upper", "<pose>0.1 0.3 0 0 0.3 0</pose>")
    + link("lower", "<pose>0.5 0.3 0 0 0.3 0.2</pose>")
    + "<frame name='flange' attached_to='lower'><pose>0 0 0.2 0 1 0</pose></frame>"
    + "<model name='hand'><pose relative_to='lower'>0 0 0.3 0 0 1</pose>"
    + link("palm")
    + "</model>"
    + joint("elbow", "revolute", "upper", "lower", "<xyz>1 0 1</xyz>")
    + joint("grip", "prismatic", "lower", "hand::palm", "<xyz expressed_in='hand'>1 0 1</xyz>")
    + "</model>"
    + "<frame name='grip_frame' attached_to='arm::hand'><pose>0 0 0.1 0 0 0</pose></frame>"
    + "<frame name='arm_frame' attached_to='arm'><pose>0 0 0.1 0 0 0</pose></frame>"
    + joint("fix", "fixed", "world", "base")
    + joint("shoulder", "revolute", "base", "arm::upper", "<xyz expressed_in='arm'>0 1 0</xyz>")
)
OLD = document(
    link("base", "<pose>0.1 0.2 0.3 0.4 0.5 0.6</pose>")
    + link("a", "<pose>0.4 0.2 0.3 -0.4 0.5 0.6</pose>")
    + link("b", "<pose>0.4 0.2 0.9 -0.4 0.5 -0.6</pose>")
    + joint("j1", "revolute", "base", "a", "<xyz>1 2 3</xyz>", "<pose>0.1 0 0 0 0.3 0</pose>")
    + joint("j2", "revolute", "a", "b",
            "<use_parent_model_frame>1</use_parent_model_frame><xyz>1 2 3</xyz>"),
    "VERSION",
)  # fmt: skip
UNIVERSAL = document(
    link("base")
    + link("a", "<pose>0.4 0.2 0.3 -0.4 0.5 0.6</pose>")
    + joint("w", "fixed", "world", "base")
    + "<joint name='u' type='universal'><pose>0.1 0 0 0 0.3 0</pose><parent>base</parent>"
    "<child>a</child><axis><xyz>0 0 1</xyz></axis><axis2><xyz>0 1 0</xyz></axis2></joint>"
)
WORLD = (
    "<sdf version='1.9'><world name='w'><gravity>0.5 1 -8</gravity>"
    "<model name='table'><static>true</static><pose>1 0 0 0 0 0.3</pose>"
    + link("top", "<pose>0 0 1 0 0 0</pose>")
    + "</model><model name='box'><pose>0 0 2 0 0 0</pose>"
    + link("body")
    + "</model><model name='arm'><pose relative_to='table'>0 0 1 0 0 0</pose>"
    + link("body")
    + joint("j", "revolute", "world", "body", "<xyz>1 0 0</xyz>")
    + "</model></world></sdf>"
)
DEFAULT_INERTIA = document(
    "<link name='base'/><link name='a'><pose>0 0 1 0 0 0</pose><inertial><mass>2</mass></inertial>"
    "</link><link name='b'><inertial><inertia><ixx>0.6</ixx></inertia></inertial></link>"
    + joint("j", "revolute", "base", "a", "<xyz>1 0 0</xyz>")
    + joint("k", "revolute", "a", "b", "<xyz>0 1 0</xyz>")
)
CASES = {
    "odd poses": ODD_POSES,
    "free base": FREE_BASE,
    "nested": NESTED,
    "1.4": OLD.replace("VERSION", "1.4"),
    "1.5": OLD.replace("VERSION", "1.5"),
    "1.6": OLD.replace("VERSION", "1.6"),
    "universal": UNIVERSAL,
    "world": WORLD,
    "default inertia": DEFAULT_INERTIA,
}


def write(folder: Path, text: str, name: str = "robot.sdf") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.mark.parametrize("case", CASES)
def test_agreement_with_drake(case, tmp_path):
    compare(write(tmp_path, CASES[case]))


def test_old_thread_pitch(tmp_path):
    text = FREE_BASE.replace("screw_thread_pitch", "thread_pitch").replace(">0.4</th", ">-15.7</th")
    r = compare(write(tmp_path, text))
    assert r.model.body_of_joint("screw").joint.pitch == pytest.approx(1 / 15.7)


def test_free_base_fixed_where_the_file_has_it(tmp_path):
    file = write(tmp_path, FREE_BASE)
    r, fixed = load(file), load(file, base="fixed")
    assert r.joint_names[0] == "torso (free)"
    X = Drake(file, r.model.gravity).plant
    body = X.GetBodyByName("torso")
    expected = X.EvalBodyPoseInWorld(X.CreateDefaultContext(), body).GetAsMatrix4()
    assert_agree("pose", fixed.frame_pose(fixed.neutral(), "torso"), expected, TOLERANCE)


def test_world_names_and_gravity(tmp_path):
    r = load(write(tmp_path, WORLD))
    assert tuple(r.model.gravity) == (0.5, 1.0, -8.0)
    assert r.joint_names == ("box::body (free)", "arm::j")
    assert r.name == "w"


def test_names_of_a_world_with_one_model(tmp_path):
    text = ODD_POSES.replace("'1.9'>", "'1.9'><world name='w'>").replace("</sdf>", "</world></sdf>")
    r = compare(write(tmp_path, text))
    assert (r.name, r.joint_names) == ("robot", ("j0", "j1", "j2", "j3"))


def test_mimic(tmp_path):
    mimic = (
        "<mimic joint='j1'><multiplier>-2</multiplier><offset>0.3</offset>"
        "<reference>0.1</reference></mimic>"
    )
    text = document(
        link("base") + link("a", "<pose>0.3 0 0 0 0 0</pose>")
        + link("b", "<pose>0.6 0 0 1 0 0</pose>")
        + joint("j0", "fixed", "world", "base") + joint("j1", "revolute", "base", "a")
        + joint("j2", "revolute", "a", "b", f"<xyz>0 1 0</xyz>{mimic}"), "1.11",
    )  # fmt: skip
    file = write(tmp_path, text)
    r = load(file)
    assert r.nv == 1
    follower = r.model.body_of_joint("j2").joint
    assert (follower.ratio, follower.offset) == (-2.0, pytest.approx(0.5))
    # Drake parses the same file without the coupling, which only its contact solver has
    compare(write(tmp_path, text.replace(mimic, ""), "free.sdf"))
    free = load(tmp_path / "free.sdf")
    q, v = np.array([0.4]), np.array([0.7])
    T = np.array([[1.0], [-2.0]])
    both = np.array([0.4, -2.0 * 0.4 + 0.5])
    assert_agree("M", r.mass_matrix(q), T.T @ free.mass_matrix(both) @ T, TOLERANCE)
    assert_agree("h", r.bias(q, v), T.T @ free.bias(both, T @ v), TOLERANCE)


def test_revolute2_is_two_revolutes(tmp_path):
    axis2 = "<axis2><xyz>0 1 0</xyz><limit><lower>-1</lower><upper>2</upper></limit></axis2>"
    two = UNIVERSAL.replace("'universal'", "'revolute2'")
    limited = UNIVERSAL.replace("<axis2><xyz>0 1 0</xyz></axis2>", axis2)
    u, r, c = (
        load(write(tmp_path, t, f"{i}.sdf")) for i, t in enumerate((UNIVERSAL, two, limited))
    )
    q, v = np.array([0.3, -0.4]), np.array([1.0, 2.0])
    for other in (r, c):
        assert other.joint_names == ("u.1", "u.2")
        assert other.model.velocity_names == u.model.velocity_names
        assert_agree("M", other.mass_matrix(q), u.mass_matrix(q), TOLERANCE)
        assert_agree("h", other.bias(q, v), u.bias(q, v), TOLERANCE)
    assert c.model.body_of_joint("u.2").joint.limits.upper == 2.0


def test_limits_and_dynamics(tmp_path):
    axis = (
        "<xyz>1 0 0</xyz><limit><lower>-1e16</lower><upper>inf</upper><effort>-1</effort>"
        "<velocity>3</velocity></limit><dynamics><damping>0.1</damping><friction>0.2</friction>"
        "<spring_stiffness>5</spring_stiffness><spring_reference>0.4</spring_reference></dynamics>"
    )
    text = document(link("a") + joint("j", "revolute", "world", "a", axis))
    j = load(write(tmp_path, text)).model.body_of_joint("j").joint
    inf = float("inf")
    bounds = j.limits
    assert (bounds.lower, bounds.upper, bounds.velocity, bounds.effort) == (-inf, inf, 3.0, inf)
    drive = j.drivetrain
    assert (drive.damping, drive.friction, drive.stiffness, drive.rest) == (0.1, 0.2, 5.0, (0.4,))


def test_reflected_inertia(tmp_path):
    rotor = "<drake:rotor_inertia>0.01</drake:rotor_inertia><drake:gear_ratio>30</drake:gear_ratio>"
    r = compare(
        write(tmp_path, document(link("a") + joint("j", "revolute", "world", "a", extra=rotor)))
    )
    assert r.model.bodies[0].armature == pytest.approx(9.0)


def test_include(tmp_path):
    inner = document(
        "<pose>9 9 9 0 0 0</pose>" + link("a", "<pose>0 0 1 0 0 0</pose>") + link("b")
        + joint("j", "revolute", "a", "b", "<xyz>1 2 3</xyz>"), "1.4", "inner",
    )  # fmt: skip
    write(tmp_path, inner, "inner.sdf")
    write(tmp_path, inner, "gadget/files/gadget.sdf")
    config = (
        "<model><sdf version='1.4'>old.sdf</sdf><sdf version='1.5'>files/gadget.sdf</sdf></model>"
    )
    write(tmp_path, config, "gadget/model.config")
    outer = document(
        link("base")
        + "<include><uri>inner.sdf</uri><name>one</name><placement_frame>b</placement_frame>"
        "<pose relative_to='base'>1 0 0 0.1 0 0</pose></include>"
        "<include><uri>model://gadget</uri></include>"
        + joint("w", "revolute", "world", "base")
        + joint("m", "revolute", "base", "one::a", "<xyz>1 0 1</xyz>")
    )
    r = load(write(tmp_path, outer))
    assert set(r.joint_names) == {"w", "m", "one::j", "inner::j", "inner::a (free)"}
    flat = outer.replace("<include><uri>model://gadget</uri></include>", "")
    relative = flat.replace("<uri>inner.sdf", f"<uri>file://{tmp_path}/inner.sdf")
    compare(write(tmp_path, relative, "flat.sdf"))


def test_merged_include(tmp_path):
    inner = document(
        link("a", "<pose>0 0 1 0 0.3 0</pose>") + "<frame name='f'><pose>1 0 0 0 0 0</pose></frame>"
    )
    write(tmp_path, inner, "inner.sdf")
    outer = document(
        f"<include merge='true'><uri>file://{tmp_path}/inner.sdf</uri>"
        "<pose>0 0 1 1 0 0</pose></include>"
        + joint("w", "revolute", "world", "a", "<xyz expressed_in='f'>0 0 1</xyz>")
    )
    assert "a" in compare(write(tmp_path, outer)).frame_names


def test_include_without_end(tmp_path):
    file = write(tmp_path, document("<include><uri>robot.sdf</uri></include>" + link("a")))
    with pytest.raises(DescriptionError, match="nested deeper than 16"):
        load(file)


CLOSING = {
    "ball": "spherical",
    "fixed": "weld",
    "revolute": "revolute",
    "continuous": "revolute",
    "prismatic": "prismatic",
}


@pytest.mark.parametrize("kind", CLOSING)
def test_joints_that_close_a_loop(kind, tmp_path):
    pose = "<pose>0.1 0.2 0.3 0.4 0 0</pose>"
    xyz = "<xyz expressed_in='base'>0 1 2</xyz><limit><lower>-1</lower></limit>"
    text = document(
        link("base") + link("a") + link("b")
        + joint("w", "fixed", "world", "base")
        + joint("j", "revolute", "base", "a") + joint("k", "revolute", "base", "b")
        + joint("pin", kind, "b", "a", xyz, extra=pose)
    )  # fmt: skip
    r = load(write(tmp_path, text))
    assert r.joint_names == ("j", "k")
    (loop,) = r.model.loops
    assert (loop.name, loop.kind) == ("pin", CLOSING[kind])
    ends = [r.frame_pose(r.neutral(), f) for f in (loop.frame1, loop.frame2)]
    assert_agree("loop", ends[0], ends[1], 1e-14)
    assert_agree("residual", r.constraint_residual(r.neutral()), np.zeros(loop.size), 1e-12)
    if kind not in ("ball", "fixed"):
        axis = ends[0][:3, :3] @ [*loop.axis]
        assert_agree("axis", axis, np.array([0.0, 1.0, 2.0]) / np.sqrt(5.0), 1e-14)
    assert any("limits and losses are ignored" in f.message for f in r.health)


J = joint("j", "revolute", "base", "a")
SCREW = joint("j", "screw", "base", "a", extra="<screw_thread_pitch>0.1</screw_thread_pitch>")
TWO = link("base") + link("a")
TO_A = "<pose relative_to='a'/>"
BROKEN = {
    "exactly one <world> or <model>": "<sdf version='1.7'/>",
    "versions from 1.4": document(link("a"), "1.3"),
    "no attribute 'version'": "<sdf><model name='x'/></sdf>",
    "has no <link>": document(""),
    "used twice, first on line 1": document(link("a") + link("a")),
    "refers to 'bse'.*closest: 'base'": document(TWO + J.replace(">base", ">bse")),
    "relative to itself": document(link("a", "<pose relative_to='b'/>") + link("b", TO_A)),
    "attached to itself": document(link("a") + f"<frame name='f' attached_to='g'>{TO_A}</frame>"
                                   f"<frame name='g' attached_to='f'>{TO_A}</frame>"),
    "only these close a loop: ball": document(TWO + SCREW + SCREW.replace("'j'", "'k'")),
    "cannot be the world": document(link("base") + joint("j", "revolute", "base", "world")),
    "its own parent": document(link("a") + joint("j", "revolute", "a", "a")),
    "'gearbox' is not one of": document(TWO + J.replace("revolute", "gearbox")),
    "needs a <screw_thread_pitch>": document(TWO + J.replace("revolute", "screw")),
    "axis has no length": document(TWO + J.replace("0 0 1", "0 0 0")),
    "needs 6 numbers": document(link("a", "<pose>1 2 3</pose>")),
    "is not finite": document(link("a", "<pose>1 2 3 0 0 nan</pose>")),
    "negative mass": document(link("a", m=-1)),
    "auto": document("<link name='a'><inertial auto='true'/></link>"),
    "limits .* are empty": document(TWO + J.replace("</axis>",
                           "<limit><lower>1</lower><upper>0</upper></limit></axis>")),
    "cannot include 'nowhere.sdf'; tried": document("<include><uri>nowhere.sdf</uri></include>"),
    "cannot include 'model://nix_da'.*tried": document("<include><uri>model://nix_da</uri></include>"),
    "drake:joint is not supported": document(link("a") + "<drake:joint name='d' type='x'/>"),
    "mimics joint 'x'": document(TWO + J.replace("</axis>", "<mimic joint='x'/></axis>")),
}  # fmt: skip


@pytest.mark.parametrize("message", BROKEN)
def test_errors_name_file_and_line(message, tmp_path):
    file = write(tmp_path, BROKEN[message])
    with pytest.raises(DescriptionError, match=f"(?s){message}") as caught:
        load(file)
    assert caught.value.file == str(file)
    assert caught.value.line == 1


def test_findings(tmp_path):
    text = document(
        "<link name='a'><gravity>false</gravity></link><plugin name='p'/>"
        "<drake:linear_bushing_rpy><drake:x/></drake:linear_bushing_rpy>"
    )
    found = {(f.severity, f.kind, f.subject) for f in load(write(tmp_path, text)).model.health}
    assert ("info", "invented", "link 'a'") in found
    assert ("warning", "ignored", "link 'a'") in found
    assert ("info", "ignored", "model 'robot'") in found


def test_joints_of_a_static_model_are_reported(tmp_path):
    static = "<static>true</static>" + TWO + J
    r = load(write(tmp_path, document(static + "<model name='in'>" + TWO + J + "</model>")))
    assert r.nv == 0
    found = [(f.severity, f.subject) for f in r.model.health if "static model" in f.message]
    assert found == [("info", "joint 'j'"), ("info", "joint 'in::j'")]
    moving = load(write(tmp_path, document(TWO + J), "moving.sdf"))
    assert not any("static model" in f.message for f in moving.model.health)


SHARED = {
    "frames_as_joint_parent_or_child.sdf": None,
    "joint_parsing_test.sdf": "drake:joint is not supported",
    "negative_damping_joint.sdf": "negative damping -0.1",
    "unsupported_elements.sdf": None,
    "very_old_version.sdf": "SDFormat 1.2 is not read",
}


@pytest.mark.parametrize("name", SHARED)
def test_awkward_files(name):
    files = shared_files(f"data/awkward_models/drake/{name}")
    need_shared(files)
    if name == "unsupported_elements.sdf":  # Drake refuses it
        assert any("proximity" in f.message for f in load(files[0]).model.health)
        return
    if SHARED[name] is None:
        compare(files[0])
        return
    with pytest.raises(DescriptionError, match=SHARED[name]):
        load(files[0])


def cassie(name):
    for file in named_files().values():
        for folder in file.parents:
            found = folder / "cassie_description" / "robots" / f"{name}.sdf"
            if found.is_file():
                return found
    pytest.skip("example-robot-data is not installed")


def test_cassie(tmp_path):
    """A real robot of 1.6: joint poses away from the links, four ball joints that close loops."""
    r = load(cassie("cassie_v2"))
    assert (r.nv, len(r.model.loops)) == (28, 4)
    # at zero the rods meet what they are joined to
    for loop in r.model.loops:
        X, Y = (r.frame_pose(r.neutral(), f) for f in (loop.frame1, loop.frame2))
        assert_agree(loop.name, X, Y, 1e-12)
    with pytest.raises(QddotError, match="gearbox"):
        load(cassie("cassie"))


def test_the_loops_of_cassie_hold():
    """Two of its closures lie in planes, to the digits of the file: a row each is redundant."""
    r = load(cassie("cassie_v2"))
    rank = constraints.analyse(r, r.neutral())
    flat = ("right-plantar-foot-joint.z", "left-plantar-foot-joint.z")
    assert (rank.redundant, rank.freedoms) == ({name: {} for name in flat}, 18)
    r = constraints.with_loops(r, rank.independent)
    rng = np.random.default_rng(0)
    q = constraints.assemble(r, r.integrate(r.neutral(), 0.2 * rng.normal(size=r.nv)))
    v = constraints.consistent_velocity(r, q, rng.normal(size=r.nv))
    tau = rng.normal(size=r.nv)
    a, _ = r.constrained_dynamics(q, v, tau)
    assert_agree("q̈", constraints.reduced_forward_dynamics(r, q, v, tau), a, 1e-9)


def test_cassie_against_drake(tmp_path):
    text = cassie("cassie_v2").read_text()
    text = re.sub(r"<joint[^>]*type=.ball.*?</joint>", "", text, flags=re.S)
    text = re.sub(r"<(visual|collision).*?</\1>", "", text, flags=re.S)
    compare(write(tmp_path, text))
