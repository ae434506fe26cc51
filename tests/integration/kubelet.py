"""What a kubelet serves of the logs of its containers, for a real API server to pass on.

    GET /containerLogs/NAMESPACE/POD/CONTAINER?follow=true&previous=true&tailLines=N

over TLS, on the address and port that the Node names. Nothing of it stands for a container runtime:
a test says what containers have said.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


class Kubelet:
    """`said` has the lines of a container by (namespace, pod, container); `more` adds one to what
    is followed, `ended` ends it.
    """

    def __init__(self) -> None:
        self.said: dict[tuple[str, str, str], list[bytes]] = {}
        self.asked: list[str] = []
        self.changed = threading.Condition()
        self.over: set[tuple[str, str, str]] = set()

    def more(self, key: tuple[str, str, str], line: bytes) -> None:
        """The container says something."""
        with self.changed:
            self.said.setdefault(key, []).append(line)
            self.changed.notify_all()

    def ended(self, key: tuple[str, str, str]) -> None:
        """It says no more."""
        with self.changed:
            self.over.add(key)
            self.changed.notify_all()

    def lines(
        self, key: tuple[str, str, str], *, follow: bool, tail: int | None
    ) -> Iterator[bytes]:
        """What it has said, and when it is followed what it says until it has ended."""
        with self.changed:
            told = len(self.said.get(key, []))
            yield from self.said.get(key, [])[max(0, told - tail) if tail is not None else 0 :]
            while follow:
                yield from self.said.get(key, [])[told:]
                told = len(self.said.get(key, []))
                if key in self.over:
                    return
                self.changed.wait()


@contextmanager
def serving(kubelet: Kubelet, certificate: Path) -> Iterator[int]:
    """Serve on a port of the loopback; `certificate` has a key, too."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = {key: values[-1] for key, values in parse_qs(url.query).items()}
            kubelet.asked.append(self.path)
            _, kind, *key = url.path.split("/")
            if kind != "containerLogs" or len(key) != 3 or query.get("previous") == "true":
                self.send_error(400, "previous terminated container not found")
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            tail = int(query["tailLines"]) if "tailLines" in query else None
            follow = query.get("follow") == "true"
            for line in kubelet.lines((key[0], key[1], key[2]), follow=follow, tail=tail):
                self.wfile.write(line)
                self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
