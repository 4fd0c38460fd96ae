"""Laws inside native rollouts: the same numbers as the text in a loop, sample by sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi
import numpy as np
import pytest
from bare_rollouts import rollout

import qddot
from qddot.control import PD, CasadiLaw, ComputedTorque, State, gain
from qddot.errors import InvalidArgument, UnknownName
from qddot.robot.robot import Robot
from qddot.simulate.contact import (
    ComplementarityContact,
    PenaltyContact,
    Plane,
    Scene,
    Sphere,
    contact_ledger,
)

DT = 1e-3


@pytest.fixture(scope="module", params=[True, False], ids=["native", "interpreted"])
def arm(request) -> Robot:
    return Robot(qddot.load("planar_2r").model, native=request.param)


@dataclass(frozen=True)
class Counting:
    """PID on a reference that turns with the time, with a clock of its own."""

    kp: Any = gain("nv", default=20.0)
    ki: Any = gain(default=5.0)

    def references(self, robot):
        return {"centre": (robot.nv,), "frame": (2, 2)}

    def senses(self, robot):
        return ("tool",)

    def memory(self, robot):
        return {"integral": np.zeros(robot.nv), "clock": 0.5}

    def command(self, robot, state, reference, memory):
        turning = np.stack([np.cos(state.time), np.sin(state.time)])
        target = reference["centre"] + 0.1 * reference["frame"] @ turning
        e = target - state.q
        integral = memory["integral"] + e * state.dt
        felt = (
            robot.frame_jacobian(state.q, "tool", "local_world_aligned").T @ state.wrenches["tool"]
        )
        tau = self.kp * e + self.ki * integral - 0.4 * state.v + 0.1 * felt + robot.gravity(state.q)
        return tau * memory["clock"] / 0.5, {
            "integral": integral,
            "clock": memory["clock"] + 0.0 * state.dt,
        }


def own_loop(robot, law, q, v, references, wrench, steps, period=1):
    """The text of the law in a loop of semi-implicit Euler steps."""
    memory = {n: np.asarray(x, float) for n, x in law.memory(robot).items()}
    path = [q]
    for k in range(steps):
        if k % period == 0:
            state = State(q, v, period * DT, k * DT, {"tool": wrench})
            tau, memory = law.command(robot, state, references, memory)
        v = v + DT * robot.forward_dynamics(q, v, tau)
        q = q + DT * v
        path.append(q)
    return np.array(path), memory


@pytest.mark.parametrize("period", [1, 3])
def test_a_law_with_memory_clock_and_senses(arm, period):
    law = Counting()
    q, v = np.array([0.3, -0.2]), np.array([0.5, 0.1])
    references = {"centre": np.array([0.1, 0.2]), "frame": np.array([[0.0, 1.0], [-1.0, 0.5]])}
    wrench = np.array([0.3, -0.2, 0.0, 0.0, 0.0, 0.1])
    given = {"dt": DT, "steps": 30, "feedback": law, "control_every": period, **references}
    found = rollout(arm, q, v, wrench_tool=wrench, **given)
    expected, memory = own_loop(arm, law, q, v, references, wrench, 30, period)
    np.testing.assert_allclose(found.q, expected, rtol=0, atol=1e-13)
    np.testing.assert_allclose(found.effect_states[-1][-3:-1], memory["integral"], atol=1e-14)
    # in two parts: time, held torques and memory go on
    first = rollout(arm, q, v, wrench_tool=wrench, **{**given, "steps": 10})
    rest = first.resume(steps=20, wrench_tool=wrench, **references)
    assert rest.q[-1].tobytes() == found.q[-1].tobytes()


def test_a_batch_with_gains_and_references_of_its_own(arm):
    q, v = np.array([0.3, -0.2]), np.zeros(2)
    kp = np.array([[5.0, 6.0], [7.0, 8.0], [9.0, 10.0]])
    ki = np.array([1.0, 2.0, 3.0])
    rows = np.linspace(0.0, 0.3, 3 * 20 * 2).reshape(3, 20, 2)
    wrench, frame = np.zeros(6), np.eye(2)
    found = rollout(
        arm, q, v, dt=DT, steps=20, feedback=Counting(kp, ki), centre=rows, frame=frame,
        wrench_tool=wrench,
    )  # fmt: skip
    for k in range(3):
        alone = rollout(
            arm, q, v, dt=DT, steps=20, feedback=Counting(kp[k], float(ki[k])), centre=rows[k],
            frame=frame, wrench_tool=wrench,
        )  # fmt: skip
        np.testing.assert_allclose(found.q[k], alone.q, rtol=0, atol=1e-14)


def test_computed_torque_makes_errors_decay_as_told(arm):
    omega = 10.0
    law = ComputedTorque(omega**2, 2.0 * omega)
    q0, steps = np.array([0.2, -0.1]), 400
    still = {"q_ref": np.zeros(2), "v_ref": np.zeros(2), "a_ref": np.zeros(2)}
    found = rollout(arm, q0, np.zeros(2), dt=DT, steps=steps, every=100, feedback=law, **still)
    t = found.time[:, None]
    exact = q0 * (1.0 + omega * t) * np.exp(-omega * t)
    assert np.abs(found.q - exact).max() < 5e-3 * np.abs(q0).max()


def test_a_law_of_casadi_is_the_same_law(arm):
    q, v, q_ref, kp = (casadi.SX.sym(n, 2) for n in ("q", "v", "q_ref", "kp"))
    tau = kp * casadi.tanh(q_ref - q) - casadi.fmin(casadi.fabs(v), 1.0) * casadi.sign(v)
    f = casadi.Function("law", [q, v, q_ref, kp], [tau], ["q", "v", "q_ref", "kp"], ["tau"])

    @dataclass(frozen=True)
    class Plain(CasadiLaw):
        """The same in NumPy."""

        def command(self, robot, state, reference, memory):
            pull = np.array([4.0, 5.0]) * np.tanh(reference["q_ref"] - state.q)
            return pull - np.minimum(np.abs(state.v), 1.0) * np.sign(state.v), {}

    laws = [kind(f, {"kp": np.array([4.0, 5.0])}) for kind in (CasadiLaw, Plain)]
    start = (np.array([0.4, -0.3]), np.array([0.2, 0.9]))
    one, other = (
        rollout(arm, *start, dt=DT, steps=50, feedback=law, q_ref=np.zeros(2)) for law in laws
    )
    np.testing.assert_allclose(one.q, other.q, rtol=0, atol=1e-14)
    with pytest.raises(UnknownName, match="kq"):
        CasadiLaw(f, {"kq": 1.0})
    with pytest.raises(InvalidArgument, match="SX"):
        CasadiLaw(casadi.sin)


@dataclass(frozen=True)
class Feels:
    """Holds a slider, and keeps the wrench that it felt last."""

    frame: str

    def references(self, robot):
        return {}

    def senses(self, robot):
        return (self.frame,)

    def memory(self, robot):
        return {"felt": np.zeros(6)}

    def command(self, robot, state, reference, memory):
        return -30.0 - 5.0 * state.v, {"felt": state.wrenches[self.frame]}


@pytest.mark.parametrize("kind", ["complementarity", "penalty"])
def test_the_wrench_of_contact_is_felt(kind):
    """A slider pressed on the floor: the law feels weight and push, at the frame it names."""
    links = [
        qddot.LinkSpec("base", None, "fixed"),
        qddot.LinkSpec("foot", "base", "prismatic", axis=(0, 0, 1), mass=2.0),
    ]
    sole = qddot.FrameSpec("sole", "foot", position=(0.1, 0.0, 0.0))
    for native in (True, False):
        robot = Robot(Robot.from_links("slider", links, frames=[sole]).model, native=native)
        scene = Scene(planes=[Plane()], spheres=[Sphere("foot", radius=0.05)])
        how = (
            {"contact": ComplementarityContact(scene)}
            if kind == "complementarity"
            else {"effects": [PenaltyContact(scene, 1e4, 100.0)], "record": True}
        )
        found = rollout(robot, [0.05], [0.0], dt=1e-3, steps=600, feedback=Feels("sole"), **how)
        place = 0 if kind == "complementarity" else 1
        felt = found.effect_states[place][-6:]
        weight = 2.0 * 9.81 + 30.0
        expected = [0.0, 0.0, weight, 0.0, 0.1 * weight, 0.0]
        np.testing.assert_allclose(felt, expected, rtol=1e-6, atol=1e-6)
        ledger = contact_ledger(found)
        assert ledger.normal_force[-1, 0] == pytest.approx(weight, rel=1e-6)


def test_arguments_that_do_not_fit(arm):
    start = (np.zeros(2), np.zeros(2))
    with pytest.raises(InvalidArgument, match="centre"):
        rollout(arm, *start, dt=DT, steps=2, feedback=Counting())
    for bad in (0, -1, 1.5, True, None):
        with pytest.raises(InvalidArgument, match="control_every"):
            rollout(
                arm, *start, dt=DT, steps=2, feedback=PD(1.0, 1.0), control_every=bad,
                q_ref=np.zeros(2), v_ref=np.zeros(2),
            )  # fmt: skip
