"""Pinocchio as the peer of a model: its results in this package's conventions, one world at a time."""

from collections.abc import Sequence

import numpy as np
import pinocchio as pin
from scipy.spatial.transform import Rotation

import sim
from tests.dynamics.states import random_state, relative_error
from warp_kernels import types as codes

REFERENCES = {
    "local_world_aligned": pin.LOCAL_WORLD_ALIGNED,
    "world": pin.WORLD,
    "local": pin.LOCAL,
}


class Peer:
    """A Pinocchio model beside ours. Both describe the same world; joints are matched by name."""

    def __init__(self, model: sim.Model, peer: pin.Model):
        self.model = model
        self.peer = peer
        self.data = peer.createData()
        moving = [name for name, kind in zip(model.joint_names, model.joint_type, strict=True) if kind != codes.FIXED]
        roots = [name for name in moving if not peer.existJointName(name)]
        assert len(roots) <= 1, f"Pinocchio lacks the joints {roots}"
        # Where Pinocchio adds a free joint to a file's robot it gives it a name of its own, at the front.
        self.order = [name if name in moving else roots[0] for name in list(peer.names)[1:]]
        self.joint = {name: number + 1 for number, name in enumerate(self.order)}
        self.unbounded = [
            name for name, number in self.joint.items() if peer.joints[number].nq == 2 and peer.joints[number].nv == 1
        ]
        for name, number in self.joint.items():
            ours, theirs = model.qd_slice(name), peer.idx_vs[number]
            armature = model.parameters["armature"][ours]
            # A free body has no rotor; Pinocchio would add one along the body's axes.
            assert model.joint_type[model.joint(name)] != codes.FREE or not armature.any()
            peer.armature[theirs : theirs + len(armature)] = armature

    def state(self, q: np.ndarray, qd: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pinocchio's q and v, and the matrix [nv, nv] that takes our velocities to its."""
        model = self.model
        units = np.vstack([np.eye(model.nv), qd])
        x, v = sim.to_pinocchio(model, np.tile(q, (model.nv + 1, 1)), units, self.order, self.unbounded)
        return x[0], v[-1], v[:-1].T

    def acceleration(self, q: np.ndarray, qd: np.ndarray, qdd: np.ndarray) -> np.ndarray:
        """Pinocchio's acceleration: the time derivative of its v, which turns with the free bodies."""
        _, v, to_peer = self.state(q, qd)
        a = to_peer @ qdd
        for link in np.flatnonzero(self.model.joint_type == codes.FREE):
            start = self.peer.idx_vs[self.joint[self.model.joint_names[link]]]
            a[start : start + 3] -= np.cross(v[start + 3 : start + 6], v[start : start + 3])
        return a

    def inverse_dynamics(
        self, q: np.ndarray, qd: np.ndarray, qdd: np.ndarray, wrench: np.ndarray | None = None
    ) -> np.ndarray:
        x, v, to_peer = self.state(q, qd)
        a = self.acceleration(q, qd, qdd)
        if wrench is None:
            tau = pin.rnea(self.peer, self.data, x, v, a)
        else:
            tau = pin.rnea(self.peer, self.data, x, v, a, self.forces(x, wrench))
        return to_peer.T @ tau + self.passive_force(q, qd)

    def forward_dynamics(
        self, q: np.ndarray, qd: np.ndarray, tau: np.ndarray, wrench: np.ndarray | None = None
    ) -> np.ndarray:
        x, v, to_peer = self.state(q, qd)
        back = np.linalg.inv(to_peer)
        # Dry friction first: of an Allegro hand's torques it is all but a millionth, and their difference is exact.
        force = back.T @ (tau - self.dry_friction(qd) - self.spring_and_damper(q, qd))
        if wrench is None:
            a = pin.aba(self.peer, self.data, x, v, force)
        else:
            a = pin.aba(self.peer, self.data, x, v, force, self.forces(x, wrench))
        return back @ (a - self.acceleration(q, qd, np.zeros(self.model.nv)))

    def mass_matrix(self, q: np.ndarray) -> np.ndarray:
        x, _, to_peer = self.state(q, np.zeros(self.model.nv))
        upper = np.triu(pin.crba(self.peer, self.data, x))
        return to_peer.T @ (upper + np.triu(upper, 1).T) @ to_peer

    def passive_force(self, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        """Damping, springs and dry friction, which Pinocchio leaves out."""
        return self.dry_friction(qd) + self.spring_and_damper(q, qd)

    def dry_friction(self, qd: np.ndarray) -> np.ndarray:
        return self.model.parameters["friction_loss"] * np.sign(qd)

    def spring_and_damper(self, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        p = self.model.parameters
        position = np.where(self.model.dof_q >= 0, np.append(q, 0.0)[self.model.dof_q], p["rest_position"])
        return p["damping"] * qd + p["stiffness"] * (position - p["rest_position"])

    def forces(self, x: np.ndarray, wrench: np.ndarray) -> list[pin.Force]:
        """Pinocchio's external forces: in each joint's frame, from ours along world axes about each link's frame."""
        pin.framesForwardKinematics(self.peer, self.data, x)
        result = [pin.Force.Zero() for _ in range(self.peer.njoints)]
        for link, name in enumerate(self.model.link_names):
            frame = self.peer.frames[self.frame(name)]
            turn = self.data.oMf[self.frame(name)].rotation.T
            local = pin.Force(turn @ wrench[link, 3:], turn @ wrench[link, :3])
            result[frame.parentJoint] += frame.placement.act(local)
        return result

    def frames(self, q: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """Homogeneous matrices [n, 4, 4] of frames."""
        x, _, _ = self.state(q, np.zeros(self.model.nv))
        pin.framesForwardKinematics(self.peer, self.data, x)
        return np.array([self.data.oMf[self.frame(name)].homogeneous for name in names])

    def velocities(self, q: np.ndarray, qd: np.ndarray, names: Sequence[str], reference: str) -> np.ndarray:
        x, v, _ = self.state(q, qd)
        pin.forwardKinematics(self.peer, self.data, x, v)
        pin.updateFramePlacements(self.peer, self.data)
        found = [pin.getFrameVelocity(self.peer, self.data, self.frame(name), REFERENCES[reference]) for name in names]
        return np.array([np.concatenate([velocity.angular, velocity.linear]) for velocity in found])

    def jacobian(self, q: np.ndarray, name: str, reference: str) -> np.ndarray:
        x, _, to_peer = self.state(q, np.zeros(self.model.nv))
        linear_first = pin.computeFrameJacobian(self.peer, self.data, x, self.frame(name), REFERENCES[reference])
        linear_first = linear_first.reshape(6, -1)
        return np.vstack([linear_first[3:], linear_first[:3]]) @ to_peer

    def frame(self, name: str) -> int:
        # A file's link "world" is another thing than our world and is named after its robot.
        found = self.peer.getFrameId(name.removeprefix(f"{self.peer.name}/"), pin.BODY)
        assert found < self.peer.nframes, name
        return found


def matrices(poses: np.ndarray) -> np.ndarray:
    """Homogeneous matrices [..., 4, 4] of positions and quaternions xyzw [..., 7]."""
    result = np.zeros((*poses.shape[:-1], 4, 4))
    result[..., :3, :3] = Rotation.from_quat(poses[..., 3:].reshape(-1, 4)).as_matrix().reshape(*poses.shape[:-1], 3, 3)
    result[..., :3, 3] = poses[..., :3]
    result[..., 3, 3] = 1.0
    return result


def link_scale(model: sim.Model) -> np.ndarray:
    """Moments [N m] and forces [N] that give each link an acceleration of about one, [num_links, 6]; powers of two."""
    moment = np.trace(model.parameters["inertia"], axis1=-2, axis2=-1)
    scale = np.repeat(np.stack([moment, model.parameters["mass"]], axis=-1), 3, axis=-1)
    return np.exp2(np.round(np.log2(np.maximum(scale, 1e-12))))


def check_against(peer: Peer, seed: int, bound: float, acceleration_bound: float, device: str = "cpu") -> None:
    """Compare every function with Pinocchio at random states.

    Args:
        peer: the models.
        seed: of the states.
        bound: for the relative error of everything but accelerations, and of the joint forces that those accelerations
            need.
        acceleration_bound: for the relative error of accelerations, which the condition of the mass matrix amplifies.
        device: Warp device.
    """
    worlds = 3
    model = peer.model
    q, qd, qdd, wrench = random_state(model, seed, worlds)
    names = model.link_names
    m = sim.DeviceModel(model, device)
    errors = {
        "forward_kinematics": relative_error(
            matrices(sim.forward_kinematics(m, q).numpy()), np.array([peer.frames(x, names) for x in q])
        ),
        "mass_matrix": relative_error(sim.mass_matrix(m, q).numpy(), np.array([peer.mass_matrix(x) for x in q])),
    }
    for label, external in (("", None), (" with wrench", wrench)):
        given = [external[w] if external is not None else None for w in range(worlds)]
        tau = np.array([peer.inverse_dynamics(q[w], qd[w], qdd[w], given[w]) for w in range(worlds)])
        errors["inverse_dynamics" + label] = relative_error(sim.inverse_dynamics(m, q, qd, qdd, external).numpy(), tau)
        # Forces in proportion to the masses that they move, so that no light link runs away with the scale.
        if external is not None:
            external = external * link_scale(model)
            given = list(external)
        force = np.array([peer.inverse_dynamics(q[w], qd[w], -qdd[w], given[w]) for w in range(worlds)])
        force = force.astype(model.dtype).astype(np.float64)
        found = sim.forward_dynamics(m, q, qd, force, external).numpy()
        expected = np.array([peer.forward_dynamics(q[w], qd[w], force[w], given[w]) for w in range(worlds)])
        assert relative_error(found, expected) < acceleration_bound
        explained = np.array(
            [peer.inverse_dynamics(q[w], qd[w], found[w].astype(float), given[w]) for w in range(worlds)]
        )
        errors["forward_dynamics" + label] = relative_error(explained, force)
    for reference in REFERENCES:
        errors["link_velocities " + reference] = relative_error(
            sim.link_velocities(m, q, qd, reference=reference).numpy(),
            np.array([peer.velocities(x, v, names, reference) for x, v in zip(q, qd, strict=True)]),
        )
        for name in {names[0], names[len(names) // 2], names[-1]}:
            errors[f"jacobian {name} {reference}"] = relative_error(
                sim.jacobian(m, q, name, reference).numpy(), np.array([peer.jacobian(x, name, reference) for x in q])
            )
    wrong = {name: error for name, error in errors.items() if not error < bound}
    assert not wrong, wrong
