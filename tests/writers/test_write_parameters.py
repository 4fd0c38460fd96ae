"""Parameters put back into the user's file: nothing but numbers changes, and they come back."""

from __future__ import annotations

import dataclasses
import re
import warnings

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from agreement import shared_files

import qddot
from qddot.loaders import locate_source
from qddot.loaders.formats import FORMATS
from qddot.model.friction_models import asymmetric, coulomb, friction_from, stribeck
from qddot.writers import write_parameters

URDF = """<?xml version="1.0"?>
<!-- an arm -->
<robot name="arm">
  <link name="base"><inertial><mass value="3"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="upper">
    <inertial>   <!-- measured -->
      <origin rpy="0.3 -0.2 0.5"  xyz="0.1 0.2 0.3" />
      <mass value='2.50'/>
      <inertia ixx="0.30" ixy="0.01" izz="0.25" iyy="0.35"/>
    </inertial>
  </link>
  <link name="tool"><inertial><origin xyz="0 0 0.1"/><mass value="0.5"/>
    <inertia ixx="1e-3" iyy="1e-3" izz="1e-3"/></inertial></link>
  <link name="bare"/>
  <link name="tip"><inertial><mass value="0.5"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>
  <joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/>
    <axis xyz="0 1 0"/><dynamics damping="0.10" /></joint>
  <joint name="mount" type="fixed"><origin xyz="0 0 0.5" rpy="0 1 0"/><parent link="upper"/>
    <child link="tool"/></joint>
  <joint name="wrist" type="revolute"><origin xyz="0 0 0.2"/><parent link="tool"/>
    <child link="bare"/><limit lower="-1" upper="1" effort="5" velocity="3"/></joint>
  <joint name="end" type="fixed"><origin xyz="0 0.1 0.2"/><parent link="bare"/>
    <child link="tip"/></joint>
</robot>
"""
MJCF = """<mujoco model="arm">  <!-- an arm -->
  <worldbody>
    <body name="upper" pos="0 0 1">
      <inertial pos="0.1 0 0"  mass="2.0" diaginertia="0.1 0.2 0.15"
                quat="1 0 0 0.5"/>
      <joint name="shoulder" axis="0 1 0" damping="0.1"/>
      <body name="fore" pos="0 0 0.5">
        <inertial pos="0 0 0.1" mass="1" fullinertia="0.1 0.12 0.09 0.01 0 0.002"/>
        <joint name="elbow" axis="0 1 0" pos="0 0 0.05"/>
        <body name="hand" pos="0 0 0.3"><geom type="box" size="0.1 0.05 0.02" mass="0.4"/>
          <joint name="wrist" axis="1 0 0"/></body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def cloud(rng: np.random.Generator, mass: float) -> np.ndarray:
    """The parameters of six random points."""
    p = np.zeros(10)
    for m, r in zip(rng.uniform(0.05, 1, 6) * mass, rng.uniform(-0.1, 0.15, (6, 3)), strict=True):
        I = m * (r @ r * np.eye(3) - np.outer(r, r))
        p += [m, *(m * r), I[0, 0], I[0, 1], I[1, 1], I[0, 2], I[1, 2], I[2, 2]]
    return p


def changed(robot: qddot.Robot, seed: int = 0) -> np.ndarray:
    """Other parameters, of bodies that could be: those of the file with points added."""
    rng = np.random.default_rng(seed)
    rows = robot.inertial_parameters
    return np.array([x + cloud(rng, max(x[0], 0.1)) for x in rows])


def skeleton(text: str) -> str:
    """The text with every number blanked, and without what has no number before it."""
    return re.sub(r"[-+]?[\d.]+(e[-+]?\d+)?", "#", text)


@pytest.fixture(params=["urdf", "xml"])
def file(request, tmp_path):
    path = tmp_path / f"arm.{request.param}"
    path.write_text(URDF if request.param == "urdf" else MJCF)
    return path


def assert_read_back(target, wanted: np.ndarray, base=None) -> None:
    found = qddot.load(target, base=base).inertial_parameters
    scale = np.abs(wanted).max(axis=1, keepdims=True)
    assert (np.abs(found - wanted) <= 1e-12 * scale).all()


def test_parameters_come_back(file, tmp_path):
    robot = qddot.load(file)
    wanted = changed(robot)
    out = tmp_path / f"out{file.suffix}"
    result = write_parameters(wanted, file, out)
    assert result.error < 1e-12
    assert_read_back(out, wanted)
    assert result.diff.count("\n") > 4
    assert "an arm -->" in out.read_text()
    # and the way back
    again = write_parameters(robot, out, tmp_path / f"again{file.suffix}")
    assert again.error < 1e-12
    assert_read_back(again.target, robot.inertial_parameters)


def test_other_engines_read_the_new_numbers(tmp_path):
    for suffix, text in (("urdf", URDF), ("xml", MJCF)):
        source = tmp_path / f"arm.{suffix}"
        # urdfdom wants the products that others take for zero
        missing = r'iyy="(\S+)" izz="(\S+)"/>'
        source.write_text(re.sub(missing, r'iyy="\1" izz="\2" ixy="0" ixz="0" iyz="0"/>', text))
        robot = qddot.load(source)
        robot = robot.with_parameters(changed(robot))
        out = write_parameters(robot, source, tmp_path / f"out.{suffix}").target
        q = np.array([0.3, -0.4, 0.2][: robot.nv])
        if suffix == "urdf":
            m = pin.buildModelFromUrdf(str(out))
            M = pin.crba(m, m.createData(), np.array([np.cos(0.3), np.sin(0.3), -0.4]))
            M = np.triu(M) + np.triu(M, 1).T
        else:
            m = mujoco.MjModel.from_xml_path(str(out))
            d = mujoco.MjData(m)
            d.qpos[:] = q
            mujoco.mj_forward(m, d)
            M = np.zeros((m.nv, m.nv))
            mujoco.mj_fullM(m, d, M)
        np.testing.assert_allclose(M, robot.mass_matrix(q), rtol=0, atol=1e-12)


def test_nothing_but_numbers_changes_where_all_attributes_exist(tmp_path):
    source = tmp_path / "arm.urdf"
    source.write_text(URDF.replace('iyy="0.35"', 'iyy="0.35" ixz="0" iyz="0"'))
    robot = qddot.load(source)
    wanted = robot.inertial_parameters
    wanted[0] += cloud(np.random.default_rng(0), 1.0)
    write_parameters(wanted, source, tmp_path / "out.urdf")
    old, new = source.read_text(), (tmp_path / "out.urdf").read_text()
    assert old != new
    assert skeleton(old) == skeleton(new)
    # the axes of the inertial frame, and all that did not change, stay to the letter
    assert 'rpy="0.3 -0.2 0.5"  xyz="' in new
    assert "<mass value='" in new
    assert new[new.index('<link name="bare"') :] == old[old.index('<link name="bare"') :]


def test_the_same_parameters_change_no_byte(file, tmp_path):
    out = tmp_path / f"same{file.suffix}"
    result = write_parameters(qddot.load(file), file, out)
    assert out.read_bytes() == file.read_bytes()
    assert result.diff == ""
    assert result.notes == ()


def test_moments_about_any_axes(tmp_path):
    rng = np.random.default_rng(0)
    source = tmp_path / "arm.xml"
    for _ in range(40):
        quat = " ".join(map(repr, rng.normal(size=4).tolist()))
        source.write_text(MJCF.replace("1 0 0 0.5", quat))
        wanted = changed(qddot.load(source), int(rng.integers(1e6)))
        write_parameters(wanted, source, tmp_path / "out.xml", force=True)
        assert_read_back(tmp_path / "out.xml", wanted)


def test_links_of_one_body(tmp_path):
    source = tmp_path / "arm.urdf"
    source.write_text(URDF)
    robot = qddot.load(source)
    wanted = changed(robot)
    result = write_parameters(wanted, source, tmp_path / "out.urdf")
    assert "link 'upper' takes up all of the change; 'tool' of the same body stay" in result.notes
    new = (tmp_path / "out.urdf").read_text()
    # the tool stays, and the moving link without inertia leaves it to the one that has some
    assert '<origin xyz="0 0 0.1"/><mass value="0.5"/>' in new
    assert '<link name="bare"/>' in new
    assert_read_back(tmp_path / "out.urdf", wanted)


def test_bodies_that_had_no_inertial(tmp_path):
    source = tmp_path / "arm.xml"
    source.write_text(MJCF)
    robot = qddot.load(source)
    result = write_parameters(changed(robot), source, tmp_path / "out.xml")
    assert "link 'hand' had no <inertial>; one is added" in result.notes
    bare = tmp_path / "bare.urdf"
    bare.write_text(
        """<robot name="r"><link name="a"/><link name="b"/><joint name="j" type="continuous">
        <parent link="a"/><child link="b"/></joint></robot>"""
    )
    wanted = cloud(np.random.default_rng(1), 1.0)[None]
    write_parameters(wanted, bare, tmp_path / "out.urdf")
    assert_read_back(tmp_path / "out.urdf", wanted)


def test_a_free_base_has_parameters_too(tmp_path):
    source = tmp_path / "arm.urdf"
    source.write_text(URDF)
    robot = qddot.load(source, base="free")
    wanted = changed(robot)
    write_parameters(robot.with_parameters(wanted), source, tmp_path / "out.urdf")
    assert_read_back(tmp_path / "out.urdf", wanted, base="free")
    write_parameters(wanted, source, tmp_path / "rows.urdf")
    assert (tmp_path / "rows.urdf").read_text() == (tmp_path / "out.urdf").read_text()


def test_the_fixed_base_of_a_robot_is_written(tmp_path):
    source = tmp_path / "arm.urdf"
    source.write_text(URDF)
    robot = qddot.load(source).with_payload("base", 2.0, (0.0, 0.0, 0.5))
    write_parameters(robot, source, tmp_path / "out.urdf")
    found = qddot.load(tmp_path / "out.urdf").model.base_inertia
    np.testing.assert_allclose([*found], [*robot.model.base_inertia], atol=1e-14)


@pytest.mark.parametrize("name", ["panda", "quadruped", "talos_reduced", "go1", "icub"])
def test_files_of_others(name, tmp_path):
    robot = qddot.load(name)
    wanted = changed(robot)
    out = tmp_path / f"out{locate_source(name).suffix}"
    write_parameters(wanted, name, out)
    assert_read_back(out, wanted)


@pytest.mark.parametrize("file", shared_files("menagerie/u*.xml"), ids=lambda f: f.stem)
def test_menagerie_files(file, tmp_path):
    robot = qddot.load(file)
    wanted = changed(robot)
    write_parameters(wanted, file, tmp_path / "out.xml")
    assert_read_back(tmp_path / "out.xml", wanted)


def test_losses_and_armature(file, tmp_path):
    other = tmp_path / f"other{file.suffix}"
    text = file.read_text().replace('damping="0.10"', 'damping="0.75" friction="0.5"')
    text = text.replace('damping="0.1"', 'damping="0.75" frictionloss="0.5" armature="0.25"')
    other.write_text(text)
    out = tmp_path / f"out{file.suffix}"
    write_parameters(qddot.load(other), file, out)
    drive = qddot.load(out).model.body_of_joint("shoulder").joint.drivetrain
    assert (drive.damping, drive.friction) == (0.75, 0.5)
    assert drive.armature == (0.25 if file.suffix == ".xml" else 0.0)


def test_armature_that_urdf_cannot_say_is_noted(tmp_path):
    source = tmp_path / "arm.urdf"
    source.write_text(URDF)
    mjcf = tmp_path / "arm.xml"
    mjcf.write_text(qddot.writers.convert(source, mjcf, states=1).text)
    mjcf.write_text(mjcf.read_text().replace('damping="0.1"', 'damping="0.1" armature="0.25"'))
    result = write_parameters(qddot.load(mjcf), source, tmp_path / "out.urdf")
    assert result.notes == ("joint 'shoulder': URDF has no reflected inertia; 0.25 is lost",)


def test_friction_models_are_translated(file, tmp_path):
    robot = qddot.load(file)
    models = {"shoulder": asymmetric(stribeck(2.0, 1.0, 0.1, 0.5), coulomb(1.5)),
              "wrist": coulomb(0.25, 0.125)}  # fmt: skip
    out = tmp_path / f"out{file.suffix}"
    result = write_parameters(robot, file, out, friction=models, speeds=(0.0, 2.0))
    drive = qddot.load(out).model.body_of_joint("wrist").joint.drivetrain
    assert (drive.friction, drive.damping) == (0.25, 0.125)
    text = "\n".join(result.notes)
    assert "'shoulder'" in text
    assert "fitted over speeds from 0 to 2; the torque is off by at most" in text
    assert "'wrist'" not in text
    with pytest.raises(qddot.QddotError, match="closest: 'wrist'"):
        write_parameters(robot, file, tmp_path / f"x{file.suffix}", friction={"wrst": coulomb(1)})


def test_line_ends_and_encodings_stay(tmp_path):
    source = tmp_path / "arm.urdf"
    text = URDF.replace('version="1.0"', 'version="1.0" encoding="iso-8859-1"')
    text = text.replace("an arm", "ein größerer Arm").replace("\n", "\r\n")
    source.write_bytes(text.encode("latin-1"))
    robot = qddot.load(source)
    wanted = changed(robot)
    write_parameters(wanted, source, tmp_path / "out.urdf")
    content = (tmp_path / "out.urdf").read_bytes()
    assert "größerer".encode("latin-1") in content
    assert content.count(b"\n") == content.count(b"\r\n")
    assert_read_back(tmp_path / "out.urdf", wanted)


def test_what_cannot_be_patched(tmp_path):
    source = tmp_path / "arm.urdf"
    source.write_text(URDF)
    robot = qddot.load(source)
    out = tmp_path / "out.urdf"
    for wrong in (np.zeros((1, 10)), np.zeros((2, 9)), np.full((2, 10), np.nan), "x", np.zeros(20)):
        with pytest.raises(qddot.QddotError, match="parameters"):
            write_parameters(wrong, source, out)
    with pytest.raises(qddot.QddotError, match="bodies"):
        write_parameters(qddot.load("panda"), source, out)
    xacro = tmp_path / "arm.xacro"
    xacro.write_text(URDF)
    with pytest.raises(qddot.QddotError, match="expand it"):
        write_parameters(robot, xacro, out)
    light = robot.inertial_parameters
    light[0, 0] = 0.1
    with pytest.raises(qddot.QddotError, match=r"would weigh -0\.4 kg"):
        write_parameters(light, source, out)
    assert not out.exists()
    out.write_text("mine")
    with pytest.raises(qddot.QddotError, match="--force"):
        write_parameters(robot, source, out)
    sdf = tmp_path / "arm.sdf"
    sdf.write_text('<sdf version="1.9"><model name="m"><link name="l"/></model></sdf>')
    with pytest.raises(qddot.QddotError, match="URDF and MJCF"):
        write_parameters(robot, sdf, tmp_path / "x.sdf")


def test_mjcf_that_would_not_keep_the_numbers(tmp_path):
    source, out = tmp_path / "arm.xml", tmp_path / "out.xml"
    source.write_text(MJCF.replace('quat="1 0 0 0.5"', 'euler="0 0 30"'))
    robot = qddot.load(source)
    with pytest.raises(qddot.QddotError, match=r"euler.*write that as quat"):
        write_parameters(changed(robot), source, out)
    lighter = robot.inertial_parameters
    row = next(i for i, n in enumerate(robot.body_names) if n == "upper")
    # the mass alone, about the same centre and with the same tensor there: the turn can stay
    c = lighter[row, 1:4] / lighter[row, 0]
    steiner = c @ c * np.eye(3) - np.outer(c, c)
    lighter[row] += 0.5 * np.array([1, *c, *steiner[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]])
    write_parameters(lighter, source, out)
    assert 'euler="0 0 30"' in out.read_text()
    assert_read_back(out, lighter)
    scaled = MJCF.replace("<worldbody>", '<compiler settotalmass="10"/><worldbody>', 1)
    source.write_text(scaled)
    robot = qddot.load(source)
    with pytest.raises(qddot.QddotError, match="what is read back"):
        write_parameters(changed(robot), source, tmp_path / "other.xml")
    assert not (tmp_path / "other.xml").exists()


def test_a_format_without_a_way_to_patch_it_is_refused(tmp_path, monkeypatch):
    # a row that says it can be patched, and no code that does so
    monkeypatch.setitem(FORMATS, "sdf", dataclasses.replace(FORMATS["sdf"], patched=True))
    monkeypatch.setattr("qddot.writers.parameters.detect_format", lambda root: FORMATS["sdf"])
    source = tmp_path / "arm.sdf"
    source.write_text(
        '<sdf version="1.9"><model name="m"><link name="l"/><link name="k"/><joint name="j" '
        'type="revolute"><parent>l</parent><child>k</child><axis/></joint></model></sdf>'
    )
    robot = qddot.load(source)
    with pytest.raises(qddot.QddotError, match="links of URDF and bodies of MJCF"):
        write_parameters(robot, source, tmp_path / "out.sdf")


@pytest.mark.parametrize("form", [x for x in FORMATS.values() if x.patched], ids=lambda x: x.name)
def test_friction_has_the_same_attributes_in_both_tables(form):
    damping, friction = (form.drivetrain[name] for name in ("damping", "friction"))
    assert friction_from(form.name, {damping: 0.2, friction: 0.3}) == coulomb(0.3, 0.2)
