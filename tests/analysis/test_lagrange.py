"""Closed forms against the textbooks, against Lagrange's equations and against the recursions."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import sympy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_models import Part, build, trees
from typer.testing import CliRunner

import qddot
from qddot.analysis.lagrange import (
    FORMATS,
    as_data,
    derive,
    planar_arm,
    prove,
    python_module,
    write,
)
from qddot.analysis.lagrange.harmonics import Angle, Ring, cos, sin
from qddot.analysis.lagrange.simplify import Simplifier
from qddot.cli import app
from qddot.errors import InvalidArgument, InvalidModel, NoClosedForm, UnknownName
from qddot.model.model import WORLD
from qddot.robot.robot import Robot

CART_POLE = """<robot name="cart_pole">
  <link name="rail"/>
  <link name="cart"><inertial><mass value="1.2"/>
    <inertia ixx="0.01" iyy="0.02" izz="0.03" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="pole"><inertial><origin xyz="0 0 0.4"/><mass value="0.2"/>
    <inertia ixx="0.01067" iyy="0.01067" izz="0.0001" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="slide" type="prismatic"><parent link="rail"/><child link="cart"/>
    <axis xyz="1 0 0"/><limit lower="-2" upper="2" effort="10" velocity="10"/></joint>
  <joint name="hinge" type="continuous"><parent link="cart"/><child link="pole"/>
    <axis xyz="0 1 0"/></joint>
</robot>"""
TILTED = """<robot name="tilted"><link name="base"/>
  <link name="first_link"><inertial><origin xyz="0 0 0.2"/><mass value="2"/>
    <inertia ixx="0.1" iyy="0.2" izz="0.25" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="other_link"><inertial><origin xyz="0.1 0 0"/><mass value="1"/>
    <inertia ixx="0.1" iyy="0.2" izz="0.25" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="a" type="continuous"><origin rpy="{first}" xyz="0 0 0.5"/>
    <parent link="base"/><child link="first_link"/><axis xyz="0 0 1"/></joint>
  <joint name="b" type="continuous"><origin rpy="{second}" xyz="0 0 -0.3"/>
    <parent link="first_link"/><child link="other_link"/><axis xyz="0 0 1"/></joint>
