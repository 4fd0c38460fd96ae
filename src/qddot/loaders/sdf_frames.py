"""What has a pose in SDF: scopes of names, the graph of frames, nested and included models.

`collect` takes up everything with a pose in a world or model into a `Graph`, which then finds what
a name means, where one frame stands in another, and which link a frame is attached to.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from dataclasses import dataclass, field
from pathlib import Path

from qddot.errors import DescriptionError
from qddot.loaders.find import resolve_uri
from qddot.loaders.xml import Element, parse_xml, read_file, whole_degrees
from qddot.spatial import Transform, Vec3, rotation_from_quaternion, rotation_from_rpy

__all__ = [
    "WORLD",
    "Graph",
    "Node",
    "Scope",
    "collect",
    "is_true",
    "pose_base",
    "pose_of",
    "read_version",
    "text_of",
]

WORLD = ""
_DEEPEST_INCLUDE = 16


@dataclass(frozen=True)
class Scope:
    """Where names are looked up: what stands before them, and which frame is __model__."""

    prefix: str
    model: str
    version: tuple[int, int]
    static: bool = False
    depth: int = 0


@dataclass(frozen=True)
class Node:
    """A link, joint, frame or model: something that has a pose. `inner` is a model's own scope."""

    element: Element
    scope: Scope
    inner: Scope | None = None


@dataclass
class Graph:
    """All that has a pose, by full name (joints under "joint name")."""

    nodes: dict[str, Node] = field(default_factory=dict)
    hidden: str = ""

    def name(self, key: str) -> str:
        """The name by which the model knows a full name."""
        return key.removeprefix("joint ").removeprefix(self.hidden)

    def of(self, tag: str) -> list[str]:
        """Full names of all elements of a kind."""
        return [key for key, node in self.nodes.items() if node.element.tag == tag]

    def add(self, key: str, node: Node) -> None:
        """Take up an element under its full name."""
        if key in self.nodes:
            first = self.nodes[key].element.line
            raise node.element.error(f"the name is used twice, first on line {first}")
        self.nodes[key] = node

    def find(self, name: str, scope: Scope, element: Element) -> str:
        """The full name of what an element calls by a name."""
        name = name.strip().removesuffix("::__model__")
        if name == "__model__":
            return scope.model
        full = scope.prefix + name
        for key in (full, f"joint {full}"):
            if key in self.nodes:
                return key
        if name == "world":
            return WORLD
        known = [k.removeprefix("joint ").removeprefix(scope.prefix) for k in self.nodes]
        close = ", ".join(repr(k) for k in difflib.get_close_matches(name, known))
        hint = f"; closest: {close}" if close else ""
        raise element.error(f"refers to {name!r}, which does not exist{hint}")

    def anchor(self, key: str) -> str:
        """The frame that something is attached to."""
        element, scope = self.nodes[key].element, self.nodes[key].scope
        joint = element.tag == "joint"
        to = element.need("child").text if joint else element.attributes.get("attached_to", "")
        return self.find(to, scope, element) if to else scope.model

    def path(self, key: str) -> list[str]:
        """The frame, the frame its pose is given in, and so on to the world."""
        keys = [key]
        while keys[-1] != WORLD:
            node = self.nodes[keys[-1]]
            named = pose_base(node.element)
            base = self.find(named, node.scope, node.element) if named else self.anchor(keys[-1])
            if base in keys:
                raise node.element.error("its pose is relative to itself in a circle")
            keys.append(base)
        return keys

    def local(self, key: str) -> Transform:
        """Pose in the frame it is given in."""
        node = self.nodes[key]
        X, placed = pose_of(node.element), node.element.attributes.get("placement_frame", "")
        if node.inner is None or not placed:
            return X
        return X @ self.relative(key, self.find(placed, node.inner, node.element)).inverse()

    def relative(self, a: str, b: str) -> Transform:
        """Pose of b in a when every joint is at zero, by the shortest way round."""
        paths = self.path(a), self.path(b)
        meeting = next(k for k in paths[1] if k in paths[0])
        X = [Transform.identity(), Transform.identity()]
        for i, path in enumerate(paths):
            for k in path[: path.index(meeting)]:
                X[i] = self.local(k) @ X[i]
        return X[0].inverse() @ X[1]

    def link_of(self, key: str) -> str | None:
        """The link that a frame is attached to; None for the world."""
        seen: list[str] = []
        while key != WORLD and self.nodes[key].element.tag != "link":
            if key in seen:
                raise self.nodes[key].element.error("is attached to itself in a circle")
            seen.append(key)
            inner = self.nodes[key].inner
            key = self._canonical(key, inner) if inner else self.anchor(key)
        return key or None

    def _canonical(self, key: str, inner: Scope) -> str:
        element = self.nodes[key].element
        given = element.attributes.get("canonical_link", "")
        if given:
            return self.find(given, inner, element)
        for child in (*self.of("link"), *self.of("model")):
            if self.nodes[child].scope.model == key:
                return child
        raise element.error("has no <link>, but something is attached to it")


def read_version(root: Element) -> tuple[int, int]:
    """The version of SDFormat that an <sdf> element gives, from 1.4 on."""
    given = root.get("version")
    parts = given.strip().split(".")
    if len(parts) < 2 or not all(p.isdigit() for p in parts):
        raise root.error(f"version {given!r} is not a version of SDFormat")
    version = int(parts[0]), int(parts[1])
    if not (1, 4) <= version < (2, 0):
        raise root.error(f"SDFormat {given} is not read; versions from 1.4 on are")
    return version


