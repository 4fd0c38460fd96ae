"""Elementary functions of native code against forty digits: 2 ulp everywhere, edges as in C."""

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
FUNCTIONS = {
    "exp": (scalar.exp, mpmath.exp, np.exp),
    "log": (scalar.log, mpmath.log, np.log),
    "tanh": (scalar.tanh, mpmath.tanh, np.tanh),
    "asin": (scalar.asin, mpmath.asin, np.arcsin),
    "acos": (scalar.acos, mpmath.acos, np.arccos),
    "atan2": (scalar.atan2, mpmath.atan2, np.arctan2),
    "pow": (scalar.power, mpmath.power, np.power),
}
BINARY = ("atan2", "pow")
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 22.0, 709.0, -745.0, 800.0, -800.0]
EDGES += [math.inf, -math.inf, math.nan, 5e-324, -5e-324, 2.2e-308, 1.7e308, -1.7e308, 1e-20]


def source(name: str) -> KernelSource:
    inputs = ((),) * (2 if name in BINARY else 1)
    function = FUNCTIONS[name][0]
    return KernelSource(name, "One.", lambda *x: [function(*x)], inputs, ((),), f"one {name}")


@cache
def kernel(name: str):
    return compile_kernel(source(name)).gufunc


def numbers(name: str, dtype) -> list[np.ndarray]:
    """Ordinary arguments over the whole range of a function."""
    rng, n = np.random.default_rng(0), 1000
    info = np.finfo(dtype)
    wide = np.exp(rng.uniform(math.log(info.smallest_subnormal), math.log(info.max), n))
    signed = wide * rng.choice([-1.0, 1.0], n)
    if name == "exp":
        top = math.log(info.max)
        small = np.clip(signed, -1.0, 1.0)
        x = [np.concatenate([rng.uniform(-1.16 * top, top, n), rng.uniform(-1, 1, n), small])]
    elif name == "log":
        x = [np.concatenate([wide, rng.uniform(0.5, 2.0, n), 1.0 + rng.uniform(-1e-6, 1e-6, n)])]
    elif name == "tanh":
        x = [np.concatenate([signed, rng.uniform(-2, 2, n), rng.uniform(-25, 25, n)])]
    elif name in ("asin", "acos"):
        near = 1.0 - np.exp(rng.uniform(-36.0, 0.0, n))
        small = np.clip(signed, -1.0, 1.0)
        x = [np.concatenate([rng.uniform(-1, 1, n), near, -near, small, [0.5, -0.5, 1.0, -1.0]])]
    elif name == "atan2":
        y, ratio = signed, np.exp(rng.uniform(-3.0, 3.0, n)) * rng.choice([-1.0, 1.0], n)
        other = rng.permutation(signed)
        with np.errstate(over="ignore"):
            x = [
                np.concatenate([y, rng.normal(size=n), y]),
                np.concatenate([y * ratio, rng.normal(size=n), other]),
            ]
    else:
        base = np.exp(rng.uniform(-20.0, 20.0, n))
        near = 1.0 + rng.uniform(-1e-3, 1e-3, n)
        # exponents up to the bounds of overflow
        wide = 0.97 * math.log(info.max) * rng.uniform(-1.0, 1.0, 2 * n)
        reach = wide / np.log(np.concatenate([base, near]))
        x = [
            np.concatenate([base, base, base, near]),
            np.concatenate([rng.uniform(-4, 4, n), rng.integers(-9, 9, n), reach]),
        ]
    with np.errstate(over="ignore", under="ignore"):
        return [part.astype(dtype) for part in x]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_two_units_in_the_last_place(name, dtype):
    x = numbers(name, dtype)
    with np.errstate(all="ignore"):
        found = kernel(name)(*x)
    assert found.dtype == dtype
    finite = np.isfinite(found) & np.all([np.isfinite(part) for part in x], axis=0)
    assert finite.mean() > 0.7
    worst = 0.0
    with mpmath.workdps(40):
        for f, *given in zip(found[finite].tolist(), *(p[finite].tolist() for p in x), strict=True):
            exact = FUNCTIONS[name][1](*map(mpmath.mpf, given))
            unit = float(np.spacing(np.abs(dtype(float(exact)))))
            worst = max(worst, abs(float(mpmath.mpf(f) - exact)) / unit)
    assert worst <= MOST_ULP


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_edges_are_those_of_numpy(name, dtype):
    with np.errstate(all="ignore"):
        edges = np.array(EDGES).astype(dtype)
        x = np.meshgrid(edges, edges) if name in BINARY else [edges]
        x = [part.ravel().copy() for part in x]
        found, expected = kernel(name)(*x), FUNCTIONS[name][2](*x)
    nan = np.isnan(expected)
    assert np.array_equal(np.isnan(found), nan)
    np.testing.assert_array_equal(np.signbit(found[~nan]), np.signbit(expected[~nan]))
    tiny = np.finfo(dtype).smallest_subnormal
    np.testing.assert_allclose(found[~nan], expected[~nan], rtol=4 * np.finfo(dtype).eps, atol=tiny)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "asin", "acos", "atan2"])
