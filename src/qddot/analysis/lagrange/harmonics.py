"""Trigonometric sums as scalars: polynomials in symbols, times sines and cosines of angles.

A sum is held as a polynomial in its symbols and in the waves e^{iθ} of its angles, so that products
of sines and cosines become harmonics at once and sin² + cos² = 1 needs no rule. The algorithms run
on sums as they run on numbers. Coefficients are complex floats: halves and quarters are exact.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import add
from typing import Any

__all__ = ["Angle", "Ring", "Sum", "Wave", "cos", "sin"]

Key = tuple[float, ...]
_QUARTER = 1e-12
_ROUNDING = 1e-13
_POWERS_OF_I = (1.0 + 0j, 1j, -1.0 + 0j, -1j + 0j)


@dataclass(frozen=True)
class Angle:
    """An angle: a factor times a symbol."""

    symbol: str
    factor: float = 1.0


@dataclass(frozen=True)
class Wave:
    """A sine or cosine of a combination of the angles of a ring; the constant 1 is cos 0."""

    kind: str
    harmonic: Key

    @property
    def constant(self) -> bool:
        """Whether it is 1."""
        return not any(self.harmonic)


@dataclass(frozen=True)
class Ring:
    """The symbols and angles that sums are made of."""

    symbols: tuple[str, ...]
    angles: tuple[Angle, ...]

    def number(self, value: float) -> Sum:
        """A number as a sum."""
        return Sum(self, {(0,) * self._key_length: complex(value)} if value else {})

    def symbol(self, name: str) -> Sum:
        """A symbol as a sum."""
        return Sum(self, {_unit_key(self._key_length, self.symbols.index(name)): 1.0 + 0.0j})

    @property
    def _key_length(self) -> int:
        return len(self.symbols) + len(self.angles)

    def _angle_multiple(self, symbol: int, factor: float) -> tuple[int, float]:
        """The index of the angle that factor · symbol is a multiple of, and the multiple."""
        for k, angle in enumerate(self.angles):
            multiple = factor / angle.factor
            if angle.symbol == self.symbols[symbol] and (4.0 * multiple).is_integer():
                return len(self.symbols) + k, multiple
        raise ArithmeticError(f"{factor} {self.symbols[symbol]} is no angle of this ring")


def _unit_key(size: int, index: int, value: float = 1) -> Key:
    return tuple(value if k == index else 0 for k in range(size))


class Sum:
    """A sum of products of symbols and waves, with complex coefficients; its value is real."""

    __slots__ = ("ring", "terms")
    __array_ufunc__ = None

    def __init__(self, ring: Ring, terms: Mapping[Key, complex]) -> None:
        self.ring = ring
        self.terms = terms

    def _without_zeros(self, terms: Mapping[Key, complex]) -> Sum:
        """The sum of the terms that are not zero."""
        return Sum(self.ring, {key: c for key, c in terms.items() if c})

    def _as_sum(self, other: Any) -> Sum:
        return other if isinstance(other, Sum) else self.ring.number(other)

    def __add__(self, other: Any) -> Sum:
        terms = dict(self.terms)
        for key, c in self._as_sum(other).terms.items():
            terms[key] = terms.get(key, 0.0) + c
        return self._without_zeros(terms)

    __radd__ = __add__

    def __neg__(self) -> Sum:
        return self * -1.0

    def __sub__(self, other: Any) -> Sum:
        return self + self._as_sum(other) * -1.0

    def __rsub__(self, other: Any) -> Sum:
        return self * -1.0 + other

    def __mul__(self, other: Any) -> Sum:
        if not isinstance(other, Sum):
            return self._without_zeros({key: c * other for key, c in self.terms.items()})
        terms: dict[Key, complex] = {}
        for key, c in self.terms.items():
            for other_key, d in other.terms.items():
                product = tuple(map(add, key, other_key))
                terms[product] = terms.get(product, 0.0) + c * d
        return self._without_zeros(terms)

    __rmul__ = __mul__

    def derivative(self, name: str) -> Sum:
        """The partial derivative by a symbol."""
        ring = self.ring
        at, first = ring.symbols.index(name), len(ring.symbols)
        moving = {first + k: a.factor for k, a in enumerate(ring.angles) if a.symbol == name}
        terms: dict[Key, complex] = {}
        for key, c in self.terms.items():
            # d xⁿ = n xⁿ⁻¹ of the symbol, then d e^{iθ} = i θ' e^{iθ} of its angles
            if key[at]:
                lower = tuple(map(add, key, _unit_key(len(key), at, -1)))
                terms[lower] = terms.get(lower, 0.0) + c * key[at]
            turn = sum(key[k] * factor for k, factor in moving.items())
            if turn:
                terms[key] = terms.get(key, 0.0) + 1j * turn * c
        return self._without_zeros(terms)

    def symbols_used(self) -> set[str]:
        """The symbols that the sum depends on."""
        names = (*self.ring.symbols, *(a.symbol for a in self.ring.angles))
        return {name for key in self.terms for name, power in zip(names, key, strict=True) if power}

    def waves(self) -> dict[Wave, dict[Key, float]]:
        """The coefficients of each sine and cosine: polynomials by powers of the symbols.

        Coefficients that are rounding errors of terms that cancel are dropped.
        """
        split = len(self.ring.symbols)
        largest = max(map(abs, self.terms.values()), default=0.0)
        parts: dict[Wave, dict[Key, float]] = {}
        for key, c in self.terms.items():
            powers, harmonic = key[:split], key[split:]
            lead = next((k for k in harmonic if k), 0)
            if lead < 0:
                continue
            # a wave and its conjugate are one sine and one cosine
            double = 2.0 if lead else 1.0
            for kind, value in (("cos", double * c.real), ("sin", -double * c.imag)):
                if abs(value) > _ROUNDING * largest:
                    parts.setdefault(Wave(kind, harmonic), {})[powers] = value
        return parts


def _combine_exponentials(x: Sum, part: Callable[[complex], tuple[complex, complex]]) -> Sum:
    """The sum that gives e^{ix} and its conjugate these coefficients; x is a sum of angles."""
    # e^{ix} is a coefficient times waves to the powers in `key`
    ring = x.ring
    key: Key = (0,) * ring._key_length
    factor = 1.0 + 0.0j
    for powers, c in x.terms.items():
        symbols = [k for k, power in enumerate(powers) if power]
        if not symbols:
            # a number: exact on right angles
            quarters = c.real / (0.5 * math.pi)
            right = abs(quarters - round(quarters)) < _QUARTER
            factor *= _POWERS_OF_I[round(quarters) % 4] if right else cmath.exp(1j * c.real)
        elif len(symbols) == 1 and powers[symbols[0]] == 1 and symbols[0] < len(ring.symbols):
            at, multiple = ring._angle_multiple(symbols[0], c.real)
            whole = int(multiple) if multiple.is_integer() else multiple
            key = tuple(map(add, key, _unit_key(ring._key_length, at, whole)))
        else:
            raise ArithmeticError("a sine is taken of sums of angles only")
    # the wave and its conjugate
    back = tuple(-k for k in key)
    there, conjugate = part(factor)
    if key == back:
        return x._without_zeros({key: there + conjugate})
    return x._without_zeros({key: there, back: conjugate})


def cos(x: Sum) -> Sum:
    """Cosine."""
    return _combine_exponentials(x, lambda c: (0.5 * c, 0.5 * c.conjugate()))


def sin(x: Sum) -> Sum:
    """Sine."""
    return _combine_exponentials(x, lambda c: (-0.5j * c, 0.5j * c.conjugate()))
