"""What is to be written: a robot with settled joints, its model, and its shapes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from qddot.assembly import fixed_joint
from qddot.edit import extra_frames
from qddot.errors import NotUnderstood
from qddot.loaders import describe, locate_source
from qddot.loaders.description import Base, Couplings, Description, resolve, to_model, unwarned
from qddot.loaders.dispatch import read_root
from qddot.loaders.shapes import Shape, Shapes, shapes_of_mjcf, shapes_of_sdf, shapes_of_urdf
from qddot.loaders.xml import Element
from qddot.model import WORLD, Model
from qddot.parts import FrameDraft, Link
from qddot.robot import Robot
from qddot.spatial import Transform

__all__ = ["ShapeChoice", "Source", "description_of_model", "open_source"]

ShapeChoice = Literal["all", "collision", "none"]


@dataclass(frozen=True)
class Source:
    """A robot to write: settled links, their model, shapes, and what of these was not read.

    `file` and its `root` element are those of a robot that comes from a file.
    """

    description: Description
    model: Model
    shapes: tuple[Shape, ...] = ()
    unread: tuple[str, ...] = ()
    file: Path | None = None
    root: Element | None = None


def open_source(
    source: Any,
    base: Base = None,
    couplings: Couplings = "exact",
    shapes: ShapeChoice = "all",
) -> Source:
    """A file, a name, a robot or a model of another library, ready to be written."""
    if shapes not in ("all", "collision", "none"):
        raise NotUnderstood("shapes", shapes, "accepted: 'all', 'collision', 'none'")
    file = None
    if isinstance(source, Robot | Model):
        model = source.model if isinstance(source, Robot) else source
        if couplings == "free" and model.coupled:
            accepted = "the joints of a robot in memory are coupled already; load it with 'free'"
            raise NotUnderstood("couplings", couplings, accepted)
        description = description_of_model(model)
    else:
        if isinstance(source, str | Path):
            source = file = locate_source(source)
        description = describe(source)
    with unwarned():
        model = to_model(description, base, couplings, False)
    settled = resolve(description, base, couplings)
    root = read_root(file) if file else None
    seen = _shapes(root, file) if file and root and shapes != "none" else Shapes()
    kept = tuple(s for s in seen.found if shapes == "all" or s.role == "collision")
    return Source(settled, model, kept, seen.unread, file, root)


def _shapes(root: Element, file: Path) -> Shapes:
    if root.tag == "sdf":
        return shapes_of_sdf(root, file)
    return shapes_of_urdf(root, file.parent) if root.tag == "robot" else shapes_of_mjcf(file)


def description_of_model(model: Model) -> Description:
    """A description from which the model can be assembled again.

    What is fixed to a body is one with it: only its frames are left. The inertia of the base goes
    to the first frame that is fixed to the world.
    """
    frames = extra_frames(model)
    links: list[Link] = []
    if any(model.base_inertia):
        place = next(
            (f for f in frames if f.link is None), FrameDraft("base", None, Transform.identity())
        )
        weight = model.base_inertia.to_parent(place.placement.inverse())
        joint = fixed_joint(f"{place.name} (fixed)")
        links.append(Link(place.name, None, place.placement, joint, weight))
        frames = [f for f in frames if f.name != place.name]
    for b in model.bodies:
        parent = model.bodies[b.parent].name if b.parent != WORLD else None
        links.append(Link(b.name, parent, b.placement, b.joint, b.inertia))
    return Description(
        model.name,
        tuple(links),
        tuple(frames),
        loops=model.loops,
        polynomial_couplings=model.polynomial_couplings,
        gravity=model.gravity,
        configurations={
            name: {b.joint.name: tuple(q[b.iq]) for b in model.independent}
            for name, q in model.configurations.items()
        },
        findings=tuple(f for f in model.health if f.kind not in ("inertia", "massless", "loop")),
    )
