"""Identification: from a log to a model with intervals, and a no where the data cannot say."""

from qddot.identify.base_parameters import BaseParameters, base_parameters
from qddot.identify.fitting import Fit, ParameterRow, Refusal, fit
from qddot.identify.log import Log, make_log
from qddot.identify.plots import plot_prediction
from qddot.identify.reading import read
from qddot.identify.torque_model import DRIVE_TERMS, Shaft, TorqueModel, torque_model
from qddot.identify.validation import Uncertainty, Validation, torque_uncertainty, validate

__all__ = [
    "DRIVE_TERMS",
    "BaseParameters",
    "Fit",
    "Log",
    "ParameterRow",
    "Refusal",
    "Shaft",
    "TorqueModel",
    "Uncertainty",
    "Validation",
    "base_parameters",
    "fit",
    "make_log",
    "plot_prediction",
    "read",
    "torque_model",
    "torque_uncertainty",
    "validate",
]