</robot>"""

m1, m2, l1, l2, r1, r2, I1, I2, g = sympy.symbols("m1 m2 l1 l2 r1 r2 I1 I2 g")
q1, q2, v1, v2, a1, a2 = sympy.symbols("q1 q2 v1 v2 a1 a2")


def zero(expression) -> bool:
    """Whether an expression or matrix vanishes identically."""
    entries = expression if hasattr(expression, "shape") else [expression]
    return all(sympy.simplify(sympy.expand_trig(sympy.expand(x))) == 0 for x in entries)


@pytest.fixture
def load(tmp_path):
    def from_text(text: str) -> Robot:
        file = tmp_path / "robot.urdf"
        file.write_text(text)
        return qddot.load(file)

    return from_text


def run(*args: str):
    return CliRunner().invoke(app, args)


# the textbooks


@pytest.mark.parametrize("robot", [planar_arm(2), qddot.load("planar_2r")], ids=lambda r: r.name)
def test_point_masses_as_in_lynch_and_park(robot):
    """Lynch & Park 2017, (8.9): energies, M, c, g and both equations of motion."""
    form = derive(robot)
    c2, s2, c12 = sympy.cos(q2), sympy.sin(q2), sympy.cos(q1 + q2)
    M12 = m2 * (l1 * l2 * c2 + l2**2)
    M = sympy.Matrix(
        [[m1 * l1**2 + m2 * (l1**2 + 2 * l1 * l2 * c2 + l2**2), M12], [M12, m2 * l2**2]]
    )
    c = sympy.Matrix([-m2 * l1 * l2 * s2 * (2 * v1 * v2 + v2**2), m2 * l1 * l2 * v1**2 * s2])
    tip = m2 * g * l2 * c12
    weight = sympy.Matrix([(m1 + m2) * l1 * g * sympy.cos(q1) + tip, tip])
    T2 = (l1**2 + 2 * l1 * l2 * c2 + l2**2) * v1**2 + 2 * (l2**2 + l1 * l2 * c2) * v1 * v2
    assert zero(form.T - m1 * l1**2 * v1**2 / 2 - m2 * (T2 + l2**2 * v2**2) / 2)
    rise = m1 * g * l1 * sympy.sin(q1) + m2 * g * (l1 * sympy.sin(q1) + l2 * sympy.sin(q1 + q2))
    assert zero(form.V - rise)
    assert zero(form.M - M)
    assert zero(form.c - c)
    assert zero(form.g - weight)
    assert zero(form.tau - (M * sympy.Matrix([a1, a2]) + c + weight))
    assert {p.name for p in form.parameters} == {"m1", "m2", "l1", "l2", "g"}
    assert prove(form).holds


def test_coriolis_matrix_of_the_handbook():
    """With h = −m₂ l₁ l₂ sin q₂ the Christoffel form is [[h q̇₂, h (q̇₁ + q̇₂)], [−h q̇₁, 0]]."""
    form = derive(planar_arm(2))
    h = -m2 * l1 * l2 * sympy.sin(q2)
    assert zero(form.C - sympy.Matrix([[h * v2, h * (v1 + v2)], [-h * v1, 0]]))
    symbols = [[[0, h], [h, h]], [[-h, 0], [0, 0]]]
    for i, j, k in np.ndindex(2, 2, 2):
        assert zero(form.Gamma[i][j][k] - symbols[i][j][k])


def test_link_inertias_with_the_missing_term():
    """Centres of mass at r, moments about them, θ = 0 upright: M₁₁ needs m₁ r₁²."""
    form = derive(planar_arm(2, "link", "upright"))
    c2, s2 = sympy.cos(q2), sympy.sin(q2)
    printed = I1 + I2 + m2 * (l1**2 + r2**2 + 2 * l1 * r2 * c2)
    M12 = I2 + m2 * r2 * (r2 + l1 * c2)
    outer = -m2 * r2 * g * sympy.sin(q1 + q2)
    assert zero(form.M[0, 0] - printed - m1 * r1**2)
    assert zero(form.M[0, 1] - M12)
    assert zero(form.M[1, 1] - I2 - m2 * r2**2)
    s = m2 * l1 * r2 * s2
    assert zero(form.c - sympy.Matrix([-s * (2 * v1 * v2 + v2**2), s * v1**2]))
    assert zero(form.g[0] - (-(m1 * r1 + m2 * l1) * g * sympy.sin(q1) + outer))
    assert zero(form.g[1] - outer)
    assert all(zero(form.Gamma[0][j][k] + s) for j, k in ((0, 1), (1, 0), (1, 1)))
    # upright is where gravity has no torque and the energy is highest
    upright = {q1: 0, q2: 0}
    assert form.g.subs(upright) == sympy.zeros(2, 1)
    assert zero(form.V.subs(upright) - g * (m1 * r1 + m2 * (l1 + r2)))


def test_a_recursion_on_numbers_is_no_newton_euler():
    """Adding gravity, tangential and radial acceleration as numbers loses the angles."""
    form = derive(planar_arm(2, "link", "upright"))
    w, alpha = v1 + v2, a1 + a2
    first = g + a1 * r1 - v1**2 * r1
    second = first + alpha * r2 - w**2 * r2
    tau2 = r2 * m2 * second + I2 * alpha
    tau1 = tau2 + r1 * (m2 * second + m1 * first) + I1 * a1
    assert not {q1, q2} & (tau1.free_symbols | tau2.free_symbols)
    assert {q1, q2} <= form.tau[0].free_symbols
    still = {v1: 0, v2: 0, a1: 0, a2: 0}
    assert not zero((form.tau[1] - tau2).subs(still))


def test_the_numbers_of_the_worked_example():
    """m = (2.0, 1.5) kg, l = 0.30 m: coefficients, and the printed digits at q = (0, π/2)."""
    form = derive(planar_arm(2, m=(2.0, 1.5), l=(0.3, 0.3)), numbers=True)
    assert form.parameters == ()
    assert zero(sympy.nsimplify(form.M[0, 0]) - (sympy.Rational(9, 20) + 27 * sympy.cos(q2) / 100))
    assert zero(sympy.nsimplify(form.M[1, 1]) - sympy.Rational(27, 200))
    at = {q1: 0, q2: sympy.pi / 2, v1: 1, v2: -0.5}
    M, c, weight = (np.array(x.subs(at), dtype=float) for x in (form.M, form.c, form.g))
    assert np.round(M, 3).tolist() == [[0.450, 0.135], [0.135, 0.135]]
    assert np.round(c.ravel(), 3).tolist() == [0.101, 0.135]
    assert np.round(weight.ravel(), 2).tolist() == [10.30, 0.0]
    assert np.round((c + weight).ravel(), 3).tolist() == [10.402, 0.135]
    assert np.round(np.linalg.det(M), 4) == 0.0425
    assert prove(form).holds


def test_double_pendulum_in_the_form_of_the_acrobot():
    """Spong 1995: θ = 0 hanging, moments about the centres of mass, no motor at the shoulder."""
    form = derive(qddot.load("double_pendulum"), passive=["joint1"])
    c2, s2 = sympy.cos(q2), sympy.sin(q2)
    d11 = m1 * r1**2 + m2 * (l1**2 + r2**2 + 2 * l1 * r2 * c2) + I1 + I2
    d12, d22 = m2 * (r2**2 + l1 * r2 * c2) + I2, m2 * r2**2 + I2
    assert zero(form.M - sympy.Matrix([[d11, d12], [d12, d22]]))
    h1 = -m2 * l1 * r2 * s2 * v2**2 - 2 * m2 * l1 * r2 * s2 * v2 * v1
    assert zero(form.c - sympy.Matrix([h1, m2 * l1 * r2 * s2 * v1**2]))
    # measured from the hanging position; Spong measures q₁ from the horizontal
    phi2 = m2 * r2 * g * sympy.sin(q1 + q2)
    phi1 = (m1 * r1 + m2 * l1) * g * sympy.sin(q1) + phi2
    assert zero(form.g - sympy.Matrix([phi1, phi2]))
    assert [x.passive for x in form.coordinates] == [True, False]
    assert "(0, τ2)" in write(form, prove(form))
    assert r"\begin{pmatrix} 0 \\ \tau_{2} \end{pmatrix}" in write(form, prove(form), "latex")


def test_cart_pole_from_a_urdf(load):
    """Florian 2007: a pole with its moment about the centre of mass, θ = 0 upright."""
    form = derive(load(CART_POLE), passive=["hinge"])
    M_, m, r, I = sympy.symbols("m_cart m_pole r_pole I_pole")
    assert zero(
        form.M
        - sympy.Matrix([[M_ + m, m * r * sympy.cos(q2)], [m * r * sympy.cos(q2), I + m * r**2]])
    )
    assert zero(form.c - sympy.Matrix([-m * r * v2**2 * sympy.sin(q2), 0]))
    assert zero(form.g - sympy.Matrix([0, -m * g * r * sympy.sin(q2)]))
    x, height = q1 + r * sympy.sin(q2), r * sympy.cos(q2)
    velocity = [sum(sympy.diff(p, q) * v for q, v in ((q1, v1), (q2, v2))) for p in (x, height)]
    T = (M_ * v1**2 + m * sum(u**2 for u in velocity) + I * v2**2) / 2
    assert zero(form.T - T)
    assert zero(form.V - m * g * height)
    assert prove(form).holds


# Lagrange's equations


def euler_lagrange(form) -> sympy.Matrix:
    """d/dt ∂L/∂q̇ − ∂L/∂q, differentiated by SymPy."""
    L, x = form.T - form.V, form.coordinates
    return sympy.Matrix(
        [sum(L.diff(i.v, j.q) * j.v + L.diff(i.v, j.v) * j.a for j in x) - L.diff(i.q) for i in x]
    )


def chain(*kinds, seed=3, aligned=True, follows=None) -> Robot:
    """A chain of these joints, with numbers at random."""
    parts = [
        Part(
            kind, k - 1, aligned, False, kind != "planar", follows if k == len(kinds) - 1 else None
        )
        for k, kind in enumerate(kinds)
    ]
    return Robot(build(parts, seed))


CHAINS = {
    "helical": chain("helical", "revolute"),
    "planar": chain("planar"),
    "universal": chain("universal"),
    "prismatic": chain("revolute", "prismatic"),
    "coupled": chain("revolute", "helical", "revolute", follows=0),
}


@pytest.mark.parametrize("name", CHAINS)
def test_terms_are_the_lagrange_equations_of_the_energies(name):
    form = derive(CHAINS[name], numbers=True)
    expected = euler_lagrange(form)
    names = sorted(form.tau.free_symbols | expected.free_symbols, key=str)
    both = sympy.lambdify(names, [form.tau, expected], "numpy")
    for values in np.random.default_rng(0).uniform(0.5, 2.0, (5, len(names))):
        ours, theirs = both(*values)
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-11 * np.abs(theirs).max())


@pytest.mark.parametrize("name", CHAINS)
def test_energies_and_terms_are_those_of_the_robot(name):
    """T and V with the robot's own, and the proof, on joints of every kind."""
    robot = CHAINS[name]
    form = derive(robot, numbers=name in ("coupled", "helical"))
    assert prove(form).holds
    module: dict = {}
    exec(python_module(form), module)
    rng = np.random.default_rng(0)
    q, v = robot.random(rng, 6), rng.normal(size=(6, robot.nv))
    rates = v
    if name == "planar":
        c, s = np.cos(q[:, 2]), np.sin(q[:, 2])
        rates = np.stack([c * v[:, 0] - s * v[:, 1], s * v[:, 0] + c * v[:, 1], v[:, 2]], axis=1)
    np.testing.assert_allclose(
        module["kinetic_energy"](q, rates), robot.kinetic_energy(q, v), rtol=1e-9
    )
    np.testing.assert_allclose(module["potential_energy"](q), robot.potential_energy(q), rtol=1e-9)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(trees(most=2, kinds=("revolute", "prismatic", "helical", "universal", "planar")))
