"""Rollouts of bare rigid bodies by semi-implicit steps, unless a call asks for something else."""

from __future__ import annotations

from functools import partial

from qddot import simulate

__all__ = ["make_simulator", "rollout"]

_BARE = {"without": "passive", "integrator": "semi_implicit"}

rollout = partial(simulate.rollout, **_BARE)
make_simulator = partial(simulate.make_simulator, **_BARE)
