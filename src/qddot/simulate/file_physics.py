"""The physics of the description in a rollout: damping, friction, springs, limits and armature.

They act unless they are switched off by name, or an effect that was given takes their place. What
of a description is in no rollout, such as tendons, is told in notes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qddot.algorithms.mass_matrix import mass_matrix
from qddot.errors import InvalidArgument, UnknownName, count_text
from qddot.model.model import Model, bodies_with_limits
from qddot.robot.robot import Robot
from qddot.simulate.contact.stops import RigidStops
from qddot.simulate.drivetrain.backlash import Backlash
from qddot.simulate.drivetrain.friction import Friction, ModelLosses
from qddot.simulate.drivetrain.parameters import values_by_dof
from qddot.simulate.integrators import find_integrator
from qddot.simulate.layout import columns
from qddot.simulate.plant import ContactLaw, ContactLoads, Effect

__all__ = [
    "PASSIVE",
    "PHYSICS",
    "FilePhysics",
    "choose_integrator",
    "find_physics",
    "parse_without",
    "switch_off",
]

PASSIVE = ("damping", "friction", "springs", "limits")
"""Torques that joints have without motors, together "passive"."""
PHYSICS = (*PASSIVE, "armature")
"""Physics of a description that a rollout has unless it is switched off by name."""
_DAMPING_PARAMETERS = {"friction", "directional_friction", "inertia", "armature"}
"""Parameters of a batch with which no bound on the rates of damping is known."""
_MILD = 0.5
"""Rate of damping times Δt up to which it is stable at the stages of an integrator."""
_MILD_SPRING = 1.0
"""Angular frequency of springs times Δt up to which they are stable at the stages."""
_UNDAMPED_TEETH = 1.6e-3
"""ω Δt of teeth up to which the end of the step takes at most 1 % of their energy a period."""
_CONFIGURATIONS, _MARGIN = 8, 1.5
"""Configurations at which rates are computed, and the margin for all others."""
_MOST_NOTES = 4


@dataclass(frozen=True)
class FilePhysics:
    """The physics of a description in a step: the model, all effects, and notes on the rest.

    Its own effects act after those that were given. `damped` says that the step takes the damping
    of the joints of the model at its end (`damped_step` of its integrator).
    """

    model: Model
    effects: tuple[Effect, ...]
    damped: bool
    notes: tuple[str, ...]


def parse_without(without: Any) -> tuple[str, ...]:
    """Words of PHYSICS, in its order; "passive" stands for damping, friction, springs, limits."""
    words = (without,) if isinstance(without, str) else without
    if not isinstance(words, Sequence):
        accepted = f"it is a list of {', '.join(PHYSICS)}, or 'passive' for the first four"
        raise InvalidArgument("without", without, accepted)
    for word in words:
        if not isinstance(word, str) or word not in (*PHYSICS, "passive"):
            raise UnknownName("physics of a description", word, (*PHYSICS, "passive"))
    named = {*words, *(PASSIVE if "passive" in words else ())}
    return tuple(word for word in PHYSICS if word in named)


def choose_integrator(
    name: str | None, effects: Sequence[Effect], contact: ContactLaw | None
) -> str:
    """The integrator of this name; by default rk4, and semi_implicit where there is contact."""
    if name is not None:
        return find_integrator(name).name
    touching = contact is not None or any(isinstance(x, ContactLoads) for x in effects)
    return "semi_implicit" if touching else "rk4"


def find_physics(
    model: Model,
    without: Sequence[str],
    *,
    dt: float,
    integrator: str,
    effects: Sequence[Effect] = (),
    contact: ContactLaw | None = None,
    parameters: Sequence[str] = (),
) -> FilePhysics:
    """The physics of a description beside the effects, contact and parameters of a rollout.

    An effect may take the place of words of PHYSICS (`in_place_of`), and so does contact by
    complementarity of limits. Damping and springs act at the stages of an integrator while they are
    slow enough for its step, and else by the velocity at the end of the step.
    """
    replaced = {word for effect in effects for word in getattr(effect, "in_place_of", ())}
    without = tuple(word for word in without if word not in replaced)
    # parameters of a batch are not switched off
    words = {
        "armature": ("armature",),
        "friction": PASSIVE[:3],
        "directional_friction": PASSIVE[:3],
    }
    for name in parameters:
        if words.get(name) and set(words[name]) <= set(without):
            accepted = f"{name!r} is one of the parameters: leave it in, or give no array for it"
            raise InvalidArgument("without", tuple(without), accepted)
    # backlash takes the place of the springs of its joints alone
    teeth = tuple(
        name for effect in effects if isinstance(effect, Backlash) for name in effect.joints(model)
    )
    model = switch_off(model, without, teeth)
    active = [word for word in PASSIVE if word not in without and word not in replaced]
    losses = ModelLosses(
        springs="springs" in active,
        damping="damping" in active,
        friction="friction" in active,
        teeth=teeth,
    )
    notes = _note_teeth(model, effects, dt)
    # physics of the description that no rollout has
    ignored = [f for f in model.health if f.kind == "ignored" and f.severity == "warning"]
    notes += [f"{f.subject}: {f.message}" for f in ignored[:_MOST_NOTES]]
    if len(ignored) > _MOST_NOTES:
        notes.append(f"{len(ignored) - _MOST_NOTES} more of its features are ignored: see health")
    if model.polynomial_couplings:
        count = count_text(len(model.polynomial_couplings), "nonlinear coupling")
        notes.append(f"{count} of joints left open")
    # losses at the stages of the integrator or at the end of its step
    found: list[Effect] = []
    damped = False
    given = bool({"friction", "directional_friction"} & set(parameters))
    drives = [body.joint.drivetrain for body in model.bodies]
    lossy = any(x.damping or any(x.friction_levels) or x.stiffness for x in drives)
    if any(x in active for x in PASSIVE[:3]) and (given or lossy):
        losses, fast = _time_losses(model, losses, dt, integrator, parameters)
        notes += fast
        # semi-implicit steps take the damping of joints at their end
        damped = losses.damping and find_integrator(integrator).damped_step is not None
        damped = damped and not teeth
        found.append(replace(losses, damping=losses.damping and not damped))
    if "limits" in active and contact is None and bodies_with_limits(model):
        found.append(RigidStops())
    if without:
        notes.append(f"switched off: {', '.join(without)}")
    if contact is None and not set(parameters) & _DAMPING_PARAMETERS:
        effects = _time_friction(model, effects, dt, integrator)
    notes += [f"{f.subject}: {f.message}" for f in model.health if f.kind == "left out"]
    return FilePhysics(model, (*effects, *found), damped, tuple(notes))


def switch_off(model: Model, without: Sequence[str], teeth: Sequence[str] = ()) -> Model:
    """The model without damping, friction, springs or armature of its joints; teeth stay stiff."""
    zero: dict[str, Any] = {}
    for word, fields in (
        ("damping", {"damping": 0.0}),
        ("friction", {"friction": 0.0, "backward_friction": None}),
        ("springs", {"stiffness": 0.0}),
        ("armature", {"armature": 0.0, "rotor_inertia": 0.0}),
    ):
        zero |= fields if word in without else {}
    bodies = []
    for body in model.bodies:
        drive = body.joint.drivetrain
        stays = ("stiffness",) if body.joint.name in teeth else ()
        off = {name: x for name, x in zero.items() if name not in stays}
        if any(getattr(drive, name) for name in off):
            joint = replace(body.joint, drivetrain=replace(drive, **off))
            body = replace(body, joint=joint)
        bodies.append(body)
    changed = any(a is not b for a, b in zip(bodies, model.bodies, strict=True))
    return replace(model, bodies=tuple(bodies)) if changed else model


def _time_losses(
    model: Model, losses: ModelLosses, dt: float, integrator: str, parameters: Sequence[str]
) -> tuple[ModelLosses, list[str]]:
    """Losses with damping and springs at the stages of the integrator or at the end of the step.

    A note tells of springs that are too fast for the stages.
    """
    if set(parameters) & _DAMPING_PARAMETERS:
        return losses, []
    at_start = find_integrator(integrator).forces_at_start
    if at_start and not losses.springs:
        return losses, []
    damping, frequency = _fastest_rates(model)
    staged = []
    if losses.damping and damping * dt <= _MILD and not at_start:
        staged.append("damping")
    if frequency * dt <= _MILD_SPRING:
        staged.append("springs")
        return replace(losses, at_stages=tuple(staged)), []
    note = (
        f"springs of joints taken at the end of the step, which damps them: ω Δt = "
        f"{frequency * dt:.2g} is above {_MILD_SPRING:g}; steps of "
        f"{_MILD_SPRING / frequency:.2g} s resolve them"
    )
    return replace(losses, at_stages=tuple(staged)), [note] if losses.springs else []


def _time_friction(
    model: Model, effects: Sequence[Effect], dt: float, integrator: str
) -> tuple[Effect, ...]:
    """Effects whose viscous friction is slow enough for the stages, with it there."""
    if find_integrator(integrator).forces_at_start:
        return tuple(effects)
    timed = []
    for effect in effects:
        if isinstance(effect, Friction) and not effect.at_stages:
            laws = values_by_dof(model, effect.law)
            slopes = {k: (law.forward.viscous, law.backward.viscous) for k, law in laws.items()}
            numbers = [x for pair in slopes.values() for x in pair]
            if all(isinstance(x, float | int | np.number | np.ndarray) for x in numbers):
                more = {k: float(np.max([*map(np.max, pair)])) for k, pair in slopes.items()}
                slow = any(more.values()) and _fastest_rates(model, more)[0] * dt <= _MILD
                effect = replace(effect, at_stages=slow)
        timed.append(effect)
    return tuple(timed)


def _note_teeth(model: Model, effects: Sequence[Effect], dt: float) -> list[str]:
    """A note on teeth whose vibration the end of the step damps by more than a little."""
    notes = []
    for effect in effects:
        if isinstance(effect, Backlash) and not effect.at_stages:
            _, frequency = _fastest_rates(model, stiffness=effect.stiffness_by_dof(model))
            if frequency * dt > _UNDAMPED_TEETH:
                steps = min(dt, _MILD_SPRING / frequency)
                notes.append(
                    "teeth of a backlash are taken at the end of the step, which damps their "
                    f"vibration: ω Δt = {frequency * dt:.2g}; with Backlash(…, at_stages=True) "
                    f"steps of {steps:.2g} s do not"
                )
    return notes


def _fastest_rates(
    model: Model,
    viscous: Mapping[int, float] | None = None,
    stiffness: Mapping[int, float] | None = None,
) -> tuple[float, float]:
    """Bounds on the rate (1/s) of damping alone, and on the frequency (rad/s) of springs alone.

    Largest eigenvalues of M⁻¹ D and M⁻¹ K at random configurations, with a margin. `viscous` and
    `stiffness` are damping and springs beside those of the model, by velocity index.
    """
    D, K = np.zeros(model.nv), np.zeros(model.nv)
    for total, more in ((D, viscous), (K, stiffness)):
        for dof, x in (more or {}).items():
            total[dof] += x
    for body in model.bodies:
        drive = body.joint.drivetrain
        for dof in body.dofs:
            D[dof] += drive.damping * body.joint.ratio**2
            K[dof] += drive.stiffness * body.joint.ratio**2
    if not (D.any() or K.any()):
        return 0.0, 0.0
    q = Robot(model, native=False).random(np.random.default_rng(0), _CONFIGURATIONS)
    rows = [[np.broadcast_to(x, (len(q),)) for x in row] for row in mass_matrix(model, columns(q))]
    inverse = np.linalg.inv(np.moveaxis(np.array(rows, float), -1, 0))
    largest = []
    for diagonal in (D, K):
        root = np.sqrt(diagonal)
        largest.append(float(np.linalg.eigvalsh(root[:, None] * inverse * root).max()))
    return _MARGIN * largest[0], math.sqrt(_MARGIN * largest[1])
