"""SDFormat 1.4 to 1.12: one <model>, or a <world> of models.

What stands in a nested model has "model::" before its name, as SDF writes it; so has what stands in
the models of a world, unless it holds just one. A link that no joint carries is free (fixed to the
world in a static model). A joint frame away from the origin of its child link becomes a link of its
own without mass, "link/joint", to which the child link is fixed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from qddot.joints import JOINTS, Drivetrain, Joint, Limits
from qddot.loaders.description import Description
from qddot.loaders.sdf_frames import (
    WORLD,
    Graph,
    Node,
    Scope,
    collect,
    is_true,
    pose_base,
    pose_of,
    read_version,
    text_of,
)
from qddot.loaders.xml import Element
from qddot.model import STANDARD_GRAVITY
from qddot.parts import Coupling, Finding, FrameDraft, Link, Loop
from qddot.spatial import Inertia, Sym3, Transform, Vec3

__all__ = ["describe_sdf"]

_UNLIMITED = 1e16
_ONE_AXIS = {k: k for k in ("revolute", "continuous", "prismatic")} | {"screw": "helical"}
_TWO_AXES = ("universal", "revolute2")
_NO_AXIS = ("ball", "fixed")
_CLOSES_LOOP = {
    "ball": "spherical",
    "fixed": "weld",
    "revolute": "revolute",
    "continuous": "revolute",
    "prismatic": "prismatic",
}
_TYPES = (*_ONE_AXIS, *_TWO_AXES, *_NO_AXIS)
_DRAKE_TAKEN_UP = ("drake:rotor_inertia", "drake:gear_ratio", "drake:mimic")
_IGNORED = ("plugin", "actor", "population", "state", "gripper", "fluid_added_mass")


@dataclass(frozen=True)
class _Ride:
    """A joint between two links (None for the world), its frame placed on both."""

    key: str
    name: str
    node: Node
    parent: str | None
    child: str
    on_parent: Transform
    on_child: Transform

    @property
    def kind(self) -> str:
        """The type that the file gives."""
        return self.node.element.get("type")


def describe_sdf(root: Element, path: Path) -> Description:
    """The description in an SDF document, of which the <sdf> element is given."""
    worlds, models = list(root.all("world")), list(root.all("model"))
    if len(worlds) + len(models) != 1:
        raise root.error("needs exactly one <world> or <model>")
    top = worlds[0] if worlds else root
    graph = Graph()
    collect(graph, top, Scope("", WORLD, read_version(root)))
    roots = [k for k in graph.of("model") if graph.nodes[k].scope.model == WORLD]
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
        tuple(_loop(graph, r) for r in loops),
        gravity=_gravity(top),
        findings=(*_loop_findings(loops), *_findings(root, graph, {r.key for r in rides})),
        file=str(path),
        lines={
            f"{n.element.tag} {graph.name(k)!r}": n.element.line
            for k, n in graph.nodes.items()
            if n.element.file == str(path)
        },
        root_poses={graph.name(k): graph.relative(WORLD, k) for k in links},
    )


def _number(element: Element, tag: str, default: float) -> float:
    """A number from a child, or from an attribute of that name."""
    child = element.first(tag)
    return child.numbers(child.text, 1)[0] if child else element.number(tag, default)


def _ride(graph: Graph, key: str) -> _Ride | None:
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
    ends = graph.relative(parent or WORLD, key), graph.relative(child, key)
    return _Ride(key, graph.name(key), node, parent, child, *ends)


def _tree(rides: list[_Ride]) -> list[_Ride]:
    """One joint for each link; those left over close loops."""
    chosen: dict[str, _Ride] = {}
    # what cannot close a loop is in the tree first, what has least freedom last
    for ride in sorted(rides, key=lambda r: (r.kind in _CLOSES_LOOP) + (r.kind in _NO_AXIS)):
        first = chosen.setdefault(ride.child, ride)
        if first is not ride and ride.kind not in _CLOSES_LOOP:
            reason = f"its child link is the child of {first.node.element.label} too"
            closing = ", ".join(_CLOSES_LOOP)
            raise ride.node.element.error(f"{reason}; only these close a loop: {closing}")
    return [r for r in rides if chosen[r.child] is r]


def _loop(graph: Graph, ride: _Ride) -> Loop:
    """A joint that closes a loop, between the two frames that its joint frame makes."""
    frames = f"{ride.name}/1", f"{ride.name}/2"
    kind = _CLOSES_LOOP[ride.kind]
    if ride.kind in _NO_AXIS:
        return Loop(ride.name, kind, *frames)
    return Loop(ride.name, kind, *frames, axis=_joints(graph, ride)[0].axes[0])


def _loop_findings(loops: list[_Ride]) -> Iterator[Finding]:
    """Limits and losses of joints that close loops."""
    for ride in loops:
        axis = ride.node.element.first("axis")
        if axis and (axis.first("limit") or axis.first("dynamics")):
            message = "closes a loop: its limits and losses are ignored"
            yield Finding("warning", "ignored", f"joint {ride.name!r}", message)


def _held(graph: Graph, key: str) -> Link:
    """A link that no joint carries: fixed in a static model, free elsewhere."""
    name, static = graph.name(key), graph.nodes[key].scope.static
    kind = "fixed" if static else "free"
    X = graph.relative(WORLD, key) if static else Transform.identity()
    return Link(name, None, X, Joint(f"{name} ({kind})", JOINTS[kind]), _inertia(graph, key))


def _carried(graph: Graph, ride: _Ride) -> Iterator[Link]:
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


def _joints(graph: Graph, ride: _Ride) -> list[Joint]:
    """The joint as one joint, or as two one after the other."""
    if ride.kind in _ONE_AXIS:
        return [_about_axis(graph, ride, ride.name, "axis")]
    if ride.kind in _NO_AXIS:
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


def _about_axis(graph: Graph, ride: _Ride, name: str, tag: str) -> Joint:
    """A joint of one freedom along or about an axis of the joint element."""
    element, scope = ride.node.element, ride.node.scope
    axis = element.need(tag)
    xyz = axis.first("xyz")
    direction = Vec3(*xyz.numbers(xyz.text, 3)) if xyz else Vec3(0.0, 0.0, 1.0)
    frame = xyz.attributes.get("expressed_in", "") if xyz else ""
    # up to 1.4 an axis is always given in the model frame, up to 1.6 where it says so
    if scope.version < (1, 5) or is_true(text_of(axis, "use_parent_model_frame")):
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
        text = text_of(limit, tag) or ("-inf" if tag == "lower" else "inf")
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


def _couplings(graph: Graph, ride: _Ride) -> Iterator[Coupling]:
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


def _leader(graph: Graph, ride: _Ride, mimic: Element) -> str:
    key = f"joint {ride.node.scope.prefix}{mimic.get('joint')}"
    if key not in graph.nodes:
        raise ride.node.element.error(f"mimics joint {mimic.get('joint')!r}, which does not exist")
    places = {tag: i for i, tag in _axes(graph.nodes[key].element)}
    axis = mimic.attributes.get("axis", "axis")
    if axis not in places:
        raise ride.node.element.error(f"mimics {axis!r} of a joint that has no such axis")
    return graph.name(key) + (f".{places[axis]}" if places[axis] else "")


def _inertia(graph: Graph, key: str) -> Inertia:
    """Inertia of a link; SDF's default is 1 kg with unit moments."""
    node = graph.nodes[key]
    inertial = node.element.first("inertial")
    if inertial is None:
        return Inertia(1.0, Vec3.zero(), Sym3.diagonal(1.0, 1.0, 1.0))
    if is_true(inertial.attributes.get("auto", "")):
        raise node.element.error("<inertial auto='true'>: inertia from shapes is not supported")
    mass, tensor = _number(inertial, "mass", 1.0), inertial.first("inertia")
    if mass < 0:
        raise node.element.error(f"negative mass {mass:g}")
    entries = {"ixx": 1.0, "ixy": 0.0, "iyy": 1.0, "ixz": 0.0, "iyz": 0.0, "izz": 1.0}
    moments = [_number(tensor, k, x) if tensor else x for k, x in entries.items()]
    X, reference = pose_of(inertial), pose_base(inertial)
    if reference:
        X = graph.relative(key, graph.find(reference, node.scope, inertial)) @ X
    return X.to_parent(Inertia(mass, Vec3.zero(), Sym3(*moments)))


