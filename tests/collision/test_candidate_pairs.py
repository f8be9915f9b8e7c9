"""Which pairs of geometries are looked at, in which order, and which are refused."""

import numpy as np
import pytest

import sim
from sim.simulation.stepping.collision import CollisionModel, candidate_pairs, default_max_contacts
from tests.collision.harness import pebble
from tests.errors import raises_naming
from warp_kernels.collision.pairs import FAMILIES, HULL_ON_FIELD, ROUND_ON_FIELD
from warp_kernels.types import BOX, CAPSULE, CONVEX, CYLINDER, ELLIPSOID, HEIGHTFIELD, PLANE, SPHERE

UNSUPPORTED = [
    (PLANE, SPHERE),
    (HEIGHTFIELD, HEIGHTFIELD),
]


def bodies(*types: int, **options: object) -> sim.ModelBuilder:
    """The ground and one free body for each type."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    for number, kind in enumerate(types):
        add_body(builder, f"body_{number}", kind, **options)
    return builder


def add_body(builder: sim.ModelBuilder, name: str, kind: int, **options: object) -> None:
    builder.add_link(name, mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint(f"{name}_free", "free", child=name)
    mesh = pebble() if kind == CONVEX else None
    heights = np.zeros((2, 3)) if kind == HEIGHTFIELD else None
    size = (0.1, 0.2, 0.3)
    builder.add_geometry(name, kind, name=f"{name}_shape", size=size, mesh=mesh, heights=heights, **options)  # type: ignore[arg-type]


def named_pairs(builder: sim.ModelBuilder) -> list[tuple[str, str]]:
    model = builder.finalize()
    names = [geometry.name for geometry in model.geometries]
    return [(names[a], names[b]) for a, b in zip(*candidate_pairs(model), strict=True)]


def test_pairs_are_sorted_by_types():
    builder = bodies(CAPSULE, SPHERE)
    assert named_pairs(builder) == [
        ("ground", "body_1_shape"),
        ("ground", "body_0_shape"),
        ("body_1_shape", "body_0_shape"),
    ]
    first, second = candidate_pairs(builder.finalize())
    assert first.dtype == second.dtype == np.int32


def test_equal_types_are_ordered_by_index():
    assert named_pairs(bodies(SPHERE, SPHERE))[-1] == ("body_0_shape", "body_1_shape")


def test_shapes_of_one_link_never_touch():
    builder = bodies(SPHERE)
    builder.add_geometry("body_0", CAPSULE, name="arm", size=(0.1, 0.2, 0.0))
    assert named_pairs(builder) == [("ground", "body_0_shape"), ("ground", "arm")]


def test_shapes_that_do_not_collide_are_left_out():
    assert named_pairs(bodies(SPHERE, SPHERE, collides=False)) == []


def test_what_does_not_move_never_touches():
    builder = bodies()
    builder.add_geometry("world", BOX, name="wall", size=(1.0, 1.0, 1.0))
    builder.add_link("pedestal", mass=1.0)
    builder.add_joint("bolt", "fixed", child="pedestal")
    builder.add_geometry("pedestal", SPHERE, name="knob", size=(0.1, 0.0, 0.0))
    assert named_pairs(builder) == []
    first, _ = candidate_pairs(builder.finalize(collapse_fixed=False))
    assert len(first) == 0


def test_group_and_mask_must_agree_on_both_sides():
    def count(mask_a: int, mask_b: int) -> int:
        builder = sim.ModelBuilder()
        add_body(builder, "a", SPHERE, surface=sim.Surface(group=1, mask=mask_a))
        add_body(builder, "b", SPHERE, surface=sim.Surface(group=2, mask=mask_b))
        return len(named_pairs(builder))

    assert [count(2, 1), count(1, 1), count(2, 2), count(-1, -1), count(0, -1)] == [1, 0, 0, 1, 0]


def test_neighbours_and_excluded_links_are_left_out():
    builder = bodies(SPHERE, SPHERE)
    builder.add_link("hand", mass=1.0)
    builder.add_joint("wrist", "revolute", parent="body_0", child="hand")
    builder.add_geometry("hand", CAPSULE, name="palm", size=(0.1, 0.1, 0.0))
    builder.exclude_collision("body_1", "hand")
    assert named_pairs(builder) == [
        ("ground", "body_0_shape"),
        ("ground", "body_1_shape"),
        ("ground", "palm"),
        ("body_0_shape", "body_1_shape"),
    ]


@pytest.mark.parametrize("types", UNSUPPORTED)
def test_unsupported_pair_names_both_shapes_and_says_what_to_do(types):
    with pytest.raises(sim.ModelError, match="exclude_collision") as caught:
        candidate_pairs(bodies(*types).finalize())
    message = str(caught.value)
    assert "not supported" in message
    assert "_shape'" in message
    assert "link 'body_0'" in message


def test_excluded_unsupported_pair_is_fine():
    builder = bodies(PLANE)
    builder.exclude_collision("body_0", "world")
    assert named_pairs(builder) == []


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ((), 0),
        ((SPHERE,), 1),
        ((BOX,), 4),
        ((CONVEX,), 4),
        ((CYLINDER,), 4),
        ((ELLIPSOID, SPHERE), 3),
        ((SPHERE, CAPSULE), 1 + 2 + 1),
        ((CAPSULE,) * 3, 3 * 2 + 3 * 2),
    ],
)
def test_room_for_contacts_is_their_largest_number(types, expected):
    assert default_max_contacts(bodies(*types).finalize(), 0.0) == expected


def test_mesh_and_heightfield_too_fine_to_number_their_features_are_refused():
    builder = sim.ModelBuilder()
    add_body(builder, "body", CONVEX)
    builder.add_heightfield(np.zeros((3000, 3000)), spacing=0.0001, name="terrain")
    with raises_naming("24 vertices", "'terrain'", "9000000 points"):
        CollisionModel(builder.finalize(), "cpu")


def test_pairs_with_a_heightfield_come_last():
    builder = bodies(CAPSULE, BOX, SPHERE)
    builder.exclude_collision("body_0", "body_1")
    builder.add_heightfield(np.zeros((2, 2)), spacing=1.0, name="terrain")
    collision = CollisionModel(builder.finalize(), "cpu")
    model = builder.finalize()
    assert [collision.pairs[family].first for family in (ROUND_ON_FIELD, HULL_ON_FIELD)] == [5, 7]
    assert [model.geometries[b].name == "terrain" for b in collision.pair_b.numpy()] == [False] * 5 + [True] * 3
    assert [model.geometries[a].type for a in collision.pair_a.numpy()[5:]] == [SPHERE, CAPSULE, BOX]
    assert default_max_contacts(model, 0.0) == 1 + 2 + 4 + 1 + 1 + 3 * 4


def test_heights_of_all_fields_follow_each_other():
    builder = sim.ModelBuilder()
    builder.add_heightfield([[1.0, 2.0], [3.0, 4.0]], spacing=1.0, name="first")
    builder.add_ground()
    builder.add_heightfield(np.arange(6.0).reshape(2, 3), spacing=1.0, name="second")
    model = builder.finalize()
    np.testing.assert_array_equal(model.parameters["height"], [1, 2, 3, 4, 0, 1, 2, 3, 4, 5])
    assert model.counts["height"] == 10
    assert CollisionModel(model, "cpu").geometries.field_shape.numpy().tolist() == [[0, 2, 2], [0, 0, 0], [4, 2, 3]]


def test_room_for_contacts_of_many_bodies_is_capped():
    assert default_max_contacts(bodies(*(CAPSULE,) * 20).finalize(), 0.0) == 4 * 20 + 8 * 19 + 16


def test_hulls_are_packed_in_order_of_geometries():
    builder = bodies(CONVEX, SPHERE)
    add_body(builder, "last", CONVEX)
    for link in ("body_1", "last"):
        builder.exclude_collision("body_0", link)
    builder.exclude_collision("body_1", "last")
    model = builder.finalize("float64")
    collision = CollisionModel(model, "cpu")
    count = len(pebble().vertices)
    assert collision.geometries.vertex_start.numpy().tolist() == [0, 0, count, count, 2 * count]
    np.testing.assert_array_equal(collision.geometries.hull_vertices.numpy(), np.tile(pebble().vertices, (2, 1)))


def test_model_without_pairs_has_empty_arrays():
    collision = CollisionModel(sim.ModelBuilder().finalize(), "cpu")
    assert collision.num_pairs == 0
    assert not any(collision.has_pairs(family) for family in FAMILIES)
    assert len(collision.colliding) == len(collision.geometries.hull_vertices) == 0
