"""Inertial parameters and friction put back into the file they came from.

Only numbers change; comments, order and white space stay. Where several links of the file make one
body, the difference goes to the link that the joint carries, or to the heaviest of them where that
one has no inertia. The file is read back before it gets its name.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from qddot.errors import (
    CannotWrite,
    DescriptionError,
    InvalidArgument,
    UnknownName,
    Unsupported,
    WrongType,
    count_text,
)
from qddot.files import check_target, draft_beside, publish
from qddot.loaders import describe, load_model, locate_source
from qddot.loaders.description import Base, resolve_description, suppress_warnings, to_model
from qddot.loaders.formats import FORMATS, FileFormat, detect_format, uses_xacro
from qddot.loaders.xml import Element, parse_xml, read_file
from qddot.model.friction_models import FrictionFormat, FrictionModel, friction_of, translate
from qddot.model.links import Link, inertia_defect
from qddot.model.model import Model
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Inertia, Transform
from qddot.writers.inertials import inertial_changes, links_of_file
from qddot.writers.model_checks import number_error, relative_error
from qddot.writers.patch import Change, patch_values

__all__ = ["PatchResult", "write_parameters"]

_BOUND = 1e-12
_SAME = 1e-14
_DRIVETRAIN_FIELDS = ("damping", "friction", "reflected_inertia", "stiffness")
"""Fields of a drivetrain that some format has."""


@dataclass(frozen=True)
class PatchResult:
    """A file with other numbers: the changes as a unified diff, and remarks in words.

    `error` is the largest difference between the parameters asked for and those read back from
    the file, relative to the largest of a body.
    """

    target: Path
    diff: str
    notes: tuple[str, ...]
    error: float


@dataclass(frozen=True)
class _LinkOnBody:
    """A link of the file that is part of a body, and its pose on that body."""

    link: Link
    placement: Transform


@dataclass(frozen=True)
class _DriveValue:
    """A field of a joint's drivetrain with another value."""

    joint: str
    field: str
    value: float


@dataclass(frozen=True)
class _DescriptionFile:
    """A description file: its text, its elements, its model, and the links of each body.

    The body None is the world.
    """

    path: Path
    form: FileFormat
    text: str
    encoding: str
    elements: Mapping[str, Element]
    model: Model
    base: Base
    links: Mapping[str | None, list[_LinkOnBody]]


def write_parameters(
    parameters: Robot | ArrayLike,
    file: str | Path,
    out: str | Path,
    friction: Mapping[str, FrictionModel] | None = None,
    speeds: tuple[float, float] | None = None,
    force: bool = False,
) -> PatchResult:
    """Write inertial parameters, and friction by joint, into a copy of a URDF or MJCF file.

    `parameters` is a robot, whose friction and armature are written too, or an array (nb, 10) with
    a row for each body of `load(file)`. Friction that the format cannot express is fitted over
    `speeds`.
    """
    target = check_target(out, force)
    source = _open_file(Path(locate_source(file)), parameters)
    robot = parameters.model if isinstance(parameters, Robot) else None
    notes: list[str] = []
    # the inertias that change, by body
    rows = list(robot.parameters) if robot else _parameter_rows(parameters)
    wanted: dict[str | None, Inertia] = {
        b.name: Inertia.of(list(row)) for b, row in zip(source.model.bodies, rows, strict=True)
    }
    if robot:
        wanted[None] = robot.base_inertia
    old = _inertias(source.model)
    changed = {k: new for k, new in wanted.items() if _inertia_error(new, old[k]) > _SAME}
    changes = [c for name, new in changed.items() for c in _body_changes(source, name, new, notes)]
    # the drivetrains that change; a friction model that is given has the last word
    values: list[_DriveValue] = []
    for body in robot.bodies if robot else ():
        name, drive = body.joint.name, body.joint.drivetrain
        before = source.model.body_of_joint(name).joint.drivetrain
        law = friction_of(drive)
        if not law.symmetric:
            values += _friction_values(source, {name: law}, speeds, notes)
            drive = dataclasses.replace(drive, friction=before.friction, damping=before.damping)
        for field in _DRIVETRAIN_FIELDS:
            value = getattr(drive, field)
            if value != getattr(before, field) and field in source.form.drivetrain:
                values.append(_DriveValue(name, field, value))
            elif value != getattr(before, field):
                lost = f"{source.form.title} has no {field.replace('_', ' ')}; {value:g} is lost"
                notes.append(f"joint {name!r}: {lost}")
    values += _friction_values(source, friction or {}, speeds, notes)
    drives = {(d.joint, d.field): d for d in values}
    form = source.form
    for d in drives.values():
        attribute = form.drivetrain[d.field]
        changes.append(Change("joint", d.joint, form.drivetrain_tag, attribute, d.value))
    # patch the text; lines that were added end as the others do
    try:
        text = patch_values(source.text, changes)
    except UnknownName as error:
        raise CannotWrite(source.path, f"{error}: it may be in an included file") from error
    if "\r\n" in source.text:
        text = re.sub(r"(?<!\r)\n", "\r\n", text)
    # read the file back before it gets its name
    with draft_beside(target, text.encode(source.encoding)) as draft:
        largest = _check_written(
            source, draft, target, inertias=old | changed, drives=drives.values()
        )
        publish(draft, target, force)
    was, is_now = (x.splitlines(keepends=True) for x in (source.text, text))
    diff = "".join(difflib.unified_diff(was, is_now, str(source.path), str(target)))
    return PatchResult(target=target, diff=diff, notes=tuple(notes), error=largest)


