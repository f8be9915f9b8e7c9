"""Models written as USD in Newton's solver ``SolverMuJoCo``, which needs the package ``mujoco-warp``: masses, motion.

``python -m tests.exporters.newton_mujoco`` prints the differences of the models of ``test_newton_motion.py``, after
0.2 s and extrapolated to a time step of zero, under MuJoCo's law, whose couplings and dry friction are soft. With the
names of robot files, it prints those of these, without contacts, from joint positions in the middle of their limits
and random velocities. The package isn't among those of the tests; it is looked for in ``--packages`` too, a folder
that ``pip install --no-deps --target FOLDER mujoco-warp`` makes.
"""

import argparse
import dataclasses
import inspect
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import newton
import numpy as np
from newton.usd import SchemaResolverNewton, SchemaResolverPhysx
from pxr import Usd

import sim
from sim.model.softness import SOLREF
from sim.usd.annotations import kept_text
from sim.usd.motion import link_paths
from sim.usd.physics.series import Series
from tests.errors import quietly
from tests.exporters.test_newton_motion import CASES as WITHOUT_TENDONS
from tests.exporters.test_newton_motion import DURATION, links_of, poses_here, same_sign, written
from tests.usd.test_tendons import cords
from warp_kernels import types as codes

STEPS = 5e-4, 2.5e-4


def tendons() -> tuple[sim.Model, np.ndarray, dict[str, Any]]:
    """Return a model with tendons and their actuators, within their limits."""
    model = cords()
    return model, model.q0, {"near_joint": (0.3,), "far_joint": (-0.2,)}


def limited_servo() -> tuple[sim.Model, np.ndarray, dict[str, Any]]:
    """Return a model with a servo at the limit of its force, on a joint with a damper."""
    builder = sim.ModelBuilder()
    for k, options in enumerate(({}, {"parent": "link0", "position": (0, 0, -0.6)})):
        builder.add_link(f"link{k}", mass=1.0 + k, inertia=np.diag([0.1, 0.2, 0.15]), com=(0.1, 0, -0.3))
        spring = sim.Spring(damping=2.0)
        builder.add_joint(f"joint{k}", "revolute", child=f"link{k}", axis=(0, 1, 0), q0=0.9, spring=spring, **options)
    builder.add_actuator("joint1", "position", gains=sim.Gains(kp=300.0, kd=10.0), gear=2.0, force_limit=7.0)
    model = builder.finalize("float64")
    return model, model.q0, {"joint1": (0.5,)}


CASES = {**WITHOUT_TENDONS, "tendons": tendons, "limited servo": limited_servo}


