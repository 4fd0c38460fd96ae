"""The built-in function that goes around NumPy, and what must outlive what."""

from __future__ import annotations

import ctypes
import gc
import math
import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from native_cases import cold_cache, robots, same_bits  # noqa: F401

import qddot
from qddot.algorithms.catalogue import CATALOGUE
from qddot.compile.ir.fast_call import RAISED
from qddot.compile.runtime.fast_call import _numpy_addresses, make_fast_call
from qddot.compile.runtime.gufunc import Loops
from qddot.robot.native import kernel_of
from qddot.robot.robot import Robot

TESTS = Path(__file__).parent
MEMORY = Path("/proc/self/statm")
pytestmark = pytest.mark.skipif(
    _numpy_addresses() is None or os.environ.get("QDDOT_FAST_CALL") == "0",
    reason="the gufunc serves: this interpreter keeps its objects otherwise, or it was asked to",
)
into_arrays = pytest.mark.skipif(
    not RAISED, reason="calls with arrays for the results go to the gufunc on this system"
)
NAMES = ("inverse_dynamics", "mass_matrix", "inverse_dynamics_derivatives")


def rss() -> int:
    """Bytes of memory this process holds."""
    return int(MEMORY.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


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


# NumPy would give results the class of an argument; a robot makes a plain array of it before
OWN_CLASS = (TypeError, "arrays of a class of their own take the general way")


def is_subclass(x):
    return isinstance(x, np.ndarray) and type(x) is not np.ndarray


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
        if is_subclass(arguments[k]):
            assert ours == OWN_CLASS
            continue
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


def batch(robot: Robot, n: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [robot.random(rng, n), *rng.normal(size=(2, n, robot.nv))]


def new_results(kernel, *axes: int) -> list[np.ndarray]:
    return [np.full((*axes, *shape), 7.0) for shape in kernel.source.outputs]


@into_arrays
@pytest.mark.native_core
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("axes", [(), (1,), (2,), (3,), (4,), (5,), (37,), (200,)])
@pytest.mark.parametrize("name", NAMES)
def test_states_go_into_given_arrays(name, axes, dtype):
    robot, _ = robots("planar_2r")
    kernel = robot.explain(name)
    given = batch(robot, *axes) if axes else state(robot)
    given = [x.astype(dtype) for x in given[: kernel.gufunc.nin]]
    kernel.gufunc(*given)  # float32 code is made when it is first needed
    out, calls = [x.astype(dtype) for x in new_results(kernel, *axes)], []
    direct = spy(kernel, calls)
    # flags of an earlier computation are not this one's
    ctypes.CDLL(None).feraiseexcept(RAISED)
    found = direct(*given, *out)
    assert not calls  # nothing was handed on
    found = found if isinstance(found, tuple) else (found,)
    expected = kernel.gufunc(*given)
    for a, b, c in zip(found, out, expected if len(out) > 1 else [expected], strict=True):
        assert a is b
        assert same_bits(a, c)


def spy(kernel, calls: list):
    """The built-in function of a kernel, with a list of what it hands on for its gufunc."""
    # the address of the code is the second field of its definition
    definition = ctypes.c_void_p.from_address(id(kernel.call) + 16).value
    address = ctypes.c_void_p.from_address(definition + 8).value
    loops, _ = kernel.call.__self__.alive
    return make_fast_call(address, loops, lambda *x: calls.append(x), "spy", "")


ODD_BATCHES = {
    "1-D": lambda x: x[0],
    "3-D": lambda x: x[None],
    "one state for all": lambda x: x[:1],
    "too short": lambda x: x[:-1],
    "too long": lambda x: np.concatenate([x, x]),
    "reversed": lambda x: x[::-1],
    "columns": lambda x: np.asfortranarray(x),
    "every other": lambda x: np.repeat(x, 2, axis=0)[::2],
    **{key: ODD[key] for key in ("subclass", "masked", "None", "list", "float32", "complex")},
    "int64": lambda x: np.round(x).astype(np.int64),
    "swapped": lambda x: x.astype(">f8"),
    "unaligned": lambda x: np.frombuffer(b"\0" + x.tobytes(), float, offset=1).reshape(x.shape),
    "read-only": lambda x: np.frombuffer(x.tobytes(), float).reshape(x.shape),
}


@pytest.mark.parametrize("odd", ODD_BATCHES)
@pytest.mark.parametrize("axes", [(), (6,)])
@pytest.mark.parametrize("name", NAMES)
def test_other_arrays_for_results_go_the_way_of_the_gufunc(name, axes, odd):
    """Inputs and results of every kind, one at a time, give what the gufunc gives."""
    robot, _ = robots("planar_2r")
    kernel = robot.explain(name)
    n_in = kernel.gufunc.nin
    for k in range(n_in + kernel.gufunc.nout):
        found = []
        for function in (kernel.call, kernel.gufunc):
            given = batch(robot, *axes) if axes else state(robot)
            arguments = [*given[:n_in], *new_results(kernel, *axes)]
            arguments[k] = ODD_BATCHES[odd](arguments[k])
            result = outcome(function, arguments)
            failed = isinstance(result, tuple) and isinstance(result[0], type)
            found.append([result] if failed else [*arguments[n_in:]])
        ours, theirs = found
        if is_subclass(arguments[k]):
            assert ours == [OWN_CLASS]
            continue
        for a, b in zip(ours, theirs, strict=True):
            assert type(a) is type(b)
            if isinstance(a, np.ndarray):
                assert same_bits(np.asarray(a), np.asarray(b))
            else:
                assert a == b


@into_arrays
def test_float32_code_that_is_not_made_yet(cold_cache):  # noqa: F811
    robot, _ = robots("planar_2r")
    kernel = Robot(robot.model, native=True).explain("inverse_dynamics")
    given, out = [x.astype("f4") for x in batch(robot, 6)], np.zeros((6, 2), "f4")
    assert handed_on(kernel, (*given, out))
    assert kernel.call(*given, out) is out
    assert same_bits(out, kernel.gufunc(*given))
    assert not handed_on(kernel, (*given, out))


@into_arrays
def test_dtypes_are_not_mixed():
    robot, _ = robots("planar_2r")
    kernel = robot.explain("inverse_dynamics")
    wide, narrow = (
        [*(x.astype(t) for x in batch(robot, 6)), np.zeros((6, 2), t)] for t in ("f8", "f4")
    )
    kernel.gufunc(*narrow[:3])
    assert not handed_on(kernel, wide)
    assert not handed_on(kernel, narrow)
    for k in range(4):
        assert handed_on(kernel, [*wide[:k], narrow[k], *wide[k + 1 :]])
        assert handed_on(kernel, [*narrow[:k], wide[k], *narrow[k + 1 :]])


def handed_on(kernel, arguments) -> bool:
    """Whether the built-in function leaves a call to the gufunc."""
    calls = []
    spy(kernel, calls)(*arguments)
    return bool(calls)


@into_arrays
@pytest.mark.parametrize("shift", [-40, -39, -1, 0, 1, 39, 40])
@pytest.mark.parametrize("axes", [(), (20,)])
def test_results_that_share_memory_with_inputs(axes, shift):
    """As if inputs had been read first, wherever they lie."""
    robot, _ = robots("planar_2r")
    kernel = robot.explain("inverse_dynamics")
    q, v, a = batch(robot, *axes) if axes else state(robot)
    shift = shift if axes else int(np.sign(shift)) * (abs(shift) * 2 // 40)
    memory = np.zeros(120)
    x, out = (memory[k : k + q.size].reshape(q.shape) for k in (40, 40 + shift))
    x[:] = q
    expected = kernel.gufunc(q, v, a)
    assert kernel.call(x, v, a, out) is out
    assert same_bits(out, expected)
    assert handed_on(kernel, (x, v, a, out)) is (abs(shift) < q.size)


@into_arrays
@pytest.mark.native_core
@pytest.mark.parametrize("shift", [0, 1, 19, 20])
@pytest.mark.parametrize("axes", [(), (5,)])
def test_results_that_share_memory_with_each_other(axes, shift):
    robot, _ = robots("planar_2r")
    kernel = robot.explain("inverse_dynamics_derivatives")
    given = batch(robot, *axes) if axes else state(robot)
    shape = kernel.gufunc(*given)[0].shape
    size, shift = math.prod(shape), shift if axes else shift // 5
    memory, other = np.zeros(3 * size), np.zeros(shape)
    first, second = (memory[k : k + size].reshape(shape) for k in (0, shift))
    arguments = (*given, first, other, second)
    assert handed_on(kernel, arguments) is (shift < size)
    if shift < size:
        # NumPy would let one of the results be lost
        with pytest.raises(qddot.QddotError, match="each result needs its own memory"):
            kernel.call(*arguments)
        return
    found = []
    for function in (kernel.call, kernel.gufunc):
        function(*arguments)
        found.append([x.copy() for x in (memory, other)])
    assert all(same_bits(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.native_core
def test_numpy_still_says_what_went_wrong():
    """Flags of the processor are looked at, and what they say is as np.errstate wants it."""
    robot, _ = robots("planar_2r")
    q, v, a = batch(robot, 8)
    out = np.empty((8, 2))
    robot.inverse_dynamics(q, v, a, out=out)
    huge = np.full_like(v, 1e300)
    for call in (robot.inverse_dynamics, robot.explain("inverse_dynamics").gufunc):
        with pytest.warns(RuntimeWarning) as said:
            call(q, huge, a, out=out)
        assert any("overflow" in str(x.message) for x in said)
        with np.errstate(over="raise", invalid="raise"), pytest.raises(FloatingPointError):
            call(q, huge, a, out=out)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")
            call(q, huge, a, out=out)
            # flags of an earlier computation are not this one's
            np.float64(1e300) * np.float64(1e300)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            call(q, v, a, out=out)


@pytest.mark.native_core
@pytest.mark.parametrize("axes", [(), (6,)])
@pytest.mark.parametrize("why", ["invalid", "divide by zero", "overflow"])
def test_each_flag_is_told(why, axes):
    """By a function of which inertia is an input: infinite, zero, or that of a robot too fast."""
    robot, _ = robots("planar_2r")
    kernel = kernel_of(CATALOGUE["forward_dynamics"], robot.model, {}, ["inertia"])
    given = [np.ones((*axes, 2)) for _ in range(3)]
    given[1] *= 1e200 if why == "overflow" else 1.0
    scale = {"invalid": np.inf, "divide by zero": 0.0, "overflow": 1.0}[why]
    parameters = np.where(robot.inertial_parameters, robot.inertial_parameters, 1.0)
    inertia = np.broadcast_to(parameters * scale, (*axes, *parameters.shape)).copy()
    out = np.empty((*axes, 2))
    said = []
    for function in (kernel.call, kernel.gufunc):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            function(*given, inertia, out)
        said.append({str(x.message) for x in heard})
    assert said[0] == said[1]
    assert any(why in x for x in said[0])
    with np.errstate(all="ignore"):
        assert handed_on(kernel, (*given, inertia, out))


def test_other_threads_run_meanwhile():
    robot, _ = robots("planar_2r")
    given = batch(robot, 2_000_000)
    out, seen = np.empty((2_000_000, 2)), []
    robot.inverse_dynamics(*(x[:2] for x in given), out=out[:2])
    done = threading.Event()

    def count() -> None:
        while not done.wait(1e-4):
            seen.append(time.perf_counter())

    watcher = threading.Thread(target=count)
    watcher.start()
    start = time.perf_counter()
    robot.explain("inverse_dynamics").call(*given, out)
    end = time.perf_counter()
    done.set()
    watcher.join()
    # not only while the call begins or ends
    late, early = start + 0.25 * (end - start), end - 0.25 * (end - start)
    assert any(late < t < early for t in seen)


WRONG_OUT = {
    "inverse_dynamics": {
        "two": lambda x: (x, x.copy()),
        "none": lambda x: (),
        "list": lambda x: [x],
    },
    "inverse_dynamics_derivatives": {
        "stacked": lambda x: np.stack([x, x, x]),
        "one": lambda x: x,
        "first": lambda x: (x,),
        "two": lambda x: (x, x.copy()),
        "none": lambda x: (),
        "list": lambda x: [x, x.copy(), x.copy()],
    },
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("name", "what"), [(f, k) for f, some in WRONG_OUT.items() for k in some])
def test_a_wrong_number_of_results_is_refused(name, what, threads):
    robot, definition = robots("planar_2r")
    q, v, a = batch(robot, 6)
    shape = (6, *robot.explain(name).source.outputs[0])
    with qddot.threads(threads):
        for r in (robot, definition):
            getattr(r, name)(q, v, a)
            with pytest.raises(qddot.QddotError, match="out"):
                getattr(r, name)(q, v, a, out=WRONG_OUT[name][what](np.zeros(shape)))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_result_is_not_taken_for_a_missing_input(threads):
    robot, _ = robots("planar_2r")
    q, v, a = batch(robot, 6)
    with qddot.threads(threads), pytest.raises(qddot.QddotError, match="needs q, v, a"):
        robot.call("inverse_dynamics", q, v, out=a)


def test_one_array_in_a_tuple_is_a_result():
    robot, _ = robots("planar_2r")
    given, out = batch(robot, 6), np.zeros((6, 2))
    assert robot.inverse_dynamics(*given, out=(out,)) is out
    assert same_bits(out, robot.inverse_dynamics(*given))


def references(arrays: tuple) -> list[int]:
    """References to a tuple and its arrays; how many a call adds depends on the interpreter."""
    return [sys.getrefcount(arrays), *(sys.getrefcount(x) for x in arrays)]


def test_results_are_plain_arrays_that_own_their_memory():
    robot, _ = robots("planar_2r")
    single = Robot(robot.model, native=True)
    given = state(robot)
    single.inverse_dynamics_derivatives(*given)
    found = single.inverse_dynamics_derivatives(*given)
    expected = [x.copy() for x in found]
    assert type(found) is tuple
    assert references(found) == references(tuple(np.empty(2) for _ in found))
    for x in found:
        assert type(x) is np.ndarray
        assert x.flags.owndata
        assert x.flags.writeable
        assert x.flags.c_contiguous
        assert x.base is None
    assert len({x.ctypes.data for x in found}) == 3
    del single, given
    gc.collect()
    again = [robot.inverse_dynamics_derivatives(*state(robot, k)) for k in range(50)]
    assert all(same_bits(a, b) for a, b in zip(found, expected, strict=True))
    assert len(again) == 50


@pytest.mark.native_core
def test_references_of_inputs_and_types_stay():
    robot, _ = robots("planar_2r")
    given = state(robot)
    wrong = [given[0], given[1], np.zeros(3)]
    call = robot.explain("inverse_dynamics").call
    several = robot.explain("inverse_dynamics_derivatives").call
    many, out = batch(robot, 3), np.empty((3, 3, 2, 2))
    watched = [
        *given,
        *wrong,
        *many,
        out,
        np.dtype(float),
        np.ndarray,
        call,
        several,
        call.__self__,
    ]
    before = [sys.getrefcount(x) for x in watched]
    for _ in range(1000):
        call(*given)
        several(*given)
        several(*many, *out)
        several(*given, *out[0])
        outcome(several, (*many, *out[:2]))
        outcome(call, wrong)
        outcome(call, given[:2])
        call(given[0].tolist(), *given[1:])
    assert [sys.getrefcount(x) for x in watched] == before


@pytest.mark.skipif(not MEMORY.is_file(), reason="this system has no /proc")
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
import os, signal, sys
import numpy as np
sys.path.insert(0, "../helpers")
from native_cases import robots
from qddot.compile.runtime import threads as module
from qddot.compile.runtime.threads import threads

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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_calls_after_fork():
    run = subprocess.run(
        [sys.executable, "-c", FORK], cwd=TESTS, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.strip() == "forked"
