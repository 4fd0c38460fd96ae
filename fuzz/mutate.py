"""Mutations of description files: of their bytes, and of their elements and attributes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from xml.sax.saxutils import quoteattr

from qddot.errors import QddotError
from qddot.loaders.xml import Element, parse_xml

__all__ = ["mutate_bytes", "mutate_structure"]

VALUES = (
    *("nan", "inf", "-inf", "1e308", "-1e308", "1e-320", "1e999", "0", "-0", "-1", "1", "1e16"),
    *("100000", "99999999", "2147483648", "4294967296", "-2147483649", "18446744073709551616"),
    *("%n", "%n%n%s%s", "%1000000d", "%", "", " ", "0 0 0", "0 0 0 0", "1e308 .7 0 0", "1 2"),
    *("nan nan nan", "inf 0 0", "1e200 1e200 1e200", "1 " * 3000, "x" * 20_000, "true", "false"),
    *("1_0", "0x10", "１２", "1.²", "²", "\x9b31m", "\x85", "\u202e", "\U0001f916", "é", "a::b"),
    *("../..", "/dev/zero", "/dev/stdin", "file:///dev/zero", "package://x/y", "__model__"),
    *("${1/0}", "${10**100}", "$(arg x)", "$(find x)", "$(env HOME)", "fixed", "free", "floating"),
    *("revolute", "planar", "ball", "universal", "screw", "hinge", "slide", "mesh", "sdf"),
)  # fmt: skip

MARKUP = (
    b"<", b">", b"</", b"/>", b"&", b"&amp;", b"&#x9b;", b"&#0;", b"<![CDATA[", b"]]>", b"<!--",
    b"-->", b"<?xml version='1.0' encoding='utf-16'?>", b"\xff\xfe", b"\xef\xbb\xbf", b"\x00",
    b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b'="%n"', b"<a>" * 300, b"<body/>" * 500, b'"', b"'",
    b"\xc2\x9b", b"1e308", b"nan", b"99999999", b"-", b".",
)  # fmt: skip

ELEMENTS = (
    '<size nkey="99999999"/>', '<size memory="900G"/>', '<size nuser_body="99999999"/>',
    '<replicate count="100000" offset="0 0 1"><body><geom size="1"/></body></replicate>',
    '<replicate count="300"><replicate count="300"><site/></replicate></replicate>',
    '<composite type="cable" count="90000 1 1" size="1"><geom size=".1"/></composite>',
    '<flexcomp type="grid" count="400 400 40" spacing="1 1 1" name="f" radius="1"/>',
    '<hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/>',
    '<texture name="t" type="2d" builtin="flat" width="100000" height="100000"/>',
    '<include file="self"/>', '<include file="/dev/zero"/>', '<freejoint/>', '<joint type="ball"/>',
    '<numeric name="n" size="999999999"/>', '<default class="%n"/>', '<attach model="x" body="y"/>',
    '<joint name="j" type="floating"><parent link="world"/><child link="x"/></joint>',
    '<key qpos="1"/>',
    '<mimic joint="j" multiplier="1e308"/>', '<frame name="f" attached_to="f"/>', "<freejoint/>",
    '<pose relative_to="f" rotation_format="quat_xyzw">0 0 0 1e-200 0 0 0</pose>', "<link/>",
    '<include><uri>file:///dev/zero</uri></include>', "<static>true</static>", '<link name="x"/>',
    '<inertial auto="true"/>', '<inertial pos="0 0 0" mass="1" quat="1e308 .7 0 0" '
    'diaginertia="1 1 1"/>', '<inertial><mass value="1e12"/><inertia ixx="1e-300" iyy="0" '
    'izz="nan"/></inertial>', '<xacro:m xmlns:xacro="x"/>', '<plugin name="%n" filename="%s"/>',
    '<model name="m" file="self"/>', '<attach model="m" body="b" prefix="p"/>',
    '<compiler meshdir="/etc"/>', '<include file="/etc/passwd"/>',
    '<include><uri>model://etc/passwd</uri></include>',
    '<visual><geometry><mesh filename="/dev/zero"/></geometry></visual>',
    '<mesh name="m" file="/dev/zero"/>', '<mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/>',
    '<weld body1="x" body2="x"/>', '<connect body1="world" anchor="1e308 0 0"/>',
)  # fmt: skip
_LARGEST = 3_000


def mutate_bytes(content: bytes, rng: random.Random) -> bytes:
    """The content with a few of its bytes changed, cut, repeated or replaced."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 1, 4, 30, 300, 3000)))
        action = rng.randrange(6)
        if action == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif action == 1:
            del data[at:end]
        elif action == 2:
            data[at:at] = rng.choice(MARKUP)
        elif action == 3:
            data[at:end] = data[at:end] * rng.choice((2, 10))
        elif action == 4:
            data[at:end] = rng.choice(VALUES).encode()
        elif action == 5 and rng.random() < 0.2:
            del data[at:]
    return bytes(data)


