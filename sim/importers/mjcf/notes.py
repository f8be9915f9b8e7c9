"""Warnings about features of an MJCF file that are not supported; nothing is ignored silently."""

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from sim.errors import ImportFileError, MJCFWarning
from sim.importers.mjcf.source.file import MJCFFile

# Limit of numbers that enter computations, whose squares must not overflow
COMPUTED = {
    "body": ("pos", "quat", "mass", "inertia", "ipos", "iquat"),
    "geom": ("pos", "quat", "size", "friction", "margin", "gap", "solmix", "surfacevel"),
    "pair": ("margin", "gap", "friction"),
    "equality": ("data",),
    "site": ("pos", "quat"),
    "joint": ("pos", "axis"),
    "tendon": ("armature",),
}
ARRAYS_OF = {"joint": "jnt", "equality": "eq"}  # prefixes of their names
# Arrays with MuJoCo's softness, with the attributes that it is read from
SOFTNESS = {
    "geom": {"geom": ""}, "joint": {"jnt": "limit", "dof": "friction"}, "equality": {"eq": ""}, "pair": {"pair": ""},
}  # fmt: skip
SOFTNESS_OF_TENDONS = {"lim": "limit", "fri": "friction"}
LARGEST = 1e30
# Maximum number of elements of one kind that a note names
MOST_NAMES = 6


def refuse_bodies(file: MJCFFile) -> None:
    """Raise ImportFileError for unsupported kinds of bodies.

    Raises:
        ImportFileError: for flexible bodies.
    """
    if file.array("nflex", 0) > 0:
        raise ImportFileError(file.path, "deformable bodies (<flex>, <flexcomp>) are not supported; remove them")


def refuse_numbers(file: MJCFFile) -> None:
    """Raise ImportFileError for numbers that are too large to compute with; MuJoCo accepts infinite ones.

    Raises:
        ImportFileError: naming the element.
    """
    model = file.model
    for kind, names in COMPUTED.items():
        for name in names:
            _refuse_large(file, kind, name, file.array(f"{ARRAYS_OF.get(kind, kind)}_{name}", []))
    for number in ("solref", "solimp"):
        for kind, arrays in SOFTNESS.items():
            for array, of in arrays.items():
                rows = model.dof_jntid if array == "dof" else None
                _refuse_large(file, kind, f"{number}{of}", getattr(model, f"{array}_{number}"), rows)
        for array, of in SOFTNESS_OF_TENDONS.items():
            _refuse_large(file, "tendon", f"{number}{of}", getattr(model, f"tendon_{number}_{array}"))


def _refuse_large(file: MJCFFile, kind: str, name: str, values: np.ndarray, rows: np.ndarray | None = None) -> None:
    """Raise ImportFileError for large numbers [n, ...] of elements, with indices ``rows`` if not consecutive."""
    wrong = np.flatnonzero(_rows(~(np.abs(values) <= LARGEST)))
    if len(wrong):
        element = int(wrong[0] if rows is None else rows[wrong[0]])
        raise file.error(kind, element, f"its {name} is {values[wrong[0]].tolist()}, which is too large")


