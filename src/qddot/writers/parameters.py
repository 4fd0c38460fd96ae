"""Inertial parameters and friction put back into the file they came from.

Only numbers change; comments, order and white space stay. Where several links of the file make one
body, the difference goes to the link that the joint carries, or to the heaviest of them where that
one has no inertia. The file is read back before it gets its name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from qddot.errors import CannotWrite, DescriptionError, NotUnderstood, UnknownName
from qddot.friction_models import FrictionFormat, FrictionModel, translate
from qddot.loaders import describe, load_model, locate_source
from qddot.loaders.description import Base, Description, resolve, to_model, unwarned
from qddot.loaders.dispatch import uses_xacro
from qddot.loaders.xml import Element, parse_xml, read_file
from qddot.model import Model
from qddot.parts import Link, inertia_defect
from qddot.robot import Robot
from qddot.spatial import Inertia, Transform
from qddot.writers.files import check_target, draft_beside, publish
from qddot.writers.inertials import inertial_changes, links_of_file
from qddot.writers.measures import apart, relative
from qddot.writers.patch import Change, patch_values

__all__ = ["Patched", "write_parameters"]

_BOUND = 1e-12
_SAME = 1e-14
_DYNAMICS: dict[FrictionFormat, dict[str, str]] = {
    "urdf": {"damping": "damping", "friction": "friction"},
    "mjcf": {"damping": "damping", "friction": "frictionloss", "reflected_inertia": "armature",
             "stiffness": "stiffness"},
}  # fmt: skip


@dataclass(frozen=True)
class Patched:
    """A file with other numbers: what changed, as a unified diff, and remarks in words.

    `error` is the largest difference between the parameters asked for and those read back from
    the file, relative to the largest of a body.
    """

    target: Path
    diff: str
    notes: tuple[str, ...]
    error: float


@dataclass(frozen=True)
class _Member:
    """A link of the file that is part of a body, and where it stands on that body."""

    link: Link
    placement: Transform


@dataclass(frozen=True)
class _Drive:
    """A number of a drivetrain that is to change."""

    joint: str
    field: str
    value: float


@dataclass(frozen=True)
class _File:
    """A description file: its text, its elements, its robot, and the links of each body."""

    path: Path
    form: FrictionFormat
    text: str
    encoding: str
    elements: Mapping[str, Element]
    model: Model
    base: Base
    members: Mapping[str | None, list[_Member]]


def write_parameters(
    parameters: Robot | ArrayLike,
    file: str | Path,
    out: str | Path,
    friction: Mapping[str, FrictionModel] | None = None,
    speeds: tuple[float, float] | None = None,
    force: bool = False,
) -> Patched:
    """Write inertial parameters, and friction by joint, into a copy of a URDF or MJCF file.

    `parameters` is a robot, whose losses and armature are written too, or an array (nb, 10) with a
    row for each body of `load(file)`. Friction that the format cannot say is fitted over `speeds`.
    """
    target = check_target(out, force)
    given = _opened(Path(locate_source(file)), parameters)
    notes: list[str] = []
    wanted = _wanted(given, parameters)
    changes = [c for name, new in wanted.items() for c in _of_body(given, name, new, notes)]
    own = _of_robot(given, parameters.model, notes) if isinstance(parameters, Robot) else ()
    # a friction model that is given has the last word
    drives = {(d.joint, d.field): d for d in own}
    drives |= {(d.joint, d.field): d for d in _of_friction(given, friction or {}, speeds, notes)}
    text = _patched(given, [*changes, *(_of_joint(given, d) for d in drives.values())])
    with draft_beside(target, text.encode(given.encoding)) as draft:
        error = _read_back(given, draft, target, wanted, drives.values())
        publish(draft, target, force)
    old, new = (x.splitlines(keepends=True) for x in (given.text, text))
    diff = "".join(difflib.unified_diff(old, new, str(given.path), str(target)))
    return Patched(target, diff, tuple(notes), error)


def _opened(path: Path, parameters: Robot | ArrayLike) -> _File:
    content = read_file(path)
    root = parse_xml(content, str(path))
    if path.suffix == ".xacro" or uses_xacro(root):
        accepted = "is xacro, which computes its numbers; expand it and patch what comes out"
        raise NotUnderstood("file", path.name, accepted)
    if root.tag not in ("robot", "mujoco"):
        raise NotUnderstood("file", path.name, "URDF and MJCF files can be patched")
    declared = re.match(rb"<\?xml[^>]*encoding=[\"']([\w.-]+)", content.lstrip(b"\xef\xbb\xbf"))
    encoding = declared[1].decode() if declared else "utf-8"
    description = describe(path)
    model, base = _matching(description, parameters)
    form: FrictionFormat = "urdf" if root.tag == "robot" else "mjcf"
    text, links = content.decode(encoding), resolve(description, base, "exact").links
    members = _members(links)
    return _File(path, form, text, encoding, links_of_file(root), model, base, members)


def _matching(description: Description, parameters: Robot | ArrayLike) -> tuple[Model, Base]:
    """The model of the file whose bodies are those that parameters are given for."""
    if isinstance(parameters, Robot):
        names: Sequence[str] | None = parameters.body_names
        count = len(parameters.body_names)
    else:
        names, rows = None, _rows(parameters)
        count = len(rows)
    options: tuple[Base, ...] = (None, "free", "fixed")
    found: list[str] = []
    for base in options:
        try:
            with unwarned():
                model = to_model(description, base, "exact", False)
        except (DescriptionError, NotUnderstood):
            continue
        bodies = tuple(b.name for b in model.bodies)
        if bodies == names or (names is None and len(bodies) == count):
            return model, base
        found = found or list(bodies)
    accepted = f"the file has {len(found)} bodies: {', '.join(map(repr, found[:8]))}"
    raise NotUnderstood("parameters", f"{count} bodies", accepted)


def _rows(parameters: ArrayLike) -> list[list[float]]:
    accepted = "needs a Robot, or an array of numbers, ten a body"
    try:
        rows = np.asarray(parameters, dtype=float)
    except (TypeError, ValueError) as error:
        raise NotUnderstood("parameters", parameters, accepted) from error
    if rows.ndim != 2 or rows.shape[1] != 10 or not np.isfinite(rows).all():
        raise NotUnderstood("parameters", f"shape {rows.shape}", accepted)
    return rows.tolist()


def _wanted(file: _File, parameters: Robot | ArrayLike) -> dict[str | None, Inertia]:
    """The inertia of each body that is to change; None stands for what is fixed to the world."""
    rows = list(parameters.model.parameters) if isinstance(parameters, Robot) else _rows(parameters)
    wanted: dict[str | None, Inertia] = {
        b.name: Inertia.of(list(row)) for b, row in zip(file.model.bodies, rows, strict=True)
    }
    if isinstance(parameters, Robot):
        wanted[None] = parameters.model.base_inertia
    old = _inertias(file.model)
    return {name: new for name, new in wanted.items() if _apart(new, old[name]) > _SAME}


def _inertias(model: Model) -> dict[str | None, Inertia]:
    """The inertia of each body; None stands for what is fixed to the world."""
    found: dict[str | None, Inertia] = {None: model.base_inertia}
    return found | {b.name: b.inertia for b in model.bodies}


def _apart(a: Inertia, b: Inertia) -> float:
    return relative(a, b, 1e-12)


def _members(links: Sequence[Link]) -> dict[str | None, list[_Member]]:
    """The links that make each body (None: the world), and where they stand on it."""
    hosts: dict[str | None, tuple[str | None, Transform]] = {None: (None, Transform.identity())}
    members: dict[str | None, list[_Member]] = {}
    for link in links:
        body, X = hosts[link.parent]
        moves = bool(link.joint.kind.nv)
        body, X = (link.name, Transform.identity()) if moves else (body, X @ link.placement)
        hosts[link.name] = body, X
        members.setdefault(body, []).append(_Member(link, X))
    return members


def _of_body(file: _File, body: str | None, new: Inertia, notes: list[str]) -> Iterator[Change]:
    """The changes of the link that takes up the difference of a body's inertia."""
    members = file.members.get(body, [])
    here = [m for m in members if m.link.name in file.elements]
    if not here:
        reason = "is no element of this file with a name: it cannot have an inertia of its own"
        raise CannotWrite(file.path, f"body {body!r} {reason}")
    carried = [m for m in here if m.link.name == body and any(m.link.inertia)]
    main = carried[0] if carried else max(here, key=lambda m: m.link.inertia.mass)
    others = [m for m in members if m is not main and any(m.link.inertia)]
    rest = Inertia.zero()
    for m in others:
        rest = rest + m.placement.to_parent(m.link.inertia)
    own = (new - rest).to_parent(main.placement.inverse())
    label = f"link {main.link.name!r}"
    if others:
        names = ", ".join(repr(m.link.name) for m in others)
        notes.append(f"{label} takes up all of the change; {names} of the same body stay")
    if file.elements[main.link.name].first("inertial") is None:
        notes.append(f"{label} had no <inertial>; one is added")
    if own.mass < 0:
        reason = f"{label} would weigh {own.mass:g} kg once what is fixed to it is taken away"
        raise CannotWrite(file.path, reason)
    notes += [f"{label}: {f.message}" for f in inertia_defect(label, own)]
    yield from inertial_changes(file.elements[main.link.name], main.link.inertia, own)


