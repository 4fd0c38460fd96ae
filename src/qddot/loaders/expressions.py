"""Expressions of xacro files of strangers: a small, bounded part of Python, evaluated by hand.

Nothing is compiled: a syntax tree is walked, and every node, name, attribute and kind of value that
is not listed here is refused. Values are plain data, so there is nothing to climb from; their
sizes and the number of steps are bounded.
"""

from __future__ import annotations

import ast
import contextlib
import datetime
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from xacro import NameSpace, YamlDictWrapper, YamlListWrapper

from qddot.loaders.trust import WITHOUT_TRUST, Refused

__all__ = [
    "AllowedFunction",
    "builtin_functions",
    "check_plain",
    "evaluate",
    "math_symbols",
]

_MOST_LETTERS = 1_000_000
_MOST_ITEMS = 100_000
_MOST_WEIGHT = 1_000_000
_MOST_STEPS = 100_000
_MOST_BITS = 1024
_LONGEST_EXPRESSION = 10_000


@dataclass(frozen=True)
class AllowedFunction:
    """A function that expressions may call."""

    call: Callable[..., Any]

    def __repr__(self) -> str:
        return "<function>"

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """The result of the function."""
        return self.call(*arguments, **keywords)


_SCALARS = (bool, int, float, str, type(None), datetime.date, datetime.datetime)
_LISTS = (list, tuple, set, frozenset, range, YamlListWrapper)
_DICTS = (dict, YamlDictWrapper)
_DATA = frozenset((*_SCALARS, *_LISTS, *_DICTS))
_KINDS = _DATA | {NameSpace, AllowedFunction}
_TEXT_METHODS = (
    "capitalize", "casefold", "count", "endswith", "find", "index", "isalnum", "isalpha",
    "isdecimal", "isdigit", "islower", "isnumeric", "isspace", "isupper", "join", "lower",
    "lstrip", "partition", "removeprefix", "removesuffix", "replace", "rfind", "rindex",
    "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "swapcase",
    "title", "upper", "zfill",
)  # fmt: skip
_METHODS: dict[type, tuple[str, ...]] = {
    str: _TEXT_METHODS,
    float: ("is_integer",),
    **dict.fromkeys((list, tuple, range, YamlListWrapper), ("count", "index")),
    **dict.fromkeys(_DICTS, ("get", "items", "keys", "values")),
}
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.UAdd: operator.pos, ast.USub: operator.neg, ast.Invert: operator.invert,
    ast.Not: operator.not_, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_,
    ast.IsNot: operator.is_not, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip


