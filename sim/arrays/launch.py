"""Launch kernels by name: every argument of a kernel gets the array that has its name."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any

import warp as wp

GRADIENT = "_bar"

# Where the arguments of a kernel were found: number of the source, and what takes the argument out of it.
Plan = list[tuple[int, Callable[[Any], Any]]]
_plans: dict[tuple[Any, ...], Plan] = {}


def launch(
    kernel: wp.Kernel,
    dim: int | tuple[int, ...],
    *sources: object,
    device: wp.DeviceLike,
    record_tape: bool = True,
    **named: Any,
) -> None:
    """Launch a kernel with the arrays that have the names of its arguments.

    Args:
        kernel: the kernel.
        dim: number of threads, one number for each dimension.
        sources: where arguments are looked up, see :func:`bind`.
        device: where to launch it.
        record_tape: whether an active tape records it.
        named: arguments given one by one, see :func:`bind`.

    Raises:
        TypeError: as :func:`bind`.
    """
    wp.launch(kernel, dim, bind(kernel, *sources, **named), device=device, record_tape=record_tape)


def bind(kernel: wp.Kernel, *sources: object, **named: Any) -> list[Any]:
    """The arguments of a kernel, in its order.

    An argument ``x`` is ``named["x"]``, or the attribute or entry ``x`` of the first source that has one. Where nothing
    is named ``x_bar``, that argument is the gradient of ``x``; it is None where ``x`` has none, and the kernel sees an
    array without rows. A name means the same in all sources: where it was found is remembered for each kernel.

    Args:
        kernel: the kernel.
        sources: objects with arrays as attributes, or mappings from names to arrays.
        named: arguments given one by one.

    Raises:
        TypeError: for an argument that nothing has the name of, and for a name that the kernel doesn't take.
    """
    everything = (named, *sources)
    key = (kernel, *named, *map(type, sources))
    plan = _plans.get(key)
    if plan is not None:
        try:
            return [take(everything[number]) for number, take in plan]
        except (AttributeError, KeyError):
            pass  # another source of the same type, which lacks what that one had
    plan = _plans[key] = _make_plan(kernel, everything)
    return [take(everything[number]) for number, take in plan]


def _make_plan(kernel: wp.Kernel, everything: Sequence[Any]) -> Plan:
    arguments = [argument.label for argument in kernel.adj.args]
    unknown = [name for name in everything[0] if name not in arguments]
    if unknown:
        raise TypeError(f"kernel '{kernel.key}' has no argument {_quoted(unknown)}; it takes {_quoted(arguments)}")
    found = {name: _find(name, everything) for name in arguments}
    missing = [name for name, place in found.items() if place is None]
    if missing:
        places = ", ".join(type(source).__name__ for source in everything[1:]) or "no source"
        raise TypeError(
            f"kernel '{kernel.key}': nothing is named {_quoted(missing)} in {places} or among the arguments"
        )
    return [place for place in found.values() if place is not None]


def _find(name: str, everything: Sequence[Any]) -> tuple[int, Callable[[Any], Any]] | None:
    for number, source in enumerate(everything):
        if isinstance(source, Mapping):
            if name in source:
                return number, itemgetter(name)
        elif hasattr(source, name):
            return number, attrgetter(name)
    if name.endswith(GRADIENT):
        place = _find(name.removesuffix(GRADIENT), everything)
        if place is not None:
            return place[0], _gradient(place[1])
    return None


def _gradient(take: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def gradient(source: Any) -> Any:
        return getattr(take(source), "grad", None)

    return gradient


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
