"""Bad input: one QddotError that says where and what; never anything else, never a hang."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import qddot
from qddot.errors import (
    DescriptionError,
    ImpossibleInertia,
    InvalidArgument,
    QddotError,
    UnknownName,
)

GOOD = """<?xml version="1.0"?>
<robot name="good">
  <link name="base"/>
  <link name="arm">
    <inertial>
      <origin xyz="0 0 0.1" rpy="0 0 0"/>
      <mass value="1.5"/>
      <inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.01"/>
    </inertial>
  </link>
  <link name="hand">
    <inertial>
      <mass value="0.5"/>
      <inertia ixx="0.002" ixy="0" ixz="0" iyy="0.002" iyz="0" izz="0.001"/>
    </inertial>
  </link>
  <joint name="shoulder" type="revolute">
    <parent link="base"/>
    <child link="arm"/>
    <origin xyz="0 0 0.3" rpy="0 0 0"/>
    <axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="10" velocity="2"/>
    <dynamics damping="0.1" friction="0.2"/>
  </joint>
  <joint name="wrist" type="revolute">
    <parent link="arm"/>
    <child link="hand"/>
    <origin xyz="0 0 0.2" rpy="0 0 0"/>
    <axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="10" velocity="2"/>
    <mimic joint="shoulder" multiplier="0.5" offset="0.1"/>
  </joint>
