"""Reference engines for timing: MuJoCo and Pinocchio, on the same robot with the same settings.

Both are optional (``pip install backswing[peers]``). Both compute in float64.
"""

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.timing import time_call

SETTLE_SECONDS = 1.0
CHUNK = 50  # steps per timed call


@dataclass(frozen=True)
class PeerTimes:
    """Times of a peer per step or call, for one robot [microseconds].

    Attributes:
        forward_us: time of one step or one evaluation.
        backward_us: time of its derivatives in state and control.
        note: how they were measured.
    """

    forward_us: float
    backward_us: float
    note: str


# ---- MuJoCo ------------------------------------------------------------------------------------------------------


def mujoco_pgs(mjcf: str, *, dt: float, sweeps: int) -> Any:
    """Make a MuJoCo model that matches Backswing's step: PGS with a fixed number of cold-started sweeps, elliptic
    cone.
    """
    import mujoco

    spec = _with_motors(mjcf, dt)
    spec.option.solver = mujoco.mjtSolver.mjSOL_PGS
    spec.option.iterations = sweeps
    spec.option.tolerance = 0.0  # no early termination
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_WARMSTART)
    return spec.compile()


def mujoco_newton(mjcf: str, *, dt: float) -> Any:
    """Make a MuJoCo model with its default solver: Newton's method, warm start, pyramidal cone, default tolerance."""
    import mujoco

    defaults = mujoco.MjSpec().option
    spec = _with_motors(mjcf, dt)
    for name in ("solver", "iterations", "tolerance", "cone", "disableflags"):
        setattr(spec.option, name, getattr(defaults, name))
    return spec.compile()


def _with_motors(mjcf: str, dt: float) -> Any:
    """Return a specification with Euler's integrator and a motor for every hinge, so that differences include the
    control.
    """
    import mujoco

    spec = mujoco.MjSpec.from_string(mjcf)
    spec.option.timestep = dt
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    if not spec.actuators:
        for joint in spec.joints:
            if joint.type == mujoco.mjtJoint.mjJNT_HINGE:
                actuator = spec.add_actuator(name=f"motor_{joint.name}", target=joint.name)
                actuator.trntype = mujoco.mjtTrn.mjTRN_JOINT
                actuator.set_to_motor()
    return spec


def mujoco_standing(model: Any, qpos: np.ndarray, *, stiffness: float, damping: float) -> Any:
    """Return MuJoCo data of robots at rest on their feet, held by joint springs, which are added to the model.

    Args:
        model: model from :func:`mujoco_pgs` or :func:`mujoco_newton`; all its hinges get springs.
        qpos: start pose in MuJoCo's order [nq], also the rest position of the springs; the robot sinks into them.
        stiffness: stiffness of every joint spring [N m/rad].
        damping: damping of every joint [N m s/rad].
    """
    import mujoco

    hinges = model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE
    addresses = model.jnt_qposadr[hinges]
    model.jnt_stiffness[hinges] = stiffness
    model.qpos_spring[addresses] = qpos[addresses]
    model.dof_damping[model.jnt_dofadr[hinges]] = damping
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_step(model, data, round(SETTLE_SECONDS / model.opt.timestep))
    return data


def time_mujoco(model: Any, standing: Any, *, cores: int, seconds: float, clock: Callable[[], float]) -> PeerTimes:
    """Time MuJoCo's step and ``mjd_transitionFD`` of a standing robot.

    The loop over the steps runs inside MuJoCo. With several cores, each simulates its own copy of the world.

    Raises:
        RuntimeError: if contacts open or close during the measurement, since the robot then no longer stands.
    """
    import mujoco

    start = np.concatenate([standing.qpos, standing.qvel])
    copies = [mujoco.MjData(model) for _ in range(cores)]

    def reset() -> None:
        for data in copies:
            data.qacc_warmstart[:] = standing.qacc_warmstart
            data.qpos[:], data.qvel[:], data.time = start[: model.nq], start[model.nq :], 0.0
            mujoco.mj_forward(model, data)

    pool = ThreadPoolExecutor(cores)

    def steps() -> None:
        list(pool.map(lambda data: mujoco.mj_step(model, data, CHUNK), copies))

    forward = time_call(steps, prepare=reset, seconds=seconds, clock=clock)
    if any(data.ncon != standing.ncon for data in copies):
        raise RuntimeError(
            f"the standing robot had {standing.ncon} contacts before the measurement and {copies[0].ncon} after it"
        )
    size = 2 * model.nv + model.na
    jacobians = [(np.zeros((size, size)), np.zeros((size, model.nu))) for _ in copies]
    reset()

    def differentiate(data: Any, jacobian: tuple[np.ndarray, np.ndarray]) -> None:
        mujoco.mjd_transitionFD(model, data, 1e-6, False, *jacobian, None, None)

    gradient = time_call(lambda: list(pool.map(differentiate, copies, jacobians)), seconds=seconds, clock=clock)
    pool.shutdown()
    return PeerTimes(
        forward.median / (CHUNK * cores) * 1e6,
        gradient.median / cores * 1e6,
        f"MuJoCo: float64, {standing.ncon} contacts, {_solver(model)}, {copies[0].solver_niter[0]} iterations, "
        f"{cores} core(s); steps looped inside mj_step; gradient: one-sided mjd_transitionFD in state and control",
    )


