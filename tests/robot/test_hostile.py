"""Hostile values and arguments: compiled and interpreted functions give and refuse the same."""

from __future__ import annotations

import subprocess
import sys
import warnings

import mpmath
import numpy as np
import pytest
from native_cases import cold_cache, inputs_of, results, robots, same_bits  # noqa: F401

import qddot
from qddot.algorithms.catalogue import CATALOGUE
from qddot.errors import QddotError
from qddot.spatial import scalar

NOT_FINITE = (np.nan, np.inf, -np.inf)
FINITE = (1e308, -1e308, 1e-320, -0.0)


@pytest.fixture(autouse=True)
def quiet():
    """Hostile numbers may warn, as NumPy's own functions do."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


@pytest.mark.parametrize("value", [*NOT_FINITE, -1.0])
@pytest.mark.parametrize("function", [scalar.sin, scalar.cos, scalar.sqrt])
def test_functions_of_a_float_are_those_of_an_array(function, value):
    for number in (value, complex(value, 0.0)):
        found, expected = function(number), function(np.array([number]))[0]
        assert type(found) is type(number)
        assert np.isnan(found) == np.isnan(expected)
        if not np.isnan(expected):
            assert found == expected


def hostile(robot, name, value):
    """Inputs of a function with one number replaced, one place at a time; and its options."""
    arrays, options = inputs_of(robot, name)
    for k, x in enumerate(arrays):
        for place in sorted({0, x.size - 1}) if x.size else ():
            changed = [np.array(y) for y in arrays]
            changed[k].flat[place] = value
            yield changed, options


@pytest.mark.parametrize("name", CATALOGUE)
def test_numbers_that_are_not_finite(name):
    """No error; what is not finite in compiled code is not finite in the definition either."""
    robot, definition = robots("planar_2r")
    reached = 0
    for value in NOT_FINITE:
        for arrays, options in hostile(robot, name, value):
            found = results(robot.call(name, *arrays, **options))
            single = results(definition.call(name, *arrays, **options))
            batch = results(definition.call(name, *(x[None] for x in arrays), **options))
            for a, b, c in zip(found, single, batch, strict=True):
                assert not (~np.isfinite(a) & np.isfinite(b)).any()
                assert not (~np.isfinite(a) & np.isfinite(c[0])).any()
                both = np.isfinite(a) & np.isfinite(b)
                np.testing.assert_allclose(a[both], b[both], rtol=1e-9, atol=1e-9)
                reached += (~np.isfinite(a)).sum()
    # this arm has no friction
    assert reached or name == "friction"


@pytest.mark.parametrize("name", CATALOGUE)
def test_very_large_and_very_small_numbers(name):
    """No error, and numbers wherever they are far from the ends of the range."""
    robot, definition = robots("planar_2r")
    for value in FINITE:
        for arrays, options in hostile(robot, name, value):
            found = results(robot.call(name, *arrays, **options))
            expected = results(definition.call(name, *arrays, **options))
            for a, b in zip(found, expected, strict=True):
                if abs(value) < 1.0 and name not in ("task_inertia", "operational_space"):
                    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
                else:
                    assert a.shape == b.shape


@pytest.mark.parametrize("name", ["integrate", "difference", "interpolate", "forward_dynamics"])
@pytest.mark.parametrize("value", NOT_FINITE)
def test_rotations_that_are_not_finite(name, value):
    robot, definition = robots("short")
    for arrays, options in hostile(robot, name, value):
        found = results(robot.call(name, *arrays, **options))
        expected = results(definition.call(name, *arrays, **options))
        for a, b in zip(found, expected, strict=True):
            assert not (~np.isfinite(a) & np.isfinite(b)).any()


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("value", NOT_FINITE)
def test_a_state_does_not_harm_its_neighbours(native, value):
    robot = robots("planar_2r")[0 if native else 1]
    arrays, options = inputs_of(robot, "forward_dynamics", (9,))
    whole = robot.call("forward_dynamics", *arrays, **options)
    arrays[0][4, 0] = value
    found = robot.call("forward_dynamics", *arrays, **options)
    assert np.isnan(found[4]).any()
    keep = np.arange(9) != 4
    assert same_bits(found[keep], whole[keep])


# arrays for results


def overlapping(shape):
    """An array of the shape all of whose rows are one."""
    return np.lib.stride_tricks.as_strided(np.empty(shape[1:]), shape, (0, 16, 8), writeable=True)


def read_only(shape):
    x = np.empty(shape)
    x.flags.writeable = False
    return x


class Foreign:
    """An array of another library, which takes calls of NumPy over."""

    shape, ndim, dtype, size = (5, 2, 2), 3, np.dtype(float), 20

    def __array_ufunc__(self, *_, **__):
        raise AssertionError("the foreign array took over")

    def __setitem__(self, *_):
        raise AssertionError("the foreign array was written to")


WRONG = {
    "int": lambda s: np.empty(s, int),
    "bool": lambda s: np.empty(s, bool),
    "text": lambda s: np.empty(s, "U3"),
    "longer": lambda s: np.empty((s[0] + 1, *s[1:])),
    "shorter": lambda s: np.empty((1, *s[1:])),
    "no batch": lambda s: np.empty(s[1:]),
    "core": lambda s: np.empty((*s[:-1], 3)),
    "turned": lambda s: np.empty(s[::-1]),
    "scalar": lambda _: np.empty(()),
    "read-only": read_only,
    "overlap": overlapping,
    "list": lambda s: np.empty(s).tolist(),
    "tuple of two": lambda s: (np.empty(s), np.empty(s)),
    "empty tuple": lambda _: (),
    "number": lambda _: 1.0,
    "text object": lambda _: "out",
    "foreign": lambda _: Foreign(),
    "foreign in a tuple": lambda _: (Foreign(),),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("native", [True, False])
def test_arrays_for_results_are_refused_alike(kind, native, threads):
    robot = robots("planar_2r")[0 if native else 1]
    q = np.linspace(-1.0, 1.0, 10).reshape(5, 2)
    robot.mass_matrix(q)
    with qddot.threads(threads):
        for call in (robot.mass_matrix, lambda q, out: robot.call("mass_matrix", q, out=out)):
            with pytest.raises(QddotError, match="mass_matrix: out"):
                call(q, out=WRONG[kind]((5, 2, 2)))


def test_an_array_is_no_place_for_two_results():
    for robot in robots("planar_2r"):
        q, v, a = np.linspace(-1.0, 1.0, 30).reshape(3, 5, 2)
        expected = robot.inverse_dynamics_derivatives(q, v, a)
        x, y, store = np.empty((5, 2, 2)), np.empty((5, 2, 2)), np.zeros((9, 2, 2))
        wrong = [(x, x, y), (x, y, x[::-1]), (store[:5], store[4:], x), [x, y, x.copy()]]
        wrong += [(x, y), (x, y, Foreign()), (x, y, None, None), x, (x, y, 1.0)]
        for out in wrong:
            with pytest.raises(QddotError, match="inverse_dynamics_derivatives: out"):
                robot.inverse_dynamics_derivatives(q, v, a, out=out)
        # parts of one array that lie between each other are apart
        both = np.empty((5, 2, 2, 2))
        found = robot.inverse_dynamics_derivatives(q, v, a, out=(both[..., 0], both[..., 1], x))
        assert all((m == n).all() for m, n in zip(found, expected, strict=True))


def test_arrays_for_results_that_both_take():
    q = np.linspace(-1.0, 1.0, 10).reshape(5, 2)
    for robot in robots("planar_2r"):
        expected = robot.mass_matrix(q)
        wide, single = np.empty((3, 5, 2, 2)), np.empty((5, 2, 2), "f4")
        swapped, mixed = np.empty((5, 2, 2), ">f8"), np.empty((5, 2, 2), complex)
        for out in (wide, single, swapped, mixed, np.empty((2, 2, 5)).T):
            assert robot.mass_matrix(q, out=out) is out
            np.testing.assert_allclose(out, np.broadcast_to(expected, out.shape), rtol=1e-6)
        assert robot.mass_matrix(q, out=(wide,)) is wide
        made = robot.inverse_dynamics_derivatives(q, q, q, out=(None, wide, None))
        assert made[1] is wide
        assert [x.shape for x in made] == [(3, 5, 2, 2)] * 3
        both = q.copy()
        assert robot.integrate(both, q, out=both) is both
        np.testing.assert_allclose(both, robot.integrate(q, q))


def test_results_of_more_axes_than_numpy_broadcasts():
    for robot in robots("planar_2r"):
        q = np.ones((1,) * 40 + (2,))
        out = np.empty((1,) * 40 + (2, 2))
        assert robot.mass_matrix(q, out=out) is out
        np.testing.assert_allclose(out.reshape(2, 2), robot.mass_matrix(q.reshape(2)))
        with pytest.raises(qddot.QddotError):
            robot.mass_matrix(q, out=np.empty((1,) * 50 + (3, 2)))


DASK = """
import dask.array as da
import numpy as np
import qddot
from qddot.robot.robot import Robot

