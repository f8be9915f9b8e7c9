"""Constraints listed by teams, and the adjoint of their rows over (item, world), compared with those of one thread.

Whole steps of robots, with gradients by differences, are in ``tests/contact/newton/test_teams.py``.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import warp as wp

import sim
import warp_kernels.constraints.team as package
from bench.traffic import as_on_a_gpu
from sim.arrays.allocation import fill
from sim.simulation.stepping.stages.constraints import teams as stage
from tests.golden import mechanisms, mujoco_law, plain
from tests.golden.case import Case
from tests.golden.record import TABLE, record
from tests.team_checks import reverse_items, team_faults
from tests.team_syncs import not_missed, numbered_copy
from warp_kernels.constraints.kinds import (
    ACTUATOR,
    CONE_LIMIT,
    CONTACT,
    COUPLING,
    FRICTION_LOSS,
    LOWER_LIMIT,
    NO_KEY,
    ORIENTATION,
    POINT,
    ROLL,
    SPIN,
    TENDON,
    TORSION,
    UPPER_LIMIT,
)
from warp_kernels.solver.structs import Constraints
from warp_kernels.solver.warm_start import warm_start_kernels

CONE = mujoco_law.CONE


def joints(dtype: str = "float64", **others: Any) -> Case:
    """Joints at both of their limits, with dry friction, motors beyond their force limit, two to a joint, and couplings
    that share a joint.
    """
    builder = sim.ModelBuilder()
    parent = "world"
    for number in range(3):
        builder.add_link(f"rod{number}", mass=1.0, com=(0.2, 0.0, 0.0), inertia=(0.01, 0.03, 0.03))
        builder.add_joint(
            f"hinge{number}", "revolute", child=f"rod{number}", parent=parent, position=(0.4 * (number > 0), 0, 0),
            axis=(0, 1, 0), limits=(-1e-3, 1e-3) if number == 1 else (-9.0, 9.0), friction_loss=0.1 * number,
        )  # fmt: skip
        parent = f"rod{number}"
    builder.add_link("ball", mass=0.5, com=(0.0, 0.02, -0.3), inertia=(0.02, 0.02, 0.005))
    limits = sim.Limits(swing=0.3, twist=0.2)
    builder.add_joint("socket", "spherical", child="ball", parent="rod2", axis=(0, 0, -1), limits=limits)
    builder.add_joint_coupling("hinge2", "hinge0", ratio=0.5, offset=0.0)
    builder.add_joint_coupling("hinge1", "hinge0", ratio=-0.1, offset=0.0)
    for name, limit in (("strong", 3.0), ("weak", 0.2)):
        builder.add_actuator("hinge0", name=name, kind="position", gains=sim.Gains(kp=50.0, kd=1.0), force_limit=limit)
    model = builder.finalize(dtype)
    q = np.concatenate([np.zeros(3), [np.sin(0.16), 0.0, np.sin(0.1), 0.0]])
    q[-1] = np.sqrt(1.0 - q @ q)
    qd = np.array([0.3, 0.0, 0.1, 4.0, 1.0, 5.0])
    names = ("lower_limit", "upper_limit", "limit_margin", "friction_loss", "coupling_ratio", "actuator_force_limit")
    own = {
        "steps": 20,
        "worlds": 2,
        "q": q,
        "qd": qd,
        "control": (0.5, -0.5),
        "spread": 0.1,
        "names": (*names, "swing_limit"),
    }
    return Case(model, 1 / 200, **{**own, **others})


CASES: dict[str, Callable[[], Case]] = {
    "joints": joints,
    "joints with a recovery time": lambda: joints(names=("recovery_time", "upper_limit")),
    "loops that break": lambda: replace(mechanisms.loops({"break_force": 2.0}), steps=20),
    "led bodies": lambda: replace(mechanisms.led(), steps=10),
    "belts": lambda: replace(mechanisms.belts(), steps=10),
    "balls with a warm start": lambda: replace(plain.balls(9), steps=10, contact=sim.HardContact(warm_start=True)),
    "MuJoCo's law: joints": lambda: joints(contact=CONE),
    "MuJoCo's law: belts": lambda: replace(mechanisms.belts(CONE), steps=10),
    "MuJoCo's law: led bodies": lambda: replace(mechanisms.led(CONE), steps=10),
}
# Scenes that have all kinds of constraint, and the kinds that they list.
LISTED: dict[str, tuple[Callable[[], Case], set[int]]] = {
    "joints": (joints, {LOWER_LIMIT, UPPER_LIMIT, CONE_LIMIT, FRICTION_LOSS, ACTUATOR, COUPLING}),
    "loops": (mechanisms.loops, {CONTACT, COUPLING, POINT, ORIENTATION}),
    "tendons": (mechanisms.tendons, {TENDON}),
    "skis": (lambda: plain.skis((0.01, 0.03)), {CONTACT, TORSION}),
    "bodies on pyramids": (lambda: mujoco_law.noslip("pyramidal"), {CONTACT, SPIN, ROLL}),
    "stack": (lambda: plain.stack(4), {CONTACT}),
}


def by_teams(case: Case) -> Case:
    return replace(case, options={**case.options, "threads_per_world": 32})


def stage_after(case: Case) -> Any:
    """The stage of constraints after a few steps."""
    case = replace(case, steps=3)
    simulator, given = case.simulator(), case.inputs()
    simulator.rollout(simulator.state(given["q"], given["qd"]), given["tau"], control=given["control"])
    return simulator.engine.shards[0].step.constraint_stage


@pytest.mark.parametrize("name", LISTED)
def test_lists_as_one_thread(name):
    """Constraints and incidences in the same order."""
    make, kinds = LISTED[name]
    one, team = stage_after(make()), stage_after(by_teams(make()))
    assert type(team) is stage.ConstraintStageOfTeams
    count = one.constraints.count.numpy()
    np.testing.assert_array_equal(team.constraints.count.numpy(), count)
    found = set()
    for world, n in enumerate(count):
        of_world = one.constraints.kind.numpy()[:n, world]
        found |= set(of_world)
        for field, rows in (("kind", n), ("item", n), ("tail", 2 * n)):
            expected = getattr(one.constraints, field).numpy()[:rows, world]
            np.testing.assert_array_equal(getattr(team.constraints, field).numpy()[:rows, world], expected)
        starts = one.couplings.tree_start.numpy()[:, world]
        np.testing.assert_array_equal(team.couplings.tree_start.numpy()[:, world], starts)
        for field, rows in (("incidence_constraint", starts[-1]), ("constraint_incidence", 2 * n)):
            expected = getattr(one.couplings, field).numpy()[:rows, world]
            np.testing.assert_array_equal(getattr(team.couplings, field).numpy()[:rows, world], expected)
    assert kinds <= found


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], relative: float) -> None:
    """States and gradients agree, relative to the largest entry of each array."""
    keys = {key for key in expected if not key.startswith(TABLE) and expected[key].dtype.kind == "f"}
    keys -= {key for key in keys if "residual" in key}
    assert {"q", "qd"} <= keys
    for key in keys:
        atol = relative * max(np.abs(expected[key][np.isfinite(expected[key])]).max(initial=0.0), 1e-6)
        np.testing.assert_allclose(found[key], expected[key], rtol=0, atol=atol, err_msg=key)


@pytest.mark.parametrize("name", CASES)
def test_as_one_thread(name):
    """States, gradients in all inputs and parameters, and the Jacobian of a step."""
    case = CASES[name]()
    assert_same(record(by_teams(case)), record(case), 1e-8)


@pytest.mark.cpu_shapes
@pytest.mark.parametrize("name", ["joints", "belts", "MuJoCo's law: belts"])
def test_with_several_threads(name):
    """In the launch shapes of a GPU: constraints and degrees of freedom have threads of their own."""
    case = CASES[name]()
    one = record(case)
    with as_on_a_gpu():
        assert_same(record(by_teams(case)), one, 1e-8)


def test_in_single_precision():
    """As close to double precision as one thread."""
    exact, one, team = (record(case) for case in (joints(), joints("float32"), by_teams(joints("float32"))))
    for key in ("q", "qd", *(key for key in exact if key.endswith("_bar"))):
        scale = max(np.abs(exact[key]).max(initial=0.0), 1e-6)
        errors = [np.abs(found[key] - exact[key]).max(initial=0.0) / scale for found in (one, team)]
        assert errors[1] < max(3.0 * errors[0], 1e-5), (key, errors)


@pytest.mark.parametrize("threads", [1, 3])
def test_keys_are_matched_in_any_order(threads):
    """As by one thread, for keys that have moved, gone or come."""
    rng, room, worlds = np.random.default_rng(3), 12, 40
    kernels = warm_start_kernels(wp.float64)
    items = np.array([rng.permutation(20)[:room] for _ in range(worlds)]).T
    before = np.zeros((room, worlds, 4), dtype=np.int32)
    before[..., 0] = NO_KEY
    for world in range(worlds):
        kept = rng.permutation(20)[: rng.integers(0, room + 1)]
        before[: len(kept), world, :2] = np.stack([np.full(len(kept), LOWER_LIMIT), kept], axis=-1)
    none = wp.zeros((0, 0), dtype=wp.int32, device="cpu")

    def integers(values: np.ndarray, dtype: Any = wp.int32) -> wp.array:
        return wp.array(values.astype(np.int32), dtype=dtype, device="cpu")

    constraints = fill(
        Constraints,
        count=integers(rng.integers(0, room + 1, worlds)),
        kind=integers(np.full((room, worlds), LOWER_LIMIT)),
        item=integers(items),
        tail=none,
        reference=none,
    )
    impulse = wp.array(rng.normal(size=(room, worlds, 3)), dtype=wp.vec3d, device="cpu")
    results = []
    for kernel, dim, first in (
        (kernels.match_constraints, worlds, []),
        (kernels.match_each_constraint, (threads, worlds), [threads]),
    ):
        key = wp.zeros((room, worlds), dtype=wp.vec4i, device="cpu")
        source = wp.full((room, worlds), 99, dtype=wp.int32, device="cpu")
        start = wp.zeros((room, worlds), dtype=wp.vec3d, device="cpu")
        pairs = wp.zeros(0, dtype=wp.int32, device="cpu")
        given = [constraints, none, none, integers(before, wp.vec4i), impulse]
        wp.launch(kernel, dim, [*first, pairs, pairs, *given, key, source, start], device="cpu")
        results.append([array.numpy() for array in (key, source, start)])
    for one, each in zip(*results, strict=True):
        np.testing.assert_array_equal(each, one)
    assert (results[0][1] == -1).any()
    assert (results[0][1] < 99).sum() > 100


def run_of(case: Case) -> Callable[[], np.ndarray]:
    """A rollout of three steps; its last state."""
    simulator, given = replace(case, steps=3).simulator(), case.inputs()

    def run() -> np.ndarray:
        trajectory = simulator.rollout(simulator.state(given["q"], given["qd"]), given["tau"][:3])
        return np.hstack([trajectory.q.numpy()[-1], trajectory.qd.numpy()[-1]])

    return run


@pytest.fixture
def reversed_items(monkeypatch):
    """Kernels of teams take the items of a phase in reversed order, and note items that meet."""
    reverse_items(monkeypatch)
    made = functools.cache(stage.team_constraint_kernels.__wrapped__)
    monkeypatch.setattr(stage, "team_constraint_kernels", made)


@pytest.mark.slow
def test_items_of_a_phase_do_not_meet(reversed_items):
    for make, _ in LISTED.values():
        one, team = run_of(make())(), run_of(by_teams(make()))()
        assert team_faults() == []
        np.testing.assert_allclose(team, one, rtol=0, atol=1e-8 * np.abs(one).max())
    made = stage.team_constraint_kernels(wp.float64, 32)
    assert made.module.name.startswith("backswing.tests.reversed.")


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The functions of the calls of ``sync``; meanwhile lists are those of a copy."""
    folder = tmp_path_factory.mktemp("numbered")
    with numbered_copy(package, stage, {"team_constraint_kernels"}, folder) as found:
        yield found


@pytest.mark.slow
def test_every_sync_is_needed(calls):
    assert len(calls) == 2
    assert not_missed(calls, [run_of(by_teams(make())) for make in (joints, mechanisms.loops)]) == []
