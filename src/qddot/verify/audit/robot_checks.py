"""Checks of a robot as a whole: placeholders, defaults, total mass, payload, drivetrains."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

from qddot.errors import count_text
from qddot.verify.audit.case import AuditCase
from qddot.verify.audit.findings import AuditFinding, Severity
from qddot.verify.audit.records import JointRecord, RobotRecord
from qddot.verify.audit.symmetry import mirrored_names

__all__ = [
    "check_drivetrains",
    "check_total_mass",
    "computed_inertias",
    "find_defaults",
    "find_missing_payload",
    "find_placeholders",
    "weigh_robot",
]

_ALIKE = 3
_SLUGGISH = {"revolute": 2.0, "continuous": 2.0, "prismatic": 0.5}
_SLOW = {"revolute": 0.1, "continuous": 0.1, "prismatic": 0.02}
# friction beyond the effort itself; damping and armature beyond what else can be meant
_SERIOUS = {"friction": 2.0, "damping": 6.0, "armature": 6.0}
_TOOLS = ("tool", "tcp", "ee", "eef", "end", "flange", "hand", "attachment", "grasp", "pinch")


def weigh_robot(robot: RobotRecord) -> float:
    """The mass of all links that have a finite one."""
    return sum(link.inertial.mass for link in robot.links_with_mass() if link.inertial)


def find_placeholders(case: AuditCase) -> Iterator[AuditFinding]:
    """The same mass and tensor on many links that are not alike."""
    groups: dict[tuple[float, ...], list[str]] = {}
    for link in case.robot.links_with_mass():
        i = link.inertial
        if i is not None and i.source != "shapes":
            groups.setdefault((i.mass, *i.written.flat), []).append(link.name)
    total = weigh_robot(case.robot)
    for values, names in groups.items():
        # one link of each kind: twins are of one kind, and links that look alike
        kinds: list[str] = []
        for name in names:
            twins = {t.name for t in case.twins.get(name, ())}
            looks = _appearance(case, name)
            if not any(k in twins or looks == _appearance(case, k) for k in kinds):
                kinds.append(name)
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
        yield AuditFinding(names[0], "placeholder", severity, message, strength, links=tuple(names))


def _appearance(case: AuditCase, name: str) -> tuple[object, ...]:
    """The shapes of a link; without them, the distances of its joints."""
    shapes = case.robot.links[name].shapes
    if shapes:
        return tuple((s.kind, s.size, s.address) for s in shapes)
    distances = np.linalg.norm(case.geometries[name].anchors, axis=1)
    return tuple(sorted(f"{x:.4f}" for x in distances))


def find_defaults(case: AuditCase) -> Iterator[AuditFinding]:
    """No inertia, or one that was never measured: zeros, ones, powers of ten."""
    total = weigh_robot(case.robot)
    static = _static_links(case.robot)
    for link in case.robot.links.values():
        name, i = link.name, link.inertial
        if i is not None and (not i.is_finite or i.mass < 0):
            continue
        severity: Severity
        if i is None or not i.has_mass:
            # MuJoCo weighs the shapes of a body that has no <inertial>, or cannot read them
            if name not in static and link.shapes and case.robot.format != "mjcf":
                words = "it moves and has shapes, but no mass"
                severity = "warning" if link.is_moving else "info"
                yield AuditFinding(name, "zero or default", severity, words, 4.0, links=(name,))
            continue
        if i.source == "shapes":
            continue
        # a point, or three equal moments that are a power of ten
        moments = np.diag(i.written)
        power = math.log10(moments[0]) if moments[0] > 0 else 0.5
        alike = np.all(moments == moments[0]) and not i.written[np.triu_indices(3, 1)].any()
        if not i.has_rotational_inertia:
            words = f"a mass of {i.mass:.4g} kg with no rotational inertia: a point"
        elif alike and abs(power - round(power)) < 1e-9:
            words = f"three equal moments of {moments[0]:g} kg m² on {i.mass:.4g} kg: a default"
        else:
            continue
        share = i.mass / total if total else 0.0
        severity = "warning" if name not in static and share > 0.002 else "info"
        strength = 5.0 + min(share, 1.0)
        yield AuditFinding(name, "zero or default", severity, words, strength, links=(name,))


def _static_links(robot: RobotRecord) -> set[str]:
    """Links that never move: the root, and links fixed to such a link."""
    static: set[str] = set()
    while True:
        more = {
            x.name
            for x in robot.links.values()
            if x.name not in static
            and not x.is_moving
            and (x.parent not in robot.links or x.parent in static)
        }
        if not more:
            return static
        static |= more


def find_missing_payload(robot: RobotRecord) -> Iterator[AuditFinding]:
    """A flange with a tool frame that carries nothing."""
    # the robot is one arm on a static base: a single moving link carries no other moving link
    moving = [x for x in robot.links.values() if x.is_moving]
    carriers: set[str] = set()
    for link in moving:
        above, steps = link.parent or "", 0
        while above in robot.links and steps < len(robot.links):
            if above != link.name:
                carriers.add(above)
            above, steps = robot.links[above].parent or "", steps + 1
    ends = [x for x in moving if x.name not in carriers]
    if len(ends) != 1 or len(moving) < 4 or not _static_links(robot):
        return
    # links and frames that are fixed to the last link
    last = ends[0]
    fixed = [x for x in robot.children(last.name) if not x.is_moving]
    for x in fixed:
        fixed += [y for y in robot.children(x.name) if not y.is_moving and y not in fixed]
    carried = [x for x in fixed if x.inertial is not None and x.inertial.has_mass]
    frames = [x.name for x in fixed] + list(robot.sites.get(last.name, ()))
    tools = []
    for name in frames:
        words = name.lower().replace("-", "_").replace("/", "_").split("_")
        if any(w.rstrip("0123456789") in _TOOLS for w in words):
            tools.append(name)
    if carried or not tools:
        return
    message = (
        f"the arm ends in {last.name!r} with the frame {tools[0]!r}, which carries no mass: if a "
        "tool or payload is mounted, it is missing"
    )
    yield AuditFinding(last.name, "missing payload", "info", message, 1.0, links=(last.name,))


def check_drivetrains(robot: RobotRecord) -> Iterator[AuditFinding]:
    """Friction, damping and armature beyond what the motor of a joint can move."""
    joints = [(x, j) for x in robot.links.values() for j in x.joints if j.kind in _SLOW]
    by_name = {j.name: j for _, j in joints}
    for quantity in ("friction", "damping", "armature"):
        for link, joint in joints:
            peers = [j for _, j in joints if (j.kind == "prismatic") == (joint.kind == "prismatic")]
            values = [x for j in peers if (x := getattr(j, quantity)) > 0]
            usual = median(values) if len(values) >= 4 else math.nan
            found = _judge_drivetrain(joint, quantity, usual)
            if not found:
                continue
            severity, words, strength = found
            # the joint on the other side, if the two values differ by a power of ten
            meant: JointRecord | None = None
            value = getattr(joint, quantity)
            for name in mirrored_names(joint.name):
                twin = by_name.get(name) if name != joint.name else None
                other = getattr(twin, quantity) if twin else 0.0
                power = math.log10(value / other) if other > 0 and value > 0 else 0.0
                if meant is None and abs(power) > 0.5 and abs(power - round(power)) < 1e-6:
                    changed: dict[str, Any] = {quantity: other}
                    meant = replace(joint, **changed)
                    words += f"; on the other side it is {other:.4g}"
            yield AuditFinding(
                subject=joint.name,
                hypothesis="drivetrain",
                severity=severity,
                message=words,
                strength=strength,
                meant=meant,
                links=(link.name,),
            )


def _judge_drivetrain(
    joint: JointRecord, quantity: str, usual: float
) -> tuple[Severity, str, float] | None:
    """Severity, words and strength where a value is beyond the effort of a joint or its peers."""
    value, effort = getattr(joint, quantity), joint.effort
    if not math.isfinite(value) or value < 0:
        return "error", f"its {quantity} is {value}", 12.0
    if value == 0:
        return None
    if math.isfinite(effort) and effort > 0:
        force, speed = ("N", "m/s") if joint.kind == "prismatic" else ("N m", "rad/s")
        reached = effort / value
        # the excess is above 1 where the joint could not work
        if quantity == "friction":
            excess = value / (0.5 * effort)
            words = f"its friction {value:.4g} {force} takes {value / effort:.0%} of the greatest"
            words += f" effort, {effort:.4g} {force}"
        elif quantity == "damping":
            least = _SLOW[joint.kind]
            if joint.velocity > 0:
                # greater limits of velocity are mostly stand-ins for none
                least = max(least, 0.1 * min(joint.velocity, 10.0) if joint.velocity < 1e3 else 0.0)
            excess = least / reached
            words = f"its damping {value:.4g} lets the greatest effort {effort:.4g} {force} reach"
            words += f" only {reached:.2g} {speed}"
        else:
            excess = _SLUGGISH[joint.kind] / reached
            words = f"its armature {value:.4g} lets the greatest effort {effort:.4g} {force} gain"
            words += f" only {reached:.2g} {speed} in a second"
        if excess > 1:
            severity: Severity = "error" if excess > _SERIOUS[quantity] else "warning"
            return severity, words, 4 + 2 * math.log(excess)
    if value > 100 * usual:
        words = f"its {quantity} {value:.4g} is {value / usual:.3g} times that of most joints here"
        return "warning", words, 2 + math.log(value / usual)
    return None


def check_total_mass(robot: RobotRecord, stated: float | None) -> Iterator[AuditFinding]:
    """The sum of the masses against the mass on the data sheet."""
    if stated is None:
        return
    total = weigh_robot(robot)
    if robot.unknown_mass:
        listed = ", ".join(map(repr, robot.unknown_mass[:3])) + (
            ", …" * (len(robot.unknown_mass) > 3)
        )
        message = f"{total:.4g} kg without {listed}: it cannot be held against {stated:.4g} kg"
        yield AuditFinding(robot.name, "total mass", "info", message, 1.0)
        return
    share = total / stated - 1
    if abs(share) <= 0.02:
        return
    severity: Severity = "error" if abs(share) > 0.1 else "warning"
    message = f"the links weigh {total:.4g} kg, {share:+.1%} of the stated {stated:.4g} kg"
    unweighed = [x.name for x in robot.links.values() if x.inertial is None and x.shapes]
    if unweighed:
        verb = "has" if len(unweighed) == 1 else "have"
        count = count_text(len(unweighed), "link with shapes", "links with shapes")
        message += f"; {count} {verb} no mass, such as {unweighed[0]!r}"
    strength = 6 + abs(math.log(max(total, 1e-9) / stated))
    yield AuditFinding(robot.name, "total mass", severity, message, strength)


def computed_inertias(robot: RobotRecord) -> Iterator[AuditFinding]:
    """Inertias that are not those of the file."""
    for name in robot.unknown_mass:
        message = "its mass is not known: it comes from shapes that cannot be read"
        yield AuditFinding(name, "inertia from shapes", "info", message, 0.7, links=(name,))
    for link in robot.links_with_mass():
        i = link.inertial
        if i is None or i.source == "file":
            continue
        message = f"MuJoCo computes its mass {i.mass:.4g} kg and its tensor from its geoms"
        if i.source == "compiler":
            message = f"the compiler's settings change its <inertial>: its mass is {i.mass:.4g} kg"
        kind = f"inertia from {i.source}"
        yield AuditFinding(link.name, kind, "info", message, 0.3, links=(link.name,))
