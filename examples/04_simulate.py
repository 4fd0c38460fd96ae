"""A double pendulum swings, with the damping of its file and without it, and its energy ledger."""

import qddot
from qddot.simulate import energy_ledger

robot = qddot.load("double_pendulum")
motion = robot.rollout([1.0, 0.5], [0.0, 0.0], dt=1e-3, steps=5000)
print("status:", motion.status)
print("energy:", energy_ledger(motion).drift())
print("angles after 5 s (rad):", motion.q[-1].round(4))
free = robot.rollout([1.0, 0.5], [0.0, 0.0], dt=1e-3, steps=5000, without="damping")
print("taken by damping (J):", energy_ledger(motion).friction[-1].round(4))
print("without it:", free.status, free.q[-1].round(4))

# a thousand starts at once
starts = robot.random(0, 1000)
fan = robot.rollout(starts, 0 * starts, dt=1e-3, steps=1000, every=100)
print("samples (motions, times, joints):", fan.q.shape)
