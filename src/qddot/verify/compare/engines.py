"""Other engines: how each opens a description file, and its terms at given states.

Everything here runs in a process of its own (`worker.py`): an engine may end the process.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qddot import engines
from qddot.errors import DescriptionError
from qddot.loaders.description import Base, Description
from qddot.verify.compare.sources import ComparisonSource, without_shapes

__all__ = ["ENGINES", "CannotOpen", "ComparisonEngine", "EngineModel", "Values", "format_message"]

_LONGEST = 300

Values = Iterator[tuple[str, Any]]
"""Names of quantities with arrays over the states, or with the reason why there is none."""


class CannotOpen(Exception):
    """A file that an engine cannot open, and why."""


@dataclass(frozen=True)
class EngineModel:
    """A model of an engine, its description, and the engine's notes on the file."""

    model: Any
    description: Description
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComparisonEngine:
    """An engine: the module and the package it needs, and what it does.

    `no_friction` says why its passive forces lack dry friction, empty if they have it; `unread` has
    stages whose numbers are not read from its model, and why.
    """

    title: str
    module: str
    package: str
    open: Callable[[ComparisonSource, Base, bool], EngineModel]
    adapter: Callable[..., engines.Adapter]
    values: Callable[[Any, engines.Adapter, np.ndarray, np.ndarray, np.ndarray], Values]
    no_friction: str = ""
    unread: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_installed(self) -> bool:
        """Whether its module is there, found without importing it."""
        try:
            return importlib.util.find_spec(self.module) is not None
        except ModuleNotFoundError:
            return False


def _error_reason(error: BaseException) -> str:
    return format_message(str(error)) or type(error).__name__


def format_message(text: str) -> str:
    """A message on one line, without where in its own source the engine noticed."""
    plain = re.sub(r"Failure at \S+ in \w+\(\): ", "", " ".join(text.split()))
    return plain if len(plain) <= _LONGEST else plain[:_LONGEST] + " …"


def _open_mujoco(source: ComparisonSource, base: Base, free: bool) -> EngineModel:
    """The model of MuJoCo, without its meshes where these cannot be read."""
    import mujoco

    from qddot.loaders.mjcf import describe_mjmodel, drop_looks
    from qddot.loaders.mujoco_checks import check_file, open_spec

    if source.format == "sdf":
        raise CannotOpen("MuJoCo reads no SDF")
    if base is not None and source.format == "mjcf":
        raise CannotOpen(f"the root of an MJCF file is what the file says; base={base!r} is not")
    failures = (ValueError, TypeError, mujoco.FatalError, RuntimeError, MemoryError)
    notes: tuple[str, ...] = ()
    try:
        checked = check_file(source.path, source.trust)
    except DescriptionError as error:
        raise CannotOpen(error.reason) from error
    try:
        if checked.outside:
            raise ValueError(next(iter(checked.outside.values())))
        if base == "free":
            model = _compile_with_free_root(open_spec(source.path))
        else:
            model = open_spec(source.path).compile()
    except failures as error:
        notes = (f"opened without its meshes: {_error_reason(error)}",)
        try:
            if source.format == "mjcf":
                spec = open_spec(source.path)
                drop_looks(spec)
                model = spec.compile()
            else:
                text = without_shapes(source.path, keep_solids=True)
                if base == "free":
                    model = _compile_with_free_root(mujoco.MjSpec.from_string(text))
                else:
                    model = mujoco.MjModel.from_xml_string(text)
        except failures as second:
            raise CannotOpen(_error_reason(second)) from second
    return EngineModel(model, describe_mjmodel(model), notes)


def _compile_with_free_root(spec: Any) -> Any:
    """The model of a file that has no word for a free root, its root free."""
    spec.worldbody.bodies[0].add_freejoint()
    return spec.compile()


def _disable_constraints(m: Any) -> None:
    """Switch off constraints, contact and actuators."""
    import mujoco

    off = mujoco.mjtDisableBit
    for bit in (off.mjDSBL_CONSTRAINT, off.mjDSBL_CONTACT, off.mjDSBL_ACTUATION):
        m.opt.disableflags |= bit


