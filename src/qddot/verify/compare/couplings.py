"""Couplings of two models compared as laws: which joint is called the leader does not matter.

Joints that are coupled move along a line: each displacement is ratio · q + offset of one q. The
line is the same mechanism whichever of its joints carries q.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from qddot.model.joints import Joint
from qddot.model.model import Model
from qddot.verify.compare.align import Alignment
from qddot.verify.compare.result import ModelDifference

__all__ = ["coupling_differences", "coupling_notes"]


@dataclass(frozen=True)
class _Line:
    """A joint's displacement as ratio · q + offset of the coordinate of its root."""

    root: str
    ratio: float
    offset: float


def coupling_differences(
    a: Model, b: Model, alignment: Alignment, tolerance: float
) -> Iterator[ModelDifference]:
    """Couplings that only one side has, and those that differ in their law."""
    names, back = alignment.pairing.names, {y: x for x, y in alignment.pairing.names.items()}
    # joints of one freedom of both sides, by their names and in the displacements of A
    ours, theirs = dict[str, _Line](), dict[str, _Line]()
    joints = {body.joint.name: body.joint for body in b.bodies}
    for joint in (body.joint for body in a.bodies if body.joint.kind.nq == 1):
        ours[joint.name] = _Line(joint.leader or joint.name, joint.ratio, float(joint.offset))
        other = joints.get(names.get(joint.name, ""))
        if other is not None:
            sign = -1.0 if joint.name in alignment.reversed_joints else 1.0
            offset = sign * (float(other.offset) - alignment.zeros.get(joint.name, 0.0))
            theirs[joint.name] = _Line(other.leader or other.name, sign * other.ratio, offset)
    for joint in _coupled_joints(a):
        name, leader = joint.name, str(joint.leader)
        if name not in names:
            continue
        if not _are_coupled(theirs, name, leader):
            message = f"follows {leader!r} (× {joint.ratio:g}) in @A and moves on its own in @B"
            yield ModelDifference(f"joint {name!r}", message, 1.0)
            continue
        # the law of the joint as a function of the displacement of its leader
        laws = []
        for x, y in ((ours[leader], ours[name]), (theirs[leader], theirs[name])):
            # a leader that stands still in B while its follower moves has no law
            slope = y.ratio / x.ratio if x.ratio else float("inf")
            laws.append((slope, y.offset - slope * x.offset if x.ratio else 0.0))
        (k, c), (slope, offset) = laws
        apart = max(abs(k - slope) / max(abs(k), 1e-300), abs(c - offset) / max(1.0, abs(c)))
        if apart > tolerance:
            here, there = (f"{ratio:.9g} q {shift:+.9g}" for ratio, shift in laws)
            message = f"follows {leader!r} by {here} in @A, by {there} in @B; that of @A is used"
            yield ModelDifference(f"joint {name!r}", message, min(apart, 1.0), laws[0], laws[1])
    for joint in _coupled_joints(b):
        ends = [back.get(x, "") for x in (joint.name, str(joint.leader))]
        if ends[0] and not _are_coupled(ours, *ends):
            text = f"follows {joint.leader!r} (× {joint.ratio:g}) in @B and moves on its own in @A"
            yield ModelDifference(f"joint {ends[0]!r}", text, 1.0)


def _coupled_joints(model: Model) -> list[Joint]:
    return [body.joint for body in model.bodies if body.joint.leader is not None]


def _are_coupled(lines: dict[str, _Line], name: str, leader: str) -> bool:
    return name in lines and leader in lines and lines[name].root == lines[leader].root


def coupling_notes(a: Model, b: Model, alignment: Alignment) -> Iterator[str]:
    """Couplings whose leader in A follows in B."""
    names = alignment.pairing.names
    led = {joint.name: str(joint.leader) for joint in _coupled_joints(b)}
    for joint in _coupled_joints(a):
        leader = str(joint.leader)
        if leader in names and led.get(names[leader]) == names.get(joint.name):
            yield f"joint {joint.name!r} follows {leader!r} in @A; in @B it is the other way round"
