"""Pinocchio: a Python call a state, and its own loop over a batch where it has one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from qddot import engines
from qddot.bench.contender import (
    CHECKED,
    Contender,
    Job,
    loop_over_states,
    stack_states,
    states_in_brief_time,
    urdf_of,
)
from qddot.bench.subjects import Subject

__all__ = ["FUNCTIONS", "contenders", "prepare_call"]

_CALLS = {
    "inverse_dynamics": "rnea",
    "forward_dynamics": "aba",
    "mass_matrix": "crba",
    "coriolis_matrix": "computeCoriolisMatrix",
    "gravity": "computeGeneralizedGravity",
    "bias": "nonLinearEffects",
    "frame_jacobian": "computeFrameJacobian",
    "centroidal_map": "computeCentroidalMap",
    "torque_regressor": "computeJointTorqueRegressor",
    "inverse_dynamics_derivatives": "computeRNEADerivatives",
    "forward_dynamics_derivatives": "computeABADerivatives",
    "inverse_mass_matrix": "computeMinverse",
    "constrained_dynamics": "constraintDynamics",
    "hybrid_dynamics": "crba, rnea with NumPy",
    "operational_space": "computeMinverse, … with NumPy",
}
_BATCHES = {"inverse_dynamics": "rneaInParallel", "forward_dynamics": "abaInParallel"}
_FEW = 64
"""The fewest states of a batch, so that the call itself costs next to nothing."""
FUNCTIONS = frozenset(_CALLS)


@dataclass(frozen=True)
class _Order:
    """Where the velocities and the inertial parameters of qddot stand in Pinocchio's vectors."""

    adapter: engines.Adapter
    velocities: np.ndarray
    parameters: np.ndarray


@lru_cache(maxsize=1)
def _load_model(subject: Subject) -> tuple[Any, _Order]:
    import pinocchio as pin

    file = urdf_of(subject)
    root = (pin.JointModelFreeFlyer(),) if subject.free else ()
    model = pin.buildModelFromUrdf(str(file), *root)
    adapter = engines.pinocchio(subject.robot, model)
    velocities = adapter.velocity_map(subject.robot.neutral()).argmax(axis=0)
    first = 10 * np.array([row or 0 for row in adapter.rows], int)[:, None] - 10
    return model, _Order(adapter, velocities, np.ravel(first + np.arange(10)))


Values = Callable[[], tuple[np.ndarray, ...]]


def contenders(job: Job) -> list[Contender]:
    """The call for each state and, for inverse and forward dynamics, the batch on one thread."""
    call, columns, values = prepare_call(job)
    name, states = f"pin.{_CALLS[job.function]}", loop_over_states(call, *columns)
    single = Contender("Pinocchio", name, *states, values)
    batch = _batch_call(job, *_load_model(job.subject)) if job.function in _BATCHES else None
    return [single] if batch is None else [single, batch]


def prepare_call(job: Job) -> tuple[Callable[..., Any], list[Any], Values]:
    """The call of one state, its arguments by state, and results at some in our order."""
    import pinocchio as pin

    model, order = _load_model(job.subject)
    name, data = _CALLS[job.function], model.createData()
    call = partial(_SCRIPTS.get(job.function) or getattr(pin, name), model, data)
    columns: list[Any] = [_reorder_input(order, n, x) for n, x in job.first().items()]
    if "frame" in job.options:
        frame = model.getFrameId(job.options["frame"])
        columns += [[frame] * len(columns[0]), [pin.LOCAL_WORLD_ALIGNED] * len(columns[0])]
    if "constraints" in job.options:
        # a point contact as Pinocchio wants it: models, data, settings of its solver
        import pinocchio as pin

        at = model.frames[model.getFrameId(job.options["constraints"][0].frame)]
        kind, axes = pin.ContactType.CONTACT_3D, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
        constraint = pin.RigidConstraintModel(kind, model, at.parentJoint, at.placement, axes)
        models, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
        models.append(constraint)
        datas.append(constraint.createData())
        pin.initConstraintDynamics(model, data, models, datas)
        contact = models, datas, pin.ProximalSettings(1e-12, 0.0, 1)
        columns += [[x] * len(columns[0]) for x in contact]
    if "prescribed" in job.options:
        # which of Pinocchio's velocities belong to the joints that are prescribed
        held = np.zeros(job.robot.nv, bool)
        for joint in job.options["prescribed"]:
            held[order.velocities[job.robot.model.body_of_joint(joint).iv]] = True
        columns.append([held] * len(columns[0]))
    ours = _IN_OUR_ORDER.get(job.function, _reorder_vector)

    def values() -> tuple[np.ndarray, ...]:
        few = zip(*(c[:CHECKED] for c in columns), strict=True)
        found = []
        for x in few:
            # copied, as the next call overwrites it
            value = call(*x)
            copy = tuple(y.copy() for y in value) if isinstance(value, tuple) else value.copy()
            found.append(ours(order, copy))
        return stack_states(found)

    return call, columns, values


