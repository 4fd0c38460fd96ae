"""MJCF through MuJoCo's own compiler: a file, an MjSpec or a compiled MjModel.

The q of a joint is MuJoCo's qpos (quaternions reordered to x, y, z, w). A body with several joints,
or with a joint away from its origin, becomes a chain of bodies, the links between without mass.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qddot.errors import DescriptionError
from qddot.joints import JOINTS, Drivetrain, Joint, Limits
from qddot.loaders.description import Description
from qddot.loaders.xml import Element
from qddot.parts import Coupling, Finding, FrameDraft, Link, Loop, PolynomialCoupling
from qddot.spatial import Inertia, Mat3, Sym3, Transform, Vec3, rotation_from_quaternion

if TYPE_CHECKING:
    import mujoco

__all__ = ["describe_mjcf", "describe_mjmodel", "describe_mjspec", "drop_looks"]

_FREE, _BALL, _SLIDE, _HINGE = range(4)
_CONNECT, _WELD, _JOINT = range(3)
_SITE = 6
_NUMERIC = {
    "anchor", "armature", "axis", "axisangle", "damping", "density", "diaginertia", "euler",
    "frictionloss", "fromto", "fullinertia", "gear", "gravcomp", "gravity", "mass", "polycoef",
    "pos", "qpos", "quat", "range", "ref", "relpose", "size", "springref", "stiffness", "xyaxes",
    "zaxis",
}  # fmt: skip


def describe_mjcf(path: Path, root: Element) -> Description:
    """The description in an MJCF file; mesh files may be missing where inertias are written out."""
    import mujoco

    _refuse_nan(root)
    return _describe(lambda: mujoco.MjSpec.from_file(str(path)), str(path))


def describe_mjspec(spec: mujoco.MjSpec) -> Description:
    """The description in an MjSpec, which is left as it is."""

    def copied() -> mujoco.MjSpec:
        copy = spec.copy()
        # a copy lacks what refers to something that does not exist, without a word
        for kind in ("equalities", "tendons", "actuators"):
            lost = len(getattr(spec, kind)) - len(getattr(copy, kind))
            if lost:
                raise ValueError(f"{lost} of the {kind} refer to something that does not exist")
        return copy

    return _describe(copied, "")


def _refuse_nan(element: Element) -> None:
    """Refuse NaN, which MuJoCo takes for a value that is not given."""
    for attribute, text in element.attributes.items():
        if attribute in _NUMERIC and "nan" in text.lower().split():
            raise element.error(f"{attribute}={text!r} is not finite")
    for child in element.children:
        _refuse_nan(child)


def _describe(make: Callable[[], mujoco.MjSpec], file: str) -> Description:
    """The description in a spec of which any number can be made, to take apart."""
    import mujoco

    failures = (ValueError, mujoco.FatalError, mujoco.UnexpectedError)
    unweighed: list[Finding] = []
    name = file
    try:
        spec = make()
        name = file or spec.modelname
        drop_looks(spec)
        model = spec.compile()
    except failures as error:
        try:
            spec = make()
            unweighed = list(_drop_still_shapes(spec))
            if not unweighed:
                raise
            drop_looks(spec)
            model = spec.compile()
        except failures:
            raise _compiler_error(name, error) from error
    return describe_mjmodel(model, spec.modelname, file, (*_invented(spec), *unweighed))


def describe_mjmodel(
    m: mujoco.MjModel, name: str = "", file: str = "", findings: tuple[Finding, ...] = ()
) -> Description:
    """The description in a compiled MjModel."""
    frames = [
        FrameDraft(
            _site_name(m, i), _body_name(m, m.site_bodyid[i]), _pose(m.site_pos[i], m.site_quat[i])
        )
        for i in range(m.nsite)
    ]
    loops, loop_frames = _loops(m)
    couplings, polynomials, doubts = _couplings(m)
    return Description(
        name or m.names[: m.names.index(b"\0")].decode() or "mjcf",
        tuple(link for i in range(1, m.nbody) for link in _links(m, i)),
        (*frames, *loop_frames),
        couplings,
        loops,
        polynomials,
        _gravity(m),
        _keyframes(m),
        (*findings, *doubts, *_ignored(m)),
        file,
        root_poses={
            str(_body_name(m, i)): _pose(m.body_pos[i], m.body_quat[i]) for i in range(1, m.nbody)
        },
    )


def _compiler_error(file: object, error: Exception) -> DescriptionError:
    text = " ".join(str(error).split())
    line = re.search(r"line (\d+)", text)
    return DescriptionError(str(file), f"MuJoCo: {text}", line=int(line[1]) if line else None)


def drop_looks(spec: Any) -> None:
    """Remove what inertia does not depend on, so that its files need not exist."""
    for element in (*spec.sensors, *spec.pairs, *spec.tuples):
        spec.delete(element)
    for geom in list(spec.geoms):
        geom.material = ""
        if _has_file(geom) and not _weighed(spec, geom.parent):
            spec.delete(geom)
    for element in (*spec.sites, *spec.tendons):
        element.material = ""
    used = {geom.meshname for geom in spec.geoms if geom.meshname}
    unused = [mesh for mesh in spec.meshes if mesh.name not in used]
    for asset in (*spec.skins, *spec.materials, *spec.textures, *spec.hfields, *unused):
        spec.delete(asset)
    for mesh in spec.meshes:
        mesh.material = ""


def _has_file(geom: Any) -> bool:
    import mujoco

    shapes = (mujoco.mjtGeom.mjGEOM_MESH, mujoco.mjtGeom.mjGEOM_HFIELD, mujoco.mjtGeom.mjGEOM_SDF)
    return geom.type in shapes or bool(geom.meshname)


def _weighed(spec: Any, body: Any) -> bool:
    """Whether the inertia of a body comes from its geoms."""
    import mujoco

    kinds, setting = mujoco.mjtInertiaFromGeom, spec.compiler.inertiafromgeom
    if body is spec.worldbody or setting == kinds.mjINERTIAFROMGEOM_FALSE:
        return False
    return setting == kinds.mjINERTIAFROMGEOM_TRUE or not body.explicitinertial


def _drop_still_shapes(spec: Any) -> Iterator[Finding]:
    """Remove the shapes from files of bodies that never move, which then have no mass."""
    for body in spec.bodies:
        chain = [body]
        while chain[-1].parent is not None:
            chain.append(chain[-1].parent)
        shapes = [geom for geom in body.geoms if _has_file(geom)]
        if not shapes or not _weighed(spec, body) or any(b.joints for b in chain):
            continue
        for geom in shapes:
            spec.delete(geom)
        message = "does not move, and its shape cannot be read: what it weighs is not known"
        yield Finding("warning", "unweighed", f"body {body.name!r}", message)


def _invented(spec: Any) -> Iterator[Finding]:
    """Bodies whose inertia comes from their shapes."""
    for body in spec.bodies:
        if _weighed(spec, body) and body.geoms:
            name = body.name or f"body{body.id}"
            message = "has no <inertial>: inertia computed from its geoms"
            if body.explicitinertial:
                message = "inertiafromgeom: inertia computed from its geoms, not its <inertial>"
            yield Finding("info", "invented", f"body {name!r}", message)


def _fallback(m: mujoco.MjModel, kind: str, i: int) -> str:
    """A name for what has none, that nothing else has."""
    import mujoco

    name, objects = f"{kind}{i}", getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}")
    while mujoco.mj_name2id(m, objects, name) >= 0:
        name += "_"
    return name


def _off(m: mujoco.MjModel, *features: str) -> bool:
    """Whether an option of the file disables one of these features."""
    import mujoco

    bits = (getattr(mujoco.mjtDisableBit, f"mjDSBL_{f}", 0) for f in features)
    return any(m.opt.disableflags & bit for bit in bits)


def _body_name(m: mujoco.MjModel, i: int) -> str | None:
    """Name of a body; None for the world."""
    return (m.body(i).name or _fallback(m, "body", i)) if i else None


def _joint_name(m: mujoco.MjModel, j: int) -> str:
    return m.joint(j).name or _fallback(m, "joint", j)


def _site_name(m: mujoco.MjModel, i: int) -> str:
    name = m.site(i).name or _fallback(m, "site", i)
    bodies = {m.body(k).name for k in range(m.nbody)}
    return f"{name} (site)" if name in bodies else name


def _pose(position: Any, quaternion: Any) -> Transform:
    w, x, y, z = (float(c) for c in quaternion)
    return Transform(rotation_from_quaternion(x, y, z, w), _vector(position))


def _vector(v: Any) -> Vec3:
    return Vec3(*(float(c) for c in v))


def _shift(p: Vec3) -> Transform:
    return Transform(Mat3.identity(), p)


def _gravity(m: mujoco.MjModel) -> Vec3:
    return Vec3.zero() if _off(m, "GRAVITY") else _vector(m.opt.gravity)


def _inertia(m: mujoco.MjModel, i: int) -> Inertia:
    X = _pose(m.body_ipos[i], m.body_iquat[i])
    moments = Sym3.diagonal(*(float(c) for c in m.body_inertia[i]))
    return X.to_parent(Inertia(float(m.body_mass[i]), Vec3.zero(), moments))


def _links(m: mujoco.MjModel, i: int) -> Iterator[Link]:
    """The links of one body: one for each joint, the last (or a fixed one after it) the body."""
    name, parent = str(_body_name(m, i)), _body_name(m, m.body_parentid[i])
    X, anchor = _pose(m.body_pos[i], m.body_quat[i]), Vec3.zero()
    joints = range(m.body_jntadr[i], m.body_jntadr[i] + m.body_jntnum[i])
    for j in joints:
        if m.jnt_type[j] == _FREE:
            yield Link(name, parent, Transform.identity(), _joint(m, j), _inertia(m, i))
            return
        at = _vector(m.jnt_pos[j])
        placement, anchor = X @ _shift(at - anchor), at
        if j == joints[-1] and at == Vec3.zero():
            yield Link(name, parent, placement, _joint(m, j), _inertia(m, i))
            return
        link = f"{name}/{_joint_name(m, j)}"
        yield Link(link, parent, placement, _joint(m, j))
        parent, X = link, Transform.identity()
    held = Joint(f"{name} (fixed)", JOINTS["fixed"])
    yield Link(name, parent, X @ _shift(-anchor), held, _inertia(m, i))


def _joint(m: mujoco.MjModel, j: int) -> Joint:
    kind, name, adr = m.jnt_type[j], _joint_name(m, j), m.jnt_qposadr[j]
    if kind == _FREE:
        return Joint(name, JOINTS["free"], drivetrain=_drivetrain(m, j))
    if kind == _BALL:
        return Joint(name, JOINTS["ball"], drivetrain=_drivetrain(m, j))
    limits = _limits(m, j)
    row = "prismatic" if kind == _SLIDE else "revolute" if limits.upper < math.inf else "continuous"
    return Joint(
        name, JOINTS[row], (_vector(m.jnt_axis[j]),),
        offset=-float(m.qpos0[adr]), limits=limits, drivetrain=_drivetrain(m, j),
    )  # fmt: skip


def _limits(m: mujoco.MjModel, j: int) -> Limits:
    lower, upper = m.jnt_range[j] if m.jnt_limited[j] else (-math.inf, math.inf)
    effort = math.inf
    if m.jnt_actfrclimited[j]:
        effort = float(abs(m.jnt_actfrcrange[j]).max())
    return Limits(float(lower), float(upper), effort=effort)


def _drivetrain(m: mujoco.MjModel, j: int) -> Drivetrain:
    dof, free = m.jnt_dofadr[j], m.jnt_type[j] == _FREE
    stiffness = 0.0 if free or _off(m, "SPRING", "PASSIVE") else float(m.jnt_stiffness[j])
    armature = float(m.dof_armature[dof]) + _of_actuators(m, j, "armature")
    damping = float(m.dof_damping[dof]) + _of_actuators(m, j, "damping")
    return Drivetrain(
        armature=0.0 if free else armature,
        damping=0.0 if _off(m, "DAMPER", "PASSIVE") else damping,
        friction=0.0 if _off(m, "FRICTIONLOSS", "CONSTRAINT") else float(m.dof_frictionloss[dof]),
        stiffness=stiffness,
        rest=_rest(m, j) if stiffness else None,
    )


def _of_actuators(m: mujoco.MjModel, j: int, quantity: str) -> float:
    """Armature or damping of the motors of a joint, seen through their gears."""
    values = getattr(m, f"actuator_{quantity}", None)
    if values is None:
        return 0.0
    driving = (a for a in range(m.nu) if _driven_joint(m, a) == j)
    return sum(float(values.reshape(m.nu, -1)[a, 0] * m.actuator_gear[a, 0] ** 2) for a in driving)


def _driven_joint(m: mujoco.MjModel, a: int) -> int | None:
    """The hinge or slide that an actuator turns; None for other transmissions."""
    j = int(m.actuator_trnid[a, 0])
    direct = m.actuator_trntype[a] in (0, 1) and m.jnt_type[j] in (_SLIDE, _HINGE)
    return j if direct else None


def _rest(m: mujoco.MjModel, j: int) -> tuple[float, ...]:
    """Displacement of a joint at which its spring is relaxed."""
    q = _coordinates(m, j, m.qpos_spring)
    if m.jnt_type[j] in (_SLIDE, _HINGE):
        return (q[0] - float(m.qpos0[m.jnt_qposadr[j]]),)
    return q


def _coordinates(m: mujoco.MjModel, j: int, qpos: Any) -> tuple[float, ...]:
    """The coordinates of a joint in a qpos, quaternion last component w."""
    adr, kind = m.jnt_qposadr[j], m.jnt_type[j]
    if kind in (_SLIDE, _HINGE):
        return (float(qpos[adr]),)
    x = [float(c) for c in qpos[adr : adr + (7 if kind == _FREE else 4)]]
    w = x.pop(3 if kind == _FREE else 0)
    return (*x, w)


def _keyframes(m: mujoco.MjModel) -> dict[str, dict[str, tuple[float, ...]]]:
    """Coordinates by joint of qpos0 and of each keyframe."""
    named = {"qpos0": m.qpos0}
    named |= {m.key(k).name or f"key{k}": m.key_qpos[k] for k in range(m.nkey)}
    return {
        name: {_joint_name(m, j): _coordinates(m, j, qpos) for j in range(m.njnt)}
        for name, qpos in named.items()
    }


def _active(m: mujoco.MjModel, *kinds: int) -> list[int]:
    if _off(m, "EQUALITY", "CONSTRAINT"):
        return []
    return [e for e in range(m.neq) if m.eq_active0[e] and m.eq_type[e] in kinds]


def _equality_name(m: mujoco.MjModel, e: int) -> str:
    return m.equality(e).name or _fallback(m, "equality", e)


def _couplings(
    m: mujoco.MjModel,
) -> tuple[tuple[Coupling, ...], tuple[PolynomialCoupling, ...], list[Finding]]:
    """Linear joint equalities as exact couplings, the others as constraints."""
    linear: dict[str, Coupling] = {}
    polynomials, findings = [], []
    for e in _active(m, _JOINT):
        follower = _joint_name(m, m.eq_obj1id[e])
        leader = _joint_name(m, m.eq_obj2id[e]) if m.eq_obj2id[e] >= 0 else None
        coefficients = tuple(float(c) for c in m.eq_data[e][:5])
        straight = not any(coefficients[2:]) or leader is None
        if straight and follower not in linear and not _leads(linear, follower, leader):
            linear[follower] = Coupling(follower, leader, coefficients[1], coefficients[0])
            continue
        if leader is None:
            leader, coefficients = follower, (coefficients[0], 0.0, 0.0, 0.0, 0.0)
        name = _equality_name(m, e)
        polynomials.append(PolynomialCoupling(name, follower, leader, coefficients))
        reason = "couples joints that are coupled already" if straight else "is not linear"
        kept = "kept as a constraint, not part of the dynamics"
        message = f"joint equality {name!r} {reason}: {kept}"
        findings.append(Finding("warning", "coupling", f"joint {follower!r}", message))
    return tuple(linear.values()), tuple(polynomials), findings


def _leads(couplings: dict[str, Coupling], name: str, follower: str | None) -> bool:
    """Whether a joint is another one, or the leader of its leader and so on."""
    while follower is not None and follower != name:
        follower = couplings[follower].leader if follower in couplings else None
    return follower == name


def _loops(m: mujoco.MjModel) -> tuple[tuple[Loop, ...], list[FrameDraft]]:
    """Connect and weld equalities, each between two frames of its own."""
    loops, frames = [], []
    for e in _active(m, _CONNECT, _WELD):
        data, name, weld = m.eq_data[e], _equality_name(m, e), m.eq_type[e] == _WELD
        if m.eq_objtype[e] == _SITE:
            ends = [_site_end(m, m.eq_obj1id[e]), _site_end(m, m.eq_obj2id[e])]
        elif weld:
            first, second = _pose(data[3:6], data[6:10]), _shift(_vector(data[:3]))
            ends = [(m.eq_obj1id[e], first), (m.eq_obj2id[e], second)]
        else:
            first, second = (_shift(_vector(data[k : k + 3])) for k in (0, 3))
            ends = [(m.eq_obj1id[e], first), (m.eq_obj2id[e], second)]
        names = [f"{name}/1", f"{name}/2"]
        frames += [
            FrameDraft(n, _body_name(m, b), X) for n, (b, X) in zip(names, ends, strict=True)
        ]
        loops.append(Loop(name, "weld" if weld else "spherical", names[0], names[1]))
    return tuple(loops), frames


def _site_end(m: mujoco.MjModel, i: int) -> tuple[int, Transform]:
    return m.site_bodyid[i], _pose(m.site_pos[i], m.site_quat[i])


def _ignored(m: mujoco.MjModel) -> Iterator[Finding]:
    """What MuJoCo would put into the dynamics and a rigid-body model does not have."""

    def warn(subject: str, message: str) -> Finding:
        return Finding("warning", "ignored", subject, message)

    for i in range(1, m.nbody):
        if m.body_gravcomp[i]:
            yield warn(f"body {_body_name(m, i)!r}", f"gravcomp {m.body_gravcomp[i]:g} is ignored")
    for j in range(m.njnt):
        subject, dof = f"joint {_joint_name(m, j)!r}", m.jnt_dofadr[j]
        if m.jnt_type[j] == _FREE and m.dof_armature[dof]:
            yield warn(subject, f"armature {m.dof_armature[dof]:g} on a free joint is ignored")
        if m.jnt_type[j] == _BALL and m.jnt_limited[j]:
            yield warn(subject, "the range of a ball joint is ignored")
        if m.jnt_type[j] == _FREE and m.jnt_stiffness[j]:
            yield warn(subject, f"stiffness {m.jnt_stiffness[j]:g} on a free joint is ignored")
        end = dof + {_FREE: 6, _BALL: 3}.get(m.jnt_type[j], 1)
        for field in ("armature", "damping", "frictionloss"):
            if len(set(getattr(m, f"dof_{field}")[dof:end].tolist())) > 1:
                yield warn(subject, f"{field} differs between its freedoms: the first is taken")
        for field in ("jnt_stiffnesspoly", "dof_dampingpoly"):
            terms = getattr(m, field, None)
            if terms is not None and terms[j if field.startswith("jnt") else dof].any():
                yield warn(subject, "nonlinear terms of its spring or damper are ignored")
    for t in range(m.ntendon):
        if _any(m, t, "tendon", "stiffness", "damping", "armature", "frictionloss"):
            message = "its stiffness, damping, friction or armature is ignored"
            yield warn(f"tendon {m.tendon(t).name!r}", message)
    for a in range(m.nu):
        direct = _driven_joint(m, a) is not None
        if _any(m, a, "actuator", *(() if direct else ("armature", "damping")), "dampingpoly"):
            message = "its armature or damping is ignored"
            yield warn(f"actuator {m.actuator(a).name!r}", message)
    for e in range(m.neq):
        if m.eq_type[e] not in (_CONNECT, _WELD, _JOINT) and m.eq_active0[e]:
            message = "is neither connect, weld nor joint: ignored"
            yield warn(f"equality {_equality_name(m, e)!r}", message)
    if getattr(m, "nflex", 0):
        yield warn("flex", "soft bodies are ignored")
    if m.opt.density or m.opt.viscosity:
        yield warn("option", "forces of the surrounding fluid are ignored")


def _any(m: mujoco.MjModel, i: int, kind: str, *fields: str) -> bool:
    """Whether one of these quantities of an element is not zero."""
    values = (getattr(m, f"{kind}_{field}", None) for field in fields)
    return any(v is not None and bool(abs(v[i]).max()) for v in values)
