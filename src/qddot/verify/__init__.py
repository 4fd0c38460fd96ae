"""Verification: what must hold whatever the robot, measured."""

from qddot.verify.invariants import Check, Sample, check, invariants, sample

__all__ = ["Check", "Sample", "check", "invariants", "sample"]
