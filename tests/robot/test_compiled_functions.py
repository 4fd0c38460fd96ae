"""Functions of the user's own: recorded, compiled, and equal to the text run on floats."""

from __future__ import annotations

import math
import shutil
import subprocess
from pathlib import Path

import casadi
import numpy as np
import pytest

import qddot
from qddot.errors import (
    CannotTrace,
    InvalidArgument,
    ShapeMismatch,
    UnknownArgument,
    Unsupported,
)
from qddot.robot.robot import Robot

CC = shutil.which("gcc") or shutil.which("cc")


@pytest.fixture(scope="module")
def arm() -> Robot:
    return Robot(qddot.load("ur5e").model, native=True)


@pytest.fixture(scope="module")
def pendulum() -> Robot:
    return Robot(qddot.load("double_pendulum").model, native=True)


def impedance(robot, q, v, x_ref, R_ref, K, D):
    """Cartesian impedance with a bounded wrench."""
    X = robot.frame_pose(q, "tool0")
    J = robot.frame_jacobian(q, "tool0", "local_world_aligned")
    E = R_ref @ X[:3, :3].T
    turn = 0.5 * np.stack([E[2, 1] - E[1, 2], E[0, 2] - E[2, 0], E[1, 0] - E[0, 1]])
    e = np.concatenate([x_ref - X[:3, 3], turn])
    F = np.clip(K * e - D * (J @ v), -50.0, 50.0)
    F = np.where(np.linalg.norm(F[:3]) > 40.0, 0.5 * F, F)
    return J.T @ F + robot.bias(q, v)


SHAPES = {"x_ref": 3, "R_ref": (3, 3), "K": 6, "D": 6}


@pytest.fixture(scope="module")
def compiled(arm):
    return arm.compile(impedance, **SHAPES)


def impedance_inputs(arm, batch=()):
    rng = np.random.default_rng(0)
    rest = [rng.normal(size=(*batch, 3)), np.broadcast_to(np.eye(3), (*batch, 3, 3)).copy()]
    gains = [rng.uniform(10, 300, (*batch, 6)), rng.uniform(1, 30, (*batch, 6))]
    return [arm.random(rng, batch), rng.normal(size=(*batch, 6)), *rest, *gains]


def test_an_impedance_law_equals_its_text(arm, compiled):
    batch = impedance_inputs(arm, (50,))
    together = compiled(*batch)
    for k in range(50):
        one = [x[k] for x in batch]
        expected = impedance(arm, *one)
        assert np.abs(compiled(*one) - expected).max() <= 1e-13 * np.abs(expected).max()
        assert np.abs(together[k] - expected).max() <= 1e-13 * np.abs(expected).max()


def test_batches_broadcast_and_results_go_where_they_are_told(arm, compiled):
    q, v, x, R, K, D = impedance_inputs(arm, (4,))
    expected = compiled(q[:, None], v, x, R[0], K[0], D[0])
    assert expected.shape == (4, 4, 6)
    out = np.empty((4, 4, 6))
    assert compiled(q[:, None], v, x, R[0], K[0], D[0], out=out) is out
    assert np.array_equal(out, expected)
    named = compiled(q[:, None], v=v, x_ref=x, R_ref=R[0], K=K[0], D=D[0])
    assert np.array_equal(named, expected)
    assert np.array_equal(compiled.gufunc(q[:, None], v, x, R[0], K[0], D[0]), expected)
    with qddot.threads(2):
        assert np.array_equal(compiled(q[:, None], v, x, R[0], K[0], D[0]), expected)


def test_float32_follows_float64(arm, compiled):
    inputs = impedance_inputs(arm, (20,))
    narrow = compiled(*(x.astype(np.float32) for x in inputs))
    assert narrow.dtype == np.float32
    assert np.abs(narrow - compiled(*inputs)).max() <= 1e-3


def casadi_jacobian(f):
    """Derivatives of a law by its second input."""
    symbols = [casadi.SX.sym(f.name_in(k), *f.size_in(k)) for k in range(f.n_in())]
    return casadi.Function("J", symbols, [casadi.jacobian(f(*symbols), symbols[1])])


