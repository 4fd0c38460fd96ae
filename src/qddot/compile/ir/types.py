"""Vector types: the lanes of a register, and their spelling in LLVM IR."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

__all__ = ["VectorType", "vector_type"]


@dataclass(frozen=True)
class VectorType:
    """A vector of `lanes` numbers, "double" or "float"."""

    scalar: str
    lanes: int

    @property
    def type(self) -> str:
        """The vector type."""
        return f"<{self.lanes} x {self.scalar}>"

    @property
    def number_bytes(self) -> int:
        """Bytes of one number."""
        return 8 if self.scalar == "double" else 4

    @property
    def bytes(self) -> int:
        """Bytes of a vector."""
        return self.number_bytes * self.lanes

    @property
    def intrinsic_suffix(self) -> str:
        """The suffix of intrinsics on this type."""
        return f"v{self.lanes}f{8 * self.number_bytes}"

    @property
    def integer_type(self) -> str:
        """An integer type as wide as one number."""
        return f"i{8 * self.number_bytes}"

    def constant(self, x: float) -> str:
        """A vector of one constant; IR writes floats as the bits of a double."""
        if self.scalar == "float":
            with np.errstate(over="ignore"):
                x = float(np.float32(x))
        bits = struct.pack(">d", x).hex().upper()
        return "<" + ", ".join([f"{self.scalar} 0x{bits}"] * self.lanes) + ">"

    def integer_constant(self, k: int) -> str:
        """A vector of one integer."""
        return "<" + ", ".join([f"{self.integer_type} {k}"] * self.lanes) + ">"


def vector_type(dtype: str, register_bytes: int) -> VectorType:
    """The vector of float64 or float32 that fills a register."""
    scalar = {"float64": "double", "float32": "float"}[dtype]
    return VectorType(scalar, register_bytes // (8 if scalar == "double" else 4))
