"""Drake: the calls of a MultibodyPlant, a state at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

from qddot import adapt
from qddot.bench.contender import CHECKED, Contender, Job, Skipped, looped, stacked
from qddot.bench.subjects import Subject, bare_urdf
from qddot.errors import JointsDiffer

__all__ = ["FUNCTIONS", "contenders"]

_CALLS = {
    "inverse_dynamics": "CalcForceElementsContribution, CalcInverseDynamics",
    "mass_matrix": "CalcMassMatrix",
}
FUNCTIONS = frozenset(_CALLS)


@lru_cache(maxsize=1)
def _loaded(subject: Subject) -> tuple[Any, adapt.Adapter]:
    """The same URDF without shapes, its root welded to the world unless it is free."""
    from pydrake.multibody.parsing import Parser
    from pydrake.multibody.plant import MultibodyPlant

    if subject.file is None or subject.file.suffix != ".urdf":
        raise Skipped("not a URDF")
    plant = MultibodyPlant(0.0)
    try:
        with _warnings() as heard:
            (instance,) = Parser(plant).AddModelsFromString(bare_urdf(subject.file), "urdf")
        if any("inertia" in text for text in heard):
            raise Skipped("Drake replaces an inertia of the file that no body can have")
        if not subject.free:
            joints = [plant.get_joint(j) for j in plant.GetJointIndices(instance)]
            held = {j.child_body().index() for j in joints}
            for body in plant.GetBodyIndices(instance):
                if body not in held:
                    root = plant.get_body(body).body_frame()
                    plant.WeldFrames(plant.world_frame(), root)
        plant.Finalize()
    except (RuntimeError, ValueError) as error:
        raise Skipped("Drake refuses the file: " + " ".join(str(error).split())) from error
    gravity = [float(x) for x in subject.robot.model.gravity]
    plant.mutable_gravity_field().set_gravity_vector(gravity)
    try:
        return plant, adapt.drake(subject.robot, plant)
    except JointsDiffer as error:
        raise Skipped(str(error)) from error


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """What Drake says while it loads a file, kept from the terminal."""
    logger, heard = logging.getLogger("drake"), []

    def keep(record: logging.LogRecord) -> bool:
        heard.append(record.getMessage())
        return False

    logger.addFilter(keep)
    try:
        yield heard
    finally:
        logger.removeFilter(keep)


def contenders(job: Job) -> list[Contender]:
    """The calls for each state."""
    (plant, adapter), inputs = _loaded(job.subject), job.first()
    q, context = inputs["q"], plant.CreateDefaultContext()
    positions = adapter.to_q(q)
    if job.function == "mass_matrix":
        call, columns = _mass_matrix(plant, context), [positions]
    else:
        call = _inverse_dynamics(plant, context)
        v = adapter.to_v(q, inputs["v"])
        accelerations = adapter.to_a(q, inputs["v"], inputs["a"])
        columns = [np.concatenate([positions, v], axis=1), accelerations]

    def values() -> tuple[np.ndarray, ...]:
        few = zip(*(c[:CHECKED] for c in columns), strict=True)
        (x,) = stacked([call(*state) for state in few])
        back = adapter.from_mass_matrix if job.function == "mass_matrix" else adapter.from_tau
        return (back(q[:CHECKED], x),)

    return [Contender("Drake", _CALLS[job.function], len(q), looped(call, *columns), values)]


def _inverse_dynamics(plant: Any, context: Any) -> Callable[..., np.ndarray]:
    from pydrake.multibody.tree import MultibodyForces

    forces = MultibodyForces(plant)

    def call(state: np.ndarray, a: np.ndarray) -> np.ndarray:
        plant.SetPositionsAndVelocities(context, state)
        forces.SetZero()
        plant.CalcForceElementsContribution(context, forces)
        return plant.CalcInverseDynamics(context, a, forces)

    return call


def _mass_matrix(plant: Any, context: Any) -> Callable[..., np.ndarray]:
    def call(q: np.ndarray) -> np.ndarray:
        plant.SetPositions(context, q)
        return plant.CalcMassMatrix(context)

    return call
