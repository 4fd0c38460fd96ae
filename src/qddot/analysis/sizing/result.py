"""The last stage, the answer: torque, rating and largest payload of each joint."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from qddot.display.text import Readable, Tabular

__all__ = [
    "GEAR_RATIOS",
    "MARGIN",
    "SPEED_CLASSES",
    "JointInertia",
    "JointSizing",
    "Sizing",
    "SpeedClass",
    "Worst",
]

MARGIN = 1.3
"""The rule of thumb: a rating is 1.3 times the largest torque at least."""

SPEED_CLASSES = (
    ("slow cobot, hand guiding", 0.5),
    ("cobot at rated speed", 1.5),
    ("fast industrial arm", 4.0),
    ("direct-drive arm", 8.0),
    ("swing of a leg", 15.0),
)
"""Classes of robots by the speed of their joints, in rad/s."""

GEAR_RATIOS = (1, 50, 100, 160)
"""Gear ratios for which reflected inertia is listed: direct drive, and usual harmonic drives."""


@dataclass(frozen=True, repr=False)
class Worst(Readable):
    """The worst state that was found for a joint: its torque, gravity's part of that, the state.

    `sampled` is the largest magnitude among the random states alone.
    """

    torque: float
    gravity: float
    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    sampled: float


@dataclass(frozen=True)
class JointSizing:
    """A joint under the payload; `rating` and the payloads are infinite where there is no limit.

    `payload_static`, `payload_dynamic` and `payload_with_margin` are the largest payloads that the
    joint holds still, moves within its rating, and moves within its rating divided by 1.3.
    """

    name: str
    unit: str
    rating: float
    static: Worst
    dynamic: Worst
    rms: float
    payload_static: float
    payload_dynamic: float
    payload_with_margin: float

    @property
    def has_rating(self) -> bool:
        """Whether the description has an effort limit."""
        return math.isfinite(self.rating)

    @property
    def share_static(self) -> float | None:
        """Largest static torque over the rating."""
        return abs(self.static.torque) / self.rating if self.has_rating else None

    @property
    def share(self) -> float | None:
        """Largest torque over the rating."""
        return abs(self.dynamic.torque) / self.rating if self.has_rating else None

    @property
    def required_rating(self) -> float:
        """The least rating by the rule of 1.3."""
        return MARGIN * abs(self.dynamic.torque)

    @property
    def passes(self) -> bool | None:
        """Whether the rule of 1.3 holds."""
        return self.required_rating <= self.rating if self.has_rating else None

    def payload_text(self, payload: float) -> str:
        """A largest payload of the joint in words, kg."""
        if math.isfinite(payload):
            # a payload of tons says that the joint hardly feels it
            return f"{payload:.3g}" if payload < 1000 else "over 1000"
        return "no limit" if self.has_rating else "no rating"


@dataclass(frozen=True)
class SpeedClass:
    """C v against g with all joints at a speed: ratio of the peaks, and of the rms, of the norms.

    Both grow with the square of the speed. None where gravity loads no joint.
    """

    name: str
    speed: float
    peak: float | None
    rms: float | None

    @property
    def advice(self) -> str:
        """The feedforward that a controller needs at this ratio of the peaks."""
        if self.peak is None:
            return "gravity loads no joint"
        if self.peak < 0.05:
            return "gravity compensation is enough"
        if self.peak < 0.5:
            return "add C q̇ to the feedforward"
        return "full computed torque" + (": C q̇ exceeds gravity" if self.peak > 1.0 else "")


@dataclass(frozen=True)
class JointInertia:
    """Reflected inertia of a joint beside the diagonal of M without it.

    `link` is the least, the median and the largest of that diagonal over the states, the payload
    included; `dominated` the share of states in which `armature` exceeds it. `shares` are those of
    the rotor in the median diagonal by gear ratio, if the rotor's inertia is known; `equal_rotor`
    is the rotor inertia by gear ratio that doubles the median.
    """

    name: str
    link: tuple[float, float, float]
    armature: float
    dominated: float
    rotor_inertia: float | None

    @property
    def share(self) -> float:
        """Share of the armature in the median diagonal of M."""
        total = self.armature + self.link[1]
        return self.armature / total if total else 0.0

    @property
    def shares(self) -> tuple[float, ...] | None:
        """Share of the rotor in the median diagonal of M, by gear ratio."""
        if self.rotor_inertia is None:
            return None
        reflected = [self.rotor_inertia * n**2 for n in GEAR_RATIOS]
        return tuple(x / (x + self.link[1]) for x in reflected)

    @property
    def equal_rotor(self) -> tuple[float, ...]:
        """The rotor inertia that weighs as much as the links, by gear ratio."""
        return tuple(self.link[1] / n**2 for n in GEAR_RATIOS)

    @property
    def even_gear_ratio(self) -> float | None:
        """The gear ratio from which the rotor outweighs the median of the links."""
        return math.sqrt(self.link[1] / self.rotor_inertia) if self.rotor_inertia else None


@dataclass(frozen=True, repr=False)
class Sizing(Tabular):
    """Does the payload fit the robot? The answer, joint by joint.

    `static` and `dynamic` are torques of some of the random states, for plots.
    """

    robot: str
    payload: float
    frame: str
    com: tuple[float, float, float]
    speed: np.ndarray
    acceleration: np.ndarray
    samples: int
    seed: int
    joints: tuple[JointSizing, ...]
    speed_classes: tuple[SpeedClass, ...]
    inertias: tuple[JointInertia, ...]
    notes: tuple[str, ...]
    static: np.ndarray
    dynamic: np.ndarray

    def _table(self) -> tuple[str, list[str], list[list[str]]]:
        """The verdict, and a table with a joint a line."""
        rows = []
        for j in self.joints:
            share = "" if j.share is None else f"{100 * j.share:.0f} %"
            torques = (f"{round(abs(x.torque), 9):.4g}" for x in (j.static, j.dynamic))
            rating = f"{j.rating:.4g}" if j.has_rating else ""
            rows.append(
                [j.name, rating, *torques, j.unit, share, j.payload_text(j.payload_dynamic)]
            )
        heads = ["joint", "rating", "at rest", "moving", "unit", "of rating", "largest payload, kg"]
        return self.verdict, heads, rows

    @property
    def rated_joints(self) -> tuple[JointSizing, ...]:
        """The joints that have a rating."""
        return tuple(j for j in self.joints if j.has_rating)

    @property
    def fits(self) -> bool | None:
        """Whether every joint stays within its rating; None if none has one."""
        return (
            all((j.share or 0.0) <= 1.0 for j in self.rated_joints) if self.rated_joints else None
        )

    @property
    def fits_with_margin(self) -> bool | None:
        """Whether every joint keeps the rule of 1.3; None if none has a rating."""
        return all(j.passes for j in self.rated_joints) if self.rated_joints else None

    @property
    def most_loaded(self) -> JointSizing:
        """The joint with the largest share of its rating, or the largest torque if none has one."""
        return max(self.rated_joints or self.joints, key=lambda j: j.share or abs(j.dynamic.torque))

    @property
    def largest_payload(self) -> float:
        """The largest payload for which every joint stays within its rating, moving as asked."""
        return min(j.payload_dynamic for j in self.joints)

    @property
    def largest_payload_with_margin(self) -> float:
        """The largest payload for which every joint keeps the rule of 1.3."""
        return min(j.payload_with_margin for j in self.joints)

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        load = f"{self.payload:.4g} kg at {self.frame!r}"
        worst = self.most_loaded
        if worst.share is None:
            peak = f"{abs(worst.dynamic.torque):.4g} {worst.unit} at {worst.name}"
            reason = f"{self.robot} has no effort limits; the largest torque is {peak}"
            return f"unknown whether {load} fits: {reason}"
        if not self.fits:
            answer = f"no, {load} does not fit {self.robot}"
        elif self.fits_with_margin:
            answer = f"yes, {load} fits {self.robot} with the margin of {MARGIN}"
        else:
            answer = f"yes, {load} fits {self.robot}, but without the margin of {MARGIN}"
        need = f"{worst.name} needs {100 * worst.share:.0f} % of its rating"
        return f"{answer}: {need}; {self._payload_text()}"

    def _payload_text(self) -> str:
        """The largest payload in words."""
        most, with_margin = self.largest_payload, self.largest_payload_with_margin
        if math.isinf(most):
            return "no payload there loads a rated joint"
        if most == 0.0:
            return "the motion is too much for it without any payload"
        margin = f"{with_margin:.3g} kg" if with_margin else "nothing"
        return f"at most {most:.3g} kg, {margin} with the margin"

    def summary(self) -> dict[str, Any]:
        """Everything but the random torques, as plain data."""
        given = ("robot", "payload", "frame", "com", "speed", "acceleration", "samples", "seed")
        answers = ("fits", "fits_with_margin", "largest_payload", "largest_payload_with_margin")
        inertia = ("share", "shares", "equal_rotor", "even_gear_ratio")
        joints = [
            {
                **_plain_data(joint),
                "rated": joint.has_rating,
                "share_static": joint.share_static,
                "share": joint.share,
                "required": joint.required_rating,
                "passes": joint.passes,
            }
            for joint in self.joints
        ]
        return {
            "verdict": self.verdict,
            **{name: _plain_data(getattr(self, name)) for name in (*given, *answers, "notes")},
            "most_loaded": self.most_loaded.name,
            "margin": MARGIN,
            "joints": joints,
            "speed_classes": [_plain_data(c, ("advice",)) for c in self.speed_classes],
            "gear_ratios": list(GEAR_RATIOS),
            "inertias": [_plain_data(j, inertia) for j in self.inertias],
        }


def _plain_data(x: Any, derived: tuple[str, ...] = ()) -> Any:
    """Arrays as lists, records as dictionaries of their fields and of properties named."""
    if dataclasses.is_dataclass(x):
        names = [*(f.name for f in dataclasses.fields(x)), *derived]
        return {name: _plain_data(getattr(x, name)) for name in names}
    if isinstance(x, np.ndarray):
        return x.tolist()
    return [_plain_data(y) for y in x] if isinstance(x, tuple) else x
