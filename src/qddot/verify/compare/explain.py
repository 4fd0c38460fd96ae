"""What would explain that two inertias differ: units, a load, turned axes, a sign, a point.

The sides are written @A and @B, to be replaced by what they are called.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from qddot.model import Body
from qddot.parts import inertia_defect
from qddot.spatial import Inertia
from qddot.verify.compare.result import shown

__all__ = ["explain_inertia", "explain_ratio"]

_NEAR = 1e-3


def explain_inertia(a: Body, b: Body) -> str:
    """What would make one inertia the other, as the end of a sentence; empty if nothing known."""
    for text in (*_loads(a.inertia, b.inertia), *_of_tensors(a.inertia, b.inertia)):
        return text
    return ""


def explain_ratio(ours: float, theirs: float, unit: str) -> str:
    """That two sizes differ by a power of ten, as units do."""
    if not ours or not theirs:
        return ""
    power = math.log10(theirs / ours)
    if abs(power - round(power)) < _NEAR and abs(round(power)) in (3, 6, 9):
        return f", a factor of 10^{round(power)}: {unit} in one of them"
    return ""


def _loads(a: Inertia, b: Inertia) -> Iterator[str]:
    """That one side carries a load more, which must be a body that can exist."""
    ours, theirs = float(a.mass), float(b.mass)
    if abs(ours - theirs) <= 1e-6 * max(ours, theirs):
        return
    if not ours or not theirs:
        side = "@A" if not ours else "@B"
        yield f": in {side} it has no mass, as a link without <inertial>"
        return
    same = [_close(float(x), float(y)) for x, y in zip(a.com, b.com, strict=True)]
    yield from filter(None, (explain_ratio(ours, theirs, "grams"),))
    load = b - a if theirs > ours else a - b
    if not all(same) and not inertia_defect("load", load) and float(load.mass) > 0:
        side = "@B" if theirs > ours else "@A"
        yield f": as by a load of {float(load.mass):.6g} kg at {shown(load.com)} m in {side}"


def _of_tensors(a: Inertia, b: Inertia) -> Iterator[str]:
    if not float(a.mass) or not float(b.mass):
        return
    if inertia_defect("body", a) and not inertia_defect("body", b):
        yield "; no body can have the one of @A"
        return
    if inertia_defect("body", b) and not inertia_defect("body", a):
        yield "; no body can have the one of @B"
        return
    A, B = (np.array([[float(x) for x in row] for row in i.tensor_at_com.rows]) for i in (a, b))
    near = _residual(A, B)
    yield from _multiples(A, B, near)
    yield from _signs(A, B, near)
    for side, this, at, other in (("@A", A, a, B), ("@B", B, b, A)):
        c = np.array([float(x) for x in at.com])
        about_origin = other + float(at.mass) * (c @ c * np.eye(3) - np.outer(c, c))
        if np.abs(this - about_origin).max() <= near:
            yield f", that of {side} is the other one about the origin of the link"
    moments = [np.linalg.eigvalsh(X) for X in (A, B)]
    if np.abs(moments[0] - moments[1]).max() <= near:
        yield ", the same principal moments about other axes: its frame is turned"


def _residual(x: np.ndarray, y: np.ndarray) -> float:
    """What may be left of a difference that is explained."""
    return _NEAR * float(np.abs(x - y).max())


def _signs(A: np.ndarray, B: np.ndarray, near: float) -> Iterator[str]:
    """What of the products of inertia differs, if nothing else does."""
    off = ~np.eye(3, dtype=bool)
    if np.abs(np.diag(A) - np.diag(B)).max() > near:
        return
    if np.abs(A[off] + B[off]).max() <= near:
        yield ", its products of inertia have the other sign"
    elif np.abs(np.abs(A[off]) - np.abs(B[off])).max() <= near:
        yield ", some of its products of inertia have the other sign"
    elif min(np.abs(X[off]).max() for X in (A, B)) <= near:
        side = "@A" if np.abs(A[off]).max() <= near else "@B"
        yield f", the products of inertia are missing in {side}"


def _multiples(A: np.ndarray, B: np.ndarray, near: float) -> Iterator[str]:
    """That one tensor is a multiple of the other, and which units would do that."""
    k = np.unravel_index(int(np.abs(A).argmax()), A.shape)
    if not A[k] or np.abs(B - A * (B[k] / A[k])).max() > near:
        return
    ratio = float(B[k] / A[k])
    units = explain_ratio(1.0, ratio, "other units") if ratio > 0 else ""
    yield units or f", {ratio:.6g} times that of @A in every entry"


def _close(x: float, y: float) -> bool:
    return abs(x - y) <= 1e-9 * max(abs(x), abs(y))
