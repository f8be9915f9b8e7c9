"""A conveyor, a suction cup that picks a parcel off it, a turntable and a spinning top.

The belt is a box that doesn't move, with a surface that does. It takes the parcel to a stop. A suction cup on two led
axes comes down, holds the parcel by a weld that is switched on where they are, and sets it on a turntable, which takes
it along. Beside them a top precesses. All of it is one scene, simulated by the midpoint integrator. What it prints
stands beside a closed form, if there is one.

    python -m examples.devices
    python -m examples.devices --out out/mine

Files: devices.gif; devices.usda; and devices.npz with q [steps + 1, nq] and dt.
"""

import argparse
import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

import sim
from examples.options import command, film_parser, make_folder, parse_example
from examples.outputs import write_arrays, write_motion

DT = 1 / 480
BELT_SPEED, FRICTION = 0.5, 0.5  # [m/s]; of the parcel on rubber
START, STOP = -0.45, 0.6  # of the parcel's centre, and of the wall at the end of the belt [m]
HALF, HEIGHT = 0.06, 0.3  # half an edge of the parcel, and the height of belt and turntable [m]
GAP = 0.001  # between cup and parcel where suction begins [m]
TABLE, TURNING = 1.2, 1.0  # of the turntable's centre [m], and its velocity [rad/s]
TOP = (0.35, -0.55, 0.2)  # of the tip of the top [m]
MASS, ARM, RADIUS, LEAN, SPIN = 0.5, 0.1, 0.08, 0.35, 80.0  # of the top: a disc on a rod [kg, m, m, rad, rad/s]
GRAVITY = 9.81

# Motion of the cup: each time, its place along the rail, and its height above a parcel [s, m, m].
LIFT = 0.25
PATH = (
    (0.0, STOP - HALF, LIFT), (2.4, STOP - HALF, LIFT), (2.9, STOP - HALF, GAP), (3.0, STOP - HALF, GAP),
    (3.5, STOP - HALF, LIFT), (4.5, TABLE, LIFT), (5.0, TABLE, GAP), (5.1, TABLE, GAP), (5.6, TABLE, LIFT),
    (7.0, TABLE, LIFT),
)  # fmt: skip
HELD = (3.0, 5.0)  # when suction is on [s]


@dataclass(frozen=True)
class Ride:
    """A motion of the scene.

    Attributes:
        model: the model.
        q: coordinates [steps + 1, nq].
        qd: velocities [steps + 1, nv].
    """

    model: sim.Model
    q: np.ndarray
    qd: np.ndarray


