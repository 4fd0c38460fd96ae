"""Errors: one base class, one class per cause, the facts as fields."""

from __future__ import annotations

import contextlib
import copy
import difflib
import math
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = [
    "ActuatorsTooFew",
    "BatchMismatch",
    "CannotAssemble",
    "CannotCompile",
    "CannotTrace",
    "CannotWrite",
    "DescriptionError",
    "DoubtfulQuaternion",
    "DuplicateMemory",
    "ImpossibleInertia",
    "InvalidArgument",
    "InvalidModel",
    "JointsDiffer",
    "MissingPackage",
    "NoClosedForm",
    "NoEquilibrium",
    "NoSupport",
    "NotEnoughMemory",
    "NotIdentifiable",
    "OpenLoops",
    "QddotError",
    "RecordError",
    "RedundantConstraints",
    "ShapeMismatch",
    "SingularInertia",
    "TooDeep",
    "TooLarge",
    "Uncontrollable",
    "UnknownArgument",
    "UnknownName",
    "Unsupported",
    "UnsupportedVersion",
    "UnusableLog",
    "WrongType",
    "combination",
    "control_character",
    "count_text",
    "format_bytes",
    "refuse_endless_recursion",
]

_MARKS = r"\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_ACTING = re.compile(rf"[\x00-\x08\x0b\x0c\x0e-\x1f{_MARKS}]")
_ACTING_OR_SPACE = re.compile(rf"[\x00-\x1f{_MARKS}]")
_LONGEST = 300
"""Letters of a value that a message shows."""


def control_character(text: str, whitespace: bool = False) -> str | None:
    """The first character of a text that would act on a terminal, as U+009B; None without one.

    These are the control characters, line separators and marks that turn the direction of writing;
    tab and line ends too, unless `whitespace` lets them pass.
    """
    found = (_ACTING if whitespace else _ACTING_OR_SPACE).search(text)
    return f"U+{ord(found[0]):04X}" if found else None


class QddotError(Exception):
    """Base of every error that qddot raises on purpose; its message and fields can be pickled."""

    def __str__(self) -> str:
        # KeyError would show the message in quotes
        return Exception.__str__(self)

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {name: _make_portable(value) for name, value in vars(self).items()}
        return _restore_error, (type(self), self.args), fields

    def __copy__(self) -> QddotError:
        other = _restore_error(type(self), self.args)
        vars(other).update(vars(self))
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> QddotError:
        other = memo[id(self)] = _restore_error(type(self), copy.deepcopy(self.args, memo))
        vars(other).update(copy.deepcopy(vars(self), memo))
        return other


def _restore_error(kind: type[QddotError], arguments: tuple[Any, ...]) -> QddotError:
    """An error with a message made before: what its class is made from may be used up."""
    # with two bases, only the builtin that gives an error its layout may make it
    builtin: Any = kind
    while builtin.__module__ != "builtins":
        builtin = builtin.__base__
    error: QddotError = builtin.__new__(kind)
    error.args = arguments
    return error


def _make_portable(value: Any) -> Any:
    """A value that can be pickled: itself, or its text."""
    try:
        pickle.dumps(value)
    except Exception:  # a foreign object may fail in any way
        return repr(value)
    return value


class InvalidModel(QddotError):
    """A model that cannot exist: the element concerned and the reason."""

    def __init__(self, element: str, reason: str) -> None:
        self.element, self.reason = element, reason
        super().__init__(f"{element}: {reason}")


class DescriptionError(QddotError):
    """A description file that cannot be read: file, element, line and reason."""

    def __init__(
        self, file: str | Path, reason: str, element: str | None = None, line: int | None = None
    ) -> None:
        self.file, self.reason, self.element, self.line = str(file), reason, element, line
        place = self.file if line is None else f"{self.file}:{line}"
        super().__init__(": ".join(filter(None, (place, element, reason))))


class RecordError(QddotError):
    """A file that cannot be used as a record of evidence, and why."""

    def __init__(self, file: str | Path, reason: str) -> None:
        self.file, self.reason = str(file), reason
        super().__init__(f"{self.file}: {reason}")


class ImpossibleInertia(InvalidModel):
    """An inertia that no distribution of mass has, met with `strict=True`."""


class SingularInertia(QddotError):
    """Forward dynamics asked of a model whose mass matrix is singular at named joints."""

    def __init__(self, model: str, joints: Iterable[str]) -> None:
        self.model, self.joints = model, tuple(joints)
        names = ", ".join(repr(j) for j in self.joints)
        super().__init__(
            f"the mass matrix of {model!r} is singular: nothing that moves with joint {names} has "
            "inertia along it; give the links below it mass, or the joint armature, or lock it "
            "with without_joint"
        )


