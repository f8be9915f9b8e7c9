"""Features of an MJCF file without a counterpart here: each is reported as a warning, none is skipped silently."""

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from sim.errors import ImportFileError, MJCFWarning
from sim.importers.mjcf.file import MJCFFile

# Flags that disable a feature, and the arrays that are zero without it.
ZEROED = {
    "mjDSBL_CONSTRAINT": (
        "jnt_limited",
        "dof_frictionloss",
        "tendon_limited",
        "tendon_frictionloss",
        "geom_contype",
        "geom_conaffinity",
        "eq_active0",
    ),
    "mjDSBL_EQUALITY": ("eq_active0",),
    "mjDSBL_FRICTIONLOSS": ("dof_frictionloss", "tendon_frictionloss"),
    "mjDSBL_LIMIT": ("jnt_limited", "tendon_limited"),
    "mjDSBL_CONTACT": ("geom_contype", "geom_conaffinity"),
    "mjDSBL_SPRING": ("jnt_stiffness", "tendon_stiffness", "jnt_stiffnesspoly", "tendon_stiffnesspoly"),
    "mjDSBL_DAMPER": (
        "dof_damping",
        "tendon_damping",
        "actuator_damping",
        "dof_dampingpoly",
        "tendon_dampingpoly",
        "actuator_dampingpoly",
    ),
    "mjDSBL_CLAMPCTRL": ("actuator_ctrllimited",),
}
# Flags that don't affect what is read, or affect only MuJoCo's own solver.
IRRELEVANT = {
    "mjDSBL_GRAVITY", "mjDSBL_WARMSTART", "mjDSBL_REFSAFE", "mjDSBL_SENSOR", "mjDSBL_MIDPHASE", "mjDSBL_EULERDAMP",
    "mjDSBL_AUTORESET", "mjDSBL_NATIVECCD", "mjDSBL_ISLAND", "mjDSBL_MULTICCD",
}  # fmt: skip
# Numbers that enter computations; their squares must not overflow.
COMPUTED = {
    "body": ("pos", "quat", "mass", "inertia", "ipos", "iquat"),
    "geom": ("pos", "quat", "size", "friction", "margin", "gap", "solmix"),
    "pair": ("margin", "gap", "friction"),
    "equality": ("data",),
    "site": ("pos", "quat"),
    "joint": ("pos", "axis"),
    "tendon": ("armature",),
}
ARRAYS_OF = {"joint": "jnt", "equality": "eq"}  # what their names begin with
# Where MuJoCo keeps softness, with the attributes that it is read from.
SOFTNESS = {
    "geom": {"geom": ""}, "joint": {"jnt": "limit", "dof": "friction"}, "equality": {"eq": ""}, "pair": {"pair": ""},
}  # fmt: skip
SOFTNESS_OF_TENDONS = {"lim": "limit", "fri": "friction"}
LARGEST = 1e30
# Elements whose softness is read.
SOFT = ("geom", "jnt", "dof", "eq", "pair")
# The most elements of one kind that a note names.
MOST_NAMES = 6
OF_THE_SOFT_LAW = "used with MuJoCo's law alone, Simulator(model, **sim.mujoco_settings(model))"


def refuse_bodies(file: MJCFFile) -> None:
    """Raise for kinds of bodies that are not supported.

    Raises:
        ImportFileError: for flexible bodies.
    """
    if file.array("nflex", 0) > 0:
        raise ImportFileError(file.path, "deformable bodies (<flex>, <flexcomp>) are not supported; remove them")


def refuse_numbers(file: MJCFFile) -> None:
    """Raise for numbers that are too large to compute with; MuJoCo accepts infinite ones.

    Raises:
        ImportFileError: naming the element.
    """
    model = file.model
    for kind, names in COMPUTED.items():
        for name in names:
            _refuse_large(file, kind, name, getattr(model, f"{ARRAYS_OF.get(kind, kind)}_{name}"))
    for number in ("solref", "solimp"):
        for kind, arrays in SOFTNESS.items():
            for array, of in arrays.items():
                rows = model.dof_jntid if array == "dof" else None
                _refuse_large(file, kind, f"{number}{of}", getattr(model, f"{array}_{number}"), rows)
        for array, of in SOFTNESS_OF_TENDONS.items():
            _refuse_large(file, "tendon", f"{number}{of}", getattr(model, f"tendon_{number}_{array}"))


def _refuse_large(file: MJCFFile, kind: str, name: str, values: np.ndarray, rows: np.ndarray | None = None) -> None:
    """Refuse numbers [n, ...] of elements of a kind, at the places ``rows`` if not one after the other."""
    wrong = np.flatnonzero(_rows(~(np.abs(values) <= LARGEST)))
    if len(wrong):
        element = int(wrong[0] if rows is None else rows[wrong[0]])
        raise file.error(kind, element, f"its {name} is {values[wrong[0]].tolist()}, which is too large")