def test_proof_on_random_trees(tree):
    robot = Robot(build(*tree))
    if not 0 < robot.nv <= 3:
        return
    assert prove(derive(robot, numbers=True), states=5).largest < 1e-11


@pytest.mark.parametrize(
    ("term", "change"),
    [
        ("M", lambda M: M * (1 + sympy.Float(1e-8))),
        ("C", lambda C: C.T),
        ("g", lambda g: -g),
    ],
)
def test_proof_fails_where_a_term_is_wrong(term, change):
    form = derive(planar_arm(2))
    wrong = dataclasses.replace(form, **{term: change(getattr(form, term))})
    proof = prove(wrong)
    assert not proof.holds
    failed = {row.term for row in proof.rows if row.difference >= proof.bound}
    assert term in failed
    assert "Proof FAILED" in write(wrong, proof)


# names


def names_of(robot, **options) -> dict[str, float]:
    return {p.name: p.value for p in derive(robot, **options).parameters}


def test_names_follow_links_and_leave_out_zeros(load):
    assert names_of(load(CART_POLE)) == {
        "m_cart": 1.2, "m_pole": 0.2, "r_pole": 0.4, "I_pole": 0.01067, "g": 9.81,
    }  # fmt: skip
    assert names_of(load(CART_POLE), symbols=["m_pole", "I_pole"]) == {
        "m_pole": 0.2, "I_pole": 0.01067,
    }  # fmt: skip
    assert "g" not in names_of(load(CART_POLE).with_gravity((0, 0, 0)))
    assert {"gx", "gz"} <= set(names_of(load(CART_POLE).with_gravity((1.0, 0, -9.0))))


