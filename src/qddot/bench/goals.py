"""The goals of the project for one core, held against what was measured."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["GOALS", "Goal", "GoalVerdict", "judge_goals"]

Measurements = Iterator[tuple[str, float]]
_COMPARED = ("UR5", "Panda", "ANYmal C", "Talos")
_FIRST_DERIVATIVES = ("inverse_dynamics_derivatives", "forward_dynamics_derivatives")
_DYNAMICS = ("inverse_dynamics", "forward_dynamics")


@dataclass(frozen=True)
class Goal:
    """A claim, its measurements, and the bound that they must reach or must not pass."""

    claim: str
    bound: float
    measurements: Callable[[dict[str, Any]], Measurements]
    least: bool = True
    unit: str = "×"

    def is_met(self, measurement: float) -> bool:
        """Whether a measurement keeps the bound."""
        return measurement >= self.bound if self.least else measurement <= self.bound


@dataclass(frozen=True)
class GoalVerdict:
    """A goal, its worst measurement (None if there is none), and the measurements that miss it."""

    goal: Goal
    worst: tuple[str, float] | None
    missed: tuple[tuple[str, float], ...]


def judge_goals(data: dict[str, Any]) -> list[GoalVerdict]:
    """All goals, with what was measured."""
    verdicts = []
    for goal in GOALS:
        measurements = list(goal.measurements(data))
        worst = (min if goal.least else max)(measurements, key=lambda f: f[1], default=None)
        missed = tuple(f for f in measurements if not goal.is_met(f[1]))
        verdicts.append(GoalVerdict(goal, worst, missed))
    return verdicts


def _select_rows(
    data: dict[str, Any], functions: Collection[str], robots: Collection[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of functions (all if none are named) of robots by title or kind (all if none)."""
    for row in data["rows"]:
        named = not robots or row["robot"] in robots or row["kind"] in robots
        if named and (not functions or row["function"] in functions):
            yield f"{row['robot']} {row['function']}", row


def _ratio_of(
    engine: str, functions: Collection[str], robots: Collection[str], ours: str = "us"
) -> Callable[[dict[str, Any]], Measurements]:
    """Time of an engine over ours, by one of our measurements."""

    def measurements(data: dict[str, Any]) -> Measurements:
        for label, row in _select_rows(data, functions, robots):
            mine = row["ours"].get(ours)
            for peer in row["peers"]:
                if peer["engine"] == engine and peer["us"] and mine:
                    yield label, peer["us"] / mine

    return measurements


def _figure_of(
    part: str, field: str, functions: Collection[str] = (), robots: Collection[str] = ()
) -> Callable[[dict[str, Any]], Measurements]:
    """A measurement of the rows."""

    def measurements(data: dict[str, Any]) -> Measurements:
        for label, row in _select_rows(data, functions, robots):
            if row[part][field] is not None:
                yield label, row[part][field]

    return measurements


def _figure_of_table(
    table: str, field: str, label: str
) -> Callable[[dict[str, Any]], Measurements]:
    """A measurement of the rows of another table; the label has fields of the row in braces."""

    def measurements(data: dict[str, Any]) -> Measurements:
        for row in data.get(table, ()):
            if row.get("status", "ok") == "ok":
                yield label.format(**row), row[field]

    return measurements


def _contact_figure(kind: str, field: str) -> Callable[[dict[str, Any]], Measurements]:
    """A measurement of a way of contact."""

    def measurements(data: dict[str, Any]) -> Measurements:
        for row in data.get("contacts", ()):
            if row["contact"] == kind:
                yield f"quadruped, {kind}", row[field]

    return measurements


def _shape_compiles(robot: str) -> Callable[[dict[str, Any]], Measurements]:
    """CPU seconds to compile the step of a robot with all shapes of its file."""

    def measurements(data: dict[str, Any]) -> Measurements:
        for row in data.get("shapes", ()):
            if row["robot"] == robot and row["status"] == "ok":
                yield f"{robot} with all shapes", row["compile_s"]

    return measurements


def _new_result_ratios(kinds: Collection[str]) -> Callable[[dict[str, Any]], Measurements]:
    """Pinocchio's loop over new results of regressors and first derivatives."""
    named = ("torque_regressor", *_FIRST_DERIVATIVES)

    def measurements(data: dict[str, Any]) -> Measurements:
        for row in data.get("new_results", ()):
            if row["function"] in named and row["kind"] in kinds and row["ratio"]:
                yield f"{row['robot']} {row['function']}, new", row["ratio"]

    return measurements


def _new_results_over_fill(data: dict[str, Any]) -> Measurements:
    """Time of new results over that of a plain fill, where Pinocchio's ratio misses its goal."""
    for row in data.get("new_results", ()):
        goal = {"arm": 20.0, "humanoid": 8.0}.get(row["kind"], 0.0)
        if row["ratio"] and row["ratio"] < goal:
            last = row["batches"][-1]
            yield f"{row['robot']} {row['function']}, new", last["new_us"] / last["fill_us"]


def _width_gains(data: dict[str, Any]) -> Measurements:
    """Time with vectors of 32 bytes over that with 64, where the processor has both."""
    if data["machine"]["vector_bytes"] < 64:
        return
    for row in data.get("new_results", ()):
        widths = row["widths"]["cache_us"]
        yield f"{row['robot']} {row['function']}", widths["32"] / widths["64"]


def _rollout_figure(field: str) -> Callable[[dict[str, Any]], Measurements]:
    """A measurement of the rollouts."""

    def measurements(data: dict[str, Any]) -> Measurements:
        for row in data.get("rollouts", ()):
            if row["status"] == "ok":
                yield f"{row['robot']} rollout", row[field]

    return measurements


