"""Arguments of a rollout that mean nothing: each an error of ours that says what is accepted."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from bare_rollouts import rollout
from native_cases import cold_cache  # noqa: F401

import qddot
from qddot.control import PD
from qddot.errors import QddotError
from qddot.robot.robot import Robot
from qddot.simulate.contact import ComplementarityContact, RigidStops
from qddot.simulate.drivetrain import Noise

ROBOTS = [Robot(qddot.load("planar_2r").model, native=native) for native in (True, False)]
GIVEN = {"q0": [0.1, 0.2], "v0": [0, 0], "dt": 1e-3, "steps": 4}


class Odd:
    """An object that fails to become an array."""

    def __array__(self, *_, **__):
        raise RuntimeError("odd")


def pair(a: np.ndarray, b: np.ndarray) -> dict:
    return {"out": (a, b)}


ONE, LONG = np.zeros((5, 2)), np.zeros((9, 2))
DEEP = np.zeros((1,) * 63 + (2,))
HOSTILE = {
    "same array twice": (pair(ONE, ONE), "memory of their own"),
    "overlapping arrays": (pair(LONG[:5], LONG[4:]), "memory of their own"),
    "masked out": (pair(np.ma.zeros((5, 2)), np.zeros((5, 2))), "without a mask"),
    "complex state": ({"q0": [0.1 + 1j, 0.2]}, "array of real numbers"),
    "complex torque": ({"tau": np.zeros(2, complex)}, "array of real numbers"),
    "none in a state": ({"q0": [None, 0.1]}, "array of real numbers"),
    "none in torques": ({"tau": [[None, 1.0]]}, "array of real numbers"),
    "numbers as strings": ({"v0": ["0", "1"]}, "array of real numbers"),
    "dates": ({"v0": np.array([1, 2], "datetime64[s]")}, "array of real numbers"),
    "records": ({"v0": np.zeros(2, [("a", float)])}, "array of real numbers"),
    "fails as an array": ({"q0": Odd()}, "array of real numbers"),
    "64 axes": ({"q0": DEEP}, "at most 16 axes"),
    "64 axes of torques": ({"tau": DEEP}, "at most 16 axes"),
    "many steps": ({"steps": 10**30}, "whole number"),
    "steps as a float": ({"steps": 4.0}, "whole number"),
    "steps as a string": ({"steps": "4"}, "whole number"),
    "dt of truth": ({"dt": True}, "above zero"),
    "dt as a string": ({"dt": "1e-3"}, "above zero"),
    "list of integrators": ({"integrator": ["rk4"]}, "by its name"),
    "array for an integrator": ({"integrator": np.zeros(1, [("a", int)])}, "by its name"),
    "hold": ({"hold": ["zero"]}, "'zero' or 'linear'"),
    "effects as a string": ({"effects": "friction"}, "list of effects"),
    "class of an effect": ({"effects": [RigidStops]}, "PenaltyContact and the like"),
    "sensor as an effect": ({"effects": [Noise(0.1)]}, "sensors="),
    "class of a law": ({"feedback": PD}, r"control\.PD\(kp, kd\)"),
    "law as a number": ({"feedback": 3.0}, r"control\.PD\(kp, kd\)"),
    "law as a string": ({"feedback": "PD"}, r"control\.PD\(kp, kd\)"),
    "class of a contact": ({"contact": ComplementarityContact}, "it is a ComplementarityContact"),
    "list of parameters": ({"parameters": ["gravity"]}, "name: array"),
    "parameters as a string": ({"parameters": "gravity"}, "name: array"),
    "number of a parameter": ({"parameters": {1: [0, 0, 1]}}, "no parameter 1"),
    "complex parameter": ({"parameters": {"gravity": [1j, 0, 0]}}, "array of real numbers"),
    "record": ({"record": np.zeros(2)}, "True or False"),
    "progress": ({"on_step": "bar"}, "function of"),
}


@pytest.mark.parametrize("robot", ROBOTS, ids=["native", "interpreted"])
@pytest.mark.parametrize("case", HOSTILE)
def test_what_means_nothing_is_refused(case, robot):
    wrong, words = HOSTILE[case]
    given = {**GIVEN, **wrong}
    with warnings.catch_warnings():
        # nothing is dropped with a warning either
        warnings.simplefilter("error")
        with pytest.raises(QddotError, match=words):
            rollout(robot, given.pop("q0"), given.pop("v0"), **given)


@pytest.mark.parametrize("robot", ROBOTS, ids=["native", "interpreted"])
def test_what_means_something_is_taken(robot):
    expected = rollout(robot, **{**GIVEN, "q0": np.array([1.0, 2.0])}).q
    for q0 in ([1, 2], np.array([1, 2], object), np.array([1, 2], ">f8"), np.float32([1, 2])):
        np.testing.assert_allclose(rollout(robot, **{**GIVEN, "q0": q0}).q, expected, atol=1e-6)
    # arrays that interleave have no element in common
    both = np.zeros((5, 4))
    found = rollout(robot, **{**GIVEN, "q0": [1, 2]}, out=(both[:, ::2], both[:, 1::2]))
    np.testing.assert_array_equal(found.q, expected)
    sixteen = np.zeros((1,) * 16 + (2,))
    assert rollout(robot, **{**GIVEN, "q0": sixteen}).q.shape == (*(1,) * 16, 5, 2)
