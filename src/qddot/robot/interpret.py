"""Run a catalogue function on arrays (interpreted) or on symbols (CasADi).

The interpreted form is the definition of a function: the text of the algorithm itself, run with
one scalar for each coordinate. For a batch that scalar is an array over the leading axes.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import TYPE_CHECKING, Any

import numpy as np

from qddot.algorithms.catalogue import Function, sizes
from qddot.algorithms.kinematics import TASK_AXES
from qddot.compile.kernel import KernelSource
from qddot.compile.runtime.memory import require_batch
from qddot.compile.runtime.results import validate_out
from qddot.compile.runtime.threads import broadcast_batch, leading_axes
from qddot.errors import (
    BatchMismatch,
    InvalidArgument,
    MissingPackage,
    ShapeMismatch,
    UnknownName,
    Unsupported,
    WrongType,
)
from qddot.model.links import Contact, Loop
from qddot.model.model import Model
from qddot.robot.arrays import MOST_AXES, as_numbers

if TYPE_CHECKING:
    import casadi

__all__ = [
    "InterpretedFunction",
    "as_floats",
    "batch_shape",
    "casadi_function",
    "interpret",
    "interpret_source",
    "normalise_options",
    "validate_arrays",
]

_BLOCK_BYTES = 1 << 28
"""Bytes of the scalars of a block of states, roughly: arrays of Python's own come on top."""
_SCALARS = 100
"""Numbers that an algorithm holds for each input, such as transforms and inertias of a body."""


