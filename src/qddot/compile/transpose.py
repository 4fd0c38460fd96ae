"""Moving states between arrays and vectors, as LLVM IR: one lane a state.

Inputs are gathered into a buffer of vectors. Outputs are scattered from a buffer that holds each
different number once, through an index: a symmetric matrix or one full of zeros costs no more than
its different entries. Lanes beyond the end of a batch repeat its last state, on the way in and out:
the same numbers are written to the same place again, so a batch of any length runs the same code.
"""

from __future__ import annotations

from qddot.compile.types import Vector

__all__ = ["moves_ir"]


def moves_ir(v: Vector) -> str:
    """The functions @gather and @scatter (contiguous cores), @gather_any and @scatter_any."""
    return "\n".join([_gather(v), _scatter(v), _strided(v, True), _strided(v, False)])


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
    while distance < v.lanes:
        new = list(names)
        for i in (k for k in range(v.lanes) if not k & distance):
            near = [j - distance + v.lanes if j & distance else j for j in range(v.lanes)]
            far = [j + v.lanes if j & distance else j + distance for j in range(v.lanes)]
            for target, picks in ((i, near), (i + distance, far)):
                new[target] = f"%t{distance}_{target}"
                mask = ", ".join(f"i32 {p}" for p in picks)
                lines.append(
                    f"  {new[target]} = shufflevector {v.type} {names[i]}, "
                    f"{v.type} {names[i + distance]}, <{v.lanes} x i32> <{mask}>"
                )
        names, distance = new, distance * 2
    return lines, names


def _filled(v: Vector, template: str, **blocks: list[str]) -> str:
    """A template with its blocks and the parts of the vector type filled in."""
    texts = {name: "\n".join(lines) for name, lines in blocks.items()}
    return template.format(
        lanes="\n".join(_lane_pointers(v)), w=v.lanes, t=v.type, scalar=v.scalar, size=v.size,
        bytes=v.bytes, **texts,
    )  # fmt: skip


