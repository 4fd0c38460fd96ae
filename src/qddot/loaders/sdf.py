"""SDFormat 1.4 to 1.12: one <model>, or a <world> of models.

What stands in a nested model has "model::" before its name, as SDF writes it; so has what stands in
the models of a world, unless it holds just one. A link that no joint carries is free (fixed to the
world in a static model). A joint frame away from the origin of its child link becomes a link of its
own without mass, "link/joint", to which the child link is fixed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from qddot.loaders.description import Description
from qddot.loaders.sdf_frames import (
    WORLD,
    Graph,
    Node,
    Scope,
    collect_frames,
    is_true,
    pose_base,
    pose_of,
    read_version,
    text_of,
)
from qddot.loaders.trust import ReadableFolders
from qddot.loaders.xml import Element
from qddot.model.joints import JOINTS, Drivetrain, Joint, Limits
from qddot.model.links import Coupling, Finding, FrameDraft, Link, Loop
from qddot.model.model import STANDARD_GRAVITY
from qddot.spatial.algebra import Inertia, Sym3, Transform, Vec3
from qddot.spatial.manifold import quaternion_from_rotation

__all__ = ["describe_sdf"]

_UNLIMITED = 1e16
_Z = Vec3(0.0, 0.0, 1.0)
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
class _PlacedJoint:
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


def describe_sdf(root: Element, path: Path, trust: bool = False) -> Description:
    """The description in an SDF document, of which the <sdf> element is given.

    Files outside the folder and the packages of the file are included with `trust` only.
    """
    worlds, models = list(root.all("world")), list(root.all("model"))
    if len(worlds) + len(models) != 1:
        raise root.error("needs exactly one <world> or <model>")
    top = worlds[0] if worlds else root
    graph = Graph(ReadableFolders(path, trust))
    collect_frames(graph, top, Scope("", WORLD, read_version(root)))
    roots = [k for k in graph.keys_of("model") if graph.nodes[k].scope.model == WORLD]
    if len(roots) == 1:
        graph.hidden = f"{roots[0]}::"
    links = graph.keys_of("link")
    if not links:
        raise root.error("has no <link>")
    # one joint for each link makes the tree, the joints left over close loops
    placed_joints, tree = _spanning_tree(graph)
    carried, kept = {r.child for r in tree}, {r.key for r in tree}
    closing = [r for r in placed_joints if r.key not in kept]
    moved = [link for placed in tree for link in _child_links(graph, placed)]
    # a link that no joint carries is fixed in a static model, free elsewhere
    held = {}
    for key in (k for k in links if k not in carried):
        name, static = graph.short_name(key), graph.nodes[key].scope.static
        kind = "fixed" if static else "free"
        X = graph.relative_pose(WORLD, key) if static else Transform.identity()
        joint = Joint(f"{name} ({kind})", JOINTS[kind])
        held[key] = Link(name, None, X, joint, _read_inertia(graph, key))
    # the frames of the file, and those at the two ends of each loop closure
    frames = []
    for key in graph.keys_of("frame"):
        link = graph.link_of(key)
        X = graph.relative_pose(link or WORLD, key)
        frames.append(FrameDraft(graph.short_name(key), link and graph.short_name(link), X))
    loops, findings = [], []
    for r in closing:
        first, second = f"{r.name}/1", f"{r.name}/2"
        frames.append(FrameDraft(first, r.parent and graph.short_name(r.parent), r.on_parent))
        frames.append(FrameDraft(second, graph.short_name(r.child), r.on_child))
        direction = _Z if r.kind in _NO_AXIS else _split_joint(graph, r)[0].axes[0]
        loops.append(Loop(r.name, _CLOSES_LOOP[r.kind], first, second, axis=direction))
        axis = r.node.element.first("axis")
        if axis and (axis.first("limit") or axis.first("dynamics")):
            message = "closes a loop: its limits and losses are ignored"
            findings.append(Finding("warning", "ignored", f"joint {r.name!r}", message))
    return Description(
        roots[0] if len(roots) == 1 else top.get("name"),
        (*held.values(), *moved),
        tuple(frames),
        tuple(c for r in tree for c in _read_couplings(graph, r)),
        tuple(loops),
        gravity=_read_gravity(top),
        configurations=_initial_configuration(graph, held, moved),
        findings=(
            *findings,
            *_list_findings(root, graph, {r.key for r in placed_joints}),
        ),
        file=str(path),
        lines={
            f"{n.element.tag} {graph.short_name(k)!r}": n.element.line
            for k, n in graph.nodes.items()
            if n.element.file == str(path)
        },
        root_poses={graph.short_name(k): graph.relative_pose(WORLD, k) for k in links},
    )


def _read_gravity(world: Element) -> Vec3:
    """Gravity of a world, which older files write inside <physics>."""
    for place in (world, world.first("physics")):
        given = place.first("gravity") if place else None
        if given:
            return Vec3(*given.numbers(given.text, 3))
    return STANDARD_GRAVITY


def _read_number(element: Element, tag: str, default: float) -> float:
    """A number from a child, or from an attribute of that name."""
    child = element.first(tag)
    return child.numbers(child.text, 1)[0] if child else element.number(tag, default)


def _spanning_tree(graph: Graph) -> tuple[list[_PlacedJoint], list[_PlacedJoint]]:
    """The joints of the file, and those of the tree: one for each link; the others close loops."""
    placed_joints = []
    for key in graph.keys_of("joint"):
        node = graph.nodes[key]
        element = node.element
        if element.get("type") not in _TYPES:
            raise element.error(f"type {element.get('type')!r} is not one of {', '.join(_TYPES)}")
        parent, child = (
            graph.link_of(graph.resolve_name(element.need(tag).text, node.scope, element))
            for tag in ("parent", "child")
        )
        if child is None or child == parent:
            what = "the world" if child is None else "its own parent link"
            raise element.error(f"its child cannot be {what}")
        # the child of a joint in a static model stands still
        if not graph.nodes[child].scope.static:
            ends = graph.relative_pose(parent or WORLD, key), graph.relative_pose(child, key)
            name = graph.short_name(key)
            placed_joints.append(_PlacedJoint(key, name, node, parent, child, *ends))
    # what cannot close a loop is in the tree first, what has least freedom last
    chosen: dict[str, _PlacedJoint] = {}
    for placed in sorted(
        placed_joints, key=lambda r: (r.kind in _CLOSES_LOOP) + (r.kind in _NO_AXIS)
    ):
        first = chosen.setdefault(placed.child, placed)
        if first is not placed and placed.kind not in _CLOSES_LOOP:
            reason = f"its child link is the child of {first.node.element.label} too"
            closing = ", ".join(_CLOSES_LOOP)
            raise placed.node.element.error(f"{reason}; only these close a loop: {closing}")
    return placed_joints, [r for r in placed_joints if chosen[r.child] is r]


def _initial_configuration(
    graph: Graph, held: Mapping[str, Link], moved: Sequence[Link]
) -> dict[str, dict[str, tuple[float, ...]]]:
    """The "initial" configuration: free links where the file places them, joints at zero."""
    free = {k: graph.relative_pose(WORLD, k) for k, x in held.items() if x.joint.kind.floats}
    if all(_is_identity(X) for X in free.values()):
        return {}
    values: dict[str, tuple[float, ...]] = {}
    for joint in (link.joint for link in moved):
        values[joint.name] = joint.kind.neutral
        # a joint that is a chain is taken apart into joints of one coordinate
        values |= {f"{joint.name}.{suffix}": (0.0,) for suffix in joint.kind.suffixes}
    for key, X in free.items():
        w, x, y, z = quaternion_from_rotation(X.R)
        values[held[key].joint.name] = (*X.p, x, y, z, w)
    return {"initial": values}


def _child_links(graph: Graph, placed: _PlacedJoint) -> Iterator[Link]:
    """The child link of a joint, after links without mass where one link is not enough."""
    name, inertia = graph.short_name(placed.child), _read_inertia(graph, placed.child)
    parent = placed.parent and graph.short_name(placed.parent)
    joints = _split_joint(graph, placed)
    X, back = placed.on_parent, placed.on_child.inverse()
    if placed.kind == "fixed":
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


def _split_joint(graph: Graph, placed: _PlacedJoint) -> list[Joint]:
    """The joint as one joint, or as two one after the other."""
    if placed.kind in _ONE_AXIS:
        return [_one_axis_joint(graph, placed, placed.name, "axis")]
    if placed.kind in _NO_AXIS:
        axis = placed.node.element.first("axis")
        losses = (
            _read_drivetrain(placed.node.element, axis)
            if axis and placed.kind == "ball"
            else Drivetrain()
        )
        losses = dataclasses.replace(losses, rest=None)
        return [Joint(placed.name, JOINTS[placed.kind], drivetrain=losses)]
    pair = [
        _one_axis_joint(graph, placed, f"{placed.name}.{i}", a)
        for i, a in _axis_elements(placed.node.element)
    ]
    (limits, drive), other = ((j.limits, j.drivetrain) for j in pair)
    bounded = limits.lower > -math.inf or limits.upper < math.inf
    if placed.kind == "revolute2" or (limits, drive) != other or bounded or drive.stiffness:
        return pair
    axes = (*pair[0].axes, *pair[1].axes)
    return [Joint(placed.name, JOINTS["universal"], axes, limits=limits, drivetrain=drive)]


def _axis_elements(element: Element) -> list[tuple[int, str]]:
    return [(1, "axis"), (2, "axis2")] if element.get("type") in _TWO_AXES else [(0, "axis")]


def _one_axis_joint(graph: Graph, placed: _PlacedJoint, name: str, tag: str) -> Joint:
    """A joint of one freedom along or about an axis of the joint element."""
    element, scope = placed.node.element, placed.node.scope
    axis = element.need(tag)
    xyz = axis.first("xyz")
    direction = Vec3(*xyz.numbers(xyz.text, 3)) if xyz else _Z
    frame = xyz.attributes.get("expressed_in", "") if xyz else ""
    # up to 1.4 an axis is always given in the model frame, up to 1.6 where it says so
    if scope.version < (1, 5) or is_true(text_of(axis, "use_parent_model_frame")):
        frame = frame or "__model__"
    if frame:
        R = graph.relative_pose(placed.key, graph.resolve_name(frame, scope, axis)).R
        direction = R.apply(direction)
    kind = JOINTS[_ONE_AXIS.get(placed.kind, "revolute")]
    # metres a revolution; the older thread_pitch has radians a metre, left-handed
    pitch = 0.0
    if placed.kind == "screw" and element.first("screw_thread_pitch"):
        pitch = _read_number(element, "screw_thread_pitch", 0.0) / math.tau
    elif placed.kind == "screw":
        thread = _read_number(element, "thread_pitch", 0.0)
        if thread == 0.0:
            reason = "needs a <screw_thread_pitch>, or a <thread_pitch> that is not zero"
            raise element.error(reason)
        pitch = -math.tau / thread / math.tau
    bounds, drive = _read_limits(axis, placed.kind), _read_drivetrain(element, axis)
    return Joint(name, kind, (element.unit(direction),), pitch, limits=bounds, drivetrain=drive)


def _read_limits(axis: Element, given: str) -> Limits:
    limit = axis.first("limit")
    if limit is None:
        return Limits()

    def read_bound(tag: str) -> float:
        text = text_of(limit, tag) or ("-inf" if tag == "lower" else "inf")
        try:
            unlimited = abs(float(text)) >= _UNLIMITED
        except ValueError:
            raise limit.error(f"{tag} {text!r} is not a number") from None
        return math.copysign(math.inf, float(text)) if unlimited else limit.numbers(text, 1)[0]

    position = (
        (-math.inf, math.inf)
        if given == "continuous"
        else (read_bound("lower"), read_bound("upper"))
    )
    speed, effort = (
        b if b >= 0 else math.inf for b in (read_bound("velocity"), read_bound("effort"))
    )
    return Limits(*position, speed, effort)


def _read_drivetrain(element: Element, axis: Element) -> Drivetrain:
    dynamics = axis.first("dynamics") or axis
    losses = {key: _read_number(dynamics, key, 0.0) for key in ("damping", "friction")}
    for key, value in losses.items():
        if value < 0:
            raise element.error(f"negative {key} {value:g}")
    stiffness = _read_number(dynamics, "spring_stiffness", 0.0)
    return Drivetrain(
        rotor_inertia=_read_number(element, "drake:rotor_inertia", 0.0),
        gear_ratio=_read_number(element, "drake:gear_ratio", 1.0),
        damping=losses["damping"],
        friction=losses["friction"],
        stiffness=stiffness,
        rest=(_read_number(dynamics, "spring_reference", 0.0),) if stiffness else None,
    )


def _read_couplings(graph: Graph, placed: _PlacedJoint) -> Iterator[Coupling]:
    element = placed.node.element
    found = [(placed.name, element.first("drake:mimic"))]
    for i, tag in _axis_elements(element):
        axis = element.first(tag)
        found.append((f"{placed.name}.{i}" if i else placed.name, axis and axis.first("mimic")))
    for follower, mimic in found:
        if mimic:
            ratio = _read_number(mimic, "multiplier", 1.0)
            reference = _read_number(mimic, "reference", 0.0)
            offset = _read_number(mimic, "offset", 0.0) - ratio * reference
            # the leader, with the number of its axis where it has several
            key = f"joint {placed.node.scope.prefix}{mimic.get('joint')}"
            if key not in graph.nodes:
                raise element.error(f"mimics joint {mimic.get('joint')!r}, which does not exist")
            places = {tag: i for i, tag in _axis_elements(graph.nodes[key].element)}
            tag = mimic.attributes.get("axis", "axis")
            if tag not in places:
                raise element.error(f"mimics {tag!r} of a joint that has no such axis")
            leader = graph.short_name(key) + (f".{places[tag]}" if places[tag] else "")
            yield Coupling(follower, leader, ratio, offset)


def _read_inertia(graph: Graph, key: str) -> Inertia:
    """Inertia of a link; SDF's default is 1 kg with unit moments."""
    node = graph.nodes[key]
    inertial = node.element.first("inertial")
    if inertial is None:
        return Inertia(1.0, Vec3.zero(), Sym3.diagonal(1.0, 1.0, 1.0))
    if is_true(inertial.attributes.get("auto", "")):
        raise node.element.error("<inertial auto='true'>: inertia from shapes is not supported")
    mass, tensor = _read_number(inertial, "mass", 1.0), inertial.first("inertia")
    if mass < 0:
        raise node.element.error(f"negative mass {mass:g}")
    entries = {"ixx": 1.0, "ixy": 0.0, "iyy": 1.0, "ixz": 0.0, "iyz": 0.0, "izz": 1.0}
    moments = [_read_number(tensor, k, x) if tensor else x for k, x in entries.items()]
    X, reference = pose_of(inertial), pose_base(inertial)
    if reference:
        X = graph.relative_pose(key, graph.resolve_name(reference, node.scope, inertial)) @ X
    return X.to_parent(Inertia(mass, Vec3.zero(), Sym3(*moments)))


