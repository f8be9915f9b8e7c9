"""Drop-in names of Facebook's Differentiable Robot Models: change the import of a program written with it.

``from differentiable_robot_model.robot_model import DifferentiableRobotModel`` becomes
``from sim.torch.drm import DifferentiableRobotModel``, and the parametrisations of its ``rigid_body_params`` may be
used as they are, or taken from here. Methods, arguments, order of joints (that of the links in the file) and shapes are
those of the original. Its bugs aren't reproduced: oblique axes, prismatic joints, rotated inertias and links without
mass work; damping never changes the caller's tensor. Dry friction is ignored, as in the original. New programs should
use :class:`sim.torch.Robot`.
"""

import importlib.util
import os
from pathlib import Path

import torch

from sim.errors import ModelError
from sim.torch.drm.params import (
    CovParameterized3DInertiaMatrixNet,
    PositiveScalar,
    RollPitchYaw,
    SymmPosDef3DInertiaMatrixNet,
    UnconstrainedScalar,
    UnconstrainedTensor,
)
from sim.torch.robot.robot import Robot

__all__ = [
    "CovParameterized3DInertiaMatrixNet",
    "DifferentiableFrankaPanda",
    "DifferentiableKUKAiiwa",
    "DifferentiableRobotModel",
    "DifferentiableTrifingerEdu",
    "DifferentiableTwoLinkRobot",
    "PositiveScalar",
    "SymmPosDef3DInertiaMatrixNet",
    "UnconstrainedScalar",
    "UnconstrainedTensor",
]

QUANTITIES = {
    "mass": "mass",
    "com": "com",
    "inertia_mat": "inertia",
    "trans": "translation",
    "rot_angles": "rotation",
    "joint_damping": "damping",
}


