"""Robots by name for identities."""

from __future__ import annotations

from random_models import Part, build

from qddot.model.model import WORLD
from qddot.robot.robot import Robot

NAMED = {
    "universal": [("universal", WORLD, None), ("revolute", 0, None), ("universal", 1, None)],
    "planar": [("planar", WORLD, None), ("revolute", 0, None), ("planar", 1, None)],
    "helical": [("helical", WORLD, None), ("helical", 0, None), ("helical", 0, None)],
    "coupled": [("revolute", WORLD, None), ("helical", 0, 0), ("prismatic", 1, None),
                ("revolute", 2, 0), ("revolute", 3, 2)],
    "ball": [("ball", WORLD, None), ("ball", 0, None)],
    "free": [("free", WORLD, None), ("ball", 0, None), ("universal", 0, None)],
}  # fmt: skip


def named(name: str, seed: int = 1) -> Robot:
    """A robot with one kind of joint, or with couplings."""
    parts = [
        Part(kind, parent, False, False, kind in ("revolute", "helical"), follows)
        for kind, parent, follows in NAMED[name]
    ]
    return Robot(build(parts, seed))
