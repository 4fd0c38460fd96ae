"""Run the pipeline on seeded faults and on clean cases: `python docs/faults.py`.

Keeps the outcomes in docs/faults.json and writes the table of docs/pipeline.md between its marks.
`--seed N` draws other faults and other logs: the page states the seed of its run, which is one that
nobody looked at while the diagnoses were written. `--trial FILE` keeps outcomes there and leaves
the page alone. `--kind WORD` runs one kind again and takes the others as they were, `--kind clean`
those without a fault, `--missing` what has no outcome yet. Other robots than built-in ones are
those of example-robot-data.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from qddot.errors import QddotError
from qddot.evidence import Recorder, Run, Verdict
from qddot.evidence.inputs import gather_inputs
from qddot.pipeline import Context, run_pipeline, select_steps
from qddot.pipeline.doctor import diagnose_record
from qddot.pipeline.fault_cases import Fault, clean_case
from qddot.pipeline.faults import KINDS, seed_fault

DOCS = Path(__file__).resolve().parent
PAGE, OUTCOMES = DOCS / "pipeline.md", DOCS / "faults.json"
MARKS = ("<!-- faults -->", "<!-- /faults -->")
EXAMPLES = "package://example-robot-data/robots"
MENAGERIE = DOCS.parent.parent / "shared" / "menagerie"
ARMS = (
    *(
        f"{EXAMPLES}/{path}.urdf"
        for path in (
            "panda_description/urdf/panda",
            "kinova_description/robots/kinova",
            "so_arm_description/urdf/so100",
            "ur_description/urdf/ur3_robot",
            "ur_description/urdf/ur5_joint_limited_robot",
            "ur_description/urdf/ur10_robot",
            "talos_data/robots/talos_left_arm",
            "asr_twodof_description/urdf/TwoDofs",
            "finger_edu_description/robots/finger_edu",
            "double_pendulum_description/urdf/double_pendulum_continuous",
        )
    ),
    *(
        str(MENAGERIE / f"{stem}.xml")
        for stem in (
            "franka_emika_panda__panda_nohand",
            "kinova_gen3__gen3",
            "kuka_iiwa_14__iiwa14",
            "universal_robots_ur5e__ur5e",
            "universal_robots_ur10e__ur10e",
        )
    ),
    *(
        f"{EXAMPLES}/{path}.urdf"
        for path in (
            "bolt_description/robots/bolt",
            "laikago_description/urdf/laikago",
            "go1_description/urdf/go1",
            "hyq_description/robots/hyq_no_sensors",
            "allegro_hand_description/urdf/allegro_right_hand",
        )
    ),
)
"""Robots that nobody looked at while the diagnoses were written, with fixed bases."""
CASES = 1
"""Cases of a kind whose robots are those of ARMS, in turn."""
ROBOTS = {
    "wrong inertia frame": ("ur5e", "planar_3r", "xarm7", "solo12", "a1"),
    "tensor 10 ×": ("ur5e", "planar_3r", "xarm7", "so101", "a1"),
    "wrong base type": ("quadruped", "ur5e", "planar_3r", "quadrotor", "xarm7"),
    "explicit integrator on stiff contact": ("ur5e", "planar_3r", "planar_2r", "z1", "xarm7"),
}
BUILT_IN = ("ur5e", "planar_2r", "planar_3r", "double_pendulum", "quadruped", "quadrotor", "delta",
            "four_bar")  # fmt: skip
CLEAN = "none"


@dataclass(frozen=True)
class Outcome:
    """What the pipeline and the doctor made of a case: steps that fail, the first cause."""

    kind: str
    detail: str
    seed: int
    steps: tuple[int, ...]
    failed: tuple[int, ...]
    named: str
    caught: bool
    cause_first: bool
    seconds: float


def examine(fault: Fault, folder: Path) -> Outcome:
    """Run the steps on a case, and let the doctor look at the record."""
    begun = time.perf_counter()
    file, settings = folder / "run.mcap", fault.settings
    sources = [fault.source, *([settings.log] if settings.log else [])]
    run = Run("pipeline", configuration={"base": settings.base}, inputs=gather_inputs(sources))
    with Recorder(file, run, force=True) as recorder:
        run_pipeline(Context(fault.source, settings, recorder), select_steps(chosen_steps(fault)))
    failed = tuple(sorted({int(c.step) for c in recorder.claims if c.verdict is Verdict.FAIL}))
    found = diagnose_record(file, recorder.record)
    named = found[0].cause if found else ""
    outcome = Outcome(
        kind=fault.kind,
        detail=fault.detail,
        seed=settings.seed,
        steps=fault.steps,
        failed=failed,
        named=named,
        # the step that should see it fails, and none before it
        caught=failed[:1] != () and failed[0] in fault.steps,
        cause_first=bool(fault.causes) and named.startswith(fault.causes),
        seconds=round(time.perf_counter() - begun, 1),
    )
    good = not failed if not fault.steps else outcome.caught and outcome.cause_first
    words = f"{fault.kind}; {fault.detail}: fails {failed or '-'}, {named or '-'}"
    print(f"{'  ' if good else '! '}{outcome.seconds:5.1f} s  {words}", file=sys.stderr, flush=True)
    return outcome


def chosen_steps(fault: Fault) -> str:
    """All steps up to those that judge what was given; for a clean file without a log, 1 to 12.

    Files of robots that other people wrote have doubtful inertias of their own (step 2), which are
    judged only where the fault is one of them.
    """
    if fault.settings.log:
        return "1,3-8"
    if fault.settings.integrator:
        return "1-6,9-10"
    if fault.kind in ROBOTS:
        return "1-6"
    return "1,3-6" if fault.steps else "1-12"


def cases(kind: str, folder: Path, first: int) -> Iterator[Fault]:
    """Faults of a kind; or right files with logs that are like them, and built-in robots."""
    if kind in ROBOTS:
        for seed, robot in enumerate(ROBOTS[kind], first):
            yield seed_fault(kind, folder, robot, seed)
    elif kind != CLEAN:
        turn, made = CASES * list(KINDS).index(kind), 0
        for k in range(len(ARMS)):
            try:
                yield seed_fault(kind, folder, ARMS[(turn + k) % len(ARMS)], first + made)
            except (QddotError, ValueError):
                # a robot that cannot have this fault, or does not follow the motion of a log
                continue
            made += 1
            if made == CASES:
                return
    else:
        for robot in BUILT_IN:
            yield clean_case(folder, robot, first, log=False)
        for seed, robot in enumerate(ARMS, first + 100):
            with contextlib.suppress(QddotError):
                yield clean_case(folder, robot, seed)


def table_text(outcomes: list[Outcome]) -> str:
    """The table, a row a kind, the totals, and what was missed."""
    heads = ("fault", "cases", "step", "caught there", "cause named first")
    lines = [f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
    faults = [x for x in outcomes if x.kind != CLEAN]
    for kind in KINDS:
        rows = [x for x in faults if x.kind == kind]
        steps = ", ".join(map(str, sorted({s for x in rows for s in x.steps})))
        caught, named = sum(x.caught for x in rows), sum(x.cause_first for x in rows)
        lines.append(f"| {kind} | {len(rows)} | {steps} | {caught} | {named} |")
    counts = sum(x.caught for x in faults), sum(x.cause_first for x in faults)
    totals = " | ".join(f"{n} ({100 * n / max(len(faults), 1):.0f} %)" for n in counts)
    clean = [x for x in outcomes if x.kind == CLEAN]
    wrong = [f"{x.detail} at step {x.failed[0]}" for x in clean if x.failed]
    listed = f": {'; '.join(wrong)}" if wrong else ""
    verb = "fails" if len(wrong) == 1 else "fail"
    lines += [
        f"| all | {len(faults)} | | {totals} |",
        "",
        f"Seeds {min(x.seed for x in outcomes)} to {max(x.seed for x in outcomes)}. "
        f"Of {len(clean)} cases without a fault {len(wrong)} {verb}{listed}.",
    ]
    blamed = [f"{x.detail}: {x.named}" for x in clean if x.named and not x.failed]
    if blamed:
        lines += ["", f"Without a fault the doctor still names: {'; '.join(blamed)}."]
    for x in faults:
        if not (x.caught and x.cause_first):
            steps = ", ".join(map(str, x.failed)) or "none"
            told = f"steps that fail: {steps}; the doctor names {x.named or 'nothing'}"
            lines += ["", f"Missed: {x.kind}, {x.detail}; {told}."]
    return "\n".join(lines)


def keep_outcome(found: Outcome, file: Path) -> None:
    """Put an outcome in the place of the one before it, and write the page unless on trial."""
    before = read_outcomes(file)
    outcomes = list({(x.kind, x.detail, x.seed): x for x in [*before, found]}.values())
    rows = [json.dumps(dataclasses.asdict(x), ensure_ascii=False) for x in outcomes]
    file.write_text("[\n" + ",\n".join(rows) + "\n]\n", "utf-8")
    if file != OUTCOMES:
        return
    page, (first, last) = PAGE.read_text("utf-8"), MARKS
    block = re.compile(f"{re.escape(first)}.*{re.escape(last)}", re.S)
    text = f"{first}\n{table_text(outcomes)}\n{last}"
    PAGE.write_text(block.sub(lambda _: text, page), "utf-8")


def read_outcomes(file: Path) -> list[Outcome]:
    """The outcomes that were kept."""
    if not file.exists():
        return []
    return [Outcome(**x) for x in json.loads(file.read_text("utf-8"))]


def main() -> None:
    """Run the kinds that are asked for, case by case, and keep the outcomes."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", default="", help="only kinds with this word, or `clean`")
    parser.add_argument("--missing", action="store_true", help="only cases without an outcome")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first fault of each kind")
    parser.add_argument("--trial", type=Path, default=OUTCOMES, help="keep outcomes in this file")
    asked = parser.parse_args()
    kinds = [k for k in KINDS if asked.kind in k]
    kinds += [CLEAN] if asked.kind in ("", "clean") else []
    if not asked.missing and not asked.kind:
        asked.trial.unlink(missing_ok=True)
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder:
            for case in cases(kind, Path(folder), asked.seed):
                known = {(x.kind, x.detail, x.seed) for x in read_outcomes(asked.trial)}
                if not (asked.missing and (case.kind, case.detail, case.settings.seed) in known):
                    keep_outcome(examine(case, Path(folder)), asked.trial)


if __name__ == "__main__":
    main()
