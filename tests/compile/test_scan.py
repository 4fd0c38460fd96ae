"""A step repeated in time by native code, against the same step in a Python loop."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from native_cases import cold_cache  # noqa: F401

from qddot.compile.ir.scan import ScanShapes
from qddot.compile.kernel import KernelSource, compile_kernel
from qddot.compile.runtime.threads import run_split, threads

pytestmark = pytest.mark.native_core
SHAPES = ScanShapes(
    carry=((2,), (), (3,)), sampled=((2,),), constants=((),), path_places=(0, 2), end_places=(0, 1)
)
SIZES = (1, 0, 1, 2, 0, 0)


def step(x, c, m, u, k):
    """A step with an output that is an input, one that is a constant, and one given twice."""
    y = [x[0] + k * u[0] + 0.1 * m[0], x[1] * 0.5 + u[1]]
    return [*y, c + 1.0, c, y[0], 7.0]


@pytest.fixture(scope="module")
def gufunc():
    source = KernelSource("steps", "Steps.", step, SHAPES.inputs, SHAPES.carry, "steps", SHAPES)
    made = compile_kernel(source).gufunc

    def run(*given, out=None):
        """The arrays of what is told say how many entries there are."""
        given = [np.asarray(x) for x in given]
        shapes = results(given)
        kind = given[0].dtype
        return made(
            *given, out=tuple(np.full(s, np.nan, kind) for s in shapes) if out is None else out
        )

    run.signature = made.signature
    return run


def results(given):
    """The shapes of what the gufunc gives."""
    batch = np.broadcast_shapes(*(x.shape[: x.ndim - n] for x, n in zip(given, SIZES, strict=True)))
    entries = given[3].shape[-2] + 1
    return [(*batch, entries, 2), (*batch, entries, 3), (*batch, 2), batch]


def by_hand(x, c, m, u, k, every):
    told, more = [x], [m]
    for t in range(u.shape[1]):
        for _ in range(every):
            first = x[:, 0] + k * u[:, t, 0] + 0.1 * m[:, 0]
            x = np.stack([first, x[:, 1] * 0.5 + u[:, t, 1]], -1)
            m = np.stack([c, x[:, 0], np.full_like(c, 7.0)], -1)
            c = c + 1
        told.append(x)
        more.append(m)
    return np.stack(told, 1), np.stack(more, 1), x, c


def arrays(n, samples, dtype=float, seed=0):
    rng = np.random.default_rng(seed)
    shapes = ((n, 2), (n,), (n, 3), (n, samples, 2), (n,))
    return [rng.normal(size=s).astype(dtype) for s in shapes]


def test_signature(gufunc):
    assert gufunc.signature == "(2),(),(3),(t,2),(),()->(s,2),(s,3),(2),()"


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
    x, c, m, u, k = arrays(5, 0)
    told, more, last_x, last_c = gufunc(x, c, m, u, k, 1.0)
    np.testing.assert_array_equal(told, x[:, None])
    np.testing.assert_array_equal(more, m[:, None])
    np.testing.assert_array_equal(last_x, x)
    np.testing.assert_array_equal(last_c, c)


def test_any_layout(gufunc):
    x, c, m, u, k = arrays(9, 5)
    expected = by_hand(x, c, m, u, k, 2)
    odd = [np.asfortranarray(x), np.repeat(c, 2)[::2], np.repeat(m, 2, axis=1)[:, ::2]]
    odd += [u.transpose(2, 1, 0).copy().T, k[::-1][::-1]]
    out = tuple(np.full((2, *e.shape), np.nan)[1] for e in expected)
    spread = (np.empty((9, 2, 6)).swapaxes(1, 2), *out[1:])
    inner = tuple(np.full((*e.shape, 3), np.nan)[..., 1] for e in expected)
    for target in (out, spread, inner):
        for found, wanted in zip(gufunc(*odd, 2.0, out=target), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_one_input_for_all_states_and_times(gufunc):
    x, c, m, _, k = arrays(6, 1)
    u = np.broadcast_to(np.ones(2), (6, 4, 2))
    found = gufunc(x[0], c[0], m[0], np.broadcast_to(np.ones(2), (4, 2)), k, 1.0)
    expected = by_hand(np.tile(x[0], (6, 1)), np.full(6, c[0]), np.tile(m[0], (6, 1)), u, k, 1)
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
        shared = run_split(gufunc, given, SIZES, ((7, 2), (7, 3), (2,), ()), None, 10**6)
    for a, b in zip(shared, alone, strict=True):
        np.testing.assert_array_equal(a, b)