def _values_mujoco(
    m: Any, adapter: engines.Adapter, q: np.ndarray, v: np.ndarray, tau: np.ndarray
) -> Values:
    import mujoco

    _disable_constraints(m)
    d = mujoco.MjData(m)
    inputs = adapter.to_q(q), adapter.to_v(q, v), adapter.to_tau(q, tau)
    rows, poses = [], []
    for qpos, qvel, force in zip(*inputs, strict=True):
        # gravity at rest, then all terms at speed
        d.qpos[:], d.qvel[:], d.qfrc_applied[:] = qpos, 0.0, 0.0
        mujoco.mj_forward(m, d)
        g = d.qfrc_bias.copy()
        d.qvel[:], d.qfrc_applied[:] = qvel, force
        mujoco.mj_forward(m, d)
        M = engines.full_mass_matrix(m, d)
        rows.append((M, g, *(x.copy() for x in (d.qfrc_bias, d.qfrc_passive, d.qacc_smooth))))
        poses.append(
            [_homogeneous_matrix(d.xpos[i], d.xmat[i].reshape(3, 3)) for i in range(m.nbody)]
        )
    yield "poses", {m.body(i).name: np.array([p[i] for p in poses]) for i in range(1, m.nbody)}
    yield from _to_our_coordinates(adapter, q, v, rows)


def _homogeneous_matrix(p: np.ndarray, R: np.ndarray) -> np.ndarray:
    X = np.eye(4)
    X[:3, :3], X[:3, 3] = R, p
    return X


def _to_our_coordinates(
    adapter: engines.Adapter, q: np.ndarray, v: np.ndarray, rows: Sequence[Sequence[Any]]
) -> Values:
    """M, g, h, the passive forces and q̈ of an engine, a row a state, in our coordinates."""
    M, g, h, passive, qdd = (np.array(column) for column in zip(*rows, strict=True))
    yield "M", adapter.from_mass_matrix(q, M)
    yield "g", adapter.from_tau(q, g)
    yield "bias", adapter.from_bias(q, v, h, M)
    yield "passive", -adapter.from_tau(q, passive)
    yield "q̈", _acceleration_or_reason(adapter, q, v, qdd)


def _acceleration_or_reason(
    adapter: engines.Adapter, q: np.ndarray, v: np.ndarray, qdd: np.ndarray
) -> Any:
    """q̈ in our coordinates, where the engine has no freedoms of its own."""
    if adapter.layout.nv != adapter.robot.nv:
        return f"{adapter.engine} moves joints that are locked or coupled here"
    return adapter.from_a(q, v, qdd)


def _open_pinocchio(source: ComparisonSource, base: Base, free: bool) -> EngineModel:
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
        raise CannotOpen(_error_reason(error)) from error
    return EngineModel(model, describe_pinocchio(model))


