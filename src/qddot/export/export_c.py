"""Export of a robot's functions to C: header, test vectors, accuracy of float32.

The text of the functions comes from `c_source`; the knowledge of robots is here.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from qddot.algorithms.catalogue import Argument, Function, function, sizes
from qddot.compile.kernel import KernelSource
from qddot.compile.trace.in_line import write_in_line
from qddot.errors import CannotWrite, InvalidArgument, Unsupported, WrongType, count_text
from qddot.export import c_source as c
from qddot.export.c_memory import MemoryStruct
from qddot.export.c_tests import Vectors, program_text, vectors_text
from qddot.export.conventions import argument_text, convention_lines, joint_lines, option_lines
from qddot.export.precision import evaluate_tape, output_sizes, relative_errors
from qddot.files import write_folder
from qddot.robot.functions import CompiledFunction
from qddot.robot.health import refuse_singular, singular_joints
from qddot.robot.interpret import interpret, normalise_options
from qddot.robot.native import source_of
from qddot.robot.robot import Robot, with_marked_rows

__all__ = ["Accuracy", "ExportC", "FunctionRequest", "export_c"]

FunctionRequest = str | tuple[str, Mapping[str, Any]] | CompiledFunction
"""A catalogue function by name, or with its options: ("frame_pose", {"frame": "tool0"}); or one of
the user's own, compiled."""

_SCALARS = {"float64": "double", "float32": "float"}
_STATES, _SEED = 1000, 0
_VECTORS, _NUMBERS = 10, 20000
_SYSTEM_HEADERS = ("math", "stdio")
_OPTION_SIZES = ("nw", "nt", "nc")
"""Sizes that differ from function to function: the header writes them as numbers."""


@dataclass(frozen=True)
class Accuracy:
    """Relative errors of float32 against float64 of one output, and its tolerance in the test.

    An error is relative to the size of the output at that state: its largest entry, or the rms of
    those over all states if that is more.
    """

    function: str
    output: str
    operations: int
    largest: float
    rms: float
    tolerance: float


@dataclass(frozen=True)
class ExportC:
    """The files written, and the accuracy of each output in float32."""

    robot: str
    dtype: str
    folder: Path
    files: tuple[str, ...]
    states: int
    accuracy: tuple[Accuracy, ...]


def export_c(
    robot: Robot,
    functions: FunctionRequest | Sequence[FunctionRequest],
    folder: str | PathLike[str],
    dtype: Literal["float64", "float32"] = "float64",
    overwrite: bool = True,
) -> ExportC:
    """Write functions of a robot as C99, with a header, test vectors and a test program.

    Functions are those of the catalogue by name, with their options where they need some, as in
    ("frame_jacobian", {"frame": "tool0", "reference": "world"}), or what `robot.compile` made of a
    function of the user's own. `report.json` in the folder has the errors of float32. All files
    appear, or none; those of an earlier export are replaced, unless `overwrite` is False.
    """
    if dtype not in _SCALARS:
        raise InvalidArgument("dtype", dtype, "it is 'float64' or 'float32'")
    scalar = _SCALARS[dtype]
    name = c.c_identifier(robot.name)
    name = f"{name}_robot" if name in _SYSTEM_HEADERS else name
    names = [f"{name}.h", f"{name}.c", f"{name}_vectors.h", f"{name}_test.c", "report.json"]
    _check_folder(Path(folder), names, overwrite)
    # the functions as C, their test vectors and their accuracy
    exported = _export_functions(robot, name, functions)
    vectors = [v for e in exported for v in e.test_vectors(dtype)]
    accuracy = [row for e in exported for row in e.float32_accuracy(dtype)]
    result = ExportC(
        robot=robot.name,
        dtype=dtype,
        folder=Path(folder),
        files=tuple(names),
        states=_STATES,
        accuracy=tuple(accuracy),
    )
    # the texts of the files, in the order of their names
    joints = ",\n".join(f"    {c.string_literal(joint)}" for joint in robot.joint_names)
    source = [
        f"/* {c.MARKER}: do not edit */",
        "#include <math.h>",
        f'#include "{name}.h"',
        "",
        f"const char *const {name}_joint_names[{name.upper()}_NJ] = {{\n{joints}\n}};",
        "",
    ]
    texts = [
        _header_text(robot, name, exported, scalar),
        "\n".join([*source, *(e.definition_text(scalar) for e in exported)]),
        vectors_text(name, vectors, scalar),
        program_text(name, vectors, scalar),
        _report_text(robot, result),
    ]
    # the folder may have changed meanwhile
    _check_folder(Path(folder), names, overwrite)
    write_folder(Path(folder), dict(zip(names, texts, strict=True)))
    return result


