"""Free rotation: a precessing top, the flips of a body about its intermediate axis, a floating chain.

The step is semi-implicit Euler, with gyroscopic forces of single links by the midpoint rule. So the spin of a free body
along its axes is of second order in the time step and its energy is kept; other errors are of first order.
"""

import numpy as np
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import sim
from scenes.physics.scene import G, Motion, PhysicsScene, Quantity, conjugate, rotate, turn_about
from sim import ModelBuilder
from sim.model.model import Model

FIRST_ORDER = "first order in the time step"
SECOND_ORDER = "second order in the time step"
KEPT = "kept up to rounding"
# The tossed body: moments of inertia [kg m^2] and angular velocity [rad/s] along its axes, mostly about the second.
MOMENTS = np.array([0.01, 0.02, 0.03])
SPIN = np.array([0.02, 6.0, 0.0])


def top(dt: float = 1e-3) -> PhysicsScene:
    """Build a disc on a fixed tip in steady precession: I1 W^2 cos a - I3 w W + m g l = 0 (Goldstein, section 5.7)."""
    mass, height, tilt, spin = 0.5, 0.04, 0.4, 100.0
    moment, axial = 1.25e-3, 2.5e-3  # about the centre of mass, for a radius of 0.1 m
    about_tip = moment + mass * height**2
    cosine, momentum = np.cos(tilt), axial * spin
    root = np.sqrt(momentum**2 - 4 * about_tip * cosine * mass * G * height)
    rate = (momentum - root) / (2 * about_tip * cosine)
    builder = ModelBuilder()
    builder.add_link("top", mass=mass, com=(0.0, 0.0, height), inertia=(moment, moment, axial))
    builder.add_joint("tip", "spherical", child="top", q0=turn_about(1, tilt))
    # Along the top's axes; the vertical, the axis of precession, is (-sin a, 0, cos a) there.
    qd0 = np.array([-rate * np.sin(tilt), 0.0, spin])

    def axis(motion: Motion) -> np.ndarray:
        return rotate(motion.q[:, :4], np.array([0.0, 0.0, 1.0]))

    def precession(motion: Motion) -> float:
        direction = axis(motion)
        angle = np.unwrap(np.arctan2(direction[:, 1], direction[:, 0]))
        return float((angle[-1] - angle[0]) / (motion.time[-1] - motion.time[0]))

    def nutation(motion: Motion) -> float:
        return float(np.abs(np.arccos(axis(motion)[:, 2]) - tilt).max())

    quantities = (
        Quantity("precession", "rad/s", float(rate), 5e-4, FIRST_ORDER, precession),
        Quantity("nutation", "rad", 0.0, 7e-3, FIRST_ORDER, nutation),
    )
    return PhysicsScene("spinning top", builder.finalize("float64"), qd0, dt, 2.0, quantities)


def tossed_body(dt: float = 1e-3, seconds: float = 10.0) -> PhysicsScene:
    """Build a body that spins about its intermediate axis and flips repeatedly (Dzhanibekov), without gravity."""
    builder = ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_link("body", mass=1.0, inertia=MOMENTS)
    builder.add_joint("free", "free", child="body")
    model = builder.finalize("float64")

    def flips(motion: Motion) -> np.ndarray:
        return crossings(motion.time, _own_axes(motion)[:, 1])

    expected = crossings(*_euler_equations(seconds))
    quantities = (
        Quantity("first flip", "s", float(expected[0]), 2e-4, SECOND_ORDER, lambda m: float(flips(m)[0])),
        Quantity(
            "time between flips",
            "s",
            float(expected[1] - expected[0]),
            3e-6,
            SECOND_ORDER,
            lambda m: float(flips(m)[1] - flips(m)[0]),
        ),
        *_conserved(model, energy=1e-10, angular=1e-2, rule=KEPT),
    )
    return PhysicsScene("tossed body", model, np.array([0.0, 0.0, 0.0, *SPIN]), dt, seconds, quantities)


def crossings(time: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Return times at which a sampled function changes sign, by linear interpolation."""
    k = np.flatnonzero(np.diff(np.sign(value)) != 0)
    share = value[k] / (value[k] - value[k + 1])
    return time[k] + share * (time[k + 1] - time[k])


def floating_chain(dt: float = 1e-3) -> PhysicsScene:
    """Build seven links with all kinds of joints that tumble without gravity: momenta and energy are conserved."""
    rng = np.random.default_rng(4)
    builder = ModelBuilder(gravity=(0.0, 0.0, 0.0))
    kinds = ("free", "revolute", "spherical", "revolute", "prismatic", "spherical", "revolute")
    for k, kind in enumerate(kinds):
        half = rng.uniform(0.03, 0.1, 3)
        mass = rng.uniform(0.5, 1.5)
        inertia = mass / 3 * (half @ half - half**2)
        builder.add_link(f"link_{k}", mass=mass, com=rng.uniform(-0.05, 0.05, 3), inertia=inertia)
        if kind == "free":
            builder.add_joint(f"joint_{k}", kind, child=f"link_{k}")
            continue
        builder.add_joint(
            f"joint_{k}", kind, parent=f"link_{k - 1}", child=f"link_{k}", position=rng.uniform(-0.15, 0.15, 3),
            orientation=Rotation.random(rng=rng).as_quat(), axis=rng.normal(size=3),
        )  # fmt: skip
    model = builder.finalize("float64")
    qd0 = rng.normal(size=model.nv)
    momentum = Quantity("momentum, change", "", 0.0, 1.2e-3, FIRST_ORDER, lambda m: _change(_momentum(model, m)[:, 3:]))
    quantities = (momentum, *_conserved(model, energy=1.2e-3, angular=3e-2))
    return PhysicsScene("floating chain", model, qd0, dt, 2.0, quantities)


def _own_axes(motion: Motion) -> np.ndarray:
    """Return the angular velocity of a free body in body axes."""
    return rotate(conjugate(motion.q[:, 3:7]), motion.qd[:, 3:6])


def _euler_equations(seconds: float) -> tuple[np.ndarray, np.ndarray]:
    """Integrate Euler's equations with high order, and return the second component of the angular velocity."""
    time = np.linspace(0.0, seconds, 20001)

    def rate(_: float, w: np.ndarray) -> np.ndarray:
        return np.cross(MOMENTS * w, w) / MOMENTS

    found = solve_ivp(rate, (0.0, seconds), SPIN, method="DOP853", rtol=1e-12, atol=1e-14, t_eval=time)
    return time, found.y[1]


def _conserved(model: Model, *, energy: float, angular: float, rule: str = FIRST_ORDER) -> tuple[Quantity, Quantity]:
    """Return conserved quantities, with bounds on their largest relative change. rule: convergence of the energy
    error.
    """
    return (
        Quantity(
            "energy, change", "", 0.0, energy, rule,
            lambda m: _change(sim.kinetic_energy(model, m.q, m.qd).numpy()),
        ),
        Quantity(
            "angular momentum, change", "", 0.0, angular, FIRST_ORDER, lambda m: _change(_momentum(model, m)[:, :3])
        ),
    )  # fmt: skip


def _momentum(model: Model, motion: Motion) -> np.ndarray:
    """Return angular momentum about the centre of mass, then linear momentum [steps + 1, 6]."""
    return sim.centroidal_momentum(model, motion.q, motion.qd).numpy()


def _change(values: np.ndarray) -> float:
    """Return the largest change from the first value, relative to it."""
    values = values.reshape(len(values), -1)
    return float(np.linalg.norm(values - values[0], axis=1).max() / np.linalg.norm(values[0]))
