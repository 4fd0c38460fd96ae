"""The numbers of an <inertial> that give a link an inertia, in the axes that the file has."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from qddot.errors import Unsupported
from qddot.loaders.formats import detect_format
from qddot.loaders.urdf_document import read_urdf_document
from qddot.loaders.xml import Element
from qddot.spatial.algebra import Inertia, Mat3, Vec3, rotation_from_quaternion
from qddot.spatial.manifold import quaternion_from_rotation
from qddot.writers.patch import Change
from qddot.writers.principal_moments import cap_moments
from qddot.writers.xml_text import format_number, format_numbers, round_noise

__all__ = ["inertial_changes", "links_of_file"]

_URDF_ENTRIES = ("xx", "xy", "xz", "yy", "yz", "zz")
_MJCF_ENTRIES = ("xx", "yy", "zz", "xy", "xz", "yz")
_ORIENTATIONS = ("euler", "axisangle", "xyaxes", "zaxis")
_ROUNDING = 1e-15


def links_of_file(root: Element) -> dict[str, Element]:
    """The links of a URDF, or the bodies of an MJCF file, by name."""
    form = detect_format(root)
    if form.name == "urdf":
        return read_urdf_document(root).links_by_name
    if form.name != "mjcf":
        raise Unsupported("format", form.title, "links of URDF and bodies of MJCF can be patched")
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
    urdf = link.tag == "link"
    values = _urdf_values(link, new) if urdf else _mjcf_values(link, old, new)
    for tag, attribute, text in values:
        yield Change(link.tag, link.get("name"), tag, attribute, text)


def _attribute_text(element: Element | None, attribute: str) -> str:
    return element.attributes.get(attribute, "") if element else ""


def _differs(text: str, values: Sequence[float], scale: float) -> bool:
    """Whether a text has other numbers than these, but for the rounding of their scale."""
    written = [float(x) for x in text.split()]
    return len(written) != len(values) or any(
        abs(a - b) > _ROUNDING * scale for a, b in zip(written, values, strict=True)
    )


def _urdf_values(link: Element, new: Inertia) -> Iterator[tuple[str, str, str]]:
    """Tag, attribute and text of the numbers that differ: centre of mass, mass, tensor entries."""
    inertial, c = link.first("inertial"), new.com
    origin, mass, entries = (
        inertial.first(tag) if inertial else None for tag in ("origin", "mass", "inertia")
    )
    if _differs(_attribute_text(origin, "xyz") or "0 0 0", list(c), max(map(abs, c))):
        yield "inertial/origin", "xyz", format_numbers(round_noise(c))
    if _differs(_attribute_text(mass, "value"), [new.mass], new.mass):
        yield "inertial/mass", "value", format_number(new.mass)
    # the tensor is in the axes of <origin>, which stay
    axes = inertial.origin().R if inertial else Mat3.identity()
    tensor, scale = new.tensor_at_com.rotate(axes.T), max(map(abs, new.I))
    for entry in _URDF_ENTRIES:
        x = getattr(tensor, entry)
        if _differs(_attribute_text(entries, f"i{entry}"), [x], scale):
            yield "inertial/inertia", f"i{entry}", format_numbers(round_noise([x], scale))


def _mjcf_values(body: Element, old: Inertia, new: Inertia) -> Iterator[tuple[str, str, str]]:
    """Tag, attribute and text of the numbers that differ: pos, mass, fullinertia or moments."""
    inertial, c, scale = body.first("inertial"), new.com, max(map(abs, new.I))
    if _differs(_attribute_text(inertial, "pos"), list(c), max(map(abs, c))):
        yield "inertial", "pos", format_numbers(round_noise(c))
    if _differs(_attribute_text(inertial, "mass"), [new.mass], new.mass):
        yield "inertial", "mass", format_number(new.mass)
    tensor = new.tensor_at_com
    changed = max(abs(x) for x in old.tensor_at_com - tensor) > 1e-14 * scale
    full = bool(_attribute_text(inertial, "fullinertia"))
    if full and changed:
        entries = [getattr(tensor, entry) for entry in _MJCF_ENTRIES]
        yield "inertial", "fullinertia", format_numbers(round_noise(entries, scale))
    if full or not (changed or inertial is None):
        return
    # moments about axes: those of the file if they are principal, else the nearest that are
    for key in _ORIENTATIONS:
        if _attribute_text(inertial, key):
            raise body.error(
                f"its <inertial> is turned by {key}, which cannot be kept when the tensor changes; "
                "write that as quat, or the tensor as fullinertia"
            )
    w, x, y, z = (float(c) for c in (_attribute_text(inertial, "quat") or "1 0 0 0").split())
    axes = rotation_from_quaternion(x, y, z, w)
    turned = tensor.rotate(axes.T)
    moments = [turned.xx, turned.yy, turned.zz]
    if max(abs(turned.xy), abs(turned.xz), abs(turned.yz)) > _ROUNDING * scale:
        # principal axes in the order and directions nearest to those of the file
        principal, found = np.linalg.eigh([list(row) for row in tensor.rows])
        along = np.array([list(row) for row in axes]).T @ found
        orders = itertools.permutations(range(3))
        order = list(max(orders, key=lambda p: sum(abs(along[range(3), p]))))
        nearest = found[:, order] * np.where(along[range(3), order] < 0, -1.0, 1.0)
        moments, axes = principal[order].tolist(), Mat3(*(Vec3(*r) for r in nearest.tolist()))
        yield "inertial", "quat", format_numbers(quaternion_from_rotation(axes))
    yield "inertial", "diaginertia", format_numbers(cap_moments(round_noise(moments, scale)))
