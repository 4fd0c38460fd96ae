"""Friction models: closed forms, scipy as oracle of fits, MuJoCo as reader of what is written."""

from __future__ import annotations

import math

import casadi
import mpmath
import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import lsq_linear

import qddot
from qddot.compile.trace.tape import record
from qddot.errors import InvalidArgument, UnknownName
from qddot.model.friction_models import (
    FrictionModel,
    OneWay,
    asymmetric,
    coulomb,
    friction_from,
    friction_of,
    stribeck,
    translate,
    viscous,
)
from qddot.model.joints import Drivetrain
from qddot.spatial.dual import Dual

SPEEDS = np.array([-2.0, -0.3, -1e-3, 0.0, 1e-3, 0.3, 2.0])
STRIBECK = stribeck(static=5.0, coulomb=3.0, speed=0.1, viscous=2.0)
GAUSSIAN = stribeck(static=5.0, coulomb=3.0, speed=0.1, viscous=2.0, curve="gaussian")
BOTH = asymmetric(STRIBECK, coulomb(2.5, 1.0))
levels = st.floats(0.0, 10.0)


def ways() -> st.SearchStrategy[OneWay]:
    return st.builds(
        lambda c, b, more, v, curve: OneWay(c, b, c + more, v, curve) if more else OneWay(c, b),
        levels, levels, st.one_of(st.just(0.0), levels), st.floats(0.01, 3.0),
        st.sampled_from(["rational", "gaussian"]),
    )  # fmt: skip


def test_laws_by_hand():
    np.testing.assert_allclose(viscous(2.0).torque(SPEEDS), 2.0 * SPEEDS)
    np.testing.assert_allclose(
        coulomb(3.0, 2.0).torque(SPEEDS), 3.0 * np.sign(SPEEDS) + 2.0 * SPEEDS
    )
    # the static level at the onset, half of what it has more at the Stribeck speed, none far out
    assert STRIBECK.torque(1e-12) == pytest.approx(5.0)
    assert STRIBECK.torque(0.1) == pytest.approx(3.0 + 1.0 + 0.2)
    assert STRIBECK.torque(-0.1) == -STRIBECK.torque(0.1)
    assert STRIBECK.torque(1e6) - 2e6 == pytest.approx(3.0)
    # of a Gaussian curve 1/e is left there, and half where exp(−u²) is a half
    assert GAUSSIAN.torque(0.1) == pytest.approx(3.0 + 2.0 / math.e + 0.2)
    half = 0.1 * math.sqrt(math.log(2.0))
    assert GAUSSIAN.torque(half) == pytest.approx(4.0 + 2.0 * half)
    with pytest.raises(UnknownName, match="gaussian"):
        stribeck(5.0, 3.0, 0.1, curve="bell")
    assert BOTH.torque(2.0) == STRIBECK.torque(2.0)
    assert BOTH.torque(-2.0) == -4.5
    assert BOTH.torque(0.0) == 0.0


@pytest.mark.parametrize("model", [viscous(2.0), coulomb(3.0, 2.0), STRIBECK, GAUSSIAN, BOTH])
def test_one_text_on_every_scalar(model):
    expected = np.array([model.torque(float(s)) for s in SPEEDS])
    np.testing.assert_allclose(model.torque(SPEEDS), expected, rtol=1e-15)
    assert model.torque(SPEEDS.reshape(7, 1)).shape == (7, 1)
    x = casadi.SX.sym("x")
    symbolic = casadi.Function("f", [x], [model.torque(x)])
    np.testing.assert_allclose([float(symbolic(s)) for s in SPEEDS], expected, rtol=1e-14)
    tape = record(lambda s: [model.torque(s[0])], [1])
    np.testing.assert_allclose([tape.run([s])[0] for s in SPEEDS], expected, rtol=1e-14)
    exact = [float(model.torque(mpmath.mpf(float(s)))) for s in SPEEDS]
    np.testing.assert_allclose(exact, expected, rtol=1e-14)
    assert math.isnan(model.torque(math.nan))


