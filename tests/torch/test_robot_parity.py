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
from tests.importers.reference import ROBOTS, installed  # noqa: E402

NAMES = ["cartpole", "ur5", "iiwa", "panda", "xarm7", "go2", "anymal_b", "solo12", "allegro", "talos"]
# The robots that come with differentiable-robot-model.
DRM_NAMES = [name for name in ROBOTS if name.startswith("drm_")]
SHAPES = [(), (1,), (3,), (6,), (7,)]
DTYPES = {torch.float32: 1e-5, torch.float64: 1e-11}


def load(name: str, floating: bool) -> tuple[sim.torch.Robot, Peer]:
    path = installed(ROBOTS[name])
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
            truth = np.array(truth).reshape(acceleration.shape)
            # Rounding gives a float32 robot other parameters, which the condition of its mass matrix amplifies: to 7e-5
            # for an xArm on a floating base, in exact arithmetic. NumPy in float32, from a mass matrix and forces right
            # to the last digit, is 5e-4 off there, and 4e-2 for the Allegro hand where we are 2e-5 off.
            doubles = [x.double() for x in (*tensors[:2], ours["inverse_dynamics"])]
            of_rounded = copy.deepcopy(robot).double().forward_dynamics(*doubles).cpu().numpy()
            rounding = relative_error(of_rounded, truth) if dtype == torch.float32 else 0.0
            assert relative_error(acceleration, truth) < bound + rounding
            inverse = robot.mass_matrix_inverse(tensors[0]).double().cpu().numpy()
            truth = np.linalg.inv(np.array([each["mass_matrix"] for each in theirs]))
            assert relative_error(inverse, truth.reshape(inverse.shape)) < bound


@pytest.mark.parametrize("name", [name for name in [*NAMES, *DRM_NAMES] if name != "cartpole"])
def test_vector_jacobian_products(name, device):
    """Against Pinocchio's analytical derivatives of both dynamics, and its Jacobians for positions."""
    original, peer = load(name, False)
    q, qd, qdd = (x[0].astype(np.float32).astype(np.float64) for x in random_state(peer.model, 5, 1)[:3])
    order = [peer.peer.idx_vs[peer.joint[joint]] for joint in original.joint_names]
    x, v, to_peer = peer.state(q, qd)
    passive = np.diag(peer.model.parameters["damping"])
    mass = peer.mass_matrix(q)
    tau = peer.inverse_dynamics(q, qd, qdd).astype(np.float32).astype(np.float64)
    weight = np.random.default_rng(0).normal(size=original.nv).astype(np.float32).astype(np.float64)
    direction = np.array([0.25, -1.125, 0.75])
    link = original.link_names[-1]
    w = np.linalg.solve(mass, weight)

    def derivatives(acceleration):
        inverse = pin.computeRNEADerivatives(peer.peer, peer.data, x, v, to_peer @ acceleration)
        return [matrix.copy()[np.ix_(order, order)] for matrix in inverse[:2]]

    of_q, of_qd = derivatives(qdd)
    inverse = [of_q.T @ weight, (of_qd + passive).T @ weight, mass.T @ weight]
    of_q, of_qd = derivatives(peer.forward_dynamics(q, qd, tau))
    forward = [-of_q.T @ w, -(of_qd + passive).T @ w, w]
    position = [peer.jacobian(q, link, "local_world_aligned")[3:].T @ direction]

    def vjp(robot, function, cotangent, *arrays):
        tensors = [torch.tensor(each, dtype=robot.mass.dtype, device=device, requires_grad=True) for each in arrays]
        result = function(*tensors)
        given = torch.tensor(cotangent).to(result)
        return [g.double().cpu().numpy() for g in torch.autograd.grad(result, tensors, given)]

    for dtype, bound in DTYPES.items():
        robot = copy.deepcopy(original).to(device, dtype)
        for function, cotangent, arrays, theirs in (
            (robot.inverse_dynamics, weight, (q, qd, qdd), inverse),
            (robot.forward_dynamics, weight, (q, qd, tau), forward),
            (lambda q, robot=robot: robot.forward_kinematics(q, link)[0], direction, (q,), position),
        ):
            for one, other in zip(vjp(robot, function, cotangent, *arrays), theirs, strict=True):
                assert relative_error(one, other) < bound, dtype


@pytest.mark.parametrize("name", ["panda", "iiwa", "xarm7", "baxter", "talos", "allegro"])
def test_without_passive_forces(name, subtests, device):
    """Values and vector-Jacobian products of rnea and aba, for files with damping and friction; with an armature."""
    original, peer = load(name, False)
    assert original.damping.any()
    rng = np.random.default_rng(1)
    armature = rng.uniform(0.125, 0.5, original.nv).astype(np.float32).astype(np.float64)
    original.armature.copy_(torch.tensor(armature))
    q, qd, qdd = (x[0].astype(np.float32).astype(np.float64) for x in random_state(peer.model, 6, 1)[:3])
    weight = rng.normal(size=original.nv).astype(np.float32).astype(np.float64)
    x, v, to_peer = peer.state(q, qd)
    peer.peer.armature = to_peer @ armature
    given = (peer.peer, peer.data, x, v)
    force = pin.rnea(*given, to_peer @ qdd).copy()
    tau = (to_peer.T @ force).astype(np.float32).astype(np.float64)
    values = {
        "inverse_dynamics": to_peer.T @ force,
        "forward_dynamics": to_peer.T @ pin.aba(*given, to_peer @ tau),
    }
    products = {
        method: [to_peer.T @ matrix.T @ to_peer @ weight for matrix in full(derivatives)]
        for method, derivatives in (
            ("inverse_dynamics", copied(pin.computeRNEADerivatives(*given, to_peer @ qdd))),
            ("forward_dynamics", copied(pin.computeABADerivatives(*given, to_peer @ tau))),
        )
    }
    for dtype, bound in DTYPES.items():
        robot = copy.deepcopy(original).to(device, dtype)
        for method, third in (("inverse_dynamics", qdd), ("forward_dynamics", tau)):
            leaves = [torch.tensor(each, dtype=dtype, device=device, requires_grad=True) for each in (q, qd, third)]
            result = getattr(robot, method)(*leaves, passive=False)
            slopes = torch.autograd.grad(result, leaves, torch.tensor(weight).to(result))
            with subtests.test(method=method, dtype=dtype):
                assert relative_error(result.detach().double().cpu().numpy(), values[method]) < bound
                for one, other in zip(slopes, products[method], strict=True):
                    assert relative_error(one.double().cpu().numpy(), other) < bound


def copied(matrices: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """Matrices that Pinocchio's next call doesn't overwrite."""
    return [matrix.copy() for matrix in matrices]


def full(derivatives: list[np.ndarray]) -> list[np.ndarray]:
    """Derivatives in q, v and the third argument; of that, symmetric, Pinocchio fills the upper half."""
    of_q, of_v, last = derivatives
    return [of_q, of_v, np.triu(last) + np.triu(last, 1).T]
