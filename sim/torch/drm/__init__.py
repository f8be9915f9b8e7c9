"""The names of Facebook's Differentiable Robot Models, for programs written with it: change the import and go on."""

from sim.torch.drm.params import (
    CovParameterized3DInertiaMatrixNet,
    PositiveScalar,
    SymmPosDef3DInertiaMatrixNet,
    UnconstrainedScalar,
    UnconstrainedTensor,
)
from sim.torch.drm.robot_model import (
    DifferentiableFrankaPanda,
    DifferentiableKUKAiiwa,
    DifferentiableRobotModel,
    DifferentiableTrifingerEdu,
    DifferentiableTwoLinkRobot,
)

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