def interpret(
    row: Function, model: Model, arrays: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """The value of a function on arrays whose last axes are its signature (a tuple of several)."""
    dims = sizes(model, options)
    inputs, batch = validate_arrays(row, arrays, dims)
    cores = [len(a.shape) for a in row.inputs[: len(inputs)]]
    shapes = [output.shape_in(dims) for output in row.outputs]

    def function(*scalars: Any) -> list[list[Any]]:
        return row.flat(row.algorithm(model, *scalars, **options), dims)

    return _interpret_arrays(function, row.name, inputs, batch, cores, shapes)


def interpret_source(source: KernelSource, arrays: Sequence[Any], out: Any = None) -> Any:
    """The value of the source of a kernel on arrays, as of its gufunc."""
    inputs = [as_numbers(source.name, f"input {k}", x) for k, x in enumerate(arrays)]
    names = [f"input {k}" for k in range(len(inputs))]
    if len(inputs) != len(source.inputs):
        accepted = f"it needs {len(source.inputs)}"
        raise InvalidArgument(source.name, f"a call with {len(inputs)} arrays", accepted)
    for name, x, core in zip(names, inputs, source.inputs, strict=True):
        if x.ndim < len(core) or x.shape[x.ndim - len(core) :] != core:
            raise ShapeMismatch(source.name, name, f"(..., {', '.join(map(str, core))})", x.shape)
    cores = [len(core) for core in source.inputs]
    batch = batch_shape(source.name, inputs, cores, names)

    def function(*scalars: Any) -> list[list[Any]]:
        leaves = iter(source.function(*scalars))
        return [[next(leaves) for _ in range(math.prod(shape))] for shape in source.outputs]

    dtype = np.result_type(np.float32, *inputs)
    if out is not None:
        out = validate_out(source.name, out, source.outputs, batch, dtype)
    value = _interpret_arrays(function, source.name, inputs, batch, cores, source.outputs)
    if out is None:
        return value
    for target, x in zip(out, value if len(out) > 1 else (value,), strict=True):
        target[...] = x
    return out if len(out) > 1 else out[0]


@dataclass(frozen=True)
class InterpretedFunction:
    """A function of arrays that is too large to compile, called as the gufunc that it would be.

    It has the name, `nin`, `nout` and the signature of the gufunc, broadcasts, computes in the type
    of its arrays, and takes arrays for results after the others or as `out`. It has no loops, types
    and other keywords of NumPy.
    """

    source: KernelSource

    @property
    def __name__(self) -> str:
        return self.source.name

    @property
    def nin(self) -> int:
        """Number of inputs."""
        return len(self.source.inputs)

    @property
    def nout(self) -> int:
        """Number of outputs."""
        return len(self.source.outputs)

    @property
    def signature(self) -> str:
        """The shapes, as a gufunc has them."""
        return self.source.signature

    def __call__(self, *arrays: Any, out: Any = None, **choices: Any) -> Any:
        """The function of arrays, into those of `out`."""
        if choices:
            accepted = "it is too large to compile: evaluated in Python, it takes arrays and out="
            raise Unsupported(self.source.name, ", ".join(choices), accepted)
        if out is None and len(arrays) == self.nin + self.nout:
            arrays, results = arrays[: self.nin], arrays[self.nin :]
            out = results if self.nout > 1 else results[0]
        return interpret_source(self.source, arrays, out)


def _interpret_arrays(
    function: Callable[..., list[list[Any]]],
    name: str,
    inputs: Sequence[np.ndarray],
    batch: tuple[int, ...],
    cores: Sequence[int],
    shapes: Sequence[tuple[int, ...]],
) -> Any:
    """The value of a function of scalars on arrays; it returns the numbers of each output.

    A batch is evaluated in blocks whose scalars, arrays over the states, fit in memory.
    """
    # arrays for the results, in the type of the inputs
    dtype = np.result_type(np.float32, *inputs)
    numbers = sum(map(math.prod, shapes))
    require_batch(name, batch, numbers * dtype.itemsize)
    results: list[Any] = [np.empty(batch + shape, dtype) for shape in shapes]

    def evaluate(scalars: list[Any], targets: list[Any]) -> None:
        for target, value, shape in zip(targets, function(*scalars), shapes, strict=True):
            leading = target.shape[: target.ndim - len(shape)]
            _fill_array(target.reshape(*leading, math.prod(shape)), value)

    states = math.prod(batch)
    held = numbers + _SCALARS * sum(
        math.prod(x.shape[x.ndim - n :]) for x, n in zip(inputs, cores, strict=True)
    )
    block = max(1, _BLOCK_BYTES // max(1, held * dtype.itemsize))
    if dtype.kind != "O" and states <= block:
        try:
            evaluate([_nested_scalars(x, n) for x, n in zip(inputs, cores, strict=True)], results)
            return results[0] if len(results) == 1 else tuple(results)
        except ArithmeticError:
            pass  # Python floats raise where arrays give inf or NaN
    whole = [
        np.broadcast_to(x, batch + x.shape[x.ndim - n :])
        for x, n in zip(inputs, cores, strict=True)
    ]
    if dtype.kind != "O":
        # every batch as one of a single axis, also that of one state
        rows = [
            x.reshape(states, *x.shape[x.ndim - n :]) for x, n in zip(whole, cores, strict=True)
        ]
        targets = [r.reshape(states, *s) for r, s in zip(results, shapes, strict=True)]
        with np.errstate(all="ignore"):
            for k in range(0, states, block):
                part = slice(k, k + block)
                scalars = [_nested_scalars(x[part], n) for x, n in zip(rows, cores, strict=True)]
                evaluate(scalars, [target[part] for target in targets])
    else:
        # Python objects (mpmath) know no batches: state by state
        for index in np.ndindex(*batch):
            evaluate([x[index].tolist() for x in whole], [r[(*index, ...)] for r in results])
    return results[0] if len(results) == 1 else tuple(results)


def _fill_array(target: np.ndarray, leaves: Sequence[Any]) -> None:
    """Write scalars along the last axis: constants at once, then numbers one by one."""
    plain = target.dtype.kind != "O"
    if plain and leaves:
        target[...] = [x if type(x) is float else 0.0 for x in leaves]
    for k, x in enumerate(leaves):
        if type(x) is not float or not plain:
            target[..., k] = x


def validate_arrays(
    row: Function, arrays: Sequence[Any], dims: Mapping[str, int]
) -> tuple[list[np.ndarray], tuple[int, ...]]:
    """Arrays of numbers with the right last axes, and the shape their leading axes broadcast to."""
    needed = [a for a in row.inputs if a.shape[:1] != ("nw",) or dims["nw"]]
    if len(arrays) != len(needed):
        accepted = f"it needs {', '.join(a.name for a in needed)}"
        raise InvalidArgument(row.name, f"a call with {len(arrays)} arrays", accepted)
    # the last axes of each array are those of the signature
    inputs = []
    for argument, given in zip(needed, arrays, strict=True):
        x, core = as_numbers(row.name, argument.name, given), argument.shape_in(dims)
        if x.ndim < len(core) or x.shape[x.ndim - len(core) :] != core:
            sizes_text = ", ".join(
                f"{s}={n}" if s in dims else s for s, n in zip(argument.shape, core, strict=True)
            )
            raise ShapeMismatch(row.name, argument.name, f"(..., {sizes_text})", x.shape)
        inputs.append(x)
    cores, names = [len(a.shape) for a in needed], [a.name for a in needed]
    batch = batch_shape(row.name, inputs, cores, names)
    if len(batch) + max(len(o.shape) for o in (*needed, *row.outputs)) > MOST_AXES:
        accepted = f"arrays have {MOST_AXES} axes at most, those of a state included"
        raise InvalidArgument(row.name, f"a batch of {len(batch)} axes", accepted)
    return inputs, batch


def batch_shape(
    function: str, arrays: Sequence[np.ndarray], cores: Sequence[int], names: Sequence[str]
) -> tuple[int, ...]:
    """The batch shape: leading axes of all arrays, broadcast. `cores` counts their last axes."""
    leading = leading_axes(arrays, cores)
    try:
        return broadcast_batch(leading)
    except ValueError:
        raise BatchMismatch(function, leading, names) from None


def normalise_options(row: Function, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a function in the form that algorithms take; those at their default left out."""
    # names first: unknown ones, then missing ones
    known = {o.name: o.default for o in row.options}
    for name in options:
        if name not in known:
            raise UnknownName("option", name, known, row.name)
    missing = [o for o, value in known.items() if value is Parameter.empty and o not in options]
    if missing:
        accepted = f"it needs the option {' and '.join(missing)}"
        raise InvalidArgument("function", row.name, accepted)
    # values, and defaults left out so that equal calls have equal keys
    plain = {o: _normalise_option(o, value) for o, value in options.items()}
    return {o: value for o, value in plain.items() if value is not None and value != known[o]}


_LISTS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "forces": (
        "(frame, reference)",
        lambda x: isinstance(x, tuple) and len(x) == 2 and all(isinstance(y, str) for y in x),
    ),
    "axes": (
        f"axes, {', '.join(TASK_AXES)}",
        lambda x: isinstance(x, str) and x in TASK_AXES,
    ),
    "prescribed": ("names of joints", lambda x: isinstance(x, str)),
    "actuated": ("names of joints or velocities", lambda x: isinstance(x, str)),
    "constraints": ("constraints, Loop or Contact", lambda x: isinstance(x, Loop | Contact)),
}
"""Options that are lists: what they hold, and whether an item is one of that."""


def _normalise_option(option: str, value: Any) -> Any:
    """The value of an option in the form that algorithms take; None stands for its default."""
    if option in _LISTS:
        accepted, sound = _LISTS[option]
        if value is None:
            return None
        if not isinstance(value, Iterable) or isinstance(value, str):
            raise WrongType(option, value, f"it is a list of {accepted}")
        items = tuple(tuple(x) if isinstance(x, list) else x for x in value)
        if not all(map(sound, items)):
            raise InvalidArgument(option, value, f"it is a list of {accepted}")
        return items
    if option == "stabilisation":
        if value is None:
            return None
        real = isinstance(value, int | float | np.integer | np.floating)
        if not (real and 0 <= value <= sys.float_info.max):
            raise InvalidArgument(option, value, "it is a rate in 1/s, zero or more")
        return float(value)
    if option == "friction":
        if not isinstance(value, bool | np.bool_ | int):
            raise WrongType("friction", value, "it is True or False")
        return bool(value)
    if not isinstance(value, str):
        raise UnknownName(option, value, ())
    return str(value)


def as_floats(what: str, given: Any) -> np.ndarray:
    """An array of floats, of any shape."""
    try:
        return np.asarray(given, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(what, given, "it needs an array of numbers") from error


def _nested_scalars(x: np.ndarray, core: int) -> Any:
    """Nested lists of scalars over the last axes: numbers for one state, arrays for a batch."""
    if x.ndim == core:
        return x.tolist()
    front = np.ascontiguousarray(np.moveaxis(x, range(-core, 0), range(core)))
    return [list(part) for part in front] if core == 2 else list(front) if core else front


def casadi_function(row: Function, model: Model, options: Mapping[str, Any]) -> casadi.Function:
    """The function as a CasADi function of the same text.

    A vector is a column; an output of more than two axes has its leading axes folded into rows.
    """
    if importlib.util.find_spec("casadi") is None:
        raise MissingPackage("casadi", "a CasADi function", "'qddot[symbolic]'")
    import casadi

    # the algorithm on symbols instead of numbers
    dims = sizes(model, options)
    arguments = [a for a in row.inputs if a.shape[:1] != ("nw",) or dims["nw"]]
    symbols = [casadi.SX.sym(a.name, *a.shape_in(dims)) for a in arguments]
    scalars = [
        _casadi_elements(s, a.shape_in(dims)) for s, a in zip(symbols, arguments, strict=True)
    ]
    values = row.flat(row.algorithm(model, *scalars, **options), dims)
    # scalars, row by row, as matrices
    outputs = []
    for value, output in zip(values, row.outputs, strict=True):
        shape = output.shape_in(dims)
        columns = shape[-1] if len(shape) > 1 else 1
        rows = len(value) // columns if columns else shape[0]
        flat = casadi.vertcat(casadi.SX(0, 1), *value)
        outputs.append(casadi.reshape(flat, columns, rows).T)
    inputs, results = ([a.name for a in side] for side in (arguments, row.outputs))
    return casadi.Function(row.name, symbols, casadi.cse(outputs), inputs, results)


def _casadi_elements(symbol: Any, core: tuple[int, ...]) -> Any:
    """The entries of a symbol as nested lists."""
    if not core:
        return symbol
    if len(core) == 1:
        return [symbol[i] for i in range(core[0])]
    return [[symbol[i, j] for j in range(core[1])] for i in range(core[0])]
