"""A robot here and in Pinocchio."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pinocchio as pin

import qddot


class Pair:
    """The same URDF here and in Pinocchio, at one random state, joints matched by name."""

    def __init__(self, file: Path, free: bool) -> None:
        root = (pin.JointModelFreeFlyer(),) if free else ()
        self.m = pin.buildModelFromUrdf(str(file), *root)
        self.d = self.m.createData()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.r = qddot.load(file, base="free" if free else None, couplings="free")
        rng = np.random.default_rng(1)
        self.q = self.r.random(rng)
        self.v, self.a = rng.normal(size=(2, self.r.nv))
        self.qp, self.order = pin.neutral(self.m), np.zeros(self.r.nv, int)
        self.blocks = np.zeros(10 * self.r.model.nb, int)
        for i, body in enumerate(self.r.model.bodies):
            index = self.m.getJointId(body.joint.name)
            joint, x = self.m.joints[index], self.q[body.iq]
            if (joint.nq, joint.nv) == (2, 1):
                x = [np.cos(x[0]), np.sin(x[0])]
            self.qp[joint.idx_q : joint.idx_q + joint.nq] = x
            self.order[body.iv] = np.arange(joint.idx_v, joint.idx_v + joint.nv)
            self.blocks[10 * i : 10 * i + 10] = np.arange(10 * index - 10, 10 * index)
        self.vp, self.ap = np.zeros((2, self.m.nv))
        self.vp[self.order], self.ap[self.order] = self.v, self.a

    def square(self, A: np.ndarray) -> np.ndarray:
        return A[np.ix_(self.order, self.order)]
