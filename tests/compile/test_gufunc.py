"""The border of native code: memory of any layout, batches of any length, nothing out of bounds."""

from __future__ import annotations

import dataclasses
import itertools
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from native_cases import (
    DETOURS,
    LAYOUTS,
    assert_close,
    batches,
    cold_cache,  # noqa: F401
    inputs_of,
    moved,
    mover,
    mover_inputs,
    results,
    robots,
    same_bits,
)

import qddot
from qddot.compile.ir import block_groups
from qddot.compile.ir.block import Array
from qddot.compile.ir.block_groups import Prefetch
from qddot.compile.ir.types import VectorType
from qddot.compile.kernel import KernelSource, compile_kernel
from qddot.compile.runtime import native
from qddot.errors import InvalidArgument

TYPES = (np.float64, np.float32)
TESTS = Path(__file__).parent


@pytest.fixture(
    params=[(w, d, f) for w in native.WIDTHS for d in (0, DETOURS) for f in (0, 1)], ids=str
)
def move(request, monkeypatch):
    """The mover in one piece and in several, for vectors of each width, near and far."""
    width, detours, far = request.param
    target = dataclasses.replace(native.host(), register_bytes=width)
    monkeypatch.setattr(native, "host", lambda: target)
    if far:
        monkeypatch.setattr(block_groups, "_NEAR_BYTES", 0)
    kernel = compile_kernel(mover("far" if far else "", detours))
    assert (kernel.facts["pieces"] > 1) == (detours > 0)
    # the loop of a dtype is made for the width of its first call
    kernel.gufunc(*mover_inputs(dtype=np.float32))
    assert kernel.facts["lanes"] == width // 8
    return kernel.gufunc


def test_a_far_batch_is_fetched_ahead_and_a_near_one_is_not():
    """The number of states that decides is what the caches hold."""
    arrays = [
        Array(k, (count,), 2 + k, VectorType("double", 4)) for k, count in enumerate((6, 300))
    ]
    ahead = Prefetch((arrays[0],), (arrays[1],), 4, 3)
    state = 8 * (6 + 300)
    assert f"  %large = icmp ugt i64 %n, {2**21 // state}" in ahead.detect_far_batch()
    fetched = [
        line for k in range(3) for line in ahead.prefetch_lines(k) if "@llvm.prefetch" in line
    ]
    # four rows of six numbers are three lines a block; rows that fill a cache are not fetched
    assert len(fetched) == 3
    # in the order of memory, over all blocks
    text = "\n".join(line for k in range(3) for line in ahead.prefetch_lines(k))
    offsets = re.findall(r"%line\S+ = getelementptr .* i64 (\d+)", text)
    assert [int(x) for x in offsets] == [0, 4 * 64, 8 * 64]


def exact(found, expected) -> None:
    for a, b in zip(results(found), results(expected), strict=True):
        assert np.asarray(a).dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.native_core
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17])
def test_rows_of_every_length(length):
    """Turned by vectors, by halves of them, or number by number, with nothing written beyond."""

    def function(x):
        return [2.0 * c for c in reversed(x)]

    source = KernelSource("rows", "Rows.", function, ((length,),), ((length,),), f"rows {length}")
    gufunc = compile_kernel(source).gufunc
    for dtype, n in itertools.product(TYPES, (1, 2, 7, 8, 33)):
        x = np.random.default_rng(n).normal(size=(n, length)).astype(dtype)
        store = np.full(x.size + 32, 7.0, dtype)
        found = gufunc(x, out=store[16:-16].reshape(x.shape))
        np.testing.assert_array_equal(found, 2 * x[:, ::-1])
        assert (np.delete(store, slice(16, -16)) == 7.0).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_batches_of_every_length(move, dtype):
    for batch in batches():
        arrays = mover_inputs(batch, dtype)
        exact(move(*arrays), moved(*arrays))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", TYPES)
def test_inputs_of_any_layout(move, dtype, layout):
    for batch in ((1,), (3,), (11,), (3, 5), (70,)):
        plain = mover_inputs(batch, dtype)
        arrays = [LAYOUTS[layout](x) for x in plain]
        before = [x.copy() for x in arrays]
        exact(move(*arrays), moved(*plain))
        for k in range(4):
            mixed = [arrays[j] if j == k else plain[j] for j in range(4)]
            exact(move(*mixed), moved(*plain))
        exact(tuple(arrays), tuple(before))


