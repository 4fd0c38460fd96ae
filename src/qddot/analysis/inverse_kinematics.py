"""Inverse kinematics of a frame: native damped least squares from a batch of starts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.inverse_kinematics import (
    Task,
    body_pose_error,
    inverse_kinematics_step,
    task_rows,
)
from qddot.algorithms.linear import dot
from qddot.compile.ir.scan import ScanShapes
from qddot.compile.kernel import Kernel, KernelSource, compile_kernel
from qddot.compile.runtime.chunks import run_batch
from qddot.compile.runtime.memory import require_batch
from qddot.display.text import Readable
from qddot.errors import InvalidArgument, ShapeMismatch, TooLarge, Unsupported
from qddot.model.model import Model
from qddot.robot.interpret import batch_shape
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Mat3, Transform, Vec3
from qddot.spatial.scalar import less, sqrt, where

__all__ = ["InverseKinematics", "inverse_kinematics"]

_ROUND = 8
"""Iterations between two looks at which problems are solved."""
_MOST_STEPS = 200
_STATIONARY = 1e-6
"""Slope of half the squared error, per rad or m of a joint, of a nearest configuration."""
_IDENTITY = np.eye(4)
_TARGETS: dict[str, tuple[int, ...]] = {"pose": (4, 4), "position": (3,), "orientation": (3, 3)}


@dataclass(frozen=True, repr=False)
class InverseKinematics(Readable):
    """Configurations that bring a frame to its targets, and by how much they miss them.

    `position_error` is in metres, `orientation_error` in radians, each zero where the task does
    not ask for it. `iterations` counts those of the last attempt, in rounds of eight, `attempts`
    the starts that were tried. All have the shape of the batch.
    """

    q: np.ndarray
    position_error: np.ndarray
    orientation_error: np.ndarray
    converged: np.ndarray
    iterations: np.ndarray
    attempts: np.ndarray

    def __str__(self) -> str:
        solved, count = int(self.converged.sum()), self.converged.size
        worst = f"{self.position_error.max(initial=0.0):.2g} m"
        turn = f"{self.orientation_error.max(initial=0.0):.2g} rad"
        return f"inverse kinematics: {solved} of {count} solved, worst error {worst}, {turn}"


def inverse_kinematics(
    robot: Robot,
    frame: str,
    pose: ArrayLike,
    q0: ArrayLike | None = None,
    *,
    task: Task = "pose",
    joints: Sequence[str] | None = None,
    tolerance: float = 1e-6,
    iterations: int = 32,
    restarts: int = 16,
    limits: bool = True,
    rng: np.random.Generator | int = 0,
) -> InverseKinematics:
    """Configurations within the joint limits that bring a frame to a pose.

    `pose` is a 4×4 matrix in the world; with task="position" it is a point (3), with
    task="orientation" a rotation matrix (3×3). `q0` is the start (nq), by default the middle of
    the limits. Only `joints` move, all of them unless they are named. Leading axes of `pose` and
    `q0` are batch and broadcast: many targets, many starts, or both. A problem that is not solved
    to `tolerance` (m and rad) after `iterations` starts again at a random configuration, up to
    `restarts` times, and keeps its best. Loops are left open.
    """
    start, target, batch = _validate(robot, frame, pose, q0, task)
    _check_choices(iterations, restarts, tolerance, rng)
    free = np.full(robot.nq, np.inf)
    bounds = (robot.limits.lower, robot.limits.upper) if limits else (-free, free)
    moving = None if joints is None else tuple(joints)
    for name in moving or ():
        robot.model.body_of_joint(name)
    problem = _Problem(robot.model.digest, frame, task, moving, robot.model)
    count = math.prod(batch)
    require_batch("inverse_kinematics", batch, 8 * (4 * robot.nq + 32))
    if batch:
        start = np.broadcast_to(start, (*batch, robot.nq))
        target = np.broadcast_to(target, (*batch, 4, 4))
    q, target = start.reshape(count, robot.nq), target.reshape(count, 4, 4)
    attempt = partial(_attempt, problem, bounds, tolerance, iterations, robot.native)
    best, error, used = attempt(q, target)
    # what is not solved starts again where its joints are random, and keeps its best
    attempts = np.ones(count, dtype=int)
    tried = [best.copy()]
    solved: np.ndarray = np.all(error <= tolerance, axis=1)
    generator = None if solved.all() else np.random.default_rng(rng)
    for _ in range(restarts):
        left = np.flatnonzero(~solved)
        if generator is None or not left.size:
            break
        fresh = np.where(problem.moved(robot.nq, "iq"), robot.random(generator, len(left)), q[left])
        seen, miss, used[left] = attempt(fresh, target[left])
        attempts[left] += 1
        tried.append(best.copy())
        tried[-1][left] = seen
        better = (miss * miss).sum(axis=-1) < (error[left] * error[left]).sum(axis=-1)
        best[left[better]], error[left[better]] = seen[better], miss[better]
        solved[left] = (miss <= tolerance).all(axis=1)
    # out of reach: the ends of all attempts go on to where the error is least
    left = np.flatnonzero(~solved)
    if left.size:
        best[left], error[left] = _nearest(
            robot, problem, bounds, np.stack([x[left] for x in tried]), target[left]
        )
        solved[left] = (error[left] <= tolerance).all(axis=1)
    return InverseKinematics(
        q=best.reshape(*batch, robot.nq),
        position_error=error[:, 0].reshape(batch),
        orientation_error=(2.0 * np.arcsin(np.minimum(0.5 * error[:, 1], 1.0))).reshape(batch),
        converged=solved.reshape(batch),
        iterations=used.reshape(batch),
        attempts=attempts.reshape(batch),
    )


def _nearest(
    robot: Robot,
    problem: _Problem,
    bounds: tuple[np.ndarray, np.ndarray],
    starts: np.ndarray,
    target: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Nearest configurations (n, nq) and their errors (n, 2) from starts (k, n, nq).

    Levenberg–Marquardt with damping that follows the success of its steps (Nielsen 1999). The loop
    of an attempt is damped by its error, which suits targets that are reached.
    """
    count, size = starts.shape[:2]
    found = starts.reshape(count * size, robot.nq)
    target = np.tile(target, (count, 1, 1))
    fixed = ~problem.moved(robot.nv, "iv")
    damping, growth = np.full(len(found), 1e-3), np.full(len(found), 2.0)
    at, rows = np.arange(len(found)), task_rows(problem.task)
    q, T = found.copy(), target
    e = _task_errors(robot, problem, q, T)
    for _ in range(_MOST_STEPS):
        J = robot.frame_jacobian(q, problem.frame, "local")[..., rows, :]
        push = np.einsum("nij,ni->nj", J, e * _chord_slopes(problem.task, e))
        still = fixed | _held(robot, q, push, bounds)
        push = np.where(still, 0.0, push)
        # those at rest leave
        more = np.abs(push).max(axis=-1) > _STATIONARY
        if not more.any():
            break
        if not more.all():
            found[at] = q
            state = (at, q, T, e, J, push, still, damping, growth)
            at, q, T, e, J, push, still, damping, growth = (x[more] for x in state)
        J = np.where(still[:, None, :], 0.0, J)
        A = np.swapaxes(J, -1, -2) @ J + damping[:, None, None] * np.eye(robot.nv)
        step = np.linalg.solve(A, push[..., None])[..., 0]
        moved = np.clip(robot.integrate(q, step), *bounds)
        missed = _task_errors(robot, problem, moved, T)
        # steps that lower the error are kept, and the damping falls; else it grows
        drop = (e * e).sum(axis=-1) - (missed * missed).sum(axis=-1)
        ratio = drop / (step * (damping[:, None] * step + push)).sum(axis=-1)
        better = drop > 0.0
        damping *= np.where(better, np.maximum(1.0 / 3.0, 1.0 - (2.0 * ratio - 1.0) ** 3), growth)
        damping, growth = np.clip(damping, 1e-12, 1e12), np.where(better, 2.0, 2.0 * growth)
        q, e = np.where(better[:, None], moved, q), np.where(better[:, None], missed, e)
    found[at] = q
    e = _task_errors(robot, problem, found, target)
    place = np.argmin((e * e).sum(axis=-1).reshape(count, size), axis=0) * size + np.arange(size)
    q, e, wanted = found[place], e[place], range(6)[rows]
    away = np.linalg.norm(e[:, :3], axis=-1) if 0 in wanted else np.zeros(size)
    turn = np.linalg.norm(e[:, -3:], axis=-1) if 5 in wanted else np.zeros(size)
    return q, np.stack([away, turn], axis=-1)


