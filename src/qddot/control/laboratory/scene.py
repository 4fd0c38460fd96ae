"""The laboratory: an arm with a gripper as its load over a table, on either plant.

The table is a plate on a spring, so that its stiffness is a number and the friction cone of the
contact stays exact. The tool is a ball at the fingertips. Everything is the same for both plants.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qddot.control.plants import MujocoControlPlant, RolloutPlant
from qddot.control.task_space import pose_error
from qddot.errors import InvalidArgument
from qddot.robot.robot import Robot, load
from qddot.simulate.contact.complementarity import ComplementarityContact
from qddot.simulate.contact.scene import Box, Pair, Scene, Sphere
from qddot.simulate.drivetrain.friction import ModelLosses
from qddot.spatial.algebra import Mat3, Transform, Vec3
from qddot.writers import convert

__all__ = [
    "FRAME",
    "TIP",
    "Surroundings",
    "find_configuration",
    "jamming_friction",
    "laboratory_robot",
    "make_plant",
    "start_configuration",
    "start_pose",
    "with_table",
    "write_mjcf",
]

FRAME = "grasp"
TIP = Sphere(FRAME, 0.01, (0.0, 0.0, -0.01), "tip")
"""The tool: a ball of 10 mm that ends at the frame between the fingertips."""
PLATE = "table_plate"
PLATE_MASS = 5.0
PLATE_SIZE = (1.2, 0.9, 0.04)
_ABOVE = 0.03
_OVER = (0.45, 0.13)
_LEAN = -0.3


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Unknowns of a law: the table, the contact, and the error of the model of the arm.

    `stiffness` (N/m), `damping` ratio, `height` (m) and `friction` are of the table, and
    `joint_friction` (N m) is Coulomb's level at each joint. `inertia` (nb, 10) are the inertial
    parameters of the arm in truth. Arrays carry batch axes, on the plant of our own.
    `tuned_contact` chooses the contact and the dry friction of MuJoCo: with it, sliding does not
    change the normal force, and friction does not creep. Without `table` there is none.
    """

    stiffness: ArrayLike = 5e4
    damping: float = 0.2
    height: ArrayLike = 0.0
    friction: ArrayLike = 0.3
    joint_friction: ArrayLike = 0.0
    inertia: ArrayLike | None = None
    dt: float = 1e-3
    tuned_contact: bool = True
    table: bool = True


@lru_cache(maxsize=4)
def laboratory_robot(source: str = "ur5e") -> Robot:
    """The arm, with its gripper as a load."""
    return load(source)


def find_configuration(
    robot: Robot, frame: str, X: ArrayLike, guess: ArrayLike, tolerance: float = 1e-12
) -> np.ndarray:
    """Configuration near a guess at which a frame has a pose (Newton's method, damped)."""
    q, target = np.asarray(guess, float), np.asarray(X, float)
    for _ in range(100):
        e = pose_error(target, robot.frame_pose(q, frame))
        if np.abs(e).max() < tolerance:
            return q
        J = robot.frame_jacobian(q, frame, "local_world_aligned")
        step = J.T @ np.linalg.solve(J @ J.T + 1e-9 * np.eye(6), e)
        q = robot.integrate(q, step * min(1.0, 0.5 / max(np.abs(step).max(), 1e-300)))
    raise InvalidArgument("pose", target.tolist(), f"{frame!r} does not reach it from {guess!r}")


def start_pose(above: float = _ABOVE) -> np.ndarray:
    """Pose of the tool over the table, pointing down and leant as a pen is.

    Upright, a push of the tool along the table lifts or presses it: friction above
    `jamming_friction` (0.5 there) makes it dig in, which no law can mend.
    """
    c, s = np.cos(_LEAN), np.sin(_LEAN)
    X = np.eye(4)
    X[:3, :3] = np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]]) @ np.diag([1.0, -1.0, -1.0])
    X[:3, 3] = (*_OVER, above)
    return X


