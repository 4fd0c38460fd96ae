"""Test vectors and a test program in C for exported functions."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qddot.export.c_source import MARKER, ArrayParameter, Routine, number_literal

__all__ = ["Vectors", "program_text", "vectors_text"]


@dataclass(frozen=True)
class Vectors:
    """Inputs and expected outputs of a routine, one array (n, size) for each argument.

    `sizes` has, for each output, the size (n) that errors are relative to, `tolerances` the
    largest relative error that passes. `setup` are statements before the first call, `carried`
    arguments between inputs and outputs that they declare.
    """

    routine: Routine
    inputs: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]
    sizes: tuple[np.ndarray, ...]
    tolerances: tuple[float, ...]
    setup: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()


def vectors_text(name: str, vectors: Sequence[Vectors], scalar: str) -> str:
    """The header of the test vectors: inputs in the scalar of the functions, results in double."""
    guard = f"{name.upper()}_VECTORS_H"
    lines = [f"/* {MARKER}: do not edit */", f"#ifndef {guard}", f"#define {guard}", ""]
    for v in vectors:
        r = v.routine
        for p, rows in zip(r.inputs, v.inputs, strict=True):
            lines += _array_text(f"in_{r.name}_{p.name}", p, rows, scalar)
        for p, rows, sizes in zip(r.outputs, v.outputs, v.sizes, strict=True):
            lines += _array_text(f"out_{r.name}_{p.name}", p, rows, "double")
            listed = ", ".join(number_literal(x, "double") for x in sizes)
            lines += _wrap_line(
                f"static const double size_{r.name}_{p.name}[{len(rows)}] = {{{listed}}};"
            )
        lines.append("")
    return "\n".join([*lines, "#endif", ""])


def _array_text(name: str, parameter: ArrayParameter, rows: np.ndarray, scalar: str) -> list[str]:
    lines = [f"static const {scalar} {name}[{len(rows)}][{parameter.extent}] = {{"]
    for row in rows:
        lines += _wrap_line("    {" + ", ".join(number_literal(x, scalar) for x in row) + "},")
    return [*lines, "};"]


def _wrap_line(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.wrap(
        line, 99, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


_PROGRAM = """\
/* {marker}: do not edit */
/* Runs {name}.c on {name}_vectors.h; exit code 0 if every error is within its tolerance, else 1.
 * cc -std=c99 -O2 {name}.c {name}_test.c -lm -o {name}_test && ./{name}_test
 */
#include <math.h>
#include <stdio.h>
#include "{name}.h"
#include "{name}_vectors.h"

static double worst = 0.0;
static int failures = 0;

/* The largest error over the size of the output, or that of before; infinite if not a number. */
static double larger(
    double before, int n, const {scalar} *found, const double *expected, double size)
{{
    double largest = 0.0;
    for (int i = 0; i < n; i++) {{
        const double error = fabs((double)found[i] - expected[i]);
        if (!(error <= HUGE_VAL)) return HUGE_VAL;
        largest = fmax(largest, error);
    }}
    return largest > 0.0 ? fmax(before, largest / size) : before;
}}

static void judge(const char *output, double error, double tolerance)
{{
    const int passed = error <= tolerance;
    printf("%-{width}s  relative error %8.1e, at most %8.1e: %s\\n",
        output, error, tolerance, passed ? "pass" : "FAIL");
    worst = fmax(worst, error);
    failures += !passed;
}}
{tests}
int main(void)
{{
{calls}
    printf("largest relative error %.1e, %d failed\\n", worst, failures);
    return failures ? 1 : 0;
}}
"""


def program_text(name: str, vectors: Sequence[Vectors], scalar: str) -> str:
    """The program that runs the functions on the vectors and tells the largest relative errors."""
    shown = [f"{v.routine.name} {p.name}" for v in vectors for p in v.routine.outputs]
    # a function for each routine: outputs and errors, a loop over the vectors, then the verdicts
    lines: list[str] = []
    for v in vectors:
        r = v.routine
        values = [f"in_{r.name}_{p.name}[k]" for p in r.inputs]
        values += [*v.carried, *(p.name for p in r.outputs)]
        lines += ["", f"static void test_{r.name}(void)", "{"]
        lines += [f"    static {scalar} {p.name}[{p.extent}];" for p in r.outputs]
        lines += [f"    double error_{p.name} = 0.0;" for p in r.outputs]
        lines += [f"    {line}" for line in v.setup]
        lines += [f"    for (int k = 0; k < {len(v.inputs[0])}; k++) {{"]
        lines += _wrap_line(f"        {r.name}({', '.join(values)});")
        for p in r.outputs:
            vector = f"{p.extent}, {p.name}, out_{r.name}_{p.name}[k], size_{r.name}_{p.name}[k]"
            lines += _wrap_line(f"        error_{p.name} = larger(error_{p.name}, {vector});")
        lines.append("    }")
        for p, tolerance in zip(r.outputs, v.tolerances, strict=True):
            bound = number_literal(tolerance, "double")
            lines.append(f'    judge("{r.name} {p.name}", error_{p.name}, {bound});')
        lines.append("}")
    return _PROGRAM.format(
        marker=MARKER,
        name=name,
        scalar=scalar,
        width=max(map(len, shown)),
        tests="\n".join(lines),
        calls="\n".join(f"    test_{v.routine.name}();" for v in vectors),
    )
