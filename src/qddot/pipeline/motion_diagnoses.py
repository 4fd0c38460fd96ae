"""Diagnoses of motions: what a simulation, an estimator or a controller did wrong."""

from __future__ import annotations

import numpy as np

from qddot.pipeline.diagnosis import Case, Diagnose, Diagnosis

__all__ = ["MOTION_DIAGNOSES"]

_QUATERNION = 1e-6
_SINGULAR = 0.02


def _find_not_a_number(case: Case) -> Diagnosis | None:
    """Values that are no numbers, and which signal had them first."""
    signals = {"q": case.q, "v": case.v, **({} if case.tau is None else {"tau": case.tau})}
    first = {k: np.flatnonzero(~np.isfinite(x).all(axis=1)) for k, x in signals.items()}
    bad = {k: int(rows[0]) for k, rows in first.items() if len(rows)}
    if not bad:
        return None
    source = min(bad, key=lambda k: (bad[k], k == "tau"))
    upstream = source in ("q", "v") and bad.get("tau", len(case.q)) >= bad[source]
    return Diagnosis(
        cause="NaN upstream" if upstream else "NaN in the torques",
        symptom="inverse dynamics produces NaN",
        evidence=f"{source} is no number from t = {case.time[bad[source]]:.4g} s on",
        confidence=0.95,
        fix="sanitise inputs: check the estimator or filter that makes q̇ and q̈",
    )


def _find_quaternion(case: Case) -> Diagnosis | None:
    """Quaternions that are not of unit length."""
    worst, when = 0.0, 0
    for body in case.robot.model.independent:
        place = body.joint.kind.quaternion
        if place is None:
            continue
        rows = case.q[:, body.iq][:, place]
        drift = np.abs(np.linalg.norm(rows, axis=1) - 1.0)
        drift = np.where(np.isfinite(drift), drift, 0.0)
        if drift.max() > worst:
            worst, when = float(drift.max()), int(np.argmax(drift))
    if worst < _QUATERNION:
        return None
    return Diagnosis(
        cause="quaternion not renormalised",
        symptom="quaternion drifts off unit norm",
        evidence=f"| ‖q‖ − 1 | = {worst:.2g} at t = {case.time[when]:.4g} s",
        confidence=0.95,
        fix="q ← q / ‖q‖ each step, or integrate on the manifold (robot.integrate)",
    )


def _find_energy(case: Case) -> Diagnosis | None:
    """Energy that grows without work: an explicit integrator, or springs that are too stiff."""
    if case.measured or case.tau is None:
        return None
    rows = np.flatnonzero(case.sound)
    if len(rows) < 10:
        return None
    q, v, tau = case.q[rows], case.v[rows], case.tau[rows]
    with np.errstate(all="ignore"):
        energy = case.robot.kinetic_energy(q, v) + case.robot.potential_energy(q)
    dt = np.diff(case.time[rows])
    power = np.sum(tau * v, axis=1)
    work = np.concatenate([[0.0], np.cumsum(0.5 * (power[1:] + power[:-1]) * dt)])
    gained = energy - energy[0] - work
    size = max(float(np.ptp(case.robot.potential_energy(q))), 1e-6)
    blown = not case.sound.all()
    if not (gained[-1] > 0.1 * size and gained[-1] > 0.5 * np.nanmax(gained)) and not (
        blown and np.nanmax(gained) > 10 * size
    ):
        return None
    contact = (
        any("penetration" in s or "contact" in s for s in case.statements) or "gap" in case.raw
    )
    cause = "explicit integrator on stiff contact" if contact else "integrator gains energy"
    return Diagnosis(
        cause=cause,
        symptom="forward simulation explodes after a few seconds",
        evidence=f"energy grew by {gained[-1]:.3g} J that no torque supplied"
        + (" until values were no numbers" if blown else ""),
        # energy that grew first is why values are no numbers
        confidence=0.97 if blown else 0.85,
        fix="an implicit or symplectic integrator, complementarity contact, or a shorter step",
    )


def _find_limits(case: Case) -> Diagnosis | None:
    """Joints beyond their mechanical stops."""
    if "gap" in case.raw:  # a test of contact, which is run without stops
        return None
    low, high = case.robot.limits.lower, case.robot.limits.upper
    with np.errstate(invalid="ignore"):
        beyond = np.nanmax(np.maximum(low - case.q, case.q - high), axis=0, initial=-np.inf)
    j = int(np.argmax(np.where(np.isfinite(beyond), beyond, -np.inf)))
    if not beyond[j] > 0.02:
        return None
    names = [b.joint.name for b in case.robot.model.independent for _ in range(b.joint.kind.nq)]
    return Diagnosis(
        cause="limits too soft",
        symptom="a joint goes past its mechanical stop",
        evidence=f"{names[j]} is {beyond[j]:.3g} rad or m beyond its limit",
        confidence=0.8,
        fix="stiffer stops, or rigid ones (RigidStops, ComplementarityContact)",
    )


def _find_cone(case: Case) -> Diagnosis | None:
    """Tangential forces outside the friction cone."""
    ratio = case.raw.get("cone_ratio")
    if ratio is None or not np.nanmax(ratio) > 1.01:
        return None
    return Diagnosis(
        cause="friction cone violated",
        symptom="the robot skids; whole-body QP infeasible",
        evidence=f"‖f_t‖ / (μ f_n) up to {np.nanmax(ratio):.3g}",
        confidence=0.9,
        fix="replan within the cone, raise μ to that of the ground, check contact normals",
    )


