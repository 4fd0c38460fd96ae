"""Runs cases in worker processes with limits, and collects what they do wrong.

A finding is a crash, a case that takes more than 20 s of the processor (or 80 s in all) or 1 GB,
and any exception that is not an error of the library. A worker runs many cases and is replaced when
one of them ends it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["QDDOT_NATIVE"] = "0"

from fuzz.cases import KINDS, kind_of, run_case, write_case

__all__ = ["main"]

MOST_SECONDS = 20.0
MOST_BYTES = 2**30
_CASES_A_WORKER = 500
_PATIENCE = 4
_SPARE_BYTES = 2 * MOST_BYTES
"""Addresses beside the memory, which threads reserve."""


@dataclass
class Finding:
    """What a case did wrong, where its file is, and how it is run again."""

    kind: str
    number: int
    case: str
    detail: str
    file: str = ""
    again: str = ""


@dataclass
class Summary:
    """The figures of a run."""

    seed: int
    seconds: float = 0.0
    cases: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, int] = (0.0, -1)
    most_mb: int = 0
    findings: list[Finding] = field(default_factory=list)
    repeated: Counter[str] = field(default_factory=Counter)


class Worker:
    """A process that runs cases one after another, and the case it is at."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.folder = Path(tempfile.mkdtemp(prefix="qddot-fuzz-"))
        self.start()

    def start(self) -> None:
        """Begin with a fresh process."""
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("fork").Process(
            target=_serve, args=(theirs, self.seed, self.folder), daemon=True
        )
        self.process.start()
        theirs.close()
        self.number, self.since, self.used, self.done = -1, 0.0, 0.0, 0

    def give(self, number: int) -> None:
        """Begin a case."""
        if self.done >= _CASES_A_WORKER:
            self.stop()
            self.start()
        self.number, self.since = number, time.monotonic()
        self.used = self.processor_seconds()
        self.done += 1
        self.pipe.send(number)

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self.process.kill()
        self.process.join()
        self.pipe.close()

    def result(self, now: float) -> tuple[str, str, int] | None:
        """Outcome, detail and peak memory in bytes of the case; None while it runs."""
        try:
            if self.pipe.poll():
                return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode or 0
            name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            log = (self.folder / "log").read_bytes()[-300:].decode(errors="replace")
            self.stop()
            self.start()
            return "crash", f"{name} {' '.join(log.split())}", 0
        # seconds of the processor, which others may keep busy; a deadlock takes none
        used = self.processor_seconds() - self.used
        if used < MOST_SECONDS and now - self.since < _PATIENCE * MOST_SECONDS:
            return None
        detail = f"{used:.0f} s of the processor in {now - self.since:.0f} s"
        self.stop()
        self.start()
        return "hang", detail, 0

    def processor_seconds(self) -> float:
        """Processor time of the process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _serve(pipe: Connection, seed: int, folder: Path) -> None:
    """The loop of a worker: a number in, an outcome out."""
    os.chdir(folder)
    log = os.open("log", os.O_CREAT | os.O_TRUNC | os.O_RDWR)
    null = os.open(os.devnull, os.O_RDONLY)
    for mine, standard in ((null, 0), (log, 1), (log, 2)):
        os.dup2(mine, standard)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MOST_BYTES + _SPARE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        number = pipe.recv()
        os.truncate("log", 0)
        Path("/proc/self/clear_refs").write_text("5")
        try:
            outcome, detail = run_case(seed, number, folder), ""
        except BaseException as error:
            frames = traceback.extract_tb(error.__traceback__)
            ours = [f for f in frames if "qddot" in f.filename] or list(frames)
            place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
            text = f"{type(error).__name__} at {place}: {' '.join(str(error).split())[:300]}"
            outcome, detail = "exception", text
        peak = next(x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x)
        pipe.send((outcome, detail, int(peak.split()[1]) * 1024))


def fuzz(
    seed: int, seconds: float, jobs: int, keep: Path, cases: int | None = None, kind: str = ""
) -> Summary:
    """Run cases for a time, or so many if these are fewer; files of findings are kept.

    With a `kind`, only cases of this kind are run.
    """
    summary = Summary(seed)
    workers = [Worker(seed) for _ in range(jobs)]
    begin = shown = time.monotonic()
    numbers = (n for n in count() if not kind or kind_of(seed, n) == kind)
    try:
        for worker in workers:
            worker.give(next(numbers))
        given = len(workers)
        running = list(workers)
        while running:
            wait([w.pipe for w in running], timeout=0.2)
            now = time.monotonic()
            for worker in list(running):
                at, since, result = worker.number, worker.since, worker.result(now)
                if result is None:
                    continue
                _record(summary, worker, at, result, now - since, keep)
                if now - begin < seconds and (cases is None or given < cases):
                    worker.give(next(numbers))
                    given += 1
                else:
                    running.remove(worker)
            if now - shown > 5.0:
                shown = now
                _show(summary, now - begin)
    finally:
        for worker in workers:
            worker.stop()
            shutil.rmtree(worker.folder, ignore_errors=True)
    summary.seconds = round(time.monotonic() - begin, 1)
    return summary


def _record(
    summary: Summary,
    worker: Worker,
    number: int,
    result: tuple[str, str, int],
    seconds: float,
    keep: Path,
) -> None:
    """Count a case; keep its file if it is a finding that is not known yet."""
    outcome, detail, peak = result
    if outcome not in ("crash", "hang", "exception") and peak > MOST_BYTES:
        outcome, detail = "memory", f"{peak / 2**20:.0f} MB"
    kind = kind_of(summary.seed, number)
    summary.cases += 1
    summary.kinds[kind] += 1
    summary.outcomes[outcome] += 1
    summary.slowest = max(summary.slowest, (round(seconds, 2), number))
    summary.most_mb = max(summary.most_mb, peak // 2**20)
    if outcome not in ("crash", "hang", "exception", "memory"):
        return
    place = f"{outcome} {detail.split(': ')[0]}" if outcome == "exception" else outcome
    summary.repeated[place] += 1
    if summary.repeated[place] > (3 if outcome == "exception" else 30):
        return
    keep.mkdir(parents=True, exist_ok=True)
    again = f"python -m fuzz --seed {summary.seed} --case {number}"
    finding = Finding(outcome, number, kind, detail, again=again)
    file = write_case(summary.seed, number, worker.folder)
    if file is not None:
        kept = keep / f"{summary.seed}-{number}{file.suffix}"
        shutil.copy(file, kept)
        finding.file = str(kept)
    summary.findings.append(finding)
    sys.stderr.write(f"{outcome}: {detail} ({finding.file or again})\n")


def _show(summary: Summary, seconds: float) -> None:
    rate = summary.cases / seconds * 60
    sys.stderr.write(
        f"{seconds:.0f} s: {summary.cases} cases ({rate:.0f} a minute), "
        f"{sum(summary.repeated.values())} findings\n"
    )


def main() -> None:
    """The command: exit code 1 when there are findings."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, help="most cases; as many as there is time for")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--case", type=int, help="run this case alone, here, without limits")
    parser.add_argument("--kind", default="", choices=sorted(set(KINDS)), help="run only these")
    given = parser.parse_args()
    if given.case is not None:
        folder = Path(tempfile.mkdtemp(prefix="qddot-fuzz-"))
        sys.stdout.write(f"{write_case(given.seed, given.case, folder)}\n")
        sys.stdout.write(f"{run_case(given.seed, given.case, folder)}\n")
        return
    os.environ.setdefault("QDDOT_CACHE_DIR", tempfile.mkdtemp(prefix="qddot-fuzz-cache-"))
    summary = fuzz(
        given.seed, given.seconds, given.jobs, given.keep.resolve(), given.cases, given.kind
    )
    report: dict[str, Any] = {**vars(summary), "findings": [vars(f) for f in summary.findings]}
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    raise SystemExit(bool(summary.findings))
