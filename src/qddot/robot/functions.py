"""Functions of the user's own, written in NumPy on a robot, as compiled functions."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qddot.algorithms.catalogue import Argument, Function, sizes
from qddot.compile.kernel import Kernel, KernelSource, compile_kernel
from qddot.compile.runtime.chunks import run_batch
from qddot.compile.runtime.memory import require_batch
from qddot.compile.runtime.results import validate_out
from qddot.compile.runtime.threads import SETTING
from qddot.compile.trace.functions import has_symbols, record_arrays, symbol_array
from qddot.errors import (
    CannotTrace,
    InvalidArgument,
    TooLarge,
    UnknownArgument,
    UnknownName,
    Unsupported,
    WrongType,
)
from qddot.model.model import Model
from qddot.robot.interpret import casadi_function, interpret, validate_arrays
from qddot.robot.native import source_of

if TYPE_CHECKING:
    import casadi

__all__ = ["CompiledFunction", "compile_function", "record_arguments", "record_call"]

_KNOWN = {"q": ("nq",), "v": ("nv",), "a": ("nv",), "tau": ("nv",)}
"""Arguments whose shapes need not be given."""
_DEFINITE = ("M", "Minv", "W", "Lambda")
"""Outputs of the catalogue that are symmetric positive definite where they can be inverted."""


def record_call(
    row: Function,
    model: Model,
    arrays: Sequence[np.ndarray],
    options: Mapping[str, Any],
    check: Callable[[], None],
) -> Any:
    """A catalogue function of one state of symbols."""
    source = source_of(row, model, options, check=check)
    if any(x.ndim != len(shape) for x, shape in zip(arrays, source.inputs, strict=True)):
        raise CannotTrace(
            f"{row.name}: a function is recorded for one state, without leading axes; call what "
            "is compiled on a batch"
        )
    leaves = iter(source.function(*(x.tolist() for x in arrays)))
    results = tuple(
        symbol_array([next(leaves) for _ in range(math.prod(shape))], shape)
        for shape in source.outputs
    )
    for argument, array in zip(row.outputs, results, strict=True):
        if argument.name in _DEFINITE:
            array.definite = True
    return results if len(results) > 1 else results[0]


@dataclass(frozen=True)
class CompiledFunction:
    """A function of arrays, compiled: call it as the original, without the robot.

    Leading axes are batch and broadcast; `out=` takes arrays for the results. `call` is the
    quickest way for one state, arrays only; `gufunc` is NumPy's. `row` has the names and shapes,
    `memory` start values of what the last argument and result carry from call to call.
    """

    robot: Any
    function: Callable[..., Any]
    row: Function
    source: KernelSource
    several: bool
    memory: Mapping[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def kernel(self) -> Kernel:
        """The compiled form."""
        return compile_kernel(self.source)

    @cached_property
    def compiled(self) -> bool:
        """Whether there is code: not for a robot that is interpreted, or a tape too large."""
        try:
            return bool(self.robot.native and self.kernel)
        except TooLarge:
            return False

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.row.name

    def reads(self, name: str) -> bool:
        """Whether any result depends on an argument."""
        first = 0
        for argument, shape in zip(self.row.inputs, self.source.inputs, strict=True):
            last = first + math.prod(shape)
            if argument.name == name:
                return not self.source.record_tape().used_inputs.isdisjoint(range(first, last))
            first = last
        raise UnknownName("argument", name, [a.name for a in self.row.inputs], self.name)

    @property
    def gufunc(self) -> np.ufunc:
        """The function as a NumPy gufunc."""
        return self.kernel.gufunc

    @property
    def call(self) -> Callable[..., Any]:
        """The quickest way for one state, or a batch with arrays for the results."""
        return self.kernel.call

    def __repr__(self) -> str:
        return f"<CompiledFunction {self.name}{self.source.signature}>"

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """The function of arrays, in the order of its arguments or by name."""
        if out is None and not named and (SETTING.single or SETTING.threads == 1):
            try:
                return self._quick_call(*arrays)
            except Exception:
                pass  # arguments that the general way takes, or refuses in words
        return self._call_general(self._in_order(arrays, named), out)

    @cached_property
    def _quick_call(self) -> Callable[..., Any]:
        """The way past all checks, where results come as the function returns them."""
        if not self.compiled or (self.several and len(self.source.outputs) == 1):
            raise Unsupported(self.name, "a call without checks", "the general way is taken")
        return self.kernel.call

    def _in_order(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """Arguments by position and name, in order."""
        names = [a.name for a in self.row.inputs]
        unknown = [n for n in named if n not in names[len(arrays) :]]
        if unknown:
            raise UnknownArgument(self.name, unknown, [*names, "out"])
        return [*arrays, *(named[n] for n in names[len(arrays) :] if n in named)]

    def _call_general(self, arrays: Sequence[Any], out: Any) -> Any:
        row, source = self.row, self.source
        inputs, batch = validate_arrays(row, arrays, sizes(self.robot.model, {}))
        dtype = np.result_type(np.float32, *inputs)
        if out is not None:
            out = validate_out(self.name, out, source.outputs, batch, dtype)
        else:
            require_batch(
                self.name, batch, row.numbers(sizes(self.robot.model, {})) * dtype.itemsize
            )
        # compiled, over the threads and in chunks where a batch is large
        if self.compiled and dtype.kind == "f" and dtype.itemsize <= 8:
            cores = [len(shape) for shape in source.inputs]
            results = run_batch(self.gufunc, inputs, cores, source.outputs, out, self.kernel.cost)
            values = results if isinstance(results, tuple) else (results,)
        elif any(map(has_symbols, inputs)):
            # inside another function that is recorded
            flat = [leaf for x in inputs for leaf in x.ravel().tolist()]
            leaves = iter(source.record_tape().run(flat))
            values = tuple(
                symbol_array([next(leaves) for _ in range(math.prod(s))], s) for s in source.outputs
            )
        else:
            # other numbers, or nothing compiled: the operations on arrays
            value = interpret(row, self.robot.model, inputs, {})
            values = value if isinstance(value, tuple) else (value,)
            for target, value in zip(out or (), values, strict=bool(out)):
                target[...] = value
            values = out or values
        return values if self.several else values[0]

    def run_text(self, arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """The text itself on floats, state by state: the definition."""
        inputs, batch = validate_arrays(self.row, arrays, sizes(self.robot.model, {}))
        dtype = np.result_type(np.float32, *inputs)
        results = tuple(np.empty((*batch, *shape), dtype) for shape in self.source.outputs)
        spread = [
            np.broadcast_to(x, (*batch, *shape))
            for x, shape in zip(inputs, self.source.inputs, strict=True)
        ]
        for index in np.ndindex(*batch):
            value = self.function(self.robot, *(x[index] for x in spread))
            for target, part in zip(results, value if self.several else (value,), strict=True):
                target[index] = part
        return results

    def explain(self) -> Kernel:
        """The kernel, with facts about its code; print it for a summary."""
        return self.kernel

    def casadi(self) -> casadi.Function:
        """The same operations as a casadi.Function."""
        return casadi_function(self.row, self.robot.model, {})

    def export_c(self, folder: str | os.PathLike[str], dtype: Any = "float64") -> Any:
        """Write the function as C99 with header, tests and accuracy report."""
        return self.robot.export_c([self], folder, dtype)


def compile_function(
    robot: Any, function: Callable[..., Any], given: Mapping[str, Any]
) -> CompiledFunction:
    """Record a function f(robot, q, v, …) of one state and compile it."""
    # its arguments after the robot, in order, with their shapes
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise WrongType("compile", function, "it needs a function of Python's") from error
    if not parameters or parameters[0].kind in (
        inspect.Parameter.VAR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    ):
        raise InvalidArgument("compile", function, "it is a function f(robot, q, v, …)")
    # sizes of the robot, not those that options give
    dims = {n: k for n, k in sizes(robot.model, {}).items() if n not in ("nw", "nt", "nc")}
    arguments, shapes = [], {**_KNOWN, **given}
    for p in parameters[1:]:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise InvalidArgument("compile", f"*{p.name}", "its arguments need names")
        if p.name in shapes:
            # a number, a size such as "nv", or several
            shape = shapes[p.name]
            axes = shape if isinstance(shape, tuple | list) else (shape,)
            for n in axes:
                whole = isinstance(n, int | np.integer) and not isinstance(n, bool) and n > 0
                if not whole and not (isinstance(n, str) and n in dims):
                    sizes_known = ", ".join(map(repr, dims))
                    accepted = f"a shape is 3, (3, 3), () for a number, or {sizes_known}"
                    raise InvalidArgument(f"compile: {p.name}", shape, accepted)
            arguments.append(Argument(p.name, tuple(map(str, axes))))
        elif p.default is p.empty:
            accepted = f"give its shape: robot.compile(f, {p.name}=3), (3, 3), 'nv' or ()"
            raise InvalidArgument("compile", f"the argument {p.name!r} without a shape", accepted)
    names = [a.name for a in arguments]
    unknown = [n for n in given if n not in names]
    if unknown:
        raise UnknownArgument("the function", unknown, [p.name for p in parameters[1:]])
    if not all(math.prod(a.shape_in(dims)) for a in arguments) or not arguments:
        raise Unsupported("compile", function, "it needs arguments after the robot, with numbers")
    # record it
    name = getattr(function, "__name__", type(function).__name__)
    compiled = record_arguments(
        robot,
        function,
        tuple(arguments),
        name=name if name.isidentifier() else "function",
        doc=inspect.getdoc(function) or f"{name}, a function of the user's own.",
        origin=function,
    )
    _ = compiled.compiled
    return compiled


def record_arguments(
    robot: Any,
    function: Callable[..., Any],
    arguments: tuple[Argument, ...],
    *,
    name: str,
    doc: str,
    origin: Callable[..., Any],
    memory: Mapping[str, np.ndarray] | None = None,
) -> CompiledFunction:
    """Record a function of a robot and of these arguments, in their order.

    It is compiled when its kernel is first asked for. Errors name the line of `origin`. With
    `memory`, start values by name, the last argument and the last result are what it keeps from
    call to call, flat.
    """
    dims = sizes(robot.model, {})
    shapes = {a.name: a.shape_in(dims) for a in arguments}
    recording = record_arrays(
        lambda **arrays: function(robot, *arrays.values()), shapes, origin=origin
    )
    outputs, tape = recording.outputs, recording.tape

    # a row as those of the catalogue, whose algorithm is the tape
    def algorithm(model: Model, *values: Any) -> Any:
        pairs = zip(values, shapes.values(), strict=True)
        leaves = iter(tape.run([leaf for x, shape in pairs for leaf in _flatten(x, shape)]))
        results = [_fold(leaves, shape) for shape in outputs.values()]
        return results if len(results) > 1 else results[0]

    algorithm.__name__, algorithm.__doc__ = name, doc
    results = tuple(Argument(n, tuple(map(str, s))) for n, s in outputs.items())
    row = Function(algorithm, arguments, results)
    source = KernelSource(
        name,
        row.doc,
        tape.run,
        inputs=tuple(shapes.values()),
        outputs=tuple(outputs.values()),
        key=f"tape {tape.digest}",
        tape=tape,
    )
    return CompiledFunction(robot, function, row, source, recording.several, memory or {})


def _flatten(x: Any, shape: Sequence[int]) -> list[Any]:
    return [leaf for part in x for leaf in _flatten(part, shape[1:])] if shape else [x]


def _fold(leaves: Any, shape: Sequence[int]) -> Any:
    return [_fold(leaves, shape[1:]) for _ in range(shape[0])] if shape else next(leaves)
