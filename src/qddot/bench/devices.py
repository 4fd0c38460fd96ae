"""Devices of speed, each alone: the same work with a device and without it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from qddot.algorithms.catalogue import Function, function
from qddot.bench.contender import Contender, Job, make_job
from qddot.bench.measure import Clock, environment, fresh_cache, one_core
from qddot.bench.subjects import find_subject
from qddot.compile.ir import block_groups, stores, stream
from qddot.compile.kernel import Kernel
from qddot.compile.runtime.recycle import drop_recycled
from qddot.robot.native import kernel_of

__all__ = ["DEVICES", "Device", "measure_device"]


@dataclasses.dataclass(frozen=True)
class Device:
    """A device, the function of a robot at which it shows, and how to do without it.

    `off` is a constant of a module with the value that turns the device off, a field of the row of
    the catalogue, or the name of another way to call the kernel.
    """

    robot: str
    function: str
    states: int
    off: tuple[Any, str, Any] | str


DEVICES: dict[str, Device] = {
    "condensed model": Device("panda", "inverse_dynamics", 1024, "joint_space"),
    "groups of blocks": Device("talos", "inverse_dynamics", 512, (block_groups, "_MOST_BLOCKS", 1)),
    "prefetch": Device(
        "ur5", "inverse_dynamics", 1_000_000, (block_groups, "_NEAR_BYTES", 1 << 62)
    ),
    "stores of half a line": Device("ur5", "mass_matrix", 512, (stores, "_MOST_BYTES_ACROSS", 64)),
    "streaming": Device("anymal", "torque_regressor", 8192, (stream, "_FAR_BYTES", 1 << 62)),
    "recycled memory": Device("anymal", "torque_regressor", 2048, "recycle"),
    "zeros kept": Device("anymal", "torque_regressor", 64, "zeros"),
    "batches past NumPy": Device("ur5", "inverse_dynamics", 64, "gufunc"),
}
"""The devices by name."""


@one_core()
def measure_device(clock: Clock, name: str) -> dict[str, Any]:
    """The row of a device: µs a state with it and without it."""
    device = DEVICES[name]
    subject = find_subject(device.robot)
    job = make_job(subject, device.function, 64, 1)
    inputs = {n: np.resize(x, (device.states, *x.shape[1:])) for n, x in job.inputs.items()}
    job = dataclasses.replace(job, inputs=inputs)
    runs = {"with": _run_with(job, device), "without": _run_without(job, device)}
    turns = [Contender("qddot", way, device.states, r, lambda: ()) for way, r in runs.items()]
    on, off = clock.time_interleaved(f"device: {name}", turns)
    drop_recycled()
    return {
        "device": name,
        "robot": subject.title,
        "function": device.function,
        "states": device.states,
        "us": 1e6 * on,
        "without_us": 1e6 * off,
        "gain": off / on,
    }


def _run_with(job: Job, device: Device) -> Callable[[], Any]:
    if device.off == "recycle":
        return partial(_kernel(job, function(job.function)).general, *job.inputs.values())
    if device.off == "zeros":
        return _refill(job, _kernel(job, function(job.function), zeros=False))
    return _refill(job, _kernel(job, function(job.function)))


def _run_without(job: Job, device: Device) -> Callable[[], Any]:
    row, arrays = function(job.function), tuple(job.inputs.values())
    if device.off == "recycle":
        general = _kernel(job, row).general

        def run() -> Any:
            with environment("QDDOT_RECYCLE_BYTES", "0"):
                return general(*arrays)

        return run
    if device.off == "gufunc":
        made = job.robot.empty(job.function, job.states)
        return partial(_kernel(job, row).gufunc, *arrays, out=made)
    if device.off == "joint_space":
        # the same function, recorded from the model as it is
        with fresh_cache():
            return _refill(job, _kernel(job, dataclasses.replace(row, joint_space=False)))
    if isinstance(device.off, tuple):
        with fresh_cache(), _constant(*device.off):
            return _refill(job, _kernel(job, row))
    return _refill(job, _kernel(job, row))


def _kernel(job: Job, row: Function, zeros: bool = True) -> Kernel:
    return kernel_of(row, job.robot.model, job.options, zeros=zeros)


def _refill(job: Job, kernel: Kernel) -> Callable[[], Any]:
    """A call of the kernel into arrays that are used again."""
    made = job.robot.empty(job.function, job.states, **job.options)
    results = made if isinstance(made, tuple) else (made,)
    return partial(kernel.call, *job.inputs.values(), *results)


@contextmanager
def _constant(module: Any, name: str, value: Any) -> Iterator[None]:
    """A constant of a module with another value."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)
