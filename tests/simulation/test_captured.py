"""Captured graphs neither allocate memory nor read on the host: CUDA would refuse that, or repeat what was read.

On a CPU, where launches are listed one by one, none is left out.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import warp as wp
from warp._src import context

import sim
from scenes import crowd
from sim.arrays import graphs
from sim.arrays.graphs import Graph
from sim.simulation.engine.shard import Shard
from tests.listed import require_all_listed
from tests.simulation.worlds import DT, WORLDS, hopper, inputs

CONTACTS = {
    "newton": sim.HardContact(warm_start=True),
    "smoothed": sim.HardContact(gradient_smoothing=0.1),
    "unrolled": sim.PgsContact(sweeps=5, adjoint="unrolled"),
    "implicit": sim.PgsContact(sweeps=5, adjoint="implicit", warm_start=True),
    "mujoco": sim.MujocoContact(noslip_iterations=2),
}
ALLOCATORS = (context.CpuDefaultAllocator, context.CudaDefaultAllocator, context.CudaMempoolAllocator)


@pytest.fixture
def captures(monkeypatch) -> list[int]:
    """Lets allocations, reads on the host and what isn't listed fail in captures; one entry for each capture."""
    done: list[int] = []
    forbidden = [False]

    def guarded(what: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **options: Any) -> Any:
            assert not forbidden[0], f"{what} in a captured graph"
            return method(*arguments, **options)

        return called

    for allocator in ALLOCATORS:
        monkeypatch.setattr(allocator, "allocate", guarded("an allocation", allocator.allocate))
    for name in ("numpy", "list"):
        monkeypatch.setattr(wp.array, name, guarded("a read on the host", getattr(wp.array, name)))
    capture = Shard._capture

    def captured(shard: Shard, work: Callable[[], None]) -> Graph:
        def watched() -> None:
            forbidden[0] = True
            try:
                work()
            finally:
                forbidden[0] = False

        done.append(1)
        return capture(shard, watched)

    monkeypatch.setattr(Shard, "_capture", captured)
    require_all_listed(monkeypatch)
    return done


@pytest.mark.parametrize(("contact", "integrator"), [*((name, "euler") for name in CONTACTS), ("mujoco", "rk4")])
def test_a_robot(captures, contact, integrator, device):
    """Forward and back, with states of every step and of every third one, and the matrices of a step."""
    model = hopper("float32")
    if contact == "mujoco":
        model.parameters["restitution"][:] = 0.0
    simulator = sim.Simulator(model, DT, WORLDS, device, CONTACTS[contact], integrator=integrator)
    q, qd, tau = inputs(model, 9)
    for interval in (1, 3):
        trajectory = simulator.rollout(simulator.state(q, qd), tau, checkpoint_interval=interval)
        trajectory.backward(np.ones(trajectory.q.shape), parameters=["mass", "friction"])
    assert len(captures) >= 3
    if integrator == "euler" and not CONTACTS[contact].warm_start:
        simulator.linearise(simulator.state(q, qd), tau[0])


def test_a_crowd(captures, device):
    """The grid of near bodies, and islands: the step, its backward pass, and the fingerprint of a trajectory."""
    scene = crowd.loose("ball", 150, "float32", spacing=2.0 * crowd.SIZE, height=1e-4)
    simulator = sim.Simulator(scene.model, DT, 1, device)
    trajectory = simulator.rollout(simulator.initial_state(), steps=2)
    trajectory.backward(np.ones(trajectory.q.shape))
    assert len(captures) == 3


@pytest.mark.parametrize("contact", CONTACTS)
def test_warp_repeats_the_same(contact, monkeypatch):
    """As it does where it may call kernels otherwise: in versions that came later. Bit by bit, forward and back."""
    found = []
    for versions in (graphs.SAME_SIGNATURE, ()):
        monkeypatch.setattr(graphs, "SAME_SIGNATURE", versions)
        model = hopper("float64")
        model.parameters["restitution"][:] = 0.0
        simulator = sim.Simulator(model, DT, WORLDS, "cpu", CONTACTS[contact])
        q, qd, tau = inputs(model, 9)
        trajectory = simulator.rollout(simulator.state(q, qd), tau, checkpoint_interval=3)
        gradients = trajectory.backward(np.ones(trajectory.q.shape), parameters=["mass"])
        found.append([trajectory.q.numpy(), gradients.q.numpy(), gradients.tau.numpy(), gradients.parameters["mass"]])
    for ours, warps in zip(*found, strict=True):
        assert np.abs(ours).max() > 0.0
        np.testing.assert_array_equal(ours, warps)
