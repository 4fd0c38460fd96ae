"""MJCF as written, for an audit: inertias before MuJoCo's compiler sees them, places after it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from qddot.errors import DescriptionError
from qddot.loaders.mjcf import drop_looks
from qddot.loaders.shapes import level_inertias, shapes_of_mjcf
from qddot.spatial import rotation_from_quaternion
from qddot.verify.audit.records import (
    Inertial,
    JointRecord,
    LinkRecord,
    Pose,
    RobotRecord,
    shapes_by_link,
)
from qddot.verify.audit.solids import Array

__all__ = ["read_mjcf"]

_KINDS = ("free", "ball", "prismatic", "revolute")


def read_mjcf(file: Path, text: str | None) -> RobotRecord:
    """The record of an MJCF file; mesh files need not exist."""
    import mujoco

    try:
        spec = mujoco.MjSpec.from_file(str(file))
        inertials = [(body, _inertial(spec, body)) for body in spec.bodies]
        efforts = _efforts(spec)
        _leave_joints(spec)
        model = spec.compile()
    except (ValueError, mujoco.FatalError, mujoco.UnexpectedError) as error:
        reason = " ".join(str(error).split())
        raise DescriptionError(file, f"MuJoCo: {reason}") from error
    found = [_link(model, body.id, i, efforts) for body, i in inertials if body.id > 0]
    if not found:
        raise DescriptionError(file, "has no <body>")
    shapes = shapes_of_mjcf(file)
    links = shapes_by_link({link.name: link for link in found}, shapes.found)
    name = spec.modelname or file.stem
    unread = tuple(x for x in shapes.unread if not x.startswith("body 'world'"))
    return RobotRecord(name, "mjcf", file, links, text, unread, _sites(model))


def _matrix(quaternion: Any) -> Array:
    w, x, y, z = (float(c) for c in quaternion)
    return np.array([list(row) for row in rotation_from_quaternion(x, y, z, w)], float)


def _inertial(spec: Any, body: Any) -> Inertial | None:
    """The <inertial> of a body; None where MuJoCo takes the inertia from shapes."""
    import mujoco

    from_shapes = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
    if not body.explicitinertial or spec.compiler.inertiafromgeom == from_shapes:
        return None
    full, com = np.array(body.fullinertia, float), np.array(body.ipos, float)
    if not math.isnan(full[0]):
        xx, yy, zz, xy, xz, yz = full
        written = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        return Inertial(float(body.mass), com, np.eye(3), written)
    quaternion = body.iquat
    if body.ialt.type != mujoco.mjtOrientation.mjORIENTATION_QUAT:
        quaternion = spec.resolve_orientation(
            degree=spec.compiler.degree, sequence=spec.compiler.eulerseq, orientation=body.ialt
        )
    moments = np.diag(np.array(body.inertia, float))
    return Inertial(float(body.mass), com, _matrix(quaternion), moments, diagonal=True)


def _leave_joints(spec: Any) -> None:
    """Leave bodies and joints; all else may refer to files, or be refused by the compiler."""
    import mujoco

    named = ("sensors", "keys", "equalities", "tendons", "actuators", "geoms", "flexes", "excludes")
    for kind in named:
        for element in list(getattr(spec, kind)):
            spec.delete(element)
    drop_looks(spec)
    spec.compiler.fusestatic, spec.compiler.settotalmass = False, -1
    spec.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_FALSE
    for body in spec.bodies[1:]:
        body.explicitinertial = True
    level_inertias(spec)


def _link(m: Any, i: int, inertial: Inertial | None, efforts: dict[str, float]) -> LinkRecord:
    joints = range(m.body_jntadr[i], m.body_jntadr[i] + m.body_jntnum[i])
    parent = _body_name(m, m.body_parentid[i]) if m.body_parentid[i] else None
    pose = Pose(_matrix(m.body_quat[i]), np.array(m.body_pos[i], float))
    carried = tuple(_joint(m, j, efforts) for j in joints)
    return LinkRecord(_body_name(m, i), parent, pose, carried, inertial)


def _sites(m: Any) -> dict[str, tuple[str, ...]]:
    """The sites of each body by name."""
    found: dict[str, tuple[str, ...]] = {}
    for s in range(m.nsite):
        body = _body_name(m, m.site_bodyid[s])
        found[body] = (*found.get(body, ()), m.site(s).name)
    return found


def _body_name(m: Any, i: int) -> str:
    return m.body(i).name or f"body{i}"


def _joint(m: Any, j: int, efforts: dict[str, float]) -> JointRecord:
    name, dof = m.joint(j).name or f"joint{j}", m.jnt_dofadr[j]
    effort = efforts.get(name, math.inf)
    if m.jnt_actfrclimited[j]:
        effort = min(effort, float(abs(m.jnt_actfrcrange[j]).max()))
    damping, friction = float(m.dof_damping[dof]), float(m.dof_frictionloss[dof])
    armature = float(m.dof_armature[dof])
    return JointRecord(name, _KINDS[m.jnt_type[j]], damping, friction, armature, effort)


def _efforts(spec: Any) -> dict[str, float]:
    """The greatest effort of the actuators of each joint, where they say one."""
    import mujoco

    efforts: dict[str, float] = {}
    for a in spec.actuators:
        if a.trntype != mujoco.mjtTrn.mjTRN_JOINT:
            continue
        most = math.inf
        if a.forcerange[0] < a.forcerange[1]:
            most = float(abs(a.forcerange).max())
        elif a.biastype == mujoco.mjtBias.mjBIAS_NONE and a.ctrlrange[0] < a.ctrlrange[1]:
            most = float(abs(a.ctrlrange).max() * abs(a.gainprm[0]))
        gear = abs(float(a.gear[0])) or 1.0
        efforts[a.target] = max(efforts.get(a.target, 0.0), most * gear)
    return efforts
