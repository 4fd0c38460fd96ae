"""Rollouts of robots with closed loops, against closed forms, other programs, published data."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
from bare_rollouts import make_simulator, rollout
from scipy.integrate import solve_ivp

import qddot
from qddot.algorithms.kinematics import world_poses
from qddot.algorithms.recursion import joint_kinematics, per_body
from qddot.analysis import constraints as cs
from qddot.control import PD
from qddot.errors import OpenLoops, ShapeMismatch, Unsupported
from qddot.robot.robot import Robot
from qddot.simulate.adaptive import integrate_adaptive
from qddot.simulate.contact import ComplementarityContact, PenaltyContact, Plane, Scene, Sphere
from qddot.simulate.contact.stops import RigidStops
from qddot.simulate.drivetrain.friction import ModelLosses
from qddot.simulate.energy import energy_ledger
from qddot.simulate.plant import StatelessEffect
from qddot.spatial.algebra import Force, Vec3
from qddot.spatial.scalar import sqrt

CASSIE = Path(__file__).parents[3] / "shared" / "menagerie" / "agility_cassie__cassie.xml"
FINGER = """<mujoco><compiler angle="radian"/><option timestep="1e-4"/><worldbody>
<body pos="0 0.0306 0.055"><joint name="driver" axis="1 0 0" limited="true" range="0 0.8"
 armature="0.005" damping="0.1"/>
<inertial pos="0 0.0178 0.001" mass="0.009" diaginertia="2e-6 2e-6 1e-6"/>
<body name="coupler" pos="0 0.0315 -0.0041"><joint name="coupler" axis="1 0 0" limited="true"
 range="-1.57 0" armature="0.001"/>
<inertial pos="0 0.003 0.0232" mass="0.0141" diaginertia="4e-6 4e-6 1e-6"/></body></body>
<body pos="0 0.0132 0.061"><joint name="link" axis="1 0 0" limited="true" range="-0.3 0.8"
 armature="0.001" damping="0.00125" stiffness="0.05" springref="2.62"/>
<inertial pos="0 0.0182 0.0213" mass="0.0222" diaginertia="9e-6 7e-6 3e-6"/>
<body name="follower" pos="0 0.055 0.0375"><joint name="follower" axis="1 0 0"
 pos="0 -0.018 0.0065" limited="true" range="-0.87 0.87" armature="0.001"/>
