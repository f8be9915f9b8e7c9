"""Differences of the readings of a motion, relative to the largest reading of their kind."""

import math
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from bench.beside_mujoco.here import Engine
from bench.beside_mujoco.models import label, with_sensors
from bench.beside_mujoco.page import LOOSER
from bench.beside_mujoco.readings import Readings, motion_of, read_theirs
from bench.drift import farthest, random_inputs

ITERATIONS = 200  # of MuJoCo's solver and its line search, to convergence
CONTACTS = 1e-12  # tolerance of its search for contacts, likewise
NOTHING = 1e-12  # readings that are never larger are rounding


@dataclass
class Difference:
    """Largest difference over a motion, relative to ``largest``.

    Attributes:
        here: between the engines.
        converged: between this engine and MuJoCo with a solver that runs to convergence; None for free motions.
        spread: between MuJoCo and that, or for free motions between MuJoCo and MuJoCo with a looser tolerance.
        largest: the largest reading of the kind in MuJoCo; kinetic energy for energies.
    """

    here: float
    converged: float | None
    spread: float
    largest: float


@dataclass
class Row:
    """Result for one file.

    Attributes:
        name: name of the model.
        dofs: degrees of freedom.
        integrator: the file's integrator.
        touching: number of steps of MuJoCo's motion with contacts.
        along: at the states of MuJoCo's motion: "velocity" (change in a step), "energy" (after it), "contact"
            (forces on geoms), "constraint", "actuator" and "passive" (generalised forces).
        sensors: likewise, by kind.
        free: of motions that each engine computes by itself: "position" in m, the others as in ``along``.
        free_sensors: of these motions, by kind.
        left_out: quantities that aren't compared, with reasons.
    """

    name: str
    dofs: int
    integrator: str
    touching: int
    along: dict[str, Difference] = field(default_factory=dict)
    sensors: dict[str, Difference] = field(default_factory=dict)
    free: dict[str, Difference] = field(default_factory=dict)
    free_sensors: dict[str, Difference] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    @property
    def record(self) -> dict[str, Any]:
        """Return the row for JSON: numbers with three digits, without non-finite ones."""
        return _finite(asdict(self))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, float):
        return float(f"{value:.3g}") if math.isfinite(value) else None
    return value


def measure(path: Path, name: str, steps: int) -> Row:
    """Compare both engines along a motion of a file, and in free motions."""
    with tempfile.TemporaryDirectory() as folder:
        file = with_sensors(path, Path(folder), label(name))
        peer, exact, loose = (mujoco.MjModel.from_xml_path(str(file)) for _ in range(3))
        to_the_end(exact)
        loose.opt.tolerance *= LOOSER
        inputs = random_inputs(peer, steps)
        motion = motion_of(peer, inputs)
        engine = Engine(file, peer)
        found, theirs, converged = engine.read(motion), read_theirs(peer, motion), read_theirs(exact, motion)
        own, other = engine.move(motion), motion_of(loose, inputs)
        free, free_other = engine.read(own), read_theirs(loose, other)
    touching = int((np.abs(theirs.contacts).max(axis=(1, 2), initial=0.0) > 0.0).sum())
    integrator = mujoco.mjtIntegrator(peer.opt.integrator).name.removeprefix("mjINT_")
    row = Row(label(name), peer.nv, integrator, touching, left_out=list(dict.fromkeys(found.left_out)))
    kinds = {each.name: each.kind for each in engine.model.sensors}
    row.along, row.sensors = compared(found, theirs, converged, motion.qvel[:-1], kinds)
    distances = [
        max(farthest(peer, qpos, expected) for qpos, expected in zip(each.qpos, motion.qpos, strict=True))
        for each in (own, other)
    ]
    row.free, row.free_sensors = compared(free, theirs, free_other, motion.qvel[:-1], kinds)
    row.free["position"] = Difference(distances[0], None, distances[1], 1.0)
    for difference in (*row.free.values(), *row.free_sensors.values()):
        difference.converged = None
    return row


def to_the_end(peer: mujoco.MjModel) -> None:
    """Let Newton's method and the search for contacts run to convergence."""
    peer.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    peer.opt.tolerance = 0.0
    peer.opt.iterations = peer.opt.ls_iterations = ITERATIONS
    peer.opt.ls_tolerance = 1e-10
    peer.opt.ccd_tolerance, peer.opt.ccd_iterations = CONTACTS, ITERATIONS


def compared(
    found: Readings, theirs: Readings, other: Readings, before: np.ndarray, kinds: dict[str, str]
) -> tuple[dict[str, Difference], dict[str, Difference]]:
    """Return differences by quantity, and of sensors by kind."""
    every = (found, theirs, other)
    along = {
        "velocity": difference([each.qvel - before for each in every]),
        "energy": difference([each.energy.sum(axis=1) for each in every], float(theirs.energy[:, 0].max())),
    }
    if reads(theirs.contacts):
        along["contact"] = difference([each.contacts for each in every])
    for name in found.forces:
        if reads(theirs.forces[name]):
            along[name] = difference([each.forces[name] for each in every])
    sensors = {}
    for kind in sorted({kinds[name] for name in found.sensors}):
        names = [name for name in found.sensors if kinds[name] == kind]
        if any(reads(theirs.sensors[name]) for name in names):
            sensors[kind] = difference([np.concatenate(aligned(each, theirs, names), axis=1) for each in every])
    return along, sensors


def reads(values: np.ndarray) -> bool:
    """Return True if there are values above rounding errors."""
    return bool(np.abs(values).max(initial=0.0) > NOTHING)


def aligned(readings: Readings, theirs: Readings, names: list[str]) -> list[np.ndarray]:
    """Return readings of sensors; quaternions with the sign of MuJoCo's."""
    found = []
    for name in names:
        one, expected = readings.sensors[name], theirs.sensors[name]
        if one.shape[1] == 4:
            one = np.where((one * expected).sum(axis=1, keepdims=True) < 0.0, -one, one)
        found.append(one)
    return found


def difference(readings: Sequence[np.ndarray], largest: float | None = None) -> Difference:
    """Return the largest differences between Backswing, MuJoCo and MuJoCo's variant, relative to MuJoCo's largest
    value.
    """
    found, theirs, other = readings
    largest = float(np.abs(theirs).max()) if largest is None else largest
    pairs = (found, theirs), (found, other), (theirs, other)
    here, converged, spread = (float(np.abs(one - another).max()) / largest for one, another in pairs)
    return Difference(here, converged, spread, largest)
