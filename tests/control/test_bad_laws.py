"""Laws and plants that do not fit, run every way that a law can run: a clear error each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import qddot
from qddot import control
from qddot.errors import JointsDiffer, QddotError, ShapeMismatch, WrongType

ARM = qddot.load("ur5e")
SEVEN = qddot.load("panda")
START = np.full(6, 0.1)
GOAL = {"q_ref": np.zeros(6)}


@dataclass(frozen=True, eq=False)
class Spring:
    """A sound law; the bad ones differ from it in one thing."""

    def references(self, robot):
        return {"q_ref": (robot.nq,)}

    def senses(self, robot):
        return ()

    def memory(self, robot):
        return {"count": 0.0}

    def command(self, robot, state, reference, memory):
        return reference["q_ref"] - state.q, {"count": memory["count"] + 1.0}


class ThreeTorques(Spring):
    def command(self, robot, state, reference, memory):
        return state.q[:3], memory


class MatrixOfTorques(Spring):
    def command(self, robot, state, reference, memory):
        return np.outer(state.q, state.q), memory


class NoTorques(Spring):
    def command(self, robot, state, reference, memory):
        return None, memory


class NoMemory(Spring):
    def command(self, robot, state, reference, memory):
        return -state.q


class OtherMemory(Spring):
    def command(self, robot, state, reference, memory):
        return -state.q, {"number": memory["count"]}


class LongerMemory(Spring):
    def command(self, robot, state, reference, memory):
        return -state.q, {"count": state.q}


class RootOfNegative(Spring):
    def command(self, robot, state, reference, memory):
        with np.errstate(invalid="ignore"):
            return state.q * np.sqrt(-1.0 - state.v[0] ** 2), memory


class ConstantNaN(Spring):
    def command(self, robot, state, reference, memory):
        return np.full(robot.nv, np.nan), memory


class Choice(Spring):
    def command(self, robot, state, reference, memory):
        if state.q[0] > 0.0:
            return -state.q, memory
        return state.q, memory


class NoSuchFrame(Spring):
    def command(self, robot, state, reference, memory):
        J = robot.frame_jacobian(state.q, "tol0", "world")
        return J.T @ np.ones(6), memory


class NoSuchSensor(Spring):
    def senses(self, robot):
        return ("tol0",)


BAD = {
    ThreeTorques: r"ThreeTorques.command: torque must have shape \(6,\), got \(3,\)",
    MatrixOfTorques: r"torque must have shape \(6,\), got \(6, 6\)",
    NoTorques: r"torque must have shape \(6,\), got \(\)",
    NoMemory: "a law returns its torques and its memory: return tau, memory",
    OtherMemory: "it returns memory of the names",
    LongerMemory: r"memory 'count' must have shape \(\)",
    NoSuchFrame: "no frame 'tol0' in 'ur5e'; closest: 'tool0'",
    NoSuchSensor: "no frame 'tol0' in 'ur5e'; closest: 'tool0'",
}


def run_on(plant, law, **choices):
    plant.reset(np.broadcast_to(START, (*choices.pop("batch", ()), 6)))
    return control.run(plant, law, GOAL, duration=0.01, **choices)


@pytest.fixture(scope="module")
def mujoco_arm(tmp_path_factory):
    """The UR5e as MuJoCo has it."""
    mujoco = pytest.importorskip("mujoco")
    file = tmp_path_factory.mktemp("mjcf") / "ur5e.xml"
    qddot.writers.convert("ur5e", file)
    return mujoco.MjModel.from_xml_path(str(file))


@pytest.fixture
def ways(mujoco_arm, tmp_path):
    """Every way that a law can run."""
    return {
        "loop": lambda law: run_on(control.RolloutPlant(ARM), law),
        "loop of a batch": lambda law: run_on(
            control.RolloutPlant(ARM), law, batch=(2,), compiled=False
        ),
        "compiled": lambda law: run_on(control.RolloutPlant(ARM), law, compiled=True),
        "rollout": lambda law: ARM.rollout(
            START, np.zeros(6), dt=1e-3, steps=10, feedback=law, **GOAL
        ),
        "mujoco": lambda law: run_on(control.MujocoControlPlant(ARM, mujoco_arm), law),
        "c": lambda law: control.compile_law(ARM, law).export_c(tmp_path / "c"),
    }


WAYS = ("loop", "loop of a batch", "compiled", "rollout", "mujoco", "c")
INTERPRETED = ("loop", "loop of a batch", "mujoco")


@pytest.mark.parametrize("way", WAYS)
def test_the_law_that_the_bad_ones_differ_from_runs(ways, way):
    ways[way](Spring())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("law", "message"), BAD.items(), ids=lambda x: getattr(x, "__name__", ""))
def test_bad_laws_are_refused_in_words(ways, way, law, message):
    with pytest.raises(QddotError, match=message):
        ways[way](law())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("law", [RootOfNegative, ConstantNaN])
def test_torques_without_a_number_are_found(ways, way, law):
    messages = dict.fromkeys((*INTERPRETED, "compiled"), "a law returns finite torques")
    messages |= {"c": "NaN", "rollout": "NaN"}
    if way == "compiled" and law is ConstantNaN:
        messages[way] = "constant NaN"
    if way == "rollout" and law is RootOfNegative:
        # rollouts raise nothing from inside a batch: the status says it
        verdict = ways[way](law()).status.of()
        assert (verdict.label, verdict.step) == ("nan_input", 0)
        assert verdict.cause == "torque of RootOfNegative"
        return
    with pytest.raises(QddotError, match=messages[way]):
        ways[way](law())


def test_a_member_of_a_batch_may_fail_alone(ways):
    @dataclass(frozen=True, eq=False)
    class RootOfPosition(Spring):
        def command(self, robot, state, reference, memory):
            with np.errstate(invalid="ignore"):
                return -state.q * np.sqrt(state.q[0]), memory

    plant = control.RolloutPlant(ARM)
    plant.reset(np.stack([START, -START]))
    with np.errstate(invalid="ignore"):
        trace = control.run(plant, RootOfPosition(), GOAL, duration=0.01)
    assert np.isfinite(trace.tau).all(axis=(1, 2)).tolist() == [True, False]


@pytest.mark.parametrize("way", WAYS)
def test_an_if_on_a_value_runs_on_floats_and_names_its_remedy_elsewhere(ways, way):
    if way in INTERPRETED:
        ways[way](Choice())
        return
    with pytest.raises(QddotError, match=r"test_bad_laws.py:\d+ `if state.q\[0\] > 0.0:`.*where"):
        ways[way](Choice())


GRAVITY = control.GravityCompensation()


@pytest.mark.parametrize(
    "attempt",
    [
        lambda _: control.run(control.RolloutPlant(SEVEN), GRAVITY, duration=0.01, robot=ARM),
        lambda _: control.run(
            control.RolloutPlant(SEVEN), control.compile_law(ARM, GRAVITY), duration=0.01
        ),
        lambda model: control.MujocoControlPlant(SEVEN, model),
        lambda model: control.run(
            control.MujocoControlPlant(ARM, model), GRAVITY, duration=0.01, robot=SEVEN
        ),
        lambda model: control.run(
            control.MujocoControlPlant(ARM, model),
            control.compile_law(SEVEN, GRAVITY),
            duration=0.01,
        ),
        lambda _: ARM.rollout(
            START, np.zeros(6), dt=1e-3, steps=4, feedback=control.compile_law(SEVEN, GRAVITY)
        ),
        lambda _: control.compile_law(ARM, control.compile_law(SEVEN, GRAVITY)),
    ],
    ids=["own", "own compiled", "adapter", "mujoco", "mujoco compiled", "rollout", "compile"],
)
def test_plants_with_other_joints_are_refused(mujoco_arm, attempt):
    with pytest.raises(JointsDiffer, match="panda"):
        attempt(mujoco_arm)


@pytest.mark.parametrize("way", WAYS)
def test_gains_of_another_robot_are_refused(ways, way):
    law = control.PD(np.ones(7), 1.0)
    with pytest.raises(ShapeMismatch, match=r"PD: kp must have shape \(6,\) or a number"):
        ways[way](law)


def test_rollouts_say_how_a_law_is_given():
    with pytest.raises(QddotError, match="a law is given as feedback=…"):
        ARM.rollout(START, np.zeros(6), dt=1e-3, steps=4, law=GRAVITY)
    with pytest.raises(QddotError, match="a law is given as feedback=…"):
        ARM.rollout(START, np.zeros(6), GRAVITY, dt=1e-3, steps=4)


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"senses": None}, "names of frames"),
        ({"senses": 7}, "names of frames"),
        ({"senses": (1,)}, "names of frames"),
        ({"references": None}, "{name: shape}"),
        ({"references": {"x": "nv"}}, "a tuple of sizes"),
        ({"references": {"x": (-1,)}}, "a tuple of sizes"),
        ({"references": {1: (2,)}}, "a tuple of sizes"),
        ({"memory": None}, "{name: numbers}"),
        ({"memory": {"x": "a"}}, "an array of numbers"),
    ],
)
def test_answers_that_are_no_laws_are_refused_in_words(answers, words):
    class Odd:
        def references(self, robot):
            return answers.get("references", {})

        def senses(self, robot):
            return answers.get("senses", ())

        def memory(self, robot):
            return answers.get("memory", {})

        def command(self, robot, state, reference, memory):
            return state.v, memory

    with pytest.raises(WrongType, match=words):
        control.compile_law(qddot.Robot(qddot.load("planar_2r").model, native=False), Odd())
