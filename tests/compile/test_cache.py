"""The cache of object code: whatever happens to its files, results are right."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import re
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from native_cases import cold_cache, mover, mover_inputs, robots  # noqa: F401
from typer.testing import CliRunner

from qddot.cli import app
from qddot.compile import kernel as kernel_module
from qddot.compile.kernel import compile_kernel
from qddot.compile.runtime import cache as module
from qddot.compile.runtime.cache import Cache, Entry, cache_folder
from qddot.errors import SingularInertia
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Inertia

TESTS = Path(__file__).parent
ARRAYS = mover_inputs((5,))
owners = pytest.mark.skipif(
    not hasattr(os, "getuid"), reason="files have no owners and modes on this system"
)


@pytest.fixture
def cache(tmp_path) -> Cache:
    return Cache(tmp_path / "objects")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A whole file of the cache, and what its code gives."""
    kept = Cache(tmp_path_factory.mktemp("good"))
    kernel = compile_kernel(mover(), kept)
    return Path(kernel.facts["file"]), kernel.gufunc(*ARRAYS)


def right(kernel, good) -> bool:
    return all((a == b).all() for a, b in zip(kernel.gufunc(*ARRAYS), good[1], strict=True))


def planted(cache: Cache, good, content: bytes) -> Path:
    """A file where the cache will look for the mover."""
    cache.folder.mkdir(mode=0o700, exist_ok=True)
    path = cache.folder / good[0].name
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def sealed(content: bytes, body: bytes) -> bytes:
    """A file of this body with a right checksum."""
    magic = content[: len(module._MAGIC)]
    return magic + hashlib.sha256(body).digest() + body


def test_second_use_comes_from_the_file(cache, good):
    first = compile_kernel(mover(), cache)
    again = compile_kernel(mover(), cache)
    assert (first.facts["cached"], again.facts["cached"]) == (False, True)
    assert first.facts["file"] == again.facts["file"]
    assert "from the cache" in str(again)
    assert right(first, good)
    assert right(again, good)
    assert len(cache.entries()) == 1
    assert cache.size() == Path(first.facts["file"]).stat().st_size
    assert cache.clear() == 1
    assert cache.entries() == []


def test_code_of_the_cache_has_passed_its_check(tmp_path, monkeypatch):
    """Whether a mass matrix can be inverted is asked when a function is recorded, and only then."""
    monkeypatch.setenv("QDDOT_CACHE_DIR", str(tmp_path / "objects"))
    model = robots("planar_2r")[0].model
    first, again = Robot(model, native=True), Robot(model, native=True)
    for robot in (first, again):
        robot.explain("forward_dynamics")
    assert "singular_joints" in vars(first)
    assert "singular_joints" not in vars(again)
    light = [dataclasses.replace(b, inertia=Inertia.zero()) for b in model.bodies]
    for _ in range(2):
        robot = Robot(dataclasses.replace(model, bodies=tuple(light)), native=True)
        with pytest.raises(SingularInertia):
            robot.forward_dynamics(np.zeros(2), np.zeros(2), np.zeros(2))


@owners
def test_folder_and_files_are_private(cache):
    old = os.umask(0)
    try:
        path = Path(compile_kernel(mover(), cache).facts["file"])
    finally:
        os.umask(old)
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600
    assert not list(cache.folder.glob("*.part"))


