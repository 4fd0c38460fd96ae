"""Compiled laws: equal to their text sample by sample, in batches, and as C with a struct."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qddot
from qddot.control import (
    PD,
    CartesianImpedance,
    CollisionObserver,
    ComputedTorque,
    ContactTask,
    DisturbanceCompensation,
    Hybrid,
    MomentumObserver,
    OperationalSpace,
    Saturation,
    State,
    compile_law,
    evaluate_law,
    gain,
)
from qddot.errors import CannotTrace, UnknownName
from qddot.robot.robot import Robot

CC = shutil.which("gcc") or shutil.which("cc")
SIX = np.full(6, 100.0)
HYBRID = Hybrid("tool0", [0, 0, 1, 0, 0, 0], SIX, 0.2 * SIX)
LAWS = {
    "PD": PD(SIX, 0.1 * SIX),
    "computed torque": ComputedTorque(SIX, 0.2 * SIX),
    "impedance": CartesianImpedance("tool0", 3.0 * SIX, 0.3 * SIX, ki=2.0),
    "operational space": OperationalSpace("tool0", SIX, 0.2 * SIX, 5.0, 2.0, onset=0.1),
    "hybrid": HYBRID,
    "contact task": ContactTask(HYBRID, (0.05, 0.0, 0.0)),
    "collision observer": CollisionObserver(MomentumObserver(PD(SIX, 0.1 * SIX))),
    "disturbance": DisturbanceCompensation(HYBRID, coulomb=0.5, viscous=0.1),
}


@pytest.fixture(scope="module")
def arm() -> Robot:
    return Robot(qddot.load("ur5e").model, native=True)


@pytest.fixture(scope="module")
def pendulum() -> Robot:
    return Robot(qddot.load("double_pendulum").model, native=True)


def sample(robot: Robot, law: Any, rng: np.random.Generator) -> tuple[State, dict]:
    """A random state and reference of a law."""
    reference = {n: rng.normal(size=s) for n, s in law.references(robot).items()}
    for name, value in reference.items():
        if value.shape == (4, 4):
            reference[name] = robot.frame_pose(robot.random(rng), "tool0")
        if name == "q_ref":
            reference[name] = robot.random(rng)
    wrenches = {frame: 5.0 * rng.normal(size=6) for frame in law.senses(robot)}
    time = float(rng.uniform(0.0, 3.0))
    return State(robot.random(rng), rng.normal(size=robot.nv), 0.3, time, wrenches), reference


@pytest.mark.parametrize("name", LAWS)
def test_a_law_equals_its_text_over_many_samples(arm, name):
    law, rng = LAWS[name], np.random.default_rng(0)
    compiled = compile_law(arm, law)
    memory = {n: np.asarray(x, float) for n, x in law.memory(arm).items()}
    kept = compiled.memory(arm)
    for _ in range(20):
        state, reference = sample(arm, law, rng)
        expected, memory = evaluate_law(arm, law, state, reference, memory)
        tau, kept = compiled.command(arm, state, reference, kept)
        assert np.abs(tau - expected).max() <= 1e-9 * np.abs(expected).max()
        assert list(kept) == list(memory)
        for n, x in memory.items():
            assert np.shape(kept[n]) == x.shape
            np.testing.assert_allclose(kept[n], x, rtol=1e-9, atol=1e-12)
        # memory by name does as well as memory of its own kind
        again, _ = compiled.command(arm, state, reference, dict(kept))
        assert np.array_equal(again, compiled.command(arm, state, reference, kept)[0])


def test_a_batch_is_its_states(arm):
    law, rng = HYBRID, np.random.default_rng(1)
    compiled = compile_law(arm, law)
    samples = [sample(arm, law, rng) for _ in range(6)]
    states, references = zip(*samples, strict=True)
    together = State(
        np.stack([s.q for s in states]),
        np.stack([s.v for s in states]),
        0.3,
        np.array([s.time for s in states]),
        {"tool0": np.stack([s.wrenches["tool0"] for s in states])},
    )
    reference = {n: np.stack([r[n] for r in references]) for n in references[0]}
    start = {"force_integral": rng.normal(size=(6, 6))}
    tau, kept = compiled.command(arm, together, reference, start)
    for k, (state, one) in enumerate(samples):
        memory = {"force_integral": start["force_integral"][k]}
        expected, after = compiled.command(arm, state, one, memory)
        assert np.array_equal(tau[k], expected)
        assert np.array_equal(kept["force_integral"][k], after["force_integral"])


def test_gains_are_inputs_where_they_have_a_batch_or_are_named(pendulum):
    kp = np.array([[10.0, 20.0], [30.0, 40.0], [50.0, 60.0]])
    law = PD(kp, 2.0)
    compiled = compile_law(pendulum, law)
    assert list(compiled.gains) == ["kp"]
    state = State(np.array([0.1, 0.2]), np.array([0.3, -0.4]))
    reference = {"q_ref": np.zeros(2), "v_ref": np.zeros(2)}
    tau, _ = compiled.command(pendulum, state, reference, {})
    assert tau.shape == (3, 2)
    for k in range(3):
        expected, _ = PD(kp[k], 2.0).command(pendulum, state, reference, {})
        np.testing.assert_allclose(tau[k], expected, rtol=1e-14)
    assert list(compile_law(pendulum, PD(1.0, 2.0), "kd").gains) == ["kd"]
    assert {"kp", "kd"} <= set(compile_law(pendulum, PD(1.0, 2.0), "all").gains)
    with pytest.raises(UnknownName, match="kq"):
        compile_law(pendulum, PD(1.0, 2.0), ["kq"])


class Pushed(PD):
    """PD with a constant torque that is no field."""

    def __init__(self, push: float) -> None:
        super().__init__(1.0, 1.0)
        object.__setattr__(self, "push", push)

    def command(self, robot, state, reference, memory):
        tau, kept = super().command(robot, state, reference, memory)
        return tau + self.push, kept


@dataclass(frozen=True, eq=False)
class PushedOnce(PD):
    """The same with the torque as an argument that is kept under another name."""

    push: InitVar[float] = 0.0

    def __post_init__(self, push: float) -> None:
        object.__setattr__(self, "kept_push", push)

    def command(self, robot, state, reference, memory):
        tau, kept = super().command(robot, state, reference, memory)
        return tau + self.kept_push, kept


@dataclass(frozen=True, eq=False, slots=True)
class Constant:
    """A constant torque that is no field, in slots."""

    scale: float = 1.0

    def references(self, robot):
        return {}

    def senses(self, robot):
        return ()

    def memory(self, robot):
        return {}

    def command(self, robot, state, reference, memory):
        return self.scale * self.push + 0.0 * state.v, memory


class PushedSlot(Constant):
    """The attribute that the class above reads."""

    __slots__ = ("push",)

    def __init__(self, push: float) -> None:
        super().__init__()
        object.__setattr__(self, "push", push)


@pytest.mark.parametrize(
    "make", [Pushed, lambda push: PushedOnce(1.0, 1.0, push=push), PushedSlot, "inside"]
)
def test_laws_that_differ_in_attributes_that_are_no_fields_have_code_of_their_own(pendulum, make):
    build = (lambda push: Saturation(Pushed(push), 100.0)) if make == "inside" else make
    zero = np.zeros(2)
    for push in (1.0, 5.0, -3.0):
        law = build(push)
        reference = dict.fromkeys(law.references(pendulum), zero)
        tau, _ = compile_law(pendulum, law).command(pendulum, State(zero, zero), reference, {})
        np.testing.assert_allclose(tau, [push, push])
        found = pendulum.rollout(
            zero, zero, dt=1e-6, steps=1, integrator="semi_implicit", feedback=law,
            without="passive", **reference,
        )  # fmt: skip
        expected = 1e-6 * pendulum.forward_dynamics(zero, zero, np.array([push, push]))
        np.testing.assert_allclose(found.v[-1], expected, rtol=1e-4)


def test_laws_of_equal_fields_share_their_record(pendulum):
    class Renamed(PD):
        """A subclass without attributes of its own."""

    for kind in (PD, Renamed):
        first, second = (compile_law(pendulum, kind(2.0, 3.0)) for _ in range(2))
        assert first.function is second.function


def test_casadi_and_interpretation_agree(arm):
    law, rng = HYBRID, np.random.default_rng(2)
    compiled, plain = compile_law(arm, law), compile_law(Robot(arm.model, native=False), law)
    state, reference = sample(arm, law, rng)
    tau, kept = compiled.command(arm, state, reference, compiled.memory(arm))
    other, _ = plain.command(arm, state, reference, plain.memory(arm))
    np.testing.assert_allclose(other, tau, rtol=1e-9)
    clock = np.array([state.dt, state.time])
    inputs = [state.q, state.v, clock, state.wrenches["tool0"], *reference.values(), np.zeros(6)]
    symbolic = compiled.casadi()(*inputs)
    np.testing.assert_allclose(np.array(symbolic[0]).ravel(), tau, rtol=1e-9)
    np.testing.assert_allclose(np.array(symbolic[1]).ravel(), kept.vector, rtol=1e-12)


@pytest.mark.skipif(CC is None, reason="no C compiler: neither gcc nor cc on the path")
@pytest.mark.parametrize("name", ["impedance", "operational space", "contact task", "disturbance"])
def test_c_with_its_memory_as_a_struct(arm, tmp_path, name):
    compile_law(arm, LAWS[name]).export_c(tmp_path)
    header = (tmp_path / "ur5e.h").read_text()
    kind = type(LAWS[name]).__name__
    assert f"}} ur5e_{kind}_memory;" in header
    assert f"void ur5e_{kind}_reset(ur5e_{kind}_memory *memory);" in header
    command = [CC, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1"]
    made = subprocess.run(
        [*command, "ur5e.c", "ur5e_test.c", "-lm", "-o", "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    ran = subprocess.run([tmp_path / "run"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
    assert f"ur5e_{kind}_step tau" in ran.stdout


@dataclass(frozen=True)
class Broken:
    """A law that fails in a chosen way."""

    way: str
    k: Any = gain("nv", default=1.0)

    def references(self, robot):
        return {}

    def senses(self, robot):
        return ()

    def memory(self, robot):
        return {"x": 0.0}

    def command(self, robot, state, reference, memory):
        tau = -self.k * state.q
        if self.way == "shape":
            return tau[:1], memory
        if self.way == "nan":
            return tau * np.nan, memory
        if self.way == "branch":
            return (tau if state.q[0] > 0 else -tau), memory
        if self.way == "frame":
            return robot.frame_jacobian(state.q, "hand", "world").T @ np.ones(6), memory
        if self.way == "names":
            return tau, {"y": 0.0}
        if self.way == "memory shape":
            return tau, {"x": state.q}
        return tau, {"x": memory["x"] + state.dt}


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("shape", r"torque must have shape \(2,\), got \(1,\)"),
        ("nan", "NaN"),
        ("branch", "np.where"),
        ("frame", "no frame 'hand'"),
        ("names", r"names \['x'\]"),
        ("memory shape", r"memory 'x' must have shape \(\), got \(2,\)"),
    ],
)
def test_a_law_that_cannot_be_compiled_names_the_line(pendulum, way, words):
    with pytest.raises(CannotTrace, match=words) as caught:
        compile_law(pendulum, Broken(way))
    assert f"{Path(__file__).name}:" in str(caught.value)


def test_a_sound_law_of_the_same_text(pendulum):
    compiled = compile_law(pendulum, Broken("not at all", np.array([2.0, 3.0])))
    memory = compiled.memory(pendulum)
    state = State(np.array([1.0, -1.0]), np.zeros(2), 0.25)
    for k in range(1, 4):
        tau, memory = compiled.command(pendulum, state, {}, memory)
        assert tau.tolist() == [-2.0, 3.0]
        assert dict(memory) == {"x": 0.25 * k}


def test_the_page_runs(capsys, monkeypatch):
    monkeypatch.delenv("QDDOT_NATIVE")
    page = Path(__file__).resolve().parents[2] / "docs" / "compile-your-own.md"
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.S))
    exec(compile(code, str(page), "exec", dont_inherit=True), {"__name__": "page"})
    shown = capsys.readouterr().out
    assert "np.where(condition, a, b)" in shown
    assert "(3, 11, 6)" in shown
