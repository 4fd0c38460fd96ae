"""Functions at and beyond the bounds of the compiler: evaluated in Python, or refused in words."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from native_cases import assert_close, cold_cache, robots  # noqa: F401

import qddot
from qddot.analysis import constraints
from qddot.bench.subjects import chain
from qddot.compile import kernel as kernel_module
from qddot.compile.ir import block_groups, lower, modules
from qddot.compile.kernel import KernelSource, compile_kernel
from qddot.compile.runtime import memory, native
from qddot.compile.runtime.cache import Cache
from qddot.compile.trace import tape as tape_module
from qddot.errors import CannotCompile, NotEnoughMemory, QddotError, TooLarge
from qddot.robot.interpret import InterpretedFunction
from qddot.robot.robot import Robot

pytestmark = pytest.mark.native_core
LINKS = 3


@pytest.fixture
def low_bound(monkeypatch, tmp_path):
    """A compiler that takes 120 operations, inputs and outputs, and 200 entries of a recording."""
    monkeypatch.setenv("QDDOT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernel_module, "_MOST_COMPILED", 120)
    monkeypatch.setattr(tape_module, "MOST_RECORDED", 200)
    monkeypatch.setattr(kernel_module, "_found_too_large", {})


def links(gravity: float = -7.0) -> tuple[Robot, Robot]:
    """A chain with native code, where it is small enough, and interpreted."""
    model = chain(LINKS).with_gravity((0.0, 0.0, gravity)).model
    return Robot(model, native=True), Robot(model, native=False)


def states(*batch: int, count: int = 3, dtype=np.float64) -> list[np.ndarray]:
    return list(np.random.default_rng(1).normal(size=(count, *batch, LINKS)).astype(dtype))


# too large: evaluated in Python


@pytest.mark.parametrize("name", ["coriolis_matrix", "inverse_dynamics_derivatives"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_function_that_is_too_large_is_evaluated_in_python(low_bound, capsys, name, dtype):
    robot, interpreted = links()
    arrays = states(5, count=2 if name.startswith("coriolis") else 3, dtype=dtype)
    with qddot.threads(2):
        found = robot.call(name, *arrays)
    expected = interpreted.call(name, *arrays)
    assert_close(found, expected, 0.0)
    out = robot.empty(name, (5,), dtype)
    robot.call(name, *arrays, out=out)
    assert_close(out, expected, 0.0)
    # said once, and by explain every time
    said = capsys.readouterr().err
    assert said.count(f"{name} is too large to compile") == 1
    assert "evaluated in Python" in said
    for _ in range(2):
        with pytest.raises(TooLarge, match=rf"{name}.*at least \d+ operations.*\d+ at most"):
            robot.explain(name)
    assert not capsys.readouterr().err


def test_recording_stops_at_the_bound(low_bound, monkeypatch):
    lengths = []
    append = tape_module.TapeRecorder._append

    def count(self, entry):
        lengths.append(len(self.code))
        return append(self, entry)

    monkeypatch.setattr(tape_module.TapeRecorder, "_append", count)
    with pytest.raises(TooLarge):
        links()[0].explain("inverse_dynamics_derivatives")
    assert max(lengths) == 200


def test_outputs_are_counted_before_anything_is_recorded(low_bound):
    def function(x):
        pytest.fail("recorded")

    source = KernelSource("many", "Many.", function, ((2,),), ((11, 11),), "many")
    with pytest.raises(TooLarge, match="many"):
        compile_kernel(source)


def test_another_process_need_not_record_again(low_bound, monkeypatch):
    with pytest.raises(TooLarge) as first:
        links()[0].explain("coriolis_matrix")
    # as in another process, with the same cache
    monkeypatch.setattr(kernel_module, "_found_too_large", {})
    monkeypatch.setattr(KernelSource, "record_tape", lambda self: pytest.fail("recorded"))
    with pytest.raises(TooLarge) as second:
        links()[0].explain("coriolis_matrix")
    assert str(first.value) == str(second.value)


def test_parameters_as_inputs_beyond_the_bound(low_bound):
    robot, interpreted = links()
    q, v, a = states(4)
    call = robot.compile("inverse_dynamics", parameters=("inertia", "gravity"))
    inertia, g = robot.inertial_parameters, np.array([0.3, 0.0, -5.0])
    expected = interpreted.with_gravity(g).inverse_dynamics(q, v, a)
    np.testing.assert_allclose(call(q, v, a, inertia, g), expected, rtol=1e-9)
    out = np.empty((4, LINKS))
    assert call(q, v, a, inertia, g, out=out) is out
    np.testing.assert_allclose(out, expected, rtol=1e-9)
    with pytest.raises(QddotError, match="input 3"):
        call(q, v, a, inertia[:2], g)
    kept = robot.compile("torque_regressor", zeros="kept")
    np.testing.assert_allclose(kept(q, v, a), interpreted.torque_regressor(q, v, a), rtol=1e-9)


@pytest.mark.parametrize("name", ["inverse_dynamics", "inverse_dynamics_derivatives"])
def test_what_is_evaluated_in_python_is_called_as_a_gufunc(low_bound, monkeypatch, name):
    robot, _ = links()
    interpreted = robot.compile(name, parameters="gravity")
    with monkeypatch.context() as patch:
        patch.setattr(kernel_module, "_MOST_COMPILED", 100_000)
        patch.setattr(tape_module, "MOST_RECORDED", 100_000)
        patch.setattr(kernel_module, "_found_too_large", {})
        patch.setattr(Cache, "read", lambda self, key: None)
        gufunc = robot.compile(name, parameters="gravity")
        gufunc(*states(1), np.zeros(3))
        gufunc(*states(1, dtype=np.float32), np.zeros(3, np.float32))
    assert type(interpreted) is InterpretedFunction
    assert type(gufunc) is np.ufunc
    for attribute in ("__name__", "nin", "nout", "signature"):
        assert getattr(interpreted, attribute) == getattr(gufunc, attribute)
    q, v, a = states(4, 2)
    for dtype, tolerance in ((np.float64, 1e-10), (np.float32, 1e-4)):
        # the batch axes of the arrays differ
        given = [x.astype(dtype) for x in (q, v[:1], a[0, 0], np.array([0.0, 1.0, -9.0]))]
        expected = gufunc(*given)
        found = interpreted(*given)
        assert_close(found, expected, tolerance)
        several = found if isinstance(found, tuple) else (found,)
        assert {x.dtype for x in several} == {np.dtype(dtype)}
        results = tuple(np.empty_like(x) for x in several)
        interpreted(*given, *results)
        assert_close(results if len(results) > 1 else results[0], found, 0.0)
    with pytest.raises(QddotError, match=r"dtype.*takes arrays and out="):
        interpreted(*given, dtype=np.float64)


def test_dask_arrays_beyond_the_bound(low_bound):
    dask = pytest.importorskip("dask.array")
    robot, interpreted = links()
    q, v = states(6, count=2)
    found = robot.coriolis_matrix(*(dask.from_array(x, chunks=(3, LINKS)) for x in (q, v)))
    np.testing.assert_array_equal(found.compute(), interpreted.coriolis_matrix(q, v))


def test_rollouts_beyond_the_bound(low_bound, capsys):
    robot, interpreted = links()
    q, v = states(2, count=2)
    found = robot.rollout(q, v, dt=1e-3, steps=3)
    assert not found.native
    assert "rollout_rk4 is too large to compile" in capsys.readouterr().err
    np.testing.assert_allclose(found.q, interpreted.rollout(q, v, dt=1e-3, steps=3).q, rtol=1e-12)


def test_inverse_kinematics_beyond_the_bound(low_bound, capsys):
    robot, interpreted = links(-4.0)
    frame = robot.frame_names[-1]
    pose = interpreted.frame_pose(states(3, count=1)[0], frame)
    found, expected = (r.inverse_kinematics(frame, pose) for r in (robot, interpreted))
    np.testing.assert_allclose(found.q, expected.q, rtol=1e-9)
    assert found.converged.all()
    said = capsys.readouterr().err
    assert said.count("inverse_kinematics is too large to compile") == 1


@pytest.mark.filterwarnings("ignore:constraints of 'four_bar' are redundant")
def test_constrained_dynamics_beyond_the_bound(low_bound, capsys):
    model = qddot.load("four_bar").model
    robot, interpreted = Robot(model, native=True), Robot(model, native=False)
    q = constraints.assemble(interpreted, interpreted.neutral())
    v, tau = np.full((2, robot.nv), 0.1)
    actuated = robot.joint_names[:1]
    results = []
    for each in (robot, interpreted):
        reduced = constraints.reduce(each, q, v)
        closed, along = constraints.project(each, q + 1e-3, v)
        torques = constraints.inverse_dynamics(each, q, 0 * v, 0 * v, actuated)
        a = constraints.reduced_forward_dynamics(each, q, v, tau)
        results.append((reduced.M, reduced.C, reduced.g, closed, along, torques.tau, a))
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    said = capsys.readouterr().err
    for name in ("reduced_dynamics", "constraint_projection"):
        assert said.count(f"{name} is too large to compile") == 1


def test_functions_of_the_user_beyond_the_bounds(low_bound):
    robot, _ = links()

    def small(robot, q):
        return robot.gravity(q)

    def large(robot, q):
        x = q
        for _ in range(25):
            x = np.sin(x) + 0.5
        return x

    (q,) = states(5, count=1)
    assert robot.compile(small).compiled
    with pytest.raises(TooLarge, match=r"test_bounds.*large"):
        robot.compile(lambda robot, q: large(robot, large(robot, q)))
    # recorded, but not compiled
    function = robot.compile(large)
    assert not function.compiled
    x = q.copy()
    for _ in range(25):
        x = np.sin(x) + 0.5
    np.testing.assert_allclose(function(q), x, rtol=1e-12)


# code in parts


@pytest.fixture
def short_modules(monkeypatch, tmp_path):
    """Modules of one piece each."""
    monkeypatch.setenv("QDDOT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(modules, "_PIECES", 1)


def test_code_of_several_modules(short_modules):
    """Compiled and from the cache, in both precisions."""
    model = chain(5).with_gravity((0.0, 1.0, -7.0)).model
    arrays = list(np.random.default_rng(0).normal(size=(3, 9, 5)))
    expected = Robot(model, native=False).inverse_dynamics_derivatives(*arrays)
    for cached in (False, True):
        robot = Robot(model, native=True)
        facts = robot.explain("inverse_dynamics_derivatives").facts
        assert len(facts["objects"]) == facts["pieces"] + 1 > 2
        assert facts["cached"] is cached
        assert_close(robot.inverse_dynamics_derivatives(*arrays), expected, 1e-12)
        single = [x.astype(np.float32) for x in arrays]
        assert_close(robot.inverse_dynamics_derivatives(*single), expected, 1e-4)


def test_an_interrupt_between_modules_leaves_nothing_behind(short_modules, monkeypatch):
    robot, emit, calls = links(-3.0)[0], native.emit_object_code, []

    def interrupt(ir, target):
        calls.append(len(re.findall(r"^define \w+ void @piece\d+", ir, re.MULTILINE)))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return emit(ir, target)

    with monkeypatch.context() as patch:
        patch.setattr(native, "emit_object_code", interrupt)
        with pytest.raises(KeyboardInterrupt):
            robot.inverse_dynamics_derivatives(*states())
    assert calls == [0, 1]
    cache = Cache()
    assert not cache.entries()
    assert not cache.partial_files()
    robot.inverse_dynamics_derivatives(*states())
    assert len(cache.entries()) == 1


def test_loops_over_many_pieces_are_divided_too(monkeypatch, tmp_path):
    """The module that calls the pieces is no larger for a function of very many."""
    monkeypatch.setenv("QDDOT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(modules, "_PIECES", 4)
    monkeypatch.setattr(modules, "_PARTS", 1)
    monkeypatch.setattr(block_groups, "_PIECES_A_PART", 3)
    texts, emit = [], native.emit_object_code

    def keep(ir, target):
        texts.append(ir)
        return emit(ir, target)

    monkeypatch.setattr(native, "emit_object_code", keep)
    model = chain(6).with_gravity((0.0, 1.5, -7.0)).model
    q, v, a = np.random.default_rng(0).normal(size=(3, 9, 6))
    expected = Robot(model, native=False).inverse_dynamics_derivatives(q, v, a)
    found = Robot(model, native=True).inverse_dynamics_derivatives(q, v, a)
    assert_close(found, expected, 1e-12)
    calls = [len(re.findall(r"call void @piece\d", text)) for text in texts]
    pieces = sum(len(re.findall(r"^define \w+ void @piece\d", text, re.M)) for text in texts)
    assert pieces > 6
    assert sum(calls) == 2 * pieces  # near and far batches
    assert max(calls) <= 3


def run_on_small_stack(function):
    """The result of a function in a thread with a stack of 256 KiB."""
    results, before = [], threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=lambda: results.append(function()))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    return results[0]


def test_code_is_made_and_run_on_a_small_stack(tmp_path):
    """In a process of its own, which an overflow of the stack would end.

    LLVM recurses through the loops over pieces, of which there are many.
    """
    code = f"""
