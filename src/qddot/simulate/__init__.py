"""Simulation: integrators, simulators, drivetrains, contact, and the account of their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qddot.simulate.adaptive import AdaptiveMotion, integrate_adaptive
from qddot.simulate.energy import EnergyLedger, energy_ledger, plot_energy
from qddot.simulate.integrators import INTEGRATORS, Integrator
from qddot.simulate.rollout import Rollout
from qddot.simulate.simulator import Simulator, make_simulator, rollout
from qddot.simulate.status import LABELS, Perturbation, Status
from qddot.simulate.store import load, load_trajectory, save_trajectory

if TYPE_CHECKING:
    from qddot.simulate.certificate import Certificate, certify
    from qddot.simulate.mujoco_plant import MujocoPlant

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
    "Simulator",
    "Status",
    "certify",
    "energy_ledger",
    "integrate_adaptive",
    "load",
    "load_trajectory",
    "make_simulator",
    "plot_energy",
    "rollout",
    "save_trajectory",
]


def __getattr__(name: str) -> Any:
    """Names whose modules load linearisation or the MuJoCo writer, imported on first use."""
    if name in ("Certificate", "certify"):
        from qddot.simulate import certificate

        return getattr(certificate, name)
    if name == "MujocoPlant":
        from qddot.simulate.mujoco_plant import MujocoPlant

        return MujocoPlant
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
