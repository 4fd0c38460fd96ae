"""Exported C: compiles without a warning, passes its own test program, equals the definition."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from everything import everything_robot
from typer.testing import CliRunner

import qddot
from qddot.algorithms.catalogue import CATALOGUE
from qddot.cli import app
from qddot.compile.trace.tape import Tape
from qddot.export.c_source import c_identifier, comment_text, number_literal, string_literal
from qddot.export.precision import evaluate_tape, relative_errors
from qddot.model.links import Contact
from qddot.robot.robot import Robot

CC, CXX = shutil.which("gcc") or shutil.which("cc"), shutil.which("g++") or shutil.which("c++")
if sys.platform == "win32":
    # those that a Windows machine may have make no objects for its own Python
    CC = CXX = None
STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wdouble-promotion"]
needs_cc = pytest.mark.skipif(CC is None, reason="no C compiler: neither gcc nor cc on the path")
needs_cxx = pytest.mark.skipif(CXX is None, reason="no C++ compiler: neither g++ nor c++")
FRAMES = {"ur5e": "grasp", "panda": "panda_hand_tcp", "quadruped": "RR_foot"}
DTYPES = {"float64": 1e-12, "float32": 1e-4}
PLAIN = ["inverse_dynamics", "forward_dynamics", "mass_matrix", "gravity", "kinetic_energy"]


def requests(robot: str) -> list:
    at = {"frame": FRAMES[robot], "reference": "local_world_aligned"}
    pushed = {"forces": [(FRAMES[robot], "world")], "friction": True}
    return [
        *PLAIN,
        *("integrate", "momentum_regressor"),
        ("frame_pose", {"frame": FRAMES[robot]}),
        ("frame_jacobian", at),
        ("frame_velocity", {**at, "reference": "world"}),
        ("inverse_dynamics", pushed),
    ]


def compile_c(folder: Path, *args: str) -> None:
    done = subprocess.run(
        [CC, *STRICT, "-Werror", *args], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[:3000]


def build(folder: Path, name: str, level: str = "-O2") -> subprocess.CompletedProcess:
    """Compile the functions once, for the test program and as a shared object; run the program."""
    compile_c(folder, level, "-fPIC", "-c", f"{name}.c", "-o", "f.o")
    compile_c(folder, f"{name}_test.c", "f.o", "-lm", "-o", "test")
    compile_c(folder, "-shared", "f.o", "-lm", "-o", "f.so")
    return subprocess.run([str(folder / "test")], capture_output=True, text=True)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The folder of a robot in a precision, compiled and found right by its own program."""

    @cache
    def folder_of(robot: str, dtype: str) -> Path:
        folder = tmp_path_factory.mktemp(f"{robot}_{dtype}")
        qddot.load(robot).export_c(requests(robot), folder, dtype)
        result = build(folder, robot)
        assert result.returncode == 0, result.stdout
        assert result.stdout.count("pass\n") == len(requests(robot))
        assert "largest relative error" in result.stdout
        return folder

    return folder_of


@needs_cc
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FRAMES)
def test_compiled_equals_interpreted(name, dtype, exported):
    robot, folder = qddot.load(name), exported(name, dtype)
    library = ctypes.CDLL(str(folder / "f.so"))
    rng, frame = np.random.default_rng(7), FRAMES[name]
    calls = {
        "inverse_dynamics": ("inverse_dynamics", {}),
        "forward_dynamics": ("forward_dynamics", {}),
        "mass_matrix": ("mass_matrix", {}),
        "integrate": ("integrate", {}),
        f"frame_pose_{frame}": ("frame_pose", {"frame": frame}),
        f"frame_velocity_{frame}_world": ("frame_velocity", {"frame": frame, "reference": "world"}),
    }
    for suffix, (function, options) in calls.items():
        run = getattr(library, f"{name}_{function}" + suffix.removeprefix(function))
        arguments = [a for a in CATALOGUE[function].inputs if a.name != "f_ext"]
        for _ in range(5):
            inputs = [
                (robot.random(rng) if a.shape == ("nq",) else rng.normal(size=robot.nv)).astype(
                    dtype
                )
                for a in arguments
            ]
            expected = robot.call(function, *(x.astype(float) for x in inputs), **options)
            found = np.full(expected.shape, np.nan, dtype)
            run(*(x.ctypes.data_as(ctypes.c_void_p) for x in (*inputs, found)))
            assert np.abs(found - expected).max() <= DTYPES[dtype] * np.abs(expected).max()


