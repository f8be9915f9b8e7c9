"""Passes over trees by a team of threads per world, compared with those of one thread: a team of one on a CPU. Whole
steps of robots are in ``tests/contact/newton/test_teams.py``.
"""

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import warp as wp

import sim
import warp_kernels.dynamics.team as package
from sim.dynamics import team_passes
from tests.dynamics import trees
from tests.golden import mechanisms
from tests.golden.case import Case
from tests.golden.record import TABLE, record
from tests.team_checks import reverse_items, team_faults
from tests.team_syncs import not_missed, numbered_copy

FACTORIES = (
    "team_articulated_kernels",
    "team_jacobian_kernels",
    "team_kinematics_adjoint_kernels",
    "team_kinematics_kernels",
    "team_mass_adjoint_kernels",
    "team_mass_matrix_kernels",
    "team_motion_adjoint_kernels",
    "team_motion_kernels",
)


def zoo(dtype: str = "float64", dry: bool = True, **others: Any) -> Case:
    """Two trees with branches and all types of joint, with dry friction or without any constraint."""
    links = trees.zoo()
    if not dry:
        links = [
            replace(each, passive={k: v for k, v in each.passive.items() if k != "friction_loss"}) for each in links
        ]
    model = trees.build(links, dtype)
    return Case(model, 1 / 500, qd=np.linspace(-1.0, 1.0, model.nv), names=None, worlds=2, steps=3, **others)


CASES: dict[str, Callable[[], Case]] = {
    "Euler": zoo,
    "no constraints": lambda: zoo(dry=False),
    "parameters of each world": lambda: zoo(per_world=("mass", "joint_placement", "gravity")),
    "midpoint": lambda: zoo(options={"integrator": "midpoint"}),
    "MuJoCo's law": lambda: zoo(contact=sim.MujocoContact()),
    "Runge-Kutta": lambda: zoo(contact=sim.MujocoContact(), options={"integrator": "rk4"}),
    "drag": lambda: replace(mechanisms.flying(), worlds=2, steps=5),
    "drag, midpoint": lambda: replace(mechanisms.flying(), steps=5, options={"integrator": "midpoint"}),
}


def by_teams(case: Case) -> Case:
    return replace(case, options={**case.options, "threads_per_world": 32})


@pytest.mark.parametrize("name", CASES)
def test_as_one_thread(name):
    """States, gradients in all inputs and parameters, and the Jacobian of a step."""
    case = CASES[name]()
    one, team = record(case), record(by_teams(case))
    keys = {key for key in one if not key.startswith(TABLE) and one[key].dtype.kind == "f" and "residual" not in key}
    assert {"q", "qd"} <= keys
    for key in keys:
        atol = 1e-10 * max(np.abs(one[key][np.isfinite(one[key])]).max(initial=0.0), 1e-6)
        np.testing.assert_allclose(team[key], one[key], rtol=0, atol=atol, err_msg=key)


def test_in_single_precision():
    """As close to double precision as one thread."""
    exact, one, team = (record(case) for case in (zoo(), zoo("float32"), by_teams(zoo("float32"))))
    keys = [key for key in exact if not key.startswith(TABLE) and exact[key].dtype.kind == "f"]
    for key in (key for key in keys if "residual" not in key and exact[key].size):
        scale = max(np.abs(exact[key]).max(), 1e-6)
        errors = [np.abs(found[key] - exact[key]).max() / scale for found in (one, team)]
        assert errors[1] < max(3.0 * errors[0], 1e-5), (key, errors)


def test_links_by_depth():
    step = by_teams(zoo()).simulator().engine.shards[0].step
    levels, model = step.trees.link_levels, step.model
    start, link = levels.start.numpy(), levels.link.numpy()
    assert sorted(link) == list(range(model.num_links))
    for level, (first, last) in enumerate(itertools.pairwise(start)):
        for each in link[first:last]:
            parent = model.link_parent[each]
            assert parent in (link[start[level - 1] : first] if level else (-1,))
    below_start, below, at = (getattr(levels, name).numpy() for name in ("below_start", "below", "below_at"))
    ancestor = step.device_model.ancestor.numpy()
    assert sorted(at) == list(range(len(ancestor)))
    for k in range(model.nv):
        own = slice(below_start[k], below_start[k + 1])
        assert (ancestor[at[own]] == k).all()
        assert (np.searchsorted(model.dof_row_start + model.dof_depth, at[own], side="right") <= below[own]).all()


@pytest.fixture
def reversed_items(monkeypatch):
    """Kernels of teams take the items of a phase in reversed order, and note items that meet."""
    reverse_items(monkeypatch)
    for name in FACTORIES:
        monkeypatch.setattr(team_passes, name, functools.cache(getattr(team_passes, name).__wrapped__))


def passes(case: Case) -> Callable[[], np.ndarray]:
    """A rollout and its gradient."""
    simulator, given = case.simulator(), case.inputs()

    def run() -> np.ndarray:
        trajectory = simulator.rollout(simulator.state(given["q"], given["qd"]), given["tau"])
        gradient = trajectory.backward(np.ones_like(given["q"]))
        return np.hstack([trajectory.q.numpy()[-1], trajectory.qd.numpy()[-1], gradient.q.numpy(), gradient.qd.numpy()])

    return run


def functions(threads: int) -> Callable[[], np.ndarray]:
    """Functions of a model, and their gradients in q."""
    model = trees.build(trees.zoo(), "float64")
    m = sim.DeviceModel(model, "cpu", threads_per_world=threads)
    rng = np.random.default_rng(0)
    q, *others = (rng.normal(size=(2, n)) for n in (model.nq, model.nv, model.nv))

    def run() -> np.ndarray:
        found = []
        for call in (sim.inverse_dynamics, sim.forward_dynamics, sim.mass_matrix, jacobians):
            given = wp.array(q, dtype=wp.float64, device="cpu", requires_grad=True)
            with wp.Tape() as tape:
                result = call(m, given, *others[: 0 if call in (sim.mass_matrix, jacobians) else None])
            tape.backward(grads={result: wp.ones_like(result)})
            found += [result.numpy().ravel(), given.grad.numpy().ravel()]
        return np.concatenate(found)

    return run


def jacobians(m: sim.DeviceModel, q: wp.array) -> wp.array:
    return sim.jacobian(m, q, m.model.link_names)


@pytest.mark.slow
def test_items_of_a_phase_do_not_meet(reversed_items):
    case = zoo(dry=False)
    for team, one in ((passes(by_teams(case)), passes(case)), (functions(32), functions(1))):
        found = team()
        assert team_faults() == []
        expected = one()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())
    assert team_passes.team_articulated_kernels(wp.float64, 32).module.name.startswith("backswing.tests.reversed.")


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The functions of the calls of ``sync``; meanwhile passes are those of a copy."""
    same = {"numbered_warp_kernels_dynamics_team.levels": f"{package.__name__}.levels"}
    folder = tmp_path_factory.mktemp("numbered")
    with numbered_copy(package, team_passes, set(FACTORIES), folder, same) as found:
        yield found


@pytest.mark.slow
def test_every_sync_is_needed(calls):
    assert len(calls) > 12
    # Under MuJoCo's law the mass matrix has an adjoint without constraints, too.
    assert not_missed(calls, [passes(by_teams(zoo(dry=False, contact=sim.MujocoContact()))), functions(32)]) == []
