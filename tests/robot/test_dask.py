"""Catalogue functions on Dask arrays: lazy, by chunks, equal to the call on the whole."""

import numpy as np
import pytest

import qddot
from qddot.errors import InvalidArgument, Unsupported
from qddot.robot.robot import Robot

da = pytest.importorskip("dask.array", reason="dask is the extra 'scale'")

ARM = qddot.load("planar_3r")


def states(n):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(n, ARM.nv)) for _ in range(3)]


def test_results_are_lazy_and_keep_the_chunks():
    q, v, a = states(100)
    lazy = ARM.inverse_dynamics(*(da.from_array(x, chunks=(30, 3)) for x in (q, v, a)))
    assert isinstance(lazy, da.Array)
    assert lazy.chunks == ((30, 30, 30, 10), (3,))
    np.testing.assert_array_equal(lazy.compute(), ARM.inverse_dynamics(q, v, a))


def test_core_axes_become_one_chunk():
    q, _, _ = states(20)
    lazy = ARM.mass_matrix(da.from_array(q, chunks=(8, 1)))
    assert lazy.chunks[1:] == ((3,), (3,))
    np.testing.assert_array_equal(lazy.compute(), ARM.mass_matrix(q))


def test_several_results_and_batches_that_broadcast():
    q, v, a = states(12)
    lazy = ARM.inverse_dynamics_derivatives(da.from_array(q, chunks=(5, 3)), v[0], a)
    expected = ARM.inverse_dynamics_derivatives(q, v[0], a)
    assert len(lazy) == len(expected) == 3
    for mine, whole in zip(lazy, expected, strict=True):
        np.testing.assert_array_equal(mine.compute(), whole)


def test_other_processes_compute_the_chunks():
    q, _, _ = states(16)
    lazy = ARM.gravity(da.from_array(q, chunks=(8, 3)))
    np.testing.assert_array_equal(
        lazy.compute(scheduler="processes", num_workers=2), ARM.gravity(q)
    )


def test_a_dask_array_takes_no_results():
    q, _, _ = states(4)
    lazy = da.zeros((4, 3, 3))
    with pytest.raises(InvalidArgument, match="dask"):
        ARM.mass_matrix(q, out=lazy)
    with pytest.raises(Unsupported, match="take none"):
        ARM.mass_matrix(da.from_array(q), out=np.zeros((4, 3, 3)))
    kernel = Robot(ARM.model, native=True).explain("mass_matrix")
    with pytest.raises(TypeError, match="arrays of NumPy"):
        kernel.call(q, lazy)
