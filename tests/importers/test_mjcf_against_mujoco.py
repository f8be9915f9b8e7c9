"""MJCF files here and in MuJoCo: the same tree, dynamics, frames, contacts and steps."""

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import sim
from sim.model.poses import compose
from sim.simulation.stepping.collision import candidate_pairs
from sim.simulation.stepping.pair_friction import pair_friction
from tests.importers.mjcf_zoo import compiled, frame_pose, load_quietly, random_state, write_zoo
from tests.importers.reference import BULLET, GYMNASIUM
from tests.mujoco_states import data_at
from tests.simulation.gyroscopic import added_wrenches, move_bases
from warp_kernels import types as codes

FILES = {
    **{f"gymnasium_{name}": GYMNASIUM / f"{name}.xml" for name in (
        "ant", "humanoid", "hopper", "half_cheetah", "walker2d_v5", "swimmer", "pusher_v5", "reacher",
        "inverted_double_pendulum",
    )},
    **{f"bullet_{name}": BULLET / "mjcf" / f"{name}.xml" for name in (
        "ant", "humanoid", "humanoid_symmetric_no_ground", "thrower", "striker", "capsule_fromtoX",
    )},
}  # fmt: skip
CASES = ["zoo", *FILES]
GEOMETRY_TYPES = {
    "mjGEOM_PLANE": codes.PLANE, "mjGEOM_SPHERE": codes.SPHERE, "mjGEOM_CAPSULE": codes.CAPSULE,
    "mjGEOM_CYLINDER": codes.CYLINDER, "mjGEOM_BOX": codes.BOX, "mjGEOM_ELLIPSOID": codes.ELLIPSOID,
    "mjGEOM_HFIELD": codes.HEIGHTFIELD, "mjGEOM_MESH": codes.CONVEX,
}  # fmt: skip


@pytest.fixture(scope="module")
def zoo(tmp_path_factory) -> Path:
    return write_zoo(tmp_path_factory.mktemp("zoo"))


@pytest.fixture(params=CASES)
def path(request, zoo) -> Path:
    found = zoo if request.param == "zoo" else FILES[request.param]
    if not found.is_file():
        pytest.skip(f"{found} is not installed")
    return found


def still_medium(peer: mujoco.MjModel) -> None:
    """Without the forces of a medium, which only simulators have."""
    peer.opt.density = peer.opt.viscosity = 0.0


def axes(model: sim.Model, q: np.ndarray) -> np.ndarray:
    """The matrix that takes our velocities to MuJoCo's."""
    units = np.eye(model.nv)
    return sim.to_mujoco(model, np.tile(q, (model.nv, 1)), units)[1].T


def test_same_coordinates_and_joints(path):
    model, peer = load_quietly(path), compiled(path)
    moving = [name for name, kind in zip(model.joint_names, model.joint_type, strict=True) if kind != codes.FIXED]
    named = [peer.joint(number).name for number in range(peer.njnt)]
    assert [name if name in named else "" for name in moving] == named
    qpos, _ = sim.to_mujoco(model, model.q0, np.zeros(model.nv))
    assert_allclose(qpos, peer.qpos0, atol=1e-12)
    parameters = model.parameters
    assert_allclose(parameters["armature"], peer.dof_armature, rtol=1e-12)
    assert_allclose(parameters["damping"], peer.dof_damping, rtol=1e-12)
    assert_allclose(parameters["friction_loss"], peer.dof_frictionloss, rtol=1e-12)
    for joint in range(peer.njnt):
        dof, at = peer.jnt_dofadr[joint], peer.jnt_qposadr[joint]
        if peer.jnt_type[joint] in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE):
            limits = peer.jnt_range[joint] if peer.jnt_limited[joint] else (-np.inf, np.inf)
            assert (parameters["lower_limit"][dof], parameters["upper_limit"][dof]) == tuple(limits)
            assert parameters["stiffness"][dof] == peer.jnt_stiffness[joint]
            assert parameters["rest_position"][dof] == peer.qpos_spring[at]
    assert_allclose(parameters["gravity"], peer.opt.gravity, atol=0)
    assert model.parts[0].timestep == peer.opt.timestep