def test_lengths_are_positive_and_say_their_direction():
    form = derive(qddot.load("double_pendulum"))
    lengths = {p.name: p for p in form.parameters if p.unit == "m"}
    assert all(p.value > 0 for p in lengths.values())
    assert lengths["l1"].meaning == "distance to joint2, along −z of rod1"
    assert lengths["r1"].meaning == "distance to the centre of mass, along −z of rod1"


def test_tilts_are_angles_and_right_angles_are_exact(load):
    tilted = derive(load(TILTED.format(first="0.4 0 0", second="1.5708 0 0")))
    values = {p.name: p.value for p in tilted.parameters}
    assert values["alpha1"] == pytest.approx(0.4)
    assert "alpha2" not in values
    assert any("roll of b taken as a right angle: 3.7e-06 rad off" in n for n in tilted.notes)
    assert prove(tilted).holds
    locked = derive(
        load(TILTED.format(first="1.5707963267948966 0 0", second="0 1.5707963267948966 0.4"))
    )
    assert {p.name: p.value for p in locked.parameters}["gamma2"] == pytest.approx(0.4)
    assert prove(locked).holds
    twice = derive(load(TILTED.format(first="0.4 0.2 0", second="0.1 0.2 0.3")))
    assert not any(p.unit == "rad" for p in twice.parameters)
    assert prove(twice).holds


