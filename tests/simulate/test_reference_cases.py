"""Motions of textbooks: Kane's babyboot, and a tennis racket against Jacobi's functions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import ellipj, ellipk

from qddot.robot.robot import Robot

RACKET = np.array([0.3, 0.5, 0.7])
"""Principal moments of inertia, kg m²."""


def native(robot: Robot) -> Robot:
    """The robot with compiled functions: these motions have thousands of steps."""
    return Robot(robot.model, native=True)


@pytest.fixture(scope="module")
def babyboot() -> Robot:
    """A plate that turns about the rod on which it swings (Kane & Levinson 1985)."""
    links = [
        {
            "name": "rod", "parent": None, "joint": "revolute", "axis": (1, 0, 0),
            "mass": 0.01, "com": (0, 0, -0.075), "inertia": (5e-6, 5e-6, 1e-9),
        },
        {
            "name": "plate", "parent": "rod", "joint": "revolute", "axis": (0, 0, 1),
            "mass": 0.1, "com": (0, 0, -0.2), "inertia": (2.5e-4, 5e-5, 2e-4),
        },
    ]  # fmt: skip
    return native(Robot.from_links("babyboot", links, gravity=(0.0, 0.0, -9.81)))


def babyboot_rates(t: float, x: np.ndarray) -> list[float]:
    """The published equations of motion of the babyboot, in angles and their rates."""
    a, b, va, vb = x
    I, Bx, By, Bz = 5e-6, 2.5e-4, 5e-5, 2e-4
    inertia = I + 0.01 * 0.075**2 + 0.1 * 0.2**2 + Bx * np.cos(b) ** 2 + By * np.sin(b) ** 2
    twist = np.sin(b) * np.cos(b) * (Bx - By)
    weight = (0.01 * 0.075 + 0.1 * 0.2) * 9.81
    return [
        va,
        vb,
        (2.0 * va * vb * twist - weight * np.sin(a)) / inertia,
        -(va**2) * twist / Bz,
    ]


@pytest.mark.parametrize(("integrator", "most"), [("rk4", 1e-7), ("dormand_prince", 1e-9)])
def test_the_babyboot_is_that_of_its_equations(babyboot, integrator, most):
    start = np.radians([90.0, 1.0])
    found = babyboot.rollout(start, [0, 0], dt=1e-3, steps=3000, every=50, integrator=integrator)
    reference = solve_ivp(
        babyboot_rates, (0.0, 3.0), [*start, 0.0, 0.0], "DOP853", found.time, rtol=1e-12, atol=1e-14
    )
    assert found.status.ok
    np.testing.assert_allclose(found.q, reference.y[:2].T, atol=most)
    # the plate leaves its small angle: energy goes from the swing to the turn
    assert np.abs(found.q[:, 1]).max() > 0.05


def test_a_tennis_racket_turns_as_jacobis_functions_say():
    body = {"name": "racket", "parent": None, "joint": "free", "mass": 0.3, "inertia": RACKET}
    robot = native(Robot.from_links("racket", [body], gravity=(0.0, 0.0, 0.0)))
    I1, I2, I3 = RACKET
    # near the separatrix, where L² is twice the energy times the middle moment (Landau, § 37)
    share = 0.99
    spin = np.array([4.0 * share * np.sqrt(I3 * (I3 - I2) / (I1 * (I2 - I1))), 0.0, 4.0])
    twice_energy, square = RACKET @ spin**2, RACKET**2 @ spin**2
    assert twice_energy * I2 < square, "on the side of the largest moment"
    sizes = np.sqrt([
        (twice_energy * I3 - square) / (I1 * (I3 - I1)),
        (twice_energy * I3 - square) / (I2 * (I3 - I2)),
        (square - twice_energy * I1) / (I3 * (I3 - I1)),
    ])  # fmt: skip
    rate = np.sqrt((I3 - I2) * (square - twice_energy * I1) / (I1 * I2 * I3))
    m = (I2 - I1) * (twice_energy * I3 - square) / ((I3 - I2) * (square - twice_energy * I1))
    found = robot.rollout(
        robot.neutral(), [0, 0, 0, *spin], dt=5e-4, steps=10_000, every=100, integrator="rk4"
    )
    sn, cn, dn, _ = ellipj(rate * found.time, m)
    expected = np.stack([cn, sn, dn], axis=-1) * sizes
    np.testing.assert_allclose(np.abs(found.v[0, 3:]), sizes * [1, 0, 1], atol=1e-12)
    np.testing.assert_allclose(found.v[:, 3:], expected, atol=1e-7)
    # the middle axis turns over: more than half a period in the time of the motion
    assert rate * found.time[-1] > 2.0 * ellipk(m)
    assert found.v[:, 4].max() * found.v[:, 4].min() < 0.0