def _find_base(case: Case) -> Diagnosis | None:
    """A floating base that rises, or falls, as nothing but wrong gravity makes it."""
    base = next((b for b in case.robot.model.bodies if b.joint.kind.floats), None)
    if base is None or len(case.time) < 10:
        return None
    z = case.q[:, base.iq.start + 2]
    rows = np.isfinite(z)
    if rows.sum() < 10:
        return None
    rate = np.polyfit(case.time[rows], z[rows], 2)[0] * 2.0
    gravity = float(tuple(case.robot.model.gravity)[2])
    if rate > 4.0:
        return Diagnosis(
            cause="gravity sign",
            symptom="floating-base robot accelerates up off the ground",
            evidence=f"the base rises with {rate:.3g} m/s²",
            confidence=0.9,
            fix="the sign of world gravity, and the mass of the root",
        )
    still = abs(rate) < 0.02 and np.ptp(z[rows]) < 1e-9 and case.raw.get("gap") is None
    if gravity < -1.0 and still:
        return Diagnosis(
            cause="wrong base type",
            symptom="a floating base that nothing carries does not move",
            evidence=f"height constant to {np.ptp(z[rows]):.1g} m in {case.time[-1]:.3g} s",
            confidence=0.6,
            fix="--base fixed, or let it fall: check nq and nv before anything else",
        )
    return None


def _find_gyroscopic(case: Case) -> Diagnosis | None:
    """Rotations in space whose torques lack ω × I ω: the coefficient of C q̇ there is 0, not 1."""
    if case.tau is None or "gap" in case.raw or int(case.sound.sum()) < 20:
        return None
    # accelerations at the ends have neighbours on one side only
    rows = np.flatnonzero(case.sound)[5:-5]
    turning = [
        i
        for b in case.robot.model.independent
        if b.joint.kind.quaternion is not None
        for i in range(b.iv.stop - 3, b.iv.stop)
    ]
    if not turning:
        return None
    q, v, a = case.q[rows], case.v[rows], case.acceleration[rows]
    gravity = case.robot.gravity(q)
    inertial = np.einsum("sij,sj->si", case.robot.mass_matrix(q), a)
    coriolis = (case.robot.bias(q, v) - gravity)[:, turning].ravel()
    rest = (case.tau[rows] - gravity - inertial)[:, turning].ravel()
    size = float(coriolis @ coriolis)
    # where nothing spins about two axes there is nothing to be missed
    if size < 1e-4 * float(np.sum(inertial[:, turning] ** 2)) or size == 0.0:
        return None
    gain = float(coriolis @ rest) / size
    unexplained = float(np.sum((rest - gain * coriolis) ** 2)) / size
    if abs(gain) > 0.3 or unexplained > 0.1:
        return None
    return Diagnosis(
        cause="gyroscopic term missing",
        symptom="a spinning body overshoots or does not precess",
        evidence=f"the coefficient of ω × I ω is {gain:.2f}, 1 by Euler's equations",
        confidence=0.85,
        fix="τ = I ω̇ + ω × I ω: add the term to your torque or your simulation",
    )


def _find_singular(case: Case) -> Diagnosis | None:
    """Torques that blow up where the tip cannot move in some direction."""
    if case.tau is None or case.robot.nq != case.robot.nv or case.robot.nv < 3:
        return None
    rows = np.flatnonzero(case.sound)
    if len(rows) < 20:
        return None
    rows = rows[:: max(1, len(rows) // 500)]
    frame = case.robot.frame_names[-1]
    J = case.robot.frame_jacobian(case.q[rows], frame, "local_world_aligned")[:, :3]
    least = np.linalg.svd(J, compute_uv=False)[:, -1]
    size = np.linalg.norm(case.tau[rows], axis=1)
    peak = int(np.argmax(size))
    near = least < _SINGULAR
    if not near.any() or near.mean() > 0.5 or size[peak] < 8.0 * np.median(size) or not near[peak]:
        return None
    return Diagnosis(
        cause="singular operational-space control",
        symptom="OSC blows up near a singularity",
        evidence=f"torque {size[peak]:.3g} at t = {case.time[rows][peak]:.4g} s, where the "
        f"smallest singular value of J is {least[peak]:.2g}",
        confidence=0.85,
        fix="damped least squares (λ ≈ 0.05), or a joint-space law there",
    )


def _find_statements(case: Case) -> Diagnosis | None:
    """A diagnosis from messages of the run: an infeasible QP, contact that did not converge."""
    for words in case.statements:
        if "infeasible" in words.lower():
            return Diagnosis(
                "whole-body QP infeasible", "the controller falls back", words[:200], 0.8,
                "soften task weights, relax the cone or the torque limits",
            )  # fmt: skip
        if "not_converged" in words:
            return Diagnosis(
                "contact or implicit step not converged", "forces chatter", words[:200], 0.7,
                "more sweeps, or a shorter step",
            )  # fmt: skip
    return None


MOTION_DIAGNOSES: tuple[Diagnose, ...] = (
    _find_not_a_number,
    _find_quaternion,
    _find_energy,
    _find_limits,
    _find_cone,
    _find_base,
    _find_gyroscopic,
    _find_singular,
    _find_statements,
)
"""Diagnoses that need a motion, measured or simulated."""
