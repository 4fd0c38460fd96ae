"""Trials of a plant: motions from many states with every integrator, against a reference."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from qddot.analysis.linearise import natural_modes
from qddot.errors import InvalidArgument
from qddot.model.model import WORLD
from qddot.robot.health import coordinate_range
from qddot.robot.robot import Robot
from qddot.simulate.arguments import real_array
from qddot.simulate.rollout import Rollout
from qddot.simulate.simulator import rollout

__all__ = ["HORIZON", "SAMPLES", "Trial", "random_states", "rest_configuration"]

HORIZON = 0.5
"""Seconds of a motion of a trial."""
SAMPLES = 5
"""Times within the horizon at which a motion is compared."""
_REFERENCE, _MOST_STEPS = 500, 16_000
"""Steps with which the halving of the reference starts, and where it ends."""
_EXACT = 1e-9
"""Difference of two references, rad or m, at which the finer one is good enough."""
_SPEED = 1.0
"""Speed of freedoms for which the description has no limit, rad/s or m/s."""
_STATED = 100.0
"""Velocity limit (rad/s, m/s) from which it is a stand-in for none."""
_GROWTH = 0.01
"""Growth in a period of the fastest mode that counts as unstable."""
_SPACING, _REPEATS = 1.12, 5


@dataclass(frozen=True)
class Trial:
    """A plant, the states that its motions start from, and its reference motions.

    `plant` are arguments of `rollout` (without, effects, feedback), `inputs` its torques and the
    references of the law: a row for all states, or a row a state. `exact` (N, samples, nq) is by
    `dormand_prince` with steps halved until they agree; `uncertainty` (N) is how far its last two
    are apart. `rest` is where the robot hangs by gravity and springs, None where it floats.
    """

    robot: Robot
    plant: Mapping[str, Any]
    inputs: Mapping[str, np.ndarray]
    q: np.ndarray
    v: np.ndarray
    exact: np.ndarray
    uncertainty: np.ndarray
    rest: np.ndarray | None
    frequency: float

    @staticmethod
    def of(
        robot: Robot,
        q: ArrayLike,
        v: ArrayLike,
        *,
        plant: Mapping[str, Any],
        inputs: Mapping[str, ArrayLike],
    ) -> Trial:
        """The trial of a plant from states q (N, nq) and v (N, nv), or one state."""
        q, v = (
            np.atleast_2d(real_array("certify", name, x, (n,), copy=False))
            for name, x, n in (("q", q, robot.nq), ("v", v, robot.nv))
        )
        states = max(len(q), len(v))
        if q.ndim != 2 or v.ndim != 2 or not {len(q), len(v)} <= {1, states}:
            accepted = f"states are q (N, {robot.nq}) and v (N, {robot.nv})"
            raise InvalidArgument("states", (q.shape, v.shape), accepted)
        springs = "springs" not in plant["without"]
        floating = any(b.parent == WORLD and b.joint.kind.floats for b in robot.model.bodies)
        rest = None if floating else rest_configuration(robot, springs)
        modes = None if rest is None else natural_modes(robot, rest, springs=springs)
        trial = Trial(
            robot=robot,
            plant=plant,
            inputs={name: np.asarray(x, float) for name, x in inputs.items()},
            q=np.resize(q, (states, robot.nq)),
            v=np.resize(v, (states, robot.nv)),
            exact=np.empty(0),
            uncertainty=np.empty(0),
            rest=rest,
            frequency=0.0 if modes is None else float(modes.frequencies.max(initial=0.0)),
        )
        # halve the steps of the reference until two of them agree
        steps, coarse = _REFERENCE, trial._run("dormand_prince", _REFERENCE).q
        while True:
            steps *= 2
            fine = trial._run("dormand_prince", steps).q
            apart = _distance(robot, coarse, fine)
            if apart.max() <= _EXACT or steps >= _MOST_STEPS:
                break
            coarse = fine
        return Trial(**{**vars(trial), "exact": fine, "uncertainty": apart})

    def errors(self, integrator: str, steps: int) -> np.ndarray:
        """Largest error of a coordinate (rad, m) of each motion, with that of the reference.

        Infinite where a motion is not finite.
        """
        found = self._run(integrator, steps)
        return _distance(self.robot, self.exact, found.q) + self.uncertainty

    def stable_step(self, integrator: str, grows: bool = False) -> float:
        """The longest step (s) with which a small motion about rest does not grow.

        The plant has no dry friction and no limits there. 0 if there is no such step, infinite if
        all are, NaN without oscillation about rest. `grows` says that short steps grow too.
        """
        if not self.frequency:
            return math.nan
        # shares of 1/ω from which the steps grow; feedback may be faster than the modes
        for start in (0.05,) if grows else (0.05, 5e-3, 5e-4):
            if self._growth(integrator, start / self.frequency) <= _GROWTH:
                break
        else:
            return 0.0
        share = start
        while self._growth(integrator, _SPACING * share / self.frequency) <= _GROWTH:
            share *= _SPACING
            if share > 20.0:
                return math.inf
        low, high = share, _SPACING * share
        for _ in range(6):
            middle = 0.5 * (low + high)
            unstable = self._growth(integrator, middle / self.frequency) > _GROWTH
            low, high = (low, middle) if unstable else (middle, high)
        return float(low / self.frequency)

    def cost(self, integrator: str, dt: float) -> float:
        """Seconds a step of one state in a batch, one core: the least of several."""
        batch, steps = 128, 150
        q, v = (np.resize(x, (batch, x.shape[-1])) for x in (self.q, self.v))
        inputs = self._inputs(1, batch)
        best = math.inf
        for _ in range(_REPEATS):
            start = time.perf_counter()
            rollout(
                self.robot,
                q,
                v,
                dt=dt,
                steps=steps,
                every=steps,
                integrator=integrator,
                **self.plant,
                **inputs,
            )
            best = min(best, time.perf_counter() - start)
        return best / (batch * steps)

    def _run(self, integrator: str, steps: int) -> Rollout:
        """Motions over the horizon."""
        return rollout(
            self.robot,
            self.q,
            self.v,
            dt=HORIZON / steps,
            steps=steps,
            every=steps // SAMPLES,
            integrator=integrator,
            **self.plant,
            **self._inputs(SAMPLES, len(self.q)),
        )

    def _inputs(self, samples: int, batch: int) -> dict[str, Any]:
        """Torques and references at the samples: rows of a state are held over its motion."""
        found: dict[str, Any] = {}
        for name, x in self.inputs.items():
            rows = x.ndim > 1 and len(x) == len(self.q)
            held = np.repeat(np.resize(x, (batch, *x.shape[1:]))[:, None], samples, 1)
            found[name] = held if rows else x
        return found

    def _growth(self, integrator: str, dt: float) -> float:
        """Growth of a small motion about rest in a period of the fastest mode, as a logarithm."""
        assert self.rest is not None  # a floating robot has no fastest mode
        robot, n, eps = self.robot, self.robot.nv, 1e-5
        # derivative of one step, by central differences
        moves = eps * np.concatenate([np.eye(2 * n), -np.eye(2 * n)])
        q, v = robot.integrate(self.rest, moves[:, :n]), moves[:, n:]
        inputs: dict[str, Any] = {
            name: x[0] if x.ndim > 1 and len(x) == len(self.q) else x
            for name, x in self.inputs.items()
        }
        without = (*self.plant["without"], "friction", "limits")
        plant = {**self.plant, "without": without}
        found = rollout(robot, q, v, dt=dt, steps=1, integrator=integrator, **plant, **inputs)
        moved = np.hstack([robot.difference(self.rest, found.q[:, -1]), found.v[:, -1]])
        if not np.isfinite(moved).all():
            return math.inf
        # velocities in units of the fastest mode, so that both halves are of one size
        scale = np.repeat([1.0, 1.0 / self.frequency], n)
        map_ = ((moved[: 2 * n] - moved[2 * n :]) / (2.0 * eps)).T * scale[:, None] / scale
        radius = np.abs(np.linalg.eigvals(map_)).max()
        return float(np.log(radius) * 2.0 * np.pi / (self.frequency * dt))


def random_states(
    robot: Robot, rng: np.random.Generator, count: int, springs: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Random states q (count, nq) and v (count, nv) over the range of the joints.

    Speeds are within the velocity limits, or 1 rad/s or m/s where there are none; limits from 100
    are stand-ins for none. A stiff spring starts near its balance with gravity, as far off as its
    joint's speed would deflect it.
    """
    q = robot.random(rng, (count,))
    limits = robot.limits
    speed = np.where(limits.velocity < _STATED, limits.velocity, _SPEED)
    v = speed * rng.uniform(-1.0, 1.0, (count, robot.nv))
    shares = rng.uniform(-1.0, 1.0, (count, robot.nv))
    if not springs:
        return q, v
    inertia = np.diagonal(robot.mass_matrix(q), axis1=-2, axis2=-1)
    load = robot.gravity(q)
    for body in robot.model.independent:
        joint, i, j = body.joint, body.iv.start, body.iq.start
        k = joint.drivetrain.stiffness * joint.ratio**2
        if not k or joint.kind.nq != 1:
            continue
        # deflection by gravity, and with the energy of the speed
        sag, swing = -load[:, i] / k, speed[i] * np.sqrt(inertia[:, i] / k)
        low, high = coordinate_range(robot.model, body)
        stiff = np.abs(sag) + swing < 0.5 * (high - low)
        relaxed = (joint.rest[0] - joint.offset) / joint.ratio
        sprung = np.clip(relaxed + sag + shares[:, i] * swing, limits.lower[j], limits.upper[j])
        q[:, j] = np.where(stiff, sprung, q[:, j])
    return q, v


