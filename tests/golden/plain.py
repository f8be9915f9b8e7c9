"""Golden cases of the plain path: robots, stacks, shapes and grounds under the law "hard"."""

from pathlib import Path
from typing import Any

import numpy as np
import trimesh

import scenes
import sim
from scenes import crowd, quadruped
from scenes.physics import piles
from sim.model.geometries import Mesh
from tests.golden.case import Case, register

ARM = Path(scenes.__file__).parent / "robots" / "arm.urdf"
CONTACTS = ("friction", "geometry_size", "geometry_placement")
HARD = ("regularisation", "recovery_time")
PGS = sim.PgsContact()


def standing(dtype: str = "float64", contact: sim.ContactMethod | None = None, x: float = 0.0, **others: Any) -> Case:
    """A quadruped that lands on its feet, held by servos, at this distance from the origin [m]."""
    scene = quadruped.build(dtype, height=0.002, servo=True)
    options = {"names": ("joint_placement", "actuator_kp", "actuator_kd", *CONTACTS), **others}
    q = scene.q0 + np.concatenate([[x], np.zeros(len(scene.q0) - 1)])
    return Case(scene.model, contact=contact, q=q, control=quadruped.standing_legs(), spread=0.1, **options)


def arm(worlds: int = 1, **others: Any) -> Case:
    """An arm with dry friction, springs and armature, beyond a limit of its fourth joint."""
    builder = sim.ModelBuilder()
    builder.add_urdf(ARM, self_collision=False)
    for name, joint in builder.joints.items():
        if name.startswith("joint"):
            joint.friction_loss, joint.stiffness, joint.damping, joint.armature = 0.05, 0.4, 0.1, 0.02
    model = builder.finalize("float64")
    names = ("armature", "stiffness", "rest_position", "friction_loss", "upper_limit", "joint_placement", *HARD)
    q = model.q0 + 0.1 * np.sin(1.0 + np.arange(model.nq))
    q[0] = np.minimum(model.parameters["upper_limit"][0], 3.0) + 0.01
    return Case(model, worlds=worlds, q=q, spread=0.5, force=1.0, names=names, **others)


def stack(boxes: int, exact: bool = False, **others: Any) -> Case:
    """Cubes on top of each other, more or less, or exactly; with more than ten of them islands are solved apart."""
    model, rng = piles.stack(boxes).model, np.random.default_rng(0)
    q = model.q0.reshape(boxes, 7).copy()
    if not exact:
        q[:, :2] += 0.01 * rng.normal(size=(boxes, 2))
        q[:, 5] = np.sin(0.1 * rng.normal(size=boxes))
        q[:, 6] = np.sqrt(1.0 - q[:, 5] ** 2)
    options = {"names": (*CONTACTS, *HARD), **others}
    return Case(model, q=q.ravel(), spread=0.02, **options)


def pile(**others: Any) -> Case:
    """Dominoes that fall against each other, several islands."""
    return Case(piles.dominoes(6).model, dt=1 / 500, names=CONTACTS, steps=50, **others)


def balls(count: int, **others: Any) -> Case:
    """Balls in two layers that touch each other and the ground; a grid finds near ones among more than 128."""
    scene = crowd.loose("ball", count, "float64", layers=2, spacing=1.9 * crowd.SIZE)
    return Case(scene.model, names=("friction",), spread=0.2, **{"steps": 30, **others})


def crowded(**others: Any) -> Case:
    """Two quadrupeds with capsules that touch."""
    scene = crowd.quadrupeds(2, "float64", spacing=(0.58, 0.19))
    return Case(scene.model, q=scene.q0, names=("friction", "stiffness"), steps=20, **others)


