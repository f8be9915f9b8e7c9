"""Names that are free, and names in messages."""

from collections.abc import Container, Iterable


def free_name(wanted: str, taken: Container[str]) -> str:
    """The name, with underscores added until it isn't taken."""
    while wanted in taken:
        wanted += "_"
    return wanted


def some(names: Iterable[str], most: int = 6) -> str:
    """Names in quotes, no more than a message can hold."""
    listed = [f"'{name}'" for name in names]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
