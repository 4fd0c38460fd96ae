"""The waterfall: stage by stage down to q̈, the first stage that differs is the cause.

After a cause the models are made equal in it and compared on: what then agrees was a consequence,
what still differs is a cause of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from qddot.model.model import WORLD, Model
from qddot.robot.robot import Robot
from qddot.verify.compare.align import Alignment
from qddot.verify.compare.couplings import coupling_differences
from qddot.verify.compare.parameters import PARAMETER_STAGES
from qddot.verify.compare.result import ModelDifference, Stage
from qddot.verify.compare.terms import (
    Side,
    acceleration_shares,
    evaluate_terms,
    pose_differences,
    term_stages,
)
from qddot.verify.invariants import random_states

__all__ = ["run_stages"]

_MOST_LISTED = 1


def run_stages(
    a: Model, alignment: Alignment, side: Side, states: int, seed: int, tolerance: float
) -> list[Stage]:
    """The stages of a comparison of A (couplings as loaded) with B."""
    stages = [_compare_freedoms(a, alignment, side.exact, tolerance)]
    if alignment.torn:
        return stages
    at = random_states(Robot(alignment.a, native=False), states, seed)
    other = alignment.b_in_frames_of_a
    # steps: A as it is, then with one cause after the other made equal to B
    steps, causes = [alignment.a], list[str]()
    for stage in PARAMETER_STAGES:
        if stage.of_bodies and not alignment.a.bodies:
            continue
        found = [tuple(stage.differences(m, other, tolerance)) for m in steps]
        extra: list[ModelDifference] = []
        if stage.name == "pose":
            # differences that the alignment has removed: reversed axes, frames elsewhere
            for name in alignment.reversed_joints:
                message = (
                    "turns the other way in @B: its axis is reversed, and its q has the other sign"
                )
                extra.append(ModelDifference(f"joint {name!r}", message, 1.0))
            for name, body in alignment.moved_frames:
                where = repr(alignment.b.bodies[body].name) if body != WORLD else "the world"
                message = f"is fixed to {where} in @B"
                extra.append(ModelDifference(f"frame {name!r}", message, 1.0))
            extra += pose_differences(alignment, side, at, tolerance)
        # what differs with all causes made equal is a cause of its own, otherwise a consequence
        raw, left = (*found[0], *extra), (*found[-1], *extra)
        size, rest = (max((d.size for d in x), default=0.0) for x in (raw, left))
        if left:
            message = _list_differences(left)
            judged = Stage(stage.name, "differ", message, size, rest, left)
        elif raw:
            moves = zip(causes, found, found[1:], strict=False)
            because = tuple(c for c, x, y in moves if len(y) < len(x))
            message = _list_differences(raw)
            judged = Stage(stage.name, "consequence", message, size, rest, raw, because)
        elif stage.name in side.unread:
            judged = Stage(stage.name, "not evaluated", f"{side.unread[stage.name]} in @B")
        else:
            judged = Stage(stage.name, "agree", "")
        stages.append(judged)
        if found[-1]:
            steps.append(stage.align(steps[-1], other))
            causes.append(stage.name)
    # terms of the equation at random states
    if alignment.a.nv:
        ours = [evaluate_terms(model, at, side.no_friction) for model in steps]
        shares = acceleration_shares(causes, ours, side)
        stages = [dataclasses.replace(s, share=shares.get(s.name)) for s in stages]
        stages += term_stages(alignment, side, ours, causes, at, tolerance)
    return stages


def _compare_freedoms(a: Model, alignment: Alignment, b: Model, tolerance: float) -> Stage:
    """Joints that only one side has, couplings that differ, and joints that hang elsewhere."""
    found = []
    for model, joints, side in ((a, alignment.only_a, "@A"), (b, alignment.only_b, "@B")):
        for name in joints:
            kind = model.body_of_joint(name).joint.kind.name
            message = f"({kind}) moves only in {side}; it is locked for what follows"
            found.append(ModelDifference(f"joint {name!r}", message, 1.0))
    found += coupling_differences(a, b, alignment, tolerance)
    for name in alignment.torn:
        message = "hangs on another body in @B than in @A"
        found.append(ModelDifference(f"joint {name!r}", message, 1.0))
    counts = f"{a.nv} in @A, {b.nv} in @B" if a.nv != b.nv else f"{a.nv} in both"
    if not found:
        return Stage("degrees of freedom", "agree", counts)
    message = f"{counts}: {_list_differences(found)}"
    return Stage("degrees of freedom", "differ", message, 1.0, 1.0, tuple(found))


def _list_differences(differences: Sequence[ModelDifference]) -> str:
    """The largest differences in words, that of the robot first, and the number of the others."""
    ranked = sorted(differences, key=lambda d: (d.subject != "the robot", -d.size))
    texts = [f"{d.subject} {d.message}" for d in ranked[:_MOST_LISTED]]
    more = len(ranked) - len(texts)
    return "; ".join(texts) + (f"; and {more} more" if more else "")
