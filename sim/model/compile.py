"""From the builder's description to a model: check the graph, order it, merge what is welded, lay out the arrays."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.transform import Rotation

from sim.errors import ModelError
from sim.model.equalities import Equalities, coupled_dofs, fit_followers, place_anchors
from sim.model.model import Frame, Geometry, Model
from sim.model.poses import IDENTITY, compose
from sim.model.specs import JOINT_DOFS, WORLD, ActuatorSpec, JointSpec
from warp_kernels import types as codes

if TYPE_CHECKING:
    from sim.model.builder import ModelBuilder


# Parameters of a geometry's material, by their names in the builder and in the model.
MATERIAL = ("friction", "restitution", "torsional_friction", "rolling_friction", "contact_stiffness", "contact_damping")

# Rounding residue of files that mean zero [kg m^2]; a steel ball of a millimetre has 4e-13.
NEGLIGIBLE_INERTIA = 1e-16


@dataclass
class Body:
    """A link of the model to be, with what was merged into it."""

    name: str
    joint: JointSpec
    parent: int
    mass: float = 0.0
    com: np.ndarray = field(default_factory=lambda: np.zeros(3))
    inertia: np.ndarray = field(default_factory=lambda: np.zeros((3, 3)))
    has_inertial: bool = False


def compile_model(builder: ModelBuilder, dtype: str, collapse_fixed: bool) -> Model:
    """See :meth:`sim.ModelBuilder.finalize`."""
    if dtype not in codes.DTYPES:
        raise ModelError(f"unknown dtype '{dtype}'; known are {', '.join(codes.DTYPES)}")
    joint_of = _joint_of_each_link(builder)
    order = _depth_first(builder)
    bodies, home = _bodies(builder, joint_of, order, collapse_fixed)
    massless = _check_masses(bodies)
    _check_inertias(_bodies(builder, joint_of, order, collapse_fixed=True)[0])
    geometries = _geometries(builder, home)
    frames = _frames(builder, home)
    excluded = _excluded_pairs(builder, geometries)
    return _model(builder, dtype, bodies, home, geometries, frames, excluded, massless)


def _joint_of_each_link(builder: ModelBuilder) -> dict[str, JointSpec]:
    joint_of: dict[str, JointSpec] = {}
    for joint in builder.joints.values():
        if joint.child not in builder.links:
            raise ModelError(f"joint '{joint.name}': unknown child link '{joint.child}'")
        if joint.parent != WORLD and joint.parent not in builder.links:
            raise ModelError(f"joint '{joint.name}': unknown parent link '{joint.parent}'")
        if joint.child in joint_of:
            raise ModelError(
                f"link '{joint.child}' has two joints, '{joint_of[joint.child].name}' and '{joint.name}'; "
                "loops are not supported"
            )
        joint_of[joint.child] = joint
    for link in builder.links:
        if link not in joint_of:
            raise ModelError(f"link '{link}' has no joint; connect it with add_joint (type 'free' for a loose body)")
    return joint_of


def _depth_first(builder: ModelBuilder) -> list[str]:
    children: dict[str, list[str]] = {name: [] for name in (WORLD, *builder.links)}
    for joint in builder.joints.values():
        children[joint.parent].append(joint.child)
    # Trees stand in the order in which their root links were added, children in the order of their joints.
    position = {name: number for number, name in enumerate(builder.links)}
    order: list[str] = []
    stack = sorted(children[WORLD], key=lambda name: position[name], reverse=True)
    while stack:
        link = stack.pop()
        order.append(link)
        stack.extend(reversed(children[link]))
    if len(order) < len(builder.links):
        loop = [link for link in builder.links if link not in set(order)]
        raise ModelError(
            f"the joints of links {', '.join(repr(name) for name in loop)} form a cycle that never reaches the world"
        )
    return order


def _bodies(
    builder: ModelBuilder, joint_of: dict[str, JointSpec], order: list[str], collapse_fixed: bool
) -> tuple[list[Body], dict[str, tuple[int, np.ndarray]]]:
    """The links that stay, and for every name the link it belongs to with its pose there."""
    bodies: list[Body] = []
    home: dict[str, tuple[int, np.ndarray]] = {WORLD: (-1, IDENTITY)}
    for name in order:
        joint = joint_of[name]
        parent, placement = home[joint.parent]
        placement = compose(placement, joint.placement)
        if collapse_fixed and joint.type == codes.FIXED:
            home[name] = (parent, placement)
        else:
            bodies.append(Body(name, replace(joint, placement=placement), parent))
            home[name] = (len(bodies) - 1, IDENTITY)
        link = builder.links[name]
        index, placement = home[name]
        if index >= 0 and link.mass is not None:
            _merge(bodies[index], link.mass, link.com, link.inertia, placement)
    return bodies, home


def _merge(body: Body, mass: float, com: np.ndarray, inertia: np.ndarray, placement: np.ndarray) -> None:
    """Add the mass of a welded link, given in its own frame at ``placement`` in the body's."""
    rotation = Rotation.from_quat(placement[3:]).as_matrix()
    point = placement[:3] + rotation @ com
    total = body.mass + mass
    centre = (body.mass * body.com + mass * point) / total if total > 0.0 else point
    body.inertia = (
        body.inertia
        + _point_inertia(body.mass, body.com - centre)
        + rotation @ inertia @ rotation.T
        + _point_inertia(mass, point - centre)
    )
    body.mass, body.com, body.has_inertial = total, centre, True


