"""Diagnoses of measured torques: each hypothesis on what is wrong is fitted, the best one wins.

A hypothesis changes the torques or the model and leaves a residual. Three things are free in all of
them, so that none is blamed for it: friction of every joint (viscous, Coulomb, constant), noise,
which means over short windows take away from torques and model alike, and masses of the bodies
within what a file that is right may be off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np

from qddot.identify.blas import on_one_blas_thread
from qddot.pipeline.diagnosis import Case, Diagnosis
from qddot.pipeline.log_torques import DELAYS, NOISE, SMOOTH, Hypothesis, LogTorques
from qddot.pipeline.sensor_diagnoses import POUND, SENSOR_HYPOTHESES

__all__ = ["diagnose_log"]

_LEAST_ROWS = 50
_BETTER = 0.6
"""A hypothesis counts where it leaves less than this share of what the model leaves above noise."""
_LEAST_WINDOWS = 5
"""Windows of a log in each direction from which the friction of a joint is judged."""
_LOAD, _OTHER = 0.03, 0.1
"""Shares of the torque that bodies within their deviations leave at least of a robot with a load,
and of another robot. Bodies that are off by half as a whole leave 0.065 at most on six arms."""
_WEIGHTLESS = 0.2
"""Share of its gravity up to which a log has none."""
_SCALE = 1.22
"""Factor on all torques from which the file or the scale of the log is wrong."""
_SAME_UNIT = 1.05
"""Factor within which a scale is that of a unit."""
_OFFSET = 0.1
"""Share of the torque of a joint from which a constant is an offset."""
_HOPELESS = 0.15
"""Share that no hypothesis leaves less of, where a log has nothing to do with its file."""
_MANY_TIMES = 1.5
"""Factor on all inertias from which a robot is another one, not one whose masses are a bit off."""


@on_one_blas_thread
def diagnose_log(case: Case) -> list[Diagnosis]:
    """The hypotheses that explain the torques of a log, the best first; empty without any."""
    at = LogTorques(case)
    if at.rows.size < _LEAST_ROWS:
        return []
    plain = at.fit_residual(at.tau, at.rigid)[0]
    found = []
    if plain > NOISE:
        for make in _HYPOTHESES:
            for hypothesis in make(at, plain):
                better = hypothesis.explained_share(plain) > 1.0 - _BETTER**2
                if better and plain**2 - hypothesis.left**2 > NOISE**2:
                    found.append(hypothesis)
    found.sort(key=lambda h: h.score)
    best = found[0].left if found else plain
    diagnoses = []
    # what leaves several times more than the best hypothesis does is its shadow
    for k, h in enumerate(h for h in found if h.left < 2.0 * best + NOISE):
        sure = min(0.97, h.explained_share(plain))
        diagnoses.append(_replace_confidence(h.diagnosis, sure if k == 0 else 0.7 * sure))
    if plain > 2.0 * _HOPELESS and best > _HOPELESS:
        evidence = (
            f"{100 * plain:.0f} % of the torque remains, {100 * best:.0f} % after the best of all "
            "hypotheses, other bodies on the same joints among them"
        )
        other = _other_robot(evidence, float(np.clip(0.5 + best, 0.0, 0.95)))
        return [other, *diagnoses]
    # what a mistake leaves may look like friction too
    doubt = 0.6 if diagnoses else 1.0
    friction = [_replace_confidence(d, doubt * d.confidence) for d in _friction(at)]
    return [*diagnoses, *friction]


def _replace_confidence(d: Diagnosis, confidence: float) -> Diagnosis:
    return Diagnosis(d.cause, d.symptom, d.evidence, confidence, d.fix)


def _swaps(at: LogTorques, plain: float) -> Iterator[Hypothesis]:
    """Columns of two joints exchanged, as they are or with a sign."""
    names, order = at.robot.joint_names, np.arange(at.robot.nv)
    best = (plain, 0, 0)
    for i, j in combinations(range(at.robot.nv), 2):
        moved = order.copy()
        moved[[i, j]] = j, i
        best = min(best, (at.fit_residual(at.tau[:, moved], at.rigid)[0], i, j))
    left, i, j = best
    order[[i, j]] = j, i
    yield Hypothesis(
        Diagnosis(
            cause="joints swapped in the log",
            symptom="torques follow the model of another joint",
            evidence=f"with {names[i]} and {names[j]} exchanged {100 * left:.2g} % of the torque "
            f"remains, {100 * plain:.2g} % as it is",
            confidence=0.0,
            fix="the order of columns: map them by joint name",
        ),
        left,
        1,
        at.noise_share(at.tau[:, order]),
    )


def _signs(at: LogTorques, plain: float) -> Iterator[Hypothesis]:
    """Torques of one or more joints with the other sign, found one after the other."""
    signs, left = np.ones(at.robot.nv), plain
    for _ in range(at.robot.nv):
        trials = []
        for j in range(at.robot.nv):
            turned = signs.copy()
            turned[j] *= -1.0
            trials.append((at.fit_residual(at.tau * turned, at.rigid)[0], j))
        best, j = min(trials)
        if best > 0.9 * left:
            break
        left, signs[j] = best, -signs[j]
    wrong = [n for n, s in zip(at.robot.joint_names, signs, strict=True) if s < 0.0]
    yield Hypothesis(
        Diagnosis(
            cause="sign of a torque",
            symptom="the torque of a joint is that of the model with the other sign",
            evidence=f"with the other sign at {', '.join(wrong)} {100 * left:.2g} % of the torque "
            f"remains, {100 * plain:.2g} % as it is",
            confidence=0.0,
            fix="the sign of that motor or of its encoder",
        ),
        left if 2 * len(wrong) <= at.robot.nv else plain,
        len(wrong),
        at.noise_share(at.tau * signs),
    )


def _gravity(at: LogTorques, plain: float) -> Iterator[Hypothesis]:
    """Another direction of gravity."""
    model = np.array(tuple(at.robot.model.gravity), float)
    length = float(np.linalg.norm(model))
    if length == 0.0:
        return
    axes = [at.robot.with_gravity(tuple(e)).gravity(at.q).mean(axis=1) for e in np.eye(3).tolist()]
    left, fitted, _ = at.fit_residual(at.tau, at.inertial + at.coriolis, np.stack(axes, axis=-1))
    x = fitted[:3]
    size = float(np.linalg.norm(x))
    angle = float(np.degrees(np.arccos(np.clip(x @ model / (size * length + 1e-12), -1.0, 1.0))))
    weightless = size / length < _WEIGHTLESS
    if not weightless and (angle < 5.0 or not 0.5 < size / length < 1.6):
        return
    cause = "gravity sign" if angle > 170.0 else "gravity in another frame"
    yield Hypothesis(
        Diagnosis(
            cause="torques without gravity" if weightless else cause,
            symptom="position drifts while holding; torques at rest are off",
            evidence=f"the log fits gravity ({', '.join(f'{g:.2f}' for g in x)}) m/s², "
            f"{angle:.0f}° from that of the model",
            confidence=0.0,
            fix="the sign of world gravity, or the mounting of the base (tilt, ceiling)",
        ),
        left,
        2,
    )


def _coriolis(at: LogTorques, plain: float) -> Iterator[Hypothesis]:
    """Another coefficient of C q̇."""
    left, (gain, *_), _ = at.fit_residual(at.tau, at.gravity + at.inertial, at.coriolis[..., None])
    if abs(gain - 1.0) < 0.5:
        return
    yield Hypothesis(
        Diagnosis(
            cause="Coriolis sign" if gain < -0.5 else "Coriolis term missing",
            symptom="tracking error grows with speed",
            evidence=f"the coefficient of C q̇ is {gain:.2f}, 1 by the model",
            confidence=0.0,
            fix="verify Ṁ − 2C skew-symmetric: `qddot check`; mend the sign in your torque",
        ),
        left,
        1,
    )


def _delays(at: LogTorques, plain: float) -> Iterator[Hypothesis]:
    """Torques that belong to a motion some samples before."""
    dt = float(np.median(np.diff(at.case.time)))
    trials = [(at.fit_residual(at.shift_torques(k), at.rigid)[0], k) for k in DELAYS]
    left, shift = min(trials)
    yield Hypothesis(
        Diagnosis(
            cause="delay between motion and torque",
            symptom="torques come later than the motion that they belong to",
            evidence=f"{1e3 * shift * dt:.3g} ms ({shift} samples) earlier {100 * left:.2g} % of "
            f"the torque remains, {100 * plain:.2g} % as it is",
            confidence=0.0,
            fix="stamp both at the source, or shift the log before it is used",
        ),
        left,
        1,
        at.noise_share(at.shift_torques(shift)),
    )


def _payload(at: LogTorques, plain: float) -> Iterator[Hypothesis]:
    """A load on the last body, of any shape."""
    if plain < _LOAD:
        return
    robot, last = at.robot, at.robot.model.nb - 1
    left, _, rank = at.fit_residual(at.tau, at.rigid, at.regressor[..., 10 * last :])
    # mass and its moments alone tell the mass, which the tensor would take a part of
    mass = float(
        at.fit_residual(at.tau, at.rigid, at.regressor[..., 10 * last : 10 * last + 4])[1][0]
    )
    if abs(mass) < 0.02 * float(robot.inertial_parameters[:, 0].sum()):
        return
    word = "missing" if mass > 0 else "in the model but not on the robot"
    yield Hypothesis(
        Diagnosis(
            cause=f"payload {word}",
            symptom="torques of the wrist and of all joints before it are off by a weight",
            evidence=f"{mass:+.3g} kg at {robot.model.bodies[last].name} leave {100 * left:.2g} % "
            f"of the torque, none leaves {100 * plain:.2g} %",
            confidence=0.0,
            fix="robot.with_payload(frame, mass, com)",
        ),
        left,
        rank,
    )


def _cartesian(at: LogTorques, plain: float) -> Iterator[Hypothesis]:
    """Torques that are a force or a wrench at the tip: Jᵀ of them are those of the model."""
    if at.robot.nv not in (3, 6):
        return
    frame = at.robot.frame_names[-1]
    J = at.robot.frame_jacobian(at.q, frame, "local_world_aligned")[..., : at.robot.nv, :]
    mapped = np.einsum("wsij,wsi->wsj", J, at.measured[at.rows]).mean(axis=1)
    left = at.fit_residual(mapped, at.rigid)[0]
    yield Hypothesis(
        Diagnosis(
            cause="Cartesian and joint coordinates confused",
            symptom="joint torques that make no sense in any joint",
            evidence=f"taken as a wrench at {frame}, Jᵀ F leaves {100 * left:.2g} % of the torque, "
            f"as joint torques they leave {100 * plain:.2g} %",
            confidence=0.0,
            fix="τ = Jᵀ F; Λ = (J M⁻¹ Jᵀ)⁻¹ belongs to Cartesian commands, M to joint ones",
        ),
        left,
        1,
    )


def _inertia(at: LogTorques, plain: float) -> Iterator[Hypothesis]:
    """All inertias larger or smaller by a share; a robot of its own where that is many times."""
    both = np.stack([at.gravity, at.inertial + at.coriolis], axis=-1)
    left, (weight, inertia, *_), _ = at.fit_residual(at.tau, np.zeros_like(at.tau), both)
    if inertia < 0.1 or weight < 0.1 or max(abs(inertia - 1.0), abs(weight - 1.0)) < 0.03:
        return
    word = "under" if inertia > 1.0 else "over"
    evidence = (
        f"coefficients of M q̈ + C q̇ and of g are {inertia:.2f} and {weight:.2f}, 1 by the model"
    )
    # one factor on everything is that of the torques as well as that of the bodies
    same = abs(np.log(inertia / weight)) < np.log(1.1)
    scale = same and 0.5 * abs(np.log(inertia * weight)) > np.log(_SCALE)
    diagnosis = Diagnosis(
        cause=f"inertias {word}-estimated" + (" or torques in another scale" if scale else ""),
        symptom=f"inverse-dynamics torque too {'small' if inertia > 1 else 'large'} at high q̈",
        evidence=evidence,
        confidence=0.0,
        fix="dynamic identification: `qddot identify fit`; `qddot audit` for the file",
    )
    if abs(np.log(inertia)) > np.log(_MANY_TIMES) or abs(np.log(weight)) > np.log(_MANY_TIMES):
        pounds = abs(np.log(weight / POUND)) < np.log(_SAME_UNIT)
        units = replace(diagnosis, cause="masses in pounds", fix="masses in kg")
        diagnosis = units if pounds else _other_robot(f"{evidence}; or torques in other units")
    yield Hypothesis(diagnosis, left, 2, at.noise)


def _bodies(at: LogTorques, plain: float) -> Iterator[Hypothesis]:
    """Every body another than in the file, on the same joints."""
    if plain < _OTHER:
        return
    left, _, rank = at.fit_residual(at.tau, at.rigid, at.regressor)
    evidence = (
        f"other bodies on these joints leave {100 * left:.2g} % of the torque ({rank} parameters), "
        f"those of the file {100 * plain:.2g} %; a load at the tip or a single mistake leaves more"
    )
    yield Hypothesis(_other_robot(evidence), left, rank)


def _other_robot(evidence: str, confidence: float = 0.0) -> Diagnosis:
    return Diagnosis(
        cause="log of another robot",
        symptom="no single mistake makes the torques those of the model",
        evidence=evidence,
        confidence=confidence,
        fix="the file of the robot that was recorded, with the tool it carried",
    )


_HYPOTHESES = (
    _swaps, _signs, _gravity, _coriolis, _delays, _payload, _inertia, _cartesian, _bodies,
    *SENSOR_HYPOTHESES,
)  # fmt: skip


def _friction(at: LogTorques) -> Iterator[Diagnosis]:
    """Constant torques, and Coulomb friction that the model does not have."""
    # bodies that are a bit off are no friction, though their torques may go with the speeds
    rest = at.tau - at.rigid - at.bodies @ at.fit_residual(at.tau, at.rigid)[1]
    size = np.sqrt(np.mean(at.tau**2, axis=0)) + 1e-9
    # a joint that moves one way does not tell Coulomb friction from an offset
    mean = at.v.mean(axis=1)
    ways = [np.count_nonzero(s * mean > 5.0 * SMOOTH, axis=0) for s in (1.0, -1.0)]
    moving = np.min(ways, axis=0) >= _LEAST_WINDOWS
    jumps, left, errors, offsets, unsure = np.zeros((5, at.robot.nv))
    for j in map(int, np.flatnonzero(moving)):
        v = at.v[..., j]
        A = np.stack([np.ones_like(v), v, np.tanh(v / SMOOTH)], axis=-1).mean(axis=1)
        x, *_ = np.linalg.lstsq(A, rest[:, j], rcond=None)
        jumps[j] = x[2] - float(at.robot.model.independent[j].joint.drivetrain.friction)
        left[j] = float(np.sqrt(np.mean((rest[:, j] - A @ x) ** 2)))
        offsets[j] = x[0]
        unsure[j], _, errors[j] = left[j] * np.sqrt(np.diag(np.linalg.inv(A.T @ A)))
    constant = np.where(np.abs(offsets) > np.maximum(left, 5.0 * unsure), offsets, 0.0) / size
    j = int(np.argmax(np.abs(constant)))
    if abs(constant[j]) > _OFFSET:
        yield Diagnosis(
            cause="offset of a torque",
            symptom="the torque of a joint is off by a constant",
            evidence=f"{offsets[j]:+.3g} N m at {at.robot.joint_names[j]}, "
            f"{100 * abs(constant[j]):.0f} % of its torque, that no pose or speed explains",
            confidence=float(np.clip(0.6 + 2.0 * abs(constant[j]), 0.0, 0.93)),
            fix="the zero of that torque sensor or current",
        )
    certain = (jumps > 0.5 * left) & (jumps > 3.0 * errors)
    share = np.where(moving & certain, jumps / size, 0.0)
    heavy = np.flatnonzero(share > 0.03)
    if len(heavy):
        j = int(heavy[np.argmax(share[heavy])])
        name = at.robot.joint_names[j]
        yield Diagnosis(
            cause="friction not modelled",
            symptom="inverse-dynamics torque too small at low q̇",
            evidence=f"the torque jumps by 2 × {jumps[j]:.3g} N m with the direction at {name}, "
            f"{100 * share[j]:.0f} % of its torque; {len(heavy)} of {at.robot.nv} joints",
            confidence=float(np.clip(0.5 + 2.0 * share[j], 0.0, 0.9)),
            fix="add F_v q̇ + F_c sgn(q̇): `qddot identify friction`",
        )
