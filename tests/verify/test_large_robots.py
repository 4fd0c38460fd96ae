"""Checks of robots with many joints: fewer states, and said so; batches in blocks."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from qddot.bench.subjects import chain
from qddot.cli import app
from qddot.robot import interpret
from qddot.robot.robot import Robot
from qddot.verify import default_states, invariants


@pytest.mark.parametrize(("nv", "states"), [(0, 100), (7, 100), (200, 100), (600, 11), (3000, 1)])
def test_states_of_a_check(nv, states):
    assert default_states(SimpleNamespace(nv=nv)) == states


def test_fewer_states_are_said(monkeypatch):
    monkeypatch.setitem(invariants.__globals__, "_MOST_NUMBERS", 120)
    said = CliRunner().invoke(app, ["check", "planar_2r"]).output
    assert "nv = 2: checked at 30 states instead of 100" in " ".join(said.split())
    assert "planar_2r, 30 states" in said
    # a number that is asked for is taken
    said = CliRunner().invoke(app, ["check", "planar_2r", "--states", "40"]).output
    assert "40 states" in said
    assert "instead of" not in said


@pytest.mark.parametrize("name", ["coriolis_matrix", "potential_energy", "torque_regressor"])
def test_batches_are_evaluated_in_blocks(monkeypatch, name):
    robot = Robot(chain(3).model, native=False)
    q, v, a = np.random.default_rng(0).normal(size=(3, 5, 4, 3))
    arrays = (q, v[:, :1], a[0])[: {"coriolis_matrix": 2, "potential_energy": 1}.get(name, 3)]
    whole, sizes = robot.call(name, *arrays), []
    fill = interpret._fill_array

    def record_size(target, leaves):
        sizes.append(len(target))
        fill(target, leaves)

    monkeypatch.setattr(interpret, "_fill_array", record_size)
    # room for about seven states
    numbers = whole[0, 0].size + interpret._SCALARS * 3 * len(arrays)
    monkeypatch.setattr(interpret, "_BLOCK_BYTES", 7 * 8 * numbers)
    np.testing.assert_array_equal(robot.call(name, *arrays), whole)
    assert sizes == [7, 7, 6]
