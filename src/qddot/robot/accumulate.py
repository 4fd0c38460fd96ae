"""Reductions of a function over a batch, block by block: its results are never held as a whole.

A block of results stays in the cache until it is reduced. Blocks are summed in strips and strips in
their order, so that a sum does not depend on the number of threads.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from qddot.algorithms.catalogue import function, sizes
from qddot.compile.runtime.gufunc import aligned_zeros
from qddot.compile.runtime.threads import SETTING, run_shares, threads
from qddot.display.text import Readable
from qddot.errors import InvalidArgument, ShapeMismatch, Unsupported
from qddot.robot.arrays import as_numbers
from qddot.robot.dask_arrays import is_lazy
from qddot.robot.interpret import normalise_options, validate_arrays
from qddot.robot.wrenches import stack_wrenches

__all__ = ["NormalEquations", "TriangularFactor", "accumulate"]

_BLOCK_BYTES = 1 << 19
"""Results of a block, which stay in the second cache until they are reduced."""
_STRIPS = 64
"""Parts of a batch that are summed on their own, whatever the number of threads."""
_TALL = 4
"""Rows of a block for each column: what is summed is then smaller than the block."""


@dataclass(frozen=True, repr=False)
class NormalEquations(Readable):
    """Sums over the rows of a linear model Y x = y with weights W.

    `matrix` is YᵀWY, `vector` YᵀWy and `square` yᵀWy (None without a right-hand side), `rows` the
    number of rows.
    """

    matrix: np.ndarray
    vector: np.ndarray | None
    square: float | None
    rows: int

    def __add__(self, other: NormalEquations) -> NormalEquations:
        """The sums over the rows of both."""
        return NormalEquations(
            self.matrix + other.matrix,
            None if self.vector is None or other.vector is None else self.vector + other.vector,
            None if self.square is None or other.square is None else self.square + other.square,
            self.rows + other.rows,
        )


@dataclass(frozen=True, repr=False)
class TriangularFactor(Readable):
    """QR factorisation of the rows of a linear model Y x = y with weights W, without Q.

    `R` is upper triangular with RᵀR = YᵀWY; least squares solve R x = `z`, and leave the sum of
    weighted squares `residual` (both None without a right-hand side).
    """

    R: np.ndarray
    z: np.ndarray | None
    residual: float | None
    rows: int

    def __add__(self, other: TriangularFactor) -> TriangularFactor:
        """The factor of the rows of both."""
        stacked = np.concatenate([self._augmented_matrix(), other._augmented_matrix()])
        return _factor_of(stacked, len(self.R), self.rows + other.rows)

    def _augmented_matrix(self) -> np.ndarray:
        """R, with z and the length of the residual as a last column."""
        if self.z is None or self.residual is None:
            return self.R
        last = np.append(self.z, math.sqrt(self.residual))
        return np.column_stack([np.vstack([self.R, np.zeros(len(self.R))]), last])


def _factor_of(joined: np.ndarray, columns: int, rows: int) -> TriangularFactor:
    """The factor of rows [Y y], or Y, that have been multiplied by the roots of their weights."""
    width = joined.shape[1]
    square = np.zeros((width, width))
    found = np.linalg.qr(joined, mode="r")
    square[: len(found)] = found
    R = square[:columns, :columns]
    if width == columns:
        return TriangularFactor(R, None, None, rows)
    return TriangularFactor(R, square[:columns, -1], float(square[-1, -1] ** 2), rows)


def _weigh_rows(
    Y: np.ndarray, y: np.ndarray | None, w: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """The rows of a block (states × rows × columns) and y, times the roots of their weights."""
    rows = Y.shape[0] * Y.shape[1]
    root = None if w is None else np.sqrt(w)
    left = Y if root is None else Y * root[..., None]
    right = y if y is None or root is None else y * root
    return left.reshape(rows, Y.shape[2]), None if right is None else right.reshape(rows)


def _sum_products(Y: np.ndarray, y: np.ndarray | None, w: np.ndarray | None) -> NormalEquations:
    """The normal equations of a block."""
    A, b = _weigh_rows(Y, y, w)
    if b is None:
        return NormalEquations(A.T @ A, None, None, len(A))
    return NormalEquations(A.T @ A, A.T @ b, float(b @ b), len(A))


def _factor_rows(Y: np.ndarray, y: np.ndarray | None, w: np.ndarray | None) -> TriangularFactor:
    """The triangular factor of a block."""
    A, b = _weigh_rows(Y, y, w)
    return _factor_of(A if b is None else np.column_stack([A, b]), A.shape[1], len(A))


Reducer = Callable[..., Any]
_REDUCERS: dict[str, Reducer] = {"gram": _sum_products, "qr": _factor_rows}


def accumulate(
    robot: Any,
    name: str,
    arrays: Sequence[Any],
    reducer: str | Reducer,
    *,
    rhs: Any = None,
    weights: Any = None,
    on_step: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Any:
    """The sum over the blocks of a batch of what the reducer makes of the results of a block."""
    row = function(name)
    if any(map(is_lazy, (*arrays, rhs, weights))):
        accepted = "arrays of NumPy and memory maps are taken; compute a Dask array chunk by chunk"
        raise Unsupported("accumulate", "a Dask array", accepted)
    if "f_ext" in options:
        options["forces"], wrenches = stack_wrenches(options.pop("f_ext"))
        arrays = (*arrays, *wrenches)
    options = normalise_options(row, options)
    dims = sizes(robot.model, options)
    inputs, batch = validate_arrays(row, arrays, dims)
    outputs = [o.shape_in(dims) for o in row.outputs]
    # the function that reduces a block, and the fewest states that it should have
    run: Reducer
    if callable(reducer):
        run, fewest = partial(_reduce_by, reducer), 1
    elif reducer not in _REDUCERS:
        accepted = f"it is {', '.join(map(repr, _REDUCERS))}, or a function of the results"
        raise InvalidArgument("accumulate: reducer", reducer, accepted)
    elif len(outputs) != 1 or len(outputs[0]) != 2:
        accepted = f"{reducer!r} takes one matrix a state; give a function of its results"
        raise Unsupported("accumulate", name, accepted)
    else:
        rows, columns = outputs[0]
        run, fewest = _REDUCERS[reducer], -(-_TALL * columns // max(1, rows))
    # what is read of a block: the inputs, then what stands beside the results
    cores = [len(a.shape) for a in row.inputs[: len(inputs)]]
    read = [_block_reader(x, n, batch) for x, n in zip(inputs, cores, strict=True)]
    beside = {"rhs": rhs, "weights": weights}
    sides = [_side_reader(key, x, batch, outputs[0][:1]) for key, x in beside.items()]
    # blocks of the batch as one axis, and the strips of them that are summed on their own
    states, numbers = math.prod(batch), sum(map(math.prod, outputs))
    size = min(max(1, fewest, _BLOCK_BYTES // (8 * max(1, numbers))), max(1, states))
    blocks = max(1, -(-states // size))
    strips = min(blocks, _STRIPS)
    ends = [min(states, size * (blocks * k // strips)) for k in range(1, strips + 1)]
    kind = np.result_type(float, *inputs)

    def sum_strip(first: int, last: int) -> Any:
        made = tuple(aligned_zeros((size, *shape), kind) for shape in outputs)
        total = None
        for k in range(first, max(last, first + 1), size):
            part = slice(k, min(k + size, last))
            results = tuple(x[: part.stop - k] for x in made)
            out = results if len(results) > 1 else results[0]
            robot.call(name, *(r(part) for r in read), out=out, **options)
            value = run(*results, *(r and r(part) for r in sides))
            total = value if total is None else total + value
        return total

    return _sum_in_order(sum_strip, ends, on_step)


def _reduce_by(reducer: Reducer, *given: Any) -> Any:
    """The value of a user's reducer on a block, copied if it is a view: blocks are reused."""
    arrays = [x for x in given if x is not None]
    value = reducer(*arrays)
    if value is None:
        raise InvalidArgument("accumulate: reducer", "a function", "it must return what is summed")
    shared = isinstance(value, np.ndarray) and any(np.may_share_memory(value, x) for x in arrays)
    return value.copy() if shared else value


