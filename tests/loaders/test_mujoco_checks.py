"""Files that crash, hang or exhaust MuJoCo are refused before it sees them.

All of them are loaded in one child process, which is started again after each that ends it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import mujoco
import pytest

import qddot
from qddot import simulate
from qddot.errors import DescriptionError
from qddot.loaders import mujoco_checks
from qddot.verify.audit import audit

ROBOT = '<body name="b"><joint name="j"/><geom size=".1"/>{}</body>'
REPEATED = '<body><joint/><geom size=".1"/></body>'


def mjcf(top: str = "", inside: str = "", beside: str = "") -> str:
    body = ROBOT.format(inside)
    return f"<mujoco>{top}<worldbody>{body}{beside}</worldbody></mujoco>"


def replicate(count: int, inner: str = REPEATED) -> str:
    return f'<replicate count="{count}" offset="0 0 1">{inner}</replicate>'


ATTACKS = {
    "format in a class": (mjcf(inside='<geom size=".1" class="%n"/>'), "'%'"),
    "format in a name": (mjcf(inside='<site name="%s%s%n"/>'), "'%'"),
    "format as a reference": (mjcf(inside='<geom size=".1" class="&#37;n"/>'), "'%'"),
    "nkey": (mjcf('<size nkey="99999999"/>'), "nkey"),
    "nkey as a float": (mjcf('<size nkey="9.9e7"/>'), "nkey"),
    "user data": (mjcf('<size nuser_body="99999999"/>'), "nuser_body"),
    "memory": (mjcf('<size memory="900G"/>'), "memory"),
    "constraints": (mjcf('<size njmax="99999999" nconmax="99999999"/>'), "njmax"),
    "replicate": (mjcf(beside=replicate(100_000)), "bodies"),
    "replicate in replicate": (mjcf(beside=replicate(200, replicate(200))), "bodies"),
    "replicate of sites": (mjcf(beside=replicate(50_000, "<site/>")), "elements"),
    "bodies": (mjcf(beside=REPEATED * 20_000), "bodies"),
    "geoms": (mjcf(inside='<geom size=".1"/>' * 30_000), "elements"),
    "composite": (
        mjcf(beside='<body><composite type="cable" count="90000 1 1" size="1" curve="l 0 0">'
             '<geom size=".1"/></composite></body>'), "bodies",
    ),
    "flexcomp": (
        mjcf(beside='<flexcomp name="f" type="grid" dim="3" count="90 90 90" spacing="1 1 1"/>'),
        "bodies",
    ),
    "height field": (
        mjcf('<asset><hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/></asset>'),
        "nrow × ncol",
    ),
    "texture": (
        mjcf('<asset><texture name="t" type="2d" builtin="flat" width="200000" height="200000"/>'
             "</asset>"), "width × height",
    ),
    "mesh of many points": (
        mjcf('<asset><mesh name="m" builtin="supersphere" params="20000 1 1"/></asset>',
             '<geom type="mesh" mesh="m"/>'), "params",
    ),
    "keyframes of many joints": (
        mjcf("<keyframe>" + "<key/>" * 5_000 + "</keyframe>", beside=REPEATED * 1_000),
        "keyframes",
    ),
    "ranges found by simulation": (
        mjcf('<compiler><lengthrange mode="all" inttotal="1e12" useexisting="false"/></compiler>'
             '<actuator><motor joint="j"/></actuator>'), "inttotal",
    ),
    "a device included": (mjcf('<include file="/dev/zero"/>'), "is not a file"),
    "a device as a mesh": (
        mjcf('<asset><mesh name="m" file="/dev/zero" content_type="model/stl"/></asset>',
             '<geom type="mesh" mesh="m"/>'), "is not a file",
    ),
    "quaternion that overflows": (
        mjcf(inside='<body quat="1e308 .7 0 0"><geom size=".1"/></body>'), "absurdly large",
    ),
    "NaN": (mjcf(inside='<body pos="nan 0 0"><geom size=".1"/></body>'), "not finite"),
    "two documents in one": (
        '<!DOCTYPE m [<!ELEMENT x ANY><!-- --> ]>' + mjcf(), "DOCTYPE",
    ),
}  # fmt: skip

CHILD = """
import json, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
import qddot
from qddot import simulate
for file in sys.argv[1:]:
    try:
        qddot.load(file)
        answer = "loaded"
    except qddot.QddotError as error:
        answer = f"refused: {error}"
    except BaseException as error:
        answer = f"not ours: {error!r}"
    print(json.dumps([file, answer]), flush=True)
