"""Steps 7, 8, 11, 12, 14 and 15: what needs hardware, real by its log or virtual."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from qddot.evidence.record import Verdict
from qddot.pipeline.context import Context, NotApplicable
from qddot.pipeline.virtual import RATE, Law, VirtualHardware, VirtualLog, fourier_motion, rest_pose
from qddot.robot.robot import Robot

__all__ = [
    "build_controllers",
    "calibrate_friction",
    "identify_parameters",
    "perturb_plant",
    "vary_latency",
    "verify_on_log",
]

_OMEGA = 20.0
"""Bandwidth of the laws, rad/s."""
_BASELINE = 0.05
"""RMS error (rad or m) up to which the baseline tracks."""
_SLOW = 0.4
_LATENCY = 0.003


def identify_parameters(context: Context) -> None:
    """Step 7: excitation, log, base parameters, validation on a part that was held out."""
    raise NotApplicable("identification is not part of this installation")


def calibrate_friction(context: Context) -> None:
    """Step 8: viscous and Coulomb friction by joint."""
    raise NotApplicable("identification is not part of this installation")


def _gains(robot: Robot, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Stiffness and damping by joint: the bandwidth on the diagonal of M."""
    inertia = np.diagonal(robot.mass_matrix(q))
    return _OMEGA**2 * inertia, 2.0 * _OMEGA * inertia


def _laws(robot: Robot, motion: Callable[..., Any]) -> dict[str, Law]:
    """Gravity compensation with PD, and computed torque, about a motion."""
    kp, kd = _gains(robot, rest_pose(robot))

    def baseline(t: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        qd, vd, _ = motion(t)
        return robot.gravity(q) + kp * (qd - q) + kd * (vd - v)

    def computed(t: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        qd, vd, ad = motion(t)
        a = ad + _OMEGA**2 * (qd - q) + 2.0 * _OMEGA * (vd - v)
        return robot.inverse_dynamics(q, v, a)

    return {"baseline": baseline, "computed_torque": computed}


def _track(
    context: Context,
    name: str,
    law: Law,
    motion: Callable[..., Any],
    seconds: float,
    hardware: VirtualHardware | None = None,
    delay: int | None = None,
) -> float:
    """A motion of the virtual hardware under a law; the RMS tracking error."""
    hardware = hardware or context.hardware
    q0, v0, _ = motion(0.0)
    log: VirtualLog = hardware.run(law, q0, v0, seconds, delay=delay, every=5, stream=len(name))
    reference, _, _ = motion(log.time)
    context.recorder.trace(
        name,
        {
            "time": log.time,
            "q": log.q,
            "reference": reference,
            "tau": log.tau,
            "error": log.q - reference,
        },
        {"time": "s", "q": "rad, m", "error": "rad, m", "tau": "N m, N"},
        frame="joints of the virtual hardware",
    )
    full = len(log.time) >= 0.99 * seconds * RATE / 5
    value = context.recorder.metric(name, "rms", f"{name}.error", unit="rad, m")
    return value if full else float("nan")


def build_controllers(context: Context) -> None:
    """Step 11: gravity compensation with PD first; computed torque once the baseline tracks."""
    recorder, robot = context.recorder, context.robot
    if not np.isfinite(context.hardware.delay):
        raise NotApplicable("no hardware")
    pose = rest_pose(robot)

    def still(t: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        q = np.broadcast_to(pose, (*np.shape(t), robot.nv))
        return q, np.zeros_like(q), np.zeros_like(q)

    motion = fourier_motion(robot, context.settings.seed, period=5.0, speed=_SLOW)
    context.on_step("hold", 0, 3)
    _track(context, "control/hold", _laws(robot, still)["baseline"], still, 1.5)
    recorder.claim(
        "hold (virtual)",
        "gravity compensation + PD on virtual hardware, RMS error at rest",
        metric="control/hold",
        relation="<",
        bound=_BASELINE,
        fix="gravity in another frame or sign, or masses far off: steps 2 and 4",
        label="control",
    )
    laws = _laws(robot, motion)
    context.on_step("baseline", 1, 3)
    _track(context, "control/baseline", laws["baseline"], motion, 5.0)
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
    _track(context, "control/computed", laws["computed_torque"], motion, 5.0)
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


def verify_on_log(context: Context) -> None:
    """Step 12: torques of a log against those of the model."""
    raise NotApplicable("identification is not part of this installation")


def perturb_plant(context: Context) -> None:
    """Step 14: the same law where links are 10 % heavier than on the virtual hardware."""
    robot, hardware = context.robot, context.hardware
    heavier = hardware.truth.with_parameters(1.1 * hardware.truth.inertial_parameters)
    motion = fourier_motion(robot, context.settings.seed, period=5.0, speed=_SLOW)
    law = _laws(robot, motion)["computed_torque"]
    changed = dataclasses.replace(hardware, truth=heavier)
    _track(context, "perturbation", law, motion, 5.0, hardware=changed)
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
    robot = context.robot
    motion = fourier_motion(robot, context.settings.seed, period=5.0, speed=_SLOW)
    law = _laws(robot, motion)["computed_torque"]
    _track(context, "latency", law, motion, 5.0, delay=round(_LATENCY * RATE))
    context.recorder.claim(
        "latency (virtual)",
        f"computed torque with {1e3 * _LATENCY:g} ms of delay, RMS error",
        metric="latency",
        relation="<",
        bound=2.0 * _BASELINE,
        detail=f"bandwidth {_OMEGA:g} rad/s, product with the delay {_OMEGA * _LATENCY:.2g}",
        fix="a lower bandwidth: ω T < 0.3, or less delay",
        label="control",
    )
