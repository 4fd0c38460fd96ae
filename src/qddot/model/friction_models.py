"""Friction of a joint as a function of its speed, and what description files can say of it.

In one direction, at speed s, friction is F(s) = Fc + (Fs − Fc) c(s/vs) + b s: a Coulomb level Fc,
a viscous slope b, and a static level Fs from which it falls along a Stribeck curve c, that of Hess
and Soom (1990), 1 / (1 + u²), or the Gaussian exp(−u²) of Armstrong-Hélouvry (1991) that the LuGre
model is published with. Units are those of the joint: N m and rad/s, or N and m/s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from qddot.errors import InvalidArgument, UnknownName
from qddot.model.joints import Drivetrain
from qddot.spatial.scalar import Scalar, exp, less, where

__all__ = [
    "CURVES",
    "Curve",
    "FrictionFormat",
    "FrictionModel",
    "OneWay",
    "StribeckCurve",
    "Translation",
    "asymmetric",
    "coulomb",
    "friction_from",
    "friction_of",
    "stiction",
    "stribeck",
    "translate",
    "viscous",
]

FrictionFormat = Literal["urdf", "mjcf"]
Curve = Literal["rational", "gaussian"]
_ATTRIBUTES = {"urdf": ("damping", "friction"), "mjcf": ("damping", "frictionloss")}


@dataclass(frozen=True)
class StribeckCurve:
    """How a static level fades: the share c(u) that is left, its integrals, and where it falls.

    `left` is for any scalar. Integrals are from 0: `area` of c, `moment` of u c, `square` of c².
    `steep` has the u above 0 where −dc/du is a number. `words` say what is left at u = 1.
    """

    left: Callable[[Scalar], Scalar]
    area: Callable[[float], float]
    moment: Callable[[float], float]
    square: Callable[[float], float]
    steep: Callable[[float], list[float]]
    words: str


def _steep_rational(slope: float) -> list[float]:
    """The u with 2 u / (1 + u²)² = slope."""
    u = np.roots([1.0, 0.0, 2.0, -2.0 / slope, 1.0])
    return [float(x) for x in u[np.abs(u.imag) < 1e-9 * (1.0 + np.abs(u))].real if x > 0.0]


def _steep_gaussian(slope: float) -> list[float]:
    """The u with 2 u exp(−u²) = slope, by the branches of Lambert's function."""
    # a robot is loaded without SciPy
    from scipy import special

    found = [special.lambertw(-0.5 * slope * slope, branch) for branch in (0, -1)]
    real = [x.real for x in found if slope > 0.0 and abs(x.imag) < 1e-12 and x.real < 0.0]
    return [math.sqrt(-0.5 * x) for x in real]


CURVES = {
    "rational": StribeckCurve(
        left=lambda u: 1.0 / (u * u + 1.0),
        area=math.atan,
        moment=lambda u: 0.5 * math.log1p(u * u),
        square=lambda u: 0.5 * (u / (1.0 + u * u) + math.atan(u)),
        steep=_steep_rational,
        words="half of that is gone",
    ),
    "gaussian": StribeckCurve(
        left=lambda u: exp(-(u * u)),
        area=lambda u: 0.5 * math.sqrt(math.pi) * math.erf(u),
        moment=lambda u: -0.5 * math.expm1(-u * u),
        square=lambda u: math.sqrt(math.pi / 8.0) * math.erf(math.sqrt(2.0) * u),
        steep=_steep_gaussian,
        words="63 % of that is gone",
    ),
}
"""Stribeck curves by name."""


