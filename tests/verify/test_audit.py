"""The parts of the audit, each against something that knows better, and the command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tracemalloc
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
from qddot.errors import DescriptionError, InvalidArgument
from qddot.loaders import describe
from qddot.loaders.named_robots import named_files
from qddot.model.links import inertia_defect
from qddot.robot import meshes as mesh_module
from qddot.spatial.algebra import Inertia, Sym3, Vec3
from qddot.verify.audit import audit, diff_of, fixed_text, symmetry
from qddot.verify.audit import case as case_module
from qddot.verify.audit.case import gather_evidence
from qddot.verify.audit.evidence import disagreement, inertia_defect_share, log_spread
from qddot.verify.audit.findings import AuditFinding
from qddot.verify.audit.geometry import Geometry
from qddot.verify.audit.meshes import UnreadableMesh, read_mesh
from qddot.verify.audit.page import html_page
from qddot.verify.audit.read_description import read_robot
from qddot.verify.audit.records import Inertial
from qddot.verify.audit.solids import (
    box,
    capsule,
    cylinder,
    ellipsoid,
    hull_of,
    merge_solids,
    scale_solid,
    spread_of,
    tensor_of,
    transform_solid,
    widths_along,
)
from qddot.verify.audit.summary import AuditEntry, group_findings, markdown_page
from qddot.verify.audit.symmetry import mirrored_names

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
    a, b = (
        transform_solid(box([0.1, 0.2, 0.3]), R, p),
        scale_solid(cylinder(0.1, 0.4), np.array([1.0, -2.0, 0.5])),
    )
    whole = merge_solids([a, b])
    # second moments about a common origin add
    about = [s.volume * (s.spread + np.outer(s.com, s.com)) for s in (a, b, whole)]
    assert np.allclose(about[0] + about[1], about[2])
    half = transform_solid(box([0.1, 0.1, 0.1]), np.eye(3), np.array([0.05, 0, 0]))
    other = transform_solid(box([0.1, 0.1, 0.1]), np.eye(3), np.array([-0.05, 0, 0]))
    assert np.allclose(merge_solids([half, other]).spread, box([0.2, 0.1, 0.1]).spread)
    assert np.allclose(widths_along(a.points, np.eye(3)), np.abs(R) @ [0.1, 0.2, 0.3])


def test_hull_says_how_far_outside():
    hull = hull_of(box([2, 2, 2]).points)
    assert hull.volume == pytest.approx(8)
    assert np.allclose(
        hull.distance_outside(np.array([[0, 0, 0], [3, 0, 0], [1, 1, 1]])), [0, 2, 0]
    )
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
    monkeypatch.setattr(
        mesh_module, "_run_child", lambda files, facts: pytest.fail("was read again")
    )
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
    monkeypatch.setattr(mesh_module, "MOST_MESH_BYTES", 100)
    mesh_module._read_batch.cache_clear()
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
    solids = [gather_evidence(read_robot(f)).geometries["link"].estimates[0].solid for f in files]
    assert np.allclose(solids[0].spread, solids[1].spread)
    assert solids[0].volume == pytest.approx(solids[1].volume)


def test_the_hull_of_a_link_holds_both_its_roles(tmp_path):
    """Two boxes have as many corners, and are not the same for that."""
    other = '<collision><origin xyz="0.5 0 0"/><geometry><box size="0.1 0.1 0.1"/></geometry>'
    link = INERTIAL.format(0.02, 0.02, 0.02) + SHAPE + other + "</collision>"
    geometry = gather_evidence(read_robot(arm(tmp_path, link))).geometries["link"]
    assert np.allclose(geometry.points.min(0), [-0.1, -0.15, -0.2])
    assert np.allclose(geometry.points.max(0), [0.55, 0.15, 0.2])


# what is written


@pytest.mark.parametrize("file", BUILT_IN, ids=lambda f: f.stem)
def test_what_is_read_is_what_the_loader_reads(file):
    links = {x.name: x.inertia for x in describe(file).links}
    for link in read_robot(file).links_with_mass():
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
    for name in "abc":
        i, body = robot.links[name].inertial, m.body(name)
        R = np.zeros(9)
        mujoco.mju_quat2Mat(R, body.iquat)
        R = R.reshape(3, 3)
        assert np.allclose(i.tensor, R @ np.diag(body.inertia) @ R.T, atol=1e-9)
        assert np.allclose(robot.links[name].pose.p, body.pos)
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


BODIES = """<worldbody><body name="base"><freejoint/><geom type="box" size=".1 .2 .05" {base}/>
  <body name="arm" pos="0 0 .2"><joint name="j" armature="0.01"/><geom class="thin"/>
    <body name="hand" pos="0 0 .3"><joint name="k"/><geom size=".05"/>
     <geom size=".02" pos=".1 0 0"/>
      <inertial pos="0 0 .02" mass="0.5" diaginertia="2e-3 2e-3 1e-3"/></body></body></body>
  </worldbody>"""
DEFAULTS = """<default><geom density="{density}"/><default class="thin">
  <geom type="capsule" size=".03" fromto="0 0 0 0 .01 .3"/></default></default>"""


def mjcf(folder: Path, compiler: str = "", density: str = "1000", base: str = "") -> Path:
    file = folder / "robot.xml"
    parts = DEFAULTS.format(density=density), BODIES.format(base=base)
    file.write_text(f"<mujoco><compiler {compiler}/>{''.join(parts)}</mujoco>")
    return file


@pytest.mark.parametrize(
    ("compiler", "density", "base"),
    [
        ("", "1000", ""),
        ("", "450", 'mass="2"'),
        ("", "450", 'density="3000"'),
        ('inertiafromgeom="true"', "700", ""),
        ('settotalmass="12.5"', "1000", ""),
        ('boundmass="0.9"', "1000", ""),
        ('boundinertia="0.004"', "1000", ""),
        ('balanceinertia="true"', "1000", 'mass="3"'),
        ('fusestatic="true" discardvisual="true"', "1000", 'group="2"'),
    ],
)
def test_masses_without_inertial_are_those_of_mujoco(tmp_path, compiler, density, base):
    file = mjcf(tmp_path, compiler, density, base)
    m = mujoco.MjModel.from_xml_path(str(file))
    result = audit(file, mass=float(m.body_mass.sum()))
    for name in ("base", "arm", "hand"):
        i, body = result.robot.links[name].inertial, m.body(name)
        R = np.zeros(9)
        mujoco.mju_quat2Mat(R, body.iquat)
        R = R.reshape(3, 3)
        assert i.mass == pytest.approx(body.mass[0], rel=1e-12)
        assert np.allclose(i.com, body.ipos, atol=1e-12)
        assert np.allclose(i.tensor, R @ np.diag(body.inertia) @ R.T, rtol=1e-9, atol=1e-12)
    assert result.mass == pytest.approx(m.body_mass.sum())
    assert result.count("error") == 0
    # values that the file does not have cannot be changed in it
    assert not any(f.subject in ("base", "arm") and f.meant for f in result.findings)


def test_masses_from_geoms_are_judged_and_told(tmp_path):
    told = {f.subject: f for f in audit(mjcf(tmp_path)).findings}
    assert (told["base"].severity, told["base"].hypothesis) == ("info", "inertia from shapes")
    assert "8 kg" in told["base"].message
    assert findings(mjcf(tmp_path, base='mass="900"'))["density"] == "error"
    heavy = audit(mjcf(tmp_path), mass=20.0).findings[0]
    assert (heavy.hypothesis, heavy.severity) == ("total mass", "error")
    assert "have no mass" not in heavy.message
    assert "the compiler" in " ".join(
        f.message for f in audit(mjcf(tmp_path, 'settotalmass="12.5"')).findings
    )


@pytest.mark.parametrize("hand", ["2e-3 2e-3 1e-3", "1e-3 1e-3 9e-3"], ids=["good", "impossible"])
def test_masses_from_meshes_that_are_absent_are_not_known(tmp_path, hand):
    """What other bodies weigh is known all the same, and the total is no finding."""
    file = mjcf(tmp_path)
    text = file.read_text().replace("2e-3 2e-3 1e-3", hand)
    asset = '<asset><mesh name="m" file="absent.stl"/></asset><worldbody>'
    text = text.replace("<worldbody>", asset).replace('<geom class="thin"/>', '<geom mesh="m"/>')
    file.write_text(text.replace('<geom mesh="m"/>', '<geom type="mesh" mesh="m"/>'))
    result = audit(file, mass=20.0)
    assert result.robot.unknown_mass == ("arm",)
    assert result.robot.links["arm"].inertial is None
    assert result.robot.links["base"].inertial.mass == pytest.approx(8.0)
    totals = [f for f in result.findings if f.hypothesis == "total mass"]
    assert [f.severity for f in totals] == ["info"]
    assert "arm" in totals[0].message
    output = CliRunner().invoke(app, ["audit", str(file)]).output
    assert "8.5 kg without 1 link whose mass is not known" in " ".join(output.split())


@pytest.mark.parametrize("setting", ["auto", "true", "false"])
def test_a_refused_inertia_gives_no_other_body_a_mass(tmp_path, setting):
    file = tmp_path / "bad.xml"
    file.write_text(
        f"""<mujoco><compiler inertiafromgeom="{setting}"/><worldbody>
      <body name="bad"><freejoint/><inertial pos="0 0 0" mass="2" diaginertia="1 1 9"/>
      <geom size="0.1" mass="0"/><body name="empty"/><body name="ball"><geom size="0.1" mass="3"/>
      </body></body></worldbody></mujoco>"""
    )
    with pytest.raises(ValueError, match="inertia"):
        mujoco.MjModel.from_xml_path(str(file))
    masses = {x.name: x.inertial and x.inertial.mass for x in read_robot(file).links.values()}
    bad, ball = (None if setting == "true" else 2.0), (None if setting == "false" else 3.0)
    assert masses == {"bad": bad, "empty": None, "ball": pytest.approx(ball) if ball else None}


def test_a_urdf_that_hangs_on_a_world_it_does_not_declare(tmp_path):
    file = arm(tmp_path, INERTIAL.format(0.02, 0.02, 0.02))
    text = file.read_text().replace('<link name="base"/>', "").replace('"base"', '"world"')
    file.write_text(text)
    assert [x.name for x in describe(file).links] == ["link"]
    assert audit(file).mass == 2.0


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
    with pytest.raises(InvalidArgument, match="URDF and MJCF"):
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
        assert (inertia_defect_share(tensor) > 0) == (least < 0)
        sym = Sym3(*(float(tensor[k]) for k in ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))))
        flaws = inertia_defect("x", Inertia.at_com(1.0, Vec3.zero(), sym))
        assert (inertia_defect_share(tensor) > 1e-5) <= bool(flaws)


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
    case = gather_evidence(read_robot("quadruped"))
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


LASER = (
    '<inertial><mass value="{mass}"/><inertia ixx="{I}" iyy="{I}" izz="{I}"/></inertial>'
    '<visual><geometry><box size="0.05 0.05 0.0535"/></geometry></visual>'
    '<collision><geometry><box size="0.1 0.1 0.1"/></geometry></collision>'
)


def test_a_fix_of_implausible_density_is_not_offered(tmp_path):
    """The laser of pybullet's racecar weighs 0.13 kg; its tensor is what is too small."""
    result = audit(arm(tmp_path, LASER.format(mass="0.130", I="4E-06")))
    assert result.findings
    assert not any(f.meant for f in result.findings)
    assert not any("mass 0.13 kg is" in f.message for f in result.findings)


