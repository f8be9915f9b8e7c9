"""What the tests of written files share: reading back without a word, comparing models, a motion."""

import numpy as np
from numpy.testing import assert_allclose

import sim
from sim.render.tessellation import tessellate
from sim.render.view import transform_points
from sim.simulation.stepping.collision import candidate_pairs
from sim.simulation.stepping.pair_friction import pair_friction
from tests.importers.mjcf_zoo import random_state
from warp_kernels import types as codes

OF_DOFS = (
    "damping",
    "armature",
    "stiffness",
    "rest_position",
    "friction_loss",
    "lower_limit",
    "upper_limit",
    "limit_margin",
)
OF_LINKS = ("mass", "com", "inertia")


def assert_same_dynamics(a: sim.Model, b: sim.Model, q: np.ndarray, qd: np.ndarray, bound: float = 1e-10) -> None:
    """Mass matrix and bias force at the same states, relative to the largest entry."""
    for function, arguments in ((sim.mass_matrix, (q,)), (sim.bias_forces, (q, qd))):
        expected, found = (function(model, *arguments).numpy() for model in (a, b))
        assert_allclose(found, expected, rtol=0, atol=bound * np.abs(expected).max(initial=1e-300))


def assert_same_joints(a: sim.Model, b: sim.Model, gone: tuple[str, ...] = ()) -> None:
    """Moving joints in the same order with the same properties; parameters in ``gone`` are zero in b."""
    moving = [
        [name for name, kind in zip(m.joint_names, m.joint_type, strict=True) if kind not in (codes.FIXED, codes.FREE)]
        for m in (a, b)
    ]
    assert moving[0] == moving[1]
    for name in OF_DOFS:
        expected = np.zeros(a.nv) if name in gone else a.parameters[name]
        if name == "rest_position":  # without a spring it says nothing
            expected = np.where(a.parameters["stiffness"] > 0.0, expected, b.parameters[name])
        assert_allclose(b.parameters[name], expected, rtol=1e-12, atol=1e-15, err_msg=name)


def assert_same_masses(a: sim.Model, b: sim.Model) -> None:
    """Masses, centres and inertias of the links that have mass, by name."""
    heavy = [name for name, mass in zip(a.link_names, a.parameters["mass"], strict=True) if mass > 0.0]
    assert heavy == [name for name, mass in zip(b.link_names, b.parameters["mass"], strict=True) if mass > 0.0]
    for name in OF_LINKS:
        values = [m.parameters[name][[m.link(link) for link in heavy]] for m in (a, b)]
        assert_allclose(values[1], values[0], rtol=1e-10, atol=1e-13, err_msg=name)


def clouds(model: sim.Model, q: np.ndarray, which) -> dict[str, list[np.ndarray]]:
    """Points of the geometries that ``which`` picks, in the world, by the link that they are fixed to."""
    poses = sim.forward_kinematics(model, q[None]).numpy()[0] if model.num_links else None
    found: dict[str, list[np.ndarray]] = {}
    for geometry in model.geometries:
        if which(geometry) and geometry.type != codes.PLANE:
            still = geometry.link < 0 or model.link_tail_dof[geometry.link] < 0
            points = transform_points(geometry.placement, tessellate(geometry).vertices)
            if geometry.link >= 0:
                points = transform_points(poses[geometry.link], points)
            key = "world" if still else model.link_names[geometry.link]
            found.setdefault(key, []).append(points)
    return found


def assert_same_shapes(a: sim.Model, b: sim.Model, which) -> None:
    """As many geometries on each link, whose points lie in the same box about the same middle."""
    q, _ = random_state(a, 4)
    expected, found = clouds(a, q, which), clouds(b, q, which)
    assert {key: len(of) for key, of in found.items()} == {key: len(of) for key, of in expected.items()}
    for key, of in expected.items():
        boxes = [
            sorted(tuple(np.round(np.array([p.min(0), p.max(0)]).ravel(), 5)) for p in some)
            for some in (of, found[key])
        ]
        # Meshes go through single precision in MuJoCo.
        assert_allclose(boxes[1], boxes[0], atol=3e-5, err_msg=key)


def surfaces(model: sim.Model) -> dict[frozenset[str], tuple[float, float, float]]:
    """Sliding, torsional and rolling friction of all pairs that may touch, by names."""
    pairs = list(zip(*candidate_pairs(model), strict=True))
    return {
        frozenset((model.geometries[a].name, model.geometries[b].name)): tuple(values)
        for (a, b), values in zip(pairs, pair_friction(model, pairs).tolist(), strict=True)
    }


def motion(model: sim.Model, q: np.ndarray, qd: np.ndarray, steps: int, dt: float, tau=None) -> np.ndarray:
    """Coordinates after each step [steps, nq]."""
    simulator = sim.Simulator(model, dt, num_worlds=1, device="cpu", contact=sim.HardContact())
    forces = None if tau is None else np.tile(tau, (steps, 1, 1))
    return simulator.rollout(simulator.state(q, qd), steps=steps, tau=forces).q.numpy()[1:, 0]
