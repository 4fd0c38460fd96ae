"""Agreement with Drake on five URDFs: M, bias, gravity, poses."""

from __future__ import annotations

import warnings
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from agreement import assert_agree
from pydrake.multibody.parsing import Parser
from pydrake.multibody.plant import MultibodyPlant

import qddot
from qddot.loaders.named_robots import named_files

TOLERANCE = 1e-10
CASES = [
    ("ur5_robot", False),
    ("xarm7", False),
    ("z1", False),
    ("solo12", True),
    ("a1", True),
]


def without_shapes(name, folder):
    """The URDF with visuals and collisions removed: Drake refuses most mesh formats."""
    tree = ET.parse(named_files()[name])
    for link in tree.getroot().findall("link"):
        for shape in link.findall("visual") + link.findall("collision"):
            link.remove(shape)
    for extra in tree.getroot().findall("transmission") + tree.getroot().findall("gazebo"):
        tree.getroot().remove(extra)
    file = folder / f"{name}.urdf"
    tree.write(file)
    return file


def plant_of(file, free):
    plant = MultibodyPlant(0.0)
    (instance,) = Parser(plant).AddModels(str(file))
    if not free:
        joints = [plant.get_joint(j) for j in plant.GetJointIndices(instance)]
        children = {j.child_body().index() for j in joints}
        roots = [b for b in plant.GetBodyIndices(instance) if b not in children]
        for root in roots:
            plant.WeldFrames(plant.world_frame(), plant.get_body(root).body_frame())
    plant.Finalize()
    return plant


@pytest.mark.parametrize(("name", "free"), CASES)
def test_agreement(name, free, tmp_path):
    file = without_shapes(name, tmp_path)
    plant = plant_of(file, free)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        r = qddot.load(file, base="free" if free else None, couplings="free")
    assert plant.num_velocities() == r.nv
    rng = np.random.default_rng(0)
    q, v = r.random(rng), rng.normal(size=r.nv)
    qd, T, rest = np.zeros(plant.num_positions()), np.zeros((r.nv, r.nv)), np.zeros(r.nv)
    for body in r.model.bodies:
        iv = np.arange(body.iv.start, body.iv.stop)
        if body.joint.kind.name == "free":
            base = plant.GetBodyByName(body.name)
            at, dof = base.floating_positions_start(), base.floating_velocities_start_in_v()
            x = q[body.iq]
            qd[at : at + 7] = [x[6], *x[3:6], *x[:3]]
            R = r.frame_pose(q, body.name)[:3, :3]
            T[dof : dof + 3, iv[3:]] = T[dof + 3 : dof + 6, iv[:3]] = R
            rest[dof + 3 : dof + 6] = R @ np.cross(v[iv[3:]], v[iv[:3]])
        else:
            joint = plant.GetJointByName(body.joint.name)
            qd[joint.position_start()] = q[body.iq][0]
            T[joint.velocity_start(), iv[0]] = 1.0
    context = plant.CreateDefaultContext()
    plant.SetPositions(context, qd)
    plant.SetVelocities(context, T @ v)
    M, bias = plant.CalcMassMatrix(context), plant.CalcBiasTerm(context)
    gravity = -plant.CalcGravityGeneralizedForces(context)
    assert_agree("M", r.mass_matrix(q), T.T @ M @ T, TOLERANCE)
    # Drake writes gravity as 9.81 downward too
    assert_agree("g", r.gravity(q), T.T @ gravity, TOLERANCE)
    assert_agree("h", r.bias(q, v), T.T @ (bias + gravity + M @ rest), TOLERANCE)
    for frame in r.frame_names:
        if plant.HasBodyNamed(frame):
            X = plant.EvalBodyPoseInWorld(context, plant.GetBodyByName(frame)).GetAsMatrix4()
            assert_agree(f"pose of {frame}", r.frame_pose(q, frame), X, TOLERANCE)
