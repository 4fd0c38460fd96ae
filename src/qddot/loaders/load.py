"""Loading: the loader of a source by its type, its address, its format or its name."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from qddot.errors import DescriptionError, InvalidArgument, Unsupported
from qddot.loaders.description import Base, Couplings, Description, to_model
from qddot.loaders.formats import FORMATS, SUFFIXES, detect_format, needs_expansion
from qddot.loaders.locate import resolve_uri
from qddot.loaders.mujoco_checks import try_in_child
from qddot.loaders.named_robots import locate_robot, named_files, robot_names
from qddot.loaders.urdf import describe_urdf, expand_xacro
from qddot.loaders.xml import Element, parse_xml, read_file
from qddot.model.model import Model

__all__ = [
    "describe",
    "load_model",
    "locate_source",
    "read_root",
    "try_file",
]


def load_model(
    source: Any,
    base: Base = None,
    couplings: Couplings = "exact",
    strict: bool = False,
    *,
    trust: bool = False,
    isolate: bool = False,
) -> Model:
    """The model of a file, of a robot by name, or of another library's model."""
    description = describe(source, trust=trust, isolate=isolate)
    model = to_model(description, base, couplings, strict)
    file = locate_source(source) if isinstance(source, str | Path) else None
    return dataclasses.replace(model, source=file, trusted=trust)


def describe(source: Any, *, trust: bool = False, isolate: bool = False) -> Description:
    """The description in a file, of a robot by name, or of another library's model.

    With `trust`, the file may include any other file, and xacro may evaluate any Python and read
    the environment. With `isolate` an MJCF file, which MuJoCo's compiler reads, is first read in a
    child process.
    """
    if isinstance(source, str | Path):
        path = locate_source(source)
        if isolate:
            try_file(path, trust)
        root = read_root(path, trust)
        form = detect_format(root).name
        if form == "urdf":
            return describe_urdf(root, root.file)
        if form == "mjcf":
            from qddot.loaders.mjcf import describe_mjcf

            return describe_mjcf(path, trust)
        if form == "sdf":
            from qddot.loaders.sdf import describe_sdf

            return describe_sdf(root, path, trust)
        raise Unsupported("load", form, "the format has no loader")
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
    raise InvalidArgument("source", source, accepted)


def locate_source(source: str | Path) -> Path:
    """The file that a path, an address or a name stands for."""
    text = str(source)
    if isinstance(source, str) and not text.strip():
        raise InvalidArgument("source", text, "it is a file, or a name that `qddot robots` lists")
    if text.lstrip().startswith("<"):
        raise InvalidArgument("source", text[:40], "is XML text; save it to a file and load that")
    address = isinstance(source, str) and "://" in text
    try:
        path = resolve_uri(text, Path.cwd()) if address else Path(text).expanduser()
        if path.is_file():
            return path
        there, folder = path.exists(), path.is_dir()
    except DescriptionError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        raise DescriptionError(text[:200], f"cannot be read: {error}") from error
    unnamed = address or path.suffix in SUFFIXES or len(path.parts) > 1
    if (there or unnamed) and text not in robot_names():
        reason = "is a folder" if folder else "is not a file" if there else "no such file"
        raise DescriptionError(path, reason)
    return locate_robot(text)


def read_root(path: Path, trust: bool = False) -> Element:
    """The root element of a description file; of xacro, that of the URDF it expands to."""
    root = parse_xml(read_file(path), str(path))
    if needs_expansion(path, root, trust):
        # lines are those of the expanded text
        return parse_xml(expand_xacro(path, trust=trust), f"{path} (expanded)")
    return root


def try_file(path: Path, trust: bool = False) -> None:
    """Read a file in a child process first, if a parser reads it that may crash.

    Files of robots by name were installed with their packages, and are trusted as these are.
    """
    installed = path in named_files().values()
    if installed:
        return
    root = parse_xml(read_file(path), str(path))
    if root.tag in FORMATS["mjcf"].roots:
        try_in_child(path, trust)
