"""Sine and cosine of native code against sixty digits: 2 ulp on |x| ≤ 1e5, the C library beyond."""

from __future__ import annotations

import dataclasses
import math
from functools import cache

import mpmath
import numpy as np
import pytest
from native_cases import cold_cache, same_bits  # noqa: F401

from qddot.compile.kernel import KernelSource, compile_kernel
from qddot.compile.runtime import native
from qddot.spatial import scalar

pytestmark = pytest.mark.native_core
MOST_ULP = 2.0
TYPES = (np.float64, np.float32)


def source() -> KernelSource:
    return KernelSource(
        *("sincos", "Sine and cosine."),
        lambda x: [scalar.sin(x), scalar.cos(x)],
        ((),),
        ((), ()),
        "sincos",
    )


@cache
def sincos():
    return compile_kernel(source()).gufunc


def ulps(found: np.ndarray, exact: list) -> np.ndarray:
    """Errors in units of the last place of the right answer."""
    rounded = np.abs(np.array([float(e) for e in exact])).astype(found.dtype)
    errors = [abs(mpmath.mpf(float(f)) - e) for f, e in zip(found, exact, strict=True)]
    return np.array([float(d) for d in errors]) / np.spacing(rounded).astype(float)


def worst(x: np.ndarray) -> float:
    """The largest error of sine or cosine at these numbers."""
    s, c = sincos()(x)
    assert s.dtype == c.dtype == x.dtype
    with mpmath.workdps(60):
        pairs = [mpmath.cos_sin(mpmath.mpf(float(t))) for t in x]
        return max(ulps(s, [p[1] for p in pairs]).max(), ulps(c, [p[0] for p in pairs]).max())


@pytest.mark.parametrize("dtype", TYPES)
def test_over_many_magnitudes(dtype):
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [
            rng.uniform(-1e5, 1e5, 2000),
            rng.uniform(-4.0, 4.0, 2000),
            np.exp(rng.uniform(-80.0, math.log(1e5), 2000)) * rng.choice([-1, 1], 2000),
            [1e5, -1e5, np.nextafter(1e5, 0)],
        ]
    ).astype(dtype)
    assert worst(x[np.abs(x) <= 1e5]) <= MOST_ULP


@pytest.mark.parametrize("dtype", TYPES)
def test_next_to_multiples_of_a_right_angle(dtype):
    """Where everything cancels but what the last part of π/2 says."""
    rng = np.random.default_rng(1)
    quarters = np.unique([*range(1, 200), *rng.integers(200, 63_000, 900), 63_000, 63_661])
    with mpmath.workdps(60):
        middle = np.array([float(k * mpmath.pi / 2) for k in quarters], dtype)
    above, below = (np.nextafter(middle, dtype(end)) for end in (np.inf, 0.0))
    for x in (middle, -middle, above, below):
        assert worst(x) <= MOST_ULP
    # between two quadrants, where the choice of one must not matter
    with mpmath.workdps(60):
        between = np.array([float((2 * k + 1) * mpmath.pi / 4) for k in quarters[:600]], dtype)
    assert worst(between) <= MOST_ULP


@pytest.mark.parametrize("dtype", TYPES)
def test_the_hardest_numbers_in_range(dtype):
    """All k to 63,000: the multiples of π/2 that numbers come closest to."""
    k = np.arange(1, 63_001)
    with mpmath.workdps(60):
        half = mpmath.pi / 2
        parts = [float(half)]
        parts.append(float(half - parts[0]))
    x = (k * np.longdouble(parts[0]) + k * np.longdouble(parts[1])).astype(dtype)
    s, c = sincos()(x)
    nearest = np.minimum(np.abs(s), np.abs(c))
    hardest = x[np.argsort(nearest / np.spacing(np.abs(x)))[:300]]
    assert worst(hardest) <= MOST_ULP