def _block_reader(x: np.ndarray, core: int, batch: tuple[int, ...]) -> Callable[[slice], Any]:
    """Reads a part of the batch, taken as one axis, from an array that broadcasts to it."""
    shape = x.shape[x.ndim - core :]
    if x.shape == (*batch, *shape) and (len(batch) == 1 or x.flags.c_contiguous):
        flat = x.reshape(-1, *shape) if len(batch) != 1 else x
        return lambda part: flat[part]
    whole = np.broadcast_to(x, (*batch, *shape))
    return lambda part: whole[np.unravel_index(np.arange(part.start, part.stop), batch)]


def _side_reader(
    name: str, given: Any, batch: tuple[int, ...], rows: tuple[int, ...]
) -> Callable[[slice], Any] | None:
    """A function that reads `rhs` or `weights` for a part of the batch; None where not given."""
    if given is None:
        return None
    x = as_numbers("accumulate", name, given)
    try:
        np.broadcast_to(x, (*batch, *rows))
    except ValueError:
        raise ShapeMismatch("accumulate", name, str((*batch, *rows)), x.shape) from None
    # leading axes of length one, so that the last is that of the rows
    x = x.reshape((1,) * (1 + len(batch) - x.ndim) + x.shape)
    x = np.broadcast_to(x, (*x.shape[: x.ndim - len(rows)], *rows))
    read = _block_reader(x, len(rows), batch)
    if name != "weights":
        return read

    def read_weights(part: slice) -> np.ndarray:
        found = read(part)
        if not (np.isfinite(found).all() and (found >= 0.0).all()):
            raise InvalidArgument("accumulate: weights", given, "they are finite, zero or more")
        return found

    return read_weights


def _sum_in_order(
    sum_strip: Callable[[int, int], Any],
    ends: Sequence[int],
    on_step: Callable[[int, int], None] | None,
) -> Any:
    """The sum of all strips, by the threads of the setting, each added when its turn has come."""
    waiting: dict[int, Any] = {}
    total: Any = None
    added = 0
    lock = threading.Lock()

    def run(part: slice) -> None:
        strip = part.start
        # a strip is the work of one thread, its blocks are too
        with threads(1):
            value = sum_strip(ends[strip - 1] if strip else 0, ends[strip])
        nonlocal total, added
        with lock:
            waiting[strip] = value
            while added in waiting:
                value = waiting.pop(added)
                total = total + value if added else value
                added += 1
                if on_step:
                    on_step(ends[added - 1], ends[-1])

    shares = tuple(slice(k, k + 1) for k in range(len(ends)))
    run_shares(run, shares, min(SETTING.threads, len(shares)))
    return total
