"""SDFormat 1.4 to 1.12: one <model>, or a <world> of models.

What stands in a nested model has "model::" before its name, as SDF writes it; so has what stands in
the models of a world, unless it holds just one. A link that no joint carries is free (fixed to the
world in a static model). A joint frame away from the origin of its child link becomes a link of its
own without mass, "link/joint", to which the child link is fixed.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from qddot.errors import DescriptionError
from qddot.joints import JOINTS, Drivetrain, Joint, Limits
from qddot.loaders.description import Description
from qddot.loaders.find import resolve_uri
from qddot.loaders.xml import Element, parse_xml, read_file
from qddot.model import STANDARD_GRAVITY, Coupling, Finding, FrameDraft, Link, Loop
from qddot.spatial import (
    Inertia,
    Sym3,
    Transform,
    Vec3,
    rotation_from_quaternion,
    rotation_from_rpy,
)

__all__ = ["describe_sdf"]

_WORLD = ""
_DEEPEST_INCLUDE = 16
_UNLIMITED = 1e16
_ONE_AXIS = {k: k for k in ("revolute", "continuous", "prismatic")} | {"screw": "helical"}
_TWO_AXES = ("universal", "revolute2")
_CLOSES_LOOP: dict[str, Literal["point", "pose"]] = {"ball": "point", "fixed": "pose"}
_TYPES = (*_ONE_AXIS, *_TWO_AXES, *_CLOSES_LOOP)
_DRAKE_TAKEN_UP = ("drake:rotor_inertia", "drake:gear_ratio", "drake:mimic")
_IGNORED = ("plugin", "actor", "population", "state", "gripper", "fluid_added_mass")


@dataclass(frozen=True)
class _Scope:
    """Where names are looked up: what stands before them, and which frame is __model__."""

    prefix: str
    model: str
    version: tuple[int, int]
    static: bool = False
    depth: int = 0


@dataclass(frozen=True)
class _Node:
    """A link, joint, frame or model: something that has a pose. `inner` is a model's own scope."""

    element: Element
    scope: _Scope
    inner: _Scope | None = None


@dataclass(frozen=True)
class _Ride:
    """A joint between two links (None for the world), its frame placed on both."""

    key: str
    name: str
    node: _Node
    parent: str | None
    child: str
    on_parent: Transform
    on_child: Transform

    @property
    def kind(self) -> str:
        """The type that the file gives."""
        return self.node.element.get("type")


@dataclass
class _Graph:
    """All that has a pose, by full name (joints under "joint name")."""

    nodes: dict[str, _Node] = field(default_factory=dict)
    hidden: str = ""

    def name(self, key: str) -> str:
        """The name by which the model knows a full name."""
        return key.removeprefix("joint ").removeprefix(self.hidden)

    def of(self, tag: str) -> list[str]:
        """Full names of all elements of a kind."""
        return [key for key, node in self.nodes.items() if node.element.tag == tag]

    def add(self, key: str, node: _Node) -> None:
        """Take up an element under its full name."""
        if key in self.nodes:
            first = self.nodes[key].element.line
            raise node.element.error(f"the name is used twice, first on line {first}")
        self.nodes[key] = node

    def find(self, name: str, scope: _Scope, element: Element) -> str:
        """The full name of what an element calls by a name."""
        name = name.strip().removesuffix("::__model__")
        if name == "__model__":
            return scope.model
        full = scope.prefix + name
        for key in (full, f"joint {full}"):
            if key in self.nodes:
                return key
        if name == "world":
            return _WORLD
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
        while keys[-1] != _WORLD:
            node = self.nodes[keys[-1]]
            named = _reference(node.element)
            base = self.find(named, node.scope, node.element) if named else self.anchor(keys[-1])
            if base in keys:
                raise node.element.error("its pose is relative to itself in a circle")
            keys.append(base)
        return keys

    def local(self, key: str) -> Transform:
        """Pose in the frame it is given in."""
        node = self.nodes[key]
        X, placed = _pose(node.element), node.element.attributes.get("placement_frame", "")
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
        while key != _WORLD and self.nodes[key].element.tag != "link":
            if key in seen:
                raise self.nodes[key].element.error("is attached to itself in a circle")
            seen.append(key)
            inner = self.nodes[key].inner
            key = self._canonical(key, inner) if inner else self.anchor(key)
        return key or None

    def _canonical(self, key: str, inner: _Scope) -> str:
        element = self.nodes[key].element
        given = element.attributes.get("canonical_link", "")
        if given:
            return self.find(given, inner, element)
        for child in (*self.of("link"), *self.of("model")):
            if self.nodes[child].scope.model == key:
                return child
        raise element.error("has no <link>, but something is attached to it")


