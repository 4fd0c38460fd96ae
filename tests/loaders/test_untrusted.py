"""Hostile or careless description files: names, chains without end, numbers, what is left out."""

from __future__ import annotations

import dataclasses
import time
import warnings

import numpy as np
import pytest

import qddot
from qddot.errors import DescriptionError, QddotError
from qddot.loaders.sdf_frames import Graph

INERTIAL = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>'


def write(folder, text: str, suffix: str):
    file = folder / f"robot{suffix}"
    file.write_text(text, encoding="utf-8")
    return file


def urdf(name: str = "r", link: str = "a", joint: str = "j", more: str = "") -> str:
    return (
        f'<robot name="{name}"><link name="base"/><link name="{link}">{INERTIAL}</link>'
        f'<joint name="{joint}" type="revolute"><parent link="base"/><child link="{link}"/>'
        f'<axis xyz="0 0 1"/></joint>{more}</robot>'
    )


def sdf(inside: str, version: str = "1.9") -> str:
    return f'<sdf version="{version}"><model name="m">{inside}</model></sdf>'


def chained_links(n: int, inside: str) -> str:
    """So many links on joints at the base, each joint with an element that knows the one before."""
    joints = "".join(
        f'<link name="l{i}">{INERTIAL}</link><joint name="j{i}" type="revolute"><parent '
        f'link="base"/><child link="l{i}"/>{inside.format(i - 1) if i else ""}</joint>'
        for i in range(n)
    )
    return f'<robot name="r"><link name="base"/>{joints}</robot>'


@pytest.mark.parametrize(
    "name",
    ["&#x9b;31m", "a&#x7f;", "a&#10;b", "a&#13;b", "a&#9;b", "\u202eevil", "\u2066x", "\u2028"],
    ids=ascii,
)
@pytest.mark.parametrize("place", ["name", "link", "joint"])
def test_control_characters_in_names_are_refused(tmp_path, name, place):
    file = write(tmp_path, urdf(**{place: name}), ".urdf")
    with pytest.raises(DescriptionError, match="control character U\\+") as caught:
        qddot.load(file)
    assert str(caught.value).isprintable()


def test_control_characters_in_other_formats(tmp_path):
    body = '<body name="a&#x9b;"><joint/><geom size="1"/></body>'
    mjcf = f"<mujoco><worldbody>{body}</worldbody></mujoco>"
    for text, suffix in ((mjcf, ".xml"), (sdf('<link name="a&#x9b;"/>'), ".sdf")):
        with pytest.raises(DescriptionError, match="control character U\\+009B"):
            qddot.load(write(tmp_path, text, suffix))


def test_control_characters_in_robots_made_in_code():
    model = qddot.load("planar_2r").model
    with pytest.raises(QddotError, match="control character"):
        dataclasses.replace(model, name="a\x1b[2J")
    frame = dataclasses.replace(model.frames[0], name="a\x9b")
    with pytest.raises(QddotError, match="control character"):
        dataclasses.replace(model, frames=(frame,))


def test_names_in_other_alphabets_are_fine(tmp_path):
    robot = qddot.load(write(tmp_path, urdf(link="Gelenk ä 手 🤖"), ".urdf"))
    assert "Gelenk ä 手 🤖" in robot.frame_names


@pytest.mark.parametrize("version", ["1.²", "1.٧", "1." + "7" * 5000, "1", "", "1.x", "-1.7"])
def test_a_version_that_is_none(tmp_path, version):
    with pytest.raises(DescriptionError, match="is not a version"):
        qddot.load(write(tmp_path, sdf('<link name="a"/>', version), ".sdf"))


@pytest.mark.parametrize(
    "step",
    [
        '<frame name="f{i}" attached_to="{before}"><pose>0 0 .1 0 0 .1</pose></frame>',
        '<frame name="f{i}"><pose relative_to="{before}">0 0 .1 0 0 .1</pose></frame>',
    ],
)
def test_poses_of_a_chain_of_frames_are_computed_once(tmp_path, monkeypatch, step):
    n = 500
    frames = [step.format(i=i, before=f"f{i - 1}" if i else "a") for i in range(n)]
    # the last first, so that no pose is known when it is asked for
    file = write(tmp_path, sdf('<link name="a"/>' + "".join(reversed(frames))), ".sdf")
    calls = []
    local = Graph.local_pose
    monkeypatch.setattr(
        Graph, "local_pose", lambda self, key: calls.append(key) or local(self, key)
    )
    robot = qddot.load(file)
    X = robot.frame_pose(robot.neutral(), f"f{n - 1}")
    assert X[2, 3] == pytest.approx(0.1 * n)
    assert X[:2, :2] == pytest.approx(
        np.array([[np.cos(0.1 * n), -np.sin(0.1 * n)], [np.sin(0.1 * n), np.cos(0.1 * n)]])
    )
    assert len(calls) < 50 * n


def test_circles_of_frames_are_refused(tmp_path):
    for attribute in ('attached_to="{}"', ""):
        frames = "".join(
            f'<frame name="f{i}" {attribute.format(f"f{(i + 1) % 50}")}>'
            f'<pose relative_to="f{(i + 1) % 50}"/></frame>'
            for i in range(50)
        )
        with pytest.raises(DescriptionError, match="in a circle"):
            qddot.load(write(tmp_path, sdf(f'<link name="a"/>{frames}'), ".sdf"))


