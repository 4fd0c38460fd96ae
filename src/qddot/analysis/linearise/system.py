"""Linear systems with named states and inputs: sampling, modes, regulators. No mechanics here."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from qddot.analysis.linearise.modes import Modes, largest_is_one
from qddot.display.text import Readable
from qddot.errors import (
    InvalidArgument,
    MissingPackage,
    Uncontrollable,
    UnknownName,
    Unsupported,
    WrongType,
    count_text,
)

__all__ = ["Directions", "LinearModel", "Lqr", "square_matrix"]

Weights = float | ArrayLike | Mapping[str, float] | None

_SLOW = 1e-6
"""How much smaller than the largest an eigenvalue has to be to count as zero at all."""
_UNREACHED, _NAMED = 1e-10, 1e-6
_TERMS = 6
_UNSEEN = "there is no regulator: every mode that does not die out needs a weight"


@dataclass(frozen=True, repr=False)
class Directions:
    """Combinations of states (rows of `weights`) that no input moves.

    Together they evolve by themselves, with these eigenvalues (of the sampled system, if it is).
    """

    weights: np.ndarray
    eigenvalues: np.ndarray
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def combinations(self) -> tuple[str, ...]:
        """The combinations in words, such as "q[left] − q[right]"."""
        return tuple(_sum_text(row, self.names) for row in self.weights)

    def __repr__(self) -> str:
        return "\n".join(self.combinations) or "nothing: inputs move every state"


@dataclass(frozen=True, repr=False)
class LinearModel:
    """ẋ = A x + B u about a state, or x⁺ = A x + B u every `dt` seconds.

    x = (δq, δv) is the step from (q, v) on the tangent space: δq = difference(q, now); u = δτ of
    the joints with a motor. `a` is the acceleration of the state itself: 0 at an equilibrium.
    Leading axes of A, B, q, v, tau and a are batch.
    """

    A: np.ndarray
    B: np.ndarray
    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray
    a: np.ndarray
    state_names: tuple[str, ...]
    input_names: tuple[str, ...]
    dt: float | None = None

    def __repr__(self) -> str:
        batch = f" at {self.A.shape[:-2]} states" if self.A.ndim > 2 else ""
        sampled = f", sampled every {self.dt:g} s" if self.dt else ""
        inputs = count_text(len(self.input_names), "input")
        sizes = f"{count_text(len(self.state_names), 'state')}, {inputs}"
        return f"<LinearModel{batch}: {sizes}{sampled}>"

    def __getitem__(self, index: Any) -> LinearModel:
        arrays = ("A", "B", "q", "v", "tau", "a")
        return dataclasses.replace(self, **{name: getattr(self, name)[index] for name in arrays})

    def discretise(self, dt: float) -> LinearModel:
        """The model sampled every `dt` seconds, u held between samples: exact (Van Loan 1978)."""
        if self.dt is not None:
            raise Unsupported("discretise", self.dt, "the model is sampled already")
        if not (isinstance(dt, float | int | np.number) and 0.0 < dt < math.inf):
            raise InvalidArgument("discretise: dt", dt, "it is a time in seconds, more than 0")
        n, m = self.B.shape[-2:]
        # the exponential of [[A, B], [0, 0]] dt has both matrices in its upper rows
        block = np.zeros((*self.A.shape[:-2], n + m, n + m))
        block[..., :n, :n], block[..., :n, n:] = self.A, self.B
        held = _matrix_exponential(block * dt)
        return dataclasses.replace(self, A=held[..., :n, :n], B=held[..., :n, n:], dt=float(dt))

    def modes(self) -> Modes:
        """The modes of A with their damping; the shapes are those of δq."""
        self._check_single("modes")
        rates, shapes = _mode_rates(self.A, self.dt)
        # a rate of −∞ is that of a state that one sample wipes out
        kept = np.flatnonzero((rates.imag >= 0.0) & np.isfinite(rates))
        kept = kept[np.lexsort((np.abs(rates[kept]), -np.maximum(rates[kept].real, 0.0)))]
        names = tuple(name[2:-1] for name in self.state_names[: len(rates) // 2])
        return Modes(rates[kept], largest_is_one(shapes[: len(names), kept]), names)

    def uncontrollable(self) -> Directions:
        """Combinations of states that no input moves.

        They are found by the staircase of reachable states (Rosenbrock 1970).
        """
        self._check_single("uncontrollable")
        rows, free = _unreachable_states(self.A, self.B)
        return Directions(_reduced_echelon(rows), linalg.eigvals(free), self.state_names)

    def lqr(self, Q: Weights = None, R: Weights = None) -> Lqr:
        """The regulator u = −K x that minimises ∫ xᵀQx + uᵀRu (the sum over samples, if sampled).

        Weights are a number, one a state (input), a matrix, or {name: weight} with 0 for the rest;
        1 by default. Modes that no input moves must die out by themselves, or it is refused.
        """
        self._check_single("lqr")
        if not self.input_names:
            raise InvalidArgument("lqr", self.input_names, "it needs an input: actuate a joint")
        Q = _weight_matrix("lqr: Q", Q, self.state_names, least=-1e-12)
        R = _weight_matrix("lqr: R", R, self.input_names, least=1e-300)
        self._check_stabilisable()
        # gains, and the closed loop that they make
        cost, K = self._solve_riccati(Q, R)
        closed = dataclasses.replace(self, A=self.A - self.B @ K)
        if K.size and _mode_rates(closed.A, self.dt)[0].real.max() >= 0.0:
            raise InvalidArgument("lqr: Q", Q.tolist(), _UNSEEN)
        return Lqr(K, cost, closed, self.uncontrollable())

    def _solve_riccati(self, Q: np.ndarray, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The solution of the algebraic Riccati equation, and the gains."""
        solver = linalg.solve_continuous_are if self.dt is None else linalg.solve_discrete_are
        try:
            cost = solver(self.A, self.B, Q, R)
        except linalg.LinAlgError as error:
            raise InvalidArgument("lqr: Q", Q.tolist(), _UNSEEN) from error
        BtS = self.B.T @ cost
        if self.dt is None:
            return cost, linalg.solve(R, BtS, assume_a="pos")
        return cost, linalg.solve(R + BtS @ self.B, BtS @ self.A, assume_a="pos")

    def to_control(
        self, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
    ) -> Any:
        """A StateSpace of python-control with these inputs and states as outputs (all of them).

        `control.ss2tf` makes transfer functions of it.
        """
        self._check_single("to_control")
        try:
            import control
        except ImportError as error:
            raise MissingPackage("control", "to_control", "qddot[control]") from error
        u = _name_indices("input", self.input_names, inputs)
        y = _name_indices("state", self.state_names, outputs)
        return control.ss(
            self.A,
            self.B[:, u],
            np.eye(len(self.A))[y],
            np.zeros((len(y), len(u))),
            self.dt or 0,
            states=list(self.state_names),
            inputs=[self.input_names[k] for k in u],
            outputs=[self.state_names[k] for k in y],
        )

    def _check_single(self, what: str) -> None:
        """Refuse a batch, and entries that are not finite."""
        if self.A.ndim != 2:
            batch = f"a batch of shape {self.A.shape[:-2]}"
            raise InvalidArgument(what, batch, "it needs one state, such as model[0]")
        if not (np.isfinite(self.A).all() and np.isfinite(self.B).all()):
            raise InvalidArgument(what, "NaN", "A and B need to be finite: look at q, v and tau")

    def _check_stabilisable(self) -> None:
        """Refuse to regulate modes that no input moves and that do not die out."""
        rows, free = _unreachable_states(self.A, self.B)
        rates, _ = _mode_rates(free, self.dt)
        lasting = rates.real >= 0.0
        if not lasting.any():
            return
        # rows that span the combinations of the eigenvalues that die out last
        count, basis = int(lasting.sum()), np.eye(len(free))
        roots = linalg.eigvals(free)
        order = np.sort(roots.real if self.dt is None else np.abs(roots))[::-1]
        if count < len(order):
            cut = 0.5 * (order[count - 1] + order[count])
            shifted = free - cut * np.eye(len(free)) if self.dt is None else free / cut
            side = "rhp" if self.dt is None else "ouc"
            _, basis, count = linalg.schur(shifted.T, sort=side)
        combinations = _reduced_echelon(basis[:, :count].T @ rows)
        behaviour = []
        for s in rates[lasting]:
            motion = f"oscillation at {abs(s.imag):.3g} rad/s" if s.imag else "motion"
            rate = f"grows by {s.real:.3g} 1/s" if s.real > 0.0 else "does not die out"
            behaviour.append(f"{motion} that {rate}")
        raise Uncontrollable((_sum_text(x, self.state_names) for x in combinations), behaviour)


