"""Writers: robots as description files, with proof that what is read back is the same."""

from qddot.writers.certificate import Certificate, certify
from qddot.writers.convert import Conversion, convert
from qddot.writers.losses import Loss
from qddot.writers.matching import Difference
from qddot.writers.measures import Measure
from qddot.writers.parameters import Patched, write_parameters

__all__ = [
    "Certificate",
    "Conversion",
    "Difference",
    "Loss",
    "Measure",
    "Patched",
    "certify",
    "convert",
    "write_parameters",
]
