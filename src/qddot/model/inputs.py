"""Vectors, rotations, poses and tensors from the plain arrays that a user gives."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from qddot.errors import InvalidArgument
from qddot.model.joints import Joint
from qddot.spatial.algebra import (
    Mat3,
    Transform,
    Vec3,
    rotation_from_quaternion,
    rotation_from_rpy,
)
from qddot.spatial.scalar import Scalar

__all__ = [
    "is_list",
    "parse_inertia",
    "parse_placement",
    "parse_real",
    "parse_reals",
    "parse_scalars",
    "parse_tensor",
    "parse_transform",
    "snap_transform",
    "snap_vector",
    "warn_of_degrees",
]

_ROTATION_ERROR = 1e-6
_ORDER = " (xx, xy, yy, xz, yz, zz), or a symmetric 3×3 array"
_ROTATION = (
    "needs a 3×3 rotation matrix, a unit quaternion (x, y, z, w), or roll, pitch and yaw in radians"
)


def _is_scalar(x: Any) -> bool:
    """Whether arithmetic with floats works: on numbers, symbols; not on whole ones beyond those."""
    if isinstance(x, np.ndarray | type):
        return False
    try:
        0.5 * x + 0.5
    except Exception:  # of a foreign object's own operators
        return False
    return True


def parse_scalars(what: str, values: Any, count: int, order: str = "") -> list[Scalar]:
    """Scalars, `count` of them, from a sequence or array, NumPy's own as Python numbers."""
    try:
        given = list(values)
    except TypeError:
        given = []
    single = (isinstance(x, np.generic | np.ndarray) and x.ndim == 0 for x in given)
    scalars = [x.item() if alone else x for x, alone in zip(given, single, strict=True)]
    if len(scalars) != count or not all(map(_is_scalar, scalars)):
        raise InvalidArgument(
            what, values, f"needs {count} number{'s' if count > 1 else ''}{order}"
        )
    return scalars


def parse_reals(what: str, values: Any, count: int, infinite: bool = False) -> list[float]:
    """Real numbers, `count` of them; finite ones unless infinities are accepted."""
    scalars = parse_scalars(what, values, count)
    numeric = all(isinstance(x, float | int) and not isinstance(x, bool) for x in scalars)
    try:
        reals = [float(x) for x in scalars] if numeric else []
    except OverflowError:
        reals = []
    if not reals or any(math.isnan(x) or (math.isinf(x) and not infinite) for x in reals):
        kind = "numbers" if infinite else "finite numbers"
        raise InvalidArgument(
            what, values, f"needs {count} {kind}" if count > 1 else f"needs {kind}"
        )
    return reals


def parse_real(what: str, value: Any, least: float = -math.inf, infinite: bool = False) -> float:
    """A real number that is not below the least one accepted."""
    try:
        (x,) = parse_reals(what, [value], 1, infinite)
    except InvalidArgument:
        x = math.nan
    if not x >= least:
        kind = "a number" if infinite else "a finite number"
        bound = f", {least:g} or more" if least > -math.inf else ""
        raise InvalidArgument(what, value, f"needs {kind}{bound}") from None
    return x


def is_list(given: Any) -> bool:
    """Whether it is a list, tuple or array, not a single number."""
    return isinstance(given, list | tuple) or (isinstance(given, np.ndarray) and given.ndim > 0)


def parse_inertia(what: str, given: Any) -> list[float]:
    """The entries xx, xy, yy, xz, yz, zz of an inertia tensor.

    It is given by them, as a symmetric 3×3 array, by three principal moments along the axes, or as
    None for a point mass.
    """
    if given is None:
        return [0.0] * 6
    if is_list(given) and len(given) == 3 and not any(map(is_list, given)):
        x, y, z = parse_reals(what, given, 3)
        return [x, 0.0, y, 0.0, 0.0, z]
    return parse_reals(what, parse_tensor(what, given), 6)


def parse_tensor(what: str, tensor: Any) -> list[Scalar]:
    """The entries xx, xy, yy, xz, yz, zz of a tensor that is given by them or as 3×3."""
    try:
        rows = [list(row) for row in tensor]
    except TypeError:
        return parse_scalars(what, tensor, 6, _ORDER)
    if [len(row) for row in rows] != [3, 3, 3]:
        raise InvalidArgument(what, tensor, f"needs 6 numbers{_ORDER}")
    # 3×3: symmetric up to rounding
    full = [parse_scalars(what, row, 3) for row in rows]
    sizes = [abs(x) for row in full for x in row]
    skew = [abs(full[i][j] - full[j][i]) for i, j in ((0, 1), (0, 2), (1, 2))]
    plain = all(isinstance(x, float | int) for x in sizes)
    if plain and max(skew) > 1e-9 * max(sizes):
        raise InvalidArgument(what, tensor, f"needs 6 numbers{_ORDER}")
    return [full[i][j] for i, j in ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))]


