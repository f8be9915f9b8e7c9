"""MJCF files, converted to USD by the package ``mujoco-usd-converter`` and read here, compared with MuJoCo.

``python -m tests.importers.converted_files --python PYTHON FILE ...`` runs the converter with another Python, since it
brings its own USD library, which replaces that of this environment::

    python -m venv out/converter && out/converter/bin/pip install mujoco-usd-converter
    python -m tests.importers.converted_files --python out/converter/bin/python model.xml

Contacts are switched off in both programs: the converter has no masks of geoms. docs/usd.md lists what else it drops.
Files that differ are compared with MuJoCo's model of the file with the same losses (``converter_losses.py``), too.
"""

import argparse
import contextlib
import dataclasses
import io
import subprocess
import tempfile
import warnings
from pathlib import Path

import mujoco
import numpy as np

import sim
from tests.importers.converter_losses import needed
from warp_kernels.types import FREE, PRISMATIC, REVOLUTE, SPHERICAL

CONVERT = """import sys, mujoco_usd_converter
print(mujoco_usd_converter.Converter(layer_structure=False).convert(sys.argv[1], sys.argv[2]).path)"""
STEP = 1e-3
AGREED = 1.2e-6
KINDS = FREE, SPHERICAL, PRISMATIC, REVOLUTE  # in MuJoCo's order


