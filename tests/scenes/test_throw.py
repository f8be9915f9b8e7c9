"""The throw: a ball at rest in the hand, and torques that hold it there."""

import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.spatial.transform import Rotation

import sim
from scenes import throw
from scenes.mjcf import to_mjcf
from tests.errors import refuses
from warp_kernels import types as codes


@pytest.fixture(scope="module")
def scene():
    return throw.build(dtype="float64")


def start_poses(scene):
    return sim.forward_kinematics(scene.model, scene.q0[None]).numpy()[0]


def world_geometry(scene, geometry):
    """Position and rotation of a geometry in the start pose."""
    pose = start_poses(scene)[geometry.link] if geometry.link >= 0 else np.array([0.0, 0, 0, 0, 0, 0, 1])
    turn = Rotation.from_quat(pose[3:])
    return pose[:3] + turn.apply(geometry.placement[:3]), turn * Rotation.from_quat(geometry.placement[3:])


def towards(scene, geometry, point):
    """Distance of a point from a geometry's surface, and the unit vector from the surface to it."""
    position, turn = world_geometry(scene, geometry)
    local = turn.inv().apply(point - position)
    if geometry.type == codes.PLANE:
        return local[2], turn.apply([0.0, 0.0, 1.0])
    core = {
        codes.SPHERE: np.zeros(3),
        codes.CAPSULE: np.array([0.0, 0.0, np.clip(local[2], -geometry.size[1], geometry.size[1])]),
        codes.BOX: np.clip(local, -geometry.size, geometry.size),
    }[geometry.type]
    radius = 0.0 if geometry.type == codes.BOX else geometry.size[0]
    gap = local - core
    return np.linalg.norm(gap) - radius, turn.apply(gap / np.linalg.norm(gap))


def test_the_ball_rests_on_three_supports_and_clear_of_the_rest(scene):
    centre = scene.q0[scene.ball_position]
    gaps, normals = [], []
    for geometry in scene.model.geometries:
        if geometry.collides and geometry.link != scene.ball_link:
            distance, normal = towards(scene, geometry, centre)
            gaps.append(distance - throw.BALL_RADIUS)
            normals.append(normal)
    gaps, normals = np.array(gaps), np.array(normals)
    touching = np.abs(gaps) < 1e-4  # the file gives positions to a hundredth of a millimetre
    assert touching.sum() == 3
    assert gaps[~touching].min() > 3e-3
    # Three pushes along the normals carry the weight without any friction, so the ball stays where it is.
    pushes, rest = nnls(normals[touching].T, [0.0, 0.0, throw.BALL_MASS * 9.81])
    assert rest < 1e-12
    assert (pushes > 0.1).all()


def test_the_palm_is_level_and_nothing_reaches_the_ground(scene):
    hand = scene.model.frame("hand")
    turn = Rotation.from_quat(start_poses(scene)[hand.link, 3:]) * Rotation.from_quat(hand.placement[3:])
    np.testing.assert_allclose(turn.apply([1.0, 0, 0]), [0, 0, 1], atol=1e-12)
    for geometry in scene.model.geometries:
        if geometry.link >= 0:
            assert world_geometry(scene, geometry)[0][2] > 0.15


def test_holding_torques_equal_pinocchio(scene):
    pin = pytest.importorskip("pinocchio")
    model = pin.buildModelFromUrdf(str(throw.ARM_URDF))
    frame = model.frames[model.getFrameId("hand")]
    ball = pin.Inertia(throw.BALL_MASS, throw.BALL_IN_HAND, np.zeros((3, 3)))
    model.appendBodyToJoint(frame.parentJoint, ball, frame.placement)
    expected = pin.rnea(model, model.createData(), throw.START_POSE, np.zeros(9), np.zeros(9))
    np.testing.assert_allclose(scene.hold[scene.model.qd_slice(scene.arm)], expected, atol=1e-10)
    np.testing.assert_array_equal(scene.hold[scene.model.qd_slice(scene.ball)], 0.0)


def test_the_ball_stays_in_the_hand_in_mujoco(scene):
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(to_mjcf(scene.model, dt=scene.dt, sweeps=50))
    data = mujoco.MjData(model)
    data.qpos[:] = scene.q0
    data.qpos[-4:] = scene.q0[[-1, -4, -3, -2]]
    for _ in range(300):
        data.qfrc_applied[:] = scene.hold
        mujoco.mj_step(model, data)
    # Its contacts are soft: the ball sinks in by a fraction of a millimetre.
    np.testing.assert_allclose(data.qpos[scene.ball_position], scene.q0[scene.ball_position], atol=1e-3)
    np.testing.assert_allclose(data.qpos[:9], scene.q0[:9], atol=1e-3)


def test_random_targets_are_reproducible_and_out_of_the_hands_reach():
    targets = throw.random_targets(3, 200)
    assert targets.shape == (200, 3)
    np.testing.assert_array_equal(targets, throw.random_targets(3, 200))
    assert (targets != throw.random_targets(4, 200)).all()
    distance = np.linalg.norm(targets[:, :2], axis=1)
    # From the shoulder's axis to the lip of a stretched hand it is 0.94 m.
    assert distance.min() > 1.0
    assert targets[:, 2].min() > throw.BALL_RADIUS


def test_arguments_are_kept_and_checked():
    scene = throw.build((1.0, 0.5, 0.3), steps=10, dt=0.002, friction=0.5)
    assert (scene.steps, scene.dt, scene.model.dtype) == (10, 0.002, "float32")
    np.testing.assert_array_equal(scene.target, [1.0, 0.5, 0.3])
    friction = scene.model.parameters["friction"]
    assert friction[scene.model.geometry("ball/geometry")] == 0.5
    refuses(lambda: throw.build((1.0, np.nan, 0.3)), "target")
    refuses(lambda: throw.build(steps=0), "steps")
