"""Compiler of a world's description: check the graph, order it, merge welded links, lay out the arrays."""

import warnings
from dataclasses import replace
from typing import TypeVar

import numpy as np

from sim.errors import MJCFWarning, ModelError
from sim.model.checks import require_flags
from sim.model.compile.bodies import (
    Body,
    Homes,
    check_inertias,
    check_masses,
    depth_first,
    joint_of_each_link,
    merge_links,
    movable_links,
)
from sim.model.compile.constraints import centre_of_mass, compute_anchors, coupled_dofs, fit_followers
from sim.model.compile.dofs import DofLayout, lay_out_dofs
from sim.model.compile.exclusions import excluded_pairs, pair_frictions, pair_softness
from sim.model.compile.parameters import check_range, collect_parameters
from sim.model.compile.tendons import lay_out_tendons
from sim.model.compile.transmissions import lay_out_transmissions
from sim.model.frames import Frame, MountedCamera, StagePrim
from sim.model.geometries import Geometry
from sim.model.looks.lights import MountedLight
from sim.model.medium import DragBoxes
from sim.model.model import Model, MujocoOptions
from sim.model.poses import compose
from sim.model.sensors.sensors import LINK, SENSOR_KINDS, Sensor
from sim.model.specs import IDENTITY_QUATERNION, WORLD, JointSpec, WorldSpec
from sim.model.topology import Equalities, ExcludedPairs
from warp_kernels import types as codes

Mounted = TypeVar("Mounted", MountedCamera, MountedLight)


def dtype_name(dtype: object) -> str:
    """Return the name of a dtype, given as name or type of NumPy, PyTorch or Warp. Raises ModelError for any other."""
    name = str(getattr(dtype, "__name__", dtype)).removeprefix("torch.")
    if name not in codes.DTYPES:
        raise ModelError(f"unknown dtype '{name}'; known are {', '.join(codes.DTYPES)}")
    return name


def compile_model(world: WorldSpec, dtype: str, collapse_fixed: bool) -> Model:
    """Compile a description into a model, see :meth:`sim.ModelBuilder.finalize`."""
    dtype = dtype_name(dtype)
    require_flags("finalize", collapse_fixed=collapse_fixed)
    joint_of = joint_of_each_link(world)
    order = depth_first(world)
    bodies, home = merge_links(world, joint_of, order, collapse_fixed)
    massless = check_masses(bodies)
    check_inertias(bodies if collapse_fixed else merge_links(world, joint_of, order, collapse_fixed=True)[0])
    geometries = _geometries(world, home)
    frames = _frames(world, home)
    excluded = excluded_pairs(world, geometries)
    model = _model(world, dtype, bodies, home, geometries, frames, excluded, massless)
    check_range(model)
    _check_meshes(model)
    return model


def _check_meshes(model: Model) -> None:
    """Raise ModelError for triangle meshes that a joint moves."""
    for geometry in model.geometries:
        if geometry.type == codes.MESH and geometry.collides and not model.is_static(geometry):
            raise ModelError(
                f"geometry '{geometry.name}' of link '{model.link_names[geometry.link]}': a triangle mesh can't move; "
                "give the link convex meshes, or fix it to the world"
            )


def _geometries(world: WorldSpec, home: Homes) -> list[Geometry]:
    placed: list[Geometry] = []
    for spec in world.geometries.values():
        if spec.link not in home:
            raise ModelError(f"geometry '{spec.geometry.name}': unknown link '{spec.link}'")
        link, base = home[spec.link]
        pose = compose(base, spec.geometry.placement)
        weighed_at = tuple(centre_of_mass(world, home, spec.link).tolist())
        placed.append(replace(spec.geometry, link=link, placement=pose, weighed_at=weighed_at))
    return placed


def _frames(world: WorldSpec, home: Homes) -> list[Frame]:
    frames = [Frame(name, *home[name]) for name in world.links]
    for name, (link, placement) in world.frames.items():
        if link not in home:
            raise ModelError(f"frame '{name}': unknown link '{link}'")
        index, base = home[link]
        frames.append(Frame(name, index, compose(base, placement)))
    return frames


def _mounted(kind: str, given: dict[str, tuple[str, Mounted]], home: Homes) -> list[Mounted]:
    """Return cameras or lights of links as those of the bodies that the links are merged into."""
    placed = list[Mounted]()
    one: Mounted
    for name, (link, one) in given.items():
        if link not in home:
            raise ModelError(f"{kind} '{name}': unknown link '{link}'")
        index, base = home[link]
        placement = compose(base, one.placement) if one.follows == "link" else one.placement
        x, y, z = compose(base, np.array([*one.point, *IDENTITY_QUATERNION]))[:3].tolist()
        placed.append(replace(one, link=index, placement=placement, point=(x, y, z)))
    return placed


