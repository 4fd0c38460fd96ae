"""Commands of `qddot identify` about experiments: plan, budget, friction, payload."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from qddot import identify as identification
from qddot.cli.log_options import (
    BandwidthOption,
    FrictionOption,
    LogArgument,
    LogSource,
    PlotOption,
    SaveOption,
    ShaftOption,
    deliver,
    load_robot_plainly,
    parse_numbers,
    parse_shafts,
    parse_terms,
    with_log_options,
)
from qddot.cli.terminal import (
    ForceOption,
    JsonOption,
    RobotArgument,
    check_outputs,
    errors_as_messages,
    out,
    print_json,
    print_written,
    progress_bar,
    write_output,
)
from qddot.display.progress import OnStep
from qddot.errors import Unsupported
from qddot.identify import Fit, Plan
from qddot.robot.robot import Robot

__all__ = ["budget", "friction", "payload", "plan"]


def plan(
    robot: RobotArgument,
    duration: Annotated[float, typer.Option(help="Seconds of the periodic motion.")] = 20.0,
    objective: Annotated[str, typer.Option(help="d-optimal or condition.")] = "d-optimal",
    harmonics: Annotated[int, typer.Option(min=1, help="Harmonics of the series.")] = 5,
    velocity: Annotated[
        str | None,
        typer.Option(help="Largest speeds, one or one a joint; those of the file, else 1 rad/s."),
    ] = None,
    acceleration: Annotated[
        str | None, typer.Option(help="Largest accelerations, one or one a joint; 10 rad/s².")
    ] = None,
    floor: Annotated[
        float | None, typer.Option(help="Least height of the last frame in the world, m.")
    ] = None,
    clearance: Annotated[
        float, typer.Option(min=0.0, help="Least distance between links, m; 0: not looked at.")
    ] = 0.0,
    sweep: Annotated[
        str | None, typer.Option(help="Sweep this joint at constant speeds instead, for friction.")
    ] = None,
    rate: Annotated[float, typer.Option(help="Samples a second of the CSV file.")] = 500.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random starts.")] = 0,
    csv: Annotated[Path | None, typer.Option(help="Write the motion for the robot.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw positions, speeds, near limits.")] = None,
    save: SaveOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Design a motion that tells as much as can be of a robot's parameters."""
    with errors_as_messages():
        check_outputs(force, csv, plot, save)
        loaded = load_robot_plainly(robot)
        if sweep is not None:
            _plan_sweep(loaded, sweep, rate, csv, plot, force, as_json)
            return
        above = ((-1e9, -1e9, floor or 0.0), (1e9, 1e9, 1e9))
        boxes = {} if floor is None else {loaded.frame_names[-1]: above}
        limits = identification.motion_limits(
            loaded,
            None if velocity is None else parse_numbers("--velocity", velocity),
            None if acceleration is None else parse_numbers("--acceleration", acceleration),
            workspace=identification.Workspace(boxes, clearance),
        )
        with progress_bar() as on_step:
            found = identification.plan(
                loaded,
                duration,
                objective,  # type: ignore[arg-type]
                harmonics=harmonics,
                seed=seed,
                limits=limits,
                on_step=on_step,
            )
        if csv is not None:
            found.write(csv, rate, force)
        if plot is not None:
            draw = partial(identification.plot_plan, found, angular=loaded.model.angular)
            write_output(plot, draw, force)

    deliver(found, lambda: _print_plan(loaded, found), as_json, save, force, csv, plot)


def _print_plan(robot: Robot, found: Plan) -> None:
    out.print(str(found), soft_wrap=True)
    table = Table("base parameter", "predicted deviation", "of the model's value")
    prior = found.base.values(identification.torque_model(robot).prior())
    for name, x, value in zip(found.base.labels, found.deviations, prior, strict=True):
        share = f"{100 * x / abs(value):.2g} %" if abs(value) > 1e-9 else ""
        table.add_row(name, f"{x:.3g}", share)
    out.print(table)
    noise = ", ".join(f"{x:.3g}" for x in found.noise)
    out.print(f"for noise of {noise} N m in {found.samples} independent samples")


