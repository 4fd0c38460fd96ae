"""`qddot simulate`: a robot let go, or driven, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from qddot.cli.terminal import (
    BaseOption,
    CouplingsChoice,
    CouplingsOption,
    JsonOption,
    RobotArgument,
    StrictOption,
    err,
    errors_as_messages,
    load_robot,
    out,
    print_json,
    progress_bar,
)
from qddot.drawing import PALETTE, new_figure, save_figure
from qddot.errors import NotUnderstood, UnknownName
from qddot.robot import Robot
from qddot.simulate.contact.complementarity import ComplementarityContact
from qddot.simulate.contact.penalty import PenaltyContact
from qddot.simulate.contact.scene import Scene
from qddot.simulate.drivetrain.friction import ModelLosses
from qddot.simulate.energy import EnergyLedger, draw_energy, draw_residual, energy_ledger
from qddot.simulate.integrators import INTEGRATORS
from qddot.simulate.rollout import Rollout, rollout
from qddot.simulate.status import Verdict
from qddot.simulate.store import save_trajectory

__all__ = ["simulate"]

_MOST_ROWS = 40
_FREE = ("x", "y", "z", "about x", "about y", "about z")
_MOST_LINES = len(PALETTE)


IntegratorOption = Annotated[
    str | None,
    typer.Option(
        help=f"One of {', '.join(INTEGRATORS)}; rk4, or semi_implicit with ground or stops."
    ),
]
TorqueOption = Annotated[
    str | None,
    typer.Option(help="Held throughout, N m or N: one for all joints, one a joint, or gravity."),
]
StateOption = Annotated[
    str, typer.Option(help="Where it starts, at rest: random, neutral, or a name of the file.")
]
FrictionOption = Annotated[
    bool, typer.Option("--friction", help="With the losses and springs of its joints.")
]
GroundOption = Annotated[
    bool, typer.Option("--ground", help="On level ground, by the collision shapes of the file.")
]


@dataclass(frozen=True)
class _Asked:
    """What is to be simulated."""

    source: str
    time: float
    dt: float
    integrator: str | None
    torque: str | None
    state: str
    seed: int
    every: int | None
    friction: bool
    stops: bool
    ground: bool

    @property
    def words(self) -> str:
        """Where it starts and what drives it."""
        random = self.state == "random"
        place = f"a random state (seed {self.seed})" if random else f"state {self.state!r}"
        if self.torque is None:
            return f"let go at rest from {place}"
        given = "that carry it there" if self.torque == "gravity" else self.torque
        return f"from rest at {place} under torques {given}"


def simulate(
    robot: RobotArgument = "ur5e",
    time: Annotated[float, typer.Option(help="How long, s.")] = 2.0,
    dt: Annotated[float, typer.Option(help="Length of a step, s.")] = 1e-3,
    integrator: IntegratorOption = None,
    torque: TorqueOption = None,
    state: StateOption = "random",
    seed: Annotated[int, typer.Option(min=0, help="Seed of a random start.")] = 0,
    every: Annotated[int | None, typer.Option(min=1, help="Keep every n-th step.")] = None,
    friction: FrictionOption = False,
    stops: Annotated[bool, typer.Option("--stops", help="Joints stop at their limits.")] = False,
    ground: GroundOption = False,
    plot: Annotated[Path | None, typer.Option(help="Draw motion and energy here.")] = None,
    save: Annotated[Path | None, typer.Option(help="Keep the motion: .npz or .mcap.")] = None,
    base: BaseOption = None,
    couplings: CouplingsOption = CouplingsChoice.exact,
    strict: StrictOption = False,
    as_json: JsonOption = False,
) -> None:
    """Step a robot in time and give an account of it; exit code 1 if something went wrong."""
    what = (time, dt, integrator, torque, state, seed, every, friction, stops, ground)
    asked = _Asked(robot, *what)
    with errors_as_messages(), progress_bar() as on_step:
        on_step("load", 0, 4)
        loaded = load_robot(robot, base, couplings, strict)
        on_step("steps", 1, 4)
        found = _run(loaded, asked)
        on_step("energy", 2, 4)
        ledger, verdict = energy_ledger(found), found.status.of()
        on_step("files", 3, 4)
        if plot:
            _plot(loaded, found, ledger, plot)
        if save:
            save_trajectory(loaded, found, save)
    _warn(loaded)
    if as_json:
        print_json(_summary(loaded, found, ledger, verdict))
    else:
        _print(loaded, found, ledger, verdict, asked)
        for name, file in (("plot", plot), ("motion", save)):
            if file:
                out.print(f"{name}: {file}", highlight=False, soft_wrap=True)
    raise typer.Exit(1 if verdict.step is not None else 0)


def _run(robot: Robot, asked: _Asked) -> Rollout:
    """The motion."""
    steps, keep = _steps(asked.time, asked.dt, asked.every)
    start = _start(robot, asked.state, asked.seed)
    touched = asked.ground or asked.stops
    integrator = asked.integrator or ("semi_implicit" if touched else "rk4")
    effects: list[Any] = []
    if asked.friction:
        effects.append(ModelLosses(damping=integrator != "implicit_damping"))
    if asked.ground:
        effects.append(PenaltyContact.soft(_scene(asked.source)))
    return rollout(
        robot,
        start,
        np.zeros(robot.nv),
        _torque(robot, start, asked.torque),
        dt=asked.dt,
        steps=steps,
        integrator=integrator,
        every=keep,
        effects=effects,
        contact=ComplementarityContact(Scene()) if asked.stops else None,
        record=True,
    )


def _warn(robot: Robot) -> None:
    """Say that loops of a robot are not part of the motion."""
    if robot.model.loops:
        words = f"its {len(robot.model.loops)} loops are left open: this is the motion of the tree"
        hint = "qddot.simulate.MujocoPlant closes them"
        err.print(f"[yellow]warning:[/] {words}; {hint}", highlight=False, soft_wrap=True)


def _steps(time: float, dt: float, every: int | None) -> tuple[int, int]:
    """How many steps, and of how many one is kept: as many as make about two thousand samples."""
    for name, x in (("--time", time), ("--dt", dt)):
        if not 0.0 < x < np.inf:
            raise NotUnderstood(name, x, "it is a time in seconds, above zero")
    if time < dt or time / dt > 1e9:
        raise NotUnderstood("--time", time, f"it is from one step to 10⁹ steps of {dt:g} s")
    steps = round(time / dt)
    keep = every or max(1, steps // 2000)
    return max(1, round(steps / keep)) * keep, keep


def _scene(source: str) -> Scene:
    """The collision shapes of a robot on level ground."""
    scene = Scene.from_file(source)
    if not scene.solids:
        accepted = "its file has no collision shape that is a sphere, capsule or box"
        raise NotUnderstood("--ground", source, accepted)
    for words in scene.omitted:
        err.print(f"[yellow]not in contact:[/] {words}", highlight=False, soft_wrap=True)
    return scene


def _start(robot: Robot, state: str, seed: int) -> np.ndarray:
    """The configuration to start from."""
    named = {"neutral": robot.neutral(), **robot.configurations}
    if state == "random":
        return robot.random(seed)
    if state not in named:
        raise UnknownName("state", state, ("random", *named), robot.name)
    return named[state]


def _torque(robot: Robot, q: np.ndarray, text: str | None) -> np.ndarray | None:
    """Joint torques; a base that floats has none where only those of the joints are given."""
    if text is None:
        return None
    driven = _driven(robot)
    if text == "gravity":
        tau = np.zeros(robot.nv)
        tau[driven] = robot.gravity(q)[driven]
        return tau
    accepted = f"it needs one number, {len(driven)} with commas between, or gravity"
    try:
        values = np.array([float(x) for x in text.split(",")])
    except ValueError:
        raise NotUnderstood("--torque", text, accepted) from None
    if len(values) not in (1, len(driven), robot.nv):
        raise NotUnderstood("--torque", text, accepted)
    if len(values) == robot.nv:
        return values
    tau = np.zeros(robot.nv)
    tau[driven] = values
    return tau


def _driven(robot: Robot) -> list[int]:
    """Velocities of joints that a motor could drive: all but those of a base that floats."""
    bodies = (b for b in robot.model.independent if b.joint.kind.name != "free")
    return [dof for body in bodies for dof in body.dofs]


def _summary(
    robot: Robot, found: Rollout, ledger: EnergyLedger, verdict: Verdict
) -> dict[str, Any]:
    drift = ledger.drift()
    return {
        "robot": robot.name,
        "steps": round(float(found.time[-1]) / found.dt),
        "dt": found.dt,
        "integrator": found.integrator,
        "samples": len(found.time),
        "open_loops": len(robot.model.loops),
        "status": {
            "label": verdict.label,
            "step": verdict.step,
            "time": verdict.time,
            "cause": verdict.cause,
            "remedy": verdict.remedy,
        },
        "energy": {
            name: float(getattr(ledger, name)[-1])
            for name in ("kinetic", "potential", "spring", "work", "friction", "contact")
        }
        | {"residual": float(ledger.residual[-1]), "quadrature_error": float(ledger.error[-1])},
        "drift": {
            "kind": drift.kind,
            "percent_per_second": 100.0 * drift.rate,
            "largest_percent": 100.0 * drift.largest,
            "acceptable": drift.acceptable,
            "cause": drift.cause,
        },
        "start": {"q": found.q[0].tolist(), "v": found.v[0].tolist()},
        "end": {"q": found.q[-1].tolist(), "v": found.v[-1].tolist()},
    }


def _print(
    robot: Robot, found: Rollout, ledger: EnergyLedger, verdict: Verdict, asked: _Asked
) -> None:
    steps = round(float(found.time[-1]) / found.dt)
    out.print(
        f"[bold]{robot.name}[/] {asked.words}: {steps} steps of {found.dt:g} s "
        f"({found.time[-1]:g} s) with {found.integrator}; {len(found.time)} samples kept",
        highlight=False,
    )
    out.print(_motion(robot, found))
    out.print(_energy(ledger, _sound(found) - 1))
    drift = ledger.drift()
    colour = "green" if drift.acceptable else "red"
    out.print(f"energy: [{colour}]{drift}[/]", highlight=False, soft_wrap=True)
    colour = "green" if verdict.step is None else "red"
    out.print(f"status: [{colour}]{verdict}[/]", highlight=False, soft_wrap=True)
    if verdict.label == "limit_violated":
        hint = (
            "a shorter --dt makes stops firmer"
            if asked.stops
            else "--stops adds stops to the joints"
        )
        out.print(f"here: {hint}", highlight=False)


def _names(robot: Robot) -> list[tuple[str, int, int | None]]:
    """Velocities by name, and the coordinate of each that is one number."""
    found = []
    for body in robot.model.independent:
        kind = body.joint.kind
        for k, dof in enumerate(body.dofs):
            part = _FREE[k] if kind.name == "free" else f"[{k}]"
            name = body.joint.name if kind.nv == 1 else f"{body.joint.name} {part}"
            one = kind.nq == kind.nv or (kind.name == "free" and k < 3)
            found.append((name, int(dof), body.iq.start + k if one else None))
    return found


def _sound(found: Rollout) -> int:
    """How many samples are numbers; at least the first."""
    return max(1, int(found.finite.sum()))


def _motion(robot: Robot, found: Rollout) -> Table:
    """Where each joint began and ended, and how fast it was."""
    table = Table(
        *("joint", "start", "end", "least", "most", "largest speed", "torque"),
        title="motion (m, rad, s, N, N m)",
    )
    rows, sound = _names(robot), _sound(found)
    for name, dof, k in rows[:_MOST_ROWS]:
        fast = float(np.abs(found.v[:sound, dof]).max())
        x = found.q[:sound, k] if k is not None else np.empty(0)
        where = [f"{y:.4g}" for y in (x[0], x[-1], x.min(), x.max())] if len(x) else [""] * 4
        table.add_row(name, *where, f"{fast:.4g}", f"{found.tau[0, dof]:.4g}")
    if len(rows) > _MOST_ROWS:
        table.caption = f"and {len(rows) - _MOST_ROWS} more"
    elif sound < len(found.time):
        table.caption = f"up to {found.time[sound - 1]:g} s, the last state that is a number"
    return table


def _energy(ledger: EnergyLedger, last: int) -> Table:
    """The ledger at its last sample, from the start."""
    table = Table("energy, J", "start", "end", "change", title="energy ledger")
    for name in ("kinetic", "potential", "spring"):
        x = getattr(ledger, name)
        if np.any(x):
            table.add_row(name, *(f"{y:.6g}" for y in (x[0], x[last], x[last] - x[0])))
    flows = (
        ("work of motors", ledger.work),
        ("taken by friction", -ledger.friction),
        ("taken by contact and stops", -ledger.contact),
        ("residual: not explained", ledger.residual),
    )
    for words, x in flows:
        if np.any(x) or words.startswith("residual"):
            table.add_row(words, "", "", f"{x[last]:.3g}")
    return table


def _plot(robot: Robot, found: Rollout, ledger: EnergyLedger, file: Path) -> None:
    """Positions, velocities, energy and residual over time."""
    figure = new_figure(10.0, 11.0)
    q, v, energy, residual = figure.subplots(4, 1, sharex=True, height_ratios=(2, 2, 2, 1))
    rows = _names(robot)
    fastest = np.nan_to_num(np.abs(found.v).max(axis=0), nan=np.inf)
    shown = sorted(sorted(range(len(rows)), key=lambda i: -fastest[rows[i][1]])[:_MOST_LINES])
    for colour, i in zip(PALETTE, shown, strict=False):
        name, dof, k = rows[i]
        v.plot(found.time, found.v[:, dof], color=colour, label=name, linewidth=1.3)
        if k is not None:
            q.plot(found.time, found.q[:, k], color=colour, linewidth=1.3)
    more = len(rows) - len(shown)
    q.set_title(
        f"{robot.name}, {found.integrator}, step {found.dt:g} s: {found.status.of().label}"
        + (f"; the {len(shown)} fastest of {len(rows)} velocities" if more else ""),
        fontsize=10,
    )
    q.set_ylabel("q, rad or m")
    v.set_ylabel("v, rad/s or m/s")
    for axes in (q, v):
        axes.grid(alpha=0.3)
    v.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)
    draw_energy(energy, ledger)
    draw_residual(residual, ledger)
    residual.set_xlabel("time, s")
    save_figure(figure, file)
