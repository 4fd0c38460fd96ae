"""Batches on several threads, callers on several threads, and constants of a robot as inputs."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from native_cases import assert_close, cold_cache, inputs_of, robots, same_bits  # noqa: F401

import qddot
from qddot.compile.runtime import threads as module
from qddot.compile.runtime.threads import SETTING, _split_axis, run_split, set_threads, threads
from qddot.robot.native import PARAMETERS
from qddot.robot.robot import Robot

MANY = 100_000


@pytest.fixture(autouse=True)
def one_thread_after():
    yield
    set_threads(1)


@pytest.fixture(autouse=True)
def splits(monkeypatch):
    """What was split: 4096 states of a planar arm are worth a thread here."""
    heard, real = [], module._split_axis
    cost = robots("planar_2r")[0].explain("bias").cost
    monkeypatch.setattr(module, "_WORTH_A_THREAD", 4096 * cost)
    monkeypatch.setattr(module, "_WORTH_A_SHARE", 512 * cost)
    monkeypatch.setattr(module, "_split_axis", lambda *given: heard.append(given) or real(*given))
    return heard


def states(n=MANY, seed=0):
    robot, _ = robots("planar_2r")
    rng = np.random.default_rng(seed)
    return robot, [rng.normal(size=(n, 2)) for _ in range(3)]


@pytest.mark.parametrize("n", [2, 3, 7])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, ">f4"])
def test_threads_give_the_same_bits(n, dtype, splits):
    robot, arrays = states()
    arrays = [x.astype(dtype) for x in arrays]
    expected = robot.inverse_dynamics(*arrays)
    with threads(n):
        assert SETTING.threads == n
        found = robot.inverse_dynamics(*arrays)
        several = robot.inverse_dynamics_derivatives(*arrays)
    assert SETTING.threads == 1
    assert [parts for _, parts, _ in splits] == [n, n]
    assert same_bits(found, expected)
    assert isinstance(several, tuple)
    for a, b in zip(several, robot.inverse_dynamics_derivatives(*arrays), strict=True):
        assert same_bits(a, b)


def test_threads_are_really_used(monkeypatch):
    robot, arrays = states()
    robot.bias(*arrays[:2])
    seen = []
    real = module.run_shares

    def spy(run, *rest):
        real(lambda part: seen.append(threading.current_thread().name) or run(part), *rest)

    monkeypatch.setattr(module, "run_shares", spy)
    with threads(2):
        robot.bias(*arrays[:2])
    assert {name.split("_")[0] for name in seen} == {"qddot", threading.current_thread().name}
    seen.clear()
    with threads(2):
        robot.bias(arrays[0][:100], arrays[1][:100])
    assert not seen


@given(st.integers(1, 10**6), st.integers(2, 64), st.integers(0, 5000))
def test_shares_cover_an_axis_once_and_get_smaller(length, parts, worth):
    shares = list(_split_axis(length, parts, worth))
    assert [x.start for x in shares] == [0, *(x.stop for x in shares[:-1])]
    assert shares[-1].stop == length
    sizes = [x.stop - x.start for x in shares]
    assert sizes == sorted(sizes, reverse=True)
    assert min(sizes[:-1], default=worth) >= worth
    whole = 32 if length > 128 * parts else 8
    if length > 8 * parts:
        # no vector is filled by half and no group of a large batch, of which none runs alone
        assert not any(size % whole for size in sizes[:-1])
        assert min(sizes[:-1], default=32) >= min(32, length // (4 * parts))
    if length >= parts * max(worth, 1) * 8:
        assert len(shares) >= parts
        assert sizes[-1] < max(worth, 32) + whole


def test_a_batch_is_split_where_its_work_is_worth_it():
    """Few states that take long, and not many that take next to nothing."""
    calls = []

    def loop(x, out):
        calls.append(len(x))
        out[0][...] = x

    few = [np.zeros((64, 1))]
    with threads(2):
        run_split(loop, few, [1], [(1,)], (np.empty((64, 1)),), 10)
        assert calls == [64]
        calls.clear()
        run_split(loop, few, [1], [(1,)], (np.empty((64, 1)),), 10**6)
    assert sum(calls) == 64
    assert len(calls) > 1


@pytest.mark.parametrize("here", [True, False])
def test_a_failure_stops_the_others(here):
    """What fails in one thread leaves the rest of the batch alone."""
    done = []

    def loop(x, out):
        done.append(len(x))
        if (threading.current_thread() is threading.main_thread()) is here:
            raise FloatingPointError("overflow")
        out[0][...] = x
        time.sleep(0.02)

    with threads(2), pytest.raises(FloatingPointError):
        run_split(loop, [np.zeros((MANY, 1))], [1], [(1,)], None, 100)
    assert sum(done) < MANY


def test_broadcasting_over_threads(splits):
    robot, (q, v, a) = states(60_000)
    shapes = [
        (q, v[0], a[:1]),
        (q.reshape(2, 30_000, 2), v[:30_000], a[0]),
        (q[:300, None], v[:200], a[0]),
        (q.reshape(20_000, 3, 2), v[:3], a[0]),
        (q[0], np.broadcast_to(v[0], (50_000, 2)), a[0]),
        (q[::2], v[::-2], a[:30_000]),
        (np.asfortranarray(q), v, a),
        (q[:0], v[:0], a[0]),
    ]
    for arrays in shapes:
        expected = robot.inverse_dynamics(*arrays)
        with threads(3):
            assert same_bits(robot.inverse_dynamics(*arrays), expected)
    assert len(splits) == len(shapes) - 1


def test_what_is_not_split_is_what_it_is_without_threads(splits):
    """A small batch of several outputs, and a state without a batch however long it takes."""
    robot, arrays = states(100)
    expected = robot.inverse_dynamics_derivatives(*arrays)
    start, still = np.ones(2), np.zeros(2)
    alone = robot.rollout(start, still, dt=1e-3, steps=20_000, without="passive")
    with threads(2):
        found = robot.inverse_dynamics_derivatives(*arrays)
        again = robot.rollout(start, still, dt=1e-3, steps=20_000, without="passive")
        one = robot.rollout(start[None], still[None], dt=1e-3, steps=20_000, without="passive")
    assert not splits
    assert all(same_bits(a, b) for a, b in zip(found, expected, strict=True))
    assert same_bits(again.q, alone.q)
    assert same_bits(one.q[0], alone.q)


def test_out_over_threads():
    robot, arrays = states()
    expected = robot.inverse_dynamics(*arrays)
    with threads(3):
        for out in (np.empty((MANY, 2)), np.empty((2, MANY)).T, np.empty((2 * MANY, 4))[::2, ::2]):
            out[...] = np.nan
            assert robot.inverse_dynamics(*arrays, out=out) is out
            np.testing.assert_array_equal(out, expected)
        out = tuple(np.empty((MANY, 2, 2)) for _ in range(3))
        found = robot.inverse_dynamics_derivatives(*arrays, out=out)
        assert all(a is b for a, b in zip(found, out, strict=True))
        wider = np.full((3, MANY, 2), np.nan)
        robot.inverse_dynamics(*arrays, out=wider)
        np.testing.assert_array_equal(wider, np.broadcast_to(expected, wider.shape))
    for a, b in zip(out, robot.inverse_dynamics_derivatives(*arrays), strict=True):
        assert same_bits(a, b)


def test_an_out_of_the_wrong_shape_is_refused_with_and_without_threads():
    robot, arrays = states(20_000)
    for n in (1, 3):
        with threads(n):
            for shape in ((20_001, 2), (19_999, 2), (20_000, 3), (2,)):
                with pytest.raises((ValueError, qddot.QddotError)):
                    robot.inverse_dynamics(*arrays, out=np.zeros(shape))


@pytest.mark.parametrize("n", [1, 4])
def test_an_out_that_overlaps_inputs(n, splits):
    """No thread may write what another one has yet to read."""
    robot, (q, dv, _) = states(40_000)
    expected, from_one = robot.integrate(q, dv), robot.integrate(q[0], dv)
    backwards = robot.integrate(q[::-1].copy(), dv)
    with threads(n):
        for _ in range(5):
            same = q.copy()
            robot.integrate(same, dv, out=same)
            assert same_bits(same, expected)
            first = q.copy()
            robot.integrate(first[0], dv, out=first)
            assert same_bits(first, from_one)
            last = q.copy()
            robot.integrate(last[::-1], dv, out=last)
            assert same_bits(last, backwards)
            store = np.zeros((40_001, 2))
            store[1:] = q
            robot.integrate(store[1:], dv, out=store[:-1])
            assert same_bits(store[:-1], expected)
    # only where an array is its own result may threads share it
    assert len(splits) == (5 if n > 1 else 0)


def test_error_state_holds_in_the_threads(splits):
    robot, arrays = states(20_000)
    arrays[0][12_345, 0] = np.inf
    robot.bias(arrays[0][:2], arrays[1][:2])
    for n in (1, 3):
        with threads(n):
            with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
                robot.bias(*arrays[:2])
            with np.errstate(all="ignore"):
                assert np.isnan(robot.bias(*arrays[:2])).any(axis=1).sum() == 1
    assert len(splits) == 2


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2", None])
def test_a_number_of_threads_that_cannot_be(wrong):
    with pytest.raises(qddot.QddotError, match="needs a whole number from 1"):
        set_threads(wrong)
    with pytest.raises(qddot.QddotError), threads(wrong):
        pass
    assert SETTING.threads == 1


def test_the_setting_comes_back_after_an_error():
    with pytest.raises(KeyError), threads(3):
        raise KeyError
    assert SETTING.threads == 1


def raced(work, n=8):
    """What n threads find that start together."""
    barrier = threading.Barrier(n)

    def start(k):
        barrier.wait()
        return work(k)

    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(start, range(n)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_first_call_by_many_threads_at_once(dtype):
    robot, _ = robots("planar_2r")
    payload = {np.float64: 0.123, np.float32: 0.321}[dtype]
    fresh = Robot(robot.with_payload(robot.frame_names[-1], payload).model, native=True)
    _, arrays = states(1000)
    arrays = [x.astype(dtype) for x in arrays]
    found = raced(lambda _: fresh.inverse_dynamics(*arrays))
    assert all(same_bits(x, found[0]) for x in found)
    definition = Robot(fresh.model, native=False)
    tolerance = 1e-4 if dtype is np.float32 else 1e-12
    assert_close(found[0], definition.inverse_dynamics(*arrays), tolerance)


@pytest.mark.parametrize("split", [1, 2])
def test_many_threads_on_one_robot(split, splits):
    robot, _ = robots("planar_2r")
    cases = [states(12_000, seed)[1] for seed in range(8)]
    expected = [robot.inverse_dynamics(*c) for c in cases]

    def work(k):
        with threads(split):
            for _ in range(20):
                if not same_bits(robot.inverse_dynamics(*cases[k]), expected[k]):
                    return False
                one = robot.inverse_dynamics(*(x[5] for x in cases[k]))
                if not same_bits(one, expected[k][5]):
                    return False
        return True

    assert all(raced(work))
    assert bool(splits) == (split > 1)


def test_a_block_holds_in_its_own_thread_only(splits):
    robot, arrays = states(20_000)
    inside, left = threading.Event(), threading.Event()
    found = {}

    def work():
        inside.wait(10)
        found["other"] = SETTING.threads
        robot.bias(*arrays[:2])
        found["splits"] = len(splits)
        with threads(3):
            left.set()
            found["own"] = SETTING.threads

    other = threading.Thread(target=work)
    other.start()
    with threads(2):
        inside.set()
        left.wait(10)
        assert SETTING.threads == 2
        robot.bias(*arrays[:2])
        other.join(10)
    assert found == {"other": 1, "splits": 0, "own": 3}
    assert [parts for _, parts, _ in splits] == [2]


def test_a_default_holds_in_every_thread_and_a_block_goes_before_it(splits):
    robot, arrays = states(20_000)
    set_threads(3)
    assert raced(lambda _: SETTING.threads, 2) == [3, 3]
    robot.bias(*arrays[:2])
    with threads(1):
        assert SETTING.threads == 1
        assert raced(lambda _: SETTING.threads, 2) == [3, 3]
        robot.bias(*arrays[:2])
    assert [parts for _, parts, _ in splits] == [3]
    with threads(2):
        set_threads(1)
        assert SETTING.threads == 2
    assert SETTING.threads == 1


def test_tasks_and_copied_contexts_have_their_own(splits):
    robot, arrays = states(20_000)

    async def task(n):
        with threads(n):
            await asyncio.sleep(0.01)
            robot.bias(*arrays[:2])
            return SETTING.threads

    async def both():
        return await asyncio.gather(task(2), task(1), task(4))

    assert asyncio.run(both()) == [2, 1, 4]
    assert sorted(parts for _, parts, _ in splits) == [2, 4]
    splits.clear()
    with threads(2):
        context = contextvars.copy_context()
    robot.bias(*arrays[:2])
    assert not splits
    context.run(robot.bias, *arrays[:2])
    assert [parts for _, parts, _ in splits] == [2]


FORKS = """
import os, sys, threading, time
import numpy as np
from qddot.compile.kernel import KernelSource, compile_kernel
from qddot.robot.robot import Robot
import qddot

