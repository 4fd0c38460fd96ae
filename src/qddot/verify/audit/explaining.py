"""The slips that explain a robot's inertias best, found one after the other.

The slip with the greatest gain over all links is accepted and the link taken as it was meant; then
the evidence is weighed again. So a link is not blamed for disagreeing with a twin that is at fault.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from qddot.verify.audit.evidence import Evidence, cost, defect
from qddot.verify.audit.findings import Finding, Severity
from qddot.verify.audit.gathering import Case
from qddot.verify.audit.records import Inertial
from qddot.verify.audit.slips import SLIPS, Candidate
from qddot.verify.audit.solids import Array, tensor_of

__all__ = ["explain"]

# gain in nats that a slip needs, that makes it serious, and by which it must lead to be the fix
_NEEDED, _SERIOUS, _LEAD = 2.0, 8.0, 1.5
# what is left of the disagreement must be small, or a small share of what it was
_SMALL, _LEFT, _HALF, _SHARE = 1.5, 4.5, 0.5, 0.35
_IMPOSSIBLE = 1e-3


@dataclass(frozen=True)
class _Verdict:
    """A hypothesis on a link, what it gains, and the disagreement before and after."""

    hypothesis: str
    candidate: Candidate
    gain: float
    before: float
    after: float
    impossible: bool


def explain(case: Case, aside: Collection[str]) -> tuple[Case, list[Finding]]:
    """The case with every slip undone, and a finding for each; links set aside are left alone."""
    open_links = [x.name for x in case.robot.weighed() if _fit(case, x.name, aside)]
    verdicts = {name: _verdicts(case.evidence(name)) for name in open_links}
    findings: list[Finding] = []
    while True:
        best = max(verdicts, key=lambda n: _gain(verdicts[n]), default=None)
        if best is None or _gain(verdicts[best]) < _NEEDED:
            return case, findings
        chosen = verdicts.pop(best)
        findings.append(_finding(case, best, chosen))
        case = case.meant(best, chosen[0].candidate.inertial)
        for name in verdicts:
            if any(t.name == best for t in case.twins.get(name, ())):
                verdicts[name] = _verdicts(case.evidence(name))


def _fit(case: Case, name: str, aside: Collection[str]) -> bool:
    inertial = case.robot.links[name].inertial
    return name not in aside and inertial is not None and inertial.extended


def _gain(verdicts: list[_Verdict]) -> float:
    return verdicts[0].gain if verdicts else 0.0


def _verdicts(evidence: Evidence) -> list[_Verdict]:
    """The hypotheses on a link that leave it possible and in agreement, best first."""
    written = evidence.link.inertial
    if written is None:
        return []
    rows = [(h, prior, c) for h, (f, prior) in SLIPS.items() for c in f(evidence, written)]
    inertials = [written, *(c.inertial for _, _, c in rows)]
    costs = cost(evidence, inertials)
    flaws = defect(np.array([i.tensor for i in inertials]))
    # where the inertia is impossible, that something slipped is known
    impossible = bool(flaws[0] > _IMPOSSIBLE)
    known = 2.5 if impossible else 0.0
    before = float(costs[0])
    found = []
    for (hypothesis, prior, candidate), after, flaw in zip(rows, costs[1:], flaws[1:], strict=True):
        relief = before - float(after)
        enough = max(_SMALL, min(_LEFT, _HALF * before), _SHARE * before)
        if flaw > _IMPOSSIBLE or relief < 1.2 or after > enough:
            continue
        gain = relief + known - prior - candidate.penalty
        verdict = _Verdict(hypothesis, candidate, gain, before, float(after), impossible)
        found.append(verdict)
    return sorted(found, key=lambda v: -v.gain)


def _finding(case: Case, name: str, verdicts: list[_Verdict]) -> Finding:
    best = verdicts[0]
    rivals = [v for v in verdicts[1:] if v.gain > best.gain - _LEAD and not _alike(best, v)]
    others = dict.fromkeys(v.hypothesis for v in rivals if v.hypothesis != best.hypothesis)
    message = f"{best.candidate.words}: {_figures(case, name, best.candidate.inertial)}"
    if best.impossible:
        message += "; as written it is impossible"
    if rivals:
        plural = "remedy fits" if len(rivals) == 1 else "remedies fit"
        message += f"; {len(rivals)} other {plural} about as well"
    message += f" (disagreement {best.before:.1f} → {best.after:.1f} nats)"
    severity: Severity = "error" if best.impossible or best.gain >= _SERIOUS else "warning"
    return Finding(
        name, best.hypothesis, severity, message, best.gain,
        best.candidate.inertial if best.candidate.exact and not rivals else None,
        (name,), tuple(others),
    )  # fmt: skip


def _alike(a: _Verdict, b: _Verdict) -> bool:
    """Whether two hypotheses mean the same inertia."""
    x, y = a.candidate.inertial, b.candidate.inertial
    scale = np.abs(x.tensor).max()
    return (
        abs(x.mass - y.mass) < 1e-3 * x.mass
        and bool(np.allclose(x.com, y.com, atol=1e-4))
        and bool(np.allclose(x.tensor, y.tensor, atol=0.02 * scale))
    )


def _figures(case: Case, name: str, meant: Inertial) -> str:
    """What differs between an inertia as written and as meant, beside the witnesses."""
    written, evidence = case.robot.links[name].inertial, case.evidence(name)
    if written is None:
        return ""
    words = []
    if meant.mass != written.mass:
        words.append(f"mass {written.mass:.4g} kg, as meant {meant.mass:.4g}")
        smallest, _ = evidence.geometry.volumes
        if smallest > 0:
            words.append(f"{written.mass / smallest:.3g} kg/m³ against {meant.mass / smallest:.3g}")
    if not np.array_equal(meant.com, written.com):
        words.append(f"centre of mass ({_listed(written.com)}) m, as meant ({_listed(meant.com)})")
    if not np.array_equal(meant.tensor, written.tensor):
        words.append(f"tensor {_tensor(written.tensor)} kg m², as meant {_tensor(meant.tensor)}")
    if evidence.twins:
        twin = evidence.twins[0]
        other = twin.inertials[0]
        words.append(f"twin {twin.name!r} {other.mass:.4g} kg, {_tensor(other.tensor)}")
    elif evidence.geometry.estimates:
        estimate = evidence.geometry.estimates[0]
        uniform = tensor_of(meant.mass, estimate.solid.spread)
        words.append(f"{estimate.name} at one density {_tensor(uniform)}")
    return "; ".join(words)


def _listed(values: Array) -> str:
    return ", ".join(f"{x:.3g}" for x in values)


def _tensor(tensor: Array) -> str:
    """Moments, then products where there are any to speak of."""
    products = tensor[np.triu_indices(3, 1)]
    moments = np.diag(tensor)
    small = np.abs(products).max() < 0.005 * np.abs(moments).max()
    return f"({_listed(moments)})" if small else f"({_listed(moments)} | {_listed(products)})"
