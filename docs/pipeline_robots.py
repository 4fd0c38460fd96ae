"""Run the pipeline on many robots and write the table of docs/pipeline.md.

`python docs/pipeline_robots.py [WORD …]` runs the robots whose names have one of the words, or all,
one after the other, each in a process of its own that is ended after `--timeout` seconds. Outcomes
are kept in docs/pipeline_robots.json, so that one robot can be run again by itself; `--trial FILE`
keeps them there and leaves the page alone. Robots are the built-in ones, those of
example-robot-data, and those of MuJoCo Menagerie, of which `../shared/menagerie` has the files.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import subprocess
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import qddot
from qddot.evidence import Verdict

DOCS = Path(__file__).resolve().parent
PAGE, OUTCOMES = DOCS / "pipeline.md", DOCS / "pipeline_robots.json"
MENAGERIE = DOCS.parent.parent / "shared" / "menagerie"
MARKS = ("<!-- robots -->", "<!-- /robots -->")
EXAMPLES = "package://example-robot-data/robots"
TIMEOUT = 600.0


@dataclass(frozen=True)
class Subject:
    """A robot of the table: where its file is, its base, and whether it was looked at.

    Steps were written and corrected while runs of robots that were looked at were read; the others
    only judge.
    """

    name: str
    origin: str
    source: str
    base: str | None = None
    looked: bool = False


def _built_in(name: str, base: str | None = None) -> Subject:
    return Subject(name, "built-in", name, base, looked=True)


def _example(path: str, base: str | None = None, looked: bool = False) -> Subject:
    name = path.rsplit("/", 1)[-1].removesuffix(".urdf")
    return Subject(name, "example-robot-data", f"{EXAMPLES}/{path}", base, looked)


def _menagerie(stem: str, looked: bool = False) -> Subject:
    return Subject(stem.split("__")[-1], "Menagerie", str(MENAGERIE / f"{stem}.xml"), None, looked)


SUBJECTS = (
    *map(_built_in, ("ur5e", "panda", "planar_2r", "planar_3r", "double_pendulum", "quadruped")),
    *map(_built_in, ("quadrotor", "delta", "four_bar")),
    _example("xarm_description/urdf/xarm7.urdf", looked=True),
    _example("z1_description/urdf/z1.urdf", looked=True),
    _example("so_arm_description/urdf/so101.urdf", looked=True),
    _example("ur_description/urdf/ur10_robot.urdf", looked=True),
    _example("talos_data/robots/talos_left_arm.urdf", looked=True),
    _example("double_pendulum_description/urdf/double_pendulum_simple.urdf", looked=True),
    _example("finger_edu_description/robots/finger_edu.urdf", looked=True),
    _example("a1_description/urdf/a1.urdf", "free", looked=True),
    _example("solo_description/robots/solo12.urdf", "free", looked=True),
    _menagerie("franka_emika_panda__panda_nohand", looked=True),
    _menagerie("kinova_gen3__gen3", looked=True),
    _menagerie("kuka_iiwa_14__iiwa14", looked=True),
    _menagerie("robotiq_2f85__2f85", looked=True),
    _menagerie("unitree_go2__go2", looked=True),
    _example("panda_description/urdf/panda.urdf"),
    _example("kinova_description/robots/kinova.urdf"),
    _example("so_arm_description/urdf/so100.urdf"),
    _example("ur_description/urdf/ur3_robot.urdf"),
    _example("ur_description/urdf/ur5_robot.urdf"),
    _example("tiago_description/robots/tiago_no_hand.urdf"),
    _example("asr_twodof_description/urdf/TwoDofs.urdf", looked=True),
    _example("allegro_hand_description/urdf/allegro_right_hand.urdf"),
    _example("double_pendulum_description/urdf/double_pendulum_continuous.urdf"),
    _example("go1_description/urdf/go1.urdf", "free"),
    _example("go2_description/urdf/go2.urdf", "free"),
    _example("bolt_description/robots/bolt.urdf", "free"),
    _example("laikago_description/urdf/laikago.urdf", "free"),
    _example("simple_humanoid_description/urdf/simple_humanoid.urdf", "free"),
    _example("borinot_description/urdf/borinot_flying_arm_2.urdf", "free"),
    _example("hector_description/robots/quadrotor_base.urdf", "free"),
    _menagerie("agility_cassie__cassie"),
    _menagerie("anybotics_anymal_c__anymal_c"),
    _menagerie("boston_dynamics_spot__spot"),
    _menagerie("franka_emika_panda__panda"),
    _menagerie("hello_robot_stretch__stretch"),
    _menagerie("pal_talos__talos_motor"),
    _menagerie("shadow_hand__right_hand"),
    _menagerie("skydio_x2__x2"),
    _menagerie("unitree_g1__g1"),
    _menagerie("unitree_h1__h1"),
    _menagerie("universal_robots_ur10e__ur10e"),
    _menagerie("universal_robots_ur5e__ur5e"),
)


@dataclass(frozen=True)
class Outcome:
    """What the pipeline made of a robot: numbers of claims by verdict, and each that fails."""

    robot: str
    origin: str
    joints: int
    base: str
    verdicts: dict[str, int]
    failed: list[str]
    seconds: float
    looked: bool


def examine(subject: Subject, timeout: float) -> Outcome:
    """Run all steps in a process of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = qddot.load(subject.source, subject.base, "exact").model
    floats = any(b.joint.kind.floats for b in model.bodies)
    words = [sys.executable, "-m", "qddot", "pipeline", subject.source, "--json"]
    words += ["--base", subject.base] if subject.base else []
    begun = time.perf_counter()
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        verdicts, failed = {}, [f"not finished after {timeout:g} s"]
    else:
        verdicts, failed = judge(done)
    return Outcome(
        robot=subject.name,
        origin=subject.origin,
        joints=len(model.joint_names),
        base="free" if floats else "fixed",
        verdicts=verdicts,
        failed=failed,
        seconds=round(time.perf_counter() - begun, 1),
        looked=subject.looked,
    )


