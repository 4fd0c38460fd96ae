"""Export of a robot's functions to C: what the header says, test vectors, accuracy of float32.

The text of the functions comes from `compile.export_c`; here is what knows robots.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from qddot.algorithms.catalogue import Argument, Function, function, sizes
from qddot.compile import export_c as c
from qddot.compile.export_c_check import Vectors, program_text, vectors_text
from qddot.compile.precision import evaluate, relative_errors
from qddot.compile.precision import sizes as output_sizes
from qddot.conventions import argument_text, convention_lines, joint_lines, option_lines
from qddot.errors import CannotWrite, NotUnderstood
from qddot.evaluate import interpret, settled
from qddot.health import refuse_redundant, refuse_singular, singular_joints
from qddot.kernels import source_of
from qddot.robot import Robot

__all__ = ["Accuracy", "ExportC", "FunctionRequest", "export_c"]

FunctionRequest = str | tuple[str, Mapping[str, Any]]
"""A catalogue function by name, or with its options: ("frame_pose", {"frame": "tool0"})."""

_SCALARS = {"float64": "double", "float32": "float"}
_STATES, _SEED = 1000, 0
_VECTORS, _NUMBERS = 10, 20000
_SYSTEM_HEADERS = ("math", "stdio")
_OPTION_SIZES = ("nw", "nt", "nc")
"""Sizes that differ from function to function: the header writes them as numbers."""


@dataclass(frozen=True)
class Accuracy:
    """Relative errors of float32 against float64 of one output, and what the test program accepts.

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
    """What was written: the files, and how accurate each output is in float32."""

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
) -> ExportC:
    """Write catalogue functions of a robot as C99, with a header, test vectors and a test program.

    A function that needs options is given with them, as in ("frame_jacobian", {"frame": "tool0",
    "reference": "world"}). `report.json` in the folder has the errors of float32 against float64.
    """
    if dtype not in _SCALARS:
        raise NotUnderstood("dtype", dtype, "it is 'float64' or 'float32'")
    scalar = _SCALARS[dtype]
    name = c.identifier(robot.name)
    name = f"{name}_robot" if name in _SYSTEM_HEADERS else name
    exported = _exported(robot, name, functions)
    vectors = [e.vectors(dtype) for e in exported]
    accuracy = [row for e in exported for row in e.accuracy(dtype)]
    names = [f"{name}.h", f"{name}.c", f"{name}_vectors.h", f"{name}_test.c", "report.json"]
    result = ExportC(robot.name, dtype, Path(folder), tuple(names), _STATES, tuple(accuracy))
    routines = [e.routine for e in exported]
    texts = [
        _header(robot, name, routines, scalar),
        _source(robot, name, routines, scalar),
        vectors_text(name, vectors, scalar),
        program_text(name, vectors, scalar),
        _report(robot, result),
    ]
    _write(Path(folder), dict(zip(names, texts, strict=True)))
    return result


