"""The Puma 560 from its published Denavit–Hartenberg parameters: dynamics, friction, simulation.

Kinematics, masses, motors and friction are those of Armstrong, Khatib and Burdick (1986) as Corke
and Armstrong-Hélouvry (1994, 1995) reconciled them: standard parameters, centres of mass and
moments in the distal frame of each link, motor inertia and friction at the motor.
"""

from __future__ import annotations

import math
import warnings

import numpy as np

import qddot
from qddot import DHRow


def degrees(lower: float, upper: float) -> tuple[float, float]:
    """A range of angles in radians."""
    return math.radians(lower), math.radians(upper)


PUMA = [
    # link 1 turns about the vertical axis only: of its mass nothing but one moment is known
    DHRow(alpha=math.pi / 2, d=0.67183, inertia=(0.0, 0.35, 0.0),
          Jm=200e-6, G=-62.6111, B=1.48e-3, Tc=(0.395, -0.435), limits=degrees(-160, 160)),
    DHRow(a=0.4318, mass=17.4, com=(-0.3638, 0.006, 0.2275), inertia=(0.13, 0.524, 0.539),
          Jm=200e-6, G=107.815, B=0.817e-3, Tc=(0.126, -0.071), limits=degrees(-45, 225)),
    DHRow(a=0.0203, alpha=-math.pi / 2, d=0.15005, mass=4.8, com=(-0.0203, -0.0141, 0.07),
          inertia=(0.066, 0.086, 0.0125),
          Jm=200e-6, G=-53.7063, B=1.38e-3, Tc=(0.132, -0.105), limits=degrees(-225, 45)),
    DHRow(alpha=math.pi / 2, d=0.4318, mass=0.82, com=(0.0, 0.019, 0.0),
          inertia=(1.8e-3, 1.3e-3, 1.8e-3),
          Jm=33e-6, G=76.0364, B=71.2e-6, Tc=(11.2e-3, -16.9e-3), limits=degrees(-110, 170)),
    DHRow(alpha=-math.pi / 2, mass=0.34, inertia=(0.3e-3, 0.4e-3, 0.3e-3),
          Jm=33e-6, G=71.923, B=82.6e-6, Tc=(9.26e-3, -14.5e-3), limits=degrees(-100, 100)),
    DHRow(mass=0.09, com=(0.0, 0.0, 0.032), inertia=(0.15e-3, 0.15e-3, 0.04e-3),
          Jm=33e-6, G=76.686, B=36.7e-6, Tc=(3.96e-3, -10.5e-3), limits=degrees(-266, 266)),
]  # fmt: skip
"""Rows of standard parameters."""

NOMINAL = np.array([0.0, math.pi / 4, math.pi, 0.0, math.pi / 4, 0.0])


def puma560() -> qddot.Robot:
    """The Puma 560; two of its published inertias are impossible, which its health says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return qddot.Robot.from_dh("puma560", PUMA, convention="standard", frame="distal")


def report(robot: qddot.Robot) -> None:
    """Print health, gravity torques, inertia and friction, and let the arm fall for 0.2 s."""
    print(robot)
    for finding in robot.health:
        print(f"{finding.severity}: {finding.subject}: {finding.message}")
    print("gravity at the nominal configuration, N m:", robot.gravity(NOMINAL) + 0.0)
    print("mass matrix with motors, kg m²:")
    print(robot.mass_matrix(NOMINAL).round(4) + 0.0)
    speeds = np.array([[0.1], [-0.1]]) * np.ones(6)
    print("friction at ±0.1 rad/s, N m:")
    print(robot.friction(NOMINAL, speeds))
    # the published nominal configuration is beyond the limit of joint 3
    fall = robot.rollout(NOMINAL, np.zeros(6), dt=1e-3, steps=200, without="limits")
    print("after 0.2 s without torques:", fall.q[-1] - NOMINAL + 0.0)


def main() -> None:
    """Report on the Puma 560 with four decimals."""
    robot = puma560()
    with np.printoptions(precision=4, suppress=True):
        report(robot)


if __name__ == "__main__":
    main()
