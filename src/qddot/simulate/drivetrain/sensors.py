"""Sensors: the measured state of the joints that a feedback law reads."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qddot.algorithms.recursion import Vector
from qddot.errors import InvalidArgument
from qddot.model.model import Model
from qddot.simulate.drivetrain.parameters import (
    JointParameter,
    check_not_negative,
    check_positive,
    check_whole,
    values_by_dof,
)
from qddot.spatial.scalar import Scalar, cos, floor, less, sin, sqrt, where

__all__ = ["DifferencedVelocity", "Latency", "Noise", "Quantisation"]

Reading = tuple[list[Scalar], list[Scalar], list[Scalar]]

# Wichmann & Hill 1982: products stay below 2²⁴, so that float32 has them exactly too
_GENERATORS = ((171.0, 30269.0), (172.0, 30307.0), (170.0, 30323.0))
_LEAST = 1e-9


@dataclass(frozen=True)
class Noise:
    """Normal noise on positions and velocities, with these standard deviations.

    Each joint has a generator of its own; the same seed gives the same noise, compiled or not. For
    a batch in which every motion has its own noise, `seed` is an array of the shape of the batch.
    """

    position: JointParameter = 0.0
    velocity: JointParameter = 0.0
    seed: Any = field(default=0, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_not_negative("noise of positions", self.position)
        check_not_negative("noise of velocities", self.velocity)
        seeds = np.asarray(self.seed)
        if seeds.dtype.kind not in "iu" or (seeds < 0).any():
            raise InvalidArgument("seed", self.seed, "it is a whole number, 0 or more, or an array")

    def state_size(self, model: Model) -> int:
        """Three generators for each joint."""
        return 3 * len(self._joints(model))

    def initial_state(self, model: Model) -> np.ndarray:
        """Generators started from the seed, (..., n) for an array of seeds."""
        seeds, n = np.asarray(self.seed), self.state_size(model)
        least = np.tile([m - 1.0 for _, m in _GENERATORS], n // 3)
        drawn = [np.random.SeedSequence(int(s)).generate_state(n) for s in seeds.ravel()]
        return (1.0 + np.reshape(drawn, (*seeds.shape, n)) % least).astype(float)

    def read(self, model: Model, q: Vector, v: Vector, dt: Scalar, state: Vector) -> Reading:
        """The state with noise added."""
        q, v, after = list(q), list(v), []
        for k, (dof, iq) in enumerate(self._joints(model).items()):
            # two independent normal numbers (Box & Muller 1958)
            u, generator = _uniform(state[3 * k : 3 * k + 3])
            turn, generator = _uniform(generator)
            radius = sqrt(_logarithm(where(less(u, _LEAST), _LEAST, u)) * -2.0)
            angle = turn * (2.0 * math.pi)
            x, y = radius * cos(angle), radius * sin(angle)
            q[iq] = q[iq] + x * values_by_dof(model, self.position).get(dof, 0.0)
            v[dof] = v[dof] + y * values_by_dof(model, self.velocity).get(dof, 0.0)
            after += generator
        return q, v, after

    def _joints(self, model: Model) -> dict[int, int]:
        """Places in v and q of the joints that have noise."""
        noisy = {**values_by_dof(model, self.position), **values_by_dof(model, self.velocity)}
        return {dof: iq for dof, iq in _places(model).items() if dof in noisy}


@dataclass(frozen=True)
class Quantisation:
    """Positions as an encoder counts them: the nearest multiple of its `resolution`.

    An encoder of n counts a turn behind a gear of ratio N has the resolution 2π / (n N) at the
    joint. Velocities stay as they are unless `velocity` is their resolution; a drive that has only
    an encoder gets them from `DifferencedVelocity` after this.
    """

    resolution: JointParameter
    velocity: JointParameter | None = None

    def __post_init__(self) -> None:
        check_positive("resolution", self.resolution)
        if self.velocity is not None:
            check_positive("resolution of velocities", self.velocity)

    def state_size(self, model: Model) -> int:
        """No state."""
        return 0

    def initial_state(self, model: Model) -> list[float]:
        """No state."""
        return []

    def read(self, model: Model, q: Vector, v: Vector, dt: Scalar, state: Vector) -> Reading:
        """The state rounded to the resolution."""
        q, v, places = list(q), list(v), _places(model)
        for dof, step in values_by_dof(model, self.resolution).items():
            q[places[dof]] = _round_to(q[places[dof]], step)
        if self.velocity is not None:
            for dof, step in values_by_dof(model, self.velocity).items():
                v[dof] = _round_to(v[dof], step)
        return q, v, []


@dataclass(frozen=True)
class DifferencedVelocity:
    """Velocities from the change of the positions read, smoothed below `cutoff` in rad/s.

    The first reading has no change: it gives the velocity as it is.
    """

    cutoff: Scalar | None = None

    def __post_init__(self) -> None:
        if self.cutoff is not None:
            check_positive("cutoff", self.cutoff)

    def state_size(self, model: Model) -> int:
        """A flag that a reading was taken, and each joint's last position and velocity."""
        return 1 + 2 * len(_places(model))

    def initial_state(self, model: Model) -> list[float]:
        """No reading yet."""
        return [0.0] * self.state_size(model)

    def read(self, model: Model, q: Vector, v: Vector, dt: Scalar, state: Vector) -> Reading:
        """The positions, and their filtered rate of change."""
        begun, places, v = less(0.5, state[0]), _places(model), list(v)
        n = len(places)
        part = 1.0 if self.cutoff is None else dt / (dt + 1.0 / self.cutoff)
        before = zip(places.items(), state[1 : 1 + n], state[1 + n :], strict=True)
        for (dof, iq), last, speed in before:
            change = (q[iq] - last) / dt
            v[dof] = where(begun, speed + (change - speed) * part, v[dof])
        return list(q), v, [1.0, *(q[iq] for iq in places.values()), *(v[dof] for dof in places)]


