"""Comparison: every stage is named as the first cause, whatever the frames, names and engines."""

from __future__ import annotations

import dataclasses
import json
import math
import re

import numpy as np
import pytest
from agreement import example_urdfs, need_shared, shared_files
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import build, trees
from typer.testing import CliRunner

import qddot
from qddot.cli import app
from qddot.errors import DescriptionError, InvalidArgument, UnknownName
from qddot.loaders import load_model
from qddot.loaders.named_robots import named_files
from qddot.model.model import WORLD, Model
from qddot.spatial.algebra import Transform, rotation_about
from qddot.verify.compare import ENGINES, Settings, compare, worker
from qddot.verify.compare.align import align
from qddot.verify.compare.parameters import PARAMETER_STAGES

FEW = Settings(states=3)
TERMS = ("M", "g", "bias", "passive", "q̈")

ARM = """
<mujoco model="arm">
  <compiler angle="radian"/>
  <option gravity="0 0 -9.81"/>
  <worldbody>
    <body name="shoulder" pos="0 0 0.2">
      <joint name="pan" axis="0 0 1" range="-3 3" armature="0.1" damping="0.5" frictionloss="0.3"/>
      <inertial mass="3" pos="0.01 0.02 0.1" fullinertia="0.02 0.03 0.025 0.001 0.002 -0.003"/>
      <body name="upper" pos="0 0.1 0.1" quat="0.7 0.1 0.7 0">
        <joint name="lift" axis="0 1 0" range="-3 3" armature="0.1" stiffness="2" springref="0.3"/>
        <inertial mass="4" pos="0.1 0 0.2" fullinertia="0.1 0.11 0.05 0.004 0.01 0.01"/>
        <body name="fore" pos="0 -0.1 0.4">
          <joint name="elbow" axis="0 1 0" range="-3 3" armature="0.1"/>
          <inertial mass="2" pos="0 0.03 0.15" fullinertia="0.03 0.035 0.01 0.001 0 0.002"/>
          <body name="hand" pos="0 0 0.35">
            <joint name="slide" type="slide" axis="0 0 1" range="0 0.1" armature="0.2"/>
            <inertial mass="0.6" pos="0 0 0.05" diaginertia="0.001 0.002 0.0015"/>
            <site name="tool" pos="0 0 0.1"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""

FINGERS = """
<mujoco model="hand"><option gravity="0 0 -9.81"/><compiler angle="radian"/>
  <worldbody><body name="{palm}"><inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/>{fingers}
  </body>
