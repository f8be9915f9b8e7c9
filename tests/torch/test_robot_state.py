"""Nothing is shared between calls: no memory, no stale values, no trace in the caller's tensors."""

import copy
import io
import itertools
import threading
import weakref
from typing import Any

import pytest
import torch
import torch.utils.checkpoint
import warp as wp

import sim
from sim.torch.runtime.call_signature import CallSignature
from sim.torch.runtime.engine import CAPTURED_AT_CALL
from sim.torch.runtime.graphs import MOST_CAPTURED_ROWS, CopyGraph
from tests.errors import raises_naming
from tests.torch.robots import ALL, CALLS, state, zoo_robot

every_method = pytest.mark.parametrize("name", CALLS)
# A call is captured as a graph when it comes again.
AGAIN = CAPTURED_AT_CALL + 2


def gradients(result: torch.Tensor, leaves: list[torch.Tensor], **options: bool) -> list[torch.Tensor]:
    found = torch.autograd.grad(result.square().sum(), leaves, allow_unused=True, **options)
    return [g for g in found if g is not None]


@every_method
def test_results_are_fresh_and_arguments_not_written(name, device):
    robot = zoo_robot(device).learn(*ALL)
    before = {key: value.clone() for key, value in robot.state_dict().items()}
    leaves = [x.requires_grad_() for x in state(robot, (2,))]
    given = [x.detach().clone() for x in leaves]
    results = [CALLS[name][0](robot, *leaves) for _ in range(AGAIN)]
    found = [gradients(result, leaves) for result in results]
    for result, each in zip(results, found, strict=True):
        assert torch.equal(result, results[0])
        assert all(torch.equal(one, other) for one, other in zip(each, found[0], strict=True))
    memory = [x.untyped_storage().data_ptr() for x in [*results, *(g for each in found for g in each), *leaves]]
    assert len(set(memory)) == len(memory)
    assert all(torch.equal(x, y) for x, y in zip(leaves, given, strict=True))
    assert all(torch.equal(value, before[key]) for key, value in robot.state_dict().items())


@every_method
def test_editing_an_argument_afterwards_changes_nothing(name, device):
    """Inputs and parameters, in place, by the back door, before the gradient is asked for."""
    robot = zoo_robot(device).learn(*ALL)
    others = [getattr(robot, key) for key in ALL]
    for _ in range(AGAIN):
        leaves = [x.requires_grad_() for x in state(robot, (2,))]
        expected = gradients(CALLS[name][0](robot, *leaves), [*leaves, *others])
        result = CALLS[name][0](robot, *leaves)
        kept = result.detach().clone()
        values = [value.detach().clone() for value in others]
        with torch.no_grad():
            for x in (*leaves, *others):
                x.mul_(3.0)
        for x in (*leaves, *others):
            x.data.add_(1.0)
        assert torch.equal(result, kept)
        found = gradients(result, [*leaves, *others])
        assert len(found) == len(expected) > 0
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
        for x, value in zip(others, values, strict=True):
            x.data.copy_(value)


@every_method
def test_graphs_are_independent(name, device):
    """Two calls, backward in either order, twice with retain_graph."""
    robot = zoo_robot(device)
    call = CALLS[name][0]
    first, second = ([x.requires_grad_() for x in state(robot, (2,), seed)] for seed in (1, 2))
    for _ in range(AGAIN):
        alone = [gradients(call(robot, *leaves), leaves) for leaves in (first, second)]
        results = [call(robot, *leaves) for leaves in (first, second)]
        late = gradients(results[1], second, retain_graph=True)
        early = gradients(results[0], first)
        again = gradients(results[1], second)
        for found, expected in ((early, alone[0]), (late, alone[1]), (again, alone[1])):
            assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@every_method
def test_batch_shapes(name, device):
    """Any batch is its elements one by one, whatever came before; arguments are broadcast."""
    robot = zoo_robot(device)
    call = CALLS[name][0]
    for _ in range(AGAIN):
        for batch in ((), (1,), (3,), (2, 3), (7,), (2, 1, 2)):
            inputs = state(robot, batch, seed=len(batch))
            result = call(robot, *inputs)
            shape = result.shape[len(batch) :]
            assert result.shape == (*batch, *shape)
            flat = [x.reshape(-1, *x.shape[len(batch) :]) for x in inputs]
            alone = torch.stack([call(robot, *each) for each in zip(*flat, strict=True)])
            torch.testing.assert_close(result, alone.reshape(result.shape), rtol=0, atol=1e-13)
    inputs = state(robot, (3,))
    found = call(robot, inputs[0], *(x[1].expand(2, 1, *x[1].shape) for x in inputs[1:]))
    expected = call(robot, inputs[0], *(x[1].expand(3, *x[1].shape) for x in inputs[1:]))
    torch.testing.assert_close(found, expected.expand_as(found))


