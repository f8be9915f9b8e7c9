"""Checks that errors and warnings name what is wrong: file, element, argument, value. Their wording is free."""

import re
import warnings
from collections.abc import Callable

import pytest

import sim


def naming(*items: object) -> str:
    """Return a pattern for texts that contain all items, in any order. Names and numbers match as whole words."""
    return "(?s)" + "".join(f"(?=.*{_whole(str(item))})" for item in items)


def _whole(text: str) -> str:
    before = r"(?<![\w.-])" if text[0].isdigit() else r"(?<!\w)" if text[0].isalpha() else ""
    after = r"(?:\.0)?(?!\.?\w)" if text[-1].isdigit() else r"(?!\w)" if text[-1].isalpha() else ""
    return before + re.escape(text) + after


def raises_naming(*items: object, error: type[Exception] = sim.ModelError) -> pytest.RaisesExc:
    """Require an error whose message contains all items, see :func:`naming`."""
    return pytest.raises(error, match=naming(*items))


def refuses(call: Callable[[], object], *items: object, error: type[Exception] = sim.ModelError) -> None:
    """Check that a call raises an error whose message contains all items: one line for one of several cases."""
    with raises_naming(*items, error=error):
        call()


def strictly(function, *args, **options):
    """Return the result of a function that must not warn."""
    with warnings.catch_warnings():
        # Before what the caller ignores.
        warnings.simplefilter("error", append=True)
        return function(*args, **options)


def quietly(function, *args, **options):
    """Return the result of a function, whatever it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return function(*args, **options)


def warned(function, *args, **options) -> str:
    """Return what a function warns of."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        function(*args, **options)
    return "\n".join(str(warning.message) for warning in said)