<inertial pos="0 -0.014 0.02" mass="0.0173" diaginertia="7e-6 7e-6 1e-6"/></body></body>
</worldbody><equality><connect body1="follower" body2="coupler" anchor="0 0 0"
 solref="0.002 1"/></equality></mujoco>"""
"""A finger of a gripper: five bars that a spring closes, with the coupler against its stop."""
EXPLICIT = ["euler", "semi_implicit", "implicit_damping", "rk4", "dormand_prince"]


@pytest.fixture(scope="module")
def four_bar():
    robot = qddot.load("four_bar")
    return Robot(cs.with_loops(robot, cs.independent(robot)).model, native=True)


def start(robot, guess, speeds, batch=()):
    """A closed state near a guess, and a velocity near given ones."""
    q = cs.assemble(robot, np.broadcast_to(guess, (*batch, robot.nq)))
    return q, cs.consistent_velocity(robot, q, np.broadcast_to(speeds, (*batch, robot.nv)))


def gap(robot, found):
    """The largest opening of any row of any loop, redundant ones too."""
    return np.abs(robot.constraint_residual(found.q)).max()


def energy_drift(robot, found):
    """The largest change of energy, by the largest kinetic energy."""
    T, V = robot.kinetic_energy(found.q, found.v), robot.potential_energy(found.q)
    total = T + V
    return np.abs(total - total[..., :1]).max() / T.max()


# motions


@pytest.mark.parametrize("integrator", EXPLICIT)
def test_all_explicit_integrators_keep_loops_closed(four_bar, integrator):
    q, v = start(four_bar, [2.0, -1.2, 0.0], [3.0, 0.0, 0.0])
    found = rollout(four_bar, q, v, dt=1e-3, steps=300, integrator=integrator)
    assert gap(four_bar, found) < 1e-12
    rate = np.einsum("kij,kj->ki", four_bar.constraint_jacobian(found.q), found.v)
    assert np.abs(rate).max() < 1e-10
    assert found.residuals[-1, -1] < 1e-12
    assert found.status.ok
    # native code is the interpreted text
    text = rollout(
        Robot(four_bar.model, native=False), q, v, dt=1e-3, steps=5, integrator=integrator
    )
    np.testing.assert_allclose(found.q[:6], text.q, atol=1e-12)
    np.testing.assert_allclose(found.v[:6], text.v, atol=1e-11)


def test_the_motion_is_that_of_the_independent_coordinate(four_bar):
    """Fourth order: against the reduced dynamics, integrated to 1e-12 by another program."""
    q, v = start(four_bar, [2.0, -1.2, 0.0], [3.0, 0.0, 0.0])

    def rate(_, y):
        # the crank's angle and speed; the others follow
        at = cs.assemble(four_bar, [y[0], *rate.near], fixed="crank_joint")
        rate.near = at[1:]
        reduced = cs.reduce(four_bar, at, np.zeros(3), "crank_joint")
        speeds = reduced.T @ y[1:]
        a = cs.reduced_forward_dynamics(four_bar, at, speeds, np.zeros(3), "crank_joint")
        return [y[1], a[0]]

    rate.near = q[1:]
    exact = solve_ivp(rate, (0.0, 0.5), [q[0], v[0]], rtol=1e-11, atol=1e-12, method="DOP853")
    errors = []
    for steps in (125, 250):
        simulator = make_simulator(four_bar, dt=0.5 / steps, integrator="rk4")
        # the whole step in one part, whatever its error
        whole = replace(simulator.step, loops=replace(simulator.step.loops, tolerance=math.inf))
        found = replace(simulator, step=whole).rollout(q, v, steps=steps)
        errors.append(abs(found.q[-1, 0] - exact.y[0, -1]))
    assert errors[1] < 1e-8
    assert 11.0 < errors[0] / errors[1] < 22.0


def test_energy_and_closure_of_a_batch_over_ten_seconds(four_bar):
    rng = np.random.default_rng(0)
    guesses = [2.0, -1.2, 0.0] + 0.3 * rng.uniform(-1, 1, (8, 3))
    q, v = start(four_bar, guesses, [3.0, 0.0, 0.0], (8,))
    found = rollout(four_bar, q, v, dt=1e-3, steps=10_000, every=20, integrator="rk4")
    assert gap(four_bar, found) <= 1e-9
    assert energy_drift(four_bar, found) <= 1e-6
    assert found.status.ok
    ledger = energy_ledger(found)
    assert not np.any(ledger.friction)
    assert not np.any(ledger.contact)
    assert all(ledger.drift((k,)).acceptable for k in range(8))


def test_delta_over_ten_seconds():
    robot = Robot(qddot.load("delta").model, native=True)
    speeds = np.zeros(12)
    speeds[9:11] = 0.8, 0.5
    q, v = start(robot, [1.2, -2.0, 0.0] * 3 + [0.0, 0.0, -0.4], speeds, (3,))
    found = rollout(robot, q, v, dt=2e-3, steps=5000, every=10, integrator="rk4")
    assert gap(robot, found) <= 1e-9
    assert energy_drift(robot, found) <= 1e-6


def slider_crank(radius=0.1, rod=0.3):
    """A crank about y, a rod, and a slider along x, joined to the rod's end by a loop."""
    bar = {"joint": "revolute", "axis": (0, 1, 0), "inertia": (1e-4, 1e-3, 1e-3)}
    robot = Robot.from_links(
        "slider_crank",
        [
            {"name": "base", "parent": None, "joint": "fixed"},
            {**bar, "name": "crank", "parent": "base", "mass": 1.0, "com": (radius / 2, 0, 0)},
            {**bar, "name": "rod", "parent": "crank", "position": (radius, 0, 0), "mass": 0.5,
             "com": (rod / 2, 0, 0)},
            {"name": "slider", "parent": "base", "joint": "prismatic", "axis": (1, 0, 0),
             "mass": 0.8},
        ],
        frames=[{"name": "end", "link": "rod", "position": (rod, 0, 0)},
                {"name": "pin", "link": "slider"}],
        loops=[{"name": "pin", "kind": "revolute", "frame1": "end", "frame2": "pin",
                "axis": (0, 1, 0)}],
    )  # fmt: skip
    return Robot(robot.model, native=True)


