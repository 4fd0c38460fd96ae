"""The methods of a robot, written from the catalogue by `docs/generate.py`."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from qddot.algorithms.constraints import Constraints
from qddot.algorithms.kinematics import ReferenceAxes
from qddot.algorithms.task_space import Axes
from qddot.robot.wrenches import Wrench

__all__ = ["CatalogueMethods"]

class CatalogueMethods:
    """Every catalogue function as a method of a robot."""

    def inverse_dynamics(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        f_ext: Wrench | Sequence[Wrench] | None = None,
        *,
        friction: bool = False,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Joint torques τ = M a + C v + g − Jᵀ F of a motion (RNEA).

        `f_ext` holds one wrench on the robot for each (frame, reference) in `forces`; with `friction`
        the joint losses are added.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            a: (..., nv) Acceleration; rad/s² or m/s².
            f_ext: External wrenches on the robot, a `Wrench` or several; N and N m.
            friction: Whether damping, Coulomb friction and springs of the joints count.
            out: An array to write to, of the shape of the result.

        Returns:
            tau: (..., nv) Generalised force; N m or N.
        """

    def forward_dynamics(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike,
        f_ext: Wrench | Sequence[Wrench] | None = None,
        *,
        friction: bool = False,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Joint accelerations q̈ = M⁻¹ (τ + Jᵀ F − C v − g) (ABA, or M factorised where that is less).

        `f_ext` holds one wrench on the robot for each (frame, reference) in `forces`; with `friction`
        the joint losses are subtracted. Deep trees take the articulated-body algorithm; where joints
        have few others before them, or follow others, factorising M costs fewer operations.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            tau: (..., nv) Generalised force; N m or N.
            f_ext: External wrenches on the robot, a `Wrench` or several; N and N m.
            friction: Whether damping, Coulomb friction and springs of the joints count.
            out: An array to write to, of the shape of the result.

        Returns:
            a: (..., nv) Acceleration; rad/s² or m/s².
        """

    def hybrid_dynamics(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        tau: ArrayLike,
        f_ext: Wrench | Sequence[Wrench] | None = None,
        *,
        prescribed: Sequence[str] | None = None,
        friction: bool = False,
        out: tuple[np.ndarray | None, ...] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """All accelerations and torques, from a of the `prescribed` joints and τ of the others.

        The other entries of a and τ are ignored. With nothing prescribed it is forward dynamics, with
        all joints inverse dynamics. Deep trees take the articulated-body algorithm; where joints have
        few free ones before them, or follow others, factorising M of the free joints costs fewer
        operations. `forces` and `friction` are those of forward and inverse dynamics.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            a: (..., nv) Acceleration; rad/s² or m/s².
            tau: (..., nv) Generalised force; N m or N.
            f_ext: External wrenches on the robot, a `Wrench` or several; N and N m.
            prescribed: Names of the joints whose acceleration is given.
            friction: Whether damping, Coulomb friction and springs of the joints count.
            out: A tuple of arrays to write to, of the shape of the result.

        Returns:
            a_out: (..., nv) Acceleration of all joints; rad/s² or m/s².
            tau_out: (..., nv) Generalised force of all joints; N m or N.
        """

    def constrained_dynamics(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike,
        f_ext: Wrench | Sequence[Wrench] | None = None,
        *,
        friction: bool = False,
        constraints: Constraints = None,
        stabilisation: float | None = None,
        out: tuple[np.ndarray | None, ...] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Accelerations q̈ and multipliers λ of M q̈ + C v + g = τ + Jᵀ λ with J q̈ + J̇ v = 0.

        Featherstone 2008, section 8.5, with M factorised: (J M⁻¹ Jᵀ) λ = −(J q̈₀ + J̇ v), q̈₀ that of
        the open tree. With `stabilisation` k, a rate in 1/s, the right side is −2 k J v − k² φ, so that
        what is open closes as exp(−k t) (Baumgarte 1972). Rows that others make up wherever the loops
        are closed are left out, which a warning says once: their λ is zero. Where the rows that are
        left depend on each other, λ of all rows are the least ones by least squares.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            tau: (..., nv) Generalised force; N m or N.
            f_ext: External wrenches on the robot, a `Wrench` or several; N and N m.
            friction: Whether damping, Coulomb friction and springs of the joints count.
            constraints: `Loop` and `Contact` constraints; the loops of the model if None.
            stabilisation: Rate k of Baumgarte's stabilisation; 1/s.
            out: A tuple of arrays to write to, of the shape of the result.

        Returns:
            a: (..., nv) Acceleration; rad/s² or m/s².
            lam: (..., nc) Multipliers λ, one a row of the constraints; N or N m.
        """

    def constrained_inverse_dynamics(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        f_ext: Wrench | Sequence[Wrench] | None = None,
        *,
        actuated: Sequence[str] | None = None,
        friction: bool = False,
        constraints: Constraints = None,
        out: tuple[np.ndarray | None, ...] | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Motor torques τ, multipliers λ and the remaining force: M a + h = B τ + Jᵀ λ + rest.

        `actuated` names joints or velocities with a motor, all if None. Where motors are more than the
        freedoms that the constraints leave, τ is the least (Nakamura & Ghodoussi 1989); where they are
        fewer, the rest is the least in the metric of M⁻¹. A rest below a millionth of the load is zero.
        Infinite or NaN where rows, or motors, depend on each other.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            a: (..., nv) Acceleration; rad/s² or m/s².
            f_ext: External wrenches on the robot, a `Wrench` or several; N and N m.
            actuated: Names of the joints or velocities that have a motor; all if None.
            friction: Whether damping, Coulomb friction and springs of the joints count.
            constraints: `Loop` and `Contact` constraints; the loops of the model if None.
            out: A tuple of arrays to write to, of the shape of the result.

        Returns:
            tau: (..., nv) Generalised force; N m or N.
            lam: (..., nc) Multipliers λ, one a row of the constraints; N or N m.
            rest: (..., nv) Generalised force that neither motors nor constraints carry; N m or N.
        """

    def impact(
        self,
        q: ArrayLike,
        v: ArrayLike,
        restitution: ArrayLike,
        *,
        constraints: Constraints = None,
        out: tuple[np.ndarray | None, ...] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Velocity v⁺ after an impact and its impulses: J v⁺ = −e J v, with e an equation.

        Featherstone 2008, section 11.7: M (v⁺ − v) = Jᵀ ι. With e = 0 the constraints hold from then
        on; e = 1 keeps the energy. Redundant rows are left out as in `constrained_dynamics`, their e
        with them.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            restitution: (..., nc) Coefficient of restitution of each row, 0 to 1.
            constraints: `Loop` and `Contact` constraints; the loops of the model if None.
            out: A tuple of arrays to write to, of the shape of the result.

        Returns:
            v1: (..., nv) Velocity after the impact; rad/s or m/s.
            impulse: (..., nc) Impulses, one a row of the constraints; N s or N m s.
        """

    def constraint_residual(
        self,
        q: ArrayLike,
        *,
        constraints: Constraints = None,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Residual φ (nc) of loop closures and contacts: zero where they hold.

        The pose of the second frame of a loop as its first one sees it: lengths, and twice the tangent
        of half an angle. Without `constraints`, the loops of the model.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            constraints: `Loop` and `Contact` constraints; the loops of the model if None.
            out: An array to write to, of the shape of the result.

        Returns:
            phi: (..., nc) Residual of the constraints; m, or rad near zero.
        """

    def constraint_jacobian(
        self,
        q: ArrayLike,
        *,
        constraints: Constraints = None,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Jacobian J (nc × nv) of the constraints: J v is the rate of their residual, open or closed.

        Its transpose takes multipliers to joint torques.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            constraints: `Loop` and `Contact` constraints; the loops of the model if None.
            out: An array to write to, of the shape of the result.

        Returns:
            J: (..., nc, nv) Jacobian; the unit of the velocity of a row by that of v.
        """

    def constraint_jacobian_rate(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        constraints: Constraints = None,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Rate J̇ (nc × nv) of the Jacobian of the constraints along v: it, run on dual numbers.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            constraints: `Loop` and `Contact` constraints; the loops of the model if None.
            out: An array to write to, of the shape of the result.

        Returns:
            dJ: (..., nc, nv) Rate of the Jacobian; its unit by s.
        """

    def constraint_bias(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        constraints: Constraints = None,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Bias J̇ v (nc): the acceleration of the constraints while that of the joints is zero.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            constraints: `Loop` and `Contact` constraints; the loops of the model if None.
            out: An array to write to, of the shape of the result.

        Returns:
            b: (..., nc) Bias J̇ v; m/s² or rad/s².
        """

    def mass_matrix(
        self,
        q: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Mass matrix M (nv × nv), reflected inertia included (CRBA).

        Featherstone 2008, table 6.2: the forces that accelerate the composite body beyond a joint, as
        felt by that joint and by each joint before it.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            out: An array to write to, of the shape of the result.

        Returns:
            M: (..., nv, nv) Mass matrix; kg m², kg m or kg.
        """

    def mass_matrix_rate(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Rate Ṁ of the mass matrix along v, by the product rule through the recursion of M.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            out: An array to write to, of the shape of the result.

        Returns:
            dM: (..., nv, nv) Rate of the mass matrix; its unit by s.
        """

    def inverse_mass_matrix(
        self,
        q: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Inverse M⁻¹ of the mass matrix (nv × nv), through its factorisation.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            out: An array to write to, of the shape of the result.

        Returns:
            Minv: (..., nv, nv) Inverse mass matrix; 1/(kg m²), 1/(kg m) or 1/kg.
        """

    def coriolis_matrix(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Coriolis matrix C (nv × nv) in Christoffel form: C v = h − g and Ṁ − 2C skew.

        Echeandia & Wensing 2021, algorithm 1: C = Σ Jᵀ (I J̇ + B J) with composite inertias I and
        composite Coriolis operators B.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            out: An array to write to, of the shape of the result.

        Returns:
            C: (..., nv, nv) Coriolis matrix; kg m²/s or kg m/s, by kind of joint.
        """

    def christoffel_symbols(
        self,
        q: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Christoffel symbols Γ (nv × nv × nv) of the first kind: C_ij = Σ Γ_ijk v_k.

        Freedom d moves all beyond it with a velocity field u_d; a freedom p before it turns that field,
        so that points accelerate by ω_p × u_d. Freedom i feels ∫ u_i · (ω_p × u_d) dm = ω_p · N with
        N = ∫ u_d × u_i dm: one vector for each pair (d, i), of the composite body beyond both, gives
        Γ_idp = Γ_ipd. Freedoms of one joint move in body axes: there Γ_idp is not symmetric in d, p.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            out: An array to write to, of the shape of the result.

        Returns:
            Gamma: (..., nv, nv, nv) Christoffel symbols; kg m² or kg m, by kind of joint.
        """

    def gravity(
        self,
        q: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Gravity torques g, which hold the robot still.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            out: An array to write to, of the shape of the result.

        Returns:
            g: (..., nv) Gravity torques; N m or N.
        """

    def bias(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Bias h = C v + g: the torques of a motion without acceleration.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            out: An array to write to, of the shape of the result.

        Returns:
            h: (..., nv) Bias torques; N m or N.
        """

    def friction(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Joint losses τ_f to overcome: damping · v + Coulomb friction · sign v + spring.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            out: An array to write to, of the shape of the result.

        Returns:
            tau: (..., nv) Generalised force; N m or N.
        """

    def kinetic_energy(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Kinetic energy ½ vᵀ M v, that of reflected inertias included.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            out: An array to write to, of the shape of the result.

        Returns:
            T: (...) Kinetic energy; J.
        """

    def potential_energy(
        self,
        q: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Potential energy in gravity, zero with all mass at the world's origin; no springs.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            out: An array to write to, of the shape of the result.

        Returns:
            V: (...) Potential energy; J.
        """

    def momentum(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Generalised momentum p = M v, in O(n): momentum of each subtree, projected on its joint.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            out: An array to write to, of the shape of the result.

        Returns:
            p: (..., nv) Generalised momentum; kg m²/s or kg m/s.
        """

    def coriolis_transpose_product(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Product Cᵀ v of ṗ = Cᵀ v − g + τ, in O(n): Ṡᵀ times the momentum beyond each joint.

        Momentum observers (De Luca & Mattone 2003) need it; C itself is not formed. The factor B of
        C = Σ Jᵀ (I J̇ + B J) has no power on the motion that makes it, so Cᵀ v = Σ J̇ᵀ I J v.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            out: An array to write to, of the shape of the result.

        Returns:
            Ctv: (..., nv) Product Cᵀ v; N m or N.
        """

    def hamiltonian(
        self,
        q: ArrayLike,
        p: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Hamiltonian H = ½ pᵀ M⁻¹ p + V: the energy by configuration and momentum.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            p: (..., nv) Generalised momentum; kg m²/s or kg m/s.
            out: An array to write to, of the shape of the result.

        Returns:
            H: (...) Hamiltonian; J.
        """

    def hamiltonian_derivatives(
        self,
        q: ArrayLike,
        p: ArrayLike,
        *,
        out: tuple[np.ndarray | None, ...] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """∂H/∂q at fixed p, on the tangent space, and ∂H/∂p = v of the Hamiltonian (each nv).

        A step along a freedom s changes the velocities beyond it by V × s, V that of the body before
        the joint, so ∂H/∂q = g − (V × s) · momentum beyond. For joints of one freedom that is
        g − Cᵀ v, whose V is the body's own; on ball, planar and free joints it lacks the term of the
        joint's own velocity, which is a gyroscopic torque and no derivative of H.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            p: (..., nv) Generalised momentum; kg m²/s or kg m/s.
            out: A tuple of arrays to write to, of the shape of the result.

        Returns:
            dH_dq: (..., nv) ∂H/∂q; N m or N.
            dH_dp: (..., nv) ∂H/∂p = v; rad/s or m/s.
        """

    def body_poses(
        self,
        q: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Pose of every body in the world, as 4×4 matrices.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            out: An array to write to, of the shape of the result.

        Returns:
            X: (..., nb, 4, 4) Pose in the world as a 4×4 matrix; positions in m.
        """

    def body_velocities(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Velocity of every body in body coordinates.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            out: An array to write to, of the shape of the result.

        Returns:
            V: (..., nb, 6) Velocity, [linear; angular]; m/s and rad/s.
        """

    def body_accelerations(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Spatial acceleration of every body in body coordinates, gravity not included.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            a: (..., nv) Acceleration; rad/s² or m/s².
            out: An array to write to, of the shape of the result.

        Returns:
            A: (..., nb, 6) Acceleration, [linear; angular]; m/s² and rad/s².
        """

    def frame_poses(
        self,
        q: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Pose of every frame in the world, as 4×4 matrices.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            out: An array to write to, of the shape of the result.

        Returns:
            X: (..., nf, 4, 4) Pose in the world as a 4×4 matrix; positions in m.
        """

    def frame_pose(
        self,
        q: ArrayLike,
        frame: str,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Pose of a frame in the world, as a 4×4 matrix.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            frame: Name of a frame of the robot.
            out: An array to write to, of the shape of the result.

        Returns:
            X: (..., 4, 4) Pose in the world as a 4×4 matrix; positions in m.
        """

    def frame_velocity(
        self,
        q: ArrayLike,
        v: ArrayLike,
        frame: str,
        reference: ReferenceAxes,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Velocity of a frame, seen from a reference.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            frame: Name of a frame of the robot.
            reference: Axes and point: "local", "world" or "local_world_aligned".
            out: An array to write to, of the shape of the result.

        Returns:
            V: (..., 6) Velocity, [linear; angular]; m/s and rad/s.
        """

    def frame_acceleration(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        frame: str,
        reference: ReferenceAxes,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Spatial acceleration of a frame, seen from a reference, gravity not included.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            a: (..., nv) Acceleration; rad/s² or m/s².
            frame: Name of a frame of the robot.
            reference: Axes and point: "local", "world" or "local_world_aligned".
            out: An array to write to, of the shape of the result.

        Returns:
            A: (..., 6) Acceleration, [linear; angular]; m/s² and rad/s².
        """

    def frame_classical_acceleration(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        frame: str,
        reference: ReferenceAxes,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Classical acceleration of a frame: of the point that the reference names, gravity left out.

        That point of the body is the frame's origin ("local", "local_world_aligned") or the one at the
        world's origin ("world"); its acceleration is the spatial one plus ω × v.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            a: (..., nv) Acceleration; rad/s² or m/s².
            frame: Name of a frame of the robot.
            reference: Axes and point: "local", "world" or "local_world_aligned".
            out: An array to write to, of the shape of the result.

        Returns:
            A: (..., 6) Acceleration, [linear; angular]; m/s² and rad/s².
        """

    def frame_jacobian(
        self,
        q: ArrayLike,
        frame: str,
        reference: ReferenceAxes,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Jacobian J (6 × nv) with J v = velocity of the frame, seen from a reference.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            frame: Name of a frame of the robot.
            reference: Axes and point: "local", "world" or "local_world_aligned".
            out: An array to write to, of the shape of the result.

        Returns:
            J: (..., 6, nv) Jacobian; the unit of the velocity of a row by that of v.
        """

    def frame_jacobian_rate(
        self,
        q: ArrayLike,
        v: ArrayLike,
        frame: str,
        reference: ReferenceAxes,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Rate J̇ of the frame Jacobian: the time derivative of that matrix along v.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            frame: Name of a frame of the robot.
            reference: Axes and point: "local", "world" or "local_world_aligned".
            out: An array to write to, of the shape of the result.

        Returns:
            dJ: (..., 6, nv) Rate of the Jacobian; its unit by s.
        """

    def center_of_mass(
        self,
        q: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Centre of mass of the moving bodies, in the world.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            out: An array to write to, of the shape of the result.

        Returns:
            c: (..., 3) Centre of mass in the world; m.
        """

    def center_of_mass_jacobian(
        self,
        q: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Jacobian (3 × nv) of the centre of mass: linear momentum by velocity, over the mass.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            out: An array to write to, of the shape of the result.

        Returns:
            J: (..., 3, nv) Jacobian; the unit of the velocity of a row by that of v.
        """

    def centroidal_map(
        self,
        q: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Centroidal map A_G (6 × nv): momentum about the centre of mass, world axes, by velocity.

        Orin & Goswami 2008, each column from the composite body that its joint moves.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            out: An array to write to, of the shape of the result.

        Returns:
            A: (..., 6, nv) Centroidal map; kg and kg m, by rad or m.
        """

    def centroidal_map_rate(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Rate Ȧ_G of the centroidal map along v.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            out: An array to write to, of the shape of the result.

        Returns:
            dA: (..., 6, nv) Rate of the centroidal map; its unit by s.
        """

    def centroidal_momentum(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Momentum A_G v of the moving bodies about their centre of mass, world axes.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            out: An array to write to, of the shape of the result.

        Returns:
            h: (..., 6) Linear and angular momentum; N s and N m s.
        """

    def centroidal_momentum_rate(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Rate ḣ = A_G a + Ȧ_G v of the centroidal momentum: force and moment at the centre of mass.

        The Newton–Euler forces of all bodies, added up at the world's origin and taken to the centre of
        mass. It equals the weight and all wrenches from outside, those on the base included.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            a: (..., nv) Acceleration; rad/s² or m/s².
            out: An array to write to, of the shape of the result.

        Returns:
            dh: (..., 6) Force and moment at the centre of mass; N and N m.
        """

    def composite_inertia(
        self,
        q: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Composite inertia I_G (6 × 6): that of the robot with its joints locked, at its centre.

        About the centre of mass of the moving bodies, in world axes: diag(m 1, I_c). I_G⁻¹ A_G v is the
        average velocity of the robot (Orin & Goswami 2008); reflected inertia is no part of it.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            out: An array to write to, of the shape of the result.

        Returns:
            I: (..., 6, 6) Composite inertia; kg and kg m².
        """

    def task_jacobian(
        self,
        q: ArrayLike,
        frame: str,
        reference: ReferenceAxes,
        *,
        axes: Axes = None,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Jacobian J (nt × nv) of a task: the rows of the frame Jacobian that the axes name.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            frame: Name of a frame of the robot.
            reference: Axes and point: "local", "world" or "local_world_aligned".
            axes: Axes of the task, such as ('x', 'y', 'z'); all six if None.
            out: An array to write to, of the shape of the result.

        Returns:
            J: (..., nt, nv) Jacobian; the unit of the velocity of a row by that of v.
        """

    def manipulability(
        self,
        q: ArrayLike,
        frame: str,
        reference: ReferenceAxes,
        *,
        axes: Axes = None,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Manipulability √det(J Jᵀ) of a task, zero where it is singular (Yoshikawa 1985).

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            frame: Name of a frame of the robot.
            reference: Axes and point: "local", "world" or "local_world_aligned".
            axes: Axes of the task, such as ('x', 'y', 'z'); all six if None.
            out: An array to write to, of the shape of the result.

        Returns:
            volume: (...) Manipulability; the product of the units of the axes.
        """

    def task_mobility(
        self,
        q: ArrayLike,
        frame: str,
        reference: ReferenceAxes,
        *,
        axes: Axes = None,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Mobility Λ⁻¹ = J M⁻¹ Jᵀ (nt × nt): acceleration of the task by force (also if singular).

        Hogan 1985. Its entries are 1/kg and 1/(kg m²); where the task is singular so is this matrix,
        but it stays finite.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            frame: Name of a frame of the robot.
            reference: Axes and point: "local", "world" or "local_world_aligned".
            axes: Axes of the task, such as ('x', 'y', 'z'); all six if None.
            out: An array to write to, of the shape of the result.

        Returns:
            W: (..., nt, nt) Mobility; 1/kg and 1/(kg m²).
        """

    def task_inertia(
        self,
        q: ArrayLike,
        frame: str,
        reference: ReferenceAxes,
        *,
        axes: Axes = None,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Inertia Λ = (J M⁻¹ Jᵀ)⁻¹ (nt × nt) that is felt at the task; infinite or NaN if singular.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            frame: Name of a frame of the robot.
            reference: Axes and point: "local", "world" or "local_world_aligned".
            axes: Axes of the task, such as ('x', 'y', 'z'); all six if None.
            out: An array to write to, of the shape of the result.

        Returns:
            Lambda: (..., nt, nt) Inertia at the task; kg and kg m².
        """

    def operational_space(
        self,
        q: ArrayLike,
        v: ArrayLike,
        frame: str,
        reference: ReferenceAxes,
        *,
        axes: Axes = None,
        out: tuple[np.ndarray | None, ...] | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Λ, J̄, μ and p of F = Λ ẍ + μ + p, the dynamics that is felt at a task.

        Khatib 1987: Λ = (J M⁻¹ Jᵀ)⁻¹, J̄ = M⁻¹ Jᵀ Λ, μ = J̄ᵀ C v − Λ J̇ v, p = J̄ᵀ g. ẍ is the rate of
        J v: the classical acceleration in "local_world_aligned", the spatial one in "local" and
        "world". Where J loses rank they are infinite or NaN; see `qddot.task_space.damped_inverse`.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            frame: Name of a frame of the robot.
            reference: Axes and point: "local", "world" or "local_world_aligned".
            axes: Axes of the task, such as ('x', 'y', 'z'); all six if None.
            out: A tuple of arrays to write to, of the shape of the result.

        Returns:
            Lambda: (..., nt, nt) Inertia at the task; kg and kg m².
            Jbar: (..., nv, nt) Dynamically consistent inverse of the Jacobian.
            mu: (..., nt) Coriolis and centrifugal force at the task; N and N m.
            p: (..., nt) Gravity force at the task; N and N m.
        """

    def torque_regressor(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Regressor Y (nv × 10 nb) with Y π + armature · a = inverse dynamics.

        The forward pass of RNEA with unit parameters in place of the inertia (Atkeson et al. 1986).

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            a: (..., nv) Acceleration; rad/s² or m/s².
            out: An array to write to, of the shape of the result.

        Returns:
            Y: (..., nv, np) Regressor; its product with the inertial parameters has the unit of the result.
        """

    def momentum_regressor(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Regressor (nv × 10 nb) of the generalised momentum: Y π + armature · v = M v.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            out: An array to write to, of the shape of the result.

        Returns:
            Y: (..., nv, np) Regressor; its product with the inertial parameters has the unit of the result.
        """

    def momentum_rate_regressor(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Regressor (nv × 10 nb) of the momentum rate without torques: Y π = Cᵀ v − g.

        With the momentum regressor it gives d/dt (Y_p π + armature · v) = Y π + τ, the dynamics
        without accelerations. A freedom feels Ṡᵀ of the momentum beyond it, and Sᵀ of the weight.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            out: An array to write to, of the shape of the result.

        Returns:
            Y: (..., nv, np) Regressor; its product with the inertial parameters has the unit of the result.
        """

    def kinetic_energy_regressor(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Regressor (10 nb) of the kinetic energy of the bodies, reflected inertia left out.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            out: An array to write to, of the shape of the result.

        Returns:
            Y: (..., np) Regressor; its product with the inertial parameters has the unit of the result.
        """

    def potential_energy_regressor(
        self,
        q: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Regressor (10 nb) of the potential energy in gravity.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            out: An array to write to, of the shape of the result.

        Returns:
            Y: (..., np) Regressor; its product with the inertial parameters has the unit of the result.
        """

    def inverse_dynamics_derivatives(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        *,
        out: tuple[np.ndarray | None, ...] | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """∂τ/∂q, ∂τ/∂v and ∂τ/∂a = M of inverse dynamics (each nv × nv).

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            a: (..., nv) Acceleration; rad/s² or m/s².
            out: A tuple of arrays to write to, of the shape of the result.

        Returns:
            dtau_dq: (..., nv, nv) ∂τ/∂q; N m or N, by rad or m.
            dtau_dv: (..., nv, nv) ∂τ/∂v; N m s or N s, by rad or m.
            M: (..., nv, nv) Mass matrix; kg m², kg m or kg.
        """

    def forward_dynamics_derivatives(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike,
        *,
        out: tuple[np.ndarray | None, ...] | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """∂q̈/∂q, ∂q̈/∂v and ∂q̈/∂τ = M⁻¹ of forward dynamics (each nv × nv).

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            tau: (..., nv) Generalised force; N m or N.
            out: A tuple of arrays to write to, of the shape of the result.

        Returns:
            da_dq: (..., nv, nv) ∂q̈/∂q; 1/s², by kind of joint.
            da_dv: (..., nv, nv) ∂q̈/∂v; 1/s, by kind of joint.
            Minv: (..., nv, nv) Inverse mass matrix; 1/(kg m²), 1/(kg m) or 1/kg.
        """

    def gravity_derivatives(
        self,
        q: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """∂g/∂q of the gravity torques (nv × nv): the stiffness that gravity gives.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            out: An array to write to, of the shape of the result.

        Returns:
            dg_dq: (..., nv, nv) ∂g/∂q; N m or N, by rad or m.
        """

    def frame_velocity_derivatives(
        self,
        q: ArrayLike,
        v: ArrayLike,
        frame: str,
        reference: ReferenceAxes,
        *,
        out: tuple[np.ndarray | None, ...] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """∂V/∂q and ∂V/∂v = J of the velocity of a frame, seen from a reference (each 6 × nv).

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            frame: Name of a frame of the robot.
            reference: Axes and point: "local", "world" or "local_world_aligned".
            out: A tuple of arrays to write to, of the shape of the result.

        Returns:
            dV_dq: (..., 6, nv) ∂V/∂q; m/s and rad/s, by rad or m.
            J: (..., 6, nv) Jacobian; the unit of the velocity of a row by that of v.
        """

    def centroidal_momentum_derivatives(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        out: tuple[np.ndarray | None, ...] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """∂h/∂q and ∂h/∂v = A_G of the centroidal momentum (each 6 × nv).

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            out: A tuple of arrays to write to, of the shape of the result.

        Returns:
            dh_dq: (..., 6, nv) ∂h/∂q; N s and N m s, by rad or m.
            A: (..., 6, nv) Centroidal map ∂h/∂v; kg and kg m, by rad or m.
        """

    def inverse_dynamics_second_derivatives(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        *,
        out: tuple[np.ndarray | None, ...] | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """∂²τ/∂q², ∂²τ/∂v∂q, ∂²τ/∂v² and ∂M/∂q of inverse dynamics (each nv × nv × nv).

        The first derivatives, run on dual numbers; the last axis is the second variable.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            v: (..., nv) Velocity; rad/s or m/s.
            a: (..., nv) Acceleration; rad/s² or m/s².
            out: A tuple of arrays to write to, of the shape of the result.

        Returns:
            d2_dqdq: (..., nv, nv, nv) ∂²τ/∂q².
            d2_dvdq: (..., nv, nv, nv) ∂²τ/∂v∂q.
            d2_dvdv: (..., nv, nv, nv) ∂²τ/∂v².
            dM_dq: (..., nv, nv, nv) ∂M/∂q.
        """

    def integrate(
        self,
        q: ArrayLike,
        dv: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Configuration q ⊕ dv: from q along the tangent dv for unit time.

        Args:
            q: (..., nq) Configuration; rad or m, quaternions (x, y, z, w) of unit length.
            dv: (..., nv) Tangent, a velocity times unit time; rad or m.
            out: An array to write to, of the shape of the result.

        Returns:
            q1: (..., nq) Configuration; rad or m, unit quaternions.
        """

    def difference(
        self,
        q0: ArrayLike,
        q1: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Tangent dv with q0 ⊕ dv = q1; the shorter way round for ball, free and planar joints.

        Args:
            q0: (..., nq) Configuration at the start; rad or m, unit quaternions.
            q1: (..., nq) Configuration at the end; rad or m, unit quaternions.
            out: An array to write to, of the shape of the result.

        Returns:
            dv: (..., nv) Tangent, a velocity times unit time; rad or m.
        """

    def interpolate(
        self,
        q0: ArrayLike,
        q1: ArrayLike,
        t: ArrayLike,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Configuration a share t of the way from q0 to q1 along the manifold.

        Args:
            q0: (..., nq) Configuration at the start; rad or m, unit quaternions.
            q1: (..., nq) Configuration at the end; rad or m, unit quaternions.
            t: (...) Share of the way, 0 at q0 and 1 at q1.
            out: An array to write to, of the shape of the result.

        Returns:
            q: (..., nq) Configuration; rad or m, unit quaternions.
        """
