"""Hostile records: errors of ours or damage, in bounded memory and time, whatever is in a file."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from fuzz.records import hostile_records, put_together, take_apart
from qddot.errors import RecordError
from qddot.evidence import Recorder, Run, Verdict, read_record
from qddot.evidence.inputs import gather_inputs
from qddot.evidence.reader import is_record

MOST_BYTES, MOST_SECONDS = 2**30, 10.0
CHILD = """
import json, sys, time, traceback
from pathlib import Path
from typer.testing import CliRunner
from fuzz.records import hostile_records
from qddot.cli import app, evidence
from qddot.errors import QddotError
from qddot.evidence import compare_records, read_record, verify_record

content, file = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2])
genuine, run = read_record(sys.argv[1]), CliRunner().invoke
run(app, ["evidence", "show", sys.argv[1]])
try:
    import resource
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + int(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
except (ImportError, OSError):
    limit = None
failed, slowest, outcomes = [], (0.0, ""), {"read": 0, "refused": 0}
for number, (name, data) in enumerate(hostile_records(content)):
    file.write_bytes(data)
    begun = time.process_time()
    try:
        found = read_record(file)
        slowest = max(slowest, (time.process_time() - begun, name))
        verify_record(found)
        compare_records(found, genuine), compare_records(genuine, found)
        # the commands read the file again, which takes as long
        evidence.read_record = lambda file: found
        shown = number % 3 == 0 or len(found.claims) > 1000
        for command in ("show", "verify") if shown else ():
            done = run(app, ["evidence", command, str(file)])
            if done.exception is not None and not isinstance(done.exception, SystemExit):
                raise done.exception
        outcomes["read"] += 1
    except QddotError as error:
        str(error).encode()
        outcomes["refused"] += 1
    except BaseException as error:
        failed.append([name, repr(error)[:300], traceback.format_exc()[-600:]])
print(json.dumps([failed, slowest, outcomes, limit is not None]))
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A small record with a message of each kind."""
    target = tmp_path_factory.mktemp("hostile") / "run.mcap"
    run = Run("test", ("{0}",), seed=1, inputs=gather_inputs(["planar_2r"]))
    with Recorder(target, run) as r, r.mark("1", "first"):
        columns = {"time": np.arange(4.0), "q": np.ones((4, 2))}
        r.trace("motion", columns, {"q": "rad"}, labels="abcd")
        r.metric("reach", "largest_magnitude", "motion.q", unit="rad")
        r.claim("reach", "q against one", metric="reach", relation="<", bound=1.5)
    return target


def test_no_record_takes_more_than_its_share_or_ends_in_a_traceback(file, tmp_path):
    words = [str(file), str(tmp_path / "hostile.mcap"), str(MOST_BYTES)]
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *words], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    failed, (seconds, name), outcomes, _ = json.loads(done.stdout.splitlines()[-1])
    assert failed == []
    assert seconds < MOST_SECONDS, name
    assert sum(outcomes.values()) >= 200
    assert min(outcomes.values()) >= 50


def test_mutants_are_the_same_each_time(file):
    content = file.read_bytes()
    first, again = (dict(islice(hostile_records(content), 200)) for _ in range(2))
    assert first == again
    assert len(set(first.values())) > 190


@pytest.mark.parametrize(
    ("topic", "change", "words"),
    [
        ("/run", {"command": 1}, "command is integer, not string"),
        ("/claim", {"verdict": "GOOD"}, "verdict is 'GOOD'"),
        ("/claim", {"value": "1"}, "value is string, not number"),
        ("/claim", {"relation": "≈"}, "relation is '≈'"),
        ("/claim", {"step": "7"}, "is of step '7', which is not open"),
        ("/metric", {"operands": "motion.q"}, "operands is string, not array"),
        ("/metric", {"parameters": {"a": None}}, "parameters.a is null, not number"),
        ("/traces", {"rows": -1}, "rows is -1"),
        ("/step", {"event": "pause"}, "event is 'pause'"),
        ("/end", {"digest": "0"}, "digest is '0'"),
        ("/log", {"more": 1}, "it has 'more', which is unknown"),
    ],
)
def test_damage_says_which_field_is_wrong(file, tmp_path, topic, change, words):
    profile, parts = take_apart(file.read_bytes())
    part = next(p for p in parts if p.topic == topic)
    part.message = {**part.message, **change}
    bad = tmp_path / "bad.mcap"
    bad.write_bytes(put_together(profile, parts))
    if topic == "/run":
        with pytest.raises(RecordError, match=words):
            read_record(bad)
    else:
        assert any(words in x for x in read_record(bad).damage), read_record(bad).damage


def test_a_trace_that_lost_its_begin_takes_nothing_else_with_it(tmp_path):
    file = tmp_path / "run.mcap"
    with Recorder(file, Run("test")) as r:
        r.claim("before", "x", verdict=Verdict.PASS)
        r.trace("long", {"x": np.arange(30_000.0)})
        r.claim("after", "x", verdict=Verdict.FAIL)
    data = bytearray(file.read_bytes())
    # the third chunk has the topic of the trace and its first rows
    place, left = 8, 3
    while left:
        opcode, length = struct.unpack_from("<BQ", data, place)
        place, left = place + 9 + length, left - (opcode == 6)
    data[place - 3] ^= 0x55
    file.write_bytes(data)
    found = read_record(file)
    assert "a message has no channel" in found.damage
    assert [c.name for c in found.claims] == ["before", "after"]
    assert found.verdict is Verdict.FAIL


@pytest.mark.parametrize("topic", ["/run", "/metric", "/end", "/traces"])
def test_messages_that_are_there_twice_are_damage(file, tmp_path, topic):
    profile, parts = take_apart(file.read_bytes())
    parts.insert(-1, next(p for p in parts if p.topic == topic))
    bad = tmp_path / "bad.mcap"
    bad.write_bytes(put_together(profile, parts))
    found = read_record(bad)
    assert found.damage
    assert found.run.command == "test"


def test_records_of_another_layout_are_refused_in_a_sentence(file, tmp_path):
    _, parts = take_apart(file.read_bytes())
    old = tmp_path / "old.mcap"
    old.write_bytes(put_together("qddot-evidence-1", parts))
    with pytest.raises(RecordError, match="a record of layout 1; this version reads layout 2"):
        read_record(old)


def test_pipes_devices_and_folders_are_refused_at_once(tmp_path):
    with pytest.raises(RecordError, match="it is a folder; a record is a file"):
        read_record(tmp_path)
    assert not is_record(tmp_path)
    places = [Path(os.devnull)]
    if hasattr(os, "mkfifo"):
        places.append(tmp_path / "pipe")
        os.mkfifo(places[1])
    for place in places:
        with pytest.raises(RecordError, match="a device or a pipe"):
            read_record(place)
        assert not is_record(place)
