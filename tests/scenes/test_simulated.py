"""The scenes in the simulator: what should stay at rest does."""

import numpy as np

import sim
from scenes import throw


def test_the_ball_stays_in_the_hand(device):
    scene = throw.build(dtype="float64")
    simulator = sim.Simulator(scene.model, scene.dt, device=device)
    trajectory = simulator.rollout(simulator.state(scene.q0), np.tile(scene.hold, (300, 1)))
    # The pocket is written to a hundredth of a millimetre, so the ball settles by as much, and rolls as far.
    np.testing.assert_allclose(trajectory.q.numpy()[-1, 0], scene.q0, atol=5e-5)