def _of_robot(file: _File, model: Model, notes: list[str]) -> Iterator[_Drive]:
    """Losses, armature and springs of a robot that differ from those of the file."""
    for body in model.bodies:
        name, new = body.joint.name, body.joint.drivetrain
        old = file.model.body_of_joint(name).joint.drivetrain
        for field in _DYNAMICS["mjcf"]:
            value = getattr(new, field)
            if value == getattr(old, field):
                continue
            if field in _DYNAMICS[file.form]:
                yield _Drive(name, field, value)
            else:
                what = field.replace("_", " ")
                notes.append(f"joint {name!r}: URDF has no {what}; {value:g} is lost")


def _of_friction(
    file: _File,
    friction: Mapping[str, FrictionModel],
    speeds: tuple[float, float] | None,
    notes: list[str],
) -> Iterator[_Drive]:
    """Friction models as the file can say them."""
    for name, model in friction.items():
        limit = file.model.body_of_joint(name).joint.limits.velocity
        said = translate(model, file.form, speeds or (0.0, limit if limit < np.inf else 1.0))
        yield _Drive(name, "damping", said.damping)
        yield _Drive(name, "friction", said.friction)
        notes += [f"joint {name!r}: {text}" for text in said.lost]
        if said.lost:
            low, high = said.speeds
            notes.append(
                f"joint {name!r}: fitted over speeds from {low:g} to {high:g}; the torque is off "
                f"by at most {said.worst:.3g} (at {said.worst_speed:g}), {said.rms:.3g} rms"
            )


