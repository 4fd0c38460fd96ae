"""Other engines, one small adapter each: which functions they have, and how they are called."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

from qddot.bench.contender import Contender, Job
from qddot.bench.peers import adam, casadi, drake, mujoco, pinocchio

__all__ = ["ENGINES", "Engine"]


@dataclass(frozen=True)
class Engine:
    """An engine: its name, the modules it needs, its functions (None is all), its contenders."""

    name: str
    modules: tuple[str, ...]
    functions: frozenset[str] | None
    contenders: Callable[[Job], list[Contender]]

    @property
    def missing(self) -> list[str]:
        """Modules that are not installed, found without importing them."""
        return [m for m in self.modules if importlib.util.find_spec(m) is None]

    def has(self, function: str) -> bool:
        """Whether it has an equal of a catalogue function."""
        return self.functions is None or function in self.functions


ENGINES = (
    Engine("Pinocchio", ("pinocchio",), pinocchio.FUNCTIONS, pinocchio.contenders),
    Engine("MuJoCo", ("mujoco",), mujoco.FUNCTIONS, mujoco.contenders),
    Engine("Drake", ("pydrake",), drake.FUNCTIONS, drake.contenders),
    Engine("CasADi", ("casadi",), None, casadi.contenders),
    Engine("adam (JAX)", ("adam", "jax"), adam.FUNCTIONS, adam.contenders),
)
