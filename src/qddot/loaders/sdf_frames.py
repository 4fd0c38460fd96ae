"""Frames of SDF: scopes of names, the graph of frames, nested and included models.

`collect_frames` puts everything with a pose in a world or model into a `Graph`, which resolves
names, gives the pose of one frame in another, and the link that a frame is attached to.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from dataclasses import dataclass, field
from pathlib import Path

from qddot.errors import DescriptionError
from qddot.loaders.formats import FORMATS
from qddot.loaders.trust import ReadableFolders, Refused
from qddot.loaders.xml import Element, parse_xml, read_file, whole_degrees
from qddot.spatial.algebra import Transform, Vec3, rotation_from_quaternion, rotation_from_rpy

__all__ = [
    "WORLD",
    "Graph",
    "Node",
    "Scope",
    "collect_frames",
    "is_true",
    "pose_base",
    "pose_of",
    "read_version",
    "text_of",
]

WORLD = ""
_DEEPEST_INCLUDE = 16
_DEEPEST_MODEL = 50
_MOST_NODES = 20_000
_FAR = 16
"""Poses between two frames from which on the way through the world serves."""
_UNKNOWN = -1
_CIRCLE = "::"
"""No name: stands for a link that is being looked for."""


@dataclass(frozen=True)
class Scope:
    """Where names are looked up: what stands before them, and which frame is __model__."""

    prefix: str
    model: str
    version: tuple[int, int]
    static: bool = False
    depth: int = 0
    nested: int = 0


@dataclass(frozen=True)
class Node:
    """A link, joint, frame or model: something that has a pose. `inner` is a model's own scope."""

    element: Element
    scope: Scope
    inner: Scope | None = None


@dataclass
class Graph:
    """All that has a pose, by full name (joints under "joint name"), read from some folders."""

    folders: ReadableFolders
    nodes: dict[str, Node] = field(default_factory=dict)
    hidden: str = ""
    # found once each: chains of frames may be as long as a file
    _bases: dict[str, str] = field(default_factory=dict)
    _depths: dict[str, int] = field(default_factory=lambda: {WORLD: 0})
    _local: dict[str, Transform] = field(default_factory=dict)
    _world: dict[str, Transform] = field(default_factory=lambda: {WORLD: Transform.identity()})
    _links: dict[str, str] = field(default_factory=dict)
    _first: dict[str, str] = field(default_factory=dict)

    def short_name(self, key: str) -> str:
        """The name by which the model knows a full name."""
        return key.removeprefix("joint ").removeprefix(self.hidden)

    def keys_of(self, tag: str) -> list[str]:
        """Full names of all elements of a kind."""
        return [key for key, node in self.nodes.items() if node.element.tag == tag]

    def add(self, key: str, node: Node) -> None:
        """Take up an element under its full name."""
        if key in self.nodes:
            first = self.nodes[key].element.line
            raise node.element.error(f"the name is used twice, first on line {first}")
        if len(self.nodes) >= _MOST_NODES:
            raise node.element.error(f"there are more than {_MOST_NODES} links, joints and frames")
        self.nodes[key] = node

    def resolve_name(self, name: str, scope: Scope, element: Element) -> str:
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
        return self.resolve_name(to, scope, element) if to else scope.model

    def base_frame(self, key: str) -> str:
        """The frame in which a pose is given."""
        if key not in self._bases:
            node = self.nodes[key]
            named = pose_base(node.element)
            base = self.resolve_name(named, node.scope, node.element) if named else self.anchor(key)
            self._bases[key] = base
        return self._bases[key]

    def depth(self, key: str) -> int:
        """The number of poses between a frame and the world."""
        keys = []
        while key not in self._depths:
            keys.append(key)
            self._depths[key] = _UNKNOWN
            key = self.base_frame(key)
        if self._depths[key] == _UNKNOWN:
            raise self.nodes[key].element.error("its pose is relative to itself in a circle")
        for k in reversed(keys):
            self._depths[k] = self._depths[self.base_frame(k)] + 1
        return self._depths[keys[0] if keys else key]

    def local_pose(self, key: str) -> Transform:
        """Pose in the frame it is given in."""
        if key not in self._local:
            node = self.nodes[key]
            X, placed = pose_of(node.element), node.element.attributes.get("placement_frame", "")
            if node.inner is not None and placed:
                inside = self.resolve_name(placed, node.inner, node.element)
                X = X @ self._pose_below(inside, key).inverse()
            self._local[key] = X
        return self._local[key]

    def _pose_below(self, key: str, top: str) -> Transform:
        """Pose in a frame on the way to the world."""
        X = Transform.identity()
        while key != top:
            if key == WORLD:
                raise self.nodes[top].element.error("its placement_frame is not placed in it")
            X, key = self.local_pose(key) @ X, self.base_frame(key)
        return X

    def world_pose(self, key: str) -> Transform:
        """Pose in the world when every joint is at zero."""
        keys = []
        while key not in self._world:
            keys.append(key)
            key = self.base_frame(key)
        for k in reversed(keys):
            self._world[k] = self._world[self.base_frame(k)] @ self.local_pose(k)
        return self._world[keys[0] if keys else key]

    def relative_pose(self, a: str, b: str) -> Transform:
        """Pose of b in a when every joint is at zero, by the shortest way round if it is short."""
        ends, depths = [a, b], [self.depth(a), self.depth(b)]
        X = [Transform.identity(), Transform.identity()]
        for _ in range(_FAR):
            if ends[0] == ends[1]:
                return X[0].inverse() @ X[1]
            i = int(depths[0] < depths[1])
            X[i] = self.local_pose(ends[i]) @ X[i]
            ends[i], depths[i] = self.base_frame(ends[i]), depths[i] - 1
        return self.world_pose(a).inverse() @ self.world_pose(b)

    def link_of(self, key: str) -> str | None:
        """The link that a frame is attached to; None for the world."""
        keys = []
        while key != WORLD and key not in self._links and self.nodes[key].element.tag != "link":
            keys.append(key)
            self._links[key] = _CIRCLE
            inner = self.nodes[key].inner
            key = self._canonical_link(key, inner) if inner else self.anchor(key)
        link = self._links.get(key, key)
        if link == _CIRCLE:
            raise self.nodes[key].element.error("is attached to itself in a circle")
        self._links |= dict.fromkeys(keys, link)
        return link or None

    def _canonical_link(self, key: str, inner: Scope) -> str:
        element = self.nodes[key].element
        given = element.attributes.get("canonical_link", "")
        if given:
            return self.resolve_name(given, inner, element)
        if not self._first:
            for child in (*self.keys_of("link"), *self.keys_of("model")):
                self._first.setdefault(self.nodes[child].scope.model, child)
        if key in self._first:
            return self._first[key]
        raise element.error("has no <link>, but something is attached to it")


