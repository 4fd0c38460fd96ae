"""Rollouts in files: continued bit by bit, and whatever is no such file refused in words."""

from __future__ import annotations

import contextlib
import json
import zipfile
from dataclasses import dataclass

import numpy as np
import pytest
from bare_rollouts import make_simulator, rollout

import qddot
from qddot import constraints, control
from qddot.errors import CannotWrite, DescriptionError, InvalidArgument
from qddot.robot.robot import Robot
from qddot.simulate import load, load_trajectory
from qddot.simulate.contact import ComplementarityContact, Scene
from qddot.simulate.contact.scene import Plane, Sphere
from qddot.simulate.drivetrain import (
    Backlash,
    Delay,
    DifferencedVelocity,
    Friction,
    Gear,
    Limit,
    LuGre,
    MotorConstant,
    Noise,
    Quantisation,
    TorqueSpeedLimit,
    coulomb,
)

FUNCTION = ["qddot.model.links", "unit_axis"]
ARM = qddot.load("planar_2r")


@dataclass(frozen=True)
class OwnLaw:
    """A law of a user's own."""

    def references(self, robot):
        return {}

    def senses(self, robot):
        return ()

    def memory(self, robot):
        return {}

    def command(self, robot, state, reference, memory):
        return -2.0 * state.v, {}


def saved(motion, tmp_path):
    """The rollout after its way through a file."""
    return load(motion.save(tmp_path / "motion.npz", force=True))


