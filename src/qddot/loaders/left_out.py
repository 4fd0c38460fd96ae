"""What a file has and no rollout does: motors, tendons and plugins, one finding each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from qddot.errors import count_text
from qddot.loaders.mjcf_actuators import driven_joint
from qddot.loaders.urdf_document import UrdfDocument
from qddot.model.links import Finding

if TYPE_CHECKING:
    import mujoco

__all__ = ["left_out_of_mjcf", "left_out_of_urdf"]


def left_out_of_mjcf(m: mujoco.MjModel) -> Iterator[Finding]:
    """Actuators by what they do, tendons and plugins of a compiled model."""
    import mujoco

    none, user = int(mujoco.mjtBias.mjBIAS_NONE), int(mujoco.mjtDyn.mjDYN_USER)
    body_like = (int(mujoco.mjtTrn.mjTRN_SITE), int(mujoco.mjtTrn.mjTRN_BODY))
    servos = rotors = others = 0
    for a in range(m.nu):
        if int(m.actuator_trntype[a]) in body_like:
            rotors += 1
        elif m.actuator_biastype[a] != none or m.actuator_dyntype[a] == user:
            servos += 1
        else:
            others += driven_joint(m, a) is None
    for count, noun, message in (
        (rotors, "actuator", "act at sites or bodies, as rotors do: their forces are left out"),
        (servos, "actuator", "have feedback of their own, as servos do: a law takes their place"),
        (others, "actuator", "act on no single hinge or slide: their forces are left out"),
        (m.ntendon, "tendon", "left out: no force acts through them"),
        (m.nplugin, "plugin", "left out: their code is not run"),
    ):
        if count:
            yield Finding("info", "left out", count_text(int(count), noun), message)


def left_out_of_urdf(document: UrdfDocument) -> Iterator[Finding]:
    """Transmissions, and plugins of Gazebo."""
    transmissions = sum(1 for _ in document.robot.all("transmission"))
    plugins = sum(1 for x in document.robot.all("gazebo") for _ in x.all("plugin"))
    for count, noun, message in (
        (transmissions, "transmission", "left out: torques are those of joints, after the gears"),
        (plugins, "plugin", "left out: their code is not run"),
    ):
        if count:
            yield Finding("info", "left out", count_text(count, noun), message)