def _of_joint(file: _File, drive: _Drive) -> Change:
    attribute = _DYNAMICS[file.form][drive.field]
    tag = "dynamics" if file.form == "urdf" else ""
    return Change("joint", drive.joint, tag, attribute, drive.value)


def _patched(file: _File, changes: Sequence[Change]) -> str:
    try:
        text = patch_values(file.text, changes)
    except UnknownName as error:
        raise CannotWrite(file.path, f"{error}: it may be in an included file") from error
    # lines that were added end as the others do
    return re.sub(r"(?<!\r)\n", "\r\n", text) if "\r\n" in file.text else text


def _read_back(
    file: _File,
    draft: Path,
    target: Path,
    wanted: Mapping[str | None, Inertia],
    drives: Iterable[_Drive],
) -> float:
    """The largest error of the parameters in the new file; refused where it is not rounding."""
    try:
        with unwarned():
            model = load_model(draft, file.base)
    except DescriptionError as error:
        reason = f"the new numbers are refused: {error.reason}"
        raise CannotWrite(target, reason) from error
    meant, found = _inertias(file.model), _inertias(model)
    errors = {
        f"body {name!r}" if name else "the base": _apart(new, found[name])
        for name, new in (meant | dict(wanted)).items()
    }
    for d in drives:
        read = getattr(model.body_of_joint(d.joint).joint.drivetrain, d.field)
        errors[f"{d.field} of joint {d.joint!r}"] = apart(d.value, read)
    worst = max(errors, key=lambda name: errors[name])
    if errors[worst] > _BOUND:
        reason = (
            f"what is read back of {worst} differs by {errors[worst]:.1e}; other parts of the file "
            "may have a say in it, such as inertiafromgeom, balanceinertia or actuators"
        )
        raise CannotWrite(target, reason)
    return errors[worst]
