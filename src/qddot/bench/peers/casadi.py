"""CasADi: the same text of an algorithm in CasADi's own virtual machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from qddot.algorithms.catalogue import function, sizes
from qddot.bench.contender import CHECKED, Contender, Job

__all__ = ["contenders"]

_MOST_STATES = 64


def contenders(job: Job) -> list[Contender]:
    """A serial map over states, on buffers that are used again."""
    states = min(job.states, _MOST_STATES)
    mapped: Any = job.robot.casadi(job.function, **job.options).map(states)
    # CasADi stores by columns: one column of a mapped input is one state
    arrays = [np.ascontiguousarray(x) for x in job.first(states).values()]
    results = [np.zeros(max(1, mapped.nnz_out(k))) for k in range(mapped.n_out())]
    buffer, evaluate = mapped.buffer()
    for k, x in enumerate(arrays):
        buffer.set_arg(k, x.data)
    for k, x in enumerate(results):
        buffer.set_res(k, x.data)

    # the evaluator keeps neither its buffer nor the arrays alive
    def run(_kept: Any = (buffer, arrays, results)) -> None:
        evaluate()

    def values() -> tuple[np.ndarray, ...]:
        run()
        return tuple(_output_array(job, mapped, k, x) for k, x in enumerate(results))

    return [Contender("CasADi", "Function.map, serial", states, run, values)]


def _output_array(job: Job, mapped: Any, k: int, nonzeros: np.ndarray) -> np.ndarray:
    """An output at the first states, from the numbers that are not zero by structure."""
    import casadi

    shape = function(job.function).outputs[k].shape_in(sizes(job.robot.model, job.options))
    pattern = mapped.sparsity_out(k)
    full = np.array(casadi.DM(pattern, nonzeros[: pattern.nnz()]).full())
    columns = shape[-1] if len(shape) > 1 else 1
    states = [full[:, i * columns : (i + 1) * columns] for i in range(CHECKED)]
    return np.array([x.reshape(shape) for x in states])
