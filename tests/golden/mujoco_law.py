"""Golden cases of MuJoCo's law: cones, noslip, integrators, tendons, transmissions, activations, sensors."""

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import sim
from tests.actuators import test_frames_and_contacts as transmissions
from tests.actuators import test_states as activations
from tests.actuators import test_tendon_sums
from tests.contact.mujoco import scenes, test_noslip, test_tendon_armature, test_tendon_wrapping, test_tendons
from tests.golden import mechanisms, plain
from tests.golden.case import Case, register
from tests.importers.mjcf_zoo import load_quietly

SOFT = ("solref", "solimp")
ACTUATORS = ("actuator_gear", "actuator_kp", "actuator_kd", "actuator_force_limit")
CONE, PYRAMID = (sim.MujocoContact(friction=friction) for friction in ("cone", "pyramid"))
SOLIMP = (0.7, 0.95, 0.02, 0.4, 3.0)


def in_folder(make: Callable[[Path], sim.Model]) -> sim.Model:
    """A model of a file that is written into a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        return make(Path(folder))


def bodies(cone: str = "elliptic", integrator: str = "euler", box: int = 3, **others: Any) -> Case:
    """Bodies that slide, roll and lie, and an arm beyond its limits with dry friction and servos."""
    with tempfile.TemporaryDirectory() as folder:
        pair = scenes.Pair(Path(folder), cone, box=box)
    contact = replace(pair.contact, solref=scenes.SOLREF, solimp=SOLIMP)
    names = ("friction", "friction_loss", "upper_limit", "armature", "stiffness", *ACTUATORS, *SOFT)
    return Case(
        pair.model, scenes.DT, contact, q=pair.q, qd=pair.qd, control=scenes.CONTROL, names=names, steps=30,
        options={"integrator": integrator}, **others,
    )  # fmt: skip


def noslip(cone: str, **others: Any) -> Case:
    """Bodies in islands with friction of all dimensions, and sweeps of the noslip solver."""
    with tempfile.TemporaryDirectory() as folder:
        _, model, qd = test_noslip.scene(Path(folder), cone, test_noslip.RESISTING, sweeps=4, impratio=2.0)
    friction = {"elliptic": "cone", "pyramidal": "pyramid"}[cone]
    contact = sim.MujocoContact(friction=friction, impratio=2.0, noslip_iterations=4)
    names = ("friction", "torsional_friction", "rolling_friction", "friction_loss", "tendon_friction_loss")
    return Case(model, test_noslip.DT, contact, qd=qd, names=names, steps=30, **others)


def tendons(integrator: str = "euler", **others: Any) -> Case:
    """Fixed and spatial tendons with pulleys, limits, ties and actuators."""
    model = in_folder(lambda folder: load_quietly(test_tendons.written(folder)))
    q, qd = test_tendons.start(model)
    return Case(
        model, test_tendons.DT, CONE, q=q, qd=qd, control=test_tendons.CONTROL, names=mechanisms.TENDONS, steps=30,
        options={"integrator": integrator}, **others,
    )  # fmt: skip


def from_text(text: str, dt: float, contact: sim.ContactMethod, integrator: str = "euler", **others: Any) -> Case:
    """A file without a motion of its own."""

    def load(folder: Path) -> sim.Model:
        (folder / "scene.xml").write_text(text)
        return load_quietly(folder / "scene.xml")

    model = in_folder(load)
    options = {"integrator": integrator}
    return Case(model, dt, contact, qd=0.3 * np.cos(1.7 * np.arange(model.nv)), options=options, steps=30, **others)


def acting_frames(integrator: str = "euler", contact: sim.ContactMethod = CONE, **others: Any) -> Case:
    """Actuators on frames, with references, on joints, and adhesion."""
    model = in_folder(lambda folder: load_quietly(transmissions.written(folder)))
    q, qd = transmissions.start(model)
    names = (*ACTUATORS, "actuator_force_axis", "actuator_torque_axis", "actuator_time_constant", "geometry_placement")
    return Case(
        model, transmissions.DT, contact, q=q, qd=qd, act=(0.3,), control=transmissions.CONTROL, names=names, steps=30,
        options={"integrator": integrator}, **others,
    )  # fmt: skip


def states(integrator: str, contact: sim.ContactMethod = CONE, **others: Any) -> Case:
    """Actuators with states of all dynamics, on joints and on a tendon."""
    model = in_folder(lambda folder: _quietly(activations.load, folder))
    act = 0.15 * np.sin(1.0 + np.arange(model.na))
    return Case(
        model, 0.005, contact, act=act, control=np.cos(np.arange(model.nu)), spread=0.5,
        names=(*activations.STATES, "actuator_gear", "actuator_kp"), options={"integrator": integrator}, **others,
    )  # fmt: skip


def _quietly(load: Callable[[Path], sim.Model], folder: Path) -> sim.Model:
    with warnings.catch_warnings(action="ignore", category=sim.MJCFWarning):
        return load(folder)


register("mujoco_quadruped_1", plain.standing, contact=CONE)
register("mujoco_quadruped_32", plain.standing, contact=CONE, worlds=32)
register("mujoco_pyramid_quadruped_32", plain.standing, contact=PYRAMID, worlds=32)
register("mujoco_quadruped_float32", plain.standing, "float32", contact=CONE, worlds=16, steps=20)
register("mujoco_shapes", plain.shapes, contact=CONE)
register("mujoco_skis", plain.skis, rolling=(0.01, 0.03), contact=CONE)
register("mujoco_stack_12", plain.stack, 12, contact=CONE, names=("friction", "geometry_size"), steps=20)
register("mujoco_smooth_shapes_16", plain.shapes, contact=CONE, worlds=16, rough=False)
register("mujoco_flying", mechanisms.flying, compliant=False, contact=CONE)
register("mujoco_led", mechanisms.led, CONE)
register("mujoco_loops", mechanisms.loops, contact=CONE)
for _cone in ("elliptic", "pyramidal"):
    register(f"mujoco_{_cone}_1", bodies, _cone)
    register(f"mujoco_{_cone}_16", bodies, _cone, worlds=16)
    register(f"mujoco_noslip_{_cone}", noslip, _cone)
    register(f"mujoco_noslip_{_cone}_16", noslip, _cone, worlds=16)
register("mujoco_condim_6", bodies, box=6)
for _integrator in ("explicit", "implicit", "implicitfast", "rk4"):
    register(f"mujoco_{_integrator}_1", bodies, integrator=_integrator)
    register(f"mujoco_{_integrator}_16", bodies, integrator=_integrator, worlds=16)
    register(f"mujoco_states_{_integrator}", states, _integrator)
register("mujoco_tendons_explicit", tendons, "explicit")
register("mujoco_tendons_rk4", tendons, "rk4")
register("mujoco_rk4_checkpoints", bodies, integrator="rk4", interval=4)
register("mujoco_tendons_1", tendons)
register("mujoco_tendons_16", tendons, worlds=16)
register(
    "mujoco_wrapped", from_text, test_tendon_wrapping.XML, 0.002, CONE,
    names=("tendon_wrap_centre", "tendon_wrap_radius", *mechanisms.TENDONS),
)  # fmt: skip
register(
    "mujoco_tendon_armature", from_text, test_tendon_armature.XML.format(integrator="Euler"), 0.003, CONE,
    names=("tendon_armature", "friction", *mechanisms.TENDONS),
)  # fmt: skip
for _name, _contact, _integrator in (
    ("mujoco_sums", CONE, "euler"), ("midpoint_sums", sim.HardContact(), "midpoint"),
):  # fmt: skip
    register(
        _name, from_text, test_tendon_sums.MJCF.format(integrator="Euler"), 0.002, _contact, _integrator,
        control=test_tendon_sums.CONTROLS["above"], names=test_tendon_sums.PARAMETERS,
    )  # fmt: skip
register("mujoco_frames", acting_frames)
register("mujoco_frames_rk4", acting_frames, "rk4")
register("frames_16", acting_frames, contact=sim.ModelContact(), worlds=16)
register("mujoco_states", states, "euler")
register("states_16", states, "euler", activations.HARD, worlds=16)
register("mujoco_sensors", mechanisms.sensors, CONE, keeps_solved=True)
register("mujoco_sensors_16", mechanisms.sensors, PYRAMID, worlds=16, keeps_solved=True)
register("mujoco_sensors_rk4", mechanisms.sensors, CONE, "rk4", keeps_solved=True)
