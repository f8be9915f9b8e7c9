"""Large batches of functions of frames, which a graph reads and writes where they lie, beside small ones."""

from collections.abc import Callable

import pytest
import torch

import sim
from sim.torch.runtime.engine import CAPTURED_AT_CALL
from sim.torch.runtime.graphs import MOST_CAPTURED_ROWS, ROWS_AT_A_TIME, CopyGraph, InPlaceGraph
from tests.torch.robots import CALLS, state, zoo_robot

pytestmark = pytest.mark.cpu_shapes

Function = Callable[[sim.torch.Robot, torch.Tensor], torch.Tensor]
IN_PLACE = ("forward_kinematics", "forward_kinematics_matrix", "jacobian")
every_function = pytest.mark.parametrize("name", IN_PLACE)
AGAIN = CAPTURED_AT_CALL + 2
ROWS = 2 * ROWS_AT_A_TIME + 13  # the last part and its last block have fewer
SMALL = 200


def function(name: str) -> Function:
    return lambda robot, q: CALLS[name][0](robot, q, None, None, None)


def seed_of(result: torch.Tensor) -> torch.Tensor:
    return torch.linspace(-1.0, 2.0, result.numel(), dtype=result.dtype).sin().reshape(result.shape)


def graphs(robot: sim.torch.Robot) -> list:
    return [graph for engine in robot._calls.engines.values() for graph in engine.graphs.values()]


