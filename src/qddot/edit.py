"""Another model from a model: other parameters, a payload, a locked joint, a tool."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from qddot.assembly import assemble, fixed_at, fixed_joint
from qddot.errors import InvalidModel, NotUnderstood
from qddot.model import WORLD, Model, massless_leaves
from qddot.parts import Coupling, FrameDraft, Link, check_inertia, inertia_defect, open_loops
from qddot.scalar import Scalar
from qddot.spatial import Inertia, Mat3, Sym3, Transform, Vec3

__all__ = [
    "attach",
    "drafts",
    "extra_frames",
    "rebuilt",
    "with_gravity",
    "with_parameters",
    "with_payload",
    "without_joint",
]


def with_parameters(model: Model, parameters: Sequence[Sequence[Scalar]]) -> Model:
    """The same robot with other inertial parameters, ten a body, over any scalar."""
    if len(parameters) != model.nb or any(len(row) != 10 for row in parameters):
        found = [len(row) for row in parameters]
        raise NotUnderstood("with_parameters: rows of", found, f"needs {model.nb} rows of ten")
    bodies = tuple(
        dataclasses.replace(body, inertia=Inertia.of(list(row)))
        for body, row in zip(model.bodies, parameters, strict=True)
    )
    findings = [f for f in model.health if f.kind not in ("inertia", "massless")]
    findings += [d for b in bodies for d in inertia_defect(f"body {b.name!r}", b.inertia)]
    findings += massless_leaves(bodies)
    return dataclasses.replace(model, bodies=bodies, health=tuple(findings))


def with_payload(
    model: Model,
    frame: str,
    mass: float,
    com: Sequence[float] = (0.0, 0.0, 0.0),
    tensor: Any = None,
) -> Model:
    """The same robot carrying a load at a frame.

    `com` is in coordinates of the frame; `tensor`, a symmetric 3×3 array or its six entries
    (xx, xy, yy, xz, yz, zz), is about the centre of mass, in the axes of the frame; without it
    the load is a point.
    """
    (m,), c = (
        _scalars(f"with_payload: {what}", values, count)
        for what, values, count in (("mass", [mass], 1), ("com", com, 3))
    )
    sigma = [0.0] * 6 if tensor is None else _moments(tensor)
    load = Inertia.at_com(m, Vec3(*c), Sym3(*sigma))
    place = model.frame(frame)
    added = place.placement.to_parent(load)
    label = f"payload at {frame!r}"
    check_inertia(label, load)
    health = (*model.health, *inertia_defect(label, load))
    if place.body == WORLD:
        return dataclasses.replace(model, base_inertia=model.base_inertia + added, health=health)
    bodies = list(model.bodies)
    host = bodies[place.body]
    bodies[place.body] = dataclasses.replace(host, inertia=host.inertia + added)
    health = (*(f for f in health if f.kind != "massless"), *massless_leaves(bodies))
    return dataclasses.replace(model, bodies=tuple(bodies), health=health)


def with_gravity(model: Model, gravity: Sequence[Scalar]) -> Model:
    """The same robot in other gravity, in world axes."""
    return dataclasses.replace(model, gravity=Vec3(*_scalars("with_gravity", gravity, 3)))


def without_joint(model: Model, name: str, value: float | Sequence[float] | None = None) -> Model:
    """The same robot with a joint locked at a value (neutral by default), followers with it."""
    joint = model.body_of_joint(name).joint
    if joint.leader is not None:
        raise InvalidModel(f"joint {name!r}", f"follows {joint.leader!r}; lock that one")
    given = joint.kind.neutral if value is None else value
    what = f"value of joint {name!r}"
    several = given.ndim > 0 if isinstance(given, np.ndarray) else isinstance(given, Sequence)
    q = _scalars(what, given if several else [given], joint.kind.nq)
    if joint.kind.name in ("ball", "free") and abs(math.hypot(*q[-4:]) - 1.0) > 1e-6:
        raise NotUnderstood(what, value, "its quaternion (x, y, z, w) needs unit length")
    for c in model.polynomial_couplings:
        if name in (c.follower, c.leader):
            raise InvalidModel(f"joint {name!r}", f"is part of the coupling {c.name!r}")
    links, couplings = drafts(model)
    links = [
        fixed_at(link, q, body.joint) if name in (body.joint.name, body.joint.leader) else link
        for link, body in zip(links, model.bodies, strict=True)
    ]
    kept = [c for c in couplings if c.leader != name]
    iq = model.body_of_joint(name).iq
    configurations = {
        key: (*q[: iq.start], *q[iq.stop :]) for key, q in model.configurations.items()
    }
    return rebuilt(model, links, couplings=kept, configurations=configurations)


def attach(
    model: Model, other: Model, frame: str, placement: Any = None, prefix: str = ""
) -> Model:
    """This robot with another model mounted on a frame; `prefix` goes before the other's names.

    `placement` is a Transform or a 4×4 array. The named configurations of this robot stay, with
    the other's joints at neutral.
    """
    for body in other.bodies:
        if body.parent == WORLD and body.joint.kind.name == "free":
            raise InvalidModel(
                f"model {other.name!r}",
                "has a free base; load it with base='fixed' to attach it",
            )
    place = model.frame(frame)
    host = model.bodies[place.body].name if place.body != WORLD else None
    X = place.placement @ _rigid("attach: placement", placement)
    mount = Link(
        f"{prefix}{other.name}_mount",
        host,
        X,
        fixed_joint(f"{prefix}mount"),
        other.base_inertia,
    )
    renamed = _prefixed(other, prefix)
    links, couplings = drafts(model)
    more, more_couplings = drafts(renamed)
    joined = rebuilt(
        model,
        [*links, mount, *(_mounted(link, mount.name) for link in more)],
        [*extra_frames(model), *(_mounted(f, mount.name) for f in extra_frames(renamed))],
        [*couplings, *more_couplings],
        loops=model.loops + renamed.loops,
        polynomial_couplings=model.polynomial_couplings + renamed.polynomial_couplings,
    )
    merged = ("massless", "loop")
    ours, theirs = ([f for f in m.health if f.kind not in merged] for m in (model, other))
    theirs = [dataclasses.replace(f, subject=_prefixed_subject(f.subject, prefix)) for f in theirs]
    health = (*open_loops(joined.loops), *ours, *theirs, *massless_leaves(joined.bodies))
    return dataclasses.replace(joined, health=health, configurations=_filled(model, joined))


def _filled(model: Model, joined: Model) -> dict[str, tuple[float, ...]]:
    """The named configurations of a model for one with more joints, those at neutral."""
    places = {b.joint.name: b.iq for b in model.independent}
    return {
        name: tuple(
            x
            for b in joined.independent
            for x in (q[places[b.joint.name]] if b.joint.name in places else b.joint.kind.neutral)
        )
        for name, q in model.configurations.items()
    }


def _prefixed(model: Model, prefix: str) -> Model:
    """The same model with every name prefixed."""
    bodies = tuple(
        dataclasses.replace(
            b,
            name=prefix + b.name,
            joint=dataclasses.replace(
                b.joint,
                name=prefix + b.joint.name,
                leader=b.joint.leader and prefix + b.joint.leader,
            ),
        )
        for b in model.bodies
    )
    loops = (
        dataclasses.replace(
            x, name=prefix + x.name, frame1=prefix + x.frame1, frame2=prefix + x.frame2
        )
        for x in model.loops
    )
    polynomials = (
        dataclasses.replace(
            c, name=prefix + c.name, follower=prefix + c.follower, leader=prefix + c.leader
        )
        for c in model.polynomial_couplings
    )
    frames = (dataclasses.replace(f, name=prefix + f.name) for f in model.frames)
    return dataclasses.replace(
        model,
        bodies=bodies,
        frames=tuple(frames),
        loops=tuple(loops),
        polynomial_couplings=tuple(polynomials),
    )


def drafts(model: Model) -> tuple[list[Link], list[Coupling]]:
    """Links and couplings from which `assemble` gives this model's bodies again."""
    links, couplings = [], []
    for b in model.bodies:
        parent = model.bodies[b.parent].name if b.parent != WORLD else None
        joint = b.joint
        if joint.leader is not None:
            leader = model.body_of_joint(joint.leader).joint
            offset = joint.offset - joint.ratio * leader.offset
            couplings.append(Coupling(joint.name, leader.name, joint.ratio, offset))
            joint = dataclasses.replace(joint, leader=None, ratio=1.0, offset=0.0)
        links.append(Link(b.name, parent, b.placement, joint, b.inertia))
    return links, couplings


