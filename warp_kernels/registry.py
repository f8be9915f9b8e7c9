"""Every Warp module of this package in one precision, for checks over all of them (compiling ahead, registers)."""

import importlib
import inspect
import itertools
import pkgutil
from collections.abc import Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import warp as wp

import warp_kernels


def source_modules() -> list[ModuleType]:
    """Return the Python modules of this package, sub-packages included, by name."""
    found = pkgutil.walk_packages(warp_kernels.__path__, prefix="warp_kernels.")
    return [importlib.import_module(info.name) for info in found if info.name != __name__]


def all_kernels(scalar: Any, lanes: Sequence[int] = (1,), looping: bool = False) -> list[wp.Kernel]:
    """Return every kernel of one precision, for a GPU or with other arguments for a CPU.

    A factory is a function ``<name>_kernels(scalar)``, with ``lanes`` and ``looping`` where it has such variants, that
    returns a namespace holding kernels. If one takes further arguments, its file lists their values: ``VARIANTS =
    {"<name>_kernels": [(argument, ...), ...]}``.

    Args:
        scalar: ``wp.float32`` or ``wp.float64``.
        lanes: numbers of worlds in a block, for factories that take it. A GPU has one alone.
        looping: whether kernels over contacts loop over them, as on a CPU.

    Raises:
        TypeError: if a factory takes arguments that its file doesn't list.
    """
    kernels: dict[int, wp.Kernel] = {}
    for source in source_modules():
        for namespace in _built(source, scalar, lanes, looping):
            kernels.update({id(k): k for k in vars(namespace).values() if isinstance(k, wp.Kernel)})
    return list(kernels.values())


def all_modules(scalar: Any, lanes: Sequence[int] = (1,), looping: bool = False) -> list[wp.Module]:
    """Return every Warp module of one precision, each with all its kernels defined, by name; as :func:`all_kernels`."""
    modules = {kernel.module.name: kernel.module for kernel in all_kernels(scalar, lanes, looping)}
    return [modules[name] for name in sorted(modules)]


def _built(source: ModuleType, scalar: Any, lanes: Sequence[int], looping: bool) -> Iterator[SimpleNamespace]:
    variants = getattr(source, "VARIANTS", {})
    for name, factory in vars(source).items():
        if not name.endswith("_kernels") or getattr(factory, "__module__", None) != source.__name__:
            continue
        if isinstance(factory, wp.Function):
            continue
        parameters = inspect.signature(factory).parameters
        further = [parameter for parameter in parameters if parameter not in ("scalar", "lanes", "looping")]
        if further and name not in variants:
            raise TypeError(
                f"{source.__name__}.{name} takes {', '.join(further)}; list values in its file as VARIANTS['{name}']"
            )
        # Drawing has one precision: its factory takes no scalar type.
        precision = (scalar,) if "scalar" in parameters else ()
        widths = [{"lanes": width} for width in lanes] if "lanes" in parameters else [{}]
        shape = {"looping": looping} if "looping" in parameters else {}
        for arguments, width in itertools.product(variants.get(name, [()]), widths):
            yield factory(*precision, *arguments, **width, **shape)