def refuse_states(file: MJCFFile) -> None:
    """Raise ImportFileError for invalid gravity, time step, impratio, reference or keyframes.

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
    for name in ("qpos", "qvel", "ctrl", "act", "mpos", "mquat"):
        wrong = np.flatnonzero(~(np.abs(getattr(model, f"key_{name}")[key]) <= LARGEST))
        if len(wrong):
            value = getattr(model, f"key_{name}")[key][wrong[0]]
            raise file.error("key", key, f"{name} {wrong[0]} is {value}; it must be finite and not too large")
    if given.size != model.nq:
        return  # MuJoCo uses the reference instead
    ball, free = (int(getattr(file.mujoco.mjtJoint, f"mjJNT_{name}")) for name in ("BALL", "FREE"))
    for joint, (kind, at) in enumerate(zip(model.jnt_type, model.jnt_qposadr, strict=True)):
        start = int(at) + {ball: 0, free: 3}.get(int(kind), -1 - int(at))
        if start >= 0 and not np.abs(given[start : start + 4]).max() >= 1e-9:
            raise file.error("key", key, f"qpos holds the zero quaternion for {file.label('joint', joint)}")


def warn_of(file: MJCFFile, further: list[str]) -> None:
    """Report the ignored features of a file in one warning.

    Args:
        file: the file.
        further: notes from the parts of the importer.
    """
    left = _listed("things are not as in MuJoCo", [*_forces(file), *further])
    said = [f"MuJoCo warns: {text}" for text in file.warnings]
    if left or said:
        warnings.warn(f"{file.path}: " + "\n".join([*left, *said]), MJCFWarning, stacklevel=3)


def _listed(heading: str, notes: list[str]) -> list[str]:
    """Join notes to one text, a line for each if there are several; empty without notes."""
    return notes if len(notes) < 2 else ["\n  - ".join([f"{len(notes)} {heading}:", *notes])]


def _forces(file: MJCFFile) -> list[str]:
    model = file.model
    scalar = np.isin(model.jnt_type, (int(file.mujoco.mjtJoint.mjJNT_HINGE), int(file.mujoco.mjtJoint.mjJNT_SLIDE)))
    dof_poly = _rows(file.array("dof_dampingpoly", []))
    bent = _rows(file.array("jnt_stiffnesspoly", []))
    joints_of_dofs = model.dof_jntid[dof_poly] if dof_poly.size else []
    found = (
        ("that springs of tendons yield", "tendon", np.flatnonzero(_rows(file.array("tendon_springyield", []))),
         "they pull on"),
        ("polynomial springs of ball and free joints", "joint", np.flatnonzero(~scalar & bent),
         "their linear part is kept"),
        ("that springs yield", "joint", np.flatnonzero(_rows(file.array("jnt_springyield", []))), "they push on"),
        ("force limits of joints for gravity compensation", "joint",
         np.flatnonzero(model.jnt_actgravcomp.astype(bool) & model.jnt_actfrclimited.astype(bool)),
         "they only limit actuators"),
        ("polynomial damping", "joint", np.unique(joints_of_dofs), "its linear part is kept"),
        ("adhesion", "geom", np.flatnonzero(_rows(file.array("geom_adhesion", []))), ""),
        ("adhesion of pairs", "pair", np.flatnonzero(_rows(file.array("pair_adhesion", []))), ""),
        ("friction loss of free joints about the axes of the body", "joint", np.flatnonzero(_rubs(file)),
         "it acts about the axes of the world"),
    )  # fmt: skip
    notes = [
        f"ignored: {what} ({names_of(file, kind, which)})" + (f"; {more}" if more else "")
        for what, kind, which, more in found
        if len(which)
    ]
    return notes


def _rubs(file: MJCFFile) -> np.ndarray:
    """Return which joints are free and have dry friction [njnt]."""
    free = file.model.jnt_type == int(file.mujoco.mjtJoint.mjJNT_FREE)
    return np.asarray(free & (file.model.dof_frictionloss[file.model.jnt_dofadr] > 0.0))


def mocap_notes(file: MJCFFile) -> list[str]:
    """Return a warning of keyframes that move a mocap body from its pose in the file, for mocap bodies at rest."""
    model = file.model
    bodies = np.flatnonzero(model.body_mocapid >= 0)
    own = np.concatenate([model.body_pos[bodies], model.body_quat[bodies]], axis=1)
    shape = (model.nkey, len(bodies))
    given = np.concatenate([model.key_mpos.reshape(*shape, 3), model.key_mquat.reshape(*shape, 4)], axis=2)
    moving = np.flatnonzero((given != own).any(axis=(1, 2)))
    note = f"ignored: mocap poses of keyframes ({names_of(file, 'key', moving)}); set joint_placement, or mocap='free'"
    return [note] if len(moving) else []


def _rows(values: np.ndarray) -> Any:
    """Return which rows have a nonzero entry; none if MuJoCo's version lacks the array."""
    return values.reshape(len(values), -1).any(axis=1) if values.size else np.False_


def names_of(file: MJCFFile, kind: str, which: Iterable[int]) -> str:
    """Return the names and lines of the first elements."""
    listed = [file.label(kind, int(index)).removeprefix(f"{kind} ") for index in which]
    more = f" and {len(listed) - MOST_NAMES} more" if len(listed) > MOST_NAMES else ""
    return ", ".join(listed[:MOST_NAMES]) + more