def test_the_slope_by_a_complex_step_and_by_differences():
    h = 1e-30
    for s in (-0.3, 0.05, 2.0):
        slope = STRIBECK.torque(complex(s, h)).imag / h
        differences = (STRIBECK.torque(s + 1e-6) - STRIBECK.torque(s - 1e-6)) / 2e-6
        assert slope == pytest.approx(differences, rel=1e-6)
        ahead = OneWay(3.0, 2.0, 5.0, 0.1).at(Dual(abs(s), {0: 1.0}))
        assert ahead.partials[0] == pytest.approx(slope, rel=1e-12)


def fine_nodes() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of quadrature on [0, 1], close together at the low end."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    edges = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 40)])
    spans = np.diff(edges)[:, None]
    return (edges[:-1, None] + spans * (nodes + 1) / 2).ravel(), (spans * weights / 2).ravel()


NODES, WEIGHTS = fine_nodes()


def squared_error(model: FrictionModel, level: float, slope: float, low: float, high: float):
    def error(s: float) -> float:
        ahead = model.torque(s) - level - slope * s
        back = -model.torque(-s) - level - slope * s
        return ahead**2 + back**2

    corners = {s for w in (model.forward, model.backward) for s in (w.stribeck_speed,)}
    points = sorted(s for s in corners if low < s < high)
    return quad(error, low, high, points=points or None, limit=200)[0]


@settings(deadline=None, max_examples=50)
@given(ways(), ways(), st.floats(0.0, 1.0), st.floats(0.1, 5.0))
def test_the_fit_is_that_of_least_squares(forward, backward, low, span):
    """Against a dense sampling solved by scipy with bounds, and quadrature of the error."""
    model, high = FrictionModel(forward, backward), low + span
    found = translate(model, "mjcf", (low, high))
    s, root = low + span * NODES, np.sqrt(WEIGHTS)
    A = np.concatenate([np.stack([root, root * s], 1)] * 2)
    b = np.concatenate([root * model.torque(s), -root * model.torque(-s)])
    best = lsq_linear(A, b, (0, np.inf), tol=1e-14)
    ours = A @ [found.friction, found.damping] - b
    scale = max(1.0, float(b @ b))
    assert ours @ ours <= best.cost * 2 + 1e-9 * scale
    assert found.rms**2 * 2 * span == pytest.approx(
        squared_error(model, found.friction, found.damping, low, high), rel=1e-6, abs=1e-9
    )
    # the worst error over the range is found exactly: no sample is worse, and one comes near
    errors = np.concatenate([model.torque(s) - found.representation.torque(s),
                             model.torque(-s) - found.representation.torque(-s)])  # fmt: skip
    assert np.abs(errors).max() <= found.worst + 1e-9
    here = abs(model.torque(found.worst_speed) - found.representation.torque(found.worst_speed))
    if found.worst_speed:
        assert here == pytest.approx(found.worst, abs=1e-9)


def test_the_fit_of_two_coulomb_levels_is_their_mean():
    found = translate(asymmetric(coulomb(3.0, 1.0), coulomb(1.0, 2.0)), "urdf", (0.5, 2.0))
    assert found.attributes == pytest.approx({"damping": 1.5, "friction": 2.0})
    # the error is ±(1 − s/2): largest at the low end of the range
    assert found.worst == pytest.approx(0.75)
    assert abs(found.worst_speed) == 0.5
    assert found.rms == pytest.approx(math.sqrt(quad(lambda s: (1 - s / 2) ** 2, 0.5, 2)[0] / 1.5))


def test_what_a_format_can_say_is_said_exactly():
    for form in ("urdf", "mjcf"):
        found = translate(coulomb(0.3, 0.7), form, (0.0, 3.0))
        assert (found.damping, found.friction, found.worst, found.rms) == (0.7, 0.3, 0.0, 0.0)
        assert found.lost == ()
        assert friction_from(form, found.attributes) == coulomb(0.3, 0.7)
    same = stribeck(3.0, 3.0, 0.1, 2.0)
    assert translate(same, "urdf", (0.0, 1.0)).worst == 0.0


def test_neither_level_nor_slope_is_negative():
    falling = translate(stribeck(5.0, 1.0, 1.0), "mjcf", (0.0, 2.0))
    assert falling.damping == 0.0
    mean = quad(lambda s: 1 + 4 / (1 + s * s), 0, 2)[0] / 2
    assert falling.friction == pytest.approx(mean)
    steep = asymmetric(coulomb(0.0, 1.0), FrictionModel(OneWay(), OneWay(0.0, 0.0)))
    assert translate(steep, "mjcf", (0.0, 1.0)).friction >= 0.0


