"""Catalogue functions as compiled kernels: where the algorithms meet the compiler."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from qddot.algorithms.catalogue import Function, sizes
from qddot.compile.kernel import Kernel, Source, compile_kernel
from qddot.edit import with_parameters
from qddot.errors import UnknownName
from qddot.model import Model
from qddot.spatial import Vec3

__all__ = ["PARAMETERS", "kernel_of", "source_of"]


def _with_drivetrain(model: Model, rows: Sequence[Any], fields: Sequence[str]) -> Model:
    bodies = []
    for body, values in zip(model.bodies, rows, strict=True):
        drive = dataclasses.replace(body.joint.drivetrain, **dict(zip(fields, values, strict=True)))
        joint = dataclasses.replace(body.joint, drivetrain=drive)
        bodies.append(dataclasses.replace(body, joint=joint))
    return dataclasses.replace(model, bodies=tuple(bodies))


PARAMETERS: dict[str, tuple[tuple[str, ...], Callable[[Model, Any], Model]]] = {
    "inertia": (("nb", "10"), with_parameters),
    "gravity": (("3",), lambda model, x: dataclasses.replace(model, gravity=Vec3(*x))),
    "friction": (
        ("nb", "3"),
        lambda model, x: _with_drivetrain(model, x, ("damping", "friction", "stiffness")),
    ),
    "armature": (("nb", "1"), lambda model, x: _with_drivetrain(model, x, ("armature",))),
}
"""Constants of a model that can be inputs: shape, and how a model takes them.

`inertia` has the ten parameters of each body, `friction` its joint's damping, Coulomb friction and
stiffness, `armature` its joint's reflected inertia.
"""


def source_of(
    row: Function, model: Model, options: Mapping[str, Any], parameters: Sequence[str] = ()
) -> Source:
    """What the compiler needs of a catalogue function; `parameters` become further inputs."""
    for name in parameters:
        if name not in PARAMETERS:
            raise UnknownName("parameter", name, PARAMETERS)
    dims = sizes(model, len(options.get("forces", ())))
    arguments = [a for a in row.inputs if a.shape[:1] != ("nw",) or dims["nw"]]
    shapes = [a.shape_in(dims) for a in arguments]
    shapes += [
        tuple(dims[s] if s in dims else int(s) for s in PARAMETERS[p][0]) for p in parameters
    ]

    def function(*values: Any) -> list[Any]:
        robot = model
        for name, value in zip(parameters, values[len(arguments) :], strict=True):
            robot = PARAMETERS[name][1](robot, value)
        result = row.algorithm(robot, *values[: len(arguments)], **options)
        return [leaf for output in row.flat(result, dims) for leaf in output]

    key = repr((model.digest, sorted(options.items()), tuple(parameters)))
    outputs = tuple(output.shape_in(dims) for output in row.outputs)
    return Source(row.name, row.doc, function, tuple(shapes), outputs, key)


def kernel_of(
    row: Function, model: Model, options: Mapping[str, Any], parameters: Sequence[str] = ()
) -> Kernel:
    """The compiled form of a catalogue function of a model."""
    return compile_kernel(source_of(row, model, options, parameters))
