"""Simulators: a robot with its integrator, effects, feedback law, sensors and contact, compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.kinematics import ReferenceAxes
from qddot.compile.kernel import Kernel
from qddot.display.progress import OnStep
from qddot.errors import InvalidArgument, UnknownName, Unsupported, refuse_endless_recursion
from qddot.robot.health import refuse_singular
from qddot.robot.law import Law, record_law
from qddot.robot.native import PARAMETERS
from qddot.robot.robot import Robot
from qddot.simulate.arguments import (
    loop_arguments,
    positive_number,
    real_array,
    require_samples,
    sample_count,
)
from qddot.simulate.batch_parameters import extract_arrays, is_immutable
from qddot.simulate.feedback import Controller, FeedbackTime, Sensor
from qddot.simulate.feedback_time import choose_feedback_time, law_notes
from qddot.simulate.file_physics import (
    FilePhysics,
    choose_integrator,
    find_physics,
    parse_without,
)
from qddot.simulate.function_law import TorqueFunction, require_plain_steps, run_function_law
from qddot.simulate.integrators import INTEGRATORS, find_integrator
from qddot.simulate.loops import close_start, find_loops
from qddot.simulate.plant import (
    ContactLaw,
    ContactLoads,
    Effect,
    ImpactEffect,
    ImplicitEffect,
)
from qddot.simulate.rollout import Rollout, run_steps
from qddot.simulate.step import Hold, Step

__all__ = ["Simulator", "make_simulator", "rollout"]

_EFFECT_METHODS = ("act", "state_size", "initial_state", "update")
_LAW_METHODS = ("references", "senses", "memory", "command")


@dataclass(frozen=True, eq=False, repr=False)
class Simulator:
    """A robot that can be stepped in time: `make_simulator` validates and makes it.

    `dt` is the length of a step in s. `arrays` are the array parameters of effects, sensors and
    contact, with one value for each motion of a batch; `step` has slots for them.
    """

    robot: Robot
    dt: float
    step: Step
    arrays: tuple[np.ndarray, ...] = ()
    gains: Mapping[str, np.ndarray] = field(default_factory=dict)
    function: TorqueFunction | None = None

    def __repr__(self) -> str:
        return f"<Simulator of {self.robot.name!r}, steps of {self.dt:g} s>"

    @property
    def native(self) -> bool:
        """Whether steps are compiled; else they are evaluated in Python."""
        return self.robot.native and self.robot.nv > 0

    @property
    def kernel(self) -> Kernel:
        """The loop over the steps, compiled on first use by this or by a rollout."""
        return self.step.kernel()

    def rollout(
        self,
        q0: ArrayLike,
        v0: ArrayLike,
        tau: ArrayLike | None = None,
        *,
        steps: int,
        every: int = 1,
        parameters: Mapping[str, ArrayLike] | None = None,
        wrenches: Mapping[str, ArrayLike] | None = None,
        out: tuple[np.ndarray, np.ndarray] | None = None,
        on_step: OnStep | None = None,
        **law_inputs: ArrayLike,
    ) -> Rollout:
        """Trajectories from states q0 (..., nq) and v0 (..., nv).

        `steps` steps are taken and every `every`-th is kept, so that q has the shape
        (..., steps // every + 1, nq). `tau` is None (no torques), one row (nv) for all times, or a
        row a kept sample (..., steps // every, nv), held until the next; with hold="linear" it has
        one row more and is interpolated. `parameters` has an array for each constant of the robot
        that the simulator was made to take. `wrenches` has external wrenches [force; moment] on the
        robot for frames that it was made with, {frame: array}: one (6) for all times, or a row a
        kept sample (..., steps // every, 6), held until the next. The references of the feedback
        law are given by name, (..., steps // every, n) or one row (n) for all times, or with the
        axes that the law names for n; gains of the law that have batch axes may be given anew. q
        and v are written to the arrays of `out`, if given. A long rollout runs in chunks of a
        fraction of a second, after each of which an interrupt is seen and
        `on_step("steps", done, of)` is called, counted over all states.
        """
        if not (on_step is None or callable(on_step)):
            raise InvalidArgument("on_step", on_step, "it is a function of (name, done, of)")
        samples = sample_count(steps, every)
        require_samples(self.step, samples)
        if self.function:
            if out is not None or law_inputs:
                accepted = "a law that is a Python function has no references, and no out"
                raise InvalidArgument("feedback", self.function, accepted)
            run = partial(replace(self, function=None).rollout, parameters=parameters)
            return run_function_law(
                self.function,
                run,
                q0,
                v0,
                tau,
                steps=steps,
                every=every,
                wrenches=wrenches,
                on_step=on_step,
            )
        if self.step.loops:
            q0 = real_array("rollout", "q0", q0, (self.robot.nq,), copy=False)
            v0 = real_array("rollout", "v0", v0, (self.robot.nv,), copy=False)
            q0, v0 = close_start(self.robot, q0, v0)
        arguments = loop_arguments(
            self.step,
            q0=q0,
            v0=v0,
            tau=tau,
            samples=samples,
            dt=self.dt,
            every=every,
            parameters=self._order_parameters(parameters),
            law_inputs={**self.gains, **law_inputs},
            wrenches=wrenches,
            arrays=self.arrays,
        )
        return run_steps(
            self.step,
            arguments,
            samples=samples,
            dt=self.dt,
            every=every,
            native=self.native,
            out=out,
            on_step=on_step,
        )

    def _order_parameters(self, given: Mapping[str, ArrayLike] | None) -> Mapping[str, ArrayLike]:
        """Arrays of the parameters in the order of the step."""
        names = self.step.parameters
        if not given and not names:
            return {}
        given = _check_parameters(given or {})
        for name in given:
            if name not in names:
                raise UnknownName("parameter", name, names, "simulator")
        for name in names:
            if name not in given:
                accepted = f"the simulator was made with parameters={names!r}: give all of them"
                raise InvalidArgument("parameters", tuple(given), accepted)
        return {name: given[name] for name in names}


def rollout(
    robot: Robot,
    q0: ArrayLike,
    v0: ArrayLike,
    tau: ArrayLike | None = None,
    *,
    dt: float,
    steps: int,
    integrator: str | None = None,
    every: int = 1,
    hold: Hold = "zero",
    without: str | Sequence[str] = (),
    effects: Sequence[Effect] = (),
    parameters: Mapping[str, ArrayLike] | None = None,
    feedback: Law | TorqueFunction | None = None,
    control_every: int = 1,
    feedback_at: FeedbackTime | None = None,
    sensors: Sequence[Sensor] = (),
    contact: ContactLaw | None = None,
    wrenches: Mapping[str, ArrayLike] | None = None,
    wrench_reference: ReferenceAxes | None = None,
    record: bool = False,
    out: tuple[np.ndarray, np.ndarray] | None = None,
    on_step: OnStep | None = None,
    **law_inputs: ArrayLike,
) -> Rollout:
    """A robot stepped in time: `make_simulator(robot, …).rollout(q0, v0, tau, …)`.

    `wrenches` are external wrenches on the robot by frame, all in the axes that `wrench_reference`
    says: "local", "world" or "local_world_aligned". `parameters` are {name: array}: constants of
    the robot with batch axes. The simulator is made once for the same robot, effects, law, sensors
    and contact, while none of them can be changed.
    """
    simulator = _find_simulator(
        robot,
        dt=dt,
        integrator=integrator,
        hold=hold,
        without=parse_without(without),
        effects=_as_tuple("effect", effects),
        parameters=tuple(_check_parameters(parameters or {})),
        feedback=feedback,
        control_every=control_every,
        feedback_at=feedback_at,
        sensors=_as_tuple("sensor", sensors),
        contact=contact,
        wrenches=_name_references(wrenches, wrench_reference),
        record=record,
    )
    return simulator.rollout(
        q0,
        v0,
        tau,
        steps=steps,
        every=every,
        parameters=parameters,
        wrenches=wrenches,
        out=out,
        on_step=on_step,
        **law_inputs,
    )


@refuse_endless_recursion("make_simulator")
def make_simulator(
    robot: Robot,
    *,
    dt: float,
    integrator: str | None = None,
    hold: Hold = "zero",
    without: str | Sequence[str] = (),
    effects: Sequence[Effect] = (),
    parameters: Sequence[str] = (),
    feedback: Law | TorqueFunction | None = None,
    control_every: int = 1,
    feedback_at: FeedbackTime | None = None,
    sensors: Sequence[Sensor] = (),
    contact: ContactLaw | None = None,
    wrenches: Mapping[str, ReferenceAxes] | None = None,
    record: bool = False,
) -> Simulator:
    """The simulator of a robot with steps of length dt (s).

    The integrator is rk4 unless it is named, and semi_implicit where there is contact. Damping,
    dry friction, springs, limits and armature of the joints are those of the description;
    `without` switches them off by these words ("damping", "friction", "springs", "limits",
    "armature"), or the first four by "passive". An effect that stands for one of them
    (`ModelLosses`, `RigidStops`, `PenaltyStops`, `Backlash`) takes its place, and so does
    contact of limits. `effects` act between motors and world, in their order; a `feedback` law
    adds its torques at the start of every `control_every`-th step, computed with the nominal robot
    whatever `parameters` perturb, and `sensors` stand between the state and the law. `feedback_at`
    says when it acts: "start", "end" (its velocity gains on the velocity at the end of the step,
    which None chooses where they are too fast for the step and the law has no period or sensors)
    or "stages" (at each stage of the integrator). A function of time, q and v is a law too, called
    once a sample for the whole batch, which is slow. A law senses the wrenches of contact; without
    any, they are references, `wrench_` and the name of the frame. `contact` by complementarity has
    a step of its own, semi-implicit. Parameters of effects, sensors and contact that are arrays
    carry batch axes; `parameters` names constants of the robot that rollouts are given with batch
    axes, as in `Robot.compile`. `hold` says how torques are held between samples: "zero" or
    "linear". `wrenches` names frames of external wrenches, {frame: axes that they are given in}.
    With `record`, and always with contact, rollouts have the states of effects, sensors and
    contact at each sample.
    """
    dt = positive_number("dt", dt, "a time in seconds,")
    effects, sensors = _as_tuple("effect", effects), _as_tuple("sensor", sensors)
    names = (parameters,) if isinstance(parameters, str) else tuple(parameters)
    _check_choices(names, hold, record)
    function = None
    if callable(feedback) and not isinstance(feedback, type) and not hasattr(feedback, "command"):
        require_plain_steps(feedback, control_every, feedback_at, hold, sensors)
        function, feedback = feedback, None
    _check_components(effects, sensors, feedback, contact)
    # components together
    integrator = choose_integrator(integrator, effects, contact)
    _check_combination(robot, integrator, effects, contact)
    physics = _require_physics(robot, without, dt, integrator, effects, contact, names)
    effects = physics.effects
    # the law is recorded; what it senses comes from contact, where there is any
    controller = None
    if feedback is not None:
        touching = any(isinstance(x, ContactLoads) for x in (*effects, contact))
        law = record_law(robot, cast(Law, feedback))
        controller = Controller(law, control_every, touching)
        moment = choose_feedback_time(robot.model, controller, feedback_at, dt, sensors)
        controller = replace(controller, time=moment)
    # array parameters are inputs of the step
    slotted, arrays = extract_arrays((effects, sensors, contact))
    recorded = contact is not None or any(getattr(x, "always_recorded", False) for x in effects)
    step = Step(
        physics.model,
        integrator=integrator,
        hold=hold,
        effects=slotted[0],
        parameters=names,
        feedback=controller,
        sensors=slotted[1],
        contact=slotted[2],
        record=bool(record) or recorded,
        array_count=len(arrays),
        loops=find_loops(robot),
        damped=physics.damped,
        notes=(*physics.notes, *law_notes(controller, feedback_at, function)),
        wrenches=_check_wrenches(robot, wrenches),
    )
    gains = controller.recorded.gains if controller else {}
    return Simulator(robot, dt, step, tuple(arrays), gains, function)


def _require_physics(
    robot: Robot,
    without: str | Sequence[str],
    dt: float,
    integrator: str,
    effects: Sequence[Effect],
    contact: ContactLaw | None,
    parameters: Sequence[str],
) -> FilePhysics:
    """The physics of the description; an error where a joint has no inertia with it."""
    physics = find_physics(
        robot.model,
        parse_without(without),
        dt=dt,
        integrator=integrator,
        effects=effects,
        contact=contact,
        parameters=parameters,
    )
    plain = robot if physics.model is robot.model else Robot(physics.model, robot.native)
    if plain.singular_joints and not {"inertia", "armature"} & set(parameters):
        refuse_singular(robot.name, plain.singular_joints, {})
    return physics


def _check_choices(names: Sequence[str], hold: Any, record: Any) -> None:
    """Refuse unknown parameters and words."""
    for name in names:
        if not isinstance(name, str) or name not in PARAMETERS:
            raise UnknownName("parameter", name, PARAMETERS)
    if not isinstance(record, bool | np.bool_):
        raise InvalidArgument("record", record, "it is True or False")
    if not isinstance(hold, str) or hold not in get_args(Hold):
        raise InvalidArgument("hold", hold, "it is 'zero' or 'linear'")


def _check_components(
    effects: Sequence[Any], sensors: Sequence[Any], feedback: Any, contact: Any
) -> None:
    """Refuse components without the methods of their kind."""
    for effect in effects:
        accepted = "Friction(law), PenaltyContact and the like are; or sensors=…, contact=…"
        _require_methods("effect", effect, _EFFECT_METHODS, accepted)
    for sensor in sensors:
        accepted = "Noise, Quantisation and the like are; a drivetrain is one of the effects"
        _require_methods("sensor", sensor, ("read", "state_size", "initial_state"), accepted)
    if feedback is not None:
        accepted = "it is a law such as control.PD(kp, kd), with its references by name: q_ref=…, "
        accepted += "or a function of time, q and v"
        _require_methods("feedback", feedback, _LAW_METHODS, accepted)
    if contact is not None:
        accepted = "it is a ComplementarityContact; a PenaltyContact is one of the effects"
        _require_methods("contact", contact, ("step",), accepted)


def _as_tuple(what: str, parts: Sequence[Any]) -> tuple[Any, ...]:
    """Effects or sensors as a tuple."""
    if not isinstance(parts, list | tuple | Sequence) or isinstance(parts, str | bytes):
        raise InvalidArgument(f"{what}s", parts, f"it is a list of {what}s")
    return tuple(parts)


def _name_references(
    wrenches: Mapping[str, ArrayLike] | None, reference: ReferenceAxes | None
) -> Mapping[str, ReferenceAxes]:
    """The reference of each frame with a wrench; an error where none is said."""
    if wrenches is None:
        return {}
    if not isinstance(wrenches, Mapping):
        raise InvalidArgument("wrenches", wrenches, "it is {frame: array of [force; moment]}")
    if reference is None:
        words = ", ".join(map(repr, get_args(ReferenceAxes)))
        raise InvalidArgument("wrench_reference", reference, f"it says the axes: one of {words}")
    return dict.fromkeys(wrenches, reference)


def _check_wrenches(
    robot: Robot, wrenches: Mapping[str, ReferenceAxes] | None
) -> tuple[tuple[str, ReferenceAxes], ...]:
    """Frames of external wrenches with their references, if they exist."""
    if wrenches is not None and not isinstance(wrenches, Mapping):
        raise InvalidArgument("wrenches", wrenches, "it is {frame: reference}")
    for frame, reference in (wrenches or {}).items():
        robot.model.frame(frame)
        if not isinstance(reference, str) or reference not in get_args(ReferenceAxes):
            raise UnknownName("reference", reference, get_args(ReferenceAxes))
    return tuple((wrenches or {}).items())


def _check_parameters(given: Any) -> Mapping[str, ArrayLike]:
    """Parameters of a rollout, if they are a mapping."""
    if not isinstance(given, Mapping):
        accepted = f"it is {{name: array}} of {', '.join(PARAMETERS)}"
        raise InvalidArgument("parameters", given, accepted)
    return given


def _require_methods(what: str, part: Any, methods: Sequence[str], accepted: str) -> None:
    """Refuse a class, or an object that lacks methods."""
    if isinstance(part, type) or not all(hasattr(part, name) for name in methods):
        raise InvalidArgument(what, part, accepted)


def _check_combination(
    robot: Robot, integrator: str, effects: Sequence[Effect], contact: ContactLaw | None
) -> None:
    """Refuse components that do not go together, with each other or with the integrator."""
    # contact has steps of its own, and joints one kind of stops
    row = find_integrator(integrator)
    if contact is not None and not row.semi_implicit:
        able = [other.name for other in INTEGRATORS.values() if other.semi_implicit]
        accepted = f"contact by complementarity steps with {' or '.join(able)}"
        raise InvalidArgument("integrator", integrator, accepted)
    stops = [effect for effect in effects if isinstance(effect, ImpactEffect)]
    if len(stops) > 1 or (contact is not None and stops):
        accepted = "joints have one kind of stops; contact by complementarity has its own"
        raise InvalidArgument("effect", stops[-1], accepted)
    # damping twice
    implicit = [effect for effect in effects if isinstance(effect, ImplicitEffect)]
    for effect in implicit if row.damping_at_end else ():
        if getattr(effect, "model_damping", False):
            accepted = f"{row.name} has the damping of the model already: damping=False"
            raise InvalidArgument("effect", effect, accepted)
    # integrators that iterate cannot keep loops closed
    if robot.model.loops and row.iterates:
        able = [other.name for other in INTEGRATORS.values() if not other.iterates]
        accepted = (
            f"the loops of {robot.name!r} are kept closed by {', '.join(able)}; or step the open "
            "tree, constraints.with_loops(robot, [])"
        )
        raise Unsupported("integrator", row.name, accepted)


@dataclass(frozen=True)
class _Arguments:
    """Arguments of `make_simulator`, equal to others if they are the same objects.

    It keeps the objects alive, so that their identities stay theirs. Equal objects will not do: the
    seed of noise and the sign of a zero do not count in equality.
    """

    identity: tuple[Any, ...]
    robot: Robot = field(compare=False)
    choices: Mapping[str, Any] = field(compare=False)


class _Mutable(Exception):
    """Components that can be changed: their simulators are not cached."""


@refuse_endless_recursion("rollout")
def _find_simulator(robot: Robot, **choices: Any) -> Simulator:
    """The simulator of these objects, one of the last 64 if none of them can be changed."""
    effects, sensors = choices["effects"], choices["sensors"]
    of_one = ("integrator", "hold", "feedback", "feedback_at", "control_every", "contact", "record")
    single = (choices[name] for name in of_one)
    objects = (robot, *single, *effects, *sensors)
    dt = choices["dt"] = positive_number("dt", choices["dt"], "a time in seconds,")
    # a tuple, which cannot be changed
    places = choices["wrenches"] = tuple(choices["wrenches"].items())
    try:
        words = choices["parameters"], choices["without"]
        identity = (dt, *words, places, len(effects), *map(id, objects))
        return _cached_simulator(_Arguments(identity, robot, choices))
    except _Mutable:
        return _make_from_choices(robot, choices)


def _make_from_choices(robot: Robot, choices: Mapping[str, Any]) -> Simulator:
    return make_simulator(robot, **{**choices, "wrenches": dict(choices["wrenches"])})


@lru_cache(maxsize=64)
def _cached_simulator(arguments: _Arguments) -> Simulator:
    if not all(map(is_immutable, arguments.choices.values())):
        raise _Mutable
    simulator = _make_from_choices(arguments.robot, arguments.choices)
    return replace(simulator, step=replace(simulator.step, immutable=True))