def describe_sdf(root: Element, path: Path) -> Description:
    """The description in an SDF document, of which the <sdf> element is given."""
    worlds, models = list(root.all("world")), list(root.all("model"))
    if len(worlds) + len(models) != 1:
        raise root.error("needs exactly one <world> or <model>")
    top = worlds[0] if worlds else root
    graph = _Graph()
    _collect(graph, top, _Scope("", _WORLD, _version(root)))
    roots = [k for k in graph.of("model") if graph.nodes[k].scope.model == _WORLD]
    if len(roots) == 1:
        graph.hidden = f"{roots[0]}::"
    links = graph.of("link")
    if not links:
        raise root.error("has no <link>")
    rides = [r for k in graph.of("joint") if (r := _ride(graph, k))]
    tree = _tree(rides)
    carried, kept = {r.child for r in tree}, {r.key for r in tree}
    loops = [r for r in rides if r.key not in kept]
    return Description(
        roots[0] if len(roots) == 1 else top.get("name"),
        (
            *(_held(graph, k) for k in links if k not in carried),
            *(link for ride in tree for link in _carried(graph, ride)),
        ),
        tuple(_frames(graph, loops)),
        tuple(c for r in tree for c in _couplings(graph, r)),
        tuple(Loop(r.name, _CLOSES_LOOP[r.kind], f"{r.name}/1", f"{r.name}/2") for r in loops),
        gravity=_gravity(top),
        findings=tuple(_findings(root, graph)),
        file=str(path),
        lines={
            f"{n.element.tag} {graph.name(k)!r}": n.element.line
            for k, n in graph.nodes.items()
            if n.element.file == str(path)
        },
        root_poses={graph.name(k): graph.relative(_WORLD, k) for k in links},
    )


def _version(root: Element) -> tuple[int, int]:
    given = root.get("version")
    parts = given.strip().split(".")
    if len(parts) < 2 or not all(p.isdigit() for p in parts):
        raise root.error(f"version {given!r} is not a version of SDFormat")
    version = int(parts[0]), int(parts[1])
    if not (1, 4) <= version < (2, 0):
        raise root.error(f"SDFormat {given} is not read; versions from 1.4 on are")
    return version


def _collect(graph: _Graph, element: Element, scope: _Scope) -> None:
    """Everything with a pose in a world or model, what it nests and includes too."""
    for child in element.children:
        if child.tag in ("link", "frame"):
            graph.add(scope.prefix + child.get("name"), _Node(child, scope))
        elif child.tag == "joint":
            graph.add(f"joint {scope.prefix}{child.get('name')}", _Node(child, scope))
        elif child.tag == "drake:joint":
            raise child.error(f"type {child.get('type')!r} of drake:joint is not supported")
        elif child.tag == "model":
            _collect_model(graph, child, scope, scope)
        elif child.tag == "include":
            included = _included(child, scope)
            if included is not None:
                inside = dataclasses.replace(scope, version=included[1], depth=scope.depth + 1)
                merge = _flag(child.attributes.get("merge", ""))
                _collect_model(graph, included[0], scope, inside, merge)


def _collect_model(
    graph: _Graph, model: Element, scope: _Scope, inside: _Scope, merge: bool = False
) -> None:
    name = model.get("name")
    key = scope.prefix + (f"_merged__{name}__model__" if merge else name)
    prefix = scope.prefix if merge else f"{key}::"
    static = scope.static or _flag(_text(model, "static"))
    inner = dataclasses.replace(inside, prefix=prefix, model=key, static=static)
    graph.add(key, _Node(model, scope, inner))
    _collect(graph, model, inner)


def _included(element: Element, scope: _Scope) -> tuple[Element, tuple[int, int]] | None:
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
        if _text(element, key):
            attributes[key] = _text(element, key)
    children = [*given, *(c for c in models[0].children if c.tag not in tags)]
    return dataclasses.replace(models[0], attributes=attributes, children=children), _version(root)


def _included_file(element: Element) -> Path:
    uri, folder = _text(element.need("uri")), Path(element.file).parent
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
        files = [*(folder / _text(e) for e in reversed(listed)), *files]
    return files


