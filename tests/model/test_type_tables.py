"""Tables of joint and geometry types agree with the kernels and with the shapes that are drawn."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sim
from sim.model.geometries import Geometry, Mesh
from sim.model.joint_types import JOINT_TYPES
from sim.model.shapes.geometry_types import GEOMETRY_TYPES
from sim.model.shapes.inertia import mesh_mass_properties
from sim.render.tessellation import tessellate
from warp_kernels import types as codes

AXIS = np.array([2.0, -1.0, 2.0]) / 3.0
SIZE = np.array([0.3, 0.5, 0.7])
SOLID = [each.code for each in GEOMETRY_TYPES.values() if each.solid]


@pytest.mark.parametrize("code", JOINT_TYPES)
def test_kernels_have_each_joint_type(code):
    """Pose and motion of the child, and the coordinates after a time step, are those of the table's formulas."""
    kind = JOINT_TYPES[code]
    builder = sim.ModelBuilder()
    builder.add_link("link", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("joint", kind.name, child="link", axis=AXIS)
    model = builder.finalize("float64", collapse_fixed=False)
    rng = np.random.default_rng(code)
    q, qd = model.q0 + rng.uniform(-0.5, 0.5, model.nq), rng.normal(size=model.nv)
    if kind.quaternion is not None:
        turn = slice(kind.quaternion, kind.quaternion + 4)
        q[turn] /= np.linalg.norm(q[turn])
    pose = kind.pose(AXIS, q)
    assert_allclose(sim.forward_kinematics(model, q[None]).numpy()[0, 0], pose, atol=1e-14)
    reference = "local_world_aligned" if code == codes.FREE else "local"
    velocity = sim.link_velocities(model, q[None], qd[None], reference=reference).numpy()[0, 0]
    subspace = kind.subspace(AXIS)
    if code == codes.FREE:  # its linear velocity comes first
        subspace = np.roll(subspace, 3, axis=1)
    assert_allclose(velocity, subspace @ qd, atol=1e-14)
    step = 1e-6
    moved = sim.integrate(model, q[None], step * qd[None]).numpy()[0]
    after = sim.forward_kinematics(model, moved[None]).numpy()[0, 0]
    back = sim.forward_kinematics(model, sim.integrate(model, q[None], -step * qd[None]).numpy()).numpy()[0, 0]
    world = sim.link_velocities(model, q[None], qd[None], reference="local_world_aligned").numpy()[0, 0]
    assert_allclose((after - back)[:3] / (2.0 * step), world[3:], atol=1e-9)
    spin = 0.5 * world[:3]
    x, y, z, w = pose[3:]
    turned = np.array([*(w * spin + np.cross(spin, [x, y, z])), -spin @ [x, y, z]])
    assert_allclose((after - back)[3:] / (2.0 * step), turned, atol=1e-9)


def drawn(code: int) -> Mesh:
    """A shape's triangles."""
    shape = tessellate(Geometry("shape", -1, code, np.zeros(7), SIZE), segments=256)
    return Mesh(shape.vertices, shape.faces)


@pytest.mark.parametrize("code", SOLID)
def test_solids_have_the_volume_and_inertia_of_what_is_drawn(code):
    volume, moments = GEOMETRY_TYPES[code].solid(list(SIZE))
    expected, centre, inertia = mesh_mass_properties(drawn(code))
    assert_allclose(volume, expected, rtol=1e-3)
    assert_allclose(np.diag(moments), inertia, atol=1e-3 * moments.max())
    assert_allclose(centre, 0.0, atol=1e-9)


@pytest.mark.parametrize("code", SOLID)
def test_solids_reach_as_far_as_what_is_drawn(code):
    vertices = drawn(code).vertices
    for direction in np.random.default_rng(0).normal(size=(20, 3)):
        direction /= np.linalg.norm(direction)
        assert_allclose(GEOMETRY_TYPES[code].support(SIZE, direction), (vertices @ direction).max(), rtol=1e-3)
    assert_allclose(GEOMETRY_TYPES[code].extents(SIZE), vertices.max(axis=0), rtol=1e-3)


def test_types_have_names_and_ranks_of_their_own():
    types = list(GEOMETRY_TYPES.values())
    assert sorted(each.code for each in types) == list(range(codes.NUM_GEOMETRY_TYPES))
    assert len({each.name for each in types}) == len(types) == len({each.title for each in types})
    assert sorted(each.rank for each in types) == list(range(len(types)))
