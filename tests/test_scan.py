"""A step repeated in time by native code, against the same step in a Python loop."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from native_cases import cold_cache  # noqa: F401

from qddot.compile.kernel import Source, compile_kernel
from qddot.compile.scan import ScanShapes
from qddot.compile.threads import run_split, threads

SHAPES = ScanShapes(carry=((2,), ()), sampled=((2,),), constants=((),), samples=((2,), (3,)))


def step(x, c, u, k):
    """A step with an output that is an input, one that is a constant, and one given twice."""
    y = [x[0] + k * u[0], x[1] * 0.5 + u[1]]
    return [*y, c + 1.0, *y, c, y[0], 7.0]


@pytest.fixture(scope="module")
def gufunc():
    source = Source("steps", "Steps.", step, SHAPES.inputs, SHAPES.outputs, "steps", SHAPES)
    return compile_kernel(source).gufunc


def by_hand(x, c, u, k, every):
    said, more = [], []
    for t in range(u.shape[1]):
        for _ in range(every):
            y = np.stack([x[:, 0] + k * u[:, t, 0], x[:, 1] * 0.5 + u[:, t, 1]], -1)
            last = np.stack([c, y[:, 0], np.full_like(c, 7.0)], -1)
            x, c = y, c + 1
        said.append(x)
        more.append(last)
    return np.stack(said, 1), np.stack(more, 1), x, c


def arrays(n, samples, dtype=float, seed=0):
    rng = np.random.default_rng(seed)
    shapes = ((n, 2), (n,), (n, samples, 2), (n,))
    return [rng.normal(size=s).astype(dtype) for s in shapes]


def test_signature(gufunc):
    assert gufunc.signature == "(2),(),(t,2),(),()->(t,2),(t,3),(2),()"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("n", "samples", "every"), [*itertools.product((1, 3, 9, 40), (1, 5), (1, 3))]
)
def test_equals_a_loop(gufunc, n, samples, every, dtype):
    given = arrays(n, samples, dtype)
    for found, expected in zip(gufunc(*given, dtype(every)), by_hand(*given, every), strict=True):
        assert found.dtype == dtype
        tiny = 50 * np.finfo(dtype).eps
        np.testing.assert_allclose(found, expected, rtol=tiny, atol=tiny)


def test_no_samples_give_back_the_start(gufunc):
    x, c, u, k = arrays(5, 0)
    said, more, last_x, last_c = gufunc(x, c, u, k, 1.0)
    assert said.shape == (5, 0, 2)
    assert more.shape == (5, 0, 3)
    np.testing.assert_array_equal(last_x, x)
    np.testing.assert_array_equal(last_c, c)


def test_any_layout(gufunc):
    x, c, u, k = arrays(9, 5)
    expected = by_hand(x, c, u, k, 2)
    odd = [np.asfortranarray(x), np.repeat(c, 2)[::2], u.transpose(2, 1, 0).copy().T, k[::-1][::-1]]
    out = tuple(np.full((2, *e.shape), np.nan)[1] for e in expected)
    spread = (np.empty((9, 2, 5)).swapaxes(1, 2), *out[1:])
    inner = tuple(np.full((*e.shape, 3), np.nan)[..., 1] for e in expected)
    for target in (out, spread, inner):
        for found, wanted in zip(gufunc(*odd, 2.0, out=target), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_one_input_for_all_states_and_times(gufunc):
    x, c, _, k = arrays(6, 1)
    u = np.broadcast_to(np.ones(2), (6, 4, 2))
    found = gufunc(x[0], c[0], np.broadcast_to(np.ones(2), (4, 2)), k, 1.0)
    expected = by_hand(np.tile(x[0], (6, 1)), np.full(6, c[0]), u, k, 1)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_the_place_in_a_batch_changes_no_bit(gufunc):
    given = arrays(50, 7)
    whole = gufunc(*given, 2.0)
    for part in (slice(3, 4), slice(7, 24)):
        for a, b in zip(gufunc(*(x[part] for x in given), 2.0), whole, strict=True):
            np.testing.assert_array_equal(a, b[part])


def test_threads_change_no_bit(gufunc):
    given = [*arrays(64, 6), np.array(1.0)]
    alone = gufunc(*given)
    with threads(3):
        shared = run_split(gufunc, given, (1, 0, 2, 0, 0), ((6, 2), (6, 3), (2,), ()), None, 10**6)
    for a, b in zip(shared, alone, strict=True):
        np.testing.assert_array_equal(a, b)
