"""What every loader produces, and how it becomes a model."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from qddot.assembly import assemble, fixed_joint, resolve_links
from qddot.errors import DescriptionError, ImpossibleInertia, InvalidModel, NotUnderstood
from qddot.joints import JOINTS, Joint
from qddot.model import STANDARD_GRAVITY, Model, massless_leaves
from qddot.parts import (
    Coupling,
    Finding,
    FrameDraft,
    Link,
    Loop,
    PolynomialCoupling,
    inertia_defect,
    open_loops,
)
from qddot.spatial import Mat3, Transform, Vec3

__all__ = ["Base", "Couplings", "Description", "resolve", "to_model", "unwarned"]

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
            raise NotUnderstood(what, value, f"accepted: {', '.join(map(repr, accepted))}")
    for finding in description.findings:
        if base == "free" and finding.kind == "unweighed":
            raise DescriptionError(description.file, finding.message, finding.subject)
    links = [_cleaned(link) for link in description.links]
    kept = description.couplings if couplings == "exact" else ()
    defects = [d for x in links for d in inertia_defect(f"link {x.name!r}", x.inertia)]
    if strict and defects:
        subject = defects[0].subject
        place = description.file
        if subject in description.lines:
            place += f":{description.lines[subject]}"
        raise ImpossibleInertia(f"{place}: {subject}" if place else subject, defects[0].message)
    try:
        model = assemble(
            description.name,
            _with_base(links, base, description.root_poses),
            [dataclasses.replace(f, placement=_snapped(f.placement)) for f in description.frames],
            kept,
            gravity=description.gravity,
            loops=description.loops,
            polynomial_couplings=description.polynomial_couplings,
            health=(*defects, *open_loops(description.loops), *description.findings),
        )
    except InvalidModel as error:
        if not description.file:
            raise
        line = description.lines.get(error.element)
        raise DescriptionError(description.file, error.reason, error.element, line) from error
    if defects:
        names = ", ".join(d.subject for d in defects[:4]) + (", …" if len(defects) > 4 else "")
        warnings.warn(
            f"{description.name}: {len(defects)} impossible inertia(s): {names}; see health",
            stacklevel=4,
        )
    return dataclasses.replace(
        model,
        configurations={
            name: tuple(x for joint in model.joint_names for x in values[joint])
            for name, values in description.configurations.items()
            if set(model.joint_names) <= set(values)
        },
        health=(*model.health, *massless_leaves(model.bodies)),
    )


@contextmanager
def unwarned() -> Iterator[None]:
    """Models without the warning of impossible inertias, for whoever names these otherwise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def resolve(description: Description, base: Base, couplings: Couplings) -> Description:
    """The same robot with its root as asked and every joint settled; `to_model` checks it first."""
    links = [_cleaned(link) for link in description.links]
    kept = description.couplings if couplings == "exact" else ()
    links = resolve_links(_with_base(links, base, description.root_poses), kept)
    return dataclasses.replace(description, links=tuple(links), couplings=())


def _with_base(links: list[Link], base: Base, poses: Mapping[str, Transform]) -> list[Link]:
    """Links whose root is fixed to the world or free, as asked; None leaves it as it is."""
    roots = [x for x in links if x.parent is None]
    if base is None or not roots:
        return links
    still = _still(links)
    floating = [x for x in links if x.joint.kind.name == "free" and x.parent in still]
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


def _still(links: list[Link]) -> set[str | None]:
    """The world (None) and the links held to it by fixed joints."""
    still: set[str | None] = {None}
    fixed = [x for x in links if x.joint.kind.nv == 0]
    while more := {x.name for x in fixed if x.parent in still} - still:
        still |= more
    return still


def _cleaned(link: Link) -> Link:
    joint = dataclasses.replace(link.joint, axes=tuple(_snap_vector(a) for a in link.joint.axes))
    return dataclasses.replace(link, placement=_snapped(link.placement), joint=joint)


def _snapped(X: Transform) -> Transform:
    """Rotation entries a rounding error away from 0, 1 or -1 made exact, so that they fold away."""
    return Transform(Mat3(*(_snap_vector(row) for row in X.R)), X.p)


def _snap_vector(v: Vec3) -> Vec3:
    return Vec3(*(next((k for k in (0.0, 1.0, -1.0) if abs(x - k) < 1e-15), x) for x in v))
