"""Diagnoses of sensors and drives in a log: clocks, encoders, gains, exchanged inertials."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from qddot.pipeline.diagnosis import Case, Diagnosis
from qddot.pipeline.log_torques import Hypothesis, LogTorques

__all__ = ["POUND", "SENSOR_DIAGNOSES", "SENSOR_HYPOTHESES"]

_JUMP = 5.0
"""Sample times from which a step of the clock is a gap."""
_FROZEN = 0.1
"""Seconds of a window in which an encoder is compared with its velocity."""
_MOVING = 0.01
"""Way (rad, m) in a window that an encoder which stands still has missed."""
_LEAST_FROZEN = 3
"""Windows with a frozen encoder from which it is one."""
_LEAST_GAIN, _MOST_GAIN = 0.15, 5.0
"""Change of a gain from which it is a mistake, and the largest gain that is looked for."""
_STEP, _ROUNDS = 1e-3, 4
"""Step (rad, m) of a derivative by a coordinate, and Newton steps to an offset."""
_LEAST_OFFSET, _MOST_OFFSET = 0.02, 2.0
"""Offsets (rad, m) of an encoder that are believed."""
_MOST_PAIRS = 200
"""Pairs of bodies that are tried with exchanged inertials."""
POUND = 0.45359237
"""Kilograms of a pound."""


def _find_clock_jump(case: Case) -> Diagnosis | None:
    """Steps of the clock across which the motion goes on as if nothing had happened."""
    steps = np.diff(case.time)
    if not case.measured or len(steps) < 20:
        return None
    dt = float(np.median(steps))
    absurd = next((x for x in case.statements if "absurd timestamp" in x), "")
    jumps = [
        k
        for k in np.flatnonzero(steps > _JUMP * dt)
        # over a true gap joints move on by their speed
        if np.all(np.abs(case.q[k + 1] - case.q[k]) < 0.1 * np.abs(case.v[k]) * steps[k] + 1e-4)
        and np.any(np.abs(case.v[k]) * steps[k] > _MOVING)
    ]
    if not jumps and not absurd:
        return None
    words = absurd
    if jumps:
        k = jumps[0]
        words = (
            f"the clock steps by {steps[k]:.4g} s at t = {case.time[k]:.4g} s, the joints do not"
        )
    return Diagnosis(
        cause="clock jump",
        symptom="times that do not belong to the motion",
        evidence=words,
        confidence=0.95,
        fix="stamp samples with a monotonic clock; number these by their rate",
    )


def _find_frozen_encoder(case: Case) -> Diagnosis | None:
    """Positions that stand still while the velocity of the joint says that it moves."""
    single = case.robot.nq == case.robot.nv
    if not case.measured or not single or int(case.sound.sum()) < 50:
        return None
    dt = float(np.median(np.diff(case.time)))
    width = max(int(_FROZEN / dt), 3)
    count = len(case.q) // width
    q, v = (x[: count * width].reshape(count, width, -1) for x in (case.q, case.v))
    ways = np.abs(v.mean(axis=1)) * width * dt
    still = (np.ptp(q, axis=1) < 1e-9) & (ways > _MOVING)
    stuck = np.flatnonzero(still.sum(axis=0) >= _LEAST_FROZEN)
    if not len(stuck):
        return None
    names = ", ".join(case.robot.joint_names[j] for j in stuck)
    missed = float(np.sum(ways * still, axis=0)[stuck].max())
    return Diagnosis(
        cause="frozen encoder",
        symptom="a position that does not change while its velocity is not zero",
        evidence=f"{names} stands still while its velocity is that of {missed:.3g} rad or m",
        confidence=0.96,
        fix="the encoder, its cable, or a driver that repeats its last value",
    )


SENSOR_DIAGNOSES = (_find_clock_jump, _find_frozen_encoder)
"""Mistakes that come alone: with them, any other symptom is a consequence."""


def _all_signs(at: LogTorques, plain: float) -> Iterator[Hypothesis]:
    """All torques with the other sign."""
    left = at.fit_residual(-at.tau, at.rigid)[0]
    yield Hypothesis(
        Diagnosis(
            cause="sign of all torques",
            symptom="all torques are those of the model with the other sign",
            evidence=f"with the other sign {100 * left:.2g} % of the torque remains, "
            f"{100 * plain:.2g} % as it is",
            confidence=0.0,
            fix="torques that the motors exert, not those that are exerted on them",
        ),
        left,
        1,
        at.noise_share(-at.tau),
    )


def _gains(at: LogTorques, plain: float) -> Iterator[Hypothesis]:
    """The torque of one joint in another scale."""
    for j, name in enumerate(at.robot.joint_names):
        column = np.zeros((*at.tau.shape, 1))
        column[:, j, 0] = at.tau[:, j]
        left, (share, *_), _ = at.fit_residual(at.tau, at.rigid, column)
        gain = 1.0 / (1.0 - share) if share < 1.0 else np.inf
        if not 1.0 / _MOST_GAIN < gain < _MOST_GAIN or abs(np.log(gain)) < _LEAST_GAIN:
            continue
        yield Hypothesis(
            Diagnosis(
                cause="gain of a torque",
                symptom="the torque of one joint is a multiple of that of the model",
                evidence=f"the torque at {name} is {gain:.3g} times that of the model: over that "
                f"{100 * left:.2g} % of the torque remains, {100 * plain:.2g} % as it is",
                confidence=0.0,
                fix="the torque constant, the gear ratio or the efficiency of that drive",
            ),
            left,
            1,
            at.noise,
        )


def _encoders(at: LogTorques, plain: float) -> Iterator[Hypothesis]:
    """The position of one joint with an offset, or counted the other way."""
    for j, name in enumerate(at.robot.joint_names):
        unit = np.eye(at.robot.nv)[j]
        shift = 0.0
        for _ in range(_ROUNDS):
            here, there = (at.model_torques(at.q + (shift + d) * unit) for d in (0.0, _STEP))
            slope = (there - here)[..., None] / _STEP
            shift += float(at.fit_residual(at.tau, here, slope)[1][0])
            shift = float(np.clip(shift, -_MOST_OFFSET, _MOST_OFFSET))
        if not _LEAST_OFFSET < abs(shift) < _MOST_OFFSET:
            continue
        left = at.fit_residual(at.tau, at.model_torques(at.q + shift * unit))[0]
        yield Hypothesis(
            Diagnosis(
                cause="offset of an encoder",
                symptom="torques are those of another pose",
                evidence=f"with {shift:+.3g} rad or m at {name} {100 * left:.2g} % of the torque "
                f"remains, {100 * plain:.2g} % as it is",
                confidence=0.0,
                fix="the zero of that encoder: home the joint again",
            ),
            left,
            1,
            at.noise,
        )
    for j, name in enumerate(at.robot.joint_names):
        sign = np.where(np.arange(at.robot.nv) == j, -1.0, 1.0)
        left = at.fit_residual(at.tau, at.model_torques(at.q * sign, at.v * sign, at.a * sign))[0]
        yield Hypothesis(
            Diagnosis(
                cause="sign of an encoder",
                symptom="torques are those of a motion the other way",
                evidence=f"with {name} counted the other way {100 * left:.2g} % of the torque "
                f"remains, {100 * plain:.2g} % as it is",
                confidence=0.0,
                fix="the sign of that encoder",
            ),
            left,
            2,
            at.noise,
        )


def _exchanged_inertials(at: LogTorques, plain: float) -> Iterator[Hypothesis]:
    """The inertials of two bodies exchanged in the file."""
    rows = np.asarray(at.robot.inertial_parameters, float)
    parts = at.regressor.reshape(*at.regressor.shape[:2], *rows.shape)
    for i, j in list(combinations(range(len(rows)), 2))[:_MOST_PAIRS]:
        change = (parts[:, :, i] - parts[:, :, j]) @ (rows[j] - rows[i])
        left = at.fit_residual(at.tau, at.rigid + change)[0]
        names = at.robot.body_names[i], at.robot.body_names[j]
        yield Hypothesis(
            Diagnosis(
                cause="inertials exchanged",
                symptom="no single mistake of the log makes the torques those of the model",
                evidence=f"with the inertials of {names[0]} and {names[1]} exchanged "
                f"{100 * left:.2g} % of the torque remains, {100 * plain:.2g} % as it is",
                confidence=0.0,
                fix="the <inertial> elements of both links in the file",
            ),
            left,
            1,
            at.noise,
        )


def _pounds(at: LogTorques, plain: float) -> Iterator[Hypothesis]:
    """Masses in pounds, with tensors that are right."""
    rows = np.array(at.robot.inertial_parameters, float)
    for k, row in enumerate(rows):
        if row[0] <= 0.0:
            continue
        c = row[1:4] / row[0]
        less = (POUND - 1.0) * row[0] * (c @ c * np.eye(3) - np.outer(c, c))
        rows[k, :4] *= POUND
        rows[k, 4:] += less[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    left = at.fit_residual(at.tau, at.body_torques(rows))[0]
    yield Hypothesis(
        Diagnosis(
            cause="masses in pounds",
            symptom="gravity of the model is 2.2 times that of the log",
            evidence=f"with all masses times {POUND:.4g} {100 * left:.2g} % of the torque "
            f"remains, {100 * plain:.2g} % as it is",
            confidence=0.0,
            fix="masses in kg",
        ),
        left,
        0,
        at.noise,
    )


SENSOR_HYPOTHESES = (_all_signs, _gains, _encoders, _exchanged_inertials, _pounds)
"""Hypotheses on torques, encoders and the inertials of the file."""
