"""Backswing by the name of its distribution: the names of :mod:`sim`, in modules of the same names.

``import backswing`` loads neither PyTorch nor USD, as ``import sim``. Both give the same objects.
"""

import importlib
from typing import TYPE_CHECKING, Any

from sim import *
from sim import _LAZY
from sim import __all__ as __all__
from sim import __version__ as __version__

if TYPE_CHECKING:
    from backswing import envs as envs
    from backswing import exporters as exporters
    from backswing import identify as identify
    from backswing import importers as importers
    from backswing import learn as learn
    from backswing import optimise as optimise
    from backswing import rays as rays
    from backswing import render as render
    from backswing import terrain as terrain
    from backswing import torch as torch
    from backswing import usd as usd
    from backswing import viewer as viewer
else:

    def __getattr__(name: str) -> Any:
        """Import a module when it is first asked for."""
        if name in (*_LAZY, "rays"):
            return importlib.import_module(f"backswing.{name}")
        raise AttributeError(f"module 'backswing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, "rays"})
