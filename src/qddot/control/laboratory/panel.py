"""The perturbation panel: the same contact task on tables, arms and sensors that vary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from qddot.control.compiled import compile_law
from qddot.control.force import PHASES
from qddot.control.laboratory.contact import FORCE, contact_law
from qddot.control.laboratory.result import LABELS, Measure, Result
from qddot.control.laboratory.scene import (
    FRAME,
    Surroundings,
    laboratory_robot,
    make_plant,
    start_configuration,
    start_pose,
)
from qddot.control.run import Sensing, run
from qddot.control.trace import Trace
from qddot.display.progress import OnStep
from qddot.robot.robot import Robot

__all__ = ["Draws", "draw_members", "judge_members", "panel"]

_CHUNK = 200
_ABOVE = 0.05
_DURATION = 7.0
_BAND, _SHARE, _PLANAR = 1.0, 0.99, 2e-3
_FAST = 3.0


@dataclass(frozen=True, eq=False)
class Draws:
    """Perturbations of the members of a panel, each an array over them."""

    stiffness: np.ndarray
    friction: np.ndarray
    height: np.ndarray
    inertia: np.ndarray
    joint_friction: np.ndarray
    force_bias: np.ndarray
    force_noise: np.ndarray
    latency: np.ndarray
    rate: np.ndarray

    def select(self, which: Any) -> Draws:
        """Some of the members."""
        return Draws(**{name: getattr(self, name)[which] for name in self.__dataclass_fields__})

    def surroundings(self) -> Surroundings:
        """The surroundings of the members, unknown to their laws."""
        return Surroundings(
            stiffness=self.stiffness,
            friction=self.friction,
            height=self.height,
            inertia=self.inertia,
            joint_friction=self.joint_friction,
        )

    def sensing(self, seed: int) -> Sensing:
        """Latency, bias and noise of the measurements that the laws read."""
        return Sensing(self.latency, self.force_bias, self.force_noise, seed)


def draw_members(robot: Robot, n: int, seed: int = 0) -> Draws:
    """Members of a panel, uniform in their ranges (stiffness in its logarithm).

    Table stiffness × 0.1–10, friction 0–0.8, height ± 20 mm, mass and inertia of each body and of
    the load ± 15 %, joint friction up to 1 N m, force bias ± 0.2 N, noise 0.05 N, latency 0–3 ms,
    1000, 500 or 250 Hz.
    """
    rng = np.random.default_rng(seed)
    parameters = np.asarray(robot.inertial_parameters, float)
    scale = rng.uniform(0.85, 1.15, (n, len(parameters), 1))
    return Draws(
        stiffness=np.asarray(Surroundings().stiffness) * 10.0 ** rng.uniform(-1.0, 1.0, n),
        friction=rng.uniform(0.0, 0.8, n),
        height=rng.uniform(-0.02, 0.02, n),
        inertia=parameters * scale,
        joint_friction=rng.uniform(0.0, 1.0, n),
        force_bias=rng.uniform(-0.2, 0.2, n),
        force_noise=np.full(n, 0.05),
        latency=1e-3 * rng.integers(0, 4, n),
        rate=rng.choice([1000.0, 500.0, 250.0], n),
    )


def judge_members(robot: Robot, found: Trace) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Label of each member of a run, and its figures: share in the band, error along the table.

    Success: within ± 1 N for 99 % of trace and hold each, and within 2 mm along the table.
    """
    phase = np.round(found.memory["phase"])
    error = found.wrenches[FRAME][..., 2] - FORCE
    p = robot.frame_pose(found.q, FRAME)[..., :2, 3]
    off = np.linalg.norm(p - found.memory["target"][..., :2], axis=-1)
    shares, lost, planar = [], [], []
    for name in ("trace", "hold"):
        there = phase == PHASES.index(name)
        count = np.maximum(there.sum(-1), 1)
        shares.append(np.where(there & (np.abs(error) <= _BAND), 1.0, 0.0).sum(-1) / count)
        lost.append(np.where(there & (error <= -FORCE + 1e-9), 1.0, 0.0).sum(-1) / count)
        planar.append(np.where(there, off, 0.0).max(-1))
    share, gone = np.min(shares, axis=0), np.max(lost, axis=0)
    way = np.max(planar, axis=0)
    sound = np.isfinite(found.q).all((-1, -2)) & (np.abs(found.v).max((-1, -2)) < _FAST)
    ended = (phase == PHASES.index("hold")).any(-1)
    good = (share >= _SHARE) & (way <= _PLANAR)
    label = np.where(good, "ok", np.where(gone > 0.0, "contact", "control"))
    label = np.where(ended, label, "evaluation")
    label = np.where(sound, label, "state")
    return label, {"share": share, "planar": way, "lost": gone}


def panel(kind: str = "own", n: int = 100, seed: int = 0, on_step: OnStep | None = None) -> Result:
    """Run the contact task on `n` perturbed laboratories; on our plant in batches."""
    robot = laboratory_robot()
    members = draw_members(robot, n, seed)
    law = compile_law(robot, contact_law(settle=1.0, robust=True))
    start = {"X_start": start_pose(_ABOVE)}
    labels, figures = [], []
    size = _CHUNK if kind == "own" else 1
    for k in range(0, n, size):
        one = members.select(slice(k, k + size) if kind == "own" else k)
        plant = make_plant(kind, robot, one.surroundings())
        q0 = start_configuration(robot, _ABOVE)
        batch = one.height.shape
        plant.reset(np.broadcast_to(q0, (*batch, robot.nq)))
        found = run(
            plant,
            law,
            start,
            duration=_DURATION,
            rate=one.rate,
            sensing=one.sensing(seed + k),
            record=("phase", "target"),
        )
        label, values = judge_members(robot, found)
        labels.append(np.atleast_1d(label))
        figures.append({name: np.atleast_1d(x) for name, x in values.items()})
        if on_step:
            on_step(f"panel on {kind}", min(k + size, n), n)
    # counts of the labels, and the worst members in words
    found_labels = np.concatenate(labels)
    good = found_labels == "ok"
    share = np.concatenate([x["share"] for x in figures])
    planar = np.concatenate([x["planar"] for x in figures])
    measures = [
        Measure(f"success of {n} members", 100.0 * float(good.mean()), "%", 97.0, "≥"),
        Measure("median share of time within ± 1 N", 100.0 * float(np.median(share)), "%"),
        Measure("95 % of members within", 1e3 * float(np.quantile(planar, 0.95)), "mm"),
    ]  # fmt: skip
    counts = {name: int((found_labels == name).sum()) for name in LABELS}
    listed = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
    notes = [f"labels: {listed}"]
    for k in np.flatnonzero(~good)[:5]:
        notes.append(
            f"member {k}: {found_labels[k]}, {100 * share[k]:.1f} % within, "
            f"{1e3 * planar[k]:.2f} mm; "
            f"k {members.stiffness[k]:.3g} N/m, mu {members.friction[k]:.2f}, "
            f"joint friction {members.joint_friction[k]:.2f} N m, "
            f"latency {1e3 * members.latency[k]:.0f} ms, {members.rate[k]:.0f} Hz"
        )
    verdict = "ok" if all(m.holds for m in measures) else str(found_labels[~good][0])
    return Result("panel", kind, tuple(measures), verdict, tuple(notes))
