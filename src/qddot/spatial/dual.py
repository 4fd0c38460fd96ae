"""Dual numbers: a value with its partial derivatives, over any scalar.

Running an algorithm on dual numbers differentiates it (forward mode). Partials that are zero are
absent, so nothing is spent on what does not depend.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qddot.spatial import scalar
from qddot.spatial.scalar import Scalar

__all__ = [
    "Dual",
    "acos",
    "asin",
    "atan2",
    "cos",
    "exp",
    "fabs",
    "floor",
    "fmax",
    "fmin",
    "if_else",
    "log",
    "partials_of",
    "power",
    "sign",
    "sin",
    "sqrt",
    "tanh",
]


@dataclass(frozen=True, slots=True, eq=False)
class Dual:
    """A value and its partial derivatives by number of the variable."""

    value: Scalar
    partials: Mapping[int, Scalar] = field(default_factory=dict)
    __array_ufunc__ = None

    def _scale_partials(self, factor: Scalar) -> dict[int, Scalar]:
        return {k: d * factor for k, d in self.partials.items()}

    def __neg__(self) -> Dual:
        return Dual(-self.value, self._scale_partials(-1.0))

    def __add__(self, other: Any) -> Dual:
        if not isinstance(other, Dual):
            return Dual(self.value + other, self.partials)
        return Dual(self.value + other.value, _add_partials(self.partials, other.partials))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Dual:
        return self + -other

    def __rsub__(self, other: Any) -> Dual:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, Dual):
            # a product with an exact zero depends on nothing
            if isinstance(other, float) and other == 0.0:
                return 0.0
            return Dual(self.value * other, self._scale_partials(other))
        partials = _add_partials(
            self._scale_partials(other.value), other._scale_partials(self.value)
        )
        return Dual(self.value * other.value, partials)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self * (1.0 / other)

    def __rtruediv__(self, other: Any) -> Any:
        inverse = 1.0 / self.value
        return Dual(inverse, self._scale_partials(-(inverse * inverse))) * other

    def __lt__(self, other: Any) -> Any:
        return self.value < _value_of(other)

    def __gt__(self, other: Any) -> Any:
        return _value_of(other) < self.value

    def __eq__(self, other: Any) -> Any:
        return self.value == _value_of(other)

    __hash__ = object.__hash__

    def __le__(self, other: Any) -> Any:
        return self.value <= _value_of(other)

    def __ge__(self, other: Any) -> Any:
        return _value_of(other) <= self.value


def _value_of(x: Any) -> Scalar:
    return x.value if isinstance(x, Dual) else x


def _partials_of(x: Any) -> Mapping[int, Scalar]:
    return x.partials if isinstance(x, Dual) else {}


def _add_partials(a: Mapping[int, Scalar], b: Mapping[int, Scalar]) -> dict[int, Scalar]:
    """The sum of two sets of partials."""
    total = dict(a)
    for k, d in b.items():
        total[k] = total[k] + d if k in total else d
    return total


def sin(x: Dual) -> Dual:
    """Sine."""
    return Dual(scalar.sin(x.value), x._scale_partials(scalar.cos(x.value)))


def cos(x: Dual) -> Dual:
    """Cosine."""
    return Dual(scalar.cos(x.value), x._scale_partials(-scalar.sin(x.value)))


def sqrt(x: Dual) -> Dual:
    """Square root."""
    root = scalar.sqrt(x.value)
    return Dual(root, x._scale_partials(0.5 / root))


def exp(x: Dual) -> Dual:
    """Exponential function."""
    value = scalar.exp(x.value)
    return Dual(value, x._scale_partials(value))


def log(x: Dual) -> Dual:
    """Natural logarithm."""
    return Dual(scalar.log(x.value), x._scale_partials(1.0 / x.value))


def tanh(x: Dual) -> Dual:
    """Hyperbolic tangent."""
    value = scalar.tanh(x.value)
    return Dual(value, x._scale_partials(1.0 - value * value))


def acos(x: Dual) -> Dual:
    """Inverse cosine."""
    slope = -1.0 / scalar.sqrt(1.0 - x.value * x.value)
    return Dual(scalar.acos(x.value), x._scale_partials(slope))


def asin(x: Dual) -> Dual:
    """Inverse sine."""
    slope = 1.0 / scalar.sqrt(1.0 - x.value * x.value)
    return Dual(scalar.asin(x.value), x._scale_partials(slope))


def atan2(y: Any, x: Any) -> Dual:
    """Angle of the point (x, y)."""
    a, b = _value_of(y), _value_of(x)
    square = a * a + b * b
    rates = {k: d * (b / square) for k, d in _partials_of(y).items()}
    others = {k: d * (-a / square) for k, d in _partials_of(x).items()}
    return Dual(scalar.atan2(a, b), _add_partials(rates, others))


def power(a: Any, b: Any) -> Dual:
    """`a` to the power of `b`."""
    base, exponent = _value_of(a), _value_of(b)
    value = scalar.power(base, exponent)
    slope = exponent * scalar.power(base, exponent - 1.0)
    rates = {k: d * slope for k, d in _partials_of(a).items()}
    others = {k: d * (value * scalar.log(base)) for k, d in _partials_of(b).items()}
    return Dual(value, _add_partials(rates, others))


def floor(x: Dual) -> Dual:
    """The largest whole number that is not above x; its derivative is zero."""
    return Dual(scalar.floor(x.value))


def sign(x: Dual) -> Dual:
    """-1, 0 or 1; its derivative is zero."""
    return Dual(scalar.sign(x.value))


def fabs(x: Dual) -> Dual:
    """Magnitude."""
    return Dual(scalar.absolute(x.value), x._scale_partials(scalar.sign(x.value)))


def fmin(a: Any, b: Any) -> Dual:
    """The smaller of two numbers, with its derivative."""
    return if_else(scalar.less(_value_of(b), _value_of(a)), b, a)


def fmax(a: Any, b: Any) -> Dual:
    """The larger of two numbers, with its derivative."""
    return if_else(scalar.less(_value_of(a), _value_of(b)), b, a)


def if_else(condition: Any, a: Any, b: Any) -> Dual:
    """One of two numbers, partial by partial."""
    rates, others = _partials_of(a), _partials_of(b)
    return Dual(
        scalar.where(condition, _value_of(a), _value_of(b)),
        {
            k: scalar.where(condition, rates.get(k, 0.0), others.get(k, 0.0))
            for k in dict.fromkeys((*rates, *others))
        },
    )


def partials_of(x: Any, count: int) -> list[Scalar]:
    """All partials of a number, zero where it does not depend."""
    known = x.partials if isinstance(x, Dual) else {}
    return [known.get(k, 0.0) for k in range(count)]
