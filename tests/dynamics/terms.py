"""The quantities that follow from kinematics and dynamics, each beside Pinocchio's, in this package's conventions."""

from collections.abc import Callable, Sequence

import numpy as np
import pinocchio as pin

import sim
from tests.dynamics.peer import REFERENCES, Peer
from tests.dynamics.states import random_state, relative_error
from warp_kernels import types as codes

Pairs = dict[str, tuple[np.ndarray, np.ndarray]]


def check_terms(peer: Peer, seed: int, bound: float, device: str = "cpu") -> None:
    """Compare every quantity with Pinocchio at random states.

    Args:
        peer: the models.
        seed: of the states.
        bound: for the relative error.
        device: Warp device.
    """
    m = sim.DeviceModel(peer.model, device)
    q, qd, qdd, wrench = random_state(peer.model, seed, 3)
    pairs = {**position_terms(peer, m, q), **velocity_terms(peer, m, q, qd), **frame_terms(peer, m, q, qd, qdd, wrench)}
    errors = {name: relative_error(found, expected) for name, (found, expected) in pairs.items()}
    wrong = {name: error for name, error in errors.items() if not error < bound}
    assert not wrong, wrong


def worlds(function: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    return np.array([function(*each) for each in zip(*arrays, strict=True)])


def position_terms(peer: Peer, m: sim.DeviceModel, q: np.ndarray) -> Pairs:
    def at(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, _, to_peer = peer.state(q, np.zeros(peer.model.nv))
        return x, to_peer

    def inverse(q: np.ndarray) -> np.ndarray:
        x, to_peer = at(q)
        upper = np.triu(pin.computeMinverse(peer.peer, peer.data, x))
        back = np.linalg.inv(to_peer)
        return back @ (upper + np.triu(upper, 1).T) @ back.T

    def gravity(q: np.ndarray) -> np.ndarray:
        x, to_peer = at(q)
        return to_peer.T @ pin.computeGeneralizedGravity(peer.peer, peer.data, x)

    def centre(q: np.ndarray) -> np.ndarray:
        return pin.centerOfMass(peer.peer, peer.data, at(q)[0]).copy()

    def centre_jacobian(q: np.ndarray) -> np.ndarray:
        x, to_peer = at(q)
        return pin.jacobianCenterOfMass(peer.peer, peer.data, x).reshape(3, -1) @ to_peer

    def momentum_matrix(q: np.ndarray) -> np.ndarray:
        x, to_peer = at(q)
        linear_first = pin.computeCentroidalMap(peer.peer, peer.data, x).reshape(6, -1)
        return np.vstack([linear_first[3:], linear_first[:3]]) @ to_peer

    def potential(q: np.ndarray) -> float:
        p = peer.model.parameters
        position = np.where(peer.model.dof_q >= 0, np.append(q, 0.0)[peer.model.dof_q], p["rest_position"])
        springs = 0.5 * (p["stiffness"] * (position - p["rest_position"]) ** 2).sum()
        return pin.computePotentialEnergy(peer.peer, peer.data, at(q)[0]) + springs

    return {
        "mass_matrix_inverse": (sim.mass_matrix_inverse(m, q).numpy(), worlds(inverse, q)),
        "gravity_forces": (sim.gravity_forces(m, q).numpy(), worlds(gravity, q)),
        "centre_of_mass": (sim.centre_of_mass(m, q).numpy(), worlds(centre, q)),
        "centre_of_mass_jacobian": (sim.centre_of_mass_jacobian(m, q).numpy(), worlds(centre_jacobian, q)),
        "centroidal_momentum_matrix": (sim.centroidal_momentum_matrix(m, q).numpy(), worlds(momentum_matrix, q)),
        "potential_energy": (sim.potential_energy(m, q).numpy(), worlds(potential, q)),
    }


def velocity_terms(peer: Peer, m: sim.DeviceModel, q: np.ndarray, qd: np.ndarray) -> Pairs:
    def bias(q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        return peer.inverse_dynamics(q, qd, np.zeros(peer.model.nv)) - peer.passive_force(q, qd)

    def momentum(q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        x, v, _ = peer.state(q, qd)
        found = pin.computeCentroidalMomentum(peer.peer, peer.data, x, v)
        return np.concatenate([found.angular, found.linear])

    def kinetic(q: np.ndarray, qd: np.ndarray) -> float:
        # Pinocchio's computeKineticEnergy counts the rotors of some joint types and not of others.
        return 0.5 * qd @ peer.mass_matrix(q) @ qd

    coriolis_and_gravity = sim.coriolis_forces(m, q, qd).numpy() + sim.gravity_forces(m, q).numpy()
    return {
        "bias_forces": (sim.bias_forces(m, q, qd).numpy(), worlds(bias, q, qd)),
        "coriolis_forces": (coriolis_and_gravity, worlds(bias, q, qd)),
        "centroidal_momentum": (sim.centroidal_momentum(m, q, qd).numpy(), worlds(momentum, q, qd)),
        "kinetic_energy": (sim.kinetic_energy(m, q, qd).numpy(), worlds(kinetic, q, qd)),
    }


def frame_terms(
    peer: Peer, m: sim.DeviceModel, q: np.ndarray, qd: np.ndarray, qdd: np.ndarray, wrench: np.ndarray
) -> Pairs:
    names = peer.model.link_names
    some = sorted({names[0], names[len(names) // 2], names[-1]})
    wrench = wrench[:, : len(some)]
    pairs: Pairs = {}
    for reference in REFERENCES:

        def at(name: str, reference: str = reference) -> str:
            return f"{name} {reference}"

        def moved(*state: np.ndarray, reference: str = reference) -> np.ndarray:
            return accelerations(peer, *state, names, reference)

        def jacobians(q: np.ndarray, reference: str = reference) -> np.ndarray:
            return np.array([peer.jacobian(q, name, reference) for name in some])

        def rates(*state: np.ndarray, reference: str = reference) -> np.ndarray:
            return jacobian_derivatives(peer, *state, some, reference)

        found, rate = sim.jacobian(m, q, some, reference).numpy(), sim.jacobian_derivative(m, q, qd, some, reference)
        alone = sim.jacobian_derivative(m, q, qd, some[-1], reference)
        # A second later, so that a derivative of zero has something to be measured by.
        expected = worlds(jacobians, q)
        later = expected + worlds(rates, q, qd)
        pairs[at("jacobian of several")] = found, expected
        pairs[at("jacobian_derivative")] = found + rate.numpy(), later
        pairs[at("jacobian_derivative of one")] = found[:, -1] + alone.numpy(), later[:, -1]
        pairs[at("link_accelerations")] = (
            sim.link_accelerations(m, q, qd, qdd, reference=reference).numpy(),
            worlds(moved, q, qd, qdd),
        )
        # The power of a wrench is the same, wherever it is taken.
        on_links = sim.link_wrenches(m, q, wrench, some, reference).numpy()
        aligned = sim.jacobian(m, q, names).numpy()
        pairs[at("link_wrenches")] = (
            np.einsum("wfij,wfi->wj", aligned, on_links),
            np.einsum("wfij,wfi->wj", expected, wrench),
        )
    return pairs


def accelerations(
    peer: Peer, q: np.ndarray, qd: np.ndarray, qdd: np.ndarray, names: Sequence[str], reference: str
) -> np.ndarray:
    x, v, _ = peer.state(q, qd)
    pin.forwardKinematics(peer.peer, peer.data, x, v, peer.acceleration(q, qd, qdd))
    pin.updateFramePlacements(peer.peer, peer.data)
    function = pin.getFrameAcceleration if reference == "world" else pin.getFrameClassicalAcceleration
    found = [function(peer.peer, peer.data, peer.frame(name), REFERENCES[reference]) for name in names]
    return np.array([np.concatenate([each.angular, each.linear]) for each in found])


def jacobian_derivatives(peer: Peer, q: np.ndarray, qd: np.ndarray, names: Sequence[str], reference: str) -> np.ndarray:
    x, v, to_peer = peer.state(q, qd)
    pin.computeJointJacobiansTimeVariation(peer.peer, peer.data, x, v)
    pin.updateFramePlacements(peer.peer, peer.data)
    # Pinocchio's velocity of a free body is along the body's axes, which turn.
    turning = np.zeros_like(to_peer)
    for link in np.flatnonzero(peer.model.joint_type == codes.FREE):
        start = peer.peer.idx_vs[peer.joint[peer.model.joint_names[link]]]
        for rows in (slice(start, start + 3), slice(start + 3, start + 6)):
            turning[rows] = -np.cross(v[start + 3 : start + 6], to_peer[rows], axisb=0, axisc=0)
    result = []
    for name in names:
        rate = pin.getFrameJacobianTimeVariation(peer.peer, peer.data, peer.frame(name), REFERENCES[reference])
        rate = rate.reshape(6, -1)
        ours = np.vstack([rate[3:], rate[:3]]) @ to_peer
        there = pin.getFrameJacobian(peer.peer, peer.data, peer.frame(name), REFERENCES[reference]).reshape(6, -1)
        result.append(ours + np.vstack([there[3:], there[:3]]) @ turning)
    return np.array(result)
