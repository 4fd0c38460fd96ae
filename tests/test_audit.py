"""The parts of the audit, each against something that knows better, and the command."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
import trimesh
from agreement import example_urdfs
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from qddot.cli import app
from qddot.errors import DescriptionError, NotUnderstood
from qddot.loaders import describe
from qddot.loaders.named import named_files
from qddot.parts import inertia_defect
from qddot.spatial import Inertia, Sym3, Vec3
from qddot.verify.audit import audit, diff_of, fixed_text
from qddot.verify.audit import meshes as mesh_module
from qddot.verify.audit.evidence import defect, disagreement, log_spread
from qddot.verify.audit.gathering import gather
from qddot.verify.audit.meshes import UnreadableMesh, read_mesh
from qddot.verify.audit.page import html_page
from qddot.verify.audit.reading import read_robot
from qddot.verify.audit.records import Inertial
from qddot.verify.audit.solids import (
    box,
    capsule,
    cylinder,
    ellipsoid,
    hull_of,
    merged,
    moved,
    scaled,
    spread_of,
    tensor_of,
    widths,
)
from qddot.verify.audit.summary import Entry, markdown_page
from qddot.verify.audit.twins import mirrored_names

BUILT_IN = sorted(f for f in named_files().values() if f.parent.parent.name == "qddot")
INERTIAL = '<inertial><mass value="2"/><inertia ixx="{}" iyy="{}" izz="{}"/></inertial>'
SHAPE = '<visual><geometry><box size="0.2 0.3 0.4"/></geometry></visual>'


def rotation(seed: int) -> np.ndarray:
    Q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    return Q * np.sign(np.linalg.det(Q))


def arm(folder: Path, link: str, joint: str = "") -> Path:
    file = folder / "arm.urdf"
    file.write_text(
        f'<robot name="arm"><link name="base"/><link name="link">{link}</link>'
        f'<joint name="j" type="revolute"><parent link="base"/><child link="link"/>{joint}</joint>'
        "</robot>"
    )
    return file


def findings(file: Path, **options) -> dict[str, str]:
    """Hypotheses by severity, the first of each."""
    result = audit(file, **options)
    return {f.hypothesis: f.severity for f in reversed(result.findings)}


# solids


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (box([0.1, 0.2, 0.3]), trimesh.creation.box([0.1, 0.2, 0.3])),
        (cylinder(0.1, 0.5), trimesh.creation.cylinder(0.1, 0.5, sections=256)),
        (capsule(0.1, 0.4), trimesh.creation.capsule(0.4, 0.1, count=[128, 128])),
        (ellipsoid([0.2] * 3), trimesh.creation.icosphere(5, 0.2)),
    ],
    ids=["box", "cylinder", "capsule", "sphere"],
)
def test_solids_are_those_of_trimesh(ours, theirs):
    theirs.apply_translation(-theirs.center_mass)
    assert ours.volume == pytest.approx(theirs.volume, rel=2e-3)
    tensor = theirs.moment_inertia / theirs.volume
    assert np.allclose(tensor_of(1.0, ours.spread), tensor, atol=3e-3 * np.abs(tensor).max())
    assert np.allclose(ours.points.max(0), theirs.bounds[1], rtol=2e-2)


def test_solids_move_stretch_and_merge_as_masses_do():
    R, p = rotation(1), np.array([0.1, -0.2, 0.3])
    a, b = moved(box([0.1, 0.2, 0.3]), R, p), scaled(cylinder(0.1, 0.4), np.array([1.0, -2.0, 0.5]))
    whole = merged([a, b])
    # second moments about a common origin add
    about = [s.volume * (s.spread + np.outer(s.com, s.com)) for s in (a, b, whole)]
    assert np.allclose(about[0] + about[1], about[2])
    half = moved(box([0.1, 0.1, 0.1]), np.eye(3), np.array([0.05, 0, 0]))
    other = moved(box([0.1, 0.1, 0.1]), np.eye(3), np.array([-0.05, 0, 0]))
    assert np.allclose(merged([half, other]).spread, box([0.2, 0.1, 0.1]).spread)
    assert np.allclose(widths(a.points, np.eye(3)), np.abs(R) @ [0.1, 0.2, 0.3])


def test_hull_says_how_far_outside():
    hull = hull_of(box([2, 2, 2]).points)
    assert hull.volume == pytest.approx(8)
    assert np.allclose(hull.outside(np.array([[0, 0, 0], [3, 0, 0], [1, 1, 1]])), [0, 2, 0])
    assert hull_of(np.zeros((4, 3))) is None


# meshes


def write_mesh(folder: Path, mesh: trimesh.Trimesh, name: str = "part.stl") -> Path:
    file = folder / name
    mesh.export(file)
    return file


def test_a_mesh_gives_the_solid_it_encloses(tmp_path):
    part = trimesh.creation.annulus(0.05, 0.1, 0.3)
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation(2), [0.3, 0.2, 0.1]
    part.apply_transform(pose)
    mesh = read_mesh(write_mesh(tmp_path, part))
    assert mesh.closed
    assert mesh.solid.volume == pytest.approx(part.volume, rel=1e-6)
    assert np.allclose(mesh.solid.com, part.center_mass, atol=1e-6)
    tensor = tensor_of(part.volume, mesh.solid.spread)
    assert np.allclose(tensor, part.moment_inertia, atol=1e-6 * np.abs(tensor).max())
    assert mesh.hull.volume == pytest.approx(part.convex_hull.volume, rel=1e-6)
    assert mesh.shell.volume == pytest.approx(part.area, rel=1e-6)
    # a wall lies further out than what it holds
    assert np.trace(mesh.shell.spread) > np.trace(mesh.hull.spread)


def test_a_mesh_with_a_hole_is_repaired_or_taken_as_its_hull(tmp_path):
    part = trimesh.creation.icosphere(3, 0.1)
    part.update_faces(np.arange(len(part.faces)) > 1)
    mesh = read_mesh(write_mesh(tmp_path, part, "hole.obj"))
    assert mesh.solid.volume == pytest.approx(4 / 3 * np.pi * 1e-3, rel=0.03)
    open_box = trimesh.creation.box([1, 1, 1])
    open_box.update_faces(np.arange(len(open_box.faces)) % 2 == 0)
    mesh = read_mesh(write_mesh(tmp_path, open_box, "open.obj"))
    assert mesh.hull.volume == pytest.approx(1)


def test_results_are_kept_by_content(tmp_path, monkeypatch):
    monkeypatch.setenv("QDDOT_CACHE_DIR", str(tmp_path / "cache"))
    part = trimesh.creation.box([0.1, 0.2, 0.3])
    first = read_mesh(write_mesh(tmp_path, part))
    monkeypatch.setattr(mesh_module, "_measured", lambda file: pytest.fail("was read again"))
    again = read_mesh(write_mesh(tmp_path, part, "copy.stl"))
    assert np.array_equal(first.solid.spread, again.solid.spread)
    with pytest.raises(pytest.fail.Exception):
        read_mesh(write_mesh(tmp_path, trimesh.creation.box([0.1, 0.2, 0.4]), "other.stl"))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.stl", b"", "is empty"),
        ("broken.stl", bytes(range(256)) * 9, "cannot be read|has no triangles|NaN"),
        ("text.obj", b"hello", "cannot be read|has no triangles"),
        ("flat.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 1 1 0\nf 1 2 3\nf 2 4 3\n", "."),
        ("nan.obj", b"v nan 0 0\nv 1 0 0\nv 0 1 0\nv 1 1 1\nf 1 2 3\nf 2 4 3\n", "."),
        ("what.xyz", b"1 2 3", "."),
        ("none.dae", b"<COLLADA/>", "."),
    ],
)
def test_bad_meshes_are_told_of_and_do_no_harm(tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableMesh, match=reason):
        read_mesh(tmp_path / name)
    shape = f'<visual><geometry><mesh filename="{name}"/></geometry></visual>'
    result = audit(arm(tmp_path, INERTIAL.format(0.01, 0.01, 0.01) + shape))
    assert any(f.hypothesis == "shape not read" and name in f.message for f in result.findings)


def test_a_mesh_that_is_absent_or_too_large(tmp_path, monkeypatch):
    with pytest.raises(UnreadableMesh, match="No such file"):
        read_mesh(tmp_path / "none.stl")
    file = write_mesh(tmp_path, trimesh.creation.box([1, 1, 1]))
    monkeypatch.setattr(mesh_module, "_MOST_BYTES", 100)
    mesh_module._read.cache_clear()
    with pytest.raises(UnreadableMesh, match="larger than"):
        read_mesh(file)


def test_scale_and_unit_of_meshes(tmp_path):
    """A mesh in millimetres with its scale is the same link as one in metres."""
    write_mesh(tmp_path, trimesh.creation.box([200, 300, 400]), "mm.stl")
    shape = (
        '<visual><geometry><mesh filename="mm.stl" scale="0.001 0.001 0.001"/></geometry></visual>'
    )
    files = [
        arm(folder, INERTIAL.format(0.0417, 0.0333, 0.0217) + geometry)
        for folder, geometry in ((tmp_path, shape), (tmp_path / "b", SHAPE))
        if folder.mkdir(exist_ok=True) or True
    ]
    solids = [gather(read_robot(f)).geometries["link"].estimates[0].solid for f in files]
    assert np.allclose(solids[0].spread, solids[1].spread)
    assert solids[0].volume == pytest.approx(solids[1].volume)


def test_the_hull_of_a_link_holds_both_its_roles(tmp_path):
    """Two boxes have as many corners, and are not the same for that."""
    other = '<collision><origin xyz="0.5 0 0"/><geometry><box size="0.1 0.1 0.1"/></geometry>'
    link = INERTIAL.format(0.02, 0.02, 0.02) + SHAPE + other + "</collision>"
    geometry = gather(read_robot(arm(tmp_path, link))).geometries["link"]
    assert np.allclose(geometry.points.min(0), [-0.1, -0.15, -0.2])
    assert np.allclose(geometry.points.max(0), [0.55, 0.15, 0.2])


# what is written


@pytest.mark.parametrize("file", BUILT_IN, ids=lambda f: f.stem)
def test_what_is_read_is_what_the_loader_reads(file):
    links = {x.name: x.inertia for x in describe(file).links}
    for link in read_robot(file).weighed():
        ours, theirs = link.inertial, links[link.name]
        tensor = np.array([list(row) for row in theirs.tensor_at_com.rows])
        assert ours.mass == pytest.approx(theirs.mass)
        assert np.allclose(ours.com, list(theirs.com), atol=1e-12)
        assert np.allclose(ours.tensor, tensor, atol=1e-12 + 1e-9 * np.abs(tensor).max())


def test_mjcf_inertias_in_all_forms(tmp_path):
    """Frames, defaults, Euler angles and full tensors, as MuJoCo itself understands them."""
    file = tmp_path / "forms.xml"
    file.write_text("""<mujoco><compiler angle="degree" eulerseq="zyx"/><worldbody>
      <frame pos="1 2 3" euler="10 20 30">
        <body name="a" pos="0.1 0 0"><freejoint/><geom size="0.1"/>
          <inertial pos="1 2 3" mass="2" diaginertia="0.3 0.4 0.5" euler="30 40 50"/>
          <body name="b"><joint damping="3" frictionloss="2" armature="1"/><geom size="0.1"/>
            <inertial pos="0 0 1" mass="1" fullinertia="0.3 0.4 0.5 0.01 0.02 0.03"/>
            <body name="c"><joint/><geom size="0.1"/></body>
          </body>
        </body>
      </frame></worldbody></mujoco>""")
    m = mujoco.MjModel.from_xml_path(str(file))
    robot = read_robot(file)
    for name in "ab":
        i, body = robot.links[name].inertial, m.body(name)
        R = np.zeros(9)
        mujoco.mju_quat2Mat(R, body.iquat)
        R = R.reshape(3, 3)
        assert np.allclose(i.tensor, R @ np.diag(body.inertia) @ R.T, atol=1e-9)
        assert np.allclose(robot.links[name].pose.p, body.pos)
    assert robot.links["c"].inertial is None
    joint = robot.links["b"].joints[0]
    assert (joint.damping, joint.friction, joint.armature) == (3, 2, 1)


def test_an_impossible_inertia_of_mjcf_is_read_with_its_shapes(tmp_path):
    file = tmp_path / "bad.xml"
    file.write_text("""<mujoco><worldbody><body name="a"><freejoint/><geom size="0.1"/>
      <inertial pos="0 0 0" mass="2" diaginertia="1 1 9"/></body></worldbody></mujoco>""")
    with pytest.raises(ValueError, match="inertia"):
        mujoco.MjModel.from_xml_path(str(file))
    assert read_robot(file).links["a"].shapes
    assert audit(file).findings[0].hypothesis == "not physical"


def test_sdf_and_xacro_are_read(tmp_path):
    sdf = tmp_path / "a.sdf"
    sdf.write_text("""<sdf version="1.9"><model name="m"><link name="a"><inertial><mass>2</mass>
      <inertia><ixx>1</ixx><iyy>1</iyy><izz>5</izz></inertia></inertial></link></model></sdf>""")
    assert audit(sdf).findings[0].hypothesis == "not physical"
    xacro = tmp_path / "a.xacro"
    xacro.write_text(
        '<robot name="x" xmlns:xacro="http://www.ros.org/wiki/xacro"><link name="base"/>'
        '<xacro:property name="m" value="2"/><link name="link"><inertial><mass value="${m}"/>'
        '<inertia ixx="1" iyy="1" izz="5"/></inertial></link><joint name="j" type="continuous">'
        '<parent link="base"/><child link="link"/></joint></robot>'
    )
    result = audit(xacro)
    assert result.findings[0].hypothesis == "not physical"
    with pytest.raises(NotUnderstood, match="URDF and MJCF"):
        fixed_text(result)


# evidence


@given(
    st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=3), st.floats(0.01, 100), st.integers(0, 99)
)
def test_disagreement_depends_on_neither_size_nor_axes(moments, size, seed):
    R = rotation(seed)
    S, T = np.diag(moments), np.diag(moments[::-1])
    plain = disagreement(log_spread(S), log_spread(T))
    turned = disagreement(*(log_spread(size * R @ X @ R.T) for X in (S, T)))
    assert plain == pytest.approx(turned, abs=1e-6)
    scaled_by = disagreement(log_spread(S), log_spread(size * S))
    assert scaled_by == pytest.approx(np.sqrt(3) * abs(np.log(size)), abs=1e-6)


@given(st.lists(st.floats(-1, 3), min_size=3, max_size=3), st.integers(0, 99))
def test_defect_is_that_of_the_pseudo_inertia(moments, seed):
    """The pseudo-inertia diag(½ tr(I) 1 − I, m) has a negative eigenvalue just where it says so."""
    R = rotation(seed)
    tensor = R @ np.diag(moments) @ R.T
    pseudo = np.zeros((4, 4))
    pseudo[:3, :3], pseudo[3, 3] = spread_of(tensor), 1.0
    least = np.linalg.eigvalsh(pseudo)[0]
    if abs(least) > 1e-6:
        assert (defect(tensor) > 0) == (least < 0)
        sym = Sym3(*(float(tensor[k]) for k in ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))))
        flaws = inertia_defect("x", Inertia.at_com(1.0, Vec3.zero(), sym))
        assert (defect(tensor) > 1e-5) <= bool(flaws)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("left_knee", "right_knee"), ("FL_thigh", "FR_thigh"), ("RR_calf", "RL_calf"),
        ("LF_HIP", "RF_HIP"), ("l_hip_1", "r_hip_1"), ("LShoulderYawLink", "RShoulderYawLink"),
        ("arm_left_4_link", "arm_right_4_link"), ("LeftElbow", "RightElbow"),
        ("RARM_LINK2", "LARM_LINK2"),
    ],
)  # fmt: skip
def test_twins_by_name(name, other):
    assert other in mirrored_names(name)
    assert name in mirrored_names(other)
    assert not set(mirrored_names("wheel_3")) | set(mirrored_names("torso"))


def test_twins_are_seen_through_the_mirror():
    """The legs of the built-in quadruped are mirror images; of one of them the map is known."""
    case = gather(read_robot("quadruped"))
    twin = next(t for t in case.twins["FL_thigh"] if t.name == "FR_thigh")
    assert any(np.allclose(Q, np.diag([1, -1, 1])) for Q in twin.maps)
    evidence = case.evidence("FL_thigh")
    assert {t.name for t in evidence.twins} >= {"FR_thigh", "RL_thigh"}
    mine = evidence.link.inertial
    assert any(
        np.allclose(i.com, mine.com) and np.allclose(i.tensor, mine.tensor)
        for t in evidence.twins
        for i in t.inertials
    )


# hypotheses that a table of damages cannot show


def test_severity_follows_the_weight_of_a_link(tmp_path):
    """A slip on a link that weighs next to nothing is a note."""
    text = named_files()["ur5e"].read_text()
    tiny = text.replace(
        '<link name="base"/>',
        '<link name="base"><inertial><mass value="1e-4"/>'
        '<inertia ixx="1e-5" iyy="1e-5" izz="1e-5"/></inertial>'
        '<visual><geometry><box size="0.01 0.01 0.01"/></geometry></visual></link>',
    )
    assert tiny != text
    file = tmp_path / "ur5e.urdf"
    file.write_text(tiny)
    result = audit(file)
    assert result.count("error") == result.count("warning") == 0
    assert any(f.subject == "base" for f in result.findings)


def test_total_mass_names_what_is_not_weighed():
    assert "total mass" not in findings("ur5e", mass=21.5)
    result = audit("ur5e", mass=30.0)
    assert result.findings[0].hypothesis == "total mass"
    assert result.findings[0].severity == "error"
    assert findings("ur5e", mass=22.2)["total mass"] == "warning"


def test_joints_against_their_twins(tmp_path):
    """A friction a hundred times that of the joint on the other side is put right."""
    text = named_files()["quadruped"].read_text()
    line = '<joint name="FL_calf_joint" class="knee"/>'
    bad = text.replace(line, '<joint name="FL_calf_joint" class="knee" frictionloss="100"/>')
    file = tmp_path / "quadruped.xml"
    file.write_text(bad)
    result = audit(file)
    first = result.findings[0]
    assert (first.subject, first.hypothesis, first.severity) == (
        "FL_calf_joint",
        "drivetrain",
        "error",
    )
    fixed, _ = fixed_text(result)
    assert fixed == bad.replace('frictionloss="100"', 'frictionloss="0.1"')


def test_a_link_that_moves_without_mass(tmp_path):
    assert findings(arm(tmp_path, SHAPE))["zero or default"] == "warning"
    assert "zero or default" not in findings(arm(tmp_path, ""))


def test_bad_numbers_are_findings(tmp_path):
    bad = '<inertial><mass value="{}"/><inertia ixx="1" iyy="{}" izz="1"/></inertial>'
    for mass, moment in (("nan", "1"), ("1", "x"), ("-1", "1"), ("inf", "1")):
        assert findings(arm(tmp_path, bad.format(mass, moment)))["not physical"] == "error"
    joint = '<dynamics friction="nan"/><limit effort="1" velocity="1"/>'
    assert findings(arm(tmp_path, INERTIAL.format(1, 1, 1), joint))["drivetrain"] == "error"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<robot name='a'/>", "has no <link>"),
        ("<robot name='a'><link name='a'/><joint name='j' type='fixed'><parent link='a'/>"
         "<child link='a'/></joint></robot>", "cycle"),
        ("<robot name='a'><link name='a'/><joint name='j' type='fixed'><parent link='a'/>"
         "<child link='b'/></joint></robot>", "does not exist"),
        ("<robot name='a'><link name='a'/><link name='b'/><joint name='j' type='fixed'><parent "
         "link='a'/><child link='b'/><origin xyz='nan 0 0'/></joint></robot>", "not finite"),
        ("<mujoco><worldbody/></mujoco>", "has no <body>"),
        ("<mujoco><worldbody><body><joint type='x'/></body></worldbody></mujoco>", "MuJoCo"),
        ("<html/>", "neither URDF"),
        ("no xml", "not well-formed"),
    ],
)  # fmt: skip
def test_unusable_files_say_why(tmp_path, text, reason):
    file = tmp_path / "bad.urdf"
    file.write_text(text)
    with pytest.raises(DescriptionError, match=reason):
        audit(file)


# the command


def run(*args: str):
    return CliRunner().invoke(app, ["audit", *args])


def damaged(folder: Path) -> Path:
    text = named_files()["ur5e"].read_text()
    file = folder / "ur5e.urdf"
    file.write_text(text.replace('iyy="0.33388086"', 'iyy="3.3388086"'))
    return file


def test_command_exit_codes_and_words(tmp_path):
    good = run("ur5e")
    assert good.exit_code == 0
    assert "0 errors, 0 warnings" in good.stdout
    bad = run(str(damaged(tmp_path)))
    assert bad.exit_code == 1
    assert "power of ten, upper_arm_link: iyy = 3.339 kg m² is 10 times too large" in bad.stdout
    assert 'iyy="0.33388086"' in bad.stdout
    assert run("no_such_robot").exit_code == 2
    assert run(str(tmp_path / "none.urdf")).exit_code == 2
    assert run("ur5e", "--mass", "-1").exit_code == 2


def test_command_json():
    result = run("panda", "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 1
    assert report["errors"] == 1
    first = report["findings"][0]
    assert first["subject"] == "panda_link1"
    assert set(first) == {
        "subject", "hypothesis", "severity", "message", "strength", "links", "others", "fix",
    }  # fmt: skip


def test_command_fixes_with_a_diff(tmp_path):
    file, target = damaged(tmp_path), tmp_path / "fixed.urdf"
    result = run(str(file), "--fix", str(target))
    assert (
        '+      <inertia ixx="0.01505885" ixy="-5.4e-05" ixz="5.63e-06" iyy="0.33388086"'
        in result.stdout
    )
    assert target.read_text() == named_files()["ur5e"].read_text()
    assert run(str(target)).exit_code == 0
    again = run(str(file), "--fix", str(target))
    assert again.exit_code == 2
    assert "exists" in again.stderr
    nothing = run("ur5e", "--fix", str(tmp_path / "same.urdf"))
    assert "nothing to fix" in nothing.stdout


def test_command_on_a_folder(tmp_path):
    damaged(tmp_path)
    (tmp_path / "none.urdf").write_text("<robot name='a'/>")
    (tmp_path / "package.xml").write_text("<package/>")
    page = tmp_path / "page.md"
    result = run(str(tmp_path), "--page", str(page))
    assert result.exit_code == 1
    assert "NOT EVALUATED" in result.stdout
    text = page.read_text()
    assert "| ur5e.urdf | 12 |" in text
    assert "NOT EVALUATED: robot 'a': has no <link>" in text
    assert "**power of ten**" in text
    assert str(tmp_path) not in text.split("\n", 4)[-1]
    report = json.loads(run(str(tmp_path), "--json").stdout)
    assert [x["name"] for x in report] == ["none.urdf", "ur5e.urdf"]
    assert run(str(tmp_path), "--match", "*.sdf").exit_code == 2
    assert run(str(tmp_path), "--mass", "3").exit_code == 2


def test_command_draws_a_page_that_needs_nothing(tmp_path):
    page = tmp_path / "page.html"
    assert run(str(damaged(tmp_path)), "--html", str(page)).exit_code == 1
    text = page.read_text()
    assert "http" not in text
    assert "<script" not in text
    for link in read_robot("ur5e").weighed():
        assert f'id="{link.name}"' in text
    assert text.count("<svg") > 3 * 8
    assert "nan" not in text.lower().replace("nanum", "")


def test_page_of_every_odd_robot(tmp_path):
    odd = '<inertial><mass value="nan"/><inertia ixx="1" iyy="1" izz="1"/></inertial>'
    for link in (odd, "", SHAPE, INERTIAL.format(0, 0, 0), INERTIAL.format(1, 1, 9) + SHAPE):
        assert "<h1>arm</h1>" in html_page(audit(arm(tmp_path, link)))
    for file in BUILT_IN:
        assert "<svg" in html_page(audit(file))


def test_names_are_escaped(tmp_path):
    file = tmp_path / "a.urdf"
    file.write_text(
        '<robot name="&lt;b&gt;"><link name="&lt;i&gt;">'
        + INERTIAL.format(1, 1, 9)
        + "</link></robot>"
    )
    text = html_page(audit(file))
    assert "<b>" not in text.split("<h1>")[1].split("</h1>")[0]
    assert "&lt;i&gt;" in text


def test_diff_keeps_files_without_a_last_newline():
    assert diff_of("a\nb", "a\nc", "x").endswith("+c\n\\ No newline at end of file\n")


def test_example_robot_data_page_is_written_by_the_program():
    page = Path(__file__).resolve().parents[1] / "docs" / "audit-of-public-robots.md"
    text = page.read_text()
    if example_urdfs():
        assert f"{len(example_urdfs())} files" in text
    assert "Written by `qddot audit package://example-robot-data/robots" in text


def test_hypotheses_stand_in_one_order():
    """Those with as many errors by name, so that a page depends on the robots alone."""
    text = markdown_page("title", "command", [Entry(f.stem, audit(f)) for f in BUILT_IN])
    table = text.split("## Hypotheses")[1].split("## Serious")[0].strip().splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert len(rows) > 3
    assert rows == sorted(rows, key=lambda row: (-int(row[1]), row[0]))


def test_audit_does_not_load_what_it_does_not_need():
    """The command line starts without trimesh."""
    code = "import sys, qddot.cli; print('trimesh' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "False"


def test_without_trimesh_meshes_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setenv("QDDOT_CACHE_DIR", str(tmp_path / "cache"))
    mesh_module._read.cache_clear()
    write_mesh(tmp_path, trimesh.creation.box([0.2, 0.3, 0.4]))
    monkeypatch.setitem(sys.modules, "trimesh", None)
    shape = '<visual><geometry><mesh filename="part.stl"/></geometry></visual>'
    result = audit(arm(tmp_path, INERTIAL.format(0.02, 0.02, 0.02) + shape))
    assert "qddot[audit]" in next(
        f.message for f in result.findings if f.hypothesis == "shape not read"
    )


def test_inertials_replace_only_what_is_asked():
    i = Inertial(1.0, np.zeros(3), rotation(3), np.diag([1.0, 2.0, 2.5]))
    assert np.allclose(np.linalg.eigvalsh(i.tensor), [1, 2, 2.5])
    assert not replace(i, mass=float("nan")).finite