@pytest.mark.parametrize("dtype", TYPES)
def test_tiny_numbers_are_their_own_sine(dtype):
    least = np.finfo(dtype).smallest_subnormal
    x = np.array([least, 7 * least, np.finfo(dtype).tiny, 1e-30, 1e-12], dtype)
    for sign in (1, -1):
        s, c = sincos()(sign * x)
        assert same_bits(s, sign * x)
        assert (c == 1.0).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_zero_keeps_its_sign(dtype):
    s, c = sincos()(np.array([0.0, -0.0], dtype))
    assert s.tolist() == [0.0, 0.0]
    assert np.signbit(s).tolist() == [False, True]
    assert c.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("dtype", TYPES)
def test_no_number_gives_no_number(dtype):
    with np.errstate(invalid="ignore"):
        s, c = sincos()(np.array([np.inf, -np.inf, np.nan, 1.0, np.inf], dtype))
    assert np.isnan(s).tolist() == np.isnan(c).tolist() == [True, True, True, False, True]


def test_huge_numbers_are_those_of_the_c_library():
    x = np.array([1e22, -1e22, 1e300, 1.0000001e5, -123456.789, np.finfo(float).max])
    with np.errstate(over="ignore"):
        s, c = sincos()(x)
    assert s.tolist() == [math.sin(t) for t in x]
    assert c.tolist() == [math.cos(t) for t in x]
    short = np.array([1e22, 3e38, 2e5], np.float32)
    with np.errstate(over="ignore"):
        assert worst(short) <= MOST_ULP


@pytest.mark.parametrize("dtype", TYPES)
def test_huge_numbers_raise_no_overflow(dtype):
    with np.errstate(all="raise", under="ignore"):
        sincos()(np.array([np.finfo(dtype).max, 1e30, 1.0, np.nan], dtype))


@pytest.mark.parametrize("register_bytes", native.WIDTHS)
@pytest.mark.parametrize("dtype", TYPES)
def test_lanes_do_not_disturb_each_other(dtype, register_bytes, monkeypatch):
    """Each mixture of huge, infinite and ordinary numbers in a vector gives the same bits."""
    target = dataclasses.replace(native.host(), register_bytes=register_bytes)
    monkeypatch.setattr(native, "host", lambda: target)
    kernel = compile_kernel(source()).gufunc
    rng = np.random.default_rng(2)
    pool = np.array([0.3, -2.0, 77.7, 1e22, -1e30, np.inf, np.nan, 9e4, 1e-5, 2e5], dtype)
    with np.errstate(all="ignore"):
        alone = [kernel(x) for x in pool]
        for _ in range(200):
            pick = rng.integers(0, len(pool), 16)
            s, c = kernel(pool[pick])
            assert same_bits(s, np.array([alone[i][0] for i in pick]))
            assert same_bits(c, np.array([alone[i][1] for i in pick]))


def test_sine_and_cosine_alone_and_together_are_the_same_bits():
    x = np.random.default_rng(3).uniform(-50, 50, 1001)
    for k, f in enumerate((scalar.sin, scalar.cos)):
        one = KernelSource(f"f{k}", "One.", lambda t, f=f: [f(t)], ((),), ((),), f"one {k}")
        assert same_bits(compile_kernel(one).gufunc(x), sincos()(x)[k])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("angles", [2, 3])
def test_several_angles_at_once_are_the_same_bits(angles, dtype):
    several = KernelSource(
        *("several", "Sines and cosines of several angles."),
        lambda *x: [f(t) for t in x for f in (scalar.sin, scalar.cos)],
        ((),) * angles,
        ((),) * (2 * angles),
        f"several {angles}",
    )
    rng = np.random.default_rng(4)
    x = rng.uniform(-50, 50, (angles, 203)).astype(dtype)
    x[0, 7], x[1, 100], x[1, 101] = 1e22, np.inf, -0.0
    with np.errstate(all="ignore"):
        found = compile_kernel(several).gufunc(*x)
        expected = [y for t in x for y in sincos()(t)]
    assert all(same_bits(a, b) for a, b in zip(found, expected, strict=True))