def read_version(root: Element) -> tuple[int, int]:
    """The version of SDFormat that an <sdf> element gives, from 1.4 on."""
    given = root.get("version")
    parts = re.fullmatch(r"\s*([0-9]{1,4})\.([0-9]{1,4})(\.[0-9]+)*\s*", given)
    if parts is None:
        raise root.error(f"version {given[:60]!r} is not a version of SDFormat")
    version = int(parts[1]), int(parts[2])
    if not (1, 4) <= version < (2, 0):
        raise root.error(f"SDFormat {given} is not read; versions from 1.4 on are")
    return version


def collect_frames(graph: Graph, element: Element, scope: Scope) -> None:
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
            included = _read_include(child, scope, graph.folders)
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
    nested = scope.nested + 1
    if nested > _DEEPEST_MODEL:
        raise model.error(f"models are nested deeper than {_DEEPEST_MODEL}")
    inner = dataclasses.replace(inside, prefix=prefix, model=key, static=static, nested=nested)
    graph.add(key, Node(model, scope, inner))
    collect_frames(graph, model, inner)


def _read_include(
    element: Element, scope: Scope, folders: ReadableFolders
) -> tuple[Element, tuple[int, int]] | None:
    """The model of another file, with the name, pose and so on that the include gives it."""
    if scope.depth >= _DEEPEST_INCLUDE:
        raise element.error(f"includes are nested deeper than {_DEEPEST_INCLUDE}")
    if element.first("experimental:params"):
        raise element.error("<experimental:params> is not supported")
    uri, folder = text_of(element.need("uri")), Path(element.file).parent
    file = _included_file(element, uri, folder, folders)
    # its one model
    root = parse_xml(read_file(file), str(file))
    if root.tag != FORMATS["sdf"].root:
        raise element.error(f"{file} is no SDF but <{root.tag}>")
    models = list(root.all("model"))
    if not models and (root.first("light") or root.first("actor")):
        return None
    if len(models) != 1:
        raise element.error(f"{file} has {len(models)} models where one is needed")
    # what the include gives replaces what the model has
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


def _included_file(element: Element, uri: str, folder: Path, folders: ReadableFolders) -> Path:
    """The file of an address, or in the folder that it stands for; one that may be read."""
    places, refusals = [], []
    # a file:// address may be relative too
    for address in dict.fromkeys((uri, uri.removeprefix("file://"))):
        try:
            places.append(folders.resolve_uri(address, folder))
        except DescriptionError as error:
            raise element.error(f"cannot include {uri!r}: {error.reason}") from error
        except Refused as error:
            refusals.append(error)
    if not places:
        raise element.error(f"cannot include {uri!r}: {refusals[0]}") from refusals[0]
    files = []
    for place in places:
        if not place.is_dir():
            files.append(place)
            continue
        # the files that a model.config names, the latest version first, or else model.sdf
        config = place / "model.config"
        if config.is_file() and folders.allows(config):
            named = list(parse_xml(read_file(config), str(config)).all("sdf"))
            named.sort(
                key=lambda e: [
                    int(n) for n in re.findall(r"[0-9]{1,9}", e.attributes.get("version", ""))
                ]
            )
            files += [place / text_of(e) for e in reversed(named)]
        files.append(place / "model.sdf")
    file = next((f for f in files if f.is_file()), None)
    if file is None:
        listed = "\n  ".join(str(p) for p in files)
        raise element.error(f"cannot include {uri!r}; tried\n  {listed}")
    try:
        folders.check_readable(file)
    except Refused as error:
        raise element.error(f"cannot include {uri!r}: {error}") from error
    return file


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
        in_degrees = is_true(pose.attributes.get("degrees", ""))
        rpy = map(whole_degrees, values[3:], pose.text.split()[3:])
        R = rotation_from_rpy(*(map(math.radians, values[3:]) if in_degrees else rpy))
    return Transform(R, Vec3(*values[:3]))