def test_casadi_and_interpretation_agree(arm, compiled):
    inputs = impedance_inputs(arm)
    expected = impedance(arm, *inputs)
    f = compiled.casadi()
    assert f.name_in() == ["q", "v", *SHAPES]
    assert np.allclose(np.array(f(*inputs)).ravel(), expected, rtol=1e-12, atol=1e-12)
    plain = Robot(arm.model, native=False).compile(impedance, **SHAPES)
    batch = impedance_inputs(arm, (2, 3))
    assert np.allclose(plain(*batch), compiled(*batch), rtol=1e-12, atol=1e-12)
    assert np.allclose(plain.run_text(batch)[0], compiled(*batch), rtol=1e-12, atol=1e-12)
    # complex numbers differentiate what is recorded
    step = [x.astype(complex) for x in inputs]
    step[1][0] += 1e-30j
    slope = np.array(casadi_jacobian(f)(*inputs)[:, 0]).ravel()
    assert np.allclose(compiled(*step).imag / 1e-30, slope, rtol=1e-10, atol=1e-10)


def test_the_same_function_comes_from_the_cache(arm, compiled):
    again = arm.compile(impedance, **SHAPES)
    assert again.explain().facts["cached"]
    assert again.source.key == compiled.source.key


def test_a_captured_constant_is_part_of_the_key(pendulum):
    def scaled(factor):
        return pendulum.compile(lambda robot, q: factor * q)

    q = np.array([1.0, 2.0])
    assert scaled(2.0)(q).tolist() == [2.0, 4.0]
    assert scaled(3.0)(q).tolist() == [3.0, 6.0]


def elementary(robot, q, x, y):
    """Every function of NumPy's that is recorded."""
    p = np.abs(x) + 0.1
    unit = np.tanh(x) * 0.9
    return np.stack(
        [
            *(np.sin(x), np.cos(x), np.tan(unit), np.sqrt(p), np.exp(x), np.log(p), np.log10(p)),
            *(np.log2(p), np.tanh(x), np.sinh(x), np.cosh(x), np.arccos(unit), np.arcsin(unit)),
            *(np.arctan(x), np.floor(x), np.ceil(x), np.sign(x), np.fabs(x), np.square(x)),
            *(np.reciprocal(p), np.deg2rad(x), np.rad2deg(x), np.arctan2(x, y), np.hypot(x, y)),
            *(np.power(p, y), p**3, p**-2, p**0.5, p**2.5, 2.0**x, np.remainder(x, 0.7), x % 0.3),
            *(np.minimum(x, y), np.maximum(x, y), np.clip(x, -0.5, 0.25), x.clip(-0.1, 0.2)),
            *(-x, +x, abs(x), x / p, 1.0 / p, x - 2, 3 - x),
            np.where((x > 0) & (y <= 0.5), x, y),
            np.where((x >= 0) | ~(y < 0.5), x, y),
            np.where(x == y, 1.0, np.where(x != 0.0, 2.0, 3.0)),
            np.where(np.isnan(x) | np.isinf(y) | ~np.isfinite(x), 0.0, 1.0),
            np.select([x < -0.5, x < 0.5], [x, y], 7.0),
            (x > y) * 2.0 - (x > 0) + 1.0,
            (x > y).astype(float),
        ]
    )


def test_functions_of_numbers(pendulum):
    f = pendulum.compile(elementary, x=3, y=3)
    rng = np.random.default_rng(1)
    for scale in (0.3, 1.0, 3.0):
        q, x, y = rng.normal(size=2), scale * rng.normal(size=3), rng.normal(size=3)
        np.testing.assert_allclose(f(q, x, y), elementary(pendulum, q, x, y), rtol=1e-13)