def mutate_structure(content: bytes, rng: random.Random) -> bytes:
    """The document with a few of its elements and attributes changed."""
    try:
        root = parse_xml(content, "seed")
    except QddotError:
        return mutate_bytes(content, rng)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        # repeated elements repeat what they hold, and would soon fill the memory of the fuzzer
        if len(_all(root)) > _LARGEST:
            break
        rng.choice(ACTIONS)(root, rng)
    return "".join(_write(root)).encode("utf-8", "surrogatepass")


def _write(root: Element) -> Iterator[str]:
    """The text of an element; without recursion, as nesting may be deep."""
    stack: list[Element | str] = [root]
    while stack:
        x = stack.pop()
        if isinstance(x, str):
            yield x
            continue
        attributes = "".join(f" {k}={quoteattr(v)}" for k, v in x.attributes.items())
        yield f"<{x.tag}{attributes}>"
        if x.text.strip():
            yield x.text.replace("&", "&amp;").replace("<", "&lt;")
        stack.append(f"</{x.tag}>")
        stack.extend(reversed(x.children))


def _all(root: Element) -> list[Element]:
    found, stack = [], [root]
    while stack:
        found.append(stack.pop())
        stack.extend(found[-1].children)
    return found


def _with_attributes(root: Element, rng: random.Random) -> tuple[Element, str] | None:
    chosen = [(e, k) for e in _all(root) for k in e.attributes]
    return rng.choice(chosen) if chosen else None


def _set_value(root: Element, rng: random.Random) -> None:
    if rng.random() < 0.2:
        texts = [e for e in _all(root) if e.text.strip()]
        if texts:
            rng.choice(texts).text = rng.choice(VALUES)
            return
    if place := _with_attributes(root, rng):
        place[0].attributes[place[1]] = rng.choice(VALUES)


def _set_number(root: Element, rng: random.Random) -> None:
    """One of the numbers in an attribute becomes an extreme one."""
    if place := _with_attributes(root, rng):
        words = place[0].attributes[place[1]].split() or [""]
        extreme = ("nan", "1e308", "-1e308", "1e155", "1e12", "0", "-1", "1e-200", "inf", "999999")
        words[rng.randrange(len(words))] = rng.choice(extreme)
        place[0].attributes[place[1]] = " ".join(words)


def _exchange_values(root: Element, rng: random.Random) -> None:
    """A value of one attribute in place of that of another, such as the name of another link."""
    a, b = _with_attributes(root, rng), _with_attributes(root, rng)
    if a and b:
        a[0].attributes[a[1]] = b[0].attributes[b[1]]


def _rename_attribute(root: Element, rng: random.Random) -> None:
    a, b = _with_attributes(root, rng), _with_attributes(root, rng)
    if a and b:
        value = a[0].attributes[a[1]]
        if rng.random() < 0.5:
            del a[0].attributes[a[1]]
        else:
            a[0].attributes[b[1]] = value


def _rename_element(root: Element, rng: random.Random) -> None:
    a, b = rng.choice(_all(root)), rng.choice(_all(root))
    a.tag = b.tag


def _remove(root: Element, rng: random.Random) -> None:
    parent = rng.choice(_all(root))
    if parent.children:
        del parent.children[rng.randrange(len(parent.children))]


def _repeat(root: Element, rng: random.Random) -> None:
    parent = rng.choice(_all(root))
    if parent.children:
        child = rng.choice(parent.children)
        parent.children.extend([child] * rng.choice((1, 1, 3, 100)))


def _move(root: Element, rng: random.Random) -> None:
    """An element into another; never into itself, which would have no end."""
    parent = rng.choice(_all(root))
    if not parent.children:
        return
    child = parent.children.pop(rng.randrange(len(parent.children)))
    # an element that was repeated stands in several places
    inside = {id(e) for e in _all(child)}
    rng.choice([e for e in _all(root) if id(e) not in inside]).children.append(child)


def _nest(root: Element, rng: random.Random) -> None:
    """Elements of one kind in each other, many deep."""
    parent, like = rng.choice(_all(root)), rng.choice(_all(root))
    for i in range(rng.choice((10, 100, 190, 300, 3000))):
        attributes = {**like.attributes}
        if "name" in attributes:
            attributes["name"] += f"_{i}"
        child = Element(like.tag, attributes, "", 0)
        parent.children.append(child)
        parent = child


def _insert(root: Element, rng: random.Random) -> None:
    text = rng.choice(ELEMENTS).replace("self", "case.xml")
    rng.choice(_all(root)).children.append(parse_xml(text.encode(), "seed"))


ACTIONS: tuple[Callable[[Element, random.Random], None], ...] = (
    *(_set_value, _set_value, _set_value, _set_number, _set_number, _set_number),
    *(_exchange_values, _exchange_values, _rename_attribute, _rename_element),
    *(_remove, _repeat, _move, _nest, _insert, _insert),
)