def collect(graph: Graph, element: Element, scope: Scope) -> None:
    """Everything with a pose in a world or model, what it nests and includes too."""
    for child in element.children:
        if child.tag in ("link", "frame"):
            graph.add(scope.prefix + child.get("name"), Node(child, scope))
        elif child.tag == "joint":
            graph.add(f"joint {scope.prefix}{child.get('name')}", Node(child, scope))
        elif child.tag == "drake:joint":
            raise child.error(f"type {child.get('type')!r} of drake:joint is not supported")
        elif child.tag == "model":
            _collect_model(graph, child, scope, scope)
        elif child.tag == "include":
            included = _included(child, scope)
            if included is not None:
                inside = dataclasses.replace(scope, version=included[1], depth=scope.depth + 1)
                merge = is_true(child.attributes.get("merge", ""))
                _collect_model(graph, included[0], scope, inside, merge)


def _collect_model(
    graph: Graph, model: Element, scope: Scope, inside: Scope, merge: bool = False
) -> None:
    name = model.get("name")
    key = scope.prefix + (f"_merged__{name}__model__" if merge else name)
    prefix = scope.prefix if merge else f"{key}::"
    static = scope.static or is_true(text_of(model, "static"))
    inner = dataclasses.replace(inside, prefix=prefix, model=key, static=static)
    graph.add(key, Node(model, scope, inner))
    collect(graph, model, inner)


def _included(element: Element, scope: Scope) -> tuple[Element, tuple[int, int]] | None:
    """The model of another file, with the name, pose and so on that the include gives it."""
    if scope.depth >= _DEEPEST_INCLUDE:
        raise element.error(f"includes are nested deeper than {_DEEPEST_INCLUDE}")
    if element.first("experimental:params"):
        raise element.error("<experimental:params> is not supported")
    file = _included_file(element)
    root = parse_xml(read_file(file), str(file))
    if root.tag != "sdf":
        raise element.error(f"{file} is no SDF but <{root.tag}>")
    models = list(root.all("model"))
    if not models and (root.first("light") or root.first("actor")):
        return None
    if len(models) != 1:
        raise element.error(f"{file} has {len(models)} models where one is needed")
    given = [c for c in element.children if c.tag in ("pose", "static")]
    tags = {c.tag for c in given}
    attributes = dict(models[0].attributes)
    for key in ("name", "placement_frame"):
        if text_of(element, key):
            attributes[key] = text_of(element, key)
    children = [*given, *(c for c in models[0].children if c.tag not in tags)]
    return dataclasses.replace(models[0], attributes=attributes, children=children), read_version(
        root
    )


def _included_file(element: Element) -> Path:
    uri, folder = text_of(element.need("uri")), Path(element.file).parent
    try:
        places = [resolve_uri(uri, folder)]
    except DescriptionError as error:
        raise element.error(f"cannot include {uri!r}: {error.reason}") from error
    if uri.startswith("file://"):
        places.append(folder / uri.removeprefix("file://"))
    files = [f for p in places for f in (_configured(p) if p.is_dir() else [p])]
    for file in files:
        if file.is_file():
            return file
    listed = "\n  ".join(str(p) for p in files)
    raise element.error(f"cannot include {uri!r}; tried\n  {listed}")


def _configured(folder: Path) -> list[Path]:
    """The files that a model.config names, the latest version first, or else model.sdf."""
    config, files = folder / "model.config", [folder / "model.sdf"]
    if config.is_file():
        listed = list(parse_xml(read_file(config), str(config)).all("sdf"))
        listed.sort(
            key=lambda e: [int(n) for n in re.findall(r"\d+", e.attributes.get("version", ""))]
        )
        files = [*(folder / text_of(e) for e in reversed(listed)), *files]
    return files


def text_of(element: Element, tag: str = "") -> str:
    """The text of an element or of its child; empty without one."""
    chosen = element.first(tag) if tag else element
    return chosen.text.strip() if chosen else ""


def is_true(text: str) -> bool:
    """Whether a text says true, as SDF writes it."""
    return text.strip().lower() in ("true", "1")


def pose_base(element: Element) -> str:
    """The frame that a <pose> names; the attribute was called frame up to 1.6."""
    pose = element.first("pose")
    return (pose.attributes.get("relative_to") or pose.attributes.get("frame", "")) if pose else ""


def pose_of(element: Element) -> Transform:
    """The numbers of a <pose> child; identity without one."""
    pose = element.first("pose")
    if pose is None or not pose.text.strip():
        return Transform.identity()
    style = pose.attributes.get("rotation_format", "euler_rpy")
    if style not in ("euler_rpy", "quat_xyzw"):
        raise pose.error(f"rotation_format {style!r} is neither euler_rpy nor quat_xyzw")
    if style == "quat_xyzw":
        values = pose.numbers(pose.text, 7)
        length = math.hypot(*values[3:])
        if length < 1e-9:
            raise pose.error("its quaternion has no length")
        R = rotation_from_quaternion(*(x / length for x in values[3:]))
    else:
        values = pose.numbers(pose.text, 6)
        unit = math.pi / 180.0 if is_true(pose.attributes.get("degrees", "")) else 1.0
        R = rotation_from_rpy(*(whole_degrees(x * unit) for x in values[3:]))
    return Transform(R, Vec3(*values[:3]))
