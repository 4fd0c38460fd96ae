"""The measurements as tables: for the terminal, and as a page of the documentation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from qddot.bench.goals import Verdict, judge_goals
from qddot.bench.memory_tables import device_table, new_results_table, width_table
from qddot.bench.sheet import Sheet, format_number, format_ratio
from qddot.errors import DescriptionError

__all__ = ["Sheet", "page", "read_measurements", "sheets", "write_measurements"]


def write_measurements(data: dict[str, Any], file: Path) -> None:
    """Keep the measurements as JSON."""
    file.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


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
    made = [
        _batch_table(data),
        new_results_table(data),
        width_table(data),
        _zeros_kept_table(data),
        device_table(data),
        _single_call_table(data),
        _bound_table(data),
        _thread_table(data),
        _compile_table(data),
    ]
    made += [
        _scaling_table(data),
        _log_table(data),
        _rollout_table(data),
        _contact_table(data),
        _loop_table(data),
        _law_table(data),
        _plant_table(data),
        _goal_table(judge_goals(data)),
        _note_lines(data),
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


def _batch_table(data: dict[str, Any]) -> Sheet:
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
    return Sheet("A batch on one core", text, columns, tuple(rows))


def _zeros_kept_table(data: dict[str, Any]) -> Sheet:
    rows = []
    for row in data["rows"]:
        kept = row["ours"].get("kept_us")
        if kept:
            pinocchio = next((p["us"] for p in row["peers"] if p["engine"] == "Pinocchio"), None)
            times = (row["ours"]["us"], kept, pinocchio)
            ratios = (pinocchio and pinocchio / t for t in times[:2])
            share = f"{100 * row['ours']['zeros_share']:.0f} %"
            cells = (*map(format_number, times), *map(format_ratio, ratios))
            rows.append((row["robot"], row["function"], share, *cells))
    text = (
        "Functions of which half the numbers or more are zero at every state, µs a state: the "
        'method writes all of them, `robot.compile(…, zeros="kept")` leaves the zeros of arrays '
        "that it fills again alone. Pinocchio writes its zeros at every call."
    )
    names = ("written", "kept", "Pinocchio", "ratio, written", "ratio, kept")
    columns = ("robot", "function", "zeros", *names)
    return Sheet("Zeros that are kept", text, columns, tuple(rows))


def _single_call_table(data: dict[str, Any]) -> Sheet:
    rows = tuple(
        (
            row["robot"],
            row["function"],
            format_number(row["single"]["us"]),
            format_number(row["single"]["pinocchio_us"]),
            format_ratio(row["single"]["ratio"]),
        )
        for row in data["rows"]
    )
    columns = ("robot", "function", "qddot", "Pinocchio", "ratio")
    text = "µs of one Python call with one state: a method of `Robot`, and the call of Pinocchio."
    return Sheet("A single call", text, columns, rows)


def _bound_table(data: dict[str, Any]) -> Sheet:
    peak = data["peak"]
    text = (
        "Operations of the tape over (time × peak). The peak is that of a compiled loop of "
        f"independent fused multiply-adds on full vectors: {peak['float64'] / 1e9:.1f} billion a "
        f"second on one core in float64, {peak['float32'] / 1e9:.1f} in float32, where one fused "
        "multiply-add on one lane is one operation. An operation of the tape is one addition, "
        "multiplication, sine …: a product and a sum that fuse count as two, a sine as one."
    )
    rows = tuple(
        (
            row["robot"],
            row["function"],
            str(row["compile"]["operations"]),
            f"{100 * row['ours']['bound_share']:.0f} %",
            format_number(row["ours"]["float32_us"]),
            format_ratio(row["ours"]["float32_ratio"]),
        )
        for row in data["rows"]
    )
    columns = ("robot", "function", "operations", "share of bound", "float32 µs", "float32 gain")
    return Sheet("The bound of the machine, and float32", text, columns, rows)


def _thread_table(data: dict[str, Any]) -> Sheet:
    rows = []
    for row in data["threads"]:
        if row["status"] != "ok":
            rows.append((row["robot"], row["status"], row["reason"], "", ""))
            continue
        times = (format_number(row["us"]), format_number(row["two_us"]))
        rows.append((row["robot"], str(row["states"]), *times, format_ratio(row["ratio"])))
    columns = ("robot", "states", "one thread", "two threads", "gain")
    text = (
        "Inverse dynamics of a batch much larger than the cache, µs a state. Turns go on for "
        f"{data['settings']['threaded_seconds']:g} s a pass, as two cores must be left alone at "
        "once."
    )
    return Sheet("Two threads", text, columns, tuple(rows))


def _compile_table(data: dict[str, Any]) -> Sheet:
    rows = tuple(
        (
            row["robot"],
            row["function"],
            f"{row['compile']['cold_s']:.2f}",
            f"{1e3 * row['compile']['warm_s']:.1f}",
            f"{row['compile']['code_bytes'] / 1024:.0f}",
        )
        for row in data["rows"]
    )
    columns = ("robot", "function", "cold s", "warm ms", "code KiB")
    text = (
        "Until a function of a loaded robot is ready for float64: with an empty cache, the best of "
        "three where that takes less than a second, and from the cache. Imports are not counted."
    )
    return Sheet("Compiling", text, columns, rows)


def _scaling_table(data: dict[str, Any]) -> Sheet:
    rows = tuple(
        (
            str(row["joints"]),
            str(row["operations"]),
            format_number(row["us"]),
            format_number(1e3 * row["ns_per_operation"]),
        )
        for row in data["scaling"]
    )
    columns = ("joints", "operations", "µs a state", "ps an operation")
    text = "Inverse dynamics of chains of revolute joints with random axes and inertias."
    return Sheet("Long chains", text, columns, rows)


def _log_table(data: dict[str, Any]) -> Sheet:
    rows = []
    for row in data.get("logs", ()):
        if row["status"] != "ok":
            rows.append((row["robot"], row["status"], row["reason"], *("",) * 4))
            continue
        keys = ("us", "pinocchio_us", "sums_us", "whole_us")
        times = [format_number(row.get(key)) for key in keys]
        times.insert(2, f"{row['ratio']:.0f}×")
        rows.append((row["robot"], f"{row['rows']:,}", *times))
    text = (
        "µs a sample of the torque regressor of a log: blocks of 128 samples that are filled again "
        "and stay in the cache, beside a loop over Pinocchio's computeJointTorqueRegressor that "
        "stores its results, on one core. The normal equations YᵀY and Yᵀτ: by `accumulate`, in "
        "blocks, and from the whole regressor."
    )
    columns = ("robot", "samples", "qddot", "Pinocchio", "ratio", "accumulate", "whole, product")
    return Sheet("Regressor of a log", text, columns, tuple(rows))


def _rollout_table(data: dict[str, Any]) -> Sheet:
    rows = []
    for row in data.get("rollouts", ()):
        if row["status"] != "ok":
            rows.append((row["robot"], row["status"], row["reason"], *("",) * 7))
            continue
        size = (str(row["nv"]), f"{row['states']} × {row['steps']}")
        ours, theirs = format_number(row["us"]), format_number(row["mujoco_us"])
        speed = format_number(row["million_steps_a_second"])
        two = (
            str(row["two_states"]),
            format_number(row["two_us"]),
            format_ratio(row["two_ratio"]),
        )
        gains = (f"{row['ratio']:.1f}×", *two)
        rows.append((row["robot"], *size, ours, speed, theirs, *gains))
    columns = (
        *("robot", "nv", "states × steps", "qddot", "million steps a second", "mujoco.rollout"),
        *("ratio", "states for two", "two threads", "gain"),
    )
    text = (
        "µs a step of free motion, without contact or actuators; MuJoCo's Euler and our "
        "implicit_damping, which take the same steps, on one core and on one thread of "
        "mujoco.rollout, which starts from a few of the states so that its turns are no longer. "
        "Both write the trajectories to arrays that are used again and have turns for "
        f"{data['settings']['rollout_seconds']:g} s a pass; two threads have larger batches, and "
        "as much time as in the table of two threads."
    )
    return Sheet("Rollouts", text, columns, tuple(rows))


def _contact_table(data: dict[str, Any]) -> Sheet:
    rows = tuple(
        (
            row["contact"],
            f"{row['states']} × {row['steps']}",
            *(format_number(row[k]) for k in ("us", "million_steps_a_second", "mujoco_us")),
            f"{row['ratio']:.1f}×",
        )
        for row in data.get("contacts", ())
    )
    columns = (
        *("contact", "states × steps", "qddot", "million steps a second", "mujoco.rollout"),
        "ratio",
    )
    text = (
        "µs a step of the built-in quadruped with its posture held, standing on four feet, on one "
        "core; MuJoCo has its default contact and servos of the same gains, and starts from a few "
        "of the states."
    )
    return Sheet("Contact", text, columns, rows)


def _loop_table(data: dict[str, Any]) -> Sheet:
    rows: list[tuple[str, ...]] = []
    for row in data.get("loops", ()):
        name = f"{row['robot']}, {row['integrator']}"
        if row["status"] != "ok":
            rows.append((name, row["status"], row["reason"], *("",) * 5))
            continue
        rows.append(
            (
                name,
                f"{row['states']} × {row['steps']}",
                *(format_number(row[k]) for k in ("us", "million_steps_a_second", "mujoco_us")),
                f"{row['ratio']:.1f}×",
                *(f"{row[k]:.0e}" for k in ("gap", "mujoco_gap")),
            )
        )
    columns = (
        *("loops", "states × steps", "qddot", "million steps a second", "mujoco.rollout"),
        *("ratio", "open by, m", "MuJoCo's open by, m"),
    )
    text = (
        "µs a step of robots with loop closures, on one core, without limits, friction, actuators "
        "or contact: multipliers and a projection here, MuJoCo's soft equality constraints there, "
        "with Euler for semi_implicit. MuJoCo starts from a few of the states."
    )
    return Sheet("Loops", text, columns, tuple(rows))


def _law_table(data: dict[str, Any]) -> Sheet:
    rows = tuple(
        (
            row["law"],
            str(row["operations"]),
            *(format_number(row.get(k)) for k in ("qddot_us", "c_us", "text_us", "pinocchio_us")),
            format_ratio(row["ratio"]),
        )
        for row in data.get("laws", ())
    )
    columns = ("law", "operations", "compiled", "as C", "its text", "Pinocchio and NumPy", "ratio")
    text = (
        "µs a control cycle of the UR5, one call from Python: a law compiled with `compile_law`, "
        "its own text on floats, and the same law written with Pinocchio and NumPy. As C it is "
        "exported, compiled by the machine's compiler with -O2, and called from a loop of C."
    )
    return Sheet("Laws", text, columns, rows)


def _plant_table(data: dict[str, Any]) -> Sheet:
    keys = ("mj_step_us", "measure_us", "step_us", "contacts_us", "on_top_us")
    rows = tuple(
        (row["robot"], str(row["contacts"]), *(format_number(row[k]) for k in keys))
        for row in data.get("plants", ())
    )
    columns = ("robot", "contacts", "mj_step", "measure", "step", "contacts", "together on top")
    text = (
        "µs a step of `MujocoPlant`, one state, from Python: MuJoCo's own step, and what measuring "
        "the state, stepping and reading the contacts cost on top of it."
    )
    return Sheet("MuJoCo as the plant", text, columns, rows)


def _goal_table(verdicts: list[Verdict]) -> Sheet:
    rows = []
    for v in verdicts:
        sense, unit = ("≥" if v.goal.least else "≤"), v.goal.unit
        worst, verdict = "", "NOT MEASURED"
        if v.worst is not None:
            worst = f"{format_number(v.worst[1])}{unit} ({v.worst[0]})"
            missed = "; ".join(f"{name} {format_number(x)}{unit}" for name, x in v.missed)
            verdict = f"MISSED: {missed}" if missed else "met"
        rows.append((v.goal.claim, f"{sense} {v.goal.bound:g}{unit}", worst, verdict))
    columns = ("measurement", "goal", "worst", "verdict")
    return Sheet("Goals", "What the project asks of itself.", columns, tuple(rows))


def _note_lines(data: dict[str, Any]) -> Sheet:
    """Why an engine is absent, each reason once for a robot and engine."""
    said: dict[tuple[str, str, str, str], list[str]] = {}
    for row in data["rows"]:
        for p in row["peers"]:
            if p["status"] != "ok":
                key = (p["engine"], row["robot"], p["status"], p["reason"])
                said.setdefault(key, []).append(row["function"])
    rows = tuple(
        (e, r, s, why.replace("|", "/"), ", ".join(f)) for (e, r, s, why), f in said.items()
    )
    columns = ("engine", "robot", "status", "reason", "functions")
    return Sheet("Engines that were not measured", "By robot.", columns, rows)