@pytest.mark.parametrize("layout", [x for x in LAYOUTS if x != "read-only"])
@pytest.mark.parametrize("dtype", TYPES)
def test_outputs_of_any_layout(move, dtype, layout):
    for batch in ((1,), (3,), (11,), (3, 5), (70,)):
        arrays = mover_inputs(batch, dtype)
        expected = moved(*arrays)
        out = tuple(LAYOUTS[layout](np.full(x.shape, np.nan, dtype)) for x in expected)
        found = move(*arrays, out=out)
        assert all(a is b for a, b in zip(found, out, strict=True))
        for a, b in zip(out, expected, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.native_core
def test_what_lies_between_strided_outputs_stays(move):
    arrays = mover_inputs((7,))
    expected = moved(*arrays)
    wide = [np.full((15, *(2 * n + 1 for n in x.shape[1:])), -7.0) for x in expected]
    views = tuple(w[tuple(slice(1, None, 2) for _ in w.shape)] for w in wide)
    move(*arrays, out=views)
    for w, view, x in zip(wide, views, expected, strict=True):
        np.testing.assert_array_equal(view, x)
        view[...] = -7.0
        assert (w == -7.0).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_arrays_for_out_begin_with_a_line_of_the_cache(dtype):
    robot, _ = robots("planar_2r")
    q = robot.random(0, (2, 3)).astype(dtype)
    M = robot.empty("mass_matrix", (2, 3), dtype)
    found = robot.mass_matrix(q, out=M)
    assert found is M
    exact(M, robot.mass_matrix(q))
    several = robot.empty("inverse_dynamics_derivatives", 5, dtype)
    assert [x.shape for x in several] == [(5, robot.nv, robot.nv)] * 3
    assert all(x.ctypes.data % 64 == 0 and x.flags.writeable for x in (M, *several))


def test_broadcasting(move):
    x, A, t, long = mover_inputs((3, 1)), mover_inputs((4,)), mover_inputs(()), mover_inputs((3, 4))
    arrays = (x[0], A[1], t[2], long[3])
    exact(move(*arrays), moved(*arrays))
    spread = [np.broadcast_to(a, (5, *a.shape)) for a in mover_inputs()]
    assert spread[0].strides[0] == 0
    exact(move(*spread), moved(*spread))
    # one number for a whole core: strides of zero inside
    inner = [np.broadcast_to(np.float64(k), (9, *s)) for k, s in enumerate(mover().inputs)]
    exact(move(*inner), moved(*inner))


def test_inputs_that_overlap_themselves(move):
    """Windows that slide by one number: rows whose strides look like those of dense cores."""
    row = np.arange(40.0)
    slide = np.lib.stride_tricks.as_strided
    windows = [
        slide(row[3:], (9, *s), (8,) * (1 + len(s)), writeable=False) for s in mover().inputs[:3]
    ]
    long = np.arange(9 * 37.0).reshape(9, 37)
    exact(move(*windows, long), moved(*(w.copy() for w in windows), long))


def test_outputs_that_overlap_inputs(move):
    plain = mover_inputs((11,))
    expected = moved(*plain)
    for shift in (0, 1, -1):
        store = np.zeros(13 * 5)
        inside = store[5:60].reshape(11, 5)
        inside[...] = plain[0]
        target = store[5 + 5 * shift : 60 + 5 * shift].reshape(11, 5)
        others = tuple(np.empty(x.shape) for x in expected[1:])
        move(inside, *plain[1:], out=(target, *others))
        np.testing.assert_array_equal(target, expected[0])
        exact(others, expected[1:])


def test_the_signature_and_errors_are_those_of_numpy(move):
    assert move.signature == "(5),(2,3),(),(37)->(5),(3,2),(2,3,4),(),(117)"
    assert move.types == ["dddd->ddddd", "ffff->fffff"]
    arrays = mover_inputs((2,))
    with pytest.raises(ValueError, match="core dimension"):
        move(arrays[0][:, :4], *arrays[1:])
    with pytest.raises(ValueError, match="does not have enough dimensions"):
        move(arrays[0], arrays[1][0, 0], *arrays[2:])
    with pytest.raises(ValueError, match="could not be broadcast"):
        move(*arrays[:3], mover_inputs((3,))[3])
    with pytest.raises(TypeError, match="could not be safely coerced"):
        move(arrays[0] * 1j, *arrays[1:])
    with pytest.raises(TypeError, match="positional arguments"):
        move(*arrays[:3])
    with pytest.raises(ValueError, match="read-only"):
        move(*arrays, out=(LAYOUTS["read-only"](np.empty((2, 5))), *[None] * 4))


# the functions of a robot


@pytest.mark.native_core
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ["inverse_dynamics", "mass_matrix", "difference", "frame_pose"])
def test_results_do_not_depend_on_where_a_state_stands(name, dtype):
    robot, _ = robots("everything")
    arrays, options = inputs_of(robot, name, (140,))
    arrays = [x.astype(dtype) for x in arrays]
    whole = robot.call(name, *arrays, **options)
    ranges = [(0, n) for n in range(21)] + [(n, 20) for n in range(20)]
    for start, stop in [*ranges, (3, 8), (1, 34), (5, 70), (7, 139), (0, 129)]:
        part = robot.call(name, *(x[start:stop] for x in arrays), **options)
        assert same_bits(part, whole[start:stop])
    for k in range(20):
        assert same_bits(robot.call(name, *(x[k] for x in arrays), **options), whole[k])
        odd = [LAYOUTS["strided"](x[k]) for x in arrays]
        assert same_bits(robot.call(name, *odd, **options), whole[k])
    folded = robot.call(name, *(x.reshape(4, 35, *x.shape[1:]) for x in arrays), **options)
    assert same_bits(folded.reshape(whole.shape), whole)