def _point_inertia(mass: float, r: np.ndarray) -> np.ndarray:
    return mass * (r @ r * np.eye(3) - np.outer(r, r))


def _check_masses(bodies: list[Body]) -> tuple[str, ...]:
    """Names of moving links whose joint has nothing to move because inertial data is missing.

    A link without mass is fine where something further out, or an armature, gives its joint inertia.
    """
    carried = [body.mass for body in bodies]
    for index in reversed(range(len(bodies))):
        if bodies[index].parent >= 0:
            carried[bodies[index].parent] += carried[index]
    missing = []
    for body, mass in zip(bodies, carried, strict=True):
        if mass > 0.0 or body.joint.type == codes.FIXED or body.joint.armature > 0.0:
            continue
        if body.has_inertial:
            raise ModelError(
                f"link '{body.name}' moves and has no mass, nor has anything it carries; give it a positive mass"
            )
        missing.append(body.name)
    return tuple(missing)


def _check_inertias(bodies: list[Body]) -> None:
    """A link may hold an inertia that no body has, if what it is welded to makes up for it."""
    for body in bodies:
        moments = np.linalg.eigvalsh(body.inertia)
        if moments[0] < -1e-6 * np.abs(body.inertia).max() - NEGLIGIBLE_INERTIA:
            raise ModelError(
                f"link '{body.name}': with what is welded to it, its principal moments of inertia are "
                f"{moments.tolist()}; a body that moves needs positive ones"
            )


def _geometries(builder: ModelBuilder, home: dict[str, tuple[int, np.ndarray]]) -> list[Geometry]:
    placed: list[Geometry] = []
    for spec in builder.geometries.values():
        if spec.link not in home:
            raise ModelError(f"geometry '{spec.geometry.name}': unknown link '{spec.link}'")
        link, placement = home[spec.link]
        placed.append(replace(spec.geometry, link=link, placement=compose(placement, spec.geometry.placement)))
    return placed


def _frames(builder: ModelBuilder, home: dict[str, tuple[int, np.ndarray]]) -> list[Frame]:
    frames = [Frame(name, *home[name]) for name in builder.links]
    for name, (link, placement) in builder.frames.items():
        if link not in home:
            raise ModelError(f"frame '{name}': unknown link '{link}'")
        index, base = home[link]
        frames.append(Frame(name, index, compose(base, placement)))
    return frames


def _excluded_pairs(builder: ModelBuilder, geometries: list[Geometry]) -> frozenset[tuple[int, int]]:
    """Pairs of geometry indices that never collide: on links joined by a joint, or excluded by name.

    Links welded together count as one. The world itself is nobody's neighbour, so that a link hinged to it still
    touches the ground; but the base of a robot, welded to the world, is a neighbour of the next link.
    """
    cluster = {name: name for name in (WORLD, *builder.links)}

    def head(name: str) -> str:
        while cluster[name] != name:
            name = cluster[name]
        return name

    for joint in builder.joints.values():
        if joint.type == codes.FIXED and joint.parent != WORLD:
            cluster[head(joint.child)] = head(joint.parent)
    pairs = {
        frozenset((head(joint.parent), head(joint.child))) for joint in builder.joints.values() if joint.parent != WORLD
    }
    for names in builder.excluded:
        for name in names:
            if name not in cluster:
                raise ModelError(f"exclude_collision: unknown link '{name}'")
        pairs.add(frozenset(head(name) for name in names))
    owners = [head(spec.link) for spec in builder.geometries.values()]
    colliding = [index for index, geometry in enumerate(geometries) if geometry.collides]
    by_link = {(i, j) for i in colliding for j in colliding if i < j and frozenset((owners[i], owners[j])) in pairs}
    return frozenset(by_link | _excluded_geometries(builder))


