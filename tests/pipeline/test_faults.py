"""Seeded faults: a few of those of docs/faults.py, each at the step that should see it."""

from __future__ import annotations

import re

import pytest

from qddot.errors import QddotError
from qddot.evidence import Recorder, Run, Verdict
from qddot.evidence.inputs import gather_inputs
from qddot.loaders.load import locate_source
from qddot.pipeline import Context, run_pipeline, select_steps
from qddot.pipeline.context import PipelineSettings
from qddot.pipeline.doctor import diagnose_record
from qddot.pipeline.fault_cases import clean_case
from qddot.pipeline.faults import KINDS, seed_fault


def examine(case, folder, steps):
    """Steps that fail, and the causes that the doctor names."""
    file = folder / "run.mcap"
    with Recorder(file, Run("pipeline", inputs=gather_inputs([case.source]))) as recorder:
        run_pipeline(Context(case.source, case.settings, recorder), select_steps(steps))
    failed = {int(c.step) for c in recorder.claims if c.verdict is Verdict.FAIL}
    return failed, [d.cause for d in diagnose_record(file, recorder.record)]


@pytest.mark.parametrize(
    ("kind", "robot", "seed", "steps"),
    [
        ("wrong inertia frame", "planar_3r", 0, "2"),
        ("tensor 10 ×", "planar_3r", 1, "2"),
        ("flipped gravity", "planar_2r", 1, "4"),
        ("swapped joints", "planar_2r", 1, "3"),
        ("wrong base type", "planar_2r", 0, "3"),
        ("limits in degrees", "ur5e", 0, "1"),
        ("gravity 0 or sideways", "planar_2r", 0, "4"),
        ("all torques × 1.25", "planar_2r", 3, "7"),
        ("all torques × −1", "planar_2r", 4, "7"),
        ("gain of a torque", "planar_2r", 5, "7"),
        ("clock jump", "planar_2r", 6, "7"),
    ],
)
def test_a_fault_is_seen_by_its_step_and_named_by_the_doctor(kind, robot, seed, steps, tmp_path):
    fault = seed_fault(kind, tmp_path, robot, seed)
    failed, causes = examine(fault, tmp_path, steps)
    assert failed <= set(fault.steps)
    assert failed, fault.detail
    assert causes[0].startswith(fault.causes), causes


def test_friction_that_the_file_lacks_is_seen_and_none_that_it_has(tmp_path, monkeypatch):
    monkeypatch.setenv("QDDOT_NATIVE", "1")  # loops of control in native code, as users run them
    right = clean_case(tmp_path, "planar_2r", 7)
    assert examine(right, tmp_path, "7-8") == (set(), [])
    source = tmp_path / "planar_2r.urdf"
    source.write_text(re.sub(r'(damping|friction)="[^"]*"', r'\1="0"', source.read_text("utf-8")))
    (tmp_path / "run.mcap").unlink()
    failed, causes = examine(right, tmp_path, "7-8")
    assert failed == {8}
    assert causes[0] == "friction not modelled"


def test_a_robot_whose_limits_leave_no_room_has_no_log(tmp_path):
    text = locate_source("planar_2r").read_text("utf-8")
    source = tmp_path / "still.urdf"
    source.write_text(re.sub(r'velocity="[^"]*"', 'velocity="0"', text), "utf-8")
    (tmp_path / "made").mkdir()
    with pytest.raises(QddotError, match="no room for a motion"):
        clean_case(tmp_path / "made", str(source), 0)


def test_a_step_is_chosen_that_the_motions_of_a_robot_allow(tmp_path, monkeypatch):
    monkeypatch.setenv("QDDOT_NATIVE", "1")
    # of these states some part so fast that no integrator keeps 1e-4 rad at 1 ms
    source = tmp_path / "fast.urdf"
    text = locate_source("double_pendulum").read_text("utf-8")
    source.write_text(text.replace('velocity="50"', 'velocity="99"'), "utf-8")
    for dt, verdict in ((None, Verdict.PASS), (1e-3, Verdict.FAIL)):
        settings = PipelineSettings(seed=3002, dt=dt)
        with Recorder(tmp_path / f"{dt}.mcap", Run("pipeline")) as recorder:
            run_pipeline(Context(str(source), settings, recorder), select_steps("9"))
        claim = next(c for c in recorder.claims if c.name == "integrator")
        assert claim.verdict is verdict
        assert (claim.bound < 1e-3) == (dt is None)


def test_every_kind_of_the_list_can_be_made():
    assert len(KINDS) == 22
