"""Motions to a tolerance: Dormand and Prince's embedded pair with a step size for each state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.recursion import Vector
from qddot.compile.kernel import KernelSource
from qddot.display.progress import OnStep
from qddot.display.text import Readable
from qddot.errors import InvalidArgument, ShapeMismatch, TooLarge, Unsupported
from qddot.model.model import Model, bodies_with_limits
from qddot.model.reframing import condense
from qddot.robot.interpret import batch_shape
from qddot.robot.robot import Robot
from qddot.simulate.arguments import positive_number, real_array
from qddot.simulate.drivetrain.friction import ModelLosses
from qddot.simulate.file_physics import parse_without, switch_off
from qddot.simulate.integrators import DORMAND_PRINCE, weighted_sum
from qddot.simulate.layout import columns, stack_scalars
from qddot.simulate.motion import ExplicitPlant, advance, align, chart_rate, unalign
from qddot.simulate.plant import RobotPlant
from qddot.simulate.step import KeyedSource, find_kernel
from qddot.spatial.scalar import Scalar

__all__ = ["AdaptiveMotion", "integrate_adaptive"]

_ORDER = 5
_SAFETY, _LEAST, _MOST = 0.9, 0.2, 5.0
_FIRST = 1e-6
"""Share of the first interval that the first step has; steps grow fast."""
_LOSSES = ModelLosses(friction=False, at_stages=("springs", "damping"))
"""Damping and springs of the description, at each stage."""


@dataclass(frozen=True, repr=False)
class AdaptiveMotion(Readable):
    """States at the given times, NaN from where a state was given up.

    `accepted` and `rejected` count the steps of each state; `done` says which reached the end.
    """

    time: np.ndarray
    q: np.ndarray
    v: np.ndarray
    accepted: np.ndarray
    rejected: np.ndarray
    done: np.ndarray


def integrate_adaptive(
    robot: Robot,
    q0: ArrayLike,
    v0: ArrayLike,
    tau: ArrayLike | None,
    times: ArrayLike,
    rtol: float = 1e-8,
    atol: float = 1e-10,
    *,
    without: str | Sequence[str] = "limits",
    most_steps: int = 1_000_000,
    on_step: OnStep | None = None,
) -> AdaptiveMotion:
    """The motion from states q0 (..., nq) and v0 (..., nv) at times[0], at all times (T).

    The damping, springs and armature of the description act unless `without` names them, as in a
    rollout. Limits and dry friction are not smooth: a robot that has them needs them in `without`.
    `tau` is None, one row (nv) for all times, or a row an interval (..., T − 1, nv), held until
    the next time. A step is as long as keeps its estimated error below atol + rtol · |size|, size
    being that of each coordinate and velocity, and 1 for rotations (Hairer, Nørsett & Wanner 1993,
    section II.4); its length follows Gustafsson's proportional–integral rule. A state is given up
    after `most_steps` steps, or where no step is short enough.
    """
    accepted = "it needs times in seconds that increase, the first that of q0 and v0"
    try:
        when = np.asarray(times, float)
    except (TypeError, ValueError):
        raise InvalidArgument("times", times, accepted) from None
    if when.ndim != 1 or not when.size or not np.isfinite(when).all() or (np.diff(when) <= 0).any():
        raise InvalidArgument("times", times, accepted)
    robot = _smooth_robot(robot, parse_without(without))
    tolerances = positive_number("rtol", rtol), positive_number("atol", atol)
    # states and torques with one batch axis, and the batch shape that they came in
    name, nv, intervals = "integrate_adaptive", robot.nv, len(when) - 1
    given = (
        ("q0", q0, robot.nq),
        ("v0", v0, nv),
        ("tau", np.zeros(nv) if tau is None else tau, nv),
    )
    q, v, torque = (real_array(name, what, x, (n,)).astype(float) for what, x, n in given)
    if torque.ndim == 1:
        torque = np.broadcast_to(torque, (intervals, nv))
    if torque.shape[-2] != intervals:
        expected = f"({nv}), or (..., {intervals}, {nv})"
        raise ShapeMismatch(name, "tau", expected, torque.shape)
    batch = batch_shape(name, (q, v, torque), (1, 1, 2), ("q0", "v0", "tau"))
    q, v, torque = (
        np.broadcast_to(x, (*batch, *x.shape[-n:])).reshape(math.prod(batch), *x.shape[-n:])
        for x, n in ((q, 1), (v, 1), (torque, 2))
    )
    elapsed = when - when[0]
    run = _Batch.start(robot, q, v, elapsed, tolerances)
    shape = (len(q), len(when))
    q_out, v_out = np.full((*shape, robot.nq), np.nan), np.full((*shape, robot.nv), np.nan)
    q_out[:, 0], v_out[:, 0] = q, v
    for k, goal in enumerate(elapsed[1:], start=1):
        run.set_torque(torque[:, k - 1])
        while robot.nv and (active := np.flatnonzero(run.alive & (run.t < goal))).size:
            run.attempt(active, goal, most_steps)
        here = np.flatnonzero(run.alive)
        q_out[here, k], v_out[here, k] = run.q[here], run.v(here)
        if on_step:
            on_step("integrating", k, len(when) - 1)
    return AdaptiveMotion(
        time=when,
        q=q_out.reshape(*batch, len(when), robot.nq),
        v=v_out.reshape(*batch, len(when), robot.nv),
        accepted=run.accepted.reshape(batch),
        rejected=run.rejected.reshape(batch),
        done=run.alive.reshape(batch),
    )


def _smooth_robot(robot: Robot, without: Sequence[str]) -> Robot:
    """The robot without these physics of its description; an error where others are not smooth."""
    if robot.model.loops:
        accepted = (
            "its loops are kept closed in rollouts, such as those of rk4 or dormand_prince; "
            "or integrate the open tree, constraints.with_loops(robot, [])"
        )
        raise Unsupported("integrate_adaptive", robot.name, accepted)
    model = switch_off(robot.model, without)
    rough = [word for word in ("friction", "limits") if word not in without]
    has = {
        "friction": any(any(b.joint.drivetrain.friction_levels) for b in model.bodies),
        "limits": bool(bodies_with_limits(model)),
    }
    found = [word for word in rough if has[word]]
    if found:
        accepted = (
            f"it has {' and '.join(found)}, which smooth steps cannot follow; leave them out, "
            f"without={[*without, *found]!r}, or use robot.rollout, which has them"
        )
        raise Unsupported("integrate_adaptive", robot.name, accepted)
    return robot if model is robot.model else Robot(model, robot.native)


@dataclass(frozen=True)
class _FirstStagePlant:
    """A plant whose rate at the start of a step is known from the end of the step before."""

    plant: ExplicitPlant
    first: Vector

    @property
    def model(self) -> Model:
        """The robot."""
        return self.plant.model

    def rate(self, q: Vector, w: Vector, share: Scalar) -> list[Scalar]:
        """Rate of the chart velocities, the known one at the start."""
        return list(self.first) if share == 0.0 else self.plant.rate(q, w, share)


def _attempt(
    model: Model, q: Vector, w: Vector, first: Vector, tau: Vector, h: Scalar
) -> list[Scalar]:
    """State after a step of length h, its rate, and estimated errors of displacement and velocity.

    The last stage is the state after the step, so its rate is the first of the next step.
    """
    whole = RobotPlant(model, tau, tau, h, effects=(_LOSSES,), states=((),))
    plant = _FirstStagePlant(whole, first)
    moves, rates = DORMAND_PRINCE.stages(plant, q, w, h)
    u, dw = (weighted_sum(DORMAND_PRINCE.b, rows, h) for rows in (moves, rates))
    errors = [weighted_sum(DORMAND_PRINCE.error, rows, h) for rows in (moves, rates)]
    w1 = [a + b for a, b in zip(w, dw, strict=True)]
    return [*advance(model, q, u), *w1, *rates[-1], *errors[0], *errors[1]]


@dataclass
class _Batch:
    """The integration of a batch: time, state, rate, torque and next step length of each."""

    robot: Robot
    tolerances: tuple[float, float]
    t: np.ndarray
    q: np.ndarray
    w: np.ndarray
    rate: np.ndarray
    torque: np.ndarray
    h: np.ndarray
    error: np.ndarray
    accepted: np.ndarray
    rejected: np.ndarray
    alive: np.ndarray

    @staticmethod
    def start(
        robot: Robot,
        q: np.ndarray,
        v: np.ndarray,
        when: np.ndarray,
        tolerances: tuple[float, float],
    ) -> _Batch:
        """All states at the first time."""
        n, span = len(q), when[1] - when[0] if len(when) > 1 else 1.0
        w = stack_scalars(align(robot.model, columns(q), columns(v))) if robot.nv else v.copy()
        alive = np.isfinite(q).all(-1) & np.isfinite(w).all(-1)
        return _Batch(
            robot,
            tolerances,
            t=np.full(n, when[0]),
            q=q.copy(),
            w=w,
            rate=np.zeros((n, robot.nv)),
            torque=np.zeros((n, robot.nv)),
            h=np.full(n, _FIRST * span),
            error=np.ones(n),
            accepted=np.zeros(n, int),
            rejected=np.zeros(n, int),
            alive=alive,
        )

    def set_torque(self, torque: np.ndarray) -> None:
        """Replace the torques, and compute the rates under them."""
        self.torque = torque
        if self.robot.nv and len(self.q):
            model, v = self.robot.model, self.v(np.arange(len(self.q)))
            with np.errstate(over="ignore", invalid="ignore"):
                torque = torque - self.robot.friction(self.q, v)
                a = self.robot.forward_dynamics(self.q, v, torque)
                self.rate = stack_scalars(chart_rate(model, *map(columns, (self.q, v, a))))
        self.alive &= np.isfinite(self.rate).all(-1)

    def v(self, at: np.ndarray) -> np.ndarray:
        """Velocities of the model at these states."""
        if not at.size or not self.robot.nv:
            return self.w[at]
        return stack_scalars(unalign(self.robot.model, columns(self.q[at]), columns(self.w[at])))

    def attempt(self, at: np.ndarray, goal: float, most_steps: int) -> None:
        """One step of these states, taken where its error is within the tolerances."""
        remaining = goal - self.t[at]
        last = self.h[at] >= remaining * (1.0 - 1e-12)
        h = np.where(last, remaining, self.h[at])
        q1, w1, rate, error = self._step(at, h)
        good = error <= 1.0
        # step size: the integral part smooths it where errors of successive steps differ
        safe = np.maximum(np.where(np.isfinite(error), error, 1e10), 1e-10)
        grown = _SAFETY * safe ** (-0.7 / _ORDER) * self.error[at] ** (0.4 / _ORDER)
        shrunk = _SAFETY * safe ** (-1.0 / _ORDER)
        proposed = h * np.clip(np.where(good, grown, shrunk), _LEAST, _MOST)
        self.h[at] = np.where(good & last, np.maximum(proposed, self.h[at]), proposed)
        # accepted steps
        self.t[at] = np.where(good, np.where(last, goal, self.t[at] + h), self.t[at])
        taken = at[good]
        self.q[taken], self.w[taken], self.rate[taken] = q1[good], w1[good], rate[good]
        self.error[taken] = safe[good]
        self.accepted[taken] += 1
        self.rejected[at[~good]] += 1
        # give up: step too short, or too many
        short = self.h[at] <= 8.0 * np.spacing(np.maximum(np.abs(self.t[at]), abs(goal)))
        many = self.accepted[at] + self.rejected[at] >= most_steps
        self.alive[at] = ~((short | many) & (self.t[at] < goal))

    def _step(
        self, at: np.ndarray, h: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """States after a step, their rates, and the error in units of the tolerances."""
        rtol, atol = self.tolerances
        model, native = self.robot.model, self.robot.native
        nq, nv = model.nq, model.nv
        now = [*(x[at] for x in (self.q, self.w, self.rate, self.torque)), h]

        def source(key: str) -> KernelSource:
            condensed = condense(model)
            return KernelSource(
                name="adaptive_step",
                doc="A step of the embedded pair, with its error.",
                function=lambda *values: _attempt(condensed, *values),
                inputs=((nq,), (nv,), (nv,), (nv,), ()),
                outputs=((nq,), (nv,), (nv,), (nv,), (nv,)),
                key=key,
            )

        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            # the attempt at a step, by native code where the robot has it
            found: Sequence[np.ndarray]
            kernel = None
            if native:
                with suppress(TooLarge):
                    kernel = find_kernel(KeyedSource(f"adaptive {model.digest}", source))
            if kernel is not None:
                found = kernel.gufunc(*now)
            else:
                lists: list[Any] = [columns(x) if x.ndim > 1 else x for x in now]
                together = stack_scalars(_attempt(model, *lists))
                found = np.split(together, np.cumsum([nq, nv, nv, nv]), axis=-1)
            q1, w1, rate, *errors = found
            # scales of errors: coordinates, 1 for rotations, and velocities
            scale = np.ones((len(at), self.robot.nv))
            for body in self.robot.model.independent:
                flat = body.joint.kind.nv - len(body.joint.kind.chart.turning)
                iq, iv = body.iq.start, body.iv.start
                scale[:, iv : iv + flat] = np.abs(self.q[at, iq : iq + flat])
            sizes = (scale, np.maximum(abs(self.w[at]), abs(w1)))
            shares = [e / (atol + rtol * s) for e, s in zip(errors, sizes, strict=True)]
            error = np.sqrt(np.mean(np.square(np.concatenate(shares, axis=-1)), axis=-1))
        return q1, w1, rate, error
