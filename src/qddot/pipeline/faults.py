"""Seeded faults: mistakes that people make, put into files, logs and settings that were right.

Each names the steps that should see it and the causes that the doctor may name. `docs/faults.py`
runs the pipeline on all of them, and on as many cases without a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from qddot.errors import QddotError
from qddot.loaders.load import locate_source
from qddot.pipeline.context import PipelineSettings
from qddot.pipeline.fault_cases import (
    FRICTION,
    PERIOD,
    SPEED,
    Fault,
    make_log_fault,
    write_file,
    write_log,
)
from qddot.pipeline.sensor_faults import SENSOR_FAULTS
from qddot.pipeline.virtual import VirtualLog, fourier_motion, named_generator
from qddot.robot.robot import Robot, load

__all__ = ["KINDS", "seed_fault"]

_OTHER, _DRAWS = 0.3, 50
"""Share of the torque by which that of another robot differs at least, and bodies drawn for it."""
_LEAST_CHANGE = 0.5
"""Relative change of a tensor from which a wrong frame of it matters."""
_ENTRIES = {
    "ixx": (0, 0),
    "ixy": (0, 1),
    "ixz": (0, 2),
    "iyy": (1, 1),
    "iyz": (1, 2),
    "izz": (2, 2),
}


def seed_fault(kind: str, folder: Path, name: str, seed: int) -> Fault:
    """A fault of one of KINDS in a robot by name; the seed draws link, joint and size."""
    rng = named_generator(seed, kind)
    made = KINDS[kind](folder, name, seed, rng)
    steps, causes = _EXPECTED[kind]
    facts: dict[str, Any] = {"kind": kind, "steps": steps, "causes": causes, **made}
    facts["detail"] = f"{Path(name).stem}: {facts['detail']}"
    facts["source"] = str(facts["source"])
    return Fault(**facts)


def _change_tensor(
    folder: Path,
    name: str,
    rng: np.random.Generator,
    change: Callable[[np.ndarray, float, np.ndarray], np.ndarray],
) -> tuple[Path, str]:
    """A file with another tensor at a random moving link; `change` has tensor, mass, centre."""
    file, robot = write_file(folder, name)
    tree = ElementTree.parse(file)
    links = [x for x in tree.findall("link") if x.get("name") in robot.body_names]
    for k in rng.permutation(len(links)):
        inertial = links[k].find("inertial")
        inertia, mass = links[k].find("inertial/inertia"), links[k].find("inertial/mass")
        if inertial is None or inertia is None or mass is None:
            continue
        origin = inertial.find("origin")
        centre = "0 0 0" if origin is None else origin.get("xyz", "0 0 0")
        tensor = np.zeros((3, 3))
        for key, (i, j) in _ENTRIES.items():
            tensor[i, j] = tensor[j, i] = float(inertia.get(key, "0"))
        made = change(tensor, float(mass.get("value", "0")), np.array(centre.split(), float))
        # a change that nobody would notice is no fault
        if np.linalg.norm(made - tensor) < _LEAST_CHANGE * np.linalg.norm(tensor):
            continue
        for key, (i, j) in _ENTRIES.items():
            inertia.set(key, f"{made[i, j]:.9g}")
        tree.write(file)
        return file, str(links[k].get("name"))
    raise ValueError(f"no link of {name} has a tensor that would change by {_LEAST_CHANGE:g}")


def _misplace_tensor(
    folder: Path, name: str, seed: int, rng: np.random.Generator
) -> dict[str, Any]:
    about_origin = seed % 2 == 0

    def change(tensor: np.ndarray, mass: float, c: np.ndarray) -> np.ndarray:
        if about_origin:
            return tensor + mass * (c @ c * np.eye(3) - np.outer(c, c))
        # a quarter turn about the axis for which it matters most
        turns = [np.roll(np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]]), k, (0, 1)) for k in range(3)]
        return max((R @ tensor @ R.T for R in turns), key=lambda T: np.linalg.norm(T - tensor))

    file, link = _change_tensor(folder, name, rng, change)
    words = "about the origin of the link" if about_origin else "in axes turned by a quarter"
    return {
        "detail": f"{link}, tensor {words}",
        "source": file,
        "settings": PipelineSettings(seed=seed),
    }


def _grow_tensor(folder: Path, name: str, seed: int, rng: np.random.Generator) -> dict[str, Any]:
    file, link = _change_tensor(folder, name, rng, lambda tensor, m, c: 10.0 * tensor)
    return {
        "detail": f"{link}, tensor 10 ×",
        "source": file,
        "settings": PipelineSettings(seed=seed),
    }


def _add_payload(folder: Path, name: str, seed: int, rng: np.random.Generator) -> dict[str, Any]:
    file, robot = write_file(folder, name)
    mass = float(rng.uniform(0.05, 0.15) * robot.model.mass)
    frame = robot.frame_names[-1]
    loaded = robot.with_payload(frame, mass, (0.0, 0.0, float(rng.uniform(0.0, 0.1))))
    log = write_log(folder / "log.csv", loaded, seed)
    settings = PipelineSettings(log=log, seed=seed)
    return {"detail": f"{mass:.2g} kg at {frame}", "source": file, "settings": settings}


def _flip_gravity(folder: Path, name: str, seed: int, rng: np.random.Generator) -> dict[str, Any]:
    file, robot = write_file(folder, name)
    if seed % 2:
        from qddot.writers import convert

        upside = folder / f"{file.stem}.xml"
        convert(file, upside)
        tree = ElementTree.parse(upside)
        option = tree.find("option")
        if option is None:
            option = ElementTree.SubElement(tree.getroot(), "option")
        option.set("gravity", "0 0 9.81")
        tree.write(upside)
        settings = PipelineSettings(seed=seed)
        return {"detail": "gravity up in a MJCF file", "source": upside, "settings": settings,
                "steps": (4,)}  # fmt: skip
    log = write_log(folder / "log.csv", robot.with_gravity((0.0, 0.0, 9.81)), seed)
    settings = PipelineSettings(log=log, seed=seed)
    return {"detail": "log of the robot on a ceiling", "source": file, "settings": settings}


def _swap_joints(folder: Path, name: str, seed: int, rng: np.random.Generator) -> dict[str, Any]:
    n = len(load(locate_source(name)).joint_names)
    i, j = sorted(rng.choice(n, 2, replace=False).tolist())
    order = np.arange(n)
    order[[i, j]] = j, i
    if seed % 2:
        file, robot = write_file(folder, name)
        meant = ",".join(robot.joint_names[k] for k in order)
        settings = PipelineSettings(expect={"joints": meant}, seed=seed)
        detail = f"joints {i + 1} and {j + 1} in another order than meant"
        return {"detail": detail, "source": file, "settings": settings, "steps": (3,)}
    detail = f"torques {i + 1} and {j + 1} exchanged"
    return make_log_fault(
        folder, name, seed, detail, lambda _, log: replace(log, tau=log.tau[:, order])
    )


def _flip_torque(folder: Path, name: str, seed: int, rng: np.random.Generator) -> dict[str, Any]:
    robot = load(locate_source(name))
    # a joint that carries something: the sign of a torque of nothing cannot be seen
    weight = np.abs(robot.gravity(robot.random(rng, 50))).mean(axis=0)
    joint = int(rng.choice(np.flatnonzero(weight > 0.02 * weight.max())))
    sign = np.where(np.arange(robot.nv) == joint, -1.0, 1.0)
    detail = f"torque {joint + 1} with the other sign"
    return make_log_fault(
        folder, name, seed, detail, lambda _, log: replace(log, tau=log.tau * sign)
    )


def _mistake_base(folder: Path, name: str, seed: int, rng: np.random.Generator) -> dict[str, Any]:
    meant = "free" if name in _FLOATING else "fixed"
    base: Any = "fixed" if meant == "free" else "free"
    settings = PipelineSettings(base=base, expect={"base": meant}, seed=seed)
    return {"detail": f"base {base}, {meant} is meant", "source": name, "settings": settings}


def _step_explicitly(
    folder: Path, name: str, seed: int, rng: np.random.Generator
) -> dict[str, Any]:
    dt = float(rng.choice([5e-4, 1e-3, 2e-3]))
    settings = PipelineSettings(integrator="euler", dt=dt, seed=seed)
    return {"detail": f"euler, {dt:g} s", "source": name, "settings": settings}


def _flip_coriolis(folder: Path, name: str, seed: int, rng: np.random.Generator) -> dict[str, Any]:
    def change(robot: Robot, log: VirtualLog) -> VirtualLog:
        turned = 2.0 * (robot.bias(log.q, log.v) - robot.gravity(log.q))
        return replace(log, tau=log.tau - turned)

    return make_log_fault(folder, name, seed, "τ of the user with −C q̇", change)


def _delay_torques(folder: Path, name: str, seed: int, rng: np.random.Generator) -> dict[str, Any]:
    samples = int(rng.integers(5, 25))

    def change(robot: Robot, log: VirtualLog) -> VirtualLog:
        held = np.repeat(log.tau[:1], samples, axis=0)
        return replace(log, tau=np.concatenate([held, log.tau[:-samples]]))

    return make_log_fault(folder, name, seed, f"torques {2 * samples} ms late", change)


def _omit_friction(folder: Path, name: str, seed: int, rng: np.random.Generator) -> dict[str, Any]:
    _, robot = write_file(folder, name)
    log = write_log(folder / "log.csv", robot, seed)
    file, _ = write_file(folder, name, friction=False)
    settings = PipelineSettings(log=log, seed=seed)
    detail = f"friction of {100 * FRICTION:g} % of the holding torques not in the file"
    return {"detail": detail, "source": file, "settings": settings}


def _exchange_robot(folder: Path, name: str, seed: int, rng: np.random.Generator) -> dict[str, Any]:
    file, robot = write_file(folder, name)
    q, v, a = fourier_motion(robot, seed, PERIOD, speed=SPEED)(np.linspace(0.0, PERIOD, 200))
    own = robot.inverse_dynamics(q, v, a)
    for _ in range(_DRAWS):
        # the same joints, other bodies: sizes and masses of another machine
        rows = robot.inertial_parameters[rng.permutation(robot.model.nb)] * rng.uniform(0.4, 2.5)
        other = robot.with_parameters(rows)
        tau = other.inverse_dynamics(q, v, a)
        # one whose torques hardly differ is this robot with masses a bit off
        share = np.mean((tau - own) ** 2, axis=0) / (np.mean(tau**2, axis=0) + 1e-12)
        if np.sqrt(np.mean(share)) < _OTHER:
            continue
        try:
            log = write_log(folder / "log.csv", other, seed)
        except QddotError:
            continue
        settings = PipelineSettings(log=log, seed=seed)
        return {"detail": "bodies in another order and size", "source": file, "settings": settings}
    raise QddotError(f"no other bodies on the joints of {name} move as they are told")


_FLOATING = ("quadruped", "quadrotor")
KINDS: Mapping[str, Callable[[Path, str, int, np.random.Generator], dict[str, Any]]] = {
    "wrong inertia frame": _misplace_tensor,
    "tensor 10 ×": _grow_tensor,
    "missing payload": _add_payload,
    "flipped gravity": _flip_gravity,
    "swapped joints": _swap_joints,
    "sign of a torque": _flip_torque,
    "wrong base type": _mistake_base,
    "explicit integrator on stiff contact": _step_explicitly,
    "Coriolis sign in a user's torque": _flip_coriolis,
    "delay": _delay_torques,
    "friction missing": _omit_friction,
    "log of another robot": _exchange_robot,
    **{kind: make for kind, (make, _, _) in SENSOR_FAULTS.items()},
}
"""Makers of faults by kind."""
_EXPECTED: Mapping[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "wrong inertia frame": ((2,), ("wrong frame", "swapped moments", "about the origin")),
    "tensor 10 ×": ((2,), ("power of ten", "units", "tensor does not fit the link")),
    "missing payload": ((7,), ("payload missing",)),
    "flipped gravity": ((7,), ("gravity sign",)),
    "swapped joints": ((7,), ("joints swapped",)),
    "sign of a torque": ((7,), ("sign of a torque",)),
    "wrong base type": ((3,), ("wrong base type",)),
    "explicit integrator on stiff contact": ((9, 10), ("explicit integrator on stiff contact",)),
    "Coriolis sign in a user's torque": ((7,), ("Coriolis sign",)),
    "delay": ((7,), ("delay",)),
    "friction missing": ((8,), ("friction not modelled",)),
    "log of another robot": ((7,), ("log of another robot",)),
    **{kind: (steps, causes) for kind, (_, steps, causes) in SENSOR_FAULTS.items()},
}
"""Steps that should see a fault, and how the doctor may begin to name it."""
