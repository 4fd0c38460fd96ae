"""Comparisons: a file in several engines, or two files of one robot, or both."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from qddot.display.progress import OnStep
from qddot.errors import InvalidArgument, UnknownName
from qddot.loaders import describe
from qddot.loaders.description import Base, Couplings, to_model
from qddot.model.model import Model
from qddot.robot.robot import Robot
from qddot.verify.compare.align import Alignment, align
from qddot.verify.compare.engines import ENGINES
from qddot.verify.compare.notes import comparison_notes, health_notes, list_omissions
from qddot.verify.compare.result import ModelComparison, Report
from qddot.verify.compare.sources import open_comparison_source
from qddot.verify.compare.terms import Side, evaluate_terms
from qddot.verify.compare.waterfall import run_stages
from qddot.verify.compare.worker import Request, ask_engine
from qddot.verify.invariants import RandomStates, random_states

__all__ = ["Settings", "compare"]


@dataclass(frozen=True)
class Settings:
    """Options of loading, the number of random states, and the tolerance of a comparison.

    `joints` are partners that names do not tell, {joint of A: joint of B}, for two files.
    """

    base: Base = None
    couplings: Couplings = "exact"
    states: int = 20
    seed: int = 0
    tolerance: float = 1e-9
    timeout: float = 120.0
    trust: bool = False
    joints: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _LoadedFile:
    """A file in qddot: with its couplings as asked, and with all of them free."""

    source: str | Path
    asked: Model
    free: Model


def compare(
    a: str | Path,
    b: str | Path | None = None,
    engines: Sequence[str] = (),
    settings: Settings | None = None,
    on_step: OnStep | None = None,
) -> Report:
    """Compare file A with file B in qddot, and each file with its model in other engines.

    Files are given by path or name. An engine that is not installed, cannot open the file or ends
    its process is not evaluated, with the reason. `on_step` hears the name of each comparison that
    is done, how many were done before it, and of how many.
    """
    settings = settings or Settings()
    for name in engines:
        if name not in ENGINES:
            raise UnknownName("engine", name, ENGINES)
    if b is None and not engines:
        raise InvalidArgument("engines", (), "needs engines or a second file to compare with")
    if b is None and settings.joints:
        raise InvalidArgument("joints", dict(settings.joints), "it needs a second file")
    if settings.states < 1:
        raise InvalidArgument("states", settings.states, "needs at least one")
    files = []
    for source in (x for x in (a, b) if x is not None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            description = describe(source, trust=settings.trust)
            asked, free = (
                to_model(description, settings.base, couplings, False)
                for couplings in (settings.couplings, "free")
            )
        files.append(_LoadedFile(source, asked, free))
    # the files with each other, then each file with each engine
    steps: dict[str, Callable[[], ModelComparison]] = {}
    if len(files) == 2:
        steps["B"] = partial(_compare_files, files[0], files[1], settings)
    for label, file in zip("AB", files, strict=False):
        suffix = f" ({label})" if len(files) == 2 else ""
        for engine in dict.fromkeys(engines):
            name = ENGINES[engine].title + suffix
            steps[name] = partial(_compare_in_engine, engine, file, suffix, settings)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        running = {pool.submit(step): name for name, step in steps.items()}
        for k, done in enumerate(as_completed(running)):
            if on_step:
                on_step(running[done], k, len(steps))
        found = tuple(step.result() for step in running)
    sides = {label: str(f.source) for label, f in zip("AB", files, strict=False)}
    return Report(sides, found, dataclasses.asdict(settings))


def _compare_files(a: _LoadedFile, b: _LoadedFile, settings: Settings) -> ModelComparison:
    """File A with file B, both in qddot."""
    alignment = align(a.asked, a.free, b.free, settings.joints)
    at = random_states(Robot(alignment.a, native=False), settings.states, settings.seed)
    adapter = alignment.adapter()
    there = RandomStates(
        adapter.to_q(at.q), adapter.to_v(at.q, at.v), adapter.to_tau(at.q, at.a), at.x
    )
    values = evaluate_terms(alignment.b, there) if alignment.a.nv else {}
    return _compare_models(("A", "B"), a.asked, alignment, Side(b.asked, values), settings)


def _compare_in_engine(
    name: str, file: _LoadedFile, suffix: str, settings: Settings
) -> ModelComparison:
    """A file in qddot with the same file in an engine."""
    engine = ENGINES[name]
    labels = f"qddot{suffix}", f"{engine.title}{suffix}"
    if not engine.is_installed:
        reason = f"{engine.title} is not installed: pip install {engine.package}"
        return ModelComparison(*labels, False, reason)
    with open_comparison_source(file.source, settings.trust) as source:
        request = Request(
            engine=name,
            source=source,
            base=settings.base,
            exact=file.asked,
            free=file.free,
            states=settings.states,
            seed=settings.seed,
        )
        found = ask_engine(request, settings.timeout)
    if found.exact is None or found.free is None:
        reason = found.failure or f"{engine.title} gave no model"
        return ModelComparison(*labels, False, reason, notes=found.notes)
    alignment = align(file.asked, file.free, found.free)
    side = Side(found.exact, found.values, engine.no_friction, engine.unread)
    compared = _compare_models(labels, file.asked, alignment, side, settings, found.notes)
    if found.failure:
        return dataclasses.replace(compared, evaluated=False, reason=found.failure)
    return compared


def _compare_models(
    labels: tuple[str, str],
    model: Model,
    alignment: Alignment,
    side: Side,
    settings: Settings,
    notes: tuple[str, ...] = (),
) -> ModelComparison:
    """The comparison of two aligned models, with @A and @B replaced by the names of the sides."""
    here, there = (label.split(" ")[0] for label in labels)

    def with_labels(text: str) -> str:
        return text.replace("@A", here).replace("@B", there)

    stages = run_stages(model, alignment, side, settings.states, settings.seed, settings.tolerance)
    notes = (
        *notes,
        *health_notes(model, stages),
        *comparison_notes(model, alignment, side, stages),
    )
    plain = []
    for stage in stages:
        found = tuple(
            dataclasses.replace(d, message=with_labels(d.message)) for d in stage.differences
        )
        message = with_labels(stage.message)
        plain.append(dataclasses.replace(stage, message=message, differences=found))
    return ModelComparison(
        *labels,
        evaluated=True,
        stages=tuple(plain),
        notes=tuple(map(with_labels, notes)),
        not_compared=tuple(map(with_labels, list_omissions(model, alignment, side))),
    )
