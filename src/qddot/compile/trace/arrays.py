"""NumPy on symbols: arrays whose entries record what is done to them.

A `SymbolArray` is an array of objects, symbols and floats alike. Shapes, slices and products are
NumPy's own; functions of numbers are those of `spatial.scalar`, entry by entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from qddot.errors import CannotTrace
from qddot.spatial import dense, scalar

__all__ = ["NumpyOperand", "SymbolArray"]

_PLAIN = ("add", "subtract", "multiply", "divide", "negative", "positive", "matmul")
"""Functions that NumPy does on objects as they are."""


def _truth(x: Any) -> Any:
    """A condition, also from a number: whether it is not zero."""
    if isinstance(x, bool | np.bool_ | float | int):
        return bool(x)
    return x if hasattr(x, "__invert__") else x != 0.0


_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    # functions of one number
    "sin": scalar.sin,
    "cos": scalar.cos,
    "tan": lambda x: scalar.sin(x) / scalar.cos(x),
    "sqrt": scalar.sqrt,
    "exp": scalar.exp,
    "log": scalar.log,
    "log10": lambda x: scalar.log(x) * (1.0 / math.log(10.0)),
    "log2": lambda x: scalar.log(x) * (1.0 / math.log(2.0)),
    "tanh": scalar.tanh,
    "sinh": lambda x: 0.5 * (scalar.exp(x) - scalar.exp(-x)),
    "cosh": lambda x: 0.5 * (scalar.exp(x) + scalar.exp(-x)),
    "arccos": scalar.acos,
    "arcsin": scalar.asin,
    "arctan": lambda x: scalar.atan2(x, 1.0),
    "floor": scalar.floor,
    "ceil": lambda x: -scalar.floor(-x),
    "sign": scalar.sign,
    "absolute": scalar.absolute,
    "fabs": scalar.absolute,
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1.0 / x,
    "conjugate": lambda x: x,
    "deg2rad": lambda x: x * (math.pi / 180.0),
    "rad2deg": lambda x: x * (180.0 / math.pi),
    # functions of several
    "arctan2": scalar.atan2,
    "hypot": lambda x, y: scalar.sqrt(x * x + y * y),
    "power": scalar.power,
    "float_power": scalar.power,
    "remainder": lambda x, y: x - scalar.floor(x / y) * y,
    "minimum": scalar.minimum,
    "maximum": scalar.maximum,
    "clip": lambda x, low, high: scalar.minimum(scalar.maximum(x, low), high),
    # conditions
    "less": scalar.less,
    "less_equal": scalar.less_equal,
    "greater": lambda a, b: scalar.less(b, a),
    "greater_equal": lambda a, b: scalar.less_equal(b, a),
    "equal": scalar.equal,
    "not_equal": lambda a, b: scalar.logical_not(scalar.equal(a, b)),
    "isnan": lambda x: scalar.logical_not(scalar.equal(x, x)),
    "isfinite": lambda x: scalar.less(scalar.absolute(x), math.inf),
    "isinf": lambda x: scalar.equal(scalar.absolute(x), math.inf),
    "logical_and": lambda a, b: scalar.logical_and(_truth(a), _truth(b)),
    "bitwise_and": lambda a, b: scalar.logical_and(_truth(a), _truth(b)),
    "logical_or": lambda a, b: scalar.logical_or(_truth(a), _truth(b)),
    "bitwise_or": lambda a, b: scalar.logical_or(_truth(a), _truth(b)),
    "logical_not": lambda a: scalar.logical_not(_truth(a)),
    "invert": lambda a: scalar.logical_not(_truth(a)),
}
"""NumPy's functions of numbers, as operations of the closed list."""


