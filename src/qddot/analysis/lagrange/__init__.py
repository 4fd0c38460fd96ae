"""Closed forms: the equations of motion of small robots in symbols, with proof."""

from qddot.analysis.lagrange.arms import planar_arm
from qddot.analysis.lagrange.closed_form import ClosedForm, Coordinate, derive
from qddot.analysis.lagrange.naming import Parameter
from qddot.analysis.lagrange.proof import Proof, ProofRow, prove
from qddot.analysis.lagrange.write import FORMATS, Format, as_data, write
from qddot.analysis.lagrange.write_python import python_module

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
