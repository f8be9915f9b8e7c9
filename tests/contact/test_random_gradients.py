"""Random trees and loose bodies over the ground, in random states: the gradient of one step against finite
differences.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

import sim
from tests.dynamics.trees import Link, forests, rotations
from tests.simulation.differences import STATE, Case, Weights, analytic, finite_differences, regimes
from warp_kernels.types import BOX, CAPSULE, SPHERE

EXAMPLES = 40
PARAMETERS = (
    "joint_placement", "mass", "com", "inertia", "damping", "armature", "stiffness", "rest_position", "friction_loss",
    "lower_limit", "upper_limit", "geometry_placement", "geometry_size", "friction", "restitution", "gravity",
)  # fmt: skip
SHAPES = {SPHERE: (0.1, 0.0, 0.0), CAPSULE: (0.06, 0.12, 0.0), BOX: (0.1, 0.08, 0.06)}


def scene(links: list[Link], seed: int) -> Case:
    """The trees with shapes on their links, up to two loose balls or boxes, and the ground among them."""
    rng = np.random.default_rng(seed)
    builder = sim.ModelBuilder()
    builder.add_ground(friction=rng.uniform(0.2, 1.0), restitution=0.8)
    for number, link in enumerate(links):
        name = builder.add_link(f"link{number}", mass=link.mass, com=link.com, inertia=link.inertia)
        parent = f"link{link.parent}" if link.parent >= 0 else "world"
        passive = dict(link.passive)
        if link.kind in ("revolute", "prismatic"):
            passive |= {"lower": rng.uniform(-0.6, -0.1), "upper": rng.uniform(0.1, 0.6)}
        if link.kind != "fixed":
            passive["friction_loss"] = rng.choice([0.0, 1.0, 20.0])
        builder.add_joint(
            f"joint{number}", link.kind, child=name, parent=parent, position=link.position + np.array([0, 0, 0.2]),
            orientation=link.orientation, axis=link.axis, **passive,
        )  # fmt: skip
        shape = int(rng.choice(list(SHAPES)))
        material = {"friction": rng.uniform(0.2, 1.0), "restitution": rng.choice([0.0, 0.5])}
        size, turn = SHAPES[shape], Rotation.random(rng=rng).as_quat()
        builder.add_geometry(name, shape, size=size, position=rng.uniform(-0.1, 0.1, 3), orientation=turn, **material)
    for _ in range(rng.integers(0, 3)):
        where = {"position": rng.uniform(-0.3, 0.3, 3), "orientation": Rotation.random(rng=rng).as_quat()}
        if rng.random() < 0.5:
            builder.add_sphere(radius=0.15, mass=0.5, **where)
        else:
            builder.add_box(half_extents=(0.1, 0.1, 0.2), mass=0.7, **where)
    # Boxes and capsules on boxes are pairs without contacts of their own; the ground and balls are enough here.
    shapes = [(name, spec.geometry.type) for name, spec in builder.geometries.items()]
    for i, (first, kind) in enumerate(shapes):
        for second, other in shapes[i + 1 :]:
            if BOX in (kind, other) and {kind, other} & {BOX, CAPSULE} and SPHERE not in (kind, other):
                links_of = (builder.geometries[first].link, builder.geometries[second].link)
                if "world" not in links_of:
                    builder.exclude_collision(*links_of)
    model = builder.finalize("float64")
    q = model.q0 + rng.uniform(-0.4, 0.4, model.nq)
    for start, _ in rotations(model):
        q[start : start + 4] = Rotation.random(rng=rng).as_quat()
    # Contacts and limits matter at a distance that the speeds here reach.
    contact = sim.ContactOptions(
        solver="pgs", sweeps=int(rng.choice([3, 20])), friction=str(rng.choice(["cone", "pyramid"])), margin=0.2,
        erp=0.3, max_correction=5.0, cfm=float(rng.choice([0.0, 0.1])),
    )  # fmt: skip
    return Case(model, q, rng.normal(size=model.nv), rng.normal(size=(1, model.nv)), contact, 0.02)


@pytest.mark.slow
def test_one_step_of_random_scenes():
    skipped = compared = 0
    seen: set[str] = set()

    @settings(max_examples=EXAMPLES)
    @given(forests(), st.integers(0, 2**32 - 1))
    def one(links, seed):
        nonlocal skipped, compared
        case = scene(links, seed)
        seen.update(regimes(case))
        names = [*STATE, *PARAMETERS]
        weights = Weights.random(case)
        found = analytic(case, weights, names)
        for name, expected in finite_differences(case, weights, names, most=8).items():
            if not len(expected.entries):
                continue
            values = found[name].reshape(-1)[expected.entries]
            largest = max(np.abs(expected.central).max(), 1e-3)
            # Where one-sided differences disagree there is a kink within the step, and no derivative.
            smooth = np.abs(expected.left - expected.right) < 1e-4 * largest
            # Near a kink differences are so narrow that their rounding, which is measured, counts beside small ones.
            excess = np.abs(values - expected.central) - expected.rounding
            error = excess[smooth].max(initial=0.0) / largest
            assert error < 1e-6, f"{name}: relative error {error:.1e} of {largest:.2e}"
            compared += smooth.sum()
            skipped += (~smooth).sum()

    one()
    assert {"slide", "stick", "open", "lower", "upper", "held", "slip"} <= seen
    assert skipped < 0.01 * compared, f"{skipped} of {compared + skipped} entries skipped"
