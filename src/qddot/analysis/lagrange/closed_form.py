"""The closed form of a robot's dynamics by Lagrange's equations, and its proof against RNEA.

T and V come from the positions and velocities of the bodies; the rest follows by differentiation:
M = ∂²T/∂q̇², Γ_ijk = ½ (∂M_ij/∂q_k + ∂M_ik/∂q_j − ∂M_jk/∂q_i), C_ij = Σ Γ_ijk q̇_k and g = ∂V/∂q.
Nothing of the recursive algorithms is used.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy

from qddot.algorithms.energy import kinetic_energy, potential_energy
from qddot.analysis.lagrange.harmonics import Angle, Ring, Sum
from qddot.analysis.lagrange.naming import Parameter, collect_parameters, named_model, tensor_label
from qddot.analysis.lagrange.simplify import Simplifier
from qddot.display.progress import OnStep
from qddot.errors import NoClosedForm, UnknownName, Unsupported, WrongType, count_text
from qddot.model.model import Model
from qddot.robot.robot import Robot

__all__ = ["ClosedForm", "Coordinate", "derive"]

_MOST_FREEDOMS = 4
_MOST_TERMS = 5_000


@dataclass(frozen=True)
class Coordinate:
    """A coordinate: the symbols of it, its rate and its acceleration, and its meaning."""

    q: sympy.Symbol
    v: sympy.Symbol
    a: sympy.Symbol
    meaning: str
    passive: bool = False


@dataclass(frozen=True, eq=False, repr=False)
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

    def __repr__(self) -> str:
        lines = [f"closed form of {self.name}: M(q) q̈ + C(q, q̇) q̇ + g(q) = τ"]
        for name in ("M", "C", "g"):
            # entries that are not zero, with their places counted from one
            A = getattr(self, name)
            for i, j in itertools.product(range(A.rows), range(A.cols)):
                if A[i, j] != 0:
                    index = f"{i + 1}{j + 1}" if A.cols > 1 else f"{i + 1}"
                    lines.append(f"  {name}{index} = {sympy.sstr(A[i, j], full_prec=False)}")
        return "\n".join(lines)

    def _repr_latex_(self) -> str:
        """M, C and g in LaTeX, for notebooks."""
        rates = {x.v: rf"\dot{{q}}_{{{k + 1}}}" for k, x in enumerate(self.coordinates)}
        parts = (
            f"{name} &= {sympy.latex(getattr(self, name), symbol_names=rates, full_prec=False)}"
            for name in ("M", "C", "g")
        )
        return "$$\\begin{aligned}" + r" \\ ".join(parts) + "\\end{aligned}$$"

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
        raise WrongType("source", source, "needs a Robot; qddot.load gives one")
    robot = source if isinstance(source, Robot) else Robot(source)
    model = robot.model
    _check_derivable(model, passive)
    # the numbers of the model by name, and those that stay symbols
    tidy, parameters, notes = collect_parameters(model)
    kept = _symbol_names(parameters, numbers, symbols)
    rounded = bool(notes)
    symbolic = [p for p in parameters if p.name in kept]
    ring, T, V = _symbolic_energies(tidy if rounded else model, symbolic)
    used = T.symbols_used() | V.symbols_used()
    # I1 where the motion feels one moment of inertia of body 1 only
    labels = [tensor_label(name) for name in ring.symbols if name in used]
    names = {
        name: f"I{label}" if (label := tensor_label(name)) and labels.count(label) == 1 else name
        for name in ring.symbols
    }
    form = _Derivation(model.name, ring, names, model.nv, on_step).run(T, V)
    # coordinates in the order of q
    joints = [b.joint for b in model.independent for _ in b.joint.kind.suffixes]
    coordinates = tuple(
        Coordinate(
            q=sympy.Symbol(f"q{k}"),
            v=sympy.Symbol(f"v{k}"),
            a=sympy.Symbol(f"a{k}"),
            meaning=f"{name} ({joint.kind.name})",
            passive=joint.name in passive,
        )
        for k, (name, joint) in enumerate(zip(model.velocity_names, joints, strict=True), 1)
    )
    # notes on parts of the model that the closed form leaves out
    omitted = (("loop closure", model.loops), ("nonlinear coupling", model.polynomial_couplings))
    notes += tuple(
        f"{count_text(len(x), what)} left out: the open tree" for what, x in omitted if x
    )
    drives = {b.joint.name: b.joint.drivetrain for b in model.bodies}
    lossy = [
        name
        for name, drive in drives.items()
        if any((drive.damping, *drive.friction_levels, drive.stiffness))
    ]
    if lossy:
        notes += (f"friction and springs left out: {', '.join(lossy)}",)
    return ClosedForm(
        name=model.name,
        coordinates=coordinates,
        parameters=tuple(
            Parameter(names[p.name], p.value, p.unit, p.meaning)
            for p in parameters
            if p.name in kept & used
        ),
        robot=Robot(tidy, robot.native) if rounded else robot,
        notes=notes,
        **form,
    )


def _check_derivable(model: Model, passive: Sequence[str]) -> None:
    """Refuse quaternions, too many degrees of freedom, and unknown passive joints."""
    for body in model.bodies:
        kind = body.joint.kind
        if kind.quaternion is not None:
            reason = (
                f"joint {body.joint.name!r} is {'free' if kind.floats else 'a ball joint'}; "
                "its quaternion has more coordinates than freedoms, and Lagrange's equations need "
                "as many of one as of the other; "
                + ("load it with base='fixed', or " if kind.floats else "")
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
            f"{', '.join(map(repr, spare))}; without locks M, C and g are numbers by "
            "robot.terms(q, v), and C code by `qddot export`"
        )
        raise NoClosedForm(model.name, reason)
    for name in passive:
        if name not in model.joint_names:
            raise UnknownName("joint", name, model.joint_names, model.name)


def _symbol_names(
    parameters: Sequence[Parameter], numbers: bool, symbols: Sequence[str] | None
) -> set[str]:
    """The names of the parameters that stay symbols; I1 stands for any moment of body 1."""
    if symbols is None:
        return set() if numbers else {p.name for p in parameters}
    if numbers:
        raise Unsupported("symbols", symbols, "numbers=True leaves none")
    if isinstance(symbols, str):
        raise WrongType("symbols", symbols, "it is a list of names")
    short = {p.name: f"I{label}" for p in parameters if (label := tensor_label(p.name))}
    known = {p.name for p in parameters} | set(short.values())
    for name in symbols:
        if name not in known:
            raise UnknownName("parameter", name, sorted(known))
    return {p.name for p in parameters if {p.name, short.get(p.name)} & set(symbols)}


def _symbolic_energies(model: Model, parameters: Sequence[Parameter]) -> tuple[Ring, Sum, Sum]:
    """T(q, q̇) and V(q) as sums, and the ring of the parameters, coordinates and rates."""
    # the ring: symbols, and the angles whose sines and cosines occur
    q_names, v_names = ([f"{letter}{k + 1}" for k in range(model.nv)] for letter in "qv")
    angles = dict.fromkeys(Angle(p.name) for p in parameters if p.unit == "rad")
    for body in model.bodies:
        for k, angular in zip(body.dofs, body.joint.kind.angular, strict=True):
            ratio = abs(body.joint.ratio)
            # quarters of an angle are powers of its wave; other ratios have a wave of their own
            factor = 1.0 if (4.0 * ratio).is_integer() else ratio
            if angular:
                angles[Angle(q_names[k], factor)] = None
    moving = sorted(angles, key=lambda a: a.symbol not in q_names)
    named = {p.name for p in parameters}
    ring = Ring((*(p.name for p in parameters), *q_names, *v_names), tuple(moving))

    def number(name: str, value: float, unit: str, meaning: str) -> Sum:
        return ring.symbol(name) if name in named else ring.number(value)

    # the energies of the model with symbols for numbers, by the algorithms for numbers
    symbolic = named_model(model, number)
    q, rates = ([ring.symbol(name) for name in names] for names in (q_names, v_names))
    v: list[Any] = [0.0] * model.nv
    for body in model.independent:
        # the tangent map of joints with independent coordinates is a rotation: v = Nᵀ q̇
        N = body.joint.kind.tangent(q[body.iq])
        v[body.iv] = [
            sum((row[k] * rate for row, rate in zip(N, rates[body.iv], strict=True)), 0.0)
            for k in range(len(N))
        ]
    zero = ring.number(0.0)
    return ring, kinetic_energy(symbolic, q, v) + zero, potential_energy(symbolic, q) + zero


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
        # M = ∂²T/∂q̇², then Γ from the derivatives of M
        momentum = [T.derivative(x) for x in v]
        M = [[p.derivative(x) for x in v] for p in momentum]
        dM = [[[entry.derivative(x) for x in q] for entry in row] for row in M]
        Gamma = [
            [[(dM[i][j][k] + dM[i][k][j] - dM[j][k][i]) * 0.5 for k in axes] for j in axes]
            for i in axes
        ]
        # a sine or cosine is two waves
        self._check_size(sum(len(x.terms) for plane in Gamma for row in plane for x in row) // 2)
        # C = Γ q̇, and all terms as expressions
        rate = [self.ring.symbol(x) for x in v]
        C = [[_dot(Gamma[i][j], rate) for j in axes] for i in axes]
        read = self._reader().expression
        parts: list[tuple[str, Callable[[], Any]]] = [
            ("T", lambda: read(T)),
            ("V", lambda: read(V)),
            ("M", lambda: sympy.Matrix(_map_nested(read, M))),
            ("Gamma", lambda: _map_nested(read, Gamma)),
            ("C", lambda: sympy.Matrix(_map_nested(read, C))),
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

    def _reader(self) -> Simplifier:
        symbols = [sympy.Symbol(self.names[s]) for s in self.ring.symbols]
        angles = tuple(
            sympy.Symbol(self.names[a.symbol]) * (1 if a.factor == 1.0 else sympy.Float(a.factor))
            for a in self.ring.angles
        )
        inertial = tuple(k for k, s in enumerate(self.ring.symbols) if s[0] in "mI")
        return Simplifier(tuple(symbols), angles, inertial, len(symbols) - self.n)


def _dot(a: Iterable[Sum], b: Iterable[Sum]) -> Sum:
    products = [x * y for x, y in zip(a, b, strict=True)]
    return sum(products[1:], products[0])


def _map_nested(function: Callable[[Any], Any], nested: Any) -> Any:
    """A function of every entry of nested lists, as tuples."""
    if isinstance(nested, list):
        return tuple(_map_nested(function, part) for part in nested)
    return function(nested)
