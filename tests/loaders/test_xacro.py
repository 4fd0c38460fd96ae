"""Xacro as manufacturers write it: expanded without trust, to the text that xacro itself gives."""

from __future__ import annotations

import math
import os
import sys

import pytest
import xacro
from typer.testing import CliRunner

import qddot
from qddot.cli import app
from qddot.errors import DescriptionError, MissingPackage
from qddot.loaders.expressions import evaluate
from qddot.loaders.urdf import expand_xacro
from qddot.loaders.xacro_expansion import global_symbols

_NAMESPACE = 'xmlns:xacro="http://wiki.ros.org/xacro"'

# in the manner of Universal Robots: all numbers in yaml, read by one macro into the caller's scope
SIX_AXES = {
    "package.xml": "<package/>",
    "config/limits.yaml": """
joint_limits:
  pan: {lower: !degrees -360.0, upper: !degrees 360, effort: 150.0, velocity: !degrees 180.0}
  lift: {lower: !radians -pi/2, upper: !radians pi/2, effort: 28.0, velocity: 3.14}
""",
    "config/physical.yaml": """
inertia_parameters:
  mass: {pan: 3.7, lift: 8.393}
  radius: 0.06
  length: !millimeters 178
  center_of_mass:
    pan: {x: 0.0, y: -0.00193, z: -0.02561}
    lift: {x: 0.0, y: -0.024201, z: 0.2125}
offsets: [0.0, 0.13585, -0.1197]
hash: calib_12788084448423163542
""",
    "urdf/inc/common.xacro": f"""<?xml version="1.0"?>
<robot {_NAMESPACE}>
  <xacro:macro name="cylinder_inertial" params="radius length mass *origin">
    <inertial>
      <mass value="${{mass}}"/>
      <xacro:insert_block name="origin"/>
      <inertia ixx="${{0.0833333 * mass * (3 * radius * radius + length * length)}}" ixy="0.0"
        ixz="0.0" iyy="${{0.0833333 * mass * (3 * radius**2 + length**2)}}" iyz="0.0"
        izz="${{0.5 * mass * radius * radius}}"/>
    </inertial>
  </xacro:macro>
  <xacro:macro name="read_data" params="limits_file physical_file">
    <xacro:property name="config_limits" value="${{xacro.load_yaml(limits_file)}}"/>
    <xacro:property name="config_physical" value="${{load_yaml(physical_file)}}"/>
    <xacro:property name="limits" value="${{config_limits['joint_limits']}}" scope="parent"/>
    <xacro:property name="inertial" value="${{config_physical['inertia_parameters']}}"
      scope="parent"/>
    <xacro:property name="offsets" value="${{config_physical['offsets']}}" scope="parent"/>
    <xacro:property name="hash" value="${{config_physical['hash']}}" scope="parent"/>
  </xacro:macro>
  <xacro:macro name="axis" params="name parent:=^ turn:=0 *placement">
    <xacro:property name="com" value="${{inertial['center_of_mass'][name]}}"/>
    <link name="${{tf_prefix}}${{name}}_link">
      <xacro:cylinder_inertial radius="${{inertial['radius']}}" length="${{inertial['length']}}"
          mass="${{inertial['mass'][name]}}">
        <origin xyz="${{com['x']}} ${{com['y']}} ${{com['z']}}" rpy="0 0 ${{radians(turn)}}"/>
      </xacro:cylinder_inertial>
    </link>
    <joint name="${{tf_prefix}}${{name}}_joint" type="revolute">
      <parent link="${{tf_prefix}}${{parent}}"/><child link="${{tf_prefix}}${{name}}_link"/>
      <xacro:insert_block name="placement"/>
      <axis xyz="0 0 1"/>
      <limit lower="${{limits[name]['lower']}}" upper="${{limits[name]['upper']}}"
        effort="${{limits[name]['effort']}}" velocity="${{limits[name]['velocity']}}"/>
      <xacro:if value="$(arg safety)">
        <safety_controller soft_lower_limit="${{limits[name]['lower'] + margin}}"/>
      </xacro:if>
    </joint>
  </xacro:macro>
</robot>""",
    "urdf/robot.urdf.xacro": f"""<?xml version="1.0"?>
<robot {_NAMESPACE} name="six">
  <xacro:arg name="tf_prefix" default="left_"/>
  <xacro:arg name="safety" default="false"/>
  <xacro:arg name="limits_file" default="$(find six_axes)/config/limits.yaml"/>
  <xacro:property name="tf_prefix" value="$(arg tf_prefix)"/>
  <xacro:property name="margin" value="${{pi / 20}}"/>
  <xacro:include filename="inc/common.xacro"/>
  <xacro:read_data limits_file="$(arg limits_file)"
    physical_file="$(find ${{'six' + '_axes'}})/config/physical.yaml"/>
  <link name="${{tf_prefix}}base"/>
  <xacro:property name="parent" value="base"/>
  <xacro:axis name="pan" turn="${{[0, 90, 180][1]}}">
    <origin xyz="${{offsets[0]}} 0 ${{offsets[1] * 2}}" rpy="0 0 0"/>
  </xacro:axis>
  <xacro:axis name="lift" parent="pan_link">
    <origin xyz="0 ${{' '.join([str(offsets[1]), str(offsets[2])])}}" rpy="${{pi / 2}} 0 0"/>
  </xacro:axis>
  <xacro:unless value="${{hash.startswith('calib')}}"><link name="uncalibrated"/></xacro:unless>
</robot>""",
}

