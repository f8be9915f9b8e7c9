"""A step whose kinematics and dynamics work on several worlds at a time, beside one that takes one at a time."""

import numpy as np
import pytest

import sim
from tests.actuators.worlds import leg
from tests.simulation.test_linearisation import tumbling_arm
from tests.simulation.worlds import DT, hopper
from warp_kernels.types import LANES, SPHERE

WORLDS = 2 * LANES + 3  # the last lane group isn't full
STEPS = 3
MUJOCO = sim.ContactOptions(law="mujoco")
BETWEEN = "sim.simulation.stepping.workspace.lanes_worth"


def lifted() -> sim.Model:
    """Two links of which one is free, with weights that are borne in part."""
    builder = sim.ModelBuilder()
    builder.add_ground(friction=0.6)
    builder.add_link("body", mass=1.0, inertia=(0.02, 0.03, 0.04), gravity_compensation=0.5)
    builder.add_joint("free", "free", child="body", position=(0.0, 0.0, 0.12))
    builder.add_geometry("body", SPHERE, size=(0.12, 0.0, 0.0), friction=0.8)
    builder.add_link("arm", mass=0.3, com=(0.1, 0.0, 0.0), inertia=(0.001, 0.002, 0.002), gravity_compensation=1.0)
    builder.add_joint("hinge", "revolute", parent="body", child="arm", axis=(0.0, 1.0, 0.0), damping=0.02)
    return builder.finalize("float64")


CASES = {
    "contacts": (hopper(), sim.ContactOptions()),
    "sweeps": (hopper(), sim.ContactOptions(solver="pgs")),
    "single precision": (hopper("float32"), sim.ContactOptions()),
    "all joints": (tumbling_arm(), sim.ContactOptions()),
    "actuators": (leg().finalize("float64"), sim.ContactOptions()),
    "compensated weight": (lifted(), sim.ContactOptions()),
    "MuJoCo's law": (lifted(), MUJOCO),
}


def run(model: sim.Model, contact: sim.ContactOptions, lanes: int) -> dict[str, np.ndarray]:
    """Last state and all gradients of a short rollout whose worlds have states, inputs and masses of their own."""
    rng = np.random.default_rng(3)
    mass = model.parameters["mass"] * rng.uniform(0.9, 1.1, (WORLDS, model.num_links))
    simulator = sim.Simulator(model, DT, WORLDS, "cpu", contact, {"mass": mass})
    assert {shard.step.groups.lanes for shard in simulator.shards} == {lanes}
    state = simulator.state(np.tile(model.q0, (WORLDS, 1)), 0.5 * rng.normal(size=(WORLDS, model.nv)))
    tau = 0.5 * rng.normal(size=(STEPS, WORLDS, model.nv))
    control = rng.normal(size=(STEPS, WORLDS, model.nu)) if model.nu else None
    trajectory = simulator.rollout(state, tau, control=control)
    last = trajectory.final_state
    names = [name for name in model.parameters if name not in ("solref", "solimp")]
    gradients = trajectory.backward(rng.normal(size=last.q.shape), rng.normal(size=last.qd.shape), names)
    found = {"q": last.q, "qd": last.qd, "q_bar": gradients.q, "qd_bar": gradients.qd, "tau_bar": gradients.tau}
    return {name: array.numpy() for name, array in found.items()} | gradients.parameters


@pytest.mark.parametrize("case", CASES)
def test_same_as_one_world_at_a_time(case, monkeypatch):
    model, contact = CASES[case]
    several = run(model, contact, LANES)
    monkeypatch.setattr(BETWEEN, lambda lanes, worlds: 1)
    single = run(model, contact, 1)
    bound = 1e-9 if model.dtype == "float64" else 1e-3
    for name, expected in single.items():
        size = np.abs(expected).max(initial=1e-3)
        np.testing.assert_allclose(several[name], expected, rtol=0.0, atol=bound * size, err_msg=name)
