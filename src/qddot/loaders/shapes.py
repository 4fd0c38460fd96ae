"""Shapes of the links of a description file, visual and for collisions.

Mesh files are named, never opened. A shape that is not understood is reported, not guessed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from qddot.errors import DescriptionError
from qddot.loaders.formats import FormatName, detect_format
from qddot.loaders.mjcf import drop_looks, drop_simulation, has_file, replace_by_sphere
from qddot.loaders.mujoco_checks import LOOKS, check_file, mujoco_errors, open_spec
from qddot.loaders.sdf_frames import (
    WORLD,
    Graph,
    Scope,
    collect_frames,
    pose_base,
    pose_of,
    read_version,
)
from qddot.loaders.trust import ReadableFolders, Refused
from qddot.loaders.xml import Element
from qddot.spatial.algebra import Mat3, Transform, Vec3, rotation_from_quaternion

__all__ = [
    "Shape",
    "Shapes",
    "level_inertias",
    "shapes_of_file",
    "shapes_of_mjcf",
    "shapes_of_sdf",
    "shapes_of_urdf",
]

_MOVERS = ("actuator", "equality", "keyframe", "tendon")
"""Sections of MJCF that the places of shapes do not depend on."""
Kind = Literal["box", "sphere", "cylinder", "capsule", "ellipsoid", "mesh"]
_SIZES = {
    "box": ("size",),
    "sphere": ("radius",),
    "cylinder": ("radius", "length"),
    "capsule": ("radius", "length"),
    "ellipsoid": ("radii",),
}


@dataclass(frozen=True)
class Shape:
    """A shape fixed to a link (to the world where that is None).

    `size` has the edges of a box, the radius of a sphere, radius and length along z of a cylinder
    or of the straight part of a capsule, the radii of an ellipsoid, the scale of a mesh. `address`
    is what the file calls a mesh, `file` where that is, if it is known.
    """

    link: str | None
    role: Literal["visual", "collision"]
    kind: Kind
    size: tuple[float, ...]
    placement: Transform
    address: str = ""
    file: Path | None = None
    rgba: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Shapes:
    """The shapes of a file, and a line for each that could not be read."""

    found: tuple[Shape, ...] = ()
    unread: tuple[str, ...] = ()


def shapes_of_file(file: Path, root: Element, trust: bool = False) -> Shapes:
    """The shapes of a file with this root element; with `trust` meshes may be anywhere."""
    readers: dict[FormatName, Callable[[], Shapes]] = {
        "urdf": lambda: shapes_of_urdf(root, file, trust),
        "mjcf": lambda: shapes_of_mjcf(file, trust),
        "sdf": lambda: shapes_of_sdf(root, file, trust),
    }
    return readers[detect_format(root).name]()


def shapes_of_urdf(robot: Element, path: Path, trust: bool = False) -> Shapes:
    """The shapes in the <robot> element of a URDF document."""
    folders = ReadableFolders(path, trust)
    colours = {
        m.get("name"): _read_colour(m) for m in robot.all("material") if "name" in m.attributes
    }
    found: list[Shape] = []
    unread: list[str] = []
    for link in robot.all("link"):
        for element in link.all("visual", "collision"):
            try:
                kind, size, address, file = _read_geometry(element, path.parent, folders)
                # a material by name may be declared at the top
                material = element.first("material")
                rgba = _read_colour(material) if material else None
                if material and not rgba:
                    rgba = colours.get(material.attributes.get("name", ""))
                place = element.origin()
            except DescriptionError as error:
                unread.append(f"{link.label}: {element.tag}: {error.reason}")
                continue
            role: Any = element.tag
            found.append(Shape(link.get("name"), role, kind, size, place, address, file, rgba))
    return Shapes(tuple(found), tuple(unread))


def _read_geometry(
    element: Element, folder: Path, folders: ReadableFolders
) -> tuple[Any, tuple[float, ...], str, Path | None]:
    """Kind, size, address and file of a <geometry>, in attributes (URDF) or elements (SDF)."""
    geometry = element.need("geometry")
    part = next(iter(geometry.children), None)
    if part is None:
        raise geometry.error("is empty")
    if part.tag in _SIZES:
        size = [x for key in _SIZES[part.tag] for x in _read_numbers(part, key)]
        return part.tag, tuple(size), "", None
    if part.tag != "mesh":
        raise part.error(f"<{part.tag}> is not understood")
    address = _read_text(part, "filename") or _read_text(part, "uri")
    if part.first("submesh"):
        raise part.error(f"a <submesh> of {address} is not understood")
    scale = tuple(_read_numbers(part, "scale")) if _read_text(part, "scale") else (1.0, 1.0, 1.0)
    try:
        file = folders.resolve_uri(address, folder) if address else None
    except DescriptionError:  # where the mesh is, is not known
        file = None
    except Refused as error:
        raise part.error(str(error)) from error
    return "mesh", scale, address, file


def _read_text(part: Element, key: str) -> str:
    child = part.first(key)
    return child.text.strip() if child else part.attributes.get(key, "")


def _read_numbers(part: Element, key: str) -> list[float]:
    text = _read_text(part, key)
    return part.numbers(text, 1 if key in ("radius", "length") else 3, key)


def _read_colour(material: Element) -> tuple[float, ...] | None:
    colour = material.first("color")
    return tuple(colour.numbers(colour.get("rgba"), 4, "rgba")) if colour else None


def shapes_of_sdf(root: Element, path: Path, trust: bool = False) -> Shapes:
    """The shapes in an <sdf> element; links have the names that `describe_sdf` gives them."""
    top = root.first("world") or root
    graph = Graph(ReadableFolders(path, trust))
    collect_frames(graph, top, Scope("", WORLD, read_version(root)))
    roots = [k for k in graph.keys_of("model") if graph.nodes[k].scope.model == WORLD]
    graph.hidden = f"{roots[0]}::" if len(roots) == 1 else ""
    found: list[Shape] = []
    unread: list[str] = []
    for key in graph.keys_of("link"):
        node = graph.nodes[key]
        for element in node.element.all("visual", "collision"):
            try:
                kind, size, address, file = _read_geometry(
                    element, Path(element.file or path).parent, graph.folders
                )
                base = pose_base(element)
                X = pose_of(element)
                if base:
                    X = graph.relative_pose(key, graph.resolve_name(base, node.scope, element)) @ X
            except DescriptionError as error:
                unread.append(f"link {graph.short_name(key)!r}: {element.tag}: {error.reason}")
                continue
            role: Any = element.tag
            found.append(Shape(graph.short_name(key), role, kind, size, X, address, file))
    return Shapes(tuple(found), tuple(unread))


def shapes_of_mjcf(path: Path, trust: bool = False) -> Shapes:
    """The geoms of an MJCF file; mesh files need not exist."""
    try:
        checked = check_file(path, trust)
        with mujoco_errors(path):
            spec = open_spec(path, checked, (*LOOKS, *_MOVERS))
            colours = {material.name: material.rgba for material in spec.materials}
            meshes = {mesh.name: mesh for mesh in spec.meshes}
            place = path.parent / (spec.meshdir or "")
            folders = ReadableFolders(path, trust)
            drafts = [_draft_shape(geom, meshes, colours, place, folders) for geom in spec.geoms]
            geoms = list(spec.geoms)
            # places can be computed without shapes that need files
            for geom in spec.geoms:
                if has_file(geom):
                    replace_by_sphere(geom)
            drop_looks(spec)
            drop_simulation(spec)
            level_inertias(spec)
            spec.compiler.discardvisual = spec.compiler.fusestatic = False
            m = spec.compile()
    except DescriptionError as error:
        return Shapes(unread=(f"no shape can be read: {error.reason}",))
    found: list[Shape] = []
    unread: list[str] = []
    for g, draft in ((geom.id, draft) for geom, draft in zip(geoms, drafts, strict=True)):
        body = int(m.geom_bodyid[g])
        link = (m.body(body).name or f"body{body}") if body else None
        if isinstance(draft, str):
            unread.append(f"body {link or 'world'!r}: {draft}")
            continue
        X = _pose(m.geom_pos[g], m.geom_quat[g]) @ draft.placement
        # sizes of primitives from MuJoCo's radii and half lengths
        a, b, c = (float(x) for x in m.geom_size[g])
        sizes: dict[str, tuple[float, ...]] = {
            "box": (2 * a, 2 * b, 2 * c),
            "sphere": (a,),
            "cylinder": (a, 2 * b),
            "capsule": (a, 2 * b),
            "ellipsoid": (a, b, c),
        }
        size = draft.size or sizes[draft.kind]
        shape = dataclasses.replace(draft, link=link, size=size, placement=X)
        # MuJoCo shows the groups 0 to 2, so a geom of those that touches is seen as well
        if shape.role == "collision" and m.geom_group[g] < 3:
            found.append(dataclasses.replace(shape, role="visual"))
        found.append(shape)
    return Shapes(tuple(found), tuple(unread))


def _draft_shape(
    geom: Any,
    meshes: Mapping[str, Any],
    colours: Mapping[str, Sequence[float]],
    folder: Path,
    folders: ReadableFolders,
) -> Shape | str:
    """A geom as a shape without link, place and (but for a mesh) size; or why it is none."""
    import mujoco

    kinds: dict[Any, Any] = {
        getattr(mujoco.mjtGeom, f"mjGEOM_{k.upper()}"): k for k in (*_SIZES, "mesh")
    }
    kind = kinds.get(geom.type)
    if kind is None or (kind != "mesh" and geom.meshname):
        name = mujoco.mjtGeom(geom.type).name.removeprefix("mjGEOM_").lower()
        return f"{'a mesh as a ' if geom.meshname else ''}{name} is not understood"
    role: Any = "collision" if geom.contype or geom.conaffinity else "visual"
    rgba = tuple(float(c) for c in colours.get(geom.material, geom.rgba))
    if kind != "mesh":
        return Shape(None, role, kind, (), Transform.identity(), rgba=rgba)
    mesh = meshes.get(geom.meshname)
    if mesh is None or not mesh.file:
        return f"mesh {geom.meshname!r} has no file"
    file = folder / mesh.file
    try:
        folders.check_readable(file)
    except Refused as error:
        return str(error)
    scale = tuple(float(s) for s in mesh.scale)
    # MuJoCo shifts the mesh by refpos and turns it by refquat before it scales it
    ref = _pose(mesh.refpos, mesh.refquat).inverse()
    if len(set(scale)) > 1 and Mat3.identity() != ref.R:
        return f"mesh {geom.meshname!r} is turned before it is stretched, which is not understood"
    inner = Transform(ref.R, Vec3(*(s * x for s, x in zip(scale, ref.p, strict=True))))
    return Shape(None, role, kind, scale, inner, mesh.file, file, rgba)


def level_inertias(spec: Any) -> None:
    """Give every <inertial> the same values: places do not depend on one that would be refused."""
    for body in spec.bodies[1:]:
        if body.explicitinertial:
            body.mass, body.inertia = 1.0, [1.0, 1.0, 1.0]
            body.fullinertia = [math.nan, 0.0, 0.0, 0.0, 0.0, 0.0]


def _pose(position: Sequence[float], quaternion: Sequence[float]) -> Transform:
    w, x, y, z = (float(c) for c in quaternion)
    return Transform(rotation_from_quaternion(x, y, z, w), Vec3(*(float(c) for c in position)))