@dataclass(frozen=True, repr=False)
class Lqr(Readable):
    """A linear-quadratic regulator u = −K x; xᵀ `cost` x is what is left to pay from x on.

    In torques: tau = model.tau − K [difference(model.q, q); v − model.v]. `closed` is the model
    with the regulator in place, `uncontrollable` what it cannot move.
    """

    K: np.ndarray
    cost: np.ndarray = field(repr=False)
    closed: LinearModel
    uncontrollable: Directions


_PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
    10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip


def _matrix_exponential(A: np.ndarray) -> np.ndarray:
    """exp A of one matrix or many at once: Padé 13, scaling and squaring (Higham 2005)."""
    size = float(np.nan_to_num(np.abs(A).sum(axis=-2)).max(initial=0.0))
    halvings = max(0, math.ceil(math.log2(max(size, 1e-300) / 5.37)))
    A = A / 2.0**halvings
    powers = [np.broadcast_to(np.eye(A.shape[-1]), A.shape), A @ A]
    powers += [powers[1] @ powers[1], powers[1] @ powers[1] @ powers[1]]

    def half(first: int) -> np.ndarray:
        """Every other term of the polynomial, from the first."""
        high = sum(b * X for b, X in zip(_PADE[first + 8 :: 2], powers[1:], strict=False))
        return powers[3] @ high + sum(b * X for b, X in zip(_PADE[first::2], powers, strict=False))

    # the Padé approximant, squared as often as A was halved
    odd, even = A @ half(1), half(0)
    result = np.linalg.solve(even - odd, even + odd)
    for _ in range(halvings):
        result = result @ result
    return result


