# %% [markdown]
# # Batches, derivatives, symbols
# The same text of each algorithm runs on arrays, as derivatives, and as a CasADi function.

# %%
import casadi
import numpy as np

import qddot

robot = qddot.load("panda")
rng = np.random.default_rng(0)
q = robot.random(rng, 10_000)
v, a = rng.normal(size=(2, 10_000, 7))
tau = robot.inverse_dynamics(q, v, a)
tau.shape

# %% [markdown]
# Analytic derivatives, held against differences.

# %%
by_q, by_v, M = robot.inverse_dynamics_derivatives(q[:5], v[:5], a[:5])
h, e = 1e-6, np.eye(7)
central = [
    (
        robot.inverse_dynamics(q[0] + h * x, v[0], a[0])
        - robot.inverse_dynamics(q[0] - h * x, v[0], a[0])
    )
    / (2 * h)
    for x in e
]
print(np.abs(np.transpose(central) - by_q[0]).max())

# %% [markdown]
# A thousand robots whose inertias are uncertain by 10 %, in one call.

# %%
scale = 1.0 + 0.1 * rng.normal(size=(1000, robot.model.nb, 1))
g = robot.compile("gravity", parameters="inertia")(q[0], robot.inertial_parameters * scale)
print("mean", g.mean(axis=0).round(2), "deviation", g.std(axis=0).round(2))

# %% [markdown]
# CasADi: the gradient of the potential energy is gravity.

# %%
x = casadi.SX.sym("q", 7)
V = robot.casadi("potential_energy")(x)
gradient = casadi.Function("g", [x], [casadi.gradient(V, x)])
print(np.abs(np.array(gradient(q[0])).ravel() - robot.gravity(q[0])).max())