def parse_transform(what: str, placement: Any) -> Transform:
    """A pose from a Transform, a 4×4 array, or None for identity."""
    if placement is None or isinstance(placement, Transform):
        return placement or Transform.identity()
    accepted = "needs a Transform, or a 4×4 array of a rotation and a shift"
    # a homogeneous matrix: last row (0, 0, 0, 1), rotation up to rounding
    X = _float_array(placement)
    if X is None or X.shape != (4, 4) or not np.array_equal(X[3], [0.0, 0.0, 0.0, 1.0]):
        raise InvalidArgument(what, placement, accepted)
    R = _nearest_rotation(X[:3, :3])
    if R is None:
        raise InvalidArgument(what, placement, accepted)
    return Transform(R, Vec3(*X[:3, 3].tolist()))


def parse_placement(what: str, placement: Any, position: Any, rotation: Any) -> Transform:
    """A pose from a 4×4 array, or from a position and a rotation, zero where they are None.

    The shape tells the form of a rotation: a matrix (3×3), a unit quaternion (x, y, z, w), or
    roll, pitch and yaw (radians, about the fixed axes x, y, z in this order, as in URDF).
    """
    if placement is not None:
        if position is not None or rotation is not None:
            given = "position" if position is not None else "rotation"
            accepted = f"it stands for the whole pose: give it, or {given}, not both"
            raise InvalidArgument(f"{what}: placement", placement, accepted)
        return snap_transform(parse_transform(f"{what}: placement", placement))
    p = Vec3(*parse_reals(f"{what}: position", (0, 0, 0) if position is None else position, 3))
    return snap_transform(Transform(_parse_rotation(f"{what}: rotation", rotation), p))


def _parse_rotation(what: str, rotation: Any) -> Mat3:
    if rotation is None:
        return Mat3.identity()
    # the shape tells the form
    x = _float_array(rotation)
    if x is not None and np.isfinite(x).all():
        if x.shape == (3,):
            return rotation_from_rpy(*x.tolist())
        if x.shape == (4,) and abs(np.linalg.norm(x) - 1.0) <= _ROTATION_ERROR:
            return rotation_from_quaternion(*x.tolist())
        if x.shape == (3, 3) and (R := _nearest_rotation(x)) is not None:
            return R
    raise InvalidArgument(what, rotation, _ROTATION)


def _float_array(given: Any) -> np.ndarray | None:
    """An array of real numbers, or None."""
    try:
        array = np.asarray(given)
        return array.astype(float) if array.dtype.kind in "iuf" else None
    except (TypeError, ValueError):
        return None


def _nearest_rotation(R: np.ndarray) -> Mat3 | None:
    """The rotation next to a matrix that is one but for its last digits; None if it is none."""
    error = np.abs(R @ R.T - np.eye(3)).max()
    if not error <= _ROTATION_ERROR or np.linalg.det(R) < 0.0:
        return None
    if error > 1e-14:
        U, _, V = np.linalg.svd(R)
        R = U @ V
    return Mat3(*(Vec3(*row) for row in R.tolist()))


def snap_transform(X: Transform) -> Transform:
    """Rotation entries a rounding error away from 0, 1 or -1 made exact, so that they fold away."""
    return Transform(Mat3(*(snap_vector(row) for row in X.R)), X.p)


def snap_vector(v: Vec3 | Sequence[float]) -> Vec3:
    """A vector with entries a rounding error away from 0, 1 or -1 made exact."""
    return Vec3(*(next((k for k in (0.0, 1.0, -1.0) if abs(x - k) < 1e-15), x) for x in v))


def warn_of_degrees(joint: Joint, value: Scalar, stacklevel: int) -> None:
    """Warn of an angle beyond a turn and out of the range of its joint: it may be in degrees."""
    if joint.kind.angular != (True,) or not isinstance(value, int | float):
        return
    beyond = not joint.limits.lower <= value <= joint.limits.upper
    if abs(value) > 2 * math.pi and (beyond or not math.isfinite(joint.limits.upper)):
        warnings.warn(
            f"is {joint.name} = {value:.4g} in degrees? Angles are in rad, and {value:.4g}° are "
            f"{math.radians(value):.4g} rad",
            stacklevel=stacklevel + 1,
        )
