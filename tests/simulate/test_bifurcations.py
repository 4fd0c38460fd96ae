"""Rollouts of closed chains through configurations where their motion branches."""

from __future__ import annotations

import math

import numpy as np
import pytest

from qddot.analysis import constraints as cs
from qddot.robot.robot import Robot

RK4 = {"dt": 1e-3, "integrator": "rk4", "without": "passive"}


def bar(name, parent, x):
    """A uniform rod of 1 m and 1 kg along x, on a hinge about y at x on its parent."""
    return {
        "name": name, "parent": parent, "joint": "continuous", "axis": (0, 1, 0), "mass": 1.0,
        "position": (x, 0, 0), "com": (0.5, 0, 0), "inertia": (1e-6, 1 / 12, 1 / 12),
    }  # fmt: skip


def four_bars(n):
    """IFToMM benchmark A02: n four-bars in a row, of rods of 1 m and 1 kg: a parallelogram each."""
    links = [{"name": "base", "parent": None, "joint": "fixed"}]
    links += [bar(f"crank{k}", "base", float(k)) for k in range(n + 1)]
    links += [bar(f"coupler{k}", f"crank{k}", 1.0) for k in range(n)]
    robot = Robot.from_links(
        "four_bars",
        links,
        frames=[{"name": f"end_{link['name']}", "link": link["name"], "position": (1, 0, 0)}
                for link in links[1:]],
        loops=[{"name": f"pin{k}", "kind": "spherical", "frame1": f"end_coupler{k}",
                "frame2": f"end_crank{k + 1}", "rows": ("x", "z")} for k in range(n)],
    )  # fmt: skip
    return Robot(robot.model, native=True)


def turning(robot, angle, speed):
    """States of parallelograms whose cranks turn."""
    signs = np.array([1.0 if name.startswith("crank") else -1.0 for name in robot.joint_names])
    return np.multiply.outer(angle, signs), np.multiply.outer(speed, signs)


def slider_crank():
    """A crank and a rod of 1 m, and a slider that passes the crank's hinge."""
    robot = Robot.from_links(
        "slider_crank",
        [
            {"name": "base", "parent": None, "joint": "fixed"},
            bar("crank", "base", 0.0),
            bar("rod", "crank", 1.0),
            {"name": "slider", "parent": "base", "joint": "prismatic", "axis": (1, 0, 0),
             "mass": 0.8},
        ],
        frames=[{"name": "end", "link": "rod", "position": (1, 0, 0)},
                {"name": "pin", "link": "slider"}],
        loops=[{"name": "pin", "kind": "spherical", "frame1": "end", "frame2": "pin",
                "rows": ("x", "z")}],
    )  # fmt: skip
    return Robot(robot.model, native=True)


def check_motion(robot, found, drift):
    """Energy and closure hold, whatever the mechanism passes."""
    assert found.status.ok, found.status
    E = robot.kinetic_energy(found.q, found.v) + robot.potential_energy(found.q)
    assert np.abs(E - E[..., :1]).max() <= drift
    assert np.abs(robot.constraint_residual(found.q)).max() <= 1e-12


def count_passes(distance):
    """How often a distance from a singular configuration changes its sign."""
    return int((distance[..., 1:] * distance[..., :-1] < 0.0).sum())


@pytest.mark.parametrize("n", [1, 2, 5])
def test_four_bars_in_a_row_pass_where_all_bars_are_in_line(n):
    """The benchmark starts upright at 1 m/s, and asks for an energy error of less than 0.1 J."""
    robot = four_bars(n)
    q, v = turning(robot, -math.pi / 2, 1.0)
    found = robot.rollout(q, v, steps=10_000, **RK4)
    check_motion(robot, found, 1e-5)
    assert count_passes(np.sin(found.q[:, 0])) >= 10
    # parallelograms stay parallelograms
    signs = q / q[0]
    np.testing.assert_allclose(found.q * signs, np.outer(found.q[:, 0], q * 0 + 1), atol=1e-9)


def test_parallelograms_of_a_batch_pass_at_any_speed():
    robot = four_bars(1)
    rng = np.random.default_rng(3)
    q, v = turning(robot, rng.uniform(-3.0, -0.1, 24), rng.uniform(1.0, 8.0, 24))
    found = robot.rollout(q, v, steps=2000, **RK4)
    check_motion(robot, found, 1e-6)
    assert count_passes(np.sin(found.q[..., 0])) > 50
    np.testing.assert_allclose(found.q[..., 1], -found.q[..., 0], atol=1e-9)
    # the text that is compiled gives the same
    text = Robot(robot.model, native=False).rollout(q[0], v[0], steps=50, **RK4)
    np.testing.assert_allclose(text.q, found.q[0, :51], atol=1e-9)


def test_a_slider_crank_of_equal_bars_passes_its_hinge():
    """x = 2 cos θ all the way, not the rod folded on the crank: v says which branch."""
    robot, rng = slider_crank(), np.random.default_rng(3)
    theta, speed = rng.uniform(0.2, 1.2, 16), rng.uniform(6.0, 12.0, 16)
    q = np.stack([-theta, 2 * theta, 2 * np.cos(theta)], axis=-1)
    v = np.stack([-speed, 2 * speed, -2 * np.sin(theta) * speed], axis=-1)
    found = robot.rollout(q, v, steps=2000, **RK4)
    check_motion(robot, found, 1e-5)
    assert count_passes(found.q[..., 2]) > 50
    np.testing.assert_allclose(found.q[..., 2], 2 * np.cos(found.q[..., 0]), atol=1e-9)


@pytest.mark.parametrize("speed", [0.3, 1.0, 3.0, 10.0])
def test_a_start_in_line_goes_on_as_its_velocity_says(speed):
    robot = four_bars(1)
    assert cs.analyse(robot, np.zeros(3)).rank == 1
    for v in ([1.0, -1.0, 1.0], [1.0, -2.0, 0.0]):
        # a parallelogram, and bars that fold about the far hinge
        v = cs.consistent_velocity(robot, np.zeros(3), speed * np.array(v))
        found = robot.rollout(np.zeros(3), v, steps=1000, **RK4)
        if abs(v[0] - v[2]) < 1e-9:
            check_motion(robot, found, 1e-6)
            np.testing.assert_allclose(found.q[:, 2], found.q[:, 0], atol=1e-9)