def extra_frames(model: Model) -> list[FrameDraft]:
    """The frames that are not those of the bodies themselves."""
    names = {b.name for b in model.bodies}
    return [
        FrameDraft(f.name, model.bodies[f.body].name if f.body != WORLD else None, f.placement)
        for f in model.frames
        if f.name not in names
    ]


def rebuilt(
    model: Model,
    links: Sequence[Link],
    frames: Sequence[FrameDraft] | None = None,
    couplings: Sequence[Coupling] = (),
    **changes: Any,
) -> Model:
    """This model's own fields around other links."""
    fields = {
        "gravity": model.gravity,
        "loops": model.loops,
        "polynomial_couplings": model.polynomial_couplings,
        "health": model.health,
    }
    frames = extra_frames(model) if frames is None else frames
    return assemble(
        model.name, links, frames, couplings, model.base_inertia, **{**fields, **changes}
    )


def _moments(tensor: Any) -> list[Scalar]:
    """The entries xx, xy, yy, xz, yz, zz of a tensor that is given by them or as 3×3."""
    what, order = "with_payload: tensor", " (xx, xy, yy, xz, yz, zz), or a symmetric 3×3 array"
    try:
        rows = [list(row) for row in tensor]
    except TypeError:
        return _scalars(what, tensor, 6, order)
    if [len(row) for row in rows] != [3, 3, 3]:
        raise NotUnderstood(what, tensor, f"needs 6 numbers{order}")
    full = [_scalars(what, row, 3) for row in rows]
    sizes = [abs(x) for row in full for x in row]
    skew = [abs(full[i][j] - full[j][i]) for i, j in ((0, 1), (0, 2), (1, 2))]
    plain = all(isinstance(x, float | int) for x in sizes)
    if plain and max(skew) > 1e-9 * max(sizes):
        raise NotUnderstood(what, tensor, f"needs 6 numbers{order}")
    return [full[i][j] for i, j in ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))]


