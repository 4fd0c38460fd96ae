"""Large results: moved in the order of memory, which earlier results are done with."""

import ctypes
import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from native_cases import cold_cache, robots  # noqa: F401

from qddot.compile.ir import stream
from qddot.compile.ir.types import vector_type
from qddot.compile.runtime import calls, native, recycle
from qddot.compile.runtime.recycle import drop_recycled, new_array, recycled_bytes
from qddot.errors import InvalidArgument
from qddot.robot.robot import Robot

ARM, _ = robots("ur5e")
MEGABYTE = 2**20


@pytest.fixture(autouse=True)
def _empty_pool(monkeypatch):
    gc.collect()
    drop_recycled()
    monkeypatch.setenv("QDDOT_RECYCLE_BYTES", str(200 * MEGABYTE))
    yield
    gc.collect()
    drop_recycled()


def states(n, dtype=float):
    rng = np.random.default_rng(0)
    return [rng.uniform(-2.0, 2.0, (n, ARM.nv)).astype(dtype) for _ in range(3)]


def test_memory_is_used_again_when_the_last_view_is_gone():
    first = new_array((300, 1000), np.float64)
    place, view = first.ctypes.data, first[10:20, ::2]
    del first
    assert recycled_bytes() == 0
    assert new_array((300, 1000), np.float64).ctypes.data != place
    del view
    assert new_array((300, 1000), np.float64).ctypes.data == place


def test_arrays_begin_with_a_line_of_the_cache_and_can_be_written():
    x = new_array((7, 40_000), np.float32)
    assert (x.ctypes.data % 64, x.dtype, x.shape) == (0, np.float32, (7, 40_000))
    assert x.flags.writeable
    assert x.flags.c_contiguous
    assert x.flags.aligned


def test_a_buffer_is_not_used_for_much_less_nor_for_more():
    place = new_array((4 * MEGABYTE,), np.uint8).ctypes.data
    assert new_array((2 * MEGABYTE,), np.uint8).ctypes.data != place
    assert new_array((3 * MEGABYTE,), np.uint8).ctypes.data == place


def test_what_waits_is_bounded(monkeypatch):
    monkeypatch.setenv("QDDOT_RECYCLE_BYTES", str(10 * MEGABYTE))
    arrays = [new_array((4 * MEGABYTE,), np.uint8) for _ in range(5)]
    arrays.append(new_array((11 * MEGABYTE,), np.uint8))
    del arrays
    assert 0 < recycled_bytes() <= 10 * MEGABYTE
    drop_recycled()
    assert recycled_bytes() == 0


@pytest.mark.parametrize("asked", ["-1", "1e9", "lots"])
def test_a_bound_that_is_no_number_is_refused(monkeypatch, asked):
    monkeypatch.setenv("QDDOT_RECYCLE_BYTES", asked)
    with pytest.raises(InvalidArgument, match="QDDOT_RECYCLE_BYTES"):
        new_array((2 * MEGABYTE,), np.uint8)


def test_nothing_is_recycled_where_that_is_turned_off(monkeypatch):
    monkeypatch.setenv("QDDOT_RECYCLE_BYTES", "0")
    assert new_array((2 * MEGABYTE,), np.uint8).flags.owndata
    assert recycled_bytes() == 0


def test_results_that_are_alive_never_change():
    q, v, a = states(600)
    expected = ARM.torque_regressor(q, v, a)
    assert not expected.flags.owndata
    kept, copies = [], []
    for k in range(40):
        Y = ARM.torque_regressor(q + k, v, a)
        if k % 3 == 0:
            kept.append(Y if k % 2 else Y[50:500])
            copies.append(kept[-1].copy())
    for mine, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(mine, copy)
    np.testing.assert_array_equal(ARM.torque_regressor(q, v, a), expected)


def test_threads_never_share_a_buffer():
    q, v, a = states(600)
    expected = [ARM.torque_regressor(q + k, v, a).copy() for k in range(4)]
    failures = []

    def work(k):
        for _ in range(30):
            if not np.array_equal(ARM.torque_regressor(q + k, v, a), expected[k]):
                failures.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_writes_to_memory_of_its_own():
    code = """
import os, numpy as np
from qddot.compile.runtime import calls, recycle
recycle._lock.acquire()
x = recycle.new_array((300_000,), float)
x[:] = 1.0
child = os.fork()
if not child:
    x[:] = 2.0
    y = recycle.new_array((300_000,), float)
    place = y.ctypes.data
    del y
    again = recycle.new_array((300_000,), float).ctypes.data == place
    os._exit(0 if again and (x == 2.0).all() else 1)
print(os.waitpid(child, 0)[1], (x == 1.0).all())
"""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True
    )
    assert run.stdout.split() == ["0", "True"], run.stderr


