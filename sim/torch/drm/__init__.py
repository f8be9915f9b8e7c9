"""Drop-in names of Facebook's Differentiable Robot Models: change the import of a program written with it."""

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
