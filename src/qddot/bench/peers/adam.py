"""adam on JAX: compiled by XLA and mapped over the batch; arms only.

adam always has a floating base; with the base held still, the joint part of its results is that of
an arm on the ground.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qddot.bench.contender import CHECKED, Contender, Job, Skipped, urdf_of
from qddot.bench.subjects import bare_urdf

__all__ = ["FUNCTIONS", "contenders"]

_CALLS = {"mass_matrix": "mass_matrix", "bias": "bias_force", "gravity": "gravity_term"}
FUNCTIONS = frozenset(_CALLS)


def contenders(job: Job) -> list[Contender]:
    """The function under jit and vmap."""
    if job.subject.free:
        raise Skipped("XLA takes minutes to compile a robot with a free base")
    file = urdf_of(job.subject)
    import jax

    jax.config.update("jax_enable_x64", True)
    # the joint part of adam's function, with the base at rest at the origin
    import jax.numpy as jnp
    from adam.jax import KinDynComputations

    gravity = np.array([*(float(x) for x in job.robot.model.gravity), 0.0, 0.0, 0.0])
    robot = KinDynComputations(
        bare_urdf(file), list(job.robot.joint_names), gravity=jnp.asarray(gravity)
    )
    base, still = jnp.eye(4), jnp.zeros(6)
    batch = jax.jit(
        jax.vmap(
            {
                "mass_matrix": lambda q: robot.mass_matrix(base, q)[6:, 6:],
                "bias": lambda q, v: robot.bias_force(base, q, still, v)[6:],
                "gravity": lambda q: robot.gravity_term(base, q)[6:],
            }[job.function]
        )
    )
    arrays = [jax.numpy.asarray(x) for x in job.inputs.values()]

    def run() -> Any:
        return batch(*arrays).block_until_ready()

    def values() -> tuple[np.ndarray, ...]:
        return (np.asarray(run())[:CHECKED],)

    name = f"{_CALLS[job.function]}, jit(vmap)"
    return [Contender("adam (JAX)", name, job.states, run, values)]