def test_slider_crank_by_its_closed_form():
    """x = r cos θ + √(l² − r² sin² θ) all the way; rows that hold the plane are redundant."""
    robot, (r, rod) = slider_crank(), (0.1, 0.3)
    q = np.array([0.3, -0.3 - math.asin(r * math.sin(0.3) / rod), 0.0])
    q[2] = r * math.cos(0.3) + math.sqrt(rod**2 - (r * math.sin(0.3)) ** 2)
    v = cs.consistent_velocity(robot, q, [20.0, 0.0, 0.0], fixed="crank")
    with pytest.warns(UserWarning, match=r"are redundant.*Independent rows: pin\.. *, pin\.."):
        found = rollout(robot, q, v, dt=2e-4, steps=5000, every=5, integrator="rk4")
    theta = found.q[:, 0]
    assert np.ptp(theta) > 4 * math.pi
    x = r * np.cos(theta) + np.sqrt(rod**2 - (r * np.sin(theta)) ** 2)
    np.testing.assert_allclose(found.q[:, 2], x, atol=1e-12)
    assert gap(robot, found) < 1e-12
    assert energy_drift(robot, found) < 1e-6


def test_bricard_turns_although_its_rows_are_too_many():
    """Five bars on six hinges along the edges of a cube: four of the five rows count."""
    corners = [(0, 0, 0), (1, 0, 0), (1, -1, 0), (1, -1, 1), (0, -1, 1), (0, 0, 1)]
    axes = [(0, 1, 0), (0, 0, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    links = [{"name": "base", "parent": None, "joint": "fixed"}]
    for k, axis in enumerate(axes):
        along = np.subtract(corners[k + 1], corners[k])
        links.append({
            "name": f"bar{k + 1}", "parent": links[-1]["name"], "joint": "revolute", "axis": axis,
            "position": np.subtract(corners[k], corners[k - 1]) if k else (0, 0, 0),
            "mass": 1.0, "com": along / 2, "inertia": (1.0 - np.abs(along)) / 12 + 1e-6,
        })  # fmt: skip
    robot = Robot.from_links(
        "bricard", links,
        frames=[{"name": "ground", "link": "base", "position": (0, 0, 1)},
                {"name": "last", "link": "bar5", "position": (0, 1, 0)}],
        loops=[{"name": "hinge", "kind": "revolute", "frame1": "ground", "frame2": "last",
                "axis": (1, 0, 0)}],
        gravity=(0.0, -9.81, 0.0),
    )  # fmt: skip
    robot = Robot(robot.model, native=True)
    with pytest.warns(UserWarning, match="'hinge"):
        found = rollout(robot, np.zeros(5), np.zeros(5), dt=1e-3, steps=3000, integrator="rk4")
    assert np.ptp(found.q, axis=0).min() > 0.5
    # the row that is left out holds with the others
    assert gap(robot, found) < 1e-9
    assert energy_drift(robot, found) < 1e-6


# Andrews' squeezer mechanism (Hairer & Wanner 1996, section VII.7; IVP test set)
E_, RR, D, ZT, ZF, U, SS = 0.02, 0.007, 0.028, 0.04, 0.02, 0.04, 0.035
PIVOTS = {"O": (0, 0, 0), "A": (-0.06934, -0.00227, 0), "B": (-0.03635, 0.03273, 0)}


@dataclass(frozen=True)
class Squeeze(StatelessEffect):
    """A spring of 4530 N/m and 0.07785 m from a point of the third body to the ground."""

    def act(self, context, state):
        model = context.model
        body = model.frame("D").body
        X = world_poses(model, joint_kinematics(model, context.q)[0])[body]
        place = model.frame("D").placement.p
        point = X.p + X.R.apply(place)
        reach = point - Vec3(0.014, 0.072, 0.0)
        length = sqrt(reach.dot(reach))
        pull = X.R.apply_transpose(reach * (-4530.0 * (length - 0.07785) / length))
        forces = per_body(model, Force.zero())
        forces[body] = Force(pull, place.cross(pull))
        return context.tau, forces


def squeezer():
    """Seven bodies in the plane; coordinates β, Θ, γ, δ, Φ, ε, Ω of the book."""

    def link(name, parent, position, mass, moment, com):
        return {
            "name": name, "parent": parent, "joint": "continuous", "axis": (0, 0, 1),
            "position": position, "mass": mass, "com": (*com, 0), "inertia": (moment,) * 3,
        }  # fmt: skip

    links = [
        {"name": "base", "parent": None, "joint": "fixed"},
        link("K1", "base", PIVOTS["O"], 0.04325, 2.194e-6, (0.00092, 0)),
        link("K2", "K1", (RR, 0, 0), 0.00365, 4.410e-7, (-0.0115, 0)),
        link("K3", "base", PIVOTS["B"], 0.02373, 5.255e-6, (0.01043, -0.01874)),
        link("K5", "base", PIVOTS["A"], 0.07050, 1.169e-5, (0.02308, 0.00916)),
        link("K4", "K5", (ZT, 0, 0), 0.00706, 5.667e-7, (0, -(E_ - 0.01421))),
        link("K7", "base", PIVOTS["A"], 0.05498, 1.912e-5, (0.00449, -0.01228)),
        link("K6", "K7", (0, -U, 0), 0.00706, 5.667e-7, (ZF - 0.01421, 0)),
    ]
    ends = {"K2": (-D, 0, 0), "K3": (0, -SS, 0), "K4": (0, -E_, 0), "K6": (ZF, 0, 0)}
    frames = [{"name": f"E{k}", "link": k, "position": x} for k, x in ends.items()]
    frames.append({"name": "D", "link": "K3", "position": (0.02, -0.018, 0)})
    loops = [
        {"name": k, "kind": "spherical", "frame1": "EK2", "frame2": f"E{k}", "rows": ("x", "y")}
        for k in ("K3", "K4", "K6")
    ]
    robot = Robot.from_links("squeezer", links, frames=frames, loops=loops, gravity=(0, 0, 0))
    return Robot(robot.model, native=True)


def test_andrews_squeezer_against_the_published_solution():
    robot = squeezer()
    beta, gamma, phi = -0.0617138900142764496, 0.455279819163070380, 0.222668390165885885
    delta, epsilon = 0.487364979543842550, 1.23054744454982119
    q = np.array([beta, 0.0, gamma, delta, phi, epsilon, -phi])
    tau = [0.033, 0, 0, 0, 0, 0, 0]
    found = rollout(
        robot, q, np.zeros(7), tau, dt=5e-6, steps=6000, every=6000, integrator="rk4",
        effects=[Squeeze()],
    )  # fmt: skip
    published = {
        "beta": 15.81077119629904, "theta": -15.75637105984298, "gamma": 0.04082224013073101,
        "delta": 0.5244099658805304, "phi": -0.5347301163226948, "epsilon": 1.048080741042263,
        "omega": 0.5347301163226948,
    }  # fmt: skip
    np.testing.assert_allclose(found.q[-1], [*published.values()], atol=1e-7)
    assert gap(robot, found) < 1e-12


@pytest.mark.skipif(not CASSIE.is_file(), reason="no shared/menagerie with Cassie's file")
def test_cassie_falls_with_its_loops_closed():
    """Redundant rows are named; steps are those of constrained dynamics and a projection."""
    robot = Robot(qddot.load(CASSIE).model, native=False)
    home = robot.configurations["home"]
    with (
        pytest.warns(UserWarning, match="'equality0.z' moves with no joint"),
        pytest.raises(OpenLoops, match=r"'equality0\.x' of 'cassie' is open by 0\.00195"),
    ):
        rollout(robot, home, np.zeros(32), dt=1e-3, steps=1)
    q = cs.assemble(robot, home)
    v = cs.consistent_velocity(robot, q, 0.3 * np.random.default_rng(0).normal(size=32))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = rollout(robot, q, v, dt=1e-3, steps=3)
        assert gap(robot, found) < 1e-12
        a, _ = robot.constrained_dynamics(q, v, np.zeros(32))
        v1 = v + 1e-3 * a
        q1, v1 = cs.project(robot, robot.integrate(q, 1e-3 * v1), v1)
    joints = slice(7, None)
    np.testing.assert_allclose(found.q[1, joints], q1[joints], atol=1e-8)


# with everything else


def test_friction_holds_a_mechanism_and_damping_is_booked(four_bar):
    q, v = start(four_bar, [2.0, -1.2, 0.0], [0.0, 0.0, 0.0])

    def with_drive(**drive):
        bodies = tuple(
            replace(b, joint=replace(b.joint, drivetrain=replace(b.joint.drivetrain, **drive)))
            for b in four_bar.model.bodies
        )
        return Robot(replace(four_bar.model, bodies=bodies), native=True)

    stuck = with_drive(friction=1.0)
    found = rollout(stuck, q, v, dt=1e-3, steps=100, effects=[ModelLosses()])
    np.testing.assert_allclose(found.q, np.broadcast_to(q, found.q.shape), atol=1e-14)
    assert found.status.ok
    # the loss of damping is the integral of d v², from the motion itself
    damped = with_drive(friction=0.0, damping=1e-3)
    q, v = start(four_bar, [2.0, -1.2, 0.0], [3.0, 0.0, 0.0])
    found = rollout(damped, q, v, dt=2e-4, steps=5000, integrator="rk4", effects=[ModelLosses()])
    assert gap(damped, found) < 1e-12
    ledger = energy_ledger(found)
    loss = np.trapezoid(1e-3 * (found.v**2).sum(-1), found.time)
    assert ledger.friction[-1] == pytest.approx(loss, rel=1e-3)
    assert abs(ledger.residual[-1]) < 1e-3 * loss


@pytest.mark.parametrize("law", ["penalty", "complementarity"])
def test_a_mechanism_rests_on_the_ground(law):
    """A ball at the end of the crank lies on a plane: virtual work gives the force on it."""
    robot, radius = slider_crank(), 0.02
    frames = (*robot.model.frames, replace(robot.model.frame("rod"), name="ball"))
    robot = Robot(replace(robot.model, frames=frames), native=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = cs.with_loops(robot, cs.independent(robot, cs.assemble(robot, [0.3, -0.4, 0.4])))
    scene = Scene(
        planes=[Plane(point=(0.0, 0.0, -0.07))], spheres=[Sphere("ball", radius)], friction=0.0
    )
    bodies = tuple(
        replace(b, joint=replace(b.joint, drivetrain=replace(b.joint.drivetrain, damping=0.5)))
        for b in robot.model.bodies
    )
    robot = Robot(replace(robot.model, bodies=bodies), native=True)
    q, v = start(robot, [0.4, -0.6, 0.4], np.zeros(3))
    made = {
        "penalty": {"effects": [PenaltyContact(scene, 1e5, 500.0), ModelLosses()]},
        "complementarity": {"contact": ComplementarityContact(scene), "effects": [ModelLosses()]},
    }[law]
    found = rollout(robot, q, v, dt=5e-4, steps=4000, record=True, **made)
    assert gap(robot, found) < 1e-12
    assert found.status.ok
    assert np.abs(found.v[-1]).max() < 1e-4
    depth = -0.07 + radius - robot.frame_pose(found.q[-1], "ball")[2, 3]
    assert abs(depth) < 1e-3
    force = 1e5 * depth if law == "penalty" else found.effect_history[-1][-1, 2] / 5e-4
    # N ṙ = ḡ: the ground carries what gravity does along the one freedom
    J = robot.frame_jacobian(found.q[-1], "ball", "local_world_aligned")
    reduced = cs.reduce(robot, found.q[-1], np.zeros(3), "crank")
    along = (J @ reduced.T)[2, 0]
    assert force * along == pytest.approx(reduced.g[0], rel=1e-3)
    assert force > 1.0
    ledger = energy_ledger(found)
    assert abs(ledger.residual[-1]) < 0.02 * np.ptp(ledger.potential)


def test_feedback_drives_a_closed_chain(four_bar):
    q, v = start(four_bar, [0.5, 0.0, 0.0], np.zeros(3))
    goal = cs.assemble(four_bar, [1.0, 0.0, 0.0], fixed="crank_joint")
    gains = np.array([1.0, 0.0, 0.0])
    found = rollout(
        four_bar, q, v, dt=1e-3, steps=3000, integrator="rk4", q_ref=goal,
        v_ref=np.zeros(3), feedback=PD(200.0 * gains, 2.0 * gains),
    )  # fmt: skip
    assert gap(four_bar, found) < 1e-12
    assert found.q[-1, 0] == pytest.approx(goal[0], abs=0.01)
    np.testing.assert_allclose(found.v[-1], 0.0, atol=1e-3)


def test_a_stop_of_one_joint_stops_the_mechanism(four_bar):
    bodies = list(four_bar.model.bodies)
    joint = bodies[0].joint
    limits = replace(joint.limits, lower=-0.5, upper=2.2)
    bodies[0] = replace(bodies[0], joint=replace(joint, limits=limits))
    robot = Robot(replace(four_bar.model, bodies=tuple(bodies)), native=True)
    q, v = start(robot, [2.0, -1.2, 0.0], [6.0, 0.0, 0.0])
    found = rollout(robot, q, v, dt=1e-3, steps=400, effects=[RigidStops()])
    assert gap(robot, found) < 1e-9
    assert found.q[:, 0].max() < 2.2 + 1e-4
    assert found.q[:, 0].max() > 2.2 - 1e-4
    assert not found.status.counts.get("loop_open")
    T = robot.kinetic_energy(found.q, found.v)
    hit = int(np.argmax(found.q[:, 0]))
    assert T[hit + 1] < 0.05 * T[:hit].max()


@pytest.mark.parametrize("dt", [1e-3, 1e-4])
def test_a_finger_closes_along_a_stop_and_rests_at_two(tmp_path, dt):
    """MuJoCo's stops and loops are springs: bodies go a little beyond and apart."""
    (tmp_path / "finger.xml").write_text(FINGER)
    robot = qddot.load(tmp_path / "finger.xml")
    robot = Robot(cs.with_loops(robot, cs.independent(robot)).model, native=True)
    q, steps = cs.assemble(robot, robot.neutral()), round(1.2 / dt)
    found = robot.rollout(q, np.zeros(4), dt=dt, steps=steps, record=True)
    assert found.status.ok, found.status
    assert gap(robot, found) < 1e-12
    model = mujoco.MjModel.from_xml_string(FINGER)
    data = mujoco.MjData(model)
    order = [model.joint(name).qposadr[0] for name in robot.joint_names]
    for k in range(1, 7):
        mujoco.mj_step(model, data, 2000)
        sample = round(0.2 * k / dt)
        np.testing.assert_allclose(found.q[sample], data.qpos[order], atol=5e-3)
        np.testing.assert_allclose(found.v[sample], data.qvel[order], atol=2e-2)
    # at rest against the stops of the coupler and of a link
    assert robot.kinetic_energy(found.q[-1], found.v[-1]) < 1e-20
    beyond = np.maximum(robot.limits.lower - found.q[-1], found.q[-1] - robot.limits.upper)
    assert np.sum(np.abs(beyond) < 1e-8) == 2
    ledger = energy_ledger(found)
    assert ledger.drift().acceptable, ledger.drift()


def test_other_inertias_float32_and_resume(four_bar):
    q, v = start(four_bar, [2.0, -1.2, 0.0], [3.0, 0.0, 0.0])
    inertia = four_bar.inertial_parameters * np.array([1.0, 2.0])[:, None, None]
    both = rollout(four_bar, q, v, dt=1e-3, steps=50, parameters={"inertia": inertia})
    heavy = rollout(four_bar.with_parameters(inertia[1]), q, v, dt=1e-3, steps=50)
    np.testing.assert_allclose(both.q[1], heavy.q, atol=1e-12)
    assert np.abs(both.q[0] - both.q[1]).max() > 1e-3
    simulator = make_simulator(four_bar, dt=1e-3)
    whole = simulator.rollout(q, v, steps=40)
    parts = simulator.rollout(q, v, steps=20).resume(steps=20)
    np.testing.assert_array_equal(whole.q[20:], parts.q)
    np.testing.assert_array_equal(whole.q[0], q)
    single = simulator.rollout(q.astype(np.float32), v.astype(np.float32), steps=100)
    assert single.q.dtype == np.float32
    assert np.abs(single.q - simulator.rollout(q, v, steps=100).q).max() < 1e-3
    assert single.status.ok


def test_a_start_beyond_a_stop_comes_back_with_its_loops(four_bar):
    bodies = list(four_bar.model.bodies)
    joint = bodies[0].joint
    bodies[0] = replace(
        bodies[0], joint=replace(joint, limits=replace(joint.limits, lower=-0.5, upper=1.9))
    )
    robot = Robot(replace(four_bar.model, bodies=tuple(bodies)), native=True)
    q, v = start(robot, [2.0, -1.2, 0.0], np.zeros(3))
    found = rollout(robot, q, v, dt=1e-3, steps=50, effects=[RigidStops()])
    assert found.q[1, 0] > 1.9 + 1e-2, "it takes more than a step"
    assert found.q[-1, 0] <= 1.9 + 1e-6
    assert "over some steps, with all that its loops carry" in found.status.notes[-1]


# refusals


def test_open_starts_are_refused_and_small_gaps_closed(four_bar):
    q, v = start(four_bar, [2.0, -1.2, 0.0], [3.0, 0.0, 0.0])
    with pytest.raises(OpenLoops, match=r"q0: 'loop\.[xz]' of 'four_bar' is open by .*assemble"):
        rollout(four_bar, q + np.array([0.1, 0, 0]), v, dt=1e-3, steps=1)
    with pytest.raises(OpenLoops, match="v0: 'loop"):
        rollout(four_bar, q, v + np.array([0.1, 0, 0]), dt=1e-3, steps=1)
    found = rollout(four_bar, q + np.array([1e-8, 0, 0]), v, dt=1e-3, steps=1)
    assert gap(four_bar, found) < 1e-12
    # what is no number is told by the status, as ever
    found = rollout(four_bar, np.stack([q, q * np.nan]), v, dt=1e-3, steps=2)
    assert found.status.label.tolist() == ["ok", "nan_input"]


def test_what_cannot_be_stepped_with_loops_is_named(four_bar):
    q, v = start(four_bar, [2.0, -1.2, 0.0], np.zeros(3))
    for integrator in ("variational", "implicit_midpoint", "backward_euler"):
        with pytest.raises(Unsupported, match=r"'four_bar' are kept closed by .*rk4.*with_loops"):
            rollout(four_bar, q, v, dt=1e-3, steps=1, integrator=integrator)
    with pytest.raises(Unsupported, match="with_loops"):
        integrate_adaptive(four_bar, q, v, None, [0.0, 0.1])
    opened = rollout(cs.with_loops(four_bar, []), q, v, dt=1e-3, steps=500)
    assert gap(four_bar, opened) > 0.1
    with pytest.raises(ShapeMismatch):
        rollout(four_bar, q[:2], v, dt=1e-3, steps=1)


def test_a_loop_that_comes_apart_is_told(four_bar):
    """Steps far too long for the speed: never ok."""
    q, v = start(four_bar, [2.0, -1.2, 0.0], [200.0, 0.0, 0.0])
    found = rollout(four_bar, q, v, dt=2e-2, steps=50)
    open_by = np.nan_to_num(np.abs(four_bar.constraint_residual(found.q)), nan=np.inf).max()
    assert open_by > 1e-3
    assert found.status.of().label in ("loop_open", "diverged")
