"""A control law in ten lines of NumPy: on floats, compiled, in a batch of rollouts, and as C."""

import tempfile
from pathlib import Path

import numpy as np

import qddot
from qddot import so3

Array = np.ndarray


def impedance(
    robot: qddot.Robot, q: Array, v: Array, x_ref: Array, R_ref: Array, K: Array, D: Array
) -> Array:
    """Spring and damper between the tool and a pose, gravity and Coriolis torques compensated."""
    X = robot.frame_pose(q, "tool0")
    J = robot.frame_jacobian(q, "tool0", "local_world_aligned")
    e = np.concatenate([x_ref - X[:3, 3], so3.log(R_ref @ X[:3, :3].T)])
    return J.T @ np.clip(K * e - D * (J @ v), -80.0, 80.0) + robot.bias(q, v)


robot = qddot.load("ur5e")
law = robot.compile(impedance, x_ref=3, R_ref=(3, 3), K=6, D=6)
q, v = robot.random(0), np.zeros(6)
rest = (np.array([0.4, 0.1, 0.5]), so3.from_rpy([0, np.pi, 0]), np.full(6, 500.0), np.full(6, 40.0))

print("compiled less text:", np.abs(law(q, v, *rest) - impedance(robot, q, v, *rest)).max())
print("a batch:", law(robot.random(0, 1000), v, *rest).shape)
print(law.explain())

with tempfile.TemporaryDirectory() as folder:
    law.export_c(folder)
    print("C99:", ", ".join(sorted(file.name for file in Path(folder).iterdir())))

inertia = np.diag(robot.mass_matrix(q))
pd = qddot.control.PD(kp=100.0 * inertia, kd=20.0 * inertia, gravity=True)
start = q + 0.1 * np.random.default_rng(0).normal(size=(100, 6))
motion = robot.rollout(
    start, np.zeros((100, 6)), dt=1e-3, steps=1000, every=200, feedback=pd, q_ref=q, v_ref=v
)
print("largest error of 100 arms under a PD law:", np.abs(motion.q - q).max(axis=(0, 2)).round(5))
