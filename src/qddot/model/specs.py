"""A robot from plain data: links, frames, couplings and loops as keywords, numbers and arrays."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from qddot.errors import (
    ImpossibleInertia,
    InvalidArgument,
    InvalidModel,
    UnknownName,
    Unsupported,
    WrongType,
)
from qddot.model.assembly import assemble
from qddot.model.inputs import (
    is_list,
    parse_inertia,
    parse_placement,
    parse_real,
    parse_reals,
    snap_vector,
)
from qddot.model.joints import JOINTS, Drivetrain, Joint, JointKind, Limits, plane_basis
from qddot.model.links import (
    Coupling,
    FrameDraft,
    Link,
    Loop,
    unit_axis,
    warn_of_defects,
)
from qddot.model.model import STANDARD_GRAVITY, Model
from qddot.spatial.algebra import Inertia, Sym3, Vec3

__all__ = ["FrameSpec", "LinkSpec", "model_from_links", "parse_spec"]

_NO_LIMITS = (-math.inf, math.inf)


@dataclass(frozen=True)
class LinkSpec:
    """A link and the joint that carries it, in plain numbers; SI units and radians.

    `parent` is the name of the link that the joint stands on, None for the one root. `joint` is its
    kind: "fixed", "revolute", "continuous", "prismatic", "helical", "universal", "planar", "ball"
    or "free". `axis` is the axis of the joint in its own frame (of any length), the normal of a
    planar one; a universal joint has two, as rows. `pitch` (m/rad) belongs to a helical joint.

    The joint frame stands in the parent link by `placement`, a 4×4 array, or by `position` and
    `rotation`: a 3×3 matrix, a unit quaternion (x, y, z, w), or roll, pitch and yaw as in URDF. The
    link's own frame is the joint frame, moved by the joint.

    `com` is in the link's frame; `inertia` is about the centre of mass in the axes of the link's
    frame: a symmetric 3×3 array, its entries (xx, xy, yy, xz, yz, zz), or three principal moments
    along the axes. Without it the link is a point mass.

    `limits` are (lower, upper) of the coordinate; `velocity_limit` and `effort_limit` are
    magnitudes. `damping` is viscous; `friction` is Coulomb's level, or (forward, backward), neither
    negative; `armature` is inertia reflected to the joint; a spring of `stiffness` pulls to `rest`.
    The joint is named like the link unless it has a `joint_name`.
    """

    name: str
    parent: str | None
    joint: str
    axis: ArrayLike | None = None
    placement: ArrayLike | None = None
    position: ArrayLike | None = None
    rotation: ArrayLike | None = None
    mass: float = 0.0
    com: ArrayLike = (0.0, 0.0, 0.0)
    inertia: ArrayLike | None = None
    joint_name: str | None = None
    pitch: float | None = None
    limits: tuple[float, float] | None = None
    velocity_limit: float = math.inf
    effort_limit: float = math.inf
    damping: float = 0.0
    friction: float | tuple[float, float] = 0.0
    armature: float = 0.0
    stiffness: float = 0.0
    rest: float | tuple[float, ...] | None = None


@dataclass(frozen=True)
class FrameSpec:
    """A named frame fixed to a link, or to the world where `link` is None; placed as a LinkSpec."""

    name: str
    link: str | None
    placement: ArrayLike | None = None
    position: ArrayLike | None = None
    rotation: ArrayLike | None = None


Spec = TypeVar("Spec")


def parse_spec(kind: type[Spec], what: str, given: Any) -> Spec:
    """A dataclass from one, or from a mapping of its fields."""
    if isinstance(given, kind):
        return given
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    needed = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING]
    if not isinstance(given, Mapping):
        accepted = f"needs a {kind.__name__}, or a mapping of its fields ({', '.join(needed)}, …)"
        raise WrongType(what, given, accepted)
    for key in given:
        if key not in {f.name for f in fields}:
            raise UnknownName("field", key, (f.name for f in fields), what)
    if missing := [name for name in needed if name not in given]:
        raise InvalidArgument(what, dict(given), f"it needs {', '.join(missing)} too")
    return kind(**given)


def model_from_links(
    name: str,
    links: Iterable[Any],
    frames: Iterable[Any] = (),
    couplings: Iterable[Any] = (),
    loops: Iterable[Any] = (),
    gravity: ArrayLike = tuple(STANDARD_GRAVITY),
    configurations: Mapping[str, ArrayLike] | None = None,
    strict: bool = False,
    stacklevel: int = 3,
) -> Model:
    """The model of links, frames, couplings and loops in plain data; see `Robot.from_links`."""
    _check_name("robot: name", name)
    specs = [parse_spec(LinkSpec, f"links[{k}]", x) for k, x in _enumerate_list("links", links)]
    # refuse names that are no names, parents that do not exist, and several roots
    for spec in specs:
        _check_name("link: name", spec.name)
    names = [spec.name for spec in specs]
    for spec in specs:
        known = isinstance(spec.parent, str) and spec.parent in names
        if spec.parent is not None and not known:
            raise UnknownName(f"parent of link {spec.name!r}", spec.parent, names)
    if not specs:
        raise InvalidArgument("links", [], "needs at least one link")
    roots = [repr(spec.name) for spec in specs if spec.parent is None]
    if len(roots) > 1:
        reason = (
            f"{', '.join(roots[1:])} have no parent either: one root is accepted; "
            "put them on a common link with joint='fixed'"
        )
        raise InvalidModel(f"link {roots[0]}", reason)
    names, joints = [s.name for s in specs], [s.joint_name or s.name for s in specs]
    placed = [
        parse_spec(FrameSpec, f"frames[{k}]", x) for k, x in _enumerate_list("frames", frames)
    ]
    model = assemble(
        name,
        [_parse_link(spec) for spec in specs],
        [_parse_frame(spec, names) for spec in placed],
        [
            _parse_coupling(f"couplings[{k}]", x, joints)
            for k, x in _enumerate_list("couplings", couplings)
        ],
        gravity=Vec3(*parse_reals("gravity", gravity, 3)),
        loops=[parse_spec(Loop, f"loops[{k}]", x) for k, x in _enumerate_list("loops", loops)],
    )
    # impossible inertias are refused or warned of
    defects = [f for f in model.health if f.kind == "inertia"]
    if strict and defects:
        raise ImpossibleInertia(defects[0].subject, defects[0].message)
    warn_of_defects(name, defects, stacklevel)
    # named configurations, one number for each coordinate
    given = configurations or {}
    if not isinstance(given, Mapping):
        raise WrongType("configurations", given, "needs {name: q}")
    for label in given:
        _check_name("configuration", label)
    return dataclasses.replace(
        model,
        configurations={
            label: tuple(parse_reals(f"configuration {label!r}", q, model.nq))
            for label, q in given.items()
        },
    )


def _enumerate_list(what: str, given: Any) -> Iterable[tuple[int, Any]]:
    """The entries of a list, numbered."""
    if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping):
        raise WrongType(what, given, "needs a list")
    return enumerate(given)


def _check_name(what: str, name: Any) -> None:
    if not isinstance(name, str) or not name:
        error = InvalidArgument if isinstance(name, str) else WrongType
        raise error(what, name, "needs a text that is not empty")


def _parse_link(spec: LinkSpec) -> Link:
    """The link that a specification describes, its numbers checked one by one."""
    what = f"link {spec.name!r}"
    if not isinstance(spec.joint, str) or spec.joint not in JOINTS:
        raise UnknownName(f"joint of {what}", spec.joint, JOINTS)
    kind = JOINTS[spec.joint]
    if spec.joint_name is not None:
        _check_name(f"{what}: joint_name", spec.joint_name)
    if not kind.has_pitch and spec.pitch is not None:
        raise Unsupported(f"{what}: pitch", spec.pitch, "only a helical joint has one")
    if kind.has_pitch and spec.pitch is None:
        raise InvalidArgument(f"{what}: pitch", None, "a helical joint needs one, in m/rad")
    lower, upper = _NO_LIMITS
    if spec.limits is not None:
        if not kind.takes_limits:
            accepted = f"the coordinates of a {kind.name} joint have none"
            raise Unsupported(f"{what}: limits", spec.limits, accepted)
        lower, upper = parse_reals(f"{what}: limits", spec.limits, 2, infinite=True)
        if lower > upper or lower == math.inf or upper == -math.inf:
            raise InvalidArgument(
                f"{what}: limits", spec.limits, "needs lower ≤ upper, not at one infinity"
            )
    speed, effort = (
        parse_real(f"{what}: {key}", getattr(spec, key), 0.0, infinite=True)
        for key in ("velocity_limit", "effort_limit")
    )
    label = f"{what}: friction"
    if is_list(spec.friction):
        ahead, back = (parse_real(label, x, 0.0) for x in parse_reals(label, spec.friction, 2))
    else:
        ahead = back = parse_real(label, spec.friction, 0.0)
    damping, armature, stiffness = (
        parse_real(f"{what}: {key}", getattr(spec, key), 0.0)
        for key in ("damping", "armature", "stiffness")
    )
    if kind.nv == 0 and any((ahead, back, damping, armature, stiffness)):
        accepted = "it has no damping, friction, armature or stiffness"
        raise Unsupported(f"{what}: joint", kind.name, accepted)
    rest = spec.rest
    if rest is not None:
        rest = tuple(parse_reals(f"{what}: rest", rest if is_list(rest) else [rest], kind.nq))
    joint = Joint(
        spec.joint_name or spec.name,
        kind,
        _parse_axes(what, kind, spec.axis),
        0.0 if spec.pitch is None else parse_real(f"{what}: pitch", spec.pitch),
        limits=Limits(lower, upper, speed, effort),
        drivetrain=Drivetrain(
            armature=armature,
            damping=damping,
            friction=ahead,
            backward_friction=None if back == ahead else back,
            stiffness=stiffness,
            rest=rest,
        ),
    )
    placement = parse_placement(what, spec.placement, spec.position, spec.rotation)
    # mass, centre of mass and tensor about it
    mass = parse_real(f"{what}: mass", spec.mass, 0.0)
    com = Vec3(*parse_reals(f"{what}: com", spec.com, 3))
    tensor = Sym3(*parse_inertia(f"{what}: inertia", spec.inertia))
    inertia = Inertia.at_com(mass, com, tensor)
    return Link(spec.name, spec.parent, placement, joint, inertia)


def _parse_axes(what: str, kind: JointKind, axis: Any) -> tuple[Vec3, ...]:
    """The unit axes of a joint."""
    what = f"{what}: axis"
    if kind.axes == 0:
        if axis is not None:
            raise Unsupported(what, axis, f"a {kind.name} joint has none")
        return ()
    if axis is None:
        needed = "two of them, as rows" if kind.axes == 2 else "three numbers"
        raise InvalidArgument(what, None, f"a {kind.name} joint needs one: {needed}")
    # a universal joint: two axes that are not parallel
    if kind.axes == 2:
        try:
            rows = [parse_reals(what, row, 3) for row in axis]
        except TypeError:
            rows = []
        if len(rows) != 2:
            raise InvalidArgument(what, axis, "a universal joint needs two axes, as rows")
        first, second = (snap_vector(unit_axis(what, row)) for row in rows)
        if abs(first.dot(second)) > 1.0 - 1e-9:
            raise InvalidArgument(what, axis, "the two axes of a universal joint are not parallel")
        return first, second
    # one axis; of a planar joint the normal, completed to a basis
    single = snap_vector(unit_axis(what, parse_reals(what, axis, 3)))
    return plane_basis(single) if kind.axes == 3 else (single,)


def _parse_frame(spec: FrameSpec, links: Iterable[str]) -> FrameDraft:
    _check_name("frame: name", spec.name)
    what = f"frame {spec.name!r}"
    if spec.link is not None and (not isinstance(spec.link, str) or spec.link not in links):
        raise UnknownName(f"link of {what}", spec.link, links)
    place = parse_placement(what, spec.placement, spec.position, spec.rotation)
    return FrameDraft(spec.name, spec.link, place)


def _parse_coupling(what: str, given: Any, joints: Iterable[str]) -> Coupling:
    """A coupling of joints that exist; the ratio is 1 where none is given."""
    if isinstance(given, Mapping):
        given = {"ratio": 1.0, "offset": 0.0, **given}
    tie = parse_spec(Coupling, what, given)
    for name in (tie.follower, *([] if tie.leader is None else [tie.leader])):
        if not isinstance(name, str) or name not in joints:
            raise UnknownName("joint", name, joints, what)
    ratio, offset = (parse_real(f"{what}: {k}", getattr(tie, k)) for k in ("ratio", "offset"))
    return dataclasses.replace(tie, ratio=ratio, offset=offset)
