"""Fit of a torque model to a log: base parameters with intervals, or possible bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.optimize import nnls

from qddot.display.progress import OnStep
from qddot.display.text import Readable
from qddot.errors import InvalidArgument, NotIdentifiable
from qddot.identify.base_parameters import base_parameters
from qddot.identify.blas import on_one_blas_thread
from qddot.identify.design import REST_SHARE, Block, Design, Form, choose_filters, peak_speeds
from qddot.identify.estimators import (
    Estimate,
    Residuals,
    gather_moments,
    gather_residuals,
    huber_weights,
    interval_factor,
    robust_covariance,
    solve_weighted,
)
from qddot.identify.feasible import fit_feasible, is_feasible, validate_bounds
from qddot.identify.log import Log
from qddot.identify.selection import Selection, select_bends, select_terms
from qddot.identify.torque_model import (
    DRIVE_TERMS,
    NOT_FRICTION,
    STANDARD_TERMS,
    Shaft,
    TorqueModel,
    torque_model,
)
from qddot.model.friction_models import FrictionModel, coulomb
from qddot.robot.robot import Robot
from qddot.writers.parameters import PatchResult, write_parameters

__all__ = ["BaseTable", "Fit", "Method", "ParameterRow", "Refusal", "fit"]

Method = Literal["ols", "wls", "robust", "feasible"]
_METHODS = ("ols", "wls", "robust", "feasible")
_PASSES = 6
_KEPT = 160 * 2**20
"""Bytes of filtered columns that are kept between passes."""
_ONE_SPEED = 0.01
"""v₀ as a share of the peak speed, before it is chosen."""


@dataclass(frozen=True)
class ParameterRow:
    """A base parameter: what it is, its value with a 95 % interval, and the description's."""

    name: str
    grouping: str
    value: float
    deviation: float
    low: float
    high: float
    prior: float


@dataclass(frozen=True)
class BaseTable:
    """Base parameters that the log determines."""

    rows: tuple[ParameterRow, ...]

    def __iter__(self) -> Iterator[ParameterRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> ParameterRow:
        return next(row for row in self.rows if row.name == name)

    def __str__(self) -> str:
        width = max((len(r.name) for r in self.rows), default=4)
        head = f"{'base parameter':{width}}  {'value':>10}  {'95 % interval':^23}  {'model':>10}"
        lines = [
            f"{r.name:{width}}  {r.value:10.4g}  {r.low:10.4g} … {r.high:10.4g}  {r.prior:10.4g}"
            for r in self.rows
        ]
        return "\n".join((head, *lines))


@dataclass(frozen=True)
class Refusal:
    """A parameter that the log does not determine: why, and what would."""

    name: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}; {self.remedy}"


