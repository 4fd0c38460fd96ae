"""The measurements as tables: for the terminal, and as a page of the documentation."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qddot.bench.goals import judge_goals
from qddot.bench.memory_tables import device_table, new_results_table, width_table
from qddot.bench.sheet import Sheet, format_number, format_ratio
from qddot.errors import DescriptionError
from qddot.files import write_whole

__all__ = ["Sheet", "page", "read_measurements", "sheets", "write_measurements"]


def write_measurements(data: dict[str, Any], file: Path) -> None:
    """Keep the measurements as JSON."""
    write_whole(file, json.dumps(data, indent=1, ensure_ascii=False) + "\n", force=True)


def read_measurements(file: Path) -> dict[str, Any]:
    """Measurements that were kept."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DescriptionError(file, f"no measurements of a benchmark ({error})") from error
    if not isinstance(data, dict) or not {"machine", "rows", "scaling"} <= set(data):
        raise DescriptionError(file, "no measurements of a benchmark")
    if not {"passes", "seconds", "rollout_seconds"} <= set(data.get("settings", ())):
        raise DescriptionError(file, "measurements of an older benchmark: measure again")
    return data


def sheets(data: dict[str, Any]) -> list[Sheet]:
    """All tables that have rows."""
    # goals with the worst measurement of each
    goals = []
    for v in judge_goals(data):
        sense, unit = ("≥" if v.goal.least else "≤"), v.goal.unit
        worst, verdict = "", "NOT MEASURED"
        if v.worst is not None:
            worst = f"{format_number(v.worst[1])}{unit} ({v.worst[0]})"
            missed = "; ".join(f"{name} {format_number(x)}{unit}" for name, x in v.missed)
            verdict = f"MISSED: {missed}" if missed else "met"
        goals.append((v.goal.claim, f"{sense} {v.goal.bound:g}{unit}", worst, verdict))
    # why an engine is absent, each reason once for a robot and engine
    absent: dict[tuple[str, str, str, str], list[str]] = {}
    for row in data["rows"]:
        for p in row["peers"]:
            if p["status"] != "ok":
                key = (p["engine"], row["robot"], p["status"], p["reason"].replace("|", "/"))
                absent.setdefault(key, []).append(row["function"])
    reasons = tuple((*key, ", ".join(functions)) for key, functions in absent.items())
    # tables of one measurement each; of a row that was not measured the reason
    peak = {dtype: x / 1e9 for dtype, x in data["peak"].items()}
    filled = []
    for table in _TABLES:
        rows = []
        for row in data.get(table.measurement, ()):
            if row.get("status", "ok") == "ok":
                rows.append(tuple(cell(row) for cell in table.columns.values()))
            else:
                label, *others = table.columns.values()
                blank = ("",) * (len(others) - 2)
                rows.append((label(row), row["status"], row["reason"], *blank))
        text = table.text.format(settings=data["settings"], peak=peak)
        filled.append(Sheet(table.title, text, tuple(table.columns), tuple(rows)))
    batch, zeros = _batch_tables(data)
    made = [
        batch,
        new_results_table(data),
        width_table(data),
        zeros,
        device_table(data),
        *filled,
        Sheet(
            "Goals",
            "What the project asks of itself.",
            ("measurement", "goal", "worst", "verdict"),
            tuple(goals),
        ),
        Sheet(
            "Engines that were not measured",
            "By robot.",
            ("engine", "robot", "status", "reason", "functions"),
            reasons,
        ),
    ]
    return [s for s in made if s.rows]