def test_values_of_a_fix_have_no_float_noise(tmp_path):
    """0.13 times 0.1 is 0.013000000000000001 in double precision."""
    assert 0.13 * 10.0**-1 != 0.013
    box_of_13_grams = (
        '<inertial><mass value="0.13"/><inertia ixx="1.6e-6" iyy="1.5e-6" izz="1.4e-6"/></inertial>'
        '<visual><geometry><box size="0.026 0.027 0.028"/></geometry></visual>'
    )
    file = arm(tmp_path, box_of_13_grams)
    result = audit(file)
    assert result.findings[0].hypothesis == "power of ten"
    assert 'mass value="0.013"' in fixed_text(result)[0]
    output = CliRunner().invoke(app, ["audit", str(file)]).output
    assert 'value="0.013"' in output


def test_digits_that_a_fix_leaves_alone_stay(tmp_path):
    text = arm(tmp_path, "").read_text()
    body = (
        '<inertial><mass value="0.71234567890123456"/>'
        '<inertia ixx="1.2e-3" iyy="1.2" izz="1.2e-3"/></inertial>'
        '<visual><geometry><box size="0.1 0.1 0.1"/></geometry></visual>'
    )
    file = tmp_path / "arm.urdf"
    file.write_text(text.replace('<link name="link"></link>', f'<link name="link">{body}</link>'))
    fixed, undone = fixed_text(audit(file))
    assert undone
    assert 'value="0.71234567890123456"' in fixed


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