def _stage_prims(world: WorldSpec, home: Homes) -> list[StagePrim]:
    placed = []
    for name, prim in world.stage_prims:
        link, base = home[name]
        placed.append(replace(prim, link=link, placement=compose(base, prim.placement)))
    return placed


def _model(
    world: WorldSpec,
    dtype: str,
    bodies: list[Body],
    home: Homes,
    geometries: list[Geometry],
    frames: list[Frame],
    excluded: ExcludedPairs,
    massless: tuple[str, ...],
) -> Model:
    layout = lay_out_dofs(bodies)
    # Before the joints are read, because initial coordinates of coupled joints follow from those of others.
    equalities, anchor_a, anchor_b = _equalities(world, home, bodies, layout)
    joints = [body.joint for body in bodies]
    _require_free_to_move(world, joints)
    roots = np.flatnonzero(layout.link_parent < 0)
    actuators = list(world.actuators.values())
    tendons, of_tendons = lay_out_tendons(
        list(world.tendons.values()), list(world.tendon_couplings.values()), home, bodies, layout
    )
    transmissions, of_transmissions = lay_out_transmissions(world, home)
    dof_of_joint = dict(zip((joint.name for joint in joints), layout.joint_qd_start, strict=True))
    return Model(
        dtype=dtype,
        link_names=tuple(body.name for body in bodies),
        joint_names=tuple(joint.name for joint in joints),
        frames=tuple(frames),
        cameras=tuple(_mounted("camera", world.cameras, home)),
        lights=tuple(_mounted("light", world.lights, home)),
        stage_prims=tuple(_stage_prims(world, home)),
        geometries=tuple(geometries),
        parts=tuple(world.parts),
        mujoco=own_law(world),
        excluded_pairs=excluded,
        pair_frictions=pair_frictions(world),
        pair_softness=pair_softness(world),
        limit_softness=tuple(joints[link].limit_softness for link in layout.dof_link),
        friction_softness=tuple(joints[link].friction_softness for link in layout.dof_link),
        equalities=equalities,
        tendons=tendons,
        q0=np.concatenate([np.zeros(0), *(joint.q0 for joint in joints)]),
        link_parent=layout.link_parent,
        joint_type=np.array([joint.type for joint in joints], dtype=np.int32),
        kinematic_links=tuple(body.name for body in bodies if body.joint.kinematic and body.joint.type == codes.FIXED),
        floating_origins={joint.name: joint.origin for joint in joints if joint.origin is not None},
        joint_axis=np.array([joint.axis for joint in joints]).reshape(-1, 3),
        joint_q_start=layout.joint_q_start,
        joint_qd_start=layout.joint_qd_start,
        link_tree=(np.searchsorted(roots, np.arange(len(bodies)), side="right") - 1).astype(np.int32),
        link_tail_dof=layout.link_tail_dof,
        tree_link_start=np.append(roots, len(bodies)).astype(np.int32),
        dof_link=layout.dof_link,
        dof_parent=layout.dof_parent,
        dof_depth=layout.dof_depth,
        dof_row_start=np.concatenate([[0], np.cumsum(layout.dof_depth)])[:-1].astype(np.int32),
        dof_q=layout.dof_q,
        effort_limit=layout.per_dof([joint.effort for joint in joints]),
        velocity_limit=layout.per_dof([joint.velocity for joint in joints]),
        actuator_names=tuple(actuator.name for actuator in actuators),
        actuator_kind=np.array([actuator.kind for actuator in actuators], dtype=np.int32),
        actuator_dof=np.array(
            [-1 if actuator.joint is None else dof_of_joint[actuator.joint] for actuator in actuators], dtype=np.int32
        ),
        actuator_tendon=np.array(
            [-1 if actuator.tendon is None else tendons.names.index(actuator.tendon) for actuator in actuators],
            dtype=np.int32,
        ),
        actuator_dynamics=np.array([actuator.dynamics for actuator in actuators], dtype=np.int32),
        actuator_early=np.array([actuator.act_early for actuator in actuators], dtype=np.int32),
        delay_samples=np.array([actuator.delay_samples for actuator in actuators], dtype=np.int32),
        parameters={
            **collect_parameters(world, bodies, geometries, layout, anchor_a, anchor_b),
            **of_tendons,
            **of_transmissions,
        },
        massless_links=massless,
        drag_boxes=_drag_boxes(world, home, layout.link_tail_dof),
        transmissions=transmissions,
        sensors=_sensors(world, bodies),
    )


