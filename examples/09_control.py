"""A Cartesian spring at the tool of an arm: pushed, guarded, and watched by an observer."""

import numpy as np

import qddot
from qddot import control

robot = qddot.load("ur5e")
q0 = np.array([0.0, -1.2, 1.6, -2.0, -1.5, 0.0])
still = {"X_ref": robot.frame_pose(q0, "tool0"), "V_ref": np.zeros(6), "A_ref": np.zeros(6)}
push = qddot.Wrench("tool0", "local_world_aligned", [0, 0, 10, 0, 0, 0])
law = control.CartesianImpedance.preset(robot, "medium", "tool0", q0)

# 10 N on a spring of 500 N/m: the tool gives 20 mm
plant = control.RolloutPlant(robot)
plant.reset(q0)
control.run(plant, law, still, duration=3.0, pushes=[push], compiled=True)
moved = robot.frame_pose(plant.q, "tool0")[:3, 3] - still["X_ref"][:3, 3]
print("deflection under 10 N (mm):", (1e3 * moved).round(2))

# a momentum observer finds the push without a sensor
plant.reset(q0)
observer = control.MomentumObserver(law)
trace = control.run(plant, observer, still, duration=0.5, pushes=[push], compiled=True)
felt = control.wrench_at_frame(robot, trace.q[-1], trace.memory["residual"][-1], "tool0")
print("force that the observer finds (N):", felt[:3].round(2))

# the same law in a shell that trips on speed
plant.reset(q0)
shell = control.SafetyShell.from_limits(robot, law, q0, velocity=0.05)
trace = control.run(plant, shell, still, duration=0.2, pushes=[push], compiled=True)
for event in trace.events:
    print(f"{event.time:.3f} s: {event.label}")
