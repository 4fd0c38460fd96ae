"""The closed list of operations an algorithm may use on a scalar beyond + - * /.

A scalar is a float, a complex, a NumPy array (one entry a state of a batch), an mpmath number, a
CasADi SX, a dual number or a symbol of a tape. Everything that differs between them is in this
file. Where functions of Python raise a domain error, the value is that of IEEE 754, as in arrays.
"""

from __future__ import annotations

import cmath
import importlib
import math
from typing import Any

import numpy as np

__all__ = [
    "Scalar",
    "absolute",
    "acos",
    "asin",
    "atan2",
    "cos",
    "equal",
    "exp",
    "floor",
    "less",
    "less_equal",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "maximum",
    "minimum",
    "power",
    "sign",
    "sin",
    "sqrt",
    "tanh",
    "where",
]

Scalar = Any


_libraries: dict[type, Any] = {}


def _library_of(x: Scalar) -> Any:
    """The library that computes with numbers of this type."""
    kind = type(x)
    if kind not in _libraries:
        if issubclass(kind, np.ndarray | np.generic):
            _libraries[kind] = np
        elif issubclass(kind, complex):
            _libraries[kind] = cmath
        elif issubclass(kind, float | int):
            _libraries[kind] = math
        else:
            module = importlib.import_module(kind.__module__)
            # the module of the type, or the package it belongs to
            package = importlib.import_module(kind.__module__.split(".")[0])
            _libraries[kind] = module if hasattr(module, "sin") else package
    return _libraries[kind]


_NUMPY_NAMES = {"acos": "arccos", "asin": "arcsin"}


def _evaluate(name: str, x: Scalar) -> Scalar:
    """A function of one number, by the name that the C library has for it."""
    library = _library_of(x)
    if library is np:
        return getattr(np, _NUMPY_NAMES.get(name, name))(x)
    try:
        return getattr(library, name)(x)
    except (ValueError, OverflowError):
        with np.errstate(all="ignore"):
            return getattr(np, _NUMPY_NAMES.get(name, name))(x).item()


def sin(x: Scalar) -> Scalar:
    """Sine."""
    return _evaluate("sin", x)


def cos(x: Scalar) -> Scalar:
    """Cosine."""
    return _evaluate("cos", x)


def sqrt(x: Scalar) -> Scalar:
    """Square root."""
    return _evaluate("sqrt", x)


def exp(x: Scalar) -> Scalar:
    """Exponential function."""
    return _evaluate("exp", x)


def log(x: Scalar) -> Scalar:
    """Natural logarithm."""
    return _evaluate("log", x)


def tanh(x: Scalar) -> Scalar:
    """Hyperbolic tangent."""
    return _evaluate("tanh", x)


def acos(x: Scalar) -> Scalar:
    """Inverse cosine, 0 to π."""
    return _evaluate("acos", x)


def asin(x: Scalar) -> Scalar:
    """Inverse sine, -π/2 to π/2."""
    return _evaluate("asin", x)


def _common_library(a: Scalar, b: Scalar) -> Any:
    """The library of two numbers, of which one may be a float."""
    return _library_of(b if isinstance(a, float | int) else a)


def _is_complex(library: Any, *numbers: Scalar) -> bool:
    return library is cmath or (library is np and any(map(np.iscomplexobj, numbers)))


def power(a: Scalar, b: Scalar) -> Scalar:
    """`a` to the power of `b`."""
    library = _common_library(a, b)
    if library is cmath:
        return a**b
    if library is not math:
        return library.power(a, b)
    try:
        return math.pow(a, b)
    except (ValueError, OverflowError):
        with np.errstate(all="ignore"):
            return float(np.power(float(a), float(b)))


def absolute(x: Scalar) -> Scalar:
    """Magnitude of a real number; a complex one takes the sign of its real part."""
    library = _library_of(x)
    if _is_complex(library, x):
        return where(less(x, 0.0), -x, x)
    return np.absolute(x) if library is np else library.fabs(x)


