"""MJCF through MuJoCo's own compiler: a file, an MjSpec or a compiled MjModel.

The q of a joint is MuJoCo's qpos (quaternions reordered to x, y, z, w). A body with several joints,
or with a joint away from its origin, becomes a chain of bodies, the links between without mass.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from qddot.errors import DescriptionError, InvalidModel, QddotError, count_text
from qddot.loaders.description import Description
from qddot.loaders.left_out import left_out_of_mjcf
from qddot.loaders.mjcf_actuators import (
    driven_joint,
    drivers_by_joint,
    effort_limit,
    force_range,
)
from qddot.loaders.mujoco_checks import LOOKS, check_file, mujoco_errors, open_spec
from qddot.loaders.opened import note_opened
from qddot.model.joints import JOINTS, Drivetrain, Joint, Limits
from qddot.model.links import Coupling, Finding, FrameDraft, Link, Loop, PolynomialCoupling
from qddot.spatial.algebra import Inertia, Mat3, Sym3, Transform, Vec3, rotation_from_quaternion

if TYPE_CHECKING:
    import mujoco

__all__ = [
    "compile_spec",
    "describe_mjcf",
    "describe_mjmodel",
    "describe_mjspec",
    "drop_looks",
    "drop_simulation",
    "has_file",
    "inertia_from_geoms",
    "probe_mjcf",
    "replace_by_sphere",
]

_FREE, _BALL, _SLIDE, _HINGE = range(4)
_CONNECT, _WELD, _JOINT = range(3)
_SITE = 6
_TETRAHEDRON = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]


def describe_mjcf(path: Path, trust: bool = False) -> Description:
    """The description in an MJCF file; mesh files may be missing where inertias are written out.

    Files outside the folder and the package of the file are read with `trust` only.
    """
    checked = check_file(path, trust)
    make = partial(open_spec, path, checked, LOOKS)
    return _describe_spec(make, str(path), checked.outside)


def probe_mjcf(path: str, trust: bool) -> None:
    """Describe an MJCF file to see whether that ends the process: the task of a child.

    Errors are not its matter: who reads the file afterwards may know better, and finds them again.
    """
    # nothing is drawn, and looking for ways to draw takes half of the time of the import
    os.environ["MUJOCO_GL"] = "disable"
    with contextlib.suppress(QddotError):
        describe_mjcf(Path(path), trust)


def describe_mjspec(spec: mujoco.MjSpec) -> Description:
    """The description in an MjSpec, which is left as it is."""

    def copy_spec() -> mujoco.MjSpec:
        copy = spec.copy()
        # a copy lacks what refers to something that does not exist, without a word
        for kind in ("equalities", "tendons", "actuators"):
            lost = len(getattr(spec, kind)) - len(getattr(copy, kind))
            if lost:
                raise ValueError(f"{lost} of the {kind} refer to something that does not exist")
        return copy

    return _describe_spec(copy_spec, "", {})


def _describe_spec(
    make: Callable[[], mujoco.MjSpec], file: str, outside: Mapping[str, str]
) -> Description:
    """The description in a spec of which any number can be made, to take apart.

    `outside` has the files that must not be read, each with the reason.
    """
    unweighed: list[Finding] = []
    unread = [Finding("info", "outside", f"file {k!r}", why) for k, why in outside.items()]
    with mujoco_errors(file or "MjSpec"):
        spec = make()
    name = file or spec.modelname
    try:
        model = compile_spec(spec, name, outside)
    except DescriptionError as error:
        with mujoco_errors(name):
            spec = make()
            # bodies that never move need no mass: shapes of theirs from files are left out
            for body in spec.bodies:
                chain = [body]
                while chain[-1].parent is not None:
                    chain.append(chain[-1].parent)
                shapes = [geom for geom in body.geoms if has_file(geom)]
                if not shapes or not inertia_from_geoms(spec, body) or any(b.joints for b in chain):
                    continue
                for geom in shapes:
                    spec.delete(geom)
                message = "does not move, and its shape cannot be read: what it weighs is not known"
                unweighed.append(Finding("warning", "unweighed", f"body {body.name!r}", message))
        if not unweighed:
            raise
        try:
            model = compile_spec(spec, name, outside)
        except DescriptionError:
            raise error from error.__cause__
    # bodies whose inertia comes from their shapes
    invented = []
    for body in spec.bodies:
        if inertia_from_geoms(spec, body) and body.geoms:
            subject = f"body {body.name or f'body{body.id}'!r}"
            message = "has no <inertial>: inertia computed from its geoms"
            if body.explicitinertial:
                message = "inertiafromgeom: inertia computed from its geoms, not its <inertial>"
            invented.append(Finding("info", "invented", subject, message))
    return describe_mjmodel(model, spec.modelname, file, (*invented, *unweighed, *unread))


def describe_mjmodel(
    m: mujoco.MjModel, name: str = "", file: str = "", findings: tuple[Finding, ...] = ()
) -> Description:
    """The description in a compiled MjModel."""
    import mujoco

    frames = []
    for i in range(m.nsite):
        site = m.site(i).name or _unique_name(m, "site", i)
        # a body may have the name of a site
        if mujoco.mj_name2id(m, mujoco.mjtObj.mjOBJ_BODY, site) >= 0:
            site = f"{site} (site)"
        placement = _pose(m.site_pos[i], m.site_quat[i])
        frames.append(FrameDraft(site, _body_name(m, m.site_bodyid[i]), placement))
    # connect and weld equalities close loops, each between two frames of its own
    loops = []
    for e in _active_equalities(m, _CONNECT, _WELD):
        data, equality, weld = m.eq_data[e], _equality_name(m, e), m.eq_type[e] == _WELD
        if m.eq_objtype[e] == _SITE:
            ends = [_site_end(m, m.eq_obj1id[e]), _site_end(m, m.eq_obj2id[e])]
        elif weld:
            first, second = _pose(data[3:6], data[6:10]), _translation_by(_vector(data[:3]))
            ends = [(m.eq_obj1id[e], first), (m.eq_obj2id[e], second)]
        else:
            first, second = (_translation_by(_vector(data[k : k + 3])) for k in (0, 3))
            ends = [(m.eq_obj1id[e], first), (m.eq_obj2id[e], second)]
        names = [f"{equality}/1", f"{equality}/2"]
        frames += [
            FrameDraft(n, _body_name(m, b), X) for n, (b, X) in zip(names, ends, strict=True)
        ]
        loops.append(Loop(equality, "weld" if weld else "spherical", names[0], names[1]))
    couplings, polynomials, doubts = _read_couplings(m)
    # coordinates by joint of qpos0 and of each keyframe
    named = {"qpos0": m.qpos0}
    named |= {m.key(k).name or f"key{k}": m.key_qpos[k] for k in range(m.nkey)}
    joints = [_joint_name(m, j) for j in range(m.njnt)]
    drivers = drivers_by_joint(m)
    return Description(
        name or m.names[: m.names.index(b"\0")].decode() or "mjcf",
        tuple(link for i in range(1, m.nbody) for link in _read_links(m, i, drivers)),
        tuple(frames),
        couplings,
        tuple(loops),
        polynomials,
        Vec3.zero() if _is_switched_off(m, "GRAVITY") else _vector(m.opt.gravity),
        {
            name: {joint: _read_coordinates(m, j, qpos) for j, joint in enumerate(joints)}
            for name, qpos in named.items()
        },
        (*findings, *doubts, *_ignored_features(m), *left_out_of_mjcf(m)),
        file,
        root_poses={
            str(_body_name(m, i)): _pose(m.body_pos[i], m.body_quat[i]) for i in range(1, m.nbody)
        },
    )


def compile_spec(
    spec: Any, name: str, outside: Mapping[str, str] = MappingProxyType({})
) -> mujoco.MjModel:
    """The model of a spec without its looks; `outside` are files that must not be read."""
    with mujoco_errors(name):
        drop_looks(spec)
        drop_simulation(spec)
        for mesh in spec.meshes:
            if mesh.file in outside:
                reason = f"inertia depends on mesh {mesh.file!r}: {outside[mesh.file]}"
                raise DescriptionError(name, reason)
        model = spec.compile()
    note_opened(*_mesh_files(spec))
    return model


def _mesh_files(spec: Any) -> Iterator[Path]:
    """Files of the meshes of a spec: below its folder of meshes, or beside what it includes."""
    folder = Path(spec.modelfiledir)
    for mesh in spec.meshes:
        names = (mesh.file, Path(mesh.file).name) if mesh.file else ()
        places = (folder / spec.meshdir / name for name in names)
        yield from [place for place in places if place.is_file()][:1]


def drop_looks(spec: Any) -> None:
    """Remove everything that inertia does not depend on, so that its files need not exist.

    Where there may be many, it is replaced: MuJoCo takes quadratic time to remove elements.
    """
    for element in (*spec.sensors, *spec.pairs, *spec.tuples, *spec.skins, *spec.textures):
        spec.delete(element)
    for geom in spec.geoms:
        geom.material = ""
        if has_file(geom) and not inertia_from_geoms(spec, geom.parent):
            replace_by_sphere(geom)
    for element in (*spec.sites, *spec.tendons):
        element.material = ""
    for material in spec.materials:
        material.textures = [""] * len(material.textures)
    used = {geom.meshname for geom in spec.geoms if geom.meshname}
    for mesh in spec.meshes:
        mesh.material = ""
        if mesh.name not in used:
            mesh.file, mesh.userface, mesh.uservert = "", [], _TETRAHEDRON
    for hfield in spec.hfields:
        hfield.file, hfield.nrow, hfield.ncol, hfield.userdata = "", 2, 2, [0.0] * 4


def replace_by_sphere(geom: Any) -> None:
    """Put a small sphere in the place of a geom that takes its shape from a file."""
    import mujoco

    geom.type, geom.meshname, geom.hfieldname = mujoco.mjtGeom.mjGEOM_SPHERE, "", ""
    geom.size = [1e-3, 0.0, 0.0]


def drop_simulation(spec: Any) -> None:
    """Remove what only a simulation needs: its memory, and ranges that it would have to find."""
    import mujoco

    spec.memory = spec.nstack = spec.njmax = spec.nconmax = -1
    spec.compiler.LRopt.mode = mujoco.mjtLRMode.mjLRMODE_NONE


def has_file(geom: Any) -> bool:
    """Whether a geom takes its shape from a file."""
    import mujoco

    shapes = (mujoco.mjtGeom.mjGEOM_MESH, mujoco.mjtGeom.mjGEOM_HFIELD, mujoco.mjtGeom.mjGEOM_SDF)
    return geom.type in shapes or bool(geom.meshname)


def inertia_from_geoms(spec: Any, body: Any) -> bool:
    """Whether the inertia of a body comes from its geoms."""
    import mujoco

    kinds, setting = mujoco.mjtInertiaFromGeom, spec.compiler.inertiafromgeom
    if body is spec.worldbody or setting == kinds.mjINERTIAFROMGEOM_FALSE:
        return False
    return setting == kinds.mjINERTIAFROMGEOM_TRUE or not body.explicitinertial


def _unique_name(m: mujoco.MjModel, kind: str, i: int) -> str:
    """A name for an element without one, different from all others."""
    import mujoco

    name, objects = f"{kind}{i}", getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}")
    while mujoco.mj_name2id(m, objects, name) >= 0:
        name += "_"
    return name


def _is_switched_off(m: mujoco.MjModel, *features: str) -> bool:
    """Whether an option of the file disables one of these features."""
    import mujoco

    bits = (getattr(mujoco.mjtDisableBit, f"mjDSBL_{f}", 0) for f in features)
    return any(m.opt.disableflags & bit for bit in bits)


def _body_name(m: mujoco.MjModel, i: int) -> str | None:
    """Name of a body; None for the world."""
    return (m.body(i).name or _unique_name(m, "body", i)) if i else None


def _joint_name(m: mujoco.MjModel, j: int) -> str:
    return m.joint(j).name or _unique_name(m, "joint", j)


def _pose(position: Any, quaternion: Any) -> Transform:
    w, x, y, z = (float(c) for c in quaternion)
    if not 1e-9 < math.hypot(w, x, y, z) < 1e9:
        raise InvalidModel("pose", f"the quaternion {(w, x, y, z)} is no rotation")
    return Transform(rotation_from_quaternion(x, y, z, w), _vector(position))


def _vector(v: Any) -> Vec3:
    return Vec3(*(float(c) for c in v))


def _translation_by(p: Vec3) -> Transform:
    return Transform(Mat3.identity(), p)


def _read_inertia(m: mujoco.MjModel, i: int) -> Inertia:
    X = _pose(m.body_ipos[i], m.body_iquat[i])
    moments = Sym3.diagonal(*(float(c) for c in m.body_inertia[i]))
    return X.to_parent(Inertia(float(m.body_mass[i]), Vec3.zero(), moments))


def _read_links(m: mujoco.MjModel, i: int, drivers: Mapping[int, Sequence[int]]) -> Iterator[Link]:
    """The links of one body: one for each joint, the last (or a fixed one after it) the body."""
    name, parent = str(_body_name(m, i)), _body_name(m, m.body_parentid[i])
    X, anchor = _pose(m.body_pos[i], m.body_quat[i]), Vec3.zero()
    joints = range(m.body_jntadr[i], m.body_jntadr[i] + m.body_jntnum[i])
    for j in joints:
        joint = _read_joint(m, j, drivers.get(j, ()))
        if m.jnt_type[j] == _FREE:
            yield Link(name, parent, Transform.identity(), joint, _read_inertia(m, i))
            return
        at = _vector(m.jnt_pos[j])
        placement, anchor = X @ _translation_by(at - anchor), at
        if j == joints[-1] and at == Vec3.zero():
            yield Link(name, parent, placement, joint, _read_inertia(m, i))
            return
        link = f"{name}/{_joint_name(m, j)}"
        yield Link(link, parent, placement, joint)
        parent, X = link, Transform.identity()
    held = Joint(f"{name} (fixed)", JOINTS["fixed"])
    yield Link(name, parent, X @ _translation_by(-anchor), held, _read_inertia(m, i))


def _read_joint(m: mujoco.MjModel, j: int, drivers: Sequence[int]) -> Joint:
    kind, name, adr = m.jnt_type[j], _joint_name(m, j), m.jnt_qposadr[j]
    if kind == _FREE:
        return Joint(name, JOINTS["free"], drivetrain=_read_drivetrain(m, j, drivers))
    if kind == _BALL:
        return Joint(name, JOINTS["ball"], drivetrain=_read_drivetrain(m, j, drivers))
    lower, upper = m.jnt_range[j] if m.jnt_limited[j] else (-math.inf, math.inf)
    limits = Limits(float(lower), float(upper), effort=effort_limit(m, j, drivers))
    row = "prismatic" if kind == _SLIDE else "revolute" if limits.upper < math.inf else "continuous"
    return Joint(
        name, JOINTS[row], (_vector(m.jnt_axis[j]),),
        offset=-float(m.qpos0[adr]), limits=limits, drivetrain=_read_drivetrain(m, j, drivers),
    )  # fmt: skip


def _read_drivetrain(m: mujoco.MjModel, j: int, drivers: Sequence[int]) -> Drivetrain:
    dof, free = m.jnt_dofadr[j], m.jnt_type[j] == _FREE
    stiffness = (
        0.0 if free or _is_switched_off(m, "SPRING", "PASSIVE") else float(m.jnt_stiffness[j])
    )
    armature = float(m.dof_armature[dof]) + _sum_over_actuators(m, drivers, "armature")
    damping = float(m.dof_damping[dof]) + _sum_over_actuators(m, drivers, "damping")
    # displacement at which the spring is relaxed
    rest = _read_coordinates(m, j, m.qpos_spring) if stiffness else None
    if rest and m.jnt_type[j] in (_SLIDE, _HINGE):
        rest = (rest[0] - float(m.qpos0[m.jnt_qposadr[j]]),)
    return Drivetrain(
        armature=0.0 if free else armature,
        damping=0.0 if _is_switched_off(m, "DAMPER", "PASSIVE") else damping,
        friction=0.0
        if _is_switched_off(m, "FRICTIONLOSS", "CONSTRAINT")
        else float(m.dof_frictionloss[dof]),
        stiffness=stiffness,
        rest=rest,
    )


def _sum_over_actuators(m: mujoco.MjModel, drivers: Sequence[int], quantity: str) -> float:
    """Armature or damping of the motors of a joint, seen through their gears."""
    values = getattr(m, f"actuator_{quantity}", None)
    if values is None:
        return 0.0
    return sum(float(values.reshape(m.nu, -1)[a, 0] * m.actuator_gear[a, 0] ** 2) for a in drivers)


def _read_coordinates(m: mujoco.MjModel, j: int, qpos: Any) -> tuple[float, ...]:
    """The coordinates of a joint in a qpos, quaternion last component w."""
    adr, kind = m.jnt_qposadr[j], m.jnt_type[j]
    if kind in (_SLIDE, _HINGE):
        return (float(qpos[adr]),)
    x = [float(c) for c in qpos[adr : adr + (7 if kind == _FREE else 4)]]
    w = x.pop(3 if kind == _FREE else 0)
    return (*x, w)


def _active_equalities(m: mujoco.MjModel, *kinds: int) -> list[int]:
    if _is_switched_off(m, "EQUALITY", "CONSTRAINT"):
        return []
    return [e for e in range(m.neq) if m.eq_active0[e] and m.eq_type[e] in kinds]


def _equality_name(m: mujoco.MjModel, e: int) -> str:
    return m.equality(e).name or _unique_name(m, "equality", e)


def _read_couplings(
    m: mujoco.MjModel,
) -> tuple[tuple[Coupling, ...], tuple[PolynomialCoupling, ...], list[Finding]]:
    """Linear joint equalities as exact couplings, the others as constraints."""
    # the first linear equality of a joint is exact, unless it would follow itself
    linear: dict[str, Coupling] = {}
    polynomials, findings = [], []
    for e in _active_equalities(m, _JOINT):
        follower = _joint_name(m, m.eq_obj1id[e])
        leader = _joint_name(m, m.eq_obj2id[e]) if m.eq_obj2id[e] >= 0 else None
        coefficients = tuple(float(c) for c in m.eq_data[e][:5])
        straight = not any(coefficients[2:]) or leader is None
        # the leader, or the leader of its leader and so on, up to the follower itself
        ancestor = leader
        while ancestor is not None and ancestor != follower:
            ancestor = linear[ancestor].leader if ancestor in linear else None
        if straight and follower not in linear and ancestor != follower:
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


def _site_end(m: mujoco.MjModel, i: int) -> tuple[int, Transform]:
    return m.site_bodyid[i], _pose(m.site_pos[i], m.site_quat[i])


def _ignored_features(m: mujoco.MjModel) -> Iterator[Finding]:
    """Terms of MuJoCo's dynamics that a rigid-body model does not have."""

    def warn_of(subject: str, message: str) -> Finding:
        return Finding("warning", "ignored", subject, message)

    # bodies and joints
    for i in range(1, m.nbody):
        if m.body_gravcomp[i]:
            yield warn_of(
                f"body {_body_name(m, i)!r}", f"gravcomp {m.body_gravcomp[i]:g} is ignored"
            )
    for j in range(m.njnt):
        subject, dof = f"joint {_joint_name(m, j)!r}", m.jnt_dofadr[j]
        if m.jnt_type[j] == _FREE and m.dof_armature[dof]:
            yield warn_of(subject, f"armature {m.dof_armature[dof]:g} on a free joint is ignored")
        if m.jnt_type[j] == _BALL and m.jnt_limited[j]:
            yield warn_of(subject, "the range of a ball joint is ignored")
        if m.jnt_type[j] == _FREE and m.jnt_stiffness[j]:
            yield warn_of(subject, f"stiffness {m.jnt_stiffness[j]:g} on a free joint is ignored")
        end = dof + {_FREE: 6, _BALL: 3}.get(m.jnt_type[j], 1)
        for field in ("armature", "damping", "frictionloss"):
            if len(set(getattr(m, f"dof_{field}")[dof:end].tolist())) > 1:
                yield warn_of(subject, f"{field} differs between its freedoms: the first is taken")
        for field in ("jnt_stiffnesspoly", "dof_dampingpoly"):
            terms = getattr(m, field, None)
            if terms is not None and terms[j if field.startswith("jnt") else dof].any():
                yield warn_of(subject, "nonlinear terms of its spring or damper are ignored")
    # tendons and actuators
    for t in range(m.ntendon):
        if _has_nonzero(m, t, "tendon", "stiffness", "damping", "armature", "frictionloss"):
            message = "its stiffness, damping, friction or armature is ignored"
            yield warn_of(f"tendon {m.tendon(t).name!r}", message)
    for a in range(m.nu):
        direct = driven_joint(m, a) is not None
        if _has_nonzero(
            m, a, "actuator", *(() if direct else ("armature", "damping")), "dampingpoly"
        ):
            message = "its armature or damping is ignored"
            yield warn_of(f"actuator {m.actuator(a).name!r}", message)
    # limits that no joint has, as their actuators act through tendons, sites or bodies
    names = [
        repr(m.actuator(a).name or f"actuator{a}")
        for a in range(m.nu)
        if driven_joint(m, a) is None and max(map(abs, force_range(m, a))) < math.inf
    ]
    if names:
        listed = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
        verb = "does not act" if len(names) == 1 else "do not act"
        message = f"{listed} {verb} on one hinge or slide: no joint has these limits as its effort"
        yield Finding("info", "actuators", count_text(len(names), "actuator"), message)
    # constraints, soft bodies and fluids
    for e in range(m.neq):
        if m.eq_type[e] not in (_CONNECT, _WELD, _JOINT) and m.eq_active0[e]:
            message = "is neither connect, weld nor joint: ignored"
            yield warn_of(f"equality {_equality_name(m, e)!r}", message)
    if getattr(m, "nflex", 0):
        yield warn_of("flex", "soft bodies are ignored")
    if m.opt.density or m.opt.viscosity:
        yield warn_of("option", "forces of the surrounding fluid are ignored")


def _has_nonzero(m: mujoco.MjModel, i: int, kind: str, *fields: str) -> bool:
    """Whether one of these quantities of an element is not zero."""
    values = (getattr(m, f"{kind}_{field}", None) for field in fields)
    return any(v is not None and bool(abs(v[i]).max()) for v in values)
