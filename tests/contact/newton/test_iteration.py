"""The table of :mod:`warp_kernels.solver.newton.iteration`, line by line."""

from typing import Any

import pytest
import warp as wp

from warp_kernels.solver.newton import iteration
from warp_kernels.solver.newton.constants import (
    MOST_PER_CONSTRAINT,
    PASSES,
    RECALLED_SHARE,
    ROUND,
    ROUNDS,
    SOFTER,
    TANGLE,
)
from warp_kernels.solver.newton.iteration import (
    AFTER_SWEEPS,
    BEFORE,
    CLOSER,
    DONE,
    FAR,
    LEFT,
    MOVED,
    NEVER,
    NOW,
    SINGULAR,
    STAYED,
)
from warp_kernels.solver.newton.residual import COUPLED, HELD
from warp_kernels.solver.newton.structs import newton_structs

SCALAR = wp.float64
State = newton_structs(SCALAR).State
COUNT, AT_HAND, GOAL = 10, 1.0, 1e-10
FURTHER = 5


def made(**fields: Any) -> Any:
    """A state after a step that was found, from a square of one; the fields that are named differ."""
    state = State()
    for name, value in {"found": 1, "before": 1.0, "square": 0.1, "harder": 1.0, "tries": 1, **fields}.items():
        setattr(state, name, value)
    return state


def kernels_of(coupled: bool, in_group: bool) -> Any:
    """Kernels that call the decisions for one state."""
    decide = iteration.decision_functions(SCALAR, coupled, in_group)

    @wp.kernel(module="unique", enable_backward=False)
    def after_step(states: wp.array(dtype=State), came: wp.array(dtype=int), is_rounding: bool, further: int):
        came[0] = decide.outcome(states[0], SCALAR(AT_HAND))
        is_last = is_rounding and decide.asks_for_rounding(came[0])
        states[0] = decide.next_state(states[0], came[0], is_last, SCALAR(GOAL), COUNT, further)

    @wp.kernel(module="unique", enable_backward=False)
    def after_length(states: wp.array(dtype=State)):
        states[0] = decide.next_length(states[0])

    @wp.kernel(module="unique", enable_backward=False)
    def at_beginning(states: wp.array(dtype=State), count: int, square: SCALAR):
        states[0] = decide.first_state(count, square, SCALAR(AT_HAND), SCALAR(GOAL))

    @wp.kernel(module="unique", enable_backward=False)
    def recalled(states: wp.array(dtype=State), count: int, square: SCALAR):
        states[0] = decide.recalled_state(count, square, SCALAR(1.0))

    return after_step, after_length, at_beginning, recalled


@pytest.fixture(scope="module")
def kernels() -> dict[str, Any]:
    return {
        "world": kernels_of(coupled=True, in_group=False),
        "group": kernels_of(coupled=True, in_group=True),
        "convex": kernels_of(coupled=False, in_group=False),
    }


def fields_of(states: wp.array) -> dict[str, float]:
    return {name: states.numpy()[name][0] for name in State.vars}


STEPS = {
    "a step leads on": ("world", made(mode=COUPLED), MOVED, {"mode": COUPLED}),
    "a step leads to the solution": ("world", made(mode=COUPLED, square=1e-12), MOVED, {"mode": DONE}),
    "first sweeps": (
        "world", made(mode=COUPLED, square=0.9), STAYED, {"mode": AFTER_SWEEPS, "passes": 1, "sweeps": 2 * COUNT}
    ),
    "no pivots": ("world", made(mode=COUPLED, found=0), SINGULAR, {"mode": AFTER_SWEEPS}),
    "far": (
        "world", made(mode=AFTER_SWEEPS, passes=1, sweeps=20), FAR, {"mode": AFTER_SWEEPS, "passes": 2, "sweeps": 40}
    ),
    "most sweeps": (
        "world", made(mode=AFTER_SWEEPS, passes=3, sweeps=60), FAR, {"passes": 4, "sweeps": MOST_PER_CONSTRAINT * COUNT}
    ),
    "near": ("world", made(mode=AFTER_SWEEPS, passes=1, square=0.01), MOVED, {"mode": COUPLED, "passes": 1}),
    "the last pass": ("world", made(mode=AFTER_SWEEPS, passes=PASSES), MOVED, {"mode": COUPLED}),
    "a round": (
        "world", made(mode=COUPLED, square=0.9, passes=PASSES, in_round=3), STAYED,
        {"mode": HELD, "rounds": 1, "in_round": 0, "enough": 0.9e-4, "harder": 1.0},
    ),
    "a round goes on": ("world", made(mode=HELD, bounds=HELD, rounds=1), CLOSER, {"mode": HELD, "rounds": 1}),
    "a round ends": ("world", made(mode=HELD, bounds=COUPLED, passes=PASSES), MOVED, {"mode": COUPLED}),
    "softer": (
        "world", made(mode=COUPLED, square=0.9, passes=PASSES, rounds=ROUNDS), STAYED,
        {"mode": AFTER_SWEEPS, "soft": NOW, "harder": 1.0 / SOFTER, "passes": 1, "sweeps": 2 * COUNT},
    ),
    "softer only once": (
        "world", made(mode=COUPLED, square=0.9, passes=PASSES, rounds=ROUNDS, soft=BEFORE), STAYED, {"mode": HELD}
    ),
    "as it was": (
        "world", made(mode=COUPLED, square=1e-12, soft=NOW, passes=4), MOVED,
        {"mode": AFTER_SWEEPS, "soft": BEFORE, "harder": SOFTER, "passes": 1},
    ),
    "a softer problem goes on": ("world", made(mode=COUPLED, soft=NOW), MOVED, {"mode": COUPLED, "soft": NOW}),
    "left": ("group", made(mode=COUPLED, square=0.9, passes=PASSES), STAYED, {"mode": LEFT}),
    "down": ("convex", made(mode=HELD, bounds=HELD), CLOSER, {"mode": HELD}),
    "at the bottom": ("convex", made(mode=HELD, bounds=HELD, square=1e-12), CLOSER, {"mode": DONE}),
    "no pivots of a convex law": ("convex", made(mode=HELD, bounds=HELD, found=0), SINGULAR, {"mode": DONE}),
}  # fmt: skip


