"""From a builder to a model: how it orders and numbers, what it merges, names and slices."""

import dataclasses

import numpy as np
import pytest
import torch
import warp as wp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import sim
from tests.errors import raises_naming
from tests.importers.reference import link_poses, matrix, random_coordinates
from tests.model.trees import UNIT, chain, random_tree
from warp_kernels import types as codes


def composite(model, q):
    """Mass, centre and inertia about the centre, in world axes, of all links together."""
    masses = model.parameters["mass"]
    poses = link_poses(model, q)
    centres = np.array(
        [pose[:3, :3] @ com + pose[:3, 3] for pose, com in zip(poses, model.parameters["com"], strict=True)]
    )
    centre = masses @ centres / masses.sum()
    inertia = np.zeros((3, 3))
    for pose, own, mass, at in zip(poses, model.parameters["inertia"], masses, centres, strict=True):
        arm = at - centre
        inertia += pose[:3, :3] @ own @ pose[:3, :3].T + mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    return masses.sum(), centre, inertia


class TestWelding:
    def test_two_balls_on_a_massless_rod(self):
        """A dumbbell: 2 * (2/5 m r^2) along the rod, plus 2 m d^2 across it."""
        builder = sim.ModelBuilder()
        builder.add_link("rod")
        builder.add_joint("free", "free", child="rod")
        for name, side in (("left", -1.0), ("right", 1.0)):
            builder.add_link(name, mass=3.0, inertia=np.full(3, 0.4 * 3.0 * 0.2**2))
            builder.add_joint(name, "fixed", parent="rod", child=name, position=(0.0, side * 0.5, 0.0))
        ball, spread = 2.0 * 0.4 * 3.0 * 0.04, 2.0 * 3.0 * 0.25
        model = builder.finalize("float64")
        assert model.link_names == ("rod",)
        assert_allclose(model.parameters["inertia"][0], np.diag((ball + spread, ball, ball + spread)), atol=1e-15)
        loose = builder.finalize("float64", collapse_fixed=False)
        assert loose.link_names == ("rod", "left", "right")
        for got, expected in zip(composite(loose, loose.q0), composite(model, model.q0), strict=True):
            assert_allclose(got, expected, atol=1e-15)

    @given(seed=st.integers(0, 2**32 - 1))
    def test_collapsing_keeps_mass_inertia_and_frames(self, seed):
        rng = np.random.default_rng(seed)
        builder = random_tree(rng, 8, ("fixed", "fixed", "revolute", "spherical"))
        merged, loose = builder.finalize("float64"), builder.finalize("float64", collapse_fixed=False)
        assert (merged.nq, merged.nv) == (loose.nq, loose.nv)
        moving = [name for name in loose.joint_names if name in merged.joint_names]
        assert moving == list(merged.joint_names)
        q = random_coordinates(merged, rng)
        # The first link is free: everything moves, nothing is lost to the world.
        for got, expected in zip(composite(loose, q), composite(merged, q), strict=True):
            assert_allclose(got, expected, rtol=1e-10, atol=1e-10)
        poses = link_poses(merged, q), link_poses(loose, q)
        for frame in merged.frames:
            other = loose.frame(frame.name)
            here, there = (world[f.link] @ matrix(f.placement) for world, f in zip(poses, (frame, other), strict=True))
            assert_allclose(here, there, atol=1e-10)

    def test_what_is_welded_to_the_world_is_not_simulated(self):
        builder = chain("fixed", "revolute", "fixed")
        model = builder.finalize("float64")
        assert model.link_names == ("l1",)
        assert model.parameters["mass"].tolist() == [2.0]
        assert model.frame("l0").link == -1


class TestOrder:
    @given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 12))
    def test_random_trees(self, seed, count):
        builder = random_tree(np.random.default_rng(seed), count, ("revolute", "prismatic", "spherical", "fixed"))
        builder.add_sphere(radius=1.0, mass=1.0, name="ball")
        model = builder.finalize()
        check_depth_first(model)
        check_degrees_of_freedom(model)

    def test_children_in_the_order_of_their_joints(self):
        builder = sim.ModelBuilder()
        for name in "dcba":
            builder.add_link(name, mass=1.0, inertia=UNIT)
        builder.add_joint("a", "free", child="a")
        builder.add_joint("d", "revolute", parent="a", child="d")
        builder.add_joint("b", "revolute", parent="a", child="b")
        builder.add_joint("c", "revolute", parent="d", child="c")
        assert builder.finalize().link_names == ("a", "d", "c", "b")

    def test_trees_in_the_order_of_their_roots(self):
        builder = sim.ModelBuilder()
        for name in "ab":
            builder.add_link(name, mass=1.0, inertia=UNIT)
        for name in "ba":
            builder.add_joint(name, "free", child=name)
        model = builder.finalize()
        assert model.link_names == ("a", "b")
        assert model.link_tree.tolist() == [0, 1]
        assert model.tree_link_start.tolist() == [0, 1, 2]

    def test_empty_world(self):
        model = sim.ModelBuilder().finalize()
        assert (model.num_links, model.num_trees, model.nq, model.nv, model.max_depth) == (0, 0, 0, 0, 0)

    def test_unknown_dtype(self):
        with raises_naming("unknown", "dtype", "'float16'", "float32", "float64"):
            sim.ModelBuilder().finalize("float16")

    @pytest.mark.parametrize("dtype", ["float64", np.float64, np.dtype("float64"), torch.float64, wp.float64])
    def test_types_of_other_libraries(self, dtype):
        assert sim.ModelBuilder().finalize(dtype).dtype == "float64"


