"""Pairs that never touch, against a list of all pairs."""

import copy
import pickle
from itertools import combinations, product

import numpy as np
import pytest

from sim.arrays.topology import packed_ancestors
from sim.model.topology import ExcludedPairs
from tests.errors import raises_naming
from tests.model.trees import random_tree


def listed(builder, group):
    """The pairs by their definition: welded links are one body, and each pair of links is looked at."""
    parent = {joint.child: joint for joint in builder.joints.values()}

    def body(link):
        while parent[link].parent != "world" and builder.joints[parent[link].name].type == 0:
            link = parent[link].parent
        return link

    apart = {frozenset(map(body, (joint.parent, joint.child))) for joint in parent.values() if joint.parent != "world"}
    apart |= {frozenset(map(body, pair)) for pair in combinations(group, 2)}
    owners = [spec.link for spec in builder.geometries.values()]
    solid = [index for index, spec in enumerate(builder.geometries.values()) if spec.geometry.collides]
    return {(i, j) for i, j in combinations(solid, 2) if frozenset((body(owners[i]), body(owners[j]))) in apart}


@pytest.mark.parametrize("seed", range(6))
def test_as_by_definition(seed):
    rng = np.random.default_rng(seed)
    builder = random_tree(rng, 9, ["fixed", "revolute", "spherical"])
    for link in list(builder.links):
        for _ in range(rng.integers(0, 3)):
            builder.add_geometry(link, "sphere", size=(0.1, 0.0, 0.0), collides=bool(rng.integers(0, 4)))
    group = [str(name) for name in rng.choice(list(builder.links), 5, replace=False)]
    builder.exclude_group(group)
    pairs = builder.finalize().excluded_pairs
    expected = listed(builder, group)
    assert pairs == expected
    assert set(pairs) == expected
    assert len(pairs) == len(expected)
    every = set(product(range(len(builder.geometries)), repeat=2))
    assert {pair for pair in every if pair in pairs} == expected
    assert pairs & every == expected
    assert ExcludedPairs.from_arrays(*pairs.arrays()) == expected
    assert pickle.loads(pickle.dumps(pairs)) == copy.deepcopy(pairs) == pairs


def test_unknown_link_of_a_group():
    builder = random_tree(np.random.default_rng(0), 3, ["revolute"])
    builder.exclude_group(["l0", "gone"])
    with raises_naming("exclude_collision", "unknown", "link 'gone'"):
        builder.finalize()


@pytest.mark.parametrize("seed", range(4))
def test_packed_ancestors(seed):
    """Each degree of freedom's row is the way from the root to it."""
    model = random_tree(np.random.default_rng(seed), 12, ["fixed", "revolute", "spherical"]).finalize()
    packed = packed_ancestors(model)
    for k in range(model.nv):
        path, above = [], model.dof_parent[k]
        while above >= 0:
            path.append(above)
            above = model.dof_parent[above]
        start = model.dof_row_start[k]
        np.testing.assert_array_equal(packed[start : start + model.dof_depth[k]], path[::-1])
