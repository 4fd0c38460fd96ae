"""Bodies that the tests of contact drop, slide and stack."""

from __future__ import annotations

from qddot.model.assembly import assemble
from qddot.model.joints import JOINTS, Joint, Limits
from qddot.model.links import Link
from qddot.model.model import Model
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Inertia, Mat3, Sym3, Transform, Vec3

__all__ = ["GRAVITY", "ball", "block", "column", "pendulum"]

GRAVITY = 9.81


def _placed(height: float) -> Transform:
    return Transform(Mat3.identity(), Vec3(0.0, 0.0, height))


def _free(name: str, mass: float, tensor: tuple[float, float, float]) -> Model:
    inertia = Inertia.at_com(mass, Vec3.zero(), Sym3.diagonal(*tensor))
    return assemble(
        name, [Link(name, None, Transform.identity(), Joint("root", JOINTS["free"]), inertia)]
    )


def block(native: bool = True) -> Robot:
    """A free block of 2 kg, 0.2 × 0.2 × 0.1 m, with its frame at the centre."""
    return Robot(_free("block", 2.0, (2 / 12 * 0.05, 2 / 12 * 0.05, 2 / 12 * 0.08)), native=native)


def ball(native: bool = True) -> Robot:
    """A free homogeneous ball of 1 kg and radius 0.1 m."""
    return Robot(_free("ball", 1.0, (0.004, 0.004, 0.004)), native=native)


def column(*masses: float, native: bool = False) -> Robot:
    """Bodies that slide on one vertical line, each by a joint of its own."""
    up = (Vec3(0.0, 0.0, 1.0),)
    links = [
        Link(
            f"b{k}",
            None,
            Transform.identity(),
            Joint(f"j{k}", JOINTS["prismatic"], up),
            Inertia.at_com(mass, Vec3.zero(), Sym3.diagonal(0.1, 0.1, 0.1)),
        )
        for k, mass in enumerate(masses)
    ]
    return Robot(assemble("column", links), native=native)


def pendulum(lower: float, upper: float, effort: float = 20.0, native: bool = False) -> Robot:
    """A point of 1 kg at 0.5 m from a level axis; level at zero, it falls to positive angles."""
    joint = Joint(
        "hinge",
        JOINTS["revolute"],
        (Vec3(0.0, 1.0, 0.0),),
        limits=Limits(lower, upper, effort=effort),
    )
    inertia = Inertia.at_com(1.0, Vec3(0.5, 0.0, 0.0), Sym3.diagonal(1e-4, 1e-4, 1e-4))
    return Robot(
        assemble("pendulum", [Link("rod", None, _placed(1.0), joint, inertia)]), native=native
    )
