"""Sine and cosine on vectors, as LLVM IR: one range reduction, two polynomials.

|x| ≤ 1e5 is reduced by multiples of π/2 kept in three parts (with fused multiply-adds nothing is
lost); the few lanes beyond, infinities and NaN go to the C library one by one. The polynomials are
those of fdlibm (double) and Cephes (single).
"""

from __future__ import annotations

import math

from qddot.compile.types import Vector

__all__ = ["sincos_ir"]

_LARGEST = 1e5
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


def sincos_ir(v: Vector) -> str:
    """The function @sincos from a vector to the pair of its sines and cosines."""
    t, w = v.type, v.lanes
    pair = f"{{ {t}, {t} }}"
    body = "\n".join([*_reduction(v), *_quadrants(v)])
    return f"""
define internal {pair} @sincos({t} %x) noinline {{
{body}
  %mask = bitcast <{w} x i1> %inside to i{w}
  %all = icmp eq i{w} %mask, -1
  br i1 %all, label %done, label %slow
done:
  %p0 = insertvalue {pair} undef, {t} %sine, 0
  %p1 = insertvalue {pair} %p0, {t} %cosine, 1
  ret {pair} %p1
slow:
{_slow_lanes(v)}
}}
"""


def _reduction(v: Vector) -> list[str]:
    """%inside, the lanes that are reduced here; %n, the nearest multiple of π/2 of those, and
    %s, %c, the sine and cosine of what is left.
    """  # noqa: D205
    t, w, i = v.type, v.lanes, f"<{v.lanes} x {v.integer}>"
    lines: list[str] = []

    def fma(name: str, a: str, b: str, c: str) -> str:
        lines.append(f"  %{name} = call {t} @llvm.fma.{v.suffix}({t} {a}, {t} {b}, {t} {c})")
        return f"%{name}"

    def polynomial(name: str, coefficients: tuple[float, ...]) -> str:
        value = v.constant(coefficients[-1])
        for k, c in enumerate(reversed(coefficients[:-1])):
            value = fma(f"{name}{k}", value, "%r2", v.constant(c))
        return value

    lines += [
        f"  %magnitude = call {t} @llvm.fabs.{v.suffix}({t} %x)",
        # compared as integers, NaN raises no flag; the other lanes reduce 0 and raise none either
        f"  %bits = bitcast {t} %magnitude to {i}",
        f"  %largest = bitcast {t} {v.constant(_LARGEST)} to {i}",
        f"  %inside = icmp sle {i} %bits, %largest",
        f"  %safe = select <{w} x i1> %inside, {t} %x, {t} zeroinitializer",
        f"  %scaled = fmul {t} %safe, {v.constant(2 / math.pi)}",
        f"  %n = call {t} @llvm.rint.{v.suffix}({t} %scaled)",
        f"  %minus = fneg {t} %n",
    ]
    r = "%safe"
    for k, part in enumerate(_HALF_PI[v.scalar]):
        r = fma(f"r_{k}", "%minus", v.constant(part), r)
    lines += [
        f"  %r2 = fmul {t} {r}, {r}",
        f"  %r3 = fmul {t} %r2, {r}",
        f"  %r4 = fmul {t} %r2, %r2",
    ]
    fma("s", polynomial("sp", _SIN[v.scalar]), "%r3", r)
    half = fma("half", v.constant(-0.5), "%r2", v.constant(1.0))
    fma("c", polynomial("cp", _COS[v.scalar]), "%r4", half)
    return lines


def _quadrants(v: Vector) -> list[str]:
    """%sine and %cosine of x from those of the rest."""
    t, w, i = v.type, v.lanes, f"<{v.lanes} x {v.integer}>"
    one, two = (v.integers(k) for k in (1, 2))
    return [
        f"  %quadrant = fptosi {t} %n to {i}",
        f"  %odd = and {i} %quadrant, {one}",
        f"  %swap = icmp ne {i} %odd, zeroinitializer",
        f"  %sbit = and {i} %quadrant, {two}",
        f"  %sneg = icmp ne {i} %sbit, zeroinitializer",
        f"  %next = add {i} %quadrant, {one}",
        f"  %cbit = and {i} %next, {two}",
        f"  %cneg = icmp ne {i} %cbit, zeroinitializer",
        f"  %s1 = select <{w} x i1> %swap, {t} %c, {t} %s",
        f"  %c1 = select <{w} x i1> %swap, {t} %s, {t} %c",
        f"  %s2 = fneg {t} %s1",
        f"  %c2 = fneg {t} %c1",
        f"  %signed = select <{w} x i1> %sneg, {t} %s2, {t} %s1",
        # the multiples of π/2, though zero, would take the sign of -0
        f"  %zero = fcmp oeq {t} %x, zeroinitializer",
        f"  %sine = select <{w} x i1> %zero, {t} %x, {t} %signed",
        f"  %cosine = select <{w} x i1> %cneg, {t} %c2, {t} %c1",
    ]


def _slow_lanes(v: Vector) -> str:
    """Replace the lanes outside the range by what the C library says."""
    t, lines = v.type, []
    sine, cosine = "%sine", "%cosine"
    letter = "f" if v.scalar == "float" else ""
    for k in range(v.lanes):
        lines += [
            f"  %x{k} = extractelement {t} %x, i32 {k}",
            f"  %in{k} = extractelement <{v.lanes} x i1> %inside, i32 {k}",
            f"  %ls{k} = call {v.scalar} @sin{letter}({v.scalar} %x{k})",
            f"  %lc{k} = call {v.scalar} @cos{letter}({v.scalar} %x{k})",
            f"  %fs{k} = extractelement {t} %sine, i32 {k}",
            f"  %fc{k} = extractelement {t} %cosine, i32 {k}",
            f"  %ps{k} = select i1 %in{k}, {v.scalar} %fs{k}, {v.scalar} %ls{k}",
            f"  %pc{k} = select i1 %in{k}, {v.scalar} %fc{k}, {v.scalar} %lc{k}",
            f"  %vs{k} = insertelement {t} {sine}, {v.scalar} %ps{k}, i32 {k}",
            f"  %vc{k} = insertelement {t} {cosine}, {v.scalar} %pc{k}, i32 {k}",
        ]
        sine, cosine = f"%vs{k}", f"%vc{k}"
    pair = f"{{ {t}, {t} }}"
    lines += [
        f"  %q0 = insertvalue {pair} undef, {t} {sine}, 0",
        f"  %q1 = insertvalue {pair} %q0, {t} {cosine}, 1",
        f"  ret {pair} %q1",
    ]
    return "\n".join(lines)
