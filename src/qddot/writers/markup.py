"""Numbers, rotations and elements as description files write them; numbers read back exactly."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from xml.etree import ElementTree

from qddot.errors import NotUnderstood
from qddot.spatial import Mat3, rotation_from_rpy

__all__ = [
    "Node",
    "child",
    "document",
    "number",
    "numbers",
    "quaternion_of",
    "rounded",
    "rpy_of",
    "settled",
    "turn_of",
    "unique",
]

Node = ElementTree.Element
_UNTURNED = (1.0, 0.0, 0.0, 0.0)
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def number(x: float) -> str:
    """The shortest text that reads back as the same number."""
    return "0" if x == 0 else repr(float(x)).removesuffix(".0")


def numbers(values: Iterable[float]) -> str:
    """Numbers with spaces between."""
    return " ".join(number(x) for x in values)


def settled(values: Iterable[float], scale: float | None = None) -> list[float]:
    """Numbers computed from larger ones of a size: what is only rounding is rounded away.

    The size is that of the largest of them, unless it is given.
    """
    listed = list(values)
    size = max(map(abs, listed)) if scale is None else scale
    digits = 15 - math.ceil(math.log10(size)) if size > 0 else 15
    return [round(x, digits) for x in listed]


def rounded(values: Iterable[float]) -> str:
    """Numbers that only looks depend on."""
    return " ".join(number(float(f"{x:.9g}")) if abs(x) > 1e-12 else "0" for x in values)


def rpy_of(R: Mat3) -> tuple[float, float, float]:
    """Roll, pitch and yaw with R = Rz(yaw) Ry(pitch) Rx(roll).

    Roll is taken from what yaw and pitch leave of R, so that the three together give R to rounding
    where the pitch is a quarter turn too.
    """
    yaw = math.atan2(R.b.x, R.a.x)
    pitch = math.atan2(-R.c.x, math.hypot(R.a.x, R.b.x))
    rest = rotation_from_rpy(0.0, pitch, yaw).T @ R
    return math.atan2(rest.c.y, rest.b.y), pitch, yaw


def quaternion_of(R: Mat3) -> tuple[float, float, float, float]:
    """The unit quaternion (w, x, y, z) of a rotation, with w not negative."""
    if Mat3.identity() == R:
        return _UNTURNED
    # scipy takes a tenth of a second to import
    from scipy.spatial.transform import Rotation

    x, y, z, w = Rotation.from_matrix([list(row) for row in R]).as_quat().tolist()
    sign = math.copysign(1.0, w)
    return (w * sign, x * sign, y * sign, z * sign)


def turn_of(R: Mat3, texts: Callable[[Iterable[float]], str] = numbers) -> str | None:
    """The quaternion of a rotation as MJCF writes it; None for the identity, its default."""
    turn = quaternion_of(R)
    return texts(turn) if turn != _UNTURNED else None


def child(parent: Node, tag: str, **attributes: str | None) -> Node:
    """A new element inside another; attributes that are None are left out."""
    given = {key: text for key, text in attributes.items() if text is not None}
    for text in given.values():
        _check(text)
    return ElementTree.SubElement(parent, tag, given)


def _check(text: str) -> None:
    found = _FORBIDDEN.search(text)
    if found:
        accepted = f"XML cannot hold the character {found[0]!r}; rename the element"
        raise NotUnderstood("name", text, accepted)


def document(root: Node, comment: str) -> str:
    """The text of an XML document with a comment at its head."""
    for text in root.attrib.values():
        _check(text)
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    remark = _FORBIDDEN.sub("?", comment).replace("--", "- -")
    return f'<?xml version="1.0" encoding="utf-8"?>\n<!-- {remark} -->\n{body}\n'


def unique(name: str, taken: set[str]) -> str:
    """The name, with underscores after it until nothing else has it; it is then taken."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name
