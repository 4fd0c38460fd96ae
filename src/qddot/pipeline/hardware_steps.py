"""Steps 7, 8, 11, 12, 14 and 15: what needs hardware, real by its log or virtual."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from qddot.control import PD, ComputedTorque, State
from qddot.control.gains import joint_gains
from qddot.control.law import Law, evaluate_law
from qddot.control.wrappers import FrictionCompensation
from qddot.display.text import joint_units
from qddot.evidence.record import Verdict
from qddot.identify import Log, Validation, budget, validate
from qddot.pipeline.context import BANDWIDTH, Context
from qddot.pipeline.doctor import examine_log
from qddot.pipeline.virtual import DELAY, RATE, Motion, VirtualHardware, fourier_motion, rest_pose
from qddot.robot.robot import Robot

__all__ = [
    "build_controllers",
    "calibrate_friction",
    "identify_parameters",
    "latency_budget",
    "perturb_plant",
    "vary_latency",
    "verify_on_log",
]

_BASELINE = 0.05
"""RMS error (rad or m) up to which the baseline tracks."""
_SLOW, _SECONDS = 0.4, 5.0
_LATENCY = 0.003
_RESIDUAL = 0.05
_NO_FRICTION = 1e-3
"""Share of the torque below which there is no friction to speak of."""
_LOST = 0.3
"""Share of what remains of the torque below which friction is lost in it."""
_MOST_CAUSES = 2
"""Mistakes of a log that are named, the most likely first."""
_EVERY = 5
"""Control cycles between two samples of a recorded motion."""


def latency_budget() -> dict[str, float]:
    """Times between measurement and torque (s), and the longest that the bandwidth allows."""
    return {
        "control cycle": 1.0 / RATE,
        "virtual hardware": DELAY / RATE,
        "tested with": _LATENCY,
        "largest for the bandwidth": 0.3 / BANDWIDTH,
    }


def identify_parameters(context: Context) -> None:
    """Step 7: excitation, log, base parameters, validation on a part that was held out."""
    if context.settings.log is not None:
        _question_log(context)
    recorder, fit, tag = context.recorder, context.fit, context.tag
    _, held_out = context.log.split(2 / 3)
    found = validate(fit, held_out, context.on_step)
    joints = [j.name for j in found.joints]
    recorder.trace(
        "identification/residuals",
        {
            "factory": [j.before for j in found.joints],
            "identified": [j.relative for j in found.joints],
        },
        labels=joints,
    )
    _record_torques(context, "identification", held_out, found)
    spent = budget(fit, held_out, context.on_step)
    recorder.trace(
        "torque_budget",
        {t: np.sqrt(np.mean(x**2, axis=0)) for t, x in zip(spent.terms, spent.parts, strict=True)},
        dict.fromkeys(spent.terms, joint_units(context.robot.model.angular)[2]),
        joints,
    )
    recorder.trace(
        "identification/parameters",
        {"parameters": np.array(context.identified_robot.model.parameters, float)},
        {"parameters": "kg, kg m, kg m²"},
        context.robot.body_names,
    )
    determined, rank = int(np.sum(_certain_parameters(context))), fit.design.base.rank
    # the motion of virtual hardware is our own: that it says little is no fault of the robot
    short = context.settings.log is None and determined < 0.5 * rank
    recorder.claim(
        f"excitation{tag}",
        "base parameters whose 95 % interval is smaller than they are, or changes no torque of "
        f"random states by {100 * _RESIDUAL:g} %, share of all",
        value=determined / max(rank, 1),
        relation="≥",
        bound=0.5,
        verdict=Verdict.NOT_EVALUATED if short else None,
        detail=f"{determined} of {rank} base parameters from {context.log.duration:.3g} s",
        fix="a longer motion (--duration) with more joints moving at once (`qddot identify plan`)",
        label="planning",
    )
    recorder.claim(
        f"held-out validation{tag}",
        f"measured less predicted torque of the last third of {context.log.source}, relative",
        metric="identification/residual",
        relation="<",
        bound=_RESIDUAL,
        detail=f"{100 * found.before:.3g} % with the file as it is",
        fix="another robot's log, a sign or swapped joints: `qddot identify inspect`",
        label="model",
    )
    _judge_overfit(context, found)


def _judge_overfit(context: Context, found: Validation) -> None:
    """Whether the errors of the part that was held out are larger than those of training."""
    # joints with little noise can be worse where all together are better
    worse = found.total > found.trained
    context.recorder.claim(
        f"no over-fit{context.tag}",
        "held-out error against that of training",
        verdict=Verdict.FAIL if found.overfit and worse else Verdict.PASS,
        detail=f"{100 * found.trained:.3g} % in training",
        fix="a longer log, or fewer friction terms",
        label="model",
    )


def _certain_parameters(context: Context) -> np.ndarray:
    """Mask of base parameters that the log tells, zeros among them.

    The interval of a parameter that is zero is never smaller than it is: such a one is certain
    where all of its interval changes next to no torque at random states.
    """
    fit, at = context.fit, context.states
    columns = fit.model.regressor(at.q, at.v, at.a)[..., fit.design.base.independent]
    torque = np.sqrt(np.mean(context.robot.inverse_dynamics(at.q, at.v, at.a) ** 2, axis=0))
    effect = np.sqrt(np.mean(columns**2, axis=0)) * fit.half_widths
    harmless = (effect <= _RESIDUAL * torque[:, None]).all(axis=0)
    return np.asarray(fit.is_determined | (harmless & ~fit.blind))


def _record_torques(context: Context, name: str, log: Log, found: Validation) -> None:
    """Keep measured and predicted torques of a log, and the share that remains."""
    joints = ",".join(j.name for j in found.joints)
    force = joint_units(context.robot.model.angular)[2]
    context.recorder.trace(
        f"{name}/torques",
        {
            "time": log.time[found.residuals.index],
            "measured": found.residuals.tau,
            "predicted": found.residuals.predicted,
        },
        {"time": "s", "measured": force, "predicted": force, "joints": joints},
        frame=f"joints, filtered at {found.bandwidth:.3g} Hz",
    )
    operands = f"{name}/torques.measured", f"{name}/torques.predicted"
    context.recorder.metric(f"{name}/residual", "relative_rms", *operands)


def _question_log(context: Context) -> None:
    """Ask the doctor about the log of a user before a model is fitted to its mistakes."""
    found = examine_log(context.robot, context.log, on_step=context.on_step)
    for d in found.mistakes[:_MOST_CAUSES]:
        context.recorder.claim(
            d.cause,
            d.symptom,
            verdict=Verdict.FAIL,
            detail=d.evidence,
            fix=d.fix,
            label="evaluation",
            cause=d.cause,
        )
    # what only the log detective suspects is said, and decides nothing
    for s in found.doubts:
        context.recorder.claim(
            f"no {s.kind} {' '.join(s.joints)}".strip(),
            "the log with the nominal model",
            verdict=Verdict.NOT_EVALUATED,
            detail=f"suspected: {s}",
        )
    if not found.mistakes and not found.doubts:
        context.recorder.claim(
            "the log is of this robot",
            "signs, order, delay, gravity, payload of the log against the file",
            verdict=Verdict.PASS,
        )


def calibrate_friction(context: Context) -> None:
    """Step 8: viscous and Coulomb friction by joint, and what they explain."""
    recorder, fit = context.recorder, context.fit
    drives = [fit.drive(j) for j in range(context.robot.nv)]
    recorder.trace(
        "friction",
        {name: [d[name] for d in drives] for name in ("friction", "damping", "armature")},
        {"friction": "N m, N", "damping": "N m s/rad", "armature": "kg m²"},
        context.robot.joint_names,
    )
    # torques of the whole log by the identified bodies, with and without friction
    log, robot = context.log, context.identified_robot
    rows = np.arange(0, len(log), max(1, len(log) // 2000))
    speeds = log.v if log.v is not None else np.gradient(log.q, log.time, axis=0)
    # ends are continued by their first and last speed
    padded = np.pad(speeds, ((10, 10), (0, 0)), mode="edge")
    smooth = np.apply_along_axis(np.convolve, 0, padded, np.ones(21) / 21, mode="valid")
    q, v, a = log.q[rows], speeds[rows], np.gradient(smooth, log.time, axis=0)[rows]
    bare = robot.inverse_dynamics(q, v, a)
    full = robot.inverse_dynamics(q, v, a, friction=True)
    measured = log.tau[rows]
    recorder.trace(
        "friction/torques",
        {"time": log.time[rows], "rest": measured - full, "rest_without": measured - bare},
        {"time": "s", "rest": "N m, N", "rest_without": "N m, N"},
    )
    recorder.metric(
        "friction/share", "ratio_of_rms", "friction/torques.rest", "friction/torques.rest_without"
    )
    _judge_friction(context, measured, bare, full)
    if context.settings.log is None:
        return
    # virtual hardware never has the friction of the file; the user's robot should
    file = context.robot.inverse_dynamics(q, v, a, friction=True)
    stated = file - context.robot.inverse_dynamics(q, v, a)
    recorder.trace(
        "friction/file",
        {"time": log.time[rows], "missing": full - bare - stated, "measured": measured},
        {"time": "s", "missing": "N m, N", "measured": "N m, N"},
    )
    recorder.metric(
        "friction/missing", "ratio_of_rms", "friction/file.missing", "friction/file.measured"
    )
    recorder.claim(
        "friction of the file",
        "friction of the log less that of the file, share of the torque",
        metric="friction/missing",
        relation="<",
        bound=_RESIDUAL,
        fix="write the friction of the trace `friction` into the file: `qddot identify fit`",
        label="model",
        cause="friction not modelled",
    )


def _judge_friction(
    context: Context, measured: np.ndarray, bare: np.ndarray, full: np.ndarray
) -> None:
    """Whether friction explains what rigid bodies leave, where there is enough of it."""
    coulomb = [context.fit.drive(j)["friction"] for j in range(context.robot.nv)]
    worst = int(np.argmax(coulomb))
    compared = "torque that remains with friction over that without, same bodies"
    friction, rest, size = (
        np.sqrt(np.mean(x**2)) for x in (full - bare, measured - full, measured)
    )
    # friction that is lost in what remains cannot make it less
    lost = friction < max(_NO_FRICTION * size, _LOST * rest)
    if lost and not context.recorder.metrics["friction/share"].value <= 1.0:
        reason = (
            f"friction is {100 * friction / size:.2g} % of the torque, and {100 * rest / size:.2g} "
            "% remain: there is none to be explained"
        )
        context.skip(f"friction{context.tag}", compared, reason)
    else:
        context.recorder.claim(
            f"friction{context.tag}",
            compared,
            metric="friction/share",
            relation="≤",
            bound=1.0,
            detail=f"largest Coulomb friction {coulomb[worst]:.3g} N m at "
            f"{context.robot.joint_names[worst]}",
            fix="slow sweeps at constant speed in both directions (`qddot identify friction`)",
            label="model",
        )


def _laws(robot: Robot, compensated: bool) -> dict[str, Law]:
    """Gravity compensation with PD, and computed torque, with the friction of the robot."""
    gains = joint_gains(robot, BANDWIDTH, q=rest_pose(robot), inertia="free")
    laws: dict[str, Law] = {
        "baseline": PD(kp=gains.kp, kd=gains.kd, gravity=True),
        "computed": ComputedTorque(kp=BANDWIDTH**2, kd=2.0 * BANDWIDTH),
    }
    if compensated:
        drives = [b.joint.drivetrain for b in robot.model.independent]
        laws["computed"] = FrictionCompensation(
            laws["computed"],
            coulomb=np.array([d.friction for d in drives], float),
            viscous=np.array([d.damping for d in drives], float),
            smoothing=0.02,
        )
    return laws


def _track(
    context: Context,
    name: str,
    law: Law,
    motion: Motion,
    seconds: float = _SECONDS,
    hardware: VirtualHardware | None = None,
    delay: int | None = None,
) -> float:
    """A motion of the virtual hardware under a law; the RMS tracking error."""
    hardware, robot = hardware or context.hardware, context.identified_robot
    q0, v0, _ = motion(0.0)
    memory: dict[str, Any] = dict(law.memory(robot))

    def command(t: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        nonlocal memory
        names = law.references(robot)
        reference = dict(zip(("q_ref", "v_ref", "a_ref"), motion(t), strict=True))
        state = State(q, v, 1.0 / RATE, t)
        asked = {key: reference[key] for key in names}
        tau, memory = evaluate_law(robot, law, state, asked, memory)
        return tau

    log = hardware.run(command, q0, v0, seconds, delay=delay, every=_EVERY, stream=name)
    reference, _, _ = motion(log.time)
    # a plant that has blown up ends early: what is missing counts as no number
    missing = round(seconds * RATE / _EVERY) - len(log.time)
    error = np.pad(log.q - reference, ((0, max(missing, 0)), (0, 0)), constant_values=np.nan)
    time = np.arange(len(error)) * _EVERY / RATE
    length, _, force = joint_units(robot.model.angular)
    grown = [
        np.pad(x, ((0, max(missing, 0)), (0, 0)), constant_values=np.nan) for x in (log.q, log.tau)
    ]
    context.recorder.trace(
        name,
        {
            "time": time,
            "q": grown[0],
            "reference": motion(time)[0],
            "tau": grown[1],
            "error": error,
        },
        {"time": "s", "q": length, "error": length, "tau": force},
        frame="joints of the virtual hardware",
    )
    return context.recorder.metric(name, "rms", f"{name}.error", unit=length)


def build_controllers(context: Context) -> None:
    """Step 11: gravity compensation with PD first; computed torque once the baseline tracks."""
    recorder, robot, _ = context.recorder, context.identified_robot, context.hardware
    pose = rest_pose(robot)

    def still(t: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        q = np.broadcast_to(pose, (*np.shape(t), robot.nv))
        return q, np.zeros_like(q), np.zeros_like(q)

    laws, motion = _laws(robot, compensated=True), _slow_motion(context)
    context.on_step("hold", 0, 3)
    _track(context, "control/hold", laws["baseline"], still, 1.5)
    recorder.claim(
        "hold (virtual)",
        "gravity compensation + PD on virtual hardware, RMS error at rest",
        metric="control/hold",
        relation="<",
        bound=_BASELINE,
        fix="gravity in another frame or sign, or masses far off: steps 2 and 4",
        label="control",
    )
    context.on_step("baseline", 1, 3)
    _track(context, "control/baseline", laws["baseline"], motion)
    baseline = recorder.claim(
        "baseline tracks (virtual)",
        "gravity compensation + PD on virtual hardware, RMS error of a slow motion",
        metric="control/baseline",
        relation="<",
        bound=_BASELINE,
        fix="stiffer gains, friction compensation (step 8), or identification (step 7)",
        label="control",
    )
    if baseline.verdict is not Verdict.PASS:
        context.skip(
            "computed torque (virtual)", "after the baseline", "the baseline does not track yet"
        )
        return
    context.on_step("computed torque", 2, 3)
    _track(context, "control/computed", laws["computed"], motion)
    recorder.metric(
        "control/gain", "ratio_of_rms", "control/computed.error", "control/baseline.error"
    )
    recorder.claim(
        "computed torque (virtual)",
        "RMS error of computed torque over that of the baseline, same motion and hardware",
        metric="control/gain",
        relation="≤",
        bound=1.0,
        fix="a model that is worse than none: identification (step 7)",
        label="control",
    )


def _slow_motion(context: Context) -> Motion:
    """A slow periodic motion, another than that of identification."""
    return fourier_motion(context.robot, context.settings.seed + 1, _SECONDS, speed=_SLOW)


def verify_on_log(context: Context) -> None:
    """Step 12: torques of a low-speed motion of the hardware against those of the model."""
    recorder, tag = context.recorder, context.tag
    log = context.verification_log
    found = validate(context.fit, log, context.on_step)
    _record_torques(context, "hardware", log, found)
    recorder.claim(
        f"τ against τ_model{tag}",
        f"torques of {log.source} against the identified model, relative",
        metric="hardware/residual",
        relation="<",
        bound=_RESIDUAL,
        detail=f"{100 * found.before:.3g} % with the file as it is",
        fix="identify again with this payload and temperature; `qddot doctor RECORD`",
        label="model",
    )


def perturb_plant(context: Context) -> None:
    """Step 14: the same law where links are 10 % heavier than on the virtual hardware."""
    hardware = context.hardware
    heavier = hardware.truth.with_parameters(1.1 * hardware.truth.inertial_parameters)
    changed = dataclasses.replace(hardware, truth=heavier)
    law = _laws(context.identified_robot, compensated=True)["computed"]
    _track(context, "perturbation", law, _slow_motion(context), hardware=changed)
    context.recorder.claim(
        "perturbation (virtual)",
        "computed torque with every link 10 % heavier, RMS error",
        metric="perturbation",
        relation="<",
        bound=2.0 * _BASELINE,
        fix="an integral or adaptive term, or identification with the payload",
        label="control",
    )


def vary_latency(context: Context) -> None:
    """Step 15: the same law with 3 ms between measurement and torque."""
    law, _ = _laws(context.identified_robot, compensated=True)["computed"], context.hardware
    delay = round(_LATENCY * RATE)
    _track(context, "latency", law, _slow_motion(context), delay=delay)
    context.recorder.claim(
        "latency (virtual)",
        f"computed torque with {1e3 * _LATENCY:g} ms of delay, RMS error",
        metric="latency",
        relation="<",
        bound=2.0 * _BASELINE,
        detail=f"bandwidth {BANDWIDTH:g} rad/s, product with the delay {BANDWIDTH * _LATENCY:.2g}",
        fix="a lower bandwidth: ω T < 0.3, or less delay",
        label="control",
    )
