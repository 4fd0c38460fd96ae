"""The description that every loader returns, and the model that is made of it."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from qddot.errors import DescriptionError, ImpossibleInertia, InvalidArgument, InvalidModel
from qddot.model.assembly import assemble, fixed_joint, resolve_links
from qddot.model.inputs import snap_transform, snap_vector
from qddot.model.joints import JOINTS, Joint
from qddot.model.links import (
    Coupling,
    Finding,
    FrameDraft,
    Link,
    Loop,
    PolynomialCoupling,
    warn_of_defects,
)
from qddot.model.model import STANDARD_GRAVITY, Model
from qddot.spatial.algebra import Transform, Vec3

__all__ = [
    "Base",
    "Couplings",
    "Description",
    "resolve_description",
    "suppress_warnings",
    "to_model",
]

Base = Literal["fixed", "free"] | None
Couplings = Literal["exact", "free"]


@dataclass(frozen=True)
class Description:
    """A robot as its file describes it, before it is checked.

    A configuration gives the coordinates of each joint by name. `file` and `lines` (line of an
    element by its label, such as "joint 'elbow'") are for messages. `root_poses` says where a free
    root link stands when it is fixed instead.
    """

    name: str
    links: tuple[Link, ...]
    frames: tuple[FrameDraft, ...] = ()
    couplings: tuple[Coupling, ...] = ()
    loops: tuple[Loop, ...] = ()
    polynomial_couplings: tuple[PolynomialCoupling, ...] = ()
    gravity: Vec3 = STANDARD_GRAVITY
    configurations: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    file: str = ""
    lines: Mapping[str, int] = field(default_factory=dict)
    root_poses: Mapping[str, Transform] = field(default_factory=dict)


def to_model(description: Description, base: Base, couplings: Couplings, strict: bool) -> Model:
    """The model of a description; errors of the model name the file and the line."""
    for what, value, accepted in (
        ("base", base, (None, "fixed", "free")),
        ("couplings", couplings, ("exact", "free")),
    ):
        if not (value is None or isinstance(value, str)) or value not in accepted:
            raise InvalidArgument(what, value, f"accepted: {', '.join(map(repr, accepted))}")
    for finding in description.findings:
        if base == "free" and finding.kind == "unweighed":
            raise DescriptionError(description.file, finding.message, finding.subject)
    links = [_snap_link(link) for link in description.links]
    kept = description.couplings if couplings == "exact" else ()
    try:
        model = assemble(
            description.name,
            _with_base(links, base, description.root_poses),
            [
                dataclasses.replace(f, placement=snap_transform(f.placement))
                for f in description.frames
            ],
            kept,
            gravity=description.gravity,
            loops=description.loops,
            polynomial_couplings=description.polynomial_couplings,
            health=description.findings,
        )
    except InvalidModel as error:
        if not description.file:
            raise
        line = description.lines.get(error.element)
        raise DescriptionError(description.file, error.reason, error.element, line) from error
    defects = [f for f in model.health if f.kind == "inertia"]
    if strict and defects:
        subject = defects[0].subject
        place = description.file
        if subject in description.lines:
            place += f":{description.lines[subject]}"
        raise ImpossibleInertia(f"{place}: {subject}" if place else subject, defects[0].message)
    warn_of_defects(description.name, defects, stacklevel=4)
    # what the file says of the dynamics and no model has
    ignored = [f for f in description.findings if f.kind == "ignored" and f.severity == "warning"]
    if ignored:
        listed = "; ".join(f"{f.subject}: {f.message}" for f in ignored[:4])
        more = f"; {len(ignored) - 4} more, see health" if len(ignored) > 4 else ""
        warnings.warn(f"{description.name}: {listed}{more}", stacklevel=4)
    return dataclasses.replace(
        model,
        configurations={
            name: tuple(x for joint in model.joint_names for x in values[joint])
            for name, values in description.configurations.items()
            if set(model.joint_names) <= set(values)
        },
    )


@contextmanager
def suppress_warnings() -> Iterator[None]:
    """Suppress the warnings of models, for callers that show their health otherwise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def resolve_description(description: Description, base: Base, couplings: Couplings) -> Description:
    """The same robot with its root as asked and every joint settled; `to_model` checks it first."""
    links = [_snap_link(link) for link in description.links]
    kept = description.couplings if couplings == "exact" else ()
    links = resolve_links(_with_base(links, base, description.root_poses), kept)
    return dataclasses.replace(description, links=tuple(links), couplings=())


def _with_base(links: list[Link], base: Base, poses: Mapping[str, Transform]) -> list[Link]:
    """Links whose root is fixed to the world or free, as asked; None leaves it as it is."""
    roots = [x for x in links if x.parent is None]
    if base is None or not roots:
        return links
    # the world (None) and the links held to it by fixed joints
    fixed: dict[str | None, list[str]] = {}
    for link in links:
        if link.joint.kind.nv == 0:
            fixed.setdefault(link.parent, []).append(link.name)
    still: set[str | None] = {None}
    stack: list[str | None] = [None]
    while stack:
        more = set(fixed.get(stack.pop(), ())) - still
        still |= more
        stack.extend(more)
    floating = [x for x in links if x.joint.kind.floats and x.parent in still]
    if base == "fixed":
        swap = {
            x.name: dataclasses.replace(
                x,
                placement=poses.get(x.name, x.placement),
                joint=fixed_joint(x.joint.name),
            )
            for x in floating
        }
    elif floating:
        swap = {}
    else:
        held = [r for r in roots if r.joint.kind.nv == 0]
        if len(held) != 1 or len(roots) != 1:
            names = ", ".join(repr(r.name) for r in roots)
            raise InvalidModel(
                f"base {names}", "base='free' needs exactly one root link, fixed to the world"
            )
        name = "root_joint"
        while any(x.joint.name == name for x in links):
            name += "_"
        joint = Joint(name, JOINTS["free"])
        root = dataclasses.replace(held[0], placement=Transform.identity(), joint=joint)
        swap = {root.name: root}
    return [swap.get(x.name, x) for x in links]


def _snap_link(link: Link) -> Link:
    joint = dataclasses.replace(link.joint, axes=tuple(snap_vector(a) for a in link.joint.axes))
    return dataclasses.replace(link, placement=snap_transform(link.placement), joint=joint)
