"""Physical parameters of a model, gathered from its description; see :data:`sim.model.parameters.PARAMETERS`.

Values that the dtype of the model can't represent raise ModelError.
"""

from collections.abc import Sequence

import numpy as np

from sim.errors import ModelError
from sim.model.compile.bodies import Body
from sim.model.compile.dofs import DofLayout
from sim.model.geometries import Geometry
from sim.model.model import Model
from sim.model.parameters import MAY_BE_INFINITE, OF_PAIRS, PARAMETERS
from sim.model.spec_checks import finite
from sim.model.specs import OF_STATES, ActuatorSpec, GeometrySpec, JointSpec, WorldSpec
from sim.model.tendons.muscles import MUSCLE_PARAMETERS
from sim.model.tendons.tendons import owners_of
from warp_kernels.types import PRESCRIBED_INERTIA


def collect_parameters(
    world: WorldSpec,
    bodies: list[Body],
    geometries: list[Geometry],
    layout: DofLayout,
    anchor_a: np.ndarray,
    anchor_b: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return every parameter by name, float64 [n, ...]; those of actuators only if there are actuators.

    Args:
        world: the description.
        bodies: links of the model.
        geometries: its geometries, placed in their links.
        layout: degrees of freedom of the joints.
        anchor_a: anchors of point and weld constraints in their first links [num_anchors, 7].
        anchor_b: anchors in their second links [num_anchors, 7].
    """
    couplings = list(world.couplings.values())
    actuators = list(world.actuators.values())
    return {
        "joint_placement": np.array([body.joint.placement for body in bodies]).reshape(-1, 7),
        "mass": np.array([body.mass for body in bodies]),
        "com": np.array([body.com for body in bodies]).reshape(-1, 3),
        "inertia": np.array([body.inertia for body in bodies]).reshape(-1, 3, 3),
        **_compensation(world, bodies),
        **_of_joints([body.joint for body in bodies], layout),
        **_of_shapes(geometries),
        **_of_materials(list(world.geometries.values())),
        **_of_pairs(world),
        **_of_moving_surfaces(list(world.geometries.values())),
        "anchor_a": anchor_a,
        "anchor_b": anchor_b,
        "coupling_ratio": np.array([spec.ratio for spec in couplings], dtype=np.float64),
        "coupling_offset": np.array([spec.offset for spec in couplings], dtype=np.float64),
        **_of_switches(world),
        "gravity": finite("gravity", world.gravity, (3,)),
        **_of_medium(world),
        **(_of_actuators(actuators) if actuators else {}),
        **(_of_actuator_states(actuators) if any(map(_prepares_input, actuators)) else {}),
        **_of_delays(actuators),
        **_of_motors(actuators),
        **(_of_muscles(actuators) if any(actuator.muscle for actuator in actuators) else {}),
    }


def _compensation(world: WorldSpec, bodies: list[Body]) -> dict[str, np.ndarray]:
    """Return the gravity compensation, if a link has one."""
    if all(link.gravity_compensation is None for link in world.links.values()):
        return {}
    return {"gravity_compensation": np.array([body.gravity_compensation for body in bodies], dtype=np.float64)}


def _of_joints(joints: list[JointSpec], layout: DofLayout) -> dict[str, np.ndarray]:
    per_dof = layout.per_dof
    return {
        "damping": per_dof([joint.damping for joint in joints]),
        # No force changes the velocity of a prescribed joint.
        "armature": per_dof([PRESCRIBED_INERTIA if joint.kinematic else joint.armature for joint in joints]),
        "stiffness": per_dof([joint.stiffness for joint in joints]),
        "rest_position": layout.of_dofs([joint.rest_position for joint in joints]),
        "friction_loss": per_dof([joint.friction_loss for joint in joints]),
        "lower_limit": per_dof([joint.lower for joint in joints]),
        "upper_limit": per_dof([joint.upper for joint in joints]),
        "swing_limit": np.array([joint.swing_limit for joint in joints], dtype=np.float64),
        "twist_limit": np.array([joint.twist_limit for joint in joints], dtype=np.float64),
        "rotation_limit": np.array([joint.rotation_limit for joint in joints], dtype=np.float64),
        "limit_margin": per_dof([joint.limit_margin for joint in joints]),
        "limit_stiffness": per_dof([joint.limit_stiffness for joint in joints]),
        "limit_damping": per_dof([joint.limit_damping for joint in joints]),
    }


def _of_shapes(geometries: list[Geometry]) -> dict[str, np.ndarray]:
    heights = [geometry.heights.ravel() for geometry in geometries if geometry.heights is not None]
    return {
        "geometry_placement": np.array([geometry.placement for geometry in geometries]).reshape(-1, 7),
        "geometry_size": np.array([geometry.size for geometry in geometries]).reshape(-1, 3),
        "height": np.concatenate([np.zeros(0), *heights]),
    }


def _of_materials(specs: list[GeometrySpec]) -> dict[str, np.ndarray]:
    return {
        "friction": np.array([spec.friction for spec in specs], dtype=np.float64),
        "friction_across": np.array([spec.friction_across for spec in specs], dtype=np.float64),
        "restitution": np.array([spec.restitution for spec in specs], dtype=np.float64),
        "torsional_friction": np.array([spec.torsional_friction for spec in specs], dtype=np.float64),
        "rolling_friction": np.array([spec.rolling_friction for spec in specs], dtype=np.float64),
        "contact_stiffness": np.array([spec.contact_stiffness for spec in specs], dtype=np.float64),
        "contact_damping": np.array([spec.contact_damping for spec in specs], dtype=np.float64),
    }


def _of_pairs(world: WorldSpec) -> dict[str, np.ndarray]:
    """Return the friction of pairs of geometries, if one has its own; zero across pairs with one number."""
    if not world.pair_frictions:
        return {}
    rows = [[value or 0.0 for value in values] for values in world.pair_frictions.values()]
    return dict(zip(OF_PAIRS, np.array(rows, dtype=np.float64).T.copy(), strict=True))


def _of_moving_surfaces(specs: list[GeometrySpec]) -> dict[str, np.ndarray]:
    """Return the velocities of surfaces, if a geometry has one."""
    if all(spec.surface_velocity is None and spec.surface_spin is None for spec in specs):
        return {}
    return {
        "surface_velocity": np.array([spec.surface_velocity or np.zeros(3) for spec in specs], dtype=np.float64),
        "surface_spin": np.array([spec.surface_spin or np.zeros(3) for spec in specs], dtype=np.float64),
    }


def _of_switches(world: WorldSpec) -> dict[str, np.ndarray]:
    """Return which constraints are on, if one of them switches or breaks, and the loads at which they break."""
    anchors = [spec.active for spec in world.anchors.values()]
    couplings = [spec.active for spec in world.couplings.values()]
    ties = [spec.active for spec in world.tendon_couplings.values()]
    breaking = {
        "anchor_break_force": np.array([spec.break_force for spec in world.anchors.values()], dtype=np.float64),
        "anchor_break_torque": np.array([spec.break_torque for spec in world.anchors.values()], dtype=np.float64),
        "coupling_break_force": np.array([spec.break_force for spec in world.couplings.values()], dtype=np.float64),
    }
    breaks = any(np.isfinite(loads).any() for loads in breaking.values())
    if not breaks and all(active is None for active in (*anchors, *couplings, *ties)):
        return {}
    return {
        **(breaking if breaks else {}),
        "anchor_active": np.array([active is not False for active in anchors], dtype=np.float64),
        "coupling_active": np.array([active is not False for active in couplings], dtype=np.float64),
        "tendon_coupling_active": np.array([active is not False for active in ties], dtype=np.float64),
    }


def _of_actuators(actuators: list[ActuatorSpec]) -> dict[str, np.ndarray]:
    return {
        "actuator_gear": np.array([actuator.gear for actuator in actuators]),
        "actuator_kp": np.array([actuator.kp for actuator in actuators]),
        "actuator_kd": np.array([actuator.kd for actuator in actuators]),
        "actuator_gain": np.array([actuator.gain for actuator in actuators]),
        "actuator_offset": np.array([actuator.offset for actuator in actuators]),
        "actuator_kp_per_input": np.array([actuator.kp_per_input for actuator in actuators]),
        "actuator_kd_per_input": np.array([actuator.kd_per_input for actuator in actuators]),
        "actuator_force_centre": np.array([actuator.force_centre for actuator in actuators]),
        "actuator_force_limit": np.array([actuator.force_limit for actuator in actuators]),
        "actuator_control_lower": np.array([actuator.control_range[0] for actuator in actuators]),
        "actuator_control_upper": np.array([actuator.control_range[1] for actuator in actuators]),
    }


def _of_actuator_states(actuators: list[ActuatorSpec]) -> dict[str, np.ndarray]:
    kinds = {actuator.dynamics for actuator in actuators}
    names = ["time_constant", *(name for kind, own in OF_STATES.items() if kind in kinds for name in own)]
    return {
        **{f"actuator_{name}": np.array([getattr(actuator, name) for actuator in actuators]) for name in names},
        "actuator_act_lower": np.array([actuator.act_range[0] for actuator in actuators]),
        "actuator_act_upper": np.array([actuator.act_range[1] for actuator in actuators]),
    }


def _prepares_input(actuator: ActuatorSpec) -> bool:
    """Return whether something stands between an actuator's input and its force law."""
    return bool(actuator.dynamics or actuator.delay_samples or actuator.muscle)


def _of_delays(actuators: list[ActuatorSpec]) -> dict[str, np.ndarray]:
    """Return the delays, if an actuator has one."""
    if not any(actuator.delay_samples for actuator in actuators):
        return {}
    return {"actuator_delay": np.array([actuator.delay for actuator in actuators])}


def _of_motors(actuators: list[ActuatorSpec]) -> dict[str, np.ndarray]:
    """Return the speed-torque curves, if an actuator has one; zero for others."""
    if not any(actuator.stall_force for actuator in actuators):
        return {}
    return {
        f"actuator_{name}": np.array([getattr(actuator, name) for actuator in actuators])
        for name in ("stall_force", "no_load_speed")
    }


def _of_muscles(actuators: list[ActuatorSpec]) -> dict[str, np.ndarray]:
    """Return properties of muscles, zero for other actuators."""
    return {
        parameter: np.array([getattr(actuator.muscle, name, 0.0) for actuator in actuators])
        for name, parameter in MUSCLE_PARAMETERS.items()
    }


def _of_medium(world: WorldSpec) -> dict[str, np.ndarray]:
    """Return density, viscosity and wind, if there is a medium."""
    if world.medium is None:
        return {}
    return {
        "medium_density": np.array(world.medium.density),
        "medium_viscosity": np.array(world.medium.viscosity),
        "wind": world.medium.wind.copy(),
    }


def check_range(model: Model) -> None:
    """Raise ModelError, naming link, joint or geometry, for a number that isn't finite in the model's dtype."""
    largest = np.finfo(model.dtype).max
    for name, values in model.parameters.items():
        fits = np.abs(values) <= largest
        if name in MAY_BE_INFINITE:
            fits |= np.isinf(values)
        if not fits.all():
            wrong = np.argwhere(~fits)[0]
            value = values[tuple(wrong)]
            hint = "; use dtype='float64' or smaller numbers" if np.isfinite(value) else ""
            raise ModelError(
                f"{_owner(model, PARAMETERS[name].per, int(wrong[0]))}: {name} is {value}, which is not a finite "
                f"{model.dtype}{hint}"
            )


def _owner(model: Model, per: str, index: int) -> str:
    """Return the name of the element that a value belongs to, by the dimension of its parameter."""
    if per == "dof":
        return f"joint '{model.joint_names[model.dof_link[index]]}'"
    names: dict[str, Sequence[str]] = {
        "link": model.link_names,
        "geometry": [geometry.name for geometry in model.geometries],
        "pair": model.pair_names,
        "anchor": model.equalities.anchor_names,
        "coupling": model.equalities.coupling_names,
        "actuator": model.actuator_names,
        "tendon": model.tendons.names,
        "tendon_coupling": model.tendons.coupling_names,
        **{f"tendon_{part}": owners_of(model.tendons, part) for part in ("term", "point", "wrap")},
    }
    kind = {
        "anchor": "constraint",
        "coupling": "coupling of joint",
        "tendon_coupling": "constraint",
        "tendon_term": "tendon",
        "tendon_point": "tendon",
        "tendon_wrap": "tendon",
    }.get(per, per)
    return f"{kind} '{names[per][index]}'" if per in names else {"world": "the world", "height": "a heightfield"}[per]
