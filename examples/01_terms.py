"""Load a robot and compute every term of M a + C v + g = τ at one state."""

import numpy as np

import qddot

np.set_printoptions(precision=3, suppress=True)
robot = qddot.load("ur5e")
print(robot)

q = np.array([0.0, -1.2, 1.5, -0.3, 1.0, 0.0])
v = np.full(robot.nv, 0.5)
a = np.full(robot.nv, 1.0)

terms = robot.terms(q, v)
print("M (kg m²):", terms.M, sep="\n")
print("g (N m):", terms.g)

# the recursive algorithm and the separate terms agree
tau = robot.inverse_dynamics(q, v, a)
assert np.allclose(tau, terms.M @ a + terms.C @ v + terms.g)
print("torque of this motion (N m):", tau)

# the residuals of what must hold: symmetry, skew symmetry of Ṁ − 2C, C v + g = h
print(f"residuals: {terms.symmetry:.1e}, {terms.skewness:.1e}, {terms.consistency:.1e}")