def _plan_sweep(
    robot: Robot, joint: str, rate: float, csv: Path | None, plot: Path | None, force: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Print and write the sweep of a joint."""
    if plot is not None:
        raise Unsupported("--plot", str(plot), "a sweep has constant speeds: see its --csv")
    motion = identification.plan_sweep(robot, joint, rate=rate)
    if csv is not None:
        motion.write(csv, force)
    seconds = float(motion.time[-1])
    if as_json:
        print_json({"joint": joint, "speeds": list(motion.speeds), "duration": seconds})
    else:
        speeds = ", ".join(f"{v:.3g}" for v in motion.speeds)
        out.print(f"{joint} to and fro at {speeds} rad/s, {seconds:.3g} s")
    print_written(as_json, csv)


def _fit(
    robot: Robot, source: LogSource, log: Path, friction: str, bandwidth: float | None,
    shaft: list[str] | None, on_step: OnStep,
) -> Fit:  # fmt: skip
    """A weighted least-squares fit of a whole log."""
    data = source.read(robot, log, on_step)
    return identification.fit(
        robot, data, parse_terms(friction), "wls",
        bandwidth=bandwidth, shafts=parse_shafts(shaft), on_step=on_step,
    )  # fmt: skip


@with_log_options
def budget(
    source: LogSource,
    robot: RobotArgument,
    log: LogArgument,
    friction: FrictionOption = "auto",
    bandwidth: BandwidthOption = None,
    shaft: ShaftOption = None,
    plot: PlotOption = None,
    save: SaveOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Split the torques of a log into inertia, Coriolis, gravity, friction and the rest."""
    with errors_as_messages():
        check_outputs(force, plot, save)
        loaded = load_robot_plainly(robot)
        with progress_bar() as on_step:
            found = _fit(loaded, source, log, friction, bandwidth, shaft, on_step)
            result = identification.budget(found, on_step=on_step)
        if plot:
            write_output(plot, lambda f: identification.plot_budget(result, f), force)

    def show() -> None:
        table = Table("share of the torque", *result.joints)
        for k, term in enumerate(result.terms):
            cells = [
                f"{100 * s:.1f} ± {100 * h:.1f} %" if abs(s) + h > 5e-4 else ""
                for s, h in zip(result.shares[k], result.spreads[k], strict=True)
            ]
            table.add_row(term, *cells)
        out.print(table)
        for sentence in result.sentences:
            out.print(sentence, soft_wrap=True)

    deliver(result, show, as_json, save, force, plot)


@with_log_options
def friction(
    source: LogSource,
    robot: RobotArgument,
    log: LogArgument,
    sweep: Annotated[
        str | None, typer.Option(help="The log is a sweep of this joint (plan --sweep).")
    ] = None,
    terms: FrictionOption = "auto",
    bandwidth: BandwidthOption = None,
    shaft: ShaftOption = None,
    plot: PlotOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Friction of each joint against speed, with its uncertainty."""
    with errors_as_messages():
        check_outputs(force, plot)
        loaded = load_robot_plainly(robot)
        if sweep is not None:
            law = identification.fit_sweep(loaded, source.read(loaded, log), sweep, bandwidth)
            facts = {"joint": sweep, "law": str(law.law), "chosen": law.chosen,
                     "speed": law.speed.tolist(), "torque": law.torque.tolist()}  # fmt: skip
            if as_json:
                print_json(facts)
            else:
                out.print(str(law), soft_wrap=True)
            return
        with progress_bar() as on_step:
            found = _fit(loaded, source, log, terms, bandwidth, shaft, on_step)
        curves = identification.friction_curves(found)
        if plot:
            write_output(plot, lambda f: identification.plot_friction(curves, f), force)
    if as_json:
        print_json(
            [
                {
                    "joint": c.joint,
                    "terms": list(c.terms),
                    "speed": c.speed.tolist(),
                    "torque": c.torque.tolist(),
                    "half_width": c.half_width.tolist(),
                }
                for c in curves
            ]
        )
    else:
        for c in curves:
            out.print(str(c), soft_wrap=True)
    print_written(as_json, plot)


@with_log_options
def payload(
    source: LogSource,
    robot: RobotArgument,
    empty: Annotated[Path, typer.Argument(help="The log without the payload.")],
    loaded: Annotated[Path, typer.Argument(help="The log with it.")],
    known_mass: Annotated[
        float | None, typer.Option(help="Its mass in kg: gives the gains of the drives instead.")
    ] = None,
    gain_uncertainty: Annotated[
        float, typer.Option(help="Relative uncertainty (95 %) of the torques' scale.")
    ] = 0.13,
    friction: FrictionOption = "auto",
    bandwidth: BandwidthOption = None,
    save: SaveOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Mass and centre of mass of a payload from two logs; or torque gains from a known mass."""
    with errors_as_messages():
        check_outputs(force, save)
        arm = load_robot_plainly(robot)
        options = {"friction": parse_terms(friction), "bandwidth": bandwidth}
        with progress_bar() as on_step:
            first, second = (source.read(arm, file, on_step) for file in (empty, loaded))
            if known_mass is None:
                found: Any = identification.payload(
                    arm,
                    first,
                    second,
                    gain_uncertainty=gain_uncertainty,
                    on_step=on_step,
                    **options,
                )
            else:
                found = identification.torque_gains(
                    arm, first, second, known_mass, on_step=on_step, **options
                )
    deliver(found, lambda: out.print(str(found), soft_wrap=True), as_json, save, force)