def _values_pinocchio(
    m: Any, adapter: engines.Adapter, q: np.ndarray, v: np.ndarray, tau: np.ndarray
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
        yield "q̈", _error_reason(error)
    else:
        yield "q̈", _acceleration_or_reason(adapter, q, v, qdd)


def _open_drake(source: ComparisonSource, base: Base, free: bool) -> EngineModel:
    from qddot.loaders.drake import describe_drake, drake_messages

    if base is not None and source.format == "mjcf":
        raise CannotOpen(f"the root of an MJCF file is what the file says; base={base!r} is not")
    notes = []
    with drake_messages() as heard:
        try:
            plant = _build_plant(source, lambda p: p.AddModels(str(source.path)), free)
        except (RuntimeError, ValueError) as error:
            if source.format != "urdf":
                raise CannotOpen(_error_reason(error)) from error
            heard.clear()
            text = without_shapes(source.path)
            try:
                plant = _build_plant(source, lambda p: p.AddModelsFromString(text, "urdf"), free)
            except (RuntimeError, ValueError) as second:
                raise CannotOpen(_error_reason(second)) from second
            notes.append(f"opened without its shapes: {_error_reason(error)}")
    notes += [text for text in map(format_message, heard) if "inertia" in text or "mimic" in text]
    return EngineModel(plant, describe_drake(plant), tuple(dict.fromkeys(notes)))


def _build_plant(source: ComparisonSource, add: Callable[[Any], Any], free: bool) -> Any:
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
    plant: Any, adapter: engines.Adapter, q: np.ndarray, v: np.ndarray, tau: np.ndarray
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
            refused = _error_reason(error)
        h = plant.CalcBiasTerm(context) + g
        rows.append((M, g, h, forces.generalized_forces().copy(), qdd))
        poses.append([plant.EvalBodyPoseInWorld(context, b).GetAsMatrix4() for b in bodies])
    yield "poses", {b.name(): np.array([p[i] for p in poses]) for i, b in enumerate(bodies)}
    for name, value in _to_our_coordinates(adapter, q, v, rows):
        yield name, refused if refused and name == "q̈" else value


def _values_mjx(
    m: Any, adapter: engines.Adapter, q: np.ndarray, v: np.ndarray, tau: np.ndarray
) -> Values:
    import jax
    from mujoco import mjx

    jax.config.update("jax_enable_x64", True)
    _disable_constraints(m)
    # MJX refuses pairs of shapes that it cannot collide, whether or not they may
    m.geom_contype[:], m.geom_conaffinity[:] = 0, 0
    there = mjx.put_model(m)
    start = mjx.make_data(there)

    def terms_at(qpos: Any, qvel: Any, force: Any) -> Any:
        d = mjx.forward(there, start.replace(qpos=qpos, qvel=qvel, qfrc_applied=force))
        terms = mjx.full_m(there, d), d.qfrc_bias, d.qfrc_passive, d.qacc_smooth
        return (*terms, d.xpos, d.xmat)

    run, rows, poses = jax.jit(terms_at), [], []
    for qpos, qvel, force in zip(
        adapter.to_q(q), adapter.to_v(q, v), adapter.to_tau(q, tau), strict=True
    ):
        g = np.asarray(run(qpos, 0.0 * qvel, force)[1])
        M, h, passive, qdd, xpos, xmat = (np.asarray(x) for x in run(qpos, qvel, force))
        rows.append((M, g, h, passive, qdd))
        poses.append(
            [_homogeneous_matrix(p, R.reshape(3, 3)) for p, R in zip(xpos, xmat, strict=True)]
        )
    yield "poses", {m.body(i).name: np.array([p[i] for p in poses]) for i in range(1, m.nbody)}
    yield from _to_our_coordinates(adapter, q, v, rows)


_CONSTRAINED, _FRICTIONLESS = "it is a constraint", "there is none"

ENGINES: dict[str, ComparisonEngine] = {
    "pinocchio": ComparisonEngine(
        title="Pinocchio",
        module="pinocchio",
        package="pin",
        open=_open_pinocchio,
        adapter=engines.pinocchio,
        values=_values_pinocchio,
    ),
    "mujoco": ComparisonEngine(
        title="MuJoCo",
        module="mujoco",
        package="mujoco",
        open=_open_mujoco,
        adapter=engines.mujoco,
        values=_values_mujoco,
        no_friction=_CONSTRAINED,
    ),
    "drake": ComparisonEngine(
        title="Drake",
        module="pydrake",
        package="drake",
        open=_open_drake,
        adapter=engines.drake,
        values=_values_drake,
        no_friction=_FRICTIONLESS,
        unread={"spring": "springs are force elements, which are not read,"},
    ),
    "mjx": ComparisonEngine(
        title="MJX",
        module="mujoco.mjx",
        package="mujoco-mjx",
        open=_open_mujoco,
        adapter=engines.mujoco,
        values=_values_mjx,
        no_friction=_CONSTRAINED,
    ),
}
"""The engines by the name that the command line takes."""
