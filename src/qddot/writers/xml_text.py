"""Numbers, rotations and elements as XML text; numbers read back exactly."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from xml.etree import ElementTree

from qddot.errors import InvalidArgument
from qddot.spatial.algebra import Mat3, rotation_from_rpy
from qddot.spatial.manifold import quaternion_from_rotation

__all__ = [
    "Node",
    "add_element",
    "document_text",
    "format_number",
    "format_numbers",
    "format_rounded",
    "quaternion_text",
    "round_noise",
    "rpy_from_rotation",
    "unique_name",
]

Node = ElementTree.Element
_IDENTITY_QUATERNION = (1.0, 0.0, 0.0, 0.0)
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def format_number(x: float) -> str:
    """The shortest text that reads back as the same number."""
    return "0" if x == 0 else repr(float(x)).removesuffix(".0")


def format_numbers(values: Iterable[float]) -> str:
    """Numbers separated by spaces, each in the shortest text that reads back exactly."""
    return " ".join(format_number(x) for x in values)


def format_rounded(values: Iterable[float]) -> str:
    """Numbers rounded to nine digits, for geometry that the dynamics do not depend on."""
    return " ".join(format_number(float(f"{x:.9g}")) if abs(x) > 1e-12 else "0" for x in values)


def round_noise(values: Iterable[float], scale: float | None = None) -> list[float]:
    """Numbers with the rounding noise removed: rounded to 15 digits of a scale.

    The scale is the largest of them, unless it is given.
    """
    listed = list(values)
    size = max(map(abs, listed)) if scale is None else scale
    digits = 15 - math.ceil(math.log10(size)) if size > 0 else 15
    return [round(x, digits) for x in listed]


def rpy_from_rotation(R: Mat3) -> tuple[float, float, float]:
    """Roll, pitch and yaw with R = Rz(yaw) Ry(pitch) Rx(roll).

    Roll is that of Rᵀ(yaw, pitch) R, so that the three together give R to rounding where the pitch
    is a quarter turn too.
    """
    yaw = math.atan2(R.b.x, R.a.x)
    pitch = math.atan2(-R.c.x, math.hypot(R.a.x, R.b.x))
    rest = rotation_from_rpy(0.0, pitch, yaw).T @ R
    return math.atan2(rest.c.y, rest.b.y), pitch, yaw


def quaternion_text(
    R: Mat3, format_values: Callable[[Iterable[float]], str] = format_numbers
) -> str | None:
    """The quaternion of a rotation as MJCF writes it; None for the identity, its default."""
    quaternion = quaternion_from_rotation(R)
    return format_values(quaternion) if quaternion != _IDENTITY_QUATERNION else None


def add_element(parent: Node, tag: str, **attributes: str | None) -> Node:
    """Append an element to another; attributes that are None are left out."""
    present = {key: text for key, text in attributes.items() if text is not None}
    for text in present.values():
        _check_characters(text)
    return ElementTree.SubElement(parent, tag, present)


def _check_characters(text: str) -> None:
    """Refuse characters that no XML document can have."""
    found = _FORBIDDEN.search(text)
    if found:
        accepted = f"XML cannot hold the character {found[0]!r}; rename the element"
        raise InvalidArgument("name", text, accepted)


def document_text(root: Node, comment: str) -> str:
    """The text of an XML document with a comment at its head."""
    for text in root.attrib.values():
        _check_characters(text)
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    remark = _FORBIDDEN.sub("?", comment).replace("--", "- -")
    return f'<?xml version="1.0" encoding="utf-8"?>\n<!-- {remark} -->\n{body}\n'


def unique_name(name: str, taken: set[str]) -> str:
    """The name, with underscores appended until it is not among those taken; adds it to them."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name
