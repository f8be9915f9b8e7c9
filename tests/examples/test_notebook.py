"""The notebook is true: its cells run, their assertions hold, and they print what stands below them."""

import contextlib
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib import pyplot

NOTEBOOK = Path(__file__).parents[2] / "examples" / "kinematics_and_dynamics.ipynb"
NUMBER = r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?"


@pytest.fixture(autouse=True)
def undone():
    """The notebook sets PyTorch's default and opens a figure."""
    default = torch.get_default_dtype()
    yield
    torch.set_default_dtype(default)
    pyplot.close("all")


def test_cells_run_and_print_what_is_saved():
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    names: dict = {}
    for number, cell in enumerate(cells):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
        saved = "".join("".join(output.get("text", "")) for output in cell["outputs"])
        told, expected = ([float(x) for x in re.findall(NUMBER, text)] for text in (printed.getvalue(), saved))
        np.testing.assert_allclose(told, expected, rtol=1e-3, atol=1e-3, err_msg=f"cell {number} prints other numbers")
        words = [re.sub(rf"{NUMBER}|\s", "", text) for text in (printed.getvalue(), saved)]
        assert words[0] == words[1], f"cell {number} prints other words"
    assert sum("image/png" in output.get("data", {}) for cell in cells for output in cell["outputs"]) == 1
    assert pyplot.get_fignums()