def moving(model: sim.Model) -> tuple[sim.Model, np.ndarray, dict[str, Any]]:
    """Return a model with coordinates in the middle of its limits, and a random velocity of each joint.

    Joints in series are at rest: Newton has one name for all of them. Coupled joints follow their leaders.
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
    equalities, joint_of = model.equalities, [model.joint_names[link] for link in model.dof_link]
    for _ in equalities.coupling_names:  # as often, for those that follow a follower
        for row, (dof, other) in enumerate(zip(equalities.coupling_dof, equalities.coupling_other, strict=True)):
            ratio, offset = (model.parameters[f"coupling_{each}"][row] for each in ("ratio", "offset"))
            q[model.dof_q[dof]] = ratio * q[model.dof_q[other]] + offset
            if joint_of[dof] in rates:
                rates[joint_of[dof]] = (ratio * rates.get(joint_of[other], (0.0,))[0],)
    return model, q, rates


def of_file(path: Path) -> tuple[sim.Model, np.ndarray, dict[str, Any]]:
    """Return the moving model of a robot file, without collisions."""
    return moving(quietly(sim.load, path, dtype="float64", collision=False, visual=False))


def read_for_mujoco(path: Path) -> Any:
    """Return the model of a file with the attributes of MuJoCo."""
    builder = newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
    quietly(builder.add_usd, str(path), schema_resolvers=[SchemaResolverNewton(), SchemaResolverPhysx()])
    return quietly(builder.finalize, device="cpu")


def joint_names(path: Path) -> dict[str, str]:
    """Return the names of joints in the model, by their paths in the file written from it."""
    stage = Usd.Stage.Open(str(path))
    found = {str(prim.GetPath()): kept_text(prim, "joint_name") for prim in stage.Traverse()}
    return {each: name for each, name in found.items() if name is not None}


def poses_by_mujoco(
    model: sim.Model, peer: Any, names: dict[str, str], qd: dict[str, Any], dt: float
) -> tuple[np.ndarray, Any]:
    """Return the poses of the bodies after the duration, in the order of the model, and MuJoCo's model."""
    engine = quietly(
        newton.solvers.SolverMuJoCo, peer, use_mujoco_cpu=True, disable_contacts=True, tolerance=0.0, ls_tolerance=1e-6
    )
    if model.mujoco is None:  # its limits, which the file leaves to Newton, as MuJoCo's law has them
        engine.mj_model.jnt_solref[:] = SOLREF
    state, other, control = peer.state(), peer.state(), peer.control()
    velocity, starts = state.joint_qd.numpy(), peer.joint_qd_start.numpy()
    aims, targets = control.joint_target_q.numpy(), targets_of(model)
    for number, joint in enumerate(names.get(label, "") for label in peer.joint_label):
        if joint in qd:
            velocity[starts[number] : starts[number] + len(qd[joint])] = qd[joint]
        if joint in targets:
            aims[peer.joint_q_start.numpy()[number]] = targets[joint]
    state.joint_qd.assign(velocity)
    control.joint_target_q.assign(aims)
    for _ in range(round(DURATION / dt)):
        state.clear_forces()
        engine.step(state, other, control, None, dt)
        state, other = other, state
    newton.eval_fk(peer, state.joint_q, state.joint_qd, state)
    bodies = links_of(peer)
    order = [bodies.index(path.name) for path in link_paths(model) if path.name in bodies]
    return state.body_q.numpy()[order].astype(float), engine.mj_model


def as_newton_has_it(model: sim.Model) -> sim.Model:
    """Return the model with hinges and slides at zero at first, where Newton evaluates weights of soft constraints."""
    q0 = model.q0.copy()
    for name in model.joint_names:
        dofs = model.qd_slice(name)
        if dofs.stop - dofs.start == 1:
            q0[model.q_slice(name)] = 0.0
    return dataclasses.replace(model, q0=q0)


def targets_of(model: sim.Model) -> dict[str, float]:
    """Return the targets of servos with inputs of zero, within their ranges, by name of the joint."""
    if not model.nu:
        return {}
    parameters = model.parameters
    inputs = np.clip(0.0, parameters["actuator_control_lower"], parameters["actuator_control_upper"])
    joints = [model.joint_names[model.dof_link[dof]] if dof >= 0 else "" for dof in model.actuator_dof]
    targets = zip(joints, model.actuator_kind, inputs / parameters["actuator_gear"], strict=True)
    return {joint: target for joint, kind, target in targets if kind == codes.POSITION and joint}


def of_case(name: str, folder: Path) -> tuple[sim.Model, np.ndarray, dict[str, Any]]:
    """Return the model of a case with its coordinates and velocities; ``folder`` may have its file."""
    case = CASES[name]
    return case(folder) if "tmp_path" in inspect.signature(case).parameters else case()


def differences(case: tuple[sim.Model, np.ndarray, dict[str, Any]], folder: Path) -> tuple[float, float]:
    """Return the relative difference of the masses and the largest difference of the final poses of a case."""
    model, q, qd = case
    path, peers, ends = written(folder, model, q), as_newton_has_it(model), []
    peer, names = read_for_mujoco(path), joint_names(path)
    kept = np.flatnonzero(model.parameters["mass"])
    start = sim.forward_kinematics(model, q[None]).numpy()[0, kept]
    _, of_mujoco = poses_by_mujoco(model, peer, names, qd, DURATION)
    masses = np.sort(of_mujoco.body_mass[1:]), np.sort(model.parameters["mass"][kept])
    for poses in (
        lambda dt: poses_by_mujoco(model, peer, names, qd, dt)[0],
        lambda dt: poses_here(peers, q, qd, dt, contact=sim.MujocoContact(), integrator="euler")[kept],
    ):
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
