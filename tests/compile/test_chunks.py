"""Long native loops in chunks: bit by bit the results of one loop, and an interrupt is seen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from bare_rollouts import rollout
from native_cases import cold_cache  # noqa: F401

import qddot
from qddot.analysis.sizing import size
from qddot.compile.runtime import calls as guard
from qddot.compile.runtime import chunks, memory
from qddot.control import PD
from qddot.errors import NotEnoughMemory
from qddot.robot.robot import Robot
from qddot.simulate import arguments
from qddot.simulate.contact import RigidStops
from qddot.simulate.drivetrain import Latency, LuGre, coulomb

ARM = Robot(qddot.load("planar_2r").model, native=True)
Q = np.linspace(-0.5, 0.5, 2 * 60).reshape(60, 2)
TAU = np.sin(np.arange(61 * 2)).reshape(61, 2)
CASES = {
    "plain": {"tau": TAU[:60], "steps": 60},
    "sparse": {"tau": TAU[:4], "steps": 60, "every": 15},
    "one sample": {"tau": TAU[:1], "steps": 60, "every": 60},
    "linear": {"tau": TAU[:5], "steps": 60, "every": 15, "hold": "linear"},
    "memory": {"steps": 60, "every": 15, "effects": [LuGre(coulomb(0.2), 1e4, 1.0)]},
    "record": {"steps": 60, "every": 15, "effects": [RigidStops()], "integrator": "rk4"},
    "iterates": {"steps": 60, "every": 15, "integrator": "implicit_midpoint"},
    "sensors": {
        "steps": 60, "every": 15, "feedback": PD(1.0, 1.0), "sensors": [Latency(3)],
        "q_ref": np.zeros(2), "v_ref": np.zeros(2),
    },
}  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("case", CASES)
def test_chunks_of_a_rollout_are_the_whole(case, kind, threads, monkeypatch):
    for q in (Q[0].astype(kind), Q.astype(kind), Q.reshape(3, 20, 1, 2).astype(kind)):
        v = np.array([0.1, -0.2], kind)
        whole = rollout(ARM, q, v, dt=1e-3, **CASES[case])
        cost = whole.step.kernel().cost
        for steps in (7, 40):
            told = []
            with monkeypatch.context() as patch, qddot.threads(threads):
                # so many steps of all states, or of eight of them
                patch.setattr(chunks, "_FULL", 1)
                patch.setattr(chunks, "_FEWEST", 8)
                patch.setattr(chunks, "CHUNK", steps * cost * min(8, q.size // 2) // threads)
                parts = rollout(
                    ARM, q, v, dt=1e-3, on_step=lambda *x, told=told: told.append(x), **CASES[case]
                )
            assert len(told) > 1
            assert told[-1] == ("steps", 60 * (q.size // 2), 60 * (q.size // 2))
            assert [x[1] for x in told] == sorted(x[1] for x in told)
            for name in ("q", "v", "residuals"):
                np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
            for name in ("effect_states", "effect_history"):
                for a, b in zip(getattr(parts, name), getattr(whole, name), strict=True):
                    np.testing.assert_array_equal(a, b)


def test_a_start_that_is_written_over_is_read_first(monkeypatch):
    given = {"dt": 1e-3, "steps": 20}
    first = rollout(ARM, Q, np.zeros(2), **given)
    # the states of others, which earlier chunks write to
    q, v = first.q[::-1, 3], first.v[::-1, 3]
    expected = rollout(ARM, q.copy(), v.copy(), **given)
    monkeypatch.setattr(chunks, "_FEWEST", 8)
    monkeypatch.setattr(chunks, "CHUNK", 10 * 8 * expected.step.kernel().cost)
    found = rollout(ARM, q, v, **given, out=(first.q, first.v))
    np.testing.assert_array_equal(found.q, expected.q)
    np.testing.assert_array_equal(found.v, expected.v)


def test_nothing_to_do_is_no_chunk():
    told = []
    for q, steps in ((np.zeros((0, 2)), 10**9), (np.zeros((3, 0, 2)), 5), (np.zeros((2, 2)), 0)):
        found = rollout(
            ARM, q, [0, 0], dt=1e-3, steps=steps, every=max(1, steps),
            on_step=lambda *x: told.append(x),
        )  # fmt: skip
        assert found.q.shape == (*q.shape[:-1], 1 + bool(steps), 2)
    assert told == [("steps", 0, 0)] * 3


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["mass_matrix", "kinetic_energy", "coriolis_matrix"])
def test_chunks_of_a_batch_are_the_whole(name, threads, monkeypatch):
    q = Q.reshape(3, 20, 2)
    arrays = [q] if name == "mass_matrix" else [q, 2.0 * q[::-1, :1]]
    whole, calls = ARM.call(name, *arrays), []
    split = chunks.run_split
    monkeypatch.setattr(chunks, "CHUNK", 7 * 3 * ARM.explain(name).cost // threads)
    monkeypatch.setattr(chunks, "run_split", lambda *x: calls.append(1) or split(*x))
    with qddot.threads(threads):
        np.testing.assert_array_equal(ARM.call(name, *arrays), whole)
        assert len(calls) >= 3
        out = np.empty_like(whole)
        assert ARM.call(name, *arrays, out=out) is out
        np.testing.assert_array_equal(out, whole)


def test_a_method_hands_large_batches_on(monkeypatch):
    seen = []
    monkeypatch.setattr(guard, "run_batch", lambda *x: seen.append(1) or chunks.run_batch(*x))
    monkeypatch.setattr(guard, "CHUNK", 1000)
    robot = Robot(qddot.load("planar_3r").model, native=True)
    q, out = robot.random(0, 40_000), np.empty((40_000, 3, 3))
    whole = robot.mass_matrix(q)
    # compiled: the next calls go the short way, and come back from it
    again = robot.mass_matrix(q)
    assert len(seen) == 1
    assert robot.mass_matrix(q, out=out) is out
    assert len(seen) == 2
    np.testing.assert_array_equal(whole, out)
    np.testing.assert_array_equal(whole, again)


LONG = """
    import signal
    import numpy as np
    import qddot
    # a background job of a shell ignores interrupts, and so would its children
    signal.signal(signal.SIGINT, signal.default_int_handler)
    robot = qddot.load("planar_2r")
    short = robot.rollout([0.1, 0.2], [0, 0], dt=1e-4, steps=100, without="passive")
    robot.mass_matrix(robot.random(0, 3))
    print("ready", flush=True)
    try:
        {work}
    except KeyboardInterrupt:
        again = robot.rollout([0.1, 0.2], [0, 0], dt=1e-4, steps=100, without="passive")
        print("interrupted", np.array_equal(again.q, short.q), flush=True)
