"""Comparisons: a file in several engines, or two files of one robot, or both."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from qddot.errors import NotUnderstood, UnknownName
from qddot.loaders import describe
from qddot.loaders.description import Base, Couplings, to_model
from qddot.model import Model
from qddot.robot import Robot
from qddot.verify.compare.align import Alignment, align
from qddot.verify.compare.engines import ENGINES
from qddot.verify.compare.notes import doubts, remarks
from qddot.verify.compare.result import Comparison, Report, Stage
from qddot.verify.compare.sources import opened_source
from qddot.verify.compare.terms import Side, numbers_of
from qddot.verify.compare.waterfall import waterfall
from qddot.verify.compare.worker import Request, ask
from qddot.verify.invariants import Sample, sample

__all__ = ["Settings", "compare"]

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Settings:
    """How files are loaded, at how many states they are compared, and how closely."""

    base: Base = None
    couplings: Couplings = "exact"
    states: int = 20
    seed: int = 0
    tolerance: float = 1e-9
    timeout: float = 120.0


@dataclass(frozen=True)
class _Loaded:
    """A file in qddot: with its couplings as asked, exact and free."""

    source: str | Path
    asked: Model
    free: Model


def compare(
    a: str | Path,
    b: str | Path | None = None,
    engines: Sequence[str] = (),
    settings: Settings | None = None,
    on_step: Progress | None = None,
) -> Report:
    """Compare file A with file B in qddot, and each file with what other engines make of it.

    Files are given by path or name. An engine that is not installed, cannot open the file or ends
    its process is not evaluated, with the reason. `on_step` hears the name of each comparison that
    is done, how many were done before it, and of how many.
    """
    settings = settings or Settings()
    for name in engines:
        if name not in ENGINES:
            raise UnknownName("engine", name, ENGINES)
    if b is None and not engines:
        raise NotUnderstood("engines", (), "needs engines or a second file to compare with")
    if settings.states < 1:
        raise NotUnderstood("states", settings.states, "needs at least one")
    files = [_loaded(x, settings) for x in (a, b) if x is not None]
    sides = {label: str(f.source) for label, f in zip("AB", files, strict=False)}
    steps = dict(_steps(files, tuple(dict.fromkeys(engines)), settings))
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        running = {pool.submit(step): name for name, step in steps.items()}
        for k, done in enumerate(as_completed(running)):
            if on_step:
                on_step(running[done], k, len(steps))
        found = tuple(step.result() for step in running)
    return Report(sides, found, dataclasses.asdict(settings))


def _loaded(source: str | Path, settings: Settings) -> _Loaded:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        description = describe(source)
        models = [
            to_model(description, settings.base, couplings, False)
            for couplings in (settings.couplings, "free")
        ]
    return _Loaded(source, *models)


def _steps(
    files: list[_Loaded], engines: tuple[str, ...], settings: Settings
) -> Iterator[tuple[str, Callable[[], Comparison]]]:
    if len(files) == 2:
        yield "B", partial(_of_files, files[0], files[1], settings)
    for label, file in zip("AB", files, strict=False):
        suffix = f" ({label})" if len(files) == 2 else ""
        for engine in engines:
            name = ENGINES[engine].title + suffix
            yield name, partial(_in_engine, engine, file, suffix, settings)


def _of_files(a: _Loaded, b: _Loaded, settings: Settings) -> Comparison:
    alignment = align(a.asked, a.free, b.free)
    at = sample(Robot(alignment.a, native=False), settings.states, settings.seed)
    adapter = alignment.adapter()
    there = Sample(adapter.to_q(at.q), adapter.to_v(at.q, at.v), adapter.to_tau(at.q, at.a), at.x)
    values = numbers_of(alignment.b, there) if alignment.a.nv else {}
    side = Side(b.asked, values)
    return _compared("A", "B", a, alignment, side, settings, ())


def _in_engine(name: str, file: _Loaded, suffix: str, settings: Settings) -> Comparison:
    engine = ENGINES[name]
    labels = f"qddot{suffix}", f"{engine.title}{suffix}"
    if not engine.installed:
        reason = f"{engine.title} is not installed: pip install {engine.package}"
        return Comparison(*labels, False, reason)
    with opened_source(file.source) as source:
        request = Request(
            name, source, settings.base, file.asked, file.free, settings.states, settings.seed
        )
        found = ask(request, settings.timeout)
    if found.exact is None or found.free is None:
        reason = found.failure or f"{engine.title} gave no model"
        return Comparison(*labels, False, reason, notes=found.notes)
    alignment = align(file.asked, file.free, found.free)
    side = Side(found.exact, found.values, engine.no_friction)
    compared = _compared(*labels, file, alignment, side, settings, found.notes)
    if found.failure:
        return dataclasses.replace(compared, evaluated=False, reason=found.failure)
    return compared


def _compared(
    a: str,
    b: str,
    file: _Loaded,
    alignment: Alignment,
    side: Side,
    settings: Settings,
    notes: tuple[str, ...],
) -> Comparison:
    stages = waterfall(
        file.asked, alignment, side, settings.states, settings.seed, settings.tolerance
    )
    told = (*notes, *doubts(file.asked, stages), *remarks(file.asked, alignment, side))
    here, there = a.split(" ")[0], b.split(" ")[0]

    def named(text: str) -> str:
        return text.replace("@A", here).replace("@B", there)

    def plain(stage: Stage) -> Stage:
        found = (dataclasses.replace(d, message=named(d.message)) for d in stage.differences)
        return dataclasses.replace(stage, message=named(stage.message), differences=tuple(found))

    return Comparison(a, b, True, "", tuple(map(plain, stages)), tuple(map(named, told)))
