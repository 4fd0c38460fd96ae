# %% [markdown]
# # A quadruped that stands, and is pushed
# Where is its weight, and how hard can it be pushed before it tips over an edge of its feet?

# %%
import numpy as np

import qddot
from qddot.analysis.balance import support_polygon

robot = qddot.load("quadruped")
q = robot.configurations.get("home", robot.neutral())
robot.plot(q)

# %%
feet = ["FL_foot", "FR_foot", "RR_foot", "RL_foot"]
points = np.array([robot.frame_pose(q, foot)[:3, 3] for foot in feet])
polygon = support_polygon(points, names=feet)
com = robot.center_of_mass(q)
margin = polygon.margin(com)
print(
    f"centre of mass {com.round(3)}, {1000 * float(margin.distance):.0f} mm inside {margin.nearest}"
)

# %% [markdown]
# A steady push F at the height h of the centre of mass moves the pressure point by F h / (m g). It tips where that leaves the polygon.

# %%
weight = float(robot.model.mass) * 9.81
height = com[2] - points[:, 2].min()
for degrees in range(0, 181, 45):
    along = np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees)), 0.0])
    shifts = np.linspace(0.0, 1.0, 2001)
    inside = polygon.margin(com + shifts[:, None] * along).inside
    most = shifts[inside].max() * weight / height
    print(f"pushed towards {degrees:3d}°: {most:5.1f} N")
