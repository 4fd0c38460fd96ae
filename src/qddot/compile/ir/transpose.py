"""Moving states between arrays and vectors, as LLVM IR: one lane a state.

Inputs are gathered into a buffer of vectors. Lanes beyond the end of a batch repeat its last state,
on the way in and out: the same numbers are written to the same place again, so a batch of any
length runs the same code.
"""

from __future__ import annotations

from qddot.compile.ir.stores import transpose_vectors
from qddot.compile.ir.types import VectorType

__all__ = ["moves_ir"]


# blocks of as many numbers as lanes, the last overlapping the one before it; half as many where a
# core has fewer, or number by number; spread over all lanes for a single state
_GATHER = """
define internal void @gather(ptr %base, i64 %step, i64 %i, i64 %n, i64 %count, ptr %buffer) {{
entry:
{lanes}
  %is_alone = icmp eq i64 %n, 1
  br i1 %is_alone, label %test_alone, label %several
several:
{wide}
  br label %test_few
test_few:
  %j = phi i64 [0, %fewer{least}], [%j1, %few]
  %more = icmp slt i64 %j, %count
  br i1 %more, label %few, label %done
few:
{few}
  %j1 = add i64 %j, 1
  br label %test_few
test_alone:
  %h = phi i64 [0, %entry], [%h1, %alone]
  %rest = icmp slt i64 %h, %count
  br i1 %rest, label %alone, label %done
alone:
{alone}
  %h1 = add i64 %h, 1
  br label %test_alone
done:
  ret void
}}
"""


def _gather_blocks(v: VectorType, width: int) -> list[str]:
    """Blocks of `width` numbers, those of all lanes at once, where a core has as many."""
    part, k, names = f"<{width} x {v.scalar}>", f"%k{width}", []
    lines = [
        f"  %end{width} = sub i64 %count, {width}",
        f"  %less{width} = icmp slt i64 %end{width}, 0",
        f"  br i1 %less{width}, label %fewer{width}, label %begin{width}",
        f"begin{width}:",
        f"  br label %block{width}",
        f"block{width}:",
        f"  {k} = phi i64 [0, %begin{width}], [%next{width}, %block{width}]",
    ]
    for lane in range(v.lanes):
        lines += [
            f"  %a{width}_{lane} = getelementptr {v.scalar}, ptr %p{lane}, i64 {k}",
            f"  %x{width}_{lane} = load {part}, ptr %a{width}_{lane}, align {v.number_bytes}",
        ]
    # lanes side by side, then transposed: a vector for each number
    joined = ", ".join(f"i32 {lane}" for lane in range(v.lanes))
    for lane in range(width):
        names.append(f"%x{width}_{lane}")
        if width < v.lanes:
            names[-1] = f"%y{width}_{lane}"
            pair = f"{part} %x{width}_{lane}, {part} %x{width}_{lane + width}"
            lines.append(f"  {names[-1]} = shufflevector {pair}, <{v.lanes} x i32> <{joined}>")
    shuffles, names = transpose_vectors(v, names, f"t{width}_")
    lines += shuffles
    for number, name in enumerate(names):
        lines += [
            f"  %n{width}_{number} = add i64 {k}, {number}",
            f"  %b{width}_{number} = getelementptr {v.type}, ptr %buffer, i64 %n{width}_{number}",
            f"  store {v.type} {name}, ptr %b{width}_{number}, align {v.bytes}",
        ]
    return [
        *lines,
        f"  %ahead{width} = add i64 {k}, {width}",
        f"  %next{width} = call i64 @llvm.smin.i64(i64 %ahead{width}, i64 %end{width})",
        f"  %final{width} = icmp eq i64 {k}, %end{width}",
        f"  br i1 %final{width}, label %done, label %block{width}",
        f"fewer{width}:",
    ]


