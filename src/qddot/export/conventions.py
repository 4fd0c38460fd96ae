"""The conventions of the library and the coordinates of a model in words, for exported code."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from qddot.algorithms.catalogue import Argument
from qddot.errors import Unsupported
from qddot.model.model import WORLD, Body, Model

__all__ = ["argument_text", "convention_lines", "joint_lines", "option_lines"]

_RATES = "m/s, rad/s"
_EFFORTS = "N at a prismatic coordinate, N m at an angular one"
_ACCELERATIONS = "m/s², rad/s²"
_MEANINGS = {
    "q:nq": "configuration, joint by joint as above; m, rad",
    "q0:nq": "configuration to start from",
    "q1:nq": "configuration to end at",
    "v:nv": f"velocity; {_RATES}",
    "a:nv": f"acceleration; {_ACCELERATIONS}",
    "tau:nv": f"joint torques; {_EFFORTS}",
    "a_out:nv": f"acceleration of all joints; {_ACCELERATIONS}",
    "tau_out:nv": f"torques of all joints; {_EFFORTS}",
    "g:nv": f"joint torques; {_EFFORTS}",
    "h:nv": f"joint torques; {_EFFORTS}",
    "f_ext:nw,6": "one wrench on the robot a row, [f; n]; N, N m",
    "dv:nv": "step in the tangent space; m, rad",
    "t:": "fraction of the way, 0 to 1",
    "M:nv,nv": "mass matrix; kg, kg m, kg m²",
    "dM:nv,nv": "rate of the mass matrix; SI units a second",
    "Minv:nv,nv": "inverse mass matrix; SI units",
    "C:nv,nv": "Coriolis matrix; SI units",
    "T:": "energy; J",
    "V:": "energy; J",
    "X:nb,4,4": "a homogeneous matrix a body, body to world; m",
    "X:nf,4,4": "a homogeneous matrix a frame, frame to world; m",
    "X:4,4": "homogeneous matrix, frame to world; m",
    "V:6": f"twist [v; ω]; {_RATES}",
    "V:nb,6": f"a twist [v; ω] a body; {_RATES}",
    "A:6": f"[linear; angular]; {_ACCELERATIONS}",
    "A:nb,6": f"[linear; angular] a body; {_ACCELERATIONS}",
    "J:6,nv": "Jacobian, linear rows first",
    "dJ:6,nv": "rate of the Jacobian, linear rows first",
    "c:3": "point in the world; m",
    "J:3,nv": "Jacobian of a point in the world",
    "A:6,nv": "[linear; angular] momentum by velocity",
    "dA:6,nv": "rate of momentum by velocity",
    "phi:nc": "how far each constraint row is open; m, rad",
    "J:nc,nv": "Jacobian, a row a constraint row",
    "dJ:nc,nv": "rate of the Jacobian, a row a constraint row",
    "b:nc": f"acceleration of each constraint row; {_ACCELERATIONS}",
    "lam:nc": "multiplier of each constraint row, the force on its second frame; N, N m",
    "restitution:nc": "share of the speed of each constraint row that comes back, 0 to 1",
    "v1:nv": f"velocity after the impact; {_RATES}",
    "impulse:nc": "impulse of each constraint row on its second frame; N s, N m s",
    "h:6": "momentum [linear; angular]; N s, N m s",
    "dh:6": "[force; moment]; N, N m",
    "I:6,6": "inertia by twist [v; ω]; kg, kg m²",
    "J:nt,nv": "Jacobian, a row an axis",
    "volume:": "product of the singular values of the Jacobian",
    "W:nt,nt": "acceleration by force, a row an axis; 1/kg, 1/(kg m²)",
    "Lambda:nt,nt": "force by acceleration, a row an axis; kg, kg m²",
    "Jbar:nv,nt": "acceleration of the joints by that of the task",
    "mu:nt": "Coriolis and centrifugal force, an axis an entry; N, N m",
    "p:nt": "weight, an axis an entry; N, N m",
    "clock:2": "time from sample to sample, and time; s",
    "q_ref:nq": "configuration to follow; m, rad",
    "v_ref:nv": f"velocity to follow; {_RATES}",
    "a_ref:nv": f"acceleration to follow; {_ACCELERATIONS}",
    "X_ref:4,4": "homogeneous matrix to follow, frame to world; m",
    "V_ref:6": f"twist to follow [v; ω], axes of the world; {_RATES}",
    "A_ref:6": f"its rate; {_ACCELERATIONS}",
    "F_ref:6": "wrench on the robot to reach [f; n], axes of the world; N, N m",
}
_JOINTS = {
    "helical": "helical joint: q is the angle, the body advances by pitch * angle",
    "planar": "planar joint: q = (x, y, angle) in its plane, v = (vx, vy, omega) in body axes",
    "ball": "ball joint: q = unit quaternion (x, y, z, w), v = angular velocity in body axes",
    "free": "free joint: q = position, then unit quaternion (x, y, z, w);"
    " v = [v; omega] of the body in body axes",
}
_REFERENCES = {
    "local": "axes and origin of the frame",
    "world": "axes and origin of the world",
    "local_world_aligned": "axes of the world, origin of the frame",
}


def argument_text(argument: Argument) -> str:
    """Shape and meaning of an argument of a catalogue function, with units."""
    key = f"{argument.name}:{','.join(argument.shape)}"
    shape = f"({', '.join(argument.shape) or '1'})"
    derivative = re.fullmatch(r"d([^_]+)_d([^_]+)", argument.name)
    other = f"∂{derivative[1]}/∂{derivative[2]}; SI units" if derivative else "SI units"
    if argument.name.startswith("wrench_"):
        other = "measured wrench on the robot [f; n], axes of the world; N, N m"
    return f"{shape} {_MEANINGS.get(key, other)}"


def option_lines(options: Mapping[str, object]) -> list[str]:
    """The choices that the options of a function make, a line each."""
    lines = []
    for name, value in options.items():
        if name == "reference":
            lines.append(f"reference: {value}, {_REFERENCES[str(value)]}")
        elif name == "forces" and isinstance(value, tuple):
            rows = enumerate(value)
            lines += [
                f"f_ext row {i}: at frame {f}, in {r} ({_REFERENCES[r]})" for i, (f, r) in rows
            ]
        elif name == "constraints" and isinstance(value, tuple):
            listed = ", ".join(row for c in value for row in c.row_names)
            lines.append(f"constraint rows, in order: {listed}")
        elif name == "stabilisation":
            lines.append(f"what is open closes at the rate of {value:g} 1/s (Baumgarte)")
        elif name == "prescribed" and isinstance(value, tuple):
            joints = ", ".join(value)
            lines.append(f"prescribed: a is given at {joints}; tau at the other joints")
        elif name == "actuated" and isinstance(value, tuple):
            lines.append(f"motors: {', '.join(value)}; tau is zero at all other joints")
        elif name == "axes" and isinstance(value, tuple):
            lines.append(f"axes of the task, in order: {', '.join(value)}")
        elif name == "friction":
            lines.append("damping, Coulomb friction and springs of the joints included")
        else:
            lines.append(f"{name}: {value}")
    return lines


def convention_lines(model: Model) -> list[str]:
    """Units and conventions that hold for all numbers of a model."""
    g = ", ".join(f"{x:g}" for x in model.gravity)
    # a joint that turns or slides about its one axis needs no words
    kinds = {b.joint.kind.name: b.joint.kind for b in model.independent}
    described = [name for name, kind in kinds.items() if not (kind.turns or kind.slides)]
    for name in described:
        if name not in _JOINTS:
            accepted = f"coordinates of {', '.join(_JOINTS)} joints are described"
            raise Unsupported("kind of joint", name, accepted)
    lines = [
        f"units: SI, radians, kg; gravity ({g}) m/s² in world axes",
        "twist, wrench: linear part first, [v; ω], [f; n]",
        "mass matrix: full and symmetric, reflected (armature) inertia included",
        "damping, friction, springs: their own function, in no other unless it says so",
        "derivatives, rates: with respect to the tangent space, nv columns",
        "inertial parameters of a body: m, m c, Ixx, Ixy, Iyy, Ixz, Iyz, Izz; I about its origin",
        *(_JOINTS[name] for name in described),
    ]
    if model.loops:
        names = ", ".join(loop.name for loop in model.loops)
        lines.append(f"loop closures are left open but by functions with constraints: {names}")
    return lines


def joint_lines(model: Model) -> list[str]:
    """A table of the joints in the order of q and v, then those that follow another."""
    rows: list[tuple[str, ...]] = [("q", "v", "joint", "kind", "body", "parent", "range")]
    rows += [_joint_row(model, b) for b in model.bodies if b.joint.leader is None]
    rows += [_joint_row(model, b) for b in model.bodies if b.joint.leader is not None]
    # columns as wide as their widest entry
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(x.ljust(n) for x, n in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _joint_row(model: Model, body: Body) -> tuple[str, ...]:
    joint, limits = body.joint, body.joint.limits
    parent = "world" if body.parent == WORLD else model.bodies[body.parent].name
    bounded = math.isfinite(limits.lower) or math.isfinite(limits.upper)
    extent = f"{limits.lower:g} to {limits.upper:g}" if bounded else ""
    if joint.leader is not None:
        extent = f"= {joint.ratio:g} * {joint.leader} {joint.offset:+g}"
    # first and last coordinate and velocity; a follower has none of its own
    places = []
    for s in (body.iq, body.iv):
        span = f"{s.start}-{s.stop - 1}" if s.stop > s.start + 1 else f"{s.start}"
        places.append("" if joint.leader is not None or s.stop == s.start else span)
    return (*places, joint.name, joint.kind.name, body.name, parent, extent)
