"""Arrays that keep their zeros: what can change is written, the rest is not touched."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from identities import many
from native_cases import inputs_of
from random_models import build, trees

import qddot
from qddot.compile.runtime import chunks, native
from qddot.errors import InvalidArgument
from qddot.robot.native import Refill
from qddot.robot.robot import Robot

pytestmark = pytest.mark.native_core
NAMES = ["torque_regressor", "mass_matrix", "frame_jacobian", "inverse_dynamics_derivatives"]


def case(name: str, batch: tuple[int, ...], dtype: str = "float64"):
    """A function of the quadruped that keeps its zeros, its inputs, and what it should give."""
    robot = qddot.load("quadruped")
    arrays, options = inputs_of(robot, name, batch, 0)
    arrays = [np.asarray(x, dtype) for x in arrays]
    expected = robot.compile(name, **options)(*arrays)
    fill = robot.compile(name, zeros="kept", **options)
    assert isinstance(fill, Refill)
    return fill, arrays, expected if isinstance(expected, tuple) else (expected,)


def results(found):
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("batch", [(), (0,), (1,), (37,), (3, 5)])
@pytest.mark.parametrize("name", NAMES)
def test_new_arrays_are_right(name, batch, dtype):
    fill, arrays, expected = case(name, batch, dtype)
    for x, y in zip(results(fill(*arrays)), expected, strict=True):
        assert x.dtype == y.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_only_what_can_change_is_written(name, threads):
    fill, arrays, expected = case(name, (2000,))
    out = tuple(np.full(x.shape, 7.0) for x in expected)
    with qddot.threads(threads):
        found = fill(*arrays, out=out if len(out) > 1 else out[0])
    assert all(x is y for x, y in zip(results(found), out, strict=True))
    untouched = [np.all(x == 7.0, axis=0) for x in out]
    assert sum(map(np.sum, untouched)) > 0
    for x, y, left in zip(out, expected, untouched, strict=True):
        assert not np.any(y[:, left])
        np.testing.assert_array_equal(x[:, ~left], y[:, ~left])


@pytest.mark.parametrize("width", native.WIDTHS)
def test_vectors_of_zeros_are_left_alone(monkeypatch, width):
    """All of them, which is more than half of a regressor whatever the width."""
    monkeypatch.setenv("QDDOT_VECTOR_BYTES", str(width))
    fill, arrays, (expected,) = case("torque_regressor", (4,))
    out = np.full((4, 18, 130), 7.0)
    left = (fill(*arrays, out=out) == 7.0).reshape(4, -1)
    # a state has 2340 numbers; the last vector of it may begin early
    lanes = width // 8
    numbers = (expected == 0.0).all(axis=0).ravel()
    whole = len(numbers) // lanes * lanes
    zeros = np.zeros(len(numbers), bool)
    zeros[:whole] = np.repeat(numbers[:whole].reshape(-1, lanes).all(axis=1), lanes)
    zeros[-lanes:] &= numbers[-lanes:].all()
    zeros[whole:] = numbers[-lanes:].all()
    assert (left == zeros).all()
    assert zeros.mean() > 0.5


@pytest.mark.parametrize("layout", ["strided", "transposed", "offset"])
def test_arrays_with_strides(layout):
    """Rows of those go by way of memory of our own, which has zeros too."""
    fill, arrays, (expected,) = case("torque_regressor", (11,))
    out = {
        "strided": lambda: np.zeros((11, 36, 260))[:, ::2, ::2],
        "transposed": lambda: np.zeros((130, 18, 11)).T,
        "offset": lambda: np.zeros(11 * 18 * 130 + 1)[1:].reshape(11, 18, 130),
    }[layout]()
    for _ in range(2):
        np.testing.assert_array_equal(fill(*arrays, out=out), expected)


@settings(many, max_examples=8)
@given(trees(most=5))
def test_random_trees(tree):
    robot = Robot(build(*tree))
    if not robot.nv:
        with pytest.raises(InvalidArgument, match="no joint that moves"):
            robot.compile("torque_regressor", zeros="kept")
        return
    arrays, _ = inputs_of(robot, "torque_regressor", (3,), tree[1] % 1000)
    fill = robot.compile("torque_regressor", zeros="kept")
    Y = fill(*arrays)
    expected = robot.compile("torque_regressor")(*arrays)
    np.testing.assert_array_equal(fill(*arrays, out=Y), expected)


def test_parameters_are_further_inputs():
    robot = qddot.load("panda")
    q, v, a = inputs_of(robot, "torque_regressor", (5,), 0)[0]
    fill = robot.compile("torque_regressor", ["gravity"], zeros="kept")
    moon = robot.with_gravity((0.0, 0.0, -1.62))
    found = fill(q, v, a, [0.0, 0.0, -1.62])
    np.testing.assert_allclose(found, moon.torque_regressor(q, v, a), rtol=1e-12, atol=1e-12)


def test_numbers_of_other_kinds_are_read():
    fill, arrays, _ = case("mass_matrix", (2,))
    q = np.round(arrays[0])
    np.testing.assert_array_equal(fill(q.astype(int)), fill(q))
    np.testing.assert_array_equal(fill(q.tolist()), fill(q))


def read_only(x: np.ndarray) -> np.ndarray:
    x.flags.writeable = False
    return x


WRONG = {
    "shape": lambda x: np.zeros((3, 18, 18)),
    "dtype": lambda x: np.zeros((2, 18, 18), "float32"),
    "no array": lambda x: [[0.0]],
    "subclass": lambda x: np.zeros((2, 18, 18)).view(np.recarray),
    "read-only": lambda x: read_only(np.zeros((2, 18, 18))),
    "unaligned": lambda x: np.zeros(2 * 18 * 18 * 8 + 1, "u1")[1:].view("f8").reshape(2, 18, 18),
    "two": lambda x: (np.zeros((2, 18, 18)), np.zeros((2, 18, 18))),
    "own overlap": lambda x: np.lib.stride_tricks.as_strided(np.zeros(18), (2, 18, 18), (0, 8, 0)),
    "overlap": lambda x: np.lib.stride_tricks.as_strided(x, (2, 18, 18), (8, 8, 8)),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_numpy_would_copy_is_refused(what):
    fill, arrays, _ = case("mass_matrix", (2,))
    with pytest.raises(InvalidArgument, match="out"):
        fill(*arrays, out=WRONG[what](arrays[0]))


def test_results_may_not_be_one_array():
    fill, arrays, expected = case("inverse_dynamics_derivatives", (2,))
    x = np.zeros((2, *expected[0].shape))
    for out in ((x[0], x[0], x[1]), (x[0], x[1], x[1])):
        with pytest.raises(InvalidArgument, match="share memory"):
            fill(*arrays, out=out)


def test_a_result_is_not_taken_for_a_missing_input():
    robot = qddot.load("planar_2r")
    fill = robot.compile("inverse_dynamics", zeros="kept")
    q, v, a = np.zeros((3, 4, 2))
    with pytest.raises(InvalidArgument, match="3 are needed"):
        fill(q, v, out=a)


def test_large_batches_are_split(monkeypatch):
    parts = []
    real = chunks.run_split
    monkeypatch.setattr(chunks, "run_split", lambda *given: parts.append(given) or real(*given))
    fill, arrays, (expected,) = case("torque_regressor", (2000,))
    with qddot.threads(2):
        np.testing.assert_array_equal(fill(*arrays, out=np.zeros_like(expected)), expected)
    assert len(parts) == 1


def test_arrays_stay_as_they_are_where_float32_code_cannot_be_made(monkeypatch, tmp_path):
    monkeypatch.setenv("QDDOT_CACHE_DIR", str(tmp_path))
    fill, arrays, _ = case("mass_matrix", (2,))
    narrow = [x.astype("float32") for x in arrays]
    out = np.zeros((2, 18, 18), "float32")
    with monkeypatch.context() as patch:
        patch.setattr(native, "emit_object_code", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            fill(*narrow, out=out)
    assert not out.any()
    np.testing.assert_allclose(fill(*narrow, out=out), fill(*arrays), atol=1e-4)


def test_wrong_calls_say_what_is_needed():
    fill, arrays, _ = case("mass_matrix", (2,))
    for some, out in (
        ((), None),
        ((), arrays[0]),
        ((*arrays, *arrays), None),
        (arrays, ()),
        (arrays, tuple(arrays * 2)),
    ):
        with pytest.raises(InvalidArgument, match="1 are needed, and for `out` 1 or none"):
            fill(*some, out=out)
    with pytest.raises(ValueError, match="mismatch"):
        fill(np.zeros((2, 5)))
    for wrong in ("gone", None, np.zeros(3)):
        with pytest.raises(InvalidArgument, match="'written' or 'kept'"):
            qddot.load("panda").compile("mass_matrix", zeros=wrong)