def _mode_rates(A: np.ndarray, dt: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of A as rates in 1/s, and eigenvectors.

    Parts that rounding alone keeps from zero are zero: an eigenvalue is known to ε ‖A‖ over the
    overlap of its left and right eigenvectors, a double one to about √ε.
    """
    A, (scale, _) = linalg.matrix_balance(A, permute=False, separate=True)
    roots, left, right = linalg.eig(A, left=True, right=True)
    overlap = np.maximum(np.abs((left.conj() * right).sum(axis=0)), 1e-300)
    noise = 100.0 * len(A) * np.finfo(float).eps * np.abs(A).max(initial=0.0) / overlap
    noise = np.minimum(noise, _SLOW * max(1.0, np.abs(roots).max(initial=0.0)))
    if dt is not None:
        noise = noise / (dt * np.maximum(np.abs(roots), 1e-300))
        with np.errstate(divide="ignore"):
            roots = np.log(roots) / dt
    real, imaginary = (np.where(np.abs(x) <= noise, 0.0, x) for x in (roots.real, roots.imag))
    return real + 1j * imaginary, right * scale[:, None]


def _unreachable_states(A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Combinations of states that no input reaches (rows), and the matrix by which they evolve.

    States are scaled so that rows and columns of A are alike in size, inputs to unit length; then
    each step of the staircase adds what A makes of the states reached last. A multiple of the
    identity taken from A reaches nothing else, and leaves of a sampled A what matters.
    """
    n = len(A)
    A, (scale, _) = linalg.matrix_balance(A, permute=False, separate=True)
    move = A - np.eye(n) * (np.trace(A) / max(n, 1))
    move = move / max(float(np.abs(move).max(initial=0.0)), 1e-300)
    new, reached = B / scale[:, None], np.zeros((n, 0))
    new = new / np.maximum(np.linalg.norm(new, axis=0), 1e-300)
    # the staircase: add the directions that A makes of those reached last
    while new.shape[1] and reached.shape[1] < n:
        for _ in range(2):  # the second time for what rounding left
            new = new - reached @ (reached.T @ new)
        u, s, _ = linalg.svd(new, full_matrices=False)
        fresh = u[:, s > _UNREACHED]
        reached = np.hstack([reached, fresh])
        new = move @ fresh
    rest = linalg.null_space(reached.T) if reached.size else np.eye(len(A))
    return rest.T / scale, rest.T @ A @ rest


def _reduced_echelon(rows: np.ndarray) -> np.ndarray:
    """Rows that span the same, each with a 1 where all others have a 0."""
    rows, done = rows / np.abs(rows).max(axis=1, keepdims=True, initial=1e-300), []
    # Gauss–Jordan elimination with the largest pivot first
    for _ in range(len(rows)):
        left = [i for i in range(len(rows)) if i not in done]
        i, j = np.unravel_index(np.abs(rows[left]).argmax(), rows[left].shape)
        pivot = left[int(i)]
        rows[pivot] /= rows[pivot, j]
        for k in range(len(rows)):
            if k != pivot:
                rows[k] -= rows[k, j] * rows[pivot]
        done.append(pivot)
    rows = np.where(np.abs(rows) < _NAMED, 0.0, rows)
    first = (rows != 0.0).argmax(axis=1)
    rows = rows * np.sign(np.take_along_axis(rows, first[:, None], axis=1))
    return rows[np.argsort(first, kind="stable")]


def _sum_text(row: np.ndarray, names: Sequence[str]) -> str:
    """A weighted sum of names, the largest parts of it where there are many."""
    shown = sorted(np.argsort(-np.abs(row), kind="stable")[:_TERMS])
    parts = []
    for k in (k for k in shown if row[k]):
        factor = "" if abs(abs(row[k]) - 1.0) < _NAMED else f"{abs(row[k]):.3g} "
        parts += ["−" if row[k] < 0 else "+", f"{factor}{names[k]}"]
    parts += ["+ …"] if np.count_nonzero(row) > _TERMS else []
    return " ".join(parts[1:] if parts[0] == "+" else parts)


def square_matrix(what: str, given: Weights, names: Sequence[str], default: float) -> np.ndarray:
    """A matrix given as a number for all, one a name, a matrix, or {name: number}, 0 elsewhere."""
    n = len(names)
    accepted = f"it is a number, {n} of them, a {n}×{n} matrix, or {{name: number}}"
    try:
        if isinstance(given, Mapping):
            places = _name_indices("name", names, list(given), what)
            x: np.ndarray = np.zeros(n)
            x[places] = [float(y) for y in given.values()]
        else:
            x = np.asarray(default if given is None else given, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(what, given, accepted) from error
    if x.shape not in ((), (n,), (n, n)) or not np.isfinite(x).all():
        raise InvalidArgument(what, given, accepted)
    return x if x.ndim == 2 else np.diag(np.broadcast_to(x, n))


def _weight_matrix(what: str, given: Weights, names: Sequence[str], least: float) -> np.ndarray:
    """A symmetric matrix of weights with eigenvalues of at least `least`."""
    W = square_matrix(what, given, names, 1.0)
    if not np.allclose(W, W.T, rtol=1e-12, atol=0.0):
        raise InvalidArgument(what, given, "a matrix of weights is symmetric")
    size = np.abs(W).max(initial=0.0)
    if linalg.eigvalsh(W).min(initial=np.inf) < least * max(size, 1.0):
        bound = "positive" if least > 0.0 else "not negative"
        raise InvalidArgument(what, given, f"its eigenvalues need to be {bound}")
    return W


def _name_indices(
    kind: str, names: Sequence[str], wanted: Sequence[str] | None, owner: str = ""
) -> list[int]:
    """Indices of names; all of them if none are wanted."""
    if wanted is None:
        return list(range(len(names)))
    if isinstance(wanted, str):
        raise WrongType(f"{kind}s", wanted, "it is a list of names")
    for name in wanted:
        if name not in names:
            raise UnknownName(kind, name, names, owner)
    return [names.index(name) for name in wanted]
