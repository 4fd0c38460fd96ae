"""Modes: eigenvalues with the shapes in which a robot moves, by joint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Modes", "largest_is_one"]

_SHOWN = 0.05
"""Parts of a shape that are less are not printed."""


@dataclass(frozen=True, repr=False)
class Modes:
    """Modes of motion Re(φ eˢᵗ): eigenvalues s and shapes φ, a column a mode.

    Those that grow stand first, fastest growth first; the others by |s|, slowest first. The
    largest entry of a shape is 1. Of two conjugate eigenvalues the one with a positive imaginary
    part stands for both, and of the pair ±γ of an undamped unstable mode the growing one.
    """

    eigenvalues: np.ndarray
    shapes: np.ndarray
    names: tuple[str, ...]

    @property
    def frequencies(self) -> np.ndarray:
        """Frequencies of oscillation in rad/s, 0 where a mode grows or dies out without one."""
        return np.abs(self.eigenvalues.imag)

    @property
    def hertz(self) -> np.ndarray:
        """Frequencies of oscillation in Hz."""
        return self.frequencies / (2.0 * np.pi)

    @property
    def growth_rates(self) -> np.ndarray:
        """Real parts of the eigenvalues in 1/s: positive where a mode grows."""
        return self.eigenvalues.real

    @property
    def damping_ratios(self) -> np.ndarray:
        """−Re s / |s|: 0 undamped, 1 without oscillation, negative growing; NaN where s is 0."""
        size = np.abs(self.eigenvalues)
        return -self.eigenvalues.real / np.where(size > 0.0, size, np.nan)

    @property
    def stable(self) -> np.ndarray:
        """Whether each mode does not grow."""
        return self.eigenvalues.real <= 0.0

    def shape(self, k: int) -> dict[str, complex]:
        """The shape of mode k by joint."""
        return dict(zip(self.names, self.shapes[..., k].tolist(), strict=True))

    def __repr__(self) -> str:
        if self.eigenvalues.ndim != 1:
            return f"<Modes at {self.eigenvalues.shape[:-1]} states>"
        rows = [("mode", "Hz", "rad/s", "damping", "growth 1/s", "shape")]
        for k, s in enumerate(self.eigenvalues):
            damping = self.damping_ratios[k]
            # entries of the shape, largest first; size and phase where an entry is complex
            parts = sorted(self.shape(k).items(), key=lambda part: -abs(part[1]))
            shape = ", ".join(
                f"{name} {complex(x).real:+.2f}"
                if abs(complex(x).imag) < 0.1 * abs(x)
                else f"{name} {abs(x):.2f} at {np.degrees(np.angle(x)):+.0f}°"
                for name, x in parts
                if abs(x) >= _SHOWN
            )
            rows.append(
                (
                    f"{k + 1}",
                    f"{self.hertz[k]:.4g}",
                    f"{self.frequencies[k]:.4g}",
                    "" if np.isnan(damping) else f"{damping + 0.0:.3g}",
                    f"{s.real:.4g} unstable" if s.real > 0.0 else f"{s.real:.4g}",
                    shape,
                )
            )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(x.ljust(n) for x, n in zip(row, widths, strict=True)).rstrip() for row in rows
        )


def largest_is_one(shapes: np.ndarray) -> np.ndarray:
    """Columns scaled so that the largest entry of each is 1."""
    place = np.abs(shapes).argmax(axis=-2, keepdims=True)
    return shapes / np.take_along_axis(shapes, place, axis=-2)
