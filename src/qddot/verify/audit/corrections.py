"""Corrections of an inertia, one for each common mistake: each proposes the inertia meant.

A hypothesis is a pure function from the evidence on a link to candidates: the inertia that would
have been meant, and the mistake in words. All candidates are compared on the same terms.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from qddot.verify.audit.evidence import Evidence
from qddot.verify.audit.records import Inertial
from qddot.verify.audit.solids import Array, tensor_of

__all__ = [
    "CORRECTIONS",
    "Candidate",
    "correct_centre_signs",
    "correct_frame",
    "correct_moment_order",
    "correct_power_of_ten",
    "correct_product_signs",
    "correct_reference_point",
    "correct_units",
]

_INDEX = {"ixx": (0, 0), "iyy": (1, 1), "izz": (2, 2), "ixy": (0, 1), "ixz": (0, 2), "iyz": (1, 2)}
_UNITS: tuple[tuple[str, float, float, float], ...] = (
    ("the mass is in grams", 1e-3, 1, 1),
    ("the mass is in tonnes", 1e3, 1, 1),
    ("the mass is in pounds", 0.45359237, 1, 1),
    ("the centre of mass is in millimetres", 1, 1e-3, 1),
    ("the tensor is in kg mm²", 1, 1, 1e-6),
    ("the tensor is in kg cm²", 1, 1, 1e-4),
    ("the tensor is in g m²", 1, 1, 1e-3),
    ("the tensor is in g mm²", 1, 1, 1e-9),
    ("the tensor is in g cm²", 1, 1, 1e-7),
    ("lengths are in millimetres, in centre of mass and tensor", 1, 1e-3, 1e-6),
    ("masses are in grams, in mass and tensor", 1e-3, 1, 1e-3),
    ("all is in grams and millimetres", 1e-3, 1e-3, 1e-9),
    ("mass and centre of mass are in grams and millimetres", 1e-3, 1e-3, 1),
    ("the tensor was divided by 1e6, as if from kg mm², once too often", 1, 1, 1e6),
    ("the tensor was divided by 1e9, as if from g mm², once too often", 1, 1, 1e9),
    ("the tensor was divided by 1e3, as if from g m², once too often", 1, 1, 1e3),
)
# few files are in pounds
_POUNDS = 1.0
# a quarter about x, y and z; a quarter the other way differs in the signs of products only
_QUARTER_TURNS = (
    np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]]),
    np.array([[0, 0, 1.0], [0, 1, 0], [-1, 0, 0]]),
    np.array([[0, -1.0, 0], [1, 0, 0], [0, 0, 1]]),
)


@dataclass(frozen=True)
class Candidate:
    """An inertia that may have been meant, the mistake in words, and its prior penalty in nats.

    It is `exact` where it follows from the file alone, and no estimate goes into it.
    """

    inertial: Inertial
    words: str
    penalty: float = 0.0
    exact: bool = True


def _with_tensor(inertial: Inertial, tensor: Array) -> Inertial:
    """The inertia with another tensor in link axes, in the form in which the file gives it."""
    if not inertial.diagonal:
        return replace(inertial, written=inertial.R.T @ tensor @ inertial.R)
    moments, axes = np.linalg.eigh(tensor)
    axes = axes * np.sign(np.linalg.det(axes))
    return replace(inertial, R=axes, written=np.diag(moments))


def _scale_entry(inertial: Inertial, entry: str, factor: float) -> Inertial:
    written = inertial.written.copy()
    i, j = _INDEX[entry]
    written[i, j] *= factor
    written[j, i] = written[i, j]
    return replace(inertial, written=written)


def correct_power_of_ten(_: Evidence, i: Inertial) -> Iterator[Candidate]:
    """The mass, or one entry of the tensor, is off by a power of ten."""
    entries = ("ixx", "iyy", "izz") if i.diagonal else tuple(_INDEX)
    for k in (1, -1, 2, -2):
        words = f"the mass {i.mass:.4g} kg is {_describe_factor(-k)}"
        yield Candidate(replace(i, mass=i.mass * 10.0**k), words, abs(k) * 0.5)
    for entry in entries:
        value = i.written[_INDEX[entry]]
        if value == 0:
            continue
        for k in (1, -1, 2, -2, 3, -3):
            words = f"{entry} = {value:.4g} kg m² is {_describe_factor(-k)}"
            penalty = 0.5 * abs(k) + (0.0 if entry[1] == entry[2] else 1.0)
            yield Candidate(_scale_entry(i, entry, 10.0**k), words, penalty)


def _describe_factor(k: int) -> str:
    return f"{10 ** abs(k):g} times too {'large' if k > 0 else 'small'}"


def correct_units(evidence: Evidence, i: Inertial) -> Iterator[Candidate]:
    """Mass, centre of mass or tensor are in other units than kg and m."""
    size, distance = max(evidence.geometry.size, 0.01), float(np.linalg.norm(i.com))
    for words, mass, length, moment in _UNITS:
        # any point is near the link once it is divided by a thousand: units explain a centre of
        # mass only where it is far off, or well placed when scaled
        far = distance > 10 * size or (distance > 3 * size and distance * length > 0.05 * size)
        if length == 1 or far:
            meant = replace(i, mass=i.mass * mass, com=i.com * length, written=i.written * moment)
            yield Candidate(meant, words, _POUNDS if "pounds" in words else 0.0)


def correct_reference_point(_: Evidence, i: Inertial) -> Iterator[Candidate]:
    """The tensor is about the origin of the link: the parallel-axis term is subtracted."""
    c = i.com
    if not np.any(c):
        return
    shift = i.mass * (c @ c * np.eye(3) - np.outer(c, c))
    words = "the tensor is about the origin of the link, not about the centre of mass"
    yield Candidate(_with_tensor(i, i.tensor - shift), words)


def correct_frame(evidence: Evidence, i: Inertial) -> Iterator[Candidate]:
    """The tensor is given in other axes than the file says."""
    if not np.allclose(i.R, np.eye(3), atol=1e-6):
        words = "the tensor is given in the axes of the link, yet the file turns it"
        yield Candidate(replace(i, R=np.eye(3)), words)
        words = "the rotation of the inertial frame is the inverse of the one meant"
        yield Candidate(replace(i, R=i.R.T), words, 0.5)
    for name, R in evidence.frames:
        words = f"the tensor is given in the axes of {name}"
        yield Candidate(_with_tensor(i, R @ i.tensor @ R.T), words, 0.7)
    for Q, axis in zip(_QUARTER_TURNS, "xyz", strict=True):
        words = f"the tensor is turned by a quarter about {axis}"
        yield Candidate(_with_tensor(i, Q @ i.tensor @ Q.T), words, 0.7)
    # principal axes of the shapes and of twins, in order of growing moment
    references = [
        (f"the {e.name}", tensor_of(1.0, e.solid.spread)) for e in evidence.geometry.estimates[:1]
    ]
    for twin in evidence.twins:
        references += [(repr(twin.name), other.tensor) for other in twin.inertials]
    moments = np.linalg.eigvalsh(i.tensor)
    for name, tensor in references:
        axes = np.linalg.eigh(tensor)[1]
        words = f"its principal axes are not those of {name}: a rotation is lost"
        yield Candidate(_with_tensor(i, (axes * moments) @ axes.T), words, 1.2, exact=False)


def correct_product_signs(_: Evidence, i: Inertial) -> Iterator[Candidate]:
    """Some or all products of inertia have the wrong sign."""
    names = [n for n in ("ixy", "ixz", "iyz") if i.written[_INDEX[n]] != 0]
    for count in range(1, len(names) + 1):
        for chosen in itertools.combinations(names, count):
            meant = i
            for name in chosen:
                meant = _scale_entry(meant, name, -1.0)
            every = count == len(names) and count > 1
            verb = "has" if count == 1 else "have"
            words = "all products of inertia have" if every else f"{' and '.join(chosen)} {verb}"
            yield Candidate(meant, f"{words} the wrong sign", 0.0 if every else 1.8)


def correct_centre_signs(_: Evidence, i: Inertial) -> Iterator[Candidate]:
    """Coordinates of the centre of mass have the wrong sign."""
    given = [k for k in range(3) if abs(i.com[k]) > 1e-3 * np.abs(i.com).max()]
    for count in sorted({1, len(given)} & set(range(1, 4))):
        for chosen in itertools.combinations(given, count):
            com = i.com.copy()
            com[list(chosen)] *= -1.0
            names = " and ".join("xyz"[k] for k in chosen)
            words = (
                f"{names} of the centre of mass {'has' if count == 1 else 'have'} the wrong sign"
            )
            yield Candidate(replace(i, com=com), words, 0.0 if count == len(given) else 0.7)


def correct_moment_order(_: Evidence, i: Inertial) -> Iterator[Candidate]:
    """Moments of inertia stand in each other's place."""
    moments = np.diag(i.written)
    for order in itertools.permutations(range(3)):
        if order == (0, 1, 2):
            continue
        meant = i.written - np.diag(moments) + np.diag(moments[list(order)])
        if np.allclose(meant, i.written, rtol=1e-3):
            continue
        names = ("ixx", "iyy", "izz")
        swapped = [names[k] for k in range(3) if order[k] != k]
        penalty = 0.5 if len(swapped) == 2 else 1.0
        words = f"the moments {', '.join(swapped)} stand in each other's place"
        yield Candidate(replace(i, written=meant), words, penalty)


CORRECTIONS: dict[str, tuple[Callable[[Evidence, Inertial], Iterator[Candidate]], float]] = {
    "power of ten": (correct_power_of_ten, 2.5),
    "units": (correct_units, 2.0),
    "about the origin": (correct_reference_point, 0.0),
    "wrong frame": (correct_frame, 1.5),
    "signs of products": (correct_product_signs, 0.7),
    "swapped moments": (correct_moment_order, 1.3),
    "sign of the centre": (correct_centre_signs, 1.5),
}
