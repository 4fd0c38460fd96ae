"""Christoffel symbols and the Coriolis matrix on every joint type and coupling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from identities import STEP, Case, agree, dot, many
from named_robots import NAMED, named
from random_models import Part, build, trees

import qddot
from qddot.model.model import WORLD
from qddot.robot.robot import Robot

BOUND = 1e-10


def rates_of_mass(robot: Robot, q: np.ndarray) -> np.ndarray:
    """∂M/∂q along the tangent by complex step, the last axis that of q."""
    moved = robot.integrate(q[..., None, :].astype(complex), 1j * STEP * np.eye(robot.nv))
    return np.moveaxis(robot.mass_matrix(moved).imag / STEP, -3, -1)


@pytest.mark.parametrize("name", NAMED)
def test_coriolis_matrix_where_other_engines_fail(name):
    """C v = h − g and Ṁ − 2C skew, Ṁ by complex step."""
    robot, rng = named(name), np.random.default_rng(0)
    q, v = robot.random(rng, 20), rng.normal(size=(20, robot.nv))
    C = robot.coriolis_matrix(q, v)
    h = robot.bias(q, v) - robot.gravity(q)
    assert np.abs(dot(C, v) - h).max() <= BOUND * np.abs(h).max()
    rate = dot(rates_of_mass(robot, q).reshape(20, -1, robot.nv), v).reshape(C.shape)
    skew = rate - 2.0 * C
    assert np.abs(skew + skew.swapaxes(1, 2)).max() <= BOUND * np.abs(C).max()


@pytest.mark.parametrize("name", NAMED)
def test_symbols_contract_to_the_coriolis_matrix(name):
    robot, rng = named(name), np.random.default_rng(1)
    q, v = robot.random(rng, 10), rng.normal(size=(10, robot.nv))
    Gamma, C = robot.christoffel_symbols(q), robot.coriolis_matrix(q, v)
    assert Gamma.shape == (10, robot.nv, robot.nv, robot.nv)
    assert np.abs(dot(Gamma, v[:, None]) - C).max() <= BOUND * np.abs(C).max()


@many
@given(trees())
def test_symbols_on_random_trees(tree):
    c = Case(tree)
    Gamma = c.robot.christoffel_symbols(c.q)
    agree(dot(Gamma, c.v[:, None]), c.robot.coriolis_matrix(c.q, c.v))
    # metric: ∂M_ij/∂q_k = Γ_ijk + Γ_jik
    agree(Gamma + Gamma.swapaxes(1, 2), rates_of_mass(c.robot, c.q))


@many
@given(trees(kinds=("revolute", "prismatic", "helical", "universal")))
def test_symbols_are_half_sums_of_derivatives_of_the_mass_matrix(tree):
    """Γ_ijk = ½ (∂_k M_ij + ∂_j M_ik − ∂_i M_jk) where velocities are rates of coordinates."""
    c = Case(tree)
    dM = rates_of_mass(c.robot, c.q)
    expected = 0.5 * (dM + dM.swapaxes(2, 3) - np.moveaxis(dM, 3, 1))
    agree(c.robot.christoffel_symbols(c.q), expected)


def test_symbols_of_one_ball_are_the_gyroscopic_torque():
    """ω × I ω of a body on a ball joint, by hand."""
    robot = Robot(build([Part("ball", WORLD, False, False, False, None)], 4))
    tensor = np.array([list(row) for row in robot.model.bodies[0].inertia.I.rows])
    w = np.array([0.3, -0.7, 1.1])
    Gamma = robot.christoffel_symbols(robot.random(0))
    np.testing.assert_allclose(
        np.einsum("ijk,j,k->i", Gamma, w, w), np.cross(w, tensor @ w), rtol=1e-12
    )


@pytest.mark.parametrize("name", ["planar_2r", "double_pendulum"])
def test_native_symbols_equal_interpreted(name):
    model = qddot.load(name).model
    q = Robot(model).random(3, 7)
    native, definition = (Robot(model, native=n).christoffel_symbols(q) for n in (True, False))
    np.testing.assert_allclose(native, definition, rtol=1e-13, atol=1e-15)


def test_symbols_cost_less_than_the_coriolis_matrix():
    robot = qddot.load("ur5e")
    symbols, matrix = (
        robot.explain(name).facts["operations"]
        for name in ("christoffel_symbols", "coriolis_matrix")
    )
    assert sum(symbols.values()) < sum(matrix.values())


def test_the_name_used_elsewhere_is_told():
    robot = qddot.load("planar_2r")
    with pytest.raises(qddot.QddotError, match="it is called 'christoffel_symbols'"):
        robot.call("christoffel", robot.neutral())
