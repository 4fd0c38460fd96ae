"""What identifies the code of a part, such as an effect or a law: all that it is made of.

Two parts with one content have one code. The text of the library's own classes changes with its
version only, so their name and fields, to the last bit, say what they compute, in any process. A
class of somebody else may be edited while its name and its fields stay: its content holds the class
itself and the values of the globals that its functions read, which tells parts apart within a
process, and code on disk is found by the digest of what the part recorded (`is_portable`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import inspect
from collections.abc import Hashable, Mapping
from functools import cached_property
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from qddot.model.model import Model

__all__ = ["content_digest", "content_of", "is_portable"]

_PLAIN = (str, bytes, bool, int, float, complex, np.ndarray, np.generic, list, tuple, set, dict)


def content_of(part: Any) -> Hashable:
    """All that a part is made of, as something that can be compared.

    Parts whose content cannot be told, such as an open file, differ from all others.
    """
    if part is None or isinstance(part, str | bytes | bool | int | float | complex):
        return (type(part).__name__, repr(part))
    if isinstance(part, np.ndarray | np.generic):
        array = np.asarray(part)
        if array.dtype.kind == "O":
            return object()
        return (array.shape, array.dtype.str, array.tobytes())
    if isinstance(part, Model):
        return ("Model", part.digest)
    if isinstance(part, list | tuple | set | frozenset):
        items = map(content_of, part)
        ordered = not isinstance(part, set | frozenset)
        return (_class_content(type(part)), tuple(items) if ordered else frozenset(items))
    if isinstance(part, Mapping):
        pairs = tuple((content_of(k), content_of(x)) for k, x in part.items())
        return (_class_content(type(part)), pairs)
    # parts of the library may say it themselves
    own = getattr(type(part), "content", None)
    if isinstance(own, property) and _is_own(type(part)):
        return (_class_content(type(part)), part.content)
    if inspect.isroutine(part) or isinstance(part, type):
        return part if isinstance(part, Hashable) else object()
    names = _attribute_names(part)
    if not names and not dataclasses.is_dataclass(part):
        return object()
    values = tuple((name, content_of(getattr(part, name))) for name in names)
    return (_class_content(type(part)), values)


def is_portable(content: Hashable) -> bool:
    """Whether a content means the same in every process: it holds no class, function or object."""
    if isinstance(content, tuple | frozenset):
        return all(map(is_portable, content))
    return content is None or isinstance(content, str | bytes | bool | int | float)


def content_digest(content: Hashable) -> str:
    """Digest of a portable content."""
    return hashlib.sha256(repr(content).encode()).hexdigest()


def _is_own(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "qddot"


def _class_content(kind: type) -> Hashable:
    """A class by its name, where its text belongs to the library or to Python, else itself."""
    if _is_own(kind) or kind.__module__ == "builtins":
        return f"{kind.__module__}.{kind.__qualname__}"
    members = [x for base in kind.__mro__ if not _is_own(base) for x in vars(base).values()]
    seen: set[CodeType] = set()
    return (kind, tuple(_values_read(x, seen) for x in members if inspect.isfunction(x)))


def _values_read(function: FunctionType, seen: set[CodeType]) -> Hashable:
    """Values of the globals and captured variables that a function reads, and those that it calls.

    Functions that are replaced, modules and classes are told apart as objects.
    """
    code = function.__code__
    if code in seen:
        return code
    seen.add(code)
    cells = zip(code.co_freevars, function.__closure__ or (), strict=False)
    values = {name: function.__globals__.get(name) for name in code.co_names}
    for name, cell in cells:
        # a variable that is captured before it has a value has none
        with contextlib.suppress(ValueError):
            values[name] = cell.cell_contents
    found: list[Hashable] = [code]
    for name, value in values.items():
        if inspect.isfunction(value):
            own = (value.__module__ or "").partition(".")[0] == "qddot"
            found.append((name, value if own else _values_read(value, seen)))
        elif isinstance(value, _PLAIN):
            found.append((name, content_of(value)))
        elif isinstance(value, Hashable):
            found.append((name, value))
    return tuple(found)


def _attribute_names(part: Any) -> list[str]:
    """Fields of an object and its other attributes, without those that its class computes once.

    Fields of the library's own classes that are not compared, such as the seeds of noise, are in
    no code.
    """
    members = [item for kind in type(part).__mro__ for item in vars(kind).items()]
    slots = [name for name, member in members if inspect.ismemberdescriptor(member)]
    left_out = {name for name, member in members if isinstance(member, cached_property)}
    known: list[str] = []
    if dataclasses.is_dataclass(part):
        known = [f.name for f in dataclasses.fields(part)]
        if _is_own(type(part)):
            left_out |= {f.name for f in dataclasses.fields(part) if not f.compare}
    names = dict.fromkeys([*known, *getattr(part, "__dict__", ()), *slots])
    return [name for name in names if name not in left_out and hasattr(part, name)]