@needs_cc
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_function_of_the_catalogue(dtype, tmp_path):
    robot = qddot.load("planar_2r")
    frame = robot.frame_names[-1]
    settings = {"frame": frame, "reference": "local", "axes": ("x", "z")}
    settings |= {"constraints": (Contact(frame, rows=("x",)),), "stabilisation": 3.0}
    wanted = [
        (name, {o.name: settings[o.name] for o in row.options if o.name in settings})
        for name, row in CATALOGUE.items()
    ]
    robot.export_c(wanted, tmp_path, dtype)
    result = build(tmp_path, "planar_2r", "-O1")
    assert result.returncode == 0, result.stdout


@needs_cc
def test_every_joint_type(tmp_path):
    wanted = ["inverse_dynamics", "integrate", "difference", "friction", "body_poses"]
    everything_robot().export_c(wanted, tmp_path)
    result = build(tmp_path, "random", "-O1")
    assert result.returncode == 0, result.stdout


@needs_cc
def test_the_test_program_notices_a_wrong_number(tmp_path):
    qddot.load("planar_2r").export_c("gravity", tmp_path)
    file = tmp_path / "planar_2r.c"
    assert "9.81" in file.read_text()
    file.write_text(file.read_text().replace("9.81", "9.82"))
    result = build(tmp_path, "planar_2r")
    assert result.returncode == 1
    assert "FAIL" in result.stdout


@needs_cc
def test_stack_use_is_small_without_optimisation(tmp_path):
    qddot.load("quadruped").export_c("forward_dynamics", tmp_path)
    compile_c(tmp_path, "-O0", "-fstack-usage", "-c", "quadruped.c")
    used = [
        int(line.split("\t")[1]) for line in (tmp_path / "quadruped.su").read_text().splitlines()
    ]
    assert max(used) < 4096


@needs_cc
def test_header_stands_alone(exported):
    folder = exported("panda", "float32")
    compile_c(folder, "-fsyntax-only", "-x", "c", "panda.h")
    text = (folder / "panda.h").read_text()
    for said in ("PANDA_NQ 7", "PANDA_NV 7", "SI, radians, kg", "panda_joint7", "row 0: at frame"):
        assert said in text
    everything = "".join(f.read_text() for f in folder.glob("*.[ch]"))
    assert everything.isascii()
    assert "alloc" not in everything
    assert "free(" not in everything
    assert "const double q[" not in everything