class NumpyOperand:
    """The methods that NumPy calls on an operand, for symbols, conditions and their arrays."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """A function of NumPy's, entry by entry, with results of the right shape."""
        out = options.pop("out", (None,))[0]
        name = ufunc.__name__
        if name not in _PLAIN and name not in _ELEMENTWISE:
            known = ", ".join(sorted((*_PLAIN, *_ELEMENTWISE)))
            raise CannotTrace(f"np.{name} is not traced; functions that are: {known}")
        if method not in ("__call__", "reduce", "accumulate", "outer"):
            raise CannotTrace(f"np.{name}.{method} is not traced; write it out")
        if options.pop("where", True) is not True:
            raise CannotTrace("`where=` of a NumPy function is not traced; use np.where(…)")
        names = ("axis", "axes", "keepdims", "initial")
        chosen = {k: x for k, x in options.items() if k in names and x is not np._NoValue}
        entrywise = _ELEMENTWISE.get(name)
        function = np.frompyfunc(entrywise, ufunc.nin, 1) if entrywise else ufunc
        result = getattr(function, method)(*map(_as_objects, inputs), **chosen)
        if out is None:
            return _wrap(result)
        if not isinstance(out, SymbolArray):
            raise CannotTrace(
                "symbols cannot be written into an array of floats; make a new array instead, "
                "with np.where, np.stack or np.concatenate"
            )
        np.ndarray.__setitem__(out, Ellipsis, result)
        return out

    def __array_function__(
        self, function: Any, types: Any, args: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        """A function of NumPy's on arrays: ours where it needs numbers, else its own text."""
        ours = _FUNCTIONS.get(function)
        if ours is not None:
            return _wrap(ours(*args, **options))
        given = tuple(map(_lift, args))
        named = {k: _lift(x) for k, x in options.items()}
        array = np.empty(0, object).view(SymbolArray)
        kinds = tuple({SymbolArray if issubclass(t, NumpyOperand) else t for t in types})
        return _wrap(np.ndarray.__array_function__(array, function, kinds, given, named))


class SymbolArray(NumpyOperand, np.ndarray):  # type: ignore[misc]
    """An array of symbols and floats.

    `definite` says that it is a symmetric positive definite matrix; what is made from it is not.
    """

    __array_priority__ = 100.0
    definite = False

    def astype(self, dtype: Any, *_: Any, **__: Any) -> Any:
        """The same array; conditions become 0 and 1."""
        if np.dtype(dtype).kind == "f":
            return _wrap(np.frompyfunc(lambda x: x + 0.0, 1, 1)(self.view(np.ndarray)))
        if np.dtype(dtype) == object:
            return self.copy()
        raise CannotTrace(f"a symbol is a real number: astype({dtype}) is not traced")


def _as_objects(x: Any) -> Any:
    """An operand as a plain array."""
    if isinstance(x, np.ndarray):
        return x.view(np.ndarray)
    if isinstance(x, NumpyOperand):
        array = np.empty((), object)
        array[()] = x
        return array
    if isinstance(x, list | tuple):
        return np.asarray(x)
    return x


def _lift(x: Any) -> Any:
    """An argument of a function with its symbols as arrays."""
    if isinstance(x, NumpyOperand) and not isinstance(x, np.ndarray):
        return _as_objects(x).view(SymbolArray)
    if isinstance(x, list | tuple):
        return [_lift(y) for y in x]
    return x


def _wrap(x: Any) -> Any:
    """A result with its arrays of objects as arrays of symbols."""
    if isinstance(x, np.ndarray) and x.dtype == object:
        return x.view(SymbolArray)
    return tuple(map(_wrap, x)) if type(x) is tuple else x


def _where(condition: Any, *choices: Any) -> Any:
    if len(choices) != 2:
        raise CannotTrace("np.where needs both values: np.where(condition, a, b)")
    function = np.frompyfunc(lambda c, x, y: scalar.where(_truth(c), x, y), 3, 1)
    return function(*map(_as_objects, (condition, *choices)))


def _select(conditions: Sequence[Any], choices: Sequence[Any], default: Any = 0.0) -> Any:
    result = default
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        result = _where(condition, choice, result)
    return result


def _matrix(function: str, A: Any) -> list[list[Any]]:
    rows = np.asarray(A)
    if rows.ndim != 2 or rows.shape[0] != rows.shape[1]:
        raise CannotTrace(f"np.linalg.{function} is traced for one square matrix, not {rows.shape}")
    return rows.tolist()


def _solve(A: Any, b: Any) -> Any:
    right = np.asarray(b)
    rows = right.reshape(right.shape[0], -1)
    solve = dense.solve_definite if getattr(A, "definite", False) else dense.solve
    found = solve(_matrix("solve", A), rows.tolist())
    return np.array(found, object).reshape(right.shape)


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    array = np.asarray(x).view(SymbolArray)
    one = axis is not None or array.ndim == 1
    if ord is None or (ord == 2 and one) or (ord == "fro" and array.ndim == 2):
        return np.sqrt(np.sum(array * array, axis=axis, keepdims=keepdims))
    if one and ord in (1, math.inf):
        reduce = np.sum if ord == 1 else np.max
        return reduce(np.absolute(array), axis=axis, keepdims=keepdims)
    raise CannotTrace(f"np.linalg.norm with ord={ord!r} is not traced; the Euclidean norm is")


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    np.select: _select,
    np.linalg.norm: _norm,
    np.linalg.solve: _solve,
    np.linalg.inv: lambda A: _solve(A, np.eye(len(A))),
    np.linalg.det: lambda A: dense.determinant(_matrix("det", A)),
    np.linalg.cholesky: lambda A: np.array(dense.cholesky(_matrix("cholesky", A)), object),
}
"""Functions of arrays that ask for numbers in NumPy's own text."""
