"""Robot files of installed packages, and forward kinematics in plain NumPy over the arrays of a model."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from warp_kernels import types as codes


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else Path("missing", name)


# Both come with Pinocchio's and PyBullet's wheels; the first is a folder of data without a Python package.
EXAMPLE = next(
    (
        folder / "share/example-robot-data/robots"
        for folder in _package("pinocchio").parents
        if (folder / "share/example-robot-data").is_dir()
    ),
    Path("missing/example-robot-data"),
)
BULLET = _package("pybullet_data")
GYMNASIUM = _package("gymnasium") / "envs/mujoco/assets"
# In the wheel of differentiable-robot-model.
DRM = _package("diff_robot_data")

ROBOTS = {
    "panda": EXAMPLE / "panda_description/urdf/panda.urdf",
    "ur5": EXAMPLE / "ur_description/urdf/ur5_robot.urdf",
    "iiwa": BULLET / "kuka_iiwa/model.urdf",
    "laikago": EXAMPLE / "laikago_description/urdf/laikago.urdf",
    "go1": EXAMPLE / "go1_description/urdf/go1.urdf",
    "go2": EXAMPLE / "go2_description/urdf/go2.urdf",
    "anymal_b": EXAMPLE / "anymal_b_simple_description/robots/anymal.urdf",
    "anymal_c": EXAMPLE / "anymal_c_simple_description/urdf/anymal.urdf",
    "solo12": EXAMPLE / "solo_description/robots/solo12.urdf",
    "talos": EXAMPLE / "talos_data/robots/talos_reduced.urdf",
    "g1": EXAMPLE / "g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf",
    "xarm7": EXAMPLE / "xarm_description/urdf/xarm7.urdf",
    "icub": EXAMPLE / "icub_description/robots/icub.urdf",
    "tiago": EXAMPLE / "tiago_description/robots/tiago.urdf",
    "baxter": EXAMPLE / "baxter_description/urdf/baxter.urdf",
    "kinova": EXAMPLE / "kinova_description/robots/kinova.urdf",
    "allegro": EXAMPLE / "allegro_hand_description/urdf/allegro_right_hand.urdf",
    "hextilt": EXAMPLE / "hextilt_description/urdf/hextilt_flying_arm_5.urdf",
    "pr2": EXAMPLE / "pr2_description/urdf/pr2.urdf",
    "r2d2": BULLET / "r2d2.urdf",
    "racecar": BULLET / "racecar/racecar.urdf",
    "cartpole": BULLET / "cartpole.urdf",
    "drm_2link": DRM / "2link_robot.urdf",
    "drm_panda": DRM / "panda_description/urdf/panda_no_gripper.urdf",
    "drm_fetch": DRM / "fetch_description/urdf/fetch_arm_no_gripper.urdf",
    "drm_allegro": DRM / "allegro/urdf/allegro_hand_description_left.urdf",
    "drm_trifinger": DRM / "trifinger_edu_description/trifinger_edu.urdf",
    "drm_iiwa": DRM / "kuka_iiwa/urdf/iiwa7.urdf",
    "drm_jaco": DRM / "kinova_description/urdf/jaco_clean.urdf",
}


def installed(path: Path) -> Path:
    """Return the path of a file, or skip the test if its package isn't installed."""
    if not path.is_file():
        pytest.skip(f"{path} is not installed")
    return path


def matrix(pose: np.ndarray) -> np.ndarray:
    """Homogeneous matrix [4, 4] of a position and quaternion xyzw [7]."""
    result = np.eye(4)
    result[:3, :3] = Rotation.from_quat(pose[3:]).as_matrix()
    result[:3, 3] = pose[:3]
    return result


def joint_motion(type: int, axis: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Pose [4, 4] of the child in the joint frame."""
    motion = np.eye(4)
    if type == codes.REVOLUTE:
        motion[:3, :3] = Rotation.from_rotvec(axis * q[0]).as_matrix()
    elif type == codes.PRISMATIC:
        motion[:3, 3] = axis * q[0]
    elif type == codes.SPHERICAL:
        motion[:3, :3] = Rotation.from_quat(q).as_matrix()
    elif type == codes.FREE:
        motion = matrix(q)
    return motion


def link_poses(model: sim.Model, q: np.ndarray) -> list[np.ndarray]:
    """World pose [4, 4] of every link."""
    poses: list[np.ndarray] = []
    ends = np.append(model.joint_q_start[1:], model.nq)
    for link, parent in enumerate(model.link_parent):
        base = poses[parent] if parent >= 0 else np.eye(4)
        coordinates = q[model.joint_q_start[link] : ends[link]]
        motion = joint_motion(int(model.joint_type[link]), model.joint_axis[link], coordinates)
        poses.append(base @ matrix(model.parameters["joint_placement"][link]) @ motion)
    return poses


def frame_poses(model: sim.Model, q: np.ndarray) -> dict[str, np.ndarray]:
    """World pose [4, 4] of every frame by name."""
    poses = link_poses(model, q)
    return {
        frame.name: (poses[frame.link] if frame.link >= 0 else np.eye(4)) @ matrix(frame.placement)
        for frame in model.frames
    }


def random_coordinates(model: sim.Model, rng: np.random.Generator) -> np.ndarray:
    """Coordinates of joints anywhere (limits aside), with unit quaternions."""
    q = rng.uniform(-3.0, 3.0, model.nq)
    for link, type in enumerate(model.joint_type):
        if type in (codes.FREE, codes.SPHERICAL):
            start = model.joint_q_start[link] + (3 if type == codes.FREE else 0)
            q[start : start + 4] = Rotation.random(rng=rng).as_quat()
    return q
