"""The reference has every public name, and the examples in docstrings print what they say."""

import doctest
import inspect

import pytest

from tests.docs.public_names import documented_names, lookup, public_names, reference_names


def with_examples() -> dict[str, object]:
    """The functions, classes and methods whose docstring has an example."""
    found = {}
    for name in reference_names():
        thing = lookup(name)
        members = inspect.getmembers(thing, inspect.isfunction) if inspect.isclass(thing) else []
        for path, each in ((name, thing), *((f"{name}.{member}", method) for member, method in members)):
            own = inspect.getmodule(each)  # methods that a class inherits from PyTorch's are not ours
            if own and own.__name__.startswith("sim.") and ">>>" in (inspect.getdoc(each) or ""):
                found[path] = each
    return found


EXAMPLES = with_examples()


def test_every_public_name_is_in_the_reference() -> None:
    documented = documented_names()
    assert sorted(set(public_names()) - set(documented)) == [], "add them to a page in docs/api"
    assert sorted(name for name in set(documented) if documented.count(name) > 1) == []


def needs_example(name: str) -> bool:
    """Functions and classes, but for errors, warnings and the names of differentiable-robot-model."""
    thing = lookup(name)
    if "drm" in name or (inspect.isclass(thing) and issubclass(thing, Warning | Exception)):
        return False
    return inspect.isfunction(thing) or inspect.isclass(thing)


def test_every_public_name_has_an_example() -> None:
    """Of a class itself or of one of its methods."""
    shown = {name for name in reference_names() if any(f"{path}.".startswith(f"{name}.") for path in EXAMPLES)}
    assert sorted(name for name in reference_names() if needs_example(name) and name not in shown) == []
    assert {"sim.ModelBuilder", "sim.Simulator", "sim.Trajectory.backward", "sim.torch.Robot"} <= set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    text = inspect.getdoc(EXAMPLES[name]) or ""
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    printed: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(example, out=printed.append)
    assert results.attempted > 1
    assert results.failed == 0, "".join(printed)
