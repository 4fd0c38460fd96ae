"""Names that other libraries have for methods of a robot, answered with ours."""

from __future__ import annotations

from typing import Any

from qddot.algorithms.catalogue import OTHER_NAMES

__all__ = ["OtherNames"]


class _OtherName:
    """An attribute that is called otherwise here, and says so; no attribute as `hasattr` sees it.

    `__getattr__` of Robot would do the same, but slow down every other attribute.
    """

    def __init__(self, name: str, here: str) -> None:
        self.name, self.here = name, here

    def __get__(self, robot: Any, owner: type) -> Any:
        text = f"{owner.__name__!r} object has no attribute {self.name!r}; it is {self.here} here"
        raise AttributeError(text, name=self.name, obj=robot)


class OtherNames:
    """Names that other libraries have for methods of a robot."""


for _name, _here in OTHER_NAMES.items():
    setattr(OtherNames, _name, _OtherName(_name, _here))