def _text(element: Element, tag: str = "") -> str:
    """The text of an element or of its child; empty without one."""
    chosen = element.first(tag) if tag else element
    return chosen.text.strip() if chosen else ""


def _flag(text: str) -> bool:
    return text.strip().lower() in ("true", "1")


def _number(element: Element, tag: str, default: float) -> float:
    """A number from a child, or from an attribute of that name."""
    child = element.first(tag)
    return child.numbers(child.text, 1)[0] if child else element.number(tag, default)


def _reference(element: Element) -> str:
    """The frame that a <pose> names; the attribute was called frame up to 1.6."""
    pose = element.first("pose")
    return (pose.attributes.get("relative_to") or pose.attributes.get("frame", "")) if pose else ""


def _pose(element: Element) -> Transform:
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
        unit = math.pi / 180.0 if _flag(pose.attributes.get("degrees", "")) else 1.0
        R = rotation_from_rpy(*(x * unit for x in values[3:]))
    return Transform(R, Vec3(*values[:3]))


def _ride(graph: _Graph, key: str) -> _Ride | None:
    """A joint with the links it joins; None where its child stands still in a static model."""
    node = graph.nodes[key]
    element = node.element
    if element.get("type") not in _TYPES:
        raise element.error(f"type {element.get('type')!r} is not one of {', '.join(_TYPES)}")
    parent, child = (
        graph.link_of(graph.find(element.need(tag).text, node.scope, element))
        for tag in ("parent", "child")
    )
    if child is None or child == parent:
        what = "the world" if child is None else "its own parent link"
        raise element.error(f"its child cannot be {what}")
    if graph.nodes[child].scope.static:
        return None
    ends = graph.relative(parent or _WORLD, key), graph.relative(child, key)
    return _Ride(key, graph.name(key), node, parent, child, *ends)


def _tree(rides: list[_Ride]) -> list[_Ride]:
    """One joint for each link; those left over close loops."""
    chosen: dict[str, _Ride] = {}
    for ride in sorted(rides, key=lambda r: r.kind in _CLOSES_LOOP):
        first = chosen.setdefault(ride.child, ride)
        if first is not ride and ride.kind not in _CLOSES_LOOP:
            reason = f"its child link is the child of {first.node.element.label} too"
            raise ride.node.element.error(f"{reason}; only a ball or fixed joint can close a loop")
    return [r for r in rides if chosen[r.child] is r]


def _held(graph: _Graph, key: str) -> Link:
    """A link that no joint carries: fixed in a static model, free elsewhere."""
    name, static = graph.name(key), graph.nodes[key].scope.static
    kind = "fixed" if static else "free"
    X = graph.relative(_WORLD, key) if static else Transform.identity()
    return Link(name, None, X, Joint(f"{name} ({kind})", JOINTS[kind]), _inertia(graph, key))


def _carried(graph: _Graph, ride: _Ride) -> Iterator[Link]:
    """The child link of a joint, after links without mass where one link is not enough."""
    name, inertia = graph.name(ride.child), _inertia(graph, ride.child)
    parent = ride.parent and graph.name(ride.parent)
    joints = _joints(graph, ride)
    X, back = ride.on_parent, ride.on_child.inverse()
    if ride.kind == "fixed":
        yield Link(name, parent, X @ back, joints[0], inertia)
        return
    for joint in joints:
        if joint is joints[-1] and _is_identity(back):
            yield Link(name, parent, X, joint, inertia)
            return
        link = f"{name}/{joint.name.rpartition('::')[2]}"
        yield Link(link, parent, X, joint)
        parent, X = link, Transform.identity()
    yield Link(name, parent, back, Joint(f"{name} (fixed)", JOINTS["fixed"]), inertia)


def _is_identity(X: Transform) -> bool:
    pairs = zip(X, Transform.identity(), strict=True)
    return all(abs(a - b) < 1e-15 for row in pairs for a, b in zip(*row, strict=True))


