"""Drake: the calls of a MultibodyPlant, a state at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from qddot import engines
from qddot.bench.contender import (
    CHECKED,
    Contender,
    Job,
    Skipped,
    loop_over_states,
    stack_states,
    urdf_of,
)
from qddot.bench.subjects import Subject, bare_urdf
from qddot.loaders.drake import drake_messages

__all__ = ["FUNCTIONS", "contenders"]

_CALLS = {
    "inverse_dynamics": "CalcForceElementsContribution, CalcInverseDynamics",
    "mass_matrix": "CalcMassMatrix",
}
FUNCTIONS = frozenset(_CALLS)


@lru_cache(maxsize=1)
def _load_plant(subject: Subject) -> tuple[Any, engines.Adapter]:
    """The same URDF without shapes, its root welded to the world unless it is free."""
    from pydrake.multibody.parsing import Parser
    from pydrake.multibody.plant import MultibodyPlant

    text = bare_urdf(urdf_of(subject))
    plant = MultibodyPlant(0.0)
    try:
        with drake_messages() as heard:
            (instance,) = Parser(plant).AddModelsFromString(text, "urdf")
        if any("inertia" in message for message in heard):
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
    return plant, engines.drake(subject.robot, plant)


def contenders(job: Job) -> list[Contender]:
    """The calls for each state."""
    (plant, adapter), inputs = _load_plant(job.subject), job.first()
    from pydrake.multibody.tree import MultibodyForces

    forces = MultibodyForces(plant)
    q, context = inputs["q"], plant.CreateDefaultContext()
    positions = adapter.to_q(q)

    def mass_matrix(q: np.ndarray) -> np.ndarray:
        plant.SetPositions(context, q)
        return plant.CalcMassMatrix(context)

    def inverse_dynamics(state: np.ndarray, a: np.ndarray) -> np.ndarray:
        plant.SetPositionsAndVelocities(context, state)
        forces.SetZero()
        plant.CalcForceElementsContribution(context, forces)
        return plant.CalcInverseDynamics(context, a, forces)

    call: Callable[..., np.ndarray] = mass_matrix
    columns = [positions]
    if job.function != "mass_matrix":
        v = adapter.to_v(q, inputs["v"])
        accelerations = adapter.to_a(q, inputs["v"], inputs["a"])
        call, columns = inverse_dynamics, [np.concatenate([positions, v], axis=1), accelerations]

    def values() -> tuple[np.ndarray, ...]:
        few = zip(*(c[:CHECKED] for c in columns), strict=True)
        (x,) = stack_states([call(*state) for state in few])
        back = adapter.from_mass_matrix if job.function == "mass_matrix" else adapter.from_tau
        return (back(q[:CHECKED], x),)

    return [Contender("Drake", _CALLS[job.function], *loop_over_states(call, *columns), values)]
