"""Random trees with every joint type, over floats or any other number type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from qddot.model.assembly import assemble
from qddot.model.joints import JOINTS, Drivetrain, Joint, plane_basis
from qddot.model.links import Coupling, FrameDraft, Link
from qddot.model.model import WORLD, Model
from qddot.spatial.algebra import Inertia, Transform, Vec3, rotation_from_quaternion

MOVING = ("revolute", "continuous", "prismatic", "helical", "universal", "planar", "ball", "free")


@dataclass(frozen=True)
class Part:
    """One body of a random tree."""

    kind: str
    parent: int
    aligned: bool
    massless: bool
    armature: bool
    follows: int | None


@st.composite
def trees(draw: Any, most: int = 20, kinds: tuple[str, ...] = MOVING) -> tuple[list[Part], int]:
    """The structure of a tree, and a seed for its numbers."""
    parts: list[Part] = []
    for i in range(draw(st.integers(1, most))):
        kind = draw(st.sampled_from((*kinds, "revolute", "fixed")))
        leaders = [k for k, p in enumerate(parts) if _single(p) and p.follows is None]
        follows = None
        if leaders and kind in ("revolute", "prismatic", "helical") and draw(st.booleans()):
            follows = draw(st.sampled_from(leaders))
        parts.append(
            Part(
                kind,
                draw(st.integers(WORLD, i - 1)),
                draw(st.booleans()),
                draw(st.booleans()) and draw(st.booleans()),
                draw(st.booleans()),
                follows,
            )
        )
    return parts, draw(st.integers(0, 2**32 - 1))


def _single(part: Part) -> bool:
    return part.kind in ("revolute", "continuous", "prismatic", "helical")


def build(
    parts: list[Part],
    seed: int,
    number: Callable[[float], Any] = float,
    sqrt: Callable[[Any], Any] = np.sqrt,
) -> Model:
    """The model of a structure; `number` and `sqrt` choose the number type of its constants."""
    rng = np.random.default_rng(seed)

    def unit(n: int) -> list[Any]:
        x = [number(float(c)) for c in rng.normal(size=n)]
        length = sqrt(sum(c * c for c in x))
        return [c / length for c in x]

    def pose() -> Transform:
        place = Vec3(*(number(float(c)) for c in rng.uniform(-0.5, 0.5, 3)))
        return Transform(rotation_from_quaternion(*unit(4)), place)

    def axes(part: Part) -> tuple[Vec3, ...]:
        pick = (0.0, 0.0, 0.0)
        single = Vec3(*(number(c) for c in (*pick[:2], 1.0))) if part.aligned else Vec3(*unit(3))
        if part.kind == "universal":
            other = Vec3(*unit(3)).cross(single)
            other = other * (number(1.0) / sqrt(other.dot(other)))
            return (single, other)
        if part.kind == "planar":
            return _plane(single, number, sqrt)
        return (single,) * JOINTS[part.kind].axes

    leaves = set(range(len(parts))) - {p.parent for p in parts}
    links, couplings = [], []
    for i, part in enumerate(parts):
        cloud = Inertia.zero()
        for mass, *point in rng.uniform(-0.3, 0.3, (5, 4)):
            spot = Vec3(*(number(float(c)) for c in point))
            cloud = cloud + Inertia(
                number(abs(float(mass)) + 0.05), Vec3.zero(), _no_tensor()
            ).to_parent(Transform(_identity(), spot))
        # a massless body must not end a chain, or nothing moves with its joint
        massless = part.massless and i not in leaves and _single(part)
        reflected = float(rng.uniform(0.01, 0.2))
        armature = (
            reflected
            if (part.armature or massless) and part.kind not in ("free", "planar")
            else 0.0
        )
        joint = Joint(
            f"j{i}",
            JOINTS[part.kind],
            axes(part),
            number(float(rng.uniform(-0.1, 0.1))) if part.kind == "helical" else 0.0,
            drivetrain=Drivetrain(
                armature=number(armature), damping=0.3, friction=0.1, stiffness=0.7
            ),
        )
        parent = f"b{part.parent}" if part.parent != WORLD else None
        links.append(Link(f"b{i}", parent, pose(), joint, Inertia.zero() if massless else cloud))
        ratio, offset = float(rng.uniform(0.3, 2.0) * rng.choice([-1, 1])), float(rng.normal())
        if part.follows is not None:
            couplings.append(Coupling(f"j{i}", f"j{part.follows}", ratio, offset))
    frames = [FrameDraft(f"f{i}", f"b{i}", pose()) for i in range(len(parts))]
    gravity = Vec3(*(number(float(c)) for c in rng.normal(size=3) * 5))
    return assemble("random", links, frames, couplings, gravity=gravity)


def _no_tensor() -> Any:
    return Inertia.zero().I


def _identity() -> Any:
    return Transform.identity().R


def _plane(
    normal: Vec3, number: Callable[[float], Any], sqrt: Callable[[Any], Any]
) -> tuple[Vec3, ...]:
    """A right-handed basis with this normal, in the same number type."""
    rough = Vec3(*(number(float(c)) for c in plane_basis(Vec3(*(float(c) for c in normal)))[0]))
    e2 = normal.cross(rough)
    e2 = e2 * (number(1.0) / sqrt(e2.dot(e2)))
    return (e2.cross(normal), e2, normal)
