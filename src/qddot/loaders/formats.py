"""The table of description formats, and the one detector of the format of a file.

The root element of a file decides on the format that it is read in. Its suffix decides whether a
name is meant as a file, whether a URDF is expanded as xacro, and the format that is written. Each
row is read, audited and compared; `written` and `patched` say what else can be done with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from qddot.errors import InvalidArgument
from qddot.loaders.xml import Element

__all__ = [
    "FORMATS",
    "SUFFIXES",
    "FileFormat",
    "FormatName",
    "detect_format",
    "format_to_write",
    "is_description",
    "needs_expansion",
    "uses_xacro",
]

FormatName = Literal["urdf", "mjcf", "sdf"]


@dataclass(frozen=True)
class FileFormat:
    """A row of the table of formats.

    `root` is the root element of a whole document, `fragment` that of one which others include.
    `suffixes` are those of files that may have the format, `own_suffixes` those of no other one,
    `written` those that `convert` writes; `patched` says whether parameters are written into it.
    `drivetrain` has the attribute for each field of a joint's drivetrain that can be patched, of
    the element `drivetrain_tag` below the joint, or of the joint itself. `reference` is a regular
    expression of the addresses of other files, `reference_folder` of the folders that they are in.
    """

    name: FormatName
    title: str
    root: str
    suffixes: tuple[str, ...]
    own_suffixes: tuple[str, ...]
    written: tuple[str, ...] = ()
    patched: bool = False
    fragment: str = ""
    drivetrain: Mapping[str, str] = field(default_factory=dict)
    drivetrain_tag: str = ""
    reference: str = ""
    reference_folder: str = ""

    @property
    def roots(self) -> tuple[str, ...]:
        """Root elements of its documents and of their parts."""
        return (self.root, self.fragment) if self.fragment else (self.root,)


_URDF = FileFormat(
    "urdf",
    title="URDF",
    root="robot",
    suffixes=(".urdf", ".xacro"),
    own_suffixes=(".urdf",),
    written=(".urdf",),
    patched=True,
    drivetrain={"damping": "damping", "friction": "friction"},
    drivetrain_tag="dynamics",
    reference=r"""filename\s*=\s*["']([^"']+)["']""",
)
_MJCF = FileFormat(
    "mjcf",
    title="MJCF",
    root="mujoco",
    suffixes=(".xml", ".mjcf"),
    own_suffixes=(".mjcf",),
    written=(".xml", ".mjcf"),
    patched=True,
    fragment="mujocoinclude",
    drivetrain={
        "damping": "damping",
        "friction": "frictionloss",
        "reflected_inertia": "armature",
        "stiffness": "stiffness",
    },
    reference=r"""file\s*=\s*["']([^"']+)["']""",
    reference_folder=r"""(?:meshdir|assetdir)\s*=\s*["']([^"']+)["']""",
)
_SDF = FileFormat(
    "sdf",
    title="SDF",
    root="sdf",
    suffixes=(".sdf", ".world"),
    own_suffixes=(".sdf",),
    reference=r"<uri>\s*([^<\s]+)\s*</uri>",
)
FORMATS: dict[FormatName, FileFormat] = {row.name: row for row in (_URDF, _MJCF, _SDF)}
SUFFIXES = frozenset(suffix for row in FORMATS.values() for suffix in row.suffixes)
"""Suffixes of all description files."""


def detect_format(root: Element) -> FileFormat:
    """The format of a document by its root element, which must be one of the table."""
    for row in FORMATS.values():
        if root.tag in row.roots:
            return row
    *first, last = (f"{row.title} (<{row.root}>)" for row in FORMATS.values())
    raise root.error(f"is neither {', '.join(first)} nor {last}")


def format_to_write(file: Path) -> FileFormat:
    """The format that the suffix of a file stands for when the file is written."""
    for row in FORMATS.values():
        if file.suffix.lower() in row.written:
            return row
    ends = (f"{' or '.join(x.written)} for {x.title}" for x in FORMATS.values() if x.written)
    accepted = f"its end says the format: {', '.join(ends)}"
    raise InvalidArgument("target", file.name, accepted)


def is_description(file: Path) -> bool:
    """Whether a file in a folder is a description: by its suffix, an .xml by how it begins."""
    if any(file.suffix in row.own_suffixes for row in FORMATS.values()):
        return True
    if file.suffix != ".xml":
        return False
    with file.open("rb") as content:
        beginning = content.read(4096)
    roots = [row.root for row in FORMATS.values() if file.suffix in row.suffixes]
    return any(f"<{root}".encode() in beginning for root in roots)


def needs_expansion(path: Path, root: Element, trust: bool = False) -> bool:
    """Whether a file is xacro: by its name, or with `trust` by its elements, else refused."""
    if root.tag != _URDF.root:
        return False
    if path.suffix == ".xacro":
        return True
    found = _first_of_xacro(root)
    if found is not None and not trust:
        raise found.error(
            "is xacro, which is expanded only in files that are called so: rename it to "
            f"{path.name}.xacro, or load it with trust=True (--trust)"
        )
    return found is not None


def uses_xacro(element: Element) -> bool:
    """Whether there are elements of xacro below this one."""
    return _first_of_xacro(element) is not None


def _first_of_xacro(element: Element) -> Element | None:
    """The first element of xacro below this one, in the order of the document."""
    for child in element.children:
        found = child if child.tag.startswith("xacro:") else _first_of_xacro(child)
        if found is not None:
            return found
    return None
