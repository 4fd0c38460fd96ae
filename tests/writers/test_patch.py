"""Values changed in the text of a file: nothing else of it changes."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from qddot.errors import DescriptionError, UnknownName
from qddot.loaders.named_robots import named_files
from qddot.writers.patch import Change, patch_values

URDF = """<?xml version='1.0' encoding="latin-1"?>
<!-- é > " ' -->\r
<robot name='r'  xmlns:x="u">
  <link name="a"/>
  <link name="b"><inertial><!-- 1 > 2 --><mass value = '1' />\t<inertia ixx="1"  iyy="2"
     izz="3"/></inertial>
  </link>
  <link name="c">
  </link>
  <joint name="b" type="revolute"><!-- the joint has the name of a link -->
    <parent link="a"/>
    <dynamics damping="0.1" x:note="a > b"/>
  </joint>
  <transmission name="t"><joint name="b"><dynamics damping="7"/></joint></transmission>
</robot>
"""
MJCF = """<mujoco>
  <default><joint name="j" damping="9"/></default>
  <worldbody>
    <body name="a"><joint name="j" damping="1"/>
      <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
      <body name="b"><inertial pos="0 0 0" mass="2" diaginertia="1 1 1"/></body>
    </body>
  </worldbody>
  <actuator><motor name="a" joint="j"/></actuator>
</mujoco>
"""


def test_only_the_value_changes():
    changed = patch_values(URDF, [Change("link", "b", "inertial/mass", "value", 2.5)])
    assert changed == URDF.replace("value = '1'", "value = '2.5'")
    changed = patch_values(URDF, [Change("joint", "b", "dynamics", "damping", 0.25)])
    assert changed == URDF.replace('damping="0.1"', 'damping="0.25"')
    changed = patch_values(MJCF, [Change("joint", "j", "", "damping", 3)])
    assert changed == MJCF.replace('damping="1"', 'damping="3"')
    changed = patch_values(MJCF, [Change("body", "b", "inertial", "pos", [0.5, 0, -1e-9])])
    assert changed == MJCF.replace('"0 0 0" mass="2"', '"0.5 0 -1e-09" mass="2"')


def test_several_changes_at_once_in_any_order():
    changes = [
        Change("link", "b", "inertial/inertia", "izz", 0.3),
        Change("link", "b", "inertial/inertia", "ixx", 0.1),
        Change("joint", "b", "dynamics", "damping", 5.0),
    ]
    expected = URDF.replace('izz="3"', 'izz="0.3"').replace('ixx="1"', 'ixx="0.1"')
    expected = expected.replace('damping="0.1"', 'damping="5"')
    assert patch_values(URDF, changes) == expected
    assert patch_values(URDF, changes[::-1]) == expected
    assert patch_values(URDF, []) == URDF


def test_what_is_missing_is_added():
    changes = [
        Change("link", "b", "inertial/inertia", "ixy", 1e-7),
        Change("link", "b", "inertial/origin", "xyz", (1, 2, 3.5)),
        Change("link", "a", "inertial/mass", "value", 1),
        Change("link", "a", "inertial/inertia", "ixx", 2),
        Change("link", "c", "inertial/mass", "value", 4),
        Change("joint", "b", "dynamics", "friction", 0.5),
    ]
    changed = patch_values(URDF, changes)
    root = ElementTree.fromstring(changed.split("?>", 1)[1].strip())
    found = {x.get("name"): x for x in root.findall("link")}
    assert found["b"].find("inertial/inertia").get("ixy") == "1e-07"
    assert found["b"].find("inertial/origin").get("xyz") == "1 2 3.5"
    assert found["a"].find("inertial/mass").get("value") == "1"
    assert found["a"].find("inertial/inertia").get("ixx") == "2"
    assert found["c"].find("inertial/mass").get("value") == "4"
    assert root.find("joint/dynamics").attrib["friction"] == "0.5"
    kept = [line for line in URDF.splitlines() if line not in changed.splitlines()]
    assert len(kept) <= 5


def test_numbers_are_read_back_exactly():
    for x in (0.1, 1 / 3, 1e-300, 123456789.123456789, 5.0, -0.0):
        changed = patch_values(URDF, [Change("link", "b", "inertial/mass", "value", x)])
        text = changed.split("<mass value = '")[1].split("'")[0]
        assert float(text) == x


def test_what_is_not_there_is_an_error():
    with pytest.raises(UnknownName, match="no <link> 'bb'; "):
        patch_values(URDF, [Change("link", "bb", "inertial/mass", "value", 1)])
    with pytest.raises(UnknownName):
        patch_values(MJCF, [Change("body", "j", "inertial", "mass", 1)])
    with pytest.raises(DescriptionError, match="not well-formed"):
        patch_values("<robot>", [Change("link", "b", "", "x", 1)])


def test_text_values_stay_well_formed():
    changed = patch_values(URDF, [Change("link", "b", "", "name", "<\"&'>")])
    root = ElementTree.fromstring(changed.split("?>", 1)[1].strip())
    assert "<\"&'>" in [x.get("name") for x in root.findall("link")]


@pytest.mark.parametrize("name", ["ur5e", "panda", "planar_3r", "quadruped", "delta"])
def test_writing_the_values_that_are_there_changes_nothing(name):
    file = named_files()[name]
    text = file.read_text()
    root = ElementTree.fromstring(text)
    kind = "link" if root.tag == "robot" else "body"
    changes = [
        Change(kind, x.get("name"), path, key, value)
        for x in root.iter(kind)
        for path in ("inertial", "inertial/mass", "inertial/inertia", "inertial/origin")
        for part in x.findall(path)
        for key, value in part.attrib.items()
    ]
    assert len(changes) > 5
    assert patch_values(text, changes) == text
