"""Results read well: text, HTML and LaTeX say the same numbers."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import qddot
from qddot.display.text import html_table, joint_units, latex_matrix, text_table, value_text
from qddot.simulate import energy_ledger
from qddot.simulate.contact import (
    ComplementarityContact,
    Plane,
    Scene,
    Sphere,
    contact_ledger,
)


@pytest.fixture(scope="module")
def arm():
    return qddot.load("planar_2r")


def test_values_are_short():
    assert value_text(np.array([1.0, 2.5])) == "[1.  2.5]"
    big = np.linspace(0.0, 9.0, 1000)
    assert value_text(big) == "(1000,), 0 … 9"
    big[3] = np.nan
    assert value_text(big) == "(1000,), 0 … 9, 1 not finite"
    assert value_text((np.zeros(3), np.zeros(3))) == "2 × ndarray"


def test_tables():
    assert text_table(["a", "bb"], [["x", "1"], ["yy", "22"]]) == "a   bb\n------\nx    1\nyy  22"
    assert "<td>&lt;b&gt;</td>" in html_table(["a"], [["<b>"]])
    assert latex_matrix(np.array([1.0, 2.0])) == r"\begin{bmatrix}1 \\ 2\end{bmatrix}"


def test_a_robot_lists_its_joints(arm):
    assert "joint2  revolute  link2  1.5" in str(arm)
    assert repr(arm) == "<Robot 'planar_2r': 2 bodies, nq=2, nv=2, 3.5 kg>"
    assert "<td>joint2</td>" in arm._repr_html_()


def test_terms_show_their_numbers(arm):
    one = arm.terms(np.zeros(2), np.zeros(2))
    assert "[[0.72  0.27 ]" in str(one)
    assert r"\begin{bmatrix}0.72 & 0.27" in one._repr_latex_()
    many = arm.terms(np.zeros((50, 2)), np.zeros((50, 2)))
    assert "(50, 2, 2)" in str(many)
    assert many._repr_latex_() is None
    assert "<th>M</th>" in many._repr_html_()


def test_rollouts_and_closed_forms(arm):
    motion = arm.rollout([0.1, 0.2], [0.0, 0.0], None, dt=1e-3, steps=100)
    assert "(101, 2)" in repr(motion)
    assert len(repr(motion)) < 1000
    assert "0 … 0.1 s, 101 samples" in repr(motion)
    assert repr(motion).splitlines()[-1].split() == ["status", "ok"]
    form = qddot.lagrange.derive(arm)
    assert "M22 = l2**2*m2" in repr(form)
    assert r"\cos{\left(q_{2} \right)}" in form._repr_latex_()


def test_status_and_ledgers_are_tables(arm):
    motion = arm.rollout([[0.1, 0.2], [np.nan, 0.0]], [0.0, 0.0], None, dt=1e-3, steps=20)
    text, page = repr(motion.status), motion.status._repr_html_()
    assert "1 ok, 1 nan_input" in text
    assert "<td>nan_input</td><td>1</td><td>0</td>" in page
    ledger = energy_ledger(arm.rollout([0.1, 0.2], [0.0, 0.0], None, dt=1e-3, steps=20))
    rows = {line.split()[0]: line.split()[1:] for line in repr(ledger).splitlines()[3:]}
    assert float(rows["kinetic"][1]) == pytest.approx(ledger.kinetic[-1], rel=1e-3)
    assert "<caption>energy ledger: " in ledger._repr_html_()


def test_a_contact_ledger_has_a_contact_a_line():
    link = {"name": "ball", "parent": None, "joint": "free", "mass": 1.0}
    ball = qddot.Robot.from_links("ball", [link | {"inertia": np.eye(3).tolist()}])
    scene = Scene(planes=[Plane()], spheres=[Sphere("ball", radius=0.1)], friction=0.5)
    law = ComplementarityContact(scene)
    start = [0, 0, 0.1, 0, 0, 0, 1]
    motion = ball.rollout(start, np.zeros(6), dt=1e-3, steps=5, contact=law, record=True)
    text = repr(contact_ledger(motion))
    assert "contact ledger: 1 contacts, 6 samples" in text
    assert float(text.split()[-2]) == pytest.approx(9.81, rel=1e-3)


def _result_classes():
    """Dataclasses with arrays among the public names of the packages whose calls return them."""
    for package in ("balance", "control", "identify", "linearise", "simulate", "task_space"):
        for found in vars(getattr(qddot, package)).values():
            if isinstance(found, type) and dataclasses.is_dataclass(found):
                shown = [str(f.type) for f in dataclasses.fields(found) if f.repr]
                yield from [found] * any("ndarray" in text for text in shown)


def test_results_do_not_dump_their_arrays():
    results = list(_result_classes())
    assert qddot.control.Trace in results
    # the text that dataclasses make by themselves prints every number
    assert [c.__name__ for c in results if hasattr(c.__repr__, "__wrapped__")] == []


def test_a_trace_of_control_reads_well(arm):
    plant = qddot.control.RolloutPlant(arm)
    plant.reset(np.array([0.1, 0.2]))
    law = qddot.control.PD(np.full(2, 50.0), np.full(2, 5.0))
    goal = {"q_ref": np.zeros(2), "v_ref": np.zeros(2)}
    trace = qddot.control.run(plant, law, goal, duration=0.2)
    assert "(200, 2)" in repr(trace)
    assert len(repr(trace)) < 1000
    figure = trace.plot()
    assert [ax.get_ylabel() for ax in figure.axes] == ["q, rad", "torque, N m"]


def test_small_numbers_are_neither_lost_nor_minus_zero():
    assert value_text(np.array([1.0, -1e-9])) == "[1. 0.]"
    assert value_text(np.array([2e-5, -1e-5])) == "[ 2.e-05 -1.e-05]"
    assert value_text(np.float64(3e-16)) == "3e-16"
    assert value_text({"tool": np.zeros((100, 6))}) == "tool: (100, 6), 0 … 0"


def test_units_are_those_of_the_joints():
    assert joint_units(qddot.load("ur5e").model.angular) == ("rad", "rad/s", "N m")
    assert joint_units([False]) == ("m", "m/s", "N")
    assert joint_units([True, False]) == ("rad or m", "rad/s or m/s", "N m or N")