def test_what_is_lost_is_said_in_words():
    found = translate(BOTH, "mjcf", (0.01, 2.0))
    text = "\n".join(found.lost)
    assert "no Stribeck effect: forward, motion starts at 5, 2 above the Coulomb level 3" in text
    assert "one friction for both directions" in text
    assert "Coulomb 2.5, viscous 1" in text
    assert str(BOTH) == (
        "forward Coulomb 3, viscous 2, static 5 fading at 0.1; backward Coulomb 2.5, viscous 1"
    )
    alike = translate(STRIBECK, "urdf", (0.0, 1.0))
    assert len(alike.lost) == 1
    # it is worst off at the onset of motion
    assert abs(alike.worst_speed) < 0.01


def test_friction_of_a_joint_and_of_a_robot(tmp_path):
    assert friction_of(Drivetrain(damping=0.5, friction=0.25)) == coulomb(0.25, 0.5)
    file = tmp_path / "arm.xml"
    said = translate(BOTH, "mjcf", (0.0, 2.0)).attributes
    text = " ".join(f'{k}="{v!r}"' for k, v in said.items())
    file.write_text(
        f"""<mujoco><worldbody><body name="a"><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
        <joint name="j" {text}/></body></worldbody></mujoco>"""
    )
    m = mujoco.MjModel.from_xml_path(str(file))
    assert m.dof_damping[0] == said["damping"]
    assert m.dof_frictionloss[0] == said["frictionloss"]
    robot = qddot.load(file)
    model = friction_of(robot.model.bodies[0].joint.drivetrain)
    for s in SPEEDS:
        assert robot.friction(np.zeros(1), np.array([s]))[0] == pytest.approx(model.torque(s))


@pytest.mark.parametrize(
    "make",
    [
        lambda: coulomb(-1.0),
        lambda: coulomb(math.nan),
        lambda: viscous(math.inf),
        lambda: stribeck(1.0, 2.0, 0.1),
        lambda: stribeck(2.0, 1.0, 0.0),
        lambda: stribeck(2.0, 1.0, -0.1),
        lambda: stribeck(np.array([3.0, 1.0]), 2.0, 0.1),
        lambda: stribeck(2.0, 1.0, np.array([0.1, 0.0])),
        lambda: viscous(np.array([0.1, math.nan])),
        lambda: coulomb([1.0, 2.0]),
        lambda: coulomb(None),
        lambda: coulomb(np.array(["a"])),
        lambda: coulomb(np.array([None])),
        lambda: coulomb(10**400),
        lambda: coulomb(True),
        lambda: stribeck(np.ones(3), np.full(4, 0.5), 0.1),
        lambda: translate(stribeck(np.array([1.0, 2.0]), 0.5, 0.1), "urdf", (0.0, 1.0)),
        lambda: translate(coulomb(np.array([1.0, 2.0])), "urdf", (0.0, 1.0)),
        lambda: translate(STRIBECK, "urdf", (1.0, 1.0)),
        lambda: translate(STRIBECK, "urdf", (-1.0, 1.0)),
        lambda: translate(STRIBECK, "urdf", (0.0, math.inf)),
        lambda: translate(STRIBECK, "urdf", "fast"),
    ],
)
def test_what_makes_no_sense_is_refused(make):
    with pytest.raises(InvalidArgument):
        make()


def test_a_law_with_arrays_says_its_ranges():
    law = stribeck(np.array([2.0, 3.0]), 1.0, 0.1, np.full(2, 0.5))
    assert str(law) == "Coulomb 1, viscous 0.5, static 2 … 3 fading at 0.1"
    assert law.symmetric
    other = asymmetric(coulomb(np.ones(2)), coulomb(np.array([1.0, 2.0])))
    assert not other.symmetric
    assert str(other) == "forward Coulomb 1; backward Coulomb 1 … 2"


def test_unknown_formats_and_attributes():
    with pytest.raises(UnknownName, match="urdf"):
        translate(STRIBECK, "sdf", (0.0, 1.0))
    with pytest.raises(UnknownName, match="frictionloss"):
        friction_from("mjcf", {"friction": 1.0})
