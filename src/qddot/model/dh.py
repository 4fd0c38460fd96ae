"""A robot from Denavit–Hartenberg parameters, standard or modified.

Both conventions describe the same lines: z along each joint axis, x along the common normal of two
neighbours. A link has a proximal frame on the axis of its own joint and, by its length a and twist
α, a distal frame on the axis of the next one:

    distal = proximal · Tx(a) Rx(α)        proximal = distal of the link before · Rz(θ) Tz(d)

Standard parameters (Denavit and Hartenberg 1955, Paul, Corke) have in row i the joint and the link
beyond it, Rz(θ) Tz(d) Tx(a) Rx(α), and call the distal frame "frame i". Modified ones (Craig 1986,
Khalil and Kleinfinger 1986) have the link before the joint, Rx(α) Tx(a) Rz(θ) Tz(d), and call the
proximal frame "frame i".
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from qddot.errors import InvalidArgument, WrongType
from qddot.model.inputs import is_list, parse_inertia, parse_real, parse_reals, parse_transform
from qddot.model.model import STANDARD_GRAVITY, Model
from qddot.model.specs import FrameSpec, LinkSpec, model_from_links, parse_spec

__all__ = ["DHRow", "model_from_dh"]

Convention = Literal["standard", "modified"]
LinkFrame = Literal["distal", "proximal"]


@dataclass(frozen=True)
class DHRow:
    """A row of Denavit–Hartenberg parameters, with the mass, motor and limits of its link.

    Lengths `a`, `d` (m) and angles `alpha`, `theta` (rad). The coordinate of a "revolute" joint is
    added to `theta`, that of a "prismatic" one to `d`. `com` is in the frame of the link that is
    chosen for the whole table; `inertia` is about the centre of mass in the axes of that frame: a
    symmetric 3×3 array, its entries (xx, xy, yy, xz, yz, zz), or three principal moments.

    `Jm` (kg m²), `B` (N m s/rad) and `Tc` (N m) are inertia, viscous and Coulomb friction at the
    motor, `G` the gear ratio: the joint has the armature G² Jm, the damping G² B and the Coulomb
    friction |G| Tc. `Tc` is one number, or the torques (Tc⁺ ≥ 0, Tc⁻ ≤ 0) at positive and negative
    speed of the joint, whatever the sign of G.
    """

    a: float = 0.0
    alpha: float = 0.0
    d: float = 0.0
    theta: float = 0.0
    joint: str = "revolute"
    name: str | None = None
    mass: float = 0.0
    com: ArrayLike = (0.0, 0.0, 0.0)
    inertia: ArrayLike | None = None
    limits: tuple[float, float] | None = None
    velocity_limit: float = math.inf
    effort_limit: float = math.inf
    Jm: float = 0.0
    G: float = 1.0
    B: float = 0.0
    Tc: float | tuple[float, float] = 0.0


def model_from_dh(
    name: str,
    rows: Iterable[Any],
    convention: Convention = "standard",
    frame: LinkFrame | None = None,
    base: ArrayLike | None = None,
    tool: ArrayLike | None = None,
    gravity: ArrayLike = tuple(STANDARD_GRAVITY),
    strict: bool = False,
    stacklevel: int = 3,
) -> Model:
    """The model of a table of Denavit–Hartenberg parameters; see `Robot.from_dh`."""
    _check_choice("convention", convention, ("standard", "modified"))
    chosen = frame or ("distal" if convention == "standard" else "proximal")
    _check_choice("frame", chosen, ("distal", "proximal"))
    if not isinstance(rows, Iterable) or isinstance(rows, str):
        raise WrongType("rows", rows, "needs a list of DHRow, or of mappings of its fields")
    table = [parse_spec(DHRow, f"rows[{k}]", row) for k, row in enumerate(rows)]
    if not table:
        raise InvalidArgument("rows", [], "needs at least one row")
    # lengths and twists between the two frames of each link
    links = [
        _screw_matrix(0, *(parse_real(f"rows[{k}]: {x}", getattr(row, x)) for x in ("a", "alpha")))
        for k, row in enumerate(table)
    ]
    # spans[k] leads from the proximal to the distal frame of link k; spans[0] is the base's
    spans = [np.eye(4), *links] if convention == "standard" else [*links, np.eye(4)]
    specs = [LinkSpec("base", None, "fixed", placement=_pose_array("base", base))]
    # a link a row, with its frame by the convention
    frames = []
    for k, (row, before, span) in enumerate(zip(table, spans[:-1], spans[1:], strict=True), 1):
        parent = specs[-1].name
        specs.append(
            _link_of_row(k, row, parent, before, span if chosen == "distal" else np.eye(4))
        )
        own = span if convention == "standard" else np.eye(4)
        frames.append(FrameSpec(f"frame{k}", specs[-1].name, placement=own))
    end = spans[-1] @ _pose_array("tool", tool)
    frames.append(FrameSpec("tool", specs[-1].name, placement=end))
    return model_from_links(
        name, specs, frames, gravity=gravity, strict=strict, stacklevel=stacklevel + 1
    )


def _check_choice(what: str, value: Any, accepted: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in accepted:
        raise InvalidArgument(what, value, f"accepted: {', '.join(map(repr, accepted))}")


def _pose_array(what: str, given: Any) -> np.ndarray:
    """A 4×4 array, the identity where none is given."""
    X = parse_transform(what, given)
    rows = [[*row, p] for row, p in zip(X.R, X.p, strict=True)]
    return np.array([*rows, [0.0, 0.0, 0.0, 1.0]], dtype=float)


def _screw_matrix(axis: int, length: float, angle: float) -> np.ndarray:
    """A shift along and a turn about the coordinate axis of this index."""
    X = np.eye(4)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    c, s = math.cos(angle), math.sin(angle)
    X[i, i], X[i, j], X[j, i], X[j, j] = c, -s, s, c
    X[axis, 3] = length
    return X


def _link_of_row(
    k: int, row: DHRow, parent: str, before: np.ndarray, given: np.ndarray
) -> LinkSpec:
    """Link k in its proximal frame; `given` is the frame of its mass properties in that one."""
    what = f"rows[{k - 1}]"
    if row.joint not in ("revolute", "prismatic"):
        raise InvalidArgument(f"{what}: joint", row.joint, "accepted: 'revolute', 'prismatic'")
    d, theta = (parse_real(f"{what}: {x}", getattr(row, x)) for x in ("d", "theta"))
    name = f"link{k}" if row.name is None else row.name
    # mass properties are given in another frame of the link; motor constants on the motor side
    R, p = given[:3, :3], given[:3, 3]
    G = abs(parse_real(f"{what}: G", row.G))
    Jm, B = (parse_real(f"{what}: {x}", getattr(row, x), 0.0) for x in ("Jm", "B"))
    # levels of Coulomb friction at positive and at negative speed, neither negative
    if is_list(row.Tc):
        ahead, back = parse_reals(f"{what}: Tc", row.Tc, 2)
        if ahead < 0.0 or back > 0.0:
            raise InvalidArgument(f"{what}: Tc", row.Tc, "needs the torques (Tc⁺ ≥ 0, Tc⁻ ≤ 0)")
        back = -back
    else:
        ahead = back = parse_real(f"{what}: Tc", row.Tc, 0.0)
    xx, xy, yy, xz, yz, zz = parse_inertia(f"{what}: inertia", row.inertia)
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return LinkSpec(
        name,
        parent,
        row.joint,
        axis=(0.0, 0.0, 1.0),
        placement=before @ _screw_matrix(2, d, theta),
        mass=row.mass,
        com=p + R @ parse_reals(f"{what}: com", row.com, 3),
        inertia=R @ tensor @ R.T,
        joint_name=f"joint{k}" if row.name is None else f"{row.name}_joint",
        limits=row.limits,
        velocity_limit=row.velocity_limit,
        effort_limit=row.effort_limit,
        damping=G * G * B,
        friction=(G * ahead, G * back),
        armature=G * G * Jm,
    )
