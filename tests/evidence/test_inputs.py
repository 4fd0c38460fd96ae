"""Inputs of records: what loaders open, content of what belongs to a robot, nothing private."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import json
import os

import pytest
from typer.testing import CliRunner

from qddot.cli import app
from qddot.errors import RecordError
from qddot.evidence import read_record
from qddot.evidence.inputs import OUTSIDE, gather_inputs, number_sources, restore_inputs
from qddot.evidence.privacy import names_home, shorten_paths
from qddot.loaders.opened import note_opened, watch_opened

MESH = (
    b"solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\n"
    b"endloop\nendfacet\nendsolid a\n"
)
LINK = """<link name="{name}"><visual><geometry><mesh filename="{mesh}"/></geometry></visual>
  <inertial><mass value="1"/>
  <inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial>
</link>"""
JOINT = """<joint name="j" type="revolute"><parent link="base"/><child link="arm"/>
  <axis xyz="0 1 0"/><limit effort="9" velocity="9" lower="-1" upper="1"/></joint>"""


def write_arm(folder, mesh="meshes/a.stl", name="arm.urdf", before=""):
    """A URDF with one joint whose second link has a mesh at an address."""
    folder.mkdir(parents=True, exist_ok=True)
    text = f'{before}<robot name="arm"><link name="base"/>{LINK.format(name="arm", mesh=mesh)}'
    (folder / name).write_text(f"{text}{JOINT}</robot>")
    return folder / name


def write_mesh(file):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(MESH)
    return file


def places(inputs):
    return [x.place for x in inputs]


def test_inputs_come_back_with_their_content(tmp_path):
    mesh = write_mesh(tmp_path / "robot" / "meshes" / "a.stl")
    urdf = write_arm(tmp_path / "robot", "package://robot/meshes/a.stl")
    inputs = gather_inputs([urdf], meshes=True)
    assert places(inputs) == ["0/robot/arm.urdf", "0/robot/meshes/a.stl"]
    restored = restore_inputs("record", inputs, tmp_path / "back")
    assert [x.read_bytes() for x in restored] == [urdf.read_bytes(), mesh.read_bytes()]
    # the address leads to the restored mesh
    assert places(gather_inputs(restored[:1], meshes=True)) == places(inputs)


def test_meshes_are_inputs_only_of_runs_that_read_them(tmp_path):
    write_mesh(tmp_path / "meshes" / "a.stl")
    urdf = write_arm(tmp_path)
    assert len(gather_inputs([urdf])) == 1
    assert len(gather_inputs([urdf], meshes=True)) == 2


def test_sources_are_the_first_inputs_and_have_their_numbers(tmp_path):
    write_mesh(tmp_path / "meshes" / "a.stl")
    first, second = write_arm(tmp_path), tmp_path / "b.csv"
    second.write_text("time\n")
    inputs = gather_inputs([first, first, second], meshes=True)
    assert [x.name for x in inputs] == ["arm.urdf", "b.csv", "a.stl"]
    assert set(number_sources([first, second]).values()) == {0, 1}
    # two names of one file have one number
    numbers = number_sources([str(first), str(tmp_path / "." / "arm.urdf"), str(second)])
    assert set(numbers.values()) == {0, 1}


@pytest.mark.parametrize(
    "place",
    ["../a.urdf", "/etc/a.urdf", "a/../../b", "C:/a", "a\\..\\b", ".ssh/a", "a/.b", "a\0", "",
     "x" * 500, "0/a.urdf/../../../x", "\\\\server\\share"],
)  # fmt: skip
def test_places_outside_are_refused(tmp_path, place):
    found = gather_inputs([write_arm(tmp_path / "robot")])[0]
    outside = dataclasses.replace(found, place=place)
    with pytest.raises(RecordError, match="outside"):
        restore_inputs("record", [outside], tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_restored_files_are_whole_and_apart(tmp_path):
    found = gather_inputs([write_arm(tmp_path / "robot")])[0]
    with pytest.raises(RecordError, match="not the file"):
        restore_inputs("record", [dataclasses.replace(found, content=b"x")], tmp_path / "back")
    with pytest.raises(RecordError, match="two inputs"):
        restore_inputs("record", [found, found], tmp_path / "back")
    below = dataclasses.replace(found, place=f"{found.place}/inner")
    with pytest.raises(RecordError, match="cannot be restored"):
        restore_inputs("record", [found, below], tmp_path / "again")
    with pytest.raises(RecordError, match="replay needs all inputs"):
        restore_inputs("record", [dataclasses.replace(found, content=None)], tmp_path / "no")


SECRET = b"-----BEGIN PRIVATE KEY----- 7f3a"
ADDRESSES = {
    "file address": "file://{secret}",
    "absolute path": "{secret}",
    "upward": "../home/alice/.ssh/id_rsa",
    "package that is none": "package://alice/.ssh/id_rsa",
    "hidden package": "package://.ssh/id_rsa",
    "link to it": "meshes/link.stl",
    "link of folders": "linked/.ssh/id_rsa",
    "comment": None,
    "hidden below": ".git/config",
}


@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES)
@pytest.mark.parametrize("command", ["audit", "pipeline"])
def test_no_private_file_comes_into_a_record(tmp_path, monkeypatch, address, command):
    home = tmp_path / "home" / "alice"
    secret = home / ".ssh" / "id_rsa"
    secret.parent.mkdir(parents=True)
    secret.write_bytes(SECRET)
    robot = tmp_path / "robot"
    (robot / "meshes").mkdir(parents=True)
    (robot / ".git").mkdir()
    (robot / ".git" / "config").write_bytes(SECRET)
    (robot / "meshes" / "link.stl").symlink_to(secret)
    (robot / "linked").symlink_to(home)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("ROS_PACKAGE_PATH", "")
    words = (address or "meshes/a.stl").format(secret=secret)
    comment = "" if address else f'<!-- filename="{secret}" file="/etc/hostname" -->'
    urdf = write_arm(robot, words, before=comment)
    file = tmp_path / "run.mcap"
    more = ["--steps", "1-2"] if command == "pipeline" else []
    done = CliRunner().invoke(app, [command, str(urdf), *more, "--record", str(file)])
    assert done.exit_code in (0, 1), done.output
    found = read_record(file)
    assert not [x for x in found.run.inputs if x.content and SECRET in x.content]
    raw = everything(file)
    assert SECRET not in raw
    # neither the home nor any other folder of the machine
    assert b"alice" not in raw or "alice" in (address or "")
    assert str(home).encode() not in raw
    assert str(tmp_path).encode() not in raw
    if address is None:
        assert [x.name for x in found.run.inputs] == ["arm.urdf"]
    for given in found.run.inputs[1:]:
        assert f"/{OUTSIDE}/" in given.place
        assert given.sha256 == hashlib.sha256(SECRET).hexdigest()


def everything(file):
    """All bytes of a record with its chunks unfolded."""
    from mcap.records import Chunk
    from mcap.stream_reader import StreamReader, breakup_chunk

    raw = file.read_bytes()
    with open(file, "rb") as stream:
        for found in StreamReader(stream, emit_chunks=True).records:
            if isinstance(found, Chunk):
                raw += b"".join(repr(x).encode() for x in breakup_chunk(found))
    return raw


def test_a_source_in_the_home_keeps_only_what_lies_beside_it(tmp_path, monkeypatch):
    home = tmp_path / "alice"
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    write_mesh(home / "work" / "a.stl")
    urdf = write_arm(home, "work/a.stl")
    assert places(gather_inputs([urdf], meshes=True)) == [
        "0/folder/arm.urdf",
        f"0/{OUTSIDE}/a.stl",
    ]


def test_a_source_that_is_a_link_out_of_its_folder_is_not_kept(tmp_path):
    (tmp_path / "secret").write_bytes(SECRET)
    (tmp_path / "robot").mkdir()
    link = tmp_path / "robot" / "arm.urdf"
    link.symlink_to(tmp_path / "secret")
    assert gather_inputs([link])[0].content is None


def test_a_file_that_names_the_home_is_not_kept(tmp_path, monkeypatch):
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "alice"))
    comment = f"<!-- made in {tmp_path}/alice/a -->"
    assert gather_inputs([write_arm(tmp_path / "r", before=comment)])[0].content is None
    assert gather_inputs([write_arm(tmp_path / "r")])[0].content is not None


@pytest.mark.skipif(importlib.util.find_spec("xacro") is None, reason="needs xacro")
def test_xacro_tells_what_it_opened(tmp_path):
    (tmp_path / "arm.yaml").write_text("mass: 2.0\n")
    (tmp_path / "never.yaml").write_text("mass: 3.0\n")
    (tmp_path / "part.xacro").write_text(
        '<robot xmlns:xacro="http://ros.org/wiki/xacro"><xacro:property name="m" '
        "value=\"${xacro.load_yaml('arm.yaml')['mass']}\"/></robot>"
    )
    urdf = write_arm(tmp_path, name="arm.urdf.xacro")
    text = urdf.read_text().replace(
        '<robot name="arm">',
        '<robot name="arm" xmlns:xacro="http://ros.org/wiki/xacro">'
        '<xacro:include filename="part.xacro"/><xacro:if value="false">'
        '<xacro:include filename="never.yaml"/></xacro:if>',
    )
    urdf.write_text(text.replace('<mass value="1"/>', '<mass value="${m}"/>'))
    names = {x.name for x in gather_inputs([urdf])}
    assert names == {"arm.urdf.xacro", "part.xacro", "arm.yaml"}


def test_mjcf_tells_what_it_opened(tmp_path):
    pytest.importorskip("mujoco")
    (tmp_path / "assets").mkdir()
    for name in ("used", "looks"):
        (tmp_path / "assets" / f"{name}.obj").write_text(
            "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n"
        )
    (tmp_path / "part.xml").write_text(
        "<mujocoinclude><asset><mesh name='used' file='used.obj'/>"
        "<mesh name='looks' file='looks.obj'/></asset></mujocoinclude>"
    )
    file = tmp_path / "arm.xml"
    file.write_text(
        "<mujoco><!-- file='/etc/hostname' --><compiler meshdir='assets'/>"
        "<include file='part.xml'/><worldbody><body><joint/><geom type='mesh' mesh='used'/></body>"
        "<body><joint/><inertial pos='0 0 0' mass='1' diaginertia='1 1 1'/>"
        "<geom type='mesh' mesh='looks'/></body></worldbody></mujoco>"
    )
    assert {x.name for x in gather_inputs([file])} == {"arm.xml", "part.xml", "used.obj"}


def test_who_does_not_watch_sees_nothing(tmp_path):
    note_opened(tmp_path / "a")
    with watch_opened() as outer:
        note_opened(tmp_path / "b")
        with watch_opened() as inner:
            note_opened(tmp_path / "c")
    assert list(outer) == [tmp_path / "b"]
    assert list(inner) == [tmp_path / "c"]


def test_texts_lose_the_folders_of_the_machine(monkeypatch, tmp_path):
    home = tmp_path / "al ice"
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    for text, short in (
        ("/opt/robots/x.urdf:3: bad", "…/x.urdf:3: bad"),
        (f"in {home}/a/x.stl and {home}", "in ~/a/x.stl and ~"),
        ("see file:///opt/a/b.stl", "see file://…/b.stl"),
        ("C:\\Users\\bob\\x.urdf", "…/x.urdf"),
        ("package://ur/meshes/x.stl, 3/4, a/b/c", "package://ur/meshes/x.stl, 3/4, a/b/c"),
        ("</root> rad/s", "</root> rad/s"),
        ("lone \ud800", "lone ?"),
    ):
        assert shorten_paths(text) == short
    assert names_home(f"x{os.sep} '{home}/a'".encode())
    assert not names_home(b"nothing")


def test_arguments_of_a_record_have_no_folders(tmp_path, monkeypatch):
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "alice"))
    urdf = write_arm(tmp_path / "alice" / "work")
    file = tmp_path / "run.mcap"
    words = ["simulate", str(urdf), "--time", "0.01", "--record", str(file)]
    assert CliRunner().invoke(app, words).exit_code in (0, 1)
    run = read_record(file).run
    assert run.configuration["robot"] == "{0}"
    assert run.arguments[:3] == ("{0}", "--time", "0.01")
    raw = everything(file)
    assert b"alice" not in raw
    assert str(tmp_path).encode() not in raw
    assert json.loads(json.dumps(dict(run.configuration)))["seed"] == 0