def _largest_spread(data: dict[str, Any]) -> Measurements:
    costs = [row["ns_per_operation"] for row in data["scaling"]]
    if len(costs) > 1:
        yield "slowest ÷ fastest", max(costs) / min(costs)


def _cold_compiles(
    functions: Collection[str], robots: Collection[str]
) -> Callable[[dict[str, Any]], Measurements]:
    return _figure_of("compile", "cold_s", functions, robots)


GOALS = (
    Goal(
        "inverse and forward dynamics, Pinocchio's fastest",
        20.0,
        _ratio_of("Pinocchio", _DYNAMICS, _COMPARED),
    ),
    Goal("mass matrix of arms, Pinocchio", 20.0, _ratio_of("Pinocchio", ["mass_matrix"], ["arm"])),
    Goal(
        "mass matrix of Talos, Pinocchio", 12.0, _ratio_of("Pinocchio", ["mass_matrix"], ["Talos"])
    ),
    Goal(
        "first derivatives of arms, Pinocchio",
        20.0,
        _ratio_of("Pinocchio", _FIRST_DERIVATIVES, ["arm"]),
    ),
    Goal(
        "first derivatives of Talos, Pinocchio",
        10.0,
        _ratio_of("Pinocchio", _FIRST_DERIVATIVES, ["Talos"]),
    ),
    Goal(
        "Coriolis matrix and regressor, Pinocchio",
        15.0,
        _ratio_of("Pinocchio", ["coriolis_matrix", "torque_regressor"], _COMPARED),
    ),
    Goal(
        "regressor that keeps its zeros, Pinocchio",
        15.0,
        _ratio_of("Pinocchio", ["torque_regressor"], _COMPARED, "kept_us"),
    ),
    Goal(
        "operational space of a 7R arm, Pinocchio and NumPy",
        10.0,
        _ratio_of("Pinocchio", ["operational_space"], ["Panda"]),
    ),
    Goal("dynamics of arms, MuJoCo", 30.0, _ratio_of("MuJoCo", _DYNAMICS, ["arm"])),
    Goal("dynamics of humanoids, MuJoCo", 15.0, _ratio_of("MuJoCo", _DYNAMICS, ["humanoid"])),
    Goal("single call, Pinocchio's Python call", 1.0, _figure_of("single", "ratio")),
    Goal(
        "share of the multiply-add bound, inverse dynamics of UR5 and Talos",
        0.4,
        _figure_of("ours", "bound_share", ["inverse_dynamics"], ["UR5", "Talos"]),
        unit="",
    ),
    Goal("float32, float64", 1.5, _figure_of("ours", "float32_ratio")),
    Goal("two threads, one", 1.8, _figure_of_table("threads", "ratio", "{robot}")),
    Goal("new results of arms, a loop over Pinocchio", 20.0, _new_result_ratios(["arm"])),
    Goal("new results of humanoids, a loop over Pinocchio", 8.0, _new_result_ratios(["humanoid"])),
    Goal(
        "new results that miss these, over a plain fill",
        2.0,
        _new_results_over_fill,
        least=False,
    ),
    Goal("vectors of 64 bytes, of 32", 1.0, _width_gains),
    Goal(
        "regressor of a log in blocks, a loop over Pinocchio",
        40.0,
        _figure_of_table("logs", "ratio", "{robot} regressor of a log"),
    ),
    Goal("contact-free rollout, mujoco.rollout", 20.0, _rollout_figure("ratio")),
    Goal(
        "million steps a second, penalty contact",
        1.0,
        _contact_figure("penalty", "million_steps_a_second"),
        unit="",
    ),
    Goal("penalty contact, mujoco.rollout", 5.0, _contact_figure("penalty", "ratio")),
    Goal("complementarity, mujoco.rollout", 1.0, _contact_figure("complementarity", "ratio")),
    Goal(
        "all shapes of a file, one state, mujoco.rollout",
        1.0,
        _figure_of_table("shapes", "single_ratio", "{robot} {motion}, one state"),
    ),
    Goal(
        "all shapes of a file, batches, mujoco.rollout",
        10.0,
        _figure_of_table("shapes", "ratio", "{robot} {motion}"),
    ),
    Goal(
        "cold compile, Go2 with all shapes",
        8.0,
        _shape_compiles("Go2"),
        least=False,
        unit=" s",
    ),
    Goal(
        "cold compile, H1 with all shapes",
        10.0,
        _shape_compiles("H1"),
        least=False,
        unit=" s",
    ),
    Goal(
        "closed loops, mujoco.rollout",
        10.0,
        _figure_of_table("loops", "ratio", "{robot} loops, {integrator}"),
    ),
    Goal(
        "MujocoPlant, on top of mj_step",
        25.0,
        _figure_of_table("plants", "on_top_us", "{robot} in MuJoCo"),
        least=False,
        unit=" µs",
    ),
    Goal("two threads, one, rollout", 1.8, _rollout_figure("two_ratio")),
    Goal("time per operation on chains", 2.0, _largest_spread, least=False),
    Goal("cold compile, UR5", 0.5, _cold_compiles([], ["UR5"]), least=False, unit=" s"),
    Goal(
        "cold compile, Talos inverse, forward, mass",
        3.0,
        _cold_compiles([*_DYNAMICS, "mass_matrix"], ["Talos"]),
        least=False,
        unit=" s",
    ),
    Goal(
        "cold compile, Talos derivatives",
        15.0,
        _cold_compiles(_FIRST_DERIVATIVES, ["Talos"]),
        least=False,
        unit=" s",
    ),
    Goal("warm start", 0.03, _figure_of("compile", "warm_s"), least=False, unit=" s"),
)
