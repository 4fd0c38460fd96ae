"""`qddot torques`, states as people type them, help without imports, and missing packages."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import qddot
from qddot.analysis.trajectory import quintic
from qddot.cli import _COMMANDS, app
from qddot.cli.states import parse_configuration
from qddot.errors import QddotError


@pytest.fixture(scope="module")
def arm():
    return qddot.load("planar_2r")


def run(*args: str):
    return CliRunner().invoke(app, args)


def test_torques_of_a_quintic_are_those_of_inverse_dynamics(arm):
    result = run("torques", "planar_2r", "--to", "1,-0.5", "--time", "0.8", "--json")
    joints = json.loads(result.stdout)["joints"]
    q, v, a = quintic([0.0, 0.0], [1.0, -0.5], 0.8, np.linspace(0.0, 0.8, 401))
    tau = arm.inverse_dynamics(q, v, a)
    peaks = np.abs(tau).argmax(axis=0)
    assert [j["torque"] for j in joints] == pytest.approx([tau[k, i] for i, k in enumerate(peaks)])
    assert [j["rms"] for j in joints] == pytest.approx(np.sqrt((tau**2).mean(axis=0)))
    assert [j["limit"] for j in joints] == [60.0, 30.0]
    assert joints[0]["share"] == pytest.approx(abs(joints[0]["torque"]) / 60.0)


def test_a_table_that_was_written_gives_the_same_torques(tmp_path):
    file, again = tmp_path / "motion.csv", tmp_path / "plot.png"
    first = run("torques", "planar_2r", "--to", "joint2=0.7", "--save", str(file), "--json")
    second = run("torques", "planar_2r", "--trajectory", str(file), "--plot", str(again), "--json")
    data = [json.loads(r.stdout)["joints"] for r in (first, second)]
    assert [j["torque"] for j in data[1]] == pytest.approx([j["torque"] for j in data[0]], rel=1e-3)
    assert again.stat().st_size > 1000


def test_payload_and_limits_that_are_not_kept():
    light = run("torques", "planar_2r", "--to", "0.1,0.1", "--time", "2")
    assert light.exit_code == 0
    assert "within limits" in light.stdout
    heavy = run("torques", "planar_2r", "--to", "0.1,0.1", "--time", "2", "--payload", "20")
    assert heavy.exit_code == 1
    assert "joint1 over its torque" in heavy.stdout
    fast = run("torques", "planar_2r", "--to", "3.5,0", "--time", "0.5")
    assert "joint1 over its speed" in fast.stdout
    assert "joint1 out of its range" in fast.stdout


ARM_WITH_FRICTION = """<robot name="rod">
  <link name="base"/>
  <link name="rod">
    <inertial><origin xyz="0 0 0.5"/><mass value="1"/>
      <inertia ixx="0.1" iyy="0.1" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><geometry><mesh filename="package://nowhere/a.stl"/></geometry></visual>
    <visual><geometry><mesh filename="package://nowhere/b.stl"/></geometry></visual>
  </link>
  <joint name="hinge" type="revolute">
    <parent link="base"/><child link="rod"/><axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" effort="10" velocity="5"/>
    <dynamics damping="2" friction="0.5"/>
  </joint>
