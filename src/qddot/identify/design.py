"""The regressor of a log, filtered and decimated block by block, and reduced where it is made.

The same kernel filters measured torques and every column of the regressor: a filter on torques
alone would bias what bends, such as Coulomb friction. Nothing of the size of the log is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.ndimage import uniform_filter1d

from qddot.display.progress import OnStep
from qddot.errors import InvalidArgument, UnusableLog
from qddot.identify.base_parameters import BaseParameters
from qddot.identify.log import Log
from qddot.identify.signals import Filter, motion_bandwidth
from qddot.identify.spill import release_pages
from qddot.identify.torque_model import TorqueModel

__all__ = ["REST_SHARE", "Block", "Design", "Form", "choose_filters", "peak_speeds"]

Form = Literal["torque", "momentum"]
_BLOCK_BYTES = 24 * 2**20
"""Bytes of the unfiltered columns of a block."""
_BAND = 5.0
"""Bandwidth of torques for one of the motion: friction and Coriolis torques have its harmonics."""
_ROWS = 100.0
"""Periods of the bandwidth that a log should have: each is three rows."""
_SPECTRUM = 200_000
"""Samples whose spectrum tells the bandwidth of the motion."""
REST_SHARE = 0.01
"""Share of its peak speed below which a joint is at rest."""
_STILL = 0.25
"""Share of the length of the kernel at rest, from which a row is left out."""


@dataclass(frozen=True)
class Block:
    """Filtered rows of a log: columns (n × nv × parameters), torques (n × nv) and the motion.

    `index` are the places in the log that the rows stand for. Where a joint is not `moving`
    (n × nv), its columns and torque are zero.
    """

    index: np.ndarray
    moving: np.ndarray
    columns: np.ndarray
    tau: np.ndarray
    q: np.ndarray
    v: np.ndarray
    a: np.ndarray


@dataclass(frozen=True)
class Design:
    """A torque model on a log: its base columns, by blocks.

    `motion` differentiates positions, `torque` filters torques and columns and decimates. In the
    "momentum" form no acceleration is computed: the kernel's derivative acts on the momentum.
    Rows of a joint that is slower than its speed `rest` for a quarter of the kernel are left out:
    at standstill friction is anything up to its Coulomb level.
    """

    model: TorqueModel
    base: BaseParameters
    log: Log
    motion: Filter
    torque: Filter
    rest: np.ndarray
    form: Form = "torque"

    @property
    def rows(self) -> int:
        """Rows after decimation, of one joint."""
        return sum(self._outputs(s.stop - s.start) for s in self.log.segments)

    def _outputs(self, samples: int) -> int:
        inner = samples - 2 * (self.motion.half + self.torque.half)
        return max((inner - 1) // self.torque.step + 1, 0) if inner > 0 else 0

    def blocks(self, on_step: OnStep | None = None, name: str = "regressor") -> Iterator[Block]:
        """Filtered rows, block by block."""
        margin, step = self.motion.half + self.torque.half, self.torque.step
        width = 8 * self.model.robot.nv * (len(self.model.names) + self.base.rank)
        most = max(_BLOCK_BYTES // (width * step), 16)
        total = self.rows
        if total < self.base.rank // max(self.model.robot.nv, 1) + 2:
            raise UnusableLog(
                self.log.source,
                f"after filtering at {self.torque.bandwidth:.3g} Hz {total} rows a joint are left "
                f"for {self.base.rank} parameters; record longer, or raise bandwidth=",
            )
        done = 0
        for segment in self.log.segments:
            count = self._outputs(segment.stop - segment.start)
            for k in range(0, count, most):
                n = min(most, count - k)
                if on_step:
                    on_step(name, done, total)
                first = segment.start + k * step
                yield self._block(first, first + 2 * margin + (n - 1) * step + 1, n)
                release_pages(self.log.q, self.log.tau, self.log.v)
                done += n

    def _block(self, first: int, last: int, outputs: int) -> Block:
        """Rows from the samples between two indices."""
        log, half = self.log, self.motion.half
        raw = np.asarray(log.q[first:last])
        # the motion at the full rate; a measured velocity is better than a difference at rest
        q = self.motion.apply(raw)
        if log.v is None:
            v, a = self.motion.apply(raw, 1), self.motion.apply(raw, 2)
        else:
            measured = np.asarray(log.v[first:last])
            v, a = self.motion.apply(measured), self.motion.apply(measured, 1)
        tau = np.asarray(log.tau[first + half : last - half])
        # columns at the full rate, then the same kernel on all
        smooth = self.torque.decimator(outputs)
        columns = self._filtered_columns(q, v, a, smooth, outputs)
        still = (np.abs(v) <= self.rest).astype(float)
        still = uniform_filter1d(still, 2 * self.torque.half + 1, axis=0, mode="nearest")
        index = first + half + self.torque.half + self.torque.step * np.arange(outputs)
        here = slice(self.torque.half, len(q) - self.torque.half, self.torque.step)
        moving = still[here] < _STILL
        columns[~moving] = 0.0
        torque = np.where(moving, smooth @ tau, 0.0)
        # copies: a strided view would keep the motion at its full rate
        return Block(index, moving, columns, torque, *(x[here].copy() for x in (q, v, a)))

    def _filtered_columns(
        self, q: np.ndarray, v: np.ndarray, a: np.ndarray, smooth: Any, outputs: int
    ) -> np.ndarray:
        robot, model = self.model.robot, self.model
        rigid = self.base.independent[self.base.independent < model.rigid_count]
        drives = self.base.independent[len(rigid) :] - model.rigid_count
        load = robot.inverse_dynamics(q, v, a) if model.uses_load else None
        own = model.drive_columns(q, v, a, load)[..., drives]
        n = len(q)

        def reduce(matrix: Any, columns: np.ndarray) -> np.ndarray:
            flat = matrix @ columns.reshape(n, -1)
            return flat.reshape(outputs, robot.nv, -1)

        if self.form == "torque":
            columns = np.concatenate([robot.torque_regressor(q, v, a)[..., rigid], own], axis=-1)
            return reduce(smooth, columns)
        # momentum form: the derivative of the kernel replaces that of the momentum
        slope = self.torque.decimator(outputs, 1)
        momentum = robot.momentum_regressor(q, v)[..., rigid]
        rate = robot.momentum_rate_regressor(q, v)[..., rigid]
        made = [reduce(slope, momentum) - reduce(smooth, rate), reduce(smooth, own)]
        # terms of joints come before those of shafts
        terms = [(term.kind, j) for j, own_terms in enumerate(model.drives) for term in own_terms]
        for k, place in enumerate(drives):
            kind, joint = terms[place] if place < len(terms) else ("shaft", 0)
            if kind == "armature":
                made[1][:, joint, k] = slope @ v[:, joint]
        return np.concatenate(made, axis=-1)


def choose_filters(log: Log, bandwidth: float | None = None) -> tuple[Filter, Filter]:
    """Filters of the motion and of torques for a log; by its own motion where none is asked for.

    Torques are passed up to five times the frequency that holds 99 % of the velocities' power, or
    more where a short log would leave fewer than 300 rows; the motion up to twice that.
    """
    dt = log.dt
    if bandwidth is None:
        segment = log.longest_segment
        part = slice(segment.start, min(segment.stop, segment.start + _SPECTRUM))
        velocity = np.asarray(
            log.v[part] if log.v is not None else np.gradient(log.q[part], dt, axis=0)
        )
        bandwidth = max(_BAND * motion_bandwidth(velocity, dt), _ROWS / log.duration)
    elif not bandwidth > 0.0:
        raise InvalidArgument("bandwidth", bandwidth, "it is a positive number of Hz")
    return Filter(2.0 * bandwidth, dt, attenuation=70.0), Filter(bandwidth, dt)


def peak_speeds(log: Log, motion: Filter) -> np.ndarray:
    """Largest speed of each joint in a log."""
    peak = np.zeros(len(log.joints))
    for segment in log.segments:
        for k in range(segment.start, segment.stop, 1 << 17):
            last = min(k + (1 << 17) + 2 * motion.half, segment.stop)
            if last - k > 2 * motion.half + 1:
                v = (
                    motion.apply(np.asarray(log.q[k:last]), 1)
                    if log.v is None
                    else motion.apply(np.asarray(log.v[k:last]))
                )
                peak = np.maximum(peak, np.abs(v).max(axis=0))
                release_pages(log.q, log.v)
    return peak
