"""One description format into another: a certificate of the file, and a list of the losses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qddot.display.progress import OnStep
from qddot.errors import CannotWrite, InvalidArgument, QddotError
from qddot.files import check_target, draft_beside, publish
from qddot.loaders import load_model
from qddot.loaders.description import Base, Couplings, suppress_warnings, to_model
from qddot.loaders.formats import FormatName, detect_format, format_to_write
from qddot.writers.certificate import (
    ConversionCertificate,
    bound_states,
    certify_conversion,
)
from qddot.writers.conversion_losses import ConversionLoss, conversion_loss
from qddot.writers.format_limits import restrict_to_format
from qddot.writers.mjcf import mjcf_text
from qddot.writers.model_checks import BOUND, ModelCheck
from qddot.writers.motion_checks import DynamicsDifference, dynamics_difference
from qddot.writers.source import ConversionSource, ShapeChoice, read_conversion_source
from qddot.writers.urdf import urdf_text

__all__ = ["Conversion", "convert"]

_WRITERS = {"urdf": urdf_text, "mjcf": mjcf_text}
_CONVERTED = ("compiler", "option", "size", "visual", "statistic", "default", "asset", "worldbody",
              "equality", "keyframe", "include")  # fmt: skip
"""Sections of an MJCF file that are converted, or have no part in the robot."""


@dataclass(frozen=True)
class Conversion:
    """A robot written in another format.

    The certificate compares the model read back from the file with the robot as far as the format
    can express it; `losses` are the properties that the format cannot express, `effect` their
    share of the dynamics. Nothing is written (`written` is false) where the certificate fails, or
    where the dynamics change and `lossless` was asked for.
    """

    source: str
    target: Path
    format: FormatName
    written: bool
    certificate: ConversionCertificate
    losses: tuple[ConversionLoss, ...]
    effect: DynamicsDifference
    text: str

    @property
    def exact(self) -> bool:
        """Whether the certificate holds and nothing that the dynamics depend on was lost."""
        return self.certificate.all_passed and not any(x.dynamics for x in self.losses)


def convert(
    source: Any,
    target: str | Path,
    base: Base = None,
    couplings: Couplings = "exact",
    shapes: ShapeChoice = "all",
    force: bool = False,
    lossless: bool = False,
    states: int = 100,
    seed: int = 0,
    on_step: OnStep | None = None,
    trust: bool = False,
) -> Conversion:
    """Write a robot as URDF (.urdf) or MJCF (.xml, .mjcf), read it back and compare.

    The source is all that `load` takes, or a Robot. The file appears whole, and only if the model
    read back from it has the same bodies, joints, limits, friction, M and bias to 1e-10; with
    `lossless` only if nothing that the dynamics depend on is lost either. `trust` lets a xacro file
    run its code.
    """
    # check the arguments
    file = check_target(target, force)
    form = format_to_write(file).name
    if states < 1:
        raise InvalidArgument("states", states, "at least one is needed")
    robot = read_conversion_source(
        source, base=base, couplings=couplings, shapes=shapes, trust=trust
    )
    if robot.file is not None and robot.file.resolve() == file:
        raise CannotWrite(target, "is the source itself")
    states = bound_states(robot.model, states)
    # write the part of the robot that the format can express
    restricted, losses = restrict_to_format(robot.description, form)
    name = robot.file.name if robot.file else robot.model.name
    remark = f"{name}, written by qddot convert"
    text, more = _WRITERS[form](restricted, robot.shapes, file.parent, remark)
    losses = [*losses, *more, *_source_losses(robot, form)]
    with suppress_warnings():
        expected = to_model(restricted, None, "exact", False)
    # publish the file if its certificate holds
    with draft_beside(file, text) as draft:
        try:
            with suppress_warnings():
                loaded = load_model(draft)
        except QddotError as error:
            reason = str(error).replace(draft.name, file.name)
            failure = ModelCheck("file", "can be read", 1.0, 0.0, passed=False, detail=reason)
            certificate = ConversionCertificate((failure,), states, seed)
        else:
            certificate = certify_conversion(
                expected, loaded, states=states, seed=seed, on_step=on_step
            )
            if form == "mjcf":
                checks = (*certificate.checks, _check_in_mujoco(draft, float(expected.mass)))
                certificate = ConversionCertificate(checks, states, seed)
        changed = any(x.dynamics for x in losses)
        written = certificate.all_passed and not (lossless and changed)
        if written:
            publish(draft, file, force)
    return Conversion(
        source=str(robot.file or robot.model.name),
        target=file,
        format=form,
        written=written,
        certificate=certificate,
        losses=tuple(losses),
        effect=dynamics_difference(robot.model, expected, states, seed),
        text=text,
    )


def _check_in_mujoco(draft: Path, mass: float) -> ModelCheck:
    """Check that MuJoCo itself opens the file, meshes included, with the mass expected."""
    from qddot.loaders.mujoco_checks import open_spec

    claim = "opens the file, with the same mass"
    try:
        m = open_spec(draft).compile()
    except Exception as error:  # whatever MuJoCo raises, it did not open the file
        reason = " ".join(str(error).split())
        return ModelCheck("MuJoCo", claim, 1.0, 0.0, passed=False, detail=reason)
    off = abs(float(m.body_mass.sum()) - mass) / max(mass, 1e-4)
    return ModelCheck("MuJoCo", claim, measured=off, bound=BOUND, passed=off <= BOUND)


def _source_losses(robot: ConversionSource, form: FormatName) -> Iterator[ConversionLoss]:
    """Losses on the side of the source: defects, properties that are not read, other elements."""
    defects = [f.subject for f in robot.model.health if f.kind == "inertia" and form == "urdf"]
    message = "impossible in the source, written as it is"
    yield from conversion_loss("inertia", False, message, defects)
    # properties of joints and bodies that the loader does not read
    health = [f for f in robot.description.findings if f.kind == "ignored"]
    for changes in (True, False):
        items = [f"{f.subject}: {f.message}" for f in health if (f.severity != "info") == changes]
        message = "the source says more than qddot reads"
        yield from conversion_loss("not read", changes, message, items)
    yield from conversion_loss("shapes", False, "not read from the source", robot.unread)
    root = robot.root
    if root is None:
        name = f"{robot.description.name!r}"
        yield from conversion_loss("shapes", False, "a robot in memory has none", [name])
        return
    # elements that are neither bodies, joints, shapes nor constraints, counted
    source = detect_format(root).name
    if source == "urdf":
        counts = Counter(f"<{x.tag}>" for x in root.all("transmission", "gazebo"))
    else:
        others = [x for x in root.children if source == "mjcf" and x.tag not in _CONVERTED]
        counts = Counter(f"<{x.tag}> <{y.tag}>" for x in others for y in x.children)
    items = [f"{n} {element}" for element, n in counts.items()]
    yield from conversion_loss("not carried over", False, "of the source", items)