def in_small_batches(
    name: str, robot: sim.torch.Robot, q: torch.Tensor, seed: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Value, gradient in q and that in the placements of joints."""
    values, slopes = [], []
    total = torch.zeros_like(robot.joint_placement)
    for part, part_seed in zip(q.detach().split(SMALL), seed.split(SMALL), strict=True):
        leaf = part.clone().requires_grad_()
        value = function(name)(robot, leaf)
        slope, one = torch.autograd.grad(value, [leaf, robot.joint_placement], part_seed)
        values.append(value.detach())
        slopes.append(slope)
        total += one
    return torch.cat(values), torch.cat(slopes), total


@every_function
@pytest.mark.parametrize("batch", [(ROWS,), (3, 400), (MOST_CAPTURED_ROWS + 1,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_as_small_batches(name, batch, dtype):
    robot = zoo_robot("cpu", dtype).learn("joint_placement")
    q = state(robot, batch)[0]
    shape = function(name)(robot, q).shape
    seed = seed_of(torch.empty(shape, dtype=dtype))
    flat = seed.reshape(-1, *seed.shape[len(batch) :])
    expected, slopes, placement = in_small_batches(name, robot, q.reshape(-1, robot.nq), flat)
    for _ in range(AGAIN):
        leaf = q.clone().requires_grad_()
        value = function(name)(robot, leaf)
        assert torch.equal(value, expected.reshape(shape))
        slope, one = torch.autograd.grad(value, [leaf, robot.joint_placement], seed, retain_graph=True)
        assert torch.equal(slope, slopes.reshape(q.shape))
        rounding = 1e-4 if dtype == torch.float32 else 1e-12
        torch.testing.assert_close(one, placement, rtol=0, atol=rounding * float(placement.abs().max()))
        (again,) = torch.autograd.grad(value, leaf, seed)
        assert torch.equal(again, slope)
    assert any(isinstance(graph, InPlaceGraph) for graph in graphs(robot))


@every_function
def test_tensors_that_lie_otherwise_in_memory(name):
    """Transposed, of every second row, one row for all, minus what lies there; seeds likewise."""
    robot = zoo_robot("cpu")
    q = state(robot, (ROWS,))[0]
    complex_q = torch.complex(torch.zeros_like(q), -q)
    single = q[:1].expand(ROWS, -1)
    directions = [q.t().contiguous().t(), q.repeat_interleave(2, dim=0)[::2], complex_q.conj().imag, single]
    assert directions[2].is_neg()
    robot.learn("joint_placement")
    value = function(name)(robot, q)
    seed = seed_of(value)
    negative = torch.complex(torch.zeros_like(seed), -seed).conj().imag
    last = value.dim() - 1
    seeds = [
        seed,
        seed.transpose(0, last).contiguous().transpose(0, last),
        negative,
        torch.ones(()).double().expand(seed.shape),
    ]
    for direction in directions:
        for one in seeds:
            plain = one.resolve_neg().clone(memory_format=torch.contiguous_format)
            expected, slopes, _ = in_small_batches(name, robot, direction.resolve_neg().contiguous(), plain)
            for _ in range(AGAIN if one is seed else 1):
                leaf = direction.detach().requires_grad_()
                found = function(name)(robot, leaf)
                assert torch.equal(found, expected)
                assert torch.equal(torch.autograd.grad(found, leaf, one)[0], slopes)
                with torch.no_grad():
                    assert torch.equal(function(name)(robot, direction), expected)


@every_function
def test_what_is_edited_afterwards_changes_nothing(name):
    """The argument before the backward pass, results and gradients before the next call."""
    robot = zoo_robot("cpu").learn("joint_placement")
    q = state(robot, (ROWS,))[0]
    seed = seed_of(function(name)(robot, q))
    expected, slopes, _ = in_small_batches(name, robot, q, seed)
    for _ in range(AGAIN):
        given = q.clone()
        leaf = (given * 1.0).requires_grad_()
        first, second = function(name)(robot, leaf), function(name)(robot, leaf)
        with torch.no_grad():
            leaf.fill_(torch.nan)
            robot.joint_placement.mul_(1.0)
            plain = function(name)(robot, given)
            plain.fill_(torch.nan)
        assert torch.equal(first, expected)
        with torch.no_grad():
            first.fill_(torch.nan)
        assert torch.equal(second, expected)
        gradient = torch.autograd.grad(second, leaf, seed)[0]
        assert torch.equal(gradient, slopes)
        assert torch.equal(torch.autograd.grad(first, leaf, seed)[0], slopes)
        assert torch.equal(gradient, slopes)


@pytest.mark.parametrize("frame", ["link5", ("link5", "link3")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [ROWS, 4 * ROWS_AT_A_TIME])
def test_results_that_are_written_past_the_caches(frame, dtype, rows, monkeypatch):
    """Of one frame in whole lines, of several world by world."""
    monkeypatch.setattr("sim.torch.runtime.graphs.LARGE", 0)
    robot = zoo_robot("cpu", dtype)
    q = state(robot, (rows,))[0]
    expected = torch.cat([robot.jacobian(part, frame) for part in q.split(SMALL)])
    for _ in range(AGAIN):
        assert torch.equal(robot.jacobian(q, frame), expected)
    assert any(isinstance(graph, InPlaceGraph) for graph in graphs(robot))


@every_function
def test_more_rows_than_a_graph_takes(name, monkeypatch):
    monkeypatch.setattr("sim.torch.runtime.engine.MOST_IN_PLACE_ROWS", 2 * MOST_CAPTURED_ROWS)
    robot = zoo_robot("cpu").learn("joint_placement")
    q = state(robot, (4 * MOST_CAPTURED_ROWS + 3,))[0]
    seed = seed_of(function(name)(robot, q))
    expected, slopes, placement = in_small_batches(name, robot, q, seed)
    for _ in range(AGAIN):
        leaf = q.clone().requires_grad_()
        found = function(name)(robot, leaf)
        assert torch.equal(found, expected)
        slope, one = torch.autograd.grad(found, [leaf, robot.joint_placement], seed)
        assert torch.equal(slope, slopes)
        torch.testing.assert_close(one, placement, rtol=0, atol=1e-12 * float(placement.abs().max()))
    kinds = {type(graph) for graph in graphs(robot)}
    assert kinds == {CopyGraph, InPlaceGraph}  # what is left over is few rows


def test_one_of_several_gradients_is_asked_for():
    robot = zoo_robot("cpu").learn("joint_placement")
    q = state(robot, (ROWS,))[0].requires_grad_()
    for _ in range(AGAIN):
        value = robot.jacobian(q, "link5")
        seed = seed_of(value)
        both = torch.autograd.grad(value, [q, robot.joint_placement], seed, retain_graph=True)
        assert torch.equal(torch.autograd.grad(value, q, seed, retain_graph=True)[0], both[0])
        assert torch.equal(torch.autograd.grad(value, robot.joint_placement, seed)[0], both[1])
