"""Moving states between arrays and vectors, as LLVM IR: one lane a state.

Lanes beyond the end of a batch repeat its last state, on the way in and out: the same numbers are
then written to the same place again, so a batch of any length runs the same code.
"""

from __future__ import annotations

from qddot.compile.types import Vector

__all__ = ["moves_ir"]


def moves_ir(v: Vector) -> str:
    """The functions @gather and @scatter (contiguous cores), @gather_any and @scatter_any."""
    return "\n".join(
        [_contiguous(v, "gather"), _contiguous(v, "scatter"), _strided(v, True), _strided(v, False)]
    )


def _lane_pointers(v: Vector) -> list[str]:
    """Pointers to the states of the lanes, the last state repeated."""
    lines = ["  %last = sub i64 %n, 1"]
    for k in range(v.lanes):
        lines += [
            f"  %i{k} = add i64 %i, {k}",
            f"  %m{k} = call i64 @llvm.umin.i64(i64 %i{k}, i64 %last)",
            f"  %o{k} = mul i64 %m{k}, %step",
            f"  %p{k} = getelementptr i8, ptr %base, i64 %o{k}",
        ]
    return lines


def _transposed(v: Vector, names: list[str]) -> tuple[list[str], list[str]]:
    """Butterflies that transpose a square of vectors: at each distance, blocks change places."""
    lines, distance = [], 1
    mask_type = f"<{v.lanes} x i32>"
    while distance < v.lanes:
        new = list(names)
        for i in range(v.lanes):
            if i & distance:
                continue
            a, b = names[i], names[i + distance]
            for half, name in ((0, f"%t{distance}_{i}"), (1, f"%t{distance}_{i + distance}")):
                picks = [
                    (j if not j & distance else v.lanes + j - distance)
                    if not half
                    else (j + distance if not j & distance else v.lanes + j)
                    for j in range(v.lanes)
                ]
                mask = ", ".join(f"i32 {p}" for p in picks)
                lines.append(
                    f"  {name} = shufflevector {v.type} {a}, {v.type} {b}, {mask_type} <{mask}>"
                )
                new[i + half * distance] = name
        names, distance = new, distance * 2
    return lines, names


def _contiguous(v: Vector, direction: str) -> str:
    """Blocks of as many numbers as lanes; the last block overlaps the one before it."""
    t, w = v.type, v.lanes
    inward = direction == "gather"
    block: list[str] = []

    def outside(k: int, at: str) -> list[str]:
        return [f"  %a{k} = getelementptr {v.scalar}, ptr %p{k}, i64 {at}"]

    def inside(k: int, at: str) -> list[str]:
        return [
            f"  %b{k}i = add i64 {at}, {k}",
            f"  %b{k} = getelementptr {t}, ptr %buffer, i64 %b{k}i",
        ]

    loads, stores = (outside, inside) if inward else (inside, outside)
    source, target = ("a", "b") if inward else ("b", "a")
    align_in, align_out = (v.size, v.bytes) if inward else (v.bytes, v.size)
    for k in range(w):
        block += loads(k, "%k")
        block.append(f"  %x{k} = load {t}, ptr %{source}{k}, align {align_in}")
    shuffles, names = _transposed(v, [f"%x{k}" for k in range(w)])
    block += shuffles
    for k in range(w):
        block += stores(k, "%k")
        block.append(f"  store {t} {names[k]}, ptr %{target}{k}, align {align_out}")
    few: list[str] = []
    if inward:
        value = "undef"
        for k in range(w):
            few += [
                f"  %e{k} = getelementptr {v.scalar}, ptr %p{k}, i64 %j",
                f"  %y{k} = load {v.scalar}, ptr %e{k}, align {v.size}",
                f"  %z{k} = insertelement {t} {value}, {v.scalar} %y{k}, i32 {k}",
            ]
            value = f"%z{k}"
        few += [
            f"  %d = getelementptr {t}, ptr %buffer, i64 %j",
            f"  store {t} {value}, ptr %d, align {v.bytes}",
        ]
    else:
        few += [
            f"  %d = getelementptr {t}, ptr %buffer, i64 %j",
            f"  %y = load {t}, ptr %d, align {v.bytes}",
        ]
        for k in range(w):
            few += [
                f"  %z{k} = extractelement {t} %y, i32 {k}",
                f"  %e{k} = getelementptr {v.scalar}, ptr %p{k}, i64 %j",
                f"  store {v.scalar} %z{k}, ptr %e{k}, align {v.size}",
            ]
    newline = "\n"
    return f"""
define internal void @{direction}(ptr %base, i64 %step, i64 %i, i64 %n, i64 %count, ptr %buffer) {{
entry:
{newline.join(_lane_pointers(v))}
  %end = sub i64 %count, {w}
  %short = icmp slt i64 %count, {w}
  br i1 %short, label %few, label %block
block:
  %k = phi i64 [0, %entry], [%next, %block]
{newline.join(block)}
  %ahead = add i64 %k, {w}
  %next = call i64 @llvm.smin.i64(i64 %ahead, i64 %end)
  %last_block = icmp eq i64 %k, %end
  br i1 %last_block, label %done, label %block
few:
  %j = phi i64 [0, %entry], [%j1, %step1]
  %more = icmp slt i64 %j, %count
  br i1 %more, label %step1, label %done
step1:
{newline.join(few)}
  %j1 = add i64 %j, 1
  br label %few
done:
  ret void
}}
"""


def _strided(v: Vector, inward: bool) -> str:
    """One number at a time, for cores of up to three axes with any strides."""
    move = (
        f"  %x = load {v.scalar}, ptr %outside, align {v.size}\n"
        f"  store {v.scalar} %x, ptr %inside, align {v.size}"
        if inward
        else f"  %x = load {v.scalar}, ptr %inside, align {v.size}\n"
        f"  store {v.scalar} %x, ptr %outside, align {v.size}"
    )
    name = "gather_any" if inward else "scatter_any"
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
  %lane = urem i64 %e, {v.lanes}
  %core = udiv i64 %e, {v.lanes}
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
  %outside = getelementptr i8, ptr %base, i64 %g2
  %inside = getelementptr {v.scalar}, ptr %buffer, i64 %e
{move}
  %e1 = add i64 %e, 1
  br label %test
done:
  ret void
}}
"""