def converted(python: str, source: Path, folder: Path) -> tuple[Path, list[str]]:
    """Return the USD file of an MJCF file, and the warnings of the converter."""
    done = subprocess.run([python, "-c", CONVERT, source, folder], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the converter refuses {source}: {done.stderr.strip().splitlines()[-1]}")
    return Path(done.stdout.strip().splitlines()[-1]), [line for line in done.stderr.splitlines() if "Warn" in line]


def joint_order(model: sim.Model, peer: mujoco.MjModel) -> list[str]:
    """Return the joints of the model in MuJoCo's order: by name, or where they are at first.

    Free joints have no prim, and the name of their body.
    """
    data, found = mujoco.MjData(peer), list[str]()
    mujoco.mj_forward(peer, data)
    moving = {name: link for link, name in enumerate(model.joint_names) if model.joint_type[link]}
    places = sim.forward_kinematics(model, model.q0[None]).numpy()[0, :, :3]
    for joint in range(peer.njnt):
        free = peer.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE
        name = f"{peer.body(int(peer.jnt_bodyid[joint])).name}_free" if free else peer.joint(joint).name
        if name not in moving:
            kind = KINDS[int(peer.jnt_type[joint])]
            others = [each for each, link in moving.items() if model.joint_type[link] == kind and each not in found]
            name = min(others, key=lambda each: float(np.abs(places[moving[each]] - data.xanchor[joint]).max()))
        found.append(name)
    return found


def differences(model: sim.Model, peer: mujoco.MjModel) -> dict[str, float]:
    """Return relative differences of the mass matrix and of accelerations with the actuators' forces."""
    peer.opt.timestep, peer.opt.solver, peer.opt.tolerance = STEP, mujoco.mjtSolver.mjSOL_NEWTON, 0.0
    peer.opt.iterations = peer.opt.ls_iterations = 100
    peer.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    if (model.nq, model.nv) != (peer.nq, peer.nv):
        raise RuntimeError(f"{model.nv} degrees of freedom, MuJoCo has {peer.nv}")
    simulator = sim.Simulator(model, **sim.mujoco_settings(model) | {"dt": STEP}, device="cpu")
    data, rng, order = mujoco.MjData(peer), np.random.default_rng(0), joint_order(model, peer)
    worst = {"mass matrix": 0.0, "accelerations": 0.0}
    if model.nu != peer.nu:
        raise RuntimeError(f"{model.nu} actuators, MuJoCo has {peer.nu}")
    for number in range(4):
        mujoco.mj_resetData(peer, data)
        if number:
            mujoco.mj_integratePos(peer, data.qpos, rng.uniform(-0.3, 0.3, peer.nv), 1.0)
            data.qvel[:] = rng.normal(size=peer.nv)
        data.ctrl[:], data.act[:] = rng.uniform(-0.5, 0.5, peer.nu), rng.uniform(0.0, 0.5, peer.na)
        activations = {"act": data.act[None].copy()} if peer.na else {}
        state = simulator.state(*sim.from_mujoco(model, data.qpos, data.qvel, joint_order=order), **activations)
        # Here mass matrices are those of bodies and joints; accelerations depend on the armature of tendons, too.
        armature, peer.tendon_armature[:] = peer.tendon_armature.copy(), 0.0
        mujoco.mj_forward(peer, data)
        full, before = np.zeros((peer.nv, peer.nv)), data.qvel.copy()
        mujoco.mj_fullM(peer, data, full)
        peer.tendon_armature[:] = armature
        # Columns of this map are unit velocities of MuJoCo, as velocities of the model.
        turn = np.array([sim.from_mujoco(model, data.qpos, each, joint_order=order)[1] for each in np.eye(peer.nv)]).T
        own = turn.T @ sim.mass_matrix(model, state.q).numpy()[0] @ turn
        mujoco.mj_step(peer, data)
        state = simulator.step(state, **({"control": data.ctrl[None].copy()} if peer.nu else {}))
        _, after = sim.to_mujoco(model, state.q.numpy()[0], state.qd.numpy()[0], joint_order=order)
        for name, one, other in (
            ("mass matrix", own, full), ("accelerations", (after - before) / STEP, (data.qvel - before) / STEP),
        ):  # fmt: skip
            worst[name] = max(worst[name], float(np.abs(one - other).max() / max(np.abs(other).max(), 1e-12)))
    return worst


def with_armature(model: sim.Model, armature: float) -> sim.Model:
    """Return the model with more armature [kg m^2, kg] at its hinges and slides, also of links without masses."""
    single = np.isin(np.asarray(model.joint_type)[model.dof_link], (REVOLUTE, PRISMATIC))
    changed = {"armature": model.parameters["armature"] + armature * single}
    return dataclasses.replace(model, parameters={**model.parameters, **changed}, massless_links=())


def compared(model: sim.Model, peer: mujoco.MjModel, armature: float) -> tuple[bool, str]:
    """Return whether a model agrees with MuJoCo's, both with more armature, and how far they differ."""
    if armature:
        single = np.isin(peer.jnt_type[peer.dof_jntid], (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE))
        peer.dof_armature += armature * single
        model = with_armature(model, armature)
    mujoco.mj_setConst(peer, mujoco.MjData(peer))
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            found = differences(model, peer)
    except (sim.ModelError, RuntimeError) as error:
        return False, str(error)
    return max(found.values()) <= AGREED, ", ".join(f"{name} {value:.1e}" for name, value in found.items())


def result(python: str, source: Path, folder: Path, armature: float) -> tuple[bool, str]:
    """Return whether a file agrees with MuJoCo's model of it once converted, and how far they differ, or why."""
    try:
        peer = mujoco.MjModel.from_xml_path(str(source))
    except ValueError as error:
        return False, f"MuJoCo refuses it: {str(error).splitlines()[0]}"
    try:
        path, dropped = converted(python, source, folder)
        model = sim.load(path, dtype="float64", collision=False)
    except (sim.ModelError, RuntimeError) as error:
        return False, f"{type(error).__name__}: {error}"
    for line in dropped:
        warnings.warn(line, stacklevel=1)
    agrees, said = compared(model, peer, armature)
    if not agrees:
        causes = list(needed(source, lambda lossy: compared(model, lossy, armature)[0]))
        said += f"; they agree without {', '.join(causes)}" if causes else "; not explained"
    return agrees, said


def main() -> int:
    """Print the differences of each file, and what the converter and the importer warn of."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="the Python that has mujoco-usd-converter")
    parser.add_argument("--armature", type=float, default=0.0, help="more of it, for singular mass matrices")
    parser.add_argument("--notes", action="store_true", help="print all warnings")
    parser.add_argument("files", nargs="+", type=Path)
    arguments = parser.parse_args()
    agreed = 0
    for source in arguments.files:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            agrees, line = result(arguments.python, source, Path(folder), arguments.armature)
        agreed += agrees
        print(f"{source}: {line}", flush=True)
        for note in said if arguments.notes else []:
            print(f"    {note.message}")
    print(f"{agreed} of {len(arguments.files)} agree to {AGREED:g}")
    return int(agreed < len(arguments.files))


if __name__ == "__main__":
    raise SystemExit(main())
