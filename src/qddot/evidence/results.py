"""Results of the other packages as traces, metrics and claims of a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from qddot.analysis.sizing import Sizing
from qddot.display.text import joint_units
from qddot.errors import count_text
from qddot.evidence.record import Verdict
from qddot.evidence.recorder import Recorder
from qddot.simulate.energy import EnergyLedger
from qddot.simulate.rollout import Rollout
from qddot.verify.audit import Audit, judge_file
from qddot.verify.compare import TERMS, Report
from qddot.verify.invariants import Check, RandomStates

if TYPE_CHECKING:
    from qddot.control.laboratory import Result
    from qddot.identify import Fit, Inspection, Log, Validation

__all__ = [
    "record_audit",
    "record_check",
    "record_checks",
    "record_comparison",
    "record_experiment",
    "record_fit",
    "record_inspection",
    "record_motion",
    "record_sizing",
]

_CAUSES = dict.fromkeys(
    ("radius of gyration", "differs from its shapes"), "tensor does not fit the link"
)
_DRIVE_STAGES = {"armature", "damping", "friction", "spring"}
_EVERY = 10
"""Samples of an experiment for one that is kept."""
_MOST_ROWS = 20_000
"""Rows of a prediction that are kept."""
_VERDICTS = {True: Verdict.PASS, False: Verdict.FAIL, None: Verdict.NOT_EVALUATED}


def record_checks(recorder: Recorder, checks: Sequence[Check], at: RandomStates) -> None:
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


def record_audit(
    recorder: Recorder, result: Audit, doubts: bool = False, accepted: Sequence[str] = ()
) -> None:
    """An audit: masses of links and strengths of findings, a claim for each that counts.

    Errors count; with `doubts` also warnings on the mass, the centre or the tensor of a link,
    unless the link is one of `accepted`.
    """
    links = result.robot.links
    masses = [x.inertial.mass if x.inertial is not None else np.nan for x in links.values()]
    recorder.trace("links", {"mass": np.array(masses, float)}, {"mass": "kg"}, list(links))
    if result.findings:
        recorder.trace(
            "findings",
            {"strength": [f.strength for f in result.findings]},
            labels=[f"{f.severity} {f.subject}: {f.hypothesis}" for f in result.findings],
        )
    judged = judge_file(result, accepted=accepted)
    passed = [f.subject for f in judged.accepted] if doubts else []
    failed = judged.failing if doubts else judged.errors
    for f in failed:
        meant = "" if f.severity == "error" else f"; where it is meant, --accept {f.subject}"
        recorder.claim(
            f"inertia of {f.subject}",
            f.hypothesis,
            verdict=Verdict.FAIL,
            detail=f.message,
            fix=f"`qddot audit FILE --fix FIXED` writes what has one remedy{meant}",
            label="model",
            cause=f"{_CAUSES.get(f.hypothesis, f.hypothesis)} ({f.subject})",
        )
    errors, warnings = result.count("error"), result.count("warning")
    told = f"{count_text(len(links), 'link')}, {count_text(warnings, 'warning')}"
    told += f"; accepted: {', '.join(passed)}" if passed else ""
    recorder.claim(
        "no impossible or mistaken inertia",
        "inertias against physics, shapes, twins and density",
        value=float(len(failed)),
        relation="=",
        bound=0.0,
        detail=f"{judged.word}: {count_text(errors, 'error')} in {told}",
        fix="`qddot audit FILE` explains each finding; `--fix` writes what has one remedy",
        label="model",
    )


def record_comparison(recorder: Recorder, report: Report, unread: bool = False) -> None:
    """Comparisons with other engines or files: sizes of differences, a claim each.

    With `unread`, a difference says nothing about the file where it comes from an engine's reader,
    and is not evaluated: drive terms (armature, friction, springs) are read by few engines, and
    where another engine reads the file as we do, the one that differs is alone with its reading.
    Either must explain all of it: a term that still differs with these causes made equal fails.
    """
    # an engine that agrees but for terms of the drives reads the file as we do
    alike = [
        c.b
        for c in report.comparisons
        if c.evaluated and {stage.name for stage in c.causes} <= _DRIVE_STAGES
    ]
    for c in report.comparisons:
        name = f"compare/{c.b}".replace(" ", "_")
        if c.stages:
            recorder.trace(
                name,
                {"size": [s.size for s in c.stages], "left": [s.left for s in c.stages]},
                labels=[f"{s.name}: {s.verdict}" for s in c.stages],
            )
        cause = c.first_cause
        # a term that still differs with all causes made equal has a reason that nobody named
        checked = {stage.name for stage in c.stages if stage.verdict != "not evaluated"}
        named_all = bool(checked & {*TERMS}) and not {x.name for x in c.causes} & {*TERMS}
        witness = next((b for b in alike if b != c.b), "") if unread else ""
        drives = unread and c.b in alike
        excused = named_all and (drives or bool(witness))
        verdict = Verdict.NOT_EVALUATED
        if c.evaluated and (c.agrees or not excused):
            verdict = Verdict.PASS if c.agrees else Verdict.FAIL
        words = ""
        if cause is not None:
            named = "; ".join(f"{d.subject} {d.message}" for d in cause.differences[:3])
            alone = f"{witness} reads the file as qddot does; " if witness else ""
            words = f"{alone}first cause: {cause.name}: {named or cause.message}"
            words = "; ".join((words, *(note for note in c.notes if "ignored" in note)))
        recorder.claim(
            f"{c.a} agrees with {c.b}",
            "masses, tensors, poses, M, g, bias, q̈ at random states",
            verdict=verdict,
            detail=c.reason or words,
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
    model = motion.step.model if motion.step else None
    joints = dict(zip(("q", "v", "tau"), joint_units(model.angular if model else ()), strict=True))
    names = ",".join(model.velocity_names) if model else ""
    recorder.trace(name, columns, {"time": "s", **joints, "joints": names}, frame="joints")
    levels, flows = ("kinetic", "potential", "spring"), ("work", "friction", "contact")
    parts = (*levels, *flows, "numerical", "residual")
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


def record_experiment(recorder: Recorder, result: Result) -> None:
    """An experiment of the laboratory: its measures, a claim for each bound, its runs."""
    stem = f"{result.experiment}_{result.plant}"
    with recorder.mark(stem, f"{result.experiment} on the plant {result.plant}"):
        # indented names belong to the line before them
        names, head = [], ""
        for m in result.measures:
            head = head if m.name.startswith(" ") else m.name
            names.append(m.name if head == m.name else f"{head}, {m.name.strip()}")
        # a column is named after the last point
        names = [name.replace(".", "_") for name in names]
        values = {name: [m.value] for name, m in zip(names, result.measures, strict=True)}
        units = {name: m.unit for name, m in zip(names, result.measures, strict=True)}
        recorder.trace(f"{stem}/measures", values, units)
        for name, m in zip(names, result.measures, strict=True):
            key = f"{stem}/{name}"
            recorder.metric(key, "entry", f"{stem}/measures.{name}", unit=m.unit)
            if m.bound is not None:
                recorder.claim(
                    name,
                    f"{result.experiment} on the plant {result.plant}",
                    metric=key,
                    relation=m.sense,
                    bound=m.bound,
                    label="" if result.label == "ok" else result.label,
                )
        for name, run in result.traces.items():
            columns = {"time": run.time, "q": run.q, "v": run.v, "tau": run.tau}
            columns |= {f"wrench_{frame}": x for frame, x in run.wrenches.items()}
            kept = {column: x[::_EVERY] for column, x in columns.items()}
            recorder.trace(f"{stem}/{name}", kept, {"time": "s", "q": "rad", "tau": "N m"})
        for note in result.notes:
            recorder.note(note)


def record_inspection(recorder: Recorder, found: Inspection) -> None:
    """Record the inspection of a log: shares by joint, a claim for each suspected mistake."""
    columns = {"explained": found.explained, "gravity_share": found.gravity_shares}
    recorder.trace("joints", columns, labels=found.joints)
    for s in found.suspicions:
        recorder.claim(
            f"no {s.kind} {' '.join(s.joints)}".strip(),
            "the log with the nominal model",
            verdict=Verdict.FAIL,
            detail=str(s),
            label="perception",
        )
    for text in found.silent:
        recorder.claim(
            text, "the log with the nominal model", verdict=Verdict.NOT_EVALUATED, detail=text
        )
    if not found.suspicions:
        recorder.claim("no mistakes", "the log with the nominal model", verdict=Verdict.PASS)


def record_fit(recorder: Recorder, fit: Fit, test: Log | None, checked: Validation | None) -> None:
    """Base parameters with intervals; measured and predicted torques of a held-out log."""
    rows = list(fit.base)
    recorder.trace(
        "base_parameters",
        {name: [getattr(r, name) for r in rows] for name in ("value", "low", "high", "prior")},
        labels=[r.name for r in rows],
    )
    for refusal in fit.refusals:
        recorder.note(f"no number for {refusal}")
    shown, log = (fit.residuals, fit.design.log) if checked is None else (checked.residuals, test)
    assert log is not None
    step = -(-len(shown.index) // _MOST_ROWS)
    here = slice(None, None, step)
    name = "training" if checked is None else "held_out"
    columns = {
        "time": np.asarray(log.time)[shown.index[here]],
        "measured": shown.tau[here],
        "predicted": shown.predicted[here],
    }
    recorder.trace(name, columns, {"time": "s", "measured": "N m", "predicted": "N m"})
    recorder.metric(f"{name}_error", "relative_rms", f"{name}.measured", f"{name}.predicted")
    if checked is None:
        recorder.note("nothing was held out: how well the model predicts is not judged")
        return
    recorder.claim(
        "held-out torques are predicted",
        "measured torques of the held-out log with those of the identified model",
        metric="held_out_error",
        relation="≤",
        bound=checked.usable,
        detail=f"{100 * checked.total:.3g} % remain, {100 * checked.before:.3g} % before the fit",
        fix="`qddot identify inspect` looks for mistakes in the log; `plan` makes a better motion",
        label="model",
    )
