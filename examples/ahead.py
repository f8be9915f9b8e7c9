"""Early compilation of an example's kernels, while it imports and computes other things."""

import contextlib
from collections.abc import Sequence

import warp as wp

from sim.arrays.kernels import compile_ahead, start_warp
from sim.arrays.launch import loops_over_contacts
from sim.errors import ModelError
from warp_kernels.collision.detect import detect_kernels
from warp_kernels.collision.evaluate import evaluate_kernels
from warp_kernels.collision.pairs import BALLS, ON_PLANE
from warp_kernels.collision.plane.adjoint import on_plane_adjoint_kernels
from warp_kernels.collision.touch.motions import slot_motion_kernels
from warp_kernels.constraints.listing import constraint_kernels
from warp_kernels.constraints.row_adjoint import row_adjoint_kernels
from warp_kernels.constraints.rows import constraint_row_kernels
from warp_kernels.contact_adjoints import contact_adjoint_kernels
from warp_kernels.denormals import denormal_kernels
from warp_kernels.dynamics.aba import aba_kernels
from warp_kernels.dynamics.gyroscopic import gyroscopic_kernels
from warp_kernels.dynamics.mass_matrix import factor_kernels
from warp_kernels.dynamics.rnea import rnea_adjoint_kernels, rnea_kernels
from warp_kernels.kinematics.frames import frame_kernels
from warp_kernels.kinematics.integrate import integrate_kernels
from warp_kernels.kinematics.kinematics import kinematics_kernels
from warp_kernels.kinematics.kinematics_adjoint import kinematics_adjoint_kernels
from warp_kernels.kinematics.recentre import recentre_kernels
from warp_kernels.render.trace import render_kernels
from warp_kernels.rollout.checkpoint import checkpoint_kernels
from warp_kernels.rollout.replay import replay_kernels
from warp_kernels.rollout.trajectory import trajectory_kernels
from warp_kernels.solver.impulse import impulse_kernels
from warp_kernels.solver.newton.adjoint.adjoint import newton_adjoint_kernels
from warp_kernels.solver.newton.adjoint.regularisation import regularisation_adjoint_kernels
from warp_kernels.solver.newton.solve import newton_kernels

FLOAT = wp.float32


def begin(command: Sequence[str]) -> None:
    """Begin to compile the kernels of the example that a command names, ``python -m examples.throw``."""
    if wp.config.log_level == wp.LOG_INFO:
        wp.config.log_level = wp.LOG_WARNING
    with contextlib.suppress(ModelError):  # the example will raise it again
        start_warp()
        compile_shared()
        for name in command:
            if name in AHEAD:
                AHEAD[name](wp.get_device())


def compile_shared() -> None:
    """Compile a short module, and so the code that all modules share; no-op if kernels are cached."""
    compile_ahead([trajectory_kernels(FLOAT).find_fingerprint], wp.get_device("cpu"))


def compile_pictures(device: str | None) -> None:
    """Compile the kernels that draw animations on a device."""
    compile_ahead([render_kernels(False).shade_pixels], wp.get_device(device))


def compile_motions(device: wp.Device) -> None:
    """Compile the kernels of an arm and a ball: poses and forces at rest, then a rollout and its backward pass."""
    if not device.is_cpu:
        return
    looping = loops_over_contacts(device)
    rest = [
        kinematics_kernels(FLOAT).kinematics,
        frame_kernels(FLOAT).frame_pose,
        rnea_kernels(FLOAT).rnea,
        rnea_kernels(FLOAT).wrench_to_common_frame,
    ]
    rollout = [
        checkpoint_kernels(FLOAT).load_state,
        gyroscopic_kernels(FLOAT).gyroscopic_wrench,
        aba_kernels(FLOAT).aba,
        factor_kernels(FLOAT).factor_mass_matrix,
        *(detect_kernels(FLOAT, name).detect for name in (ON_PLANE, BALLS)),
        slot_motion_kernels(FLOAT, looping).slot_motions,
        *(evaluate_kernels(FLOAT, name, looping).evaluate for name in (ON_PLANE, BALLS)),
        constraint_kernels(FLOAT).list_constraints,
        constraint_row_kernels(FLOAT).constraint_rows,
        newton_kernels(FLOAT).newton_solve,
        impulse_kernels(FLOAT).apply_impulses,
        integrate_kernels(FLOAT).integrate,
        recentre_kernels(FLOAT).recentre,
        denormal_kernels().flush_denormals,
        replay_kernels().replay,
    ]
    back = [
        impulse_kernels(FLOAT).velocity_adjoint,
        newton_adjoint_kernels(FLOAT).solution_adjoint,
        regularisation_adjoint_kernels(FLOAT).regularisation_adjoint,
        contact_adjoint_kernels(FLOAT, looping).clear_contacts,
        row_adjoint_kernels(FLOAT).row_adjoint,
        rnea_adjoint_kernels(FLOAT).rnea_adjoint,
        on_plane_adjoint_kernels(FLOAT, looping).evaluate_on_plane_adjoint,
        kinematics_adjoint_kernels(FLOAT).kinematics_adjoint,
    ]
    compile_ahead(rest, device)
    compile_ahead([*rollout, *back], device)


# By the name of the example's module. Kernels that are missing here are compiled when they are needed.
AHEAD = {"examples.throw": compile_motions, "examples.golf": compile_motions}