# in the manner of Franka: dotted access to yaml, defaults with quotes, blocks, a hand that may be
SEVEN_AXES = {
    "package.xml": "<package/>",
    "robots/inertials.yaml": """
link1:
  origin: {xyz: 0.003875 0.002081 -0.04762, rpy: 0 0 0}
  mass: 4.970684
  inertia: {xx: 0.70337, xy: -0.000139, xz: 0.006772, yy: 0.70661, yz: 0.019169, zz: 0.009117}
hand:
  origin: {xyz: -0.01 0 0.03, rpy: 0 0 0}
  mass: 0.73
""",
    "robots/joint_limits.yaml": """
joint1: {limit: {lower: -2.8973, upper: 2.8973, velocity: 2.175, effort: 87.0}}
""",
    "robots/common/utils.xacro": f"""<?xml version='1.0' encoding='utf-8'?>
<robot {_NAMESPACE}>
  <xacro:macro name="inertials" params="name inertials:=^">
    <xacro:unless value="${{name in inertials}}">${{xacro.warning('none: ' + name)}}</xacro:unless>
    <xacro:if value="${{name in inertials}}">
      <xacro:property name="own" value="${{inertials[name]}}" lazy_eval="false"/>
      <inertial>
        <origin rpy="${{own.origin.rpy}}" xyz="${{own.origin.xyz}}"/>
        <mass value="${{own.mass}}"/>
        <xacro:property name="m" value="${{own.mass}}"/>
        <xacro:if value="${{'inertia' in own}}">
          <xacro:property name="I" value="${{own.inertia}}"/>
          <inertia ixx="${{I.xx}}" ixy="${{I.xy}}" ixz="${{I.xz}}" iyy="${{I.yy}}"
            iyz="${{I.yz}}" izz="${{I.zz}}"/>
        </xacro:if>
        <xacro:unless value="${{'inertia' in own}}">
          <inertia ixx="${{1./12 * m * (3 * .05**2 + .1**2)}}" ixy="0" ixz="0"
            iyy="${{1./12 * m * (3 * .05**2 + .1**2)}}" iyz="0" izz="${{1./2 * m * .05**2}}"/>
        </xacro:unless>
      </inertial>
    </xacro:if>
  </xacro:macro>
  <xacro:macro name="capsule" params="radius length xyz:='0 0 0' direction:='z'">
    <xacro:property name="r" value="${{pi/2.0 if 'y' in direction else 0}}"/>
    <xacro:property name="x" value="${{xyz.split(' ')[0]}}"/>
    <xacro:property name="sx" value="${{length / 2.0 if 'x' in direction else 0}}"/>
    <collision><origin xyz="${{x + sx}} 0 0" rpy="${{r}} 0 0"/>
      <geometry><sphere radius="${{radius}}"/></geometry></collision>
  </xacro:macro>
</robot>""",
    "robots/arm.urdf.xacro": f"""<?xml version='1.0' encoding='utf-8'?>
<robot {_NAMESPACE} name="arm">
  <xacro:include filename="$(find seven_axes)/robots/common/utils.xacro"/>
  <xacro:arg name="arm_id" default="fr"/>
  <xacro:arg name="hand" default="true"/>
  <xacro:macro name="arm" params="arm_id no_prefix:=false connected_to:='base' xyz:='0 0 0'
      safety_distance:=0 joint_limits inertials">
    <xacro:property name="prefix" value="${{'' if no_prefix else arm_id + '_'}}"/>
    <xacro:unless value="${{not connected_to}}">
      <link name="${{connected_to}}"/>
      <joint name="${{connected_to}}_joint" type="fixed">
        <parent link="${{connected_to}}"/><child link="${{prefix}}link0"/>
        <origin rpy="0 0 ${{-pi/4}}" xyz="${{xyz}}"/>
      </joint>
    </xacro:unless>
    <link name="${{prefix}}link0"/>
    <link name="${{prefix}}link1">
      <xacro:inertials name="link1"/>
      <xacro:capsule xyz="-0.075 0 0.06" direction="x" radius="${{0.06+safety_distance}}"
        length="0.03"/>
    </link>
    <joint name="${{prefix}}joint1" type="revolute">
      <parent link="${{prefix}}link0"/><child link="${{prefix}}link1"/>
      <origin xyz="0 0 0.333"/><axis xyz="0 0 1"/>
      <xacro:property name="limits" value="${{joint_limits['joint1']['limit']}}"
        lazy_eval="false"/>
      <limit lower="${{limits.lower}}" upper="${{limits.upper}}" effort="${{limits.effort}}"
        velocity="${{limits.velocity}}"/>
    </joint>
  </xacro:macro>
  <xacro:arm arm_id="$(arg arm_id)"
    joint_limits="${{xacro.load_yaml('$(find seven_axes)/robots/joint_limits.yaml')}}"
    inertials="${{xacro.load_yaml('$(find seven_axes)/robots/inertials.yaml')}}"/>
  <xacro:if value="$(arg hand)">
    <link name="$(arg arm_id)_hand">
      <xacro:inertials name="hand"
        inertials="${{xacro.dotify(xacro.load_yaml('$(find seven_axes)/robots/inertials.yaml'))}}"/>
    </link>
    <joint name="hand_joint" type="fixed"><parent link="$(arg arm_id)_link1"/>
      <child link="$(arg arm_id)_hand"/><origin xyz="0 0 ${{10 * 1e-2}}"/></joint>
  </xacro:if>
</robot>""",
}

