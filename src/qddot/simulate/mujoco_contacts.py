"""Contacts of MuJoCo as entries of our contact ledger: one compiled function of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from qddot.algorithms.recursion import Vector
from qddot.compile.kernel import KernelSource, compile_kernel
from qddot.simulate.contact.ledger import ContactEntry
from qddot.simulate.layout import nested_lists, stack_scalars
from qddot.spatial.algebra import Mat3, Vec3
from qddot.spatial.scalar import Scalar, sqrt

__all__ = ["ContactReader"]

_INPUTS = ((9,), (6,), (), (5,), (3,), (3,), (2, 6), (2, 3))
_KEPT = 64
"""Sets of touching shapes whose names and bodies are kept."""


def _reduce_contact(
    frame: Vector,
    local: Vector,
    sign: Scalar,
    friction: Vector,
    point: Vector,
    origin: Vector,
    velocities: Sequence[Vector],
    centres: Sequence[Vector],
) -> list[Scalar]:
    """Wrench on the first body at its origin in world axes, friction and its bound, slip.

    `frame` has the normal and two axes along the surface as rows, `local` is force and moment on
    the second shape in those axes; the `velocities` [ω; v] of both bodies are about their
    `centres`.
    """
    axes = Mat3(*(Vec3(*frame[k : k + 3]) for k in (0, 3, 6)))
    force, moment = (axes.apply_transpose(Vec3(*part)) for part in (local[:3], local[3:]))
    arm, normal = Vec3(*point) - Vec3(*origin), axes.a
    moment = (moment + arm.cross(force)) * sign
    along = sqrt(local[1] * local[1] + local[2] * local[2])
    # velocity of the second body less that of the first, along the surface
    first, second = (
        Vec3(*twist[3:]) + Vec3(*twist[:3]).cross(Vec3(*point) - Vec3(*centre))
        for twist, centre in zip(velocities, centres, strict=True)
    )
    slide = second - first
    slide = slide - normal * normal.dot(slide)
    return [*(force * sign), *moment, along, friction[0] * local[0], sqrt(slide.dot(slide))]


@cache
def _compiled_reduction() -> Callable[..., np.ndarray]:
    source = KernelSource(
        name="mujoco_contact",
        doc=_reduce_contact.__doc__ or "",
        function=_reduce_contact,
        inputs=_INPUTS,
        outputs=((9,),),
        key="mujoco_contact",
    )
    return compile_kernel(source).gufunc


def _interpreted_reduction(*values: np.ndarray) -> np.ndarray:
    cores = zip(values, _INPUTS, strict=True)
    return stack_scalars(_reduce_contact(*(nested_lists(x, len(core)) for x, core in cores)))


@dataclass(frozen=True, eq=False)
class _Touching:
    """Names and bodies of a set of contacts; the first body of each is one that moves."""

    names: list[tuple[str, str]]
    bodies: list[str]
    others: list[str]
    first: np.ndarray
    pair: np.ndarray
    roots: np.ndarray
    sign: np.ndarray


class ContactReader:
    """Reads the contacts of an MjData; what belongs to a set of touching shapes is found once."""

    def __init__(self, model: Any, data: Any, native: bool) -> None:
        import mujoco

        self._model, self._data, self._force = model, data, mujoco.mj_contactForce
        self._reduce = _compiled_reduction() if native else _interpreted_reduction
        self._known: dict[bytes, _Touching] = {}
        names = [model.body(b).name or "world" for b in range(model.nbody)]
        self._bodies, self._geom_body = names, np.array(model.geom_bodyid)
        self._geoms = [
            model.geom(g).name or f"{names[b]}/{g}" for g, b in enumerate(self._geom_body)
        ]
        self._welded, self._root = np.array(model.body_weldid), np.array(model.body_rootid)
        # views of the engine's memory
        self._cvel, self._xpos, self._com = data.cvel, data.xpos, data.subtree_com

    def read(self) -> list[ContactEntry]:
        """The contacts at the state that the engine computed forces for."""
        count = self._data.ncon
        if not count:
            return []
        contact = self._data.contact
        geoms, points, gaps = contact.geom, contact.pos, contact.dist
        key = geoms.tobytes()
        found = self._known.get(key) or self._find_touching(key, geoms)
        local = np.zeros((count, 6))
        for k, row in enumerate(local):
            self._force(self._model, self._data, k, row)
        # one call for all contacts
        origin, twists = self._xpos.take(found.first, 0), self._cvel.take(found.pair, 0)
        centres = self._com.take(found.roots, 0)
        reduced = self._reduce(
            contact.frame, local, found.sign, contact.friction, points, origin, twists, centres
        )
        along, bounds, slips = reduced[:, 6:].T.tolist()
        shares = [f / most if most > 0.0 else 0.0 for f, most in zip(along, bounds, strict=True)]
        # in the order of the fields
        columns = (found.names, found.bodies, found.others, found.bodies, gaps.tolist())
        return list(
            map(ContactEntry, *columns, reduced[:, :6], local[:, 0].tolist(), shares, slips)
        )

    def _find_touching(self, key: bytes, geoms: np.ndarray) -> _Touching:
        """Names and bodies of pairs of shapes, kept for the next step."""
        pairs = self._geom_body[geoms]
        # a force is on the second shape, or its opposite on the first where the second is fixed
        moving = np.where(self._welded[pairs[:, 1]] != 0, 1, 0)
        rows = [
            ((g[k], g[1 - k]), (b[k], b[1 - k]))
            for g, b, k in zip(geoms.tolist(), pairs.tolist(), moving.tolist(), strict=True)
        ]
        found = _Touching(
            names=[(self._geoms[a], self._geoms[b]) for (a, b), _ in rows],
            bodies=[self._bodies[a] for _, (a, _) in rows],
            others=[self._bodies[b] for _, (_, b) in rows],
            first=pairs[np.arange(len(pairs)), moving],
            pair=pairs,
            roots=self._root[pairs],
            sign=np.where(moving == 1, 1.0, -1.0),
        )
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[key] = found
        return found
