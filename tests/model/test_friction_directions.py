"""Coulomb friction of a model that differs by direction: torques, simulation, parameters, files."""

from __future__ import annotations

import numpy as np
import pytest
from bare_rollouts import rollout

import qddot
from qddot.analysis.port_hamiltonian import port_hamiltonian
from qddot.errors import InvalidArgument, InvalidModel
from qddot.model.assembly import assemble
from qddot.model.friction_models import friction_of
from qddot.model.joints import JOINTS, Drivetrain, Joint
from qddot.model.links import Coupling, Link
from qddot.robot.robot import Robot
from qddot.simulate import drivetrain
from qddot.spatial.algebra import Inertia, Sym3, Transform, Vec3
from qddot.verify.compare.align import align
from qddot.verify.compare.parameters import PARAMETER_STAGES
from qddot.writers import convert, write_parameters

X = Vec3(1.0, 0.0, 0.0)
AHEAD, BACK, VISCOUS = 3.0, 1.0, 0.25


def slide(drive: Drivetrain, mass: float = 2.0, pull: float = 0.0, sign: float = 1.0) -> Robot:
    """A block on a slide along x, which gravity pulls along."""
    joint = Joint("j", JOINTS["prismatic"], (X * sign,), drivetrain=drive)
    body = Inertia.at_com(mass, Vec3.zero(), Sym3.diagonal(mass, mass, mass))
    link = Link("block", None, Transform.identity(), joint, body)
    return Robot(assemble("block", [link], gravity=Vec3(pull, 0.0, 0.0)))


DRIVE = Drivetrain(friction=AHEAD, backward_friction=BACK, damping=VISCOUS)


def test_the_level_is_that_of_the_direction():
    robot = slide(DRIVE)
    v = np.array([[2.0], [-2.0], [0.0]])
    wanted = np.array([[AHEAD + 2.0 * VISCOUS], [-BACK - 2.0 * VISCOUS], [0.0]])
    for native in (True, False):
        found = Robot(robot.model, native).friction(np.zeros((3, 1)), v)
        np.testing.assert_array_equal(found, wanted)
    f = robot.casadi("friction")
    assert [float(f(0.0, x[0])) for x in v] == wanted[:, 0].tolist()
    tau = robot.inverse_dynamics(np.zeros((3, 1)), v, np.zeros((3, 1)), friction=True)
    np.testing.assert_array_equal(tau, wanted)
    # an infinitesimal change of speed changes no level
    assert robot.friction([0.0], [-2.0 + 1e-30j]).imag == pytest.approx(VISCOUS * 1e-30)


def test_one_level_is_for_both_directions():
    same = slide(Drivetrain(friction=AHEAD))
    assert same.friction([0.0], [-1.0])[0] == -AHEAD
    only = slide(Drivetrain(backward_friction=BACK))
    assert [only.friction([0.0], [x])[0] for x in (1.0, -1.0)] == [0.0, -BACK]


def test_a_follower_that_turns_the_other_way():
    """The follower moves by −2 v: forward for it is backward for its leader."""
    body = Inertia.at_com(1.0, Vec3.zero(), Sym3.diagonal(1.0, 1.0, 1.0))
    make = JOINTS["prismatic"]
    links = [
        Link("a", None, Transform.identity(), Joint("a", make, (X,)), body),
        Link("b", None, Transform.identity(), Joint("b", make, (X,), drivetrain=DRIVE), body),
    ]
    robot = Robot(assemble("pair", links, couplings=[Coupling("b", "a", -2.0, 0.0)]))
    assert robot.friction([0.0], [1.0])[0] == pytest.approx(2 * (BACK + 2 * VISCOUS))
    assert robot.friction([0.0], [-1.0])[0] == pytest.approx(-2 * (AHEAD + 2 * VISCOUS))
    # so it holds 2 · 1 N against a push forward and 2 · 3 N backward
    for push, sticks in ((1.9, True), (2.1, False), (-5.9, True), (-6.1, False)):
        found = rollout(
            robot, [0.0], [0.0], np.full((20, 1), push), dt=1e-3, steps=20,
            effects=[drivetrain.ModelLosses()],
        )  # fmt: skip
        assert (found.v[-1, 0] == 0.0) == sticks, push


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    ("push", "acceleration"),
    [(2.9, 0.0), (3.5, (3.5 - AHEAD) / 2), (-0.9, 0.0), (-2.0, -(2.0 - BACK) / 2)],
)
def test_the_band_in_which_it_sticks(native, push, acceleration):
    """At rest it holds any push from −1 N to 3 N; beyond, the block accelerates by the excess."""
    robot = Robot(slide(Drivetrain(friction=AHEAD, backward_friction=BACK)).model, native)
    found = rollout(
        robot, [0.4], [0.0], np.full((50, 1), push), dt=1e-3, steps=50,
        effects=[drivetrain.ModelLosses()],
    )  # fmt: skip
    np.testing.assert_allclose(found.v[:, 0], acceleration * found.time, atol=1e-13)
    if acceleration == 0.0:
        assert (found.q == 0.4).all()