def bouncing(worlds: int = 1, **others: Any) -> Case:
    """Balls and a box that bounce on the ground and against each other."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.4))
    for number, height in enumerate((0.105, 0.31)):
        builder.add_sphere(
            radius=0.1,
            mass=0.5,
            position=(0.02 * number, 0.0, height),
            surface=sim.Surface(restitution=0.7, friction=0.5),
        )
    builder.add_box(
        half_extents=(0.1, 0.12, 0.08),
        mass=1.0,
        position=(1.0, 0.0, 0.083),
        surface=sim.Surface(restitution=0.4, friction=0.6),
    )
    model = builder.finalize("float64")
    qd = np.zeros(model.nv)
    qd[2::6] = (-1.0, -2.0, -1.5)
    names = ("restitution", "friction", "geometry_size")
    return Case(model, worlds=worlds, qd=qd, names=names, spread=0.2, steps=30, **others)


def skis(rolling: tuple[float, float] = (0.0, 0.0), **others: Any) -> Case:
    """Boxes with a direction of friction, and a ball whose pair with the ground has two frictions."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.9))
    surface = sim.Surface(friction=0.2, friction_across=0.6, friction_direction=(1.0, 0.2, 0.0))
    for number in range(2):
        place = (number, 0.0, 0.0495)
        builder.add_box(half_extents=(0.2, 0.1, 0.05), mass=1.0, position=place, surface=surface)
    builder.add_sphere(radius=0.1, mass=0.5, position=(0.0, 1.0, 0.0995), name="ball")
    builder.set_pair_friction("ball/geometry", "ground", friction=(0.3, 0.7), rolling_friction=rolling)
    model = builder.finalize("float64")
    qd = np.tile([0.8, -0.5, 0.0, 0.2, 0.4, 0.6], 3)
    names = ("friction", "friction_across", "geometry_placement")
    return Case(model, qd=qd, names=names, spread=0.2, steps=30, **others)