</robot>
"""


@pytest.fixture
def load(tmp_path):
    """Loads a text or bytes as a file."""

    def from_text(text: str | bytes, suffix: str = ".urdf", **options):
        file = tmp_path / f"robot{suffix}"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return qddot.load(file, **options)

    return from_text


def refusal(load, text: str | bytes, suffix: str = ".urdf", **options) -> str:
    """The message with which a text is refused, its folder cut off."""
    with pytest.raises(QddotError) as caught:
        load(text, suffix, **options)
    message = re.sub(r"\S*/(robot\.\w+)", r"\1", str(caught.value))
    assert message.startswith("robot."), message
    return message


def test_the_good_file_is_good(load):
    robot = load(GOOD)
    assert (robot.joint_names, robot.model.mass) == (("shoulder",), 2.0)


# (what is replaced, by what, the whole message)
MESSAGES = [
    (
        '<mass value="1.5"/>',
        '<mass value="abc"/>',
        "robot.urdf:7: <mass>: value='abc' is not a number",
    ),
    ('<mass value="1.5"/>', '<mass value="-1"/>', "robot.urdf:4: link 'arm': negative mass -1"),
    (
        '<axis xyz="0 1 0"/>',
        '<axis xyz="0 0 0"/>',
        "robot.urdf:17: joint 'shoulder': its axis has no length",
    ),
    (
        '<parent link="arm"/>',
        '<parent link="am"/>',
        "robot.urdf:25: joint 'wrist': link 'am' does not exist",
    ),
    (
        'mimic joint="shoulder"',
        'mimic joint="elbow"',
        "robot.urdf:25: joint 'wrist': is coupled with joint 'elbow', which does not exist; "
        "load with couplings='free' to leave it independent",
    ),
    (
        'mimic joint="shoulder"',
        'mimic joint="wrist"',
        "robot.urdf:25: joint 'wrist': is coupled to itself in a circle",
    ),
    ('lower="-1"', 'lower="3"', "robot.urdf:17: joint 'shoulder': limits [3.0, 1.0] are empty"),
    (
        'lower="-1" upper="1"',
        'lower="-1e16" upper="-1e308"',
        "robot.urdf:17: joint 'shoulder': limits [-inf, -inf] are empty",
    ),
    ('damping="0.1"', 'damping="-0.1"', "robot.urdf:17: joint 'shoulder': negative damping -0.1"),
    (
        '<link name="hand">',
        '<link name="arm">',
        "robot.urdf:11: link 'arm': the name is used twice, first on line 4",
    ),
    ('name="wrist"', 'name="shoulder"', "robot.urdf:25: joint 'shoulder': the name is used twice"),
    (
        '<child link="hand"/>',
        '<child link="arm"/>',
        "robot.urdf:25: joint 'wrist': link 'arm' is the child of joint 'shoulder' too",
    ),
    ("</robot>", "", "robot.urdf:34: is not well-formed XML: no element found"),
    ('ixx="0.02" ', "", "robot.urdf:8: <inertia>: has no attribute 'ixx'"),
    (
        'xyz="0 0 0.1"',
        'xyz="0 0"',
        "robot.urdf:6: <origin>: xyz='0 0' has 2 numbers, needs 3 numbers",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), MESSAGES)
def test_messages(load, old, new, message):
    assert refusal(load, GOOD.replace(old, new, 1)) == message


NUMBERS = [
    "nan",
    "inf",
    "-inf",
    "1e300",
    "",
    " ",
    "abc",
    "1,0",
    "1_0",
    "0x10",
    "٣",
    "1 2 3 4 5 6 7",
]
VECTORS = ["nan 0 0", "0 inf 0", "1e300 0 0", "", "a b c", "0 0", "0 0 0 1", "1,0,0", "0 1_0 0"]


@pytest.mark.parametrize("value", NUMBERS)
@pytest.mark.parametrize(
    ("attribute", "line"),
    [
        ("ixx", 8),
        ("ixy", 8),
        ("value", 7),
        ("damping", 23),
        ("friction", 23),
        ("multiplier", 31),
        ("offset", 31),
    ],
)
def test_bad_numbers(load, attribute, line, value):
    text = re.sub(f'{attribute}="[^"]*"', lambda _: f'{attribute}="{value}"', GOOD, count=1)
    assert refusal(load, text).startswith(f"robot.urdf:{line}: ")


@pytest.mark.parametrize("value", ["nan", "", "abc", "1 2", "1_0"])
@pytest.mark.parametrize("attribute", ["lower", "upper", "effort", "velocity"])
def test_bad_limits(load, attribute, value):
    text = GOOD.replace(re.search(f'{attribute}="[^"]*"', GOOD)[0], f'{attribute}="{value}"', 1)
    assert refusal(load, text).startswith("robot.urdf:22: <limit>: ")


@pytest.mark.parametrize("value", VECTORS)
@pytest.mark.parametrize(("where", "line"), [("origin xyz", 6), ("axis xyz", 21)])
def test_bad_vectors(load, where, line, value):
    text = re.sub(f'{where}="[^"]*"', lambda _: f'{where}="{value}"', GOOD, count=1)
    assert refusal(load, text).startswith(f"robot.urdf:{line}: ")


@pytest.mark.parametrize("value", VECTORS)
def test_bad_angles(load, value):
    assert ":6: " in refusal(load, GOOD.replace('rpy="0 0 0"', f'rpy="{value}"', 1))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('<mass value="1.5"/>', "", "has no <mass>"),
        ('<mass value="1.5"/>', "<mass/>", "has no attribute 'value'"),
        ('<mass value="1.5"/>', '<mass value="1.5"/><mass value="2"/>', "more than one <mass>"),
        ('<mass value="1.5"/>', '<mass value="1e13"/>', "absurdly large"),
        (re.search("<inertia ixx.*/>", GOOD)[0], "", "has no <inertia>"),
        ('iyy="0.02"', "", "no attribute 'iyy'"),
        ('izz="0.01"', "", "no attribute 'izz'"),
        ('<link name="base"/>', "<link/>", "no attribute 'name'"),
        ('<link name="base"/>', '<link name=""/>', "its name is empty"),
        ('name="shoulder" type', 'name="" type', "its name is empty"),
        (' type="revolute"', "", "no attribute 'type'"),
        ('type="revolute"', 'type="hinge"', "type 'hinge' is not one of revolute"),
        ('<parent link="base"/>', "", "has no <parent>"),
        ('<parent link="base"/>', "<parent/>", "no attribute 'link'"),
        ('<child link="arm"/>', "", "has no <child>"),
        ('<child link="arm"/>', '<child link="world"/>', "'world' does not exist"),
        (
            '<parent link="base"/>',
            '<parent link="base"/><parent link="hand"/>',
            "more than one <parent>",
        ),
        (
            '<parent link="base"/>',
            '<parent link="arm"/>',
            "is its own ancestor: the joints form a cycle",
        ),
        ('<parent link="base"/>', '<parent link="hand"/>', "form a cycle"),
        ('<link name="base"/>', '<link name="base"/><link name="extra"/>', "found 'base', 'extra'"),
        ('<axis xyz="0 1 0"/>', "<axis/>", "no attribute 'xyz'"),
        ('<axis xyz="0 1 0"/>', '<axis xyz="1 0 0"/><axis xyz="0 1 0"/>', "more than one <axis>"),
        ('rpy="0 0 0"', 'quat_xyzw="0 0 0 1"', "'quat_xyzw' is not understood"),
        ('effort="10"', 'effort="-10"', "negative velocity or effort limit"),
        ('damping="0.1"', 'damping="0.1 0.1"', "needs one number"),
        ('friction="0.2"', 'friction="-1"', "negative friction"),
        ('<mimic joint="shoulder"', "<mimic", "no attribute 'joint'"),
        ('<robot name="good">', "<robt>", "not well-formed"),
    ],
)
def test_bad_elements(load, old, new, says):
    assert old in GOOD
    message = refusal(load, GOOD.replace(old, new, 1))
    assert says in message
    assert re.match(r"robot\.urdf:\d+: ", message), message


def test_world_as_parent_and_child(load):
    joint = '<joint name="j" type="fixed"><parent link="world"/><child link="world"/></joint>'
    assert "link 'world' does not exist" in refusal(
        load, GOOD.replace("</robot>", joint + "</robot>")
    )


CHAIN = '<robot name="r"><link name="base"/>{}</robot>'


def chain(*joints: tuple[str, str, str]) -> str:
    """Links in a row, by (name, type, what is inside) of their joints."""
    parts, parent = [], "base"
    for name, kind, inside in joints:
        parts.append(
            f'<link name="{name}_link"/><joint name="{name}" type="{kind}">'
            f'<parent link="{parent}"/><child link="{name}_link"/>{inside}</joint>'
        )
        parent = f"{name}_link"
    return CHAIN.format("\n".join(parts))


@pytest.mark.parametrize(
    ("joints", "says"),
    [
        (
            [("a", "revolute", '<mimic joint="b"/>'), ("b", "revolute", '<mimic joint="a"/>')],
            "circle",
        ),
        ([("a", "fixed", ""), ("b", "revolute", '<mimic joint="a"/>')], "fixed joint 'a'"),
        ([("a", "floating", ""), ("b", "revolute", '<mimic joint="a"/>')], "'a', a free joint"),
        (
            [("a", "revolute", ""), ("b", "planar", '<mimic joint="a"/>')],
            "planar joint cannot be coupled",
        ),
        ([("a", "universal", ""), ("b", "revolute", '<mimic joint="a"/>')], "a universal joint"),
        (
            [("a", "revolute", ""), ("b", "universal", '<mimic joint="a"/>')],
            "universal joint cannot be coupled",
        ),
    ],
)
def test_bad_mimic(load, joints, says):
    message = refusal(load, chain(*joints))
    assert says in message
    assert re.match(r"robot\.urdf:\d+: joint '\w'", message)


def test_a_universal_joint_is_named_as_the_file_names_it(load):
    text = chain(("a", "universal", ""), ("b", "universal", ""))
    message = refusal(load, text.replace('joint name="b"', 'joint name="a"'))
    assert re.fullmatch(r"robot\.urdf:\d+: joint 'a': the name is used twice.*", message)


def test_a_mimic_without_leader_loads_as_an_independent_joint(load):
    text = GOOD.replace('mimic joint="shoulder"', 'mimic joint="elbow"')
    assert load(text, couplings="free").joint_names == ("shoulder", "wrist")


@pytest.mark.parametrize("suffix", [".urdf", ".xml", ".sdf", ".xacro", ".mjcf"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"   \n",
        b"\x00\x01\x02\xff\xfe binary" * 100,
        bytes(range(256)),
        b"<robot name='r'><link name='a'>",
        b"just text",
        b"<?xml version='1.0' encoding='no-such-encoding'?><robot/>",
        b"<?xml version='1.0' encoding='utf-32'?><robot/>",
        b"<robot>\xff\xfe</robot>",
        b"<html><body/></html>",
        b"<robot/>",
        b"<robot name='r'/><robot name='s'/>",
        b"<mujoco>",
        b"<sdf version='1.7'>",
    ],
)
def test_bad_files(load, content, suffix):
    refusal(load, content, suffix)


def test_entity_bomb_external_entity_and_external_dtd(load):
    lol = "".join(f'<!ENTITY l{i + 1} "{f"&l{i};" * 10}">' for i in range(9))
    bomb = f'<!DOCTYPE robot [<!ENTITY l0 "lol">{lol}]><robot name="&l9;"/>'
    file = '<!DOCTYPE robot [<!ENTITY x SYSTEM "file:///etc/passwd">]><robot name="r">&x;</robot>'
    dtd = (
        '<!DOCTYPE robot SYSTEM "http://127.0.0.1/x.dtd"><robot name="r"><link name="&a;"/></robot>'
    )
    for suffix in (".urdf", ".xacro", ".xml"):
        assert "declares XML entities, which are refused" in refusal(load, bomb, suffix)
        assert "declares XML entities, which are refused" in refusal(load, file, suffix)
        assert "external DTD, which is refused" in refusal(load, dtd, suffix)


@pytest.mark.parametrize("tag", ["robot", "mujoco", "sdf"])
def test_deep_nesting(load, tag):
    deep = f"<{tag}>" + "<a>" * 100_000 + "</a>" * 100_000 + f"</{tag}>"
    assert "nested deeper than 200" in refusal(load, deep)


def test_many_elements_and_much_text(load):
    assert "more than 500000 elements" in refusal(load, "<robot>" + "<a/>" * 500_001 + "</robot>")
    assert "has no <link>" in refusal(load, "<robot>" + "line\n" * 1_000_000 + "</robot>")


def test_a_long_chain_loads(load):
    robot = load(chain(*((f"j{i}", "revolute", "") for i in range(1500))))
    assert robot.nv == 1500


def test_large_sparse_file(tmp_path):
    file = tmp_path / "large.urdf"
    with open(file, "wb") as stream:
        stream.truncate(100 * 2**20)
    with pytest.raises(DescriptionError, match=r"large\.urdf: is larger than 64 MiB"):
        qddot.load(file)


def test_paths_that_are_not_files(tmp_path):
    with pytest.raises(DescriptionError, match="is a folder"):
        qddot.load(tmp_path)
    with pytest.raises(DescriptionError, match="is a folder"):
        qddot.load(".")
    with pytest.raises(DescriptionError, match=r"missing\.urdf: no such file"):
        qddot.load(tmp_path / "missing.urdf")
    with pytest.raises(DescriptionError, match="no such file"):
        qddot.load(str(tmp_path / "missing" / "thing"))
    with pytest.raises(DescriptionError, match="is not a file"):
        qddot.load(os.devnull)
    for odd in ("x" * 5000, "a\0b.urdf", "~no_such_user_here/a.urdf", "", " "):
        with pytest.raises(QddotError):
            qddot.load(odd)


def test_a_file_that_may_not_be_read(tmp_path):
    file = tmp_path / "secret.urdf"
    file.write_text(GOOD)
    file.chmod(0)
    if os.access(file, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(DescriptionError, match="cannot be read: Permission denied"):
        qddot.load(file)


def test_addresses(monkeypatch, tmp_path):
    with pytest.raises(DescriptionError, match="only package://, model:// and file://"):
        qddot.load("https://example.com/robot.urdf")
    with pytest.raises(DescriptionError, match="names no package"):
        qddot.load("package:///robot.urdf")
    (tmp_path / "a b.urdf").write_text(GOOD)
    assert qddot.load(f"file://{tmp_path}/a%20b.urdf").name == "good"


def test_xml_text_is_not_a_file_name():
    with pytest.raises(InvalidArgument, match="is XML text; save it to a file and load that"):
        qddot.load(GOOD)


def test_unknown_robot_name():
    known = qddot.robot_names()
    if not known:
        pytest.skip("no robot has a name here")
    misspelt = known[0] + "x"
    with pytest.raises(UnknownName) as caught:
        qddot.load(misspelt)
    assert str(caught.value).startswith(f"no robot {misspelt!r}; closest: ")
    assert repr(known[0]) in str(caught.value)


@pytest.mark.parametrize("source", [None, 3, 2.5, ["a.urdf"], b"a.urdf", {}, object(), np.zeros(3)])
def test_sources_of_a_wrong_type(source):
    with pytest.raises(InvalidArgument, match="a file, a name, an MjModel or MjSpec"):
        qddot.load(source)


@pytest.mark.parametrize("value", ["floating", 1, True, [], np.zeros(2), ["free"]])
@pytest.mark.parametrize("option", ["base", "couplings"])
def test_options_of_a_wrong_value(load, option, value):
    with pytest.raises(InvalidArgument, match=f"^{option}: .*accepted: "):
        load(GOOD, **{option: value})


def test_message_of_a_wrong_option(load):
    with pytest.raises(InvalidArgument) as caught:
        load(GOOD, base="floating")
    assert (
        str(caught.value) == "base: 'floating' is not understood; accepted: None, 'fixed', 'free'"
    )


def test_couplings_none_is_not_accepted(load):
    with pytest.raises(InvalidArgument):
        load(GOOD, couplings=None)


def test_base_free_on_a_root_that_is_hinged_to_the_world(load):
    text = GOOD.replace('  <link name="base"/>\n', "").replace('"base"', '"world"')
    assert load(text).joint_names == ("shoulder",)
    message = refusal(load, text, base="free")
    assert (
        message
        == "robot.urdf: base 'arm': base='free' needs exactly one root link, fixed to the world"
    )


IMPOSSIBLE = GOOD.replace('izz="0.01"', 'izz="0.1"', 1)


def test_impossible_inertia_is_an_error_of_health_and_a_warning(load):
    with pytest.warns(UserWarning, match="good: 1 impossible inertia") as caught:
        robot = load(IMPOSSIBLE)
    assert len(caught) == 1
    finding = robot.health[0]
    assert (finding.severity, finding.kind, finding.subject) == ("error", "inertia", "link 'arm'")
    assert "the largest exceeds the other two by 0.06" in finding.message


def test_impossible_inertia_is_refused_when_strict(load):
    with pytest.raises(ImpossibleInertia):
        load(IMPOSSIBLE, strict=True)
    assert refusal(load, IMPOSSIBLE, strict=True) == (
        "robot.urdf:4: link 'arm': impossible inertia: principal moments 0.02, 0.02, 0.1 kg m² "
        "about the centre "
        "of mass; the largest exceeds the other two by 0.06"
    )


@pytest.mark.parametrize(
    "inertial",
    [
        '<mass value="0"/><inertia ixx="1" iyy="1" izz="1"/>',
        '<mass value="1"/><inertia ixx="-1" iyy="1" izz="1"/>',
        '<mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="5"/>',
    ],
)
def test_impossible_inertias(load, inertial):
    text = CHAIN.format(
        f'<link name="a"><inertial>{inertial}</inertial></link>'
        '<joint name="j" type="revolute"><parent link="base"/><child link="a"/></joint>'
    )
    with pytest.raises(ImpossibleInertia):
        load(text, strict=True)


@pytest.mark.parametrize("rpy", ["0 0 0", "0.3 0.2 0.1", "1 2 3"])
@pytest.mark.parametrize(
    "inertia",
    ['ixx="0" iyy="0" izz="0"', 'ixx="0" iyy="0.1" izz="0.1"', 'ixx="0.1" iyy="0.1" izz="0.2"'],
)
def test_points_rods_and_discs_are_possible(load, rpy, inertia):
    """Bodies at the border of what is possible stay possible when they are turned and moved."""
    text = CHAIN.format(
        f'<link name="a"><inertial><origin xyz="0.31 -0.47 0.93" rpy="{rpy}"/><mass value="1.7"/>'
        f"<inertia {inertia}/></inertial></link>"
        '<joint name="j" type="revolute"><parent link="base"/><child link="a"/></joint>'
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(text, strict=True).model.mass == 1.7


VALUES = [
    "",
    "nan",
    "inf",
    "1e400",
    "-1",
    "0",
    "abc",
    "0 0 0",
    "1 2",
    "arm",
    "base",
    "world",
    "fixed",
    "floating",
    "planar",
    "ball",
    "screw",
    "universal",
    "shoulder",
    "\u0660",
    "1e-320",
    "&amp;",
]
ATTRIBUTES = [m.span(1) for m in re.finditer(r'\w+="([^"]*)"', GOOD)][1:]
LINES = GOOD.splitlines(keepends=True)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """The good text with some of its attributes, lines or characters changed."""
    text = GOOD
    for _ in range(draw(st.integers(1, 3))):
        how = draw(st.sampled_from(["value", "drop line", "double line", "cut", "swap"]))
        if how == "value":
            start, end = draw(st.sampled_from(ATTRIBUTES))
            value = draw(st.sampled_from(VALUES) | st.floats().map(repr))
            text = text[:start] + value + text[end:]
            continue
        lines = text.splitlines(keepends=True)
        i, j = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        if how == "drop line":
            del lines[i]
        elif how == "double line":
            lines.insert(j, lines[i])
        elif how == "swap":
            lines[i], lines[j] = lines[j], lines[i]
        text = "".join(lines)
        if how == "cut":
            a, b = sorted(draw(st.integers(0, len(text))) for _ in range(2))
            text = text[:a] + text[min(b, a + 40) :]
        if not text:
            break
    return text


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=mutated(), base=st.sampled_from([None, "fixed", "free"]))
def test_fuzz(tmp_path_factory, text, base):
    file = Path(tmp_path_factory.getbasetemp()) / "fuzz.urdf"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            robot = qddot.load(file, base=base)
        except QddotError as error:
            message = str(error)
        else:
            message = ""
        if message:
            assert message.startswith(str(file))
            return
        q = robot.neutral()
        assert np.isfinite(robot.mass_matrix(q)).all()
        assert np.isfinite(robot.gravity(q)).all()
        assert all(f.message for f in robot.health)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_a_compiled_model_with_bad_numbers(value):
    mujoco = pytest.importorskip("mujoco")
    text = '<mujoco><worldbody><body name="a"><joint/><geom size="1"/></body></worldbody></mujoco>'
    for field in ("body_mass", "body_inertia", "dof_armature", "dof_damping"):
        m = mujoco.MjModel.from_xml_string(text)
        getattr(m, field)[-1] = value
        if field == "body_inertia" and value == -1.0:
            with pytest.warns(UserWarning, match="impossible"):
                qddot.load(m)
        else:
            with pytest.raises(QddotError):
                qddot.load(m)
