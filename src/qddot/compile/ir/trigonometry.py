"""Sine and cosine on vectors, as LLVM IR: one range reduction, two polynomials.

|x| ≤ 1e5 is reduced by multiples of π/2 kept in three parts (with fused multiply-adds nothing is
lost); the few lanes beyond, infinities and NaN go to the C library one by one. The polynomials are
those of fdlibm (double) and Cephes (single).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from qddot.compile.ir.types import VectorType

__all__ = ["sincos_ir"]

_LARGEST = 1e5
_SHIFT = {"double": 1.5 * 2.0**52, "float": 1.5 * 2.0**23}
_HALF_PI = {
    "double": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33),
    "float": (1.5707963705062866, -4.371139000186241e-08, -1.7151245100059516e-15),
}
_SIN = {
    "double": (
        -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
        2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10,
    ),
    "float": (-1.6666654611e-01, 8.3321608736e-03, -1.9515295891e-04),
}  # fmt: skip
_COS = {
    "double": (
        4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
        -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11,
    ),
    "float": (4.166664568298827e-02, -1.388731625493765e-03, 2.443315711809948e-05),
}  # fmt: skip


def sincos_ir(v: VectorType) -> str:
    """The functions @sincos1, from a vector to its sines and cosines, and @sincos2, from two.

    Two at a time share the constants, and one computes while the other waits.
    """
    # lanes out of range: the C library, one by one
    t, slow_lanes = v.type, list[str]()
    sine, cosine = "%sine_x", "%cosine_x"
    letter = "f" if v.scalar == "float" else ""
    for k in range(v.lanes):
        last = k == v.lanes - 1
        names = ("%slow_sine", "%slow_cosine") if last else (f"%vs{k}", f"%vc{k}")
        slow_lanes += [
            f"  %x{k} = extractelement {t} %x, i32 {k}",
            f"  %in{k} = extractelement <{v.lanes} x i1> %inside_x, i32 {k}",
            f"  %ls{k} = call {v.scalar} @sin{letter}({v.scalar} %x{k})",
            f"  %lc{k} = call {v.scalar} @cos{letter}({v.scalar} %x{k})",
            f"  %fs{k} = extractelement {t} %sine_x, i32 {k}",
            f"  %fc{k} = extractelement {t} %cosine_x, i32 {k}",
            f"  %ps{k} = select i1 %in{k}, {v.scalar} %fs{k}, {v.scalar} %ls{k}",
            f"  %pc{k} = select i1 %in{k}, {v.scalar} %fc{k}, {v.scalar} %lc{k}",
            f"  {names[0]} = insertelement {t} {sine}, {v.scalar} %ps{k}, i32 {k}",
            f"  {names[1]} = insertelement {t} {cosine}, {v.scalar} %pc{k}, i32 {k}",
        ]
        sine, cosine = names
    slow_pair = [
        f"  %{a} = call {_result_type(v, 1)} @sincos1({v.type} %{x})"
        for a, x in (("a", "x"), ("b", "y"))
    ]
    slow_pair += [
        f"  %{a}{k} = extractvalue {_result_type(v, 1)} %{a}, {k}"
        for a in ("a", "b")
        for k in (0, 1)
    ]
    return "\n".join(
        [
            _sincos_function("sincos1", v, ["x"], slow_lanes, ["%slow_sine", "%slow_cosine"]),
            _sincos_function("sincos2", v, ["x", "y"], slow_pair, ["%a0", "%a1", "%b0", "%b1"]),
        ]
    )


def _result_type(v: VectorType, angles: int) -> str:
    """The type of the sines and cosines of some angles."""
    return f"{{ {', '.join([v.type] * 2 * angles)} }}"


def _sincos_function(
    name: str, v: VectorType, angles: Sequence[str], slow: Sequence[str], found: Sequence[str]
) -> str:
    """A function of angles; where a lane is out of range, `slow` finds the results instead."""
    mask, given = f"<{v.lanes} x i1>", ", ".join(f"{v.type} %{x}" for x in angles)
    lines = [f"define internal {_result_type(v, len(angles))} @{name}({given}) noinline {{"]
    for x in angles:
        lines += [*_reduce_angle(v, x), *_pick_quadrants(v, x)]
    lines += [
        f"  %all = and {mask} %inside_{angles[0]}, %inside_{angles[-1]}",
        f"  %bits = bitcast {mask} %all to i{v.lanes}",
        f"  %fast = icmp eq i{v.lanes} %bits, -1",
        "  br i1 %fast, label %done, label %slow",
        "done:",
        *_return_values(v, [f"%{f}_{x}" for x in angles for f in ("sine", "cosine")], "p"),
        "slow:",
        *slow,
        *_return_values(v, found, "q"),
        "}",
    ]
    return "\n".join(lines)


def _return_values(v: VectorType, values: Sequence[str], tag: str) -> list[str]:
    """Return sines and cosines."""
    result, so_far, lines = _result_type(v, len(values) // 2), "undef", []
    for k, value in enumerate(values):
        lines.append(f"  %{tag}{k} = insertvalue {result} {so_far}, {v.type} {value}, {k}")
        so_far = f"%{tag}{k}"
    return [*lines, f"  ret {result} {so_far}"]


def _reduce_angle(v: VectorType, x: str) -> list[str]:
    """Of an angle: %inside, the lanes that are reduced here, and of those %shifted, the nearest
    multiple of π/2 in its last bits, and %s, %c, the sine and cosine of what is left.
    """  # noqa: D205
    t, w, i = v.type, v.lanes, f"<{v.lanes} x {v.integer_type}>"
    lines: list[str] = []

    def fma(name: str, a: str, b: str, c: str) -> str:
        lines.append(
            f"  %{name}_{x} = call {t} @llvm.fma.{v.intrinsic_suffix}({t} {a}, {t} {b}, {t} {c})"
        )
        return f"%{name}_{x}"

    def product(name: str, a: str, b: str) -> str:
        lines.append(f"  %{name}_{x} = fmul {t} {a}, {b}")
        return f"%{name}_{x}"

    def polynomial(name: str, coefficients: tuple[float, ...]) -> str:
        value = v.constant(coefficients[-1])
        for k, c in enumerate(reversed(coefficients[:-1])):
            value = fma(f"{name}{k}", value, r2, v.constant(c))
        return value

    lines += [
        f"  %magnitude_{x} = call {t} @llvm.fabs.{v.intrinsic_suffix}({t} %{x})",
        # compared as integers, NaN raises no flag; the other lanes reduce 0 and raise none either
        f"  %bits_{x} = bitcast {t} %magnitude_{x} to {i}",
        f"  %largest_{x} = bitcast {t} {v.constant(_LARGEST)} to {i}",
        f"  %inside_{x} = icmp sle {i} %bits_{x}, %largest_{x}",
        f"  %safe_{x} = select <{w} x i1> %inside_{x}, {t} %{x}, {t} zeroinitializer",
    ]
    # a sum this large has no bits for fractions
    shift = v.constant(_SHIFT[v.scalar])
    shifted = fma("shifted", f"%safe_{x}", v.constant(2 / math.pi), shift)
    lines += [f"  %n_{x} = fsub {t} {shift}, {shifted}"]
    # the rest r of the angle, and its powers
    r = f"%safe_{x}"
    for k, part in enumerate(_HALF_PI[v.scalar]):
        r = fma(f"r{k}", f"%n_{x}", v.constant(part), r)
    r2 = product("square", r, r)
    r3, r4 = product("cube", r2, r), product("fourth", r2, r2)
    # sin r = r + r³ p(r²), cos r = 1 − r²/2 + r⁴ p(r²)
    fma("s", polynomial("sp", _SIN[v.scalar]), r3, r)
    half = fma("half", v.constant(-0.5), r2, v.constant(1.0))
    fma("c", polynomial("cp", _COS[v.scalar]), r4, half)
    return lines


def _pick_quadrants(v: VectorType, x: str) -> list[str]:
    """%sine and %cosine of an angle from those of the rest."""
    t, w, i = v.type, v.lanes, f"<{v.lanes} x {v.integer_type}>"
    top = v.integer_constant(8 * v.number_bytes - 1)
    second = v.integer_constant(8 * v.number_bytes - 2)
    sign = f"bitcast ({t} {v.constant(-0.0)} to {i})"

    def flip_sign(name: str, number: str, quadrant: str) -> list[str]:
        return [
            f"  %{name}_up_{x} = shl {i} {quadrant}, {second}",
            f"  %{name}_sign_{x} = and {i} %{name}_up_{x}, {sign}",
            f"  %{name}_bits_{x} = bitcast {t} {number} to {i}",
            f"  %{name}_flip_{x} = xor {i} %{name}_bits_{x}, %{name}_sign_{x}",
            f"  %{name}_{x} = bitcast {i} %{name}_flip_{x} to {t}",
        ]

    return [
        f"  %quadrant_{x} = bitcast {t} %shifted_{x} to {i}",
        f"  %odd_{x} = shl {i} %quadrant_{x}, {top}",
        f"  %swap_{x} = icmp slt {i} %odd_{x}, zeroinitializer",
        f"  %next_{x} = add {i} %quadrant_{x}, {v.integer_constant(1)}",
        f"  %s1_{x} = select <{w} x i1> %swap_{x}, {t} %c_{x}, {t} %s_{x}",
        f"  %c1_{x} = select <{w} x i1> %swap_{x}, {t} %s_{x}, {t} %c_{x}",
        *flip_sign("signed", f"%s1_{x}", f"%quadrant_{x}"),
        *flip_sign("cosine", f"%c1_{x}", f"%next_{x}"),
        # the multiples of π/2, though zero, would take the sign of -0
        f"  %zero_{x} = fcmp oeq {t} %{x}, zeroinitializer",
        f"  %sine_{x} = select <{w} x i1> %zero_{x}, {t} %{x}, {t} %signed_{x}",
    ]
