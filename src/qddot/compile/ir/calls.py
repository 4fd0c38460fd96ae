"""Calls of the pieces and regions of a tape, as LLVM IR.

A region that is run once at most is tested where it is called: code that is skipped is not fetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qddot.compile.ir.schedule import Call, RegionCalls, Schedule
from qddot.compile.ir.types import VectorType
from qddot.compile.trace.tape import Tape

__all__ = ["FunctionCall", "function_calls", "region_ir"]


@dataclass(frozen=True)
class FunctionCall:
    """A call of a function on one block; with a flag, only where a lane has it above 1/2.

    The flag is a vector of the inputs ("in") or of the workspace ("ws").
    """

    name: str
    flag: tuple[str, int] | None
    vector: VectorType

    def lines(self, tag: str, pointers: Sequence[str]) -> list[str]:
        """The call on the pointers to inputs, workspace and rows; labels end in the tag."""
        given = ", ".join(f"ptr {x}" for x in pointers)
        call = f"  call void @{self.name}({given})"
        if self.flag is None:
            return [call]
        return [
            *self.test(tag, pointers),
            f"  br i1 %any{tag}, label %do{tag}, label %skip{tag}",
            f"do{tag}:",
            call,
            f"  br label %skip{tag}",
            f"skip{tag}:",
        ]

    def test(self, tag: str, pointers: Sequence[str]) -> list[str]:
        """Find %any and the tag: whether a lane has the flag."""
        v, (base, at) = self.vector, self.flag or ("ws", 0)
        pointer, bits = pointers[("in", "ws").index(base)], f"v{v.lanes}i1"
        return [
            f"  %fp{tag} = getelementptr {v.type}, ptr {pointer}, i64 {at}",
            f"  %flag{tag} = load volatile {v.type}, ptr %fp{tag}, align {v.bytes}",
            f"  %set{tag} = fcmp ogt {v.type} %flag{tag}, {v.constant(0.5)}",
            f"  %any{tag} = call i1 @llvm.vector.reduce.or.{bits}(<{v.lanes} x i1> %set{tag})",
        ]


def function_calls(
    tape: Tape, plan: Schedule, v: VectorType, calls: Sequence[Call]
) -> list[FunctionCall]:
    """The functions of pieces and regions."""
    found = []
    for call in calls:
        if isinstance(call, int):
            found.append(FunctionCall(f"piece{call}", None, v))
            continue
        flag = _place(tape, plan, call.region.flag) if call.region.times == 1 else None
        # a region of one piece is that piece
        alone = call.calls[0] if _is_one_piece(call) else None
        found.append(FunctionCall(call.name if alone is None else f"piece{alone}", flag, v))
    return found


def _is_one_piece(call: RegionCalls) -> bool:
    inside = call.calls
    once = call.region.times == 1 and not call.copies
    return once and len(inside) == 1 and isinstance(inside[0], int)


def _place(tape: Tape, plan: Schedule, x: int) -> tuple[str, int]:
    """Where a value is: in the inputs or in the workspace."""
    code = tape.code[x]
    return ("in", int(code[1])) if code[0] == "input" else ("ws", plan.slots[x])


def region_ir(tape: Tape, plan: Schedule, v: VectorType) -> str:
    """The functions of all regions; those that are run again test their flag themselves."""
    functions = []
    for call in plan.regions:
        if _is_one_piece(call):
            continue
        # its calls, then copies to the carries
        pointers, region = ("%in", "%ws", "%rows"), call.region
        lines: list[str] = []
        for k, inside in enumerate(function_calls(tape, plan, v, call.calls)):
            lines += inside.lines(f"_{k}", pointers)
        # all are read before the first is written
        copied = []
        for c, x in call.copies.items():
            value = v.constant(float(x))
            if type(x) is int:
                base, at = _place(tape, plan, x)
                value = f"%x{c}"
                lines += [
                    f"  %p{c} = getelementptr {v.type}, ptr %{base}, i64 {at}",
                    f"  %x{c} = load volatile {v.type}, ptr %p{c}, align {v.bytes}",
                ]
            copied.append((c, value))
        for c, value in copied:
            lines += [
                f"  %c{c} = getelementptr {v.type}, ptr %ws, i64 {plan.slots[c]}",
                f"  store {v.type} {value}, ptr %c{c}, align {v.bytes}",
            ]
        if region.times > 1:
            test = FunctionCall(call.name, _place(tape, plan, region.flag), v).test("", pointers)
            lines = [
                "  br label %test",
                "test:",
                "  %run = phi i64 [0, %entry], [%next, %ran]",
                f"  %more = icmp slt i64 %run, {region.times}",
                "  br i1 %more, label %ask, label %done",
                "ask:",
                *test,
                "  br i1 %any, label %body, label %done",
                "body:",
                *lines,
                "  br label %ran",
                "ran:",
                "  %next = add i64 %run, 1",
                "  br label %test",
                "done:",
            ]
        given = ", ".join(f"ptr noalias {x}" for x in pointers)
        head = f"define internal void @{call.name}({given}) noinline {{"
        functions.append("\n".join([head, "entry:", *lines, "  ret void", "}"]))
    return "\n".join(functions)
