"""The built-in quadruped dropped on its four feet: statics, MuJoCo, and what a step costs."""

from __future__ import annotations

from functools import cache

import mujoco
import numpy as np
import pytest
from bare_rollouts import rollout
from native_cases import cold_cache  # noqa: F401

import qddot
from qddot.control import PD
from qddot.loaders import locate_source
from qddot.robot.robot import Robot
from qddot.simulate import Rollout
from qddot.simulate.contact import (
    ComplementarityContact,
    ContactLedger,
    PenaltyContact,
    Plane,
    Scene,
    Sphere,
    contact_ledger,
)

LEGS = ("FL", "FR", "RL", "RR")
FRICTION = 0.8
KP, KD = 100.0, 3.0
DROP = 0.03
SCENE = Scene(
    planes=[Plane()], spheres=[Sphere(f"{leg}_foot", 0.02) for leg in LEGS], friction=FRICTION
)


@cache
def robot() -> Robot:
    return Robot(qddot.load("quadruped").model, native=True)


@cache
def dropped(kind: str) -> tuple[Rollout, ContactLedger]:
    """The quadruped let go above the floor, with its posture held by feedback."""
    home = np.array(robot().model.configurations["home"])
    q = home + DROP * (np.arange(19) == 2)
    joints = np.arange(18) >= 6
    follow = {"q_ref": home, "v_ref": np.zeros(18)}
    how = {
        "complementarity": (1e-3, {"contact": ComplementarityContact(SCENE)}),
        "soft": (1e-3, {"effects": [PenaltyContact.soft(SCENE)]}),
        "hard": (1e-4, {"effects": [PenaltyContact.hard(SCENE)]}),
    }
    dt, law = how[kind]
    steps = round(3.0 / dt)
    found = rollout(
        robot(),
        q,
        np.zeros(18),
        dt=dt,
        steps=steps,
        every=steps // 600,
        feedback=PD(KP * joints, KD * joints),
        **follow,
        **law,
    )
    return found, contact_ledger(found)


@cache
def mujocos() -> np.ndarray:
    """Forces on the feet in MuJoCo, in the same scene with contact as stiff as it allows."""
    m = mujoco.MjModel.from_xml_path(str(locate_source("quadruped")))
    m.opt.timestep, m.opt.cone, m.opt.impratio = 1e-3, mujoco.mjtCone.mjCONE_ELLIPTIC, 1000.0
    m.dof_frictionloss[:], m.dof_damping[:] = 0.0, 0.0
    m.geom_friction[:, 0], m.geom_solref[:] = FRICTION, (0.004, 1.0)
    d = mujoco.MjData(m)
    mujoco.mj_resetDataKeyframe(m, d, 0)
    d.qpos[2] += DROP
    home = d.qpos[7:].copy()
    for _ in range(3000):
        d.qfrc_applied[6:] = KP * (home - d.qpos[7:]) - KD * d.qvel[6:]
        mujoco.mj_step(m, d)
    mujoco.mj_forward(m, d)
    forces, found = np.zeros((4, 3)), np.zeros(6)
    for k in range(d.ncon):
        mujoco.mj_contactForce(m, d, k, found)
        leg = m.geom(d.contact[k].geom[1]).name[:2]
        forces[LEGS.index(leg)] += d.contact[k].frame.reshape(3, 3).T @ found[:3]
    return forces


@pytest.mark.parametrize("kind", ["complementarity", "soft", "hard"])
def test_the_quadruped_comes_to_rest_on_its_feet(kind):
    found, ledger = dropped(kind)
    weight = robot().model.mass * 9.81
    assert found.status.label == "ok"
    np.testing.assert_allclose(ledger.total[-1], [0, 0, weight], atol=1e-3 * weight)
    assert np.abs(found.v[-1]).max() < 1e-2
    assert ledger.penetration < {"complementarity": 1e-6, "soft": 5e-3, "hard": 1e-4}[kind]
    assert ledger.cone_ratio.max() <= 1.0 + 1e-6
    assert (ledger.normal_force[-1] > 0.15 * weight).all()
    assert ledger.slip[-1].max() < 1e-4
    assert np.abs(ledger.newton).max() < 1e-9 * weight
    # it landed: more than its weight was carried at some time
    assert ledger.total[:, 2].max() > 1.5 * weight


def test_overlap_stays_below_a_millimetre_at_any_step():
    _, ledger = dropped("complementarity")
    assert ledger.gap.min() > -1e-3
    assert ledger.residual.max() < 1e-5


@pytest.mark.parametrize("kind", ["complementarity", "hard"])
def test_forces_are_those_of_mujoco(kind):
    forces = dropped(kind)[1].force[-1]
    off = np.linalg.norm(forces - mujocos(), axis=-1)
    assert (off < 0.02 * np.linalg.norm(forces, axis=-1)).all()


def test_what_a_step_costs():
    """Few enough operations for a million steps a second, by one core at 1.5e10 a second."""

    def operations(kind: str) -> int:
        return sum(dropped(kind)[0].step.kernel().facts["operations"].values())

    assert operations("soft") < 15_000
    assert operations("soft") < operations("complementarity") < 60_000
