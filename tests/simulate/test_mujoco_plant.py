"""MuJoCo as the plant: the same states, torques and pushes, its contacts in our ledger."""

from __future__ import annotations

import numpy as np
import pytest
from bare_rollouts import rollout

import qddot
from qddot.errors import DescriptionError, InvalidArgument, ShapeMismatch
from qddot.loaders import locate_source
from qddot.robot.robot import Robot, Wrench
from qddot.simulate import MujocoPlant
from qddot.simulate.drivetrain import Latency, Noise

mujoco = pytest.importorskip("mujoco")

BOX = """<mujoco><option timestep="0.002" cone="elliptic"/><worldbody>
  <geom name="floor" type="plane" size="0 0 1" friction="0.6 0.005 0.0001"/>
  <body name="box" pos="0 0 0.1"><freejoint name="base"/>
    <geom name="brick" type="box" size="0.2 0.15 0.1" mass="3" friction="0.6 0.005 0.0001"/>
  </body></worldbody></mujoco>"""


SECOND = """<body name="lid" pos="0.05 0 0.2995" euler="0 0 20"><freejoint name="top"/>
    <geom name="plate" type="box" size="0.2 0.2 0.1" mass="1"/></body>"""


@pytest.fixture
def box(tmp_path):
    file = tmp_path / "box.xml"
    file.write_text(BOX)
    return file


def test_free_motion_is_that_of_a_rollout():
    robot = Robot(qddot.load("quadruped").model)
    plant = MujocoPlant(robot, dt=1e-3)
    rng = np.random.default_rng(1)
    q, v = robot.random(rng), 0.3 * rng.normal(size=robot.nv)
    tau = np.concatenate([np.zeros(6), 0.2 * rng.normal(size=robot.nv - 6)])
    plant.model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    plant.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    there = plant.rollout(q, v, tau, steps=20, every=4)
    here = rollout(
        robot,
        q,
        v,
        tau,
        dt=1e-3,
        steps=20,
        every=4,
        integrator="implicit_damping",
        without=("friction", "limits"),
    )
    np.testing.assert_allclose(there.q, here.q, atol=1e-10)
    np.testing.assert_allclose(there.v, here.v, atol=1e-9)
    np.testing.assert_allclose(there.time, here.time)
    assert there.status.ok


def test_a_box_at_rest_stands_on_its_weight(box):
    plant = MujocoPlant(box)
    for _ in range(500):
        plant.step()
    entries = plant.contacts()
    assert len(entries) >= 3
    weight = 3.0 * 9.81
    total = sum(e.wrench for e in entries)
    np.testing.assert_allclose(total[:3], [0.0, 0.0, weight], atol=1e-3 * weight)
    # about the origin of the box, which is its centre
    np.testing.assert_allclose(total[3:], 0.0, atol=1e-3 * weight)
    for e in entries:
        assert e.names == ("brick", "floor")
        assert (e.body, e.other, e.frame) == ("box", "world", "box")
        assert e.normal_force > 0.0
        # at a corner, as seen from the centre
        assert abs(e.wrench[3]) == pytest.approx(0.15 * e.normal_force, rel=0.05)
        assert abs(e.wrench[4]) == pytest.approx(0.2 * e.normal_force, rel=0.05)
        assert e.cone_ratio < 0.1
        assert -1e-3 < e.gap < 1e-3
        assert e.slip < 1e-3


def test_a_push_slides_the_box_against_friction(box):
    plant = MujocoPlant(box)
    push = [Wrench("box", "local_world_aligned", [25.0, 0, 0, 0, 0, 0])]
    q = np.array([0.0, 0, 0.1, 0, 0, 0, 1])
    for _ in range(100):
        plant.step()
    start, impulse = plant.v[0], 0.0
    for _ in range(100):
        plant.step(pushes=push)
        impulse += 0.002 * (25.0 + sum(e.wrench[0] for e in plant.contacts()))
    # Newton's law, with the forces of the ledger
    assert 3.0 * (plant.v[0] - start) == pytest.approx(impulse, rel=1e-2)
    pressed = [e for e in plant.contacts() if e.normal_force > 0.1]
    normal = sum(e.normal_force for e in pressed)
    assert sum(e.wrench[0] for e in pressed) == pytest.approx(-0.6 * normal, rel=0.02)
    assert max(e.cone_ratio for e in pressed) == pytest.approx(1.0, abs=0.01)
    assert max(e.slip for e in pressed) == pytest.approx(plant.v[0], rel=0.05)
    # a weak push does not
    light = [Wrench("box", "local_world_aligned", [5.0, 0, 0, 0, 0, 0])]
    weak = plant.rollout(q, np.zeros(6), steps=100, pushes=light)
    assert abs(weak.q[-1, 0]) < 2e-3


