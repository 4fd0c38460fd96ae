"""Drivetrains: friction, motors, gears, backlash, delays and sensors, as effects of a step."""

from __future__ import annotations

from qddot.model.friction_models import asymmetric, coulomb, stiction, stribeck, viscous
from qddot.simulate.drivetrain.backlash import Backlash
from qddot.simulate.drivetrain.friction import Friction, LuGre, ModelLosses
from qddot.simulate.drivetrain.motor import (
    Delay,
    Gear,
    Limit,
    MotorConstant,
    TorqueSpeedLimit,
    with_rotors,
)
from qddot.simulate.drivetrain.sensors import DifferencedVelocity, Latency, Noise, Quantisation

__all__ = [
    "Backlash",
    "Delay",
    "DifferencedVelocity",
    "Friction",
    "Gear",
    "Latency",
    "Limit",
    "LuGre",
    "ModelLosses",
    "MotorConstant",
    "Noise",
    "Quantisation",
    "TorqueSpeedLimit",
    "asymmetric",
    "coulomb",
    "stiction",
    "stribeck",
    "viscous",
    "with_rotors",
]