model = qddot.load("planar_2r").model
for robot in (Robot(model, native=True), Robot(model, native=False)):
    q = np.zeros((5, 2))
    robot.mass_matrix(q)
    lazy = da.zeros((5, 2, 2))
    for given, out in ((q, lazy), (q, (lazy,)), (da.zeros((5, 2)), lazy)):
        try:
            robot.mass_matrix(given, out=out)
        except qddot.QddotError as error:
            print("refused", error)
    try:
        robot.inverse_dynamics_derivatives(q, q, q, out=(lazy, lazy, lazy))
    except qddot.QddotError as error:
        print("refused", error)
"""


def test_dask_arrays_take_no_results():
    pytest.importorskip("dask.array")
    done = subprocess.run(
        [sys.executable, "-c", DASK], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.count("refused") == 8, done.stderr


def test_terms_at_states_that_are_not_finite_are_nan():
    robot = qddot.load("planar_2r")
    q = np.array([[0.1, 0.2], [0.0, np.nan], [0.0, np.inf]])
    terms = robot.terms(q, np.zeros(2))
    assert np.isfinite(terms.smallest_eigenvalue[0])
    assert np.isnan(terms.smallest_eigenvalue[1:]).all()
    np.testing.assert_array_equal(
        terms.smallest_eigenvalue[0], np.linalg.eigvalsh(robot.mass_matrix(q[0])).min()
    )


def test_terms_of_long_and_exact_numbers():
    robot, q = qddot.load("planar_2r"), np.array([0.1, 0.2])
    expected = robot.terms(q, q)
    for numbers in (q.astype(np.longdouble), np.array([mpmath.mpf(x) for x in q])):
        found = robot.terms(numbers, numbers)
        np.testing.assert_allclose(
            found.smallest_eigenvalue, expected.smallest_eigenvalue, rtol=1e-12
        )


@pytest.mark.parametrize("axes", [np.zeros((2, 2)), [np.arange(3)], [1.0], [{}]])
def test_axes_that_are_arrays_are_refused(axes):
    robot = qddot.load("planar_2r")
    with pytest.raises(qddot.QddotError, match="axes"):
        robot.operational_space([0.1, 0.2], [0, 0], robot.frame_names[-1], "world", axes=axes)


@pytest.mark.parametrize("rate", [10**400, -1, np.nan, np.inf])
def test_stabilisation_that_is_no_rate_is_refused(rate):
    robot = qddot.load("four_bar")
    still = np.zeros(robot.nv)
    with pytest.raises(qddot.QddotError, match="stabilisation"):
        robot.constrained_dynamics(robot.neutral(), still, still, stabilisation=rate)


def test_as_many_axes_as_arrays_have_and_numbers_that_overflow():
    robot = qddot.load("planar_2r")
    q, v = np.full((*[1] * 62, 2), 0.3), np.full(2, 1e200)
    tool = robot.frame_names[-1]
    expected = robot.operational_space(q.ravel(), v, tool, "world", axes=["x"])
    found = robot.operational_space(q, v, tool, "world", axes=["x"])
    for mine, one in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine.reshape(one.shape), one)


def test_overflow_where_a_result_has_no_number():
    robot = qddot.load("planar_2r")
    v = np.full((3, 2), 1e200)
    assert robot.constraint_jacobian_rate(v, v).shape == (3, 0, 2)
    assert robot.constraint_jacobian_rate(v[0], v[0]).shape == (0, 2)


@pytest.mark.parametrize("parameters", [[[10**400] * 10] * 2, [[1e-9, 1e200, *[1.0] * 8]] * 2])
def test_parameters_that_overflow_are_refused_or_reported(parameters):
    robot = qddot.load("planar_2r")
    try:
        found = robot.with_parameters(parameters).model.health
    except qddot.QddotError:
        return
    assert any("beyond all numbers" in f.message for f in found)
