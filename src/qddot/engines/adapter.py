"""States, forces and matrices of a robot in the conventions of another engine, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.kinematics import body_poses, external_forces
from qddot.engines.layout import JointMap, Layout, match_joints
from qddot.engines.state_map import StateMap, find_state_map
from qddot.errors import DoubtfulQuaternion, ShapeMismatch, Unsupported, WrongType
from qddot.model.model import WORLD
from qddot.robot.robot import Robot, Wrench

__all__ = ["Adapter", "make_adapter"]

_LONGEST_DEVIATION = 1e-2
_NEARLY_ONE = np.cos(np.radians(5.0))
"""Cosine of half of ten degrees."""
_ORDER = "x, y, z, w"


@dataclass(frozen=True, eq=False)
class Adapter:
    """The same robot here and in another engine, joints matched by name.

    `to_x` takes x of qddot to the engine, `from_x` brings it back. A `q` or `v` that a conversion
    needs beside its argument is always that of qddot. All leading axes are batch. Where joints
    follow others here and are free there, they move there with their leader; torques go to the
    leader, and Jacobians and mass matrices can only be brought back.
    """

    robot: Robot
    layout: Layout
    joints: tuple[JointMap, ...]
    check: bool = True

    @property
    def engine(self) -> str:
        """The name of the engine."""
        return self.layout.engine

    @cached_property
    def state_map(self) -> StateMap | None:
        """The map of one state by indices, for loops over steps; None where joints need more."""
        return find_state_map(self._leading_joints, self.robot.nq, self.robot.nv)

    def to_q(self, q: ArrayLike) -> np.ndarray:
        """Configurations there."""
        q = self._check_array("q", q, self.robot.nq)
        result = np.tile(self.layout.neutral, (*q.shape[:-1], 1))
        for joint in self.joints:
            x = q[..., joint.body.iq]
            if joint.form.quaternion:
                self._check_quaternions(joint, x[..., -4:], "qddot", _ORDER)
            result[..., joint.iq] = joint.to_q(x)
        return result

    def from_q(self, q: ArrayLike) -> np.ndarray:
        """Configurations from there; an angle that is written as cosine and sine is in (−π, π]."""
        q = self._check_array("q", q, len(self.layout.neutral))
        result = np.zeros((*q.shape[:-1], self.robot.nq))
        for joint in self._leading_joints:
            y, quaternion = q[..., joint.iq], joint.form.quaternion
            if quaternion:
                order = ", ".join(sorted("xyzw", key=lambda c: quaternion["xyzw".index(c)]))
                self._check_quaternions(joint, y[..., list(quaternion)], self.engine, order)
            result[..., joint.body.iq] = joint.from_q(y)
        return result

    def velocity_map(self, q: ArrayLike) -> np.ndarray:
        """T (nv there × nv here) with T v the velocities there; Tᵀ takes torques back."""
        return self._velocity_map(self._check_array("q", q, self.robot.nq), self.joints)

    def to_v(self, q: ArrayLike, v: ArrayLike) -> np.ndarray:
        """Velocities there."""
        return _multiply(self.velocity_map(q), self._check_array("v", v, self.robot.nv))

    def from_v(self, q: ArrayLike, v: ArrayLike) -> np.ndarray:
        """Velocities from there."""
        return self._inverse_velocities(q, self._check_array("v", v, self.layout.nv))

    def to_a(self, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> np.ndarray:
        """Accelerations there: T a + Ṫ v."""
        a = self._check_array("a", a, self.robot.nv)
        return _multiply(self.velocity_map(q), a + self._axes_drift(v))

    def from_a(self, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> np.ndarray:
        """Accelerations from there."""
        return self._inverse_velocities(
            q, self._check_array("a", a, self.layout.nv)
        ) - self._axes_drift(v)

    def to_tau(self, q: ArrayLike, tau: ArrayLike) -> np.ndarray:
        """Joint torques there."""
        q = self._check_array("q", q, self.robot.nq)
        tau = self._check_array("tau", tau, self.robot.nv)
        return _multiply(self._torque_map(q), tau)

    def from_tau(self, q: ArrayLike, tau: ArrayLike) -> np.ndarray:
        """Joint torques from there: Tᵀ τ."""
        T = self.velocity_map(q)
        return _multiply(T.swapaxes(-1, -2), self._check_array("tau", tau, self.layout.nv))

    def to_jacobian(self, q: ArrayLike, J: ArrayLike) -> np.ndarray:
        """Jacobians there: other columns, and the angular rows first where twists are so."""
        J = self._check_matrix("J", J, self.robot.nv)
        L = self._square_torque_map(q, "a Jacobian")
        return self.to_spatial(J @ L.swapaxes(-1, -2), -2)

    def from_jacobian(self, q: ArrayLike, J: ArrayLike) -> np.ndarray:
        """Jacobians from there, three rows or six."""
        return self.from_spatial(
            self._check_matrix("J", J, self.layout.nv), -2
        ) @ self.velocity_map(q)

    def to_mass_matrix(self, q: ArrayLike, M: ArrayLike) -> np.ndarray:
        """Mass matrices there."""
        M, L = (
            self._check_matrix("M", M, self.robot.nv),
            self._square_torque_map(q, "a mass matrix"),
        )
        return L @ M @ L.swapaxes(-1, -2)

    def from_mass_matrix(self, q: ArrayLike, M: ArrayLike) -> np.ndarray:
        """Mass matrices from there: Tᵀ M T. Of Pinocchio's the upper triangle is read."""
        T, M = self.velocity_map(q), self._full_matrix(M)
        return T.swapaxes(-1, -2) @ M @ T

    def to_bias(
        self, q: ArrayLike, v: ArrayLike, h: ArrayLike, M: ArrayLike | None = None
    ) -> np.ndarray:
        """Bias forces C v + g there: turning axes take their part of M a.

        `M` is the mass matrix here; the robot's own if it is not given.
        """
        h, d = self._check_array("h", h, self.robot.nv), self._axes_drift(v)
        if d.any():
            h = h - _multiply(np.asarray(self.robot.mass_matrix(q) if M is None else M), d)
        return self.to_tau(q, h)

    def from_bias(
        self, q: ArrayLike, v: ArrayLike, h: ArrayLike, M: ArrayLike | None = None
    ) -> np.ndarray:
        """Bias forces C v + g from there.

        `M` is the mass matrix there; the robot's own stands in for it if it is not given.
        """
        h, d = self.from_tau(q, h), self._axes_drift(v)
        if not d.any():
            return h
        own = self.robot.mass_matrix(q) if M is None else self.from_mass_matrix(q, M)
        return h + _multiply(np.asarray(own), d)

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
        q = self._check_array("q", q, self.robot.nq)
        # broadcast the states and all wrenches
        values = [self._check_array(f"wrench at {w.frame!r}", w.value, 6) for w in given]
        batch = np.broadcast_shapes(q.shape[:-1], *(x.shape[:-1] for x in values))
        q = np.broadcast_to(q, (*batch, q.shape[-1]))
        columns = [list(np.moveaxis(np.broadcast_to(x, (*batch, 6)), -1, 0)) for x in values]
        # links between joints of one body have no forces there
        model, joints = self.robot.model, self._joints_of_bodies
        for w in given:
            body = model.frame(w.frame).body
            if body != WORLD and body not in joints:
                reason = f"it is on {model.bodies[body].name!r}, between joints of one body there"
                raise Unsupported("frame", w.frame, reason)
        # forces on our bodies, in their axes at their origins
        places = [(w.frame, w.reference) for w in given]
        coordinates = list(np.moveaxis(q, -1, 0))
        forces = external_forces(model, coordinates, places, columns)
        # moved to the engine's point, and turned to its axes
        result, poses = np.zeros((*batch, self.layout.rows, 6)), self._body_rotations(q)
        for i, joint in joints.items():
            F = np.stack([np.broadcast_to(x, batch) for x in forces[i]], axis=-1)
            f, n = F[..., :3], F[..., 3:] - np.cross(joint.place.point, F[..., :3])
            if not self.layout.local_forces:
                f, n = _multiply(poses[i], f), _multiply(poses[i], n)
            result[..., joint.place.row, :] = self.to_spatial(np.concatenate([f, n], axis=-1))
        return result

    def from_wrenches(self, q: ArrayLike, forces: ArrayLike) -> tuple[Wrench, ...]:
        """The engine's array of forces on bodies as wrenches at our bodies, one each."""
        q, rows = self._check_array("q", q, self.robot.nq), np.asarray(forces, dtype=float)
        if rows.shape[-2:] != (self.layout.rows, 6):
            expected = f"(..., {self.layout.rows}, 6)"
            raise ShapeMismatch("from_wrenches", "forces", expected, rows.shape)
        poses, found = self._body_rotations(q), []
        for i, joint in self._joints_of_bodies.items():
            # back to our axes, then to our origin
            F = self.from_spatial(rows[..., joint.place.row, :])
            f, n = F[..., :3], F[..., 3:]
            if not self.layout.local_forces:
                back = poses[i].swapaxes(-1, -2)
                f, n = _multiply(back, f), _multiply(back, n)
            value = np.concatenate([f, n + np.cross(joint.place.point, f)], axis=-1)
            found.append(Wrench(self.robot.body_names[i], "local", value))
        return tuple(found)

    @property
    def rows(self) -> tuple[int | None, ...]:
        """Index of each of our bodies in the engine; None for a body it does not have."""
        return tuple(
            self._joints_of_bodies[i].place.row if i in self._joints_of_bodies else None
            for i in range(self.robot.model.nb)
        )

    @property
    def _leading_joints(self) -> list[JointMap]:
        """Joints that have coordinates of their own here."""
        return [j for j in self.joints if j.body.joint.leader is None]

    @property
    def _joints_of_bodies(self) -> dict[int, JointMap]:
        """The joint of each of our bodies that the engine has too."""
        index = {b.name: i for i, b in enumerate(self.robot.model.bodies)}
        return {index[j.body.name]: j for j in self.joints if j.place.row is not None}

    def _velocity_map(
        self, q: np.ndarray, joints: Sequence[JointMap], dual: bool = False
    ) -> np.ndarray:
        """T of these joints, or T⁻ᵀ; one for all states where no axes turn."""
        batch = q.shape[:-1]
        # where all velocities are in body axes, T does not depend on q
        if not any(any(joint.form.parent_axes) for joint in joints):
            q = np.array(self.robot.model.neutral)
        T = np.zeros((*q.shape[:-1], self.layout.nv, self.robot.nv))
        for joint in joints:
            block = joint.velocity_map(q[..., joint.body.iq])
            if dual:
                block = np.linalg.inv(block).swapaxes(-1, -2)
            T[..., joint.iv, joint.body.iv] = block
        return np.broadcast_to(T, (*batch, *T.shape[-2:]))

    def _torque_map(self, q: np.ndarray) -> np.ndarray:
        """The map of torques, which does the same power: T⁻ᵀ of the leaders."""
        return self._velocity_map(q, self._leading_joints, dual=True)

    def _inverse_velocities(self, q: ArrayLike, v: np.ndarray) -> np.ndarray:
        """T⁻¹ v; the velocities of followers there are not read."""
        inverse = self._torque_map(self._check_array("q", q, self.robot.nq)).swapaxes(-1, -2)
        return _multiply(inverse, v)

    def _square_torque_map(self, q: ArrayLike, what: str) -> np.ndarray:
        """T⁻ᵀ (nv × nv); refused where the engine has other degrees of freedom."""
        if self.robot.nv != self.layout.nv:
            reason = f"there are {self.layout.nv} velocities there and {self.robot.nv} here: it "
            reason += "can be brought back but not made there; load the robot with couplings='free'"
            raise Unsupported(what, self.robot.name, reason)
        return self._torque_map(self._check_array("q", q, self.robot.nq))

    def _axes_drift(self, v: ArrayLike) -> np.ndarray:
        """The d of a' = T (a + d)."""
        v = self._check_array("v", v, self.robot.nv)
        d = np.zeros_like(v)
        for joint in self._leading_joints:
            d[..., joint.body.iv] = joint.axes_drift(v[..., joint.body.iv])
        return d

    def _full_matrix(self, M: ArrayLike) -> np.ndarray:
        """A mass matrix of the engine, with both triangles."""
        M = self._check_matrix("M", M, self.layout.nv)
        if M.shape[-2] != self.layout.nv:
            expected = f"(..., {self.layout.nv}, {self.layout.nv})"
            raise ShapeMismatch(self.engine, "M", expected, M.shape)
        return np.triu(M) + np.triu(M, 1).swapaxes(-1, -2) if self.layout.triangle else M

    def _body_rotations(self, q: np.ndarray) -> list[np.ndarray]:
        """The rotation of each body, over the batch."""
        poses = body_poses(self.robot.model, list(np.moveaxis(q, -1, 0)))
        batch = q.shape[:-1]
        return [
            np.stack([np.stack([np.broadcast_to(x, batch) for x in row], -1) for row in X.R], -2)
            for X in poses
        ]

    def _check_matrix(self, name: str, x: ArrayLike, columns: int) -> np.ndarray:
        """The argument as an array of matrices with this number of columns."""
        x = self._check_array(name, x, columns)
        if x.ndim < 2:
            raise ShapeMismatch(self.engine, name, f"(..., rows, {columns})", x.shape)
        return x

    def _check_array(self, name: str, x: ArrayLike, size: int) -> np.ndarray:
        """The argument as an array of floats whose last axis has this size."""
        try:
            array = np.asarray(x, dtype=float)
        except (TypeError, ValueError) as error:
            accepted = "it needs an array of numbers"
            raise WrongType(f"{self.engine}: {name}", x, accepted) from error
        if array.shape[-1:] != (size,):
            raise ShapeMismatch(f"adapter of {self.engine}", name, f"(..., {size})", array.shape)
        return array

    def _check_quaternions(self, joint: JointMap, xyzw: np.ndarray, side: str, order: str) -> None:
        """Refuse quaternions of a wrong length, or in an order that is likely wrong for most."""
        if not self.check or not xyzw.size:
            return
        name, length = joint.body.joint.name, np.linalg.norm(xyzw, axis=-1)
        # a unit quaternion
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
        raise WrongType("robot", robot, "needs a Robot, as qddot.load gives")
    joints = match_joints(robot.model, layout, names or {}, partial)
    return Adapter(robot, layout, joints, check)


def _multiply(A: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.einsum("...ij,...j->...i", A, x)
