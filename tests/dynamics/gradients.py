"""Gradients of operations against central differences."""

from collections.abc import Callable, Sequence

import numpy as np
import warp as wp

import sim

STEP = 1e-6
# Central differences with this step are good to about 1e-9 of the largest entry.
BOUND = 1e-6

Operation = Callable[..., wp.array]


def check_gradients(
    operation: Operation,
    model: sim.Model,
    arguments: Sequence[np.ndarray],
    parameters: Sequence[str],
    per_world: bool,
    device: str,
) -> None:
    """Compare the gradient of a random weighted sum of the result, in all arguments and parameters.

    Args:
        operation: takes a DeviceModel and the arguments.
        model: a float64 model; of every gradient at least one entry must differ from zero.
        arguments: arrays [num_worlds, n...].
        parameters: names of the parameters that the result depends on.
        per_world: give each world its own values of the parameters.
        device: Warp device.
    """
    rng = np.random.default_rng(3)
    worlds = len(arguments[0])
    values = {name: model.parameters[name] for name in parameters}
    if per_world:
        values = {name: perturbed(name, value, worlds, rng) for name, value in values.items()}
    m = sim.DeviceModel(model, device, worlds, values, parameters)
    given = [wp.array(array, dtype=wp.float64, device=device, requires_grad=True) for array in arguments]
    with wp.Tape() as tape:
        result = operation(m, *given)
    weight = rng.normal(size=result.shape)
    result.grad.assign(weight)
    tape.backward()

    def value(*arrays: np.ndarray) -> float:
        return float((operation(m, *arrays).numpy() * weight).sum())

    for number, array in enumerate(arguments):

        def of_argument(changed: np.ndarray, number: int = number) -> float:
            return value(*arguments[:number], changed, *arguments[number + 1 :])

        compare(f"argument {number}", given[number].grad.numpy(), central_differences(of_argument, array))
    for name, array in values.items():

        def of_parameter(changed: np.ndarray, name: str = name) -> float:
            m.set_parameter(name, changed)
            return value(*arguments)

        found = m.gradient(name)
        compare(name, found, central_differences(of_parameter, array))
        m.set_parameter(name, array)


def perturbed(name: str, value: np.ndarray, worlds: int, rng: np.random.Generator) -> np.ndarray:
    """Values that differ between worlds, still physical (quaternions need not have unit length)."""
    scale = 1.0 + 0.1 * rng.uniform(-1.0, 1.0, (worlds, *(1,) * value.ndim))
    return value * scale + (0.1 if name in ("gravity", "com", "rest_position") else 0.0)


def central_differences(function: Callable[[np.ndarray], float], at: np.ndarray) -> np.ndarray:
    """Derivative of a scalar in every entry of an array."""
    result = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        above, below = at.copy(), at.copy()
        above[index] += STEP
        below[index] -= STEP
        result[index] = (function(above) - function(below)) / (2.0 * STEP)
    return result


def compare(what: str, found: np.ndarray, expected: np.ndarray) -> None:
    assert found.shape == expected.shape, what
    largest = np.abs(expected).max()
    assert largest > 1e-3, f"{what}: the test says nothing, all derivatives are {largest}"
    error = np.abs(found - expected).max() / largest
    assert error < BOUND, f"{what}: relative error {error}"
