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
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from qddot.errors import DescriptionError
from qddot.joints import JOINTS, Drivetrain, Joint, Limits, plane_basis
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
_ONE_AXIS = {
    "revolute": "revolute",
    "continuous": "continuous",
    "prismatic": "prismatic",
    "screw": "helical",
}
_TWO_AXES = ("universal", "revolute2")
_TYPES = (*_ONE_AXIS, *_TWO_AXES, "ball", "fixed")
_CLOSES_LOOP = {"ball": "point", "fixed": "pose"}
_TAKEN_UP = ("drake:joint", "drake:rotor_inertia", "drake:gear_ratio", "drake:mimic")
_NO_FORCE = ("drake:proximity_properties", "drake:collision_filter_group")
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

    element: Element
    scope: _Scope
    parent: str | None
    child: str
    on_parent: Transform
    on_child: Transform


@dataclass
class _Graph:
    """All that has a pose, by full name (joints under "joint name"), and the joints in file order."""

    nodes: dict[str, _Node] = field(default_factory=dict)
    joints: list[tuple[Element, _Scope]] = field(default_factory=list)
    hidden: str = ""

    def name(self, key: str) -> str:
        """The name by which the model knows a full name."""
        return key.removeprefix("joint ").removeprefix(self.hidden)

    def joint_name(self, element: Element, scope: _Scope) -> str:
        """The name by which the model knows a joint."""
        return self.name(scope.prefix + element.get("name"))

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

    def base(self, key: str) -> str:
        """The frame that a pose is given in."""
        node = self.nodes[key]
        element, scope = node.element, node.scope
        reference = _reference(element)
        if not reference and element.tag == "joint":
            reference = element.need("child").text
        elif not reference and element.tag == "frame":
            reference = element.attributes.get("attached_to", "")
        return self.find(reference, scope, element) if reference else scope.model

    def path(self, key: str) -> list[str]:
        """The frame, the frame its pose is given in, and so on to the world."""
        keys = [key]
        while keys[-1] != _WORLD:
            base = self.base(keys[-1])
            if base in keys:
                raise self.nodes[base].element.error("its pose is relative to itself in a circle")
            keys.append(base)
        return keys

    def local(self, key: str) -> Transform:
        """Pose in the frame it is given in."""
        node = self.nodes[key]
        X = _pose(node.element)
        placed = node.element.attributes.get("placement_frame", "")
        if node.inner is None or not placed:
            return X
        return X @ self.relative(key, self.find(placed, node.inner, node.element)).inverse()

    def relative(self, a: str, b: str) -> Transform:
        """Pose of b in a when every joint is at zero, by the shortest way round."""
        path_a, path_b = self.path(a), self.path(b)
        meeting = next(k for k in path_b if k in path_a)
        X_a, X_b = Transform.identity(), Transform.identity()
        for k in path_a[: path_a.index(meeting)]:
            X_a = self.local(k) @ X_a
        for k in path_b[: path_b.index(meeting)]:
            X_b = self.local(k) @ X_b
        return X_a.inverse() @ X_b

    def link_of(self, key: str) -> str | None:
        """The link that a frame is attached to; None for the world."""
        seen: list[str] = []
        while key != _WORLD and self.nodes[key].element.tag != "link":
            node = self.nodes[key]
            if key in seen:
                raise node.element.error("is attached to itself in a circle")
            seen.append(key)
            if node.inner is not None:
                key = self._canonical(key, node, node.inner)
            elif node.element.tag == "joint":
                key = self.find(node.element.need("child").text, node.scope, node.element)
            else:
                to = node.element.attributes.get("attached_to", "")
                key = self.find(to, node.scope, node.element) if to else node.scope.model
        return key or None

    def _canonical(self, key: str, node: _Node, inner: _Scope) -> str:
        given = node.element.attributes.get("canonical_link", "")
        if given:
            return self.find(given, inner, node.element)
        for tag in ("link", "model"):
            for k, child in self.nodes.items():
                if child.scope.model == key and child.element.tag == tag:
                    return k
        raise node.element.error("has no <link>, but something is attached to it")


