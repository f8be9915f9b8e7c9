"""Springs and dampers of joints by their time constant and damping ratio, in MuJoCo's schema."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pxr import Sdf

from sim.importers.usd.reader import Reader
from sim.simulation.stepping.mujoco_law import InverseWeights
from warp_kernels.types import PRISMATIC, REVOLUTE, SPHERICAL

SPRING_DAMPER = "mjc:springdamper"


def set_springs(reader: Reader, joints: Iterable[tuple[Sdf.Path, str]]) -> None:
    """Set stiffness and damping of the joints that state them by a time constant t [s] and a damping ratio r.

    With the inertia m of the joint's coordinate in the model's initial configuration, as in MuJoCo's compiler:
    stiffness m / (t r)^2 and damping 2 m / t, in place of those that are stated; the spring rests at ``mjc:springref``,
    that of a ball where the joint's frames coincide.

    Args:
        reader: an import in progress, after all links, joints and tendons have been added.
        joints: their prims and names.

    Raises:
        ImportFileError: naming the prim, if the mass matrix is singular.
    """
    stated = {}
    for path, name in joints:
        prim, spec = reader.scene.prim(path), reader.builder.joints[name]
        if spec.type not in (REVOLUTE, PRISMATIC, SPHERICAL) or not prim.HasAttribute(SPRING_DAMPER):
            continue
        constant, ratio = reader.scene.numbers(prim, SPRING_DAMPER, (0.0, 0.0))
        if constant > 0.0 and ratio > 0.0:
            ball = spec.type == SPHERICAL
            rest = 0.0 if ball else reader.scene.mujoco_position(prim, "mjc:springref", spec.type == REVOLUTE) or 0.0
            stated[name] = path, constant, ratio, rest
    if not stated:
        return
    first = next(iter(stated.values()))[0]
    model = reader.add(first, reader.builder.finalize, "float64", collapse_fixed=False)
    weights = reader.add(first, InverseWeights, model).dofs()
    for name, (_, constant, ratio, rest) in stated.items():
        inertia = 1.0 / weights[model.joint_qd_start[model.joint_names.index(name)]]
        reader.builder.joints[name] = replace(
            reader.builder.joints[name],
            stiffness=inertia / (constant * ratio) ** 2,
            damping=2.0 * inertia / constant,
            rest_position=rest,
        )