robot = Robot(qddot.load("planar_2r").model, native=True)
end, made = False, 0

def source(key, size):
    def function(x):
        for _ in range(size):
            x = [a * b + 0.5 for a, b in zip(x, x[1:] + x[:1])]
        return x
    return KernelSource("test", "a test", function, ((8,),), ((8,),), key)

def compile_for_ever():
    global made
    while not end:
        compile_kernel(source(f"parent {made}", 40))
        robot.with_gravity((0.0, 0.0, -made)).health
        made += 1

threads = [threading.Thread(target=compile_for_ever)]
for thread in threads:
    thread.start()
codes = []
for k in range(int(sys.argv[1])):
    child = os.fork()
    if not child:
        try:
            kernel = compile_kernel(source(f"child {k}", 2))
            expected = (0.5**2 + 0.5) ** 2 + 0.5
            right = (kernel.gufunc(np.full(8, 0.5)) == expected).all()
            other = Robot(robot.with_gravity((0.0, 1.0, -0.1 * k)).model, native=True)
            right &= bool(np.isfinite(other.bias(np.ones(2), np.ones(2))).all())
            os._exit(0 if right else 3)
        finally:
            os._exit(4)
    until = time.monotonic() + 30
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > until:
            os.kill(child, 9)
            os.waitpid(child, 0)
            done = (child, -1)
            break
        time.sleep(0.002)
    codes.append(done[1])
    if done[1]:
        break