def refuse_states(file: MJCFFile) -> None:
    """Raise for a gravity, a time step, an impratio, a reference or a keyframe that nothing can start from.

    Raises:
        ImportFileError: naming the element, for values that are not finite or too large, a time step or an
            impratio that is not positive, and zero quaternions, which MuJoCo replaces.
    """
    model = file.model
    if not (np.abs(model.opt.gravity) <= LARGEST).all():
        raise ImportFileError(file.path, f"gravity is {model.opt.gravity.tolist()}; it must be finite", "<option>")
    if not 0.0 < model.opt.timestep <= LARGEST:
        raise ImportFileError(file.path, f"timestep is {model.opt.timestep}; it must be positive", "<option>")
    if not 0.0 < model.opt.impratio <= LARGEST:
        message = f"impratio is {model.opt.impratio}; it must be positive and finite"
        raise ImportFileError(file.path, message, "<option>")
    for joint, at in enumerate(model.jnt_qposadr):
        if not abs(model.qpos0[at]) <= LARGEST:
            raise file.error("joint", joint, f"its ref is {model.qpos0[at]}; it must be finite")
    for key in range(model.nkey):
        _refuse_keyframe(file, key)


def _refuse_keyframe(file: MJCFFile, key: int) -> None:
    model, given = file.model, np.array(file.elements["key"][key].qpos if key in file.elements["key"] else [])
    for name in ("qpos", "qvel", "ctrl", "act"):
        wrong = np.flatnonzero(~(np.abs(getattr(model, f"key_{name}")[key]) <= LARGEST))
        if len(wrong):
            value = getattr(model, f"key_{name}")[key][wrong[0]]
            raise file.error("key", key, f"{name} {wrong[0]} is {value}; it must be finite and not too large")
    if given.size != model.nq:
        return  # MuJoCo takes the reference
    ball, free = (int(getattr(file.mujoco.mjtJoint, f"mjJNT_{name}")) for name in ("BALL", "FREE"))
    for joint, (kind, at) in enumerate(zip(model.jnt_type, model.jnt_qposadr, strict=True)):
        start = int(at) + {ball: 0, free: 3}.get(int(kind), -1 - int(at))
        if start >= 0 and not np.abs(given[start : start + 4]).max() >= 1e-9:
            raise file.error("key", key, f"qpos holds the zero quaternion for {file.label('joint', joint)}")


def apply_flags(file: MJCFFile) -> list[str]:
    """Set to zero what the file's flags disable; returns notes on flags that are not supported."""
    model, flags = file.model, {name: int(bit) for name, bit in file.mujoco.mjtDisableBit.__members__.items()}
    set_ = [name for name, bit in flags.items() if name.startswith("mjDSBL_") and model.opt.disableflags & bit]
    for name in set_:
        for array in ZEROED.get(name, ()):
            file.array(array, np.zeros(0))[:] = 0
    unknown = [name.removeprefix("mjDSBL_").lower() for name in set_ if name not in IRRELEVANT | ZEROED.keys()]
    return [f"disabled in the file but not here: {', '.join(unknown)}"] if unknown else []


def gravity(file: MJCFFile) -> np.ndarray:
    """Gravity of the file [m/s^2]."""
    off = file.model.opt.disableflags & int(file.mujoco.mjtDisableBit.mjDSBL_GRAVITY)
    return np.zeros(3) if off else np.array(file.model.opt.gravity, dtype=np.float64)


def warn_of(file: MJCFFile, further: list[str]) -> None:
    """Report what is left out of a file in one warning.

    Args:
        file: the file.
        further: notes of the parts of the importer.
    """
    left = [*file.warnings, *_forces(file), *_settings(file), *further]
    if left:
        warnings.warn(f"{file.path}: {_listed(left)}", MJCFWarning, stacklevel=4)


def _listed(notes: list[str]) -> str:
    """Notes as one text, a line for each where there are several."""
    if len(notes) < 2:
        return "".join(notes)
    return "\n  - ".join([f"{len(notes)} things are not as in MuJoCo:", *notes])


