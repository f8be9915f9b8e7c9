"""Pyramids with little friction under MuJoCo's law, whose edges are stiffer than the normal force by 1 / (2 mu^2)."""

import contextlib

import mujoco
import numpy as np
import pytest
import warp as wp

import sim
from tests.importers.mjcf_zoo import load_quietly
from warp_kernels.solver.mujoco.references import contact_reference_kernels
from warp_kernels.types import warp_types

XML = """
<mujoco>
  <option cone="{cone}" tolerance="1e-14" iterations="200"/>
  <worldbody>
    <geom type="plane" size="5 5 1" friction="{friction}"/>
    <body pos="0 0 0.095"><freejoint/><geom type="sphere" size="0.1" condim="{condim}" friction="{friction}"/></body>
  </worldbody>
</mujoco>
"""


@pytest.mark.parametrize("condim", [3, 6])
@pytest.mark.parametrize("friction", ["0 0 0", "1e-2 0.01 0.01", "1e-3 0.01 0.01", "0 0.01 0.01"])
@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_motion(tmp_path, cone, friction, condim):
    """A ball slides into the floor and out of it as in MuJoCo, which has no friction below 1e-5."""
    path = tmp_path / "scene.xml"
    path.write_text(XML.format(cone=cone, friction=friction, condim=condim))
    model = load_quietly(path)
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(peer)
    data.qvel = [1.0, 0.3, 0.0, 0.5, 0.2, 0.1]
    q, qd = sim.from_mujoco(model, data.qpos, data.qvel)
    simulator = sim.Simulator(model, **sim.mujoco_settings(model))
    trajectory = simulator.rollout(simulator.state(q, qd), steps=60)
    theirs = np.zeros((60, 6))
    for step in range(60):
        mujoco.mj_step(peer, data)
        theirs[step] = data.qvel
    _, ours = sim.to_mujoco(model, trajectory.q.numpy()[1:, 0], trajectory.qd.numpy()[1:, 0])
    np.testing.assert_allclose(ours, theirs, atol=2e-6)


@pytest.mark.parametrize("num_worlds", [1, 16])
@pytest.mark.parametrize(("dtype", "left"), [("float64", 1e-4), ("float32", 0.1)])
@pytest.mark.parametrize("friction", [1e-2, 1e-5])
def test_stack(friction, dtype, left, num_worlds):
    """Every step of a stack that slides apart is solved, also in single precision, for one world and for many."""
    builder = sim.ModelBuilder()
    material = sim.Surface(friction=friction, friction_rule="maximum")
    builder.add_ground(surface=material)
    for number in range(4):
        position = (0, 0, 0.1 + 0.2 * number)
        builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0 + number, position=position, surface=material)
    model = builder.finalize(dtype)
    contact = sim.MujocoContact(friction="pyramid")
    simulator = sim.Simulator(model, 2e-3, num_worlds=num_worlds, device="cpu", contact=contact)
    pushes = 0.3 * np.random.default_rng(0).normal(size=(num_worlds, model.nv))
    trajectory = simulator.rollout(simulator.state(model.q0, pushes), steps=150)
    assert simulator.residual.max() < left
    assert np.abs(trajectory.qd.numpy()).max() < 10.0


@pytest.mark.parametrize("friction", [3e-7, 1.2e-6, 2e-6, 1e-3])
def test_gradients_of_references(friction):
    """On both sides of the friction below which edges get no stiffer, beside differences of the kernel.

    A whole step can't be compared: edges are 1e12 times as stiff as the normal force, and rounding outweighs friction.
    """
    kernel = contact_reference_kernels(wp.float64, False).contact_references
    t = warp_types(wp.float64)
    distance, softness = np.array([[-0.003]]), np.array([[0.9, 0.95, 0.01, 0.4, 2.0]])

    def launched(mu: float, x: np.ndarray, tape: wp.Tape | None = None):
        def array(values, dtype, grad: bool = False):
            return wp.array(values, dtype=dtype, device="cpu", requires_grad=grad)

        of_friction, of_distance = (array(v, wp.float64, True) for v in ([[mu]], x))
        result = array(np.zeros((1, 1, 3)), t.vec3, True)
        inputs = [
            *(array([n], wp.int32) for n in (0, 1)), array([0.7, 1.3], wp.float64), array([[0.02, 1.0]], t.vec2),
            array(softness, t.vec5), array([0.0], wp.float64), 1, 0.002, wp.empty((0, 0), dtype=t.vec2, device="cpu"),
            wp.empty((0, 0), dtype=t.vec5, device="cpu"), array([[0]], wp.int32), array([1], wp.int32),
            of_distance, of_friction,
        ]  # fmt: skip
        with tape or contextlib.nullcontext():
            wp.launch(kernel, dim=(1, 1), inputs=inputs, outputs=[result], device="cpu")
        return result, of_friction, of_distance

    for entry in range(3):
        tape, seed = wp.Tape(), np.zeros((1, 1, 3))
        seed[..., entry] = 1.0
        result, of_friction, of_distance = launched(friction, distance, tape)
        tape.backward(grads={result: wp.array(seed, dtype=t.vec3, device="cpu")})
        value = lambda mu, x: launched(mu, x)[0].numpy()[0, 0, entry]  # noqa: B023, E731
        h, scale = 1e-4 * friction, max(abs(value(friction, distance)), 1e-12)
        slope = (value(friction + h, distance) - value(friction - h, distance)) / (2.0 * h)
        assert of_friction.grad.numpy()[0, 0] * friction == pytest.approx(slope * friction, rel=1e-6, abs=1e-10 * scale)
        slope = (value(friction, distance + 1e-8) - value(friction, distance - 1e-8)) / 2e-8
        assert of_distance.grad.numpy()[0, 0] == pytest.approx(slope, rel=1e-5, abs=1e-6 * scale)
