"""What the tests of native code share: robots both ways, random inputs, arrays laid out oddly."""

from __future__ import annotations

import itertools
import os
from functools import cache

import numpy as np
import pytest
from everything import everything_robot
from random_models import Part, build

import qddot
from qddot.algorithms.catalogue import CATALOGUE
from qddot.compile.kernel import KernelSource
from qddot.model.links import Contact, Loop
from qddot.model.model import WORLD
from qddot.robot.robot import Robot
from qddot.spatial import scalar

SECOND = "inverse_dynamics_second_derivatives"
DETOURS = 1500


@pytest.fixture(scope="module", autouse=True)
def cold_cache(tmp_path_factory):
    """A folder of object code that is empty when the tests begin and shared by their workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "object-code"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QDDOT_CACHE_DIR", str(folder))
        yield folder


@cache
def robots(name: str) -> tuple[Robot, Robot]:
    """A robot that runs native code, and the same one interpreted."""
    if name == "everything":
        model = everything_robot().model
    elif name == "short":
        parts = [Part("universal", WORLD, False, False, True, None)]
        parts += [Part("ball", 0, False, False, False, None)]
        model = build(parts, 5)
    else:
        model = qddot.load(name).model
    return Robot(model, native=True), Robot(model, native=False)


def inputs_of(robot: Robot, name: str, batch=(), seed=0):
    """Random inputs and all options of a catalogue function."""
    rng, row, frames = np.random.default_rng(seed), CATALOGUE[name], robot.frame_names
    known = {
        "frame": frames[-1],
        "reference": "local_world_aligned",
        "forces": ((frames[-1], "world"), (frames[0], "local")),
        "friction": True,
        "axes": ("z", "x"),
        "actuated": robot.joint_names,
        "prescribed": robot.joint_names[:1],
        "constraints": (
            Contact(frames[-1], rows=("x",)),
            Loop("tie", "universal", frames[0], frames[-1], rows=("ry",)),
        ),
        "stabilisation": 3.0,
    }
    shapes = {"nv": (robot.nv,), "nw": (2, 6), "nc": (2,)}
    arrays = [
        robot.random(rng, batch)
        if a.shape == ("nq",)
        else rng.normal(size=(*batch, *(shapes[a.shape[0]] if a.shape else ())))
        for a in row.inputs
    ]
    return arrays, {o.name: known[o.name] for o in row.options}


def results(value) -> tuple:
    """The outputs of a function, also where there is only one."""
    return value if isinstance(value, tuple) else (value,)


def assert_close(found, expected, tolerance: float, floor: float = 0.0) -> None:
    """Agreement of all outputs relative to the largest entry of each, or to the floor."""
    for a, b in zip(results(found), results(expected), strict=True):
        assert np.shape(a) == np.shape(b)
        scale = np.abs(b).max(initial=floor)
        assert np.abs(a - b).max(initial=0.0) <= tolerance * scale


def same_bits(a, b) -> bool:
    """Equality of every bit, NaN and the sign of zero included."""
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def mover(tag: str = "", detours: int = 0) -> KernelSource:
    """Moves numbers about, with products of two powers only: its results are exact.

    Cores shorter and longer than any vector, of zero to three axes; outputs with equal entries,
    with blocks of one constant, and constants whose values look like indices. Detours, choices
    between a number and itself, make it so long that it is cut into pieces.
    """

    def function(x, A, t, long):
        for k in range(detours):
            t = scalar.where(scalar.less(t, float(k)), t, t)
        twice = [2.0 * c for c in x]
        turned = [A[i][j] for j in range(3) for i in range(2)]
        cube = [t * 0.5 if (i + j + k) % 2 else 2.0 for i, j, k in np.ndindex(2, 3, 4)]
        ends = [*reversed(long), *[3.0] * 40, *long[:3], *[0.0] * 36, -t]
        return [*twice, *turned, *cube, t, *ends]

    shapes = ((5,), (2, 3), (), (37,)), ((5,), (3, 2), (2, 3, 4), (), (117,))
    return KernelSource("mover", "Move numbers.", function, *shapes, f"mover {tag} {detours}")


def moved(x, A, t, long) -> tuple[np.ndarray, ...]:
    """What the mover must give, by NumPy."""
    batch = np.broadcast_shapes(x.shape[:-1], A.shape[:-2], t.shape, long.shape[:-1])
    odd = np.indices((2, 3, 4)).sum(axis=0) % 2 == 1
    cube = np.where(odd, t[..., None, None, None] * t.dtype.type(0.5), t.dtype.type(2.0))
    row = np.broadcast_to(long, (*batch, 37))
    fill = np.ones((*batch, 1), t.dtype)
    last = np.broadcast_to(-t[..., None], (*batch, 1))
    ends = [row[..., ::-1], fill * np.full(40, 3.0, t.dtype), row[..., :3], fill * np.zeros(36)]
    return (
        np.broadcast_to(2 * x, (*batch, 5)),
        np.broadcast_to(A.swapaxes(-1, -2), (*batch, 3, 2)),
        np.broadcast_to(cube, (*batch, 2, 3, 4)),
        np.broadcast_to(t, batch),
        np.concatenate([*ends, last], axis=-1).astype(t.dtype),
    )


def mover_inputs(batch=(), dtype=np.float64, seed=0) -> list[np.ndarray]:
    """Random inputs of the mover."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(*batch, *s)).astype(dtype) for s in mover().inputs]


def _spread(x):
    wide = np.full(tuple(2 * n + 1 for n in x.shape), np.nan, x.dtype)
    view = wide[tuple(slice(1, 2 * n + 1, 2) for n in x.shape)]
    view[...] = x
    return view


def _unaligned(x):
    store = bytearray(x.nbytes + 1)
    view = np.frombuffer(store, x.dtype, x.size, offset=1).reshape(x.shape)
    view[...] = x
    return view


def _read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def _permuted(x):
    axes = tuple(reversed(range(x.ndim)))
    return np.ascontiguousarray(x.transpose(axes)).transpose(axes)


LAYOUTS = {
    "contiguous": np.ascontiguousarray,
    "strided": _spread,
    "reversed": lambda x: x[(slice(None, None, -1),) * x.ndim].copy()[
        (slice(None, None, -1),) * x.ndim
    ],
    "fortran": np.asfortranarray,
    "transposed": _permuted,
    "unaligned": _unaligned,
    "swapped": lambda x: x.astype(x.dtype.newbyteorder()),
    "read-only": _read_only,
    "every other row": lambda x: np.repeat(x, 2, axis=0)[::2] if x.ndim else x,
}
"""Copies of an array with the same numbers laid out otherwise in memory."""


def batches():
    """Batch shapes with every tail of every vector width."""
    lengths = (*range(21), *range(31, 34), *range(63, 66), *range(127, 130), 300)
    return itertools.chain(((n,) for n in lengths), ((3, 4), (2, 0, 3), ()))