class NoClosedForm(QddotError):
    """A robot whose equations are not written out in symbols: which, why, and what to do."""

    def __init__(self, robot: str, reason: str) -> None:
        self.robot, self.reason = robot, reason
        super().__init__(f"no closed form of {robot!r}: {reason}")


class NoEquilibrium(QddotError):
    """A search for a configuration at rest that failed: what still pulls, by velocity."""

    def __init__(self, model: str, left: Mapping[str, float]) -> None:
        self.model, self.left = model, dict(left)
        pulls = ", ".join(f"{x:.3g} at {name!r}" for name, x in self.left.items())
        super().__init__(
            f"{model!r} finds no rest near the guess: a load of {pulls} (N or N m) remains where "
            "no joint is actuated; guess otherwise, actuate more joints, or give them springs "
            "(with friction=True)"
        )


class Uncontrollable(QddotError):
    """A regulator asked to calm modes that no input moves: combinations of states, and why."""

    def __init__(self, combinations: Iterable[str], behaviour: Iterable[str]) -> None:
        self.combinations, self.behaviour = tuple(combinations), tuple(behaviour)
        more = len(self.combinations) - 4
        parts = [*self.combinations[:4], *([f"{more} more"] if more > 0 else [])]
        acts = ", ".join(dict.fromkeys(self.behaviour))
        super().__init__(
            f"no input moves {', '.join(parts)}, and there is {acts}; "
            "actuate a joint that moves it, or damp it"
        )


class RedundantConstraints(QddotError):
    """Constraints whose multipliers are not unique: rows that others make up, and those others.

    `redundant` has the rows by name, each with the independent rows that it is a combination of
    and their coefficients; `independent` has the names of the rows that are enough.
    """

    def __init__(
        self, model: str, redundant: Mapping[str, Mapping[str, float]], independent: Iterable[str]
    ) -> None:
        self.model, self.independent = model, tuple(independent)
        self.redundant = {name: dict(parts) for name, parts in redundant.items()}
        rows = (f"{k!r} {combination(v)}" for k, v in self.redundant.items())
        listed = "; ".join(rows) or "nearly so at this state, too little to tell which row"
        super().__init__(
            f"constraints of {model!r} are redundant: {listed}. Independent rows: "
            f"{', '.join(self.independent) or 'none'}; qddot.constraints.independent(robot, q) "
            "gives the constraints restricted to such rows"
        )


_MOST_ROWS = 6


def combination(parts: Mapping[str, float]) -> str:
    """A redundant row as a combination of other rows, in words."""
    if not parts:
        return "moves with no joint"
    if any(math.isnan(x) for x in parts.values()):
        named = ", ".join(map(repr, list(parts)[:_MOST_ROWS]))
        more = len(parts) - _MOST_ROWS
        return f"depends on {named} and {more} more" if more > 0 else f"depends on {named}"
    terms = " ".join(f"{x:+.4g} {name!r}" for name, x in parts.items())
    return f"= {terms.removeprefix('+')}"


def count_text(n: int, noun: str, plural: str = "") -> str:
    """A number of things in words that agree: "1 link", "2 links", "2 bodies"."""
    return f"{n} {noun if n == 1 else plural or f'{noun}s'}"


class CannotAssemble(QddotError):
    """Constraints that no configuration near the guess meets: what stays open, and how far."""

    def __init__(
        self, model: str, failed: int, of: int, left: Mapping[str, float], hint: str
    ) -> None:
        self.model, self.failed, self.of, self.left = model, failed, of, dict(left)
        states = f" at {failed} of {of} states" if of > 1 else ""
        rows = ", ".join(f"{name!r} by {x:.3g}" for name, x in self.left.items())
        super().__init__(f"{model!r} does not close{states}: open are {rows}; {hint}")


class ActuatorsTooFew(QddotError):
    """A motion that the chosen actuators cannot make: what is left, by velocity (N or N m)."""

    def __init__(self, model: str, actuated: Iterable[str], left: Mapping[str, float]) -> None:
        self.model, self.actuated, self.left = model, tuple(actuated), dict(left)
        loads = ", ".join(f"{x:.3g} at {name!r}" for name, x in self.left.items())
        super().__init__(
            f"the actuators {', '.join(map(repr, self.actuated)) or '(none)'} of {model!r} cannot "
            f"make this motion: loads of {loads} (N or N m) remain; actuate more joints"
        )


