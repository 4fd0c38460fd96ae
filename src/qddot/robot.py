"""Robot: a model and its catalogue functions, the public face."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.catalogue import CATALOGUE, Function, function
from qddot.algorithms.kinematics import Reference
from qddot.errors import NotUnderstood, SingularInertia
from qddot.evaluate import interpret, symbolic
from qddot.health import dynamic_findings, random_configurations, singular_joints
from qddot.loaders import load_model
from qddot.loaders.description import Base, Couplings
from qddot.model import Finding, Model
from qddot.spatial import Transform

if TYPE_CHECKING:
    import casadi

__all__ = ["Robot", "Terms", "Wrench", "load"]


@dataclass(frozen=True)
class Wrench:
    """An external wrench on the robot: [force; moment] at a frame, with the axes it is given in."""

    frame: str
    reference: Reference
    value: ArrayLike


@dataclass(frozen=True)
class Terms:
    """The terms of M a + C v + g = τ at a state, with what must vanish if they are right.

    `symmetry` is max |M − Mᵀ|, `smallest_eigenvalue` that of M, `skewness` the largest entry of
    the symmetric part of Ṁ − 2C, `consistency` max |C v + g − h|.
    """

    M: np.ndarray
    C: np.ndarray
    g: np.ndarray
    h: np.ndarray
    symmetry: np.ndarray
    smallest_eigenvalue: np.ndarray
    skewness: np.ndarray
    consistency: np.ndarray


def load(
    source: Any, base: Base = None, couplings: Couplings = "exact", strict: bool = False
) -> Robot:
    """A robot from a URDF, xacro, MJCF or SDF file, a name, or a model of MuJoCo or Pinocchio.

    `base` "fixed" or "free" overrules the file; `couplings` "free" leaves mimic joints independent;
    `strict` refuses an inertia that no body can have.
    """
    return Robot(load_model(source, base, couplings, strict))


class Robot:
    """A robot: a frozen model with every catalogue function as a method.

    Arrays have the coordinates on their last axes; all leading axes are batch and broadcast.
    """

    def __init__(self, model: Model) -> None:
        self.model = model

    def __repr__(self) -> str:
        m = self.model
        return f"<Robot {m.name!r}: {m.nb} bodies, nq={m.nq}, nv={m.nv}, {float(m.mass):.4g} kg>"

    @property
    def name(self) -> str:
        """Name of the robot."""
        return self.model.name

    @property
    def nq(self) -> int:
        """Number of configuration coordinates."""
        return self.model.nq

    @property
    def nv(self) -> int:
        """Number of degrees of freedom."""
        return self.model.nv

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joints in the order of q and v."""
        return self.model.joint_names

    @property
    def frame_names(self) -> tuple[str, ...]:
        """All frames."""
        return tuple(f.name for f in self.model.frames)

    @property
    def inertial_parameters(self) -> np.ndarray:
        """The ten parameters (m, m c, I about the origin) of each body, shape (nb, 10)."""
        return np.array(self.model.parameters, dtype=float).reshape(-1, 10)

    @cached_property
    def health(self) -> tuple[Finding, ...]:
        """What is wrong or doubtful in the model, worst first."""
        order = {"error": 0, "warning": 1, "info": 2}
        found = (*self.model.health, *dynamic_findings(self.model))
        return tuple(sorted(found, key=lambda f: order[f.severity]))

    @cached_property
    def _singular(self) -> tuple[str, ...]:
        return singular_joints(self.model)

    def neutral(self) -> np.ndarray:
        """The configuration of zeros and identity rotations."""
        return np.array(self.model.neutral)

    def random(
        self, rng: np.random.Generator | int | None = None, size: int | Sequence[int] = ()
    ) -> np.ndarray:
        """Random configurations within the joint limits, shape size + (nq,)."""
        shape = (size,) if isinstance(size, int) else tuple(size)
        return random_configurations(self.model, np.random.default_rng(rng), shape)

    def terms(self, q: ArrayLike, v: ArrayLike) -> Terms:
        """M, C, g and h at a state, with the residuals of what they must satisfy."""
        M, g = (self.call(name, q) for name in ("mass_matrix", "gravity"))
        dM, C, h = (
            self.call(name, q, v) for name in ("mass_matrix_rate", "coriolis_matrix", "bias")
        )
        skew = dM - 2.0 * C
        Cv = np.einsum("...ij,...j->...i", C, np.asarray(v))
        return Terms(
            M,
            C,
            g,
            h,
            symmetry=_largest(M - M.swapaxes(-1, -2), 2),
            smallest_eigenvalue=np.linalg.eigvalsh(M).min(axis=-1, initial=np.inf),
            skewness=_largest(0.5 * (skew + skew.swapaxes(-1, -2)), 2),
            consistency=_largest(Cv + g - h, 1),
        )

    def call(self, name: str, *arrays: Any, **options: Any) -> np.ndarray:
        """A catalogue function by name."""
        row = function(name)
        if row.needs_inverse and self._singular:
            raise SingularInertia(self.name, self._singular)
        return interpret(row, self.model, arrays, options)

    def casadi(self, name: str, **options: Any) -> casadi.Function:
        """A catalogue function as a casadi.Function of the same text.

        Options are those of the method (frame, reference, friction); external wrenches are asked
        for by `forces=[(frame, reference), …]` and become an input of one row a wrench.
        """
        return symbolic(function(name), self.model, options)

    def with_payload(
        self,
        frame: str,
        mass: float,
        com: Sequence[float] = (0.0, 0.0, 0.0),
        tensor: Sequence[float] | None = None,
    ) -> Robot:
        """The same robot carrying a load; see `Model.with_payload`."""
        return Robot(self.model.with_payload(frame, mass, com, tensor))

    def with_parameters(self, parameters: ArrayLike) -> Robot:
        """The same robot with other inertial parameters, shape (nb, 10)."""
        return Robot(self.model.with_parameters(np.asarray(parameters, dtype=float).tolist()))

    def without_joint(self, name: str, value: float | Sequence[float] | None = None) -> Robot:
        """The same robot with a joint locked at a value; see `Model.without_joint`."""
        return Robot(self.model.without_joint(name, value))

    def attach(
        self, other: Robot, frame: str, placement: Transform | None = None, prefix: str = ""
    ) -> Robot:
        """This robot with another one mounted on a frame; see `Model.attach`."""
        return Robot(self.model.attach(other.model, frame, placement, prefix))


