# %% [markdown]
# # A planar arm, from the blackboard to code
# Two links of lengths l₁ and l₂ with their masses at the ends. Euler–Lagrange gives the equations; the recursive algorithm, which never
# forms them, gives the same numbers.

# %%
import numpy as np

import qddot

arm = qddot.load("planar_2r")
form = qddot.lagrange.derive(arm)
form

# %% [markdown]
# The same at a state, from the compiled algorithms. The residuals below vanish if the terms are right.

# %%
q, v, a = np.array([0.3, -0.5]), np.array([1.0, 0.5]), np.array([0.2, 0.1])
terms = arm.terms(q, v)
terms

# %%
tau = arm.inverse_dynamics(q, v, a)
print(tau, terms.M @ a + terms.C @ v + terms.g)

# %% [markdown]
# The proof that `qddot derive` prints: every symbolic term against the recursive algorithms at random states.

# %%
proof = qddot.lagrange.prove(form, 20, 0)
print("holds" if proof.holds else "FAILS", f"largest difference {proof.largest:.1e}")

# %%
arm.plot([[0.3, -0.5], [1.2, 0.4]])
