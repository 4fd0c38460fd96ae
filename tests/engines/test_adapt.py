"""Adapters: round trips, and the terms of the equation as each engine computes them."""

from __future__ import annotations

import dataclasses
import warnings

import mujoco as mj
import numpy as np
import pinocchio as pin
import pytest
from agreement import assert_agree
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_joints import cylindrical_robot
from pydrake.multibody.math import SpatialForce
from pydrake.multibody.parsing import Parser
from pydrake.multibody.plant import MultibodyPlant
from pydrake.multibody.tree import JacobianWrtVariable, MultibodyForces
from random_models import build, trees

import qddot
from qddot import engines as adapt
from qddot.errors import (
    DoubtfulQuaternion,
    InvalidArgument,
    JointsDiffer,
    ShapeMismatch,
    Unsupported,
)
from qddot.loaders.named_robots import named_files
from qddot.robot.robot import Robot, Wrench
from qddot.spatial.algebra import Transform, Vec3, rotation_from_quaternion

TOLERANCE = 1e-11
SHIFT = Transform(rotation_from_quaternion(0.0, 0.0, 0.0, 1.0), Vec3(0.1, 0.0, 0.0))

FLYING = """
<mujoco model="flying">
  <worldbody>
    <body name="base" pos="1 2 3">
      <freejoint name="root"/>
      <inertial mass="3" pos="0.1 0.2 -0.1" diaginertia="0.3 0.2 0.25"/>
      <body name="arm" pos="0.3 0 0.1" quat="0.9 0.1 0.3 0.2">
        <joint name="socket" type="ball" pos="0.05 0.02 0" armature="0.03"/>
        <inertial mass="1" pos="0.2 0 0.1" quat="0.8 0.2 0.5 0.1" diaginertia="0.02 0.03 0.04"/>
        <body name="hand" pos="0.4 0 0">
          <joint name="slide" type="slide" axis="0 1 1" ref="0.2"/>
          <joint name="hinge" axis="1 0 0" ref="0.4" pos="0 0.1 0"/>
          <inertial mass="0.5" pos="0.1 0.1 0" diaginertia="0.01 0.01 0.01"/>
          <body name="thumb" pos="0 0 0.1">
            <joint name="thumb" axis="0 0 1" range="-1 1" damping="0.2"/>
            <inertial mass="0.1" pos="0 0.1 0" diaginertia="0.001 0.002 0.002"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""

COUPLED = """
<robot name="gripper">
  <link name="base"/>
  <link name="palm"><inertial><mass value="1"/><origin xyz="0.1 0 0"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="left"><inertial><mass value="0.3"/><origin xyz="0 0.1 0"/>
    <inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="right"><inertial><mass value="0.2"/><origin xyz="0 0.2 0"/>
    <inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="wrist" type="continuous"><parent link="base"/><child link="palm"/>
    <axis xyz="0 1 0"/></joint>
  <joint name="a_left" type="revolute"><parent link="palm"/><child link="left"/>
    <origin xyz="0.2 0.1 0"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
  <joint name="right" type="revolute"><parent link="palm"/><child link="right"/>
    <origin xyz="0.2 -0.1 0"/><axis xyz="1 0 0"/>
    <limit lower="-3" upper="3" effort="1" velocity="1"/>
    <mimic joint="a_left" multiplier="-0.7" offset="0.3"/></joint>
