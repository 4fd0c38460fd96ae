"""The plan of a rollout from what was asked for: checked, and made once for the same objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, get_args

import numpy as np

from qddot.errors import InvalidArgument, UnknownName
from qddot.model.model import Model
from qddot.robot.native import PARAMETERS
from qddot.simulate.feedback import Feedback, Sensor
from qddot.simulate.integrators import find_integrator
from qddot.simulate.lifted import lift
from qddot.simulate.plan import Hold, StepPlan
from qddot.simulate.plant import ContactLaw, Effect, Resisting, Striking

__all__ = ["planned"]

_WITH_CONTACT = ("semi_implicit", "implicit_damping")
_EFFECTS = "Friction(law), PenaltyContact and the like are; the rest is sensors=… or contact=…"
_LAW = ("references", "gains", "torque")
_FEEDBACK = "it is a law such as PD(), with its references and gains by name: q_ref=…, kp=…"
_SENSORS = "Noise, Quantisation and the like are; what acts on joints is one of the effects"


def planned(
    model: Model,
    integrator: str,
    hold: str,
    effects: Sequence[Effect],
    parameters: tuple[str, ...],
    feedback: Feedback | None,
    sensors: Sequence[Sensor],
    contact: ContactLaw | None,
    record: bool,
) -> tuple[StepPlan, list[np.ndarray]]:
    """The plan, and the arrays among the figures of its parts.

    The same objects have the same plan, and with it all that follows from it, if none of them can
    be changed.
    """
    acting, sensing = _listed("effect", effects), _listed("sensor", sensors)
    parts = (model, integrator, hold, acting, parameters, feedback, sensing, contact, record)
    each = (*parts[:3], *acting, *parameters, feedback, *sensing, contact, record)
    try:
        # no figure of a part that lasts is an array
        return _kept(_Same((len(acting), len(parameters), *map(id, each)), parts)), []
    except _Changeable:
        return _plan(*parts)


@dataclass(frozen=True)
class _Same:
    """Parts that are the same as others if they are the same objects, which stay alive with it.

    Those that are equal will not do: the seed of noise and the sign of a zero do not count there.
    """

    identity: tuple[int, ...]
    parts: tuple[Any, ...] = field(compare=False)


class _Changeable(Exception):
    """Parts of which no plan is kept."""


@lru_cache(maxsize=64)
def _kept(same: _Same) -> StepPlan:
    if not _lasting(same.parts):
        raise _Changeable
    return replace(_plan(*same.parts)[0], lasting=True)


def _lasting(part: Any) -> bool:
    """Whether nobody can change a part; arrays can be changed, and what a subclass adds."""
    if type(part) is tuple:
        return all(map(_lasting, part))
    if is_dataclass(part) and not isinstance(part, Model | type):
        told = vars(type(part)).get("__dataclass_params__")
        values = {x.name: getattr(part, x.name) for x in fields(part)}
        more = getattr(part, "__dict__", {}).keys() - values.keys()
        return bool(told and told.frozen) and not more and all(map(_lasting, values.values()))
    return part is None or isinstance(part, Model | str | float | int)


def _plan(
    model: Model,
    integrator: str,
    hold: str,
    effects: tuple[Effect, ...],
    parameters: tuple[str, ...],
    feedback: Feedback | None,
    sensors: tuple[Sensor, ...],
    contact: ContactLaw | None,
    record: bool,
) -> tuple[StepPlan, list[np.ndarray]]:
    """The plan of parts that are fit, and the arrays that leave them."""
    for name in parameters:
        if not isinstance(name, str) or name not in PARAMETERS:
            raise UnknownName("parameter", name, PARAMETERS)
    if not isinstance(record, bool | np.bool_):
        raise InvalidArgument("record", record, "it is True or False")
    _check("effect", effects, ("act", "memory", "start", "renew"), _EFFECTS)
    _check("sensor", sensors, ("read", "memory", "start"), _SENSORS)
    _check("feedback", [feedback] if feedback is not None else [], _LAW, _FEEDBACK)
    _check_together(integrator, effects, contact)
    (acting, sensing, touching), figures = lift((effects, sensors, contact))
    plan = StepPlan(
        model,
        *(find_integrator(integrator).name, _hold(hold), acting, parameters),
        *(feedback, sensing, touching),
        bool(record) or contact is not None or any(getattr(e, "recorded", False) for e in effects),
        len(figures),
    )
    return plan, figures


def _listed(what: str, parts: Sequence[Any]) -> tuple[Any, ...]:
    """Effects or sensors, of which there is a list."""
    if not isinstance(parts, list | tuple | Sequence) or isinstance(parts, str | bytes):
        raise InvalidArgument(f"{what}s", parts, f"it is a list of {what}s")
    return tuple(parts)


def _check(what: str, parts: Sequence[Any], methods: Sequence[str], known: str) -> None:
    """Refuse what lacks the methods of an effect, of a sensor or of a feedback law."""
    for part in parts:
        if isinstance(part, type) or not all(hasattr(part, name) for name in methods):
            raise InvalidArgument(what, part, known)


def _check_together(integrator: str, effects: Sequence[Effect], contact: ContactLaw | None) -> None:
    """Refuse what has no meaning together."""
    if contact is not None and (isinstance(contact, type) or not hasattr(contact, "step")):
        accepted = "it is a ComplementarityContact; a PenaltyContact is one of the effects"
        raise InvalidArgument("contact", contact, accepted)
    find_integrator(integrator)
    if contact is not None and integrator not in _WITH_CONTACT:
        accepted = f"contact by complementarity steps with {' or '.join(_WITH_CONTACT)}"
        raise InvalidArgument("integrator", integrator, accepted)
    striking = [effect for effect in effects if isinstance(effect, Striking)]
    if len(striking) > 1 or (contact is not None and striking):
        accepted = "joints have one kind of stops; contact by complementarity has its own"
        raise InvalidArgument("effect", striking[-1], accepted)
    resisting = [effect for effect in effects if isinstance(effect, Resisting)]
    for effect in resisting if integrator == "implicit_damping" else ():
        if getattr(effect, "model_damping", False):
            accepted = "implicit_damping has the damping of the model already: damping=False"
            raise InvalidArgument("effect", effect, accepted)


def _hold(hold: str) -> Hold:
    """How torques are held between samples."""
    for known in get_args(Hold):
        if isinstance(hold, str) and hold == known:
            return known
    raise InvalidArgument("hold", hold, "it is 'zero' or 'linear'")
