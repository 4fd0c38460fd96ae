"""One state of a robot to and from an engine, by indices that are found once.

Conversions of `Adapter` take any batch and every form of joint. A simulation that steps one state
at a time needs a few of them at each step, where finding out what a joint is takes longer than a
step of the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qddot.engines.layout import JointMap

__all__ = ["StateMap", "find_state_map"]


@dataclass(frozen=True, eq=False)
class StateMap:
    """Places of our coordinates and velocities there, with gains where they are not 1.

    Coordinates here are (x − shift) / gain of those there. `turned` has, for each joint whose
    linear velocity is in parent axes there, where that velocity and its quaternion (x, y, z, w)
    start in our v and q.
    """

    q_places: np.ndarray
    v_places: np.ndarray
    shift: np.ndarray | None
    q_gain: np.ndarray | None
    v_gain: np.ndarray | None
    turned: tuple[tuple[int, int], ...]

    def from_q(self, q: np.ndarray) -> np.ndarray:
        """Configuration from there."""
        result: np.ndarray = q[self.q_places]
        if self.shift is not None:
            result -= self.shift
        if self.q_gain is not None:
            result /= self.q_gain
        return result

    def from_v(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Velocity from there, at our q."""
        result: np.ndarray = v[self.v_places]
        if self.v_gain is not None:
            result /= self.v_gain
        for linear, quaternion in self.turned:
            x, y, z, w = q[quaternion : quaternion + 4].tolist()
            part = slice(linear, linear + 3)
            result[part] = _rotate(-x, -y, -z, w, result[part].tolist())
        return result

    def write_tau(self, q: np.ndarray, tau: np.ndarray, target: np.ndarray) -> None:
        """Write joint torques into an array of forces there, at our q; others stay."""
        if self.v_gain is not None:
            tau = tau / self.v_gain
        target[self.v_places] = tau
        for linear, quaternion in self.turned:
            f = tau[linear : linear + 3].tolist()
            if any(f):
                x, y, z, w = q[quaternion : quaternion + 4].tolist()
                target[self.v_places[linear : linear + 3]] = _rotate(x, y, z, w, f)


def _rotate(
    x: float, y: float, z: float, w: float, v: Sequence[float]
) -> tuple[float, float, float]:
    """A vector turned by a quaternion of any length: v + w t + u × t with t = 2 u × v / |q|²."""
    a, b, c = v
    s = 2.0 / (x * x + y * y + z * z + w * w)
    t0, t1, t2 = s * (y * c - z * b), s * (z * a - x * c), s * (x * b - y * a)
    return (
        a + w * t0 + y * t2 - z * t1,
        b + w * t1 + z * t0 - x * t2,
        c + w * t2 + x * t1 - y * t0,
    )


def find_state_map(joints: Sequence[JointMap], nq: int, nv: int) -> StateMap | None:
    """The map of these joints, which have coordinates of their own; None where one needs more."""
    q_places, v_places = np.zeros(nq, int), np.zeros(nv, int)
    shift, q_gain, v_gain = np.zeros(nq), np.ones(nq), np.ones(nv)
    turned = []
    for joint in joints:
        form, body = joint.form, joint.body
        by_place = form.nq == body.joint.kind.nq and not joint.moves_frames
        angular = form.parent_axes[-1:] == (True,)
        if not by_place or angular or (form.quaternion == () and form.family in ("ball", "free")):
            return None
        # which coordinate there is which of ours
        q_places[body.iq] = joint.place.iq + form.from_q(np.arange(form.nq))
        v_places[body.iv] = joint.place.iv + np.argsort(form.order)
        if form.family == "one":
            shift[body.iq], q_gain[body.iq], v_gain[body.iv] = joint.shift, joint.gain, joint.gain
        elif form.parent_axes[0]:
            turned.append((body.iv.start, body.iq.start + 3))
    return StateMap(
        q_places=q_places,
        v_places=v_places,
        shift=shift if shift.any() else None,
        q_gain=q_gain if (q_gain != 1.0).any() else None,
        v_gain=v_gain if (v_gain != 1.0).any() else None,
        turned=tuple(turned),
    )
