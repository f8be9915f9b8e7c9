"""What libraries raise while a file is read becomes an ImportFileError that names file and element."""

import numpy as np
import pytest
from scipy.spatial import QhullError

import sim
from sim.importers.formats import ModelBuilder
from sim.importers.transaction import named_file
from tests.importers.test_scaling import chain

ERRORS = (
    ZeroDivisionError("division by zero"),
    OverflowError("too large"),
    np.linalg.LinAlgError("Singular matrix"),
    QhullError("QH6154\nmany lines"),
    KeyError("gone"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    RecursionError("maximum recursion depth exceeded"),
    MemoryError(),
    OSError(5, "Input/output error"),
)


def raises(error):
    def function(*args, **options):
        raise error

    return function


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_element_is_named(tmp_path, monkeypatch, error):
    path = chain(tmp_path / "robot.urdf", 2)
    builder = ModelBuilder()
    monkeypatch.setattr(ModelBuilder, "add_joint", raises(error))
    with pytest.raises(
        sim.ImportFileError, match=rf"robot\.urdf: .*: can't be read: {type(error).__name__}: "
    ) as raised:
        builder.add_urdf(path)
    assert "\n" not in str(raised.value)
    assert raised.value.__cause__ is error
    assert not builder.links


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_file_is_named_where_the_model_is_put_together(tmp_path, monkeypatch, error):
    path = chain(tmp_path / "robot.urdf", 2)
    monkeypatch.setattr(ModelBuilder, "finalize", raises(error))
    with pytest.raises(sim.ImportFileError, match=rf"robot\.urdf: can't be read: {type(error).__name__}: "):
        sim.load(path)


@pytest.mark.parametrize("error", [TypeError("of the caller"), KeyboardInterrupt(), UserWarning("as an error")])
def test_others_pass(error):
    with pytest.raises(type(error)), named_file("robot.urdf"):
        raise error