def evaluate(text: str, names: Mapping[str, Any]) -> Any:
    """The value of an expression over names; what is not plain and bounded is refused."""
    if len(text) > _LONGEST_EXPRESSION:
        raise Refused(f"an expression of more than {_LONGEST_EXPRESSION} letters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (MemoryError, RecursionError) as error:  # how the parser says it
        raise Refused("an expression that is nested so deeply") from error
    return _Evaluator(names).value(tree.body)


class _Evaluator:
    """A walk through the syntax tree of one expression, with a count of its steps."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.names = names
        self.scopes: list[dict[str, Any]] = []
        self.steps = 0

    def value(self, node: ast.AST) -> Any:
        """The value of a node: data or a function, bounded in size."""
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise Refused(f"an expression of more than {_MOST_STEPS} steps")
        rule = getattr(self, f"_{type(node).__name__}", None)
        if rule is None:
            raise Refused(f"the syntax {type(node).__name__!r} in an expression")
        result = rule(node)
        kind = type(result)
        if kind not in _KINDS:
            raise Refused(f"a value of type {kind.__name__!r}")
        if kind is int and result.bit_length() > _MOST_BITS:
            raise Refused(f"an integer of more than {_MOST_BITS} bits")
        if kind is str and len(result) > _MOST_LETTERS:
            raise Refused(f"a text of more than {_MOST_LETTERS} letters")
        return result

    def _Constant(self, node: ast.Constant) -> Any:
        return node.value

    def _Name(self, node: ast.Name) -> Any:
        for scope in reversed(self.scopes):
            if node.id in scope:
                return scope[node.id]
        return _look_up(self.names, node.id)

    def _BinOp(self, node: ast.BinOp) -> Any:
        left, right = self._plain_value(node.left), self._plain_value(node.right)
        # refuse an operation whose result would be large before it is made
        kind = type(node.op)
        if kind is ast.Mod and isinstance(left, str):
            _check_width(left)
        integers = isinstance(left, int) and isinstance(right, int)
        if (
            kind is ast.Pow
            and integers
            and abs(left) > 1
            and left.bit_length() * right > _MOST_BITS
        ):
            raise Refused(f"a power of more than {_MOST_BITS} bits")
        if kind is ast.LShift and integers and right > _MOST_BITS:
            raise Refused(f"a shift by more than {_MOST_BITS} bits")
        if kind is ast.Mult and not integers:
            for many, count in ((left, right), (right, left)):
                if isinstance(many, str | list | tuple) and isinstance(count, int):
                    most = _MOST_LETTERS if isinstance(many, str) else _MOST_ITEMS
                    if len(many) * count > most:
                        raise Refused(f"a repetition of more than {most} items")
        return check_plain(self._find_operator(node.op)(left, right))

    def _UnaryOp(self, node: ast.UnaryOp) -> Any:
        return self._find_operator(node.op)(self._plain_value(node.operand))

    def _BoolOp(self, node: ast.BoolOp) -> Any:
        result = None
        for operand in node.values:
            result = self._plain_value(operand)
            if bool(result) == isinstance(node.op, ast.Or):
                break
        return result

    def _Compare(self, node: ast.Compare) -> Any:
        left, result = self._plain_value(node.left), True
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            right = self._plain_value(comparator)
            result = self._find_operator(op)(left, right)
            if not result:
                break
            left = right
        return result

    def _IfExp(self, node: ast.IfExp) -> Any:
        return self.value(node.body if self._plain_value(node.test) else node.orelse)

    def _List(self, node: ast.List) -> Any:
        return check_plain([self.value(x) for x in node.elts])

    def _Tuple(self, node: ast.Tuple) -> Any:
        return check_plain(tuple(self.value(x) for x in node.elts))

    def _Set(self, node: ast.Set) -> Any:
        return check_plain({self.value(x) for x in node.elts})

    def _Dict(self, node: ast.Dict) -> Any:
        result: dict[Any, Any] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            if key is None:
                result.update(self._plain_value(item))
            else:
                result[self.value(key)] = self.value(item)
        return check_plain(result)

    def _ListComp(self, node: ast.ListComp | ast.GeneratorExp) -> Any:
        return check_plain(
            _collect_bounded(self.value(node.elt) for _ in self._run_loops(node.generators))
        )

    # made at once: there is no generator whose frame could be looked at
    _GeneratorExp = _ListComp

    def _DictComp(self, node: ast.DictComp) -> Any:
        rounds = self._run_loops(node.generators)
        # keys and values in turn
        flat = _collect_bounded(self.value(x) for _ in rounds for x in (node.key, node.value))
        return check_plain(dict(zip(flat[::2], flat[1::2], strict=True)))

    def _Subscript(self, node: ast.Subscript) -> Any:
        value = self._plain_value(node.value)
        if isinstance(node.slice, ast.Slice):
            parts = (node.slice.lower, node.slice.upper, node.slice.step)
            return value[slice(*(None if x is None else self._plain_value(x) for x in parts))]
        return value[self._plain_value(node.slice)]

    def _Attribute(self, node: ast.Attribute) -> Any:
        value, name = self.value(node.value), node.attr
        if not name.startswith("__"):
            if type(value) is NameSpace:
                return _look_up(value, name)
            if name in _METHODS.get(type(value), ()):
                return AllowedFunction(lambda *given: _call_method(value, name, given))
            if type(value) is YamlDictWrapper:
                return value[name]
        raise Refused(f"the attribute {name!r} of a value of type {type(value).__name__!r}")

    def _Call(self, node: ast.Call) -> Any:
        function = self.value(node.func)
        if type(function) is not AllowedFunction:
            raise TypeError(f"a value of type {type(function).__name__!r} cannot be called")
        arguments = [self.value(x) for x in node.args]
        keywords = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise Refused("'**' in a call")
            keywords[keyword.arg] = self.value(keyword.value)
        result = function(*arguments, **keywords)
        return result if type(result) is AllowedFunction else check_plain(result)

    def _JoinedStr(self, node: ast.JoinedStr) -> Any:
        return "".join(str(self._plain_value(part)) for part in node.values)

    def _FormattedValue(self, node: ast.FormattedValue) -> Any:
        value = self._plain_value(node.value)
        form = self._plain_value(node.format_spec) if node.format_spec else ""
        _check_width(form)
        conversions: dict[int, Callable[[Any], str]] = {115: str, 114: repr, 97: ascii}
        convert = conversions.get(node.conversion)
        return format(convert(value) if convert else value, form)

    def _plain_value(self, node: ast.AST) -> Any:
        """The value of a node that must be data."""
        value = self.value(node)
        if type(value) not in _DATA:
            raise Refused(f"a value of type {type(value).__name__!r} in an operation")
        return value

    def _find_operator(self, node: ast.AST) -> Callable[..., Any]:
        if type(node) not in _OPERATORS:
            raise Refused(f"the operator {type(node).__name__!r}")
        return _OPERATORS[type(node)]

    def _run_loops(self, generators: list[ast.comprehension]) -> Iterator[None]:
        """The rounds of a comprehension, its variables in a scope of their own."""
        if not generators:
            yield
            return
        first = generators[0]
        if first.is_async:
            raise Refused("the syntax 'async' in an expression")
        for item in _iterate_over(self._plain_value(first.iter)):
            self.scopes.append(dict(_bind_names(first.target, item)))
            try:
                if all(self._plain_value(condition) for condition in first.ifs):
                    yield from self._run_loops(generators[1:])
            finally:
                self.scopes.pop()


def check_plain(value: Any) -> Any:
    """A value, which must be data through and through and not large when written out."""
    weight, stack = 0, [value]
    while stack:
        x = stack.pop()
        kind = type(x)
        weight += 1 + (len(x) if kind is str else 0)
        if weight > _MOST_WEIGHT or (kind in _LISTS and len(x) > _MOST_ITEMS):
            raise Refused("a value of that size")
        if kind in _DICTS:
            stack += [*dict.keys(x), *dict.values(x)]
        elif kind is not range and kind in _LISTS:
            # without the wrappers that xacro makes anew at each look
            stack += list.__iter__(x) if isinstance(x, list) else x
        elif kind not in _SCALARS and kind is not range and kind is not AllowedFunction:
            raise Refused(f"a value of type {kind.__name__!r}")
    return value


def builtin_functions() -> dict[str, Any]:
    """The functions of Python that expressions may call, by name."""

    def bounded_range(*given: int) -> range:
        made = range(*given)
        if made and abs(made[-1] - made[0]) // abs(made.step) >= _MOST_ITEMS:
            raise Refused(f"a range of more than {_MOST_ITEMS} numbers")
        return made

    def bounded_round(x: Any, digits: int | None = None) -> Any:
        if digits is not None and abs(digits) > _MOST_BITS:
            raise Refused("rounding to that many digits")
        return round(x, digits)

    def is_instance(x: Any, kinds: Any) -> bool:
        types = tuple(f.call for f in (kinds if isinstance(kinds, tuple) else (kinds,)))
        return any(isinstance(kind, type) and isinstance(x, kind) for kind in types)

    # as in Python, then those that need bounds or would give iterators
    same: list[Callable[..., Any]] = [
        abs, all, any, bool, dict, divmod, float, frozenset, int, len, list, max, min, ord, repr,
        set, sorted, str, sum, tuple,
    ]  # fmt: skip
    functions: dict[str, Callable[..., Any]] = {f.__name__: f for f in same}
    functions |= {
        "enumerate": lambda x, start=0: list(enumerate(_iterate_over(x), start)),
        "filter": lambda f, x: [y for y in _iterate_over(x) if (f(y) if f is not None else y)],
        "isinstance": is_instance,
        "map": lambda f, *x: _collect_bounded(
            f(*y) for y in zip(*map(_iterate_over, x), strict=False)
        ),
        "range": bounded_range,
        "reversed": lambda x: list(_iterate_over(x))[::-1],
        "round": bounded_round,
        "zip": lambda *x: list(zip(*map(_iterate_over, x), strict=False)),
    }
    return {name: AllowedFunction(f) for name, f in functions.items()} | {
        "True": True,
        "False": False,
    }


def math_symbols() -> dict[str, Any]:
    """Constants and functions of `math`, without the few whose results grow beyond bounds."""
    unbounded = {"comb", "factorial", "lcm", "perm", "prod"}
    public = {k: v for k, v in vars(math).items() if not k.startswith("_") and k not in unbounded}
    return {k: AllowedFunction(v) if callable(v) else v for k, v in public.items()}


def _look_up(names: Mapping[str, Any], name: str) -> Any:
    # names may be found by their own rules, so that they are asked rather than searched
    with contextlib.suppress(KeyError):
        if not name.startswith("__"):
            return names[name]
    raise NameError(f"name {name!r} is not defined, or not allowed {WITHOUT_TRUST}")


def _iterate_over(x: Any) -> Iterator[Any]:
    """The items of a list, a dictionary, a text or a range."""
    if type(x) not in (*_LISTS, *_DICTS, str):
        raise TypeError(f"a value of type {type(x).__name__!r} cannot be looped over")
    return iter(x)


def _collect_bounded(values: Iterable[Any]) -> list[Any]:
    """A list of values; refused as soon as it is too large, before it is complete."""
    items: list[Any] = []
    weight = 0
    for x in values:
        weight += 1 + (len(x) if type(x) in (*_LISTS, *_DICTS, str) else 0)
        if weight > _MOST_WEIGHT:
            raise Refused("a value of that size")
        items.append(x)
    return items


def _bind_names(target: ast.AST, item: Any) -> Iterator[tuple[str, Any]]:
    """Names of a comprehension with their values."""
    if isinstance(target, ast.Name):
        yield target.id, item
    elif isinstance(target, ast.Tuple | ast.List):
        parts = list(_iterate_over(item))
        if len(parts) != len(target.elts):
            raise ValueError(f"{len(target.elts)} names for {len(parts)} values")
        for inner, part in zip(target.elts, parts, strict=True):
            yield from _bind_names(inner, part)
    else:
        raise Refused("such a loop variable")


def _check_width(form: str) -> None:
    """Refuse a format with a width or precision of four digits or from an argument."""
    if len(form) > _MOST_LETTERS or re.search(r"\d{4}|%[^a-zA-Z%]*\*", form):
        raise Refused("a format of that width")


def _call_method(value: Any, name: str, given: tuple[Any, ...]) -> Any:
    """A method of a value; one whose result would be large is refused before it is made."""
    size = 0
    if name == "zfill":
        size = operator.index(given[0])
    elif name == "replace" and len(given) > 1:
        size = len(value) + value.count(given[0]) * len(given[1])
    elif name == "join":
        size = sum(len(x) + len(value) for x in _iterate_over(given[0]))
    if size > _MOST_LETTERS:
        raise Refused(f"a text of more than {_MOST_LETTERS} letters")
    result = getattr(value, name)(*given)
    return list(result) if name in ("items", "keys", "values") else result