@dataclass(frozen=True, repr=False)
class Fit(Readable):
    """Parameters of a torque model identified from a log.

    `values` and `covariance` are of the base parameters; `parameters` is a full set where bodies
    had to be possible, else None. `design` is the model on the log with its filters.
    """

    design: Design
    method: Method
    values: np.ndarray
    covariance: np.ndarray
    freedom: float
    sigma: np.ndarray
    weights: np.ndarray
    blind: np.ndarray
    residuals: Residuals
    speeds: np.ndarray
    correlation: float
    parameters: np.ndarray | None = None
    selection: Selection | None = None
    notes: tuple[str, ...] = ()

    @property
    def model(self) -> TorqueModel:
        """The torque model."""
        return self.design.model

    @property
    def prior_robot(self) -> Robot:
        """The robot that the fit started from."""
        return self.model.robot

    @property
    def deviations(self) -> np.ndarray:
        """Standard deviations of the base parameters, correlation of residuals included."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    @property
    def half_widths(self) -> np.ndarray:
        """Half-widths of the 95 % intervals."""
        return interval_factor(self.freedom) * self.deviations

    @property
    def prior_values(self) -> np.ndarray:
        """Base parameters of the description."""
        return self.design.base.values(self.model.prior())

    @cached_property
    def refusals(self) -> tuple[Refusal, ...]:
        """Parameters without a number: not moved, or lost in the noise of this log."""
        base, found = self.design.base, []
        for name in base.unseen:
            reason = "no joint torque depends on it"
            found.append(Refusal(name, reason, "a force sensor at the base would see it"))
        for k, name in enumerate(base.labels):
            if self.blind[k]:
                reason = "this motion does not tell it from others"
                found.append(Refusal(name, reason, "move more joints at once; see plan"))
            elif not self.is_determined[k]:
                share = self.half_widths[k] / max(abs(self.values[k]), abs(self.prior_values[k]))
                reason = f"its interval is {share:.3g} times its size"
                if share > 100.0:
                    reason = "its size is lost in its interval"
                found.append(Refusal(name, reason, "excite it more or record longer; see plan"))
        return tuple(found)

    @cached_property
    def is_determined(self) -> np.ndarray:
        """Mask of base parameters whose interval is smaller than they are."""
        size = np.maximum(np.abs(self.values), np.abs(self.prior_values))
        return ~self.blind & (self.half_widths < size)

    @cached_property
    def base(self) -> BaseTable:
        """The base parameters that this log determines."""
        base, half = self.design.base, self.half_widths
        rows = [
            ParameterRow(
                name=name,
                grouping=base.grouping(k),
                value=float(self.values[k]),
                deviation=float(self.deviations[k]),
                low=float(self.values[k] - half[k]),
                high=float(self.values[k] + half[k]),
                prior=float(self.prior_values[k]),
            )
            for k, name in enumerate(base.labels)
            if self.is_determined[k]
        ]
        return BaseTable(tuple(rows))

    @property
    def rms(self) -> np.ndarray:
        """Root mean square residual of each joint, where it moves."""
        squares = (self.residuals.errors**2).sum(axis=0)
        return np.sqrt(squares / np.maximum(self.residuals.moving.sum(axis=0), 1))

    @property
    def relative(self) -> np.ndarray:
        """Residual of each joint relative to its torque."""
        r = self.residuals
        return np.linalg.norm(r.errors, axis=0) / np.maximum(np.linalg.norm(r.tau, axis=0), 1e-300)

    @property
    def total(self) -> float:
        """Residual of all joints together relative to their torques."""
        return float(np.linalg.norm(self.residuals.errors) / np.linalg.norm(self.residuals.tau))

    def predict(self, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Torques (..., nv) of the identified model, drives included, at states."""
        return self.model.regressor(q, v, a)[..., self.design.base.independent] @ self.values

    @cached_property
    def full_parameters(self) -> np.ndarray:
        """All parameters: the feasible ones, or the description's moved as little as can be."""
        if self.parameters is not None:
            return self.parameters
        base, prior = self.design.base, self.model.prior()
        values = np.where(self.is_determined, self.values, self.prior_values)
        scale = np.maximum(np.abs(prior), 1e-3)
        mixing = base.mixing * scale
        step = np.linalg.lstsq(mixing, values - base.values(prior), rcond=1e-12)[0]
        return prior + scale * step

    def drive(self, joint: int) -> dict[str, float]:
        """Armature, damping and Coulomb friction nearest to the drive terms of a joint."""
        own = self.full_parameters[self.model.drive_slices[joint]]
        terms = self.model.drives[joint]
        speeds = np.linspace(0.05, 1.0, 40) * self.speeds[joint]
        load = np.full_like(speeds, float(np.abs(self.residuals.tau[:, joint]).mean()))
        zero, curve = np.zeros_like(speeds), np.zeros_like(speeds)
        for term, x in zip(terms, own, strict=True):
            if term.kind not in NOT_FRICTION:
                column = DRIVE_TERMS[term.kind][1]
                curve += x * np.asarray(column(zero, speeds, zero, load, term.speed))
        level, slope = nnls(np.column_stack([np.ones(40), speeds]), curve)[0]
        armature = sum(x for t, x in zip(terms, own, strict=True) if t.kind == "armature")
        return {"armature": max(float(armature), 0.0), "damping": slope, "friction": level}

    @cached_property
    def robot(self) -> Robot:
        """The identified robot, for simulation and control; refused if a body is impossible."""
        rows = self.full_parameters[: self.model.rigid_count].reshape(-1, 10)
        heavy = rows[:, 0] > 0.0
        if not np.all(is_feasible(rows)[heavy]) or np.any(rows[:, 0] < 0.0):
            raise NotIdentifiable(
                "a full set of link parameters",
                f"{self.method} gives base parameters only, which no possible links here have",
                'fit with method="feasible"',
            )
        moved = self.prior_robot.with_parameters(rows)
        bodies = []
        for j, body in enumerate(moved.model.bodies):
            values: dict[str, Any] = {
                **self.drive(j),
                "rotor_inertia": 0.0,
                "backward_friction": None,
            }
            drive = replace(body.joint.drivetrain, **values)
            bodies.append(replace(body, joint=replace(body.joint, drivetrain=drive)))
        return Robot(replace(moved.model, bodies=tuple(bodies)), moved.native)

    def write(self, file: str | Path, out: str | Path, force: bool = False) -> PatchResult:
        """Write the identified parameters into a copy of a URDF or MJCF file, values only."""
        robot = self.robot
        friction: dict[str, FrictionModel] = {}
        for j, name in enumerate(self.prior_robot.joint_names):
            drive = self.drive(j)
            friction[name] = coulomb(drive["friction"], drive["damping"])
        return write_parameters(robot, file, out, friction, force=force)

    def summary(self) -> dict[str, Any]:
        """The fit as plain data."""
        joints = self.prior_robot.model.velocity_names
        return {
            "robot": self.prior_robot.name,
            "method": self.method,
            "rank": self.design.base.rank,
            "rows": len(self.residuals.index),
            "bandwidth_hz": self.design.torque.bandwidth,
            "relative_residual": self.total,
            "joints": {
                name: {
                    "rms": float(self.rms[j]),
                    "relative": float(self.relative[j]),
                    "terms": [t.label for t in self.model.drives[j]],
                }
                for j, name in enumerate(joints)
            },
            "base_parameters": [vars(row) for row in self.base],
            "refused": [vars(r) for r in self.refusals],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        counts = f"{len(self.base)} of {self.design.base.rank} base parameters determined"
        head = (
            f"{self.prior_robot.name}, {self.method}: {counts}, residual {100 * self.total:.3g} % "
            f"({len(self.residuals.index):,} rows at {self.design.torque.bandwidth:.3g} Hz)"
        )
        return "\n".join((head, *(f"  {note}" for note in self.notes)))


@on_one_blas_thread
def fit(
    robot: Robot,
    log: Log,
    friction: Literal["auto"] | Sequence[str] | TorqueModel = "auto",
    method: Method = "wls",
    *,
    bandwidth: float | None = None,
    v0: float | Sequence[float] | None = None,
    shafts: Sequence[Shaft] = (),
    prior: Robot | None = None,
    use_prior: bool = True,
    mass_bounds: Mapping[str, tuple[float, float]] | None = None,
    com_boxes: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
    form: Form = "torque",
    keep_standstill: bool = False,
    on_step: OnStep | None = None,
) -> Fit:
    """Identify a robot from a log.

    `friction` "auto" chooses the terms of each joint by cross-validation; else names of terms for
    all (see `DRIVE_TERMS`), or a torque model. `method` "ols" is least squares with equal weights;
    "wls" weighs joints by their residuals, "robust" also weighs rows down that lie far off (Huber);
    "feasible" gives possible bodies near the prior (`robot` itself unless `prior` is given).
    `bandwidth` (Hz) is that of torques; the motion's is twice it. `v0`, the speed at which Coulomb
    friction bends, is chosen by cross-validation unless given. Rows at standstill are left out.
    """
    if method not in _METHODS:
        raise InvalidArgument("method", method, f"it is one of {', '.join(_METHODS)}")
    if form not in ("torque", "momentum"):
        raise InvalidArgument("form", form, 'it is "torque" or "momentum"')
    if tuple(log.joints) != robot.model.velocity_names:
        raise InvalidArgument("log", log.joints, f"the robot has {robot.model.velocity_names}")
    if isinstance(friction, str) and friction != "auto":
        raise InvalidArgument("friction", friction, '"auto", names of terms, or a TorqueModel')
    validate_bounds(mass_bounds, com_boxes, robot.body_names, method)
    motion, torque = choose_filters(log, bandwidth)
    peaks = peak_speeds(log, motion)
    speeds = np.maximum(peaks, 1e-6)
    rest = np.full(robot.nv, -1.0) if keep_standstill else REST_SHARE * peaks
    # the torque model: given, by names, or chosen
    selection = None
    if isinstance(friction, TorqueModel):
        model = friction
    else:
        names = STANDARD_TERMS if friction == "auto" else tuple(friction)
        bends = _ONE_SPEED * speeds if v0 is None else v0
        model = torque_model(robot, names, bends, shafts)
    base = base_parameters(model)
    design = Design(model, base, log, motion=motion, torque=torque, rest=rest, form=form)
    if isinstance(friction, str):
        selection = select_terms(design, speeds, on_step=on_step)
    elif v0 is None and not isinstance(friction, TorqueModel) and "coulomb" in names:
        selection = select_bends(design, speeds, on_step)
    if selection is not None:
        model = model.with_drives(selection.drives)
        design = replace(design, model=model, base=base_parameters(model))
    return _estimate(
        design,
        method,
        speeds,
        selection,
        prior=(prior or robot) if use_prior else None,
        mass_bounds=mass_bounds,
        com_boxes=com_boxes,
        on_step=on_step,
    )


def _estimate(
    design: Design,
    method: Method,
    speeds: np.ndarray,
    selection: Selection | None,
    prior: Robot | None,
    mass_bounds: Mapping[str, tuple[float, float]] | None,
    com_boxes: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None,
    on_step: OnStep | None,
) -> Fit:
    """The estimate of a method on a design, its covariance and remarks."""
    passes = _repeatable(design, on_step)
    moments = gather_moments(passes(), design.rows)
    products, counts = moments.total, moments.counts.sum(axis=0)
    estimate = solve_weighted(products, counts, weighted=method != "ols")
    notes = list(design.log.notes)
    if method == "robust":
        estimate, outliers = _reweight(design, passes, estimate)
        notes.append(f"{100 * outliers:.2g} % of rows lie far off and count less")
    values, parameters = estimate.values, None
    residuals = gather_residuals(passes(), values, estimate.weights)
    covariance, length, freedom = robust_covariance(estimate, residuals, passes())
    if method == "feasible":
        p = len(values)
        normal = np.einsum("j,jab->ab", estimate.weights, products)[:p, :p]
        start = None if prior is None else replace(design.model, robot=prior).prior()
        made = fit_feasible(
            design.model,
            design.base,
            normal=normal / length,
            values=values,
            prior=start,
            mass_bounds=mass_bounds,
            com_boxes=com_boxes,
        )
        parameters, notes = made.parameters, [*notes, *made.notes]
        values = design.base.values(parameters)
        residuals = gather_residuals(passes(), values, estimate.weights, keep_scores=False)
    still = 1.0 - residuals.moving.mean(axis=0)
    if (still > 0.02).any():
        parts = [f"{design.log.joints[j]} {100 * still[j]:.2g} %" for j in range(len(still))]
        notes.append(f"rows at standstill left out, by joint: {', '.join(parts)}")
    return Fit(
        design=design,
        method=method,
        values=values,
        covariance=covariance,
        freedom=freedom,
        sigma=estimate.sigma,
        weights=estimate.weights,
        blind=estimate.blind,
        residuals=residuals,
        speeds=speeds,
        correlation=length,
        parameters=parameters,
        selection=selection,
        notes=tuple(notes),
    )


def _repeatable(design: Design, on_step: OnStep | None) -> Callable[[], Iterator[Block]]:
    """Blocks of a design as often as they are asked for; kept where they are small."""
    size = 8 * design.rows * design.model.robot.nv * (design.base.rank + 4)
    if size > _KEPT:
        return lambda: design.blocks(on_step)
    kept = list(design.blocks(on_step))
    return lambda: iter(kept)


def _reweight(
    design: Design, passes: Callable[[], Iterator[Block]], estimate: Estimate
) -> tuple[Estimate, float]:
    """Iteratively reweighted least squares with Huber's function; the share of outliers."""
    outliers = 0.0
    for _ in range(_PASSES):
        current = estimate
        # spread of each joint's residuals by their median, which outliers do not move
        errors, moving = zip(
            *((b.tau - b.columns @ current.values, b.moving) for b in passes()), strict=True
        )
        e, m = np.concatenate(errors), np.concatenate(moving)
        spread = [np.median(np.abs(e[m[:, j], j])) / 0.6745 if m[:, j].any() else 1.0
                  for j in range(e.shape[1])]  # fmt: skip
        scale = np.maximum(np.array(spread), 1e-12)

        def weigh(block: Block, e: Estimate = current, s: np.ndarray = scale) -> np.ndarray:
            return huber_weights(block.tau - block.columns @ e.values, s)

        moments = gather_moments(passes(), design.rows, weights=weigh)
        counts = moments.counts.sum(axis=0)
        estimate = solve_weighted(moments.total, counts)
        marks = [(weigh(b) < 0.5)[b.moving] for b in passes()]
        outliers = float(np.concatenate(marks).mean())
    return estimate, outliers
