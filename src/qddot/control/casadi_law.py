"""A law given as a casadi.Function, run on scalars of any type, instruction by instruction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from qddot.control.law import Memory, Reference, State
from qddot.errors import InvalidArgument, ShapeMismatch, UnknownName
from qddot.robot.robot import Robot
from qddot.spatial import scalar
from qddot.spatial.scalar import Scalar

if TYPE_CHECKING:
    import casadi

__all__ = ["CasadiLaw", "run_casadi"]


@dataclass(frozen=True, eq=False)
class CasadiLaw:
    """A law of the user's own: a casadi.Function of q, v and named inputs that returns torques.

    Inputs after q and v are references, unless `constants` has their values by name.
    """

    function: casadi.Function
    constants: Mapping[str, ArrayLike] = field(default_factory=dict)

    def __post_init__(self) -> None:
        f = self.function
        if not hasattr(f, "instruction_id") or not f.is_a("SXFunction"):
            raise InvalidArgument("CasadiLaw", f, "it needs a casadi.Function of SX symbols")
        if f.n_in() < 2 or f.n_out() != 1:
            raise InvalidArgument("CasadiLaw", str(f), "it takes q, v, … and returns the torques")
        for name, value in self.constants.items():
            if name not in f.name_in()[2:]:
                raise UnknownName("input", name, f.name_in()[2:], f.name())
            size = f.numel_in(name)
            if np.size(value) != size:
                raise ShapeMismatch("CasadiLaw", name, f"({size},)", np.shape(value))

    def references(self, robot: Robot) -> Mapping[str, tuple[int, ...]]:
        """Inputs that are read each sample."""
        f = self.function
        names = [n for n in f.name_in()[2:] if n not in self.constants]
        return {name: (f.numel_in(name),) for name in names}

    def senses(self, robot: Robot) -> tuple[str, ...]:
        """No wrench."""
        return ()

    def memory(self, robot: Robot) -> Mapping[str, ArrayLike]:
        """Nothing."""
        return {}

    def command(
        self, robot: Robot, state: State, reference: Reference, memory: Memory
    ) -> tuple[Any, Memory]:
        """The torques of the law."""
        f = self.function
        given = {**self.constants, **reference}
        inputs = [state.q, state.v, *(given[n] for n in f.name_in()[2:])]
        # CasADi keeps matrices column by column
        flat = [np.asanyarray(x).reshape(-1, order="F").tolist() for x in inputs]
        for k, values in enumerate(flat):
            if len(values) != f.numel_in(k):
                expected = f"({f.numel_in(k)},)"
                raise ShapeMismatch(f.name(), f.name_in(k), expected, (len(values),))
        return np.stack(run_casadi(f, flat)), {}


def run_casadi(f: casadi.Function, inputs: Sequence[Sequence[Scalar]]) -> list[Scalar]:
    """The first output of a CasADi function on scalars of any type."""
    import casadi

    work: list[Any] = [0.0] * f.sz_w()
    output: list[Any] = [0.0] * f.nnz_out(0)
    table = _operations()
    # inputs may be sparse: their nonzeros by their place among all entries
    places = [f.sparsity_in(k).find() for k in range(f.n_in())]
    for k in range(f.n_instructions()):
        code, o, i = f.instruction_id(k), f.instruction_output(k), f.instruction_input(k)
        if code == casadi.OP_INPUT:
            work[o[0]] = inputs[i[0]][places[i[0]][i[1]]]
        elif code == casadi.OP_OUTPUT:
            output[o[1]] = work[i[0]]
        elif code == casadi.OP_CONST:
            work[o[0]] = float(f.instruction_constant(k))
        elif code in table:
            work[o[0]] = table[code](*(work[j] for j in i))
        else:
            known = "sums, products, quotients, powers, roots, comparisons, fabs, fmin, fmax, sign"
            accepted = f"{known}, floor, ceil, exp, log, and circular and hyperbolic functions are"
            raise InvalidArgument("CasADi operation", code, f"{accepted} known")
    # entries that the output does not have are zero
    full: list[Any] = [0.0] * f.numel_out(0)
    for place, value in zip(f.sparsity_out(0).find(), output, strict=True):
        full[place] = value
    return full


def _number(condition: Any) -> Scalar:
    """Truth as CasADi has it: 1 or 0."""
    return scalar.where(condition, 1.0, 0.0)


def _is_true(x: Scalar) -> Any:
    return scalar.logical_not(scalar.equal(x, 0.0))


@cache
def _operations() -> dict[int, Callable[..., Scalar]]:
    """The instructions of CasADi on scalars of any type, by their codes."""
    import casadi as c

    sin, cos, exp, log = scalar.sin, scalar.cos, scalar.exp, scalar.log
    return {
        c.OP_ASSIGN: lambda a: a,
        c.OP_ADD: lambda a, b: a + b,
        c.OP_SUB: lambda a, b: a - b,
        c.OP_MUL: lambda a, b: a * b,
        c.OP_DIV: lambda a, b: a / b,
        c.OP_NEG: lambda a: -a,
        c.OP_SQ: lambda a: a * a,
        c.OP_TWICE: lambda a: a * 2.0,
        c.OP_INV: lambda a: 1.0 / a,
        c.OP_POW: scalar.power,
        c.OP_CONSTPOW: scalar.power,
        c.OP_SQRT: scalar.sqrt,
        c.OP_EXP: exp,
        c.OP_LOG: log,
        c.OP_SIN: sin,
        c.OP_COS: cos,
        c.OP_TAN: lambda a: sin(a) / cos(a),
        c.OP_ASIN: scalar.asin,
        c.OP_ACOS: scalar.acos,
        c.OP_ATAN: lambda a: scalar.atan2(a, 1.0),
        c.OP_ATAN2: scalar.atan2,
        c.OP_SINH: lambda a: 0.5 * (exp(a) - exp(-a)),
        c.OP_COSH: lambda a: 0.5 * (exp(a) + exp(-a)),
        c.OP_TANH: scalar.tanh,
        c.OP_HYPOT: lambda a, b: scalar.sqrt(a * a + b * b),
        c.OP_FLOOR: scalar.floor,
        c.OP_CEIL: lambda a: -scalar.floor(-a),
        c.OP_SIGN: scalar.sign,
        c.OP_FABS: scalar.absolute,
        c.OP_FMIN: scalar.minimum,
        c.OP_FMAX: scalar.maximum,
        c.OP_LT: lambda a, b: _number(scalar.less(a, b)),
        c.OP_LE: lambda a, b: _number(scalar.less_equal(a, b)),
        c.OP_EQ: lambda a, b: _number(scalar.equal(a, b)),
        c.OP_NE: lambda a, b: _number(scalar.logical_not(scalar.equal(a, b))),
        c.OP_NOT: lambda a: _number(scalar.equal(a, 0.0)),
        c.OP_AND: lambda a, b: _number(scalar.logical_and(_is_true(a), _is_true(b))),
        c.OP_OR: lambda a, b: _number(scalar.logical_or(_is_true(a), _is_true(b))),
        c.OP_IF_ELSE_ZERO: lambda a, b: scalar.where(_is_true(a), b, 0.0),
    }