@pytest.mark.parametrize("native", [False, True])
def test_contacts_are_what_the_engine_says_of_its_points(native, box):
    tilted = BOX.replace("</worldbody>", SECOND + "</worldbody>")
    model = mujoco.MjModel.from_xml_string(tilted)
    plant = MujocoPlant(model, robot=Robot(qddot.load(model).model, native=native))
    rng = np.random.default_rng(4)
    q = plant.q
    plant.reset(q, 0.3 * rng.normal(size=plant.robot.nv))
    m, d = plant.model, plant.data
    entries = plant.contacts()
    assert len(entries) == d.ncon > 4
    for entry, contact, k in zip(entries, d.contact, range(d.ncon), strict=True):
        local, axes = np.zeros(6), np.reshape(contact.frame, (3, 3))
        mujoco.mj_contactForce(m, d, k, local)
        bodies = [m.geom_bodyid[g] for g in contact.geom]
        on_second = entry.names[0] == m.geom(contact.geom[1]).name
        assert entry.body == m.body(bodies[on_second]).name
        force = axes.T @ local[:3] * (1.0 if on_second else -1.0)
        arm = contact.pos - d.xpos[bodies[on_second]]
        moment = np.cross(arm, force) + axes.T @ local[3:] * (1.0 if on_second else -1.0)
        np.testing.assert_allclose(entry.wrench, [*force, *moment], atol=1e-12)
        speeds = []
        for body in bodies:
            J = np.zeros((3, m.nv))
            mujoco.mj_jac(m, d, J, None, contact.pos, body)
            speeds.append(J @ d.qvel)
        slide = axes[1:] @ (speeds[1] - speeds[0])
        assert entry.slip == pytest.approx(np.linalg.norm(slide), abs=1e-12)
        assert entry.gap == contact.dist
        assert entry.normal_force == local[0]
        bound = contact.friction[0] * local[0]
        expected = np.linalg.norm(local[1:3]) / bound if bound > 0 else 0.0
        assert entry.cone_ratio == pytest.approx(expected, abs=1e-12)


def test_pushes_may_depend_on_time():
    robot = Robot(qddot.load("planar_2r").model)
    frame = robot.frame_names[-1]
    kick = [Wrench(frame, "local_world_aligned", [0.0, 5.0, 0, 0, 0, 0])]
    plant = MujocoPlant(robot, dt=1e-3)
    still = plant.rollout([0.1, 0.2], [0, 0], steps=20)
    pushed = plant.rollout(
        [0.1, 0.2], [0, 0], steps=20, pushes=lambda t: kick if t > 0.0095 else ()
    )
    np.testing.assert_array_equal(still.q[:11], pushed.q[:11])
    J = robot.frame_jacobian(still.q[10], frame, "local_world_aligned")
    expected = 1e-3 * np.linalg.solve(robot.mass_matrix(still.q[10]), J.T @ kick[0].value)
    np.testing.assert_allclose((pushed.v - still.v)[11], expected, rtol=1e-2)


def test_sensors_are_late_and_noisy():
    robot = Robot(qddot.load("planar_2r").model)
    plant = MujocoPlant(robot, dt=1e-3, sensors=[Latency(3)])
    heard = []

    def law(t, q, v):
        heard.append((q, v))
        return np.zeros(2)

    found = plant.rollout([0.1, 0.2], [1.0, -1.0], law, steps=10)
    for k in range(3, 10):
        np.testing.assert_allclose(heard[k][0], found.q[k - 3], atol=1e-12)
        np.testing.assert_allclose(heard[k][1], found.v[k - 3], atol=1e-12)
    noisy = MujocoPlant(robot, dt=1e-3, sensors=[Noise(position=0.01, seed=3)])
    apart = np.array([noisy.measure()[0] - noisy.q for _ in range(400)])
    assert apart.std() == pytest.approx(0.01, rel=0.15)
    noisy.reset(robot.neutral())
    again = np.array([noisy.measure()[0] - noisy.q for _ in range(3)])
    np.testing.assert_array_equal(again, apart[:3])


def test_a_divergence_is_kept_and_told():
    robot = Robot(qddot.load("planar_2r").model)
    plant = MujocoPlant(robot, dt=1e-3)
    tau = np.zeros((6, 2))
    tau[3, 0] = np.nan
    found = plant.rollout([0.1, 0.2], [0, 0], tau, steps=6)
    assert found.status.label == "diverged"
    assert found.status.step == 4
    assert np.isfinite(found.q[:4]).all()
    assert np.isnan(found.q[5]).any()


def test_ground_under_a_named_robot():
    plant = MujocoPlant("quadruped", ground=True)
    q = plant.robot.neutral()
    q[2] = 0.6
    plant.reset(q)
    for _ in range(1000):
        plant.step()
    assert plant.q[2] < 0.6
    assert plant.contacts()
    assert {e.other for e in plant.contacts()} >= {"world"}


def test_wrong_requests(box, tmp_path):
    with pytest.raises(DescriptionError, match="no such file"):
        MujocoPlant(tmp_path / "none.xml")
    with pytest.raises(InvalidArgument, match="above zero"):
        MujocoPlant(box, dt=0.0)
    plant = MujocoPlant(box)
    with pytest.raises(ShapeMismatch):
        plant.step([1.0])
    with pytest.raises(ShapeMismatch):
        plant.reset(np.zeros(3))
    with pytest.raises(InvalidArgument, match="multiple"):
        plant.rollout(plant.q, plant.v, steps=5, every=2)
    with pytest.raises(InvalidArgument, match="MjSpec"):
        MujocoPlant(plant.model, ground=True)


def test_a_urdf_is_converted_whatever_it_is_called(tmp_path):
    file = tmp_path / "arm.xml"
    file.write_text(locate_source("panda").read_text())
    same, plant = MujocoPlant("panda"), MujocoPlant(file)
    assert plant.model.nv == same.model.nv
    assert np.array_equal(plant.model.body_inertia, same.model.body_inertia)
    assert plant.model.body(1).name == same.model.body(1).name
