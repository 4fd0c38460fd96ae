"""Control: laws written once in NumPy, observers, a safety shell, and the force laboratory."""

from __future__ import annotations

from qddot.control.casadi_law import CasadiLaw
from qddot.control.compiled import CompiledLaw, compile_law
from qddot.control.force import PHASES, ContactTask, Hybrid
from qddot.control.gains import (
    Gains,
    bandwidth_bound,
    force_integral_bound,
    gravity_damping,
    joint_gains,
    joint_inertias,
    require_bandwidth,
)
from qddot.control.joint_space import (
    LQR,
    PD,
    ComputedTorque,
    Feedforward,
    GravityCompensation,
    SlotineLi,
)
from qddot.control.law import Law, State, evaluate_law, gain, gain_shapes, validate_law
from qddot.control.observers import (
    ButterworthForce,
    CollisionObserver,
    DisturbanceCompensation,
    MomentumObserver,
    PayloadEstimate,
    TareForce,
    VelocityFromPositions,
    estimate_payload,
    torque_error_bound,
    wrench_at_frame,
)
from qddot.control.plants import MujocoControlPlant, Plant, RolloutPlant
from qddot.control.run import Sensing, run
from qddot.control.safety import TRIPS, SafetyShell
from qddot.control.task_space import (
    STIFFNESS,
    Admittance,
    CartesianImpedance,
    OperationalSpace,
    TaskInertia,
    damped_task_inertia,
    impedance_damping,
    pose_error,
)
from qddot.control.trace import Event, Trace, load_trace
from qddot.control.wrappers import FrictionCompensation, Saturation
from qddot.robot.law import LawMemory

__all__ = [
    "LQR",
    "PD",
    "PHASES",
    "STIFFNESS",
    "TRIPS",
    "Admittance",
    "ButterworthForce",
    "CartesianImpedance",
    "CasadiLaw",
    "CollisionObserver",
    "CompiledLaw",
    "ComputedTorque",
    "ContactTask",
    "DisturbanceCompensation",
    "Event",
    "Feedforward",
    "FrictionCompensation",
    "Gains",
    "GravityCompensation",
    "Hybrid",
    "Law",
    "LawMemory",
    "MomentumObserver",
    "MujocoControlPlant",
    "OperationalSpace",
    "PayloadEstimate",
    "Plant",
    "RolloutPlant",
    "SafetyShell",
    "Saturation",
    "Sensing",
    "SlotineLi",
    "State",
    "TareForce",
    "TaskInertia",
    "Trace",
    "VelocityFromPositions",
    "bandwidth_bound",
    "compile_law",
    "damped_task_inertia",
    "estimate_payload",
    "evaluate_law",
    "force_integral_bound",
    "gain",
    "gain_shapes",
    "gravity_damping",
    "impedance_damping",
    "joint_gains",
    "joint_inertias",
    "load_trace",
    "pose_error",
    "require_bandwidth",
    "run",
    "torque_error_bound",
    "validate_law",
    "wrench_at_frame",
]