def _open_file(path: Path, parameters: Robot | ArrayLike) -> _DescriptionFile:
    """Read a file that has the bodies which the parameters are given for."""
    content = read_file(path)
    root = parse_xml(content, str(path))
    if path.suffix == ".xacro" or uses_xacro(root):
        accepted = "is xacro, which computes its numbers; expand it and patch what comes out"
        raise Unsupported("file", path.name, accepted)
    form = detect_format(root)
    if not form.patched or root.tag != form.root:
        titles = " and ".join(row.title for row in FORMATS.values() if row.patched)
        raise Unsupported("file", path.name, f"{titles} files can be patched")
    declared = re.match(rb"<\?xml[^>]*encoding=[\"']([\w.-]+)", content.lstrip(b"\xef\xbb\xbf"))
    encoding = declared[1].decode() if declared else "utf-8"
    description = describe(path)
    # the base with which the file has the bodies of the parameters
    names = parameters.body_names if isinstance(parameters, Robot) else None
    count = len(names) if names is not None else len(_parameter_rows(parameters))
    options: tuple[Base, ...] = (None, "free", "fixed")
    found: tuple[str, ...] = ()
    for base in options:
        try:
            with suppress_warnings():
                model = to_model(description, base, "exact", False)
        except (DescriptionError, InvalidArgument):
            continue
        bodies = tuple(b.name for b in model.bodies)
        if bodies == names or (names is None and len(bodies) == count):
            break
        found = found or bodies
    else:
        there = count_text(len(found), "body", "bodies")
        accepted = f"the file has {there}: {', '.join(map(repr, found[:8]))}"
        raise InvalidArgument("parameters", count_text(count, "body", "bodies"), accepted)
    # root to leaves: the body of each link, and its pose on that body
    hosts: dict[str | None, tuple[str | None, Transform]] = {None: (None, Transform.identity())}
    links: dict[str | None, list[_LinkOnBody]] = {}
    for link in resolve_description(description, base, "exact").links:
        body, X = hosts[link.parent]
        moves = bool(link.joint.kind.nv)
        body, X = (link.name, Transform.identity()) if moves else (body, X @ link.placement)
        hosts[link.name] = body, X
        links.setdefault(body, []).append(_LinkOnBody(link, X))
    return _DescriptionFile(
        path=path,
        form=form,
        text=content.decode(encoding),
        encoding=encoding,
        elements=links_of_file(root),
        model=model,
        base=base,
        links=links,
    )


def _parameter_rows(parameters: Any) -> list[list[float]]:
    """Inertial parameters as rows of ten numbers."""
    accepted = "needs a Robot, or an array of numbers, ten a body"
    try:
        rows = np.asarray(parameters, dtype=float)
    except (TypeError, ValueError) as error:
        raise WrongType("parameters", parameters, accepted) from error
    if rows.ndim != 2 or rows.shape[1] != 10 or not np.isfinite(rows).all():
        raise InvalidArgument("parameters", f"shape {rows.shape}", accepted)
    return rows.tolist()