def shapes(ground: str = "plane", worlds: int = 1, rough: bool = True, **others: Any) -> Case:
    """Bodies of all shapes that slide and roll on a plane, a heightfield or a mesh of triangles, and on each other.

    Unless they are rough, their contacts don't resist spinning and rolling.
    """
    builder = sim.ModelBuilder()
    rng = np.random.default_rng(0)
    if ground == "plane":
        builder.add_ground(surface=sim.Surface(friction=0.6))
    elif ground == "heightfield":
        builder.add_heightfield(0.02 * rng.normal(size=(21, 11)), spacing=0.2, surface=sim.Surface(friction=0.6))
    else:
        x, y = np.meshgrid(np.linspace(-2.0, 2.0, 9), np.linspace(-1.0, 1.0, 5), indexing="ij")
        vertices = np.stack([x, y, 0.02 * rng.normal(size=x.shape)], axis=-1).reshape(-1, 3)
        first = (5 * np.arange(8)[:, None] + np.arange(4)).reshape(-1, 1)
        builder.add_static_mesh(
            vertices,
            np.concatenate([first + np.array(triangle) for triangle in ((0, 5, 6), (0, 6, 1))]),
            surface=sim.Surface(friction=0.6),
        )
    rough_ones = {"torsional_friction": 0.03, "rolling_friction": 0.02} if rough else {}
    surface = sim.Surface(friction=0.7, **rough_ones)
    at = [(-1.5 + 0.6 * number, 0.05 * number, 0.12) for number in range(5)]
    builder.add_sphere(radius=0.1, mass=0.6, position=at[0], surface=surface)
    builder.add_capsule(
        radius=0.08, half_length=0.1, mass=0.7, position=at[1], orientation=(0.0, 0.7, 0.0, 0.71), surface=surface
    )
    builder.add_box(half_extents=(0.12, 0.1, 0.11), mass=0.8, position=at[2], surface=surface)
    builder.add_cylinder(radius=0.1, half_length=0.11, mass=0.9, position=at[3], surface=surface)
    builder.add_ellipsoid(semi_axes=(0.14, 0.1, 0.115), mass=1.0, position=at[4], surface=surface)
    sides = ((-0.05, 0.1), (0.05, 0.08))
    corners = np.array([(x * r, y * r, z) for z, r in sides for x in (-1, 1) for y in (-1, 1)])
    hull = trimesh.convex.convex_hull(corners)
    mesh = Mesh(np.array(hull.vertices), np.array(hull.faces))
    builder.add_link("hull", mass=0.5, inertia=(0.003, 0.003, 0.004))
    builder.add_joint("hull", "free", child="hull", position=(-0.3, 0.1, 0.285))
    builder.add_geometry("hull", "convex", size=(1.0, 1.0, 1.0), mesh=mesh, surface=sim.Surface(friction=0.5))
    model = builder.finalize("float64")
    qd = np.tile([0.8, -0.3, -0.2, 0.5, 1.0, -0.4], model.nv // 6)
    names = ["friction", "torsional_friction", "rolling_friction", "geometry_size"]
    if ground == "heightfield":
        names.append("height")
    return Case(model, worlds=worlds, qd=qd, names=names, spread=0.2, steps=30, **others)


register("quadruped_1", standing)
register("quadruped_32", standing, worlds=32, per_world=("mass", "damping"))
register("quadruped_32_float32", standing, "float32", worlds=32, steps=20)
for _worlds in (1, 32):
    register(f"quadruped_far_away_{_worlds}", standing, "float32", worlds=_worlds, x=1000.0, steps=20)
register("quadruped_two_shards", standing, worlds=70, steps=10)
register("quadruped_few_slots", standing, contact=sim.HardContact(max_contacts=2))
register("quadruped_bad_worlds", standing, worlds=16, options={"state_limit": (1e8, 4.0)})
register("quadruped_all_parameters", standing, names=None, steps=20)
register("quadruped_checkpoints", standing, interval=7, worlds=17)
register("arm_1", arm)
register("arm_32", arm, 32)
register("stack_3", stack, 3)
register("exact_stack", stack, 3, exact=True)
register("stack_3_32", stack, 3, worlds=32)
register("stack_12", stack, 12, steps=30, interval=8)
register("dominoes", pile)
register("balls_16", balls, 9, worlds=16)
register("many_balls", balls, 140, steps=5)
register("crowd", crowded)
register("bouncing_1", bouncing)
register("bouncing_16", bouncing, 16)
register("skis_16", skis, worlds=16)
register("skis_that_roll", skis, rolling=(0.01, 0.03))
register("shapes_plane", shapes)
register("shapes_plane_16", shapes, worlds=16)
register("smooth_shapes", shapes, rough=False)
for _room in (60, 100, 150):  # for contacts: solved and differentiated by lane groups, half of that, none
    register(
        f"smooth_shapes_{_room}_slots", shapes, rough=False, worlds=16, contact=sim.HardContact(max_contacts=_room)
    )
register("shapes_heightfield", shapes, "heightfield")
register("shapes_mesh", shapes, "mesh")
register("warm_start", stack, 4, contact=sim.HardContact(warm_start=True))
register("smoothing", standing, contact=sim.HardContact(gradient_smoothing=0.01))
register("smoothing_16", stack, 2, worlds=16, contact=sim.HardContact(gradient_smoothing=0.01))
register("pyramid", standing, contact=sim.HardContact(friction="pyramid"))
register("pyramid_16", standing, contact=sim.HardContact(friction="pyramid"), worlds=16)
register("pgs_unrolled", standing, contact=PGS)
register("pgs_unrolled_16", standing, contact=PGS, worlds=16)
register("pgs_implicit", standing, contact=sim.PgsContact(sweeps=300, adjoint="implicit", tolerance=1e-9))
register("pgs_warm_start", stack, 4, contact=sim.PgsContact(warm_start=True, cfm=0.05), names=CONTACTS)
register("pgs_pyramid", shapes, contact=sim.PgsContact(friction="pyramid", sweeps=30))
for _worlds in (1, 16):
    register(f"midpoint_{_worlds}", standing, worlds=_worlds, options={"integrator": "midpoint"})
