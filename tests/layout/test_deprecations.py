"""A deprecated name works for one minor release: each warning names the version that removes it."""

import ast

import sim
from tests.layout.imports import PACKAGES, python_files


def minor(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split(".")[:2])


def test_deprecations_name_the_next_minor_version():
    """When this fails after a new version was set, remove the names that it lists."""
    major, current = minor(sim.__version__)
    removed = {}
    for path in (path for package in PACKAGES for path in python_files(package)):
        source = path.read_text()
        assert "DeprecationWarning" not in source or path.name == "version.py", (
            f"{path}: call sim.version.warn_deprecated"
        )
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "warn_deprecated":
                removed[f"{path}:{node.lineno}"] = minor(ast.literal_eval(node.args[2]))
    assert len(removed) >= 5
    assert {where for where, version in removed.items() if version != (major, current + 1)} == set()
