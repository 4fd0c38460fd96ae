"""Reading XML from strangers: elements with their line, no entities, bounded in size and depth."""

from __future__ import annotations

import math
import re
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from qddot.errors import DescriptionError, control_character, count_text
from qddot.loaders.opened import note_opened
from qddot.spatial.algebra import Transform, Vec3, rotation_from_rpy

__all__ = ["DEEPEST", "Element", "blank_elements", "parse_xml", "read_file", "whole_degrees"]

_MOST_BYTES = 64 * 2**20
DEEPEST = 200
_MOST_ELEMENTS = 500_000
_LARGEST = 1e12
_UNLIMITED = 1e16
_ROUNDED = 5e-11
"""How far ten decimals of an angle may be from it."""
_NOISE = 2e-14
"""How far arithmetic in double precision takes an angle from the one that was meant."""


@dataclass
class Element:
    """An XML element: tag (prefix kept), attributes, children, text, and where it stands."""

    tag: str
    attributes: dict[str, str]
    file: str
    line: int
    children: list[Element] = field(default_factory=list)
    text: str = ""

    @property
    def label(self) -> str:
        """The name of this element in messages."""
        name = self.attributes.get("name")
        return f"<{self.tag}>" if name is None else f"{self.tag} {name!r}"

    def error(self, reason: str) -> DescriptionError:
        """An error at this element."""
        return DescriptionError(self.file, reason, self.label, self.line)

    def all(self, *tags: str) -> Iterator[Element]:
        """Children with one of these tags."""
        return (child for child in self.children if child.tag in tags)

    def first(self, tag: str) -> Element | None:
        """The first child with this tag."""
        return next(self.all(tag), None)

    def need(self, tag: str) -> Element:
        """The first child with this tag, which must exist."""
        child = self.first(tag)
        if child is None:
            raise self.error(f"has no <{tag}>")
        return child

    def get(self, attribute: str) -> str:
        """An attribute, which must exist."""
        try:
            return self.attributes[attribute]
        except KeyError:
            raise self.error(f"has no attribute {attribute!r}") from None

    def numbers(self, text: str, count: int, what: str = "") -> list[float]:
        """`count` finite numbers of a sane size from a text; `what` names it in messages."""
        given = f"{what}={_shorten_text(text)}" if what else _shorten_text(text)
        try:
            values = [_parse_number(x) for x in text.split()]
        except ValueError:
            kind = "a number" if count == 1 else "a list of numbers"
            raise self.error(f"{given} is not {kind}") from None
        if len(values) != count:
            needed = "one number" if count == 1 else f"{count} numbers"
            raise self.error(f"{given} has {count_text(len(values), 'number')}, needs {needed}")
        if not all(math.isfinite(x) for x in values):
            raise self.error(f"{given} is not finite")
        if any(abs(x) > _LARGEST for x in values):
            raise self.error(f"{given} is absurdly large")
        return values

    def number(self, attribute: str, default: float | None = None) -> float:
        """A number from an attribute, which must exist unless there is a default."""
        if default is not None and attribute not in self.attributes:
            return default
        return self.numbers(self.get(attribute), 1, attribute)[0]

    def number_as_written(self, attribute: str, default: float) -> float:
        """A number as it stands in an attribute, NaN where that is none; nothing is refused."""
        try:
            return float(self.attributes.get(attribute, default))
        except ValueError:
            return math.nan

    def vector_as_written(self, attribute: str) -> tuple[float, ...]:
        """Three numbers as they stand, NaN where they are none; zeros without the attribute."""
        try:
            values = tuple(float(x) for x in self.attributes.get(attribute, "0 0 0").split())
        except ValueError:
            values = ()
        return values if len(values) == 3 else (math.nan,) * 3

    def read_limit(self, attribute: str, default: float) -> float:
        """A limit from an attribute: infinite from 1e16 on, as in SDF, and where there is none."""
        text = self.attributes.get(attribute)
        if text is None:
            return default
        try:
            value = _parse_number(text)
        except ValueError:
            value = math.nan
        if math.isnan(value):
            raise self.error(f"{attribute}={_shorten_text(text)} is not a number")
        return math.copysign(math.inf, value) if abs(value) >= _UNLIMITED else value

    def vector(self, attribute: str, default: Vec3 | None = None) -> Vec3:
        """Three numbers from an attribute."""
        if default is not None and attribute not in self.attributes:
            return default
        return Vec3(*self.numbers(self.get(attribute), 3, attribute))

    def origin(self) -> Transform:
        """The pose of an <origin xyz rpy> child; identity without one."""
        origin = self.first("origin")
        if origin is None:
            return Transform.identity()
        for attribute in origin.attributes.keys() - {"xyz", "rpy"}:
            raise origin.error(f"attribute {attribute!r} is not understood (xyz and rpy are)")
        texts = origin.attributes.get("rpy", "0 0 0").split()
        rpy = map(whole_degrees, origin.vector("rpy", Vec3.zero()), texts)
        return Transform(rotation_from_rpy(*rpy), origin.vector("xyz", Vec3.zero()))

    def unit(self, axis: Vec3) -> Vec3:
        """An axis scaled to unit length."""
        length = math.sqrt(axis.dot(axis))
        if length < 1e-9:
            raise self.error("its axis has no length")
        return axis * (1.0 / length)


