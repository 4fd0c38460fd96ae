"""Pinocchio: our conventions but for angles as (cosine, sine) and an order of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from qddot.engines.adapter import Adapter, make_adapter
from qddot.engines.layout import Layout, Place
from qddot.errors import JointsDiffer, WrongType
from qddot.model.model import Body
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Mat3, Transform, Vec3

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
        raise WrongType("model", model, "needs a pinocchio.Model")
    if not isinstance(robot, Robot):
        raise WrongType("robot", robot, "needs a Robot, as qddot.load gives")
    import pinocchio as engine

    bodies = {(names or {}).get(b.joint.name, b.joint.name): b for b in robot.model.bodies}
    places, followers = [], []
    for i in range(1, model.njoints):
        name, joint = str(model.names[i]), model.joints[i]
        if joint.shortname() == "JointModelMimic":
            followers.append(name)
            continue
        # its body: the first body frame that moves with it, at its origin
        body = name
        for frame in model.frames:
            own = frame.parentJoint == i and frame.type == engine.FrameType.BODY
            if own and frame.placement.isIdentity(1e-15):
                body = str(frame.name)
                break
        X = model.jointPlacements[i]
        R = Mat3(*(Vec3(*(float(c) for c in row)) for row in X.rotation))
        placement = Transform(R, Vec3(*(float(c) for c in X.translation)))
        # a joint may be a chain of joints here; the last one carries the body
        chain = list(_chain_joints(name, joint))
        for k, (part, form, iq, iv) in enumerate(chain, 1):
            place = Place(
                part,
                form,
                iq=iq,
                iv=iv,
                body=body,
                row=i if k == len(chain) else None,
                placement=placement,
            )
            zero = _zero_position(bodies.get(part), place)
            places.append(dataclasses.replace(place, zero=zero))
    layout = Layout(
        "Pinocchio",
        places=tuple(places),
        neutral=np.array(engine.neutral(model)),
        nv=model.nv,
        rows=model.njoints,
        followers=tuple(followers),
        local_forces=True,
        triangle=True,
    )
    return make_adapter(robot, layout, names, partial, check)


def _zero_position(body: Body | None, place: Place) -> float:
    """The coordinate at which a joint stands as placed.

    Pinocchio turns the frame of an MJCF joint by its reference position; the joint then has the q
    of the file, and its zero is there.
    """
    if body is None or body.joint.kind.nq != 1 or not body.joint.offset:
        return 0.0
    X = body.placement @ body.joint.kind.transform(body.joint, [body.joint.offset])
    Y = place.placement
    slides = X.R == body.placement.R
    ours, theirs = ([X.p], [Y.p]) if slides else (list(X.R), list(Y.R))
    a, b = (np.array([[float(c) for c in row] for row in rows]) for rows in (ours, theirs))
    return -float(body.joint.offset) if np.abs(a - b).max() < _ROUNDING else 0.0


def _chain_joints(name: str, joint: Any) -> Iterator[tuple[str, str, int, int]]:
    """Name, form and place of the joints that a joint of Pinocchio is made of."""
    kind, iq, iv = joint.shortname().removeprefix("JointModel"), joint.idx_q, joint.idx_v
    if kind == "Composite":
        for k, part in enumerate(joint.extract().joints, 1):
            yield from _chain_joints(f"{name}.{k}", part)
    elif kind in _CHAINS:
        for k, end in enumerate(_CHAINS[kind]):
            yield f"{name}.{end}", "one", iq + k, iv + k
    elif kind in _WHOLE or joint.nv == 1:
        yield name, _WHOLE.get(kind, "pair" if joint.nq == 2 else "one"), iq, iv
    else:
        known = ", ".join((*_WHOLE, *_CHAINS))
        reason = f"{name!r} is of type {kind}, not of one freedom and not one of {known}"
        raise JointsDiffer("Pinocchio", "", reason=reason)
