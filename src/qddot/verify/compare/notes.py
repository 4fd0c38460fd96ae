"""Notes beside the stages: the steps of the comparison, differences without effect, reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qddot.model.model import WORLD, Model
from qddot.spatial.algebra import Transform
from qddot.verify.compare.align import Alignment
from qddot.verify.compare.couplings import coupling_notes
from qddot.verify.compare.result import Stage, format_both
from qddot.verify.compare.terms import Side

__all__ = ["comparison_notes", "health_notes", "list_omissions"]

_INERTIAL = {"total mass", "mass of bodies", "centre of mass", "inertia tensor"}
_FORCES = {"M", "passive", "q̈"}
_LOSSY = ("passive", "q̈")
_ROUNDING = 1e-9


def health_notes(model: Model, stages: Sequence[Stage]) -> Iterator[str]:
    """Findings of the health check that may be the reason: engines treat them differently."""
    causes = {s.name for s in stages if s.verdict == "differ"}
    said: dict[str, list[str]] = {}
    for finding in model.health:
        inertia = finding.kind == "inertia" and causes & _INERTIAL
        if inertia or (finding.kind == "ignored" and causes & _FORCES):
            said.setdefault(finding.message, []).append(finding.subject)
    for message, subjects in said.items():
        more = f" and {len(subjects) - 1} more" if len(subjects) > 1 else ""
        yield f"{subjects[0]}{more} in qddot: {message}"


def comparison_notes(
    a: Model, alignment: Alignment, side: Side, stages: Sequence[Stage]
) -> Iterator[str]:
    """Steps that make the two comparable, and differences that have no effect."""
    # joints with other names
    renamed = alignment.pairing.renamed
    if renamed:
        (ours, theirs), *_ = renamed.items()
        how = " and ".join(alignment.pairing.how)
        if len(renamed) == 1:
            yield f"joint {ours!r} matched with {theirs!r} {how}"
        else:
            yield f"{len(renamed)} joints matched {how}, such as {ours!r} with {theirs!r}"
    # a free root on one side
    for model, alone in ((a, alignment.only_a), (side.exact, alignment.only_b)):
        roots = [b for b in model.bodies if b.parent == WORLD and b.joint.name in alone]
        if any(b.joint.kind.floats for b in roots):
            yield "only one side has a free root: --base free or --base fixed makes them alike"
    # frames that lie elsewhere on the same bodies
    moved = [n for n, D in alignment.frames.items() if Transform.identity() != D]
    if moved:
        names = ", ".join(repr(alignment.a.body_of_joint(n).name) for n in moved[:3])
        more = f" and {len(moved) - 3} more" if len(moved) > 3 else ""
        text = f"the frames of {names}{more} lie elsewhere on the same bodies in @B"
        yield f"{text}: it is compared in the frames of @A"
    # joints whose coordinate is counted from another position
    for joint in (b.joint for b in alignment.a.independent):
        other = alignment.b.body_of_joint(alignment.pairing.names[joint.name]).joint
        shift = float(joint.offset) - float(other.offset) + alignment.zeros.get(joint.name, 0.0)
        if joint.kind.nv == 1 and abs(shift) > _ROUNDING:
            yield f"joint {joint.name!r}: q in @B is q in @A {shift:+.6g}"
    yield from coupling_notes(a, side.exact, alignment)
    # mass that never moves
    here, there = (float(m.base_inertia.mass) for m in (alignment.a, alignment.b))
    if a.nv and side.exact.nv and not alignment.a.nv:
        yield "no joint of @A matches one of @B, so that no bodies are compared"
    elif abs(here - there) > _ROUNDING * max(here, there):
        text = f"what is fixed to the world weighs {format_both(here, there, 'kg')}"
        yield f"{text}; no term depends on it"
    # friction, damping and springs that B leaves out
    drives = [b.joint.drivetrain for b in alignment.a.bodies]
    terms = [s.name for s in stages if s.name in _LOSSY and s.verdict != "not evaluated"]
    if side.no_friction and terms and any(any(d.friction_levels) for d in drives):
        verb = "is" if len(terms) == 1 else "are"
        text = f"{' and '.join(terms)} {verb} compared without dry friction"
        yield f"{text}: {side.no_friction} in @B"
    dissipates = any(any((d.damping, *d.friction_levels, d.stiffness)) for d in drives)
    if dissipates and terms == ["q̈"]:
        yield "q̈ is compared without damping, friction and springs, which @B leaves out"


def list_omissions(a: Model, alignment: Alignment, side: Side) -> Iterator[str]:
    """Properties that no stage compares."""
    yield "limits, shapes, contacts and actuators"
    b = side.exact
    names = [{f.name for f in m.frames} for m in (alignment.a, alignment.b)]
    known = {body.name for m in (alignment.a, alignment.b) for body in m.bodies}
    known |= {end for m in (a, b) for loop in m.loops for end in (loop.frame1, loop.frame2)}
    counted = (
        ("loop closures", len(a.loops), len(b.loops)),
        ("couplings that are not linear", len(a.polynomial_couplings), len(b.polynomial_couplings)),
        ("frames that only one side has", *(len(x - y - known) for x, y in (names, names[::-1]))),
    )
    for what, ours, theirs in counted:
        if ours or theirs:
            yield f"{what} ({ours} in @A, {theirs} in @B)"
    if alignment.torn:
        yield "everything but the degrees of freedom, as joints hang on other bodies"
    elif not alignment.a.nv:
        yield "bodies and terms, as nothing moves on both sides"
