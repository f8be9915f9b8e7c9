"""Which module imports which, read from the syntax tree: inside functions and under TYPE_CHECKING too."""

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("warp_kernels", "sim", "backswing", "scenes", "examples", "bench")  # each may import those before it

# For each module the modules that it imports, with the line.
Graph = Mapping[str, Mapping[str, int]]


def python_files(package: str) -> list[Path]:
    """The Python files of one of the top-level folders."""
    return sorted((ROOT / package).rglob("*.py"))


@functools.cache
def import_graph(types: bool = True) -> Graph:
    """The imports between all modules; the tests are one, and what they import is left out.

    That importing ``sim.model.model`` runs the ``__init__.py`` of ``sim`` and ``sim.model`` first counts as no import.

    Args:
        types: whether imports under TYPE_CHECKING, which no program runs, count too.
    """
    files = {_module_name(path): path for package in PACKAGES for path in python_files(package)}
    known = frozenset({*files, "tests"})
    return {name: dict(imports(path.read_text(), known, types)) for name, path in files.items()}


def imports(source: str, known: frozenset[str], types: bool = True) -> Iterator[tuple[str, int]]:
    """The modules among ``known`` that a file imports, with the lines, the last first.

    Args:
        source: of the file.
        known: names of modules.
        types: whether imports under TYPE_CHECKING count.

    Raises:
        ValueError: for a relative import, which nothing here uses.
    """
    tree = ast.parse(source)
    for_types = {below for node in ast.walk(tree) if _asks_for_types(node) for below in ast.walk(node)}
    for node in ast.walk(tree):
        if not types and node in for_types:
            continue
        for name in _names(node):
            while name and name not in known:
                name = name.rpartition(".")[0]
            if name:
                yield name, node.lineno  # type: ignore[attr-defined]


def _asks_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _names(node: ast.AST) -> list[str]:
    """Dotted names that a statement imports; for ``from a import b`` that is ``a.b``, be it a module or not."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        if node.level:
            raise ValueError(f"line {node.lineno}: a relative import")
        return [f"{node.module}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
        return [str(node.args[0].value)] if called in ("import_module", "__import__") else []
    return []


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def circles(graph: Graph) -> list[list[str]]:
    """The circles of a graph: for each set of modules that reach each other one shortest way round."""
    left = {name: set(targets) & set(graph) for name, targets in graph.items()}
    found = []
    for start in sorted(left):
        cycle = _shortest_cycle(left, start)
        if cycle:
            found.append(cycle)
            for name in cycle:  # what goes through them is shown by this circle
                left[name] = set()
    return found


def _shortest_cycle(graph: Mapping[str, set[str]], start: str) -> list[str]:
    """The shortest way from a module to itself, both ends included; empty where there is none."""
    came_from: dict[str, str] = {}
    front = [start]
    while front:
        following = []
        for name in front:
            for target in sorted(graph[name]):
                if target == start:
                    cycle = [start, name]
                    while cycle[-1] != start:
                        cycle.append(came_from[cycle[-1]])
                    return cycle[::-1]
                if target not in came_from:
                    came_from[target] = name
                    following.append(target)
        front = following
    return []


def rooms(allowed: Mapping[str, tuple[str, ...]]) -> dict[str, set[str]]:
    """For each folder or file all that it may import: itself, what it names, and what these may import."""
    reach: dict[str, set[str]] = {}
    for name, below in allowed.items():  # each stands after those that it names
        reach[name] = {name}.union(*(reach[lower] for lower in below))
    return reach


def room_of(module: str, package: str, allowed: Mapping[str, tuple[str, ...]]) -> str | None:
    """The innermost folder or file of a table in which a module stands; None where it lists none.

    The package's own ``__init__.py`` has the name of the package.
    """
    name = module.removeprefix(f"{package}.")
    while name and name not in allowed:
        name = name.rpartition(".")[0]
    return name or None
