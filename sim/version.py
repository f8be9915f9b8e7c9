"""The version of the package that is installed."""

import importlib.metadata


def version() -> str:
    """Its number, such as "0.1.0"; "0+unknown" in a checkout that isn't installed."""
    try:
        return importlib.metadata.version("backswing")
    except importlib.metadata.PackageNotFoundError:
        return "0+unknown"
