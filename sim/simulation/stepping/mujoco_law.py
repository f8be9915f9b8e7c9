"""Parameters of MuJoCo's contact law for a model: inverse weights, softness and margins."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import warp as wp
from scipy.spatial.transform import Rotation

from sim.dynamics.kinematics import forward_kinematics, jacobian
from sim.dynamics.mass_matrix import mass_matrix
from sim.errors import ModelError
from sim.model.geometries import Geometry
from sim.model.model import Model
from sim.model.shapes.inertia import check_mass_matrix
from sim.model.softness import Softness
from sim.model.tendons.tendons import path_points
from sim.simulation.stepping.collision import CollisionModel, radius_of
from sim.simulation.stepping.constraint_layout import ConstraintLayout
from warp_kernels.types import FREE, PRISMATIC, SPHERICAL, warp_types


def adhesion_distance(model: Model, collision: CollisionModel) -> np.ndarray:
    """Return the distance below which contacts of each pair count for adhesion actuators [num_pairs], m."""
    own = {(pair.a, pair.b): pair.contact_margin + pair.contact_gap for pair in model.pair_softness}
    each = np.array([geometry.contact_margin + geometry.contact_gap for geometry in model.geometries])
    a, b = collision.pair_a.numpy(), collision.pair_b.numpy()
    pairs = zip(np.minimum(a, b).tolist(), np.maximum(a, b).tolist(), strict=True)
    return np.array([own.get(pair, each[list(pair)].sum()) for pair in pairs])


# MuJoCo's mjMINVAL.
SMALLEST = 1e-15
# Lower bound on a geometry's own inverse mass, as a fraction of that which a rotation of its link gives its rim. A link
# whose centre of mass lies on its hinge has none, and MuJoCo's contacts would be too stiff for the precision.
LEAST_SHARE = {"float64": 1e-8, "float32": 1e-4}
# Distance from its axes, to rounding, of a body that slides along them.
ALIGNED = 1e-10


class MujocoLaw:
    """Arrays on a device for MuJoCo's law, from the model's own parameters whatever those of its worlds.

    Attributes:
        geometry_inverse_weight: mean inverse mass over three directions of the point at which each geometry is weighed
            (``body_invweight0`` of MuJoCo's bodies); zero for the world [num_geometries], 1/kg.
        anchor_inverse_weight: sum over both links of point and weld constraints, for translation and rotation
            [num_anchors, 2], 1/kg and 1/(kg m^2).
        anchor_torque_scale: weight of a rotation relative to a displacement [num_anchors], m.
        dof_inverse_weight: diagonal of M^-1, averaged over three entries for spherical and free joints (MuJoCo's
            ``dof_invweight0``) [nv], 1/kg or 1/(kg m^2).
        pair_solref, pair_solimp: of the contacts of each pair [num_pairs].
        pair_margin: distance at which contacts become active [num_pairs], m.
        limit_solref, limit_solimp: of joint limits [nv].
        loss_solref, loss_solimp: of dry friction [nv].
        anchor_solref, anchor_solimp: of point and weld constraints [num_anchors].
        coupling_solref, coupling_solimp: of coupled joints [num_couplings].
        tendon_inverse_weight: inverse mass of the length of each tendon (MuJoCo's ``tendon_invweight0``) [num_tendons].
        tendon_limit_solref, tendon_limit_solimp: of limits of tendons [num_tendons].
        tendon_loss_solref, tendon_loss_solimp: of their dry friction [num_tendons].
        tendon_coupling_solref, tendon_coupling_solimp: of coupled tendons.
        largest_margin: maximum over all pairs, plus the gap of contacts with adhesion actuators [m].
    """

    def __init__(self, model: Model, collision: CollisionModel):
        device, t = collision.pair_a.device, warp_types(model.scalar)
        weights = InverseWeights(replace(model, dtype="float64"))
        of_geometries = weights.geometries(LEAST_SHARE[model.dtype])
        self.geometry_inverse_weight: wp.array = wp.array(of_geometries, dtype=model.scalar, device=device)
        self.anchor_inverse_weight: wp.array = wp.array(weights.anchors(), dtype=t.vec2, device=device)
        self.dof_inverse_weight: wp.array = wp.array(weights.dofs(), dtype=model.scalar, device=device)
        equalities = model.equalities
        scales = equalities.anchor_torque_scale
        self.anchor_torque_scale: wp.array = wp.array(scales, dtype=model.scalar, device=device)

        def upload(softness: Sequence[Softness]) -> tuple[wp.array, wp.array]:
            solref = np.array([each.solref for each in softness]).reshape(-1, 2)
            solimp = np.array([each.solimp for each in softness]).reshape(-1, 5)
            return wp.array(solref, dtype=t.vec2, device=device), wp.array(solimp, dtype=t.vec5, device=device)

        a, b = (
            [model.geometries[index] for index in side.numpy().tolist()]
            for side in (collision.pair_a, collision.pair_b)
        )
        numbers = (np.minimum, np.maximum)
        sides = collision.pair_a.numpy(), collision.pair_b.numpy()
        first, second = (of(*sides).tolist() for of in numbers)
        own = {(pair.a, pair.b): pair for pair in model.pair_softness}
        stated = [own.get(pair) for pair in zip(first, second, strict=True)]
        pairs = list(zip(a, b, stated, strict=True))
        self.pair_solref, self.pair_solimp = upload(
            [pair_softness(one, other) if pair is None else pair.softness for one, other, pair in pairs]
        )
        margins = np.array(
            [
                one.contact_margin + other.contact_margin if pair is None else pair.contact_margin
                for one, other, pair in pairs
            ]
        )
        self.pair_margin: wp.array = wp.array(margins, dtype=model.scalar, device=device)
        self.largest_margin = float(margins.max(initial=0.0))
        if model.transmissions.adheres.any():
            self.largest_margin = max(self.largest_margin, float(adhesion_distance(model, collision).max(initial=0.0)))
        self.limit_solref, self.limit_solimp = upload(model.limit_softness)
        self.loss_solref, self.loss_solimp = upload(model.friction_softness)
        self.anchor_solref, self.anchor_solimp = upload(equalities.anchor_softness)
        self.coupling_solref, self.coupling_solimp = upload(equalities.coupling_softness)
        self.tendon_inverse_weight: wp.array = wp.array(weights.tendons(), dtype=model.scalar, device=device)
        tendons = model.tendons
        self.tendon_limit_solref, self.tendon_limit_solimp = upload(tendons.limit_softness)
        self.tendon_loss_solref, self.tendon_loss_solimp = upload(tendons.friction_softness)
        self.tendon_coupling_solref, self.tendon_coupling_solimp = upload(tendons.coupling_softness)


def pair_softness(a: Geometry, b: Geometry) -> Softness:
    """Return MuJoCo's softness of contacts of two geometries: that of the one with priority, otherwise a mix."""
    if a.contact_priority != b.contact_priority:
        return max(a, b, key=lambda one: one.contact_priority).softness
    (one, weight), (other, other_weight) = ((each.softness, each.softness_mix) for each in (a, b))
    numbers = mixed_softness((one.solref, other.solref), (one.solimp, other.solimp), (weight, other_weight))
    return Softness(*numbers)


def mixed_softness(
    solref: Sequence[Sequence[float]], solimp: Sequence[Sequence[float]], weights: Sequence[float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return solref and solimp of two geometries, mixed by their weights as in MuJoCo; without bounds."""
    small = np.array(weights) < SMALLEST
    share = 0.5 if small.all() else float(small[1]) if small.any() else weights[0] / (weights[0] + weights[1])

    def mixed(one: Sequence[float], other: Sequence[float]) -> tuple[float, ...]:
        return tuple(share * x + (1.0 - share) * y for x, y in zip(one, other, strict=True))

    if min(solref[0][0], solref[1][0]) <= 0.0:
        # Stiffness and damping, given as negative numbers: the larger of each.
        return tuple(np.minimum(solref[0], solref[1]).tolist()), mixed(*solimp)
    return mixed(*solref), mixed(*solimp)


def require_mujoco_law(layout: ConstraintLayout) -> None:
    """Raise ModelError for features that MuJoCo's law doesn't have, naming the feature."""
    left = {
        "restitution of geometries": layout.bouncing,
        "contact_stiffness of geometries": layout.compliant,
    }
    for what, present in left.items():
        if present:
            raise ModelError(
                f"MujocoContact: MuJoCo's law has no {what}; remove it from model and parameters, or choose "
                "sim.HardContact"
            )


class InverseWeights:
    """MuJoCo's approximate inverse masses, for the initial configuration of a model.

    Args:
        model: in float64.

    Raises:
        ModelError: if its mass matrix is singular.

    Attributes:
        inverse: inverse of the mass matrix, armature of tendons included [nv, nv].
    """

    def __init__(self, model: Model):
        check_mass_matrix(model, model.parameters, 0.0)
        q = model.q0[None].copy()
        q[0, model.dof_q[model.equalities.coupling_dof]] = model.equalities.coupling_q0
        given: wp.array = wp.array(q, dtype=model.scalar, device="cpu")  # needs no GPU
        self.model = model
        self._poses = forward_kinematics(model, given).numpy()[0]
        self._rows = jacobian(model, given, model.link_names).numpy()[0]
        self._path_points, _ = path_points(model.tendons, model.parameters, self._poses)
        own = mass_matrix(model, given).numpy()[0]
        if model.tendons.names:
            slopes = self.slopes()
            own = own + slopes.T @ (model.parameters["tendon_armature"][:, None] * slopes)
        self.inverse = np.linalg.inv(own)
        self._sliders = self._find_sliders()

    def translation(self, link: int, point: Sequence[float]) -> float:
        """Return the mean inverse mass over three directions of a point of a link; zero for the world."""
        if link < 0:
            return 0.0
        if link in self._sliders:
            return 1.0 / float(self.model.parameters["mass"][link])
        position = self._poses[link, :3] + Rotation.from_quat(self._poses[link, 3:]).apply(point)
        return self._mean(self._rows_at(link, position))

    def rotation(self, link: int) -> float:
        """Return the mean inverse inertia over three axes of a link; zero for the world."""
        return 0.0 if link < 0 else self._mean(self._rows[link, :3])

    def geometries(self, share: float) -> np.ndarray:
        """Return the inverse mass of each geometry, at least a fraction of that from rotation [num_geometries]."""
        found = [self.translation(each.link, each.weighed_at) for each in self.model.geometries]
        for number, each in enumerate(self.model.geometries):
            if each.link >= 0 and each.collides:
                radius = float(np.linalg.norm(each.placement[:3])) + radius_of(each)
                least = share * radius**2 * self.rotation(each.link)
                found[number] = max(found[number], least if np.isfinite(least) else 0.0)
        return np.array(found)

    def anchors(self) -> np.ndarray:
        """Return the sum over both links of each point and weld constraint: translation and rotation [num_anchors,
        2].
        """
        found = np.zeros((len(self.model.equalities.anchor_names), 2))
        for side, links in enumerate((self.model.equalities.anchor_link_a, self.model.equalities.anchor_link_b)):
            for row, link in enumerate(links):
                point = self.model.equalities.anchor_weighed_at[row, side]
                found[row] += self.translation(link, point), self.rotation(link)
        return found

    def dofs(self) -> np.ndarray:
        """Return the inverse mass of each degree of freedom, averaged over three for spherical and free joints [nv]."""
        found = np.diag(self.inverse).copy()
        for kind, start in zip(self.model.joint_type, self.model.joint_qd_start, strict=True):
            for first in {SPHERICAL: [start], FREE: [start, start + 3]}.get(int(kind), []):
                found[first : first + 3] = found[first : first + 3].mean()
        for link, dofs in self._sliders.items():
            found[dofs] = 1.0 / self.model.parameters["mass"][link]
        return found

    def tendons(self) -> np.ndarray:
        """Return the inverse mass of the length of each tendon [num_tendons]."""
        slopes = self.slopes()
        return np.einsum("ti,ij,tj->t", slopes, self.inverse, slopes)

    def slopes(self) -> np.ndarray:
        """Return the derivative of each tendon's length in each degree of freedom [num_tendons, nv]."""
        count = len(self.model.tendons.names)
        return np.array([self._slope(tendon) for tendon in range(count)]).reshape(count, self.model.nv)

    def _find_sliders(self) -> dict[int, list[int]]:
        """Return the leaf links that only slide along their own axes, with their degrees of freedom.

        MuJoCo (``body_simple`` 2) weighs such bodies by their mass in all directions, without armature.
        """
        model, found = self.model, {}
        mass, com, inertia = (model.parameters[name] for name in ("mass", "com", "inertia"))
        for link in set(range(model.num_links)) - set(model.link_parent.tolist()):
            apart = np.abs(inertia[link] - np.diag(np.diag(inertia[link]))).max()
            if (
                model.prescribed[model.dofs_of(link)].any()
                or mass[link] <= 0.0
                or np.abs(com[link]).max() > ALIGNED
                or apart > ALIGNED * np.abs(inertia[link]).max()
            ):
                continue
            dofs, at = [], link
            while at >= 0 and model.joint_type[at] == PRISMATIC and (at == link or mass[at] == 0.0):
                dofs.append(int(model.joint_qd_start[at]))
                axis = self._rows[link, 3:, dofs[-1]] @ Rotation.from_quat(self._poses[link, 3:]).as_matrix()
                if np.abs(axis).max() < 1.0 - ALIGNED:
                    break
                at = int(model.link_parent[at])
            if at < 0:
                found[link] = dofs
        return found

    def _slope(self, tendon: int) -> np.ndarray:
        """Return the derivative of a tendon's length in each degree of freedom [nv]."""
        tendons, slope = self.model.tendons, np.zeros(self.model.nv)
        for term in tendons.terms(tendon):
            slope[tendons.term_dof[term]] += self.model.parameters["tendon_coefficient"][term]
        for segment in tendons.segments(tendon):
            if tendons.segment_wrap[segment] < 0:
                first, last = tendons.segment_ends[segment].tolist()
                apart = self._path_points[last] - self._path_points[first]
                if (distance := np.linalg.norm(apart)) > 0.0:
                    share = tendons.segment_share[segment] / distance
                    slope += share * apart @ (self._path_rows(last) - self._path_rows(first))
        return slope

    def _path_rows(self, number: int) -> np.ndarray:
        """Return the Jacobian of a point of a tendon [3, nv]."""
        link = int(self.model.tendons.path_link[number])
        return np.zeros((3, self.model.nv)) if link < 0 else self._rows_at(link, self._path_points[number])

    def _rows_at(self, link: int, point: np.ndarray) -> np.ndarray:
        """Return the Jacobian of the point of a link at a position in the world [3, nv]."""
        arm = point - self._poses[link, :3]
        return self._rows[link, 3:] + np.cross(self._rows[link, :3], arm, axisa=0, axisc=0)

    def _mean(self, rows: np.ndarray) -> float:
        return float(np.trace(rows @ self.inverse @ rows.T)) / 3.0