def _frames(graph: Graph, loops: list[_Ride]) -> Iterator[FrameDraft]:
    """The frames of the file, and those at the two ends of each loop closure."""
    ends: list[tuple[str, str | None, Transform]] = []
    for key in graph.of("frame"):
        link = graph.link_of(key)
        ends.append((graph.name(key), link, graph.relative(link or WORLD, key)))
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


def _findings(root: Element, graph: Graph, ridden: set[str]) -> Iterator[Finding]:
    """What was invented, and elements that speak of physics and are not taken up."""
    for key in graph.of("link"):
        link, subject = graph.nodes[key].element, f"link {graph.name(key)!r}"
        given = [c.tag for c in link.need("inertial").children] if link.first("inertial") else []
        if not {"mass", "inertia"} <= set(given) and not graph.nodes[key].scope.static:
            message = "has no complete <inertial>: SDF's default of 1 kg and 1 kg m² stands in"
            yield Finding("info", "invented", subject, message)
        for tag, default in (("gravity", True), ("kinematic", False)):
            if link.first(tag) and is_true(text_of(link, tag)) != default:
                yield Finding("warning", "ignored", subject, f"<{tag}> is ignored")
    for key in graph.of("joint"):
        if key not in ridden:
            message = "is ignored: its child link stands still in a static model"
            yield Finding("info", "ignored", f"joint {graph.name(key)!r}", message)
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
