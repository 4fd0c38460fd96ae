"""How engines write a joint: the one table of coordinate and velocity conventions.

A row says how the coordinates of a joint of the joint table are written elsewhere, in which order
its velocities stand there, and which of them are in the axes of the parent instead of the body's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qddot.engines.rotations import quaternion_of_rpy, rotation_matrix, rpy_of_quaternion
from qddot.errors import Unsupported
from qddot.model.joints import JointKind

__all__ = ["FORMS", "Form", "joint_family"]

_BLOCKS = {
    "one": (),
    "planar": (slice(0, 2),),
    "ball": (slice(0, 3),),
    "free": (slice(0, 3), slice(3, 6)),
}
"""The velocities of a family of joints that turn together when their axes do."""


def joint_family(kind: JointKind) -> str:
    """The family of a kind of the joint table: one freedom, planar, ball or free."""
    if kind.nq == kind.nv == 1:
        return "one"
    if kind.name not in _BLOCKS:
        accepted = "joints of one freedom, " + ", ".join(name for name in _BLOCKS if name != "one")
        raise Unsupported("kind of joint", kind.name, f"engines have {accepted} in common")
    return kind.name


def _same_coordinates(x: np.ndarray) -> np.ndarray:
    return x


@dataclass(frozen=True)
class Form:
    """A row: `to_q` and `from_q` take our coordinates there and back.

    `order` names the velocity of ours at each place there; `parent_axes` says of each block of our
    velocities (linear, angular) whether it is in the axes of the parent there. `quaternion` has the
    places of x, y, z, w among the coordinates there.
    """

    family: str
    nq: int
    order: tuple[int, ...] = (0,)
    to_q: Callable[[np.ndarray], np.ndarray] = _same_coordinates
    from_q: Callable[[np.ndarray], np.ndarray] = _same_coordinates
    parent_axes: tuple[bool, ...] = ()
    quaternion: tuple[int, ...] = ()

    @property
    def nv(self) -> int:
        """Number of velocities."""
        return len(self.order)

    def velocity_map(self, x: np.ndarray) -> np.ndarray:
        """T (nv × nv) with T v the velocities there, at coordinates x of ours; orthogonal."""
        # turn the blocks that are in parent axes there, then reorder
        Q = np.broadcast_to(np.eye(self.nv), (*x.shape[:-1], self.nv, self.nv))
        if any(self.parent_axes):
            Q, R = Q.copy(), self._rotation_to_parent(x)
            for block, turned in zip(_BLOCKS[self.family], self.parent_axes, strict=True):
                if turned:
                    Q[..., block, block] = R
        return Q[..., list(self.order), :]

    def axes_drift(self, v: np.ndarray) -> np.ndarray:
        """The d with T (a + d) the accelerations there: the effect of turning axes at v."""
        d = np.zeros_like(v)
        if any(self.parent_axes) and self.family == "free":
            d[..., :3] = np.cross(v[..., 3:], v[..., :3])
        elif any(self.parent_axes) and self.family == "planar":
            d[..., 0], d[..., 1] = -v[..., 2] * v[..., 1], v[..., 2] * v[..., 0]
        return d

    def _rotation_to_parent(self, x: np.ndarray) -> np.ndarray:
        """The rotation from body axes to those of the parent, of the plane for a planar joint."""
        if self.family == "planar":
            c, s = np.cos(x[..., 2]), np.sin(x[..., 2])
            return np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], -2)
        return rotation_matrix(x[..., -4:])


def _pick_entries(*places: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: x[..., list(places)]


def _to_pair(x: np.ndarray) -> np.ndarray:
    """The last coordinate, an angle, as cosine and sine."""
    return np.concatenate([x[..., :-1], np.cos(x[..., -1:]), np.sin(x[..., -1:])], axis=-1)


def _from_pair(y: np.ndarray) -> np.ndarray:
    return np.concatenate([y[..., :-2], np.arctan2(y[..., -1:], y[..., -2:-1])], axis=-1)


_XYZ, _SIX = (0, 1, 2), (0, 1, 2, 3, 4, 5)
_ANGULAR_FIRST = (3, 4, 5, 0, 1, 2)

FORMS: dict[str, Form] = {
    "one": Form("one", 1),
    "pair": Form("one", 2, (0,), _to_pair, _from_pair),
    "planar": Form("planar", 3, _XYZ, parent_axes=(False,)),
    "planar pair": Form("planar", 4, _XYZ, _to_pair, _from_pair, (False,)),
    "planar, parent axes": Form("planar", 3, _XYZ, parent_axes=(True,)),
    "ball xyzw": Form("ball", 4, _XYZ, parent_axes=(False,), quaternion=(0, 1, 2, 3)),
    "ball wxyz": Form(
        "ball", 4, _XYZ, _pick_entries(3, 0, 1, 2), _pick_entries(1, 2, 3, 0),
        (False,), (1, 2, 3, 0),
    ),
    "ball rpy": Form("ball", 3, _XYZ, rpy_of_quaternion, quaternion_of_rpy, (True,)),
    "free xyzw": Form(
        "free", 7, _SIX, parent_axes=(False, False), quaternion=(3, 4, 5, 6)
    ),
    "free wxyz": Form(
        "free", 7, _SIX, _pick_entries(0, 1, 2, 6, 3, 4, 5), _pick_entries(0, 1, 2, 4, 5, 6, 3),
        (True, False), (4, 5, 6, 3),
    ),
    "wxyz free": Form(
        "free", 7, _ANGULAR_FIRST,
        _pick_entries(6, 3, 4, 5, 0, 1, 2), _pick_entries(4, 5, 6, 1, 2, 3, 0),
        (True, True), (1, 2, 3, 0),
    ),
    "rpy free": Form(
        "free", 6, _ANGULAR_FIRST,
        lambda x: np.concatenate([rpy_of_quaternion(x[..., 3:]), x[..., :3]], axis=-1),
        lambda y: np.concatenate([y[..., 3:], quaternion_of_rpy(y[..., :3])], axis=-1),
        (True, True),
    ),
}  # fmt: skip
"""MuJoCo: one, ball wxyz, free wxyz. Pinocchio: one, pair, planar pair, ball xyzw, free xyzw.
Drake: one, planar in parent axes, ball rpy, wxyz free, rpy free. qddot: one, planar, … xyzw."""
