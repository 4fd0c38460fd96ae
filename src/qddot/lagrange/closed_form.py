"""The closed form of a robot's dynamics by Lagrange's equations, and its proof against RNEA.

T and V come from the positions and velocities of the bodies; the rest follows by differentiation:
M = ∂²T/∂q̇², Γ_ijk = ½ (∂M_ij/∂q_k + ∂M_ik/∂q_j − ∂M_jk/∂q_i), C_ij = Σ Γ_ijk q̇_k and g = ∂V/∂q.
Nothing of the recursive algorithms is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy

from qddot.algorithms.energy import kinetic_energy, potential_energy
from qddot.errors import NoClosedForm, NotUnderstood, UnknownName
from qddot.joints import Drivetrain
from qddot.lagrange.harmonics import Angle, Ring, Sum
from qddot.lagrange.naming import Parameter, named_model, record, tensor_label
from qddot.lagrange.readable import Reader
from qddot.model import Model
from qddot.robot import Robot

__all__ = ["ClosedForm", "Coordinate", "derive"]

_MOST_FREEDOMS = 4
_MOST_TERMS = 5_000

OnStep = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Coordinate:
    """A coordinate: its symbol, those of its rate and acceleration, and what it is."""

    q: sympy.Symbol
    v: sympy.Symbol
    a: sympy.Symbol
    meaning: str
    passive: bool = False


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """The equations of motion M(q) q̈ + C(q, q̇) q̇ + g(q) = τ in symbols.

    `T` and `V` are the energies, `Gamma[i][j][k]` the Christoffel symbols of the first kind, `c`
    is C q̇. The rates of a planar joint are those of its coordinates, not velocities in body
    axes. `robot` is the robot in numbers; `notes` say what was rounded or left out.
    """

    name: str
    coordinates: tuple[Coordinate, ...]
    parameters: tuple[Parameter, ...]
    T: sympy.Expr
    V: sympy.Expr
    M: sympy.Matrix
    Gamma: tuple[tuple[tuple[sympy.Expr, ...], ...], ...]
    C: sympy.Matrix
    c: sympy.Matrix
    g: sympy.Matrix
    robot: Robot
    notes: tuple[str, ...] = ()

    @property
    def tau(self) -> sympy.Matrix:
        """The torques M q̈ + C q̇ + g."""
        return self.M * sympy.Matrix([x.a for x in self.coordinates]) + self.c + self.g

    @property
    def values(self) -> dict[sympy.Symbol, float]:
        """The number of each parameter."""
        return {sympy.Symbol(p.name): p.value for p in self.parameters}


def derive(
    source: Robot | Model,
    *,
    numbers: bool = False,
    symbols: Sequence[str] | None = None,
    passive: Sequence[str] = (),
    on_step: OnStep | None = None,
) -> ClosedForm:
    """The closed form of a robot with at most four degrees of freedom.

    Every parameter is a symbol; with `numbers` none is, with `symbols` only those named. Joints
    named in `passive` have no torque. Friction and springs are not part of it.
    """
    if not isinstance(source, Robot | Model):
        raise NotUnderstood("source", source, "needs a Robot; qddot.load gives one")
    robot = source if isinstance(source, Robot) else Robot(source)
    model = robot.model
    _check(model, passive)
    tidy, parameters, notes = record(model)
    kept = _kept(parameters, numbers, symbols)
    ring = _ring(model, [p for p in parameters if p.name in kept])
    T, V = _energies(tidy if notes else model, ring, kept)
    names = _final_names(ring, T.used() | V.used())
    form = _Derivation(model.name, ring, names, model.nv, on_step).run(T, V)
    used = [p for p in parameters if p.name in kept & (T.used() | V.used())]
    return ClosedForm(
        name=model.name,
        coordinates=_coordinates(model, passive),
        parameters=tuple(Parameter(names[p.name], p.value, p.unit, p.meaning) for p in used),
        robot=Robot(tidy, robot.native) if notes else robot,
        notes=(*notes, *_left_out(model)),
        **form,
    )


def _check(model: Model, passive: Sequence[str]) -> None:
    """Refuse what has no closed form worth writing."""
    for body in model.bodies:
        kind = body.joint.kind.name
        if kind in ("ball", "free"):
            reason = (
                f"joint {body.joint.name!r} is {'a ball joint' if kind == 'ball' else 'free'}; "
                "its quaternion has more coordinates than freedoms, and Lagrange's equations need "
                "as many of one as of the other; "
                + ("load it with base='fixed', or " if kind == "free" else "")
                + f"lock it with without_joint({body.joint.name!r})"
            )
            raise NoClosedForm(model.name, reason)
    if not model.nv:
        raise NoClosedForm(model.name, "it has no degree of freedom")
    if model.nv > _MOST_FREEDOMS:
        spare = model.joint_names[-(model.nv - _MOST_FREEDOMS) :]
        reason = (
            f"it has {model.nv} degrees of freedom, at most {_MOST_FREEDOMS} are written out; lock "
            f"joints with without_joint (--lock on the command line), for instance "
            f"{', '.join(map(repr, spare))}"
        )
        raise NoClosedForm(model.name, reason)
    for name in passive:
        if name not in model.joint_names:
            raise UnknownName("joint", name, model.joint_names, model.name)


def _kept(
    parameters: Sequence[Parameter], numbers: bool, symbols: Sequence[str] | None
) -> set[str]:
    """The names of the parameters that stay symbols; I1 stands for any moment of body 1."""
    if symbols is None:
        return set() if numbers else {p.name for p in parameters}
    if numbers:
        raise NotUnderstood("symbols", symbols, "numbers=True leaves none")
    if isinstance(symbols, str):
        raise NotUnderstood("symbols", symbols, "it is a list of names")
    short = {p.name: f"I{label}" for p in parameters if (label := tensor_label(p.name))}
    known = {p.name for p in parameters} | set(short.values())
    for name in symbols:
        if name not in known:
            raise UnknownName("parameter", name, sorted(known))
    return {p.name for p in parameters if {p.name, short.get(p.name)} & set(symbols)}


def _ring(model: Model, parameters: Sequence[Parameter]) -> Ring:
    """The ring of the named parameters, the coordinates and their rates."""
    q, v = ([f"{letter}{k + 1}" for k in range(model.nv)] for letter in "qv")
    angles = dict.fromkeys(Angle(p.name) for p in parameters if p.unit == "rad")
    for body in model.bodies:
        for k, angular in zip(body.dofs, body.joint.kind.angular, strict=True):
            ratio = abs(body.joint.ratio)
            # quarters of an angle are powers of its wave; other ratios have a wave of their own
            factor = 1.0 if (4.0 * ratio).is_integer() else ratio
            if angular:
                angles[Angle(q[k], factor)] = None
    moving = sorted(angles, key=lambda a: a.symbol not in q)
    return Ring((*(p.name for p in parameters), *q, *v), tuple(moving))


def _energies(model: Model, ring: Ring, kept: set[str]) -> tuple[Sum, Sum]:
    """T(q, q̇) and V(q) as sums of the ring."""

    def number(name: str, value: float, unit: str, meaning: str) -> Sum:
        return ring.symbol(name) if name in kept else ring.number(value)

    symbolic = named_model(model, number)
    q, rates = ([ring.symbol(f"{x}{k + 1}") for k in range(model.nv)] for x in "qv")
    v: list[Any] = [0.0] * model.nv
    for body in model.independent:
        # the tangent map of joints with independent coordinates is a rotation: v = Nᵀ q̇
        N = body.joint.kind.tangent(q[body.iq])
        v[body.iv] = [
            sum((row[k] * rate for row, rate in zip(N, rates[body.iv], strict=True)), 0.0)
            for k in range(len(N))
        ]
    zero = ring.number(0.0)
    return kinetic_energy(symbolic, q, v) + zero, potential_energy(symbolic, q) + zero


def _final_names(ring: Ring, used: set[str]) -> dict[str, str]:
    """The names to write: I1 where the motion feels one moment of body 1 only."""
    labels = [tensor_label(name) for name in ring.symbols if name in used]
    return {
        name: f"I{label}" if (label := tensor_label(name)) and labels.count(label) == 1 else name
        for name in ring.symbols
    }


@dataclass(frozen=True)
class _Derivation:
    """The steps from the energies to the terms, by differentiation."""

    robot: str
    ring: Ring
    names: dict[str, str]
    n: int
    on_step: OnStep | None

    def run(self, T: Sum, V: Sum) -> dict[str, Any]:
        """All terms as expressions."""
        axes = range(self.n)
        q, v = ([f"{x}{k + 1}" for k in axes] for x in "qv")
        momentum = [T.derivative(x) for x in v]
        M = [[p.derivative(x) for x in v] for p in momentum]
        dM = [[[entry.derivative(x) for x in q] for entry in row] for row in M]
        Gamma = [
            [[(dM[i][j][k] + dM[i][k][j] - dM[j][k][i]) * 0.5 for k in axes] for j in axes]
            for i in axes
        ]
        # a sine or cosine is two waves
        self._check_size(sum(len(x.terms) for plane in Gamma for row in plane for x in row) // 2)
        rate = [self.ring.symbol(x) for x in v]
        C = [[_dot(Gamma[i][j], rate) for j in axes] for i in axes]
        read = self._reader().expression
        parts: list[tuple[str, Callable[[], Any]]] = [
            ("T", lambda: read(T)),
            ("V", lambda: read(V)),
            ("M", lambda: sympy.Matrix(_mapped(read, M))),
            ("Gamma", lambda: _mapped(read, Gamma)),
            ("C", lambda: sympy.Matrix(_mapped(read, C))),
            ("c", lambda: sympy.Matrix([read(_dot(row, rate)) for row in C])),
            ("g", lambda: sympy.Matrix([read(V.derivative(x)) for x in q])),
        ]
        results = {}
        for done, (name, part) in enumerate(parts):
            if self.on_step:
                self.on_step(name, done, len(parts))
            results[name] = part()
        return results

    def _check_size(self, terms: int) -> None:
        if terms > _MOST_TERMS:
            reason = (
                f"its Christoffel symbols have {terms} terms, more than anyone reads; lock joints "
                "with without_joint (--lock on the command line), or put numbers in (numbers=True, "
                "--numbers), or keep a few symbols only (symbols=[…], --symbols)"
            )
            raise NoClosedForm(self.robot, reason)

    def _reader(self) -> Reader:
        symbols = [sympy.Symbol(self.names[s]) for s in self.ring.symbols]
        angles = tuple(
            sympy.Symbol(self.names[a.symbol]) * (1 if a.factor == 1.0 else sympy.Float(a.factor))
            for a in self.ring.angles
        )
        inertial = tuple(k for k, s in enumerate(self.ring.symbols) if s[0] in "mI")
        return Reader(tuple(symbols), angles, inertial, len(symbols) - self.n)


def _dot(a: Iterable[Sum], b: Iterable[Sum]) -> Sum:
    products = [x * y for x, y in zip(a, b, strict=True)]
    return sum(products[1:], products[0])


def _mapped(function: Callable[[Any], Any], nested: Any) -> Any:
    """A function of every entry of nested lists, as tuples."""
    if isinstance(nested, list):
        return tuple(_mapped(function, part) for part in nested)
    return function(nested)


def _coordinates(model: Model, passive: Sequence[str]) -> tuple[Coordinate, ...]:
    """The coordinates in the order of q."""
    joints = [b.joint for b in model.independent for _ in b.joint.kind.suffixes]
    return tuple(
        Coordinate(
            sympy.Symbol(f"q{k}"),
            sympy.Symbol(f"v{k}"),
            sympy.Symbol(f"a{k}"),
            f"{name} ({joint.kind.name})",
            joint.name in passive,
        )
        for k, (name, joint) in enumerate(zip(model.velocity_names, joints, strict=True), 1)
    )


def _left_out(model: Model) -> list[str]:
    """What the model has and the closed form has not."""
    left = [
        ("loop closure", model.loops),
        ("nonlinear coupling", model.polynomial_couplings),
    ]
    notes = [f"{len(x)} {what}(s) left out: the open tree" for what, x in left if x]
    losses = [b.joint.name for b in model.bodies if _lossy(b.joint.drivetrain)]
    if losses:
        notes.append(f"friction and springs left out: {', '.join(losses)}")
    return notes


def _lossy(drive: Drivetrain) -> bool:
    return bool(drive.damping or drive.friction or drive.stiffness)
