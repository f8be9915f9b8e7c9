"""Robots of installed packages against Pinocchio: values and vector-Jacobian products, at all batch shapes."""

import copy
import warnings

import numpy as np
import pytest
import torch

import sim
from sim.errors import URDFWarning

pin = pytest.importorskip("pinocchio")

from tests.dynamics.peer import Peer, matrices  # noqa: E402
from tests.dynamics.states import random_state, relative_error  # noqa: E402
from tests.dynamics.terms import accelerations, jacobian_derivatives  # noqa: E402
from tests.importers.reference import ROBOTS  # noqa: E402

NAMES = ["cartpole", "ur5", "iiwa", "panda", "xarm7", "go2", "anymal_b", "solo12", "allegro", "talos"]
# The robots that come with differentiable-robot-model; skipped where it isn't installed.
DRM_NAMES = [name for name in ROBOTS if name.startswith("drm_")]
SHAPES = [(), (1,), (3,), (6,), (7,)]
DTYPES = {torch.float32: 1e-5, torch.float64: 1e-11}
# Accelerations of float32 robots are those of the rounded model (see test_robots.py of the dynamics): what rounding
# the parameters does is amplified by the condition of the mass matrix.
ACCELERATIONS = {torch.float32: 1e-4, torch.float64: 1e-10}


def load(name: str, floating: bool) -> tuple[sim.torch.Robot, Peer]:
    path = ROBOTS[name]
    if not path.is_file():
        pytest.skip(f"{path} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", URDFWarning)
        robot = sim.torch.Robot(path, floating_base=floating, dtype=torch.float64)
        model = sim.load(path, floating_base=floating, visual=False, collision=False, mimic="free", dtype="float64")
    peer = pin.buildModelFromUrdf(str(path), *((pin.JointModelFreeFlyer(),) if floating else ()))
    return robot, Peer(model, peer)


def expected(peer: Peer, frames: list[str], q: np.ndarray, qd: np.ndarray, qdd: np.ndarray) -> dict[str, np.ndarray]:
    """Of one state, by the names of methods."""
    reference = "local_world_aligned"
    zero = np.zeros_like(qd)
    gravity = peer.inverse_dynamics(q, zero, zero) - peer.passive_force(q, zero)
    bias = peer.inverse_dynamics(q, qd, zero) - peer.passive_force(q, qd)
    jacobian = np.array([peer.jacobian(q, frame, reference) for frame in frames])
    x, v, to_peer = peer.state(q, qd)
    momentum = pin.computeCentroidalMomentum(peer.peer, peer.data, x, v)
    mass = peer.mass_matrix(q)
    return {
        "forward_kinematics_matrix": peer.frames(q, frames),
        "jacobian": jacobian,
        "a second later": jacobian + jacobian_derivatives(peer, q, qd, frames, reference),
        "frame_velocity": peer.velocities(q, qd, frames, reference),
        "frame_acceleration": accelerations(peer, q, qd, qdd, frames, reference),
        "inverse_dynamics": peer.inverse_dynamics(q, qd, qdd),
        "mass_matrix": mass,
        "gravity_forces": gravity,
        "bias_forces": bias,
        "coriolis and gravity": bias,
        "kinetic_energy": np.array(0.5 * qd @ mass @ qd),
        "potential_energy": np.array(pin.computePotentialEnergy(peer.peer, peer.data, x)),
        "centre_of_mass": pin.centerOfMass(peer.peer, peer.data, x).copy(),
        "centre_of_mass_jacobian": pin.jacobianCenterOfMass(peer.peer, peer.data, x).reshape(3, -1) @ to_peer,
        "centroidal_momentum": np.concatenate([momentum.angular, momentum.linear]),
    }


def found(robot: sim.torch.Robot, frames: list[str], q: torch.Tensor, qd: torch.Tensor, qdd: torch.Tensor) -> dict:
    return {
        "forward_kinematics_matrix": robot.forward_kinematics_matrix(q, frames),
        "jacobian": robot.jacobian(q, frames),
        # The derivative alone can be zero.
        "a second later": robot.jacobian(q, frames) + robot.jacobian_derivative(q, qd, frames),
        "frame_velocity": robot.frame_velocity(q, qd, frames),
        "frame_acceleration": robot.frame_acceleration(q, qd, qdd, frames),
        "inverse_dynamics": robot.inverse_dynamics(q, qd, qdd),
        "mass_matrix": robot.mass_matrix(q),
        "gravity_forces": robot.gravity_forces(q),
        "bias_forces": robot.bias_forces(q, qd),
        "coriolis and gravity": robot.coriolis_forces(q, qd) + robot.gravity_forces(q),
        "kinetic_energy": robot.kinetic_energy(q, qd),
        "potential_energy": robot.potential_energy(q),
        "centre_of_mass": robot.centre_of_mass(q),
        "centre_of_mass_jacobian": robot.centre_of_mass_jacobian(q),
        "centroidal_momentum": robot.centroidal_momentum(q, qd),
    }


