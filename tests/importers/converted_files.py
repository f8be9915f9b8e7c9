"""MJCF files, converted to USD by the package ``mujoco-usd-converter`` and read here, compared with MuJoCo.

``python -m tests.importers.converted_files --python PYTHON FILE ...`` runs the converter with another Python, since it
brings its own USD library, which replaces that of this environment::

    python -m venv out/converter && out/converter/bin/pip install mujoco-usd-converter
    python -m tests.importers.converted_files --python out/converter/bin/python model.xml

Contacts are switched off in both programs: the converter has no masks of geoms. docs/usd.md lists what else it drops.
"""

import argparse
import contextlib
import io
import subprocess
import tempfile
import warnings
from pathlib import Path

import mujoco
import numpy as np

import sim

CONVERT = """import sys, mujoco_usd_converter
print(mujoco_usd_converter.Converter(layer_structure=False).convert(sys.argv[1], sys.argv[2]).path)"""
STEP = 1e-3
AGREED = 1.2e-6


def converted(python: str, source: Path, folder: Path) -> tuple[Path, list[str]]:
    """Return the USD file of an MJCF file, and the warnings of the converter."""
    done = subprocess.run([python, "-c", CONVERT, source, folder], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the converter refuses {source}: {done.stderr.strip().splitlines()[-1]}")
    return Path(done.stdout.strip().splitlines()[-1]), [line for line in done.stderr.splitlines() if "Warn" in line]


def joint_order(model: sim.Model, peer: mujoco.MjModel) -> list[str]:
    """Return the joints of the model in MuJoCo's order; free joints have no prim, and the name of their body."""
    free = [mujoco.mjtJoint.mjJNT_FREE == kind for kind in peer.jnt_type]
    bodies = [peer.body(int(body)).name for body in peer.jnt_bodyid]
    names = [
        f"{body}_free" if own else peer.joint(k).name for k, (own, body) in enumerate(zip(free, bodies, strict=True))
    ]
    moving = [name for name, kind in zip(model.joint_names, model.joint_type, strict=True) if kind]
    return names if set(names) == set(moving) else moving


def differences(source: Path, converted_to: Path) -> dict[str, float]:
    """Return relative differences of the mass matrix and of accelerations with the actuators' forces."""
    peer = mujoco.MjModel.from_xml_path(str(source))
    peer.opt.timestep, peer.opt.solver, peer.opt.tolerance = STEP, mujoco.mjtSolver.mjSOL_NEWTON, 0.0
    peer.opt.iterations = peer.opt.ls_iterations = 100
    peer.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    model = sim.load(converted_to, dtype="float64", collision=False)
    if (model.nq, model.nv) != (peer.nq, peer.nv):
        raise RuntimeError(f"{model.nv} degrees of freedom, MuJoCo has {peer.nv}")
    simulator = sim.Simulator(model, **sim.mujoco_settings(model) | {"dt": STEP}, device="cpu")
    data, rng, order = mujoco.MjData(peer), np.random.default_rng(0), joint_order(model, peer)
    worst = {"mass matrix": 0.0, "accelerations": 0.0}
    for number in range(4):
        mujoco.mj_resetData(peer, data)
        if number:
            mujoco.mj_integratePos(peer, data.qpos, rng.uniform(-0.3, 0.3, peer.nv), 1.0)
            data.qvel[:] = rng.normal(size=peer.nv)
        data.ctrl[:] = rng.uniform(-0.5, 0.5, peer.nu)
        state = simulator.state(*sim.from_mujoco(model, data.qpos, data.qvel, joint_order=order))
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


def main() -> int:
    """Print the differences of each file, and what the converter and the importer warn of."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="the Python that has mujoco-usd-converter")
    parser.add_argument("--notes", action="store_true", help="print all warnings")
    parser.add_argument("files", nargs="+", type=Path)
    arguments = parser.parse_args()
    differ = 0
    for source in arguments.files:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                path, dropped = converted(arguments.python, source, Path(folder))
                with contextlib.redirect_stdout(io.StringIO()):
                    found = differences(source, path)
            except (sim.ModelError, RuntimeError, ValueError) as error:
                differ, line = differ + 1, f"{type(error).__name__}: {error}"
            else:
                differ += max(found.values()) > AGREED
                line = ", ".join(f"{name} {value:.1e}" for name, value in found.items())
        print(f"{source}: {line}", flush=True)
        for note in [*dropped, *(str(warning.message) for warning in said)] if arguments.notes else []:
            print(f"    {note}")
    print(f"{len(arguments.files) - differ} of {len(arguments.files)} agree to {AGREED:g}")
    return int(differ > 0)


if __name__ == "__main__":
    raise SystemExit(main())