@every_method
def test_no_rows(name, device):
    """Gradients of parameters are zero, whatever those of the call before were."""
    robot = zoo_robot(device).learn(*ALL)
    parameters = [getattr(robot, key) for key in CALLS[name][1]]
    for batch in ((2, 3), (2, 0)):
        leaves = [x.requires_grad_() for x in state(robot, batch)]
        result = CALLS[name][0](robot, *leaves)
        found = torch.autograd.grad(result.square().sum(), [*leaves, *parameters], allow_unused=True)
    assert result.shape[:2] == (2, 0)
    assert all(g is None or g.shape[1] == 0 for g in found[: len(leaves)])
    assert not any(g.any() for g in found[len(leaves) :])


@pytest.mark.parametrize("name", ["forward_kinematics", "jacobian", "inverse_dynamics", "forward_dynamics"])
def test_graphs_of_inference_mode_serve_gradients_and_the_other_way_round(name, device):
    robot = zoo_robot(device)
    call = CALLS[name][0]
    leaves = [x.requires_grad_() for x in state(robot, (2,))]
    expected = call(robot, *leaves).detach()
    for _ in range(AGAIN):
        with torch.inference_mode():
            assert torch.equal(call(robot, *(x.detach() for x in leaves)), expected)
    for _ in range(AGAIN):
        result = call(robot, *leaves)
        assert torch.equal(result, expected)
        assert all(g.any() for g in gradients(result, leaves[:1]))
    with torch.inference_mode():
        assert torch.equal(call(robot, *(x.detach() for x in leaves)), expected)


def test_activation_checkpoints_find_the_same_tensors_kept(device):
    """The call is captured as a graph between the first run and the second one, inside the backward pass."""
    robot = zoo_robot(device).learn("mass")
    leaves = [x.requires_grad_() for x in state(robot, (2,))]
    expected = gradients(robot.forward_dynamics(*leaves), [*leaves, robot.mass])
    other = zoo_robot(device).learn("mass")
    for _ in range(AGAIN):
        result = torch.utils.checkpoint.checkpoint(other.forward_dynamics, *leaves, use_reentrant=False)
        found = gradients(result, [*leaves, other.mass])
        assert all(torch.equal(one, two) for one, two in zip(found, expected, strict=True))


@every_method
def test_a_gradient_of_some_is_that_of_all(name, device):
    robot = zoo_robot(device).learn(*ALL)
    given = [x.requires_grad_() for x in state(robot, (2,))]
    leaves = [*given, *(getattr(robot, key) for key in CALLS[name][1])]
    result = CALLS[name][0](robot, *given).square().sum()
    everything = torch.autograd.grad(result, leaves, allow_unused=True, retain_graph=True)
    for leaf, expected in zip(leaves, everything, strict=True):
        (found,) = torch.autograd.grad(result, leaf, allow_unused=True, retain_graph=True)
        assert expected is None if found is None else torch.equal(found, expected)


