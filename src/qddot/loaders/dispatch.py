"""Which loader reads a source: by type, by address, by the root element of a file, or by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qddot.errors import DescriptionError, NotUnderstood
from qddot.loaders.description import Base, Couplings, Description, to_model
from qddot.loaders.find import resolve_uri
from qddot.loaders.named import locate, robot_names
from qddot.loaders.urdf import describe_urdf, expand_xacro
from qddot.loaders.xml import Element, parse_xml, read_file
from qddot.model import Model

__all__ = ["describe", "load_model", "locate_source", "read_root", "uses_xacro"]

_SUFFIXES = {".urdf", ".xacro", ".xml", ".mjcf", ".sdf", ".world"}


def load_model(
    source: Any,
    base: Base = None,
    couplings: Couplings = "exact",
    strict: bool = False,
) -> Model:
    """The model of a file, of a robot by name, or of another library's model."""
    return to_model(describe(source), base, couplings, strict)


def describe(source: Any) -> Description:
    """The description in a file, of a robot by name, or of another library's model."""
    if isinstance(source, str | Path):
        return _describe_file(locate_source(source))
    library = type(source).__module__.split(".")[0]
    kind = f"{library}.{type(source).__name__}"
    if kind == "mujoco.MjModel":
        from qddot.loaders.mjcf import describe_mjmodel

        return describe_mjmodel(source)
    if kind == "mujoco.MjSpec":
        from qddot.loaders.mjcf import describe_mjspec

        return describe_mjspec(source)
    if library.startswith("pinocchio") and type(source).__name__ == "Model":
        from qddot.loaders.pinocchio import describe_pinocchio

        return describe_pinocchio(source)
    if library == "pydrake" and type(source).__name__.startswith("MultibodyPlant"):
        from qddot.loaders.drake import describe_drake

        return describe_drake(source)
    accepted = "a file, a name, an MjModel or MjSpec, a pinocchio.Model or a plant is accepted"
    raise NotUnderstood("source", source, accepted)


def locate_source(source: str | Path) -> Path:
    """The file that a path, an address or a name stands for."""
    text = str(source)
    if text.lstrip().startswith("<"):
        raise NotUnderstood("source", text[:40], "is XML text; save it to a file and load that")
    address = isinstance(source, str) and "://" in text
    try:
        path = resolve_uri(text, Path.cwd()) if address else Path(text).expanduser()
        if path.is_file():
            return path
        there, folder = path.exists(), path.is_dir()
    except (OSError, RuntimeError, ValueError) as error:
        raise DescriptionError(text[:200], f"cannot be read: {error}") from error
    unnamed = address or path.suffix in _SUFFIXES or len(path.parts) > 1
    if (there or unnamed) and text not in robot_names():
        reason = "is a folder" if folder else "is not a file" if there else "no such file"
        raise DescriptionError(path, reason)
    return locate(text)


def read_root(path: Path) -> Element:
    """The root element of a description file; of xacro, that of the URDF it expands to."""
    root = parse_xml(read_file(path), str(path))
    if root.tag == "robot" and (path.suffix == ".xacro" or uses_xacro(root)):
        # lines are those of the expanded text
        return parse_xml(expand_xacro(path), f"{path} (expanded)")
    return root


def uses_xacro(element: Element) -> bool:
    """Whether there are elements of xacro below this one."""
    return any(child.tag.startswith("xacro:") or uses_xacro(child) for child in element.children)


def _describe_file(path: Path) -> Description:
    root = read_root(path)
    if root.tag == "robot":
        return describe_urdf(root, root.file)
    if root.tag in ("mujoco", "mujocoinclude"):
        from qddot.loaders.mjcf import describe_mjcf

        return describe_mjcf(path, root)
    if root.tag == "sdf":
        from qddot.loaders.sdf import describe_sdf

        return describe_sdf(root, path)
    raise root.error("is neither URDF (<robot>), MJCF (<mujoco>) nor SDF (<sdf>)")
