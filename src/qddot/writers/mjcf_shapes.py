"""Shapes as geoms of MJCF, and the meshes that MuJoCo reads."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from qddot.loaders.shapes import Shape
from qddot.writers.losses import Loss, loss
from qddot.writers.markup import Node, child, rounded, turn_of, unique

__all__ = ["Meshes", "add_assets", "add_classes", "add_geoms", "mesh_names", "readable"]

Meshes = Mapping[tuple[Path | None, tuple[float, ...]], str]
"""The name of each mesh by its file and scale."""

_SUFFIXES = (".stl", ".obj", ".msh")


def readable(shapes: Sequence[Shape]) -> tuple[list[Shape], list[Loss]]:
    """The shapes that MuJoCo takes, and what it refuses."""
    flat = [s for s in shapes if s.kind != "mesh" and min(s.size) <= 0]
    refused = {(s.file, s.size): _refusal(s) for s in shapes if s.kind == "mesh"}
    bad = [s for s in shapes if s.kind == "mesh" and refused[s.file, s.size]]
    reasons: dict[str, dict[str, None]] = {}
    for s in bad:
        reasons.setdefault(refused[s.file, s.size], {})[s.address] = None
    items = [f"{reason} ({', '.join(names)})" for reason, names in reasons.items()]
    return [s for s in shapes if s not in flat and s not in bad], [
        *loss("meshes", False, "left out, MuJoCo does not read them", items),
        *loss("shapes", False, "left out, they have no extent",
              (f"{s.role} {s.kind} of {s.link!r}" for s in flat)),
    ]  # fmt: skip


def _refusal(shape: Shape) -> str:
    """Why MuJoCo does not read a mesh; empty where it does."""
    import mujoco

    file = shape.file
    if file is None or not file.is_file():
        return "there is no such file"
    if file.suffix.lower() not in _SUFFIXES:
        return f"MuJoCo reads {', '.join(_SUFFIXES)}, not {file.suffix or 'this'}"
    root = ElementTree.Element("mujoco")
    add_assets(root, {(file, shape.size): "mesh"}, file.parent)
    touches = str(int(shape.role == "collision"))
    geom = {"contype": touches, "conaffinity": touches}
    child(child(root, "worldbody"), "geom", type="mesh", mesh="mesh", **geom)
    child(root, "compiler", meshdir=str(file.parent))
    try:
        mujoco.MjModel.from_xml_string(ElementTree.tostring(root, encoding="unicode"))
    except (ValueError, mujoco.FatalError, mujoco.UnexpectedError) as error:
        return str(error).splitlines()[0].removeprefix("Error: ")
    return ""


def mesh_names(shapes: Sequence[Shape]) -> Meshes:
    """A name for every mesh: that of its file."""
    taken: set[str] = set()
    wanted = dict.fromkeys((s.file, s.size) for s in shapes if s.kind == "mesh")
    return {key: unique(key[0].stem if key[0] else "mesh", taken) for key in wanted}


def add_assets(root: Node, meshes: Meshes, folder: Path) -> None:
    """The <asset> of a file in this folder."""
    if not meshes:
        return
    asset = child(root, "asset")
    for (file, scale), name in meshes.items():
        stretched = None if set(scale) == {1.0} else rounded(scale)
        child(asset, "mesh", name=name, file=os.path.relpath(str(file), folder), scale=stretched)


def add_classes(root: Node) -> None:
    """The classes of geoms that are seen, and of geoms that touch."""
    classes = child(root, "default")
    seen = child(classes, "default", **{"class": "visual"})
    child(seen, "geom", contype="0", conaffinity="0", group="2")
    touching = child(classes, "default", **{"class": "collision"})
    child(touching, "geom", group="3")


def add_geoms(body: Node, shapes: Sequence[Shape], meshes: Meshes) -> None:
    """The geoms of a body."""
    for s in shapes:
        X = s.placement
        form = (
            {"mesh": meshes[s.file, s.size]}
            if s.kind == "mesh"
            else {"size": rounded(_half(s.kind, s.size))}
        )
        child(
            body, "geom", **{"class": s.role}, type=s.kind, **form,
            pos=rounded(X.p) if any(X.p) else None,
            quat=turn_of(X.R, rounded),
            rgba=rounded(s.rgba) if s.rgba else None,
        )  # fmt: skip


def _half(kind: str, size: tuple[float, ...]) -> tuple[float, ...]:
    """Sizes as MuJoCo has them: half the edges of a box, half the length of a cylinder."""
    if kind == "box":
        return tuple(0.5 * x for x in size)
    return (size[0], 0.5 * size[1]) if kind in ("cylinder", "capsule") else size