def test_same_mass_matrix_and_bias(path):
    model, peer = load_quietly(path), compiled(path)
    still_medium(peer)
    data = mujoco.MjData(peer)
    states = [random_state(model, seed) for seed in range(3)]
    q, qd = (np.array(part) for part in zip(*states, strict=True))
    masses, biases = sim.mass_matrix(model, q).numpy(), sim.bias_forces(model, q, qd).numpy()
    for world in range(len(q)):
        data.qpos, data.qvel = sim.to_mujoco(model, q[world], qd[world])
        mujoco.mj_forward(peer, data)
        full = np.zeros((peer.nv, peer.nv))
        mujoco.mj_fullM(peer, data, full)
        to_peer = axes(model, q[world])
        expected = to_peer.T @ full @ to_peer
        assert_allclose(masses[world], expected, rtol=0, atol=1e-12 * np.abs(expected).max())
        # A velocity product may cancel: the scale is that of what it is made of.
        expected = to_peer.T @ data.qfrc_bias
        scale = np.abs(expected).max() + np.abs(full).max() * np.abs(qd[world]).max() ** 2
        assert_allclose(biases[world], expected, rtol=0, atol=1e-12 * scale)


def test_same_frames_and_geoms(path):
    """Bodies, sites and geoms are where MuJoCo has them, and have its sizes."""
    model, peer = load_quietly(path), compiled(path)
    data = mujoco.MjData(peer)
    q, _ = random_state(model, 5)
    data.qpos, _ = sim.to_mujoco(model, q, np.zeros(model.nv))
    mujoco.mj_forward(peer, data)
    poses = sim.forward_kinematics(model, q[None]).numpy()[0]
    frames = {frame.name: frame for frame in model.frames}

    def check(pose, position, matrix):
        assert_allclose(pose[:3], position, atol=1e-12)
        wxyz = np.zeros(4)
        mujoco.mju_mat2Quat(wxyz, np.asarray(matrix).reshape(9))
        assert_allclose(abs(pose[3:] @ wxyz[[1, 2, 3, 0]]), 1.0, atol=1e-12)

    for kind, positions, matrices in (("body", data.xpos, data.xmat), ("site", data.site_xpos, data.site_xmat)):
        for number in range(0 if kind == "site" else 1, len(positions)):
            name = getattr(peer, kind)(number).name
            if name:
                frame = frames.get(f"{name}/origin", frames[name]) if kind == "body" else frames[name]
                check(frame_pose(model, poses, frame.link, frame.placement), positions[number], matrices[number])
    ours = [geometry for geometry in model.geometries if not geometry.name.endswith("/visual")]
    assert len(ours) == peer.ngeom
    for number, geometry in enumerate(ours):
        kind = mujoco.mjtGeom(int(peer.geom_type[number])).name
        assert geometry.type == GEOMETRY_TYPES[kind]
        check(frame_pose(model, poses, geometry.link, geometry.placement), data.geom_xpos[number],
              data.geom_xmat[number])  # fmt: skip
        if kind not in ("mjGEOM_PLANE", "mjGEOM_HFIELD", "mjGEOM_MESH"):
            meant = {"mjGEOM_SPHERE": 1, "mjGEOM_CAPSULE": 2, "mjGEOM_CYLINDER": 2}.get(kind, 3)
            assert tuple(geometry.size[:meant]) == tuple(peer.geom_size[number][:meant])


@pytest.mark.parametrize("name", ["zoo", "gymnasium_half_cheetah", "gymnasium_humanoid", "gymnasium_ant",
                                  "bullet_thrower", "gymnasium_walker2d_v5"])  # fmt: skip
