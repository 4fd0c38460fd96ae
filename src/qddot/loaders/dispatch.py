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

__all__ = ["load_model"]

_SUFFIXES = {".urdf", ".xacro", ".xml", ".mjcf", ".sdf", ".world"}


def load_model(
    source: Any,
    base: Base = None,
    couplings: Couplings = "exact",
    strict: bool = False,
) -> Model:
    """The model of a file, of a robot by name, or of another library's model."""
    return to_model(_describe(source), base, couplings, strict)


def _describe(source: Any) -> Description:
    if isinstance(source, str | Path):
        return _describe_file(_locate(source))
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
    accepted = "a file, a name, an MjModel or MjSpec, or a pinocchio.Model is accepted"
    raise NotUnderstood("source", source, accepted)


def _locate(source: str | Path) -> Path:
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


def _describe_file(path: Path) -> Description:
    root = parse_xml(read_file(path), str(path))
    if root.tag == "robot" and (path.suffix == ".xacro" or _uses_xacro(root)):
        # lines are those of the expanded text
        root = parse_xml(expand_xacro(path), f"{path} (expanded)")
    if root.tag == "robot":
        return describe_urdf(root, root.file)
    if root.tag in ("mujoco", "mujocoinclude"):
        from qddot.loaders.mjcf import describe_mjcf

        return describe_mjcf(path, root)
    if root.tag == "sdf":
        from qddot.loaders.sdf import describe_sdf

        return describe_sdf(root, path)
    raise root.error("is neither URDF (<robot>), MJCF (<mujoco>) nor SDF (<sdf>)")


def _uses_xacro(element: Element) -> bool:
    return any(child.tag.startswith("xacro:") or _uses_xacro(child) for child in element.children)
