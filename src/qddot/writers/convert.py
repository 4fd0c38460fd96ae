"""One description format into another: a certificate of what was kept, a list of what was not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qddot.errors import CannotWrite, NotUnderstood, QddotError
from qddot.loaders import load_model
from qddot.loaders.description import Base, Couplings, to_model, unwarned
from qddot.loaders.xml import Element
from qddot.model import Model
from qddot.writers.certificate import Certificate, OnStep, certify
from qddot.writers.files import check_target, draft_beside, publish
from qddot.writers.losses import Loss, loss
from qddot.writers.matching import Difference, difference
from qddot.writers.measures import Measure
from qddot.writers.mjcf import mjcf_text
from qddot.writers.sayable import Format, sayable
from qddot.writers.source import ShapeChoice, Source, open_source
from qddot.writers.urdf import urdf_text

__all__ = ["Conversion", "convert"]

_FORMATS: dict[str, Format] = {".urdf": "urdf", ".xml": "mjcf", ".mjcf": "mjcf"}
_TEXTS = {"urdf": urdf_text, "mjcf": mjcf_text}
_CARRIED = ("compiler", "option", "size", "visual", "statistic", "default", "asset", "worldbody",
            "equality", "keyframe", "include")  # fmt: skip


@dataclass(frozen=True)
class Conversion:
    """A robot written in another format.

    The certificate compares what was read back from the file with the robot as far as the format
    can say it; `losses` is what the format cannot say, `effect` how much of the dynamics that is.
    Nothing is written (`written` is false) where the certificate fails, or something is lost that
    was not to be lost.
    """

    source: str
    target: Path
    format: Format
    written: bool
    certificate: Certificate
    losses: tuple[Loss, ...]
    effect: Difference
    text: str

    @property
    def exact(self) -> bool:
        """Whether the certificate holds and nothing that the dynamics depend on was lost."""
        return self.certificate.passed and not any(x.dynamics for x in self.losses)


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
) -> Conversion:
    """Write a robot as URDF (.urdf) or MJCF (.xml, .mjcf), read it back and compare.

    The source is all that `load` takes, or a Robot. The file appears whole, and only if what is
    read back from it has the same bodies, joints, limits, losses, M and bias to 1e-10; with
    `lossless` only if nothing that the dynamics depend on is lost either.
    """
    file = check_target(target, force)
    form = _format(file)
    if states < 1:
        raise NotUnderstood("states", states, "at least one is needed")
    robot = open_source(source, base, couplings, shapes)
    if robot.file is not None and robot.file.resolve() == file:
        raise CannotWrite(target, "is the source itself")
    said, losses = sayable(robot.description, form)
    name = robot.file.name if robot.file else robot.model.name
    text, remarks = _TEXTS[form](
        said, robot.shapes, file.parent, f"{name}, written by qddot convert"
    )
    lost = (*losses, *remarks, *_unread(robot, form))
    with unwarned():
        meant = to_model(said, None, "exact", False)
    with draft_beside(file, text) as draft:
        certificate = _certify(meant, draft, file, form, states, seed, on_step)
        kept = not (lossless and any(x.dynamics for x in lost))
        if certificate.passed and kept:
            publish(draft, file, force)
    return Conversion(
        str(robot.file or robot.model.name),
        file,
        form,
        certificate.passed and kept,
        certificate,
        lost,
        difference(robot.model, meant, states, seed),
        text,
    )


def _format(file: Path) -> Format:
    try:
        return _FORMATS[file.suffix.lower()]
    except KeyError:
        accepted = "its end says the format: .urdf for URDF, .xml or .mjcf for MJCF"
        raise NotUnderstood("target", file.name, accepted) from None


def _certify(
    meant: Model,
    draft: Path,
    file: Path,
    form: Format,
    states: int,
    seed: int,
    on_step: OnStep | None,
) -> Certificate:
    try:
        with unwarned():
            loaded = load_model(draft)
    except QddotError as error:
        reason = str(error).replace(draft.name, file.name)
        failed = Measure("file", "can be read", 1.0, 0.0, False, reason)
        return Certificate((failed,), states, seed)
    certificate = certify(meant, loaded, states, seed, on_step)
    if form == "mjcf":
        more = (*certificate.measures, _opens(draft, meant))
        certificate = Certificate(more, states, seed)
    return certificate


def _opens(draft: Path, meant: Model) -> Measure:
    """Whether MuJoCo itself opens the file, meshes and all, with the mass that was meant."""
    import mujoco

    claim = "opens the file, with the same mass"
    try:
        m = mujoco.MjModel.from_xml_path(str(draft))
    except (ValueError, mujoco.FatalError, mujoco.UnexpectedError) as error:
        return Measure("MuJoCo", claim, 1.0, 0.0, False, " ".join(str(error).split()))
    total = float(meant.mass)
    off = abs(float(m.body_mass.sum()) - total) / max(total, 1e-4)
    return Measure("MuJoCo", claim, off, 1e-10, off <= 1e-10)


def _unread(robot: Source, form: Format) -> Iterator[Loss]:
    """What the source says and nobody reads or should believe, and what is not carried over."""
    defects = [f.subject for f in robot.model.health if f.kind == "inertia" and form == "urdf"]
    yield from loss("inertia", False, "impossible in the source, written as it is", defects)
    health = [f for f in robot.description.findings if f.kind == "ignored"]
    for changes in (True, False):
        items = [f"{f.subject}: {f.message}" for f in health if (f.severity != "info") == changes]
        yield from loss("not read", changes, "the source says more than qddot reads", items)
    yield from loss("shapes", False, "not read from the source", robot.unread)
    if robot.root is None:
        name = [f"{robot.description.name!r}"]
        yield from loss("shapes", False, "a robot in memory has none", name)
    else:
        yield from loss("not carried over", False, "of the source", _left_behind(robot.root))


def _left_behind(root: Element) -> list[str]:
    """Elements of a file that are neither bodies, joints, shapes nor constraints, counted."""
    if root.tag == "robot":
        counts = Counter(f"<{x.tag}>" for x in root.all("transmission", "gazebo"))
    else:
        parts = [x for x in root.children if x.tag not in _CARRIED and root.tag == "mujoco"]
        counts = Counter(f"<{x.tag}> <{y.tag}>" for x in parts for y in x.children)
    return [f"{n} {what}" for what, n in counts.items()]
