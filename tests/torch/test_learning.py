"""What the gradients are for: a network in the loop, and parameters found from a motion."""

import torch

import sim
import sim.torch

DT = 1 / 60
G = 9.81


def sliding_box(device: str, worlds: int) -> sim.Simulator:
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.3))
    builder.add_box(half_extents=(0.1, 0.1, 0.05), mass=1.0, position=(0, 0, 0.05))
    return sim.Simulator(builder.finalize("float32"), DT, worlds, device, sim.PgsContact(sweeps=20))


def test_policy_stops_a_sliding_box_at_a_target(device):
    """A network of 16 units sees position and velocity in every step and pushes the box along x."""
    torch.manual_seed(0)
    worlds, steps, target = 8, 40, 1.0
    simulator = sliding_box(device, worlds)
    policy = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).to(device)
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)
    start = torch.tensor(simulator.model.q0, dtype=torch.float32, device=device).repeat(worlds, 1)
    speed = torch.zeros(worlds, 6, device=device)
    speed[:, 0] = torch.linspace(0.5, 2.0, worlds, device=device)
    losses = []
    for _ in range(70):
        q, qd = start, speed
        for _ in range(steps):
            push = 10.0 * policy(torch.stack([q[:, 0] - target, qd[:, 0]], dim=1))
            tau = torch.cat([push, torch.zeros(worlds, 5, device=device)], dim=1)
            q, qd = sim.torch.step(simulator, q, qd, tau)
        loss = ((q[:, 0] - target) ** 2 + 0.1 * qd[:, 0] ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert min(losses) < 0.1 * losses[0], losses
    assert losses[-1] < 0.1 * losses[0], losses


def test_friction_found_from_a_motion(device):
    """Where boxes of several speeds come to rest tells the friction."""
    simulator = sliding_box(device, 4)
    start = torch.tensor(simulator.model.q0, dtype=torch.float32, device=device).repeat(4, 1)
    speed = torch.zeros(4, 6, device=device)
    speed[:, 0] = torch.linspace(1.0, 2.0, 4, device=device)
    true = torch.tensor([0.45, 1.0], device=device)
    seen, _ = sim.torch.rollout(simulator, start, speed, steps=60, friction=true)
    logarithm = torch.tensor(0.2, device=device).log().requires_grad_()
    optimizer = torch.optim.Adam([logarithm], lr=0.05)
    for _ in range(150):
        friction = torch.stack([logarithm.exp(), torch.ones((), device=device)])
        q, _ = sim.torch.rollout(simulator, start, speed, steps=60, friction=friction)
        loss = ((q - seen)[:, :, 0] ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.testing.assert_close(logarithm.exp().item(), 0.45, rtol=0.02, atol=0.0)
