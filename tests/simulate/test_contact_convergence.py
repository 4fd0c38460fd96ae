"""Contact by complementarity of robots with all shapes of their files: every step is solved."""

import numpy as np
from agreement import need_shared, shared_files

import qddot
from qddot.algorithms.kinematics import world_poses
from qddot.algorithms.recursion import joint_kinematics
from qddot.control import PD
from qddot.simulate.contact import ComplementarityContact, Scene
from qddot.simulate.layout import columns

STATES, STEPS, FRICTION = 24, 60, 0.8


def test_a_quadruped_that_settles_on_its_feet_is_solved_at_every_step():
    """Newton steps alone went round in a circle where feet change between sticking and sliding."""
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