def _batch_call(job: Job, model: Any, order: _Order) -> Contender | None:
    """Pinocchio's loop over the columns of matrices, on one thread."""
    import pinocchio as pin

    name = _BATCHES[job.function]
    if not hasattr(pin, name) or not hasattr(pin, "ModelPool"):
        return None
    pool = pin.ModelPool(model, 1)
    columns = [_reorder_input(order, n, x).T for n, x in job.inputs.items()]

    def of(states: int) -> tuple[np.ndarray, Callable[[], Any]]:
        given = [np.asfortranarray(x[:, :states]) for x in columns]
        out = np.zeros((model.nv, states), order="F")
        return out, partial(getattr(pin, name), 1, pool, *given, out)

    few = min(job.states, _FEW)
    states = max(few, states_in_brief_time(of(few)[1], few, job.states))
    out, run = of(states)

    def values() -> tuple[np.ndarray, ...]:
        run()
        return (out.T[:CHECKED, order.velocities],)

    return Contender("Pinocchio", f"pin.{name}, 1 thread", states, run, values)


def _constrained_dynamics(model: Any, data: Any, *given: Any) -> tuple[np.ndarray, ...]:
    """Accelerations and the force of the contact."""
    import pinocchio as pin

    return pin.constraintDynamics(model, data, *given), data.lambda_c


def _hybrid_dynamics(
    model: Any, data: Any, q: np.ndarray, v: np.ndarray, a: np.ndarray, tau: np.ndarray, held: Any
) -> tuple[np.ndarray, ...]:
    """A partition of M as a script has it; the free joints' accelerations, then all torques."""
    import pinocchio as pin

    a = np.where(held, a, 0.0)
    rest = (tau - pin.rnea(model, data, q, v, a))[~held]
    a[~held] = np.linalg.solve(pin.crba(model, data, q)[np.ix_(~held, ~held)], rest)
    return a, pin.rnea(model, data, q, v, a)


def _operational_space(
    model: Any, data: Any, q: np.ndarray, v: np.ndarray, frame: int, reference: Any
) -> tuple[np.ndarray, ...]:
    """Λ, J̄, μ and p as a script computes them, by the quickest calls that there are."""
    import pinocchio as pin

    Minv = pin.computeMinverse(model, data, q)
    g = pin.computeGeneralizedGravity(model, data, q)
    coriolis = pin.nonLinearEffects(model, data, q, v) - g
    J = pin.computeFrameJacobian(model, data, q, frame, reference)
    pin.forwardKinematics(model, data, q, v, np.zeros(model.nv))
    drift = pin.getFrameClassicalAcceleration(model, data, frame, reference).vector
    X = Minv @ J.T
    Lambda = np.linalg.inv(J @ X)
    Jbar = X @ Lambda
    return Lambda, Jbar, Jbar.T @ coriolis - Lambda @ drift, Jbar.T @ g


_SCRIPTS: dict[str, Callable[..., Any]] = {
    "constrained_dynamics": _constrained_dynamics,
    "hybrid_dynamics": _hybrid_dynamics,
    "operational_space": _operational_space,
}


def _reorder_input(order: _Order, name: str, x: np.ndarray) -> np.ndarray:
    if name == "q":
        return order.adapter.to_q(x)
    moved = np.empty_like(x)
    moved[:, order.velocities] = x
    return moved


def _reorder_vector(order: _Order, x: np.ndarray) -> np.ndarray:
    return x[order.velocities]


def _reorder_matrix(order: _Order, A: np.ndarray) -> np.ndarray:
    return A[np.ix_(order.velocities, order.velocities)]


def _mirror_triangle(order: _Order, A: np.ndarray) -> np.ndarray:
    """A matrix of which Pinocchio fills the upper triangle."""
    return _reorder_matrix(order, np.triu(A) + np.triu(A, 1).T)


def _reorder_derivatives(order: _Order, value: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    A, B, M = value
    return _reorder_matrix(order, A), _reorder_matrix(order, B), _mirror_triangle(order, M)


_IN_OUR_ORDER: dict[str, Callable[[_Order, Any], Any]] = {
    "mass_matrix": _mirror_triangle,
    "inverse_mass_matrix": _mirror_triangle,
    "coriolis_matrix": _reorder_matrix,
    "frame_jacobian": lambda order, J: J[:, order.velocities],
    "centroidal_map": lambda order, A: A[:, order.velocities],
    "torque_regressor": lambda order, Y: Y[np.ix_(order.velocities, order.parameters)],
    "inverse_dynamics_derivatives": _reorder_derivatives,
    "forward_dynamics_derivatives": _reorder_derivatives,
    "constrained_dynamics": lambda order, x: (_reorder_vector(order, x[0]), x[1]),
    "hybrid_dynamics": lambda order, x: (
        _reorder_vector(order, x[0]),
        _reorder_vector(order, x[1]),
    ),
    "operational_space": lambda order, x: (x[0], x[1][order.velocities], *x[2:]),
}
