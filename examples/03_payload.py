"""Does a payload fit? Gravity torques over the workspace against the effort limits."""

import numpy as np

import qddot

robot = qddot.load("ur5e")
limits = robot.limits
states = robot.random(0, 50_000)

for mass in (0.0, 2.0, 5.0, 10.0):
    loaded = robot.with_payload("tool0", mass, com=(0.0, 0.0, 0.1)) if mass else robot
    share = np.abs(loaded.gravity(states)).max(axis=0) / limits.effort
    worst = int(share.argmax())
    name = robot.joint_names[worst]
    print(f"{mass:4.1f} kg: holding takes up to {100 * share[worst]:.0f} % of {name}")
