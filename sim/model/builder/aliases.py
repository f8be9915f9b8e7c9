"""Deprecated keywords of the builder's methods, translated into dataclasses."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sim.errors import ModelError
from sim.model.builder.properties import GROUPS, in_groups
from sim.version import warn_deprecated

Method = TypeVar("Method", bound=Callable[..., Any])


def deprecated_keywords(fields: Mapping[str, str]) -> Callable[[Method], Method]:
    """Accept the keywords of version 0.1 in a method of the builder, with a deprecation warning.

    Args:
        fields: "argument.field" by old keyword, see :func:`sim.model.builder.properties.in_groups`.
    """

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def accepting(*arguments: Any, **given: Any) -> Any:
            old = {name: value for name, value in given.items() if name in fields}
            return method(*arguments, **(_translated(method.__name__, fields, given, old) if old else given))

        return accepting  # type: ignore[return-value]

    return decorate


def _translated(
    method: str, fields: Mapping[str, str], given: Mapping[str, Any], old: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments in their new form; raise ModelError for one given in both forms."""
    new = {name: value for name, value in given.items() if name not in fields}
    values = dict(old)
    if (
        "lower" not in fields
        and isinstance(new.get("limits"), tuple)
        and any(name.startswith("limit_") for name in old)
    ):
        # A tendon's limits were a pair, with margin and softness as separate keywords.
        values = {"lower": new["limits"][0], "upper": new.pop("limits")[1], **old}
        fields = {"lower": "limits.lower", "upper": "limits.upper", **fields}
    forms: dict[str, list[str]] = {}
    for name in values:
        group, field = fields[name].split(".")
        if group in new:
            raise ModelError(f"{method}: both '{name}' and '{group}' are given; put {field} into {group}")
        forms.setdefault(group, []).append(f"{field}=...")
    written = ", ".join(f"{group}=sim.{GROUPS[group].__name__}({', '.join(own)})" for group, own in forms.items())
    warn_deprecated(f"{method}({', '.join(f'{name}=...' for name in old)})", f"give {written}", "0.3", stacklevel=3)
    return new | in_groups(fields, values)