@pytest.mark.native_core
@pytest.mark.parametrize("spoiler", [np.nan, np.inf, -np.inf, 1e22])
@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics", "frame_pose"])
def test_a_bad_number_stays_in_its_row(name, spoiler):
    robot, definition = robots("everything")
    arrays, options = inputs_of(robot, name, (45,))
    whole = robot.call(name, *arrays, **options)
    for row in (0, 21, 44):
        spoiled = [x.copy() for x in arrays]
        # an angle: the only way from there is through sin and cos
        spoiled[0][row, 7] = spoiler
        with np.errstate(all="ignore"):
            found = robot.call(name, *spoiled, **options)
            expected = definition.call(name, *spoiled, **options)
        others = np.arange(45) != row
        assert same_bits(found[others], whole[others])
        if np.isfinite(spoiler):
            assert_close(found[row], expected[row], 1e-9)
        else:
            assert np.isnan(found[row]).any()
            assert (np.isnan(found[row]) <= np.isnan(expected[row])).all()


def test_the_sign_of_nan_is_nan():
    robot, definition = robots("everything")
    q, v = robot.random(0), np.full(robot.nv, np.nan)
    assert np.isnan(robot.friction(q, v)).tolist() == np.isnan(definition.friction(q, v)).tolist()


@pytest.mark.native_core
@pytest.mark.parametrize("name", ["integrate", "difference", "interpolate", "friction", "bias"])
def test_no_floating_point_warnings_at_rest(name):
    """Branches that are not taken raise no flags: zero steps, zero angles, zero velocities."""
    robot, definition = robots("everything")
    (q, *rest), options = inputs_of(robot, name, (3,))
    q[1:] = robot.neutral()
    rest = [q if x.shape == q.shape else np.zeros_like(x) for x in rest]
    with np.errstate(all="raise"):
        found = robot.call(name, q, *rest, **options)
    expected = definition.call(name, q, *rest, **options)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


