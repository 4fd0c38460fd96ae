"""The source of a conversion: a robot with resolved joints, its model, and its shapes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from qddot.errors import InvalidArgument, Unsupported
from qddot.loaders import describe, locate_source
from qddot.loaders.description import (
    Base,
    Couplings,
    Description,
    resolve_description,
    suppress_warnings,
    to_model,
)
from qddot.loaders.load import read_root
from qddot.loaders.shapes import Shape, Shapes, shapes_of_file
from qddot.loaders.xml import Element
from qddot.model.assembly import fixed_joint
from qddot.model.edit import extra_frames
from qddot.model.links import FrameDraft, Link
from qddot.model.model import WORLD, Model
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Transform

__all__ = ["ConversionSource", "ShapeChoice", "description_of_model", "read_conversion_source"]

ShapeChoice = Literal["all", "collision", "none"]


@dataclass(frozen=True)
class ConversionSource:
    """A robot to write: resolved links, their model, shapes, and the shapes that were not read.

    `file` and its `root` element are those of a robot that comes from a file.
    """

    description: Description
    model: Model
    shapes: tuple[Shape, ...] = ()
    unread: tuple[str, ...] = ()
    file: Path | None = None
    root: Element | None = None


def read_conversion_source(
    source: Any,
    base: Base = None,
    couplings: Couplings = "exact",
    shapes: ShapeChoice = "all",
    trust: bool = False,
) -> ConversionSource:
    """A file, a name, a robot or a model of another library, ready to be written."""
    if shapes not in ("all", "collision", "none"):
        raise InvalidArgument("shapes", shapes, "accepted: 'all', 'collision', 'none'")
    # the description: that of a file, of another library's model, or of a robot in memory
    file = None
    if isinstance(source, Robot | Model):
        model = source.model if isinstance(source, Robot) else source
        if couplings == "free" and model.has_couplings:
            accepted = "the joints of a robot in memory are coupled already; load it with 'free'"
            raise Unsupported("couplings", couplings, accepted)
        description = description_of_model(model)
    else:
        if isinstance(source, str | Path):
            source = file = locate_source(source)
        description = describe(source, trust=trust)
    with suppress_warnings():
        model = to_model(description, base, couplings, False)
    # shapes can only be read from a file
    root = read_root(file, trust) if file else None
    seen = Shapes()
    if file and root and shapes != "none":
        seen = shapes_of_file(file, root, trust)
    return ConversionSource(
        description=resolve_description(description, base, couplings),
        model=model,
        shapes=tuple(s for s in seen.found if shapes == "all" or s.role == "collision"),
        unread=seen.unread,
        file=file,
        root=root,
    )


def description_of_model(model: Model) -> Description:
    """A description from which the model can be assembled again.

    Links that are fixed to a body are merged with it: only their frames are left. The inertia of
    the base goes to the first frame that is fixed to the world.
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
