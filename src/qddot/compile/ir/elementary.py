"""Elementary functions on vectors, as LLVM IR: exp, log, tanh, asin, acos, atan2 and powers.

All lanes take the same way, and the one that holds is chosen at the end. Infinities, NaN and
numbers outside of the domain give what the C library gives, and raise the same flags; numbers that
are compared are compared as integers, so that NaN raises none. Coefficients are those of fdlibm
(log, asin, acos) and Cephes (tanh, atan). Single precision is computed in double and rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from qddot.compile.ir.types import VectorType

__all__ = ["ELEMENTARY", "elementary_ir"]

_SHIFT = 1.5 * 2.0**52
"""A sum with this number has no bits for fractions, and its last bits are a whole number."""
_LN2 = (6.93147180369123816490e-01, 1.90821492927058770002e-10)
_TWO_THIRDS_REST = 3.700743415417188e-17
_HALF_PI = (1.57079632679489655800e00, 6.12323399573676603587e-17)
_LOG = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
    2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
    1.479819860511658591e-01,
)  # fmt: skip
_ASIN = (
    (
        1.66666666666666657415e-01, -3.25565818622400915405e-01, 2.01212532134862925881e-01,
        -4.00555345006794114027e-02, 7.91534994289814532176e-04, 3.47933107596021167570e-05,
    ),
    (
        1.0, -2.40339491173441421878e00, 2.02094576023350569471e00, -6.88283971605453293030e-01,
        7.70381505559019352791e-02,
    ),
)  # fmt: skip
_TANH = (
    (-1.61468768441708447952e03, -9.92877231001918586564e01, -9.64399179425052238628e-01),
    (4.84406305325125486048e03, 2.23548839060100448583e03, 1.12811678491632931402e02, 1.0),
)
_ATAN = (
    (
        -6.485021904942025371773e01, -1.228866684490136173410e02, -7.500855792314704667340e01,
        -1.615753718733365076637e01, -8.750608600031904122785e-01,
    ),
    (
        1.945506571482613964425e02, 4.853903996359136964868e02, 4.328810604912902668951e02,
        1.650270098316988542046e02, 2.485846490142306297962e01, 1.0,
    ),
)  # fmt: skip


class _Writer:
    """Lines of IR that compute with vectors of doubles; a method returns the name of its value."""

    def __init__(self, lanes: int) -> None:
        self.v = VectorType("double", lanes)
        self.mask, self.integers = f"<{lanes} x i1>", f"<{lanes} x i64>"
        self.lines: list[str] = []

    def value(self, text: str) -> str:
        """A new value."""
        self.lines.append(f"  %e{len(self.lines)} = {text}")
        return f"%e{len(self.lines) - 1}"

    def constant(self, x: float) -> str:
        """A constant."""
        return self.v.constant(x)

    def whole(self, k: int) -> str:
        """A constant integer."""
        return self.v.integer_constant(k)

    def _binary(self, name: str, a: str, b: str) -> str:
        return self.value(f"{name} {self.v.type} {a}, {b}")

    def add(self, a: str, b: str) -> str:
        """a + b."""
        return self._binary("fadd", a, b)

    def sub(self, a: str, b: str) -> str:
        """a − b."""
        return self._binary("fsub", a, b)

    def mul(self, a: str, b: str) -> str:
        """a · b."""
        return self._binary("fmul", a, b)

    def div(self, a: str, b: str) -> str:
        """a / b."""
        return self._binary("fdiv", a, b)

    def muladd(self, a: str, b: str, c: str) -> str:
        """a · b + c, with one rounding where the processor does that."""
        t = self.v.type
        name = f"@llvm.fmuladd.{self.v.intrinsic_suffix}"
        return self.value(f"call {t} {name}({t} {a}, {t} {b}, {t} {c})")

    def fma(self, a: str, b: str, c: str) -> str:
        """a · b + c with one rounding."""
        t = self.v.type
        name = f"@llvm.fma.{self.v.intrinsic_suffix}"
        return self.value(f"call {t} {name}({t} {a}, {t} {b}, {t} {c})")

    def negative(self, a: str) -> str:
        """−a."""
        return self.value(f"fneg {self.v.type} {a}")

    def intrinsic(self, name: str, a: str) -> str:
        """A function of LLVM's: fabs or sqrt."""
        t = self.v.type
        return self.value(f"call {t} @llvm.{name}.{self.v.intrinsic_suffix}({t} {a})")

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """A polynomial, lowest coefficient first, by Horner's rule."""
        total = self.constant(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            total = self.muladd(total, x, self.constant(c))
        return total

    def ratio(self, x: str, parts: tuple[Sequence[float], Sequence[float]]) -> str:
        """A quotient of polynomials."""
        return self.div(*(self.polynomial(x, part) for part in parts))

    def select(self, condition: str, a: str, b: str) -> str:
        """A choice."""
        t = self.v.type
        return self.value(f"select {self.mask} {condition}, {t} {a}, {t} {b}")

    def either(self, a: str, b: str) -> str:
        """Truth of one of two conditions."""
        return self.value(f"or {self.mask} {a}, {b}")

    def bits(self, a: str) -> str:
        """The bits of a number, as an integer."""
        return self.value(f"bitcast {self.v.type} {a} to {self.integers}")

    def number(self, a: str) -> str:
        """The number of some bits."""
        return self.value(f"bitcast {self.integers} {a} to {self.v.type}")

    def integer(self, name: str, a: str, b: str) -> str:
        """An operation on integers."""
        return self.value(f"{name} {self.integers} {a}, {b}")

    def compare(self, name: str, a: str, b: str) -> str:
        """A comparison of bits: "slt", "sge", "eq"; magnitudes are ordered as their bits."""
        return self.value(f"icmp {name} {self.integers} {a}, {b}")

    def below(self, a: str, bound: float) -> str:
        """Truth of a < bound, for a that has no sign; false for NaN."""
        return self.compare("slt", self.bits(a), self.bits(self.constant(bound)))

    def above(self, a: str, bound: float) -> str:
        """Truth of a ≥ bound > 0; true for NaN without a sign."""
        return self.compare("sge", self.bits(a), self.bits(self.constant(bound)))

    def copy_sign(self, a: str, sign: str) -> str:
        """A number with the sign of another."""
        top = self.whole(-(2**63))
        rest = self.integer("and", self.bits(a), self.whole(2**63 - 1))
        return self.number(self.integer("or", rest, self.integer("and", self.bits(sign), top)))


def _scaled_exponential(w: _Writer, x: str, rest: str | None = None) -> str:
    """e^(x + rest) = 2^n e^r with |r| ≤ ½ ln 2, for finite x; the rest is tiny."""
    shifted = w.muladd(x, w.constant(1.0 / math.log(2.0)), w.constant(_SHIFT))
    n = w.sub(shifted, w.constant(_SHIFT))
    r = w.muladd(n, w.constant(-_LN2[0]), x)
    r = w.muladd(n, w.constant(-_LN2[1]), r)
    r = r if rest is None else w.add(r, rest)
    # 1 + (r + r² p(r))
    p = w.polynomial(r, [1.0 / math.factorial(k) for k in range(2, 14)])
    e = w.add(w.constant(1.0), w.muladd(w.mul(r, r), p, r))
    # 2^n in two factors: their product may be no number of its own
    whole = w.integer("sub", w.bits(shifted), w.bits(w.constant(_SHIFT)))
    half = w.integer("ashr", whole, w.whole(1))
    for part in (half, w.integer("sub", whole, half)):
        exponent = w.integer("add", part, w.whole(1023))
        e = w.mul(e, w.number(w.integer("shl", exponent, w.whole(52))))
    return e


def _exp(w: _Writer, x: str) -> str:
    """The exponential function; beyond its bounds it is infinite or zero."""
    finite = w.below(w.intrinsic("fabs", x), math.inf)
    safe = w.select(finite, x, w.constant(0.0))
    # beyond these bounds it overflows or vanishes anyway
    high = w.value(f"fcmp ogt {w.v.type} {safe}, {w.constant(710.0)}")
    low = w.value(f"fcmp olt {w.v.type} {safe}, {w.constant(-746.0)}")
    safe = w.select(high, w.constant(710.0), w.select(low, w.constant(-746.0), safe))
    e = _scaled_exponential(w, safe)
    minus_infinity = w.compare("eq", w.bits(x), w.bits(w.constant(-math.inf)))
    return w.select(finite, e, w.select(minus_infinity, w.constant(0.0), x))


def _split_exponent(w: _Writer, x: str) -> tuple[str, str]:
    """k and m with x = 2^k m and √½ ≤ m < √2, for a positive number with its leading bit."""
    root = 0x3FE6A09E00000000
    k = w.integer("ashr", w.integer("sub", w.bits(x), w.whole(root)), w.whole(52))
    m = w.number(w.integer("sub", w.bits(x), w.integer("shl", k, w.whole(52))))
    whole = w.number(w.integer("add", k, w.bits(w.constant(_SHIFT))))
    return w.sub(whole, w.constant(_SHIFT)), m


def _log(w: _Writer, x: str) -> str:
    """log x = k ln 2 + log m with √½ ≤ m < √2, and log m by s = (m − 1) / (m + 1)."""
    # numbers without a leading bit are made larger
    tiny = w.below(x, 2.0**-1022)
    k, m = _split_exponent(w, w.select(tiny, w.mul(x, w.constant(2.0**54)), x))
    n = w.sub(k, w.select(tiny, w.constant(54.0), w.constant(0.0)))
    f = w.sub(m, w.constant(1.0))
    s = w.div(f, w.add(f, w.constant(2.0)))
    z = w.mul(s, s)
    half = w.mul(w.mul(f, f), w.constant(0.5))
    rest = w.muladd(z, w.polynomial(z, _LOG), half)
    rest = w.muladd(s, rest, w.mul(n, w.constant(_LN2[1])))
    value = w.sub(w.mul(n, w.constant(_LN2[0])), w.sub(w.sub(half, rest), f))
    # zero is a pole, what is below is outside; infinity and NaN are their own
    negative = w.compare("slt", w.bits(x), w.whole(0))
    zero = w.compare("eq", w.bits(w.intrinsic("fabs", x)), w.whole(0))
    number = w.compare("sle", w.bits(w.intrinsic("fabs", x)), w.bits(w.constant(math.inf)))
    outside = w.value(f"and {w.mask} {w.either(negative, zero)}, {number}")
    top = w.select(zero, w.constant(-1.0), w.constant(0.0))
    bottom = w.select(outside, w.constant(0.0), w.constant(1.0))
    value = w.select(outside, w.div(top, bottom), value)
    finite = w.below(w.intrinsic("fabs", x), math.inf)
    return w.select(w.either(finite, outside), value, x)


def _tanh(w: _Writer, x: str) -> str:
    """1 − 2 / (e^2|x| + 1), and a quotient of polynomials near zero."""
    t = w.v.type
    magnitude = w.intrinsic("fabs", x)
    number = w.compare("sle", w.bits(magnitude), w.bits(w.constant(math.inf)))
    a = w.select(w.below(magnitude, 22.0), magnitude, w.constant(22.0))
    e = w.value(f"call {t} @exp.{w.v.lanes}({t} {w.add(a, a)})")
    far = w.sub(w.constant(1.0), w.div(w.constant(2.0), w.add(e, w.constant(1.0))))
    z = w.mul(a, a)
    near = w.muladd(w.mul(a, z), w.ratio(z, _TANH), a)
    value = w.copy_sign(w.select(w.below(a, 0.625), near, far), x)
    return w.select(number, value, x)


def _half_angle(w: _Writer, square: str) -> tuple[str, str, str]:
    """√z in two parts, the first with half of its bits, and asin's quotient of z."""
    root = w.intrinsic("sqrt", square)
    first = w.number(w.integer("and", w.bits(root), w.whole(-(2**32))))
    total = w.add(root, first)
    zero = w.compare("eq", w.bits(total), w.whole(0))
    bottom = w.select(zero, w.constant(1.0), total)
    rest = w.div(w.sub(square, w.mul(first, first)), bottom)
    return root, first, rest


def _asin(w: _Writer, x: str) -> str:
    """x + x³ R(x²), and π/2 − 2 asin √((1 − |x|)/2) from a half on."""
    magnitude = w.intrinsic("fabs", x)
    small = w.below(magnitude, 0.5)
    half = w.mul(w.sub(w.constant(1.0), magnitude), w.constant(0.5))
    z = w.select(small, w.mul(x, x), half)
    R = w.mul(z, w.ratio(z, _ASIN))
    near = w.muladd(magnitude, R, magnitude)
    root, first, rest = _half_angle(w, w.select(small, w.constant(0.25), half))
    twice = w.add(rest, rest)
    p = w.sub(w.mul(w.add(root, root), R), w.sub(w.constant(_HALF_PI[1]), twice))
    q = w.sub(w.constant(0.5 * _HALF_PI[0]), w.add(first, first))
    far = w.sub(w.constant(0.5 * _HALF_PI[0]), w.sub(p, q))
    return w.copy_sign(w.select(small, near, far), x)


def _acos(w: _Writer, x: str) -> str:
    """π/2 − asin x, and 2 asin √((1 − |x|)/2) or what is left of π from a half on."""
    magnitude = w.intrinsic("fabs", x)
    small = w.below(magnitude, 0.5)
    half = w.mul(w.sub(w.constant(1.0), magnitude), w.constant(0.5))
    z = w.select(small, w.mul(x, x), half)
    R = w.mul(z, w.ratio(z, _ASIN))
    inner = w.sub(w.constant(_HALF_PI[1]), w.mul(x, R))
    near = w.sub(w.constant(_HALF_PI[0]), w.sub(x, inner))
    root, first, rest = _half_angle(w, w.select(small, w.constant(0.25), half))
    positive = w.add(first, w.muladd(R, root, rest))
    positive = w.add(positive, positive)
    angle = w.add(root, w.sub(w.mul(R, root), w.constant(_HALF_PI[1])))
    negative = w.sub(w.constant(2.0 * _HALF_PI[0]), w.add(angle, angle))
    left = w.compare("slt", w.bits(x), w.whole(0))
    return w.select(small, near, w.select(left, negative, positive))


def _atan2(w: _Writer, y: str, x: str) -> str:
    """The angle of t = min/max of the magnitudes, which is at most π/4, put into its octant."""
    a, b = w.intrinsic("fabs", y), w.intrinsic("fabs", x)
    steep = w.compare("slt", w.bits(b), w.bits(a))
    top, bottom = w.select(steep, b, a), w.select(steep, a, b)
    # both zero, or both infinite: the angle of their signs
    zero = w.compare("eq", w.bits(bottom), w.whole(0))
    endless = w.compare("eq", w.bits(top), w.bits(w.constant(math.inf)))
    one = w.constant(1.0)
    bottom = w.select(w.either(zero, endless), one, bottom)
    t = w.div(w.select(endless, one, top), bottom)
    # beyond 0.66 from π/4
    near = w.below(t, 0.66)
    u = w.select(near, t, w.div(w.sub(t, one), w.add(t, one)))
    z = w.mul(u, u)
    angle = w.muladd(w.mul(u, z), w.ratio(z, _ATAN), u)
    quarter = w.add(w.constant(0.5 * _HALF_PI[0]), w.add(angle, w.constant(0.5 * _HALF_PI[1])))
    angle = w.select(near, angle, quarter)
    rest = w.sub(w.constant(_HALF_PI[0]), w.sub(angle, w.constant(_HALF_PI[1])))
    angle = w.select(steep, rest, angle)
    left = w.compare("slt", w.bits(x), w.whole(0))
    rest = w.sub(w.constant(2.0 * _HALF_PI[0]), w.sub(angle, w.constant(2.0 * _HALF_PI[1])))
    angle = w.copy_sign(w.select(left, rest, angle), y)
    unknown = w.value(f"fcmp uno {w.v.type} {y}, {x}")
    return w.select(unknown, w.add(y, x), angle)


def _pow(w: _Writer, x: str, y: str) -> tuple[str, str]:
    """x^y = e^(y log x) with log x in two numbers, and where that holds: x > 0, no overflow.

    log m = 2 s + ⅔ s³ + ⅖ s⁵ + …, s = (m − 1) / (m + 1): the first two terms in two numbers each.
    """
    ordinary = w.value(f"and {w.mask} {w.above(x, 2.0**-1022)}, {w.below(x, math.inf)}")
    k, m = _split_exponent(w, w.select(ordinary, x, w.constant(1.0)))
    f, bottom = w.sub(m, w.constant(1.0)), w.add(m, w.constant(1.0))
    lost = w.sub(m, w.sub(bottom, w.constant(1.0)))
    s = w.div(f, bottom)
    s_rest = w.div(w.sub(w.fma(w.negative(s), bottom, f), w.mul(s, lost)), bottom)
    z = w.mul(s, s)
    z_rest = w.fma(w.add(s, s), s_rest, w.fma(s, s, w.negative(z)))
    # a = ⅔ z + ⅖ z² + …
    two_thirds = w.constant(2.0 / 3.0)
    u = w.mul(two_thirds, z)
    u_rest = w.fma(two_thirds, z_rest, w.fma(two_thirds, z, w.negative(u)))
    u_rest = w.fma(w.constant(_TWO_THIRDS_REST), z, u_rest)
    tail = w.mul(w.mul(z, z), w.polynomial(z, [2.0 / (2 * n + 5) for n in range(10)]))
    a = w.add(u, tail)
    a_rest = w.add(w.add(w.sub(u, a), tail), u_rest)
    # log m = 2 s + s a
    p = w.mul(s, a)
    p_rest = w.fma(s, a, w.negative(p))
    p_rest = w.fma(s_rest, a, w.fma(s, a_rest, p_rest))
    twice = w.add(s, s)
    log_m = w.add(twice, p)
    log_m_rest = w.add(w.add(w.sub(twice, log_m), p), w.fma(w.constant(2.0), s_rest, p_rest))
    # log x = k ln 2 + log m
    whole = w.mul(k, w.constant(_LN2[0]))
    log_x = w.add(whole, log_m)
    rest = w.add(w.add(w.sub(whole, log_x), log_m), log_m_rest)
    rest = w.fma(k, w.constant(_LN2[1]), rest)
    # y log x; beyond these bounds, and for all else, the C library
    small = w.below(w.intrinsic("fabs", y), 2.0**200)
    power = w.select(small, y, w.constant(0.0))
    top = w.mul(power, log_x)
    top_rest = w.fma(power, rest, w.fma(power, log_x, w.negative(top)))
    bounded = w.below(w.intrinsic("fabs", top), 700.0)
    sound = w.value(f"and {w.mask} {ordinary}, {small}")
    sound = w.value(f"and {w.mask} {sound}, {bounded}")
    top, top_rest = (w.select(sound, part, w.constant(0.0)) for part in (top, top_rest))
    return _scaled_exponential(w, top, top_rest), sound


def _pow_ir(lanes: int) -> list[str]:
    """The function @pow.8: a vector that has other lanes goes to the C library, lane by lane."""
    w = _Writer(lanes)
    t, mask = w.v.type, w.mask
    value, sound = _pow(w, "%x", "%y")
    slow, result = [], "undef"
    for k in range(lanes):
        slow += [
            f"  %x{k} = extractelement {t} %x, i32 {k}",
            f"  %y{k} = extractelement {t} %y, i32 {k}",
            f"  %p{k} = call double @pow(double %x{k}, double %y{k})",
            f"  %f{k} = extractelement {t} {value}, i32 {k}",
            f"  %s{k} = extractelement {mask} {sound}, i32 {k}",
            f"  %c{k} = select i1 %s{k}, double %f{k}, double %p{k}",
            f"  %v{k} = insertelement {t} {result}, double %c{k}, i32 {k}",
        ]
        result = f"%v{k}"
    return [
        f"define internal {t} @pow.{lanes}({t} %x, {t} %y) noinline {{",
        *w.lines,
        f"  %all = bitcast {mask} {sound} to i{lanes}",
        f"  %fast = icmp eq i{lanes} %all, -1",
        "  br i1 %fast, label %done, label %slow",
        "done:",
        f"  ret {t} {value}",
        "slow:",
        *slow,
        f"  ret {t} {result}",
        "}",
    ]


ELEMENTARY: dict[str, Callable[..., Any]] = {
    "exp": _exp,
    "log": _log,
    "tanh": _tanh,
    "asin": _asin,
    "acos": _acos,
    "atan2": _atan2,
    "pow": _pow,
}
"""Functions of vectors, by the name that the tape has for them."""


def elementary_ir(v: VectorType, names: Sequence[str]) -> str:
    """The functions @exp.8 and so on, of vectors of doubles; @exp.8f computes in them."""
    wide = VectorType("double", v.lanes)
    needed = [*(["exp"] if "tanh" in names else []), *names]
    lines = []
    for name in dict.fromkeys(needed):
        arguments = {"atan2": ["%y", "%x"], "pow": ["%x", "%y"]}.get(name, ["%x"])
        if name == "pow":
            lines += _pow_ir(v.lanes)
        else:
            writer = _Writer(v.lanes)
            result = ELEMENTARY[name](writer, *arguments)
            given = ", ".join(f"{wide.type} {a}" for a in arguments)
            head = f"define internal {wide.type} @{name}.{v.lanes}({given}) noinline {{"
            lines += [head, *writer.lines, f"  ret {wide.type} {result}", "}"]
        if v.scalar == "float":
            given = ", ".join(f"{v.type} {a}" for a in arguments)
            lines += [f"define internal {v.type} @{name}.{v.lanes}f({given}) noinline {{"]
            lines += [f"  {a}w = fpext {v.type} {a} to {wide.type}" for a in arguments]
            inner = ", ".join(f"{wide.type} {a}w" for a in arguments)
            lines += [
                f"  %r = call {wide.type} @{name}.{v.lanes}({inner})",
                f"  %n = fptrunc {wide.type} %r to {v.type}",
                f"  ret {v.type} %n",
                "}",
            ]
    if lines:
        suffix, t = wide.intrinsic_suffix, wide.type
        lines.append(f"declare {t} @llvm.fmuladd.{suffix}({t}, {t}, {t})")
        if v.scalar == "float":
            lines += [f"declare {t} @llvm.{f}.{suffix}({t})" for f in ("fabs", "sqrt")]
            lines.append(f"declare {t} @llvm.fma.{suffix}({t}, {t}, {t})")
        if "pow" in needed:
            lines.append("declare double @pow(double, double)")
    return "\n".join(lines)
