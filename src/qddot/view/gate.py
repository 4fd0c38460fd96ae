"""The gate before the view's server: who may load the page, and which messages it takes.

A browser lets any page send requests to servers of this machine, and a name of a stranger may
lead to 127.0.0.1. So nothing is served without the secret token in the address, to other names of
this server, or to pages of another origin; and of messages only those that the panel and the robot
need go on to viser.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import http
import io
import ipaddress
import logging
import math
import secrets
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from qddot.view.client import client_policy, other_viser, require_viser

__all__ = ["LOG", "Gate", "accepts", "open_server"]

LOG = logging.getLogger("qddot.view")
LOG.addHandler(logging.NullHandler())
_QUIET = logging.getLogger("qddot.view.server")
"""Logger of websockets: whatever strangers send to the port, the terminal stays as it is."""
_QUIET.propagate = False
_QUIET.addHandler(logging.NullHandler())
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_EVERYWHERE = ("", "0.0.0.0", "::")
_MOST_BYTES = 2**20
_MESSAGES = frozenset(
    (
        "GuiUpdateMessage",
        "TransformControlsDragEndMessage",
        "TransformControlsDragStartMessage",
        "TransformControlsUpdateMessage",
        "ViewerCameraMessage",
    )
)
"""Messages of the page that the view needs; not those that share it or upload files."""
_STARTING = threading.Lock()
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Gate:
    """The gate of one server: its token, its names, and the replacement of `websockets.serve`."""

    def __init__(self, host: str) -> None:
        self.host, self.port = host, 0
        self.token = secrets.token_urlsafe(16)
        self._policy = ""

    @property
    def url(self) -> str:
        """Address of the page, with the token."""
        host = "127.0.0.1" if self.host in _EVERYWHERE else self.host
        return f"http://{_bracketed(host)}:{self.port}/{self.token}/"

    def serves(self, host: str) -> bool:
        """Whether a Host header is a name of this server."""
        name, _, port = host.rpartition(":")
        if port != str(self.port):
            return False
        if name in _LOOPBACK or name == _bracketed(self.host).lower():
            return True
        if self.host not in _EVERYWHERE:
            return False
        # a name of a stranger cannot be an address, nor the name of this machine
        with contextlib.suppress(ValueError):
            return bool(ipaddress.ip_address(name.strip("[]")))
        return name in (socket.gethostname().lower(), socket.getfqdn().lower())

    def refusal(self, path: str, headers: Any) -> str | None:
        """Why a request is not answered, or None."""
        host, origins = headers.get_all("Host"), headers.get_all("Origin")
        if len(host) != 1 or not self.serves(host[0].lower()):
            return "This server has another name."
        # programs send no origin; a page has that of its own address
        if any(origin.lower() != f"http://{host[0].lower()}" for origin in origins):
            return "Pages of another origin are not served."
        # the text after the first slash, up to the next
        token = path.partition("?")[0].lstrip("/").partition("/")[0]
        if not hmac.compare_digest(token.encode(errors="replace"), self.token.encode()):
            return "Open the address that was printed, with the part after the port."
        return None

    def answer(self, serve_file: Callable[..., Any], connection: Any, request: Any) -> Any:
        """The answer to a request: a refusal, a file of the page, or None for a websocket."""
        refused = self.refusal(request.path, request.headers)
        if refused is None and request.headers.get("Upgrade") == "websocket":
            import viser

            offered = request.headers.get("Sec-WebSocket-Protocol", "")
            if offered != f"viser-v{viser.__version__}":
                refused = "The page is of another version: load it again."
        if refused is not None:
            return connection.respond(http.HTTPStatus.FORBIDDEN, refused + "\n")
        # files are those of the path after the token
        request.path = "/" + request.path.lstrip("/").partition("/")[2]
        response = serve_file(connection, request)
        if response is not None:
            for name, value in {**_HEADERS, "Content-Security-Policy": self._policy}.items():
                response.headers[name] = value
        return response

    def listen(
        self,
        serve: Callable[..., Any],
        handler: Callable[..., Awaitable[None]],
        *place: Any,
        **options: Any,
    ) -> Any:
        """Serve as viser asks, behind the gate."""
        from websockets.asyncio.server import ServerConnection

        serve_file = options.pop("process_request")

        class GuardedConnection(ServerConnection):
            """A connection from which only messages of the panel come."""

            async def recv(self, decode: bool | None = None) -> Any:
                """The next message that the view needs."""
                while True:
                    data = await super().recv(decode)
                    if accepts(data):
                        return data
                    LOG.info("a message of a page was ignored")

        async def handle(connection: Any) -> None:
            try:
                await handler(connection)
            except Exception as error:
                LOG.info("a connection ended: %s", error)

        def note(loop: asyncio.AbstractEventLoop, facts: dict[str, Any]) -> None:
            LOG.info("a message of a page was ignored: %s", facts.get("exception"))

        asyncio.get_running_loop().set_exception_handler(note)
        options |= {
            "create_connection": GuardedConnection,
            "logger": _QUIET,
            "max_size": _MOST_BYTES,
            "process_request": lambda *given: self.answer(serve_file, *given),
        }
        return serve(handle, *place, **options)

    def read_policy(self, page: Path) -> None:
        """Take the policy from the page that is served."""
        # 'self' includes the websocket of the same host and port
        self._policy = client_policy(page.read_text("utf-8"), connect_src="'self'")


def _bracketed(host: str) -> str:
    """A host as addresses write it."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def accepts(data: Any) -> bool:
    """Whether a message of a page is one that the view needs, with numbers that are finite."""
    from viser._messages import Message

    if not isinstance(data, bytes):
        return False
    try:
        message = Message.deserialize(data)
        facts = dict(vars(message))
        kind = type(message).__name__
    except Exception:  # what garbage makes the decoder raise is its own affair
        return False
    if kind not in _MESSAGES or not all(map(_is_finite, facts.values())):
        return False
    if kind == "GuiUpdateMessage":
        return isinstance(facts["uuid"], str) and set(facts["updates"]) == {"value"}
    if kind == "ViewerCameraMessage":
        return min(facts["image_width"], facts["image_height"]) > 0
    return isinstance(facts["name"], str)