def _joints(graph: _Graph, ride: _Ride) -> list[Joint]:
    """The joint as one joint, or as two one after the other."""
    if ride.kind in _ONE_AXIS:
        return [_about_axis(graph, ride, ride.name, "axis")]
    if ride.kind in _CLOSES_LOOP:
        axis = ride.node.element.first("axis")
        losses = (
            _drivetrain(ride.node.element, axis) if axis and ride.kind == "ball" else Drivetrain()
        )
        losses = dataclasses.replace(losses, rest=None)
        return [Joint(ride.name, JOINTS[ride.kind], drivetrain=losses)]
    pair = [_about_axis(graph, ride, f"{ride.name}.{i}", a) for i, a in _axes(ride.node.element)]
    (limits, drive), other = ((j.limits, j.drivetrain) for j in pair)
    bounded = limits.lower > -math.inf or limits.upper < math.inf
    if ride.kind == "revolute2" or (limits, drive) != other or bounded or drive.stiffness:
        return pair
    axes = (*pair[0].axes, *pair[1].axes)
    return [Joint(ride.name, JOINTS["universal"], axes, limits=limits, drivetrain=drive)]


def _axes(element: Element) -> list[tuple[int, str]]:
    return [(1, "axis"), (2, "axis2")] if element.get("type") in _TWO_AXES else [(0, "axis")]


def _about_axis(graph: _Graph, ride: _Ride, name: str, tag: str) -> Joint:
    """A joint of one freedom along or about an axis of the joint element."""
    element, scope = ride.node.element, ride.node.scope
    axis = element.need(tag)
    xyz = axis.first("xyz")
    direction = Vec3(*xyz.numbers(xyz.text, 3)) if xyz else Vec3(0.0, 0.0, 1.0)
    frame = xyz.attributes.get("expressed_in", "") if xyz else ""
    # up to 1.4 an axis is always given in the model frame, up to 1.6 where it says so
    if scope.version < (1, 5) or _flag(_text(axis, "use_parent_model_frame")):
        frame = frame or "__model__"
    if frame:
        R = graph.relative(ride.key, graph.find(frame, scope, axis)).R
        direction = R.apply(direction)
    kind = JOINTS[_ONE_AXIS.get(ride.kind, "revolute")]
    pitch = _thread(element) / math.tau if ride.kind == "screw" else 0.0
    bounds, drive = _limits(axis, ride.kind), _drivetrain(element, axis)
    return Joint(name, kind, (element.unit(direction),), pitch, limits=bounds, drivetrain=drive)


def _thread(element: Element) -> float:
    """Metres a revolution; the older thread_pitch has radians a metre, left-handed."""
    if element.first("screw_thread_pitch"):
        return _number(element, "screw_thread_pitch", 0.0)
    pitch = _number(element, "thread_pitch", 0.0)
    if pitch == 0.0:
        raise element.error("needs a <screw_thread_pitch>, or a <thread_pitch> that is not zero")
    return -math.tau / pitch


def _limits(axis: Element, given: str) -> Limits:
    limit = axis.first("limit")
    if limit is None:
        return Limits()

    def bound(tag: str) -> float:
        text = _text(limit, tag) or ("-inf" if tag == "lower" else "inf")
        try:
            unlimited = abs(float(text)) >= _UNLIMITED
        except ValueError:
            raise limit.error(f"{tag} {text!r} is not a number") from None
        return math.copysign(math.inf, float(text)) if unlimited else limit.numbers(text, 1)[0]

    position = (-math.inf, math.inf) if given == "continuous" else (bound("lower"), bound("upper"))
    speed, effort = (b if b >= 0 else math.inf for b in (bound("velocity"), bound("effort")))
    return Limits(*position, speed, effort)


def _drivetrain(element: Element, axis: Element) -> Drivetrain:
    dynamics = axis.first("dynamics") or axis
    losses = {key: _number(dynamics, key, 0.0) for key in ("damping", "friction")}
    for key, value in losses.items():
        if value < 0:
            raise element.error(f"negative {key} {value:g}")
    stiffness = _number(dynamics, "spring_stiffness", 0.0)
    return Drivetrain(
        rotor_inertia=_number(element, "drake:rotor_inertia", 0.0),
        gear_ratio=_number(element, "drake:gear_ratio", 1.0),
        damping=losses["damping"],
        friction=losses["friction"],
        stiffness=stiffness,
        rest=(_number(dynamics, "spring_reference", 0.0),) if stiffness else None,
    )


