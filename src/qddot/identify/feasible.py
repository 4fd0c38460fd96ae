"""Parameters that a body can have: the fit as a semidefinite programme.

A body is possible if its pseudo-inertia, the second moments of its mass, is positive semidefinite
(Traversaro et al. 2016; Wensing, Kim & Slotine 2018). Torques determine base parameters only; what
they leave open is drawn towards a prior by the entropic distance of Lee, Wensing & Park (2019),
the divergence tr(J₀⁻¹J) − log det(J₀⁻¹J) − 4 of the pseudo-inertias.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qddot.display.text import Readable
from qddot.errors import InvalidArgument, MissingPackage, NotIdentifiable, Unsupported
from qddot.identify.base_parameters import BaseParameters
from qddot.identify.torque_model import TorqueModel

__all__ = [
    "FeasibleFit",
    "fit_feasible",
    "is_feasible",
    "pseudo_inertia",
    "repair_prior",
    "validate_bounds",
]

_GYRATION = 0.01
"""Smallest radius of gyration of a prior, m: what is thinner is repaired."""
_NOT_NEGATIVE = {"armature", "viscous", "coulomb", "load"}
_OPTIMAL = "optimal"
Bounds = Mapping[str, tuple[float, float]]
Boxes = Mapping[str, tuple[Sequence[float], Sequence[float]]]


@dataclass(frozen=True, repr=False)
class FeasibleFit(Readable):
    """A full set of possible parameters, the solver's status, and remarks."""

    parameters: np.ndarray
    status: str
    notes: tuple[str, ...]


def pseudo_inertia(parameters: Any) -> np.ndarray:
    """Pseudo-inertia (… × 4 × 4) of ten parameters (m, m c, I about the origin)."""
    p = np.asarray(parameters, dtype=float)
    J = np.tensordot(p, _BASIS, axes=(-1, 0))
    return np.asarray(J)


def _basis() -> np.ndarray:
    """Pseudo-inertia of each unit parameter (10 × 4 × 4)."""
    basis = np.zeros((10, 4, 4))
    basis[0, 3, 3] = 1.0
    for k in range(3):
        basis[1 + k, k, 3] = basis[1 + k, 3, k] = 1.0
    for place, (i, j) in enumerate(((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)), start=4):
        if i == j:
            basis[place, [0, 1, 2], [0, 1, 2]] = 0.5
            basis[place, i, i] -= 1.0
        else:
            basis[place, i, j] = basis[place, j, i] = -1.0
    return basis


_BASIS = _basis()


def is_feasible(parameters: Any) -> np.ndarray:
    """Whether bodies (… × 10) have a pseudo-inertia that some distribution of mass has."""
    J = pseudo_inertia(parameters)
    return np.linalg.eigvalsh(J).min(axis=-1) >= -1e-9 * np.abs(J).max(axis=(-1, -2))


