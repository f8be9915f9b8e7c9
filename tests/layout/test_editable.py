"""Type checkers and editors find the packages of an editable installation."""

import site
from pathlib import Path


def test_an_editable_installation_is_a_path():
    """Not an import hook, which type checkers don't follow: see pyproject.toml."""
    assert not [hook for folder in site.getsitepackages() for hook in Path(folder).glob("__editable___backswing*.py")]
