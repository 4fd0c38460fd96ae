"""A description file as other engines take it: its format, and its text without shapes."""

from __future__ import annotations

import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from qddot.loaders.formats import detect_format, needs_expansion
from qddot.loaders.load import locate_source
from qddot.loaders.urdf import expand_xacro
from qddot.loaders.xml import parse_xml, read_file

__all__ = ["ComparisonSource", "open_comparison_source", "without_shapes"]

_EXTRAS = ("transmission", "gazebo", "ros2_control")


@dataclass(frozen=True)
class ComparisonSource:
    """A file that engines can open, its format (urdf, mjcf or sdf), and if it may read any file."""

    path: Path
    format: str
    trust: bool = False

    @property
    def roots(self) -> set[str]:
        """Links of a URDF or SDF file that no joint carries."""
        document = ET.fromstring(self.path.read_bytes().lstrip())
        joints = [j for j in document.iter("joint") if j.find("child") is not None]
        ends = (j.find("child") for j in joints)
        carried = {e.get("link") or (e.text or "").strip() for e in ends if e is not None}
        return {str(link.get("name")) for link in document.iter("link")} - carried


@contextmanager
def open_comparison_source(source: str | Path, trust: bool = False) -> Iterator[ComparisonSource]:
    """The file of a source; one that needs xacro is expanded into a file for the time being."""
    path = locate_source(source).resolve()
    root = parse_xml(read_file(path), str(path))
    form = detect_format(root).name
    if needs_expansion(path, root, trust):
        with tempfile.TemporaryDirectory() as folder:
            expanded = Path(folder) / f"{path.name.split('.')[0]}.urdf"
            expanded.write_bytes(expand_xacro(path, trust=trust))
            yield ComparisonSource(expanded, form, trust)
        return
    yield ComparisonSource(path, form, trust)


def without_shapes(path: Path, keep_solids: bool = False) -> str:
    """The text of a URDF without shapes, or without those that are meshes."""
    root = ET.fromstring(path.read_bytes().lstrip())
    for extra in [c for c in root if c.tag in _EXTRAS]:
        root.remove(extra)
    for link in root.iter("link"):
        for shape in [c for c in link if c.tag in ("visual", "collision")]:
            if not keep_solids or shape.tag == "visual" or shape.find(".//mesh") is not None:
                link.remove(shape)
    return ET.tostring(root, encoding="unicode")