import sys
sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}
from functools import partial
import numpy as np
from test_bounds import run_on_small_stack
from qddot.compile import kernel as kernel_module
from qddot.compile.kernel import KernelSource, compile_kernel

kernel_module.schedule_pieces = partial(kernel_module.schedule_pieces, piece=4)

def chained(x):
    for _ in range(24):
        x = [(a + 0.5) * b for a, b in zip(x, [*x[1:], x[0]])]
    return x

source = KernelSource("chained", "Chained.", chained, ((6,),), ((6,),), "a small stack")
kernel = run_on_small_stack(lambda: compile_kernel(source))
x = np.random.default_rng(0).uniform(-1, 1, size=(40, 6))
found = run_on_small_stack(lambda: kernel.gufunc(x))
assert np.allclose(found, [chained(list(row)) for row in x], rtol=1e-9, atol=1e-12)
print(kernel.facts["pieces"])
"""
    environment = {**os.environ, "QDDOT_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 64


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_large_workspaces_run_on_a_small_stack(dtype):
    """Frames of a group are on the stack while they are small, else on the heap."""

    def sums(n, x):
        parts = [x[k % 6] * (1.0 + k) for k in range(n)]
        total = x[0]
        for part in (*parts, *reversed(parts)):
            total = total * 0.5 + part
        return [total, *parts]

    x = np.random.default_rng(0).normal(size=(3000, 6)).astype(dtype)
    found = []
    for n in (60, 200, 900):
        source = KernelSource(
            "sums", "Sums.", partial(sums, n), ((6,),), ((n + 1,),), f"{n} on a small stack"
        )
        kernel = compile_kernel(source)
        found.append(kernel.facts["workspace"])
        result = run_on_small_stack(partial(kernel.gufunc, x))
        np.testing.assert_allclose(result[:9], [sums(n, row) for row in x[:9]], rtol=1e-3, atol=1)
    assert found[0] < 100 < 800 < found[2]


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals go to processes here")
def test_an_interrupt_is_seen_while_llvm_runs(monkeypatch, tmp_path):
    """The caller hears of it at once; what LLVM was doing ends by itself and leaves nothing."""
    monkeypatch.setenv("QDDOT_CACHE_DIR", str(tmp_path))
    begun, go_on, threads = threading.Event(), threading.Event(), []

    class SlowModule:
        def parse_assembly(self, ir):
            threads.append(threading.current_thread())
            begun.set()
            assert go_on.wait(60)
            raise RuntimeError("dropped")

    monkeypatch.setattr(native, "_llvm", lambda: SlowModule())
    main = threading.main_thread().ident

    def interrupt():
        assert begun.wait(60)
        signal.pthread_kill(main, signal.SIGINT)

    sender = threading.Thread(target=interrupt)
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            native.emit_object_code("", native.Target("", "", "", 16, fuses=False))
        assert threads[0].is_alive()
    finally:
        go_on.set()
        sender.join()
        threads[0].join()
    assert not Cache().entries()


# many outputs


def repeat(kind: str, n: int):
    """A function of two numbers with n outputs that few operations give."""
    return {
        "constants": lambda x: [1.5] * (n - 1) + [x[0]],
        "zeros": lambda x: [0.0] * (n - 1) + [x[0]],
        "one": lambda x: [x[1]] * n,
        "mixed": lambda x: [x[k % 2] if k % 3 else float(k % 50) for k in range(n)],
        "several": lambda x: [x[0] * 2.0 ** (k % 17 - 8) + x[1] for k in range(n)],
    }[kind]


KINDS = ["constants", "zeros", "one", "mixed", "several"]


@pytest.mark.parametrize("width", native.WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_functions_that_write_more_than_a_piece_may(monkeypatch, kind, width):
    monkeypatch.setenv("QDDOT_VECTOR_BYTES", str(width))
    monkeypatch.setattr(lower, "_MOST_WRITTEN", 20)
    n, function = 331, repeat(kind, 331)
    source = KernelSource("r", "R.", function, ((2,),), ((n,),), f"{kind} {n} by functions")
    x = np.random.default_rng(0).normal(size=(19, 2))
    np.testing.assert_array_equal(
        compile_kernel(source).gufunc(x), np.array([function(row) for row in x])
    )


@pytest.mark.parametrize("kind", KINDS)
def test_no_function_of_the_code_is_long(monkeypatch, kind):
    """LLVM's time grows with the square of the stores of a function."""
    texts = []

    def take(ir, target):
        texts.append(ir)
        raise KeyboardInterrupt

    monkeypatch.setattr(native, "emit_object_code", take)
    n = 20_000
    source = KernelSource("r", "R.", repeat(kind, n), ((2,),), ((n,),), f"{kind} {n} for its IR")
    with pytest.raises(KeyboardInterrupt):
        compile_kernel(source)
    assert max(text.count("\n  store") for text in texts[0].split("\ndefine ")) < 4000


