"""A kernel: a function of arrays, compiled, as a gufunc with float64 and float32 loops.

Read from the top: the source of a kernel, the kernel, then the stages in their order.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import json
import math
import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from qddot.compile.ir.block import Places
from qddot.compile.ir.calls import function_calls
from qddot.compile.ir.fast_call import FAST_CALL, fast_call_ir
from qddot.compile.ir.loop import loop_ir
from qddot.compile.ir.lower import lower_tape
from qddot.compile.ir.scan import ScanShapes, scan_ir, step_places
from qddot.compile.ir.schedule import Schedule, schedule_pieces
from qddot.compile.ir.stores import split_outputs, writes_after
from qddot.compile.ir.stream import stream_ir, worth_streaming
from qddot.compile.ir.types import VectorType, vector_type
from qddot.compile.runtime import native
from qddot.compile.runtime.cache import Cache, Entry
from qddot.compile.runtime.calls import guard_memory
from qddot.compile.runtime.fast_call import make_fast_call
from qddot.compile.runtime.gufunc import Loops, make_gufunc
from qddot.compile.runtime.memory import SMALL, require_memory
from qddot.compile.runtime.progress import announce_long_work, write_line
from qddot.compile.runtime.refill import refill_arrays
from qddot.compile.trace.fuse import fuse_multiply_adds
from qddot.compile.trace.tape import Symbol, Tape, record
from qddot.errors import CannotCompile, TooLarge, Unsupported, refuse_endless_recursion

__all__ = ["Kernel", "KernelSource", "compile_kernel"]

Shape = tuple[int, ...]
_LOOP, _NEAR_LOOP = "qddot_loop", "near_loop"
_MOST_COMPILED = 600_000
"""Operations, inputs and outputs of a kernel: about a minute of compilation, and 1 GB."""
_MEMORY_TO_COMPILE, _MEMORY_TO_LOAD = 3000, 8
"""Bytes of memory per operation, input and output to compile, and per byte of code to load it."""
_FACTS = {
    *("operations", "cost", "lanes", "dtype", "cpu", "pieces", "workspace", "bytes", "seconds"),
    "objects",
}
_TOO_LARGE = "too large"
# packages none of whose functions are recorded; any other package is taken to have some
_WITHOUT_KERNEL_TEXT = {"bench", "cli", "export", "loaders", "report", "verify", "view", "writers"}
_lock = threading.RLock()


def _renew_lock() -> None:
    """A child process must not wait for a thread that only its parent has."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
_numbers = itertools.count()


@dataclass(frozen=True)
class KernelSource:
    """The function that a kernel computes, with its shapes.

    `function` takes nested lists of numbers of the input shapes and returns all output numbers in
    order. `key` says in words all that it depends on besides the sources of this library. With a
    `scan` the function is a step that is repeated in time. Without `zeros`, outputs that are zero
    at every state are not written: their arrays must have them already. A `tape` is the function
    as it was recorded before.
    """

    name: str
    doc: str
    function: Callable[..., Sequence[Any]]
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    key: str
    scan: ScanShapes | None = None
    zeros: bool = True
    tape: Tape | None = None

    @property
    def arguments(self) -> tuple[tuple[int | str, ...], ...]:
        """Core axes of the inputs of the gufunc."""
        return self.scan.arguments if self.scan else self.inputs

    @property
    def results(self) -> tuple[tuple[int | str, ...], ...]:
        """Core axes of the outputs of the gufunc."""
        return self.scan.results if self.scan else self.outputs

    @property
    def signature(self) -> str:
        """The gufunc signature."""
        sides = (self.arguments, self.results)
        return "->".join(",".join(f"({','.join(map(str, a))})" for a in side) for side in sides)

    @property
    def has_fast_call(self) -> bool:
        """Whether there is a way around NumPy: all inputs and outputs are arrays of one size."""
        return self.scan is None and all(self.inputs) and all(self.outputs)

    def loop_ir(self, tape: Tape, plan: Schedule, vector: VectorType, places: Places) -> str:
        """The IR of the loop over a batch."""
        workspace, calls = plan.workspace, function_calls(tape, plan, vector, plan.calls)
        if self.scan:
            return scan_ir(tape, places, vector, self.scan, workspace, calls, _LOOP)
        shapes = (self.inputs, self.outputs)
        if not (self.zeros and worth_streaming(self.outputs)):
            return loop_ir(vector, *shapes, workspace, calls, _LOOP)
        near = loop_ir(vector, *shapes, workspace, calls, _NEAR_LOOP, internal=True)
        return near + "\n" + stream_ir(vector, *shapes, _NEAR_LOOP, _LOOP)

    def record_tape(self) -> Tape:
        """The tape of the function."""
        if self.tape is not None:
            return self.tape

        def flat_function(*vectors: list[Symbol]) -> Sequence[Any]:
            folded = [_fold_list(x, s) for x, s in zip(vectors, self.inputs, strict=True)]
            return self.function(*folded)

        try:
            with refuse_endless_recursion(self.name):
                return record(flat_function, [math.prod(s) for s in self.inputs])
        except TooLarge as error:
            raise TooLarge(self.name, error.size, error.most) from error

    @property
    def number_count(self) -> int:
        """Number of inputs and outputs at one state."""
        return sum(map(math.prod, (*self.inputs, *self.outputs)))


