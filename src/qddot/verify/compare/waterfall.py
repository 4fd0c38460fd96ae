"""The waterfall: stage by stage down to q̈, the first stage that differs is the cause.

After a cause the models are made equal in it and compared on: what then agrees was a consequence,
what still differs is a cause of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qddot.model import Model
from qddot.robot import Robot
from qddot.verify.compare.align import Alignment
from qddot.verify.compare.parameters import PARAMETER_STAGES
from qddot.verify.compare.result import Difference, Stage
from qddot.verify.compare.terms import Side, measured_poses, term_stages
from qddot.verify.invariants import sample

__all__ = ["waterfall"]

_MOST_LISTED = 1


def waterfall(
    a: Model, alignment: Alignment, side: Side, states: int, seed: int, tolerance: float
) -> list[Stage]:
    """The stages of a comparison of A (couplings as loaded) with B."""
    stages = [_freedoms(a, alignment, side.exact)]
    if alignment.torn:
        return stages
    at = sample(Robot(alignment.a, native=False), states, seed)
    steps, causes = [alignment.a], list[str]()
    for stage in PARAMETER_STAGES:
        found = [tuple(stage.differences(m, alignment.seen, tolerance)) for m in steps]
        extra: tuple[Difference, ...] = ()
        if stage.name == "pose":
            extra = (*_reversed(alignment), *measured_poses(alignment, side, at, tolerance))
        stages.append(_judged(stage.name, found, extra, causes))
        if found[-1]:
            steps.append(stage.align(steps[-1], alignment.seen))
            causes.append(stage.name)
    if alignment.a.nv:
        stages += term_stages(alignment, side, steps, causes, at, tolerance)
    return stages


def _judged(
    name: str,
    found: Sequence[tuple[Difference, ...]],
    extra: tuple[Difference, ...],
    causes: Sequence[str],
) -> Stage:
    """The verdict on a stage from its differences before and after each cause was aligned."""
    raw, left = (*found[0], *extra), (*found[-1], *extra)
    size, rest = (max((d.size for d in x), default=0.0) for x in (raw, left))
    if left:
        return Stage(name, "differ", _listed(left), size, rest, left)
    if raw:
        moves = zip(causes, found, found[1:], strict=False)
        because = tuple(c for c, x, y in moves if len(y) < len(x))
        return Stage(name, "consequence", _listed(raw), size, rest, raw, because)
    return Stage(name, "agree", "")


def _listed(differences: Sequence[Difference]) -> str:
    """The largest differences in words, that of the robot first, and how many more there are."""
    ranked = sorted(differences, key=lambda d: (d.subject != "the robot", -d.size))
    texts = [f"{d.subject} {d.message}" for d in ranked[:_MOST_LISTED]]
    more = len(ranked) - len(texts)
    return "; ".join(texts) + (f"; and {more} more" if more else "")


def _freedoms(a: Model, alignment: Alignment, b: Model) -> Stage:
    """Joints that only one side has, couplings that differ, and joints that hang elsewhere."""
    found = (
        *_alone(a, alignment.only_a, "@A"),
        *_alone(b, alignment.only_b, "@B"),
        *_couplings(a, alignment, b),
        *_torn(alignment),
    )
    counts = f"{a.nv} in @A, {b.nv} in @B" if a.nv != b.nv else f"{a.nv} in both"
    if not found:
        return Stage("degrees of freedom", "agree", counts)
    return Stage("degrees of freedom", "differ", f"{counts}: {_listed(found)}", 1.0, 1.0, found)


def _alone(model: Model, joints: Sequence[str], side: str) -> Iterator[Difference]:
    for name in joints:
        kind = model.body_of_joint(name).joint.kind.name
        message = f"({kind}) moves only in {side}; it is locked for what follows"
        yield Difference(f"joint {name!r}", message, 1.0)


def _couplings(a: Model, alignment: Alignment, b: Model) -> Iterator[Difference]:
    followers = [{x.joint.name: x.joint for x in m.bodies if x.joint.leader} for m in (a, b)]
    for name, other in alignment.pairing.names.items():
        here, there = followers[0].get(name), followers[1].get(other)
        sides = ("@A", "@B") if here else ("@B", "@A")
        for joint in filter(None, (here, there)):
            if here and there:
                continue
            message = f"follows {joint.leader!r} (× {joint.ratio:g}) in {sides[0]} and moves on "
            yield Difference(f"joint {name!r}", f"{message}its own in {sides[1]}", 1.0)


def _torn(alignment: Alignment) -> Iterator[Difference]:
    for name in alignment.torn:
        yield Difference(f"joint {name!r}", "hangs on another body in @B than in @A", 1.0)


def _reversed(alignment: Alignment) -> Iterator[Difference]:
    for name in alignment.reversed_joints:
        message = "turns the other way in @B: its axis is reversed, and its q has the other sign"
        yield Difference(f"joint {name!r}", message, 1.0)