def _drag_boxes(world: WorldSpec, home: Homes, link_tail_dof: np.ndarray) -> DragBoxes:
    """Return the drag boxes of moving links, placed in the links of the model."""
    boxes = [(*home[box.link], box) for box in world.drag_boxes]
    moving = [
        (link, compose(base, box.placement), box.size)
        for link, base, box in boxes
        if link >= 0 and link_tail_dof[link] >= 0
    ]
    if world.medium is None or not moving:
        return DragBoxes()
    links, placements, sizes = zip(*moving, strict=True)
    return DragBoxes(np.array(links, dtype=np.int32), np.array(sizes), np.array(placements))


def _sensors(world: WorldSpec, bodies: list[Body]) -> tuple[Sensor, ...]:
    kept = {body.name for body in bodies}
    for sensor in world.sensors.values():
        if SENSOR_KINDS[sensor.kind].of == LINK and sensor.target not in kept:
            raise ModelError(
                f"sensor '{sensor.name}': link '{sensor.target}' is merged into its parent, so that its "
                "own mass is unknown; call finalize with collapse_fixed=False"
            )
    return tuple(
        replace(sensor, geometries=_touching(world, sensor))
        if sensor.kind == "touch" and sensor.geometries is None
        else sensor
        for sensor in world.sensors.values()
    )


def _touching(world: WorldSpec, sensor: Sensor) -> tuple[str, ...]:
    """Return the geometries of the link whose frame a touch sensor is at."""
    link = world.frames[sensor.target][0] if sensor.target in world.frames else sensor.target
    return tuple(name for name, geometry in world.geometries.items() if geometry.link == link)


def _require_free_to_move(world: WorldSpec, joints: list[JointSpec]) -> None:
    """Raise ModelError for actuators on a joint with prescribed motion."""
    prescribed = {joint.name for joint in joints if joint.kinematic}
    for actuator in world.actuators.values():
        if actuator.joint in prescribed:
            raise ModelError(
                f"actuator '{actuator.name}': joint '{actuator.joint}' is kinematic, so that no force moves it; set "
                "its entries of qd instead"
            )


def _equalities(
    world: WorldSpec, home: Homes, bodies: list[Body], layout: DofLayout
) -> tuple[Equalities, np.ndarray, np.ndarray]:
    """Return the equality constraints, and the anchors a and b [num_anchors, 7]."""
    anchors, couplings = list(world.anchors.values()), list(world.couplings.values())
    dofs = coupled_dofs(couplings, [body.joint for body in bodies], layout.joint_qd_start)
    begun = {body.joint.name: body.joint.q0 for body in bodies}
    fit_followers(couplings, bodies)
    links, anchor_a, anchor_b = compute_anchors(anchors, home, bodies, movable_links(bodies))
    equalities = Equalities(
        anchor_names=tuple(world.anchors),
        anchor_link_a=links[:, 0],
        anchor_link_b=links[:, 1],
        anchor_welded=np.array([spec.welded for spec in anchors], dtype=np.int32),
        anchor_softness=tuple(spec.softness for spec in anchors),
        anchor_torque_scale=np.array([spec.torque_scale for spec in anchors], dtype=np.float64),
        anchor_weighed_at=np.array(
            [[centre_of_mass(world, home, link) for link in (spec.link_a, spec.link_b)] for spec in anchors]
        ).reshape(-1, 2, 3),
        coupling_names=tuple(world.couplings),
        coupling_dof=dofs[:, 0],
        coupling_other=dofs[:, 1],
        coupling_softness=tuple(spec.softness for spec in couplings),
        coupling_q0=np.array([begun[spec.joint] for spec in couplings], dtype=np.float64).reshape(-1),
    )
    return equalities, anchor_a, anchor_b


def own_law(world: WorldSpec) -> MujocoOptions | None:
    """Return MuJoCo's options for a world built only from MJCF files that agree; None for any other.

    Properties of such files that hard contact doesn't use are reported in a warning.
    """
    stated = {part.mujoco for part in world.parts} - {None}
    if world.from_mujoco == world.elements() and len(stated) == 1 and not _is_hard(world):
        return stated.pop()
    for note in world.soft_notes:
        warnings.warn(note, MJCFWarning, stacklevel=5)
    return None


def _is_hard(world: WorldSpec) -> bool:
    """Return whether a geometry or a joint has a property that only hard contact has."""
    shapes = [spec for spec in world.geometries.values() if spec.geometry.collides]
    # The restitution of static geometries is 1, so that the other body decides.
    given = any(
        np.isfinite(spec.contact_stiffness) or (spec.restitution > 0.0 and spec.link != WORLD) for spec in shapes
    )
    return given or any(np.isfinite(joint.limit_stiffness) for joint in world.joints.values())
