"""`qddot simulate`: the motion of a robot, with its status and energy ledger."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from qddot.algorithms.kinematics import world_poses
from qddot.algorithms.recursion import joint_kinematics
from qddot.cli.motions import count_finite, has_free_base, motion_table, plot_motion
from qddot.cli.parameters import OUTPUT, RESULT, WORDS, one_of
from qddot.cli.recording import RecordOption, open_recorder
from qddot.cli.states import STATE_HELP, start_configuration, write_motion_table
from qddot.cli.terminal import (
    BaseOption,
    CouplingsChoice,
    CouplingsOption,
    ForceOption,
    JsonOption,
    RobotArgument,
    StrictOption,
    TrustOption,
    check_outputs,
    err,
    errors_as_messages,
    load_robot,
    out,
    print_json,
    print_written,
    progress_bar,
    style_text,
    write_output,
)
from qddot.display.progress import OnStep
from qddot.errors import InvalidArgument, Unsupported, count_text
from qddot.evidence.results import record_motion
from qddot.model.model import WORLD
from qddot.robot.robot import Robot
from qddot.simulate.contact.gaps import find_sites
from qddot.simulate.contact.penalty import PRESETS, PenaltyContact
from qddot.simulate.contact.scene import Pair, Scene
from qddot.simulate.energy import EnergyLedger, energy_ledger
from qddot.simulate.file_physics import PASSIVE, PHYSICS, parse_without
from qddot.simulate.integrators import INTEGRATORS
from qddot.simulate.rollout import Rollout
from qddot.simulate.simulator import rollout
from qddot.simulate.status import LOOP_GAP
from qddot.simulate.step import LOOPS
from qddot.simulate.store import save_trajectory

__all__ = ["simulate"]

_LEVELS = ("kinetic", "potential", "spring")
_STEP, _GROUND_STEP = 1e-3, 2.5e-4
_SAMPLES = 20_000
"""Steps up to which all are kept: then the account of energy is that of the steps."""


IntegratorOption = Annotated[
    str | None,
    typer.Option(help=f"One of {', '.join(INTEGRATORS)}; rk4, or semi_implicit with ground."),
    one_of(INTEGRATORS),
]
StepOption = Annotated[
    float | None,
    typer.Option(help=f"Length of a step, s; {_STEP:g}, or {_GROUND_STEP:g} with ground."),
    RESULT,
]
TorqueOption = Annotated[
    str | None,
    typer.Option(help="Held throughout, N m or N: one for all joints, one a joint, or gravity."),
    WORDS,
]
StateOption = Annotated[str, typer.Option(help=f"Where it starts, at rest: {STATE_HELP}."), WORDS]
WithoutOption = Annotated[
    str,
    typer.Option(
        help=f"Physics of the file to leave out, with commas between: {', '.join(PHYSICS)}; "
        f"or passive, for {', '.join(PASSIVE)}."
    ),
    one_of((*PHYSICS, "passive")),
]
GroundOption = Annotated[
    bool,
    typer.Option("--ground", help="On level ground, by the collision shapes of the file."),
    RESULT,
]


@dataclass(frozen=True)
class _Request:
    """The options of the command."""

    source: str
    time: float
    dt: float
    integrator: str | None
    torque: str | None
    state: str
    seed: int
    every: int | None
    without: tuple[str, ...]
    ground: bool

    @property
    def description(self) -> str:
        """Start and torques, in words."""
        random = self.state == "random"
        place = f"a random state (seed {self.seed})" if random else f"state {self.state!r}"
        if self.torque is None:
            return f"let go at rest from {place}"
        given = "that carry it there" if self.torque == "gravity" else self.torque
        return f"from rest at {place} under torques {given}"


SaveOption = Annotated[
    Path | None, typer.Option(help="Keep the motion: .npz, .mcap or .csv."), OUTPUT
]


def simulate(
    context: typer.Context,
    robot: RobotArgument = "ur5e",
    time: Annotated[float, typer.Option(help="How long, s."), RESULT] = 2.0,
    dt: StepOption = None,
    integrator: IntegratorOption = None,
    torque: TorqueOption = None,
    state: StateOption = "random",
    seed: Annotated[int, typer.Option(min=0, help="Seed of a random start."), RESULT] = 0,
    every: Annotated[int | None, typer.Option(min=1, help="Keep every n-th step."), RESULT] = None,
    without: WithoutOption = "",
    ground: GroundOption = False,
    plot: Annotated[Path | None, typer.Option(help="Draw motion and energy here."), OUTPUT] = None,
    save: SaveOption = None,
    record: RecordOption = None,
    base: BaseOption = None,
    couplings: CouplingsOption = CouplingsChoice.exact,
    strict: StrictOption = False,
    trust: TrustOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Step a robot in time and give an account of it; exit code 1 if something went wrong."""
    length = dt if dt is not None else _GROUND_STEP if ground else _STEP
    with errors_as_messages(), progress_bar() as on_step:
        request = _Request(
            source=robot,
            time=time,
            dt=length,
            integrator=integrator,
            torque=torque,
            state=state,
            seed=seed,
            every=every,
            without=parse_without([word.strip() for word in without.split(",") if word.strip()]),
            ground=ground,
        )
        if save is not None and save.suffix not in (".npz", ".mcap", ".csv"):
            raise InvalidArgument("--save", str(save), "its name ends in .npz, .mcap or .csv")
        check_outputs(force, plot, save, record)
        on_step("load", 0, 1)
        loaded = load_robot(robot, base, couplings, strict, trust)
        on_step("steps", 0, 1)
        name, start = start_configuration(loaded, "--state", state, seed)
        request = dataclasses.replace(request, state=name)
        found = _run_motion(loaded, start, request, on_step)
        on_step("energy", 0, 1)
        ledger, verdict = energy_ledger(found), found.status.of()
        on_step("files", 0, 1)
        with open_recorder(context, record, [robot], force, seed) as recorder:
            record_motion(recorder, found, ledger)
        if plot:
            write_output(plot, lambda draft: plot_motion(loaded, found, ledger, draft), force)
        if save:
            write_output(save, lambda draft: _save_motion(loaded, found, draft), force)
    if as_json:
        print_json(_summary_json(loaded, found, ledger))
    else:
        _print_motion(loaded, found, ledger, request)
    print_written(as_json, plot, save, record)
    raise typer.Exit(0 if verdict.step is None and ledger.drift().acceptable else 1)


