"""Indices of the joints of an engine's model in its vectors, matched to our joints by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qddot.engines.forms import FORMS, Form, joint_family
from qddot.engines.rotations import quaternion_of_matrix, quaternion_product, rotation_matrix
from qddot.errors import JointsDiffer
from qddot.model.model import Body, Model
from qddot.spatial.algebra import Motion, Transform, Vec3

__all__ = ["JointMap", "Layout", "Place", "match_joints"]

_IDENTITY = Transform.identity()
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Place:
    """A joint of an engine's model: its form, and where its coordinates and velocities begin.

    The joint stands as its file places it at the coordinate `zero`; `sign` is −1 where it turns
    the other way. `body` is its child body, `row` the index of a force on that, `point` where
    such a force acts, in coordinates of our body. Of a free joint, `placement` is the frame that
    its pose is given in and `frame` its body as seen from ours. `plane` has the axes x, y and the
    normal of a planar joint, on its body.
    """

    name: str
    form: str
    iq: int
    iv: int
    body: str = ""
    row: int | None = None
    zero: float = 0.0
    sign: float = 1.0
    point: tuple[float, ...] = (0.0, 0.0, 0.0)
    placement: Transform = _IDENTITY
    frame: Transform = _IDENTITY
    plane: tuple[Vec3, ...] = ()


@dataclass(frozen=True, eq=False)
class Layout:
    """The joints of an engine's model.

    `followers` are joints that have no coordinate there because they follow another one. Forces on
    bodies are an array of `rows` rows, in local or world axes; `angular_first` tells the order of
    twists and wrenches, `triangle` that only the upper triangle of a mass matrix is to be read.
    """

    engine: str
    places: tuple[Place, ...]
    neutral: np.ndarray
    nv: int
    rows: int = 0
    followers: tuple[str, ...] = ()
    local_forces: bool = False
    angular_first: bool = False
    triangle: bool = False


@dataclass(frozen=True)
class JointMap:
    """A joint of ours and its place in an engine's vectors."""

    body: Body
    place: Place

    @property
    def form(self) -> Form:
        """The convention of the engine for this joint."""
        return FORMS[self.place.form]

    @property
    def iq(self) -> slice:
        """Its coordinates there."""
        return slice(self.place.iq, self.place.iq + self.form.nq)

    @property
    def iv(self) -> slice:
        """Its velocities there."""
        return slice(self.place.iv, self.place.iv + self.form.nv)

    @property
    def gain(self) -> float:
        """Coordinate there by coordinate of ours."""
        return self.place.sign * self.body.joint.ratio

    @property
    def shift(self) -> float:
        """Coordinate there where ours is zero."""
        return self.place.sign * self.body.joint.offset + self.place.zero

    def to_q(self, x: np.ndarray) -> np.ndarray:
        """Coordinates there."""
        return self.form.to_q(self._engine_coordinates(x))

    def from_q(self, y: np.ndarray) -> np.ndarray:
        """Coordinates of ours."""
        x = self.form.from_q(y)
        if self.form.family == "one":
            return (x - self.shift) / self.gain
        ends = self._constant_poses
        return x if ends is None else _compose_poses(ends[0].inverse(), x, ends[1].inverse())

    def velocity_map(self, x: np.ndarray) -> np.ndarray:
        """T with T v the velocities there."""
        T = self.form.velocity_map(self._engine_coordinates(x))
        if self.form.family == "one":
            return T * self.gain
        return T if self._constant_poses is None else T @ self._frame_twist_map

    def axes_drift(self, v: np.ndarray) -> np.ndarray:
        """The d of turning axes in velocities of ours; see `Form.axes_drift`."""
        if self._constant_poses is None:
            return self.form.axes_drift(v)
        A = self._frame_twist_map
        return self.form.axes_drift(v @ A.T) @ np.linalg.inv(A).T

    def _engine_coordinates(self, x: np.ndarray) -> np.ndarray:
        """Our coordinates with the zero, direction and frames of the engine, in our form."""
        if self.form.family == "one":
            return self.gain * x + self.shift
        ends = self._constant_poses
        return x if ends is None else _compose_poses(ends[0], x, ends[1])

    @property
    def moves_frames(self) -> bool:
        """Whether poses there are those of other frames than ours."""
        return self._constant_poses is not None

    @property
    def _constant_poses(self) -> tuple[Transform, Transform] | None:
        """The constant poses before and after ours that give theirs; None for identities."""
        if self.form.family not in ("free", "ball"):
            return None
        before = self.place.frame.inverse()
        if self.form.family == "free":
            before = self.place.placement.inverse() @ self.body.placement
        ends = before, self.place.frame
        return None if ends == (_IDENTITY, _IDENTITY) else ends

    @property
    def _frame_twist_map(self) -> np.ndarray:
        """The map of twists of our body to twists of its frame there."""
        columns = [self.place.frame.to_child(Motion.of(e)) for e in np.eye(6).tolist()]
        A = np.array([list(column) for column in columns]).T
        return A[3:, 3:] if self.form.family == "ball" else A