@pytest.mark.cpu_shapes
@pytest.mark.parametrize("name", ["forward_kinematics", "inverse_dynamics", "forward_dynamics"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_rows_and_few(name, dtype, device):
    """Through several graphs, through one of several parts, through one of a single part: the same numbers."""
    robot = zoo_robot(device, dtype).learn(*ALL)
    leaves = [x.requires_grad_() for x in state(robot, (2 * MOST_CAPTURED_ROWS + 3,))]
    whole = CALLS[name][0](robot, *leaves)
    parameters = [getattr(robot, key) for key in CALLS[name][1]]
    found = gradients(whole, [*leaves, *parameters])
    expected: list[torch.Tensor] = []
    edges = [0, 120, 400, *range(700, len(whole), 300), len(whole)]
    for first, last in itertools.pairwise(edges):
        part = CALLS[name][0](robot, *(x[first:last] for x in leaves))
        assert torch.equal(part, whole[first:last])
        each = gradients(part, [*leaves, *parameters])
        expected = [one + other for one, other in zip(expected, each, strict=True)] if expected else each
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3 if dtype == torch.float32 else 1e-11, atol=1e-3)


def test_new_values_of_parameters_are_seen(device):
    """After a step of an optimiser, load_state_dict, an edit by the back door, a buffer put in place of another."""
    robot = zoo_robot(device).learn("mass")
    q, qd, qdd, _ = state(robot, (2,))
    optimiser = torch.optim.SGD(robot.parameters(), lr=0.1)

    def expected() -> torch.Tensor:
        return copy.deepcopy(robot).inverse_dynamics(q, qd, qdd)

    for _ in range(AGAIN):
        robot.inverse_dynamics(q, qd, qdd).square().mean().sqrt().backward()
        optimiser.step()
        assert torch.equal(robot.inverse_dynamics(q, qd, qdd), expected())
    kept = {key: 1.1 * value for key, value in robot.state_dict().items()}
    last = robot.inverse_dynamics(q, qd, qdd)
    robot.load_state_dict(kept)
    assert not torch.equal(robot.inverse_dynamics(q, qd, qdd), last)
    assert torch.equal(robot.inverse_dynamics(q, qd, qdd), expected())
    robot.gravity.data.mul_(0.5)
    assert torch.equal(robot.inverse_dynamics(q, qd, qdd), expected())
    robot.com = torch.zeros_like(robot.com)
    assert torch.equal(robot.inverse_dynamics(q, qd, qdd), expected())
    assert robot.freeze("mass").state_dict().keys() == kept.keys()
    assert list(robot.parameters()) == []
    assert torch.equal(robot.inverse_dynamics(q, qd, qdd), expected())


def test_a_value_that_is_not_a_number_leaves_no_trace(device):
    robot = zoo_robot(device)
    q, qd, qdd, _ = state(robot, (2,))
    good = robot.forward_dynamics(q, qd, qdd)
    mass = robot.mass.clone()
    for _ in range(AGAIN):
        robot.mass.fill_(torch.nan)
        assert robot.forward_dynamics(q, qd, qdd).isnan().all()
        q.requires_grad_()
        position, _ = robot.forward_kinematics(q)
        assert gradients(position, [q])[0].isfinite().all()
        q = q.detach()
        robot.mass.copy_(mass)
        assert torch.equal(robot.forward_dynamics(q, qd, qdd), good)


def test_copies_of_a_robot(device):
    """By deepcopy, by torch.save, by state_dict, in another precision."""
    robot = zoo_robot(device).learn("com")
    inputs = state(robot, (2,))
    result = robot.forward_dynamics(*inputs)
    file = io.BytesIO()
    torch.save(robot, file)
    file.seek(0)
    other = zoo_robot(device)
    with torch.no_grad():
        for value in other.state_dict().values():
            value.mul_(1.01)
    other.load_state_dict(robot.state_dict())
    for one in (copy.deepcopy(robot), torch.load(file, weights_only=False), other):
        assert torch.equal(one.forward_dynamics(*inputs), result)
    single = copy.deepcopy(robot).float()
    found = single.forward_dynamics(*(x.float() for x in inputs))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), result, rtol=1e-4, atol=1e-3)
    assert torch.equal(robot.forward_dynamics(*inputs), result)


def test_more_signatures_than_are_kept(device, monkeypatch):
    """In turn, each often enough to be captured, and one again and again among many that come once."""
    monkeypatch.setattr("sim.torch.robot.calls.SIGNATURES", 5)
    monkeypatch.setattr("sim.torch.runtime.engine.CAPTURED_CALLS", 4)
    robot = zoo_robot(device)
    q = state(robot, (30,))[0].requires_grad_()
    expected = robot.forward_kinematics_matrix(q)
    (slope,) = torch.autograd.grad(expected.sum(), q, retain_graph=True)

    def check(rows: int) -> None:
        part = q[:rows].detach().requires_grad_()
        found = robot.forward_kinematics_matrix(part)
        assert torch.equal(found, expected[:rows])
        assert torch.equal(torch.autograd.grad(found.sum(), part)[0], slope[:rows])

    for _ in range(AGAIN):
        for rows in range(1, 11):
            check(rows)
    for rows in (2, 3):
        for _ in range(AGAIN):
            check(rows)
    for rows in range(11, 30):
        check(rows)
        check(2)
    assert len(robot._calls.signatures) == 5
    assert all(len(engine.graphs) <= 4 for engine in robot._calls.engines.values())


def test_what_is_used_is_kept_and_what_is_not_is_freed(monkeypatch):
    """One call beside many others is prepared once, its graph serves another shape of the batch as well."""
    captured, batches, living = [], [], weakref.WeakSet()

    class SeenGraph(CopyGraph):
        def __init__(self, base: Any, call: Any):
            super().__init__(base, call)
            captured.append(call.task.rows)
            living.add(self)

    class SeenSignature(CallSignature):
        def __init__(self, operation: Any, batch: torch.Size, *others: Any):
            super().__init__(operation, batch, *others)
            batches.append(tuple(batch))

    monkeypatch.setattr("sim.torch.robot.calls.SIGNATURES", 5)
    monkeypatch.setattr("sim.torch.robot.calls.CallSignature", SeenSignature)
    monkeypatch.setattr("sim.torch.runtime.engine.CAPTURED_CALLS", 3)
    monkeypatch.setattr("sim.torch.runtime.engine.CopyGraph", SeenGraph)
    robot = zoo_robot("cpu")
    q, _, _, _ = state(robot, (20,))
    for rows in range(2, 12):
        for _ in range(AGAIN):
            robot.gravity_forces(q[:rows])
            robot.gravity_forces(q[0])
    assert batches.count(()) == 1
    for _ in range(AGAIN):
        robot.gravity_forces(q[:1, None])
    assert captured.count(1) == 1
    assert len(captured) == 11
    assert len(living) == 3
    operation = robot._calls.methods["gravity"].operation
    for name in robot.model.link_names[:20]:
        robot.forward_kinematics(q, name)
        robot.gravity_forces(q[0])
    assert len(robot._calls.methods) <= 5
    assert robot._calls.methods["gravity"].operation is operation


