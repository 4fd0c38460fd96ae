"""Run the pipeline on seeded faults in robots and logs that no threshold was chosen on.

`python docs/faults.py --half looked --seed N` measures the robots whose misses may be read while
diagnoses are improved; `--half judged` those that only judge. Each robot has a right log and some
of the kinds of faults, in turn. Outcomes are kept in docs/faults.json, from which the tables of
docs/pipeline.md are written; a half holds outcomes of one code and one seed only, and a case that
cannot be made is kept with its reason. `--trial FILE` keeps them there and leaves the page alone.
A run that was ended goes on where it was; `--words` chooses robots.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import re
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import qddot
from qddot.errors import QddotError
from qddot.evidence import Recorder, Run, Verdict
from qddot.evidence.inputs import gather_inputs
from qddot.pipeline import Context, run_pipeline, select_steps
from qddot.pipeline.context import PipelineSettings
from qddot.pipeline.doctor import diagnose_record
from qddot.pipeline.fault_cases import Fault, clean_case, write_file
from qddot.pipeline.faults import KINDS, seed_fault

DOCS = Path(__file__).resolve().parent
PAGE, OUTCOMES = DOCS / "pipeline.md", DOCS / "faults.json"
MARKS = ("<!-- faults -->", "<!-- /faults -->")
EXAMPLES = "package://example-robot-data/robots"
MENAGERIE = DOCS.parent.parent / "shared" / "menagerie"


def _example(*paths: str) -> tuple[str, ...]:
    return tuple(f"{EXAMPLES}/{path}.urdf" for path in paths)


def _menagerie(*stems: str) -> tuple[str, ...]:
    return tuple(str(MENAGERIE / f"{stem}.xml") for stem in stems)


HALVES = {
    "looked": (
        *_example(
            "kinova_description/robots/kinova",
            "ur_description/urdf/ur3_gripper",
            "talos_data/robots/talos_left_arm",
            "finger_edu_description/robots/finger_edu",
            "double_pendulum_description/urdf/double_pendulum_continuous",
            "solo_description/robots/solo",
            "ur_description/urdf/ur10_joint_limited_robot",
            "go1_description/urdf/go1",
        ),
        *_menagerie("franka_emika_panda__panda_nohand", "kuka_iiwa_14__iiwa14"),
    ),
    "judged": (
        *_example(
            "so_arm_description/urdf/so100",
            "ur_description/urdf/ur3_robot",
            "ur_description/urdf/ur5_robot",
            "ur_description/urdf/ur5_gripper",
            "ur_description/urdf/ur10_robot",
            "asr_twodof_description/urdf/TwoDofs",
            "ur_description/urdf/ur3_joint_limited_robot",
            "borinot_description/urdf/borinot_flying_arm_2",
            "hextilt_description/urdf/hextilt_flying_arm_5",
            "bolt_description/robots/bolt",
            "quadruped_description/urdf/quadruped",
            "a1_description/urdf/a1",
            "solo_description/robots/solo12",
            "laikago_description/urdf/laikago",
            "hyq_description/robots/hyq_no_sensors",
            "anymal_b_simple_description/robots/anymal",
            "b1_description/urdf/b1",
            "go2_description/urdf/go2",
        ),
        *_menagerie("kinova_gen3__gen3", "universal_robots_ur10e__ur10e"),
    ),
}
"""Robots with fixed bases by half, none of which a threshold was chosen on."""
FAULTS = 5
"""Kinds of faults that a robot has, beside its right log."""
CLEAN = "none"
STEPS = {"log": "7-8", "integrator": "9-10", "inertia": "1-2", "file": "1,3-6"}
"""Steps that judge what a mistake is in."""


@dataclass(frozen=True)
class Outcome:
    """What the pipeline and the doctor made of a case: steps that fail, the first cause.

    `unmade` says why a case could not be made; such a case counts in no rate.
    """

    half: str
    code: str
    robot: str
    kind: str
    detail: str
    seed: int
    steps: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()
    named: str = ""
    caught: bool = False
    cause_first: bool = False
    seconds: float = 0.0
    unmade: str = ""


Findings = tuple[list[tuple[int, str]], list[str]]


def hash_code() -> str:
    """Digest of all code that makes and judges a case."""
    files = [Path(__file__), *sorted(Path(qddot.__file__).parent.rglob("*.py"))]
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:12]


def run_steps(source: str, settings: PipelineSettings, steps: str, folder: Path) -> Findings:
    """Steps and words of claims that fail, and causes that the doctor names, the surest first."""
    file = folder / "run.mcap"
    sources = [source, *([settings.log] if settings.log else [])]
    run = Run("pipeline", configuration={"base": settings.base}, inputs=gather_inputs(sources))
    with Recorder(file, run, force=True) as recorder:
        run_pipeline(Context(source, settings, recorder), select_steps(steps))
    failed = [
        (int(c.step), f"{c.name}: {c.cause}") for c in recorder.claims if c.verdict is Verdict.FAIL
    ]
    return failed, [d.cause for d in diagnose_record(file, recorder.record)]


def examine(half: str, code: str, robot: str, kind: str, seed: int, folder: Path) -> Outcome:
    """Make a case, run the steps that judge it, and let the doctor look at the record."""
    begun = time.perf_counter()
    plain = Outcome(half, code, Path(robot).stem, kind, "", seed)
    try:
        clean = kind == CLEAN
        fault = clean_case(folder, robot, seed) if clean else seed_fault(kind, folder, robot, seed)
    except (QddotError, ValueError) as error:
        return dataclasses.replace(plain, unmade=str(error))
    place = judged_place(fault)
    failed, causes = run_steps(fault.source, fault.settings, STEPS[place], folder)
    if place == "inertia":
        # what the file as it was published fails by is no finding
        (folder / "own").mkdir()
        own, _ = write_file(folder / "own", robot)
        before = run_steps(str(own), PipelineSettings(), STEPS[place], folder)
        failed = [x for x in failed if x not in before[0]]
        causes = [x for x in causes if x not in before[1]]
    numbers = tuple(sorted({step for step, _ in failed}))
    named = causes[0] if causes else ""
    return dataclasses.replace(
        plain,
        detail=fault.detail,
        steps=fault.steps,
        failed=numbers,
        named=named,
        # the step that should see it fails, and none before it
        caught=numbers[:1] != () and numbers[0] in fault.steps,
        cause_first=bool(fault.causes) and named.startswith(fault.causes),
        seconds=round(time.perf_counter() - begun, 1),
    )


def judged_place(fault: Fault) -> str:
    """A key of STEPS: what a mistake is in.

    Steps before it are those of the robot, whose own doubts the table of robots tells.
    """
    if fault.settings.log:
        return "log"
    if fault.settings.integrator:
        return "integrator"
    return "inertia" if fault.steps == (2,) else "file"


def list_cases(half: str, seed: int) -> list[tuple[str, str, int]]:
    """Robot, kind and seed of each case of a half: right logs first, then kinds in turn."""
    kinds, robots = [CLEAN, *KINDS], HALVES[half]
    found = []
    for turn in range(FAULTS + 1):
        for i, robot in enumerate(robots):
            kind = 1 + (i * FAULTS + turn - 1) % len(KINDS) if turn else 0
            found.append((robot, kinds[kind], seed + turn * len(robots) + i))
    return found


def table_text(outcomes: list[Outcome]) -> str:
    """The table of each half: a row a kind, the totals, and what was missed."""
    return "\n\n".join(
        half_text(half, [x for x in outcomes if x.half == half])
        for half in reversed(HALVES)
        if any(x.half == half for x in outcomes)
    )


def half_text(half: str, outcomes: list[Outcome]) -> str:
    """The table of a half."""
    title = {
        "judged": "Robots that only judge",
        "looked": "Robots whose misses were read while the diagnoses were improved",
    }[half]
    heads = ("fault", "cases", "step", "caught there", "cause named first")
    lines = [f"{title}:", "", f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
    made = [x for x in outcomes if not x.unmade]
    faults = [x for x in made if x.kind != CLEAN]
    for kind in KINDS:
        rows = [x for x in faults if x.kind == kind]
        steps = ", ".join(map(str, sorted({s for x in rows for s in x.steps})))
        caught, named = sum(x.caught for x in rows), sum(x.cause_first for x in rows)
        lines.append(f"| {kind} | {len(rows)} | {steps} | {caught} | {named} |")
    counts = sum(x.caught for x in faults), sum(x.cause_first for x in faults)
    totals = " | ".join(f"{n} ({100 * n / max(len(faults), 1):.0f} %)" for n in counts)
    clean = [x for x in made if x.kind == CLEAN]
    wrong = [f"{x.detail} at step {x.failed[0]} ({x.named})" for x in clean if x.failed]
    listed = f": {'; '.join(wrong)}" if wrong else ""
    lines += [
        f"| all | {len(faults)} | | {totals} |",
        "",
        f"{len({x.robot for x in outcomes})} robots, seeds {min(x.seed for x in outcomes)} to "
        f"{max(x.seed for x in outcomes)}, one code ({outcomes[0].code}). Right logs with a false "
        f"FAIL: {len(wrong)} of {len(clean)}{listed}.",
    ]
    blamed = [f"{x.detail}: {x.named}" for x in clean if x.named and not x.failed]
    if blamed:
        lines += ["", f"Without a FAIL the doctor still names: {'; '.join(blamed)}."]
    for x in faults:
        if not (x.caught and x.cause_first):
            steps = ", ".join(map(str, x.failed)) or "none"
            told = f"steps that fail: {steps}; the doctor names {x.named or 'nothing'}"
            lines += ["", f"Missed: {x.kind}, {x.detail}; {told}."]
    for x in outcomes:
        if x.unmade:
            lines += ["", f"Not made: {x.kind}, {x.robot}, seed {x.seed}; {x.unmade}."]
    return "\n".join(lines)


def write_outcomes(outcomes: list[Outcome], file: Path) -> None:
    """Keep outcomes in a file, and write the page unless on trial."""
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
    rows = json.loads(file.read_text("utf-8"))
    return [Outcome(**{**x, "steps": tuple(x["steps"])}) for x in rows if "half" in x]


def main() -> None:
    """Run the cases of a half one by one, and keep the outcomes."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=list(HALVES), default="judged")
    parser.add_argument("--seed", type=int, required=True, help="seed of the first case")
    parser.add_argument("--trial", type=Path, default=OUTCOMES, help="keep outcomes in this file")
    parser.add_argument("--words", nargs="*", default=[""], help="parts of names of robots")
    asked = parser.parse_args()
    code = hash_code()
    cases = list_cases(asked.half, asked.seed)
    seeds = {seed for _, _, seed in cases}
    # outcomes of other code or seeds are of another run
    kept = [
        x
        for x in read_outcomes(asked.trial)
        if x.half != asked.half or (x.code == code and x.seed in seeds)
    ]
    write_outcomes(kept, asked.trial)
    known = {x.seed for x in kept if x.half == asked.half}
    for robot, kind, seed in cases:
        if seed in known or not any(word in robot for word in asked.words):
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = examine(asked.half, code, robot, kind, seed, Path(folder))
        write_outcomes([*read_outcomes(asked.trial), found], asked.trial)
        good = not found.failed if kind == CLEAN else found.caught and found.cause_first
        words = f"{kind}; {found.detail}: fails {found.failed or '-'}, {found.named or '-'}"
        told = f"not made: {kind}; {found.robot}: {found.unmade}" if found.unmade else words
        mark = "  " if good or found.unmade else "! "
        print(f"{mark}{found.seconds:5.1f} s  {told}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
