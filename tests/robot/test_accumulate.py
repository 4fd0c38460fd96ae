"""Reductions over a batch: those of the whole results, in blocks of bounded memory."""

import tracemalloc

import numpy as np
import pytest
from native_cases import cold_cache, robots  # noqa: F401

import qddot
from qddot.errors import InvalidArgument, ShapeMismatch, Unsupported
from qddot.robot import accumulate as module

ARM, INTERPRETED = robots("ur5e")


@pytest.fixture(autouse=True)
def _short_blocks(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_BYTES", 32_000)


def states(n, seed=0):
    rng = np.random.default_rng(seed)
    q, v, a, tau = (rng.normal(size=(n, ARM.nv)) for _ in range(4))
    return q, v, a, tau, rng.uniform(0.0, 2.0, (n, ARM.nv))


def whole(q, v, a):
    return ARM.torque_regressor(q, v, a).reshape(-1, 10 * ARM.model.nb)


@pytest.mark.parametrize("n", [0, 1, 43, 999])
def test_normal_equations_are_those_of_the_whole_regressor(n):
    q, v, a, tau, w = states(n)
    found = ARM.accumulate("torque_regressor", q, v, a, rhs=tau, weights=w)
    Y, y, W = whole(q, v, a), tau.ravel(), w.ravel()
    scale = max(1.0, np.abs(Y.T @ Y).max(initial=0.0))
    np.testing.assert_allclose(found.matrix, Y.T @ (W[:, None] * Y), atol=1e-12 * scale)
    np.testing.assert_allclose(found.vector, Y.T @ (W * y), atol=1e-12 * scale)
    np.testing.assert_allclose(found.square, W @ y**2, rtol=1e-13)
    assert found.rows == n * ARM.nv
    plain = ARM.accumulate("torque_regressor", q, v, a)
    np.testing.assert_allclose(plain.matrix, Y.T @ Y, atol=1e-12 * scale)
    assert plain.vector is None
    assert plain.square is None


@pytest.mark.parametrize("n", [0, 1, 43, 999])
def test_sequential_qr_solves_least_squares(n):
    q, v, a, tau, w = states(n)
    found = ARM.accumulate("torque_regressor", q, v, a, reducer="qr", rhs=tau, weights=w)
    root = np.sqrt(w.ravel())
    Y, y = root[:, None] * whole(q, v, a), root * tau.ravel()
    assert not np.tril(found.R, -1).any()
    scale = max(1.0, np.abs(Y.T @ Y).max(initial=0.0))
    np.testing.assert_allclose(found.R.T @ found.R, Y.T @ Y, atol=1e-12 * scale)
    np.testing.assert_allclose(found.R.T @ found.z, Y.T @ y, atol=1e-12 * scale)
    # what is left over, by NumPy's own least squares on all rows
    x = np.linalg.lstsq(Y, y, rcond=1e-10)[0]
    if n == 999:
        mine = np.linalg.lstsq(found.R, found.z, rcond=1e-10)[0]
        left = np.sum((found.R @ mine - found.z) ** 2) + found.residual
        np.testing.assert_allclose(left, np.sum((Y @ x - y) ** 2), rtol=1e-9)
    plain = ARM.accumulate("torque_regressor", q, v, a, reducer="qr")
    assert (plain.z, plain.residual) == (None, None)


def test_a_function_of_the_results_and_of_what_stands_beside_them():
    q, v, a, tau, w = states(500)
    Y = ARM.torque_regressor(q, v, a)
    found = ARM.accumulate("torque_regressor", q, v, a, reducer=lambda Y: np.abs(Y).sum(axis=0))
    np.testing.assert_allclose(found, np.abs(Y).sum(axis=0), rtol=1e-12)
    found = ARM.accumulate(
        "inverse_dynamics", q, v, a, reducer=lambda x, y, w: np.sum(w * x * y), rhs=tau, weights=w
    )
    expected = np.sum(w * ARM.inverse_dynamics(q, v, a) * tau)
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    # several results, and options
    found = ARM.accumulate(
        "inverse_dynamics_derivatives", q, v, a, reducer=lambda A, B, M: M.sum(axis=0)
    )
    np.testing.assert_allclose(found, ARM.mass_matrix(q).sum(axis=0), rtol=1e-12, atol=1e-12)
    jacobians = ARM.accumulate("frame_jacobian", q, frame=ARM.frame_names[-1], reference="local")
    J = ARM.frame_jacobian(q, ARM.frame_names[-1], "local").reshape(-1, ARM.nv)
    np.testing.assert_allclose(jacobians.matrix, J.T @ J, rtol=1e-12, atol=1e-12)


def test_what_a_function_returns_is_kept_when_the_block_is_written_again():
    q, *_ = states(500)
    first = ARM.accumulate("mass_matrix", q, reducer=lambda M: M[0])
    size = module._BLOCK_BYTES // (8 * ARM.nv**2)
    np.testing.assert_allclose(first, ARM.mass_matrix(q[::size]).sum(axis=0), rtol=1e-13)


def test_sums_are_the_same_on_any_number_of_threads():
    q, v, a, tau, w = states(4000)
    alone = ARM.accumulate("torque_regressor", q, v, a, rhs=tau, weights=w)
    steps = []
    with qddot.threads(3):
        found = ARM.accumulate(
            "torque_regressor", q, v, a, rhs=tau, weights=w, on_step=lambda *x: steps.append(x)
        )
    np.testing.assert_array_equal(found.matrix, alone.matrix)
    np.testing.assert_array_equal(found.vector, alone.vector)
    assert steps == sorted(steps)
    assert steps[-1] == (4000, 4000)


def test_leading_axes_broadcast_as_in_the_method():
    rng = np.random.default_rng(1)
    q, v, a = rng.normal(size=(7, 1, 6)), rng.normal(size=(1, 30, 6)), rng.normal(size=6)
    tau, w = rng.normal(size=(7, 30, 6)), rng.uniform(0.1, 1.0, 6)
    found = ARM.accumulate("torque_regressor", q, v, a, rhs=tau, weights=w)
    Y = whole(q, v, a)
    W = np.tile(w, 7 * 30)
    np.testing.assert_allclose(found.matrix, Y.T @ (W[:, None] * Y), atol=1e-9)
    np.testing.assert_allclose(found.vector, Y.T @ (W * tau.ravel()), atol=1e-9)
    strided = np.asfortranarray(rng.normal(size=(7, 30, 6)))
    whole_batch = ARM.accumulate("torque_regressor", strided, v, a)
    Y = whole(strided, v, a)
    np.testing.assert_allclose(whole_batch.matrix, Y.T @ Y, atol=1e-9)


def test_interpreted_and_float32_states():
    q, v, a, *_ = states(40)
    expected = ARM.accumulate("torque_regressor", q, v, a).matrix

    found = INTERPRETED.accumulate("torque_regressor", q, v, a).matrix
    np.testing.assert_allclose(found, expected, atol=1e-10)
    narrow = [x.astype(np.float32) for x in (q, v, a)]
    found = ARM.accumulate("torque_regressor", *narrow).matrix
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_memory_does_not_grow_with_the_batch():
    def peak(n):
        q, v, a, tau, w = states(n)
        tracemalloc.start()
        ARM.accumulate("torque_regressor", q, v, a, rhs=tau, weights=w)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(100)
    few, many = peak(8000), peak(16_000)
    # the whole regressor of the larger batch takes 46 MB
    assert many <= few + 10_000
    assert many < 1_000_000


def test_what_does_not_fit_is_refused():
    q, v, a, tau, w = states(10)
    with pytest.raises(InvalidArgument, match="'gram', 'qr'"):
        ARM.accumulate("torque_regressor", q, v, a, reducer="svd")
    with pytest.raises(Unsupported, match="one matrix a state"):
        ARM.accumulate("inverse_dynamics", q, v, a)
    with pytest.raises(ShapeMismatch, match="rhs"):
        ARM.accumulate("torque_regressor", q, v, a, rhs=tau[:5])
    with pytest.raises(InvalidArgument, match="finite, zero or more"):
        ARM.accumulate("torque_regressor", q, v, a, weights=-w)
    with pytest.raises(InvalidArgument, match="must return"):
        ARM.accumulate("torque_regressor", q, v, a, reducer=lambda Y: None)


def test_dask_arrays_are_refused_in_words():
    dask_array = pytest.importorskip("dask.array")
    q, v, a, *_ = states(10)
    with pytest.raises(Unsupported, match="chunk by chunk"):
        ARM.accumulate("torque_regressor", dask_array.from_array(q), v, a)