</robot>
"""


def loaded(source, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return qddot.load(source, **options)


def states(robot, n=4, seed=0):
    rng = np.random.default_rng(seed)
    return robot.random(rng, n), *(rng.normal(size=(n, robot.nv)) for _ in range(3))


def assert_round_trips(a, q, v, acc, tau):
    """Everything that can go both ways comes back as it was."""
    again = a.from_q(a.to_q(q))
    difference = a.robot.difference(q, again)
    assert np.abs(difference).max() < 1e-12
    assert_agree("v", a.from_v(q, a.to_v(q, v)), v, 1e-13)
    assert_agree("a", a.from_a(q, v, a.to_a(q, v, acc)), acc, 1e-13)
    assert_agree("τ", a.from_tau(q, a.to_tau(q, tau)), tau, 1e-13)
    power = (a.to_tau(q, tau) * a.to_v(q, v)).sum(-1)
    assert_agree("power", power, (tau * v).sum(-1), 1e-12)
    assert_agree("h", a.from_bias(q, v, a.to_bias(q, v, tau)), tau, 1e-12)
    if a.layout.nv == a.robot.nv:
        M = a.robot.mass_matrix(q)
        assert_agree("M", a.from_mass_matrix(q, a.to_mass_matrix(q, M)), M, 1e-13)
        J = a.robot.frame_jacobian(q, a.robot.frame_names[-1], "world")
        assert_agree("J", a.from_jacobian(q, a.to_jacobian(q, J)), J, 1e-13)
    # one state by indices is the same as by the forms of the joints
    flat = [x.reshape(-1, x.shape[-1]) for x in (q, v, tau)]
    for one in zip(*flat, strict=True) if a.state_map else ():
        there = a.to_q(one[0]), a.to_v(*one[:2])
        assert_agree("q", a.state_map.from_q(there[0]), a.from_q(there[0]), 1e-15)
        assert_agree("v", a.state_map.from_v(one[0], there[1]), a.from_v(one[0], there[1]), 1e-14)
        forces = np.zeros(a.layout.nv)
        a.state_map.write_tau(one[0], one[2], forces)
        assert_agree("τ", forces, a.to_tau(one[0], one[2]), 1e-14)
    # the rate of the map is what an acceleration takes along
    step = 1e-6
    ahead = a.to_v(a.robot.integrate(q, step * v), v + step * acc)
    before = a.to_v(a.robot.integrate(q, -step * v), v - step * acc)
    assert_agree("T a + Ṫ v", a.to_a(q, v, acc), (ahead - before) / (2 * step), 1e-8)


@pytest.fixture(scope="module")
def flying():
    m = mj.MjModel.from_xml_string(FLYING)
    return adapt.mujoco(loaded(m), m), m


def test_round_trips_in_mujoco(flying):
    a, _ = flying
    assert_round_trips(a, *states(a.robot))


def test_terms_as_mujoco_computes_them(flying):
    a, m = flying
    r, d = a.robot, mj.MjData(m)
    q, v, _, tau = states(r)
    for q, v, tau in zip(q, v, tau, strict=True):  # noqa: B020
        d.qpos[:], d.qvel[:] = a.to_q(q), a.to_v(q, v)
        push = Wrench("thumb", "local", [1.0, 2.0, 3.0, 0.4, 0.5, 0.6])
        pull = Wrench("base", "world", [0.3, -2.0, 1.0, 0.1, 0.2, -0.7])
        d.xfrc_applied[:] = a.to_wrenches(q, [push, pull])
        d.qfrc_applied[:] = a.to_tau(q, tau)
        mj.mj_forward(m, d)
        M = adapt.full_mass_matrix(m, d)
        assert_agree("M", r.mass_matrix(q), a.from_mass_matrix(q, M), TOLERANCE)
        assert_agree("M there", M, a.to_mass_matrix(q, r.mass_matrix(q)), TOLERANCE)
        assert_agree("h", r.bias(q, v), a.from_bias(q, v, d.qfrc_bias, M), TOLERANCE)
        assert_agree("h there", d.qfrc_bias, a.to_bias(q, v, r.bias(q, v)), TOLERANCE)
        lost = r.friction(q, v)
        assert_agree("passive", -lost, a.from_tau(q, d.qfrc_passive), TOLERANCE)
        qdd = r.forward_dynamics(q, v, tau, f_ext=[push, pull], friction=True)
        assert_agree("q̈", qdd, a.from_a(q, v, d.qacc_smooth), 1e-10)
        assert_agree("q̈ there", d.qacc_smooth, a.to_a(q, v, qdd), 1e-10)
        for name in ("base", "arm", "hand", "thumb"):
            J = np.zeros((6, m.nv))
            mj.mj_jacBody(m, d, J[:3], J[3:], m.body(name).id)
            ours = r.frame_jacobian(q, name, "local_world_aligned")
            assert_agree(f"J of {name}", ours, a.from_jacobian(q, J), TOLERANCE)
            assert_agree(f"J of {name} there", J, a.to_jacobian(q, ours), TOLERANCE)


def test_wrenches_come_back(flying):
    a, m = flying
    r = a.robot
    q, v, acc, _ = states(r)
    rng = np.random.default_rng(4)
    forces = rng.normal(size=(4, m.nbody, 6))
    forces[:, 0] = 0.0
    wrenches = a.from_wrenches(q, forces)
    assert_agree("xfrc_applied", a.to_wrenches(q, wrenches), forces, 1e-12)
    d = mj.MjData(m)
    for k in range(4):
        d.qpos[:], d.qvel[:], d.qacc[:] = (x[k] for x in (a.to_q(q), a.to_v(q, v), acc))
        d.qacc[:] = a.to_a(q, v, acc)[k]
        d.xfrc_applied[:] = forces[k]
        mj.mj_inverse(m, d)
        # MuJoCo's inverse dynamics leaves external forces to the caller
        generalised = np.zeros(m.nv)
        for i in range(1, m.nbody):
            mj.mj_applyFT(
                m, d, forces[k, i, :3], forces[k, i, 3:], d.xipos[i].copy(), i, generalised
            )
        at = [Wrench(w.frame, w.reference, w.value[k]) for w in wrenches]
        ours = r.inverse_dynamics(q[k], v[k], acc[k], f_ext=at, friction=True)
        theirs = a.from_tau(q[k], d.qfrc_inverse - generalised)
        assert_agree("τ", ours, theirs, TOLERANCE)


def pinocchio_zoo():
    """A model with every joint of which Pinocchio and the joint table write the same."""
    model = pin.Model()
    model.name = "zoo"
    joints = {
        "fly": pin.JointModelFreeFlyer(),
        "socket": pin.JointModelSpherical(),
        "floor": pin.JointModelPlanar(),
        "wheel": pin.JointModelRUBZ(),
        "hinge": pin.JointModelRX(),
        "rail": pin.JointModelPrismaticUnaligned(np.array([0.6, 0.8, 0.0])),
        "screw": pin.JointModelHZ(0.1),
        "cardan": pin.JointModelUniversal(np.array([1.0, 0, 0]), np.array([0, 1.0, 0])),
        "euler": pin.JointModelSphericalZYX(),
        "gantry": pin.JointModelTranslation(),
    }
    parent = 0
    for name, joint in joints.items():
        parent = model.addJoint(parent, joint, pin.SE3.Random(), name)
        model.appendBodyToJoint(parent, pin.Inertia.Random(), pin.SE3.Identity())
        model.addBodyFrame(f"body of {name}", parent, pin.SE3.Identity(), 0)
    model.armature[6:] = 0.05
    floor = model.joints[model.getJointId("floor")]
    model.armature[floor.idx_v : floor.idx_v + floor.nv] = 0.0
    return model


@pytest.fixture(scope="module")
def zoo():
    pin.seed(3)
    model = pinocchio_zoo()
    return adapt.pinocchio(loaded(model), model), model


def test_round_trips_in_pinocchio(zoo):
    a, _ = zoo
    assert_round_trips(a, *states(a.robot))


def test_terms_as_pinocchio_computes_them(zoo):
    a, m = zoo
    r, d = a.robot, m.createData()
    for q, v, acc, tau in zip(*states(r), strict=True):
        qp, vp, ap = a.to_q(q), a.to_v(q, v), a.to_a(q, v, acc)
        assert_agree("M", r.mass_matrix(q), a.from_mass_matrix(q, pin.crba(m, d, qp)), TOLERANCE)
        h = pin.nonLinearEffects(m, d, qp, vp)
        assert_agree("h", r.bias(q, v), a.from_bias(q, v, h), TOLERANCE)
        push = Wrench("body of gantry", "local_world_aligned", [1.0, 2.0, 3.0, 0.4, 0.5, 0.6])
        pull = Wrench("body of fly", "local", [0.3, -2.0, 1.0, 0.1, 0.2, -0.7])
        f = a.to_wrenches(q, [push, pull])
        theirs = pin.rnea(m, d, qp, vp, ap, [pin.Force(x) for x in f])
        ours = r.inverse_dynamics(q, v, acc, f_ext=[push, pull])
        assert_agree("τ", ours, a.from_tau(q, theirs), TOLERANCE)
        qdd = pin.aba(m, d, qp, vp, a.to_tau(q, tau))
        assert_agree("q̈", r.forward_dynamics(q, v, tau), a.from_a(q, v, qdd), 1e-8)
        index = m.getFrameId("body of gantry")
        J = pin.computeFrameJacobian(m, d, qp, index, pin.LOCAL)
        ours = r.frame_jacobian(q, "body of gantry", "local")
        assert_agree("J", ours, a.from_jacobian(q, J), TOLERANCE)


def plant_of(text, kind, weld=None):
    plant = MultibodyPlant(0.0)
    Parser(plant).AddModelsFromString(text, kind)
    if weld:
        plant.WeldFrames(plant.world_frame(), plant.GetFrameByName(weld))
    plant.Finalize()
    return plant


@pytest.fixture(scope="module")
def drake_flying(tmp_path_factory):
    """The same MJCF in Drake, which keeps no armature of a ball joint and no spring."""
    text = FLYING.replace('armature="0.03"', "")
    file = tmp_path_factory.mktemp("drake") / "flying.xml"
    # angles of ref in radians, which Drake takes for degrees unless it is told
    file.write_text(text.replace("<worldbody>", '<compiler angle="radian"/><worldbody>'))
    plant = MultibodyPlant(0.0)
    Parser(plant).AddModels(str(file))
    plant.Finalize()
    return adapt.drake(loaded(file), plant), plant


def test_round_trips_in_drake(drake_flying):
    a, _ = drake_flying
    assert_round_trips(a, *states(a.robot))


def test_terms_as_drake_computes_them(drake_flying):
    a, plant = drake_flying
    r, context = a.robot, plant.CreateDefaultContext()
    for q, v, acc, _ in zip(*states(r), strict=True):
        plant.SetPositions(context, a.to_q(q))
        plant.SetVelocities(context, a.to_v(q, v))
        M = plant.CalcMassMatrix(context)
        assert_agree("M", r.mass_matrix(q), a.from_mass_matrix(q, M), TOLERANCE)
        gravity = -plant.CalcGravityGeneralizedForces(context)
        assert_agree("g", r.gravity(q), a.from_tau(q, gravity), TOLERANCE)
        h = plant.CalcBiasTerm(context) + gravity
        assert_agree("h", r.bias(q, v), a.from_bias(q, v, h, M), TOLERANCE)
        push = Wrench("thumb", "world", [1.0, 2.0, 3.0, 0.4, 0.5, 0.6])
        forces = MultibodyForces(plant)
        for name, i in ((b, int(plant.GetBodyByName(b).index())) for b in ("base", "thumb")):
            x = a.to_wrenches(q, push)[i]
            F = SpatialForce(tau=x[:3], f=x[3:])
            body = plant.GetBodyByName(name)
            body.AddInForce(context, np.zeros(3), F, plant.world_frame(), forces)
        theirs = plant.CalcInverseDynamics(context, a.to_a(q, v, acc), forces)
        # Drake leaves gravity and damping to the forces it is given
        ours = r.inverse_dynamics(q, v, acc, f_ext=push) - r.gravity(q)
        assert_agree("τ", ours, a.from_tau(q, theirs), TOLERANCE)
        J = plant.CalcJacobianSpatialVelocity(
            context,
            JacobianWrtVariable.kV,
            plant.GetFrameByName("thumb"),
            np.zeros(3),
            plant.world_frame(),
            plant.world_frame(),
        )
        ours = r.frame_jacobian(q, "thumb", "local_world_aligned")
        assert_agree("J", ours, a.from_jacobian(q, J), TOLERANCE)
        X = plant.EvalBodyPoseInWorld(context, plant.GetBodyByName("thumb")).GetAsMatrix4()
        assert_agree("pose", r.frame_pose(q, "thumb"), X, TOLERANCE)


@pytest.fixture(scope="module")
def gripper(tmp_path_factory):
    file = tmp_path_factory.mktemp("gripper") / "gripper.urdf"
    file.write_text(COUPLED)
    return file


def engines_of(file):
    """The gripper in three engines, which leave its mimic joint independent."""
    plant = plant_of(COUPLED, "urdf", weld="base")
    return [
        (adapt.mujoco, mj.MjModel.from_xml_path(str(file))),
        (adapt.pinocchio, pin.buildModelFromUrdf(str(file))),
        (adapt.drake, plant),
    ]


@pytest.mark.parametrize("k", range(3), ids=["MuJoCo", "Pinocchio", "Drake"])
def test_followers_are_led(gripper, k):
    make, model = engines_of(gripper)[k]
    robot, free = loaded(gripper), loaded(gripper, couplings="free")
    assert (robot.nv, free.nv) == (2, 3)
    a, b = make(robot, model), make(free, model)
    q, v, acc, tau = states(robot)
    assert_round_trips(a, q, v, acc, tau)
    assert_round_trips(b, *states(free))
    # the follower there is where its leader puts it
    full = b.from_q(a.to_q(q))
    assert_agree("follower", full[:, 2], -0.7 * full[:, 1] + 0.3, 1e-14)
    M = b.to_mass_matrix(full, free.mass_matrix(full))
    assert_agree("M", a.from_mass_matrix(q, M), robot.mass_matrix(q), 1e-13)
    with pytest.raises(InvalidArgument, match="couplings='free'"):
        a.to_mass_matrix(q, robot.mass_matrix(q))


def test_joints_that_follow_only_there(gripper):
    model = pin.buildModelFromUrdf(str(gripper), mimic=True)
    exact = adapt.pinocchio(loaded(gripper), model)
    assert_round_trips(exact, *states(exact.robot))
    d, (q, *_) = model.createData(), states(exact.robot)
    M = pin.crba(model, d, exact.to_q(q[0]))
    ours = exact.robot.mass_matrix(q[0])
    assert_agree("M", exact.from_mass_matrix(q[0], M), ours, TOLERANCE)
    with pytest.raises(JointsDiffer, match=r"'right' follow other joints there.*couplings='exact'"):
        adapt.pinocchio(loaded(gripper, couplings="free"), model)


@pytest.mark.parametrize("name", ["iris", "solo12", "kinova"])
@pytest.mark.parametrize("base", ["fixed", "free"])
def test_urdf_joints_in_any_order(name, base):
    """Pinocchio orders joints by name, qddot by file, and the adapter matches them."""
    file = str(named_files()[name])
    root = (pin.JointModelFreeFlyer(),) if base == "free" else ()
    model = pin.buildModelFromUrdf(file, *root)
    a = adapt.pinocchio(loaded(file, base=base, couplings="free"), model)
    q, v, acc, tau = states(a.robot)
    assert_round_trips(a, q, v, acc, tau)
    d = model.createData()
    h = pin.nonLinearEffects(model, d, a.to_q(q)[0], a.to_v(q, v)[0])
    assert_agree("h", a.from_bias(q[0], v[0], h), a.robot.bias(q[0], v[0]), 1e-10)


@settings(max_examples=25, deadline=None)
@given(trees(most=8), st.integers(0, 99))
def test_twins_with_other_names_orders_and_zeros(tree, seed):
    """A robot and itself: every map is the identity, whatever joints and couplings it has."""
    robot = Robot(build(*tree))
    if not robot.nv:
        return
    a = adapt.twin(robot, robot, check=False)
    q, v, acc, tau = states(robot, seed=seed)
    assert_agree("q", a.to_q(q), q, 1e-13)
    assert_agree("v", a.to_v(q, v), v, 1e-14)
    assert_round_trips(a, q, v, acc, tau)


def test_twins_whose_base_frames_differ():
    """The frame of a free body placed elsewhere on it: another q and v, the same dynamics."""
    m = mj.MjModel.from_xml_string(FLYING)
    robot = loaded(m)
    X = Transform(rotation_from_quaternion(0.1, 0.5, 0.3, 0.8), Vec3(0.1, 0.2, 0.3))
    turned = loaded(m).model
    base, arm = turned.bodies[0], turned.bodies[1]
    moved = dataclasses.replace(base, inertia=X.inverse().to_parent(base.inertia))
    child = dataclasses.replace(arm, placement=X.inverse() @ arm.placement)
    frames = [f for f in turned.frames if f.body != 0]
    other = Robot(
        dataclasses.replace(turned, bodies=(moved, child, *turned.bodies[2:]), frames=tuple(frames))
    )
    a = adapt.twin(robot, other, frames={"root": X})
    q, v, acc, tau = states(robot)
    assert_round_trips(a, q, v, acc, tau)
    there, rate = a.to_q(q), a.to_v(q, v)
    M = other.mass_matrix(there)
    assert_agree("M", a.from_mass_matrix(q, M), robot.mass_matrix(q), TOLERANCE)
    h = other.bias(there, rate)
    assert_agree("h", a.from_bias(q, v, h, M), robot.bias(q, v), TOLERANCE)
    qdd = other.forward_dynamics(there, rate, a.to_tau(q, tau))
    assert_agree("q̈", a.from_a(q, v, qdd), robot.forward_dynamics(q, v, tau), 1e-9)


def test_joints_of_other_objects_stay_where_they_are():
    scene = FLYING.replace(
        "</worldbody>",
        '<body name="box" pos="5 0 0"><freejoint name="box"/><geom size="0.1"/></body></worldbody>',
    )
    m, robot = mj.MjModel.from_xml_string(scene), loaded(mj.MjModel.from_xml_string(FLYING))
    with pytest.raises(JointsDiffer, match="only in MuJoCo: 'box'") as caught:
        adapt.mujoco(robot, m)
    assert caught.value.there == ("box",)
    a = adapt.mujoco(robot, m, partial=True)
    assert_round_trips(a, *states(robot))
    assert a.to_q(robot.neutral())[-7:].tolist() == m.qpos0[-7:].tolist()
    assert a.to_v(robot.neutral(), np.ones(robot.nv))[-6:].tolist() == [0.0] * 6


def test_joints_that_need_more_than_indices_have_no_map_by_indices(flying):
    assert flying[0].state_map is not None
    drifted = dataclasses.replace(flying[0].joints[0].place, frame=Transform.identity())
    moved = dataclasses.replace(drifted, placement=drifted.placement @ SHIFT)
    joints = (dataclasses.replace(flying[0].joints[0], place=moved), *flying[0].joints[1:])
    assert dataclasses.replace(flying[0], joints=joints).state_map is None


def test_missing_joints_are_named(flying):
    a, m = flying
    smaller = a.robot.without_joint("thumb")
    with pytest.raises(JointsDiffer, match="only in MuJoCo: 'thumb'"):
        adapt.mujoco(smaller, m)
    renamed = mj.MjModel.from_xml_string(FLYING.replace('name="thumb" axis', 'name="big" axis'))
    with pytest.raises(JointsDiffer, match="only in 'flying' here: 'thumb'; only in MuJoCo: 'big'"):
        adapt.mujoco(a.robot, renamed)
    assert_round_trips(adapt.mujoco(a.robot, renamed, names={"thumb": "big"}), *states(a.robot))
    other = FLYING.replace('<joint name="thumb" axis="0 0 1" range="-1 1"', '<joint type="ball" ')
    other = other.replace('type="ball"  damping', 'type="ball" name="thumb" damping')
    with pytest.raises(JointsDiffer, match="'thumb' is a revolute joint here, 'ball wxyz' there"):
        adapt.mujoco(a.robot, mj.MjModel.from_xml_string(other))


def test_a_free_joint_needs_no_name(flying):
    a, _ = flying
    unnamed = mj.MjModel.from_xml_string(FLYING.replace(' name="root"', ""))
    b = adapt.mujoco(a.robot, unnamed)
    q, *_ = states(a.robot)
    assert (b.to_q(q) == a.to_q(q)).all()


WRONG_ORDER = [
    (np.array([0.0, 0.0, 0.0, 1.0]), True),
    (np.array([0.02, 0.01, 0.03, 0.999]), True),
    (np.array([0.999, 0.02, 0.01, 0.03]), False),
    (np.array([0.5, 0.5, 0.5, 0.5]), False),
    (np.array([0.0, 1.0, 0.0, 0.0]), False),
]


@pytest.mark.parametrize(("quaternion", "refused"), WRONG_ORDER)
def test_quaternions_in_the_wrong_order(flying, zoo, drake_flying, quaternion, refused):
    """In (w, x, y, z) the last component must not be the large one; in (x, y, z, w) the first."""
    quaternion = quaternion / np.linalg.norm(quaternion)
    for a, at in ((flying[0], 3), (drake_flying[0], 0)):
        q = a.to_q(a.robot.neutral())
        q[at : at + 4] = quaternion
        if refused:
            with pytest.raises(DoubtfulQuaternion, match=r"upright.*\(w, x, y, z\).*check=False"):
                a.from_q(q)
        else:
            a.from_q(q)
    a, model = zoo
    for convert, q in ((a.to_q, a.robot.neutral()), (a.from_q, pin.neutral(model))):
        q[3:7] = quaternion[::-1]
        if refused:
            with pytest.raises(DoubtfulQuaternion, match=r"\(x, y, z, w\)"):
                convert(q)
        else:
            convert(q)


def test_quaternions_of_a_wrong_length(flying):
    a, m = flying
    q = a.to_q(a.robot.neutral())
    q[3:7] = [0.5, 0.0, 0.0, 0.0]
    with pytest.raises(DoubtfulQuaternion, match=r"joint 'root' .* length is 0.5"):
        a.from_q(q)
    trusting = adapt.mujoco(a.robot, m, check=False)
    assert trusting.from_q(q)[6] == 0.5
    q[3:7] = 0.0
    with pytest.raises(DoubtfulQuaternion, match="length is 0"):
        a.from_q(q)
    q[3:7] = np.nan
    assert np.isnan(a.from_q(q)[3:7]).all()


def test_a_turn_in_a_trajectory_is_no_wrong_order(flying):
    """Of a batch most states must look doubtful: passing through half a turn is no fault."""
    a, _ = flying
    q = np.tile(a.to_q(a.robot.neutral()), (50, 1))
    half = np.linspace(0.0, np.pi, 50)
    q[:, 3], q[:, 6] = np.cos(half), np.sin(half)
    a.from_q(q)
    q[:, 3:7] = [0.0, 0.0, 0.0, 1.0]
    with pytest.raises(DoubtfulQuaternion):
        a.from_q(q)


def test_batches_of_any_shape(flying):
    a, _ = flying
    q, v, acc, tau = states(a.robot, 6)
    q, v, acc, tau = (x.reshape(2, 3, -1) for x in (q, v, acc, tau))
    assert_round_trips(a, q, v, acc, tau)
    assert a.to_v(q[0, 0], v).shape == (2, 3, a.layout.nv)
    push = Wrench("thumb", "world", np.ones((3, 6)))
    assert a.to_wrenches(q, push).shape == (2, 3, 5, 6)
    single = a.to_wrenches(q[1, 2], Wrench("thumb", "world", np.ones(6)))
    assert_agree("wrench", a.to_wrenches(q, push)[1, 2], single, 1e-14)
    assert a.to_q(np.zeros((0, a.robot.nq))).shape == (0, a.layout.neutral.size)


def test_wrong_input(flying, tmp_path):
    a, m = flying
    q = a.robot.neutral()
    with pytest.raises(ShapeMismatch, match=r"q must have shape \(..., 14\), got \(3,\)"):
        a.to_q(np.zeros(3))
    with pytest.raises(ShapeMismatch, match="v must have shape"):
        a.from_v(q, np.zeros(3))
    with pytest.raises(ShapeMismatch, match="forces"):
        a.from_wrenches(q, np.zeros((2, 6)))
    with pytest.raises(ShapeMismatch, match="M"):
        a.from_mass_matrix(q, np.zeros((2, 12)))
    with pytest.raises(ShapeMismatch, match="J"):
        a.from_jacobian(q, np.zeros(12))
    with pytest.raises(InvalidArgument, match="array of numbers"):
        a.to_q(["a"] * 14)
    with pytest.raises(InvalidArgument, match="needs an MjModel"):
        adapt.mujoco(a.robot, "flying.xml")
    with pytest.raises(InvalidArgument, match="needs a Robot"):
        adapt.mujoco("flying.xml", m)
    with pytest.raises(InvalidArgument, match=r"needs a pinocchio.Model"):
        adapt.pinocchio(a.robot, m)
    with pytest.raises(InvalidArgument, match="MultibodyPlant"):
        adapt.drake(a.robot, m)
    with pytest.raises(InvalidArgument, match="finalised"):
        adapt.drake(a.robot, MultibodyPlant(0.0))
    with pytest.raises(InvalidArgument, match="between joints of one body"):
        a.to_wrenches(q, Wrench("hand/slide", "world", np.zeros(6)))


def test_documented_conversion_of_twists(drake_flying, flying):
    x = np.arange(6.0)
    assert drake_flying[0].to_spatial(x).tolist() == [3, 4, 5, 0, 1, 2]
    assert drake_flying[0].from_spatial(drake_flying[0].to_spatial(x)).tolist() == x.tolist()
    assert flying[0].to_spatial(x).tolist() == x.tolist()


def test_a_plant_is_a_robot(drake_flying, gripper):
    """A robot read from a plant computes what the plant computes."""
    for plant in (drake_flying[1], plant_of(COUPLED, "urdf", weld="base")):
        robot = loaded(plant)
        a, context = adapt.drake(robot, plant), plant.CreateDefaultContext()
        for q, v, _, _ in zip(*states(robot), strict=True):
            plant.SetPositions(context, a.to_q(q))
            plant.SetVelocities(context, a.to_v(q, v))
            M, g = plant.CalcMassMatrix(context), -plant.CalcGravityGeneralizedForces(context)
            assert_agree("M", robot.mass_matrix(q), a.from_mass_matrix(q, M), TOLERANCE)
            h = plant.CalcBiasTerm(context) + g
            assert_agree("h", robot.bias(q, v), a.from_bias(q, v, h, M), TOLERANCE)
            forces = MultibodyForces(plant)
            plant.CalcForceElementsContribution(context, forces)
            lost = a.from_tau(q, forces.generalized_forces())
            assert_agree("losses", -robot.friction(q, v), lost, TOLERANCE)


REFERENCED = """
<mujoco model="referenced">
  <compiler angle="radian"/>
  <worldbody>
    <body name="upper" pos="0.1 0.2 0.3" quat="0.9 0.1 0.3 0.2">
      <joint name="hinge" axis="0 0.6 0.8" ref="0.7" range="-3 3"/>
      <inertial mass="2" pos="0.1 0.1 0" diaginertia="0.01 0.02 0.02"/>
      <body name="lower" pos="0 0.3 0.1" quat="0.7 0.1 0.3 0.5">
        <joint name="rail" type="slide" axis="1 0 0" ref="-0.2" range="-1 1"/>
        <inertial mass="1" pos="0.1 0.2 0" diaginertia="0.01 0.01 0.01"/>
        <body name="tip" pos="0.2 0 0">
          <joint name="roll" axis="1 0 0" range="-3 3"/>
          <inertial mass="1" pos="0 0.1 0.2" diaginertia="0.01 0.01 0.01"/>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def test_reference_positions(tmp_path):
    """qpos is the q of MuJoCo, Drake and Pinocchio, however they keep ref; zero in a URDF."""
    file = tmp_path / "referenced.xml"
    file.write_text(REFERENCED)
    robot = loaded(file)
    plant = MultibodyPlant(0.0)
    Parser(plant).AddModels(str(file))
    plant.Finalize()
    model = pin.buildModelFromMJCF(str(file))
    there = adapt.mujoco(robot, mj.MjModel.from_xml_path(str(file)))
    for a in (there, adapt.drake(robot, plant), adapt.pinocchio(robot, model)):
        q, v, acc, tau = states(robot)
        assert_round_trips(a, q, v, acc, tau)
        assert_agree("q", a.to_q(q), q, 1e-13)
    M = pin.crba(model, model.createData(), a.to_q(q[0]))
    assert_agree("M", a.from_mass_matrix(q[0], M), robot.mass_matrix(q[0]), TOLERANCE)
    # the same robot without reference positions, as another format would have it
    plain = tmp_path / "plain.xml"
    plain.write_text(REFERENCED.replace('ref="0.7"', "").replace('ref="-0.2"', ""))
    model = pin.buildModelFromMJCF(str(plain))
    a = adapt.pinocchio(robot, model)
    assert_agree("q", a.to_q(q), q - [0.7, -0.2, 0.0], 1e-13)
    M = pin.crba(model, model.createData(), a.to_q(q[0]))
    assert_agree("M", a.from_mass_matrix(q[0], M), robot.mass_matrix(q[0]), TOLERANCE)


def test_a_joint_type_without_a_form_is_refused():
    robot = cylindrical_robot()
    with pytest.raises(Unsupported, match=r"'cylindrical'.*planar, ball, free"):
        adapt.twin(robot, robot)