def _save_motion(robot: Robot, found: Rollout, file: Path) -> None:
    """Write a motion in the format that the end of the file's name says."""
    if file.suffix == ".csv":
        arrays = {"q": found.q, "v": found.v, "tau": np.broadcast_to(found.tau, found.v[1:].shape)}
        write_motion_table(robot, file, time=found.time, **arrays)
    else:
        save_trajectory(robot, found, file)


def _run_motion(robot: Robot, start: np.ndarray, request: _Request, on_step: OnStep) -> Rollout:
    """The rollout of a request from a configuration."""
    # steps, and those of a sample: 1, unless there are very many
    time, dt = request.time, request.dt
    for name, x in (("--time", time), ("--dt", dt)):
        if not 0.0 < x < np.inf:
            raise InvalidArgument(name, x, "it is a time in seconds, above zero")
    if time < dt:
        raise Unsupported("--dt", dt, f"one step is longer than --time, {time:g} s")
    if time / dt > 1e9:
        raise InvalidArgument("--time", time, f"it is at most 10⁹ steps of {dt:g} s")
    steps = round(time / dt)
    keep = request.every or max(1, -(-steps // _SAMPLES))
    steps = max(1, round(steps / keep)) * keep
    effects: list[Any] = []
    if request.ground:
        ground = _ground_contact(robot, request.source)
        effects.append(ground)
        # the configuration with bases that float put higher, so that nothing is below the ground
        model = robot.model
        poses = world_poses(model, joint_kinematics(model, start.tolist())[0])
        depth = max(-float(site.find(poses).gap) for site in find_sites(ground.scene, model))
        start = start.copy()
        for body in model.bodies:
            if body.parent == WORLD and body.joint.kind.floats:
                start[body.iq.start + 2] += max(depth, 0.0)
    return rollout(
        robot,
        start,
        np.zeros(robot.nv),
        _joint_torques(robot, start, request.torque),
        dt=dt,
        steps=steps,
        integrator=request.integrator,
        every=keep,
        without=request.without,
        effects=effects,
        record=True,
        on_step=on_step,
    )


def _ground_contact(robot: Robot, source: str) -> PenaltyContact:
    """Contact of the collision shapes of a file with level ground; says which shapes have none."""
    # collision shapes on level ground, without those of a fixed base
    scene = Scene.from_file(source)
    moving = [x for x in scene.solids if x.frame and robot.model.frame(x.frame).body != WORLD]
    if not moving:
        accepted = "its file has no collision shape that moves and is a sphere, capsule or box"
        raise InvalidArgument("--ground", source, accepted)
    # one line a reason, with the shapes that have it
    shapes_by_reason: dict[str, list[str]] = {}
    for words in scene.omitted:
        name, _, reason = words.partition(": ")
        shapes_by_reason.setdefault(reason, []).append(name)
    for reason, names in shapes_by_reason.items():
        text = f" {', '.join(names)}: {reason}"
        err.print(style_text(("not in contact:", "yellow"), text), soft_wrap=True)
    pairs = [Pair(x.name, plane.name) for x in moving for plane in scene.planes]
    scene = dataclasses.replace(scene, pairs=pairs)
    # soft contact that gives no more than it is meant to where one point carries the robot
    soft = PRESETS["soft"]
    weight = float(robot.model.mass) * float(np.linalg.norm([*robot.model.gravity]))
    times = max(1.0, weight / (soft.tolerance * soft.stiffness))
    return PenaltyContact(scene, times * soft.stiffness, np.sqrt(times) * soft.damping)


def _joint_torques(robot: Robot, q: np.ndarray, text: str | None) -> np.ndarray | None:
    """Joint torques; a floating base has zeros where only torques of the joints are given."""
    if text is None:
        return None
    # velocities of joints that a motor could drive: all but a floating base
    bodies = (b for b in robot.model.independent if not b.joint.kind.floats)
    driven = [dof for body in bodies for dof in body.dofs]
    if text == "gravity":
        tau = np.zeros(robot.nv)
        tau[driven] = robot.gravity(q)[driven]
        return tau
    accepted = f"it needs one number, {len(driven)} with commas between, or gravity"
    try:
        values = np.array([float(x) for x in text.split(",")])
    except ValueError:
        raise InvalidArgument("--torque", text, accepted) from None
    if len(values) not in (1, len(driven), robot.nv):
        raise InvalidArgument("--torque", text, accepted)
    if len(values) == robot.nv:
        return values
    tau = np.zeros(robot.nv)
    tau[driven] = values
    return tau


def _summary_json(robot: Robot, found: Rollout, ledger: EnergyLedger) -> dict[str, Any]:
    drift, verdict = ledger.drift(), found.status.of()
    return {
        "robot": robot.name,
        "steps": round(float(found.time[-1]) / found.dt),
        "dt": found.dt,
        "integrator": found.integrator,
        "samples": len(found.time),
        "loops": len(robot.model.loops),
        "loop_gap": _loop_gap(found),
        "status": {
            "label": verdict.label,
            "step": verdict.step,
            "time": verdict.time,
            "cause": verdict.cause,
            "remedy": verdict.remedy,
            "notes": list(found.status.notes),
        },
        "energy": {
            name: float(getattr(ledger, name)[-1])
            for name in (*_LEVELS, "work", "friction", "contact", "numerical")
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


def _loop_gap(found: Rollout) -> float | None:
    """The largest opening (m, rad) of a loop in all steps; None without loops."""
    names = found.step.residual_names if found.step else ()
    if LOOPS not in names or found.residuals is None:
        return None
    return float(found.residuals[..., -1, names.index(LOOPS)])


def _print_motion(robot: Robot, found: Rollout, ledger: EnergyLedger, request: _Request) -> None:
    verdict = found.status.of()
    steps = round(float(found.time[-1]) / found.dt)
    text = (
        f" {request.description}: {count_text(steps, 'step')} of {found.dt:g} s "
        f"({found.time[-1]:g} s) with {found.integrator}; {len(found.time)} samples kept"
    )
    out.print(style_text((robot.name, "bold"), text))
    out.print(motion_table(robot, found))
    # the ledger at its last sample, from the start
    last = count_finite(found) - 1
    table = Table("energy, J", "start", "end", "change", title="energy ledger")
    for name in _LEVELS:
        x = getattr(ledger, name)
        if np.any(x):
            table.add_row(name, *(f"{y:.6g}" for y in (x[0], x[last], x[last] - x[0])))
    flows = (
        ("work of motors", ledger.work),
        ("taken by friction", -ledger.friction),
        ("taken by contact and stops", -ledger.contact),
        ("numerical damping of springs", -ledger.numerical),
        ("residual: not explained", ledger.residual),
    )
    for words, x in flows:
        if np.abs(x[: last + 1]).max() > ledger.rounding or words.startswith("residual"):
            table.add_row(words, "", "", f"{x[last]:.3g}")
    out.print(table)
    gap = _loop_gap(found)
    if gap is not None:
        loops = count_text(len(robot.model.loops), "loop")
        closed = "kept closed to" if gap <= LOOP_GAP else "not kept closed, open by up to"
        out.print(f"{loops} {closed} {gap:.1e} m or rad")
    drift = ledger.drift()
    colour = "green" if drift.acceptable else "red"
    out.print(style_text("energy: ", (str(drift), colour)), soft_wrap=True)
    colour = "green" if verdict.step is None else "red"
    out.print(style_text("status: ", (str(verdict), colour)), soft_wrap=True)
    for note in found.status.notes:
        out.print(style_text(("note: ", "yellow"), note), soft_wrap=True)
    # the remedy for a verdict with the options of this command
    if verdict.label == "limit_violated":
        outside = "it starts beyond its limit: another --state is within"
        stops = "limits" not in request.without
        hint = outside if not verdict.step else "" if stops else "--without has limits"
    elif verdict.label == "penetration" and not verdict.step:
        hint = "it starts below the ground: --base free lets it stand on it"
    elif not request.ground and has_free_base(robot):
        hint = "its base is free and nothing is below it: --ground puts it on level ground"
    else:
        hint = ""
    if hint:
        out.print(f"here: {hint}")
