"""Flexible joints: a spring between each motor and its link, by another tree of joints."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qddot.display.text import Readable
from qddot.errors import InvalidArgument, InvalidModel, UnknownName, Unsupported
from qddot.model.edit import link_drafts, rebuild
from qddot.model.joints import Drivetrain, Joint, Limits
from qddot.model.links import Link
from qddot.model.model import Model
from qddot.spatial.algebra import Inertia, Transform

__all__ = ["SpongMap", "spong_map", "with_flexible_joints"]

PerJoint = float | Mapping[str, float] | None

_MOTOR, _SPRING = ".motor", ".spring"


def with_flexible_joints(
    model: Model,
    stiffness: float | Mapping[str, float],
    damping: float | Mapping[str, float] = 0.0,
    motor_inertia: PerJoint = None,
) -> Model:
    """The same robot with springs between its motors and its links.

    Spong 1987: M(q) q̈ + C q̇ + g = k (θ − q) + c (θ̇ − q̇) and B θ̈ + k (θ − q) + c (θ̇ − q̇) = τ.
    `stiffness` is one for every joint of one freedom, or {joint: stiffness}. Joint `j` of link `l`
    becomes `j.motor` (angle θ, with rotor, friction, limits and torque of `j`), a body without mass
    `l/j.motor`, and `j.spring` (angle q − θ). `motor_inertia`, B, is reflected to the joint;
    without it B is the armature that the model has.
    """
    element, remedy = f"model {model.name!r}", "flexible joints need an open tree of free joints"
    if model.loops:
        raise InvalidModel(element, f"has loop closures; {remedy}")
    if model.has_couplings or model.polynomial_couplings:
        raise InvalidModel(element, f"has coupled joints; {remedy}: load with couplings='free'")
    # the bodies whose joints get a spring: those named, or all of one freedom
    single = [b.joint.name for b in model.bodies if b.joint.kind.nv == 1]
    wanted = stiffness if isinstance(stiffness, Mapping) else single
    if not wanted:
        raise Unsupported("stiffness", stiffness, "there is no joint of one freedom to have it")
    for name in wanted:
        joint = model.body_of_joint(name).joint
        if joint.kind.nv != 1:
            reason = f"is a {joint.kind.name} joint; only joints of one freedom can be flexible"
            raise InvalidModel(f"joint {name!r}", reason)
    elastic = [b for b in model.bodies if b.joint.name in wanted]
    names = [b.joint.name for b in elastic]
    k, c, B = (
        _parse_per_joint(what, given, names)
        for what, given in (
            ("stiffness", stiffness),
            ("damping", damping),
            ("motor_inertia", motor_inertia),
        )
    )
    # replace each elastic joint by motor, massless body and spring
    links = []
    for link in link_drafts(model)[0]:
        j = link.joint.name
        if j in names:
            # the joint on the side of its motor, with its rotor
            inertia = B.get(j)
            drive, element = link.joint.drivetrain, f"joint {link.joint.name!r}"
            if drive.stiffness != 0:
                raise InvalidModel(
                    element, "has a spring to its parent, which is neither motor nor link"
                )
            if inertia is not None:
                drive = dataclasses.replace(drive, armature=inertia, rotor_inertia=0.0)
            if drive.reflected_inertia == 0:
                raise InvalidModel(
                    element, "has no rotor: give motor_inertia, reflected to the joint"
                )
            motor = dataclasses.replace(link.joint, name=link.joint.name + _MOTOR, drivetrain=drive)
            links += _split_link(link, motor, Drivetrain(stiffness=k[j], damping=c.get(j, 0.0)))
        else:
            links.append(link)
    made = rebuild(model, links)
    # named configurations with relaxed springs
    P = spong_map(made).configuration
    at_rest = {
        name: tuple((P @ [*q, *(q[b.iq.start] for b in elastic)]).tolist())
        for name, q in model.configurations.items()
    }
    return dataclasses.replace(made, configurations=at_rest)


@dataclass(frozen=True, repr=False)
class SpongMap(Readable):
    """Links and motors (q; θ) as coordinates of a flexible robot: x = T (q; θ), and back by T⁻¹.

    q has the coordinates of the rigid robot, then come the motors θ of `joints`. `configuration`
    maps configurations; `velocity` maps velocities and accelerations; its transpose maps torques
    the other way: Tᵀ τ is what acts on the links, then on the motors.
    """

    configuration: np.ndarray
    velocity: np.ndarray
    joints: tuple[str, ...]


def spong_map(model: Model) -> SpongMap:
    """From the coordinates of links and motors to those of a robot with flexible joints."""
    names = {b.joint.name for b in model.independent}
    bare = (b.joint.name.removesuffix(_SPRING) for b in model.independent)
    joints = tuple(j for j in bare if {j + _MOTOR, j + _SPRING} <= names)
    slices = [(b.joint.name, b.iq) for b in model.independent]
    rates = [(b.joint.name, b.iv) for b in model.independent]
    return SpongMap(_from_links(slices, joints), _from_links(rates, joints), joints)


def _from_links(places: Sequence[tuple[str, slice]], joints: Sequence[str]) -> np.ndarray:
    """x = T (q; θ): a motor has its own angle, its spring what the link turns further."""
    size = places[-1][1].stop if places else 0
    T, column = np.zeros((size, size)), 0
    first = size - len(joints)
    motors = {j + _MOTOR: first + k for k, j in enumerate(joints)}
    springs = {j + _SPRING: first + k for k, j in enumerate(joints)}
    for name, at in places:
        if name in motors:
            T[at.start, motors[name]] = 1.0
            continue
        width = at.stop - at.start
        T[at, column : column + width] = np.eye(width)
        column += width
        if name in springs:
            T[at.start, springs[name]] = -1.0
    return T


def _parse_per_joint(what: str, given: PerJoint, names: Sequence[str]) -> dict[str, float]:
    """A finite number for each joint that has one."""
    if given is None and what == "motor_inertia":
        return {}
    spread = given if isinstance(given, Mapping) else dict.fromkeys(names, given)
    numbers: dict[str, Any] = dict(spread)
    for name, x in numbers.items():
        if name not in names:
            raise UnknownName("flexible joint", name, names)
        number = isinstance(x, float | int | np.number) and not isinstance(x, bool)
        if not (number and 0.0 <= x < math.inf and (x > 0.0 or what == "damping")):
            least = "0 or more" if what == "damping" else "more than 0"
            raise InvalidArgument(f"{what} of joint {name!r}", x, f"it is a number, {least}")
    return {name: float(x) for name, x in numbers.items()}


def _split_link(link: Link, motor: Joint, spring: Drivetrain) -> list[Link]:
    """A body without mass on the motor, and the link on a spring after it."""
    between = f"{link.name}/{motor.name}"
    elastic = dataclasses.replace(
        link.joint,
        name=link.joint.name + _SPRING,
        offset=0.0,
        limits=Limits(),
        drivetrain=spring,
    )
    return [
        Link(between, link.parent, link.placement, motor, Inertia.zero()),
        Link(link.name, between, Transform.identity(), elastic, link.inertia),
    ]
