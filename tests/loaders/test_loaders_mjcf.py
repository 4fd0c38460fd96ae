"""MJCF: the model has the dynamics that MuJoCo itself computes from the same file."""

from __future__ import annotations

import math
from pathlib import Path

import mujoco
import numpy as np
import pytest
from mujoco_oracle import full_mass_matrix

import qddot
from qddot.errors import DescriptionError

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "awkward_models"
INERTIAL = (
    '<inertial pos="0.05 0.02 -0.1" quat="0.9 0.1 0.3 0.2" mass="1.3" '
    'diaginertia="0.03 0.02 0.015"/>'
)
FULL = '<inertial pos="0.1 0 0" mass="0.8" fullinertia="0.03 0.025 0.02 0.002 -0.001 0.003"/>'
WIDTH = {0: 7, 1: 4, 2: 1, 3: 1}
DOFS = {0: 6, 1: 3, 2: 1, 3: 1}


def mjcf(body: str, rest: str = "", head: str = "") -> str:
    return f'<mujoco model="m">{head}<worldbody>{body}</worldbody>{rest}</mujoco>'


@pytest.fixture
def load(tmp_path):
    """Loads a text as a file."""

    def from_text(text: str, **options):
        file = tmp_path / "robot.xml"
        file.write_text(text)
        return qddot.load(file, **options)

    return from_text


def compiled(text: str) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(text)


def joint_name(m: mujoco.MjModel, j: int) -> str:
    return m.joint(j).name or f"joint{j}"


def state(robot: qddot.Robot, m: mujoco.MjModel, q: np.ndarray, v: np.ndarray):
    """MuJoCo's data at our state, and the matrix T with qvel = T v."""
    d = mujoco.MjData(m)
    T = np.zeros((m.nv, robot.nv))
    bodies = {b.joint.name: b for b in robot.model.independent}
    for j in range(m.njnt):
        body = bodies[joint_name(m, j)]
        kind, x = int(m.jnt_type[j]), q[body.iq]
        if kind < 2:  # the quaternion comes last here, with its real part last
            x = np.concatenate([x[:-4], x[-1:], x[-4:-1]])
        d.qpos[m.jnt_qposadr[j] : m.jnt_qposadr[j] + WIDTH[kind]] = x
        dof = int(m.jnt_dofadr[j])
        T[dof : dof + DOFS[kind], body.iv] = np.eye(DOFS[kind])
        if kind == 0:
            R = np.zeros(9)
            mujoco.mju_quat2Mat(R, x[3:7])
            T[dof : dof + 3, body.iv.start : body.iv.start + 3] = R.reshape(3, 3)
    d.qvel[:] = T @ v
    mujoco.mj_forward(m, d)
    return d, T


def close(ours: np.ndarray, theirs: np.ndarray) -> None:
    scale = max(np.abs(theirs).max(initial=0.0), 1e-3)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 * scale)


def assert_agrees(robot: qddot.Robot, m: mujoco.MjModel, passive: bool = True) -> None:
    """M, bias, poses and passive forces of both, at random states."""
    rng = np.random.default_rng(4)
    for _ in range(5):
        q, v = robot.random(rng), rng.normal(size=robot.nv)
        d, T = state(robot, m, q, v)
        close(robot.mass_matrix(q), T.T @ full_mass_matrix(m, d) @ T)
        # the frame of a free joint turns, so qvel = T v has the rate T' v = (w x v, 0)
        rate = np.zeros(m.nv)
        for body in robot.model.independent:
            if body.joint.kind.name == "free":
                vb, wb = v[body.iv][:3], v[body.iv][3:]
                moved = np.zeros(robot.nv)
                moved[body.iv.start : body.iv.start + 3] = np.cross(wb, vb)
                rate += T @ moved
        close(robot.bias(q, v), T.T @ (d.qfrc_bias + full_mass_matrix(m, d) @ rate))
        for i in range(1, m.nbody):
            X = robot.frame_pose(q, m.body(i).name or f"body{i}")
            np.testing.assert_allclose(X[:3, 3], d.xpos[i], atol=1e-12)
            np.testing.assert_allclose(X[:3, :3].ravel(), d.xmat[i], atol=1e-12)
        if passive:
            close(robot.friction(q, v), -T.T @ d.qfrc_passive)


