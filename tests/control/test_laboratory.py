"""The laboratory with cheap settings: its figures hold, and can fail."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from qddot.cli import app
from qddot.control import laboratory
from qddot.control.laboratory import Measure, Surroundings, scene
from qddot.control.laboratory.gravity import model_label, with_fingers
from qddot.control.laboratory.panel import judge_members
from qddot.errors import InvalidArgument

PLANTS = ["own", "mujoco"]


@pytest.fixture(autouse=True, scope="module")
def native():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QDDOT_NATIVE", "1")
        caches = (scene.laboratory_robot, scene.with_table, scene._start)
        for cached in caches:
            cached.cache_clear()
        yield
        for cached in caches:
            cached.cache_clear()


def require_mujoco(kind):
    if kind == "mujoco":
        pytest.importorskip("mujoco")


def assert_holds(result):
    missed = [(m.name, m.value, m.bound) for m in result.measures if not m.holds]
    assert not missed
    assert result.label == "ok"
    assert any(m.bound is not None for m in result.measures)


def test_a_measure_can_fail():
    assert Measure("x", 1.0, "", 1.0).holds
    assert not Measure("x", 1.1, "", 1.0).holds
    assert not Measure("x", 0.9, "", 1.0, "≥").holds
    assert not Measure("x", float("nan"), "", 1.0).holds
    assert not Measure("x", float("nan"), "", 1.0, "≥").holds


def test_gravity():
    pytest.importorskip("mujoco")
    result = laboratory.gravity(duration=0.3)
    assert_holds(result)
    assert "0.8 rad → model" in result.notes[0]
    assert "as modelled → ok" in result.notes[0]


def test_parity_sees_a_wrong_mass():
    mujoco = pytest.importorskip("mujoco")
    robot = laboratory.laboratory_robot()
    heavy = robot.with_payload("tool0", 1e-6)
    model = mujoco.MjModel.from_xml_string(scene.write_mjcf(robot))
    assert max(laboratory.parity(heavy, states=3, source=model)) > 1e-8
    assert max(laboratory.parity(with_fingers(robot), states=3)) < 1e-11


def test_the_robot_of_a_file_is_held_where_gravity_loads_it(tmp_path):
    pytest.importorskip("mujoco")
    file = tmp_path / "arm.xml"
    file.write_text(scene.write_mjcf(laboratory.laboratory_robot()))
    found = laboratory.gravity("own", 0.1, mjcf=file)
    assert_holds(found)
    (load,) = [m for m in found.measures if m.name == "largest load of gravity in the hold"]
    assert load.unit == "N m"
    assert load.value > 30.0
    assert np.abs(found.traces["hold"].tau[0]).max() == pytest.approx(load.value)


def test_compliance():
    assert_holds(laboratory.compliance(stiffness=(2000.0,), friction=0.0))


@pytest.mark.parametrize("kind", PLANTS)
def test_hold_and_slide_ball(kind):
    require_mujoco(kind)
    assert laboratory.slide_ball(kind).is_steady
    assert_holds(laboratory.hold(kind, duration=0.2))


def test_an_unsteady_contact_is_told_and_no_law_is_blamed():
    pytest.importorskip("mujoco")
    careless = Surroundings(friction=0.6, tuned_contact=False)
    found = laboratory.slide_ball("mujoco", careless)
    assert found.lost > 0.1
    assert not found.is_steady
    result = laboratory.trace("mujoco", careless)
    assert result.label == "contact"
    assert "not steady" in result.notes[0]


def test_trace():
    result = laboratory.trace()
    assert_holds(result)
    events = [e.label for e in result.traces["trace"].events]
    assert events == ["settle", "trace", "hold", "retract"]


def test_a_tool_that_jams_is_foreseen():
    robot = laboratory.laboratory_robot()
    leant = laboratory.start_configuration(robot, 0.0)
    upright = np.diag([1.0, -1.0, -1.0, 1.0])
    upright[:3, 3] = laboratory.start_pose(0.0)[:3, 3]
    q = laboratory.find_configuration(robot, scene.FRAME, upright, leant)
    assert laboratory.jamming_friction(robot, leant, scene.FRAME) > 5.0
    assert laboratory.jamming_friction(robot, q, scene.FRAME) < 1.5
    far = upright.copy()
    far[0, 3] = 5.0
    with pytest.raises(InvalidArgument, match="does not reach"):
        laboratory.find_configuration(robot, scene.FRAME, far, leant)


def test_collision():
    assert_holds(laboratory.collision(quiet=3.0, members=3))


def test_tracking_orders_the_laws():
    result = laboratory.tracking(moves=1, stretch=False)
    rms = {m.name: 1e-3 * m.value for m in result.measures if m.unit == "mrad"}
    for name, errors in result.errors.items():
        assert np.sqrt(np.mean(errors**2)) == pytest.approx(rms[f"{name}: rms error"])
    assert_holds(result)
    errors = {m.name: m.value for m in result.measures if m.unit == "mrad"}
    assert errors["computed torque: rms error"] < errors["PD + gravity: rms error"]


def test_a_singular_stretch():
    result = laboratory.singular_stretch()
    assert_holds(result)
    damping = result.traces["stretch"].memory["damping"]
    assert damping[0] == damping[-1] == 0.0


def test_the_panel_and_its_labels():
    result = laboratory.panel(n=3, seed=3)
    assert_holds(result)
    draws = laboratory.draw_members(laboratory.laboratory_robot(), 500, seed=1)
    assert 4e3 < draws.stiffness.min() < 1e4
    assert 3e5 < draws.stiffness.max() < 5.1e5
    assert set(draws.rate) == {1000.0, 500.0, 250.0}
    assert np.abs(draws.height).max() <= 0.02


def fake_trace(robot, force, v=0.0, phases=(2, 3)):
    """A run of two members with 100 samples of each phase, at the target."""
    from qddot.control import Trace

    n = 100 * len(phases)
    q = np.broadcast_to(laboratory.start_configuration(robot), (2, n, 6)).copy()
    wrench = np.zeros((2, n, 6))
    wrench[..., 2] = force
    target = np.broadcast_to(robot.frame_pose(q[0, 0], scene.FRAME)[:3, 3], (2, n, 3)).copy()
    phase = np.broadcast_to(np.repeat(np.array(phases, float), 100), (2, n))
    return Trace(
        np.arange(n) * 1e-3, q, np.full((2, n, 6), v), np.zeros((2, n, 6)), 1e-3, "", "",
        wrenches={scene.FRAME: wrench}, memory={"phase": phase, "target": target},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("label", "choices"),
    [
        ("ok", {"force": 5.9}),
        ("control", {"force": 6.1}),
        ("contact", {"force": 0.0}),
        ("state", {"force": 5.0, "v": 5.0}),
        ("evaluation", {"force": 5.0, "phases": (0, 2)}),
    ],
)
def test_members_are_labelled_by_what_went_wrong(label, choices):
    robot = laboratory.laboratory_robot()
    found, _ = judge_members(robot, fake_trace(robot, **choices))
    assert list(found) == [label, label]


def test_a_model_of_other_weight_is_labelled():
    from qddot.control import RolloutPlant

    robot = laboratory.laboratory_robot()
    plant = RolloutPlant(robot.with_payload("tool0", 0.5))
    plant.reset(laboratory.start_configuration(robot))
    assert model_label(robot, plant) == "model"


def test_the_command_prints_keeps_and_draws(tmp_path):
    pytest.importorskip("mujoco")
    runner = CliRunner(env={"QDDOT_NATIVE": "1"})
    args = ["--save", str(tmp_path / "s"), "--plot", str(tmp_path / "p")]
    result = runner.invoke(app, ["lab", "trace", *args])
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    for expected in ("trace on our plant: ok", "holds", "4 of 4 bounds hold", "published"):
        assert expected in words
    assert (tmp_path / "p" / "trace_own.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "s" / "trace_own_trace.npz").is_file()
    result = runner.invoke(app, ["lab", "hold", "--mjcf", "robot.xml"])
    assert result.exit_code == 2
    assert "gravity" in result.output


def test_the_command_speaks_json():
    runner = CliRunner(env={"QDDOT_NATIVE": "1"})
    result = runner.invoke(app, ["lab", "collision", "--json"])
    report = json.loads(result.stdout)
    assert report["passed"] is True
    assert report["results"][0]["experiment"] == "collision"
    assert all(m["passed"] for m in report["results"][0]["measures"])
