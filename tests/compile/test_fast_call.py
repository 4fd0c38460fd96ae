"""The built-in function on versions of CPython and NumPy that it was never run on."""

from __future__ import annotations

import subprocess
import sys
import types

import numpy as np
import pytest

from qddot.compile import kernel as kernel_module
from qddot.compile.kernel import KernelSource, compile_kernel
from qddot.compile.runtime import fast_call as direct
from qddot.compile.runtime import fast_call_probe as direct_probe
from qddot.compile.runtime.cache import Cache
from qddot.errors import InvalidArgument

pytestmark = pytest.mark.skipif(
    direct._numpy_addresses() is None, reason="this interpreter keeps its objects otherwise"
)


@pytest.fixture(autouse=True)
def own_folder(monkeypatch, tmp_path):
    """A cache without outcomes of earlier probes, and no settings."""
    monkeypatch.setenv("QDDOT_CACHE_DIR", str(tmp_path / "objects"))
    monkeypatch.delenv("QDDOT_FAST_CALL", raising=False)
    return tmp_path / "objects"


@pytest.fixture
def unknown(monkeypatch):
    """A version of Python that is not in the list."""
    monkeypatch.setattr(direct, "_PYTHONS", frozenset())


@pytest.fixture
def children(monkeypatch) -> list:
    """The commands of the child processes that are started."""
    started, real = [], subprocess.run

    def run(command, **options):
        started.append(command)
        return real(command, **options)

    monkeypatch.setattr(subprocess, "run", run)
    return started


def is_fast() -> bool:
    """Whether a new kernel has the built-in function; its results are right in any case."""
    source = KernelSource(
        "twice", "Twice.", lambda x: [2.0 * y for y in x], ((3,),), ((3,),), "twice"
    )
    kernel = compile_kernel(source)
    x = np.arange(3.0)
    assert kernel.call(x).tolist() == [0.0, 2.0, 4.0]
    assert kernel.call(x, np.empty(3)).tolist() == [0.0, 2.0, 4.0]
    return isinstance(kernel.call, types.BuiltinFunctionType)


@pytest.mark.parametrize(("setting", "fast"), [("0", False), ("1", True)])
def test_the_setting_decides_without_a_child(monkeypatch, unknown, children, setting, fast):
    monkeypatch.setenv("QDDOT_FAST_CALL", setting)
    assert is_fast() is fast
    assert not children


@pytest.mark.parametrize("wrong", ["2", "no", "off"])
def test_other_settings_are_refused(monkeypatch, wrong):
    monkeypatch.setenv("QDDOT_FAST_CALL", wrong)
    with pytest.raises(InvalidArgument, match=r"QDDOT_FAST_CALL.*0 \(off\), 1 \(on\)"):
        is_fast()


def test_known_versions_start_no_child(monkeypatch, children):
    monkeypatch.setattr(direct, "_PYTHONS", frozenset([sys.version_info[:2]]))
    monkeypatch.setattr(
        direct, "_NUMPYS", frozenset([tuple(map(int, np.__version__.split(".")[:2]))])
    )
    monkeypatch.setattr("sysconfig.get_config_var", lambda name: None)
    assert is_fast()
    assert not children


@pytest.mark.parametrize("what", ["python", "numpy", "free-threaded"])
def test_an_unknown_version_is_tried_once(monkeypatch, children, own_folder, what):
    if what == "python":
        monkeypatch.setattr(direct, "_PYTHONS", frozenset())
    elif what == "numpy":
        monkeypatch.setattr(direct, "_NUMPYS", frozenset())
    else:
        monkeypatch.setattr("sysconfig.get_config_var", lambda name: name == "Py_GIL_DISABLED")
    assert is_fast()
    assert len(children) == 1
    # another process finds the outcome in the cache
    direct._is_proved.cache_clear()
    assert is_fast()
    assert len(children) == 1
    # of another version nothing is known
    assert len(Cache(own_folder).entries()) == 2
    monkeypatch.setattr(np, "__version__", "9.9.9")
    assert is_fast()
    assert len(children) == 2


