"""Contact by complementarity of robots with all shapes of their files: every step is solved."""

import mujoco
import numpy as np
from agreement import need_shared, shared_files

import qddot
from qddot.algorithms.kinematics import world_poses
from qddot.algorithms.recursion import joint_kinematics
from qddot.control import PD
from qddot.robot.robot import Robot
from qddot.simulate.contact import ComplementarityContact, Plane, Scene, Sphere
from qddot.simulate.layout import columns

STATES, STEPS, FRICTION = 24, 60, 0.8


def test_a_quadruped_that_settles_on_its_feet_is_solved_at_every_step():
    """Newton steps alone repeat in a cycle where feet change between sticking and sliding."""
    files = shared_files("menagerie/unitree_go2__go2.xml")
    need_shared(files)
    robot = qddot.load(files[0])
    contact = ComplementarityContact(Scene.from_file(files[0], friction=FRICTION))
    home, rng = np.array(robot.configurations["home"]), np.random.default_rng(0)
    q = np.tile(home, (STATES, 1))
    q[:, 7:] += 0.05 * rng.normal(size=(STATES, robot.nq - 7))
    # the lowest point touches the ground
    poses = world_poses(robot.model, joint_kinematics(robot.model, columns(q))[0])
    gaps = [site.find(poses).gap for site in contact.sites(robot.model)]
    q[:, 2] -= np.min(np.broadcast_arrays(*gaps), axis=0)
    joints = np.arange(robot.nv) >= 6
    simulator = robot.simulator(
        dt=2e-3,
        integrator="implicit_damping",
        feedback=PD(100.0 * joints, 3.0 * joints),
        contact=contact,
    )
    v = np.zeros((STATES, robot.nv))
    found = simulator.rollout(q, v, steps=STEPS, q_ref=home, v_ref=np.zeros(robot.nv))
    assert set(found.status.label) == {"ok"}


def test_a_sphere_on_the_axis_of_its_only_joint_moves_nothing():
    """All rows of that contact are zero: it can neither be pushed nor turned."""
    text = """<mujoco><worldbody>
      <body name="table" pos="0 0 0.1"><joint axis="0 0 1"/><geom type="sphere" size="0.1"/>
        <body name="arm" pos="0 0 0.5"><joint axis="0 1 0"/>
          <geom type="capsule" size="0.02" fromto="0 0 0 0.6 0 0"/></body>
      </body></worldbody></mujoco>"""
    robot = Robot(qddot.load(mujoco.MjModel.from_xml_string(text)).model, native=True)
    scene = Scene(planes=[Plane()], spheres=[Sphere("table", 0.1)], friction=0.5)
    motion = {"dt": 1e-3, "steps": 50, "integrator": "semi_implicit"}
    free = robot.rollout([0.0, 0.0], [1.0, 1.0], **motion)
    found = robot.rollout([0.0, 0.0], [1.0, 1.0], contact=ComplementarityContact(scene), **motion)
    np.testing.assert_allclose(found.v[-1], free.v[-1], atol=1e-12)
