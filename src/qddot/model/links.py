"""The parts of which a model is assembled, and what makes a part sound.

A description file gives links, each carried by a joint; couplings between joints; loop closures;
frames. Nothing here knows a tree.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from qddot.errors import (
    InvalidModel,
    UnknownName,
    WrongType,
    control_character,
    count_text,
)
from qddot.model.joints import Joint
from qddot.spatial.algebra import Inertia, Transform, Vec3
from qddot.spatial.scalar import Scalar

__all__ = [
    "CONTACT_ROWS",
    "LOOP_ROWS",
    "Contact",
    "Coupling",
    "Finding",
    "FrameDraft",
    "Link",
    "Loop",
    "PolynomialCoupling",
    "check_inertia",
    "check_links",
    "check_name",
    "check_numbers",
    "check_unique",
    "inertia_defect",
    "open_loops",
    "unit_axis",
    "warn_of_defects",
]

_LARGEST = 1e12
_MASSLESS = 1e-12


@dataclass(frozen=True)
class Finding:
    """An entry of a model's health: how bad, what kind, about what, in words."""

    severity: Literal["error", "warning", "info"]
    kind: str
    subject: str
    message: str


@dataclass(frozen=True)
class Link:
    """A link as a description gives it: the joint that carries it, from which parent link, where.

    `placement` is the pose of the joint frame in the parent link (the world when `parent` is None).
    """

    name: str
    parent: str | None
    placement: Transform
    joint: Joint
    inertia: Inertia = field(default_factory=Inertia.zero)


@dataclass(frozen=True)
class FrameDraft:
    """A named frame fixed to a link (to the world when `link` is None)."""

    name: str
    link: str | None
    placement: Transform


@dataclass(frozen=True)
class Coupling:
    """An exact coupling: displacement of the follower = ratio · that of the leader + offset.

    Without a leader the follower is held at `offset`.
    """

    follower: str
    leader: str | None
    ratio: float
    offset: float


@dataclass(frozen=True)
class PolynomialCoupling:
    """A coupling kept as a constraint: follower = Σ coefficients[k] leaderᵏ, of displacements."""

    name: str
    follower: str
    leader: str
    coefficients: tuple[float, ...]


LOOP_ROWS: dict[str, tuple[str, ...]] = {
    "spherical": ("x", "y", "z"),
    "revolute": ("x", "y", "z", "rx", "ry"),
    "universal": ("x", "y", "z", "ry"),
    "prismatic": ("x", "y", "rx", "ry", "rz"),
    "planar": ("z", "rx", "ry"),
    "weld": ("x", "y", "z", "rx", "ry", "rz"),
}
"""The equations of a loop closure by its kind: along and about axes of which z is its axis."""

CONTACT_ROWS: dict[str, tuple[str, ...]] = {
    "point": ("x", "y", "z"),
    "surface": ("x", "y", "z", "rx", "ry", "rz"),
}
"""The equations of a contact by its kind: what of the frame is held."""


class _Rows:
    """The equations of a constraint, each with a name."""

    name: str
    rows: tuple[str, ...]
    redundant: tuple[str, ...]

    @property
    def size(self) -> int:
        """Number of equations."""
        return len(self.rows)

    @property
    def row_names(self) -> tuple[str, ...]:
        """The equations by name, such as "loop.x"."""
        return tuple(f"{self.name}.{row}" for row in self.rows)

    def _select_rows(self, what: str, table: Mapping[str, tuple[str, ...]], kind: str) -> None:
        """Take the rows asked for, in the order of the table; all of them where none are."""
        if not isinstance(kind, str) or kind not in table:
            raise UnknownName(f"kind of {what}", kind, table)
        chosen, idle = (
            (x,) if isinstance(x, str) else tuple(x) for x in (self.rows, self.redundant)
        )
        for row in (*chosen, *idle):
            if row not in table[kind]:
                raise UnknownName("row", row, table[kind], self.name)
        rows = tuple(row for row in table[kind] if not chosen or row in chosen)
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "redundant", tuple(row for row in rows if row in idle))