def test_models_that_include_models_without_end(tmp_path):
    """Sixteen files that each include the next twenty times would come to 20¹⁶ models."""
    for k in range(16):
        inside = '<link name="a"/>' + "".join(
            f"<include><name>i{j}</name><uri>model{k + 1}.sdf</uri></include>" for j in range(20)
        )
        (tmp_path / f"model{k}.sdf").write_text(sdf(inside if k < 15 else '<link name="a"/>'))
    begin = time.monotonic()
    with pytest.raises(DescriptionError, match=r"more than|deeper than"):
        qddot.load(tmp_path / "model0.sdf")
    assert time.monotonic() - begin < 60


def test_models_nested_deeper_than_python_recurses(tmp_path):
    text = '<link name="a"/>'
    for i in range(190):
        text = f'<model name="n{i}">{text}</model>'
    with pytest.raises(DescriptionError, match="nested deeper"):
        qddot.load(write(tmp_path, sdf(text), ".sdf"))


def test_long_chains_of_couplings(tmp_path):
    text = chained_links(300, '<mimic joint="j{}"/>')
    with pytest.raises(DescriptionError, match="coupled through more than 100 joints"):
        qddot.load(write(tmp_path, text, ".urdf"))
    with pytest.raises(DescriptionError, match=r"absurdly large|finite"):
        qddot.load(
            write(tmp_path, chained_links(60, '<mimic joint="j{}" multiplier="1e9"/>'), ".urdf")
        )


def test_many_links_do_not_hang(tmp_path):
    file = write(tmp_path, chained_links(800, '<mimic joint="j0"/><!-- {} -->'), ".urdf")
    begin = time.monotonic()
    assert qddot.load(file).nv == 1
    free = qddot.load(file, couplings="free")
    assert [f.kind for f in free.health] == ["condition"]
    assert time.monotonic() - begin < 60
    text = "<robot name='r'>" + "".join(f'<link name="l{i}"/>' for i in range(20_001)) + "</robot>"
    with pytest.raises(DescriptionError, match="more than 20000 links"):
        qddot.load(write(tmp_path, text, ".urdf"))


def test_held_leaders_hold_their_followers(tmp_path):
    """A row of couplings to a joint that is held is settled from its end, however it is ordered."""
    rows = [(3, 2), (1, 0), (2, 1)]
    equalities = "".join(f'<joint joint1="j{a}" joint2="j{b}" polycoef="0.1 2"/>' for a, b in rows)
    bodies = "".join(
        f'<body><joint name="j{i}" axis="0 0 1"/><geom size=".1" pos="1 0 0"/></body>'
        for i in range(5)
    )
    text = (
        f"<mujoco><worldbody>{bodies}</worldbody><equality>{equalities}"
        '<joint joint1="j0" polycoef="0.3"/></equality></mujoco>'
    )
    robot = qddot.load(write(tmp_path, text, ".xml"))
    assert robot.joint_names == ("j4",)
    angles = [0.3]
    for _ in range(3):
        angles.append(0.1 + 2 * angles[-1])
    for i, angle in enumerate(angles):
        X = robot.frame_pose(robot.neutral(), f"body{i + 1}")
        assert X[:2, 0] == pytest.approx([np.cos(angle), np.sin(angle)])


def test_the_pose_of_a_floating_sdf_model_is_a_configuration(tmp_path):
    """What `base="fixed"` makes of the file is where the free base stands initially."""
    inside = (
        "<pose>1 2 3 0.1 0.2 0.3</pose>"
        '<link name="a"><pose>0 0 .5 0 0 0</pose></link><link name="b"/><link name="c"/>'
        '<joint name="j" type="universal"><parent>a</parent><child>b</child>'
        "<axis><xyz>1 0 0</xyz></axis><axis2><xyz>0 1 0</xyz></axis2></joint>"
        '<joint name="k" type="ball"><parent>b</parent><child>c</child></joint>'
    )
    file = write(tmp_path, sdf(inside), ".sdf")
    free, fixed = qddot.load(file), qddot.load(file, "fixed")
    initial = free.configurations["initial"]
    assert initial.shape == (free.nq,)
    for frame in ("a", "b", "c"):
        expected = fixed.frame_pose(fixed.neutral(), frame)
        assert free.frame_pose(initial, frame) == pytest.approx(expected, abs=1e-12)
    assert not np.allclose(
        free.frame_pose(free.neutral(), "a"), fixed.frame_pose(fixed.neutral(), "a")
    )
    assert np.array_equal(fixed.configurations["initial"], fixed.neutral())


def test_a_floating_sdf_model_at_the_origin_needs_no_configuration(tmp_path):
    robot = qddot.load(write(tmp_path, sdf('<link name="a"/>'), ".sdf"))
    assert robot.configurations == {}


def test_armature_of_a_free_joint_warns_at_load(tmp_path):
    text = (
        '<mujoco model="m"><worldbody><body><joint name="root" type="free" armature="0.1"/>'
        '<geom size=".1"/></body></worldbody></mujoco>'
    )
    with pytest.warns(UserWarning, match="'root': armature 0.1 on a free joint is ignored"):
        qddot.load(write(tmp_path, text, ".xml"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        qddot.load(write(tmp_path, text.replace(' armature="0.1"', ""), ".xml"))