def minimum(a: Scalar, b: Scalar) -> Scalar:
    """The smaller of two numbers, by the real parts; NaN if one is NaN."""
    library = _common_library(a, b)
    if hasattr(library, "fmin") and library not in (np, math):
        return library.fmin(a, b)
    if library is np and not _is_complex(library, a, b):
        return np.minimum(a, b)
    return where(logical_or(less(a, b), logical_not(equal(a, a))), a, b)


def maximum(a: Scalar, b: Scalar) -> Scalar:
    """The larger of two numbers, by the real parts; NaN if one is NaN."""
    library = _common_library(a, b)
    if hasattr(library, "fmax") and library not in (np, math):
        return library.fmax(a, b)
    if library is np and not _is_complex(library, a, b):
        return np.maximum(a, b)
    return where(logical_or(less(b, a), logical_not(equal(a, a))), a, b)


def atan2(y: Scalar, x: Scalar) -> Scalar:
    """Angle of the point (x, y); on complex numbers continued to first order off the real line."""
    library = _common_library(y, x)
    if _is_complex(library, y, x):
        # first-order continuation: the angle of the real parts, and its derivative
        y, x = np.asarray(y), np.asarray(x)
        slope = (x.real * y.imag - y.real * x.imag) / (x.real**2 + y.real**2)
        angle = np.arctan2(y.real, x.real) + 1j * slope
        return complex(angle) if library is cmath else angle
    return library.arctan2(y, x) if library is np else library.atan2(y, x)


def floor(x: Scalar) -> Scalar:
    """The largest whole number that is not above x, by the real part."""
    library = _library_of(x)
    if library in (math, cmath):
        return float(np.floor(x.real))
    return np.floor(x.real) if library is np else library.floor(x)


def less(a: Scalar, b: Scalar) -> Any:
    """Truth of a < b, by the real parts."""
    left: Any = getattr(a, "real", a)
    return left < getattr(b, "real", b)


def less_equal(a: Scalar, b: Scalar) -> Any:
    """Truth of a ≤ b, by the real parts."""
    left: Any = getattr(a, "real", a)
    return left <= getattr(b, "real", b)


def equal(a: Scalar, b: Scalar) -> Any:
    """Truth of a = b, by the real parts."""
    left: Any = getattr(a, "real", a)
    return left == getattr(b, "real", b)


def logical_and(a: Any, b: Any) -> Any:
    """Truth of both conditions."""
    return _combine("logic_and", a, b) if _is_casadi(a, b) else a & b


def logical_or(a: Any, b: Any) -> Any:
    """Truth of one of two conditions."""
    return _combine("logic_or", a, b) if _is_casadi(a, b) else a | b


def logical_not(a: Any) -> Any:
    """Truth of the opposite."""
    if isinstance(a, bool):
        return not a
    return _combine("logic_not", a) if _is_casadi(a) else ~a


def _is_casadi(*conditions: Any) -> bool:
    return any(type(c).__module__.startswith("casadi") for c in conditions)


def _combine(name: str, *conditions: Any) -> Any:
    return getattr(importlib.import_module("casadi"), name)(*conditions)


def where(condition: Any, a: Scalar, b: Scalar) -> Scalar:
    """`a` where the condition holds, `b` elsewhere; both are evaluated."""
    if isinstance(condition, bool):
        return a if condition else b
    # numbers with derivatives choose those too
    chooser = next((x for x in (a, b) if hasattr(x, "partials")), condition)
    library = _library_of(chooser)
    return np.where(condition, a, b) if library is np else library.if_else(condition, a, b)


def sign(x: Scalar) -> Scalar:
    """-1, 0 or 1."""
    library = _library_of(x)
    if library in (math, cmath):
        return float(np.sign(x.real))
    return np.sign(x.real) if library is np else library.sign(x)
