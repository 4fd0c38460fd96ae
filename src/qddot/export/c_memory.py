"""Functions that keep something from call to call, in C: a struct, its start, and a step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qddot.export.c_source import (
    Routine,
    argument_name,
    comment_text,
    number_literal,
)
from qddot.export.c_tests import Vectors
from qddot.export.precision import output_sizes

__all__ = ["MemoryStruct"]

_STEPS = 5


@dataclass(frozen=True)
class MemoryStruct:
    """A routine whose last input and last output are its memory, flat; start values by name."""

    routine: Routine
    start: Mapping[str, np.ndarray]

    @property
    def type_name(self) -> str:
        """The name of the struct."""
        return f"{self.routine.name}_memory"

    @property
    def step(self) -> Routine:
        """The routine without its memory, which it takes as a struct."""
        r = self.routine
        return dataclasses.replace(
            r, name=f"{r.name}_step", inputs=r.inputs[:-1], outputs=r.outputs[:-1]
        )

    def _fields(self) -> dict[str, np.ndarray]:
        """The members of the struct and their start values."""
        found: dict[str, np.ndarray] = {}
        for name, value in self.start.items():
            found[argument_name(name, found)] = value
        return found

    def _places(self) -> list[str]:
        """C expressions of all numbers of the struct, in the order of the vector."""
        return [
            f"memory->{name}[{k}]" if x.shape else f"memory->{name}"
            for name, x in self._fields().items()
            for k in range(x.size)
        ]

    def _prototype(self, scalar: str) -> str:
        step = self.step
        arguments = [f"const {scalar} {p.name}[{p.extent}]" for p in step.inputs]
        arguments += [f"{self.type_name} *memory"]
        arguments += [f"{scalar} {p.name}[{p.extent}]" for p in step.outputs]
        return f"void {step.name}(\n    " + ",\n    ".join(arguments) + ")"

    def declarations(self, scalar: str) -> list[str]:
        """Lines of the header: the struct, and the functions that start and use it."""
        members = [
            f"    {scalar} {name}{f'[{x.size}]' if x.shape else ''};"
            for name, x in self._fields().items()
        ]
        return [
            "",
            comment_text([f"What {self.routine.name} keeps from sample to sample."]),
            "typedef struct {",
            *members,
            f"}} {self.type_name};",
            "",
            comment_text(["Memory before the first sample."]),
            f"void {self.routine.name}_reset({self.type_name} *memory);",
            "",
            comment_text([f"One sample of {self.routine.name}, with its memory in a struct."]),
            f"{self._prototype(scalar)};",
        ]

    def definitions(self, scalar: str) -> str:
        """The functions that start and use the struct."""
        r, places = self.routine, self._places()
        values = [x for value in self.start.values() for x in value.ravel().tolist()]
        starts = [
            f"    {place} = {number_literal(x, scalar)};"
            for place, x in zip(places, values, strict=True)
        ]
        n = len(places)
        given = [p.name for p in r.inputs[:-1]] + ["memory_before"]
        given += [p.name for p in r.outputs[:-1]] + ["memory_after"]
        lines = [
            f"void {r.name}_reset({self.type_name} *memory)",
            "{",
            *starts,
            "}",
            "",
            self._prototype(scalar),
            "{",
            f"    {scalar} memory_before[{n}], memory_after[{n}];",
            *(f"    memory_before[{k}] = {place};" for k, place in enumerate(places)),
            f"    {r.name}({', '.join(given)});",
            *(f"    {place} = memory_after[{k}];" for k, place in enumerate(places)),
            "}",
            "",
        ]
        return "\n".join(lines)

    def test_vectors(
        self,
        inputs: Sequence[np.ndarray],
        definition: Callable[[Sequence[np.ndarray]], Any],
        tolerances: Sequence[float],
    ) -> Vectors:
        """Several samples one after another; those with results that are no numbers left out."""
        memory = np.concatenate([x.ravel() for x in self.start.values()])
        taken: list[int] = []
        results: list[list[np.ndarray]] = []
        for k in range(len(inputs[0])):
            *found, after = definition([*(x[k] for x in inputs[:-1]), memory])
            if all(np.isfinite(x).all() for x in (*found, after)):
                taken.append(k)
                results.append([np.ravel(x) for x in found])
                memory = np.ravel(after)
            if len(taken) == _STEPS:
                break
        outputs = tuple(np.array(x) for x in zip(*results, strict=True))
        return Vectors(
            self.step,
            inputs=tuple(x[taken].reshape(len(taken), -1) for x in inputs[:-1]),
            outputs=outputs,
            sizes=tuple(map(output_sizes, outputs)),
            tolerances=tuple(_STEPS * t for t in tolerances[:-1]),
            setup=(f"{self.type_name} memory;", f"{self.routine.name}_reset(&memory);"),
            carried=("&memory",),
        )