def moves_ir(v: VectorType) -> str:
    """The functions @gather (contiguous cores), @gather_any, and @scatter_any (from rows)."""
    t, w, few = v.type, v.lanes, []
    widths = [n for n in (w, w // 2) if n > 1]
    wide = [line for n in widths for line in _gather_blocks(v, n)]
    # number by number, from all lanes
    value = "undef"
    for k in range(w):
        few += [
            f"  %e{k} = getelementptr {v.scalar}, ptr %p{k}, i64 %j",
            f"  %y{k} = load {v.scalar}, ptr %e{k}, align {v.number_bytes}",
            f"  %z{k} = insertelement {t} {value}, {v.scalar} %y{k}, i32 {k}",
        ]
        value = f"%z{k}"
    few += [
        f"  %d = getelementptr {t}, ptr %buffer, i64 %j",
        f"  store {t} {value}, ptr %d, align {v.bytes}",
    ]
    # a single state, spread over all lanes
    splat = ", ".join(["i32 0"] * w)
    alone = [
        f"  %ae = getelementptr {v.scalar}, ptr %p0, i64 %h",
        f"  %ay = load {v.scalar}, ptr %ae, align {v.number_bytes}",
        f"  %az = insertelement {t} undef, {v.scalar} %ay, i32 0",
        f"  %as = shufflevector {t} %az, {t} undef, <{w} x i32> <{splat}>",
        f"  %ad = getelementptr {t}, ptr %buffer, i64 %h",
        f"  store {t} %as, ptr %ad, align {v.bytes}",
    ]
    # pointers to the states of the lanes, the last state repeated
    lanes = ["  %last = sub i64 %n, 1"]
    for k in range(w):
        lanes += [
            f"  %i{k} = add i64 %i, {k}",
            f"  %m{k} = call i64 @llvm.umin.i64(i64 %i{k}, i64 %last)",
            f"  %o{k} = mul i64 %m{k}, %step",
            f"  %p{k} = getelementptr i8, ptr %base, i64 %o{k}",
        ]
    blocks = {"lanes": lanes, "wide": wide, "few": few, "alone": alone}
    texts = {name: "\n".join(lines) for name, lines in blocks.items()}
    gather = _GATHER.format(**texts, least=widths[-1])
    return "\n".join([gather, _strided_ir(v, True), _strided_ir(v, False)])


def _strided_ir(v: VectorType, inward: bool) -> str:
    """One number at a time, for cores of up to three axes with any strides."""
    source, target = ("%outside", "%inside") if inward else ("%inside", "%outside")
    name = "gather_any" if inward else "scatter_any"
    # a buffer has a vector a number, rows have their numbers side by side
    major, length, minor = ("%core", v.lanes, "%lane") if inward else ("%lane", "%c1", "%core")
    return f"""
define internal void @{name}(ptr %base, i64 %step, i64 %i, i64 %n, i64 %d0, i64 %d1, i64 %d2,
                             i64 %s0, i64 %s1, i64 %s2, ptr %buffer) {{
entry:
  %last = sub i64 %n, 1
  %c0 = mul i64 %d0, %d1
  %c1 = mul i64 %c0, %d2
  %total = mul i64 %c1, {v.lanes}
  br label %test
test:
  %e = phi i64 [0, %entry], [%e1, %move]
  %more = icmp slt i64 %e, %total
  br i1 %more, label %move, label %done
move:
{_ADDRESS.format(lanes=v.lanes)}
  %row = mul i64 {major}, {length}
  %cell = add i64 %row, {minor}
  %inside = getelementptr {v.scalar}, ptr %buffer, i64 %cell
  %x = load {v.scalar}, ptr {source}, align {v.number_bytes}
  store {v.scalar} %x, ptr {target}, align {v.number_bytes}
  %e1 = add i64 %e, 1
  br label %test
done:
  ret void
}}
"""


# lane and number of the core for element %e, and where that number of that state is outside
_ADDRESS = """\
  %lane = urem i64 %e, {lanes}
  %core = udiv i64 %e, {lanes}
  %k2 = urem i64 %core, %d2
  %r2 = udiv i64 %core, %d2
  %k1 = urem i64 %r2, %d1
  %k0 = udiv i64 %r2, %d1
  %state = add i64 %i, %lane
  %kept = call i64 @llvm.umin.i64(i64 %state, i64 %last)
  %f = mul i64 %kept, %step
  %f0 = mul i64 %k0, %s0
  %f1 = mul i64 %k1, %s1
  %f2 = mul i64 %k2, %s2
  %g0 = add i64 %f, %f0
  %g1 = add i64 %g0, %f1
  %g2 = add i64 %g1, %f2
  %outside = getelementptr i8, ptr %base, i64 %g2"""
