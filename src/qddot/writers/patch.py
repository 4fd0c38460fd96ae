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
from qddot.writers.markup import number, numbers

__all__ = ["Change", "patch_values"]

_ATTRIBUTE = re.compile(rb"""([^\s=<>/"']+)\s*=\s*("[^"]*"|'[^']*')""")


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
            return number(self.value)
        return numbers(self.value)


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

    def walk(self) -> Iterator[_Node]:
        """This element and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def patch_values(text: str, changes: Sequence[Change]) -> str:
    """The text with these values in place; all else is as it was."""
    content = text.encode()
    root = _parsed(content)
    edits: list[tuple[int, int, bytes]] = []
    for (kind, name), wanted in _by_element(changes).items():
        edits += _edits(content, _named(root, kind, name), wanted)
    for start, stop, new in sorted(edits, key=lambda e: e[0], reverse=True):
        content = content[:start] + new + content[stop:]
    return content.decode()


def _by_element(changes: Sequence[Change]) -> dict[tuple[str, str], dict[str, dict[str, str]]]:
    """Attribute values by element and by tag below it."""
    found: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    for c in changes:
        tags = found.setdefault((c.kind, c.name), {})
        tags.setdefault(c.tag, {})[c.attribute] = c.text
    return found


def _parsed(content: bytes) -> _Node:
    """The elements of a document and where each stands."""
    # the bytes are ours, whatever encoding the document says it has
    parser = expat.ParserCreate("utf-8")
    top = _Node("", {}, 0, 0)
    stack = [top]

    def start(tag: str, attributes: dict[str, str]) -> None:
        at = parser.CurrentByteIndex
        node = _Node(tag, attributes, at, _tag_end(content, at), stack[-1])
        stack[-1].children.append(node)
        stack.append(node)

    def end(_: str) -> None:
        stack.pop().end = parser.CurrentByteIndex

    parser.StartElementHandler, parser.EndElementHandler = start, end
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        reason = f"is not well-formed XML: {expat.ErrorString(error.code)}"
        raise DescriptionError("text", reason, line=error.lineno) from error
    return top


def _tag_end(content: bytes, start: int) -> int:
    """Just after the > of a start tag; values may hold one too."""
    at, quote = start, 0
    while content[at] != ord(">") or quote:
        c = content[at]
        if quote:
            quote = 0 if c == quote else quote
        elif c in b"\"'":
            quote = c
        at += 1
    return at + 1


def _named(root: _Node, kind: str, name: str) -> _Node:
    """The element that defines a link, joint or body of this name."""
    kinds = ("joint", "freejoint", "drake:joint") if kind == "joint" else (kind,)
    nodes = [x for x in root.walk() if x.tag in kinds and _defines(x)]
    for node in nodes:
        if node.attributes.get("name") == name:
            return node
    raise UnknownName(f"<{kind}>", name, [x.attributes["name"] for x in nodes])


def _defines(node: _Node) -> bool:
    """Whether an element defines what it names, and does not refer to it (as transmissions do)."""
    above = node.parent.tag if node.parent else ""
    places = ("robot", "model", "body", "worldbody", "frame", "mujocoinclude", "replicate")
    return "name" in node.attributes and above in places


def _edits(
    content: bytes, element: _Node, wanted: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[int, int, bytes]]:
    """The replacements that give an element and those below it their values."""
    yield from _attribute_edits(content, element, wanted.get("", {}))
    missing: dict[str, Mapping[str, Mapping[str, str]]] = {}
    for head, deeper in _by_head(wanted).items():
        below = next((c for c in element.children if c.tag == head), None)
        if below is None:
            missing[head] = deeper
        else:
            yield from _edits(content, below, deeper)
    if missing:
        yield _insertion(content, element, missing)


def _by_head(wanted: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, Mapping[str, str]]]:
    """What is wanted below, by the first tag of its path."""
    below: dict[str, dict[str, Mapping[str, str]]] = {}
    for path, values in wanted.items():
        head, _, rest = path.partition("/")
        if head:
            below.setdefault(head, {})[rest] = values
    return below


def _attribute_edits(
    content: bytes, node: _Node, values: Mapping[str, str]
) -> Iterator[tuple[int, int, bytes]]:
    tag = content[node.start : node.stop]
    spans = {m[1].decode(): m.span(2) for m in _ATTRIBUTE.finditer(tag, len(node.tag) + 1)}
    for name, value in values.items():
        if name in spans:
            first, last = spans[name]
            safe = escape(value, {'"': "&quot;", "'": "&apos;"})
            yield node.start + first + 1, node.start + last - 1, safe.encode()
    added = {k: v for k, v in values.items() if k not in spans}
    if added:
        close = node.stop - (2 if tag.endswith(b"/>") else 1)
        at = node.start + len(content[node.start : close].rstrip())
        yield at, at, "".join(f" {k}={quoteattr(v)}" for k, v in added.items()).encode()


def _insertion(
    content: bytes, node: _Node, missing: Mapping[str, Mapping[str, Mapping[str, str]]]
) -> tuple[int, int, bytes]:
    """Elements that do not exist, put first in an element, indented as its own children are."""
    margin = _margin(content, node.start)
    inner = _margin(content, node.children[0].start) if node.children else margin + b"  "
    text = "".join(
        "\n" + inner.decode() + _written(tag, values, inner.decode())
        for tag, values in missing.items()
    )
    if content[node.start : node.stop].endswith(b"/>"):
        closing = f">{text}\n{margin.decode()}</{node.tag}>"
        return node.stop - 2, node.stop, closing.encode()
    if content[node.stop : node.end].strip():
        return node.stop, node.stop, text.encode()
    return node.stop, node.end, f"{text}\n{margin.decode()}".encode()


def _margin(content: bytes, at: int) -> bytes:
    """The white space before an element on its line."""
    line = content[content.rfind(b"\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _written(tag: str, values: Mapping[str, Mapping[str, str]], margin: str) -> str:
    """A missing element as text, with the attributes and elements that it needs."""
    own = "".join(f" {k}={quoteattr(v)}" for k, v in values.get("", {}).items())
    below = _by_head(values)
    if not below:
        return f"<{tag}{own}/>"
    inside = "".join(f"\n{margin}  {_written(k, v, margin + '  ')}" for k, v in below.items())
    return f"<{tag}{own}>{inside}\n{margin}</{tag}>"
