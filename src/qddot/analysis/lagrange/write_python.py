"""A closed form as a Python module that needs NumPy only."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import lru_cache

import sympy

from qddot.analysis.lagrange.closed_form import ClosedForm

__all__ = ["python_module"]

_WIDTH = 88
_FEW = 3

_HEAD = '''"""Closed-form dynamics of {name}: M(q) a + C(q, v) v + g(q) = tau.

Arrays have the coordinates on their last axis; leading axes are batch. v and a are the first and
second time derivatives of q:

{coordinates}
{remarks}"""

import numpy as np
from numpy import cos, sin

PARAMETERS = {{{parameters}}}


def _array(q, shape, entries):
    """Entries, each a number or an array over the batch, as arrays of this shape."""
    spread = np.broadcast_arrays(q[..., 0], *entries)[1:]
    return np.stack(spread, axis=-1).reshape(q.shape[:-1] + shape)
'''

_FUNCTION = '''

def {name}({arguments}, parameters=PARAMETERS):
    """{doc}"""
{body}
'''

_TAIL = '''

def inverse_dynamics(q, v, a, parameters=PARAMETERS):
    """Torques of a motion."""
    Ma = np.einsum("...ij,...j->...i", mass_matrix(q, parameters), a)
    return Ma + coriolis_vector(q, v, parameters) + gravity(q, parameters)


def forward_dynamics(q, v, tau, parameters=PARAMETERS):
    """Accelerations under torques."""
    rest = np.asarray(tau) - coriolis_vector(q, v, parameters) - gravity(q, parameters)
    return np.linalg.solve(mass_matrix(q, parameters), rest[..., None])[..., 0]
'''


def python_module(form: ClosedForm, remarks: Sequence[str] = ()) -> str:
    """The text of the module: a function a term, of q, v and the parameters."""
    lines = [
        f'    "{p.name}": {p.value!r},  # {p.unit}, {_sanitise_text(p.meaning)}'
        for p in form.parameters
    ]
    parameters = "\n" + "\n".join(lines) + "\n" if lines else ""
    coordinates = "\n".join(f"    {x.q}  {_sanitise_text(x.meaning)}" for x in form.coordinates)
    text = _HEAD.format(
        name=_sanitise_text(form.name),
        coordinates=coordinates,
        remarks="".join(f"\n{textwrap.fill(_sanitise_text(r), _WIDTH)}\n" for r in remarks),
        parameters=parameters,
    )
    return text + _term_functions(form) + _TAIL


def _sanitise_text(text: str) -> str:
    """Names of a file as text that can end neither a comment nor a docstring."""
    return " ".join(text.split()).replace("\\", "/").replace('"', "'")


@lru_cache(maxsize=1)
def _term_functions(form: ClosedForm) -> str:
    """The functions of the terms, cached: proof and output need the same ones."""
    n = len(form.coordinates)
    gamma = [x for plane in form.Gamma for row in plane for x in row]
    text = ""
    for name, arguments, doc, shape, entries in (
        ("kinetic_energy", "q, v", "Kinetic energy T.", (), [form.T]),
        ("potential_energy", "q", "Potential energy V.", (), [form.V]),
        ("mass_matrix", "q", f"Mass matrix M ({n} x {n}).", (n, n), list(form.M)),
        (
            "christoffel_symbols",
            "q",
            "Christoffel symbols: C_ij is the sum of Gamma_ijk v_k over k.",
            (n, n, n),
            gamma,
        ),
        ("coriolis_matrix", "q, v", f"Coriolis matrix C ({n} x {n}).", (n, n), list(form.C)),
        ("coriolis_vector", "q, v", "Coriolis and centrifugal torques C v.", (n,), list(form.c)),
        ("gravity", "q", "Gravity torques g.", (n,), list(form.g)),
    ):
        # sines and cosines are shared where there are many
        used = set().union(*(x.free_symbols for x in entries))
        waves = sorted(set().union(*(x.atoms(sympy.sin, sympy.cos) for x in entries)), key=str)
        many = waves if len(waves) > _FEW else ()
        shared = {w: sympy.Symbol(f"x{k}") for k, w in enumerate(many)}
        # unpack coordinates and parameters
        lines = [f"{x} = np.asarray({x})" for x in arguments.split(", ")]
        for letter in arguments.split(", "):
            symbols = [getattr(x, letter) for x in form.coordinates]
            parts = {str(s): f"{letter}[..., {k}]" for k, s in enumerate(symbols) if s in used}
            lines += [f"{', '.join(parts)} = {', '.join(parts.values())}"] if parts else []
        named = [p.name for p in form.parameters if sympy.Symbol(p.name) in used]
        if named:
            quoted = ", ".join(f'"{name}"' for name in named)
            lines += [f"{', '.join(named)}, = (parameters[k] for k in ({quoted},))"]
        # return the entries as an array
        lines += [_wrap_statement(f"{x} = ", _expression_text(w), "") for w, x in shared.items()]
        words = (_expression_text(x.xreplace(shared)) for x in entries)
        rows = [textwrap.indent(_wrap_statement("", x, ","), "    ") for x in words]
        lines += [f"return _array(q, {shape}, [", *rows, "])"]
        body = textwrap.indent("\n".join(lines), "    ")
        text += _FUNCTION.format(name=name, arguments=arguments, doc=doc, body=body)
    return text


def _expression_text(expression: sympy.Expr) -> str:
    return sympy.sstr(expression, full_prec=False)


def _wrap_statement(head: str, text: str, tail: str) -> str:
    """A statement or entry on one line, or in brackets on several."""
    if len(head + text + tail) <= _WIDTH:
        return head + text + tail
    lines = textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join([f"{head}(", *(f"    {line}" for line in lines), f"){tail}"])