def rest_configuration(robot: Robot, springs: bool) -> np.ndarray | None:
    """Where the energy of gravity and springs is least, from the neutral one; None if nowhere."""
    neutral = robot.integrate(robot.neutral(), 1e-2 * np.ones(robot.nv))
    zero = np.zeros(robot.nv)
    sprung = [b for b in robot.model.bodies if springs and b.joint.drivetrain.stiffness]

    def energy(u: np.ndarray) -> float:
        q = robot.integrate(neutral, u)
        elastic = 0.0
        for body in sprung:
            bent = np.subtract(body.joint.displacement(list(q[body.iq])), body.joint.rest)
            elastic += 0.5 * body.joint.drivetrain.stiffness * float(bent @ bent)
        return float(robot.potential_energy(q)) + elastic

    with np.errstate(all="ignore"):
        found = optimize.minimize(energy, zero, method="BFGS")
    q = robot.integrate(neutral, found.x)
    load = np.abs(robot.inverse_dynamics(q, zero, zero, friction=bool(sprung))).max()
    weight = float(robot.model.mass) * math.hypot(*robot.model.gravity)
    return q if np.isfinite(load) and load <= 1e-3 * (weight or 1.0) else None


def _distance(robot: Robot, exact: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Largest difference of a coordinate over time, by motion; infinite if not finite."""
    with np.errstate(all="ignore"):
        apart = np.abs(robot.difference(exact, found)).max(axis=(-2, -1))
    return np.where(np.isfinite(apart), apart, np.inf)