def jamming_friction(robot: Robot, q: ArrayLike, frame: str) -> float:
    """Friction coefficient from which a tool that slides on level ground can dig in (Painlevé).

    With the mobility A = J M⁻¹ Jᵀ of the frame, friction μ f along the ground accelerates the tool
    by A_tn μ f along the normal, which the normal force undoes by A_nn f: A_nn / ‖A_tn‖.
    """
    J = robot.frame_jacobian(q, frame, "local_world_aligned")[:3]
    A = J @ np.linalg.solve(robot.mass_matrix(q), J.T)
    across = float(np.hypot(A[0, 2], A[1, 2]))
    return float(A[2, 2]) / across if across > 0.0 else np.inf


@lru_cache(maxsize=8)
def _start(robot: Robot, above: float) -> tuple[float, ...]:
    guess = np.array([0.0, -1.6, 2.0, -2.0, np.pi / 2, 0.0])
    return tuple(find_configuration(robot, FRAME, start_pose(above), guess))


def start_configuration(robot: Robot, above: float = _ABOVE) -> np.ndarray:
    """Configuration of the arm with the tool over the table."""
    return np.array(_start(robot, above))


@lru_cache(maxsize=8)
def with_table(robot: Robot) -> Robot:
    """The robot and a plate that moves up and down beside it."""
    plate = Robot.from_links(
        "table",
        [
            {"name": "table_foot", "parent": None, "joint": "fixed"},
            {
                "name": PLATE,
                "parent": "table_foot",
                "joint": "prismatic",
                "axis": (0.0, 0.0, 1.0),
                "joint_name": PLATE,
                "mass": PLATE_MASS,
                "inertia": PLATE_MASS / 12.0 * np.array([0.9**2, 1.2**2, 0.9**2 + 1.2**2]),
                "stiffness": 1.0,
            },
        ],
    )
    return robot.attach(plate, robot.frame_names[0])


def make_plant(
    kind: str, robot: Robot, around: Surroundings | None = None, **choices: Any
) -> RolloutPlant | MujocoControlPlant:
    """The laboratory as a plant, "own" or "mujoco"."""
    around = around or Surroundings()
    if kind == "own":
        return _own_plant(robot, around, **choices)
    if kind == "mujoco":
        return _mujoco_plant(robot, around, **choices)
    raise InvalidArgument("plant", kind, "it is 'own' or 'mujoco'")


def _table_damping(around: Surroundings) -> np.ndarray:
    """Damping (N s/m) of the table from its ratio."""
    return 2.0 * around.damping * np.sqrt(np.asarray(around.stiffness, float) * PLATE_MASS)


def _own_plant(robot: Robot, around: Surroundings, **choices: Any) -> RolloutPlant:
    """The laboratory in the simulation of our own."""
    if not around.table:
        world, scene, passive = robot, None, {}
    else:
        world = with_table(robot)
        x, y, z = PLATE_SIZE
        placed = Box(
            PLATE, (x, y, z), Transform(Mat3.identity(), Vec3(0.0, 0.0, -0.5 * z)), "table"
        )
        mu = around.friction
        pair = Pair("tip", "table", mu if isinstance(mu, float | int) else np.asarray(mu, float))
        scene = Scene(spheres=[TIP], boxes=[placed], pairs=[pair])
        lift = np.asarray(around.stiffness, float) * np.asarray(around.height, float)
        passive = {PLATE: lift + PLATE_MASS * 9.81}
    parameters: dict[str, Any] = {}
    bodies = [b.joint.name for b in world.model.bodies]
    levels = np.asarray(around.joint_friction, float)
    batch = np.broadcast_shapes(levels.shape, np.shape(around.stiffness))
    losses = np.zeros((*batch, len(bodies), 4))
    losses[..., :, 1] = losses[..., :, 2] = levels[..., None]
    if around.table:
        k = bodies.index(PLATE)
        losses[..., k, 1:3] = 0.0
        losses[..., k, 0], losses[..., k, 3] = _table_damping(around), around.stiffness
    losses_given = around.table or bool(levels.any())
    if losses_given:
        parameters["directional_friction"] = losses
    if around.inertia is not None:
        given = np.asarray(around.inertia, float)
        own = np.broadcast_to(
            world.inertial_parameters, (*given.shape[:-2], len(bodies), 10)
        ).copy()
        own[..., [bodies.index(n) for n in robot.joint_names], :] = given
        parameters["inertia"] = own
    contact = ComplementarityContact(scene, limits=False) if scene else None
    return RolloutPlant(
        robot,
        world=world,
        dt=around.dt,
        contact=contact,
        effects=[ModelLosses()] if losses_given else [],
        parameters=parameters,
        passive=passive,
        rest={PLATE: around.height} if scene else {},
        tip=TIP if scene else None,
        # friction of the joints is that of the surroundings, whatever the file has
        without="limits" if losses_given else "passive",
        **{"integrator": "semi_implicit", **choices},
    )


