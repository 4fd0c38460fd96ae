"""The planar arms of the textbooks, for those who have no file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from qddot.errors import InvalidArgument, Unsupported
from qddot.model.assembly import assemble
from qddot.model.joints import JOINTS, Joint
from qddot.model.links import Link
from qddot.robot.robot import Robot
from qddot.spatial.algebra import Inertia, Mat3, Sym3, Transform, Vec3

__all__ = ["planar_arm"]


def planar_arm(
    count: int = 2,
    masses: Literal["point", "link"] = "point",
    zero: Literal["horizontal", "upright"] = "horizontal",
    *,
    m: Sequence[float] | None = None,
    l: Sequence[float] | None = None,
    r: Sequence[float] | None = None,
    I: Sequence[float] | None = None,
) -> Robot:
    """An arm of revolute joints in the vertical x–z plane; `derive` gives its closed form.

    Masses are points at the ends of the links (Lynch & Park 2017, §8.1.1), or those of links with
    the centre of mass at `r` and the moment `I` about it. At zero the arm lies along x, or stands
    upright along z. Masses `m` and lengths `l` are one kg and one m unless given.
    """
    if masses not in ("point", "link"):
        raise InvalidArgument("masses", masses, "accepted: 'point', 'link'")
    if zero not in ("horizontal", "upright"):
        raise InvalidArgument("zero", zero, "accepted: 'horizontal', 'upright'")
    if not isinstance(count, int) or count < 1:
        raise InvalidArgument("count", count, "an arm has at least one joint")
    if masses == "point" and not r is I is None:
        raise Unsupported("r, I", (r, I), "point masses have none; masses='link' has")
    along = Vec3(1.0, 0.0, 0.0) if zero == "horizontal" else Vec3(0.0, 0.0, 1.0)
    mass, length = _float_list("m", m, count, 1.0), _float_list("l", l, count, 1.0)
    center = length if masses == "point" else _float_list("r", r, count, 0.5)
    moment = [0.0] * count if masses == "point" else _float_list("I", I, count, 0.1)
    # each link begins where the one before it ends
    links = []
    for i in range(count):
        place = along * (length[i - 1] if i else 0.0)
        thin = Vec3(1.0, 1.0, 1.0) - along
        tensor = Sym3.diagonal(*(thin * moment[i]))
        joint = Joint(f"joint{i + 1}", JOINTS["revolute"], (Vec3(0.0, -1.0, 0.0),))
        links.append(
            Link(
                f"link{i + 1}",
                f"link{i}" if i else None,
                Transform(Mat3.identity(), place),
                joint,
                Inertia.at_com(mass[i], along * center[i], tensor),
            )
        )
    return Robot(assemble(f"planar_{count}r_{masses}", links))


def _float_list(name: str, given: Sequence[float] | None, count: int, value: float) -> list[float]:
    """A list of `count` floats: the given ones, or one value repeated."""
    if given is None:
        return [value] * count
    try:
        numbers = [float(x) for x in given]
    except (TypeError, ValueError) as error:
        raise InvalidArgument(name, given, f"it is a list of {count} numbers") from error
    if len(numbers) != count:
        raise InvalidArgument(name, given, f"it is a list of {count} numbers")
    return numbers