"""


def load_each(files: list[Path], folder: Path) -> dict[Path, str]:
    """How each file ends when it is loaded in a child process, within 20 s each."""
    answers: dict[Path, str] = {}
    log = folder / "answers"
    paths = os.pathsep.join(p for p in sys.path if p)
    while left := [f for f in files if f not in answers]:
        with log.open("w") as stream:
            child = subprocess.Popen(
                [sys.executable, "-c", CHILD, *map(str, left)],
                cwd=folder, stdout=stream, stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": paths, "QDDOT_NATIVE": "0"},
            )  # fmt: skip
        written, since = -1, time.monotonic()
        while child.poll() is None and time.monotonic() - since < 20:
            time.sleep(0.05)
            if log.stat().st_size != written:
                written, since = log.stat().st_size, time.monotonic()
        end = "hung" if child.poll() is None else f"crashed: {child.returncode}"
        child.kill()
        child.wait()
        answers |= {Path(f): answer for f, answer in map(json.loads, log.read_text().splitlines())}
        if missing := [f for f in left if f not in answers]:
            answers[missing[0]] = end
    return answers


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacks")
    files = {name: folder / f"{i}.xml" for i, name in enumerate(ATTACKS)}
    for name, file in files.items():
        file.write_text(ATTACKS[name][0])
    answers = load_each(list(files.values()), folder)
    return {name: answers[file] for name, file in files.items()}


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_is_refused(outcomes, name):
    assert outcomes[name].startswith("refused: ")
    assert ATTACKS[name][1] in outcomes[name]


@pytest.mark.parametrize(
    "read", [mujoco_checks.read_spec, audit, simulate.MujocoPlant], ids=lambda read: read.__name__
)
def test_other_readers_refuse_too(tmp_path, read):
    file = tmp_path / "robot.xml"
    file.write_text(mjcf('<size nkey="99999999"/>'))
    with pytest.raises(DescriptionError, match="nkey"):
        read(file)


def test_included_files_are_checked(tmp_path):
    (tmp_path / "inner.xml").write_text(
        '<mujocoinclude><body><site name="%n"/></body></mujocoinclude>'
    )
    (tmp_path / "robot.xml").write_text(mjcf(beside='<include file="inner.xml"/>'))
    with pytest.raises(DescriptionError, match=r"inner\.xml.*'%'"):
        mujoco_checks.check_file(tmp_path / "robot.xml")


def test_an_encoding_that_mujoco_does_not_read(tmp_path):
    file = tmp_path / "robot.xml"
    file.write_bytes(f"<?xml version='1.0' encoding='utf-16'?>{mjcf()}".encode("utf-16"))
    with pytest.raises(DescriptionError, match="UTF-8"):
        qddot.load(file)


def test_attached_models_are_counted(tmp_path):
    (tmp_path / "leg.xml").write_text(mjcf(beside=REPEATED * 100))
    attach = "".join(f'<attach model="leg" prefix="{i}" body="b"/>' for i in range(200))
    asset = '<asset><model name="leg" file="leg.xml"/></asset>'
    (tmp_path / "robot.xml").write_text(mjcf(asset, beside=f"<body>{attach}</body>"))
    with pytest.raises(DescriptionError, match="attached"):
        mujoco_checks.check_file(tmp_path / "robot.xml")


def test_what_robots_have_is_let_through(tmp_path):
    """Names with other signs, repetition, large but sane counts, and missing mesh files."""
    text = mjcf(
        '<size nkey="50" nuser_body="3" memory="200M"/>'
        '<asset><mesh name="m" file="missing.stl"/><hfield name="h" nrow="500" ncol="500" '
        'size="1 1 1 1"/><texture name="t" builtin="flat" type="2d" width="512" height="512"/>'
        "</asset><compiler><lengthrange inttotal='20'/></compiler>",
        '<site name="50 % & \\ / é"/><joint name="k" type="slide" range="-1e15 1e15"/>',
        replicate(100),
    )
    file = tmp_path / "robot.xml"
    file.write_text(text.replace(" & ", " &amp; "), encoding="utf-8")
    robot = qddot.load(file)
    assert robot.nv == 102
    assert "50 % & \\ / é" in robot.frame_names


@pytest.mark.parametrize(
    "error", [MemoryError("no"), RuntimeError("unknown"), mujoco.FatalError("x"), ValueError("y")]
)
def test_errors_of_mujoco_become_ours(tmp_path, monkeypatch, error):
    file = tmp_path / "robot.xml"
    file.write_text(mjcf())

    class Spec:
        @staticmethod
        def from_file(_):
            raise error

    monkeypatch.setattr(mujoco, "MjSpec", Spec)
    with pytest.raises(DescriptionError, match="MuJoCo: ") as caught:
        qddot.load(file)
    assert caught.value.__cause__ is error


def test_a_quaternion_without_length_in_a_compiled_model():
    m = mujoco.MjModel.from_xml_string(mjcf(inside='<body><geom size=".1"/></body>'))
    m.body_quat[2] = 0.0
    with pytest.raises(qddot.QddotError, match="quaternion"):
        qddot.load(m)


def test_isolated_loading_gives_the_same_robot(tmp_path):
    file = tmp_path / "robot.xml"
    file.write_text(mjcf(beside=replicate(3)))
    alone, beside = qddot.load(file, isolate=True), qddot.load(file)
    assert alone.model == beside.model


def test_a_crash_in_the_child_is_an_error(tmp_path, monkeypatch):
    """As if the checks did not know the attack: the file reaches MuJoCo, in the child only."""
    (tmp_path / "crash.py").write_text(
        "import mujoco\n"
        "def load(path):\n"
        "    mujoco.MjSpec.from_file(path)\n"
    )  # fmt: skip
    file = tmp_path / "robot.xml"
    file.write_text(ATTACKS["format in a class"][0])
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DescriptionError, match="crashes its reader"):
        mujoco_checks.run_isolated("crash:load", str(file), file=file)


def test_the_command_line_isolates(tmp_path, monkeypatch):
    """A file that only the child refuses is one line and exit code 2."""
    from typer.testing import CliRunner

    from qddot.cli import app
    from qddot.loaders import load

    tried = []

    def refuse(path: Path, trust: bool) -> None:
        tried.append(path)
        raise DescriptionError(path, "crashes its reader")

    monkeypatch.setattr(load, "try_in_child", refuse)
    file = tmp_path / "robot.xml"
    file.write_text(mjcf())
    for command in (["info"], ["audit"], ["check"], ["convert"], ["compare"], ["simulate"]):
        target = [str(tmp_path / "out.urdf")] if command == ["convert"] else []
        result = CliRunner().invoke(app, [*command, str(file), *target])
        assert result.exit_code == 2, (command, result.output)
        assert "crashes its reader" in result.output
    assert tried == [file] * 6


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in folders here")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.xml")
    (tmp_path / "robot.xml").write_text(mjcf('<include file="pipe.xml"/>'))
    with pytest.raises(DescriptionError, match="is not a file"):
        qddot.load(tmp_path / "robot.xml")


def test_a_check_takes_a_moment():
    """The budget is 30 ms for a normal file; a hang guard, generous for slow machines."""
    from qddot.loaders import locate_source

    file = locate_source("quadruped")
    mujoco_checks.check_file(file)
    begin = time.perf_counter()
    for _ in range(10):
        mujoco_checks.check_file(file)
    assert time.perf_counter() - begin < 3.0


def attached(file: str) -> str:
    asset = f'<asset><model name="m" file="{file}"/></asset>'
    return mjcf(asset, beside='<attach model="m" body="b" prefix="p"/>')


CIRCLES = {
    "itself": {"robot.xml": attached("robot.xml")},
    "itself by another way": {"robot.xml": attached("../FOLDER/robot.xml")},
    "two": {"robot.xml": attached("b.xml"), "b.xml": attached("robot.xml")},
    "the second and the third": {
        "robot.xml": attached("b.xml"), "b.xml": attached("c.xml"), "c.xml": attached("b.xml"),
    },
    "included": {
        "robot.xml": '<mujoco><include file="b.xml"/></mujoco>', "b.xml": attached("robot.xml"),
    },
    "in a folder": {
        "robot.xml": attached("sub/b.xml"), "sub/b.xml": attached("c.xml"),
        "sub/c.xml": attached("b.xml"),
    },
}  # fmt: skip


@pytest.mark.parametrize("files", CIRCLES.values(), ids=CIRCLES)
def test_models_that_attach_themselves_are_refused(tmp_path, files):
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text.replace("FOLDER", tmp_path.name))
    for read in (qddot.load, audit):
        with pytest.raises(DescriptionError, match=r"the file leads to itself: robot\.xml → "):
            read(tmp_path / "robot.xml")


def test_models_attached_through_many_others_are_refused(tmp_path):
    for k in range(40):
        file = tmp_path / f"{k}.xml"
        file.write_text(attached(f"{k + 1}.xml") if k < 39 else mjcf())
    with pytest.raises(DescriptionError, match="attached through more than 16 models"):
        qddot.load(tmp_path / "0.xml")
    assert qddot.load(tmp_path / "36.xml").nv == 2


def test_doctor_of_a_record_survives_its_robot(tmp_path, monkeypatch):
    """The robot of a record is read in a child first, as any file of a stranger."""
    from qddot.evidence import Recorder, Run, read_record
    from qddot.evidence.inputs import gather_inputs
    from qddot.loaders import load
    from qddot.pipeline.diagnosis import case_of_record

    tried = []

    def refuse(path: Path, trust: bool) -> None:
        tried.append(path.name)
        raise DescriptionError(path, "crashes its reader")

    monkeypatch.setattr(load, "try_in_child", refuse)
    file = tmp_path / "robot.xml"
    file.write_text(mjcf())
    kept = tmp_path / "a.qddot"
    with Recorder(kept, Run("simulate", inputs=gather_inputs([file]))) as recorder:
        recorder.trace("motion", {"time": [0.0, 0.1], "q": [[0.0], [0.1]]})
    tried.clear()
    assert case_of_record(kept, read_record(kept)) is None
    assert tried == ["robot.xml"]


MANY = 60
KINDS = {
    "sensors": "<sensor>{}</sensor>|<jointpos name='x{i}' joint='j'/>",
    "tuples": "<custom>{}</custom>|"
    "<tuple name='x{i}'><element objtype='body' objname='b'/></tuple>",
    "materials": "<asset>{}</asset>|<material name='x{i}'/>",
    "textures": "<asset>{}</asset>|"
    "<texture name='x{i}' builtin='flat' width='1' height='1' type='2d'/>",
    "meshes": "<asset>{}</asset>|<mesh name='x{i}' file='x{i}.stl'/>",
    "meshes without a name": "<asset>{}</asset>|<mesh file='x{i}.stl'/>",
    "height fields": "<asset>{}</asset>|<hfield name='x{i}' file='x.png' size='1 1 1 1'/>",
    "skins": "<asset>{}</asset>|<skin name='x{i}' file='x.skn'/>",
    "pairs": "<contact>{}</contact>|<pair name='x{i}' geom1='g' geom2='h'/>",
    "excludes": "<contact>{}</contact>|<exclude name='x{i}' body1='b' body2='world'/>",
    "keyframes": "<keyframe>{}</keyframe>|<key name='x{i}' qpos='0'/>",
    "motors": "<actuator>{}</actuator>|<motor name='x{i}' joint='j'/>",
    "equalities": "<equality>{}</equality>|<joint name='x{i}' joint1='j'/>",
    "tendons": "<tendon>{}</tendon>|<fixed name='x{i}'><joint joint='j' coef='1'/></fixed>",
}
MESH_GEOMS = "".join(
    f'<body><joint/><inertial pos="0 0 0" mass="1" diaginertia="{{}}"/>'
    f'<geom name="x{i}" type="mesh" mesh="m"/></body>'
    for i in range(MANY)
)


@pytest.mark.parametrize("kind", [*KINDS, "geoms"])
@pytest.mark.parametrize("possible", [True, False])
def test_what_is_not_needed_is_not_removed_one_by_one(tmp_path, monkeypatch, kind, possible):
    """MuJoCo takes quadratic time to remove elements: 15,000 sensors would take it a minute."""
    removed = []
    delete = mujoco.MjSpec.delete
    monkeypatch.setattr(
        mujoco.MjSpec, "delete", lambda spec, x: removed.append(x) or delete(spec, x)
    )
    moments = "1 1 1" if possible else "1 1 9"
    body = f'<body name="b"><joint name="j"/><inertial pos="0 0 0" mass="1" diaginertia="{moments}"'
    body += '/><geom name="g" size=".1"/></body><body><geom name="h" size=".1"/></body>'
    top = '<asset><mesh name="m" file="m.stl"/></asset>'
    if kind == "geoms":
        body += MESH_GEOMS.format(*[moments] * MANY)
    else:
        section, row = KINDS[kind].split("|")
        top = section.format("".join(row.format(i=i) for i in range(MANY)))
    file = tmp_path / "robot.xml"
    file.write_text(f"<mujoco>{top}<worldbody>{body}</worldbody></mujoco>")
    if possible:
        freedoms = {"geoms": 1 + MANY, "equalities": 0}
        assert qddot.load(file).nv == freedoms.get(kind, 1)
    assert len(audit(file).robot.links) == 2 + MANY * (kind == "geoms")
    assert not removed
