"""One state, one call: the built-in function that goes around NumPy, and what must outlive what."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from native_cases import cold_cache, robots, same_bits  # noqa: F401

from qddot.compile.gufunc import Loops
from qddot.robot import Robot

TESTS = Path(__file__).parent
NAMES = ("inverse_dynamics", "mass_matrix", "inverse_dynamics_derivatives")


def rss() -> int:
    """Bytes of memory this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def state(robot: Robot, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [robot.random(rng), *rng.normal(size=(2, robot.nv))]


def outcome(function, arguments):
    """What a call gives, or how it fails."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error), str(error)


class Sub(np.ndarray):
    pass


class Number:
    """Something NumPy can make an array of."""

    def __array__(self, dtype=None, copy=None):
        return np.array([0.1, 0.2])


ODD = {
    "subclass": lambda x: x.view(Sub),
    "masked": lambda x: np.ma.array(x),
    "None": lambda x: None,
    "str": lambda x: "abc",
    "bytes": lambda x: b"\x00" * 64,
    "int": lambda x: 3,
    "float": lambda x: 0.5,
    "dict": lambda x: {},
    "type": lambda x: np.ndarray,
    "list": lambda x: x.tolist(),
    "tuple": lambda x: tuple(x),
    "convertible": lambda x: Number(),
    "2-D": lambda x: np.stack([x] * 3),
    "2-D of one row": lambda x: x[None],
    "0-D": lambda x: np.array(0.5),
    "empty": lambda x: x[:0],
    "too short": lambda x: x[:-1],
    "too long": lambda x: np.append(x, 0.0),
    "empty batch": lambda x: np.empty((0, len(x))),
    "float32": lambda x: x.astype(np.float32),
    "float16": lambda x: x.astype(np.float16),
    "int64": lambda x: x.astype(np.int64),
    "uint8": lambda x: np.abs(x).astype(np.uint8),
    "complex": lambda x: x.astype(complex),
    "object": lambda x: x.astype(object),
    "datetime": lambda x: x.astype("M8[s]"),
    "swapped": lambda x: x.astype(">f8"),
    "strided": lambda x: np.repeat(x, 2)[::2],
    "reversed": lambda x: x[::-1],
    "unaligned": lambda x: np.frombuffer(b"\x00" + x.tobytes(), np.float64, len(x), offset=1),
    "read-only": lambda x: np.frombuffer(x.tobytes(), np.float64),
    "with metadata": lambda x: x.astype(np.dtype(float, metadata={"unit": "rad"})),
    "record": lambda x: np.zeros(len(x), [("x", float)]),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", NAMES)
def test_other_arguments_go_the_way_of_the_gufunc(name, odd):
    robot, _ = robots("planar_2r")
    kernel = robot.explain(name)
    assert kernel.call is not kernel.gufunc
    given = state(robot)[: kernel.gufunc.nin]
    for k in range(kernel.gufunc.nin):
        arguments = [ODD[odd](x) if j == k else x for j, x in enumerate(given)]
        ours, theirs = outcome(kernel.call, arguments), outcome(kernel.gufunc, arguments)
        assert type(ours) is type(theirs)
        if isinstance(theirs, tuple) and isinstance(theirs[0], type):
            assert ours == theirs
            continue
        pairs = zip(ours, theirs, strict=True) if isinstance(theirs, tuple) else [(ours, theirs)]
        for a, b in pairs:
            assert type(a) is type(b)
            assert same_bits(a, b)


@pytest.mark.parametrize("name", NAMES)
def test_too_few_and_too_many_arguments(name):
    robot, _ = robots("planar_2r")
    kernel = robot.explain(name)
    given = state(robot)[: kernel.gufunc.nin]
    for arguments in ([], given[:-1], [*given, "x"], [*given, *given, *given]):
        with pytest.raises(TypeError):
            kernel.call(*arguments)
    # the gufunc takes outputs by place, and so does the built-in function
    if kernel.gufunc.nout == 1:
        out = np.empty_like(kernel.gufunc(*given))
        assert kernel.call(*given, out) is out
        assert same_bits(out, kernel.gufunc(*given))
    with pytest.raises(TypeError, match="keyword"):
        kernel.call(*given, out=None)


def test_results_are_plain_arrays_that_own_their_memory():
    robot, _ = robots("planar_2r")
    single = Robot(robot.model, native=True)
    given = state(robot)
    single.inverse_dynamics_derivatives(*given)
    found = single.inverse_dynamics_derivatives(*given)
    expected = [x.copy() for x in found]
    assert type(found) is tuple
    assert sys.getrefcount(found) == 2
    for x in found:
        assert type(x) is np.ndarray
        assert x.flags.owndata
        assert x.flags.writeable
        assert x.flags.c_contiguous
        assert x.base is None
        assert sys.getrefcount(x) == 3
    assert len({x.ctypes.data for x in found}) == 3
    del single, given
    gc.collect()
    again = [robot.inverse_dynamics_derivatives(*state(robot, k)) for k in range(50)]
    assert all(same_bits(a, b) for a, b in zip(found, expected, strict=True))
    assert len(again) == 50


def test_references_of_inputs_and_types_stay():
    robot, _ = robots("planar_2r")
    given = state(robot)
    wrong = [given[0], given[1], np.zeros(3)]
    call = robot.explain("inverse_dynamics").call
    several = robot.explain("inverse_dynamics_derivatives").call
    watched = [*given, *wrong, np.dtype(float), np.ndarray, call, several, call.__self__]
    before = [sys.getrefcount(x) for x in watched]
    for _ in range(1000):
        call(*given)
        several(*given)
        outcome(call, wrong)
        outcome(call, given[:2])
        call(given[0].tolist(), *given[1:])
    assert [sys.getrefcount(x) for x in watched] == before


def test_a_million_calls_hold_no_memory():
    robot, _ = robots("planar_2r")
    given = state(robot)
    call = robot.explain("inverse_dynamics").call
    several = robot.explain("inverse_dynamics_derivatives").call
    for _ in range(10_000):
        call(*given)
        several(*given)
    before = rss()
    for _ in range(500_000):
        call(*given)
        several(*given)
    assert rss() - before < 4 * 2**20


def living_loops() -> list[Loops]:
    gc.collect()
    return [x for x in gc.get_objects() if type(x) is Loops]


def test_robots_that_are_dropped_leave_nothing_behind():
    robot, _ = robots("planar_2r")
    given = state(robot)
    expected = robot.inverse_dynamics(*given)
    before = living_loops()
    for _ in range(30):
        other = Robot(robot.model, native=True)
        for _ in range(2):
            assert same_bits(other.inverse_dynamics(*given), expected)
        other.inverse_dynamics(*(x.astype(np.float32) for x in given))
    del other
    # those from before are held here, so only what this test made can differ
    known = {id(x) for x in before}
    assert not [x for x in living_loops() if id(x) not in known]


def test_functions_outlive_their_robot():
    robot, _ = robots("planar_2r")
    given = state(robot)
    expected = robot.inverse_dynamics(*given)
    for pick in (
        lambda r: r.compile("inverse_dynamics"),
        lambda r: r.explain("inverse_dynamics").gufunc,
        lambda r: r.explain("inverse_dynamics").call,
        lambda r: r.inverse_dynamics,
    ):
        function = pick(Robot(robot.model, native=True))
        gc.collect()
        for k in range(20):
            # other code may come to lie where freed code lay
            Robot(robot.model, native=True).gravity(given[0] + k)
        gc.collect()
        for _ in range(2):
            assert same_bits(function(*given), expected)
        short = function(*(x.astype(np.float32) for x in given))
        np.testing.assert_allclose(short, expected, rtol=1e-5)


def test_pickle_round_trip():
    robot, definition = robots("planar_2r")
    given = state(robot)
    for original in (robot, definition):
        copy = pickle.loads(pickle.dumps(original))
        assert copy.native is original.native
        assert copy.model.digest == original.model.digest
        for _ in range(2):
            assert same_bits(copy.bias(*given[:2]), original.bias(*given[:2]))


FORK = """
import os, signal
import numpy as np
from native_cases import robots
from qddot.compile import threads as module
from qddot.compile.threads import threads

robot, _ = robots("planar_2r")
module._WORTH_A_THREAD = 4096 * robot.explain("inverse_dynamics").cost
rng = np.random.default_rng(0)
q, v, a = (rng.normal(size=(20_000, 2)) for _ in range(3))
with threads(2):
    expected = robot.inverse_dynamics(q, v, a)
one = robot.inverse_dynamics(q[0], v[0], a[0])

def right():
    with threads(2):
        split = robot.inverse_dynamics(q, v, a)
    fresh = type(robot)(robot.model, native=True)
    return (
        split.tobytes() == expected.tobytes()
        and robot.inverse_dynamics(q[0], v[0], a[0]).tobytes() == one.tobytes()
        and fresh.inverse_dynamics(q, v, a).tobytes() == expected.tobytes()
        and np.isfinite(fresh.bias(q.astype("f4"), v.astype("f4"))).all()
    )

children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # a child that hangs must not stay behind
        os._exit(0 if right() else 1)
    children.append(child)
assert right()
assert [os.waitpid(c, 0)[1] for c in children] == [0] * 4
print("forked")
"""


@pytest.mark.skipif(not hasattr(sys, "getrefcount") or sys.platform == "win32", reason="no fork")
def test_calls_after_fork():
    run = subprocess.run(
        [sys.executable, "-c", FORK], cwd=TESTS, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.strip() == "forked"
