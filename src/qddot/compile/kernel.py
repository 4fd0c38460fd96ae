"""A kernel: a function of arrays, compiled, as a gufunc with float64 and float32 loops."""

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
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from qddot.compile import native
from qddot.compile.block import Places
from qddot.compile.cache import Cache, Entry
from qddot.compile.direct import make_direct
from qddot.compile.direct_ir import DIRECT, direct_ir
from qddot.compile.fuse import fused
from qddot.compile.gufunc import Loops, make_gufunc
from qddot.compile.loop import loop_ir
from qddot.compile.lower import lower
from qddot.compile.refill import refill
from qddot.compile.rows import split, writes_after
from qddot.compile.scan import ScanShapes, scan_ir, step_places
from qddot.compile.schedule import Schedule, schedule
from qddot.compile.tape import Symbol, Tape, record
from qddot.compile.types import Vector, vector_type

__all__ = ["Kernel", "Source", "compile_kernel"]

Shape = tuple[int, ...]
_LOOP = "qddot_loop"
_lock = threading.RLock()


def _renew_lock() -> None:
    """A child process must not wait for a thread that only its parent has."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
_numbers = itertools.count()


@dataclass(frozen=True)
class Source:
    """What a kernel is made from.

    `function` takes nested lists of numbers of the input shapes and returns all output numbers in
    order. `key` says in words all that it depends on besides the sources of this library. With a
    `scan` the function is a step that is repeated in time. Without `zeros`, outputs that are zero
    at every state are not written: their arrays must have them already.
    """

    name: str
    doc: str
    function: Callable[..., Sequence[Any]]
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    key: str
    scan: ScanShapes | None = None
    zeros: bool = True

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
    def is_direct(self) -> bool:
        """Whether there is a way around NumPy: all inputs and outputs are arrays of one size."""
        return self.scan is None and all(self.inputs) and all(self.outputs)

    def loop(self, tape: Tape, plan: Schedule, vector: Vector, places: Places) -> str:
        """The IR of the loop over a batch."""
        workspace, pieces = plan.workspace, len(plan.pieces)
        if self.scan:
            return scan_ir(tape, places, vector, self.scan, workspace, pieces, _LOOP)
        return loop_ir(vector, self.inputs, self.outputs, workspace, pieces, _LOOP)

    def tape(self) -> Tape:
        """The tape of the function."""

        def flat(*vectors: list[Symbol]) -> Sequence[Any]:
            nested = [_nested(x, s) for x, s in zip(vectors, self.inputs, strict=True)]
            return self.function(*nested)

        return record(flat, [math.prod(s) for s in self.inputs])


@dataclass(frozen=True)
class Kernel:
    """A compiled function: the gufunc, ways to call it, and what is known of it.

    `call` takes results behind the inputs, if there are any, and is fastest on one thread; it
    hands on to `general`: the gufunc, or what sees to the zeros that the gufunc does not write.
    """

    gufunc: np.ufunc
    call: Callable[..., Any]
    general: Callable[..., Any]
    source: Source
    facts: dict[str, Any]

    @cached_property
    def operations(self) -> int:
        """How many operations a state takes."""
        return int(sum(self.facts["operations"].values()))

    @property
    def cost(self) -> int:
        """What a state, or a step of it, takes in time, in operations."""
        return int(self.facts["cost"])

    def __str__(self) -> str:
        f = self.facts
        counts = ", ".join(f"{n} {name}" for name, n in sorted(f["operations"].items()))
        origin = "from the cache" if f["cached"] else "compiled"
        return "\n".join(
            [
                f"{self.source.name} {self.source.signature}",
                f"  operations   {self.operations} ({counts})",
                f"  vector       {f['lanes']} states of {f['dtype']} on {f['cpu']}",
                f"  pieces       {f['pieces']}, workspace {f['workspace']} vectors",
                f"  object code  {f['bytes']} bytes",
                f"  made in      {f['seconds']:.3f} s (this time {origin} in {f['ready']:.3f} s)",
                f"  cache file   {f['file']}",
            ]
        )


def _nested(x: Sequence[Any], shape: Shape) -> Any:
    """A flat list folded into nested lists; a single number for no axes."""
    if not shape:
        return x[0]
    if len(shape) == 1:
        return list(x)
    step = math.prod(shape[1:])
    return [_nested(x[k * step : (k + 1) * step], shape[1:]) for k in range(shape[0])]


@cache
def _sources_digest() -> str:
    """Digest of the library's own sources: object code of another version is never used."""
    digest = hashlib.sha256()
    package = Path(__file__).parents[1]
    for file in sorted(package.rglob("*.py")):
        digest.update(file.relative_to(package).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _key(source: Source, dtype: str) -> str:
    import llvmlite

    target = native.host()
    parts = (
        *(source.name, source.signature, source.key, source.zeros, dtype),
        *(target.triple, target.cpu, target.features, target.register_bytes),
        *(llvmlite.__version__, _sources_digest()),
    )
    return json.dumps(parts)


def _object_code(source: Source, dtype: str, cache: Cache) -> tuple[Entry, bool]:
    """The entry of a source, from the cache or made now, and whether it came from the cache."""
    key = _key(source, dtype)
    kept = cache.read(key)
    if kept is not None:
        return kept, True
    start = time.perf_counter()
    recorded = source.tape()
    tape = fused(recorded) if native.host().fuses else recorded
    vector = vector_type(dtype, native.host().register_bytes)
    # a step hands its outputs to the next, any other function writes them
    parts = [] if source.scan else split(tape.outputs, source.outputs)
    places = step_places(tape, source.scan) if source.scan else {}
    plan = schedule(tape, writes_after(tape, parts, vector.lanes, source.zeros))
    ir = lower(tape, plan, vector, source.loop(tape, plan, vector, places), places)
    if dtype == "float64" and source.is_direct:
        ir += "\n" + direct_ir(source.inputs, source.outputs, _LOOP, makes=source.zeros)
    code = native.assemble(ir, native.host())
    counts = recorded.counts()
    # a number that is moved counts as ten; those of a step move less often, but all are counted
    moved = sum(map(math.prod, (*source.inputs, *source.outputs)))
    facts = {
        "name": source.name,
        "dtype": dtype,
        "operations": counts,
        "cost": sum(counts.values()) + 10 * moved,
        "lanes": vector.lanes,
        "cpu": native.host().cpu,
        "pieces": len(plan.pieces),
        "workspace": plan.workspace,
        "bytes": len(code),
        "seconds": time.perf_counter() - start,
    }
    entry = Entry(facts, code)
    cache.write(key, entry)
    return entry, False


def compile_kernel(source: Source, cache: Cache | None = None) -> Kernel:
    """The kernel of a source. The float32 loop is made when float32 arrays first arrive."""
    cache = cache or Cache()
    start = time.perf_counter()
    with _lock:
        entry, cached = _object_code(source, "float64", cache)
        library, addresses = _linked(entry, source, "float64")
        # NumPy takes float32 where all are float32, else the first loop that loses nothing
        loops = Loops(("float64", "float32"), len(source.arguments), len(source.results))
        loops.set(0, addresses[_LOOP], library)
        loops.set(1, *_later(source, cache, loops), made=False)
        gufunc = make_gufunc(loops, source.name, source.doc, source.signature)
        general: Callable[..., Any] = gufunc
        if not source.zeros:
            cost, narrow = entry.facts["cost"], partial(_make_narrow, source, cache, loops)
            general = partial(refill, gufunc, source.inputs, source.outputs, cost, narrow)
        direct = make_direct(addresses.get(DIRECT, 0), loops, general, source.name, source.doc)
    facts = {
        **entry.facts,
        "cached": cached,
        "ready": time.perf_counter() - start,
        "file": str(cache.path(_key(source, "float64"))),
    }
    return Kernel(gufunc, direct or general, general, source, facts)


def _linked(entry: Entry, source: Source, dtype: str) -> tuple[Any, dict[str, int]]:
    """The loaded library of an entry and the addresses of its functions."""
    names = (_LOOP, DIRECT) if dtype == "float64" and source.is_direct else (_LOOP,)
    return native.link(entry.code, f"{source.name}_{dtype}_{next(_numbers)}", names)


_LOOP_TYPE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)