# in the manner of Kinova: files chosen by arguments, macros that share a name, a list by recursion
CHOSEN_PARTS = {
    "package.xml": "<package/>",
    "arms/g3/7dof/urdf/g3_macro.xacro": f"""<robot {_NAMESPACE}>
  <xacro:property name="last_arm_link" value="bracelet_link"/>
  <xacro:macro name="load_arm" params="parent dof prefix *origin">
    <xacro:if value="${{dof not in (6, 7)}}">${{xacro.fatal('no arm of', dof)}}</xacro:if>
    <joint name="${{prefix}}base_joint" type="fixed"><xacro:insert_block name="origin"/>
      <parent link="${{parent}}"/><child link="${{prefix}}base_link"/></joint>
    <link name="${{prefix}}base_link"/>
    <xacro:chain names="${{['shoulder', 'bracelet']}}" parent="base"/>
  </xacro:macro>
  <xacro:macro name="chain" params="names parent">
    <xacro:if value="${{names}}">
      <xacro:property name="name" value="${{names[0]}}"/>
      <link name="${{prefix}}${{name}}_link"><inertial><mass value="${{len(names) * 0.5}}"/>
        <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>
      <joint name="${{prefix}}${{name}}_joint" type="continuous">
        <parent link="${{prefix}}${{parent}}_link"/><child link="${{prefix}}${{name}}_link"/>
        <origin xyz="0 0 ${{0.1 * len(names)}}"/><axis xyz="0 1 0"/></joint>
      <xacro:chain names="${{names[1:]}}" parent="${{name}}"/>
    </xacro:if>
  </xacro:macro>
</robot>""",
    "grippers/two/urdf/two_macro.xacro": f"""<robot {_NAMESPACE}>
  <xacro:macro name="load_gripper" params="parent prefix">
    <link name="${{prefix}}gripper"><inertial><mass value="$(eval 2 * grip / 4)"/>
      <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>
    <joint name="${{prefix}}gripper_joint" type="fixed"><parent link="${{parent}}"/>
      <child link="${{prefix}}gripper"/></joint>
  </xacro:macro>
</robot>""",
    "robots/main.xacro": f"""<robot {_NAMESPACE} name="g3_7dof">
  <xacro:arg name="arm" default="g3"/><xacro:arg name="dof" default="7"/>
  <xacro:arg name="gripper" default="two"/><xacro:arg name="grip" default="3"/>
  <xacro:arg name="moving" default="false"/>
  <xacro:macro name="load_robot" params="parent *origin prefix arm gripper dof">
    <xacro:include
      filename="$(find chosen_parts)/arms/${{arm}}/${{dof}}dof/urdf/${{arm}}_macro.xacro"/>
    <xacro:load_arm parent="${{parent}}" dof="${{dof}}" prefix="${{prefix}}">
      <xacro:insert_block name="origin"/>
    </xacro:load_arm>
    <xacro:unless value="${{not gripper}}">
      <xacro:include
        filename="$(find chosen_parts)/grippers/${{gripper}}/urdf/${{gripper}}_macro.xacro"/>
      <xacro:load_gripper parent="${{prefix}}${{last_arm_link}}" prefix="${{prefix}}"/>
    </xacro:unless>
    <xacro:include filename="../parts/missing.xacro" optional="true"/>
    <xacro:include filename="../grippers/*.none.xacro"/>
  </xacro:macro>
  <link name="world"/>
  <xacro:load_robot parent="world" arm="$(arg arm)" gripper="$(arg gripper)" dof="$(arg dof)"
      prefix="${{''.join([x for x in 'ab' if x != 'b'])}}_">
    <origin xyz="${{' '.join(map(str, [0, 0, 1 / 4]))}}" rpy="0 0 0"/>
  </xacro:load_robot>
  <xacro:if value="$(arg moving)"><link name="never"/></xacro:if>
</robot>""",
}
PACKAGES = {
    "six_axes": (SIX_AXES, "urdf/robot.urdf.xacro"),
    "seven_axes": (SEVEN_AXES, "robots/arm.urdf.xacro"),
    "chosen_parts": (CHOSEN_PARTS, "robots/main.xacro"),
}


