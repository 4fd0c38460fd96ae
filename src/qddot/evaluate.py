"""Run a catalogue function on arrays (interpreted) or on symbols (CasADi).

The interpreted form is the definition of a function: the text of the algorithm itself, run with one
scalar for each coordinate. For a batch that scalar is an array over the leading axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qddot.algorithms.catalogue import Function, sizes
from qddot.errors import NotUnderstood, ShapeMismatch
from qddot.model import Model

if TYPE_CHECKING:
    import casadi

__all__ = ["interpret", "symbolic"]


def interpret(
    row: Function, model: Model, arrays: Sequence[Any], options: Mapping[str, Any]
) -> np.ndarray:
    """The value of a function on arrays whose last axes are its signature."""
    dims = sizes(model, len(options.get("forces", ())))
    inputs, batch = _checked(row, arrays, dims)
    shape = row.output.shape_in(dims)
    if any(x.dtype == object for x in inputs):
        return _each_state(row, model, inputs, batch, shape, options)
    scalars = [_scalars(x, len(arg.shape)) for x, arg in zip(inputs, row.inputs, strict=False)]
    return _array(row.algorithm(model, *scalars, **options), batch, shape, inputs)


def _checked(
    row: Function, arrays: Sequence[Any], dims: Mapping[str, int]
) -> tuple[list[np.ndarray], tuple[int, ...]]:
    """Arrays of numbers with the right last axes, and the batch shape they broadcast to."""
    inputs, batches = [], []
    for argument, given in zip(row.inputs, arrays, strict=False):
        try:
            x = np.asarray(given)
        except ValueError as error:
            raise NotUnderstood(f"{row.name}: {argument.name}", given, "needs an array") from error
        if x.dtype.kind not in "fciubO":
            raise NotUnderstood(f"{row.name}: {argument.name}", given, "needs numbers")
        core = argument.shape_in(dims)
        if x.ndim < len(core) or x.shape[x.ndim - len(core) :] != core:
            axes = [f"{s}={n}" for s, n in zip(argument.shape, core, strict=True)]
            raise ShapeMismatch(row.name, argument.name, f"(..., {', '.join(axes)})", x.shape)
        inputs.append(x.astype(float) if x.dtype.kind in "iub" else x)
        batches.append(x.shape[: x.ndim - len(core)])
    try:
        return inputs, np.broadcast_shapes(*batches)
    except ValueError:
        raise NotUnderstood(f"{row.name}: batch axes", batches, "they must broadcast") from None


def _scalars(x: np.ndarray, core: int) -> Any:
    """Nested lists of scalars over the last axes: numbers for one state, arrays for a batch."""
    if x.ndim == core:
        return x.tolist()
    return [_scalars(x[..., i, :] if core == 2 else x[..., i], core - 1) for i in range(x.shape[-core])] if core else x


def _leaves(value: Any, shape: Sequence[int]) -> list[Any]:
    """The scalars of nested sequences of this shape, in order."""
    if not shape:
        return [value]
    return [leaf for part in value for leaf in _leaves(part, shape[1:])]


def _array(
    value: Any, batch: tuple[int, ...], shape: tuple[int, ...], inputs: Sequence[np.ndarray]
) -> np.ndarray:
    """An array of shape batch + shape from what an algorithm returned."""
    leaves = _leaves(value, shape)
    result = np.empty((*batch, len(leaves)), np.result_type(np.float32, *inputs, *{type(x) for x in leaves if not isinstance(x, np.ndarray)} - {float, int}))
    for i, leaf in enumerate(leaves):
        result[..., i] = leaf
    return result.reshape(batch + shape)


def _each_state(
    row: Function,
    model: Model,
    inputs: Sequence[np.ndarray],
    batch: tuple[int, ...],
    shape: tuple[int, ...],
    options: Mapping[str, Any],
) -> np.ndarray:
    """State by state, for numbers that are Python objects (mpmath)."""
    cores = [len(argument.shape) for argument in row.inputs[: len(inputs)]]
    spread = [
        np.broadcast_to(x, batch + x.shape[x.ndim - n :]) for x, n in zip(inputs, cores, strict=True)
    ]
    result = np.empty(batch + shape, dtype=object)
    for index in np.ndindex(*batch):
        value = row.algorithm(model, *(x[index].tolist() for x in spread), **options)
        flat = np.empty(int(np.prod(shape)), dtype=object)
        flat[:] = _leaves(value, shape)
        result[index] = flat.reshape(shape) if shape else flat[0]
    return result


def symbolic(row: Function, model: Model, options: Mapping[str, Any]) -> casadi.Function:
    """The function as a CasADi function of the same text.

    Inputs are columns (a matrix input has a row a leading index); an output of more than two axes
    has its leading axes folded into rows.
    """
    import casadi

    dims = sizes(model, len(options.get("forces", ())))
    arguments = [a for a in row.inputs if 0 not in a.shape_in(dims)]
    symbols, scalars = [], []
    for argument in arguments:
        core = argument.shape_in(dims)
        symbol = casadi.SX.sym(argument.name, *core)
        symbols.append(symbol)
        scalars.append(_elements(symbol, core))
    shape = row.output.shape_in(dims)
    leaves = _leaves(row.algorithm(model, *scalars, **options), shape)
    rows, columns = int(np.prod(shape[:-1])) if len(shape) > 1 else int(np.prod(shape)), (shape[-1] if len(shape) > 1 else 1)
    flat = casadi.vertcat(*leaves) if leaves else casadi.SX(0, 1)
    output = casadi.cse(casadi.reshape(flat, columns, rows).T)
    return casadi.Function(
        row.name, symbols, [output], [a.name for a in arguments], [row.output.name]
    )


def _elements(symbol: Any, core: tuple[int, ...]) -> Any:
    """The entries of a symbol as nested lists."""
    if not core:
        return symbol
    if len(core) == 1:
        return [symbol[i] for i in range(core[0])]
    return [[symbol[i, j] for j in range(core[1])] for i in range(core[0])]
