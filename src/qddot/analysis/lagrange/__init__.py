"""Closed forms: the equations of motion of small robots in symbols, with proof."""

from qddot.errors import MissingPackage

try:
    from qddot.analysis.lagrange.arms import planar_arm
    from qddot.analysis.lagrange.closed_form import ClosedForm, Coordinate, derive
    from qddot.analysis.lagrange.naming import Parameter
    from qddot.analysis.lagrange.proof import Proof, ProofRow, prove
    from qddot.analysis.lagrange.write import FORMATS, Format, as_data, write
    from qddot.analysis.lagrange.write_python import python_module
except ModuleNotFoundError as error:
    if error.name != "sympy":
        raise
    raise MissingPackage("sympy", "the closed form of a robot", "'qddot[symbolic]'") from error

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
