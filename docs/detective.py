"""Try the log detective on corrupted logs: `python docs/detective.py`.

Writes the table of docs/identification.md between its marks. Real logs are taken from
`../shared/data` where that folder exists.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np

import qddot
from qddot import identify
from qddot.identify import Log
from qddot.identify.corruption import corrupt_log
from qddot.identify.detective import Inspection, inspect
from qddot.identify.excitation import motion_limits
from qddot.identify.fourier import random_motion
from qddot.identify.virtual import perturb_robot, virtual_log
from qddot.robot.robot import Robot

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "identification.md"
DATA = ROOT.parent / "shared" / "data"
MARKS = ("<!-- detective -->", "<!-- /detective -->")
DELAYS = (-4, -2, 2, 3, 6)
GAINS = (0.5, 1.5, 2.0)


def simulated(name: str, seed: int, rate: float = 200.0) -> tuple[Robot, Log]:
    """A robot whose bodies differ by 10 % from the description's, along a random motion."""
    robot = qddot.Robot(qddot.load(name).model, native=True)
    box = motion_limits(robot, velocity=1.5)
    limits = (box.lower, box.upper, box.velocity, box.acceleration)
    rng = np.random.default_rng(seed)
    motion = random_motion(robot.joint_names, 10.0, 5, *limits, rng)
    truth = perturb_robot(robot, 0.1, seed)
    return robot, virtual_log(truth, motion, 20.0, rate, 0.01, 2e-5, seed)


def real(decimate: int = 25) -> Iterator[tuple[Robot, Log]]:
    """The logs of the TX40 (every 25th sample or so) and of the UR10."""
    folder = DATA / "staubli_tx40"
    if folder.exists():
        robot = qddot.Robot(qddot.load(folder / "tx40_mdh_modified.urdf").model, native=True)
        ratios = np.diag([32.0, 32.0, 45.0, -48.0, 45.0, 32.0])
        ratios[5, 4] = 32.0
        log = identify.read(
            {"q": folder / "pos_read_data.csv", "tau": folder / "curr_data.csv"},
            robot,
            columns={"q": "Joint_{i}", "tau": "Joint_{i}"},
            units={"q": "motor rad", "tau": "motor N m"},
            gear=ratios,
            offset=[0.0, -np.pi / 2, np.pi / 2, 0.0, 0.0, 0.0],
            rate=5000.0,
        )
        thin = slice(None, None, decimate)
        yield robot, identify.make_log(robot, log.time[thin], log.q[thin], log.tau[thin])
    file = DATA / "ur10_unisa" / "ur10_exciting_trajectory.db3"
    if file.exists():
        robot = qddot.Robot(qddot.load("ur10_robot").model, native=True)
        yield robot, identify.read(file, robot)


def trials(log: Log, clean: Inspection, few: bool) -> Iterator[tuple[str, tuple[int, ...], float]]:
    """Corruptions of a log: kind, joints, size."""
    joints = range(len(log.joints))
    pairs = list(combinations(joints, 2))[:: 5 if few else 3]
    for j in joints:
        yield "torque sign", (j,), 0.0
        yield "position sign", (j,), 0.0
    for pair in pairs:
        yield "swapped torques", pair, 0.0
        yield "swapped positions", pair, 0.0
        yield "swapped joints", pair, 0.0
    for size in DELAYS:
        yield "delay", (), float(size)
    for j in joints:
        gain = clean.gravity_gains[j]
        if clean.gravity_shares[j] > 0.25 and 0.7 < gain < 1.4:
            for size in GAINS:
                yield "gain", (j,), size


def is_found(result: Inspection, kind: str, names: tuple[str, ...], size: float) -> bool:
    """Whether the mistake is named, first or among explanations that the log cannot separate."""
    if kind == "delay":
        return any(abs(s.size - size) < 1.0 for s in result.of_kind("delay"))
    if kind == "gain":
        return any(s.joints == names for s in result.of_kind("gain"))
    label = f"{kind} {', '.join(names)}"
    first = [s for s in result.suspicions if s.kind not in ("dead joint", "saturation")][:1]
    return any((s.kind == kind and s.joints == names) or label in s.alternatives for s in first)


def main(few: bool = False) -> None:
    """Run all trials and write the table."""
    cases = list(real()) + [
        simulated(name, seed)
        for name, seed in (("ur5e", 0), ("panda", 1), ("ur5_robot", 2), ("ur5e", 3))[
            : 1 if few else 4
        ]
    ]
    found: dict[str, list[bool]] = {}
    invented, looked = 0, 0
    for robot, log in cases:
        for part in (log, *log.split(0.5)):
            suspicions = inspect(robot, part).suspicions
            looked += 1
            invented += bool(suspicions)
            for s in suspicions:
                print("invented", robot.name, len(part), s)
        clean = inspect(robot, log)
        for kind, joints, size in trials(log, clean, few):
            names = tuple(log.joints[j] for j in joints)
            result = inspect(robot, corrupt_log(log, kind, joints, size))
            hit = is_found(result, kind, names, size)
            found.setdefault(kind, []).append(hit)
            if not hit:
                print("missed", robot.name, kind, names, size, *map(str, result.suspicions))
    lines = ["| mistake | size | logs | found |", "| --- | --- | --- | --- |"]
    sizes = {"delay": f"{', '.join(map(str, DELAYS))} samples", "gain": "0.5, 1.5, 2"}
    for kind, hits in found.items():
        share = f"{100 * np.mean(hits):.0f} %"
        lines.append(f"| {kind} | {sizes.get(kind, '')} | {len(hits)} | {share} |")
    total = sum(map(len, found.values()))
    lines.append(f"| none (clean, whole and halved) | | {looked} | {invented} invented |")
    text = "\n".join(lines)
    print(total, "corrupted logs")
    print(text)
    if not few and PAGE.exists():
        page = PAGE.read_text(encoding="utf-8")
        pattern = f"{MARKS[0]}.*?{MARKS[1]}"
        block = f"{MARKS[0]}\n{total} corrupted logs of {len(cases)}:\n\n{text}\n{MARKS[1]}"
        PAGE.write_text(re.sub(pattern, lambda _: block, page, flags=re.S), encoding="utf-8")


if __name__ == "__main__":
    main("--few" in sys.argv)
