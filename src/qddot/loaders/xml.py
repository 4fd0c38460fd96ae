"""Reading XML from strangers: elements with their line, no entities, bounded in size and depth."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from qddot.errors import DescriptionError
from qddot.spatial import Transform, Vec3, rotation_from_rpy

__all__ = ["Element", "parse_xml", "read_file"]

_MOST_BYTES = 64 * 2**20
_DEEPEST = 200


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
        """How messages call this element."""
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

    def numbers(self, text: str, count: int) -> list[float]:
        """So many finite numbers from a text."""
        try:
            values = [float(x) for x in text.split()]
        except ValueError:
            raise self.error(f"{text!r} is not a list of numbers") from None
        if len(values) != count:
            raise self.error(f"needs {count} numbers, got {text!r}")
        if not all(math.isfinite(x) for x in values):
            raise self.error(f"{text!r} is not finite")
        return values

    def number(self, attribute: str, default: float | None = None) -> float:
        """A number from an attribute, which must exist unless there is a default."""
        if default is not None and attribute not in self.attributes:
            return default
        return self.numbers(self.get(attribute), 1)[0]

    def vector(self, attribute: str, default: Vec3 | None = None) -> Vec3:
        """Three numbers from an attribute."""
        if default is not None and attribute not in self.attributes:
            return default
        return Vec3(*self.numbers(self.get(attribute), 3))

    def origin(self) -> Transform:
        """The pose of an <origin xyz rpy> child; identity without one."""
        origin = self.first("origin")
        if origin is None:
            return Transform.identity()
        rpy = origin.vector("rpy", Vec3.zero())
        return Transform(rotation_from_rpy(*rpy), origin.vector("xyz", Vec3.zero()))

    def unit(self, axis: Vec3) -> Vec3:
        """An axis scaled to unit length."""
        length = math.sqrt(axis.dot(axis))
        if length < 1e-9:
            raise self.error("its axis has no length")
        return axis * (1.0 / length)


def read_file(path: Path) -> bytes:
    """The content of a file that is not absurdly large."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise DescriptionError(path, f"is larger than {_MOST_BYTES // 2**20} MiB")
        return path.read_bytes()
    except OSError as error:
        raise DescriptionError(path, f"cannot be read: {error.strerror}") from error


def parse_xml(content: bytes, file: str) -> Element:
    """The root element of an XML document."""
    parser = expat.ParserCreate()
    stack = [Element("", {}, file, 0)]

    def here(reason: str) -> DescriptionError:
        return DescriptionError(file, reason, line=parser.CurrentLineNumber)

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(stack) > _DEEPEST:
            raise here(f"elements are nested deeper than {_DEEPEST}")
        element = Element(tag, attributes, file, parser.CurrentLineNumber)
        stack[-1].children.append(element)
        stack.append(element)

    def end(_: str) -> None:
        stack.pop()

    def text(data: str) -> None:
        stack[-1].text += data

    def entity(*_: object) -> None:
        raise here("declares XML entities, which are refused")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    parser.EntityDeclHandler = entity
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        reason = f"is not well-formed XML: {expat.ErrorString(error.code)}"
        raise DescriptionError(file, reason, line=error.lineno) from error
    return stack[0].children[0]