def test_folder_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("QDDOT_CACHE_DIR", str(tmp_path / "given"))
    assert cache_folder() == tmp_path / "given"
    kernel = compile_kernel(mover())
    assert Path(kernel.facts["file"]).parent == tmp_path / "given"
    monkeypatch.delenv("QDDOT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "qddot"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "qddot"

    def homeless() -> None:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert cache_folder().name.startswith("qddot-")


def test_a_damaged_file_is_built_again(cache, good):
    whole = good[0].read_bytes()
    damaged = [
        whole[:n] for n in (0, 1, 14, 15, 20, 47, 54, 55, 100, len(whole) // 2, len(whole) - 1)
    ]
    damaged += [whole + b"\0", b"\0" * len(whole), os.urandom(4096), b"not ours"]
    for content in damaged:
        planted(cache, good, content)
        with pytest.warns(RuntimeWarning, match="damaged or foreign"):
            kernel = compile_kernel(mover(), cache)
        assert not kernel.facts["cached"]
        assert Path(kernel.facts["file"]).read_bytes()[:15] == whole[:15]
        assert compile_kernel(mover(), cache).facts["cached"]


def test_a_flipped_byte_anywhere_is_seen(cache, good):
    whole = good[0].read_bytes()
    (key,) = _keys(whole)
    for place in [*range(64), *range(0, len(whole), 97), len(whole) - 1]:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        planted(cache, good, bytes(flipped))
        with pytest.warns(RuntimeWarning, match="damaged or foreign"):
            assert cache.read(key) is None
    planted(cache, good, whole)
    assert cache.read(key).code == whole[-len(cache.read(key).code) :]


def _keys(content: bytes) -> list[str]:
    body = content[len(module._MAGIC) + 32 :]
    length = int.from_bytes(body[:8], "little")
    return [json.loads(body[8 : 8 + length])["key"]]


def test_a_sealed_file_of_another_processor_is_not_run(cache, good):
    whole = good[0].read_bytes()
    body = whole[len(module._MAGIC) + 32 :]
    length = int.from_bytes(body[:8], "little")
    header, code = json.loads(body[8 : 8 + length]), body[8 + length :]
    parts = json.loads(header["key"])
    parts[parts.index(kernel_module.native.host().cpu)] = "another-cpu"
    foreign = json.dumps({**header, "key": json.dumps(parts)}).encode()
    wrong = [
        len(foreign).to_bytes(8, "little") + foreign + code,
        len(b"{}").to_bytes(8, "little") + b"{}" + code,
        len(b"[1]").to_bytes(8, "little") + b"[1]" + code,
        len(b"nonsense").to_bytes(8, "little") + b"nonsense" + code,
        (2**62).to_bytes(8, "little") + body[8:],
        b"",
    ]
    for content in wrong:
        planted(cache, good, sealed(whole, content))
        with pytest.warns(RuntimeWarning, match="damaged or foreign"):
            kernel = compile_kernel(mover(), cache)
        assert not kernel.facts["cached"]
        assert right(kernel, good)


def test_a_file_under_the_name_of_another_key_is_not_run(cache, good):
    compile_kernel(mover("other"), cache)
    (other,) = cache.entries()
    planted(cache, good, other.read_bytes())
    with pytest.warns(RuntimeWarning, match="damaged or foreign"):
        assert right(compile_kernel(mover(), cache), good)


@owners
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o777])
def test_a_file_that_others_may_write_is_not_run(cache, good, mode):
    planted(cache, good, good[0].read_bytes()).chmod(mode)
    with pytest.warns(RuntimeWarning, match="can be changed by others"):
        kernel = compile_kernel(mover(), cache)
    assert not kernel.facts["cached"]
    assert right(kernel, good)
    # what was written instead is private again
    assert compile_kernel(mover(), cache).facts["cached"]


@owners
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_is_not_read(cache, good, mode):
    planted(cache, good, good[0].read_bytes())
    cache.folder.chmod(mode)
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="can be changed by others"):
            kernel = compile_kernel(mover(), cache)
        assert not kernel.facts["cached"]
        assert right(kernel, good)


@owners
def test_a_file_of_another_user_is_not_run(cache, good, monkeypatch):
    planted(cache, good, good[0].read_bytes())
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    with pytest.warns(RuntimeWarning, match="can be changed by others"):
        assert right(compile_kernel(mover(), cache), good)


def test_a_folder_that_cannot_be(tmp_path, good):
    blocker = tmp_path / "file"
    blocker.write_text("in the way")
    for folder in (blocker, blocker / "below"):
        with pytest.warns(RuntimeWarning, match="cannot be"):
            kernel = compile_kernel(mover(), Cache(folder))
        assert right(kernel, good)
    assert blocker.read_text() == "in the way"