@dataclass(frozen=True)
class Kernel:
    """A compiled function: the gufunc, two ways to call it, and facts such as operation counts.

    `call` takes the inputs, then arrays for the results if there are any, and is fastest on one
    thread. Arguments that it does not take go to `general`, which guards memory and runs the
    gufunc.
    """

    gufunc: np.ufunc
    call: Callable[..., Any]
    general: Callable[..., Any]
    source: KernelSource
    facts: dict[str, Any]

    @cached_property
    def operations(self) -> int:
        """Number of operations for one state."""
        return int(sum(self.facts["operations"].values()))

    @property
    def cost(self) -> int:
        """Time for one state, or one step of it, in operations."""
        return int(self.facts["cost"])

    @property
    def bytes_in(self) -> int:
        """Bytes of the inputs of one state in float64; 0 for axes whose length a call gives."""
        return _count_bytes(self.source.arguments)

    @property
    def bytes_out(self) -> int:
        """Bytes of the results of one state in float64, as `bytes_in`."""
        return _count_bytes(self.source.results)

    def __str__(self) -> str:
        f = self.facts
        counts = ", ".join(f"{n} {name}" for name, n in sorted(f["operations"].items()))
        origin = "from the cache" if f["cached"] else "compiled"
        return "\n".join(
            [
                f"{self.source.name} {self.source.signature}",
                f"  operations   {self.operations} ({counts})",
                f"  a state      {self.bytes_in} bytes in, {self.bytes_out} bytes out",
                f"  vector       {f['lanes']} states of {f['dtype']} on {f['cpu']}",
                f"  pieces       {f['pieces']}, workspace {f['workspace']} vectors",
                f"  object code  {f['bytes']} bytes",
                f"  made in      {f['seconds']:.3f} s (this time {origin} in {f['ready']:.3f} s)",
                f"  cache file   {f['file']}",
            ]
        )


def _count_bytes(shapes: Sequence[tuple[int | str, ...]]) -> int:
    """Bytes of arrays of float64 of these core shapes, those without named axes."""
    known = [[n for n in shape if isinstance(n, int)] for shape in shapes]
    pairs = zip(known, shapes, strict=True)
    return 8 * sum(math.prod(sizes) for sizes, shape in pairs if len(sizes) == len(shape))


@dataclass(frozen=True)
class _LoadedCode:
    """Object code in this process: its cache entry, its functions by address, and its library."""

    entry: Entry
    addresses: dict[str, int]
    library: Any
    cached: bool


