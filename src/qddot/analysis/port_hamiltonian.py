"""The port-Hamiltonian form of a robot, passivity of a trajectory, and the worst mass matrix.

With the state x = (q, p), rates of q on the tangent space, a robot is ẋ = (J − R) ∂H/∂x + G τ. J
is skew and only moves energy about, R is positive semidefinite and loses it, G is where torques
supply it. The output Gᵀ ∂H/∂x is the velocity, so τ · v is the power supplied (van der Schaft &
Jeltsema 2014).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from qddot.display.progress import OnStep
from qddot.display.text import Readable
from qddot.errors import InvalidArgument, InvalidModel, ShapeMismatch, count_text
from qddot.model.model import Model
from qddot.robot.health import coordinate_range
from qddot.robot.interpret import as_floats
from qddot.robot.robot import Robot

__all__ = [
    "Passivity",
    "PortHamiltonian",
    "Violation",
    "WorstCondition",
    "passivity",
    "port_hamiltonian",
    "worst_condition",
]

_ROUNDING = 1e-12
_CANDIDATES = 16
_APART = 0.5
_SMALLEST_STEP = 1e-9


@dataclass(frozen=True, repr=False)
class PortHamiltonian(Readable):
    """The structure ẋ = (J − R) ∂H + G τ at a state x = (q, p), with leading batch axes.

    `H` is the stored energy, `p` the momentum, `dH` (2 nv) is ∂H/∂q, then ∂H/∂p; J and R are
    2 nv × 2 nv, G is 2 nv × nv.
    """

    H: np.ndarray
    p: np.ndarray
    dH: np.ndarray
    J: np.ndarray
    R: np.ndarray
    G: np.ndarray

    def rate(self, tau: ArrayLike) -> np.ndarray:
        """The rate ẋ: the velocity, then ṗ."""
        drift = np.einsum("...ij,...j->...i", self.J - self.R, self.dH)
        return drift + np.einsum("...ij,...j->...i", self.G, np.asarray(tau))

    @property
    def dissipation(self) -> np.ndarray:
        """The power that is lost, ∂Hᵀ R ∂H."""
        return np.einsum("...i,...ij,...j->...", self.dH, self.R, self.dH)


def port_hamiltonian(
    robot: Robot, q: ArrayLike, v: ArrayLike, *, friction: bool = False
) -> PortHamiltonian:
    """The port-Hamiltonian structure of a robot at a state.

    With `friction` the springs of the joints store energy and R holds damping and Coulomb friction,
    the latter as friction / |v|. Ball, planar and free joints have velocities in body axes; there J
    has a gyroscopic block that is linear in the momentum (the Lie–Poisson bracket of the joint).
    """
    p = robot.momentum(q, v)
    by_q, by_p = robot.hamiltonian_derivatives(q, p)
    H = robot.hamiltonian(q, p)
    n, batch = robot.nv, p.shape[:-1]
    J, R = (np.zeros((*batch, 2 * n, 2 * n)) for _ in range(2))
    # the canonical structure, and the brackets of joints with velocities in body axes
    J[..., :n, n:], J[..., n:, :n] = np.eye(n), -np.eye(n)
    for body in robot.model.independent:
        # Σ p_m c^m_jk in row k, column j, with s_j × s_k = Σ c^m_jk s_m
        at, constants = np.array(body.dofs), np.array(body.joint.brackets, dtype=float)
        J[..., n + at[:, None], n + at] = np.einsum("jkm,...m->...kj", constants, p[..., at])
    if friction:
        H = H + _spring_energy(robot.model, np.asarray(q, dtype=float))
        by_q = by_q + robot.friction(q, np.zeros(n))
        # damping, and Coulomb friction over the speed; none of that at rest
        rates = np.asarray(v, dtype=float)
        speed = np.abs(rates)
        inverse = np.divide(1.0, speed, out=np.zeros_like(speed), where=speed > 0)
        for body in robot.model.bodies:
            ratio, drive = body.joint.ratio, body.joint.drivetrain
            ahead, back = map(float, drive.friction_levels)
            for k in body.dofs:
                level = np.where(ratio * rates[..., k] < 0.0, back, ahead)
                coulomb = abs(ratio) * level * inverse[..., k]
                R[..., n + k, n + k] += ratio**2 * drive.damping + coulomb
    G = np.broadcast_to(np.vstack([np.zeros((n, n)), np.eye(n)]), (*batch, 2 * n, n))
    dH = np.concatenate(np.broadcast_arrays(by_q, by_p), axis=-1)
    return PortHamiltonian(H=H, p=p, dH=dH, J=J, R=R, G=G)


def _spring_energy(model: Model, q: np.ndarray) -> np.ndarray:
    """Energy ½ k |stretch|² of the springs of the joints."""
    total = np.zeros(q.shape[:-1])
    for body in model.bodies:
        joint, k = body.joint, body.joint.drivetrain.stiffness
        if not k:
            continue
        # rotation and translation in body axes: planar and free joints
        if len(set(joint.kind.angular)) > 1:
            reason = f"the spring of a {joint.kind.name} joint is not the gradient of an energy"
            raise InvalidModel(f"joint {joint.name!r}", reason)
        at = [q[..., i] for i in range(body.iq.start, body.iq.stop)]
        stretch = joint.kind.difference(joint.rest, joint.displacement(at))
        total = total + 0.5 * k * sum((x * x for x in stretch), np.zeros(()))
    return total


@dataclass(frozen=True)
class Violation:
    """A step in which the energy rose by more than was supplied: where, when, by how much (J)."""

    batch: tuple[int, ...]
    step: int
    time: float
    excess: float
    allowed: float

    def __str__(self) -> str:
        place = f" of trajectory {self.batch}" if self.batch else ""
        return (
            f"step {self.step}{place} (from {self.time:.6g} s): energy rose by {self.excess:.3g} J "
            f"more than was supplied, {self.allowed:.1g} J allowed for the quadrature"
        )


@dataclass(frozen=True, repr=False)
class Passivity(Readable):
    """The energy balance of a trajectory, in joules, with leading batch axes.

    `stored` is the energy at each sample; `supplied` and `dissipated` are the work of the torques
    and the loss in friction up to there; `excess` is what a step stored beyond what it was
    supplied with, to be at most `allowed`, the error of the quadrature.
    """

    time: np.ndarray
    stored: np.ndarray
    supplied: np.ndarray
    dissipated: np.ndarray
    excess: np.ndarray
    allowed: np.ndarray
    violations: tuple[Violation, ...]

    @property
    def passive(self) -> bool:
        """Whether no step stored more than it was supplied with."""
        return not self.violations

    @property
    def imbalance(self) -> np.ndarray:
        """Stored − supplied + dissipated since the start: zero on motions of the model."""
        return self.stored - self.stored[..., :1] - self.supplied + self.dissipated

    def __str__(self) -> str:
        steps = self.excess.shape[-1]
        steps_of = count_text(self.excess.size, "step")
        head = f"passive: {self.passive}, {len(self.violations)} of {steps_of} violate"
        parts = [
            f"{name} {np.min(x):.6g} … {np.max(x):.6g} J"
            for name, x in (
                ("stored", self.stored - self.stored[..., :1]),
                ("supplied", self.supplied),
                ("dissipated", self.dissipated),
                ("imbalance", self.imbalance),
            )
        ]
        listed = [str(x) for x in self.violations[:5]]
        more = [f"and {len(self.violations) - 5} more"] if len(self.violations) > 5 else []
        duration = f"{count_text(steps, 'step')}, {self.time[-1]:.6g} s"
        return "\n".join([f"{head} ({duration})", ", ".join(parts), *listed, *more])


def passivity(
    robot: Robot,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    dt: float,
    *,
    friction: bool = False,
    tolerance: float = 0.0,
) -> Passivity:
    """Check that a trajectory never stores more energy than its torques supply.

    `q` (…, N, nq) and `v` (…, N, nv) are samples `dt` apart. Torques are samples at the same times
    (…, N, nv), integrated by cubics, or held over each step (…, N − 1, nv). With `friction` springs
    store energy and losses are counted. `tolerance` (J) is allowed each step beyond the quadrature.
    """
    given = (("q", q), ("v", v), ("tau", tau))
    q, v, tau = (as_floats(f"passivity: {name}", x) for name, x in given)
    # samples whose shapes fit, and a step that is a time
    count = v.shape[-2] if v.ndim > 1 else 0
    if count < 2:
        raise ShapeMismatch("passivity", "v", f"(..., N ≥ 2, nv={robot.nv})", v.shape)
    if q.shape != (*v.shape[:-1], robot.nq):
        raise ShapeMismatch("passivity", "q", f"(..., N={count}, nq={robot.nq})", q.shape)
    rows = tau.shape[-2] if tau.ndim > 1 else 0
    if rows not in (count, count - 1) or tau.shape[-1] != robot.nv:
        expected = f"(..., N={count} or N − 1, nv={robot.nv})"
        raise ShapeMismatch("passivity", "tau", expected, tau.shape)
    if not (np.ndim(dt) == 0 and np.isfinite(dt) and dt > 0):
        raise InvalidArgument("dt", dt, "it is the time between samples, a number above zero")
    # energy at each sample, and the power lost there
    stored = robot.kinetic_energy(q, v) + robot.potential_energy(q)
    lost = np.zeros(v.shape[:-1])
    if friction:
        stored = stored + _spring_energy(robot.model, q)
        still = robot.friction(q, np.zeros(robot.nv))
        lost = np.sum((robot.friction(q, v) - still) * v, axis=-1)
    # work of each step, by a fine and by a rough quadrature
    if tau.shape[-2] == v.shape[-2]:
        power = np.sum(tau * v, axis=-1)
        work, rough = _integrate_cubic(power, dt), _integrate_trapezoid(power, dt)
    else:
        path = robot.difference(q[..., :-1, :], q[..., 1:, :])
        mean = 0.5 * dt * (v[..., :-1, :] + v[..., 1:, :])
        work, rough = (np.sum(tau * x, axis=-1) for x in (path, mean))
    excess = np.diff(stored, axis=-1) - work
    scale = np.abs(stored).max(axis=-1, initial=0.0, keepdims=True)
    # an error estimate may vanish at one step: the largest of each step and its neighbours
    error = np.pad(np.abs(work - rough), [(0, 0)] * (work.ndim - 1) + [(1, 1)], mode="edge")
    error = np.maximum(np.maximum(error[..., :-2], error[..., 1:-1]), error[..., 2:])
    allowed = error + _ROUNDING * scale + tolerance
    time = dt * np.arange(v.shape[-2])
    violations = tuple(
        Violation(tuple(map(int, at[:-1])), int(at[-1]), float(time[at[-1]]), *map(float, (e, a)))
        for at in np.argwhere(~(excess <= allowed))
        for e, a in [(excess[tuple(at)], allowed[tuple(at)])]
    )
    # sums up to each sample, zero at the first
    supplied, dissipated = (
        np.insert(np.cumsum(x, axis=-1), 0, 0.0, axis=-1)
        for x in (work, _integrate_cubic(lost, dt))
    )
    return Passivity(
        time=time,
        stored=stored,
        supplied=supplied,
        dissipated=dissipated,
        excess=excess,
        allowed=allowed,
        violations=violations,
    )


def _integrate_trapezoid(y: np.ndarray, dt: float) -> np.ndarray:
    return 0.5 * dt * (y[..., :-1] + y[..., 1:])


def _integrate_cubic(y: np.ndarray, dt: float) -> np.ndarray:
    """The integral over each step of the cubic through the four nearest samples."""
    if y.shape[-1] < 4:
        return _integrate_trapezoid(y, dt)
    result = np.empty((*y.shape[:-1], y.shape[-1] - 1))
    inner = np.array([-1.0, 13.0, 13.0, -1.0]) * dt / 24.0
    edge = np.array([9.0, 19.0, -5.0, 1.0]) * dt / 24.0
    # weights of four neighbouring samples, inside and at both ends
    windows = np.lib.stride_tricks.sliding_window_view(y, 4, axis=-1)
    result[..., 1:-1] = windows @ inner
    result[..., 0], result[..., -1] = windows[..., 0, :] @ edge, windows[..., -1, ::-1] @ edge
    return result


@dataclass(frozen=True, repr=False)
class WorstCondition(Readable):
    """Where the mass matrix is worst conditioned, as far as was searched.

    `heavy` and `light` are unit velocities of the most and the least inertia (kg m², or kg along
    prismatic joints); `sampled` and `median` are over the random configurations alone.
    """

    condition: float
    q: np.ndarray
    largest: float
    smallest: float
    heavy: np.ndarray
    light: np.ndarray
    sampled: float
    median: float
    samples: int
    names: tuple[str, ...]

    def __str__(self) -> str:
        place = ", ".join(f"{x:.4g}" for x in self.q)
        return "\n".join(
            [
                f"condition number of M up to {self.condition:.4g} "
                f"(median {self.median:.4g}, largest {self.sampled:.4g} of {self.samples} random)",
                f"at q = ({place})",
                f"heaviest {self.largest:.4g} along {_direction_text(self.names, self.heavy)}",
                f"lightest {self.smallest:.4g} along {_direction_text(self.names, self.light)}",
            ]
        )


def _direction_text(names: tuple[str, ...], direction: np.ndarray) -> str:
    """The parts of a direction that matter, largest first."""
    order = np.argsort(-np.abs(direction))
    kept = [k for k in order[:3] if abs(direction[k]) > 0.1]
    return ", ".join(f"{direction[k]:+.2f} {names[k]}" for k in kept)


def worst_condition(
    robot: Robot,
    samples: int = 1000,
    refine: int = 200,
    seed: int = 0,
    on_step: OnStep | None = None,
) -> WorstCondition:
    """Search the configurations of a robot for the worst conditioned mass matrix.

    Random configurations, then ascent of log cond M from the worst ones, within the range that
    configurations are drawn from. Where M mixes rotation and translation the number
    depends on the units.
    """
    for name, count, least in (("samples", samples, 1), ("refine", refine, 0)):
        if not isinstance(count, int | np.integer) or count < least:
            raise InvalidArgument(name, count, f"it is a whole number, at least {least}")
    if not robot.nv:
        raise InvalidArgument("worst_condition", robot.name, "needs a robot that moves")
    drawn = robot.random(seed, int(samples))
    conditions = np.exp(_log_condition(robot, drawn))
    # the worst configurations that are not near a worse one lie on several hills
    left, chosen = np.ones(len(drawn), dtype=bool), list[int]()
    while left.any() and len(chosen) < _CANDIDATES:
        chosen.append(int(np.argmax(np.where(left, conditions, -np.inf))))
        left &= np.abs(robot.difference(drawn[chosen[-1]], drawn)).max(axis=-1) > _APART
    # the range of each coordinate; quaternions have none
    lower, upper = np.full(robot.nq, -np.inf), np.full(robot.nq, np.inf)
    for body in robot.model.independent:
        if body.joint.kind.quaternion is None:
            lower[body.iq], upper[body.iq] = coordinate_range(robot.model, body)
    # uphill in log cond M, each configuration by steps of its own length
    q = drawn[chosen]
    value, step = _log_condition(robot, q), np.full(len(q), 0.3)
    for k in range(refine):
        if on_step:
            on_step("refine", k, refine)
        # the gradient of an eigenvalue is that of uᵀ M u, twice the kinetic energy
        eigenvalues, vectors = np.linalg.eigh(robot.mass_matrix(q))
        slope = np.zeros((len(q), robot.nv))
        for at, sign in ((-1, 2.0), (0, -2.0)):
            scale, u = eigenvalues[:, at, None], vectors[:, :, at]
            energy = robot.gravity(q) - robot.hamiltonian_derivatives(q, scale * u)[0]
            slope += sign * energy / scale
        # a step along the gradient; longer after a gain, shorter after a loss
        length = np.abs(slope).max(axis=-1, keepdims=True)
        move = np.divide(slope, length, out=np.zeros_like(slope), where=length > 0)
        trial = np.clip(robot.integrate(q, step[:, None] * move), lower, upper)
        found = _log_condition(robot, trial)
        better = found > value
        q = np.where(better[:, None], trial, q)
        value, step = np.where(better, found, value), step * np.where(better, 1.5, 0.4)
        if step.max() < _SMALLEST_STEP:
            break
    best = q[np.argmax(value)]
    eigenvalues, vectors = np.linalg.eigh(robot.mass_matrix(best))
    return WorstCondition(
        condition=float(np.exp(value.max())),
        q=best,
        largest=float(eigenvalues[-1]),
        smallest=float(eigenvalues[0]),
        heavy=vectors[:, -1],
        light=vectors[:, 0],
        sampled=float(conditions.max()),
        median=float(np.median(conditions)),
        samples=int(samples),
        names=robot.model.velocity_names,
    )


def _log_condition(robot: Robot, q: np.ndarray) -> np.ndarray:
    """Logarithm of the condition number of M, infinite where M is singular."""
    eigenvalues = np.linalg.eigvalsh(robot.mass_matrix(q))
    low, high = eigenvalues[..., 0], eigenvalues[..., -1]
    sound = low > 0
    return np.where(sound, np.log(high / np.where(sound, low, 1.0)), np.inf)
