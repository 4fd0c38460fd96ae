"""Feedback laws that are part of a compiled step: torque from the state, a reference and gains.

A law is evaluated once a step, at its start, as a controller that runs at that rate would be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import ArrayLike

from qddot.algorithms.configuration import difference
from qddot.algorithms.inverse_dynamics import gravity, inverse_dynamics
from qddot.algorithms.recursion import Vector
from qddot.errors import InvalidArgument
from qddot.model.model import Model
from qddot.spatial.scalar import Scalar, atan2, cos, less, sin, sqrt, where
from qddot.spatial.scalar import sign as sign_of

if TYPE_CHECKING:
    import casadi

__all__ = ["PD", "CasadiLaw", "ComputedTorque", "Feedback", "Sensor"]

Shapes = Mapping[str, tuple[int, ...]]


class Feedback(Protocol):
    """A law: what it reads each sample, what it always reads, and its torque."""

    def references(self, model: Model) -> Shapes:
        """Names and shapes of the references, one row a sample."""

    def gains(self, model: Model) -> Shapes:
        """Names and shapes of the gains."""

    def torque(
        self, model: Model, q: Vector, v: Vector, references: Sequence[Any], gains: Sequence[Any]
    ) -> list[Scalar]:
        """Joint torques at a state."""


class Sensor(Protocol):
    """Something between the state and a law. `memory` is how many numbers it keeps for a model."""

    def memory(self, model: Model) -> int:
        """How many numbers are kept from step to step."""

    def start(self, model: Model) -> ArrayLike:
        """Those numbers before the first step; they may have batch axes before."""

    def read(
        self, model: Model, q: Vector, v: Vector, dt: Scalar, memory: Vector
    ) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
        """What it says of a state at the start of a step, and the numbers to keep."""


@dataclass(frozen=True)
class PD:
    """τ = kp (q_ref ⊖ q) + kd (v_ref − v), with `gravity` also g(q)."""

    gravity: bool = False

    def references(self, model: Model) -> Shapes:
        """Where to be and how fast."""
        return {"q_ref": (model.nq,), "v_ref": (model.nv,)}

    def gains(self, model: Model) -> Shapes:
        """One stiffness and one damping a velocity."""
        return {"kp": (model.nv,), "kd": (model.nv,)}

    def torque(
        self, model: Model, q: Vector, v: Vector, references: Sequence[Any], gains: Sequence[Any]
    ) -> list[Scalar]:
        """The torques of the law."""
        pulled = _pull(model, q, v, references, gains)
        if not self.gravity:
            return pulled
        return [p + g for p, g in zip(pulled, gravity(model, q), strict=True)]


@dataclass(frozen=True)
class ComputedTorque:
    """τ = M (a_ref + kp (q_ref ⊖ q) + kd (v_ref − v)) + C v + g: the error decays as it is told."""

    def references(self, model: Model) -> Shapes:
        """Where to be, how fast, and how fast that changes."""
        return {"q_ref": (model.nq,), "v_ref": (model.nv,), "a_ref": (model.nv,)}

    def gains(self, model: Model) -> Shapes:
        """Squared bandwidth and damping a velocity."""
        return {"kp": (model.nv,), "kd": (model.nv,)}

    def torque(
        self, model: Model, q: Vector, v: Vector, references: Sequence[Any], gains: Sequence[Any]
    ) -> list[Scalar]:
        """The torques of the law."""
        pulled = _pull(model, q, v, references[:2], gains)
        a = [p + r for p, r in zip(pulled, references[2], strict=True)]
        return inverse_dynamics(model, q, v, a)


def _pull(
    model: Model, q: Vector, v: Vector, references: Sequence[Any], gains: Sequence[Any]
) -> list[Scalar]:
    """Gains times the errors of position and velocity."""
    (q_ref, v_ref), (kp, kd) = references, gains
    errors = zip(kp, difference(model, q, q_ref), kd, v_ref, v, strict=True)
    return [p * e + d * (r - x) for p, e, d, r, x in errors]


@dataclass(frozen=True)
class CasadiLaw:
    """A law of the user's own: a casadi.Function of q, v and named inputs that returns torques.

    Inputs after q and v are references, one row a sample, unless they are named in `constant`.
    """

    function: casadi.Function
    constant: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        f = self.function
        if not hasattr(f, "instruction_id") or not f.is_a("SXFunction"):
            raise InvalidArgument("feedback", f, "it needs a casadi.Function of SX symbols")
        if f.n_in() < 2 or f.n_out() != 1:
            raise InvalidArgument("feedback", str(f), "it takes q, v, … and returns the torques")

    def __repr__(self) -> str:
        return f"CasadiLaw({self.function.serialize()!r}, {self.constant!r})"

    def _named(self, constant: bool) -> Shapes:
        f = self.function
        names = [f.name_in(k) for k in range(2, f.n_in())]
        return {
            name: (f.numel_in(k),)
            for k, name in enumerate(names, start=2)
            if (name in self.constant) == constant
        }

    def references(self, model: Model) -> Shapes:
        """Inputs that are read each sample."""
        return self._named(constant=False)

    def gains(self, model: Model) -> Shapes:
        """Inputs that stay."""
        return self._named(constant=True)

    def torque(
        self, model: Model, q: Vector, v: Vector, references: Sequence[Any], gains: Sequence[Any]
    ) -> list[Scalar]:
        """The torques of the law."""
        given = dict(zip(self.references(model), references, strict=True))
        given |= dict(zip(self.gains(model), gains, strict=True))
        f = self.function
        rest = [given[f.name_in(k)] for k in range(2, f.n_in())]
        return _run(f, [q, v, *rest])


def _run(f: casadi.Function, inputs: Sequence[Sequence[Any]]) -> list[Scalar]:
    """A CasADi function on scalars of any type, instruction by instruction."""
    import casadi

    work: list[Any] = [0.0] * f.sz_w()
    output: list[Any] = [0.0] * f.nnz_out(0)
    for k in range(f.n_instructions()):
        code, o, i = f.instruction_id(k), f.instruction_output(k), f.instruction_input(k)
        if code == casadi.OP_INPUT:
            work[o[0]] = inputs[i[0]][i[1]]
        elif code == casadi.OP_OUTPUT:
            output[o[1]] = work[i[0]]
        elif code == casadi.OP_CONST:
            work[o[0]] = float(f.instruction_constant(k))
        else:
            work[o[0]] = _operation(casadi, code)(*(work[j] for j in i))
    return output


def _operation(casadi: Any, code: int) -> Any:
    """What an instruction of CasADi does, on scalars of any type."""
    table = {
        casadi.OP_ADD: lambda a, b: a + b,
        casadi.OP_SUB: lambda a, b: a - b,
        casadi.OP_MUL: lambda a, b: a * b,
        casadi.OP_DIV: lambda a, b: a / b,
        casadi.OP_NEG: lambda a: -a,
        casadi.OP_SQ: lambda a: a * a,
        casadi.OP_TWICE: lambda a: a * 2.0,
        casadi.OP_INV: lambda a: 1.0 / a,
        casadi.OP_SQRT: sqrt,
        casadi.OP_SIN: sin,
        casadi.OP_COS: cos,
        casadi.OP_TAN: lambda a: sin(a) / cos(a),
        casadi.OP_ATAN2: atan2,
        casadi.OP_SIGN: sign_of,
        casadi.OP_FABS: lambda a: where(less(a, 0.0), -a, a),
        casadi.OP_FMIN: lambda a, b: where(less(a, b), a, b),
        casadi.OP_FMAX: lambda a, b: where(less(a, b), b, a),
        casadi.OP_ASSIGN: lambda a: a,
    }
    if code not in table:
        known = "sums, products, quotients, square roots, sin, cos, tan, atan2, sign, fabs, fmin"
        raise InvalidArgument("feedback: CasADi operation", code, f"{known} and fmax are accepted")
    return table[code]
