"""The certificate of a conversion: a robot and its written file compared, claim by claim."""

from __future__ import annotations

from dataclasses import dataclass

from qddot.display.progress import OnStep
from qddot.errors import Unsupported
from qddot.model.model import Model
from qddot.writers.model_checks import ModelCheck
from qddot.writers.motion_checks import (
    check_bias,
    check_frames,
    check_friction,
    check_mass_matrix,
    pair_states,
)
from qddot.writers.structure_checks import (
    check_configurations,
    check_couplings,
    check_drivetrains,
    check_gravity,
    check_inertias,
    check_joint_order,
    check_limits,
    check_loops,
)

__all__ = ["ConversionCertificate", "bound_states", "certify_conversion"]

_MOST_VELOCITIES = 500
"""Velocities of the largest robot that is certified: one state of it takes seconds."""
_MOST_NUMBERS = 4_000_000
"""Numbers of a matrix nv × nv at all states of a certificate."""


@dataclass(frozen=True)
class ConversionCertificate:
    """The checks of a written file, and the random states at which they were made."""

    checks: tuple[ModelCheck, ...]
    states: int
    seed: int

    @property
    def all_passed(self) -> bool:
        """Whether every claim holds."""
        return bool(self.checks) and all(check.passed for check in self.checks)


def bound_states(model: Model, states: int) -> int:
    """The number of states at which a model is certified: fewer for one with large matrices.

    A model with too many velocities is refused.
    """
    if model.nv > _MOST_VELOCITIES:
        accepted = f"conversions are certified up to {_MOST_VELOCITIES} velocities"
        raise Unsupported("convert", f"{model.nv} velocities", accepted)
    return max(1, min(states, _MOST_NUMBERS // max(1, model.nv**2)))


def certify_conversion(
    expected: Model, loaded: Model, states: int = 100, seed: int = 0, on_step: OnStep | None = None
) -> ConversionCertificate:
    """Compare a model with the one that its written file gives, at random states."""
    structure = (check_inertias, check_couplings, check_limits, check_drivetrains, check_gravity,
                 check_loops, check_configurations)  # fmt: skip
    motion = (check_frames, check_mass_matrix, check_bias, check_friction)
    steps = len(structure) + len(motion)
    # element by element, as the files have them
    checks = [check_joint_order(expected, loaded)]
    for k, check in enumerate(structure):
        checks += check(expected, loaded)
        if on_step:
            on_step("structure", k + 1, steps)
    # dynamics at random states, which need the same joints
    if checks[0].passed:
        pair = pair_states(expected, loaded, states, seed)
        for k, probe in enumerate(motion):
            checks += probe(pair)
            if on_step:
                on_step(checks[-1].name, len(structure) + k + 1, steps)
    return ConversionCertificate(tuple(checks), states, seed)