def test_same_pairs_touch_with_the_same_friction(name, zoo):
    """With a large margin MuJoCo finds a contact for every pair that it looks at."""
    path = zoo if name == "zoo" else FILES[name]
    if not path.is_file():
        pytest.skip(f"{path} is not installed")
    model = load_quietly(path)
    peer = compiled(path, margin=5.0)
    data = mujoco.MjData(peer)
    mujoco.mj_forward(peer, data)
    theirs: dict[frozenset[int], list[float]] = {}
    for contact in data.contact:
        acting = contact.friction[[0, 2, 3]] * (contact.dim >= np.array([3, 4, 6]))
        theirs[frozenset(contact.geom.tolist())] = acting.tolist()
    numbers = {
        index: number
        for number, index in enumerate(
            index for index, geometry in enumerate(model.geometries) if not geometry.name.endswith("/visual")
        )
    }
    pairs = list(zip(*candidate_pairs(without_fields(model)), strict=True))
    ours = {
        frozenset((numbers[a], numbers[b])): friction
        for (a, b), friction in zip(pairs, pair_friction(model, pairs).tolist(), strict=True)
    }
    fields = set(np.flatnonzero(peer.geom_type == mujoco.mjtGeom.mjGEOM_HFIELD).tolist())
    theirs = {pair: value for pair, value in theirs.items() if not pair & fields}
    assert len(ours) > 3
    assert ours == theirs


def without_fields(model: sim.Model) -> sim.Model:
    """Where MuJoCo looks at a heightfield depends on the place of what is above it."""
    geometries = tuple(
        replace(geometry, collides=False) if geometry.type == codes.HEIGHTFIELD else geometry
        for geometry in model.geometries
    )
    return replace(model, geometries=geometries)


