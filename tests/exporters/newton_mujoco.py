"""Models written as USD in Newton's solver ``SolverMuJoCo``, which needs the package ``mujoco-warp``: masses, motion.

``python -m tests.exporters.newton_mujoco`` prints the differences of the models of ``test_newton_motion.py``, after
0.2 s and extrapolated to a time step of zero; with the names of robot files, those of these, without contacts, from
joint positions in the middle of their limits and random velocities. The package isn't among those of the tests; it
is looked for in ``--packages`` too, a folder that ``pip install --no-deps --target FOLDER mujoco-warp`` makes.
"""

import argparse
import inspect
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import newton
import numpy as np
from newton.usd import SchemaResolverNewton, SchemaResolverPhysx

import sim
from sim.usd.physics.series import Series
from tests.errors import quietly
from tests.exporters.test_newton_motion import CASES, DURATION, links_of, poses_here, same_sign, written

STEPS = 5e-4, 2.5e-4


def moving(model: sim.Model) -> tuple[sim.Model, np.ndarray, dict[str, Any]]:
    """Return a model with coordinates in the middle of its limits, and a random velocity of each joint.

    Joints in series are at rest: Newton has one name for all of them.
    """
    rng, q, rates = np.random.default_rng(0), model.q0.copy(), {}
    series = Series(model, massless_bodies=False)
    lower, upper = (model.parameters[name] for name in ("lower_limit", "upper_limit"))
    for name in model.joint_names:
        part, dofs = model.q_slice(name), model.qd_slice(name)
        if dofs.stop - dofs.start != 1:
            continue
        bounds = lower[dofs.start], upper[dofs.start]
        q[part] = np.mean(bounds) if np.isfinite(bounds).all() else 0.2
        rate, link = rng.uniform(-0.5, 0.5) * min(1.0, np.ptp(bounds)), model.joint_names.index(name)
        if (series.body == series.body[link]).sum() == 1:
            rates[name] = (rate,)
    return model, q, rates


def of_file(path: Path) -> tuple[sim.Model, np.ndarray, dict[str, Any]]:
    """Return the moving model of a robot file, without collisions."""
    return moving(quietly(sim.load, path, dtype="float64", collision=False))


def read_for_mujoco(path: Path) -> Any:
    """Return the model of a file with the attributes of MuJoCo."""
    builder = newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
    quietly(builder.add_usd, str(path), schema_resolvers=[SchemaResolverNewton(), SchemaResolverPhysx()])
    return quietly(builder.finalize, device="cpu")


def poses_by_mujoco(model: sim.Model, peer: Any, qd: dict[str, Any], dt: float) -> tuple[np.ndarray, Any]:
    """Return the poses of the bodies after the duration, in the order of the model, and MuJoCo's model."""
    engine = quietly(newton.solvers.SolverMuJoCo, peer, use_mujoco_cpu=True, disable_contacts=True)
    state, other, control = peer.state(), peer.state(), peer.control()
    velocity, starts = state.joint_qd.numpy(), peer.joint_qd_start.numpy()
    for joint, start in zip((label.rsplit("/", 1)[-1] for label in peer.joint_label), starts[:-1], strict=True):
        if joint in qd:
            velocity[start : start + len(qd[joint])] = qd[joint]
    state.joint_qd.assign(velocity)
    for _ in range(round(DURATION / dt)):
        state.clear_forces()
        engine.step(state, other, control, None, dt)
        state, other = other, state
    newton.eval_fk(peer, state.joint_q, state.joint_qd, state)
    names = links_of(peer)
    order = [names.index(name) for name in model.link_names if name in names]
    return state.body_q.numpy()[order].astype(float), engine.mj_model


def of_case(name: str, folder: Path) -> tuple[sim.Model, np.ndarray, dict[str, Any]]:
    """Return the model of a case with its coordinates and velocities; ``folder`` may have its file."""
    case = CASES[name]
    return case(folder) if "tmp_path" in inspect.signature(case).parameters else case()


def differences(case: tuple[sim.Model, np.ndarray, dict[str, Any]], folder: Path) -> tuple[float, float]:
    """Return the relative difference of the masses and the largest difference of the final poses of a case."""
    model, q, qd = case
    peer, ends = read_for_mujoco(written(folder, model, q)), []
    kept = np.flatnonzero(model.parameters["mass"])
    start = sim.forward_kinematics(model, q[None]).numpy()[0, kept]
    _, of_mujoco = poses_by_mujoco(model, peer, qd, DURATION)
    masses = np.sort(of_mujoco.body_mass[1:]), np.sort(model.parameters["mass"][kept])
    for poses in (lambda dt: poses_by_mujoco(model, peer, qd, dt)[0], lambda dt: poses_here(model, q, qd, dt)[kept]):
        coarse, fine = (poses(dt) for dt in STEPS)
        ends.append(same_sign(2.0 * same_sign(fine, coarse) - coarse, start))
    return float(np.abs(masses[0] / masses[1] - 1.0).max()), float(np.abs(ends[0] - ends[1]).max())


def main() -> None:
    """Print the differences of each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", help="a folder with the package mujoco_warp")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="robot files in place of the cases")
    arguments = parser.parse_args()
    if arguments.packages:
        sys.path.append(arguments.packages)
    warnings.simplefilter("ignore")
    for name in arguments.files or CASES:
        with tempfile.TemporaryDirectory() as folder:
            case = of_file(name) if isinstance(name, Path) else of_case(name, Path(folder))
            masses, poses = differences(case, Path(folder))
        print(f"{name}: masses {masses:.1e}, poses {poses:.1e}", flush=True)


if __name__ == "__main__":
    main()