def describe_sdf(root: Element, path: Path) -> Description:
    """The description in an SDF document, of which the <sdf> element is given."""
    world, models = root.first("world"), list(root.all("model"))
    if len(list(root.all("world"))) + len(models) != 1:
        raise root.error("needs exactly one <world> or <model>")
    graph = _Graph()
    scope = _Scope("", _WORLD, _version(root))
    _collect(graph, world or root, scope)
    tops = [n for n in graph.nodes.values() if n.inner and n.scope.model == _WORLD]
    if len(tops) == 1:
        graph.hidden = f"{tops[0].element.get('name')}::"
    links = [k for k, n in graph.nodes.items() if n.element.tag == "link"]
    if not links:
        raise root.error("has no <link>")
    rides, doubts = _rides(graph)
    tree, loops = _tree(rides)
    carried = {r.child for r in tree}
    ends = [(r, i) for r in loops for i in (1, 2)]
    return Description(
        (tops[0].element if len(tops) == 1 else world or root).get("name"),
        (
            *(_held(graph, k) for k in links if k not in carried),
            *(link for ride in tree for link in _carried(graph, ride)),
        ),
        (*_frames(graph), *(_loop_end(graph, r, i) for r, i in ends)),
        tuple(c for r in tree for c in _couplings(graph, r)),
        tuple(_loop(graph, r) for r in loops),
        gravity=_gravity(world),
        findings=(*doubts, *_findings(root, graph)),
        file=str(path),
        lines=_lines(graph, str(path)),
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
    """Everything with a pose in a world or model, those it includes and nests too."""
    for child in element.children:
        if child.tag in ("link", "frame"):
            _add(graph, scope.prefix + child.get("name"), _Node(child, scope))
        elif child.tag == "joint":
            _add(graph, f"joint {scope.prefix}{child.get('name')}", _Node(child, scope))
            graph.joints.append((child, scope))
        elif child.tag == "drake:joint":
            graph.joints.append((child, scope))
        elif child.tag == "model":
            _collect_model(graph, child, scope, scope)
        elif child.tag == "include":
            included = _included(child, scope)
            if included is not None:
                model, version = included
                inside = dataclasses.replace(scope, version=version, depth=scope.depth + 1)
                _collect_model(
                    graph, model, scope, inside, _flag(child.attributes.get("merge", ""))
                )


def _collect_model(
    graph: _Graph, model: Element, scope: _Scope, inside: _Scope, merge: bool = False
) -> None:
    name = model.get("name")
    key = scope.prefix + (f"_merged__{name}__model__" if merge else name)
    inner = dataclasses.replace(
        inside,
        prefix=scope.prefix if merge else f"{key}::",
        model=key,
        static=scope.static or _flag(_text(model, "static")),
    )
    _add(graph, key, _Node(model, scope, inner))
    _collect(graph, model, inner)


def _add(graph: _Graph, key: str, node: _Node) -> None:
    if key in graph.nodes:
        first = graph.nodes[key].element.line
        raise node.element.error(f"the name is used twice, first on line {first}")
    graph.nodes[key] = node


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
    uri = _text(element.need("uri"))
    folder = Path(element.file).parent
    try:
        candidates = [resolve_uri(uri, folder)]
    except DescriptionError as error:
        raise element.error(f"cannot include {uri!r}: {error.reason}") from error
    if uri.startswith("file://"):
        candidates.append(folder / uri.removeprefix("file://"))
    tried: list[Path] = []
    for place in candidates:
        inside = [*_configured(place), place / "model.sdf"] if place.is_dir() else [place]
        for file in inside:
            if file.is_file():
                return file
        tried += inside
    listed = "\n  ".join(str(p) for p in tried)
    raise element.error(f"cannot include {uri!r}; tried\n  {listed}")


def _configured(folder: Path) -> list[Path]:
    """The files that a model.config names, the latest version first."""
    config = folder / "model.config"
    if not config.is_file():
        return []
    listed = list(parse_xml(read_file(config), str(config)).all("sdf"))
    listed.sort(key=lambda e: _version(e) if "version" in e.attributes else (0, 0), reverse=True)
    return [folder / _text(e) for e in listed]


def _text(element: Element, tag: str = "") -> str:
    """The text of an element or of its child; empty without one."""
    chosen = element.first(tag) if tag else element
    return chosen.text.strip() if chosen else ""


def _flag(text: str) -> bool:
    return text.strip().lower() in ("true", "1")


def _number(element: Element, tag: str, default: float) -> float:
    child = element.first(tag)
    return child.numbers(child.text, 1)[0] if child else default


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


def _rides(graph: _Graph) -> tuple[list[_Ride], list[Finding]]:
    """Every joint that can move something, and what is to be said of the others."""
    rides, doubts = [], []
    for element, scope in graph.joints:
        prefix = "drake:" if element.tag == "drake:joint" else ""
        parent, child = (
            graph.find(element.need(prefix + tag).text, scope, element)
            for tag in ("parent", "child")
        )
        parent_link, child_link = graph.link_of(parent), graph.link_of(child)
        if child_link is None or child_link == parent_link:
            what = "the world" if child_link is None else "its own parent link"
            raise element.error(f"its child cannot be {what}")
        if graph.nodes[child_link].scope.static:
            name = graph.joint_name(element, scope)
            message = "is ignored: its child belongs to a static model"
            doubts.append(Finding("info", "ignored", f"joint {name!r}", message))
            continue
        own = f"joint {scope.prefix}{element.get('name')}"
        ends = (parent, child) if prefix else (own, own)  # a drake:joint joins its two frames
        rides.append(
            _Ride(
                element, scope, parent_link, child_link,
                graph.relative(parent_link or _WORLD, ends[0]), graph.relative(child_link, ends[1]),
            )
        )  # fmt: skip
    return rides, doubts


def _tree(rides: list[_Ride]) -> tuple[list[_Ride], list[_Ride]]:
    """One joint for each link, and those left over, which close loops."""
    chosen: dict[str, _Ride] = {}
    for ride in sorted(rides, key=lambda r: r.element.get("type") in _CLOSES_LOOP):
        first = chosen.setdefault(ride.child, ride)
        if first is not ride and ride.element.get("type") not in _CLOSES_LOOP:
            raise ride.element.error(
                f"its child link is the child of {first.element.label} too; only a ball or fixed "
                "joint can close a loop"
            )
    tree = [r for r in rides if chosen[r.child] is r]
    return tree, [r for r in rides if chosen[r.child] is not r]


def _held(graph: _Graph, key: str) -> Link:
    """A link that no joint carries: fixed in a static model, free elsewhere."""
    name, static = graph.name(key), graph.nodes[key].scope.static
    kind = "fixed" if static else "free"
    X = graph.relative(_WORLD, key) if static else Transform.identity()
    return Link(name, None, X, Joint(f"{name} ({kind})", JOINTS[kind]), _inertia(graph, key))


def _carried(graph: _Graph, ride: _Ride) -> Iterator[Link]:
    """The child link of a joint, after links without mass where one link is not enough."""
    name, inertia = graph.name(ride.child), _inertia(graph, ride.child)
    parent = None if ride.parent is None else graph.name(ride.parent)
    joints = _joints(graph, ride)
    X, back = ride.on_parent, ride.on_child.inverse()
    if joints[0].kind.nv == 0:
        yield Link(name, parent, X @ back, joints[0], inertia)
        return
    direct = _is_identity(back)
    for joint in joints:
        if joint is joints[-1] and direct:
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
    element, name = ride.element, graph.joint_name(ride.element, ride.scope)
    given = element.get("type")
    if element.tag == "drake:joint":
        return [_drake_joint(element, name)]
    if given not in _TYPES:
        raise element.error(f"type {given!r} is not one of {', '.join(_TYPES)}")
    if given in _ONE_AXIS:
        return [_about_axis(graph, ride, name, "axis")]
    if given in _TWO_AXES:
        first, second = (_about_axis(graph, ride, f"{name}.{i}", a) for i, a in _axes(element))
        alike = (first.limits, first.drivetrain) == (second.limits, second.drivetrain)
        bounded = first.limits.lower > -math.inf or first.limits.upper < math.inf
        if given == "revolute2" or not alike or bounded or first.drivetrain.stiffness:
            return [first, second]
        axes = (*first.axes, *second.axes)
        return [
            Joint(name, JOINTS["universal"], axes, limits=first.limits, drivetrain=first.drivetrain)
        ]
    axis = element.first("axis")
    drivetrain = _drivetrain(element, axis) if axis and given == "ball" else Drivetrain()
    return [Joint(name, JOINTS[given], drivetrain=dataclasses.replace(drivetrain, rest=None))]


def _axes(element: Element) -> list[tuple[int, str]]:
    return [(1, "axis"), (2, "axis2")] if element.get("type") in _TWO_AXES else [(0, "axis")]


def _about_axis(graph: _Graph, ride: _Ride, name: str, tag: str) -> Joint:
    """A joint of one freedom along or about an axis of the joint element."""
    element, scope = ride.element, ride.scope
    given = element.get("type")
    axis = element.need(tag)
    xyz = axis.first("xyz")
    direction = Vec3(*xyz.numbers(xyz.text, 3)) if xyz else Vec3(0.0, 0.0, 1.0)
    frame = xyz.attributes.get("expressed_in", "") if xyz else ""
    # up to 1.4 an axis is always given in the model frame, from 1.5 on when it says so
    if scope.version < (1, 5) or _flag(_text(axis, "use_parent_model_frame")):
        frame = frame or "__model__"
    if frame:
        own = f"joint {scope.prefix}{element.get('name')}"
        direction = graph.relative(own, graph.find(frame, scope, axis)).R.apply(direction)
    kind = JOINTS[_ONE_AXIS.get(given, "revolute")]
    pitch = _thread(element) / math.tau if given == "screw" else 0.0
    limits, drivetrain = _limits(axis, given), _drivetrain(element, axis)
    return Joint(
        name, kind, (element.unit(direction),), pitch, limits=limits, drivetrain=drivetrain
    )


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
        text = _text(limit, tag)
        if not text or text.lower().lstrip("+-") in ("inf", "infinity"):
            return -math.inf if tag == "lower" or text.startswith("-") else math.inf
        value = _number(limit, tag, 0.0)
        return math.copysign(math.inf, value) if abs(value) >= _UNLIMITED else value

    position = (-math.inf, math.inf) if given == "continuous" else (bound("lower"), bound("upper"))
    speed, effort = (b if b >= 0 else math.inf for b in (bound("velocity"), bound("effort")))
    return Limits(*position, speed, effort)


def _drivetrain(element: Element, axis: Element) -> Drivetrain:
    rotor = {
        "rotor_inertia": _number(element, "drake:rotor_inertia", 0.0),
        "gear_ratio": _number(element, "drake:gear_ratio", 1.0),
    }
    dynamics = axis.first("dynamics")
    if dynamics is None:
        return Drivetrain(**rotor)
    losses = {key: _number(dynamics, key, 0.0) for key in ("damping", "friction")}
    for key, value in losses.items():
        if value < 0:
            raise element.error(f"negative {key} {value:g}")
    stiffness = _number(dynamics, "spring_stiffness", 0.0)
    rest = (_number(dynamics, "spring_reference", 0.0),) if stiffness else None
    return Drivetrain(**rotor, **losses, stiffness=stiffness, rest=rest)


def _drake_joint(element: Element, name: str) -> Joint:
    given = element.get("type")
    if given != "planar":
        raise element.error(f"type {given!r} is not supported; of drake:joint only planar is")
    damping = element.first("drake:damping")
    losses = damping.numbers(damping.text, 3) if damping else [0.0]
    if len(set(losses)) > 1:
        raise element.error(f"damping differs between the freedoms of one joint: {losses}")
    axes = plane_basis(Vec3(0.0, 0.0, 1.0))
    return Joint(name, JOINTS["planar"], axes, drivetrain=Drivetrain(damping=losses[0]))


def _couplings(graph: _Graph, ride: _Ride) -> Iterator[Coupling]:
    element, name = ride.element, graph.joint_name(ride.element, ride.scope)
    drake = element.first("drake:mimic")
    if drake:
        ratio, offset = drake.number("multiplier", 1.0), drake.number("offset", 0.0)
        yield Coupling(name, _leader(graph, ride, drake), ratio, offset)
    for i, tag in _axes(element):
        axis = element.first(tag)
        mimic = axis.first("mimic") if axis else None
        if mimic:
            ratio = _number(mimic, "multiplier", 1.0)
            offset = _number(mimic, "offset", 0.0) - ratio * _number(mimic, "reference", 0.0)
            follower = f"{name}.{i}" if i else name
            yield Coupling(follower, _leader(graph, ride, mimic), ratio, offset)


def _leader(graph: _Graph, ride: _Ride, mimic: Element) -> str:
    key = f"joint {ride.scope.prefix}{mimic.get('joint')}"
    if key not in graph.nodes:
        raise ride.element.error(f"mimics joint {mimic.get('joint')!r}, which does not exist")
    places = {tag: i for i, tag in _axes(graph.nodes[key].element)}
    axis = mimic.attributes.get("axis", "axis")
    if axis not in places:
        raise ride.element.error(f"mimics {axis!r} of a joint that has no such axis")
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


def _frames(graph: _Graph) -> Iterator[FrameDraft]:
    for key, node in graph.nodes.items():
        if node.element.tag == "frame":
            link = graph.link_of(key)
            name = None if link is None else graph.name(link)
            yield FrameDraft(graph.name(key), name, graph.relative(link or _WORLD, key))


def _loop(graph: _Graph, ride: _Ride) -> Loop:
    name = graph.joint_name(ride.element, ride.scope)
    kind = _CLOSES_LOOP[ride.element.get("type")]
    return Loop(name, kind, f"{name}/1", f"{name}/2")


def _loop_end(graph: _Graph, ride: _Ride, end: int) -> FrameDraft:
    link, X = (ride.parent, ride.on_parent) if end == 1 else (ride.child, ride.on_child)
    name = f"{graph.joint_name(ride.element, ride.scope)}/{end}"
    return FrameDraft(name, None if link is None else graph.name(link), X)


def _gravity(world: Element | None) -> Vec3:
    """Gravity of a world, which older files write inside <physics>."""
    for place in (world, world.first("physics")) if world else ():
        given = place.first("gravity") if place else None
        if given:
            return Vec3(*given.numbers(given.text, 3))
    return STANDARD_GRAVITY


def _lines(graph: _Graph, file: str) -> dict[str, int]:
    """Lines of links, frames and joints of the file itself, by label."""
    named = [(f"{n.element.tag} {graph.name(k)!r}", n.element) for k, n in graph.nodes.items()]
    named += [(f"joint {graph.joint_name(e, s)!r}", e) for e, s in graph.joints]
    return {label: element.line for label, element in named if element.file == file}


def _findings(root: Element, graph: _Graph) -> Iterator[Finding]:
    """What was invented, and elements that speak of physics and are not taken up."""
    for key, node in graph.nodes.items():
        subject, inertial = f"link {graph.name(key)!r}", node.element.first("inertial")
        if node.element.tag != "link" or node.scope.static:
            continue
        if inertial is None or not (inertial.first("mass") and inertial.first("inertia")):
            message = "has no complete <inertial>: SDF's default of 1 kg and 1 kg m² stands in"
            yield Finding("info", "invented", subject, message)
        if _text(node.element, "gravity").lower() in ("false", "0"):
            yield Finding("warning", "ignored", subject, "<gravity>false</gravity> is ignored")
        if _flag(_text(node.element, "kinematic")):
            yield Finding("warning", "ignored", subject, "<kinematic>true</kinematic> is ignored")
    stack = [root, *(n.element for n in graph.nodes.values() if n.element.file != root.file)]
    while stack:
        element = stack.pop()
        for child in element.children:
            foreign = child.tag.startswith("drake:") and child.tag not in (*_TAKEN_UP, *_NO_FORCE)
            if foreign or child.tag in _IGNORED:
                message = f"<{child.tag}> on line {child.line} is ignored"
                yield Finding("info", "ignored", element.label, message)
            elif child.tag not in ("visual", "collision", "drake:joint"):
                stack.append(child)
