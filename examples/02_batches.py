"""A hundred thousand states in one call, and derivatives checked by the complex step."""

import numpy as np

import qddot

robot = qddot.load("panda")
rng = np.random.default_rng(0)
q = robot.random(rng, 100_000)
v, a = rng.normal(size=(2, 100_000, robot.nv))

# all leading axes are batch; the function is compiled at the first call
tau = robot.inverse_dynamics(q, v, a)
print("largest torque of each joint (N m):", np.abs(tau).max(axis=0).round(1))

# derivatives on the tangent space: ∂τ/∂q, ∂τ/∂v, and ∂τ/∂a = M
dtau_dq, dtau_dv, M = robot.inverse_dynamics_derivatives(q[:100], v[:100], a[:100])
assert np.allclose(M, robot.mass_matrix(q[:100]))

# complex numbers run the same text: the step is exact to rounding
step = 1e-30
column = robot.inverse_dynamics(q[:100] + 1j * step * np.eye(robot.nv)[2], v[:100], a[:100])
assert np.allclose(dtau_dq[..., 2], column.imag / step)
print("∂τ/∂q agrees with the complex step")
