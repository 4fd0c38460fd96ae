"""The force laboratory: experiments with a value, a threshold and a verdict each."""

from __future__ import annotations

from qddot.control.laboratory.collision import collision
from qddot.control.laboratory.compliance import compliance
from qddot.control.laboratory.contact import (
    SlidingForce,
    contact_law,
    hold,
    slide_ball,
    trace,
)
from qddot.control.laboratory.gravity import gravity, parity
from qddot.control.laboratory.panel import Draws, draw_members, panel
from qddot.control.laboratory.plots import plot_result
from qddot.control.laboratory.result import LABELS, Measure, Result
from qddot.control.laboratory.scene import (
    Surroundings,
    find_configuration,
    jamming_friction,
    laboratory_robot,
    make_plant,
    start_configuration,
    start_pose,
)
from qddot.control.laboratory.tracking import singular_stretch, tracking

__all__ = [
    "EXPERIMENTS",
    "LABELS",
    "Draws",
    "Measure",
    "Result",
    "SlidingForce",
    "Surroundings",
    "collision",
    "compliance",
    "contact_law",
    "draw_members",
    "find_configuration",
    "gravity",
    "hold",
    "jamming_friction",
    "laboratory_robot",
    "make_plant",
    "panel",
    "parity",
    "plot_result",
    "singular_stretch",
    "slide_ball",
    "start_configuration",
    "start_pose",
    "trace",
    "tracking",
]

EXPERIMENTS = {
    "gravity": gravity,
    "compliance": compliance,
    "hold": hold,
    "trace": trace,
    "collision": collision,
    "tracking": tracking,
}
"""Experiments by name; each takes the kind of plant and `on_step`, and gives a Result."""
