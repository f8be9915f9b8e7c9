"""Layout of the constraints that the worlds of a simulator may have."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sim.model.model import Model
from sim.simulation.stepping.collision import candidate_pairs, is_crowd, most_contacts
from sim.simulation.stepping.tendon_layout import damper_rows, heavy_tendons, tendon_rows
from warp_kernels.constraints.immovable import LEAST_SHARE
from warp_kernels.types import SPHERICAL, TORQUE

RESISTANCE_OF_PAIRS = ("pair_torsional_friction", "pair_rolling_friction", "pair_rolling_friction_across")
# Parameters that decide the layout.
DECISIVE = (
    "lower_limit", "upper_limit", "friction_loss", "swing_limit", "twist_limit", "rotation_limit", "contact_stiffness",
    "restitution", "torsional_friction", "rolling_friction", *RESISTANCE_OF_PAIRS, "actuator_force_limit",
    "tendon_lower_limit", "tendon_upper_limit", "tendon_friction_loss", "tendon_armature",
    "tendon_damping", "tendon_damping_polynomial",
)  # fmt: skip
# Limits of spherical joints, in the order of :mod:`warp_kernels.constraints.limits`.
CONE_LIMITS = ("swing_limit", "twist_limit", "rotation_limit")


@dataclass(frozen=True)
class ConstraintLayout:
    """Counts and kinds of possible constraints, which decide array sizes and kernels; the same for all worlds.

    Attributes:
        limited: degrees of freedom with a limit, in any of the worlds.
        cones: links of spherical joints with a limit, and its index in ``CONE_LIMITS`` [n, 2].
        friction: degrees of freedom with dry friction.
        equalities: equality constraints, of which those that switch may be off.
        tendons: tendon constraints, see :func:`sim.simulation.stepping.tendon_layout.tendon_rows` [n, 4].
        dampers: rows of dampers on two paths in the midpoint step, see
            :func:`sim.simulation.stepping.tendon_layout.damper_rows` [n, 4].
        heavy: tendons with armature, see :func:`sim.simulation.stepping.tendon_layout.heavy_tendons` [n, 2].
        limited_actuators: number of actuators that may exceed their force limit.
        compliant: whether a geometry that collides is compliant.
        resisting: maximum number of contacts with torsional or rolling friction.
        bouncing: whether a geometry that collides and moves has restitution.
    """

    limited: np.ndarray
    cones: np.ndarray
    friction: np.ndarray
    equalities: int
    tendons: np.ndarray
    dampers: np.ndarray
    heavy: np.ndarray
    limited_actuators: int
    compliant: bool
    resisting: int
    bouncing: bool

    def max_constraints(self, max_contacts: int, by_mujoco: bool = False, damps: bool = False) -> int:
        """Return the constraint capacity per world.

        Args:
            max_contacts: capacity for contacts.
            by_mujoco: whether the law is MuJoCo's, which has separate constraints for spinning and rolling.
            damps: whether dampers on two paths are constraints, as in the midpoint step.
        """
        contacts = max_contacts + (1 + by_mujoco) * min(max_contacts, self.resisting)
        joints = 2 * len(self.limited) + len(self.cones) + len(self.friction) + self.limited_actuators
        return contacts + joints + self.equalities + len(self.tendons) + damps * len(self.dampers)

    @property
    def key(self) -> tuple:
        """Return a key that is equal for equal layouts."""
        counts = self.limited_actuators, self.compliant, self.resisting, self.bouncing
        lists = (self.limited, self.cones, self.friction, self.tendons, self.dampers, self.heavy)
        return *(each.tobytes() for each in lists), *counts


def constraint_layout(model: Model, parameters: Mapping[str, np.ndarray], by_mujoco: bool) -> ConstraintLayout:
    """Return the layout under a law for the values of all worlds, ``[n, ...]`` or ``[num_worlds, n, ...]``."""
    limited = (np.isfinite(parameters["lower_limit"]) | np.isfinite(parameters["upper_limit"])).reshape(-1, model.nv)
    rubs = (parameters["friction_loss"] > 0.0).reshape(-1, model.nv)
    angles = [np.isfinite(np.atleast_2d(parameters[name])).any(axis=0) for name in CONE_LIMITS]
    compliant = np.isfinite(np.atleast_2d(parameters["contact_stiffness"])).any(axis=0).tolist()
    bounces = np.atleast_2d(parameters["restitution"]).max(axis=0).tolist()
    resistance = [np.atleast_2d(parameters[name]).max(axis=0) for name in ("torsional_friction", "rolling_friction")]
    return ConstraintLayout(
        limited=np.flatnonzero((model.dof_q >= 0) & limited.any(axis=0)),
        cones=np.argwhere(np.transpose(angles) & (model.joint_type == SPHERICAL)[:, None]),
        friction=np.flatnonzero(rubs.any(axis=0)),
        equalities=model.equalities.num_constraints,
        tendons=tendon_rows(model, parameters),
        dampers=damper_rows(model, parameters),
        heavy=heavy_tendons(model, parameters),
        limited_actuators=_limited_actuators(model, parameters),
        compliant=any(geometry.collides and compliant[i] for i, geometry in enumerate(model.geometries)),
        resisting=_most_resisting(model, np.maximum(*resistance) > 0.0, parameters, by_mujoco),
        bouncing=any(
            # The restitution of static geometries is 1, so that the moving body decides.
            geometry.collides and geometry.link >= 0 and bounces[i] > 0.0
            for i, geometry in enumerate(model.geometries)
        ),
    )


def least_inverse_masses(model: Model) -> np.ndarray:
    """Return the lower bound on the effective inverse mass of a point, by its last degree of freedom [nv], 1/kg.

    It is a fraction of the inverse mass of all that moves with the point, see
    :mod:`warp_kernels.constraints.immovable`; zero without mass.
    """
    mass = np.array(model.parameters["mass"], dtype=np.float64)
    for link in range(model.num_links - 1, -1, -1):
        if model.link_parent[link] >= 0:
            mass[model.link_parent[link]] += mass[link]
    moved = mass[model.dof_link]
    return np.divide(LEAST_SHARE, moved, out=np.zeros(model.nv), where=(moved > 0.0) & ~model.prescribed)


def _most_resisting(model: Model, resists: np.ndarray, parameters: Mapping[str, np.ndarray], by_mujoco: bool) -> int:
    """Return the maximum number of contacts of pairs with a resisting geometry, or with a stated resistance."""
    own = [np.atleast_2d(parameters[name]).max(axis=0) for name in RESISTANCE_OF_PAIRS if model.pair_frictions]
    stated = {(pair.a, pair.b) for pair, *most in zip(model.pair_frictions, *own, strict=True) if any(most)}
    if not (stated or resists.any()):
        return 0
    if is_crowd(model):
        return np.iinfo(np.int32).max  # not a limit
    pairs = zip(*candidate_pairs(model), strict=True)
    return sum(
        most_contacts(model, i, j, by_mujoco)
        for i, j in pairs
        if resists[i] or resists[j] or (min(i, j), max(i, j)) in stated
    )


def _limited_actuators(model: Model, parameters: Mapping[str, np.ndarray]) -> int:
    if not model.nu:
        return 0
    limited = np.isfinite(np.atleast_2d(parameters["actuator_force_limit"])).any(axis=0)
    if "actuator_stall_force" in parameters:
        limited |= model.parameters["actuator_stall_force"] > 0.0
    return int((limited & (model.actuator_law != TORQUE) & (model.actuator_dof >= 0)).sum())