HINGE = f'<body name="a"><joint name="j" axis="0 1 0"/>{INERTIAL}</body>'

MODELS = {
    "hinge": mjcf(HINGE),
    "ref": mjcf(
        f'<body name="a" pos="0 0 1"><joint name="j" axis="0 1 1" ref="40"/>{INERTIAL}'
        f'<body name="b" pos="0.3 0 0"><joint name="k" type="slide" ref="0.2"/>{FULL}</body></body>'
    ),
    "radians": mjcf(
        f'<body name="a"><joint name="j" axis="0 1 1" ref="0.4"/>{INERTIAL}</body>',
        head='<compiler angle="radian"/>',
    ),
    "defaults": mjcf(
        f'<body name="a" childclass="stiff"><joint name="j"/>{INERTIAL}'
        f'<body name="b" pos="0 0 .3"><joint name="k" class="soft" axis="0 1 0"/>{FULL}</body>'
        "</body>",
        head='<default><joint axis="1 0 0"/><default class="stiff"><joint damping="3" '
        'armature="0.5"/>'
        '<default class="soft"><joint damping="0.1"/></default></default></default>',
    ),
    "fullinertia": mjcf(f'<body name="a"><joint name="j" axis="1 1 0"/>{FULL}</body>'),
    "several joints": mjcf(
        f'<body name="a" pos="0.1 0.2 0.3" quat="0.8 0.2 0.4 0.4">'
        f'<joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>'
        '<joint name="t" axis="0 0 1" pos="0.1 0.2 0"/><joint name="u" axis="0 1 0" pos="0 '
        '0.3 0.1"/>'
        f'{INERTIAL}<body name="b" pos="0.3 0 0"><joint name="k" axis="0 1 0"/>{FULL}</body></body>'
    ),
    "joint away": mjcf(
        f'<body name="a" pos="0.1 0 0"><joint name="j" axis="0 1 0" pos="0.1 0.2 0.3"/>{INERTIAL}'
        '<body name="b" pos="0.3 0 0"><joint name="k" type="ball" pos="-.1 .2 0"/>'
        f"{FULL}</body></body>"
    ),
    "ball": mjcf(
        f'<body name="a" pos="0 0 1"><joint name="j" type="ball" armature="0.2" damping="0.3"/>'
        f'{INERTIAL}<body name="b" pos="0.3 0 0"><joint name="k" axis="0 1 0"/>{FULL}</body></body>'
    ),
    "free": mjcf(
        f'<body name="a" pos="0 0 1"><freejoint name="root"/>{INERTIAL}'
        f'<body name="b" pos="0.3 0 0"><joint name="k" axis="0 1 0" damping="1"/>{FULL}</body>'
        "</body>"
    ),
    "two free bodies": mjcf(
        f'<body name="a"><freejoint name="r1"/>{INERTIAL}</body>'
        f'<body name="b" pos="1 0 0"><joint type="free" name="r2" damping="0.4"/>{FULL}</body>'
    ),
    "springs": mjcf(
        '<body name="a"><joint name="j" axis="0 1 0" stiffness="7" springref="30" ref="10" '
        'damping="2"/>'
        f'{INERTIAL}<body name="b" pos="0.3 0 0">'
        f'<joint name="s" type="slide" stiffness="20" springref="0.1" ref="0.3"/>{FULL}'
        '<body name="c" pos="0.1 0 0"><joint name="k" type="ball" stiffness="3" '
        f'damping="0.2"/>{FULL}'
        f"</body></body></body>"
    ),
    "no gravity": mjcf(HINGE, head='<option><flag gravity="disable"/></option>'),
    "sideways gravity": mjcf(HINGE, head='<option gravity="1 2 3"/>'),
    "no springs": mjcf(
        '<body name="a"><joint name="j" stiffness="7" springref="30" damping="2"/>'
        f"{INERTIAL}</body>",
        head='<option><flag spring="disable"/></option>',
    ),
    "no dampers": mjcf(
        '<body name="a"><joint name="j" stiffness="7" springref="30" damping="2"/>'
        f"{INERTIAL}</body>",
        head='<option><flag damper="disable"/></option>',
    ),
    "geoms": mjcf(
        '<geom type="plane" size="1 1 1"/><body name="a"><joint name="j" axis="0 1 0"/>'
        '<geom type="capsule" size="0.05" fromto="0 0 0 0.3 0.1 0.2"/>'
        '<body name="b" pos="0.3 0 0"><joint name="k"/><geom type="box" size=".1 .2 .3" mass="2"/>'
        "</body></body>"
    ),
    "fixed bodies": mjcf(
        f'<body name="a" pos="0 0 1"><joint name="j" axis="0 1 0"/>{INERTIAL}'
        f'<body name="b" pos="0.3 0 0" euler="30 20 10">{FULL}'
        f'<body name="c" pos="0.1 0.1 0"><joint name="k" axis="1 0 0"/>{INERTIAL}</body></body>'
        "</body>"
    ),
    "unnamed": mjcf(
        f"<body><joint/>{INERTIAL}<body pos='0.3 0 0'><joint axis='0 1 0'/>{FULL}</body></body>"
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_agrees_with_mujoco(load, name):
    m = compiled(MODELS[name])
    assert_agrees(load(MODELS[name]), m)


def test_motor_armature_and_damping_through_the_gear(load):
    text = mjcf(
        HINGE, '<actuator><motor joint="j" gear="3" armature="0.5" damping="0.2"/></actuator>'
    )
    try:
        m = compiled(text)
    except ValueError as error:
        pytest.skip(f"this MuJoCo has no armature of actuators: {error}")
    assert_agrees(load(text), m)


def test_composite_file_and_cassie():
    file = SHARED / "pinocchio" / "test_composite.xml"
    if not file.exists():
        pytest.skip(f"{file} is not here")
    assert_agrees(qddot.load(file), mujoco.MjModel.from_xml_path(str(file)))


def test_cassie_loads_without_its_meshes():
    file = SHARED / "pinocchio" / "closed_chain.xml"
    if not file.exists():
        pytest.skip(f"{file} is not here")
    robot = qddot.load(file)
    spec = mujoco.MjSpec.from_file(str(file))
    kinds = [j.type for j in spec.joints]
    expected = sum({0: 6, 1: 3}.get(int(k), 1) for k in kinds)
    assert robot.nv == expected == 32
    assert {x.kind for x in robot.model.loops} == {"spherical"}
    assert len(robot.model.loops) == len([e for e in spec.equalities if e.active]) == 4
    for body in spec.bodies:
        for geom in body.geoms:
            spec.delete(geom)
    for kind in (spec.meshes, spec.textures, spec.materials, spec.hfields):
        for asset in list(kind):
            spec.delete(asset)
    assert_agrees(robot, spec.compile(), passive=False)


def test_unnamed_things_get_names_that_nothing_has(load):
    robot = load(
        mjcf(
            f'<body><joint/>{INERTIAL}<site/><body name="body1" pos=".1 0 0"><joint '
            f'name="joint0"/>{FULL}'
            '<site name="site0"/></body></body>'
        )
    )
    assert robot.joint_names == ("joint0_", "joint0")
    assert set(robot.frame_names) == {"body1_", "body1", "site0_", "site0"}


def test_sites_are_frames(load):
    text = mjcf(
        f'<body name="a" pos="0 0 1"><joint name="j" axis="0 1 0"/>{INERTIAL}'
        '<site name="tip" pos="0.1 0.2 0.3" euler="10 20 30"/><site name="a"/></body>'
    )
    robot, m = load(text), compiled(text)
    d, _ = state(robot, m, np.array([0.6]), np.zeros(1))
    X = robot.frame_pose([0.6], "tip")
    np.testing.assert_allclose(X[:3, 3], d.site("tip").xpos, atol=1e-14)
    np.testing.assert_allclose(X[:3, :3].ravel(), d.site("tip").xmat, atol=1e-14)
    assert "a (site)" in robot.frame_names


def test_include(tmp_path):
    (tmp_path / "part.xml").write_text(f"<mujocoinclude>{HINGE}</mujocoinclude>")
    (tmp_path / "main.xml").write_text(mjcf('<include file="part.xml"/>'))
    assert_agrees(qddot.load(tmp_path / "main.xml"), compiled(MODELS["hinge"]))


def test_losses_and_limits(load):
    robot = load(
        mjcf(
            '<body name="a"><joint name="j" frictionloss="0.3" damping="2" armature="0.1" '
            'range="-90 45"'
            f' actuatorfrcrange="-5 7"/>{INERTIAL}</body>'
        )
    )
    joint = robot.model.bodies[0].joint
    assert (joint.limits.lower, joint.limits.upper) == pytest.approx((-math.pi / 2, math.pi / 4))
    assert joint.limits.effort == 7.0
    np.testing.assert_allclose(robot.friction([0.0], [-1.5]), [-2 * 1.5 - 0.3])


def test_findings(load):
    robot = load(
        mjcf(
            '<body name="a" gravcomp="0.5"><joint name="j" type="free" armature="0.1" '
            'stiffness="3"/>'
            f'{INERTIAL}</body><body name="b"><joint name="k"/><geom size="0.1"/></body>'
            '<body name="held"><geom size="0.1"/></body>'
        )
    )
    found = {(f.severity, f.kind, f.subject, f.message) for f in robot.health}
    assert {
        ("warning", "ignored", "body 'a'", "gravcomp 0.5 is ignored"),
        ("warning", "ignored", "joint 'j'", "armature 0.1 on a free joint is ignored"),
        ("warning", "ignored", "joint 'j'", "stiffness 3 on a free joint is ignored"),
        ("info", "invented", "body 'b'", "has no <inertial>: inertia computed from its geoms"),
    } <= found
    assert not any("world" in subject for _, _, subject, _ in found)


def test_inertiafromgeom_overrules_the_inertial(load):
    text = mjcf(
        '<body name="a"><joint name="j" axis="0 1 0"/>'
        f'{INERTIAL}<geom type="box" size=".1 .2 .3" pos=".2 0 0"/></body>',
        head='<compiler inertiafromgeom="true"/>',
    )
    robot = load(text)
    assert_agrees(robot, compiled(text))
    assert [f.kind for f in robot.health if f.subject == "body 'a'"] == ["invented"]


TWO = (
    f'<body name="a"><joint name="j" axis="0 1 0" ref="20"/>{INERTIAL}'
    f'<body name="b" pos="0.3 0 0"><joint name="k" axis="0 1 0" ref="-10"/>{FULL}'
    f'<body name="c" pos="0.3 0 0"><joint name="l" axis="0 0 1"/>{FULL}</body></body></body>'
)


def test_joint_equality_is_an_exact_coupling(load):
    text = mjcf(TWO, '<equality><joint joint1="k" joint2="j" polycoef="0.1 -2 0 0 0"/></equality>')
    exact, free = load(text), load(text, couplings="free")
    assert (exact.joint_names, free.joint_names) == (("j", "l"), ("j", "k", "l"))
    # k - k0 = 0.1 - 2 (j - j0), with the references k0 = -10 and j0 = 20 degrees
    j0, k0 = math.radians(20), math.radians(-10)
    G, x0 = np.array([[1, 0], [-2, 0], [0, 1]]), np.array([0, k0 + 0.1 + 2 * j0, 0])
    m = compiled(text)
    rng = np.random.default_rng(0)
    for _ in range(3):
        q = rng.normal(size=2)
        x = G @ q + x0
        d = mujoco.MjData(m)
        d.qpos[:] = x
        mujoco.mj_forward(m, d)
        assert abs(d.efc_pos[0]) < 1e-12  # MuJoCo agrees that the equality holds
        np.testing.assert_allclose(exact.mass_matrix(q), G.T @ free.mass_matrix(x) @ G, rtol=1e-12)
        np.testing.assert_allclose(
            exact.mass_matrix(q), G.T @ full_mass_matrix(m, d) @ G, rtol=1e-9
        )
        np.testing.assert_allclose(exact.gravity(q), G.T @ free.gravity(x), rtol=1e-12)


def test_a_joint_equality_without_a_leader_holds_the_joint(load):
    held = '<joint joint1="k" polycoef="0.3 0 0 0 0"/>'
    text = mjcf(TWO, f"<equality>{held}</equality>")
    robot, m = load(text), compiled(mjcf(TWO))
    assert robot.joint_names == ("j", "l")
    d = mujoco.MjData(m)
    d.qpos[:] = [0.5, 0.3 + math.radians(-10), 0.2]
    mujoco.mj_forward(m, d)
    expected = full_mass_matrix(m, d)[np.ix_([0, 2], [0, 2])]
    np.testing.assert_allclose(robot.mass_matrix([0.5, 0.2]), expected, rtol=1e-9)
    # the follower of a held joint is held too: l = 2 * 0.3 - 0.1
    follower = '<joint joint1="l" joint2="k" polycoef="-0.1 2 0 0 0"/>'
    chained = load(mjcf(TWO, f"<equality>{follower}{held}</equality>"))
    assert chained.joint_names == ("j",)
    d.qpos[2] = 0.5
    mujoco.mj_forward(m, d)
    assert chained.mass_matrix([0.5])[0, 0] == pytest.approx(full_mass_matrix(m, d)[0, 0])


def test_a_nonlinear_joint_equality_is_a_constraint(load):
    text = mjcf(
        TWO, '<equality><joint name="cam" joint1="k" joint2="j" polycoef="0 1 0.5 0 0"/></equality>'
    )
    robot = load(text)
    assert robot.joint_names == ("j", "k", "l")
    (coupling,) = robot.model.polynomial_couplings
    assert (coupling.name, coupling.follower, coupling.leader) == ("cam", "k", "j")
    assert coupling.coefficients == (0.0, 1.0, 0.5, 0.0, 0.0)
    (finding,) = [f for f in robot.health if f.kind == "coupling"]
    assert (finding.severity, finding.subject) == ("warning", "joint 'k'")
    assert finding.message == (
        "joint equality 'cam' is not linear: kept as a constraint, not part of the dynamics"
    )


@pytest.mark.parametrize(
    "second",
    [
        '<joint name="x" joint1="j" joint2="k"/>',
        '<joint name="x" joint1="k" joint2="l"/>',
        '<joint name="x" joint1="k"/>',
    ],
)
def test_joint_equalities_that_say_too_much_are_constraints(load, second):
    first = '<joint joint1="k" joint2="j" polycoef="0 2 0 0 0"/>'
    robot = load(mjcf(TWO, f"<equality>{first}{second}</equality>"))
    assert robot.joint_names == ("j", "l")
    assert [c.name for c in robot.model.polynomial_couplings] == ["x"]
    assert "None" not in {c.leader for c in robot.model.polynomial_couplings}


def test_inactive_and_disabled_equalities_do_not_hold(load):
    joint = '<joint joint1="k" joint2="j" active="{}"/>'
    connect = '<connect body1="a" body2="c" anchor="0 0 0" active="{}"/>'
    both = f"<equality>{joint}{connect}</equality>"
    off = load(mjcf(TWO, both.replace("{}", "false")))
    assert (off.nv, off.model.loops) == (3, ())
    disabled = load(
        mjcf(TWO, both.replace("{}", "true"), '<option><flag equality="disable"/></option>')
    )
    assert (disabled.nv, disabled.model.loops) == (3, ())
    on = load(mjcf(TWO, both.replace("{}", "true")))
    assert (on.nv, len(on.model.loops)) == (2, 1)


LOOPS = {
    "connect": '<connect name="e" body1="a" body2="c" anchor="0.1 0.2 0.3"/>',
    "connect world": '<connect name="e" body1="c" anchor="0.1 0.2 0.3"/>',
    "connect sites": '<connect name="e" site1="s1" site2="s2"/>',
    "weld": '<weld name="e" body1="a" body2="c"/>',
    "weld anchor": '<weld name="e" body1="a" body2="c" anchor="0.1 0.2 0.3"/>',
    "weld pose": '<weld name="e" body1="a" body2="c" anchor=".1 .2 .3" relpose=".4 .5 .6 .5 .5 '
    '.5 .5"/>',
    "weld sites": '<weld name="e" site1="s1" site2="s2"/>',
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_have_the_residual_of_mujoco(load, name):
    body = TWO.replace(
        "</body></body></body>", '<site name="s2" pos="0 .1 0" euler="3 4 5"/></body></body></body>'
    )
    body = '<site name="s1" pos="0.4 0 0" euler="10 20 30"/>' + body
    text = mjcf(body, f"<equality>{LOOPS[name]}</equality>")
    robot, m = load(text), compiled(text)
    (loop,) = robot.model.loops
    assert (loop.name, loop.kind) == ("e", "weld" if "weld" in name else "spherical")
    rng = np.random.default_rng(2)
    for _ in range(3):
        q = 0.3 * rng.normal(size=3)
        d, _ = state(robot, m, q, np.zeros(3))
        X1, X2 = (robot.frame_pose(q, f) for f in (loop.frame1, loop.frame2))
        np.testing.assert_allclose(X1[:3, 3] - X2[:3, 3], d.efc_pos[:3], atol=1e-12)
        if "weld" in name:
            turn = X1[:3, :3].T @ X2[:3, :3]
            sine = np.linalg.norm(d.efc_pos[3:6])  # of half the angle between the two frames
            assert math.sqrt(max(0.0, (3 - np.trace(turn)) / 4)) == pytest.approx(sine, abs=1e-9)


def test_keyframes(load):
    text = mjcf(
        f'<body name="a"><freejoint name="root"/>{INERTIAL}<body name="b"><joint name="k"/>'
        f"{FULL}</body></body>",
        '<keyframe><key name="home" qpos="1 2 3 0.5 0.5 -0.5 0.5 0.7"/></keyframe>',
    )
    robot = load(text)
    assert robot.model.configurations == {
        "qpos0": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0),
        "home": (1.0, 2.0, 3.0, 0.5, -0.5, 0.5, 0.5, 0.7),
    }
    assert load(text, base="fixed").model.configurations == {"qpos0": (0.0,), "home": (0.7,)}


def test_base_fixed_stands_where_the_body_stands(load):
    text = mjcf(
        f'<body name="a" pos="1 2 3" quat="0 1 0 0"><freejoint/>{INERTIAL}'
        f'<body name="b"><joint name="k" axis="0 1 0"/>{FULL}</body></body>'
    )
    held = load(text, base="fixed")
    assert held.joint_names == ("k",)
    expected = np.diag([1.0, -1.0, -1.0, 1.0])
    expected[:3, 3] = 1, 2, 3
    np.testing.assert_allclose(held.frame_pose([0.0], "a"), expected, atol=1e-15)


ASSETS = (
    '<asset><mesh name="m" file="missing.stl"/><texture name="t" type="2d" file="missing.png"/>'
    '<material name="mt" texture="t"/><hfield name="h" file="missing.png" size="1 1 1 1"/></asset>'
)


def test_missing_files_do_not_matter_where_inertias_are_explicit(load):
    looks = '<geom name="g" type="mesh" mesh="m" material="mt"/>'
    text = mjcf(
        '<geom type="hfield" hfield="h"/><geom name="w" type="mesh" mesh="m"/>'
        f'<body name="a"><joint name="j" axis="0 1 0"/>{INERTIAL}{looks}'
        '<geom type="capsule" mesh="m"/><site name="s" material="mt"/></body>',
        '<contact><pair geom1="g" geom2="w"/></contact>'
        '<sensor><distance geom1="g" geom2="w" cutoff="1"/></sensor>',
        ASSETS,
    )
    assert_agrees(load(text), compiled(MODELS["hinge"]))


def test_a_missing_file_that_weighs_is_refused(load, tmp_path):
    text = mjcf('<body name="a"><joint/><geom type="mesh" mesh="m"/></body>', head=ASSETS)
    with pytest.raises(DescriptionError, match=r"missing\.stl") as caught:
        load(text)
    assert str(tmp_path / "robot.xml") in str(caught.value)


def test_a_missing_file_of_a_body_that_stands_still(load):
    text = mjcf(f'<body name="base"><geom type="mesh" mesh="m"/>{HINGE}</body>', head=ASSETS)
    robot = load(text)
    np.testing.assert_allclose(
        robot.mass_matrix([0.3]), load(MODELS["hinge"]).mass_matrix([0.3]), rtol=1e-14
    )
    (finding,) = [f for f in robot.health if f.kind == "unweighed"]
    assert (finding.severity, finding.subject) == ("warning", "body 'base'")
    with pytest.raises(DescriptionError, match=r"body 'base'.*not known"):
        load(text, base="free")


def test_mjmodel_and_mjspec_are_sources():
    text = MODELS["several joints"]
    m, spec = compiled(text), mujoco.MjSpec.from_string(text)
    before = spec.to_xml()
    assert_agrees(qddot.load(m), m)
    assert_agrees(qddot.load(spec), m)
    assert spec.to_xml() == before
    assert len(spec.geoms) == 0
    assert spec.compile().nbody == m.nbody


@pytest.mark.parametrize("attribute", ["mass", "pos", "quat", "diaginertia", "axis"])
@pytest.mark.parametrize("value", ["nan", "inf", "abc", ""])
def test_numbers_that_are_not_finite_are_refused(load, attribute, value):
    text = mjcf(HINGE)
    start = text.index(f'{attribute}="') + len(attribute) + 2
    end = text.index('"', start)
    numbers = text[start:end].split()
    with pytest.raises(DescriptionError):
        load(text[:start] + " ".join([value, *numbers[1:]]) + text[end:])


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e300])
def test_compiled_numbers_that_are_not_finite_are_refused(value):
    text = mjcf(
        HINGE.replace("</body>", '<site name="s"/></body>').replace(
            "<joint", '<joint stiffness="1" springref="1"'
        ),
        '<keyframe><key qpos="1"/></keyframe>',
    )
    for field in ("site_pos", "qpos_spring", "key_qpos", "jnt_axis", "body_pos", "qpos0"):
        m = compiled(text)
        getattr(m, field).ravel()[-1] = value
        with pytest.raises(qddot.QddotError):
            qddot.load(m)


