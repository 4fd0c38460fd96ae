"""External wrenches on a robot: where they act, in which axes, and their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.kinematics import ReferenceAxes
from qddot.errors import BatchMismatch, ShapeMismatch, WrongType
from qddot.robot.arrays import as_numbers

__all__ = ["Wrench", "list_wrenches", "stack_wrenches", "value_of"]


@dataclass(frozen=True)
class Wrench:
    """An external wrench on the robot: [force; moment] at a frame, with the axes it is given in."""

    frame: str
    reference: ReferenceAxes
    value: ArrayLike


def list_wrenches(wrenches: Wrench | Sequence[Wrench] | None) -> Sequence[Wrench]:
    """Wrenches given as one, several or none."""
    given: Any = (
        () if wrenches is None else (wrenches,) if isinstance(wrenches, Wrench) else wrenches
    )
    for wrench in given if isinstance(given, Sequence) else (given,):
        if not isinstance(wrench, Wrench):
            accepted = "needs Wrench(frame, reference, value), or a list of them"
            raise WrongType("f_ext", wrench, accepted)
    return given


def stack_wrenches(
    f_ext: Wrench | Sequence[Wrench] | None,
) -> tuple[tuple[tuple[str, ReferenceAxes], ...], list[np.ndarray]]:
    """The (frame, reference) of each wrench, and their values as one array, if there are any."""
    given = list_wrenches(f_ext)
    if not given:
        return (), []
    # one row a wrench, after the batch axes
    values = [value_of(w) for w in given]
    try:
        together = np.stack(np.broadcast_arrays(*values), axis=-2)
    except ValueError:
        shapes, names = [x.shape[:-1] for x in values], [f"at {w.frame!r}" for w in given]
        raise BatchMismatch("f_ext", shapes, names) from None
    return tuple((w.frame, w.reference) for w in given), [together]


def value_of(wrench: Wrench) -> np.ndarray:
    """The six numbers of a wrench, with leading batch axes."""
    value = as_numbers("f_ext", f"the wrench at {wrench.frame!r}", wrench.value)
    if value.shape[-1:] != (6,):
        raise ShapeMismatch("f_ext", f"the wrench at {wrench.frame!r}", "(..., 6)", value.shape)
    return value