</worldbody></mujoco>
"""
FINGER = """
<body name="{0}a" pos="{1} 0 0"><joint name="{0}1" axis="0 1 0"/>
  <inertial mass="{2}" pos="0 0 0.1" diaginertia="0.01 0.01 0.002"/>
  <body name="{0}b" pos="0 0 0.2"><joint name="{0}2" axis="0 1 0"/>
    <inertial mass="0.1" pos="0 0 0.05" diaginertia="0.001 0.001 0.0002"/></body></body>"""


def test_partners_that_names_and_places_do_not_tell_are_given(tmp_path):
    # two fingers alike, as those of a hand, under other names and in another order
    words = {"a.xml": ("palm", ("index", "thumb")), "b.xml": ("base", ("p", "q"))}
    places = {"index": (0.1, 0.4), "thumb": (-0.1, 0.5), "q": (0.1, 0.4), "p": (-0.1, 0.5)}
    for name, (palm, order) in words.items():
        fingers = "".join(FINGER.format(x, *places[x]) for x in order)
        (tmp_path / name).write_text(FINGERS.format(palm=palm, fingers=fingers))
    a, b = str(tmp_path / "a.xml"), str(tmp_path / "b.xml")
    pairs = {"index1": "q1", "index2": "q2", "thumb1": "p1", "thumb2": "p2"}
    assert not compare(a, b, settings=FEW).agrees
    found = compare(a, b, settings=dataclasses.replace(FEW, joints=pairs))
    assert found.agrees
    asked = [word for x, y in pairs.items() for word in ("--joint", f"{x}={y}")]
    result = CliRunner().invoke(app, ["compare", a, b, "--states", "3", *asked])
    assert result.exit_code == 0, result.output
    assert "as given" in result.output
    for wrong, words in (
        ({"index1": "q9"}, "q9"),
        ({"index": "q1"}, "index"),
        ({"index1": "q1", "index2": "q1"}, "one partner"),
    ):
        with pytest.raises((UnknownName, InvalidArgument), match=words):
            compare(a, b, settings=dataclasses.replace(FEW, joints=wrong))
    with pytest.raises(InvalidArgument, match="second file"):
        compare(a, engines=["mujoco"], settings=dataclasses.replace(FEW, joints=pairs))
    result = CliRunner().invoke(app, ["compare", a, b, "--joint", "index1"])
    assert result.exit_code == 2, result.output


# what is changed in B, the stage that must be named, what it must be said of, words it must use
CHANGES = {
    "mass": ('mass="4"', 'mass="4.5"', "total mass", "body 'upper'", "weighs 4 kg in A, 4.5 in B"),
    "com": ('pos="0 0.03 0.15"', 'pos="0 0.03 0.16"', "centre of mass", "body 'fore'", "0.01 m"),
    "com sign": ('pos="0 0.03 0.15"', 'pos="0 -0.03 0.15"', "centre of mass", "body 'fore'",
                 "the sign of y differs"),
    "tensor": ("0.03 0.035 0.01 0.001 0 0.002", "0.03 0.036 0.01 0.001 0 0.002", "inertia tensor",
               "body 'fore'", "Iyy 0.035"),
    "products": ("0.004 0.01 0.01", "-0.004 -0.01 -0.01", "inertia tensor", "body 'upper'",
                 "products of inertia have the other sign"),
    "scale": ('diaginertia="0.001 0.002 0.0015"', 'diaginertia="1 2 1.5"', "inertia tensor",
              "body 'hand'", "a factor of 10^3"),
    "swapped": ('diaginertia="0.001 0.002 0.0015"', 'diaginertia="0.002 0.001 0.0015"',
                "inertia tensor", "body 'hand'", "about other axes"),
    "gravity": ("0 0 -9.81", "0 0 -9.80665", "gravity", "gravity", "-9.80665"),
    "armature": ('axis="0 1 0" range="-3 3" armature="0.1"/>', 'axis="0 1 0" range="-3 3"/>',
                 "armature", "joint 'elbow'", "armature 0.1 kg m² only in A"),
    "damping": ('damping="0.5"', 'damping="0.6"', "damping", "joint 'pan'", "0.5 N m s/rad in A"),
    "friction": ('frictionloss="0.3"', "", "friction", "joint 'pan'", "only in A"),
    "spring": ('stiffness="2"', 'stiffness="3"', "spring", "joint 'lift'", "stiffness 2"),
    "spring rest": ('springref="0.3"', 'springref="0.4"', "spring", "joint 'lift'",
                    "spring is relaxed at 0.3 rad in A, 0.4 in B"),
    "length": ('pos="0 -0.1 0.4"', 'pos="0 -0.1 0.41"', "pose", "joint 'elbow'", "0.01 m apart"),
    "axis": ('name="elbow" axis="0 1 0"', 'name="elbow" axis="0 1 0.01"', "pose", "joint 'elbow'",
             "0.5729° apart"),
    "reversed": ('name="elbow" axis="0 1 0"', 'name="elbow" axis="0 -1 0"', "pose",
                 "joint 'elbow'", "turns the other way"),
    "tool": ('name="tool" pos="0 0 0.1"', 'name="tool" pos="0 0 0.12"', "pose", "frame 'tool'",
             "0.02 m"),
    "dofs": ('<joint name="elbow" axis="0 1 0" range="-3 3" armature="0.1"/>', "",
             "degrees of freedom", "joint 'elbow'", "moves only in A"),
    "kind": ('name="slide" type="slide"', 'name="slide" type="hinge"', "degrees of freedom",
             "joint 'slide'", "(prismatic) moves only in A"),
}  # fmt: skip
# what no term depends on; what is seen in terms that only passive forces have
SILENT = {"tool"}


def files(folder, *texts, suffix="xml"):
    paths = []
    for name, text in zip("ab", texts, strict=False):
        path = folder / f"{name}.{suffix}"
        path.write_text(text)
        paths.append(path)
    return paths


def only(report):
    (comparison,) = report.comparisons
    return comparison


def stages(comparison):
    return {s.name: s for s in comparison.stages}


def test_a_file_agrees_with_itself(tmp_path):
    found = only(compare(*files(tmp_path, ARM, ARM), settings=FEW))
    assert found.agrees
    assert all(s.verdict == "agree" and s.size == 0.0 for s in found.stages)


@pytest.mark.parametrize("change", CHANGES)
def test_the_first_cause_is_named(tmp_path, change):
    old, new, stage, subject, words = CHANGES[change]
    assert ARM.count(old) == 1 or change in ("armature",), change
    changed = new.join(ARM.rsplit(old, 1))
    assert changed != ARM
    found = only(compare(*files(tmp_path, ARM, changed), settings=FEW))
    first = found.first_cause
    assert first.name == stage
    said = [f"{d.subject} {d.message}" for d in first.differences]
    assert any(text.startswith(subject) and words in text for text in said), said
    # with that one thing made equal nothing differs any more
    assert [s.name for s in found.causes] == [stage]
    terms = [stages(found)[t] for t in TERMS if t in stages(found)]
    for term in terms:
        if term.verdict == "consequence":
            assert term.because == (stage,)
            assert term.left < 1e-12 < term.size
        else:
            assert term.verdict == "agree", term
    if stage != "degrees of freedom" and change not in (*SILENT, "reversed"):
        assert any(t.verdict == "consequence" for t in terms)


def test_the_comparison_is_the_same_from_the_other_side(tmp_path):
    for change in ("mass", "length", "armature", "dofs"):
        old, new, stage, _, words = CHANGES[change]
        changed = new.join(ARM.rsplit(old, 1))
        found = only(compare(*files(tmp_path, changed, ARM), settings=FEW))
        assert found.first_cause.name == stage
        assert [s.name for s in found.causes] == [stage]
        if "only in A" in words:
            assert "only in B" in found.first_cause.message


def test_independent_causes_are_told_apart(tmp_path):
    changed = ARM.replace('mass="2"', 'mass="2.2"').replace('damping="0.5"', 'damping="0.9"')
    changed = changed.replace('pos="0 -0.1 0.4"', 'pos="0 -0.1 0.42"')
    found = only(compare(*files(tmp_path, ARM, changed), settings=FEW))
    assert [s.name for s in found.causes] == ["total mass", "damping", "pose"]
    terms = stages(found)
    assert terms["mass of bodies"].because == ("total mass",)
    assert terms["M"].because == terms["g"].because == ("total mass", "pose")
    assert terms["passive"].because == ("damping",)
    assert terms["q̈"].because == ("total mass", "damping", "pose")


def test_a_load_is_recognised(tmp_path):
    load = '<body name="grip" pos="0 0 0.1"><inertial mass="0.9" pos="0 0 0.06" '
    load += 'diaginertia="0.002 0.002 0.001"/></body><site name="tool"'
    loaded = ARM.replace('<site name="tool"', load)
    found = only(compare(*files(tmp_path, ARM, loaded), settings=FEW))
    assert [s.name for s in found.causes] == ["total mass"]
    said = found.first_cause.differences[1]
    assert said.subject == "body 'hand'"
    assert "as by a load of 0.9 kg at (0, 0, 0.16) m in B" in said.message
    for name in ("mass of bodies", "centre of mass", "inertia tensor"):
        assert stages(found)[name].because == ("total mass",)


def test_mass_that_moved_between_bodies(tmp_path):
    """The total is the same, two bodies are not."""
    changed = ARM.replace('mass="4"', 'mass="4.5"').replace('mass="2"', 'mass="1.5"')
    found = only(compare(*files(tmp_path, ARM, changed), settings=FEW))
    assert found.first_cause.name == "mass of bodies"
    assert {d.subject for d in found.first_cause.differences} == {"body 'upper'", "body 'fore'"}


def urdf_of(model: Model, prefix="", armature=False) -> str:
    """A model of one-freedom joints as URDF with all digits; URDF has no word for armature."""

    def numbers(values):
        return " ".join(repr(float(x)) for x in values)

    def rpy(R):
        rows = [[float(c) for c in row] for row in R]
        pitch = math.atan2(-rows[2][0], math.hypot(rows[0][0], rows[1][0]))
        yaw, roll = math.atan2(rows[1][0], rows[0][0]), math.atan2(rows[2][1], rows[2][2])
        return numbers((roll, pitch, yaw))

    assert not armature
    out = [f'<robot name="{model.name}"><link name="{prefix}root"/>']
    for b in model.bodies:
        I = b.inertia.tensor_at_com
        tensor = " ".join(
            f'i{k}="{float(x)!r}"'
            for k, x in zip(("xx", "xy", "yy", "xz", "yz", "zz"), I, strict=True)
        )
        parent = model.bodies[b.parent].name if b.parent != WORLD else "root"
        out.append(
            f'<link name="{prefix}{b.name}"><inertial><origin xyz="{numbers(b.inertia.com)}"/>'
            f'<mass value="{float(b.inertia.mass)!r}"/><inertia {tensor}/></inertial></link>'
            f'<joint name="{prefix}{b.joint.name}" type="{b.joint.kind.name}">'
            f'<parent link="{prefix}{parent}"/><child link="{prefix}{b.name}"/>'
            f'<origin xyz="{numbers(b.placement.p)}" rpy="{rpy(b.placement.R)}"/>'
            f'<axis xyz="{numbers(b.joint.axes[0])}"/>'
            f'<dynamics damping="{float(b.joint.drivetrain.damping)!r}"'
            f' friction="{float(b.joint.drivetrain.friction)!r}"/>'
            '<limit lower="-3" upper="3" effort="9" velocity="9"/></joint>'
        )
    return "".join([*out, "</robot>"])


def test_mjcf_against_urdf_of_the_same_arm(tmp_path):
    text = ARM.replace('stiffness="2"', "")
    xml, urdf = tmp_path / "arm.xml", tmp_path / "arm.urdf"
    xml.write_text(text)
    urdf.write_text(urdf_of(load_model(xml)))
    found = only(compare(xml, urdf, settings=FEW))
    assert [s.name for s in found.causes] == ["armature"]
    assert "armature 0.2 kg m² only in A" in {d.message for d in found.first_cause.differences}
    assert stages(found)["M"].left < 1e-9
    assert stages(found)["g"].verdict == "agree"
    # with no armature in the MJCF either, they agree
    xml.write_text(text.replace('armature="0.1"', "").replace('armature="0.2"', ""))
    assert only(compare(xml, urdf, settings=FEW)).agrees


UR5E = shared_files("menagerie/universal_robots_ur5e__ur5e.xml")


def test_ur5e_mjcf_against_urdf(tmp_path):
    """The laboratory of reference reached 8e-6 in g and 3e-5 in M, by hand."""
    need_shared(UR5E)
    urdf = tmp_path / "ur5e.urdf"
    urdf.write_text(urdf_of(load_model(UR5E[0]), prefix="ur5e_"))
    found = only(compare(UR5E[0], urdf))
    assert [s.name for s in found.causes] == ["armature"]
    assert len(found.first_cause.differences) == 6
    assert stages(found)["M"].because == stages(found)["q̈"].because == ("armature",)
    assert stages(found)["M"].left < 1e-9
    assert stages(found)["g"].size < 1e-9
    # a gripper that only the MJCF carries
    gripper = '<body name="grip" pos="0 0.1 0"><inertial mass="0.925" pos="0 0.058 0" '
    gripper += 'diaginertia="0.002 0.001 0.002"/></body><site name="attachment_site"'
    text = UR5E[0].read_text().replace('<site name="attachment_site"', gripper)
    loaded = tmp_path / "loaded.xml"
    loaded.write_text(text)
    found = only(compare(loaded, urdf))
    assert [s.name for s in found.causes] == ["total mass", "armature"]
    assert "a load of 0.925 kg at (0, 0.158, 0) m in A" in found.first_cause.differences[1].message
    for term in ("M", "g", "bias", "q̈"):
        assert stages(found)[term].verdict == "consequence"
        assert stages(found)[term].left < 1e-9 < stages(found)[term].size
    # armature and payload aligned in the files: everything agrees
    with_load = qddot.load(UR5E[0]).with_payload(
        "wrist_3_link", 0.925, (0, 0.158, 0), np.diag([0.002, 0.001, 0.002])
    )
    urdf.write_text(urdf_of(with_load.model))
    loaded.write_text(text.replace('armature="0.1"', ""))
    assert only(compare(loaded, urdf)).agrees


@pytest.mark.parametrize("engine", ["pinocchio", "mujoco", "drake"])
def test_engines_agree_on_a_urdf(tmp_path, engine):
    (file,) = files(tmp_path, urdf_of(load_model(*files(tmp_path, ARM))), suffix="urdf")
    found = only(compare(file, engines=[engine], settings=FEW))
    assert found.evaluated, found.reason
    causes = [s.name for s in found.causes]
    assert causes == (["friction"] if engine == "drake" else [])
    terms = stages(found)
    agreed = [t for t in TERMS if terms[t].verdict == "agree" and terms[t].size < 1e-12]
    assert agreed == [t for t in TERMS if t != "passive" or engine != "pinocchio"]
    if engine == "pinocchio":
        assert terms["passive"].verdict == "not evaluated"
        assert any("without damping" in note for note in found.notes)


@pytest.mark.parametrize("engine", ["pinocchio", "mujoco", "drake"])
def test_engines_on_a_free_base(engine):
    """A quadruped with mimic-free legs, its base set free; Drake welds nothing then."""
    found = only(compare("solo12", engines=[engine], settings=Settings(base="free", states=2)))
    assert found.agrees, (found.reason, found.first_cause)
    assert stages(found)["degrees of freedom"].message == "18 in both"


def test_engines_on_mjcf(tmp_path):
    """Drake has no springs, no dry friction, and armature only of actuators."""
    report = compare(*files(tmp_path, ARM), engines=["mujoco", "pinocchio", "drake"], settings=FEW)
    mujoco, pinocchio, drake = report.comparisons
    assert mujoco.agrees
    assert mujoco.notes == (
        "passive and q̈ are compared without dry friction: it is a constraint in MuJoCo",
    )
    assert [s.name for s in pinocchio.causes] == ["spring"]
    assert [s.name for s in drake.causes] == ["armature", "friction", "spring"]
    assert not report.agrees


def test_couplings_that_an_engine_leaves_open(tmp_path):
    text = urdf_of(load_model(*files(tmp_path, ARM)))
    end = '<limit lower="-3" upper="3" effort="9" velocity="9"/></joint></robot>'
    assert text.endswith(end)
    coupled = text.removesuffix("</joint></robot>") + '<mimic joint="elbow" multiplier="0.5"/>'
    (file,) = files(tmp_path, coupled + "</joint></robot>", suffix="urdf")
    pinocchio, mujoco = compare(file, engines=["pinocchio", "mujoco"], settings=FEW).comparisons
    assert pinocchio.first_cause.name == "degrees of freedom"
    assert pinocchio.first_cause.message.startswith("3 in qddot, 4 in Pinocchio: joint 'slide' ")
    # with the coupling applied to Pinocchio's terms they are the same
    terms = stages(pinocchio)
    assert [terms[t].verdict for t in ("M", "g", "bias")] == ["agree"] * 3
    assert terms["q̈"].verdict == "not evaluated"
    assert not any("q̈" in note for note in pinocchio.notes)
    assert stages(mujoco)["degrees of freedom"].verdict == "agree"


RENAMED = {
    "prefix": (lambda n: f"robot/{n}", "by bare name"),
    "suffix": (lambda n: f"{n}_joint", "by bare name"),
    "case": (lambda n: n.upper(), "by bare name"),
    "numbers": (
        lambda n: f"axis_{['pan', 'lift', 'elbow', 'slide'].index(n)}",
        "by the name of the body",
    ),
}


@pytest.mark.parametrize("way", RENAMED)
def test_joints_of_other_names(tmp_path, way):
    rename, how = RENAMED[way]
    text = ARM
    for name in ("pan", "lift", "elbow", "slide"):
        text = text.replace(f'name="{name}"', f'name="{rename(name)}"')
    found = only(compare(*files(tmp_path, ARM, text), settings=FEW))
    assert found.agrees
    assert any(how in note and "4 joints" in note for note in found.notes), found.notes


@pytest.mark.parametrize(
    "renamed",
    [("pan", "shoulder"), ("lift", "upper", "elbow", "fore"), ("slide", "hand"),
     ("pan", "shoulder", "elbow", "fore", "slide", "hand")],
    ids=lambda names: " ".join(names),
)  # fmt: skip
def test_joints_by_their_place_although_others_match_by_name(tmp_path, renamed):
    text = ARM
    for k, name in enumerate(renamed):
        text = text.replace(f'name="{name}"', f'name="n{k * 7}"')
    found = only(compare(*files(tmp_path, ARM, text), settings=FEW))
    assert found.agrees, found.first_cause
    assert any("by place in the chain" in note for note in found.notes)


def test_branches_by_their_place(tmp_path):
    """Two fingers that only their kind of joint tells apart, below a wrist that has a name."""
    finger = '<body name="{}" pos="0 {} 0"><joint name="{}" type="{}"/><geom size="0.01"/></body>'

    def hand(*names):
        left = finger.format(names[0], 0.1, names[1], "hinge")
        right = finger.format(names[2], -0.1, names[3], "slide")
        return (
            '<mujoco><worldbody><body name="wrist"><joint name="w"/><geom size="0.1"/>'
            f"{left}{right}</body></worldbody></mujoco>"
        )

    paths = files(tmp_path, hand("a", "b", "c", "d"), hand("e", "f", "g", "h"))
    assert only(compare(*paths, settings=FEW)).agrees
    # two that nothing tells apart are not guessed
    twins = [hand(*x).replace('"slide"', '"hinge"') for x in ("abcd", "efgh")]
    found = only(compare(*files(tmp_path, *twins), settings=FEW))
    assert len(found.first_cause.differences) == 4


def gripper(leader: str, follower: str, multiplier: float, offset: float) -> str:
    """Two fingers on a palm that turns, one of which follows the other."""
    mimic = f'<mimic joint="{leader}" multiplier="{multiplier!r}" offset="{offset!r}"/>'
    inertial = (
        '<inertial><origin xyz="0 0.01 0.02"/><mass value="{}"/>'
        '<inertia ixx="1e-3" ixy="0" ixz="0" iyy="1e-3" iyz="0" izz="1e-3"/></inertial>'
    )
    parts = [f'<link name="{n}">{inertial.format(m)}</link>' for n, m in (("palm", 1), ("l", 0.2),
             ("r", 0.3))]  # fmt: skip
    joints = [("wrist", "continuous", "base", "palm", "0 0 0.1", ""),
              ("left", "prismatic", "palm", "l", "0 0.05 0.1", mimic if follower == "left" else ""),
              ("right", "prismatic", "palm", "r", "0 -0.05 0.1",
               mimic if follower == "right" else "")]  # fmt: skip
    parts += [
        f'<joint name="{n}" type="{kind}"><parent link="{p}"/><child link="{c}"/>'
        f'<origin xyz="{xyz}"/><axis xyz="0 1 0"/>'
        f'<limit lower="-1" upper="1" effort="9" velocity="9"/>{extra}</joint>'
        for n, kind, p, c, xyz, extra in joints
    ]
    return f'<robot name="gripper"><link name="base"/>{"".join(parts)}</robot>'


def test_leader_and_follower_may_be_swapped(tmp_path):
    """right = -0.5 left + 0.02 is left = -2 right + 0.04."""
    texts = gripper("left", "right", -0.5, 0.02), gripper("right", "left", -2.0, 0.04)
    for pair in (texts, texts[::-1]):
        found = only(compare(*files(tmp_path, *pair, suffix="urdf"), settings=FEW))
        assert found.agrees, found.first_cause
        assert stages(found)["M"].verdict == stages(found)["bias"].verdict == "agree"
        assert "other way round" in " ".join(found.notes)


def test_a_coupling_is_the_same_about_a_reversed_axis(tmp_path):
    text = gripper("left", "right", 0.5, -0.02)
    place = '<origin xyz="0 -0.05 0.1"/><axis xyz="0 1 0"/>'
    assert text.count(place) == 1
    paths = files(
        tmp_path,
        gripper("left", "right", -0.5, 0.02),
        text.replace(place, place.replace("0 1 0", "0 -1 0")),
        suffix="urdf",
    )
    found = only(compare(*paths, settings=FEW))
    assert [s.name for s in found.causes] == ["pose"]
    assert "turns the other way" in found.first_cause.message


@pytest.mark.parametrize("text", [
    gripper("right", "left", -2.1, 0.04), gripper("right", "left", -2.0, 0.05),
    gripper("left", "right", -0.6, 0.02), gripper("left", "right", -0.5, 0.03),
], ids=["inverted ratio", "inverted offset", "ratio", "offset"])  # fmt: skip
def test_couplings_of_another_law_differ(tmp_path, text):
    paths = files(tmp_path, gripper("left", "right", -0.5, 0.02), text, suffix="urdf")
    found = only(compare(*paths, settings=FEW))
    assert found.first_cause.name == "degrees of freedom"
    (said,) = found.first_cause.differences
    assert said.subject == "joint 'right'"
    assert "follows 'left' by -0.5 q +0.02 in A, by " in said.message


def test_causes_have_their_share_of_the_difference_in_acceleration(tmp_path):
    """The damping hardly matters beside the mass, whichever comes first."""
    changed = ARM.replace('mass="4"', 'mass="8"').replace('damping="0.5"', 'damping="0.5001"')
    found = only(compare(*files(tmp_path, ARM, changed), settings=FEW))
    shares = {s.name: s.share for s in found.causes}
    assert list(shares) == ["total mass", "damping"]
    assert shares["total mass"] > 0.99 > 0.01 > shares["damping"] > 0.0
    assert sum(shares.values()) == pytest.approx(1.0)
    paths = list(map(str, files(tmp_path, ARM, changed)))
    output = CliRunner().invoke(app, ["compare", *paths, "--states", "2"]).output
    assert "of the difference in q̈: total mass 100 %, damping < 1 %" in " ".join(output.split())


TURN = 'name="hand" pos="0 0 0.35"', 'name="hand" pos="0 0 0.35" quat="1 0 0 {}"'
PLACES = {
    "slide turned": (TURN[0], TURN[1].format(2e-8), "turned by 2.292e-06°"),
    "hinge shifted": ('name="fore" pos="0 -0.1 0.4"', 'name="fore" pos="2e-8 -0.1 0.4"',
                      "2e-08 m apart ((0, -0.1, 0.4) m in A, (2e-08, -0.1, 0.4) in B)"),
    "hinge lifted": ('name="fore" pos="0 -0.1 0.4"', 'name="fore" pos="0 -0.1 0.40000002"',
                     "((0, -0.1, 0.4) m in A, (0, -0.1, 0.40000002) in B)"),
    "frame turned": ('name="tool" pos="0 0 0.1"', 'name="tool" pos="0 0 0.1" quat="0 0 0 1"',
                     "lies 180° elsewhere on its body"),
    "slide": (TURN[0], 'name="hand" pos="0 0 0.34"', "stands -0.01 m along its axis further"),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_nothing_stands_zero_further(tmp_path, place):
    old, new, words = PLACES[place]
    assert old in ARM
    found = only(compare(*files(tmp_path, ARM, ARM.replace(old, new)), settings=FEW))
    said = [d.message for d in stages(found)["pose"].differences]
    assert any(words in text for text in said), said
    assert not any(" 0 m " in text or " 0° " in text for text in said)


def test_what_is_not_compared_is_not_called_the_same(tmp_path):
    loop = '<equality><connect body1="hand" body2="upper" anchor="0 0 0"/></equality></mujoco>'
    closed = ARM.replace("</mujoco>", loop)
    other = ARM.replace('range="0 0.1"', 'range="0 0.2"').replace('"tool"', '"tcp"')
    found = only(compare(*files(tmp_path, closed, other), settings=FEW))
    assert found.agrees
    told = "; ".join(found.not_compared)
    for words in ("limits", "shapes", "contacts", "actuators", "loop closures (1 in A, 0 in B)",
                  "frames that only one side has (1 in A, 1 in B)"):  # fmt: skip
        assert words in told, told
    paths = list(map(str, files(tmp_path, closed, other)))
    output = CliRunner().invoke(app, ["compare", *paths, "--states", "2"]).output
    assert "not compared: limits" in " ".join(output.split())


def test_bodies_that_do_not_move_are_not_compared(tmp_path):
    still = re.sub(r"<joint name=[^>]*/>", "", ARM)
    heavy = still.replace('mass="4"', 'mass="40"')
    found = only(compare(*files(tmp_path, still, heavy), settings=FEW))
    assert [s.name for s in found.stages] == ["degrees of freedom", "gravity", "pose"]
    assert "bodies and terms, as nothing moves on both sides" in found.not_compared
    assert any("weighs 9.6 kg in A, 45.6 in B" in note for note in found.notes)


def test_robots_of_which_no_joint_matches():
    found = only(compare(*(named_files()[n] for n in ("ur5e", "panda")), settings=FEW))
    assert "no joint of A matches one of B, so that no bodies are compared" in found.notes
    assert not any("weighs" in note for note in found.notes)


def test_a_frame_on_another_body_is_a_difference(tmp_path):
    site = '<site name="tool" pos="0 0 0.1"/>'
    moved = ARM.replace(site, "").replace('<body name="fore"', f'{site}<body name="fore"')
    found = only(compare(*files(tmp_path, ARM, moved), settings=FEW))
    assert [s.name for s in found.causes] == ["pose"]
    (said,) = found.first_cause.differences
    assert (said.subject, said.message) == ("frame 'tool'", "is fixed to 'upper' in B")


def test_springs_that_are_not_read_are_not_the_same(tmp_path):
    text = urdf_of(load_model(*files(tmp_path, ARM)))
    (file,) = files(tmp_path, text, suffix="urdf")
    found = only(compare(file, engines=["drake"], settings=FEW))
    assert stages(found)["spring"].verdict == "not evaluated"


def test_chains_without_a_single_name_in_common(tmp_path):
    text = ARM
    for k, name in enumerate(
        ("pan", "lift", "elbow", "slide", "shoulder", "upper", "fore", "hand")
    ):
        text = text.replace(f'name="{name}"', f'name="n{k * 7}"')
    found = only(compare(*files(tmp_path, ARM, text), settings=FEW))
    assert found.agrees
    assert any("by place in the chain" in note for note in found.notes)


def reframed(model: Model, seed: int) -> Model:
    """The same robot with the frame of each body turned about and moved along its own joint."""
    rng = np.random.default_rng(seed)
    frames = []
    for b in model.bodies:
        D = Transform.identity()
        if b.joint.kind.name in ("revolute", "continuous"):
            axis, (angle, shift) = b.joint.axes[0], rng.uniform(-2, 2, 2).tolist()
            D = Transform(rotation_about(axis, angle), axis * (0.1 * shift))
        frames.append(D)
    bodies = []
    for b, D in zip(model.bodies, frames, strict=True):
        above = frames[b.parent] if b.parent != WORLD else Transform.identity()
        bodies.append(
            dataclasses.replace(
                b,
                placement=above.inverse() @ b.placement @ D,
                inertia=D.inverse().to_parent(b.inertia),
                joint=dataclasses.replace(
                    b.joint, axes=tuple(D.R.T.apply(a) for a in b.joint.axes)
                ),
            )
        )
    kept = [
        dataclasses.replace(f, placement=frames[f.body].inverse() @ f.placement)
        if f.body != WORLD
        else f
        for f in model.frames
    ]
    return dataclasses.replace(model, bodies=tuple(bodies), frames=tuple(kept))


@settings(max_examples=30, deadline=None)
@given(trees(most=6, kinds=("revolute", "continuous", "prismatic")), st.integers(0, 1000))
def test_other_link_frames_are_no_difference(tree, seed):
    model = build(*tree)
    alignment = align(model, model, reframed(model, seed))
    for stage in PARAMETER_STAGES:
        assert not list(stage.differences(model, alignment.b_in_frames_of_a, 1e-9)), stage.name


def test_a_base_that_is_turned(tmp_path):
    """Turned about the vertical axis of the first joint: no term depends on it."""
    turned = ARM.replace(
        'name="shoulder" pos="0 0 0.2"', 'name="shoulder" pos="0 0 0.2" quat="0 0 0 1"'
    )
    found = only(compare(*files(tmp_path, ARM, turned), settings=FEW))
    assert [s.name for s in found.causes] == ["pose"]
    (said,) = found.first_cause.differences
    assert said.message.startswith("stands 180° about its axis further in B")
    assert all(stages(found)[t].verdict == "agree" for t in TERMS)


def test_reference_positions_are_coordinates_only(tmp_path):
    moved = ARM.replace('name="elbow" axis="0 1 0"', 'name="elbow" axis="0 1 0" ref="0.25"')
    found = only(compare(*files(tmp_path, ARM, moved), settings=FEW))
    assert found.agrees
    assert found.notes == ("joint 'elbow': q in B is q in A +0.25",)


def test_a_reference_position_in_the_placement(tmp_path):
    """Pinocchio keeps ref by turning the frame of the joint: its q is that of the file."""
    moved = ARM.replace('name="elbow" axis="0 1 0"', 'name="elbow" axis="0 1 0" ref="0.25"')
    moved = moved.replace('stiffness="2"', "")
    found = only(compare(*files(tmp_path, moved), engines=["pinocchio"], settings=FEW))
    assert found.agrees, found.first_cause
    assert not any("'elbow'" in note for note in found.notes)


def test_an_engine_that_is_not_installed(tmp_path, monkeypatch):
    absent = dataclasses.replace(ENGINES["drake"], module="no_such_engine.at_all")
    monkeypatch.setitem(ENGINES, "drake", absent)
    report = compare(*files(tmp_path, ARM), engines=["drake", "mujoco"], settings=FEW)
    drake, mujoco = report.comparisons
    assert mujoco.agrees
    assert (drake.verdict, drake.agrees, report.agrees) == ("NOT EVALUATED", False, False)
    assert drake.reason == "Drake is not installed: pip install drake"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", r"process \(SIGSEGV\)"),
        ("import sys; sys.stderr.write('boom\\n'); sys.exit(3)", r"\(exit code 3\): boom"),
        ("import time; time.sleep(60)", "was stopped after 1 s"),
    ],
)
def test_an_engine_that_ends_its_process(tmp_path, monkeypatch, program, reason):
    monkeypatch.setattr(worker, "_PROGRAM", program)
    fast = dataclasses.replace(FEW, timeout=1.0)
    found = only(compare(*files(tmp_path, ARM), engines=["mujoco"], settings=fast))
    assert (found.evaluated, found.agrees, found.stages) == (False, False, ())
    assert re.search(reason, found.reason), found.reason


def test_drake_ends_its_process_on_a_frame_without_mass(tmp_path):
    """An assertion in Drake's own code, which no exception tells of."""
    flange = '<body name="flange"><inertial pos="0 0 0" mass="0" diaginertia="0 0 0"/></body>'
    text = ARM.replace('<site name="tool"', flange + '<site name="tool"')
    report = compare(*files(tmp_path, text), engines=["drake", "mujoco"], settings=FEW)
    drake, mujoco = report.comparisons
    assert mujoco.agrees
    assert re.search(r"Drake ended its process \(.*\): condition 'mass > 0' failed", drake.reason)
    assert (drake.verdict, report.agrees) == ("NOT EVALUATED", False)