@needs_cc
@needs_cxx
def test_header_serves_cpp(exported, tmp_path):
    folder = exported("panda", "float64")
    (tmp_path / "main.cpp").write_text(
        '#include "panda.h"\nint main() { double q[PANDA_NQ] = {0}, g[PANDA_NV];\n'
        "panda_gravity(q, g); return g[0] == 0.0 && g[1] < 0.0 ? 0 : 1; }\n"
    )
    flags = ["-std=c++98", "-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{folder}"]
    program = tmp_path / "main"
    command = [CXX, *flags, "main.cpp", str(folder / "f.o"), "-o", str(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert subprocess.run([str(program)]).returncode == 0


ODD = '2 "odd" */ ??/ naïve-Röbot\\ /* τ'


@needs_cc
@needs_cxx
def test_a_robot_with_an_odd_name(tmp_path):
    model = qddot.load("planar_2r").model
    bodies = [
        dataclasses.replace(b, joint=dataclasses.replace(b.joint, name=ODD + b.joint.name))
        for b in model.bodies
    ]
    frames = tuple(dataclasses.replace(f, name=ODD + f.name) for f in model.frames)
    robot = Robot(dataclasses.replace(model, name=ODD, bodies=tuple(bodies), frames=frames))
    wanted = ["gravity", *(("frame_pose", {"frame": f}) for f in robot.frame_names)]
    result = robot.export_c(wanted, tmp_path)
    assert result.files[0] == "robot_2_odd_naive_Robot.h"
    assert build(tmp_path, "robot_2_odd_naive_Robot").returncode == 0
    library = ctypes.CDLL(str(tmp_path / "f.so"))
    names = (ctypes.c_char_p * 2).in_dll(library, "robot_2_odd_naive_Robot_joint_names")
    assert [n.decode() for n in names] == list(robot.joint_names)


def test_text_of_parts():
    assert [c_identifier(x) for x in ("a-b", "3r", "", "机", "__x__", "go2.v1")] == [
        "a_b", "robot_3r", "robot", "robot", "x", "go2_v1",
    ]  # fmt: skip
    assert [number_literal(x, "float") for x in (0.1, 1.0, 1e300, 1e-60)] == [
        "0.1f", "1.0f", "HUGE_VALF", "0.0f",
    ]  # fmt: skip
    assert [number_literal(x, "double") for x in (0.1, -2.0, float("nan"), -float("inf"))] == [
        "0.1", "-2.0", "NAN", "-HUGE_VAL",
    ]  # fmt: skip
    assert comment_text(["x */ y /* ??/ é τ²"]) == "/*\n * x * / y / * ? ? / e tau^2\n */"
    assert string_literal('a"\\?ü') == '"a\\042\\134\\077\\303\\274"'


def test_names_that_would_be_equal_are_numbered(tmp_path):
    model = qddot.load("planar_2r").model
    frames = [dataclasses.replace(model.frames[0], name=n) for n in ("a-b", "a_b", "a b")]
    robot = Robot(dataclasses.replace(model, frames=tuple(frames)))
    wanted = [("frame_pose", {"frame": f}) for f in (*robot.frame_names, "a-b")]
    result = robot.export_c(wanted, tmp_path)
    base = "planar_2r_frame_pose_a_b"
    assert [r.function for r in result.accuracy] == [base, f"{base}_2", f"{base}_3"]


def test_same_robot_same_text(tmp_path):
    texts = []
    for folder in (tmp_path / "a", tmp_path / "b", tmp_path / "a"):
        result = qddot.load("ur5e").export_c(requests("ur5e"), folder, "float32")
        texts.append([(folder / f).read_text() for f in result.files])
    assert texts[0] == texts[1] == texts[2]


def test_report_tells_the_errors_of_float32(tmp_path):
    result = qddot.export_c(qddot.load("panda"), ["mass_matrix", "bias"], tmp_path)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["states"] == 1000
    assert [(r["function"], r["output"]) for r in report["accuracy"]] == [
        ("panda_mass_matrix", "M"), ("panda_bias", "h"),
    ]  # fmt: skip
    for row, ours in zip(report["accuracy"], result.accuracy, strict=True):
        assert row == dataclasses.asdict(ours)
        assert 1e-8 < row["rms"] < row["largest"] < 1e-5
        assert row["tolerance"] == 1e-12


def test_precision_of_a_tape():
    tape = Tape(
        (("input", 0), ("add", 0, 1.0), ("sub", 1, 1.0), ("select", 2, 0, 1.0, 2.0)), 1, (2, 3, 5.0)
    )
    at = np.array([[1e-9], [0.5]])
    assert evaluate_tape(tape, at, "float32").tolist() == [[0.0, 1.0, 5.0], [0.5, 2.0, 5.0]]
    exact = evaluate_tape(tape, at, "float64")
    assert relative_errors(exact, exact).tolist() == [0.0, 0.0]
    assert relative_errors(np.zeros((2, 1)), np.array([[0.0], [2.0]])).tolist() == [0.0, 1.0]


def test_files_of_others_are_kept(tmp_path):
    robot = qddot.load("planar_2r")
    (tmp_path / "planar_2r.c").write_text("int precious;\n")
    with pytest.raises(
        qddot.QddotError, match=r"planar_2r\.c: it exists and was not made by qddot"
    ):
        robot.export_c("gravity", tmp_path)
    assert [f.name for f in tmp_path.iterdir()] == ["planar_2r.c"]
    assert (tmp_path / "planar_2r.c").read_text() == "int precious;\n"
    with pytest.raises(qddot.QddotError, match=r"cannot write .*: Not a directory"):
        robot.export_c("gravity", tmp_path / "planar_2r.c" / "out")
    with pytest.raises(qddot.QddotError, match="cannot write"):
        robot.export_c("gravity", tmp_path / "planar_2r.c")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


@pytest.mark.parametrize("fault", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("step", [("fsync", 3), ("rename", 0), ("rename", 3), ("rename", 8)])
@pytest.mark.parametrize("earlier", ["nothing", "an export", "a folder"])
def test_all_files_are_written_or_none(tmp_path, monkeypatch, fault, step, earlier):
    robot, folder = qddot.load("planar_2r"), tmp_path / "deep" / "c"
    if earlier != "nothing":
        folder.mkdir(parents=True)
        (folder / "precious.txt").write_text("mine")
    if earlier == "an export":
        robot.export_c("gravity", folder)
    before, (name, last) = contents(tmp_path), step
    calls, real = [], getattr(os, name)

    def fail(*args):
        calls.append(args)
        if len(calls) == last + 1:
            raise fault(28, "No space left on device")
        return real(*args)

    monkeypatch.setattr(os, name, fail)
    failed = False
    try:
        robot.export_c("mass_matrix", folder)
    except (qddot.QddotError, KeyboardInterrupt):
        failed = True
    monkeypatch.undo()
    assert failed == (len(calls) > last)
    after = contents(tmp_path)
    if failed:
        assert after == before
        assert (tmp_path / "deep").exists() == (earlier != "nothing")
    else:
        assert len(after) == 5 + (earlier != "nothing")
        assert "mass_matrix" in (folder / "report.json").read_text()


@pytest.mark.parametrize("earlier", [False, True])
def test_a_disk_that_fills_up_leaves_what_was_there(tmp_path, earlier):
    resource = pytest.importorskip("resource", reason="limits of file sizes are those of POSIX")
    robot, folder = qddot.load("planar_2r"), tmp_path / "c"
    sizes = [
        len(x) for x in contents(robot.export_c("mass_matrix", tmp_path / "d").folder).values()
    ]
    shutil.rmtree(tmp_path / "d")
    if earlier:
        robot.export_c("gravity", folder)
    before, (soft, hard) = contents(tmp_path), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (max(sizes) - 1, hard))
    try:
        with pytest.raises(qddot.QddotError, match=r"cannot write .*c: File too large"):
            robot.export_c("mass_matrix", folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert contents(tmp_path) == before
    assert folder.exists() == earlier


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("mass_matrx", "no function 'mass_matrx'; closest: 'mass_matrix'"),
        ("frame_jacobian", "'frame_jacobian' is not understood; it needs the option frame and ref"),
        (("frame_pose", {"frame": "tol"}), "no frame 'tol' in 'planar_2r'"),
        (("frame_pose", {"frme": "tool"}), "no option 'frme' in 'frame_pose'; closest: 'frame'"),
        ([("frame_velocity", {"frame": "tool", "reference": "wrld"})], "closest: 'world'"),
        (("inverse_dynamics", {"forces": ["tool"]}), r"it is a list of \(frame, reference\)"),
        ([], "name at least one function"),
        ([3], "asked for by its name"),
    ],
)
def test_errors_say_what_is_needed(wanted, message, tmp_path):
    with pytest.raises(qddot.QddotError, match=message):
        qddot.load("planar_2r").export_c(wanted, tmp_path)
    assert not list(tmp_path.iterdir())


def test_dtype_is_checked(tmp_path):
    with pytest.raises(qddot.QddotError, match="it is 'float64' or 'float32'"):
        qddot.load("planar_2r").export_c("gravity", tmp_path, "int8")


def test_command_line(tmp_path):
    args = ["export", "ur5e", "--functions", "gravity,frame_jacobian", "--frame",
            "tool0", "--frame", "grasp", "--reference", "world", "--dtype", "float32", "--out",
            str(tmp_path / "c")]  # fmt: skip
    result = CliRunner().invoke(app, [*args, "--json"])
    assert result.exit_code == 0, result.stderr
    data = json.loads(result.stdout)
    assert [r["function"] for r in data["accuracy"]] == [
        f"ur5e_{n}" for n in ("gravity", "frame_jacobian_tool0_world", "frame_jacobian_grasp_world")
    ]
    assert {f.name for f in (tmp_path / "c").iterdir()} == set(data["files"])
    refused = CliRunner().invoke(app, args)
    assert (refused.exit_code, "(--force) overwrites it" in refused.stderr) == (2, True)
    shown = CliRunner().invoke(app, [*args, "--force"])
    assert shown.exit_code == 0
    assert "1000 random states" in " ".join(shown.stdout.split())
    wrong = CliRunner().invoke(app, ["export", "ur5e", "--function", "gravity", "--frame", "tool0"])
    assert wrong.exit_code == 2
    assert "takes a frame" in wrong.stderr