def _compose_poses(before: Transform, x: np.ndarray, after: Transform) -> np.ndarray:
    """A pose, or a rotation, between two constant ones."""
    # orientation: a q b
    a, b = (quaternion_of_matrix(_rotation_array(X)) for X in (before, after))
    turned = quaternion_product(
        quaternion_product(np.broadcast_to(a, x[..., -4:].shape), x[..., -4:]), b
    )
    if x.shape[-1] == 4:
        return turned
    # position: the last offset turned by both, the first one added
    shift = x[..., :3] + rotation_matrix(x[..., 3:]) @ np.array([float(c) for c in after.p])
    place = np.array([float(c) for c in before.p]) + shift @ _rotation_array(before).T
    return np.concatenate([place, turned], axis=-1)


def _rotation_array(X: Transform) -> np.ndarray:
    return np.array([[float(c) for c in row] for row in X.R])


def match_joints(
    model: Model, layout: Layout, names: Mapping[str, str], partial: bool
) -> tuple[JointMap, ...]:
    """The joints of a model with their places, by name (`names` has those that differ there).

    A free joint is also found by the body that it carries, or as the only one on either side.
    With `partial`, joints that only the engine has stay where its neutral configuration has them.
    """
    # places by name
    known = {p.name: p for p in layout.places}
    free = [p for p in layout.places if FORMS[p.form].family == "free"]
    alone = sum(b.joint.kind.floats for b in model.bodies) == 1
    found: dict[str, Place] = {}
    for body in model.bodies:
        place = known.get(names.get(body.joint.name, body.joint.name))
        if place is None and body.joint.kind.floats:
            # few files name a free joint: by its body, or as the only one on either side
            by_body = [p for p in free if p.body == body.name]
            candidates = by_body or (free if alone else [])
            place = candidates[0] if len(candidates) == 1 else None
        if place is not None:
            found[body.joint.name] = place
    # refuse joints that only one side has, and joints that follow another only there
    ours = [b.joint for b in model.bodies if b.joint.name not in found]
    here = [j.name for j in ours if not (j.leader and j.name in layout.followers)]
    coupled = [name for name in here if name in layout.followers]
    if coupled:
        reason = f"{', '.join(map(repr, coupled))} follow other joints there and are free here: "
        reason += "load the robot with couplings='exact'"
        raise JointsDiffer(layout.engine, model.name, reason=reason)
    matched = {p.name for p in found.values()}
    there = [p.name for p in layout.places if p.name not in matched]
    if here or (there and not partial):
        raise JointsDiffer(layout.engine, model.name, here, there)
    for body in model.bodies:
        if body.joint.name in found:
            # refuse a joint of another kind, or one in a plane with other axes on the same body
            joint, place = body.joint, found[body.joint.name]
            if FORMS[place.form].family != joint_family(joint.kind):
                reason = f"{joint.name!r} is a {joint.kind.name} joint here, {place.form!r} there"
                raise JointsDiffer(layout.engine, model.name, reason=reason)
            plane = place.plane if place.body == body.name else ()
            for mine, other in zip(joint.axes if plane else (), plane, strict=True):
                apart = mine - other
                if apart.dot(apart) > _ROUNDING**2:
                    reason = f"the plane of {joint.name!r} has other axes x and y there"
                    raise JointsDiffer(layout.engine, model.name, reason=reason)
    return tuple(JointMap(b, found[b.joint.name]) for b in model.bodies if b.joint.name in found)
