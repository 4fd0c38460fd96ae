"""The command line as a user meets it: output, JSON, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import qddot
from qddot.cli import app

GOOD = [
    "ur5e",
    "panda",
    "planar_2r",
    "planar_3r",
    "double_pendulum",
    "quadruped",
    "quadrotor",
    "delta",
    "four_bar",
]
TWO_LINKS = """<robot name="bad">
  <link name="base"/>
  <link name="arm"><inertial><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="5" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="hinge" type="revolute"><parent link="base"/><child link="arm"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
</robot>"""


def run(*args: str):
    return CliRunner().invoke(app, args)


@pytest.mark.parametrize("robot", GOOD)
def test_check_passes_on_every_built_in_robot(robot):
    result = run("check", robot, "--states", "20", "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 0, report
    assert report["passed"] is True
    assert len(report["checks"]) == 9


def test_check_prints_a_table():
    result = run("check")
    assert result.exit_code == 0
    assert "ur5e" in result.stdout
    assert result.stdout.count("pass") == 9


def test_check_fails_on_an_impossible_inertia(tmp_path):
    file = tmp_path / "bad.urdf"
    file.write_text(TWO_LINKS)
    result = run("check", str(file))
    assert result.exit_code == 1
    assert "impossible inertia" in result.stdout
    assert run("check", str(file), "--strict").exit_code == 2


def test_check_names_a_joint_without_inertia(tmp_path):
    file = tmp_path / "bad.urdf"
    file.write_text(
        TWO_LINKS.replace('value="1"', 'value="0"')
        .replace('"5"', '"0"')
        .replace('ixx="1" iyy="1"', 'ixx="0" iyy="0"')
    )
    report = json.loads(run("check", str(file), "--json").stdout)
    rows = {r["name"]: r for r in report["checks"]}
    assert rows["round trip"]["passed"] is None
    assert "hinge" in rows["positive definite"]["detail"]


def test_info_shows_structure_and_health():
    result = run("info", "panda")
    assert result.exit_code == 0
    assert "7 degrees of freedom" in " ".join(result.stdout.split())
    data = json.loads(run("info", "panda", "--json").stdout)
    assert [b["joint"] for b in data["bodies"]] == [f"panda_joint{i}" for i in range(1, 8)]
    assert data["nv"] == 7


def test_errors_are_one_message_and_exit_code_2():
    result = run("info", "pandaa")
    assert result.exit_code == 2
    assert "no robot 'pandaa'; closest: 'panda'" in result.stderr
    assert "Traceback" not in result.stderr
    assert run("check", "nowhere/robot.urdf").exit_code == 2


def test_robots_lists_names():
    assert set(GOOD) <= set(json.loads(run("robots", "--json").stdout))


def test_importing_is_light():
    """The core import leaves the heavy libraries alone."""
    code = (
        "import qddot, sys\n"
        "print({'casadi', 'mujoco', 'scipy', 'llvmlite'} & set(sys.modules), len(sys.modules))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    heavy, count = printed.split()
    assert heavy == "set()"
    # 357 on Python 3.11, most of them NumPy's and our own
    assert int(count) < 450


def test_starting_imports_nothing_heavy():
    heavy = {"scipy", "sympy", "mujoco", "casadi", "matplotlib", "trimesh"}
    code = f"import sys, qddot.cli; sys.exit(len({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_package_runs_as_a_module():
    found = subprocess.run(
        [sys.executable, "-m", "qddot", "--version"], capture_output=True, text=True, check=True
    )
    assert qddot.__version__ in found.stdout
