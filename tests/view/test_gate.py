"""The gate of the view's server: who is answered, which messages pass, and what stays behind."""

from __future__ import annotations

import gc
import http.client
import importlib.util
import socket
import time
import weakref

import numpy as np
import pytest

import qddot
from qddot.errors import UnsupportedVersion

if importlib.util.find_spec("viser") is None:
    pytest.skip("viser is not installed", allow_module_level=True)

import msgspec
import viser
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import connect

import qddot.view.gate as gate_module
from qddot.view.browser import open_view
from qddot.view.gate import Gate, accepts

PROTOCOL = f"viser-v{viser.__version__}"
CAMERA = {
    "type": "ViewerCameraMessage", "wxyz": (1.0, 0.0, 0.0, 0.0), "position": (1.0, 1.0, 1.0),
    "fov": 1.0, "near": 0.1, "far": 100.0, "image_height": 800, "image_width": 1200,
    "look_at": (0.0, 0.0, 0.0), "up_direction": (0.0, 0.0, 1.0),
}  # fmt: skip


@pytest.fixture(scope="module")
def view():
    shown = open_view(qddot.load("planar_2r"), port=0)
    yield shown
    shown.close()


def pack(**fields) -> bytes:
    return msgspec.msgpack.encode(fields)


def get(view, path: str, **headers: str) -> http.client.HTTPResponse:
    """The answer to a request with these headers; Host is that of the address unless given."""
    port = view.gate.port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest("GET", path, skip_host=True)
    for name, value in {"Host": f"127.0.0.1:{port}", **headers}.items():
        connection.putheader(name.replace("_", "-"), value.format(port=port))
    connection.endheaders()
    return connection.getresponse()


def listen(view, path: str | None = None, origin: str | None = None, protocol: str = PROTOCOL):
    port = view.gate.port
    path = f"/{view.gate.token}" if path is None else path
    own = None if origin is None else origin.format(port=port)
    return connect(
        f"ws://127.0.0.1:{port}{path}", origin=own, subprotocols=[protocol], compression=None,
        open_timeout=10, max_size=None,
    )  # fmt: skip


def test_the_page_is_served_to_its_own_address_alone(view):
    path, port = f"/{view.gate.token}/", view.gate.port
    assert view.url == f"http://127.0.0.1:{port}{path}"
    for host in ("127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"):
        answer = get(view, path, Host=host)
        assert answer.status == 200
        assert "script-src 'sha256-" in answer.headers["Content-Security-Policy"]
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert b"<title>Viser</title>" in answer.read()
    assert get(view, path, Origin="http://127.0.0.1:{port}").status == 200


@pytest.mark.parametrize("path", ["/", "/index.html", "/wrong/", "/wrong", "//", "/%00", "/é"])
def test_nothing_is_served_without_the_token(view, path):
    for given in (path, path + view.gate.token[:-1], path + view.gate.token.swapcase() + "/"):
        raw = given.encode().decode("latin-1")
        text = f"GET {raw} HTTP/1.1\r\nHost: 127.0.0.1:{view.gate.port}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", view.gate.port), timeout=10) as stream:
            stream.sendall(text.encode("latin-1"))
            answer = stream.makefile("rb").read()
        assert not answer.startswith(b"HTTP/1.1 200")
        assert b"<title>" not in answer
        if path.isascii():
            with pytest.raises(InvalidStatus, match="403"):
                listen(view, given)


@pytest.mark.parametrize(
    "host",
    ["evil.example:{port}", "evil.example", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.nip.io:{port}",
     "10.0.0.1:{port}", "localhost.:{port}", "", "a@127.0.0.1:{port}", "[::2]:{port}"],
)  # fmt: skip
def test_a_foreign_name_is_refused(view, host):
    # the name of a stranger that leads to this machine
    answer = get(view, f"/{view.gate.token}/", Host=host)
    assert answer.status == 403
    assert b"<title>" not in answer.read()


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "http://evil.example:{port}", "null", "http://127.0.0.1",
     "http://127.0.0.1:1", "https://127.0.0.1:{port}", "http://localhost:{port}", "file://"],
)  # fmt: skip
def test_a_foreign_page_is_refused(view, origin):
    with pytest.raises(InvalidStatus, match="403"):
        listen(view, origin=origin)
    assert get(view, f"/{view.gate.token}/", Origin=origin).status == 403


def test_its_own_page_and_programs_are_answered(view):
    for origin in ("http://127.0.0.1:{port}", None):
        with listen(view, origin=origin) as page:
            assert page.recv(timeout=10)


def test_a_page_of_another_version_is_refused(view, capfd):
    with pytest.raises(InvalidStatus, match="403"):
        listen(view, protocol="viser-v0.0.1")
    assert capfd.readouterr() == ("", "")


def test_names_of_a_server_for_the_network():
    gate = Gate("0.0.0.0")
    gate.port = 80
    assert gate.url == f"http://127.0.0.1:80/{gate.token}/"
    assert all(map(gate.serves, ("192.168.0.7:80", "[fe80::1]:80", "localhost:80")))
    assert gate.serves(f"{socket.gethostname().lower()}:80")
    assert not any(map(gate.serves, ("evil.example:80", "192.168.0.7:81", "192.168.0.7", ":80")))
    named = Gate("::1")
    named.port = 80
    assert named.url == f"http://[::1]:80/{named.token}/"
    assert Gate("127.0.0.1").token != gate.token
    assert not Gate("127.0.0.1").serves("127.0.0.1:8080"), "it has no port yet"


def slider(view) -> str:
    return view.panel._sliders[0]._impl.uuid