def assert_continues(motion, again, **inputs):
    for one, other in zip(
        (motion, motion.resume(steps=6, **inputs)),
        (again, again.resume(steps=6, **inputs)),
        strict=True,
    ):
        for name in ("time", "q", "v", "tau"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        for a, b in zip(one.effect_states, other.effect_states, strict=True):
            np.testing.assert_array_equal(a, b)
    assert again.step._key() == motion.step._key()


def test_effects_sensors_and_law_continue(tmp_path):
    motion = rollout(
        ARM,
        np.zeros((3, 2)),
        [0.1, 0.2],
        dt=1e-3,
        steps=8,
        every=2,
        effects=[Friction(coulomb(np.array([0.1, 0.2, 0.3]))), Delay(2)],
        sensors=[Noise(position=1e-4, seed=np.arange(3))],
        feedback=control.PD(np.array([9.0, 8.0]), np.ones((3, 2))),
        q_ref=[0.3, 0.1],
        v_ref=[0.0, 0.0],
        parameters={"armature": np.full((2, 1), 0.01)},
    )
    assert_continues(motion, saved(motion, tmp_path), q_ref=[0.3, 0.1], v_ref=[0.0, 0.0])


PAIR = np.array([1.0, 2.0])


@pytest.mark.parametrize(
    ("effects", "sensors"),
    [
        ((Limit(PAIR),), ()),
        ((Gear(10.0 * PAIR, efficiency=0.4 * PAIR),), ()),
        ((Gear(5.0, motor=(Friction(coulomb(0.1 * PAIR)),)),), ()),
        ((MotorConstant(PAIR),), ()),
        ((TorqueSpeedLimit(PAIR, 3.0),), ()),
        ((Friction(coulomb(0.1), smoothing=0.1 * PAIR),), ()),
        ((LuGre(coulomb(0.2), 1e3 * PAIR, PAIR),), ()),
        ((), (Noise(1e-3 * PAIR, 1e-3),)),
        ((), (Quantisation(1e-3 * PAIR),)),
        ((), (DifferencedVelocity(50.0 * PAIR),)),
    ],
    ids=lambda parts: "-".join(type(part).__name__ for part in parts),
)
def test_array_parameters_continue(tmp_path, effects, sensors):
    law = {"feedback": control.PD(1.0, 1.0), "q_ref": [0.3, 0.1], "v_ref": [0.0, 0.0]}
    inputs = {name: x for name, x in law.items() if name != "feedback"}
    motion = rollout(
        ARM, np.zeros((2, 2)), np.ones(2), dt=1e-3, steps=5, effects=effects, sensors=sensors, **law
    )
    assert_continues(motion, saved(motion, tmp_path), **inputs)


@pytest.mark.parametrize("gap", [0.01 * PAIR, {"joint1": 0.01 * PAIR}], ids=["all", "one"])
def test_array_parameters_of_backlash_continue(tmp_path, gap):
    soft = ARM.with_flexible_joints(stiffness=1e3, motor_inertia=0.1)
    teeth = Backlash(gap, 1e3, PAIR)
    start = np.zeros((2, soft.nq))
    motion = rollout(soft, start, np.ones(soft.nv), dt=1e-4, steps=5, effects=[teeth])
    assert_continues(motion, saved(motion, tmp_path))


def test_single_precision_and_bristles_continue(tmp_path):
    start = np.array([0.3, -0.2], np.float32)
    motion = rollout(ARM, start, start, dt=1e-3, steps=4, effects=[LuGre(coulomb(0.2), 1e3, 1.0)])
    again = saved(motion, tmp_path)
    assert again.q.dtype == np.float32
    assert_continues(motion, again)


def test_loops_continue(tmp_path):
    bars = qddot.load("four_bar")
    bars = constraints.with_loops(bars, constraints.independent(bars))
    q0 = constraints.assemble(bars, [2.0, -1.2, 0.0])
    motion = rollout(bars, q0, np.zeros(3), dt=1e-3, steps=4)
    assert_continues(motion, saved(motion, tmp_path))


def test_contact_continues(tmp_path):
    drop = Robot(qddot.load("quadrotor").model)
    frame = drop.body_names[0]
    scene = Scene(planes=[Plane()], spheres=[Sphere(frame, 0.1)])
    q0 = drop.neutral()
    q0[2] = 0.0999
    motion = rollout(drop, q0, np.zeros(6), dt=1e-3, steps=4, contact=ComplementarityContact(scene))
    assert motion.effect_states[-1].any()
    assert_continues(motion, saved(motion, tmp_path))


def test_what_is_repeated_is_written_once(tmp_path):
    motion = rollout(ARM, [0.1, 0.2], [0, 0], dt=1e-3, steps=30)
    file = motion.save(tmp_path / "long.npz")
    with np.load(file) as archive:
        assert archive["tau"].shape == (1, 2)
        header = json.loads(archive["header"].item())
    assert load_trajectory(file)["tau"].shape == (30, 2)
    assert header["qddot"] == qddot.__version__
    assert header["digest"] == ARM.model.digest


def test_a_law_of_a_users_own_needs_its_simulator(tmp_path):
    sim = make_simulator(ARM, dt=1e-3, feedback=OwnLaw())
    motion = sim.rollout([0.1, 0.2], [1.0, 0], steps=4)
    file = motion.save(tmp_path / "own.npz")
    with pytest.raises(DescriptionError, match=r"class .*OwnLaw.*simulator="):
        load(file)
    assert_continues(motion, load(file, sim))
    with pytest.raises(DescriptionError, match=r"of the robot 'planar_2r' .* 'double_pendulum'"):
        load(file, make_simulator(qddot.load("double_pendulum"), dt=1e-3))
    with pytest.raises(DescriptionError, match="another feedback"):
        load(file, make_simulator(ARM, dt=1e-3))


def test_nothing_is_overwritten_and_nothing_left_half(tmp_path, monkeypatch):
    motion = rollout(ARM, [0.1, 0.2], [0, 0], dt=1e-3, steps=4)
    file = motion.save(tmp_path / "motion.npz")
    before = file.read_bytes()
    with pytest.raises(CannotWrite, match="exists"):
        motion.save(file)
    monkeypatch.setattr(np, "savez", _write_some)
    with pytest.raises(CannotWrite):
        motion.save(file, force=True)
    assert file.read_bytes() == before
    assert [f.name for f in tmp_path.iterdir()] == ["motion.npz"]
    with pytest.raises(InvalidArgument, match=r"ends in \.npz"):
        motion.save(tmp_path / "motion.pickle")


def _write_some(file, **arrays):
    file.write_bytes(b"PK")
    raise OSError(28, "No space left on device")


def test_truncated_and_damaged_files_are_refused(tmp_path):
    motion = rollout(ARM, [0.1, 0.2], [0, 0], dt=1e-3, steps=4)
    file, bad = motion.save(tmp_path / "motion.npz"), tmp_path / "bad.npz"
    whole = file.read_bytes()
    for size in (0, 1, len(whole) // 2, len(whole) - 1):
        bad.write_bytes(whole[:size])
        with pytest.raises(DescriptionError, match=r"bad\.npz"):
            load(bad)
    # a byte of the data itself: the archive has a sum of each array
    place = whole.index(motion.q.tobytes())
    bad.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    with pytest.raises(DescriptionError, match="CRC"):
        load(bad)
    # anywhere else: an error in words, or the same rollout
    for place in range(0, len(whole), len(whole) // 40):
        bad.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        with contextlib.suppress(DescriptionError):
            np.testing.assert_array_equal(load(bad).q, motion.q)
    with pytest.raises(DescriptionError):
        load(tmp_path / "none.npz")


def _rewrite_header(file, target, change):
    """The archive with another header."""
    with np.load(file) as archive:
        arrays = dict(archive)
    header = json.loads(arrays["header"].item())
    change(header)
    np.savez(target, **{**arrays, "header": np.array(json.dumps(header).encode())})
    return target


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda h: h.update(form_version=1),
            "version 1 of qddot .*; this one reads 2: save it again",
        ),
        (lambda h: h.update(form="other"), "'other'"),
        (lambda h: h["step"]["model"].update({"class": ["subprocess", "Popen"]}), "no part"),
        (
            lambda h: h["step"]["model"].update({"class": ["qddot.model.links", "unit_axis"]}),
            "no part",
        ),
        (lambda h: h["step"].update(integrator="rk4"), "integrator cannot be made again"),
        (lambda h: h["step"]["model"]["fields"].update(bodies=7), "cannot be made"),
        (lambda h: h["counts"].update(input=1), "damaged"),
        (lambda h: h.update(dt="soon"), "damaged"),
        (lambda h: h.pop("every"), "damaged"),
    ],
)
def test_foreign_headers_are_refused(tmp_path, change, words):
    motion = rollout(ARM, [0.1, 0.2], [0, 0], dt=1e-3, steps=4)
    file = motion.save(tmp_path / "motion.npz")
    with pytest.raises(DescriptionError, match=words):
        load(_rewrite_header(file, tmp_path / "other.npz", change))


