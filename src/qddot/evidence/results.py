"""Results of the other packages as traces, metrics and claims of a record."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qddot.analysis.sizing import Sizing
from qddot.errors import count_text
from qddot.evidence.record import Verdict
from qddot.evidence.recorder import Recorder
from qddot.simulate.energy import EnergyLedger
from qddot.simulate.rollout import Rollout
from qddot.verify.audit import Audit
from qddot.verify.compare import Report
from qddot.verify.invariants import Check, Sample

__all__ = [
    "record_audit",
    "record_check",
    "record_checks",
    "record_comparison",
    "record_motion",
    "record_sizing",
]

_DRIVE_TERMS = {"armature", "damping", "friction", "spring"}
_VERDICTS = {True: Verdict.PASS, False: Verdict.FAIL, None: Verdict.NOT_EVALUATED}


def record_checks(recorder: Recorder, checks: Sequence[Check], at: Sample) -> None:
    """Invariants: the states, the residual of each invariant at each state, a claim each."""
    units = {"q": "rad, m", "v": "rad/s, m/s", "a": "rad/s², m/s²", "x": ""}
    recorder.trace("states", {k: getattr(at, k) for k in units}, units)
    for check in checks:
        record_check(recorder, check)


def record_check(recorder: Recorder, check: Check) -> None:
    """An invariant: its residual at each state, the worst of them, a claim."""
    if check.passed is None or check.residuals is None:
        recorder.claim(
            check.name,
            check.claim,
            verdict=_VERDICTS[check.passed],
            detail=check.detail,
            fix="`qddot audit` names the link and the value that is meant",
            label="model",
        )
        return
    definite = check.name == "positive definite"
    name = check.name.replace(" ", "_")
    recorder.trace(f"check/{name}", {"residual": check.residuals})
    definition = "smallest" if definite else "largest_magnitude"
    recorder.metric(f"check/{name}", definition, f"check/{name}.residual")
    recorder.claim(
        check.name,
        check.claim,
        metric=f"check/{name}",
        relation=">" if definite else "<",
        bound=check.bound,
        detail=check.detail,
        fix="an impossible inertia or a defect of the library: `qddot audit`, then report it",
        label="model",
    )


def record_audit(recorder: Recorder, result: Audit) -> None:
    """An audit: masses of links and strengths of findings, a claim for each error and warning."""
    links = result.robot.links
    masses = [x.inertial.mass if x.inertial is not None else np.nan for x in links.values()]
    recorder.trace("links", {"mass": np.array(masses, float)}, {"mass": "kg"}, list(links))
    if result.findings:
        recorder.trace(
            "findings",
            {"strength": [f.strength for f in result.findings]},
            labels=[f"{f.severity} {f.subject}: {f.hypothesis}" for f in result.findings],
        )
    for f in result.findings:
        if f.severity == "error":
            recorder.claim(
                f"inertia of {f.subject}",
                f.hypothesis,
                verdict=Verdict.FAIL,
                detail=f.message,
                fix="`qddot audit FILE --fix FIXED` writes what has one remedy",
                label="model",
            )
    errors, warnings = result.count("error"), result.count("warning")
    told = f"{count_text(len(links), 'link')}, {count_text(warnings, 'warning')}"
    recorder.claim(
        "no impossible or mistaken inertia",
        "inertias against physics, shapes, twins and density",
        value=float(errors),
        relation="=",
        bound=0.0,
        detail=f"{count_text(errors, 'error')} in {told}",
        fix="`qddot audit FILE` explains each finding; `--fix` writes what has one remedy",
        label="model",
    )


def record_comparison(recorder: Recorder, report: Report, unread: bool = False) -> None:
    """Comparisons with other engines or files: sizes of differences, a claim each.

    With `unread`, a comparison that differs by drive terms only is not evaluated: engines read
    armature, friction and springs of one file differently, which says nothing about the file.
    """
    for c in report.comparisons:
        name = f"compare/{c.b}".replace(" ", "_")
        if c.stages:
            recorder.trace(
                name,
                {"size": [s.size for s in c.stages], "left": [s.left for s in c.stages]},
                labels=[f"{s.name}: {s.verdict}" for s in c.stages],
            )
        cause = c.first_cause
        verdict = Verdict.NOT_EVALUATED
        if c.evaluated:
            verdict = Verdict.PASS if c.agrees else Verdict.FAIL
            if unread and c.causes and {stage.name for stage in c.causes} <= _DRIVE_TERMS:
                verdict = Verdict.NOT_EVALUATED
        words = (
            "; ".join(f"{d.subject} {d.message}" for d in cause.differences[:3]) if cause else ""
        )
        recorder.claim(
            f"{c.a} agrees with {c.b}",
            "masses, tensors, poses, M, g, bias, q̈ at random states",
            verdict=verdict,
            detail=c.reason
            or (f"first cause: {cause.name}: {words or cause.message}" if cause else ""),
            fix="`qddot compare FILE` shows every stage and what follows from what",
            label="evaluation" if not c.evaluated else "model",
        )


def record_motion(
    recorder: Recorder, motion: Rollout, ledger: EnergyLedger, name: str = "motion"
) -> None:
    """A rollout with its energy ledger: motion, energies, claims on status and energy."""
    last = len(motion.tau) - 1
    rows = np.minimum(np.arange(len(motion.time)), last)
    tau = motion.tau[rows] if last >= 0 else np.zeros_like(motion.v)
    columns = {"time": motion.time, "q": motion.q, "v": motion.v, "tau": tau}
    units = {"time": "s", "q": "rad, m", "v": "rad/s, m/s", "tau": "N m, N"}
    recorder.trace(name, columns, units, frame="joints")
    parts = ("kinetic", "potential", "spring", "work", "friction", "contact", "residual")
    energy = {x: np.broadcast_to(getattr(ledger, x), motion.time.shape) for x in parts}
    recorder.trace(f"{name}/energy", {"time": motion.time, **energy}, dict.fromkeys(parts, "J"))
    recorder.metric(
        f"{name}/energy_residual", "largest_magnitude", f"{name}/energy.residual", unit="J"
    )
    verdict, drift = motion.status.of(), ledger.drift()
    recorder.claim(
        "status",
        "state, limits, penetration and convergence of every step",
        verdict=Verdict.PASS if verdict.step is None else Verdict.FAIL,
        detail=str(verdict),
        fix=verdict.remedy or "",
        label="contact" if verdict.label in ("penetration", "not_converged") else "state",
    )
    recorder.claim(
        "energy is accounted for",
        "rate of energy against work, friction and contact",
        verdict=Verdict.PASS if drift.acceptable else Verdict.FAIL,
        detail=str(drift),
        fix="a shorter step, or a symplectic or implicit integrator (`qddot integrators`)",
        label="evaluation",
    )


def record_sizing(recorder: Recorder, answer: Sizing) -> None:
    """A sizing: torques and ratings by joint, a claim each."""
    joints = answer.joints
    recorder.trace(
        "torques",
        {
            "rating": [j.rating if j.has_rating else np.nan for j in joints],
            "static": [abs(j.static.torque) for j in joints],
            "dynamic": [abs(j.dynamic.torque) for j in joints],
            "rms": [j.rms for j in joints],
        },
        dict.fromkeys(("rating", "static", "dynamic", "rms"), "N m, N"),
        [j.name for j in joints],
    )
    for j in joints:
        recorder.claim(
            f"{j.name} within its rating",
            f"largest of {answer.samples} random states, refined",
            verdict=None if j.share is not None else Verdict.NOT_EVALUATED,
            value=j.share,
            relation="≤" if j.share is not None else "",
            bound=1.0 if j.share is not None else None,
            detail="" if j.share is not None else "the file states no effort limit",
            fix="a smaller payload or speed, or a larger drive",
            label="planning",
        )
