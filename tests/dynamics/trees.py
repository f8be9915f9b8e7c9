"""Random forests of kinematic trees: one description, made into a model by the builder and by Pinocchio."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

import sim
from sim.model.builder.properties import JOINT_FIELDS, in_groups
from warp_kernels.types import FREE, SPHERICAL

KINDS = ["fixed", "revolute", "continuous", "prismatic", "spherical", "free"]


@dataclass(frozen=True)
class Link:
    """A link with the joint that carries it; ``parent`` is the number of a link before it, or -1 for the world."""

    parent: int
    kind: str
    position: np.ndarray
    orientation: np.ndarray
    axis: np.ndarray
    mass: float
    com: np.ndarray
    inertia: np.ndarray
    passive: dict[str, float]

    @staticmethod
    def random(parent: int, kind: str, rng: np.random.Generator) -> "Link":
        size = rng.uniform(0.05, 0.4, 3)
        turn = Rotation.random(rng=rng).as_matrix()
        mass = rng.uniform(0.5, 3.0)
        box = mass / 3.0 * (size @ size - size**2)
        passive = {"damping": rng.uniform(0.1, 0.5), "armature": rng.uniform(0.1, 0.3) * (kind != "free")}
        if kind in ("revolute", "continuous", "prismatic"):
            passive |= {"stiffness": rng.uniform(1.0, 3.0), "rest_position": rng.uniform(-0.5, 0.5)}
        passive["friction_loss"] = rng.uniform(0.1, 0.5)
        return Link(
            parent, kind, rng.uniform(-0.5, 0.5, 3), Rotation.random(rng=rng).as_quat(), rng.normal(size=3), mass,
            rng.uniform(-0.1, 0.1, 3), turn @ np.diag(box) @ turn.T, {} if kind == "fixed" else passive,
        )  # fmt: skip


@st.composite
def forests(draw: st.DrawFn) -> list[Link]:
    """One to nine links, in one or more trees, of all joint types; the first link moves."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    links: list[Link] = []
    for number in range(draw(st.integers(1, 9))):
        parent = draw(st.integers(-1, number - 1))
        kind = draw(st.sampled_from(KINDS if parent < 0 else KINDS[:-1]))
        links.append(Link.random(parent, "revolute" if number == 0 and kind == "fixed" else kind, rng))
    return links


def zoo() -> list[Link]:
    """Every joint type, two trees with branches, a fixed link on a moving one."""
    rng = np.random.default_rng(7)
    parents = [-1, 0, 1, 2, 1, 4, -1, 6, 7]
    kinds = ["free", "revolute", "spherical", "prismatic", "fixed", "revolute", "spherical", "prismatic", "revolute"]
    return [Link.random(parent, kind, rng) for parent, kind in zip(parents, kinds, strict=True)]


def build(
    links: list[Link], dtype: str, collapse_fixed: bool = True, offset: tuple[float, ...] = (0, 0, 0)
) -> sim.Model:
    """The model of the builder; ``offset`` moves what hangs on the world [m]."""
    return describe(links, offset).finalize(dtype, collapse_fixed=collapse_fixed)


def describe(links: list[Link], offset: tuple[float, ...] = (0, 0, 0)) -> sim.ModelBuilder:
    """The builder that has the links; see :func:`build`."""
    builder = sim.ModelBuilder()
    for number, link in enumerate(links):
        builder.add_link(f"link{number}", mass=link.mass, com=link.com, inertia=link.inertia)
        root = link.parent < 0
        builder.add_joint(
            f"joint{number}", link.kind, child=f"link{number}", parent="world" if root else f"link{link.parent}",
            position=link.position + np.array(offset) * root, orientation=link.orientation, axis=link.axis,
            **in_groups(JOINT_FIELDS, link.passive),
        )  # fmt: skip
    return builder


def build_pinocchio(links: list[Link], names: tuple[str, ...], offset: tuple[float, ...] = (0, 0, 0)) -> Any:
    """Pinocchio's model of the same; ``names`` are those of the joints, depth first."""
    import pinocchio as pin

    model = pin.Model()
    home = {-1: (0, pin.SE3.Identity())}
    order = [int(name.removeprefix("joint")) for name in names]
    fixed = [number for number, link in enumerate(links) if link.kind == "fixed"]
    while len(home) <= len(links):
        # Depth first among the moving joints; a fixed link as soon as its parent stands.
        ready = [n for n in [*fixed, *order] if n not in home and links[n].parent in home]
        number = ready[0]
        link = links[number]
        parent, base = home[link.parent]
        unit = link.axis / np.linalg.norm(link.axis)
        joint = {
            "revolute": pin.JointModelRevoluteUnaligned(unit),
            "continuous": pin.JointModelRevoluteUnaligned(unit),
            "prismatic": pin.JointModelPrismaticUnaligned(unit),
            "spherical": pin.JointModelSpherical(),
            "free": pin.JointModelFreeFlyer(),
        }.get(link.kind)
        shift = np.array(offset) * (link.parent < 0)
        placement = base * pin.SE3(Rotation.from_quat(link.orientation).as_matrix(), link.position + shift)
        inertia = pin.Inertia(link.mass, link.com, link.inertia)
        if joint is None:
            home[number] = (parent, placement)
            model.appendBodyToJoint(parent, inertia, placement)
        else:
            # The position and orientation of a free joint are its initial coordinates.
            at = pin.SE3.Identity() if link.kind == "free" else placement
            index = model.addJoint(parent, joint, at, f"joint{number}")
            model.appendBodyToJoint(index, inertia, pin.SE3.Identity())
            home[number] = (index, pin.SE3.Identity())
        parent, placement = home[number]
        model.addFrame(pin.Frame(f"link{number}", parent, 0, placement, pin.BODY))
    return model


def rotations(model: sim.Model) -> list[tuple[int, int]]:
    """Where the quaternion of each free and spherical joint starts in q, and its angular velocity in qd."""
    return [
        (int(q) + shift, int(qd) + shift)
        for kind, q, qd in zip(model.joint_type, model.joint_q_start, model.joint_qd_start, strict=True)
        if kind in (FREE, SPHERICAL)
        for shift in ([3] if kind == FREE else [0])
    ]
