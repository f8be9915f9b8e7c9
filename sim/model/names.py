"""Names that are free, and names and numbers in messages."""

from collections.abc import Container, Iterable


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
