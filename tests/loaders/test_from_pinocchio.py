"""Models handed over from Pinocchio, compared with Pinocchio itself joint by joint."""

from __future__ import annotations

import warnings

import numpy as np
import pinocchio as pin
import pytest
from agreement import assert_agree, example_urdfs

import qddot
from qddot.errors import InvalidModel
from qddot.loaders.named_robots import named_files

TOLERANCE = 1e-10
EMPTY = {"ur3.urdf"}
PARTS = {
    "SphericalZYX": ["z", "y", "x"],
    "Translation": ["x", "y", "z"],
    "Universal": ["1", "2"],
}
AXIS = np.array([0.6, 0.0, 0.8])
FRAMES = (pin.FrameType.BODY, pin.FrameType.OP_FRAME, pin.FrameType.SENSOR)


def load(model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return qddot.load(model, **options)


def coordinates(kind, x):
    """Coordinates of a joint of ours as Pinocchio writes them."""
    if "Unbounded" in kind or kind.startswith("RUB"):
        return [np.cos(x[0]), np.sin(x[0])]
    if kind == "Planar":
        return [x[0], x[1], np.cos(x[2]), np.sin(x[2])]
    return list(x)


def places(joint, name):
    """Every simple part of a Pinocchio joint: our name, its kind, where its q and v begin."""
    kind = joint.shortname().removeprefix("JointModel")
    if kind == "Composite":
        for k, part in enumerate(joint.extract().joints, 1):
            yield from places(part, f"{name}.{k}")
    elif kind in PARTS:
        for k, suffix in enumerate(PARTS[kind]):
            yield f"{name}.{suffix}", "", joint.idx_q + k, joint.idx_v + k
    elif kind != "Mimic":
        yield name, kind, joint.idx_q, joint.idx_v


def compare(m, r, frames=True):
    """M, nle, gravity and the poses of all frames at two random states."""
    d, rng = m.createData(), np.random.default_rng(0)
    assert r.nv == m.nv
    where = {}
    for i in range(1, m.njoints):
        where |= {n: rest for n, *rest in places(m.joints[i], m.names[i])}
    assert set(where) == set(r.joint_names)
    for _ in range(2):
        q, v = r.random(rng), rng.normal(size=r.nv)
        qp, vp, order = pin.neutral(m), np.zeros(m.nv), np.zeros(m.nv, int)
        for body in r.model.independent:
            kind, iq, iv = where[body.joint.name]
            x = coordinates(kind, q[body.iq])
            qp[iq : iq + len(x)] = x
            order[body.iv] = np.arange(iv, iv + body.joint.kind.nv)
        vp[order] = v
        M = pin.crba(m, d, qp)
        M = (np.triu(M) + np.triu(M, 1).T)[np.ix_(order, order)]
        assert_agree("M", r.mass_matrix(q), M, TOLERANCE)
        assert_agree("h", r.bias(q, v), pin.nonLinearEffects(m, d, qp, vp)[order], TOLERANCE)
        assert_agree("g", r.gravity(q), pin.nonLinearEffects(m, d, qp, 0 * vp)[order], TOLERANCE)
        if not frames:
            continue
        pin.framesForwardKinematics(m, d, qp)
        poses = dict(zip(r.frame_names, r.frame_poses(q), strict=True))
        for frame, X in zip(m.frames, d.oMf, strict=True):
            if frame.type in FRAMES and frame.name in poses:
                assert_agree(f"pose of {frame.name}", poses[frame.name], X.homogeneous, TOLERANCE)
        for i in range(1, m.njoints):
            (name,) = [b.name for b in r.model.bodies if is_body_of(m, i, b)][-1:]
            assert_agree(f"pose of {name}", poses[name], d.oMi[i].homogeneous, TOLERANCE)


def is_body_of(m, i, body):
    """Whether a body is the one that joint i of Pinocchio carries, or on the way to it."""
    return body.joint.name == m.names[i] or any(
        body.joint.name == part for part, *_ in places(m.joints[i], m.names[i])
    )


FILES = [f for f in example_urdfs() if f.name not in EMPTY]


@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_example_robots(file, free):
    m = pin.buildModelFromUrdf(str(file), *([pin.JointModelFreeFlyer()] if free else []))
    r = load(m)
    compare(m, r)
    ours, theirs = set(r.frame_names), {f.name for f in m.frames if f.type == pin.FrameType.BODY}
    assert theirs <= ours


@pytest.mark.parametrize("name", ["panda", "talos_full_v2", "tiago"])
def test_same_model_as_from_the_urdf(name):
    if name not in named_files():
        pytest.skip("example-robot-data is not installed")
    file = named_files()[name]
    a, b = load(file, couplings="free"), load(pin.buildModelFromUrdf(str(file)))
    assert set(a.joint_names) == set(b.joint_names)
    for joint in a.joint_names:
        x, y = (r.model.body_of_joint(joint).joint for r in (a, b))
        if x.kind.name != "continuous":
            assert x.limits == y.limits
        assert (x.drivetrain.damping, x.drivetrain.friction) == (
            pytest.approx(y.drivetrain.damping), pytest.approx(y.drivetrain.friction),
        )  # fmt: skip
    assert float(a.model.mass) == pytest.approx(float(b.model.mass))


def composite():
    c = pin.JointModelComposite(pin.JointModelRX(), pin.SE3.Random())
    c.addJoint(pin.JointModelPlanar(), pin.SE3.Random())
    c.addJoint(pin.JointModelSphericalZYX(), pin.SE3.Random())
    return c.addJoint(pin.JointModelPrismaticUnaligned(AXIS), pin.SE3.Random())


KINDS = {
    **{f"{k}{a}": getattr(pin, f"JointModel{k}{a}") for k in ("R", "RUB", "P") for a in "XYZ"},
    **{f"H{a}": lambda a=a: getattr(pin, f"JointModelH{a}")(0.3) for a in "XYZ"},
    "RevoluteUnaligned": lambda: pin.JointModelRevoluteUnaligned(AXIS),
    "PrismaticUnaligned": lambda: pin.JointModelPrismaticUnaligned(AXIS),
    "HelicalUnaligned": lambda: pin.JointModelHelicalUnaligned(AXIS, -0.2),
    "Spherical": pin.JointModelSpherical,
    "SphericalZYX": pin.JointModelSphericalZYX,
    "Translation": pin.JointModelTranslation,
    "Planar": pin.JointModelPlanar,
    "FreeFlyer": pin.JointModelFreeFlyer,
    "Universal": lambda: pin.JointModelUniversal(AXIS, np.array([0.0, 1.0, 0.0])),
    "Composite": composite,
}


def grown(kinds, bodies=True):
    """A chain of joints with random placements and inertias."""
    pin.seed(0)
    m, parent = pin.Model(), 0
    m.name = "hand-built"
    for k, kind in enumerate(kinds):
        parent = m.addJoint(parent, KINDS[kind](), pin.SE3.Random(), f"j{k}")
        m.appendBodyToJoint(parent, pin.Inertia.Random(), pin.SE3.Random())
        if bodies:
            m.addBodyFrame(f"b{k}", parent, pin.SE3.Identity(), 0)
            m.addFrame(pin.Frame(f"tool{k}", parent, 0, pin.SE3.Random(), pin.FrameType.OP_FRAME))
    return m


@pytest.mark.parametrize("bodies", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_every_joint(kind, bodies):
    m = grown(["RZ", kind, "RevoluteUnaligned"], bodies)
    r = load(m)
    compare(m, r)
    assert r.name == "hand-built"
    assert {"b1", "tool1"} <= set(r.frame_names) or not bodies


def test_all_joints_in_one_chain():
    m = grown(KINDS)
    m.gravity.linear = np.array([1.0, 2.0, -3.0])
    compare(m, load(m))


def test_unbounded_joint_about_any_axis():
    urdf = (
        "<robot name='r'><link name='base'/><link name='a'><inertial><mass value='1'/>"
        "<origin xyz='0.1 0.2 0.3'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/>"
        "</inertial></link><joint name='j' type='continuous'><parent link='base'/>"
        "<child link='a'/><axis xyz='0.6 0 0.8'/></joint></robot>"
    )
    m = pin.buildModelFromXML(urdf)
    assert m.joints[1].shortname() == "JointModelRevoluteUnboundedUnaligned"
    compare(m, load(m))


@pytest.mark.parametrize("kind", ["revolute", "continuous"])
def test_mimic(kind):
    body = (
        "<inertial><mass value='1'/><origin xyz='0.1 0.2 0.3'/>"
        "<inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/></inertial>"
    )
    limit = "<limit lower='-1' upper='1' velocity='2' effort='3'/>"
    rows = [("j1", kind, "0 1 0", ""), ("j2", kind, "0 0.6 0.8", "-2")]
    if kind == "revolute":  # Pinocchio wants as many coordinates of the follower as of the leader
        rows.append(("j3", "prismatic", "1 0 0", "0.5"))
    text = "<robot name='r'><link name='l0'/>"
    for k, (name, type_, axis, ratio) in enumerate(rows):
        mimic = f"<mimic joint='j1' multiplier='{ratio}' offset='0.3'/>" if ratio else ""
        text += (
            f"<link name='l{k + 1}'>{body}</link><joint name='{name}' type='{type_}'>"
            f"<parent link='l{k}'/><child link='l{k + 1}'/><axis xyz='{axis}'/>"
            f"{limit}{mimic}</joint>"
        )
    m = pin.buildModelFromXML(text + "</robot>", mimic=True)
    assert (m.nv, m.njoints) == (1, len(rows) + 1)
    compare(m, load(m))


def test_drivetrain_limits_and_configurations():
    m = grown(["RZ", "Planar", "RUBX", "SphericalZYX"])
    m.armature = np.array([0.3, 0, 0, 0, 0.2, 0.1, 0.05, 0.02])
    m.damping = np.array([0.1, 0, 0, 0, 0.2, 0, 0, 0])
    m.upperDryFrictionLimit = np.full(8, 0.4)
    m.lowerDryFrictionLimit = np.full(8, -0.4)
    m.lowerPositionLimit[0], m.upperPositionLimit[0] = -1.0, 2.0
    m.rotorInertia[0] = 1.0
    q = pin.neutral(m)
    q[:7] = [0.5, 1.0, 2.0, np.cos(0.3), np.sin(0.3), np.cos(-2.0), np.sin(-2.0)]
    m.referenceConfigurations["home"] = q
    r = load(m)
    compare(m, r)
    j = r.model.body_of_joint("j0").joint
    assert (j.limits.lower, j.limits.upper, j.limits.effort) == (-1.0, 2.0, np.inf)
    assert (j.drivetrain.armature, j.drivetrain.damping, j.drivetrain.friction) == (0.3, 0.1, 0.4)
    assert np.allclose(r.model.configurations["home"], [0.5, 1.0, 2.0, 0.3, -2.0, 0, 0, 0])
    assert any("rotorInertia" in f.message for f in r.model.health)


def test_base_inertia_and_base():
    m = grown(["RZ", "RY"])
    m.inertias[0] = pin.Inertia.Random()
    r = load(m)
    compare(m, r)
    assert float(r.model.base_inertia.mass) == pytest.approx(m.inertias[0].mass)
    file = named_files().get("ur5_robot")
    if file is None:
        pytest.skip("example-robot-data is not installed")
    free = load(pin.buildModelFromUrdf(str(file)), base="free")
    assert free.nv == 12


def test_what_cannot_be_represented():
    m = pin.Model()
    m.addJoint(0, pin.JointModelEllipsoid(0.1, 0.2, 0.3), pin.SE3.Identity(), "egg")
    with pytest.raises(InvalidModel, match="joint 'egg': type Ellipsoid is not one of"):
        load(m)
    m = grown(["Spherical"])
    m.armature = np.array([0.1, 0.2, 0.3])
    with pytest.raises(InvalidModel, match="armature differs between the freedoms"):
        load(m)
