"""Corrections as changes of values in the user's file: nothing else of it is touched."""

from __future__ import annotations

import difflib
from dataclasses import replace

from qddot.errors import DescriptionError, InvalidArgument
from qddot.loaders.formats import FORMATS
from qddot.loaders.xml import parse_xml
from qddot.spatial.algebra import Inertia, Sym3, Vec3
from qddot.verify.audit.audit import Audit
from qddot.verify.audit.findings import AuditFinding
from qddot.verify.audit.records import Inertial, JointRecord, RobotRecord
from qddot.writers.inertials import inertial_changes, links_of_file
from qddot.writers.patch import Change, patch_values

__all__ = ["changes_of", "diff_of", "fixed_text"]

_DRIVETRAIN_FIELDS = {
    "damping": "damping",
    "friction": "friction",
    "armature": "reflected_inertia",
}
"""The field of a drivetrain for each quantity of a joint record."""


def changes_of(robot: RobotRecord, finding: AuditFinding) -> list[Change]:
    """The values that a finding with one remedy changes; none where the file cannot be changed."""
    meant = finding.meant
    if robot.text is None or meant is None:
        return []
    # a joint: friction, damping and armature that differ
    if isinstance(meant, JointRecord):
        joints = (j for link in robot.links.values() for j in link.joints)
        before = next(j for j in joints if j.name == meant.name)
        form = FORMATS[robot.format]
        tag, attributes = form.drivetrain_tag, form.drivetrain
        return [
            Change("joint", meant.name, tag, attributes[name], f"{getattr(meant, quantity):.12g}")
            for quantity, name in _DRIVETRAIN_FIELDS.items()
            if name in attributes and getattr(meant, quantity) != getattr(before, quantity)
        ]
    # a link: the values of its <inertial>
    written = robot.links[finding.subject].inertial
    element = links_of_file(parse_xml(robot.text.encode(), str(robot.file))).get(finding.subject)
    if written is None or element is None:
        return []
    if meant.mass != written.mass:
        # a factor of ten leaves rounding behind the fifteenth digit
        meant = replace(meant, mass=float(f"{meant.mass:.15g}"))
    try:
        return list(inertial_changes(element, _spatial_inertia(written), _spatial_inertia(meant)))
    except DescriptionError:  # a form of <inertial> that cannot be kept
        return []


def _spatial_inertia(i: Inertial) -> Inertia:
    T = i.tensor
    tensor = Sym3(*(float(T[k]) for k in ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))))
    return Inertia.at_com(i.mass, Vec3(*map(float, i.com)), tensor)


def fixed_text(result: Audit) -> tuple[str, list[AuditFinding]]:
    """The file with every finding undone that has one remedy, and those findings."""
    robot = result.robot
    if robot.text is None:
        accepted = "values can be changed in URDF and MJCF files; audit the file they come from"
        raise InvalidArgument("--fix", str(robot.file), accepted)
    undone = [(f, c) for f in result.findings if (c := changes_of(robot, f))]
    every = [change for _, changes in undone for change in changes]
    return patch_values(robot.text, every), [f for f, _ in undone]


def diff_of(before: str, after: str, name: str) -> str:
    """A unified diff between two texts of a file."""
    old, new = (text.splitlines(keepends=True) for text in (before, after))
    lines = difflib.unified_diff(old, new, name, f"{name} (fixed)")
    return "".join(x if x.endswith("\n") else f"{x}\n\\ No newline at end of file\n" for x in lines)
