"""Effort limits of MJCF: all that MuJoCo's actuators give a joint when driven to their ends."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import mujoco
import numpy as np
import pytest
from agreement import need_shared, shared_files
from typer.testing import CliRunner

import qddot
from qddot.cli import app
from qddot.writers import convert

BODY = (
    '<body name="a"><joint name="j" {joint}/><inertial pos="0 0 0" mass="1" '
    'diaginertia="1 1 1"/>{more}</body>'
)
TENDON = '<tendon><fixed name="t"><joint joint="j" coef="2"/></fixed></tendon>'
LIMITED = {
    "motor by force": ('<motor joint="j" forcerange="-3 5"/>', "", 5.0),
    "motor by control": ('<motor joint="j" ctrlrange="-2 1"/>', "", 2.0),
    "gear": ('<motor joint="j" ctrlrange="-2 1" gear="-50"/>', "", 100.0),
    "gear of a force": ('<motor joint="j" forcerange="-2 1" gear="30"/>', "", 60.0),
    "the smaller of both": ('<motor joint="j" ctrlrange="-9 9" forcerange="-4 4"/>', "", 4.0),
    "gain": ('<general joint="j" gainprm="7" ctrlrange="-1 1" gear="3"/>', "", 21.0),
    "constant bias": (
        '<general joint="j" gainprm="2" biastype="affine" biasprm="3" ctrlrange="-1 1"/>', "", 5.0,
    ),
    "joint": ("", 'actuatorfrcrange="-5 7"', 7.0),
    "below the motor": ('<motor joint="j" ctrlrange="-9 9"/>', 'actuatorfrcrange="-5 7"', 7.0),
    "above the motor": ('<motor joint="j" ctrlrange="-2 2"/>', 'actuatorfrcrange="-5 7"', 2.0),
    "joint of a free motor": ('<motor joint="j"/>', 'actuatorfrcrange="-5 7"', 7.0),
    "position": ('<position joint="j" kp="50" forcerange="-8 8" gear="2"/>', "", 16.0),
    "velocity": ('<velocity joint="j" kv="50" forcerange="-8 6"/>', "", 8.0),
    "filter": (
        '<general joint="j" dyntype="filterexact" dynprm="0.001" gainprm="4" ctrlrange="1 3"/>',
        "", 12.0,
    ),
    "integrator": (
        '<general joint="j" dyntype="integrator" gainprm="4" actlimited="true" actrange="-2 1" '
        'ctrlrange="-9999 9999"/>', "", 8.0,
    ),
    "in the parent": ('<motor jointinparent="j" ctrlrange="-2 2" gear="4"/>', "", 8.0),
    "two": (
        '<motor joint="j" ctrlrange="-2 2" gear="4"/><motor joint="j" forcerange="-1 3"/>',
        "", 11.0,
    ),
    "antagonists": (
        '<motor joint="j" ctrlrange="0 6"/><motor joint="j" ctrlrange="0 6" gear="-1"/>', "", 6.0,
    ),
    "a group that is off": (
        '<motor joint="j" ctrlrange="-2 2"/><motor joint="j" ctrlrange="-9 9" group="3"/>', "", 2.0,
    ),
    "slide": ('<motor joint="j" ctrlrange="-2 2"/>', 'type="slide"', 2.0),
}  # fmt: skip
UNLIMITED = {
    "no actuator": ("", ""),
    "free control": ('<motor joint="j"/>', ""),
    "position in a range": ('<position joint="j" ctrlrange="-1 1"/>', ""),
    "one of two": ('<motor joint="j" ctrlrange="-2 2"/><motor joint="j"/>', ""),
    "no gear": ('<motor joint="j" ctrlrange="-2 2" gear="0"/>', ""),
    "limits that are off": ('<motor joint="j" ctrllimited="false" ctrlrange="-2 2"/>', ""),
    "activation without end": ('<general joint="j" dyntype="integrator" ctrlrange="-2 2"/>', ""),
    "muscle": ('<muscle joint="j" ctrlrange="0 1" lengthrange="0 1"/>', ""),
}


def text(actuators: str, joint: str = "", rest: str = "", more: str = "") -> str:
    body = BODY.format(joint=joint, more=more)
    option = '<option gravity="0 0 0" actuatorgroupdisable="3"/>'
    return (
        f'<mujoco model="m"><compiler angle="radian"/>{option}<worldbody>{body}</worldbody>{rest}'
        f"<actuator>{actuators}</actuator></mujoco>"
    )


def strongest(m: mujoco.MjModel, dof: int) -> float:
    """The largest effort on a joint that MuJoCo shows, with every actuator driven to its ends."""
    most = 0.0
    for ends in itertools.product((-1e9, 1e9), repeat=m.nu):
        data = mujoco.MjData(m)
        data.ctrl[:] = ends
        for _ in range(20):
            mujoco.mj_step(m, data)
            most = max(most, abs(float(data.qfrc_actuator[dof])))
    return most


@pytest.fixture
def load(tmp_path):
    def from_text(content: str) -> qddot.Robot:
        file = tmp_path / "robot.xml"
        file.write_text(content)
        return qddot.load(file)

    return from_text


def effort(robot: qddot.Robot, joint: str = "j") -> float:
    (found,) = [b.joint.limits.effort for b in robot.model.bodies if b.joint.name == joint]
    return found


@pytest.mark.parametrize("case", LIMITED)
def test_limits_are_those_of_mujoco(load, case):
    actuators, joint, expected = LIMITED[case]
    content = text(actuators, joint)
    robot = load(content)
    assert effort(robot) == pytest.approx(expected, rel=1e-12)
    assert not [f for f in robot.health if f.kind == "actuators"]
    if actuators:
        shown = strongest(mujoco.MjModel.from_xml_string(content), 0)
        assert shown == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("case", UNLIMITED)
def test_what_has_no_limit_has_none(load, case):
    assert effort(load(text(*UNLIMITED[case]))) == math.inf


def test_clamping_can_be_off(load):
    content = text('<motor joint="j" ctrlrange="-2 2"/>').replace(
        "<worldbody>", '<option><flag clampctrl="disable"/></option><worldbody>'
    )
    assert effort(load(content)) == math.inf


def test_other_transmissions_are_left_out_and_said(load):
    more = '<site name="s"/><body><joint name="b" type="ball"/><geom size="0.1"/></body>'
    actuators = (
        '<motor joint="j" ctrlrange="-2 2"/><motor name="pull" tendon="t" ctrlrange="-1 1"/>'
        '<motor name="jet" site="s" forcerange="-1 1"/><motor joint="b" ctrlrange="-1 1"/>'
        '<motor name="free" tendon="t"/>'
    )
    robot = load(text(actuators, rest=TENDON, more=more))
    assert effort(robot) == 2.0
    (finding,) = [f for f in robot.health if f.kind == "actuators"]
    assert (finding.severity, finding.subject) == ("info", "3 actuators")
    assert finding.message.startswith("'pull', 'jet', 'actuator3' do not act on one hinge or slide")


def test_limits_that_are_no_numbers_are_refused(load):
    for attribute in ("forcerange", "ctrlrange", "actrange"):
        with pytest.raises(qddot.QddotError, match="is not finite"):
            load(text(f'<general joint="j" {attribute}="nan 1"/>'))


def test_compiled_models_and_specs_have_them_too(tmp_path):
    content = text('<motor joint="j" ctrlrange="-2 2" gear="4"/>')
    for given in (mujoco.MjModel.from_xml_string(content), mujoco.MjSpec.from_string(content)):
        assert effort(qddot.load(given)) == 8.0


def test_commands_and_conversions_use_them(tmp_path):
    file = tmp_path / "robot.xml"
    file.write_text(text('<motor joint="j" ctrlrange="-2 2" gear="4"/>', 'range="-1 1"'))

    def run(*args: str) -> dict:
        result = CliRunner().invoke(app, [*args, "--json"])
        assert result.exit_code in (0, 1), result.output
        return json.loads(result.stdout)

    (body,) = run("info", str(file))["bodies"]
    assert body["limits"]["effort"] == 8.0
    assert run("size", str(file), "--samples", "50")["joints"][0]["rating"] == 8.0
    for name in ("back.urdf", "back.xml"):
        assert convert(file, tmp_path / name).written
        assert effort(qddot.load(tmp_path / name)) == 8.0


@pytest.mark.parametrize("file", shared_files("menagerie/*.xml"), ids=lambda f: f.stem)
def test_public_robots_reach_their_limits_and_not_more(file: Path):
    robot, m = qddot.load(file), mujoco.MjModel.from_xml_path(str(file))
    efforts = {b.joint.name: b.joint.limits.effort for b in robot.model.bodies}
    most = np.zeros(m.nv)
    # far from where they are told to go, servos give all they have
    for end, place in itertools.product((-1e9, 1e9), (-1e6, 1e6)):
        data = mujoco.MjData(m)
        data.ctrl[:], data.act[:] = end, end
        single = m.jnt_type >= 2
        data.qpos[m.jnt_qposadr[single]] = place
        for run in (mujoco.mj_fwdPosition, mujoco.mj_fwdVelocity, mujoco.mj_fwdActuation):
            run(m, data)
        most = np.maximum(most, np.abs(data.qfrc_actuator))
    direct = {int(m.actuator_trnid[a, 0]) for a in range(m.nu) if m.actuator_trntype[a] == 0}
    for j in direct:
        found, shown = efforts[m.joint(j).name], most[m.jnt_dofadr[j]]
        assert shown == pytest.approx(found, rel=1e-6) if found < math.inf else shown > 1e5


def test_the_public_robots_were_there():
    need_shared(shared_files("menagerie/*.xml"))
