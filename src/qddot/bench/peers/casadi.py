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
        import casadi

        run()
        found = []
        for k, (output, nonzeros) in enumerate(
            zip(function(job.function).outputs, results, strict=True)
        ):
            # from the numbers that are not zero by structure to all of the first states
            pattern = mapped.sparsity_out(k)
            full = np.array(casadi.DM(pattern, nonzeros[: pattern.nnz()]).full())
            shape = output.shape_in(sizes(job.robot.model, job.options))
            width = shape[-1] if len(shape) > 1 else 1
            columns = (full[:, i * width : (i + 1) * width] for i in range(CHECKED))
            found.append(np.array([x.reshape(shape) for x in columns]))
        return tuple(found)

    return [Contender("CasADi", "Function.map, serial", states, run, values)]