@pytest.mark.parametrize("start", [1.0, -1.0])
def test_sliding_to_rest_either_way(start):
    level = AHEAD if start > 0 else BACK
    made = slide(Drivetrain(friction=AHEAD, backward_friction=BACK))
    robot = Robot(made.model, native=True)
    found = rollout(robot, [0.0], [start], dt=1e-3, steps=2500, effects=[drivetrain.ModelLosses()])
    stop = 2.0 / level
    moving = found.time < stop
    closed = start - np.sign(start) * level / 2.0 * found.time[moving]
    np.testing.assert_allclose(found.v[moving, 0], closed, atol=1e-12)
    assert (found.v[found.time >= stop + 1e-3] == 0.0).all()


def test_energy_that_is_lost_by_direction():
    """R v of the port-Hamiltonian form is the friction itself, both ways."""
    robot = slide(DRIVE)
    for v in (0.7, -0.7):
        R = port_hamiltonian(robot, np.zeros(1), np.array([v]), friction=True).R
        assert (R[-1, -1] * v) == pytest.approx(robot.friction([0.0], [v])[0])


def test_levels_as_inputs():
    robot = slide(DRIVE)
    v = np.array([[2.0], [-2.0]])
    one = robot.compile("friction", parameters=["friction"])
    # damping, one level for both directions, stiffness
    np.testing.assert_array_equal(one(np.zeros(1), v, [[0.5, 4.0, 0.0]]), [[5.0], [-5.0]])
    two = robot.compile("friction", parameters=["directional_friction"])
    # damping, forward, backward, stiffness
    np.testing.assert_array_equal(two(np.zeros(1), v, [[0.5, 4.0, 6.0, 0.0]]), [[5.0], [-7.0]])
    with pytest.raises(InvalidArgument, match="directional_friction"):
        robot.compile("friction", parameters=["friction", "directional_friction"])
    with pytest.raises(InvalidArgument, match="friction=True"):
        robot.compile("inverse_dynamics", parameters=["directional_friction"])


def test_the_law_of_a_joint():
    law = friction_of(DRIVE)
    assert (law.forward.coulomb, law.backward.coulomb) == (AHEAD, BACK)
    assert not law.symmetric
    assert friction_of(Drivetrain(friction=AHEAD)).symmetric


def test_what_is_refused():
    with pytest.raises(InvalidModel, match="negative backward friction -1"):
        slide(Drivetrain(backward_friction=-1.0))
    with pytest.raises(InvalidModel, match="not a finite number"):
        slide(Drivetrain(backward_friction=np.nan))


@pytest.mark.parametrize("suffix", ["urdf", "xml"])
def test_files_cannot_say_it_and_convert_names_it(suffix, tmp_path):
    result = convert(slide(DRIVE), tmp_path / f"block.{suffix}")
    (found,) = [x for x in result.losses if x.kind == "friction"]
    assert found.dynamics
    assert "both directions" in found.message
    assert found.items == ("3 forward, 1 backward at 'j'",)
    assert result.written
    assert not result.exact
    read = qddot.load(tmp_path / f"block.{suffix}").model.bodies[0].joint.drivetrain
    assert read.friction == pytest.approx(2.0)


def test_parameters_written_into_a_file_say_what_is_lost(tmp_path):
    file = tmp_path / "block.urdf"
    convert(slide(Drivetrain(friction=2.0, damping=VISCOUS)), file)
    result = write_parameters(slide(DRIVE), file, tmp_path / "new.urdf")
    assert any("one friction for both directions" in note for note in result.notes)


def test_comparison_sees_directions_and_reversed_axes():
    (stage,) = [s for s in PARAMETER_STAGES if s.name == "friction"]

    def differences(a, b):
        found = align(a.model, a.model, b.model)
        return [d.message for d in stage.differences(found.a, found.b_in_frames_of_a, 1e-9)]

    plain = slide(Drivetrain(friction=AHEAD, damping=VISCOUS))
    assert differences(slide(DRIVE), plain) == ["dry friction backward 1 N m in @A, 3 in @B"]
    # the same block with its axis the other way
    turned = Drivetrain(friction=BACK, backward_friction=AHEAD, damping=VISCOUS)
    assert differences(slide(DRIVE), slide(turned, sign=-1.0)) == []
    assert len(differences(slide(DRIVE), slide(DRIVE, sign=-1.0))) == 2


def test_a_pinocchio_model_keeps_its_directions():
    pin = pytest.importorskip("pinocchio")
    model = pin.buildSampleModelManipulator()
    if not hasattr(model, "lowerDryFrictionLimit"):
        pytest.skip("this Pinocchio has one dry friction for both directions")
    model.upperDryFrictionLimit = np.full(model.nv, 0.4)
    model.lowerDryFrictionLimit = np.full(model.nv, -0.1)
    robot = qddot.load(model)
    found = (
        robot.friction(robot.neutral(), np.ones(model.nv)),
        robot.friction(robot.neutral(), -np.ones(model.nv)),
    )
    np.testing.assert_array_equal(found, [[0.4] * model.nv, [-0.1] * model.nv])
    assert not [f for f in robot.model.health if f.kind == "ignored"]