def test_flags_are_those_of_the_c_library(name):
    """A warning of NumPy's where there is something to warn of, and only there."""
    quiet = np.array([math.nan, 0.5, 1e-300, 0.25, math.nan])
    with np.errstate(all="raise", under="ignore"):
        kernel(name)(*[quiet] * (2 if name == "atan2" else 1))
    if name in ("exp", "tanh", "atan2"):
        with np.errstate(all="raise", under="ignore"):
            kernel(name)(*[np.array([math.inf, -math.inf])] * (2 if name == "atan2" else 1))
    for value, flag in {
        "exp": [(1000.0, "over")],
        "log": [(0.0, "divide"), (-1.0, "invalid"), (-math.inf, "invalid")],
        "asin": [(1.5, "invalid"), (math.inf, "invalid")],
        "acos": [(-1.5, "invalid")],
    }.get(name, []):
        with np.errstate(all="ignore", **{flag: "raise"}), pytest.raises(FloatingPointError):
            kernel(name)(np.array([value, 0.5]))


@pytest.mark.parametrize("register_bytes", native.WIDTHS)
@pytest.mark.parametrize("dtype", TYPES)
def test_lanes_do_not_disturb_each_other(dtype, register_bytes, monkeypatch):
    target = dataclasses.replace(native.host(), register_bytes=register_bytes)
    monkeypatch.setattr(native, "host", lambda: target)
    everything = KernelSource(
        *("all", "All."),
        lambda x: [f(x) for f in (scalar.exp, scalar.log, scalar.tanh, scalar.asin, scalar.acos)],
        ((),),
        ((),) * 5,
        "all elementary",
    )
    run, rng = compile_kernel(everything).gufunc, np.random.default_rng(2)
    with np.errstate(all="ignore"):
        pool = np.array(EDGES).astype(dtype)
        alone = [run(x) for x in pool]
        for _ in range(30):
            pick = rng.integers(0, len(pool), 16)
            for k, found in enumerate(run(pool[pick])):
                assert same_bits(found, np.array([alone[i][k] for i in pick]))


def test_bounds_and_choices_with_nan_and_signed_zeros():
    def function(x, y):
        greater = scalar.less(y, x)
        return [
            scalar.minimum(x, y),
            scalar.maximum(x, y),
            scalar.absolute(x),
            scalar.where(scalar.less_equal(x, y), 1.0, 0.0),
            scalar.where(scalar.equal(x, y), 1.0, 0.0),
            scalar.where(scalar.logical_not(scalar.less(x, y)), 1.0, 0.0),
            scalar.where(scalar.logical_and(greater, scalar.less(x, 1.0)), 1.0, 0.0),
            scalar.where(scalar.logical_or(greater, scalar.less(y, 0.0)), 1.0, 0.0),
        ]

    run = compile_kernel(KernelSource("b", "B.", function, ((), ()), ((),) * 8, "bounds")).gufunc
    edges = np.array([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 5e-324])
    x, y = (part.ravel() for part in np.meshgrid(edges, edges))
    with np.errstate(all="ignore"):
        low, high, size, *truths = run(x, y)
    assert np.array_equal(low, np.minimum(x, y), equal_nan=True)
    assert np.array_equal(high, np.maximum(x, y), equal_nan=True)
    assert same_bits(size[~np.isnan(x)], np.abs(x)[~np.isnan(x)])
    expected = [x <= y, x == y, ~(x < y), (y < x) & (x < 1), (y < x) | (y < 0)]
    for found, wanted in zip(truths, expected, strict=True):
        assert np.array_equal(found, wanted.astype(float))
