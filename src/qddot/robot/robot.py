"""Robot: a model and its catalogue functions, the public face."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.catalogue import OTHER_NAMES, Function, function, sizes
from qddot.compile.kernel import Kernel
from qddot.compile.runtime.chunks import run_batch
from qddot.compile.runtime.gufunc import aligned_zeros
from qddot.compile.runtime.memory import require_batch
from qddot.compile.runtime.results import validate_out
from qddot.compile.trace.functions import has_symbols
from qddot.display.text import html_table, text_table
from qddot.errors import InvalidArgument, TooLarge, Unsupported, WrongType, count_text
from qddot.loaders import load_model
from qddot.loaders.description import Base, Couplings
from qddot.model import edit
from qddot.model.dh import Convention, DHRow, LinkFrame, model_from_dh
from qddot.model.flexible import with_flexible_joints
from qddot.model.links import Contact, Coupling, Finding, Loop
from qddot.model.model import STANDARD_GRAVITY, Model
from qddot.model.specs import FrameSpec, LinkSpec, model_from_links
from qddot.robot.accumulate import accumulate
from qddot.robot.arrays import axis_lengths
from qddot.robot.catalogue_methods import CatalogueMethods
from qddot.robot.dask_arrays import apply_lazily, is_lazy
from qddot.robot.functions import CompiledFunction, compile_function, record_call
from qddot.robot.health import (
    MOST_EXAMINED,
    dynamic_findings,
    random_configurations,
    refuse_singular,
    singular_joints,
)
from qddot.robot.interpret import (
    InterpretedFunction,
    casadi_function,
    interpret,
    normalise_options,
    validate_arrays,
)
from qddot.robot.limits import RobotLimits, robot_limits
from qddot.robot.methods import method_settings
from qddot.robot.native import Refill, function_of, kernel_of, parameter_names, source_of
from qddot.robot.other_names import OtherNames
from qddot.robot.terms import Terms
from qddot.robot.wrenches import Wrench, stack_wrenches
from qddot.spatial.algebra import Transform

if TYPE_CHECKING:
    import casadi

    from qddot.analysis.inverse_kinematics import InverseKinematics
    from qddot.simulate.simulator import Simulator

__all__ = ["Robot", "RobotLimits", "Terms", "Wrench", "load", "with_marked_rows"]


def load(
    source: Any,
    base: Base = None,
    couplings: Couplings = "exact",
    strict: bool = False,
    *,
    trust: bool = False,
    isolate: bool = False,
) -> Robot:
    """A robot from a URDF, xacro, MJCF or SDF file, a name, or a model of another library.

    Models of other libraries are an MjModel or MjSpec, a pinocchio.Model and a Drake plant.

    `base` "fixed" or "free" overrules the file; `couplings` "free" leaves mimic joints independent;
    `strict` refuses an inertia that no body can have. `trust` lets a xacro file run its code. With
    `isolate` an MJCF file is read in a child process first, so that one that crashes MuJoCo, or
    takes too long, is an error.
    """
    return Robot(load_model(source, base, couplings, strict, trust=trust, isolate=isolate))


class Robot(CatalogueMethods, OtherNames):
    """A robot: a frozen model with every catalogue function as a method.

    Arrays have the coordinates on their last axes; all leading axes are batch and broadcast. A
    function is compiled on first use; `native=False` (or QDDOT_NATIVE=0) interprets it instead.
    """

    def __init__(self, model: Model, native: bool | None = None) -> None:
        self.model = model
        self.native = os.environ.get("QDDOT_NATIVE") != "0" if native is None else native
        self._fast: dict[Any, Callable[..., Any]] = {}
        self._kernels: dict[tuple[Any, ...], Kernel] = {}
        self._marked: dict[tuple[Loop | Contact, ...] | None, tuple[Loop | Contact, ...]] = {}

    def __reduce__(self) -> tuple[type[Robot], tuple[Model, bool]]:
        return Robot, (self.model, self.native)

    @classmethod
    def from_links(
        cls,
        name: str,
        links: Sequence[LinkSpec | Mapping[str, Any]],
        *,
        frames: Sequence[FrameSpec | Mapping[str, Any]] = (),
        couplings: Sequence[Coupling | Mapping[str, Any]] = (),
        loops: Sequence[Loop | Mapping[str, Any]] = (),
        gravity: ArrayLike = tuple(STANDARD_GRAVITY),
        configurations: Mapping[str, ArrayLike] | None = None,
        strict: bool = False,
    ) -> Robot:
        """A robot built in code, from links in plain numbers and arrays.

        Each link is a `LinkSpec` or a mapping of its fields: name, parent, joint, axis, placement,
        mass, com, inertia and so on; one of them, the root, has parent None. Frames are likewise
        `FrameSpec`, couplings {"follower", "leader", "ratio", "offset"} of joints, loops
        {"name", "kind", "frame1", "frame2", "axis", "rows"} (see `qddot.constraints`), and
        configurations {name: q}. `strict` refuses an inertia that no body can have.
        """
        return cls(
            model_from_links(name, links, frames, couplings, loops, gravity, configurations, strict)
        )

    @classmethod
    def from_dh(
        cls,
        name: str,
        rows: Sequence[DHRow | Mapping[str, Any]],
        *,
        convention: Convention = "standard",
        frame: LinkFrame | None = None,
        base: ArrayLike | None = None,
        tool: ArrayLike | None = None,
        gravity: ArrayLike = tuple(STANDARD_GRAVITY),
        strict: bool = False,
    ) -> Robot:
        """A serial arm from Denavit–Hartenberg parameters, a `DHRow` or a mapping for each joint.

        Rows of the "standard" convention are Rz(θ) Tz(d) Tx(a) Rx(α), of the "modified" one
        Rx(α) Tx(a) Rz(θ) Tz(d). `frame` says where `com` and `inertia` of all rows are given: in
        the "distal" frame of the link, on the axis of the next joint (frame i of standard
        parameters, their default), or in the "proximal" one, on the axis of its own joint (frame i
        of modified parameters, their default). `base` is the pose of frame 0 in the world, `tool`
        that of the tool in frame n, both 4×4. Links are link1 … on joints joint1 …; there are
        frames base, frame1 … and tool.
        """
        return cls(model_from_dh(name, rows, convention, frame, base, tool, gravity, strict))

    def __dir__(self) -> list[str]:
        return sorted(set(object.__dir__(self)) - set(OTHER_NAMES))

    def __repr__(self) -> str:
        m = self.model
        bodies = count_text(m.nb, "body", "bodies")
        return f"<Robot {m.name!r}: {bodies}, nq={m.nq}, nv={m.nv}, {float(m.mass):.4g} kg>"

    def __str__(self) -> str:
        return f"{self!r}\n{text_table(*self._joint_rows())}"

    def _repr_html_(self) -> str:
        return html_table(*self._joint_rows(), caption=repr(self).strip("<>"))

    def _joint_rows(self) -> tuple[list[str], list[list[str]]]:
        """Heads and rows of a table with a joint a line."""
        rows = []
        for body in self.model.bodies:
            joint, limits = body.joint, body.joint.limits
            bounds = [limits.lower, limits.upper, limits.velocity, limits.effort]
            shown = [f"{x:.4g}" if np.isfinite(x) else "" for x in bounds]
            rows.append(
                [joint.name, joint.kind.name, body.name, f"{body.inertia.mass:.4g}", *shown]
            )
        return ["joint", "kind", "body", "kg", "from", "to", "speed", "effort"], rows

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
        """Errors, warnings and remarks about the model, worst first."""
        order = {"error": 0, "warning": 1, "info": 2}
        if self.nv > MOST_EXAMINED:
            message = f"is not examined beyond {MOST_EXAMINED} degrees of freedom"
            dynamic = [Finding("info", "condition", "mass matrix", message)]
        else:
            dynamic = dynamic_findings(self.model, self.singular_joints)
        found = (*self.model.health, *dynamic)
        return tuple(sorted(found, key=lambda f: order[f.severity]))

    @cached_property
    def singular_joints(self) -> tuple[str, ...]:
        """Joints along which nothing beyond them has inertia."""
        return singular_joints(self.model)

    @cached_property
    def limits(self) -> RobotLimits:
        """Bounds of q (`lower`, `upper`, nq) and of v (`velocity`, `effort`, nv), else ±inf."""
        return robot_limits(self.model)

    def neutral(self) -> np.ndarray:
        """The configuration of zeros and identity rotations."""
        return np.array(self.model.neutral)

    def random(
        self, rng: np.random.Generator | int | None = None, size: int | Sequence[int] = ()
    ) -> np.ndarray:
        """Random configurations within the joint limits, shape size + (nq,)."""
        shape = axis_lengths("size", size)
        require_batch("random", shape, 8 * self.nq)
        try:
            generator = np.random.default_rng(rng)
        except (TypeError, ValueError) as error:
            raise InvalidArgument("rng", rng, "it is a seed or a np.random.Generator") from error
        return random_configurations(self.model, generator, shape)

    def terms(self, q: ArrayLike, v: ArrayLike) -> Terms:
        """M, C, g and h at a state, with the residuals of what they must satisfy."""
        M, g = (self.call(name, q) for name in ("mass_matrix", "gravity"))
        dM, C, h = (
            self.call(name, q, v) for name in ("mass_matrix_rate", "coriolis_matrix", "bias")
        )
        # the smallest eigenvalue, NaN where M is not finite: the solver may raise there
        plain = M.astype(complex if M.dtype.kind == "c" else float)
        finite = np.isfinite(plain).all(axis=(-2, -1))
        eigenvalues = np.linalg.eigvalsh(np.where(finite[..., None, None], plain, 0.0))
        smallest = np.where(finite, eigenvalues.min(axis=-1, initial=np.inf), np.nan)
        # residuals: Ṁ − 2C is skew-symmetric, C v + g is the bias
        skew = dM - 2.0 * C
        Cv = np.einsum("...ij,...j->...i", C, np.asarray(v))
        return Terms(
            M,
            C,
            g,
            h,
            symmetry=_max_magnitude(M - M.swapaxes(-1, -2), 2),
            smallest_eigenvalue=smallest,
            skewness=_max_magnitude(0.5 * (skew + skew.swapaxes(-1, -2)), 2),
            consistency=_max_magnitude(Cv + g - h, 1),
        )

    def _require_inertia(
        self, row: Function, options: Mapping[str, Any], parameters: Sequence[str] = ()
    ) -> None:
        """Refuse a function that this robot lacks the inertia for, unless inertia is an input."""
        open_inertia = {"inertia", "armature"} & set(parameters)
        if row.needs_inverse and not open_inertia:
            refuse_singular(self.name, self.singular_joints, options)

    def _deferred_check(
        self, row: Function, options: Mapping[str, Any], parameters: Sequence[str] = ()
    ) -> Callable[[], None]:
        """The check for when a function is recorded; compiled code keeps no robot alive."""
        robot = weakref.ref(self)

        def check() -> None:
            if (alive := robot()) is not None:
                alive._require_inertia(row, options, parameters)

        return check

    def call(self, name: str, *arrays: Any, out: Any = None, **options: Any) -> Any:
        """A catalogue function by name: compiled on real numbers, interpreted on all others."""
        row = function(name)
        options = normalise_options(row, options)
        # Dask arrays: the same call later, on chunks
        if any(is_lazy(x) for x in arrays):
            if out is not None:
                raise Unsupported(f"{name}: out", type(out).__name__, "Dask arrays take none")
            self._require_inertia(row, options)
            source = source_of(row, self.model, options)
            again = partial(self.call, name, **options)
            return apply_lazily(again, arrays, source.inputs, source.outputs)
        # shapes, memory and the arrays of `out` before any work
        dims = sizes(self.model, options)
        inputs, batch = validate_arrays(row, arrays, dims)
        dtype = np.result_type(np.float32, *inputs)
        if out is not None:
            out = validate_out(name, out, [o.shape_in(dims) for o in row.outputs], batch, dtype)
        elif batch:
            require_batch(name, batch, row.numbers(dims) * dtype.itemsize)
        # recorded: symbols of a function that is being compiled
        if any(map(has_symbols, inputs)):
            if out is not None:
                raise Unsupported(f"{name}: out", type(out).__name__, "symbols are not written")
            check = partial(self._require_inertia, row, options)
            return record_call(row, self.model, inputs, with_marked_rows(self, row, options), check)
        # interpreted: complex numbers, objects, robots or outputs without a number
        real = all(x.dtype.kind == "f" and x.dtype.itemsize <= 8 for x in inputs)
        sized = all(0 not in o.shape_in(dims) for o in row.outputs)
        kernel = None
        if self.native and self.nv and real and sized:
            with suppress(TooLarge):
                kernel = self._get_kernel(row, options)
        if kernel is None:
            self._require_inertia(row, options)
            options = dict(with_marked_rows(self, row, options))
            value = interpret(row, self.model, inputs, options)
            if out is None:
                return value
            for target, x in zip(out, value if len(out) > 1 else (value,), strict=True):
                target[...] = x
            return out if len(out) > 1 else out[0]
        # compiled, over the threads and in chunks where a batch is large
        cores = [len(shape) for shape in kernel.source.inputs]
        outputs = kernel.source.outputs
        return run_batch(kernel.gufunc, inputs, cores, outputs, out, kernel.cost)

    def _call_general(
        self, name: str, arrays: tuple[Any, ...], options: dict[str, Any], out: Any
    ) -> Any:
        """A call that the fast path of a method does not take: wrenches, other types, errors."""
        if "f_ext" in options:
            options["forces"], wrenches = stack_wrenches(options.pop("f_ext"))
            arrays += tuple(wrenches)
        return self.call(name, *arrays, out=out, **options)

    def _get_kernel(self, row: Function, given: Mapping[str, Any]) -> Kernel:
        """The compiled form of a function with its options, made once."""
        key = (row.name, tuple(sorted(given.items())))
        kernel = self._kernels.get(key)
        if kernel is None:
            check = self._deferred_check(row, given)
            kernel_options = with_marked_rows(self, row, given)
            kernel = self._kernels[key] = kernel_of(row, self.model, kernel_options, check=check)
            # methods find it by name and settings
            if "forces" not in given and "friction" not in given:
                settings = [given.get(o.name, o.default) for o in method_settings(row)]
                place = (row.name, *settings) if settings else row.name
                self._fast[place] = kernel.call
        return kernel

    def accumulate(self, name: str, *arrays: Any, reducer: Any = "gram", **choices: Any) -> Any:
        """A function on a batch, reduced block by block: its results are never held as a whole.

        `reducer` "gram" gives `NormalEquations` (YᵀWY, YᵀWy, yᵀWy) of matrices Y, "qr" their
        `TriangularFactor`; a function of your own takes the results of a block (states on the first
        axis), then those of `rhs` and `weights` if given, and what it returns is added up with `+`.
        `rhs` y and `weights` W broadcast to the batch and the rows of Y, such as (n, nv). The sum
        is the same on any number of threads. `on_step(done, of)` hears of states that are done.
        """
        return accumulate(self, name, arrays, reducer, **choices)

    def empty(
        self, name: str, batch: int | Sequence[int] = (), dtype: Any = np.float64, **options: Any
    ) -> Any:
        """Arrays for `out=` of a function on a batch of this shape, where writing is fastest.

        They begin with a line of the cache, which arrays of NumPy's own do not, and have zeros in
        them; one array, or a tuple where the function has several outputs.
        """
        row = function(name)
        dims = sizes(self.model, normalise_options(row, options))
        axes = axis_lengths("batch", batch)
        try:
            kind = np.dtype(dtype)
        except TypeError:
            kind = np.dtype(object)
        if kind not in (np.float64, np.float32):
            raise InvalidArgument("dtype", dtype, "float64 and float32 are computed with")
        require_batch(f"empty: {name}", axes, row.numbers(dims) * kind.itemsize)
        made = tuple(aligned_zeros((*axes, *o.shape_in(dims)), kind) for o in row.outputs)
        return made if len(made) > 1 else made[0]

    def explain(self, name: str, **options: Any) -> Kernel:
        """The kernel that a function is compiled to, with facts about its code.

        Print it for a summary: operations, bytes a state, vector width, pieces, code, times, file.
        Its `facts` hold the same as a dict, `operations` and `cost` are counts for one state, and
        `gufunc` is the compiled function itself. A function that is too large to compile, and is
        evaluated in Python, raises TooLarge.
        """
        row = function(name)
        return self._get_kernel(row, normalise_options(row, options))

    @overload
    def compile(
        self, function: Callable[..., Any], /, **shapes: int | str | tuple[int | str, ...]
    ) -> CompiledFunction: ...

    @overload
    def compile(
        self,
        name: str,
        /,
        parameters: str | Sequence[str] = (),
        zeros: Literal["written", "kept"] = "written",
        **options: Any,
    ) -> np.ufunc | Refill | InterpretedFunction: ...

    def compile(
        self, function_or_name: Any, /, parameters: Any = (), zeros: Any = "written", **given: Any
    ) -> Any:
        """A function of your own, or one of the catalogue with parameters as inputs, compiled.

        A function f(robot, q, v, …) in plain NumPy is recorded for one state: q has nq numbers, v,
        a and tau have nv, and the shapes of all others are given, `x_ref=3, R_ref=(3, 3)`, `()`
        for a number or "nv". It is called without the robot, on any batch.

        A name of the catalogue gives a gufunc with constants of the robot as further inputs.
        `parameters` is any of "inertia" (nb, 10), "gravity" (3), "friction" (nb, 3: damping,
        Coulomb friction of both directions, stiffness), or instead "directional_friction" (nb, 4:
        damping, Coulomb friction forward, backward, stiffness), and "armature" (nb, 1), in the
        order in which they follow the inputs of the function. Armature stands for rotors too;
        friction needs `friction=True` where the function has that option.

        With zeros="kept" it is a `Refill` instead: arrays that are filled again keep what is zero
        at every state, most of a regressor or of a Jacobian of a tree, without its being written.
        A function too large to compile comes as an `InterpretedFunction`: it is called in the same
        way, with arrays and `out=`, and has `nin`, `nout` and `signature`.
        """
        if callable(function_or_name):
            named = {"parameters": parameters, "zeros": zeros}
            defaults = {"parameters": (), "zeros": "written"}
            shapes = {k: x for k, x in named.items() if x != defaults[k]}
            return compile_function(self, function_or_name, {**shapes, **given})
        name, options = function_or_name, given
        if not isinstance(zeros, str) or zeros not in ("written", "kept"):
            raise InvalidArgument("zeros", zeros, "they are 'written' or 'kept'")
        row = function(name)
        if not self.nv:
            raise Unsupported("compile", name, f"{self.name} has no joint that moves")
        given = normalise_options(row, options)
        names = parameter_names(row, given, parameters)
        check = self._deferred_check(row, given, names)
        kernel_options = with_marked_rows(self, row, given)
        return function_of(row, self.model, kernel_options, names, check, zeros == "written")

    def casadi(self, name: str, **options: Any) -> casadi.Function:
        """A catalogue function as a casadi.Function of the same text.

        Options are those of the method (frame, reference, friction); external wrenches are asked
        for by `forces=[(frame, reference), …]` and become an input of one row a wrench.
        """
        row = function(name)
        given = normalise_options(row, options)
        self._require_inertia(row, given)
        return casadi_function(row, self.model, with_marked_rows(self, row, given))

    def export_c(
        self, functions: Any, folder: str | os.PathLike[str], dtype: Any = "float64"
    ) -> Any:
        """Write functions as C99 with header, tests and accuracy report; see `qddot.export_c`."""
        from qddot.export.export_c import export_c

        return export_c(self, functions, folder, dtype)

    def rollout(self, q0: ArrayLike, v0: ArrayLike, tau: Any = None, **choices: Any) -> Any:
        """The robot stepped in time from q0 (..., nq) and v0 (..., nv).

        `tau` is None, one row (nv), or a row a kept sample (..., steps // every, nv). Choices:

            dt, steps: length of a step in s, and their number
            integrator: a name of `qddot.simulate.INTEGRATORS`; rk4, or semi_implicit with contact
            every: keep every n-th step
            hold: torques between samples, "zero" (held) or "linear"
            without: physics of the file to leave out, such as "damping" or "limits"
            effects, sensors, contact: drivetrain, measurement, and contact with a scene
            feedback: a law, or a function f(time, q, v) of torques; references of a law by name
            control_every, feedback_at: steps between calls of the law, and when in a step it acts
            parameters: constants of the robot with batch axes, by name
            wrenches, wrench_reference: external wrenches by frame, and the axes they are in
            record: keep the states of effects and sensors
            out: arrays for q and v
            on_step: called with the progress

        `qddot.simulate.make_simulator` and `Simulator.rollout` have them in full.
        """
        from qddot.simulate.simulator import rollout

        return rollout(self, q0, v0, tau, **choices)

    def inverse_kinematics(
        self, frame: str, pose: ArrayLike, q0: ArrayLike | None = None, **choices: Any
    ) -> InverseKinematics:
        """Configurations that bring a frame to a pose; see `qddot.inverse_kinematics`."""
        from qddot.analysis.inverse_kinematics import inverse_kinematics

        return inverse_kinematics(self, frame, pose, q0, **choices)

    def plot(self, q: ArrayLike | None = None, **choices: Any) -> Any:
        """A matplotlib figure of the robot; see `qddot.view.plot_robot`."""
        from qddot.view.pictures import plot_robot

        return plot_robot(self, q, **choices)

    def view(self, motion: Any = None, **choices: Any) -> Any:
        """The robot in the browser, until it is closed; see `qddot.view.show_robot`."""
        from qddot.view.browser import show_robot

        return show_robot(self, motion, **choices)

    def simulator(self, *, dt: float, **choices: Any) -> Simulator:
        """A simulator with steps of dt (s); see `qddot.simulate.make_simulator`."""
        from qddot.simulate.simulator import make_simulator

        return make_simulator(self, dt=dt, **choices)

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
        return self._with_model(edit.with_payload(self.model, frame, mass, com, tensor))

    def with_gravity(self, gravity: Sequence[float]) -> Robot:
        """The same robot in other gravity, (gx, gy, gz) in world axes and m/s²."""
        return self._with_model(edit.with_gravity(self.model, gravity))

    def with_parameters(self, parameters: ArrayLike) -> Robot:
        """The same robot with other inertial parameters, shape (nb, 10)."""
        try:
            rows = np.asarray(parameters, dtype=float)
            ten_a_body = (rows if rows.ndim == 2 else rows.reshape(-1, 10)).tolist()
        except (TypeError, ValueError, OverflowError) as error:
            accepted = "needs an array of numbers, ten a body"
            raise InvalidArgument("with_parameters", parameters, accepted) from error
        return self._with_model(edit.with_parameters(self.model, ten_a_body))

    def without_joint(self, name: str, value: float | Sequence[float] | None = None) -> Robot:
        """The same robot with a joint locked at a value (neutral by default), followers with it."""
        return self._with_model(edit.without_joint(self.model, name, value))

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
        return self._with_model(made)

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
            raise WrongType("attach: other", other, "needs a Robot")
        return self._with_model(edit.attach(self.model, other.model, frame, placement, prefix))

    def _with_model(self, model: Model) -> Robot:
        """A robot of another model that computes in the same way."""
        return Robot(model, self.native)


def with_marked_rows(robot: Robot, row: Function, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Options of a function with the redundant rows of its constraints marked.

    Only functions that solve for multipliers need it. The rows are found, and warned of, once a
    robot: see `constraints.mark_redundant`.
    """
    if not row.inverts_constraints:
        return options
    given = options.get("constraints")
    if given not in robot._marked:
        from qddot.analysis.constraints.rank import mark_redundant

        robot._marked[given] = mark_redundant(robot, given)
    return {**options, "constraints": robot._marked[given]}


def _max_magnitude(x: np.ndarray, axes: int) -> np.ndarray:
    """Largest magnitude over the last axes, 0 where there is nothing."""
    return np.abs(x).max(axis=tuple(range(-axes, 0)), initial=0.0)
