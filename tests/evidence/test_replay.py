"""Replay of records of strangers: typed fields only, nothing run, written or read outside."""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import importlib.util
import inspect
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from qddot.cli import app
from qddot.cli import replay as replaying
from qddot.cli.parameters import ParameterRole, parameter_roles
from qddot.cli.replay import REPLAYABLE, build_call
from qddot.compile.runtime.cache import Cache, Entry
from qddot.errors import DescriptionError, InvalidArgument, RecordError
from qddot.evidence import Recorder, Run, Verdict, read_record
from qddot.evidence.agreement import TOLERANCE, compare_results
from qddot.evidence.inputs import gather_inputs
from qddot.evidence.record import Input
from qddot.loaders.isolation import ChildLimits, Enclosure, run_isolated


def has_landlock():
    """Whether the system can enclose a process."""
    if sys.platform != "linux":
        return False
    return ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) > 0


NEEDS_LANDLOCK = pytest.mark.skipif(not has_landlock(), reason="needs Landlock")
NEEDS_XACRO = pytest.mark.skipif(importlib.util.find_spec("xacro") is None, reason="needs xacro")
PENDULUM = """<robot name="p"{space}><link name="base"/>{more}
  <link name="rod">{mesh}<inertial><origin xyz="0 0 -0.5"/><mass value="1"/>
    <inertia ixx="0.09" iyy="0.09" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="hinge" type="revolute"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/>
    <limit lower="-2" upper="2" effort="50" velocity="5"/></joint></robot>"""


def pendulum(more="", mesh="", space=""):
    return PENDULUM.format(more=more, mesh=mesh, space=space).encode()


def an_input(content, place="0/robot/p.urdf"):
    """An input of a record with this content."""
    name = place.rsplit("/", 1)[-1]
    digest = hashlib.sha256(content).hexdigest()
    return Input(name, digest, len(content), place, content=content)


def write_record(file, command="check", configuration=None, inputs=None, arguments=()):
    """A record with one trace and one claim of a run as its author writes it."""
    given = {"robot": "{0}", "states": 2} if configuration is None else configuration
    kept = (an_input(pendulum()),) if inputs is None else inputs
    run = Run(command, tuple(arguments), given, kept, seed=0)
    with Recorder(file, run, force=True) as record:
        record.trace("t", {"x": [1.0]})
        record.claim("a", "x with y", verdict=Verdict.PASS)
    return file


def replay(file, *more):
    return CliRunner().invoke(app, ["evidence", "replay", str(file), *more])


