"""Torques of a log as means over windows, and hypotheses that are fitted to them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qddot.pipeline.diagnosis import Case, Diagnosis

__all__ = ["DELAYS", "NOISE", "SMOOTH", "Hypothesis", "LogTorques"]

_WINDOW, _LONGEST = 0.04, 40
"""Seconds, and samples at most, over which torques are averaged."""
_MOST_WINDOWS, _MOST_NUMBERS = 500, 4_000_000
"""Windows that are looked at, and numbers of their regressor."""
SMOOTH = 0.02
"""Speed (rad/s or m/s) below which Coulomb friction is a ramp."""
NOISE = 0.01
"""Share of the torque that may remain without anything being wrong."""
_NOTHING = 1e-4
"""Share of the torque that is as good as none: below it, rounding would choose a hypothesis."""
_BODIES = 0.1
"""Share by which the bodies of a file that is right are off, a standard deviation."""
DELAYS = range(2, 41)
"""Samples by which torques may come late."""
_PENALTY = 0.03
"""Penalty a parameter, so that simple hypotheses win."""


@dataclass(frozen=True)
class Hypothesis:
    """A hypothesis, the share of the torque that it leaves, and how many numbers it fits.

    `floor` is what its torques leave where bodies are free too: noise, which nothing explains.
    """

    diagnosis: Diagnosis
    left: float
    parameters: int
    floor: float = 0.0

    @property
    def score(self) -> float:
        """The share of the torque that is left, with a penalty for each parameter."""
        return (self.left + _NOTHING) * (1.0 + _PENALTY * self.parameters)

    def explained_share(self, plain: float) -> float:
        """Share that it explains of the variance that the model leaves beyond noise."""
        noise = min(self.floor, self.left, 0.9 * plain) ** 2
        return 1.0 - (self.left**2 - noise) / (plain**2 - noise)


class LogTorques:
    """Torques of a case and of its model as means over windows, without friction by joint."""

    def __init__(self, case: Case) -> None:
        assert case.tau is not None
        self.case, self.robot, self.measured = case, case.robot, case.tau
        dt = float(np.median(np.diff(case.time)))
        width = int(np.clip(_WINDOW / dt, 1, _LONGEST))
        # windows of whole rows, with room for delays on both sides
        edge = max(DELAYS) + 5
        sound = np.concatenate([[0], np.cumsum(case.sound)])
        starts = np.arange(edge, len(case.tau) - edge - width + 1, width)
        starts = starts[sound[starts + width] - sound[starts] == width]
        numbers = width * 10 * self.robot.model.nb * self.robot.nv
        most = max(min(_MOST_WINDOWS, _MOST_NUMBERS // numbers), 50)
        starts = starts[:: -(-len(starts) // most)] if len(starts) else starts
        self.rows = starts[:, None] + np.arange(width)
        self.q, self.v = case.q[self.rows], case.v[self.rows]
        self.a = case.acceleration[self.rows]
        self.tau = self.shift_torques(0)
        # friction of each joint as an orthonormal basis
        self.bases = []
        for j in range(self.robot.nv):
            v = self.v[..., j]
            A = np.stack([np.ones_like(v), v, np.tanh(v / SMOOTH)], axis=-1).mean(axis=1)
            self.bases.append(np.linalg.qr(A / (np.linalg.norm(A, axis=0) + 1e-12))[0])

    def shift_torques(self, samples: int) -> np.ndarray:
        """Means of the torques that were measured some samples later (windows × nv)."""
        return self.measured[self.rows + samples].mean(axis=1)

    @cached_property
    def gravity(self) -> np.ndarray:
        """g(q) of the model."""
        return self.robot.gravity(self.q).mean(axis=1)

    @cached_property
    def inertial(self) -> np.ndarray:
        """M q̈ of the model."""
        return np.einsum("wsij,wsj->wi", self.robot.mass_matrix(self.q), self.a) / len(self.rows[0])

    @cached_property
    def coriolis(self) -> np.ndarray:
        """C q̇ of the model."""
        return self.robot.bias(self.q, self.v).mean(axis=1) - self.gravity

    @property
    def rigid(self) -> np.ndarray:
        """All of the model."""
        return self.gravity + self.inertial + self.coriolis

    @cached_property
    def regressor(self) -> np.ndarray:
        """Torques of unit parameters (windows × nv × 10 nb)."""
        return self.robot.torque_regressor(self.q, self.v, self.a).mean(axis=1)

    @cached_property
    def bodies(self) -> np.ndarray:
        """Torques of each body of the model (windows × nv × nb)."""
        parameters = np.asarray(self.robot.inertial_parameters, float)
        parts = self.regressor.reshape(*self.regressor.shape[:2], *parameters.shape)
        return np.einsum("wjbk,bk->wjb", parts, parameters)

    def body_torques(self, parameters: np.ndarray) -> np.ndarray:
        """Torques of bodies with other parameters (nb × 10) along the motion."""
        return self.regressor @ parameters.ravel()

    def model_torques(
        self, q: np.ndarray, v: np.ndarray | None = None, a: np.ndarray | None = None
    ) -> np.ndarray:
        """Torques of the model along another motion, as means over windows."""
        v, a = self.v if v is None else v, self.a if a is None else a
        return self.robot.inverse_dynamics(q, v, a).mean(axis=1)

    def project(self, x: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Torques (windows × nv × columns) over sizes by joint, without what friction could be."""
        parts = [(x[:, j] - Q @ (Q.T @ x[:, j])) / size[j] for j, Q in enumerate(self.bases)]
        return np.concatenate(parts)

    def fit_residual(
        self, tau: np.ndarray, model: np.ndarray, columns: np.ndarray | None = None
    ) -> tuple[float, np.ndarray, int]:
        """Residual share of the torque under a model; coefficients of columns and bodies; rank.

        The rank is that of the columns. Deviations of the bodies from the file count as residual.
        """
        size = np.sqrt(np.mean(tau**2, axis=0)) + 1e-9
        y = self.project((tau - model)[..., None], size)[:, 0]
        free = np.zeros((*tau.shape, 0)) if columns is None else columns
        A = self.project(np.concatenate([free, self.bodies], axis=-1), size)
        # a body that is off by its deviation costs as much as the noise of all torques
        count, nb = free.shape[-1], self.bodies.shape[-1]
        prior = np.zeros((nb, count + nb))
        prior[:, count:] = np.sqrt(len(y)) * NOISE / _BODIES * np.eye(nb)
        A, y = np.vstack([A, prior]), np.concatenate([y, np.zeros(nb)])
        scale = np.linalg.norm(A, axis=0) + 1e-12
        x, _, rank, _ = np.linalg.lstsq(A / scale, y, rcond=1e-8)
        left = float(np.sqrt(np.sum((y - A / scale @ x) ** 2) / (len(y) - nb)))
        return left, x / scale, max(int(rank) - nb, 0)

    @cached_property
    def noise(self) -> float:
        """Share of the torques as they are that no bodies on these joints explain."""
        return self.noise_share(self.tau)

    def noise_share(self, tau: np.ndarray) -> float:
        """Share of torques that no bodies on these joints explain."""
        return self.fit_residual(tau, self.rigid, self.regressor)[0]
