"""Trigonometric sums as SymPy expressions that are short to read.

Harmonics that share their coefficients become products (1 + cos 2q = 2 cos² q); what is left is
collected by inertia or by sine and cosine, whichever is shorter.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import sympy

from qddot.analysis.lagrange.harmonics import Key, Sum, Wave

__all__ = ["Simplifier"]

Polynomial = dict[Key, float]
Factors = tuple[Wave, ...]

_DENOMINATOR = 1000
_MOST_FACTORED = 8
_MOST_COMPARED = 150


@dataclass(frozen=True)
class Simplifier:
    """Turns sums into expressions.

    `symbols` has an expression for each symbol of the ring, `angles` one for each angle; no term
    has more than one of the symbols in `inertial`; those from `rates` on are velocities.
    """

    symbols: tuple[sympy.Expr, ...]
    angles: tuple[sympy.Expr, ...]
    inertial: tuple[int, ...]
    rates: int
    _known: dict[Any, sympy.Expr] = field(default_factory=dict)

    def expression(self, total: Sum) -> sympy.Expr:
        """The expression of a sum."""
        return self._memoise(frozenset(total.terms.items()), lambda: self._shortest_form(total))

    def _memoise(self, key: Any, make: Callable[[], sympy.Expr]) -> sympy.Expr:
        """The expression of this key, made once."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def _shortest_form(self, total: Sum) -> sympy.Expr:
        groups = _pair_waves(total.waves())
        by_wave = self._by_wave(groups)
        if sum(map(len, groups.values())) > _MOST_COMPARED:
            return by_wave
        return min(by_wave, self._by_inertia(groups), key=_operation_count)

    def _by_wave(self, groups: Mapping[Factors, Polynomial]) -> sympy.Expr:
        return sympy.Add(
            *(
                self._wave_product(factors) * self._collect_polynomial(p)
                for factors, p in groups.items()
            )
        )

    def _by_inertia(self, groups: Mapping[Factors, Polynomial]) -> sympy.Expr:
        shares: dict[int | None, dict[Factors, Polynomial]] = defaultdict(dict)
        for factors, polynomial in groups.items():
            for powers, c in polynomial.items():
                owner = next((k for k in self.inertial if powers[k]), None)
                shares[owner].setdefault(factors, {})[powers] = c
        return sympy.Add(*map(self._inertia_part, shares.values()))

    def _inertia_part(self, share: Mapping[Factors, Polynomial]) -> sympy.Expr:
        """The terms of one inertia, common factors in front."""
        common = _common_powers(powers for polynomial in share.values() for powers in polynomial)
        rest = self._by_wave({f: _divide_powers(p, common) for f, p in share.items()})
        rest = sympy.factor_terms(rest) if len(rest.args) <= _MOST_FACTORED else rest
        return sympy.Mul(self._monomial(common), *_split_content(rest))

    def _wave_product(self, factors: Factors) -> sympy.Expr:
        """The product of waves."""
        kinds = {"cos": sympy.cos, "sin": sympy.sin}
        return self._memoise(
            factors,
            lambda: sympy.Mul(
                *(kinds[w.kind](self._angle_expression(w.harmonic)) for w in factors)
            ),
        )

    def _angle_expression(self, harmonic: Key) -> sympy.Expr:
        return sympy.Add(
            *(_exact_number(k) * angle for k, angle in zip(harmonic, self.angles, strict=True) if k)
        )

    def _collect_polynomial(self, polynomial: Polynomial) -> sympy.Expr:
        """A polynomial in the symbols: common factors in front, the rest collected by velocities.

        It is a product where it is one of parameters and velocities, such as (m₁ + m₂)(v₁ + v₂).
        """
        # a table of coefficients: rows by parameters, columns by velocities
        common = _common_powers(polynomial)
        rows: dict[Key, Polynomial] = defaultdict(dict)
        columns: dict[Key, Polynomial] = defaultdict(dict)
        for powers, c in _divide_powers(polynomial, common).items():
            still, moving = powers[: self.rates], (*[0] * self.rates, *powers[self.rates :])
            rows[still][moving] = columns[moving][still] = c
        if ratios := _row_ratios(rows):
            parts = [
                self._expand_polynomial(ratios),
                self._factor_velocities(next(iter(rows.values()))),
            ]
        elif len(rows) <= len(columns):
            parts = [
                _times_content(self._monomial(p), self._factor_velocities(row))
                for p, row in rows.items()
            ]
            parts = [sympy.Add(*parts)]
        else:
            parts = [
                _times_content(self._monomial(p), self._expand_polynomial(c))
                for p, c in columns.items()
            ]
            parts = [sympy.Add(*parts)]
        return sympy.Mul(
            self._monomial(common), *(x for part in parts for x in _split_content(part))
        )

    def _factor_velocities(self, polynomial: Polynomial) -> sympy.Expr:
        """A polynomial in velocities, factored."""
        total = self._expand_polynomial(polynomial)
        if len(polynomial) == 1 or total.has(sympy.Float):
            return total
        return self._memoise(("factored", total), lambda: sympy.factor(total))

    def _expand_polynomial(self, polynomial: Polynomial) -> sympy.Expr:
        return sympy.Add(*(_exact_number(c) * self._monomial(p) for p, c in polynomial.items()))

    def _monomial(self, powers: Key) -> sympy.Expr:
        """The product of powers of the first symbols."""
        return self._memoise(
            powers,
            lambda: sympy.Mul(*(s**p for s, p in zip(self.symbols, powers, strict=False) if p)),
        )