def _largest(x: np.ndarray, axes: int) -> np.ndarray:
    """Largest magnitude over the last axes, 0 where there is nothing."""
    return np.abs(x).max(axis=tuple(range(-axes, 0)), initial=0.0)


def _wrenches(f_ext: Wrench | Sequence[Wrench] | None) -> tuple[tuple[Any, ...], list[np.ndarray]]:
    """Where external wrenches act, and their values stacked."""
    given = [f_ext] if isinstance(f_ext, Wrench) else list(f_ext or ())
    for wrench in given:
        if not isinstance(wrench, Wrench):
            raise NotUnderstood(
                "f_ext", wrench, "needs Wrench(frame, reference, value), or a list of them"
            )
    if not given:
        return (), []
    values = np.broadcast_arrays(*(np.asarray(w.value) for w in given))
    return tuple((w.frame, w.reference) for w in given), [np.stack(values, axis=-2)]


def _method(row: Function) -> Callable[..., np.ndarray]:
    """The Robot method of a catalogue row."""
    P = inspect.Parameter
    forced = any(option.name == "forces" for option in row.options)
    parameters = [P("self", P.POSITIONAL_OR_KEYWORD)]
    parameters += [
        P(a.name, P.POSITIONAL_OR_KEYWORD, annotation=ArrayLike)
        for a in row.inputs
        if a.name != "f_ext"
    ]
    parameters += [
        o.replace(kind=P.POSITIONAL_OR_KEYWORD) for o in row.options if o.default is P.empty
    ]
    if forced:
        parameters.append(P("f_ext", P.POSITIONAL_OR_KEYWORD, default=None))
    parameters += [o for o in row.options if o.default is not P.empty and o.name != "forces"]
    signature = inspect.Signature(parameters, return_annotation=np.ndarray)
    arrays = [a.name for a in row.inputs if a.name != "f_ext"]

    def method(*args: Any, **kwargs: Any) -> np.ndarray:
        bound = signature.bind(*args, **kwargs).arguments
        robot = bound.pop("self")
        given = [bound.pop(name) for name in arrays]
        if forced:
            bound["forces"], wrenches = _wrenches(bound.pop("f_ext", None))
            given += wrenches
        return robot.call(row.name, *given, **bound)

    method.__name__ = method.__qualname__ = row.name
    method.__doc__ = f"{inspect.getdoc(row.algorithm)}\n\nShapes: {row.signature}"
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method


for _row in CATALOGUE.values():
    setattr(Robot, _row.name, _method(_row))
