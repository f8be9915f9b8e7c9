"""Server of the viewer, which only its own page may connect to.

A browser lets any page on the internet open a websocket to this machine, and names the page in the header Origin. An
attacker can let a domain name point to this machine, which makes a foreign page look like the viewer's own (DNS
rebinding). So the name in the header Host must belong to this machine, too.
"""

from __future__ import annotations

import contextlib
import functools
import http
import io
import ipaddress
import logging
import os
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sim.errors import ModelError
from sim.model.checks import is_whole

if TYPE_CHECKING:
    from viser import ViserServer
    from websockets.datastructures import Headers

CLOSE_TIMEOUT = 0.2  # maximum time for browsers to close their connections when the viewer stops [s]


def is_own_page(headers: Headers, host: str) -> bool:
    """Return whether a request comes from the viewer's own page, or from no page at all.

    Args:
        headers: headers of the request.
        host: address that the viewer was asked to listen on.
    """
    if len(headers.get_all("Host")) != 1 or len(headers.get_all("Origin")) > 1:
        return False
    asked = urlsplit(f"//{headers['Host']}")
    origin = headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc.lower() != asked.netloc.lower():
        return False
    return _is_this_machine((asked.hostname or "").lower(), host.lower())


def _is_this_machine(name: str, host: str) -> bool:
    if name in ("localhost", host) or name in _names():
        return True
    try:
        ipaddress.ip_address(name)  # an IP address can't be an attacker's domain name
    except ValueError:
        return False
    return True


@functools.cache
def _names() -> frozenset[str]:
    """Return the names of this machine: bare, with the domain that its resolver knows, and with .local (mDNS).

    The bare name with any other domain may belong to an attacker.
    """
    machine = socket.gethostname().lower()
    return frozenset({machine, socket.getfqdn().lower(), f"{machine.partition('.')[0]}.local"})


@contextlib.contextmanager
def own_pages_only(host: str) -> Iterator[None]:
    """Make viser's servers reject requests of other pages, as a context manager.

    viser has no option for this, nor for the time that it waits for browsers to close their connections: both are
    options of the websockets function that it calls.

    Args:
        host: address that the viewer listens on.
    """
    from websockets.asyncio import server
    from websockets.protocol import State

    class PrivateServe(server.serve):
        def __init__(self, *arguments: Any, process_request: Any, **options: Any):
            def check(connection: Any, request: Any) -> Any:
                if is_own_page(request.headers, host):
                    return process_request(connection, request)
                return connection.respond(
                    http.HTTPStatus.FORBIDDEN, "Rejected: this viewer only accepts connections from its own page.\n"
                )

            options.update(process_request=check, close_timeout=CLOSE_TIMEOUT, logger=_logger())
            super().__init__(*arguments, **options)

        async def __aexit__(self, *error: Any) -> None:
            for connection in self.server.handlers:
                if connection.state is State.CONNECTING:  # websockets would wait ten seconds for a request
                    connection.transport.abort()
            await super().__aexit__(*error)

    original = server.serve
    server.serve = PrivateServe  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        server.serve = original  # type: ignore[misc]


def _logger() -> logging.Logger:
    """Return a logger without tracebacks of rejected or interrupted connections."""
    logger = logging.getLogger("backswing.viewer")
    if not logger.filters:
        logger.addFilter(lambda record: record.getMessage() != "opening handshake failed")
    return logger


def serve(host: str, port: int) -> ViserServer:
    """Start a server that accepts only its own page and never opens a public address.

    Args:
        host: address to listen on.
        port: port to listen on; 0 for any free port.

    Raises:
        ModelError: without the package viser, or if it cannot listen there.
    """
    try:
        import viser
    except ImportError:
        raise ModelError("the viewer needs the package viser: pip install 'backswing[view]'") from None
    if not is_whole(port, 0) or port > 65535:
        raise ModelError(f"Viewer: port is {port!r}; it must be an integer from 0 to 65535")
    try:
        # viser would use the next free port, and wait forever without one.
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error
        raise ModelError(
            f"Viewer: cannot listen on {host}, port {port}: {reason}; choose another port, or 0 for any"
        ) from None

    class PrivateServer(viser.ViserServer):
        """A viser server that can't be opened to the public from its page."""

        def request_share_url(self, verbose: bool = True) -> str | None:
            return None

        def disconnect_share_url(self) -> None:
            pass

    with quiet(), own_pages_only(host):
        return PrivateServer(host=host, port=int(port), verbose=False)


def address(server: ViserServer) -> str:
    """Return the URL of the page."""
    host = server.get_host()
    return f"http://{'localhost' if host in ('0.0.0.0', '127.0.0.1') else host}:{server.get_port()}"


def quiet() -> contextlib.AbstractContextManager[Any]:
    """Suppress viser's messages about its server, as a context manager."""
    return contextlib.redirect_stdout(io.StringIO())
