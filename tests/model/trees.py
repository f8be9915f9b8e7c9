"""Trees of links for tests of the builder."""

import numpy as np
from scipy.spatial.transform import Rotation

import sim
from sim.model.specs import WORLD

UNIT = np.ones(3)


def chain(*types, mass=1.0):
    """Links l0, l1, ... each on the one before, by joints j0, j1, ... of these types."""
    builder = sim.ModelBuilder()
    for number, type in enumerate(types):
        builder.add_link(f"l{number}", mass=mass, inertia=UNIT)
        builder.add_joint(f"j{number}", type, parent=f"l{number - 1}" if number else WORLD, child=f"l{number}")
    return builder


def random_tree(rng, count, types):
    """Links in a random tree below a free root, their names in a random order of appearance."""
    builder = sim.ModelBuilder()
    for name in rng.permutation(count):
        axes = Rotation.random(rng=rng).as_matrix()
        inertia = axes @ np.diag(rng.uniform(1.0, 1.9, 3)) @ axes.T
        builder.add_link(f"l{name}", mass=rng.uniform(0.5, 2.0), com=rng.normal(size=3), inertia=inertia)
    builder.add_joint("j0", "free", child="l0")
    for name in rng.permutation(np.arange(1, count)):
        builder.add_joint(
            f"j{name}",
            str(rng.choice(types)),
            parent=f"l{rng.integers(0, name)}",
            child=f"l{name}",
            position=rng.normal(size=3),
            orientation=Rotation.random(rng=rng).as_quat(),
            axis=rng.normal(size=3),
        )
    return builder
