"""From a robot to linear algebra: linear models, equilibria and undamped modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from qddot.analysis.linearise.modes import Modes, largest_is_one
from qddot.analysis.linearise.system import LinearModel, Weights, square_matrix
from qddot.display.text import Readable
from qddot.errors import InvalidArgument, NoEquilibrium, WrongType
from qddot.robot.robot import Robot

__all__ = ["Equilibrium", "equilibrium", "linearise", "natural_modes"]

_STEP = 1e-30
_STEPS, _HALVINGS, _LONGEST_STEP = 100, 20, 0.5
_ZERO = 1e-12


@dataclass(frozen=True, repr=False)
class Equilibrium(Readable):
    """A configuration at rest and the torques that hold it, 0 at joints without a motor."""

    q: np.ndarray
    tau: np.ndarray


def linearise(
    robot: Robot,
    q: ArrayLike,
    v: ArrayLike | None = None,
    tau: ArrayLike | None = None,
    *,
    actuated: Sequence[str] | None = None,
    friction: bool = False,
    stiffness: Weights = None,
    damping: Weights = None,
) -> LinearModel:
    """The linear model of forward dynamics about a state, on the tangent space.

    `v` is 0 if not given, and `tau` what keeps v at the `actuated` joints (all, unless named).
    `friction` adds the losses and springs of the model (Coulomb friction has no slope),
    `stiffness` and `damping` springs and dampers that are at ease in this state: a number, one a
    velocity, a matrix, or {name: number}. Batches of states give batches of A and B.

    Where a joint's velocity is no rate of coordinates (ball, free, planar), δq̇ = δv − [v, δq].
    """
    n, names = robot.nv, robot.model.velocity_names
    driven = _actuated_mask(robot, actuated)
    q, v = np.asarray(q), np.zeros(n) if v is None else np.asarray(v)
    if tau is None:
        # torques of a motion without acceleration, which joints without motor must not need
        needed = robot.inverse_dynamics(q, v, np.zeros(n), friction=friction)
        size = max(1.0, np.abs(needed).max(initial=0.0))
        left = np.abs(needed[..., ~driven]).max(axis=tuple(range(needed.ndim - 1)), initial=0.0)
        if (left > 1e-6 * size).any():
            worst = str(np.array(names)[~driven][left.argmax()])
            accepted = (
                f"{worst!r} has no motor and needs {left.max():.3g} (N or N m) to keep its "
                "velocity: take a state from equilibrium, or give tau"
            )
            raise InvalidArgument("linearise: tau", None, accepted)
        tau = np.where(driven, needed, 0.0)
    a = robot.forward_dynamics(q, v, tau, friction=friction)
    net = tau - robot.friction(q, v) if friction else tau
    by_q, by_v, Minv = robot.forward_dynamics_derivatives(q, v, net)
    K = square_matrix("stiffness", stiffness, names, 0.0)
    D = square_matrix("damping", damping, names, 0.0)
    if friction:
        # ∂τ_f/∂v by complex steps, as ∂τ_f/∂q is
        faster = v[..., None, :] + 1j * _STEP * np.eye(n)
        by_speed = robot.friction(q[..., None, :], faster).imag.swapaxes(-1, -2) / _STEP
        K, D = K + _friction_by_q(robot, q, v), D + by_speed
    # x = (δq, δv): the kinematics above the dynamics
    A, B = np.zeros((*a.shape[:-1], 2 * n, 2 * n)), np.zeros((*a.shape[:-1], 2 * n, n))
    # the matrix of δ ↦ −[v, δ], joint by joint: 0 for all joints of one freedom
    for body in robot.model.independent:
        at, constants = np.array(body.dofs), np.array(body.joint.brackets, dtype=float)
        bracket = np.einsum("jkm,...j->...mk", constants, v[..., at])
        A[..., at[:, None], at] = 0.0 - bracket
    A[..., :n, n:] = np.eye(n)
    A[..., n:, :n], A[..., n:, n:] = by_q - Minv @ K, by_v - Minv @ D
    B[..., n:, :] = Minv
    q, v, tau = (np.broadcast_to(x, (*a.shape[:-1], np.shape(x)[-1])) for x in (q, v, tau))
    states = (*(f"q[{x}]" for x in names), *(f"v[{x}]" for x in names))
    inputs = tuple(f"tau[{x}]" for x, moved in zip(names, driven, strict=True) if moved)
    return LinearModel(
        A=A,
        B=B[..., driven],
        q=q,
        v=v,
        tau=tau,
        a=a,
        state_names=states,
        input_names=inputs,
    )


def equilibrium(
    robot: Robot, guess: ArrayLike, actuated: Sequence[str] | None = None, friction: bool = False
) -> Equilibrium:
    """The configuration at rest near a guess that needs torque at the `actuated` joints only.

    Those stay where the guess has them; Newton's method moves the others until gravity (and, with
    `friction`, the springs) pulls no more on them. With all joints actuated that is the guess.
    """
    free, q = ~_actuated_mask(robot, actuated), np.asarray(guess, dtype=float)
    load = _static_load(robot, q, friction)
    if load.ndim != 1 or not np.isfinite(load).all():
        raise InvalidArgument("equilibrium: guess", guess, "it needs one configuration, all finite")
    for _ in range(_STEPS):
        if not _imbalance_mask(load, free, 1e-12).any():
            break
        # a step of Newton's method on the joints without a motor
        K = _static_stiffness(robot, q, friction)[np.ix_(free, free)]
        step = np.zeros(robot.nv)
        step[free] = linalg.lstsq(K, -load[free], cond=1e-10)[0]
        step *= min(1.0, _LONGEST_STEP / max(np.abs(step).max(), 1e-300))
        # halved until the load is less
        before = np.linalg.norm(load[free])
        for share in 0.5 ** np.arange(_HALVINGS):
            moved = robot.integrate(q, share * step)
            trial = _static_load(robot, moved, friction)
            if np.linalg.norm(trial[free]) < (1.0 - 1e-4 * share) * before:
                q, load = moved, trial
                break
        else:
            break
    left = np.flatnonzero(_imbalance_mask(load, free, 1e-9))
    if left.size:
        names = robot.model.velocity_names
        raise NoEquilibrium(robot.name, {names[k]: float(load[k]) for k in left})
    return Equilibrium(q, np.where(free, 0.0, load))


def natural_modes(
    robot: Robot, q: ArrayLike, stiffness: Weights = None, springs: bool = True
) -> Modes:
    """The undamped modes (∂g/∂q + K) φ = ω² M φ about a configuration held by constant torques.

    K has the springs of the model unless told otherwise, and a `stiffness` of your own: a number,
    one a velocity, a matrix, or {name: number}. ω² < 0 gives a mode that grows by √−ω². Of the
    left side the symmetric part counts; the rest is 0 but where a ball, free or planar joint
    carries torque. Batches of configurations give batches of modes.
    """
    q, names = np.asarray(q), robot.model.velocity_names
    K = _static_stiffness(robot, q, springs) + square_matrix("stiffness", stiffness, names, 0.0)
    Minv = robot.inverse_mass_matrix(q)
    if not (np.isfinite(K).all() and np.isfinite(Minv).all()):
        raise InvalidArgument("natural_modes: q", q, "it needs to be finite")
    # with M⁻¹ = L Lᵀ the problem is that of Lᵀ K L, and φ = L y
    L = np.linalg.cholesky(Minv)
    squared, y = np.linalg.eigh(L.swapaxes(-1, -2) @ (0.5 * (K + K.swapaxes(-1, -2))) @ L)
    noise = _ZERO * np.abs(squared).max(axis=-1, keepdims=True, initial=0.0)
    squared = np.where(np.abs(squared) <= noise, 0.0, squared)
    roots = np.sqrt(np.maximum(-squared, 0.0)) + 1j * np.sqrt(np.maximum(squared, 0.0))
    return Modes(roots, largest_is_one(L @ y), names)


def _actuated_mask(robot: Robot, actuated: Sequence[str] | None) -> np.ndarray:
    """True at the velocities that have a motor."""
    driven = np.full(robot.nv, actuated is None)
    if isinstance(actuated, str):
        raise WrongType("actuated", actuated, "it is a list of names of joints")
    for name in actuated or ():
        body = robot.model.body_of_joint(name)
        if body.joint.leader is not None:
            raise InvalidArgument("actuated", name, f"it follows {body.joint.leader!r}; name that")
        driven[body.iv] = True
    return driven


def _friction_by_q(robot: Robot, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """∂τ_f/∂q of the joint losses and springs, by complex steps."""
    moved = robot.integrate(q[..., None, :].astype(complex), 1j * _STEP * np.eye(robot.nv))
    return robot.friction(moved, v[..., None, :]).imag.swapaxes(-1, -2) / _STEP


def _static_load(robot: Robot, q: np.ndarray, springs: bool) -> np.ndarray:
    """Torques that hold the robot at rest."""
    still = np.zeros(robot.nv)
    return robot.inverse_dynamics(q, still, still, friction=springs)


def _static_stiffness(robot: Robot, q: np.ndarray, springs: bool) -> np.ndarray:
    """Derivative of the static load by the configuration, on the tangent space."""
    K = robot.gravity_derivatives(q)
    return K + _friction_by_q(robot, q, np.zeros(robot.nv)) if springs else K


def _imbalance_mask(load: np.ndarray, free: np.ndarray, tolerance: float) -> np.ndarray:
    """True where the load on joints without a motor is more than rounding."""
    return free & (np.abs(load) > tolerance * max(1.0, np.abs(load).max(initial=0.0)))
