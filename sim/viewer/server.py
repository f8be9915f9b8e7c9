"""The server that the browser connects to."""

from __future__ import annotations

import contextlib
import io
import os
import socket
from typing import TYPE_CHECKING, Any

from sim.errors import ModelError
from sim.model.checks import is_whole
from sim.viewer.origins import own_pages_only

if TYPE_CHECKING:
    from viser import ViserServer


def serve(host: str, port: int) -> ViserServer:
    """Start a server that answers its own page only, and never opens a public address.

    Args:
        host: address to listen on.
        port: port to listen on; 0 for any free port.

    Raises:
        ModelError: without the package viser, or if it cannot listen there.
    """
    try:
        import viser
    except ImportError:
        raise ModelError('the viewer needs the package viser: pip install "backswing[view]"') from None
    if not is_whole(port, 0) or port > 65535:
        raise ModelError(f"Viewer: port is {port!r}; it must be a whole number from 0 to 65535")
    try:
        # viser would use the next free port, and wait forever if there is none.
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error
        raise ModelError(
            f"Viewer: cannot listen on {host}, port {port}: {reason}; choose another port, or 0 for any"
        ) from None

    class PrivateServer(viser.ViserServer):
        """A server that nobody on the page can open to the public."""

        def request_share_url(self, verbose: bool = True) -> str | None:
            return None

        def disconnect_share_url(self) -> None:
            pass

    with quiet(), own_pages_only(host):
        return PrivateServer(host=host, port=int(port), verbose=False)


def address(server: ViserServer) -> str:
    """URL of the page."""
    host = server.get_host()
    return f"http://{'localhost' if host in ('0.0.0.0', '127.0.0.1') else host}:{server.get_port()}"


def quiet() -> contextlib.AbstractContextManager[Any]:
    """Context that suppresses viser's messages about its server."""
    return contextlib.redirect_stdout(io.StringIO())
