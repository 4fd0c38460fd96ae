"""What is wrong with a robot as a whole, or with links before their inertia is worth weighing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

from qddot.verify.audit.findings import Finding, Severity
from qddot.verify.audit.gathering import Case
from qddot.verify.audit.records import Inertial, JointRecord, LinkRecord, RobotRecord
from qddot.verify.audit.twins import mirrored_names

__all__ = ["defaults", "drivetrains", "payload", "placeholders", "total_mass", "total_of"]

_ALIKE = 3
_SLUGGISH = {"revolute": 2.0, "continuous": 2.0, "prismatic": 0.5}
_SLOW = {"revolute": 0.1, "continuous": 0.1, "prismatic": 0.02}
# friction beyond the effort itself; damping and armature beyond what else can be meant
_SERIOUS = {"friction": 2.0, "damping": 6.0, "armature": 6.0}
_TOOLS = ("tool", "tcp", "ee", "eef", "end", "flange", "hand", "attachment", "grasp", "pinch")


def total_of(robot: RobotRecord) -> float:
    """The mass of all links that have a finite one."""
    return sum(link.inertial.mass for link in robot.weighed() if link.inertial)


def placeholders(case: Case) -> Iterator[Finding]:
    """The same mass and tensor on many links that are not alike."""
    groups: dict[tuple[float, ...], list[str]] = {}
    for link in case.robot.weighed():
        i = link.inertial
        if i is not None:
            groups.setdefault((i.mass, *i.written.flat), []).append(link.name)
    total = total_of(case.robot)
    for values, names in groups.items():
        kinds = _kinds(case, names)
        if len(kinds) < _ALIKE:
            continue
        share = values[0] * len(names) / total
        severity: Severity = "error" if share > 0.3 else "warning" if share > 0.02 else "info"
        listed = ", ".join(map(repr, names[:4])) + (", …" if len(names) > 4 else "")
        moments = ", ".join(f"{values[k]:g}" for k in (1, 5, 9))
        message = (
            f"{len(names)} links that are not alike have the same mass {values[0]:g} kg and tensor "
            f"({moments}) kg m²: {listed}; they make up {share:.0%} of the robot's mass"
        )
        strength = 6 + math.log(len(names)) + 3 * share
        yield Finding(names[0], "placeholder", severity, message, strength, links=tuple(names))


def _kinds(case: Case, names: list[str]) -> list[str]:
    """One link of each kind: twins are of one kind, and links that look alike."""
    chosen: list[str] = []
    for name in names:
        alike = {t.name for t in case.twins.get(name, ())}
        mine = _looks(case, name)
        if not any(c in alike or mine == _looks(case, c) for c in chosen):
            chosen.append(name)
    return chosen


def _looks(case: Case, name: str) -> tuple[object, ...]:
    """The shapes of a link; without them, how far apart its joints are."""
    shapes = case.robot.links[name].shapes
    if shapes:
        return tuple((s.kind, s.size, s.address) for s in shapes)
    distances = np.linalg.norm(case.geometries[name].anchors, axis=1)
    return tuple(sorted(f"{x:.4f}" for x in distances))


def defaults(case: Case) -> Iterator[Finding]:
    """No inertia, or one that was never measured: zeros, ones, powers of ten."""
    total = total_of(case.robot)
    held = _held(case.robot)
    for link in case.robot.links.values():
        i = link.inertial
        moving = link.name not in held
        if i is not None and (not i.finite or i.mass < 0):
            continue
        if i is None or not i.weighed:
            # MuJoCo weighs the shapes of a body that has no <inertial>
            if moving and link.shapes and case.robot.format != "mjcf":
                words = "it moves and has shapes, but no mass"
                yield _default(link, "warning" if link.moving else "info", words, 4.0)
            continue
        share = i.mass / total if total else 0.0
        severity: Severity = "warning" if moving and share > 0.002 else "info"
        words = _never_measured(i)
        if words:
            yield _default(link, severity, words, 5.0 + min(share, 1.0))


def _default(link: LinkRecord, severity: Severity, words: str, strength: float) -> Finding:
    name = link.name
    return Finding(name, "zero or default", severity, words, strength, links=(name,))


def _never_measured(i: Inertial) -> str:
    """Why a tensor looks as if nobody had filled it in; empty where it does not."""
    moments = np.diag(i.written)
    products = i.written[np.triu_indices(3, 1)]
    if not i.extended:
        return f"a mass of {i.mass:.4g} kg with no rotational inertia: a point"
    power = math.log10(moments[0]) if moments[0] > 0 else 0.5
    alike = np.all(moments == moments[0]) and not products.any()
    if alike and abs(power - round(power)) < 1e-9:
        return f"three equal moments of {moments[0]:g} kg m² on {i.mass:.4g} kg: a default"
    return ""


def _held(robot: RobotRecord) -> set[str]:
    """Links that never move: the root, and what is fixed to such a link."""
    held: set[str] = set()
    while True:
        more = {
            x.name
            for x in robot.links.values()
            if x.name not in held
            and not x.moving
            and (x.parent not in robot.links or x.parent in held)
        }
        if not more:
            return held
        held |= more


def total_mass(robot: RobotRecord, stated: float | None) -> Iterator[Finding]:
    """The masses add up to what the data sheet says."""
    if stated is None:
        return
    total = total_of(robot)
    share = total / stated - 1
    if abs(share) <= 0.02:
        return
    severity: Severity = "error" if abs(share) > 0.1 else "warning"
    message = f"the links weigh {total:.4g} kg, {share:+.1%} of the stated {stated:.4g} kg"
    unweighed = [x.name for x in robot.links.values() if x.inertial is None and x.shapes]
    if unweighed:
        message += f"; {len(unweighed)} links with shapes have no mass, such as {unweighed[0]!r}"
    strength = 6 + abs(math.log(max(total, 1e-9) / stated))
    yield Finding(robot.name, "total mass", severity, message, strength)


def payload(robot: RobotRecord) -> Iterator[Finding]:
    """A flange with a tool frame that carries nothing."""
    held = _held(robot)
    carriers = [x for x in robot.links.values() if x.moving]
    ends = [x for x in carriers if not any(y.name != x.name for y in _below(robot, x, carriers))]
    if len(ends) != 1 or len(carriers) < 4 or not held:
        return
    last = ends[0]
    carried = [x for x in _fixed_to(robot, last) if x.inertial is not None and x.inertial.weighed]
    frames = [x.name for x in _fixed_to(robot, last)] + list(robot.sites.get(last.name, ()))
    tools = [name for name in frames if _is_tool(name)]
    if carried or not tools:
        return
    message = (
        f"the arm ends in {last.name!r} with the frame {tools[0]!r}, which carries no mass: if a "
        "tool or payload is mounted, it is missing"
    )
    yield Finding(last.name, "missing payload", "info", message, 1.0, links=(last.name,))


def _below(robot: RobotRecord, link: LinkRecord, among: list[LinkRecord]) -> Iterator[LinkRecord]:
    """Moving links whose chain of parents passes a link."""
    for other in among:
        above, steps = other.parent or "", 0
        while above in robot.links and steps < len(robot.links):
            if above == link.name:
                yield other
                break
            above, steps = robot.links[above].parent or "", steps + 1


def _fixed_to(robot: RobotRecord, link: LinkRecord) -> list[LinkRecord]:
    found = [x for x in robot.children(link.name) if not x.moving]
    for x in found:
        found += [y for y in robot.children(x.name) if not y.moving and y not in found]
    return found


def _is_tool(name: str) -> bool:
    words = name.lower().replace("-", "_").replace("/", "_").split("_")
    return any(w.rstrip("0123456789") in _TOOLS for w in words)


def drivetrains(robot: RobotRecord) -> Iterator[Finding]:
    """Friction, damping and armature that the motor of a joint could live with."""
    joints = [(x, j) for x in robot.links.values() for j in x.joints if j.kind in _SLOW]
    named = {j.name: j for _, j in joints}
    for quantity in ("friction", "damping", "armature"):
        for link, joint in joints:
            peers = [j for _, j in joints if (j.kind == "prismatic") == (joint.kind == "prismatic")]
            values = [x for j in peers if (x := getattr(j, quantity)) > 0]
            usual = median(values) if len(values) >= 4 else math.nan
            found = _drive(joint, quantity, getattr(joint, quantity), usual)
            if found:
                severity, words, strength = found
                meant = _as_twin(joint, quantity, named)
                if meant:
                    words += f"; on the other side it is {getattr(meant, quantity):.4g}"
                links = (link.name,)
                yield Finding(joint.name, "drivetrain", severity, words, strength, meant, links)


def _as_twin(
    joint: JointRecord, quantity: str, named: dict[str, JointRecord]
) -> JointRecord | None:
    """The joint with the value of its twin on the other side, if they differ by powers of ten."""
    value = getattr(joint, quantity)
    for name in mirrored_names(joint.name):
        other = getattr(named[name], quantity) if name in named and name != joint.name else 0.0
        if other > 0 and value > 0:
            power = math.log10(value / other)
            if abs(power) > 0.5 and abs(power - round(power)) < 1e-6:
                changed: dict[str, Any] = {quantity: other}
                return replace(joint, **changed)
    return None


def _drive(
    joint: JointRecord, quantity: str, value: float, usual: float
) -> tuple[Severity, str, float] | None:
    """How far a loss or inertia is beyond what the effort of the joint can move."""
    if not math.isfinite(value) or value < 0:
        return "error", f"its {quantity} is {value}", 12.0
    if value == 0:
        return None
    effort = joint.effort
    if math.isfinite(effort) and effort > 0:
        excess, words = _against_effort(joint, quantity, value, effort)
        if excess > 1:
            severity: Severity = "error" if excess > _SERIOUS[quantity] else "warning"
            return severity, words, 4 + 2 * math.log(excess)
    if value > 100 * usual:
        words = f"its {quantity} {value:.4g} is {value / usual:.3g} times that of most joints here"
        return "warning", words, 2 + math.log(value / usual)
    return None


def _against_effort(
    joint: JointRecord, quantity: str, value: float, effort: float
) -> tuple[float, str]:
    """A figure above 1 where the joint could not work, and why in words."""
    linear = joint.kind == "prismatic"
    force, speed = ("N", "m/s") if linear else ("N m", "rad/s")
    if quantity == "friction":
        words = (
            f"its friction {value:.4g} {force} takes {value / effort:.0%} of its greatest effort"
        )
        return value / (0.5 * effort), f"{words}, {effort:.4g} {force}"
    if quantity == "damping":
        least = _SLOW[joint.kind]
        if joint.velocity > 0:
            # greater limits of velocity are mostly stand-ins for none
            least = max(least, 0.1 * min(joint.velocity, 10.0) if joint.velocity < 1e3 else 0.0)
        reached = effort / value
        words = f"its damping {value:.4g} lets the greatest effort {effort:.4g} {force} reach"
        return least / reached, f"{words} only {reached:.2g} {speed}"
    gained = effort / value
    words = f"its armature {value:.4g} lets the greatest effort {effort:.4g} {force} gain"
    return _SLUGGISH[joint.kind] / gained, f"{words} only {gained:.2g} {speed} in a second"