def _operation_count(expression: sympy.Expr) -> int:
    """The number of operations, counted faster than SymPy does."""
    nodes = (node.args for node in sympy.preorder_traversal(expression))
    return sum(max(1, len(args) - 1) for args in nodes if args)


def _split_content(expression: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr]:
    """The number and sign that all terms share, and the rest."""
    if expression.has(sympy.Float):
        return sympy.S.One, expression
    number, rest = expression.primitive()
    return (-number, -rest) if rest.could_extract_minus_sign() else (number, rest)


def _times_content(monomial: sympy.Expr, expression: sympy.Expr) -> sympy.Expr:
    return sympy.Mul(monomial, *_split_content(expression))


def _exact_number(value: float) -> sympy.Expr:
    """A number: a fraction where it is one, else a float."""
    near = Fraction(value).limit_denominator(_DENOMINATOR)
    if abs(float(near) - value) <= 1e-13 * abs(value):
        return sympy.Rational(near.numerator, near.denominator)
    return sympy.Float(value)


def _common_powers(monomials: Iterable[Key]) -> Key:
    """The powers that all monomials have."""
    return tuple(min(powers) for powers in zip(*monomials, strict=True))


def _divide_powers(polynomial: Polynomial, common: Key) -> Polynomial:
    return {
        tuple(a - b for a, b in zip(powers, common, strict=True)): c
        for powers, c in polynomial.items()
    }


def _row_ratios(rows: Mapping[Key, Polynomial]) -> Polynomial:
    """The ratio of each row to the first one; empty if not every row is a multiple of it."""
    first = next(iter(rows.values()))
    ratios = {}
    for key, row in rows.items():
        ratio = next(iter(row.values())) / first.get(next(iter(row)), float("inf"))
        if row.keys() != first.keys() or any(row[k] != ratio * first[k] for k in row):
            return {}
        ratios[key] = ratio
    return ratios


def _pair_waves(waves: Mapping[Wave, Polynomial]) -> dict[Factors, Polynomial]:
    """Waves with their coefficients, pairs of them as products where that leaves fewer terms."""
    # waves of one kind whose coefficients of a monomial are equal or opposite
    alike: dict[tuple[str, Key, str], list[tuple[Wave, float]]] = defaultdict(list)
    for wave, polynomial in waves.items():
        for powers, c in polynomial.items():
            alike[wave.kind, powers, _rounding_key(abs(c))].append((wave, c))
    # count the pairs whose half sum and half difference are whole multiples of the angles
    pairs: Counter[tuple[Wave, Wave, int]] = Counter()
    for group in alike.values():
        ordered = sorted(group, key=lambda x: x[0].harmonic)
        for i, (a, c) in enumerate(ordered):
            for b, d in ordered[i + 1 :]:
                if all((x + y) % 2 == 0 for x, y in zip(a.harmonic, b.harmonic, strict=True)):
                    pairs[a, b, 1 if c * d > 0 else -1] += 1

    def rank(pair: tuple[Wave, Wave, int]) -> tuple[Any, ...]:
        """The pairs that most terms share first, then squares, then in a fixed order."""
        a, b, _ = pair
        return (-pairs[pair], not a.constant, *a.harmonic, *b.harmonic)

    left = {wave: dict(polynomial) for wave, polynomial in waves.items()}
    groups: dict[Factors, Polynomial] = {}
    for a, b, sign in sorted(pairs, key=rank):
        factor, factors = _as_product(a, b, sign)
        for powers in left[a].keys() & left[b].keys():
            if _rounding_key(left[b][powers]) == _rounding_key(sign * left[a][powers]):
                del left[b][powers]
                groups.setdefault(factors, {})[powers] = factor * left[a].pop(powers)
    # waves without a partner stay as they are
    for wave, polynomial in left.items():
        if polynomial:
            groups.setdefault(() if wave.constant else (wave,), {}).update(polynomial)
    return groups


def _rounding_key(value: float) -> str:
    """A text that is equal for numbers that differ by rounding."""
    return f"{value:.11e}"


def _as_product(a: Wave, b: Wave, sign: int) -> tuple[float, Factors]:
    """a ± b as a factor and two waves, by the sum-to-product rules."""
    half = tuple((x + y) // 2 for x, y in zip(a.harmonic, b.harmonic, strict=True))
    rest = tuple((x - y) // 2 for x, y in zip(a.harmonic, b.harmonic, strict=True))
    kinds = {
        ("cos", 1): ("cos", "cos"),
        ("cos", -1): ("sin", "sin"),
        ("sin", 1): ("sin", "cos"),
        ("sin", -1): ("cos", "sin"),
    }[a.kind, sign]
    factor = -2.0 if (a.kind, sign) == ("cos", -1) else 2.0
    waves = []
    for kind, harmonic in zip(kinds, (half, rest), strict=True):
        backward = next((k for k in harmonic if k), 1) < 0
        if backward and kind == "sin":
            factor = -factor
        waves.append(Wave(kind, tuple(-k for k in harmonic) if backward else harmonic))
    return factor, tuple(sorted(waves, key=lambda w: (w.kind, w.harmonic)))
