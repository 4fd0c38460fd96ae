"""The four-bar and the delta robot, from file to dynamics, against closed forms of their own.

The closed forms know no joints, no Jacobians and no mass matrix: points, directions, Newton and
Euler. They take the numbers of the files: a four-bar of three uniform bars and the inertia of the
motor; a delta of three arms (mass, moment about the axis, reflected inertia), three rods that are
lines (mass, moment across, none about themselves) and a platform that does not turn, a point.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import mpmath
import numpy as np
import pytest

import qddot
from qddot.analysis import constraints as cs
from qddot.robot.robot import Robot

G = 9.81


def regular(name: str, native: bool = False) -> Robot:
    """A built-in robot with its loops restricted to independent equations."""
    robot = Robot(qddot.load(name).model, native)
    return cs.with_loops(robot, cs.independent(robot))


# long runs


def runge_kutta(robot: Robot, q, v, tau, dt: float):
    """One step of fourth order, then the projection; for joints whose coordinates add up."""

    def rate(q, v):
        return v, robot.constrained_dynamics(q, v, tau)[0]

    k1 = rate(q, v)
    k2 = rate(q + dt / 2 * k1[0], v + dt / 2 * k1[1])
    k3 = rate(q + dt / 2 * k2[0], v + dt / 2 * k2[1])
    k4 = rate(q + dt * k3[0], v + dt * k3[1])
    dq, dv = (dt / 6 * (a + 2 * b + 2 * c + d) for a, b, c, d in zip(k1, k2, k3, k4, strict=True))
    return cs.project(robot, q + dq, v + dv)


STARTS = {
    "four_bar": (2e-3, [2.0, -1.2, 0.0], {"crank_joint": 3.0}),
    "delta": (2e-3, [1.2, -2, 0] * 3 + [0, 0, -0.4], {"platform_x": 0.8, "platform_y": 0.5}),
}


@pytest.mark.parametrize("name", STARTS)
def test_energy_is_kept_and_loops_stay_closed_for_ten_seconds(name):
    robot = regular(name, native=True)
    dt, guess, speeds = STARTS[name]
    q = cs.assemble(robot, guess)
    v = np.array([speeds.get(joint, 0.0) for joint in robot.joint_names])
    v = cs.consistent_velocity(robot, q, v)
    still, states = np.zeros(robot.nv), [(q, v)]
    for _ in range(round(10.0 / dt)):
        states.append(runge_kutta(robot, *states[-1], still, dt))
    q, v = (np.stack(x) for x in zip(*states, strict=True))
    T, V = robot.kinetic_energy(q, v), robot.potential_energy(q)
    # it moves, and trades much of one energy for the other
    assert np.ptp(T) > 0.3 * T.max() > 0.01
    assert np.abs(T + V - T[0] - V[0]).max() < 1e-6 * T.max()
    assert np.abs(robot.constraint_residual(q)).max() < 1e-9
    assert np.abs(np.einsum("kij,kj->ki", robot.constraint_jacobian(q), v)).max() < 1e-9


def test_without_projection_loops_drift_and_stabilisation_closes_them():
    robot, still, dt = regular("four_bar", native=True), np.zeros(3), 1e-3
    q, v = np.array([1e-3, 0.0, 0.0]), np.zeros(3)
    held = []
    for rate in (None, 20.0):
        x, u = q, v
        for _ in range(500):
            a = robot.constrained_dynamics(x, u, still, stabilisation=rate)[0]
            u = u + dt * a
            x = x + dt * u
        held.append(np.abs(robot.constraint_residual(x)).max())
    start = np.abs(robot.constraint_residual(q)).max()
    assert held[0] > 0.5 * start
    # 20 / s for half a second: (1 + k t) exp(−k t)
    assert held[1] < 2 * 11 * math.exp(-10) * start


# two formulations


def closed_states(robot: Robot, rng, count: int):
    """States of a built-in robot that meet its loops, away from where it was drawn."""
    guess = robot.neutral() + rng.uniform(-0.3, 0.3, (count, robot.nq))
    q = cs.assemble(robot, guess, strict=False)
    q = q[np.isfinite(q).all(axis=1)]
    assert len(q) > 0.8 * count
    return q, cs.consistent_velocity(robot, q, rng.normal(size=(len(q), robot.nv)))


INDEPENDENT = {
    "four_bar": ["crank_joint"],
    "delta": ["arm1_joint", "arm2_joint", "arm3_joint"],
}


@pytest.mark.parametrize("name", INDEPENDENT)
@pytest.mark.parametrize("chosen", [True, False])
def test_reduced_and_multiplier_forms_give_the_same_accelerations(name, chosen):
    robot, rng = regular(name), np.random.default_rng(1)
    q, v = closed_states(robot, rng, 30)
    tau = rng.normal(size=v.shape)
    a, _ = robot.constrained_dynamics(q, v, tau)
    names = INDEPENDENT[name] if chosen else None
    # also with the equations that are redundant
    for system in (robot, qddot.load(name)):
        b = cs.reduced_forward_dynamics(system, q, v, tau, names)
        assert np.abs(a - b).max() <= 1e-9 * np.abs(a).max()


def test_a_standing_quadruped_in_both_forms():
    robot, rng = qddot.load("quadruped"), np.random.default_rng(2)
    q, tau = robot.random(rng), rng.normal(size=18)
    feet = [cs.Contact(f"{leg}_foot") for leg in ("FL", "FR", "RL")]
    v = cs.consistent_velocity(robot, q, rng.normal(size=18), feet)
    a, _ = robot.constrained_dynamics(q, v, tau, constraints=feet)
    b = cs.reduced_forward_dynamics(robot, q, v, tau, constraints=feet)
    assert np.abs(a - b).max() <= 1e-9 * np.abs(a).max()
    assert len(cs.reduce(robot, q, v, constraints=feet).independent) == 9


@pytest.mark.parametrize("name", INDEPENDENT)
def test_reduced_terms(name):
    robot, rng = regular(name), np.random.default_rng(3)
    (q, *_), (v, *_) = closed_states(robot, rng, 5)
    names = INDEPENDENT[name]
    r = cs.reduce(robot, q, v, names)
    u = v[[robot.joint_names.index(n) for n in names]]
    np.testing.assert_allclose(r.T @ u, v, atol=1e-12)
    np.testing.assert_allclose(u @ r.M @ u / 2, robot.kinetic_energy(q, v), rtol=1e-12)
    h = 1e-5
    after, before = (cs.reduce(robot, robot.integrate(q, s * h * v), v, names) for s in (1.0, -1.0))
    rates = {k: (getattr(after, k) - getattr(before, k)) / (2 * h) for k in ("T", "M")}
    np.testing.assert_allclose(r.dT, rates["T"], atol=1e-8 * np.abs(rates["T"]).max())
    skew = rates["M"] - 2 * r.C
    np.testing.assert_allclose(skew + skew.T, 0, atol=1e-8 * np.abs(r.C).max())
    # the torques of the reduced system move the whole one
    tau = rng.normal(size=robot.nv)
    a = robot.constrained_dynamics(q, v, tau)[0][[robot.joint_names.index(n) for n in names]]
    np.testing.assert_allclose(r.M @ a + r.C @ u + r.g, r.T.T @ tau, rtol=1e-9, atol=1e-9)


# four-bar: bars of 1 kg/m

CRANK, COUPLER, ROCKER, GROUND = 0.10, 0.26, 0.20, 0.24
LENGTHS = {"crank": CRANK, "coupler": COUPLER, "rocker": ROCKER}
MOMENTS = {"crank": 8.666666667e-05, "coupler": 0.001473333333, "rocker": 0.0006733333333}


def bars(theta):
    """Ends of the bars (crank from the origin, coupler, rocker) as complex numbers x + i z."""
    A = CRANK * mpmath.expj(theta + mpmath.pi / 2)
    D = mpmath.mpf(GROUND)
    across = D - A
    along = (COUPLER**2 - ROCKER**2 + abs(across) ** 2) / (2 * abs(across))
    height = mpmath.sqrt(COUPLER**2 - along**2)
    B = A + across / abs(across) * mpmath.mpc(along, height)
    return (mpmath.mpc(0), A), (A, B), (B, D)


def rates(function, theta, speed, acceleration):
    """Value, rate and acceleration of a function of the crank angle."""
    first, second = (mpmath.diff(function, theta, k) for k in (1, 2))
    return function(theta), first * speed, second * speed**2 + first * acceleration


def cross(a, b):
    return a.real * b.imag - a.imag * b.real


def four_bar(theta, speed, acceleration):
    """Motor torque, and the force of the ground on the rocker, by Newton and Euler."""
    power, needs = mpmath.mpf("0.001") * acceleration * speed, []
    for k, (name, length) in enumerate(LENGTHS.items()):
        _, v, a = rates(lambda t, k=k: sum(bars(t)[k]) / 2, theta, speed, acceleration)
        angle = rates(
            lambda t, k=k: mpmath.arg(bars(t)[k][1] - bars(t)[k][0]), theta, speed, acceleration
        )
        force, moment = length * (a + 1j * G), MOMENTS[name] * angle[2]
        power += (force * v.conjugate()).real + moment * angle[1]
        needs.append((force, moment))
    _, (A, B), (_, D) = bars(theta)
    _, (push, turn), (pull, spin) = needs
    # moments of the rocker about B, and of coupler and rocker about A
    about_B = spin + cross((D - B) / 2, pull)
    about_A = turn + cross((B - A) / 2, push) + spin + cross((B + D) / 2 - A, pull)
    arms = mpmath.matrix([[-d.imag, d.real] for d in (D - B, D - A)])
    return power / speed, mpmath.lu_solve(arms, mpmath.matrix([about_B, about_A]))


@pytest.mark.parametrize("theta", [0.0, 0.7, 2.5, -1.9])
def test_four_bar_against_its_closed_form(theta):
    robot = qddot.load("four_bar")
    speed, acceleration = 12.0, 300.0
    with mpmath.workdps(30):
        expected, force = four_bar(mpmath.mpf(theta), speed, acceleration)
        (_, _), (A, B), (_, D) = bars(mpmath.mpf(theta))
    crank = "crank_joint"
    q = cs.assemble(robot, branch(theta, A, B, D), fixed=crank)
    v = cs.consistent_velocity(robot, q, [speed, 0, 0], fixed=crank)
    a = cs.consistent_acceleration(robot, q, v, [acceleration, 0, 0], fixed=crank)
    found = cs.inverse_dynamics(robot, q, v, a, crank)
    assert found.tau[0] == pytest.approx(float(expected), rel=1e-9)
    assert not found.tau[1:].any()
    # the multipliers act on the ground, in axes of the end of the rocker
    X = robot.frame_pose(q, "rocker_end")[:3, :3]
    on_rocker = -X @ found.multipliers
    np.testing.assert_allclose(on_rocker[[0, 2]], [float(x) for x in force], rtol=1e-9)
    forward, _ = regular("four_bar").constrained_dynamics(q, v, found.tau)
    np.testing.assert_allclose(forward, a, rtol=1e-9)


def branch(theta, A, B, D):
    """Joint angles of the bars: each from where the one before it points, zero at home."""
    start = (A, mpmath.mpc(0.24, 0.1), mpmath.mpc(0, -0.2))
    lean = float(mpmath.arg((B - A) / start[1]))
    hang = float(mpmath.arg((D - B) / start[2]))
    return [theta, lean - theta, hang - lean]


# delta

BASE, ARM, ROD, PLATFORM = 0.200, 0.325, 0.800, 0.045
ARM_MASS, ARM_COM, ARM_MOMENT = 0.60, 0.14, 0.0055 + 0.60 * 0.14**2 + 0.03
ROD_MASS, ROD_MOMENT, PLATFORM_MASS = 0.10, 0.005335, 0.5
AZIMUTHS = np.radians([0.0, 120.0, -120.0])
WEIGHT = np.array([0.0, 0.0, -G])
ARMS = ["arm1_joint", "arm2_joint", "arm3_joint"]
SLIDES = ["platform_x", "platform_y", "platform_z"]


def delta(p, dp, ddp):
    """Arm angles, motor torques and forces of the platform on the rods for a motion of it."""
    legs, pull = [], -PLATFORM_MASS * (ddp - WEIGHT)
    for azimuth in AZIMUTHS:
        out, up = np.array([math.cos(azimuth), math.sin(azimuth), 0.0]), np.array([0.0, 0.0, 1.0])
        joint = p + PLATFORM * out
        u, h = (joint - BASE * out) @ out, joint[2]
        reach = (joint - BASE * out) @ (joint - BASE * out) + ARM**2 - ROD**2
        angle = math.atan2(-h, u) - math.acos(reach / (2 * ARM * math.hypot(u, h)))
        arm = math.cos(angle) * out - math.sin(angle) * up
        swing = -math.sin(angle) * out - math.cos(angle) * up
        # the rod keeps its length: s · (ṗ − L swing θ̇) = 0, and once more
        s = joint - BASE * out - ARM * arm
        rate = s @ dp / (ARM * (s @ swing))
        slip = dp - ARM * swing * rate
        turn = (s @ (ddp + ARM * arm * rate**2) + slip @ slip) / (ARM * (s @ swing))
        elbow = ARM * (swing * turn - arm * rate**2)
        d, bend = s / ROD, (ddp - elbow) / ROD
        # moments about the elbow: what is across the rod
        across = ROD_MASS / 2 * (elbow - WEIGHT) + (ROD_MOMENT / ROD + ROD_MASS * ROD / 4) * bend
        across -= d * (d @ across)
        pull = pull - across
        legs.append((angle, turn, arm, swing, d, across, elbow + ROD / 2 * bend))
    along = np.linalg.solve(np.array([leg[4] for leg in legs]).T, pull)
    angles, torques, forces = [], [], []
    for share, (angle, turn, _, swing, d, across, middle) in zip(along, legs, strict=True):
        tip = share * d + across
        at_elbow = ROD_MASS * (middle - WEIGHT) - tip
        lift = ARM * at_elbow @ swing - ARM_MASS * ARM_COM * WEIGHT @ swing
        angles.append(angle)
        torques.append(ARM_MOMENT * turn + lift)
        forces.append(tip)
    return np.array(angles), np.array(torques), np.array(forces)


def motion(rng):
    """A platform within reach, at up to 3 m/s and 10 g."""
    p = np.array([0.0, 0.0, -0.75]) + rng.uniform(-1, 1, 3) * [0.2, 0.2, 0.12]
    way = rng.normal(size=(2, 3))
    way /= np.linalg.norm(way, axis=1)[:, None]
    return p, 3.0 * way[0], 10.0 * G * way[1]


def moved(robot: Robot, p, dp, ddp):
    """The state of the robot whose platform moves so."""
    q = robot.neutral()
    q[-3:] = p - [0.0, 0.0, -0.64]
    q = cs.assemble(robot, q, fixed=SLIDES)
    v = cs.consistent_velocity(robot, q, np.r_[np.zeros(9), dp], fixed=SLIDES)
    return q, v, cs.consistent_acceleration(robot, q, v, np.r_[np.zeros(9), ddp], fixed=SLIDES)


def test_delta_at_ten_g_against_its_closed_form():
    robot, rng = qddot.load("delta"), np.random.default_rng(7)
    rows = robot.inertial_parameters
    for k, name in enumerate(robot.body_names):
        if name in ("rod1", "rod2", "rod3"):
            assert rows[k, 9] == pytest.approx(3.6e-6)
            rows[k, 9] = 0.0
    lines = robot.with_parameters(rows)
    for _ in range(20):
        p, dp, ddp = motion(rng)
        angles, torques, forces = delta(p, dp, ddp)
        q, v, a = moved(lines, p, dp, ddp)
        np.testing.assert_allclose(q[[0, 3, 6]], angles, atol=1e-12)
        found = cs.inverse_dynamics(lines, q, v, a, ARMS)
        assert np.abs(found.tau[[0, 3, 6]] - torques).max() < 1e-9 * np.abs(torques).max()
        for k in range(3):
            # the multipliers act on the platform, in axes of the rod
            R = lines.frame_pose(q, f"rod{k + 1}_tip")[:3, :3]
            force = -R @ found.multipliers[3 * k : 3 * k + 3]
            assert np.abs(force - forces[k]).max() < 1e-9 * np.abs(forces).max()
        # what the rods have about themselves is next to nothing
        whole = cs.inverse_dynamics(robot, q, v, a, ARMS).tau[[0, 3, 6]]
        assert 0 < np.abs(whole - torques).max() < 1e-3 * np.abs(torques).max()


def test_delta_at_rest_holds_its_weight():
    """Virtual work: the torques of the arms against the height of all that hangs on them."""
    robot = qddot.load("delta")
    zero = np.zeros(12)
    q = robot.neutral()
    found = cs.inverse_dynamics(robot, q, zero, zero, ARMS)
    # home: arms horizontal, rods down by 0.64 and in by 0.48; the arm swings down
    drop = ARM
    height = -drop * (3 * ROD_MASS / 2 + (PLATFORM_MASS + 3 * ROD_MASS / 2))
    expected = G * (height / 3 - ARM_MASS * ARM_COM)
    np.testing.assert_allclose(found.tau[[0, 3, 6]], expected, rtol=1e-9)


# the page


def test_the_page_prints_what_it_says(capsys, monkeypatch):
    monkeypatch.delenv("QDDOT_NATIVE")
    page = Path(__file__).resolve().parents[2] / "docs" / "constraints.md"
    blocks = re.findall(r"```python\n(.*?)```(?:\n```text\n(.*?)```)?", page.read_text(), re.S)
    assert len(blocks) == 6
    scope: dict = {}
    for code, said in blocks:
        exec(code, scope)
        assert capsys.readouterr().out == said
