"""Redundant rows of loops: dynamics by an independent subset that a warning names.

The oracle solves M a − Jᵀ λ = τ − h, J a = −J̇ v by least squares: its accelerations are unique
although its multipliers are not.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import qddot
from qddot.analysis import constraints as cs
from qddot.errors import RedundantConstraints
from qddot.model.links import Loop
from qddot.robot.robot import Robot

CASSIE = Path(__file__).parents[3] / "shared" / "menagerie" / "agility_cassie__cassie.xml"


def bar(name: str, parent: str, length: float, x: float) -> dict:
    """A bar along x on a hinge about y, at x on its parent."""
    return {
        "name": name, "parent": parent, "joint": "revolute", "axis": (0, 1, 0),
        "position": (x, 0, 0), "mass": 1.0 + length, "com": (length / 2, 0, 0),
        "inertia": (0.01, 0.1 * length, 0.1 * length),
    }  # fmt: skip


def four_bar(kind: str, turned: bool) -> Robot:
    """Lengths 0.3, 0.7, 0.5 on a ground of 0.8 m; with `turned`, in a plane across all axes.

    A weld needs the fourth hinge in the tree, a spherical closure is the hinge itself.
    """
    tilt = Rotation.from_euler("xyz", (0.4, -0.3, 0.9)).as_matrix() if turned else np.eye(3)
    links = [
        {"name": "base", "parent": None, "joint": "fixed", "rotation": tilt},
        bar("crank", "base", 0.3, 0.0),
        bar("coupler", "crank", 0.7, 0.3),
        bar("rocker", "coupler", 0.5, 0.7),
    ]
    if kind == "weld":
        links.append(bar("foot", "rocker", 0.1, 0.5))
    end = "foot" if kind == "weld" else "rocker"
    # the frames of the closure stand across the plane, so that no row is zero or whole
    across = (0.5, 0.6, -0.7)
    return Robot.from_links(
        "four",
        links,
        frames=[
            {"name": "ground", "link": "base", "position": (0.8, 0, 0), "rotation": across},
            {"name": "end", "link": end, "position": (0 if kind == "weld" else 0.5, 0, 0),
             "rotation": across},
        ],
        loops=[{"name": "loop", "kind": kind, "frame1": "ground", "frame2": "end"}],
    )  # fmt: skip


def bennett() -> Robot:
    """Four skew hinges that move only because sin α / a = sin β / b: rank 3 open, 2 closed."""
    a, alpha, beta = 0.4, 0.5, 1.2
    b = a * math.sin(beta) / math.sin(alpha)

    def span(length, twist):
        X = np.eye(4)
        X[:3, :3] = Rotation.from_euler("x", twist).as_matrix()
        X[0, 3] = length
        return X

    one, two = span(a, alpha), span(b, beta)
    body = {"joint": "revolute", "axis": (0, 0, 1), "mass": 1.0, "com": (0.1, 0.05, 0.02)}
    body["inertia"] = (0.02, 0.03, 0.025)
    return Robot.from_links(
        "bennett",
        [
            {"name": "base", "parent": None, "joint": "fixed"},
            {**body, "name": "l1", "parent": "base"},
            {**body, "name": "l2", "parent": "l1", "placement": one},
            {**body, "name": "l3", "parent": "l2", "placement": two},
        ],
        frames=[
            {"name": "far", "link": "base", "placement": np.linalg.inv(two)},
            {"name": "end", "link": "l3", "placement": one},
        ],
        loops=[{"name": "hinge", "kind": "revolute", "frame1": "far", "frame2": "end"}],
        configurations={"closed": bennett_closed(alpha, beta, math.pi / 2)},
    )


def bennett_closed(alpha: float, beta: float, theta: float) -> list[float]:
    """Angles of the linkage: tan(θ1/2) tan(θ2/2) = sin((α + β)/2) / sin((β − α)/2), θ3 = −θ1."""
    ratio = math.sin((alpha + beta) / 2) / math.sin((beta - alpha) / 2)
    other = 2 * math.atan(ratio / math.tan(theta / 2))
    return [theta, other, -theta]


def moving_state(robot: Robot, q, seed=0):
    """A closed configuration near q, a velocity that keeps it, torques."""
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        q = cs.assemble(robot, q)
        v = cs.consistent_velocity(robot, q, rng.normal(size=robot.nv))
    return q, v, rng.normal(size=robot.nv)


def least_squares(robot: Robot, q, v, tau):
    M, J, h = robot.mass_matrix(q), robot.constraint_jacobian(q), robot.bias(q, v)
    nc = len(J)
    kkt = np.block([[M, -J.T], [J, np.zeros((nc, nc))]])
    right = np.concatenate([tau - h, -robot.constraint_bias(q, v)])
    return np.linalg.lstsq(kkt, right, rcond=1e-9)[0][: robot.nv]


def check_solution(robot: Robot, q, v, tau, found, tolerance=1e-8):
    """All rows hold, the equation of motion holds, and accelerations are those of least squares."""
    a, multipliers = found
    J = robot.constraint_jacobian(q)
    size = 1.0 + np.abs(a).max()
    np.testing.assert_allclose(J @ a + robot.constraint_bias(q, v), 0.0, atol=tolerance * size)
    load = robot.mass_matrix(q) @ a + robot.bias(q, v) - J.T @ multipliers
    np.testing.assert_allclose(load, tau, atol=tolerance * size)
    wanted = least_squares(robot, q, v, tau)
    np.testing.assert_allclose(a, wanted, atol=tolerance * size)


CASES = {
    "weld": (lambda: four_bar("weld", False), [0.9, -1.2, 1.0, 0.3], 3),
    "weld, turned": (lambda: four_bar("weld", True), [0.9, -1.2, 1.0, 0.3], 3),
    "spherical": (lambda: four_bar("spherical", False), [0.9, -1.2, 1.0], 2),
    "spherical, turned": (lambda: four_bar("spherical", True), [0.9, -1.2, 1.0], 2),
    "bennett": (bennett, [1.5, 2.0, -1.5], 2),
}


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_the_first_call_works_and_names_the_rows(case, native):
    make, guess, rank = CASES[case]
    robot = Robot(make().model, native)
    q, v, tau = moving_state(robot, guess)
    assert cs.analyse(robot, q).rank == rank
    with pytest.warns(UserWarning, match="are redundant") as caught:
        found = robot.constrained_dynamics(q, v, tau)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    text = str(caught[0].message)
    check_solution(robot, q, v, tau, found)
    # the rows that are left out have no multiplier and stand in the warning; the others do too
    names = robot.model.loops[0].row_names
    left_out = [name for name, x in zip(names, found[1], strict=True) if x == 0.0]
    assert len(left_out) == len(names) - rank
    listed, _, kept = text.partition("Independent rows: ")
    assert all(repr(name) in listed for name in left_out)
    assert all(name in kept for name in names if name not in left_out)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = robot.constrained_dynamics(np.stack([q, q]), v, tau)
        np.testing.assert_array_equal(again[0][1], found[0])


def test_the_same_rows_hold_along_the_motion():
    make, guess, _ = CASES["spherical, turned"]
    robot = make()
    with pytest.warns(UserWarning, match="are redundant"):
        robot.constrained_dynamics(robot.neutral(), np.zeros(3), np.zeros(3))
    for angle in np.linspace(0.3, 2.8, 6):
        q = cs.assemble(robot, [angle, *guess[1:]], fixed="crank")
        v = cs.consistent_velocity(robot, q, [1.0, 0.0, 0.0], fixed="crank")
        tau = np.array([0.1, -0.2, 0.3])
        check_solution(robot, q, v, tau, robot.constrained_dynamics(q, v, tau))


def test_a_singular_place_is_not_the_measure():
    """A parallelogram lies flat at its neutral configuration, where one more row is lost."""
    links = [
        {"name": "base", "parent": None, "joint": "fixed"},
        bar("a", "base", 0.3, 0.0),
        bar("b", "a", 0.6, 0.3),
        bar("c", "base", 0.3, 0.6),
    ]
    robot = Robot.from_links(
        "flat",
        links,
        frames=[
            {"name": "p", "link": "b", "position": (0.6, 0, 0)},
            {"name": "r", "link": "c", "position": (0.3, 0, 0)},
        ],
        loops=[{"name": "pin", "kind": "spherical", "frame1": "p", "frame2": "r"}],
    )
    assert cs.analyse(robot, robot.neutral()).rank == 1
    q = np.array([0.7, -0.7, 0.7])
    v = np.array([1.0, -1.0, 1.0])
    with pytest.warns(UserWarning, match=r"'pin.y' moves with no joint.*rows: pin.x, pin.z"):
        found = robot.constrained_dynamics(q, v, np.ones(3))
    check_solution(robot, q, v, np.ones(3), found)
    # at that place itself the multipliers are not unique: the least ones, and an error on request
    for native in (True, False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            still = Robot(robot.model, native).constrained_dynamics(np.zeros(3), v * 0, v)
        check_solution(robot, np.zeros(3), v * 0, v, still)
        check_least(robot, np.zeros(3), v, still[1])
    with pytest.raises(RedundantConstraints, match=r"'pin\.[xz]'"):
        cs.forward_dynamics(robot, np.zeros(3), v * 0, v)


def check_least(robot, q, push, multipliers, constraints=None):
    """Multipliers at rest are the least by least squares, without weight."""
    J = robot.constraint_jacobian(q, constraints=constraints)
    free = np.linalg.solve(robot.mass_matrix(q), push - robot.gravity(q))
    W = J @ np.linalg.solve(robot.mass_matrix(q), J.T)
    least = -np.linalg.pinv(W, rcond=1e-10) @ J @ free
    np.testing.assert_allclose(multipliers, least, atol=1e-6 * np.abs(least).max())


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("kind", ["point", "surface"])
def test_a_box_on_four_corners_stands_wherever_it_is_turned(native, kind):
    """Which rows count depends on the attitude: where those that stay are too few, all do."""
    links = [
        {"name": "base", "parent": None, "joint": "fixed"},
        {"name": "box", "parent": "base", "joint": "free", "mass": 2.0, "inertia": (0.1, 0.2, 0.3)},
    ]
    places = [(0.5, 0.3, -0.1), (0.5, -0.3, -0.1), (-0.5, 0.3, -0.1), (-0.5, -0.3, -0.1)]
    frames = [{"name": f"c{k}", "link": "box", "position": p} for k, p in enumerate(places)]
    robot = Robot(Robot.from_links("box", links, frames=frames).model, native)
    feet = [cs.Contact(f"c{k}", kind) for k in range(4)]
    turned = robot.integrate(robot.neutral(), np.array([0, 0, 0, 0.4, 0.5, -0.3]))
    q = np.stack([robot.neutral(), turned, robot.neutral()])
    push = np.array([0.0, 0.0, 0.0, 0.1, -0.2, 0.3])
    with pytest.warns(UserWarning, match="are redundant"):
        a, multipliers = robot.constrained_dynamics(q, np.zeros(6), push, constraints=feet)
    np.testing.assert_allclose(a, 0.0, atol=1e-9)
    load = push - robot.gravity(q)
    J = robot.constraint_jacobian(q, constraints=feet)
    carried = np.einsum("kij,ki->kj", J, multipliers)
    np.testing.assert_allclose(carried, -load, atol=1e-6)
    if kind == "point":
        check_least(robot, q[0], push, multipliers[0], feet)
        # each state of a batch by itself
        assert (multipliers[1] == 0.0).any()
        np.testing.assert_array_equal(multipliers[0], multipliers[2])
        with pytest.raises(RedundantConstraints, match=r"'c3\.z'"):
            cs.forward_dynamics(robot, q, np.zeros(6), push, feet)
        v = np.array([0.1, 0.0, -1.0, 0.2, 0.0, 0.0])
        after, _ = robot.impact(q, v, np.zeros(12), constraints=feet)
        np.testing.assert_allclose(after, 0.0, atol=1e-9)


def test_constraints_of_ones_own_are_treated_alike():
    make, guess, _ = CASES["weld"]
    robot = make()
    q, v, tau = moving_state(robot, guess)
    with pytest.warns(UserWarning, match="are redundant"):
        a, multipliers = robot.constrained_dynamics(q, v, tau, constraints=list(robot.model.loops))
    np.testing.assert_allclose(a, least_squares(robot, q, v, tau), rtol=1e-7, atol=1e-8)
    # marked rows are left out without a word
    left_out = tuple(
        row for row, x in zip(robot.model.loops[0].rows, multipliers, strict=True) if x == 0.0
    )
    marked = [dataclasses.replace(robot.model.loops[0], redundant=left_out)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same = robot.constrained_dynamics(q, v, tau, constraints=marked)
        np.testing.assert_array_equal(same[1], multipliers)
        # and so are rows that are not asked for
        fewer = cs.independent(robot, q)
        b, _ = robot.constrained_dynamics(q, v, tau, constraints=fewer)
    np.testing.assert_allclose(b, a, rtol=1e-7, atol=1e-8)


def test_every_way_to_the_function_leaves_out_the_same_rows(tmp_path):
    make, guess, _ = CASES["spherical, turned"]
    q, v, tau = moving_state(make(), guess)
    with pytest.warns(UserWarning, match="are redundant"):
        wanted = make().constrained_dynamics(q, v, tau)
    ways = {
        "casadi": lambda r: [x.full().ravel() for x in r.casadi("constrained_dynamics")(q, v, tau)],
        "compile": lambda r: r.compile("constrained_dynamics")(q, v, tau),
        "export": lambda r: r.export_c(["constrained_dynamics"], tmp_path / "c") and wanted,
    }
    for way in ways.values():
        robot = make()
        with pytest.warns(UserWarning, match="are redundant"):
            found = way(robot)
        np.testing.assert_allclose(found[0], wanted[0], rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(found[1], wanted[1], rtol=1e-9, atol=1e-11)


def test_impact_with_redundant_rows():
    make, guess, _ = CASES["weld, turned"]
    robot = make()
    q, _, _ = moving_state(robot, guess)
    v = np.array([1.0, 0.5, -0.3, 0.2])
    with pytest.warns(UserWarning, match="are redundant"):
        after, impulse = robot.impact(q, v, np.zeros(6))
    J, M = robot.constraint_jacobian(q), robot.mass_matrix(q)
    np.testing.assert_allclose(J @ after, 0.0, atol=1e-9)
    np.testing.assert_allclose(M @ (after - v), J.T @ impulse, atol=1e-9)


def test_marks_are_names_of_rows():
    loop = Loop("l", "spherical", "a", "b", redundant=("y",))
    assert loop.redundant == ("y",)
    assert dataclasses.replace(loop, rows=("x",)).redundant == ()
    with pytest.raises(qddot.QddotError, match="no row 'w'"):
        Loop("l", "spherical", "a", "b", redundant=("w",))


@pytest.mark.skipif(not CASSIE.exists(), reason="the Menagerie files are not beside the repository")
def test_cassie_moves_on_the_first_call():
    robot = qddot.load(CASSIE)
    q, v, tau = moving_state(robot, robot.configurations["home"])
    with pytest.warns(UserWarning, match=r"'equality0.z' .*'equality2.z' "):
        found = robot.constrained_dynamics(q, v, tau)
    check_solution(robot, q, v, tau, found, 1e-7)
    assert np.flatnonzero(found[1] == 0.0).tolist() == [2, 8]
