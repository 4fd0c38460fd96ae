"""Pinocchio: a Python call a state, and its own loop over a batch where it has one."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from qddot.bench.contender import CHECKED, Contender, Job, Skipped, looped, stacked
from qddot.bench.coordinates import PinocchioOrder, pinocchio_order
from qddot.bench.subjects import Subject

__all__ = ["FUNCTIONS", "contenders"]

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
}
_BATCHES = {"inverse_dynamics": "rneaInParallel", "forward_dynamics": "abaInParallel"}
FUNCTIONS = frozenset(_CALLS)


@lru_cache(maxsize=1)
def _loaded(subject: Subject) -> tuple[Any, PinocchioOrder]:
    import pinocchio as pin

    if subject.file is None or subject.file.suffix != ".urdf":
        raise Skipped("not a URDF")
    root = (pin.JointModelFreeFlyer(),) if subject.free else ()
    model = pin.buildModelFromUrdf(str(subject.file), *root)
    return model, pinocchio_order(subject.robot, model)


def contenders(job: Job) -> list[Contender]:
    """The call for each state and, for inverse and forward dynamics, the batch on one thread."""
    import pinocchio as pin

    model, order = _loaded(job.subject)
    name, data = _CALLS[job.function], model.createData()
    call = partial(getattr(pin, name), model, data)
    columns: list[Any] = [_moved(order, n, x) for n, x in job.first().items()]
    if job.function == "frame_jacobian":
        frame = model.getFrameId(job.options["frame"])
        columns += [[frame] * len(columns[0]), [pin.LOCAL_WORLD_ALIGNED] * len(columns[0])]
    ours = _IN_OUR_ORDER.get(job.function, _vector)

    def values() -> tuple[np.ndarray, ...]:
        few = zip(*(c[:CHECKED] for c in columns), strict=True)
        return stacked([ours(order, _copied(call(*x))) for x in few])

    single = Contender("Pinocchio", f"pin.{name}", len(columns[0]), looped(call, *columns), values)
    batch = _batch(job, model, order) if job.function in _BATCHES else None
    return [single] if batch is None else [single, batch]


def _batch(job: Job, model: Any, order: PinocchioOrder) -> Contender | None:
    """Pinocchio's loop over the columns of matrices, on one thread."""
    import pinocchio as pin

    name = _BATCHES[job.function]
    if not hasattr(pin, name) or not hasattr(pin, "ModelPool"):
        return None
    pool = pin.ModelPool(model, 1)
    columns = [np.asfortranarray(_moved(order, n, x).T) for n, x in job.inputs.items()]
    out = np.zeros((model.nv, job.states), order="F")
    run = partial(getattr(pin, name), 1, pool, *columns, out)

    def values() -> tuple[np.ndarray, ...]:
        run()
        return (out.T[:CHECKED, order.velocities],)

    return Contender("Pinocchio", f"pin.{name}, 1 thread", job.states, run, values)


def _moved(order: PinocchioOrder, name: str, x: np.ndarray) -> np.ndarray:
    return order.configurations(x) if name == "q" else order.tangents(x)


def _copied(value: Any) -> Any:
    """A result that the next call does not overwrite."""
    return tuple(x.copy() for x in value) if isinstance(value, tuple) else value.copy()


def _vector(order: PinocchioOrder, x: np.ndarray) -> np.ndarray:
    return x[order.velocities]


def _square(order: PinocchioOrder, A: np.ndarray) -> np.ndarray:
    return A[np.ix_(order.velocities, order.velocities)]


def _symmetric(order: PinocchioOrder, A: np.ndarray) -> np.ndarray:
    """A matrix of which Pinocchio fills the upper triangle."""
    return _square(order, np.triu(A) + np.triu(A, 1).T)


def _derivatives(order: PinocchioOrder, value: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    A, B, M = value
    return _square(order, A), _square(order, B), _symmetric(order, M)


_IN_OUR_ORDER: dict[str, Callable[[PinocchioOrder, Any], Any]] = {
    "mass_matrix": _symmetric,
    "inverse_mass_matrix": _symmetric,
    "coriolis_matrix": _square,
    "frame_jacobian": lambda order, J: J[:, order.velocities],
    "centroidal_map": lambda order, A: A[:, order.velocities],
    "torque_regressor": lambda order, Y: Y[np.ix_(order.velocities, order.parameters)],
    "inverse_dynamics_derivatives": _derivatives,
    "forward_dynamics_derivatives": _derivatives,
}
