"""The benchmark: every measurement of every robot and function, as plain data for JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from qddot.algorithms.catalogue import function
from qddot.bench.contender import (
    Contender,
    Job,
    Skipped,
    can_move_freely,
    make_job,
    ours,
    ours_refilled,
    ours_single,
)
from qddot.bench.devices import DEVICES, measure_device
from qddot.bench.laws import LAWS, measure_law
from qddot.bench.logs import measure_log_regressor
from qddot.bench.loop_rollouts import LOOPS, measure_loops
from qddot.bench.measure import (
    TOLERANCE,
    BenchmarkSettings,
    Clock,
    compile_seconds,
    difference,
    fresh_cache,
    one_core,
)
from qddot.bench.new_results import has_many_numbers, measure_new_results
from qddot.bench.peak import multiply_add_peak
from qddot.bench.peers import ENGINES
from qddot.bench.plants import PLANTS, measure_plant
from qddot.bench.rollouts import CONTACTS, measure_contact, measure_rollout
from qddot.bench.shape_rollouts import MOTIONS, SHAPES, measure_shapes
from qddot.bench.subjects import SUITE, Subject, chain, find_subject
from qddot.compile.runtime import native
from qddot.compile.runtime.threads import threads
from qddot.display.progress import OnStep
from qddot.errors import JointsDiffer

__all__ = [
    "FUNCTIONS",
    "QUICK_FUNCTIONS",
    "QUICK_ROBOTS",
    "BenchmarkPlan",
    "benchmark",
    "disagreements",
]

FUNCTIONS = (
    "inverse_dynamics",
    "forward_dynamics",
    "mass_matrix",
    "coriolis_matrix",
    "gravity",
    "bias",
    "frame_jacobian",
    "torque_regressor",
    "inverse_dynamics_derivatives",
    "forward_dynamics_derivatives",
    "centroidal_map",
    "hybrid_dynamics",
    "constrained_dynamics",
    "operational_space",
)
QUICK_FUNCTIONS = (
    "inverse_dynamics",
    "forward_dynamics",
    "mass_matrix",
    "inverse_dynamics_derivatives",
)
QUICK_ROBOTS = ("ur5", "talos")
_MANY_ZEROS = 0.5
"""The share of zeros from which it is measured what it takes not to write them again."""
_PACKAGES = ("qddot", "numpy", "llvmlite", "casadi", "pin", "mujoco", "drake", "adam-robotics")

Step = tuple[str, Callable[[], None]]


@dataclass(frozen=True)
class BenchmarkPlan:
    """Robots, functions and settings to measure."""

    robots: tuple[str, ...] = tuple(SUITE)
    functions: tuple[str, ...] = FUNCTIONS
    settings: BenchmarkSettings = BenchmarkSettings()  # noqa: RUF009 frozen
    rollouts: tuple[str, ...] = ()
    devices: bool = False


def benchmark(plan: BenchmarkPlan, on_step: OnStep) -> dict[str, Any]:
    """All measurements; `on_step(name, done, of)` hears what comes next."""
    for name in plan.functions:
        function(name)
    subjects = [find_subject(name) for name in plan.robots]
    # the machine and the versions that measurements depend on
    target = native.host()
    versions: dict[str, str | None] = {}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    cpu = platform.processor()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        cpu = names[0] if names else cpu
    machine = {
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "llvm_cpu": target.cpu,
        "vector_bytes": target.register_bytes,
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions,
        "load": [round(x, 2) for x in os.getloadavg()] if hasattr(os, "getloadavg") else None,
    }
    data: dict[str, Any] = {
        "machine": machine,
        "settings": asdict(plan.settings),
        "peak": {},
        "rows": [],
        "new_results": [],
        "devices": [],
        "threads": [],
        "scaling": [],
        "logs": [],
        "rollouts": [],
        "contacts": [],
        "shapes": [],
        "loops": [],
        "laws": [],
        "plants": [],
    }
    steps = list(_list_steps(plan, subjects, data))
    with fresh_cache():
        for k, (name, step) in enumerate(steps):
            on_step(name, k, len(steps))
            step()
    return data


def _list_steps(
    plan: BenchmarkPlan, subjects: Sequence[Subject], data: dict[str, Any]
) -> Iterator[Step]:
    """The steps in order; each adds its measurements to the data."""
    clock, scaled = Clock(plan.settings), "inverse_dynamics" in plan.functions
    yield (
        "multiply-add peak",
        lambda: data["peak"].update({x: multiply_add_peak(x) for x in ("float64", "float32")}),
    )
    # a task is all six axes at the tool of an arm; any other function makes sense on any robot
    jobs = [
        (s, name)
        for s in subjects
        for name in plan.functions
        if name != "operational_space" or (s.kind in ("arm", "robot") and can_move_freely(s.robot))
    ]
    tables: tuple[tuple[str, str, Callable[..., Any], Sequence[Any]], ...] = (
        ("rows", "{0.title}: {1}", partial(_measure_function, data["peak"]), jobs),
        (
            "new_results",
            "{0.title}: {1}, new results",
            measure_new_results,
            [(s, name) for s, name in jobs if has_many_numbers(s, name)],
        ),
        ("devices", "{0}", measure_device, [(name,) for name in DEVICES if plan.devices]),
        ("threads", "{0.title}: two threads", _measure_threads, [(s,) for s in subjects if scaled]),
        (
            "scaling",
            "chain of {0} joints",
            _measure_scaling,
            [(n,) for n in plan.settings.chains if scaled],
        ),
        (
            "logs",
            "{0.title}: regressor of a log",
            measure_log_regressor,
            [(s,) for s in subjects if s.kind == "arm" and "torque_regressor" in plan.functions],
        ),
        ("rollouts", "{0}: rollout", measure_rollout, [(title,) for title in plan.rollouts]),
        ("contacts", "quadruped: {0}", measure_contact, [(k,) for k in CONTACTS if plan.rollouts]),
        (
            "shapes",
            "{0}: {1} with all shapes",
            measure_shapes,
            [(k, motion) for k in SHAPES for motion in MOTIONS if plan.rollouts],
        ),
        (
            "loops",
            "{0}: loops, {1}",
            measure_loops,
            [(k, method) for k in LOOPS for method in ("semi_implicit", "rk4") if plan.rollouts],
        ),
        ("laws", "UR5: {0} law", measure_law, [(name,) for name in LAWS if plan.rollouts]),
        ("plants", "{0} in MuJoCo", measure_plant, [(k,) for k in PLANTS if plan.rollouts]),
    )
    for _ in range(plan.settings.passes):
        for table, title, measure, each in tables:
            for place, given in enumerate(each):
                yield (
                    title.format(*given),
                    partial(_put_row, data[table], place, measure, clock, given),
                )


def _put_row(
    rows: list[Any], place: int, measure: Callable[..., Any], clock: Clock, given: Sequence[Any]
) -> None:
    """Put a row into its place, instead of that of an earlier pass."""
    rows[place : place + 1] = [measure(clock, *given)]


@one_core()
def _measure_function(
    peak: dict[str, float], clock: Clock, subject: Subject, name: str
) -> dict[str, Any]:
    """The measurements of one function of one robot."""
    settings, title = clock.settings, f"{subject.title} {name}"
    job = make_job(subject, name, settings.states, settings.bytes)
    compiled = clock.first(title, partial(compile_seconds, job))
    mine = [ours(job), ours(job, "float32"), ours_single(job)]
    entered, others = _agreeing_contenders(job, mine[0])
    # the share of numbers that are zero at all states that are compared
    always = [np.all(x == 0.0, axis=0) for x in mine[0].values()]
    zeros = float(sum(map(np.sum, always)) / sum(map(np.size, always)))
    refilled = [ours_refilled(job)] if zeros >= _MANY_ZEROS else []
    batch, narrow, single, *times = clock.time_interleaved(title, [*mine, *entered, *refilled])
    kept = [times.pop() for _ in refilled]
    peers = [
        _peer_row(c.engine, "ok", call=c.call, us=1e6 * t, ratio=t / batch)
        for c, t in zip(entered, times, strict=True)
    ]
    calls = [t for c, t in zip(entered, times, strict=True) if c.call.startswith("pin.")][:1]
    # the fastest way of each engine
    best: dict[str, dict[str, Any]] = {}
    for p in sorted(peers, key=lambda p: p["us"]):
        best.setdefault(p["engine"], p)
    return {
        "robot": subject.title,
        "kind": subject.kind,
        "nv": subject.robot.nv,
        "function": name,
        "states": job.states,
        "ours": {
            "us": 1e6 * batch,
            "float32_us": 1e6 * narrow,
            "float32_ratio": batch / narrow,
            "bound_share": compiled["operations"] / (batch * peak["float64"]),
            "zeros_share": zeros,
            "kept_us": 1e6 * kept[0] if kept else None,
        },
        "single": {
            "us": 1e6 * single,
            "pinocchio_us": 1e6 * calls[0] if calls else None,
            "ratio": calls[0] / single if calls else None,
        },
        "compile": compiled,
        "peers": [best[e.name] for e in ENGINES if e.name in best] + others,
    }


def _agreeing_contenders(job: Job, mine: Contender) -> tuple[list[Contender], list[dict[str, Any]]]:
    """Contenders that agree with ours, and what became of the other engines."""
    entered: list[Contender] = []
    others: list[dict[str, Any]] = []
    expected = mine.values()
    for engine in ENGINES:
        if not engine.has(job.function):
            continue
        if engine.missing:
            reason = f"no module {' or '.join(engine.missing)}"
            others.append(_peer_row(engine.name, "NOT INSTALLED", reason))
            continue
        try:
            found = [(c, difference(expected, c.values())) for c in engine.contenders(job)]
        except (Skipped, JointsDiffer) as error:
            others.append(_peer_row(engine.name, "SKIPPED", str(error)))
            continue
        except Exception as error:  # what goes wrong in another engine is its result
            others.append(_peer_row(engine.name, "FAILED", f"{type(error).__name__}: {error}"))
            continue
        for c, apart in found:
            if apart <= TOLERANCE:
                entered.append(c)
            else:
                reason = f"{c.call} differs by {apart:.1e}"
                others.append(_peer_row(engine.name, "DISAGREES", reason))
    return entered, others


def _peer_row(engine: str, status: str, reason: str = "", **measurements: Any) -> dict[str, Any]:
    """The row of an engine, without measurements where it was not timed."""
    row = {"engine": engine, "call": "", "status": status, "reason": reason}
    return {**row, "us": None, "ratio": None, **measurements}


def _measure_threads(clock: Clock, subject: Subject) -> dict[str, Any]:
    """Inverse dynamics of a large batch on one thread and on two."""
    row: dict[str, Any] = {"robot": subject.title, "status": "ok", "reason": ""}
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if (available or 1) < 2:
        return {**row, "status": "NOT MEASURED", "reason": "one core is available to this process"}
    job = make_job(subject, "inverse_dynamics", 10**6, clock.settings.threaded_bytes)
    q, v, a = job.inputs.values()
    out = np.empty((job.states, subject.robot.nv))

    def split(n: int) -> None:
        with threads(n):
            subject.robot.inverse_dynamics(q, v, a, out=out)

    turns = [
        Contender("qddot", f"{n} threads", job.states, partial(split, n), lambda: (out,))
        for n in (1, 2)
    ]
    times = clock.time_interleaved(
        f"{subject.title}: threads", turns, clock.settings.threaded_seconds
    )
    first, second = (1e6 * t for t in times)
    return {**row, "states": job.states, "us": first, "two_us": second, "ratio": first / second}


@one_core()
def _measure_scaling(clock: Clock, joints: int) -> dict[str, Any]:
    """Inverse dynamics of a chain of `joints` joints."""
    robot, settings = chain(joints), clock.settings
    subject = Subject(robot.name, "robot", robot, None, None)
    job = make_job(subject, "inverse_dynamics", settings.states, settings.bytes)
    operations = robot.explain(job.function).operations
    (seconds,) = clock.time_interleaved(robot.name, [ours(job)])
    return {
        "joints": joints,
        "states": job.states,
        "operations": operations,
        "us": 1e6 * seconds,
        "ns_per_operation": 1e9 * seconds / operations,
    }


def disagreements(data: dict[str, Any]) -> list[str]:
    """The pairs that disagree, in words."""
    steps = [
        f"{row['robot']}, rollout: {row['reason']}"
        for row in data.get("rollouts", ())
        if row["status"] == "DISAGREES"
    ]
    return steps + [
        f"{row['robot']}, {row['function']}: {peer['engine']}: {peer['reason']}"
        for row in data["rows"]
        for peer in row["peers"]
        if peer["status"] == "DISAGREES"
    ]
