"""`qddot check`: the invariants of a robot's dynamics, measured."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer
from rich.table import Table

from qddot.cli.parameters import RESULT
from qddot.cli.recording import RecordOption, open_recorder
from qddot.cli.terminal import (
    BaseOption,
    CouplingsChoice,
    CouplingsOption,
    ForceOption,
    JsonOption,
    RobotArgument,
    SeedOption,
    StrictOption,
    TrustOption,
    check_outputs,
    errors_as_messages,
    load_robot,
    out,
    print_findings,
    print_json,
    print_written,
    progress_bar,
    style_text,
)
from qddot.errors import count_text
from qddot.evidence.results import record_checks
from qddot.verify import default_states, invariants, random_states
from qddot.verify.invariants import STATES

__all__ = ["check"]

_NOT_JUDGED = (
    "whether masses and tensors are those of the real robot, as one 1000 times too large is as "
    "consistent; `qddot audit` weighs them against shapes, likeness and the data sheet"
)

_FEWER = "checked at {} instead of {}, to save memory; --states sets the number"

CheckStatesOption = Annotated[
    int | None,
    typer.Option(min=1, help="How many random states: 100, or fewer for many joints."),
    RESULT,
]


def check(
    context: typer.Context,
    robot: RobotArgument = "ur5e",
    base: BaseOption = None,
    couplings: CouplingsOption = CouplingsChoice.exact,
    strict: StrictOption = False,
    trust: TrustOption = False,
    states: CheckStatesOption = None,
    seed: SeedOption = 0,
    record: RecordOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Check the invariants of a robot's dynamics at random states; exit code 1 if one fails."""
    with errors_as_messages():
        check_outputs(force, record)
        loaded = load_robot(robot, base, couplings, strict, trust)
        fewer = states is None and default_states(loaded) < STATES
        states = states or default_states(loaded)
        at, measures = random_states(loaded, states, seed), list(invariants())
        results = []
        with (
            open_recorder(context, record, [robot], force, seed) as recorder,
            progress_bar() as on_step,
        ):
            for done, (name, measure) in enumerate(measures):
                on_step(name, done, len(measures))
                results.append(measure(loaded, at))
            record_checks(recorder, results, at)
    passed = all(r.passed is True for r in results)
    if as_json:
        rows = [{k: v for k, v in vars(r).items() if k != "residuals"} for r in results]
        summary = {"robot": loaded.name, "states": states, "seed": seed, "passed": passed}
        health = [dataclasses.asdict(f) for f in loaded.health]
        print_json({**summary, "checks": rows, "health": health, "not_judged": _NOT_JUDGED})
    else:
        title = f"{loaded.name}, {count_text(states, 'state')}, seed {seed}"
        table = Table("check", "claim", "measured", "bound", "", title=title)
        verdicts = {
            True: style_text(("pass", "green")),
            False: style_text(("FAIL", "red")),
            None: style_text(("NOT EVALUATED", "yellow")),
        }
        for r in results:
            sense = ">" if r.name == "positive definite" else "<"
            bound = "" if r.name == "health" else f"{sense} {r.bound:.0e}"
            shown = ("", "") if r.passed is None else (f"{r.measured:.2g}", bound)
            table.add_row(r.name, r.claim, *shown, verdicts[r.passed])
        out.print(table)
        if fewer:
            out.print(f"nv = {loaded.nv}: {_FEWER.format(count_text(states, 'state'), STATES)}")
        for r in results:
            if r.detail and r.passed is not True:
                out.print(style_text((r.name, "red"), f": {r.detail}"))
        print_findings([f for f in loaded.health if f.severity == "warning"])
        out.print(style_text(("not judged:", "dim"), f" {_NOT_JUDGED}"), soft_wrap=True)
    print_written(as_json, record)
    raise typer.Exit(0 if passed else 1)