@pytest.fixture
def packages(tmp_path):
    """Files of the packages, by the package's name."""
    found = {}
    for package, (files, main) in PACKAGES.items():
        for name, content in files.items():
            path = tmp_path / package / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        found[package] = tmp_path / package / main
    return found


@pytest.mark.parametrize("name", PACKAGES)
def test_text_is_that_of_xacro(packages, name, monkeypatch):
    path = packages[name]
    folder = path.parents[2]
    monkeypatch.setattr(xacro.substitution_args, "_eval_find", lambda x: str(folder / x))
    own = xacro.process_file(str(path), mappings={}).toxml("utf-8")
    assert expand_xacro(path) == own
    assert expand_xacro(path, trust=True) == own


def test_numbers_of_six_axes(packages):
    robot = qddot.load(packages["six_axes"])
    assert robot.name == "six"
    assert robot.joint_names == ("left_pan_joint", "left_lift_joint")
    limits = [b.joint.limits for b in robot.model.bodies]
    assert [x.upper for x in limits] == pytest.approx([2 * math.pi, math.pi / 2])
    assert [x.velocity for x in limits] == pytest.approx([math.pi, 3.14])
    assert float(robot.model.mass) == pytest.approx(3.7 + 8.393)
    # the second link about its own axis: a disc, and its centre of mass off the axis
    inertia = 0.5 * 8.393 * 0.06**2 + 8.393 * 0.024201**2
    assert robot.mass_matrix([0.3, -0.2])[1, 1] == pytest.approx(inertia)


def test_numbers_of_seven_axes(packages):
    robot = qddot.load(packages["seven_axes"])
    assert robot.joint_names == ("fr_joint1",)
    m, hand = 4.970684, 0.73
    inertia = 0.009117 + m * (0.003875**2 + 0.002081**2) + hand * 0.05**2 / 2 + hand * 0.01**2
    assert robot.mass_matrix([0.4])[0, 0] == pytest.approx(inertia)


def test_numbers_of_chosen_parts(packages):
    robot = qddot.load(packages["chosen_parts"])
    assert robot.joint_names == ("a_shoulder_joint", "a_bracelet_joint")
    assert [float(b.inertia.mass) for b in robot.model.bodies] == pytest.approx([1.0, 2.0])