def _couplings(graph: _Graph, ride: _Ride) -> Iterator[Coupling]:
    element = ride.node.element
    found = [(ride.name, element.first("drake:mimic"))]
    for i, tag in _axes(element):
        axis = element.first(tag)
        found.append((f"{ride.name}.{i}" if i else ride.name, axis and axis.first("mimic")))
    for follower, mimic in found:
        if mimic:
            ratio = _number(mimic, "multiplier", 1.0)
            offset = _number(mimic, "offset", 0.0) - ratio * _number(mimic, "reference", 0.0)
            yield Coupling(follower, _leader(graph, ride, mimic), ratio, offset)


def _leader(graph: _Graph, ride: _Ride, mimic: Element) -> str:
    key = f"joint {ride.node.scope.prefix}{mimic.get('joint')}"
    if key not in graph.nodes:
        raise ride.node.element.error(f"mimics joint {mimic.get('joint')!r}, which does not exist")
    places = {tag: i for i, tag in _axes(graph.nodes[key].element)}
    axis = mimic.attributes.get("axis", "axis")
    if axis not in places:
        raise ride.node.element.error(f"mimics {axis!r} of a joint that has no such axis")
    return graph.name(key) + (f".{places[axis]}" if places[axis] else "")


def _inertia(graph: _Graph, key: str) -> Inertia:
    """Inertia of a link; SDF's default is 1 kg with unit moments."""
    node = graph.nodes[key]
    inertial = node.element.first("inertial")
    if inertial is None:
        return Inertia(1.0, Vec3.zero(), Sym3.diagonal(1.0, 1.0, 1.0))
    if _flag(inertial.attributes.get("auto", "")):
        raise node.element.error("<inertial auto='true'>: inertia from shapes is not supported")
    mass, tensor = _number(inertial, "mass", 1.0), inertial.first("inertia")
    if mass < 0:
        raise node.element.error(f"negative mass {mass:g}")
    entries = {"ixx": 1.0, "ixy": 0.0, "iyy": 1.0, "ixz": 0.0, "iyz": 0.0, "izz": 1.0}
    moments = [_number(tensor, k, x) if tensor else x for k, x in entries.items()]
    X, reference = _pose(inertial), _reference(inertial)
    if reference:
        X = graph.relative(key, graph.find(reference, node.scope, inertial)) @ X
    return X.to_parent(Inertia(mass, Vec3.zero(), Sym3(*moments)))


def _frames(graph: _Graph, loops: list[_Ride]) -> Iterator[FrameDraft]:
    """The frames of the file, and those at the two ends of each loop closure."""
    ends: list[tuple[str, str | None, Transform]] = []
    for key in graph.of("frame"):
        link = graph.link_of(key)
        ends.append((graph.name(key), link, graph.relative(link or _WORLD, key)))
    for ride in loops:
        ends.append((f"{ride.name}/1", ride.parent, ride.on_parent))
        ends.append((f"{ride.name}/2", ride.child, ride.on_child))
    return (FrameDraft(name, link and graph.name(link), X) for name, link, X in ends)


def _gravity(world: Element) -> Vec3:
    """Gravity of a world, which older files write inside <physics>."""
    for place in (world, world.first("physics")):
        given = place.first("gravity") if place else None
        if given:
            return Vec3(*given.numbers(given.text, 3))
    return STANDARD_GRAVITY


def _findings(root: Element, graph: _Graph) -> Iterator[Finding]:
    """What was invented, and elements that speak of physics and are not taken up."""
    for key in graph.of("link"):
        link, subject = graph.nodes[key].element, f"link {graph.name(key)!r}"
        given = [c.tag for c in link.need("inertial").children] if link.first("inertial") else []
        if not {"mass", "inertia"} <= set(given) and not graph.nodes[key].scope.static:
            message = "has no complete <inertial>: SDF's default of 1 kg and 1 kg m² stands in"
            yield Finding("info", "invented", subject, message)
        for tag, default in (("gravity", True), ("kinematic", False)):
            if link.first(tag) and _flag(_text(link, tag)) != default:
                yield Finding("warning", "ignored", subject, f"<{tag}> is ignored")
    nodes = graph.nodes.values()
    stack = [root, *(n.element for n in nodes if n.inner and n.inner.depth > n.scope.depth)]
    while stack:
        element = stack.pop()
        for child in element.children:
            foreign = child.tag.startswith("drake:") and child.tag not in _DRAKE_TAKEN_UP
            if foreign or child.tag in _IGNORED:
                message = f"<{child.tag}> on line {child.line} is ignored"
                yield Finding("info", "ignored", element.label, message)
            elif child.tag not in ("visual", "collision"):
                stack.append(child)
