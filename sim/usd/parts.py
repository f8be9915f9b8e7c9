"""Parts of a model, their time steps and keyframes, and the order of its trees, as annotations."""

import warnings
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from pxr import Sdf, Usd

from sim.errors import ModelError, USDWarning
from sim.model.model import MUJOCO_CONES, MUJOCO_INTEGRATORS, Keyframe, Model, MujocoOptions, Part
from sim.model.softness import LARGEST
from sim.usd.annotations import keep, keep_text, keep_texts, kept, kept_text, kept_texts


def keep_parts(stage: Usd.Stage, model: Model, paths: Sequence[Sdf.Path], joints: Sequence[Sdf.Path]) -> None:
    """Store the parts at the roots of their trees, and their keyframes at the joints.

    Args:
        stage: the stage.
        model: the model.
        paths: prim paths of the links.
        joints: prim paths of their joints; for free joints that of the link.
    """
    roots = [int(start) for start, end in pairwise(model.tree_link_start) if end > start]
    for number, root in enumerate(roots):
        keep(stage.GetPrimAtPath(paths[root]), "tree", number)
    if model.mujoco is not None:
        keep_text(stage.GetDefaultPrim(), "law", "mujoco")
    link_of = {name: link for link, name in enumerate(model.link_names)}
    for part in model.parts:
        links = [link_of[name] for name in part.links if name in link_of]
        tops = [link for link in links if link in roots] or links[:1]
        for link in tops:
            keep_text(stage.GetPrimAtPath(paths[link]), "part", part.name)
        if tops:
            _keep_states(stage, model, part, stage.GetPrimAtPath(paths[tops[0]]), joints)


def _keep_states(stage: Usd.Stage, model: Model, part: Part, root: Usd.Prim, joints: Sequence[Sdf.Path]) -> None:
    """Store time step and keyframes of a part; warn of keyframes that don't fit the model's joints."""
    if part.timestep is not None:
        keep(root, "timestep", part.timestep)
    if part.mujoco is not None:
        keep_texts(root, "mujoco", [part.mujoco.integrator, part.mujoco.cone])
        keep(root, "impratio", part.mujoco.impratio)
        keep(root, "noslip", (part.mujoco.noslip_iterations, part.mujoco.noslip_tolerance))
    names: list[str] = []
    for name, state in part.keyframes.items():
        try:
            q, qd = model.q_slice(part), model.qd_slice(part)
        except ModelError as error:
            warnings.warn(f"keyframe '{name}' is ignored: {error}", USDWarning, stacklevel=2)
            continue
        number = len(names)
        for link in (model.joint(joint) for joint in part.joints if joint in model.joint_names):
            values = []
            for offset, all_of_part, starts, total in (
                (q.start, state.q, model.joint_q_start, model.nq),
                (qd.start, state.qd, model.joint_qd_start, model.nv),
            ):
                end = int(starts[link + 1]) if link + 1 < len(starts) else total
                values.append(np.asarray(all_of_part)[int(starts[link]) - offset : end - offset])
            prim = stage.GetPrimAtPath(joints[link])
            keep(prim, f"keyframe_{number}:q", values[0])
            keep(prim, f"keyframe_{number}:qd", values[1])
        for label, values_by_name in (("inputs", state.control), ("states", state.act)):
            keep_texts(root, f"keyframe_{number}:{label}", tuple(values_by_name))
        keep(root, f"keyframe_{number}:control", tuple(state.control.values()))
        if state.act:
            keep(root, f"keyframe_{number}:act", tuple(state.act.values()))
        names.append(name)
    keep_texts(root, "keyframes", names)


def is_by_mujoco(stage: Usd.Stage) -> bool:
    """Return whether the stage was written from a model with MuJoCo's law."""
    prim = stage.GetDefaultPrim()
    return bool(prim) and kept_text(prim, "law") == "mujoco"


def kept_mujoco_options(root: Usd.Prim) -> MujocoOptions | None:
    """Return the MuJoCo options of a part, read from the prim of its root link; None if missing or unknown."""
    texts, impratio = kept_texts(root, "mujoco"), kept(root, "impratio", 1)
    if len(texts) != 2 or impratio is None or texts[0] not in MUJOCO_INTEGRATORS:
        return None
    if texts[1] not in MUJOCO_CONES or not 0.0 < impratio[0] <= LARGEST:
        return None
    noslip = kept(root, "noslip", 2)
    if noslip is None or (noslip < 0.0).any() or noslip[0] >= 2**31:
        return MujocoOptions(texts[0], texts[1], float(impratio[0]))
    return MujocoOptions(texts[0], texts[1], float(impratio[0]), int(noslip[0]), float(noslip[1]))


def kept_keyframes(root: Usd.Prim, joints: Sequence[Usd.Prim], sizes: Sequence[tuple[int, int]]) -> dict[str, Keyframe]:
    """Return the stored keyframes of a part.

    Args:
        root: prim of its root link.
        joints: prims of its joints in the order of their coordinates.
        sizes: number of coordinates and velocities of each.

    Returns:
        Keyframes by name, of which all joints still have their coordinates.
    """
    found = {}
    for number, name in enumerate(kept_texts(root, "keyframes")):
        inputs = kept_texts(root, f"keyframe_{number}:inputs")
        control = kept(root, f"keyframe_{number}:control", len(inputs))
        states = kept_texts(root, f"keyframe_{number}:states")
        act = kept(root, f"keyframe_{number}:act", len(states))
        q = [kept(prim, f"keyframe_{number}:q", size[0]) for prim, size in zip(joints, sizes, strict=True)]
        qd = [kept(prim, f"keyframe_{number}:qd", size[1]) for prim, size in zip(joints, sizes, strict=True)]
        if control is not None and all(each is not None for each in (*q, *qd)):
            found[name] = Keyframe(
                np.concatenate([np.zeros(0), *q]),
                np.concatenate([np.zeros(0), *qd]),
                dict(zip(inputs, control.tolist(), strict=True)),
                {} if act is None else dict(zip(states, act.tolist(), strict=True)),
            )
    return found


def part_label(root: Usd.Prim) -> str | None:
    """Return the name of the part that a tree was written in."""
    return kept_text(root, "part")


def tree_number(root: Usd.Prim) -> float:
    """Return the index of a tree among the written ones; infinite for others."""
    number = kept(root, "tree", 1)
    return np.inf if number is None else float(number[0])
