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
from qddot.bench.new_results import keep_last
from qddot.bench.subjects import find_subject
from qddot.compile.ir import block_groups, stores, stream
from qddot.compile.kernel import Kernel
from qddot.compile.runtime.recycle import drop_recycled
from qddot.compile.trace.tape import TapeRecorder
from qddot.robot.native import kernel_of
from qddot.robot.robot import load
from qddot.simulate.contact import ComplementarityContact, Scene
from qddot.spatial.scalar import less, where

__all__ = ["DEVICES", "Device", "measure_device"]


@dataclasses.dataclass(frozen=True)
class Device:
    """A device, the function of a robot at which it shows, and how to do without it.

    `off` is a constant of a module with the value that turns the device off, a field of the row of
    the catalogue, or the name of another way to call the kernel. Results are `new` at every call,
    or in arrays that are used again.
    """

    robot: str
    function: str
    states: int
    off: tuple[Any, str, Any] | str
    new: bool = False


DEVICES: dict[str, Device] = {
    "condensed model": Device("panda", "inverse_dynamics", 1024, "joint_space"),
    "groups of blocks": Device("talos", "inverse_dynamics", 512, (block_groups, "_MOST_BLOCKS", 1)),
    "prefetch": Device(
        "ur5", "inverse_dynamics", 1_000_000, (block_groups, "_NEAR_BYTES", 1 << 62)
    ),
    "stores of half a line": Device("ur5", "mass_matrix", 512, (stores, "_LONGEST_ACROSS", 0)),
    "copies in order": Device(
        "panda", "torque_regressor", 2048, (stream, "_AWAY_BYTES", 1 << 62), new=True
    ),
    "streaming": Device("anymal", "torque_regressor", 8192, (stream, "_AWAY_BYTES", 1 << 62)),
    "recycled memory": Device("anymal", "torque_regressor", 2048, "recycle"),
    "zeros kept": Device("anymal", "torque_regressor", 64, "zeros"),
    "batches past NumPy": Device("ur5", "inverse_dynamics", 64, "gufunc"),
    "regions, contacts far": Device("quadruped", "rollout", 64, "regions"),
    "regions, contacts closed": Device("quadruped", "rollout", 64, "regions"),
}
"""The devices by name."""


@one_core()
def measure_device(clock: Clock, name: str) -> dict[str, Any]:
    """The row of a device: µs a state with it and without it."""
    device = DEVICES[name]
    title = device.robot
    if device.off == "regions":
        runs = _run_regions(device, height=0.1 if "far" in name else 0.0)
    else:
        subject = find_subject(device.robot)
        title, job = subject.title, make_job(subject, device.function, 64, 1)
        inputs = {n: np.resize(x, (device.states, *x.shape[1:])) for n, x in job.inputs.items()}
        job = dataclasses.replace(job, inputs=inputs)
        runs = {"with": _run_with(job, device), "without": _run_without(job, device)}
    turns = [Contender("qddot", way, device.states, r, lambda: ()) for way, r in runs.items()]
    on, off = clock.time_interleaved(f"device: {name}", turns)
    drop_recycled()
    return {
        "device": name,
        "robot": title,
        "function": device.function,
        "states": device.states,
        "us": 1e6 * on,
        "without_us": 1e6 * off,
        "gain": off / on,
    }


def _run_regions(device: Device, height: float) -> dict[str, Callable[[], Any]]:
    """A step of the quadruped on its feet, or above the floor: with regions, and straight.

    Three sweeps a step, since straight code has them one after the other.
    """
    robot = load(device.robot)
    q = np.tile(robot.configurations["home"], (device.states, 1))
    q[:, 2] += height
    v = np.zeros((device.states, robot.nv))
    scene = Scene.from_file(device.robot, only="*/sphere")

    def compile_step(threshold: float) -> Callable[[], Any]:
        # no contact rebounds: the threshold changes no code, but keeps the two kernels apart
        law = ComplementarityContact(scene, sweeps=3, threshold=threshold)
        simulator = robot.simulator(dt=1e-3, contact=law, without="passive")
        simulator.rollout(q, v, steps=1)
        return partial(simulator.rollout, q, v, steps=1)

    with fresh_cache():
        found = {"with": compile_step(0.01)}
    with fresh_cache(), _constant(TapeRecorder, "record_region", _record_straight):
        found["without"] = compile_step(0.02)
    return found


def _record_straight(
    recorder: Any, body: Any, state: Any, times: int, flag: Any = None
) -> list[Any]:
    """A region as straight code: run as often as it may be, with choices of what is kept."""
    now = [0.0 if x is None else x for x in state]
    for _ in range(times):
        after = list(body(now))
        if flag is not None:
            after = [where(less(0.5, flag), a, b) for a, b in zip(after, now, strict=True)]
        now = after
    return now


def _run_with(job: Job, device: Device) -> Callable[[], Any]:
    if device.off == "recycle":
        return partial(_kernel(job, function(job.function)).general, *job.inputs.values())
    if device.off == "zeros":
        return _refill(job, _kernel(job, function(job.function), zeros=False))
    return _call(job, device, _kernel(job, function(job.function)))


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
            return _call(job, device, _kernel(job, row))
    return _refill(job, _kernel(job, row))


def _kernel(job: Job, row: Function, zeros: bool = True) -> Kernel:
    return kernel_of(row, job.robot.model, job.options, zeros=zeros)


def _call(job: Job, device: Device, kernel: Kernel) -> Callable[[], Any]:
    """A call of the kernel with the results that show the device."""
    if device.new:
        return keep_last(partial(kernel.general, *job.inputs.values()))
    return _refill(job, kernel)


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