def snapshot(*folders):
    """Names, sizes and digests of all files below folders."""
    files = (f for folder in folders for f in Path(folder).rglob("*") if f.is_file())
    return {str(f): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A home with a secret, a working folder, a cache and a folder for temporary files."""
    places = {name: tmp_path / name for name in ("home", "work", "cache", "temporary")}
    for place in places.values():
        place.mkdir(mode=0o700)
    (places["home"] / "secret.stl").write_bytes(b"secret")
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(places["home"]))
    monkeypatch.setenv("QDDOT_CACHE_DIR", str(places["cache"]))
    monkeypatch.setenv("QDDOT_NATIVE", "0")
    monkeypatch.setenv("SECRET_TOKEN", "7f3a")
    monkeypatch.setattr(tempfile, "tempdir", str(places["temporary"]))
    monkeypatch.chdir(places["work"])
    Cache().write("mine", Entry({}, b"mine"))
    return tmp_path


ROBOTS = {
    "a path": "/etc/passwd",
    "a path below": "arm.urdf",
    "upward": "../work/arm.urdf",
    "a home": "~/arm.urdf",
    "an address": "file:///etc/passwd",
    "a package": "package://a/b.urdf",
    "a name": "ur5e",
    "a number too large": "{1}",
    "a number below zero": "{-1}",
    "a number and more": "{0}/../p.urdf",
    "a blank": " {0}",
    "XML": "<robot/>",
    "nothing": "",
    "a list": ["{0}"],
    "a number": 0,
    "true": True,
    "none": None,
}
WORDS = {
    # outputs, and what is not for a record to say
    "report": ("pipeline", {"report": "x.html"}),
    "fix": ("audit", {"fix": "x.urdf"}),
    "html": ("audit", {"html": "x.html"}),
    "page": ("audit", {"page": "x.md"}),
    "plot": ("size", {"plot": "x.png"}),
    "save": ("simulate", {"save": "x.npz"}),
    "lab save": ("lab", {"save": "x", "robot": None}),
    "lab plot": ("lab", {"plot": "x", "robot": None}),
    "write": ("identify fit", {"log": "{0}", "write": "x.urdf", "method": "feasible"}),
    "record": ("check", {"record": "x.mcap"}),
    "force": ("check", {"force": True}),
    "as_json": ("check", {"as_json": True}),
    "resume": ("pipeline", {"resume": True}),
    "context": ("check", {"context": {}}),
    "unknown": ("check", {"__class__": 1}),
    "an option": ("check", {"--trust": True}),
    "trust": ("check", {"trust": True}),
    "trust of audit": ("audit", {"trust": True}),
    "trust as text": ("check", {"trust": "yes"}),
    "trust as number": ("check", {"trust": 1}),
    # files that are no inputs
    "b": ("compare", {"a": "{0}", "robot": None, "b": "/etc/passwd"}),
    "log": ("pipeline", {"log": "/etc/passwd"}),
    "identify log": ("identify inspect", {"log": "log.csv"}),
    "torque log": ("identify fit", {"log": "{0}", "torque_log": "/etc/passwd"}),
    "test log": ("identify validate", {"log": "{0}", "test_log": "../x"}),
    "gear": ("identify fit", {"log": "{0}", "gear": "/etc/passwd"}),
    "mjcf": ("lab", {"robot": None, "experiment": "gravity", "mjcf": "/etc/passwd"}),
    "match": ("audit", {"match": "../*"}),
    "frame": ("size", {"frame": "/etc/passwd"}),
    "state": ("simulate", {"state": "~/.ssh/id_rsa"}),
    "com": ("size", {"com": "0,0,__import__('os')"}),
    # values of another type, out of bounds, or none of the choices
    "text for a number": ("check", {"states": "5"}),
    "list for a number": ("check", {"states": [5]}),
    "fraction for a count": ("check", {"states": 2.5}),
    "below the least": ("check", {"states": 0}),
    "absurdly many": ("check", {"states": 10**18}),
    "true for a number": ("check", {"states": True}),
    "number for a flag": ("check", {"strict": 1}),
    "above the most": ("pipeline", {"duration": 1e9}),
    "base": ("check", {"base": "os.system"}),
    "base as list": ("check", {"base": ["fixed"]}),
    "couplings": ("check", {"couplings": "none"}),
    "integrator": ("simulate", {"integrator": "law.py"}),
    "without": ("simulate", {"without": "damping,law.py"}),
    "engines": ("compare", {"a": "{0}", "robot": None, "engines": "mujoco,os"}),
    "method": ("identify fit", {"log": "{0}", "method": "__import__"}),
    "friction": ("identify fit", {"log": "{0}", "friction": "viscous,x.py"}),
    "text for a list": ("pipeline", {"only": "gravity"}),
    "list of lists": ("pipeline", {"only": [["gravity"]]}),
    "endless list": ("pipeline", {"only": ["gravity"] * 5000}),
    "nested": ("simulate", {"time": {"a": 1}}),
}
COMMANDS = [
    "", "bench", "view", "convert", "export", "derive", "doctor", "report", "cache clear",
    "evidence replay", "evidence", "identify", "identify plan", "identify friction",
    "check --trust", "check ", "../check", "CHECK", "os.system", "__init__", "robots",
]  # fmt: skip


def refused(world, file):
    """The message of a replay that is refused before anything is run or written."""
    folders = [world / name for name in ("home", "work", "cache", "temporary")]
    before = snapshot(*folders)
    done = replay(file)
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    assert snapshot(*folders) == before
    return done.stderr


@pytest.fixture
def nothing_runs(monkeypatch):
    """No process may be started."""

    def never(*_, **__):
        raise AssertionError("a process was started")

    monkeypatch.setattr(replaying, "run_isolated", never)


@pytest.mark.parametrize("robot", ROBOTS.values(), ids=ROBOTS)
def test_a_robot_is_an_input_of_the_record(world, nothing_runs, robot):
    (world / "work" / "arm.urdf").write_bytes(pendulum())
    file = write_record(world / "r.mcap", configuration={"robot": robot, "states": 2})
    if robot is None:
        # without one it is the robot of the command, which is no input
        file = write_record(world / "r.mcap", configuration={"states": 2}, inputs=())
    assert "cannot be run again" in refused(world, file)


@pytest.mark.parametrize(("command", "values"), WORDS.values(), ids=WORDS)
def test_values_of_other_kinds_are_refused(world, nothing_runs, command, values):
    given = {k: x for k, x in {"robot": "{0}", **values}.items() if x is not None}
    assert "cannot be run again" in refused(world, write_record(world / "r.mcap", command, given))


@pytest.mark.parametrize("command", COMMANDS)
def test_other_commands_are_refused_with_those_that_can(world, nothing_runs, command):
    message = refused(world, write_record(world / "r.mcap", command))
    for known in REPLAYABLE:
        assert known in message


def test_argument_words_are_not_run(world):
    words = ["{0}", "--states", "9", "--trust", "--force", "--record", str(world / "x.mcap")]
    file = write_record(world / "r.mcap", arguments=words)
    done = replay(file, "--json")
    assert done.exit_code == 1, done.output
    assert json.loads(done.stdout)["word"] == "different"
    assert not (world / "x.mcap").exists()


XACRO = ' xmlns:xacro="http://ros.org/wiki/xacro"'
CODE = "${{__import__('pathlib').Path('{target}').write_text('x')}}"
READ = "<link name=\"${{load_yaml('{secret}')}}\"/>"
INPUTS = {
    "code in a xacro": lambda world: [
        an_input(
            pendulum(f'<link name="{CODE.format(target=world / "work" / "owned")}"/>', space=XACRO),
            "0/r/p.urdf.xacro",
        )
    ],
    "environment in a xacro": lambda _: [
        an_input(pendulum('<link name="$(env SECRET_TOKEN)"/>', space=XACRO), "0/r/p.urdf.xacro")
    ],
    "a xacro that reads a secret": lambda world: [
        an_input(
            pendulum(READ.format(secret=world / "home" / "secret.stl"), space=XACRO),
            "0/r/p.urdf.xacro",
        )
    ],
    "an attachment to itself": lambda _: [
        an_input(
            b"<mujoco><asset><model name='m' file='p.xml'/></asset><worldbody><body>"
            b"<attach model='m' prefix='a'/></body></worldbody></mujoco>",
            "0/r/p.xml",
        )
    ],
    "a class that MuJoCo takes for a format": lambda _: [
        an_input(b"<mujoco><worldbody><geom class='%s%n'/></worldbody></mujoco>", "0/r/p.xml")
    ],
    "an endless grid": lambda _: [
        an_input(
            b"<mujoco><asset><hfield name='h' nrow='999999' ncol='999999' size='1 1 1 1'/></asset>"
            b"<worldbody><body><joint/><geom size='1'/></body></worldbody></mujoco>",
            "0/r/p.xml",
        )
    ],
    "entities": lambda _: [
        an_input(b'<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><robot name="&b;"/>')
    ],
    "no description": lambda _: [an_input(b"\0\1\2")],
    "upward": lambda _: [an_input(pendulum(), "../../p.urdf")],
    "absolute": lambda world: [an_input(pendulum(), str(world / "work" / "p.urdf"))],
    "hidden": lambda _: [an_input(pendulum(), "0/.ssh/p.urdf")],
    "twice": lambda _: [an_input(pendulum()), an_input(b"other")],
    "a file as a folder": lambda _: [an_input(pendulum()), an_input(b"x", "0/robot/p.urdf/x")],
    "another content": lambda _: [dataclasses.replace(an_input(pendulum()), sha256="0" * 64)],
    "no content": lambda _: [dataclasses.replace(an_input(pendulum()), content=None)],
    "a long name": lambda _: [an_input(pendulum(), "0/" + "x" * 390 + ".urdf")],
}


@NEEDS_XACRO
@pytest.mark.parametrize("make", INPUTS.values(), ids=INPUTS)
def test_hostile_inputs_end_in_a_sentence(world, make):
    file = write_record(world / "r.mcap", inputs=tuple(make(world)))
    refused(world, file)
    assert not (world / "work" / "owned").exists()


@NEEDS_LANDLOCK
def test_a_mesh_outside_is_not_read(world):
    # the audit of the replay has no access to the secret
    secret = world / "home" / "secret.stl"
    mesh = f'<visual><geometry><mesh filename="file://{secret}"/></geometry></visual>'
    file = write_record(
        world / "r.mcap", "audit", {"robot": "{0}"}, (an_input(pendulum(mesh=mesh)),)
    )
    done = replay(file, "--json")
    assert done.exit_code == 1, done.output
    assert hashlib.sha256(b"secret").hexdigest()[:12] not in done.output


def test_the_cache_is_used_and_not_written(world, monkeypatch):
    monkeypatch.setenv("QDDOT_NATIVE", "1")
    robot = world / "work" / "p.urdf"
    robot.write_bytes(pendulum())
    file = world / "run.mcap"
    words = ["simulate", str(robot), "--time", "0.01", "--record", str(file)]
    assert CliRunner().invoke(app, words).exit_code in (0, 1)
    cache = snapshot(world / "cache")
    assert replay(file).exit_code == 0
    assert snapshot(world / "cache") == cache
    for name in cache:
        os.unlink(name)
    assert replay(file).exit_code == 0
    assert snapshot(world / "cache") == {}


def test_a_replay_that_takes_too_long_is_ended(world, monkeypatch):
    slow = {"robot": "{0}", "samples": 10**9}
    file = write_record(world / "r.mcap", "size", slow)
    limits = dataclasses.replace(replaying._LIMITS, seconds=4.0)
    monkeypatch.setattr(replaying, "_LIMITS", limits)
    assert "the replay failed: takes more than 4 s" in refused(world, file)


@pytest.mark.skipif(sys.platform != "linux", reason="the system bounds memory")
def test_a_replay_that_takes_too_much_memory_is_ended(world, monkeypatch):
    file = write_record(world / "r.mcap", configuration={"robot": "{0}", "states": 10**9})
    limits = dataclasses.replace(replaying._LIMITS, memory=2**30)
    monkeypatch.setattr(replaying, "_LIMITS", limits)
    assert "the replay failed" in refused(world, file)


def test_a_child_sees_no_secrets(world):
    (world / "inputs").mkdir()
    found = replaying._replay_environment(world)
    assert "SECRET_TOKEN" not in found
    assert str(world / "home") == found["HOME"]
    assert found["QDDOT_CACHE_READ_ONLY"]
    assert found["ROS_PACKAGE_PATH"] == ""


def enclosed(task, *arguments, folder):
    """A task in an enclosure that may read the program alone."""
    places = (sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable)))
    readable = tuple(Path(x) for x in (*places, *sys.path) if os.path.isabs(x))
    limits = ChildLimits(file_size=2**20, memory=4 * 2**30)
    return run_isolated(
        task, *arguments, file="a task", limits=limits, enclosure=Enclosure(folder, readable)
    )


@NEEDS_LANDLOCK
def test_an_enclosed_child_writes_only_in_its_folder(tmp_path):
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    for folder in (inner, outer):
        folder.mkdir()
    (outer / "secret").write_text("secret")
    assert enclosed("os:mkdir", str(inner / "a"), folder=inner) is None
    assert (inner / "a").is_dir()
    assert enclosed("os:listdir", str(inner), folder=inner) == ["a"]
    for task, arguments in (
        ("os:mkdir", (outer / "a",)),
        ("os:listdir", (outer,)),
        ("os:unlink", (outer / "secret",)),
        ("os:rename", (outer / "secret", inner / "b")),
        ("os:link", (outer / "secret", inner / "b")),
        ("linecache:updatecache", (outer / "secret",)),
        ("shutil:copyfile", (outer / "secret", inner / "b")),
        ("shutil:copyfile", (inner / "a", outer / "b")),
        # what the child starts is enclosed too
        ("subprocess:check_output", ([sys.executable, "-c", f"open({str(outer / 'c')!r}, 'w')"],)),
        ("subprocess:check_output", (["cat", str(outer / "secret")],)),
    ):
        plain = [[*x] if isinstance(x, list) else str(x) for x in arguments]
        try:
            found = enclosed(task, *plain, folder=inner)
        except DescriptionError:
            found = []
        assert not found
    assert snapshot(tmp_path) == {str(outer / "secret"): hashlib.sha256(b"secret").hexdigest()}


@NEEDS_LANDLOCK
def test_an_enclosed_child_connects_to_nothing(tmp_path):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        program = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])))"
        words = [sys.executable, "-c", program, str(server.getsockname()[1])]
        with pytest.raises(DescriptionError, match="CalledProcessError"):
            enclosed("subprocess:check_output", words, folder=tmp_path)


def commands():
    """The commands that are replayed, by name."""
    root = typer.main.get_command(app)
    for name in REPLAYABLE:
        found = root
        for word in name.split():
            found = found.get_command(typer.Context(root), word)
        yield name, found


def test_every_parameter_of_a_replayed_command_has_a_role():
    for name, command in commands():
        function = inspect.unwrap(command.callback)
        parameters = set(inspect.signature(function).parameters) - {"context"}
        roles = parameter_roles(command)
        assert set(roles) == parameters, name
        # what writes or overwrites is no part of a result
        for output in ("record", "force", "as_json", "save", "plot", "report", "resume", "write"):
            assert not roles.get(output, ParameterRole(kept=False)).kept
        assert roles.get("trust", ParameterRole(trusts=True)).trusts
        for parameter in ("robot", "a", "b", "log", "torque_log", "test_log", "mjcf", "gear"):
            assert roles.get(parameter, ParameterRole(file=True)).file


def test_a_call_has_values_of_the_types_of_its_parameters():
    given = {"robot": "{0}", "states": 5, "base": "free", "trust": False, "seed": 3}
    context, _ = build_call("check", given, ["/a/p.urdf"], "/a/again.mcap")
    values = context.params
    assert values["robot"] == "/a/p.urdf"
    assert values["base"].value == "free"
    assert (values["states"], values["seed"], values["trust"]) == (5, 3, False)
    assert values["record"] == Path("/a/again.mcap")
    assert not values["force"]
    with pytest.raises(InvalidArgument, match="never lets a file run its code"):
        build_call("check", {**given, "trust": True}, ["/a/p.urdf"], "x")


def test_a_record_of_a_trusted_run_says_why_it_is_not_run_again(world):
    robot = world / "work" / "p.urdf"
    robot.write_bytes(pendulum())
    file = world / "run.mcap"
    words = ["check", str(robot), "--states", "2", "--trust", "--record", str(file)]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert "never lets a file run its code" in replay(file).stderr


def results(scale=1.0, name="a", verdict=Verdict.PASS, rows=3):
    """A record with a trace, a metric and a claim."""
    with Recorder(None, Run("check")) as record:
        record.trace("t", {"x": scale * np.arange(1.0, rows + 1), "small": [1e-12] * rows})
        record.metric("m", "largest", "t.x")
        record.claim(name, "x", verdict=verdict)
        record.claim("bound", "x", metric="m", relation="<", bound=10.0 * scale)
    return record.record


def test_the_answer_is_one_of_three():
    same, near, far = results(), results(1.0 + 1e-9), results(1.0 + 1e-3)
    assert compare_results(same, results()).word == "same"
    found = compare_results(same, near)
    assert found.word == "same within rounding"
    assert found.agrees
    assert found.distance == pytest.approx(1e-9, rel=1e-3)
    found = compare_results(same, far)
    assert (found.word, found.agrees) == ("different", False)
    assert found.distance > TOLERANCE
    # NaN is no rounding, nor are other names, verdicts and shapes
    nothing = dataclasses.replace(
        same.traces["t"], columns={"x": [1.0, 2.0, np.nan], "small": [0.0] * 3}
    )
    others = (
        dataclasses.replace(same, traces={"t": nothing}),
        results(name="b"),
        results(verdict=Verdict.FAIL),
        results(rows=4),
        dataclasses.replace(same, metrics={}),
    )
    for other in others:
        for pair in ((same, other), (other, same)):
            found = compare_results(*pair)
            assert (found.word, found.distance) == ("different", np.inf)
            assert found.subject


def test_code_for_another_processor_rounds_and_is_the_same(world):
    robot = world / "work" / "p.urdf"
    robot.write_bytes(pendulum())
    file = world / "run.mcap"
    words = ["simulate", str(robot), "--time", "0.05", "--record", str(file)]
    assert CliRunner().invoke(app, words).exit_code in (0, 1)
    # a few last digits, as other code would leave them
    found = read_record(file)
    moved = {
        name: dataclasses.replace(t, columns={c: x * (1.0 + 2e-16) for c, x in t.columns.items()})
        for name, t in found.traces.items()
    }
    other = world / "other.mcap"
    with Recorder(other, found.run) as made:
        for t in moved.values():
            made.trace(t.name, t.columns, t.units, t.labels, t.frame)
        for m in found.metrics.values():
            made.metric(m.name, m.definition, *m.operands, unit=m.unit, **m.parameters)
        for c in found.claims:
            facts = dict(vars(c))
            facts.pop("step")
            made.claim(facts.pop("name"), facts.pop("compared"), **facts)
    done = replay(other, "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["word"] == "same within rounding"
    assert 0.0 < answer["distance"] < answer["tolerance"] == TOLERANCE
    assert not answer["same_results"]


@NEEDS_XACRO
def test_packages_of_a_record_are_found_again(world):
    package = world / "work" / "arm_description"
    (package / "urdf").mkdir(parents=True)
    (package / "package.xml").write_text("<package/>")
    (package / "urdf" / "mass.yaml").write_text("mass: 1\n")
    text = pendulum(space=XACRO).replace(
        b'<mass value="1"/>',
        b"<mass value=\"${xacro.load_yaml('$(find arm_description)/urdf/mass.yaml')['mass']}\"/>",
    )
    robot = package / "urdf" / "p.urdf.xacro"
    robot.write_bytes(text)
    file = world / "run.mcap"
    words = ["check", str(robot), "--states", "2", "--record", str(file)]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert {x.name for x in gather_inputs([robot])} == {"p.urdf.xacro", "mass.yaml"}
    for path in (robot, package / "urdf" / "mass.yaml"):
        path.unlink()
    done = replay(file)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("same")


def test_a_record_whose_inputs_were_left_out_is_not_run_again(world):
    given = dataclasses.replace(an_input(b"secret", "0/outside/x.stl"), content=None)
    file = write_record(world / "r.mcap", inputs=(an_input(pendulum()), given))
    record = read_record(file)
    with pytest.raises(RecordError, match="replay needs all inputs"):
        replaying.replay_record(file, record)