def test_findings_on_several_joints_are_in_the_plural():
    message = "its friction 9 N m takes 90% of the greatest effort, 10 N m"
    one, other = (AuditFinding(n, "drivetrain", "error", message, 4.0) for n in ("a", "b"))
    assert group_findings([one]) == [(one, ["a"])]
    ((both, names),) = group_findings([one, other])
    assert names == ["a", "b"]
    assert both.message == "their friction 9 N m takes 90% of the greatest effort, 10 N m"


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
    assert not re.search(r"https?:", text)
    assert "<script" not in text
    for link in read_robot("ur5e").links_with_mass():
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
    page = Path(__file__).resolve().parents[2] / "docs" / "audit-of-public-robots.md"
    text = page.read_text()
    if example_urdfs():
        assert f"{len(example_urdfs())} files" in text
    assert "Written by `qddot audit package://example-robot-data/robots" in text


def test_hypotheses_stand_in_one_order():
    """Those with as many errors by name, so that a page depends on the robots alone."""
    text = markdown_page("command", [AuditEntry(f.stem, audit(f)) for f in BUILT_IN])
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
    mesh_module._read_batch.cache_clear()
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
    assert not replace(i, mass=float("nan")).is_finite


def test_many_links_of_one_shape_have_a_bounded_number_of_twins(tmp_path, monkeypatch):
    """Each pair would be compared in all turns: 150 links took minutes."""
    compared = []
    permutations = symmetry._axis_permutations
    monkeypatch.setattr(
        symmetry, "_axis_permutations", lambda a, b: compared.append(a) or permutations(a, b)
    )
    monkeypatch.setattr(symmetry, "_SIGNED", symmetry._SIGNED[:1])
    body = '<body name="x{}"><joint axis="0 0 1"/><geom size=".1 .2 .3" type="box"/></body>'
    file = tmp_path / "robot.xml"
    for count, pairs in ((10, 10 * 9), (150, 150 * 4), (400, 400)):
        bodies = "".join(body.format(i) for i in range(count))
        file.write_text(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")
        compared.clear()
        gather_evidence(read_robot(file))
        assert len(compared) <= pairs
        assert len(compared) >= count


def test_carried_links_are_found_without_going_through_all_of_them(tmp_path):
    robot = write_and_read_star(tmp_path, 300, "")
    assert [x.name for x in robot.children("l0")] == [f"l{i}" for i in range(1, 300)]
    assert list(robot.children("l1")) == []


def test_shapes_beyond_the_bound_are_named_and_not_measured(tmp_path, monkeypatch):
    sphere = "<collision><geometry><sphere radius='0.1'/></geometry></collision>"
    robot = write_and_read_star(tmp_path, 3, sphere * 5)
    monkeypatch.setattr(case_module, "_MOST_SHAPES", 4)
    case = gather_evidence(robot)
    assert case.geometries["l1"].unread == ("5 collision shapes: at most 4 of a link are measured",)
    assert not case.geometries["l1"].estimates
    # all of a robot: fewer for each link
    monkeypatch.setattr(case_module, "_MOST_SHAPES", 5)
    assert gather_evidence(robot).geometries["l1"].estimates
    monkeypatch.setattr(case_module, "_MOST_OF_ALL", 9)
    case = gather_evidence(robot)
    assert case.geometries["l1"].unread == ("5 collision shapes: at most 3 of a link are measured",)


def test_frames_of_a_link_are_bounded(tmp_path):
    """Each is a hypothesis: shapes that are all turned otherwise would make thousands."""
    turned = "<collision><origin rpy='{} 0 0'/><geometry><box size='1 2 3'/></geometry></collision>"
    robot = write_and_read_star(tmp_path, 2, "".join(turned.format(i / 200) for i in range(1, 150)))
    assert len(gather_evidence(robot).frames["l1"]) == 100


def test_links_with_many_joints_are_matched_in_little_memory(tmp_path):
    """A table of all pairs of 3,000 places would have 200 MB."""
    rng = np.random.default_rng(0)
    a = Geometry((), rng.normal(size=(3000, 3)))
    b = Geometry((), a.anchors @ np.diag([1.0, -1.0, 1.0]))
    tracemalloc.start()
    found = symmetry._axis_permutations(a, b)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [Q.tolist() for Q in found] == [np.diag([1.0, -1.0, 1.0]).tolist()]
    assert most < 2e7


def write_and_read_star(folder, links, shapes):
    """The record of links around a first one, each with these shapes."""
    inertial = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/></inertial>"
    joint = "<joint name='j{0}' type='continuous'><parent link='l0'/><child link='l{0}'/></joint>"
    parts = [f"<link name='l{i}'>{inertial}{shapes}</link>" for i in range(links)]
    parts += [joint.format(i) for i in range(1, links)]
    file = folder / "star.urdf"
    file.write_text(f"<robot name='star'>{''.join(parts)}</robot>")
    return read_robot(file)
