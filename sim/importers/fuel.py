"""Models of Gazebo Fuel on disk: folders for addresses such as https://fuel.gazebosim.org/1.0/owner/models/name."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

# Environment variables with the folder of downloaded models, and where Gazebo keeps them otherwise.
CACHES = ("GZ_FUEL_CACHE_PATH", "IGN_FUEL_CACHE_PATH")
DEFAULT_CACHES = (".gz/fuel", ".ignition/fuel")
ADDRESS = re.compile(
    r"https?://(?P<server>[^/]+)/(?:\d+\.\d+/)?(?P<owner>[^/]+)/models/(?P<name>[^/]+)"
    r"(?:/(?P<version>\d+|tip))?(?:/files)?(?:/(?P<rest>.*))?$"
)


def is_address(uri: str) -> bool:
    """Return whether a text is the address of a model, or of one of its files, on a Fuel server."""
    return ADDRESS.match(uri) is not None


def candidates(uri: str, folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the paths where a model of Fuel, or one of its files, may be on this machine; nothing is downloaded.

    First those under Gazebo's folder of downloaded models, in the version asked for or the newest one, then those of a
    folder with the name of the model.

    Args:
        uri: the address.
        folders: where folders of models are searched.
    """
    match = ADDRESS.match(uri)
    if match is None:
        return
    server, owner, name, rest = (unquote(match[part] or "") for part in ("server", "owner", "name", "rest"))
    if any(part in (".", "..") or "/" in part or os.sep in part for part in (server, owner, name)):
        return  # encoded, such as %2F: not a name of a folder
    for cache in _caches():
        model = cache / server / owner.lower() / "models" / name.lower()
        for version in _versions(model, match["version"]):
            yield model / version / rest
    for folder in folders:
        yield folder / name / rest


def _caches() -> list[Path]:
    stated = [Path(entry) for name in CACHES for entry in (os.environ.get(name),) if entry]
    return stated or [Path.home() / each for each in DEFAULT_CACHES]


def _versions(model: Path, stated: str | None) -> list[str]:
    """Return the names of the folders of versions to try, the newest first."""
    if stated is not None and stated != "tip":
        return [stated]
    try:
        found = [entry for entry in os.listdir(model) if entry.isdecimal()]
    except (OSError, ValueError):
        return []
    return sorted(found, key=int, reverse=True)
