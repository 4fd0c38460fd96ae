"""Closed forms: the equations of motion of small robots in symbols, with proof."""

from qddot.lagrange.arms import planar_arm
from qddot.lagrange.closed_form import ClosedForm, Coordinate, derive
from qddot.lagrange.naming import Parameter
from qddot.lagrange.proof import Proof, ProofRow, prove
from qddot.lagrange.write import FORMATS, Format, as_data, write
from qddot.lagrange.write_python import python_module

__all__ = [
    "FORMATS",
    "ClosedForm",
    "Coordinate",
    "Format",
    "Parameter",
    "Proof",
    "ProofRow",
    "as_data",
    "derive",
    "planar_arm",
    "prove",
    "python_module",
    "write",
]
