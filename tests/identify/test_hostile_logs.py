"""Logs and saved motions of strangers: each is read, or refused in words, in bounded memory."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import hostile_logs
import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="no Linux")


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    """What came of every case, tried in one process that a crash or a hang would end."""
    folder = tmp_path_factory.mktemp("hostile")
    done = subprocess.run(
        [sys.executable, hostile_logs.__file__, str(folder)], capture_output=True, text=True,
        timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", hostile_logs.CASES)
def test_a_hostile_file_is_read_or_refused_in_words(trials, name):
    found = trials["cases"][name]
    failed = {k: x for k, x in found["outcomes"].items() if x.startswith("failed")}
    assert not failed
    assert found["seconds"] < hostile_logs.MOST_SECONDS
    assert found["bytes"] < hostile_logs.MOST_BYTES


def test_parsers_in_children_stay_within_their_memory(trials):
    assert trials["children"] < hostile_logs.MOST_BYTES


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("long line.csv", "a line has more than 1,048,576 letters"),
        ("wide.csv", "6000 columns; 4096 at most"),
        ("wide.parquet", "5000 columns; 4096 at most"),
        ("wide.mcap", "columns; 4096 at most"),
        ("names.mcap", "letters; 1000 at most"),
        ("rows.parquet", "more than 1,073,741,824 numbers"),
        ("7 TiB.npy", r"claims the shape \(\d+, 2\) of float64, and has 0 bytes"),
        ("7 TiB in time.npz", "claims the shape"),
        ("bomb.npz", "it unfolds to 4 GiB; a file of its size may unfold to"),
        ("columns.npz", "of its arrays do not lie row after row"),
        ("many.npz", "5000 arrays; 4096 at most"),
        ("two q.npz", "two arrays named 'q'"),
        ("long header.npy", "its header has 2147483647 bytes; 2048 at most"),
        ("object in time.npz", "elements of type object"),
        ("bomb.mat", "needs more than|takes more than"),
        ("zstd bomb.mcap", "needs more than 1024 MiB of memory"),
        ("endless view.db3", "no table 'messages'"),
        ("generated.db3", "needs more than 1024 MiB of memory|too big"),
        ("pipe.csv", "not a regular file"),
        ("device.npz", "not a regular file"),
        ("pipe in a folder", "not a regular file"),
        ("huge t.csv", "is the unit of time right"),
        ("huge tau.csv", "it has 1 usable row"),
        ("tiny dt.npz", "steps of 1e-320 s"),
        ("dt.npz", "has no array 'v'|steps of nan s"),
    ],
)
def test_the_limit_and_the_file_are_named(trials, name, words):
    outcomes = trials["cases"][name]["outcomes"].values()
    stem = name.partition(".")[0]
    assert any(stem in x.partition(": ")[2] for x in outcomes)
    assert any(re.search(words, x) for x in outcomes), outcomes
