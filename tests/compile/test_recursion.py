"""Functions, laws and regions without end, or nested too deeply: refused in words."""

from __future__ import annotations

import numpy as np
import pytest
from native_cases import cold_cache  # noqa: F401

import qddot
from qddot import control
from qddot.compile.kernel import KernelSource, compile_kernel
from qddot.errors import CannotTrace, TooDeep
from qddot.robot.robot import Robot
from qddot.spatial.regions import run_where, run_while
from qddot.spatial.scalar import less, where

pytestmark = pytest.mark.native_core
ENDLESS = "calls itself without end"


class Damping:
    def references(self, robot):
        return {}

    def senses(self, robot):
        return ()

    def memory(self, robot):
        return {}

    def command(self, robot, state, reference, memory):
        return -state.v, {}


class EndlessCommand(Damping):
    def command(self, robot, state, reference, memory):
        return self.command(robot, state, reference, memory)


class EndlessMemory(Damping):
    def memory(self, robot):
        return self.memory(robot)


def wrapped():
    law = Damping()
    for _ in range(2000):
        law = control.FrictionCompensation(law)
    return law


def inside_itself():
    law = control.FrictionCompensation(Damping())
    object.__setattr__(law, "law", law)
    return law


LAWS = [EndlessCommand, EndlessMemory, wrapped, inside_itself]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("native", [True, False])
def test_laws_without_end(law, native):
    robot = Robot(qddot.load("planar_2r").model, native=native)
    q = np.zeros(2)
    with pytest.raises((TooDeep, CannotTrace), match=ENDLESS):
        control.compile_law(robot, law())
    with pytest.raises((TooDeep, CannotTrace), match=ENDLESS):
        robot.rollout(q, q, dt=1e-3, steps=3, feedback=law())
    plant = control.RolloutPlant(robot, dt=1e-3)
    with pytest.raises(TooDeep, match=ENDLESS):
        control.run(plant, law(), duration=0.01)


def test_functions_of_the_user_without_end():
    robot = qddot.load("planar_2r")

    def endless(robot, q):
        return endless(robot, 2 * q)

    def conditions(robot, q):
        flag = q[0] < 1.0
        for k in range(3000):
            flag = flag & (q[1] < k)
        return np.where(flag, q, 0.0 * q)

    for function in (endless, conditions):
        with pytest.raises(CannotTrace, match=rf"test_recursion.*{ENDLESS}"):
            robot.compile(function)


def nest_where(depth, x):
    def body(state):
        return nest_where(depth - 1, state) if depth else [2.0 * state[0], state[1]]

    return run_where(where(less(-9.0, x[0]), 1.0, 0.0), body, x)


def nest_while(depth, x):
    def body(state):
        if depth:
            return nest_while(depth - 1, state)
        return [state[0], state[1] + where(less(0.5, state[0]), 1.0, 0.0)]

    return run_while(body, x, 2)


@pytest.mark.parametrize("nest", [nest_where, nest_while])
def test_regions_inside_regions(nest):
    def source(depth):
        name = f"{nest.__name__}_{depth}"
        return KernelSource(name, "N.", lambda x: nest(depth, x), ((2,),), ((2,),), name)

    kernel = compile_kernel(source(3))
    x = np.array([[1.0, 3.0], [0.25, 2.0]])
    expected = kernel.source.record_tape().run(list(x.T))
    np.testing.assert_allclose(kernel.gufunc(x).T, expected)
    with pytest.raises(TooDeep, match=f"{nest.__name__}_2000 {ENDLESS}"):
        compile_kernel(source(2000))
