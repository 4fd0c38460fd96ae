"""Other engines: how each opens a description file, and what it computes at given states.

Everything here runs in a process of its own (`worker.py`): an engine may end the process.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qddot import adapt
from qddot.loaders.description import Base, Description
from qddot.verify.compare.sources import Source, without_shapes

__all__ = ["ENGINES", "CannotOpen", "Engine", "Opened", "Values", "said"]

_LONGEST = 300

Values = Iterator[tuple[str, Any]]
"""Names of quantities with arrays over the states, or with the reason why there is none."""


class CannotOpen(Exception):
    """A file that an engine cannot open, and why."""


@dataclass(frozen=True)
class Opened:
    """A model of an engine, its description, and what the engine says of the file."""

    model: Any
    description: Description
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Engine:
    """An engine: the module and the package it needs, and what it does.

    `no_friction` says why its passive forces lack dry friction, empty if they have it.
    """

    title: str
    module: str
    package: str
    open: Callable[[Source, Base, bool], Opened]
    adapter: Callable[..., adapt.Adapter]
    values: Callable[[Any, adapt.Adapter, np.ndarray, np.ndarray, np.ndarray], Values]
    no_friction: str = ""

    @property
    def installed(self) -> bool:
        """Whether its module is there, found without importing it."""
        try:
            return importlib.util.find_spec(self.module) is not None
        except ModuleNotFoundError:
            return False


def _stacked(rows: Sequence[Sequence[Any]]) -> list[np.ndarray]:
    return [np.array(column) for column in zip(*rows, strict=True)]


def _reason(error: BaseException) -> str:
    return said(str(error)) or type(error).__name__


def said(text: str) -> str:
    """A message on one line, without where in its own source the engine noticed."""
    plain = re.sub(r"Failure at \S+ in \w+\(\): ", "", " ".join(text.split()))
    return plain if len(plain) <= _LONGEST else plain[:_LONGEST] + " …"


def _open_mujoco(source: Source, base: Base, free: bool) -> Opened:
    import mujoco

    from qddot.loaders.mjcf import describe_mjmodel

    if source.format == "sdf":
        raise CannotOpen("MuJoCo reads no SDF")
    if base is not None and source.format == "mjcf":
        raise CannotOpen(f"the root of an MJCF file is what the file says; base={base!r} is not")
    failures = (ValueError, TypeError, mujoco.FatalError)
    try:
        model = _model_of_file(source, base)
        notes: tuple[str, ...] = ()
    except failures as error:
        try:
            model = _model_without_meshes(source, base)
        except failures as second:
            raise CannotOpen(_reason(second)) from second
        notes = (f"opened without its meshes: {_reason(error)}",)
    return Opened(model, describe_mjmodel(model), notes)


def _model_of_file(source: Source, base: Base) -> Any:
    import mujoco

    if base == "free":
        return _freed(mujoco.MjSpec.from_file(str(source.path)))
    return mujoco.MjModel.from_xml_path(str(source.path))


def _model_without_meshes(source: Source, base: Base) -> Any:
    import mujoco

    from qddot.loaders.mjcf import drop_looks

    if source.format == "mjcf":
        spec = mujoco.MjSpec.from_file(str(source.path))
        drop_looks(spec)
        return spec.compile()
    text = without_shapes(source.path, keep_solids=True)
    if base == "free":
        return _freed(mujoco.MjSpec.from_string(text))
    return mujoco.MjModel.from_xml_string(text)


def _freed(spec: Any) -> Any:
    """The model of a file that has no word for a free root, its root free."""
    spec.worldbody.bodies[0].add_freejoint()
    return spec.compile()


def _leave_only_tree(m: Any) -> None:
    """Switch off constraints, contact and actuators."""
    import mujoco

    off = mujoco.mjtDisableBit
    for bit in (off.mjDSBL_CONSTRAINT, off.mjDSBL_CONTACT, off.mjDSBL_ACTUATION):
        m.opt.disableflags |= bit


def _values_mujoco(
    m: Any, adapter: adapt.Adapter, q: np.ndarray, v: np.ndarray, tau: np.ndarray
) -> Values:
    import mujoco

    _leave_only_tree(m)
    d = mujoco.MjData(m)
    inputs = adapter.to_q(q), adapter.to_v(q, v), adapter.to_tau(q, tau)
    rows, poses = [], []
    for qpos, qvel, force in zip(*inputs, strict=True):
        d.qpos[:], d.qvel[:], d.qfrc_applied[:] = qpos, 0.0, 0.0
        mujoco.mj_forward(m, d)
        g = d.qfrc_bias.copy()
        d.qvel[:], d.qfrc_applied[:] = qvel, force
        mujoco.mj_forward(m, d)
        M = adapt.full_mass_matrix(m, d)
        rows.append((M, g, *(x.copy() for x in (d.qfrc_bias, d.qfrc_passive, d.qacc_smooth))))
        poses.append([_pose(d.xpos[i], d.xmat[i].reshape(3, 3)) for i in range(m.nbody)])
    yield "poses", {m.body(i).name: np.array([p[i] for p in poses]) for i in range(1, m.nbody)}
    yield from _brought_back(adapter, q, v, _stacked(rows))


def _pose(p: np.ndarray, R: np.ndarray) -> np.ndarray:
    X = np.eye(4)
    X[:3, :3], X[:3, 3] = R, p
    return X


def _brought_back(
    adapter: adapt.Adapter, q: np.ndarray, v: np.ndarray, found: Sequence[np.ndarray]
) -> Values:
    """M, g, h, the passive forces and q̈ of an engine in our coordinates."""
    M, g, h, passive, qdd = found
    yield "M", adapter.from_mass_matrix(q, M)
    yield "g", adapter.from_tau(q, g)
    yield "bias", adapter.from_bias(q, v, h, M)
    yield "passive", -adapter.from_tau(q, passive)
    yield "q̈", _acceleration(adapter, q, v, qdd)


def _acceleration(adapter: adapt.Adapter, q: np.ndarray, v: np.ndarray, qdd: np.ndarray) -> Any:
    """q̈ in our coordinates, where the engine has no freedoms of its own."""
    if adapter.layout.nv != adapter.robot.nv:
        return f"{adapter.engine} moves joints that are locked or coupled here"
    return adapter.from_a(q, v, qdd)


def _open_pinocchio(source: Source, base: Base, free: bool) -> Opened:
    import pinocchio as pin

    from qddot.loaders.pinocchio import describe_pinocchio

    root = (pin.JointModelFreeFlyer(),) if base == "free" else ()
    name = ("root_joint",) if root else ()
    try:
        if source.format == "mjcf":
            if base == "fixed":
                raise CannotOpen("the root of an MJCF file is what the file says")
            model = pin.buildModelFromMJCF(str(source.path), *root, *name)
            model = model[0] if isinstance(model, tuple) else model
        elif source.format == "sdf":
            if not hasattr(pin, "buildModelFromSdf"):
                raise CannotOpen("this build of Pinocchio reads no SDF")
            model = pin.buildModelFromSdf(str(source.path), *root)[0]
        else:
            model = pin.buildModelFromUrdf(str(source.path), *root)
    except (ValueError, RuntimeError, TypeError) as error:
        raise CannotOpen(_reason(error)) from error
    return Opened(model, describe_pinocchio(model))


def _values_pinocchio(
    m: Any, adapter: adapt.Adapter, q: np.ndarray, v: np.ndarray, tau: np.ndarray
) -> Values:
    import pinocchio as pin

    d, at = m.createData(), adapter.to_q(q)
    names = {f.name: k for k, f in enumerate(m.frames) if f.type == pin.FrameType.BODY}
    poses: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for x in at:
        pin.framesForwardKinematics(m, d, x)
        for name, k in names.items():
            poses[name].append(d.oMf[k].homogeneous.copy())
    yield "poses", {name: np.array(x) for name, x in poses.items()}
    yield "M", adapter.from_mass_matrix(q, np.array([pin.crba(m, d, x).copy() for x in at]))
    g = np.array([pin.computeGeneralizedGravity(m, d, x).copy() for x in at])
    yield "g", adapter.from_tau(q, g)
    speeds = adapter.to_v(q, v)
    h = [pin.nonLinearEffects(m, d, *s).copy() for s in zip(at, speeds, strict=True)]
    yield "bias", adapter.from_bias(q, v, np.array(h))
    yield "passive", "Pinocchio's dynamics have no damping, friction or springs"
    states = zip(at, speeds, adapter.to_tau(q, tau), strict=True)
    try:
        qdd = np.array([pin.aba(m, d, *s).copy() for s in states])
    except (ValueError, RuntimeError) as error:
        yield "q̈", _reason(error)
    else:
        yield "q̈", _acceleration(adapter, q, v, qdd)


def _open_drake(source: Source, base: Base, free: bool) -> Opened:
    from qddot.loaders.drake import describe_drake, drake_messages

    if base is not None and source.format == "mjcf":
        raise CannotOpen(f"the root of an MJCF file is what the file says; base={base!r} is not")
    notes = []
    with drake_messages() as heard:
        try:
            plant = _plant(source, lambda p: p.AddModels(str(source.path)), free)
        except (RuntimeError, ValueError) as error:
            if source.format != "urdf":
                raise CannotOpen(_reason(error)) from error
            heard.clear()
            text = without_shapes(source.path)
            try:
                plant = _plant(source, lambda p: p.AddModelsFromString(text, "urdf"), free)
            except (RuntimeError, ValueError) as second:
                raise CannotOpen(_reason(second)) from second
            notes.append(f"opened without its shapes: {_reason(error)}")
    notes += [text for text in map(said, heard) if "inertia" in text or "mimic" in text]
    return Opened(plant, describe_drake(plant), tuple(dict.fromkeys(notes)))


def _plant(source: Source, add: Callable[[Any], Any], free: bool) -> Any:
    """A plant of a file, its root welded to the world where the file leaves that open."""
    from pydrake.multibody.parsing import Parser
    from pydrake.multibody.plant import MultibodyPlant

    plant = MultibodyPlant(0.0)
    instances = add(Parser(plant))
    if source.format != "mjcf" and not free:
        for instance in instances:
            for body in map(plant.get_body, plant.GetBodyIndices(instance)):
                if body.name() in source.roots:
                    plant.WeldFrames(plant.world_frame(), body.body_frame())
    plant.Finalize()
    return plant


def _values_drake(
    plant: Any, adapter: adapt.Adapter, q: np.ndarray, v: np.ndarray, tau: np.ndarray
) -> Values:
    from pydrake.multibody.tree import BodyIndex, MultibodyForces

    context, forces = plant.CreateDefaultContext(), MultibodyForces(plant)
    port = plant.get_applied_generalized_force_input_port()
    bodies = [plant.get_body(BodyIndex(i)) for i in range(1, plant.num_bodies())]
    rows, poses, refused = [], [], ""
    for x, w, t in zip(adapter.to_q(q), adapter.to_v(q, v), adapter.to_tau(q, tau), strict=True):
        plant.SetPositions(context, x)
        plant.SetVelocities(context, w)
        port.FixValue(context, t)
        M, g = plant.CalcMassMatrix(context), -plant.CalcGravityGeneralizedForces(context)
        plant.CalcForceElementsContribution(context, forces)
        qdd = np.full(plant.num_velocities(), np.nan)
        try:
            qdd = plant.EvalTimeDerivatives(context).get_generalized_velocity().CopyToVector()
        except RuntimeError as error:
            refused = _reason(error)
        h = plant.CalcBiasTerm(context) + g
        rows.append((M, g, h, forces.generalized_forces().copy(), qdd))
        poses.append([plant.EvalBodyPoseInWorld(context, b).GetAsMatrix4() for b in bodies])
    yield "poses", {b.name(): np.array([p[i] for p in poses]) for i, b in enumerate(bodies)}
    for name, value in _brought_back(adapter, q, v, _stacked(rows)):
        yield name, refused if refused and name == "q̈" else value


def _values_mjx(
    m: Any, adapter: adapt.Adapter, q: np.ndarray, v: np.ndarray, tau: np.ndarray
) -> Values:
    import jax
    from mujoco import mjx

    jax.config.update("jax_enable_x64", True)
    _leave_only_tree(m)
    # MJX refuses pairs of shapes that it cannot collide, whether or not they may
    m.geom_contype[:], m.geom_conaffinity[:] = 0, 0
    there = mjx.put_model(m)
    start = mjx.make_data(there)

    def at(qpos: Any, qvel: Any, force: Any) -> Any:
        d = mjx.forward(there, start.replace(qpos=qpos, qvel=qvel, qfrc_applied=force))
        terms = mjx.full_m(there, d), d.qfrc_bias, d.qfrc_passive, d.qacc_smooth
        return (*terms, d.xpos, d.xmat)

    run, rows, poses = jax.jit(at), [], []
    for qpos, qvel, force in zip(
        adapter.to_q(q), adapter.to_v(q, v), adapter.to_tau(q, tau), strict=True
    ):
        g = np.asarray(run(qpos, 0.0 * qvel, force)[1])
        M, h, passive, qdd, xpos, xmat = (np.asarray(x) for x in run(qpos, qvel, force))
        rows.append((M, g, h, passive, qdd))
        poses.append([_pose(p, R.reshape(3, 3)) for p, R in zip(xpos, xmat, strict=True)])
    yield "poses", {m.body(i).name: np.array([p[i] for p in poses]) for i in range(1, m.nbody)}
    yield from _brought_back(adapter, q, v, _stacked(rows))


_CONSTRAINED, _FRICTIONLESS = "it is a constraint", "there is none"

ENGINES: dict[str, Engine] = {
    "pinocchio": Engine(
        "Pinocchio", "pinocchio", "pin", _open_pinocchio, adapt.pinocchio, _values_pinocchio
    ),
    "mujoco": Engine(
        "MuJoCo", "mujoco", "mujoco", _open_mujoco, adapt.mujoco, _values_mujoco, _CONSTRAINED
    ),
    "drake": Engine(
        "Drake", "pydrake", "drake", _open_drake, adapt.drake, _values_drake, _FRICTIONLESS
    ),
    "mjx": Engine(
        "MJX", "mujoco.mjx", "mujoco-mjx", _open_mujoco, adapt.mujoco, _values_mjx, _CONSTRAINED
    ),
}
"""The engines by the name that the command line takes."""
