"""``import backswing`` offers what ``import sim`` does, in modules of the same names."""

import importlib
import subprocess
import sys

import pytest

import sim
from tests.docs.public_names import lookup, reference_names


@pytest.mark.parametrize("module", sorted({name.rpartition(".")[0] for name in reference_names()}))
def test_every_name_of_the_reference(module):
    alias = importlib.import_module(module.replace("sim", "backswing", 1))
    for name in (name for name in reference_names() if name.rpartition(".")[0] == module):
        assert getattr(alias, name.rpartition(".")[2]) is lookup(name)


def test_modules_are_there_after_the_import_alone():
    code = """
import sys, backswing
assert not {"torch", "pxr"} & set(sys.modules)
assert backswing.torch.Robot is sys.modules["sim.torch"].Robot
assert {*backswing._LAZY, "__version__", "rays"} <= set(dir(backswing))
try:
    backswing.gone
except AttributeError as error:
    assert "backswing" in str(error) and "gone" in str(error)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_command_line():
    said = subprocess.run([sys.executable, "-m", "backswing", "--version"], check=True, capture_output=True, text=True)
    assert said.stdout == f"backswing {sim.__version__}\n"