@dataclass(frozen=True)
class OneWay:
    """Friction in one direction of motion.

    `static` is the level at the onset of motion, that of `coulomb` where it is None; at the speed
    `stribeck_speed` it has fallen towards `coulomb` by a half ("rational" `curve`) or to a share
    of 1/e ("gaussian").
    """

    coulomb: Scalar = 0.0
    viscous: Scalar = 0.0
    static: Scalar | None = None
    stribeck_speed: Scalar = 0.0
    curve: Curve = "rational"

    def __post_init__(self) -> None:
        if not isinstance(self.curve, str) or self.curve not in CURVES:
            raise UnknownName("Stribeck curve", self.curve, CURVES)
        for name in ("coulomb", "viscous", "static", "stribeck_speed"):
            x = getattr(self, name)
            if _is_symbol(x):
                continue
            # a constant is finite and not negative; there may be no static level
            array = np.asarray(0.0 if x is None and name == "static" else x)
            numeric = array.dtype.kind in "iuf" and not isinstance(x, list | tuple)
            if not (numeric and np.all((array >= 0.0) & np.isfinite(array))):
                accepted = "needs a number or an array that is not negative"
                raise InvalidArgument(f"friction: {name}", x, accepted)
        levels = (self.coulomb, self.static, self.stribeck_speed)
        if self.static is None or any(map(_is_symbol, levels)):
            return
        try:
            np.broadcast_shapes(*map(np.shape, levels))
        except ValueError:
            raise InvalidArgument("friction", levels, "needs arrays of one shape") from None
        if np.any(np.asarray(self.static) < self.coulomb):
            raise InvalidArgument("friction: static", self.static, "is at least that of coulomb")
        if np.any(np.asarray(self.stribeck_speed) == 0.0):
            accepted = "a static level needs the speed at which it has fallen half way"
            raise InvalidArgument("friction: stribeck_speed", self.stribeck_speed, accepted)

    @property
    def peak(self) -> Scalar:
        """By how much the onset of motion exceeds the Coulomb level."""
        return 0.0 if self.static is None else self.static - self.coulomb

    def at(self, speed: Scalar) -> Scalar:
        """Friction at a speed that is not negative."""
        return self.level(speed) + speed * self.viscous

    def level(self, speed: Scalar) -> Scalar:
        """Friction without its viscous part, at a speed that is not negative."""
        if self.static is None:
            return self.coulomb
        left = CURVES[self.curve].left(speed / self.stribeck_speed)
        return self.coulomb + left * self.peak


@dataclass(frozen=True)
class FrictionModel:
    """Friction of a joint: forward, for positive speed, and backward."""

    forward: OneWay
    backward: OneWay

    def torque(self, speed: Scalar) -> Scalar:
        """Friction to overcome at a speed, of the sign of the speed and 0 at rest; any scalar."""
        ahead, back = self.forward.at(speed), self.backward.at(-speed)
        return where(less(0.0, speed), ahead, where(less(speed, 0.0), -back, speed * 0.0))

    @property
    def symmetric(self) -> bool:
        """Whether both directions are alike."""
        ways = (vars(way).values() for way in (self.forward, self.backward))
        return all(
            a is b or (not (_is_symbol(a) or _is_symbol(b)) and np.array_equal(a, b))
            for a, b in zip(*ways, strict=True)
        )

    def __str__(self) -> str:
        if self.symmetric:
            return _describe(self.forward)
        return f"forward {_describe(self.forward)}; backward {_describe(self.backward)}"


def _is_symbol(x: object) -> bool:
    """Whether a constant is not known in numbers."""
    return not isinstance(x, float | int | list | tuple | str | np.generic | np.ndarray | None)


def _is_there(x: Scalar) -> bool:
    """Whether a constant is not zero everywhere."""
    return _is_symbol(x) or bool(np.any(x))


def _describe(way: OneWay) -> str:
    parts = {"Coulomb": way.coulomb, "viscous": way.viscous, "static": way.static}
    there = {name: x for name, x in parts.items() if x is not None and _is_there(x)}
    text = ", ".join(f"{name} {_format_number(x)}" for name, x in there.items()) or "none"
    return f"{text} fading at {_format_number(way.stribeck_speed)}" if _is_there(way.peak) else text