def algebra(robot, q, A, b):
    """Every function of arrays that is recorded."""
    S = A @ A.T + np.eye(3)
    z = np.zeros_like(b)
    z[1:] = b[:2]
    return (
        np.linalg.solve(A, b),
        np.linalg.solve(A, S),
        np.linalg.inv(A),
        np.linalg.det(A),
        np.linalg.cholesky(S),
        np.cross(b, A[0]),
        np.outer(b, q),
        np.stack([np.dot(b, b), b @ b, np.linalg.norm(b), np.trace(A), np.sum(A), A.mean()]),
        np.linalg.norm(A, axis=1),
        np.stack([np.max(b), b.min(), np.linalg.norm(b, 1), np.linalg.norm(b, np.inf)]),
        np.concatenate([A, A.T], axis=1)[::-1, ::2],
        np.einsum("ij,j->i", A, b) + np.diag(A) + np.tile(b[0], 3) + np.array([b[2], 0.0, q[0]]),
        np.hstack([b, q]),
        np.vstack([b, b]),
        np.kron(b[:2], q),
        z.reshape(3, 1),
        np.any(b > 0.0),
        np.cumsum(b),
        np.linalg.solve(robot.mass_matrix(q), q),
        np.linalg.inv(robot.mass_matrix(q)),
    )


def test_functions_of_arrays(pendulum):
    f = pendulum.compile(algebra, A=(3, 3), b=3)
    rng = np.random.default_rng(2)
    for _ in range(5):
        q, A, b = rng.normal(size=2), rng.normal(size=(3, 3)), rng.normal(size=3)
        A[0, 0] *= 1e-12  # elimination without pivoting would lose all digits
        found, expected = f(q, A, b), algebra(pendulum, q, A, b)
        assert len(found) == len(expected)
        for x, y in zip(found, expected, strict=True):
            assert np.shape(x) == np.shape(y)
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10)


def test_a_compiled_function_is_recorded_inside_another(pendulum):
    inner = pendulum.compile(lambda robot, q, v: robot.bias(q, v) * 2.0)
    outer = pendulum.compile(lambda robot, q, v: inner(q, v) - robot.gravity(q))
    q, v = np.array([0.3, -1.0]), np.array([0.5, 2.0])
    expected = 2.0 * pendulum.bias(q, v) - pendulum.gravity(q)
    np.testing.assert_allclose(outer(q, v), expected, rtol=1e-13)


def test_constants_of_the_robot(pendulum):
    def f(robot, q, v):
        slack = robot.limits.upper - q
        rest = robot.gravity(robot.neutral())
        wrench = qddot.Wrench(robot.frame_names[-1], "world", np.concatenate([v, v, v]))
        a = robot.forward_dynamics(q, v, rest, f_ext=[wrench])
        return np.minimum(slack, 1.0), a, robot.inertial_parameters[0, 0] * q[0]

    found = pendulum.compile(f)(np.array([0.1, 0.2]), np.array([0.5, 2.0]))
    expected = f(pendulum, np.array([0.1, 0.2]), np.array([0.5, 2.0]))
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


LINE_OF = {
    "branch": lambda robot, q: q if q[0] > 0 else -q,
    "loop": lambda robot, q: max(q[0], q[1]),
    "floats": lambda robot, q: math.sin(q[0]),
    "ufunc": lambda robot, q: np.spacing(q),
    "frame": lambda robot, q: robot.frame_pose(q, "tol0"),
    "nan": lambda robot, q: q * math.nan,
    "none": lambda robot, q: None,
    "text": lambda robot, q: "torque",
    "ragged": lambda robot, q: [q, q[0]],
    "empty": lambda robot, q: q[2:],
    "in-place": lambda robot, q: np.add(np.zeros(2), q, out=np.zeros(2)),
    "shape": lambda robot, q: robot.mass_matrix(q[:1]),
    "batch": lambda robot, q: robot.mass_matrix(np.stack([q, q])),
    "bug": lambda robot, q: q.no_such_attribute,
}
REMEDIES = {
    "branch": "np.where",
    "loop": "np.maximum",
    "floats": "NumPy's functions",
    "ufunc": "np.spacing is not traced",
    "frame": "'tip'",
    "nan": "NaN",
    "in-place": "np.stack",
    "shape": "nq=2",
    "batch": "one state",
    "bug": "no_such_attribute",
}


