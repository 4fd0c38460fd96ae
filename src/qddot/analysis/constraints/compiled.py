"""Rows of the catalogue that are no methods of a robot, compiled on first use."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from qddot.algorithms.catalogue import Function, sizes
from qddot.errors import TooLarge
from qddot.robot.interpret import interpret, validate_arrays
from qddot.robot.native import kernel_of
from qddot.robot.robot import Robot, with_marked_rows

__all__ = ["evaluate"]

_calls: WeakKeyDictionary[Robot, dict[Any, Callable[..., Any]]] = WeakKeyDictionary()


def evaluate(robot: Robot, row: Function, *arrays: Any, **options: Any) -> Any:
    """The results of a row on arrays; options are hashable, None stands for a default."""
    calls = _calls.setdefault(robot, {})
    key = (row.name, *options.values())
    given = {name: x for name, x in options.items() if x is not None}
    # the function of arrays: compiled, or interpreted where the robot is or it is too large
    if key not in calls:
        held = with_marked_rows(robot, row, given)
        outputs = [output.shape_in(sizes(robot.model, given)) for output in row.outputs]

        def interpret_row(*states: Any) -> Any:
            return interpret(row, robot.model, states, held)

        call: Callable[..., Any] = interpret_row
        if robot.native and robot.nv and not any(0 in shape for shape in outputs):
            with suppress(TooLarge):
                call = kernel_of(row, robot.model, held).call
        calls[key] = call
    try:
        # one state raises no flags of NumPy, and a batch is judged by its residuals
        if all(type(x) is np.ndarray and x.ndim == 1 for x in arrays):
            return calls[key](*arrays)
        with np.errstate(all="ignore"):
            return calls[key](*arrays)
    except (TypeError, ValueError):
        # the gufunc names neither arguments nor sizes
        validate_arrays(row, arrays, sizes(robot.model, given))
        raise
