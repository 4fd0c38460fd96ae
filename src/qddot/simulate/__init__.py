"""Simulation: integrators, rollouts, drivetrains, contact, and the account of their errors."""

from __future__ import annotations

from qddot.simulate.adaptive import AdaptiveMotion, integrate_adaptive
from qddot.simulate.certificate import Certificate, certify
from qddot.simulate.energy import EnergyLedger, energy_ledger, plot_energy
from qddot.simulate.integrators import INTEGRATORS, Integrator
from qddot.simulate.mujoco_plant import MujocoPlant
from qddot.simulate.rollout import Rollout, rollout
from qddot.simulate.status import LABELS, Perturbation, Status
from qddot.simulate.store import load_trajectory, save_trajectory

__all__ = [
    "INTEGRATORS",
    "LABELS",
    "AdaptiveMotion",
    "Certificate",
    "EnergyLedger",
    "Integrator",
    "MujocoPlant",
    "Perturbation",
    "Rollout",
    "Status",
    "certify",
    "energy_ledger",
    "integrate_adaptive",
    "load_trajectory",
    "plot_energy",
    "rollout",
    "save_trajectory",
]
