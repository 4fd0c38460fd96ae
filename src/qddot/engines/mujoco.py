"""MuJoCo: quaternions (w, x, y, z); of a free joint the linear velocity in world axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from qddot.engines.adapter import Adapter, make_adapter
from qddot.engines.layout import Layout, Place
from qddot.errors import WrongType
from qddot.robot.robot import Robot

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
        raise WrongType("model", model, "needs an MjModel")
    names_there = {model.joint(j).name for j in range(model.njnt)}
    places = []
    for j in range(model.njnt):
        form, i, at = _FORMS[model.jnt_type[j]], int(model.jnt_bodyid[j]), int(model.jnt_qposadr[j])
        # a joint without a name has the one that a qddot robot of this model gives it
        name = model.joint(j).name or f"joint{j}"
        while not model.joint(j).name and name in names_there:
            name += "_"
        # all but the last joint of a body carry no body of their own
        last = j == model.body_jntadr[i] + model.body_jntnum[i] - 1
        anchor = np.zeros(3) if form == "free wxyz" else model.jnt_pos[j]
        place = Place(
            name,
            form,
            iq=at,
            iv=int(model.jnt_dofadr[j]),
            body=model.body(i).name,
            row=i if last else None,
            zero=float(model.qpos0[at]) if form == "one" else 0.0,
            point=tuple(float(c) for c in model.body_ipos[i] - anchor),
        )
        places.append(place)
    layout = Layout(
        "MuJoCo",
        places=tuple(places),
        neutral=np.array(model.qpos0),
        nv=model.nv,
        rows=model.nbody,
    )
    return make_adapter(robot, layout, names, partial, check)


def full_mass_matrix(model: Any, data: Any) -> np.ndarray:
    """M at the state of `data`, for any version of MuJoCo."""
    return mass_matrix_reader(model, data)().copy()


def mass_matrix_reader(model: Any, data: Any) -> Callable[[], np.ndarray]:
    """A function that fills one array with M and returns that array, call after call."""
    import mujoco as engine

    M = np.zeros((model.nv, model.nv))

    def fill_matrix() -> np.ndarray:
        engine.mj_fullM(model, data, M)
        return M

    def fill_before_4() -> np.ndarray:
        engine.mj_fullM(model, M, data.qM)
        return M

    try:
        fill_matrix()
    except TypeError:
        return fill_before_4
    return fill_matrix