def test_a_spec_that_refers_to_nothing_is_refused():
    spec = mujoco.MjSpec.from_string(MODELS["hinge"])
    spec.add_equality(type=mujoco.mjtEq.mjEQ_JOINT, name1="no")
    with pytest.raises(DescriptionError, match="1 of the equalities refer to something that does"):
        qddot.load(spec)


def test_a_spec_with_looks_is_left_as_it_is():
    text = mjcf(
        HINGE.replace("</body>", '<geom size="0.1" name="g"/></body>'),
        '<sensor><jointpos joint="j"/></sensor>',
    )
    spec = mujoco.MjSpec.from_string(text)
    qddot.load(spec)
    m = spec.compile()
    assert (m.ngeom, m.nsensor) == (1, 1)


def test_values_that_differ_within_a_joint_are_reported():
    m = compiled(MODELS["ball"])
    m.dof_damping[1] = 5.0
    (finding,) = [f for f in qddot.load(m).health if f.kind == "ignored"]
    assert finding.message == "damping differs between its freedoms: the first is taken"


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        (mjcf(HINGE.replace('mass="1.3"', 'mass="abc"')), "mass", 2),
        (mjcf(HINGE.replace('mass="1.3"', "")), "mass", 2),
        (mjcf(HINGE.replace("joint ", "jiont ")), "jiont", 2),
        (mjcf(HINGE.replace("<joint", "<joint type='twist'")), "twist", 2),
        (mjcf(HINGE + HINGE), "repeated name", 2),
        (mjcf(HINGE, '<equality><joint joint1="no"/></equality>'), "no", 2),
        (mjcf('<include file="nowhere.xml"/>'), "nowhere.xml", 2),
        (mjcf('<body name="light"><joint/></body>'), "light", 2),
        (mjcf(HINGE.replace('diaginertia="0.03 0.02 0.015"', 'diaginertia="1 1 5"')), "inertia", 2),
        ("<mujocoinclude/>", "mujocoinclude", None),
    ],
)
def test_what_mujoco_refuses_is_one_error_with_file_and_line(load, tmp_path, text, says, line):
    with pytest.raises(DescriptionError) as caught:
        load("<!-- first line -->\n" + text)
    message = str(caught.value)
    assert says in message
    file = tmp_path / "robot.xml"
    assert message.startswith(f"{file}: " if line is None else f"{file}:{line}: ")


def test_a_file_called_mjcf_is_read_with_what_it_includes(tmp_path):
    part = '<mujoco><worldbody><body name="{0}"><joint name="{0}_joint"/>{1}</body></worldbody>{2}'
    ball = '<geom type="sphere" size="0.1"/>'
    (tmp_path / "arm.mjcf").write_text(
        part.format("upper", ball, '<include file="lower.xml"/></mujoco>')
    )
    (tmp_path / "lower.xml").write_text(part.format("lower", ball, "</mujoco>"))
    robot = qddot.load(tmp_path / "arm.mjcf")
    assert set(robot.joint_names) == {"upper_joint", "lower_joint"}
    masses = np.asarray(robot.inertial_parameters)[..., 0]
    np.testing.assert_allclose(masses, 1000 * 4 / 3 * np.pi * 0.1**3)