EQUAL = [
    "1 + 2 * 3 - 4 / 5 // 1 % 7", "2**10 + 2.0**0.5 + 2**-1", "1 << 4 | 3 & 2 ^ 1", "~5 >> 1",
    "-pi / 2 + +e", "not 1 or 0 and 2", "1 < 2 <= 2 != 3 == 3 > 2 >= 1", "1 < 2 > 5 < 1 / 0",
    "'a' in 'abc' and 2 not in [1] and None is None and [] is not None", "1 if [] else 2",
    "[1, 'a', 2.5, True, None, (1,), {1: 2}]", "[1, 2, 3][0] + [1, 2, 3][-1]",
    "'abcdef'[1:4] + 'abcdef'[::-1] + 'abcdef'[:2]", "dict(a=1, b=[2])['b'][0]",
    "{'a': 1, **{'b': 2}}", "{1, 2} == {2, 1}", "dict([(1, 2)])[1]",
    "'%s %d %.3f %5s' % ('a', 2, 1 / 3, 'b')", "'%03d' % 7", "'a-b'.split('-')",
    "'-'.join(['a', 'b']).upper().replace('A', 'x')", "'ab'.startswith('a') and 'ab'.endswith('b')",
    "' a '.strip() + 'a'.zfill(3) + 'A'.lower()", "'a,b;c d'.partition(',')", "(2.0).is_integer()",
    "[1, 2, 1].count(1) + (1, 2).index(2)", "dict(a=1).get('b', 5)", "list(dict(a=1).items())",
    "list(dict(a=1).keys()) + list(dict(a=1).values())",
    "[x * y for x in range(3) for y in (1, 2)]",
    "[a + b for a, b in [(1, 2), (3, 4)] if a > 1]", "sum(x * x for x in range(5))",
    "dict((k, v) for k, v in zip('ab', [1, 2]))", "{k: v for k, v in [(1, 2)]}",
    "f'{1 + 1}-{pi:.2f}-{\"a\"!r}'",
    "max([1, 3, 2]) + min(4, 5) + python.abs(-2)", "round(2.567, 1)",
    "sorted([3, 1, 2])", "sorted(['bb', 'a'], key=len)", "len('abc') + int('5') + float('2.5')",
    "str(1.0) + str([1, 'a'])", "bool('a') and bool(0) == False", "list(range(2, 8, 3))",
    "list(map(str, [1, 2]))", "list(map(int, '1 2'.split(' ')))",
    "python.tuple([1])", "int('ff', 16)",
    "radians(180) + degrees(pi) + sin(1) + cos(1) + atan2(1, 2) + sqrt(2) + hypot(3, 4)",
    "math.pi + math.floor(2.5) + math.ceil(2.5) + math.fabs(-1) + math.exp(1) + math.log(2)",
    "python.sum([1, 2]) + python.any([0, 1]) + python.all([1])",
    "python.isinstance('a', python.str)",
    "python.list(python.enumerate('ab'))", "python.list(python.reversed([1, 2]))",
    "python.list(python.filter(None, [0, 1]))", "python.divmod(7, 2)", "python.ord('a')",
    "xacro.tokenize('a,b c')", "xacro.tokenize('a.b', sep='.', skip_empty=False)",
    "xacro.dotify(dict(a=dict(b=2))).a.b", "xacro.dotify(dict(a=[dict(b=2)])).a[0].b",
]  # fmt: skip


@pytest.mark.parametrize("expression", EQUAL)
def test_expressions_have_the_values_of_python(expression):
    reference = eval(
        expression, {**xacro._global_symbols, "sum": sum, "zip": zip, "__builtins__": {}}
    )
    names = global_symbols(None)
    names |= {name: names["python"][name] for name in ("sum", "zip")}
    found = evaluate(expression, names)
    assert found == reference
    assert type(found) is type(reference)


WRONG = [
    "1 / 0", "nothing", "[1][5]", "dict(a=1)['b']", "int('x')", "1 + 'a'", "len(1)", "sqrt(-1)",
    "'a'.split(1)", "2.0**5000", "xacro.dotify(dict(a=1)).b", "{[]: 1}", "1(2)", "pi.x",
    "[x for x in 5]", "[1 for a, b in [(1,)]]", "",
]  # fmt: skip


@pytest.mark.parametrize("expression", WRONG)
def test_errors_in_expressions_are_told(expression):
    names = global_symbols(None)
    with pytest.raises(Exception) as caught:  # noqa: PT011
        evaluate(expression, names)
    assert not isinstance(caught.value, KeyboardInterrupt | SystemExit | MemoryError)
    assert str(caught.value)