@dataclass(frozen=True)
class Latency:
    """A delay of readings by whole steps; until the first arrives, the law reads that one."""

    steps: int

    def __post_init__(self) -> None:
        check_whole("latency", self.steps)

    def state_size(self, model: Model) -> int:
        """A flag that a reading was taken, and the readings of the last steps."""
        return 1 + self.steps * 2 * len(_places(model)) if self.steps else 0

    def initial_state(self, model: Model) -> list[float]:
        """No reading yet."""
        return [0.0] * self.state_size(model)

    def read(self, model: Model, q: Vector, v: Vector, dt: Scalar, state: Vector) -> Reading:
        """The oldest reading."""
        q, v = list(q), list(v)
        if not self.steps:
            return q, v, []
        places = _places(model)
        present = [*(q[iq] for iq in places.values()), *(v[dof] for dof in places)]
        n, begun = len(present), less(0.5, state[0])
        lines = [state[1 + k * n : 1 + (k + 1) * n] for k in range(self.steps)]
        lines = [[where(begun, x, y) for x, y in zip(line, present, strict=True)] for line in lines]
        # the oldest reading is delivered, the others move on
        oldest, *rest = [*lines, present]
        for k, (dof, iq) in enumerate(places.items()):
            q[iq], v[dof] = oldest[k], oldest[k + n // 2]
        return q, v, [1.0, *(x for line in rest for x in line)]


def _places(model: Model) -> dict[int, int]:
    """Places in v, and in q, of the joints of one freedom."""
    return {b.iv.start: b.iq.start for b in model.independent if b.joint.kind.nv == 1}


def _round_to(x: Scalar, step: Scalar) -> Scalar:
    return floor(x / step + 0.5) * step


def _uniform(state: Vector) -> tuple[Scalar, list[Scalar]]:
    """A number between 0 and 1, and the state of the generators after it."""
    new = []
    for s, (factor, modulus) in zip(state, _GENERATORS, strict=True):
        product = s * factor
        new.append(product - floor(product / modulus) * modulus)
    total = sum((s / m for s, (_, m) in zip(new, _GENERATORS, strict=True)), 0.0)
    return total - floor(total), new


def _logarithm(u: Scalar) -> Scalar:
    """Natural logarithm of a number from 1e-9 to 1.

    It is 64 artanh((r − 1) / (r + 1)) with r³² = u, and the series of artanh is short there.
    """
    r = u
    for _ in range(5):
        r = sqrt(r)
    y = (r - 1.0) / (r + 1.0)
    square, series = y * y, 0.0 * y
    for k in reversed(range(14)):
        series = series * square + 1.0 / (2 * k + 1)
    return series * y * 64.0