GARBAGE = {
    "text": lambda view: "text",
    "bytes": lambda view: b"\xc1\x00\xff",
    "nothing": lambda view: b"",
    "a list": lambda view: msgspec.msgpack.encode([1, 2]),
    "deep": lambda view: b"\x91" * 100_000 + b"\xc0",
    "no type": lambda view: pack(a=1),
    "an unknown type": lambda view: pack(type="None"),
    "a type with other fields": lambda view: pack(type="ViewerCameraMessage", wxyz=1),
    "a camera without a page": lambda view: pack(**{**CAMERA, "image_height": 0}),
    "a camera of text": lambda view: pack(**{**CAMERA, "image_height": "a", "wxyz": ["a"] * 4}),
    "a camera nowhere": lambda view: pack(**{**CAMERA, "position": (np.nan, 0.0, 0.0)}),
    "to be shared": lambda view: pack(type="ShareUrlRequest"),
    "an upload": lambda view: pack(
        type="FileTransferStartUpload", source_component_uuid=slider(view), transfer_uuid="a",
        filename="f", mime_type="m", part_count=2, size_bytes=2**40,
    ),
    "another property": lambda view: pack(
        type="GuiUpdateMessage", uuid=slider(view), updates={"update_cb": []}
    ),
    "no control": lambda view: pack(type="GuiUpdateMessage", uuid="x", updates={"value": 1}),
    "text for a number": lambda view: pack(
        type="GuiUpdateMessage", uuid=slider(view), updates={"value": "a"}
    ),
    "no number": lambda view: pack(
        type="GuiUpdateMessage", uuid=slider(view), updates={"value": np.inf}
    ),
    "a number far out": lambda view: pack(
        type="GuiUpdateMessage", uuid=slider(view), updates={"value": 1e300}
    ),
    "another option": lambda view: pack(
        type="GuiUpdateMessage", uuid=view.panel._ellipsoid._impl.uuid, updates={"value": "x"}
    ),
    "a handle far out": lambda view: pack(
        type="TransformControlsUpdateMessage", name="/tool", wxyz=(0.0,) * 4, position=(1e300,) * 3
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_is_ignored_in_silence(view, capfd, kind):
    with listen(view) as page:
        page.recv(timeout=10)
        page.send(pack(**CAMERA))
        page.send(GARBAGE[kind](view))
        # the connection lives: what is sent after it arrives
        box, done = view.panel._shown["body names"], time.monotonic() + 10
        wanted = not box.value
        page.send(pack(type="GuiUpdateMessage", uuid=box._impl.uuid, updates={"value": wanted}))
        while box.value != wanted and time.monotonic() < done:
            time.sleep(0.01)
    assert box.value == wanted
    view.draw()
    assert np.isfinite(view.q).all()
    assert view._thread.is_alive()
    assert view.server._share_tunnel is None
    assert not view.server.gui._current_file_upload_states
    gc.collect()
    assert capfd.readouterr() == ("", "")


def test_a_message_larger_than_any_of_the_panel_ends_the_connection(view, capfd):
    with listen(view) as page:
        page.send(b"\x00" * (2**20 + 1))
        with pytest.raises(ConnectionClosedError):
            list(page)
    for request in (b"\x00\xff\r\n\r\n", b"GET", b"POST / HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", view.gate.port), timeout=10) as stream:
            stream.sendall(request)
    assert capfd.readouterr() == ("", "")


def test_messages_of_the_panel_pass():
    assert accepts(pack(**CAMERA))
    assert accepts(pack(type="GuiUpdateMessage", uuid="a", updates={"value": 1}))
    assert accepts(pack(type="TransformControlsDragEndMessage", name="/tool", owner=""))


def test_memory_of_closed_connections_is_freed(view):
    server, seen = view.server._websock_server, list[weakref.ref]()

    @server.on_client_connect
    def _(connection):
        seen.extend(map(weakref.ref, (connection, connection.get_message_buffer())))

    for k in range(60):
        page = listen(view)
        page.recv(timeout=10)
        page.send(pack(**CAMERA))
        if k % 3 == 0:
            page.send(b"garbage")
        if k % 2:
            page.close()
        else:
            # a page that is gone without a word
            page.socket.shutdown(socket.SHUT_RDWR)
    done = time.monotonic() + 20
    while time.monotonic() < done:
        gc.collect()
        alive = [ref for ref in seen if ref() is not None]
        if not server._live_connections and len(alive) <= 4:
            break
        time.sleep(0.05)
    assert not server._live_connections
    assert not server._client_state_from_id
    assert not server._broadcast_buffer.generator_cursors
    assert not view.server.get_clients()
    # the last ones may be held by threads that wait for work
    assert len(seen) == 120
    assert len(alive) <= 4


def test_a_viser_that_passes_by_the_gate_is_refused(monkeypatch):
    import viser.infra._infra as infra
    import websockets.asyncio.server as websockets_server

    class Elsewhere:
        """A namespace in which viser would find another `serve`."""

        def __getattr__(self, name):
            return getattr(__import__("websockets"), name)

        class asyncio:  # noqa: N801
            class server:  # noqa: N801
                serve = websockets_server.serve
                ServerConnection = websockets_server.ServerConnection

    monkeypatch.setattr(infra, "websockets", Elsewhere())
    with pytest.raises(UnsupportedVersion, match="does not pass through the gate"):
        open_view(qddot.load("planar_2r"), port=0)


def test_an_unknown_version_of_viser_is_refused(monkeypatch):
    monkeypatch.setattr(viser, "__version__", "1.2.0")
    with pytest.raises(UnsupportedVersion, match=r"it is 1\.2\.0; pip install 'viser>="):
        gate_module.open_server("127.0.0.1", 0)