def write_mjcf(robot: Robot) -> str:
    """The robot as MJCF, without shapes."""
    with tempfile.TemporaryDirectory(prefix="qddot-") as folder:
        return convert(robot, Path(folder) / "robot.xml", shapes="none", states=1).text


def _mujoco_plant(robot: Robot, around: Surroundings, **choices: Any) -> MujocoControlPlant:
    """The laboratory in MuJoCo."""
    import mujoco

    arm = robot
    if around.inertia is not None:
        arm = robot.with_parameters(around.inertia)
    world = with_table(arm) if around.table else arm
    spec = mujoco.MjSpec.from_string(write_mjcf(world))
    spec.option.timestep = around.dt
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    for name in robot.joint_names:
        joint = spec.joint(name)
        joint.frictionloss = float(np.max(around.joint_friction))
        if around.tuned_contact:
            # by default dry friction creeps: light joints feel a damper up to 1 rad/s
            joint.solref_friction = [2.0 * around.dt, 1.0]
            joint.solimp_friction = [0.9999, 0.9999, 1e-3, 0.5, 2.0]
    if around.table:
        # the ball of the tool and the plate, which touch by their pair alone
        kinds, frame = mujoco.mjtGeom, world.model.frame(FRAME)
        carrier = spec.body(world.model.bodies[frame.body].name)
        ball = carrier.add_geom(name="tip", type=kinds.mjGEOM_SPHERE, size=[TIP.radius, 0, 0])
        ball.pos = [*frame.placement.point(Vec3(*TIP.offset))]
        x, y, z = PLATE_SIZE
        top = spec.body(PLATE).add_geom(
            name="table", type=kinds.mjGEOM_BOX, size=[0.5 * x, 0.5 * y, 0.5 * z]
        )
        top.pos = [0.0, 0.0, -0.5 * z]
        for geom in (ball, top):
            geom.contype = geom.conaffinity = 0
            geom.mass = 0.0
        # the spring carries the plate, which is as high as it is asked for
        joint, stiffness = spec.joint(PLATE), float(np.max(around.stiffness))
        joint.stiffness = np.resize(stiffness, np.shape(joint.stiffness))
        joint.damping = np.resize(float(np.max(_table_damping(around))), np.shape(joint.damping))
        joint.springref = PLATE_MASS * 9.81 / stiffness
        spec.body(PLATE).pos = [0.0, 0.0, float(np.max(around.height))]
        mu = float(np.max(around.friction))
        pair = spec.add_pair(name="touch", geomname1="tip", geomname2="table")
        pair.friction = [mu, mu, 0.0, 0.0, 0.0]
        pair.condim = 3 if mu else 1
        if around.tuned_contact:
            # a shorter one loses touch for some milliseconds where stuck joints let go
            pair.solreffriction = [0.5, 1.0]
            spec.option.impratio = 1000.0
            spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
            spec.option.tolerance, spec.option.iterations = 1e-14, 200
    model = spec.compile()
    return MujocoControlPlant(robot, model, tip=TIP if around.table else None, **choices)
