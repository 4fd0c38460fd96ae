"""The steps that this user has computed on this machine: only these are taken from a record.

A record is data of anyone: its digests and its chain can be computed again by whoever changes it.
What a step of a run has found is therefore remembered apart from the record, by its digest, in the
cache folder, which holds native code and is trusted as such. A step that is not remembered there,
to the last number and word, is computed again.
"""

from __future__ import annotations

import hashlib

from qddot.compile.runtime.cache import Cache, Entry, cache_folder
from qddot.evidence.record import Record, Run, canonical_json

__all__ = ["is_remembered", "remember_step", "step_digest", "step_memory"]

_VERSION = "step 1"


def step_digest(record: Record, step: str) -> str:
    """SHA-256 of all that a step wrote, and of all of its run that it depends on."""
    run: Run = record.run
    content = {
        "step": step,
        "command": run.command,
        "configuration": run.configuration,
        "inputs": [[x.place, x.sha256, x.size] for x in run.inputs],
        "seed": run.seed,
        "versions": run.versions,
        "machine": run.machine,
        "latency": run.latency,
        "units": [run.units, run.frames],
        "traces": [
            [t.name, t.digest, t.units, t.frame] for t in record.traces.values() if t.step == step
        ],
        "metrics": [vars(m) for m in record.metrics.values() if m.step == step],
        "claims": [
            {**vars(c), "verdict": c.verdict.value} for c in record.claims if c.step == step
        ],
    }
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()


def remember_step(record: Record, step: str) -> None:
    """Remember what a step that was just computed has found."""
    step_memory().write(_key(record, step), Entry({}, b""))


def is_remembered(record: Record, step: str) -> bool:
    """Whether this user computed just this step with just these results on this machine."""
    return step_memory().read(_key(record, step)) is not None


def step_memory() -> Cache:
    """The digests of steps on disk."""
    return Cache(cache_folder() / "steps", most_bytes=2**18)


def _key(record: Record, step: str) -> str:
    return f"{_VERSION} {step_digest(record, step)}"
