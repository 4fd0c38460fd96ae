"""Writers: robots as description files, certified by reading them back."""

from qddot.writers.certificate import ConversionCertificate, certify_conversion
from qddot.writers.conversion_losses import ConversionLoss
from qddot.writers.convert import Conversion, convert
from qddot.writers.model_checks import ModelCheck
from qddot.writers.motion_checks import DynamicsDifference
from qddot.writers.parameters import PatchResult, write_parameters

__all__ = [
    "Conversion",
    "ConversionCertificate",
    "ConversionLoss",
    "DynamicsDifference",
    "ModelCheck",
    "PatchResult",
    "certify_conversion",
    "convert",
    "write_parameters",
]
