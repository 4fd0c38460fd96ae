"""The numbers of an <inertial> that give a link an inertia, in the axes that the file has."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from qddot.loaders.xml import Element
from qddot.spatial import Inertia, Mat3, Vec3, rotation_from_quaternion
from qddot.writers.markup import number, numbers, quaternion_of, settled
from qddot.writers.moments import capped
from qddot.writers.patch import Change

__all__ = ["inertial_changes", "links_of_file"]

_ENTRIES = ("xx", "xy", "xz", "yy", "yz", "zz")
_FULL = ("xx", "yy", "zz", "xy", "xz", "yz")
_ORIENTATIONS = ("euler", "axisangle", "xyaxes", "zaxis")
_ROUNDING = 1e-15


def links_of_file(root: Element) -> dict[str, Element]:
    """The links of a URDF, or the bodies of an MJCF file, by name."""
    if root.tag == "robot":
        return {x.get("name"): x for x in root.all("link")}
    found: dict[str, Element] = {}
    stack = list(root.children)
    while stack:
        element = stack.pop()
        if element.tag == "body" and "name" in element.attributes:
            found[element.get("name")] = element
        stack += element.children
    return found


def inertial_changes(link: Element, old: Inertia, new: Inertia) -> Iterator[Change]:
    """The changes that give a link of a file another inertia; both are about its own origin."""
    read = _in_urdf if link.tag == "link" else _in_mjcf
    for tag, attribute, text in read(link, old, new):
        yield Change(link.tag, link.get("name"), tag, attribute, text)


def _given(element: Element | None, attribute: str) -> str:
    return element.attributes.get(attribute, "") if element else ""


def _differs(text: str, values: Sequence[float], scale: float) -> bool:
    """Whether a text says other numbers than these, but for the rounding of their size."""
    given = [float(x) for x in text.split()]
    return len(given) != len(values) or any(
        abs(a - b) > _ROUNDING * scale for a, b in zip(given, values, strict=True)
    )


def _in_urdf(link: Element, _: Inertia, new: Inertia) -> Iterator[tuple[str, str, str]]:
    inertial, c = link.first("inertial"), new.com
    origin, mass, entries = (
        inertial.first(tag) if inertial else None for tag in ("origin", "mass", "inertia")
    )
    if _differs(_given(origin, "xyz") or "0 0 0", list(c), max(map(abs, c))):
        yield "inertial/origin", "xyz", numbers(settled(c))
    if _differs(_given(mass, "value"), [new.mass], new.mass):
        yield "inertial/mass", "value", number(new.mass)
    axes = inertial.origin().R if inertial else Mat3.identity()
    tensor, scale = new.tensor_at_com.rotated(axes.T), max(map(abs, new.I))
    for entry in _ENTRIES:
        x = getattr(tensor, entry)
        if _differs(_given(entries, f"i{entry}"), [x], scale):
            yield "inertial/inertia", f"i{entry}", numbers(settled([x], scale))


def _in_mjcf(body: Element, old: Inertia, new: Inertia) -> Iterator[tuple[str, str, str]]:
    inertial, c, scale = body.first("inertial"), new.com, max(map(abs, new.I))
    if _differs(_given(inertial, "pos"), list(c), max(map(abs, c))):
        yield "inertial", "pos", numbers(settled(c))
    if _differs(_given(inertial, "mass"), [new.mass], new.mass):
        yield "inertial", "mass", number(new.mass)
    tensor = new.tensor_at_com
    turned = max(abs(x) for x in old.tensor_at_com - tensor) > 1e-14 * scale
    if _given(inertial, "fullinertia"):
        if turned:
            full = [getattr(tensor, entry) for entry in _FULL]
            yield "inertial", "fullinertia", numbers(settled(full, scale))
    elif turned or inertial is None:
        yield from _by_moments(body, inertial, new, scale)


def _by_moments(
    body: Element, inertial: Element | None, new: Inertia, scale: float
) -> Iterator[tuple[str, str, str]]:
    """A tensor by moments about axes: those of the file if they fit, else the nearest that do."""
    for key in _ORIENTATIONS:
        if _given(inertial, key):
            raise body.error(
                f"its <inertial> is turned by {key}, which cannot be kept when the tensor changes; "
                "write that as quat, or the tensor as fullinertia"
            )
    w, x, y, z = (float(c) for c in (_given(inertial, "quat") or "1 0 0 0").split())
    axes = rotation_from_quaternion(x, y, z, w)
    tensor = new.tensor_at_com.rotated(axes.T)
    moments = [tensor.xx, tensor.yy, tensor.zz]
    if max(abs(tensor.xy), abs(tensor.xz), abs(tensor.yz)) > _ROUNDING * scale:
        moments, axes = _nearest(new, axes)
        yield "inertial", "quat", numbers(quaternion_of(axes))
    yield "inertial", "diaginertia", numbers(capped(settled(moments, scale)))


def _nearest(inertia: Inertia, axes: Mat3) -> tuple[list[float], Mat3]:
    """Principal moments and axes in the order and directions nearest to axes that are given."""
    moments, found = np.linalg.eigh([list(row) for row in inertia.tensor_at_com.rows])
    given = np.array([list(row) for row in axes])
    along = given.T @ found
    order = list(max(itertools.permutations(range(3)), key=lambda p: sum(abs(along[range(3), p]))))
    turned = found[:, order] * np.where(along[range(3), order] < 0, -1.0, 1.0)
    return moments[order].tolist(), Mat3(*(Vec3(*row) for row in turned.tolist()))