def moved(model: sim.Model, peer: mujoco.MjModel, clip: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    """Position and velocity here, in MuJoCo's conventions, and there after twenty steps of 1 ms without contact.

    Joint springs act at the end of the step here and at its start in MuJoCo; with h k added to the damping there both
    are the same. So are gyroscopic forces with what the midpoint rule adds to them here, and bases whose centre of mass
    moves straight.
    """
    dt, steps = 1e-3, 20
    off = mujoco.mjtDisableBit
    peer.opt.disableflags |= int(off.mjDSBL_CONTACT) | int(off.mjDSBL_LIMIT) | int(off.mjDSBL_FRICTIONLOSS)
    model.parameters["friction_loss"][:] = 0.0
    peer.opt.timestep = dt
    for joint in np.flatnonzero(peer.jnt_stiffness):
        peer.dof_damping[peer.jnt_dofadr[joint]] += dt * peer.jnt_stiffness[joint]
    q, qd = random_state(model, 3)
    data = data_at(peer, model, q, qd)
    data.ctrl = control = np.where(
        peer.actuator_ctrllimited, (2.0 if clip else 0.5) * peer.actuator_ctrlrange[:, 1], 0.3
    )
    simulator = sim.Simulator(model, dt, device="cpu", contact=sim.HardContact())
    state = simulator.state(q, qd)
    for _ in range(steps):
        state = simulator.step(state, control=control if model.nu else None)
        mujoco.mj_fwdPosition(peer, data)
        (shard,) = simulator.engine.shards
        origins = shard.step.kinematics.origin.worlds.numpy()[model.link_tree, 0]
        wrenches = added_wrenches(simulator, common=True)[0]
        for link in np.flatnonzero(wrenches.any(axis=1)):
            root = model.tree_link_start[model.link_tree[link]]
            if codes.FREE not in model.joint_type[[root, link]] and model.joint_type[link] != codes.SPHERICAL:
                continue
            body = next(b for b in range(peer.nbody) if model.link_names[link] in (peer.body(b).name, f"body_{b}"))
            force = wrenches[link, 3:]
            moment = wrenches[link, :3] + np.cross(origins[link] - data.xipos[body], force)
            data.xfrc_applied[body] = *force, *moment
        before, _ = sim.from_mujoco(model, data.qpos, data.qvel)
        mujoco.mj_step(peer, data)
        there = [array[None] for array in sim.from_mujoco(model, data.qpos, data.qvel)]
        move_bases(model, dt, before[None], *there)
        data.qpos[:], data.qvel[:] = sim.to_mujoco(model, *(array[0] for array in there))
    ours = sim.to_mujoco(model, state.q.numpy()[0], state.qd.numpy()[0])
    return list(zip(ours, (data.qpos, data.qvel), strict=True))


@pytest.mark.parametrize("clip", [False, True])
def test_same_steps_in_the_air(path, clip):
    """With driven joints and without contact: the same motion to rounding, also where MuJoCo clips the input."""
    model, peer = load_quietly(path, collision=False), compiled(path)
    peer.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    servos = peer.actuator_biastype == mujoco.mjtBias.mjBIAS_AFFINE
    peer.actuator_gainprm[servos, 0] = peer.actuator_biasprm[servos, 1:3] = 0.0
    for gain in ("kp", "kd") if servos.any() else ():
        model.parameters[f"actuator_{gain}"][servos] = 0.0
    for found, expected in moved(model, peer, clip):
        assert_allclose(found, expected, rtol=0, atol=1e-9 * max(np.abs(expected).max(), 1.0))


def test_same_steps_with_servos(zoo):
    """Servos are springs: with h kp in kv implicitfast does the same, and more for free bodies, which are left out."""
    model, peer = load_quietly(zoo, collision=False), compiled(zoo)
    peer.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    servos = peer.actuator_biastype == mujoco.mjtBias.mjBIAS_AFFINE
    assert servos.tolist() == [False, True, True]
    peer.actuator_biasprm[servos, 2] += 1e-3 * peer.actuator_biasprm[servos, 1]
    loose = peer.joint("loose").id
    ends = int(peer.jnt_qposadr[loose]), int(peer.jnt_dofadr[loose])
    for (found, expected), end in zip(moved(model, peer, clip=False), ends, strict=True):
        assert_allclose(found[:end], expected[:end], rtol=0, atol=1e-9)


def test_keyframes_and_base(zoo):
    """A file placed in the world by a pose: its keyframe is MuJoCo's state, moved by that pose."""
    base = np.array([1.0, -2.0, 0.5, *Rotation.from_euler("xyz", (0.3, -0.2, 0.7)).as_quat()])
    builder = sim.ModelBuilder()
    part = builder.add_mjcf(zoo, name="it", position=base[:3], orientation=base[3:])
    builder.add_sphere(radius=0.1, mass=1.0)
    model = builder.finalize("float64")
    assert part.name == "it"
    assert builder.gravity.tolist() == [0.1, 0.2, -9.0]
    key = part.keyframes["up"]
    assert key.control == {"it/push": 0.1, "it/flap": 0.2, "it/spin": 0.3}
    q, qd = model.q0.copy(), np.zeros(model.nv)
    q[model.q_slice(part)], qd[model.qd_slice(part)] = key.q, key.qd
    peer = compiled(zoo)
    data = mujoco.MjData(peer)
    mujoco.mj_resetDataKeyframe(peer, data, 0)
    mujoco.mj_forward(peer, data)
    poses = sim.forward_kinematics(model, q[None]).numpy()[0]
    velocities = sim.link_velocities(model, q[None], qd[None]).numpy()[0]
    turn = Rotation.from_quat(base[3:])
    for body in range(1, peer.nbody):
        name = f"it/{peer.body(body).name or f'body_{body}'}"
        names = [frame.name for frame in model.frames]
        frame = model.frame(f"{name}/origin" if f"{name}/origin" in names else name)
        expected = compose(base, np.concatenate([data.xpos[body], data.xquat[body][[1, 2, 3, 0]]]))
        found = frame_pose(model, poses, frame.link, frame.placement)
        assert_allclose(found[:3], expected[:3], atol=1e-12)
        assert_allclose(abs(found[3:] @ expected[3:]), 1.0, atol=1e-12)
        if frame.link >= 0:
            velocity = np.zeros(6)
            mujoco.mj_objectVelocity(peer, data, mujoco.mjtObj.mjOBJ_XBODY, body, velocity, 0)
            assert_allclose(velocities[frame.link, :3], turn.apply(velocity[:3]), atol=1e-12)
    initial = sim.forward_kinematics(model, model.q0[None]).numpy()[0]
    assert_allclose(initial[model.link("it/loose"), :3], base[:3] + turn.apply([-1.0, 0.0, 1.0]), atol=1e-12)