def after_step(kernel: Any, state: Any, *, is_rounding: bool = False, further: int = FURTHER) -> tuple[int, Any]:
    """The outcome of a step, and the fields of the next state."""
    states, came = wp.array([state], dtype=State, device="cpu"), wp.zeros(1, dtype=int, device="cpu")
    wp.launch(kernel, 1, [states, came, is_rounding, further], device="cpu")
    return int(came.numpy()[0]), fields_of(states)


def after_length(kernel: Any, state: Any) -> dict[str, float]:
    states = wp.array([state], dtype=State, device="cpu")
    wp.launch(kernel, 1, [states], device="cpu")
    return fields_of(states)


def first(kernel: Any, count: int, square: float) -> dict[str, float]:
    states = wp.zeros(1, dtype=State, device="cpu")
    wp.launch(kernel, 1, [states, count, square], device="cpu")
    return fields_of(states)


@pytest.mark.parametrize("name", STEPS)
def test_mode_after_a_step(kernels, name):
    law, state, outcome, expected = STEPS[name]
    came, found = after_step(kernels[law][0], state)
    assert came == outcome
    assert {field: found[field] for field in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("law", "state"), [("world", made(mode=COUPLED, square=0.9)), ("convex", made(mode=HELD, bounds=HELD))]
)
def test_a_step_of_rounding_is_the_last(kernels, law, state):
    assert after_step(kernels[law][0], state, is_rounding=True)[1]["mode"] == DONE


def test_only_a_step_that_leads_nowhere_may_be_rounding(kernels):
    assert after_step(kernels["world"][0], made(mode=COUPLED), is_rounding=True)[1]["mode"] == COUPLED


def test_the_last_system_is_that_of_the_problem_itself(kernels):
    step = kernels["world"][0]
    found = after_step(step, made(mode=COUPLED, soft=NOW), further=1)[1]
    assert (found["mode"], found["soft"], found["harder"]) == (AFTER_SWEEPS, BEFORE, SOFTER)
    wedged = made(mode=COUPLED, square=0.9, passes=PASSES, rounds=ROUNDS)
    found = after_step(step, wedged, further=1)[1]
    assert (found["mode"], found["soft"]) == (HELD, NEVER)


def test_half_of_a_step_then_none(kernels):
    length = kernels["world"][1]
    found = [after_length(length, made(mode=COUPLED, square=0.9, trials=trials)) for trials in range(3)]
    assert [(each["tries"], each["length"]) for each in found] == [(1, -0.5), (1, -0.5), (0, 0.0)]
    assert after_length(length, made(mode=COUPLED))["tries"] == 0
    assert after_length(length, made(mode=COUPLED, square=0.9, found=0))["tries"] == 0
    assert after_length(length, made(mode=AFTER_SWEEPS, square=0.9))["tries"] == 0


def test_a_round_ends_with_the_coupled_residual(kernels):
    length = kernels["world"][1]

    def ended(**fields: Any) -> dict[str, float]:
        return after_length(length, made(mode=HELD, bounds=HELD, enough=0.01, **fields))

    assert (ended()["tries"], ended()["in_round"]) == (0, 1)
    for found in (ended(square=0.001), ended(in_round=ROUND - 1)):
        assert (found["tries"], found["length"], found["bounds"]) == (1, 0.0, COUPLED)
    convex = after_length(kernels["convex"][1], made(mode=HELD, bounds=HELD, enough=1.0))
    assert (convex["tries"], convex["bounds"]) == (0, HELD)


def test_first_mode(kernels):
    begin = kernels["world"][2]
    assert first(begin, COUNT, 1e-12)["mode"] == DONE
    assert first(begin, COUNT, 1.0)["mode"] == first(begin, TANGLE + 1, 0.01)["mode"] == COUPLED
    tangled = first(begin, TANGLE + 1, 1.0)
    assert (tangled["mode"], tangled["passes"], tangled["harder"]) == (AFTER_SWEEPS, 1, 1.0)
    assert first(kernels["convex"][2], TANGLE + 1, 1.0)["mode"] == HELD


def test_first_mode_with_the_impulses_of_the_previous_step(kernels):
    begin = kernels["world"][3]
    near, far = (first(begin, COUNT, share * RECALLED_SHARE) for share in (0.99, 1.01))
    assert (near["mode"], near["passes"], near["sweeps"]) == (AFTER_SWEEPS, 0, 0)
    assert (far["mode"], far["passes"], far["sweeps"]) == (AFTER_SWEEPS, 1, 2 * COUNT)
    came, following = after_step(kernels["world"][0], made(mode=AFTER_SWEEPS, square=0.9))
    assert (came, following["mode"], following["passes"]) == (FAR, AFTER_SWEEPS, 1)
