"""What was meant, as changes of values in the user's file: nothing else of it is touched."""

from __future__ import annotations

import difflib

from qddot.errors import DescriptionError, NotUnderstood
from qddot.loaders.xml import parse_xml
from qddot.spatial import Inertia, Sym3, Vec3
from qddot.verify.audit.audit import Audit
from qddot.verify.audit.findings import Finding
from qddot.verify.audit.records import Inertial, JointRecord, RobotRecord
from qddot.writers.inertials import inertial_changes, links_of_file
from qddot.writers.patch import Change, patch_values

__all__ = ["changes_of", "diff_of", "fixed_text"]

_LOSSES = {
    "urdf": {"damping": "damping", "friction": "friction"},
    "mjcf": {"damping": "damping", "friction": "frictionloss", "armature": "armature"},
}


def changes_of(robot: RobotRecord, finding: Finding) -> list[Change]:
    """The values that a finding with one remedy changes; none where the file cannot be changed."""
    if robot.text is None or finding.meant is None:
        return []
    if isinstance(finding.meant, JointRecord):
        return _joint_changes(robot, finding.meant)
    written = robot.links[finding.subject].inertial
    element = links_of_file(parse_xml(robot.text.encode(), str(robot.file))).get(finding.subject)
    if written is None or element is None:
        return []
    try:
        return list(inertial_changes(element, _inertia(written), _inertia(finding.meant)))
    except DescriptionError:  # a form of <inertial> that cannot be kept
        return []


def _inertia(i: Inertial) -> Inertia:
    T = i.tensor
    tensor = Sym3(*(float(T[k]) for k in ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))))
    return Inertia.at_com(i.mass, Vec3(*map(float, i.com)), tensor)


def _joint_changes(robot: RobotRecord, meant: JointRecord) -> list[Change]:
    written = next(j for link in robot.links.values() for j in link.joints if j.name == meant.name)
    tag = "dynamics" if robot.format == "urdf" else ""
    return [
        Change("joint", meant.name, tag, attribute, f"{getattr(meant, quantity):.12g}")
        for quantity, attribute in _LOSSES[robot.format].items()
        if getattr(meant, quantity) != getattr(written, quantity)
    ]


def fixed_text(result: Audit) -> tuple[str, list[Finding]]:
    """The file with every finding undone that has one remedy, and those findings."""
    robot = result.robot
    if robot.text is None:
        accepted = "values can be changed in URDF and MJCF files; audit the file they come from"
        raise NotUnderstood("--fix", str(robot.file), accepted)
    undone = [(f, c) for f in result.findings if (c := changes_of(robot, f))]
    every = [change for _, changes in undone for change in changes]
    return patch_values(robot.text, every), [f for f, _ in undone]


def diff_of(before: str, after: str, name: str) -> str:
    """A unified diff between two texts of a file."""
    old, new = (text.splitlines(keepends=True) for text in (before, after))
    lines = difflib.unified_diff(old, new, name, f"{name} (fixed)")
    return "".join(x if x.endswith("\n") else f"{x}\n\\ No newline at end of file\n" for x in lines)
