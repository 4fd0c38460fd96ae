"""Traces: what happened in a run, kept, loaded and drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from qddot.display.plots import PALETTE, new_figure, save_figure
from qddot.display.text import Readable
from qddot.errors import DescriptionError, InvalidArgument
from qddot.files import fill_whole
from qddot.loaders.arrays import check_motion, read_arrays

__all__ = ["Event", "Trace", "load_trace"]


@dataclass(frozen=True)
class Event:
    """Something that happened in a run: when, and in words."""

    time: float
    label: str


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Readable):
    """A run, by batch, sample and coordinate: states at the start of each control period.

    `tau` are the torques commanded there, `wrenches` the true wrenches at the sensed frames
    (contact in the step before, and pushes), `memory` the memory of the law after the sample.
    `events` are of single runs; in batches they name the members whose law gave no torques.
    """

    time: np.ndarray
    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray
    dt: float
    law: str
    plant: str
    joints: tuple[str, ...] = ()
    wrenches: Mapping[str, np.ndarray] = field(default_factory=dict)
    memory: Mapping[str, np.ndarray] = field(default_factory=dict)
    events: tuple[Event, ...] = ()

    def save(self, file: str | Path) -> None:
        """Write the trace as a NumPy archive (.npz); the file appears whole."""
        target = Path(file)
        if target.suffix != ".npz":
            raise InvalidArgument("file", str(file), "its name ends in .npz")
        arrays = {name: getattr(self, name) for name in ("time", "q", "v", "tau")}
        arrays |= {f"wrench {name}": x for name, x in self.wrenches.items()}
        arrays |= {f"memory {name}": x for name, x in self.memory.items()}
        facts = [repr(self.dt), self.law, self.plant, *self.joints]
        times = np.array([e.time for e in self.events])
        labels = np.array([e.label for e in self.events], dtype=str)

        def fill(draft: Path) -> None:
            with draft.open("wb") as stream:
                np.savez_compressed(
                    stream, facts=np.array(facts), event_times=times, events=labels, **arrays
                )

        fill_whole(target, fill, force=True)

    def plot(self, file: str | Path | None = None) -> Any:
        """A matplotlib figure of joints, torques and contact forces over time, for one run.

        With `file` it is saved there too.
        """
        if self.q.ndim != 2:
            raise InvalidArgument("trace", self.q.shape, "a plot shows one run, not a batch")
        parts = [("q", "rad", self.q, self.joints), ("torque", "N m", self.tau, self.joints)]
        parts += [
            (f"force at {name}", "N", x[:, :3], ("x", "y", "z"))
            for name, x in self.wrenches.items()
        ]
        figure = new_figure(9.0, 0.6 + 2.3 * len(parts))
        axes = np.atleast_1d(figure.subplots(len(parts), sharex=True))
        for ax, (title, unit, values, names) in zip(axes, parts, strict=True):
            for k, column in enumerate(values.T):
                label = names[k] if k < len(names) else str(k)
                ax.plot(self.time, column, color=PALETTE[k % len(PALETTE)], lw=1.2, label=label)
            for event in self.events:
                ax.axvline(event.time, color="0.6", lw=0.8, ls=":")
            ax.set_ylabel(f"{title}, {unit}")
            # beside the panel, where it covers no curve
            ax.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
            ax.grid(alpha=0.25)
            ax.spines[["top", "right"]].set_visible(False)
        axes[0].set_title(f"{self.law} on the plant {self.plant!r}")
        axes[-1].set_xlabel("time, s")
        if file is not None:
            save_figure(figure, Path(file))
        return figure


def load_trace(file: str | Path) -> Trace:
    """A trace that `Trace.save` wrote."""
    try:
        data = read_arrays(file)
        check_motion(file, {name: data[name] for name in ("time", "q", "v", "tau")})
        dt, law, plant, *joints = (str(x) for x in data.pop("facts"))
        times, labels = data.pop("event_times"), data.pop("events")
        events = tuple(Event(float(t), str(x)) for t, x in zip(times, labels, strict=True))
        named: dict[str, dict[str, np.ndarray]] = {"wrench": {}, "memory": {}}
        for name in [n for n in data if " " in n]:
            kind, key = name.split(" ", 1)
            named[kind][key] = data.pop(name)
        return Trace(
            **data,
            dt=float(dt),
            law=law,
            plant=plant,
            joints=tuple(joints),
            wrenches=named["wrench"],
            memory=named["memory"],
            events=events,
        )
    except DescriptionError as error:
        raise DescriptionError(str(file), f"it is no trace of qddot: {error.reason}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DescriptionError(str(file), f"it is no trace of qddot: {error}") from error