def _is_finite(x: Any) -> bool:
    """Whether all numbers in a value are finite."""
    if isinstance(x, dict):
        return all(map(_is_finite, x.values()))
    if isinstance(x, list | tuple):
        return all(map(_is_finite, x))
    return not isinstance(x, float) or math.isfinite(x)


def open_server(host: str, port: int) -> tuple[Any, Gate]:
    """A viser server behind a gate, and the gate; refused where viser does not pass through it."""
    import viser
    import websockets.asyncio.server as websockets_server

    require_viser()
    gate, passed, serve = Gate(host), list[int](), websockets_server.serve

    def gated(handler: Callable[..., Awaitable[None]], *given: Any, **options: Any) -> Any:
        # servers that other threads of the program start meanwhile are their own affair
        if not handler.__qualname__.startswith("WebsockServer."):
            return serve(handler, *given, **options)
        passed.append(1)
        return gate.listen(serve, handler, *given, **options)

    # viser looks `serve` up when it starts, and prints a banner whatever it is told
    with _STARTING, contextlib.redirect_stdout(io.StringIO()):
        setattr(websockets_server, "serve", gated)  # noqa: B010
        try:
            server = viser.ViserServer(host=host, port=port, verbose=False)
        finally:
            setattr(websockets_server, "serve", serve)  # noqa: B010
    if not passed:
        server.stop()
        raise other_viser("its server does not pass through the gate of qddot")
    gate.read_policy(Path(viser.__file__).parent / "client" / "build" / "index.html")
    # until here the gate has no port, and refuses all
    gate.port = server.get_port()
    return server, gate
