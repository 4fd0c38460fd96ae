# %% [markdown]
# # Does the payload fit?
# Over all poses and motions within limits: random states find the worst ones, which are then refined.

# %%
import qddot

robot = qddot.load("ur5e")
answer = qddot.sizing.size(robot, payload=3.0, samples=20_000)
answer

# %%
print(
    f"{answer.largest_payload:.2f} kg at most, {answer.largest_payload_with_margin:.2f} kg with a margin of 1.3"
)
worst = answer.most_loaded
print(worst.name, "is loaded most, in the pose below")

# %%
robot.plot(worst.dynamic.q)
