"""Loops that find no memory: an error, in every way of calling them, and never numbers."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest
from bare_rollouts import rollout

import qddot
from qddot.bench.subjects import chain
from qddot.compile.ir import block_groups
from qddot.compile.runtime import native
from qddot.robot.robot import Robot

JOINTS = 4


def links(n: int) -> Robot:
    """A chain that no other test has: code that finds no memory stays in the process."""
    return Robot(chain(n).with_gravity((0.0, 0.0, -7.0)).model, native=True)


@pytest.fixture
def no_memory(monkeypatch, tmp_path):
    """Compiled code whose requests for memory fail."""
    real = native.emit_object_code

    def assemble(ir: str, target: native.Target) -> bytes:
        declared, failing = "declare ptr @malloc(i64)", "define internal ptr @malloc(i64 %n)"
        assert declared in ir
        return real(ir.replace(declared, failing + " { ret ptr null }"), target)

    monkeypatch.setenv("QDDOT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(native, "emit_object_code", assemble)


@pytest.fixture
def no_stack(monkeypatch):
    """Frames of compiled code that are too large for the stack."""
    monkeypatch.setattr(block_groups, "_STACK_BYTES", 0)


def test_frames_that_do_not_fit_the_stack(no_memory, no_stack):
    robot = links(JOINTS)
    q, v, a = np.zeros((3, 64, JOINTS))
    out = tuple(np.empty((64, JOINTS, JOINTS)) for _ in range(3))
    call = robot.forward_dynamics_derivatives
    with pytest.raises(MemoryError):
        call(q, v, a)
    with pytest.raises(MemoryError):
        call(q, v, a, out=out)
    many = np.zeros((10_000, JOINTS))
    with qddot.threads(2), pytest.raises(MemoryError):
        call(many, many, many)


def test_one_state_gives_back_the_results_it_had_made(no_memory, no_stack):
    robot = links(JOINTS)
    q, v, a = np.zeros((3, JOINTS))

    def fail(times: int) -> None:
        for _ in range(times):
            try:
                robot.forward_dynamics_derivatives(q, v, a)
            except MemoryError:
                continue
            pytest.fail("numbers without memory")

    fail(300)
    gc.collect()
    before = sys.getallocatedblocks()
    fail(300)
    gc.collect()
    assert sys.getallocatedblocks() < before + 100


def test_the_first_call_in_single_precision(no_memory, no_stack):
    robot = links(JOINTS)
    q, v, a = np.zeros((3, 64, JOINTS), np.float32)
    with pytest.warns(RuntimeWarning, match="MemoryError"):
        first = robot.forward_dynamics_derivatives(q, v, a)
    assert all(np.isnan(x).all() for x in first)
    with pytest.raises(MemoryError):
        robot.forward_dynamics_derivatives(q, v, a)


def test_results_with_strides(no_memory):
    robot = links(3)
    q, v = np.zeros((2, 8, 3))
    with pytest.raises(MemoryError):
        robot.mass_matrix(q, out=np.empty((8, 3, 6))[..., ::2])
    assert robot.mass_matrix(q).shape == (8, 3, 3)
    out = np.empty((2, 8, 3, 6))[..., ::2]
    with pytest.raises(MemoryError):
        rollout(robot, q, v, dt=1e-3, steps=2, out=tuple(out))
