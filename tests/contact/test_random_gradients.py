"""Random trees and loose bodies over the ground, in random states: the gradient of some steps against finite
differences.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

import sim
from sim.diagnostics.finite_differences import WORLDS_AT_ONCE
from sim.model.builder.properties import JOINT_FIELDS, in_groups
from tests.dynamics.trees import Link, forests, rotations
from tests.simulation.differences import STATE, Case, Weights, analytic, finite_differences, regimes
from warp_kernels.types import BOX, CAPSULE, CYLINDER, ELLIPSOID, SPHERE

EXAMPLES = 40
# Of the largest derivative of an input. Where a step is close to singular, Newton's method leaves a rounding more or
# less in its solution. Narrow differences show them, and they aren't part of the rounding that is measured; wide ones
# agree to 1e-8 there.
BOUNDS = {"hard": 1e-5, "mujoco": 1e-5, "pgs": 1e-6}
INTEGRATORS = {"mujoco": ("euler", "implicitfast", "implicit", "rk4")}
PARAMETERS = (
    "joint_placement", "mass", "com", "inertia", "damping", "armature", "stiffness", "rest_position", "friction_loss",
    "lower_limit", "upper_limit", "geometry_placement", "geometry_size", "friction", "restitution", "gravity",
)  # fmt: skip
SHAPES = {
    SPHERE: (0.1, 0.0, 0.0), CAPSULE: (0.06, 0.12, 0.0), BOX: (0.1, 0.08, 0.06), CYLINDER: (0.08, 0.1, 0.0),
    ELLIPSOID: (0.1, 0.06, 0.08),
}  # fmt: skip


def scene(links: list[Link], seed: int, law: str) -> Case:
    """The trees with shapes on their links, up to two loose balls or boxes, and the ground among them."""
    rng = np.random.default_rng(seed)
    bounces = law != "mujoco"
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=rng.uniform(0.2, 1.0), restitution=0.8 * bounces))
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
            orientation=link.orientation, axis=link.axis, **in_groups(JOINT_FIELDS, passive),
        )  # fmt: skip
        shape = int(rng.choice(list(SHAPES)))
        material = sim.Surface(friction=rng.uniform(0.2, 1.0), restitution=bounces * rng.choice([0.0, 0.5]))
        size, turn = SHAPES[shape], Rotation.random(rng=rng).as_quat()
        builder.add_geometry(
            name, shape, size=size, position=rng.uniform(-0.1, 0.1, 3), orientation=turn, surface=material
        )
    for _ in range(rng.integers(0, 3)):
        where = {"position": rng.uniform(-0.3, 0.3, 3), "orientation": Rotation.random(rng=rng).as_quat()}
        if rng.random() < 0.5:
            builder.add_sphere(radius=0.15, mass=0.5, **where)
        else:
            builder.add_box(half_extents=(0.1, 0.1, 0.2), mass=0.7, **where)
    model = builder.finalize("float64")
    q = model.q0 + rng.uniform(-0.4, 0.4, model.nq)
    for start, _ in rotations(model):
        q[start : start + 4] = Rotation.random(rng=rng).as_quat()
    steps = int(rng.choice([1, 1, 3]))
    contact = contact_of(law, str(rng.choice(["cone", "pyramid"])), rng)
    integrator = str(rng.choice(INTEGRATORS.get(law, ("euler", "midpoint"))))
    return Case(
        model, q, rng.normal(size=model.nv), rng.normal(size=(steps, model.nv)), contact, 0.02, integrator=integrator
    )


def contact_of(law: str, friction: str, rng: np.random.Generator) -> sim.ContactMethod:
    """Random options of a law of Newton's method, or of "pgs"."""
    if law == "mujoco":
        return sim.MujocoContact(friction=friction, impratio=float(rng.choice([1.0, 5.0])))
    if law == "hard":
        regularisation, warm_start = float(rng.choice([1e-3, 1e-2])), bool(rng.random() < 0.3)
        return sim.HardContact(friction=friction, regularisation=regularisation, warm_start=warm_start)
    # Contacts and limits matter at a distance that the speeds here reach.
    sweeps, cfm = int(rng.choice([3, 20])), float(rng.choice([0.0, 0.1]))
    return sim.PgsContact(friction=friction, sweeps=sweeps, cfm=cfm, margin=0.2, erp=0.3, max_correction=5.0)


def solved(case: Case) -> bool:
    """Whether every step finds its solution, and the same one in a world alone as among those of the differences.

    Bodies that are wedged between each other may have several, or none that is found; rounding then chooses.
    """
    if isinstance(case.contact, sim.PgsContact):
        return True
    alone, among = case.simulator(), case.simulator(WORLDS_AT_ONCE)
    change = case.rollout(alone).qd.numpy() - case.rollout(among).qd.numpy()[:, :1]
    return bool(alone.residual[0] < 1e-9 and np.abs(change).max() < 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("law", BOUNDS)
def test_some_steps_of_random_scenes(law):
    left_out = skipped = compared = 0
    seen: set[str] = set()

    @settings(max_examples=EXAMPLES)
    @given(forests(), st.integers(0, 2**32 - 1))
    def some(links, seed):
        nonlocal left_out, skipped, compared
        case = scene(links, seed, law)
        if not solved(case):
            left_out += 1
            return
        seen.update(regimes(case))
        names = [*STATE, *(name for name in PARAMETERS if law != "mujoco" or name != "restitution")]
        weights = Weights.random(case)
        found = analytic(case, weights, names)
        for name, expected in finite_differences(case, weights, names, most=8).items():
            if not len(expected.entries):
                continue
            values = found[name].reshape(-1)[expected.entries]
            largest = max(np.abs(expected.central).max(), 1e-3)
            # Where one-sided differences disagree there is a kink within the steps, and no derivative.
            smooth = np.abs(expected.left - expected.right) < 1e-4 * largest
            # Near a kink differences are so narrow that their rounding, which is measured, counts beside small ones.
            excess = np.abs(values - expected.central) - expected.rounding
            error = excess[smooth].max(initial=0.0) / largest
            assert error < BOUNDS[law], f"{name}: relative error {error:.1e} of {largest:.2e}"
            compared += smooth.sum()
            skipped += (~smooth).sum()

    some()
    assert {"slide", "stick", "open", "lower", "upper", "held", "slip"} <= seen
    assert left_out <= 0.1 * EXAMPLES
    assert skipped < 0.02 * compared, f"{skipped} of {compared + skipped} entries skipped"