ENDS = {
    "crash": "import os; os.abort()",
    "segmentation fault": "import ctypes; ctypes.string_at(0)",
    "wrong result": "raise AssertionError",
    "hang": "import time; time.sleep(60)",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_child_that_ends_badly_is_survived_and_remembered(monkeypatch, unknown, children, end):
    monkeypatch.setattr(direct, "_PROBE", ENDS[end])
    monkeypatch.setattr(direct, "_PROBE_SECONDS", 1.0 if end == "hang" else 60.0)
    for _ in range(2):
        assert not is_fast()
        direct._is_proved.cache_clear()
    assert len(children) == 1


@pytest.mark.parametrize("how", ["no program", "another program", "frozen", "no process"])
def test_where_no_child_can_be_started_the_gufunc_serves(monkeypatch, unknown, own_folder, how):
    def refuse(*_, **__):
        raise OSError("no more processes")

    if how == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    elif how == "no process":
        monkeypatch.setattr(subprocess, "run", refuse)
    else:
        monkeypatch.setattr(sys, "executable", None if how == "no program" else "/bin/blender")
    assert not is_fast()
    # nothing was learnt that would hold for the next process
    assert len(Cache(own_folder).entries()) == 1


def test_the_trial_passes_here(monkeypatch):
    monkeypatch.setenv("QDDOT_FAST_CALL", "1")
    direct_probe.prove_fast_call()


def leaking(call, kept):
    def leak(*given):
        kept.extend(given[:1])
        return call(*given)

    return leak


def forgetful(call, kept):
    def forget(*given):
        kept.append(object())
        return call(*given)

    return forget


def wrong(call, kept):
    def alter(*given):
        found = call(*given)
        (found[-1] if isinstance(found, tuple) else found).flat[-1] += 1.0
        return found

    return alter


def silent(call, kept):
    def swallow(*given):
        with np.errstate(all="ignore"):
            return call(*given)

    return swallow


def lenient(call, kept):
    def convert(*given):
        return call(*(np.zeros(2) if x is None else x for x in given))

    return convert


def view(call, kept):
    def cut(*given):
        found = call(*given)
        return tuple(x[:] for x in found) if isinstance(found, tuple) else found[:]

    return cut


FAULTS = {
    leaking: "miscounted",
    forgetful: "memory stays behind",
    wrong: "differ",
    silent: "no error of flags",
    lenient: "ended as",
    view: "views",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_the_trial_finds_faults(monkeypatch, fault):
    """In a stand-in for the built-in function, which does one thing wrong."""
    monkeypatch.setenv("QDDOT_FAST_CALL", "1")
    real, kept = kernel_module.make_fast_call, []

    class Stand:
        def __init__(self, call) -> None:
            self.__self__, self.call = call.__self__, fault(call, kept)

        def __call__(self, *given):
            return self.call(*given)

    monkeypatch.setattr(kernel_module, "make_fast_call", lambda *given: Stand(real(*given)))
    monkeypatch.setattr("types.BuiltinFunctionType", Stand)
    with pytest.raises(AssertionError, match=FAULTS[fault]):
        direct_probe.prove_fast_call()


def test_a_free_threaded_layout_is_seen_by_its_fields(monkeypatch):
    """Objects begin with sixteen bytes more there."""
    for name in ("TYPE", "DATA", "AXES", "SHAPE", "DTYPE", "FLAGS", "BYTES"):
        monkeypatch.setattr(direct.ir, name, getattr(direct.ir, name) + 16)
    direct._numpy_addresses.cache_clear()
    try:
        assert direct._numpy_addresses() is None
        assert not is_fast()
    finally:
        monkeypatch.undo()
        direct._numpy_addresses.cache_clear()
    assert direct._numpy_addresses() is not None
