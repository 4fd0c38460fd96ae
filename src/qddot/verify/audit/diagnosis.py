"""Diagnosis: the corrections that explain a robot's inertias best, found one after the other.

The correction with the greatest gain over all links is accepted and made; then the evidence is
weighed again. So a link is not blamed for disagreeing with a twin that is at fault.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from qddot.verify.audit.case import AuditCase
from qddot.verify.audit.corrections import CORRECTIONS, Candidate
from qddot.verify.audit.evidence import (
    Evidence,
    disagreement_cost,
    inertia_defect_share,
    is_usual_density,
)
from qddot.verify.audit.findings import AuditFinding, odds_text
from qddot.verify.audit.records import Inertial
from qddot.verify.audit.solids import Array, tensor_of

__all__ = ["diagnose"]

# gain in nats that a correction needs, that makes it serious, and the lead that makes it the fix
_NEEDED, _SERIOUS, _LEAD = 2.0, 8.0, 1.5
# what is left of the disagreement must be small, or a small share of what it was
_SMALL, _LEFT, _HALF, _SHARE = 1.5, 4.5, 0.5, 0.35
_IMPOSSIBLE = 1e-3


@dataclass(frozen=True)
class _CorrectionVerdict:
    """A correction of a link, its gain, and the disagreement before and after, in nats."""

    hypothesis: str
    candidate: Candidate
    gain: float
    before: float
    after: float
    impossible: bool


def diagnose(case: AuditCase, aside: Collection[str]) -> tuple[AuditCase, list[AuditFinding]]:
    """The case with mistakes undone, and a finding for each; links set aside are left alone."""
    verdicts = {}
    for link in case.robot.links_with_mass():
        i = link.inertial
        if i is None or not i.has_rotational_inertia or i.source == "shapes":
            continue
        if link.name not in aside:
            verdicts[link.name] = _rank_corrections(case.evidence(link.name))
    findings: list[AuditFinding] = []
    while True:
        # accept the correction with the greatest gain of all links
        best = max(verdicts, key=lambda n: _largest_gain(verdicts[n]), default=None)
        if best is None or _largest_gain(verdicts[best]) < _NEEDED:
            return case, findings
        chosen = verdicts.pop(best)
        findings.append(_describe_correction(case, best, chosen))
        case = case.with_inertial(best, chosen[0].candidate.inertial)
        # weigh the evidence on its twins again
        for name in verdicts:
            if any(t.name == best for t in case.twins.get(name, ())):
                verdicts[name] = _rank_corrections(case.evidence(name))


def _largest_gain(verdicts: list[_CorrectionVerdict]) -> float:
    return verdicts[0].gain if verdicts else 0.0


def _rank_corrections(evidence: Evidence) -> list[_CorrectionVerdict]:
    """The corrections of a link that leave it possible and in agreement, best first."""
    written = evidence.link.inertial
    if written is None:
        return []
    # the cost of the inertia as written and of all candidates, in one batch
    rows = [(h, prior, c) for h, (f, prior) in CORRECTIONS.items() for c in f(evidence, written)]
    inertials = [written, *(c.inertial for _, _, c in rows)]
    costs = disagreement_cost(evidence, inertials)
    flaws = inertia_defect_share(np.array([i.tensor for i in inertials]))
    # where the inertia is impossible, it is known that there is a mistake
    impossible = bool(flaws[0] > _IMPOSSIBLE)
    known = 2.5 if impossible else 0.0
    before = float(costs[0])
    usual = is_usual_density(evidence.geometry, written.mass)
    found = []
    for (hypothesis, prior, candidate), after, flaw in zip(rows, costs[1:], flaws[1:], strict=True):
        if usual and not is_usual_density(evidence.geometry, candidate.inertial.mass):
            continue
        relief = before - float(after)
        enough = max(_SMALL, min(_LEFT, _HALF * before), _SHARE * before)
        if flaw > _IMPOSSIBLE or relief < 1.2 or after > enough:
            continue
        gain = relief + known - prior - candidate.penalty
        found.append(
            _CorrectionVerdict(
                hypothesis=hypothesis,
                candidate=candidate,
                gain=gain,
                before=before,
                after=float(after),
                impossible=impossible,
            )
        )
    return sorted(found, key=lambda v: -v.gain)


def _describe_correction(
    case: AuditCase, name: str, verdicts: list[_CorrectionVerdict]
) -> AuditFinding:
    """The finding of the best correction of a link, with its remedy if there is only one."""
    best = verdicts[0]
    meant, written = best.candidate.inertial, case.robot.links[name].inertial
    evidence = case.evidence(name)
    # values as written and as meant
    words = []
    if written is not None and meant.mass != written.mass:
        words.append(f"mass {written.mass:.4g} kg, as meant {meant.mass:.4g}")
        smallest, _ = evidence.geometry.volume_bounds
        if smallest > 0:
            words.append(f"{written.mass / smallest:.3g} kg/m³ against {meant.mass / smallest:.3g}")
    if written is not None and not np.array_equal(meant.com, written.com):
        places = [_format_values(x.com) for x in (written, meant)]
        words.append("centre of mass ({}) m, as meant ({})".format(*places))
    if written is not None and not np.array_equal(meant.tensor, written.tensor):
        tensors = [_format_tensor(x.tensor) for x in (written, meant)]
        words.append("tensor {} kg m², as meant {}".format(*tensors))
    # beside them those of a twin, or of the shapes
    if evidence.twins:
        twin, other = evidence.twins[0], evidence.twins[0].inertials[0]
        words.append(f"twin {twin.name!r} {other.mass:.4g} kg, {_format_tensor(other.tensor)}")
    elif evidence.geometry.estimates:
        estimate = evidence.geometry.estimates[0]
        uniform = tensor_of(meant.mass, estimate.solid.spread)
        words.append(f"{estimate.name} at one density {_format_tensor(uniform)}")
    message = f"{best.candidate.words}: {'; '.join(words)}"
    if best.impossible:
        message += "; as written it is impossible"
    # other corrections that fit about as well and mean another inertia
    rivals: list[_CorrectionVerdict] = []
    for v in verdicts[1:]:
        others = (meant, *(x.candidate.inertial for x in rivals))
        same = any(_is_same(v.candidate.inertial, x) for x in others)
        if v.gain > best.gain - _LEAD and not same:
            rivals.append(v)
    if rivals:
        plural = "remedy fits" if len(rivals) == 1 else "remedies fit"
        message += f"; {len(rivals)} other {plural} about as well"
    message += f" ({odds_text(best.before - best.after)} than what is written)"
    causes = dict.fromkeys(v.hypothesis for v in rivals if v.hypothesis != best.hypothesis)
    dense = is_usual_density(case.geometries[name], meant.mass)
    remedy = best.candidate.exact and not rivals and meant.source == "file" and dense
    return AuditFinding(
        subject=name,
        hypothesis=best.hypothesis,
        severity="error" if best.impossible or best.gain >= _SERIOUS else "warning",
        message=message,
        strength=best.gain,
        meant=meant if remedy else None,
        links=(name,),
        others=tuple(causes),
    )


def _is_same(a: Inertial, b: Inertial) -> bool:
    """Whether two corrections mean the same inertia, within what a file is written with."""
    return (
        abs(a.mass - b.mass) < 1e-3 * a.mass
        and np.allclose(a.com, b.com, atol=1e-4)
        and np.allclose(a.tensor, b.tensor, atol=0.02 * np.abs(a.tensor).max())
    )


def _format_values(values: Array) -> str:
    return ", ".join(f"{x:.3g}" for x in values)


def _format_tensor(tensor: Array) -> str:
    """Moments, then products where there are any to speak of."""
    products = tensor[np.triu_indices(3, 1)]
    moments = np.diag(tensor)
    small = np.abs(products).max() < 0.005 * np.abs(moments).max()
    listed = _format_values(moments)
    return f"({listed})" if small else f"({listed} | {_format_values(products)})"