@dataclass(frozen=True)
class _Exported:
    """A catalogue function with its options and its C form."""

    row: Function
    options: Mapping[str, Any]
    routine: c.Routine
    robot: Robot

    def random_inputs(self, n: int) -> list[np.ndarray]:
        """Random arguments, rounded to float32 so that both precisions start from the same."""
        rng, dims = np.random.default_rng(_SEED), _dims(self.robot, self.options)
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
            np.split(evaluate(tape, rows, kind).astype(np.float64), splits, axis=1)
            for kind in ("float32", "float64")
        )
        return [relative_errors(x, y) for x, y in zip(low, high, strict=True)]

    def vectors(self, dtype: str) -> Vectors:
        """A few random states with the values of the interpreted text, the definition."""
        n = max(2, min(_VECTORS, _NUMBERS // len(self.routine.tape.outputs)))
        inputs = self.random_inputs(n)
        value = interpret(self.row, self.robot.model, inputs, self.options)
        values = [np.reshape(x, (n, -1)) for x in (value if type(value) is tuple else [value])]
        return Vectors(
            self.routine,
            tuple(x.reshape(n, -1) for x in inputs),
            tuple(values),
            tuple(map(output_sizes, values)),
            tuple(_tolerance(float(e.max()), dtype) for e in self.float32_errors),
        )

    def accuracy(self, dtype: str) -> list[Accuracy]:
        """The errors of float32, by output."""
        return [
            Accuracy(
                self.routine.name,
                output.name,
                self.routine.tape.operations,
                float(errors.max()),
                float(np.sqrt(np.mean(errors**2))),
                _tolerance(float(errors.max()), dtype),
            )
            for output, errors in zip(self.routine.outputs, self.float32_errors, strict=True)
        ]


def _tolerance(float32_error: float, dtype: str) -> float:
    """Ten times the error seen in float32, within reason; float64 has 29 bits more."""
    bound = min(max(10.0 * float32_error, 1e-5), 0.1) if math.isfinite(float32_error) else 0.1
    return (
        float(f"{bound:.1e}") if dtype == "float32" else max(1e-12, float(f"{bound * 2**-29:.1e}"))
    )


def _dims(robot: Robot, options: Mapping[str, Any]) -> dict[str, int]:
    return sizes(robot.model, options)


def _exported(
    robot: Robot, name: str, functions: FunctionRequest | Sequence[FunctionRequest]
) -> list[_Exported]:
    """The C forms of what is asked for, each once, under distinct names."""
    single = isinstance(functions, str) or _is_pair(functions)
    found: dict[tuple[Any, ...], _Exported] = {}
    names: set[str] = set()
    for request in [functions] if single else functions:
        row, options = _understood(robot, request)
        key = (row.name, tuple(sorted(options.items())))
        if key not in found:
            routine_name = _routine_name(name, row, options, names)
            names.add(routine_name)
            routine = _routine(robot, name, routine_name, row, options)
            found[key] = _Exported(row, options, routine, robot)
    if not found:
        raise NotUnderstood("functions", functions, "name at least one function of the catalogue")
    return list(found.values())


def _is_pair(request: Any) -> bool:
    """Whether this is a name with options."""
    if not isinstance(request, tuple) or len(request) != 2:
        return False
    return isinstance(request[0], str) and isinstance(request[1], Mapping)


def _understood(robot: Robot, request: Any) -> tuple[Function, dict[str, Any]]:
    """The row and the options of a request, checked; options at their default are left out."""
    if not isinstance(request, str) and not _is_pair(request):
        accepted = "a function is asked for by its name, or by (name, {option: value})"
        raise NotUnderstood("functions", request, accepted)
    name, given = (request, {}) if isinstance(request, str) else request
    row = function(name)
    options = settled(row, given)
    if row.needs_inverse:
        refuse_singular(robot.name, singular_joints(robot.model), options)
    if row.inverts_constraints:
        refuse_redundant(robot.model, options.get("constraints"))
    return row, options


def _routine_name(
    name: str, row: Function, options: Mapping[str, Any], taken: Collection[str]
) -> str:
    """Robot, function and options; numbered if that is taken."""
    words = [name, row.name]
    for option, value in options.items():
        items = value if isinstance(value, tuple) else (value,)
        flat = [x for item in items for x in (item if isinstance(item, tuple) else (item,))]
        texts = (str(getattr(x, "name", x)) for x in flat)
        words += [option] if value is True else [c.identifier(text, option) for text in texts]
    full = "_".join(words)
    numbered = (f"{full}_{k}" for k in count(2))
    return full if full not in taken else next(n for n in numbered if n not in taken)


def _routine(
    robot: Robot, name: str, routine_name: str, row: Function, options: Mapping[str, Any]
) -> c.Routine:
    """The C form of a catalogue function."""
    dims = _dims(robot, options)
    source = source_of(row, robot.model, options)
    tape = source.tape()
    inputs = row.inputs[: len(source.inputs)]
    if any(0 in shape for shape in (*source.inputs, *source.outputs)):
        raise NotUnderstood(
            row.name, robot.name, "C has no empty arrays: it needs joints and frames"
        )

    def parameter(argument: Argument) -> c.Parameter:
        shape = argument.shape_in(dims)
        extent = "*".join(
            f"{name.upper()}_{s.upper()}" if s in dims and s not in _OPTION_SIZES else str(n)
            for s, n in zip(argument.shape, shape, strict=True)
        )
        return c.Parameter(argument.name, math.prod(shape), extent or "1", argument_text(argument))

    return c.Routine(
        routine_name,
        (row.doc, *option_lines(options)),
        tuple(map(parameter, inputs)),
        tuple(map(parameter, row.outputs)),
        tape,
    )


def _header(robot: Robot, name: str, routines: Sequence[c.Routine], scalar: str) -> str:
    model, dims = robot.model, _dims(robot, {})
    lines = [
        f"Dynamics of the robot {model.name}: {model.nb} moving bodies, {model.mass:g} kg.",
        f"Model digest {model.digest[:16]}.",
        "",
        "C99; no heap, no library but libm, no data that changes: threads may share all functions.",
        "Arrays are flat, last index fastest: M[i*nv + j]. Outputs must not overlap inputs.",
        "",
        *convention_lines(model),
        "",
        *joint_lines(model),
    ]
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
    return c.header(name, lines, constants, declared, routines, scalar)


def _source(robot: Robot, name: str, routines: Sequence[c.Routine], scalar: str) -> str:
    joints = ",\n".join(f"    {c.string(joint)}" for joint in robot.joint_names)
    lines = [
        f"/* {c.MARKER}: do not edit */",
        "#include <math.h>",
        f'#include "{name}.h"',
        "",
        f"const char *const {name}_joint_names[{name.upper()}_NJ] = {{\n{joints}\n}};",
        "",
    ]
    return "\n".join([*lines, *(c.definition(r, scalar) for r in routines)])


def _report(robot: Robot, result: ExportC) -> str:
    """The accuracy as JSON whose first line has the marker."""
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


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    """All files, or none if one of that name is not ours."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in texts:
            file = folder / name
            if file.exists() and not _is_ours(file):
                reason = "it exists and was not made by qddot; move it, or choose another folder"
                raise CannotWrite(file, reason)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise CannotWrite(error.filename or folder, error.strerror or str(error)) from error


def _is_ours(file: Path) -> bool:
    """Whether the first line says that this file was made here."""
    if not file.is_file():
        return False
    with file.open("rb") as stream:
        return c.MARKER.encode() in stream.readline(200)