@pytest.mark.parametrize("name", ["time", "q", "input_0"])
def test_arrays_that_are_no_numbers_are_refused(tmp_path, name):
    motion = rollout(ARM, np.zeros(2), np.zeros(2), np.ones((4, 2)), dt=1e-3, steps=4)
    file = motion.save(tmp_path / "motion.npz")
    with np.load(file) as archive:
        arrays = {key: archive[key] for key in archive.files}
    key = next(k for k in arrays if k.startswith("input_")) if name == "input_0" else name
    arrays[key] = arrays[key].astype(str)
    np.savez(file, **arrays)
    with pytest.raises(DescriptionError, match=r"not .*numbers"):
        load(file)


def test_foreign_archives_are_refused(tmp_path):
    file = tmp_path / "other.npz"
    np.savez(file, time=[0.0], q=[[0.0]], v=[[0.0]], tau=[[0.0]])
    with pytest.raises(DescriptionError, match="no rollout that could continue"):
        load(file)
    np.savez(file, np.array([{}], object))
    with pytest.raises(DescriptionError):
        load(file)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("q.npy", b"\x93NUMPY")
    with pytest.raises(DescriptionError):
        load(file)


def test_a_rollout_of_another_engine_is_kept_and_does_not_continue(tmp_path):
    time, q = np.arange(3.0), np.zeros((3, 2))
    motion = qddot.simulate.Rollout(time=time, q=q, v=q, tau=q[:2], dt=1.0, integrator="mujoco")
    again = saved(motion, tmp_path)
    np.testing.assert_array_equal(again.q, q)
    with pytest.raises(InvalidArgument, match="of mujoco"):
        again.resume(steps=1)
