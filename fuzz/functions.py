"""Functions and laws of users that are odd: recorded, they run or are refused in words."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from fuzz.logs import arm
from qddot.control import compile_law
from qddot.errors import QddotError

__all__ = ["call_function"]

Values = list[Any]
ONE: tuple[Callable[[Any], Any], ...] = (
    np.sin, np.tan, np.exp, np.log, np.sqrt, np.abs, np.sign, np.floor, np.square, np.negative,
    np.isnan, np.isfinite, np.rint, np.cbrt, np.conj, np.real, np.sum, np.prod, np.mean, np.std,
    np.var, np.min, np.max, np.argmax, np.median, np.sort, np.cumsum, np.cumprod, np.diff, np.any,
    np.all, np.ravel, np.squeeze, np.transpose, np.flip, np.diag, np.trace, np.atleast_2d, np.copy,
    np.linalg.norm, np.linalg.inv, np.linalg.det, np.linalg.cholesky, np.linalg.eigvalsh,
    np.linalg.pinv, np.linalg.svd, np.unique, np.nan_to_num, np.nonzero, np.asarray, np.array,
    np.zeros_like, np.ones_like, np.empty_like, np.shape, np.size, np.triu, np.tril, np.fft.fft,
    lambda x: x[0], lambda x: x[-1], lambda x: x[::-1], lambda x: x[..., None], lambda x: x[:0],
    lambda x: x[x > 0], lambda x: x[[0, 0]], lambda x: x.T, lambda x: x.reshape(-1),
    lambda x: x.astype(int), lambda x: x.astype(np.float32), lambda x: x.tolist(),
    lambda x: x.copy(),
    lambda x: x.sum(axis=-1), lambda x: x.max(axis=0), lambda x: np.sum(x, keepdims=True),
    lambda x: list(x), lambda x: tuple(x), lambda x: {"a": x}, lambda x: str(x),
    lambda x: bool(x.all()),
    lambda x: float(x.sum()), lambda x: len(x), lambda x: x if x.sum() > 0 else -x,
    lambda x: np.einsum("i,i", x, x), lambda x: np.where(x > 0, x, 0),
    lambda x: np.clip(x, -1, None),
    lambda x: np.pad(x, 1), lambda x: np.roll(x, 1), lambda x: np.repeat(x, 2),
    lambda x: np.tile(x, 3),
    lambda x: np.full(3, x), lambda x: np.broadcast_to(x, (2, 2)), lambda x: np.histogram(x),
    lambda x: np.interp(x, [0, 1], [0, 1]), lambda x: np.polyval([1, 2], x), lambda x: x * 1j,
    lambda x: x.dot(x), lambda x: x.item(), lambda x: x.fill(0), lambda x: np.array([x[0], x[1]]),
    lambda x: np.random.default_rng(0).random(2) * x, lambda x: x**100, lambda x: 2**x,
    lambda x: ~(x > 0),
    lambda x: x // 2, lambda x: x % 0.3, lambda x: divmod(x, 2), lambda x: round(x[0]),
    lambda x: x << 1,
)  # fmt: skip
"""Functions of one value."""
TWO: tuple[Callable[[Any, Any], Any], ...] = (
    np.add, np.subtract, np.multiply, np.divide, np.matmul, np.dot, np.outer, np.cross, np.hypot,
    np.arctan2, np.maximum, np.minimum, np.power, np.fmod, np.copysign, np.greater, np.equal,
    np.logical_and, np.kron, np.inner, np.vdot, np.linalg.solve, np.append, np.allclose,
    np.array_equal, np.isin, np.searchsorted, np.convolve, np.tensordot,
    lambda a, b: np.concatenate([a, b]), lambda a, b: np.stack([a, b]),
    lambda a, b: np.hstack([a, b]),
    lambda a, b: np.where(a > b, a, b), lambda a, b: np.select([a > b], [a], b),
    lambda a, b: (a, b),
    lambda a, b: a @ b, lambda a, b: a[b], lambda a, b: a if a is b else b, lambda a, b: [a, b],
    lambda a, b: np.block([a, b]), lambda a, b: np.meshgrid(a, b), lambda a, b: max(a, b),
)  # fmt: skip
"""Functions of two values."""
CONSTANTS: tuple[Any, ...] = (
    0.0, 1, -1.5, np.nan, np.inf, 1e308, 1e-320, 10**30, True, None, "x", 1j, np.float32(0.1),
    np.zeros(2), np.eye(2), np.ones((2, 1)), np.zeros((0, 2)), np.arange(2), np.array(["a", "b"]),
    np.array([1, None], object), [1.0, 2.0], np.zeros((1,) * 20), {},
    np.ma.masked_array([1.0, 2.0]),
)  # fmt: skip


def _with_constant(f: Callable[[Any, Any], Any], constant: Any) -> Callable[[Any], Any]:
    return lambda x: f(x, constant)


def _program(rng: random.Random) -> Callable[..., Any]:
    """A function of robot, q and v: a few odd steps, each of values that were there before."""
    steps: list[tuple[Any, ...]] = []
    for k in range(rng.choice((1, 1, 2, 3, 5))):
        kind, a, b = rng.random(), rng.randrange(k + 2), rng.randrange(k + 2)
        if kind < 0.5:
            steps.append((rng.choice(ONE), a))
        elif kind < 0.8:
            steps.append((rng.choice(TWO), a, b))
        elif kind < 0.9:
            name = rng.choice(("gravity", "mass_matrix", "bias", "frame_pose", "difference"))
            steps.append((name, a, b))
        else:
            steps.append((_with_constant(rng.choice(TWO), rng.choice(CONSTANTS)), a))

    def program(robot: Any, q: Any, v: Any) -> Any:
        values: Values = [q, v]
        for f, *places in steps:
            given = [values[k] for k in places]
            if isinstance(f, str):
                takes = {"gravity": 1, "mass_matrix": 1, "frame_pose": 1}.get(f, 2)
                extra = ("tool",) if f == "frame_pose" else ()
                values.append(getattr(robot, f)(*given[:takes], *extra))
            else:
                values.append(f(*given))
        return values[-1]

    return program


def _law(rng: random.Random, program: Callable[..., Any]) -> Any:
    """A law whose command is a program, and whose other answers may be odd too."""
    odd = rng.random() < 0.3
    references = rng.choice(({}, {"q_ref": (2,)}, {"q": (-1,)}, {"x": "nv"}, None, [], {1: (2,)}))
    memory = rng.choice(({}, {"x": np.zeros(2)}, {"x": np.nan}, {"x": None}, None, {"x": "a"}))
    senses = rng.choice(((), ("tool",), ("none",), None, 7))
    after = rng.choice(("kept", "none", "torques", None))

    class Law:
        def references(self, robot: Any) -> Any:
            return references if odd else {}

        def senses(self, robot: Any) -> Any:
            return senses if odd else ()

        def memory(self, robot: Any) -> Any:
            return memory if odd else {}

        def command(self, robot: Any, state: Any, reference: Any, memory: Any) -> Any:
            tau = program(robot, state.q, state.v)
            answers = {"kept": memory, "none": {}, "torques": {"x": tau}, None: None}
            return tau, answers[after] if odd else memory

    return Law()


def call_function(rng: random.Random) -> None:
    """Record a function or a law of a user, and run it; errors of the library are right answers.

    What the text does on floats is the user's own: where it fails there, it may fail in any way.
    """
    robot, program = arm(), _program(rng)
    q, v = np.array([0.3, -0.4]), np.array([0.5, 0.6])
    kind = rng.random()
    try:
        on_floats = program(robot, q.copy(), v.copy())
    except Exception:
        return
    try:
        if kind < 0.6:
            made = robot.compile(program)
            made(q, v)
            made(np.stack([q] * 3), v)
        elif kind < 0.8:
            robot.rollout(q, v, dt=1e-3, steps=3, feedback=lambda time, q, v: on_floats)
        else:
            compile_law(robot, _law(rng, program))
    except QddotError as error:
        str(error).encode()