</robot>"""


@pytest.fixture
def rod(tmp_path):
    file = tmp_path / "rod.urdf"
    file.write_text(ARM_WITH_FRICTION)
    return str(file)


def test_friction_of_the_file_is_in_the_torques_or_said_to_be_left_out(rod):
    # a quintic over 1 rad in 1 s is fastest at 15/8 rad/s: 2 * 1.875 + 0.5 N m
    without = run("torques", rod, "--to", "1")
    assert "up to 4.25 N m (hinge), are not in these torques" in " ".join(without.stdout.split())
    torques = run("torques", rod, "--to", "1", "--friction")
    assert "not in these torques" not in torques.stdout


def test_an_audit_lists_a_link_once_and_says_where_meshes_are_looked_for(rod):
    text = " ".join(run("audit", rod).stdout.split())
    assert "shape not read: rod; their inertias are not compared with these shapes" in text
    assert "ROS_PACKAGE_PATH" in text


def test_sizing_prints_the_worst_states_when_asked():
    options = ("size", "planar_2r", "--payload", "1", "--samples", "200")
    short, long = (" ".join(run(*options, *more).stdout.split()) for more in ((), ("--verbose",)))
    assert "largest payload" in short
    assert "worst states (rad, m)" not in short
    assert "worst states (rad, m)" in long


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--to", "1"), "it has 1 number, planar_2r has 2 coordinates: joint1, joint2"),
        (("--to", "joint3=1"), "closest: 'joint2', 'joint1'"),
        (("--to", "joint1=x"), "it is JOINT=NUMBER"),
        (("--to", "hom"), "no state 'hom'"),
        (("--to", "nan,0"), "must be finite"),
        (("--trajectory", "no.csv"), "no motion can be read: there is no such file"),
        (("--to", "1,1", "--time", "-1"), "above zero"),
    ],
)
def test_mistakes_are_named(options, message):
    result = run("torques", "planar_2r", *options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_configurations_as_people_type_them(arm):
    assert parse_configuration(arm, "--state", "0.5, -1").tolist() == [0.5, -1.0]
    assert parse_configuration(arm, "--state", "joint2=0.3").tolist() == [0.0, 0.3]
    assert parse_configuration(arm, "--state", "neutral").tolist() == [0.0, 0.0]
    assert parse_configuration(arm, "--state", "random", 3) == pytest.approx(arm.random(3))
    with pytest.raises(QddotError):
        parse_configuration(arm, "--state", "")


def test_simulate_starts_where_it_is_told_and_writes_a_table(tmp_path):
    file = tmp_path / "motion.csv"
    options = ("--state", "joint1=0.4,joint2=0.2", "--time", "0.02", "--save", str(file))
    assert run("simulate", "planar_2r", *options).exit_code == 0
    table = np.genfromtxt(file, delimiter=",", names=True)
    assert table.dtype.names[:3] == ("time", "q_joint1", "q_joint2")
    assert (table["q_joint1"][0], table["q_joint2"][0]) == (0.4, 0.2)
    assert table["time"][-1] == pytest.approx(0.02)


def test_lines_of_the_help_are_those_of_the_commands():
    for name, (module, line) in _COMMANDS.items():
        made = getattr(importlib.import_module(f"qddot.cli.{module}"), name)
        text = getattr(getattr(made, "info", None), "help", None) or made.__doc__
        assert text.splitlines()[0] == line, name


def test_help_imports_no_command():
    code = (
        "import sys; from qddot.cli import app\n"
        "try: app(['--help'])\nexcept SystemExit: pass\n"
        "assert not {'scipy', 'matplotlib', 'mujoco', 'viser', 'qddot.simulate'} & set(sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "torques" in result.stdout


def test_alone_it_says_what_people_come_for():
    result = run()
    assert result.exit_code == 0
    assert "qddot audit robot.urdf" in result.stdout
    assert "qddot size robot.urdf --payload 3" in result.stdout


@pytest.mark.parametrize(
    ("package", "code", "message"),
    [
        ("sympy", "qddot.lagrange", "pip install 'qddot[symbolic]'"),
        ("casadi", "qddot.load('planar_2r').casadi('gravity')", "pip install 'qddot[symbolic]'"),
        ("viser", "qddot.load('planar_2r').view()", "pip install 'qddot[view]'"),
    ],
)
def test_missing_packages_say_how_to_get_them(package, code, message):
    hidden = (
        "import sys, importlib.util as u; f = u.find_spec\n"
        f"sys.modules[{package!r}] = None\n"
        f"u.find_spec = lambda n, *a: None if n == {package!r} else f(n, *a)\n"
        f"import qddot\ntry: {code}\nexcept qddot.QddotError as error: print(error)"
    )
    result = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True)
    assert message in result.stdout, result.stderr


def test_friction_is_part_of_a_sizing_when_it_is_asked_for(tmp_path):
    file = tmp_path / "arm.urdf"
    file.write_text(
        '<robot name="arm"><link name="base"/><link name="tool"><inertial><mass value="1"/>'
        '<origin xyz="0.5 0 0"/><inertia ixx="1e-3" iyy="1e-3" izz="1e-3" ixy="0" ixz="0" iyz="0"/>'
        '</inertial></link><joint name="j" type="revolute"><parent link="base"/>'
        '<child link="tool"/><axis xyz="0 0 1"/><dynamics damping="2" friction="3"/>'
        '<limit lower="-1" upper="1" effort="50" velocity="2"/></joint></robot>'
    )
    robot = qddot.load(file)
    bare, rubbing = (
        qddot.sizing.size(robot, 0.0, samples=2000, speed=1.5, friction=f).joints[0].dynamic.torque
        for f in (False, True)
    )
    # about a vertical axis only inertia works: friction adds damping · speed + Coulomb
    assert abs(rubbing) - abs(bare) == pytest.approx(2.0 * 1.5 + 3.0, rel=1e-6)


def test_angles_that_look_like_degrees_are_asked_about():
    result = run("torques", "planar_2r", "--to", "90,0")
    assert "note: is joint1 = 90 in degrees? Angles are in rad, and 90° are 1.571 rad\n" in (
        result.stderr
    )
    result = run("simulate", "planar_2r", "--time", "0.01", "--state", "joint2=-45")
    assert "note: is joint2 = -45 in degrees? Angles are in rad, and -45° are -0.7854 rad\n" in (
        result.stderr
    )
    assert "degrees" not in run("torques", "ur5e", "--to", "6.28,4,0,0,0,0").stderr
