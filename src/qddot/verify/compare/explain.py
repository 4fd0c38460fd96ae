"""Explanations of two inertias that differ: units, a load, turned axes, a sign, a point.

The sides are written @A and @B, to be replaced by what they are called.
"""

from __future__ import annotations

import math

import numpy as np

from qddot.model.links import inertia_defect
from qddot.model.model import Body
from qddot.spatial.algebra import Inertia
from qddot.verify.compare.result import format_vector

__all__ = ["explain_inertia", "explain_ratio"]

_NEAR = 1e-3


def explain_inertia(a: Body, b: Body) -> str:
    """A cause that makes one inertia the other, as the end of a sentence; empty if unknown."""
    here, there = a.inertia, b.inertia
    return _explain_mass(here, there) or _explain_tensor(here, there)


def _explain_mass(a: Inertia, b: Inertia) -> str:
    """Units of mass, or a load on one side, which must be a body that can exist."""
    ours, theirs = float(a.mass), float(b.mass)
    if abs(ours - theirs) <= 1e-6 * max(ours, theirs):
        return ""
    if not ours or not theirs:
        side = "@A" if not ours else "@B"
        return f": in {side} it has no mass, as a link without <inertial>"
    units = explain_ratio(ours, theirs, "grams")
    if units:
        return units
    coms = [(float(x), float(y)) for x, y in zip(a.com, b.com, strict=True)]
    same = all(abs(x - y) <= 1e-9 * max(abs(x), abs(y)) for x, y in coms)
    load = b - a if theirs > ours else a - b
    if not same and not inertia_defect("load", load) and float(load.mass) > 0:
        side, place = "@B" if theirs > ours else "@A", format_vector(load.com)
        return f": as by a load of {float(load.mass):.6g} kg at {place} m in {side}"
    return ""


def _explain_tensor(a: Inertia, b: Inertia) -> str:
    """Units, signs of products, the reference point or the axes of the tensor."""
    if not float(a.mass) or not float(b.mass):
        return ""
    flaws = [bool(inertia_defect("body", i)) for i in (a, b)]
    if flaws[0] != flaws[1]:
        return f"; no body can have the one of {'@A' if flaws[0] else '@B'}"
    A, B = (np.array([[float(x) for x in row] for row in i.tensor_at_com.rows]) for i in (a, b))
    near = _NEAR * float(np.abs(A - B).max())
    # a multiple in every entry
    k = np.unravel_index(int(np.abs(A).argmax()), A.shape)
    if A[k] and np.abs(B - A * (B[k] / A[k])).max() <= near:
        ratio = float(B[k] / A[k])
        units = explain_ratio(1.0, ratio, "other units") if ratio > 0 else ""
        return units or f", {ratio:.6g} times that of @A in every entry"
    # the same moments, other products of inertia
    off = ~np.eye(3, dtype=bool)
    if np.abs(np.diag(A) - np.diag(B)).max() <= near:
        if np.abs(A[off] + B[off]).max() <= near:
            return ", its products of inertia have the other sign"
        if np.abs(np.abs(A[off]) - np.abs(B[off])).max() <= near:
            return ", some of its products of inertia have the other sign"
        if min(np.abs(X[off]).max() for X in (A, B)) <= near:
            side = "@A" if np.abs(A[off]).max() <= near else "@B"
            return f", the products of inertia are missing in {side}"
    # about the origin instead of the centre of mass
    for side, this, at, other in (("@A", A, a, B), ("@B", B, b, A)):
        c = np.array([float(x) for x in at.com])
        about_origin = other + float(at.mass) * (c @ c * np.eye(3) - np.outer(c, c))
        if np.abs(this - about_origin).max() <= near:
            return f", that of {side} is the other one about the origin of the link"
    moments = [np.linalg.eigvalsh(X) for X in (A, B)]
    if np.abs(moments[0] - moments[1]).max() <= near:
        return ", the same principal moments about other axes: its frame is turned"
    return ""


def explain_ratio(ours: float, theirs: float, unit: str) -> str:
    """Text on two values that differ by a power of ten, as units do; empty where they do not."""
    if not ours or not theirs:
        return ""
    power = math.log10(theirs / ours)
    if abs(power - round(power)) < _NEAR and abs(round(power)) in (3, 6, 9):
        return f", a factor of 10^{round(power)}: {unit} in one of them"
    return ""