def test_a_release_while_the_pool_is_locked_waits_for_nobody():
    x = new_array((2 * MEGABYTE,), np.uint8)
    with recycle._lock:
        del x
        assert new_array((2 * MEGABYTE,), np.uint8).nbytes == 2 * MEGABYTE
    assert recycled_bytes() == 0


_COUNTING_LOOP = """
declare ptr @malloc(i64)
declare void @free(ptr)
declare i64 @llvm.umin.i64(i64, i64)
define internal void @loop(ptr %args, ptr %dims, ptr %steps, ptr %data) {
  %n = load i64, ptr %dims
  %calls = load i64, ptr %data
  %more = add i64 %calls, 1
  store i64 %more, ptr %data
  %place = getelementptr i64, ptr %data, i64 %more
  store i64 %n, ptr %place
  ret void
}
"""
"""A loop that computes nothing: to its data it writes how often it was called, and each batch."""


def test_results_that_fill_the_caches_are_computed_in_blocks():
    v, row = vector_type("float64", 16), 6 * 60 * 8
    ir = _COUNTING_LOOP + stream.stream_ir(v, [(6,)], [(6, 60)], "loop", "outer")
    library, addresses = native.link(
        [native.emit_object_code(ir, native.host())], "counted", ("outer",)
    )
    outer = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(addresses["outer"])

    def batches(megabytes):
        n = megabytes * MEGABYTE // row
        q, Y, found = np.zeros((n, 6)), np.zeros((n, 6, 60)), np.zeros(n + 1, np.intp)
        args = (ctypes.c_void_p * 2)(q.ctypes.data, Y.ctypes.data)
        dims = (ctypes.c_ssize_t * 4)(n, 6, 6, 60)
        steps = (ctypes.c_ssize_t * 5)(48, row, 8, *Y.strides[1:])
        outer(args, dims, steps, found.ctypes.data)
        assert found[1 : found[0] + 1].sum() == n
        return found[1 : found[0] + 1]

    # one after the other, results of 12 MB leave no room for the one before
    assert len(batches(4)) == 1
    for megabytes in (12, 24, 40):
        assert batches(megabytes).max() * row <= MEGABYTE // 4
    del library


def test_a_loop_of_results_takes_no_new_memory(monkeypatch):
    q, v, a = states(1000)
    kept = {}

    def step():
        # results of an earlier step live until these are there; of some there is a list
        kept["Y"] = ARM.torque_regressor(q, v, a)
        kept["D"] = ARM.inverse_dynamics_derivatives(*(np.tile(x, (4, 1)) for x in (q, v, a)))
        kept["all"] = [ARM.torque_regressor(q, v, a)[::2] for _ in range(3)]

    for _ in range(3):
        step()
    found, take = [], recycle._take_buffer
    monkeypatch.setattr(recycle, "_take_buffer", lambda size: found.append(take(size)) or found[-1])
    for _ in range(5):
        step()
        assert len(found) == 4 + len(kept["D"])
        assert all(x is not None for x in found)
        found.clear()


def test_of_buffers_that_fit_the_smallest_is_used():
    small, large = (new_array((n * MEGABYTE,), np.uint8) for n in (4, 5))
    places = [x.ctypes.data for x in (small, large)]
    del small, large
    assert [new_array((n * MEGABYTE,), np.uint8).ctypes.data for n in (4, 5)] == places