def compile_kernel(source: KernelSource, cache: Cache | None = None) -> Kernel:
    """The kernel of a source. The float32 loop is compiled when float32 arrays first arrive.

    A function that is too large to compile raises TooLarge; the first time a line on stderr says so
    too, since callers then evaluate it in Python.
    """
    empty = [shape for shape in (*source.inputs, *source.outputs) if not math.prod(shape)]
    if empty or not (source.arguments and source.results):
        accepted = "code is made for inputs and outputs that have numbers"
        raise Unsupported("compile", f"{source.name}{source.signature}", accepted)
    cache = cache or Cache()
    start = time.perf_counter()
    with _lock:
        code = _load_code(source, "float64", cache)
        cost = code.entry.facts["cost"]
        # NumPy takes float32 where all are float32, else the first loop that loses nothing
        loops = Loops(("float64", "float32"), len(source.arguments), len(source.results))
        loops.set_loop(0, code.addresses[_LOOP], code.library)

        # the float32 loop is compiled when it is first called
        def first_call(args: int, dims: int, steps: int, data: int) -> None:
            try:
                _compile_float32(source, cache, loops)
                _LOOP_TYPE(loops.loop_address(1))(args, dims, steps, data)
            except BaseException as error:  # nothing may pass through native code
                _fill_with_nan(source, args, dims, steps)
                if not isinstance(error, Exception):
                    raise  # an interrupt, of which ctypes tells
                why = error.__cause__ or error
                text = f"{source.name}: no float32 loop: {str(why) or type(why).__name__}"
                warnings.warn(text, RuntimeWarning, stacklevel=2)

        callback = _LOOP_TYPE(first_call)
        pointer = ctypes.cast(callback, ctypes.c_void_p).value or 0
        loops.set_loop(1, pointer, callback, made=False)
        gufunc = make_gufunc(loops, source.name, source.doc, source.signature)
        # ways to call it: the general one, and past NumPy where the shapes are those of the source
        general: Callable[..., Any] = gufunc
        if not source.zeros:
            ready = partial(_compile_float32, source, cache, loops)
            general = partial(refill_arrays, gufunc, source.inputs, source.outputs, cost, ready)
        elif source.has_fast_call:
            # other sources have one number at a state: less than its inputs
            general = guard_memory(gufunc, source.inputs, source.outputs, cost)
        address = code.addresses.get(FAST_CALL, 0)
        fast_call = make_fast_call(address, loops, general, source.name, source.doc)
    facts = {
        **code.entry.facts,
        "cached": code.cached,
        "ready": time.perf_counter() - start,
        "file": str(cache.path(_cache_key(source, "float64"))),
    }
    return Kernel(gufunc, fast_call or general, general, source, facts)


def _load_code(source: KernelSource, dtype: str, cache: Cache) -> _LoadedCode:
    """The code of a source, linked: from the cache where that can be loaded, else compiled."""
    key = _cache_key(source, dtype)
    if key in _found_too_large:
        raise _found_too_large[key]
    entry = cache.read(key)
    try:
        if entry is not None:
            # an entry may say that there is no code, so that recording is not tried again
            if _TOO_LARGE in entry.facts:
                raise TooLarge(source.name, *entry.facts[_TOO_LARGE])
            try:
                return _link_code(entry, source, dtype, cached=True)
            except (RuntimeError, ValueError, TypeError) as error:
                cache.warn(f"{cache.path(key)} cannot be loaded ({error}) and is built again")
        with announce_long_work(f"compiling {source.name} ({dtype})"):
            entry = _compile_source(source, dtype)
    except TooLarge as error:
        _found_too_large[key] = error
        cache.write(key, Entry({_TOO_LARGE: [error.size, error.most]}, b""))
        write_line(f"qddot: {error}; it is evaluated in Python, some hundred times slower")
        raise
    cache.write(key, entry)
    try:
        return _link_code(entry, source, dtype, cached=False)
    except RuntimeError as error:
        raise CannotCompile(source.name, str(error)) from error


_found_too_large: dict[str, TooLarge] = {}
"""Functions that were found too large to compile, by their keys in the cache."""


def _cache_key(source: KernelSource, dtype: str) -> str:
    """Everything that object code depends on."""
    own = (source.name, source.signature, source.key, source.zeros, dtype)
    return json.dumps((*own, *astuple(native.host()), native.llvm_version(), _sources_digest()))


