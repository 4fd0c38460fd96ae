"""States, forces and matrices of a robot in the conventions of another engine, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qddot.adapt.layout import JointMap, Layout, match_joints
from qddot.algorithms.kinematics import body_poses, external_forces
from qddot.errors import DoubtfulQuaternion, NotUnderstood, ShapeMismatch
from qddot.model import WORLD
from qddot.robot import Robot, Wrench

__all__ = ["Adapter", "make_adapter"]

_LONGEST_DEVIATION = 1e-2
_NEARLY_ONE = np.cos(np.radians(5.0))
"""Cosine of half of ten degrees."""
_ORDER = "x, y, z, w"


@dataclass(frozen=True, eq=False)
class Adapter:
    """The same robot here and in another engine, joints matched by name.

    `to_x` takes x of qddot to the engine, `from_x` brings it back. A `q` or `v` that a conversion
    needs beside what it converts is always that of qddot. All leading axes are batch. Where joints
    follow others here and are free there, what they do there is that of their leader; torques go
    to the leader, and Jacobians and mass matrices can only be brought back.
    """

    robot: Robot
    layout: Layout
    joints: tuple[JointMap, ...]
    check: bool = True

    @property
    def engine(self) -> str:
        """The name of the engine."""
        return self.layout.engine

    def to_q(self, q: ArrayLike) -> np.ndarray:
        """Configurations there."""
        q = self._taken("q", q, self.robot.nq)
        result = np.tile(self.layout.neutral, (*q.shape[:-1], 1))
        for joint in self.joints:
            x = q[..., joint.body.iq]
            if joint.form.quaternion:
                self._check(joint, x[..., -4:], "qddot", _ORDER)
            result[..., joint.iq] = joint.to_q(x)
        return result

    def from_q(self, q: ArrayLike) -> np.ndarray:
        """Configurations from there; an angle that is written as cosine and sine is in (−π, π]."""
        q = self._taken("q", q, len(self.layout.neutral))
        result = np.zeros((*q.shape[:-1], self.robot.nq))
        for joint in self._leaders:
            y, quaternion = q[..., joint.iq], joint.form.quaternion
            if quaternion:
                order = ", ".join(sorted("xyzw", key=lambda c: quaternion["xyzw".index(c)]))
                self._check(joint, y[..., list(quaternion)], self.engine, order)
            result[..., joint.body.iq] = joint.from_q(y)
        return result

    def velocity_map(self, q: ArrayLike) -> np.ndarray:
        """T (nv there × nv here) with T v the velocities there; Tᵀ takes torques back."""
        return self._map(self._taken("q", q, self.robot.nq), self.joints)

    def to_v(self, q: ArrayLike, v: ArrayLike) -> np.ndarray:
        """Velocities there."""
        return _apply(self.velocity_map(q), self._taken("v", v, self.robot.nv))

    def from_v(self, q: ArrayLike, v: ArrayLike) -> np.ndarray:
        """Velocities from there."""
        return self._inverse(q, self._taken("v", v, self.layout.nv))

    def to_a(self, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> np.ndarray:
        """Accelerations there: T a + Ṫ v."""
        a = self._taken("a", a, self.robot.nv)
        return _apply(self.velocity_map(q), a + self._drift(v))

    def from_a(self, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> np.ndarray:
        """Accelerations from there."""
        return self._inverse(q, self._taken("a", a, self.layout.nv)) - self._drift(v)

    def to_tau(self, q: ArrayLike, tau: ArrayLike) -> np.ndarray:
        """Joint torques there."""
        q = self._taken("q", q, self.robot.nq)
        tau = self._taken("tau", tau, self.robot.nv)
        return _apply(self._dual(q), tau)

    def from_tau(self, q: ArrayLike, tau: ArrayLike) -> np.ndarray:
        """Joint torques from there: Tᵀ τ."""
        T = self.velocity_map(q)
        return _apply(T.swapaxes(-1, -2), self._taken("tau", tau, self.layout.nv))

    def to_jacobian(self, q: ArrayLike, J: ArrayLike) -> np.ndarray:
        """Jacobians there: other columns, and the angular rows first where twists are so."""
        J = self._matrix("J", J, self.robot.nv)
        L = self._square(q, "a Jacobian")
        return self.to_spatial(J @ L.swapaxes(-1, -2), -2)

    def from_jacobian(self, q: ArrayLike, J: ArrayLike) -> np.ndarray:
        """Jacobians from there, three rows or six."""
        return self.from_spatial(self._matrix("J", J, self.layout.nv), -2) @ self.velocity_map(q)

    def to_mass_matrix(self, q: ArrayLike, M: ArrayLike) -> np.ndarray:
        """Mass matrices there."""
        M, L = self._matrix("M", M, self.robot.nv), self._square(q, "a mass matrix")
        return L @ M @ L.swapaxes(-1, -2)

    def from_mass_matrix(self, q: ArrayLike, M: ArrayLike) -> np.ndarray:
        """Mass matrices from there: Tᵀ M T. Of Pinocchio's the upper triangle is read."""
        T, M = self.velocity_map(q), self._symmetric(M)
        return T.swapaxes(-1, -2) @ M @ T

    def to_bias(
        self, q: ArrayLike, v: ArrayLike, h: ArrayLike, M: ArrayLike | None = None
    ) -> np.ndarray:
        """Bias forces C v + g there: turning axes take their part of M a.

        `M` is the mass matrix here; the robot's own if it is not given.
        """
        h, d = self._taken("h", h, self.robot.nv), self._drift(v)
        if d.any():
            h = h - _apply(np.asarray(self.robot.mass_matrix(q) if M is None else M), d)
        return self.to_tau(q, h)

    def from_bias(
        self, q: ArrayLike, v: ArrayLike, h: ArrayLike, M: ArrayLike | None = None
    ) -> np.ndarray:
        """Bias forces C v + g from there.

        `M` is the mass matrix there; the robot's own stands in for it if it is not given.
        """
        h, d = self.from_tau(q, h), self._drift(v)
        if not d.any():
            return h
        own = self.robot.mass_matrix(q) if M is None else self.from_mass_matrix(q, M)
        return h + _apply(np.asarray(own), d)

    def to_spatial(self, x: ArrayLike, axis: int = -1) -> np.ndarray:
        """A twist or wrench, linear part first here, in the order of the engine."""
        x = np.asarray(x, dtype=float)
        return np.roll(x, 3, axis) if self.layout.angular_first and x.shape[axis] == 6 else x

    def from_spatial(self, x: ArrayLike, axis: int = -1) -> np.ndarray:
        """A twist or wrench from the order of the engine; two halves that change places."""
        return self.to_spatial(x, axis)

    def to_wrenches(self, q: ArrayLike, f_ext: Wrench | Sequence[Wrench]) -> np.ndarray:
        """External wrenches as the engine's array of forces on bodies, shape (…, rows, 6).

        MuJoCo: `xfrc_applied`, [f; n] at the centre of mass in world axes. Pinocchio: one a joint,
        [f; n] in its axes. Drake: one a body, [n; f] at its origin in world axes.
        """
        given = [f_ext] if isinstance(f_ext, Wrench) else list(f_ext)
        q = self._taken("q", q, self.robot.nq)
        values = [self._taken(f"wrench at {w.frame!r}", w.value, 6) for w in given]
        batch = np.broadcast_shapes(q.shape[:-1], *(x.shape[:-1] for x in values))
        q = np.broadcast_to(q, (*batch, q.shape[-1]))
        columns = [list(np.moveaxis(np.broadcast_to(x, (*batch, 6)), -1, 0)) for x in values]
        places = [(w.frame, w.reference) for w in given]
        self._check_frames(places)
        coordinates = list(np.moveaxis(q, -1, 0))
        forces = external_forces(self.robot.model, coordinates, places, columns)
        result, poses = np.zeros((*batch, self.layout.rows, 6)), self._rotations(q)
        for i, joint in self._carriers.items():
            F = np.stack([np.broadcast_to(x, batch) for x in forces[i]], axis=-1)
            f, n = F[..., :3], F[..., 3:] - np.cross(joint.place.point, F[..., :3])
            if not self.layout.local_forces:
                f, n = _apply(poses[i], f), _apply(poses[i], n)
            result[..., joint.place.row, :] = self.to_spatial(np.concatenate([f, n], axis=-1))
        return result

    def from_wrenches(self, q: ArrayLike, forces: ArrayLike) -> tuple[Wrench, ...]:
        """The engine's array of forces on bodies as wrenches at our bodies, one each."""
        q, rows = self._taken("q", q, self.robot.nq), np.asarray(forces, dtype=float)
        if rows.shape[-2:] != (self.layout.rows, 6):
            expected = f"(..., {self.layout.rows}, 6)"
            raise ShapeMismatch("from_wrenches", "forces", expected, rows.shape)
        poses, found = self._rotations(q), []
        for i, joint in self._carriers.items():
            F = self.from_spatial(rows[..., joint.place.row, :])
            f, n = F[..., :3], F[..., 3:]
            if not self.layout.local_forces:
                back = poses[i].swapaxes(-1, -2)
                f, n = _apply(back, f), _apply(back, n)
            value = np.concatenate([f, n + np.cross(joint.place.point, f)], axis=-1)
            found.append(Wrench(self.robot.body_names[i], "local", value))
        return tuple(found)

    @property
    def rows(self) -> tuple[int | None, ...]:
        """Where each of our bodies stands among the engine's; None for one it does not have."""
        return tuple(
            self._carriers[i].place.row if i in self._carriers else None
            for i in range(self.robot.model.nb)
        )

    @property
    def _leaders(self) -> list[JointMap]:
        """Joints that have coordinates of their own here."""
        return [j for j in self.joints if j.body.joint.leader is None]

    @property
    def _carriers(self) -> dict[int, JointMap]:
        """The joint of each of our bodies that the engine has too."""
        index = {b.name: i for i, b in enumerate(self.robot.model.bodies)}
        return {index[j.body.name]: j for j in self.joints if j.place.row is not None}

    def _map(self, q: np.ndarray, joints: Sequence[JointMap], dual: bool = False) -> np.ndarray:
        batch = q.shape[:-1]
        if not any(any(joint.form.parent_axes) for joint in joints):
            q = np.array(self.robot.model.neutral)
        T = np.zeros((*q.shape[:-1], self.layout.nv, self.robot.nv))
        for joint in joints:
            block = joint.turn(q[..., joint.body.iq])
            if dual:
                block = np.linalg.inv(block).swapaxes(-1, -2)
            T[..., joint.iv, joint.body.iv] = block
        return np.broadcast_to(T, (*batch, *T.shape[-2:]))

    def _dual(self, q: np.ndarray) -> np.ndarray:
        """The map of torques, which does the same power: T⁻ᵀ of the leaders."""
        return self._map(q, self._leaders, dual=True)

    def _inverse(self, q: ArrayLike, v: np.ndarray) -> np.ndarray:
        """T⁻¹ v; what followers do there is not read."""
        return _apply(self._dual(self._taken("q", q, self.robot.nq)).swapaxes(-1, -2), v)

    def _square(self, q: ArrayLike, what: str) -> np.ndarray:
        if self.robot.nv != self.layout.nv:
            reason = f"there are {self.layout.nv} velocities there and {self.robot.nv} here: it "
            reason += "can be brought back but not made there; load the robot with couplings='free'"
            raise NotUnderstood(what, self.robot.name, reason)
        return self._dual(self._taken("q", q, self.robot.nq))

    def _drift(self, v: ArrayLike) -> np.ndarray:
        """The d of a' = T (a + d)."""
        v = self._taken("v", v, self.robot.nv)
        d = np.zeros_like(v)
        for joint in self._leaders:
            d[..., joint.body.iv] = joint.drift(v[..., joint.body.iv])
        return d

    def _symmetric(self, M: ArrayLike) -> np.ndarray:
        M = self._matrix("M", M, self.layout.nv)
        if M.shape[-2] != self.layout.nv:
            expected = f"(..., {self.layout.nv}, {self.layout.nv})"
            raise ShapeMismatch(self.engine, "M", expected, M.shape)
        return np.triu(M) + np.triu(M, 1).swapaxes(-1, -2) if self.layout.triangle else M

    def _rotations(self, q: np.ndarray) -> list[np.ndarray]:
        """The rotation of each body, over the batch."""
        poses = body_poses(self.robot.model, list(np.moveaxis(q, -1, 0)))
        batch = q.shape[:-1]
        return [
            np.stack([np.stack([np.broadcast_to(x, batch) for x in row], -1) for row in X.R], -2)
            for X in poses
        ]

    def _check_frames(self, places: Sequence[tuple[str, Any]]) -> None:
        model = self.robot.model
        for name, _ in places:
            body = model.frame(name).body
            if body != WORLD and body not in self._carriers:
                reason = f"it is on {model.bodies[body].name!r}, between joints of one body there"
                raise NotUnderstood("frame", name, reason)

    def _matrix(self, name: str, x: ArrayLike, columns: int) -> np.ndarray:
        x = self._taken(name, x, columns)
        if x.ndim < 2:
            raise ShapeMismatch(self.engine, name, f"(..., rows, {columns})", x.shape)
        return x

    def _taken(self, name: str, x: ArrayLike, size: int) -> np.ndarray:
        try:
            array = np.asarray(x, dtype=float)
        except (TypeError, ValueError) as error:
            accepted = "it needs an array of numbers"
            raise NotUnderstood(f"{self.engine}: {name}", x, accepted) from error
        if array.shape[-1:] != (size,):
            raise ShapeMismatch(f"adapter of {self.engine}", name, f"(..., {size})", array.shape)
        return array

    def _check(self, joint: JointMap, xyzw: np.ndarray, side: str, order: str) -> None:
        """Refuse quaternions of a wrong length or, most of them, in what looks a wrong order."""
        if not self.check or not xyzw.size:
            return
        name, length = joint.body.joint.name, np.linalg.norm(xyzw, axis=-1)
        off = np.abs(length - 1.0)
        if (off > _LONGEST_DEVIATION).any():
            worst = float(np.ravel(length)[int(np.argmax(off))])
            reason = f"its length is {worst:.4g}, not 1"
            raise DoubtfulQuaternion(name, side, order, reason)
        # upright in the other order is half a turn in this one: about x, or about z
        other = np.abs(xyzw[..., 0 if order == _ORDER else 2])
        if np.mean(other > _NEARLY_ONE) > 0.5:
            reason = "as it stands the body is half a turn from upright, in the other order upright"
            raise DoubtfulQuaternion(name, side, order, reason)


def make_adapter(
    robot: Robot,
    layout: Layout,
    names: Mapping[str, str] | None = None,
    partial: bool = False,
    check: bool = True,
) -> Adapter:
    """The adapter of a robot and the layout of an engine's model of it."""
    if not isinstance(robot, Robot):
        raise NotUnderstood("robot", robot, "needs a Robot, as qddot.load gives")
    joints = match_joints(robot.model, layout, names or {}, partial)
    return Adapter(robot, layout, joints, check)


def _apply(A: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.einsum("...ij,...j->...i", A, x)
