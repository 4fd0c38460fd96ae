"""Arrays of numbers from the arguments of a caller, or an error that says what is accepted."""

from __future__ import annotations

import decimal
import numbers
from typing import Any

import numpy as np

from qddot.compile.runtime.results import refuse_masked
from qddot.errors import InvalidArgument, WrongType

__all__ = ["MOST_AXES", "as_numbers", "axis_lengths"]

MOST_AXES = 64
"""Axes that an array of NumPy has at most."""

_NUMBERS = "it needs an array of numbers"
_OTHER_LIBRARIES = {
    "torch": "it needs an array of NumPy: give x.detach().cpu().numpy()",
    "jax": "inside jax.jit, grad or vmap call the method through jax.pure_callback",
    "jaxlib": "it needs an array of NumPy: give numpy.asarray(x)",
    "casadi": 'symbols go into robot.casadi("{function}"), a casadi.Function of the same text',
}
"""How numbers of other libraries, by their package, come to a function."""


def as_numbers(function: str, argument: str, given: Any) -> np.ndarray:
    """A plain array of floats, complex numbers or number objects such as those of mpmath.

    Classes of arrays with shape rules of their own, such as np.matrix, become plain arrays.
    """
    label = f"{function}: {argument}"
    refuse_masked(label, given)
    try:
        x = np.asarray(given)
    except Exception as error:  # arrays of other libraries raise whatever they like
        raise WrongType(label, _describe_value(given), _accepted_text(function, given)) from error
    if x.dtype.kind in "fc":
        return x
    if x.dtype.kind in "iub":
        return x.astype(float)
    objects = list(x.flat) if x.dtype == object else [None]
    if not all(isinstance(o, numbers.Number) and type(o) is not decimal.Decimal for o in objects):
        raise WrongType(label, _describe_value(given), _accepted_text(function, given))
    if all(isinstance(o, int | float | np.number) for o in objects):
        try:
            return x.astype(float)
        except OverflowError as error:
            raise InvalidArgument(
                label, _describe_value(given), "its numbers must be floats"
            ) from error
    return x


def _describe_value(given: Any) -> Any:
    """A value for a message; an array of another library by its type."""
    foreign = _package_name(given) in _OTHER_LIBRARIES
    return f"{type(given).__module__}.{type(given).__qualname__}" if foreign else given


def _package_name(x: Any) -> str:
    return type(x).__module__.partition(".")[0]


def _accepted_text(function: str, given: Any) -> str:
    """The accepted form, and how to get there from the library that the values are of."""
    first: Any = given
    for _ in range(3):
        # a list, or an object array, of symbols
        if isinstance(first, list | tuple) and first:
            first = first[0]
        elif isinstance(first, np.ndarray) and first.size:
            first = first.flat[0]
    return _OTHER_LIBRARIES.get(_package_name(first), _NUMBERS).format(function=function)


def axis_lengths(what: str, given: Any) -> tuple[int, ...]:
    """The lengths of leading axes, from a whole number or a list of them."""
    axes = (given,) if isinstance(given, int | np.integer) else given
    sound = isinstance(axes, tuple | list) or (isinstance(axes, np.ndarray) and axes.ndim == 1)
    if not sound or any(
        isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0 for n in axes
    ):
        raise InvalidArgument(what, given, "it is a whole number from 0, or some of them")
    if len(axes) > MOST_AXES - 4:
        raise InvalidArgument(what, f"{len(axes)} axes", f"arrays have {MOST_AXES} axes at most")
    return tuple(int(n) for n in axes)
