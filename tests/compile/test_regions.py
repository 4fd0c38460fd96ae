"""Regions of a tape: native code against the interpreted tape and against plain Python."""

from __future__ import annotations

import time

import numpy as np
import pytest
from native_cases import cold_cache  # noqa: F401

from qddot.compile.ir.scan import ScanShapes
from qddot.compile.ir.variables import find_variables
from qddot.compile.kernel import KernelSource, compile_kernel
from qddot.compile.runtime.progress import announce_long_work
from qddot.compile.trace.fuse import fuse_multiply_adds
from qddot.compile.trace.in_line import write_in_line
from qddot.compile.trace.tape import record
from qddot.spatial.regions import run_where, run_while
from qddot.spatial.scalar import less, sqrt, where

pytestmark = pytest.mark.native_core


def newton(x):
    """The root of x by Newton's method until it stops moving, with the number of steps."""

    def improve(state):
        going, y, count = state
        z, more = run_where(going, lambda s: [0.5 * (s[0] + x[0] / s[0]), s[1] + 1.0], [y, count])
        change = (z - y) * (z - y)
        return [where(less(change, 1e-20), 0.0, going), z, more]

    going, y, count = run_while(improve, [1.0, x[0] * 1.0, 0.0], 40)
    return [y, count, going]


def skipped(x):
    """A number without a value where its region is not run, and a region inside that reads it."""
    flag = where(less(0.0, x[0]), 1.0, 0.0)
    root, twice = run_where(flag, lambda _: [sqrt(x[0]), x[0] + x[0]], [None, None])
    total = run_where(flag, lambda s: [s[0] + root * twice, root], [x[1], 7.0])
    again = run_where(flag, lambda s: [s[0] * s[1] + s[0], s[0]], total)
    return [*again, total[0], where(less(0.5, flag), root, -1.0)]


def swaps(x):
    """Numbers that change places at each run, one that stays, and one that is a constant after."""

    def swap(state):
        going, count, a, b, c, _ = state
        return [going, count + 1.0, b, a, c, 3.0]

    state = run_while(swap, [1.0, 0.0, x[0], x[1], x[0] * 2.0, x[1] + 1.0], 5)
    return state[1:]


def nested(x):
    """Sums of squares by two loops, with values from outside that both use."""
    big, total = x[0] * x[1] + 1.0, x[0] * 0.0

    def outer(state):
        going, i, total = state

        def inner(state):
            on, j, s = state
            s, j = run_where(on, lambda t: [t[0] + big * j * i, t[1] + 1.0], [s, j])
            return [where(less(j, i), on, 0.0), j, s]

        first = where(less(0.5, i), going, 0.0)
        _, _, total = run_while(inner, [first, 0.0, total], 50)
        i = i + going
        return [where(less(i, x[1]), going, 0.0), i, total]

    _, i, total = run_while(outer, [1.0, 0.0, total], 50)
    return [i, total, total + big]


FUNCTIONS = [newton, skipped, swaps, nested]
ROWS = np.array([[2.0, 3.0], [-4.0, 5.0], [1e4, 1.0], [0.3, 7.0], [-1.0, 0.0], [9.0, 2.0]])