def test_offsets_pitches_and_reflected_inertia_have_names():
    kept = ["h2", "o3", "Ir1", "Ir2", "Ir3"]
    form = derive(CHAINS["coupled"], symbols=kept)
    values = {p.name: p.value for p in form.parameters}
    assert set(values) == set(kept)
    assert values["o3"] == pytest.approx(CHAINS["coupled"].model.bodies[2].joint.offset)
    assert prove(form).holds


def test_what_is_left_out_is_said():
    form = derive(qddot.load("four_bar"))
    assert any("1 loop closure left out" in note for note in form.notes)
    assert any("friction and springs left out: crank_joint" in note for note in form.notes)


# refusals


def test_what_has_no_closed_form_is_refused(monkeypatch):
    with pytest.raises(NoClosedForm, match=r"6 degrees of freedom.*'wrist_3_joint'"):
        derive(qddot.load("ur5e"))
    with pytest.raises(NoClosedForm, match=r"'root' is free; its quaternion .* base='fixed'"):
        derive(qddot.load("quadrotor"))
    with pytest.raises(NoClosedForm, match=r"is a ball joint; .*without_joint\('j0'\)"):
        derive(chain("ball"))
    with pytest.raises(NoClosedForm, match="no degree of freedom"):
        derive(planar_arm(1).without_joint("joint1"))
    monkeypatch.setattr("qddot.analysis.lagrange.closed_form._MOST_TERMS", 3)
    with pytest.raises(NoClosedForm, match="have 4 terms, more than anyone reads; lock joints"):
        derive(planar_arm(2))


def test_options_that_make_no_sense():
    arm = planar_arm(2)
    with pytest.raises(UnknownName, match="no parameter 'm3'; closest: 'm"):
        derive(arm, symbols=["m3"])
    with pytest.raises(InvalidArgument, match="it is a list of names"):
        derive(arm, symbols="m1")
    with pytest.raises(InvalidArgument, match="numbers=True leaves none"):
        derive(arm, symbols=["m1"], numbers=True)
    with pytest.raises(UnknownName, match="no joint 'elbow'"):
        derive(arm, passive=["elbow"])
    with pytest.raises(InvalidArgument, match="needs a Robot"):
        derive("planar_2r")
    with pytest.raises(InvalidArgument, match="at least 1"):
        prove(derive(arm), states=0)
    with pytest.raises(UnknownName, match="no format 'html'"):
        write(derive(arm), prove(derive(arm)), "html")


@pytest.mark.parametrize(
    "options",
    [{"masses": "rod"}, {"zero": "down"}, {"count": 0}, {"m": (1.0,)}, {"l": "ab"}, {"r": (1, 1)}],
)
def test_arms_that_make_no_sense(options):
    with pytest.raises(InvalidArgument):
        planar_arm(**options)


# what is written


