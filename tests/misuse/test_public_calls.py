"""Public functions and methods called with wrong values: each returns, or raises an error of the project."""

import warnings

import pytest

import sim
from tests.misuse.calls import FUNCTIONS, LASTING, Call, Scene, calls, public_functions
from tests.misuse.methods import Method, classes_left_out, methods, public_methods
from tests.misuse.values import HUGE, WRONG

# Tensors whose rows are those of the result: one of 2^40 rows is valid, and finds no memory.
BROADCAST = {("integrate", "qd"), ("inverse_kinematics", "start")}
LONGEST = 10_000  # characters of a message


@pytest.fixture(scope="module")
def valid() -> dict[str, Call]:
    return calls(Scene())


@pytest.fixture(scope="module")
def valid_methods() -> dict[str, Method]:
    return methods(Scene())


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Files that calls write are in a folder of their own."""
    monkeypatch.chdir(tmp_path)


def untyped(call: Call | Method, argument: str) -> list[str]:
    """Return what other errors a call raises if one of its arguments is replaced by wrong values."""
    found = []
    broadcast = isinstance(call, Method) and (call.name, argument) in BROADCAST
    values = WRONG if argument in LASTING else WRONG | HUGE
    for name, make in values.items():
        if (argument in FUNCTIONS and name == "type") or (argument in LASTING and name == "infinity"):
            continue  # a function that returns something else, a training that its time ends
        if broadcast and name == "huge tensor":
            continue
        try:
            result = call.function(**{**call.given, argument: make()})
            next(result, None) if hasattr(result, "__next__") else None
        except sim.ModelError as error:
            if len(str(error)) > LONGEST:
                found.append(f"{name}: a message of {len(str(error))} characters")
        except Exception as error:
            found.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
    return found


def test_every_public_function_has_a_valid_call(valid):
    assert set(valid) == public_functions()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(public_functions()))
def test_wrong_values_raise_errors_of_the_project(valid, name):
    call = valid[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {argument: untyped(call, argument) for argument in call.arguments()}
    assert not {argument: problems for argument, problems in found.items() if problems}


def test_every_public_method_has_a_valid_call(valid_methods):
    assert set(valid_methods) == public_methods()
    assert classes_left_out() == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(public_methods()))
def test_wrong_values_of_methods(valid_methods, name):
    test_wrong_values_raise_errors_of_the_project(valid_methods, name)


@pytest.mark.parametrize(
    "name", ["ModelBuilder.add_geometry", "Model.dofs_of", "Robot.mass_matrix", "Estimate.interval", "Camera.project"]
)
def test_wrong_values_of_some_methods(valid_methods, name):
    test_wrong_values_of_methods(valid_methods, name)


@pytest.mark.parametrize(
    "name",
    ["sim.forward_dynamics", "sim.Surface", "sim.torch.clip_adjoint", "sim.terrain.generate", "sim.render.Camera"],
)
def test_wrong_values_of_some_functions(valid, name):
    test_wrong_values_raise_errors_of_the_project(valid, name)
