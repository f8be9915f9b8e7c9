"""What a simulator's parameters may not be, beyond the range of each one."""

import numpy as np

from sim.arrays.parameter_range import unused_entries
from sim.errors import ModelError
from sim.model.model import ACTUATOR_KIND_NAMES, Model
from sim.model.parameters import PARAMETERS
from sim.model.softness import require_impedance
from sim.simulation.options import require_regular
from sim.simulation.stepping.constraint_layout import CONE_LIMITS
from warp_kernels.types import PRESCRIBED_INERTIA, SPHERICAL

# Why an actuator has no use for a parameter, but for gains, which depend on its kind.
UNUSED_BECAUSE = {
    "actuator_time_constant": ", which is no filter",
    **dict.fromkeys(("actuator_force_axis", "actuator_torque_axis"), ", which acts on no frame"),
}


def require_useful(model: Model, law: str | None, name: str, value: np.ndarray) -> None:
    """Refuse numbers that the model or the law of contact has no use for.

    Args:
        model: the model.
        law: of the contact options, "hard" or "mujoco".
        name: of the parameter.
        value: ``[n, ...]`` or ``[num_worlds, n, ...]``.

    Raises:
        ModelError: naming the parameter, and the joint or actuator.
    """
    if name == "regularisation":
        require_regular(value, model.scalar)
    if name in ("solref", "solimp"):
        require_impedance("Simulator", **{name: value})
    if name == "armature":
        _require_prescribed(model, value)
    unused = unused_entries(name, model)
    if name == "stiffness" and (value[..., unused] != 0.0).any():
        raise ModelError(
            "parameter 'stiffness' is not zero on a spherical or free joint; springs act on revolute and prismatic "
            "joints"
        )
    if name == "limit_stiffness" and law == "mujoco" and np.isfinite(value).any():
        raise ModelError(
            "parameter 'limit_stiffness' is finite, which ContactOptions(law='mujoco') doesn't have; leave it "
            "infinite, or choose law='hard'"
        )
    if name.startswith("actuator_"):
        _require_of_actuators(model, name, value, unused)
    if name in CONE_LIMITS and np.isfinite(value[..., model.joint_type != SPHERICAL]).any():
        raise ModelError(f"parameter '{name}' is finite on a joint that is not spherical; leave it infinite there")


def _require_prescribed(model: Model, value: np.ndarray) -> None:
    """Refuse another armature than the one by which the motion of a joint is prescribed."""
    changed = model.prescribed != (value >= PRESCRIBED_INERTIA).reshape(-1, model.nv).all(axis=0)
    for dof in np.flatnonzero(changed):
        joint = model.joint_names[model.dof_link[dof]]
        raise ModelError(
            f"parameter 'armature' of joint '{joint}' must {'stay' if model.prescribed[dof] else 'be below'} "
            f"{PRESCRIBED_INERTIA:g}, which says that the motion of a joint is prescribed"
        )


def require_room_to_move(model: Model, law: str | None) -> None:
    """Refuse hard limits that both bear wherever the joint is; under MuJoCo's law, as springs do, they find a balance.

    Raises:
        ModelError: naming the joint.
    """
    lower, upper, margin, stiffness = (
        model.parameters[name] for name in ("lower_limit", "upper_limit", "limit_margin", "limit_stiffness")
    )
    cramped = np.flatnonzero((lower + margin > upper - margin) & np.isinf(stiffness)) if law == "hard" else ()
    for dof in cramped:
        raise ModelError(
            f"joint '{model.joint_names[model.dof_link[dof]]}': limit_margin {margin[dof]} leaves no room between the "
            f"limits {lower[dof]} and {upper[dof]}; make it smaller, give limit_stiffness, or choose law='mujoco'"
        )


def _require_of_actuators(model: Model, name: str, value: np.ndarray, unused: np.ndarray) -> None:
    given = (value != 0.0).reshape(-1, model.nu, *PARAMETERS[name].shape)
    if not given[:, unused].any():
        return
    index = int(np.flatnonzero(unused & given.any(axis=(0, *range(2, given.ndim))))[0])
    kind = ACTUATOR_KIND_NAMES[int(model.actuator_kind[index])]
    reason = UNUSED_BECAUSE.get(name, f"; a {kind} actuator doesn't have this gain")
    raise ModelError(f"parameter '{name}' is not zero for actuator '{model.actuator_names[index]}'{reason}")
