"""A function of arrays, written in NumPy, recorded as a tape; an error names the line it is on."""

from __future__ import annotations

import inspect
import linecache
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from qddot.compile.trace.arrays import SymbolArray
from qddot.compile.trace.tape import Condition, Symbol, Tape, TapeRecorder
from qddot.errors import CannotTrace, QddotError, TooLarge

__all__ = ["Recording", "has_symbols", "record_arrays", "symbol_array"]

Shape = tuple[int, ...]
_LIBRARIES = (Path(__file__).parents[2], Path(np.__file__).parent)
_PLAIN_ARRAYS = (
    "arrays of symbols are made by np.stack and np.concatenate: np.array makes a plain array of "
    "objects, of which NumPy's own functions know little"
)
_OF_OBJECTS = ("ufunc", "Symbol", "dtype('O')", "object array")
"""Words of errors that NumPy raises for plain arrays of objects."""


@dataclass(frozen=True)
class Recording:
    """The tape of a function of arrays, and the names and shapes of its outputs."""

    tape: Tape
    outputs: Mapping[str, Shape]
    several: bool


def record_arrays(
    function: Callable[..., Any], inputs: Mapping[str, Shape], origin: Callable[..., Any]
) -> Recording:
    """Record a function of named arrays that returns an array, or a tuple of them.

    `origin` is the function that the user wrote: errors name its line.
    """
    recorder = _StrictRecorder()
    try:
        arrays = {
            name: symbol_array(recorder.append_inputs(math.prod(shape)), shape)
            for name, shape in inputs.items()
        }
        value = function(**arrays)
        several = isinstance(value, tuple)
        parts = value if several else (value,)
        names = getattr(value, "_fields", None) or (
            [f"out{k}" for k in range(len(parts))] if several else ["out"]
        )
        results = {n: _as_output(n, x) for n, x in zip(names, parts, strict=True)}
    except TooLarge as error:
        raise TooLarge(_definition(origin), error.size, error.most) from error
    except Exception as error:
        # our own errors say what to do
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, RecursionError):
            reason = "it calls itself without end, or is nested deeper than Python's limit allows"
        elif isinstance(error, QddotError):
            reason = str(error)
        elif isinstance(error, TypeError) and any(word in reason for word in _OF_OBJECTS):
            reason += f" ({_PLAIN_ARRAYS})"
        # file, line and text of the last statement of the user's on the way to the error
        place, step = _definition(origin), error.__traceback__
        own = place.rsplit(":", 1)[0]
        while step is not None:
            file, line = step.tb_frame.f_code.co_filename, step.tb_lineno
            # methods of a robot are written by code, and have no file
            inside = any(Path(file).is_relative_to(folder) for folder in _LIBRARIES)
            foreign = inside or file.startswith("<")
            if file == own or not foreign:
                text = linecache.getline(file, line).strip()
                place = f"{file}:{line}" + (f" `{text}`" if text else "")
            step = step.tb_next
        raise CannotTrace(reason, place) from error
    if not results:
        raise CannotTrace("it returns no array", _definition(origin))
    leaves = [leaf for x in results.values() for leaf in x.ravel().tolist()]
    return Recording(recorder.make_tape(leaves), {n: x.shape for n, x in results.items()}, several)


def symbol_array(leaves: Sequence[Any], shape: Shape) -> Any:
    """Numbers and symbols as an array of this shape; for no axes the number itself."""
    if not shape:
        return leaves[0]
    array = np.empty(len(leaves), object)
    array[:] = leaves
    return array.reshape(shape).view(SymbolArray)


def has_symbols(x: Any) -> bool:
    """Whether there are symbols in an array."""
    return (
        isinstance(x, np.ndarray)
        and x.dtype == object
        and any(type(leaf) is Symbol for leaf in x.flat)
    )


class _StrictRecorder(TapeRecorder):
    """A recorder that takes no NaN for a constant."""

    def emit(self, *entry: Any) -> Symbol:
        """The symbol of an operation; NaN would come out of it whatever goes in."""
        if any(x != x for x in entry):
            raise CannotTrace("a constant here is NaN; the result would be NaN in every state")
        return super().emit(*entry)


def _as_output(name: str, x: Any) -> np.ndarray:
    """A result as an array of numbers and symbols; conditions are 0 or 1."""
    try:
        array = np.asarray(x, object)
    except ValueError as error:
        raise CannotTrace(f"it returns a ragged list as {name!r}, not an array") from error
    made = np.empty(array.shape, object)
    for index, leaf in np.ndenumerate(array):
        if isinstance(leaf, Condition | bool | np.bool_):
            leaf = leaf + 0.0
        if not isinstance(leaf, Symbol | numbers.Real):
            raise CannotTrace(f"it returns {leaf!r} in {name!r}, which is no real number")
        if type(leaf) is not Symbol and leaf != leaf:
            raise CannotTrace(f"it returns a constant NaN in {name!r}")
        made[index] = leaf
    if not made.size:
        raise CannotTrace(f"it returns an empty array as {name!r}, of shape {made.shape}")
    return made


def _definition(function: Callable[..., Any]) -> str:
    """File and line of a function, as far as they are known."""
    plain = inspect.unwrap(function)
    code = getattr(plain, "__code__", getattr(type(plain).__call__, "__code__", None))
    name = getattr(plain, "__name__", type(plain).__name__)
    return f"{code.co_filename}:{code.co_firstlineno} ({name})" if code else str(name)