class UnknownName(QddotError, KeyError):
    """A name that does not exist, with the names that do."""

    def __init__(
        self,
        kind: str,
        name: object,
        known: Iterable[str],
        owner: str = "",
        hint: str = "",
        listing: str = "",
    ) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        where = f" in {owner!r}" if owner else ""
        more = f"; {listing} lists all" if listing else ""
        super().__init__(f"no {kind} {name!r}{where}; {hint or self._hint()}{more}")

    def _hint(self) -> str:
        """The names that come closest, or those that there are."""
        if not isinstance(self.name, str):
            return f"a {self.kind} is given by its name, a string"
        close = difflib.get_close_matches(self.name, self.known, n=3, cutoff=0.5)
        if close:
            return "closest: " + ", ".join(repr(c) for c in close)
        if len(self.known) <= 12:
            return "known: " + (", ".join(repr(k) for k in self.known) or "none")
        return f"{len(self.known)} are known, such as {self.known[0]!r}"


class UnknownArgument(QddotError, TypeError):
    """Keyword arguments that a function does not have, with those that it has."""

    def __init__(self, function: str, given: Iterable[str], known: Iterable[str]) -> None:
        self.function, self.given, self.known = function, tuple(given), tuple(known)
        names = ", ".join(map(repr, self.given))
        close = difflib.get_close_matches(self.given[0], self.known, n=1, cutoff=0.5)
        hint = f" (closest: {close[0]!r})" if close else ""
        super().__init__(
            f"{function} has no argument {names}{hint}; it takes {', '.join(self.known)}"
        )


class ShapeMismatch(QddotError, ValueError):
    """An argument whose last axes do not fit the signature of the function."""

    def __init__(self, function: str, argument: str, expected: str, found: tuple[int, ...]) -> None:
        self.function, self.argument = function, argument
        self.expected, self.found = expected, found
        super().__init__(f"{function}: {argument} must have shape {expected}, got {found}")


class BatchMismatch(QddotError, ValueError):
    """Inputs whose leading axes do not broadcast."""

    def __init__(
        self, function: str, shapes: Iterable[tuple[int, ...]], names: Sequence[str] = ()
    ) -> None:
        self.function, self.shapes = function, tuple(shapes)
        self.names = tuple(names) or ("",) * len(self.shapes)
        given = zip(self.names, self.shapes, strict=True)
        listed = ", ".join(f"{name} {shape}".strip() for name, shape in given if shape)
        super().__init__(f"{function}: batch shapes {listed} do not broadcast")


class InvalidArgument(QddotError, ValueError):
    """An argument whose value cannot be used: its name, the value, and what is accepted."""

    _reason = "is not understood"

    def __init__(self, what: str, found: object, accepted: str) -> None:
        self.what, self.found, self.accepted = what, found, accepted
        given = "nothing is given" if found is None else f"{_describe_value(found)} {self._reason}"
        super().__init__(f"{what}: {given}; {accepted}")


class WrongType(InvalidArgument, TypeError):
    """An argument of another type than the accepted ones."""


class Unsupported(InvalidArgument):
    """A choice that is sound by itself, but not for this robot, format or other choice."""

    _reason = "cannot be used here"


class DuplicateMemory(InvalidArgument):
    """A value of a name that two laws, one inside the other, both keep in memory."""

    def __init__(self, name: str, outer: str, inner: str) -> None:
        QddotError.__init__(
            self,
            f"memory: {name!r} is used twice, by {outer} and by {inner} inside it; give one of "
            "them another name in its memory, or leave one out",
        )
        self.what, self.found, self.outer, self.inner = "memory", name, outer, inner


class OpenLoops(InvalidArgument):
    """Start states at which a loop of the robot is open: its worst row, and by how much."""

    def __init__(self, model: str, what: str, row: str, gap: float, unit: str) -> None:
        QddotError.__init__(
            self,
            f"{what}: {row!r} of {model!r} is open by {gap:.3g} {unit}. Close the start by "
            "q0 = qddot.constraints.assemble(robot, q0) and v0 = qddot.constraints."
            "consistent_velocity(robot, q0, v0); or step the open tree, "
            "qddot.constraints.with_loops(robot, [])",
        )
        self.model, self.what, self.row, self.gap, self.unit = model, what, row, float(gap), unit


def _describe_value(x: object) -> str:
    """A value in a message: an array by its shape, anything else in one line at most."""
    shape = getattr(x, "shape", ())
    if isinstance(shape, tuple) and shape:
        return f"an array of shape {shape}"
    try:
        text = " ".join(repr(x).split())
    except Exception:  # the repr of a foreign object may raise anything
        return f"an object of type {type(x).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


class CannotTrace(QddotError, TypeError):
    """A function that cannot be recorded as operations: where, why, and what to write instead."""

    def __init__(self, reason: str, place: str = "") -> None:
        self.reason, self.place = reason, place
        super().__init__(f"{place}: {reason}" if place else reason)


