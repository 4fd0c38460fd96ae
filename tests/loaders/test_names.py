"""Robots by name: built-in, of example-robot-data, and of mujoco-menagerie."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import qddot
from qddot.errors import InvalidArgument
from qddot.loaders.named_robots import named_files

ROBOTS = Path(qddot.__file__).parent / "robots"


def test_names_of_files_that_share_a_name_come_from_their_folder():
    names = set(qddot.robot_names())
    assert {"anymal_b_simple", "anymal_c_simple", "ur5_robot", "talos_reduced"} <= names
    assert "anymal" not in names
    assert named_files()["panda"].parent == ROBOTS
    with pytest.raises(qddot.QddotError, match="no robot 'anymal'; closest: 'anymal"):
        qddot.load("anymal")


@pytest.fixture
def menagerie(tmp_path, monkeypatch):
    """A package that behaves as mujoco-menagerie does: names at once, files on demand."""
    package = tmp_path / "mujoco_menagerie"
    package.mkdir()
    (package / "__init__.py").write_text(
        f"""
import pathlib
class Robot:
    default_model = "quadruped"
    def __init__(self, name): self.name = name
    def xml(self, entry):
        if self.name == "offline": raise OSError("no network")
        return pathlib.Path({str(ROBOTS)!r}) / (entry + ".xml")
def names(): return ["some_dog", "offline"]
def get(name): return Robot(name)
"""
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("mujoco_menagerie", None)


def test_a_menagerie_robot_is_fetched_by_its_package(menagerie):
    assert {"some_dog", "offline"} <= set(qddot.robot_names())
    assert qddot.load("some_dog").nv == 18


def test_a_failed_download_is_one_clear_error(menagerie):
    with pytest.raises(
        qddot.QddotError, match="offline: mujoco-menagerie cannot provide it: no net"
    ):
        qddot.load("offline")


def test_an_empty_name_is_no_folder():
    with pytest.raises(InvalidArgument) as refused:
        qddot.load("")
    assert str(refused.value) == (
        "source: '' is not understood; it is a file, or a name that `qddot robots` lists"
    )