def _format_number(x: Scalar) -> str:
    """A number, the range of an array, or a symbol."""
    if _is_symbol(x):
        return str(x)
    low, high = np.min(x), np.max(x)
    return f"{low:g}" if low == high else f"{low:g} … {high:g}"


def viscous(damping: Scalar) -> FrictionModel:
    """Friction in proportion to speed."""
    return coulomb(0.0, damping)


def coulomb(friction: Scalar, damping: Scalar = 0.0) -> FrictionModel:
    """A level that only the direction changes, and friction in proportion to speed."""
    way = OneWay(friction, damping)
    return FrictionModel(way, way)


def stribeck(
    static: Scalar,
    coulomb: Scalar,
    speed: Scalar,
    viscous: Scalar = 0.0,
    curve: Curve = "rational",
) -> FrictionModel:
    """Coulomb and viscous friction, and a static level that fades along a Stribeck curve.

    At `speed` half of what it has above Coulomb friction is gone, or all but 1/e ("gaussian").
    """
    way = OneWay(coulomb, viscous, static, speed, curve)
    return FrictionModel(way, way)


def stiction(
    static: Scalar, coulomb: Scalar, viscous: Scalar = 0.0, speed: Scalar = 1e-6
) -> FrictionModel:
    """A static level at rest, and Coulomb and viscous friction as soon as there is motion."""
    return stribeck(static, coulomb, speed, viscous)


def asymmetric(forward: FrictionModel, backward: FrictionModel) -> FrictionModel:
    """Other friction forward than backward."""
    return FrictionModel(forward.forward, backward.backward)


def friction_of(drivetrain: Drivetrain) -> FrictionModel:
    """The friction that a joint of a model has."""
    ahead, back = (coulomb(x, drivetrain.damping) for x in drivetrain.friction_levels)
    return asymmetric(ahead, back)


def friction_from(form: FrictionFormat, attributes: Mapping[str, float]) -> FrictionModel:
    """The friction that attributes of a URDF <dynamics> or an MJCF <joint> say."""
    damping, friction = _attribute_names(form)
    for name in attributes:
        if name not in (damping, friction):
            raise UnknownName(f"attribute of friction in {form}", name, (damping, friction))
    return coulomb(float(attributes.get(friction, 0.0)), float(attributes.get(damping, 0.0)))


def _attribute_names(form: FrictionFormat) -> tuple[str, str]:
    if not isinstance(form, str) or form not in _ATTRIBUTES:
        raise UnknownName("format of friction", form, _ATTRIBUTES)
    return _ATTRIBUTES[form]


@dataclass(frozen=True)
class Translation:
    """Friction as a format says it, with what that loses over a range of speeds.

    `worst` is the largest error of torque over the range in either direction, met at
    `worst_speed`; `rms` the root of its mean square. `lost` says in words what is not said.
    """

    form: FrictionFormat
    damping: float
    friction: float
    speeds: tuple[float, float]
    worst: float
    worst_speed: float
    rms: float
    lost: tuple[str, ...]

    @property
    def attributes(self) -> dict[str, float]:
        """The attributes of a URDF <dynamics> or an MJCF <joint>."""
        return dict(zip(_attribute_names(self.form), (self.damping, self.friction), strict=True))

    @property
    def representation(self) -> FrictionModel:
        """The friction model that the attributes express."""
        return coulomb(self.friction, self.damping)


