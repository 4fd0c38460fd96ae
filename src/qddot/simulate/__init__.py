"""Simulation: integrators, rollouts, drivetrains, contact, and the account of their errors."""

from __future__ import annotations

from qddot.simulate.adaptive import AdaptiveMotion, integrate_adaptive
from qddot.simulate.certificate import Certificate, certify
from qddot.simulate.energy import EnergyLedger, energy_ledger, plot_energy
from qddot.simulate.integrators import INTEGRATORS, Integrator
from qddot.simulate.rollout import Rollout, rollout
from qddot.simulate.status import LABELS, Perturbation, Status

__all__ = [
    "INTEGRATORS",
    "LABELS",
    "AdaptiveMotion",
    "Certificate",
    "EnergyLedger",
    "Integrator",
    "Perturbation",
    "Rollout",
    "Status",
    "certify",
    "energy_ledger",
    "integrate_adaptive",
    "plot_energy",
    "rollout",
]
