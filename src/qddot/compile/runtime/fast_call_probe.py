"""A trial of the built-in function in a process of its own: wrong offsets would end that process.

Run where a version of CPython or NumPy is new to this library. `prove_fast_call` raises an
AssertionError for a fault that it finds; another, such as the use of a freed object, ends the
process.
"""

from __future__ import annotations

import gc
import sys
import threading
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from qddot.compile.kernel import Kernel, KernelSource, compile_kernel

__all__ = ["prove_fast_call"]

_CALLS = 1000
_MORE_BLOCKS = 100
"""Blocks of memory that a thousand calls may leave behind: caches of the interpreter."""
_MORE_COUNTS = 10
"""References that others may have taken to None and its like meanwhile; each is passed 40 times."""
_IMMORTAL = (None, True, (), "", b"", 0, 1, 1.5)
"""Objects that are no arrays; from CPython 3.12 on most of them are not counted."""


def prove_fast_call() -> None:
    """Exercise the built-in function; an AssertionError, or a crash, says that it is not sound."""
    kernels = [_probe_kernel("product", 1), _probe_kernel("products", 2)]
    for kernel in kernels:
        _require(isinstance(kernel.call, types.BuiltinFunctionType), "objects look unexpectedly")
        _prove_results(kernel)
        _prove_errors(kernel)
        _prove_references(kernel)
    # calls from several threads at once
    faults: list[BaseException] = []

    def prove_in_thread(shared: Kernel) -> None:
        try:
            _prove_results(shared)
        except BaseException as error:
            faults.append(error)

    workers = [threading.Thread(target=prove_in_thread, args=kernels[1:]) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    _require(not faults, f"in threads: {faults[:1]}")
    # objects whose counts went wrong are found when they are freed
    del kernel, kernels, workers
    gc.collect()


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(what)


def _probe_kernel(name: str, outputs: int) -> Kernel:
    """A x / x₀, and with two outputs A as well."""

    def function(x: Sequence[Any], A: Sequence[Sequence[Any]]) -> list[Any]:
        product = [(row[0] * x[0] + row[1] * x[1]) / x[0] for row in A]
        return product if outputs == 1 else [*product, *(y for row in A for y in row)]

    shapes = ((2,), (3, 2)), ((3,), (3, 2))[:outputs]
    return compile_kernel(KernelSource(name, "A product.", function, *shapes, f"{name} of a probe"))


def _random_inputs(*batch: int, dtype: str = "float64", seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(1.0, 2.0, (*batch, *shape)).astype(dtype) for shape in ((2,), (3, 2))]


def _result_arrays(kernel: Kernel, *batch: int, dtype: str = "float64") -> list[np.ndarray]:
    """Arrays for the results."""
    return [np.full((*batch, *shape), 7.0, dtype) for shape in kernel.source.outputs]


def _result_bits(found: Any) -> list[tuple[Any, ...]]:
    """Types, shapes and bytes of one result or of several."""
    some = found if isinstance(found, tuple) else (found,)
    return [(type(x), x.dtype, x.shape, x.tobytes()) for x in some]


def _prove_results(kernel: Kernel) -> None:
    """One state and batches, into new arrays and given ones, as the gufunc has them."""
    for seed in range(20):
        given = _random_inputs(seed=seed)
        found = kernel.call(*given)
        _require(_result_bits(found) == _result_bits(kernel.gufunc(*given)), "results differ")
        some = found if isinstance(found, tuple) else (found,)
        _require(all(x.flags.owndata and x.flags.writeable for x in some), "results are views")
        # memory that belongs to nobody else is written without harm
        for x in some:
            x.fill(seed)
    for dtype in ("float64", "float32"):
        for batch in ((), (1,), (5,), (200,)):
            given, out = (
                _random_inputs(*batch, dtype=dtype),
                _result_arrays(kernel, *batch, dtype=dtype),
            )
            expected = _result_bits(kernel.gufunc(*given))
            _require(_result_bits(kernel.call(*given, *out)) == expected, "given arrays differ")
            _require(_result_bits(tuple(out)) == expected, "given arrays are not written")


def _call_outcome(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """The result of a call, or the kind of its error."""
    try:
        return _result_bits(function(*arguments))
    except Exception as error:
        return type(error)


def _wrong_calls(kernel: Kernel) -> list[list[Any]]:
    """Arguments that are handed on: lists, other shapes and dtypes, objects of any kind."""
    x, A = _random_inputs()
    calls = [[x.tolist(), A], [x[None], A], [x.astype("f4"), A], [x[::-1], A], [x], []]
    calls += [
        [np.zeros(5), A],
        [x, A, *_result_arrays(kernel)[:-1], np.zeros(9)],
        [x, A, A, A, A, A],
    ]
    return calls + [[x, thing] for thing in _IMMORTAL] + [[thing, A] for thing in _IMMORTAL]


def _prove_errors(kernel: Kernel) -> None:
    """Calls that are handed on end as those of the gufunc do; floating-point flags are checked."""
    for arguments in _wrong_calls(kernel):
        ours, theirs = (
            _call_outcome(kernel.call, arguments),
            _call_outcome(kernel.gufunc, arguments),
        )
        _require(ours == theirs, f"a call of {len(arguments)} arguments ended as {ours}")
    x, A = _random_inputs(4)
    x[2] = 0.0
    out = _result_arrays(kernel, 4)
    with np.errstate(all="raise"):
        _require(
            _call_outcome(kernel.call, (x, A, *out)) is FloatingPointError, "no error of flags"
        )
    with np.errstate(all="ignore"):
        _require(
            _call_outcome(kernel.call, (x, A, *out)) == _result_bits(tuple(out)),
            "flags not ignored",
        )


def _count_references(objects: Sequence[Any]) -> np.ndarray:
    """Reference counts, in an array that refers to no number itself."""
    return np.array([sys.getrefcount(x) for x in objects])


def _prove_references(kernel: Kernel) -> None:
    """A thousand calls of every kind count references right and leave no memory behind."""
    one, many, out = _random_inputs(), _random_inputs(3), _result_arrays(kernel, 3)
    wrong = _wrong_calls(kernel)
    own = [kernel.call, getattr(kernel.call, "__self__", None), kernel.gufunc, np.ndarray]
    watched = [*one, *many, *out, *_IMMORTAL, *own, np.dtype("f8"), np.dtype("f4")]

    def repeat_calls(times: int) -> None:
        for _ in range(times):
            kernel.call(*one)
            kernel.call(*many, *out)
        for arguments in wrong * (times // 50):
            _call_outcome(kernel.call, arguments)

    repeat_calls(_CALLS)
    gc.collect()
    counts, blocks = _count_references(watched), sys.getallocatedblocks()
    repeat_calls(_CALLS)
    gc.collect()
    changes = np.abs(_count_references(watched) - counts)
    _require(bool((changes < _MORE_COUNTS).all()), "references are miscounted")
    _require(sys.getallocatedblocks() - blocks < _MORE_BLOCKS, "memory stays behind")