@dataclass(frozen=True)
class Loop(_Rows):
    """A loop closure: frame2 is held on frame1 as a joint of this kind would hold it.

    Kinds are those of LOOP_ROWS. `axis` is the axis that a revolute joint turns about, a prismatic
    one slides along, the normal of a planar one, and the axis of a universal one that is fixed to
    frame1; it has the same coordinates in both frames. The equations are named after axes of which
    z is that axis: those of the frames where it is z, else turned as `plane_basis` says. `rows`
    restricts the loop to some of its equations; `redundant` names some that others make up: they
    hold with those, and their multipliers are zero.
    """

    name: str
    kind: str
    frame1: str
    frame2: str
    axis: Vec3 | Sequence[float] = (0.0, 0.0, 1.0)
    rows: tuple[str, ...] = ()
    redundant: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._select_rows("loop", LOOP_ROWS, self.kind)
        object.__setattr__(self, "axis", unit_axis(f"loop {self.name!r}", self.axis))


@dataclass(frozen=True)
class Contact(_Rows):
    """A frame held by the world: its origin (kind "point") or its whole pose ("surface").

    `place` is the pose in the world at which it is held, and gives the axes of the equations.
    Without one the frame is held wherever it is, in axes of the world: such a contact constrains
    velocity and acceleration, and nothing violates it. `rows` restricts it to some equations,
    `redundant` names some that others make up, as of a `Loop`.
    """

    frame: str
    kind: str = "point"
    place: Transform | None = None
    rows: tuple[str, ...] = ()
    redundant: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._select_rows("contact", CONTACT_ROWS, self.kind)
        if not (self.place is None or isinstance(self.place, Transform)):
            raise WrongType("place of a contact", self.place, "it is a Transform, or None")

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the frame."""
        return self.frame


def unit_axis(element: str, axis: Iterable[float]) -> Vec3:
    """An axis scaled to unit length; refuse what has no direction."""
    try:
        x = Vec3(*(float(c) for c in axis))
    except (TypeError, ValueError) as error:
        raise InvalidModel(element, f"its axis {axis!r} is not three numbers") from error
    length = math.sqrt(x.dot(x))
    if not 0.0 < length < math.inf:
        raise InvalidModel(element, f"its axis {tuple(x)} has no direction")
    return Vec3(*(c / length for c in x))


def inertia_defect(subject: str, inertia: Inertia) -> list[Finding]:
    """Findings of an impossible inertia, whose pseudo-inertia is not positive semidefinite.

    About the centre of mass that is: no principal moment exceeds the sum of the other two (and
    none is negative). Nothing is said of inertias that are not plain finite numbers.
    """
    if not all(isinstance(x, float | int) and math.isfinite(x) for x in inertia):
        return []
    if inertia.mass <= _MASSLESS:
        moment = max(abs(x) for x in (*inertia.h, *inertia.I))
        if moment <= _MASSLESS:
            return []
        message = f"has rotational inertia or first moment ({moment:.3g}) but no mass"
        return [Finding("error", "inertia", subject, f"impossible inertia: {message}")]
    # triangle inequality of the principal moments about the centre of mass
    tensor = np.array([list(row) for row in inertia.tensor_at_com.rows], dtype=float)
    if not np.isfinite(tensor).all():
        message = "impossible inertia: its moments about the centre of mass are beyond all numbers"
        return [Finding("error", "inertia", subject, message)]
    moments = np.linalg.eigvalsh(tensor)
    excess = float(moments[2] - moments[0] - moments[1])
    # what rounding leaves of the moments when they are taken back to the centre of mass
    rounding = 1e-12 * max(abs(x) for x in inertia.I)
    tolerance = 1e-6 * float(np.abs(moments).sum()) + rounding
    if excess <= tolerance and moments[0] >= -rounding:
        return []
    listed = ", ".join(f"{m:.4g}" for m in moments)
    message = f"impossible inertia: principal moments {listed} kg m² about the centre of mass; " + (
        "one is negative"
        if moments[0] < -rounding
        else f"the largest exceeds the other two by {excess:.3g}"
    )
    return [Finding("error", "inertia", subject, message)]


def warn_of_defects(model: str, findings: Iterable[Finding], stacklevel: int) -> None:
    """Warn of the links whose inertia no body can have, if there are any."""
    subjects = [f.subject for f in findings if f.kind == "inertia"]
    if subjects:
        names = ", ".join(subjects[:4]) + (", …" if len(subjects) > 4 else "")
        warnings.warn(
            f"{model}: {count_text(len(subjects), 'impossible inertia')}: {names}; see health",
            stacklevel=stacklevel + 1,
        )


def open_loops(loops: Sequence[Loop]) -> list[Finding]:
    """A finding that the dynamics of a model with loop closures are those of its open tree."""
    if not loops:
        return []
    one = len(loops) == 1
    message = (
        f"{count_text(len(loops), 'loop closure')} {'is' if one else 'are'} not part of the "
        "dynamics: results are those of the open tree; constrained_dynamics, qddot.constraints and "
        f"rollouts hold {'it' if one else 'them'} closed"
    )
    return [Finding("warning", "loop", "loops", message)]


def check_unique(kind: str, names: Iterable[str]) -> None:
    """Refuse a name that is used twice, or that would act on the terminal it is printed on."""
    seen: set[str] = set()
    for name in names:
        check_name(kind, name)
        if name in seen:
            raise InvalidModel(f"{kind} {name!r}", "the name is used twice")
        seen.add(name)


def check_name(kind: str, name: str) -> None:
    """Refuse control characters in a name."""
    if isinstance(name, str) and (found := control_character(name)):
        raise InvalidModel(f"{kind} {name!r}", f"its name has the control character {found}")


def check_numbers(element: str, values: Iterable[Scalar]) -> None:
    """Refuse numbers that are not finite or absurdly large; other scalars pass."""
    for x in values:
        if isinstance(x, float | int) and not abs(x) < _LARGEST:
            reason = "is not a finite number" if not math.isfinite(x) else "is absurdly large"
            raise InvalidModel(element, f"{x} {reason}")


def check_inertia(element: str, inertia: Inertia) -> None:
    """Refuse an inertia that is not finite, or a negative mass."""
    check_numbers(element, inertia)
    if isinstance(inertia.mass, float | int) and inertia.mass < 0:
        raise InvalidModel(element, f"negative mass {inertia.mass}")


def check_links(links: Sequence[Link]) -> None:
    """Refuse links whose names are not unique or whose numbers are not sound."""
    check_unique("link", (link.name for link in links))
    check_unique("joint", (link.joint.name for link in links))
    for link in links:
        element = f"link {link.name!r}"
        check_inertia(element, link.inertia)
        check_numbers(element, link.placement.p)
        for row in link.placement.R:
            check_numbers(element, row)
        joint, drive, limits = link.joint, link.joint.drivetrain, link.joint.limits
        element = f"joint {joint.name!r}"
        for axis in joint.axes:
            check_numbers(element, axis)
            # compiled code turns bodies to coordinate axes, which have no length to lose
            if abs(axis.dot(axis) - 1.0) > 1e-13:
                raise InvalidModel(element, "its axis is not a unit vector")
        # dissipative and inertial constants are not negative
        constants = {
            "armature": drive.armature,
            "rotor inertia": drive.rotor_inertia,
            "damping": drive.damping,
            "friction": drive.friction,
            "backward friction": drive.friction_levels[1],
        }
        others = (joint.pitch, joint.ratio, joint.offset, drive.gear_ratio, drive.stiffness)
        check_numbers(element, (*others, *constants.values(), *(drive.rest or ())))
        for label, value in constants.items():
            if isinstance(value, float | int) and value < 0:
                raise InvalidModel(element, f"negative {label} {value}")
        # no number lies between limits that are no numbers, in the wrong order or at one infinity
        lower, upper = limits.lower, limits.upper
        if not (lower <= upper and lower < math.inf and upper > -math.inf):
            raise InvalidModel(element, f"limits [{lower}, {upper}] are empty")
        if not (limits.velocity >= 0 and limits.effort >= 0):
            raise InvalidModel(element, "negative velocity or effort limit")
        if drive.reflected_inertia != 0 and not joint.kind.takes_armature:
            raise InvalidModel(element, f"armature has no meaning on a {joint.kind.name} joint")
