# %% [markdown]
# # A UR5e, from its file to torques
# A description in; what each joint must do along a motion out.

# %%
import numpy as np

import qddot
from qddot.analysis.trajectory import quintic

robot = qddot.load("ur5e")
robot

# %%
robot.plot([0.0, -1.2, 1.4, -0.5, 0.3, 0.0])

# %% [markdown]
# A quintic from rest to rest in half a second, and the torques that it needs, with 2 kg in the gripper.

# %%
time = np.linspace(0.0, 0.5, 251)
q, v, a = quintic(np.zeros(6), [0.0, -1.0, 1.0, 0.0, 0.0, 0.5], 0.5, time)
loaded = robot.with_payload("grasp", 2.0)
tau = loaded.inverse_dynamics(q, v, a)
share = np.abs(tau).max(axis=0) / robot.limits.effort
for name, x in zip(robot.joint_names, share, strict=True):
    print(f"{name:<22} {100 * x:4.0f} % of its limit")

# %%
qddot.view.plot_motion({"time": time, "q": q, "v": v, "tau": tau}, robot)
