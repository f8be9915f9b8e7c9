"""How `make docs` builds the site: Sphinx, MyST and the theme Furo."""

import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from numpy.typing import ArrayLike
from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation

from sim.model.softness import DEFAULT_SOFTNESS
from sim.model.specs import Vector
from sim.version import __version__

project = "Backswing"
author = "The Backswing developers"
copyright = "The Backswing developers"
release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "site_links",
    "site_math",
]
exclude_patterns = ["pictures"]

# Markdown. The anchors of headings are those of GitHub, so that links work there and here.
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4

# Tutorials are run when the site is built; an error in one stops the build.
nb_execution_mode = "cache"
nb_execution_cache_path = os.environ.get("BACKSWING_DOCS_CACHE", str(Path(__file__).parents[1] / "out/docs-cache/runs"))
nb_execution_excludepatterns = ["kinematics_and_dynamics.ipynb"]  # stored with its output, which a test compares
nb_execution_timeout = 600  # seconds for a cell: the first one may compile kernels
nb_execution_raise_on_error = True
nb_merge_streams = True

# The reference is made from the docstrings.
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
autosummary_generate = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # attributes in one list; some are properties with an entry of their own
maximum_signature_line_length = 90
toc_object_entries_show_parents = "hide"
highlight_language = "text"  # of what names no language: mostly commands and what they print
python_use_unqualified_type_names = True

# Types and defaults that are long when spelt out, and what a reader calls them.
SHORT = (
    (re.escape(stringify_annotation(ArrayLike, "smart")), "ArrayLike"),
    (re.escape(stringify_annotation(Vector, "smart")), "Vector"),
    (r"~numpy\.ndarray\[tuple\[~typing\.Any, \.\.\.\], ~numpy\.dtype\[~?[\w.]+\]\]", "~numpy.ndarray"),
    (re.escape(repr(DEFAULT_SOFTNESS)), "Softness()"),
)


def shorten_types(
    app: Sphinx, what: str, name: str, thing: object, options: object, signature: str, returns: str
) -> tuple:
    """Sphinx's event ``autodoc-process-signature``."""
    texts = [signature, returns]
    for pattern, short in SHORT:
        texts = [text and re.sub(pattern, short, text) for text in texts]
    return tuple(texts)


def setup(app: Sphinx) -> None:
    """Connect the event."""
    app.connect("autodoc-process-signature", shorten_types)


# `make links` asks other hosts; the viewer is on the reader's own machine.
linkcheck_ignore = [r"http://localhost"]
linkcheck_anchors = False
linkcheck_timeout = 20

html_theme = "furo"
html_math_renderer = "mathml"
html_title = "Backswing"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"sidebar_hide_name": False}
html_copy_source = False
html_show_sourcelink = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