@cache
def _sources_digest(package: Path = Path(__file__).parents[1]) -> str:
    """Digest of the library's own sources: object code of another version is never used.

    Left out are the packages that hand kernels nothing but data, which is in their keys already.
    """
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        name = file.relative_to(package)
        if name.parts[0] not in _WITHOUT_KERNEL_TEXT:
            digest.update(name.as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _compile_source(source: KernelSource, dtype: str) -> Entry:
    """Object code of a source and facts about it: the stages from Python function to bytes."""
    start = time.perf_counter()
    target = native.host()
    vector = vector_type(dtype, target.register_bytes)
    if source.number_count > _MOST_COMPILED:
        raise TooLarge(source.name, source.number_count, _MOST_COMPILED)
    # record: run the function on symbols; every operation becomes an entry of the tape
    recorded = source.record_tape()
    size = recorded.operations + source.number_count
    if size > _MOST_COMPILED:
        raise TooLarge(source.name, size, _MOST_COMPILED)
    needed = max(SMALL, _MEMORY_TO_COMPILE * size)
    require_memory(needed, f"compiling {source.name}", "free memory, or set QDDOT_NATIVE=0")
    # fuse: sums of products as multiply-adds, where the processor has them
    tape = fuse_multiply_adds(recorded) if target.fuses else recorded
    # store places: a step leaves its outputs to the next one, any other function writes them
    parts = [] if source.scan else split_outputs(tape.outputs, source.outputs)
    places = step_places(tape, source.scan) if source.scan else {}
    writes = writes_after(tape, parts, vector, source.zeros)
    # schedule: short pieces, with a workspace for the values that outlive a piece
    plan = schedule_pieces(tape, writes, places=places)
    # lower: the pieces as LLVM IR, with the loop over the batch and the call past NumPy
    ir = lower_tape(tape, plan, vector, source.loop_ir(tape, plan, vector, places), places)
    if dtype == "float64" and source.has_fast_call:
        direct = fast_call_ir(source.inputs, source.outputs, _LOOP, makes=source.zeros)
        ir = replace(ir, rest=f"{ir.rest}\n{direct}")
    # emit: IR to object code, in parts: an interrupt is seen between them
    try:
        objects = [native.emit_object_code(text, target) for text in ir.modules()]
    except RuntimeError as error:
        raise CannotCompile(source.name, str(error)) from error
    code = b"".join(objects)
    counts = recorded.operation_counts()
    # a number that is moved counts as ten; those of a step move less often, but all are counted
    facts = {
        "name": source.name,
        "dtype": dtype,
        "operations": counts,
        "cost": sum(counts.values()) + 10 * source.number_count,
        "lanes": vector.lanes,
        "cpu": target.cpu,
        "pieces": len(plan.pieces),
        "workspace": plan.workspace,
        "bytes": len(code),
        "objects": [len(x) for x in objects],
        "seconds": time.perf_counter() - start,
    }
    return Entry(facts, code)


def _link_code(entry: Entry, source: KernelSource, dtype: str, cached: bool) -> _LoadedCode:
    """The object code of an entry, linked into this process."""
    if not isinstance(entry.facts, dict) or not entry.facts.keys() >= _FACTS:
        raise ValueError("facts are missing")
    needed = max(SMALL, _MEMORY_TO_LOAD * len(entry.code))
    require_memory(needed, f"loading {source.name}", "free memory, or set QDDOT_NATIVE=0")
    ends = itertools.accumulate(entry.facts["objects"], initial=0)
    objects = [entry.code[a:b] for a, b in itertools.pairwise(ends)]
    names = (_LOOP, FAST_CALL) if dtype == "float64" and source.has_fast_call else (_LOOP,)
    library, addresses = native.link(objects, f"{source.name}_{dtype}_{next(_numbers)}", names)
    return _LoadedCode(entry, addresses, library, cached)


def _compile_float32(source: KernelSource, cache: Cache, loops: Loops) -> None:
    """Compile the float32 loop, unless there is one, and put it into the table."""
    with _lock:
        if not loops.ready:
            code = _load_code(source, "float32", cache)
            loops.set_loop(1, code.addresses[_LOOP], code.library)
            loops.ready = True


_LOOP_TYPE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)


def _fill_with_nan(source: KernelSource, args: int, dims: int, steps: int) -> None:
    """Write NaN to the float32 outputs of a call, number by number, as a gufunc describes them."""
    shapes = (*source.arguments, *source.results)
    names, count = list(dict.fromkeys(itertools.chain(*shapes))), len(shapes)
    n, *extents = (ctypes.c_ssize_t * (1 + len(names))).from_address(dims)
    bases = (ctypes.c_size_t * count).from_address(args)
    strides = (ctypes.c_ssize_t * (count + sum(map(len, shapes)))).from_address(steps)
    core = count + sum(map(len, source.arguments))
    for k, shape in enumerate(source.results, start=len(source.arguments)):
        along = (strides[k], *strides[core : core + len(shape)])
        core += len(shape)
        for index in np.ndindex(n, *(extents[names.index(axis)] for axis in shape)):
            place = bases[k] + sum(i * s for i, s in zip(index, along, strict=True))
            ctypes.c_float.from_address(place).value = math.nan


def _fold_list(x: Sequence[Any], shape: Shape) -> Any:
    """A flat list folded into nested lists; a single number for no axes."""
    if not shape:
        return x[0]
    if len(shape) == 1:
        return list(x)
    step = math.prod(shape[1:])
    return [_fold_list(x[k * step : (k + 1) * step], shape[1:]) for k in range(shape[0])]
