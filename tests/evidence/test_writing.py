"""Files of records while they are written: one writer, the old record kept, errors that name it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from qddot.cli import app
from qddot.errors import CannotWrite, InvalidArgument
from qddot.evidence import Recorder, Run, Verdict, read_record, record_file, verify_record
from qddot.evidence.record_file import part_beside


def write(file, command="test", force=False):
    with Recorder(file, Run(command), force) as r:
        r.claim("holds", "a with b", verdict=Verdict.PASS)
    return file


def names(folder):
    return sorted(x.name for x in folder.iterdir())


def test_two_processes_do_not_write_one_record(tmp_path):
    file = tmp_path / "run.mcap"
    code = (
        "import sys; from qddot.evidence import Recorder, Run\n"
        "with Recorder(sys.argv[1], Run('first')): print(1, flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", code, str(file)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe) as child:
        child.stdout.readline()
        busy = rf"run.mcap: process {child.pid} is writing it; wait for it"
        for force in (False, True):
            with pytest.raises(CannotWrite, match=busy if force else "exists|writing"):
                write(file, "second", force)
        child.communicate()
    assert read_record(file).run.command == "first"
    assert names(tmp_path) == ["run.mcap"]


def test_the_lock_of_a_process_that_was_killed_holds_nobody_up(tmp_path):
    file = tmp_path / "run.mcap"
    code = (
        "import sys; from qddot.evidence import Recorder, Run\n"
        "with Recorder(sys.argv[1], Run('first')): print(1, flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", code, str(file)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        os.kill(child.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    assert ".run.mcap.lock" in names(tmp_path)
    assert not read_record(file).complete
    write(file, "second", force=True)
    assert read_record(file).run.command == "second"
    assert names(tmp_path) == ["run.mcap"]


def interrupt(file):
    with Recorder(file, Run("new"), force=True) as r:
        r.claim("first", "a with b", verdict=Verdict.FAIL)
        # as a killed process would leave it
        assert read_record(file).run.command == "old"
        assert [c.name for c in read_record(part_beside(file)).claims] == ["first"]
        raise KeyboardInterrupt


def test_a_record_is_kept_until_the_new_one_is_whole(tmp_path):
    file = write(tmp_path / "run.mcap", "old")
    with pytest.raises(KeyboardInterrupt):
        interrupt(file)
    assert read_record(file).run.command == "old"
    part = read_record(part_beside(file))
    assert (part.run.command, part.complete, part.verdict) == ("new", False, Verdict.FAIL)
    shown = CliRunner().invoke(app, ["evidence", "show", str(file)])
    assert "run.mcap.part is of a run that has not ended" in " ".join(shown.output.split())
    write(file, "newer", force=True)
    assert read_record(file).run.command == "newer"
    assert names(tmp_path) == ["run.mcap"]


def test_hidden_drafts_of_dead_processes_are_removed(tmp_path):
    dead, living = tmp_path / ".run-0123abcd.mcap", tmp_path / ".run-4567abcd.mcap"
    other = tmp_path / ".run-notes.mcap"
    dead.write_bytes(b"x")
    other.write_bytes(b"x")
    with Recorder(living, Run("test")):
        write(tmp_path / "run.mcap")
        assert names(tmp_path) == sorted(
            [".run-4567abcd.mcap", "..run-4567abcd.mcap.lock", ".run-notes.mcap", "run.mcap"]
        )


def test_a_full_disk_is_told_with_the_name_of_the_record(tmp_path, monkeypatch):
    from mcap.writer import Writer

    file = tmp_path / "run.mcap"

    def fail(*words, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("start", "add_attachment", "add_message", "flush", "finish"):
        with monkeypatch.context() as patch:
            patch.setattr(Writer, name, fail)
            words = ["check", "planar_2r", "--states", "3", "--record", str(file)]
            done = CliRunner().invoke(app, words)
        assert done.exit_code == 2, name
        assert f"{file}: {os.strerror(errno.ENOSPC)}" in " ".join(done.output.split()), name
        assert not (tmp_path / ".run.mcap.lock").exists()
        file.unlink()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_stream_that_is_full_is_told_too():
    with pytest.raises(CannotWrite, match="/dev/full"), Recorder("/dev/full", Run("test")) as r:
        r.trace("x", {"a": np.zeros(10_000)})


def test_what_no_reader_would_take_is_not_written(tmp_path, monkeypatch):
    limits = {**record_file._LIMITS, "numbers": 1000}
    monkeypatch.setattr(record_file, "_LIMITS", limits)
    file = tmp_path / "run.mcap"
    with Recorder(file, Run("test")) as r:
        r.trace("x", {"a": np.zeros(900)})
        with pytest.raises(InvalidArgument, match="room for 1000 numbers; keep fewer rows"):
            r.trace("y", {"a": np.zeros((2, 300))})
    with pytest.raises(InvalidArgument, match="name has 2000 letters"):
        write_claim(tmp_path / "long.mcap", "x" * 2000)
    monkeypatch.undo()
    assert read_record(file).traces.keys() == {"x"}


def write_claim(file, name):
    with Recorder(file, Run("test")) as r:
        r.claim(name, "a with b", verdict=Verdict.PASS)


def test_traces_without_rows_and_names_that_are_no_text_are_read(tmp_path):
    file = tmp_path / "run.mcap"
    with Recorder(file, Run("test", ("\udcff.urdf",), configuration={"robot": "\udcff"})) as r:
        r.trace("empty", {"a": np.zeros(0), "b": np.zeros((0, 3))})
        r.trace("far", {"time": [1e300, 2e300]})
        r.metric("none", "rms", "empty.a")
    found = read_record(file)
    assert verify_record(found) == []
    assert found.traces["empty"].columns["b"].shape == (0, 3)
    assert found.run.arguments == ("?.urdf",)


def test_a_verdict_does_not_contradict_its_numbers():
    r = Recorder(None, Run("test"))
    with pytest.raises(InvalidArgument, match="follows from the value"):
        r.claim("c", "x", value=2.0, relation="<", bound=1.0, verdict=Verdict.PASS)
    with pytest.raises(InvalidArgument, match="finite"):
        r.claim("c", "x", value=2.0, relation="<", bound=np.inf)
    made = r.claim("c", "x", value=2.0, relation="<", bound=1.0, verdict=Verdict.NOT_EVALUATED)
    assert (made.value, made.bound, made.relation) == (None, None, "")
    assert r.claim("c", "x", value=np.inf, relation=">", bound=1.0).verdict is Verdict.FAIL
