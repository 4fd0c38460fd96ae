"""The catalogue functions as methods, one a row; `catalogue_methods.pyi` has their signatures.

`docs/generate.py` writes that stub from the catalogue, for type checkers and editors.
"""

from __future__ import annotations

from qddot.algorithms.catalogue import CATALOGUE
from qddot.robot.methods import make_method

__all__ = ["CatalogueMethods"]


class CatalogueMethods:
    """Every catalogue function as a method of a robot."""


for _row in CATALOGUE.values():
    setattr(CatalogueMethods, _row.name, make_method(_row))