@pytest.mark.parametrize("case", LINE_OF)
def test_what_cannot_be_recorded_names_the_line_and_the_remedy(pendulum, case):
    function = LINE_OF[case]
    with pytest.raises(CannotTrace) as caught:
        pendulum.compile(function)
    line = function.__code__.co_firstlineno
    assert f"{Path(__file__).name}:{line}" in str(caught.value)
    assert REMEDIES.get(case, "it returns") in str(caught.value)


def test_writing_symbols_into_floats_is_refused(pendulum):
    def writes(robot, q):
        x = np.zeros(2)
        x[0] = q[0]
        return x

    with pytest.raises(CannotTrace, match=r"x\[0\] = q\[0\].*np.stack"):
        pendulum.compile(writes)


def test_arguments_that_do_not_fit(pendulum):
    def f(robot, q, gain, bias=0.0):
        return gain * q + bias

    with pytest.raises(InvalidArgument, match="'gain' without a shape"):
        pendulum.compile(f)
    with pytest.raises(UnknownArgument, match="gian"):
        pendulum.compile(f, gain=2, gian=2)
    for bad in (0, -1, 2.5, "nx", (2, None), True):
        with pytest.raises(InvalidArgument, match="gain"):
            pendulum.compile(f, gain=bad)
    with pytest.raises(InvalidArgument):
        pendulum.compile(lambda: 1.0)
    with pytest.raises(InvalidArgument):
        pendulum.compile(lambda robot, *q: q)
    g = pendulum.compile(f, gain="nv")
    assert g([1.0, 2.0], [3.0, 4.0]).tolist() == [3.0, 8.0]
    with pytest.raises(ShapeMismatch, match="gain"):
        g([1.0, 2.0], [3.0])
    with pytest.raises(InvalidArgument, match="it needs q, gain"):
        g([1.0, 2.0])
    with pytest.raises(UnknownArgument, match="gians"):
        g([1.0, 2.0], gians=[3.0])


def test_numbers_in_and_out(pendulum):
    f = pendulum.compile(lambda robot, q, t: q @ q * t, t=())
    assert f([1.0, 2.0], 3.0) == 15.0
    assert f(np.ones((4, 2)), np.arange(4.0)).tolist() == [0.0, 2.0, 4.0, 6.0]


def awkward(robot, q, v, k, double, t):
    """Names that C has for itself, and every operation."""
    x = np.abs(q) + 0.1 * t
    e = np.exp(-x) + np.log(x) * np.tanh(k) + np.arccos(0.5 * np.sin(v)) * np.arcsin(np.cos(q) / 2)
    e = e + x ** double[0] + np.minimum(q, v) * np.maximum(k, 0.2) + np.abs(v - q)
    e = np.where((q < v) & ~(k <= 0.0) | (q == 0.0), e, -e)
    return e, np.floor(q) + np.arctan2(q, v)


@pytest.mark.skipif(CC is None, reason="no C compiler: neither gcc nor cc on the path")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_exported_c_compiles_and_passes_its_vectors(pendulum, tmp_path, dtype):
    f = pendulum.compile(awkward, k=2, double=1, t=())
    f.export_c(tmp_path, dtype)
    command = [CC, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1"]
    names = ["double_pendulum.c", "double_pendulum_test.c", "-lm", "-o", "run"]
    made = subprocess.run([*command, *names], cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    ran = subprocess.run([tmp_path / "run"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
    assert "double_pendulum_awkward out0" in ran.stdout


def test_export_refuses_a_function_of_another_robot(pendulum, arm, tmp_path):
    f = pendulum.compile(lambda robot, q: q)
    with pytest.raises(Unsupported, match="compiled for"):
        arm.export_c([f], tmp_path)


def test_only_errors_of_plain_arrays_are_told_how_arrays_are_made():
    robot = qddot.load("planar_2r")

    def plain(robot, q):
        return np.sin(np.array([q[0], q[1]]))

    def unrelated(robot, q):
        return q + len(3)

    hint = "arrays of symbols are made by np.stack"
    with pytest.raises(CannotTrace, match=hint):
        robot.compile(plain)
    with pytest.raises(CannotTrace, match=r"TypeError: object of type 'int' has no len\(\)$"):
        robot.compile(unrelated)
