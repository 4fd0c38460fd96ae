"""Mistakes put into logs, to try the detective on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qddot.errors import InvalidArgument
from qddot.identify.log import Log

__all__ = ["CORRUPTIONS", "corrupt_log"]

CORRUPTIONS = (
    "torque sign", "position sign", "swapped torques", "swapped positions", "swapped joints",
    "delay", "gain", "dead joint", "saturation",
)  # fmt: skip


def corrupt_log(log: Log, kind: str, joints: tuple[int, ...] = (), size: float = 0.0) -> Log:
    """The log with a mistake in it.

    `joints` are those concerned; `size` is the samples of a delay of the torques, the factor of a
    gain, or the share of the peak torque at which a drive saturates.
    """
    if kind not in CORRUPTIONS:
        raise InvalidArgument("kind", kind, f"it is one of {', '.join(CORRUPTIONS)}")
    q, tau = np.array(log.q), np.array(log.tau)
    v = None if log.v is None else np.array(log.v)
    motion = [x for x in (q, v) if x is not None]
    chosen, turned = list(joints), list(joints)[::-1]
    if kind == "torque sign":
        tau[:, chosen] *= -1.0
    elif kind == "position sign":
        for x in motion:
            x[:, chosen] *= -1.0
    elif kind.startswith("swapped"):
        parts = {"swapped torques": [tau], "swapped positions": motion}.get(kind, [tau, *motion])
        for x in parts:
            x[:, chosen] = x[:, turned]
    elif kind == "delay":
        steps = int(size)
        kept = len(log) - abs(steps)
        tau = tau[:kept] if steps > 0 else tau[-steps:]
        shifted = log.between(abs(steps), len(log)) if steps > 0 else log.between(0, kept)
        return replace(shifted, tau=tau)
    elif kind == "gain":
        tau[:, chosen] *= size
    elif kind == "dead joint":
        tau[:, chosen] = 0.0
    else:
        top = size * np.abs(tau[:, chosen]).max(axis=0)
        tau[:, chosen] = np.clip(tau[:, chosen], -top, top)
    return replace(log, q=q, tau=tau, v=v)