def _excluded_geometries(builder: ModelBuilder) -> set[tuple[int, int]]:
    """Pairs of geometry indices that are excluded by their own names."""
    index = {name: number for number, name in enumerate(builder.geometries)}
    pairs = set()
    for names in builder.excluded_geometries:
        for name in names:
            if name not in index:
                raise ModelError(f"exclude_geometries: unknown geometry '{name}'")
        i, j = sorted(index[name] for name in names)
        pairs.add((i, j))
    return pairs


def _model(
    builder: ModelBuilder,
    dtype: str,
    bodies: list[Body],
    home: dict[str, tuple[int, np.ndarray]],
    geometries: list[Geometry],
    frames: list[Frame],
    excluded: frozenset[tuple[int, int]],
    massless: tuple[str, ...],
) -> Model:
    dofs = np.array([JOINT_DOFS[body.joint.type] for body in bodies], dtype=np.int32)
    parent = np.array([body.parent for body in bodies], dtype=np.int32)
    qd_start = np.concatenate([[0], np.cumsum(dofs)])[:-1].astype(np.int32)
    dof_parent, tail = _dof_paths(parent, qd_start, dofs)
    equalities, anchor_a, anchor_b = _equalities(builder, home, bodies, qd_start, tail)
    joints = [body.joint for body in bodies]
    q_start = np.concatenate([[0], np.cumsum([len(joint.q0) for joint in joints])])[:-1].astype(np.int32)
    roots = np.flatnonzero(parent < 0)
    dof_link = np.repeat(np.arange(len(bodies)), dofs).astype(np.int32)
    scalar = [joint.type in (codes.REVOLUTE, codes.PRISMATIC) for joint in joints]
    depth = np.zeros(len(dof_link), dtype=np.int32)
    for k, previous in enumerate(dof_parent):
        depth[k] = depth[previous] + 1 if previous >= 0 else 0

    def per_dof(values: list[float]) -> np.ndarray:
        return np.repeat(np.array(values, dtype=np.float64), dofs)

    parameters = {
        "joint_placement": np.array([joint.placement for joint in joints]).reshape(-1, 7),
        "mass": np.array([body.mass for body in bodies]),
        "com": np.array([body.com for body in bodies]).reshape(-1, 3),
        "inertia": np.array([body.inertia for body in bodies]).reshape(-1, 3, 3),
        "damping": per_dof([joint.damping for joint in joints]),
        "armature": per_dof([joint.armature for joint in joints]),
        "stiffness": per_dof([joint.stiffness for joint in joints]),
        "rest_position": per_dof([joint.rest_position for joint in joints]),
        "friction_loss": per_dof([joint.friction_loss for joint in joints]),
        "lower_limit": per_dof([joint.lower for joint in joints]),
        "upper_limit": per_dof([joint.upper for joint in joints]),
        "swing_limit": np.array([joint.swing_limit for joint in joints], dtype=np.float64),
        "twist_limit": np.array([joint.twist_limit for joint in joints], dtype=np.float64),
        "limit_margin": per_dof([joint.limit_margin for joint in joints]),
        "limit_stiffness": per_dof([joint.limit_stiffness for joint in joints]),
        "limit_damping": per_dof([joint.limit_damping for joint in joints]),
        "geometry_placement": np.array([geometry.placement for geometry in geometries]).reshape(-1, 7),
        "geometry_size": np.array([geometry.size for geometry in geometries]).reshape(-1, 3),
        "height": np.concatenate([np.zeros(0), *(g.heights.ravel() for g in geometries if g.heights is not None)]),
        **{name: np.array([getattr(spec, name) for spec in builder.geometries.values()], float) for name in MATERIAL},
        "anchor_a": anchor_a,
        "anchor_b": anchor_b,
        "coupling_ratio": np.array([spec.ratio for spec in builder.couplings.values()], dtype=np.float64),
        "coupling_offset": np.array([spec.offset for spec in builder.couplings.values()], dtype=np.float64),
        "gravity": builder.gravity.copy(),
    }
    actuators = list(builder.actuators.values())
    if actuators:
        parameters.update(_actuator_parameters(actuators))
    start_of = dict(zip((joint.name for joint in joints), qd_start, strict=True))
    return Model(
        dtype=dtype,
        link_names=tuple(body.name for body in bodies),
        joint_names=tuple(joint.name for joint in joints),
        frames=tuple(frames),
        geometries=tuple(geometries),
        parts=tuple(builder.parts),
        excluded_pairs=excluded,
        equalities=equalities,
        q0=np.concatenate([np.zeros(0), *(joint.q0 for joint in joints)]),
        link_parent=parent,
        joint_type=np.array([joint.type for joint in joints], dtype=np.int32),
        joint_axis=np.array([joint.axis for joint in joints]).reshape(-1, 3),
        joint_q_start=q_start,
        joint_qd_start=qd_start,
        link_tree=(np.searchsorted(roots, np.arange(len(bodies)), side="right") - 1).astype(np.int32),
        link_tail_dof=tail,
        tree_link_start=np.append(roots, len(bodies)).astype(np.int32),
        dof_link=dof_link,
        dof_parent=dof_parent,
        dof_depth=depth,
        dof_row_start=np.concatenate([[0], np.cumsum(depth)])[:-1].astype(np.int32),
        dof_q=np.array([q_start[link] if scalar[link] else -1 for link in dof_link], dtype=np.int32),
        effort_limit=per_dof([joint.effort for joint in joints]),
        velocity_limit=per_dof([joint.velocity for joint in joints]),
        actuator_names=tuple(actuator.name for actuator in actuators),
        actuator_kind=np.array([actuator.kind for actuator in actuators], dtype=np.int32),
        actuator_dof=np.array([start_of[actuator.joint] for actuator in actuators], dtype=np.int32),
        parameters=parameters,
        massless_links=massless,
    )


