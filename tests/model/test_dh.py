"""Robots from Denavit–Hartenberg parameters, against Newton and Euler written from the matrices."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import numpy as np
import pytest

from qddot.errors import InvalidArgument, QddotError, UnknownName
from qddot.loaders.description import suppress_warnings
from qddot.robot.robot import Robot

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "07_puma560.py"))
G = np.array([0.3, -0.2, -9.81])


def shift(x=0.0, y=0.0, z=0.0):
    X = np.eye(4)
    X[:3, 3] = x, y, z
    return X


def turn(axis, angle):
    c, s = math.cos(angle), math.sin(angle)
    X = np.eye(4)
    if axis == "x":
        X[1:3, 1:3] = [[c, -s], [s, c]]
    else:
        X[:2, :2] = [[c, -s], [s, c]]
    return X


def frames_of(table, convention, base, q):
    """Of each link: joint axis and a point on it, proximal and distal frame, all in the world."""
    T, found = base, []
    for k, (row, x) in enumerate(zip(table, q, strict=True)):
        turning = row["joint"] == "revolute"
        theta, d = row["theta"] + (x if turning else 0.0), row["d"] + (0.0 if turning else x)
        if convention == "standard":
            axis = T
            proximal = T @ turn("z", theta) @ shift(z=d)
            T = distal = proximal @ shift(row["a"]) @ turn("x", row["alpha"])
        else:
            axis = T @ turn("x", row["alpha"]) @ shift(row["a"])
            T = proximal = axis @ turn("z", theta) @ shift(z=d)
            distal = T
            if k + 1 < len(table):
                distal = T @ turn("x", table[k + 1]["alpha"]) @ shift(table[k + 1]["a"])
        found.append((axis[:3, 2], axis[:3, 3], proximal, distal))
    return found, T


def newton_euler(table, convention, frame, base, q, v, a):
    """Torques by d'Alembert in world coordinates: each body's forces on its own Jacobian."""
    links, _ = frames_of(table, convention, base, q)
    n, tau = len(table), np.zeros(len(table))
    for i in range(n):
        X = links[i][2 if frame == "proximal" else 3]
        c = X[:3, :3] @ table[i]["com"] + X[:3, 3]
        inertia = X[:3, :3] @ table[i]["inertia"] @ X[:3, :3].T
        w = dw = np.zeros(3)
        p, dp, ddp = None, np.zeros(3), np.zeros(3)
        Jv, Jw = np.zeros((3, n)), np.zeros((3, n))
        for k in range(i + 1):
            z, at = links[k][0], links[k][1]
            if p is not None:
                # velocity and acceleration of the next axis point, fixed to the link before but
                # for a slide, which moves it along that link's own axis
                r = at - p
                ddp = ddp + np.cross(dw, r) + np.cross(w, np.cross(w, r))
                dp = dp + np.cross(w, r)
            p = at
            if table[k]["joint"] == "revolute":
                dw = dw + z * a[k] + np.cross(w, z * v[k])
                w = w + z * v[k]
                Jw[:, k], Jv[:, k] = z, np.cross(z, c - at)
            else:
                dp = dp + z * v[k]
                ddp = ddp + z * a[k] + 2.0 * np.cross(w, z * v[k])
                Jv[:, k] = z
        r = c - p
        acceleration = ddp + np.cross(dw, r) + np.cross(w, np.cross(w, r))
        force = table[i]["mass"] * (acceleration - G)
        moment = inertia @ dw + np.cross(w, inertia @ w)
        tau += Jv.T @ force + Jw.T @ moment
    return tau


def random_table(rng, size):
    table = []
    for _ in range(size):
        A = rng.normal(size=(3, 3))
        table.append(
            {
                "a": rng.normal(),
                "alpha": rng.uniform(-3, 3),
                "d": rng.normal(),
                "theta": rng.uniform(-3, 3),
                "joint": str(rng.choice(["revolute", "prismatic"])),
                "mass": rng.uniform(0.1, 2.0),
                "com": rng.normal(size=3),
                "inertia": A @ A.T,
            }
        )
    return table


def pose(rng):
    return shift(*rng.normal(size=3)) @ turn("z", 0.7) @ turn("x", -0.4)


@pytest.mark.parametrize("convention", ["standard", "modified"])
@pytest.mark.parametrize("frame", ["distal", "proximal"])
@pytest.mark.parametrize("seed", range(3))
def test_torques_and_frames_are_those_of_the_matrices(convention, frame, seed):
    rng = np.random.default_rng(seed)
    table, base, tool = random_table(rng, 4), pose(rng), pose(rng)
    with suppress_warnings():
        made = Robot.from_dh(
            "arm", table, convention=convention, frame=frame, base=base, tool=tool, gravity=G
        )
    robot = Robot(made.model, native=False)
    for _ in range(3):
        q, v, a = rng.normal(size=(3, 4))
        links, end = frames_of(table, convention, base, q)
        np.testing.assert_allclose(robot.frame_pose(q, "tool"), end @ tool, atol=1e-12)
        for k, (_, _, proximal, distal) in enumerate(links, 1):
            own = distal if convention == "standard" else proximal
            np.testing.assert_allclose(robot.frame_pose(q, f"frame{k}"), own, atol=1e-12)
            np.testing.assert_allclose(robot.frame_pose(q, f"link{k}"), proximal, atol=1e-12)
        wanted = newton_euler(table, convention, frame, base, q, v, a)
        np.testing.assert_allclose(robot.inverse_dynamics(q, v, a), wanted, rtol=1e-9, atol=1e-9)


def test_the_frame_of_the_masses_is_frame_i_by_default():
    rng = np.random.default_rng(0)
    table = random_table(rng, 3)
    for convention, frame in (("standard", "distal"), ("modified", "proximal")):
        with suppress_warnings():
            default, said, other = (
                Robot.from_dh("arm", table, convention=convention, frame=f).inertial_parameters
                for f in (None, frame, {"distal": "proximal", "proximal": "distal"}[frame])
            )
        np.testing.assert_array_equal(default, said)
        assert np.abs(default - other).max() > 0.1


# the Puma 560


@pytest.fixture(scope="module")
def puma():
    return EXAMPLE["puma560"]()


def test_published_torques_and_inertia_of_the_puma(puma):
    """Corke, Robotics, Vision and Control: gravload(qn) and inertia(qn), to the digits printed."""
    q = EXAMPLE["NOMINAL"]
    gravity = [0.0, 31.6399, 6.0351, 0.0, 0.0283, 0.0]
    np.testing.assert_allclose(puma.gravity(q), gravity, atol=5.1e-5)
    inertia = [
        [3.6594, -0.4044, 0.1006, -0.0025, 0.0, 0.0],
        [-0.4044, 4.4137, 0.3509, 0.0, 0.0024, 0.0],
        [0.1006, 0.3509, 0.9378, 0.0, 0.0015, 0.0],
        [-0.0025, 0.0, 0.0, 0.1925, 0.0, 0.0],
        [0.0, 0.0024, 0.0015, 0.0, 0.1713, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.1941],
    ]
    np.testing.assert_allclose(puma.mass_matrix(q), inertia, atol=5.1e-5)


def test_motors_of_the_puma(puma):
    rows = EXAMPLE["PUMA"]
    G2 = np.array([row.G**2 for row in rows])
    for sign, k in ((1.0, 0), (-1.0, 1)):
        v = sign * np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
        wanted = G2 * [row.B for row in rows] * v
        wanted += [abs(row.G) * row.Tc[k] for row in rows]
        np.testing.assert_allclose(puma.friction(np.zeros(6), v), wanted, rtol=1e-12)
    armature = [b.joint.drivetrain.reflected_inertia for b in puma.model.bodies]
    np.testing.assert_allclose(armature, G2 * [row.Jm for row in rows])


def test_health_of_the_puma(puma):
    """The table has two inertias that no body has: 0.086 > 0.066 + 0.0125, and one without mass."""
    found = {f.subject: f.message for f in puma.health if f.kind == "inertia"}
    assert set(found) == {"link 'link1'", "link 'link3'"}
    assert "but no mass" in found["link 'link1'"]
    assert "by 0.0075" in found["link 'link3'"]


def test_the_example_prints(capsys, monkeypatch):
    monkeypatch.delenv("QDDOT_NATIVE", raising=False)
    EXAMPLE["main"]()
    text = capsys.readouterr().out
    assert "31.6399" in text
    assert "link 'link3': impossible inertia" in text


# what is refused


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"a": math.nan}, r"rows\[0\]: a"),
        ({"alpha": "90"}, r"rows\[0\]: alpha"),
        ({"d": None}, r"rows\[0\]: d"),
        ({"theta": math.inf}, r"rows\[0\]: theta"),
        ({"joint": "ball"}, r"'revolute', 'prismatic'"),
        ({"mass": -1.0}, r"link 'link1': mass: -1.0 .* 0 or more"),
        ({"com": (1.0, 2.0)}, r"rows\[0\]: com"),
        ({"inertia": (1.0, 2.0)}, r"rows\[0\]: inertia"),
        ({"inertia": [[1, 2], [3, [4]]]}, r"rows\[0\]: inertia"),
        ({"Jm": -1.0}, r"rows\[0\]: Jm"),
        ({"B": -1.0}, r"rows\[0\]: B"),
        ({"Tc": (0.1, 0.2)}, r"Tc⁻ ≤ 0"),
        ({"Tc": -1.0}, r"rows\[0\]: Tc"),
        ({"G": math.nan}, r"rows\[0\]: G"),
        ({"limits": (1.0, -1.0)}, r"lower ≤ upper"),
        (7, r"rows\[0\]: 7 .* DHRow"),
    ],
)
def test_rows_that_are_refused(row, message):
    with pytest.raises(InvalidArgument, match=message):
        Robot.from_dh("arm", [row])


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"convention": "craig"}, "'standard', 'modified'"),
        ({"frame": "com"}, "'distal', 'proximal'"),
        ({"base": np.ones((4, 4))}, "base: .*4×4"),
        ({"tool": np.eye(3)}, "tool: .*4×4"),
        ({"gravity": (0.0, 9.81)}, "gravity: .*3"),
        ({"rows": []}, "at least one row"),
        ({"rows": 5}, "needs a list"),
    ],
)
def test_choices_that_are_refused(choice, message):
    given = {"rows": [{"a": 1.0}], **choice}
    with pytest.raises(InvalidArgument, match=message):
        Robot.from_dh("arm", given.pop("rows"), **given)


def test_a_misspelt_field_names_the_real_one():
    with pytest.raises(UnknownName, match="closest: 'alpha'"):
        Robot.from_dh("arm", [{"alhpa": 1.0}])


def test_impossible_inertias_warn_or_are_refused():
    row = {"mass": 1.0, "inertia": (0.1, 0.1, 0.5)}
    with pytest.warns(UserWarning, match="1 impossible inertia") as caught:
        Robot.from_dh("arm", [row])
    assert caught[0].filename == __file__
    with pytest.raises(QddotError, match="link 'link1': impossible inertia"):
        Robot.from_dh("arm", [row], strict=True)
