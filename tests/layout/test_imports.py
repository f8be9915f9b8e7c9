"""Imports run one way: between the packages, between the folders of sim and of warp_kernels, and without any circle."""

import pytest

from tests.layout.imports import PACKAGES, circles, import_graph, imports, room_of, rooms

# What each folder (or file beside folders) may import: those named here, and all that these may import. It stands below
# them.
SIM: dict[str, tuple[str, ...]] = {
    "errors": (),
    "version": (),
    "cores": (),
    "output": ("errors",),
    "progress": ("output",),
    "figures": ("errors",),
    "tables": (),
    "model": ("errors", "version", "tables"),
    "arrays": ("model", "output", "cores"),
    "dynamics": ("arrays",),
    "rays": ("dynamics",),
    "distances": ("dynamics",),
    "terrain": ("model",),
    "simulation.options": ("dynamics",),
    "simulation.stepping": ("simulation.options",),
    "simulation.state": ("arrays",),
    "simulation.batches": ("arrays",),
    "simulation.engine": ("simulation.stepping", "simulation.state", "simulation.batches"),
    "simulation": ("simulation.engine", "figures"),
    "diagnostics": ("simulation",),
    "render": ("dynamics", "output"),
    "usd": ("simulation", "render"),
    "importers": ("usd",),
    "exporters": ("importers",),
    "torch": ("diagnostics", "rays", "distances", "exporters"),
    "envs": ("torch", "terrain"),
    "learn": ("envs", "progress"),
    "identify": ("torch", "figures"),
    "optimise": ("torch", "figures"),
    "viewer": ("torch",),
    "cli": ("version", "diagnostics", "viewer", "exporters", "learn"),
    "__main__": ("cli",),
    "sim": ("version", "learn", "identify", "optimise", "terrain", "cli"),
}
KERNELS: dict[str, tuple[str, ...]] = {
    "warp_kernels": (),
    "cpu": (),
    "types": ("cpu",),
    "variants": (),
    "team": ("types",),
    "precision": ("types",),
    "denormals": ("types",),
    "solver.structs": ("types",),
    "constraints.kinds": ("cpu",),
    "contact_adjoints": ("solver.structs", "variants"),
    "algebra": ("types",),
    "parameters": ("algebra",),
    "kinematics": ("algebra", "variants"),
    "rollout": ("solver.structs", "constraints.kinds", "kinematics"),
    "linearise": ("rollout",),
    "linearise_drift": ("rollout",),
    "dynamics": ("kinematics", "team"),
    "collision": ("algebra", "variants", "solver.structs"),
    "collision.convex": ("collision",),
    "collision.field": ("collision",),
    "collision.detect": ("collision.convex", "collision.field", "team"),
    "collision.detect_boxes": ("collision.convex",),
    "collision.evaluate": ("collision.convex", "collision.field"),
    "constraints": ("collision", "dynamics", "solver.structs", "constraints.kinds"),
    "sensors": ("rollout", "constraints"),
    "solver.midpoint.joint_weights": ("constraints",),
    "actuators": ("rollout", "solver.midpoint.joint_weights"),
    "solver": ("actuators", "dynamics", "team"),
    "rays": ("collision.field",),
    "render": ("algebra", "variants", "rays"),
    "stops": ("collision.field", "kinematics"),
    "distances": ("collision.convex", "collision.field"),
    "registry": ("warp_kernels",),  # finds all the others at run time
}


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_those_below(package: str) -> None:
    allowed = PACKAGES[: PACKAGES.index(package) + 1]
    wrong = [
        f"{module}:{line} imports {target}"
        for module, targets in import_graph().items()
        for target, line in targets.items()
        if module.split(".")[0] == package and target.split(".")[0] not in allowed
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("package", "allowed"), [("sim", SIM), ("warp_kernels", KERNELS)])
def test_folders_import_those_below(package: str, allowed: dict[str, tuple[str, ...]]) -> None:
    reach = rooms(allowed)
    wrong = []
    for module, targets in import_graph().items():
        if module.split(".")[0] != package:
            continue
        room = room_of(module, package, allowed)
        assert room, f"{module} stands in no folder of the table: say in this file what it may import"
        for target, line in targets.items():
            other = room_of(target, package, allowed)
            if target.split(".")[0] == package and other not in reach[room]:
                wrong.append(f"{module}:{line} imports {target}")
    assert not wrong, "\n".join(wrong)


def test_folders_of_the_tables_exist() -> None:
    for package, allowed in (("sim", SIM), ("warp_kernels", KERNELS)):
        modules = import_graph()
        assert [room for room in allowed if room != package and f"{package}.{room}" not in modules] == []


def test_no_circles() -> None:
    # The stages of a step name each other's types.
    found = circles(import_graph(types=False))
    assert not found, "\n".join(" -> ".join(direction) for direction in found)


def test_imports_inside_functions_and_by_name_are_seen() -> None:
    source = """
import sim.model.builder, numpy
from sim.model import specs, Model
if TYPE_CHECKING:
    from sim.torch.robot import Robot
def f():
    import scenes.throw
    return importlib.import_module("sim.importers.load")
"""
    known = frozenset(
        {"sim", "sim.model", "sim.model.builder", "sim.model.specs", "sim.torch", "sim.torch.robot", "scenes.throw"}
    )
    assert sorted(imports(source, known)) == [
        ("scenes.throw", 7),
        ("sim", 8),
        ("sim.model", 3),
        ("sim.model.builder", 2),
        ("sim.model.specs", 3),
        ("sim.torch.robot", 5),
    ]
    assert ("sim.torch.robot", 5) not in imports(source, known, types=False)
    assert ("scenes.throw", 7) in imports(source, known, types=False)
    with pytest.raises(ValueError, match="line 1: a relative import"):
        list(imports("from . import x", known))


def test_circles_are_found() -> None:
    graph = {"a": {"b": 1}, "b": {"c": 1, "numpy": 2}, "c": {"b": 3}, "d": {"d": 1}, "e": {"a": 1}}
    assert circles(graph) == [["b", "c", "b"], ["d", "d"]]


def test_rooms() -> None:
    allowed = {"low": (), "high.inner": ("low",), "high": ("high.inner",)}
    assert rooms(allowed) == {
        "low": {"low"},
        "high.inner": {"high.inner", "low"},
        "high": {"high", "high.inner", "low"},
    }
    assert room_of("sim.high.inner.file", "sim", allowed) == "high.inner"
    assert room_of("sim.high.file", "sim", allowed) == "high"
    assert room_of("sim.attic", "sim", allowed) is None
    assert room_of("sim", "sim", {"sim": ()}) == "sim"