@pytest.mark.parametrize("bound", ["_AWAY_BYTES", "_FAR_BYTES"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_large_results_are_those_of_small_batches(dtype, bound):
    row = 6 * 60 * np.dtype(dtype).itemsize
    n = getattr(stream, bound) // row + 1001
    arrays = states(n, dtype)
    parts = [slice(k, k + 2000) for k in range(0, n, 2000)]
    expected = np.concatenate([ARM.torque_regressor(*(x[p] for x in arrays)) for p in parts])
    np.testing.assert_array_equal(ARM.torque_regressor(*arrays), expected)
    # rows that begin within a line, rows that do not follow each other, inputs that broadcast
    shifted = np.empty(expected.size + 5, dtype)[3:-2].reshape(expected.shape)
    assert ARM.torque_regressor(*arrays, out=shifted) is shifted
    np.testing.assert_array_equal(shifted, expected)
    wide = np.zeros((n, 6, 61), dtype)
    ARM.torque_regressor(*arrays, out=wide[..., :60])
    np.testing.assert_array_equal(wide[..., :60], expected)
    assert not wide[..., 60].any()
    still = np.zeros(6, dtype)
    np.testing.assert_array_equal(
        ARM.torque_regressor(arrays[0], still, still)[-100:],
        ARM.torque_regressor(arrays[0][-100:], still, still),
    )


def test_a_thousand_results_that_are_kept_never_change(monkeypatch):
    # small results are recycled too, so that a thousand of them cost little
    monkeypatch.setattr(recycle, "LARGE", 1 << 14)
    monkeypatch.setattr(calls, "LARGE", 1 << 14)
    robot = Robot(ARM.model, native=True)
    q, v, a = states(12)
    plain = ARM.compile("torque_regressor")
    kept: list[tuple[float, np.ndarray]] = []
    recycled = []

    def work(first):
        for k in range(first, 2000, 4):
            Y = robot.torque_regressor(q + 1e-3 * k, v, a)
            recycled.append(Y.base is not None)
            # every other result is dropped, of some only a view is kept
            if k % 8 < 4:
                kept.append((1e-3 * k, Y[3:9] if k % 3 else Y))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kept) == 1000
    assert all(recycled)
    for shift, Y in kept:
        expected = plain(q + shift, v, a)
        np.testing.assert_array_equal(Y, expected[3:9] if len(Y) == 6 else expected)


_GUARDED = """
import ctypes, mmap, os, sys
import numpy as np
import qddot
from qddot.compile.ir import stream
from qddot.compile.runtime import recycle
from qddot.robot.robot import Robot

libc, page, kept = ctypes.CDLL(None, use_errno=True), mmap.PAGESIZE, []
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
def guarded(size):
    "A buffer whose numbers, from its first line on, stand between forbidden pages."
    numbers = size - 64
    pages = -(-numbers // page)
    memory = mmap.mmap(-1, (pages + 2) * page)
    kept.append(memory)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for forbidden in (begin, begin + (pages + 1) * page):
        assert libc.mprotect(forbidden, page, 0) == 0
    at_end = begin + (pages + 1) * page - numbers
    start = at_end if len(kept) % 2 and at_end % 64 == 0 else begin + page
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(start))
recycle._take_buffer = guarded
arm = Robot(qddot.load("ur5e").model, native=True)
away, far = (x // (6 * 60 * 8) + 777 for x in (stream._AWAY_BYTES, stream._FAR_BYTES))
for n in (400, away, away + 1, far, far + 1, far + 16):
    q = np.random.default_rng(n).normal(size=(n, 6))
    expected = arm.torque_regressor(q[-50:], q[-50:], q[-50:])
    for _ in range(2):
        assert np.array_equal(arm.torque_regressor(q, q, q)[-50:], expected)
assert len(kept) == 12
child = os.fork()
if not child:
    ctypes.memset(recycle._take_buffer(8192 + 64).ctypes.data + 8192, 1, 1)
    os._exit(0)
print(os.WTERMSIG(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="guard pages are set by calls of Linux")
def test_results_are_written_within_their_memory(cold_cache):  # noqa: F811
    run = subprocess.run(
        [sys.executable, "-c", _GUARDED],
        capture_output=True,
        text=True,
        env={**os.environ, "QDDOT_RECYCLE_BYTES": str(200 * MEGABYTE)},
    )
    assert run.stdout.split() == ["11"], run.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_parent_and_child_share_no_result(cold_cache):  # noqa: F811
    code = """
import os, numpy as np, qddot
from qddot.compile.runtime.recycle import recycled_bytes
from qddot.robot.robot import Robot
arm = Robot(qddot.load("ur5e").model, native=True)
q = np.random.default_rng(0).normal(size=(600, 6))
mine, other = (arm.torque_regressor(x, q, q).copy() for x in (q, q + 1.0))
assert recycled_bytes()
child = os.fork()
Y = arm.torque_regressor(q if child else q + 1.0, q, q)
good = all(np.array_equal(Y, mine if child else other) for _ in range(50))
if not child:
    os._exit(0 if good else 1)
print(os.waitpid(child, 0)[1], good, np.array_equal(Y, mine))
"""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "QDDOT_RECYCLE_BYTES": str(200 * MEGABYTE)},
    )
    assert run.stdout.split() == ["0", "True", "True"], run.stderr
