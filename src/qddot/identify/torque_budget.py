"""Torque budget: what the measured torque of each joint is made of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from qddot.display.plots import PALETTE, save_figure
from qddot.display.progress import OnStep
from qddot.display.text import Readable
from qddot.errors import InvalidArgument
from qddot.identify.estimators import interval_factor
from qddot.identify.fitting import Fit
from qddot.identify.log import Log
from qddot.identify.plots import joint_axes
from qddot.identify.validation import held_out_design

__all__ = ["Budget", "budget", "plot_budget"]

_DRIVE_NAMES = {
    "armature": "armature",
    "viscous": "viscous",
    "coulomb": "Coulomb",
    "load": "load friction",
    "offset": "offset",
    "spring": "spring",
}
_SHAPES = ("sqrt", "cubic", "stribeck")
_MERGED = "friction by speed"
_SMALL = 0.005


@dataclass(frozen=True, repr=False)
class Budget(Readable):
    """Terms of the torque over time (terms × n × nv), and their shares with 95 % half-widths.

    The share of a term is its product with the measured torque over that torque's square; shares,
    the rest's included, add up to one.
    """

    joints: tuple[str, ...]
    terms: tuple[str, ...]
    time: np.ndarray
    measured: np.ndarray
    parts: np.ndarray
    shares: np.ndarray
    spreads: np.ndarray

    @property
    def sentences(self) -> tuple[str, ...]:
        """One sentence a joint: the largest shares first."""
        return tuple(self._sentence(j) for j in range(len(self.joints)))

    def _sentence(self, j: int) -> str:
        order = np.argsort(-np.abs(self.shares[:, j]))
        shown = [k for k in order if abs(self.shares[k, j]) >= _SMALL][:4]
        parts = [
            f"{self.terms[k]} {100 * self.shares[k, j]:.0f} ± {100 * self.spreads[k, j]:.1g} %"
            for k in shown
        ]
        size = np.sqrt(np.mean(self.measured[:, j] ** 2))
        return f"{self.joints[j]} carries {size:.3g} N m rms: {', '.join(parts)}."

    def summary(self) -> dict[str, Any]:
        """The budget as plain data."""
        return {
            name: {
                term: {"share": float(self.shares[k, j]), "half_width": float(self.spreads[k, j])}
                for k, term in enumerate(self.terms)
            }
            for j, name in enumerate(self.joints)
        }

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def budget(fit: Fit, log: Log | None = None, on_step: OnStep | None = None) -> Budget:
    """Split the torques of a log (that of the fit by default) into terms of the dynamics."""
    source = fit.design.log if log is None else log
    if tuple(source.joints) != tuple(fit.design.log.joints):
        raise InvalidArgument("log", source.joints, f"the fit is of {fit.design.log.joints}")
    design = held_out_design(fit, source)
    blocks = list(design.blocks(on_step, "budget"))
    q, v, a, tau = (np.concatenate([getattr(b, n) for b in blocks]) for n in ("q", "v", "a", "tau"))
    moving = np.concatenate([b.moving for b in blocks])
    index = np.concatenate([b.index for b in blocks])
    # columns of each term; M q̈, C q̇ and g by three calls of the regressor
    columns, still = fit.design.base.independent, np.zeros_like(q)
    rigid = columns < fit.model.rigid_count
    full = fit.model.regressor(q, v, a)[..., columns]
    rest, pushed = (fit.model.regressor(q, still, x)[..., columns] for x in (still, a))
    groups = {
        "M q̈": np.where(rigid, pushed - rest, 0.0),
        "C q̇": np.where(rigid, full - pushed, 0.0),
        "gravity": np.where(rigid, rest, 0.0),
    }

    def has_shape(place: int) -> bool:
        slices = zip(fit.model.drive_slices, fit.model.drives, strict=True)
        own = [terms for s, terms in slices if s.start <= place < s.stop]
        return any(t.kind in _SHAPES for terms in own for t in terms)

    for k in np.flatnonzero(~rigid):
        kind = fit.model.names[columns[k]].rsplit(".", 1)[1].split("@")[0]
        # laws of speed that overlap have no shares of their own
        merged = kind in _SHAPES or (kind in ("viscous", "coulomb") and has_shape(int(columns[k])))
        name = _MERGED if merged else _DRIVE_NAMES[kind]
        part = groups.setdefault(name, np.zeros_like(full))
        part[..., k] = full[..., k]
    square = np.maximum((tau**2).sum(axis=0), 1e-300)
    parts, shares, spreads = [], [], []
    for group in groups.values():
        group = np.where(moving[..., None], group, 0.0)
        along = np.einsum("tjp,tj->jp", group, tau) / square[:, None]
        parts.append(group @ fit.values)
        shares.append(along @ fit.values)
        variance = np.einsum("jp,pr,jr->j", along, fit.covariance, along)
        spreads.append(interval_factor(fit.freedom) * np.sqrt(np.maximum(variance, 0.0)))
    remainder = tau - sum(parts)
    parts.append(remainder)
    shares.append((remainder * tau).sum(axis=0) / square)
    spreads.append(np.zeros(len(source.joints)))
    return Budget(
        joints=tuple(source.joints),
        terms=(*groups, "rest"),
        time=np.asarray(source.time)[index] - source.time[0],
        measured=tau,
        parts=np.stack(parts),
        shares=np.stack(shares),
        spreads=np.stack(spreads),
    )


def plot_budget(result: Budget, file: str | Path, title: str = "torque budget") -> None:
    """Terms of each joint stacked over time, what pulls up above zero and what pulls down below."""
    figure, axes = joint_axes(len(result.joints), title)
    colours = [*PALETTE, "#c7a6d8", "#9fd0b8", "#e6b8b7"]
    for j, ax in enumerate(axes):
        above = np.zeros(len(result.time))
        below = np.zeros(len(result.time))
        for k, term in enumerate(result.terms):
            x = result.parts[k, :, j]
            colour = "#d0d0d0" if term == "rest" else colours[k % len(colours)]
            for stack, part in ((above, np.maximum(x, 0.0)), (below, np.minimum(x, 0.0))):
                label = term if stack is above else None
                ax.fill_between(result.time, stack, stack + part, color=colour, lw=0, label=label)
                stack += part
        measured = np.where(result.measured[:, j] == 0.0, np.nan, result.measured[:, j])
        ax.plot(result.time, measured, color="black", lw=1.0, label="measured")
        ax.axhline(0.0, color="black", lw=0.5)
        ax.set_title(result.joints[j], fontsize=9)
        ax.set_ylabel("N m", fontsize=8)
        ax.tick_params(labelsize=8)
    for ax in axes[-2:]:
        ax.set_xlabel("s", fontsize=8)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6)
    save_figure(figure, Path(file))