"""
WORK = {
    "one state": "robot.rollout([0.1, 0.2], [0, 0], dt=1e-5, steps=10**12, every=10**12)",
    "a batch": "robot.rollout(robot.random(0, 5000), [0, 0], dt=1e-5, steps=10**10, every=10**9)",
    "threads": "qddot.set_threads(2); "
    "robot.rollout(robot.random(0, 5000), [0, 0], dt=1e-5, steps=10**10, every=10**9)",
}


@pytest.mark.skipif(os.name == "nt", reason="signals of other processes are POSIX")
@pytest.mark.parametrize("work", WORK)
def test_an_interrupt_ends_a_long_rollout(work):
    code = textwrap.dedent(LONG).format(work=WORK[work])
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "QDDOT_NATIVE": "1"},
    )  # fmt: skip
    try:
        assert child.stdout.readline().strip() == "ready"
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        # without chunks it would be days
        assert child.communicate(timeout=60)[0].strip() == "interrupted True"
    finally:
        child.kill()


def test_a_rollout_that_does_not_fit_is_refused(monkeypatch):
    with pytest.raises(NotEnoughMemory, match=r"rollout of 1 × 1000000000000001 samples.*every="):
        ARM.rollout([0, 0], [0, 0], dt=1e-3, steps=10**15, without="passive")
    monkeypatch.setattr(memory, "available_memory", lambda: 2**20)
    monkeypatch.setattr(memory, "SMALL", 0)
    monkeypatch.setattr(arguments, "SMALL", 0)
    given = {"dt": 1e-3, "steps": 1000}
    with pytest.raises(NotEnoughMemory, match="60 × 1001 samples"):
        ARM.rollout(Q, [0, 0], **given, without="passive")
    # arrays that are there already need no memory, and fewer samples less
    out = np.empty((60, 1001, 2)), np.empty((60, 1001, 2))
    found = ARM.rollout(Q, [0, 0], **given, out=out, without="passive")
    assert found.q is out[0]
    assert ARM.rollout(Q, [0, 0], **given, every=10, without="passive").q.shape == (60, 101, 2)
    with pytest.raises(NotEnoughMemory, match="samples"):
        found.resume(steps=10**6)


def test_a_survey_that_does_not_fit_is_refused():
    with pytest.raises(NotEnoughMemory, match="fewer samples"):
        size(ARM, 1.0, samples=10**15)