def _forces(file: MJCFFile) -> list[str]:
    model = file.model
    scalar = np.isin(model.jnt_type, (int(file.mujoco.mjtJoint.mjJNT_HINGE), int(file.mujoco.mjtJoint.mjJNT_SLIDE)))
    dof_poly = _rows(file.array("dof_dampingpoly", []))
    joints_of_dofs = model.dof_jntid[dof_poly] if dof_poly.size else []
    found = (
        ("mocap poses of keyframes", "key", np.flatnonzero(_moves_mocap(file)), "set joint_placement"),
        ("that springs of tendons yield", "tendon", np.flatnonzero(_rows(file.array("tendon_springyield", []))),
         "they pull on"),
        ("force limits of tendons", "tendon", np.flatnonzero(file.array("tendon_actfrclimited", [])),
         "give each actuator its own"),
        ("springs of ball and free joints", "joint", np.flatnonzero(~scalar & (model.jnt_stiffness != 0.0)), ""),
        ("that springs yield", "joint", np.flatnonzero(_rows(file.array("jnt_springyield", []))), "they push on"),
        ("force limits of joints for gravity compensation", "joint",
         np.flatnonzero(model.jnt_actgravcomp.astype(bool) & model.jnt_actfrclimited.astype(bool)),
         "they limit actuators alone"),
        ("polynomial damping", "joint", np.unique(joints_of_dofs), "its linear part is kept"),
        ("adhesion and moving surfaces", "geom",
         np.flatnonzero(_rows(file.array("geom_adhesion", [])) | _rows(file.array("geom_surfacevel", []))), ""),
    )  # fmt: skip
    notes = [
        f"left out: {what} ({_names(file, kind, which)})" + (f"; {more}" if more else "")
        for what, kind, which, more in found
        if len(which)
    ]
    return notes


def _settings(file: MJCFFile) -> list[str]:
    """One note on settings that differ from their defaults and change MuJoCo's motion."""
    option = file.model.opt
    ignored = []
    if option.disableactuator:
        ignored.append("actuatorgroupdisable")
    if option.enableflags & int(file.mujoco.mjtEnableBit.mjENBL_OVERRIDE):
        ignored.append("o_margin, o_solref, o_solimp, o_friction")
    for what in ("plugin", "skin"):
        count = int(file.array(f"n{what}", 0))
        if count:
            ignored.append(f"{count} {what}{'s' if count > 1 else ''}")
    return [f"ignored: {'; '.join(ignored)}"] if ignored else []


def of_the_soft_law(file: MJCFFile) -> list[str]:
    """A note of what the law "hard" doesn't use; empty where there is nothing."""
    option, integrators = file.model.opt, file.mujoco.mjtIntegrator
    softness = [
        what
        for what, present in (
            ("solref and solimp", _is_soft(file, SOFT)),
            ("margin of geoms", np.any(file.model.geom_margin)),
            (f"impratio {option.impratio:g}", option.impratio != 1.0),
            (f"noslip_iterations {option.noslip_iterations}", option.noslip_iterations > 0),
            ("integrator RK4", option.integrator == integrators.mjINT_RK4),
            ("integrator implicit", option.integrator == integrators.mjINT_IMPLICIT),
            ("integrator implicitfast", option.integrator == integrators.mjINT_IMPLICITFAST),
        )
        if present
    ]
    return [f"{file.path}: {OF_THE_SOFT_LAW}: {'; '.join(softness)}"] if softness else []


def _is_soft(file: MJCFFile, parts: Iterable[str]) -> bool:
    """Whether the softness of some element isn't MuJoCo's default."""
    default = file.mujoco.MjOption()
    return any(
        _differs(getattr(file.model, f"{part}_{key}"), getattr(default, f"o_{key}"))
        for part in parts
        for key in ("solref", "solimp")
    )


def _differs(values: np.ndarray, default: np.ndarray) -> bool:
    return bool(np.any(values != default))


def _moves_mocap(file: MJCFFile) -> np.ndarray:
    """Whether a keyframe puts a mocap body elsewhere than its body is [nkey]."""
    model = file.model
    bodies = np.flatnonzero(model.body_mocapid >= 0)
    own = np.concatenate([model.body_pos[bodies], model.body_quat[bodies]], axis=1)
    shape = (model.nkey, len(bodies))
    given = np.concatenate([model.key_mpos.reshape(*shape, 3), model.key_mquat.reshape(*shape, 4)], axis=2)
    return np.asarray((given != own).any(axis=(1, 2)))


def _rows(values: np.ndarray) -> Any:
    """Which rows have a nonzero entry; none where MuJoCo's version has no such array."""
    return values.reshape(len(values), -1).any(axis=1) if values.size else np.False_


def _names(file: MJCFFile, kind: str, which: Iterable[int]) -> str:
    """The first elements with their lines."""
    listed = [file.label(kind, int(index)).removeprefix(f"{kind} ") for index in which]
    more = f" and {len(listed) - MOST_NAMES} more" if len(listed) > MOST_NAMES else ""
    return ", ".join(listed[:MOST_NAMES]) + more