LINK = '<link name="{}"><inertial><mass value="{}"/><inertia ixx="{}" iyy="0.1" izz="0.1" ixy="0" '
LINK += 'ixz="0" iyz="0"/></inertial></link>'
JOINT = '<joint name="{}" type="{}"><parent link="{}"/><child link="{}"/><axis xyz="{}"/>'
JOINT += '<limit lower="-1" upper="1" effort="1" velocity="1"/>{}</joint>'


def odd(*parts):
    return f'<robot name="odd">{"".join(parts)}</robot>'


REFUSED = {
    "empty": odd(),
    "negative mass": odd('<link name="w"/>', LINK.format("a", -1, 0.1),
                         JOINT.format("j", "revolute", "w", "a", "0 0 1", "")),
    "not a number": odd('<link name="w"/>', LINK.format("a", "nan", 0.1),
                        JOINT.format("j", "revolute", "w", "a", "0 0 1", "")),
    "two roots": odd('<link name="w"/>', LINK.format("a", 1, 0.1)),
    "no such child": odd('<link name="w"/>', JOINT.format("j", "revolute", "w", "a", "0 0 1", "")),
    "broken": "<robot name='odd'><link",
}  # fmt: skip
TAKEN = {
    "negative inertia": odd('<link name="w"/>', LINK.format("a", 1, -0.1),
                            JOINT.format("j", "revolute", "w", "a", "0 0 1", "")),
    "no freedom": odd(LINK.format("a", 1, 0.1)),
    "floating": odd('<link name="w"/>', LINK.format("a", 1, 0.1),
                    JOINT.format("j", "floating", "w", "a", "0 0 1", "")),
    "planar": odd('<link name="w"/>', LINK.format("a", 1, 0.1),
                  JOINT.format("j", "planar", "w", "a", "1 0 0", "")),
    "massless": odd('<link name="w"/>', '<link name="a"/>',
                    JOINT.format("j", "revolute", "w", "a", "0 0 1", "")),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_files_that_cannot_be_used(tmp_path, case):
    (file,) = files(tmp_path, REFUSED[case], suffix="urdf")
    with pytest.raises(DescriptionError):
        compare(file, engines=["pinocchio"], settings=FEW)
    result = CliRunner().invoke(app, ["compare", str(file), "--with", "pinocchio"])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")


@pytest.mark.parametrize("case", TAKEN)
def test_odd_files_in_every_engine(tmp_path, case):
    (file,) = files(tmp_path, TAKEN[case], suffix="urdf")
    engines = ["pinocchio", "mujoco", "drake"]
    for found in compare(file, engines=engines, settings=FEW).comparisons:
        assert found.evaluated or found.reason
        assert found.agrees or found.causes or not found.evaluated
    if case == "negative inertia":
        assert "no body can have the one of qddot" in found.first_cause.message
        assert any("impossible inertia" in note for note in found.notes)


ODD_ROBOTS = [f for f in example_urdfs() if f.stem in ("ur3", "alex_psyonic_hands")]


def test_odd_robots_of_the_package(tmp_path):
    """One URDF without a link, one that mimics joints that do not exist."""
    assert [f.stem for f in ODD_ROBOTS] == ["alex_psyonic_hands", "ur3"]
    for file in ODD_ROBOTS:
        result = CliRunner().invoke(app, ["compare", str(file), "--with", "mujoco"])
        assert result.exit_code == 2, result.output
    free = dataclasses.replace(FEW, couplings="free")
    report = compare(ODD_ROBOTS[0], engines=["pinocchio", "mujoco", "drake"], settings=free)
    pinocchio, mujoco, drake = report.comparisons
    assert pinocchio.agrees
    assert "inertia must satisfy A + B >= C" in mujoco.reason
    assert "mimic element specifies joint 'index_q1' which does not exist" in drake.reason
    assert not report.agrees


def test_drake_invents_mass():
    """Feet of Bolt have inertia and no mass: MuJoCo drops them, Drake gives each a kilogram."""
    mujoco, drake = compare("bolt", engines=["mujoco", "drake"], settings=FEW).comparisons
    assert mujoco.first_cause.name == "inertia tensor"
    assert drake.first_cause.name == "total mass"
    assert "as by a load of 1 kg" in drake.first_cause.differences[1].message
    for found in (mujoco, drake):
        assert any("'FL_FOOT' and 1 more in qddot: impossible" in note for note in found.notes)


def test_command_line_agreement(tmp_path):
    result = CliRunner().invoke(app, ["compare", *map(str, files(tmp_path, ARM, ARM))])
    assert result.exit_code == 0, result.output
    assert "A — B: AGREE" in result.output
    assert "M to 0.0e+00" in result.output


def test_command_line_difference(tmp_path):
    changed = CHANGES["armature"][1].join(ARM.rsplit(CHANGES["armature"][0], 1))
    paths = list(map(str, files(tmp_path, ARM, changed)))
    result = CliRunner().invoke(app, ["compare", *paths, "--states", "2"])
    assert result.exit_code == 1, result.output
    assert "A — B: DIFFER" in result.output
    assert "first cause: armature" in result.output
    assert "joint 'elbow' armature 0.1 kg m² only in A" in result.output
    assert "M and q̈ differ because of it: with armature made equal, all agree" in result.output


def test_command_line_json(tmp_path):
    paths = list(map(str, files(tmp_path, ARM, ARM.replace('mass="4"', 'mass="5"'))))
    command = ["compare", *paths, "--with", "mujoco,mjx", "--json", "--states", "2"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    data = json.loads(result.stdout)
    assert data["sides"] == {"A": paths[0], "B": paths[1]}
    found = {(c["a"], c["b"]): c for c in data["comparisons"]}
    assert found["A", "B"]["first_cause"] == "total mass"
    assert found["qddot (A)", "MuJoCo (A)"]["verdict"] == "AGREE"
    assert found["qddot (B)", "MuJoCo (B)"]["verdict"] == "AGREE"
    for side in "AB":
        mjx = found[f"qddot ({side})", f"MJX ({side})"]
        assert mjx["verdict"] == "NOT EVALUATED" or ENGINES["mjx"].is_installed


def test_command_line_says_what_is_the_same_while_joints_are_locked(tmp_path):
    changed = CHANGES["dofs"][1].join(ARM.rsplit(CHANGES["dofs"][0], 1))
    paths = list(map(str, files(tmp_path, ARM, changed)))
    result = CliRunner().invoke(app, ["compare", *paths, "--states", "2"])
    assert "the same of what moves on both sides: total mass" in result.output


def test_rounded_digits_are_recognised(tmp_path):
    rounded = ARM.replace('mass="4"', 'mass="4.00001"')
    paths = list(map(str, files(tmp_path, ARM, rounded)))
    result = CliRunner().invoke(app, ["compare", *paths, "--states", "2"])
    assert result.exit_code == 1
    assert "try --tolerance 0.0001" in result.output
    result = CliRunner().invoke(app, ["compare", *paths, "--tolerance", "1e-4", "--states", "2"])
    assert result.exit_code == 0


def test_wrong_questions(tmp_path):
    (file,) = files(tmp_path, ARM)
    with pytest.raises(UnknownName, match="no engine 'bullet'"):
        compare(file, engines=["bullet"])
    with pytest.raises(InvalidArgument, match="a second file"):
        compare(file)
    with pytest.raises(InvalidArgument, match="at least one"):
        compare(file, file, settings=Settings(states=0))
    result = CliRunner().invoke(app, ["compare", str(file), "--with", "mujco"])
    assert result.exit_code == 2
    assert "closest: 'mujoco'" in result.stderr


def test_progress_is_heard(tmp_path):
    heard = []
    compare(*files(tmp_path, ARM, ARM), settings=FEW, on_step=lambda *x: heard.append(x))
    assert heard == [("B", 0, 1)]


def test_robots_by_name():
    assert "ur5e" in named_files()
    assert only(compare("ur5e", "ur5e", settings=FEW)).agrees


def test_a_root_that_is_free_on_one_side_only(tmp_path):
    free = named_files()["quadruped"].read_text()
    free = re.sub(r"<keyframe>.*?</keyframe>", "", free, flags=re.S)
    fixed = re.sub(r"<freejoint[^>]*/>", "", free)
    assert fixed != free
    paths = files(tmp_path, free, fixed)
    found = only(compare(*paths, settings=FEW))
    assert [s.name for s in found.causes] == ["degrees of freedom"]
    assert any("--base free or --base fixed" in note for note in found.notes)
    alike = dataclasses.replace(FEW, base="fixed")
    assert only(compare(*paths, settings=alike)).agrees


def test_a_joint_that_hangs_elsewhere(tmp_path):
    """The hand on the upper arm instead of the forearm: nothing below can be compared."""
    start = ARM.index('<body name="hand"')
    end = ARM.index("</body>", start) + len("</body>")
    hand, rest = ARM[start:end], ARM[:start] + ARM[end:]
    moved = rest.replace("</body>", "</body>" + hand, 1)
    found = only(compare(*files(tmp_path, ARM, moved), settings=FEW))
    assert found.first_cause.name == "degrees of freedom"
    (said,) = found.first_cause.differences
    assert (said.subject, said.message) == (
        "joint 'slide'",
        "hangs on another body in B than in A",
    )
    assert [s.name for s in found.stages] == ["degrees of freedom"]