# sources that make no kernel


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [((), ((2,),)), (((2,),), ()), (((0,),), ((2,),)), (((2,),), ((0,),)), (((2, 0),), ((1,),))],
)
def test_arrays_without_numbers_are_refused(inputs, outputs):
    def function(*arrays):
        return [1.0] * sum(int(np.prod(s)) for s in outputs)

    with pytest.raises(QddotError, match="inputs and outputs that have numbers"):
        compile_kernel(KernelSource("none", "None.", function, inputs, outputs, "none"))


def test_a_function_without_outputs_is_refused_in_words():
    with pytest.raises(QddotError, match=r"constraint_residual.*have numbers"):
        robots("planar_2r")[0].compile("constraint_residual")


@pytest.mark.parametrize("work", ["compiling", "loading"])
def test_no_memory_to_compile_or_load(monkeypatch, tmp_path, work):
    """LLVM ends the process where it finds no memory, so that the question comes first."""
    monkeypatch.setenv("QDDOT_CACHE_DIR", str(tmp_path))
    robot = links(-1.0)[0]
    if work == "loading":
        robot.explain("gravity")
    monkeypatch.setattr(memory, "available_memory", lambda: 2**20)
    with pytest.raises(NotEnoughMemory, match=f"{work} gravity needs 64 MiB"):
        Robot(robot.model, native=True).gravity(states(count=1)[0])


@pytest.mark.parametrize("stage", ["emit_object_code", "link"])
def test_what_llvm_refuses_is_an_error_of_ours(monkeypatch, tmp_path, stage):
    def fail(*given):
        raise RuntimeError("no way")

    monkeypatch.setenv("QDDOT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(native, stage, fail)
    with pytest.raises(CannotCompile, match="gravity cannot be compiled: no way"):
        links(-2.0)[0].gravity(states(count=1)[0])
