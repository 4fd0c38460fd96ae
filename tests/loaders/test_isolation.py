"""Tasks in a child process: plain results, limits that hold, ends that are told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from qddot.errors import DescriptionError, MissingPackage
from qddot.loaders.isolation import ChildLimits, run_isolated, stream_isolated

TASKS = """
import os, sys, time

def echo(*values):
    return list(values)

def letters(count):
    return b"x" * count

def modules():
    return sorted(sys.modules)

def environment():
    return dict(os.environ)

def path():
    return sys.path

def spin():
    while True:
        pass

def sleep():
    time.sleep(60)

def swell():
    return len(bytearray(3 * 2**30))

def end(signal):
    os.kill(os.getpid(), signal)

def leave():
    print("an answer that is none")
    os.write(2, b"some text\\nno\\x07 luck\\n")
    os._exit(3)

def chatter():
    while True:
        print("x" * 1000)

def write(path):
    with open(path, "w") as stream:
        stream.write("x" * 10000)

def fail(kind):
    from qddot import errors
    if kind == "description":
        raise errors.DescriptionError("a.urdf", "is odd", "link 'l'", 7)
    if kind == "missing":
        raise errors.MissingPackage("xacro", "expanding")
    raise RuntimeError("no\\n" + "x" * 100000)

def pieces(count, size, end):
    for k in range(count):
        yield bytes([k]) * size
    if end == "fail":
        raise RuntimeError("half-way")
    if end == "crash":
        os._exit(3)
    if end == "spin":
        spin()
    return {"count": count}

def forge(letter, content):
    os.write([n for n in range(3, 20) if _is_pipe(n)][0], (letter + content).encode())
    os._exit(0)

def _is_pipe(number):
    import stat
    try:
        return stat.S_ISFIFO(os.fstat(number).st_mode)
    except OSError:
        return False
"""
limited = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")


@pytest.fixture(autouse=True)
def tasks(tmp_path, monkeypatch):
    (tmp_path / "isolated_tasks.py").write_text(TASKS)
    monkeypatch.syspath_prepend(str(tmp_path))


def run(task, *arguments, **limits):
    return run_isolated(
        f"isolated_tasks:{task}", *arguments, file="a.xacro", limits=ChildLimits(**limits)
    )


def failure(task, *arguments, **limits):
    with pytest.raises(DescriptionError) as caught:
        run(task, *arguments, **limits)
    return str(caught.value)


def test_results_are_plain():
    values = [1, 2.5, "é\n", None, True, [1, {"a": []}]]
    assert run("echo", *values) == values
    assert run("letters", 100_000) == b"x" * 100_000


def test_the_child_imports_next_to_nothing():
    assert not {"numpy", "casadi", "llvmlite", "pytest", "qddot.robot"} & set(run("modules"))


def test_the_child_sees_few_variables(monkeypatch):
    monkeypatch.setenv("A_SECRET", "1")
    monkeypatch.setenv("ROS_PACKAGE_PATH", "here")
    seen = run("environment")
    assert "A_SECRET" not in seen
    assert seen["ROS_PACKAGE_PATH"] == "here"
    given = run_isolated(
        "isolated_tasks:environment", file="a", environment={**os.environ, "B": "2"}
    )
    assert given["A_SECRET"] == "1"
    assert given["B"] == "2"


def test_the_working_folder_is_not_imported_from(monkeypatch):
    monkeypatch.syspath_prepend("")
    assert "" not in run("path")


def test_the_program_that_asks_is_not_run_again(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "print('started')\nfrom qddot.loaders.isolation import run_isolated\n"
        "print(run_isolated('isolated_tasks:echo', 5, file='a'))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    found = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=environment, check=True
    )
    assert found.stdout.split() == ["started", "[5]"]


@limited
def test_processor_time_is_limited():
    assert failure("spin", cpu_seconds=1) == (
        "a.xacro: takes more than 1 s of processor time to read"
    )


def test_time_is_limited():
    assert failure("sleep", seconds=0.5) == "a.xacro: takes more than 0.5 s to read"


@limited
def test_memory_is_limited():
    assert failure("swell") == "a.xacro: needs more than 1024 MiB of memory"


def test_output_is_limited():
    assert failure("letters", 2**20 + 1, output=2**20) == "a.xacro: gives more than 1 MiB of output"
    assert len(run("letters", 2**20, output=2**20)) == 2**20


@limited
@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGKILL"])
def test_a_crash_is_an_error(name):
    assert (
        failure("end", int(signal.Signals[name])) == f"a.xacro: crashes its reader (signal {name})"
    )


def test_an_early_end_is_an_error():
    assert failure("leave") == "a.xacro: crashes its reader (exit code 3: no luck)"


def test_chatter_without_end_is_an_error():
    assert failure("chatter") == "a.xacro: makes its reader print without end"


@limited
def test_no_file_can_be_written(tmp_path):
    assert "File too large" in failure("write", str(tmp_path / "marker"))
    assert (tmp_path / "marker").stat().st_size == 0


def test_errors_come_back():
    with pytest.raises(DescriptionError) as caught:
        run("fail", "description")
    error = caught.value
    assert (error.file, error.reason, error.element, error.line) == (
        "a.urdf", "is odd", "link 'l'", 7,
    )  # fmt: skip
    with pytest.raises(MissingPackage, match="expanding needs the package 'xacro'"):
        run("fail", "missing")
    assert failure("fail", "other").startswith("a.xacro: RuntimeError: no")
    assert len(failure("fail", "other")) < 5000


@limited
@pytest.mark.parametrize(
    ("letter", "content"),
    [
        ("j", "{"),
        ("j", "[" * 100_000),
        ("e", "[]"),
        ("e", '{"class": "DescriptionError", "text": "", "fields": {}}'),
        ("e", '{"class": "DescriptionError", "text": "", "fields": '
              '{"file": [], "reason": 1, "element": {"a": 1}, "line": 0}}'),
        ("p", "cos\nsystem\n(S'true'\ntR."),
    ],
)  # fmt: skip
def test_an_answer_is_never_more_than_data(letter, content):
    """A child that was taken over can say what it likes: nothing of it is run or believed."""
    assert failure("forge", letter, content).startswith("a.xacro: ")


def stream(*arguments, **limits):
    """The pieces of a stream, and what it returned."""
    found = stream_isolated(
        "isolated_tasks:pieces", *arguments, file="a.mcap", limits=ChildLimits(**limits)
    )
    made = []
    while True:
        try:
            made.append(next(found))
        except StopIteration as end:
            return made, end.value


def test_pieces_arrive_in_order_with_what_the_task_returns():
    made, result = stream(5, 100_000, "")
    assert made == [bytes([k]) * 100_000 for k in range(5)]
    assert result == {"count": 5}


@pytest.mark.parametrize(
    ("end", "words"),
    [("fail", "half-way"), ("crash", "crashes its reader"), ("spin", "takes more")],
)
def test_a_stream_that_ends_badly_is_an_error(end, words):
    with pytest.raises(DescriptionError, match=words):
        stream(2, 10, end, seconds=3.0)


def test_a_piece_is_bounded():
    with pytest.raises(DescriptionError, match="MiB of output"):
        stream(1, 2**21, "", output=2**20)


def test_a_stream_that_nobody_reads_ends():
    found = stream_isolated("isolated_tasks:pieces", 50, 10**6, "spin", file="a.mcap")
    assert next(found) == bytes(10**6)
    found.close()
