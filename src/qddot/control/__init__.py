"""Control: laws written once in NumPy, observers, a safety shell, and the force laboratory."""

from __future__ import annotations

from qddot.control.force import PHASES, ContactTask, Hybrid
from qddot.control.joint_space import (
    LQR,
    PD,
    ComputedTorque,
    Feedforward,
    GravityCompensation,
    SlotineLi,
)
from qddot.control.law import Law, State, evaluate_law, gain, gain_shapes, validate_law
from qddot.control.task_space import (
    STIFFNESS,
    Admittance,
    CartesianImpedance,
    OperationalSpace,
    TaskInertia,
    damped_task_inertia,
)

__all__ = [
    "LQR",
    "PD",
    "PHASES",
    "STIFFNESS",
    "Admittance",
    "CartesianImpedance",
    "ComputedTorque",
    "ContactTask",
    "Feedforward",
    "GravityCompensation",
    "Hybrid",
    "Law",
    "OperationalSpace",
    "SlotineLi",
    "State",
    "TaskInertia",
    "damped_task_inertia",
    "evaluate_law",
    "gain",
    "gain_shapes",
    "validate_law",
]