GUARD = """
import ctypes, mmap, os, sys
import numpy as np
sys.path.insert(0, "../helpers")
from native_cases import DETOURS, mover, moved, mover_inputs, robots, inputs_of
from test_gufunc import exact
from qddot.compile.ir import block_groups, stream
from qddot.compile.runtime import native
from qddot.compile.kernel import compile_kernel
import dataclasses, itertools

libc, page, kept = ctypes.CDLL(None, use_errno=True), mmap.PAGESIZE, []
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

def guarded(shape, dtype, end):
    "An array whose end (or beginning) is next to a page that must not be touched."
    size = int(np.prod(shape, dtype=int)) * np.dtype(dtype).itemsize
    inner = -(-max(size, 1) // page) * page
    store = mmap.mmap(-1, inner + 2 * page)
    kept.append(store)
    start = ctypes.addressof(ctypes.c_char.from_buffer(store))
    for forbidden in (start, start + page + inner):
        assert libc.mprotect(forbidden, page, 0) == 0
    offset = page + inner - size if end else page
    count = int(np.prod(shape, dtype=int))
    if not count:
        return np.empty(shape, dtype)
    return np.frombuffer(store, dtype, count, offset).reshape(shape)

def like(x, end, style):
    "The numbers of an array in guarded memory, dense or every other one, the last at the border."
    pick = slice(1, None, 2) if end else slice(None, None, 2)
    if style == "dense":
        y = guarded(x.shape, x.dtype, end)
    elif style == "rows":
        y = guarded((2 * len(x), *x.shape[1:]), x.dtype, end)[pick]
    elif style == "backwards":
        y = guarded(x.shape, x.dtype, end)[::-1]
    else:
        wide = guarded((*x.shape[:-1], 2 * x.shape[-1]), x.dtype, end)
        y = wide[..., pick]
    y[...] = x
    return y

probe = guarded((3,), float, True)
if os.fork() == 0:
    ctypes.c_double.from_address(probe.ctypes.data + probe.nbytes).value
    os._exit(0)
assert os.WTERMSIG(os.wait()[1]) == 11, "the guard page does not guard"

def check(function, expected, arrays, end, style):
    given = [like(x, end, style) for x in arrays]
    out = tuple(like(np.zeros_like(x), end, style) for x in expected)
    exact(function(*given, out=out), expected)
    exact(function(*given), expected)
    kept.clear()

host = native.host()
bounds = {"copied": (0, 0, 2**62), "streamed": (0, 0, 0)}
ways = ("", "far", *bounds)
for width, detours, way in itertools.product((16, 32, 64), (0, DETOURS), ways):
    native.host = lambda: dataclasses.replace(host, register_bytes=width)
    block_groups._NEAR_BYTES = 0 if way == "far" else 2**21
    found = bounds.get(way, (100, 2**23, 2**25))
    stream._FEWEST_NUMBERS, stream._AWAY_BYTES, stream._FAR_BYTES = found
    move = compile_kernel(mover(way, detours)).gufunc
    for dtype in (np.float64, np.float32):
        for n in (*range(1, 10), 33):
            arrays = mover_inputs((n,), dtype)
            expected = tuple(map(np.ascontiguousarray, moved(*arrays)))
            for end in (True, False):
                for style in ("dense", "rows", "backwards", "inner"):
                    check(move, expected, arrays, end, style)
native.host = lambda: host
robot, _ = robots("delta")
for name in ("inverse_dynamics", "mass_matrix", "frame_pose"):
    for n in range(1, 10):
        arrays, options = inputs_of(robot, name, (n,))
        expected = robot.call(name, *arrays, **options)
        gufunc = robot.explain(name, **options).gufunc
        for end in (True, False):
            check(gufunc, (expected,), arrays, end, "dense")
        single = robot.explain(name, **options).call
        for end in (True, False):
            given = [like(x[0], end, "dense") for x in arrays]
            assert single(*given).tobytes() == expected[0].tobytes()
print("guarded")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="page protection through libc")
def test_nothing_is_read_or_written_out_of_bounds():
    run = subprocess.run(
        [sys.executable, "-c", GUARD], cwd=TESTS, capture_output=True, text=True, timeout=100
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.strip() == "guarded"


@pytest.mark.parametrize(
    "wrong",
    [{"batch": -1}, {"batch": 3.0}, {"batch": (2, True)}, {"dtype": int}, {"dtype": complex}],
)
def test_arrays_that_cannot_be_written_to_are_refused(wrong):
    with pytest.raises(InvalidArgument):
        qddot.load("planar_2r").empty("mass_matrix", **wrong)
