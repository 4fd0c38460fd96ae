"""Steps 9 and 10: the integrator and its step by certificate; contact defined and tested."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from typing import Any

import numpy as np

from qddot.algorithms.kinematics import world_poses
from qddot.algorithms.recursion import joint_kinematics
from qddot.display.text import joint_units
from qddot.model.model import WORLD
from qddot.pipeline.context import Context, NotApplicable
from qddot.pipeline.model_steps import tip_frame
from qddot.robot.robot import Robot
from qddot.simulate.certificate import certify
from qddot.simulate.contact import (
    ComplementarityContact,
    PenaltyContact,
    Plane,
    Scene,
    Sphere,
    contact_ledger,
)
from qddot.simulate.contact.gaps import find_sites
from qddot.simulate.energy import energy_ledger
from qddot.simulate.rollout import Rollout
from qddot.simulate.simulator import rollout

__all__ = ["certify_integrator", "probe_contact"]

_CANDIDATES = ("semi_implicit", "rk4", "dormand_prince")
"""Integrators that are tried in this order, the cheapest first."""
_DT = 1e-3
_GAIN, _LOSS = 1e-3, 1e-2
"""Energy that a simulation may gain or lose in a second, as shares of the peak kinetic energy."""
_INNER_LOOP = 1e-4
_LEFT_OUT = ("damping", "friction", "limits")
"""Physics of the description that the test of integrators leaves out."""
_RADIUS, _PRESS, _MU = 0.02, 10.0, 0.5
_SLIDING = "friction while sliding"
"""Name of the claim on a contact that slides."""
_FALL = 1e-3
"""Way of the ball to the stiff springs, m."""
_MOST_SITES = 8
"""Points of contact in a drop: those of the shapes that touch first."""


def certify_integrator(context: Context) -> None:
    """Step 9: order, energy and stability of an integrator on this robot, at its step."""
    robot, recorder, settings = context.robot, context.recorder, context.settings
    if robot.singular_joints:
        joints = ", ".join(robot.singular_joints)
        raise NotApplicable(f"M is singular at {joints}: nothing can be integrated")
    dt = settings.dt or _DT
    names = (settings.integrator,) if settings.integrator else _CANDIDATES
    # losses bound the error from below whatever the integrator, that of the reference too
    choices: dict[str, Any] = {"integrators": names, "without": _LEFT_OUT, "seed": settings.seed}
    found = certify(robot, dt, **choices, on_step=context.on_step)
    longest = max((x for row in found.rows if (x := row.longest(_INNER_LOOP)) > 0.0), default=dt)
    if settings.dt is None and longest < dt:
        # motions that part fast, as those of a double pendulum do, ask for a shorter step
        dt = longest
        found = certify(robot, dt, **choices, on_step=context.on_step)
    for row in found.rows:
        recorder.trace(f"integrator/{row.name}", {"dt": row.dts, "error": row.errors}, {"dt": "s"})
        recorder.trace(f"integrator/{row.name}/energy", {"time": found.time, "error": row.energy})
    good = [row for row in found.rows if row.longest(_INNER_LOOP) >= dt]
    chosen = good[0] if good else found.rows[-1]
    asked = "asked for" if settings.integrator else "chosen"
    limit = f"fastest mode {found.frequency:.3g} rad/s" if found.frequency else "no oscillation"
    recorder.claim(
        "integrator",
        f"error of {chosen.name} ({asked}) at {dt:g} s over half a second",
        value=float(chosen.longest(_INNER_LOOP)),
        relation="≥",
        bound=dt,
        unit="s",
        detail=f"longest step tried for {_INNER_LOOP:g} rad or m, no losses; {limit}",
        fix="a shorter --dt, or rk4: `qddot integrators FILE` compares all",
        label="evaluation",
    )
    recorder.metric("energy_error", "final", f"integrator/{chosen.name}/energy.error")
    recorder.claim(
        "energy of a free swing",
        f"energy gained in a second with {chosen.name}, no losses, share of the peak kinetic one",
        value=float(chosen.trend),
        relation="≤",
        bound=_GAIN,
        unit="1/s",
        detail="a simulation that gains energy blows up in the end",
        fix="a symplectic or implicit integrator (semi_implicit, implicit_midpoint)",
        label="evaluation",
        cause="integrator gains energy",
    )
    if math.isnan(chosen.stable):
        context.skip("stability", "longest stable step about rest", "it does not swing about rest")
    else:
        recorder.claim(
            "stability",
            "longest stable step about rest, half of it for faster motions",
            value=0.5 * min(chosen.stable, 1e3),
            relation="≥",
            bound=dt,
            unit="s",
            fix="a shorter --dt or an implicit integrator",
            label="evaluation",
        )


def probe_contact(context: Context) -> None:
    """Step 10: free motion, then contact: penetration, cone, energy, friction while sliding."""
    robot = context.robot
    if robot.model.loops:
        raise NotApplicable("contact of a robot with loops: use qddot.simulate.MujocoPlant")
    if robot.singular_joints:
        raise NotApplicable(f"M is singular at {', '.join(robot.singular_joints)}")
    _check_free_motion(context)
    if context.floats:
        _drop(context)
    else:
        _press(context)
    _judge_springs(context)


def _check_free_motion(context: Context) -> None:
    """A free swing of a second with rk4, without losses and limits: energy is kept."""
    robot = context.robot
    q0 = robot.random(np.random.default_rng([context.settings.seed, 4]))
    motion = rollout(
        robot,
        q0,
        np.zeros(robot.nv),
        dt=_DT,
        steps=1000,
        every=10,
        integrator="rk4",
        without="passive",
        record=True,
    )
    kinetic = robot.kinetic_energy(motion.q, motion.v)
    total = kinetic + robot.potential_energy(motion.q)
    peak = max(float(np.max(kinetic)), 1e-9)
    names, (length, speed, _) = robot.model.velocity_names, joint_units(robot.model.angular)
    context.measure(
        "free_motion",
        "largest_magnitude",
        {
            "time": motion.time,
            "q": motion.q,
            "v": motion.v,
            "energy_error": (total - total[0]) / peak,
        },
        ("energy_error",),
        units={"time": "s", "q": length, "v": speed, "joints": ",".join(names)},
    )
    context.recorder.claim(
        "free motion",
        "energy over a second without torques, losses and limits, share of the peak kinetic one",
        metric="free_motion",
        relation="<",
        bound=1e-3,
        fix="a shorter step: `qddot integrators FILE`",
        label="evaluation",
    )


def _contact_claims(context: Context, motion: Rollout, weight: float) -> None:
    """Penetration, cone and energy of a motion with contact."""
    recorder, ledger = context.recorder, contact_ledger(motion)
    energy = energy_ledger(motion)
    recorder.trace(
        "contact",
        {
            "time": motion.time,
            "gap": ledger.gap.min(axis=-1),
            "normal_force": ledger.normal_force.sum(axis=-1),
            "cone_ratio": ledger.cone_ratio.max(axis=-1),
            "slip": ledger.slip.max(axis=-1),
            "q": motion.q,
            "energy": energy.total,
        },
        {"gap": "m", "normal_force": "N", "slip": "m/s", "energy": "J", "time": "s"},
    )
    recorder.metric("contact/gap", "smallest", "contact.gap", unit="m")
    recorder.metric("contact/cone", "largest", "contact.cone_ratio")
    recorder.claim(
        "penetration",
        "smallest gap between bodies",
        metric="contact/gap",
        relation=">",
        bound=-1e-3,
        fix="a shorter step, or complementarity instead of springs",
        label="contact",
    )
    recorder.claim(
        "friction cone",
        "‖f_t‖ / (μ f_n), largest",
        metric="contact/cone",
        relation="≤",
        bound=1.0 + 1e-6,
        fix="more sweeps of ComplementarityContact",
        label="contact",
    )
    gained = float(np.max(energy.residual)) / max(weight, 1e-9)
    recorder.claim(
        "energy in contact",
        "energy that nothing accounts for, as a height of fall",
        value=gained,
        relation="<",
        bound=2e-3,
        unit="m",
        fix="a shorter step; contact that gains energy throws the robot up",
        label="contact",
    )


def _press(context: Context) -> None:
    """A ball at the tip pressed on a table, then pushed along it: forces are those of Coulomb."""
    robot, recorder = context.robot, context.recorder
    frame, start = tip_frame(robot), _bent_pose(robot)
    height = float(robot.frame_pose(start, frame)[2, 3]) - _RADIUS
    ball = Sphere(frame, radius=_RADIUS, name="ball")
    scene = Scene(planes=[Plane(point=(0.0, 0.0, height))], spheres=[ball], friction=_MU)
    law = ComplementarityContact(scene, limits=False)
    point = _ball_jacobian(robot, start, frame)
    hold = robot.gravity(start)
    settings: dict[str, Any] = {
        "dt": 5e-4,
        "integrator": "semi_implicit",
        "without": "passive",
        "contact": law,
        "record": True,
    }

    def push(sideways: float, steps: int) -> Rollout:
        tau = hold + point.T @ np.array([sideways, 0.0, -_PRESS])
        return rollout(robot, start, np.zeros(robot.nv), tau, steps=steps, **settings)

    still = push(0.0, 200)
    weight = float(robot.model.mass) * 9.81
    _contact_claims(context, still, weight)
    recorder.metric("contact/force", "mean", "contact.normal_force", unit="N")
    reach = np.linalg.norm(point[2])
    if reach < 1e-6:
        reason = "the tip cannot press downwards here"
        context.skip("force", "normal force against the press", reason)
        context.skip(_SLIDING, "contact while it slides", reason)
        return
    recorder.claim(
        "force",
        f"mean normal force against {_PRESS:g} N that is pressed, relative",
        value=abs(recorder.metrics["contact/force"].value / _PRESS - 1.0),
        relation="<",
        bound=0.05,
        fix="the Jacobian of the tip, or a contact that is lost",
        label="contact",
    )
    # along the direction in which the push does not lift the tip off the table
    mobility = point @ np.linalg.solve(robot.mass_matrix(start), point.T)
    along = -1.0 if mobility[0, 2] > 0.0 else 1.0
    sliding = contact_ledger(push(along * 2.0 * _MU * _PRESS, 40))
    moving = sliding.slip[:, 0] > 1e-3
    if moving.sum() < 5:
        context.skip(_SLIDING, "contact while it slides", "the tip cannot slide here")
        return
    recorder.trace(
        "sliding",
        {"slip": sliding.slip[moving, 0], "ratio": sliding.cone_ratio[moving, 0],
         "normal_force": sliding.normal_force[moving, 0]},
    )  # fmt: skip
    recorder.metric("sliding", "smallest", "sliding.ratio")
    recorder.claim(
        _SLIDING,
        "‖f_t‖ / (μ f_n) while it slides: 1 by Coulomb, 0 where contact is lost",
        metric="sliding",
        relation="≥",
        bound=0.999,
        fix="a contact that lifts off while it slides: in MuJoCo solreffriction and impratio",
        label="contact",
    )


def _bent_pose(robot: Robot) -> np.ndarray:
    """A pose within the limits that is not straight: the least conditioned of some random ones."""
    poses = robot.random(np.random.default_rng(0), 64)
    frame = tip_frame(robot)
    J = robot.frame_jacobian(poses, frame, "local_world_aligned")[:, :3]
    spread = np.linalg.svd(J, compute_uv=False)
    return poses[int(np.argmax(spread[:, -1] + 1e-3 * spread[:, 0]))]


def _ball_jacobian(robot: Robot, q: np.ndarray, frame: str) -> np.ndarray:
    """Velocity of the lowest point of the ball at a frame, by joint velocities."""
    J = robot.frame_jacobian(q, frame, "local_world_aligned")
    down = np.array([0.0, 0.0, -_RADIUS])
    return J[:3] + np.cross(J[3:].T, down).T


def _drop(context: Context) -> None:
    """A floating robot dropped from 2 cm on level ground, by the shapes of its file."""
    robot = context.robot
    scene = Scene.from_file(context.source, friction=_MU)
    moving = [x for x in scene.solids if x.frame and robot.model.frame(x.frame).body != WORLD]
    if not moving:
        raise NotApplicable(
            "its file has no collision shape that moves and is a sphere, capsule or box"
        )
    named = robot.configurations
    start = np.array(named.get("home", next(iter(named.values()), robot.neutral())), float)
    # the shapes that touch first, so that steps stay small
    poses = world_poses(robot.model, joint_kinematics(robot.model, start.tolist())[0])
    ground = dataclasses.replace(scene, pairs=[(x.name, scene.planes[0].name) for x in moving])
    gaps: dict[str, float] = {}
    counts: Counter[str] = Counter()
    for site in find_sites(ground, robot.model):
        shape, gap = site.pair.first, float(site.find(poses).gap)
        gaps[shape] = min(gap, gaps.get(shape, math.inf))
        counts[shape] += 1
    ordered = sorted(gaps, key=lambda name: gaps[name])
    total = np.cumsum([counts[name] for name in ordered])
    lowest = ordered[: max(1, int(np.searchsorted(total, _MOST_SITES, side="right")))]
    scene = dataclasses.replace(scene, pairs=[(x, scene.planes[0].name) for x in lowest])
    base = next(b for b in robot.model.bodies if b.joint.kind.floats)
    start[base.iq.start + 2] += 0.02 - min(gaps.values())
    motion = rollout(
        robot, start, np.zeros(robot.nv), dt=1e-3, steps=300, every=1, integrator="semi_implicit",
        contact=ComplementarityContact(scene, limits=False), without="passive", record=True,
    )  # fmt: skip
    _contact_claims(context, motion, float(robot.model.mass) * 9.81)
    context.skip(_SLIDING, "contact while it slides", "tested where a tip can be pressed")


def _judge_springs(context: Context) -> None:
    """The user's integrator and step on stiff springs: a ball at the tip falls and is pressed."""
    settings, robot = context.settings, context.robot
    if settings.integrator is None and settings.dt is None:
        return
    dt, integrator = settings.dt or _DT, settings.integrator or "semi_implicit"
    frame = tip_frame(robot)
    start = robot.neutral() if context.floats else _bent_pose(robot)
    point = _ball_jacobian(robot, start, frame)
    inverse = float(point[2] @ np.linalg.solve(robot.mass_matrix(start), point[2]))
    if inverse <= 1e-12:
        context.skip("stiff contact", "step on stiff springs", "the tip cannot move vertically")
        return
    ground = float(robot.frame_pose(start, frame)[2, 3]) - _RADIUS - _FALL
    scene = Scene(
        planes=[Plane(point=(0.0, 0.0, ground))],
        spheres=[Sphere(frame, radius=_RADIUS)],
        friction=_MU,
    )
    law = PenaltyContact.hard(scene)
    # all is held but a force that moves the tip over the fall in a hundredth of a second
    force = 2.0 * _FALL / 0.01**2 / inverse
    tau = robot.gravity(start) + point.T @ np.array([0.0, 0.0, -force])
    motion = rollout(
        robot,
        start,
        np.zeros(robot.nv),
        tau,
        dt=dt,
        steps=max(20, round(0.1 / dt)),
        integrator=integrator,
        without="passive",
        effects=[law],
    )
    kinetic, potential = robot.kinetic_energy(motion.q, motion.v), robot.potential_energy(motion.q)
    # held torques are constant, so that their work follows from the displacement alone
    work = robot.difference(motion.q[:1], motion.q) @ tau
    gained = kinetic + potential - potential[0] - work
    context.recorder.trace(
        "stiff_contact",
        {
            "time": motion.time,
            "q": motion.q,
            "v": motion.v,
            "tau": np.broadcast_to(tau, motion.v.shape),
            "gained": gained / (force * _FALL),
        },
        {"time": "s", "q": "rad, m", "v": "rad/s, m/s", "tau": "N m, N"},
    )
    context.recorder.metric("stiff_contact", "largest", "stiff_contact.gained")
    context.recorder.claim(
        "stiff contact",
        f"energy gained on springs of 10⁷ N/m at {frame} with {integrator} and steps of {dt:g} s, "
        "share of that of the impact",
        metric="stiff_contact",
        relation="<",
        bound=0.1,
        detail="semi_implicit would be stable up to steps of "
        f"{law.largest_step(1.0 / inverse):.2g} s",
        fix="complementarity contact, or a shorter step",
        label="contact",
        cause="explicit integrator on stiff contact",
    )