def _inertias(model: Model) -> dict[str | None, Inertia]:
    """The inertia of each body; None stands for the world."""
    world: dict[str | None, Inertia] = {None: model.base_inertia}
    return world | {b.name: b.inertia for b in model.bodies}


def _inertia_error(a: Inertia, b: Inertia) -> float:
    return relative_error(a, b, 1e-12)


def _body_changes(
    file: _DescriptionFile, body: str | None, new: Inertia, notes: list[str]
) -> Iterator[Change]:
    """The changes of the link that takes up the difference of a body's inertia."""
    links = file.links.get(body, [])
    here = [x for x in links if x.link.name in file.elements]
    if not here:
        reason = "is no element of this file with a name: it cannot have an inertia of its own"
        raise CannotWrite(file.path, f"body {body!r} {reason}")
    # the link on the joint takes up the change, or the heaviest where that one has no inertia
    on_joint = [x for x in here if x.link.name == body and any(x.link.inertia)]
    main = on_joint[0] if on_joint else max(here, key=lambda x: x.link.inertia.mass)
    others = [x for x in links if x is not main and any(x.link.inertia)]
    rest = Inertia.zero()
    for x in others:
        rest = rest + x.placement.to_parent(x.link.inertia)
    own = (new - rest).to_parent(main.placement.inverse())
    # remarks, and the changes of its <inertial>
    label, element = f"link {main.link.name!r}", file.elements[main.link.name]
    if others:
        names = ", ".join(repr(x.link.name) for x in others)
        notes.append(f"{label} takes up all of the change; {names} of the same body stay")
    if element.first("inertial") is None:
        notes.append(f"{label} had no <inertial>; one is added")
    if own.mass < 0:
        reason = f"{label} would weigh {own.mass:g} kg once what is fixed to it is taken away"
        raise CannotWrite(file.path, reason)
    notes += [f"{label}: {f.message}" for f in inertia_defect(label, own)]
    yield from inertial_changes(element, main.link.inertia, own)


def _friction_values(
    file: _DescriptionFile,
    friction: Mapping[str, FrictionModel],
    speeds: tuple[float, float] | None,
    notes: list[str],
) -> Iterator[_DriveValue]:
    """Friction models as the format of the file can express them."""
    for name, model in friction.items():
        limit = file.model.body_of_joint(name).joint.limits.velocity
        # a format without friction is refused there
        form = cast(FrictionFormat, file.form.name)
        fit = translate(model, form, speeds or (0.0, limit if limit < np.inf else 1.0))
        yield _DriveValue(name, "damping", fit.damping)
        yield _DriveValue(name, "friction", fit.friction)
        notes += [f"joint {name!r}: {text}" for text in fit.lost]
        if fit.lost:
            low, high = fit.speeds
            notes.append(
                f"joint {name!r}: fitted over speeds from {low:g} to {high:g}; the torque is off "
                f"by at most {fit.worst:.3g} (at {fit.worst_speed:g}), {fit.rms:.3g} rms"
            )


def _check_written(
    file: _DescriptionFile,
    draft: Path,
    target: Path,
    inertias: Mapping[str | None, Inertia],
    drives: Iterable[_DriveValue],
) -> float:
    """The largest error of the parameters in the new file; refused where it is not rounding."""
    try:
        with suppress_warnings():
            model = load_model(draft, file.base)
    except DescriptionError as error:
        reason = f"the new numbers are refused: {error.reason}"
        raise CannotWrite(target, reason) from error
    found = _inertias(model)
    errors = {
        f"body {name!r}" if name else "the base": _inertia_error(new, found[name])
        for name, new in inertias.items()
    }
    for d in drives:
        read = getattr(model.body_of_joint(d.joint).joint.drivetrain, d.field)
        errors[f"{d.field} of joint {d.joint!r}"] = number_error(d.value, read)
    worst = max(errors, key=lambda name: errors[name])
    if errors[worst] > _BOUND:
        reason = (
            f"what is read back of {worst} differs by {errors[worst]:.1e}; other parts of the file "
            "may have a say in it, such as inertiafromgeom, balanceinertia or actuators"
        )
        raise CannotWrite(target, reason)
    return errors[worst]