class DifferentiableRobotModel(torch.nn.Module):
    """A robot with a fixed base, in torch's default dtype unless the module is moved to another.

    Args:
        urdf_path: robot file.
        name: kept as ``name``.
        device: device of its parameters. Default: the CPU.
    """

    def __init__(self, urdf_path: str | os.PathLike[str], name: str = "", device: torch.device | str | None = None):
        super().__init__()
        self.name = name
        self.robot = Robot(urdf_path, device=device)
        model = self.robot.model
        # The original has no dry friction; it is zero in the model too, so that it doesn't count as a change.
        model.parameters["friction_loss"][:] = 0.0
        self.robot.friction_loss.zero_()
        if model.nq != model.nv:
            raise ModelError(f"{urdf_path}: joints with quaternions are not supported here; use sim.torch.Robot")
        links = [model.link(frame.name) for frame in model.frames]
        # For each of our degrees of freedom, its index in the order of the links of the file.
        moving = [dof for link in links for dof in model.dofs_of(link)]
        self._in_order = moving == sorted(moving)
        self.register_buffer("_ours", torch.tensor(moving, device=device).argsort(), persistent=False)
        self.register_buffer("_theirs", torch.tensor(moving, device=device), persistent=False)

    # ---- kinematics --------------------------------------------------------------------------------------------

    def compute_forward_kinematics(
        self, q: torch.Tensor, link_name: str, recursive: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute position [..., 3] and quaternion xyzw [..., 4] of a link; ``recursive`` makes no difference."""
        return self.robot.forward_kinematics(self._to(q), link_name)

    def compute_forward_kinematics_all_links(self, q: torch.Tensor) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """Compute position and quaternion of each link by its name."""
        names = self.get_link_names()
        position, quaternion = self.robot.forward_kinematics(self._to(q), names)
        return {name: (position[..., k, :], quaternion[..., k, :]) for k, name in enumerate(names)}

    def compute_endeffector_jacobian(self, q: torch.Tensor, link_name: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the linear and angular Jacobian [..., 3, n_dofs] of a link's origin, along world axes."""
        jacobian = self._from(self.robot.jacobian(self._to(q), link_name))
        return jacobian[..., 3:, :], jacobian[..., :3, :]

    # ---- dynamics ----------------------------------------------------------------------------------------------

    def compute_inverse_dynamics(
        self,
        q: torch.Tensor,
        qd: torch.Tensor,
        qdd_des: torch.Tensor,
        include_gravity: bool = True,
        use_damping: bool = True,
    ) -> torch.Tensor:
        """Compute the joint forces for an acceleration."""
        q, qd = self._to(q), self._to(qd)
        force = self.robot.inverse_dynamics(q, qd, self._to(qdd_des))
        return self._from(force - self._left_out(q, qd, include_gravity, use_damping))

    def compute_non_linear_effects(
        self, q: torch.Tensor, qd: torch.Tensor, include_gravity: bool = True, use_damping: bool = True
    ) -> torch.Tensor:
        """Compute the joint forces at zero acceleration."""
        return self.compute_inverse_dynamics(q, qd, torch.zeros_like(q), include_gravity, use_damping)

    def compute_lagrangian_inertia_matrix(
        self, q: torch.Tensor, include_gravity: bool = True, use_damping: bool = True
    ) -> torch.Tensor:
        """Compute the joint-space mass matrix [..., n_dofs, n_dofs]; the flags make no difference."""
        matrix = self._from(self.robot.mass_matrix(self._to(q)))
        return self._from(matrix.transpose(-1, -2)).transpose(-1, -2)

    def compute_forward_dynamics(
        self,
        q: torch.Tensor,
        qd: torch.Tensor,
        f: torch.Tensor,
        include_gravity: bool = True,
        use_damping: bool = False,
    ) -> torch.Tensor:
        """Compute joint accelerations under joint forces; without damping unless asked for, as in the original."""
        q, qd = self._to(q), self._to(qd)
        force = self._to(f) + self._left_out(q, qd, include_gravity, use_damping)
        return self._from(self.robot.forward_dynamics(q, qd, force))

    def compute_forward_dynamics_old(
        self,
        q: torch.Tensor,
        qd: torch.Tensor,
        f: torch.Tensor,
        include_gravity: bool = True,
        use_damping: bool = True,
    ) -> torch.Tensor:
        """Compute joint accelerations with damping."""
        return self.compute_forward_dynamics(q, qd, f, include_gravity, use_damping)

    # ---- learning ----------------------------------------------------------------------------------------------

    def make_link_param_learnable(self, link_name: str, parameter_name: str, parametrization: torch.nn.Module) -> None:
        """Let a module give a parameter of a link.

        Args:
            link_name: the link.
            parameter_name: "mass", "com", "inertia_mat", "trans", "rot_angles" (roll, pitch, yaw) or "joint_damping".
            parametrization: its ``forward()`` gives the value.
        """
        module = parametrization.to(self._device)
        if parameter_name == "rot_angles":
            module = RollPitchYaw(module)
        self.robot.learn_quantity(link_name, _quantity(parameter_name), module)

    def freeze_learnable_link_param(self, link_name: str, parameter_name: str) -> None:
        """Keep a learnable parameter as it is."""
        self.robot.learnable(link_name, _quantity(parameter_name)).requires_grad_(False)

    def unfreeze_learnable_link_param(self, link_name: str, parameter_name: str) -> None:
        """Let it be learnt again."""
        self.robot.learnable(link_name, _quantity(parameter_name)).requires_grad_(True)

    def print_learnable_params(self) -> None:
        """Print names and values of all parameters that are learnt."""
        for name, parameter in self.named_parameters():
            print(f"{name}: {parameter}")

    # ---- what it is --------------------------------------------------------------------------------------------

    def get_joint_limits(self) -> list[dict[str, float]]:
        """Return limits of each joint: "lower", "upper", "velocity" and "effort"."""
        names = ("lower", "upper", "velocity", "effort")
        columns = {name: self._from(getattr(self.robot, f"{name}_limit")) for name in names}
        return [{name: float(column[k]) for name, column in columns.items()} for k in range(self.robot.nv)]

    def get_link_names(self) -> list[str]:
        """Return names of the links, in the order of the file."""
        return list(self.robot.frame_names)

    def print_link_names(self) -> None:
        """Print the names of the links."""
        for name in self.get_link_names():
            print(name)

    @property
    def _n_dofs(self) -> int:
        return self.robot.nv

    @property
    def _device(self) -> torch.device:
        return self.robot.value("mass").device

    def _left_out(self, q: torch.Tensor, qd: torch.Tensor, gravity: bool, damping: bool) -> torch.Tensor:
        """Return the joint forces of gravity and damping that are to be excluded."""
        force = torch.zeros_like(qd)
        if not gravity:
            force = force + self.robot.gravity_forces(q)
        if not damping:
            force = force + self.robot.value("damping") * qd
        return force

    def _to(self, theirs: torch.Tensor) -> torch.Tensor:
        return theirs if self._in_order else theirs.index_select(-1, self._ours)  # type: ignore[arg-type]

    def _from(self, ours: torch.Tensor) -> torch.Tensor:
        return ours if self._in_order else ours.index_select(-1, self._theirs)  # type: ignore[arg-type]


class DifferentiableKUKAiiwa(DifferentiableRobotModel):
    """The iiwa 7 of the package ``differentiable-robot-model``, which must be installed for its file."""

    def __init__(self, device: torch.device | str | None = None):
        super().__init__(_file("kuka_iiwa/urdf/iiwa7.urdf"), "differentiable_kuka_iiwa", device)


class DifferentiableFrankaPanda(DifferentiableRobotModel):
    """The Panda without its gripper, of the same package."""

    def __init__(self, device: torch.device | str | None = None):
        super().__init__(_file("panda_description/urdf/panda_no_gripper.urdf"), "differentiable_franka_panda", device)


class DifferentiableTwoLinkRobot(DifferentiableRobotModel):
    """An arm of two links, of the same package."""

    def __init__(self, device: torch.device | str | None = None):
        super().__init__(_file("2link_robot.urdf"), "diff_2d_robot", device)


class DifferentiableTrifingerEdu(DifferentiableRobotModel):
    """The TriFinger, of the same package."""

    def __init__(self, device: torch.device | str | None = None):
        super().__init__(_file("trifinger_edu_description/trifinger_edu.urdf"), "trifinger_edu", device)


def _file(name: str) -> Path:
    spec = importlib.util.find_spec("diff_robot_data")
    if spec is None or spec.origin is None:
        raise ModelError(
            f"{name} comes with the package differentiable-robot-model, which is not installed; run pip install "
            "differentiable-robot-model"
        )
    return Path(spec.origin).parent / name


def _quantity(parameter_name: str) -> str:
    if parameter_name not in QUANTITIES:
        raise ModelError(f"unknown parameter '{parameter_name}'; known are {', '.join(QUANTITIES)}")
    return QUANTITIES[parameter_name]
