"""Docstrings of the methods of a robot: arguments and results with their shapes and units."""

from __future__ import annotations

import inspect

from qddot.algorithms.catalogue import Argument, Function

__all__ = ["INPUTS", "OPTIONS", "OUTPUTS", "method_docstring"]

INPUTS = {
    "q": "Configuration; rad or m, quaternions (x, y, z, w) of unit length.",
    "q0": "Configuration at the start; rad or m, unit quaternions.",
    "q1": "Configuration at the end; rad or m, unit quaternions.",
    "v": "Velocity; rad/s or m/s.",
    "a": "Acceleration; rad/s² or m/s².",
    "tau": "Generalised force; N m or N.",
    "p": "Generalised momentum; kg m²/s or kg m/s.",
    "dv": "Tangent, a velocity times unit time; rad or m.",
    "t": "Share of the way, 0 at q0 and 1 at q1.",
    "restitution": "Coefficient of restitution of each row, 0 to 1.",
}
"""Arrays that functions take: meaning and unit, the unit by the kind of joint."""
OPTIONS = {
    "f_ext": "External wrenches on the robot, a `Wrench` or several; N and N m.",
    "friction": "Whether damping, Coulomb friction and springs of the joints count.",
    "actuated": "Names of the joints or velocities that have a motor; all if None.",
    "prescribed": "Names of the joints whose acceleration is given.",
    "constraints": "`Loop` and `Contact` constraints; the loops of the model if None.",
    "stabilisation": "Rate k of Baumgarte's stabilisation; 1/s.",
    "frame": "Name of a frame of the robot.",
    "reference": 'Axes and point: "local", "world" or "local_world_aligned".',
    "axes": "Axes of the task, such as ('x', 'y', 'z'); all six if None.",
}
"""Other arguments of methods."""
OUTPUTS = {
    "a": "Acceleration; rad/s² or m/s².",
    "a_out": "Acceleration of all joints; rad/s² or m/s².",
    "tau": "Generalised force; N m or N.",
    "tau_out": "Generalised force of all joints; N m or N.",
    "lam": "Multipliers λ, one a row of the constraints; N or N m.",
    "rest": "Generalised force that neither motors nor constraints carry; N m or N.",
    "v1": "Velocity after the impact; rad/s or m/s.",
    "impulse": "Impulses, one a row of the constraints; N s or N m s.",
    "phi": "Residual of the constraints; m, or rad near zero.",
    "J": "Jacobian; the unit of the velocity of a row by that of v.",
    "dJ": "Rate of the Jacobian; its unit by s.",
    "b": "Bias J̇ v; m/s² or rad/s².",
    "M": "Mass matrix; kg m², kg m or kg.",
    "dM": "Rate of the mass matrix; its unit by s.",
    "Minv": "Inverse mass matrix; 1/(kg m²), 1/(kg m) or 1/kg.",
    "C": "Coriolis matrix; kg m²/s or kg m/s, by kind of joint.",
    "Gamma": "Christoffel symbols; kg m² or kg m, by kind of joint.",
    "g": "Gravity torques; N m or N.",
    "h": "Bias torques; N m or N.",
    "T": "Kinetic energy; J.",
    "V": "Velocity, [linear; angular]; m/s and rad/s.",
    "p": "Generalised momentum; kg m²/s or kg m/s.",
    "Ctv": "Product Cᵀ v; N m or N.",
    "H": "Hamiltonian; J.",
    "dH_dq": "∂H/∂q; N m or N.",
    "dH_dp": "∂H/∂p = v; rad/s or m/s.",
    "X": "Pose in the world as a 4×4 matrix; positions in m.",
    "A": "Acceleration, [linear; angular]; m/s² and rad/s².",
    "c": "Centre of mass in the world; m.",
    "dA": "Rate of the centroidal map; its unit by s.",
    "dh": "Force and moment at the centre of mass; N and N m.",
    "I": "Composite inertia; kg and kg m².",
    "volume": "Manipulability; the product of the units of the axes.",
    "W": "Mobility; 1/kg and 1/(kg m²).",
    "Lambda": "Inertia at the task; kg and kg m².",
    "Jbar": "Dynamically consistent inverse of the Jacobian.",
    "mu": "Coriolis and centrifugal force at the task; N and N m.",
    "Y": "Regressor; its product with the inertial parameters has the unit of the result.",
    "dtau_dq": "∂τ/∂q; N m or N, by rad or m.",
    "dtau_dv": "∂τ/∂v; N m s or N s, by rad or m.",
    "da_dq": "∂q̈/∂q; 1/s², by kind of joint.",
    "da_dv": "∂q̈/∂v; 1/s, by kind of joint.",
    "dg_dq": "∂g/∂q; N m or N, by rad or m.",
    "dV_dq": "∂V/∂q; m/s and rad/s, by rad or m.",
    "dh_dq": "∂h/∂q; N s and N m s, by rad or m.",
    "d2_dqdq": "∂²τ/∂q².",
    "d2_dvdq": "∂²τ/∂v∂q.",
    "d2_dvdv": "∂²τ/∂v².",
    "dM_dq": "∂M/∂q.",
    "q": "Configuration; rad or m, unit quaternions.",
    "q1": "Configuration; rad or m, unit quaternions.",
    "dv": "Tangent, a velocity times unit time; rad or m.",
    # names that mean something else in one function
    "potential_energy: V": "Potential energy; J.",
    "centroidal_map: A": "Centroidal map; kg and kg m, by rad or m.",
    "centroidal_momentum_derivatives: A": "Centroidal map ∂h/∂v; kg and kg m, by rad or m.",
    "centroidal_momentum: h": "Linear and angular momentum; N s and N m s.",
    "operational_space: p": "Gravity force at the task; N and N m.",
}
"""Results: meaning and unit, by name, or by function and name where a name has several meanings."""


def method_docstring(row: Function) -> str:
    """The docstring of the method of a catalogue row, with Args and Returns (Google style)."""
    options = ["f_ext" if o.name == "forces" else o.name for o in row.options]
    # the order of the signature: arrays, options without a default, f_ext, the others
    required = [o.name for o in row.options if o.default is o.empty]
    optional = sorted((name for name in options if name not in required), key="f_ext".__ne__)
    arrays = [a for a in row.inputs if a.name != "f_ext"]
    several = len(row.outputs) > 1
    target = "A tuple of arrays" if several else "An array"
    lines = [inspect.getdoc(row.algorithm) or "", "", "Args:"]
    lines += [_array_line(INPUTS[a.name], a) for a in arrays]
    lines += [f"    {name}: {OPTIONS[name]}" for name in (*required, *optional)]
    lines += [f"    out: {target} to write to, of the shape of the result.", "", "Returns:"]
    for output in row.outputs:
        text = OUTPUTS.get(f"{row.name}: {output.name}") or OUTPUTS[output.name]
        lines.append(_array_line(text, output))
    return "\n".join(lines)


def _array_line(text: str, array: Argument) -> str:
    """An array with its shape and description; leading axes are batch."""
    return f"    {array.name}: ({', '.join(('...', *array.shape))}) {text}"
