"""The closed list of operations an algorithm may use on a scalar beyond + - * /.

A scalar is a float, a complex, a NumPy array (one entry a state of a batch), an mpmath number or
a CasADi SX. Everything that differs between them is in this file.
"""

from __future__ import annotations

import cmath
import importlib
import math
from typing import Any

import numpy as np

__all__ = ["Scalar", "atan2", "cos", "floor", "less", "sign", "sin", "sqrt", "where"]

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


def _not_a_number(x: Scalar) -> Scalar:
    """NaN, as IEEE 754 and arrays have it where functions of Python's raise a domain error."""
    return complex(math.nan, math.nan) if isinstance(x, complex) else math.nan


def sin(x: Scalar) -> Scalar:
    """Sine."""
    try:
        return _library_of(x).sin(x)
    except ValueError:
        return _not_a_number(x)


def cos(x: Scalar) -> Scalar:
    """Cosine."""
    try:
        return _library_of(x).cos(x)
    except ValueError:
        return _not_a_number(x)


def sqrt(x: Scalar) -> Scalar:
    """Square root."""
    try:
        return _library_of(x).sqrt(x)
    except ValueError:
        return _not_a_number(x)


def atan2(y: Scalar, x: Scalar) -> Scalar:
    """Angle of the point (x, y); on complex numbers continued to first order off the real line."""
    library = _library_of(x if isinstance(y, float | int) else y)
    if library is cmath or (library is np and (np.iscomplexobj(y) or np.iscomplexobj(x))):
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


def where(condition: Any, a: Scalar, b: Scalar) -> Scalar:
    """`a` where the condition holds, `b` elsewhere; both are evaluated."""
    if isinstance(condition, bool):
        return a if condition else b
    library = _library_of(condition)
    return np.where(condition, a, b) if library is np else library.if_else(condition, a, b)


def sign(x: Scalar) -> Scalar:
    """-1, 0 or 1."""
    library = _library_of(x)
    if library in (math, cmath):
        return float(np.sign(x.real))
    return np.sign(x.real) if library is np else library.sign(x)