def _rigid(what: str, placement: Any) -> Transform:
    """A pose from a Transform, a 4×4 array, or None for identity."""
    if placement is None or isinstance(placement, Transform):
        return placement or Transform.identity()
    accepted = "needs a Transform, or a 4×4 array of a rotation and a shift"
    try:
        X = np.asarray(placement, dtype=float)
    except (TypeError, ValueError) as error:
        raise NotUnderstood(what, placement, accepted) from error
    if X.shape != (4, 4) or not np.array_equal(X[3], [0.0, 0.0, 0.0, 1.0]):
        raise NotUnderstood(what, placement, accepted)
    R = X[:3, :3]
    if not (np.allclose(R @ R.T, np.eye(3), rtol=0.0, atol=1e-6) and np.linalg.det(R) > 0.0):
        raise NotUnderstood(what, placement, accepted)
    return Transform(Mat3(*(Vec3(*row) for row in R.tolist())), Vec3(*X[:3, 3].tolist()))


def _scalars(what: str, values: Any, count: int, order: str = "") -> list[Scalar]:
    """So many scalars from a sequence or array, NumPy's own as Python numbers."""
    try:
        single = [isinstance(x, np.generic | np.ndarray) and x.ndim == 0 for x in values]
        scalars = [x.item() if alone else x for x, alone in zip(values, single, strict=True)]
    except TypeError:
        scalars = []
    foreign = (str, bytes, list, tuple, dict, np.ndarray, type(None))
    if len(scalars) != count or any(isinstance(x, foreign) for x in scalars):
        raise NotUnderstood(what, values, f"needs {count} number{'s' if count > 1 else ''}{order}")
    return scalars


def _prefixed_subject(subject: str, prefix: str) -> str:
    """The subject of a finding, such as "joint 'elbow'", with the prefix before the name."""
    kind, quote, name = subject.partition(" '")
    return f"{kind}{quote}{prefix}{name}" if quote else subject


def _mounted(draft: Any, mount: str) -> Any:
    """A link or frame of the world, moved to the mount."""
    field = "parent" if isinstance(draft, Link) else "link"
    return dataclasses.replace(draft, **{field: mount}) if getattr(draft, field) is None else draft