end = True
print(*set(codes), made > 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_while_others_compile(tmp_path):
    """A child must not wait for a lock whose holder only its parent has."""
    environment = {**os.environ, "QDDOT_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS, "8"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout.split() == ["0", "True"], done.stderr


# parameters


def perturbed(robot, n, seed=0):
    """Inertial parameters of n robots like this one."""
    rng = np.random.default_rng(seed)
    spread = rng.uniform(0.95, 1.05, size=(n, robot.model.nb, 10))
    return robot.inertial_parameters * spread


@pytest.mark.parametrize("name", ["short", "panda"])
def test_inertia_and_gravity_as_inputs(name):
    robot, definition = robots(name)
    n, rng = 6, np.random.default_rng(1)
    arrays, _ = inputs_of(robot, "bias", (n,))
    arrays.append(rng.normal(size=(n, robot.nv)))
    inertia, gravity = perturbed(robot, n), rng.normal(size=(n, 3))
    function = robot.compile("inverse_dynamics", parameters=["inertia", "gravity"])
    nq, nv, nb = robot.nq, robot.nv, robot.model.nb
    assert function.signature == f"({nq}),({nv}),({nv}),({nb},10),(3)->({nv})"
    found = function(*arrays, inertia, gravity)
    for k in range(n):
        other = definition.with_parameters(inertia[k]).model
        other = dataclasses.replace(other, gravity=type(other.gravity)(*gravity[k]))
        one = Robot(other, native=False).inverse_dynamics(*(x[k] for x in arrays))
        assert_close(found[k], one, 1e-12)
    # the robot's own constants give the robot, and one robot is broadcast over many states
    own = function(*arrays, robot.inertial_parameters, np.array(list(robot.model.gravity)))
    assert_close(own, robot.inverse_dynamics(*arrays), 1e-12)
    # in the other order
    turned = robot.compile("inverse_dynamics", parameters=["gravity", "inertia"])
    assert_close(turned(*arrays, gravity, inertia), found, 1e-13)


def drives(model, **columns):
    """A model whose drivetrains have other values."""
    bodies = tuple(
        dataclasses.replace(
            body,
            joint=dataclasses.replace(
                body.joint,
                drivetrain=dataclasses.replace(
                    body.joint.drivetrain, **{f: float(x[i]) for f, x in columns.items()}
                ),
            ),
        )
        for i, body in enumerate(model.bodies)
    )
    return Robot(dataclasses.replace(model, bodies=bodies), native=False)


def test_friction_as_input():
    robot, definition = robots("short")
    n, rng = 4, np.random.default_rng(2)
    arrays = [robot.random(rng, n), *rng.normal(size=(2, n, robot.nv))]
    values = rng.uniform(0.0, 1.0, size=(n, robot.model.nb, 3))
    function = robot.compile("inverse_dynamics", parameters=["friction"], friction=True)
    found = function(*arrays, values)
    for k in range(n):
        damping, friction, stiffness = values[k].T
        other = drives(definition.model, damping=damping, friction=friction, stiffness=stiffness)
        one = other.inverse_dynamics(*(x[k] for x in arrays), friction=True)
        assert_close(found[k], one, 1e-12)
    assert not np.allclose(found, robot.inverse_dynamics(*arrays))


@pytest.mark.parametrize("name", ["mass_matrix", "forward_dynamics"])
def test_armature_as_input(name):
    robot, definition = robots("short")
    n, rng = 4, np.random.default_rng(3)
    arrays = [robot.random(rng, n)]
    if name == "forward_dynamics":
        arrays += list(rng.normal(size=(2, n, robot.nv)))
    values = rng.uniform(0.1, 0.5, size=(n, robot.model.nb, 1))
    found = robot.compile(name, parameters=["armature"])(*arrays, values)
    for k in range(n):
        other = drives(definition.model, armature=values[k, :, 0])
        assert_close(found[k], other.call(name, *(x[k] for x in arrays)), 1e-12)


def test_unknown_parameters_are_named():
    robot, _ = robots("planar_2r")
    with pytest.raises(qddot.QddotError, match="no parameter 'inertias'; closest: 'inertia'"):
        robot.compile("gravity", parameters=["inertias"])
    with pytest.raises(qddot.QddotError, match="no parameter 'mass'"):
        robot.compile("gravity", parameters=["gravity", "mass"])
    known = {"inertia", "gravity", "friction", "directional_friction", "armature"}
    assert set(PARAMETERS) == known
