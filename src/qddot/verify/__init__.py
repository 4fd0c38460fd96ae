"""Verification: what must hold whatever the robot, measured."""

from qddot.verify.invariants import (
    Check,
    RandomStates,
    check,
    default_states,
    invariants,
    random_states,
)

__all__ = ["Check", "RandomStates", "check", "default_states", "invariants", "random_states"]