# blocks of as many numbers as lanes, the last overlapping the one before it; number by number where
# a core has fewer; spread over all lanes for a single state
_GATHER = """
define internal void @gather(ptr %base, i64 %step, i64 %i, i64 %n, i64 %count, ptr %buffer) {{
entry:
{lanes}
  %end = sub i64 %count, {w}
  %is_alone = icmp eq i64 %n, 1
  br i1 %is_alone, label %test_alone, label %several
several:
  %is_few = icmp slt i64 %count, {w}
  br i1 %is_few, label %test_few, label %block
block:
  %k = phi i64 [0, %several], [%next, %block]
{block}
  %ahead = add i64 %k, {w}
  %next = call i64 @llvm.smin.i64(i64 %ahead, i64 %end)
  %final = icmp eq i64 %k, %end
  br i1 %final, label %done, label %block
test_few:
  %j = phi i64 [0, %several], [%j1, %few]
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

# blocks of numbers that differ are transposed, a block of one constant is only written
_SCATTER = """
define internal void @scatter(ptr %base, i64 %step, i64 %i, i64 %n, i64 %count, ptr %buffer,
                              ptr %index, ptr %dense, i64 %n_dense, ptr %flat, i64 %n_flat) {{
entry:
{lanes}
  %is_few = icmp slt i64 %count, {w}
  br i1 %is_few, label %test_few, label %enough
enough:
  %is_alone = icmp eq i64 %n, 1
  br i1 %is_alone, label %test_alone, label %test_dense
test_dense:
  %d = phi i64 [0, %enough], [%d1, %dense_block]
  %d_more = icmp slt i64 %d, %n_dense
  br i1 %d_more, label %dense_block, label %test_flat
dense_block:
  %dp = getelementptr i32, ptr %dense, i64 %d
  %dk = load i32, ptr %dp
  %k = zext i32 %dk to i64
{dense}
  %d1 = add i64 %d, 1
  br label %test_dense
test_alone:
  %h = phi i64 [0, %enough], [%h1, %alone_block]
  %h_more = icmp slt i64 %h, %n_dense
  br i1 %h_more, label %alone_block, label %test_flat
alone_block:
  %hp = getelementptr i32, ptr %dense, i64 %h
  %hk = load i32, ptr %hp
  %ak = zext i32 %hk to i64
{alone}
  %ap = getelementptr {scalar}, ptr %p0, i64 %ak
  store {t} {alone_value}, ptr %ap, align {size}
  %h1 = add i64 %h, 1
  br label %test_alone
test_flat:
  %f = phi i64 [0, %test_dense], [0, %test_alone], [%f1, %flat_block]
  %f_more = icmp slt i64 %f, %n_flat
  br i1 %f_more, label %flat_block, label %done
flat_block:
  %fp = getelementptr i32, ptr %flat, i64 %f
  %fi = load i32, ptr %fp
  %fk = zext i32 %fi to i64
  %fs = getelementptr i32, ptr %index, i64 %fk
  %fu = load i32, ptr %fs
  %fb = getelementptr {t}, ptr %buffer, i32 %fu
  %fx = load {t}, ptr %fb, align {bytes}
{flat}
  %f1 = add i64 %f, 1
  br label %test_flat
test_few:
  %j = phi i64 [0, %entry], [%j1, %few]
  %more = icmp slt i64 %j, %count
  br i1 %more, label %few, label %done
few:
  %s = getelementptr i32, ptr %index, i64 %j
  %u = load i32, ptr %s
  %q = getelementptr {t}, ptr %buffer, i32 %u
  %y = load {t}, ptr %q, align {bytes}
{few}
  %j1 = add i64 %j, 1
  br label %test_few
done:
  ret void
}}
"""


def _gather(v: Vector) -> str:
    """The function @gather."""
    t, w, block, few = v.type, v.lanes, [], []
    for k in range(w):
        block += [
            f"  %a{k} = getelementptr {v.scalar}, ptr %p{k}, i64 %k",
            f"  %x{k} = load {t}, ptr %a{k}, align {v.size}",
        ]
    shuffles, names = _transposed(v, [f"%x{k}" for k in range(w)])
    block += shuffles
    for k, name in enumerate(names):
        block += [
            f"  %n{k} = add i64 %k, {k}",
            f"  %b{k} = getelementptr {t}, ptr %buffer, i64 %n{k}",
            f"  store {t} {name}, ptr %b{k}, align {v.bytes}",
        ]
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
    splat = ", ".join(["i32 0"] * w)
    alone = [
        f"  %ae = getelementptr {v.scalar}, ptr %p0, i64 %h",
        f"  %ay = load {v.scalar}, ptr %ae, align {v.size}",
        f"  %az = insertelement {t} undef, {v.scalar} %ay, i32 0",
        f"  %as = shufflevector {t} %az, {t} undef, <{w} x i32> <{splat}>",
        f"  %ad = getelementptr {t}, ptr %buffer, i64 %h",
        f"  store {t} %as, ptr %ad, align {v.bytes}",
    ]
    return _filled(v, _GATHER, block=block, few=few, alone=alone)


def _scatter(v: Vector) -> str:
    """The function @scatter."""
    t, w, dense, flat, few = v.type, v.lanes, [], [], []
    alone_value, alone = "undef", []
    for k in range(w):
        dense += [
            f"  %n{k} = add i64 %k, {k}",
            f"  %s{k} = getelementptr i32, ptr %index, i64 %n{k}",
            f"  %u{k} = load i32, ptr %s{k}",
            f"  %b{k} = getelementptr {t}, ptr %buffer, i32 %u{k}",
            f"  %x{k} = load {t}, ptr %b{k}, align {v.bytes}",
        ]
        alone += [
            f"  %an{k} = add i64 %ak, {k}",
            f"  %as{k} = getelementptr i32, ptr %index, i64 %an{k}",
            f"  %au{k} = load i32, ptr %as{k}",
            f"  %ab{k} = getelementptr {t}, ptr %buffer, i32 %au{k}",
            f"  %ax{k} = load {v.scalar}, ptr %ab{k}, align {v.bytes}",
            f"  %az{k} = insertelement {t} {alone_value}, {v.scalar} %ax{k}, i32 {k}",
        ]
        alone_value = f"%az{k}"
        flat += [
            f"  %fa{k} = getelementptr {v.scalar}, ptr %p{k}, i64 %fk",
            f"  store {t} %fx, ptr %fa{k}, align {v.size}",
        ]
        few += [
            f"  %z{k} = extractelement {t} %y, i32 {k}",
            f"  %e{k} = getelementptr {v.scalar}, ptr %p{k}, i64 %j",
            f"  store {v.scalar} %z{k}, ptr %e{k}, align {v.size}",
        ]
    shuffles, names = _transposed(v, [f"%x{k}" for k in range(w)])
    dense += shuffles
    for k, name in enumerate(names):
        dense += [
            f"  %a{k} = getelementptr {v.scalar}, ptr %p{k}, i64 %k",
            f"  store {t} {name}, ptr %a{k}, align {v.size}",
        ]
    return _filled(
        v, _SCATTER, dense=dense, flat=flat, few=few, alone=alone, alone_value=[alone_value]
    )


def _strided(v: Vector, inward: bool) -> str:
    """One number at a time, for cores of up to three axes with any strides."""
    source, target = ("%outside", "%inside") if inward else ("%inside", "%outside")
    name, table = ("gather_any", "") if inward else ("scatter_any", ", ptr %index")
    # where a number of the core lies in the buffer
    place = (
        "  %at = add i64 %core, 0"
        if inward
        else "  %s = getelementptr i32, ptr %index, i64 %core\n"
        "  %u = load i32, ptr %s\n"
        "  %at = zext i32 %u to i64"
    )
    return f"""
define internal void @{name}(ptr %base, i64 %step, i64 %i, i64 %n, i64 %d0, i64 %d1, i64 %d2,
                             i64 %s0, i64 %s1, i64 %s2, ptr %buffer{table}) {{
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
{place}
  %row = mul i64 %at, {v.lanes}
  %cell = add i64 %row, %lane
  %inside = getelementptr {v.scalar}, ptr %buffer, i64 %cell
  %x = load {v.scalar}, ptr {source}, align {v.size}
  store {v.scalar} %x, ptr {target}, align {v.size}
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
