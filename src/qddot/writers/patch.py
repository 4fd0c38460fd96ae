"""Numbers changed in the text of an XML file, every other byte kept: comments, order, white space.

Elements are found by expat, which says at which byte each begins; only values of attributes are
replaced. An attribute or element that is missing is added, in the manner of its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from qddot.errors import DescriptionError, UnknownName
from qddot.writers.xml_text import format_number, format_numbers

__all__ = ["Change", "patch_values"]

_ATTRIBUTE = re.compile(rb"""([^\s=<>/"']+)\s*=\s*("[^"]*"|'[^']*')""")
_PARENTS = ("robot", "model", "body", "worldbody", "frame", "mujocoinclude", "replicate")
"""Elements below which a name is that of a definition."""
_Edit = tuple[int, int, bytes]
"""First byte and end of a replacement, and its content."""


@dataclass(frozen=True)
class Change:
    """A value to write: attribute of `tag` below the element `kind` of that name.

    `kind` is "link", "joint" or "body"; `tag` a path such as "inertial/mass", or "" for an
    attribute of the element itself. Numbers are written with the digits that give them back.
    """

    kind: str
    name: str
    tag: str
    attribute: str
    value: float | str | Sequence[float]

    @property
    def text(self) -> str:
        """The value as it stands in the file."""
        if isinstance(self.value, str):
            return self.value
        if isinstance(self.value, float | int):
            return format_number(self.value)
        return format_numbers(self.value)


@dataclass
class _Node:
    """An element with the bytes of its start tag, children and where its content ends."""

    tag: str
    attributes: dict[str, str]
    start: int
    stop: int
    parent: _Node | None = None
    end: int = 0
    children: list[_Node] = field(default_factory=list)

    def walk_tree(self) -> Iterator[_Node]:
        """This element and all below it."""
        yield self
        for child in self.children:
            yield from child.walk_tree()


def patch_values(text: str, changes: Sequence[Change]) -> str:
    """The text with these values in place; all else is as it was."""
    content = text.encode()
    root = _parse_positions(content)
    # values by element, then by path below it and attribute
    wanted: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    for c in changes:
        paths = wanted.setdefault((c.kind, c.name), {})
        paths.setdefault(c.tag, {})[c.attribute] = c.text
    edits: list[_Edit] = []
    for (kind, name), values in wanted.items():
        # the element that defines this name; other parents only refer to it, as transmissions do
        tags = ("joint", "freejoint", "drake:joint") if kind == "joint" else (kind,)
        named = {
            x.attributes["name"]: x for x in reversed([*root.walk_tree()])
            if x.tag in tags and "name" in x.attributes and x.parent and x.parent.tag in _PARENTS
        }  # fmt: skip
        if name not in named:
            raise UnknownName(f"<{kind}>", name, [*reversed(named)])
        edits += _element_edits(content, named[name], values)
    # from the end of the text to its start, so that positions stay valid
    for start, stop, new in sorted(edits, key=lambda e: e[0], reverse=True):
        content = content[:start] + new + content[stop:]
    return content.decode()


def _parse_positions(content: bytes) -> _Node:
    """The elements of a document with the positions of their bytes."""
    # the bytes are ours, whatever encoding the document says it has
    parser = expat.ParserCreate("utf-8")
    top = _Node("", {}, 0, 0)
    stack = [top]

    def start_element(tag: str, attributes: dict[str, str]) -> None:
        start = at = parser.CurrentByteIndex
        # the end of the start tag is its first > outside of quotes
        quote = 0
        while content[at] != ord(">") or quote:
            c = content[at]
            if quote:
                quote = 0 if c == quote else quote
            elif c in b"\"'":
                quote = c
            at += 1
        node = _Node(tag, attributes, start, at + 1, stack[-1])
        stack[-1].children.append(node)
        stack.append(node)

    def end_element(_: str) -> None:
        stack.pop().end = parser.CurrentByteIndex

    parser.StartElementHandler, parser.EndElementHandler = start_element, end_element
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        reason = f"is not well-formed XML: {expat.ErrorString(error.code)}"
        raise DescriptionError("text", reason, line=error.lineno) from error
    return top


def _element_edits(
    content: bytes, element: _Node, wanted: Mapping[str, Mapping[str, str]]
) -> Iterator[_Edit]:
    """The replacements that give an element and those below it their values."""
    tag = content[element.start : element.stop]
    spans = {m[1].decode(): m.span(2) for m in _ATTRIBUTE.finditer(tag, len(element.tag) + 1)}
    values = wanted.get("", {})
    # attributes that exist get other values
    for name, value in values.items():
        if name in spans:
            first, last = spans[name]
            safe = escape(value, {'"': "&quot;", "'": "&apos;"})
            yield element.start + first + 1, element.start + last - 1, safe.encode()
    # others are added at the end of the start tag
    added = {k: v for k, v in values.items() if k not in spans}
    if added:
        close = element.stop - (2 if tag.endswith(b"/>") else 1)
        at = element.start + len(content[element.start : close].rstrip())
        yield at, at, "".join(f" {k}={quoteattr(v)}" for k, v in added.items()).encode()
    # elements below: edited where they exist, else inserted
    missing: dict[str, Mapping[str, Mapping[str, str]]] = {}
    for head, deeper in _group_by_head(wanted).items():
        below = next((c for c in element.children if c.tag == head), None)
        if below is None:
            missing[head] = deeper
        else:
            yield from _element_edits(content, below, deeper)
    if not missing:
        return
    # new elements go first, indented as the others are
    margin = _margin_at(content, element.start)
    inner = _margin_at(content, element.children[0].start) if element.children else margin + "  "
    text = "".join(f"\n{inner}{_element_text(t, v, inner)}" for t, v in missing.items())
    if tag.endswith(b"/>"):
        yield element.stop - 2, element.stop, f">{text}\n{margin}</{element.tag}>".encode()
    elif content[element.stop : element.end].strip():
        yield element.stop, element.stop, text.encode()
    else:
        yield element.stop, element.end, f"{text}\n{margin}".encode()


def _margin_at(content: bytes, position: int) -> str:
    """The white space before an element on its line."""
    line = content[content.rfind(b"\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip())].decode()


def _group_by_head(
    wanted: Mapping[str, Mapping[str, str]],
) -> dict[str, dict[str, Mapping[str, str]]]:
    """The values of elements below, by the first tag of their path."""
    below: dict[str, dict[str, Mapping[str, str]]] = {}
    for path, values in wanted.items():
        head, _, rest = path.partition("/")
        if head:
            below.setdefault(head, {})[rest] = values
    return below


def _element_text(tag: str, values: Mapping[str, Mapping[str, str]], margin: str) -> str:
    """A missing element as text, with the attributes and elements that it needs."""
    own = "".join(f" {k}={quoteattr(v)}" for k, v in values.get("", {}).items())
    below = _group_by_head(values)
    if not below:
        return f"<{tag}{own}/>"
    inside = "".join(f"\n{margin}  {_element_text(k, v, margin + '  ')}" for k, v in below.items())
    return f"<{tag}{own}>{inside}\n{margin}</{tag}>"
