"""The audit names what was damaged, and does not cry wolf over good robots."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from agreement import example_urdfs, need_shared, shared_files
from damage import CORPUS, Case, find

from qddot.loaders.named_robots import named_files
from qddot.verify.audit import Audit, audit, fixed_text
from qddot.verify.audit.audit import audit_case
from qddot.verify.audit.case import gather_evidence
from qddot.verify.audit.read_description import read_robot

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import audit_rates  # noqa: E402

HYPOTHESES = {
    "not physical", "power of ten", "units", "about the origin", "wrong frame", "signs of products",
    "swapped moments", "twin disagrees", "radius of gyration", "centre of mass outside", "density",
    "differs from its shapes", "placeholder", "zero or default", "total mass", "missing payload",
    "drivetrain",
}  # fmt: skip
BUILT_IN = sorted(f for f in named_files().values() if f.parent.parent.name == "qddot")
# serious findings on undamaged robots that are true, and why
TRUE = {
    ("panda", "panda_link1", "radius of gyration"): (
        "identified parameters: the large moments across its axis do no work, as the file says"
    ),
}


def named_first(case: Case, result: Audit) -> bool:
    if not result.findings:
        return False
    first = result.findings[0]
    return first.hypothesis == case.hypothesis and case.subject in (first.subject, *first.links)


def test_the_corpus_holds_every_hypothesis_on_several_robots():
    robots = defaultdict(set)
    for case in CORPUS:
        robots[case.hypothesis].add(case.robot)
    assert set(robots) == HYPOTHESES
    assert min(map(len, robots.values())) >= 2
    # without example-robot-data and without Menagerie there are enough left
    assert sum(":" not in case.robot for case in CORPUS) >= 40


def test_damaged_models_are_named_correctly(tmp_path, capsys):
    present = [case for case in CORPUS if find(case.robot).is_file()]
    right, of, missed = Counter(), Counter(), []
    for k, case in enumerate(present):
        folder = tmp_path / str(k)
        folder.mkdir()
        result = audit(case.make(folder), mass=case.mass)
        of[case.hypothesis] += 1
        if named_first(case, result):
            right[case.hypothesis] += 1
        else:
            missed.append(f"{case.label}: {result.findings[:1]}")
    with capsys.disabled():
        print("\n" + "\n".join(f"{h:26} {right[h]:3} of {of[h]:3}" for h in sorted(of)))
        print(f"{'all':26} {right.total():3} of {of.total():3}")
    assert of.total() >= 40
    assert right.total() >= 0.95 * of.total(), "\n".join(missed)


# links of a public robot; what stands there as a fault, and the hypothesis that names it
PLANTED = [
    ("xarm7", "link5", "centre of mass 0.1 m off", "centre of mass outside"),
    ("xarm7", "link3", "signs of products flipped", "signs of products"),
    ("xarm7", "link5", "centre of mass negated", "sign of the centre"),
    ("so101", "upper_arm_link", "mass in pounds", "units"),
    ("so101", "upper_arm_link", "tensor turned by 90°", "wrong frame"),
    ("laikago", "RR_thigh", "centre of mass negated", "sign of the centre"),
]


@pytest.mark.parametrize(("robot", "link", "kind", "word"), PLANTED)
def test_faults_planted_in_public_robots_are_findings(robot, link, kind, word):
    """Outliers among the links of a robot are warnings, with cause, odds or size."""
    if not example_urdfs():
        pytest.skip("example-robot-data is not installed")
    case = gather_evidence(read_robot(audit_rates.robot_file(robot)))
    plant, _ = audit_rates.KINDS[kind]
    wrong = plant(case.robot.links[link].inertial, audit_rates.Place(case, link, 0))
    of_link = [
        f
        for f in audit_case(case.with_inertial(link, wrong)).findings
        if f.subject == link and f.severity != "info"
    ]
    assert of_link
    assert word in of_link[0].hypothesis
    assert not [f for f in audit_case(case).findings if f.subject == link and f.severity != "info"]


def test_rates_are_those_of_the_page():
    """The table counts what was caught; robots that chose thresholds judge none."""
    assert not set(audit_rates.TUNED) & set(audit_rates.JUDGED)
    outcomes = list(audit_rates.plant_all("planar_3r", gather_evidence(read_robot("planar_3r"))))
    caught = [x for x in outcomes if x.caught]
    assert len(outcomes) > 25
    assert len(caught) >= 0.9 * len(outcomes)
    page = (ROOT / "docs" / "audit.md").read_text("utf-8")
    table = page.split(audit_rates.MARKS[0])[1].split(audit_rates.MARKS[1])[0]
    assert all(f"| {kind} |" in table for kind in audit_rates.KINDS)
    shares = [int(x) for x in re.findall(r"\((\d+) %\)", table)]
    assert min(shares) >= 80


def serious(files):
    found = set()
    for file in files:
        result = audit(file)
        found |= {
            (file.stem, f.subject, f.hypothesis) for f in result.findings if f.severity == "error"
        }
    return found


def test_serious_findings_on_built_in_robots_are_true():
    assert serious(BUILT_IN) == set(TRUE)


def test_serious_findings_on_menagerie_robots_are_true():
    files = shared_files("menagerie/*.xml")
    need_shared(files)
    assert len(files) == 17
    assert serious(files) == set()


def test_a_slip_of_a_public_robot_is_found_and_put_right(tmp_path):
    """In romeo_small two moments of right links are a tenth of those of their left twins."""
    file = next((f for f in example_urdfs() if f.stem == "romeo_small"), None)
    if file is None:
        pytest.skip("example-robot-data is not installed")
    result = audit(file)
    first = result.findings[:2]
    assert {f.subject for f in first} == {"RElbowYawLink", "RShoulderYawLink"}
    assert {f.hypothesis for f in first} == {"power of ten"}
    text, undone = fixed_text(result)
    assert {f.subject for f in first} <= {f.subject for f in undone}
    fixed = tmp_path / "fixed.urdf"
    fixed.write_text(text)
    robot = read_robot(fixed)
    for side in ("ElbowYawLink", "ShoulderYawLink"):
        left, right = (robot.links[f"{s}{side}"].inertial.written for s in "LR")
        assert abs(right[2, 2] / left[2, 2] - 1) < 0.01


FIXABLE = [
    case
    for case in CORPUS
    if case.hypothesis in ("power of ten", "units", "about the origin", "swapped moments")
    and ":" not in case.robot
]
# two of its moments are nearly the same: that they are swapped is plain, which with which is not
AMBIGUOUS = [c for c in FIXABLE if (c.subject, c.hypothesis) == ("base", "swapped moments")]


@pytest.mark.parametrize("case", FIXABLE, ids=lambda c: c.label)
def test_a_fix_gives_the_good_robot_back(case, tmp_path):
    bad = audit(case.make(tmp_path))
    first = bad.findings[0]
    text, undone = fixed_text(bad)
    if case in AMBIGUOUS:
        assert first.meant is None
        assert "fits about as well" in first.message
        return
    assert first is undone[0]
    fixed = tmp_path / f"fixed{bad.robot.file.suffix}"
    fixed.write_text(text)
    good = read_robot(find(case.robot)).links[case.subject].inertial
    found = read_robot(fixed).links[case.subject].inertial
    assert np.isclose(found.mass, good.mass, rtol=1e-9)
    assert np.allclose(found.com, good.com, atol=1e-9)
    assert np.allclose(found.tensor, good.tensor, atol=1e-9 * np.abs(good.tensor).max())
    before, after = bad.robot.text.splitlines(), text.splitlines()
    assert len(before) == len(after)
    changed = sum(a != b for a, b in zip(before, after, strict=True))
    assert 1 <= changed <= 4