def page(data: dict[str, Any]) -> str:
    """The page of the documentation."""
    m, used = data["machine"], data["machine"]["versions"]
    versions = ", ".join(f"{name} {v}" for name, v in used.items() if v)
    facts = (
        f"Measured {m['date']} on {m['cpu']} ({m['cores']} cores, {m['llvm_cpu']}, vectors of "
        f"{m['vector_bytes']} bytes), Python {m['python']}, {versions}."
    )
    passes, seconds, rounds, sample = (
        data["settings"][key] for key in ("passes", "seconds", "rounds", "sample")
    )
    method = (
        "All contenders of a row run in one process on one core, in turns of about "
        f"{1e3 * sample:g} ms, and the best turn of {passes} × {seconds:g} s counts; where one run "
        f"takes longer, the best of {passes} × {rounds} at least. Before a short turn there is a "
        "run to warm the caches, which does not count. "
        "Before a pair is timed, its results must agree to 1e-8 of the largest entry. Mimic "
        "joints are independent, so that all engines have the same degrees of freedom. A ratio is "
        "the peer's time over ours."
    )
    origin = "Written by `qddot bench --page`. Repeat it with `make bench`."
    head = "\n\n".join(["# Performance", origin, facts, method]) + "\n"
    return "\n".join([head, *(s.markdown() for s in sheets(data))])


def _batch_tables(data: dict[str, Any]) -> tuple[Sheet, Sheet]:
    """Batches beside other engines, and functions that leave zeros of their arrays alone."""
    engines = list(dict.fromkeys(p["engine"] for row in data["rows"] for p in row["peers"]))
    rows = []
    for row in data["rows"]:
        cells: dict[str, str] = {}
        for p in row["peers"]:
            shown = f"{format_number(p['us'])} ({p['ratio']:.1f}×)" if p["ratio"] else p["status"]
            cells.setdefault(p["engine"], shown)
        ours = format_number(row["ours"]["us"])
        listed = (cells.get(engine, "–") for engine in engines)
        rows.append((row["robot"], row["function"], str(row["states"]), ours, *listed))
    text = (
        "µs a state, and in brackets the ratio. qddot runs a method of `Robot` on a batch that "
        "stays in the cache, on one core, in float64, into arrays that are used again. "
        "Pinocchio's time is the shorter of a Python call a state and its own loop over a batch "
        "on one thread; MuJoCo and Drake take Python calls; CasADi runs the same text in its own "
        "virtual machine. A dash: that engine is not asked for it."
    )
    columns = ("robot", "function", "states", "qddot", *engines)
    batch = Sheet("A batch on one core", text, columns, tuple(rows))
    # functions of which half the numbers or more are zero at every state
    kept_rows = []
    for row in data["rows"]:
        kept = row["ours"].get("kept_us")
        if kept:
            pinocchio = next((p["us"] for p in row["peers"] if p["engine"] == "Pinocchio"), None)
            times = (row["ours"]["us"], kept, pinocchio)
            ratios = (pinocchio and pinocchio / t for t in times[:2])
            share = f"{100 * row['ours']['zeros_share']:.0f} %"
            numbers = (*map(format_number, times), *map(format_ratio, ratios))
            kept_rows.append((row["robot"], row["function"], share, *numbers))
    text = (
        "Functions of which half the numbers or more are zero at every state, µs a state: the "
        'method writes all of them, `robot.compile(…, zeros="kept")` leaves the zeros of arrays '
        "that it fills again alone. Pinocchio writes its zeros at every call."
    )
    names = ("written", "kept", "Pinocchio", "ratio, written", "ratio, kept")
    columns = ("robot", "function", "zeros", *names)
    zeros = Sheet("Zeros that are kept", text, columns, tuple(kept_rows))
    return batch, zeros


@dataclass(frozen=True)
class _Table:
    """A table with a line for each row of a measurement."""

    title: str
    measurement: str
    text: str
    """With the settings, and the peaks in billions of operations a second, in braces."""
    columns: dict[str, Callable[[dict[str, Any]], str]]


def _cell(*path: str, form: Callable[[Any], str] = str) -> Callable[[dict[str, Any]], str]:
    """Cells with the value at a path of keys in a row; None where the row has no such value."""

    def cell(row: Any) -> str:
        for key in path:
            row = row.get(key)
        return form(row)

    return cell


