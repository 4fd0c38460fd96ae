"""Kill, resume, repeat and replay the pipeline: `python docs/repeatability.py [--kills 20]`.

Writes the paragraph of docs/evidence.md between its marks. A run is killed (SIGKILL) at random
moments and resumed until it has come to its end, again and again; then one seed is run twice, from
its record alone, and with native code for other vector widths.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from qddot.errors import RecordError
from qddot.evidence import Record, compare_records, read_record, verify_record

PAGE = Path(__file__).resolve().parent / "evidence.md"
STEPS = "1-6"
"""Steps of runs that are killed, which are those that take seconds."""
WIDTHS = ("16", "32")


def pipeline(words: list[str], **environment: str) -> subprocess.Popen[bytes]:
    """A pipeline in a process of its own."""
    command = [sys.executable, "-m", "qddot", *words]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdout=quiet, stderr=quiet, env={**os.environ, **environment})


def run(file: Path, words: list[str], *more: str, **environment: str) -> tuple[Record, float]:
    """The record of a whole run, and how long it took."""
    begun = time.perf_counter()
    pipeline(["pipeline", *words, "--record", str(file), *more], **environment).wait()
    return read_record(file), time.perf_counter() - begun


def kill_runs(folder: Path, words: list[str], kills: int, seed: int) -> str:
    """Kill runs at random moments; the number that left a record, and of runs that ended alike."""
    whole, seconds = run(folder / "whole.mcap", words)
    rng, done, ended, empty = random.Random(seed), 0, 0, 0
    while done < kills:
        file = folder / f"killed{ended}.mcap"
        child = pipeline(["pipeline", *words, "--record", str(file), "--resume"])
        try:
            child.wait(timeout=rng.uniform(0.0, 1.1 * seconds))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            done += 1
            try:
                found = read_record(file)
            except RecordError:
                # killed before the first message: there is nothing to read, and nothing lost
                assert not file.exists() or file.stat().st_size < 50_000
                empty += 1
                continue
            problems = [p for p in verify_record(found) if p.subject not in ("file", "record")]
            unfinished = {
                t.name for t in found.traces.values() if t.step not in found.finished_steps
            }
            assert all(p.subject.removeprefix("trace ") in unfinished for p in problems), problems
            print(f"kill {done}: {len(found.finished_steps)} steps", file=sys.stderr, flush=True)
            continue
        found = read_record(file)
        assert found.complete
        assert found.digest == whole.digest
        ended += 1
    last, _ = run(folder / f"killed{ended}.mcap", words, "--resume")
    assert last.complete
    assert last.digest == whole.digest
    return (
        f"{done} runs killed at random moments: {done - empty} records read and verified up to "
        f"where they stop, {empty} killed before the first message; {ended + 1} runs resumed to "
        "the end, all with the digest of a run that nobody killed."
    )


def repeat_runs(folder: Path, words: list[str]) -> list[str]:
    """One seed twice, from the record alone, and with other vector widths."""
    first, _ = run(folder / "first.mcap", words)
    again, _ = run(folder / "again.mcap", words)
    command = [sys.executable, "-m", "qddot", "evidence", "replay", str(folder / "first.mcap")]
    replayed = json.loads(subprocess.run([*command, "--json"], capture_output=True).stdout)
    lines = [
        f"Two runs with one seed: digests {word(first.digest == again.digest)}; `evidence replay` "
        f"in another process: {word(replayed['same_results'])}."
    ]
    for width in WIDTHS:
        other, _ = run(folder / f"width{width}.mcap", words, QDDOT_VECTOR_BYTES=width)
        found = compare_records(first, other)
        verdicts = sum(d.kind == "claim" for d in found)
        metrics = [d.name for d in found if d.kind == "metric"]
        alike = [name for name in first.metrics if name not in metrics]
        worst = max(
            (abs(first.metrics[n].value - other.metrics[n].value)
             / max(abs(first.metrics[n].value), 1e-9) for n in metrics),
            default=0.0,
        )  # fmt: skip
        lines += [
            "",
            f"Vectors of {width} bytes: {verdicts} verdicts differ; of {len(first.metrics)} "
            f"metrics {len(alike)} are the same to the last bit, the others differ by {worst:.1g} "
            "at most (relative, residuals at the level of rounding as 10⁻⁹). The same to the last "
            "bit: " + ", ".join(f"`{name}`" for name in alike) + ".",
        ]
    return lines


def word(same: bool) -> str:
    """Sameness in a word."""
    return "identical" if same else "DIFFERENT"


def write_part(part: str, text: str) -> None:
    """Put a text between the marks of a part of the page."""
    first, last = f"<!-- {part} -->", f"<!-- /{part} -->"
    block = re.compile(f"{re.escape(first)}.*{re.escape(last)}", re.S)
    page = PAGE.read_text("utf-8")
    PAGE.write_text(block.sub(lambda _: f"{first}\n{text}\n{last}", page), "utf-8")


def main() -> None:
    """Kill, repeat, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=["kills", "repeats"], help="one of both; both by default")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("robot", nargs="?", default="planar_2r")
    asked = parser.parse_args()
    words = [asked.robot, "--skip", "engines", "--duration", "4"]
    with tempfile.TemporaryDirectory() as folder:
        if asked.part != "repeats":
            killed = kill_runs(Path(folder), [*words, "--steps", STEPS], asked.kills, asked.seed)
            write_part("kills", f"{killed} `{asked.robot}`, steps {STEPS}.")
        if asked.part != "kills":
            lines = [f"`{asked.robot}`, all steps but the comparison with engines:", ""]
            write_part("repeats", "\n".join([*lines, *repeat_runs(Path(folder), words)]))


if __name__ == "__main__":
    main()
