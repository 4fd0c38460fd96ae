"""The state that the steps of a pipeline share: robot, settings, record, virtual hardware."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from qddot.display.progress import OnStep
from qddot.errors import InvalidArgument, QddotError, UnknownName, Unsupported
from qddot.evidence.record import Verdict
from qddot.evidence.recorder import Recorder
from qddot.identify import Fit, Log, fit, make_log, read
from qddot.loaders.description import Base
from qddot.loaders.load import locate_source
from qddot.pipeline.virtual import VirtualHardware, build_hardware, fourier_motion
from qddot.robot.robot import Robot, load
from qddot.simulate.integrators import INTEGRATORS
from qddot.verify.audit.read_description import read_robot
from qddot.verify.invariants import RandomStates, random_states

__all__ = [
    "BANDWIDTH",
    "EXPECTED",
    "Context",
    "NotApplicable",
    "PipelineSettings",
    "parse_expectations",
    "parse_vector",
    "split_names",
]

EXPECTED = ("nq", "nv", "base", "joints", "mass", "gravity")
"""Properties of the intended robot that a user may state (keys of --expect)."""


BANDWIDTH = 20.0
"""Bandwidth of the laws on the virtual hardware, rad/s."""


class NotApplicable(Exception):
    """A step, or the rest of it, that does not apply to a robot or lacks something; says why."""


@dataclass(frozen=True)
class PipelineSettings:
    """Settings of a pipeline: base, intent, log, simulator, seed.

    `accept` names links whose doubtful inertia is meant. `integrator` and `dt` are those of the
    user's simulator, judged in steps 9 and 10; without them the pipeline chooses.
    """

    base: Base = None
    trust: bool = False
    expect: Mapping[str, str] = field(default_factory=dict)
    accept: tuple[str, ...] = ()
    log: Path | None = None
    integrator: str | None = None
    dt: float | None = None
    seed: int = 0
    states: int = 100
    samples: int = 400
    duration: float = 20.0

    def __post_init__(self) -> None:
        if self.dt is not None and not 0.0 < self.dt < 1.0:
            raise InvalidArgument("dt", self.dt, "it is a time in seconds, up to one")
        if self.integrator is not None and self.integrator not in INTEGRATORS:
            raise UnknownName("integrator", self.integrator, INTEGRATORS)


def parse_expectations(given: list[str]) -> dict[str, str]:
    """Intent from words such as "nv=6", "base=fixed", "joints=a,b", "mass=20.6"."""
    found: dict[str, str] = {}
    for word in given:
        key, separator, value = word.partition("=")
        if not separator or key.strip() not in EXPECTED or not value.strip():
            accepted = f"it is KEY=VALUE with one of {', '.join(EXPECTED)}"
            raise InvalidArgument("--expect", word, accepted)
        if key.strip() in found:
            raise InvalidArgument("--expect", word, f"{key.strip()} is given once")
        found[key.strip()] = value.strip()
    for key in {"nq", "nv"} & set(found):
        if not (found[key].isascii() and found[key].isdigit()):
            raise InvalidArgument("--expect", f"{key}={found[key]}", "it is a whole number")
    if "mass" in found and not _is_positive(found["mass"]):
        accepted = "it is a positive number of kg"
        raise InvalidArgument("--expect", f"mass={found['mass']}", accepted)
    if "joints" in found and not split_names(found["joints"]):
        raise InvalidArgument("--expect", f"joints={found['joints']}", "it names joints: a,b,c")
    if "gravity" in found and parse_vector(found["gravity"]) is None:
        accepted = "it is three numbers in m/s², such as 0,0,-9.81"
        raise InvalidArgument("--expect", f"gravity={found['gravity']}", accepted)
    if found.get("base", "fixed") not in ("fixed", "free"):
        raise InvalidArgument("--expect", f"base={found['base']}", "it is fixed or free")
    return found


def split_names(text: str) -> list[str]:
    """Names in a text, between commas or blanks."""
    return text.replace(",", " ").split()


def parse_vector(text: str) -> np.ndarray | None:
    """Three finite numbers in a text; None where there are no such."""
    try:
        vector = np.array([float(word) for word in split_names(text)])
    except ValueError:
        return None
    return vector if vector.shape == (3,) and np.isfinite(vector).all() else None


def _is_positive(text: str) -> bool:
    """Whether a text is a finite positive number."""
    try:
        return 0.0 < float(text) < math.inf
    except ValueError:
        return False


@dataclass
class Context:
    """A pipeline at work. Everything costly is made once, when a step first needs it."""

    source: str
    settings: PipelineSettings
    recorder: Recorder
    on_step: OnStep = lambda name, done, of: None

    @cached_property
    def robot(self) -> Robot:
        """The robot of the description."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return load(
                self.source, self.settings.base, "exact", trust=self.settings.trust, isolate=True
            )

    def require_usable_inputs(self) -> None:
        """Refuse a robot that does not exist, links to accept that it lacks, an unusable log.

        A description that exists and cannot be read is left to the first step, which fails.
        """
        locate_source(self.source)
        try:
            self.robot  # noqa: B018
        except QddotError:
            return
        if self.settings.accept:
            links = read_robot(self.source, self.settings.trust).links
            for name in self.settings.accept:
                if name not in links:
                    raise UnknownName("link", name, links)
        if self.settings.log is not None:
            self.log  # noqa: B018

    @cached_property
    def states(self) -> RandomStates:
        """Random states within the limits."""
        return random_states(self.robot, max(100, self.settings.states), self.settings.seed)

    @property
    def floats(self) -> bool:
        """Whether the robot has a floating base."""
        return any(b.joint.kind.floats for b in self.robot.model.bodies)

    @cached_property
    def hardware(self) -> VirtualHardware:
        """The virtual hardware; refused where a robot has none that makes sense."""
        model = self.robot.model
        if self.floats:
            raise NotApplicable("a floating base needs a log of contact forces; give --log")
        if model.loops:
            raise NotApplicable("its loops are not part of the model that would be identified")
        if model.has_couplings or model.polynomial_couplings:
            raise NotApplicable("its joints are coupled: one motor moves several of them")
        rigid = self.robot.limits.lower >= self.robot.limits.upper
        rigid |= self.robot.limits.velocity <= 0.0
        if rigid.shape == (model.nv,) and rigid.any():
            joints = ", ".join(np.array(self.robot.joint_names)[rigid])
            raise NotApplicable(f"the limits of {joints} leave no room for a motion")
        if any(b.joint.kind.nv != 1 for b in model.bodies):
            raise NotApplicable("a joint of it has several freedoms, so no motor drives it")
        if self.robot.singular_joints:
            joints = ", ".join(self.robot.singular_joints)
            raise NotApplicable(f"no inertia moves with {joints}: it cannot be simulated")
        try:
            return build_hardware(self.robot, self.settings.seed)
        except Unsupported as error:
            raise NotApplicable(str(error)) from error

    @property
    def tag(self) -> str:
        """The mark of claims that rest on virtual hardware."""
        return "" if self.settings.log is not None else " (virtual)"

    @cached_property
    def log(self) -> Log:
        """The user's log, or that of an exciting motion of the virtual hardware."""
        if self.settings.log is not None:
            return read(self.settings.log, self.robot)
        seconds = self.settings.duration
        return self._virtual_log("virtual hardware, exciting motion", 0, seconds, seconds / 2, 1.5)

    @cached_property
    def verification_log(self) -> Log:
        """The last third of the user's log, or a slow motion of the virtual hardware."""
        if self.settings.log is not None:
            return self.log.split(2 / 3)[1]
        return self._virtual_log("virtual hardware, slow motion", 2, 8.0, 8.0, 0.4)

    def _virtual_log(
        self, source: str, motion_seed: int, seconds: float, period: float, speed: float
    ) -> Log:
        """A periodic motion of the virtual hardware under the controller of its maker."""
        robot, hardware = self.robot, self.hardware
        motion = fourier_motion(robot, self.settings.seed + motion_seed, period, speed=speed)
        self.on_step(source, 0, 1)
        q0, v0, _ = motion(0.0)
        law = hardware.controller(robot, motion, BANDWIDTH)
        found = hardware.run(law, q0, v0, seconds, every=2, stream=source)
        planned = motion(found.time)[0]
        astray = np.abs(found.q - planned).max(axis=0) > 0.5 * np.ptp(planned, axis=0)
        if not np.isfinite(found.q).all() or astray.any():
            names = ", ".join(np.array(robot.joint_names)[astray])
            raise NotApplicable(f"the virtual hardware does not follow its motion at {names}")
        return make_log(robot, found.time, found.q, found.tau, found.v, source)

    @cached_property
    def fit(self) -> Fit:
        """Possible bodies and friction from the first two thirds of the log."""
        train, _ = self.log.split(2 / 3)
        terms = ("viscous", "coulomb")
        return fit(self.robot, train, terms, "feasible", on_step=self.on_step)

    @cached_property
    def identified_robot(self) -> Robot:
        """The identified robot, with the friction of its drives."""
        return self.fit.robot

    def skip(self, claim: str, compared: str, reason: str, fix: str = "") -> None:
        """A claim that is not evaluated, and why."""
        self.recorder.claim(claim, compared, verdict=Verdict.NOT_EVALUATED, detail=reason, fix=fix)

    def measure(
        self,
        name: str,
        definition: str,
        columns: Mapping[str, Any],
        operands: tuple[str, ...],
        unit: str = "",
        **more: Any,
    ) -> float:
        """Keep a trace and a metric of the same name, of columns of that trace."""
        self.recorder.trace(name, columns, **more)
        return self.recorder.metric(name, definition, *(f"{name}.{x}" for x in operands), unit=unit)

    @cached_property
    def rng(self) -> np.random.Generator:
        """Random numbers of the run."""
        return np.random.default_rng(self.settings.seed)