class TooDeep(QddotError, RecursionError):
    """Calls inside calls beyond Python's limit: of what, such as a law or a function."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"{name} calls itself without end, or has laws, regions or calls nested deeper than "
            "Python's limit on recursion allows"
        )


@contextlib.contextmanager
def refuse_endless_recursion(name: str) -> Iterator[None]:
    """Raise TooDeep where Python's limit on recursion is reached."""
    try:
        yield
    except TooDeep:
        raise
    except RecursionError as error:
        raise TooDeep(name) from error


class TooLarge(QddotError):
    """A function that is too large to compile: operations and numbers, and the most there may be.

    The size is a lower bound, as counting stops.
    """

    def __init__(self, name: str, size: int, most: int) -> None:
        self.name, self.size, self.most = name, size, most
        super().__init__(
            f"{name} is too large to compile: it has at least {size:,} operations, inputs and "
            f"outputs at one state, and code is made for {most:,} at most"
        )


class CannotCompile(QddotError, RuntimeError):
    """A function that LLVM does not compile or load: its name and LLVM's reason."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(f"{name} cannot be compiled: {reason}")


class NotEnoughMemory(QddotError, MemoryError):
    """Work that needs more memory than there is: bytes needed and available, and what fits."""

    def __init__(self, purpose: str, needed: int, available: int, remedy: str) -> None:
        self.purpose, self.needed = purpose, needed
        self.available, self.remedy = available, remedy
        super().__init__(
            f"{purpose} needs {format_bytes(needed)} of memory, and {format_bytes(available)} are "
            f"available; {remedy}"
        )


def format_bytes(n: int) -> str:
    """A number of bytes in the largest unit that leaves it above one."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    power = min(max(n.bit_length() - 1, 0) // 10, len(units) - 1)
    return f"{n / 1024**power:.4g} {units[power]}"


class NoSupport(QddotError):
    """A robot that the ground does not carry: no contacts, or a ground that would have to pull."""


class CannotWrite(QddotError):
    """A file or folder that cannot be written, and why."""

    def __init__(self, path: str | Path, reason: str) -> None:
        self.path, self.reason = str(path), reason
        super().__init__(f"cannot write {self.path}: {reason}")


class MissingPackage(QddotError, ImportError):
    """A feature whose package is not installed; says how to install it."""

    def __init__(self, package: str, feature: str, install: str | None = None) -> None:
        self.package, self.feature, self.install = package, feature, install
        command = f"pip install {install or package}"
        super().__init__(f"{feature} needs the package {package!r}: {command}")


class UnsupportedVersion(QddotError):
    """A package whose installed version is not as qddot relies on it to be."""

    def __init__(self, package: str, reason: str, install: str) -> None:
        self.package, self.reason = package, reason
        super().__init__(f"this version of {package!r} cannot be used: {reason}; {install}")


class JointsDiffer(QddotError):
    """Joints of a robot that another model of it lacks, or has in another form."""

    def __init__(
        self,
        engine: str,
        robot: str,
        here: Iterable[str] = (),
        there: Iterable[str] = (),
        reason: str = "",
        hint: str = "names={here: there} tells joints that have another name there",
    ) -> None:
        self.engine, self.robot, self.here, self.there = engine, robot, tuple(here), tuple(there)
        lists = ((f"only in {robot!r} here", self.here), (f"only in {engine}", self.there))
        listed = "; ".join(f"{k}: {', '.join(map(repr, v))}" for k, v in lists if v)
        super().__init__(f"joints differ: {reason or f'{listed}; {hint}'}")


class DoubtfulQuaternion(QddotError):
    """A quaternion that is likely not what it is taken for: the joint, the order, the reason."""

    def __init__(self, joint: str, side: str, order: str, reason: str) -> None:
        self.joint, self.side, self.order, self.reason = joint, side, order, reason
        super().__init__(
            f"the quaternion of joint {joint!r} is doubtful: {reason}; {side} has it as ({order}). "
            "If it is meant, make the adapter with check=False"
        )


class UnusableLog(QddotError):
    """A log of a robot that cannot be read or repaired: the file and the reason."""

    def __init__(self, source: str | Path, reason: str) -> None:
        self.source, self.reason = str(source), reason
        super().__init__(f"{self.source}: {reason}")


class NotIdentifiable(QddotError):
    """A question that the data cannot answer: what was asked, why not, and the remedy."""

    def __init__(self, what: str, reason: str, remedy: str) -> None:
        self.what, self.reason, self.remedy = what, reason, remedy
        super().__init__(f"{what} cannot be identified: {reason}; {remedy}")
