"""Files outside the folder and the packages of a description are read with trust only."""

from __future__ import annotations

import os
import struct
import warnings

import pytest

import qddot
from qddot.errors import DescriptionError
from qddot.loaders.load import read_root
from qddot.loaders.shapes import shapes_of_file
from qddot.verify.audit import audit

BODY = '<body name="b"><joint/><geom size=".1"/>{}</body>'
LINK = '<link name="a"><inertial><mass>1</mass></inertial>{}</link>'
CORNERS = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
FACES = ((0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3))
MESH_BYTES = bytes(80) + struct.pack("<I", 4)
for face in FACES:
    MESH_BYTES += struct.pack("<12fH", 0, 0, 0, *(x for k in face for x in CORNERS[k]), 0)


def mjcf(top: str = "", inside: str = "", bodies: str = "") -> str:
    return f"<mujoco>{top}<worldbody>{BODY.format(inside)}{bodies}</worldbody></mujoco>"


def sdf(inside: str) -> str:
    return f'<sdf version="1.9"><model name="m">{inside}</model></sdf>'


def urdf(address: str) -> str:
    visual = f'<visual><geometry><mesh filename="{address}"/></geometry></visual>'
    return f'<robot name="r"><link name="a">{visual}</link></robot>'


@pytest.fixture
def place(tmp_path):
    """A folder of a stranger beside files that are none of its business."""
    (tmp_path / "part.xml").write_text(mjcf())
    (tmp_path / "part.sdf").write_text(sdf(LINK.format("")))
    (tmp_path / "part.stl").write_bytes(MESH_BYTES)
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "model.sdf").write_text(sdf(LINK.format("")))
    folder = tmp_path / "stranger"
    folder.mkdir()
    (folder / "link.xml").symlink_to(tmp_path / "part.xml")
    (folder / "link.sdf").symlink_to(tmp_path / "part.sdf")
    (folder / "link.stl").symlink_to(tmp_path / "part.stl")
    return folder


def model_of(file: str) -> str:
    attached = '<attach model="p" body="b" prefix="p_"/>'
    return mjcf(f'<asset><model name="p" file="{file}"/></asset>', attached)


INCLUDES = {
    "MJCF": (".xml", '<mujoco><include file="../part.xml"/></mujoco>'),
    "MJCF, absolute": (".xml", '<mujoco><include file="ROOT/part.xml"/></mujoco>'),
    "MJCF, link": (".xml", '<mujoco><include file="link.xml"/></mujoco>'),
    "MJCF, model": (".xml", model_of("../part.xml")),
    "MJCF, absolute model": (".xml", model_of("ROOT/part.xml")),
    "SDF": (".sdf", sdf("<include><uri>../part.sdf</uri></include>")),
    "SDF, absolute": (".sdf", sdf("<include><uri>ROOT/part.sdf</uri></include>")),
    "SDF, file": (".sdf", sdf("<include><uri>file://ROOT/part.sdf</uri></include>")),
    "SDF, link": (".sdf", sdf("<include><uri>link.sdf</uri></include>")),
    "SDF, a folder by its name": (".sdf", sdf("<include><uri>model://private</uri></include>")),
    "SDF, package": (".sdf", sdf("<include><uri>model://../part.sdf</uri></include>")),
}


@pytest.mark.parametrize(("suffix", "text"), INCLUDES.values(), ids=INCLUDES)
def test_includes_outside_need_trust(place, suffix, text):
    file = place / f"robot{suffix}"
    file.write_text(text.replace("ROOT", str(place.parent)))
    for read in (qddot.load, audit):
        with pytest.raises(DescriptionError, match=r"not allowed.*trust=True, --trust"):
            read(file)
    # a package of a name that is none is refused by everyone
    if "model://.." not in text:
        assert qddot.load(file, trust=True).model.nb > 0


MESH = '<geom type="mesh" mesh="m" contype="0" conaffinity="0"/>'
INERTIAL = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'


def visual(address: str) -> str:
    mesh = f"<geometry><mesh><uri>{address}</uri></mesh></geometry>"
    return sdf(LINK.format(f'<visual name="v">{mesh}</visual>'))


def asset(attributes: str, compiler: str = "", inertial: str = INERTIAL) -> str:
    top = f'<compiler {compiler}/><asset><mesh name="m" {attributes}/></asset>'
    return mjcf(top, inertial + MESH)


MESHES = {
    "URDF": (".urdf", urdf("../part.stl")),
    "URDF, absolute": (".urdf", urdf("ROOT/part.stl")),
    "URDF, file": (".urdf", urdf("file://ROOT/part.stl")),
    "URDF, link": (".urdf", urdf("link.stl")),
    "URDF, a folder by its name": (".urdf", urdf("package://private/model.sdf")),
    "SDF": (".sdf", visual("../part.stl")),
    "SDF, absolute": (".sdf", visual("ROOT/part.stl")),
    "MJCF": (".xml", asset('file="../part.stl"')),
    "MJCF, absolute": (".xml", asset('file="ROOT/part.stl"')),
    "MJCF, folder": (".xml", asset('file="part.stl"', 'meshdir=".."')),
    "MJCF, absolute folder": (".xml", asset('file="part.stl"', 'assetdir="ROOT"')),
    "MJCF, link": (".xml", asset('file="link.stl"')),
}


