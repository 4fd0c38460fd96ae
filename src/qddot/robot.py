"""Robot: a model and its catalogue functions, the public face."""

from __future__ import annotations

import importlib
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from qddot import edit
from qddot.algorithms.catalogue import CATALOGUE, Function, function, sizes
from qddot.compile.gufunc import zeros as new_zeros
from qddot.compile.kernel import Kernel
from qddot.compile.threads import SETTING, run_split, run_whole
from qddot.errors import NotUnderstood
from qddot.evaluate import checked, interpret, settled, symbolic
from qddot.flexible import with_flexible_joints
from qddot.health import (
    dynamic_findings,
    random_configurations,
    refuse_redundant,
    refuse_singular,
    singular_joints,
)
from qddot.kernels import Refill, kernel_of, parameter_names, source_of
from qddot.lazy import apply_lazily, is_lazy
from qddot.loaders import load_model
from qddot.loaders.description import Base, Couplings
from qddot.methods import method, method_settings
from qddot.model import Model
from qddot.parts import Contact, Finding, Loop
from qddot.spatial import Transform
from qddot.wrenches import Wrench, stacked

if TYPE_CHECKING:
    import casadi

__all__ = ["Robot", "Terms", "Wrench", "load"]


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

    Arrays have the coordinates on their last axes; all leading axes are batch and broadcast. A
    function is compiled on first use; `native=False` (or QDDOT_NATIVE=0) interprets it instead.
    """

    def __init__(self, model: Model, native: bool | None = None) -> None:
        self.model = model
        self.native = os.environ.get("QDDOT_NATIVE") != "0" if native is None else native
        self._fast: dict[Any, Callable[..., Any]] = {}
        self._kernels: dict[tuple[Any, ...], Kernel] = {}
        self._independent: set[tuple[Loop | Contact, ...] | None] = set()

    def __reduce__(self) -> tuple[type[Robot], tuple[Model, bool]]:
        return Robot, (self.model, self.native)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]:
            """The methods of the catalogue are attached below."""

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
    def body_names(self) -> tuple[str, ...]:
        """Moving bodies in the order of the rows of `inertial_parameters` and `body_poses`."""
        return tuple(b.name for b in self.model.bodies)

    @property
    def configurations(self) -> dict[str, np.ndarray]:
        """Configurations that the description names: keyframes, and qpos0 of MJCF."""
        return {name: np.array(q) for name, q in self.model.configurations.items()}

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
        found = (*self.model.health, *dynamic_findings(self.model, self.singular_joints))
        return tuple(sorted(found, key=lambda f: order[f.severity]))

    @cached_property
    def singular_joints(self) -> tuple[str, ...]:
        """Joints along which nothing beyond them has inertia."""
        return singular_joints(self.model)

    def neutral(self) -> np.ndarray:
        """The configuration of zeros and identity rotations."""
        return np.array(self.model.neutral)

    def random(
        self, rng: np.random.Generator | int | None = None, size: int | Sequence[int] = ()
    ) -> np.ndarray:
        """Random configurations within the joint limits, shape size + (nq,)."""
        shape = (int(size),) if isinstance(size, int | np.integer) else tuple(size)
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

    def _check(
        self, row: Function, options: Mapping[str, Any], parameters: Sequence[str] = ()
    ) -> None:
        """Refuse what this robot does not have; inertias that are inputs may be regular."""
        open_inertia = {"inertia", "armature"} & set(parameters)
        if row.needs_inverse and not open_inertia:
            refuse_singular(self.name, self.singular_joints, options)
        constraints = options.get("constraints")
        if row.inverts_constraints and constraints not in self._independent:
            refuse_redundant(self.model, constraints)
            self._independent.add(constraints)

    def _check_later(
        self, row: Function, options: Mapping[str, Any], parameters: Sequence[str] = ()
    ) -> Callable[[], None]:
        """The check for when a function is recorded; compiled code keeps no robot alive."""
        robot = weakref.ref(self)

        def check() -> None:
            if (alive := robot()) is not None:
                alive._check(row, options, parameters)

        return check

    def call(self, name: str, *arrays: Any, out: Any = None, **options: Any) -> Any:
        """A catalogue function by name: compiled on real numbers, interpreted on all others."""
        row = function(name)
        options = settled(row, options)
        if any(is_lazy(x) for x in arrays):
            self._check(row, options)
            source = source_of(row, self.model, options)
            again = partial(self.call, name, **options)
            return apply_lazily(again, arrays, source.inputs, source.outputs)
        dims = sizes(self.model, options)
        checked_arrays, _ = checked(row, arrays, dims)
        real = all(x.dtype.kind == "f" and x.dtype.itemsize <= 8 for x in checked_arrays)
        sized = all(0 not in o.shape_in(dims) for o in row.outputs)
        if not (self.native and self.nv and real and sized):
            self._check(row, options)
            value = interpret(row, self.model, checked_arrays, options)
            return value if out is None else _copied(value, out)
        kernel = self._kernel(row, options)
        if SETTING.threads > 1:
            cores = [len(shape) for shape in kernel.source.inputs]
            outputs, cost = kernel.source.outputs, kernel.cost
            return run_split(kernel.gufunc, checked_arrays, cores, outputs, out, cost)
        return run_whole(kernel.gufunc, checked_arrays, out)

    def _general(
        self, name: str, arrays: tuple[Any, ...], options: dict[str, Any], out: Any
    ) -> Any:
        """The way of a method where the fast one does not apply."""
        if "f_ext" in options:
            options["forces"], wrenches = stacked(options.pop("f_ext"))
            arrays += tuple(wrenches)
        return self.call(name, *arrays, out=out, **options)

    def _kernel(self, row: Function, given: Mapping[str, Any]) -> Kernel:
        """The compiled form of a function with its options, made once."""
        key = (row.name, tuple(sorted(given.items())))
        kernel = self._kernels.get(key)
        if kernel is None:
            check = self._check_later(row, given)
            kernel = self._kernels[key] = kernel_of(row, self.model, given, check=check)
            if "forces" not in given and "friction" not in given:
                settings = [given.get(o.name, o.default) for o in method_settings(row)]
                place = (row.name, *settings) if settings else row.name
                self._fast[place] = kernel.call
        return kernel

    def empty(
        self, name: str, batch: int | Sequence[int] = (), dtype: Any = np.float64, **options: Any
    ) -> Any:
        """Arrays for `out=` of a function on a batch of this shape, where writing is fastest.

        They begin with a line of the cache, which arrays of NumPy's own do not, and have zeros in
        them; one array, or a tuple where the function has several outputs.
        """
        row = function(name)
        dims = sizes(self.model, settled(row, options))
        axes = (batch,) if isinstance(batch, int | np.integer) else batch
        if not (isinstance(axes, tuple | list) and all(_is_count(n) for n in axes)):
            raise NotUnderstood("batch", batch, "it is a whole number from 0, or some of them")
        if np.dtype(dtype) not in (np.float64, np.float32):
            raise NotUnderstood("dtype", dtype, "float64 and float32 are computed with")
        made = tuple(new_zeros((*axes, *o.shape_in(dims)), dtype) for o in row.outputs)
        return made if len(made) > 1 else made[0]

    def explain(self, name: str, **options: Any) -> Kernel:
        """The compiled form of a function: print it for operations, vector width, code, cache."""
        row = function(name)
        return self._kernel(row, settled(row, options))

    def compile(
        self,
        name: str,
        parameters: str | Sequence[str] = (),
        zeros: Literal["written", "kept"] = "written",
        **options: Any,
    ) -> np.ufunc | Refill:
        """A function as a gufunc, with constants of the robot as further inputs.

        `parameters` is any of "inertia" (nb, 10), "gravity" (3), "friction" (nb, 3) and
        "armature" (nb, 1), in the order in which they follow the inputs of the function. Armature
        stands for rotors too; friction needs `friction=True` where the function has that option.

        With zeros="kept" it is a `Refill` instead: arrays that are filled again keep what is zero
        at every state, most of a regressor or of a Jacobian of a tree, without its being written.
        """
        if not isinstance(zeros, str) or zeros not in ("written", "kept"):
            raise NotUnderstood("zeros", zeros, "they are 'written' or 'kept'")
        row = function(name)
        if not self.nv:
            raise NotUnderstood("compile", name, f"{self.name} has no joint that moves")
        given = settled(row, options)
        names = parameter_names(row, given, parameters)
        check = self._check_later(row, given, names)
        kernel = kernel_of(row, self.model, given, names, check, zeros == "written")
        return kernel.gufunc if zeros == "written" else Refill(kernel)

    def casadi(self, name: str, **options: Any) -> casadi.Function:
        """A catalogue function as a casadi.Function of the same text.

        Options are those of the method (frame, reference, friction); external wrenches are asked
        for by `forces=[(frame, reference), …]` and become an input of one row a wrench.
        """
        row = function(name)
        given = settled(row, options)
        self._check(row, given)
        return symbolic(row, self.model, given)

    def export_c(
        self, functions: Any, folder: str | os.PathLike[str], dtype: Any = "float64"
    ) -> Any:
        """Write functions as C99 with header, tests and accuracy report; see `qddot.export_c`."""
        # export knows robots, so a robot knows it by name only
        return importlib.import_module("qddot.export").export_c(self, functions, folder, dtype)

    def rollout(self, q0: ArrayLike, v0: ArrayLike, tau: Any = None, **choices: Any) -> Any:
        """The robot stepped in time; see `qddot.simulate.rollout`."""
        # simulation knows robots, so a robot knows it by name only
        simulate = importlib.import_module("qddot.simulate")
        return simulate.rollout(self, q0, v0, tau, **choices)

    def with_payload(
        self,
        frame: str,
        mass: float,
        com: Sequence[float] = (0.0, 0.0, 0.0),
        tensor: ArrayLike | None = None,
    ) -> Robot:
        """The same robot carrying a load at a frame.

        `com` is in coordinates of the frame; `tensor`, a symmetric 3×3 array or its six entries
        (xx, xy, yy, xz, yz, zz), is about the centre of mass, in the axes of the frame; without
        it the load is a point.
        """
        return self._edited(edit.with_payload(self.model, frame, mass, com, tensor))

    def with_gravity(self, gravity: Sequence[float]) -> Robot:
        """The same robot in other gravity, (gx, gy, gz) in world axes and m/s²."""
        return self._edited(edit.with_gravity(self.model, gravity))

    def with_parameters(self, parameters: ArrayLike) -> Robot:
        """The same robot with other inertial parameters, shape (nb, 10)."""
        return self._edited(edit.with_parameters(self.model, _rows(parameters)))

    def without_joint(self, name: str, value: float | Sequence[float] | None = None) -> Robot:
        """The same robot with a joint locked at a value (neutral by default), followers with it."""
        return self._edited(edit.without_joint(self.model, name, value))

    def with_flexible_joints(
        self,
        stiffness: float | Mapping[str, float],
        damping: float | Mapping[str, float] = 0.0,
        motor_inertia: float | Mapping[str, float] | None = None,
    ) -> Robot:
        """The same robot with springs between its motors and its links (Spong's model).

        `stiffness` is one for every joint of one freedom, or {joint: stiffness}. Joint `j` becomes
        `j.motor`, which carries the rotor (`motor_inertia`, reflected to the joint, or what the
        model has), and `j.spring`, which has the stiffness and `damping`: the link turns by the
        sum of both. Springs are losses: dynamics have them with `friction=True`.
        """
        made = with_flexible_joints(self.model, stiffness, damping, motor_inertia)
        return self._edited(made)

    def attach(
        self,
        other: Robot,
        frame: str,
        placement: Transform | ArrayLike | None = None,
        prefix: str = "",
    ) -> Robot:
        """This robot with another one mounted on a frame.

        `placement` is the pose of the other's base in the frame, a Transform or a 4×4 array;
        `prefix` goes before the other's names.
        """
        if not isinstance(other, Robot):
            raise NotUnderstood("attach: other", other, "needs a Robot")
        return self._edited(edit.attach(self.model, other.model, frame, placement, prefix))

    def _edited(self, model: Model) -> Robot:
        """A robot of another model that computes in the same way."""
        return Robot(model, self.native)


def _rows(parameters: ArrayLike) -> list[list[float]]:
    """Rows of numbers from an array."""
    try:
        rows = np.asarray(parameters, dtype=float)
        return (rows if rows.ndim == 2 else rows.reshape(-1, 10)).tolist()
    except (TypeError, ValueError) as error:
        accepted = "needs an array of numbers, ten a body"
        raise NotUnderstood("with_parameters", parameters, accepted) from error


def _largest(x: np.ndarray, axes: int) -> np.ndarray:
    """Largest magnitude over the last axes, 0 where there is nothing."""
    return np.abs(x).max(axis=tuple(range(-axes, 0)), initial=0.0)


def _copied(value: Any, out: Any) -> Any:
    """Interpreted results written where the caller wants them."""
    targets, values = ((x if isinstance(x, tuple) else (x,)) for x in (out, value))
    for target, x in zip(targets, values, strict=True):
        target[...] = x
    return out


for _row in CATALOGUE.values():
    setattr(Robot, _row.name, method(_row))


def _is_count(n: object) -> bool:
    return isinstance(n, int | np.integer) and not isinstance(n, bool) and bool(n >= 0)
