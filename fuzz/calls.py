"""Hostile calls: robots whose methods are given arguments of wrong kinds, shapes and sizes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import qddot
from qddot.algorithms.catalogue import CATALOGUE
from qddot.errors import QddotError
from qddot.robot import Robot

__all__ = ["ROBOTS", "call_hostile"]

ROBOTS = ("double_pendulum", "planar_3r", "quadrotor", "four_bar", "ur5e")

_made: dict[tuple[str, bool], Robot] = {}


def _robot(rng: random.Random) -> Robot:
    native = rng.random() < 0.1
    # compiled functions of small robots, which are made in a moment
    name = rng.choice(ROBOTS[:2] if native else ROBOTS)
    if (name, native) not in _made:
        _made[name, native] = Robot(qddot.load(name).model, native=native)
    return _made[name, native]


def hostile_array(n: int, rng: random.Random) -> Any:
    """An argument for n coordinates: right, nearly right, or nothing of the kind."""
    good = np.array([rng.uniform(-1, 1) for _ in range(n)])
    makers: tuple[Callable[[], Any], ...] = (
        *(lambda: good, lambda: good, lambda: list(good), lambda: good.astype(np.float32)),
        lambda: good * rng.choice((np.nan, np.inf, -np.inf, 1e308, 1e-320, 0.0)),
        lambda: good.astype(complex) * (1 + 1j),
        lambda: good.astype(rng.choice((int, bool, np.float16, np.longdouble, np.uint8, object))),
        lambda: good.astype(str),
        lambda: [*good[:-1], rng.choice((None, "x", b"x", [], {}, 1j, 10**400, np.nan))],
        lambda: rng.choice((None, "", "x", b"", 0, 1.5, np.nan, True, {}, set(), [], (), object())),
        lambda: np.zeros((1,) * rng.choice((1, 31, 62, 63)) + (n,)),
        lambda: np.zeros((*rng.choice(((0,), (2, 0), (3,), (2, 3), (5, 1))), n)),
        lambda: np.zeros((n, n)), lambda: np.zeros(n + 1), lambda: np.zeros(max(n - 1, 0)),
        lambda: np.broadcast_to(good, (4, n)), lambda: np.zeros(2 * n)[::2], lambda: good[::-1],
        lambda: np.ma.masked_array(good, good > 0), lambda: np.asmatrix(good),
        lambda: np.zeros(n, dtype=[("a", "f8")]), lambda: np.array(["2020-01-01"] * n, "M8[D]"),
        lambda: [[0.0] * n, [0.0] * (n + 1)], lambda: iter(good), lambda: good.astype(">f8"),
        lambda: np.zeros(n).tobytes(), lambda: memoryview(good), lambda: np.float64(1.0),
    )  # fmt: skip
    return rng.choice(makers)()


def hostile_value(rng: random.Random) -> Any:
    """An argument that is not an array."""
    pool = (
        None, "", "x", "world", "tool0", "native", "float64", "\x9b", b"x", 0, -1, 1, 10**30, 0.1,
        float("nan"), float("inf"), -1.0, 1e308, 1j, True, [], (), {}, [1, 2], (0,), ["x"], [None],
        {"x": 1}, np.float32, np.zeros(3), np.eye(3), object(), lambda *a: a,
    )  # fmt: skip
    return rng.choice(pool)


def _call_catalogue(robot: Robot, rng: random.Random) -> None:
    row = CATALOGUE[rng.choice(list(CATALOGUE))]
    sizes = {"nq": robot.nq, "nv": robot.nv, "nb": robot.model.nb}
    arrays = [
        hostile_array(sizes.get(a.shape[-1], 3) if a.shape else 0, rng)
        for a in row.inputs
        if a.name != "f_ext"
    ]
    if rng.random() < 0.1:
        arrays.pop() if rng.random() < 0.5 else arrays.append(hostile_value(rng))
    options = {}
    for option in row.options:
        name = "f_ext" if option.name == "forces" else option.name
        if option.default is option.empty or rng.random() < 0.15:
            frame = rng.choice(robot.frame_names)
            good = {"frame": frame, "reference": "local", "friction": True, "f_ext": []}
            right = name in good and rng.random() < 0.6
            options[name] = good[name] if right else hostile_value(rng)
    if rng.random() < 0.15:
        options["out"] = rng.choice((hostile_value(rng), hostile_array(robot.nv, rng)))
    getattr(robot, row.name)(*arrays, **options)


def _call_edit(robot: Robot, rng: random.Random) -> None:
    value = hostile_value
    n = robot.model.nb
    calls: tuple[Callable[[], Any], ...] = (
        lambda: robot.with_payload(rng.choice((*robot.frame_names, value(rng))), value(rng)),
        lambda: robot.with_payload(robot.frame_names[-1], 1.0, value(rng), value(rng)),
        lambda: robot.with_gravity(rng.choice((value(rng), hostile_array(3, rng)))),
        lambda: robot.with_parameters(rng.choice((value(rng), hostile_array(10 * n, rng)))),
        lambda: robot.random(value(rng), value(rng)),
        lambda: robot.terms(hostile_array(robot.nq, rng), hostile_array(robot.nv, rng)),
        lambda: robot.empty(value(rng)), lambda: robot.empty("gravity", value(rng)),
        lambda: robot.empty("gravity", dtype=value(rng)),
        lambda: robot.explain(value(rng)), lambda: robot.compile(value(rng)),
        lambda: robot.compile("gravity", value(rng)),
        lambda: robot.call(value(rng), hostile_array(robot.nq, rng)),
        lambda: robot.without_joint(value(rng)), lambda: robot.casadi(value(rng)),
        lambda: robot.rollout(hostile_array(robot.nq, rng), hostile_array(robot.nv, rng),
                              steps=rng.choice((2, value(rng))), dt=rng.choice((1e-3, value(rng)))),
        lambda: qddot.load(value(rng)), lambda: qddot.load("planar_2r", value(rng)),
        lambda: qddot.load("planar_2r", couplings=value(rng)),
    )  # fmt: skip
    rng.choice(calls)()


def call_hostile(rng: random.Random) -> None:
    """One call with hostile arguments; errors of the library are its right answer."""
    robot = _robot(rng)
    try:
        with np.errstate(all="ignore"):
            (_call_catalogue if rng.random() < 0.75 else _call_edit)(robot, rng)
    except QddotError:
        pass
    except TypeError as error:
        # Python's own refusal of a call that does not fit the signature is as it should be
        if "positional argument" not in str(error) and "for argument" not in str(error):
            raise
