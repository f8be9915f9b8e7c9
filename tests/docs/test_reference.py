"""The reference has every public name, and the examples in docstrings print what they say."""

import doctest
import inspect

import pytest

from tests.docs.public_names import documented_names, lookup, public_names

# What the examples of others show, or what has nothing to show: dataclasses that a call returns, errors, and a server.
WITHOUT_EXAMPLE = {
    "sim.difference", "sim.from_mujoco", "sim.from_pinocchio", "sim.torch.rollout_with_contact_forces", "sim.torch.imu",
    "sim.torch.actuator_forces", "sim.envs.make_task", "sim.render.iterate_frames", "sim.render.fit_camera",
    "sim.render.grid_offsets", "sim.render.write_gif", "sim.render.write_mp4", "sim.render.write_png",
    "sim.viewer.force_gradients", "sim.identify.align", "sim.identify.base_parameters", "sim.identify.cannot_tell",
    "sim.identify.column_names", "sim.identify.linear_parameters", "sim.identify.plot", "sim.identify.read_csv",
    "sim.identify.read_frame", "sim.identify.read_npz", "sim.identify.read_rosbag", "sim.identify.sample",
    "sim.identify.save_html", "sim.identify.save_plot", "sim.optimise.cmaes", "sim.optimise.gradient",
    "sim.optimise.ilqr", "sim.optimise.lbfgs",
}  # fmt: skip


def with_examples() -> dict[str, object]:
    """The functions, classes and methods whose docstring has an example."""
    found = {}
    for name in public_names():
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


def test_every_function_has_an_example() -> None:
    functions = {name for name in public_names() if inspect.isfunction(lookup(name)) and "drm" not in name}
    assert sorted(functions - set(EXAMPLES) - WITHOUT_EXAMPLE) == []
    assert {"sim.ModelBuilder", "sim.Simulator", "sim.Trajectory.backward", "sim.torch.Robot"} <= set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    text = inspect.getdoc(EXAMPLES[name]) or ""
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    printed: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(example, out=printed.append)
    assert results.attempted > 1
    assert results.failed == 0, "".join(printed)