def _fill_with_nan(source: Source, args: int, dims: int, steps: int) -> None:
    """Float32 outputs that cannot be computed, number by number as a gufunc describes them."""
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


def _make_narrow(source: Source, cache: Cache, loops: Loops) -> None:
    """Make the float32 loop, if it is not made yet, and put it in its place."""
    with _lock:
        if not loops.ready:
            entry, _ = _object_code(source, "float32", cache)
            library, addresses = _linked(entry, source, "float32")
            loops.set(1, addresses[_LOOP], library)
            loops.ready = True


def _later(source: Source, cache: Cache, loops: Loops) -> tuple[int, Any]:
    """A loop that, when first called, makes the float32 loop and runs it."""

    def first_call(args: int, dims: int, steps: int, data: int) -> None:
        try:
            _make_narrow(source, cache, loops)
            _LOOP_TYPE(loops.address(1))(args, dims, steps, data)
        except BaseException as error:  # nothing may pass through native code
            _fill_with_nan(source, args, dims, steps)
            if not isinstance(error, Exception):
                raise  # an interrupt, of which ctypes tells
            why = error.__cause__ or error
            text = f"{source.name}: no float32 loop: {str(why) or type(why).__name__}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)

    callback = _LOOP_TYPE(first_call)
    return ctypes.cast(callback, ctypes.c_void_p).value or 0, callback