def judge(done: subprocess.CompletedProcess[str]) -> tuple[dict[str, int], list[str]]:
    """Numbers of claims by verdict, and the words of those that fail."""
    if done.returncode not in (0, 1):
        return {}, [f"exit code {done.returncode}: {done.stderr.strip()[-200:]}"]
    claims = [c for step in json.loads(done.stdout)["steps"] for c in step["claims"]]
    failed = [claim_text(c) for c in claims if c["verdict"] == Verdict.FAIL.value]
    return dict(Counter(c["verdict"] for c in claims)), failed


def claim_text(claim: dict[str, Any]) -> str:
    """A failed claim in words: its step, its name, its cause, its value or detail."""
    value = "" if claim["value"] is None else f"{claim['value']:.3g}, to be {claim['threshold']}"
    facts = "; ".join(filter(None, (claim["cause"], claim["detail"] or value)))
    return f"{int(claim['step'])} {claim['name']}: {facts}"


def table_text(outcomes: list[Outcome]) -> str:
    """The table, a row a robot, and the totals of both halves."""
    heads = ("robot", "from", "joints", "base", *(v.value for v in Verdict), "s", "first FAIL")
    lines = [f"| {' | '.join(heads)} |"]
    lines.append("| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | --- |")
    for x in outcomes:
        counts = [str(x.verdicts.get(v.value, 0)) for v in Verdict]
        name = f"{x.robot} \\*" if x.looked else x.robot
        first = re.sub(r"\s+", " ", x.failed[0]).replace("|", "\\|")[:160] if x.failed else ""
        cells = (name, x.origin, str(x.joints), x.base, *counts, f"{x.seconds:.0f}", first)
        lines.append(f"| {' | '.join(cells)} |")
    halves = []
    for looked, words in ((True, "looked at (\\*)"), (False, "that only judge")):
        part = [x for x in outcomes if x.looked is looked]
        halves.append(f"of {len(part)} robots {words} {sum(bool(x.failed) for x in part)} fail")
    seconds = sorted(x.seconds for x in outcomes)
    middle = seconds[len(seconds) // 2]
    told = f"{'; '.join(halves)}. Median time {middle:.0f} s, longest {seconds[-1]:.0f} s."
    return "\n".join([*lines, "", told[0].upper() + told[1:]])


def keep_outcome(found: Outcome, file: Path) -> None:
    """Put an outcome in its place among those that were kept; write the page unless on trial."""
    kept = {(x.robot, x.origin): x for x in [*read_outcomes(file), found]}
    order = [(s.name, s.origin) for s in SUBJECTS]
    outcomes = [kept[key] for key in order if key in kept]
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
    return [Outcome(**x) for x in json.loads(file.read_text("utf-8"))] if file.exists() else []


def main() -> None:
    """Run the robots that are asked for, one by one, and keep the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of names; all robots without one")
    parser.add_argument("--timeout", type=float, default=TIMEOUT, help="seconds for one robot")
    parser.add_argument("--trial", type=Path, default=OUTCOMES, help="keep outcomes in this file")
    parser.add_argument("--looked", action="store_true", help="only robots that were looked at")
    asked = parser.parse_args()
    for subject in SUBJECTS:
        named = not asked.words or any(word in subject.name for word in asked.words)
        if named and (subject.looked or not asked.looked):
            found = examine(subject, asked.timeout)
            keep_outcome(found, asked.trial)
            told = "; ".join(found.failed) or "no FAIL"
            print(f"{found.seconds:6.1f} s  {found.robot}: {told}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
