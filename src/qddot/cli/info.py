"""`qddot info` and `qddot robots`: what a robot is, and which there are."""

from __future__ import annotations

import dataclasses
import math

from rich.table import Table

from qddot.cli.terminal import (
    BaseOption,
    CouplingsChoice,
    CouplingsOption,
    JsonOption,
    RobotArgument,
    StrictOption,
    TrustOption,
    errors_as_messages,
    load_robot,
    out,
    print_findings,
    print_json,
    style_text,
)
from qddot.errors import count_text
from qddot.loaders import robot_names
from qddot.model.model import WORLD, Model

__all__ = ["info", "robots"]


def robots(as_json: JsonOption = False) -> None:
    """List the robots that can be loaded by name."""
    names = robot_names()
    if as_json:
        print_json(names)
    else:
        out.print("\n".join(names))


def info(
    robot: RobotArgument = "ur5e",
    base: BaseOption = None,
    couplings: CouplingsOption = CouplingsChoice.exact,
    strict: StrictOption = False,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show a robot: structure, mass, degrees of freedom, health."""
    with errors_as_messages():
        loaded = load_robot(robot, base, couplings, strict, trust)
        # everything `info` shows, as plain data
        m = loaded.model
        summary = {
            "name": m.name,
            "mass": m.mass,
            "nq": m.nq,
            "nv": m.nv,
            "gravity": list(m.gravity),
            "bodies": [
                {
                    "name": b.name,
                    "parent": m.bodies[b.parent].name if b.parent != WORLD else None,
                    "joint": b.joint.name,
                    "kind": b.joint.kind.name,
                    "leader": b.joint.leader,
                    "mass": b.inertia.mass,
                    "com": list(b.inertia.com),
                    "limits": dataclasses.asdict(b.joint.limits),
                    "drivetrain": dataclasses.asdict(b.joint.drivetrain),
                }
                for b in m.bodies
            ],
            "frames": [f.name for f in m.frames],
            "loops": [dataclasses.asdict(loop) for loop in m.loops],
            "configurations": {k: list(v) for k, v in m.configurations.items()},
            "health": [dataclasses.asdict(f) for f in loaded.health],
        }
    if as_json:
        print_json(summary)
        return
    _print_summary(loaded.model)
    if not loaded.health:
        out.print(style_text(("health: nothing to report", "green")))
    print_findings(loaded.health)


def _print_summary(m: Model) -> None:
    base = f"{m.base_inertia.mass:.4g} kg of it fixed to the world"
    bodies = count_text(m.nb, "moving body", "moving bodies")
    freedoms = count_text(m.nv, "degree of freedom", "degrees of freedom")
    frames = count_text(len(m.frames), "frame")
    facts = f"{m.mass:.4g} kg ({base}), {bodies}, {freedoms} (nq = {m.nq}), {frames}"
    out.print(style_text((m.name, "bold"), f": {facts}"))
    # a row a body; columns in which no body has anything are left out
    heads = ("joint", "kind", "from → to", "mass, kg", "range", "effort", "drivetrain")
    rows = []
    for b in m.bodies:
        joint, limits = b.joint, b.joint.limits
        kind = joint.kind.name
        if joint.leader is not None:
            offset = f" {joint.offset:+g}" if joint.offset else ""
            kind += f" = {joint.ratio:g} · {joint.leader}{offset}"
        elif joint.offset:
            kind += f", ref {-joint.offset:g}"
        bounded = limits.lower > -math.inf or limits.upper < math.inf
        parent = m.bodies[b.parent].name if b.parent != WORLD else "world"
        ahead, back = joint.drivetrain.friction_levels
        friction = {"friction": ahead}
        if ahead != back:
            friction = {"friction forward": ahead, "friction backward": back}
        parts = {
            "armature": joint.drivetrain.reflected_inertia,
            "damping": joint.drivetrain.damping,
            **friction,
            "stiffness": joint.drivetrain.stiffness,
        }
        rows.append(
            (
                joint.name,
                kind,
                f"{parent} → {b.name}",
                f"{b.inertia.mass:.4g}",
                f"{limits.lower:.4g} … {limits.upper:.4g}" if bounded else "",
                f"{limits.effort:.4g}" if limits.effort < math.inf else "",
                ", ".join(f"{k} {v:g}" for k, v in parts.items() if v),
            )
        )
    shown = [k for k in range(len(heads)) if any(row[k] for row in rows)]
    table = Table()
    for k in shown:
        table.add_column(heads[k], overflow="fold")
    for row in rows:
        table.add_row(*(row[k] for k in shown))
    out.print(table)
    for loop in m.loops:
        ends = f"{loop.frame1} and {loop.frame2}"
        out.print(f"loop {loop.name!r}: {loop.kind}, between {ends}")
    if m.configurations:
        out.print(f"named configurations: {', '.join(m.configurations)}")
    out.print(f"frames: {', '.join(f.name for f in m.frames)}")