def _number(*path: str) -> Callable[[dict[str, Any]], str]:
    """Cells with a number at a path of keys in a row, such as a time in µs."""
    return _cell(*path, form=format_number)


def _states_and_steps(row: dict[str, Any]) -> str:
    return f"{row['states']} × {row['steps']}"


_ROLLOUT_TIMES = {
    "qddot": _number("us"),
    "million steps a second": _number("million_steps_a_second"),
    "mujoco.rollout": _number("mujoco_us"),
    "ratio": _cell("ratio", form="{:.1f}×".format),
}

_TABLES = (
    _Table(
        "A single call",
        "rows",
        "µs of one Python call with one state: a method of `Robot`, and the call of Pinocchio.",
        {
            "robot": _cell("robot"),
            "function": _cell("function"),
            "qddot": _number("single", "us"),
            "Pinocchio": _number("single", "pinocchio_us"),
            "ratio": _cell("single", "ratio", form=format_ratio),
        },
    ),
    _Table(
        "The bound of the machine, and float32",
        "rows",
        "Operations of the tape over (time × peak). The peak is that of a compiled loop of "
        "independent fused multiply-adds on full vectors: {peak[float64]:.1f} billion a "
        "second on one core in float64, {peak[float32]:.1f} in float32, where one fused "
        "multiply-add on one lane is one operation. An operation of the tape is one addition, "
        "multiplication, sine …: a product and a sum that fuse count as two, a sine as one.",
        {
            "robot": _cell("robot"),
            "function": _cell("function"),
            "operations": _cell("compile", "operations"),
            "share of bound": lambda row: f"{100 * row['ours']['bound_share']:.0f} %",
            "float32 µs": _number("ours", "float32_us"),
            "float32 gain": _cell("ours", "float32_ratio", form=format_ratio),
        },
    ),
    _Table(
        "Two threads",
        "threads",
        "Inverse dynamics of a batch much larger than the cache, µs a state. Turns go on for "
        "{settings[threaded_seconds]:g} s a pass, as two cores must be left alone at once.",
        {
            "robot": _cell("robot"),
            "states": _cell("states"),
            "one thread": _number("us"),
            "two threads": _number("two_us"),
            "gain": _cell("ratio", form=format_ratio),
        },
    ),
    _Table(
        "Compiling",
        "rows",
        "Until a function of a loaded robot is ready for float64: with an empty cache, the best of "
        "three where that takes less than a second, and from the cache. Imports are not counted.",
        {
            "robot": _cell("robot"),
            "function": _cell("function"),
            "cold s": _cell("compile", "cold_s", form="{:.2f}".format),
            "warm ms": lambda row: f"{1e3 * row['compile']['warm_s']:.1f}",
            "code KiB": lambda row: f"{row['compile']['code_bytes'] / 1024:.0f}",
        },
    ),
    _Table(
        "Long chains",
        "scaling",
        "Inverse dynamics of chains of revolute joints with random axes and inertias.",
        {
            "joints": _cell("joints"),
            "operations": _cell("operations"),
            "µs a state": _number("us"),
            "ps an operation": lambda row: format_number(1e3 * row["ns_per_operation"]),
        },
    ),
    _Table(
        "Regressor of a log",
        "logs",
        "µs a sample of the torque regressor of a log: blocks of 128 samples that are filled again "
        "and stay in the cache, beside a loop over Pinocchio's computeJointTorqueRegressor that "
        "stores its results, on one core. The normal equations YᵀY and Yᵀτ: by `accumulate`, in "
        "blocks, and from the whole regressor.",
        {
            "robot": _cell("robot"),
            "samples": _cell("rows", form="{:,}".format),
            "qddot": _number("us"),
            "Pinocchio": _number("pinocchio_us"),
            "ratio": _cell("ratio", form="{:.0f}×".format),
            "accumulate": _number("sums_us"),
            "whole, product": _number("whole_us"),
        },
    ),
    _Table(
        "Rollouts",
        "rollouts",
        "µs a step of free motion, without contact or actuators; MuJoCo's Euler and our "
        "implicit_damping, which take the same steps, on one core and on one thread of "
        "mujoco.rollout, which starts from a few of the states so that its turns are no longer. "
        "Both write the trajectories to arrays that are used again and have turns for "
        "{settings[rollout_seconds]:g} s a pass; two threads have larger batches, and "
        "as much time as in the table of two threads.",
        {
            "robot": _cell("robot"),
            "nv": _cell("nv"),
            "states × steps": _states_and_steps,
            **_ROLLOUT_TIMES,
            "states for two": _cell("two_states"),
            "two threads": _number("two_us"),
            "gain": _cell("two_ratio", form=format_ratio),
        },
    ),
    _Table(
        "Contact",
        "contacts",
        "µs a step of the built-in quadruped with its posture held, standing on four feet, on one "
        "core; MuJoCo has its default contact and servos of the same gains, and starts from a few "
        "of the states.",
        {"contact": _cell("contact"), "states × steps": _states_and_steps, **_ROLLOUT_TIMES},
    ),
    _Table(
        "Contact of all shapes",
        "shapes",
        "µs a step of robots of Menagerie on the ground with all spheres, capsules and boxes of "
        "their files, by complementarity, on one core: standing, and falling in all orientations. "
        "MuJoCo has the same shapes, steps of the same length, servos of the same gains and its "
        "solver as the file sets it; in batches it starts from a few of the states. `unsolved` "
        "counts the states of a batch with a step whose contact did not converge, `compile` the "
        "seconds of CPU.",
        {
            "robot": lambda row: f"{row['robot']}, {row['motion']}",
            "points": _cell("points"),
            "states × steps": _states_and_steps,
            "qddot": _number("us"),
            "MuJoCo": _number("mujoco_us"),
            "ratio": _cell("ratio", form=format_ratio),
            "one state": _number("single_us"),
            "MuJoCo, one": _number("mujoco_single_us"),
            "ratio, one": _cell("single_ratio", form=format_ratio),
            "compile, s": _number("compile_s"),
            "unsolved": _cell("unsolved"),
        },
    ),
    _Table(
        "Loops",
        "loops",
        "µs a step of robots with loop closures, on one core, without limits, friction, actuators "
        "or contact: multipliers and a projection here, MuJoCo's soft equality constraints there, "
        "with Euler for semi_implicit. MuJoCo starts from a few of the states.",
        {
            "loops": lambda row: f"{row['robot']}, {row['integrator']}",
            "states × steps": _states_and_steps,
            **_ROLLOUT_TIMES,
            "open by, m": _cell("gap", form="{:.0e}".format),
            "MuJoCo's open by, m": _cell("mujoco_gap", form="{:.0e}".format),
        },
    ),
    _Table(
        "Laws",
        "laws",
        "µs a control cycle of the UR5, one call from Python: a law compiled with `compile_law`, "
        "its own text on floats, and the same law written with Pinocchio and NumPy. As C it is "
        "exported, compiled by the machine's compiler with -O2, and called from a loop of C.",
        {
            "law": _cell("law"),
            "operations": _cell("operations"),
            "compiled": _number("qddot_us"),
            "as C": _number("c_us"),
            "its text": _number("text_us"),
            "Pinocchio and NumPy": _number("pinocchio_us"),
            "ratio": _cell("ratio", form=format_ratio),
        },
    ),
    _Table(
        "MuJoCo as the plant",
        "plants",
        "µs a step of `MujocoPlant`, one state, from Python: MuJoCo's own step, and what measuring "
        "the state, stepping and reading the contacts cost on top of it.",
        {
            "robot": _cell("robot"),
            "contacts": _cell("contacts"),
            "mj_step": _number("mj_step_us"),
            "measure": _number("measure_us"),
            "step": _number("step_us"),
            "reading contacts": _number("contacts_us"),
            "together on top": _number("on_top_us"),
        },
    ),
)