def _list_findings(root: Element, graph: Graph, placed_keys: set[str]) -> Iterator[Finding]:
    """Default inertias, and elements of the physics that are ignored."""
    # links
    for key in graph.keys_of("link"):
        link, subject = graph.nodes[key].element, f"link {graph.short_name(key)!r}"
        given = [c.tag for c in link.need("inertial").children] if link.first("inertial") else []
        if not {"mass", "inertia"} <= set(given) and not graph.nodes[key].scope.static:
            message = "has no complete <inertial>: SDF's default of 1 kg and 1 kg m² stands in"
            yield Finding("info", "invented", subject, message)
        for tag, default in (("gravity", True), ("kinematic", False)):
            if link.first(tag) and is_true(text_of(link, tag)) != default:
                yield Finding("warning", "ignored", subject, f"<{tag}> is ignored")
    for key in graph.keys_of("joint"):
        if key not in placed_keys:
            message = "is ignored: its child link stands still in a static model"
            yield Finding("info", "ignored", f"joint {graph.short_name(key)!r}", message)
    # elements at any depth, also of included files
    nodes = graph.nodes.values()
    stack = [root, *(n.element for n in nodes if n.inner and n.inner.depth > n.scope.depth)]
    while stack:
        element = stack.pop()
        for child in element.children:
            foreign = child.tag.startswith("drake:") and child.tag not in _DRAKE_TAKEN_UP
            if foreign or child.tag in _IGNORED:
                message = f"<{child.tag}> on line {child.line} is ignored"
                kind = "left out" if child.tag == "plugin" else "ignored"
                yield Finding("info", kind, element.label, message)
            elif child.tag not in ("visual", "collision"):
                stack.append(child)