@dataclass(frozen=True)
class _ExportedFunction:
    """A function with its options, its C form and its definition, a function of arrays."""

    row: Function
    options: Mapping[str, Any]
    routine: c.Routine
    robot: Robot
    definition: Callable[[Sequence[np.ndarray]], Any]
    memory: MemoryStruct | None = None

    def definition_text(self, scalar: str) -> str:
        """The definition in C, that of its step with a memory too."""
        step = self.memory.definitions(scalar) if self.memory else ""
        return "\n".join(filter(None, (c.function_definition(self.routine, scalar), step)))

    def random_inputs(self, n: int) -> list[np.ndarray]:
        """Random arguments, rounded to float32 so that both precisions start from the same."""
        # configurations are on their manifold, all else is normally distributed
        rng, dims = np.random.default_rng(_SEED), sizes(self.robot.model, self.options)
        found = []
        for argument in self.row.inputs[: len(self.routine.inputs)]:
            if argument.shape == ("nq",):
                x = self.robot.random(rng, n)
            else:
                x = rng.normal(size=(n, *argument.shape_in(dims)))
            found.append(x.astype(np.float32).astype(np.float64))
        return found

    @cached_property
    def float32_errors(self) -> list[np.ndarray]:
        """Relative errors of float32 at random states, by output."""
        rows = np.concatenate([x.reshape(_STATES, -1) for x in self.random_inputs(_STATES)], axis=1)
        tape, outputs = self.routine.tape, self.routine.outputs
        splits = np.cumsum([p.size for p in outputs])[:-1]
        low, high = (
            np.split(evaluate_tape(tape, rows, kind).astype(np.float64), splits, axis=1)
            for kind in ("float32", "float64")
        )
        return [relative_errors(x, y) for x, y in zip(low, high, strict=True)]

    def test_vectors(self, dtype: str) -> list[Vectors]:
        """A few random states with the values of the definition, and samples in a row."""
        n = max(2, min(_VECTORS, _NUMBERS // len(self.routine.tape.outputs)))
        # states at which the results are numbers
        inputs = self.random_inputs(4 * n)
        with np.errstate(all="ignore"):
            value = self.definition(inputs)
        values = [np.reshape(x, (4 * n, -1)) for x in (value if type(value) is tuple else [value])]
        sound = np.flatnonzero(np.all([np.isfinite(x).all(axis=1) for x in values], axis=0))[:n]
        if not sound.size:
            raise Unsupported("export_c", self.row.name, "its results are NaN at random states")
        inputs, values, n = [x[sound] for x in inputs], [x[sound] for x in values], sound.size
        tolerances = tuple(_float_tolerance(float(e.max()), dtype) for e in self.float32_errors)
        single = Vectors(
            self.routine,
            inputs=tuple(x.reshape(n, -1) for x in inputs),
            outputs=tuple(values),
            sizes=tuple(map(output_sizes, values)),
            tolerances=tolerances,
        )
        if self.memory is None:
            return [single]
        more = self.random_inputs(4 * n)
        return [single, self.memory.test_vectors(more, self.definition, tolerances)]

    def float32_accuracy(self, dtype: str) -> list[Accuracy]:
        """The errors of float32, by output."""
        return [
            Accuracy(
                function=self.routine.name,
                output=output.name,
                operations=self.routine.tape.operations,
                largest=float(errors.max()),
                rms=float(np.sqrt(np.mean(errors**2))),
                tolerance=_float_tolerance(float(errors.max()), dtype),
            )
            for output, errors in zip(self.routine.outputs, self.float32_errors, strict=True)
        ]


def _float_tolerance(float32_error: float, dtype: str) -> float:
    """Ten times the error seen in float32, within reason; float64 has 29 bits more."""
    bound = min(max(10.0 * float32_error, 1e-5), 0.1) if math.isfinite(float32_error) else 0.1
    return (
        float(f"{bound:.1e}") if dtype == "float32" else max(1e-12, float(f"{bound * 2**-29:.1e}"))
    )


def _export_functions(
    robot: Robot, name: str, functions: FunctionRequest | Sequence[FunctionRequest]
) -> list[_ExportedFunction]:
    """The C forms of the requested functions, each once, under distinct names."""
    single = isinstance(functions, str | CompiledFunction) or _has_options(functions)
    found: dict[tuple[Any, ...], _ExportedFunction] = {}
    names: set[str] = set()
    requests: Any = [functions] if single else functions
    for request in requests:
        if isinstance(request, CompiledFunction):
            if request.robot.model.digest != robot.model.digest:
                raise Unsupported("export_c", request, f"it was compiled for {request.robot}")
            routine_name = _routine_name(name, request.row, {}, names)
            names.add(routine_name)
            routine = _make_routine(robot, name, routine_name, request.row, {}, request.source)
            memory = MemoryStruct(routine, request.memory) if request.memory else None
            found[(id(request),)] = _ExportedFunction(
                request.row, {}, routine, robot, request.run_text, memory
            )
            continue
        # the catalogue row and its options; those at their default are left out
        if not isinstance(request, str) and not _has_options(request):
            accepted = "a function is asked for by its name, or by (name, {option: value})"
            raise WrongType("functions", request, accepted)
        row = function(request if isinstance(request, str) else request[0])
        options = normalise_options(row, {} if isinstance(request, str) else request[1])
        if row.needs_inverse:
            refuse_singular(robot.name, singular_joints(robot.model), options)
        # its C form, unless it was requested before
        key = (row.name, tuple(sorted(options.items())))
        if key not in found:
            routine_name = _routine_name(name, row, options, names)
            names.add(routine_name)
            complete = with_marked_rows(robot, row, options)
            source = source_of(row, robot.model, complete)
            routine = _make_routine(robot, name, routine_name, row, complete, source)
            definition = partial(interpret, row, robot.model, options=complete)
            found[key] = _ExportedFunction(row, complete, routine, robot, definition)
    if not found:
        raise InvalidArgument("functions", functions, "name at least one function of the catalogue")
    return list(found.values())


def _has_options(request: Any) -> bool:
    """Whether a request is a name with options."""
    if not isinstance(request, tuple) or len(request) != 2:
        return False
    return isinstance(request[0], str) and isinstance(request[1], Mapping)


def _routine_name(
    name: str, row: Function, options: Mapping[str, Any], taken: Collection[str]
) -> str:
    """Robot, function and options; numbered if that is taken."""
    # values of options are words of the name, flags their own names
    words = [name, row.name]
    for option, value in options.items():
        items = value if isinstance(value, tuple) else (value,)
        flat = [x for item in items for x in (item if isinstance(item, tuple) else (item,))]
        texts = (str(getattr(x, "name", x)) for x in flat)
        words += [option] if value is True else [c.c_identifier(text, option) for text in texts]
    full = "_".join(words)
    numbered = (f"{full}_{k}" for k in count(2))
    return full if full not in taken else next(n for n in numbered if n not in taken)


def _make_routine(
    robot: Robot,
    name: str,
    routine_name: str,
    row: Function,
    options: Mapping[str, Any],
    source: KernelSource,
) -> c.Routine:
    """The C form of a function."""
    dims = sizes(robot.model, options)
    tape = write_in_line(source.record_tape())
    inputs = row.inputs[: len(source.inputs)]
    if any(0 in shape for shape in (*source.inputs, *source.outputs)):
        raise Unsupported(row.name, robot.name, "C has no empty arrays: it needs joints and frames")

    taken: set[str] = set()

    def parameter(argument: Argument) -> c.ArrayParameter:
        shape = argument.shape_in(dims)
        extent = "*".join(
            f"{name.upper()}_{s.upper()}" if s in dims and s not in _OPTION_SIZES else str(n)
            for s, n in zip(argument.shape, shape, strict=True)
        )
        # names of Python's are not all free in C
        label = c.argument_name(argument.name, taken)
        taken.add(label)
        return c.ArrayParameter(label, math.prod(shape), extent or "1", argument_text(argument))

    return c.Routine(
        routine_name,
        doc=(row.doc, *option_lines(options)),
        inputs=tuple(map(parameter, inputs)),
        outputs=tuple(map(parameter, row.outputs)),
        tape=tape,
    )


def _header_text(
    robot: Robot, name: str, exported: Sequence[_ExportedFunction], scalar: str
) -> str:
    model, dims = robot.model, sizes(robot.model, {})
    bodies = count_text(model.nb, "moving body", "moving bodies")
    lines = [
        f"Dynamics of the robot {model.name}: {bodies}, {model.mass:g} kg.",
        f"Model digest {model.digest[:16]}.",
        "",
        "C99; no heap, no library but libm, no data that changes: threads may share all functions.",
        "Arrays are flat, last index fastest: M[i*nv + j]. Outputs must not overlap inputs.",
        "",
        *convention_lines(model),
        "",
        *joint_lines(model),
    ]
    # the sizes of the arrays are constants of the header
    names = {
        "nq": "coordinates of q",
        "nv": "coordinates of v: degrees of freedom",
        "nb": "moving bodies",
        "nf": "frames",
        "np": "inertial parameters",
    }
    constants = {f"{name.upper()}_{s.upper()}": (dims[s], text) for s, text in names.items()}
    constants[f"{name.upper()}_NJ"] = (
        len(model.joint_names),
        "joints with coordinates of their own",
    )
    declared = [
        "/* Names of the joints, in the order of q and v. */",
        f"extern const char *const {name}_joint_names[{name.upper()}_NJ];",
    ]
    declared += [line for e in exported if e.memory for line in e.memory.declarations(scalar)]
    return c.header_text(
        name,
        conventions=lines,
        constants=constants,
        declarations=declared,
        routines=[e.routine for e in exported],
        scalar=scalar,
    )


def _report_text(robot: Robot, result: ExportC) -> str:
    """The accuracy as JSON whose first line has the marker."""
    # JSON has no infinity
    rows = [dataclasses.asdict(row) for row in result.accuracy]
    for row in rows:
        row |= {k: None for k in ("largest", "rms") if not math.isfinite(row[k])}
    report = {
        "note": c.MARKER,
        "robot": result.robot,
        "digest": robot.model.digest,
        "dtype": result.dtype,
        "files": result.files,
        "states": result.states,
        "seed": _SEED,
        "error": "float32 against float64 from the same float32 inputs, largest entry of a state "
        "over the size of the output there: its largest entry, or the rms of those if more",
        "accuracy": rows,
    }
    return json.dumps(report, indent=2, ensure_ascii=False).replace("{\n  ", "{", 1) + "\n"


def _check_folder(folder: Path, names: Sequence[str], overwrite: bool) -> None:
    """Refuse to overwrite files that were not made by qddot, or any without `overwrite`."""
    try:
        for file in (folder / name for name in names):
            # the first line of a file made here says so
            ours = False
            if file.is_file():
                with file.open("rb") as stream:
                    ours = c.MARKER.encode() in stream.readline(200)
            if file.exists() and not ours:
                reason = "it exists and was not made by qddot; move it, or choose another folder"
                raise CannotWrite(file, reason)
            if file.exists() and not overwrite:
                raise CannotWrite(file, "it exists; overwrite=True (--force) overwrites it")
    except OSError as error:
        raise CannotWrite(error.filename or folder, error.strerror or str(error)) from error