def _equalities(
    builder: ModelBuilder,
    home: dict[str, tuple[int, np.ndarray]],
    bodies: list[Body],
    qd_start: np.ndarray,
    tail: np.ndarray,
) -> tuple[Equalities, np.ndarray, np.ndarray]:
    """The equality constraints, and the anchors a and b [num_anchors, 7]."""
    anchors, couplings = list(builder.anchors.values()), list(builder.couplings.values())
    dofs = coupled_dofs(couplings, [body.joint for body in bodies], qd_start)
    fit_followers(couplings, bodies)
    links, anchor_a, anchor_b = place_anchors(anchors, home, bodies, (tail >= 0).tolist())
    equalities = Equalities(
        anchor_names=tuple(builder.anchors),
        anchor_link_a=links[:, 0],
        anchor_link_b=links[:, 1],
        anchor_welded=np.array([spec.welded for spec in anchors], dtype=np.int32),
        coupling_names=tuple(builder.couplings),
        coupling_dof=dofs[:, 0],
        coupling_other=dofs[:, 1],
    )
    return equalities, anchor_a, anchor_b


def _actuator_parameters(actuators: list[ActuatorSpec]) -> dict[str, np.ndarray]:
    return {
        "actuator_gear": np.array([actuator.gear for actuator in actuators]),
        "actuator_kp": np.array([actuator.kp for actuator in actuators]),
        "actuator_kd": np.array([actuator.kd for actuator in actuators]),
        "actuator_force_limit": np.array([actuator.force_limit for actuator in actuators]),
    }


def _dof_paths(parent: np.ndarray, qd_start: np.ndarray, dofs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The previous degree of freedom on the path to the root, and the deepest one of each link."""
    dof_parent = np.full(int(dofs.sum()), -1, dtype=np.int32)
    tail = np.full(len(parent), -1, dtype=np.int32)
    for link, (up, start, count) in enumerate(zip(parent, qd_start, dofs, strict=True)):
        last = tail[up] if up >= 0 else -1
        for k in range(start, start + count):
            dof_parent[k] = last
            last = k
        tail[link] = last
    return dof_parent, tail