def build() -> sim.Model:
    """Return the model of all devices."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    rubber = sim.Surface(friction=1.0)
    belt = sim.Surface(friction=1.0, velocity=(BELT_SPEED, 0.0, 0.0))
    dark = (0.22, 0.23, 0.26, 1.0)
    builder.add_geometry(
        "world", "box", size=(0.65, 0.12, 0.03), position=(0.0, 0.0, HEIGHT - 0.03), surface=belt, rgba=dark
    )
    builder.add_geometry("world", "box", size=(0.02, 0.12, 0.03), position=(STOP + 0.02, 0.0, HEIGHT + 0.03))
    for x in (-0.5, 0.5):
        builder.add_geometry("world", "box", size=(0.03, 0.1, 0.12), position=(x, 0.0, 0.12))
    builder.add_geometry("world", "cylinder", size=(0.04, 0.13), position=(TABLE, 0.0, 0.13))
    builder.add_geometry("world", "box", size=(0.55, 0.03, 0.02), position=(0.5 * (STOP + TABLE), 0.09, 1.0))
    builder.add_box(
        name="parcel", half_extents=(HALF, HALF, HALF), mass=0.6, position=(START, 0.0, HEIGHT + HALF),
        surface=sim.Surface(friction=FRICTION), rgba=(0.80, 0.58, 0.32, 1.0),
    )  # fmt: skip
    builder.add_link("carriage")
    builder.add_joint(
        "rail", "prismatic", child="carriage", axis=(1.0, 0.0, 0.0), position=(0.0, 0.0, 1.0), kinematic=True
    )
    builder.add_link("cup")
    down = HEIGHT + 2.0 * HALF - 1.0
    builder.add_joint(
        "column", "prismatic", parent="carriage", child="cup", axis=(0.0, 0.0, 1.0), position=(0.0, 0.0, down),
        kinematic=True,
    )  # fmt: skip
    builder.add_geometry("carriage", "box", size=(0.05, 0.05, 0.03))
    builder.add_geometry("cup", "cylinder", size=(0.03, 0.02), position=(0.0, 0.0, 0.02), rgba=dark)
    builder.add_geometry("cup", "cylinder", size=(0.012, 0.3), position=(0.0, 0.0, 0.34))
    builder.add_weld_constraint("suction", "cup", "parcel", active=False)
    builder.add_link("table")
    builder.add_joint(
        "drive", "revolute", child="table", axis=(0.0, 0.0, 1.0), position=(TABLE, 0.0, HEIGHT - 0.02), kinematic=True
    )
    builder.add_geometry("table", "cylinder", size=(0.22, 0.02), surface=rubber, rgba=dark)
    add_top(builder)
    return builder.finalize("float64")


def add_top(builder: sim.ModelBuilder) -> None:
    """Add a top on a stand, which leans."""
    builder.add_geometry(
        "world", "cylinder", size=(0.03, 0.5 * TOP[2]), position=(TOP[0], TOP[1], 0.5 * TOP[2] - 0.005)
    )
    across = 0.25 * MASS * RADIUS**2
    builder.add_link("top", mass=MASS, com=(0.0, 0.0, ARM), inertia=(across, across, 2.0 * across))
    builder.add_joint(
        "tip", "spherical", child="top", position=TOP, q0=Rotation.from_euler("y", LEAN).as_quat(),
    )  # fmt: skip
    builder.add_geometry(
        "top", "cylinder", size=(RADIUS, 0.008), position=(0.0, 0.0, ARM), rgba=(0.75, 0.22, 0.17, 1.0)
    )
    builder.add_geometry("top", "capsule", size=(0.006, 0.5 * ARM), position=(0.0, 0.0, 0.6 * ARM))
    builder.add_geometry(
        "top", "box", size=(0.5 * RADIUS, 0.012, 0.001), position=(0.5 * RADIUS, 0.0, ARM + 0.0085),
        rgba=(1.0, 1.0, 1.0, 1.0),
    )  # fmt: skip


def precession() -> float:
    """Return the velocity with which the top precesses steadily [rad/s]: the slower solution of
    m g a = I3 w O - I1 O^2 cos(lean) with its moments about the tip.
    """
    along, across = 0.5 * MASS * RADIUS**2, 0.25 * MASS * RADIUS**2 + MASS * ARM**2
    half, weight = 0.5 * along * SPIN, MASS * GRAVITY * ARM
    return float(weight / (half + math.sqrt(half**2 - across * math.cos(LEAN) * weight)))


def ride() -> Ride:
    """Simulate the scene."""
    model = build()
    simulator = sim.Simulator(model, DT, device="cpu", contact=sim.HardContact(), integrator="midpoint")
    times, rail, height = np.array(PATH).T
    steps = round(times[-1] / DT)
    now = DT * np.arange(steps + 1)
    cup = np.stack([smooth(now, times, rail), smooth(now, times, height)], axis=1)
    led = np.concatenate([np.diff(cup, axis=0) / DT, np.full((steps, 1), TURNING)], axis=1)
    q, qd = model.q0.copy(), np.zeros(model.nv)
    q[model.q_slice("rail")], q[model.q_slice("column")] = cup[0]
    turning = precession() * Rotation.from_euler("y", LEAN).inv().apply([0.0, 0.0, 1.0])
    qd[model.qd_slice("tip")] = (turning[0], turning[1], SPIN)
    state = simulator.state(q, qd)
    parts = []
    for first, last in zip((0.0, *HELD), (*HELD, times[-1]), strict=True):
        if first == HELD[0]:
            sim.attach(simulator, state, "suction")
        elif first == HELD[1]:
            sim.detach(simulator, "suction")
        begin, end = round(first / DT), round(last / DT)
        part = simulator.rollout(state, steps=end - begin, kinematic_qd=led[begin:end, None])
        state = part.final_state
        parts.append([values.numpy()[int(begin > 0) :, 0] for values in (part.q, part.qd)])
    return Ride(model, *(np.concatenate(values) for values in zip(*parts, strict=True)))


def smooth(now: np.ndarray, times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Interpolate between values, at rest at each of them."""
    at = np.clip(np.searchsorted(times, now, side="right") - 1, 0, len(times) - 2)
    share = np.clip((now - times[at]) / (times[at + 1] - times[at]), 0.0, 1.0)
    return values[at] + (values[at + 1] - values[at]) * share**2 * (3.0 - 2.0 * share)


def measure(motion: Ride) -> dict[str, tuple[float, float]]:
    """Return quantities of a motion, each with its closed form."""
    model, q, qd = motion.model, motion.q, motion.qd
    parcel, box = q[:, model.q_slice("parcel")], qd[:, model.qd_slice("parcel")]
    riding = round(1.0 / DT)
    slip = BELT_SPEED * DT * riding - (parcel[riding, 0] - parcel[0, 0])
    axis = Rotation.from_quat(q[:, model.q_slice("tip")]).apply([0.0, 0.0, 1.0])
    angle = np.unwrap(np.arctan2(axis[:, 1], axis[:, 0]))
    return {
        "slip of the parcel on the belt [m]": (slip, BELT_SPEED**2 / (2.0 * FRICTION * GRAVITY)),
        "place of the parcel on the turntable [m]": (float(np.linalg.norm(parcel[-1, :2] - (TABLE, 0.0))), 0.0),
        "velocity of the parcel there [rad/s]": (float(box[-1, 5]), TURNING),
        "precession of the top [rad/s]": ((angle[-1] - angle[0]) / (DT * (len(q) - 1)), precession()),
        "change of its lean [rad]": (float(np.abs(np.arccos(axis[:, 2]) - LEAN).max()), 0.0),
    }


@command
def main() -> None:
    options = parse()
    motion = ride()
    for name, (found, expected) in measure(motion).items():
        print(f"{name}: {found:.4f}; closed form {expected:.4f}")
    write_arrays(options.out / "devices.npz", q=motion.q, dt=DT)
    written = write_motion(options, "devices", motion.model, motion.q, DT, speed=1.0, azimuth=-75.0, elevation=18.0)
    print(f"wrote devices.npz, {', '.join(path.name for path in written)} to {options.out}")


def parse() -> argparse.Namespace:
    options = parse_example(film_parser(__doc__, out="out/devices"))
    make_folder(options.out)
    return options


if __name__ == "__main__":
    main()
