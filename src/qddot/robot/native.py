"""Catalogue functions as compiled kernels: where the algorithms meet the compiler."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from qddot.algorithms.catalogue import Function, sizes
from qddot.compile.kernel import Kernel, KernelSource, compile_kernel
from qddot.compile.runtime.threads import SETTING
from qddot.errors import InvalidArgument, TooLarge, UnknownName, Unsupported, WrongType
from qddot.model.edit import with_parameters
from qddot.model.model import Model
from qddot.model.reframing import condense
from qddot.robot.interpret import InterpretedFunction
from qddot.spatial.algebra import Vec3

__all__ = ["PARAMETERS", "Refill", "function_of", "kernel_of", "parameter_names", "source_of"]


def _with_drivetrain(model: Model, rows: Sequence[Any], fields: Sequence[str]) -> Model:
    bodies = []
    for body, values in zip(model.bodies, rows, strict=True):
        drive = dataclasses.replace(body.joint.drivetrain, **dict(zip(fields, values, strict=True)))
        joint = dataclasses.replace(body.joint, drivetrain=drive)
        bodies.append(dataclasses.replace(body, joint=joint))
    return dataclasses.replace(model, bodies=tuple(bodies))


def _with_armature(model: Model, rows: Sequence[Any]) -> Model:
    """The model with other reflected inertias, rotors included, where a joint takes any."""
    given = [
        (armature if body.joint.kind.takes_armature else 0.0, 0.0)
        for body, (armature,) in zip(model.bodies, rows, strict=True)
    ]
    return _with_drivetrain(model, given, ("armature", "rotor_inertia"))


def _with_friction(model: Model, rows: Sequence[Any]) -> Model:
    """The model with other friction and springs, one Coulomb level for both directions."""
    given = [(*row, None) for row in rows]
    fields = ("damping", "friction", "stiffness", "backward_friction")
    return _with_drivetrain(model, given, fields)


PARAMETERS: dict[str, tuple[tuple[str, ...], Callable[[Model, Any], Model]]] = {
    "inertia": (("nb", "10"), with_parameters),
    "gravity": (("3",), lambda model, x: dataclasses.replace(model, gravity=Vec3(*x))),
    "friction": (("nb", "3"), _with_friction),
    "armature": (("nb", "1"), _with_armature),
    "directional_friction": (
        ("nb", "4"),
        lambda model, x: _with_drivetrain(
            model, x, ("damping", "friction", "backward_friction", "stiffness")
        ),
    ),
}
"""Constants of a model that can be inputs: shape, and how a model takes them.

`inertia` has the ten parameters of each body, `friction` its joint's damping, Coulomb friction (the
same in both directions) and stiffness, `directional_friction` damping, Coulomb friction forward and
backward, and stiffness, `armature` its joint's reflected inertia, that of a rotor included (free
and planar joints have none, whatever is given).
"""


def parameter_names(row: Function, options: Mapping[str, Any], given: Any) -> tuple[str, ...]:
    """Names of parameters, validated: each known, named once, and used by the function."""
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, Sequence):
        raise WrongType("parameters", given, f"a list of {', '.join(PARAMETERS)} is accepted")
    for name in names:
        if not isinstance(name, str) or name not in PARAMETERS:
            raise UnknownName("parameter", name, PARAMETERS)
        if names.count(name) > 1:
            raise InvalidArgument("parameters", given, f"{name!r} is named twice")
    # friction: one form of it, and only where the function has it
    friction = [name for name in names if name.endswith("friction")]
    if len(friction) > 1:
        raise Unsupported("parameters", given, f"{' and '.join(friction)} are the same numbers")
    if friction and row.name != "friction" and not options.get("friction"):
        option = any(o.name == "friction" for o in row.options)
        reason = "depends on friction only with friction=True" if option else "has no friction"
        raise Unsupported("parameters", given, f"{row.name} {reason}")
    return tuple(names)


def source_of(
    row: Function,
    model: Model,
    options: Mapping[str, Any],
    parameters: Sequence[str] = (),
    check: Callable[[], None] = lambda: None,
    zeros: bool = True,
) -> KernelSource:
    """The kernel source of a catalogue function; `parameters` become further inputs.

    `check` is called when the function is recorded: code in the cache has passed it. Without
    `zeros`, outputs that are zero at every state are not written.
    """
    # shapes of the inputs, those of parameters last
    dims = sizes(model, options)
    arguments = [a for a in row.inputs if a.shape[:1] != ("nw",) or dims["nw"]]
    shapes = [a.shape_in(dims) for a in arguments]
    shapes += [
        tuple(dims[s] if s in dims else int(s) for s in PARAMETERS[p][0]) for p in parameters
    ]

    def function(*values: Any) -> list[Any]:
        check()
        # the equivalent model with which the function takes fewest operations
        robot = model
        if row.joint_space and "inertia" not in parameters:
            # inertias that are inputs belong to the bodies as they are
            robot = condense(model)
        for name, value in zip(parameters, values[len(arguments) :], strict=True):
            robot = PARAMETERS[name][1](robot, value)
        result = row.algorithm(robot, *values[: len(arguments)], **options)
        return [leaf for output in row.flat(result, dims) for leaf in output]

    key = repr((model.digest, sorted(options.items()), tuple(parameters)))
    outputs = tuple(output.shape_in(dims) for output in row.outputs)
    return KernelSource(row.name, row.doc, function, tuple(shapes), outputs, key, zeros=zeros)


@dataclasses.dataclass(frozen=True)
class Refill:
    """A compiled function that leaves zeros alone.

    Without `out` it makes arrays; as `out` it takes arrays that it made, or others that have the
    same zeros. It returns them.
    """

    kernel: Kernel

    def __call__(self, *given: Any, out: Any = None) -> Any:
        """The function of arrays, into those of `out`."""
        inputs, outputs = self.kernel.gufunc.nin, self.kernel.gufunc.nout
        results = () if out is None else out if isinstance(out, tuple) else (out,)
        if len(given) != inputs or (out is not None and len(results) != outputs):
            found = f"{len(given)} arrays" + ("" if out is None else f", {len(results)} for `out`")
            needed = f"{inputs} are needed, and for `out` {outputs} or none"
            raise InvalidArgument("arguments", found, needed)
        alone = SETTING.single or SETTING.threads == 1
        call = self.kernel.call if alone else self.kernel.general
        return call(*given, *results)


def kernel_of(
    row: Function,
    model: Model,
    options: Mapping[str, Any],
    parameters: Sequence[str] = (),
    check: Callable[[], None] = lambda: None,
    zeros: bool = True,
) -> Kernel:
    """The compiled form of a catalogue function of a model."""
    return compile_kernel(
        source_of(row, model, options, parameters=parameters, check=check, zeros=zeros)
    )


def function_of(
    row: Function,
    model: Model,
    options: Mapping[str, Any],
    parameters: Sequence[str],
    check: Callable[[], None],
    zeros: bool,
) -> np.ufunc | Refill | InterpretedFunction:
    """A catalogue function of a model as a function of arrays, in Python if it is too large."""
    source = source_of(row, model, options, parameters=parameters, check=check, zeros=zeros)
    try:
        kernel = compile_kernel(source)
    except TooLarge:
        return InterpretedFunction(source)
    return kernel.gufunc if zeros else Refill(kernel)
