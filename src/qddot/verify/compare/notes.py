"""Notes beside the stages: how it was compared, what has no effect, what may be the reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qddot.adapt.forms import family
from qddot.model import WORLD, Model
from qddot.spatial import Transform
from qddot.verify.compare.align import Alignment
from qddot.verify.compare.result import Stage, both
from qddot.verify.compare.terms import Side

__all__ = ["doubts", "remarks"]

_INERTIAL = {"total mass", "mass of bodies", "centre of mass", "inertia tensor"}
_FORCES = {"M", "passive", "q̈"}
_ROUNDING = 1e-9


def doubts(model: Model, stages: Sequence[Stage]) -> Iterator[str]:
    """What health says of the file that may be why: each engine deals with it in its own way."""
    causes = {s.name for s in stages if s.verdict == "differ"}
    said: dict[str, list[str]] = {}
    for finding in model.health:
        inertia = finding.kind == "inertia" and causes & _INERTIAL
        if inertia or (finding.kind == "ignored" and causes & _FORCES):
            said.setdefault(finding.message, []).append(finding.subject)
    for message, subjects in said.items():
        more = f" and {len(subjects) - 1} more" if len(subjects) > 1 else ""
        yield f"{subjects[0]}{more} in qddot: {message}"


def remarks(a: Model, alignment: Alignment, side: Side) -> Iterator[str]:
    """What was done to make the two comparable, and differences that have no effect."""
    yield from _of_names(alignment)
    yield from _of_roots(a, alignment, side)
    yield from _of_frames(alignment)
    yield from _of_zeros(alignment)
    yield from _of_base(alignment)
    yield from _of_losses(alignment, side)


def _of_names(alignment: Alignment) -> Iterator[str]:
    renamed = alignment.pairing.renamed
    if renamed:
        (ours, theirs), *_ = renamed.items()
        count = f"{len(renamed)} joints" if len(renamed) > 1 else "one joint"
        how = " and ".join(alignment.pairing.how)
        yield f"{count} matched {how}, such as {ours!r} with {theirs!r}"


def _of_roots(a: Model, alignment: Alignment, side: Side) -> Iterator[str]:
    for model, alone in ((a, alignment.only_a), (side.exact, alignment.only_b)):
        roots = [b for b in model.bodies if b.parent == WORLD and b.joint.name in alone]
        if any(b.joint.kind.name == "free" for b in roots):
            yield "only one side has a free root: --base free or --base fixed makes them alike"


def _of_frames(alignment: Alignment) -> Iterator[str]:
    moved = [n for n, D in alignment.frames.items() if Transform.identity() != D]
    if moved:
        names = ", ".join(repr(alignment.a.body_of_joint(n).name) for n in moved[:3])
        more = f" and {len(moved) - 3} more" if len(moved) > 3 else ""
        text = f"the frames of {names}{more} lie elsewhere on the same bodies in @B"
        yield f"{text}: it is compared in the frames of @A"


def _of_zeros(alignment: Alignment) -> Iterator[str]:
    """Joints whose coordinate is counted from another position."""
    for joint in (b.joint for b in alignment.a.independent):
        other = alignment.b.body_of_joint(alignment.pairing.names[joint.name]).joint
        shift = float(joint.offset) - float(other.offset) + alignment.zeros.get(joint.name, 0.0)
        if family(joint.kind.name) == "one" and abs(shift) > _ROUNDING:
            yield f"joint {joint.name!r}: q in @B is q in @A {shift:+.6g}"


def _of_base(alignment: Alignment) -> Iterator[str]:
    ours, theirs = (float(m.base_inertia.mass) for m in (alignment.a, alignment.b))
    if abs(ours - theirs) > _ROUNDING * max(ours, theirs):
        text = f"what is fixed to the world weighs {both(ours, theirs, 'kg')}"
        yield f"{text}; no term depends on it"


def _of_losses(alignment: Alignment, side: Side) -> Iterator[str]:
    drives = [b.joint.drivetrain for b in alignment.a.bodies]
    if side.no_friction and any(float(d.friction) for d in drives):
        yield f"passive and q̈ are compared without dry friction: {side.no_friction} in @B"
    losses = any(float(x) for d in drives for x in (d.damping, d.friction, d.stiffness))
    if losses and isinstance(side.values.get("passive"), str):
        yield "q̈ is compared without damping, friction and springs, which @B leaves out"
