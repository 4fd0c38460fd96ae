"""MuJoCo: quaternions (w, x, y, z); of a free joint the linear velocity in world axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from qddot.adapt.adapter import Adapter, make_adapter
from qddot.adapt.layout import Layout, Place
from qddot.errors import NotUnderstood
from qddot.robot import Robot

__all__ = ["full_mass_matrix", "mass_matrix_reader", "mujoco"]

_FORMS = ("free wxyz", "ball wxyz", "one", "one")


def mujoco(
    robot: Robot,
    model: Any,
    names: Mapping[str, str] | None = None,
    partial: bool = False,
    check: bool = True,
) -> Adapter:
    """The adapter of a robot and an MjModel of it.

    `names` has the names there of joints that are called otherwise; `partial` leaves joints that
    only the MjModel has (of other objects in a scene) at qpos0; `check=False` takes any quaternion.
    """
    if not hasattr(model, "jnt_qposadr"):
        raise NotUnderstood("model", model, "needs an MjModel")
    places = tuple(_place(model, j) for j in range(model.njnt))
    layout = Layout("MuJoCo", places, np.array(model.qpos0), model.nv, model.nbody)
    return make_adapter(robot, layout, names, partial, check)


def _place(m: Any, j: int) -> Place:
    form, i = _FORMS[m.jnt_type[j]], int(m.jnt_bodyid[j])
    at = int(m.jnt_qposadr[j])
    # all but the last joint of a body carry no body of their own
    last = j == m.body_jntadr[i] + m.body_jntnum[i] - 1
    anchor = np.zeros(3) if form == "free wxyz" else m.jnt_pos[j]
    return Place(
        _name(m, j),
        form,
        at,
        int(m.jnt_dofadr[j]),
        m.body(i).name,
        i if last else None,
        zero=float(m.qpos0[at]) if form == "one" else 0.0,
        point=tuple(float(c) for c in m.body_ipos[i] - anchor),
    )


def _name(m: Any, j: int) -> str:
    """The name of a joint, or the one that a qddot robot of this model gives it."""
    names = {m.joint(k).name for k in range(m.njnt)}
    name = m.joint(j).name or f"joint{j}"
    while not m.joint(j).name and name in names:
        name += "_"
    return name


def full_mass_matrix(model: Any, data: Any) -> np.ndarray:
    """M at the state of which `data` holds the inertias, whatever the version of MuJoCo."""
    return mass_matrix_reader(model, data)().copy()


def mass_matrix_reader(model: Any, data: Any) -> Callable[[], np.ndarray]:
    """What fills one array with M and gives that array, call after call."""
    import mujoco as engine

    M = np.zeros((model.nv, model.nv))

    def fill() -> np.ndarray:
        engine.mj_fullM(model, data, M)
        return M

    def fill_older() -> np.ndarray:
        engine.mj_fullM(model, M, data.qM)
        return M

    try:
        fill()
    except TypeError:
        # before version 4
        return fill_older
    return fill