def _task_errors(robot: Robot, problem: _Problem, q: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Displacement and rotation chord to targets, of what the task asks for, in local axes."""
    pose, goal = (
        Transform(
            Mat3(*(Vec3(*row) for row in T[:, :3, :3].transpose(1, 2, 0))), Vec3(*T[:, :3, 3].T)
        )
        for T in (robot.frame_pose(q, problem.frame), target)
    )
    return np.stack(body_pose_error(pose, goal)[task_rows(problem.task)], axis=-1)


def _chord_slopes(task: Task, e: np.ndarray) -> np.ndarray:
    """Slope of each error as its joint turns: of a chord the cosine of half its angle."""
    slopes = np.ones_like(e)
    if task != "position":
        square = (e[:, -3:] ** 2).sum(axis=-1)
        slopes[:, -3:] = np.sqrt(np.maximum(0.0, 1.0 - 0.25 * square))[:, None]
    return slopes


def _held(
    robot: Robot, q: np.ndarray, push: np.ndarray, bounds: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """True at the velocities of joints at a limit that the error pushes against."""
    held = np.zeros(push.shape, dtype=bool)
    for body in robot.model.independent:
        if body.joint.kind.quaternion is None and body.joint.kind.nv == 1:
            i, k = body.iq.start, body.iv.start
            below, above = q[..., i] <= bounds[0][i], q[..., i] >= bounds[1][i]
            held[..., k] = (below & (push[..., k] < 0.0)) | (above & (push[..., k] > 0.0))
    return held


def _attempt(
    problem: _Problem,
    bounds: tuple[np.ndarray, np.ndarray],
    tolerance: float,
    iterations: int,
    native: bool,
    q: np.ndarray,
    target: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Best configurations from starts (n, nq), their errors (n, 2), and iterations (n).

    Problems that are solved leave after each round.
    """
    at = np.minimum(np.maximum(q, bounds[0]), bounds[1])
    seen, miss = at, np.full((len(q), 2), np.inf)
    best, error, used, running = at, miss, np.zeros(len(q), dtype=int), None
    for done in range(0, iterations, _ROUND):
        steps = min(_ROUND, iterations - done)
        at, seen, miss = _iterate(problem, (at, seen, miss, target, *bounds), steps, native)
        # the first round is on all problems, so its results need no places
        if running is None:
            best, error = seen, miss
            used += steps
        else:
            best[running], error[running] = seen, miss
            used[running] += steps
        more = (miss > tolerance).any(axis=1)
        if not more.any():
            break
        running = np.arange(len(q)) if running is None else running
        running, at, seen, miss, target = (x[more] for x in (running, at, seen, miss, target))
    return best, error, used


def _validate(
    robot: Robot, frame: str, pose: Any, q0: Any, task: Task
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Start and 4×4 target as arrays, and the shape of their batch."""
    task_rows(task)
    if not robot.model.ancestors(robot.model.frame(frame).body):
        raise Unsupported("inverse_kinematics", frame, "no joint moves this frame")
    core = _TARGETS[task]
    if q0 is None:
        # the middle of the joint limits, the neutral configuration where there are none
        lower, upper = robot.limits.lower, robot.limits.upper
        bounded = np.isfinite(lower) & np.isfinite(upper)
        middle = 0.5 * (np.where(bounded, lower, 0) + np.where(bounded, upper, 0))
        q0 = np.where(bounded, middle, robot.neutral())
    try:
        given, start = np.asarray(pose, dtype=float), np.asarray(q0, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidArgument("inverse_kinematics", pose, "it needs arrays of numbers") from error
    for name, x, shape in (("pose", given, core), ("q0", start, (robot.nq,))):
        if x.shape[x.ndim - len(shape) :] != shape or x.ndim < len(shape):
            text = f"(..., {', '.join(map(str, shape))})"
            raise ShapeMismatch("inverse_kinematics", name, text, x.shape)
        if not np.isfinite(x).all():
            raise InvalidArgument(f"inverse_kinematics: {name}", "NaN or inf", "it must be finite")
    target = np.empty((*given.shape[: given.ndim - len(core)], 4, 4))
    target[...] = _IDENTITY
    if task == "position":
        target[..., :3, 3] = given
    else:
        target[..., : core[0], : core[1]] = given
        # rotations to 1e-6; one matrix as Python numbers, which cost a tenth of arrays
        R, one = target[..., :3, :3], target.ndim == 2
        entries = R.reshape(9).tolist() if one else R.reshape(-1, 9).T
        a, b, c = (Vec3(*entries[k : k + 3]) for k in (0, 3, 6))
        stretch = sum((u.dot(u) - 1.0) ** 2 for u in (a, b, c))
        skew = sum(u.dot(w) ** 2 for u, w in ((a, b), (b, c), (c, a)))
        fine = (stretch + skew <= 1e-12) & (a.cross(b).dot(c) > 0.0)
        if not (fine if one else fine.all()):
            accepted = "its rotation must be orthonormal and right-handed"
            raise InvalidArgument("inverse_kinematics: pose", given.tolist(), accepted)
    batch = batch_shape("inverse_kinematics", [start, target], [1, 2], ["q0", "pose"])
    return start, target, batch


def _check_choices(iterations: Any, restarts: Any, tolerance: float, rng: Any) -> None:
    """Refuse choices that make no sense."""
    for name, value, least in (("iterations", iterations, 1), ("restarts", restarts, 0)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise InvalidArgument(name, value, f"it is a whole number from {least} up")
    if not 0.0 < tolerance < math.inf:
        raise InvalidArgument("tolerance", tolerance, "it is a number above 0, in m and rad")
    # a generator takes a while to make, and a seed of this kind always makes one
    if isinstance(rng, int) and rng >= 0:
        return
    try:
        np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise InvalidArgument("rng", rng, "it is a seed or a np.random.Generator") from error


@dataclass(frozen=True)
class _Problem:
    """A frame of a model and what is prescribed of it; equal for models of one digest."""

    digest: str
    frame: str
    task: Task
    joints: tuple[str, ...] | None
    model: Model = field(compare=False)

    def moved(self, size: int, slices: str) -> np.ndarray:
        """True at the coordinates ("iq") or velocities ("iv") of the joints that move."""
        mask = np.zeros(size, dtype=bool)
        for body in self.model.independent:
            mask[getattr(body, slices)] = self.joints is None or body.joint.name in self.joints
        return mask

    def step(
        self, q: Any, best: Any, miss: Any, _: Any, T: Any, lower: Any, upper: Any
    ) -> list[Any]:
        """One iteration on plain numbers: configuration, the best so far and its errors."""
        target = Transform(Mat3(*(Vec3(*row[:3]) for row in T[:3])), Vec3(*(r[3] for r in T[:3])))
        error, moved = inverse_kinematics_step(
            self.model,
            q,
            target,
            lower,
            upper,
            frame=self.frame,
            task=self.task,
            joints=self.joints,
        )
        # the errors that the task asks for
        wanted, none = range(6)[task_rows(self.task)], 0.0 * q[0]
        away, turn = error[:3], error[3:]
        found = [sqrt(dot(away, away)) if 0 in wanted else none]
        found += [sqrt(dot(turn, turn)) if 5 in wanted else none]
        # the best configuration so far
        better = less(dot(found, found), dot(miss, miss))
        news = zip([*q, *found], [*best, *miss], strict=True)
        return [*moved, *(where(better, a, b) for a, b in news)]


def _iterate(
    problem: _Problem, arrays: Sequence[np.ndarray], steps: int, native: bool
) -> tuple[np.ndarray, ...]:
    """Some iterations: the last configurations, the best ones, and the errors of those."""
    compiled = None
    if native:
        with suppress(TooLarge):
            compiled = _compile_loop(problem)
    if compiled is not None:
        kernel, shapes = compiled
        inputs = (*arrays[:3], np.zeros(1), *arrays[3:], np.asarray(float(steps)))
        if len(arrays[0]) == 1:
            return tuple(kernel.gufunc(*inputs))
        cores = [len(axes) for axes in shapes.arguments]
        cost = kernel.cost * steps
        return tuple(run_batch(kernel.gufunc, inputs, cores, shapes.carry, None, cost))
    carry, n = list(arrays[:3]), arrays[0].shape[-1]
    constants = (arrays[3].transpose(1, 2, 0), *(list(x) for x in arrays[4:]))
    with np.errstate(all="ignore"):
        for _ in range(steps):
            q, best, miss = (list(x.T) for x in carry)
            flat = problem.step(q, best, miss, 0.0, *constants)
            rows = np.stack([np.broadcast_to(x, len(carry[0])) for x in flat], axis=-1)
            carry = np.split(rows, [n, 2 * n], axis=-1)
    return tuple(carry)


@lru_cache(maxsize=32)
def _compile_loop(problem: _Problem) -> tuple[Kernel, ScanShapes]:
    """The iterations as one native loop; its sampled input is not read."""
    n = problem.model.nq
    carry: tuple[tuple[int, ...], ...] = ((n,), (n,), (2,))
    shapes = ScanShapes(carry, ((),), ((4, 4), (n,), (n,)), path_places=(), end_places=(0, 1, 2))
    doc = f"Damped least squares for the {problem.task} of {problem.frame}."
    key = repr((problem.digest, problem.frame, problem.task, problem.joints))
    source = KernelSource(
        "inverse_kinematics", doc, problem.step, shapes.inputs, carry, key, shapes
    )
    return compile_kernel(source), shapes