def test_errors_name_the_file_and_the_expression(packages):
    common = packages["six_axes"].parent / "inc" / "common.xacro"
    common.write_text(common.read_text().replace("* radius * radius}", "* radio}"))
    with pytest.raises(DescriptionError) as caught:
        qddot.load(packages["six_axes"])
    message = str(caught.value)
    assert message.startswith(f"{packages['six_axes']}: xacro: ")
    assert "name 'radio' is not defined" in message
    assert "when evaluating expression '0.5 * mass * radio'" in message


def test_a_fatal_error_of_a_file_is_told(packages):
    main = packages["chosen_parts"]
    main.write_text(main.read_text().replace('dof="$(arg dof)"', 'dof="5"'))
    arms = main.parents[1] / "arms" / "g3"
    (arms / "7dof").rename(arms / "5dof")
    with pytest.raises(DescriptionError, match="no arm of 5"):
        qddot.load(main)


def test_a_long_list_by_recursion(tmp_path):
    """Macros that call themselves are the loops of xacro; two hundred rounds are none too many."""
    path = tmp_path / "chain.xacro"
    path.write_text(
        f'<robot name="chain" {_NAMESPACE}><xacro:macro name="loop" params="items">'
        '<xacro:if value="${items}"><link name="l${items[0]}"/>'
        '<xacro:loop items="${items[1:]}"/></xacro:if></xacro:macro>'
        '<xacro:loop items="${list(range(200))}"/></robot>'
    )
    assert expand_xacro(path).count(b"<link") == 200


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")
def test_a_package_that_is_installed_by_links(packages, tmp_path, monkeypatch):
    """Workspaces of ROS link installed files to their sources; each way in works."""
    share = tmp_path / "install" / "share" / "six_axes"
    (tmp_path / "six_axes").rename(tmp_path / "sources")
    for name in SIX_AXES:
        (share / name).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(tmp_path / "sources" / name, share / name)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "install"))
    assert qddot.load(share / "urdf" / "robot.urdf.xacro").nv == 2
    assert qddot.load(tmp_path / "sources" / "urdf" / "robot.urdf.xacro").nv == 2


def test_a_package_beside_is_found_if_it_looks_like_one(packages, tmp_path):
    main = tmp_path / "mine" / "main.xacro"
    main.parent.mkdir()
    main.write_text(
        f'<robot name="m" {_NAMESPACE}>'
        '<xacro:include filename="$(find six_axes)/urdf/robot.urdf.xacro"/></robot>'
    )
    assert qddot.load(main).nv == 2
    (tmp_path / "six_axes" / "package.xml").unlink()
    assert qddot.load(main).nv == 2
    (tmp_path / "six_axes" / "urdf").rename(tmp_path / "six_axes" / "files")
    main.write_text(main.read_text().replace("/urdf/", "/files/"))
    with pytest.raises(DescriptionError, match=r"which has no package\.xml, as a package"):
        qddot.load(main)


def test_without_the_package_xacro(packages, monkeypatch):
    monkeypatch.setitem(sys.modules, "xacro", None)
    with pytest.raises(MissingPackage, match="pip install xacro"):
        qddot.load(packages["six_axes"])


@pytest.mark.parametrize("command", ["info", "check", "audit", "derive", "convert"])
def test_trust_on_the_command_line(tmp_path, command, monkeypatch):
    monkeypatch.setenv("QDDOT_NATIVE", "0")
    monkeypatch.setenv("QDDOT_TEST_MASS", "2.5")
    path = tmp_path / "arm.xacro"
    path.write_text(
        f'<robot name="arm" {_NAMESPACE}><link name="base"/><link name="arm"><inertial>'
        '<origin xyz="0 0 0.1"/><mass value="$(env QDDOT_TEST_MASS)"/>'
        '<inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>'
        '<joint name="j" type="revolute"><parent link="base"/><child link="arm"/>'
        '<axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="50" velocity="2"/></joint></robot>'
    )
    more = [str(tmp_path / "out.urdf")] if command == "convert" else []
    refused = CliRunner().invoke(app, [command, str(path), *more])
    assert refused.exit_code == 2
    assert "not allowed in a file that is not trusted" in " ".join(refused.output.split())
    allowed = CliRunner().invoke(app, [command, str(path), *more, "--trust"])
    assert allowed.exit_code == 0, allowed.output


@pytest.mark.parametrize("command", ["compare", "export", "integrators", "simulate", "size"])
def test_commands_that_load_a_robot_have_the_option(command):
    assert "--trust" in CliRunner(env={"COLUMNS": "200"}).invoke(app, [command, "--help"]).output