def whole_degrees(angle: float, text: str) -> float:
    """An angle; whole degrees whose text is rounded to ten decimals or more are whole again.

    Files have 1.57079632679 for a right angle; axes that are meant to be parallel then are. A text
    whose digits say another angle is taken by its word, up to the noise of double precision.
    """
    near = math.radians(round(math.degrees(angle)))
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2]) - float(exponent or 0)
    unit = 10.0 ** min(-decimals, 0.0)
    off = abs(angle - near)
    return near if off <= _NOISE or (off < unit and off <= _ROUNDED) else angle


def _parse_number(text: str) -> float:
    """A number as XML files write it: Python's underscores and foreign digits are refused."""
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return float(text)


def _shorten_text(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def read_file(path: Path) -> bytes:
    """The content of a file that is not absurdly large."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise DescriptionError(path, "is not a file")
        if status.st_size > _MOST_BYTES:
            raise DescriptionError(path, f"is larger than {_MOST_BYTES // 2**20} MiB")
        content = path.read_bytes()
    except OSError as error:
        raise DescriptionError(path, f"cannot be read: {error.strerror}") from error
    note_opened(path)
    return content


def parse_xml(content: bytes, file: str) -> Element:
    """The root element of an XML document; blank lines may stand before its declaration."""
    begun = content.lstrip(b" \t\r\n")
    skipped = content[: len(content) - len(begun)].count(b"\n")
    parser = expat.ParserCreate()
    stack = [Element("", {}, file, 0)]
    pieces: list[list[str]] = [[]]
    count = 0

    def error_here(reason: str) -> DescriptionError:
        return DescriptionError(file, reason, line=skipped + parser.CurrentLineNumber)

    def start_element(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if len(stack) > DEEPEST:
            raise error_here(f"elements are nested deeper than {DEEPEST}")
        if count > _MOST_ELEMENTS:
            raise error_here(f"has more than {_MOST_ELEMENTS} elements")
        for attribute, value in attributes.items():
            if found := control_character(value, whitespace=attribute != "name"):
                raise error_here(f"<{tag}>: {attribute} has the control character {found}")
        element = Element(tag, attributes, file, skipped + parser.CurrentLineNumber)
        stack[-1].children.append(element)
        stack.append(element)
        pieces.append([])

    def end_element(_: str) -> None:
        element, content = stack.pop(), "".join(pieces.pop())
        if found := control_character(content, whitespace=True):
            raise error_here(f"<{element.tag}>: its text has the control character {found}")
        element.text = content

    def add_text(data: str) -> None:
        pieces[-1].append(data)

    def check_doctype(_: str, system: str | None, *__: object) -> None:
        if system is not None:
            raise error_here("refers to an external DTD, which is refused")

    def refuse_entity(*_: object) -> None:
        raise error_here("declares XML entities, which are refused")

    parser.StartElementHandler = start_element
    parser.EndElementHandler = end_element
    parser.CharacterDataHandler = add_text
    parser.EntityDeclHandler = refuse_entity
    parser.StartDoctypeDeclHandler = check_doctype
    try:
        parser.Parse(begun, True)
    except expat.ExpatError as error:
        reason = f"is not well-formed XML: {expat.ErrorString(error.code)}"
        raise DescriptionError(file, reason, line=skipped + error.lineno) from error
    except DescriptionError:
        raise
    except (LookupError, ValueError) as error:  # an encoding that Python or expat does not have
        raise DescriptionError(file, f"is not readable XML: {error}", line=1) from error
    return stack[0].children[0]


def blank_elements(content: bytes, tags: Collection[str]) -> bytes:
    """A well-formed document with spaces for the elements of these tags; lines stay in place."""
    parser = expat.ParserCreate()
    inside = begin = 0
    blanked = bytearray(content)

    def start_element(tag: str, _: object) -> None:
        nonlocal inside, begin
        if not inside and tag in tags:
            begin = parser.CurrentByteIndex
        inside += bool(inside or tag in tags)

    def end_element(tag: str) -> None:
        nonlocal inside
        if inside == 1:
            # where the end tag begins or, of an element without one, where it ends
            end = parser.CurrentByteIndex
            if content.startswith(b"</" + tag.encode(), end):
                end = content.index(b">", end) + 1
            blanked[begin:end] = re.sub(rb"[^\r\n]", b" ", content[begin:end])
        inside -= bool(inside)

    parser.StartElementHandler, parser.EndElementHandler = start_element, end_element
    parser.Parse(content, True)
    return bytes(blanked)
