"""Errors: one base class, one class per cause, the facts as fields."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

__all__ = [
    "BatchMismatch",
    "CannotWrite",
    "DescriptionError",
    "ImpossibleInertia",
    "InvalidModel",
    "MissingPackage",
    "NotUnderstood",
    "QddotError",
    "ShapeMismatch",
    "SingularInertia",
    "UnknownName",
]


class QddotError(Exception):
    """Base of every error that qddot raises on purpose."""


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


class UnknownName(QddotError):
    """A name that does not exist, with the names that do."""

    def __init__(
        self, kind: str, name: object, known: Iterable[str], owner: str = "", hint: str = ""
    ) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        where = f" in {owner!r}" if owner else ""
        super().__init__(f"no {kind} {name!r}{where}; {hint or self._hint()}")

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


class ShapeMismatch(QddotError):
    """An argument whose last axes do not fit the signature of the function."""

    def __init__(self, function: str, argument: str, expected: str, found: tuple[int, ...]) -> None:
        self.function, self.argument = function, argument
        self.expected, self.found = expected, found
        super().__init__(f"{function}: {argument} must have shape {expected}, got {found}")


class BatchMismatch(QddotError):
    """Inputs whose leading axes do not broadcast."""

    def __init__(self, function: str, shapes: Iterable[tuple[int, ...]]) -> None:
        self.function, self.shapes = function, tuple(shapes)
        listed = ", ".join(map(str, self.shapes))
        super().__init__(f"{function}: batch shapes {listed} do not broadcast")


class NotUnderstood(QddotError):
    """An argument whose value or type has no meaning here; says what is accepted."""

    def __init__(self, what: str, found: object, accepted: str) -> None:
        self.what, self.found, self.accepted = what, found, accepted
        super().__init__(f"{what}: {found!r} is not understood; {accepted}")


class CannotWrite(QddotError):
    """A file or folder that cannot be written, and why."""

    def __init__(self, path: str | Path, reason: str) -> None:
        self.path, self.reason = str(path), reason
        super().__init__(f"cannot write {self.path}: {reason}")


class MissingPackage(QddotError):
    """A feature whose package is not installed; says how to install it."""

    def __init__(self, package: str, feature: str, install: str | None = None) -> None:
        self.package, self.feature = package, feature
        command = f"pip install {install or package}"
        super().__init__(f"{feature} needs the package {package!r}: {command}")