def check_depth_first(model):
    """Every subtree is a run of links, children after their parent, trees one after the other."""
    parent = model.link_parent
    for link in range(model.num_links):
        assert parent[link] < link
        subtree = [link]
        for other in range(link + 1, model.num_links):
            if parent[other] in subtree:
                subtree.append(other)
        assert subtree == list(range(link, link + len(subtree)))
    assert np.flatnonzero(parent < 0).tolist() == model.tree_link_start[:-1].tolist()
    assert model.tree_link_start[-1] == model.num_links
    for tree in range(model.num_trees):
        assert set(model.link_tree[model.tree_link_start[tree] : model.tree_link_start[tree + 1]]) == {tree}


def check_degrees_of_freedom(model):
    """The path of every degree of freedom to the root is that of its link's ancestors."""
    path: dict[int, list[int]] = {-1: []}
    for link in range(model.num_links):
        own = np.flatnonzero(model.dof_link == link).tolist()
        path[link] = path[int(model.link_parent[link])] + own
        assert model.link_tail_dof[link] == (path[link][-1] if path[link] else -1)
        for k in own:
            before = path[link][: path[link].index(k)]
            assert model.dof_depth[k] == len(before)
            assert model.dof_parent[k] == (before[-1] if before else -1)
            scalar = model.joint_type[link] in (codes.REVOLUTE, codes.PRISMATIC)
            assert model.dof_q[k] == (model.joint_q_start[link] if scalar else -1)
    assert model.dof_row_start.tolist() == np.concatenate([[0], np.cumsum(model.dof_depth)])[:-1].astype(int).tolist()
    assert model.max_depth == (max(len(dofs) for dofs in path.values()))


class TestSlices:
    def builder(self):
        builder = chain("free", "spherical", "fixed", "revolute")
        self.arm = builder.add_part("arm", ["l0", "l1", "l2", "l3"], ["j0", "j1", "j2", "j3"])
        self.ball = builder.add_sphere(radius=1.0, mass=1.0)
        return builder

    def test_parts_and_joints(self):
        model = self.builder().finalize()
        assert (model.nq, model.nv) == (19, 16)
        assert (model.q_slice(self.arm), model.qd_slice(self.arm)) == (slice(0, 12), slice(0, 10))
        assert (model.q_slice(self.ball), model.qd_slice(self.ball)) == (slice(12, 19), slice(10, 16))
        assert (model.q_slice("arm"), model.qd_slice(self.ball.name)) == (slice(0, 12), slice(10, 16))
        assert (model.q_slice("j1"), model.qd_slice("j1")) == (slice(7, 11), slice(6, 9))
        assert (model.q_slice("j3"), model.qd_slice("j3")) == (slice(11, 12), slice(9, 10))

    def test_part_of_welded_links_is_empty(self):
        builder = self.builder()
        part = builder.add_part("weld", ["l2"], ["j2"])
        assert builder.finalize().q_slice(part) == slice(0, 0)

    def test_part_that_is_not_one_run_of_coordinates(self):
        builder = self.builder()
        part = builder.add_part("ends", ["l0", "l3"], ["j0", "j3"])
        with raises_naming("part 'ends'", "joints"):
            builder.finalize().q_slice(part)

    def test_unknown_names(self):
        model = self.builder().finalize()
        calls = {"joint": model.joint, "link": model.link, "frame": model.frame, "geometry": model.geometry}
        for what, call in (*calls.items(), ("joint", model.q_slice)):
            with pytest.raises(sim.ModelError, match=f"no {what} named 'gone'; there are"):
                call("gone")

    def test_a_link_in_place_of_its_joint(self):
        with raises_naming("no joint named 'l3'", "link 'l3'", "'j3'"):
            self.builder().finalize().q_slice("l3")


def test_models_of_one_builder_are_independent():
    builder = chain("free", "revolute")
    first = builder.finalize("float64")
    builder.add_sphere(radius=1.0, mass=1.0)
    second = builder.finalize("float64")
    second.parameters["mass"][:] = 0.0
    assert (first.num_links, second.num_links) == (2, 3)
    assert first.parameters["mass"].tolist() == [1.0, 1.0]
    assert builder.finalize().parameters["mass"].tolist()[:2] == [1.0, 1.0]


def test_unknown_joint_type():
    """A code that no branch knows is refused before it is taken for a fixed joint."""
    model = chain("revolute").finalize()
    types = np.array([7], dtype=np.int32)
    with raises_naming("joint 'j0'", "unknown", "type", 7, "1 (revolute)"):
        dataclasses.replace(model, joint_type=types)
