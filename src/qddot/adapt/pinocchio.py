"""Pinocchio: our conventions but for angles as (cosine, sine) and an order of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from qddot.adapt.adapter import Adapter, make_adapter
from qddot.adapt.layout import Layout, Place
from qddot.errors import NotUnderstood
from qddot.model import Body
from qddot.robot import Robot
from qddot.spatial import Mat3, Transform, Vec3

__all__ = ["pinocchio"]

_WHOLE = {"FreeFlyer": "free xyzw", "Spherical": "ball xyzw", "Planar": "planar pair"}
_ROUNDING = 1e-9
_CHAINS = {"SphericalZYX": "zyx", "Translation": "xyz", "Universal": "12"}
"""Joints that are a chain here, and how the names of its joints end."""


def pinocchio(
    robot: Robot,
    model: Any,
    names: Mapping[str, str] | None = None,
    partial: bool = False,
    check: bool = True,
) -> Adapter:
    """The adapter of a robot and a pinocchio.Model of it.

    `names` has the names there of joints that are called otherwise; `partial` leaves joints that
    only the model has at neutral; `check=False` takes any quaternion.
    """
    if not hasattr(model, "jointPlacements"):
        raise NotUnderstood("model", model, "needs a pinocchio.Model")
    if not isinstance(robot, Robot):
        raise NotUnderstood("robot", robot, "needs a Robot, as qddot.load gives")
    called = {(names or {}).get(b.joint.name, b.joint.name): b for b in robot.model.bodies}
    found = (p for i in range(1, model.njoints) for p in _places(model, i))
    places = [dataclasses.replace(p, zero=_zero(called.get(p.name), p)) for p in found]
    layout = Layout(
        "Pinocchio",
        tuple(places),
        _neutral(model),
        model.nv,
        model.njoints,
        tuple(str(model.names[i]) for i in range(1, model.njoints) if _is_mimic(model.joints[i])),
        local_forces=True,
        triangle=True,
    )
    return make_adapter(robot, layout, names, partial, check)


def _zero(body: Body | None, place: Place) -> float:
    """Where a joint stands as placed: at its reference position if its frame is turned by that.

    So Pinocchio keeps the reference position of an MJCF joint, which then has the q of the file.
    """
    if body is None or body.joint.kind.nq != 1 or not body.joint.offset:
        return 0.0
    X = body.placement @ body.joint.kind.transform(body.joint, [body.joint.offset])
    ours, theirs = (X.p, place.placement.p) if X.R == body.placement.R else (X.R, place.placement.R)
    apart = np.abs(np.array(_numbers(ours)) - np.array(_numbers(theirs))).max()
    return -float(body.joint.offset) if apart < _ROUNDING else 0.0


def _numbers(x: Vec3 | Mat3) -> list[float]:
    rows = x if isinstance(x, Mat3) else (x,)
    return [float(c) for row in rows for c in row]


def _neutral(model: Any) -> np.ndarray:
    import pinocchio as engine

    return np.array(engine.neutral(model))


def _is_mimic(joint: Any) -> bool:
    return bool(joint.shortname() == "JointModelMimic")


def _places(model: Any, i: int) -> Iterator[Place]:
    """The joint at an index, or the chain of joints that it is; the last one carries the body."""
    if _is_mimic(model.joints[i]):
        return
    found = list(_steps(str(model.names[i]), model.joints[i]))
    for k, (name, form, iq, iv) in enumerate(found, 1):
        row = i if k == len(found) else None
        yield Place(name, form, iq, iv, _body(model, i), row, placement=_placement(model, i))


def _steps(name: str, joint: Any) -> Iterator[tuple[str, str, int, int]]:
    """Name, form and place of the joints that a joint of Pinocchio is made of."""
    kind, iq, iv = joint.shortname().removeprefix("JointModel"), joint.idx_q, joint.idx_v
    if kind == "Composite":
        for k, part in enumerate(joint.extract().joints, 1):
            yield from _steps(f"{name}.{k}", part)
    elif kind in _CHAINS:
        for k, end in enumerate(_CHAINS[kind]):
            yield f"{name}.{end}", "one", iq + k, iv + k
    else:
        yield name, _WHOLE.get(kind, "pair" if joint.nq == 2 else "one"), iq, iv


def _body(model: Any, i: int) -> str:
    """The name of the first body frame that moves with a joint, at its origin."""
    import pinocchio as engine

    for frame in model.frames:
        joint = frame.parentJoint
        if joint == i and frame.type == engine.FrameType.BODY and frame.placement.isIdentity(1e-15):
            return str(frame.name)
    return str(model.names[i])


def _placement(model: Any, i: int) -> Transform:
    X = model.jointPlacements[i]
    rows = (Vec3(*(float(c) for c in row)) for row in X.rotation)
    return Transform(Mat3(*rows), Vec3(*(float(c) for c in X.translation)))