def expected(function, rows):
    return np.array([function([float(a), float(b)]) for a, b in rows])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_interpreted_tape_is_the_function(function):
    rows = np.abs(ROWS) if function is newton else ROWS
    tape = record(function, [2])
    assert tape.regions
    for some in (tape, fuse_multiply_adds(tape)):
        found = np.array([some.run([float(a), float(b)]) for a, b in rows])
        np.testing.assert_allclose(found, expected(function, rows), rtol=1e-14)
        # and with one entry a state
        with np.errstate(all="ignore"):
            at_once = some.run(list(rows.T))
        broad = np.stack([np.broadcast_to(x, len(rows)) for x in at_once], -1)
        np.testing.assert_allclose(broad, found, rtol=1e-14)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_native_code_is_the_tape(function, dtype):
    rows = np.abs(ROWS) if function is newton else ROWS
    want = expected(function, rows)
    source = KernelSource(
        function.__name__, "", lambda x: function(x), ((2,),), ((want.shape[1],),), "regions"
    )
    made = compile_kernel(source).gufunc

    def gufunc(x):
        # lanes that do not need a region may have roots of negative numbers in it
        with np.errstate(invalid="ignore"):
            return made(x)

    tight = {"rtol": 1e-14} if dtype == "float64" else {"rtol": 2e-6, "atol": 1e-6}
    # blocks of states that agree, that differ, and one state at a time
    for order in (np.arange(6), np.repeat(np.arange(6), 16), np.tile(np.arange(6), 9)):
        found = gufunc(rows[order].astype(dtype))
        compare = want[order]
        if function is newton and dtype == "float32":
            found, compare = found[:, :1], compare[:, :1]
        np.testing.assert_allclose(found, compare, **tight)
    for row, one in zip(rows.astype(dtype), want, strict=True):
        some = slice(0, 1) if function is newton and dtype == "float32" else slice(None)
        np.testing.assert_allclose(gufunc(row)[some], one[some], **tight)


def test_a_step_with_regions_repeats_in_time():
    def step(x, u, c):
        flag = where(less(x[0], c), 1.0, 0.0)
        a, b = run_where(flag, lambda s: [s[0] + s[1], s[1] * 1.5 + u[0]], x)
        return [a, b]

    shapes = ScanShapes(carry=((2,),), sampled=((1,),), constants=((),), path_places=(0,))
    source = KernelSource("growth", "", step, shapes.inputs, shapes.carry, "growth", shapes)
    x0, u = np.array([[0.0, 1.0], [5.0, -1.0], [0.0, 0.1]]), np.full((3, 2, 1), 0.01)
    path = np.empty((3, 3, 2))
    compile_kernel(source).gufunc(x0, u, 4.0, 3.0, out=(path,))
    tape, x = record(lambda x, u, c: step(x, u, c[0]), [2, 1, 1]), x0.T
    for _ in range(6):
        x = np.array(tape.run([*x, np.full(3, 0.01), np.full(3, 4.0)]))
    np.testing.assert_allclose(path[:, -1], x.T, rtol=1e-14)


def test_variables_share_their_places():
    """What is handed from region to region in a loop is never copied."""

    def chain(x):
        def body(state):
            going, y, z = state
            for k in range(5):
                y, z = run_where(x[k], lambda s: [s[0] * 0.5 + s[1], s[1] - s[0]], [y, z])
            return [where(less(y * y, 1e-3), 0.0, going), y, z]

        return run_while(body, [1.0, x[5] * 2.0, x[6] * 3.0], 10)

    tape = record(chain, [7])
    found = find_variables(tape)
    assert sum(map(len, found.copies.values())) == 0
    carries = [i for i, entry in enumerate(tape.code) if entry[0] == "carry"]
    # the flag begins with a constant; all others take over what is there
    assert [i for i in carries if i not in found.silent] == carries[:1]


def test_long_work_is_announced(capsys):
    with announce_long_work("counting", patience=0.01):
        time.sleep(0.2)
    with announce_long_work("nothing", patience=60.0):
        pass
    told = capsys.readouterr().err
    assert told.count("qddot: counting") == 2
    assert "nothing" not in told


def test_regions_that_run_once_can_be_written_in_line():
    """As in C, which has no regions: every number is computed, and the flag chooses."""
    tape = record(lambda x: skipped(x), [2])
    assert tape.regions
    flat = write_in_line(tape)
    assert not flat.regions
    for x in ([4.0, 1.0], [-4.0, 1.0]):
        np.testing.assert_array_equal(flat.run(x), tape.run(x))
    # parts that run again stay
    again = record(newton, [1])
    assert write_in_line(again) is again