def _solver(model: Any) -> str:
    """Return the names of the solver and of the cone."""
    import mujoco

    solver, cone = mujoco.mjtSolver(model.opt.solver).name, mujoco.mjtCone(model.opt.cone).name
    return f"{solver.removeprefix('mjSOL_')}, {cone.removeprefix('mjCONE_').lower()} cone"


# ---- Pinocchio ---------------------------------------------------------------------------------------------------


def pinocchio_model(mjcf: str) -> Any:
    """Return the robot of an MJCF text as a Pinocchio model with a free base, without the ground."""
    import pinocchio

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "robot.xml")
        path.write_text(mjcf)
        return pinocchio.buildModelFromMJCF(str(path))


def time_pinocchio(model: Any, *, batch: int, cores: int, seconds: float, clock: Callable[[], float]) -> PeerTimes:
    """Time Pinocchio's ABA and its analytical derivatives (no contact) at random states.

    ABA runs over a batch inside C++ (``abaInParallel``). The derivatives have no batched call. They are timed one by
    one from Python, minus the time of the same call on a one-joint robot, which is almost all overhead.
    """
    import pinocchio

    random = np.random.default_rng(0)
    neutral = pinocchio.neutral(model)
    q = np.asfortranarray(
        np.stack(
            [pinocchio.integrate(model, neutral, random.uniform(-1.0, 1.0, model.nv)) for _ in range(batch)], axis=1
        )
    )
    v, tau, a = (np.asfortranarray(random.normal(size=(model.nv, batch))) for _ in range(3))
    pool = pinocchio.ModelPool(model, cores)
    forward = time_call(lambda: pinocchio.abaInParallel(cores, pool, q, v, tau, a), seconds=seconds, clock=clock)
    whole = _time_derivatives(model, q, v, tau, seconds, clock)
    overhead = _time_derivatives(one_joint(), q[:1], v[:1], tau[:1], seconds, clock)
    return PeerTimes(
        forward.median / batch * 1e6,
        (whole - overhead) * 1e6,
        f"Pinocchio: float64, no contact, ABA batched in C++ on {cores} core(s); gradient: "
        f"computeABADerivatives on one core, {whole * 1e6:.1f} µs per call from Python, minus the "
        f"{overhead * 1e6:.1f} µs of the same call on a one-joint robot",
    )


def _time_derivatives(
    model: Any, q: np.ndarray, v: np.ndarray, tau: np.ndarray, seconds: float, clock: Callable[[], float]
) -> float:
    """Measure seconds per call of computeABADerivatives, averaged over a batch of states."""
    import pinocchio

    data = model.createData()
    states = [(q[:, k].copy(), v[:, k].copy(), tau[:, k].copy()) for k in range(min(q.shape[1], 256))]
    derivatives = pinocchio.computeABADerivatives

    def call() -> None:
        for state in states:
            derivatives(model, data, *state)

    return time_call(call, seconds=seconds, clock=clock).median / len(states)


def one_joint() -> Any:
    """Make a Pinocchio model on which a call costs little more than the Python overhead. Its last frame moves."""
    import pinocchio

    model = pinocchio.Model()
    joint = model.addJoint(0, pinocchio.JointModelRZ(), pinocchio.SE3.Identity(), "joint")
    model.appendBodyToJoint(joint, pinocchio.Inertia.Random(), pinocchio.SE3.Identity())
    model.addFrame(pinocchio.Frame("frame", joint, pinocchio.SE3.Identity(), pinocchio.FrameType.OP_FRAME))
    return model