def translate(
    model: FrictionModel, form: FrictionFormat, speeds: tuple[float, float]
) -> Translation:
    """Friction as URDF or MJCF can say it: a level and a slope, the same both ways.

    Where the model has more, level and slope are the best fit by least squares over the speeds
    from low to high of both directions, neither of them negative.
    """
    _attribute_names(form)
    try:
        low, high = (float(s) for s in speeds)
    except (TypeError, ValueError):
        low = high = math.nan
    if not 0.0 <= low < high < math.inf:
        raise InvalidArgument("speeds", speeds, "needs (low, high) with 0 ≤ low < high")
    ways = (model.forward, model.backward)
    constants = [x for way in ways for name, x in vars(way).items() if name != "curve"]
    if any(_is_symbol(x) or np.ndim(x) for x in constants if x is not None):
        raise InvalidArgument("friction", str(model), "a file has one number for each constant")
    # exact where the model is no more than a level and a slope
    if model.symmetric and not model.forward.peak:
        way = model.forward
        return Translation(form, way.viscous, way.coulomb, (low, high), 0.0, low, 0.0, ())
    # level and slope of least squares over the speeds of both directions: normal equations
    b = 0.5 * (
        _friction_moments(model.forward, low, high) + _friction_moments(model.backward, low, high)
    )
    first, second = (high**2 - low**2) / 2, (high**3 - low**3) / 3
    level, slope = np.linalg.solve([[high - low, first], [first, second]], b)
    # neither of them negative
    if slope < 0:
        level, slope = b[0] / (high - low), 0.0
    elif level < 0:
        level, slope = 0.0, b[1] / second
    level, slope = float(level), float(slope)
    # the largest error is at an end of the range, or where the error is stationary
    errors: list[tuple[float, float]] = []
    for sign, way in zip((1.0, -1.0), ways, strict=True):
        trials = [low, high]
        k = (way.viscous - slope) * way.stribeck_speed
        # the slope of F is that of the fit: (b − slope) vs = −(Fs − Fc) dc/du
        if abs(k) > 1e-12 * way.peak > 0:
            steep = (u * way.stribeck_speed for u in CURVES[way.curve].steep(k / way.peak))
            trials += [s for s in steep if low < s < high]
        errors += [(sign * s, way.at(s) - level - slope * s) for s in trials]
    speed, worst = max(errors, key=lambda e: abs(e[1]))
    # root of the mean square error over the speeds of both directions
    total = sum(
        _squared_error_integral(w, level, slope, high)
        - _squared_error_integral(w, level, slope, low)
        for w in ways
    )
    rms = math.sqrt(max(total, 0.0) / (2 * (high - low)))
    # the effects that a level and a slope do not express, in words
    lost, name = [], form.upper()
    for label, way in (("forward", model.forward), ("backward", model.backward)):
        if way.peak:
            lost.append(
                f"{name} has no Stribeck effect: {label}, motion starts at {way.static:g}, "
                f"{way.peak:g} above the Coulomb level {way.coulomb:g}, and "
                f"{CURVES[way.curve].words} at speed {way.stribeck_speed:g}"
            )
        if model.symmetric:
            break
    if not model.symmetric:
        ahead, back = (f"({_describe(way)})" for way in ways)
        lost.append(
            f"{name} has one friction for both directions: forward {ahead}, backward {back}"
        )
    return Translation(form, slope, level, (low, high), abs(worst), speed, rms, tuple(lost))


def _friction_moments(way: OneWay, low: float, high: float) -> np.ndarray:
    """∫ F ds and ∫ s F ds from low to high."""
    level = way.coulomb * (high - low) + way.viscous * (high**2 - low**2) / 2
    lever = way.coulomb * (high**2 - low**2) / 2 + way.viscous * (high**3 - low**3) / 3
    if way.peak:
        v, curve = way.stribeck_speed, CURVES[way.curve]
        level += way.peak * v * (curve.area(high / v) - curve.area(low / v))
        lever += way.peak * v**2 * (curve.moment(high / v) - curve.moment(low / v))
    return np.array([level, lever])


def _squared_error_integral(way: OneWay, level: float, slope: float, s: float) -> float:
    """∫ (A + B s + P c(s/v))² ds from 0 to s, of the error A + B s + …."""
    A, B, P, v = way.coulomb - level, way.viscous - slope, way.peak, way.stribeck_speed
    total = A * A * s + A * B * s**2 + B * B * s**3 / 3
    if P:
        u, curve = s / v, CURVES[way.curve]
        total += 2 * P * v * (A * curve.area(u) + B * v * curve.moment(u))
        total += P * P * v * curve.square(u)
    return total
