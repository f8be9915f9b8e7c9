"""Names that are free, and names and numbers in messages."""

from collections.abc import Container, Iterable

from sim.errors import ModelError


def free_name(wanted: str, taken: Container[str]) -> str:
    """The name, with underscores added until it isn't taken."""
    while wanted in taken:
        wanted += "_"
    return wanted


def some(names: Iterable[str], most: int = 6) -> str:
    """Names in quotes, at most as many as fit into a message."""
    listed = [f"'{name}'" for name in names]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def counted(number: int, what: str) -> str:
    """A number of things, such as "1 link" and "2 geometries"."""
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number} {what if number == 1 else plural}"


def numbered(names: Iterable[str]) -> dict[str, int]:
    """The number of each name; the first where a name stands twice."""
    numbers: dict[str, int] = {}
    for number, name in enumerate(names):
        numbers.setdefault(name, number)
    return numbers


def find_number(numbers: dict[str, int], name: str, what: str) -> int:
    """Return the number of a name. Raises ModelError if there is none, naming what it is of."""
    try:
        return numbers[name]
    except (KeyError, TypeError):  # the latter for what is no name, such as a list
        known = ", ".join(numbers) if len(numbers) <= 40 else f"{', '.join(list(numbers)[:40])} ..."
        raise ModelError(f"no {what} named '{name}'; there are: {known}") from None
