"""Feedback laws that are part of a compiled step: torque from the state, a reference and gains.

A law is evaluated once a step, at its start, as a controller that runs at that rate would be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    """A law: its references, one row a sample, its gains, and its torque."""

    def references(self, model: Model) -> Shapes:
        """Names and shapes of the references, one row a sample."""

    def gains(self, model: Model) -> Shapes:
        """Names and shapes of the gains."""

    def torque(
        self, model: Model, q: Vector, v: Vector, references: Sequence[Any], gains: Sequence[Any]
    ) -> list[Scalar]:
        """Joint torques at a state."""


class Sensor(Protocol):
    """A sensor between the state and a law, with a state of `state_size` numbers."""

    def state_size(self, model: Model) -> int:
        """Length of the state."""

    def initial_state(self, model: Model) -> ArrayLike:
        """The state before the first step, with batch axes before the last if it has any."""

    def read(
        self, model: Model, q: Vector, v: Vector, dt: Scalar, state: Vector
    ) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
        """Measured q and v at the start of a step, and the state of the sensor after it."""


@dataclass(frozen=True)
class PD:
    """τ = kp (q_ref ⊖ q) + kd (v_ref − v), with `gravity` also g(q)."""

    gravity: bool = False

    def references(self, model: Model) -> Shapes:
        """Configuration and velocity to follow."""
        return {"q_ref": (model.nq,), "v_ref": (model.nv,)}

    def gains(self, model: Model) -> Shapes:
        """One stiffness and one damping a velocity."""
        return {"kp": (model.nv,), "kd": (model.nv,)}

    def torque(
        self, model: Model, q: Vector, v: Vector, references: Sequence[Any], gains: Sequence[Any]
    ) -> list[Scalar]:
        """The torques of the law."""
        pd = _pd_torque(model, q, v, references, gains)
        if not self.gravity:
            return pd
        return [p + g for p, g in zip(pd, gravity(model, q), strict=True)]


@dataclass(frozen=True)
class ComputedTorque:
    """τ = M (a_ref + kp (q_ref ⊖ q) + kd (v_ref − v)) + C v + g: a linear error equation."""

    def references(self, model: Model) -> Shapes:
        """Configuration, velocity and acceleration to follow."""
        return {"q_ref": (model.nq,), "v_ref": (model.nv,), "a_ref": (model.nv,)}

    def gains(self, model: Model) -> Shapes:
        """Squared bandwidth and damping a velocity."""
        return {"kp": (model.nv,), "kd": (model.nv,)}

    def torque(
        self, model: Model, q: Vector, v: Vector, references: Sequence[Any], gains: Sequence[Any]
    ) -> list[Scalar]:
        """The torques of the law."""
        pd = _pd_torque(model, q, v, references[:2], gains)
        a = [p + r for p, r in zip(pd, references[2], strict=True)]
        return inverse_dynamics(model, q, v, a)


def _pd_torque(
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

    def _input_shapes(self, constant: bool) -> Shapes:
        f = self.function
        names = [f.name_in(k) for k in range(2, f.n_in())]
        return {
            name: (f.numel_in(k),)
            for k, name in enumerate(names, start=2)
            if (name in self.constant) == constant
        }

    def references(self, model: Model) -> Shapes:
        """Inputs that are read each sample."""
        return self._input_shapes(constant=False)

    def gains(self, model: Model) -> Shapes:
        """Inputs that are constant."""
        return self._input_shapes(constant=True)

    def torque(
        self, model: Model, q: Vector, v: Vector, references: Sequence[Any], gains: Sequence[Any]
    ) -> list[Scalar]:
        """The torques of the law."""
        inputs = dict(zip(self.references(model), references, strict=True))
        inputs |= dict(zip(self.gains(model), gains, strict=True))
        f = self.function
        rest = [inputs[f.name_in(k)] for k in range(2, f.n_in())]
        return _evaluate_casadi(f, [q, v, *rest])


def _evaluate_casadi(f: casadi.Function, inputs: Sequence[Sequence[Any]]) -> list[Scalar]:
    """A CasADi function on scalars of any type, instruction by instruction."""
    import casadi

    operations: dict[int, Callable[..., Any]] = {
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
        elif code in operations:
            work[o[0]] = operations[code](*(work[j] for j in i))
        else:
            known = "sums, products, quotients, square roots, sin, cos, tan, atan2, sign, fabs"
            accepted = f"{known}, fmin and fmax are accepted"
            raise InvalidArgument("feedback: CasADi operation", code, accepted)
    return output
