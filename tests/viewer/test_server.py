"""Who may connect to the viewer, what they may ask for, and how soon it stops."""

import base64
import http.client
import importlib.metadata
import socket
import time

import msgspec
import pytest
import viser._viser
from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from sim.viewer import Viewer, server
from sim.viewer.server import is_own_page
from tests.viewer.worlds import arm_and_box

SUBPROTOCOL = f"viser-v{importlib.metadata.version('viser')}"


@pytest.fixture
def viewer():
    with Viewer(arm_and_box(), port=0) as viewer:
        yield viewer


def port_of(viewer):
    return int(viewer.url.rpartition(":")[2])


@pytest.mark.parametrize("origin", [None, "http://localhost:{port}"])
def test_its_own_page_may_connect(origin, viewer):
    url = viewer.url.replace("http", "ws")
    given = None if origin is None else origin.format(port=port_of(viewer))
    with connect(url, origin=given, subprotocols=[SUBPROTOCOL]) as connection:
        assert connection.recv(timeout=5.0)


@pytest.mark.parametrize("origin", ["http://elsewhere.example", "null", "http://localhost", "http://127.0.0.1:{port}"])
def test_other_pages_may_not(origin, viewer):
    url = viewer.url.replace("http", "ws")
    with pytest.raises(InvalidStatus) as caught:
        connect(url, origin=origin.format(port=port_of(viewer)), subprotocols=[SUBPROTOCOL])
    assert caught.value.response.status_code == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://elsewhere.example"}, 403),
        ({"Host": "elsewhere.example:{port}"}, 403),
        ({"Host": "elsewhere.example:{port}", "Origin": "http://elsewhere.example:{port}"}, 403),
    ],
)
def test_pages_are_served_to_its_own_address_only(headers, status, viewer):
    port = port_of(viewer)
    client = http.client.HTTPConnection("localhost", port, timeout=5.0)
    client.request("GET", "/", headers={name: value.format(port=port) for name, value in headers.items()})
    assert client.getresponse().status == status
    client.close()


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("localhost:8080", True),
        ("127.0.0.1:9000", True),  # forwarded from another port
        ("192.168.1.7:8080", True),
        ("[::1]:8080", True),
        ("robot7:8080", True),
        ("robot7.lan:8080", True),  # in the domain of its network
        ("ROBOT7.local:8080", True),
        ("robot7.elsewhere.example:8080", False),  # an attacker's, that begins with its name
        ("robot7.lan.elsewhere.example:8080", False),
        ("robot.example:8080", True),  # what it was asked to listen on
        ("elsewhere.example:8080", False),
        ("127.0.0.1.elsewhere.example:8080", False),
        ("localhost.elsewhere.example:8080", False),
        ("", False),
    ],
)
def test_names_of_this_machine(name, own, monkeypatch):
    monkeypatch.setattr(server, "_names", server._names.__wrapped__)
    monkeypatch.setattr(socket, "gethostname", lambda: "Robot7")
    monkeypatch.setattr(socket, "getfqdn", lambda: "robot7.lan")
    assert is_own_page(Headers({"Host": name}), "robot.example") == own
    assert is_own_page(Headers({"Host": name, "Origin": f"http://{name}"}), "robot.example") == own
    assert not is_own_page(Headers({"Host": name, "Origin": "http://elsewhere.example:8080"}), "robot.example")


def test_requests_without_one_host_are_refused():
    twice = Headers([("Host", "localhost:8080"), ("Host", "elsewhere.example")])
    assert not is_own_page(twice, "127.0.0.1")
    assert not is_own_page(Headers(), "127.0.0.1")


def test_nobody_opens_it_to_the_public(monkeypatch, viewer):
    opened = []
    monkeypatch.setattr(viser._viser, "ViserTunnel", lambda *given: opened.append(given))
    with connect(viewer.url.replace("http", "ws"), subprotocols=[SUBPROTOCOL]) as connection:
        connection.recv(timeout=5.0)
        for request in ("ShareUrlRequest", "ShareUrlDisconnect"):
            connection.send(msgspec.msgpack.encode({"type": request}))
        time.sleep(0.5)
    assert opened == []
    assert viewer._server.request_share_url() is None


def test_stops_within_a_second_though_browsers_do_not_answer():
    viewer = Viewer(arm_and_box(), port=0)
    port = port_of(viewer)
    browsers = [socket.create_connection(("localhost", port), 5.0) for _ in range(3)]
    for browser in browsers[1:]:  # the first has not asked for anything yet
        browser.sendall(
            f"GET / HTTP/1.1\r\nHost: localhost:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Protocol: {SUBPROTOCOL}\r\n\r\n".encode()
        )
        assert b"101 Switching Protocols" in browser.recv(1000)
    began = time.perf_counter()
    viewer.close()
    assert time.perf_counter() - began < 1.0
    for browser in browsers:
        browser.close()