def test_an_argument_changed_in_place_is_freed(device):
    """By the backward pass: it then depends on the result, and what the result keeps for its gradient must go."""
    robot = zoo_robot(device)
    q, qd, _, _ = state(robot, (2,))
    q.requires_grad_()
    expected = gradients(q + robot.integrate(q, qd), [q])
    for _ in range(AGAIN):
        changed = q * 1.0
        changed += robot.integrate(changed, qd)
        (found,) = gradients(changed, [q], retain_graph=True)
        assert torch.equal(found, expected[0])
        assert torch.equal(gradients(changed, [q])[0], expected[0])
        seen = weakref.ref(changed)
        del changed
        assert seen() is None


def test_threads(device):
    robot = zoo_robot(device)
    expected, wrong = {}, []
    inputs = {seed: [x.requires_grad_() for x in state(robot, (2,), seed)] for seed in range(4)}
    for seed, leaves in inputs.items():
        result = robot.forward_dynamics(*leaves)
        expected[seed] = (result.detach(), gradients(result, leaves))

    def work(seed: int) -> None:
        for _ in range(30):
            result = robot.forward_dynamics(*inputs[seed])
            found = gradients(result, inputs[seed])
            same = all(torch.equal(one, other) for one, other in zip(found, expected[seed][1], strict=True))
            if not torch.equal(result, expected[seed][0]) or not same:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in inputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_it_says_of_itself(device):
    robot = zoo_robot(device)
    assert robot.joint_names == tuple(f"joint{k}" for k in (0, 1, 2, 3, 5, 6, 7, 8))
    assert robot.link_names == robot.model.link_names
    assert set(robot.link_names) <= set(robot.frame_names)
    assert robot.lower_limit.shape == robot.effort_limit.shape == (robot.nv,)
    assert "nq=" in repr(robot)
    torch.testing.assert_close(robot.initial_coordinates(), torch.tensor(robot.model.q0, device=device))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r, q, v: r.forward_kinematics(q[..., 1:]), r"q has shape \(2, 19\); expected \(..., 20\)"),
        (lambda r, q, v: r.forward_kinematics(q.float()), "q is torch.float32 on cpu, but the robot is torch.float64"),
        (lambda r, q, v: r.forward_kinematics(q.tolist()), "q is a list; expected a torch.Tensor"),
        (lambda r, q, v: r.forward_kinematics(wp.from_torch(q)), "q is a array; expected a torch.Tensor"),
        (lambda r, q, v: r.forward_kinematics(q, "nowhere"), "no frame named 'nowhere'"),
        (lambda r, q, v: r.jacobian(q, "link1", "sideways"), "unknown reference 'sideways'"),
        (lambda r, q, v: r.inverse_dynamics(q, v, v[:, None].expand(2, 3, -1)[:, :, 0]), "qdd has shape"),
        (
            lambda r, q, v: r.inverse_dynamics(q, v, v.expand(5, 2, -1)[:, :1].expand(5, 3, -1)),
            "batch shapes don't fit",
        ),
        (
            lambda r, q, v: r.inverse_dynamics(q, v, v, {"link1": v}),
            r"wrench on 'link1' has shape \(2, 17\); exp",
        ),
        (lambda r, q, v: r.learn("restitution"), "unknown parameter 'restitution'"),
        (lambda r, q, v: r.half().forward_kinematics(q.half()), "torch.float16; .*torch.float32"),
        (lambda r, q, v: sim.torch.Robot(r.model, dtype=torch.float16), "unknown dtype 'float16'"),
        (lambda r, q, v: sim.torch.Robot(r.model, floating_base=True), "options floating_base are for robot files"),
    ],
)
def test_misuse(call, message):
    robot = zoo_robot("cpu")
    q, qd, _, _ = state(robot, (2,))
    with pytest.raises(sim.ModelError, match=message):
        call(robot, q, qd)


def test_a_parameter_of_another_shape(device):
    robot = zoo_robot(device)
    robot.mass = torch.ones(3, device=device, dtype=torch.float64)
    q, qd, _, _ = state(robot, (2,))
    with raises_naming("parameter 'mass'", "shape", "(3,)", "(9,)", "(2, 9)"):
        robot.bias_forces(q, qd)
