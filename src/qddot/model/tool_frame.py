"""The frame that a person means by "the tool": where the longest chain ends, not at a finger."""

from __future__ import annotations

from qddot.model.model import WORLD, Model

__all__ = ["tool_frame"]

_NAMES = ("tcp", "grasp", "tool", "end_effector", "ee_link", "flange", "attachment", "hand", "foot")
_FINGERS = ("finger", "gripper", "jaw", "knuckle", "thumb")
_LONGEST_FINGER = 5
_SHORTEST_ARM = 3


def tool_frame(model: Model) -> str | None:
    """Name of the frame at the end of the longest chain of joints; None where nothing moves.

    Short branches at the end of a chain are fingers: the tool is on the body that they share. So
    are joints at the end that are called so: the tool is on the body before them.
    """
    if not any(frame.body != WORLD for frame in model.frames):
        return None
    chains = [model.ancestors(i) for i in range(model.nb)]
    chain = max(chains, key=len)
    # back over fingers: from a leaf to the body that carries several
    children = [sum(b.parent == i for b in model.bodies) for i in range(model.nb)]
    end = 0
    for k in range(1, min(_LONGEST_FINGER + 1, len(chain))):
        before = sum(model.bodies[i].joint.kind.nv == 1 for i in chain[k:])
        finger = any(word in model.bodies[chain[k - 1]].joint.name.lower() for word in _FINGERS)
        branches = children[chain[k]] > 1
        if (branches or (finger and end == k - 1)) and before >= _SHORTEST_ARM:
            end = k
    # a frame on that body, or the nearest one before it
    closures = {name for loop in model.loops for name in (loop.frame1, loop.frame2)}
    for body in chain[end:]:
        names = [f.name for f in model.frames if f.body == body and f.name not in closures]
        for word in _NAMES:
            for name in reversed(names):
                if word in name.lower():
                    return name
        if names:
            return names[-1]
    return None
