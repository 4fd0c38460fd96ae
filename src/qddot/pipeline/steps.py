"""The table of steps, and the run through them: every step ends with verdicts, never in silence."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from qddot.errors import InvalidArgument, QddotError
from qddot.evidence.record import Record, Run, Verdict
from qddot.identify.blas import on_one_blas_thread
from qddot.pipeline.context import Context, NotApplicable
from qddot.pipeline.hardware_steps import (
    build_controllers,
    calibrate_friction,
    identify_parameters,
    perturb_plant,
    vary_latency,
    verify_on_log,
)
from qddot.pipeline.memory import is_remembered, remember_step, step_digest
from qddot.pipeline.model_steps import (
    audit_inertias,
    check_coriolis_matrix,
    check_gravity_torques,
    check_intent,
    check_mass_matrix,
    compare_engines,
    read_description,
)
from qddot.pipeline.simulation_steps import certify_integrator, probe_contact

__all__ = [
    "STEPS",
    "PipelineStep",
    "known_steps",
    "run_pipeline",
    "select_steps",
    "step_verdict",
]


@dataclass(frozen=True)
class PipelineStep:
    """A step: its number, what it is about, and the function that judges it."""

    number: int
    title: str
    run: Callable[[Context], None]

    @property
    def name(self) -> str:
        """The number as it stands in records; sorts as text."""
        return f"{self.number:02d}"


STEPS = tuple(
    PipelineStep(number, title, run)
    for number, (title, run) in enumerate(
        (
            ("description", read_description),
            ("inertias", audit_inertias),
            ("degrees of freedom", check_intent),
            ("gravity", check_gravity_torques),
            ("mass matrix", check_mass_matrix),
            ("Coriolis", check_coriolis_matrix),
            ("identification", identify_parameters),
            ("friction", calibrate_friction),
            ("integrator", certify_integrator),
            ("contact", probe_contact),
            ("control", build_controllers),
            ("hardware", verify_on_log),
            ("other engines", compare_engines),
            ("perturbation", perturb_plant),
            ("latency", vary_latency),
        ),
        start=1,
    )
)


def select_steps(
    steps: str = "", only: Sequence[str] = (), skip: Sequence[str] = ()
) -> list[PipelineStep]:
    """Steps by numbers and ranges such as "1,4-6", or by words of their titles."""
    given = steps.split(",") if steps else []
    for word in (*given, *only, *skip):
        _matches(STEPS[0], [word])  # refuses a word that names no step
    chosen = [step for step in STEPS if _matches(step, given)] if given else list(STEPS)
    if only:
        chosen = [step for step in chosen if _matches(step, only)]
    chosen = [step for step in chosen if not (skip and _matches(step, skip))]
    if not chosen:
        raise InvalidArgument("--steps", steps or list(only), f"nothing is left; {_listing()}")
    return chosen


def _listing() -> str:
    return "steps are " + ", ".join(f"{s.number} {s.title}" for s in STEPS)


def _matches(step: PipelineStep, words: Sequence[str]) -> bool:
    """Whether a step is meant by one of the numbers, ranges or titles."""
    for word in (w.strip().lower() for w in words):
        first, _, last = word.partition("-")
        if first.isdigit() and (last.isdigit() or not last):
            low, high = int(first), int(last or first)
            if not 1 <= low <= high <= len(STEPS):
                raise InvalidArgument("--steps", word, _listing())
            if low <= step.number <= high:
                return True
        elif word and any(word in s.title.lower() for s in STEPS):
            if word in step.title.lower():
                return True
        else:
            raise InvalidArgument("--steps", word, _listing())
    return False


@on_one_blas_thread
def run_pipeline(
    context: Context,
    steps: Sequence[PipelineStep] = STEPS,
    before: Record | None = None,
    on_done: Callable[[PipelineStep, Verdict], None] | None = None,
) -> tuple[str, ...]:
    """Run the steps into the record of a context; steps of which `before` has other results.

    Copied are steps that `before` has whole, and that this user computed on this machine for the
    same inputs, configuration and versions. All others are computed; what they find counts.
    """
    changed = []
    kept = known_steps(before, context.recorder.run) if before is not None else ()
    report = context.on_step
    for k, step in enumerate(steps):
        report(step.title, k, len(steps))
        if before is not None and step.name in kept:
            context.recorder.take_step(before, step.name)
        else:
            # progress within a step shows beside its title
            def tell(name: str, done: int, of: int, title: str = step.title, k: int = k) -> None:
                report(f"{title}: {name}", k, len(steps))

            context.on_step = tell
            with context.recorder.mark(step.name, step.title):
                _run_step(context, step)
            context.on_step = report
            found = context.recorder.record
            remember_step(found, step.name)
            if before is not None and step.name in before.whole_steps:
                now = dataclasses.replace(before, run=found.run)
                if step_digest(now, step.name) != step_digest(found, step.name):
                    changed.append(step.name)
        if on_done is not None:
            on_done(step, step_verdict(context.recorder.record, step))
    return tuple(changed)


def known_steps(before: Record, run: Run) -> tuple[str, ...]:
    """Steps of an earlier record that a run may copy; none where files may run their code."""
    if run.configuration.get("trust"):
        return ()
    same = dataclasses.replace(before, run=run)
    return tuple(step for step in before.whole_steps if is_remembered(same, step))


def _run_step(context: Context, step: PipelineStep) -> None:
    """Run a step; what keeps it from a verdict becomes a claim of its own."""
    try:
        context.robot  # noqa: B018  (what cannot be loaded fails in the first step)
    except QddotError as error:
        if step.number == 1:
            context.recorder.claim(
                "the description is read",
                "file against its format",
                verdict=Verdict.FAIL,
                detail=str(error),
                fix="mend the element that is named; `qddot info FILE` reads it again",
                label="model",
            )
        else:
            context.skip(step.title, step.title, "the description could not be read (step 1)")
        return
    try:
        step.run(context)
    except NotApplicable as reason:
        context.skip(step.title, step.title, str(reason))
    except QddotError as error:
        context.skip(step.title, step.title, str(error))
    except (ArithmeticError, ValueError, RuntimeError, MemoryError) as error:
        context.skip(step.title, step.title, f"{type(error).__name__}: {error}"[:300])


def step_verdict(record: Record, step: PipelineStep) -> Verdict:
    """FAIL where a claim of the step fails; PASS where one passes; else not evaluated."""
    verdicts = {c.verdict for c in record.claims if c.step == step.name}
    if Verdict.FAIL in verdicts:
        return Verdict.FAIL
    return Verdict.PASS if Verdict.PASS in verdicts else Verdict.NOT_EVALUATED
