"""Checks of a model read back from its file, element by element."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import zip_longest

from qddot.model.model import WORLD, Body, Model
from qddot.spatial.algebra import Inertia
from qddot.writers.model_checks import (
    ModelCheck,
    check_largest,
    number_error,
    relative_error,
    relative_pose_error,
)
from qddot.writers.motion_checks import names_of_parts

__all__ = [
    "check_configurations",
    "check_couplings",
    "check_drivetrains",
    "check_gravity",
    "check_inertias",
    "check_joint_order",
    "check_limits",
    "check_loops",
]

_SMALL = 1e-4


def check_joint_order(expected: Model, loaded: Model) -> ModelCheck:
    """Names and order of the independent joints."""
    there = set(loaded.joint_names)
    wanted = [name for body in expected.independent for name in names_of_parts(body, there)]
    found = list(loaded.joint_names)
    wrong = sum(a != b for a, b in zip(wanted, found, strict=False))
    wrong += abs(len(wanted) - len(found))
    return ModelCheck(
        "joints",
        "same names in the same order",
        measured=wrong,
        bound=0,
        passed=wrong == 0,
        detail=f"wanted {wanted}, found {found}" if wrong else "",
    )


def check_inertias(expected: Model, loaded: Model) -> list[ModelCheck]:
    """Mass, first moment and inertia tensor of every body, each in the frame of the body."""
    # pairs of inertias by body: the one expected, and the one read back in the same frame
    frames = {f.name: f for f in loaded.frames}
    pairs: list[tuple[str, Inertia, Inertia | None]]
    pairs = [("what is fixed to the world", expected.base_inertia, loaded.base_inertia)]
    for body in expected.bodies:
        frame = frames.get(body.name)
        if frame is None or frame.body == WORLD:
            # a link between two joints without mass needs no body of its own
            pairs.append((body.name, body.inertia, None if any(body.inertia) else Inertia.zero()))
        else:
            host = loaded.bodies[frame.body].inertia
            pairs.append((body.name, body.inertia, host.to_parent(frame.placement.inverse())))
    # relative errors; a body that is missing has an infinite one
    mass, first_moment, tensor = [], [], []
    for name, a, b in pairs:
        lost = b is None
        b = b or a
        scale = max(abs(a.mass), _SMALL)
        mass.append((name, math.inf if lost else relative_error([a.mass], [b.mass], _SMALL)))
        first_moment.append((name, math.inf if lost else relative_error(a.h, b.h, scale)))
        tensor.append((name, math.inf if lost else relative_error(a.I, b.I, _SMALL)))
    return [
        *check_largest("mass", "mass of every body", mass),
        *check_largest("centre of mass", "mass times centre of mass, every body", first_moment),
        *check_largest("inertia", "tensor of every body about its origin", tensor),
    ]


def _bodies_of_same_joint(expected: Model, loaded: Model) -> Iterator[tuple[Body, Body]]:
    """Pairs of bodies on joints of the same name."""
    there = {b.joint.name: b for b in loaded.bodies}
    return ((b, there[b.joint.name]) for b in expected.bodies if b.joint.name in there)


def check_couplings(expected: Model, loaded: Model) -> list[ModelCheck]:
    """Leader and law of coupled joints, linear and polynomial."""
    errors = []
    for body, other_body in _bodies_of_same_joint(expected, loaded):
        a, b = body.joint, other_body.joint
        if a.leader or b.leader:
            law = max(number_error(a.ratio, b.ratio), number_error(a.offset, b.offset))
            errors.append((a.name, law if a.leader == b.leader else math.inf))
    there = {c.name: c for c in loaded.polynomial_couplings}
    for c in expected.polynomial_couplings:
        other = there.pop(c.name, None)
        if other is None or (other.follower, other.leader) != (c.follower, c.leader):
            errors.append((c.name, math.inf))
            continue
        terms = zip_longest(c.coefficients, other.coefficients, fillvalue=0.0)
        errors.append((c.name, max((number_error(*x) for x in terms), default=0.0)))
    errors += [(name, math.inf) for name in there]
    return check_largest("couplings", "leader and law of every follower", errors)


def check_limits(expected: Model, loaded: Model) -> list[ModelCheck]:
    """Limits of position, speed and effort, by joint."""
    errors = []
    for a, b in _bodies_of_same_joint(expected, loaded):
        for key in ("lower", "upper", "velocity", "effort"):
            error = number_error(getattr(a.joint.limits, key), getattr(b.joint.limits, key))
            errors.append((f"{key} of {a.joint.name}", error))
    return check_largest("limits", "position, speed and effort of every joint", errors)


def check_drivetrains(expected: Model, loaded: Model) -> list[ModelCheck]:
    """Reflected inertia, damping, friction and spring, by joint."""
    errors = []
    for a, b in _bodies_of_same_joint(expected, loaded):
        drive, other = a.joint.drivetrain, b.joint.drivetrain
        for key in ("reflected_inertia", "damping", "friction", "stiffness"):
            error = number_error(getattr(drive, key), getattr(other, key))
            errors.append((f"{key} of {a.joint.name}", error))
        if drive.stiffness:
            rest = max(map(number_error, a.joint.rest, b.joint.rest))
            errors.append((f"spring rest of {a.joint.name}", rest))
    return check_largest("drivetrain", "armature, damping, friction, spring of every joint", errors)


def check_gravity(expected: Model, loaded: Model) -> list[ModelCheck]:
    """The gravity vector."""
    components = zip(expected.gravity, loaded.gravity, strict=True)
    errors = [("gravity", number_error(a, b)) for a, b in components]
    return check_largest("gravity", "the same vector", errors)


def check_loops(expected: Model, loaded: Model) -> list[ModelCheck]:
    """Loop closures by name: their kind, and the poses of both ends on their bodies."""
    there = {x.name: x for x in loaded.loops}
    errors = []
    for loop in expected.loops:
        other = there.pop(loop.name, None)
        if other is None or other.kind != loop.kind:
            errors.append((loop.name, math.inf))
            continue
        for ours, theirs in ((loop.frame1, other.frame1), (loop.frame2, other.frame2)):
            a, b = expected.frame(ours), loaded.frame(theirs)
            errors.append((loop.name, relative_pose_error(a.placement, b.placement)))
    errors += [(name, math.inf) for name in there]
    return check_largest("loops", "kind and ends of every loop closure", errors)


def check_configurations(expected: Model, loaded: Model) -> list[ModelCheck]:
    """Coordinates of the named configurations."""
    errors = []
    for name, q in expected.configurations.items():
        other = loaded.configurations.get(name, ())
        same = len(other) == len(q)
        if name != "qpos0":
            largest = max(map(number_error, q, other), default=0.0)
            errors.append((name, largest if same else math.inf))
    return check_largest("configurations", "the named ones", errors)
