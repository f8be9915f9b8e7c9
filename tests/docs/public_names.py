"""What users import, and what the pages of the reference document."""

import importlib
import re
from pathlib import Path

import sim

REFERENCE = Path(__file__).parents[2] / "docs" / "api"
# ``sim.importers`` has no names of its own but the readers of each format, which the reference lists.
MODULES = ("sim", *(f"sim.{name}" for name in sim._LAZY if name != "importers"), "sim.rays", "sim.torch.drm")
DIRECTIVE = re.compile(
    r"^\.\. (?:(?P<module>currentmodule)|auto(?:class|function|exception|data)|py:data):: (?P<name>[\w.]+)$",
    re.MULTILINE,
)


def public_names() -> list[str]:
    """Every name that a public module exports, such as "sim.torch.rollout"."""
    return [f"{module}.{name}" for module in MODULES for name in importlib.import_module(module).__all__]


def documented_names() -> list[str]:
    """Every name that a page of the reference documents, as often as it does so."""
    names = []
    for page in sorted(REFERENCE.glob("*.rst")):
        module = ""
        for found in DIRECTIVE.finditer(page.read_text(encoding="utf-8")):
            if found["module"]:
                module = found["name"]
            else:
                names.append(found["name"] if found["name"].startswith("sim.") else f"{module}.{found['name']}")
    return names


def reference_names() -> list[str]:
    """Every public name, and those of inner modules that the reference documents as well, such as those of readers."""
    return list(dict.fromkeys([*public_names(), *documented_names()]))


def lookup(name: str) -> object:
    """The object of a public name."""
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)
