"""Work that does not fit in memory is refused before it is allocated, with what would fit."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from native_cases import cold_cache, robots  # noqa: F401

import qddot
from qddot.compile.runtime import memory
from qddot.errors import NotEnoughMemory, QddotError, format_bytes

GIB = 2**30


@pytest.fixture
def two_gib(monkeypatch):
    """A machine with 2 GiB left; how often it was asked."""
    asked = []
    monkeypatch.setattr(memory, "available_memory", lambda: asked.append(1) or 2 * GIB)
    return asked


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("way", ["method", "call", "lists"])
def test_a_batch_that_does_not_fit(two_gib, native, threads, way):
    robot = robots("planar_2r")[0 if native else 1]
    robot.mass_matrix(np.zeros(2))
    # the input is one number in memory, the result 3.2 · 10¹³ bytes
    q = np.broadcast_to(0.0, (10**6, 10**6, 2))
    calls = {
        "method": lambda: robot.mass_matrix(q),
        "call": lambda: robot.call("mass_matrix", q),
        "lists": lambda: robot.bias(q, [0.0, 0.0]),
    }
    with qddot.threads(threads), pytest.raises(NotEnoughMemory) as caught:
        calls[way]()
    error = caught.value
    assert isinstance(error, QddotError)
    assert isinstance(error, MemoryError)
    each = 16 if way == "lists" else 32
    assert (error.needed, error.available) == (each * 10**12, 2 * GIB)
    assert format_bytes(error.needed) in str(error)
    assert "2 GiB are available" in str(error)
    assert f"at most {2 * GIB // each} states fits" in str(error)


def test_inputs_that_are_small_may_broadcast_to_what_is_large(two_gib):
    robot, _ = robots("planar_2r")
    robot.bias(np.zeros(2), np.zeros(2))
    with pytest.raises(NotEnoughMemory) as caught:
        robot.bias(np.zeros((20_000, 1, 2)), np.zeros((20_000, 2)))
    assert caught.value.needed == 16 * 20_000**2
    # half of it in single precision, which does not fit either
    with pytest.raises(NotEnoughMemory) as caught:
        robot.bias(np.zeros((20_000, 1, 2), "f4"), np.zeros((20_000, 2), "f4"))
    assert caught.value.needed == 8 * 20_000**2


def test_all_results_of_a_function_count(two_gib):
    robot, _ = robots("planar_2r")
    q = np.broadcast_to(0.0, (10**8, 2))
    for native in robots("planar_2r"):
        with pytest.raises(NotEnoughMemory) as caught:
            native.inverse_dynamics_derivatives(q, q, q)
        assert caught.value.needed == 3 * 32 * 10**8
    with pytest.raises(NotEnoughMemory) as caught:
        robot.empty("inverse_dynamics_derivatives", 10**8)
    assert caught.value.needed == 3 * 32 * 10**8
    with pytest.raises(NotEnoughMemory) as caught:
        robot.compile("inverse_dynamics_derivatives", zeros="kept")(q, q, q)
    assert caught.value.needed == 3 * 32 * 10**8


def test_empty_arrays_that_do_not_fit(two_gib):
    robot, _ = robots("planar_2r")
    for batch in (10**12, (10**6, 10**6), 10**30):
        with pytest.raises(NotEnoughMemory, match="a batch of at most 67108864 states fits"):
            robot.empty("mass_matrix", batch)
    assert robot.empty("mass_matrix", 100).shape == (100, 2, 2)


def test_what_is_small_or_has_its_place_is_not_asked_about(two_gib):
    robot, definition = robots("planar_2r")
    for r in (robot, definition):
        r.mass_matrix(np.zeros(2))
        r.mass_matrix(np.zeros((1000, 2)))
        r.mass_matrix([[0.0, 0.0]])
        r.empty("mass_matrix", 1000)
    large = np.broadcast_to(0.0, (10**6, 2, 2))
    assert large.size * 8 > memory.SMALL / 4
    q = np.zeros((3 * 10**6, 2))
    robot.mass_matrix(q, out=np.empty((3 * 10**6, 2, 2)))
    assert not two_gib
    robot.mass_matrix(q)
    assert two_gib


def test_where_memory_is_unknown_only_the_address_space_is_a_limit(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    robot, _ = robots("planar_2r")
    memory.require_memory(2**62, "a test", "less")
    with pytest.raises(NotEnoughMemory, match=r"needs 2\.776e\+13 EiB"):
        robot.empty("mass_matrix", 10**30)


def test_a_remedy_may_depend_on_what_there_is(two_gib):
    with pytest.raises(NotEnoughMemory) as caught:
        memory.require_memory(3 * GIB, "a rollout", "record fewer steps")
    assert str(caught.value) == (
        "a rollout needs 3 GiB of memory, and 2 GiB are available; record fewer steps"
    )
    with pytest.raises(NotEnoughMemory, match="; 2 steps fit"):
        memory.require_memory(3 * GIB, "a rollout", lambda left: f"{left // GIB} steps fit")


MEMINFO = "MemTotal: 8 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\n"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """The files of a Linux machine with 8 GiB available, and a way to write more."""

    def write(files: dict[str, str]) -> int | None:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return memory.available_memory()

    monkeypatch.setattr(memory, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "_address_space", lambda: None)
    monkeypatch.setattr(memory.sys, "platform", "linux")
    assert write({"proc/meminfo": MEMINFO}) == 8 * GIB
    return write


def test_a_control_group_of_version_2(machine):
    files = {
        "proc/self/cgroup": "0::/slice/scope\n",
        "cgroup/slice/scope/memory.max": "max\n",
        "cgroup/slice/scope/memory.current": "5\n",
    }
    assert machine(files) == 8 * GIB
    # the group above has a limit, and half of what is used are pages of files
    files = {
        "cgroup/slice/memory.max": f"{4 * GIB}\n",
        "cgroup/slice/memory.current": f"{2 * GIB}\n",
    }
    assert machine(files) == 2 * GIB
    assert machine({"cgroup/slice/memory.stat": f"anon 7\ninactive_file {GIB}\n"}) == 3 * GIB
    assert machine({"cgroup/slice/memory.current": f"{9 * GIB}\n"}) == 0


def test_a_control_group_of_version_1(machine):
    files = {
        "proc/self/cgroup": "9:pids:/\n4:cpu,memory:/box\n0::/\n",
        "cgroup/memory/memory.limit_in_bytes": f"{2**63 - 4096}\n",
        "cgroup/memory/memory.usage_in_bytes": "1\n",
        "cgroup/memory/box/memory.limit_in_bytes": f"{3 * GIB}\n",
        "cgroup/memory/box/memory.usage_in_bytes": f"{GIB}\n",
    }
    assert machine(files) == 2 * GIB


@pytest.mark.parametrize("text", ["", "nonsense", "MemAvailable:", "MemAvailable: many kB"])
def test_files_that_say_nothing(machine, text):
    found = machine({"proc/meminfo": text, "proc/self/cgroup": "nonsense\n\n"})
    assert found is None or found > 0


def test_this_machine_has_memory():
    found = memory.available_memory()
    assert found is None or 2**20 < found < 2**60


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space are Linux's")
def test_a_limit_of_the_address_space(monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (10**15, 10**15))
    left = memory._address_space()
    assert 0 < left < 10**15


def test_windows_is_asked_in_its_own_way(monkeypatch):
    class Kernel:
        def GlobalMemoryStatusEx(self, pointer):
            assert pointer._obj.length == 64
            pointer._obj.available_physical = 3 * GIB
            return 1

    class Windll:
        kernel32 = Kernel()

    monkeypatch.setattr(memory.sys, "platform", "win32")
    monkeypatch.setattr(memory.ctypes, "windll", Windll, raising=False)
    assert memory.available_memory() == 3 * GIB
    monkeypatch.delattr(memory.ctypes, "windll")
    assert memory.available_memory() is None


@pytest.mark.parametrize(
    ("n", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1 KiB"), (10**13, "9.095 TiB")],
)
def test_bytes_in_words(n, text):
    assert format_bytes(n) == text
