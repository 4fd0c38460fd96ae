"""What a file has and no rollout does is named in health and in the notes of rollouts."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import qddot
from qddot import simulate

INERTIAL = '<inertial pos="0 0 .1" mass="1" diaginertia="1 1 1"/>'
TOP = """<actuator><motor joint="j"/><position joint="j" kp="10"/><velocity joint="j"/>
<motor site="s" gear="0 0 1 0 0 0"/><motor tendon="t"/></actuator>
<tendon><fixed name="t"><joint joint="j" coef="1"/></fixed></tendon>"""
NAMED = [
    ("1 actuator", "act at sites or bodies, as rotors do: their forces are left out"),
    ("2 actuators", "have feedback of their own, as servos do: a law takes their place"),
    ("1 actuator", "act on no single hinge or slide: their forces are left out"),
    ("1 tendon", "left out: no force acts through them"),
]


def mjcf(top: str = "", body: str = "") -> str:
    link = f'<body name="b" {body}><joint name="j"/>{INERTIAL}<site name="s"/></body>'
    return f"<mujoco><worldbody>{link}</worldbody>{top}</mujoco>"


URDF = """<robot name="r"><link name="a"/>{}</robot>"""
SDF = '<sdf version="1.9"><model name="m"><link name="a"/>{}</model></sdf>'
CASES = {
    "MJCF": (".xml", mjcf(TOP), NAMED),
    "URDF": (
        ".urdf",
        URDF.format(
            '<transmission name="t"/><transmission name="u"/>'
            '<gazebo><plugin name="p" filename="x.so"/></gazebo><gazebo reference="a"/>'
        ),
        [
            ("2 transmissions", "left out: torques are those of joints, after the gears"),
            ("1 plugin", "left out: their code is not run"),
        ],
    ),
    "SDF": (
        ".sdf",
        SDF.format('<plugin name="p" filename="x.so"/>'),
        [("model 'm'", "<plugin> on line 1 is ignored")],
    ),
    "MJCF with nothing of it": (".xml", mjcf('<actuator><motor joint="j"/></actuator>'), []),
    "URDF with nothing of it": (".urdf", URDF.format(""), []),
    "SDF with nothing of it": (".sdf", SDF.format(""), []),
}


@pytest.mark.parametrize(("suffix", "text", "named"), CASES.values(), ids=CASES)
def test_what_no_rollout_does_is_named(tmp_path, suffix, text, named):
    file = tmp_path / f"robot{suffix}"
    file.write_text(text)
    # it is told, and not warned of
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        robot = qddot.load(file)
    left = [f for f in robot.health if f.kind == "left out"]
    assert [(f.subject, f.message) for f in left] == named
    assert all(f.severity == "info" for f in left)
    if robot.nv:
        q, v = robot.neutral(), np.zeros(robot.nv)
        notes = simulate.rollout(robot, q, v, dt=1e-3, steps=2).status.notes
        assert [f"{subject}: {message}" for subject, message in named] == [
            note for note in notes if any(message in note for _, message in named)
        ]


def test_compensation_of_gravity_and_fluids_are_in_the_notes(tmp_path):
    file = tmp_path / "robot.xml"
    file.write_text(mjcf('<option density="1.2" viscosity="2e-5"/>', 'gravcomp="1"'))
    with pytest.warns(UserWarning, match="gravcomp 1 is ignored"):
        robot = qddot.load(file)
    notes = simulate.rollout(robot, [0.0], [0.0], dt=1e-3, steps=2).status.notes
    assert "body 'b': gravcomp 1 is ignored" in notes
    assert "option: forces of the surrounding fluid are ignored" in notes
