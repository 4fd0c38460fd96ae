"""Actuators of MJCF at the joints they turn: which joint, and how strong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import mujoco

__all__ = ["driven_joint", "drivers_by_joint", "effort_limit", "force_range"]

Range = tuple[float, float]
_UNBOUNDED: Range = (-math.inf, math.inf)


def driven_joint(m: mujoco.MjModel, a: int) -> int | None:
    """The hinge or slide that an actuator turns; None for other transmissions."""
    import mujoco

    through, j = mujoco.mjtTrn(int(m.actuator_trntype[a])), int(m.actuator_trnid[a, 0])
    if through not in (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT):
        return None
    single = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
    return j if mujoco.mjtJoint(int(m.jnt_type[j])) in single else None


def drivers_by_joint(m: mujoco.MjModel) -> dict[int, list[int]]:
    """The actuators that turn each hinge or slide."""
    drivers: dict[int, list[int]] = {}
    for a in range(m.nu):
        j = driven_joint(m, a)
        if j is not None:
            drivers.setdefault(j, []).append(a)
    return drivers


def effort_limit(m: mujoco.MjModel, j: int, drivers: Sequence[int]) -> float:
    """Largest torque or force that the actuators of a hinge or slide can give; inf without limit.

    Ranges of actuators that share a joint add up, times their gears; `actuatorfrcrange` of the
    joint bounds the sum. A joint whose actuators can give nothing has no limit.
    """
    driving = []
    for a in drivers:
        # the file can turn the group of an actuator off
        group = int(m.actuator_group[a])
        if not (0 <= group < 31 and m.opt.disableactuator & 1 << group):
            driving.append(a)
    low, high = (0.0, 0.0) if driving else _UNBOUNDED
    for a in driving:
        ends = _scale_range(force_range(m, a), float(m.actuator_gear[a, 0]))
        low, high = low + ends[0], high + ends[1]
    if m.jnt_actfrclimited[j]:
        low, high = _clip_range((low, high), m.jnt_actfrcrange[j])
    return max(abs(low), abs(high)) or math.inf


def force_range(m: mujoco.MjModel, a: int) -> Range:
    """Smallest and largest force of an actuator, before its gear."""
    import mujoco

    gain, gain_kind = m.actuator_gainprm[a], mujoco.mjtGain(int(m.actuator_gaintype[a]))
    bias, bias_kind = m.actuator_biasprm[a], mujoco.mjtBias(int(m.actuator_biastype[a]))
    plain = bias_kind == mujoco.mjtBias.mjBIAS_NONE
    # a force that depends on the state has no bound of its own
    steady = gain_kind == mujoco.mjtGain.mjGAIN_FIXED or (
        gain_kind == mujoco.mjtGain.mjGAIN_AFFINE and not gain[1:3].any()
    )
    steady &= plain or (bias_kind == mujoco.mjtBias.mjBIAS_AFFINE and not bias[1:3].any())
    ends = _UNBOUNDED
    if steady:
        # range of the control or, where the actuator has dynamics, of its activation
        signal, kind = _UNBOUNDED, mujoco.mjtDyn(int(m.actuator_dyntype[a]))
        filters = (mujoco.mjtDyn.mjDYN_FILTER, mujoco.mjtDyn.mjDYN_FILTEREXACT)
        clamped = m.actuator_ctrllimited[a] and not m.opt.disableflags & int(
            mujoco.mjtDisableBit.mjDSBL_CLAMPCTRL
        )
        if clamped and kind in (mujoco.mjtDyn.mjDYN_NONE, *filters):
            signal = (float(m.actuator_ctrlrange[a, 0]), float(m.actuator_ctrlrange[a, 1]))
        if kind in filters:
            # a filter starts at zero and follows the control
            signal = (min(signal[0], 0.0), max(signal[1], 0.0))
        if kind != mujoco.mjtDyn.mjDYN_NONE and m.actuator_actlimited[a]:
            signal = _clip_range(signal, m.actuator_actrange[a])
        # the force is affine in that signal
        offset = 0.0 if plain else float(bias[0])
        low, high = _scale_range(signal, float(gain[0]))
        ends = (low + offset, high + offset)
    return _clip_range(ends, m.actuator_forcerange[a]) if m.actuator_forcelimited[a] else ends


def _scale_range(ends: Range, factor: float) -> Range:
    if factor == 0.0:
        return 0.0, 0.0
    low, high = sorted(factor * x for x in ends)
    return low, high


def _clip_range(ends: Range, bounds: Any) -> Range:
    low, high = (min(max(x, float(bounds[0])), float(bounds[1])) for x in ends)
    return low, high
