"""Random functions with odd constants, in all widths of vectors, beside the interpreted tape."""

from __future__ import annotations

import contextlib
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_cases import cold_cache  # noqa: F401

from qddot.compile.kernel import KernelSource, compile_kernel
from qddot.compile.runtime import native
from qddot.compile.trace.definitions import DEFINITIONS, NO_OPERATIONS
from qddot.compile.trace.tape import record

pytestmark = pytest.mark.native_core
ODD = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, math.pi, 2.0, 2.0**53, math.inf, -math.inf, math.nan),
    *(5e-324, -5e-324, 1e-310, 2.3e-308, 1.7e308, 1e300, 3.5e38, 1e-45, 1e16, 1e22),
)
# sums of products may be rounded once, and what is left after they cancel is anything
EXACT = ("neg", "fabs", "floor", "min", "max", "select", "select_le", "select_eq", "mul", "div")
CLOSE = ("sin", "cos", "sqrt", "exp", "log", "tanh", "acos", "asin", "atan2")
ARITY = {n: f.__code__.co_argcount for n, f in DEFINITIONS.items() if n not in NO_OPERATIONS}
NUMBERS = itertools.count()
X = np.array([*ODD, *np.random.default_rng(0).normal(size=15)])

operand = st.one_of(st.integers(0, 40), st.sampled_from(ODD))
operation = st.tuples(st.sampled_from(sorted({*EXACT, *CLOSE})), st.lists(operand, min_size=4))


@settings(max_examples=12)
@given(st.integers(1, 3), st.lists(operation, max_size=12), st.lists(operand, min_size=1))
def test_random_functions(inputs, operations, outputs):
    def function(x):
        values = list(x)

        def value(k):
            return values[k % len(values)] if isinstance(k, int) else k

        for name, operands in operations:
            # a division of constants may fail
            with contextlib.suppress(ArithmeticError):
                values.append(DEFINITIONS[name](*(value(k) for k in operands[: ARITY[name]])))
        # functions of results would amplify their last bits: all are compared one by one
        return [*values, *map(value, outputs)]

    tape = record(function, [inputs])
    name = f"f{next(NUMBERS)}"
    arrays = np.stack([np.roll(X, 7 * k) for k in range(inputs)], axis=-1)
    source = KernelSource(
        name, "", tape.run, ((inputs,),), ((len(tape.outputs),),), tape.digest, tape=tape
    )
    for width in native.WIDTHS:
        with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
            patch.setenv("QDDOT_VECTOR_BYTES", str(width))
            found = compile_kernel(source).gufunc(arrays)
            # each operation of what the code itself gave for its operands
            known: dict[int, np.ndarray] = {
                x: found[:, k] for k, x in enumerate(tape.outputs) if type(x) is int
            }
            for i, (operator, *operands) in enumerate(tape.code):
                if operator == "input" or i not in known:
                    continue
                if any(type(x) is int and x not in known for x in operands):
                    continue
                given_ = [known[x] if type(x) is int else np.full(len(X), x) for x in operands]
                expected = DEFINITIONS[operator](*given_)
                exact = operator not in CLOSE
                np.testing.assert_allclose(
                    known[i],
                    expected,
                    rtol=0.0 if exact else 1e-11,
                    atol=0.0 if exact else 1e-300,
                    err_msg=f"{operator} {operands} in {width}",
                )
            for k, x in enumerate(tape.outputs):
                if type(x) is float:
                    np.testing.assert_array_equal(found[:, k], x)