@pytest.mark.parametrize(("suffix", "text"), MESHES.values(), ids=MESHES)
def test_meshes_outside_need_trust(place, suffix, text):
    file = place / f"robot{suffix}"
    file.write_text(text.replace("ROOT", str(place.parent)))
    # the robot is there without them
    robot = qddot.load(file)
    shapes = shapes_of_file(file, read_root(file))
    assert not [shape for shape in shapes.found if shape.file]
    assert any("trust=True, --trust" in line for line in shapes.unread)
    assert any("trust=True, --trust" in line for line in audit(file).robot.unread)
    if suffix == ".xml":
        (finding,) = [f for f in robot.health if f.kind == "outside"]
        assert "part.stl" in finding.message or "link.stl" in finding.message
        assert not qddot.load(file, trust=True).health
    trusted = shapes_of_file(file, read_root(file), trust=True)
    assert [shape for shape in trusted.found if shape.file]


def test_a_mesh_outside_that_weighs_something_is_refused(place):
    file = place / "robot.xml"
    file.write_text(asset('file="../part.stl"', inertial=""))
    with pytest.raises(DescriptionError, match=r"inertia depends on mesh.*trust=True, --trust"):
        qddot.load(file)
    assert qddot.load(file, trust=True).nv == 1


@pytest.mark.parametrize("folder", ["urdf", "mjcf", "sdf"])
def test_files_of_the_own_package_are_read(place, folder):
    inner = place / folder
    inner.mkdir()
    (place / "meshes").mkdir()
    (place / "meshes" / "part.stl").write_bytes(MESH_BYTES)
    (place / "common.xml").write_text(f"<mujocoinclude>{'<option/>'}</mujocoinclude>")
    for suffix, text in {
        ".urdf": urdf("../meshes/part.stl"),
        ".sdf": visual("../meshes/part.stl"),
        ".xml": asset('file="part.stl"', 'meshdir="../meshes"').replace(
            "<asset>", '<include file="../common.xml"/><asset>'
        ),
    }.items():
        file = inner / f"robot{suffix}"
        file.write_text(text)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not [f for f in qddot.load(file).health if f.kind == "outside"]
        found = shapes_of_file(file, read_root(file)).found
        assert [s.file.resolve() for s in found if s.file] == [place / "meshes" / "part.stl"]


def test_packages_that_the_user_has_set_up_are_read(place, monkeypatch):
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(place.parent / "private"))
    monkeypatch.setenv("GZ_SIM_RESOURCE_PATH", str(place.parent))
    file = place / "robot.sdf"
    file.write_text(sdf("<include><uri>model://private</uri></include>"))
    assert qddot.load(file).model.nb == 1


def test_an_included_folder_of_assets_counts_for_all_files(place):
    """An included file may set the folder of the meshes of the file that includes it."""
    (place / "set.xml").write_text('<mujocoinclude><compiler meshdir=".."/></mujocoinclude>')
    file = place / "robot.xml"
    file.write_text(asset('file="part.stl"').replace("<asset>", '<include file="set.xml"/><asset>'))
    assert [f.kind for f in qddot.load(file).health] == ["outside"]


def test_files_included_from_a_folder_are_checked_where_mujoco_finds_them(place):
    """MuJoCo looks beside the main file first, then beside the file that includes."""
    (place / "sub").mkdir()
    (place / "sub" / "a.xml").write_text('<mujocoinclude><include file="b.xml"/></mujocoinclude>')
    (place / "sub" / "b.xml").write_text('<mujocoinclude><size nkey="99999999"/></mujocoinclude>')
    file = place / "robot.xml"
    file.write_text(mjcf('<include file="sub/a.xml"/>'))
    with pytest.raises(DescriptionError, match="nkey"):
        qddot.load(file)


def test_nothing_waits_for_the_writer_of_a_pipe(place):
    if not hasattr(os, "mkfifo"):
        pytest.skip("there are no pipes in folders")
    os.mkfifo(place / "pipe.xml")
    os.mkfifo(place / "pipe.sdf")
    (place / "config").mkdir()
    os.mkfifo(place / "config" / "model.config")
    for suffix, text in (
        (".xml", '<mujoco><include file="pipe.xml"/></mujoco>'),
        (".xml", asset('file="pipe.xml"')),
        (".sdf", sdf("<include><uri>pipe.sdf</uri></include>")),
        (".sdf", sdf("<include><uri>config</uri></include>")),
    ):
        file = place / f"robot{suffix}"
        file.write_text(text)
        with pytest.raises(DescriptionError, match=r"not a file|cannot include"):
            qddot.load(file)