def repair_prior(parameters: np.ndarray, names: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """Priors with a positive definite pseudo-inertia, and which were repaired.

    A body that is thinner than a radius of gyration of 1 cm, or impossible, gets that radius.
    """
    repaired, notes = parameters.copy(), []
    for k, name in enumerate(names):
        m = parameters[k, 0]
        if m <= 0.0:
            continue
        J = pseudo_inertia(parameters[k])
        c = J[:3, 3] / m
        factors, axes = np.linalg.eigh(J[:3, :3] / m - np.outer(c, c))
        if factors[0] >= _GYRATION**2:
            continue
        second = (axes * np.maximum(factors, _GYRATION**2)) @ axes.T + np.outer(c, c)
        tensor = m * (np.trace(second) * np.eye(3) - second)
        repaired[k, 4:] = tensor[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
        notes.append(f"prior of {name!r} is singular or impossible: made 1 cm thick at least")
    return repaired, notes


def fit_feasible(
    model: TorqueModel,
    base: BaseParameters,
    normal: np.ndarray,
    values: np.ndarray,
    prior: np.ndarray | None,
    mass_bounds: Bounds | None = None,
    com_boxes: Boxes | None = None,
    pull: float = 1.0,
) -> FeasibleFit:
    """Parameters of possible bodies nearest to base parameters in the metric of the data.

    `normal` is the information of the data on the base parameters; `pull` weighs the entropic
    distance to `prior` (all parameters of the model). Refused without a prior and without bounds.
    """
    if prior is None and not mass_bounds:
        raise NotIdentifiable(
            "feasible parameters",
            "torques leave masses open, and neither a prior nor bounds close them (a solver would "
            "give tonnes)",
            "give prior=, a robot with plausible inertias, or mass_bounds={body: (least, most)}",
        )
    cp = _solver()
    bodies = model.robot.body_names
    rigid = model.rigid_count
    # unknowns in units of the prior's sizes, so that the solver sees numbers near one
    sizes = _parameter_sizes(model, prior)
    x = cp.Variable(len(model.names))
    theta = cp.multiply(sizes, x)
    # half the squared distance to the estimate, by the triangular root of the information
    length = np.sqrt(np.maximum(np.diag(normal), 1e-300))
    factors, vectors = np.linalg.eigh(normal / np.outer(length, length))
    root = (vectors * np.sqrt(np.maximum(factors, 0.0))).T * length
    cost = 0.5 * cp.sum_squares((root @ base.mixing * sizes) @ x - root @ values)
    constraints: list[Any] = []
    given, notes = (
        (None, []) if prior is None else repair_prior(prior[:rigid].reshape(-1, 10), bodies)
    )
    for k, name in enumerate(bodies):
        own = theta[10 * k : 10 * k + 10]
        added, limits = _body_terms(cp, own, None if given is None else given[k])
        cost += pull * added
        constraints += limits
        if mass_bounds and name in mass_bounds:
            low, high = mass_bounds[name]
            constraints += [own[0] >= low, own[0] <= high]
        if com_boxes and name in com_boxes:
            corner, other = (np.asarray(side, dtype=float) for side in com_boxes[name])
            constraints += [own[1:4] >= own[0] * corner, own[1:4] <= own[0] * other]
    # friction only brakes; what no torque tells stays near the prior
    for k in range(rigid, len(model.names)):
        if model.names[k].rsplit(".", 1)[1].split("@")[0] in _NOT_NEGATIVE:
            constraints.append(x[k] >= 0.0)
    start = 0.0 if prior is None else (prior / sizes)[rigid:]
    cost += 1e-3 * cp.sum_squares(x[rigid:] - start)
    problem = cp.Problem(cp.Minimize(cost), constraints)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            problem.solve(solver="CLARABEL")
    except cp.error.SolverError as error:
        raise _no_solution(str(error)) from error
    if x.value is None:
        raise _no_solution(problem.status)
    if problem.status != _OPTIMAL:
        notes.append(f"the solver stopped at {problem.status!r}: parameters are less accurate")
    parameters = sizes * np.asarray(x.value)
    return FeasibleFit(parameters, str(problem.status), tuple(notes))


def _solver() -> Any:
    """The modelling language, with its solver installed."""
    try:
        importlib.import_module("clarabel")
        return importlib.import_module("cvxpy")
    except ImportError as error:
        raise MissingPackage("cvxpy", 'fit(method="feasible")', "qddot[identify]") from error


def _body_terms(cp: Any, own: Any, prior: np.ndarray | None) -> tuple[Any, list[Any]]:
    """Entropic distance of a body to its prior, and the constraints that make it possible."""
    if prior is not None and prior[0] <= 0.0:
        return 0.0, [own == prior]
    J = sum(own[i] * _BASIS[i] for i in range(10))
    if prior is None:
        return 0.0, [J >> 0]
    half = np.linalg.cholesky(np.linalg.inv(pseudo_inertia(prior)))
    ratio = half.T @ J @ half
    return cp.trace(ratio) - cp.log_det((ratio + ratio.T) / 2), []


def _no_solution(status: str) -> NotIdentifiable:
    remedy = "widen mass_bounds or com_boxes, or look at the log with inspect"
    return NotIdentifiable("feasible parameters", f"the solver found none ({status})", remedy)


def _parameter_sizes(model: TorqueModel, prior: np.ndarray | None) -> np.ndarray:
    """Typical size of each parameter."""
    sizes = np.ones(len(model.names))
    if prior is None:
        return sizes
    for k in range(model.robot.model.nb):
        m = max(float(prior[10 * k]), 1e-3)
        inertia = max(float(np.abs(prior[10 * k + 4 : 10 * k + 10]).max()), 1e-4 * m)
        reach = np.sqrt(inertia / m)
        sizes[10 * k : 10 * k + 10] = [m, *[m * reach] * 3, *[inertia] * 6]
    return sizes


def validate_bounds(
    bounds: Bounds | None, boxes: Boxes | None, bodies: Sequence[str], method: str
) -> None:
    """Refuse bounds that a method has no use for, of no body, or that leave nothing."""
    for what, given in (("mass_bounds", bounds), ("com_boxes", boxes)):
        if given and method != "feasible":
            raise Unsupported(what, given, f'{method} has no bounds: use method="feasible"')
        for name in given or {}:
            if name not in bodies:
                accepted = f"bodies are {', '.join(map(repr, bodies))}"
                raise InvalidArgument(what, name, accepted)
    for pair in (bounds or {}).values():
        if not (len(pair) == 2 and 0.0 <= pair[0] < pair[1]):
            raise InvalidArgument("mass_bounds", pair, "a body has (least, most) in kg")
    for box in (boxes or {}).values():
        if [np.shape(side) for side in box] != [(3,), (3,)] or np.any(np.greater(*box)):
            accepted = "a body has two corners (x, y, z) in m, the lower one first"
            raise InvalidArgument("com_boxes", box, accepted)
