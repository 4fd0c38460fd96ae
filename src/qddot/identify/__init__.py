"""Identification: from a log to a model with intervals, and a no where the data cannot say."""

from qddot.identify.base_parameters import BaseParameters, base_parameters
from qddot.identify.clearance import Workspace
from qddot.identify.corruption import corrupt_log
from qddot.identify.detective import Inspection, Suspicion, inspect
from qddot.identify.excitation import MotionLimits, Plan, motion_limits, plan
from qddot.identify.fitting import Fit, ParameterRow, Refusal, fit
from qddot.identify.fourier import FourierMotion, random_motion
from qddot.identify.friction_curves import (
    FrictionCurve,
    Sweep,
    SweepFit,
    fit_sweep,
    friction_curves,
    plan_sweep,
    plot_friction,
)
from qddot.identify.log import Log, make_log
from qddot.identify.payloads import Payload, TorqueGains, payload, torque_gains
from qddot.identify.plots import plot_plan, plot_prediction
from qddot.identify.reading import read
from qddot.identify.torque_budget import Budget, budget, plot_budget
from qddot.identify.torque_model import DRIVE_TERMS, DriveTerm, Shaft, TorqueModel, torque_model
from qddot.identify.validation import Uncertainty, Validation, torque_uncertainty, validate
from qddot.identify.virtual import perturb_robot, virtual_log

__all__ = [
    "DRIVE_TERMS",
    "BaseParameters",
    "Budget",
    "DriveTerm",
    "Fit",
    "FourierMotion",
    "FrictionCurve",
    "Inspection",
    "Log",
    "MotionLimits",
    "ParameterRow",
    "Payload",
    "Plan",
    "Refusal",
    "Shaft",
    "Suspicion",
    "Sweep",
    "SweepFit",
    "TorqueGains",
    "TorqueModel",
    "Uncertainty",
    "Validation",
    "Workspace",
    "base_parameters",
    "budget",
    "corrupt_log",
    "fit",
    "fit_sweep",
    "friction_curves",
    "inspect",
    "make_log",
    "motion_limits",
    "payload",
    "perturb_robot",
    "plan",
    "plan_sweep",
    "plot_budget",
    "plot_friction",
    "plot_plan",
    "plot_prediction",
    "random_motion",
    "read",
    "torque_gains",
    "torque_model",
    "torque_uncertainty",
    "validate",
    "virtual_log",
]
