"""MJCF as written, for an audit: inertias before MuJoCo's compiler sees them, places after it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import numpy as np

from qddot.errors import DescriptionError
from qddot.loaders.mjcf import (
    compile_spec,
    has_file,
    inertia_from_geoms,
    replace_by_sphere,
)
from qddot.loaders.mujoco_checks import LOOKS, check_file, mujoco_errors, open_spec
from qddot.loaders.shapes import level_inertias, shapes_of_mjcf
from qddot.spatial.algebra import rotation_from_quaternion
from qddot.verify.audit.evidence import inertia_defect_share
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
_REFERRING = ("actuator", "contact", "equality", "keyframe", "tendon")
"""Sections that may refer to files, or be refused by the compiler."""
_SAME = 1e-6


def read_mjcf(file: Path, text: str | None, trust: bool = False) -> RobotRecord:
    """The record of an MJCF file; mesh files need not exist.

    An <inertial> is read as it is written, so that one that MuJoCo refuses can be reported; all
    other inertias are those of the compiled model.
    """
    # compile the file as it is, then without files, then without shapes
    refusals: list[DescriptionError] = []
    checked = check_file(file, trust)
    efforts: dict[str, float] = {}
    for reduce in (None, _leave_weights, _leave_joints):
        try:
            with mujoco_errors(file):
                spec = open_spec(file, checked, (*LOOKS, *_REFERRING) if reduce else LOOKS)
                written = [(body, _written_inertial(spec, body)) for body in spec.bodies]
                efforts = efforts or _actuator_efforts(spec)
                spec.compiler.fusestatic = False
                unweighed = reduce(spec) if reduce else []
                model = compile_spec(spec, str(file), checked.outside)
            break
        except DescriptionError as error:
            refusals.append(error)
    else:
        raise refusals[-1]
    # bodies in the places of the compiled model
    records = {}
    for body, inertial in written[1:]:
        i = body.id
        if not refusals or (inertial is None and not body.explicitinertial):
            inertial = _compiled_inertial(model, i, inertial)
        first, above = model.body_jntadr[i], model.body_parentid[i]
        record = LinkRecord(
            name=_body_name(model, i),
            parent=_body_name(model, above) if above else None,
            pose=Pose(_rotation_matrix(model.body_quat[i]), np.array(model.body_pos[i], float)),
            joints=tuple(
                _read_joint(model, j, efforts) for j in range(first, first + model.body_jntnum[i])
            ),
            inertial=inertial,
        )
        records[record.name] = record
    if not records:
        raise DescriptionError(file, "has no <body>")
    sites: dict[str, tuple[str, ...]] = {}
    for s in range(model.nsite):
        name = _body_name(model, model.site_bodyid[s])
        sites[name] = (*sites.get(name, ()), model.site(s).name)
    shapes = shapes_of_mjcf(file, trust)
    return RobotRecord(
        name=spec.modelname or file.stem,
        format="mjcf",
        file=file,
        links=shapes_by_link(records, shapes.found),
        text=text,
        unread=tuple(x for x in shapes.unread if not x.startswith("body 'world'")),
        sites=sites,
        unknown_mass=tuple(_body_name(model, body.id) for body in unweighed),
    )


def _rotation_matrix(quaternion: Any) -> Array:
    """The rotation of a quaternion w, x, y, z."""
    w, x, y, z = (float(c) for c in quaternion)
    return np.array([list(row) for row in rotation_from_quaternion(x, y, z, w)], float)


def _compiled_inertial(m: Any, i: int, written: Inertial | None) -> Inertial | None:
    """The inertia that MuJoCo gives a body; as written where that is the same, or impossible."""
    source: Literal["shapes", "compiler"] = "shapes" if written is None else "compiler"
    found = Inertial(
        mass=float(m.body_mass[i]),
        com=np.array(m.body_ipos[i], float),
        R=_rotation_matrix(m.body_iquat[i]),
        written=np.diag(np.array(m.body_inertia[i], float)),
        diagonal=True,
        source=source,
    )
    if written is None:
        return found if found.has_mass else None
    largest = np.abs(written.tensor).max()
    same = abs(found.mass - written.mass) <= _SAME * abs(written.mass) and np.allclose(
        found.tensor, written.tensor, rtol=0.0, atol=_SAME * largest
    )
    return written if same or float(inertia_defect_share(written.tensor)) > _SAME else found


def _read_joint(m: Any, j: int, efforts: dict[str, float]) -> JointRecord:
    """A joint of a compiled model, with the least of its limits of effort."""
    name, dof = m.joint(j).name or f"joint{j}", m.jnt_dofadr[j]
    effort = efforts.get(name, math.inf)
    if m.jnt_actfrclimited[j]:
        effort = min(effort, float(abs(m.jnt_actfrcrange[j]).max()))
    return JointRecord(
        name=name,
        kind=_KINDS[m.jnt_type[j]],
        damping=float(m.dof_damping[dof]),
        friction=float(m.dof_frictionloss[dof]),
        armature=float(m.dof_armature[dof]),
        effort=effort,
    )


def _actuator_efforts(spec: Any) -> dict[str, float]:
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


def _written_inertial(spec: Any, body: Any) -> Inertial | None:
    """The <inertial> of a body; None where MuJoCo takes the inertia from shapes."""
    import mujoco

    if not body.explicitinertial or inertia_from_geoms(spec, body):
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
    return Inertial(float(body.mass), com, _rotation_matrix(quaternion), moments, diagonal=True)


def _leave_weights(spec: Any) -> list[Any]:
    """Leave bodies, joints and shapes without files; the bodies whose inertia is lost by that.

    Every <inertial> is replaced, as one of them may be refused.
    """
    import mujoco

    _drop_flexes(spec)
    unweighed = []
    for body in spec.bodies[1:]:
        from_shapes = inertia_from_geoms(spec, body)
        if from_shapes and any(has_file(geom) for geom in body.geoms):
            unweighed.append(body)
            from_shapes = False
        body.explicitinertial = not from_shapes
        if from_shapes:
            body.mass, body.inertia = 0.0, [0.0, 0.0, 0.0]
            body.fullinertia = [math.nan, 0.0, 0.0, 0.0, 0.0, 0.0]
    # a body without mass gets next to none, so that it is not refused
    spec.compiler.boundmass, spec.compiler.boundinertia = 1e-12, 1e-14
    spec.compiler.settotalmass = -1
    spec.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_AUTO
    level_inertias(spec)
    return unweighed


def _leave_joints(spec: Any) -> list[Any]:
    """Leave bodies and joints; the bodies whose inertia came from shapes."""
    import mujoco

    unweighed = [b for b in spec.bodies[1:] if inertia_from_geoms(spec, b) and b.geoms]
    _drop_flexes(spec)
    for geom in spec.geoms:
        replace_by_sphere(geom)
    spec.compiler.settotalmass = -1
    spec.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_FALSE
    for body in spec.bodies[1:]:
        body.explicitinertial = True
    level_inertias(spec)
    return unweighed


def _drop_flexes(spec: Any) -> None:
    """Remove soft bodies, which may refer to files, or be refused by the compiler."""
    for flex in list(spec.flexes):
        spec.delete(flex)


def _body_name(m: Any, i: int) -> str:
    return m.body(i).name or f"body{i}"
