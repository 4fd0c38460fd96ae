"""The catalogue: every function of the library, with the shapes of what goes in and comes out.

Robot methods, CasADi functions, tests and the API page all come from these rows. An algorithm is
one function and one row; docs/architecture.md lists its documentation and tests. A shape is written
in the sizes of a model: nq, nv, nb (bodies), nf (frames) and np (inertial parameters, 10 nb), and
in those of options: nw (external wrenches), nt (axes of a task), nc (rows of constraints) and nu
(independent velocities).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from qddot.algorithms import (
    centroidal,
    closed_chains,
    configuration,
    constraints,
    coriolis,
    derivatives,
    energy,
    forward_dynamics,
    friction,
    hamiltonian,
    hybrid_dynamics,
    inverse_dynamics,
    kinematics,
    mass_matrix,
    regressors,
    task_space,
)
from qddot.algorithms.kinematics import TASK_AXES
from qddot.errors import UnknownName
from qddot.model.model import Model

__all__ = [
    "CATALOGUE",
    "CONSTRAINT_PROJECTION",
    "OTHER_NAMES",
    "REDUCED_DYNAMICS",
    "Argument",
    "Function",
    "function",
    "sizes",
]


@dataclass(frozen=True)
class Argument:
    """A named array of a function: its last axes, in the sizes of a model."""

    name: str
    shape: tuple[str, ...]

    @staticmethod
    def parse(text: str) -> Argument:
        """From text such as "M:nv,nv"; a scalar has nothing after the colon."""
        name, _, shape = text.partition(":")
        return Argument(name, tuple(shape.split(",")) if shape else ())

    def shape_in(self, dims: Mapping[str, int]) -> tuple[int, ...]:
        """The shape in numbers."""
        return tuple(dims[s] if s in dims else int(s) for s in self.shape)


@dataclass(frozen=True)
class Function:
    """A row of the catalogue.

    `needs_inverse`: it inverts M. `joint_space`: it sees bodies only through joints and frames,
    so a condensed model gives the same.
    """

    algorithm: Callable[..., Any]
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    needs_inverse: bool = False
    joint_space: bool = False

    @property
    def name(self) -> str:
        """The name of the function, as everywhere."""
        return self.algorithm.__name__

    @property
    def doc(self) -> str:
        """One line on what it computes."""
        return (inspect.getdoc(self.algorithm) or "").splitlines()[0]

    @cached_property
    def options(self) -> tuple[inspect.Parameter, ...]:
        """Settings that are not numbers: frame, reference, forces, friction."""
        parameters = inspect.signature(self.algorithm).parameters.values()
        return tuple(p for p in parameters if p.kind is p.KEYWORD_ONLY)

    @property
    def inverts_constraints(self) -> bool:
        """Whether it solves for multipliers, so that constraints must not depend on each other."""
        return self.needs_inverse and any(o.name == "constraints" for o in self.options)

    @property
    def signature(self) -> str:
        """The shapes as a NumPy gufunc signature."""
        sides = (self.inputs, self.outputs)
        return "->".join(",".join(f"({','.join(a.shape)})" for a in side) for side in sides)

    def numbers(self, dims: Mapping[str, int]) -> int:
        """The number of entries of all outputs at one state."""
        return sum(math.prod(output.shape_in(dims)) for output in self.outputs)

    def flat(self, value: Any, dims: Mapping[str, int]) -> list[list[Any]]:
        """The scalars of each output of the algorithm, in order."""
        values = (value,) if len(self.outputs) == 1 else value
        shapes = [output.shape_in(dims) for output in self.outputs]
        return [_flatten(x, shape) for x, shape in zip(values, shapes, strict=True)]


def _flatten(value: Any, shape: Sequence[int]) -> list[Any]:
    """The scalars of nested sequences of this shape, in order."""
    if not shape:
        return [value]
    return [leaf for part in value for leaf in _flatten(part, shape[1:])]


def _catalogue_row(
    algorithm: Callable[..., Any],
    text: str,
    needs_inverse: bool = False,
    joint_space: bool = False,
) -> Function:
    inputs, outputs = (tuple(map(Argument.parse, side.split())) for side in text.split("->"))
    return Function(algorithm, inputs, outputs, needs_inverse, joint_space)


def _joint_row(algorithm: Callable[..., Any], text: str, needs_inverse: bool = False) -> Function:
    """A row that sees bodies only through joints and frames."""
    return _catalogue_row(algorithm, text, needs_inverse, joint_space=True)


CATALOGUE: dict[str, Function] = {
    row.name: row
    for row in (
        _joint_row(inverse_dynamics.inverse_dynamics, "q:nq v:nv a:nv f_ext:nw,6 -> tau:nv"),
        _joint_row(forward_dynamics.forward_dynamics, "q:nq v:nv tau:nv f_ext:nw,6 -> a:nv", True),
        _joint_row(
            hybrid_dynamics.hybrid_dynamics,
            "q:nq v:nv a:nv tau:nv f_ext:nw,6 -> a_out:nv tau_out:nv",
            True,
        ),
        _joint_row(
            constraints.constrained_dynamics,
            "q:nq v:nv tau:nv f_ext:nw,6 -> a:nv lam:nc",
            True,
        ),
        _joint_row(
            closed_chains.constrained_inverse_dynamics,
            "q:nq v:nv a:nv f_ext:nw,6 -> tau:nv lam:nc rest:nv",
            True,
        ),
        _joint_row(constraints.impact, "q:nq v:nv restitution:nc -> v1:nv impulse:nc", True),
        _catalogue_row(constraints.constraint_residual, "q:nq -> phi:nc"),
        _catalogue_row(constraints.constraint_jacobian, "q:nq -> J:nc,nv"),
        _catalogue_row(constraints.constraint_jacobian_rate, "q:nq v:nv -> dJ:nc,nv"),
        _catalogue_row(constraints.constraint_bias, "q:nq v:nv -> b:nc"),
        _joint_row(mass_matrix.mass_matrix, "q:nq -> M:nv,nv"),
        _joint_row(mass_matrix.mass_matrix_rate, "q:nq v:nv -> dM:nv,nv"),
        _joint_row(forward_dynamics.inverse_mass_matrix, "q:nq -> Minv:nv,nv", True),
        _joint_row(coriolis.coriolis_matrix, "q:nq v:nv -> C:nv,nv"),
        _joint_row(coriolis.christoffel_symbols, "q:nq -> Gamma:nv,nv,nv"),
        _joint_row(inverse_dynamics.gravity, "q:nq -> g:nv"),
        _joint_row(inverse_dynamics.bias, "q:nq v:nv -> h:nv"),
        _catalogue_row(friction.friction, "q:nq v:nv -> tau:nv"),
        _joint_row(energy.kinetic_energy, "q:nq v:nv -> T:"),
        _catalogue_row(energy.potential_energy, "q:nq -> V:"),
        _joint_row(hamiltonian.momentum, "q:nq v:nv -> p:nv"),
        _joint_row(hamiltonian.coriolis_transpose_product, "q:nq v:nv -> Ctv:nv"),
        _catalogue_row(hamiltonian.hamiltonian, "q:nq p:nv -> H:", True),
        _joint_row(hamiltonian.hamiltonian_derivatives, "q:nq p:nv -> dH_dq:nv dH_dp:nv", True),
        _catalogue_row(kinematics.body_poses, "q:nq -> X:nb,4,4"),
        _catalogue_row(kinematics.body_velocities, "q:nq v:nv -> V:nb,6"),
        _catalogue_row(kinematics.body_accelerations, "q:nq v:nv a:nv -> A:nb,6"),
        _catalogue_row(kinematics.frame_poses, "q:nq -> X:nf,4,4"),
        _catalogue_row(kinematics.frame_pose, "q:nq -> X:4,4"),
        _catalogue_row(kinematics.frame_velocity, "q:nq v:nv -> V:6"),
        _catalogue_row(kinematics.frame_acceleration, "q:nq v:nv a:nv -> A:6"),
        _catalogue_row(kinematics.frame_classical_acceleration, "q:nq v:nv a:nv -> A:6"),
        _catalogue_row(kinematics.frame_jacobian, "q:nq -> J:6,nv"),
        _catalogue_row(kinematics.frame_jacobian_rate, "q:nq v:nv -> dJ:6,nv"),
        _catalogue_row(centroidal.center_of_mass, "q:nq -> c:3"),
        _catalogue_row(centroidal.center_of_mass_jacobian, "q:nq -> J:3,nv"),
        _catalogue_row(centroidal.centroidal_map, "q:nq -> A:6,nv"),
        _catalogue_row(centroidal.centroidal_map_rate, "q:nq v:nv -> dA:6,nv"),
        _catalogue_row(centroidal.centroidal_momentum, "q:nq v:nv -> h:6"),
        _catalogue_row(centroidal.centroidal_momentum_rate, "q:nq v:nv a:nv -> dh:6"),
        _catalogue_row(centroidal.composite_inertia, "q:nq -> I:6,6"),
        _catalogue_row(task_space.task_jacobian, "q:nq -> J:nt,nv"),
        _catalogue_row(task_space.manipulability, "q:nq -> volume:"),
        _joint_row(task_space.task_mobility, "q:nq -> W:nt,nt", True),
        _joint_row(task_space.task_inertia, "q:nq -> Lambda:nt,nt", True),
        _joint_row(
            task_space.operational_space,
            "q:nq v:nv -> Lambda:nt,nt Jbar:nv,nt mu:nt p:nt",
            True,
        ),
        _catalogue_row(regressors.torque_regressor, "q:nq v:nv a:nv -> Y:nv,np"),
        _catalogue_row(regressors.momentum_regressor, "q:nq v:nv -> Y:nv,np"),
        _catalogue_row(regressors.momentum_rate_regressor, "q:nq v:nv -> Y:nv,np"),
        _catalogue_row(regressors.kinetic_energy_regressor, "q:nq v:nv -> Y:np"),
        _catalogue_row(regressors.potential_energy_regressor, "q:nq -> Y:np"),
        _joint_row(
            derivatives.inverse_dynamics_derivatives,
            "q:nq v:nv a:nv -> dtau_dq:nv,nv dtau_dv:nv,nv M:nv,nv",
        ),
        _joint_row(
            derivatives.forward_dynamics_derivatives,
            "q:nq v:nv tau:nv -> da_dq:nv,nv da_dv:nv,nv Minv:nv,nv",
            True,
        ),
        _joint_row(derivatives.gravity_derivatives, "q:nq -> dg_dq:nv,nv"),
        _catalogue_row(derivatives.frame_velocity_derivatives, "q:nq v:nv -> dV_dq:6,nv J:6,nv"),
        _catalogue_row(
            centroidal.centroidal_momentum_derivatives, "q:nq v:nv -> dh_dq:6,nv A:6,nv"
        ),
        _joint_row(
            derivatives.inverse_dynamics_second_derivatives,
            "q:nq v:nv a:nv -> d2_dqdq:nv,nv,nv d2_dvdq:nv,nv,nv d2_dvdv:nv,nv,nv dM_dq:nv,nv,nv",
        ),
        _catalogue_row(configuration.integrate, "q:nq dv:nv -> q1:nq"),
        _catalogue_row(configuration.difference, "q0:nq q1:nq -> dv:nv"),
        _catalogue_row(configuration.interpolate, "q0:nq q1:nq t: -> q:nq"),
    )
}

CONSTRAINT_PROJECTION = _joint_row(
    closed_chains.constraint_projection, "q:nq v:nv -> q1:nq v1:nv phi:nc", True
)
REDUCED_DYNAMICS = _joint_row(
    closed_chains.reduced_dynamics,
    "q:nq v:nv -> T:nv,nu dT:nv,nu M:nu,nu C:nu,nu g:nu",
    True,
)
"""Rows that are no methods of a robot: `qddot.constraints` checks and explains their results."""


_ELSEWHERE = {
    "inverse_dynamics": "rnea id mj_inverse rne inverse_dyn CalcInverseDynamics "
    "calculateInverseDynamics",
    "forward_dynamics": "aba fd mj_forward fdyn accel forward_dyn",
    "hybrid_dynamics": "hd",
    "constrained_dynamics": "constraint_dynamics constraintDynamics",
    "impact": "impulse_dynamics impulseDynamics",
    "mass_matrix": "crba inertia inertia_matrix mj_fullM CalcMassMatrix calculateMassMatrix "
    "CalcMassMatrixViaInverseDynamics JntToMass mass M",
    "inverse_mass_matrix": "minv computeMinverse",
    "bias": "nle nonlinear_effects nonLinearEffects mj_rne CalcBiasTerm bias_force",
    "coriolis_matrix": "coriolis computeCoriolisMatrix",
    "christoffel_symbols": "christoffel",
    "gravity": "gravload computeGeneralizedGravity CalcGravityGeneralizedForces JntToGravity g "
    "gravity_vector",
    "kinetic_energy": "computeKineticEnergy CalcKineticEnergy",
    "potential_energy": "computePotentialEnergy CalcPotentialEnergy",
    "center_of_mass": "com CalcCenterOfMassPositionInWorld mj_subtreeCom",
    "center_of_mass_jacobian": "jacobianCenterOfMass com_jacobian",
    "centroidal_map": "ccrba",
    "centroidal_map_rate": "dccrba",
    "centroidal_momentum": "computeCentroidalMomentum hg",
    "frame_pose": "fk forward_kinematics forwardKinematics fkine getFrameWorldPose frame_placement",
    "frame_poses": "framesForwardKinematics updateFramePlacements mj_kinematics fkine_all",
    "frame_jacobian": "jacobian J jacob0 jacobe mj_jac mj_jacSite mj_jacBody getFrameJacobian "
    "computeFrameJacobian computeJointJacobians calculateJacobian CalcJacobianSpatialVelocity",
    "frame_jacobian_rate": "jacob0_dot frameJacobianTimeVariation",
    "operational_space": "osc",
    "task_inertia": "lambda",
    "torque_regressor": "regressor computeJointTorqueRegressor",
    "inverse_dynamics_derivatives": "rnea_derivatives computeRNEADerivatives",
    "forward_dynamics_derivatives": "aba_derivatives computeABADerivatives",
    "integrate": "mj_integratePos",
    "difference": "mj_differentiatePos",
}
"""Names of functions elsewhere: in Pinocchio, MuJoCo, Drake, robotics toolboxes, books."""


def _fold_name(name: str) -> str:
    """A name without its case and underscores, in which libraries differ."""
    return name.lower().replace("_", "")


_OURS = {_fold_name(theirs): ours for ours, names in _ELSEWHERE.items() for theirs in names.split()}


def _call_text(row: Function) -> str:
    """The call of a method with all that it needs."""
    arguments = [a.name for a in row.inputs if a.name != "f_ext"]
    arguments += [o.name for o in row.options if o.default is o.empty]
    return f"robot.{row.name}({', '.join(arguments)})"


OTHER_NAMES: dict[str, str] = {
    **{
        theirs: _call_text(CATALOGUE[ours])
        for ours, names in _ELSEWHERE.items()
        for theirs in names.split()
    },
    "computeAllTerms": "robot.terms(q, v)",
    "mj_step": "robot.rollout(q0, v0, tau)",
    "neutralConfiguration": "robot.neutral()",
    "randomConfiguration": "robot.random(rng, size)",
}
"""Names of methods in other libraries, and the calls that they are here."""


def function(name: str) -> Function:
    """The row of this name."""
    try:
        return CATALOGUE[name]
    except (KeyError, TypeError):
        ours = _OURS.get(_fold_name(name)) if isinstance(name, str) else None
        hint = f"it is called {ours!r}" if ours else ""
        raise UnknownName("function", name, CATALOGUE, hint=hint) from None


def sizes(model: Model, options: Mapping[str, Any]) -> dict[str, int]:
    """The sizes that shapes are written in: those of a model, and those that options give."""
    return {
        "nq": model.nq,
        "nv": model.nv,
        "nb": model.nb,
        "nf": len(model.frames),
        "np": 10 * model.nb,
        "nw": len(options.get("forces", ())),
        "nt": len(options.get("axes", TASK_AXES)),
        "nc": sum(c.size for c in options.get("constraints", model.loops)),
        "nu": len(closed_chains.velocity_indices(model, options["independent"], "independent"))
        if "independent" in options
        else model.nv,
    }