def test_python_module_stands_alone():
    """Batches, other parameters and both directions of the dynamics, with NumPy only."""
    form = derive(qddot.load("planar_3r"))
    module: dict = {}
    exec(python_module(form), module)
    robot, rng = form.robot, np.random.default_rng(0)
    q, v, a = robot.random(rng, (4, 2)), *(rng.normal(size=(4, 2, 3)) for _ in range(2))
    tau = module["inverse_dynamics"](q, v, a)
    np.testing.assert_allclose(tau, robot.inverse_dynamics(q, v, a), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(module["forward_dynamics"](q, v, tau), a, atol=1e-9)
    np.testing.assert_allclose(
        module["christoffel_symbols"](q), robot.christoffel_symbols(q), rtol=1e-9, atol=1e-12
    )
    assert module["mass_matrix"](q[0, 0]).shape == (3, 3)
    heavy = robot.with_payload("link3", 2.0, com=(0.1, 0.0, 0.0))
    more = {**module["PARAMETERS"], "m3": 3.0}
    np.testing.assert_allclose(
        module["mass_matrix"](q, more), heavy.mass_matrix(q), rtol=1e-9, atol=1e-12
    )


def test_names_of_a_file_do_not_become_code():
    """A name with quotes stays inside comments and docstrings; one with a line break is refused."""
    model = planar_arm(2).model
    with pytest.raises(InvalidModel, match="control character U\\+000A"):
        dataclasses.replace(model, name='x"""\nraise SystemExit("ran")\n\\')
    nasty = 'x"""; raise SystemExit("ran") # \\'
    bodies = tuple(
        dataclasses.replace(
            b, name=b.name + nasty, joint=dataclasses.replace(b.joint, name=b.joint.name + nasty)
        )
        for b in model.bodies
    )
    form = derive(dataclasses.replace(model, name=nasty, bodies=bodies))
    proof = prove(form)
    assert proof.holds
    scope: dict = {}
    exec(write(form, proof, "python"), scope)
    assert scope["mass_matrix"]([0.0, 0.0]).tolist() == [[5.0, 2.0], [2.0, 1.0]]


def test_values_put_into_the_expressions():
    form = derive(qddot.load("double_pendulum"))
    M = form.M.subs({**form.values, q2: 0.7})
    np.testing.assert_allclose(
        np.array(M, dtype=float), form.robot.mass_matrix([0.0, 0.7]), rtol=1e-12
    )


def test_constant_terms_have_the_shape_of_the_batch(load):
    module: dict = {}
    exec(python_module(derive(load(CART_POLE).without_joint("hinge"))), module)
    assert module["mass_matrix"](np.zeros((5, 1))).shape == (5, 1, 1)
    assert module["gravity"](np.zeros((5, 1))).shape == (5, 1)


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_holds_the_terms_and_the_proof(format):
    form = derive(qddot.load("planar_3r"))
    proof = prove(form, states=3, seed=4)
    text = write(form, proof, format)
    assert "Proof passed: at 3 random states (seed 4)" in " ".join(text.split())
    assert ("I_{1}" if format in ("latex", "markdown") else "I1") in text
    assert "friction and springs left out" in text
    for opening, closing in ("()", "{}", ("\\left", "\\right"), ("\\begin", "\\end")):
        assert text.count(opening) == text.count(closing)


def test_latex_says_what_the_form_says():
    text = write(derive(planar_arm(2)), prove(derive(planar_arm(2))), "latex")
    assert r"M_{22} &= l_{2}^{2} m_{2}" in text
    assert r"c_{2} &= l_{1} l_{2} m_{2} \dot{q}_{1}^{2} \sin {q_{2}}" in text
    assert r"\Gamma_{211} &= l_{1} l_{2} m_{2} \sin {q_{2}}" in text


def test_long_equations_break_between_terms():
    form = derive(qddot.load("four_bar"))
    text = write(form, prove(form), "latex")
    energy = text[text.index("\nV &=") : text.index("\\end{align*}")]
    assert energy.count("\n&\\quad") == 3


def test_data_is_plain():
    form = derive(planar_arm(2), numbers=True)
    data = json.loads(json.dumps(as_data(form, prove(form))))
    assert data["proof"]["passed"] is True
    assert len(data["Gamma"][1][1]) == 2
    assert data["coordinates"][0]["q"] == "q1"


# the command


@pytest.mark.parametrize("robot", ["planar_2r", "double_pendulum"])
def test_command_prints_equations_and_proof(robot):
    result = run("derive", robot)
    assert result.exit_code == 0, result.output
    assert "Proof passed" in result.stdout
    assert "M11 = " in result.stdout


def test_command_on_a_cart_pole_file(tmp_path):
    file, module = tmp_path / "cart.urdf", tmp_path / "cart.py"
    file.write_text(CART_POLE)
    arguments = ("--passive", "hinge", "--format", "python", "--out", str(module))
    result = run("derive", str(file), *arguments)
    assert result.exit_code == 0, result.output
    assert "proof passed" in result.stdout
    scope: dict = {}
    exec(module.read_text(), scope)
    assert scope["PARAMETERS"]["m_cart"] == 1.2
    data = json.loads(run("derive", str(file), "--json", "--symbols", "m_pole, m_cart").stdout)
    assert [p["name"] for p in data["parameters"]] == ["m_cart", "m_pole"]


def test_command_fails_with_the_proof(monkeypatch):
    import qddot.analysis.lagrange.proof as proof

    monkeypatch.setattr(proof, "_tangent_maps", lambda robot, q: 2.0 * np.ones((len(q), 2, 2)))
    result = run("derive", "planar_2r")
    assert result.exit_code == 1
    assert "Proof FAILED" in result.stdout


def test_command_locks_joints():
    locked = ("--lock", "wrist_1_joint=0.2", "--lock", "wrist_2_joint", "--lock", "wrist_3_joint")
    result = run("derive", "ur5e", *locked, "--lock", "elbow_joint=-1.0", "--numbers")
    assert result.exit_code == 0, result.output
    assert "Note: locked: wrist_1_joint=0.2, wrist_2_joint, " in result.stdout
    for arguments, message in (
        (("ur5e",), "--lock on the command line"),
        (("ur5e", "--lock", "elbow_joint=x"), "it is JOINT or JOINT=VALUE"),
        (("ur5e", "--lock", "elbw"), "closest: 'elbow_joint'"),
        (("planar_2r", "--symbols", "mass"), "no parameter 'mass'"),
        (("planar_2r", "--out", "/no/such/place.tex"), "cannot write"),
    ):
        result = run("derive", *arguments)
        assert result.exit_code == 2
        assert message in result.stderr


# trigonometric sums


RING = Ring(("m", "q1", "q2"), (Angle("q1"), Angle("q2"), Angle("q1", 0.3)))
READ = Simplifier(
    sympy.symbols("m q1 q2"), (q1, q2, sympy.Float(0.3) * q1), inertial=(0,), rates=3
).expression


@given(st.lists(st.integers(-3, 3), min_size=4, max_size=4), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_sums_compute_as_numbers_do(factors, power):
    a, b, c, d = factors
    m, x, y = (RING.symbol(s) for s in RING.symbols)

    def value(m, x, y, sin, cos):
        wave = sin(x * a + y * b) * c + cos(x * d - y * a + 0.5 * math.pi) * m
        return (wave * wave + x * cos(x * 0.3) - 1.0) * (wave + 2.0 * power - y)

    total = value(m, x, y, sin, cos)
    at = {sympy.Symbol("m"): 0.7, q1: -1.3, q2: 0.4}
    expected = value(0.7, -1.3, 0.4, math.sin, math.cos)
    found = sympy.lambdify(list(at), READ(total), "math")(*at.values())
    assert found == pytest.approx(expected, rel=1e-11, abs=1e-11)
    step = 1e-6
    high, low = (value(0.7, -1.3 + h, 0.4, math.sin, math.cos) for h in (step, -step))
    slope = sympy.lambdify(list(at), READ(total.derivative("q1")), "math")(*at.values())
    assert slope == pytest.approx((high - low) / (2 * step), rel=1e-6, abs=1e-5)


def test_sums_are_canonical():
    x, y = RING.symbol("q1"), RING.symbol("q2")
    assert (sin(x) * sin(x) + cos(x) * cos(x) - 1.0).terms == {}
    assert (sin(x + y) - sin(x) * cos(y) - cos(x) * sin(y)).terms == {}
    assert READ(cos(x) * cos(x)) == sympy.cos(q1) ** 2
    assert READ(cos(x) * cos(x) - sin(x) * sin(x)) == sympy.cos(2 * q1)
    assert READ(cos(x) * sin(x + y) * 2.0) == 2 * sympy.sin(q1 + q2) * sympy.cos(q1)
    assert READ(RING.number(0.0)) == 0
    for wrong in (RING.symbol("m"), x * y, x * 0.7):
        with pytest.raises(ArithmeticError):
            sin(wrong)


def test_a_tree_of_two_arms_names_its_lengths():
    parts = [Part("revolute", WORLD, True, False, False, None)]
    parts += [Part("prismatic", 0, True, False, False, None) for _ in range(2)]
    form = derive(Robot(build(parts, 1)))
    names = {p.name for p in form.parameters}
    assert {"lx1_2", "lx1_3"} <= names
    assert prove(form).holds


# the page of the documentation


PAGE = (Path(__file__).resolve().parents[2] / "docs" / "closed-form.md").read_text()


def test_page_shows_what_the_commands_print():
    """The output blocks of the page, but for the digits of rounding errors."""
    blocks = re.findall(r"```console\n\$ qddot (.*?)\n(.*?)```", PAGE, re.S)
    assert len(blocks) == 3
    for command, shown in blocks:
        printed = run(*command.split()).stdout
        assert re.sub(r"\de-1\d", "", printed) == re.sub(r"\de-1\d", "", shown), command


def test_page_runs_from_top_to_bottom(capsys):
    exec("\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.S)), {})
    printed = capsys.readouterr().out
    assert "passive: True" in printed
    assert "more than was supplied" in printed
    assert "condition number of M up to" in printed