# The cart-pole's root link has no mass and can't float.
CASES = [(name, floating) for name in NAMES for floating in (False, True) if (name, floating) != ("cartpole", True)]
CASES += [(name, False) for name in DRM_NAMES]


@pytest.mark.parametrize(("name", "floating"), CASES)
def test_values(name, floating, device):
    original, peer = load(name, floating)
    # Links of the file, also those merged into others in the peer's model.
    frames = [frame.name for frame in peer.model.frames][:: max(1, len(peer.model.frames) // 5)]
    for dtype, bound in DTYPES.items():
        robot = copy.deepcopy(original).to(device, dtype)
        for shape in SHAPES:
            state = random_state(peer.model, 3, int(np.prod(shape)))[:3]
            state = [x.astype(np.float32).astype(np.float64) for x in state]
            tensors = [torch.tensor(x, dtype=dtype, device=device).reshape(*shape, -1) for x in state]
            theirs = [expected(peer, frames, *each) for each in zip(*state, strict=True)]
            ours = found(robot, frames, *tensors)
            for key, value in ours.items():
                truth = np.array([each[key] for each in theirs]).reshape(value.shape)
                assert relative_error(value.double().cpu().numpy(), truth) < bound, (key, shape, dtype)
            position, quaternion = robot.forward_kinematics(tensors[0], frames)
            pose = matrices(torch.cat([position, quaternion], dim=-1).double().cpu().numpy())
            assert relative_error(pose, ours["forward_kinematics_matrix"].double().cpu().numpy()) < bound
            force = ours["inverse_dynamics"].double().cpu().numpy().reshape(-1, robot.nv)
            truth = [peer.forward_dynamics(q, v, f) for q, v, f in zip(*state[:2], force, strict=True)]
            acceleration = robot.forward_dynamics(*tensors[:2], ours["inverse_dynamics"]).double().cpu().numpy()
            assert relative_error(acceleration, np.array(truth).reshape(acceleration.shape)) < ACCELERATIONS[dtype]
            inverse = robot.mass_matrix_inverse(tensors[0]).double().cpu().numpy()
            truth = np.linalg.inv(np.array([each["mass_matrix"] for each in theirs]))
            assert relative_error(inverse, truth.reshape(inverse.shape)) < ACCELERATIONS[dtype]


@pytest.mark.parametrize("name", [name for name in [*NAMES, *DRM_NAMES] if name != "cartpole"])
def test_vector_jacobian_products(name, device):
    """Against Pinocchio's analytical derivatives of both dynamics, and its Jacobians for positions."""
    robot, peer = load(name, False)
    robot = robot.to(device)
    q, qd, qdd = (x[0] for x in random_state(peer.model, 5, 1)[:3])
    order = [peer.peer.idx_vs[peer.joint[joint]] for joint in robot.joint_names]
    x, v, to_peer = peer.state(q, qd)
    a = to_peer @ qdd
    passive = np.diag(peer.model.parameters["damping"])
    inverse = pin.computeRNEADerivatives(peer.peer, peer.data, x, v, a)
    inverse = [matrix.copy()[np.ix_(order, order)] for matrix in inverse[:2]]
    mass = peer.mass_matrix(q)
    tau = peer.inverse_dynamics(q, qd, qdd)
    weight = np.random.default_rng(0).normal(size=robot.nv)

    def vjp(function, *arrays):
        tensors = [torch.tensor(each, device=device, requires_grad=True) for each in arrays]
        result = function(*tensors)
        return [g.cpu().numpy() for g in torch.autograd.grad(result, tensors, torch.tensor(weight, device=device))]

    ours = vjp(robot.inverse_dynamics, q, qd, qdd)
    theirs = [inverse[0].T @ weight, (inverse[1] + passive).T @ weight, mass.T @ weight]
    for one, other in zip(ours, theirs, strict=True):
        assert relative_error(one, other) < 1e-11
    ours = vjp(robot.forward_dynamics, q, qd, tau)
    w = np.linalg.solve(mass, weight)
    for one, other in zip(ours, [-inverse[0].T @ w, -(inverse[1] + passive).T @ w, w], strict=True):
        assert relative_error(one, other) < 1e-10
    link = robot.link_names[-1]
    position = torch.tensor(q, device=device, requires_grad=True)
    direction = np.array([0.3, -1.1, 0.7])
    (gradient,) = torch.autograd.grad(
        robot.forward_kinematics(position, link)[0], position, torch.tensor(direction, device=device)
    )
    jacobian = peer.jacobian(q, link, "local_world_aligned")
    assert relative_error(gradient.cpu().numpy(), jacobian[3:].T @ direction) < 1e-11
