"""The methods of a robot, one a row of the catalogue, as text that is executed once.

A method finds the compiled function in `_fast` of its robot, by its name and settings, and else
leaves the call to `_call_general`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from qddot.algorithms.catalogue import Function
from qddot.compile.runtime.threads import SETTING
from qddot.errors import UnknownArgument
from qddot.robot.docstrings import method_docstring

__all__ = ["make_method", "method_settings", "method_signature"]

_METHOD = """
def {name}(self, {arguments}, **options):
    if {plain}not options and (SETTING.single or SETTING.threads == 1):
        try:
            if out is None:
                return self._fast[{key}]({arrays})
            if {direct}:
                return self._fast[{key}]({arrays}, {results})
        except Exception:
            pass  # not compiled yet, or arguments that the general way takes, or refuses in words
    unknown = [name for name in options if name not in DEFAULTS]
    if unknown:
        raise UnknownArgument({name!r}, unknown, {names!r})
    return self._call_general({name!r}, ({arrays},), {{{others}**DEFAULTS, **options}}, out)
"""


def make_method(row: Function) -> Callable[..., Any]:
    """The Robot method of a catalogue row, written out so that a call costs next to nothing."""
    signature = method_signature(row)
    given = list(signature.parameters.values())[1:]
    arrays = [a.name for a in row.inputs if a.name != "f_ext"]
    # settings, by which a compiled function is found, f_ext and out have places of their own;
    # what only the general call takes is cheaper in a dictionary than with defaults
    settings = [o.name for o in method_settings(row)]
    placed = [p for p in given if p.name in (*arrays, *settings, "f_ext", "out")]
    defaults = {p.name: p.default for p in given if p not in placed}
    others = [p.name for p in placed if p.name not in (*arrays, "out")]
    several = f"type(out) is tuple and len(out) == {len(row.outputs)}"
    direct, results = (several, "*out") if len(row.outputs) > 1 else ("type(out) is ndarray", "out")
    # the text of the method, then the method with its signature and docstring
    text = _METHOD.format(
        name=row.name,
        arguments=str(inspect.Signature(placed)).removeprefix("(").removesuffix(")"),
        plain="f_ext is None and " if "f_ext" in others else "",
        key=f"({row.name!r}, {', '.join(settings)})" if settings else repr(row.name),
        arrays=", ".join(arrays),
        direct=direct,
        results=results,
        names=tuple(signature.parameters)[1:],
        others="".join(f"{name!r}: {name}, " for name in others),
    )
    scope: dict[str, Any] = {
        "DEFAULTS": defaults,
        "SETTING": SETTING,
        "UnknownArgument": UnknownArgument,
        "ndarray": np.ndarray,
    }
    exec(text, scope)
    written = scope[row.name]
    written.__signature__ = signature
    written.__qualname__ = f"Robot.{row.name}"
    written.__doc__ = method_docstring(row)
    return written


def method_settings(row: Function) -> list[inspect.Parameter]:
    """The options whose values a compiled function is found by."""
    return [o for o in row.options if o.name not in ("forces", "friction")]


def method_signature(row: Function) -> inspect.Signature:
    """Arrays, then frame and reference, then f_ext, friction and out."""
    P = inspect.Parameter
    options = {o.name: o for o in row.options}
    forced = options.pop("forces", None) is not None
    required = [o for o in options.values() if o.default is P.empty]
    optional = [o for o in options.values() if o.default is not P.empty]
    return inspect.Signature(
        [
            P("self", P.POSITIONAL_OR_KEYWORD),
            *(P(a.name, P.POSITIONAL_OR_KEYWORD) for a in row.inputs if a.name != "f_ext"),
            *(o.replace(kind=P.POSITIONAL_OR_KEYWORD) for o in required),
            *([P("f_ext", P.POSITIONAL_OR_KEYWORD, default=None)] if forced else []),
            *optional,
            P("out", P.KEYWORD_ONLY, default=None),
        ]
    )
