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

__all__ = ["Dual", "cos", "partials_of", "sin", "sqrt"]


@dataclass(frozen=True, slots=True)
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


def partials_of(x: Any, count: int) -> list[Scalar]:
    """All partials of a number, zero where it does not depend."""
    known = x.partials if isinstance(x, Dual) else {}
    return [known.get(k, 0.0) for k in range(count)]