@pytest.mark.parametrize("call", ["replace", "fdopen", "mkdir"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_full_or_read_only_disk(cache, good, monkeypatch, call, code):
    def fail(*_, **__):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(Path if call == "mkdir" else os, call, fail)
        with pytest.warns(RuntimeWarning, match=f"cannot be written .{os.strerror(code)}"):
            kernel = compile_kernel(mover(), cache)
    assert right(kernel, good)
    assert not list(cache.folder.glob("*"))


def test_a_disk_that_fills_while_writing_leaves_no_part(cache, good, monkeypatch):
    real = os.fdopen

    def short(handle, mode):
        file = real(handle, mode)

        class Full:
            def __enter__(self):
                return self

            def __exit__(self, *_):
                file.close()

            def write(self, content):
                file.write(content[:100])
                raise OSError(errno.ENOSPC, "No space left on device")

        return Full()

    monkeypatch.setattr(os, "fdopen", short)
    with pytest.warns(RuntimeWarning, match="No space left"):
        assert right(compile_kernel(mover(), cache), good)
    assert not list(cache.folder.iterdir())


def test_a_read_only_cache_is_still_used(cache, good, monkeypatch):
    compile_kernel(mover(), cache)

    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = compile_kernel(mover(), cache)
    assert kernel.facts["cached"]
    assert right(kernel, good)


def test_the_longest_unused_go_first(tmp_path):
    entry = Entry({}, b"x" * 10_000)
    size = len(entry.to_bytes("key0"))
    cache = Cache(tmp_path / "objects", most_bytes=3 * size)
    for k in range(3):
        cache.write(f"key{k}", entry)
        moment = time.time() - 100 + k
        os.utime(cache.path(f"key{k}"), (moment, moment))
    # reading counts as use
    assert cache.read("key0") == entry
    cache.write("key3", entry)
    assert [cache.read(f"key{k}") is not None for k in range(4)] == [True, False, True, True]
    assert cache.size() == 3 * size


def test_files_that_vanish_meanwhile_are_no_trouble(cache, monkeypatch):
    real = Path.glob

    def ghosts(self, pattern):
        yield from real(self, pattern)
        yield self / "gone.qddot"

    monkeypatch.setattr(Path, "glob", ghosts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.write("key", Entry({}, b"code"))
    assert cache.read("key") == Entry({}, b"code")
    assert len(cache.entries()) == 1


def test_the_key_is_all_that_code_depends_on(cache, monkeypatch):
    files = {compile_kernel(mover(tag), cache).facts["file"] for tag in ("", "a")}
    monkeypatch.setattr(kernel_module, "_sources_digest", lambda: "other sources")
    files |= {compile_kernel(mover(), cache).facts["file"]}
    assert len(files) == 3
    digest = kernel_module._sources_digest
    monkeypatch.undo()
    assert kernel_module._sources_digest() != digest()
    robot, _ = robots("planar_2r")
    heavier = robot.with_payload(robot.frame_names[-1], 0.1)
    sources = [
        kernel_module._cache_key(r.explain(f).source, d)
        for r in (robot, type(robot)(heavier.model, native=True))
        for f in ("gravity", "mass_matrix")
        for d in ("float64", "float32")
    ]
    assert len(set(sources)) == 8


def test_only_sources_that_kernels_are_recorded_from_change_the_key(tmp_path):
    def digest_with(number: int, *added: str) -> str:
        package = tmp_path / str(number)
        for name in ("algorithms/gravity.py", "cli/check.py", *added):
            (package / name).parent.mkdir(parents=True, exist_ok=True)
            (package / name).write_text("# a source file")
        return kernel_module._sources_digest(package)

    plain = digest_with(0)
    silent = [f"{name}/added.py" for name in kernel_module._WITHOUT_KERNEL_TEXT]
    assert digest_with(1, *silent) == plain
    for i, name in enumerate(["algorithms/added.py", "a_new_package/law.py", "scalar.py"], 2):
        assert digest_with(i, name) != plain
    (tmp_path / "0/algorithms/gravity.py").write_text("# other text")
    assert kernel_module._sources_digest.__wrapped__(tmp_path / "0") != plain


def test_packages_left_out_of_the_key_have_no_part_in_recording():
    """Only the loaders stand above the packages that kernels come from, and they give data."""
    source = Path(kernel_module.__file__).parents[1]
    for folder in ("spatial", "model", "algorithms", "compile", "analysis"):
        for file in (source / folder).rglob("*.py"):
            imported = re.findall(r"^ *(?:from|import) qddot\.(\w+)", file.read_text("utf-8"), re.M)
            assert not set(imported) & kernel_module._WITHOUT_KERNEL_TEXT, file


PROCESS = """
import sys, warnings
import numpy as np
import qddot
from qddot.robot.robot import Robot

warnings.simplefilter("error", RuntimeWarning)
sys.stdin.readline()
robot = Robot(qddot.load("planar_2r").model, native=True)
q = np.linspace(-1.0, 1.0, 14).reshape(7, 2)
for dtype in ("f8", "f4"):
    sys.stdout.write(robot.bias(q.astype(dtype), 2 * q.astype(dtype)).tobytes().hex() + " ")
"""


def test_many_processes_at_once_on_an_empty_cache(tmp_path):
    environment = {**os.environ, "QDDOT_CACHE_DIR": str(tmp_path / "shared")}
    # which has an entry of its own where it is tried first
    environment["QDDOT_FAST_CALL"] = "0"
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = [
        subprocess.Popen([sys.executable, "-c", PROCESS], env=environment, text=True, **pipe)
        for _ in range(16)
    ]
    for process in running:
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=90) for process in running]
    assert [p.returncode for p in running] == [0] * 16, outputs
    assert len({out for out, _ in outputs}) == 1
    q = np.linspace(-1.0, 1.0, 14).reshape(7, 2)
    found = np.frombuffer(bytes.fromhex(outputs[0][0].split()[0])).reshape(7, 2)
    np.testing.assert_allclose(found, robots("planar_2r")[1].bias(q, 2 * q), rtol=1e-12)
    assert len(Cache(tmp_path / "shared").entries()) == 2
    assert not list((tmp_path / "shared").glob("*.part"))


# files that are no plain files of this user

NO_PLAIN_FILE = {
    "fifo": lambda path, _: os.mkfifo(path),
    "folder": lambda path, _: path.mkdir(),
    "link": lambda path, good: path.symlink_to(good),
    "loop": lambda path, _: path.symlink_to(path),
    "device": lambda path, _: path.symlink_to(os.devnull),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
@pytest.mark.parametrize("kind", NO_PLAIN_FILE)
def test_what_is_no_plain_file_is_not_read(tmp_path, good, kind):
    """Run in a process of its own: to open a FIFO waits for a writer."""
    folder = tmp_path / "objects"
    folder.mkdir(mode=0o700)
    NO_PLAIN_FILE[kind](folder / good[0].name, good[0])
    program = (
        "import warnings; warnings.simplefilter('error')\n"
        "from pathlib import Path\n"
        "from qddot.compile.runtime.cache import Cache\n"
        f"cache = Cache(Path({str(folder)!r}))\n"
        f"key = {_keys(good[0].read_bytes())[0]!r}\n"
        "try:\n    cache.read(key)\nexcept RuntimeWarning as warning:\n    print(warning)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert "is no plain file and is not used" in done.stdout, done.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
@pytest.mark.parametrize("kind", ["fifo", "link", "loop", "device"])
def test_a_plain_file_takes_the_place_of_what_was_none(cache, good, kind):
    cache.folder.mkdir(mode=0o700)
    NO_PLAIN_FILE[kind](cache.folder / good[0].name, good[0])
    before = good[0].read_bytes()
    with pytest.warns(RuntimeWarning, match="is no plain file"):
        assert right(compile_kernel(mover(), cache), good)
    assert good[0].read_bytes() == before
    assert compile_kernel(mover(), cache).facts["cached"]
    assert not (cache.folder / good[0].name).is_symlink()


def test_a_file_is_checked_and_read_through_one_descriptor(cache, good, monkeypatch):
    """What lies at the path when it has been checked is not looked at again."""
    path = planted(cache, good, good[0].read_bytes())
    (key,) = _keys(good[0].read_bytes())
    real = os.fstat

    def swapped(descriptor):
        status = real(descriptor)
        if stat.S_ISREG(status.st_mode):
            path.unlink(missing_ok=True)
            path.write_bytes(sealed(good[0].read_bytes(), b"planted"))
        return status

    monkeypatch.setattr(os, "fstat", swapped)
    found = cache.read(key)
    assert found.code
    assert good[0].read_bytes().endswith(found.code)


def test_systems_without_owners_and_without_these_flags(cache, good, monkeypatch):
    planted(cache, good, good[0].read_bytes()).chmod(0o666)
    cache.folder.chmod(0o777)
    monkeypatch.delattr(os, "getuid")
    for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY"):
        monkeypatch.delattr(os, flag)
    assert compile_kernel(mover(), cache).facts["cached"]


def repacked(content: bytes, facts=None, code=None) -> bytes:
    """A file with a right checksum and other facts or code."""
    body = content[len(module._MAGIC) + 32 :]
    length = int.from_bytes(body[:8], "little")
    header = json.loads(body[8 : 8 + length])
    if facts is not None:
        header["facts"] = facts
    raw = json.dumps(header).encode()
    code = body[8 + length :] if code is None else code
    return sealed(content, len(raw).to_bytes(8, "little") + raw + code)


def _without_the_loop(code: bytes) -> bytes:
    """Object code whose function has another name of the same length."""
    assert b"qddot_loop" in code
    return code.replace(b"qddot_loop", b"qddot_pool")


def test_unreadable_object_code_is_built_again(cache, good):
    whole = good[0].read_bytes()
    code = Cache(good[0].parent).read(_keys(whole)[0]).code
    wrong = [
        repacked(whole, code=b""),
        repacked(whole, code=b"no object code"),
        repacked(whole, code=code[:64]),
        repacked(whole, code=_without_the_loop(code)),
        repacked(whole, facts={}),
        repacked(whole, facts=[1]),
        repacked(whole, facts="facts"),
    ]
    for content in wrong:
        planted(cache, good, content)
        with pytest.warns(RuntimeWarning, match="and is built again"):
            kernel = compile_kernel(mover(), cache)
        assert not kernel.facts["cached"]
        assert right(kernel, good)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert compile_kernel(mover(), cache).facts["cached"]


def test_unreadable_object_code_of_the_float32_loop(cache, good):
    arrays = [x.astype("f4") for x in ARRAYS]
    expected = compile_kernel(mover(), cache).gufunc(*arrays)
    (path,) = [p for p in cache.entries() if p.name != good[0].name]
    path.write_bytes(repacked(path.read_bytes(), code=b"no object code"))
    kernel = compile_kernel(mover(), cache)
    with pytest.warns(RuntimeWarning, match="and is built again"):
        found = kernel.gufunc(*arrays)
    assert all((a == b).all() for a, b in zip(found, expected, strict=True))


def test_parts_that_nobody_finishes_are_pruned_and_counted(cache, monkeypatch):
    cache.folder.mkdir(mode=0o700)
    old, new = cache.folder / "old.part", cache.folder / "new.part"
    for path in (old, new):
        path.write_bytes(b"x" * 1000)
    moment = time.time() - 2 * 3600
    os.utime(old, (moment, moment))
    assert sorted(cache.partial_files()) == [new, old]
    monkeypatch.setenv("QDDOT_CACHE_DIR", str(cache.folder))
    shown = CliRunner().invoke(app, ["cache", "info"]).output
    assert "2 unfinished" in " ".join(shown.split())
    assert (
        json.loads(CliRunner().invoke(app, ["cache", "info", "--json"]).output)["unfinished"] == 2
    )
    cache.write("key", Entry({}, b"code"))
    # a part that is being written by another process stays
    assert cache.partial_files() == [new]
    assert cache.clear() == 2
    assert not list(cache.folder.iterdir())


def test_a_file_that_another_process_reads_stays(tmp_path, monkeypatch):
    """As on Windows, which neither replaces nor removes such a file."""
    cache = Cache(tmp_path)
    cache.write("key", Entry({"name": "first"}, b"code"))

    def refuse(*given, **options):
        raise PermissionError(13, "in use")

    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error")
        patch.setattr(os, "replace", refuse)
        cache.write("key", Entry({"name": "second"}, b"code"))
        patch.setattr(Path, "unlink", refuse)
        assert cache.clear() == 0
    assert cache.read("key").facts == {"name": "first"}
    assert cache.clear() >= 1
