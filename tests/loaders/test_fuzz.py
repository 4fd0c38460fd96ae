"""The fuzzer itself: the same cases again, findings that are seen, and none on the first cases."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from fuzz import cases, mutate, run  # noqa: E402
from qddot.loaders.xml import parse_xml  # noqa: E402


def test_the_first_files_have_no_findings(tmp_path):
    command = [sys.executable, "-m", "fuzz", "--seed", "1", "--cases", "60", "--jobs", "1"]
    done = subprocess.run(
        [*command, "--keep", str(tmp_path / "kept")],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    report = json.loads(done.stdout)
    assert report["cases"] == 60
    assert report["findings"] == []
    assert done.returncode == bool(report["findings"])


def test_a_case_follows_from_its_number(tmp_path):
    numbers = [n for n in range(30) if cases.kind_of(7, n) not in ("calls", "functions")]
    assert len(numbers) > 15
    content = [[cases.write_case(7, n, tmp_path).read_bytes() for n in numbers] for _ in range(2)]
    assert content[0] == content[1]
    assert len(set(content[0])) == len(numbers)


def test_a_minute_has_cases_of_all_kinds():
    kinds = [cases.kind_of(0, n) for n in range(200)]
    assert set(kinds) == set(cases.KINDS)
    assert min(kinds.count(kind) for kind in set(cases.KINDS)) > 10


def _misbehave(seed: int, number: int, folder: Path) -> str:
    """Cases that do each thing that is a finding, and one that does none."""
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 2:
        raise ValueError("not ours")
    if number == 3:
        np.ones(2**25)
    if number == 4:
        time.sleep(60)
    return "accepted"


def test_crash_exception_memory_and_hang_are_findings(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "run_case", _misbehave)
    monkeypatch.setattr(run, "MOST_SECONDS", 4.0)
    monkeypatch.setattr(run, "_PATIENCE", 2)
    # a worker that does nothing shows the memory it starts with, and may take so much more
    at_rest = run.fuzz(0, 60.0, 1, tmp_path, cases=1).most_mb * 2**20
    monkeypatch.setattr(run, "MOST_BYTES", at_rest + 2**26)
    summary = run.fuzz(0, 60.0, 1, tmp_path, cases=6)
    assert [(f.number, f.kind) for f in summary.findings] == [
        (1, "crash"), (2, "exception"), (3, "memory"), (4, "hang"),
    ]  # fmt: skip
    assert summary.outcomes["accepted"] == 2


def test_elements_are_never_moved_into_themselves():
    def is_endless(element, above=()):
        inside = (*above, element)
        return any(element is e for e in above) or any(
            is_endless(child, inside) for child in element.children
        )

    for seed in range(200):
        rng = random.Random(seed)
        root = parse_xml(b"<a><b><c><d/></c></b></a>", "seed")
        mutate._repeat(root, rng)
        mutate._move(root, rng)
        assert not is_endless(root), seed
