"""Shapes as geoms of MJCF, and the meshes that MuJoCo reads."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from qddot.loaders.shapes import Shape
from qddot.writers.conversion_losses import ConversionLoss, conversion_loss
from qddot.writers.xml_text import Node, add_element, format_rounded, quaternion_text, unique_name

__all__ = ["Meshes", "add_assets", "add_classes", "add_geoms", "mesh_names", "readable_shapes"]

Meshes = Mapping[tuple[Path | None, tuple[float, ...]], str]
"""The name of each mesh by its file and scale."""

_SUFFIXES = (".stl", ".obj", ".msh")


def readable_shapes(shapes: Sequence[Shape]) -> tuple[list[Shape], list[ConversionLoss]]:
    """The shapes that MuJoCo reads, and the shapes that it refuses as losses."""
    flat = [s for s in shapes if s.kind != "mesh" and min(s.size) <= 0]
    errors = {(s.file, s.size): _mesh_error(s) for s in shapes if s.kind == "mesh"}
    bad = [s for s in shapes if s.kind == "mesh" and errors[s.file, s.size]]
    # meshes that are refused for the same reason are listed together
    reasons: dict[str, dict[str, None]] = {}
    for s in bad:
        reasons.setdefault(errors[s.file, s.size], {})[s.address] = None
    meshes = [f"{reason} ({', '.join(names)})" for reason, names in reasons.items()]
    others = [f"{s.role} {s.kind} of {s.link!r}" for s in flat]
    return [s for s in shapes if s not in flat and s not in bad], [
        *conversion_loss("meshes", False, "left out, MuJoCo does not read them", meshes),
        *conversion_loss("shapes", False, "left out, they have no extent", others),
    ]


def _mesh_error(shape: Shape) -> str:
    """Why MuJoCo does not read a mesh; empty where it does."""
    import mujoco

    file = shape.file
    if file is None or not file.is_file():
        return "there is no such file"
    if file.suffix.lower() not in _SUFFIXES:
        return f"MuJoCo reads {', '.join(_SUFFIXES)}, not {file.suffix or 'this'}"
    # compile a model of nothing but this mesh
    root = ElementTree.Element("mujoco")
    add_assets(root, {(file, shape.size): "mesh"}, file.parent)
    collides = str(int(shape.role == "collision"))
    geom = {"contype": collides, "conaffinity": collides}
    add_element(add_element(root, "worldbody"), "geom", type="mesh", mesh="mesh", **geom)
    add_element(root, "compiler", meshdir=str(file.parent))
    try:
        mujoco.MjModel.from_xml_string(ElementTree.tostring(root, encoding="unicode"))
    except Exception as error:  # a lack of memory too is only said of this shape
        return (str(error) or "error").splitlines()[0].removeprefix("Error: ")
    return ""


def mesh_names(shapes: Sequence[Shape]) -> Meshes:
    """A name for every mesh: that of its file."""
    taken: set[str] = set()
    wanted = dict.fromkeys((s.file, s.size) for s in shapes if s.kind == "mesh")
    return {key: unique_name(key[0].stem if key[0] else "mesh", taken) for key in wanted}


def add_assets(root: Node, meshes: Meshes, folder: Path) -> None:
    """Add the <asset> of a file in this folder: one <mesh> for each file and scale."""
    if not meshes:
        return
    asset = add_element(root, "asset")
    for (file, scale), name in meshes.items():
        path = os.path.relpath(str(file), folder)
        stretch = None if set(scale) == {1.0} else format_rounded(scale)
        add_element(asset, "mesh", name=name, file=path, scale=stretch)


def add_classes(root: Node) -> None:
    """Add the default classes of visual and of collision geoms."""
    classes = add_element(root, "default")
    visual = add_element(classes, "default", **{"class": "visual"})
    add_element(visual, "geom", contype="0", conaffinity="0", group="2")
    collision = add_element(classes, "default", **{"class": "collision"})
    add_element(collision, "geom", group="3")


def add_geoms(body: Node, shapes: Sequence[Shape], meshes: Meshes) -> None:
    """Add the geoms of a body."""
    for s in shapes:
        X, size = s.placement, s.size
        # MuJoCo has half the edges of a box, half the length of a cylinder
        if s.kind == "box":
            size = tuple(0.5 * x for x in size)
        elif s.kind in ("cylinder", "capsule"):
            size = (size[0], 0.5 * size[1])
        mesh = meshes[s.file, s.size] if s.kind == "mesh" else None
        add_element(
            body, "geom", **{"class": s.role}, type=s.kind,
            mesh=mesh,
            size=format_rounded(size) if mesh is None else None,
            pos=format_rounded(X.p) if any(X.p) else None,
            quat=quaternion_text(X.R, format_rounded),
            rgba=format_rounded(s.rgba) if s.rgba else None,
        )  # fmt: skip
